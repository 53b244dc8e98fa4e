/* libmicrohttpd on libev. */
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/assert.h"
#include "common/log.h"
#include "rpcd/clients.h"
#include "rpcd/http.h"

#define SPARE_REQUESTS_MAX 256		/* kept for reuse */
#define REFUSED_TIMEOUT_S 5		/* for the one request of a connection that is one too many */
#define GROUPS_MAX 64

static const char busy_text[] =
    "Your IP is issuing too many concurrent connections, please rate limit your calls\n";

/* One listening socket with its connections: one libmicrohttpd daemon, driven by its epoll descriptor. */
struct listener_http {
	struct listener_http *next;
	struct http *http;
	struct MHD_Daemon *daemon;
	ev_io io;
	ev_timer timer;
	bool is_unix;
};

struct http {
	struct http_conf conf;
	struct listener_http *listeners;
	struct clients *clients;
	struct request *spare;
	unsigned spare_count;
	struct http_stats stats;
	bool stopping;
};

/* What is known of a connection. */
struct conn {
	struct client *client;		/* NULL: unix socket */
	enum { CONN_FINE, CONN_BUSY, CONN_STRANGER } verdict;
	bool loopback;
};

/* The transport's part of a request. */
struct exchange {
	struct request req;		/* first: request and exchange are one allocation */
	struct http *http;
	struct listener_http *listener;
	struct MHD_Connection *mhd;
	enum { EX_HEAD, EX_BODY, EX_RUN, EX_SENT } stage;
	bool begun;			/* api_begin was called: api_end is due */
	bool suspended;
	bool close_after;		/* the body was not read: the connection cannot go on */
	ev_io gone;			/* watches a suspended connection for its client's leaving */
};

/* -- running libmicrohttpd ---------------------------------------------- */

/* Before the next wait: is there work that no descriptor will announce, and when is the next timeout? */
static void
plan(struct listener_http *l)
{
	struct ev_loop *loop = l->http->conf.loop;
	MHD_UNSIGNED_LONG_LONG ms;

	if (MHD_get_timeout(l->daemon, &ms) != MHD_YES)
		return;
	if (ms > 0 && ev_is_active(&l->timer))
		return;			/* timeouts only move away: the timer is early at worst */
	ev_timer_stop(loop, &l->timer);
	ev_timer_set(&l->timer, (double)ms / 1000.0, 0.);
	ev_timer_start(loop, &l->timer);
}

static void
run(struct listener_http *l)
{
	(void)MHD_run(l->daemon);	/* fails only for daemons that run by themselves */
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
	x->stage = EX_HEAD;
	x->begun = x->suspended = x->close_after = false;
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

/* Wakes the connection; its handler runs once more and finds the answer. */
static void
resume(struct exchange *x)
{
	if (!x->suspended)
		return;
	x->suspended = false;
	ev_io_stop(x->http->conf.loop, &x->gone);
	MHD_resume_connection(x->mhd);
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
	if (x->req.call != NULL) {
		route_cancel(x->req.call);
		x->req.call = NULL;
		x->req.api->stats.cancelled++;
	}
	if (!x->req.answered)
		answer_empty(&x->req, 499);	/* nobody will read it; makes the connection go on to its end */
}

static void
suspend(struct exchange *x)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

	x->suspended = true;
	MHD_suspend_connection(x->mhd);
	if (x->req.op.index == 0 || info == NULL)
		return;			/* soon answered anyway: not worth two system calls */
	ev_io_init(&x->gone, on_gone, info->connect_fd, EV_READ);
	x->gone.data = x;
	ev_io_start(x->http->conf.loop, &x->gone);
}

/* -- answers -------------------------------------------------------------- */

static void
add_configured_headers(const struct rpcd_conf *conf, struct MHD_Response *response)
{
	for (size_t i = 0; i < conf->response_headers.count; i++) {
		const char *line = conf->response_headers.items[i];
		const char *colon = strchr(line, ':');
		char name[256];

		if (colon == NULL || !span_copy(span_of(line, (size_t)(colon - line)), name, sizeof(name)))
			continue;
		(void)MHD_add_response_header(response, name, colon + 1 + strspn(colon + 1, " "));
	}
}

