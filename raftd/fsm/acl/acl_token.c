/*
 * Tokens.  A secret is looked up by its hash with a key of this cluster, and then compared in constant time: how long a look-up
 * takes says nothing about what secrets there are.  They are stored as they are, because the API shows them again.
 *
 * When a token expires is decided by its time alone: from then on no look finds it, and an entry of the leader removes it later.
 */
#include <errno.h>

#include "common/record/mpack.h"
#include "common/text/duration.h"
#include "common/text/rfc3339.h"
#include "raftd/fsm/acl/acl_int.h"
#include "raftd/fsm/read/watch.h"
#include "raftd/fsm/session/session.h"
#include "raftd/fsm/table/meta.h"
#include "raftd/fsm/table/table.h"

#define LIFE_MIN_NS (60ll * 1000000000)
#define LIFE_MAX_NS (24ll * 3600 * 1000000000)
#define RAFT_FAILED "Failed to apply token write request: "

/* -- what is stored -- */

bool
acl_token_find(struct fsm *f, struct span accessor, struct arena *a, struct acl_token *out)
{
	struct tkey k;

	TKEY(&k, TBL_ACL_TOKEN, accessor);
	return accessor.len == UUID_CHARS && tbl_get_rec(f, &k, &acl_token_schema, a, out);
}

static void
secret_key(struct tkey *k, const struct acl_state *st, struct span secret)
{
	uint8_t hash[ACL_HASH_BYTES];

	(void)crypto_generichash(hash, sizeof(hash), secret.p, secret.len, st->Key.p, st->Key.len);	/* cannot fail */
	TKEY(k, TBL_ACL_SECRET, span_of(hash, sizeof(hash)));
}

bool
acl_token_of_secret(struct fsm *f, const struct acl_state *st, struct span secret, struct arena *a, struct acl_token *out)
{
	char accessor[UUID_CHARS + 1];
	struct span val;
	struct tkey k;

	secret_key(&k, st, secret);
	if (!tbl_peek(f, &k, &val) || val.len < UUID_CHARS || !span_copy(span_of(val.p, UUID_CHARS), accessor, sizeof(accessor)))
		return false;
	return acl_token_find(f, span_str(accessor), a, out) && out->SecretID.len == secret.len &&
	    sodium_memcmp(out->SecretID.p, secret.p, secret.len) == 0;
}

static void
expiry_key(struct tkey *k, int64_t time, struct span accessor)
{
	tkey_begin(k, TBL_ACL_EXPIRY);
	tkey_u64(k, (uint64_t)time);
	tkey_raw(k, accessor);
}

bool
acl_expired(const struct acl_token *t, int64_t now)
{
	return t->Expires != 0 && t->Expires <= now;
}

static void
hash_token(const struct acl_token *t, uint8_t out[ACL_HASH_BYTES])
{
	crypto_generichash_state h;

	(void)crypto_generichash_init(&h, NULL, 0, ACL_HASH_BYTES);
	acl_hash_text(&h, t->Description);
	acl_hash_text(&h, span_str(t->Local ? "local" : "global"));
	acl_hash_links(&h, &t->Policies);
	acl_hash_links(&h, &t->Roles);
	acl_hash_identities(&h, &t->ServiceIdentities, &t->NodeIdentities);
	acl_hash_text(&h, t->AuthMethod);
	(void)crypto_generichash_final(&h, out, ACL_HASH_BYTES);
}

void
acl_token_put(struct apply *p, const struct acl_state *st, struct acl_token *t, const struct acl_token *old)
{
	uint8_t *hash = arena_alloc(&p->f->work, ACL_HASH_BYTES);

	if (hash == NULL) {
		p->f->failed = ENOMEM;
		return;
	}
	hash_token(t, hash);
	t->Hash = span_of(hash, ACL_HASH_BYTES);
	acl_token_copy(p, st, t, old);
}

