/*
 * Copies of the policies, roles and global tokens of another datacenter, the primary one.
 *
 * There, a token that may write them lists what changed above an index (OP_ACL_REPL_LIST) and fetches it whole.  Here such a list is
 * compared with what there is (OP_ACL_REPL_DIFF), and what differs is written by OP_ACL_REPL_APPLY, with how far that has come: so
 * a new leader goes on from there.  Records keep the primary's hashes, by which equal ones are told; indexes are our own.
 *
 * No token gives a right before the first one is here.  So the first that comes, as long as no token was made here, is believed:
 * from then on only the token that it named counts (acl_state.ReplToken, a hash), and as soon as that one is deleted none but those
 * that may write all of this.
 */
#include <errno.h>

#include "common/acl/rules.h"
#include "common/record/mpack.h"
#include "common/text/rfc3339.h"
#include "raftd/fsm/acl/acl_int.h"
#include "raftd/fsm/table/meta.h"
#include "raftd/fsm/table/table.h"

#define FETCH_BYTES_MAX (512u << 10)	/* after that many the answer ends with the record at hand */
#define RUNNING_NS (180ll * 1000000000)	/* who copies says so once in a minute */
#define NEVER "0001-01-01T00:00:00Z"
#define TEXT_BYTES_MAX 512

static const enum tbl tables[ACL_REPL_KINDS] = {
	[ACL_REPL_POLICIES] = TBL_ACL_POLICY, [ACL_REPL_ROLES] = TBL_ACL_ROLE, [ACL_REPL_TOKENS] = TBL_ACL_TOKEN,
};

void
acl_hash_secret(struct span secret, uint8_t out[ACL_HASH_BYTES])
{
	(void)crypto_generichash(out, ACL_HASH_BYTES, secret.p, secret.len, NULL, 0);	/* cannot fail */
}

/* -- what is written elsewhere -- */

enum tv_err
acl_check_primary(struct prepare *p)
{
	if (p->f->opt.acl_primary == NULL)
		return TV_OK;
	(void)prepare_fail(p, ACL_PRIMARY_TEXT "\"%s\"", p->f->opt.acl_primary);
	return TV_ECONFLICT;
}

void
acl_fail_primary(struct apply *p)
{
	const char *name = p->f->opt.acl_primary;

	apply_fail(p, TV_ECONFLICT, ACL_PRIMARY_TEXT "\"%s\"", name == NULL ? "" : name);
}

/* -- one record of any kind -- */

union any {
	struct acl_policy policy;
	struct acl_role role;
	struct acl_token token;
};

struct facts {
	struct span id, hash;		/* as long as what they were read from */
	uint64_t modified;
	bool local;			/* a token of this datacenter alone */
	bool over;			/* it has expired, or its method has ended */
};

static bool
read_any(struct fsm *f, const struct acl_state *st, enum acl_repl_kind kind, struct span val, struct arena *one, union any *out, struct facts *is)
{
	static const struct schema *const schemas[ACL_REPL_KINDS] = {
		[ACL_REPL_POLICIES] = &acl_policy_schema, [ACL_REPL_ROLES] = &acl_role_schema,
		[ACL_REPL_TOKENS] = &acl_token_schema,
	};

	memset(out, 0, sizeof(*out));
	if (!tbl_decode(f, schemas[kind], val, one, out))
		return false;
	switch (kind) {
	case ACL_REPL_POLICIES:
		*is = (struct facts){ out->policy.ID, out->policy.Hash, out->policy.ModifyIndex, false, false };
		break;
	case ACL_REPL_ROLES:
		*is = (struct facts){ out->role.ID, out->role.Hash, out->role.ModifyIndex, false, false };
		break;
	default:
		*is = (struct facts){ out->token.AccessorID, out->token.Hash, out->token.ModifyIndex, out->token.Local,
		    acl_expired(&out->token, fsm_wall_now(f)) || acl_token_ends(st, &out->token) };
	}
	return true;
}

