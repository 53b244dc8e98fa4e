/* Sockets and addresses; see net.h. */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

#include "gossipd/net.h"

#define RECEIVE_BUFFER_BYTES (2 << 20)	/* asked for; halved until the system grants it */

static const uint8_t mapped_prefix[12] = { [10] = 0xff, [11] = 0xff };

static bool
is_mapped(const struct gaddr *a)
{
	return a->len == 16 && memcmp(a->ip, mapped_prefix, sizeof(mapped_prefix)) == 0;
}

const char *
net_ip(const struct gaddr *a, char dst[NET_TEXT_BYTES])
{
	if (a->len == 0)
		snprintf(dst, NET_TEXT_BYTES, "-");
	else if (a->len == 4)
		inet_ntop(AF_INET, a->ip, dst, NET_TEXT_BYTES);
	else
		inet_ntop(is_mapped(a) ? AF_INET : AF_INET6, a->ip + (is_mapped(a) ? 12 : 0), dst, NET_TEXT_BYTES);
	return dst;
}

const char *
net_text(const struct gaddr *a, char dst[NET_TEXT_BYTES])
{
	char ip[NET_TEXT_BYTES];

	net_ip(a, ip);
	if (a->len == 0)
		snprintf(dst, NET_TEXT_BYTES, "-");
	else
		snprintf(dst, NET_TEXT_BYTES, strchr(ip, ':') != NULL ? "[%.46s]:%u" : "%.46s:%u", ip, a->port);
	return dst;
}

bool
net_parse(const char *ip, uint16_t port, struct gaddr *out)
{
	*out = (struct gaddr){ .port = port };
	if (inet_pton(AF_INET, ip, out->ip) == 1)
		out->len = 4;
	else if (inet_pton(AF_INET6, ip, out->ip) == 1)
		out->len = 16;
	return out->len != 0;
}

socklen_t
net_sockaddr(const struct gaddr *a, int family, struct sockaddr_storage *out)
{
	struct sockaddr_in *four = (struct sockaddr_in *)out;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	if (family == AF_INET) {
		if (a->len != 4 && !is_mapped(a))
			return 0;
		four->sin_family = AF_INET;
		four->sin_port = htons(a->port);
		memcpy(&four->sin_addr, a->ip + (a->len == 4 ? 0 : 12), 4);
		return sizeof(*four);
	}
	six->sin6_family = AF_INET6;
	six->sin6_port = htons(a->port);
	if (a->len == 4) {
		memcpy(&six->sin6_addr, mapped_prefix, sizeof(mapped_prefix));
		memcpy((uint8_t *)&six->sin6_addr + 12, a->ip, 4);
	} else {
		memcpy(&six->sin6_addr, a->ip, 16);
	}
	return sizeof(*six);
}

struct gaddr
net_gaddr(const struct sockaddr_storage *sa)
{
	struct gaddr a = { .len = 0 };

	if (sa->ss_family == AF_INET) {
		const struct sockaddr_in *four = (const struct sockaddr_in *)sa;

		memcpy(a.ip, &four->sin_addr, 4);
		a.len = 4;
		a.port = ntohs(four->sin_port);
	} else if (sa->ss_family == AF_INET6) {
		const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)sa;

		memcpy(a.ip, &six->sin6_addr, 16);
		a.len = 16;
		a.port = ntohs(six->sin6_port);
		if (is_mapped(&a)) {
			memmove(a.ip, a.ip + 12, 4);
			a.len = 4;
		}
	}
	return a;
}

int
net_listen_udp(const char *ip, uint16_t port)
{
	struct sockaddr_storage sa;
	struct gaddr a;
	socklen_t len;
	int fd, bytes = RECEIVE_BUFFER_BYTES, saved;

	if (!net_parse(ip, port, &a)) {
		errno = EINVAL;
		return -1;
	}
	len = net_sockaddr(&a, a.len == 4 ? AF_INET : AF_INET6, &sa);
	fd = socket(sa.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	while (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)) != 0 && bytes > 65536)
		bytes /= 2;
	if (bind(fd, (struct sockaddr *)&sa, len) == 0)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

int
net_family(int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	return getsockname(fd, (struct sockaddr *)&sa, &len) == 0 ? sa.ss_family : AF_INET;
}