void
acl_token_copy(struct apply *p, const struct acl_state *st, struct acl_token *t, const struct acl_token *old)
{
	struct fsm *f = p->f;
	struct tkey k;

	t->ExpirationTTL = 0;
	t->CreateIndex = old != NULL ? old->CreateIndex : f->at;
	t->ModifyIndex = f->at;
	TKEY(&k, TBL_ACL_TOKEN, t->AccessorID);
	tbl_put_rec(f, &k, &acl_token_schema, t);
	fsm_touch(f, FX_ACL_TOKENS);
	if (old != NULL)
		return;				/* neither secret nor expiration ever change */
	secret_key(&k, st, t->SecretID);
	tbl_put(f, &k, t->AccessorID);
	if (t->Expires != 0) {
		expiry_key(&k, t->Expires, t->AccessorID);
		tbl_put(f, &k, SPAN_NONE);
	}
	if (t->AuthMethod.len > 0) {
		TKEY(&k, TBL_ACL_METHOD_TOKEN, t->AuthMethod, t->AccessorID);
		tbl_put(f, &k, SPAN_NONE);
	}
	fsm_count(f, FT_ACL_TOKENS, 1);
}

void
acl_token_remove(struct fsm *f, const struct acl_state *st, const struct acl_token *t)
{
	uint8_t hash[ACL_HASH_BYTES];
	struct tkey k;

	acl_hash_secret(t->SecretID, hash);
	if (span_eq(st->ReplToken, span_of(hash, sizeof(hash)))) {
		struct acl_state now = *st;

		now.ReplToken = span_str(ACL_REPL_CLOSED);
		acl_store(f, &now);
	}
	secret_key(&k, st, t->SecretID);
	(void)tbl_del(f, &k);			/* these are there */
	if (t->Expires != 0) {
		expiry_key(&k, t->Expires, t->AccessorID);
		(void)tbl_del(f, &k);
	}
	if (t->AuthMethod.len > 0) {
		TKEY(&k, TBL_ACL_METHOD_TOKEN, t->AuthMethod, t->AccessorID);
		(void)tbl_del(f, &k);
	}
	TKEY(&k, TBL_ACL_TOKEN, t->AccessorID);
	(void)tbl_del(f, &k);
	fsm_count(f, FT_ACL_TOKENS, -1);
	fsm_touch(f, FX_ACL_TOKENS);
}

void
acl_token_answer(struct apply *p, struct acl_token *t)
{
	if (acl_show_links(p->f, &acl_policies, &p->f->work, &t->Policies) &&
	    acl_show_links(p->f, &acl_roles, &p->f->work, &t->Roles))
		acl_answer(p, &acl_token_schema, t);
}

/* -- before the log -- */

#define BY_ACCESSOR "Failed acl token lookup by accessor: failed acl token lookup: index error: "

/* From the time given to Expires. */
static enum tv_err
take_expiration(struct prepare *p, struct acl_token *t)
{
	enum tv_err err;

	t->Expires = 0;
	if (t->ExpirationTime.len == 0)
		return TV_OK;
	err = rfc3339_parse(t->ExpirationTime, &t->Expires);
	if (err == TV_EFORMAT)
		return prepare_fail(p, "Invalid Token: ExpirationTime is no time as in 2006-01-02T15:04:05Z");
	if (err != TV_OK)			/* the year 1 is how clients say that there is none */
		t->Expires = span_starts(t->ExpirationTime, span_str("0001-01-01T00:00:00")) ? 0 : INT64_MAX;
	else if (t->Expires <= 0)
		t->Expires = 1;			/* long ago */
	if (t->Expires == 0)
		t->ExpirationTime = SPAN_NONE;
	return TV_OK;
}

