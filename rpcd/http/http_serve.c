/*
 * Requests.  A look at a connection takes heads and bodies out of what has come, one after another, until one of them
 * waits for its answer, or for more bytes; what is left is carried over.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "rpcd/http/http_int.h"

#define STEPS_MAX 32			/* heads and parts of bodies of one connection, before others have their turn */
#define HEAD_READ_BYTES 16384		/* at most at once, while a head is expected */

const char http_busy_text[] =
    "Your IP is issuing too many concurrent connections, please rate limit your calls\n";

/* -- the connection as a carrier -------------------------------------------------- */

static void
await(struct exchange *x)
{
	struct conn *c = x->conn;

	conn_await(x->http, c, 0);
	if (c->state == CONN_BODY)
		conn_set(c, CONN_BODY);		/* it got further */
}

static void
await_us(struct exchange *x)
{
	conn_await_us(x->conn);
}

static bool
waits(struct exchange *x)
{
	struct conn *c = x->conn;

	conn_set(c, CONN_WAIT);
	if (!c->ended || !exchange_waits_long(x))
		return true;
	conn_end(x->http, c);		/* no client waits */
	return false;
}

static void
queued(struct exchange *x)
{
	struct conn *c = x->conn;

	c->unread = c->unread || c->state == CONN_BODY;
	conn_set(c, CONN_READY);
	conn_await_us(c);
}

static void
wake(struct exchange *x)
{
	if (x->phase == EXCHANGE_STREAM && x->http->stopping && x->req->stream == NULL)
		http_send_more(x->http, x->conn);	/* its end, and that of x: the loop does not run on */
	else
		conn_wake(x->conn);
}

const struct carrier conn_carrier = { await, await_us, waits, queued, wake, http_send_block };

/* -- refusals ---------------------------------------------------------------------- */

/* An answer that needs no API; the connection ends with it. */
static void
refuse(struct http *h, struct conn *c, unsigned status, const char *text)
{
	struct exchange *x = exchange_new(h, &conn_carrier, c);

	if (x == NULL) {
		conn_end(h, c);
		return;
	}
	c->x = x;
	exchange_refuse(x, status, text);
}

static void
refuse_head(struct http *h, struct conn *c, unsigned status, const char *why)
{
	char text[256];

	h->stats.malformed++;
	snprintf(text, sizeof(text), "%u %s: %s", status, response_head_phrase(status), why);
	refuse(h, c, status, text);
}

/* -- reading bodies --------------------------------------------------------------- */

static void
take_body(struct http *h, struct conn *c, struct span part)
{
	struct exchange *x = c->x;

	if (!exchange_body(x, part.p, part.len))
		conn_end(h, c);
	else if (c->state == CONN_BODY && x->chunks == NULL && x->req->body_bytes == x->req->head.body_announced)
		exchange_run(x);
}

static void
refuse_chunks(struct http *h, struct exchange *x)
{
	h->stats.malformed++;
	x->close_after = true;
	x->req->running = true;
	if (!x->req->answered)
		answer_text(x->req, 400, "400 Bad Request: %s", x->chunks->why);
	x->req->running = false;
	http_send_now(x);
}

/*
 * A piece of data in a chunk, which the scanner has found behind `before`.  False: it is not taken whole, and the
 * scanner stands at what was not; *took: up to there.
 */
static bool
feed_chunk(struct exchange *x, const struct http_chunks *before, const uint8_t *at, struct span data, size_t *took)
{
	size_t fed = exchange_feed(x, data.p, data.len), up_to = (size_t)(data.p - at) + fed;

	if (fed == data.len)
		return true;
	*x->chunks = *before;
	(void)http_chunks_scan(x->chunks, at, up_to, took, &data);
	return false;
}

/* One step of the scanner.  False: what it found is not taken now. */
static bool
take_chunk(struct http *h, struct conn *c)
{
	struct exchange *x = c->x;
	struct http_chunks before = *x->chunks;
	struct span data;
	size_t took;
	enum http_scanned s = http_chunks_scan(x->chunks, h->look.bytes, h->look.len, &took, &data);
	bool all = true;

	if (s == HTTP_BAD) {
		refuse_chunks(h, x);
		return true;
	}
	if (data.len > 0 && x->feeds && exchange_is_endless(x)) {
		conn_end(h, c);
		return true;
	}
	if (data.len > 0 && x->feeds)
		all = feed_chunk(x, &before, h->look.bytes, data, &took);
	else if (data.len > 0)
		take_body(h, c, data);
	if (h->look.conn == NULL)
		return true;
	look_take(h, took);
	if (c->state == CONN_BODY && s == HTTP_DONE && all)
		exchange_run(x);
	return all;
}

