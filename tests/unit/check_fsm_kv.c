/* Key/value rules: verbs, indexes, tombstones, listing. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/record/mpack.h"
#include "tests/unit/fsm_kit.h"

static struct kit k;

static void
setup(void)
{
	kit_open(&k);
}

static void
teardown(void)
{
	kit_close(&k);
}

START_TEST(set_and_get)
{
	struct kv_entry e;

	ck_assert(kit_put(&k, "a", "hello"));
	e = kit_get(&k, "a");
	ck_assert(span_eqs(e.Value, "hello"));
	ck_assert_uint_eq(e.CreateIndex, 1);
	ck_assert_uint_eq(e.ModifyIndex, 1);
	ck_assert_uint_eq(e.LockIndex, 0);
	ck_assert_uint_eq(k.ans.index, 1);
	ck_assert(kit_put(&k, "a", "other"));
	e = kit_get(&k, "a");
	ck_assert_uint_eq(e.CreateIndex, 1);
	ck_assert_uint_eq(e.ModifyIndex, 2);
}
END_TEST

START_TEST(identical_write_keeps_index)
{
	struct kv_apply q = { .Verb = KV_SET, .Key = span_str("a"), .Value = span_str("same"), .Flags = 5 };

	ck_assert(kit_bool(&k, OP_KV_APPLY, &q));
	ck_assert(kit_bool(&k, OP_KV_APPLY, &q));
	ck_assert_uint_eq(kit_get(&k, "a").ModifyIndex, 1);
	ck_assert_uint_eq(kit_key_index(&k, "none"), 1);
	q.Flags = 6;
	ck_assert(kit_bool(&k, OP_KV_APPLY, &q));
	ck_assert_uint_eq(kit_get(&k, "a").ModifyIndex, 3);
}
END_TEST

START_TEST(cas)
{
	uint64_t at;

	ck_assert(kit_verb(&k, KV_CAS, "a", "1", NULL, 0));
	ck_assert(!kit_verb(&k, KV_CAS, "a", "2", NULL, 0));
	ck_assert(!kit_verb(&k, KV_CAS, "b", "2", NULL, 7));
	at = kit_get(&k, "a").ModifyIndex;
	ck_assert(!kit_verb(&k, KV_CAS, "a", "2", NULL, at + 1));
	ck_assert(kit_verb(&k, KV_CAS, "a", "2", NULL, at));
	ck_assert(span_eqs(kit_get(&k, "a").Value, "2"));
	ck_assert(!kit_has(&k, "b"));
}
END_TEST

START_TEST(deletes)
{
	ck_assert(kit_verb(&k, KV_DELETE, "none", NULL, NULL, 0));
	ck_assert(kit_verb(&k, KV_DELETE_CAS, "none", NULL, NULL, 5));
	kit_put(&k, "a", "1");
	ck_assert(!kit_verb(&k, KV_DELETE_CAS, "a", NULL, NULL, 0));
	ck_assert(!kit_verb(&k, KV_DELETE_CAS, "a", NULL, NULL, 77));
	ck_assert(kit_verb(&k, KV_DELETE_CAS, "a", NULL, NULL, kit_get(&k, "a").ModifyIndex));
	ck_assert(!kit_has(&k, "a"));
	kit_put(&k, "a", "1");
	ck_assert_uint_eq(kit_get(&k, "a").CreateIndex, fsm_applied(k.f));
}
END_TEST

START_TEST(delete_tree)
{
	char name[32];
	uint64_t before;

	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "t/%03d", i);
		kit_put(&k, name, "x");
	}
	kit_put(&k, "s", "1");
	kit_put(&k, "u", "1");
	before = kit_prefix_index(&k, "t/");
	ck_assert(kit_verb(&k, KV_DELETE_TREE, "t/", NULL, NULL, 0));
	ck_assert_uint_eq(kit_read(&k, OP_KV_LIST, &(struct kv_read){ .Key = span_str("") }, NULL), 2);
	ck_assert_uint_eq(kit_prefix_index(&k, "t/"), fsm_applied(k.f));
	ck_assert_uint_gt(kit_prefix_index(&k, "t"), before);
	ck_assert(kit_verb(&k, KV_DELETE_TREE, "", NULL, NULL, 0));
	ck_assert(!kit_has(&k, "s"));
}
END_TEST

static void
put_many(const char *prefix, unsigned n)
{
	char name[32];

	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s%04u", prefix, i);
		kit_put(&k, name, "0123456789");
	}
}

#define TOO_MUCH(keys, mb) "more than " keys " keys, or " mb " MB, begin with this prefix, which is too much to " \
	"delete at once: delete them in parts, between which others read and write (?recurse&parts, " \
	"clusterctl kv delete --recurse --parts)"

/* All or nothing, as many as the entry says; keys beside it are neither deleted nor counted. */
START_TEST(bounded_tree)
{
	struct kv_tree q = { .Key = span_str("t/"), .Keys = 299, .Bytes = 1u << 20 };
	uint64_t index;

	put_many("t/", 300);
	kit_put(&k, "t", "1");
	kit_put(&k, "t0", "1");
	index = kit_prefix_index(&k, "t/");
	kit_refused(&k, OP_KV_TREE, &q, TOO_MUCH("299", "1"));
	ck_assert_uint_eq(kit_read(&k, OP_KV_LIST, &(struct kv_read){ .Key = span_str("t/") }, NULL), 300);
	ck_assert_uint_eq(kit_prefix_index(&k, "t/"), index);
	q.Keys = 300;
	q.Bytes = 300 * 10;
	kit_refused(&k, OP_KV_TREE, &q, TOO_MUCH("300", "0"));
	q.Bytes = 1u << 20;
	ck_assert(kit_bool(&k, OP_KV_TREE, &q));
	ck_assert_uint_eq(fsm_needs(k.f), 2);
	ck_assert_uint_eq(kit_read(&k, OP_KV_LIST, &(struct kv_read){ .Key = span_str("") }, NULL), 2);
	ck_assert_uint_eq(kit_prefix_index(&k, "t/"), fsm_applied(k.f));
	ck_assert(kit_bool(&k, OP_KV_TREE, &q));	/* nothing is there */
	q.Key = span_str("");
	q.Keys = 2;
	ck_assert(kit_bool(&k, OP_KV_TREE, &q));
	ck_assert(!kit_has(&k, "t") && !kit_has(&k, "t0"));
}
END_TEST

