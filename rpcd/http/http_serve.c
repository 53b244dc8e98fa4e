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

#define SPARE_REQUESTS_MAX 256		/* kept for reuse */
#define STEPS_MAX 32			/* heads and parts of bodies of one connection, before others have their turn */
#define HEAD_READ_BYTES 16384		/* at most at once, while a head is expected */
#define FEED_BYTES 262144		/* that a client has to send of a long body to be given more time */
#define FREE_BODY_BYTES 4096		/* a body that is no longer is taken whatever others hold */

static const char busy_text[] =
    "Your IP is issuing too many concurrent connections, please rate limit your calls\n";
static const char bodies_text[] =
    "too many bodies of requests are being received (limits.bodies_bytes_max in rpcd.conf); try again\n";

/* -- exchanges ------------------------------------------------------------ */

struct exchange *
exchange_new(struct http *h)
{
	struct exchange *x = (struct exchange *)(void *)h->spare;

	if (x != NULL) {
		h->spare = x->req.next;
		h->spare_count--;
	} else {
		x = calloc(1, sizeof(*x));
		if (x == NULL)
			return NULL;
	}
	request_reset(&x->req);
	x->http = h;
	x->conn = NULL;
	x->chunks = NULL;
	x->begun = x->waiting = x->close_after = x->feeds = x->may_stream = x->streams = x->last =
	    x->old = false;
	x->passed = 0;
	return x;
}

void
exchange_free_spares(struct http *h)
{
	while (h->spare != NULL) {
		struct exchange *x = (struct exchange *)(void *)h->spare;

		h->spare = x->req.next;
		request_done(&x->req);
		free(x);
	}
}

void
exchange_end(struct exchange *x)
{
	struct http *h = x->http;

	exchange_release_body(x);
	if (x->waiting)
		h->stats.waiting--;
	if (x->begun)
		api_end(&x->req);
	if (h->spare_count == SPARE_REQUESTS_MAX || h->stopping) {
		request_done(&x->req);
		free(x);
		return;
	}
	request_reset(&x->req);
	x->req.next = h->spare;
	h->spare = &x->req;
	h->spare_count++;
}

bool
exchange_waits_long(const struct exchange *x)
{
	return x->req.op.index > 0 || x->req.cancel != NULL;
}

static void
on_ready(struct request *r)
{
	struct exchange *x = r->transport;

	if (x->conn->state == CONN_STREAM && x->http->stopping && r->stream == NULL) {
		http_send_more(x->http, x->conn);	/* its end, and that of r: the loop does not run on */
	} else if (x->conn->state == CONN_STREAM) {
		conn_wake(x->conn);
	} else if (x->conn->state == CONN_BODY && x->feeds && !x->http->stopping) {
		conn_await(x->http, x->conn, 0);
		conn_set(x->conn, CONN_BODY);
		conn_wake(x->conn);	/* it takes more, or has failed: then the answer waits for the body's end */
	} else {
		http_send_later(x);
	}
}

/* -- bodies ----------------------------------------------------------------- */

/* The client that holds most gives first, and of its bodies the oldest: others are served while one floods. */
static struct exchange *
most_greedy(struct http *h)
{
	struct exchange *x, *found = NULL;
	uint64_t most = 0;

	TAILQ_FOREACH(x, &h->bodies, body) {
		uint64_t bytes = x->conn->place.source == NULL ? 0 : x->conn->place.source->held;

		if (x->conn->state != CONN_BODY || x->req.answered || x->req.body.len <= FREE_BODY_BYTES)
			continue;
		if (found == NULL || bytes > most) {
			found = x;
			most = bytes;
		}
	}
	return found;
}

/* The bytes of its body are counted anew. */
static void
body_count(struct exchange *x)
{
	struct http *h = x->http;
	uint64_t now = x->req.body.len > 0 ? x->req.body.cap : 0;

	if (now == x->held)
		return;
	if (x->held == 0)
		TAILQ_INSERT_TAIL(&h->bodies, x, body);
	else if (now == 0)
		TAILQ_REMOVE(&h->bodies, x, body);
	h->stats.bodies_bytes += now - x->held;
	if (x->conn->place.source != NULL)
		x->conn->place.source->held += now - x->held;
	x->held = now;
}

