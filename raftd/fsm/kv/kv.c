/*
 * Key/value rules.  Source: http-api, sections 1.7 and 2.
 *
 * A key is stored as the packed kv_entry that an answer shows, so a read copies bytes.
 */
#include "common/record/mpack.h"
#include "raftd/fsm/acl/acl.h"
#include "raftd/fsm/kv/kv.h"
#include "raftd/fsm/read/read.h"
#include "raftd/fsm/read/watch.h"
#include "raftd/fsm/session/session.h"
#include "raftd/fsm/table/meta.h"
#include "raftd/fsm/table/table.h"
#include "raftd/fsm/txn/txn.h"

#define TREE_KEY_WORK 256	/* that a key makes beside its bytes; all servers must count alike: never to be changed */
#define TREE_SPARSE 1000	/* so many keys go without their pages, which would be taken from their parents: and those be locked */
#define TREE_WORK (1u << 30)	/* of an entry that deletes a tree: so much that it is applied alone */
#define PART_WORK_MAX (1u << 20)
#define KV_FIELDS 7		/* of a kv_entry up to ModifyIndex */

bool
kv_find(struct fsm *f, struct span key, struct arena *a, struct kv_entry *out)
{
	struct tkey k;

	TKEY(&k, TBL_KV, key);
	return tbl_get_rec(f, &k, &kv_entry_schema, a, out);
}

static bool
kv_same(const struct kv_entry *a, const struct kv_entry *b)
{
	return a->LockIndex == b->LockIndex && a->Flags == b->Flags && span_eq(a->Value, b->Value) &&
	    span_eq(a->Session, b->Session);
}

/* Who holds the key, kept beside it so that a session's end finds its keys. */
static void
hold_change(struct fsm *f, struct span key, struct span before, struct span after)
{
	struct tkey k;

	if (span_eq(before, after))
		return;
	if (before.len > 0) {
		TKEY(&k, TBL_HOLD, before, key);
		(void)tbl_del(f, &k);		/* it is there */
	}
	if (after.len > 0) {
		TKEY(&k, TBL_HOLD, after, key);
		tbl_put(f, &k, SPAN_NONE);
	}
}

/* Stores e, whose indexes are filled in here; old is NULL for a new key.  An identical entry changes nothing. */
static void
kv_store(struct fsm *f, struct kv_entry *e, const struct kv_entry *old)
{
	struct tkey k;

	if (old != NULL && kv_same(e, old)) {
		e->CreateIndex = old->CreateIndex;
		e->ModifyIndex = old->ModifyIndex;
		return;
	}
	e->CreateIndex = old == NULL ? f->at : old->CreateIndex;
	e->ModifyIndex = f->at;
	TKEY(&k, TBL_KV, e->Key);
	tbl_put_rec(f, &k, &kv_entry_schema, e);
	hold_change(f, e->Key, old == NULL ? SPAN_NONE : old->Session, e->Session);
	if (old == NULL)
		fsm_count(f, FT_KV, 1);
	fsm_touch(f, FX_KV);
	touched_key(f, e->Key);
}

/* Removes a present key; tombstone: leave one for this key. */
static void
kv_remove(struct fsm *f, const struct kv_entry *old, bool tombstone, int64_t now)
{
	struct tkey k;

	TKEY(&k, TBL_KV, old->Key);
	(void)tbl_del(f, &k);			/* it is there */
	hold_change(f, old->Key, old->Session, SPAN_NONE);
	if (tombstone)
		tombstone_put(f, old->Key, now);
	fsm_count(f, FT_KV, -1);
	fsm_touch(f, FX_KV);
	touched_key(f, old->Key);
}

/* -- writes of one key: judged first, carried out then, and answered last, so that several can be all or nothing -- */

/* Nothing but v is changed, and out, which has a text afterwards. */
typedef void kv_judge(struct fsm *f, const struct kv_apply *q, struct arena *out, struct kv_verdict *v);

static void
refuse(struct kv_verdict *v, enum tv_err err, struct span text)
{
	v->err = err;
	v->text = text.p != NULL ? text : span_str("out of memory");
}

