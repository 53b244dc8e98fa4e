/* libmicrohttpd on libev. */
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/assert.h"
#include "common/log.h"
#include "rpcd/http_int.h"

#define SPARE_REQUESTS_MAX 256		/* kept for reuse */
#define REFUSED_TIMEOUT_S 5		/* for the one request of a connection that is one too many */
#define STREAM_BLOCK_BYTES 16384	/* of a stream at a time */
#define STREAM_BLOCK_BYTES_MAX 131072	/* of a long one whose end is known */
#define FEED_BYTES 262144		/* that a client has to send of a long body to be given more time */
#define STREAM_KEEP_IDLE_S 60
#define STREAM_KEEP_EVERY_S 15
#define STREAM_KEEP_COUNT 4
#define POOL_EXTRA_BYTES 4096
#define LOOKS_MAX 16			/* at a request that is not answered yet, before its connection is suspended */
#define LOOK_S 0.001
#define RUNS_MAX 4			/* of libmicrohttpd in a row, before others have their turn */

static const char busy_text[] =
    "Your IP is issuing too many concurrent connections, please rate limit your calls\n";

/* -- running libmicrohttpd ---------------------------------------------- */

/*
 * Before the next wait: is there work that no descriptor will announce, and when is the next timeout?  Requests that
 * wait are work in libmicrohttpd's eyes; they are looked at again when an answer came, and now and then.
 */
static void
plan(struct listener_http *l)
{
	struct ev_loop *loop = l->http->conf.loop;
	MHD_UNSIGNED_LONG_LONG ms;
	double after;

	if (MHD_get_timeout(l->daemon, &ms) != MHD_YES)
		return;
	if (ms > 0 && ev_is_active(&l->timer))
		return;			/* timeouts only move away: the timer is early at worst */
	after = ms > 0 ? (double)ms / 1000.0 : l->progress || l->waiting == 0 ? 0. : LOOK_S;
	ev_timer_stop(loop, &l->timer);
	ev_timer_set(&l->timer, after, 0.);
	ev_timer_start(loop, &l->timer);
}

/* A request takes several steps of libmicrohttpd; nothing else can happen between them. */
static void
run(struct listener_http *l)
{
	unsigned n = 0;

	do {
		l->progress = false;
		(void)MHD_run(l->daemon);	/* fails only for daemons that run by themselves */
	} while (l->progress && ++n < RUNS_MAX);
	plan(l);
}

static void
on_io(struct ev_loop *loop, ev_io *w, int events)
{
	(void)loop;
	(void)events;
	run(w->data);
}

static void
on_timer(struct ev_loop *loop, ev_timer *w, int events)
{
	(void)loop;
	(void)events;
	run(w->data);
}

/* -- exchanges ------------------------------------------------------------ */

static struct exchange *
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
	x->listener = NULL;
	x->mhd = NULL;
	x->conn = NULL;
	x->stage = EX_HEAD;
	x->begun = x->waiting = x->suspended = x->parked = x->gone_away = x->close_after = false;
	x->looks = 0;
	x->fed = 0;
	return x;
}