/* A text about a time that is too near or too far; false: it is neither. */
static bool
life_refused(int64_t now, int64_t expires, struct buf *why)
{
	int64_t life;

	if (expires == 0)
		return false;
	if (__builtin_sub_overflow(expires, now, &life))
		life = expires < now ? INT64_MIN : INT64_MAX;
	if (life < 0) {
		buf_puts(why, "ExpirationTime cannot be before CreateTime");
		return true;
	}
	if (life >= LIFE_MIN_NS && life <= LIFE_MAX_NS)
		return false;
	buf_puts(why, life > LIFE_MAX_NS ? "ExpirationTime cannot be more than " : "ExpirationTime cannot be less than ");
	duration_print(life > LIFE_MAX_NS ? LIFE_MAX_NS : LIFE_MIN_NS, why);
	buf_puts(why, " in the future (was ");
	duration_print(life, why);
	buf_puts(why, ")");
	return true;
}

static enum tv_err
check_life(struct prepare *p, struct acl_token *t)
{
	struct buf b = BUF_INIT(1024);
	enum tv_err err = TV_OK;

	if (t->ExpirationTTL < 0) {
		duration_print(t->ExpirationTTL, &b);
		err = prepare_fail(p, "Token Expiration TTL '%s' should be > 0", buf_cstr(&b));
	} else if (t->ExpirationTTL > 0 && t->Expires != 0) {
		err = prepare_fail(p, "Token Expiration TTL and Expiration Time cannot both be set");
	} else {
		if (t->ExpirationTTL > 0)
			t->Expires = t->ExpirationTTL > INT64_MAX - p->now ? INT64_MAX : p->now + t->ExpirationTTL;
		if (life_refused(p->now, t->Expires, &b))
			err = prepare_fail(p, "%s", buf_cstr(&b));
		else if (t->Expires != 0)
			t->ExpirationTime = acl_time(p->a, t->Expires);
	}
	t->ExpirationTTL = 0;
	buf_done(&b);
	return err;
}

/* What a new token has that was not given. */
static enum tv_err
make_token(struct prepare *p, struct acl_token *t)
{
	if (t->AccessorID.len == 0)
		t->AccessorID = span_str(p->uuid);
	if (t->SecretID.len == 0)
		t->SecretID = acl_new_secret(p->a);
	t->CreateTime = acl_time(p->a, p->now);
	return t->SecretID.len == 0 || t->CreateTime.len == 0 ? prepare_fail(p, "out of memory") : TV_OK;
}

static enum tv_err
prepare_new(struct prepare *p, struct acl_token *t)
{
	enum tv_err err = TV_OK;

	if (t->AccessorID.len > 0)
		err = uuid_prepare(p, BY_ACCESSOR, &t->AccessorID);
	if (err != TV_OK)
		return err;
	if (t->AccessorID.len > 0 && !uuid_parse(t->AccessorID, NULL))
		return prepare_fail(p, "Invalid Token: AccessorID is not a valid UUID");
	if (t->SecretID.len > 0 && !uuid_parse(t->SecretID, NULL))
		return prepare_fail(p, "Invalid Token: SecretID is not a valid UUID");
	if (t->AuthMethod.len > 0)
		return prepare_fail(p, "AuthMethod field is disallowed outside of Login");
	err = check_life(p, t);
	return err != TV_OK ? err : make_token(p, t);
}

static enum tv_err
set_prepare(struct prepare *p, void *rec)
{
	struct acl_token_set *q = rec;
	struct acl_token *t = &q->Token;
	enum tv_err err = acl_prepares(p);

	q->Create = q->Create || t->AccessorID.len == 0;
	q->Source = SPAN_NONE;
	q->Now = p->now;
	q->Secondary = p->f->opt.acl_primary != NULL;
	t->Hash = SPAN_NONE;
	t->CreateIndex = t->ModifyIndex = 0;
	if (err == TV_OK && !t->Local)
		err = acl_check_primary(p);
	if (err != TV_OK || (err = take_expiration(p, t)) != TV_OK ||
	    (err = q->Create ? prepare_new(p, t) : uuid_prepare(p, BY_ACCESSOR, &t->AccessorID)) != TV_OK ||
	    (err = acl_check_links(p, &acl_policies, &t->Policies)) != TV_OK ||
	    (err = acl_check_links(p, &acl_roles, &t->Roles)) != TV_OK ||
	    (err = acl_check_identities(p, "token", t->Local, &t->ServiceIdentities, &t->NodeIdentities)) != TV_OK)
		return err;
	return acl_check_size(p, "Token", &acl_token_schema, t, ACL_TOKEN_BYTES_MAX);
}

