/* Requests and their answers. */
#include <stdarg.h>

#include "common/base/assert.h"
#include "common/text/json_text.h"
#include "rpcd/api/api.h"
#include "rpcd/api/gzip.h"

#define BUFFER_KEPT_MAX 65536		/* larger buffers are given back after the request */
#define UNCOUNTED_BYTES_MAX 16384	/* of an answer: larger ones are in answers_bytes, while they wait */

static void
recycle(struct buf *b, size_t max)
{
	if (b->cap > BUFFER_KEPT_MAX)
		buf_done(b);
	buf_reset(b);
	b->max = max;
	b->secret = false;
}

void
request_reset(struct request *r)
{
	struct request clean = {
		.arena = r->arena, .body = r->body, .scratch = r->scratch, .answer.body = r->answer.body,
	};

	arena_wipe(&clean.arena);	/* a token, in the target or a header of its own; a key */
	if (clean.arena.used > BUFFER_KEPT_MAX)
		arena_done(&clean.arena);
	else
		arena_reset(&clean.arena);
	clean.arena.max = REQUEST_ARENA_MAX;
	recycle(&clean.body, REQUEST_ARENA_MAX);
	recycle(&clean.scratch, REQUEST_ARENA_MAX);
	recycle(&clean.answer.body, REQUEST_ARENA_MAX);
	*r = clean;
}

void
request_done(struct request *r)
{
	arena_wipe(&r->arena);
	arena_done(&r->arena);
	buf_done(&r->body);
	buf_done(&r->scratch);
	buf_done(&r->answer.body);
}

void
request_body(struct request *r, const void *bytes, size_t n)
{
	r->body_bytes += n;
	if (r->body_bytes <= r->body_max)
		buf_put(&r->body, bytes, n);
	else
		buf_done(&r->body);	/* too large: only the count matters now */
}

size_t
request_read_stream(struct request *r, void *dst, size_t max)
{
	size_t n = r->stream(r, dst, max);

	r->answer_bytes += n;
	return n;
}

void
answer_header(struct request *r, const char *name, const char *value)
{
	TV_ASSERT(r->answer.header_count < ANSWER_HEADERS_MAX);
	if (r->answer.headers == NULL)
		r->answer.headers = arena_array(&r->arena, ANSWER_HEADERS_MAX, sizeof(*r->answer.headers));
	if (r->answer.headers == NULL)
		return;			/* without memory the answer goes without it */
	r->answer.headers[r->answer.header_count++] = (struct answer_header){ name, value };
}

void
answer_headerf(struct request *r, const char *name, const char *fmt, ...)
{
	struct buf text = BUF_INIT(8192);
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	char *value = text.failed ? NULL : arena_cstr(&r->arena, buf_span(&text));
	buf_done(&text);
	if (value != NULL)
		answer_header(r, name, value);
}

void
answer_header_u64(struct request *r, const char *name, uint64_t v)
{
	char text[24], *p = text + sizeof(text) - 1;

	*p = '\0';
	do
		*--p = (char)('0' + v % 10);
	while ((v /= 10) > 0);
	p = arena_cstr(&r->arena, span_of(p, (size_t)(text + sizeof(text) - 1 - p)));
	if (p != NULL)
		answer_header(r, name, p);
}

/* Replaces the body by what is in scratch. */
static void
swap_body(struct request *r)
{
	struct buf body = r->answer.body;

	r->answer.body = r->scratch;
	r->scratch = body;
}

static void
compress(struct request *r)
{
	if (r->api == NULL || r->api->gzip == NULL || r->answer.body.secret || r->answer.body.len < GZIP_BYTES_MIN ||
	    r->answer.body.len > r->api->conf->gzip_bytes_max || !gzip_accepted(r->head.accept_encoding))
		return;
	buf_reset(&r->scratch);
	if (gzip_pack(r->api->gzip, buf_span(&r->answer.body), &r->scratch) != TV_OK)
		return;			/* plain will do */
	swap_body(r);
	answer_header(r, "Content-Encoding", "gzip");
}