/* The entry as the write wants it; the verdict is to store it. */
static void
propose(struct kv_verdict *v, const struct kv_apply *q, struct span session, uint64_t lock_index)
{
	v->change = KV_STORE;
	v->answer = true;
	v->next = (struct kv_entry){ .Key = q->Key, .Flags = q->Flags, .Value = q->Value, .Session = session,
	    .LockIndex = lock_index };
}

/* A plain write keeps the holder; LockIndex starts over. */
static void
judge_set(struct fsm *f, const struct kv_apply *q, struct arena *out UNUSED, struct kv_verdict *v)
{
	v->there = kv_find(f, q->Key, &f->work, &v->old);
	if (q->Verb != KV_CAS || q->ModifyIndex == (v->there ? v->old.ModifyIndex : 0))
		propose(v, q, v->there ? v->old.Session : SPAN_NONE, 0);
}

/* A free key is acquired by a living session, unless a lock delay holds it; LockIndex counts acquisitions. */
static void
judge_lock(struct fsm *f, const struct kv_apply *q, struct arena *out, struct kv_verdict *v)
{
	struct session session;
	struct span why;
	bool held;

	if (q->Session.len == 0) {
		refuse(v, TV_EINVAL, span_str("raft apply failed: missing session"));
		return;
	}
	if (lock_delay_holds(f, q->Key, q->Now))
		return;
	if (!session_id(q->Session, v->session, out, &why)) {
		refuse(v, TV_EINVAL, arena_printf(out, "raft apply failed: %.*s", (int)why.len, (const char *)why.p));
		return;
	}
	if (!session_find(f, v->session, &f->work, &session)) {
		refuse(v, TV_ENOENT, arena_printf(out, "raft apply failed: invalid session \"%s\"", v->session));
		return;
	}
	v->there = kv_find(f, q->Key, &f->work, &v->old);
	held = v->there && v->old.Session.len > 0;
	if (!held || span_eqs(v->old.Session, v->session))
		propose(v, q, span_str(v->session), (v->there ? v->old.LockIndex : 0) + (held ? 0 : 1));
}

/* The holder lets go, and writes a value with it. */
static void
judge_unlock(struct fsm *f, const struct kv_apply *q, struct arena *out UNUSED, struct kv_verdict *v)
{
	if (q->Session.len == 0) {
		refuse(v, TV_EINVAL, span_str("raft apply failed: missing session"));
		return;
	}
	v->there = kv_find(f, q->Key, &f->work, &v->old);
	if (v->there && span_eq_nocase(v->old.Session, q->Session))
		propose(v, q, SPAN_NONE, v->old.LockIndex);
}

/* What is not there is gone already, which is a success. */
static void
judge_delete(struct fsm *f, const struct kv_apply *q, struct arena *out UNUSED, struct kv_verdict *v)
{
	v->there = kv_find(f, q->Key, &f->work, &v->old);
	v->answer = !v->there || q->Verb != KV_DELETE_CAS || q->ModifyIndex == v->old.ModifyIndex;
	if (v->there && v->answer)
		v->change = KV_REMOVE;
}

static void
carry_out(struct fsm *f, struct kv_verdict *v, int64_t now)
{
	if (v->change == KV_STORE)
		kv_store(f, &v->next, v->there ? &v->old : NULL);
	else if (v->change == KV_REMOVE)
		kv_remove(f, &v->old, true, now);
}

void
kv_write(struct fsm *f, const struct kv_apply *q, struct arena *out, struct kv_verdict *v)
{
	static kv_judge *const judges[] = {
		[KV_SET] = judge_set, [KV_CAS] = judge_set, [KV_LOCK] = judge_lock, [KV_UNLOCK] = judge_unlock,
		[KV_DELETE] = judge_delete, [KV_DELETE_CAS] = judge_delete,
	};

	*v = (struct kv_verdict){ .change = KV_KEEP };
	judges[q->Verb](f, q, out, v);
	if (v->err == TV_OK)
		carry_out(f, v, q->Now);
}

