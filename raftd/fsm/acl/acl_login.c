/*
 * Logins and logouts.  Whether a login is good, and what it is bound to, is found out before the log by a server that reads its
 * own state (raftd/login): the entry holds the token as it will be, and neither the bearer token nor the time.  What was looked at
 * may have changed until then, so an entry for a method that is gone, or is another one of the same name, makes no token.
 */
#include "raftd/fsm/acl/acl_int.h"
#include "raftd/fsm/read/read.h"
#include "raftd/fsm/table/table.h"

#define NOT_FOUND "ACL not found"

/* -- before the log -- */

static enum tv_err
login_prepare(struct prepare *p, void *rec)
{
	struct acl_login *q = rec;
	struct acl_token *t = &q->Token;
	enum tv_err err = acl_prepares(p);

	if (err != TV_OK)
		return err;
	if (!t->Local && (err = acl_check_primary(p)) != TV_OK)
		return err;			/* a method with TokenLocality "global" */
	q->AuthMethod = q->BearerToken = SPAN_NONE;
	q->Meta = (struct span_map){ .n = 0 };
	if (q->Method == 0 || t->AuthMethod.len == 0)
		return prepare_fail(p, "Invalid Login request: Missing auth parameters");
	t->AccessorID = span_str(p->uuid);
	t->SecretID = acl_new_secret(p->a);
	t->Hash = t->ExpirationTime = SPAN_NONE;
	t->CreateIndex = t->ModifyIndex = 0;
	t->Expires = t->ExpirationTTL > 0 ? p->now + t->ExpirationTTL : 0;
	t->ExpirationTTL = 0;
	t->CreateTime = acl_time(p->a, p->now);
	if (t->Expires != 0)
		t->ExpirationTime = acl_time(p->a, t->Expires);
	if (t->SecretID.len == 0 || t->CreateTime.len == 0)
		return prepare_fail(p, "out of memory");
	if ((err = acl_check_links(p, &acl_roles, &t->Roles)) != TV_OK ||
	    (err = acl_check_identities(p, "token", t->Local, &t->ServiceIdentities, &t->NodeIdentities)) != TV_OK)
		return err;
	return acl_check_size(p, "Token", &acl_token_schema, t, ACL_TOKEN_BYTES_MAX);
}

static enum tv_err
logout_prepare(struct prepare *p, void *rec)
{
	struct acl_logout *q = rec;
	enum tv_err err = acl_prepares(p);

	q->SecretID = SPAN_NONE;
	q->Secondary = p->f->opt.acl_primary != NULL;
	if (err == TV_OK && q->AccessorID.len != UUID_CHARS)
		err = prepare_fail(p, NOT_FOUND);
	return err;
}

/* -- entries -- */

/* Roles that are gone since. */
static void
drop_lost_roles(struct fsm *f, struct obj_list *roles)
{
	struct acl_link *v = roles->v;
	struct tkey k;
	uint32_t n = 0;

	for (uint32_t i = 0; i < roles->n; i++) {
		TKEY(&k, TBL_ACL_ROLE, v[i].ID);
		if (v[i].ID.len == UUID_CHARS && tbl_has(f, &k))
			v[n++] = v[i];
	}
	roles->n = n;
}

static void
login_apply(struct apply *p, const void *rec)
{
	const struct acl_login *q = rec;
	struct acl_token t = q->Token;
	struct acl_state st;
	struct acl_method m;

	if (!acl_applies(p, &st))
		return;
	if (t.AccessorID.len != UUID_CHARS || t.SecretID.len == 0 || t.AuthMethod.len > ACL_NAME_BYTES_MAX || t.Expires < 0 ||
	    t.Roles.n > ACL_LINKS_MAX || t.Policies.n > 0) {
		apply_fail(p, TV_EFORMAT, "malformed token");
		return;
	}
	if (!acl_method_find(p->f, t.AuthMethod, &p->f->work, &m) || m.CreateIndex != q->Method) {
		acl_fail_quoted(p, "ACL not found: auth method ", t.AuthMethod, " not found");
		p->res->err = TV_EPERM;
		return;
	}
	if (!acl_ids_are_free(p, &st, &t))
		return;
	drop_lost_roles(p->f, &t.Roles);
	if (t.Roles.n == 0 && t.ServiceIdentities.n == 0 && t.NodeIdentities.n == 0) {
		apply_fail(p, TV_EPERM, "Permission denied");
		return;
	}
	acl_token_put(p, &st, &t, NULL);
	acl_token_answer(p, &t);
	acl_forget(p->f);
}