/* With the bounds that a leader puts in: one key too many is refused, and nothing is deleted. */
START_TEST(largest_tree)
{
	struct kv_tree q = { .Key = span_str("t/"), .Keys = KV_TREE_KEYS_MAX, .Bytes = KV_TREE_BYTES_MAX };

	put_many("t/", KV_TREE_KEYS_MAX + 1);
	kit_refused(&k, OP_KV_TREE, &q, TOO_MUCH("100000", "256"));
	ck_assert_uint_eq(kit_read(&k, OP_KV_LIST, &(struct kv_read){ .Key = span_str("t/") }, NULL), KV_TREE_KEYS_MAX + 1);
	ck_assert(kit_verb(&k, KV_DELETE, "t/0000", NULL, NULL, 0));
	ck_assert(kit_bool(&k, OP_KV_TREE, &q));
	ck_assert_uint_eq(kit_read(&k, OP_KV_LIST, &(struct kv_read){ .Key = span_str("t/") }, NULL), 0);
}
END_TEST

struct next {
	uint8_t b[64];
	size_t len;
};

/* One part, from *next on, which then is where to go on.  Returns Newest. */
static uint64_t
delete_part(const char *prefix, uint64_t newest, uint64_t work, struct next *next)
{
	struct kv_apply q = { .Verb = KV_DELETE_PART, .Key = span_str(prefix), .Value = span_of(next->b, next->len),
	    .ModifyIndex = newest, .Flags = work };
	struct fsm_result res = kit_apply(&k, OP_KV_APPLY, &q);
	struct kv_part part = { .Next = SPAN_NONE };
	struct rd r = rd_span_over(res.value);

	ck_assert_int_eq(res.err, TV_OK);
	ck_assert_int_eq(schema_unpack(&kv_part_schema, &r, &k.a, &part), TV_OK);
	ck_assert_uint_le(part.Next.len, sizeof(next->b));
	if (part.Next.len > 0)
		memcpy(next->b, part.Next.p, part.Next.len);
	next->len = part.Next.len;
	return part.Newest;
}

static unsigned
keys_below(const char *prefix)
{
	return kit_read(&k, OP_KV_LIST, &(struct kv_read){ .Key = span_str(prefix) }, NULL);
}

static void
put_tree(int keys)
{
	char name[32];

	for (int i = 0; i < keys; i++) {
		snprintf(name, sizeof(name), "t/%03d", i);
		kit_put(&k, name, "x");
	}
	kit_put(&k, "s", "1");
	kit_put(&k, "u", "1");
}

