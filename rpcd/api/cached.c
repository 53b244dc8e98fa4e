/* ?cached: answers from this node's memory.  Source: http-api, section 1.9. */
#include <string.h>

#include "common/net/source.h"
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "rpcd/api/api.h"
#include "rpcd/cache/cache.h"

#define OF_THE_CACHE (1ull << 63)	/* the router's numbers of replies do not get so far */

/* -- Cache-Control ------------------------------------------------------------- */

struct control {
	bool revalidate;
	int64_t max_age, stale_if_error;	/* seconds; 0: none */
};

static struct span
trim(struct span s)
{
	while (s.len > 0 && (s.p[0] == ' ' || s.p[0] == '\t'))
		s = span_of(s.p + 1, s.len - 1);
	while (s.len > 0 && (s.p[s.len - 1] == ' ' || s.p[s.len - 1] == '\t'))
		s.len--;
	return s;
}

/* Without regard to case.  Moves s behind the word. */
static bool
begins_with(struct span *s, const char *word)
{
	size_t n = strlen(word);

	if (s->len < n || !span_eq_nocase(span_of(s->p, n), span_str(word)))
		return false;
	*s = span_of(s->p + n, s->len - n);
	return true;
}

static bool
take_directive(struct span one, struct control *out)
{
	struct span rest = one;

	if (begins_with(&rest, "must-revalidate") && rest.len == 0)
		out->revalidate = true;
	rest = one;
	if (begins_with(&rest, "max-age=")) {
		if (i64_parse(rest, &out->max_age) != TV_OK)
			return false;
		out->revalidate = out->revalidate || out->max_age == 0;
	}
	rest = one;
	return !begins_with(&rest, "stale-if-error=") || i64_parse(rest, &out->stale_if_error) == TV_OK;
}

/* What is no directive of ours is passed over.  False: a number is none. */
static bool
control_parse(const char *text, struct control *out)
{
	*out = (struct control){ .revalidate = false };
	while (text != NULL && *text != '\0') {
		size_t n = strcspn(text, ",");

		if (!take_directive(trim(span_of(text, n)), out))
			return false;
		text += n + (text[n] == ',');
	}
	return true;
}

bool
api_cache_control(struct request *r)
{
	struct control c;

	if (control_parse(r->head.cache_control, &c))
		return true;
	answer_text(r, 400, "Invalid Cache-Control header.");
	return false;
}

static struct mono
seconds(int64_t s)
{
	return s < 0 ? MONO_ZERO : s > INT64_MAX / 1000000000 ? MONO_NEVER : MONO_S(s);
}

static struct cache_options
options_of(const struct request *r)
{
	struct cache_options o = { .index = r->op.index, .wait = MONO_MS(r->op.wait_ms), .max_age = MONO_NEVER };
	struct control c;

	(void)control_parse(r->head.cache_control, &c);	/* api_cache_control() has seen it */
	o.revalidate = c.revalidate;
	if (c.max_age > 0)
		o.max_age = seconds(c.max_age);
	o.stale_if_error = seconds(c.stale_if_error);
	return o;
}

/* -- answers --------------------------------------------------------------------- */

static void
show(struct request *r, const struct cache_answer *a)
{
	if (a->reply.err == TV_OK) {
		answer_header(r, "X-Cache", a->hit ? "HIT" : "MISS");
		if (a->hit)
			answer_header_u64(r, "Age", (uint64_t)(a->age.ns / 1000000000));
	}
	r->finish(r, &a->reply);
}

/* Those who wait for the same entry get the same bytes. */
static uint64_t
number_of(const struct cache_answer *a)
{
	return a->reply.err == TV_OK && !a->hit && a->age.ns == 0 ? OF_THE_CACHE | a->version : 0;
}

static void
on_answer(void *ctx, const struct cache_answer *a)
{
	struct request *r = ctx;

	r->cached = NULL;
	if (r->again != NULL && r->again(r, number_of(a)))
		return;
	if (api_unfold(r))
		show(r, a);
	else
		answer_text(r, 500, "%s", tv_strerror(TV_ENOMEM));
}

/* ?passing is no part of the question: what does not pass is left out here. */
static void
take_passing(struct request *r, enum op_code op, const void *args)
{
	r->only_passing = op == OP_HEALTH_SERVICE && ((const struct catalog_read *)args)->Passing;
}

/* The filter; and what the token may do: when that changes, nothing of before is given to it. */
static struct span
variant_of(struct request *r)
{
	struct span filter = params_get(&r->query, "filter"), all;
	uint8_t *to;

	if (r->rights == NULL)
		return filter;
	to = arena_alloc(&r->arena, filter.len + sizeof(r->rights->digest));
	if (to == NULL)
		return SPAN_NONE;
	all = span_of(to, filter.len + sizeof(r->rights->digest));
	memcpy(to, r->rights->digest, sizeof(r->rights->digest));
	if (filter.len > 0)
		memcpy(to + sizeof(r->rights->digest), filter.p, filter.len);
	return all;
}

static enum cache_got
ask_cache(struct request *r, enum op_code op, const void *args, struct cache_answer *a)
{
	struct cache_options o = options_of(r);
	struct cache_question q = {
		.op = op, .dc = r->op.dc, .token = r->op.token, .variant = variant_of(r),
		.source = r->head.client_ip == NULL ? 0 : source_of_text(r->head.client_ip),
	};

	buf_reset(&r->scratch);
	if ((r->rights != NULL && q.variant.len == 0) || !cache_question_args(op, args, &r->arena, &r->scratch))
		return CACHE_FULL;
	q.args = buf_span(&r->scratch);
	return cache_get(r->api->cache, &q, &o, on_answer, r, a, &r->cached);
}

bool
api_wants_cached(const struct request *r)
{
	return r->endpoint->flags & CACHED && r->api->cache != NULL && r->api->conf->use_cache &&
	    params_has(&r->query, "cached");
}

bool
api_start_cached(struct request *r, enum op_code op, const void *args)
{
	struct cache_answer a;

	r->op.op = (uint16_t)op;
	r->op.token = api_token(r);
	if (!api_names_fit(r))
		return true;
	switch (ask_cache(r, op, args, &a)) {
	case CACHE_HIT:
		take_passing(r, op, args);
		show(r, &a);
		return true;
	case CACHE_WAIT:
		take_passing(r, op, args);
		return true;
	default:
		return false;		/* the servers are asked, as without ?cached */
	}
}

/* Does each check of this packed health_entry pass? */
bool
api_is_passing(struct span packed)
{
	struct rd in = rd_span_over(packed);
	uint32_t fields = mpr_array(&in), status = 0, n;

	while (status < check_schema.count && strcmp(check_schema.fields[status].name, "Status") != 0)
		status++;
	if (fields < 3)
		return false;
	mpr_skip(&in);			/* Node */
	mpr_skip(&in);			/* Service */
	for (n = mpr_nil(&in) ? 0 : mpr_array(&in); n > 0 && in.err == TV_OK; n--) {
		struct span check = mpr_value(&in);
		struct rd at = rd_span_over(check);

		if (mpr_array(&at) <= status)
			return false;
		for (uint32_t i = 0; i < status; i++)
			mpr_skip(&at);
		if (!span_eqs(mpr_bytes(&at, SCHEMA_TEXT_BYTES_MAX), "passing"))
			return false;
	}
	return in.err == TV_OK;
}
