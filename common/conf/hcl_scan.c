/* Text of the rules' language to tokens.  Columns count as that language's own tools count them. */
#include <stdarg.h>
#include <stdio.h>

#include "common/conf/hcl_int.h"
#include "common/base/hex.h"
#include "common/text/json_text.h"

#define END (-1)

void
hcl_scan_start(struct hcl_scanner *s, struct span text, bool json, struct hcl_error *err)
{
	const uint8_t *p = text.len > 0 ? text.p : (const uint8_t *)"";

	*s = (struct hcl_scanner){ .p = p, .end = p + text.len, .at = { 0, 1, 0 }, .before = { 0, 1, 0 }, .json = json,
		.err = err };
	*err = (struct hcl_error){ .line = 1 };
}

const char *
hcl_token_name(enum hcl_token_type type)
{
	static const char *const names[] = { "EOF", "COMMENT", "IDENT", "NUMBER", "BOOL", "NULL", "STRING", "HEREDOC",
	    "LBRACK", "RBRACK", "LBRACE", "RBRACE", "COMMA", "ASSIGN", "COLON", "ILLEGAL" };

	return names[type];
}

enum tv_err
hcl_fail(struct hcl_scanner *s, enum tv_err err, struct hcl_pos pos, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (s->failed != TV_OK)
		return s->failed;
	s->failed = err;
	n = snprintf(s->err->text, sizeof(s->err->text), "At %u:%u: ", pos.line, pos.column);
	s->err->line = pos.line;
	s->err->column = pos.column;
	s->err->place = (unsigned)n;
	va_start(ap, fmt);
	vsnprintf(s->err->text + n, sizeof(s->err->text) - (size_t)n, fmt, ap);
	va_end(ap);
	return err;
}

/* Where the character that was read last stands, also when it is a newline. */
static struct hcl_pos
here(const struct hcl_scanner *s)
{
	struct hcl_pos pos = s->at;

	pos.offset -= s->last_len;
	if (pos.column == 0 && pos.line > 1) {
		pos.line--;
		pos.column = s->line_columns;
	}
	return pos;
}

static int
peek(const struct hcl_scanner *s)
{
	return s->p < s->end ? *s->p : END;
}

/* The next character's first byte, or END: each reading of the end counts as a column. */
static int
next(struct hcl_scanner *s)
{
	size_t len = 1;
	int c = peek(s);

	if (c == END) {
		s->at.column++;
		s->last_len = 0;
		return END;
	}
	s->before = s->at;
	if (c >= 0x80 && (len = utf8_length(s->p, s->end)) == 0)
		len = 1;
	s->p += len;
	s->at.offset += (uint32_t)len;
	s->at.column++;
	s->last_len = (unsigned)len;
	if (c >= 0x80 && len == 1) {
		hcl_fail(s, TV_EFORMAT, here(s), "illegal UTF-8 encoding");
	} else if (c == '\n') {
		s->line_columns = s->at.column;
		s->at.line++;
		s->at.column = 0;
	} else if (c == '\0') {
		hcl_fail(s, TV_EFORMAT, here(s), "unexpected null character (0x00)");
	}
	return c;
}

/* Takes the last character back, unless it was the end. */
static void
unread(struct hcl_scanner *s)
{
	if (s->last_len == 0)
		return;
	s->p -= s->last_len;
	s->at = s->before;
}

static bool
is_letter(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;
}

static bool
is_digit(int c)
{
	return c >= '0' && c <= '9';
}

static void
scan_identifier(struct hcl_scanner *s)
{
	int c;

	while (is_letter(c = next(s)) || is_digit(c) || c == '-' || c == '.')
		;
	if (c != END)
		unread(s);
}

/* What numbers are made of, roughly: they mean nothing in rules, and are printed as they were written. */
static void
scan_number(struct hcl_scanner *s)
{
	int c, last = 0;

	while (is_digit(c = next(s)) || is_letter(c) || c == '.' || ((c == '+' || c == '-') && (last == 'e' ||
	    last == 'E')))
		last = c;
	if (c != END)
		unread(s);
}

static void
scan_comment(struct hcl_scanner *s, int c)
{
	struct hcl_pos from = here(s);
	int last = 0;

	if (c == '#' || peek(s) == '/') {
		while ((c = next(s)) != '\n' && c != END)
			;
		if (c != END)
			unread(s);
		return;
	}
	if (peek(s) != '*') {
		hcl_fail(s, TV_EFORMAT, from, "expected '/' for comment");
		return;
	}
	next(s);
	while ((c = next(s)) != END) {
		if (last == '*' && c == '/')
			return;
		last = c;
	}
	hcl_fail(s, TV_EFORMAT, from, "comment not terminated");
}

/* As many digits of the base; the last of them is read. */
static bool
scan_digits(struct hcl_scanner *s, int base, int n)
{
	for (; n > 0; n--) {
		int v = hex_value(peek(s));

		if (v < 0 || v >= base)
			return false;
		next(s);
	}
	return true;
}

static void
scan_escape(struct hcl_scanner *s)
{
	struct hcl_pos from = here(s);
	int c = next(s);
	bool good;

	switch (c) {
	case 'b': case 'f': case 'n': case 'r': case 't': case '\\': case '"':
		return;
	case '/':
		good = s->json;
		break;
	case 'a': case 'v':
		good = !s->json;
		break;
	case '0': case '1': case '2': case '3':
		good = !s->json && scan_digits(s, 8, 2);
		break;
	case 'x':
		good = !s->json && scan_digits(s, 16, 2);
		break;
	case 'u':
		good = scan_digits(s, 16, 4);
		break;
	case 'U':
		good = !s->json && scan_digits(s, 16, 8);
		break;
	default:
		good = false;
	}
	if (!good)
		hcl_fail(s, TV_EFORMAT, from, "illegal char escape");
}

