/*
 * Access control as a whole: since when it holds, how it begins, and what the operations of its kind share.  Source: http-api,
 * section 10.
 *
 * That it holds is a record of the state, made once by an entry of the leader, and with it the policy and the token that are
 * always there.  Without the record all other operations of this area are refused before the log: who does not use access control
 * has a state that versions before it can read.
 */
#include "common/acl/rules.h"
#include "common/text/json_text.h"
#include "common/text/rfc3339.h"
#include "raftd/fsm/acl/acl_int.h"
#include "raftd/fsm/table/meta.h"
#include "raftd/fsm/table/table.h"

#define OFF_TEXT "ACL support disabled"

/* -- does it hold? -- */

bool
acl_load(struct fsm *f, struct arena *a, struct acl_state *out)
{
	struct tkey k;

	tkey_begin(&k, TBL_ACL);
	if (!tbl_get_rec(f, &k, &acl_state_schema, a, out))
		return false;
	if (out->Key.len != ACL_KEY_BYTES)	/* the library would abort */
		f->failed = DB_VERIFY_BAD;
	return f->failed == 0;
}

void
acl_store(struct fsm *f, const struct acl_state *st)
{
	struct tkey k;

	tkey_begin(&k, TBL_ACL);
	tbl_put_rec(f, &k, &acl_state_schema, st);
	f->facts |= FACT_ACL;
}

bool
acl_applies(struct apply *p, struct acl_state *out)
{
	if (acl_load(p->f, &p->f->work, out))
		return true;
	apply_fail(p, TV_EDISABLED, OFF_TEXT);
	return false;
}

bool
acl_reads(struct reading *r)
{
	struct tkey k;

	tkey_begin(&k, TBL_ACL);
	if (tbl_has(r->f, &k))
		return true;
	read_fail(r, TV_EDISABLED, OFF_TEXT);
	return false;
}

enum tv_err
acl_prepares(struct prepare *p)
{
	if (fsm_acl_since(p->f) > 0)
		return TV_OK;
	(void)prepare_fail(p, OFF_TEXT);
	return TV_EDISABLED;
}

/* -- shared by its operations -- */

uint64_t
acl_index_of(const struct fsm *f)
{
	return fsm_index_of_set(f, FX_SET(ACL_TOKENS) | FX_SET(ACL_POLICIES) | FX_SET(ACL_ROLES));
}

void
acl_forget(struct fsm *f)
{
	arena_wipe(&f->work);
	if (f->scratch.data != NULL)
		sodium_memzero(f->scratch.data, f->scratch.cap);
	if (f->pack.data != NULL)
		sodium_memzero(f->pack.data, f->pack.cap);
}

struct span
acl_time(struct arena *a, int64_t ns)
{
	struct buf b = BUF_INIT(RFC3339_BYTES_MAX);
	struct span text;

	rfc3339_print(ns, &b);
	text = arena_copy(a, buf_span(&b));
	buf_done(&b);
	return text;
}

struct span
acl_new_secret(struct arena *a)
{
	uint8_t random[UUID_BYTES];
	char text[UUID_CHARS + 1];
	struct span out;

	randombytes_buf(random, sizeof(random));
	uuid_v4(random, text);
	out = arena_copy(a, span_str(text));
	sodium_memzero(random, sizeof(random));
	sodium_memzero(text, sizeof(text));
	return out;
}

void
acl_answer(struct apply *p, const struct schema *s, const void *rec)
{
	struct buf b = BUF_INIT(FSM_ANSWER_BYTES_MAX);

	b.secret = true;
	schema_pack(s, rec, &b);
	p->res->value = arena_copy(p->out, buf_span(&b));
	buf_done(&b);
}

void
acl_fail_quoted(struct apply *p, const char *before, struct span name, const char *after)
{
	struct buf quoted = BUF_INIT(8192);

	text_quote(span_of(name.p, name.len > 256 ? 256 : name.len), &quoted);
	apply_fail(p, TV_EINVAL, "%s%s%s", before, buf_cstr(&quoted), after);
	buf_done(&quoted);
}

