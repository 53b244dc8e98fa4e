/*
 * libmicrohttpd on libev, for requests whose body or answer is a stream; and the life of the transport.
 *
 * A connection that is lent has one request, whose head was scanned and copied (x); what libmicrohttpd reads there only
 * starts it.  The connection is closed after its answer, always.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/log.h"
#include "rpcd/http/http_int.h"

#define STREAM_BLOCK_BYTES 16384	/* of a stream at a time */
#define STREAM_BLOCK_BYTES_MAX 131072	/* of a long one whose end is known */
#define FEED_BYTES 262144		/* that a client has to send of a long body to be given more time */
#define STREAM_KEEP_IDLE_S 60
#define STREAM_KEEP_EVERY_S 15
#define STREAM_KEEP_COUNT 4
#define POOL_EXTRA_BYTES 16384
#define PEEK_BODY_BYTES 65536		/* of a body, with its head */
#define RUNS_MAX 4			/* of libmicrohttpd in a row, before others have their turn */

/* -- running libmicrohttpd ---------------------------------------------- */

/* Before the next wait: is there work that no descriptor will announce, and when is the next timeout? */
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
	after = (double)ms / 1000.0;
	ev_timer_stop(loop, &l->timer);
	ev_timer_set(&l->timer, after, 0.);
	ev_timer_start(loop, &l->timer);
}

/* A request takes several steps of libmicrohttpd; nothing else can happen between them. */
static void
run_daemon(struct listener_http *l)
{
	unsigned n = 0;

	do {
		l->progress = false;
		(void)MHD_run(l->daemon);	/* fails only for daemons that run by themselves */
	} while (l->progress && ++n < RUNS_MAX);
	plan(l);
}

static void
on_io(struct ev_loop *loop UNUSED, ev_io *w, int events UNUSED)
{
	run_daemon(w->data);
}

static void
on_timer(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	run_daemon(w->data);
}

/* -- waiting --------------------------------------------------------------- */

static void
watch_stop(struct exchange *x)
{
	if (x->gone != NULL)
		ev_io_stop(x->http->conf.loop, x->gone);
	free(x->gone);
	x->gone = NULL;
}

/* Wakes the connection; its handler runs once more and finds the answer. */
void
http_lent_ready(struct exchange *x)
{
	if (x->suspended) {
		x->suspended = false;
		watch_stop(x);
		MHD_resume_connection(x->mhd);
	}
	/* After what runs now, and once for all that are resumed until then. */
	ev_feed_event(x->http->conf.loop, &x->conn->listener->io, EV_READ);
}

/*
 * Readable while suspended: the client left, or it sends more.  Behind the body that is nothing which anybody will
 * read; it is dropped, so that the end behind it is seen.
 */
static void
on_gone(struct ev_loop *loop, ev_io *w, int events UNUSED)
{
	struct exchange *x = w->data;
	bool complete = x->stage != EX_BODY;
	char bytes[4096];
	ssize_t n = recv(w->fd, bytes, complete ? sizeof(bytes) : 1, MSG_DONTWAIT | (complete ? 0 : MSG_PEEK));

	if (n > 0) {
		if (!complete)
			ev_io_stop(loop, w);	/* still there */
		return;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	api_cancel(&x->req);
	x->gone_away = !x->req.answered;	/* a stream: its reader finds the end */
	http_lent_ready(x);
}

static void
suspend(struct exchange *x)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

	x->suspended = true;
	MHD_suspend_connection(x->mhd);
	if (!exchange_waits_long(x) || info == NULL)
		return;			/* soon answered anyway: not worth two system calls */
	x->gone = malloc(sizeof(*x->gone));
	if (x->gone == NULL)
		return;
	ev_io_init(x->gone, on_gone, info->connect_fd, EV_READ);
	x->gone->data = x;
	ev_io_start(x->http->conf.loop, x->gone);
}

/* -- answers -------------------------------------------------------------- */

/* The client took what was there.  Until there is more the connection sleeps. */
static ssize_t
on_stream(void *cls, uint64_t at UNUSED, char *dst, size_t max)
{
	struct exchange *x = cls;
	size_t n;

	if (x->req.stream == NULL)
		return MHD_CONTENT_READER_END_OF_STREAM;
	n = x->req.stream(&x->req, dst, max);
	if (n == 0 && x->req.stream == NULL)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (n == 0)
		suspend(x);
	else
		x->conn->listener->progress = true;
	if (x->req.stream_bytes > 0 && n > 0)
		conn_await(x->http, x->conn, n);
	else
		conn_await_us(x->conn);
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

/* A client that reads a stream may take its time: it misses some, and keeps no other waiting. */
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
		response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, on_stream, x, NULL);
	}
	return response;
}

