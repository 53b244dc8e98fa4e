/*
 * Sessions: creation, the many ways they end, and what that does to the keys they hold.  Source: http-api, section 4.
 */
#include <stdio.h>

#include "common/base/hex.h"
#include "common/base/uuid.h"
#include "common/text/duration.h"
#include "raftd/fsm/acl/acl.h"
#include "raftd/fsm/catalog/catalog.h"
#include "raftd/fsm/kv/kv.h"
#include "raftd/fsm/query/query.h"
#include "raftd/fsm/read/watch.h"
#include "raftd/fsm/session/session.h"
#include "raftd/fsm/table/meta.h"

#define TTL_MAX_NS (24ll * 3600 * 1000000000)
#define TTL_MIN_NS (10ll * 1000000000)
#define CHECKS_MAX 1024			/* of one session: all of them are read when it is made */

/* -- ids -- */

bool
uuid_id(struct span text, const char *head, char id[37], struct arena *a, struct span *why)
{
	unsigned hyphens = 0;

	if (text.len != UUID_CHARS) {
		*why = arena_printf(a, "%sUUID must be 36 characters", head);
		return false;
	}
	for (size_t i = 0; i < UUID_CHARS; i++) {
		id[i] = (char)ascii_lower(text.p[i]);
		hyphens += id[i] == '-';
		if (id[i] != '-' && hex_value(id[i]) < 0) {
			*why = arena_printf(a, "%sInvalid UUID: encoding/hex: invalid byte: U+%04X", head, text.p[i]);
			return false;
		}
	}
	id[UUID_CHARS] = '\0';
	if (hyphens == 4)
		return true;
	*why = hyphens > 4 ? arena_printf(a, "%sUUID should have maximum of 4 \"-\"; got %u", head, hyphens) :
	    arena_printf(a, "%sUUID (without hyphens) must be even length", head);
	return false;
}

enum tv_err
uuid_prepare(struct prepare *p, const char *head, struct span *text)
{
	struct span why;
	char id[37];

	if (!uuid_id(*text, head, id, p->a, &why))
		return prepare_fail(p, "%.*s", (int)why.len, (const char *)why.p);
	*text = arena_copy(p->a, span_str(id));
	return text->p == NULL ? prepare_fail(p, "out of memory") : TV_OK;
}

bool
uuid_read(struct reading *r, struct span text, const char *head, char id[37])
{
	struct span why;
	bool good = uuid_id(text, head, id, r->a, &why);

	if (!good)
		read_fail(r, TV_EINVAL, "%.*s", (int)why.len, (const char *)why.p);
	return good;
}

bool
session_id(struct span text, char id[37], struct arena *a, struct span *why)
{
	return uuid_id(text, "failed session lookup: index error: ", id, a, why);
}

void
fsm_session_limits(struct fsm *f, int64_t ttl_min_ns, int64_t ttl_max_ns)
{
	f->opt.session_ttl_min_ns = ttl_min_ns;
	f->opt.session_ttl_max_ns = ttl_max_ns;
}

bool
session_find(struct fsm *f, const char *id, struct arena *a, struct session *out)
{
	struct tkey k;

	TKEY(&k, TBL_SESSION, span_str(id));
	return tbl_get_rec(f, &k, &session_schema, a, out);
}

/* -- the checks that a session is bound to -- */

/* Calls fn for each check id of the session, until it returns false. */
static bool
each_check(const struct session *s, bool (*fn)(void *ctx, struct span check), void *ctx)
{
	const struct service_check_ref *refs = s->ServiceChecks.v;

	for (uint32_t i = 0; i < s->NodeChecks.n; i++)
		if (!fn(ctx, s->NodeChecks.v[i]))
			return false;
	for (uint32_t i = 0; i < s->ServiceChecks.n; i++)
		if (!fn(ctx, refs[i].ID))
			return false;
	for (uint32_t i = 0; i < s->Checks.n; i++)
		if (!fn(ctx, s->Checks.v[i]))
			return false;
	return true;
}

