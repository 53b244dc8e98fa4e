/*
 * HTTP checks, by libcurl's multi interface on the loop.  Whatever a server answers costs a bounded amount: of the body
 * the end is kept, and no more than BODY_BYTES_READ is read; HEAD_BYTES_MAX of headers end the run; so does the
 * timeout, however much has come by then.
 *
 * Redirects are followed here and not by libcurl, since only to the same host they are followed in any case.
 */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/clock.h"
#include "rpcd/check/checker.h"
#include "rpcd/check/reason.h"
#include "rpcd/check/resolve.h"
#include "rpcd/check/tail.h"

#define BODY_BYTES_READ (1u << 20)
#define HEAD_BYTES_MAX (64u << 10)
#define REDIRECTS_MAX 10
#define IDLE_EASIES 64			/* kept for the next run */
#define HOST_BYTES_MAX 256
#define STATUS_BYTES_MAX 128
#define RECEIVE_BYTES 16384

struct http_probes {
	struct ev_loop *loop;
	CURLM *multi;
	ev_timer timer;
	CURL *idle[IDLE_EASIES];
	unsigned idle_count;
};

struct http {
	struct task *check;
	CURL *easy;			/* NULL: not dialling yet */
	struct curl_slist *headers, *places;
	char *url;			/* of this request; libcurl's memory */
	char host[HOST_BYTES_MAX];	/* in it */
	char *first_host;		/* of the first request, NULL until then */
	unsigned port, redirects;
	bool get;			/* a redirect turned it into one */
	bool flooded, enough;		/* too many headers; the body was long enough */
	struct mono deadline;
	struct lookup *lookup;
	ev_timer timer;			/* begin, and while a name is looked up */
	size_t head_bytes;
	char status[STATUS_BYTES_MAX];	/* "200 OK" */
	struct addresses addresses;
	struct tail body;
	char error[CURL_ERROR_SIZE];
};

static void request(struct http *h);

/* -- the end of a run -- */

static void
release_easy(struct http *h)
{
	struct http_probes *p = h->check->checker->http;

	if (h->easy == NULL)
		return;
	curl_multi_remove_handle(p->multi, h->easy);
	curl_easy_reset(h->easy);
	if (p->idle_count < IDLE_EASIES)
		p->idle[p->idle_count++] = h->easy;
	else
		curl_easy_cleanup(h->easy);
	h->easy = NULL;
	curl_slist_free_all(h->headers);
	curl_slist_free_all(h->places);
	h->headers = h->places = NULL;
}

static void
http_free(struct http *h)
{
	release_easy(h);
	if (h->lookup != NULL)
		resolve_cancel(h->lookup);
	ev_timer_stop(h->check->checker->loop, &h->timer);
	curl_free(h->url);
	free(h->first_host);
	tail_done(&h->body);
	free(h);
}

/* The method that is configured, as the output shows it. */
static struct span
method(const struct http *h)
{
	return h->check->def.Method.len > 0 ? h->check->def.Method : span_str("GET");
}

static void
finish(struct http *h, enum health status, struct buf *output)
{
	struct task *c = h->check;

	http_free(h);
	check_done(c, status, buf_span(output), false);
	buf_done(output);
}

/* 'Get "http://h:1/": reason' */
static void
fail(struct http *h, const char *why)
{
	struct buf out = BUF_INIT(OUTPUT_BYTES_MAX);
	struct span m = method(h);

	for (size_t i = 0; i < m.len; i++)
		buf_u8(&out, i > 0 && m.p[i] >= 'A' && m.p[i] <= 'Z' ? (uint8_t)(m.p[i] | 0x20) : m.p[i]);
	buf_puts(&out, " \"");
	buf_putspan(&out, h->check->def.Target);
	buf_printf(&out, "\": %s", why);
	finish(h, HEALTH_CRITICAL, &out);
}

static void
answered(struct http *h, long code, const char *remark)
{
	struct buf out = BUF_INIT(OUTPUT_BYTES_MAX * 2);

	buf_puts(&out, "HTTP ");
	buf_putspan(&out, method(h));
	buf_u8(&out, ' ');
	buf_putspan(&out, h->check->def.Target);
	buf_printf(&out, ": %s Output: ", h->status);
	if (remark != NULL)
		buf_puts(&out, remark);
	else
		buf_putspan(&out, tail_span(&h->body));
	finish(h, code / 100 == 2 ? HEALTH_PASSING : code == 429 ? HEALTH_WARNING : HEALTH_CRITICAL, &out);
}