static void
exchange_free(struct exchange *x)
{
	struct http *h = x->http;

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

void
exchange_end(struct exchange *x)
{
	if (x->begun)
		api_end(&x->req);
	exchange_free(x);
}

static void
watch_stop(struct exchange *x)
{
	if (x->gone != NULL)
		ev_io_stop(x->http->conf.loop, x->gone);
	free(x->gone);
	x->gone = NULL;
}

/* Wakes the connection; its handler runs once more and finds the answer. */
static void
resume(struct exchange *x)
{
	if (x->parked) {
		http_park_ready(x);
		return;
	}
	if (x->suspended) {
		x->suspended = false;
		watch_stop(x);
		MHD_resume_connection(x->mhd);
	}
	/* After what runs now, and once for all that are resumed until then. */
	ev_feed_event(x->http->conf.loop, &x->listener->io, EV_READ);
}

static void
on_ready(struct request *r)
{
	resume(r->transport);
}

/* Readable while suspended: the client left, or it sends its next request already. */
static void
on_gone(struct ev_loop *loop, ev_io *w, int events)
{
	struct exchange *x = w->data;
	char byte;
	ssize_t n = recv(w->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	(void)events;
	if (n > 0) {
		ev_io_stop(loop, w);	/* still there; the next request has to wait */
		return;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	api_cancel(&x->req);
	x->gone_away = !x->req.answered;	/* a stream: its reader finds the end */
	resume(x);
}

static bool
waits_long(const struct exchange *x)
{
	return x->req.op.index > 0 || x->req.cancel != NULL;
}

static void
suspend(struct exchange *x)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

	x->suspended = true;
	MHD_suspend_connection(x->mhd);
	if (!waits_long(x) || info == NULL)
		return;			/* soon answered anyway: not worth two system calls */
	buf_done(&x->req.scratch);	/* what was asked is with the router; hundreds may wait */
	x->gone = malloc(sizeof(*x->gone));
	if (x->gone == NULL)
		return;
	ev_io_init(x->gone, on_gone, info->connect_fd, EV_READ);
	x->gone->data = x;
	ev_io_start(x->http->conf.loop, x->gone);
}

static void
set_waiting(struct exchange *x, bool waiting)
{
	if (x->waiting != waiting)
		x->listener->waiting += waiting ? 1 : -1u;
	x->waiting = waiting;
}

/*
 * The answer is not there yet.  Suspending and resuming cost four system calls, more than all the rest of a short
 * request: so libmicrohttpd first keeps asking for the answer whenever it runs.  MHD_NO: the connection is not
 * libmicrohttpd's any more.
 */
static enum MHD_Result
await_answer(struct exchange *x)
{
	if (!waits_long(x) && x->looks++ < LOOKS_MAX) {
		set_waiting(x, true);
		return MHD_YES;
	}
	set_waiting(x, false);
	if (http_park(x))
		return MHD_NO;
	suspend(x);
	return MHD_YES;
}

/* -- answers -------------------------------------------------------------- */

/* The client took what was there.  Until there is more the connection sleeps. */
static ssize_t
on_stream(void *cls, uint64_t at, char *dst, size_t max)
{
	struct exchange *x = cls;
	size_t n;

	(void)at;
	if (x->req.stream == NULL)
		return MHD_CONTENT_READER_END_OF_STREAM;
	n = x->req.stream(&x->req, dst, max);
	if (n == 0 && x->req.stream == NULL)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (n == 0)
		suspend(x);
	else
		x->listener->progress = true;
	if (x->req.stream_bytes > 0 && n > 0)
		conn_await(x->http, x->conn, n);
	else
		x->conn->deadline = 0;
	return (ssize_t)n;
}

/* A host that vanished is noticed within two minutes, even when there is nothing to send to it. */
static void
keep_alive(struct exchange *x)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
	const struct { int level, name, value; } opts[] = {
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, STREAM_KEEP_IDLE_S },
		{ IPPROTO_TCP, TCP_KEEPINTVL, STREAM_KEEP_EVERY_S },
		{ IPPROTO_TCP, TCP_KEEPCNT, STREAM_KEEP_COUNT },
	};

	/* On a unix socket they do not matter. */
	for (size_t i = 0; i < sizeof(opts) / sizeof(opts[0]) && info != NULL; i++)
		(void)setsockopt(info->connect_fd, opts[i].level, opts[i].name, &opts[i].value, sizeof(int));
}

/* Whoever reads a stream may take its time: it misses some, and keeps nobody else waiting. */
static struct MHD_Response *
stream_response(struct exchange *x)
{
	struct MHD_Response *response;

	keep_alive(x);
	(void)MHD_set_connection_option(x->mhd, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
	if (x->req.stream_bytes > 0) {
		response = MHD_create_response_from_callback(x->req.stream_bytes, STREAM_BLOCK_BYTES_MAX, on_stream, x,
		    NULL);
	} else {
		x->close_after = true;
		response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, on_stream, x, NULL);
	}
	if (response != NULL)
		replies_headers(x->http->replies, response, &x->req.answer, x->close_after);
	return response;
}

static enum MHD_Result
send_answer(struct exchange *x)
{
	struct replies *replies = x->http->replies;
	struct answer *a = &x->req.answer;
	bool streams = x->req.stream != NULL;
	struct MHD_Response *response = streams ? stream_response(x) :
	    replies_take(replies, a, x->req.op.index > 0, x->close_after || x->http->quiet);
	enum MHD_Result queued;

	set_waiting(x, false);
	x->listener->progress = true;
	if (response == NULL)
		return MHD_NO;
	x->stage = EX_SENT;
	if (x->conn != NULL && !streams)
		conn_await(x->http, x->conn, a->body.len);
	queued = MHD_queue_response(x->mhd, a->status, response);
	replies_done(replies, response);
	return queued;
}

