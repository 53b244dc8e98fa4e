/*
 * HTTP checks, by libcurl's multi interface on the loop.  Whatever a server answers costs a bounded amount: of the body
 * the end is kept, and no more than BODY_BYTES_READ is read; HEAD_BYTES_MAX of headers end the run; so does the
 * timeout, however much has come by then.
 *
 * Redirects are followed here and not by libcurl, since only to the same host they are followed in any case.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "rpcd/check/checker.h"
#include "rpcd/check/credentials.h"
#include "rpcd/check/curl_loop.h"
#include "rpcd/check/reason.h"
#include "rpcd/check/resolve.h"
#include "rpcd/check/tail.h"
#include "rpcd/check/url.h"

#define BODY_BYTES_READ (1u << 20)
#define HEAD_BYTES_MAX (64u << 10)
#define REDIRECTS_MAX 10
#define HOST_BYTES_MAX 256
#define STATUS_BYTES_MAX 128
#define RECEIVE_BYTES 16384
#define URL_BYTES_SHORT 1024		/* the request is one packet */

/* What the first run made of a check's URL, which stays the same: task.kept. */
struct place {
	unsigned port;
	bool plain;			/* http, without user and password, and short */
	size_t url;			/* in text, behind the host */
	char text[];
};

struct http {
	struct probe_run run;		/* first; its timer runs while a name is looked up */
	struct transfer transfer;
	struct curl_slist *headers, *places;
	bool common;			/* headers are those of all, and not owned */
	const char *url;		/* of this request: the place's, or to */
	char *to;			/* that of a redirect; libcurl's memory */
	char host[HOST_BYTES_MAX];	/* in it */
	const char *first_host;		/* of the first request: the place's */
	unsigned port, redirects;
	bool literal;			/* host is an address */
	bool get;			/* a redirect turned it into one */
	bool usual;			/* a plain GET with nothing set but what all have */
	bool flooded, enough;		/* too many headers; the body was long enough */
	struct lookup *lookup;
	size_t head_bytes;
	char status[STATUS_BYTES_MAX];	/* "200 OK" */
	struct addresses addresses;
	struct tail body;
	char error[TLS_WHY_BYTES];
	_Static_assert(TLS_WHY_BYTES >= CURL_ERROR_SIZE, "libcurl writes into it");
};

static void request(struct http *h);

/* -- the end of a run -- */

static void
release_easy(struct http *h)
{
	transfer_end(h->run.check->checker->curl, &h->transfer);
	if (!h->common)
		curl_slist_free_all(h->headers);
	curl_slist_free_all(h->places);
	h->headers = h->places = NULL;
	h->common = false;
}

static void
http_clear(struct probe_run *r)
{
	struct http *h = (struct http *)r;

	release_easy(h);
	if (h->lookup != NULL)
		resolve_cancel(h->lookup);
	curl_free(h->to);
	tail_done(&h->body);
}

/* The method that is configured, as the output shows it. */
static struct span
method(const struct http *h)
{
	return h->run.check->def.Method.len > 0 ? h->run.check->def.Method : span_str("GET");
}

/* 'Get "http://h:1/": reason' */
static void __attribute__((format(printf, 2, 3)))
fail_http(struct http *h, const char *fmt, ...)
{
	struct buf out = BUF_INIT(OUTPUT_BYTES_MAX);
	struct span m = method(h);
	va_list ap;

	for (size_t i = 0; i < m.len; i++)
		buf_u8(&out, i > 0 && m.p[i] >= 'A' && m.p[i] <= 'Z' ? (uint8_t)(m.p[i] | 0x20) : m.p[i]);
	buf_puts(&out, " \"");
	buf_putspan(&out, h->run.check->def.Target);
	buf_puts(&out, "\": ");
	va_start(ap, fmt);
	buf_vprintf(&out, fmt, ap);
	va_end(ap);
	run_end(&h->run, HEALTH_CRITICAL, &out, false);
}