static enum tv_err
clone_prepare(struct prepare *p, void *rec)
{
	struct acl_token_set *q = rec;
	enum tv_err err = acl_prepares(p);

	if (err == TV_OK)
		err = uuid_prepare(p, BY_ACCESSOR, &q->Source);
	if (err != TV_OK)
		return err;
	q->Token = (struct acl_token){ .Description = q->Token.Description };
	q->Create = true;
	q->Now = p->now;
	q->Secondary = p->f->opt.acl_primary != NULL;
	err = make_token(p, &q->Token);
	return err != TV_OK ? err : acl_check_size(p, "Token", &acl_token_schema, &q->Token, ACL_TOKEN_BYTES_MAX);
}

static enum tv_err
delete_prepare(struct prepare *p, void *rec)
{
	struct acl_token_delete *q = rec;
	enum tv_err err = acl_prepares(p);
	uint8_t *hash = arena_alloc(p->a, ACL_HASH_BYTES);

	if (err != TV_OK)
		return err;
	if (!uuid_parse(q->AccessorID, NULL))
		return prepare_fail(p, "Accessor ID is missing or an invalid UUID");
	if (hash == NULL)
		return prepare_fail(p, "out of memory");
	(void)crypto_generichash(hash, ACL_HASH_BYTES, q->Asker.p, q->Asker.len, NULL, 0);	/* cannot fail */
	q->Asker = SPAN_NONE;
	q->Secondary = p->f->opt.acl_primary != NULL;
	q->AskerHash = span_of(hash, ACL_HASH_BYTES);
	err = uuid_prepare(p, "", &q->AccessorID);
	if (err == TV_OK && span_eqs(q->AccessorID, ACL_ANONYMOUS_ID))
		err = prepare_fail(p, "Delete operation not permitted on the anonymous token");
	return err;
}

/* -- entries -- */

bool
acl_ids_are_free(struct apply *p, const struct acl_state *st, const struct acl_token *t)
{
	static const struct { const char *name; size_t offset; } ids[] = {
		{ "AccessorID", offsetof(struct acl_token, AccessorID) }, { "SecretID", offsetof(struct acl_token, SecretID) },
	};
	struct acl_token other;

	for (unsigned i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		struct span id = *(const struct span *)(const void *)((const char *)t + ids[i].offset);

		if (acl_token_find(p->f, id, &p->f->work, &other) || acl_token_of_secret(p->f, st, id, &p->f->work, &other))
			apply_fail(p, TV_EINVAL, "Invalid Token: %s is already in use", ids[i].name);
		else if (span_starts(id, span_str(ACL_RESERVED)))
			apply_fail(p, TV_EINVAL, "Invalid Token: UUIDs with the prefix \"" ACL_RESERVED "\" are reserved");
		else
			continue;
		return false;
	}
	return true;
}

/* What is not given stays as it was, and what cannot change must not. */
static bool
fits_old(struct apply *p, struct acl_token *t, const struct acl_token *old)
{
	int len = (int)t->AccessorID.len;
	const char *id = (const char *)t->AccessorID.p;

	if (t->SecretID.len > 0 && !span_eq(t->SecretID, old->SecretID))
		apply_fail(p, TV_EINVAL, "Changing a tokens SecretID is not permitted");
	else if (t->Local != old->Local)
		apply_fail(p, TV_EINVAL, "cannot toggle local mode of %.*s", len, id);
	else if (t->AuthMethod.len > 0 && !span_eq(t->AuthMethod, old->AuthMethod))
		apply_fail(p, TV_EINVAL, "Cannot change AuthMethod of %.*s", len, id);
	else if (t->ExpirationTTL != 0 || (t->Expires != 0 && t->Expires != old->Expires))
		apply_fail(p, TV_EINVAL, "Cannot change expiration time of %.*s", len, id);
	else
		return true;
	return false;
}