static void
add_field(void *ctx, const char *name, const char *value)
{
	/* Without memory the answer goes without this header. */
	(void)MHD_add_response_header(ctx, name, value);
}

static enum MHD_Result
send_answer(struct exchange *x)
{
	struct answer *a = &x->req.answer;
	void *bytes = a->body.len > 0 ? a->body.data : (void *)(uintptr_t)"";
	bool streams = x->req.stream != NULL;
	struct MHD_Response *response = streams ? stream_response(x) :
	    MHD_create_response_from_buffer(a->body.len, bytes, MHD_RESPMEM_PERSISTENT);
	enum MHD_Result queued;

	x->conn->listener->progress = true;
	if (response == NULL)
		return MHD_NO;
	response_head_fields(x->http->conf.conf, a, add_field, response);
	(void)MHD_add_response_header(response, "Connection", "close");
	x->stage = EX_SENT;
	if (!streams)
		conn_await(x->http, x->conn, a->body.len);
	queued = MHD_queue_response(x->mhd, a->status, response);
	MHD_destroy_response(response);
	return queued;
}

/* -- requests -------------------------------------------------------------- */

/* The headers are there: may it go on, and does its body make sense? */
static enum MHD_Result
on_head(struct exchange *x)
{
	bool wanted = exchange_begin(x);

	x->stage = wanted ? EX_BODY : EX_RUN;
	if (wanted)
		return MHD_YES;
	if (x->req.answered)
		return send_answer(x);
	suspend(x);
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
	conn_await_us(x->conn);
	x->fed = FEED_BYTES;		/* time anew when it goes on */
	return true;
}

/* *n: what was not taken. */
static enum MHD_Result
on_body(struct exchange *x, const char *bytes, size_t *n)
{
	bool there;

	if (x->req.body_bytes > x->http->conf.conf->body_discard_max && x->req.body_bytes > x->req.body_max)
		return MHD_NO;		/* no announced length, and no end in sight */
	x->conn->listener->progress = true;
	if (x->req.feed == NULL || x->req.answered) {
		count_fed(x, *n);	/* it failed already; the answer waits for the body's end */
		*n = 0;
		return left_early(x) ? MHD_NO : MHD_YES;
	}
	x->req.running = true;
	there = feed(x, bytes, n);
	x->req.running = false;
	return there ? MHD_YES : MHD_NO;
}

static enum MHD_Result
on_complete(struct exchange *x)
{
	x->stage = EX_RUN;
	conn_await_us(x->conn);
	if (!x->req.answered)
		api_run(&x->req);
	if (x->req.answered)
		return send_answer(x);
	suspend(x);
	return MHD_YES;
}

/* libmicrohttpd calls this at the head, for parts of the body, at its end, and after each resumption. */
static enum MHD_Result
on_request(void *cls UNUSED, struct MHD_Connection *mhd, const char *url UNUSED, const char *method UNUSED,
    const char *version UNUSED,
    const char *upload, size_t *upload_len, void **con_cls)
{
	struct exchange *x = *con_cls;

	if (x == NULL)
		return MHD_NO;
	switch (x->stage) {
	case EX_HEAD:
		x->mhd = mhd;
		return on_head(x);
	case EX_BODY:
		if (x->gone_away)
			return MHD_NO;		/* closes, without an answer that would not be read */
		if (*upload_len == 0)
			return on_complete(x);
		return on_body(x, upload, upload_len);
	case EX_RUN:
		if (x->gone_away)
			return MHD_NO;
		if (x->req.answered)
			return send_answer(x);
		if (!x->suspended)
			suspend(x);
		return MHD_YES;
	case EX_SENT:
		break;
	}
	return MHD_NO;
}

static struct conn *
conn_of(struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info == NULL ? NULL : info->socket_context;
}

/* A request line.  What is returned becomes *con_cls: NULL for a request that was not scanned. */
static void *
on_uri(void *cls, const char *uri UNUSED, struct MHD_Connection *mhd)
{
	struct listener_http *l = cls;
	struct conn *c = conn_of(mhd);
	struct exchange *x = c == NULL ? NULL : c->x;

	l->progress = true;
	if (c != NULL)
		c->x = NULL;
	return x;
}

