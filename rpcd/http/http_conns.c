/* Connections: accepting, limits, eviction, deadlines; watching those that libmicrohttpd does not have. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/addr.h"
#include "common/base/assert.h"
#include "common/base/descriptors.h"
#include "common/base/log.h"
#include "common/proc/heaptrim.h"
#include "rpcd/http/http_int.h"

#define REFUSED_TIMEOUT_S 5		/* for the one request of a connection that is one too many */
#define LINGER_S 2			/* for the client to read the last answer */
#define LINGER_READS_MAX 64		/* of what it still sends, in one turn */
#define GROUPS_MAX 64
#define ANSWER_BYTES_PER_S 32768	/* a client that reads more slowly is not waited for */
#define SWEEP_S_MAX 5.0
#define CROWD 128			/* connections; 24 KB each while they are busy */
#define ACCEPT_BATCH_MAX 32		/* in one turn; the rest waits in the kernel */
#define ACCEPT_REST_S 0.2		/* without descriptors accept would fail at once, again and again */
#define EVICT_LOOKS_MAX 64		/* at those that could be evicted */
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

static void
crowd_add(struct crowd *c)
{
	if (++c->now > c->most)
		c->most = c->now;
}

/*
 * When a crowd has gone its memory goes back at once: the next one would find it full of small holes and
 * take new memory beside it.
 */
static void
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

static int
idle_kind(enum conn_state state)
{
	return state == CONN_LINGER ? IDLE_LINGER : state == CONN_REST ? IDLE_REST :
	    state == CONN_BODY ? IDLE_BODY : -1;
}

static void
idle_leave(struct conn *c)
{
	int kind = idle_kind(c->state);

	if (kind >= 0)
		TAILQ_REMOVE(&c->listener->idle[kind], c, idle);
}

void
conn_set(struct conn *c, enum conn_state state)
{
	int kind = idle_kind(state);

	idle_leave(c);
	c->state = (uint8_t)state;
	if (kind >= 0)
		TAILQ_INSERT_TAIL(&c->listener->idle[kind], c, idle);
}

/* There is room, or somebody who may be evicted. */
static void
accept_again(struct listener_http *l)
{
	if (l->fd >= 0 && !ev_is_active(&l->rest))
		ev_io_start(l->http->conf.loop, &l->accept);
}

void
conn_end(struct http *h, struct conn *c)
{
	struct listener_http *l = c->listener;

	TV_ASSERT(c->answer == NULL && c->state != CONN_READY);
	idle_leave(c);
	if (c->x != NULL)
		exchange_end(c->x);
	if (c->state != CONN_LENT && c->fd >= 0)
		(void)close(c->fd);	/* the only one of this socket: that also takes it out of the epoll set */
	if (c->client != NULL)
		client_limits_release(h->clients, c->client);
	conn_unlink(h, c);
	partial_free(c->partial);
	free(c);
	crowd_drop(&h->open);
	l->conns--;
	accept_again(l);
}

/* Its request came just now: this turn of the loop reads it. */
static bool
has_news(const struct conn *c)
{
	char byte;

	return c->state == CONN_REST && c->partial == NULL && recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static bool
may_evict(const struct listener_http *l)
{
	for (unsigned i = 0; i < IDLE_COUNT; i++)
		if (!TAILQ_EMPTY(&l->idle[i]))
			return true;
	return false;
}

/*
 * All places are taken, and somebody comes: who has nothing under way and that for longest goes.  First who only reads
 * his last answer, then who rests or has not sent a whole head, then whose body has not come: nothing was done for it
 * yet.  A request that waits for its answer is never ended.
 */
static bool
evict(struct listener_http *l)
{
	struct conn *c;
	unsigned looks = 0;

	for (unsigned i = 0; i < IDLE_COUNT; i++)
		TAILQ_FOREACH(c, &l->idle[i], idle) {
			if (has_news(c)) {
				if (++looks == EVICT_LOOKS_MAX)
					return false;
				continue;
			}
			l->http->stats.evicted++;
			conn_end(l->http, c);
			return true;
		}
	return false;
}

/* -- who may come ------------------------------------------------------------ */

int64_t
http_peer_uid(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 ? (int64_t)cred.uid : -1;
}

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
	struct addr a = addr_of_sock((const struct sockaddr *)&own);
	return addr_is_loopback(&a);
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
	c->from = addr_unmapped(addr_of_sock(from));
	c->client = client_limits_take(h->clients, from);
	if (c->client != NULL && client_count(c->client) <= h->conf.conf->http_max_conns_per_client)
		return;
	c->verdict = CONN_BUSY;
	h->stats.refused_busy++;
}

