/* Operations of a transaction on keys. */
#include <inttypes.h>

#include "common/text/json_text.h"
#include "raftd/fsm/kv/kv.h"
#include "raftd/fsm/table/table.h"
#include "raftd/fsm/txn/txn.h"

#define TEXT_BEFORE "raft apply failed: "	/* of a request of its own */

static void
result_kv(struct txn_run *t, const struct kv_entry *e)
{
	struct txn_result r = { .has_kv = true, .KV = *e };

	r.KV.Value = SPAN_NONE;
	txn_result(t, &r);
}

/* -- writes -- */

/* A condition did not hold. */
static void
fail_write(struct txn_run *t, const struct txn_kv *q, enum kv_verb verb)
{
	if (verb == KV_CAS)
		txn_fail(t, "failed to set key ", &q->Key, ", index is stale");
	else if (verb == KV_DELETE_CAS)
		txn_fail(t, "failed to delete key ", &q->Key, ", index is stale");
	else if (verb == KV_UNLOCK)
		txn_fail(t, "failed to unlock key ", &q->Key, ", lock isn't held, or is held by another session");
	else if (lock_delay_holds(t->f, q->Key, t->now))
		txn_fail(t, "failed to lock key ", &q->Key, " due to lock delay");
	else
		txn_fail(t, "failed to lock key ", &q->Key, ", lock is already held");
}

static void
write_key(struct txn_run *t, const struct txn_kv *q, enum kv_verb verb)
{
	struct kv_apply ask = { .Verb = verb, .Key = q->Key, .Flags = q->Flags, .Value = q->Value, .ModifyIndex = q->Index,
	    .Session = q->Session, .Now = t->now };
	struct kv_verdict v;

	kv_write(t->f, &ask, t->texts, &v);
	if (v.err != TV_OK)
		txn_fail_as(t, v.text, TEXT_BEFORE);
	else if (!v.answer)
		fail_write(t, q, verb);
	else if (v.change == KV_STORE)
		result_kv(t, &v.next);
}

static void
set(struct txn_run *t, const struct txn_kv *q)
{
	write_key(t, q, KV_SET);
}

static void
cas(struct txn_run *t, const struct txn_kv *q)
{
	write_key(t, q, KV_CAS);
}

static void
lock(struct txn_run *t, const struct txn_kv *q)
{
	write_key(t, q, KV_LOCK);
}

static void
unlock(struct txn_run *t, const struct txn_kv *q)
{
	write_key(t, q, KV_UNLOCK);
}

static void
delete(struct txn_run *t, const struct txn_kv *q)
{
	write_key(t, q, KV_DELETE);
}

static void
delete_cas(struct txn_run *t, const struct txn_kv *q)
{
	write_key(t, q, KV_DELETE_CAS);
}

static void
delete_tree(struct txn_run *t, const struct txn_kv *q)
{
	if (!kv_delete_tree(t->f, q->Key, t->now, &t->tree_keys, &t->tree_bytes))
		txn_failf(t, "more keys, or bytes, begin with this prefix than a transaction may still delete (%d keys and %d MB "
		    "in all)", (int)TXN_TREE_KEYS_MAX, (int)(TXN_TREE_BYTES_MAX >> 20));
}

/* -- reads -- */

static void
unknown(struct txn_run *t, const struct txn_kv *q)
{
	txn_fail(t, "unknown KV verb ", &q->Verb, "");
}

/* The key's entry; if there is none the operation has failed. */
static bool
find_key(struct txn_run *t, const struct txn_kv *q, const char *before, struct kv_entry *out)
{
	if (kv_find(t->f, q->Key, &t->one, out))
		return true;
	txn_fail(t, before, &q->Key, " doesn't exist");
	return false;
}

