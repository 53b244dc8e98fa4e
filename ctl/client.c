/* HTTP client of clusterctl, see client.h. */
#include <curl/curl.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "ctl/client_int.h"
#include "ctl/ctl.h"

#define ANSWER_BYTES_MAX (256u << 20)
#define TELL_AFTER_S 2
#define EXPECT_MS 5000L			/* then it is sent without having been asked for */

/* Of Consul's environment: what is set and has no meaning here is told, once. */
static void
tell_unused(void)
{
	static const char tenants[] = "there are no namespaces and partitions here";
	static const struct { const char *name, *why; } all[] = {
		{ "CONSUL_NAMESPACE", tenants }, { "CONSUL_PARTITION", tenants },
		{ "CONSUL_HTTP_AUTH", "rpcd knows tokens, and no other passwords" },
	};
	static bool told;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && !told; i++) {
		const char *value = getenv(all[i].name);

		if (value != NULL && value[0] != '\0' && strcmp(value, "0") != 0 && strcmp(value, "false") != 0)
			fprintf(stderr, "clusterctl: %s is set, and not used: %s\n", all[i].name, all[i].why);
	}
	told = true;
}

static struct client *
new_handle(void)
{
	struct client *c = calloc(1, sizeof(*c));

	if (c == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != 0 || (c->curl = curl_easy_init()) == NULL) {
		fprintf(stderr, "clusterctl: cannot set up the HTTP client\n");
		exit(1);
	}
	return c;
}

static void
show_token(struct client *c, const char *token, const char *from)
{
	if (token == NULL || token[0] == '\0')
		return;
	c->token = ctl_must(strdup(token));
	c->token_from = from;
}

struct client *
client_new(const struct endpoint_given *given, const char *token, const char *from)
{
	struct client *c = new_handle();
	char why[512];

	tell_unused();
	if (!endpoint_find(given, &c->at, why, sizeof(why))) {
		fprintf(stderr, "clusterctl: %s\n", why);
		exit(2);
	}
	if (c->at.tls && !client_tls_load(c))
		exit(1);
	show_token(c, token, from);
	return c;
}

struct client *
client_new_own(const char *addr, const char *token)
{
	struct client *c = new_handle();
	struct buf base = BUF_INIT(4096);

	c->at.addr = ctl_must(strdup(addr));
	buf_printf(&base, "http://%s", addr);
	c->at.base = ctl_must(strdup(buf_cstr(&base)));
	buf_done(&base);
	show_token(c, token, NULL);
	return c;
}

struct client *
client_new_url(const char *url)
{
	struct client *c = new_handle();

	c->at.addr = ctl_must(strdup(url));
	c->at.base = ctl_must(strdup(url));
	c->foreign = true;
	return c;
}

void
client_set_header(struct client *c, const char *name, const char *value)
{
	struct buf b = BUF_INIT(65536);

	buf_printf(&b, "%s: %s", name, value);
	curl_slist_free_all(c->more);
	c->more = curl_slist_append(NULL, buf_cstr(&b));
	buf_done(&b);
}

void
client_free(struct client *c)
{
	if (c == NULL)
		return;
	curl_slist_free_all(c->more);
	curl_easy_cleanup(c->curl);
	curl_global_cleanup();
	curl_slist_free_all(c->connect_to);
	buf_done(&c->ca);
	endpoint_done(&c->at);
	client_forget_token(c);
	free(c);
}

void
client_forget_token(struct client *c)
{
	if (c->token != NULL)
		sodium_memzero(c->token, strlen(c->token));
	free(c->token);
	c->token = NULL;
	c->token_from = NULL;
}

const char *
client_token_from(const struct client *c)
{
	return c->token_from;
}

const char *
client_addr(const struct client *c)
{
	return c->at.addr;
}

const char *
client_socket(const struct client *c)
{
	return c->at.unix_path;
}

static size_t
on_body(char *data, size_t size, size_t n, void *ctx)
{
	struct client_answer *a = ctx;

	buf_put(&a->body, data, size * n);
	return a->body.failed ? 0 : size * n;
}

