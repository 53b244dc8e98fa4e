/* Connections that speak HTTP/2.  See h2_conns.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/net/source.h"
#include "rpcd/http/h2_conns.h"
#include "rpcd/http/h2_session.h"

#define READS_MAX 16			/* of one connection, before others have their turn */
#define READ_BYTES 16384		/* each: requests are counted behind it */
#define OUT_BYTES 32768			/* that are made and written at once */
#define PUSH_BYTES_MAX (1u << 20)	/* of one connection in one turn, however fast its client reads */
#define PACE_BYTES 262144		/* that a client has to read of a full socket to be given more time */

/* What a connection waits for; each has its deadline. */
enum awaits {
	AWAITS_NOTHING,
	AWAITS_REQUEST,			/* none is under way */
	AWAITS_HEAD,			/* the rest of one, before which nothing else can come */
	AWAITS_READER,			/* the socket is full */
};

struct h2_conn {
	LIST_ENTRY(h2_conn) all;
	LIST_ENTRY(h2_conn) due_link;
	struct conn *conn;
	struct h2_session *session;
	uint8_t *rest;			/* of the output, what the socket did not take; owned */
	size_t rest_len, rest_at;
	size_t paced;			/* bytes that were written since its reader was given time */
	unsigned answers;		/* that are leaving */
	unsigned endless;		/* of them, those without an end, which may be read slowly */
	uint8_t awaits;
	bool due : 1;			/* in http_h2.due */
	bool full : 1;			/* the socket took no more */
	bool dying : 1;			/* it ends as soon as the rest of its output has left */
};

/* A request: 176 bytes, and as many again of libnghttp2, of which thousands may wait. */
struct h2_request {
	struct h2_stream st;		/* first */
	struct crowd_member place;	/* its deadline is for what the client has to do now */
	LIST_ENTRY(h2_request) woken_link;
	struct h2_conn *on;
	struct exchange *x;		/* NULL: its answer is whole, or there is none */
	struct block *answer;		/* a share, owned */
	size_t sent;			/* bytes of it */
	bool woken : 1;			/* in http_h2.woken */
	bool endless : 1;
	bool cut : 1;			/* it was reset; its record stays until that has left */
};

LIST_HEAD(h2_due, h2_conn);
LIST_HEAD(h2_woken, h2_request);

struct http_h2 {
	struct h2 *core;
	struct crowd streams;
	struct crowd_timer deadlines;
	struct h2_due conns, due;	/* due: to be written to, or read from, from the loop */
	struct h2_woken woken;		/* more of their bodies is taken, or of their answers there */
	ev_timer turn;
	bool turning;
	unsigned count;			/* connections */
	struct tide open;		/* streams */
};

static struct h2_request *
request_of(struct h2_stream *st)
{
	return (struct h2_request *)(void *)st;
}

/* -- from the loop ---------------------------------------------------------- */

/* After what runs now; from within a turn: the next one. */
static void
call_turn(struct http_h2 *side, struct ev_loop *loop)
{
	if (!side->turning && LIST_EMPTY(&side->due) && LIST_EMPTY(&side->woken))
		ev_feed_event(loop, &side->turn, EV_TIMER);
}

static void
make_due(struct h2_conn *hc)
{
	struct http *h = hc->conn->listener->http;

	if (hc->due)
		return;
	hc->due = true;
	call_turn(h->h2, h->conf.loop);
	LIST_INSERT_HEAD(&h->h2->due, hc, due_link);
}

static void
make_undue(struct h2_conn *hc)
{
	if (hc->due)
		LIST_REMOVE(hc, due_link);
	hc->due = false;
}

/* -- deadlines ---------------------------------------------------------------- */

static void
request_await(struct h2_request *r, size_t answer_bytes)
{
	struct http *h = r->on->conn->listener->http;

	crowd_timer_give(&h->h2->deadlines, &r->place, http_step_seconds(h, answer_bytes));
}

static void
request_await_us(struct h2_request *r)
{
	crowd_timer_give(&r->on->conn->listener->http->h2->deadlines, &r->place, -1);
}