/* -- watching ---------------------------------------------------------------- */

/* Edge-triggered: a head that comes in pieces stays in the socket, and wakes nobody until there is more of it. */
bool
conn_watch(struct http *h, struct conn *c, bool first, uint32_t events)
{
	struct epoll_event e = { .events = events | EPOLLRDHUP | EPOLLET, .data.ptr = c };

	return epoll_ctl(h->epoll, first ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, c->fd, &e) == 0;
}

void
conn_rest(struct http *h, struct conn *c)
{
	bool look = c->more || c->room;

	conn_set(c, CONN_REST);
	c->more = c->room = false;
	conn_await(h, c, 0);
	accept_again(c->listener);
	if (look && !conn_watch(h, c, false, EPOLLIN))
		conn_end(h, c);
}

/* Takes what still comes: to close with bytes unread would take the answer back that is on its way. */
static void
linger(struct http *h, struct conn *c)
{
	ssize_t n = 1;

	for (unsigned i = 0; i < LINGER_READS_MAX && n > 0; i++) {
		n = recv(c->fd, h->peek, h->peek_cap, MSG_DONTWAIT);
		http_forget(h, n > 0 ? (size_t)n : 0);
	}
	if (n >= 0 || (errno != EAGAIN && errno != EINTR))
		conn_end(h, c);		/* its end; or too much */
}

void
conn_linger(struct http *h, struct conn *c)
{
	conn_set(c, CONN_LINGER);
	c->deadline = ev_now(h->conf.loop) + LINGER_S;
	if (shutdown(c->fd, SHUT_WR) != 0 || (c->room && !conn_watch(h, c, false, EPOLLIN)))
		conn_end(h, c);
	else
		linger(h, c);
}

static void
on_event(struct http *h, struct conn *c, uint32_t events)
{
	switch (c->state) {
	case CONN_REST:
	case CONN_BODY:
	case CONN_WAIT:
		http_serve_event(h, c, events);
		return;
	case CONN_SEND:
		http_send_more(h, c);
		return;
	case CONN_LINGER:
		linger(h, c);
		return;
	case CONN_READY:		/* soon */
		c->more = true;
		return;
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
	c->state = CONN_WAIT;			/* in no list */
	judge(h, c, from);
	conn_rest(h, c);
	if (c->verdict != CONN_FINE)
		c->deadline = ev_now(h->conf.loop) + REFUSED_TIMEOUT_S;
	if (!conn_watch(h, c, true, EPOLLIN))
		conn_end(h, c);
}

/* What is left of the process's descriptors is for files, operators and other daemons. */
static void
conn_refuse(struct listener_http *l, int fd)
{
	l->http->stats.refused_busy++;
	if (log_allow(&l->refusals, "http"))
		log_warn("http", "connection refused: nearly all descriptors are used that this process may have "
		    "(RLIMIT_NOFILE)");
	if (fd >= 0)
		close(fd);
}

static void
on_acceptable(struct ev_loop *loop, ev_io *w, int events)
{
	struct listener_http *l = w->data;
	const uint64_t max = l->http->conf.conf->http_max_conns;

	(void)events;
	for (unsigned i = 0; i < ACCEPT_BATCH_MAX; i++) {
		struct sockaddr_storage from;
		socklen_t len = sizeof(from);

		if (l->conns >= max && !may_evict(l)) {
			ev_io_stop(loop, w);	/* until one ends or rests; they wait in the kernel */
			return;
		}
		if (l->conns >= max + EVICT_LOOKS_MAX)
			return;			/* until the requests of those are read that could be evicted */
		int fd = accept4(l->fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			bool scarce = !l->is_unix && descriptors_scarce(fd);
			bool evicted = (scarce || l->conns >= max) && evict(l);

			if (scarce && (!evicted || (fd = descriptors_lower(fd)) < 0))
				conn_refuse(l, fd);
			else
				conn_new(l, fd, (const struct sockaddr *)&from);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			if (log_allow(&l->refusals, "http"))
				log_warn("http", "accept: %s; trying again in a moment", strerror(errno));
			(void)evict(l);
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
	for (unsigned i = 0; i < IDLE_COUNT; i++)
		TAILQ_INIT(&l->idle[i]);
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