static void
write_one(struct apply *p, const struct kv_apply *q)
{
	struct kv_verdict v;

	kv_write(p->f, q, p->out, &v);
	p->res->err = v.err;
	p->res->text = v.text;
	if (v.err == TV_OK)
		apply_bool(p, v.answer);
}

/* -- trees -- */

/* Removes a stored key if it was not changed after `newest`.  Returns how much work that was, in bytes. */
static uint64_t
tree_remove(struct fsm *f, struct span stored, uint64_t newest, int64_t now, bool *any)
{
	struct arena one = ARENA_INIT(FSM_RECORD_MEMORY);
	uint64_t work = TREE_KEY_WORK + stored.len;
	struct kv_entry old;

	if (kv_find(f, span_of(stored.p + 1, stored.len - 1), &one, &old)) {
		work += old.Value.len;
		if (old.ModifyIndex <= newest) {
			kv_remove(f, &old, false, now);
			*any = true;
		}
	}
	arena_done(&one);
	return work;
}

/*
 * Removes the keys below a prefix, from *from on, until that is so much work; *from is where to go on.  True: none is left.
 * In steps, so that memory stays bounded however many keys go.  One tombstone stands for all of them.
 */
static bool
tree_delete(struct fsm *f, const struct kv_apply *q, uint64_t newest, uint64_t work_max, struct tkey *from)
{
	enum { STEP = 256 };
	struct span keys[STEP];
	struct tkey prefix;
	uint64_t work = 0;
	bool any = false;
	uint32_t n, i;

	TKEY(&prefix, TBL_KV, q->Key);
	do {
		struct arena step = ARENA_INIT(STEP * (FSM_KV_KEY_BYTES_MAX + 64));

		n = tbl_keys_from(f, &prefix, from, &step, keys, STEP);
		for (i = 0; i < n && work < work_max && f->failed == 0; i++)
			work += tree_remove(f, keys[i], newest, q->Now, &any);
		if (i > 0)
			tkey_after(from, keys[i - 1]);
		arena_done(&step);
	} while (n == STEP && work < work_max && f->failed == 0);
	if (any && q->Key.len > 0)
		tombstone_put(f, q->Key, q->Now);
	return n < STEP && i == n;
}

/*
 * All of a tree.  The first keys go last: so pages at the edges, which other keys share, are not locked until nearly all is
 * done, and a read of these does not wait.
 */
static void
tree_delete_all(struct fsm *f, const struct kv_apply *q)
{
	enum { EDGE = 128 };			/* more than a page has */
	struct arena a = ARENA_INIT(EDGE * (FSM_KV_KEY_BYTES_MAX + 64));
	struct span keys[EDGE];
	struct tkey prefix, from;

	TKEY(&prefix, TBL_KV, q->Key);
	if (tbl_keys(f, &prefix, &a, keys, EDGE) == EDGE) {
		tkey_after(&from, keys[EDGE - 1]);
		(void)tree_delete(f, q, UINT64_MAX, UINT64_MAX, &from);
	}
	(void)tree_delete(f, q, UINT64_MAX, UINT64_MAX, &prefix);
	arena_done(&a);
}

/* How many keys have this prefix, as far as to `max`. */
static uint32_t
count_keys(struct fsm *f, struct span prefix_text, uint32_t max)
{
	struct tbl_scan s;
	struct tkey prefix;
	struct span key, val;
	uint32_t n = 0;

	TKEY(&prefix, TBL_KV, prefix_text);
	tbl_scan_begin(f, &s, &prefix);
	while (n < max && tbl_next(&s, &key, &val))
		n++;
	tbl_scan_end(&s);
	return n;
}

static void
delete_tree(struct fsm *f, const struct kv_apply *q)
{
	bool large = count_keys(f, q->Key, TREE_SPARSE) == TREE_SPARSE;

	tbl_sparse(f, large);
	tree_delete_all(f, q);
	tbl_sparse(f, false);
	f->compact.due = f->compact.due || large;
}