struct binding {
	struct apply *p;
	struct fsm *f;
	struct span node;
	const char *id;
};

static bool
check_allows(void *ctx, struct span id)
{
	struct binding *b = ctx;
	struct arena one = ARENA_INIT(FSM_RECORD_MEMORY);	/* a session may name many, and each may be large */
	struct check c;
	bool there = catalog_check(b->f, b->node, id, &one, &c), bad = there && span_eqs(c.Status, "critical");

	arena_done(&one);
	if (!there)
		apply_fail(b->p, TV_EINVAL, "apply failed: Missing check '%.*s' registration", (int)id.len,
		    (const char *)id.p);
	else if (bad)
		apply_fail(b->p, TV_EINVAL, "apply failed: Check '%.*s' is in critical state", (int)id.len,
		    (const char *)id.p);
	return there && !bad;
}

static bool
check_bind(void *ctx, struct span check)
{
	struct binding *b = ctx;
	struct tkey k;

	TKEY(&k, TBL_SESSION_CHECK, b->node, check, span_str(b->id));
	tbl_put(b->f, &k, SPAN_NONE);
	return true;
}

static bool
check_unbind(void *ctx, struct span check)
{
	struct binding *b = ctx;
	struct tkey k;

	TKEY(&k, TBL_SESSION_CHECK, b->node, check, span_str(b->id));
	(void)tbl_del(b->f, &k);		/* named twice, it went the first time */
	return true;
}

/* -- creating -- */

/* The deprecated Checks list, in the order of http-api section 4. */
static void
settle_checks(struct session *s)
{
	bool serf_only = s->Checks.n == 1 && span_eqs(s->Checks.v[0], "serfHealth");

	if (s->Checks.set && s->Checks.n == 0) {
		s->NodeChecks = (struct span_list){ .set = true };
		s->Checks = (struct span_list){ 0 };
	} else if (serf_only || (s->NodeChecks.set && s->NodeChecks.n == 0)) {
		s->Checks = (struct span_list){ 0 };
	}
}

static enum tv_err
check_ttl(struct prepare *p, const struct session *s)
{
	int64_t min = p->f->opt.session_ttl_min_ns > 0 ? p->f->opt.session_ttl_min_ns : TTL_MIN_NS;
	int64_t max = p->f->opt.session_ttl_max_ns > 0 ? p->f->opt.session_ttl_max_ns : TTL_MAX_NS;
	struct buf b = BUF_INIT(1024);
	enum tv_err err = TV_OK;
	int64_t ttl;

	if (s->TTL.len == 0)
		return TV_OK;
	if (duration_parse(s->TTL, &ttl) != TV_OK) {
		duration_why(s->TTL, &b);
		err = prepare_fail(p, "Session TTL '%.*s' invalid: %s", (int)s->TTL.len, (const char *)s->TTL.p,
		    buf_cstr(&b));
	} else if (ttl != 0 && (ttl < min || ttl > max)) {
		duration_print(min, &b);
		buf_puts(&b, "=");
		duration_print(max, &b);
		err = prepare_fail(p, "Invalid Session TTL '%lld', must be between [%s]", (long long)ttl, buf_cstr(&b));
	}
	buf_done(&b);
	return err;
}

static bool
names_fit(const struct session *s)
{
	const struct service_check_ref *refs = s->ServiceChecks.v;

	if (s->Node.len > FSM_NAME_BYTES_MAX)
		return false;
	for (uint32_t i = 0; i < s->NodeChecks.n; i++)
		if (s->NodeChecks.v[i].len > FSM_NAME_BYTES_MAX)
			return false;
	for (uint32_t i = 0; i < s->ServiceChecks.n; i++)
		if (refs[i].ID.len > FSM_NAME_BYTES_MAX)
			return false;
	for (uint32_t i = 0; i < s->Checks.n; i++)
		if (s->Checks.v[i].len > FSM_NAME_BYTES_MAX)
			return false;
	return true;
}