static void
answered(struct http *h, long code, const char *remark)
{
	struct buf out = BUF_INIT(OUTPUT_BYTES_MAX * 2);

	buf_puts(&out, "HTTP ");
	buf_putspan(&out, method(h));
	buf_u8(&out, ' ');
	buf_putspan(&out, h->run.check->def.Target);
	buf_printf(&out, ": %s Output: ", h->status);
	if (remark != NULL)
		buf_puts(&out, remark);
	else
		buf_putspan(&out, tail_span(&h->body));
	run_end(&h->run, code / 100 == 2 ? HEALTH_PASSING : code == 429 ? HEALTH_WARNING : HEALTH_CRITICAL, &out,
	    false);
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
	CURLUcode rc = curl_url_set(u, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME | CURLU_PATH_AS_IS);
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
	if (ok && h->run.check->def.TLSServerName.len > 0 && h->first_host == NULL) {
		/* What is asked for by TLS is in the URL; where to connect to, and Host, are said besides. */
		char name[HOST_BYTES_MAX];

		ok = span_copy(h->run.check->def.TLSServerName, name, sizeof(name)) &&
		    curl_url_set(u, CURLUPART_HOST, name, 0) == CURLUE_OK;
	}
	curl_free(h->to);
	h->to = NULL;
	ok = ok && curl_url_get(u, CURLUPART_URL, &h->to, 0) == CURLUE_OK;
	h->url = h->to;
	curl_url_cleanup(u);
	return ok ? NULL : why;
}

/* The place of the check, which the first run finds out. */
static const char *
take_place(struct http *h, char *why, size_t cap)
{
	struct task *c = h->run.check;
	struct place *p = c->kept;

	if (p == NULL) {
		struct buf text = BUF_INIT(3 * c->def.Target.len + 16);
		char *target = url_to_ask(c->def.Target, &text) && !text.failed ? span_dup(buf_span(&text)) : NULL;
		const char *bad = target == NULL ? "malformed URL" : take_url(h, target, why, cap);
		size_t host = strlen(h->host) + 1, url = h->url == NULL ? 0 : strlen(h->url) + 1;

		free(target);
		buf_done(&text);
		if (bad != NULL || (p = malloc(sizeof(*p) + host + url)) == NULL)
			return bad != NULL ? bad : "out of memory";
		*p = (struct place){ .port = h->port, .url = host,
		    .plain = strncmp(h->url, "http://", 7) == 0 && strchr(h->url, '@') == NULL &&
		    url < URL_BYTES_SHORT };
		memcpy(p->text, h->host, host);
		memcpy(p->text + host, h->url, url);
		c->kept = p;
	}
	h->url = p->text + p->url;
	h->first_host = p->text;
	h->port = p->port;
	h->usual = p->plain && c->def.Body.len == 0 && c->def.TLSServerName.len == 0 && c->def.Header.n == 0 &&
	    span_eqs(method(h), "GET");
	memcpy(h->host, p->text, p->url);
	return NULL;
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
		len = len < sizeof(h->status) ? len : sizeof(h->status) - 1;
		memcpy(h->status, line.p + at, len);
		h->status[len] = '\0';
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
	bool anywhere = h->run.check->checker->setup.follow_redirects;

	if (url == NULL) {
		fail_http(h, "out of memory");
		return;
	}
	release_easy(h);
	const char *bad = take_url(h, url, why, sizeof(why));
	free(url);
	if (bad == NULL && ++h->redirects > REDIRECTS_MAX)
		bad = "stopped after 10 redirects";
	if (bad != NULL) {
		fail_http(h, "%s", bad);
		return;
	}
	if (!anywhere && strcasecmp(h->host, h->first_host) != 0) {
		snprintf(why, sizeof(why), "the redirect to the host %s is not followed (follow_redirects in "
		    "rpcd.conf)", h->host);
		answered(h, code, why);
		return;
	}
	h->get = h->get || drops_body(h, code);
	h->usual = false;
	tail_done(&h->body);
	tail_init(&h->body, h->run.check->output_max);
	h->status[0] = '\0';
	request(h);
}

/* -- one request -- */

/* "connection refused", or what libcurl says. */
static void
transport_failed(struct http *h, CURLcode rc)
{
	char addr[RESOLVE_TEXT_BYTES], text[64];
	long error = 0;

	(void)curl_easy_getinfo(h->transfer.easy, CURLINFO_OS_ERRNO, &error);
	if (rc == CURLE_OPERATION_TIMEDOUT) {
		h->run.check->checker->stats.timed_out++;
		fail_http(h, "context deadline exceeded (Client.Timeout exceeded while %s)",
		    h->head_bytes == 0 ? "awaiting headers" : "reading body");
	} else if (rc == CURLE_COULDNT_CONNECT && error != 0 && h->addresses.n > 0) {
		union addr_sock *a = &h->addresses.v[h->addresses.n - 1];

		a->v4.sin_port = htons((uint16_t)h->port);
		fail_http(h, "dial tcp %s: connect: %s", address_text(a, addr),
		    reason_of_errno((int)error, text, sizeof(text)));
	} else {
		fail_http(h, "%s", h->error[0] != '\0' ? h->error : curl_easy_strerror(rc));
	}
}