/* Counts no further than it has to; what there is goes off *keys_max and *bytes_max, if it fits. */
static bool
tree_fits(struct fsm *f, struct span prefix_text, uint64_t *keys_max, uint64_t *bytes_max)
{
	struct tbl_scan s;
	struct tkey prefix;
	struct span key, val;
	uint64_t keys = 0, bytes = 0;
	bool fits;

	TKEY(&prefix, TBL_KV, prefix_text);
	tbl_scan_begin(f, &s, &prefix);
	while (keys <= *keys_max && bytes <= *bytes_max && tbl_next(&s, &key, &val)) {
		keys++;
		bytes += val.len;		/* the stored record, which has the key in it */
	}
	tbl_scan_end(&s);
	fits = keys <= *keys_max && bytes <= *bytes_max;
	*keys_max -= fits ? keys : 0;
	*bytes_max -= fits ? bytes : 0;
	return fits;
}

bool
kv_delete_tree(struct fsm *f, struct span prefix, int64_t now, uint64_t *keys, uint64_t *bytes)
{
	bool fits = tree_fits(f, prefix, keys, bytes);

	if (fits)
		delete_tree(f, &(struct kv_apply){ .Verb = KV_DELETE_TREE, .Key = prefix, .Now = now });
	return fits;
}

static void
kv_tree_op(struct apply *p, const void *rec)
{
	const struct kv_tree *q = rec;
	uint64_t keys = q->Keys, bytes = q->Bytes;

	if (q->Key.len > FSM_KV_KEY_BYTES_MAX)
		apply_fail(p, TV_ELIMIT, "raft apply failed: key is longer than %d bytes", FSM_KV_KEY_BYTES_MAX);
	else if (kv_delete_tree(p->f, q->Key, q->Now, &keys, &bytes))
		apply_bool(p, true);
	else
		apply_fail(p, TV_ELIMIT, "more than %llu keys, or %llu MB, begin with this prefix, which is too much "
		    "to delete at once: delete them in parts, between which others read and write (?recurse&parts, "
		    "clusterctl kv delete --recurse --parts)",
		    (unsigned long long)q->Keys, (unsigned long long)q->Bytes >> 20);
}

static enum tv_err
kv_tree_prepare(struct prepare *p, void *rec)
{
	struct kv_tree *q = rec;

	if (q->Key.len > FSM_KV_KEY_BYTES_MAX)
		return prepare_fail(p, "Key is longer than %d bytes", FSM_KV_KEY_BYTES_MAX);
	q->Now = p->now;
	return TV_OK;
}

/*
 * Some of a tree.  What a restore has put there since the first part is another tree; and what was written since is not to
 * go, just as if all had gone with the first part.
 */
static void
delete_part(struct apply *p, const struct kv_apply *q)
{
	bool first = q->ModifyIndex == 0, done = true;
	uint64_t newest = first ? p->f->at : q->ModifyIndex;
	struct kv_part answer = { .Newest = newest };
	struct buf reply = BUF_INIT(FSM_KV_KEY_BYTES_MAX + 64);
	struct tkey from;

	TKEY(&from, TBL_KV, q->Value.len > 0 ? q->Value : q->Key);
	if (first || newest >= p->f->restored[FR_FLOOR])
		done = tree_delete(p->f, q, newest, q->Flags > 0 ? q->Flags : 1, &from);
	if (!done)
		answer.Next = span_of(from.b + 1, from.len - 1);
	schema_pack(&kv_part_schema, &answer, &reply);
	p->res->value = arena_copy(p->out, buf_span(&reply));
	buf_done(&reply);
}

uint64_t
fsm_entry_work(const struct raft_entry *e)
{
	struct rd r = rd_over(e->payload, e->size);
	uint32_t fields = e->type == RAFT_ENTRY_OP ? mpr_array(&r) : 0;
	uint64_t op = fields >= 2 ? mpr_uint(&r, UINT16_MAX) : 0, verb;

	if (op == OP_KV_TREE || (op == OP_TXN_APPLY && txn_trees(e, NULL) > 0))
		return TREE_WORK;
	if (op != OP_KV_APPLY || mpr_array(&r) == 0)
		return e->size;
	verb = mpr_uint(&r, UINT64_MAX);
	return r.err == TV_OK && (verb == KV_DELETE_TREE || verb == KV_DELETE_PART) ? TREE_WORK : e->size;
}