static void
keep_old(struct acl_token *t, const struct acl_token *old)
{
	t->SecretID = old->SecretID;
	t->AuthMethod = old->AuthMethod;
	t->Expires = old->Expires;
	t->ExpirationTime = old->ExpirationTime;
	t->ExpirationTTL = 0;
	t->CreateTime = old->CreateTime;
}

static void
set_apply(struct apply *p, const void *rec)
{
	const struct acl_token_set *q = rec;
	struct acl_token t = q->Token, old = { .AccessorID = SPAN_NONE };
	struct acl_state st;

	if (!acl_applies(p, &st))
		return;
	if (t.AccessorID.len != UUID_CHARS || (q->Create && t.SecretID.len == 0)) {
		apply_fail(p, TV_EFORMAT, "malformed token");
		return;
	}
	if (q->Create && !acl_ids_are_free(p, &st, &t))
		return;
	if (!q->Create && (!acl_token_find(p->f, t.AccessorID, &p->f->work, &old) || acl_expired(&old, q->Now) ||
	    acl_token_ends(&st, &old))) {
		acl_fail_quoted(p, "Cannot find token ", t.AccessorID, "");
		return;
	}
	if (!q->Create) {
		if (!fits_old(p, &t, &old))
			return;
		keep_old(&t, &old);
	}
	if (!acl_settle_links(p, &acl_policies, &t.Policies) ||
	    !acl_settle_links(p, &acl_roles, &t.Roles))
		return;
	acl_token_put(p, &st, &t, q->Create ? NULL : &old);
	acl_token_answer(p, &t);
	acl_forget(p->f);
}

static void
clone_apply(struct apply *p, const void *rec)
{
	const struct acl_token_set *q = rec;
	struct buf why = BUF_INIT(1024);
	struct acl_token t, source;
	struct acl_state st;
	bool there;

	if (!acl_applies(p, &st))
		return;
	there = acl_token_find(p->f, q->Source, &p->f->work, &source) && !acl_expired(&source, q->Now) &&
	    !acl_token_ends(&st, &source);
	if (q->Secondary && !(there && source.Local)) {
		acl_fail_primary(p);
	} else if (!there) {
		apply_fail(p, TV_EPERM, "ACL not found");
	} else if (source.AuthMethod.len > 0) {
		apply_fail(p, TV_EINVAL, "Cannot clone a token created from an auth method");
	} else if (q->Token.AccessorID.len != UUID_CHARS || q->Token.SecretID.len == 0) {
		apply_fail(p, TV_EFORMAT, "malformed token");
	} else if (life_refused(q->Now, source.Expires, &why)) {
		apply_fail(p, TV_EINVAL, "%s", buf_cstr(&why));
	} else if (acl_ids_are_free(p, &st, &q->Token)) {
		t = source;
		t.AccessorID = q->Token.AccessorID;
		t.SecretID = q->Token.SecretID;
		t.CreateTime = q->Token.CreateTime;
		if (q->Token.Description.len > 0)
			t.Description = q->Token.Description;
		acl_token_put(p, &st, &t, NULL);
		acl_token_answer(p, &t);
		acl_forget(p->f);
	}
	buf_done(&why);
}

static void
delete_apply(struct apply *p, const void *rec)
{
	const struct acl_token_delete *q = rec;
	uint8_t hash[ACL_HASH_BYTES];
	struct acl_state st;
	struct acl_token t;
	bool there;

	if (!acl_applies(p, &st))
		return;
	if (span_eqs(q->AccessorID, ACL_ANONYMOUS_ID)) {
		apply_fail(p, TV_EINVAL, "Delete operation not permitted on the anonymous token");
		return;
	}
	there = acl_token_find(p->f, q->AccessorID, &p->f->work, &t);
	if (q->Secondary && !(there && t.Local)) {
		acl_fail_primary(p);
		return;
	}
	if (there) {
		(void)crypto_generichash(hash, sizeof(hash), t.SecretID.p, t.SecretID.len, NULL, 0);	/* cannot fail */
		if (span_eq(q->AskerHash, span_of(hash, sizeof(hash)))) {
			apply_fail(p, TV_EINVAL, "Deletion of the request's authorization token is not permitted");
			return;
		}
		acl_token_remove(p->f, &st, &t);
	}
	apply_bool(p, true);
}

