/* Roles: policies and identities under one name, for tokens to link to. */
#include <errno.h>

#include "common/base/uuid.h"
#include "common/record/mpack.h"
#include "raftd/fsm/acl/acl_int.h"

#define RAFT_FAILED "Failed to apply role write request: "

/* -- before the log -- */

static enum tv_err
set_prepare(struct prepare *p, void *rec)
{
	struct acl_role_set *q = rec;
	struct acl_role *o = &q->Role;
	enum tv_err err = acl_prepares(p);
	struct span why;
	char id[37];

	if (err != TV_OK || (err = acl_check_primary(p)) != TV_OK || (err = acl_check_name(p, &acl_roles, o->Name)) != TV_OK)
		return err;
	q->Create = o->ID.len == 0;
	if (q->Create)
		o->ID = span_str(p->uuid);
	else if (!uuid_parse(o->ID, NULL) || !uuid_id(o->ID, "", id, p->a, &why))
		return prepare_fail(p, "Role ID invalid UUID");
	else
		o->ID = arena_copy(p->a, span_str(id));
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
	struct acl_id *q = rec;
	enum tv_err err = acl_prepares(p);
	struct span why;
	char id[37];

	if (err != TV_OK || (err = acl_check_primary(p)) != TV_OK)
		return err;
	if (!uuid_id(q->ID, "failed acl role lookup: index error: ", id, p->a, &why))
		return prepare_fail(p, "%.*s", (int)why.len, (const char *)why.p);
	q->ID = arena_copy(p->a, span_str(id));
	return q->ID.p == NULL ? prepare_fail(p, "out of memory") : TV_OK;
}

/* -- entries -- */

bool
acl_role_find(struct fsm *f, struct span id, struct arena *a, struct acl_role *out)
{
	struct tkey k;

	TKEY(&k, TBL_ACL_ROLE, id);
	return id.len == UUID_CHARS && tbl_get_rec(f, &k, &acl_role_schema, a, out);
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
	struct fsm *f = p->f;
	struct tkey k;

	q->CreateIndex = old != NULL ? old->CreateIndex : f->at;
	q->ModifyIndex = f->at;
	if (old != NULL)
		acl_del_name(f, &acl_roles, old->Name, old->ID);
	acl_put_name(f, &acl_roles, q->Name, q->ID);
	TKEY(&k, TBL_ACL_ROLE, q->ID);
	tbl_put_rec(f, &k, &acl_role_schema, q);
	if (old == NULL)
		fsm_count(f, FT_ACL_ROLES, 1);
	fsm_touch(f, FX_ACL_ROLES);
}

static void
set_apply(struct apply *p, const void *rec)
{
	const struct acl_role_set *s = rec;
	struct acl_role q = s->Role, old = { .ID = SPAN_NONE };
	uint8_t hash[ACL_HASH_BYTES];
	struct acl_state st;
	char named[37];

	if (!acl_applies(p, &st))
		return;
	if (q.ID.len != UUID_CHARS || q.Name.len == 0 || q.Name.len > ACL_NAME_BYTES_MAX) {
		apply_fail(p, TV_EFORMAT, "malformed role");
		return;
	}
	if (!s->Create && !acl_role_find(p->f, q.ID, &p->f->work, &old)) {
		apply_fail(p, TV_EINVAL, "cannot find role %.*s", (int)q.ID.len, (const char *)q.ID.p);
		return;
	}
	acl_id_of(p->f, &acl_roles, q.Name, named);
	if (named[0] != '\0' && (s->Create || !span_eqs(q.ID, named))) {
		acl_fail_quoted(p, s->Create ? "Invalid Role: A Role with Name " : "Invalid Role: A role with name ", q.Name,
		    " already exists");
		return;
	}
	if (!acl_settle_links(p, &acl_policies, &q.Policies, RAFT_FAILED))
		return;
	put_role(p, &q, s->Create ? NULL : &old, hash);
	if (acl_show_links(p->f, &acl_policies, &p->f->work, &q.Policies))
		acl_answer(p, &acl_role_schema, &q);
}

void
acl_role_remove(struct fsm *f, const struct acl_role *q)
{
	struct tkey k;

	acl_del_name(f, &acl_roles, q->Name, q->ID);
	TKEY(&k, TBL_ACL_ROLE, q->ID);
	(void)tbl_del(f, &k);			/* it is there */
	fsm_count(f, FT_ACL_ROLES, -1);
	fsm_touch(f, FX_ACL_ROLES);
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
	uint64_t roles = fsm_index_of(f, FX_ACL_ROLES), policies = fsm_index_of(f, FX_ACL_POLICIES);

	return roles > policies ? roles : policies;
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
list_one(struct reading *r, struct span val, struct arena *one, const void *ctx)
{
	(void)ctx;
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
read_list(struct reading *r, const void *rec)
{
	(void)rec;
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
