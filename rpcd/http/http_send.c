/*
 * Answers.  Those that are there at once leave at once; those that waited leave in turns, and those that waited for
 * the same in the same words share the bytes.  A stream leaves in pieces, each made when the one before has left.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "common/base/assert.h"
#include "rpcd/http/http_int.h"

#define SENDS_MAX 128			/* answers in one turn of the loop: a millisecond, and others have theirs */
#define PUSH_BYTES_MAX (1u << 20)	/* of one answer in one turn, however fast its client reads */
#define HEAD_BYTES_MAX 65536
#define HEAD_ROOM 512			/* of most heads: a buffer that grows step by step is copied at each */
#define STREAM_BYTES 16384		/* of a piece of a stream */
#define STREAM_LONG_BYTES 131072	/* of one whose length is known */
#define JOIN_BYTES_MAX 4096		/* a body up to this goes behind its head, into one buffer */
#define JOIN_SEALED_BYTES_MAX 15360	/* the same of TLS: one record holds 16,384 bytes */

/* -- blocks ---------------------------------------------------------------- */

/* As the head says it. */
static uint64_t
body_bytes(const struct exchange *x)
{
	return x->req->stream_bytes > 0 ? x->req->stream_bytes : x->req->stream == NULL ? x->req->answer.body.len :
	    x->old ? HEAD_TO_END : HEAD_CHUNKED;
}

/* Takes the body out of the answer.  NULL: no memory. */
static struct block *
block_new(struct exchange *x, enum response_head_keep keep)
{
	struct answer *a = &x->req->answer;
	struct block *b = calloc(1, sizeof(*b));
	size_t join = x->conn->tls != NULL ? JOIN_SEALED_BYTES_MAX : JOIN_BYTES_MAX;

	if (b == NULL)
		return NULL;
	buf_init(&b->head, HEAD_BYTES_MAX);
	b->head.secret = a->body.secret;
	(void)buf_room(&b->head, HEAD_ROOM + (a->body.len <= join ? a->body.len : 0));
	response_head_write(&b->head, x->http->conf.conf, a, keep, body_bytes(x));
	if (strcmp(x->req->head.method, "HEAD") == 0)
		buf_reset(&a->body);
	else				/* one may have broken off already */
		x->streams = x->req->stream != NULL || x->req->stream_bytes > 0;
	b->head_bytes = b->head.len;
	if (a->body.len > 0 && a->body.len <= join)
		buf_put(&b->head, a->body.data, a->body.len);
	if (b->head.failed) {
		buf_done(&b->head);
		free(b);
		return NULL;
	}
	b->shares = 1;
	b->status = a->status;
	b->api = x->http->conf.api;
	if (a->body.len > join) {
		b->accounted = x->req->accounted;
		x->req->accounted = 0;
		b->body = a->body;
		buf_init(&a->body, 0);
	}
	return b;
}

struct block *
block_share(struct block *b)
{
	b->shares++;
	return b;
}

void
block_release(struct block *b)
{
	if (b == NULL || --b->shares > 0)
		return;
	b->api->answers_bytes -= b->accounted;
	buf_done(&b->head);
	buf_done(&b->body);
	free(b);
}

/* -- the newest answer ------------------------------------------------------- */

static void
forget_last(struct last_answer *l)
{
	block_release(l->block);
	l->block = NULL;
	l->number = 0;
	buf_done(&l->target);
}

static enum response_head_keep
keep_now(const struct exchange *x)
{
	return x->close_after || x->http->quiet || x->http->stopping || body_bytes(x) == HEAD_TO_END ? HEAD_CLOSE :
	    x->keep;
}

static bool
wants_gzip(const struct exchange *x)
{
	return x->req->head.accept_encoding != NULL;	/* api_fold() */
}