static void
scan_string(struct hcl_scanner *s)
{
	struct hcl_pos from = here(s);
	unsigned braces = 0;

	for (;;) {
		int c = next(s);

		if (c == END || (c == '\n' && braces == 0)) {
			hcl_fail(s, TV_EFORMAT, from, "literal not terminated");
			return;
		}
		if (c == '"' && braces == 0)
			return;
		if (s->json && c < 0x20) {
			hcl_fail(s, TV_EFORMAT, here(s), "control character in a string: write it as an escape");
			return;
		}
		/* What is between ${ and } is no part of the string's text: quotes and lines in it do not count. */
		if (!s->json && braces == 0 && c == '$' && peek(s) == '{') {
			next(s);
			braces = 1;
		} else if (braces > 0 && (c == '{' || c == '}')) {
			braces += c == '{' ? 1 : -1u;
		}
		if (c == '\\')
			scan_escape(s);
	}
}

/* The mark of a heredoc, behind <<, up to the end of its line; empty: it is none. */
static struct span
scan_mark(struct hcl_scanner *s, struct hcl_pos from)
{
	const uint8_t *mark;
	struct span text;
	int c;

	if (next(s) != '<') {
		hcl_fail(s, TV_EFORMAT, from, "heredoc expected second '<', didn't see it");
		return SPAN_NONE;
	}
	if (peek(s) == '-')
		next(s);
	mark = s->p;
	while (is_letter(c = peek(s)) || is_digit(c))
		next(s);
	text = span_of(mark, (size_t)(s->p - mark));
	if ((c = next(s)) == '\r' && peek(s) == '\n')
		c = next(s);
	if (c == '\n' && text.len > 0)
		return text;
	hcl_fail(s, TV_EFORMAT, from, "%s", c == END ? "heredoc not terminated" :
	    c != '\n' ? "invalid characters in heredoc anchor" : "zero-length heredoc anchor");
	return SPAN_NONE;
}

/* Ends before the newline behind the mark that ends it: a line of its own, which may be indented. */
static void
scan_heredoc(struct hcl_scanner *s)
{
	struct hcl_pos from = here(s);
	struct span mark = scan_mark(s, from), line;
	int c;

	while (s->failed == TV_OK) {
		const uint8_t *start = s->p;

		while ((c = next(s)) != '\n' && c != END)
			;
		line = span_of(start, (size_t)(s->p - start) - (c == '\n'));
		while (line.len > 0 && (line.p[0] == ' ' || line.p[0] == '\t'))
			line = span_of(line.p + 1, line.len - 1);
		while (line.len > 0 && line.p[line.len - 1] == '\r')
			line.len--;
		if (span_eq(line, mark)) {
			unread(s);
			return;
		}
		if (c == END)
			hcl_fail(s, TV_EFORMAT, from, "heredoc not terminated");
	}
}

static enum hcl_token_type
scan_sign(struct hcl_scanner *s, int c, struct hcl_pos pos)
{
	switch (c) {
	case '[': return HT_LBRACK;
	case ']': return HT_RBRACK;
	case '{': return HT_LBRACE;
	case '}': return HT_RBRACE;
	case ',': return HT_COMMA;
	}
	if (c == '=' && !s->json)
		return HT_ASSIGN;
	if (c == ':' && s->json)
		return HT_COLON;
	hcl_fail(s, TV_EFORMAT, pos, "illegal char");
	return HT_BAD;
}

static enum hcl_token_type
word_type(const struct hcl_scanner *s, struct span text)
{
	if (span_eqs(text, "true") || span_eqs(text, "false"))
		return HT_BOOL;
	return s->json && span_eqs(text, "null") ? HT_NULL : HT_IDENT;
}

struct hcl_token
hcl_scan(struct hcl_scanner *s)
{
	struct hcl_token t;
	const uint8_t *from;
	int c;

	while ((c = next(s)) == ' ' || c == '\t' || c == '\n' || c == '\r')
		;
	t.pos = here(s);
	from = s->p - s->last_len;
	if (c == END) {
		t.type = HT_EOF;
	} else if (is_letter(c)) {
		scan_identifier(s);
		t.type = word_type(s, span_of(from, (size_t)(s->p - from)));
	} else if (is_digit(c) || (c == '-' && is_digit(peek(s)))) {
		scan_number(s);
		t.type = HT_NUMBER;
	} else if (c == '"') {
		scan_string(s);
		t.type = HT_STRING;
	} else if (c == '<' && !s->json) {
		scan_heredoc(s);
		t.type = HT_HEREDOC;
	} else if ((c == '#' || c == '/') && !s->json) {
		scan_comment(s, c);
		t.type = HT_COMMENT;
	} else {
		t.type = scan_sign(s, c, t.pos);
	}
	t.text = span_of(from, (size_t)(s->p - from));
	if (t.type == HT_COMMENT && t.text.len > 0 && t.text.p[t.text.len - 1] == '\r')
		t.text.len--;
	if (s->failed != TV_OK)
		t.type = HT_BAD;
	return t;
}
