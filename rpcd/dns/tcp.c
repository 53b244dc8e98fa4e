/*
 * DNS over TCP: a length before each message, questions in a row.  A connection is bounded in questions, in answers
 * that wait, and in time: none may stay that says nothing, or takes nothing.  All together are bounded in number: the
 * one that got no further for the longest time makes room; and in bytes: room.h says which ones wait, or lose.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/net/crowd_timer.h"
#include "common/net/source.h"
#include "common/net/stream.h"
#include "rpcd/dns/room.h"
#include "rpcd/dns/server.h"

#define TAG "dns"
#define FIRST_S 2.			/* until the first question is there */
#define IDLE_S 8.
#define QUESTIONS_MAX 128		/* of a connection, as in Consul */
#define LINGER_S 2.			/* behind the last answer, for what is on its way to us */
#define LINGER_BYTES_MAX (1u << 20)
#define UNDER_WAY_MAX 64
#define OUT_BYTES_PAUSE (256u << 10)	/* no more questions are read */
#define READ_BYTES 4096
#define QUESTION_BYTES_MAX 4096		/* nothing that is asked for is longer */
#define IN_BYTES_MAX (16u << 20)	/* of all connections: questions that were not begun */
#define FORWARDED_BYTES_MAX (8u << 20)	/* answers of recursors wait for no room; beyond so many one is closed */
#define TURN_S .01			/* of the loop: others may do that beside us */

struct tcp_conn {
	struct crowd_member place;	/* first; rank 0, by the last whole question, or answer that went */
	struct server *server;
	struct tcp_listener *listener;
	struct stream bytes;		/* answers are queued in it */
	union addr_sock from;
	struct buf in;
	struct room_user room;		/* of answers */
	unsigned questions;		/* begun; place.streams of them are under way */
	unsigned repeats;		/* of the questions in `in`, the first ones: they were asked before */
	bool given_up;			/* it is closed by the loop */
	bool waited;			/* for room, at some time */
	size_t in_bytes;		/* counted among those of all */
};

struct tcp_listener {
	struct server *server;
	struct listener *listener;
};

struct tcp {
	struct server *server;
	struct crowd conns;
	struct crowd_timer deadlines;
	struct tcp_listener *listeners;	/* tcp_count */
	struct room room;
	ev_timer losers;		/* when a connection loses its place to one that waits */
	ev_prepare turn_end;
	double slow_s;			/* that turns of the loop took: not held against clients */
	size_t in_bytes;
};

/* -- connections -- */

static struct tcp_conn *
conn_of(struct room_user *u)
{
	return (struct tcp_conn *)(void *)((char *)u - offsetof(struct tcp_conn, room));
}

/* It holds nothing any more, and waits for nothing. */
static void
give_back(struct tcp_conn *c)
{
	struct tcp *t = c->server->tcp;

	room_leave(&t->room, &c->room);
	t->in_bytes -= c->in_bytes;
	c->in_bytes = 0;
	buf_done(&c->in);
	stream_unqueue(&c->bytes);
}

/* From the loop: others may hold it now. */
static void
close_soon(struct tcp_conn *c)
{
	c->given_up = true;
	c->server->stats.conns_evicted++;
	give_back(c);
	stream_wake(&c->bytes);
}

/* The time of this turn, by a clock that stands while we are slow: none loses a place for what it could not take. */
static struct mono
room_now(const struct tcp *t)
{
	return (struct mono){ (int64_t)((ev_now(t->server->loop) - t->slow_s) * 1e9) };
}

static void
on_turn_end(struct ev_loop *loop, ev_prepare *w, int events UNUSED)
{
	struct tcp *t = w->data;
	double took = ev_time() - ev_now(loop);

	if (took > TURN_S)
		t->slow_s += took - TURN_S;
}

/* Room may have come, or be due. */
static void
share_room(struct tcp *t)
{
	struct mono now = room_now(t), when;
	struct room_user *u;

	while ((u = room_loser(&t->room, now, &when)) != NULL)
		close_soon(conn_of(u));
	if ((u = room_admit(&t->room)) != NULL)
		stream_wake(&conn_of(u)->bytes);
	ev_timer_stop(t->server->loop, &t->losers);
	if (when.ns == MONO_NEVER.ns)
		return;
	ev_timer_set(&t->losers, (double)mono_sub(when, now).ns / 1e9, 0.);
	ev_timer_start(t->server->loop, &t->losers);
}

