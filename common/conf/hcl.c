/* Tokens of the rules' language to a tree, by recursive descent; comments are told apart by what they stand next to. */
#include "common/conf/hcl_int.h"
#include "common/base/assert.h"
#include "common/base/hex.h"

struct parser {
	struct hcl_scanner scan;
	struct hcl_token tok;	/* read last */
	bool again;		/* tok is to be read once more */
	unsigned depth;
	struct arena *arena;
	struct hcl_comments *first, *last;	/* groups so far */
	struct hcl_comments *lead;	/* on the lines above what comes next */
	struct hcl_comments *trail;	/* behind what was read, on its line */
};

static bool parse_value(struct parser *ps, struct hcl_value *v);
static bool parse_braces(struct parser *ps, struct hcl_value *v);

static bool
fail_parse(struct parser *ps, struct hcl_pos pos, const char *what)
{
	hcl_fail(&ps->scan, TV_EFORMAT, pos, "%s", what);
	return false;
}

static void *
node(struct parser *ps, size_t n)
{
	void *p = arena_alloc(ps->arena, n);

	if (p == NULL)
		hcl_fail(&ps->scan, TV_ENOMEM, ps->tok.pos, "out of memory");
	return p;
}

/* -- tokens and comments */

/* The lines that a comment adds to its own. */
static uint32_t
lines_in(struct span text)
{
	uint32_t n = 0;

	for (size_t i = 0; text.len > 1 && text.p[1] == '*' && i < text.len; i++)
		n += text.p[i] == '\n';
	return n;
}

/* Comments from the current token on, each at most `gap` lines behind the last one; *end is the line where they end. */
static struct hcl_comments *
comment_group(struct parser *ps, uint32_t gap, uint32_t *end)
{
	struct hcl_comments *group = node(ps, sizeof(*group));

	*end = ps->tok.pos.line;
	while (group != NULL && ps->tok.type == HT_COMMENT && ps->tok.pos.line <= *end + gap) {
		struct hcl_comment *c = node(ps, sizeof(*c));

		if (c == NULL)
			return NULL;
		c->pos = ps->tok.pos;
		c->text = ps->tok.text;
		if (group->last == NULL)
			group->first = c;
		else
			group->last->next = c;
		group->last = c;
		*end = c->pos.line + lines_in(c->text);
		ps->tok = hcl_scan(&ps->scan);
	}
	if (group == NULL)
		return NULL;
	if (ps->last == NULL)
		ps->first = group;
	else
		ps->last->next = group;
	return ps->last = group;
}

static void
skip_comments(struct parser *ps, uint32_t last_line)
{
	struct hcl_comments *group = NULL;
	uint32_t end = 0;

	if (ps->tok.pos.line == last_line) {
		if ((group = comment_group(ps, 0, &end)) == NULL)
			return;
		if (ps->tok.pos.line != end)
			ps->trail = group;
	}
	end = 0;
	while (ps->tok.type == HT_COMMENT) {
		if ((group = comment_group(ps, 1, &end)) == NULL)
			return;
	}
	if (end > 0 && end + 1 == ps->tok.pos.line && ps->tok.type != HT_RBRACE && ps->tok.type != HT_RBRACK)
		ps->lead = group;
}

static enum hcl_token_type
scan(struct parser *ps)
{
	uint32_t last_line = ps->tok.pos.line;

	if (!ps->again) {
		ps->tok = hcl_scan(&ps->scan);
		if (ps->tok.type == HT_COMMENT)
			skip_comments(ps, last_line);
	}
	ps->again = false;
	if (ps->scan.failed != TV_OK)
		ps->tok.type = HT_BAD;
	return ps->tok.type;
}

static void
unscan(struct parser *ps)
{
	ps->again = true;
}

static struct hcl_comments *
take_comments(struct hcl_comments **from)
{
	struct hcl_comments *group = *from;

	if (group != NULL)
		group->attached = true;
	*from = NULL;
	return group;
}

/* -- objects */

static void
add_key(struct parser *ps, struct hcl_item *item, struct hcl_key ***tail)
{
	struct hcl_key *key = node(ps, sizeof(*key));

	if (key == NULL)
		return;
	*key = (struct hcl_key){ ps->tok.pos, ps->tok.pos.line, ps->tok.text, ps->tok.type == HT_STRING, NULL };
	**tail = key;
	*tail = &key->next;
	item->nkeys++;
}