/* What is it that it waits for?  Each is given its time once, whatever trickles in. */
static void
conn_set_awaits(struct http *h, struct h2_conn *hc)
{
	enum awaits now = hc->full ? (hc->endless > 0 && !hc->dying ? AWAITS_NOTHING : AWAITS_READER) :
	    h2_awaits_head(hc->session) ? AWAITS_HEAD :
	    h2_streams(hc->session) > 0 ? AWAITS_NOTHING : AWAITS_REQUEST;

	if (now == hc->awaits && (now != AWAITS_READER || hc->paced < PACE_BYTES))
		return;
	hc->awaits = (uint8_t)now;
	hc->paced = 0;
	if (now == AWAITS_NOTHING)
		conn_await_us(hc->conn);
	else
		conn_await(h, hc->conn, now == AWAITS_READER ? PACE_BYTES : 0);
}

static void
release_answer(struct h2_request *r)
{
	r->on->answers -= r->answer != NULL;
	block_release(r->answer);
	r->answer = NULL;
	r->on->endless -= r->endless;
	r->endless = false;
}

/* What it holds goes at once: its end may have to wait for room in the socket. */
static void
cut_stream(struct h2_request *r, enum h2_error why)
{
	struct exchange *x = r->x;

	r->cut = true;
	r->x = NULL;
	release_answer(r);
	if (x != NULL)
		exchange_drop(x);
	h2_reset(&r->st, why);
	make_due(r->on);
}

static void
end_late_stream(struct crowd_member *m)
{
	struct h2_request *r = (struct h2_request *)(void *)((char *)m - offsetof(struct h2_request, place));

	r->on->conn->listener->http->stats.timed_out++;
	cut_stream(r, r->st.sent ? H2_NO_ERROR : H2_CANCEL);
}

/* -- streams as carriers of exchanges --------------------------------------------- */

/* The exchange is over, the stream may not be. */
static void
end_exchange(struct h2_request *r)
{
	struct exchange *x = r->x;

	r->x = NULL;
	if (x != NULL)
		exchange_end(x);
}

static void
carrier_await(struct exchange *x)
{
	request_await(x->carried, 0);
}

static void
carrier_await_us(struct exchange *x)
{
	request_await_us(x->carried);
}

static bool
carrier_waits(struct exchange *x UNUSED)
{
	return true;			/* a client that has gone takes its connection with it */
}

static void
carrier_queued(struct exchange *x)
{
	request_await_us(x->carried);
}

static void
carrier_wake(struct exchange *x)
{
	struct h2_request *r = x->carried;
	struct http_h2 *side = x->http->h2;

	if (x->http->stopping && x->phase == EXCHANGE_STREAM)
		h2_answer_ready(&r->st);	/* the loop does not run on: it is written by h2_conn_end() */
	if (r->woken)
		return;
	r->woken = true;
	call_turn(side, x->http->conf.loop);
	LIST_INSERT_HEAD(&side->woken, r, woken_link);
}

static void
carrier_send(struct exchange *x, struct block *b)
{
	struct h2_request *r = x->carried;
	bool streams = x->phase == EXCHANGE_STREAM, body;

	make_due(r->on);
	if (b == NULL) {
		cut_stream(r, H2_INTERNAL_ERROR);
		return;
	}
	body = streams || b->head.len > b->head_bytes || b->body.len > 0;
	r->answer = b;
	r->on->answers++;
	r->sent = b->head_bytes;
	r->endless = streams && x->req->stream_bytes == 0;
	r->on->endless += r->endless;
	request_await(r, b->body.len);
	if (!h2_answer(&r->st, span_of(b->head.data, b->head_bytes), body))
		h2_reset(&r->st, H2_INTERNAL_ERROR);
	if (!body)
		release_answer(r);
	/* Else its handler is to know when the answer has left. */
	if (!streams && (x->req == NULL || x->req->sent == NULL))
		end_exchange(r);
}

static const struct carrier h2_carrier = { carrier_await, carrier_await_us, carrier_waits, carrier_queued,
	carrier_wake, carrier_send };

/* -- requests ------------------------------------------------------------------------ */

/* A new exchange for the stream.  NULL: no memory, the stream is reset. */
static struct exchange *
give_exchange(struct h2_request *r)
{
	struct exchange *x = exchange_new(r->on->conn->listener->http, &h2_carrier, r->on->conn);

	r->x = x;
	if (x == NULL)
		h2_reset(&r->st, H2_INTERNAL_ERROR);
	else
		x->carried = r;
	return x;
}