enum tv_err
acl_check_size(struct prepare *p, const char *what, const struct schema *s, const void *rec, size_t max)
{
	struct buf packed = BUF_INIT(max);
	enum tv_err err = TV_OK;

	packed.secret = true;
	schema_pack(s, rec, &packed);
	if (packed.failed)
		err = prepare_fail(p, "Invalid %s: it is larger than %zu bytes", what, max);
	buf_done(&packed);
	return err;
}

void
acl_list(struct reading *r, enum tbl table, acl_each_fn *each, const void *ctx)
{
	struct arena one = ARENA_INIT(FSM_RECORD_MEMORY);
	size_t at = list_begin(r->out);
	struct tkey prefix;
	struct tbl_scan s;
	struct span key, val;
	uint32_t n = 0;

	tkey_begin(&prefix, table);
	tbl_scan_begin(r->f, &s, &prefix);
	while (!r->out->failed && tbl_next(&s, &key, &val)) {
		arena_reset(&one);
		n += each(r, val, &one, ctx);
	}
	tbl_scan_end(&s);
	list_end(r->out, at, n);
	arena_wipe(&one);
	arena_done(&one);
}

/* -- it begins -- */

static enum tv_err
enable_prepare(struct prepare *p, void *rec)
{
	struct acl_enable *q = rec;
	uint8_t *key = arena_alloc(p->a, ACL_KEY_BYTES);

	if (key == NULL)
		return prepare_fail(p, "out of memory");
	randombytes_buf(key, ACL_KEY_BYTES);
	q->Key = span_of(key, ACL_KEY_BYTES);
	q->Now = p->now;
	return TV_OK;
}

static void
put_builtin(struct apply *p, const struct acl_state *st, int64_t now)
{
	struct acl_policy all = { .ID = span_str(ACL_MANAGEMENT_ID), .Name = span_str("global-management"),
	    .Description = span_str("Builtin Policy that grants unlimited access"), .Rules = span_str(acl_rules_management) };
	struct acl_token nobody = { .AccessorID = span_str(ACL_ANONYMOUS_ID), .SecretID = span_str(ACL_ANONYMOUS_SECRET),
	    .Description = span_str("Anonymous Token"), .CreateTime = acl_time(&p->f->work, now) };

	acl_policy_put(p, &all, NULL);
	acl_token_put(p, st, &nobody, NULL);
}

static void
enable_apply(struct apply *p, const void *rec)
{
	const struct acl_enable *q = rec;
	struct acl_state st = { .Since = p->f->at, .Key = q->Key }, now;

	if (q->Key.len != ACL_KEY_BYTES) {
		apply_fail(p, TV_EFORMAT, "malformed key");
		return;
	}
	if (acl_load(p->f, &p->f->work, &now)) {
		apply_bool(p, false);
		return;
	}
	acl_store(p->f, &st);
	put_builtin(p, &st, q->Now);
	apply_bool(p, true);
}

/* -- the first token of a cluster -- */

static enum tv_err
bootstrap_prepare(struct prepare *p, void *rec)
{
	struct acl_bootstrap *q = rec;
	struct span secret = q->Token.SecretID, what = q->Token.Description;	/* that the leader was given */
	struct acl_link *link = arena_array(p->a, 1, sizeof(*link));
	enum tv_err err = acl_prepares(p);

	if (err != TV_OK)
		return err;
	if (link == NULL)
		return prepare_fail(p, "out of memory");
	if (secret.len > 0 && (!uuid_parse(secret, NULL) || span_starts(secret, span_str(ACL_RESERVED))))
		return prepare_fail(p, "Invalid Token: SecretID is not a valid UUID");
	link->ID = span_str(ACL_MANAGEMENT_ID);
	q->Token = (struct acl_token){ .AccessorID = span_str(p->uuid),
	    .SecretID = secret.len > 0 ? secret : acl_new_secret(p->a),
	    .Description = what.len > 0 ? what : span_str("Bootstrap Token (Global Management)"),
	    .Policies = { .v = link, .n = 1, .set = true }, .CreateTime = acl_time(p->a, p->now) };
	q->Now = p->now;
	return q->Token.SecretID.len == 0 ? prepare_fail(p, "out of memory") : TV_OK;
}

