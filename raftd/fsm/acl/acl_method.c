/*
 * Auth methods: who vouches for those who log in.  What Config says is looked at before the log, by who knows keys and
 * claims (raftd/login); the state keeps it as it was given.
 *
 * With a method go its binding rules, and those of its tokens that are of its locality: none of them is good for anything from
 * then on.  One entry removes ACL_REAP_TOKENS_MAX of them, so that others need not wait for it.  If that were not all, the method's
 * name stands in acl_state.Ending until entries of the leader have removed the rest: so long no look finds them, and no method of
 * that name can be made, whose they would be.
 */
#include <errno.h>

#include "common/record/mpack.h"
#include "common/text/duration.h"
#include "raftd/fsm/acl/acl_int.h"
#include "raftd/fsm/read/watch.h"
#include "raftd/fsm/table/meta.h"
#include "raftd/fsm/table/table.h"

#define TTL_MIN_NS (60ll * 1000000000)
#define TTL_MAX_NS (24ll * 3600 * 1000000000)
#define INVALID "Invalid Auth Method: "
#define TYPES INVALID "Type should be one of: [jwt kubernetes]"

const struct acl_kind acl_methods = { .title = "Auth Method", .lower = "auth method" };

bool
acl_method_find(struct fsm *f, struct span name, struct arena *a, struct acl_method *out)
{
	struct tkey k;

	TKEY(&k, TBL_ACL_METHOD, name);
	return name.len > 0 && name.len <= ACL_NAME_BYTES_MAX && tbl_get_rec(f, &k, &acl_method_schema, a, out);
}

/* -- methods that have ended -- */

static bool
is_ending(const struct acl_state *st, struct span method)
{
	const struct acl_ending *v = st->Ending.v;

	for (uint32_t i = 0; i < st->Ending.n; i++)
		if (span_eq_nocase(v[i].Method, method))
			return true;
	return false;
}

bool
acl_token_ends(const struct acl_state *st, const struct acl_token *t)
{
	const struct acl_ending *v = st->Ending.v;

	for (uint32_t i = 0; t->AuthMethod.len > 0 && i < st->Ending.n; i++)
		if (v[i].Local == t->Local && span_eq_nocase(v[i].Method, t->AuthMethod))
			return true;
	return false;
}

/* -- before the log -- */

static enum tv_err
check_ttl(struct prepare *p, int64_t ttl)
{
	struct buf is = BUF_INIT(64), bound = BUF_INIT(64);
	enum tv_err err = TV_OK;

	if (ttl != 0 && (ttl < TTL_MIN_NS || ttl > TTL_MAX_NS)) {
		duration_print(ttl, &is);
		duration_print(ttl < TTL_MIN_NS ? TTL_MIN_NS : TTL_MAX_NS, &bound);
		err = prepare_fail(p, "MaxTokenTTL %s cannot be %s than %s", buf_cstr(&is), ttl < TTL_MIN_NS ? "less" : "more",
		    buf_cstr(&bound));
	}
	buf_done(&is);
	buf_done(&bound);
	return err;
}

/* Of a type that there is no more than the name of, nothing is known. */
static enum tv_err
check_config(struct prepare *p, struct acl_method *m)
{
	struct buf why = BUF_INIT(8192);
	enum tv_err err = TV_EINVAL;

	m->Values = (struct span_list){ .n = 0 };
	if (span_eqs(m->Type, "kubernetes"))
		return TV_OK;
	if (p->f->opt.check_method != NULL)
		err = p->f->opt.check_method(m, p->a, &why);
	else
		buf_puts(&why, "no auth methods can be made here");
	if (err != TV_OK)
		err = prepare_fail(p, INVALID "%s", buf_cstr(&why));
	buf_done(&why);
	return err;
}

static enum tv_err
set_prepare(struct prepare *p, void *rec)
{
	struct acl_method_set *q = rec;
	struct acl_method *m = &q->Method;
	enum tv_err err = acl_prepares(p);

	if (err != TV_OK || (err = acl_check_name(p, &acl_methods, m->Name)) != TV_OK)
		return err;
	if (m->Type.len > 0 && !span_eqs(m->Type, "jwt") && !span_eqs(m->Type, "kubernetes"))
		return prepare_fail(p, TYPES);
	if ((err = check_ttl(p, m->MaxTokenTTL)) != TV_OK)
		return err;
	if (m->TokenLocality.len > 0 && !span_eqs(m->TokenLocality, "local") && !span_eqs(m->TokenLocality, "global"))
		return prepare_fail(p, INVALID "TokenLocality should be one of 'local' or 'global'");
	m->CreateIndex = m->ModifyIndex = 0;
	err = check_config(p, m);
	return err != TV_OK ? err : acl_check_size(p, "Auth Method", &acl_method_schema, m, ACL_METHOD_BYTES_MAX);
}