/* -- requests -------------------------------------------------------------- */

/* Headers that mean something to us, in the order of header_names. */
enum header_id {
	H_ACCEPT_ENCODING, H_AUTHORIZATION, H_CACHE_CONTROL, H_CONNECTION, H_CONTENT_LENGTH, H_EXPECT, H_HOST, H_ORIGIN,
	H_FETCH_SITE, H_TRANSFER_ENCODING, H_TOKEN, H_COUNT
};

static const struct {
	const char *name;		/* lower case */
	bool once;			/* two of them: a proxy before us may have believed the other */
} header_names[H_COUNT] = {
	[H_ACCEPT_ENCODING] = { "accept-encoding", false },
	[H_AUTHORIZATION] = { "authorization", false },
	[H_CACHE_CONTROL] = { "cache-control", false },
	[H_CONNECTION] = { "connection", false },
	[H_CONTENT_LENGTH] = { "content-length", true },
	[H_EXPECT] = { "expect", false },
	[H_HOST] = { "host", true },
	[H_ORIGIN] = { "origin", true },
	[H_FETCH_SITE] = { "sec-fetch-site", true },
	[H_TRANSFER_ENCODING] = { "transfer-encoding", true },
	[H_TOKEN] = { "x-consul-token", false },
};

struct headers {
	const char *value[H_COUNT];	/* the first of that name, or NULL */
	bool close, keep;		/* tokens of Connection */
	bool bad;
};

/* A "token" of RFC 9110: no space before the colon, no control characters, not empty. */
static bool
is_token(const char *s)
{
	const char *p = s;

	while ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
	    (*p != '\0' && strchr("-_!#$%&'*+.^`|~", *p) != NULL))
		p++;
	return p != s && *p == '\0';
}

static enum MHD_Result
take_header(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct headers *h = cls;

	(void)kind;
	if (!is_token(name)) {
		h->bad = true;
		return MHD_NO;
	}
	for (unsigned i = 0; i < H_COUNT; i++) {
		if ((name[0] | 0x20) != header_names[i].name[0] || strcasecmp(name, header_names[i].name) != 0)
			continue;
		if (i == H_CONNECTION && value != NULL) {
			h->close = h->close || head_has_token(value, "close");
			h->keep = h->keep || head_has_token(value, "keep-alive");
		}
		if (h->value[i] == NULL)
			h->value[i] = value == NULL ? "" : value;
		else if (header_names[i].once)
			h->bad = true;
		break;
	}
	return MHD_YES;
}

/*
 * One walk over all headers.  False: they are malformed, or disagree about where the body ends (scenarios S179, S180).
 */
static bool
read_headers(struct MHD_Connection *c, const char *method, const char *version, struct headers *h, uint64_t *announced)
{
	const char *length, *encoding;

	*h = (struct headers){ .bad = false };
	*announced = 0;
	(void)MHD_get_connection_values(c, MHD_HEADER_KIND, take_header, h);
	length = h->value[H_CONTENT_LENGTH];
	encoding = h->value[H_TRANSFER_ENCODING];
	if (h->bad || !is_token(method) || (length != NULL && encoding != NULL))
		return false;
	if (encoding != NULL && (strcasecmp(encoding, "chunked") != 0 || strcmp(version, "HTTP/1.0") == 0))
		return false;
	return length == NULL || u64_parse(span_str(length), announced) == TV_OK;
}

/* An answer that needs no API. */
static enum MHD_Result
refuse(struct exchange *x, unsigned status, const char *text)
{
	x->close_after = true;
	x->req.running = true;		/* nothing is suspended yet: no wake-up */
	answer_text(&x->req, status, "%s", text);
	return send_answer(x);
}

static void
take_head(struct exchange *x, const char *method, const struct headers *h, uint64_t announced)
{
	struct request_head *head = &x->req.head;

	head->method = method;
	head->body_announced = announced;
	head->host = h->value[H_HOST];
	head->origin = h->value[H_ORIGIN];
	head->fetch_site = h->value[H_FETCH_SITE];
	head->accept_encoding = h->value[H_ACCEPT_ENCODING];
	head->token = h->value[H_TOKEN];
	head->authorization = h->value[H_AUTHORIZATION];
	head->cache_control = h->value[H_CACHE_CONTROL];
	head->on_loopback = x->conn->loopback;
	head->on_socket = x->conn->listener->is_unix;
	head->client_ip = x->conn->client == NULL ? NULL : client_ip(x->conn->client);
}