/* r stands before the arguments of an operation on keys. */
static bool
kv_may_touch(struct rd *r, uint64_t op, struct span key)
{
	uint32_t fields = mpr_array(r);
	uint64_t verb = op == OP_KV_TREE ? KV_DELETE_TREE : fields >= 2 ? mpr_uint(r, UINT64_MAX) : UINT64_MAX;
	struct span named = fields > 0 ? mpr_bytes(r, FSM_KV_KEY_BYTES_MAX) : SPAN_NONE;

	if (r->err != TV_OK || fields == 0 || verb > KV_DELETE_PART)
		return true;
	return verb == KV_DELETE_TREE || verb == KV_DELETE_PART ? span_starts(key, named) : span_eq(key, named);
}

bool
fsm_may_touch(const struct raft_entry *e, struct span key)
{
	struct rd r = rd_over(e->payload, e->size);
	uint32_t fields;
	uint64_t op;

	if (e->type != RAFT_ENTRY_OP)
		return false;
	fields = mpr_array(&r);
	op = fields >= 2 ? mpr_uint(&r, UINT16_MAX) : 0;
	if (r.err != TV_OK || fields < 2)
		return true;
	switch (op) {
	case OP_KV_APPLY:
	case OP_KV_TREE:
		return kv_may_touch(&r, op, key);
	case OP_SESSION_CREATE:
	case OP_COORDINATE_BATCH:
	case OP_AUTOPILOT_SET:
	case OP_TOMBSTONE_REAP:
		return false;
	default:			/* sessions may end, and with them what they hold */
		return true;
	}
}

/* The prefixes of an entry that deletes whole trees; how many there are. */
static uint32_t
whole_trees(const struct raft_entry *e, struct span prefixes[TXN_OPS_MAX])
{
	struct arena none = ARENA_INIT(0);
	struct rd r = rd_over(e->payload, e->size);
	struct kv_apply apply = { .Verb = KV_SET };
	struct kv_tree tree = { .Keys = 0 };
	uint64_t op;

	if (fsm_entry_work(e) != TREE_WORK)
		return 0;
	(void)mpr_array(&r);
	op = mpr_uint(&r, UINT16_MAX);
	if (op == OP_TXN_APPLY)
		return txn_trees(e, prefixes);
	if (op == OP_KV_TREE && schema_unpack(&kv_tree_schema, &r, &none, &tree) == TV_OK)
		prefixes[0] = tree.Key;
	else if (op == OP_KV_APPLY && schema_unpack(&kv_apply_schema, &r, &none, &apply) == TV_OK &&
	    apply.Verb == KV_DELETE_TREE)
		prefixes[0] = apply.Key;
	else
		return 0;
	return 1;
}

bool
kv_is_large_tree(struct fsm *f, const struct raft_entry *e)
{
	struct span prefixes[TXN_OPS_MAX];
	uint32_t n = whole_trees(e, prefixes), keys = 0;

	for (uint32_t i = 0; i < n; i++)
		if (prefixes[i].len <= FSM_KV_KEY_BYTES_MAX)
			keys += count_keys(f, prefixes[i], TREE_SPARSE - keys);
	return keys == TREE_SPARSE;
}

/* As leaders did before there was OP_KV_TREE. */
static void
delete_whole(struct apply *p, const struct kv_apply *q)
{
	delete_tree(p->f, q);
	apply_bool(p, true);
}

static void
kv_apply_op(struct apply *p, const void *rec)
{
	const struct kv_apply *q = rec;

	if (q->Verb > KV_DELETE_PART)
		apply_fail(p, TV_EINVAL, "raft apply failed: unknown KV operation %llu", (unsigned long long)q->Verb);
	else if (q->Key.len > FSM_KV_KEY_BYTES_MAX)
		apply_fail(p, TV_ELIMIT, "raft apply failed: key is longer than %d bytes", FSM_KV_KEY_BYTES_MAX);
	else if (q->Verb == KV_DELETE_TREE)
		delete_whole(p, q);
	else if (q->Verb == KV_DELETE_PART)
		delete_part(p, q);
	else
		write_one(p, q);
}

