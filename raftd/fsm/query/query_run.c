/* Prepared queries carried out: the instances that one asks for, in its order.  Source: http-api, section 9. */
#include <sodium.h>

#include "common/record/mpack.h"
#include "raftd/fsm/acl/acl_int.h"
#include "raftd/fsm/catalog/catalog.h"
#include "raftd/fsm/catalog/sort_near.h"
#include "raftd/fsm/query/query.h"
#include "raftd/fsm/query/query_render.h"
#include "raftd/fsm/table/meta.h"

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

/* -- the stored token, in other datacenters -- */

#define PROOF_BYTES 32
#define PROOF_OF "triumvir prepared query"

/*
 * Another datacenter carries a query out with what the token gives that it is stored with, and no rpcd on the way is shown
 * that token: what travels is its accessor and a proof that a holder of its secret wants this query carried out.  The
 * proof is keyed with the secret, which a raftd there has, too, if the token is a global one.  It is good for no other query.
 */
static bool
proof_make(struct span secret, const struct prepared_query *q, uint8_t proof[PROOF_BYTES])
{
	uint8_t key[PROOF_BYTES];
	crypto_generichash_state st;
	struct buf b = BUF_INIT(QUERY_RENDERED_MAX + PREPARED_BYTES_MAX);
	bool made;

	schema_pack(&prepared_query_schema, q, &b);
	made = !b.failed;
	(void)crypto_generichash(key, sizeof(key), secret.p, secret.len, (const uint8_t *)PROOF_OF, sizeof(PROOF_OF) - 1);
	(void)crypto_generichash_init(&st, key, sizeof(key), PROOF_BYTES);
	(void)crypto_generichash_update(&st, buf_span(&b).p, buf_span(&b).len);
	(void)crypto_generichash_final(&st, proof, PROOF_BYTES);
	sodium_memzero(key, sizeof(key));
	sodium_memzero(&st, sizeof(st));
	buf_done(&b);
	return made;
}

/* What a query is carried out with that is stored with a token; kept until it has been. */
struct stored {
	const struct fsm_rights *rights;	/* NULL: those of the request */
	uint8_t proof[PROOF_BYTES];
};

/*
 * A query that was stored with a token is carried out with what that gives, for any request.  It is not in the answer: it would be
 * shown to processes that have not been shown it.
 */
static bool
take_token(struct reading *r, struct prepared_query *q, struct stored *own)
{
	struct span secret = q->Token;
	enum tv_err err = TV_OK;

	own->rights = NULL;
	q->Token = SPAN_NONE;
	if (r->who == NULL || secret.len == 0)
		return true;
	err = fsm_rights_get(r->f, secret, fsm_wall_now(r->f), &own->rights);
	if (err == TV_OK && own->rights != NULL) {
		r->who = fsm_rights_set(own->rights);
		if (!proof_make(secret, q, own->proof))
			err = TV_ENOMEM;
	}
	if (err == TV_ENOENT)
		read_fail(r, TV_EPERM, "ACL not found");
	else if (err != TV_OK)
		read_fail(r, err, "the rights of the query's token cannot be made out");
	if (err != TV_OK)
		fsm_rights_free(own->rights);
	return err == TV_OK;
}

/*
 * The same of what came from another datacenter, as far as the token is known here.  Is it not, as a local one, or does the
 * proof not fit, then the token counts that was shown with the request.
 */
static bool
take_proof(struct reading *r, const struct prepared_remote *ask, struct stored *own)
{
	struct acl_token t;
	enum tv_err err;

	own->rights = NULL;
	if (r->who == NULL || ask->Proof.len != PROOF_BYTES || !acl_token_find(r->f, ask->Accessor, r->a, &t))
		return true;
	if (!proof_make(t.SecretID, &ask->Query, own->proof)) {
		read_fail(r, TV_ENOMEM, "%s", tv_strerror(TV_ENOMEM));
		return false;
	}
	if (sodium_memcmp(own->proof, ask->Proof.p, PROOF_BYTES) != 0)
		return true;
	err = fsm_rights_get(r->f, t.SecretID, fsm_wall_now(r->f), &own->rights);
	if (err == TV_OK && own->rights != NULL)
		r->who = fsm_rights_set(own->rights);
	if (err != TV_OK && err != TV_ENOENT)
		read_fail(r, err, "the rights of the query's token cannot be made out");
	return err == TV_OK || err == TV_ENOENT;
}

/* near: of the request; only its Near and NearAddress count. */
static void
run_query(struct reading *r, const struct prepared_query *q, const struct stored *own, const struct catalog_read *near, bool connect,
    int64_t limit)
{
	const struct prepared_service *s = &q->Service;
	static const enum fsm_index looked_at[] = { FX_QUERIES, FX_NODES, FX_SERVICES, FX_CHECKS };
	const struct check_rule rule = { .passing = s->OnlyPassing, .ignored = &s->IgnoreCheckIDs };
	struct sort_near sort;
	size_t at;

	for (unsigned i = 0; i < sizeof(looked_at) / sizeof(looked_at[0]); i++)
		if (fsm_index_of(r->f, looked_at[i]) > r->ans->index)
			r->ans->index = fsm_index_of(r->f, looked_at[i]);
	mpw_array(r->out, 5);			/* prepared_found */
	at = list_begin(r->out);
	sort_near_begin_shuffled(&sort, r->f, near);
	(void)health_instances(r, s->Service, connect || s->Connect, wants, s, &rule, &sort);
	list_end(r->out, at, sort_near_end_shuffled(&sort, r->out, limit > 0 ? (uint64_t)limit : 0));
	mpw_str(r->out, span_str(r->f->datacenter));
	schema_pack(&prepared_query_schema, q, r->out);
	mpw_str(r->out, span_str(own->rights == NULL ? "" : fsm_rights_accessor(own->rights)));
	mpw_bin(r->out, own->rights == NULL ? SPAN_NONE : span_of(own->proof, PROOF_BYTES));
}

void
query_execute(struct reading *r, const void *rec)
{
	const struct prepared_ask *ask = rec;
	struct prepared_query q;
	struct catalog_read near = { .Near = ask->Near };
	struct stored own;

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
	run_query(r, &q, &own, &near, ask->Connect, ask->Limit);
	fsm_rights_free(own.rights);
}

/* For another datacenter, which has none itself: who is near is not to be told from here. */
void
query_remote(struct reading *r, const void *rec)
{
	const struct prepared_remote *ask = rec;
	const struct catalog_read near = { .Near = SPAN_NONE };
	struct stored own;

	if (!take_proof(r, ask, &own))
		return;
	run_query(r, &ask->Query, &own, &near, ask->Connect, ask->Limit);
	fsm_rights_free(own.rights);
}
