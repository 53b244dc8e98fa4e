/* The life of a request: from its head to its endpoint (endpoint.h), and to its end. */
#include <stdlib.h>
#include <strings.h>

#include "common/base/clock.h"
#include "rpcd/api/api.h"
#include "rpcd/api/audit.h"
#include "rpcd/api/gzip.h"
#include "rpcd/cache/cache.h"
#include "common/filter/filter.h"

static void
moved(struct request *r, struct span to)
{
	struct span raw, query;
	struct buf location = BUF_INIT(65536);

	target_split(r->head.target, &raw, &query);
	path_encode(to, &location);
	if (query.len > 0)
		buf_printf(&location, "?%.*s", SPAN_ARGS(query));
	const char *url = location.failed ? NULL : arena_cstr(&r->arena, buf_span(&location));
	buf_done(&location);
	if (url == NULL) {
		answer_empty(r, 414);
		return;
	}
	answer_header(r, "Location", url);
	if (strcmp(r->head.method, "GET") == 0) {
		buf_puts(&r->answer.body, "<a href=\"");
		for (const char *p = url; *p != '\0'; p++) {
			if (*p == '&')
				buf_puts(&r->answer.body, "&amp;");
			else if (*p == '"' || *p == '<' || *p == '>' || *p == '\'')
				buf_printf(&r->answer.body, "&#%d;", *p);
			else
				buf_u8(&r->answer.body, (uint8_t)*p);
		}
		buf_puts(&r->answer.body, "\">Moved Permanently</a>.\n\n");
		answer_header(r, "Content-Type", "text/html; charset=utf-8");
	}
	answer_finish(r, 301);
}

#define UNPRINTABLE "the path has characters that cannot be printed: disable_http_unprintable_char_filter in " \
	"rpcd.conf takes them, and keys that have them can be read and removed by /v1/txn"

/* What got a name that cannot be printed before such were refused can still be removed. */
static bool
takes_any_name(const struct request *r, struct span path)
{
	const struct endpoint_path *p = endpoint_find(path);

	return r->api->conf->disable_unprintable_filter || (p != NULL && p->rows->flags & ANY_NAME);
}

/* Sets r->path, or answers. */
static bool
take_path(struct request *r, struct span raw)
{
	struct span path, clean;
	enum tv_err err;

	if (span_eqs(raw, "*") && strcmp(r->head.method, "OPTIONS") == 0) {
		answer_empty(r, 200);		/* of the server as a whole (RFC 9110, 9.3.7) */
		return false;
	}
	err = path_decode(raw, &r->arena, &path);
	if (err != TV_OK) {
		answer_text(r, err == TV_EFORMAT ? 400 : 500, "%s",
		    err == TV_EFORMAT ? "400 Bad Request" : tv_strerror(err));
		return false;
	}
	if (!path_printable(path) && !takes_any_name(r, path)) {
		answer_header(r, "X-Consul-Reason", UNPRINTABLE);
		answer_empty(r, 400);
		return false;
	}
	clean = path_clean(path, &r->arena);
	if (clean.p == NULL) {
		answer_text(r, 500, "%s", tv_strerror(TV_ENOMEM));
		return false;
	}
	if (!span_eq(clean, path)) {
		moved(r, clean);
		return false;
	}
	r->path = path;
	return true;
}

static void
nothing_there(struct request *r)
{
	struct span folder = arena_printf(&r->arena, "%.*s/", SPAN_ARGS(r->path));
	const struct endpoint_path *p = folder.p == NULL ? NULL : endpoint_find(folder);

	if (p != NULL && p->len == folder.len)
		moved(r, folder);
	else if (is_not_served(r->path))
		answer_text(r, 404, "not served by this version");
	else
		answer_empty(r, 404);
}