static enum tv_err
session_create_prepare(struct prepare *p, void *rec)
{
	struct session *s = rec;
	enum tv_err err;

	if (s->Node.len == 0)
		return prepare_fail(p, "Must provide Node");
	if (s->Behavior.len == 0)
		s->Behavior = span_str("release");
	if (!span_eqs(s->Behavior, "release") && !span_eqs(s->Behavior, "delete"))
		return prepare_fail(p, "Invalid Behavior setting '%.*s'", (int)s->Behavior.len,
		    (const char *)s->Behavior.p);
	if ((err = check_ttl(p, s)) != TV_OK)
		return err;
	if (!names_fit(s))
		return prepare_fail(p, "A name is longer than %d bytes", FSM_NAME_BYTES_MAX);
	if ((uint64_t)s->NodeChecks.n + s->ServiceChecks.n + s->Checks.n > CHECKS_MAX)
		return prepare_fail(p, "A session is bound to at most %d checks", CHECKS_MAX);
	if (!s->NodeChecks.set) {
		struct span *serf = arena_array(p->a, 1, sizeof(*serf));

		if (serf == NULL)
			return prepare_fail(p, "out of memory");
		*serf = span_str("serfHealth");
		s->NodeChecks = (struct span_list){ .v = serf, .n = 1, .set = true };
	}
	settle_checks(s);
	s->ID = span_str(p->uuid);
	return TV_OK;
}

static void
session_create_apply(struct apply *p, const void *rec)
{
	struct session s = *(const struct session *)rec;
	struct fsm *f = p->f;
	struct binding b = { .p = p, .f = f, .node = s.Node };
	struct buf reply = BUF_INIT(64);
	struct text_reply answer;
	struct tkey k;
	struct node n;
	struct span why;
	char id[37];

	if (!session_id(s.ID, id, p->out, &why)) {
		apply_fail(p, TV_EINVAL, "apply failed: %.*s", (int)why.len, (const char *)why.p);
		return;
	}
	if (!names_fit(&s) || !catalog_node(f, s.Node, &f->work, &n)) {
		apply_fail(p, TV_EINVAL, "apply failed: Missing node registration");
		return;
	}
	if (!each_check(&s, check_allows, &b))
		return;
	b.id = id;
	s.ID = span_str(id);
	s.CreateIndex = s.ModifyIndex = f->at;
	TKEY(&k, TBL_SESSION, span_str(id));
	tbl_put_rec(f, &k, &session_schema, &s);
	TKEY(&k, TBL_SESSION_NODE, s.Node, span_str(id));
	tbl_put(f, &k, SPAN_NONE);
	(void)each_check(&s, check_bind, &b);	/* it never stops */
	fsm_count(f, FT_SESSIONS, 1);
	fsm_touch(f, FX_SESSIONS);
	answer.Value = s.ID;
	schema_pack(&text_reply_schema, &answer, &reply);
	p->res->value = arena_copy(p->out, buf_span(&reply));
	buf_done(&reply);
}

/* -- ending -- */

/* Every key that the session holds is released or deleted, and its lock delay begins. */
static void
let_go(struct fsm *f, const struct session *s, const char *id, int64_t now)
{
	enum { STEP = 128 };
	int64_t delay = s->LockDelay > LOCK_DELAY_MAX_NS ? LOCK_DELAY_MAX_NS : s->LockDelay;
	int64_t until = delay > 0 ? now + delay : 0;
	bool del = span_eqs(s->Behavior, "delete");
	struct span keys[STEP];
	struct tkey prefix;
	uint32_t n;

	TKEY(&prefix, TBL_HOLD, span_str(id));
	do {
		struct arena step = ARENA_INIT(STEP * (FSM_KV_KEY_BYTES_MAX + 256));

		n = tbl_keys(f, &prefix, &step, keys, STEP);
		for (uint32_t i = 0; i < n && f->failed == 0; i++) {
			struct tkey k;

			kv_session_gone(f, span_of(keys[i].p + prefix.len, keys[i].len - prefix.len), del, now, until);
			tbl_key_of(&k, keys[i]);
			(void)tbl_del(f, &k);	/* it went with the hold; never twice round for one key */
		}
		arena_done(&step);
	} while (n == STEP && f->failed == 0);
}