static bool
find_any(struct fsm *f, const struct acl_state *st, enum acl_repl_kind kind, struct span id, struct arena *one, union any *out, struct facts *is)
{
	struct span val;
	struct tkey k;

	TKEY(&k, tables[kind], id);
	return id.len == UUID_CHARS && tbl_get(f, &k, one, &val) && read_any(f, st, kind, val, one, out, is);
}

static void
scan_behind(struct fsm *f, struct tbl_scan *s, enum acl_repl_kind kind, struct span after)
{
	struct tkey prefix, at, from;

	tkey_begin(&prefix, tables[kind]);
	if (after.len == 0) {
		tbl_scan_begin(f, s, &prefix);
		return;
	}
	TKEY(&at, tables[kind], after);
	tkey_after(&from, span_of(at.b, at.len));
	tbl_scan_from(f, s, &prefix, &from);
}

/* -- in the primary datacenter -- */

static struct acl_repl_position
own_position(const struct fsm *f)
{
	return (struct acl_repl_position){ .Policies = fsm_index_of(f, FX_ACL_POLICIES), .Roles = fsm_index_of(f, FX_ACL_ROLES),
	    .Tokens = fsm_index_of(f, FX_ACL_TOKENS), .Floor = f->restored[FR_FLOOR] };
}

static bool
copy_item(struct arena *a, const struct facts *is, struct acl_repl_item *out)
{
	out->ID = arena_copy(a, is->id);
	out->Hash = arena_copy(a, is->hash);
	return out->ID.p != NULL && out->Hash.p != NULL;
}

static bool
is_kind(struct reading *r, uint64_t kind, struct span after)
{
	if (kind < ACL_REPL_KINDS && (after.len == 0 || after.len == UUID_CHARS))
		return true;
	read_fail(r, TV_EINVAL, "no such kind or id");
	return false;
}

static void
list_kind(struct reading *r, const struct acl_state *st, const struct acl_repl_ask *q, struct acl_repl_page *page)
{
	struct arena one = ARENA_INIT(FSM_RECORD_MEMORY);
	uint64_t max = q->Limit == 0 || q->Limit > ACL_REPL_PAGE ? ACL_REPL_PAGE : q->Limit;
	struct acl_repl_item *items = arena_array(r->a, max, sizeof(*items));
	struct tbl_scan s;
	struct span key, val;
	struct facts is;
	union any any;
	bool good = items != NULL;

	scan_behind(r->f, &s, (enum acl_repl_kind)q->Kind, q->After);
	while (good && tbl_next(&s, &key, &val)) {
		arena_reset(&one);
		if (!read_any(r->f, st, (enum acl_repl_kind)q->Kind, val, &one, &any, &is) || is.local || is.over)
			continue;
		page->Count += q->After.len == 0;
		if (is.modified <= q->Since)
			continue;
		page->More = page->Items.n == max;
		if (page->More && q->After.len > 0)
			break;
		if (!page->More)
			good = copy_item(r->a, &is, &items[page->Items.n++]);
	}
	tbl_scan_end(&s);
	arena_wipe(&one);
	arena_done(&one);
	page->Items.v = items;
	page->Items.set = true;
	if (!good)
		read_fail(r, TV_ENOMEM, "out of memory");
}

static void
read_changed(struct reading *r, const void *rec)
{
	const struct acl_repl_ask *q = rec;
	struct acl_repl_page page = { .Position = own_position(r->f) };
	struct acl_state st;

	r->ans->index = acl_index_of(r->f);
	if (!acl_reads(r) || !is_kind(r, q->Kind, q->After) || !acl_load(r->f, r->a, &st))
		return;
	if (q->Kind != ACL_REPL_NONE)
		list_kind(r, &st, q, &page);
	if (r->ans->err == TV_OK)
		schema_pack(&acl_repl_page_schema, &page, r->out);
}

