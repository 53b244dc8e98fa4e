/*
 * Recursors: what is not ours goes to them as it came, and comes back as they gave it.  Over UDP each question has a
 * random id, a random port of a pool that was bound before the walls, and letters of random case: a forged reply must
 * hit all of them.  A recursor that does not keep the case of letters is asked over TCP, which cannot be forged so.
 * Nothing is joined here (common/base/join.h): equal questions of clients are asked one by one, as recorded.
 */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/stream.h"
#include "rpcd/dns/server.h"

#define TAG "dns"
#define POOL 64				/* ports, of each family that recursors have */
#define CALLS_MAX 1024
#define CALLS_TCP_MAX 128
#define REPLIES_TURN 64			/* of one port in one turn of the loop */
#define CASE_WAIT_S 0.2			/* for the right reply, after one with other letters */
#define CASELESS_TIME MONO_S(600)	/* before such a recursor is asked over UDP again */

struct port {
	struct server *server;
	int fd, family;
	ev_io io;
};

struct upstream_call {
	struct server *server;
	struct map_node node;		/* while it expects a reply, by id, which is drawn at random */
	upstream_done *done;
	void *ctx;
	bool tcp, expects;		/* tcp: as the client asked */
	bool stream, spare;		/* asked over TCP now; though the client asked over UDP */
	bool caseless;			/* a reply came that is right but for the case of letters */
	unsigned first, tried;		/* which recursor was first, how many had their turn */
	union addr_sock to;
	struct port *port;
	uint16_t id;
	ev_timer timer;
	struct stream conn;		/* TCP */
	struct buf in;
	struct span original;		/* as it came */
	size_t question;		/* bytes of the name, type and class behind the header */
	uint8_t *msg;			/* as it is sent, 2 bytes of length before it */
};

struct upstreams {
	struct port ports[POOL * 2];
	unsigned count, calls, calls_tcp;
	struct map expecting;
	struct { union addr_sock of; struct mono until; } caseless[RECURSORS_MAX];
	unsigned caseless_next;
	uint8_t reply[DNS_MESSAGE_BYTES_MAX];
};

static void next_recursor(struct upstream_call *c);

/* It expects no reply any more. */
static void
forget(struct upstream_call *c)
{
	struct server *s = c->server;

	ev_timer_stop(s->loop, &c->timer);
	stream_close(&c->conn);
	s->upstreams->calls_tcp -= c->spare;
	c->spare = false;
	if (c->expects)
		map_remove(&s->upstreams->expecting, &c->node);
	c->expects = false;
}

static void
call_free(struct upstream_call *c)
{
	struct upstreams *u = c->server->upstreams;

	forget(c);
	u->calls--;
	u->calls_tcp -= c->tcp;
	buf_done(&c->in);
	free(c);
}

void
upstream_cancel(struct upstream_call *c)
{
	call_free(c);
}

static void
end_call(struct upstream_call *c, struct span reply)
{
	upstream_done *done = c->done;
	void *ctx = c->ctx;
	struct server *s = c->server;

	forget(c);
	s->stats.forwarded++;
	s->stats.forwarded_failed += reply.len == 0;
	done(ctx, reply);
	call_free(c);
}

/* -- replies -- */

static bool
belongs(const struct upstream_call *c, struct span reply, bool any_case)
{
	const uint8_t *m = c->msg + 2;

	if (reply.len < DNS_HEADER_BYTES + c->question || memcmp(reply.p, m, 2) != 0 || (reply.p[2] & 0x80) == 0 ||
	    reply.p[4] != 0 || reply.p[5] != 1)
		return false;
	struct span got = span_of(reply.p + DNS_HEADER_BYTES, c->question);
	struct span sent = span_of(m + DNS_HEADER_BYTES, c->question);
	return any_case ? span_eq_nocase(got, sent) : span_eq(got, sent);
}

/* Of those that wait at this port for a reply from there. */
static struct upstream_call *
call_of(struct port *p, const union addr_sock *from, struct span reply, bool any_case)
{
	struct upstream_call *c;

	MAP_FOREACH_HASH(c, &p->server->upstreams->expecting, (uint16_t)(reply.p[0] << 8 | reply.p[1]), node)
		if (!c->stream && c->port == p && address_same(from, &c->to) && belongs(c, reply, any_case))
			return c;
	return NULL;
}

/* It may be a forged one that was lucky with all the rest: the right one has a moment yet. */
static void
note_case(struct upstream_call *c)
{
	struct ev_loop *loop = c->server->loop;

	c->caseless = true;
	if (ev_timer_remaining(loop, &c->timer) <= CASE_WAIT_S)
		return;
	ev_timer_stop(loop, &c->timer);
	ev_timer_set(&c->timer, CASE_WAIT_S, 0.);
	ev_timer_start(loop, &c->timer);
}

