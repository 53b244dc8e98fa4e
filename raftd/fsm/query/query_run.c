/* Prepared queries carried out: the instances that one asks for, in its order.  Source: http-api, section 9. */
#include "common/record/mpack.h"
#include "raftd/fsm/query/query_int.h"

static bool
has_tag(const struct span_list *tags, struct span tag)
{
	for (uint32_t i = 0; i < tags->n; i++)
		if (span_eq_nocase(tags->v[i], tag))
			return true;
	return false;
}

/* All that are named, and none of those that are named with a "!". */
static bool
tags_fit(const struct span_list *want, const struct span_list *have)
{
	for (uint32_t i = 0; i < want->n; i++) {
		struct span tag = want->v[i];
		bool without = tag.len > 0 && tag.p[0] == '!';

		if (has_tag(have, without ? span_of(tag.p + 1, tag.len - 1) : tag) == without)
			return false;
	}
	return true;
}

static bool
wants(const void *ctx, const struct instances *at)
{
	const struct prepared_service *q = ctx;

	return meta_matches(&q->NodeMeta, &at->node.Meta) && meta_matches(&q->ServiceMeta, &at->service.Meta) &&
	    tags_fit(&q->Tags, &at->service.Tags);
}

/* near: of whoever asks; only its Near and NearAddress count. */
static void
run(struct reading *r, const struct prepared_query *q, const struct catalog_read *near, bool connect, int64_t limit)
{
	const struct prepared_service *s = &q->Service;
	static const enum fsm_index looked_at[] = { FX_QUERIES, FX_NODES, FX_SERVICES, FX_CHECKS };
	const struct check_rule rule = { .passing = s->OnlyPassing, .ignored = &s->IgnoreCheckIDs };
	struct sort_near sort;
	size_t at;

	for (unsigned i = 0; i < sizeof(looked_at) / sizeof(looked_at[0]); i++)
		if (fsm_index_of(r->f, looked_at[i]) > r->ans->index)
			r->ans->index = fsm_index_of(r->f, looked_at[i]);
	mpw_array(r->out, 3);			/* prepared_found */
	at = list_begin(r->out);
	sort_near_begin_shuffled(&sort, r->f, near);
	(void)health_instances(r, s->Service, connect || s->Connect, wants, s, &rule, &sort);
	list_end(r->out, at, sort_near_end_shuffled(&sort, r->out, limit > 0 ? (uint64_t)limit : 0));
	mpw_str(r->out, span_str(r->f->datacenter));
	schema_pack(&prepared_query_schema, q, r->out);
}

/*
 * A query that was stored with a token is carried out with what that gives, whoever asks.  It is not in the answer: it would be
 * shown to processes that nobody has shown it.
 */
static bool
take_token(struct reading *r, struct prepared_query *q, const struct fsm_rights **own)
{
	enum tv_err err = TV_OK;

	*own = NULL;
	if (r->who == NULL)
		return true;
	if (q->Token.len > 0) {
		err = fsm_rights_get(r->f, q->Token, fsm_wall_now(r->f), own);
		if (err == TV_OK && *own != NULL)
			r->who = fsm_rights_set(*own);
	}
	q->Token = SPAN_NONE;
	if (err == TV_ENOENT)
		read_fail(r, TV_EPERM, "ACL not found");
	else if (err != TV_OK)
		read_fail(r, err, "the rights of the query's token cannot be made out");
	return err == TV_OK;
}

void
query_execute(struct reading *r, const void *rec)
{
	const struct prepared_ask *ask = rec;
	struct prepared_query q;
	struct catalog_read near = { .Near = ask->Near };
	const struct fsm_rights *own;

	if (!query_resolve(r, ask->Name, &q) || !take_token(r, &q, &own))
		return;
	if (near.Near.len == 0)
		near.Near = q.Service.Near;
	if (span_eqs(near.Near, "_agent")) {
		near.Near = ask->Agent;
	} else if (span_eqs(near.Near, "_ip")) {
		near.Near = SPAN_NONE;
		near.NearAddress = ask->Address;
	}
	run(r, &q, &near, ask->Connect, ask->Limit);
	fsm_rights_free(own);
}

/* For another datacenter, which has none itself: who is near is not to be told from here. */
void
query_remote(struct reading *r, const void *rec)
{
	const struct prepared_remote *ask = rec;
	const struct catalog_read near = { .Near = SPAN_NONE };

	run(r, &ask->Query, &near, ask->Connect, ask->Limit);
}
