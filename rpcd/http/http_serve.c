/*
 * Requests.  Each head is scanned while it is still in the socket (MSG_PEEK), or most of it, see take_pieces(); so is
 * what comes in chunks, and a body that is taken as it comes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "rpcd/http/http_int.h"

#define SPARE_REQUESTS_MAX 256		/* kept for reuse */
#define BODY_READS_MAX 16		/* of one connection, before others have their turn */
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
	x->begun = x->waiting = x->close_after = x->chunked = x->feeds = x->may_stream = x->streams = x->last =
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

void
http_forget(struct http *h, size_t n)
{
	explicit_bzero(h->peek, n);
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
	x->chunked = head->framing == HTTP_CHUNKED;
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

/* False: no more of it is to be read. */
static bool
take_body(struct http *h, struct conn *c, const uint8_t *bytes, size_t n)
{
	struct exchange *x = c->x;

	if (!exchange_body(x, bytes, n)) {
		conn_end(h, c);
		return false;
	}
	if (c->state != CONN_BODY)
		return false;		/* beyond the budget */
	if (x->chunked || x->req.body_bytes < x->req.head.body_announced)
		return true;
	complete(h, x);
	return false;
}

static void
refuse_chunks(struct http *h, struct exchange *x)
{
	h->stats.malformed++;
	x->close_after = true;
	x->req.running = true;
	if (!x->req.answered)
		answer_text(&x->req, 400, "400 Bad Request: %s", x->chunks.why);
	x->req.running = false;
	http_send_now(x);
}

/*
 * A part of a body that is taken as it comes: how much of it was taken.  If that is not all, its rest stays in the
 * socket, and its client waits, until on_ready().
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

/* Takes these bytes, which are at h->peek, out of the socket.  False: the connection has ended. */
static bool
consume(struct http *h, struct conn *c, size_t n)
{
	if (n == 0 || stream_socket_read(c->fd, h->peek, n, false) == (ssize_t)n)
		return true;
	conn_end(h, c);
	return false;
}

/* n bytes that are still in the socket.  False: no more is to be read now. */
static bool
take_fed(struct http *h, struct conn *c, size_t n)
{
	struct exchange *x = c->x;
	size_t took = feed_body(x, h->peek, n);

	if (!consume(h, c, took))
		return false;
	if (x->req.body_bytes < x->req.head.body_announced)
		return took == n;
	complete(h, x);
	return false;
}

/*
 * A piece of data in a chunk, which the scanner has found behind `before`.  False: it is not taken whole, and the
 * scanner stands at what was not; *took: up to there.
 */
static bool
take_piece(struct exchange *x, const struct http_chunks *before, const uint8_t *at, struct span data, size_t *took)
{
	size_t fed = feed_body(x, data.p, data.len), up_to = (size_t)(data.p - at) + fed;

	if (fed == data.len)
		return true;
	x->chunks = *before;
	(void)http_chunks_scan(&x->chunks, at, up_to, took, &data);
	return false;
}

/* n bytes that are still in the socket.  False: no more is to be read now. */
static bool
take_chunks(struct http *h, struct conn *c, size_t n)
{
	struct exchange *x = c->x;
	enum http_scanned s = HTTP_MORE;
	bool all = true;		/* was taken */
	size_t at = 0;

	while (at < n && s == HTTP_MORE && all) {
		struct http_chunks before = x->chunks;
		struct span data;
		size_t took;

		s = http_chunks_scan(&x->chunks, h->peek + at, n - at, &took, &data);
		if (data.len > 0 && x->feeds && is_endless(x)) {
			conn_end(h, c);
			return false;
		}
		if (data.len > 0 && x->feeds)
			all = take_piece(x, &before, h->peek + at, data, &took);
		else if (data.len > 0 && !take_body(h, c, data.p, data.len))
			return false;
		at += took;
	}
	if (s == HTTP_BAD) {
		refuse_chunks(h, x);
		return false;
	}
	if (!consume(h, c, at))
		return false;
	if (s == HTTP_MORE || !all)
		return all;
	c->more = c->more || n > at || n == h->peek_cap;
	complete(h, x);
	return false;
}

static size_t
body_want(const struct http *h, const struct exchange *x)
{
	uint64_t left = x->req.head.body_announced - x->req.body_bytes;

	return x->chunked || left > h->peek_cap ? h->peek_cap : (size_t)left;
}

/* n bytes that are in h->peek.  False: no more of the body is to be read. */
static bool
take_part(struct http *h, struct conn *c, size_t n)
{
	bool more = c->x->chunked ? take_chunks(h, c, n) : c->x->feeds ? take_fed(h, c, n) :
	    take_body(h, c, h->peek, n);

	http_forget(h, n);
	return more;
}

/* More of the body has come, or the client has gone. */
static void
receive_body(struct http *h, struct conn *c)
{
	for (unsigned i = 0; i < BODY_READS_MAX; i++) {
		size_t want = body_want(h, c->x);
		ssize_t n = stream_socket_read(c->fd, h->peek, want, c->x->chunked || c->x->feeds);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			conn_end(h, c);
			return;
		}
		c->more = (size_t)n == want || c->ended;
		if (!take_part(h, c, (size_t)n))
			return;
		if ((size_t)n < want && !c->ended)
			return;		/* what comes is told of */
	}
	if (!conn_watch(h, c, false, EPOLLIN))
		conn_end(h, c);
}

/* -- reading heads ------------------------------------------------------------------ */