/* One that belongs to the call; it is changed in place. */
static void
take_reply(struct upstream_call *c, uint8_t *reply, size_t len)
{
	unsigned rcode = reply[3] & DNS_RCODE;

	if (rcode != DNS_NOERROR && rcode != DNS_NXDOMAIN) {
		next_recursor(c);
		return;
	}
	memcpy(reply, c->original.p, 2);
	memcpy(reply + DNS_HEADER_BYTES, c->original.p + DNS_HEADER_BYTES, c->question);
	end_call(c, span_of(reply, len));
}

static void
on_port(struct ev_loop *loop UNUSED, ev_io *w, int events UNUSED)
{
	struct port *p = w->data;
	struct server *s = p->server;
	uint8_t *reply = s->upstreams->reply;

	for (unsigned i = 0; i < REPLIES_TURN; i++) {
		union addr_sock from = { .any.sa_family = AF_UNSPEC };
		socklen_t from_len = sizeof(from);
		ssize_t n = recvfrom(p->fd, reply, DNS_MESSAGE_BYTES_MAX, MSG_DONTWAIT, &from.any, &from_len);

		if (n < 0 && errno != EINTR && errno != ECONNREFUSED)
			return;
		if (n < DNS_HEADER_BYTES)
			continue;
		struct upstream_call *c = call_of(p, &from, span_of(reply, (size_t)n), false);
		if (c != NULL) {
			take_reply(c, reply, (size_t)n);
			continue;
		}
		s->stats.forged++;		/* or it is late */
		if ((c = call_of(p, &from, span_of(reply, (size_t)n), true)) != NULL)
			note_case(c);
	}
}

/* -- one recursor -- */

static void
randomise(struct upstream_call *c)
{
	uint8_t *m = c->msg + 2;
	uint64_t bits = 0;

	memcpy(m, c->original.p, c->original.len);
	c->id = (uint16_t)randombytes_random();
	m[0] = (uint8_t)(c->id >> 8);
	m[1] = (uint8_t)c->id;
	for (size_t at = DNS_HEADER_BYTES; !c->stream && at < c->original.len && m[at] > 0 && m[at] < 64;) {
		uint8_t n = m[at++];

		for (; n > 0 && at < c->original.len; n--, at++) {
			if ((bits >>= 1) <= 1)
				bits = randombytes_random() | (uint64_t)1 << 32;
			if (((m[at] | 0x20) >= 'a' && (m[at] | 0x20) <= 'z') && (bits & 1) != 0)
				m[at] ^= 0x20;
		}
	}
}

static bool
send_udp(struct upstream_call *c)
{
	struct upstreams *u = c->server->upstreams;
	unsigned start = randombytes_uniform(u->count);

	for (unsigned i = 0; i < u->count; i++) {
		c->port = &u->ports[(start + i) % u->count];
		if (c->port->family == c->to.any.sa_family)
			return sendto(c->port->fd, c->msg + 2, c->original.len, MSG_DONTWAIT, &c->to.any,
			    addr_sock_len(&c->to)) == (ssize_t)c->original.len;
	}
	return false;
}

static void
on_stream(struct stream *b, int events)
{
	struct upstream_call *c = (struct upstream_call *)(void *)((char *)b - offsetof(struct upstream_call, conn));
	uint8_t bytes[4096];
	size_t len = DNS_MESSAGE_BYTES_MAX;

	(void)stream_flush(b);
	if ((events & STREAM_READ) != 0)
		buf_put(&c->in, bytes, stream_read(b, bytes, sizeof(bytes)));
	if (c->in.len >= 2)
		len = (size_t)c->in.data[0] << 8 | c->in.data[1];
	if (c->in.len >= 2 && c->in.len - 2 >= len && belongs(c, span_of(c->in.data + 2, len), true))
		take_reply(c, c->in.data + 2, len);
	else if (b->state != STREAM_OPEN || c->in.failed || (c->in.len >= 2 && c->in.len - 2 >= len))
		next_recursor(c);
	else
		stream_watch(b, STREAM_READ);
}

/* False: no memory. */
static bool
send_tcp(struct upstream_call *c)
{
	stream_dial(&c->conn, c->server->loop, &c->to, on_stream, 2 + DNS_MESSAGE_BYTES_MAX);
	buf_reset(&c->in);
	buf_put(&c->conn.queue, c->msg, c->original.len + 2);
	return !c->conn.queue.failed;
}

/* -- which one, and how -- */

static bool
is_caseless(const struct upstreams *u, const union addr_sock *a)
{
	for (unsigned i = 0; i < RECURSORS_MAX; i++)
		if (address_same(&u->caseless[i].of, a))
			return mono_before(clock_mono(), u->caseless[i].until);
	return false;
}

