/*
 * DNS over UDP: many datagrams with one system call each way.  An answer leaves from the address that was asked, which
 * matters where we listen on all.
 */
#include <errno.h>
#include <linux/sock_diag.h>
#include <stdlib.h>
#include <string.h>

#include "rpcd/dns/server.h"

#define TAG "dns"
#define BATCH 32
#define TURN_BATCHES 8			/* of one socket in one turn of the loop: others have theirs */
#define OUT_BYTES (128u << 10)		/* of answers that leave together */

union control {
	struct cmsghdr head;
	uint8_t bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

struct udp_socket {
	struct server *server;
	int fd;
	ev_io io;
	/* answers of this turn */
	unsigned queued;
	size_t used;
	struct mmsghdr out[BATCH];
	struct iovec out_iov[BATCH];
	union control out_control[BATCH];
	union addr_sock to[BATCH];
	uint8_t out_bytes[OUT_BYTES];
};

/* Where datagrams are read to: all sockets share it. */
struct udp_in {
	struct mmsghdr msgs[BATCH];
	struct iovec iov[BATCH];
	union control control[BATCH];
	union addr_sock from[BATCH];
	uint8_t bytes[BATCH][DNS_MESSAGE_BYTES_MAX];
};
static struct udp_in in;		/* touched only as far as datagrams reach */

static void
flush(struct udp_socket *u)
{
	unsigned sent = 0;

	while (sent < u->queued) {
		int n = sendmmsg(u->fd, u->out + sent, u->queued - sent, MSG_DONTWAIT);

		if (n > 0) {
			u->server->stats.answers += (unsigned)n;
			sent += (unsigned)n;
		} else if (errno != EINTR) {
			u->server->stats.dropped++;	/* its client asks again */
			sent++;
		}
	}
	u->queued = 0;
	u->used = 0;
}

/* Which of our addresses was asked. */
static void
read_destination(struct msghdr *m, union addr_sock *to)
{
	to->any.sa_family = AF_UNSPEC;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo info;

			memcpy(&info, CMSG_DATA(c), sizeof(info));
			to->any.sa_family = AF_INET;
			to->v4.sin_addr = info.ipi_addr;
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			struct in6_pktinfo info;

			memcpy(&info, CMSG_DATA(c), sizeof(info));
			to->any.sa_family = AF_INET6;
			to->v6.sin6_addr = info.ipi6_addr;
			to->v6.sin6_scope_id = info.ipi6_ifindex;
		}
	}
}

static void
write_source(struct msghdr *m, union control *control, const union addr_sock *from)
{
	memset(control, 0, sizeof(*control));
	if (from->any.sa_family == AF_INET) {
		struct in_pktinfo info = { .ipi_spec_dst = from->v4.sin_addr };

		control->head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(info)), .cmsg_level = IPPROTO_IP,
		    .cmsg_type = IP_PKTINFO };
		memcpy(CMSG_DATA(&control->head), &info, sizeof(info));
		m->msg_controllen = CMSG_SPACE(sizeof(info));
	} else if (from->any.sa_family == AF_INET6) {
		struct in6_pktinfo info = { .ipi6_addr = from->v6.sin6_addr };

		if (IN6_IS_ADDR_LINKLOCAL(&from->v6.sin6_addr))
			info.ipi6_ifindex = from->v6.sin6_scope_id;
		control->head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(info)), .cmsg_level = IPPROTO_IPV6,
		    .cmsg_type = IPV6_PKTINFO };
		memcpy(CMSG_DATA(&control->head), &info, sizeof(info));
		m->msg_controllen = CMSG_SPACE(sizeof(info));
	}
	m->msg_control = m->msg_controllen > 0 ? control : NULL;
}

void
udp_send(struct server *s, const struct client *c, struct span answer)
{
	struct udp_socket *u = c->udp;

	if (answer.len > DNS_MESSAGE_BYTES_MAX) {
		s->stats.dropped++;
		return;
	}
	if (u->queued == BATCH || u->used + answer.len > OUT_BYTES)
		flush(u);
	unsigned i = u->queued++;
	memcpy(u->out_bytes + u->used, answer.p, answer.len);
	u->out_iov[i] = (struct iovec){ u->out_bytes + u->used, answer.len };
	u->used += answer.len;
	u->to[i] = c->from;
	u->out[i].msg_hdr = (struct msghdr){ .msg_name = &u->to[i], .msg_namelen = addr_sock_len(&c->from),
	    .msg_iov = &u->out_iov[i], .msg_iovlen = 1 };
	write_source(&u->out[i].msg_hdr, &u->out_control[i], &c->to);
	if (!ev_is_pending(&u->io))
		ev_feed_event(s->loop, &u->io, EV_CUSTOM);
}

static int
receive(struct udp_socket *u)
{
	for (unsigned i = 0; i < BATCH; i++) {
		in.iov[i] = (struct iovec){ in.bytes[i], sizeof(in.bytes[i]) };
		in.msgs[i].msg_hdr = (struct msghdr){ .msg_name = &in.from[i], .msg_namelen = sizeof(in.from[i]),
		    .msg_iov = &in.iov[i], .msg_iovlen = 1, .msg_control = &in.control[i],
		    .msg_controllen = sizeof(in.control[i]) };
	}
	return recvmmsg(u->fd, in.msgs, BATCH, MSG_DONTWAIT, NULL);
}

static void
on_io(struct ev_loop *loop UNUSED, ev_io *w, int events)
{
	struct udp_socket *u = w->data;
	struct server *s = u->server;
	int n = events & EV_READ ? BATCH : 0;

	for (unsigned batch = 0; batch < TURN_BATCHES && n == BATCH; batch++) {
		n = receive(u);
		for (int i = 0; i < n; i++) {
			struct client c = { .from = in.from[i], .udp = u };

			read_destination(&in.msgs[i].msg_hdr, &c.to);
			s->stats.udp++;
			(void)ask_begin(s, span_of(in.bytes[i], in.msgs[i].msg_len), &c);
		}
	}
	flush(u);
}

void
udp_count_overruns(struct server *s)
{
	uint32_t mem[SK_MEMINFO_VARS];

	for (unsigned i = 0; i < s->udp_count; i++) {
		socklen_t len = sizeof(mem);

		if (getsockopt(s->udp_fds[i], SOL_SOCKET, SO_MEMINFO, mem, &len) != 0 ||
		    len <= SK_MEMINFO_DROPS * sizeof(mem[0]))
			continue;		/* before Linux 4.12 */
		s->stats.overrun += mem[SK_MEMINFO_DROPS] - s->overruns[i];
		s->overruns[i] = mem[SK_MEMINFO_DROPS];
	}
}

bool
udp_open(struct server *s)
{
	for (unsigned i = 0; i < s->udp_count; i++) {
		struct udp_socket *u = calloc(1, sizeof(*u));

		if (u == NULL)
			return false;
		s->udp[i] = u;
		u->server = s;
		u->fd = s->udp_fds[i];
		ev_io_init(&u->io, on_io, u->fd, EV_READ);
		ev_set_priority(&u->io, EV_MINPRI);	/* what rpcd says comes before questions about it */
		u->io.data = u;
		ev_io_start(s->loop, &u->io);
	}
	return true;
}

void
udp_stop(struct server *s)
{
	for (unsigned i = 0; i < s->udp_count; i++) {
		if (s->udp[i] == NULL)
			continue;
		ev_io_stop(s->loop, &s->udp[i]->io);	/* and it forgets what was fed to it */
		flush(s->udp[i]);
	}
}