/* -- the end by time -- */

static enum tv_err
reap_prepare(struct prepare *p, void *rec)
{
	struct acl_reap *q = rec;

	q->Now = p->now;
	return TV_OK;
}

/* Time and id of a key of TBL_ACL_EXPIRY. */
static bool
read_expiry(struct span key, int64_t *time, struct span *accessor)
{
	struct rd r = rd_over(key.p + 1, key.len - 1);

	*time = (int64_t)rd_u64be(&r);
	*accessor = rd_bytes(&r, rd_left(&r));
	return r.err == TV_OK;
}

static void
reap_apply(struct apply *p, const void *rec)
{
	enum { STEP = 64 };
	const struct acl_reap *q = rec;
	struct fsm *f = p->f;
	struct acl_state st;
	struct span keys[STEP], accessor;
	struct tkey prefix, k;
	uint32_t n = STEP, total = 0;
	int64_t time;

	if (!acl_applies(p, &st))
		return;
	tkey_begin(&prefix, TBL_ACL_EXPIRY);
	while (n == STEP && total < ACL_REAP_TOKENS_MAX && f->failed == 0) {
		struct arena step = ARENA_INIT(STEP * (2 * FSM_NAME_BYTES_MAX)), one = ARENA_INIT(FSM_RECORD_MEMORY);
		uint32_t found = tbl_keys(f, &prefix, &step, keys, STEP);

		for (n = 0; n < found && f->failed == 0; n++) {
			struct acl_token t;

			if (!read_expiry(keys[n], &time, &accessor) || time > q->Now)
				break;
			arena_reset(&one);
			if (acl_token_find(f, accessor, &one, &t) && t.Expires == time)
				acl_token_remove(f, &st, &t);
			tbl_key_of(&k, keys[n]);
			(void)tbl_del(f, &k);	/* it went with the token; never twice round for one key */
		}
		total += n;
		arena_done(&step);
		arena_done(&one);
	}
	acl_end_tokens(p, total < ACL_REAP_TOKENS_MAX ? ACL_REAP_TOKENS_MAX - total : 0);
	apply_bool(p, true);
	acl_forget(f);
}

bool
fsm_acl_reap_due(struct fsm *f, int64_t wall_now_ns)
{
	struct arena a = ARENA_INIT(FSM_RECORD_MEMORY);
	struct acl_state st;
	struct tbl_scan s;
	struct tkey k;
	struct span key, val, accessor;
	int64_t time;
	bool due;

	if (fsm_acl_since(f) == 0)
		return false;
	due = acl_load(f, &a, &st) && st.Ending.n > 0;
	arena_done(&a);
	if (due)
		return true;
	tkey_begin(&k, TBL_ACL_EXPIRY);
	tbl_scan_begin(f, &s, &k);
	due = tbl_next(&s, &key, &val) && read_expiry(key, &time, &accessor) && time <= wall_now_ns;
	tbl_scan_end(&s);
	return due;
}

/* -- reads -- */

int64_t
fsm_wall_now(const struct fsm *f)
{
	return f->opt.wall_now != NULL ? f->opt.wall_now() : 0;
}

/* A list of this token, or of none when it has expired or its method has ended.  hidden: its secret is. */
static void
show_one(struct reading *r, const struct acl_state *st, struct acl_token *t, bool found, bool hidden)
{
	found = found && !acl_expired(t, fsm_wall_now(r->f)) && !acl_token_ends(st, t);
	mpw_array(r->out, found);
	if (found && hidden)
		t->SecretID = span_str("<hidden>");
	if (found && acl_show_links(r->f, &acl_policies, r->a, &t->Policies) &&
	    acl_show_links(r->f, &acl_roles, r->a, &t->Roles))
		schema_pack(&acl_token_schema, t, r->out);
}

