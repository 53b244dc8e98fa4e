/* From a secret to what its token grants: the token, its roles, and the policies of both, as of one index. */
#include "raftd/fsm/acl/acl_int.h"
#include "raftd/fsm/read/read.h"
#include "raftd/fsm/table/table.h"

struct resolving {
	struct fsm *f;
	struct arena *a;
	struct fsm_acl *out;
	uint32_t policies_cap, services_cap, nodes_cap;
	enum tv_err err;
};

/* Room for one more in a list of the arena; NULL: none. */
static void *
grow(struct resolving *w, void *v, uint32_t n, uint32_t *cap, size_t size)
{
	void *more;

	if (n < *cap)
		return v;
	*cap = *cap == 0 ? 8 : *cap * 2;
	more = arena_array(w->a, *cap, size);
	if (more == NULL)
		w->err = TV_ELIMIT;
	else if (n > 0)
		memcpy(more, v, n * size);
	return more;
}

static bool
names(const struct span_list *list, const char *datacenter)
{
	for (uint32_t i = 0; i < list->n; i++)
		if (span_eq_nocase(list->v[i], span_str(datacenter)))
			return true;
	return list->n == 0;
}

/* Of this datacenter, each once.  A link to what is gone grants nothing. */
static void
add_policy(struct resolving *w, struct span id)
{
	struct fsm_acl *out = w->out;
	struct acl_policy q = { .ID = SPAN_NONE };
	struct fsm_acl_policy *v;
	struct span val;
	struct tkey k;

	for (uint32_t i = 0; i < out->policy_count; i++)
		if (span_eq(out->policies[i].id, id))
			return;
	TKEY(&k, TBL_ACL_POLICY, id);
	if (!tbl_peek(w->f, &k, &val))
		return;
	val = arena_copy(w->a, val);
	if (val.p == NULL || (v = grow(w, out->policies, out->policy_count, &w->policies_cap, sizeof(*v))) == NULL) {
		w->err = TV_ELIMIT;
		return;
	}
	out->policies = v;
	if (tbl_decode(w->f, &acl_policy_schema, val, w->a, &q) && names(&q.Datacenters, w->f->datacenter))
		v[out->policy_count++] = (struct fsm_acl_policy){ .id = q.ID, .name = q.Name, .rules = q.Rules,
		    .modified = q.ModifyIndex };
}

static void
add_policies(struct resolving *w, const struct obj_list *links)
{
	const struct acl_link *v = links->v;

	for (uint32_t i = 0; i < links->n && w->err == TV_OK && w->f->failed == 0; i++)
		add_policy(w, v[i].ID);
}

static void
add_name(struct resolving *w, struct span **v, uint32_t *n, uint32_t *cap, struct span name)
{
	struct span *more;

	for (uint32_t i = 0; i < *n; i++)
		if (span_eq((*v)[i], name))
			return;
	more = grow(w, *v, *n, cap, sizeof(*more));
	if (more == NULL)
		return;
	*v = more;
	more[(*n)++] = name;
}

static void
add_identities(struct resolving *w, const struct obj_list *services, const struct obj_list *nodes)
{
	const struct acl_service_identity *s = services->v;
	const struct acl_node_identity *n = nodes->v;

	for (uint32_t i = 0; i < services->n && w->err == TV_OK; i++)
		if (names(&s[i].Datacenters, w->f->datacenter))
			add_name(w, &w->out->services, &w->out->service_count, &w->services_cap, s[i].ServiceName);
	for (uint32_t i = 0; i < nodes->n && w->err == TV_OK; i++)
		if (span_eq_nocase(n[i].Datacenter, span_str(w->f->datacenter)))
			add_name(w, &w->out->nodes, &w->out->node_count, &w->nodes_cap, n[i].NodeName);
}