static void
on_losers(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	share_room(w->data);
}

static void
conn_close(struct tcp_conn *c)
{
	struct server *s = c->server;

	give_back(c);
	if (c->place.streams > 0)
		asks_drop_conn(s, c);
	crowd_leave(&s->tcp->conns, &c->place);
	stream_close(&c->bytes);
	listener_release(c->listener->listener);
	s->stats.conns--;
	free(c);
	share_room(s->tcp);
}

/* Is it our turn?  Then neither silence nor age is held against it. */
static bool
waits_for_us(const struct tcp_conn *c)
{
	return c->place.streams > 0 || c->room.waits || c->server->tcp->room.admitted == &c->room;
}

static bool
stays(const struct crowd_member *m)
{
	return waits_for_us((const struct tcp_conn *)(const void *)m);
}

/*
 * Its bytes may be others than before.  If questions that are not whole are too many, the oldest of those connections
 * are closed, but for this one; if what recursors answered is, the one that has taken nothing for the longest time.
 */
static void
count_bytes(struct tcp_conn *c)
{
	struct tcp *t = c->server->tcp;

	room_hold(&t->room, &c->room, c->bytes.queue.cap, room_now(t));
	t->in_bytes += c->in.cap - c->in_bytes;
	c->in_bytes = c->in.cap;
	for (struct crowd_member *m = TAILQ_FIRST(&t->conns.ranks[0]); m != NULL && t->in_bytes > IN_BYTES_MAX;
	    m = TAILQ_NEXT(m, place)) {
		struct tcp_conn *k = (struct tcp_conn *)(void *)m;

		if (k != c && k->in_bytes > 0 && !waits_for_us(k))
			close_soon(k);
	}
	for (struct room_user *u = t->room.oldest, *next; u != NULL &&
	    t->room.bytes > ROOM_BYTES_MAX + FORWARDED_BYTES_MAX; u = next) {
		next = u->newer;
		if (u != &c->room)
			close_soon(conn_of(u));
	}
}

/* One that waits for nothing of ours is closed for a new one.  False: all of the oldest do. */
static bool
evict(struct server *s)
{
	struct crowd_member *m = crowd_spare(&s->tcp->conns);

	if (m == NULL)
		return false;
	s->stats.conns_evicted++;
	conn_close((struct tcp_conn *)(void *)m);
	return true;
}

/* It got further, and has so many seconds for its next step; negative: its stream has a time for it. */
static void
wait_for(struct tcp_conn *c, double seconds)
{
	struct tcp *t = c->server->tcp;

	crowd_rank(&t->conns, &c->place, 0);
	crowd_timer_give(&t->deadlines, &c->place, seconds);
}

static size_t
question_bytes(const struct tcp_conn *c, size_t at)
{
	return (size_t)c->in.data[at] << 8 | c->in.data[at + 1];
}

static bool
has_question(const struct tcp_conn *c)
{
	return c->in.len >= 2 && c->in.len - 2 >= question_bytes(c, 0);
}

static bool
is_too_long(const struct tcp_conn *c)
{
	return c->in.len >= 2 && question_bytes(c, 0) > QUESTION_BYTES_MAX;
}

static bool
may_serve(const struct tcp_conn *c)
{
	return c->questions < QUESTIONS_MAX && c->place.streams < UNDER_WAY_MAX &&
	    stream_queued(&c->bytes) < OUT_BYTES_PAUSE;
}

/* There is room for an answer, or a place in the queue of those that wait for it. */
static bool
may_answer(struct tcp_conn *c)
{
	struct room *r = &c->server->tcp->room;
	enum room_verdict verdict = room_ask(r, &c->room);

	if (verdict == ROOM_WAIT) {
		room_wait(r, &c->room);
		c->waited = true;
	}
	return verdict == ROOM_YES;
}

static bool
has_ended(const struct tcp_conn *c)
{
	return c->bytes.state != STREAM_OPEN;
}

static bool
may_read(const struct tcp_conn *c)
{
	return !has_ended(c) && may_serve(c) && !has_question(c);
}