/* libmicrohttpd's rule. */
static enum head_keep
keep_rule(const char *version, const struct headers *h)
{
	if (strcmp(version, "HTTP/1.0") == 0)
		return h->keep && !h->close ? HEAD_KEEP_10 : HEAD_CLOSE;
	return h->close ? HEAD_CLOSE : HEAD_KEEP;
}

/* Counts the bytes of this request, while there is no doubt about them. */
static void
count_bytes(struct exchange *x, const struct headers *h, uint64_t body)
{
	const union MHD_ConnectionInfo *head = MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
	struct conn *c = x->conn;

	if (head == NULL || h->value[H_TRANSFER_ENCODING] != NULL || c->read >= CONN_READ_UNKNOWN / 4 ||
	    body >= CONN_READ_UNKNOWN / 4)
		c->read = CONN_READ_UNKNOWN;
	else
		c->read += head->header_size + body;
}

/* The headers are there: may it go on, and does its body make sense? */
static enum MHD_Result
on_head(struct exchange *x, const char *method, const char *version)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct headers h;
	uint64_t announced;

	x->conn = info == NULL ? NULL : info->socket_context;
	if (x->conn == NULL || x->conn->verdict == CONN_STRANGER)
		return refuse(x, 403, "Permission denied");
	if (x->conn->verdict == CONN_BUSY)
		return refuse(x, 429, busy_text);
	if (!read_headers(x->mhd, method, version, &h, &announced))
		return refuse(x, 400, "400 Bad Request");
	conn_await(x->http, x->conn, 0);
	count_bytes(x, &h, announced);
	x->keep = (uint8_t)keep_rule(version, &h);
	take_head(x, method, &h, announced);
	x->req.ready = on_ready;
	x->req.transport = x;
	api_begin(x->http->conf.api, &x->req);
	x->begun = true;
	bool unwanted = x->req.answered || announced > x->req.body_max;
	bool asks_first = h.value[H_EXPECT] != NULL && strcasecmp(h.value[H_EXPECT], "100-continue") == 0;
	if (announced > 0 && unwanted && (asks_first || announced > x->http->conf.conf->body_discard_max)) {
		x->req.body_bytes = announced;	/* not read, but that is what the answer speaks of */
		x->close_after = true;
		if (!x->req.answered)
			api_run(&x->req);
		if (x->req.answered)
			return send_answer(x);
	}
	x->stage = EX_BODY;
	return MHD_YES;
}

/* Of a long body: its client gets time anew with every so many bytes. */
static void
count_fed(struct exchange *x, size_t n)
{
	x->req.body_bytes += n;
	x->fed += n;
	if (x->fed < FEED_BYTES)
		return;
	conn_await(x->http, x->conn, 0);
	x->fed = 0;
}

/*
 * The client left in the middle of its body.  libmicrohttpd does not hear of an end that arrived together with the last
 * bytes: it waits for another event of the socket, until the client's time is over.
 */