/* The first names of an item, up to its sign or brace. */
static bool
parse_keys(struct parser *ps, struct hcl_item *item)
{
	struct hcl_key **tail = &item->keys;

	for (;;) {
		switch (scan(ps)) {
		case HT_IDENT:
		case HT_STRING:
			add_key(ps, item, &tail);
			break;
		case HT_ASSIGN:
			if (item->nkeys == 0)
				return fail_parse(ps, ps->tok.pos, "no object keys found!");
			if (item->nkeys > 1)
				return fail_parse(ps, ps->tok.pos, "nested object expected: LBRACE got: ASSIGN");
			return true;
		case HT_LBRACE:
			if (item->nkeys == 0)
				return fail_parse(ps, ps->tok.pos, "expected: IDENT | STRING got: LBRACE");
			return true;
		case HT_BAD:
			return false;
		case HT_EOF:
		case HT_RBRACE:
			if (item->nkeys > 0)
				return true;
			/* fallthrough */
		default:
			hcl_fail(&ps->scan, TV_EFORMAT, ps->tok.pos,
			    "expected: IDENT | STRING | ASSIGN | LBRACE got: %s",
			    hcl_token_name(ps->tok.type));
			return false;
		}
	}
}

static bool
no_value(struct parser *ps, const struct hcl_item *item)
{
	uint8_t text[80];
	struct buf names = { text, 0, sizeof(text), sizeof(text), false, false };

	for (const struct hcl_key *key = item->keys; key != NULL; key = key->next) {
		if (names.len + key->text.len >= sizeof(text))
			break;
		if (key != item->keys)
			buf_u8(&names, ' ');
		buf_putspan(&names, key->text);
	}
	hcl_fail(&ps->scan, TV_EFORMAT, ps->tok.pos, "key '%.*s' expected start of object ('{') or assignment ('=')",
	    (int)names.len, (const char *)text);
	return false;
}

static bool
parse_item(struct parser *ps, struct hcl_item *item)
{
	struct hcl_value *v;

	if (!parse_keys(ps, item))
		return false;
	item->lead = take_comments(&ps->lead);
	if ((item->value = v = node(ps, sizeof(*v))) == NULL)
		return false;
	if (ps->tok.type == HT_ASSIGN) {
		item->assign = true;
		if (!parse_value(ps, v))
			return false;
	} else if (ps->tok.type != HT_LBRACE) {
		return no_value(ps, item);
	} else if (!parse_braces(ps, v)) {
		return false;
	}
	item->trail = take_comments(&ps->trail);
	scan(ps);
	if (ps->trail != NULL && v->pos.line == item->keys->pos.line) {
		if (item->trail != NULL)
			item->trail->attached = false;
		item->trail = take_comments(&ps->trail);
	}
	unscan(ps);
	return true;
}

/* Items up to a brace, or to the end; that token is read again. */
static bool
parse_items(struct parser *ps, struct hcl_item **tail, bool braces)
{
	for (;;) {
		enum hcl_token_type type = scan(ps);
		struct hcl_item *item;

		unscan(ps);
		if (type == HT_BAD)
			return false;
		if ((type == HT_RBRACE && braces) || type == HT_EOF)
			return true;
		if ((item = node(ps, sizeof(*item))) == NULL || !parse_item(ps, item))
			return false;
		*tail = item;
		tail = &item->next;
		if (scan(ps) != HT_COMMA)
			unscan(ps);
	}
}

static bool
deeper(struct parser *ps)
{
	if (++ps->depth <= HCL_DEPTH_MAX)
		return true;
	hcl_fail(&ps->scan, TV_ELIMIT, ps->tok.pos, "more than %d blocks and lists in each other", HCL_DEPTH_MAX);
	return false;
}

/* An object; its opening brace was read. */
static bool
parse_braces(struct parser *ps, struct hcl_value *v)
{
	const struct hcl_comments *last = ps->last;

	v->type = HCL_OBJECT;
	v->pos = ps->tok.pos;
	v->line = v->pos.line;
	if (!deeper(ps) || !parse_items(ps, &v->items, true))
		return false;
	/* At the end of the text this reads the end once more, which counts as a column, as it does elsewhere. */
	ps->again = ps->again && ps->tok.type != HT_EOF;
	if (scan(ps) == HT_BAD)
		return false;
	if (ps->tok.type != HT_RBRACE) {
		hcl_fail(&ps->scan, TV_EFORMAT, ps->tok.pos, "object expected closing RBRACE got: %s",
		    hcl_token_name(ps->tok.type));
		return false;
	}
	v->end = ps->tok.pos;
	v->comments = ps->last != last;
	ps->depth--;
	return true;
}