static enum tv_err
delete_prepare(struct prepare *p, void *rec)
{
	const struct acl_name *q = rec;
	enum tv_err err = acl_prepares(p);

	if (err == TV_OK && q->Name.len == 0)
		err = prepare_fail(p, "Missing auth method name");
	return err;
}

/* -- entries -- */

/* The type that it has now, or may have from now on; false: the entry has failed. */
static bool
settle_type(struct apply *p, struct acl_method *m, const struct acl_method *old)
{
	if (old != NULL && m->Type.len == 0)
		m->Type = old->Type;
	if (old != NULL && !span_eq(m->Type, old->Type))
		apply_fail(p, TV_EINVAL, "the Type field of an Auth Method is immutable");
	else if (span_eqs(m->Type, "kubernetes"))
		apply_fail(p, TV_EINVAL, INVALID "servers of Triumvir ask no Kubernetes API; make a method of type jwt with the public "
		    "keys of its service accounts");
	else if (!span_eqs(m->Type, "jwt"))
		apply_fail(p, TV_EINVAL, TYPES);
	else
		return true;
	return false;
}

static void
set_apply(struct apply *p, const void *rec)
{
	const struct acl_method_set *s = rec;
	struct acl_method m = s->Method, old = { .Name = SPAN_NONE };
	struct acl_state st;
	struct tkey k;
	bool there;

	if (!acl_applies(p, &st))
		return;
	if (m.Name.len == 0 || m.Name.len > ACL_NAME_BYTES_MAX || m.MaxTokenTTL < 0) {
		apply_fail(p, TV_EFORMAT, "malformed auth method");
		return;
	}
	if (is_ending(&st, m.Name)) {
		acl_fail_quoted(p, "Tokens of the deleted auth method ", m.Name, " are still being removed: try again in some seconds");
		return;
	}
	there = acl_method_find(p->f, m.Name, &p->f->work, &old);
	if (!settle_type(p, &m, there ? &old : NULL))
		return;
	m.CreateIndex = there ? old.CreateIndex : p->f->at;
	m.ModifyIndex = p->f->at;
	TKEY(&k, TBL_ACL_METHOD, m.Name);
	tbl_put_rec(p->f, &k, &acl_method_schema, &m);
	if (!there)
		fsm_count(p->f, FT_ACL_METHODS, 1);
	fsm_touch(p->f, FX_ACL_METHODS);
	acl_answer(p, &acl_method_schema, &m);
}

/* The id at the end of a key of TBL_ACL_METHOD_BINDING or TBL_ACL_METHOD_TOKEN. */
static struct span
id_of_key(const struct tkey *k)
{
	return k->len > UUID_CHARS ? span_of(k->b + k->len - UUID_CHARS, UUID_CHARS) : SPAN_NONE;
}

static void
end_binding(struct fsm *f, const struct tkey *k, struct arena *one, void *ctx UNUSED)
{
	struct acl_binding b;

	if (acl_binding_find(f, id_of_key(k), one, &b))
		acl_binding_remove(f, &b);
}

static void
end_token(struct fsm *f, const struct acl_state *st, const struct acl_ending *e, const struct tkey *k)
{
	struct arena one = ARENA_INIT(FSM_RECORD_MEMORY);
	struct acl_token t;

	if (acl_token_find(f, id_of_key(k), &one, &t) && t.Local == e->Local)
		acl_token_remove(f, st, &t);
	arena_wipe(&one);
	arena_done(&one);
}

/* Of this ending's tokens the next ones, at most max, whatever their locality; how many these were.  *all: there are no more. */
static uint32_t
end_some(struct fsm *f, const struct acl_state *st, struct acl_ending *e, uint32_t max, bool *all)
{
	enum { STEP = 64 };
	uint32_t looked = 0, want, n;
	struct span keys[STEP];
	struct tkey prefix, from, k;

	TKEY(&prefix, TBL_ACL_METHOD_TOKEN, e->Method);
	from = prefix;
	if (e->After.len > 0) {
		TKEY(&k, TBL_ACL_METHOD_TOKEN, e->Method, e->After);
		tkey_after(&from, span_of(k.b, k.len));
	}
	do {
		struct arena step = ARENA_INIT(STEP * TKEY_BYTES_MAX);

		want = max - looked < STEP ? max - looked : STEP;
		n = tbl_keys_from(f, &prefix, &from, &step, keys, want);
		for (uint32_t i = 0; i < n && f->failed == 0; i++) {
			tbl_key_of(&k, keys[i]);
			end_token(f, st, e, &k);
		}
		if (n > 0) {
			tkey_after(&from, keys[n - 1]);
			e->After = arena_copy(&f->work, id_of_key(&k));
		}
		looked += n;
		arena_done(&step);
	} while (n == want && looked < max && f->failed == 0);
	*all = n < want;
	return looked;
}