void
session_invalidate(struct fsm *f, const char *id, int64_t now)
{
	struct arena a = ARENA_INIT(FSM_RECORD_MEMORY);
	struct binding b = { .f = f, .id = id };
	struct session s;
	struct tkey k;

	if (session_find(f, id, &a, &s)) {
		b.node = s.Node;
		TKEY(&k, TBL_SESSION, span_str(id));
		(void)tbl_del(f, &k);		/* it is there */
		TKEY(&k, TBL_SESSION_NODE, s.Node, span_str(id));
		(void)tbl_del(f, &k);
		(void)each_check(&s, check_unbind, &b);	/* it never stops */
		fsm_count(f, FT_SESSIONS, -1);
		fsm_touch(f, FX_SESSIONS);
		let_go(f, &s, id, now);
		query_session_gone(f, id);
	}
	arena_done(&a);
}

/* Ends the sessions whose ids end the keys below prefix. */
static void
invalidate_below(struct fsm *f, const struct tkey *prefix, int64_t now)
{
	enum { STEP = 64 };
	struct span keys[STEP];
	struct tkey k;
	uint32_t n;

	do {
		struct arena step = ARENA_INIT(STEP * TKEY_BYTES_MAX);

		n = tbl_keys(f, prefix, &step, keys, STEP);
		for (uint32_t i = 0; i < n && f->failed == 0; i++) {
			char id[37];

			if (span_copy(span_of(keys[i].p + prefix->len, keys[i].len - prefix->len), id, sizeof(id)))
				session_invalidate(f, id, now);
			else
				f->failed = DB_VERIFY_BAD;
			tbl_key_of(&k, keys[i]);
			(void)tbl_del(f, &k);	/* it went with the session; never twice round for one key */
		}
		arena_done(&step);
	} while (n == STEP && f->failed == 0);
}

void
session_node_gone(struct fsm *f, struct span node, int64_t now)
{
	struct tkey k;

	TKEY(&k, TBL_SESSION_NODE, node);
	invalidate_below(f, &k, now);
}

void
session_check_bad(struct fsm *f, struct span node, struct span check, int64_t now)
{
	struct tkey k;

	TKEY(&k, TBL_SESSION_CHECK, node, check);
	invalidate_below(f, &k, now);
}

static enum tv_err
session_destroy_prepare(struct prepare *p, void *rec)
{
	struct session_destroy *q = rec;

	if (q->ID.len == 0)
		return prepare_fail(p, "Must provide ID");
	q->Now = p->now;
	return TV_OK;
}

static void
session_destroy_apply(struct apply *p, const void *rec)
{
	const struct session_destroy *q = rec;
	struct span why;
	char id[37];

	if (!session_id(q->ID, id, p->out, &why)) {
		apply_fail(p, TV_EINVAL, "apply failed: %.*s", (int)why.len, (const char *)why.p);
		return;
	}
	session_invalidate(p->f, id, q->Now);
	apply_bool(p, true);
}

/* -- reads -- */

/* By the name of its node. */
static bool
may_read_session(struct reading *r, struct span packed)
{
	struct arena a = ARENA_INIT(FSM_RECORD_MEMORY);
	struct session s;
	bool may;

	if (may_read_all(r, ACL_SESSION))
		return true;
	may = tbl_decode(r->f, &session_schema, packed, &a, &s) && may_read_at_node(r, ACL_SESSION, s.Node, &a);
	arena_done(&a);
	return may;
}