static size_t
on_header(char *data, size_t size, size_t n, void *ctx)
{
	static const char name[] = "X-Consul-Index:", filtered[] = "X-Consul-Results-Filtered-By-ACLs: true",
	    denies[] = "X-Consul-Default-ACL-Policy: deny", reason[] = "X-Consul-Reason: ";
	struct client_answer *a = ctx;

	if (size * n > sizeof(name) && strncasecmp(data, name, sizeof(name) - 1) == 0)
		a->index = strtoull(data + sizeof(name) - 1, NULL, 10);
	if (size * n >= sizeof(filtered) && strncasecmp(data, filtered, sizeof(filtered) - 1) == 0)
		a->filtered = true;
	if (size * n >= sizeof(denies) && strncasecmp(data, denies, sizeof(denies) - 1) == 0)
		a->denies = true;
	if (size * n >= sizeof(reason) && strncasecmp(data, reason, sizeof(reason) - 1) == 0)
		snprintf(a->reason, sizeof(a->reason), "%.*s", (int)(strcspn(data, "\r\n") - sizeof(reason) + 1),
		    data + sizeof(reason) - 1);
	return size * n;
}

static size_t
on_upload(char *dst, size_t size, size_t n, void *ctx)
{
	struct span *left = ctx;
	size_t take = left->len < size * n ? left->len : size * n;

	if (take > 0)
		memcpy(dst, left->p, take);
	left->p += take;
	left->len -= take;
	return take;
}

static struct curl_slist *
request_headers(const struct client *c, const char *expect)
{
	struct buf b = BUF_INIT(8192);
	struct curl_slist *list = curl_slist_append(NULL, expect);

	b.secret = true;
	if (c->token != NULL) {
		buf_printf(&b, "X-Consul-Token: %s", c->token);
		list = curl_slist_append(list, buf_cstr(&b));
		buf_done(&b);
	}
	for (const struct curl_slist *h = c->more; h != NULL; h = h->next)
		list = curl_slist_append(list, h->data);
	if (c->foreign)
		list = curl_slist_append(list, "Content-Type: application/json");
	if (c->at.host != NULL) {
		buf_printf(&b, "Host: %s", c->at.host);
		list = curl_slist_append(list, buf_cstr(&b));
		buf_done(&b);
	}
	return list;
}

/* libcurl speaks of localhost and port 80 when it means a unix socket. */
static void
explain(const struct client *c, CURLcode rc, struct client_answer *out)
{
	long sys = 0;

	(void)curl_easy_getinfo(c->curl, CURLINFO_OS_ERRNO, &sys);
	out->late = rc == CURLE_OPERATION_TIMEDOUT;
	if (rc == CURLE_OPERATION_TIMEDOUT && c->deadline.ns != 0)
		snprintf(out->error, sizeof(out->error), "no answer in time; --timeout gives more");
	else if (c->at.unix_path != NULL && rc == CURLE_COULDNT_CONNECT && sys != 0)
		snprintf(out->error, sizeof(out->error), "%s%s", strerror((int)sys),
		    sys == EACCES ? " (root and the group triumvir may use it)" : "");
	else if (out->error[0] == '\0')
		snprintf(out->error, sizeof(out->error), "%s", curl_easy_strerror(rc));
	out->remedy = client_tls_remedy(c, rc, out->error);
}

/* What all requests have in common; the headers are the caller's to free.  expect: a header, or "Expect:" for none. */
static struct curl_slist *
prepare_expecting(struct client *c, const char *path, const char *expect, struct client_answer *out)
{
	struct buf url = BUF_INIT(1u << 20);
	struct curl_slist *headers = request_headers(c, expect);

	*out = (struct client_answer){ .body = BUF_INIT(ANSWER_BYTES_MAX) };
	out->body.secret = true;		/* it may be a token */
	buf_printf(&url, "%s%s", c->at.base, path);
	curl_easy_reset(c->curl);
	curl_easy_setopt(c->curl, CURLOPT_URL, buf_cstr(&url));
	curl_easy_setopt(c->curl, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(c->curl, CURLOPT_PROXY, "");
	curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c->curl, CURLOPT_PROTOCOLS_STR, c->foreign ? "http,https" : c->at.tls ? "https" : "http");
	if (c->at.unix_path != NULL)
		curl_easy_setopt(c->curl, CURLOPT_UNIX_SOCKET_PATH, c->at.unix_path);
	if (c->at.tls)
		client_tls_prepare(c);
	curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(c->curl, CURLOPT_CONNECTTIMEOUT, 5L);
	curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, out);
	curl_easy_setopt(c->curl, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(c->curl, CURLOPT_HEADERDATA, out);
	curl_easy_setopt(c->curl, CURLOPT_ERRORBUFFER, out->error);
	buf_done(&url);			/* libcurl has its own copy */
	return headers;
}

