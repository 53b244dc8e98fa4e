/* Roles: policies and identities under one name, for tokens to link to. */
#include <errno.h>

#include "common/record/mpack.h"
#include "raftd/fsm/acl/acl_int.h"
#include "raftd/fsm/table/meta.h"
#include "raftd/fsm/table/table.h"

#define RAFT_FAILED "Failed to apply role write request: "

/* -- before the log -- */

static enum tv_err
set_prepare(struct prepare *p, void *rec)
{
	struct acl_role_set *q = rec;
	struct acl_role *o = &q->Role;
	enum tv_err err = acl_prepares(p);

	if (err != TV_OK || (err = acl_check_primary(p)) != TV_OK || (err = acl_check_name(p, &acl_roles, o->Name)) != TV_OK ||
	    (err = acl_prepare_id(p, &acl_roles, &o->ID, &q->Create)) != TV_OK)
		return err;
	o->Hash = SPAN_NONE;
	o->CreateIndex = o->ModifyIndex = 0;
	if ((err = acl_check_links(p, &acl_policies, &o->Policies)) != TV_OK ||
	    (err = acl_check_identities(p, "role", false, &o->ServiceIdentities, &o->NodeIdentities)) != TV_OK)
		return err;
	return acl_check_size(p, "Role", &acl_role_schema, o, ACL_TOKEN_BYTES_MAX);
}

static enum tv_err
delete_prepare(struct prepare *p, void *rec)
{
	return acl_prepare_delete(p, &acl_roles, rec);
}

/* -- entries -- */

bool
acl_role_find(struct fsm *f, struct span id, struct arena *a, struct acl_role *out)
{
	return acl_record_find(f, &acl_roles, id, a, out);
}

static void
put_role(struct apply *p, struct acl_role *q, const struct acl_role *old, uint8_t hash[ACL_HASH_BYTES])
{
	crypto_generichash_state h;

	(void)crypto_generichash_init(&h, NULL, 0, ACL_HASH_BYTES);
	acl_hash_text(&h, q->Name);
	acl_hash_text(&h, q->Description);
	acl_hash_links(&h, &q->Policies);
	acl_hash_identities(&h, &q->ServiceIdentities, &q->NodeIdentities);
	(void)crypto_generichash_final(&h, hash, ACL_HASH_BYTES);
	q->Hash = span_of(hash, ACL_HASH_BYTES);
	acl_role_copy(p, q, old);
}

void
acl_role_copy(struct apply *p, struct acl_role *q, const struct acl_role *old)
{
	q->CreateIndex = old != NULL ? old->CreateIndex : p->f->at;
	q->ModifyIndex = p->f->at;
	acl_record_put(p->f, &acl_roles, q->ID, q->Name, old != NULL ? &old->Name : NULL, q);
}

static void
set_apply(struct apply *p, const void *rec)
{
	const struct acl_role_set *s = rec;
	struct acl_role q = s->Role, old = { .ID = SPAN_NONE };
	uint8_t hash[ACL_HASH_BYTES];
	struct acl_state st;

	if (!acl_applies(p, &st) || !acl_may_set(p, &acl_roles, s->Create, q.ID, q.Name, &old))
		return;
	if (!acl_settle_links(p, &acl_policies, &q.Policies))
		return;
	put_role(p, &q, s->Create ? NULL : &old, hash);
	if (acl_show_links(p->f, &acl_policies, &p->f->work, &q.Policies))
		acl_answer(p, &acl_role_schema, &q);
}

void
acl_role_remove(struct fsm *f, const struct acl_role *q)
{
	acl_record_remove(f, &acl_roles, q->ID, q->Name);
}

/* As with policies, links to it stay where they are. */
static void
delete_apply(struct apply *p, const void *rec)
{
	const struct acl_id *q = rec;
	struct acl_state st;
	struct acl_role old;

	if (!acl_applies(p, &st))
		return;
	if (acl_role_find(p->f, q->ID, &p->f->work, &old))
		acl_role_remove(p->f, &old);
	apply_bool(p, true);
}

/* -- reads -- */

static uint64_t
index_of_roles(const struct fsm *f)
{
	return fsm_index_of_set(f, FX_SET(ACL_ROLES) | FX_SET(ACL_POLICIES));
}

static bool
show(struct reading *r, struct span val, struct arena *a)
{
	struct acl_role q = { .ID = SPAN_NONE };

	if (!tbl_decode(r->f, &acl_role_schema, val, a, &q) || !acl_show_links(r->f, &acl_policies, a, &q.Policies))
		return false;
	schema_pack(&acl_role_schema, &q, r->out);
	return true;
}

static bool
list_one(struct reading *r, struct span val, struct arena *one, const void *ctx UNUSED)
{
	return show(r, val, one);
}

static void
read_one(struct reading *r, const void *rec)
{
	struct span val;

	r->ans->index = index_of_roles(r->f);
	if (!acl_reads(r) || !acl_find(r, &acl_roles, rec, &val))
		return;
	mpw_array(r->out, 1);
	val = arena_copy(r->a, val);		/* names of links are looked up */
	if (val.p == NULL)
		r->f->failed = ENOMEM;
	else
		(void)show(r, val, r->a);	/* what fails is in r->f */
}

static void
read_list(struct reading *r, const void *rec UNUSED)
{
	r->ans->index = index_of_roles(r->f);
	if (acl_reads(r))
		acl_list(r, TBL_ACL_ROLE, list_one, NULL);
}

const struct fsm_op acl_role_ops[] = {
	{ OP_ACL_ROLE_SET, .since = 7, .prepare = set_prepare, .apply = set_apply },
	{ OP_ACL_ROLE_DELETE, .since = 7, .prepare = delete_prepare, .apply = delete_apply },
	{ OP_ACL_ROLE_GET, .read = read_one },
	{ OP_ACL_ROLE_LIST, .read = read_list },
	{ 0 },
};