static enum MHD_Result
send_answer(struct exchange *x)
{
	struct answer *a = &x->req.answer;
	void *bytes = a->body.len > 0 ? a->body.data : (void *)(uintptr_t)"";
	struct MHD_Response *response = MHD_create_response_from_buffer(a->body.len, bytes, MHD_RESPMEM_PERSISTENT);

	if (response == NULL)
		return MHD_NO;
	for (unsigned i = 0; i < a->header_count; i++)
		/* Without memory the answer goes without this header. */
		(void)MHD_add_response_header(response, a->headers[i].name, a->headers[i].value);
	add_configured_headers(x->http->conf.conf, response);
	if (x->close_after)
		(void)MHD_add_response_header(response, "Connection", "close");
	x->stage = EX_SENT;
	enum MHD_Result queued = MHD_queue_response(x->mhd, a->status, response);
	MHD_destroy_response(response);
	return queued;
}

/* -- requests -------------------------------------------------------------- */

static const char *
header(struct MHD_Connection *c, const char *name)
{
	return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
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
take_head(struct exchange *x, const char *method, const struct conn *conn)
{
	struct request_head *head = &x->req.head;

	head->method = method;
	head->host = header(x->mhd, MHD_HTTP_HEADER_HOST);
	head->origin = header(x->mhd, "Origin");
	head->fetch_site = header(x->mhd, "Sec-Fetch-Site");
	head->accept_encoding = header(x->mhd, MHD_HTTP_HEADER_ACCEPT_ENCODING);
	head->token = header(x->mhd, "X-Consul-Token");
	head->authorization = header(x->mhd, MHD_HTTP_HEADER_AUTHORIZATION);
	head->cache_control = header(x->mhd, MHD_HTTP_HEADER_CACHE_CONTROL);
	head->on_loopback = conn->loopback;
}

/* The headers are there: may it go on, and does its body make sense? */
static enum MHD_Result
on_head(struct exchange *x, const char *method)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	const struct conn *conn = info == NULL ? NULL : info->socket_context;
	const char *length = header(x->mhd, MHD_HTTP_HEADER_CONTENT_LENGTH);
	const char *expect = header(x->mhd, MHD_HTTP_HEADER_EXPECT);
	uint64_t announced = 0;

	if (conn == NULL || conn->verdict == CONN_STRANGER)
		return refuse(x, 403, "Permission denied");
	if (conn->verdict == CONN_BUSY)
		return refuse(x, 429, busy_text);
	if (length != NULL && header(x->mhd, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL)
		return refuse(x, 400, "400 Bad Request");	/* a proxy before us may have believed the other */
	if (length != NULL && u64_parse(span_str(length), &announced) != TV_OK)
		return refuse(x, 400, "400 Bad Request");
	take_head(x, method, conn);
	x->req.ready = on_ready;
	x->req.transport = x;
	api_begin(x->http->conf.api, &x->req);
	x->begun = true;
	bool unwanted = x->req.answered || announced > x->req.body_max;
	bool asks_first = expect != NULL && strcasecmp(expect, "100-continue") == 0;
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

static enum MHD_Result
on_body(struct exchange *x, const char *bytes, size_t n)
{
	if (x->req.body_bytes > x->http->conf.conf->body_discard_max && x->req.body_bytes > x->req.body_max)
		return MHD_NO;		/* no announced length, and no end in sight */
	request_body(&x->req, bytes, n);
	return MHD_YES;
}

static enum MHD_Result
on_complete(struct exchange *x)
{
	x->stage = EX_RUN;
	if (!x->req.answered)
		api_run(&x->req);
	if (x->req.answered)
		return send_answer(x);
	suspend(x);
	return MHD_YES;
}

/* libmicrohttpd calls this at the head, for parts of the body, at its end, and after each resumption. */
static enum MHD_Result
on_request(void *cls, struct MHD_Connection *mhd, const char *url, const char *method, const char *version,
    const char *upload, size_t *upload_len, void **con_cls)
{
	struct exchange *x = *con_cls;

	(void)url;
	(void)version;
	if (x == NULL)
		return MHD_NO;
	switch (x->stage) {
	case EX_HEAD:
		x->mhd = mhd;
		x->listener = cls;
		return on_head(x, method);
	case EX_BODY:
		if (*upload_len == 0)
			return on_complete(x);
		size_t n = *upload_len;
		*upload_len = 0;
		return on_body(x, upload, n);
	case EX_RUN:
		return x->req.answered ? send_answer(x) : MHD_YES;
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
	if (x->suspended)
		ev_io_stop(x->http->conf.loop, &x->gone);
	if (x->begun)
		api_end(&x->req);
	exchange_free(x);
}

/* -- connections ----------------------------------------------------------- */

static bool
unix_peer_allowed(struct http *h, int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	gid_t groups[GROUPS_MAX + 1];
	socklen_t groups_len = GROUPS_MAX * sizeof(groups[0]);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0)
		return false;
	groups[0] = cred.gid;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups + 1, &groups_len) != 0)
		groups_len = 0;		/* an old kernel, or very many groups: the first must do */
	return h->conf.peer_allowed(h->conf.ctx, cred.uid, groups, 1 + (unsigned)(groups_len / sizeof(groups[0])));
}