/* A plain sentence instead of what was made so far. */
static void
replace_body(struct request *r, const char *text)
{
	buf_done(&r->answer.body);
	buf_puts(&r->answer.body, text);
	r->answer.header_count = 0;
	answer_header(r, "Content-Type", "text/plain; charset=utf-8");
}

/* Large answers wait in memory for slow readers: together they are bounded. */
static bool
keep_account(struct request *r)
{
	/* The limit may have been lowered meanwhile. */
	if (r->api->answers_bytes + r->answer.body.len > r->api->conf->answers_bytes_max)
		return false;
	r->accounted = r->answer.body.len;
	r->api->answers_bytes += r->accounted;
	return true;
}

/* What this node's configuration says, as in Consul; without access control all is allowed. */
static const char *
default_policy(const struct api *api)
{
	bool holds = api != NULL && (api->cluster->acl_enabled || (api->acl != NULL && acl_holds(api->acl)));

	return holds && api->cluster->acl_default == ACL_DEFAULT_DENY ? "deny" : "allow";
}

void
answer_finish(struct request *r, unsigned status)
{
	TV_ASSERT(!r->answered);
	if (r->answer.body.failed) {	/* larger than any answer may be, or no memory */
		replace_body(r, "the answer is larger than limits.answer_bytes_max in rpcd.conf allows; ask for less "
		    "of it");
		status = 500;
	}
	compress(r);
	if (r->api != NULL && r->answer.body.len > UNCOUNTED_BYTES_MAX && !keep_account(r)) {
		replace_body(r, "too many large answers are being sent (see limits.answers_bytes_max)");
		status = 503;
	}
	r->answer.status = status;
	answer_header(r, "Vary", "Accept-Encoding");
	if (r->endpoint != NULL)
		answer_header(r, "X-Consul-Default-ACL-Policy", default_policy(r->api));
	if (r->endpoint != NULL && r->api->conf->translate_wan_addrs)
		answer_header(r, "X-Consul-Translate-Addresses", "true");
	r->answer_bytes = r->answer.body.len;
	r->answered = true;
	if (r->api != NULL && status >= 500)
		r->api->stats.errors++;
	if (!r->running && r->ready != NULL)
		r->ready(r);
}

void
answer_span(struct request *r, unsigned status, struct span text)
{
	buf_reset(&r->answer.body);
	buf_putspan(&r->answer.body, text);
	answer_header(r, "Content-Type", "text/plain; charset=utf-8");
	answer_finish(r, status);
}

void
answer_text(struct request *r, unsigned status, const char *fmt, ...)
{
	va_list ap;

	buf_reset(&r->answer.body);
	va_start(ap, fmt);
	buf_vprintf(&r->answer.body, fmt, ap);
	va_end(ap);
	answer_header(r, "Content-Type", "text/plain; charset=utf-8");
	answer_finish(r, status);
}

void
answer_empty(struct request *r, unsigned status)
{
	buf_reset(&r->answer.body);
	answer_finish(r, status);
}

void
answer_body(struct request *r, const char *type)
{
	answer_header(r, "Content-Type", type);
	answer_finish(r, 200);
}

void
answer_json_status(struct request *r, unsigned status)
{
	if (params_has(&r->query, "pretty") && !r->answer.body.failed) {
		buf_reset(&r->scratch);
		json_pretty(buf_span(&r->answer.body), &r->scratch);
		swap_body(r);
	}
	answer_header(r, "Content-Type", "application/json");
	answer_finish(r, status);
}

void
answer_json(struct request *r)
{
	answer_json_status(r, 200);
}

void
answer_json_text(struct request *r, const char *json)
{
	buf_reset(&r->answer.body);
	buf_puts(&r->answer.body, json);
	answer_json(r);
}

void
answer_stream(struct request *r, const char *type, size_t (*read)(struct request *r, void *dst, size_t max))
{
	buf_reset(&r->answer.body);
	r->stream = read;
	answer_body(r, type);
}