static void
refuse_head(struct h2_request *r, unsigned status, const char *why)
{
	struct exchange *x = give_exchange(r);
	char text[256];

	if (x == NULL)
		return;
	x->http->stats.malformed++;
	snprintf(text, sizeof(text), "%u %s: %s", status, response_head_phrase(status), why);
	exchange_refuse(x, status, text);
}

static bool
is_busy(const struct h2_request *r)
{
	const struct conn *c = r->on->conn;

	return c->verdict == CONN_BUSY || (r->place.source != NULL &&
	    r->place.source->members > c->listener->http->conf.conf->http2_max_streams_per_client);
}

static void
begin_request(struct h2_request *r, const struct http_head *head, const uint8_t *bytes, bool body)
{
	struct exchange *x = give_exchange(r);
	const char *why;

	if (x == NULL)
		return;
	why = exchange_take_head(x, head, bytes);
	x->keep = HEAD_KEEP;		/* answers are shared with those of HTTP/1.1 */
	if (why != NULL) {
		end_exchange(r);
		if (why[0] == '\0')
			h2_reset(&r->st, H2_INTERNAL_ERROR);
		else
			refuse_head(r, 400, why);
	} else if (!exchange_begin(x) || !body) {
		exchange_run(x);
	} else if (x->expects) {
		h2_continue(&r->st);
	}
}

static void
on_request(void *ctx, struct h2_stream *st, enum http_scanned scanned, const struct http_head *head,
    const uint8_t *bytes, bool body)
{
	struct h2_conn *hc = ctx;
	struct conn *c = hc->conn;
	struct http *h = c->listener->http;
	struct h2_request *r = request_of(st);
	struct exchange *x;

	r->on = hc;
	h->heads_left -= h->heads_left > 0;
	tide_rise(&h->h2->open);
	(void)crowd_stream_begin(&c->listener->conns, &c->place);
	if (c->place.streams == 1)
		conn_set(c, CONN_H2);
	if (crowd_is_full(&h->h2->streams) ||
	    !crowd_come(&h->h2->streams, &r->place, c->place.source == NULL ? 0 : c->place.source->source)) {
		h2_reset(st, H2_REFUSED_STREAM);	/* which counts it */
	} else if (is_busy(r)) {
		h->stats.refused_busy++;
		if (c->verdict == CONN_BUSY)
			h2_quiesce(hc->session);
		x = give_exchange(r);
		if (x != NULL)
			exchange_refuse(x, 429, http_busy_text);
	} else if (scanned == HTTP_DONE) {
		begin_request(r, head, bytes, body);
	} else {
		refuse_head(r, head->status, head->why);
	}
}

static bool
awaits_body(const struct h2_request *r)
{
	return r->x != NULL && r->x->phase == EXCHANGE_BODY;
}

static size_t
on_body(void *ctx UNUSED, struct h2_stream *st, const uint8_t *bytes, size_t n)
{
	struct h2_request *r = request_of(st);

	if (!awaits_body(r))
		return n;
	if (!r->x->feeds) {
		if (!exchange_body(r->x, bytes, n))
			cut_stream(r, H2_CANCEL);
		return n;
	}
	if (r->x->req->head.body_announced == 0 && exchange_is_endless(r->x)) {
		cut_stream(r, H2_CANCEL);
		return n;
	}
	return exchange_feed(r->x, bytes, n);
}

static void
on_body_end(void *ctx UNUSED, struct h2_stream *st)
{
	struct h2_request *r = request_of(st);

	if (awaits_body(r))
		exchange_run(r->x);
}

/* -- answers -------------------------------------------------------------------------- */

static size_t
copy_part(uint8_t *dst, size_t room, const struct buf *from, size_t at)
{
	size_t n = at >= from->len ? 0 : from->len - at < room ? from->len - at : room;

	if (n > 0)
		memcpy(dst, from->data + at, n);
	return n;
}

/* What is in the block: a short body is behind the head. */
static size_t
read_block(struct h2_request *r, uint8_t *dst, size_t room)
{
	const struct block *b = r->answer;
	size_t n = copy_part(dst, room, &b->head, r->sent);

	r->sent += n;
	if (r->sent >= b->head.len && n < room) {
		size_t more = copy_part(dst + n, room - n, &b->body, r->sent - b->head.len);

		r->sent += more;
		n += more;
	}
	return n;
}