/* However small the parts are, each takes some, and in the end it is as if all had gone at once. */
START_TEST(delete_in_parts)
{
	static const uint64_t works[] = { 0, 1, 3000, 100000, 1u << 20 };
	static const unsigned least[] = { 600, 600, 50, 2, 1 }, most[] = { 600, 600, 60, 3, 1 };

	for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
		unsigned parts = 0, left = 600;
		uint64_t first = 0, newest = 0;
		struct next next = { .len = 0 };

		put_tree(600);
		do {
			newest = delete_part("t/", newest, works[i], &next);
			first = first == 0 ? fsm_applied(k.f) : first;
			ck_assert_uint_eq(newest, first);
			ck_assert_uint_eq(kit_prefix_index(&k, "t/"), fsm_applied(k.f));
			ck_assert_uint_lt(keys_below("t/"), left);
			left = keys_below("t/");
			parts++;
			arena_reset(&k.a);
		} while (next.len > 0);
		ck_assert_uint_eq(left, 0);
		ck_assert_msg(parts >= least[i] && parts <= most[i], "%u parts of %u", parts, (unsigned)works[i]);
		ck_assert(kit_has(&k, "s") && kit_has(&k, "u"));
	}
	ck_assert_uint_eq(keys_below(""), 2);
}
END_TEST

/* What is written between the parts comes after the deletion, as it would if all had gone at once. */
START_TEST(written_between_parts)
{
	struct next next = { .len = 0 };
	uint64_t newest;

	put_tree(600);
	newest = delete_part("t/", 0, 3000, &next);
	ck_assert(next.len > 0 && !kit_has(&k, "t/000") && kit_has(&k, "t/500"));
	kit_put(&k, "t/000", "again");
	kit_put(&k, "t/500", "changed");
	kit_put(&k, "t/5005", "new");
	kit_verb(&k, KV_DELETE, "t/501", NULL, NULL, 0);
	while (next.len > 0)
		(void)delete_part("t/", newest, 1, &next);
	ck_assert_uint_eq(keys_below("t/"), 3);
	ck_assert(kit_has(&k, "t/000") && kit_has(&k, "t/5005"));
	ck_assert(span_eqs(kit_get(&k, "t/500").Value, "changed"));
}
END_TEST

/* All of them, by an empty prefix; and one that names nothing. */
START_TEST(parts_of_all_and_of_nothing)
{
	struct next next = { .len = 0 };
	uint64_t newest = 0;

	put_tree(10);
	(void)delete_part("none/", 0, 1000, &next);
	ck_assert_uint_eq(next.len, 0);
	ck_assert_uint_eq(keys_below(""), 12);
	do {
		newest = delete_part("", newest, 1000, &next);
	} while (next.len > 0);
	ck_assert_uint_eq(keys_below(""), 0);
	(void)delete_part("", 0, 1000, &next);
	ck_assert_uint_eq(next.len, 0);
	kit_refused(&k, OP_KV_APPLY, &(struct kv_apply){ .Verb = KV_DELETE_PART, .Flags = (1u << 20) + 1 },
	    "too much for one part of a tree");
}
END_TEST

static uint64_t
work_of_tree(void)
{
	struct buf args = BUF_INIT(4096), payload = BUF_INIT(4096);
	struct raft_entry e = { .type = RAFT_ENTRY_OP };
	uint64_t work;

	schema_pack(&kv_tree_schema, &(struct kv_tree){ .Key = span_str("k") }, &args);
	fsm_entry_write(&payload, OP_KV_TREE, buf_span(&args));
	e.payload = payload.data;
	e.size = (uint32_t)payload.len;
	work = fsm_entry_work(&e);
	buf_done(&args);
	buf_done(&payload);
	return work;
}

static bool
may_touch(uint16_t op, const struct schema *schema, const void *rec, const char *key)
{
	struct buf args = BUF_INIT(4096), payload = BUF_INIT(4096);
	struct raft_entry e = { .type = RAFT_ENTRY_OP };
	bool may;

	schema_pack(schema, rec, &args);
	fsm_entry_write(&payload, op, buf_span(&args));
	e.payload = payload.data;
	e.size = (uint32_t)payload.len;
	may = fsm_may_touch(&e, span_str(key));
	e.size -= payload.len > 4 ? 4 : 1;
	ck_assert(!may || fsm_may_touch(&e, span_str(key)));
	buf_done(&args);
	buf_done(&payload);
	return may;
}

