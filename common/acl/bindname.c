/* See bindname.h. */
#include "common/acl/bindname.h"

struct filling {
	struct span in;
	size_t at;
	bindname_value_fn *value;
	void *ctx;
	struct buf *out, *why;
};

/* Where a byte of the text is, for people. */
static void
put_place(const struct filling *f, size_t at)
{
	unsigned line = 1, column = 1;

	for (size_t i = 0; i < at && i < f->in.len; i++) {
		column = f->in.p[i] == '\n' ? 1 : column + 1;
		line += f->in.p[i] == '\n';
	}
	buf_printf(f->why, "%u:%u: ", line, column);
}

static enum tv_err
bad_name(const struct filling *f, size_t at, const char *what, struct span name)
{
	put_place(f, at);
	buf_printf(f->why, "%s%.*s", what, (int)name.len, (const char *)name.p);
	return TV_EFORMAT;
}

static enum tv_err
bad_text(const struct filling *f, const char *expected)
{
	buf_puts(f->why, "parse error at ");
	put_place(f, f->at);
	if (f->at == f->in.len)
		buf_printf(f->why, "expected %s but found end of string", expected);
	else
		buf_printf(f->why, "expected %s", expected);
	return TV_EFORMAT;
}

static int
peek(const struct filling *f)
{
	return f->at < f->in.len ? f->in.p[f->at] : -1;
}

static void
skip_spaces(struct filling *f)
{
	while (peek(f) == ' ' || peek(f) == '\t' || peek(f) == '\n' || peek(f) == '\r')
		f->at++;
}

static bool
in_name(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
	    c == '-';
}

static void
put_lower(struct buf *out, struct span text)
{
	for (size_t i = 0; i < text.len; i++) {
		uint8_t c = text.p[i];

		buf_u8(out, c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
	}
}

/* Behind its opening brace. */
static enum tv_err
expression(struct filling *f)
{
	static const char prefix[] = "value.";
	const size_t head = sizeof(prefix) - 1;
	struct span name, value;
	size_t start;
	bool known;

	skip_spaces(f);
	start = f->at;
	while (in_name(peek(f)))
		f->at++;
	name = span_of(f->in.p + start, f->at - start);
	if (name.len == 0)
		return bad_text(f, "expression");
	skip_spaces(f);
	if (peek(f) == '(')
		return bad_name(f, start, "unknown function called: ", name);
	if (peek(f) != '}')
		return bad_text(f, "\"}\"");
	f->at++;
	known = name.len > head && span_starts(name, span_of((const uint8_t *)prefix, head)) &&
	    f->value(f->ctx, span_of(name.p + head, name.len - head), &value);
	if (!known)
		return bad_name(f, start, "unknown variable accessed: ", name);
	put_lower(f->out, value);
	return TV_OK;
}

enum tv_err
bindname_fill(struct span text, bindname_value_fn *value, void *ctx, struct buf *out, struct buf *why)
{
	struct filling f = { .in = text, .value = value, .ctx = ctx, .out = out, .why = why };
	enum tv_err err = TV_OK;

	while (f.at < text.len && err == TV_OK) {
		struct span left = span_of(text.p + f.at, text.len - f.at);

		if (span_starts(left, span_str("$${"))) {
			buf_puts(out, "${");
			f.at += 3;
		} else if (span_starts(left, span_str("${"))) {
			f.at += 2;
			err = expression(&f);
		} else {
			buf_u8(out, text.p[f.at++]);
		}
	}
	return err == TV_OK && out->failed ? TV_ELIMIT : err;
}

enum bind_type
bindname_type(struct span text)
{
	return span_eqs(text, "service") ? BIND_TYPE_SERVICE : span_eqs(text, "role") ? BIND_TYPE_ROLE :
	    span_eqs(text, "node") ? BIND_TYPE_NODE : BIND_TYPE_UNKNOWN;
}

bool
bindname_valid(enum bind_type type, struct span name)
{
	if (name.len == 0 || name.len > BINDNAME_BYTES_MAX || type == BIND_TYPE_UNKNOWN)
		return false;
	for (size_t i = 0; i < name.len; i++) {
		uint8_t c = name.p[i];
		bool lower = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'), upper = c >= 'A' && c <= 'Z';
		bool mark = c == '-' || c == '_';
		bool inner = i > 0 && i + 1 < name.len;

		if (type == BIND_TYPE_ROLE ? !lower && !upper && !mark : !lower && !(mark && inner))
			return false;
	}
	return true;
}
