/* Reader of configuration text: a recursive descent over bounded input. */
#include <stdarg.h>
#include <stdio.h>

#include "common/base/hex.h"
#include "common/conf/ucl.h"

struct parser {
	const uint8_t *p, *end;
	unsigned line, depth;
	struct arena *arena;
	struct ucl_error *err;
};

static enum tv_err parse_value(struct parser *ps, struct ucl_node *n);

static enum tv_err __attribute__((format(printf, 3, 4)))
fail_here(struct parser *ps, enum tv_err err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ps->err->text, sizeof(ps->err->text), fmt, ap);
	va_end(ap);
	ps->err->line = ps->line;
	return err;
}

static int
peek(const struct parser *ps)
{
	return ps->p < ps->end ? *ps->p : -1;
}

static bool
is_any(int c, const char *set)
{
	return c > 0 && strchr(set, c) != NULL;
}

/* The character as a message shows it. */
static const char *
shown(int c, char dst[16])
{
	if (c < 0)
		return "the end of the file";
	if (c == '\n' || c == '\r')
		return "the end of the line";
	if (c < 0x20 || c >= 0x7f)
		snprintf(dst, 16, "byte 0x%02x", (unsigned)c & 0xff);
	else
		snprintf(dst, 16, "'%c'", c);
	return dst;
}

static enum tv_err
unexpected(struct parser *ps, const char *wanted)
{
	char c[16];

	return fail_here(ps, TV_EFORMAT, "expected %s, not %s", wanted, shown(peek(ps), c));
}

static enum tv_err
skip_block_comment(struct parser *ps)
{
	unsigned from = ps->line, nested = 0;

	do {
		if (ps->end - ps->p >= 2 && ps->p[0] == '/' && ps->p[1] == '*') {
			nested++;
			ps->p += 2;
		} else if (ps->end - ps->p >= 2 && ps->p[0] == '*' && ps->p[1] == '/') {
			nested--;
			ps->p += 2;
		} else if (ps->p < ps->end) {
			ps->line += *ps->p++ == '\n';
		} else {
			ps->line = from;
			return fail_here(ps, TV_EFORMAT, "the comment that begins here has no end");
		}
	} while (nested > 0);
	return TV_OK;
}

/* Spaces and comments; lines too if `lines`. */
static enum tv_err
skip(struct parser *ps, bool lines)
{
	for (;;) {
		int c = peek(ps);

		if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
			ps->line += c == '\n';
			ps->p++;
		} else if (c == '#') {
			while (peek(ps) >= 0 && peek(ps) != '\n')
				ps->p++;
		} else if (c == '/' && ps->end - ps->p >= 2 && ps->p[1] == '*') {
			enum tv_err err = skip_block_comment(ps);

			if (err != TV_OK)
				return err;
		} else {
			return TV_OK;
		}
	}
}

/* Four hex digits at the cursor, or -1. */
static int
hex4(struct parser *ps)
{
	int v = 0;

	for (int i = 0; i < 4; i++) {
		int d = hex_value(peek(ps));

		if (d < 0)
			return -1;
		v = v << 4 | d;
		ps->p++;
	}
	return v;
}

static size_t
put_utf8(uint32_t c, uint8_t *out)
{
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const uint8_t lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

	for (size_t i = n; i-- > 1; c >>= 6)
		out[i] = (uint8_t)(0x80 | (c & 0x3f));
	out[0] = (uint8_t)(lead[n] | c);
	return n;
}