static void
logout_apply(struct apply *p, const void *rec)
{
	const struct acl_logout *q = rec;
	struct acl_state st;
	struct acl_token t;

	if (!acl_applies(p, &st))
		return;
	if (!acl_token_find(p->f, q->AccessorID, &p->f->work, &t) || acl_token_ends(&st, &t))
		apply_fail(p, TV_EPERM, NOT_FOUND);
	else if (t.AuthMethod.len == 0)
		apply_fail(p, TV_EPERM, "Permission denied");
	else if (q->Secondary && !t.Local)
		acl_fail_primary(p);
	else {
		acl_token_remove(p->f, &st, &t);
		apply_bool(p, true);
	}
	acl_forget(p->f);
}

/* -- what a login looks at -- */

enum tv_err
fsm_acl_login_method(struct fsm *f, struct span name, struct arena *a, struct fsm_login_view *out)
{
	struct acl_binding *v = arena_array(a, ACL_BINDINGS_MAX, sizeof(*v));
	struct tbl_scan s;
	struct span key, val, ids[ACL_BINDINGS_MAX];
	struct acl_state st;
	struct tkey prefix;
	uint32_t n;

	*out = (struct fsm_login_view){ .rules = v };
	view_need(f);
	if (v == NULL)
		return TV_ENOMEM;
	if (!acl_load(f, a, &st))
		return f->failed == 0 ? TV_EDISABLED : fsm_read_err(f);
	if (!acl_method_find(f, name, a, &out->method))
		return f->failed == 0 ? TV_ENOENT : fsm_read_err(f);
	TKEY(&prefix, TBL_ACL_METHOD_BINDING, name);
	tbl_scan_begin(f, &s, &prefix);
	for (n = 0; n < ACL_BINDINGS_MAX && tbl_next(&s, &key, &val); n++)
		ids[n] = key.len > UUID_CHARS ? arena_copy(a, span_of(key.p + key.len - UUID_CHARS, UUID_CHARS)) : SPAN_NONE;
	tbl_scan_end(&s);
	for (uint32_t i = 0; i < n && f->failed == 0; i++)
		out->rule_count += acl_binding_find(f, ids[i], a, &v[out->rule_count]);
	return f->failed == 0 ? TV_OK : fsm_read_err(f);
}

enum tv_err
fsm_acl_role_id(struct fsm *f, struct span name, char id[37])
{
	acl_id_of(f, &acl_roles, name, id);
	return f->failed != 0 ? fsm_read_err(f) : id[0] == '\0' ? TV_ENOENT : TV_OK;
}

enum tv_err
fsm_acl_logout_look(struct fsm *f, struct span secret, int64_t now, char accessor[37])
{
	struct arena a = ARENA_INIT(FSM_RECORD_MEMORY);
	struct acl_state st;
	struct acl_token t;
	enum tv_err err;

	accessor[0] = '\0';
	view_need(f);
	if (!acl_load(f, &a, &st))
		err = TV_EDISABLED;
	else if (secret.len == 0 || !acl_token_of_secret(f, &st, secret, &a, &t) || acl_expired(&t, now) ||
	    acl_token_ends(&st, &t))
		err = TV_ENOENT;
	else if (t.AuthMethod.len == 0)
		err = TV_EPERM;
	else
		err = span_copy(t.AccessorID, accessor, 37) ? TV_OK : TV_ENOENT;
	arena_wipe(&a);
	arena_done(&a);
	return f->failed != 0 ? fsm_read_err(f) : err;
}

const struct fsm_op acl_login_ops[] = {
	{ OP_ACL_LOGIN, .since = 7, .prepare = login_prepare, .apply = login_apply },
	{ OP_ACL_LOGOUT, .since = 7, .prepare = logout_prepare, .apply = logout_apply },
	{ 0 },
};