static void
get(struct txn_run *t, const struct txn_kv *q)
{
	struct tkey k;
	struct span val;

	TKEY(&k, TBL_KV, q->Key);
	if (tbl_peek(t->f, &k, &val))
		txn_result_stored(t, val);
	else
		txn_fail(t, "key ", &q->Key, " doesn't exist");
}

static void
get_or_empty(struct txn_run *t, const struct txn_kv *q)
{
	struct txn_result none = { .has_kv = true, .KV = { .Key = q->Key, .Flags = q->Flags } };
	struct tkey k;
	struct span val;

	TKEY(&k, TBL_KV, q->Key);
	if (!t->or_empty)
		unknown(t, q);
	else if (tbl_peek(t->f, &k, &val))
		txn_result_stored(t, val);
	else
		txn_result(t, &none);
}

static void
get_tree(struct txn_run *t, const struct txn_kv *q)
{
	uint32_t failed = t->error_count;
	struct tbl_scan s;
	struct tkey prefix;
	struct span key, val;

	TKEY(&prefix, TBL_KV, q->Key);
	tbl_scan_begin(t->f, &s, &prefix);
	while (t->error_count == failed && !t->results->failed && tbl_next(&s, &key, &val))
		txn_result_stored(t, val);
	tbl_scan_end(&s);
}

static void
check_index(struct txn_run *t, const struct txn_kv *q)
{
	struct kv_entry e;
	char numbers[80];

	if (!find_key(t, q, "failed to check index, key ", &e))
		return;
	snprintf(numbers, sizeof(numbers), ", current modify index %" PRIu64 " != %" PRIu64, e.ModifyIndex, q->Index);
	if (e.ModifyIndex == q->Index)
		result_kv(t, &e);
	else
		txn_fail(t, "failed index check for key ", &q->Key, numbers);
}

static void
check_session(struct txn_run *t, const struct txn_kv *q)
{
	struct buf sessions = BUF_INIT(FSM_ANSWER_BYTES_MAX);
	struct kv_entry e;

	if (!find_key(t, q, "failed to check session, key ", &e))
		return;
	if (span_eq(e.Session, q->Session)) {
		result_kv(t, &e);
		return;
	}
	buf_puts(&sessions, ", current session ");
	text_quote(e.Session, &sessions);
	buf_puts(&sessions, " != ");
	text_quote(q->Session, &sessions);
	txn_fail(t, "failed session check for key ", &q->Key, buf_cstr(&sessions));
	buf_done(&sessions);
}

static void
check_not_exists(struct txn_run *t, const struct txn_kv *q)
{
	struct tkey k;

	TKEY(&k, TBL_KV, q->Key);
	if (tbl_has(t->f, &k))
		txn_fail(t, "key ", &q->Key, " exists");
}

static const struct {
	const char *verb;
	void (*run)(struct txn_run *t, const struct txn_kv *q);
} verbs[] = {
	{ "set", set }, { "cas", cas }, { "lock", lock }, { "unlock", unlock }, { "get", get }, { "get-tree", get_tree },
	{ "get-or-empty", get_or_empty },
	{ "check-index", check_index }, { "check-session", check_session }, { "check-not-exists", check_not_exists },
	{ "delete", delete }, { "delete-tree", delete_tree }, { "delete-cas", delete_cas },
};

void
txn_kv_run(struct txn_run *t, const struct txn_kv *q)
{
	for (unsigned i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (span_eqs(q->Verb, verbs[i].verb)) {
			verbs[i].run(t, q);
			return;
		}
	unknown(t, q);
}

bool
txn_kv_refused(struct txn_run *t, const struct txn_kv *q)
{
	uint32_t before = t->error_count;

	if (q->Key.len == 0 && !span_eqs(q->Verb, "delete-tree"))
		txn_failf(t, "Must provide key");
	else if (q->Key.len > FSM_KV_KEY_BYTES_MAX)
		txn_failf(t, "Key is longer than %d bytes", FSM_KV_KEY_BYTES_MAX);
	return t->error_count > before;
}