void
exchange_release_body(struct exchange *x)
{
	buf_reset(&x->req.body);
	if (x->held > 0)
		body_count(x);
}

static void
make_room(struct http *h)
{
	struct exchange *x;

	while (h->stats.bodies_bytes > h->conf.conf->bodies_bytes_max && (x = most_greedy(h)) != NULL) {
		h->stats.refused_bodies++;
		buf_done(&x->req.body);
		body_count(x);
		x->close_after = true;
		answer_text(&x->req, 503, "%s", bodies_text);	/* sent in its turn */
	}
}

/* It has no announced length, and no end in sight. */
static bool
is_endless(const struct exchange *x)
{
	return x->req.body_bytes > x->http->conf.conf->body_discard_max && x->req.body_bytes > x->req.body_max;
}

bool
exchange_body(struct exchange *x, const void *bytes, size_t n)
{
	struct request *r = &x->req;

	if (is_endless(x))
		return false;
	request_body(r, bytes, n);
	body_count(x);
	make_room(x->http);
	return true;
}

/* -- heads -------------------------------------------------------------------- */

/* Fields that mean something to us besides those that http_scan.c reads. */
static const struct {
	const char *name;		/* lower case */
	size_t at;			/* in struct request_head */
	bool once;			/* two of them: a proxy before us may have believed the other */
} known_fields[] = {
	{ "accept", offsetof(struct request_head, accept), false },
	{ "accept-encoding", offsetof(struct request_head, accept_encoding), false },
	{ "authorization", offsetof(struct request_head, authorization), true },
	{ "cache-control", offsetof(struct request_head, cache_control), false },
	{ "origin", offsetof(struct request_head, origin), true },
	{ "sec-fetch-site", offsetof(struct request_head, fetch_site), true },
	{ "x-consul-namespace", offsetof(struct request_head, tenant_namespace), true },
	{ "x-consul-partition", offsetof(struct request_head, tenant_partition), true },
	{ "x-consul-token", offsetof(struct request_head, token), true },
};

/* Ends the part with a NUL, where a space or the end of a line was. */
static const char *
text_of(uint8_t *copy, struct http_part p)
{
	copy[p.at + p.len] = '\0';
	return (const char *)copy + p.at;
}

static bool
take_fields(struct request_head *to, const struct http_head *head, uint8_t *copy)
{
	for (size_t i = 0; i < sizeof(known_fields) / sizeof(known_fields[0]); i++) {
		const struct http_field *f = http_head_find(head, copy, known_fields[i].name);

		if (f == NULL)
			continue;
		if (known_fields[i].once && http_head_count(head, copy, known_fields[i].name) > 1)
			return false;
		*(const char **)(void *)((char *)to + known_fields[i].at) = text_of(copy, f->value);
	}
	return true;
}

/* The path of "http://host/path"; its host ends where the path begins. */
static bool
take_absolute(struct exchange *x, const struct http_head *head, const uint8_t *copy)
{
	struct span path = http_part(copy, head->target);
	bool rooted = path.len > 0 && path.p[0] == '/';

	x->req.head.host = arena_cstr(&x->req.arena, http_part(copy, head->host));
	x->req.head.target = arena_printf(&x->req.arena, "%s%.*s", rooted ? "" : "/", (int)path.len,
	    (const char *)path.p);
	return x->req.head.host != NULL && x->req.head.target.p != NULL;
}

static void
take_client(struct exchange *x, const struct conn *c)
{
	x->req.head.on_loopback = c->loopback;
	x->req.head.on_socket = c->listener->is_unix;
	x->req.head.uid = c->listener->is_unix ? http_peer_uid(c->fd) : -1;
	x->req.head.client_ip = NULL;
	if (c->place.source == NULL)
		return;
	x->req.head.client_ip = addr_ip(&c->from, x->ip);
}

