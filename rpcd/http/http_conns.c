/* Connections: accepting, limits, eviction, deadlines, watching. */
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
#include "common/net/source.h"
#include "common/proc/heaptrim.h"
#include "rpcd/http/h2_conns.h"

#define REFUSED_TIMEOUT_S 5		/* for the one request of a connection that is one too many */
#define LINGER_S 2			/* for the client to read the last answer */
#define LINGER_READS_MAX 16		/* of what it still sends, in one turn */
#define LINGER_BYTES 16384		/* each */
#define GROUPS_MAX 64
#define ANSWER_BYTES_PER_S 32768	/* a client that reads more slowly is not waited for */
#define TIDE 128			/* connections; 24 KB each while they are busy */
#define EVENTS_MAX 128			/* of connections in one turn */

/* -- deadlines ------------------------------------------------------------ */

double
http_step_seconds(const struct http *h, size_t answer_bytes)
{
	return mono_seconds(h->conf.conf->http_idle_timeout) + (double)answer_bytes / ANSWER_BYTES_PER_S;
}

/*
 * A step has one deadline, whatever trickles in: the head of a request, its body, the reading of its answer.  With one
 * that starts anew with every byte, a byte now and then would hold a connection for hours (scenario S183).
 */
void
conn_await(const struct http *h, struct conn *c, size_t answer_bytes)
{
	crowd_timer_give(&c->listener->deadlines, &c->place,
	    c->verdict == CONN_FINE ? http_step_seconds(h, answer_bytes) : REFUSED_TIMEOUT_S);
}

void
conn_await_us(struct conn *c)
{
	crowd_timer_give(&c->listener->deadlines, &c->place, -1);
}

/* Of the session; but not within an answer, which was cut then. */
static void
say_end(const struct conn *c)
{
	if (c->tls != NULL && (c->state == CONN_REST || c->state == CONN_BODY || c->state == CONN_WAIT ||
	    c->state == CONN_H2))
		tls_say_end(c->tls);
}

/* Where the socket is in use its end is found, and the connection closed. */
static void
on_late(struct crowd_member *m)
{
	struct conn *c = (struct conn *)(void *)m;
	struct http *h = c->listener->http;

	if (c->state == CONN_SHAKE) {
		h->stats.handshakes_late++;
		conn_end(h, c);
		return;
	}
	h->stats.timed_out++;
	if (c->state == CONN_LINGER) {	/* it may send on and on */
		conn_end(h, c);
		return;
	}
	if (c->state == CONN_H2) {
		h2_conn_late(c);
		return;
	}
	say_end(c);
	(void)shutdown(c->fd, SHUT_RDWR);	/* fails when the client was faster */
}

/* -- how many ---------------------------------------------------------------- */

void
tide_rise(struct tide *t)
{
	if (++t->now > t->most)
		t->most = t->now;
}

/*
 * When a crowd has gone its memory goes back at once: the next one would find it full of small holes and
 * take new memory beside it.
 */
void
tide_fall(struct tide *t)
{
	TV_ASSERT(t->now > 0);
	t->now--;
	if (t->most < TIDE || t->now > t->most / 8)
		return;
	t->most = t->now;
	heaptrim_now();
}

/* A handler that takes a body as it comes has begun its work. */
static unsigned
rank_of(const struct conn *c, enum conn_state state)
{
	if (state == CONN_H2)
		return c->place.streams > 0 ? CROWD_STAYS : IDLE_REST;
	if (state == CONN_SHAKE)
		return IDLE_SHAKE;
	return state == CONN_LINGER ? IDLE_LINGER : state == CONN_REST ? IDLE_REST :
	    state == CONN_BODY && (c->x->req->feed == NULL || c->x->req->answered) ? IDLE_BODY : CROWD_STAYS;
}