/* -- lists and scalars */

/* A value of a list; its first token was read. */
static bool
parse_element(struct parser *ps, struct hcl_value *v)
{
	bool scalar = ps->tok.type != HT_LBRACE && ps->tok.type != HT_LBRACK;

	unscan(ps);
	if (!parse_value(ps, v))
		return false;
	if (scalar)
		v->lead = take_comments(&ps->lead);
	return true;
}

static bool
parse_list(struct parser *ps, struct hcl_value *list)
{
	struct hcl_value **tail = &list->values, *last = NULL;
	bool comma = false;		/* one must come before the next value */

	list->type = HCL_LIST;
	list->pos = ps->tok.pos;
	list->line = list->pos.line;
	if (!deeper(ps))
		return false;
	for (;;) {
		switch (scan(ps)) {
		case HT_RBRACK:
			list->end = ps->tok.pos;
			ps->depth--;
			return true;
		case HT_COMMA:
			comma = false;
			scan(ps);
			unscan(ps);
			if (ps->trail != NULL && last != NULL && last->type != HCL_OBJECT && last->type != HCL_LIST)
				last->trail = take_comments(&ps->trail);
			break;
		case HT_BAD:
			return false;
		default:
			if (comma) {
				hcl_fail(&ps->scan, TV_EFORMAT, ps->tok.pos,
				    "error parsing list, expected comma or list end, got: %s",
				    hcl_token_name(ps->tok.type));
				return false;
			}
			if ((last = node(ps, sizeof(*last))) == NULL || !parse_element(ps, last))
				return false;
			*tail = last;
			tail = &last->next;
			comma = true;
		}
	}
}

static bool
parse_value(struct parser *ps, struct hcl_value *v)
{
	switch (scan(ps)) {
	case HT_STRING:
	case HT_HEREDOC: v->type = HCL_STRING; break;
	case HT_NUMBER: v->type = HCL_NUMBER; break;
	case HT_BOOL: v->type = HCL_BOOL; break;
	case HT_NULL: v->type = HCL_NULL; break;
	case HT_LBRACE: return parse_braces(ps, v);
	case HT_LBRACK: return parse_list(ps, v);
	case HT_BAD: return false;
	default:
		hcl_fail(&ps->scan, TV_EFORMAT, ps->tok.pos,
		    "expected a value (text in quotes, a number, a block or a list), got: %s",
		    hcl_token_name(ps->tok.type));
		return false;
	}
	v->pos = ps->tok.pos;
	v->line = v->pos.line;
	v->text = v->type == HCL_NULL ? SPAN_NONE : ps->tok.text;
	return true;
}

/* -- JSON: the same tree, without comments and without places that layout could follow */

static bool json_value(struct parser *ps, struct hcl_value *v);

static bool
expect(struct parser *ps, enum hcl_token_type type)
{
	if (scan(ps) == type)
		return true;
	hcl_fail(&ps->scan, TV_EFORMAT, ps->tok.pos, "expected: %s got: %s", hcl_token_name(type),
	    hcl_token_name(ps->tok.type));
	return false;
}

/* True for a comma, false for the closing sign or with a failure. */
static bool
json_more(struct parser *ps, enum hcl_token_type close)
{
	if (scan(ps) == HT_COMMA)
		return true;
	if (ps->tok.type != close)
		hcl_fail(&ps->scan, TV_EFORMAT, ps->tok.pos, "expected: COMMA | %s got: %s", hcl_token_name(close),
		    hcl_token_name(ps->tok.type));
	return false;
}

static bool
json_object(struct parser *ps, struct hcl_item **tail)
{
	if (scan(ps) == HT_RBRACE)
		return true;
	unscan(ps);
	do {
		struct hcl_item *item = node(ps, sizeof(*item));
		struct hcl_key **keys = item == NULL ? NULL : &item->keys;

		if (item == NULL || !expect(ps, HT_STRING))
			return false;
		add_key(ps, item, &keys);
		if (item->keys == NULL || !expect(ps, HT_COLON) || (item->value = node(ps,
		    sizeof(*item->value))) == NULL ||
		    !json_value(ps, item->value))
			return false;
		item->keys->pos = (struct hcl_pos){ 0, 0, 0 };
		item->assign = true;
		*tail = item;
		tail = &item->next;
	} while (json_more(ps, HT_RBRACE));
	return ps->scan.failed == TV_OK;
}