START_TEST(entries_that_may_touch_a_key)
{
	struct kv_apply q = { .Key = span_str("a/b") };
	struct kv_tree tree = { .Key = span_str("a/") };
	struct session session = { .Node = span_str("n") };
	struct session_destroy end = { .ID = span_str("x") };
	struct raft_entry noop = { .type = RAFT_ENTRY_NOOP };

	for (q.Verb = KV_SET; q.Verb <= KV_DELETE_CAS; q.Verb++) {
		ck_assert(may_touch(OP_KV_APPLY, &kv_apply_schema, &q, "a/b"));
		ck_assert(!may_touch(OP_KV_APPLY, &kv_apply_schema, &q, "a/b/c"));
		ck_assert(!may_touch(OP_KV_APPLY, &kv_apply_schema, &q, "a/"));
	}
	for (q.Verb = KV_DELETE_TREE; q.Verb <= KV_DELETE_PART; q.Verb++) {
		ck_assert(may_touch(OP_KV_APPLY, &kv_apply_schema, &q, "a/bc"));
		ck_assert(!may_touch(OP_KV_APPLY, &kv_apply_schema, &q, "a/"));
	}
	q.Verb = 99;
	ck_assert(may_touch(OP_KV_APPLY, &kv_apply_schema, &q, "other"));
	ck_assert(may_touch(OP_KV_TREE, &kv_tree_schema, &tree, "a/b"));
	ck_assert(may_touch(OP_KV_TREE, &kv_tree_schema, &tree, "a/"));
	ck_assert(!may_touch(OP_KV_TREE, &kv_tree_schema, &tree, "a"));
	ck_assert(!may_touch(OP_SESSION_CREATE, &session_schema, &session, "a"));
	ck_assert(may_touch(OP_SESSION_DESTROY, &session_destroy_schema, &end, "a"));
	ck_assert(!fsm_may_touch(&noop, span_str("a")));
}
END_TEST

/* What deletes trees is applied alone. */
START_TEST(work_of_entries)
{
	struct kv_apply q = { .Verb = KV_SET, .Key = span_str("k"), .Value = span_str("v") };

	for (q.Verb = KV_SET; q.Verb <= KV_DELETE_PART; q.Verb++) {
		struct buf args = BUF_INIT(4096), payload = BUF_INIT(4096);
		struct raft_entry e = { .type = RAFT_ENTRY_OP };

		schema_pack(&kv_apply_schema, &q, &args);
		fsm_entry_write(&payload, OP_KV_APPLY, buf_span(&args));
		e.payload = payload.data;
		e.size = (uint32_t)payload.len;
		if (q.Verb == KV_DELETE_TREE || q.Verb == KV_DELETE_PART)
			ck_assert_uint_gt(fsm_entry_work(&e), 1u << 20);
		else
			ck_assert_uint_eq(fsm_entry_work(&e), e.size);
		e.size = 3;			/* cut off */
		ck_assert_uint_eq(fsm_entry_work(&e), 3);
		buf_done(&args);
		buf_done(&payload);
	}
	ck_assert_uint_eq(fsm_entry_work(&(struct raft_entry){ .type = RAFT_ENTRY_NOOP }), 0);
	ck_assert_uint_gt(work_of_tree(), 1u << 20);
}
END_TEST

START_TEST(prefix_indexes)
{
	kit_put(&k, "p/a", "1");
	kit_put(&k, "p/b", "2");
	kit_put(&k, "q/c", "3");
	ck_assert_uint_eq(kit_prefix_index(&k, "p/"), 2);
	ck_assert_uint_eq(kit_prefix_index(&k, "q/"), 3);
	ck_assert_uint_eq(kit_prefix_index(&k, ""), 3);
	ck_assert_uint_eq(kit_prefix_index(&k, "nothing"), 3);
	ck_assert_uint_eq(kit_key_index(&k, "nothing"), 3);
	ck_assert_uint_eq(kit_key_index(&k, "p/a"), 1);
	kit_verb(&k, KV_DELETE, "p/b", NULL, NULL, 0);
	ck_assert_uint_eq(kit_prefix_index(&k, "p/"), 4);	/* the tombstone */
	ck_assert_uint_eq(kit_prefix_index(&k, "q/"), 3);
	ck_assert_uint_eq(kit_key_index(&k, "p/b"), 4);
}
END_TEST

START_TEST(tombstones_end)
{
	struct session_destroy reap = { .ID = span_str("") };

	kit_put(&k, "p/a", "1");
	kit_put(&k, "p/b", "2");
	kit_verb(&k, KV_DELETE, "p/b", NULL, NULL, 0);
	ck_assert_uint_eq(kit_prefix_index(&k, "p/"), 3);
	ck_assert(!fsm_reap_due(k.f, k.now));
	k.now += 14 * 60 * KIT_SECOND;
	ck_assert(!fsm_reap_due(k.f, k.now));
	ck_assert(kit_bool(&k, OP_TOMBSTONE_REAP, &reap));
	ck_assert_uint_eq(kit_prefix_index(&k, "p/"), 3);
	k.now += 2 * 60 * KIT_SECOND;
	ck_assert(fsm_reap_due(k.f, k.now));
	kit_put(&k, "q/a", "1");
	ck_assert(kit_bool(&k, OP_TOMBSTONE_REAP, &reap));
	ck_assert_uint_eq(kit_prefix_index(&k, "p/"), 3);	/* not that of p/a: no index goes back (S104) */
	ck_assert_uint_eq(kit_prefix_index(&k, "q/"), 5);	/* nor up, but for old prefixes */
	ck_assert_uint_eq(kit_prefix_index(&k, "none/"), 5);
	ck_assert_uint_eq(kit_key_index(&k, "p/a"), 1);
	ck_assert(!fsm_reap_due(k.f, k.now));
	kit_reopen(&k);
	ck_assert_uint_eq(kit_prefix_index(&k, "p/"), 3);
}
END_TEST