static bool
is_last(const struct last_answer *l, const struct exchange *x, uint64_t number)
{
	return l->block != NULL && l->number == number && l->gzip == wants_gzip(x) && l->keep == keep_now(x) &&
	    span_eq(buf_span(&l->target), x->req->head.target);
}

/* Others with the same reply will ask for it. */
static void
remember(struct http *h, const struct exchange *x, struct block *b)
{
	struct last_answer *l = &h->last;
	uint64_t number = l->number;

	if (number == 0 || b == NULL)
		return;
	forget_last(l);
	buf_putspan(&l->target, x->req->head.target);
	if (l->target.failed)
		return;
	l->number = number;
	l->gzip = wants_gzip(x);
	l->keep = (uint8_t)keep_now(x);
	l->block = block_share(b);
}

/* -- the queue --------------------------------------------------------------- */

/* b: a share that the exchange takes over; NULL: without memory there is no answer. */
static void
enqueue(struct exchange *x, struct block *b)
{
	struct http *h = x->http;

	TV_ASSERT(x->phase == EXCHANGE_WAIT || x->phase == EXCHANGE_BODY);
	x->by->queued(x);
	x->phase = EXCHANGE_READY;
	x->answer = b;
	x->keep = (uint8_t)(x->req == NULL ? HEAD_CLOSE : keep_now(x));
	x->next = NULL;
	if (h->ready == NULL)		/* after what runs now */
		ev_feed_event(h->conf.loop, &h->turn, EV_TIMER);
	*h->ready_end = x;
	h->ready_end = &x->next;
}

bool
http_send_again(struct request *r, uint64_t number)
{
	struct exchange *x = r->transport;
	struct http *h = x->http;

	if (number == 0 || !is_last(&h->last, x, number)) {
		if (h->last.number != number)
			forget_last(&h->last);
		h->last.number = number;	/* for remember() */
		return false;
	}
	const struct block *b = h->last.block;

	r->answered = true;
	r->answer.status = b->status;
	r->answer_bytes = b->head.len - b->head_bytes + b->body.len;
	if (b->status >= 500)
		r->api->stats.errors++;
	enqueue(x, block_share(h->last.block));
	exchange_end_request(x);	/* thousands may be in the queue */
	return true;
}

void
http_send_lost(struct exchange *x)
{
	enqueue(x, NULL);
}

void
http_send_later(struct exchange *x)
{
	struct block *b;

	if (x->phase != EXCHANGE_WAIT && x->phase != EXCHANGE_BODY)
		return;
	b = block_new(x, keep_now(x));
	if (!x->streams)
		remember(x->http, x, b);
	enqueue(x, b);
}

/* -- sending ------------------------------------------------------------------ */

void
http_send_cut(struct http *h, struct conn *c)
{
	block_release(c->answer);
	c->answer = NULL;
	conn_end(h, c);
}

/* The whole answer has left. */
static void
sent_all(struct http *h, struct conn *c)
{
	if (c->x != NULL)
		exchange_end(c->x);
	c->x = NULL;
	block_release(c->answer);
	c->answer = NULL;
	if (c->keep != HEAD_CLOSE)
		conn_rest(h, c);
	else if (c->unread || c->more || c->room || c->carried != NULL || h->look.len > 0 || c->tls != NULL)
		conn_linger(h, c);
	else
		conn_end(h, c);
}

static ssize_t
send_rest(struct conn *c)
{
	const struct block *b = c->answer;
	size_t head = c->sent < b->head.len ? b->head.len - c->sent : 0;
	size_t body = c->sent > b->head.len ? c->sent - b->head.len : 0;
	struct iovec parts[2] = {
		{ .iov_base = b->head.data + b->head.len - head, .iov_len = head },
		{ .iov_base = b->body.data == NULL ? NULL : b->body.data + body, .iov_len = b->body.len - body },
	};

	return conn_write(c, parts, parts[1].iov_len == 0 ? 1 : 2);
}