static void
read_records(struct reading *r, const void *rec)
{
	static const size_t sizes[ACL_REPL_KINDS] = {
		[ACL_REPL_POLICIES] = sizeof(struct acl_policy), [ACL_REPL_ROLES] = sizeof(struct acl_role),
		[ACL_REPL_TOKENS] = sizeof(struct acl_token),
	};
	const struct acl_repl_ids *q = rec;
	struct acl_repl_records out = { .Considered = 0 };
	struct obj_list found = { .set = true };
	struct acl_state st;
	uint32_t max = q->IDs.n > ACL_REPL_PAGE ? ACL_REPL_PAGE : q->IDs.n;
	size_t bytes = 0;

	r->ans->index = acl_index_of(r->f);
	if (!acl_reads(r) || !is_kind(r, q->Kind, SPAN_NONE) || !acl_load(r->f, r->a, &st))
		return;
	if (q->Kind == ACL_REPL_NONE) {
		read_fail(r, TV_EINVAL, "no such kind or id");
		return;
	}
	found.v = arena_array(r->a, max + 1, sizes[q->Kind]);
	for (; found.v != NULL && out.Considered < max && bytes < FETCH_BYTES_MAX && r->f->failed == 0; out.Considered++) {
		struct span val, id = q->IDs.v[out.Considered];
		struct facts is;
		struct tkey k;
		union any any;

		TKEY(&k, tables[q->Kind], id);
		if (id.len != UUID_CHARS || !tbl_get(r->f, &k, r->a, &val))
			continue;
		bytes += val.len;
		if (!read_any(r->f, &st, (enum acl_repl_kind)q->Kind, val, r->a, &any, &is) || is.local || is.over)
			continue;
		memcpy((char *)found.v + found.n++ * sizes[q->Kind], &any, sizes[q->Kind]);
	}
	if (found.v == NULL) {
		read_fail(r, TV_ENOMEM, "out of memory");
		return;
	}
	*(q->Kind == ACL_REPL_POLICIES ? &out.Policies : q->Kind == ACL_REPL_ROLES ? &out.Roles : &out.Tokens) = found;
	schema_pack(&acl_repl_records_schema, &out, r->out);
}

/* -- in another datacenter: what differs -- */

/* Is it believed without a right? */
static bool
is_first(const struct acl_state *st, struct span hash)
{
	return hash.len == ACL_HASH_BYTES && (st->ReplToken.len == 0 ? st->Bootstrap == 0 : st->ReplToken.len == ACL_HASH_BYTES &&
	    sodium_memcmp(st->ReplToken.p, hash.p, ACL_HASH_BYTES) == 0);
}

static bool
in_order(const struct acl_repl_compare *q)
{
	const struct acl_repl_item *v = q->Items.v;
	struct span before = q->After;

	for (uint32_t i = 0; i < q->Items.n; before = v[i++].ID)
		if (v[i].ID.len != UUID_CHARS || (before.len > 0 && span_cmp(before, v[i].ID) >= 0))
			return false;
	return q->Items.n <= ACL_REPL_PAGE && (q->Until.len == 0 || before.len == 0 || span_cmp(before, q->Until) <= 0);
}

struct differ {
	struct reading *r;
	const struct acl_state *st;
	const struct acl_repl_compare *q;
	struct acl_repl_diff *out;
	uint32_t fetch_max, delete_max;
	bool failed;
};

static void
add_id(struct differ *d, struct span_list *list, uint32_t *max, struct span id)
{
	if (list->n == *max) {
		uint32_t more = *max == 0 ? 64 : *max * 2;
		struct span *v = arena_array(d->r->a, more, sizeof(*v));

		if (v == NULL) {
			d->failed = true;
			return;
		}
		if (list->n > 0)
			memcpy(v, list->v, list->n * sizeof(*v));
		list->v = v;
		*max = more;
	}
	list->v[list->n] = arena_copy(d->r->a, id);
	d->failed = d->failed || list->v[list->n].p == NULL;
	list->n++;
}

/* What is named, against what is here; a token of this datacenter alone stays whatever the primary has of that id. */
static void
look_at_items(struct differ *d)
{
	const struct acl_repl_item *v = d->q->Items.v;
	struct arena one = ARENA_INIT(FSM_RECORD_MEMORY);
	struct facts is;
	union any any;

	for (uint32_t i = 0; i < d->q->Items.n && !d->failed && d->r->f->failed == 0; i++) {
		bool there;

		arena_reset(&one);
		there = find_any(d->r->f, d->st, (enum acl_repl_kind)d->q->Kind, v[i].ID, &one, &any, &is);
		if (there && (is.local || span_eq(is.hash, v[i].Hash)))
			continue;
		d->out->New += !there;
		add_id(d, &d->out->Fetch, &d->fetch_max, v[i].ID);
	}
	arena_wipe(&one);
	arena_done(&one);
}