static void
add_role(struct resolving *w, struct span id)
{
	struct acl_role q = { .ID = SPAN_NONE };
	struct span val;
	struct tkey k;

	TKEY(&k, TBL_ACL_ROLE, id);
	if (!tbl_peek(w->f, &k, &val))
		return;
	val = arena_copy(w->a, val);
	if (val.p == NULL)
		w->err = TV_ELIMIT;
	else if (tbl_decode(w->f, &acl_role_schema, val, w->a, &q)) {
		add_policies(w, &q.Policies);
		add_identities(w, &q.ServiceIdentities, &q.NodeIdentities);
	}
}

static enum tv_err
resolve(struct resolving *w, struct span secret, int64_t now)
{
	struct fsm_acl *out = w->out;
	const struct acl_link *roles;
	struct acl_state st;
	struct acl_token t;

	if (!acl_load(w->f, w->a, &st))
		return TV_EDISABLED;
	out->index = acl_index_of(w->f);
	if (out->index < w->f->restored[FR_FLOOR])
		out->index = w->f->restored[FR_FLOOR];
	if (secret.len == 0)
		secret = span_str(ACL_ANONYMOUS_SECRET);
	if (!acl_token_of_secret(w->f, &st, secret, w->a, &t) || acl_expired(&t, now) || acl_token_ends(&st, &t))
		return TV_ENOENT;
	out->expires = t.Expires;
	out->local = t.Local;
	(void)span_copy(t.AccessorID, out->accessor, sizeof(out->accessor));	/* it fits */
	add_policies(w, &t.Policies);
	add_identities(w, &t.ServiceIdentities, &t.NodeIdentities);
	roles = t.Roles.v;
	for (uint32_t i = 0; i < t.Roles.n && w->err == TV_OK && w->f->failed == 0; i++)
		add_role(w, roles[i].ID);
	return w->err;
}

enum tv_err
fsm_acl_resolve(struct fsm *f, struct span secret, int64_t now, struct arena *a, struct fsm_acl *out)
{
	struct resolving w = { .f = f, .a = a, .out = out };
	enum tv_err err;

	*out = (struct fsm_acl){ .index = 0 };
	view_need(f);
	err = f->failed != 0 ? TV_OK : resolve(&w, secret, now);
	if (f->failed == 0)
		return err;
	if (f->owner == NULL || !reader_may_retry(f->failed))
		return fsm_read_err(f);
	reader_renew(f);
	return TV_EAGAIN;
}

static void
read_resolved(struct reading *r, const void *rec)
{
	const struct acl_secret *q = rec;
	struct acl_resolved_policy *policies;
	struct acl_resolved out = { .DefaultAllow = r->f->opt.acl_default_allow };
	struct fsm_acl what;
	enum tv_err err;

	r->ans->index = acl_index_of(r->f);
	err = fsm_acl_resolve(r->f, q->SecretID, fsm_wall_now(r->f), r->a, &what);
	if (err != TV_OK) {
		read_fail(r, err == TV_ENOENT ? TV_EPERM : err, "%s", err == TV_ENOENT ? "ACL not found" :
		    err == TV_EDISABLED ? "ACL support disabled" : tv_strerror(err));
		return;
	}
	policies = arena_array(r->a, what.policy_count + 1, sizeof(*policies));
	if (policies == NULL) {
		read_fail(r, TV_ELIMIT, "the answer is too large");
		return;
	}
	for (uint32_t i = 0; i < what.policy_count; i++)
		policies[i] = (struct acl_resolved_policy){ .ID = what.policies[i].id, .Name = what.policies[i].name,
		    .Rules = what.policies[i].rules, .ModifyIndex = what.policies[i].modified };
	out.AccessorID = span_str(what.accessor);
	out.Local = what.local;
	out.Expires = what.expires;
	out.Policies = (struct obj_list){ .v = policies, .n = what.policy_count, .set = true };
	out.Services = (struct span_list){ .v = what.services, .n = what.service_count, .set = true };
	out.Nodes = (struct span_list){ .v = what.nodes, .n = what.node_count, .set = true };
	schema_pack(&acl_resolved_schema, &out, r->out);
}

const struct fsm_op acl_resolve_ops[] = {
	{ OP_ACL_RESOLVE, .read = read_resolved },
	{ 0 },
};
