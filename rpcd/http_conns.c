/* Connections: accepting, limits, deadlines; watching those that libmicrohttpd does not have. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/assert.h"
#include "common/heaptrim.h"
#include "common/log.h"
#include "rpcd/http_int.h"

#define REFUSED_TIMEOUT_S 5		/* for the one request of a connection that is one too many */
#define GROUPS_MAX 64
#define ANSWER_BYTES_PER_S 32768	/* a client that reads more slowly is not waited for */
#define SWEEP_S_MAX 5.0
#define CROWD 128			/* connections; 24 KB each while they are busy */
#define ACCEPT_BATCH_MAX 32		/* in one turn; the rest waits in the kernel */
#define ACCEPT_REST_S 0.2		/* without descriptors accept would fail at once, again and again */
#define EVENTS_MAX 128			/* of connections in one turn */

/* -- deadlines ------------------------------------------------------------ */

/*
 * libmicrohttpd's own timeout starts anew with every byte, so a byte now and then would hold a connection for hours
 * (scenario S183).  Here a step has one deadline, whatever trickles in: the head of a request, its body, the reading of
 * its answer.
 */
void
conn_await(const struct http *h, struct conn *c, size_t answer_bytes)
{
	c->deadline = ev_now(h->conf.loop) + (double)h->conf.conf->http_idle_timeout.ns / 1e9 +
	    (double)answer_bytes / ANSWER_BYTES_PER_S;
}

/* Whoever has the socket finds it at its end, and closes. */
static void
on_sweep(struct ev_loop *loop, ev_timer *w, int events)
{
	struct http *h = w->data;

	(void)events;
	for (struct conn *c = h->conns; c != NULL; c = c->next)
		if (c->deadline > 0 && c->deadline < ev_now(loop)) {
			(void)shutdown(c->fd, SHUT_RDWR);	/* fails when the client was faster */
			c->deadline = 0;
			h->stats.timed_out++;
		}
}

/* -- crowds ---------------------------------------------------------------- */

void
crowd_add(struct crowd *c)
{
	if (++c->now > c->most)
		c->most = c->now;
}

/*
 * When a crowd has gone its memory goes back at once: the next one would find it full of small holes and
 * take new memory beside it.
 */
void
crowd_drop(struct crowd *c)
{
	TV_ASSERT(c->now > 0);
	c->now--;
	if (c->most < CROWD || c->now > c->most / 8)
		return;
	c->most = c->now;
	heaptrim_now();
}

/* -- the list --------------------------------------------------------------- */

static void
conn_link(struct http *h, struct conn *c)
{
	c->next = h->conns;
	if (c->next != NULL)
		c->next->prev = c;
	h->conns = c;
	if (!ev_is_active(&h->sweep))
		ev_timer_again(h->conf.loop, &h->sweep);
}

static void
conn_unlink(struct http *h, struct conn *c)
{
	*(c->prev == NULL ? &h->conns : &c->prev->next) = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	if (h->conns == NULL)
		ev_timer_stop(h->conf.loop, &h->sweep);
}

void
conn_end(struct http *h, struct conn *c)
{
	struct listener_http *l = c->listener;

	TV_ASSERT(c->answer == NULL && c->state != CONN_READY);
	if (c->state != CONN_LENT && c->fd >= 0)
		(void)close(c->fd);	/* the only one of this socket: that also takes it out of the epoll set */
	if (c->client != NULL)
		clients_release(h->clients, c->client);
	conn_unlink(h, c);
	free(c);
	crowd_drop(&h->open);
	l->conns--;
	if (l->fd >= 0 && !ev_is_active(&l->rest))
		ev_io_start(h->conf.loop, &l->accept);
}

/* -- who may come ------------------------------------------------------------ */

static bool
unix_peer_allowed(struct http *h, int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	gid_t groups[GROUPS_MAX + 1];
	socklen_t groups_len = GROUPS_MAX * sizeof(groups[0]);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0)
		return false;
	groups[0] = cred.gid;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups + 1, &groups_len) != 0)
		groups_len = 0;		/* an old kernel, or very many groups: the first must do */
	return h->conf.peer_allowed(h->conf.ctx, cred.uid, groups, 1 + (unsigned)(groups_len / sizeof(groups[0])));
}

static bool
is_loopback(int fd)
{
	struct sockaddr_storage own;
	socklen_t len = sizeof(own);

	if (getsockname(fd, (struct sockaddr *)&own, &len) != 0)
		return false;
	if (own.ss_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)&own)->sin_addr.s_addr) >> 24 == 127;
	if (own.ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)&own)->sin6_addr);
	return false;
}

static void
judge(struct http *h, struct conn *c, const struct sockaddr *from)
{
	c->verdict = CONN_FINE;
	if (c->listener->is_unix) {
		if (unix_peer_allowed(h, c->fd))
			return;
		c->verdict = CONN_STRANGER;
		h->stats.refused_peer++;
		return;
	}
	c->loopback = is_loopback(c->fd);
	c->client = clients_take(h->clients, from);
	if (c->client != NULL && client_count(c->client) <= h->conf.conf->http_max_conns_per_client)
		return;
	c->verdict = CONN_BUSY;
	h->stats.refused_busy++;
}

/* -- lending ----------------------------------------------------------------- */