static bool
left_early(const struct exchange *x)
{
	char byte;

	return x->req.body_bytes < x->req.head.body_announced &&
	    recv(x->conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/*
 * A body that is taken as it comes: what is not taken stays with libmicrohttpd, and its client waits.  False: there is
 * no client any more.
 */
static bool
feed(struct exchange *x, const char *bytes, size_t *n)
{
	size_t took = x->req.feed(&x->req, bytes, *n);

	count_fed(x, took);
	*n -= took;
	if (*n == 0)
		return !left_early(x);
	if (x->req.answered)
		return true;
	suspend(x);
	x->conn->deadline = 0;
	x->fed = FEED_BYTES;		/* time anew when it goes on */
	return true;
}

/* *n: what was not taken. */
static enum MHD_Result
on_body(struct exchange *x, const char *bytes, size_t *n)
{
	if (x->req.body_bytes > x->http->conf.conf->body_discard_max && x->req.body_bytes > x->req.body_max)
		return MHD_NO;		/* no announced length, and no end in sight */
	x->listener->progress = true;
	if (x->req.feed != NULL && !x->req.answered) {
		bool there;

		x->req.running = true;
		there = feed(x, bytes, n);
		x->req.running = false;
		return there ? MHD_YES : MHD_NO;
	}
	if (x->req.endpoint != NULL && x->req.endpoint->body == BODY_STREAM)
		count_fed(x, *n);	/* it failed already; the answer waits for the body's end */
	else
		request_body(&x->req, bytes, *n);
	*n = 0;
	return left_early(x) ? MHD_NO : MHD_YES;
}

static enum MHD_Result
on_complete(struct exchange *x)
{
	x->stage = EX_RUN;
	x->conn->deadline = 0;
	if (!x->req.answered)
		api_run(&x->req);
	if (x->req.answered)
		return send_answer(x);
	return await_answer(x);
}

/* libmicrohttpd calls this at the head, for parts of the body, at its end, and after each resumption. */
static enum MHD_Result
on_request(void *cls, struct MHD_Connection *mhd, const char *url, const char *method, const char *version,
    const char *upload, size_t *upload_len, void **con_cls)
{
	struct exchange *x = *con_cls;

	(void)url;
	if (x == NULL)
		return MHD_NO;
	switch (x->stage) {
	case EX_HEAD:
		x->mhd = mhd;
		x->listener = cls;
		return on_head(x, method, version);
	case EX_BODY:
		if (x->gone_away)
			return MHD_NO;		/* closes, without an answer that nobody would read */
		if (*upload_len == 0)
			return on_complete(x);
		return on_body(x, upload, upload_len);
	case EX_RUN:
		if (x->gone_away)
			return MHD_NO;
		if (x->req.answered)
			return send_answer(x);
		return x->suspended ? MHD_YES : await_answer(x);
	case EX_SENT:
		break;
	}
	return MHD_NO;
}

/* The request line, undecoded.  What is returned becomes *con_cls. */
static void *
on_uri(void *cls, const char *uri, struct MHD_Connection *mhd)
{
	struct listener_http *l = cls;
	struct exchange *x = exchange_new(l->http);

	(void)mhd;
	l->progress = true;
	if (x == NULL)
		return NULL;
	x->req.head.target = arena_copy(&x->req.arena, span_str(uri));
	if (x->req.head.target.p != NULL)
		return x;
	exchange_free(x);
	return NULL;
}

static void
on_completed(void *cls, struct MHD_Connection *mhd, void **con_cls, enum MHD_RequestTerminationCode why)
{
	struct exchange *x = *con_cls;

	(void)cls;
	(void)mhd;
	(void)why;
	if (x == NULL)
		return;
	*con_cls = NULL;
	if (x->parked) {
		x->mhd = NULL;
		x->listener->progress = true;
		return;
	}
	if (x->conn != NULL)
		conn_await(x->http, x->conn, 0);
	if (x->listener != NULL) {
		x->listener->progress = true;
		set_waiting(x, false);
	}
	watch_stop(x);
	exchange_end(x);
}

/* -- connections ----------------------------------------------------------- */

void
http_on_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
    enum MHD_ConnectionNotificationCode code)
{
	struct listener_http *l = cls;
	struct http *h = l->http;
	struct conn *c = *socket_context;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		crowd_drop(&h->lent);
		if (c != NULL && c->state == CONN_LENT)
			conn_end(h, c);	/* else it was parked: libmicrohttpd closes its own descriptor only */
		*socket_context = NULL;
		return;
	}
	crowd_add(&h->lent);
	*socket_context = c = h->lending;
	h->lending = NULL;
	if (c != NULL && c->verdict != CONN_FINE)
		(void)MHD_set_connection_option(mhd, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)REFUSED_TIMEOUT_S);
}

/* We decode paths and queries ourselves. */
static size_t
keep_escapes(void *cls, struct MHD_Connection *mhd, char *text)
{
	(void)cls;
	(void)mhd;
	return strlen(text);
}

static void __attribute__((format(printf, 2, 0)))
on_log(void *cls, const char *fmt, va_list ap)
{
	char text[512];

	(void)cls;
	if (!log_enabled(LOG_LVL_DEBUG))
		return;
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	while (n > 0 && (size_t)n < sizeof(text) && text[n - 1] == '\n')
		text[--n] = '\0';
	log_debug("http", "%s", text);
}

/* -- life ------------------------------------------------------------------ */

struct http *
http_new(const struct http_conf *conf)
{
	struct http *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return NULL;
	h->conf = *conf;
	h->epoll = -1;
	http_park_init(h);
	h->clients = clients_new();
	h->replies = replies_new(conf->conf);
	if (h->clients != NULL && h->replies != NULL && conns_init(h) == TV_OK)
		return h;
	http_free(h);
	return NULL;
}