/* -- URLs -- */

static bool
part(CURLU *u, CURLUPart what, unsigned flags, char *dst, size_t cap)
{
	char *text = NULL;
	bool ok = curl_url_get(u, what, &text, flags) == CURLUE_OK && span_copy(span_str(text), dst, cap);

	curl_free(text);
	return ok;
}

/* Takes what the URL says into h.  NULL, or why it cannot be asked. */
static const char *
take_url(struct http *h, const char *url, char *why, size_t cap)
{
	CURLU *u = curl_url();
	char scheme[32] = "", port[8] = "";

	if (u == NULL)
		return "out of memory";
	CURLUcode rc = curl_url_set(u, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME);
	snprintf(why, cap, "malformed URL");
	bool ok = rc == CURLUE_OK && part(u, CURLUPART_SCHEME, 0, scheme, sizeof(scheme));
	if (rc == CURLUE_BAD_SCHEME)
		snprintf(why, cap, "unsupported protocol scheme \"\"");
	if (ok && strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0) {
		snprintf(why, cap, "unsupported protocol scheme \"%s\"", scheme);
		ok = false;
	}
	ok = ok && part(u, CURLUPART_HOST, 0, h->host, sizeof(h->host)) &&
	    part(u, CURLUPART_PORT, CURLU_DEFAULT_PORT, port, sizeof(port));
	h->port = (unsigned)atoi(port);
	if (ok && h->check->def.TLSServerName.len > 0 && h->first_host == NULL) {
		/* What is asked for by TLS is in the URL; where to connect to, and Host, are said besides. */
		char name[HOST_BYTES_MAX];

		ok = span_copy(h->check->def.TLSServerName, name, sizeof(name)) &&
		    curl_url_set(u, CURLUPART_HOST, name, 0) == CURLUE_OK;
	}
	curl_free(h->url);
	h->url = NULL;
	ok = ok && curl_url_get(u, CURLUPART_URL, &h->url, 0) == CURLUE_OK;
	curl_url_cleanup(u);
	return ok ? NULL : why;
}

/* -- what libcurl hands over -- */

static size_t
on_header(char *bytes, size_t size, size_t n, void *ctx)
{
	struct http *h = ctx;
	struct span line = span_of(bytes, size * n);

	h->head_bytes += line.len;
	if (h->head_bytes > HEAD_BYTES_MAX) {
		h->flooded = true;
		return 0;
	}
	if (span_starts(line, span_str("HTTP/"))) {
		const uint8_t *blank = memchr(line.p, ' ', line.len);
		size_t at = blank == NULL ? line.len : (size_t)(blank - line.p) + 1, len = line.len - at;

		while (len > 0 && (line.p[at + len - 1] == '\n' || line.p[at + len - 1] == '\r'))
			len--;
		snprintf(h->status, sizeof(h->status), "%.*s", (int)len, (const char *)line.p + at);
	}
	return line.len;
}

static size_t
on_body(char *bytes, size_t size, size_t n, void *ctx)
{
	struct http *h = ctx;

	tail_put(&h->body, span_of(bytes, size * n));
	h->enough = h->body.total >= BODY_BYTES_READ;
	return h->enough ? 0 : size * n;
}

/* -- redirects -- */

static bool
drops_body(const struct http *h, long code)
{
	struct span m = method(h);

	return (code == 301 || code == 302 || code == 303) && !span_eqs(m, "HEAD");
}

/* The next request is on its way, or the run is over. */
static void
follow(struct http *h, long code, const char *to)
{
	char why[HOST_BYTES_MAX + 128], *url = strdup(to);
	bool anywhere = h->check->checker->setup.follow_redirects;

	if (url == NULL) {
		fail(h, "out of memory");
		return;
	}
	release_easy(h);
	const char *bad = take_url(h, url, why, sizeof(why));
	free(url);
	if (bad == NULL && ++h->redirects > REDIRECTS_MAX)
		bad = "stopped after 10 redirects";
	if (bad != NULL) {
		char text[sizeof(why)];

		snprintf(text, sizeof(text), "%s", bad);
		fail(h, text);
		return;
	}
	if (!anywhere && strcasecmp(h->host, h->first_host) != 0) {
		snprintf(why, sizeof(why), "the redirect to the host %s is not followed (follow_redirects in "
		    "rpcd.conf)", h->host);
		answered(h, code, why);
		return;
	}
	h->get = h->get || drops_body(h, code);
	tail_done(&h->body);
	tail_init(&h->body, h->check->output_max);
	h->status[0] = '\0';
	request(h);
}