static void
warm_tree(struct fsm *r, struct span prefix_text)
{
	struct tbl_scan s;
	struct tkey prefix;
	struct span key, val;

	TKEY(&prefix, TBL_KV, prefix_text);
	tbl_scan_begin(r, &s, &prefix);
	while (!warm_enough(r) && tbl_next(&s, &key, &val))
		continue;
	tbl_scan_end(&s);
}

void
kv_warm(struct fsm *r, const struct kv_apply *q)
{
	struct session s;
	char id[37];
	struct span val, why;
	struct tkey k;

	if (q->Verb == KV_DELETE_TREE || q->Verb == KV_DELETE_PART) {
		warm_tree(r, q->Key);
		return;
	}
	TKEY(&k, TBL_KV, q->Key);
	(void)tbl_peek(r, &k, &val);
	if (q->Session.len > 0 && session_id(q->Session, id, &r->work, &why))
		(void)session_find(r, id, &r->work, &s);
}

static void
kv_apply_warm(struct fsm *r, const void *rec)
{
	kv_warm(r, rec);
}

static void
kv_tree_warm(struct fsm *r, const void *rec)
{
	warm_tree(r, ((const struct kv_tree *)rec)->Key);
}

static enum tv_err
kv_prepare(struct prepare *p, void *rec)
{
	struct kv_apply *q = rec;

	if (q->Key.len == 0 && q->Verb != KV_DELETE_TREE && q->Verb != KV_DELETE_PART)
		return prepare_fail(p, "Must provide key");
	if (q->Key.len > FSM_KV_KEY_BYTES_MAX)
		return prepare_fail(p, "Key is longer than %d bytes", FSM_KV_KEY_BYTES_MAX);
	if (q->Verb > KV_DELETE_PART)
		return prepare_fail(p, "unknown KV operation %llu", (unsigned long long)q->Verb);
	if (q->Verb == KV_DELETE_PART && (q->Flags > PART_WORK_MAX || q->Value.len > FSM_KV_KEY_BYTES_MAX + 1))
		return prepare_fail(p, "too much for one part of a tree");
	q->Now = p->now;
	return TV_OK;
}

void
kv_session_gone(struct fsm *f, struct span key, bool del, int64_t now, int64_t delay_until)
{
	struct arena one = ARENA_INIT(FSM_RECORD_MEMORY);	/* a session may hold many keys */
	struct kv_entry old, e;

	if (kv_find(f, key, &one, &old)) {
		e = old;
		e.Session = SPAN_NONE;
		if (del)
			kv_remove(f, &old, true, now);
		else
			kv_store(f, &e, &old);
		if (delay_until != 0)
			lock_delay_put(f, key, delay_until);
	}				/* else a hold without its key, as only an archive can have it: it goes */
	arena_done(&one);
}

/* -- reads -- */

/* Index of "nothing there": that of the whole table. */
static uint64_t
kv_index(const struct fsm *f)
{
	return fsm_index_of(f, FX_KV);
}

bool
kv_modify_index(struct span val, uint64_t *index)
{
	struct rd r = rd_span_over(val);
	uint32_t n = mpr_array(&r);

	*index = 0;
	if (n < KV_FIELDS)
		return false;
	for (uint32_t i = 0; i < KV_FIELDS - 1; i++)
		mpr_skip(&r);
	*index = mpr_uint(&r, UINT64_MAX);
	for (; n > KV_FIELDS && r.err == TV_OK; n--)
		mpr_skip(&r);			/* appended by a newer version */
	return rd_end(&r) == TV_OK;
}

static uint64_t
modify_index(struct fsm *f, struct span val)
{
	uint64_t out;

	if (!kv_modify_index(val, &out))
		f->failed = DB_VERIFY_BAD;
	return out;
}