static bool
is_loopback(int fd)
{
	struct sockaddr_storage own;
	socklen_t len = sizeof(own);

	if (getsockname(fd, (struct sockaddr *)&own, &len) != 0)
		return false;
	if (own.ss_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)&own)->sin_addr.s_addr) >> 24 == 127;
	if (own.ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)&own)->sin6_addr);
	return false;
}

static void
judge(struct listener_http *l, struct MHD_Connection *mhd, struct conn *c)
{
	const union MHD_ConnectionInfo *fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
	const union MHD_ConnectionInfo *from = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	struct http *h = l->http;

	c->verdict = CONN_STRANGER;
	if (fd == NULL)
		return;
	if (l->is_unix) {
		if (unix_peer_allowed(h, fd->connect_fd))
			c->verdict = CONN_FINE;
		else
			h->stats.refused_peer++;
		return;
	}
	c->loopback = is_loopback(fd->connect_fd);
	c->client = from == NULL ? NULL : clients_take(h->clients, from->client_addr);
	c->verdict = CONN_FINE;
	if (c->client == NULL || client_count(c->client) > h->conf.conf->http_max_conns_per_client) {
		c->verdict = CONN_BUSY;
		h->stats.refused_busy++;
	}
}

static void
on_connection(void *cls, struct MHD_Connection *mhd, void **socket_context, enum MHD_ConnectionNotificationCode code)
{
	struct listener_http *l = cls;
	struct http *h = l->http;
	struct conn *c = *socket_context;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (c == NULL)
			return;
		if (c->client != NULL)
			clients_release(h->clients, c->client);
		free(c);
		*socket_context = NULL;
		h->stats.conns--;
		return;
	}
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return;			/* its requests are refused */
	h->stats.conns++;
	h->stats.accepted++;
	judge(l, mhd, c);
	if (c->verdict != CONN_FINE)
		(void)MHD_set_connection_option(mhd, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)REFUSED_TIMEOUT_S);
	*socket_context = c;
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
	h->clients = clients_new();
	if (h->clients != NULL)
		return h;
	free(h);
	return NULL;
}

static struct MHD_Daemon *
start_daemon(struct listener_http *l, int fd)
{
	const struct rpcd_conf *conf = l->http->conf.conf;
	/* The pool of a connection holds what it reads and the headers that it writes. */
	size_t pool = (size_t)conf->header_bytes_max * 2;

	return MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
	    on_request, l,
	    MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
	    MHD_OPTION_LISTEN_SOCKET, fd,
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
	l->daemon = start_daemon(l, fd);
	const union MHD_DaemonInfo *info = l->daemon == NULL ? NULL :
	    MHD_get_daemon_info(l->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (info == NULL) {
		if (l->daemon != NULL)
			MHD_stop_daemon(l->daemon);
		else
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
	return TV_OK;
}

/* libmicrohttpd wants no suspended connection when it stops. */
static void
end_waiting(struct http *h)
{
	for (struct request *r = h->conf.api->live; r != NULL; r = r->next) {
		if (r->call != NULL) {
			route_cancel(r->call);
			r->call = NULL;
		}
		if (!r->answered)
			answer_text(r, 500, "rpcd is stopping");
		resume(r->transport);
	}
}

void
http_free(struct http *h)
{
	if (h == NULL)
		return;
	h->stopping = true;
	end_waiting(h);
	for (struct listener_http *l = h->listeners, *next; l != NULL; l = next) {
		next = l->next;
		ev_io_stop(h->conf.loop, &l->io);
		ev_timer_stop(h->conf.loop, &l->timer);
		(void)MHD_run(l->daemon);	/* sends what can be sent at once */
		MHD_stop_daemon(l->daemon);
		free(l);
	}
	while (h->spare != NULL) {
		struct exchange *x = (struct exchange *)(void *)h->spare;

		h->spare = x->req.next;
		request_done(&x->req);
		free(x);
	}
	clients_free(h->clients);
	free(h);
}

void
http_stats(const struct http *h, struct http_stats *out)
{
	*out = h->stats;
}
