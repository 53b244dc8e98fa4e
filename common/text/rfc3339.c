/* RFC 3339.  Days are counted by the proleptic Gregorian calendar, without the C library and its time zones. */
#include <inttypes.h>

#include "common/text/rfc3339.h"

#define SECOND 1000000000ll
#define DAY_S 86400ll
#define DAYS_OF_ERA 146097ll		/* 400 years */
#define DAYS_TO_1970 719468ll		/* from 1 March of the year 0 */

/* Days since 1970 of a date; years begin in March, so that the day that is sometimes there is the last one. */
static int64_t
days_of(int64_t year, int month, int day)
{
	int64_t y = month <= 2 ? year - 1 : year, era = (y >= 0 ? y : y - 399) / 400, of_era = y - era * 400;
	int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * DAYS_OF_ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year - DAYS_TO_1970;
}

static void
date_of(int64_t days, int64_t *year, int *month, int *day)
{
	int64_t z = days + DAYS_TO_1970, era = (z >= 0 ? z : z - DAYS_OF_ERA + 1) / DAYS_OF_ERA;
	int64_t of_era = z - era * DAYS_OF_ERA;
	int64_t y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int64_t of_year = of_era - (365 * y + y / 4 - y / 100), mp = (5 * of_year + 2) / 153;

	*day = (int)(of_year - (153 * mp + 2) / 5 + 1);
	*month = (int)(mp < 10 ? mp + 3 : mp - 9);
	*year = y + era * 400 + (*month <= 2);
}

void
rfc3339_print(int64_t ns, struct buf *out)
{
	int64_t s = ns / SECOND, rest = ns % SECOND, days, year;
	int month, day, digits = 9;

	if (rest < 0) {
		rest += SECOND;
		s--;
	}
	days = s / DAY_S;
	s %= DAY_S;
	if (s < 0) {
		s += DAY_S;
		days--;
	}
	date_of(days, &year, &month, &day);
	buf_printf(out, "%04" PRId64 "-%02d-%02dT%02d:%02d:%02d", year, month, day, (int)(s / 3600), (int)(s / 60 % 60),
	    (int)(s % 60));
	if (rest > 0) {
		while (rest % 10 == 0) {
			rest /= 10;
			digits--;
		}
		buf_printf(out, ".%0*" PRId64, digits, rest);
	}
	buf_u8(out, 'Z');
}

/* So many digits off the front, and the mark behind them; 0: none. */
static bool
take_number(struct span *in, unsigned digits, char mark, int *out)
{
	*out = 0;
	if (in->len < digits + (mark != 0))
		return false;
	for (unsigned i = 0; i < digits; i++) {
		if (in->p[i] < '0' || in->p[i] > '9')
			return false;
		*out = *out * 10 + (in->p[i] - '0');
	}
	if (mark != 0 && in->p[digits] != (uint8_t)mark)
		return false;
	*in = span_of(in->p + digits + (mark != 0), in->len - digits - (mark != 0));
	return true;
}

/* Digits past the ninth say nothing. */
static bool
take_fraction(struct span *in, int64_t *ns)
{
	int64_t unit = SECOND;
	size_t n = 1;

	*ns = 0;
	if (in->len == 0 || in->p[0] != '.')
		return true;
	for (; n < in->len && in->p[n] >= '0' && in->p[n] <= '9'; n++) {
		unit /= 10;
		*ns += unit * (in->p[n] - '0');
	}
	*in = span_of(in->p + n, in->len - n);
	return n > 1;
}

/* To the end of the text. */
static bool
take_offset(struct span *in, int64_t *seconds)
{
	int hours, minutes, sign;

	*seconds = 0;
	if (in->len == 1 && in->p[0] == 'Z')
		return true;
	if (in->len != 6 || (in->p[0] != '+' && in->p[0] != '-'))
		return false;
	sign = in->p[0] == '+' ? 1 : -1;
	*in = span_of(in->p + 1, 5);
	if (!take_number(in, 2, ':', &hours) || !take_number(in, 2, 0, &minutes) || hours > 23 || minutes > 59)
		return false;
	*seconds = sign * (hours * 3600ll + minutes * 60ll);
	return true;
}

static int
days_in(int year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };

	return days[month - 1] + (month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
}

enum tv_err
rfc3339_parse(struct span text, int64_t *ns)
{
	int year, month, day, hour, minute, second;
	int64_t fraction, offset, s;

	*ns = 0;
	if (text.len > RFC3339_BYTES_MAX || !take_number(&text, 4, '-', &year) || !take_number(&text, 2, '-', &month) ||
	    !take_number(&text, 2, 'T', &day) || !take_number(&text, 2, ':', &hour) ||
	    !take_number(&text, 2, ':', &minute) || !take_number(&text, 2, 0, &second) ||
	    !take_fraction(&text, &fraction) || !take_offset(&text, &offset))
		return TV_EFORMAT;
	if (month < 1 || month > 12 || day < 1 || day > days_in(year, month) || hour > 23 || minute > 59 || second > 59)
		return TV_EFORMAT;
	s = days_of(year, month, day) * DAY_S + hour * 3600ll + minute * 60ll + second - offset;
	if (s <= INT64_MIN / SECOND || s >= INT64_MAX / SECOND)
		return TV_ELIMIT;
	*ns = s * SECOND + fraction;
	return TV_OK;
}