/* Bytes are there: libmicrohttpd reads them in its next run. */
static void
lend(struct http *h, struct conn *c)
{
	/* It asks for the address only to count connections per address, which we do. */
	static const struct sockaddr nobody = { .sa_family = AF_UNSPEC };
	struct listener_http *l = c->listener;

	(void)epoll_ctl(h->epoll, EPOLL_CTL_DEL, c->fd, NULL);	/* it is there */
	c->state = CONN_LENT;
	h->lending = c;
	if (MHD_add_connection(l->daemon, c->fd, &nobody, sizeof(nobody)) == MHD_YES) {
		ev_feed_event(h->conf.loop, &l->io, EV_READ);
		return;
	}
	if (h->lending != NULL)		/* else http_on_connection() has seen it come and go */
		conn_end(h, c);		/* libmicrohttpd has closed the descriptor */
	h->lending = NULL;
}

bool
conn_watch(struct http *h, struct conn *c, bool first, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = c };

	return epoll_ctl(h->epoll, first ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, c->fd, &e) == 0;
}

void
conn_rest(struct http *h, struct conn *c)
{
	c->state = CONN_REST;
	c->waiting = NULL;
	c->behind = false;
	conn_await(h, c, 0);
}

/* The client is gone, as far as one can see without taking bytes away. */
static bool
at_end(const struct conn *c)
{
	char byte;
	ssize_t n = recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static void
on_event(struct http *h, struct conn *c, uint32_t events)
{
	switch (c->state) {
	case CONN_REST:
		if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0 && at_end(c))
			conn_end(h, c);
		else
			lend(h, c);
		return;
	case CONN_WAIT:
	case CONN_SEND:
		http_park_event(h, c, events);
		return;
	case CONN_READY:		/* soon */
	case CONN_LENT:
		return;
	}
}

static void
on_watch(struct ev_loop *loop, ev_io *w, int revents)
{
	struct http *h = w->data;
	struct epoll_event events[EVENTS_MAX];
	int n = epoll_wait(h->epoll, events, EVENTS_MAX, 0);

	(void)loop;
	(void)revents;
	for (int i = 0; i < n; i++)
		on_event(h, events[i].data.ptr, events[i].events);
}

/* -- accepting ----------------------------------------------------------------- */

static void
conn_new(struct listener_http *l, int fd, const struct sockaddr *from)
{
	struct http *h = l->http;
	struct conn *c = calloc(1, sizeof(*c));

	if (c == NULL) {
		(void)close(fd);
		return;
	}
	c->listener = l;
	c->fd = fd;
	l->conns++;
	h->stats.accepted++;
	crowd_add(&h->open);
	conn_link(h, c);
	judge(h, c, from);
	conn_rest(h, c);
	if (c->verdict != CONN_FINE)
		c->deadline = ev_now(h->conf.loop) + REFUSED_TIMEOUT_S;
	if (!conn_watch(h, c, true, EPOLLIN | EPOLLRDHUP))
		conn_end(h, c);
}

static void
on_acceptable(struct ev_loop *loop, ev_io *w, int events)
{
	struct listener_http *l = w->data;

	(void)events;
	for (unsigned i = 0; i < ACCEPT_BATCH_MAX; i++) {
		struct sockaddr_storage from;
		socklen_t len = sizeof(from);

		if (l->conns >= l->http->conf.conf->http_max_conns) {
			ev_io_stop(loop, w);	/* until one is closed; they wait in the kernel */
			return;
		}
		int fd = accept4(l->fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			conn_new(l, fd, (const struct sockaddr *)&from);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			if (log_allow(&l->refusals, "http"))
				log_warn("http", "accept: %s; trying again in a moment", strerror(errno));
			ev_io_stop(loop, w);
			ev_timer_set(&l->rest, ACCEPT_REST_S, 0.);
			ev_timer_start(loop, &l->rest);
		}
		return;			/* nobody is there, or it has gone again */
	}
}

static void
on_rested(struct ev_loop *loop, ev_timer *w, int events)
{
	struct listener_http *l = w->data;

	(void)events;
	ev_io_start(loop, &l->accept);
}

void
conns_accept(struct listener_http *l)
{
	const int on = 1;
	int flags = fcntl(l->fd, F_GETFL);

	if (flags >= 0)
		(void)fcntl(l->fd, F_SETFL, flags | O_NONBLOCK);
	if (!l->is_unix)		/* accepted ones inherit it */
		(void)setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	ev_io_init(&l->accept, on_acceptable, l->fd, EV_READ);
	ev_timer_init(&l->rest, on_rested, ACCEPT_REST_S, 0.);
	l->accept.data = l->rest.data = l;
	l->refusals = (struct log_limit){ .burst = 3, .period = MONO_S(10) };
	ev_io_start(l->http->conf.loop, &l->accept);
}

void
conns_accept_stop(struct listener_http *l)
{
	ev_io_stop(l->http->conf.loop, &l->accept);
	ev_timer_stop(l->http->conf.loop, &l->rest);
	if (l->fd >= 0)
		(void)close(l->fd);
	l->fd = -1;
}

/* -- life ------------------------------------------------------------------------ */

enum tv_err
conns_init(struct http *h)
{
	double sweep = (double)h->conf.conf->http_idle_timeout.ns / 4e9;

	h->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (h->epoll < 0)
		return TV_ESYS;
	ev_io_init(&h->watch, on_watch, h->epoll, EV_READ);
	ev_timer_init(&h->sweep, on_sweep, 0., sweep > SWEEP_S_MAX ? SWEEP_S_MAX : sweep);
	h->watch.data = h->sweep.data = h;
	ev_io_start(h->conf.loop, &h->watch);
	return TV_OK;
}

void
conns_done(struct http *h)
{
	if (h->epoll < 0)
		return;
	while (h->conns != NULL)
		conn_end(h, h->conns);
	ev_io_stop(h->conf.loop, &h->watch);
	(void)close(h->epoll);
	h->epoll = -1;
}