static bool
is_builtin(enum acl_repl_kind kind, struct span id)
{
	return span_eqs(id, kind == ACL_REPL_POLICIES ? ACL_MANAGEMENT_ID : kind == ACL_REPL_TOKENS ? ACL_ANONYMOUS_ID : "");
}

/* What is here and was not named, in the range; or how many there are at all. */
static void
look_at_all(struct differ *d)
{
	enum { DELETE_MAX = 4096 };
	const struct acl_repl_item *v = d->q->Items.v;
	enum acl_repl_kind kind = (enum acl_repl_kind)d->q->Kind;
	struct arena one = ARENA_INIT(FSM_RECORD_MEMORY);
	struct tbl_scan s;
	struct span key, val;
	struct facts is;
	union any any;
	uint32_t at = 0;

	scan_behind(d->r->f, &s, kind, d->q->After);
	while (!d->failed && d->out->Delete.n < DELETE_MAX && tbl_next(&s, &key, &val)) {
		arena_reset(&one);
		if (!read_any(d->r->f, d->st, kind, val, &one, &any, &is) || is.local || is.over)
			continue;
		d->out->Count++;
		if (!d->q->Whole || is_builtin(kind, is.id))
			continue;
		if (d->q->Until.len > 0 && span_cmp(is.id, d->q->Until) > 0)
			break;
		while (at < d->q->Items.n && span_cmp(v[at].ID, is.id) < 0)
			at++;
		if (at == d->q->Items.n || !span_eq(v[at].ID, is.id))
			add_id(d, &d->out->Delete, &d->delete_max, is.id);
	}
	tbl_scan_end(&s);
	arena_wipe(&one);
	arena_done(&one);
}

static void
compare(struct reading *r, const struct acl_repl_compare *q, const struct acl_state *st)
{
	struct acl_repl_diff out = { .Position = { st->ReplPolicies, st->ReplRoles, st->ReplTokens, st->ReplFloor } };
	struct differ d = { .r = r, .st = st, .q = q, .out = &out };

	if (!in_order(q)) {
		read_fail(r, TV_EINVAL, "ids out of order");
		return;
	}
	/* Nothing of another primary's counts. */
	if (r->f->opt.acl_primary == NULL || !span_eqs(st->Source, r->f->opt.acl_primary))
		out.Position = (struct acl_repl_position){ .Tokens = 0 };
	if (q->Kind != ACL_REPL_NONE) {
		look_at_items(&d);
		look_at_all(&d);
	}
	if (d.failed)
		read_fail(r, TV_ENOMEM, "out of memory");
	else
		schema_pack(&acl_repl_diff_schema, &out, r->out);
}

static void
read_diff(struct reading *r, const void *rec)
{
	const struct acl_repl_compare *q = rec;
	struct acl_state st;

	r->ans->index = acl_index_of(r->f);
	if (acl_reads(r) && is_kind(r, q->Kind, q->After) && acl_load(r->f, r->a, &st))
		compare(r, q, &st);
}

static void
read_diff_first(struct reading *r, const void *rec)
{
	const struct acl_repl_compare *q = rec;
	uint8_t hash[ACL_HASH_BYTES];
	struct acl_state st;

	acl_hash_secret(q->Asker, hash);
	r->ans->index = acl_index_of(r->f);
	if (!acl_reads(r) || !is_kind(r, q->Kind, q->After) || !acl_load(r->f, r->a, &st))
		return;
	if (r->f->opt.acl_primary == NULL || q->Asker.len == 0 || !is_first(&st, span_of(hash, sizeof(hash))))
		read_fail(r, TV_EPERM, "ACL not found");
	else
		compare(r, q, &st);
}

/* -- in another datacenter: what is written -- */