/* A piece of what is made as it leaves. */
static ssize_t
read_stream(struct h2_request *r, uint8_t *dst, size_t room, bool *end)
{
	struct exchange *x = r->x;
	struct request *q = x->req;
	size_t n;

	if (q->stream == NULL) {
		*end = q->stream_bytes == 0 || x->passed == q->stream_bytes;
		return *end ? 0 : -1;
	}
	n = request_read_stream(q, dst, room);
	if (n == 0 && q->stream == NULL)
		return -1;
	x->passed += n;
	*end = q->stream_bytes > 0 && x->passed == q->stream_bytes;
	/* One without an end may be read slowly: it misses some, and keeps none waiting. */
	if (n > 0 && q->stream_bytes > 0)
		request_await(r, n);
	else
		request_await_us(r);
	return (ssize_t)n;
}

static ssize_t
on_read(void *ctx UNUSED, struct h2_stream *st, uint8_t *dst, size_t room, bool *end)
{
	struct h2_request *r = request_of(st);
	size_t whole = r->answer == NULL ? 0 : r->answer->head.len + r->answer->body.len, n = 0;

	if (r->cut)
		return -1;
	if (r->sent < whole)
		n = read_block(r, dst, room);
	if (r->x == NULL || r->x->phase != EXCHANGE_STREAM) {
		*end = r->sent >= whole;
		return (ssize_t)n;
	}
	return n > 0 ? (ssize_t)n : read_stream(r, dst, room, end);
}

static void
on_closed(void *ctx, struct h2_stream *st, bool whole UNUSED)
{
	struct h2_conn *hc = ctx;
	struct conn *c = hc->conn;
	struct h2_request *r = request_of(st);
	struct exchange *x = r->x;

	r->x = NULL;
	if (r->woken)
		LIST_REMOVE(r, woken_link);
	release_answer(r);
	crowd_leave(&c->listener->http->h2->streams, &r->place);
	crowd_stream_end(&c->listener->conns, &c->place);
	if (c->place.streams == 0)
		conn_set(c, CONN_H2);
	if (x != NULL)
		exchange_drop(x);
	tide_fall(&c->listener->http->h2->open);
}

static const struct h2_calls calls = { on_request, on_body, on_body_end, on_read, on_closed };

/* -- writing ------------------------------------------------------------------------------ */

enum push {
	PUSH_DONE,			/* there is no more now */
	PUSH_FULL,			/* the socket takes no more */
	PUSH_TURN,			/* enough for this turn of the loop */
	PUSH_BROKEN,
};

static bool
keep_rest(struct h2_conn *hc, const uint8_t *bytes, size_t n)
{
	hc->rest = malloc(n);
	if (hc->rest == NULL)
		return false;
	memcpy(hc->rest, bytes, n);
	hc->rest_len = n;
	hc->rest_at = 0;
	return true;
}

static void
drop_rest(struct h2_conn *hc)
{
	if (hc->rest != NULL)
		explicit_bzero(hc->rest, hc->rest_len);
	free(hc->rest);
	hc->rest = NULL;
	hc->rest_len = hc->rest_at = 0;
}

/* How many bytes left; fewer than n: *p says why. */
static size_t
write_bytes(struct h2_conn *hc, const uint8_t *bytes, size_t n, enum push *p)
{
	size_t done = 0;

	while (done < n) {
		struct iovec part = { (void *)(uintptr_t)(bytes + done), n - done };
		ssize_t got = conn_write(hc->conn, &part, 1);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			*p = errno == EAGAIN || errno == EWOULDBLOCK ? PUSH_FULL : PUSH_BROKEN;
			break;
		}
		done += (size_t)got;
	}
	hc->paced += done;
	return done;
}

static enum push
write_rest(struct h2_conn *hc)
{
	enum push p = PUSH_DONE;

	hc->rest_at += write_bytes(hc, hc->rest + hc->rest_at, hc->rest_len - hc->rest_at, &p);
	if (hc->rest_at == hc->rest_len)
		drop_rest(hc);
	return p;
}