void
conn_set(struct conn *c, enum conn_state state)
{
	struct crowd *all = &c->listener->conns;
	unsigned rank = rank_of(c, state);

	if (state == CONN_H2)
		;			/* each of its exchanges is a stream */
	else if (rank == CROWD_STAYS && c->place.streams == 0)
		(void)crowd_stream_begin(all, &c->place);
	else if (rank != CROWD_STAYS && c->place.streams > 0)
		crowd_stream_end(all, &c->place);
	crowd_rank(all, &c->place, rank);
	c->state = (uint8_t)state;
}

void
conn_end(struct http *h, struct conn *c)
{
	struct listener_http *l = c->listener;

	TV_ASSERT(c->answer == NULL && c->state != CONN_READY);
	if (c->state == CONN_H2)
		h2_conn_end(h, c);
	else if (c->x != NULL)
		exchange_end(c->x);
	say_end(c);
	tls_end(c->tls);
	(void)close(c->fd);		/* the only one of this socket: that also takes it out of the epoll set */
	crowd_leave(&l->conns, &c->place);
	conn_drop_carried(h, c);
	if (h->look.conn == c)
		h->look.conn = NULL;
	free(c);
	tide_fall(&h->open);
	if (l->door != NULL)
		listener_resume(l->door);
}

/* Its request came just now: this turn of the loop reads it. */
static bool
has_news(const struct crowd_member *m)
{
	const struct conn *c = (const struct conn *)(const void *)m;

	return (c->state == CONN_REST || c->state == CONN_H2) && conn_has_news(c);
}

/*
 * All places are taken, and a newcomer is there: the one that has nothing under way for longest goes.  First those
 * whose clients only read their last answers, then those that rest or have not sent a whole head, then those whose
 * bodies have not come: nothing was done for them yet.  A request that waits for its answer is never ended.
 */
static bool
evict(void *ctx)
{
	struct listener_http *l = ctx;
	struct crowd_member *m = crowd_spare(&l->conns);

	if (m == NULL)
		return false;
	l->http->stats.evicted++;
	conn_end(l->http, (struct conn *)(void *)m);
	return true;
}

/* Those of this rank of all listeners; fn may end the one that it is given. */
static void
each_conn(struct http *h, unsigned rank, void (*fn)(struct http *h, struct conn *c))
{
	for (struct listener_http *l = h->listeners; l != NULL; l = l->next)
		for (struct crowd_member *m = TAILQ_FIRST(&l->conns.ranks[rank]), *next; m != NULL; m = next) {
			next = TAILQ_NEXT(m, place);
			fn(h, (struct conn *)(void *)m);
		}
}

bool
conns_are_sending(const struct http *h)
{
	const struct crowd_member *m;

	for (const struct listener_http *l = h->listeners; l != NULL; l = l->next)
		TAILQ_FOREACH(m, &l->conns.ranks[CROWD_STAYS], place)
			if (((const struct conn *)(const void *)m)->state == CONN_SEND)
				return true;
	return h2_conns_are_sending(h);
}

void
conns_cut_answers(struct http *h, void (*cut)(struct http *h, struct conn *c))
{
	each_conn(h, CROWD_STAYS, cut);
}

/* -- which ones may come ------------------------------------------------------------ */

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
set_verdict(struct http *h, struct conn *c, const struct sockaddr *from)
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
	if (c->place.source->members <= h->conf.conf->http_max_conns_per_client)
		return;
	c->verdict = CONN_BUSY;
	h->stats.refused_busy++;
}

/* -- watching ---------------------------------------------------------------- */

/* Edge-triggered: of bytes that stay in the socket nothing is told until there are more. */
bool
conn_watch(struct http *h, struct conn *c, bool first, uint32_t events)
{
	struct epoll_event e = { .events = events | EPOLLRDHUP | EPOLLET, .data.ptr = c };

	return epoll_ctl(h->epoll, first ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, c->fd, &e) == 0;
}

void
conn_wake(struct conn *c)
{
	c->room = true;			/* nearly always there is some: that wakes us */
	if (!conn_watch(c->listener->http, c, false, EPOLLIN | EPOLLOUT))
		crowd_timer_give(&c->listener->deadlines, &c->place, 0.);	/* no memory: it is closed */
}

