/* From RE2's syntax to PCRE2's: refuses what RE2 does not know, respells what means something else there. */
#include "common/base/hex.h"
#include "common/text/regex.h"

/* RE2's \s, which leaves out the vertical tab. */
#define SPACES "\\t\\n\\f\\r "

struct scan {
	struct span in;
	size_t at;
	struct buf *out, *why;
	unsigned depth;
	bool repeated;		/* what stands before is a repetition */
	bool failed;
};

static int
peek(const struct scan *s, size_t ahead)
{
	return s->at + ahead < s->in.len ? s->in.p[s->at + ahead] : -1;
}

static void
fail_from(struct scan *s, const char *what, size_t from)
{
	if (!s->failed)
		buf_printf(s->why, "%s: `%.*s`", what, (int)(s->in.len - from), (const char *)s->in.p + from);
	s->failed = true;
}

static bool
is_alnum(int c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static void
copy(struct scan *s, size_t n)
{
	buf_put(s->out, s->in.p + s->at, n);
	s->at += n;
}

/* \Q...\E, of which \Q is taken: literal text. */
static void
take_literal(struct scan *s)
{
	while (s->at < s->in.len && !(peek(s, 0) == '\\' && peek(s, 1) == 'E')) {
		int c = peek(s, 0);

		if (c < 0x80 && !is_alnum(c) && c > ' ')
			buf_u8(s->out, '\\');
		copy(s, 1);
	}
	if (s->at < s->in.len)
		s->at += 2;
}

/* \012: one to three octal digits; a single one but 0 would be a reference to a group. */
static void
take_octal(struct scan *s, size_t from)
{
	unsigned v = 0, n = 0;

	for (; n < 3 && peek(s, 0) >= '0' && peek(s, 0) <= '7'; n++)
		v = v * 8 + s->in.p[s->at++] - '0';
	if (n == 0 || (n == 1 && v != 0))
		fail_from(s, "invalid escape sequence", from);
	buf_printf(s->out, "\\x{%x}", v);
}

static void
take_escape(struct scan *s, bool in_class)
{
	size_t from = s->at++;
	int c = peek(s, 0);

	if (c < 0) {
		fail_from(s, "trailing backslash at end of expression", from);
	} else if (c >= '0' && c <= '9') {
		take_octal(s, from);
	} else if (c == 'Q') {
		s->at++;
		take_literal(s);
	} else if (c == 's') {
		s->at++;
		buf_printf(s->out, in_class ? "%s" : "[%s]", SPACES);
	} else if (c == 'S' && !in_class) {
		s->at++;
		buf_printf(s->out, "[^%s]", SPACES);
	} else if (c == 'v') {
		s->at++;
		buf_puts(s->out, "\\x{b}");
	} else if (c == 'x' && peek(s, 1) != '{' && (hex_value(peek(s, 1)) < 0 || hex_value(peek(s, 2)) < 0)) {
		fail_from(s, "invalid escape sequence", from);
	} else if (is_alnum(c) && strchr(in_class ? "dDwWSafnrtxpP" : "dDwWbBAzafnrtxpP", c) == NULL) {
		fail_from(s, "invalid escape sequence", from);
	} else {
		bool braces = (c == 'x' || c == 'p' || c == 'P') && peek(s, 1) == '{';

		buf_u8(s->out, '\\');
		copy(s, 1);
		while (braces && s->at < s->in.len) {
			braces = peek(s, 0) != '}';
			copy(s, 1);
		}
	}
}

static void
take_class(struct scan *s)
{
	size_t from = s->at;

	copy(s, peek(s, 1) == '^' ? 2 : 1);
	for (bool first = true; !s->failed; first = false) {
		int c = peek(s, 0);

		if (c < 0)
			fail_from(s, "missing closing ]", from);
		else if (c == ']' && !first)
			break;
		else if (c == ']')
			buf_puts(s->out, "\\]"), s->at++;
		else if (c == '\\')
			take_escape(s, true);
		else if (c == '[' && peek(s, 1) == ':')
			for (copy(s, 2); peek(s, 0) == '^' || is_alnum(peek(s, 0)) || peek(s, 0) == ':'; )
				copy(s, peek(s, 0) == ':' && peek(s, 1) == ']' ? 2 : 1);
		else if (c == '[')
			buf_puts(s->out, "\\["), s->at++;
		else
			copy(s, 1);
	}
	if (!s->failed)
		copy(s, 1);
}

/* (, (?:, (?flags), (?flags: and (?P<name> */
static void
take_open(struct scan *s)
{
	size_t from = s->at;

	if (peek(s, 1) == '*')
		fail_from(s, "missing argument to repetition operator", from + 1);
	if (peek(s, 1) != '?') {
		copy(s, 1);
		s->depth++;
		return;
	}
	if (peek(s, 2) == 'P' && peek(s, 3) == '<') {
		copy(s, 4);
		s->depth++;
		return;
	}
	size_t n = 2;
	while (peek(s, n) > 0 && strchr("imsU-", peek(s, n)) != NULL)
		n++;
	if (peek(s, n) != ':' && (peek(s, n) != ')' || n == 2))
		fail_from(s, "invalid or unsupported Perl syntax", from);
	s->depth += peek(s, n) == ':';
	copy(s, n < s->in.len - s->at ? n + 1 : 1);
}

static void
take_close(struct scan *s)
{
	if (s->depth == 0)
		fail_from(s, "unexpected )", s->at);
	else
		s->depth--;
	copy(s, 1);
}

/* Length of {n}, {n,} or {n,m}; 0: the brace is an ordinary character. */
static size_t
repeat_length(struct scan *s)
{
	size_t n = 1, digits = 0;
	unsigned v = 0;

	for (; n < s->in.len - s->at; n++) {
		int c = peek(s, n);

		if (c >= '0' && c <= '9') {
			v = v > REGEX_REPEAT_MAX ? v : v * 10 + (unsigned)c - '0';
			digits++;
			if (v > REGEX_REPEAT_MAX)
				fail_from(s, "invalid repeat count", s->at);
		} else if (c == ',' && digits > 0 && memchr(s->in.p + s->at, ',', n) == NULL) {
			v = 0;
		} else {
			return c == '}' && digits > 0 ? n + 1 : 0;
		}
	}
	return 0;
}

/* A repetition and the ? that makes it lazy. */
static void
take_repeat(struct scan *s, size_t n)
{
	size_t from = s->at;

	if (s->repeated)
		fail_from(s, "invalid nested repetition operator", from);
	copy(s, n);
	if (peek(s, 0) == '?')
		copy(s, 1);
	s->repeated = true;
}

static void
take_one(struct scan *s)
{
	int c = peek(s, 0);
	size_t n = c == '*' || c == '+' || c == '?' ? 1 : c == '{' ? repeat_length(s) : 0;

	if (n > 0) {
		take_repeat(s, n);
		return;
	}
	s->repeated = false;
	if (c == '\\')
		take_escape(s, false);
	else if (c == '[')
		take_class(s);
	else if (c == '(')
		take_open(s);
	else if (c == ')')
		take_close(s);
	else if (c == '{')
		buf_puts(s->out, "\\{"), s->at++;
	else
		copy(s, 1);
}

bool
regex_translate(struct span pattern, struct buf *out, struct buf *why)
{
	struct scan s = { .in = pattern, .out = out, .why = why };

	if (pattern.len > REGEX_BYTES_MAX) {
		buf_printf(why, "expression too long (limit: %d bytes)", REGEX_BYTES_MAX);
		return false;
	}
	while (s.at < pattern.len && !s.failed)
		take_one(&s);
	if (s.depth > 0)
		fail_from(&s, "missing closing )", 0);
	return !s.failed;
}