static enum push
write_made(struct http *h, struct h2_conn *hc, size_t n)
{
	enum push p = PUSH_DONE;
	size_t done = write_bytes(hc, h->peek, n, &p);

	if (done < n && p == PUSH_FULL && !keep_rest(hc, h->peek + done, n - done))
		p = PUSH_BROKEN;
	explicit_bzero(h->peek, n);
	return p;
}

static enum push
push(struct http *h, struct h2_conn *hc, size_t budget)
{
	enum push p = PUSH_DONE;
	size_t made = 0;

	if (hc->rest != NULL)
		p = write_rest(hc);
	while (p == PUSH_DONE && made < budget) {
		size_t n = h2_output(hc->session, h->peek, OUT_BYTES);

		if (n == 0)
			return PUSH_DONE;
		made += n;
		p = write_made(h, hc, n);
	}
	return p == PUSH_DONE ? PUSH_TURN : p;
}

/* -- reading ---------------------------------------------------------------------------------- */

/* False: the connection has ended. */
static bool
read_more(struct http *h, struct h2_conn *hc)
{
	struct conn *c = hc->conn;

	for (unsigned i = 0; i < READS_MAX && c->more && !h2_is_full(hc->session) &&
	    (i == 0 || h->heads_left > 0); i++) {
		ssize_t n = conn_read(c, h->peek, READ_BYTES);
		bool fine;

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (n <= 0) {
			conn_end(h, c);
			return false;
		}
		fine = h2_input(hc->session, h->peek, (size_t)n, clock_mono());
		explicit_bzero(h->peek, (size_t)n);
		if (!fine) {
			c->more = false;	/* what is left to be said is written, and then it ends */
			hc->dying = true;
		}
	}
	return true;
}

/* -- both --------------------------------------------------------------------------------------- */

/* Reads, writes, and says what is waited for.  May end it. */
static void
drive(struct http *h, struct conn *c)
{
	struct h2_conn *hc = c->h2;
	enum push p;

	make_undue(hc);
	if (!read_more(h, hc))
		return;
	p = push(h, hc, PUSH_BYTES_MAX);
	hc->full = p == PUSH_FULL;
	if (p == PUSH_BROKEN || (hc->full && !conn_watch(h, c, false, EPOLLIN | EPOLLOUT))) {
		conn_end(h, c);
		return;
	}
	if (p == PUSH_DONE && h2_is_over(hc->session)) {
		h2_conn_end(h, c);
		conn_linger(h, c);
		return;
	}
	conn_set_awaits(h, hc);
	if (p == PUSH_TURN || (c->more && !h2_is_full(hc->session)))
		make_due(hc);
}

void
h2_conn_event(struct http *h, struct conn *c)
{
	drive(h, c);
}

static void
wake_stream(struct h2_request *r)
{
	r->woken = false;
	make_due(r->on);
	if (r->x == NULL)
		return;
	if (r->x->phase == EXCHANGE_STREAM)
		h2_answer_ready(&r->st);
	else
		h2_body_ready(&r->st);
}

/* Those that wake while this runs are for the next turn. */
static void
wake_streams(struct http *h)
{
	struct h2_woken now = h->h2->woken;
	struct h2_request *r = LIST_FIRST(&now);

	LIST_INIT(&h->h2->woken);
	if (r != NULL)
		r->woken_link.le_prev = &LIST_FIRST(&now);
	while ((r = LIST_FIRST(&now)) != NULL) {
		LIST_REMOVE(r, woken_link);
		wake_stream(r);
	}
}

static void
on_turn(struct ev_loop *loop, ev_timer *w, int events UNUSED)
{
	struct http *h = w->data;
	struct h2_due now;
	struct h2_conn *hc;

	h->h2->turning = true;
	h->heads_left = HTTP_HEADS_IN_TURN;
	wake_streams(h);
	now = h->h2->due;
	LIST_INIT(&h->h2->due);
	if (LIST_FIRST(&now) != NULL)
		LIST_FIRST(&now)->due_link.le_prev = &LIST_FIRST(&now);
	while ((hc = LIST_FIRST(&now)) != NULL)
		drive(h, hc->conn);
	h->h2->turning = false;
	ev_timer_stop(loop, w);
	if (LIST_EMPTY(&h->h2->due) && LIST_EMPTY(&h->h2->woken))
		return;
	ev_timer_set(w, 0., 0.);
	ev_timer_start(loop, w);
}

