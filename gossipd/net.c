/* Sockets and addresses; see net.h. */
#include "config.h"

#include <errno.h>
#include <unistd.h>

#include "gossipd/net.h"

#define RECEIVE_BUFFER_BYTES (2 << 20)	/* asked for; halved until the system grants it */

const char *
net_ip(const struct addr *a, char dst[NET_TEXT_BYTES])
{
	struct addr bare = addr_unmapped(*a);

	return a->len > 0 ? addr_ip(&bare, dst) : strcpy(dst, "-");
}

const char *
net_text(const struct addr *a, char dst[NET_TEXT_BYTES])
{
	struct addr bare = addr_unmapped(*a);

	return a->len > 0 ? addr_text(&bare, dst) : strcpy(dst, "-");
}

socklen_t
net_sockaddr(const struct addr *a, int family, struct sockaddr_storage *out)
{
	struct addr b = family == AF_INET ? addr_unmapped(*a) : addr_mapped(*a);

	memset(out, 0, sizeof(*out));
	return family == AF_INET && b.len != 4 ? 0 : addr_to_sock(&b, (union addr_sock *)(void *)out);
}

struct addr
net_addr(const struct sockaddr_storage *sa)
{
	return addr_unmapped(addr_of_sock((const struct sockaddr *)sa));
}

int
net_listen_udp(const char *ip, uint16_t port)
{
	union addr_sock sa;
	socklen_t len = addr_parse_sock(ip, port, &sa);
	int fd, bytes = RECEIVE_BUFFER_BYTES, saved;

	if (len == 0)
		return -1;
	fd = socket(sa.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	while (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)) != 0 && bytes > 65536)
		bytes /= 2;
	if (bind(fd, &sa.any, len) == 0)
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