/* These are what is still to be removed.  The state is read anew: with a token that was removed it may have changed. */
static void
store_endings(struct fsm *f, const struct acl_ending *v, uint32_t n)
{
	struct acl_state now;

	if (!acl_load(f, &f->work, &now))
		return;
	now.Ending = (struct obj_list){ .v = (void *)(uintptr_t)v, .n = n, .set = true };
	acl_store(f, &now);
	fsm_touch(f, FX_ACL_TOKENS);
}

void
acl_end_tokens(struct apply *p, uint32_t max)
{
	struct fsm *f = p->f;
	struct acl_state st;
	struct acl_ending *v;
	uint32_t done = 0;
	bool all = true;

	if (max == 0 || !acl_load(f, &f->work, &st) || st.Ending.n == 0)
		return;
	v = st.Ending.v;
	while (done < st.Ending.n && max > 0 && f->failed == 0) {
		max -= end_some(f, &st, &v[done], max, &all);
		if (!all)
			break;
		done++;
	}
	store_endings(f, v + done, st.Ending.n - done);
}

static void
delete_apply(struct apply *p, const void *rec)
{
	const struct acl_name *q = rec;
	struct fsm *f = p->f;
	struct acl_method m;
	struct acl_state st;
	struct tkey k;

	if (!acl_applies(p, &st))
		return;
	if (acl_method_find(f, q->Name, &f->work, &m)) {
		struct acl_ending *v = arena_array(&f->work, ACL_ENDINGS_MAX, sizeof(*v));
		bool all;

		if (st.Ending.n >= ACL_ENDINGS_MAX) {
			apply_fail(p, TV_EAGAIN, "Tokens of %u deleted auth methods are still being removed: try again in some seconds",
			    (unsigned)st.Ending.n);
			return;
		}
		if (v == NULL) {
			f->failed = ENOMEM;
			return;
		}
		if (st.Ending.n > 0)
			memcpy(v, st.Ending.v, st.Ending.n * sizeof(*v));
		v[st.Ending.n] = (struct acl_ending){ .Method = m.Name, .Local = !span_eqs(m.TokenLocality, "global"),
		    .After = span_str("") };
		TKEY(&k, TBL_ACL_METHOD_BINDING, q->Name);
		tbl_each(f, &k, end_binding, NULL);
		(void)end_some(f, &st, &v[st.Ending.n], ACL_REAP_TOKENS_MAX, &all);
		if (!all)
			store_endings(f, v, st.Ending.n + 1);
		TKEY(&k, TBL_ACL_METHOD, q->Name);
		(void)tbl_del(f, &k);		/* it is there */
		fsm_count(f, FT_ACL_METHODS, -1);
		fsm_touch(f, FX_ACL_METHODS);
	}
	apply_bool(p, true);
	acl_forget(f);
}

/* -- reads -- */

static void
read_one(struct reading *r, const void *rec)
{
	const struct acl_name *q = rec;
	struct span val;
	struct tkey k;
	bool found;

	r->ans->index = fsm_index_of(r->f, FX_ACL_METHODS);
	if (!acl_reads(r))
		return;
	TKEY(&k, TBL_ACL_METHOD, q->Name);
	found = q->Name.len > 0 && q->Name.len <= ACL_NAME_BYTES_MAX && tbl_peek(r->f, &k, &val);
	mpw_array(r->out, found);
	if (found)
		buf_putspan(r->out, val);
}

static bool
list_one(struct reading *r, struct span val, struct arena *one, const void *ctx UNUSED)
{
	struct acl_method m = { .Name = SPAN_NONE };

	if (!tbl_decode(r->f, &acl_method_schema, val, one, &m))
		return false;
	m.Config = SPAN_NONE;
	schema_pack(&acl_method_stub_schema, &m, r->out);
	return true;
}

static void
read_list(struct reading *r, const void *rec UNUSED)
{
	r->ans->index = fsm_index_of(r->f, FX_ACL_METHODS);
	if (acl_reads(r))
		acl_list(r, TBL_ACL_METHOD, list_one, NULL);
}

const struct fsm_op acl_method_ops[] = {
	{ OP_ACL_METHOD_SET, .since = 7, .prepare = set_prepare, .apply = set_apply },
	{ OP_ACL_METHOD_DELETE, .since = 7, .prepare = delete_prepare, .apply = delete_apply },
	{ OP_ACL_METHOD_GET, .read = read_one },
	{ OP_ACL_METHOD_LIST, .read = read_list },
	{ 0 },
};