/* -- the life of a connection -------------------------------------------------------------------------- */

bool
h2_conn_begin(struct http *h, struct conn *c)
{
	struct h2_conn *hc = calloc(1, sizeof(*hc));

	if (hc == NULL)
		return false;
	hc->conn = c;
	hc->session = h2_session_new(h->h2->core, hc, (unsigned)h->conf.conf->http2_max_streams_per_client,
	    clock_mono());
	if (hc->session == NULL) {
		free(hc);
		return false;
	}
	c->h2 = hc;
	LIST_INSERT_HEAD(&h->h2->conns, hc, all);
	h->h2->count++;
	conn_set(c, CONN_H2);
	conn_keep_alive(c);
	hc->awaits = AWAITS_REQUEST;
	conn_await(h, c, 0);
	if (h->quiet)
		h2_quiesce(hc->session);
	c->more = true;
	make_due(hc);
	return true;
}

void
h2_conn_late(struct conn *c)
{
	struct h2_conn *hc = c->h2;

	if (hc->awaits == AWAITS_REQUEST && !hc->full) {
		h2_finish(hc->session);
		make_due(hc);
	} else {
		(void)shutdown(c->fd, SHUT_RDWR);	/* its end is found there */
	}
}

void
h2_conn_end(struct http *h, struct conn *c)
{
	struct h2_conn *hc = c->h2;

	if (hc == NULL)
		return;
	if (h->stopping)
		(void)push(h, hc, SIZE_MAX);	/* the answers to what was under way */
	h2_finish(hc->session);
	(void)push(h, hc, OUT_BYTES);
	h2_session_free(hc->session);
	make_undue(hc);
	drop_rest(hc);
	LIST_REMOVE(hc, all);
	h->h2->count--;
	c->h2 = NULL;
	free(hc);
}

bool
h2_conns_are_sending(const struct http *h)
{
	const struct h2_conn *hc;

	LIST_FOREACH(hc, &h->h2->conns, all)
		if (hc->answers > hc->endless || hc->rest != NULL || h2_has_output(hc->session))
			return true;
	return false;
}

void
h2_conns_quiesce(struct http *h)
{
	struct h2_conn *hc;

	LIST_FOREACH(hc, &h->h2->conns, all) {
		h2_quiesce(hc->session);
		make_due(hc);
	}
}

/* -- of all ----------------------------------------------------------------------------------------------- */

bool
h2_conns_init(struct http *h)
{
	const struct rpcd_conf *conf = h->conf.conf;
	struct http_h2 *side = calloc(1, sizeof(*side));

	if (side == NULL)
		return false;
	h->h2 = side;
	side->core = h2_new(&(struct h2_conf){ .calls = &calls, .stream_bytes = sizeof(struct h2_request),
	    .head_bytes_max = (size_t)conf->header_bytes_max });
	crowd_init(&side->streams, &(struct crowd_conf){ .max = (unsigned)conf->http_max_conns, .source_max = 1,
	    .hash = keyed_hash });
	crowd_timer_init(&side->deadlines, h->conf.loop, &side->streams, end_late_stream);
	ev_timer_init(&side->turn, on_turn, 0., 0.);
	side->turn.data = h;
	LIST_INIT(&side->conns);
	LIST_INIT(&side->due);
	LIST_INIT(&side->woken);
	return side->core != NULL;
}

void
h2_conns_done(struct http *h)
{
	struct http_h2 *side = h->h2;

	if (side == NULL)
		return;
	TV_ASSERT(side->count == 0);
	ev_timer_stop(h->conf.loop, &side->turn);
	crowd_timer_stop(&side->deadlines);
	crowd_done(&side->streams);
	h2_free(side->core);
	free(side);
	h->h2 = NULL;
}

void
h2_conns_stats(const struct http *h, struct http_stats *out)
{
	const struct h2_stats *s = h2_stats(h->h2->core);

	out->h2_conns = h->h2->count;
	out->h2_streams = h->h2->streams.count;
	out->h2_requests = s->streams;
	out->h2_refused = s->refused;
	out->h2_resets = s->resets;
	out->h2_rapid_resets = s->rapid_resets;
	out->h2_floods = s->floods;
	out->h2_bombs = s->bombs;
	out->h2_broken = s->broken;
}