/* Whole messages that were read, as far as may be. */
static void
serve(struct tcp_conn *c)
{
	struct server *s = c->server;
	const struct client client = { .from = c->from, .conn = c };
	size_t at = 0;

	while (may_serve(c) && c->in.len - at >= 2) {
		size_t len = question_bytes(c, at);

		if (c->in.len - at - 2 < len || !may_answer(c))
			break;
		c->questions++;
		(void)crowd_stream_begin(&s->tcp->conns, &c->place);
		if (c->repeats > 0)
			c->repeats--;
		else
			s->stats.tcp++;
		if (!ask_begin(s, span_of(c->in.data + at + 2, len), &client))
			crowd_stream_end(&s->tcp->conns, &c->place);
		room_asks(&s->tcp->room, &c->room, c->place.streams);
		room_done(&s->tcp->room, &c->room);
		at += len + 2;
		wait_for(c, IDLE_S);
	}
	buf_drop(&c->in, at);
	if (c->in.len == 0)
		buf_done(&c->in);	/* an idle connection holds no memory */
}

static void
receive(struct tcp_conn *c)
{
	uint8_t bytes[READ_BYTES];

	buf_put(&c->in, bytes, stream_read(&c->bytes, bytes, sizeof(bytes)));
}

static void
transmit(struct tcp_conn *c)
{
	size_t n = stream_flush(&c->bytes);

	if (n == 0)
		return;
	wait_for(c, IDLE_S);
	room_taken(&c->server->tcp->room, &c->room, n, room_now(c->server->tcp));
}

/* Cut, or without memory. */
static bool
is_lost(const struct tcp_conn *c)
{
	return c->given_up || c->bytes.state == STREAM_CUT || c->in.failed || c->bytes.queue.failed;
}

static bool
is_over(const struct tcp_conn *c)
{
	return ((has_ended(c) && !has_question(c)) || c->questions >= QUESTIONS_MAX) && c->place.streams == 0 &&
	    stream_queued(&c->bytes) == 0;
}

/* It has had all its answers, and may not have read them yet.  False: it can be closed. */
static bool
linger(struct tcp_conn *c)
{
	give_back(c);
	wait_for(c, -1);
	if (!stream_linger(&c->bytes, LINGER_S, LINGER_BYTES_MAX))
		return false;
	share_room(c->server->tcp);
	return true;
}

static void
on_io(struct tcp_conn *c, int events)
{
	if ((events & STREAM_READ) != 0 && !c->given_up && may_read(c))
		receive(c);
	if (is_lost(c)) {
		conn_close(c);
		return;
	}
	if (is_too_long(c)) {
		c->server->stats.malformed++;
		conn_close(c);
		return;
	}
	serve(c);
	transmit(c);
	if (is_lost(c) || is_over(c)) {
		if (is_lost(c) || !linger(c))
			conn_close(c);
		return;
	}
	room_done(&c->server->tcp->room, &c->room);
	count_bytes(c);
	stream_watch(&c->bytes, may_read(c) ? STREAM_READ : 0);
	/* Questions that were read, and waited until the answers before them had gone: nothing else tells of them. */
	if (may_serve(c) && has_question(c) && may_answer(c))
		stream_wake(&c->bytes);
	share_room(c->server->tcp);
}

static void
on_late(struct crowd_member *m)
{
	struct tcp_conn *c = (struct tcp_conn *)(void *)m;

	if (waits_for_us(c)) {
		wait_for(c, IDLE_S);
		return;
	}
	c->server->stats.conns_timed_out++;
	conn_close(c);
}

static void
on_ready(struct stream *b, int events)
{
	struct tcp_conn *c = (struct tcp_conn *)(void *)((char *)b - offsetof(struct tcp_conn, bytes));

	if ((events & STREAM_GONE) != 0)
		conn_close(c);
	else
		on_io(c, events);
}

static void
answered(struct tcp_conn *c)
{
	crowd_stream_end(&c->server->tcp->conns, &c->place);
	room_asks(&c->server->tcp->room, &c->room, c->place.streams);
	stream_wake(&c->bytes);	/* from the loop: nothing here may close it while others hold it */
}