static bool
json_list(struct parser *ps, struct hcl_value **tail)
{
	if (scan(ps) == HT_RBRACK)
		return true;
	unscan(ps);
	do {
		struct hcl_value *v = node(ps, sizeof(*v));

		if (v == NULL || !json_value(ps, v))
			return false;
		*tail = v;
		tail = &v->next;
	} while (json_more(ps, HT_RBRACK));
	return ps->scan.failed == TV_OK;
}

static bool
json_value(struct parser *ps, struct hcl_value *v)
{
	bool done;

	if (scan(ps) == HT_LBRACE || ps->tok.type == HT_LBRACK) {
		v->type = ps->tok.type == HT_LBRACE ? HCL_OBJECT : HCL_LIST;
		v->line = ps->tok.pos.line;
		if (!deeper(ps))
			return false;
		done = v->type == HCL_OBJECT ? json_object(ps, &v->items) : json_list(ps, &v->values);
		ps->depth--;
		return done;
	}
	unscan(ps);
	done = parse_value(ps, v);
	v->pos = (struct hcl_pos){ 0, 0, 0 };
	return done;
}

static bool
begins_with_brace(struct span text)
{
	for (size_t i = 0; i < text.len; i++) {
		if (text.p[i] != ' ' && (text.p[i] < '\t' || text.p[i] > '\r'))
			return text.p[i] == '{';
	}
	return false;
}

enum tv_err
hcl_parse(struct span text, struct arena *a, struct hcl_file *file, struct hcl_error *err)
{
	struct parser ps = { .arena = a };
	struct hcl_value root = { 0 };
	bool good;

	TV_ASSERT(text.len < UINT32_MAX / 2);
	*file = (struct hcl_file){ .json = begins_with_brace(text) };
	hcl_scan_start(&ps.scan, text, file->json, err);
	if (file->json) {
		good = json_value(&ps, &root) && expect(&ps, HT_EOF);
		file->items = root.items;
	} else {
		good = parse_items(&ps, &file->items, false);
		file->comments = ps.first;
	}
	/* A scan that failed at a token that no parser read is an error, too. */
	TV_ASSERT(good || ps.scan.failed != TV_OK);
	return ps.scan.failed;
}

/* -- what quoted text means */

static void
put_utf8(struct buf *out, uint32_t c)
{
	if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		c = 0xfffd;
	if (c < 0x80) {
		buf_u8(out, (uint8_t)c);
	} else if (c < 0x800) {
		buf_u8(out, (uint8_t)(0xc0 | c >> 6));
	} else if (c < 0x10000) {
		buf_u8(out, (uint8_t)(0xe0 | c >> 12));
		buf_u8(out, (uint8_t)(0x80 | (c >> 6 & 0x3f)));
	} else {
		buf_u8(out, (uint8_t)(0xf0 | c >> 18));
		buf_u8(out, (uint8_t)(0x80 | (c >> 12 & 0x3f)));
		buf_u8(out, (uint8_t)(0x80 | (c >> 6 & 0x3f)));
	}
	if (c >= 0x80)
		buf_u8(out, (uint8_t)(0x80 | (c & 0x3f)));
}

static uint32_t
digits(struct rd *r, unsigned base, unsigned n)
{
	uint32_t v = 0;

	while (n-- > 0) {
		int d = hex_value(rd_u8(r));

		if (d < 0 || d >= (int)base)
			rd_fail(r, TV_EFORMAT);
		v = v * base + (uint32_t)(d < 0 ? 0 : d);
	}
	return v;
}

/* \uXXXX of JSON; two of them when they are the halves of one character. */
static void
put_json_u(struct rd *r, struct buf *out)
{
	uint32_t c = digits(r, 16, 4), low;
	struct rd look = *r;

	if (c >= 0xd800 && c <= 0xdbff && rd_left(r) >= 6 && rd_u8(&look) == '\\' && rd_u8(&look) == 'u') {
		low = digits(&look, 16, 4);
		if (look.err == TV_OK && low >= 0xdc00 && low <= 0xdfff) {
			*r = look;
			c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		}
	}
	put_utf8(out, c);
}