static void
note_caseless(struct upstreams *u, const union addr_sock *a)
{
	char text[DNS_ADDRESS_TEXT_MAX];
	unsigned at = 0;

	if (is_caseless(u, a))
		return;
	while (at < RECURSORS_MAX && !address_same(&u->caseless[at].of, a))
		at++;
	if (at == RECURSORS_MAX)
		at = u->caseless_next++ % RECURSORS_MAX;
	u->caseless[at].of = *a;
	u->caseless[at].until = mono_add(clock_mono(), CASELESS_TIME);
	address_text(a, text);
	log_warn(TAG, "recursor %s port %u does not give questions back as it got them (upper and lower case), which "
	    "protects from forged replies: asking it over TCP", text, ntohs(a->v4.sin_port));
}

static bool
start_at(struct upstream_call *c, bool stream)
{
	struct server *s = c->server;
	struct upstreams *u = s->upstreams;

	if (stream && !c->tcp && u->calls_tcp >= CALLS_TCP_MAX)
		return false;
	c->spare = stream && !c->tcp;
	u->calls_tcp += c->spare;
	c->stream = stream;
	c->caseless = false;
	randomise(c);
	map_add(&u->expecting, &c->node, c->id);
	c->expects = true;
	if (stream ? send_tcp(c) : send_udp(c)) {
		ev_timer_set(&c->timer, mono_seconds((struct mono){ s->conf.recursor_timeout }), 0.);
		ev_timer_start(s->loop, &c->timer);
		return true;
	}
	forget(c);
	return false;
}

static void
on_timeout(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct upstream_call *c = w->data;

	if (c->caseless) {
		note_caseless(c->server->upstreams, &c->to);
		forget(c);
		if (start_at(c, true))
			return;
	}
	c->server->stats.forwarded_timed_out++;
	next_recursor(c);
}

/* Starts with the next one; after the last it ends from the loop, never from where it was asked. */
static bool
start_next(struct upstream_call *c)
{
	struct server *s = c->server;

	forget(c);
	while (c->tried < s->recursor_count) {
		c->to = s->recursors[(c->first + c->tried++) % s->recursor_count];
		if (start_at(c, c->tcp || is_caseless(s->upstreams, &c->to)))
			return true;
	}
	return false;
}

static void
next_recursor(struct upstream_call *c)
{
	if (!start_next(c))
		end_call(c, SPAN_NONE);
}

struct upstream_call *
upstream_ask(struct server *s, struct span msg, bool tcp, upstream_done *done, void *ctx)
{
	struct upstreams *u = s->upstreams;
	size_t at = DNS_HEADER_BYTES;
	struct dname name;

	if (u == NULL || u->calls >= CALLS_MAX || (tcp && u->calls_tcp >= CALLS_TCP_MAX) ||
	    dname_read(msg, &at, &name) != TV_OK)
		return NULL;
	struct upstream_call *c = calloc(1, sizeof(*c) + msg.len * 2 + 2);
	if (c == NULL)
		return NULL;
	uint8_t *bytes = (uint8_t *)(c + 1);
	memcpy(bytes, msg.p, msg.len);
	c->server = s;
	c->done = done;
	c->ctx = ctx;
	c->tcp = tcp;
	c->in = BUF_INIT(2 + DNS_MESSAGE_BYTES_MAX + 4096);
	c->original = span_of(bytes, msg.len);
	c->question = (at + 4 < msg.len ? at + 4 : msg.len) - DNS_HEADER_BYTES;
	c->msg = bytes + msg.len;
	c->msg[0] = (uint8_t)(msg.len >> 8);
	c->msg[1] = (uint8_t)msg.len;
	c->first = s->conf.random_recursor && s->recursor_count > 0 ? randombytes_uniform(s->recursor_count) : 0;
	ev_init(&c->timer, on_timeout);
	c->timer.data = c;
	u->calls++;
	u->calls_tcp += tcp;
	if (start_next(c))
		return c;
	call_free(c);
	return NULL;
}

/* -- the pool -- */

static bool
open_port(struct server *s, int family)
{
	struct port *p = &s->upstreams->ports[s->upstreams->count];
	union addr_sock any = { .any.sa_family = (sa_family_t)family };

	p->server = s;
	p->family = family;
	p->fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (p->fd < 0 || bind(p->fd, &any.any, addr_sock_len(&any)) != 0)
		return false;
	ev_io_init(&p->io, on_port, p->fd, EV_READ);
	p->io.data = p;
	ev_io_start(s->loop, &p->io);
	s->upstreams->count++;
	return true;
}

bool
upstream_open(struct server *s, char *errbuf, size_t cap)
{
	if (s->dialled_count == 0)
		return true;
	s->upstreams = calloc(1, sizeof(*s->upstreams));
	for (unsigned i = 0; i < POOL * 2 && s->upstreams != NULL; i++)
		if (s->families[i % 2] && !open_port(s, i % 2 == 0 ? AF_INET : AF_INET6)) {
			/* A machine without IPv6: what names lead to may have IPv4. */
			if (i < 2 && s->conf.recursor_names && s->families[1 - i]) {
				s->families[i] = false;
				continue;
			}
			snprintf(errbuf, cap, "ports to ask the recursors from: %s", strerror(errno));
			return false;
		}
	return s->upstreams != NULL;
}