static enum tv_err
check_policy(struct prepare *p, const struct acl_policy *q)
{
	struct buf why = BUF_INIT(8192);
	struct acl_rules *rules = NULL;
	enum tv_err err = TV_OK;

	if (!uuid_parse(q->ID, NULL) || q->Hash.len != ACL_HASH_BYTES)
		return prepare_fail(p, "malformed policy");
	if ((err = acl_check_name(p, &acl_policies, q->Name)) != TV_OK)
		return err;
	err = acl_rules_parse(q->Rules, &rules, &why);
	if (err != TV_OK)
		err = prepare_fail(p, "policy \"%.*s\": %s", (int)q->Name.len, (const char *)q->Name.p,
		    why.len > 0 ? buf_cstr(&why) : "out of memory");
	acl_rules_free(rules);
	buf_done(&why);
	return err != TV_OK ? err : acl_check_size(p, "Policy", &acl_policy_schema, q, ACL_POLICY_BYTES_MAX);
}

static enum tv_err
check_role(struct prepare *p, const struct acl_role *q)
{
	enum tv_err err;

	if (!uuid_parse(q->ID, NULL) || q->Hash.len != ACL_HASH_BYTES)
		return prepare_fail(p, "malformed role");
	if ((err = acl_check_name(p, &acl_roles, q->Name)) != TV_OK ||
	    (err = acl_check_links(p, &acl_policies, &q->Policies)) != TV_OK)
		return err;
	return acl_check_size(p, "Role", &acl_role_schema, q, ACL_TOKEN_BYTES_MAX);
}

static enum tv_err
check_token(struct prepare *p, const struct acl_token *t)
{
	enum tv_err err;

	if (!uuid_parse(t->AccessorID, NULL) || t->Hash.len != ACL_HASH_BYTES || t->Local || t->SecretID.len == 0 ||
	    t->AuthMethod.len > ACL_NAME_BYTES_MAX || t->Expires < 0)
		return prepare_fail(p, "malformed token");
	/* The anonymous one is found by a secret that is none; no other one is. */
	if (span_eqs(t->AccessorID, ACL_ANONYMOUS_ID) ? !span_eqs(t->SecretID, ACL_ANONYMOUS_SECRET) :
	    !uuid_parse(t->SecretID, NULL))
		return prepare_fail(p, "malformed token");
	if ((err = acl_check_links(p, &acl_policies, &t->Policies)) != TV_OK ||
	    (err = acl_check_links(p, &acl_roles, &t->Roles)) != TV_OK)
		return err;
	return acl_check_size(p, "Token", &acl_token_schema, t, ACL_TOKEN_BYTES_MAX);
}

static enum tv_err
check_copies(struct prepare *p, const struct acl_repl_apply *q)
{
	const struct acl_policy *policies = q->Policies.v;
	const struct acl_role *roles = q->Roles.v;
	const struct acl_token *tokens = q->Tokens.v;
	enum tv_err err = TV_OK;

	if (q->Kind >= ACL_REPL_KINDS || (q->Kind == ACL_REPL_NONE && q->Delete.n > 0) || q->Error.len > TEXT_BYTES_MAX)
		return prepare_fail(p, "malformed copies");
	for (uint32_t i = 0; i < q->Policies.n && err == TV_OK; i++)
		err = check_policy(p, &policies[i]);
	for (uint32_t i = 0; i < q->Roles.n && err == TV_OK; i++)
		err = check_role(p, &roles[i]);
	for (uint32_t i = 0; i < q->Tokens.n && err == TV_OK; i++)
		err = check_token(p, &tokens[i]);
	return err;
}

static enum tv_err
apply_prepare(struct prepare *p, void *rec)
{
	struct acl_repl_apply *q = rec;
	enum tv_err err = acl_prepares(p);

	if (err != TV_OK)
		return err;
	if (p->f->opt.acl_primary == NULL)
		return prepare_fail(p, "this datacenter copies nothing: acl.primary_datacenter names no other one");
	q->Asker = q->AskerHash = SPAN_NONE;
	q->Source = span_str(p->f->opt.acl_primary);
	q->Now = p->now;
	return check_copies(p, q);
}

