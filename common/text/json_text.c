/* JSON as text: quoting and indenting.  No parser: that is jansson's, see schema_json.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/text/json_text.h"

/* Bytes that need no escape and no look at what follows them. */
static bool
is_plain(uint8_t c)
{
	return c >= 0x20 && c < 0x80 && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&';
}

static void
quote_ascii(uint8_t c, struct buf *out)
{
	static const char hex[] = "0123456789abcdef";
	uint8_t unicode[6] = { '\\', 'u', '0', '0', (uint8_t)hex[c >> 4], (uint8_t)hex[c & 15] };

	switch (c) {
	case '"':
	case '\\':
		buf_put(out, (uint8_t[]){ '\\', c }, 2);
		break;
	case '\n':
		buf_puts(out, "\\n");
		break;
	case '\r':
		buf_puts(out, "\\r");
		break;
	case '\t':
		buf_puts(out, "\\t");
		break;
	default:
		buf_put(out, unicode, sizeof(unicode));
	}
}

/* "d.ddde-07" into digits without the point; returns the decimal exponent of the first one. */
static int
take_digits(const char *text, char digits[24])
{
	const char *e = strchr(text, 'e');
	size_t n = 0;

	for (const char *p = text; p < e; p++)
		if (*p != '.')
			digits[n++] = *p;
	while (n > 1 && digits[n - 1] == '0')
		n--;
	digits[n] = '\0';
	return atoi(e + 1);
}

void
json_number(double v, struct buf *out)
{
	char text[40], digits[24];
	int precision = 0;

	if (!isfinite(v)) {
		buf_puts(out, "null");
		return;
	}
	do
		snprintf(text, sizeof(text), "%.*e", precision, fabs(v));
	while (strtod(text, NULL) != fabs(v) && ++precision < 17);
	int exponent = take_digits(text, digits), count = (int)strlen(digits);
	if (signbit(v))
		buf_u8(out, '-');
	if (v != 0 && (exponent < -6 || exponent >= 21)) {
		buf_printf(out, "%c%s%se%c%d", digits[0], count > 1 ? "." : "", digits + 1, exponent < 0 ? '-' : '+',
		    abs(exponent));
		return;
	}
	if (exponent < 0) {
		buf_printf(out, "0.%.*s%s", -exponent - 1, "00000", digits);
		return;
	}
	for (int i = 0; i < count || i <= exponent; i++) {
		if (i == exponent + 1)
			buf_u8(out, '.');
		buf_u8(out, (uint8_t)(i < count ? digits[i] : '0'));
	}
}

size_t
utf8_length(const uint8_t *p, const uint8_t *end)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = (p[0] & 0xe0) == 0xc0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : (p[0] & 0xf8) == 0xf0 ? 4 : 0;
	uint32_t v = n == 0 ? 0 : p[0] & (0x7fu >> n);

	if (n == 0 || (size_t)(end - p) < n)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		v = v << 6 | (p[i] & 0x3f);
	}
	return v < least[n] || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff) ? 0 : n;
}

/* One character outside ASCII; returns the bytes taken. */
static size_t
quote_wide(const uint8_t *p, const uint8_t *end, struct buf *out)
{
	size_t n = utf8_length(p, end);

	if (n == 0) {
		buf_puts(out, "\\ufffd");
		return 1;
	}
	/* U+2028 and U+2029 end lines in JavaScript. */
	if (n == 3 && p[0] == 0xe2 && p[1] == 0x80 && (p[2] == 0xa8 || p[2] == 0xa9))
		buf_puts(out, p[2] == 0xa8 ? "\\u2028" : "\\u2029");
	else
		buf_put(out, p, n);
	return n;
}

void
json_quote(struct span text, struct buf *out)
{
	struct rd r = rd_span_over(text);
	const uint8_t *p = r.p, *end = r.end;

	buf_u8(out, '"');
	while (p < end) {
		const uint8_t *run = p;

		while (p < end && is_plain(*p))
			p++;
		if (p > run)
			buf_put(out, run, (size_t)(p - run));
		if (p == end)
			break;
		if (*p >= 0x80)
			p += quote_wide(p, end, out);
		else
			quote_ascii(*p++, out);
	}
	buf_u8(out, '"');
}

void
text_quote(struct span text, struct buf *out)
{
	const uint8_t *p = text.p, *end = text.len == 0 ? p : p + text.len;	/* which may be NULL */
	size_t wide;

	buf_u8(out, '"');
	for (; p < end; p += wide > 0 ? wide : 1) {
		wide = utf8_length(p, end);
		if (wide > 0)
			buf_put(out, p, wide);
		else if (*p == '"' || *p == '\\' || *p == '\n' || *p == '\t')
			quote_ascii(*p, out);
		else if (*p >= 0x20 && *p < 0x7f)
			buf_u8(out, *p);
		else
			buf_printf(out, "\\x%02x", *p);
	}
	buf_u8(out, '"');
}

static void
new_line(unsigned depth, struct buf *out)
{
	buf_u8(out, '\n');
	while (depth-- > 0)
		buf_puts(out, "    ");
}

/* Copies the string that starts at p, quotes included; returns where it ends. */
static const uint8_t *
copy_string(const uint8_t *p, const uint8_t *end, struct buf *out)
{
	const uint8_t *from = p++;

	while (p < end && *p != '"')
		p += *p == '\\' && end - p > 1 ? 2 : 1;
	if (p < end)
		p++;
	buf_put(out, from, (size_t)(p - from));
	return p;
}

void
json_pretty(struct span compact, struct buf *out)
{
	struct rd r = rd_span_over(compact);
	const uint8_t *p = r.p, *end = r.end;
	unsigned depth = 0;

	while (p < end && !out->failed) {
		uint8_t c = *p;

		if (c == '"') {
			p = copy_string(p, end, out);
			continue;
		}
		p++;
		if ((c == '}' || c == ']') && depth > 0)
			new_line(--depth, out);
		buf_u8(out, c);
		if (c == ':')
			buf_u8(out, ' ');
		else if (c == ',')
			new_line(depth, out);
		else if ((c == '{' || c == '[') && p < end && (*p == '}' || *p == ']'))
			buf_u8(out, *p++);
		else if (c == '{' || c == '[')
			new_line(++depth, out);
	}
	buf_u8(out, '\n');
}

unsigned
json_depth(struct span text)
{
	unsigned depth = 0, deepest = 0;
	bool in_string = false;

	for (size_t i = 0; i < text.len; i++) {
		uint8_t c = text.p[i];

		if (in_string && c == '\\')
			i++;
		else if (c == '"')
			in_string = !in_string;
		else if (!in_string && (c == '{' || c == '['))
			deepest = ++depth > deepest ? depth : deepest;
		else if (!in_string && (c == '}' || c == ']') && depth > 0)
			depth--;
	}
	return deepest;
}