/* Appends it if it may be seen; packed may be lost. */
static bool
show_session(struct reading *r, struct span packed)
{
	size_t at = r->out->len;

	buf_putspan(r->out, packed);
	if (r->out->failed || may_read_session(r, span_of(r->out->data + at, packed.len)))
		return true;
	r->out->len = at;
	return false;
}

static void
session_read_info(struct reading *r, const void *rec)
{
	const struct session_read *q = rec;
	struct tkey k;
	struct span val, why;
	char id[37];
	size_t at;

	r->ans->index = fsm_index_of(r->f, FX_SESSIONS);
	if (!session_id(q->ID, id, r->a, &why)) {
		read_fail(r, TV_EINVAL, "%.*s", (int)why.len, (const char *)why.p);
		return;
	}
	TKEY(&k, TBL_SESSION, span_str(id));
	at = list_begin(r->out);
	list_end(r->out, at, tbl_peek(r->f, &k, &val) && show_session(r, val));
}

static void
session_read_node(struct reading *r, const void *rec)
{
	const struct session_read *q = rec;
	size_t at = list_begin(r->out);
	struct tbl_scan s;
	struct tkey prefix, k;
	struct span key, val, rec_val;
	uint32_t n = 0;

	TKEY(&prefix, TBL_SESSION_NODE, q->Node);
	tbl_scan_begin(r->f, &s, &prefix);
	while (!r->out->failed && tbl_next(&s, &key, &val)) {
		TKEY(&k, TBL_SESSION, span_of(key.p + prefix.len, key.len - prefix.len));
		n += tbl_peek(r->f, &k, &rec_val) && show_session(r, rec_val);
	}
	tbl_scan_end(&s);
	list_end(r->out, at, n);
	r->ans->index = fsm_index_of(r->f, FX_SESSIONS);
}

static void
session_read_list(struct reading *r, const void *rec UNUSED)
{
	size_t at = list_begin(r->out);
	struct tbl_scan s;
	struct tkey prefix;
	struct span key, val;
	uint32_t n = 0;

	tkey_begin(&prefix, TBL_SESSION);
	tbl_scan_begin(r->f, &s, &prefix);
	while (!r->out->failed && tbl_next(&s, &key, &val))
		n += show_session(r, val);
	tbl_scan_end(&s);
	list_end(r->out, at, n);
	r->ans->index = fsm_index_of(r->f, FX_SESSIONS);
}

enum tv_err
fsm_each_ttl_session(struct fsm *f, struct span after, bool (*fn)(void *ctx, struct span id, int64_t ttl_ns), void *ctx)
{
	struct arena a = ARENA_INIT(FSM_RECORD_MEMORY);
	struct tbl_scan s;
	struct tkey prefix, from;
	struct span key, val;
	bool more = true;

	tkey_begin(&prefix, TBL_SESSION);
	from = prefix;
	if (after.len > 0) {
		TKEY(&from, TBL_SESSION, after);
		tkey_raw(&from, span_of("", 1));
	}
	tbl_scan_from(f, &s, &prefix, &from);
	while (more && tbl_next(&s, &key, &val)) {
		struct session rec;
		int64_t ttl;

		arena_reset(&a);
		if (!tbl_decode(f, &session_schema, val, &a, &rec))
			break;
		if (rec.TTL.len > 0 && duration_parse(rec.TTL, &ttl) == TV_OK && ttl > 0)
			more = fn(ctx, rec.ID, ttl);
	}
	tbl_scan_end(&s);
	arena_done(&a);
	return fsm_read_err(f);
}

const struct fsm_op session_ops[] = {
	{ OP_SESSION_CREATE, .prepare = session_create_prepare, .apply = session_create_apply },
	{ OP_SESSION_DESTROY, .prepare = session_destroy_prepare, .apply = session_destroy_apply },
	{ OP_SESSION_INFO, .read = session_read_info, .one = true },
	{ OP_SESSION_NODE, .read = session_read_node },
	{ OP_SESSION_LIST, .read = session_read_list },
	{ 0 },
};