/* After "\u". */
static enum tv_err
unicode_escape(struct parser *ps, uint8_t *out, size_t *len)
{
	int c = hex4(ps), low = -1;

	if (c >= 0xd800 && c <= 0xdbff && ps->end - ps->p >= 2 && ps->p[0] == '\\' && ps->p[1] == 'u') {
		ps->p += 2;
		low = hex4(ps);
		if (low >= 0xdc00 && low <= 0xdfff)
			c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	if (c < 0x20 || (c >= 0xd800 && c <= 0xdfff))
		if (c != '\t' && c != '\n')
			return fail_here(ps, TV_EFORMAT, "\\u needs the four hex digits of a printable character");
	*len += put_utf8((uint32_t)c, out + *len);
	return TV_OK;
}

/* After the backslash. An escape is never shorter than what it stands for. */
static enum tv_err
escape(struct parser *ps, uint8_t *out, size_t *len)
{
	static const char from[] = "\"\\/bfnrt'", to[] = "\"\\/\0\0\n\0\t'";
	int c = peek(ps);
	const char *at = c > 0 ? strchr(from, c) : NULL;

	if (c == 'u') {
		ps->p++;
		return unicode_escape(ps, out, len);
	}
	if (at == NULL || to[at - from] == '\0')
		return fail_here(ps, TV_EFORMAT, "this backslash escape is not one of \\\" \\\\ \\/ \\n \\t \\uXXXX");
	ps->p++;
	out[(*len)++] = (uint8_t)to[at - from];
	return TV_OK;
}

/* From the opening quote to the closing one. */
static enum tv_err
parse_quoted(struct parser *ps, struct span *text)
{
	int quote = *ps->p++;
	const uint8_t *from = ps->p, *close = from;
	bool escapes = false;
	uint8_t *out;
	size_t len = 0;

	for (; close < ps->end && *close != quote && !is_any(*close, "\r\n"); close++)
		if (*close == '\\' && close + 1 < ps->end && (quote == '"' || close[1] == '\'')) {
			escapes = true;
			close++;
		}
	if (close >= ps->end || *close != quote)
		return fail_here(ps, TV_EFORMAT, "the string that begins here has no closing quote on its line");
	*text = span_of(from, (size_t)(close - from));
	if (escapes) {
		out = arena_alloc(ps->arena, text->len);
		if (out == NULL)
			return fail_here(ps, TV_ENOMEM, "out of memory");
		while (ps->p < close) {
			enum tv_err err = TV_OK;

			if (*ps->p != '\\' || (quote == '\'' && ps->p[1] != '\'')) {
				out[len++] = *ps->p++;
				continue;
			}
			ps->p++;
			err = escape(ps, out, &len);
			if (err != TV_OK)
				return err;
		}
		*text = span_of(out, len);
	}
	ps->p = close + 1;
	return TV_OK;
}

/* An unquoted value: up to a space or a delimiter. */
static enum tv_err
parse_word(struct parser *ps, struct span *text)
{
	const uint8_t *from = ps->p;

	while (peek(ps) >= 0 && !is_any(peek(ps), " \t\r\n;,{}[]\"'"))
		ps->p++;
	*text = span_of(from, (size_t)(ps->p - from));
	if (text->len == 0)
		return unexpected(ps, "a value");
	if (is_any(peek(ps), "{[\"'"))
		return fail_here(ps, TV_EFORMAT, "'%c' inside a value: put the value in double quotes", *ps->p);
	if (text->len >= 2 && from[0] == '<' && from[1] == '<')
		return fail_here(ps, TV_EFORMAT, "multi-line strings are not supported");
	return TV_OK;
}

static enum tv_err
parse_key(struct parser *ps, struct span *key)
{
	const uint8_t *from = ps->p;

	if (peek(ps) == '.')
		return fail_here(ps, TV_EFORMAT, "macros such as .include are not supported");
	if (is_any(peek(ps), "\"'")) {
		enum tv_err err = parse_quoted(ps, key);

		if (err == TV_OK && key->len == 0)
			err = fail_here(ps, TV_EFORMAT, "a key must not be empty");
		return err;
	}
	while (peek(ps) >= 0 && !is_any(peek(ps), " \t\r\n=:;,{}[]\"'#"))
		ps->p++;
	*key = span_of(from, (size_t)(ps->p - from));
	return key->len > 0 ? TV_OK : unexpected(ps, "a key");
}

static enum tv_err
add_child(struct parser *ps, struct ucl_node *parent, struct ucl_node ***tail, struct ucl_node **out)
{
	struct ucl_node *n;

	if (parent->count >= UCL_MEMBERS_MAX)
		return fail_here(ps, TV_ELIMIT, "more than %d entries in one block", UCL_MEMBERS_MAX);
	n = arena_alloc(ps->arena, sizeof(*n));
	if (n == NULL)
		return fail_here(ps, TV_ENOMEM, "out of memory");
	n->line = ps->line;
	parent->count++;
	**tail = n;
	*tail = &n->next;
	*out = n;
	return TV_OK;
}

/* `key name { }` is key { name { } }: moves n down by one level. */
static enum tv_err
named_block(struct parser *ps, struct ucl_node *n)
{
	struct ucl_node **tail = &n->child, *inner = NULL;
	enum tv_err err;

	if (n->text.len == 0)
		return fail_here(ps, TV_EFORMAT, "the name of a block must not be empty");
	n->type = UCL_OBJECT;
	err = add_child(ps, n, &tail, &inner);
	if (err != TV_OK)
		return err;
	inner->key = n->text;
	n->text = SPAN_NONE;
	return parse_value(ps, inner);
}

/* What stands between a key and its value.  *bare: no sign, so a second word may name a block. */
static enum tv_err
parse_sign(struct parser *ps, bool *bare)
{
	enum tv_err err = skip(ps, false);
	int sign = peek(ps);

	*bare = sign != '=' && sign != ':';
	if (err != TV_OK)
		return err;
	if (!*bare) {
		ps->p++;
		err = skip(ps, sign == ':');
	} else if (is_any(sign, "\r\n")) {
		struct parser at = *ps;

		err = skip(ps, true);
		if (err == TV_OK && peek(ps) != '{' && peek(ps) != '[') {
			*ps = at;
			return fail_here(ps, TV_EFORMAT, "expected '=' and a value, not the end of the line");
		}
	}
	return err;
}

static enum tv_err
parse_member(struct parser *ps, struct ucl_node *object, struct ucl_node ***tail)
{
	const struct ucl_node *other;
	struct ucl_node *n = NULL;
	enum tv_err err = add_child(ps, object, tail, &n);
	bool bare;

	if (err != TV_OK || (err = parse_key(ps, &n->key)) != TV_OK)
		return err;
	for (other = object->child; other != n; other = other->next)
		if (span_eq(other->key, n->key))
			return fail_here(ps, TV_EFORMAT, "key \"%.*s\" is given twice (first on line %u)",
			    (int)(n->key.len < 64 ? n->key.len : 64), (const char *)n->key.p, other->line);
	if ((err = parse_sign(ps, &bare)) != TV_OK || (err = parse_value(ps, n)) != TV_OK)
		return err;
	if (bare && (n->type == UCL_WORD || n->type == UCL_STRING)) {
		err = skip(ps, false);
		if (err == TV_OK && peek(ps) == '{')
			return named_block(ps, n);
	}
	return err;
}

/* After a member: a separator, a new line, or what closes the block. */
static enum tv_err
parse_separator(struct parser *ps, const struct ucl_node *last, int close)
{
	unsigned line = ps->line;
	enum tv_err err = skip(ps, false);
	int c = peek(ps);

	if (err != TV_OK)
		return err;
	if (c == ',' || c == ';')
		ps->p++;
	else if (c >= 0 && c != close && !is_any(c, "\r\n") && ps->line == line &&
	    (last->type == UCL_WORD || last->type == UCL_STRING))
		return unexpected(ps, last->type == UCL_WORD ?
		    "the end of the value (quote values that hold spaces)" : "';' or a new line");
	return skip(ps, true);
}

/* Members up to `close`: '}', ']' or -1 for the end of the text. */
static enum tv_err
parse_members(struct parser *ps, struct ucl_node *n, int close)
{
	struct ucl_node **tail = &n->child, *last = NULL;
	unsigned from = ps->line;
	enum tv_err err = skip(ps, true);

	while (err == TV_OK && peek(ps) != close) {
		struct ucl_node **at = tail;

		if (peek(ps) < 0) {
			ps->line = from;
			return fail_here(ps, TV_EFORMAT, "the '%c' that begins here is not closed",
			    close == '}' ? '{' : '[');
		}
		if (n->type == UCL_OBJECT)
			err = parse_member(ps, n, &tail);
		else if ((err = add_child(ps, n, &tail, &last)) == TV_OK)
			err = parse_value(ps, last);
		if (err == TV_OK)
			err = parse_separator(ps, *at, close);
	}
	if (err == TV_OK && close > 0)
		ps->p++;
	return err;
}

static enum tv_err
parse_value(struct parser *ps, struct ucl_node *n)
{
	int c = peek(ps);
	enum tv_err err;

	if (c == '"' || c == '\'') {
		n->type = UCL_STRING;
		return parse_quoted(ps, &n->text);
	}
	if (c != '{' && c != '[') {
		n->type = UCL_WORD;
		return parse_word(ps, &n->text);
	}
	if (++ps->depth > UCL_DEPTH_MAX)
		return fail_here(ps, TV_ELIMIT, "blocks are nested deeper than %d", UCL_DEPTH_MAX);
	ps->p++;
	n->type = c == '{' ? UCL_OBJECT : UCL_ARRAY;
	err = parse_members(ps, n, c == '{' ? '}' : ']');
	ps->depth--;
	return err;
}

/* Bytes that no text file holds are refused at once, wherever they stand. */
static enum tv_err
check_bytes(struct parser *ps)
{
	char shape[16];

	for (const uint8_t *p = ps->p; p < ps->end; p++) {
		ps->line += *p == '\n';
		if ((*p < 0x20 && !is_any(*p, "\t\r\n")) || *p == 0x7f)
			return fail_here(ps, TV_EFORMAT, "%s has no place in a configuration file", shown(*p, shape));
	}
	ps->line = 1;
	return TV_OK;
}

enum tv_err
ucl_parse(struct span text, struct arena *a, struct ucl_node **root, struct ucl_error *error)
{
	struct parser ps = { text.p, text.p + text.len, 1, 0, a, error };
	struct ucl_node *n = arena_alloc(a, sizeof(*n));
	enum tv_err err;

	*error = (struct ucl_error){ 0 };
	if (n == NULL)
		return fail_here(&ps, TV_ENOMEM, "out of memory");
	if (text.len > UCL_TEXT_BYTES_MAX)
		return fail_here(&ps, TV_ELIMIT, "the file is larger than %d bytes", UCL_TEXT_BYTES_MAX);
	if (text.len >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0)
		ps.p += 3;
	n->line = 1;
	n->type = UCL_OBJECT;
	if ((err = check_bytes(&ps)) != TV_OK || (err = skip(&ps, true)) != TV_OK)
		return err;
	err = peek(&ps) == '{' || peek(&ps) == '[' ? parse_value(&ps, n) : parse_members(&ps, n, -1);
	if (err == TV_OK)
		err = skip(&ps, true);
	if (err == TV_OK && ps.p < ps.end)
		err = unexpected(&ps, "the end of the file");
	*root = n;
	return err;
}

const struct ucl_node *
ucl_get(const struct ucl_node *object, const char *key)
{
	if (object->type != UCL_OBJECT)
		return NULL;
	for (const struct ucl_node *n = object->child; n != NULL; n = n->next)
		if (span_eqs(n->key, key))
			return n;
	return NULL;
}

bool
ucl_bool(const struct ucl_node *n, bool *value)
{
	static const struct {
		const char *word;
		bool value;
	} words[] = {
		{ "true", true }, { "yes", true }, { "on", true }, { "false", false }, { "no", false },
		{ "off", false },
	};

	for (size_t i = 0; n->type == UCL_WORD && i < sizeof(words) / sizeof(words[0]); i++)
		if (span_eqs(n->text, words[i].word)) {
			*value = words[i].value;
			return true;
		}
	return false;
}

/* -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)? */
static bool
is_json_number(struct span s)
{
	const uint8_t *p = s.p, *end = s.p + s.len, *from;

	if (p < end && *p == '-')
		p++;
	for (from = p; p < end && *p >= '0' && *p <= '9';)
		p++;
	if (p == from || (*from == '0' && p - from > 1))
		return false;
	if (p < end && *p == '.') {
		for (from = ++p; p < end && *p >= '0' && *p <= '9';)
			p++;
		if (p == from)
			return false;
	}
	if (p < end && (*p == 'e' || *p == 'E')) {
		if (++p < end && (*p == '+' || *p == '-'))
			p++;
		for (from = p; p < end && *p >= '0' && *p <= '9';)
			p++;
		if (p == from)
			return false;
	}
	return p == end;
}

static void
json_string(struct span s, struct buf *out)
{
	buf_puts(out, "\"");
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] < 0x20)
			buf_printf(out, "\\u%04x", s.p[i]);
		else {
			if (s.p[i] == '"' || s.p[i] == '\\')
				buf_puts(out, "\\");
			buf_u8(out, s.p[i]);
		}
	}
	buf_puts(out, "\"");
}

static void
json_scalar(const struct ucl_node *n, struct buf *out)
{
	bool value;

	if (ucl_bool(n, &value))
		buf_puts(out, value ? "true" : "false");
	else if (n->type == UCL_WORD && (span_eqs(n->text, "null") || is_json_number(n->text)))
		buf_putspan(out, n->text);
	else
		json_string(n->text, out);
}

void
ucl_json(const struct ucl_node *n, struct buf *out)
{
	bool object = n->type == UCL_OBJECT;

	if (!object && n->type != UCL_ARRAY) {
		json_scalar(n, out);
		return;
	}
	buf_puts(out, object ? "{" : "[");
	for (const struct ucl_node *c = n->child; c != NULL; c = c->next) {
		if (object) {
			json_string(c->key, out);
			buf_puts(out, ":");
		}
		ucl_json(c, out);
		if (c->next != NULL)
			buf_puts(out, ",");
	}
	buf_puts(out, object ? "}" : "]");
}
