/* Words of an expression. */
#include <stdarg.h>

#include "common/filter/tree.h"

static bool
is_space(uint8_t c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool
is_digit(uint8_t c)
{
	return c >= '0' && c <= '9';
}

static bool
is_letter(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int
peek(const struct lex *l)
{
	return l->at < l->in.len ? l->in.p[l->at] : -1;
}

static struct span
taken_since(const struct lex *l, size_t from)
{
	return span_of(l->in.p + from, l->at - from);
}

void
lex_fail(struct lex *l, size_t at, const char *fmt, ...)
{
	unsigned line = 1, column = 1;
	va_list ap;

	if (l->failed)
		return;
	l->failed = true;
	for (size_t i = 0; i < at && i < l->in.len; i++) {
		if (l->in.p[i] == '\n') {
			line++;
			column = 1;
		} else if ((l->in.p[i] & 0xc0) != 0x80) {
			column++;
		}
	}
	buf_printf(l->why, "%u:%u (%zu): ", line, column, at);
	va_start(ap, fmt);
	buf_vprintf(l->why, fmt, ap);
	va_end(ap);
}

static void
put_utf8(uint32_t c, struct buf *out)
{
	if (c < 0x80) {
		buf_u8(out, (uint8_t)c);
	} else if (c < 0x800) {
		buf_u8(out, (uint8_t)(0xc0 | c >> 6));
		buf_u8(out, (uint8_t)(0x80 | (c & 0x3f)));
	} else {
		if (c < 0x10000) {
			buf_u8(out, (uint8_t)(0xe0 | c >> 12));
		} else {
			buf_u8(out, (uint8_t)(0xf0 | c >> 18));
			buf_u8(out, (uint8_t)(0x80 | (c >> 12 & 0x3f)));
		}
		buf_u8(out, (uint8_t)(0x80 | (c >> 6 & 0x3f)));
		buf_u8(out, (uint8_t)(0x80 | (c & 0x3f)));
	}
}

/* Exactly n digits of this base; false: they are not there. */
static bool
take_digits(struct lex *l, unsigned n, unsigned base, uint32_t *out)
{
	*out = 0;
	for (; n > 0; n--) {
		int c = peek(l);
		unsigned v = c >= '0' && c <= '9' ? (unsigned)c - '0' : c >= 'a' && c <= 'f' ? (unsigned)c - 'a' + 10 :
		    c >= 'A' && c <= 'F' ? (unsigned)c - 'A' + 10 : 99;
		if (v >= base)
			return false;
		*out = *out * base + v;
		l->at++;
	}
	return true;
}

/* What follows a backslash; false: no such escape. */
static bool
take_escape(struct lex *l, struct buf *out)
{
	static const char names[] = "abfnrtv\\\"", bytes[] = "\a\b\f\n\r\t\v\\\"";
	int c = peek(l);
	const char *simple = c > 0 ? strchr(names, c) : NULL;
	uint32_t v;

	if (simple != NULL) {
		l->at++;
		buf_u8(out, (uint8_t)bytes[simple - names]);
		return true;
	}
	if (c >= '0' && c <= '7') {
		if (!take_digits(l, 3, 8, &v) || v > 0xff)
			return false;
		buf_u8(out, (uint8_t)v);
		return true;
	}
	l->at++;
	if (c != 'x' && c != 'u' && c != 'U')
		return false;
	if (!take_digits(l, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, &v))
		return false;
	if (v > 0x10ffff || (c != 'x' && v >= 0xd800 && v <= 0xdfff))
		return false;
	if (c == 'x')
		buf_u8(out, (uint8_t)v);
	else
		put_utf8(v, out);
	return true;
}

/* A text in quotes, of which the first is next. */
static struct span
take_text(struct lex *l)
{
	size_t from = l->at;
	int quote = peek(l);
	struct buf out = BUF_INIT(FILTER_BYTES_MAX * 4);

	for (l->at++; peek(l) != quote && !l->failed; ) {
		size_t here = l->at;
		int c = peek(l);

		l->at += c >= 0;
		if (c < 0)
			lex_fail(l, here, "rule \"string\": Unterminated string literal");
		else if (c == '\\' && quote == '"') {
			if (!take_escape(l, &out))
				lex_fail(l, here, "rule \"string\": invalid syntax");
		} else {
			buf_u8(&out, (uint8_t)c);
		}
	}
	l->at++;
	struct span text = arena_copy(l->arena, buf_span(&out));
	if (!l->failed && (out.failed || text.p == NULL))
		lex_fail(l, from, "out of memory");
	buf_done(&out);
	return text;
}

static void
skip_space(struct lex *l)
{
	while (l->at < l->in.len && is_space(l->in.p[l->at]))
		l->at++;
}

static void
add_part(struct word *w, struct span part)
{
	if (w->part_count < PARTS_MAX)
		w->parts[w->part_count] = part;
	w->part_count++;
}

static struct span
take_name(struct lex *l)
{
	size_t from = l->at;

	while (l->at < l->in.len && (is_letter(l->in.p[l->at]) || is_digit(l->in.p[l->at]) || l->in.p[l->at] == '_'))
		l->at++;
	return taken_since(l, from);
}

/* ["key"], of which the bracket is next. */
static struct span
take_index(struct lex *l)
{
	l->at++;
	skip_space(l);
	if (peek(l) != '"' && peek(l) != '`') {
		lex_fail(l, l->at, "rule \"index\": Invalid index");
		return SPAN_NONE;
	}
	struct span key = take_text(l);
	skip_space(l);
	if (peek(l) != ']')
		lex_fail(l, l->at, "rule \"index\": Unclosed index expression");
	l->at++;
	return key;
}

static bool
starts_name(const struct lex *l, size_t at)
{
	return at < l->in.len && is_letter(l->in.p[at]);
}

static void
take_names(struct lex *l, struct word *w)
{
	bool indexed = false;

	add_part(w, take_name(l));
	while (!l->failed) {
		if (peek(l) == '.' && starts_name(l, l->at + 1)) {
			l->at++;
			add_part(w, take_name(l));
		} else if (peek(l) == '[') {
			indexed = true;
			add_part(w, take_index(l));
		} else {
			break;
		}
	}
	w->text = taken_since(l, w->at);
	if (!indexed || l->failed)
		return;
	w->text = SPAN_NONE;
	for (unsigned i = 0; i < w->part_count && i < PARTS_MAX; i++)
		w->text = arena_printf(l->arena, "%.*s%s%.*s", (int)w->text.len, (const char *)w->text.p,
		    i > 0 ? "." : "", (int)w->parts[i].len, (const char *)w->parts[i].p);
	if (w->text.p == NULL)
		lex_fail(l, w->at, "out of memory");
}

static void
take_number(struct lex *l, struct word *w)
{
	l->at += peek(l) == '-';
	bool good = l->at < l->in.len && is_digit(l->in.p[l->at]);
	if (peek(l) == '0')
		l->at++;
	else
		while (l->at < l->in.len && is_digit(l->in.p[l->at]))
			l->at++;
	if (good && peek(l) == '.' && l->at + 1 < l->in.len && is_digit(l->in.p[l->at + 1]))
		for (l->at++; l->at < l->in.len && is_digit(l->in.p[l->at]); )
			l->at++;
	w->text = taken_since(l, w->at);
	if (!good || (peek(l) >= 0 && peek(l) != ')' && !is_space((uint8_t)peek(l))))
		lex_fail(l, l->at, "rule \"number\": Invalid number literal");
}

static enum word_kind
symbol(struct lex *l)
{
	uint8_t c = l->in.p[l->at++];
	bool doubled = peek(l) == '=';

	if (c == '(' || c == ')')
		return c == '(' ? WORD_OPEN : WORD_CLOSE;
	if ((c == '=' || c == '!') && doubled) {
		l->at++;
		return c == '=' ? WORD_EQ : WORD_NE;
	}
	l->at--;
	return WORD_OTHER;
}

struct word
lex_next(struct lex *l)
{
	size_t before = l->at;

	if (!l->failed)
		skip_space(l);
	struct word w = { .kind = WORD_END, .at = l->at, .spaced = l->at > before };
	int c = peek(l);
	if (l->failed || c < 0)
		return w;
	if (is_letter((uint8_t)c)) {
		w.kind = WORD_NAME;
		take_names(l, &w);
	} else if (is_digit((uint8_t)c) || c == '-') {
		w.kind = WORD_NUMBER;
		take_number(l, &w);
	} else if (c == '"' || c == '`') {
		w.kind = WORD_TEXT;
		w.text = take_text(l);
	} else {
		w.kind = symbol(l);
	}
	if (l->failed)
		w.kind = WORD_END;
	return w;
}