/* The handle as it is, for another check: less work than to set all anew. */
static void
keep_easy(struct http *h)
{
	CURL *e = h->transfer.easy;

	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, NULL);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, NULL);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, NULL);
	curl_easy_setopt(e, CURLOPT_RESOLVE, NULL);
	transfer_keep(h->run.check->checker->curl, &h->transfer);
}

static void
request_done(struct transfer *t, CURLcode rc)
{
	struct http *h = (struct http *)(void *)((char *)t - offsetof(struct http, transfer));
	char *to = NULL;
	long code = 0;

	(void)curl_easy_getinfo(h->transfer.easy, CURLINFO_RESPONSE_CODE, &code);
	if (h->flooded) {
		fail_http(h, "response headers are longer than 64 KiB");
		return;
	}
	if (rc != CURLE_OK && !h->enough) {
		transport_failed(h, rc);
		return;
	}
	(void)curl_easy_getinfo(h->transfer.easy, CURLINFO_REDIRECT_URL, &to);
	if (h->usual && rc == CURLE_OK && to == NULL)
		keep_easy(h);
	if (to != NULL && !h->run.check->def.DisableRedirects &&
	    (code == 301 || code == 302 || code == 303 || code == 307 || code == 308))
		follow(h, code, to);
	else
		answered(h, code, NULL);
}

static bool
add_header(struct curl_slist **list, const char *text)
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
make_headers(struct http *h)
{
	static const char *const ours[][2] = {
		{ "User-Agent", "User-Agent: Consul Health Check" }, { "Accept", "Accept: text/plain, text/*, */*" },
		{ "Content-Type", "Content-Type:" },
	};
	const struct check_run *d = &h->run.check->def;
	bool home = strcasecmp(h->host, h->first_host) == 0, ok = true;
	char text[HOST_BYTES_MAX + 16];

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (!home || !configured(d, ours[i][0]))
			ok = ok && add_header(&h->headers, ours[i][1]);
	ok = ok && add_header(&h->headers, "Connection: close") && add_header(&h->headers, "Expect:");
	for (uint32_t i = 0; i < d->Header.n && home && ok; i++) {
		char *line = span_dup(d->Header.v[i]);
		size_t len = line == NULL ? 0 : strlen(line);

		if (len > 2 && strcmp(line + len - 2, ": ") == 0)
			strcpy(line + len - 2, ";");	/* libcurl's form of a header without value */
		ok = line != NULL && add_header(&h->headers, line);
		free(line);
	}
	if (d->TLSServerName.len > 0 && h->redirects == 0 && !configured(d, "Host")) {
		snprintf(text, sizeof(text), h->port == 80 || h->port == 443 ? "Host: %s" : "Host: %s:%u", h->host,
		    h->port);
		ok = ok && add_header(&h->headers, text);
	}
	return ok;
}

static bool
set_headers(struct http *h)
{
	static struct curl_slist *all;	/* of those that are usual */

	if (!h->usual)
		return make_headers(h);
	if (all == NULL) {
		if (!make_headers(h))
			return false;
		all = h->headers;
	}
	h->headers = all;
	h->common = true;
	return true;
}

/* The name that libcurl connects to, and its addresses: libcurl looks up no name. */
static bool
set_place(struct http *h)
{
	char addr[RESOLVE_TEXT_BYTES];
	struct span server = h->redirects == 0 ? h->run.check->def.TLSServerName : SPAN_NONE;
	struct buf text = BUF_INIT(4096);

	if (server.len == 0 && h->literal)
		return true;
	buf_u8(&text, '+');
	buf_putspan(&text, server.len > 0 ? server : span_str(h->host));
	buf_printf(&text, ":%u:", h->port);
	for (unsigned i = 0; i < h->addresses.n; i++) {
		h->addresses.v[i].v4.sin_port = 0;
		address_text(&h->addresses.v[i], addr);
		buf_printf(&text, strchr(addr, ':') != NULL ? "%s[%s]" : "%s%s", i > 0 ? "," : "", addr);
	}
	bool ok = add_header(&h->places, buf_cstr(&text)) && !text.failed;
	buf_done(&text);
	return ok;
}

static void
set_method(struct http *h)
{
	const struct check_run *d = &h->run.check->def;
	char name[32];

	if (h->get)
		return;
	if (d->Body.len > 0) {
		curl_easy_setopt(h->transfer.easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)d->Body.len);
		curl_easy_setopt(h->transfer.easy, CURLOPT_POSTFIELDS, d->Body.p);
	}
	if (span_eqs(method(h), "HEAD"))
		curl_easy_setopt(h->transfer.easy, CURLOPT_NOBODY, 1L);
	else if ((d->Body.len > 0 || !span_eqs(method(h), "GET")) && span_copy(method(h), name, sizeof(name)))
		curl_easy_setopt(h->transfer.easy, CURLOPT_CUSTOMREQUEST, name);
}