static struct curl_slist *
prepare(struct client *c, const char *path, struct client_answer *out)
{
	return prepare_expecting(c, path, "Expect:", out);
}

void
client_limit(struct client *c)
{
	int64_t ms = mono_ms(mono_sub(c->deadline, clock_mono()));

	if (c->deadline.ns != 0)
		curl_easy_setopt(c->curl, CURLOPT_TIMEOUT_MS, ms < 0 ? 1L : (long)ms + 1);
}

bool
client_settle(struct client *c, CURLcode rc, struct curl_slist *headers, struct client_answer *out)
{
	long began = 0;

	(void)curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &began);
	if (rc == CURLE_OK)
		out->status = began;
	else
		explain(c, rc, out);
	out->broke_off = rc != CURLE_OK && began >= 200;
	for (struct curl_slist *h = headers; h != NULL; h = h->next)
		sodium_memzero(h->data, strlen(h->data));
	curl_slist_free_all(headers);
	return out->status >= 200 && out->status < 300;
}

static bool
perform(struct client *c, struct curl_slist *headers, struct client_answer *out)
{
	CURLcode rc = CURLE_OPERATION_TIMEDOUT;

	client_limit(c);
	if (!client_late(c))
		rc = curl_easy_perform(c->curl);
	return client_settle(c, rc, headers, out);
}

void
client_within(struct client *c, struct mono limit)
{
	c->deadline = mono_add(clock_mono(), limit);
}

bool
client_late(const struct client *c)
{
	return c->deadline.ns != 0 && !mono_before(clock_mono(), c->deadline);
}

void
client_quiet(struct client *c, bool on)
{
	c->quiet = on;
}

struct waiting {
	struct progress p;
	struct mono since;
	const char *addr;
};

static int
on_wait(void *ctx, curl_off_t down_total UNUSED, curl_off_t down UNUSED, curl_off_t up_total UNUSED,
    curl_off_t up UNUSED)
{
	struct waiting *w = ctx;
	int64_t s = mono_ms(mono_sub(clock_mono(), w->since)) / 1000;

	if (s >= TELL_AFTER_S)
		progress_show(&w->p, "waiting for an answer from %s, for %lld s now", w->addr, (long long)s);
	return 0;
}

static void
tell_while_waiting(struct client *c, struct waiting *w)
{
	*w = (struct waiting){ .since = clock_mono(), .addr = c->at.addr };
	progress_init(&w->p);
	if (c->quiet || !w->p.tty)
		return;
	curl_easy_setopt(c->curl, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(c->curl, CURLOPT_XFERINFOFUNCTION, on_wait);
	curl_easy_setopt(c->curl, CURLOPT_XFERINFODATA, w);
}

struct curl_slist *
client_prepare(struct client *c, const char *method, const char *path, struct span *body, long timeout_s,
    struct client_answer *out)
{
	struct curl_slist *headers = prepare(c, path, out);

	curl_easy_setopt(c->curl, CURLOPT_TIMEOUT, timeout_s);
	if (strcmp(method, "PUT") == 0 || body->len > 0) {
		curl_easy_setopt(c->curl, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(c->curl, CURLOPT_READFUNCTION, on_upload);
		curl_easy_setopt(c->curl, CURLOPT_READDATA, body);
		curl_easy_setopt(c->curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)body->len);
	}
	if (strcmp(method, "PUT") != 0 && strcmp(method, "GET") != 0)
		curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, method);
	return headers;
}

bool
client_do(struct client *c, const char *method, const char *path, struct span body, long timeout_s,
    struct client_answer *out)
{
	struct span left = body;
	struct curl_slist *headers = client_prepare(c, method, path, &left, timeout_s, out);
	struct waiting w;
	bool ok;