void
tcp_send(struct server *s, struct tcp_conn *c, struct span answer)
{
	if (answer.len > DNS_MESSAGE_BYTES_MAX || c->given_up) {
		s->stats.dropped++;
	} else {
		buf_u16be(&c->bytes.queue, (uint16_t)answer.len);
		buf_putspan(&c->bytes.queue, answer);
		count_bytes(c);
	}
	answered(c);
}

/* One that had waited for room when the look-up began is not sent back for it, as long as it is not far too little. */
bool
tcp_has_room(struct tcp_conn *c)
{
	struct room *r = &c->server->tcp->room;

	return c->given_up || room_fits(r, &c->room) ||
	    (c->waited && c->room.bytes == 0 && r->bytes < ROOM_BYTES_MAX + FORWARDED_BYTES_MAX / 2);
}

void
tcp_again(struct tcp_conn *c, struct span msg)
{
	struct buf in = BUF_INIT(c->in.max);

	c->questions--;
	c->repeats++;
	buf_u16be(&in, (uint16_t)msg.len);
	buf_putspan(&in, msg);
	buf_putspan(&in, buf_span(&c->in));
	buf_done(&c->in);
	c->in = in;
	count_bytes(c);
	answered(c);
}

void
tcp_no_answer(struct server *s UNUSED, struct tcp_conn *c)
{
	answered(c);
}

static void
on_accept(void *ctx, int fd)
{
	struct tcp_listener *l = ctx;
	struct server *s = l->server;
	const struct sockaddr *from = listener_peer(l->listener);
	uint64_t source = source_of(from);
	struct crowd *all = &s->tcp->conns;
	struct tcp_conn *c = NULL;

	all->conf.source_max = (unsigned)s->conf.conns_source_max;
	if (crowd_admits(all, source) && (!crowd_is_full(all) || evict(s)))
		c = calloc(1, sizeof(*c));
	if (c == NULL || !crowd_come(all, &c->place, source)) {
		free(c);
		s->stats.conns_refused++;
		close(fd);
		listener_release(l->listener);
		return;
	}
	c->server = s;
	c->listener = l;
	memcpy(&c->from, from, sizeof(c->from));
	buf_init(&c->in, (UNDER_WAY_MAX + 1) * (2 + QUESTION_BYTES_MAX) + READ_BYTES);
	s->stats.conns++;
	stream_open(&c->bytes, s->loop, fd, on_ready, OUT_BYTES_PAUSE + UNDER_WAY_MAX * (DNS_MESSAGE_BYTES_MAX + 2u));
	stream_set_priority(&c->bytes, EV_MINPRI);
	stream_watch(&c->bytes, STREAM_READ);
	wait_for(c, FIRST_S);
}

bool
tcp_open(struct server *s)
{
	struct tcp_listener *listeners = calloc(s->tcp_count + 1, sizeof(*listeners));

	s->tcp = calloc(1, sizeof(*s->tcp));
	if (s->tcp == NULL || listeners == NULL)
		return false;
	s->tcp->server = s;
	crowd_init(&s->tcp->conns, &(struct crowd_conf){ .max = (unsigned)s->conf.conns_max,
	    .source_max = (unsigned)s->conf.conns_source_max, .hash = keyed_hash, .stays = stays });
	crowd_timer_init(&s->tcp->deadlines, s->loop, &s->tcp->conns, on_late);
	s->tcp->listeners = listeners;
	ev_timer_init(&s->tcp->losers, on_losers, 0., 0.);
	ev_prepare_init(&s->tcp->turn_end, on_turn_end);
	s->tcp->losers.data = s->tcp->turn_end.data = s->tcp;
	ev_prepare_start(s->loop, &s->tcp->turn_end);
	for (unsigned i = 0; i < s->tcp_count; i++) {
		listeners[i].server = s;
		listeners[i].listener = listener_new(s->loop, s->tcp_fds[i], UINT_MAX, on_accept, &listeners[i]);
		if (listeners[i].listener == NULL)
			return false;
	}
	return true;
}

void
tcp_stop(struct server *s)
{
	for (unsigned i = 0; s->tcp != NULL && i < s->tcp_count; i++)
		listener_stop(s->tcp->listeners[i].listener);
}