START_TEST(deleting_again_renews_the_tombstone)
{
	struct session_destroy reap = { .ID = span_str("") };

	kit_put(&k, "p/a", "1");
	kit_verb(&k, KV_DELETE, "p/a", NULL, NULL, 0);
	k.now += 10 * 60 * KIT_SECOND;
	kit_put(&k, "p/a", "1");
	kit_verb(&k, KV_DELETE, "p/a", NULL, NULL, 0);
	k.now += 6 * 60 * KIT_SECOND;
	ck_assert(kit_bool(&k, OP_TOMBSTONE_REAP, &reap));
	ck_assert_uint_eq(kit_prefix_index(&k, "p/"), 4);
	k.now += 10 * 60 * KIT_SECOND;
	ck_assert(kit_bool(&k, OP_TOMBSTONE_REAP, &reap));
	ck_assert(!fsm_reap_due(k.f, k.now));
}
END_TEST

static const struct {
	const char *prefix, *separator, *want;
} key_cases[] = {
	{ "", "", "{\"Values\":[\"a--b--c\",\"a--d\",\"b\",\"b/c\",\"b/d/e\",\"bx/y\"]}" },
	{ "b", "/", "{\"Values\":[\"b\",\"b/\",\"bx/\"]}" },
	{ "b/", "/", "{\"Values\":[\"b/c\",\"b/d/\"]}" },
	{ "", "--", "{\"Values\":[\"a--\",\"b\",\"b/c\",\"b/d/e\",\"bx/y\"]}" },
	{ "none", "", "{\"Values\":[]}" },
};

START_TEST(keys)
{
	static const char *const names[] = { "a--b--c", "a--d", "b", "b/c", "b/d/e", "bx/y" };
	const char *json;

	for (unsigned i = 0; i < 6; i++)
		kit_put(&k, names[i], "1");
	for (unsigned i = 0; i < sizeof(key_cases) / sizeof(key_cases[0]); i++) {
		struct kv_read q = { .Key = span_str(key_cases[i].prefix),
		    .Separator = span_str(key_cases[i].separator) };

		kit_read(&k, OP_KV_KEYS, &q, &json);
		ck_assert_str_eq(json, key_cases[i].want);
	}
}
END_TEST

START_TEST(list_is_by_prefix_in_byte_order)
{
	const char *json;

	kit_put(&k, "foobar", "2");
	kit_put(&k, "foo/baz", "3");
	kit_put(&k, "foo", "1");
	kit_put(&k, "fo", "4");
	ck_assert_uint_eq(kit_read(&k, OP_KV_LIST, &(struct kv_read){ .Key = span_str("foo") }, &json), 3);
	ck_assert_str_eq(json,
	    "[{\"LockIndex\":0,\"Key\":\"foo\",\"Flags\":0,\"Value\":\"MQ==\",\"CreateIndex\":3,\"ModifyIndex\":3},"
	    "{\"LockIndex\":0,\"Key\":\"foo/baz\",\"Flags\":0,\"Value\":\"Mw==\",\"CreateIndex\":2,\"ModifyIndex\":2},"
	    "{\"LockIndex\":0,\"Key\":\"foobar\",\"Flags\":0,\"Value\":\"Mg==\",\"CreateIndex\":1,\"ModifyIndex\":1}]");
}
END_TEST