	tell_while_waiting(c, &w);
	ok = perform(c, headers, out);
	progress_wipe(&w.p);
	return ok;
}

struct transfer {
	struct client *client;
	FILE *file;
	client_tick *tick;
	void *ctx;
	bool upload;
	bool at_once;			/* what comes is flushed */
	int failed;			/* errno of the file; 0: it is fine */
	struct client_answer *out;
};

/* A refusal is short and kept. */
static size_t
on_download(char *data, size_t size, size_t n, void *ctx)
{
	struct transfer *t = ctx;
	long status = 0;

	curl_easy_getinfo(t->client->curl, CURLINFO_RESPONSE_CODE, &status);
	if (status != 200)
		return on_body(data, size, n, t->out);
	errno = 0;
	if (fwrite(data, 1, size * n, t->file) == size * n && (!t->at_once || fflush(t->file) == 0))
		return size * n;
	t->failed = errno != 0 ? errno : EIO;
	return 0;
}

static size_t
on_read(char *dst, size_t size, size_t n, void *ctx)
{
	struct transfer *t = ctx;
	size_t got;

	errno = 0;
	got = fread(dst, 1, size * n, t->file);
	if (got > 0 || !ferror(t->file))
		return got;
	t->failed = errno != 0 ? errno : EIO;
	return CURL_READFUNC_ABORT;
}

static int
on_tick(void *ctx, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
	struct transfer *t = ctx;

	t->tick(t->ctx, (uint64_t)(t->upload ? up : down), (uint64_t)(t->upload ? up_total : down_total));
	return 0;
}

static bool
perform_transfer(struct transfer *t, struct curl_slist *headers)
{
	CURL *curl = t->client->curl;
	bool ok;

	curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_tick);
	curl_easy_setopt(curl, CURLOPT_XFERINFODATA, t);
	curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 262144L);
	curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 262144L);
	ok = perform(t->client, headers, t->out);
	t->out->file_failed = t->failed != 0;
	if (t->failed != 0)
		snprintf(t->out->error, sizeof(t->out->error), "%s", strerror(t->failed));
	return ok && t->failed == 0;
}

void
client_stream(struct client *c, const char *path, FILE *to, struct client_answer *out)
{
	struct transfer t = { .client = c, .file = to, .at_once = true, .out = out };
	struct curl_slist *headers = prepare(c, path, out);

	curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, on_download);
	curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, &t);
	(void)perform(c, headers, out);		/* *out tells */
}

bool
client_download(struct client *c, const char *path, FILE *to, client_tick *tick, void *ctx, struct client_answer *out)
{
	struct transfer t = { .client = c, .file = to, .tick = tick, .ctx = ctx, .out = out };
	struct curl_slist *headers = prepare(c, path, out);

	curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, on_download);
	curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, &t);
	return perform_transfer(&t, headers);
}

bool
client_upload(struct client *c, const char *path, FILE *from, uint64_t size, client_tick *tick, void *ctx,
    struct client_answer *out)
{
	struct transfer t = { .client = c, .file = from, .tick = tick, .ctx = ctx, .upload = true, .out = out };
	/* What is refused at once is not sent: the connection would break, and the sentence be lost with it. */
	struct curl_slist *headers = prepare_expecting(c, path, "Expect: 100-continue", out);

	curl_easy_setopt(c->curl, CURLOPT_EXPECT_100_TIMEOUT_MS, EXPECT_MS);
	curl_easy_setopt(c->curl, CURLOPT_UPLOAD, 1L);
	curl_easy_setopt(c->curl, CURLOPT_READFUNCTION, on_read);
	curl_easy_setopt(c->curl, CURLOPT_READDATA, &t);
	curl_easy_setopt(c->curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)size);
	return perform_transfer(&t, headers);
}

void
client_answer_done(struct client_answer *a)
{
	buf_done(&a->body);
}

void
client_keep_bytes(struct client *c, bool keep)
{
	c->keep_bytes = keep;
}

bool
client_keeps_bytes(const struct client *c)
{
	return c->keep_bytes;
}
