/* IP addresses; see addr.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/addr.h"

static const uint8_t mapped_prefix[12] = { [10] = 0xff, [11] = 0xff };

bool
addr_parse(const char *ip, uint16_t port, struct addr *out)
{
	struct addr a = { .port = port };

	if (inet_pton(AF_INET, ip, a.ip) == 1)
		a.len = 4;
	else if (inet_pton(AF_INET6, ip, a.ip) == 1)
		a.len = 16;
	if (out != NULL)
		*out = a.len > 0 ? a : (struct addr){ .len = 0 };
	return a.len > 0;
}

bool
addr_parse_span(struct span ip, uint16_t port, struct addr *out)
{
	char text[ADDR_IP_BYTES];

	return addr_parse(span_copy(ip, text, sizeof(text)) ? text : "", port, out);
}

bool
addr_parse_text(struct span text, struct addr *out)
{
	char copy[ADDR_TEXT_BYTES], *colon, *end, *ip = copy;
	unsigned long port;

	*out = (struct addr){ .len = 0 };
	if (!span_copy(text, copy, sizeof(copy)) || (colon = strrchr(copy, ':')) == NULL || colon[1] < '0' ||
	    colon[1] > '9')
		return false;
	*colon = '\0';
	port = strtoul(colon + 1, &end, 10);
	if (ip[0] == '[' && colon[-1] == ']') {
		ip++;
		colon[-1] = '\0';
	}
	return *end == '\0' && port > 0 && port <= UINT16_MAX && addr_parse(ip, (uint16_t)port, out);
}

struct addr
addr_of_bytes(const void *bytes, size_t len)
{
	struct addr a = { .len = 0 };

	if (len != 4 && len != 16)
		return a;
	memcpy(a.ip, bytes, len);
	a.len = (uint8_t)len;
	return a;
}

bool
addr_is_mapped(const struct addr *a)
{
	return a->len == 16 && memcmp(a->ip, mapped_prefix, sizeof(mapped_prefix)) == 0;
}

struct addr
addr_unmapped(struct addr a)
{
	if (!addr_is_mapped(&a))
		return a;
	struct addr four = addr_of_bytes(a.ip + sizeof(mapped_prefix), 4);
	four.port = a.port;
	return four;
}

struct addr
addr_mapped(struct addr a)
{
	if (a.len == 4) {
		memcpy(a.ip + sizeof(mapped_prefix), a.ip, 4);
		memcpy(a.ip, mapped_prefix, sizeof(mapped_prefix));
		a.len = 16;
	}
	return a;
}

bool
addr_is_any(const struct addr *a)
{
	static const uint8_t zeros[16];

	return a->len > 0 && memcmp(a->ip, zeros, a->len) == 0;
}

bool
addr_is_loopback(const struct addr *a)
{
	static const uint8_t six[16] = { [15] = 1 };

	return a->len == 4 ? a->ip[0] == 127 : a->len == 16 && memcmp(a->ip, six, sizeof(six)) == 0;
}

/* 0..255; returns where the text ends. */
static char *
put_octet(char *to, unsigned v)
{
	if (v >= 100)
		*to++ = (char)('0' + v / 100);
	if (v >= 10)
		*to++ = (char)('0' + v / 10 % 10);
	*to++ = (char)('0' + v % 10);
	return to;
}

/* Each request has the text of its client: inet_ntop() prints, which takes fifteen times as long. */
static void
put_four(const uint8_t ip[4], char *to)
{
	for (unsigned i = 0; i < 4; i++) {
		to = put_octet(to, ip[i]);
		*to++ = '.';
	}
	to[-1] = '\0';
}

const char *
addr_ip(const struct addr *a, char dst[ADDR_IP_BYTES])
{
	dst[0] = '\0';
	if (a->len == 4)
		put_four(a->ip, dst);
	else if (a->len > 0)
		(void)inet_ntop(AF_INET6, a->ip, dst, ADDR_IP_BYTES);
	return dst;
}

const char *
addr_text(const struct addr *a, char dst[ADDR_TEXT_BYTES])
{
	char ip[ADDR_IP_BYTES];

	dst[0] = '\0';
	if (a->len > 0)
		snprintf(dst, ADDR_TEXT_BYTES, a->len == 4 ? "%s:%u" : "[%s]:%u", addr_ip(a, ip), a->port);
	return dst;
}

struct addr
addr_of_sock(const struct sockaddr *sa)
{
	struct addr a = { .len = 0 };

	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)sa;

		a = addr_of_bytes(&four->sin_addr, 4);
		a.port = ntohs(four->sin_port);
	} else if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)sa;

		a = addr_of_bytes(&six->sin6_addr, 16);
		a.port = ntohs(six->sin6_port);
	}
	return a;
}

socklen_t
addr_to_sock(const struct addr *a, union addr_sock *out)
{
	memset(out, 0, sizeof(*out));
	if (a->len == 0)
		return 0;
	out->any.sa_family = a->len == 4 ? AF_INET : AF_INET6;
	out->v4.sin_port = htons(a->port);
	memcpy(a->len == 4 ? (void *)&out->v4.sin_addr : &out->v6.sin6_addr, a->ip, a->len);
	return addr_sock_len(out);
}

socklen_t
addr_parse_sock(const char *ip, uint16_t port, union addr_sock *out)
{
	struct addr a;

	if (!addr_parse(ip, port, &a))
		errno = EINVAL;
	return addr_to_sock(&a, out);
}

socklen_t
addr_sock_len(const union addr_sock *sa)
{
	return sa->any.sa_family == AF_INET6 ? sizeof(sa->v6) : sizeof(sa->v4);
}

bool
addr_net_parse(struct span text, struct addr_net *out)
{
	const uint8_t *slash = memchr(text.p, '/', text.len), *end = text.p + text.len;
	struct addr a;
	unsigned bits = 0;

	*out = (struct addr_net){ .len = 0 };
	if (!addr_parse_span(slash == NULL ? text : span_of(text.p, (size_t)(slash - text.p)), 0, &a))
		return false;
	if (slash == NULL)
		bits = a.len * 8u;
	else if (end - slash < 2 || end - slash > 4)
		return false;
	for (const uint8_t *p = slash == NULL ? end : slash + 1; p < end; p++) {
		if (*p < '0' || *p > '9')
			return false;
		bits = bits * 10 + (unsigned)(*p - '0');
	}
	if (bits > a.len * 8u)
		return false;
	memcpy(out->ip, a.ip, a.len);
	out->len = a.len;
	out->bits = (uint8_t)bits;
	return true;
}

bool
addr_net_has(const struct addr_net *n, const struct addr *a)
{
	unsigned whole = n->bits / 8, rest = n->bits % 8;

	return n->len == a->len && n->len > 0 && memcmp(n->ip, a->ip, whole) == 0 &&
	    (rest == 0 || (n->ip[whole] ^ a->ip[whole]) >> (8 - rest) == 0);
}