/* Sets r->endpoint and r->rest; else answers 404, OPTIONS or 405. */
static bool
take_endpoint(struct request *r)
{
	const struct endpoint_path *p = endpoint_find(r->path);
	struct buf methods = BUF_INIT(256);
	struct endpoint_path part;

	if (p == NULL) {
		nothing_there(r);
		return false;
	}
	r->rest = span_of(r->path.p + p->len, r->path.len - p->len);
	part = endpoint_ending(p, r->path);
	r->endpoint = endpoint_row(&part, r->head.method);
	if (r->endpoint != NULL)
		return true;
	bool options = strcmp(r->head.method, "OPTIONS") == 0;
	r->endpoint = part.rows;
	endpoint_methods(&part, &methods);
	answer_headerf(r, "Allow", "%s%s", options || !(part.rows->flags & BARE_ALLOW) ? "OPTIONS," : "",
	    buf_cstr(&methods));
	buf_done(&methods);
	if (options)
		answer_empty(r, 200);
	else
		answer_text(r, 405, "method %s not allowed", r->head.method);
	return false;
}

static bool
take_query(struct request *r, struct span query)
{
	enum tv_err err = params_parse(query, &r->arena, &r->query);

	if (err == TV_ELIMIT)
		answer_text(r, 400, "Too many query parameters (limit: %d)", PARAMS_MAX);
	else if (err != TV_OK)
		answer_empty(r, 500);
	else
		r->endpoint = endpoint_variant(r->endpoint, &r->query);
	return err == TV_OK;
}

static uint64_t
body_limit(const struct api *api, enum endpoint_body kind)
{
	if (kind == BODY_STREAM)
		return api->conf->snapshot_bytes_max;
	if (kind == BODY_JSON || kind == BODY_BYTES || kind == BODY_KEY)
		return api->conf->body_bytes_max;
	if (kind == BODY_TXN && api->conf->txn_max_req_len > api->conf->kv_max_value_size)
		return api->conf->txn_max_req_len;
	return kind == BODY_VALUE || kind == BODY_TXN ? api->conf->kv_max_value_size : 0;
}

void
api_begin(struct api *api, struct request *r)
{
	struct span raw, query;

	r->api = api;
	r->id = ++api->next_id;
	LIST_INSERT_HEAD(&api->live, r, live);
	api->stats.requests++;
	api->stats.live++;
	r->answer.body.max = api->conf->answer_bytes_max;
	r->running = true;
	r->begun = clock_mono();
	target_split(r->head.target, &raw, &query);
	if (api_token_gate(r, raw, query) && take_path(r, raw) && take_endpoint(r) && take_query(r, query) &&
	    api_gates(r) && api_browser_guard(r) && limits_admit(r) && api_tenancy(r) && api_may_administer(r)) {
		api_warn_of_token(r);
		r->body_max = body_limit(api, r->endpoint->body);
		r->body.secret = r->scratch.secret = r->answer.body.secret = r->endpoint->body == BODY_KEY;
	}
	if (!r->answered && r->endpoint->body == BODY_STREAM)
		endpoint_run(r);
	r->running = false;
}

void
api_run(struct request *r)
{
	if (r->answered)
		return;
	r->running = true;
	if (r->endpoint->body != BODY_STREAM)
		endpoint_run(r);
	else if (r->feed_end != NULL)
		r->feed_end(r);
	r->running = false;
}

/* Copies an optional string of the head; false: no memory. */
static bool
keep_string(struct arena *a, const char **s)
{
	if (*s != NULL)
		*s = arena_cstr(a, span_str(*s));
	return *s != NULL;
}

/* Path and query are in the target, which alone is kept: a block of the arena would be larger. */
static bool
fold_target(struct request *r, struct arena *fresh)
{
	r->kept = malloc(r->head.target.len);
	if (r->kept == NULL)
		return false;
	memcpy(r->kept, r->head.target.p, r->head.target.len);
	r->head.target.p = r->kept;
	arena_wipe(&r->arena);
	arena_done(&r->arena);
	r->arena = *fresh;
	r->path = r->rest = r->op.dc = SPAN_NONE;
	r->query = (struct params){ .n = 0 };
	r->audit = NULL;
	r->folded = true;
	return true;
}