/* The client waits for our word before it sends the body. */
static bool
say_continue(const struct conn *c)
{
	static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";

	struct iovec part = { (void *)(uintptr_t)text, sizeof(text) - 1 };

	return stream_socket_write(c->fd, &part, 1) == (ssize_t)part.iov_len;
}

/* Its head was copied; of the n bytes in h->peek all but the first `taken` are still in the socket. */
static void
begin_request(struct http *h, struct exchange *x, const struct http_head *head, size_t n, size_t taken)
{
	struct conn *c = x->conn;
	bool wanted = exchange_begin(x);
	size_t left = head->len - taken, body = n - head->len;

	if (x->chunked || x->feeds)
		body = 0;		/* they stay until their end is known, or until they are taken */
	else if (body > x->req.head.body_announced)
		body = (size_t)x->req.head.body_announced;
	c->x = x;
	c->more = c->ended || n > head->len + body || n == h->peek_cap;
	if (stream_socket_read(c->fd, h->peek + taken, left + body, false) != (ssize_t)(left + body)) {
		conn_end(h, c);
	} else if (!wanted) {
		run_request(h, x);
	} else if (!x->chunked && x->req.head.body_announced == 0) {
		complete(h, x);
	} else {
		conn_set(c, CONN_BODY);
		if (x->chunked)
			http_chunks_begin(&x->chunks, h->conf.conf->header_bytes_max);
		if (n == head->len && !c->more && head->expects && head->minor > 0 && !say_continue(c))
			conn_end(h, c);
		else if (body > 0 && !take_body(h, c, h->peek + head->len, body))
			return;
		else if (c->more)
			receive_body(h, c);
	}
}

/* A whole head; of the n bytes in h->peek all but the first `taken` are still in the socket. */
static void
serve_head(struct http *h, struct conn *c, const struct http_head *head, size_t n, size_t taken)
{
	struct exchange *x = exchange_new(h);
	const char *why;

	if (x == NULL) {
		conn_end(h, c);
		return;
	}
	x->conn = c;
	why = take_head(x, head, h->peek);
	if (why == NULL) {
		begin_request(h, x, head, n, taken);
		return;
	}
	exchange_end(x);
	if (why[0] != '\0')
		refuse_head(h, c, 400, why);
	else
		conn_end(h, c);
}

void
partial_free(struct partial *p)
{
	if (p == NULL)
		return;
	buf_done(&p->taken);
	free(p);
}

/* A unix socket holds only some dozens of pieces, however short: they are taken out. */
static bool
take_pieces(struct http *h, struct conn *c, size_t n)
{
	struct partial *p = c->partial;
	uint8_t *fresh = h->peek + p->taken.len;
	size_t len = n - p->taken.len;

	if (!c->listener->is_unix)
		return true;
	buf_put(&p->taken, fresh, len);
	return !p->taken.failed && stream_socket_read(c->fd, fresh, len, false) == (ssize_t)len;
}

/* A head of which n bytes have come: its rest wakes us. */
static void
keep_head(struct http *h, struct conn *c, const struct http_head *head, size_t n)
{
	if (!c->ended && c->partial == NULL && (c->partial = malloc(sizeof(*c->partial))) != NULL) {
		c->partial->head = *head;
		buf_init(&c->partial->taken, h->conf.conf->header_bytes_max);
		c->partial->taken.secret = true;	/* a token */
	}
	if (c->ended || c->partial == NULL || !take_pieces(h, c, n))
		conn_end(h, c);
}

/* What has come of the next request, into h->peek; false: nothing new, or the connection has ended. */
static bool
peek(struct http *h, struct conn *c, size_t taken, size_t *n)
{
	ssize_t got = stream_socket_read(c->fd, h->peek + taken, h->peek_cap - taken, true);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (got <= 0) {
		conn_end(h, c);
		return false;
	}
	if (taken > 0)
		memcpy(h->peek, c->partial->taken.data, taken);
	*n = taken + (size_t)got;
	return true;
}

/* n bytes that are in h->peek: the first `taken` of them are no longer in the socket. */
static void
look_at(struct http *h, struct conn *c, size_t n, size_t taken)
{
	struct partial *own = c->partial;
	struct http_head *head = own != NULL ? &own->head : &h->head;

	if (c->verdict != CONN_FINE) {
		if (c->verdict == CONN_BUSY)
			refuse(h, c, 429, busy_text);
		else
			refuse(h, c, 403, "Permission denied");
		return;
	}
	if (own == NULL)
		http_head_begin(head, h->conf.conf->header_bytes_max);
	switch (http_head_scan(head, h->peek, n)) {
	case HTTP_MORE:
		keep_head(h, c, head, n);
		return;
	case HTTP_BAD:
		refuse_head(h, c, head->status, head->why);
		return;
	case HTTP_DONE:
		c->partial = NULL;
		serve_head(h, c, head, n, taken);
		partial_free(own);
		return;
	}
}

static void
look_at_socket(struct http *h, struct conn *c)
{
	size_t taken = c->partial != NULL ? c->partial->taken.len : 0, n;

	if (!peek(h, c, taken, &n))
		return;
	look_at(h, c, n, taken);
	http_forget(h, n);
}

void
http_serve_event(struct http *h, struct conn *c, uint32_t events)
{
	c->ended = c->ended || (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
	switch (c->state) {
	case CONN_REST:
		look_at_socket(h, c);
		return;
	case CONN_BODY:
		receive_body(h, c);
		return;
	case CONN_WAIT:
		c->more = true;		/* the next request; it has to wait */
		if (exchange_waits_long(c->x) && c->ended)
			conn_end(h, c);	/* the client left */
		return;
	default:
		return;
	}
}
