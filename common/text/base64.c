/* Base64 and base64url (RFC 4648, sections 4 and 5). */
#include "common/text/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void
base64_encode(struct span in, struct buf *out)
{
	const uint8_t *p = in.p;
	size_t left = in.len;
	uint8_t *to = buf_add(out, (in.len + 2) / 3 * 4);

	if (to == NULL)
		return;
	for (; left >= 3; left -= 3, p += 3, to += 4) {
		uint32_t v = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];

		to[0] = (uint8_t)alphabet[v >> 18];
		to[1] = (uint8_t)alphabet[v >> 12 & 63];
		to[2] = (uint8_t)alphabet[v >> 6 & 63];
		to[3] = (uint8_t)alphabet[v & 63];
	}
	if (left == 0)
		return;
	uint32_t v = (uint32_t)p[0] << 16 | (left == 2 ? (uint32_t)p[1] << 8 : 0);
	to[0] = (uint8_t)alphabet[v >> 18];
	to[1] = (uint8_t)alphabet[v >> 12 & 63];
	to[2] = left == 2 ? (uint8_t)alphabet[v >> 6 & 63] : '=';
	to[3] = '=';
}

/* 0..63, or -1. */
static int
digit_value(uint8_t c, const char last[2])
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == last[0] ? 62 : c == last[1] ? 63 : -1;
}

/* Digits without padding; last: the two that the alphabets have apart. */
static bool
decode_digits(struct span in, const char last[2], struct buf *out)
{
	for (size_t i = 0; i < in.len; i += 4) {
		size_t n = in.len - i < 4 ? in.len - i : 4;
		uint32_t v = 0;

		for (size_t k = 0; k < 4; k++) {
			int d = k < n ? digit_value(in.p[i + k], last) : 0;

			if (d < 0)
				return false;
			v = v << 6 | (uint32_t)d;
		}
		/* Bits that are cut off must be zero, so that each value has one spelling. */
		if (n == 1 || (v & ((1u << 8 * (4 - n)) - 1)) != 0)
			return false;
		buf_put(out, (uint8_t[]){ (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v }, n - 1);
	}
	return true;
}

enum tv_err
base64_decode(struct span in, struct buf *out)
{
	size_t before = out->len;

	if (in.len % 4 != 0)
		return TV_EFORMAT;
	for (unsigned i = 0; i < 2 && in.len > 0 && in.p[in.len - 1] == '='; i++)
		in.len--;
	if (!decode_digits(in, "+/", out)) {
		out->len = before;
		return TV_EFORMAT;
	}
	return out->failed ? TV_ELIMIT : TV_OK;
}

bool
base64url_decode(struct span in, struct buf *out)
{
	return decode_digits(in, "-_", out) && !out->failed;
}
