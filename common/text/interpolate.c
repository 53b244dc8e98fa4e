/* See interpolate.h.  A text that is the value of an expression lies at the end of `out`, from val.at on. */
#include <inttypes.h>

#include "common/text/interpolate.h"

struct val {
	bool is_number;
	int64_t number;
	size_t at;			/* text: where it begins in out */
};

struct run {
	struct span in;
	size_t at;
	const struct interpolation *v;
	struct buf *out, *why;
	unsigned depth;
	enum tv_err err;
};

static struct val expression(struct run *r);
static void literal(struct run *r, bool quoted);

/* The first one counts. */
static void
fail_at(struct run *r, enum tv_err err, size_t at, const char *what, struct span name)
{
	unsigned line = 1, column = 1;

	if (r->err != TV_OK)
		return;
	r->err = err;
	for (size_t i = 0; i < at && i < r->in.len; i++) {
		column = r->in.p[i] == '\n' ? 1 : column + 1;
		line += r->in.p[i] == '\n';
	}
	buf_printf(r->why, "%u:%u: %s%.*s", line, column, what, (int)name.len, (const char *)name.p);
}

static int
peek(const struct run *r, size_t ahead)
{
	return r->err == TV_OK && r->at + ahead < r->in.len ? r->in.p[r->at + ahead] : -1;
}

static void
skip_spaces(struct run *r)
{
	while (peek(r, 0) == ' ' || peek(r, 0) == '\t' || peek(r, 0) == '\n' || peek(r, 0) == '\r')
		r->at++;
}

static bool
take_char(struct run *r, int c)
{
	skip_spaces(r);
	if (peek(r, 0) != c)
		return false;
	r->at++;
	return true;
}

static void
need(struct run *r, int c)
{
	char what[] = "expected ?";

	what[sizeof(what) - 2] = (char)c;
	if (!take_char(r, c))
		fail_at(r, TV_EFORMAT, r->at, what, SPAN_NONE);
}

/* -- values -- */

/* What a text says, or an error; it is taken off the end of out. */
static int64_t
number_of(struct run *r, struct val v, size_t where)
{
	int64_t n = 0;
	bool minus;
	size_t i;

	if (v.is_number || r->err != TV_OK)
		return v.number;
	struct span text = r->out->len == v.at ? SPAN_NONE : span_of(r->out->data + v.at, r->out->len - v.at);
	minus = text.len > 1 && text.p[0] == '-';
	for (i = minus; i < text.len && i < 18 && text.p[i] >= '0' && text.p[i] <= '9'; i++)
		n = n * 10 + text.p[i] - '0';
	if (text.len == 0 || i < text.len)
		fail_at(r, TV_EINVAL, where, "not a number: ", text);
	r->out->len = v.at;
	return minus ? -n : n;
}

static void
put_value(struct run *r, struct val v)
{
	if (v.is_number && r->err == TV_OK)
		buf_printf(r->out, "%" PRId64, v.number);
}

static struct val
number(int64_t n)
{
	return (struct val){ .is_number = true, .number = n };
}

/* -- what expressions are made of -- */

static bool
in_name(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
	    c == '-';
}

static struct val
variable(struct run *r, struct span name, size_t where)
{
	const struct { const char *name; const struct span *value; } known[] = {
		{ "name.full", &r->v->full }, { "name.prefix", &r->v->prefix }, { "name.suffix", &r->v->suffix },
		{ "agent.segment", &r->v->segment },
	};
	struct val v = { .at = r->out->len };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (span_eqs(name, known[i].name)) {
			buf_putspan(r->out, *known[i].value);
			return v;
		}
	fail_at(r, TV_EINVAL, where, "unknown variable accessed: ", name);
	return v;
}

static struct val
call(struct run *r, struct span name, size_t where)
{
	size_t at = r->out->len;
	int64_t n = number_of(r, expression(r), where);

	need(r, ')');
	if (!span_eqs(name, "match"))
		fail_at(r, TV_EINVAL, where, "unknown function called: ", name);
	else if (r->err == TV_OK && n >= 0 && (uint64_t)n < r->v->group_count)
		buf_putspan(r->out, r->v->groups[n]);
	return (struct val){ .at = at };
}

static struct val
named(struct run *r)
{
	size_t from = r->at;
	struct span name;

	while (in_name(peek(r, 0)))
		r->at++;
	name = span_of(r->in.p + from, r->at - from);
	return take_char(r, '(') ? call(r, name, from) : variable(r, name, from);
}

