/* Domain names, see dname.h. */
#include <stdio.h>

#include "rpcd/dns/dname.h"

enum tv_err
dname_read(struct span msg, size_t *at, struct dname *out)
{
	size_t p = *at, end = 0, limit = *at;	/* a pointer leads before what the last one led to */
	bool jumped = false;

	out->len = 0;
	for (;;) {
		if (p >= msg.len)
			return TV_EFORMAT;
		uint8_t n = msg.p[p];
		if (n >= 0xc0) {
			if (p + 1 >= msg.len)
				return TV_EFORMAT;
			size_t to = (size_t)(n & 0x3f) << 8 | msg.p[p + 1];
			if (!jumped)
				end = p + 2;
			jumped = true;
			if (to >= limit)
				return TV_EFORMAT;
			p = limit = to;
			continue;
		}
		if (n > 63 || p + 1 + n > msg.len || out->len + 1u + n + (n > 0) > DNAME_BYTES_MAX)
			return TV_EFORMAT;
		memcpy(out->wire + out->len, msg.p + p, n + 1u);
		out->len = (uint8_t)(out->len + n + 1);
		p += n + 1u;
		if (n == 0)
			break;
	}
	*at = jumped ? end : p;
	return TV_OK;
}

enum tv_err
dname_of_parts(const struct span *parts, unsigned count, struct dname *out)
{
	size_t len = 0;

	for (unsigned i = 0; i < count; i++) {
		struct span s = parts[i];

		if (s.len > 0 && s.p[s.len - 1] == '.')
			s.len--;
		for (size_t from = 0; from < s.len;) {
			const uint8_t *dot = memchr(s.p + from, '.', s.len - from);
			size_t n = (dot == NULL ? s.len : (size_t)(dot - s.p)) - from;

			if (n == 0 || n > 63 || len + 1 + n + 1 > DNAME_BYTES_MAX ||
			    (dot != NULL && (size_t)(dot - s.p) + 1 == s.len))
				return TV_EINVAL;
			out->wire[len++] = (uint8_t)n;
			memcpy(out->wire + len, s.p + from, n);
			len += n;
			from += n + 1;
		}
	}
	out->wire[len++] = 0;
	out->len = (uint8_t)len;
	return TV_OK;
}

enum tv_err
dname_of_text(struct span text, struct dname *out)
{
	return text.len == 0 ? TV_EINVAL : dname_of_parts(&text, 1, out);
}

void
dname_lower(struct dname *n)
{
	/* Lengths are below 64: no letters. */
	for (size_t i = 0; i < n->len; i++)
		if (n->wire[i] >= 'A' && n->wire[i] <= 'Z')
			n->wire[i] = (uint8_t)(n->wire[i] + ('a' - 'A'));
}

bool
dname_eq(const struct dname *a, const struct dname *b)
{
	return a->len == b->len && memcmp(a->wire, b->wire, a->len) == 0;
}

bool
dname_within(const struct dname *n, const struct dname *zone, size_t *labels)
{
	size_t at = 0;

	if (zone->len == 0)
		return false;
	while (at + zone->len < n->len)
		at += n->wire[at] + 1u;
	*labels = at;
	return at + zone->len == n->len && memcmp(n->wire + at, zone->wire, zone->len) == 0;
}

bool
dname_label_text(const uint8_t *label, size_t len, char *dst, size_t cap, size_t *used)
{
	for (size_t i = 0; i < len; i++) {
		uint8_t c = label[i];

		if (*used + 5 > cap)
			return false;
		if (c < ' ' || c > '~') {
			*used += (size_t)snprintf(dst + *used, 5, "\\%03d", c);
			continue;
		}
		if (memchr(". '@;()\"\\", c, 9) != NULL)
			dst[(*used)++] = '\\';
		dst[(*used)++] = (char)c;
	}
	if (*used >= cap)
		return false;
	dst[*used] = '\0';
	return true;
}
