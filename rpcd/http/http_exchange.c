/*
 * Exchanges: a request and its answer, whatever carries them (struct carrier): a connection of HTTP/1.1, or a stream of
 * HTTP/2.
 */
#include <stdlib.h>
#include <string.h>

#include "rpcd/api/park.h"
#include "rpcd/http/http_int.h"

#define SPARE_REQUESTS_MAX 256		/* kept for reuse */
#define FEED_BYTES 262144		/* that a client has to send of a long body to be given more time */
#define FREE_BODY_BYTES 4096		/* a body that is no longer is taken whatever others hold */

static const char bodies_text[] =
    "too many bodies of requests are being received (limits.bodies_bytes_max in rpcd.conf); try again\n";

/* -- exchanges ------------------------------------------------------------ */

static struct request *
request_new(struct http *h)
{
	struct request *r = h->spare_requests;

	if (r == NULL) {
		r = calloc(1, sizeof(*r));
		if (r != NULL)
			request_reset(r);
		return r;
	}
	h->spare_requests = r->next;
	h->spare_request_count--;
	return r;
}

static void
request_free(struct http *h, struct request *r)
{
	if (r == NULL)
		return;
	if (h->spare_request_count == SPARE_REQUESTS_MAX || h->stopping) {
		request_done(r);
		free(r);
		return;
	}
	request_reset(r);
	r->next = h->spare_requests;
	h->spare_requests = r;
	h->spare_request_count++;
}

/* With its request, which is as request_reset() leaves it.  NULL: no memory. */
static struct exchange *
spare_or_new(struct http *h)
{
	struct exchange *x = h->spare;

	if (x != NULL) {
		h->spare = x->next;
		h->spare_count--;
		return x;
	}
	x = calloc(1, sizeof(*x));
	if (x != NULL && (x->req = request_new(h)) == NULL) {
		free(x);
		return NULL;
	}
	return x;
}

struct exchange *
exchange_new(struct http *h, const struct carrier *by, struct conn *c)
{
	struct exchange *x = spare_or_new(h);

	if (x == NULL)
		return NULL;
	*x = (struct exchange){ .req = x->req, .http = h, .by = by, .conn = c, .phase = EXCHANGE_BODY };
	return x;
}

void
exchange_free_spares(struct http *h)
{
	struct exchange *x;
	struct request *r;

	while ((x = h->spare) != NULL) {
		h->spare = x->next;
		request_done(x->req);
		free(x->req);
		free(x);
	}
	while ((r = h->spare_requests) != NULL) {
		h->spare_requests = r->next;
		request_done(r);
		free(r);
	}
}

/* Its client has gone while it was parked. */
static void
end_parked(struct exchange *x)
{
	if (!exchange_unpark(x)) {
		api_park_drop(x->parked);
		x->parked = NULL;
		x->begun = false;
	}
}

/* The request is over, and what it was is told to logs and accounts. */
static void
end_request(struct exchange *x)
{
	if (x->parked != NULL)
		end_parked(x);
	if (x->begun)
		api_end(x->req);
	x->begun = false;
}

void
exchange_end_request(struct exchange *x)
{
	end_request(x);
	request_free(x->http, x->req);
	x->req = NULL;
}

void
exchange_end(struct exchange *x)
{
	struct http *h = x->http;

	exchange_release_body(x);
	if (x->waiting)
		h->stats.waiting--;
	end_request(x);
	if (x->req == NULL || h->spare_count == SPARE_REQUESTS_MAX || h->stopping) {
		request_free(h, x->req);
		free(x);
		return;
	}
	request_reset(x->req);
	x->next = h->spare;
	h->spare = x;
	h->spare_count++;
}

bool
exchange_waits_long(const struct exchange *x)
{
	return x->req == NULL || x->req->op.index > 0 || x->req->cancel != NULL;
}