static void
ready(CURL *e)
{
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_BUFFERSIZE, (long)RECEIVE_BYTES);
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
}

/* libcurl's context of one connection gets what all checks have. */
static CURLcode
on_context(CURL *easy UNUSED, void *context, void *ctx)
{
	struct http *h = ctx;
	struct tls_client *client = credentials_now(h->run.check->checker->credentials, h->error);

	if (client == NULL)
		return CURLE_SSL_CERTPROBLEM;
	return tls_client_lend(client, context) ? CURLE_OK : CURLE_OUT_OF_MEMORY;
}

static void
set_tls(struct http *h)
{
	CURL *e = h->transfer.easy;
	bool verify = !h->run.check->def.TLSSkipVerify;

	curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, verify ? 1L : 0L);
	curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, verify ? 2L : 0L);
	curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(e, CURLOPT_CAINFO, NULL);
	curl_easy_setopt(e, CURLOPT_CAPATH, NULL);
	/* What libcurl keeps of authorities comes after on_context(), and sessions look at no certificate again. */
	curl_easy_setopt(e, CURLOPT_CA_CACHE_TIMEOUT, 0L);
	curl_easy_setopt(e, CURLOPT_SSL_SESSIONID_CACHE, 0L);
	curl_easy_setopt(e, CURLOPT_SSL_CTX_FUNCTION, on_context);
	curl_easy_setopt(e, CURLOPT_SSL_CTX_DATA, h);
}

/* Whatever the usual ones set here, keep_easy() leaves for the next one to set. */
static bool
set_all(struct http *h)
{
	CURL *e = h->transfer.easy;
	int64_t left = mono_ms(run_left(&h->run));

	if (!set_place(h) || !set_headers(h))
		return false;
	curl_easy_setopt(e, CURLOPT_URL, h->url);
	curl_easy_setopt(e, CURLOPT_RESOLVE, h->places);
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, h->headers);
	curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)left);
	/* Of its own it is 300 s, which a shorter time for all makes needless. */
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)(left < 300000 ? 0 : left));
	curl_easy_setopt(e, CURLOPT_HEADERDATA, h);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, h);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, h->error);
	curl_easy_setopt(e, CURLOPT_TCP_NODELAY, h->usual ? 0L : 1L);	/* one packet, and the answer */
	if (h->usual)
		return true;
	set_tls(h);
	set_method(h);
	return true;
}

static void
dial(struct http *h)
{
	struct checker *k = h->run.check->checker;

	ev_timer_stop(k->loop, &h->run.timer);	/* from here on libcurl has the deadline */
	h->head_bytes = 0;
	h->error[0] = '\0';
	h->transfer.done = request_done;
	if (!transfer_init(k->curl, &h->transfer, ready) || !set_all(h) || !transfer_start(k->curl, &h->transfer))
		fail_http(h, "out of memory");
}

static void
on_found(void *ctx, const struct addresses *found, const char *why)
{
	struct http *h = ctx;

	h->run.begun = mono_add(h->run.begun, resolve_queued(h->lookup));
	h->lookup = NULL;
	if (found == NULL) {
		fail_http(h, "dial tcp: lookup %s: %s", h->host, why);
		return;
	}
	h->addresses = *found;
	dial(h);
}

static struct mono
http_queued(const struct probe_run *r)
{
	return resolve_queued(((const struct http *)r)->lookup);
}

static void
http_expired(struct probe_run *r)
{
	struct http *h = (struct http *)r;

	r->check->checker->stats.timed_out++;
	fail_http(h, "dial tcp: lookup %s: i/o timeout", h->host);
}

static void
request(struct http *h)
{
	struct checker *k = h->run.check->checker;

	h->literal = resolve_literal(h->host, &h->addresses);
	if (h->literal) {
		dial(h);
		return;
	}
	run_arm(&h->run);
	if ((h->lookup = resolve(k->resolver, h->host, h->run.check->service, on_found, h)) == NULL)
		fail_http(h, "out of memory");
}

/* -- a run -- */

static void
http_begin(struct probe_run *r)
{
	struct http *h = (struct http *)r;
	char why[256];

	tail_init(&h->body, r->check->output_max);
	const char *bad = take_place(h, why, sizeof(why));
	if (bad != NULL)
		fail_http(h, "%s", bad);
	else
		request(h);
}

const struct probe_kind probe_http = { .name = "http", .timeout = { 10000000000 }, .size = sizeof(struct http),
	.begin = http_begin, .expired = http_expired, .queued = http_queued, .clear = http_clear };