static void
bootstrap_apply(struct apply *p, const void *rec)
{
	const struct acl_bootstrap *q = rec;
	struct acl_token t = q->Token, before;
	struct acl_state st;

	if (!acl_applies(p, &st))
		return;
	if (st.Bootstrap != 0 && q->Reset == 0) {
		apply_fail(p, TV_EPERM, "Permission denied: ACL bootstrap no longer allowed (reset index: %llu)",
		    (unsigned long long)st.Bootstrap);
		return;
	}
	if (st.Bootstrap != 0 && q->Reset != st.Bootstrap) {
		apply_fail(p, TV_EINVAL, "Invalid bootstrap reset index (specified %llu, reset index: %llu)",
		    (unsigned long long)q->Reset, (unsigned long long)st.Bootstrap);
		return;
	}
	if (t.AccessorID.len != UUID_CHARS || t.SecretID.len == 0) {
		apply_fail(p, TV_EFORMAT, "malformed token");
		return;
	}
	/* An operator that resets does not trust the holder of the token of before. */
	if (st.First.len > 0 && acl_token_find(p->f, st.First, &p->f->work, &before))
		acl_token_remove(p->f, &st, &before);
	st.Bootstrap = p->f->at;
	st.First = t.AccessorID;
	acl_store(p->f, &st);
	acl_token_put(p, &st, &t, NULL);
	acl_token_answer(p, &t);
	acl_forget(p->f);
}

enum tv_err
fsm_first_token(struct fsm *reader, struct span secret, struct fsm_first_token *out)
{
	struct arena a = ARENA_INIT(2 * FSM_RECORD_MEMORY);
	struct acl_state st;
	struct acl_token t;

	*out = (struct fsm_first_token){ .made = 0 };
	if (acl_load(reader, &a, &st)) {
		out->made = st.Bootstrap;
		out->in_use = acl_token_of_secret(reader, &st, secret, &a, &t) || acl_token_find(reader, secret, &a, &t);
		out->is_first = out->in_use && span_eq(t.AccessorID, st.First);
	}
	arena_done(&a);
	return fsm_read_err(reader);
}

/* -- reads -- */

static void
read_translated(struct reading *r, const void *rec)
{
	const struct acl_rules_text *q = rec;
	struct buf text = BUF_INIT(4 * ACL_RULES_TEXT_MAX), why = BUF_INIT(8192);
	struct text_reply answer;
	enum tv_err err;

	r->ans->index = fsm_index_of(r->f, FX_ACL_POLICIES);
	if (!acl_reads(r))
		return;
	err = acl_rules_translate(q->Rules, &text, &why);
	answer.Value = buf_span(&text);
	if (err == TV_OK)
		schema_pack(&text_reply_schema, &answer, r->out);
	else
		read_fail(r, err == TV_ENOMEM ? TV_ENOMEM : TV_EFORMAT, "%s", buf_cstr(&why));
	buf_done(&text);
	buf_done(&why);
}

const struct fsm_op acl_ops[] = {
	{ OP_ACL_ENABLE, .since = 7, .prepare = enable_prepare, .apply = enable_apply },
	{ OP_ACL_BOOTSTRAP, .since = 7, .prepare = bootstrap_prepare, .apply = bootstrap_apply },
	{ OP_ACL_TRANSLATE, .read = read_translated },
	{ 0 },
};