/* -- one request -- */

/* "connection refused", or what libcurl says. */
static void
transport_failed(struct http *h, CURLcode rc)
{
	char why[CURL_ERROR_SIZE + 128], addr[RESOLVE_TEXT_BYTES], text[64];
	long error = 0;

	(void)curl_easy_getinfo(h->easy, CURLINFO_OS_ERRNO, &error);
	if (rc == CURLE_OPERATION_TIMEDOUT) {
		h->check->checker->stats.timed_out++;
		snprintf(why, sizeof(why), "context deadline exceeded (Client.Timeout exceeded while %s)",
		    h->head_bytes == 0 ? "awaiting headers" : "reading body");
	} else if (rc == CURLE_COULDNT_CONNECT && error != 0 && h->addresses.n > 0) {
		struct address *a = &h->addresses.v[h->addresses.n - 1];

		address_set_port(a, (uint16_t)h->port);
		snprintf(why, sizeof(why), "dial tcp %s: connect: %s", address_text(a, addr),
		    reason_of_errno((int)error, text, sizeof(text)));
	} else {
		snprintf(why, sizeof(why), "%s", h->error[0] != '\0' ? h->error : curl_easy_strerror(rc));
	}
	fail(h, why);
}

static void
request_done(struct http *h, CURLcode rc)
{
	char *to = NULL;
	long code = 0;

	(void)curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &code);
	if (h->flooded) {
		fail(h, "response headers are longer than 64 KiB");
		return;
	}
	if (rc != CURLE_OK && !h->enough) {
		transport_failed(h, rc);
		return;
	}
	(void)curl_easy_getinfo(h->easy, CURLINFO_REDIRECT_URL, &to);
	if (to != NULL && (code == 301 || code == 302 || code == 303 || code == 307 || code == 308))
		follow(h, code, to);
	else
		answered(h, code, NULL);
}

static bool
add(struct curl_slist **list, const char *text)
{
	struct curl_slist *more = curl_slist_append(*list, text);

	if (more != NULL)
		*list = more;
	return more != NULL;
}

static bool
configured(const struct check_run *d, const char *name)
{
	size_t len = strlen(name);

	for (uint32_t i = 0; i < d->Header.n; i++)
		if (d->Header.v[i].len > len && strncasecmp((const char *)d->Header.v[i].p, name, len) == 0 &&
		    d->Header.v[i].p[len] == ':')
			return true;
	return false;
}

/* Another host gets nothing that was meant for the first one. */
static bool
set_headers(struct http *h)
{
	static const char *const ours[][2] = {
		{ "User-Agent", "User-Agent: Consul Health Check" }, { "Accept", "Accept: text/plain, text/*, */*" },
		{ "Content-Type", "Content-Type:" },
	};
	const struct check_run *d = &h->check->def;
	bool home = strcasecmp(h->host, h->first_host) == 0, ok = true;
	char text[HOST_BYTES_MAX + 16];

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (!home || !configured(d, ours[i][0]))
			ok = ok && add(&h->headers, ours[i][1]);
	ok = ok && add(&h->headers, "Connection: close") && add(&h->headers, "Expect:");
	for (uint32_t i = 0; i < d->Header.n && home && ok; i++) {
		char *line = span_dup(d->Header.v[i]);
		size_t len = line == NULL ? 0 : strlen(line);

		if (len > 2 && strcmp(line + len - 2, ": ") == 0)
			strcpy(line + len - 2, ";");	/* libcurl's form of a header without value */
		ok = line != NULL && add(&h->headers, line);
		free(line);
	}
	if (d->TLSServerName.len > 0 && h->redirects == 0 && !configured(d, "Host")) {
		snprintf(text, sizeof(text), h->port == 80 || h->port == 443 ? "Host: %s" : "Host: %s:%u", h->host,
		    h->port);
		ok = ok && add(&h->headers, text);
	}
	return ok;
}

