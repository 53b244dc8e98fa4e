/* Base64, standard alphabet with padding (RFC 4648 section 4). */
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
digit_value(uint8_t c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Four digits, of which the last `pad` are padding: 3 - pad bytes. */
static bool
decode_group(const uint8_t *p, unsigned pad, uint8_t dst[3])
{
	uint32_t v = 0;

	for (unsigned i = 0; i < 4; i++) {
		int d = i < 4 - pad ? digit_value(p[i]) : 0;

		if (d < 0)
			return false;
		v = v << 6 | (uint32_t)d;
	}
	dst[0] = (uint8_t)(v >> 16);
	dst[1] = (uint8_t)(v >> 8);
	dst[2] = (uint8_t)v;
	/* Bits that the padding cuts off must be zero, so that each value has one spelling. */
	return pad == 0 || (pad == 1 ? dst[2] == 0 : dst[1] == 0 && dst[2] == 0);
}

enum tv_err
base64_decode(struct span in, struct buf *out)
{
	size_t before = out->len;

	if (in.len % 4 != 0)
		return TV_EFORMAT;
	for (size_t i = 0; i < in.len; i += 4) {
		const uint8_t *p = in.p + i;
		unsigned pad = 0;
		uint8_t bytes[3];

		if (i + 4 == in.len)
			pad = p[3] != '=' ? 0 : p[2] != '=' ? 1 : 2;
		if (!decode_group(p, pad, bytes)) {
			out->len = before;
			return TV_EFORMAT;
		}
		buf_put(out, bytes, 3 - pad);
	}
	return out->failed ? TV_ELIMIT : TV_OK;
}