static void
on_completed(void *cls, struct MHD_Connection *mhd UNUSED, void **con_cls, enum MHD_RequestTerminationCode why UNUSED)
{
	struct exchange *x = *con_cls;
	struct listener_http *l = cls;

	if (x == NULL)
		return;
	*con_cls = NULL;
	l->progress = true;
	conn_await(x->http, x->conn, 0);
	watch_stop(x);
	exchange_end(x);
}

/* -- connections ----------------------------------------------------------- */

void
http_lend(struct http *h, struct conn *c)
{
	/* It asks for the address only to count connections per address, which we do. */
	static const struct sockaddr no_address = { .sa_family = AF_UNSPEC };
	struct listener_http *l = c->listener;

	(void)epoll_ctl(h->epoll, EPOLL_CTL_DEL, c->fd, NULL);	/* it is there */
	conn_set(c, CONN_LENT);
	h->lending = c;
	if (MHD_add_connection(l->daemon, c->fd, &no_address, sizeof(no_address)) == MHD_YES) {
		ev_feed_event(h->conf.loop, &l->io, EV_READ);
		return;
	}
	if (h->lending != NULL)		/* else on_connection() has seen it come and go */
		conn_end(h, c);		/* libmicrohttpd has closed the descriptor */
	h->lending = NULL;
}

static void
on_connection(void *cls, struct MHD_Connection *mhd UNUSED, void **socket_context,
    enum MHD_ConnectionNotificationCode code)
{
	struct listener_http *l = cls;
	struct http *h = l->http;
	struct conn *c = *socket_context;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (c != NULL)
			conn_end(h, c);
		*socket_context = NULL;
		return;
	}
	*socket_context = h->lending;
	h->lending = NULL;
}

/* We decode paths and queries ourselves. */
static size_t
keep_escapes(void *cls UNUSED, struct MHD_Connection *mhd UNUSED, char *text)
{
	return strlen(text);
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
	TAILQ_INIT(&h->bodies);
	http_send_init(h);
	h->peek_cap = (size_t)conf->conf->header_bytes_max + PEEK_BODY_BYTES;
	h->peek = malloc(h->peek_cap);
	if (h->peek != NULL && conns_init(h) == TV_OK)
		return h;
	http_free(h);
	return NULL;
}

static struct MHD_Daemon *
start_daemon(struct listener_http *l)
{
	const struct rpcd_conf *conf = l->http->conf.conf;
	/* The pool of a connection holds what it reads, a table of the headers, and those that it writes. */
	size_t pool = (size_t)conf->header_bytes_max + POOL_EXTRA_BYTES;

	/* TURBO: a connection that is given to it has bytes to read, and one that it closes may live on. */
	/*
	 * Without a log of its own: it has a line for each piece that it sends through a unix socket (which has no
	 * options of TCP), and where that piece is a live log, each line of it would make another one.
	 */
	return MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_TURBO | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME,
	    0, NULL, NULL, on_request, l,
	    MHD_OPTION_CONNECTION_LIMIT, (unsigned)conf->http_max_conns,
	    MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(conf->http_idle_timeout.ns / 1000000000),
	    MHD_OPTION_CONNECTION_MEMORY_LIMIT, pool,
	    MHD_OPTION_STRICT_FOR_CLIENT, 1,
	    MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
	    MHD_OPTION_URI_LOG_CALLBACK, on_uri, l,
	    MHD_OPTION_NOTIFY_COMPLETED, on_completed, l,
	    MHD_OPTION_NOTIFY_CONNECTION, on_connection, l,
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
	l->next = h->listeners;
	h->listeners = l;
	return conns_accept(l, fd);
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
	for (struct request *r = h->conf.api->live, *next; r != NULL; r = next) {
		next = r->next;			/* r may be freed */
		api_cancel(r);
		if (!r->answered)
			answer_text(r, 500, "rpcd is stopping");
		r->ready(r);
	}
	http_send_flush(h);
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
	http_send_done(h);
	while ((l = h->listeners) != NULL) {
		h->listeners = l->next;
		conns_free(l);
	}
	exchange_free_spares(h);
	TV_ASSERT(h->open.now == 0);
	map_done(&h->clients);
	free(h->peek);
	free(h);
}

void
http_stats(const struct http *h, struct http_stats *out)
{
	*out = h->stats;
	out->conns = h->open.now;
	for (const struct listener_http *l = h->listeners; l != NULL; l = l->next)
		out->refused_busy += l->door == NULL ? 0 : listener_refused(l->door);
}