START_TEST(large_values_and_long_keys)
{
	static char value[524289], key[8200];
	struct kv_apply q = { .Verb = KV_SET, .Key = span_of(key, 8192), .Value = span_of(value, 524288) };
	struct kv_read r = { .Key = span_of(key, 8192) };

	memset(value, 'v', sizeof(value));
	memset(key, 'k', sizeof(key));
	ck_assert(kit_bool(&k, OP_KV_APPLY, &q));
	ck_assert_uint_eq(kit_read(&k, OP_KV_GET, &r, NULL), 1);
	ck_assert_uint_eq(kit_read(&k, OP_KV_LIST, &(struct kv_read){ .Key = span_str("kkk") }, NULL), 1);
	q.Verb = KV_DELETE_TREE;
	q.Key = span_str("k");
	ck_assert(kit_bool(&k, OP_KV_APPLY, &q));
	ck_assert_uint_eq(kit_read(&k, OP_KV_GET, &r, NULL), 0);
	q.Verb = KV_SET;
	q.Key = span_of(key, 8193);
	kit_refused(&k, OP_KV_APPLY, &q, "Key is longer than 8192 bytes");
	q.Key = span_str("");
	kit_refused(&k, OP_KV_APPLY, &q, "Must provide key");
}
END_TEST

START_TEST(binary_keys_keep_apart)
{
	struct kv_apply q = { .Verb = KV_SET, .Key = span_of("a\0b", 3), .Value = span_str("1") };

	ck_assert(kit_bool(&k, OP_KV_APPLY, &q));
	kit_put(&k, "a", "2");
	ck_assert_uint_eq(kit_read(&k, OP_KV_LIST, &(struct kv_read){ .Key = span_str("a") }, NULL), 2);
	ck_assert(span_eqs(kit_get(&k, "a").Value, "2"));
	q.Verb = KV_DELETE;
	ck_assert(kit_bool(&k, OP_KV_APPLY, &q));
	ck_assert(kit_has(&k, "a"));
}
END_TEST

START_TEST(batch_is_one_transaction_and_stays)
{
	struct raft_entry e[100];
	struct buf payload[100];
	uint8_t before[32], after[32];

	for (unsigned i = 0; i < 100; i++) {
		struct kv_apply q = { .Verb = KV_SET, .Value = span_str("v") };
		struct buf args = BUF_INIT(1000);
		char key[16];

		snprintf(key, sizeof(key), "k%u", i % 10);
		q.Key = span_str(key);
		q.Flags = i;
		schema_pack(&kv_apply_schema, &q, &args);
		buf_init(&payload[i], 1000);
		fsm_entry_write(&payload[i], OP_KV_APPLY, buf_span(&args));
		e[i] = (struct raft_entry){ .index = i + 1, .term = 3, .type = RAFT_ENTRY_OP,
		    .size = (uint32_t)payload[i].len,
		    .payload = payload[i].data };
		buf_done(&args);
	}
	e[5].type = RAFT_ENTRY_NOOP;
	ck_assert_int_eq(fsm_apply(k.f, e + 1, 99, &k.a, NULL), TV_EINVAL);	/* a gap */
	ck_assert_int_eq(fsm_apply(k.f, e, 100, &k.a, NULL), TV_OK);
	ck_assert_uint_eq(fsm_applied(k.f), 100);
	ck_assert_uint_eq(kit_get(&k, "k9").ModifyIndex, 100);
	ck_assert_int_eq(fsm_digest(k.f, before), TV_OK);
	kit_reopen(&k);
	ck_assert_uint_eq(fsm_applied(k.f), 100);
	ck_assert_uint_eq(fsm_applied_term(k.f), 3);
	ck_assert_int_eq(fsm_digest(k.f, after), TV_OK);
	ck_assert_mem_eq(before, after, 32);
	for (unsigned i = 0; i < 100; i++)
		buf_done(&payload[i]);
}
END_TEST

START_TEST(malformed_entries_are_refused_alone)
{
	static const uint8_t junk[] = { 0x92, 0x04, 0x91, 0xc1 }, text[] = { 0x92, 0xa1, 'k', 0x90 };
	struct raft_entry e[] = {
		{ .index = 1, .term = 1, .type = RAFT_ENTRY_OP, .size = sizeof(junk), .payload = junk },
		{ .index = 2, .term = 1, .type = RAFT_ENTRY_OP, .size = sizeof(text), .payload = text },
		{ .index = 3, .term = 1, .type = RAFT_ENTRY_OP, .size = 0, .payload = junk },
		{ .index = 4, .term = 1, .type = 0x99, .size = sizeof(junk), .payload = junk },
	};
	struct fsm_result res[4];

	ck_assert_int_eq(fsm_apply(k.f, e, 4, &k.a, res), TV_OK);
	ck_assert_int_eq(res[0].err, TV_EFORMAT);
	ck_assert_int_eq(res[1].err, TV_EFORMAT);
	ck_assert_int_eq(res[2].err, TV_EFORMAT);
	ck_assert_int_eq(res[3].err, TV_OK);		/* skipped */
	ck_assert_uint_eq(fsm_applied(k.f), 4);
}
END_TEST

