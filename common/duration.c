/* Durations as text: "1h2m3.5s". */
#include <inttypes.h>
#include <stdbool.h>

#include "common/duration.h"

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
	{ "m", 60ull * 1000000000 },
	{ "h", 3600ull * 1000000000 },
};

static bool
is_digit(const struct rd *r)
{
	return r->p < r->end && *r->p >= '0' && *r->p <= '9';
}

static const struct unit *
take_unit(struct rd *r)
{
	const uint8_t *from = r->p;

	while (r->p < r->end && *r->p != '.' && !is_digit(r))
		r->p++;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (span_eqs(span_of(from, (size_t)(r->p - from)), units[i].name))
			return &units[i];
	return NULL;
}

/* Digits into *v; false when they do not fit. */
static bool
take_digits(struct rd *r, uint64_t *v, unsigned *count)
{
	for (*v = 0, *count = 0; is_digit(r); r->p++, ++*count)
		if (__builtin_mul_overflow(*v, 10, v) || __builtin_add_overflow(*v, (uint64_t)(*r->p - '0'), v))
			return false;
	return true;
}

/* The fraction digits, scaled; more than 17 of them say nothing at this resolution. */
static double
take_fraction(struct rd *r, unsigned *count)
{
	double value = 0, scale = 1;

	for (*count = 0; is_digit(r); r->p++, ++*count) {
		scale /= 10;
		if (*count < 18)
			value += (*r->p - '0') * scale;
	}
	return value;
}

static enum tv_err
take_part(struct rd *r, uint64_t *total)
{
	uint64_t whole;
	unsigned whole_digits, fraction_digits = 0;
	double fraction = 0;

	if (!take_digits(r, &whole, &whole_digits))
		return TV_ELIMIT;
	if (r->p < r->end && *r->p == '.') {
		r->p++;
		fraction = take_fraction(r, &fraction_digits);
	}
	const struct unit *unit = take_unit(r);
	if (whole_digits + fraction_digits == 0 || unit == NULL)
		return TV_EFORMAT;
	if (__builtin_mul_overflow(whole, unit->ns, &whole) || __builtin_add_overflow(*total, whole, total))
		return TV_ELIMIT;
	/* + 0.5: 0.1 is not exact in binary, and 0.3s must be 300000000. */
	uint64_t part = (uint64_t)(fraction * (double)unit->ns + (fraction_digits > 0 ? 0.5 : 0));
	return __builtin_add_overflow(*total, part, total) ? TV_ELIMIT : TV_OK;
}

enum tv_err
duration_parse(struct span text, int64_t *ns)
{
	struct rd r = rd_span_over(text);
	uint64_t total = 0;
	bool minus = false;

	if (r.p < r.end && (*r.p == '-' || *r.p == '+'))
		minus = *r.p++ == '-';
	if (r.p == r.end)
		return TV_EFORMAT;
	if (!(r.end - r.p == 1 && *r.p == '0'))
		while (r.p < r.end) {
			enum tv_err err = take_part(&r, &total);

			if (err != TV_OK)
				return err;
		}
	if (total > INT64_MAX)
		return TV_ELIMIT;
	*ns = minus ? -(int64_t)total : (int64_t)total;
	return TV_OK;
}

/* value / unit with up to nine decimals, trailing zeros cut. */
static void
print_decimal(uint64_t value, uint64_t unit, const char *name, struct buf *out)
{
	uint64_t rest = value % unit;

	buf_printf(out, "%" PRIu64, value / unit);
	if (rest != 0) {
		buf_puts(out, ".");
		while (rest != 0) {
			rest *= 10;
			buf_u8(out, (uint8_t)('0' + rest / unit));
			rest %= unit;
		}
	}
	buf_puts(out, name);
}

void
duration_print(int64_t ns, struct buf *out)
{
	uint64_t left = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
	const uint64_t minute = 60ull * 1000000000, hour = 60 * minute;

	if (ns < 0)
		buf_puts(out, "-");
	if (left >= 1000000000) {
		if (left >= hour)
			buf_printf(out, "%" PRIu64 "h", left / hour);
		if (left >= minute)
			buf_printf(out, "%" PRIu64 "m", left % hour / minute);
		print_decimal(left % minute, 1000000000, "s", out);
	} else if (left >= 1000000) {
		print_decimal(left, 1000000, "ms", out);
	} else if (left >= 1000) {
		print_decimal(left, 1000, "\xc2\xb5s", out);
	} else {
		buf_printf(out, "%" PRIu64 "%s", left, left == 0 ? "s" : "ns");
	}
}
