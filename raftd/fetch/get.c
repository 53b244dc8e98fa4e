/* See get.h. */
#include <curl/curl.h>
#include <strings.h>

#include "common/base/clock.h"
#include "raftd/fetch/get.h"

struct transfer {
	struct buf *body;
	bool too_long;
	char error[CURL_ERROR_SIZE];
};

static size_t
on_body(char *bytes, size_t size, size_t n, void *ctx)
{
	struct transfer *t = ctx;

	buf_put(t->body, bytes, size * n);
	t->too_long = t->body->failed;
	return t->too_long ? 0 : size * n;
}

/* libcurl calls it at least once a second. */
static int
on_progress(void *ctx, curl_off_t in_all UNUSED, curl_off_t in UNUSED, curl_off_t out_all UNUSED, curl_off_t out UNUSED)
{
	const struct get_conf *conf = ctx;

	conf->pulse(conf->pulse_ctx);
	return 0;
}

bool
get_init(void)
{
	return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

static void
set_options(CURL *e, const char *url, const struct get_conf *conf, struct transfer *t)
{
	int64_t left = mono_ms(mono_sub(conf->until, clock_mono()));
	bool sealed = strncasecmp(url, "https:", 6) == 0;

	curl_easy_setopt(e, CURLOPT_URL, url);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(e, CURLOPT_REDIR_PROTOCOLS_STR, sealed ? "https" : "http,https");
	curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 1L);
	curl_easy_setopt(e, CURLOPT_MAXREDIRS, GET_REDIRECTS_MAX);
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_PROXY, "");
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)(left > 0 ? left : 1));
	curl_easy_setopt(e, CURLOPT_USERAGENT, "triumvir");
	curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 2L);
	if (conf->ca != NULL) {
		curl_easy_setopt(e, CURLOPT_CAINFO, conf->ca);
		curl_easy_setopt(e, CURLOPT_CAPATH, NULL);
	}
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->error);
	if (conf->pulse != NULL) {
		curl_easy_setopt(e, CURLOPT_NOPROGRESS, 0L);
		curl_easy_setopt(e, CURLOPT_XFERINFOFUNCTION, on_progress);
		curl_easy_setopt(e, CURLOPT_XFERINFODATA, conf);
	}
}

enum tv_err
get_url(const char *url, const struct get_conf *conf, struct buf *body, struct buf *why)
{
	struct transfer t = { .body = body };
	CURL *e = curl_easy_init();
	long status = 0;
	CURLcode rc;

	if (e == NULL)
		return TV_ENOMEM;
	set_options(e, url, conf, &t);
	rc = curl_easy_perform(e);
	(void)curl_easy_getinfo(e, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_cleanup(e);
	if (rc == CURLE_OK && status == 200)
		return TV_OK;
	buf_printf(why, "Get %s: ", url);
	if (t.too_long)
		buf_printf(why, "it answers with more than %zu bytes", body->max);
	else if (rc == CURLE_OPERATION_TIMEDOUT)
		buf_puts(why, "no whole answer in time");
	else if (rc != CURLE_OK)
		buf_puts(why, t.error[0] != '\0' ? t.error : curl_easy_strerror(rc));
	else
		buf_printf(why, "it answers with status %ld", status);
	return TV_EUNREACH;
}
