/* Response objects, and the one that is kept. */
#include <stdlib.h>
#include <string.h>

#include "rpcd/head.h"
#include "rpcd/replies.h"

#define SHORT_BODY_BYTES 16
#define SHORT_HEADERS 3		/* reads have more: their index makes each one different */
#define KEPT_BODY_BYTES 4096	/* when many wait */
#define KEPT_HEADERS 12

/* An answer and its object. */
struct kept {
	struct MHD_Response *response;	/* NULL: none */
	unsigned header_count;
	struct answer_header headers[KEPT_HEADERS];	/* copies, owned */
	size_t body_len;
	uint8_t body[KEPT_BODY_BYTES];
};

struct replies {
	const struct rpcd_conf *conf;
	struct kept kept;
};

struct replies *
replies_new(const struct rpcd_conf *conf)
{
	struct replies *r = calloc(1, sizeof(*r));

	if (r != NULL)
		r->conf = conf;
	return r;
}

static void
forget(struct kept *k)
{
	if (k->response != NULL)
		MHD_destroy_response(k->response);
	for (unsigned i = 0; i < k->header_count; i++) {
		free((void *)(uintptr_t)k->headers[i].name);
		free((void *)(uintptr_t)k->headers[i].value);
	}
	k->response = NULL;
	k->header_count = 0;
}

void
replies_free(struct replies *r)
{
	if (r == NULL)
		return;
	forget(&r->kept);
	free(r);
}

static void
add_field(void *ctx, const char *name, const char *value)
{
	/* Without memory the answer goes without this header. */
	(void)MHD_add_response_header(ctx, name, value);
}

void
replies_headers(const struct replies *r, struct MHD_Response *response, const struct answer *a, bool close_after)
{
	head_fields(r->conf, a, add_field, response);
	if (close_after)
		(void)MHD_add_response_header(response, "Connection", "close");
}

static bool
may_keep(const struct answer *a, bool many, bool close_after)
{
	size_t body = many ? KEPT_BODY_BYTES : SHORT_BODY_BYTES;
	unsigned headers = many ? KEPT_HEADERS : SHORT_HEADERS;

	return a->body.len <= body && a->header_count <= headers && !close_after && !a->body.secret;
}

static bool
is_kept(const struct kept *k, const struct answer *a)
{
	if (k->response == NULL || k->header_count != a->header_count || k->body_len != a->body.len ||
	    (a->body.len > 0 && memcmp(k->body, a->body.data, a->body.len) != 0))
		return false;
	for (unsigned i = 0; i < a->header_count; i++)
		if (strcmp(k->headers[i].value, a->headers[i].value) != 0 ||
		    strcmp(k->headers[i].name, a->headers[i].name) != 0)
			return false;
	return true;
}

/* Instead of what was kept before.  Without memory nothing is kept. */
static void
keep(struct replies *r, const struct answer *a)
{
	struct kept *k = &r->kept;
	bool whole = true;

	forget(k);
	k->header_count = a->header_count;
	for (unsigned i = 0; i < a->header_count; i++) {
		k->headers[i] = (struct answer_header){ strdup(a->headers[i].name), strdup(a->headers[i].value) };
		whole = whole && k->headers[i].name != NULL && k->headers[i].value != NULL;
	}
	k->body_len = a->body.len;
	if (a->body.len > 0)
		memcpy(k->body, a->body.data, a->body.len);
	if (whole)
		k->response = MHD_create_response_from_buffer(k->body_len, k->body, MHD_RESPMEM_MUST_COPY);
	if (k->response != NULL)
		replies_headers(r, k->response, a, false);
	else
		forget(k);
}

struct MHD_Response *
replies_take(struct replies *r, const struct answer *a, bool many, bool close_after)
{
	struct MHD_Response *response;
	void *bytes = a->body.len > 0 ? a->body.data : (void *)(uintptr_t)"";

	if (may_keep(a, many, close_after)) {
		if (!is_kept(&r->kept, a))
			keep(r, a);
		return r->kept.response;
	}
	response = MHD_create_response_from_buffer(a->body.len, bytes, MHD_RESPMEM_PERSISTENT);
	if (response != NULL)
		replies_headers(r, response, a, close_after);
	return response;
}

void
replies_done(struct replies *r, struct MHD_Response *response)
{
	if (response != r->kept.response)
		MHD_destroy_response(response);
}