void
conn_rest(struct http *h, struct conn *c)
{
	bool watched = !c->room || conn_watch(h, c, false, EPOLLIN);

	conn_set(c, CONN_REST);
	c->room = false;
	conn_await(h, c, 0);
	if (c->listener->door != NULL)
		listener_resume(c->listener->door);
	if (!watched)
		conn_end(h, c);
	else if (h->look.conn != c && !h->stopping && (c->more || c->carried != NULL))
		http_serve(h, c);
}

/* Takes what still comes: to close with bytes unread would take the answer back that is on its way. */
static void
linger(struct http *h, struct conn *c)
{
	uint8_t bytes[LINGER_BYTES];
	ssize_t n = 1;

	for (unsigned i = 0; i < LINGER_READS_MAX && n > 0; i++)
		n = stream_socket_read(c->fd, bytes, sizeof(bytes), false);
	explicit_bzero(bytes, sizeof(bytes));
	if (n > 0)
		conn_wake(c);		/* others have their turn; until its deadline */
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		conn_end(h, c);
}

void
conn_linger(struct http *h, struct conn *c)
{
	conn_set(c, CONN_LINGER);
	conn_drop_carried(h, c);
	crowd_timer_give(&c->listener->deadlines, &c->place, LINGER_S);
	if (c->tls != NULL)
		tls_say_end(c->tls);
	if (shutdown(c->fd, SHUT_WR) != 0 || (c->room && !conn_watch(h, c, false, EPOLLIN)))
		conn_end(h, c);
	else
		linger(h, c);
}

/* -- handshakes ---------------------------------------------------------------- */

/* From its thread, or out of the queue for one. */
static void
on_shaken(void *ctx)
{
	conn_wake(ctx);			/* not at once: events of this turn may still name connections */
}

static void
shake(struct http *h, struct conn *c)
{
	int done = tls_shake(c->tls);

	if (done == 1 && tls_is_h2(c->tls)) {
		if (!h2_conn_begin(h, c))
			conn_end(h, c);
	} else if (done == 1) {
		c->more = true;		/* the first request may have come with the last bytes of the handshake */
		conn_rest(h, c);
	} else if (done < 0 || (tls_wants_write(c->tls) && !c->room && !conn_watch(h, c, false, EPOLLIN | EPOLLOUT))) {
		conn_end(h, c);
	} else {
		c->room = c->room || tls_wants_write(c->tls);
	}
}

/* False: there can be no session, for want of memory or of a certificate. */
static bool
begin_shaking(struct listener_http *l, struct conn *c)
{
	c->tls = tls_accept(l->tls, c->fd, on_shaken, c);
	if (c->tls == NULL)
		return false;
	conn_set(c, CONN_SHAKE);
	crowd_timer_give(&l->deadlines, &c->place, mono_seconds(l->http->conf.conf->https_handshake_timeout));
	return true;
}

/* -- events ---------------------------------------------------------------------- */

static void
on_event(struct http *h, struct conn *c, uint32_t events)
{
	bool gone = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;

	c->ended = c->ended || gone;
	c->more = c->more || gone || (events & EPOLLIN) != 0;
	if (c->tls != NULL && (events & EPOLLIN) != 0)
		tls_has_news(c->tls);
	switch (c->state) {
	case CONN_SHAKE:
		shake(h, c);
		return;
	case CONN_REST:
	case CONN_BODY:
		http_serve(h, c);
		return;
	case CONN_WAIT:			/* for the next request, there is time */
		if (c->ended && exchange_waits_long(c->x))
			conn_end(h, c);		/* no client waits for the answer */
		return;
	case CONN_SEND:
		http_send_more(h, c);
		return;
	case CONN_STREAM:
		if (gone)
			http_send_cut(h, c);
		else
			http_send_more(h, c);
		return;
	case CONN_LINGER:
		linger(h, c);
		return;
	case CONN_H2:
		h2_conn_event(h, c);
		return;
	case CONN_READY:		/* soon */
		return;
	}
}