/* An escape; its backslash was read. */
static void
put_escape(struct rd *r, bool json, struct buf *out)
{
	static const char from[] = "abfnrtv\\\"/", to[] = "\a\b\f\n\r\t\v\\\"/";
	uint8_t c = rd_u8(r);
	const char *simple = c == '\0' ? NULL : strchr(from, c);

	if (simple != NULL) {
		buf_u8(out, (uint8_t)to[simple - from]);
	} else if (c == 'u' && json) {
		put_json_u(r, out);
	} else if (c == 'u' || c == 'U') {
		put_utf8(out, digits(r, 16, c == 'u' ? 4 : 8));
	} else if (c == 'x') {
		buf_u8(out, (uint8_t)digits(r, 16, 2));
	} else if (c >= '0' && c <= '3') {
		buf_u8(out, (uint8_t)((unsigned)(c - '0') << 6 | digits(r, 8, 2)));
	} else {
		rd_fail(r, TV_EFORMAT);
	}
}

bool
hcl_is_heredoc(const struct hcl_value *v)
{
	return v->type == HCL_STRING && v->text.len > 0 && v->text.p[0] == '<';
}

static size_t
indented(struct span line)
{
	size_t n = 0;

	while (n < line.len && (line.p[n] == ' ' || line.p[n] == '\t'))
		n++;
	return n;
}

/* Up to a newline, which is part of it; *rest is what is behind it. */
static struct span
take_line(struct span *rest)
{
	const uint8_t *end = rest->len == 0 ? NULL : memchr(rest->p, '\n', rest->len);
	struct span line = span_of(rest->p, end == NULL ? rest->len : (size_t)(end - rest->p) + 1);

	*rest = span_of(rest->p + line.len, rest->len - line.len);
	return line;
}

/* Its lines, each with its newline, without the first one and the mark. */
static bool
heredoc_text(struct span text, struct arena *a, struct span *out)
{
	bool cut = text.p[2] == '-';
	struct span lines, rest, line, mark;
	struct buf b;

	(void)take_line(&text);
	lines = rest = text;
	for (mark = SPAN_NONE; rest.len > 0;)
		mark = take_line(&rest);
	lines.len -= mark.len;
	*out = lines;
	mark.len = indented(mark);
	for (rest = lines; cut && rest.len > 0;) {
		line = take_line(&rest);
		cut = line.len >= mark.len && memcmp(line.p, mark.p, mark.len) == 0;
	}
	if (!cut || mark.len == 0 || lines.len == 0)
		return true;
	b = (struct buf){ arena_alloc(a, lines.len), 0, lines.len, lines.len, false, false };
	if (b.data == NULL)
		return false;
	for (rest = lines; rest.len > 0;) {
		line = take_line(&rest);
		buf_putspan(&b, span_of(line.p + mark.len, line.len - mark.len));
	}
	*out = buf_span(&b);
	return !b.failed;
}

bool
hcl_unquote(struct span text, bool quoted, bool json, struct arena *a, struct span *out)
{
	struct rd r = rd_span_over(text);
	struct buf b;
	unsigned braces = 0;

	*out = text;
	if (!quoted)
		return true;
	if (text.len > 2 && text.p[0] == '<')
		return heredoc_text(text, a, out);
	TV_ASSERT(text.len >= 2 && text.p[0] == '"' && text.p[text.len - 1] == '"');
	r.p++;
	r.end--;
	*out = span_of(r.p, text.len - 2);
	if (memchr(out->p, '\\', out->len) == NULL)
		return true;
	/* The text never grows: an escape is longer than what it stands for. */
	b = (struct buf){ arena_alloc(a, out->len), 0, out->len, out->len, false, false };
	if (b.data == NULL)
		return false;
	while (rd_left(&r) > 0) {
		uint8_t c = rd_u8(&r);

		if (!json && braces == 0 && c == '$' && rd_left(&r) > 0 && *r.p == '{') {
			buf_u8(&b, c);
			c = rd_u8(&r);
			braces = 1;
		} else if (braces > 0) {
			braces += c == '{' ? 1 : c == '}' ? -1u : 0;
		}
		if (c == '\\' && braces == 0)
			put_escape(&r, json, &b);
		else
			buf_u8(&b, c);
	}
	*out = buf_span(&b);
	return r.err == TV_OK && !b.failed;
}