/* The name that libcurl connects to, and its addresses: it asks nobody for them. */
static bool
set_place(struct http *h)
{
	char addr[RESOLVE_TEXT_BYTES];
	struct span server = h->redirects == 0 ? h->check->def.TLSServerName : SPAN_NONE;
	struct buf text = BUF_INIT(4096);
	struct addresses literal;

	if (server.len == 0 && resolve_literal(h->host, &literal))
		return true;
	buf_u8(&text, '+');
	buf_putspan(&text, server.len > 0 ? server : span_str(h->host));
	buf_printf(&text, ":%u:", h->port);
	for (unsigned i = 0; i < h->addresses.n; i++) {
		address_set_port(&h->addresses.v[i], 0);
		address_text(&h->addresses.v[i], addr);
		buf_printf(&text, strchr(addr, ':') != NULL ? "%s[%s]" : "%s%s", i > 0 ? "," : "", addr);
	}
	bool ok = add(&h->places, buf_cstr(&text)) && !text.failed;
	buf_done(&text);
	return ok;
}

static void
set_method(struct http *h)
{
	const struct check_run *d = &h->check->def;
	char name[32];

	if (h->get)
		return;
	if (d->Body.len > 0) {
		curl_easy_setopt(h->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)d->Body.len);
		curl_easy_setopt(h->easy, CURLOPT_POSTFIELDS, d->Body.p);
	}
	if (span_eqs(method(h), "HEAD"))
		curl_easy_setopt(h->easy, CURLOPT_NOBODY, 1L);
	else if ((d->Body.len > 0 || !span_eqs(method(h), "GET")) && span_copy(method(h), name, sizeof(name)))
		curl_easy_setopt(h->easy, CURLOPT_CUSTOMREQUEST, name);
}

static bool
set_all(struct http *h)
{
	CURL *e = h->easy;
	bool verify = !h->check->def.TLSSkipVerify;
	int64_t left = mono_ms(mono_sub(h->deadline, clock_mono()));

	if (!set_place(h) || !set_headers(h))
		return false;
	curl_easy_setopt(e, CURLOPT_URL, h->url);
	curl_easy_setopt(e, CURLOPT_RESOLVE, h->places);
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, h->headers);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(e, CURLOPT_PROXY, "");
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, 1L);
	curl_easy_setopt(e, CURLOPT_FORBID_REUSE, 1L);
	curl_easy_setopt(e, CURLOPT_BUFFERSIZE, (long)RECEIVE_BYTES);
	curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)(left > 0 ? left : 1));
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)(left > 0 ? left : 1));
	curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, verify ? 1L : 0L);
	curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, verify ? 2L : 0L);
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, h);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, h);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, h->error);
	curl_easy_setopt(e, CURLOPT_PRIVATE, h);
	curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
	set_method(h);
	return true;
}

static void
dial(struct http *h)
{
	struct http_probes *p = h->check->checker->http;

	ev_timer_stop(p->loop, &h->timer);	/* from here on libcurl has the deadline */
	h->head_bytes = 0;
	h->error[0] = '\0';
	h->easy = p->idle_count > 0 ? p->idle[--p->idle_count] : curl_easy_init();
	if (h->easy == NULL || !set_all(h) || curl_multi_add_handle(p->multi, h->easy) != CURLM_OK)
		fail(h, "out of memory");
}

static void
on_found(void *ctx, const struct addresses *found, const char *why)
{
	struct http *h = ctx;
	char text[HOST_BYTES_MAX + 64];

	h->lookup = NULL;
	if (found == NULL) {
		snprintf(text, sizeof(text), "dial tcp: lookup %s: %s", h->host, why);
		fail(h, text);
		return;
	}
	h->addresses = *found;
	dial(h);
}

static void
on_timeout(struct ev_loop *loop, ev_timer *w, int events)
{
	struct http *h = w->data;
	char text[HOST_BYTES_MAX + 64];

	(void)loop;
	(void)events;
	h->check->checker->stats.timed_out++;
	snprintf(text, sizeof(text), "dial tcp: lookup %s: i/o timeout", h->host);
	fail(h, text);
}

static void
request(struct http *h)
{
	struct checker *k = h->check->checker;
	double left = mono_seconds(mono_sub(h->deadline, clock_mono()));

	if (resolve_literal(h->host, &h->addresses)) {
		dial(h);
		return;
	}
	ev_timer_set(&h->timer, left > 0 ? left : 0., 0.);
	ev_timer_start(k->loop, &h->timer);
	if ((h->lookup = resolve(k->resolver, h->host, on_found, h)) == NULL)
		fail(h, "out of memory");
}

/* -- a run -- */