/* Of a body by its length what is there.  False: not all of it is taken now. */
static bool
take_part(struct http *h, struct conn *c)
{
	struct exchange *x = c->x;
	uint64_t left = x->req->head.body_announced - x->req->body_bytes;
	struct span part = span_of(h->look.bytes, h->look.len < left ? h->look.len : (size_t)left);
	size_t took = part.len;

	if (x->feeds)
		took = exchange_feed(x, part.p, part.len);
	look_take(h, took);
	if (!x->feeds)
		take_body(h, c, part);
	else if (x->req->body_bytes == x->req->head.body_announced)
		exchange_run(x);
	return took == part.len;
}

static size_t
body_want(const struct http *h, const struct exchange *x)
{
	uint64_t left = x->req->head.body_announced - x->req->body_bytes;

	return x->chunks != NULL || left > h->peek_cap ? h->peek_cap : (size_t)left;
}

/* More of the body, if it is there.  False: not now. */
static bool
step_in_body(struct http *h, struct conn *c)
{
	bool all;

	if (h->look.len == 0 && !look_read(h, body_want(h, c->x)))
		return false;
	if (c->x->chunks == NULL)
		return take_part(h, c);
	while ((all = take_chunk(h, c)) && h->look.conn != NULL && c->state == CONN_BODY && h->look.len > 0)
		;
	return all;
}

/* -- reading heads ------------------------------------------------------------------ */

/* The client waits for our word before it sends the body. */
static bool
say_continue(struct conn *c)
{
	static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct iovec part = { (void *)(uintptr_t)text, sizeof(text) - 1 };

	return conn_write(c, &part, 1) == (ssize_t)part.iov_len;
}

/* Its head was copied, and is no longer among the bytes that are looked at. */
static void
begin_request(struct http *h, struct exchange *x)
{
	struct conn *c = x->conn;
	bool wanted = exchange_begin(x);

	c->x = x;
	if (!wanted) {
		exchange_run(x);
		return;
	}
	if (x->chunks == NULL && x->req->head.body_announced == 0) {
		exchange_run(x);
		return;
	}
	conn_set(c, CONN_BODY);
	if (x->expects && !x->old && h->look.len == 0 && !look_read(h, body_want(h, x)) && h->look.conn != NULL &&
	    !say_continue(c))
		conn_end(h, c);
}

/* The bytes that are looked at begin with this head. */
static void
serve_head(struct http *h, struct conn *c, const struct http_head *head)
{
	struct exchange *x = exchange_new(h, &conn_carrier, c);
	const char *why;

	if (x == NULL) {
		conn_end(h, c);
		return;
	}
	why = exchange_take_head(x, head, h->look.bytes);
	look_take(h, head->len);
	if (why == NULL) {
		begin_request(h, x);
		return;
	}
	exchange_end(x);
	if (why[0] != '\0')
		refuse_head(h, c, 400, why);
	else
		conn_end(h, c);
}

static void
refuse_client(struct http *h, struct conn *c)
{
	if (c->verdict == CONN_BUSY)
		refuse(h, c, 429, http_busy_text);
	else
		refuse(h, c, 403, "Permission denied");
}

static void
scan_head(struct http *h, struct conn *c)
{
	struct http_head *own = c->carried != NULL ? c->carried->head : NULL, *head = own != NULL ? own : &h->head;

	if (own == NULL)
		http_head_begin(head, h->conf.conf->header_bytes_max);
	switch (http_head_scan(head, h->look.bytes, h->look.len)) {
	case HTTP_MORE:
		if (own == NULL && conn_carry_head(h, c, head) == NULL)
			conn_end(h, c);
		return;
	case HTTP_BAD:
		refuse_head(h, c, head->status, head->why);
		return;
	case HTTP_DONE:
		if (own != NULL)
			c->carried->head = NULL;
		serve_head(h, c, head);
		free(own);
		return;
	}
}

/* The next head, or more of it, if that is there.  False: not now. */
static bool
step_at_head(struct http *h, struct conn *c)
{
	bool partial = c->carried != NULL && c->carried->head != NULL;

	if ((h->look.len == 0 || partial) && !look_read(h, HEAD_READ_BYTES))
		return false;
	if (c->verdict == CONN_FINE)
		scan_head(h, c);
	else
		refuse_client(h, c);
	return true;
}

/* Each connection has one request in a turn of the loop, and more while the turn has some for all. */
static bool
may_step(struct http *h, const struct conn *c, unsigned done)
{
	if (done == STEPS_MAX || (c->state != CONN_REST && c->state != CONN_BODY))
		return false;
	if (done == 0 || c->state == CONN_BODY || h->look.len == 0)
		return true;
	return h->heads_left > 0 && h->heads_left-- > 0;
}

void
http_serve(struct http *h, struct conn *c)
{
	unsigned steps = 0;
	bool more = true;

	look_begin(h, c);
	while (more && h->look.conn != NULL && may_step(h, c, steps++))
		more = c->state == CONN_REST ? step_at_head(h, c) : step_in_body(h, c);
	if (look_done(h) && more && (c->carried != NULL || c->more) && (c->state == CONN_REST || c->state == CONN_BODY))
		conn_wake(c);
}