static void
read_one(struct reading *r, const void *rec)
{
	const struct acl_token_read *q = rec;
	struct acl_state st;
	struct acl_token t;
	char id[37];

	r->ans->index = acl_index_of(r->f);
	if (acl_reads(r) && acl_load(r->f, r->a, &st) &&
	    uuid_read(r, q->AccessorID, "failed acl token lookup: index error: ", id))
		show_one(r, &st, &t, acl_token_find(r->f, span_str(id), r->a, &t),
		    r->who != NULL && !acl_set_allows(r->who, ACL_ACL, SPAN_NONE, ACL_WRITE));
}

static void
read_self(struct reading *r, const void *rec)
{
	const struct acl_secret *q = rec;
	struct acl_state st;
	struct acl_token t;

	r->ans->index = acl_index_of(r->f);
	if (acl_reads(r) && acl_load(r->f, r->a, &st))
		show_one(r, &st, &t, acl_token_of_secret(r->f, &st, q->SecretID, r->a, &t), false);
}

static bool
has_link(const struct obj_list *links, struct span id)
{
	const struct acl_link *v = links->v;

	for (uint32_t i = 0; i < links->n; i++)
		if (span_eq_nocase(v[i].ID, id))
			return true;
	return false;
}

struct listing {
	const struct acl_token_list *q;
	int64_t now;
	struct acl_state st;
};

/* Without its secret. */
static bool
list_one(struct reading *r, struct span val, struct arena *one, const void *ctx)
{
	const struct listing *l = ctx;
	const struct acl_token_list *q = l->q;
	struct acl_token t = { .AccessorID = SPAN_NONE };

	if (!tbl_decode(r->f, &acl_token_schema, val, one, &t) || acl_expired(&t, l->now) ||
	    acl_token_ends(&l->st, &t) ||
	    (q->Policy.len > 0 && !has_link(&t.Policies, q->Policy)) || (q->Role.len > 0 && !has_link(&t.Roles, q->Role)) ||
	    (q->AuthMethod.len > 0 && !span_eq_nocase(t.AuthMethod, q->AuthMethod)))
		return false;
	t.SecretID = SPAN_NONE;
	if (!acl_show_links(r->f, &acl_policies, one, &t.Policies) || !acl_show_links(r->f, &acl_roles, one, &t.Roles))
		return false;
	schema_pack(&acl_token_stub_schema, &t, r->out);
	return true;
}

static void
read_list(struct reading *r, const void *rec)
{
	struct listing l = { .q = rec, .now = fsm_wall_now(r->f) };
	const struct acl_token_list *q = rec;

	r->ans->index = acl_index_of(r->f);
	if (!acl_reads(r) || !acl_load(r->f, r->a, &l.st))
		return;
	if ((q->Policy.len > 0) + (q->Role.len > 0) + (q->AuthMethod.len > 0) > 1)
		read_fail(r, TV_EINVAL, "can only filter by one of policy, role, or methodName at a time");
	else
		acl_list(r, TBL_ACL_TOKEN, list_one, &l);
}

const struct fsm_op acl_token_ops[] = {
	{ OP_ACL_TOKEN_SET, .since = 7, .prepare = set_prepare, .apply = set_apply },
	{ OP_ACL_TOKEN_CLONE, .since = 7, .prepare = clone_prepare, .apply = clone_apply },
	{ OP_ACL_TOKEN_DELETE, .since = 7, .prepare = delete_prepare, .apply = delete_apply },
	{ OP_ACL_REAP, .since = 7, .prepare = reap_prepare, .apply = reap_apply },
	{ OP_ACL_TOKEN_GET, .read = read_one },
	{ OP_ACL_TOKEN_SELF, .read = read_self },
	{ OP_ACL_TOKEN_LIST, .read = read_list },
	{ 0 },
};
