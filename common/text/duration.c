/*
 * Durations as Go writes and reads them: clients, service files and our own configuration share
 * the form.  Source: the documented behaviour of time.ParseDuration and Duration.String.
 */
#include <inttypes.h>
#include <stdbool.h>

#include "common/text/duration.h"

#define NS_LIMIT ((uint64_t)1 << 63)	/* magnitude of the least int64_t */

static const struct unit {
	const char *name;
	uint64_t ns;
} units[] = {
	{ "ns", 1 },
	{ "us", 1000 },
	{ "\xc2\xb5s", 1000 },		/* micro sign */
	{ "\xce\xbcs", 1000 },		/* Greek mu */
	{ "ms", 1000000 },
	{ "s", 1000000000 },
	{ "m", 60000000000 },
	{ "h", 3600000000000 },
};

struct fraction {
	uint64_t digits;
	double scale;		/* digits / scale is the value */
};

static bool
at_digit(const struct rd *r)
{
	return r->p < r->end && *r->p >= '0' && *r->p <= '9';
}

/* Whole digits; false on overflow. */
static bool
whole(struct rd *r, uint64_t *v)
{
	for (*v = 0; at_digit(r); r->p++) {
		if (*v > NS_LIMIT / 10)
			return false;
		*v = *v * 10 + (*r->p - '0');
		if (*v > NS_LIMIT)
			return false;
	}
	return true;
}

/* Digits after the point; those beyond what 63 bits hold count for nothing. */
static struct fraction
fraction(struct rd *r)
{
	struct fraction f = { 0, 1 };
	bool full = false;

	for (; at_digit(r); r->p++) {
		if (full || f.digits > (NS_LIMIT - 1) / 10 || f.digits * 10 + (*r->p - '0') > NS_LIMIT) {
			full = true;
			continue;
		}
		f.digits = f.digits * 10 + (*r->p - '0');
		f.scale *= 10;
	}
	return f;
}

static uint64_t
unit(struct rd *r)
{
	const uint8_t *from = r->p;

	while (r->p < r->end && *r->p != '.' && !at_digit(r))
		r->p++;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (span_eqs(span_of(from, (size_t)(r->p - from)), units[i].name))
			return units[i].ns;
	return 0;
}

/* One "1.5h" into *total. */
static enum tv_err
term(struct rd *r, uint64_t *total)
{
	struct fraction f = { 0, 1 };
	const uint8_t *from = r->p;
	uint64_t v, u;
	bool digits;

	if (!whole(r, &v))
		return TV_ELIMIT;
	digits = r->p > from;
	if (r->p < r->end && *r->p == '.') {
		const uint8_t *point = ++r->p;

		f = fraction(r);
		digits = digits || r->p > point;
	}
	if (!digits || (u = unit(r)) == 0)
		return TV_EFORMAT;
	if (v > NS_LIMIT / u)
		return TV_ELIMIT;
	v *= u;
	if (f.digits > 0)
		v += (uint64_t)((double)f.digits * ((double)u / f.scale));
	if (v > NS_LIMIT || *total > NS_LIMIT - v)
		return TV_ELIMIT;
	*total += v;
	return TV_OK;
}

enum tv_err
duration_parse(struct span text, int64_t *ns)
{
	struct rd r = rd_span_over(text);
	uint64_t total = 0;
	bool neg = false;

	if (text.len > 0 && (*r.p == '-' || *r.p == '+'))
		neg = *r.p++ == '-';
	if (r.p == r.end)
		return TV_EFORMAT;
	if (r.end - r.p == 1 && *r.p == '0') {
		*ns = 0;
		return TV_OK;
	}
	while (r.p < r.end) {
		enum tv_err err = term(&r, &total);

		if (err != TV_OK)
			return err;
	}
	if (!neg && total >= NS_LIMIT)
		return TV_ELIMIT;
	*ns = neg ? (int64_t)(0 - total) : (int64_t)total;
	return TV_OK;
}

enum term_kind { TERM_OK, TERM_NO_NUMBER, TERM_NO_UNIT };

/* Skips digits and points, then a unit; tells whether they could be understood. */
static enum term_kind
skip_term(struct rd *r, struct span *name)
{
	const uint8_t *from = r->p;

	while (at_digit(r) || (r->p < r->end && *r->p == '.'))
		r->p++;
	bool digits = r->p - from > 1 || (r->p > from && *from != '.');
	*name = span_of(r->p, 0);
	uint64_t known = unit(r);
	name->len = (size_t)(r->p - name->p);
	return !digits ? TERM_NO_NUMBER : known == 0 ? TERM_NO_UNIT : TERM_OK;
}

void
duration_why(struct span text, struct buf *out)
{
	struct rd r = rd_span_over(text);
	struct span name = SPAN_NONE;
	enum term_kind last = TERM_OK;

	if (r.p < r.end && (*r.p == '-' || *r.p == '+'))
		r.p++;
	while (r.p < r.end && last == TERM_OK)
		last = skip_term(&r, &name);
	if (last != TERM_NO_UNIT)
		buf_puts(out, "time: invalid duration \"");
	else if (name.len == 0)
		buf_puts(out, "time: missing unit in duration \"");
	else
		buf_printf(out, "time: unknown unit \"%.*s\" in duration \"", (int)name.len, (const char *)name.p);
	buf_putspan(out, text);
	buf_puts(out, "\"");
}

/* v / 10^digits without trailing zeros. */
static void
put_decimal(uint64_t v, int digits, struct buf *out)
{
	uint64_t scale = 1, rest;

	for (int i = 0; i < digits; i++)
		scale *= 10;
	buf_printf(out, "%" PRIu64, v / scale);
	rest = v % scale;
	if (rest == 0)
		return;
	for (; rest % 10 == 0; digits--)
		rest /= 10;
	buf_printf(out, ".%0*" PRIu64, digits, rest);
}

void
duration_print(int64_t ns, struct buf *out)
{
	uint64_t v = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;

	if (ns < 0)
		buf_puts(out, "-");
	if (v == 0) {
		buf_puts(out, "0s");
	} else if (v < 1000) {
		buf_printf(out, "%" PRIu64 "ns", v);
	} else if (v < 1000000) {
		put_decimal(v, 3, out);
		buf_puts(out, "\xc2\xb5s");
	} else if (v < 1000000000) {
		put_decimal(v, 6, out);
		buf_puts(out, "ms");
	} else {
		uint64_t minutes = v / 60000000000;

		if (minutes >= 60)
			buf_printf(out, "%" PRIu64 "h", minutes / 60);
		if (minutes > 0)
			buf_printf(out, "%" PRIu64 "m", minutes % 60);
		put_decimal(v % 60000000000, 9, out);
		buf_puts(out, "s");
	}
}