static void
on_begin(struct ev_loop *loop, ev_timer *w, int events)
{
	struct http *h = w->data;
	char why[256], *url = span_dup(h->check->def.Target);

	(void)loop;
	(void)events;
	ev_set_cb(w, on_timeout);
	const char *bad = url == NULL ? "out of memory" : take_url(h, url, why, sizeof(why));
	free(url);
	if (bad == NULL && (h->first_host = strdup(h->host)) == NULL)
		bad = "out of memory";
	if (bad != NULL)
		fail(h, bad);
	else
		request(h);
}

static void
start(struct task *c)
{
	struct http *h = calloc(1, sizeof(*h));

	if (h == NULL) {
		check_done(c, HEALTH_CRITICAL, span_str("out of memory"), false);
		return;
	}
	h->check = c;
	c->run = h;
	h->deadline = mono_add(clock_mono(), c->timeout);
	tail_init(&h->body, c->output_max);
	ev_timer_init(&h->timer, on_begin, 0., 0.);
	h->timer.data = h;
	ev_feed_event(c->checker->loop, &h->timer, EV_TIMER);
}

static void
cancel(struct task *c)
{
	struct http *h = c->run;

	ev_clear_pending(c->checker->loop, &h->timer);
	http_free(h);
}

const struct probe_kind probe_http = { .name = "http", .timeout = { 10000000000 }, .start = start, .cancel = cancel };

/* -- libcurl on the loop -- */

struct watch {
	ev_io io;
	struct http_probes *probes;
};

static void
collect(struct http_probes *p)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(p->multi, &left)) != NULL) {
		CURLcode rc = m->data.result;
		struct http *h = NULL;

		if (m->msg == CURLMSG_DONE && curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &h) == CURLE_OK)
			request_done(h, rc);
	}
}

static void
on_io(struct ev_loop *loop, ev_io *w, int events)
{
	struct http_probes *p = ((struct watch *)w->data)->probes;
	int running;

	(void)loop;
	(void)curl_multi_socket_action(p->multi, w->fd, (events & EV_READ ? CURL_CSELECT_IN : 0) |
	    (events & EV_WRITE ? CURL_CSELECT_OUT : 0), &running);
	collect(p);
}

static void
on_timer(struct ev_loop *loop, ev_timer *w, int events)
{
	struct http_probes *p = w->data;
	int running;

	(void)loop;
	(void)events;
	(void)curl_multi_socket_action(p->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	collect(p);
}

static int
set_timer(CURLM *multi, long ms, void *ctx)
{
	struct http_probes *p = ctx;

	(void)multi;
	ev_timer_stop(p->loop, &p->timer);
	if (ms < 0)
		return 0;
	ev_timer_set(&p->timer, (double)ms / 1000., 0.);
	ev_timer_start(p->loop, &p->timer);
	return 0;
}

static int
watch_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *of_socket)
{
	struct http_probes *p = ctx;
	struct watch *w = of_socket;

	(void)easy;
	if (w != NULL)
		ev_io_stop(p->loop, &w->io);
	if (what == CURL_POLL_REMOVE) {
		free(w);
		curl_multi_assign(p->multi, fd, NULL);
		return 0;
	}
	if (w == NULL) {
		if ((w = calloc(1, sizeof(*w))) == NULL)
			return -1;
		w->probes = p;
		ev_init(&w->io, on_io);
		w->io.data = w;
		curl_multi_assign(p->multi, fd, w);
	}
	ev_io_set(&w->io, fd, (what & CURL_POLL_IN ? EV_READ : 0) | (what & CURL_POLL_OUT ? EV_WRITE : 0));
	ev_io_start(p->loop, &w->io);
	return 0;
}

struct http_probes *
http_probes_new(struct ev_loop *loop)
{
	struct http_probes *p = calloc(1, sizeof(*p));

	if (p == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || (p->multi = curl_multi_init()) == NULL) {
		free(p);
		return NULL;
	}
	p->loop = loop;
	ev_init(&p->timer, on_timer);
	p->timer.data = p;
	curl_multi_setopt(p->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
	curl_multi_setopt(p->multi, CURLMOPT_SOCKETDATA, p);
	curl_multi_setopt(p->multi, CURLMOPT_TIMERFUNCTION, set_timer);
	curl_multi_setopt(p->multi, CURLMOPT_TIMERDATA, p);
	curl_multi_setopt(p->multi, CURLMOPT_MAXCONNECTS, 1L);
	return p;
}