enum push {
	PUSH_DONE,			/* the block has left; the stream is over */
	PUSH_MORE,			/* its next piece is in the block */
	PUSH_EMPTY,			/* it has no more now: http_send_more() */
	PUSH_FULL,			/* the socket takes no more */
	PUSH_TURN,			/* enough for this turn of the loop */
	PUSH_BROKEN,
};

static enum push
push_block(struct conn *c, size_t *budget)
{
	size_t whole = c->answer->head.len + c->answer->body.len;

	while (c->sent < whole) {
		ssize_t n = *budget == 0 ? 0 : send_rest(c);

		if (*budget == 0)
			return PUSH_TURN;
		if (n < 0 && errno != EINTR)
			return errno == EAGAIN || errno == EWOULDBLOCK ? PUSH_FULL : PUSH_BROKEN;
		if (n < 0)
			continue;
		c->sent += (size_t)n;
		*budget -= (size_t)n < *budget ? (size_t)n : *budget;
	}
	return PUSH_DONE;
}

/* Puts it into the block of the piece before. */
static enum push
make_piece(struct conn *c, uint8_t *dst, size_t max)
{
	struct exchange *x = c->x;
	struct request *r = x->req;
	struct block *b = c->answer;
	size_t n = dst == NULL ? 0 : request_read_stream(r, dst, max);

	if (dst == NULL || (n == 0 && r->stream == NULL))
		return PUSH_BROKEN;
	if (n == 0) {
		conn_await_us(c);
		buf_done(&b->body);
		return PUSH_EMPTY;
	}
	/* One without an end may be read slowly: it misses some, and keeps none waiting. */
	if (r->stream_bytes > 0)
		conn_await(x->http, c, n);
	else
		conn_await_us(c);
	b->body.len = n;
	x->passed += n;
	if (r->stream_bytes == 0 && !x->old) {
		buf_printf(&b->head, "%zx\r\n", n);
		buf_put(&b->body, "\r\n", 2);
	}
	return b->head.failed || b->body.failed ? PUSH_BROKEN : PUSH_MORE;
}

static enum push
next_piece(struct conn *c)
{
	struct exchange *x = c->x;
	struct request *r = x->req;
	struct block *b = c->answer;
	size_t max = r->stream_bytes > 0 ? STREAM_LONG_BYTES : STREAM_BYTES;

	buf_reset(&b->head);
	buf_reset(&b->body);
	c->sent = 0;
	if (r->stream != NULL) {
		b->body.max = max + 2;
		return make_piece(c, buf_room(&b->body, max + 2), max);
	}
	if (r->stream_bytes == 0 && !x->old && !x->last) {
		x->last = true;
		buf_puts(&b->head, "0\r\n\r\n");
		return b->head.failed ? PUSH_BROKEN : PUSH_MORE;
	}
	return r->stream_bytes == 0 || x->passed == r->stream_bytes ? PUSH_DONE : PUSH_BROKEN;
}

/*
 * As much as fits; what does not waits for room, within the deadline for reading an answer.  begins: that is not set
 * yet, as most answers leave at once.
 */
static void
push(struct http *h, struct conn *c, bool begins)
{
	size_t budget = PUSH_BYTES_MAX;
	enum push p;

	do {
		p = push_block(c, &budget);
		if (p == PUSH_DONE && c->state == CONN_STREAM)
			p = next_piece(c);
	} while (p == PUSH_MORE);
	if (begins && (p == PUSH_FULL || p == PUSH_TURN) && c->state == CONN_SEND)
		conn_await(h, c, c->answer->body.len);
	if (p == PUSH_DONE)
		sent_all(h, c);
	else if (p == PUSH_BROKEN || (p == PUSH_TURN && !conn_watch(h, c, false, EPOLLIN | EPOLLOUT)) ||
	    (p == PUSH_FULL && !c->room && !conn_watch(h, c, false, EPOLLIN | EPOLLOUT)))
		http_send_cut(h, c);
	else if (p != PUSH_EMPTY)
		c->room = true;		/* if there is some left, asking anew tells of it at once */
}