static void
on_ready(struct request *r)
{
	struct exchange *x = r->transport;

	if (x->phase == EXCHANGE_STREAM)
		x->by->wake(x);
	else if (x->phase == EXCHANGE_BODY && x->feeds && !x->http->stopping) {
		x->by->await(x);
		x->by->wake(x);		/* it takes more, or has failed: then the answer waits for the body's end */
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

		if (x->phase != EXCHANGE_BODY || x->req->answered || x->req->body.len <= FREE_BODY_BYTES)
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
	uint64_t now = x->req->body.len > 0 ? x->req->body.cap : 0;

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
	if (x->req == NULL)
		return;
	buf_reset(&x->req->body);
	if (x->held > 0)
		body_count(x);
}

static void
make_room(struct http *h)
{
	struct exchange *x;

	while (h->stats.bodies_bytes > h->conf.conf->bodies_bytes_max && (x = most_greedy(h)) != NULL) {
		h->stats.refused_bodies++;
		buf_done(&x->req->body);
		body_count(x);
		x->close_after = true;
		answer_text(x->req, 503, "%s", bodies_text);	/* sent in its turn */
	}
}

bool
exchange_is_endless(const struct exchange *x)
{
	return x->req->body_bytes > x->http->conf.conf->body_discard_max && x->req->body_bytes > x->req->body_max;
}

bool
exchange_body(struct exchange *x, const void *bytes, size_t n)
{
	struct request *r = x->req;

	if (exchange_is_endless(x))
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

	x->req->head.host = arena_cstr(&x->req->arena, http_part(copy, head->host));
	x->req->head.target = arena_printf(&x->req->arena, "%s%.*s", rooted ? "" : "/", (int)path.len,
	    (const char *)path.p);
	return x->req->head.host != NULL && x->req->head.target.p != NULL;
}

void
exchange_take_client(struct exchange *x)
{
	const struct conn *c = x->conn;

	x->req->head.on_loopback = c->loopback;
	x->req->head.on_socket = c->listener->is_unix;
	x->req->head.uid = c->listener->is_unix ? http_peer_uid(c->fd) : -1;
	x->req->head.on_tls = c->tls != NULL;
	x->req->head.peer_san = c->tls == NULL ? NULL : tls_peer_san(c->tls);
	x->req->head.client_ip = NULL;
	if (c->place.source == NULL)
		return;
	x->req->head.client_ip = addr_ip(&c->from, x->req->ip);
}

void
exchange_keep_client(struct exchange *x)
{
	struct request *r = x->req;

	if (r != NULL && r->head.peer_san != NULL)
		r->head.peer_san = arena_cstr(&r->arena, span_str(r->head.peer_san));
}

const char *
exchange_take_head(struct exchange *x, const struct http_head *head, const uint8_t *bytes)
{
	struct request_head *to = &x->req->head;
	struct span whole = arena_copy(&x->req->arena, span_of(bytes, head->len));
	uint8_t *copy = (uint8_t *)(uintptr_t)whole.p;

	if (copy == NULL)
		return "";
	*to = (struct request_head){ .body_announced = head->framing == HTTP_LENGTH ? head->length : 0 };
	exchange_take_client(x);
	if (head->framing == HTTP_CHUNKED && x->by == &conn_carrier) {
		x->chunks = arena_alloc(&x->req->arena, sizeof(*x->chunks));
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
	struct request *r = x->req;
	uint64_t announced = r->head.body_announced;

	if (announced > 0 || x->chunks != NULL || x->by != &conn_carrier)	/* else it runs at once */
		x->by->await(x);
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
	return false;
}

/* It waits for one reply of the router, and answers with that: no stream, and nothing else of its own under way. */
static bool
asks_the_router(const struct request *r)
{
	return r->op.index > 0 && (r->call != NULL || r->cached != NULL) && r->cancel == NULL && r->state == NULL &&
	    r->feed == NULL && strcmp(r->head.method, "GET") == 0;
}

bool
exchange_unpark(struct exchange *x)
{
	struct request *r = request_new(x->http);

	if (r == NULL)
		return false;
	x->req = r;
	exchange_take_client(x);
	r->ready = on_ready;
	r->again = http_send_again;
	if (!api_unpark(x->parked, r)) {
		request_free(x->http, r);
		x->req = NULL;
		return false;
	}
	x->parked = NULL;
	return true;
}

/* The reply is there, or rpcd stops. */
static struct request *
resume(void *transport)
{
	struct exchange *x = transport;

	if (exchange_unpark(x))
		return x->req;
	end_parked(x);
	http_send_lost(x);
	return NULL;
}

/* Others use the request meanwhile. */
static void
park(struct exchange *x)
{
	x->parked = api_park(x->req, resume);
	if (x->parked == NULL)
		return;
	request_free(x->http, x->req);
	x->req = NULL;
}

static void
await_answer(struct exchange *x)
{
	struct http *h = x->http;

	x->phase = EXCHANGE_WAIT;
	if (!x->by->waits(x) || !exchange_waits_long(x))
		return;
	x->waiting = !x->may_stream;
	h->stats.waiting += x->waiting;
	if (asks_the_router(x->req) && api_fold(x->req))
		x->req->again = http_send_again;
	body_count(x);
	park(x);
}

void
exchange_run(struct exchange *x)
{
	if (!x->req->answered)
		api_run(x->req);
	x->by->await_us(x);
	if (x->req->answered)
		http_send_now(x);
	else
		await_answer(x);
}

void
exchange_refuse(struct exchange *x, unsigned status, const char *text)
{
	x->close_after = true;
	x->req->head.method = "GET";
	x->req->running = true;		/* it is sent here */
	answer_text(x->req, status, "%s", text);
	exchange_take_client(x);
	request_log(x->req, MONO_ZERO);	/* api_end() is not called for it */
	http_send_now(x);
}

size_t
exchange_feed(struct exchange *x, const uint8_t *bytes, size_t n)
{
	struct request *r = x->req;
	bool was_answered = r->answered;
	size_t took = n;

	if (r->feed != NULL && !r->answered) {
		r->running = true;
		took = r->feed(r, bytes, n);
		r->running = false;
	}
	if (r->answered)
		took = n;		/* dropped: the answer waits for the body's end */
	r->body_bytes += took;
	x->passed += took;
	if (took < n) {
		x->by->await_us(x);
		x->passed = 0;
	} else if (x->passed >= FEED_BYTES || r->answered != was_answered) {
		x->by->await(x);
		x->passed = 0;
	}
	return took;
}

void
exchange_drop(struct exchange *x)
{
	if (x->phase != EXCHANGE_READY) {
		exchange_end(x);
		return;
	}
	exchange_release_body(x);
	exchange_keep_client(x);
	x->by = &gone_carrier;
}
