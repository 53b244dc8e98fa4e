/*
 * Blocking queries outside libmicrohttpd.
 *
 * libmicrohttpd gives no connection away, but it closes one when its handler says so; the socket lives on in a
 * duplicate of the descriptor.  (MHD_USE_TURBO: it does not shut the socket down then.)  What it may have read beyond
 * the request would be lost: so only a connection is taken of which the kernel has received exactly the requests that
 * were handled.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/assert.h"
#include "rpcd/gzip.h"
#include "rpcd/http_int.h"

#define SENDS_MAX 128			/* answers in one turn of the loop: a millisecond, and others have theirs */
#define HEAD_BYTES_MAX 65536
#define JOIN_BYTES_MAX 4096		/* a body up to this goes behind its head, into one buffer */

/* A whole answer, for one connection or for thousands. */
struct block {
	unsigned shares;
	struct api *api;
	uint64_t accounted;		/* in api->answers_bytes */
	unsigned status;
	struct buf head, body;		/* a short body is in head */
};

/* -- blocks ---------------------------------------------------------------- */

/* Takes the body out of the answer.  NULL: no memory. */
static struct block *
block_new(struct exchange *x, enum head_keep keep)
{
	struct answer *a = &x->req.answer;
	struct block *b = calloc(1, sizeof(*b));

	if (b == NULL)
		return NULL;
	buf_init(&b->head, HEAD_BYTES_MAX);
	b->head.secret = a->body.secret;
	head_write(&b->head, x->http->conf.conf, a, keep);
	if (a->body.len > 0 && a->body.len <= JOIN_BYTES_MAX)
		buf_put(&b->head, a->body.data, a->body.len);
	if (b->head.failed) {
		buf_done(&b->head);
		free(b);
		return NULL;
	}
	b->shares = 1;
	b->status = a->status;
	b->api = x->http->conf.api;
	if (a->body.len > JOIN_BYTES_MAX) {
		b->accounted = x->req.accounted;
		x->req.accounted = 0;
		b->body = a->body;
		buf_init(&a->body, 0);
	}
	return b;
}

static struct block *
block_share(struct block *b)
{
	b->shares++;
	return b;
}

static void
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

static enum head_keep
keep_now(const struct exchange *x)
{
	return x->http->quiet || x->http->stopping ? HEAD_CLOSE : x->keep;
}

static bool
wants_gzip(const struct exchange *x)
{
	return x->req.head.accept_encoding != NULL;	/* api_fold() */
}

static bool
is_last(const struct last_answer *l, const struct exchange *x, uint64_t number)
{
	return l->block != NULL && l->number == number && l->gzip == wants_gzip(x) && l->keep == keep_now(x) &&
	    span_eq(buf_span(&l->target), x->req.head.target);
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
	buf_putspan(&l->target, x->req.head.target);
	if (l->target.failed)
		return;
	l->number = number;
	l->gzip = wants_gzip(x);
	l->keep = (uint8_t)keep_now(x);
	l->block = block_share(b);
}

/* -- the queue --------------------------------------------------------------- */

/* b: a share that the connection takes over; NULL: without memory there is no answer, and the connection is closed. */
static void
enqueue(struct exchange *x, struct block *b)
{
	struct http *h = x->http;
	struct conn *c = x->conn;

	TV_ASSERT(c->state == CONN_WAIT);
	c->state = CONN_READY;
	c->answer = b;
	c->keep = (uint8_t)keep_now(x);
	c->queue_next = NULL;
	if (h->ready == NULL)		/* after what runs now */
		ev_feed_event(h->conf.loop, &h->turn, EV_TIMER);
	*h->ready_end = c;
	h->ready_end = &c->queue_next;
}

static bool
on_again(struct request *r, uint64_t number)
{
	struct exchange *x = r->transport;
	struct http *h = x->http;

	if (number == 0 || !is_last(&h->last, x, number)) {
		if (h->last.number != number)
			forget_last(&h->last);
		h->last.number = number;	/* for remember() */
		return false;
	}
	r->answered = true;
	r->answer.status = h->last.block->status;
	if (h->last.block->status >= 500)
		r->api->stats.errors++;
	enqueue(x, block_share(h->last.block));
	return true;
}

void
http_park_ready(struct exchange *x)
{
	struct block *b;

	TV_ASSERT(x->req.stream == NULL);	/* asks_the_router() */
	if (x->conn->state != CONN_WAIT)
		return;
	b = block_new(x, keep_now(x));
	remember(x->http, x, b);
	enqueue(x, b);
}

/* -- sending ------------------------------------------------------------------ */

static void
drop(struct http *h, struct conn *c)
{
	block_release(c->answer);
	c->answer = NULL;
	conn_end(h, c);
}

/* The whole answer has left. */
static void
sent_all(struct http *h, struct conn *c)
{
	bool other = c->behind;

	block_release(c->answer);
	c->answer = NULL;
	if (c->keep == HEAD_CLOSE || (other && !conn_watch(h, c, false, EPOLLIN | EPOLLRDHUP)))
		conn_end(h, c);
	else
		conn_rest(h, c);
}