static struct val
digits(struct run *r)
{
	size_t from = r->at;
	int64_t n = 0;

	for (; peek(r, 0) >= '0' && peek(r, 0) <= '9'; r->at++) {
		n = n * 10 + r->in.p[r->at] - '0';
		if (r->at - from == 17)
			fail_at(r, TV_EFORMAT, from, "a number has at most 17 digits", SPAN_NONE);
	}
	return number(n);
}

static struct val
primary(struct run *r)
{
	struct val v = { .at = r->out->len };
	int c;

	skip_spaces(r);
	c = peek(r, 0);
	if (++r->depth > INTERPOLATE_NESTING_MAX) {
		fail_at(r, TV_EFORMAT, r->at, "nested too deeply", SPAN_NONE);
	} else if (c >= '0' && c <= '9') {
		v = digits(r);
	} else if (c == '"') {
		r->at++;
		literal(r, true);
	} else if (c == '(') {
		r->at++;
		v = expression(r);
		need(r, ')');
	} else if (c == '-') {
		size_t where = r->at++;
		v = number(-number_of(r, primary(r), where));
	} else if (in_name(c) && c != '.') {
		v = named(r);
	} else {
		fail_at(r, TV_EFORMAT, r->at, "expected an expression", SPAN_NONE);
	}
	r->depth--;
	return v;
}

/* a op b; what does not fit wraps around, as in Consul. */
static struct val
compute(struct run *r, int op, int64_t a, int64_t b, size_t where)
{
	uint64_t x = (uint64_t)a, y = (uint64_t)b;

	if ((op == '/' || op == '%') && b == 0) {
		fail_at(r, TV_EINVAL, where, "divide by zero", SPAN_NONE);
		return number(0);
	}
	if (op == '+')
		return number((int64_t)(x + y));
	if (op == '-')
		return number((int64_t)(x - y));
	if (op == '*')
		return number((int64_t)(x * y));
	if (b == -1)			/* the one quotient that may not fit */
		return number(op == '/' ? (int64_t)(0 - x) : 0);
	return number(op == '/' ? a / b : a % b);
}

static struct val
chain(struct run *r, struct val (*part)(struct run *r), int op1, int op2, int op3)
{
	struct val v = part(r);

	for (;;) {
		skip_spaces(r);
		int c = peek(r, 0);
		size_t where = r->at;

		if (c < 0 || (c != op1 && c != op2 && c != op3))
			return v;
		r->at++;
		int64_t a = number_of(r, v, where), b = number_of(r, part(r), where);
		v = compute(r, c, a, b, where);
	}
}

static struct val
product(struct run *r)
{
	return chain(r, primary, '*', '/', '%');
}

static struct val
expression(struct run *r)
{
	return chain(r, product, '+', '-', '+');
}

/* -- text -- */

/* Behind a backslash, within quotes. */
static void
escape(struct run *r)
{
	static const char from[] = "nt\"\\", to[] = "\n\t\"\\";
	const char *at = peek(r, 0) > 0 ? strchr(from, peek(r, 0)) : NULL;

	if (at == NULL)
		fail_at(r, TV_EFORMAT, r->at, "unknown escape sequence", SPAN_NONE);
	else
		buf_u8(r->out, (uint8_t)to[at - from]);
	r->at++;
}

static void
braces(struct run *r)
{
	size_t from = r->at;

	r->at += 2;
	put_value(r, expression(r));
	skip_spaces(r);
	if (peek(r, 0) < 0)
		fail_at(r, TV_EFORMAT, from, "expected } for this ${", SPAN_NONE);
	need(r, '}');
}

/* Up to the end, or the quote. */
static void
literal(struct run *r, bool quoted)
{
	size_t from = r->at;

	while (r->at < r->in.len && r->err == TV_OK) {
		int c = peek(r, 0);

		if (quoted && c == '"') {
			r->at++;
			return;
		}
		if (c == '$' && peek(r, 1) == '$' && peek(r, 2) == '{') {
			buf_puts(r->out, "${");
			r->at += 3;
		} else if (c == '$' && peek(r, 1) == '{') {
			braces(r);
		} else if (quoted && c == '\\') {
			r->at++;
			escape(r);
		} else {
			buf_u8(r->out, (uint8_t)c);
			r->at++;
		}
	}
	if (quoted)
		fail_at(r, TV_EFORMAT, from, "expected \" for this text", SPAN_NONE);
}

enum tv_err
interpolate(struct span text, const struct interpolation *v, struct buf *out, struct buf *why)
{
	struct run r = { .in = text, .v = v, .out = out, .why = why };

	literal(&r, false);
	if (out->failed)
		return TV_ELIMIT;
	return r.err;
}