/* Copies what the request needs of its head.  NULL: all is well; else why not, "" without memory. */
static const char *
take_head(struct exchange *x, const struct http_head *head, const uint8_t *bytes)
{
	struct request_head *to = &x->req.head;
	struct span whole = arena_copy(&x->req.arena, span_of(bytes, head->len));
	uint8_t *copy = (uint8_t *)(uintptr_t)whole.p;

	if (copy == NULL)
		return "";
	*to = (struct request_head){ .body_announced = head->framing == HTTP_LENGTH ? head->length : 0 };
	take_client(x, x->conn);
	if (head->framing == HTTP_CHUNKED) {
		x->chunks = arena_alloc(&x->req.arena, sizeof(*x->chunks));
		if (x->chunks == NULL)
			return "";
		http_chunks_begin(x->chunks, x->http->conf.conf->header_bytes_max);
	}
	x->expects = head->expects;
	x->old = head->minor == 0;
	x->keep = head->close ? HEAD_CLOSE : head->minor > 0 ? HEAD_KEEP : head->keep_alive ? HEAD_KEEP_10 : HEAD_CLOSE;
	to->target = http_part(copy, head->target);
	if (head->form == HTTP_ABSOLUTE && !take_absolute(x, head, copy))
		return "";
	if (!take_fields(to, head, copy))
		return "a header that may occur once occurs twice";
	if (head->form != HTTP_ABSOLUTE && head->has_host)
		to->host = text_of(copy, head->host);
	to->method = text_of(copy, head->method);
	return NULL;
}

bool
exchange_begin(struct exchange *x)
{
	struct http *h = x->http;
	struct request *r = &x->req;
	uint64_t announced = r->head.body_announced;

	conn_await(h, x->conn, 0);
	r->ready = on_ready;
	r->transport = x;
	api_begin(h->conf.api, r);
	x->begun = true;
	x->feeds = r->endpoint != NULL && r->endpoint->body == BODY_STREAM;
	x->may_stream = x->feeds || (r->endpoint != NULL && r->endpoint->body == BODY_NONE_LIVE);
	if (announced == 0 || (!r->answered && announced <= r->body_max) ||
	    (!x->expects && announced <= h->conf.conf->body_discard_max))
		return true;
	r->body_bytes = announced;	/* not read, but that is what the answer speaks of */
	x->close_after = true;
	if (!r->answered)
		api_run(r);
	return false;
}

/* -- answering ------------------------------------------------------------------ */

/* It waits for one reply of the router, and answers with that: no stream, and nothing else of its own under way. */
static bool
asks_the_router(const struct request *r)
{
	return r->op.index > 0 && (r->call != NULL || r->cached != NULL) && r->cancel == NULL && r->state == NULL &&
	    r->feed == NULL && strcmp(r->head.method, "GET") == 0;
}

static void
await_answer(struct http *h, struct exchange *x)
{
	struct conn *c = x->conn;

	conn_set(c, CONN_WAIT);
	if (!exchange_waits_long(x))
		return;
	if (c->ended) {
		conn_end(h, c);		/* no client waits */
		return;
	}
	x->waiting = !x->may_stream;
	h->stats.waiting += x->waiting;
	if (asks_the_router(&x->req) && api_fold(&x->req))
		x->req.again = http_send_again;
	body_count(x);
}

/* The request is complete, or needs no more. */
static void
run_request(struct http *h, struct exchange *x)
{
	conn_await_us(x->conn);
	if (x->req.answered)
		http_send_now(x);
	else
		await_answer(h, x);
}

static void
complete(struct http *h, struct exchange *x)
{
	if (!x->req.answered)
		api_run(&x->req);
	run_request(h, x);
}