/* An entry with an operation and the version that it needs (0: it does not say), written by a server of that version. */
static struct raft_entry
entry_of(uint64_t index, uint16_t op, struct span args, uint8_t needs, unsigned more, struct buf *b)
{
	buf_init(b, 1000);
	mpw_array(b, 2 + (needs > 0) + more);
	mpw_uint(b, op);
	buf_putspan(b, args);
	if (needs > 0)
		mpw_uint(b, needs);
	for (unsigned i = 0; i < more; i++) {
		if (i == 0 && needs > 0)
			mpw_nil(b);		/* no premises */
		else
			mpw_cstr(b, "of a newer version");
	}
	return (struct raft_entry){ .index = index, .term = 1, .type = RAFT_ENTRY_OP, .size = (uint32_t)b->len,
	    .payload = b->data };
}

/* Puts k0, then an entry that not every version applies, then k1: together, as they come out of the log. */
static enum tv_err
apply_with(uint16_t op, uint8_t needs, unsigned more)
{
	struct buf args[3], payload[3];
	struct raft_entry e[3];
	enum tv_err err;

	for (unsigned i = 0; i < 3; i++) {
		struct kv_apply put = { .Verb = KV_SET, .Key = arena_printf(&k.a, i == 1 ? "newer" : "k%u", i), .Value = span_str("v") };
		uint64_t index = fsm_applied(k.f) + 1 + i;

		buf_init(&args[i], 1000);
		schema_pack(&kv_apply_schema, &put, &args[i]);
		e[i] = i == 1 ? entry_of(index, op, buf_span(&args[i]), needs, more, &payload[i]) :
		    entry_of(index, OP_KV_APPLY, buf_span(&args[i]), 0, 0, &payload[i]);
	}
	err = fsm_apply(k.f, e, 3, &k.a, NULL);
	for (unsigned i = 0; i < 3; i++) {
		buf_done(&args[i]);
		buf_done(&payload[i]);
	}
	return err;
}

static void
refused_as_newer(uint16_t op, uint8_t needs, const char *text)
{
	uint64_t before = fsm_applied(k.f);
	uint8_t was[32], is[32];
	char why[400];

	ck_assert_int_eq(fsm_digest(k.f, was), TV_OK);
	for (int i = 0; i < 2; i++) {		/* and again after a start */
		ck_assert_int_eq(apply_with(op, needs, 0), TV_EINVAL);
		fsm_trouble_text(k.f, why, sizeof(why));
		ck_assert_msg(strstr(why, text) != NULL && strstr(why, "start the newer version here") != NULL, "%s", why);
		ck_assert_int_ne(fsm_trouble(k.f), TV_OK);
		kit_reopen(&k);
		ck_assert_uint_eq(fsm_applied(k.f), before);
		ck_assert_int_eq(fsm_digest(k.f, is), TV_OK);
		ck_assert_mem_eq(was, is, 32);
	}
}

/* Who does not know an entry stops before it, and goes on from there as a newer version: the states stay the same. */
START_TEST(entries_of_a_newer_version)
{
	uint8_t upgraded[32], newer[32];
	struct fsm_options opt = { .dir = "", .cache_bytes = 4u << 20, .datacenter = "dc1" };
	struct fsm *older = NULL;
	char why[1024], dir[100];

	kit_put(&k, "first", "1");
	refused_as_newer(999, 0, "log entry 3 was written by a newer version of raftd (operation 999)");
	snprintf(why, sizeof(why), "(operation 999, which needs version %u of the state machine; this raftd has version %u)",
	    FSM_VERSION + 1, FSM_VERSION);
	refused_as_newer(999, FSM_VERSION + 1, why);
	snprintf(why, sizeof(why), "(operation 4, which needs version 200 of the state machine; this raftd has version %u)",
	    FSM_VERSION);
	refused_as_newer(OP_KV_APPLY, 200, why);
	refused_as_newer(OP_KV_GET, 0, "(operation 1)");	/* no write of ours */
	ck_assert_int_eq(apply_with(OP_KV_APPLY, 0, 0), TV_OK);
	ck_assert_uint_eq(fsm_needs(k.f), 1);
	ck_assert_int_eq(apply_with(OP_KV_APPLY, FSM_VERSION, 3), TV_OK);	/* longer, and ours */
	ck_assert_uint_eq(fsm_needs(k.f), FSM_VERSION);

	k.version = FSM_VERSION + 1;
	kit_reopen(&k);
	ck_assert_int_eq(apply_with(OP_KV_APPLY, FSM_VERSION + 1, 0), TV_OK);
	ck_assert_int_eq(apply_with(OP_KV_APPLY, 0, 0), TV_OK);
	ck_assert_uint_eq(fsm_needs(k.f), FSM_VERSION + 1);	/* remembered, also across a start */
	kit_reopen(&k);
	ck_assert_uint_eq(fsm_needs(k.f), FSM_VERSION + 1);
	ck_assert(kit_has(&k, "k0") && kit_has(&k, "newer") && kit_has(&k, "k2"));
	ck_assert_int_eq(fsm_digest(k.f, upgraded), TV_OK);

	fsm_close(k.f);
	snprintf(dir, sizeof(dir), "%s/state", k.dir);
	opt.dir = dir;
	ck_assert_int_eq(fsm_open(&opt, &older, why, sizeof(why)), TV_EINVAL);	/* a way back there is not */
	ck_assert_msg(strstr(why, "was written by a newer version of raftd") != NULL, "%s", why);
	kit_remove_dir(k.dir);
	arena_done(&k.a);
	buf_done(&k.out);
	kit_open(&k);				/* one that was new from the beginning */
	k.version = FSM_VERSION + 1;
	kit_reopen(&k);
	kit_put(&k, "first", "1");
	ck_assert_int_eq(apply_with(OP_KV_APPLY, 0, 0), TV_OK);
	ck_assert_int_eq(apply_with(OP_KV_APPLY, 0, 0), TV_OK);
	ck_assert_int_eq(apply_with(OP_KV_APPLY, FSM_VERSION + 1, 0), TV_OK);
	ck_assert_int_eq(apply_with(OP_KV_APPLY, 0, 0), TV_OK);
	ck_assert_int_eq(fsm_digest(k.f, newer), TV_OK);
	ck_assert_mem_eq(upgraded, newer, 32);
}
END_TEST