static enum tv_err
apply_first_prepare(struct prepare *p, void *rec)
{
	struct acl_repl_apply *q = rec;
	struct span asker = q->Asker;
	enum tv_err err = apply_prepare(p, rec);
	uint8_t *hash = arena_alloc(p->a, ACL_HASH_BYTES);

	if (err != TV_OK)
		return err;
	if (hash == NULL)
		return prepare_fail(p, "out of memory");
	if (asker.len == 0)
		return prepare_fail(p, "no token is named");
	acl_hash_secret(asker, hash);
	q->AskerHash = span_of(hash, ACL_HASH_BYTES);
	return TV_OK;
}

static bool
copy_policy(struct apply *p, const struct acl_policy *from, struct arena *one)
{
	struct acl_policy q = *from, old = { .ID = SPAN_NONE };
	bool there = acl_policy_find(p->f, q.ID, one, &old);

	if (there && span_eq(old.Hash, q.Hash))
		return false;
	acl_policy_copy(p, &q, there ? &old : NULL);
	return true;
}

static bool
copy_role(struct apply *p, const struct acl_role *from, struct arena *one)
{
	struct acl_role q = *from, old = { .ID = SPAN_NONE };
	bool there = acl_role_find(p->f, q.ID, one, &old);

	if (there && span_eq(old.Hash, q.Hash))
		return false;
	acl_role_copy(p, &q, there ? &old : NULL);
	return true;
}

/* Whatever is in its way: one of this datacenter alone stays, others give way to the primary's. */
static bool
copy_token(struct apply *p, const struct acl_state *st, const struct acl_token *from, struct arena *one)
{
	struct acl_token t = *from, old = { .AccessorID = SPAN_NONE }, other = { .AccessorID = SPAN_NONE };
	bool there = acl_token_find(p->f, t.AccessorID, one, &old);

	if (there && (old.Local || (span_eq(old.Hash, t.Hash) && span_eq(old.SecretID, t.SecretID) && old.Expires == t.Expires)))
		return false;
	if (there && (!span_eq(old.SecretID, t.SecretID) || old.Expires != t.Expires)) {
		acl_token_remove(p->f, st, &old);
		there = false;
	}
	if (!there && acl_token_of_secret(p->f, st, t.SecretID, one, &other)) {
		if (other.Local)
			return false;
		acl_token_remove(p->f, st, &other);
	}
	acl_token_copy(p, st, &t, there ? &old : NULL);
	return true;
}

static bool
remove_copy(struct apply *p, const struct acl_state *st, enum acl_repl_kind kind, struct span id, struct arena *one)
{
	struct facts is;
	union any any;

	if (is_builtin(kind, id) || !find_any(p->f, st, kind, id, one, &any, &is) || is.local)
		return false;
	if (kind == ACL_REPL_POLICIES)
		acl_policy_remove(p->f, &any.policy);
	else if (kind == ACL_REPL_ROLES)
		acl_role_remove(p->f, &any.role);
	else
		acl_token_remove(p->f, st, &any.token);
	return true;
}

static bool
copy_all(struct apply *p, const struct acl_state *st, const struct acl_repl_apply *q)
{
	const struct acl_policy *policies = q->Policies.v;
	const struct acl_role *roles = q->Roles.v;
	const struct acl_token *tokens = q->Tokens.v;
	struct arena one = ARENA_INIT(2 * FSM_RECORD_MEMORY);
	uint32_t changed = 0;

	for (uint32_t i = 0; i < q->Delete.n && p->f->failed == 0; i++, arena_reset(&one))
		changed += remove_copy(p, st, (enum acl_repl_kind)q->Kind, q->Delete.v[i], &one);
	for (uint32_t i = 0; i < q->Policies.n && p->f->failed == 0; i++, arena_reset(&one))
		changed += copy_policy(p, &policies[i], &one);
	for (uint32_t i = 0; i < q->Roles.n && p->f->failed == 0; i++, arena_reset(&one))
		changed += copy_role(p, &roles[i], &one);
	for (uint32_t i = 0; i < q->Tokens.n && p->f->failed == 0; i++, arena_reset(&one))
		changed += copy_token(p, st, &tokens[i], &one);
	arena_wipe(&one);
	arena_done(&one);
	return changed > 0;
}