void
conn_keep_alive(struct conn *c)
{
	static const struct { int level, name, value; } opts[] = {
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 60 },
		{ IPPROTO_TCP, TCP_KEEPINTVL, 15 },
		{ IPPROTO_TCP, TCP_KEEPCNT, 4 },
	};

	/* On a unix socket they do not matter. */
	for (size_t i = 0; i < sizeof(opts) / sizeof(opts[0]); i++)
		(void)setsockopt(c->fd, opts[i].level, opts[i].name, &opts[i].value, sizeof(int));
}

void
http_send_block(struct exchange *x, struct block *b)
{
	struct http *h = x->http;
	struct conn *c = x->conn;
	bool streams = x->phase == EXCHANGE_STREAM;

	c->unread = c->unread || x->close_after;
	c->keep = x->keep;
	c->sent = 0;
	c->answer = b;
	c->x = streams ? x : NULL;
	conn_set(c, streams ? CONN_STREAM : CONN_SEND);
	if (streams) {
		conn_keep_alive(c);
		(void)conn_watch(h, c, false, EPOLLIN);	/* tells anew of a client that has gone */
		c->room = false;
	}
	if (!streams)
		exchange_keep_client(x);	/* the connection may end before it */
	if (b == NULL) {
		http_send_cut(h, c);
	} else {
		if (streams)
			conn_await(h, c, b->body.len);
		push(h, c, true);
	}
	if (!streams)
		exchange_end(x);
}

/* b: the answer of this request, a share; NULL: there is no memory for one. */
static void
send_block(struct exchange *x, struct block *b)
{
	exchange_release_body(x);
	x->phase = b != NULL && x->streams ? EXCHANGE_STREAM : EXCHANGE_SEND;
	x->passed = 0;
	x->by->send(x, b);
}

void
http_send_more(struct http *h, struct conn *c)
{
	push(h, c, false);
}

void
http_send_now(struct exchange *x)
{
	x->keep = (uint8_t)keep_now(x);
	send_block(x, block_new(x, keep_now(x)));
}

/* The first in the queue. */
static void
send_first(struct http *h)
{
	struct exchange *x = h->ready;

	h->ready = x->next;
	if (h->ready == NULL)
		h->ready_end = &h->ready;
	send_block(x, x->answer);
}

static void
on_turn(struct ev_loop *loop, ev_timer *w, int events UNUSED)
{
	struct http *h = w->data;

	h->heads_left = HTTP_HEADS_IN_TURN;
	for (unsigned n = 0; n < SENDS_MAX && h->ready != NULL; n++)
		send_first(h);
	ev_timer_stop(loop, w);
	if (h->ready == NULL) {
		forget_last(&h->last);
		return;
	}
	ev_timer_set(w, 0., 0.);
	ev_timer_start(loop, w);
}

static void
drop_answer(struct http *h, struct conn *c)
{
	if (c->answer != NULL)
		http_send_cut(h, c);
}

void
http_send_flush(struct http *h)
{
	while (h->ready != NULL)
		send_first(h);
	conns_cut_answers(h, drop_answer);
}

/* Its client has gone while it was in the queue. */
static void
drop_block(struct exchange *x, struct block *b)
{
	block_release(b);
	exchange_end(x);
}

const struct carrier gone_carrier = { .send = drop_block };

/* -- life -------------------------------------------------------------------------- */

void
http_send_init(struct http *h)
{
	h->ready_end = &h->ready;
	ev_timer_init(&h->turn, on_turn, 0., 0.);
	h->turn.data = h;
	buf_init(&h->last.target, REQUEST_ARENA_MAX);
	h->last.target.secret = true;		/* ?token= */
}

void
http_send_done(struct http *h)
{
	ev_timer_stop(h->conf.loop, &h->turn);
	forget_last(&h->last);
}