/* A state that needs a newer version is no snapshot for an older one. */
START_TEST(snapshots_of_a_newer_version)
{
	struct fsm_snapshot *snap;
	uint64_t index, term, bytes, sum;
	char path[100], why[1024];

	k.version = FSM_VERSION + 1;
	kit_reopen(&k);
	ck_assert_int_eq(apply_with(OP_KV_APPLY, FSM_VERSION + 1, 0), TV_OK);
	snprintf(path, sizeof(path), "%s/snapshot", k.dir);
	ck_assert_int_eq(fsm_snapshot_begin(k.f, &snap, &index, &term), TV_OK);
	ck_assert_int_eq(fsm_snapshot_write(snap, path, &bytes, &sum), TV_OK);
	fsm_snapshot_end(snap);
	ck_assert_int_eq(fsm_restore_load(k.f, path, why, sizeof(why)), TV_EINVAL);
}
END_TEST

/* Short reads without end: cursors and buffers are given back (S96). */
START_TEST(reads_leave_memory_flat)
{
	struct kv_read one = { .Key = span_str("k/5") }, all = { .Key = span_str("k/") };
	size_t before = 0;
	char name[16];

	for (unsigned i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "k/%u", i);
		kit_put(&k, name, "v");
	}
	for (unsigned i = 0; i < 20000; i++) {
		if (i == 1000)
			before = mallinfo2().uordblks;
		arena_reset(&k.a);
		kit_read(&k, OP_KV_GET, &one, NULL);
		if (i % 10 == 0)
			kit_read(&k, OP_KV_LIST, &all, NULL);
	}
	ck_assert_uint_le(mallinfo2().uordblks, before + 65536);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("fsm_kv");
	TCase *t = tcase_create("kv");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, set_and_get);
	tcase_add_test(t, identical_write_keeps_index);
	tcase_add_test(t, cas);
	tcase_add_test(t, deletes);
	tcase_add_test(t, entries_that_may_touch_a_key);
	tcase_add_test(t, bounded_tree);
	tcase_add_test(t, largest_tree);
	tcase_add_test(t, delete_tree);
	tcase_add_test(t, delete_in_parts);
	tcase_add_test(t, written_between_parts);
	tcase_add_test(t, parts_of_all_and_of_nothing);
	tcase_add_test(t, work_of_entries);
	tcase_add_test(t, prefix_indexes);
	tcase_add_test(t, tombstones_end);
	tcase_add_test(t, deleting_again_renews_the_tombstone);
	tcase_add_test(t, keys);
	tcase_add_test(t, list_is_by_prefix_in_byte_order);
	tcase_add_test(t, large_values_and_long_keys);
	tcase_add_test(t, binary_keys_keep_apart);
	tcase_add_test(t, batch_is_one_transaction_and_stays);
	tcase_add_test(t, malformed_entries_are_refused_alone);
	tcase_add_test(t, entries_of_a_newer_version);
	tcase_add_test(t, snapshots_of_a_newer_version);
	tcase_add_test(t, reads_leave_memory_flat);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