static void
carry_out(struct apply *p, const struct acl_repl_apply *q, struct acl_state *st)
{
	bool changed;

	/* Who had a right to it ends the time in which anybody is believed. */
	if (st->ReplToken.len == 0) {
		st->ReplToken = q->AskerHash.len > 0 ? q->AskerHash : span_str(ACL_REPL_CLOSED);
		acl_store(p->f, st);
	}
	changed = copy_all(p, st, q);
	if (p->f->failed != 0 || !acl_load(p->f, &p->f->work, st))	/* the token may be among what went */
		return;
	if (!span_eq(st->Source, q->Source)) {
		st->Source = q->Source;
		st->ReplPolicies = st->ReplRoles = st->ReplTokens = st->ReplFloor = 0;
	}
	if (q->Reached) {
		st->ReplPolicies = q->Position.Policies;
		st->ReplRoles = q->Position.Roles;
		st->ReplTokens = q->Position.Tokens;
		st->ReplFloor = q->Position.Floor;
		st->ReplSuccess = q->Now;
	}
	if (q->Error.len > 0) {
		st->ReplFailure = q->Now;
		st->ReplError = q->Error;
	}
	acl_store(p->f, st);
	apply_bool(p, changed);
}

static void
apply_copies(struct apply *p, const void *rec)
{
	struct acl_state st;

	if (!acl_applies(p, &st))
		return;
	carry_out(p, rec, &st);
	acl_forget(p->f);
}

static void
apply_copies_first(struct apply *p, const void *rec)
{
	const struct acl_repl_apply *q = rec;
	struct acl_state st;

	if (!acl_applies(p, &st))
		return;
	if (!is_first(&st, q->AskerHash)) {
		apply_fail(p, TV_EPERM, "ACL not found");
		return;
	}
	carry_out(p, q, &st);
	acl_forget(p->f);
}

/* -- how far it has come -- */

static struct span
time_text(struct arena *a, int64_t ns)
{
	return ns == 0 ? span_str(NEVER) : acl_time(a, ns);
}

static void
read_replication(struct reading *r, const void *rec UNUSED)
{
	struct acl_replication out = { .LastSuccess = span_str(NEVER), .LastError = span_str(NEVER) };
	const char *primary = r->f->opt.acl_primary;
	struct acl_state st;

	if (!acl_reads(r) || !acl_load(r->f, r->a, &st))
		return;
	if (primary != NULL) {
		int64_t newest = st.ReplSuccess > st.ReplFailure ? st.ReplSuccess : st.ReplFailure;

		out.Enabled = true;
		out.Running = newest != 0 && fsm_wall_now(r->f) - newest < RUNNING_NS;
		out.SourceDatacenter = span_str(primary);
		out.ReplicationType = span_str("tokens");
		out.ReplicatedIndex = st.ReplPolicies;
		out.ReplicatedRoleIndex = st.ReplRoles;
		out.ReplicatedTokenIndex = st.ReplTokens;
		out.LastSuccess = time_text(r->a, st.ReplSuccess);
		out.LastError = time_text(r->a, st.ReplFailure);
		out.LastErrorMessage = st.ReplError;
	}
	schema_pack(&acl_replication_schema, &out, r->out);
}

const struct fsm_op acl_repl_ops[] = {
	{ OP_ACL_REPLICATION, .read = read_replication },
	{ OP_ACL_REPL_LIST, .read = read_changed },
	{ OP_ACL_REPL_FETCH, .read = read_records },
	{ OP_ACL_REPL_DIFF, .read = read_diff },
	{ OP_ACL_REPL_DIFF_FIRST, .read = read_diff_first },
	{ OP_ACL_REPL_APPLY, .since = 7, .prepare = apply_prepare, .apply = apply_copies },
	{ OP_ACL_REPL_APPLY_FIRST, .since = 7, .prepare = apply_first_prepare, .apply = apply_copies_first },
	{ 0 },
};
