/* Requests that wait for long, as little of them as can be, see park.h. */
#include <stdlib.h>
#include <string.h>

#include "rpcd/api/api.h"
#include "rpcd/api/park.h"

struct parked {				/* 10,000 may wait */
	LIST_ENTRY(parked) list;
	struct api *api;
	struct route_call *call;	/* NULL: its reply is there */
	parked_resume *resume;
	void *transport;
	const struct endpoint *endpoint;
	void (*finish)(struct request *r, const struct op_reply *reply);
	struct acl_rights *rights;
	struct mono begun;
	uint64_t index;
	uint32_t target_len;
	uint16_t token_len, authorization_len;	/* with the NUL; 0: none */
	uint16_t op;
	uint8_t mode, judged;
	bool gzip : 1, unjudged : 1, is_root : 1, hidden : 1;
	uint8_t text[];			/* the three, one behind the other */
};

static size_t
text_bytes(const struct parked *p)
{
	return p->target_len + (size_t)p->token_len + p->authorization_len;
}

static void
parked_free(struct parked *p)
{
	LIST_REMOVE(p, list);
	acl_rights_free(p->rights);
	explicit_bzero(p->text, text_bytes(p));	/* a token, in the target or a header of its own */
	free(p);
}

/* -- to rest ---------------------------------------------------------------------- */

/* Is all that it still needs in what was folded? */
static bool
can_be_parked(const struct request *r)
{
	return r->folded && r->call != NULL && r->cached == NULL && r->cancel == NULL && r->sent == NULL &&
	    r->other_rights == NULL && r->asked_rights == NULL && r->render == NULL && !r->answered &&
	    r->head.target.len <= UINT32_MAX;
}

static bool
string_bytes(const char *s, uint16_t *out)
{
	size_t n = s == NULL ? 0 : strlen(s) + 1;

	*out = (uint16_t)n;
	return n <= UINT16_MAX;
}

static void
put_text(struct parked *p, const struct request *r)
{
	uint8_t *at = p->text;

	(void)span_place(&at, r->head.target);
	if (p->token_len > 0)
		(void)span_place(&at, span_of(r->head.token, p->token_len));
	if (p->authorization_len > 0)
		(void)span_place(&at, span_of(r->head.authorization, p->authorization_len));
}

/* It has the reply now. */
static void
on_reply(void *ctx, const struct op_reply *reply)
{
	struct parked *p = ctx;
	struct request *r;

	p->call = NULL;
	r = p->resume(p->transport);
	if (r != NULL)
		api_replied(r, reply);
}

struct parked *
api_park(struct request *r, parked_resume *resume)
{
	struct parked sizes = { .target_len = (uint32_t)r->head.target.len }, *p;

	if (!can_be_parked(r) || !string_bytes(r->head.token, &sizes.token_len) ||
	    !string_bytes(r->head.authorization, &sizes.authorization_len))
		return NULL;
	p = malloc(sizeof(*p) + text_bytes(&sizes));
	if (p == NULL)
		return NULL;
	*p = (struct parked){
		.api = r->api, .call = r->call, .resume = resume, .transport = r->transport, .endpoint = r->endpoint,
		.finish = r->finish, .rights = r->rights, .begun = r->begun, .index = r->op.index,
		.target_len = sizes.target_len, .token_len = sizes.token_len,
		.authorization_len = sizes.authorization_len, .op = r->op.op, .mode = r->op.mode, .judged = r->judged,
		.gzip = r->head.accept_encoding != NULL, .unjudged = r->unjudged, .is_root = r->is_root,
		.hidden = r->hidden,
	};
	put_text(p, r);
	route_give(p->call, on_reply, p);
	LIST_INSERT_HEAD(&p->api->parked, p, list);
	LIST_REMOVE(r, live);
	r->rights = NULL;
	r->call = NULL;
	explicit_bzero(r->kept, r->head.target.len);
	free(r->kept);
	r->kept = NULL;
	r->head.target = SPAN_NONE;
	return p;
}

/* -- and back --------------------------------------------------------------------- */

static const char *
take_string(struct arena *a, const uint8_t **at, size_t bytes, bool *failed)
{
	const char *copy;

	if (bytes == 0)
		return NULL;
	copy = arena_cstr(a, span_of(*at, bytes - 1));
	*at += bytes;
	*failed = *failed || copy == NULL;
	return copy;
}

bool
api_unpark(struct parked *p, struct request *r)
{
	const uint8_t *at = p->text + p->target_len;
	bool failed = false;

	r->head.target = arena_copy(&r->arena, span_of(p->text, p->target_len));
	r->head.token = take_string(&r->arena, &at, p->token_len, &failed);
	r->head.authorization = take_string(&r->arena, &at, p->authorization_len, &failed);
	if (failed || r->head.target.p == NULL)
		return false;
	r->head.method = "GET";
	r->head.accept_encoding = p->gzip ? "gzip" : NULL;
	r->api = p->api;
	r->id = ++p->api->next_id;
	r->call = p->call;
	r->endpoint = p->endpoint;
	r->finish = p->finish;
	r->rights = p->rights;
	r->begun = p->begun;
	r->op.index = p->index;
	r->op.op = p->op;
	r->op.mode = p->mode;
	r->judged = p->judged;
	r->unjudged = p->unjudged;
	r->is_root = p->is_root;
	r->hidden = p->hidden;
	r->folded = true;
	r->answer.body.max = p->api->conf->answer_bytes_max;
	r->body_max = 0;
	r->transport = p->transport;
	if (r->call != NULL)
		route_give(r->call, api_replied, r);
	LIST_INSERT_HEAD(&p->api->live, r, live);
	p->rights = NULL;
	parked_free(p);
	return true;
}

void
api_park_drop(struct parked *p)
{
	struct api *api = p->api;

	if (p->call != NULL)
		route_cancel(p->call);
	api->stats.cancelled++;
	api->stats.live--;
	parked_free(p);
}

void
api_unpark_all(struct api *api)
{
	struct parked *p;

	while ((p = LIST_FIRST(&api->parked)) != NULL)
		(void)p->resume(p->transport);
}