static struct MHD_Daemon *
start_daemon(struct listener_http *l)
{
	const struct rpcd_conf *conf = l->http->conf.conf;
	/*
	 * The pool of a connection holds what it reads and the headers that it writes.  libmicrohttpd clears all of it
	 * after each request: more than is needed costs time, not only memory.
	 */
	size_t pool = (size_t)conf->header_bytes_max + POOL_EXTRA_BYTES;

	/* TURBO: a connection that is given to it has bytes to read, and one that it closes may live on. */
	return MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_TURBO | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME |
	    MHD_USE_ERROR_LOG, 0, NULL, NULL,
	    on_request, l,
	    MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
	    MHD_OPTION_CONNECTION_LIMIT, (unsigned)conf->http_max_conns,
	    MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(conf->http_idle_timeout.ns / 1000000000),
	    MHD_OPTION_CONNECTION_MEMORY_LIMIT, pool,
	    MHD_OPTION_STRICT_FOR_CLIENT, 1,
	    MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
	    MHD_OPTION_URI_LOG_CALLBACK, on_uri, l,
	    MHD_OPTION_NOTIFY_COMPLETED, on_completed, l,
	    MHD_OPTION_NOTIFY_CONNECTION, http_on_connection, l,
	    MHD_OPTION_END);
}

enum tv_err
http_listen(struct http *h, int fd)
{
	struct listener_http *l = calloc(1, sizeof(*l));
	struct sockaddr_storage own;
	socklen_t len = sizeof(own);

	if (l == NULL) {
		close(fd);
		return TV_ENOMEM;
	}
	l->http = h;
	l->fd = fd;
	l->is_unix = getsockname(fd, (struct sockaddr *)&own, &len) == 0 && own.ss_family == AF_UNIX;
	l->daemon = start_daemon(l);
	const union MHD_DaemonInfo *info = l->daemon == NULL ? NULL :
	    MHD_get_daemon_info(l->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (info == NULL) {
		if (l->daemon != NULL)
			MHD_stop_daemon(l->daemon);
		close(fd);
		free(l);
		return TV_ESYS;
	}
	ev_io_init(&l->io, on_io, info->epoll_fd, EV_READ);
	ev_init(&l->timer, on_timer);
	l->io.data = l->timer.data = l;
	ev_io_start(h->conf.loop, &l->io);
	conns_accept(l);
	l->next = h->listeners;
	h->listeners = l;
	return TV_OK;
}

void
http_quiesce(struct http *h)
{
	h->quiet = true;
	for (struct listener_http *l = h->listeners; l != NULL; l = l->next)
		conns_accept_stop(l);
}

/* libmicrohttpd wants no suspended connection when it stops. */
static void
end_waiting(struct http *h)
{
	for (struct request *r = h->conf.api->live; r != NULL; r = r->next) {
		api_cancel(r);
		if (!r->answered)
			answer_text(r, 500, "rpcd is stopping");
		resume(r->transport);
	}
	http_park_flush(h);
}

static void
free_spares(struct http *h)
{
	while (h->spare != NULL) {
		struct exchange *x = (struct exchange *)(void *)h->spare;

		h->spare = x->req.next;
		request_done(&x->req);
		free(x);
	}
}

void
http_free(struct http *h)
{
	struct listener_http *l;

	if (h == NULL)
		return;
	h->stopping = true;
	for (l = h->listeners; l != NULL; l = l->next)
		conns_accept_stop(l);
	end_waiting(h);
	for (l = h->listeners; l != NULL; l = l->next) {
		ev_io_stop(h->conf.loop, &l->io);
		ev_timer_stop(h->conf.loop, &l->timer);
		(void)MHD_run(l->daemon);	/* sends what can be sent at once */
		MHD_stop_daemon(l->daemon);
	}
	conns_done(h);
	http_park_done(h);
	while ((l = h->listeners) != NULL) {
		h->listeners = l->next;
		free(l);
	}
	free_spares(h);
	TV_ASSERT(h->conns == NULL);
	clients_free(h->clients);
	replies_free(h->replies);
	free(h);
}

void
http_stats(const struct http *h, struct http_stats *out)
{
	*out = h->stats;
	out->conns = h->open.now;
}