/* An answer that needs no API; the connection ends with it. */
static void
refuse(struct http *h, struct conn *c, unsigned status, const char *text)
{
	struct exchange *x = exchange_new(h);

	if (x == NULL) {
		conn_end(h, c);
		return;
	}
	x->conn = c;
	c->x = x;
	x->close_after = true;
	x->req.head.method = "GET";
	x->req.running = true;		/* it is sent here */
	answer_text(&x->req, status, "%s", text);
	take_client(x, c);
	request_log(&x->req, MONO_ZERO);	/* api_end() is not called for it */
	http_send_now(x);
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
	else if (c->state == CONN_BODY && x->chunks == NULL && x->req.body_bytes == x->req.head.body_announced)
		complete(h, x);
}

static void
refuse_chunks(struct http *h, struct exchange *x)
{
	h->stats.malformed++;
	x->close_after = true;
	x->req.running = true;
	if (!x->req.answered)
		answer_text(&x->req, 400, "400 Bad Request: %s", x->chunks->why);
	x->req.running = false;
	http_send_now(x);
}

/*
 * A part of a body that is taken as it comes: how much of it was taken.  If that is not all, its rest is carried
 * over, and its client waits, until on_ready().
 */
static size_t
feed_body(struct exchange *x, const uint8_t *bytes, size_t n)
{
	struct request *r = &x->req;
	size_t took = n;

	if (r->feed != NULL && !r->answered) {
		r->running = true;
		took = r->feed(r, bytes, n);
		r->running = false;
	}
	if (r->answered) {
		took = n;		/* dropped: the answer waits for the body's end */
		conn_set(x->conn, CONN_BODY);
	}
	r->body_bytes += took;
	x->passed += took;
	if (took < n) {
		conn_await_us(x->conn);
		x->passed = 0;
	} else if (x->passed >= FEED_BYTES) {
		conn_await(x->http, x->conn, 0);
		x->passed = 0;
	}
	return took;
}

/*
 * A piece of data in a chunk, which the scanner has found behind `before`.  False: it is not taken whole, and the
 * scanner stands at what was not; *took: up to there.
 */
static bool
feed_chunk(struct exchange *x, const struct http_chunks *before, const uint8_t *at, struct span data, size_t *took)
{
	size_t fed = feed_body(x, data.p, data.len), up_to = (size_t)(data.p - at) + fed;

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
	if (data.len > 0 && x->feeds && is_endless(x)) {
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
		complete(h, x);
	return all;
}

/* Of a body by its length what is there.  False: not all of it is taken now. */
static bool
take_part(struct http *h, struct conn *c)
{
	struct exchange *x = c->x;
	uint64_t left = x->req.head.body_announced - x->req.body_bytes;
	struct span part = span_of(h->look.bytes, h->look.len < left ? h->look.len : (size_t)left);
	size_t took = part.len;

	if (x->feeds)
		took = feed_body(x, part.p, part.len);
	look_take(h, took);
	if (!x->feeds)
		take_body(h, c, part);
	else if (x->req.body_bytes == x->req.head.body_announced)
		complete(h, x);
	return took == part.len;
}

static size_t
body_want(const struct http *h, const struct exchange *x)
{
	uint64_t left = x->req.head.body_announced - x->req.body_bytes;

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
		run_request(h, x);
		return;
	}
	if (x->chunks == NULL && x->req.head.body_announced == 0) {
		complete(h, x);
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
	struct exchange *x = exchange_new(h);
	const char *why;

	if (x == NULL) {
		conn_end(h, c);
		return;
	}
	x->conn = c;
	why = take_head(x, head, h->look.bytes);
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
		refuse(h, c, 429, busy_text);
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

void
http_serve(struct http *h, struct conn *c)
{
	unsigned steps = 0;
	bool more = true;

	look_begin(h, c);
	while (more && h->look.conn != NULL && steps++ < STEPS_MAX)
		more = c->state == CONN_REST ? step_at_head(h, c) : c->state == CONN_BODY && step_in_body(h, c);
	if (look_done(h) && more && (c->state == CONN_REST || c->state == CONN_BODY))
		conn_wake(c);
}