static void
on_watch(struct ev_loop *loop UNUSED, ev_io *w, int revents UNUSED)
{
	struct http *h = w->data;
	struct epoll_event events[EVENTS_MAX];
	int n = epoll_wait(h->epoll, events, EVENTS_MAX, 0);

	h->heads_left = HTTP_HEADS_IN_TURN;
	for (int i = 0; i < n; i++)
		on_event(h, events[i].data.ptr, events[i].events);
}

/* -- accepting ----------------------------------------------------------------- */

static void
on_accept(void *ctx, int fd)
{
	struct listener_http *l = ctx;
	struct http *h = l->http;
	const struct sockaddr *from = listener_peer(l->door);
	struct conn *c = calloc(1, sizeof(*c));

	while (crowd_is_full(&l->conns) && evict(l))
		;
	if (c == NULL || !crowd_come(&l->conns, &c->place, source_of(from))) {
		(void)close(fd);
		free(c);
		return;
	}
	c->listener = l;
	c->fd = fd;
	h->stats.accepted++;
	tide_rise(&h->open);
	set_verdict(h, c, from);
	if (l->tls == NULL)
		conn_rest(h, c);
	if ((l->tls != NULL && !begin_shaking(l, c)) || !conn_watch(h, c, true, EPOLLIN))
		conn_end(h, c);
}

static enum listener_room
has_room(void *ctx)
{
	const struct listener_http *l = ctx;

	if (crowd_is_full(&l->conns) && crowd_is_busy(&l->conns))
		return LISTENER_PAUSE;		/* until one ends or rests */
	/* More than may be: until the requests of those are read that could be evicted. */
	return l->conns.count >= l->conns.conf.max + CROWD_LOOKS_MAX && crowd_spare(&l->conns) == NULL ?
	    LISTENER_NEXT_TURN : LISTENER_ACCEPT;
}

enum tv_err
conns_accept(struct listener_http *l, int fd)
{
	const struct rpcd_conf *conf = l->http->conf.conf;
	const int on = 1;
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0)
		(void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	if (!l->is_unix)		/* accepted ones inherit it */
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	crowd_init(&l->conns, &(struct crowd_conf){ .max = (unsigned)conf->http_max_conns,
	    .source_max = l->is_unix ? 0 : (unsigned)conf->http_max_conns_per_client, .hash = keyed_hash,
	    .stays = has_news, .sources = &l->http->clients });
	crowd_timer_init(&l->deadlines, l->http->conf.loop, &l->conns, on_late);
	l->door = listener_open(&(struct listener_conf){ .loop = l->http->conf.loop, .fd = fd, .log_area = "http",
	    .on_accept = on_accept, .has_room = has_room, .make_room = evict, .ctx = l });
	return l->door == NULL ? TV_ENOMEM : TV_OK;
}

void
conns_accept_stop(struct listener_http *l)
{
	l->http->stats.refused_busy += l->door == NULL ? 0 : listener_refused(l->door);
	listener_free(l->door);
	l->door = NULL;
}

void
conns_free(struct listener_http *l)
{
	crowd_timer_stop(&l->deadlines);
	crowd_done(&l->conns);
	free(l);
}

/* -- life ------------------------------------------------------------------------ */

enum tv_err
conns_init(struct http *h)
{
	h->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (h->epoll < 0)
		return TV_ESYS;
	ev_io_init(&h->watch, on_watch, h->epoll, EV_READ);
	h->watch.data = h;
	ev_io_start(h->conf.loop, &h->watch);
	return TV_OK;
}

void
conns_done(struct http *h)
{
	if (h->epoll < 0)
		return;
	for (unsigned rank = 0; rank < CROWD_RANKS; rank++)
		each_conn(h, rank, conn_end);
	ev_io_stop(h->conf.loop, &h->watch);
	(void)close(h->epoll);
	h->epoll = -1;
}