static ssize_t
send_rest(const struct conn *c)
{
	const struct block *b = c->answer;
	size_t head = c->sent < b->head.len ? b->head.len - c->sent : 0;
	size_t body = c->sent > b->head.len ? c->sent - b->head.len : 0;
	struct iovec parts[2] = {
		{ .iov_base = b->head.data + b->head.len - head, .iov_len = head },
		{ .iov_base = b->body.data == NULL ? NULL : b->body.data + body, .iov_len = b->body.len - body },
	};
	struct msghdr m = { .msg_iov = parts, .msg_iovlen = 2 };

	if (parts[1].iov_len == 0)
		return send(c->fd, parts[0].iov_base, parts[0].iov_len, MSG_NOSIGNAL | MSG_DONTWAIT);
	return sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* As much as fits; what does not waits for room, within the deadline for reading an answer. */
static void
push(struct http *h, struct conn *c)
{
	size_t whole = c->answer->head.len + c->answer->body.len;

	while (c->sent < whole) {
		ssize_t n = send_rest(c);

		if (n >= 0) {
			c->sent += (size_t)n;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN && errno != EWOULDBLOCK)
			break;
		if (!conn_watch(h, c, false, EPOLLOUT))
			break;
		c->behind = true;
		return;
	}
	if (c->sent < whole)
		drop(h, c);
	else
		sent_all(h, c);
}

/* The first in the queue. */
static void
send_first(struct http *h)
{
	struct conn *c = h->ready;
	struct exchange *x = c->waiting;

	h->ready = c->queue_next;
	if (h->ready == NULL)
		h->ready_end = &h->ready;
	h->stats.waiting--;
	c->state = CONN_SEND;
	c->sent = 0;
	if (c->answer == NULL) {
		drop(h, c);
	} else {
		conn_await(h, c, c->answer->body.len);
		push(h, c);
	}
	exchange_end(x);
}

static void
on_turn(struct ev_loop *loop, ev_timer *w, int events)
{
	struct http *h = w->data;

	(void)events;
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

void
http_park_flush(struct http *h)
{
	while (h->ready != NULL)
		send_first(h);
	for (struct conn *c = h->conns, *next; c != NULL; c = next) {
		next = c->next;
		if (c->answer != NULL)
			drop(h, c);
	}
}

/* -- parking -------------------------------------------------------------------- */

/* All that the kernel has received were requests that we were given; what is to come stays in the socket. */
static bool
nothing_beyond(const struct conn *c)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	return c->read != CONN_READ_UNKNOWN && getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
	    len >= offsetof(struct tcp_info, tcpi_bytes_received) + sizeof(info.tcpi_bytes_received) &&
	    info.tcpi_bytes_received == c->read;
}

/* It waits for one reply of the router, and answers with that: no stream, and nothing else of its own under way. */
static bool
asks_the_router(const struct request *r)
{
	return r->op.index > 0 && r->call != NULL && r->cancel == NULL && r->state == NULL && r->feed == NULL &&
	    strcmp(r->head.method, "GET") == 0;
}

bool
http_park(struct exchange *x)
{
	struct http *h = x->http;
	struct conn *c = x->conn;
	struct request *r = &x->req;
	int lent = c->fd, own;

	if (!h->parks || h->stopping || c->client == NULL || x->close_after || !asks_the_router(r) ||
	    !nothing_beyond(c))
		return false;
	own = fcntl(lent, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return false;
	c->fd = own;
	if (!conn_watch(h, c, true, EPOLLIN | EPOLLRDHUP) || !api_fold(r)) {
		(void)epoll_ctl(h->epoll, EPOLL_CTL_DEL, own, NULL);	/* fails when it was not added */
		(void)close(own);
		c->fd = lent;
		return false;
	}
	c->state = CONN_WAIT;
	c->behind = false;
	c->waiting = x;
	x->parked = true;
	r->again = on_again;
	h->stats.waiting++;
	return true;
}

/* The client left while it waited. */
static void
gone(struct http *h, struct conn *c)
{
	struct exchange *x = c->waiting;

	h->stats.waiting--;
	api_cancel(&x->req);
	exchange_end(x);
	conn_end(h, c);
}

/* Bytes or an end.  Bytes are the next request, which has to wait: then only the end is of interest. */
static void
look(struct http *h, struct conn *c, uint32_t events)
{
	bool ended = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
	char byte;
	ssize_t n = recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR) && !ended)
		return;
	c->behind = true;
	if (n <= 0 || ended || !conn_watch(h, c, false, EPOLLRDHUP))
		gone(h, c);
}

void
http_park_event(struct http *h, struct conn *c, uint32_t events)
{
	if (c->state == CONN_SEND)
		push(h, c);
	else
		look(h, c, events);
}

/* -- life -------------------------------------------------------------------------- */

void
http_park_init(struct http *h)
{
	h->parks = head_plain(h->conf.conf);
	h->ready_end = &h->ready;
	ev_timer_init(&h->turn, on_turn, 0., 0.);
	h->turn.data = h;
	buf_init(&h->last.target, REQUEST_ARENA_MAX);
	h->last.target.secret = true;		/* ?token= */
}

void
http_park_done(struct http *h)
{
	ev_timer_stop(h->conf.loop, &h->turn);
	forget_last(&h->last);
}