static void
kv_read_one(struct reading *r, const void *rec)
{
	const struct kv_read *q = rec;
	struct tkey k;
	struct span val;

	TKEY(&k, TBL_KV, q->Key);
	if (!tbl_peek(r->f, &k, &val)) {
		mpw_array(r->out, 0);
		r->ans->index = kv_index(r->f);
		return;
	}
	mpw_array(r->out, 1);
	buf_putspan(r->out, val);
	r->ans->index = modify_index(r->f, val);
}

/*
 * Index of a prefix, from the highest ModifyIndex below it.  Tombstones keep it up while they last; afterwards one number
 * for all prefixes does, so that it does not go back (S104): a client that asks again is answered once too often.
 */
static uint64_t
prefix_index(struct fsm *f, struct span prefix, uint64_t highest)
{
	uint64_t tomb, reaped = fsm_index_of(f, FX_REAPED);

	if (prefix.len == 0)
		return kv_index(f);
	tomb = tombstone_max(f, prefix);
	if (tomb > highest)
		highest = tomb;
	if (highest == 0)
		return kv_index(f);
	return highest > reaped ? highest : reaped;
}

static void
kv_read_list(struct reading *r, const void *rec)
{
	const struct kv_read *q = rec;
	size_t at = list_begin(r->out);
	struct tbl_scan s;
	struct tkey prefix;
	struct span key, val;
	uint64_t highest = 0;
	uint32_t n = 0;

	TKEY(&prefix, TBL_KV, q->Key);
	tbl_scan_begin(r->f, &s, &prefix);
	while (!r->out->failed && tbl_next(&s, &key, &val)) {
		uint64_t modified = modify_index(r->f, val);

		if (modified > highest)
			highest = modified;
		if (!may_read(r, ACL_KEY, span_of(key.p + 1, key.len - 1)))
			continue;
		buf_putspan(r->out, val);
		n++;
	}
	tbl_scan_end(&s);
	list_end(r->out, at, n);
	r->ans->index = prefix_index(r->f, q->Key, highest);
}

/* The key cut behind the first separator after the prefix. */
static struct span
cut_key(struct span key, size_t prefix_len, struct span separator)
{
	const uint8_t *at;

	if (separator.len == 0)
		return key;
	at = memmem(key.p + prefix_len, key.len - prefix_len, separator.p, separator.len);
	return at == NULL ? key : span_of(key.p, (size_t)(at - key.p) + separator.len);
}

static void
kv_read_keys(struct reading *r, const void *rec)
{
	const struct kv_read *q = rec;
	struct buf last = BUF_INIT(FSM_KV_KEY_BYTES_MAX + 1);
	struct tbl_scan s;
	struct tkey prefix;
	struct span key, val;
	uint64_t highest = 0;
	uint32_t n = 0;
	size_t at;

	mpw_array(r->out, 1);			/* text_list */
	at = list_begin(r->out);
	TKEY(&prefix, TBL_KV, q->Key);
	tbl_scan_begin(r->f, &s, &prefix);
	while (!r->out->failed && tbl_next(&s, &key, &val)) {
		struct span name = cut_key(span_of(key.p + 1, key.len - 1), q->Key.len, q->Separator);
		uint64_t modified = modify_index(r->f, val);

		if (modified > highest)
			highest = modified;
		if ((n > 0 && span_eq(name, buf_span(&last))) || !may_read(r, ACL_KEY, span_of(key.p + 1, key.len - 1)))
			continue;
		mpw_str(r->out, name);
		buf_reset(&last);
		buf_putspan(&last, name);
		n++;
	}
	tbl_scan_end(&s);
	buf_done(&last);
	list_end(r->out, at, n);
	r->ans->index = prefix_index(r->f, q->Key, highest);
}

const struct fsm_op kv_ops[] = {
	{ OP_KV_APPLY, .prepare = kv_prepare, .apply = kv_apply_op, .warm = kv_apply_warm },
	{ OP_KV_TREE, .since = 2, .prepare = kv_tree_prepare, .apply = kv_tree_op, .warm = kv_tree_warm },
	{ OP_KV_GET, .read = kv_read_one, .one = true },
	{ OP_KV_LIST, .read = kv_read_list },
	{ OP_KV_KEYS, .read = kv_read_keys },
	{ 0 },
};