bool
api_fold(struct request *r)
{
	/* A filter was compiled in the arena; what a handler keeps may be there as well. */
	bool whole = r->filter != NULL || r->state != NULL || r->cancel != NULL || r->answer.header_count > 0;
	struct arena fresh = ARENA_INIT(REQUEST_ARENA_MAX), *a = whole ? &r->arena : &fresh;
	const char *token = r->head.token, *authorization = r->head.authorization;
	bool gzip = gzip_accepted(r->head.accept_encoding);

	if ((token != NULL && !keep_string(a, &token)) || (authorization != NULL && !keep_string(a, &authorization)) ||
	    (!whole && !fold_target(r, &fresh))) {
		arena_wipe(&fresh);
		arena_done(&fresh);
		return false;
	}
	r->head = (struct request_head){
		.method = "GET", .target = r->head.target, .accept_encoding = gzip ? "gzip" : NULL, .token = token,
		.authorization = authorization, .client_ip = r->head.client_ip, .on_loopback = r->head.on_loopback,
		.on_tls = r->head.on_tls, .peer_san = r->head.peer_san, .on_socket = r->head.on_socket,
		.uid = r->head.uid,
	};
	r->op.token = r->op.args = SPAN_NONE;	/* the router has them */
	buf_done(&r->scratch);
	buf_done(&r->body);
	buf_done(&r->answer.body);
	return true;
}

bool
api_unfold(struct request *r)
{
	struct span raw, query;
	size_t n;

	if (!r->folded)
		return true;
	r->folded = false;
	target_split(r->head.target, &raw, &query);
	if (path_decode(raw, &r->arena, &r->path) != TV_OK || params_parse(query, &r->arena, &r->query) != TV_OK)
		return false;
	n = strlen(r->endpoint->path);
	r->rest = span_of(r->path.p + n, r->path.len - n);
	api_query_dc(r);
	return true;
}

/* The client goes before it has all of its answer. */
static bool
is_cut_short(const struct request *r)
{
	return (r->call != NULL || r->cached != NULL || r->cancel != NULL) && (!r->answered || r->stream != NULL);
}

void
api_cancel(struct request *r)
{
	if (is_cut_short(r))
		r->api->stats.cancelled++;
	if (r->call != NULL)
		route_cancel(r->call);
	r->call = NULL;
	if (r->cached != NULL)
		cache_cancel(r->cached);
	r->cached = NULL;
	r->stream = NULL;
	if (r->cancel != NULL)
		r->cancel(r);
	r->cancel = NULL;
}

void
api_end(struct request *r)
{
	struct api *api = r->api;
	bool cut = is_cut_short(r);
	struct mono took;

	api_cancel(r);
	took = mono_sub(clock_mono(), r->begun);
	histogram_add(&api->stats.took, took);
	request_log(r, took);
	audit_end(r, cut);
	accounts_add(r, took);
	LIST_REMOVE(r, live);
	api->stats.live--;
	api->answers_bytes -= r->accounted;
	r->accounted = 0;
	api_access_end(r);
	filter_free(r->filter);
	r->filter = NULL;
	if (r->kept != NULL)
		explicit_bzero(r->kept, r->head.target.len);	/* ?token= */
	free(r->kept);
	r->kept = NULL;
	if (r->sent != NULL)
		r->sent(r->sent_ctx);
	r->sent = NULL;
}

void
api_done(struct api *api)
{
	while (!LIST_EMPTY(&api->notes))
		note_free(LIST_FIRST(&api->notes));
	audit_done(api);
	limits_done(&api->limits);
	accounts_done(&api->accounts);
	buckets_done(&api->clear_told);
}

struct note *
note_new(struct request *r)
{
	struct note *n = calloc(1, sizeof(*n));

	if (n == NULL)
		return NULL;
	n->api = r->api;
	n->id = r->id;
	LIST_INSERT_HEAD(&n->api->notes, n, link);
	return n;
}

struct request *
note_request(const struct note *n)
{
	struct request *r;

	LIST_FOREACH(r, &n->api->live, live)
		if (r->id == n->id)
			break;
	return r;
}

void
note_free(struct note *n)
{
	if (n == NULL)
		return;
	LIST_REMOVE(n, link);
	free(n);
}

struct request *
note_take(struct note *n)
{
	struct request *r = note_request(n);

	note_free(n);
	return r;
}
