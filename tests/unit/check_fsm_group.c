/* Operations of one entry that are all or nothing: what fails leaves nothing behind, on disk and in memory. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/fsm_batch.h"
#include "tests/unit/fsm_kit.h"

#define NO_FAULT UINT32_MAX
#define OPS_MAX 8

static struct kit k;

/* The whole state, but for the transaction's own position. */
struct picture {
	uint8_t digest[32];
	uint64_t index[FX_COUNT], tally[FT_COUNT];
};

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

static struct picture
picture(void)
{
	struct picture p;

	ck_assert_int_eq(fsm_digest(k.f, p.digest), TV_OK);
	memcpy(p.index, k.f->index, sizeof(p.index));
	memcpy(p.tally, k.f->tally, sizeof(p.tally));
	return p;
}

static void
assert_same(const struct picture *before)
{
	struct picture now = picture();

	ck_assert_mem_eq(now.index, before->index, sizeof(now.index));
	ck_assert_mem_eq(now.tally, before->tally, sizeof(now.tally));
	ck_assert_mem_eq(now.digest, before->digest, sizeof(now.digest));
	ck_assert_int_eq(fsm_trouble(k.f), TV_OK);
}

/* As it would stand in an entry; lives in the kit's arena. */
static struct span
payload(uint16_t op, const void *rec)
{
	struct buf packed = BUF_INIT(1u << 20), args = BUF_INIT(1u << 20), all = BUF_INIT(1u << 20);
	struct span text, out;
	char uuid[37];

	snprintf(uuid, sizeof(uuid), "00000000-0000-4000-8000-%012x", ++k.uuids);
	schema_pack(op_find(op)->args, rec, &packed);
	ck_assert_int_eq(fsm_prepare(k.f, &(uint16_t){ op }, buf_span(&packed), k.now, uuid, &args, &k.a, &text), TV_OK);
	fsm_entry_write(&all, op, buf_span(&args));
	out = arena_copy(&k.a, buf_span(&all));
	buf_done(&packed);
	buf_done(&args);
	buf_done(&all);
	return out;
}

static struct span
kv(enum kv_verb verb, const char *key, const char *value, const char *session)
{
	return payload(OP_KV_APPLY, &(struct kv_apply){ .Verb = verb, .Key = span_str(key), .Value = span_str(value),
	    .Session = span_str(session) });
}

static void
watch(uint16_t op, const void *rec, unsigned *fired)
{
	struct buf b = BUF_INIT(65536);

	schema_pack(op_find(op)->args, rec, &b);
	*fired = 0;
	ck_assert_ptr_nonnull(fsm_watch(k.f, op_find(op), buf_span(&b), kit_fired, fired));
	buf_done(&b);
}

/* A group alone in its transaction, of which nothing is to be left: the position stays too, so digests can be compared. */
static void
failing(const struct span *ops, unsigned n, unsigned fail_at)
{
	ck_assert_int_eq(batch_begin(k.f), 0);
	k.f->at = k.f->applied + 1 + k.f->restored[FR_BASE];
	arena_reset(&k.f->work);
	ck_assert(!batch_group(k.f, ops, n, fail_at, &k.a));
	ck_assert_int_eq(batch_end(k.f), TV_OK);
}

/* Something of each kind, and a session that holds a key. */
static const char *
fill(void)
{
	const char *session;

	kit_node(&k, KIT_NODE, "10.0.0.1");
	kit_service(&k, KIT_NODE, "web1", "web", "v1");
	kit_check(&k, KIT_NODE, "c1", "web1", "passing");
	session = kit_session(&k, KIT_NODE, "release", KIT_SECOND);
	ck_assert(kit_verb(&k, KV_LOCK, "held", "1", session, 0));
	kit_put(&k, "a", "1");
	kit_put(&k, "tree/1", "1");
	kit_put(&k, "tree/2", "2");
	return session;
}

/* The third of four is refused by the state machine itself: the state is what it was, whatever the first two did. */
START_TEST(third_of_four_fails)
{
	static const char unknown[] = "99999999-9999-4999-8999-999999999999";
	unsigned key, fresh, prefix, held, web, nodes, sessions, checks, other;
	struct session s = { .Node = span_str(KIT_NODE), .NodeChecks = { .set = true } };
	struct catalog_register reg = { .Node = span_str("n2"), .Address = span_str("10.0.0.2"), .has_service = true };
	struct span firsts[][2] = {
		{ kv(KV_SET, "a", "2", ""), kv(KV_SET, "fresh", "1", "") },
		{ kv(KV_DELETE_TREE, "tree/", "", ""), kv(KV_DELETE, "a", "", "") },
		{ SPAN_NONE, SPAN_NONE },	/* below: they need the state */
		{ SPAN_NONE, SPAN_NONE },
	};
	const char *session = fill();
	struct picture before;

	reg.Service.Service = span_str("web");
	firsts[2][0] = payload(OP_SESSION_CREATE, &s);
	firsts[2][1] = payload(OP_CATALOG_REGISTER, &reg);
	firsts[3][0] = payload(OP_SESSION_DESTROY, &(struct session_destroy){ .ID = span_str(session) });
	firsts[3][1] = payload(OP_CATALOG_DEREGISTER, &(struct catalog_deregister){ .Node = span_str(KIT_NODE) });
	watch(OP_KV_GET, &(struct kv_read){ .Key = span_str("a") }, &key);
	watch(OP_KV_GET, &(struct kv_read){ .Key = span_str("fresh") }, &fresh);
	watch(OP_KV_GET, &(struct kv_read){ .Key = span_str("held") }, &held);
	watch(OP_KV_LIST, &(struct kv_read){ .Key = span_str("tree/") }, &prefix);
	watch(OP_CATALOG_SERVICE, &(struct catalog_read){ .Name = span_str("web") }, &web);
	watch(OP_CATALOG_NODES, &(struct catalog_read){ .Name = SPAN_NONE }, &nodes);
	watch(OP_SESSION_LIST, &(struct session_read){ .ID = SPAN_NONE }, &sessions);
	watch(OP_HEALTH_NODE, &(struct catalog_read){ .Name = span_str(KIT_NODE) }, &checks);
	for (unsigned i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
		struct span ops[4] = { firsts[i][0], firsts[i][1], kv(KV_LOCK, "b", "1", unknown), kv(KV_SET, "c", "1", "") };

		before = picture();
		failing(ops, 4, NO_FAULT);
		assert_same(&before);
		kit_reopen(&k);		/* as the disk has it, too; and without watches that were fired late */
		assert_same(&before);
		ck_assert(!kit_has(&k, "fresh") && !kit_has(&k, "c") && kit_session_lives(&k, session));
		ck_assert_uint_eq(key + fresh + held + prefix + web + nodes + sessions + checks, 0);
		watch(OP_KV_GET, &(struct kv_read){ .Key = span_str("a") }, &key);
		watch(OP_KV_GET, &(struct kv_read){ .Key = span_str("fresh") }, &fresh);
		watch(OP_KV_GET, &(struct kv_read){ .Key = span_str("held") }, &held);
		watch(OP_KV_LIST, &(struct kv_read){ .Key = span_str("tree/") }, &prefix);
		watch(OP_CATALOG_SERVICE, &(struct catalog_read){ .Name = span_str("web") }, &web);
		watch(OP_CATALOG_NODES, &(struct catalog_read){ .Name = SPAN_NONE }, &nodes);
		watch(OP_SESSION_LIST, &(struct session_read){ .ID = SPAN_NONE }, &sessions);
		watch(OP_HEALTH_NODE, &(struct catalog_read){ .Name = span_str(KIT_NODE) }, &checks);
		failing(ops, 4, NO_FAULT);
	}
	/* They wait as before, also for what the next entry changes. */
	watch(OP_KV_GET, &(struct kv_read){ .Key = span_str("other") }, &other);
	kit_put(&k, "other", "1");
	ck_assert_uint_eq(other, 1);
	ck_assert_uint_eq(key + fresh + held + prefix + web + nodes + sessions + checks, 0);
	kit_put(&k, "a", "3");
	kit_put(&k, "tree/3", "3");
	kit_node(&k, KIT_NODE, "10.0.0.9");
	ck_assert(kit_bool(&k, OP_SESSION_DESTROY, &(struct session_destroy){ .ID = span_str(session) }));
	ck_assert_uint_eq(key, 1);
	ck_assert_uint_eq(prefix, 1);
	ck_assert_uint_eq(nodes, 1);
	ck_assert_uint_eq(web, 1);
	ck_assert_uint_eq(held, 1);
	ck_assert_uint_eq(sessions, 1);
	ck_assert_uint_eq(fresh + checks, 0);
}
END_TEST

/* The same entries, with groups that stay and without groups, come to the same state, whatever failed between them. */
START_TEST(what_stays_is_as_if_alone)
{
	struct span ops[OPS_MAX], lost[2];
	struct picture alone, grouped;
	unsigned a, b, c, gone, sum = 0;

	for (unsigned round = 0; round < 2; round++) {
		lost[0] = kv(KV_SET, "a", "lost", "");
		lost[1] = kv(KV_SET, "lost", "1", "");
		ops[0] = kv(KV_SET, "a", "1", "");
		ops[1] = kv(KV_SET, "b", "1", "");
		ops[2] = kv(KV_SET, "a", "2", "");
		ops[3] = kv(KV_DELETE, "b", "", "");
		watch(OP_KV_GET, &(struct kv_read){ .Key = span_str("a") }, &a);
		watch(OP_KV_GET, &(struct kv_read){ .Key = span_str("b") }, &b);
		watch(OP_KV_GET, &(struct kv_read){ .Key = span_str("c") }, &c);
		watch(OP_KV_GET, &(struct kv_read){ .Key = span_str("lost") }, &gone);
		ck_assert_int_eq(batch_begin(k.f), 0);
		batch_entry(k.f, 1);
		ck_assert(batch_op(k.f, ops[0], &k.a));		/* woken for this one, though the next undoes one more */
		if (round == 1)
			ck_assert(!batch_group(k.f, lost, 2, 1, &k.a));
		batch_entry(k.f, 1);
		if (round == 1)
			ck_assert(batch_group(k.f, ops + 1, 3, NO_FAULT, &k.a));
		for (unsigned i = 1; round == 0 && i < 4; i++)
			ck_assert(batch_op(k.f, ops[i], &k.a));
		batch_entry(k.f, 1);
		if (round == 1)
			ck_assert(!batch_group(k.f, lost, 2, 1, &k.a));
		ck_assert(batch_op(k.f, kv(KV_SET, "d", "1", ""), &k.a));
		ck_assert_int_eq(batch_end(k.f), TV_OK);
		ck_assert_uint_eq(a, 1);
		ck_assert_uint_eq(b, 1);
		ck_assert_uint_eq(c + gone, 0);
		ck_assert_uint_eq(fsm_applied(k.f), 3);
		if (round == 0) {
			alone = picture();
			teardown();
			setup();
		}
		sum++;
	}
	grouped = picture();
	ck_assert_uint_eq(sum, 2);
	ck_assert_mem_eq(&alone, &grouped, sizeof(alone));
	ck_assert(span_eqs(kit_get(&k, "a").Value, "2") && !kit_has(&k, "b") && !kit_has(&k, "lost"));
}
END_TEST

/* Of a group in a group either may fail. */
START_TEST(nested)
{
	struct span ops[4] = { kv(KV_SET, "a", "1", ""), kv(KV_SET, "b", "1", ""), kv(KV_SET, "c", "1", ""),
	    kv(KV_SET, "d", "1", "") };
	struct fsm_group outer;
	struct picture before;

	fill();
	kit_verb(&k, KV_DELETE, "a", NULL, NULL, 0);
	ck_assert_int_eq(batch_begin(k.f), 0);
	batch_entry(k.f, 1);
	fsm_group_begin(k.f, &outer);
	ck_assert(batch_op(k.f, ops[0], &k.a));
	ck_assert(!batch_group(k.f, ops + 1, 2, 1, &k.a));
	ck_assert(batch_op(k.f, ops[3], &k.a));
	fsm_group_commit(k.f, &outer);
	ck_assert_int_eq(batch_end(k.f), TV_OK);
	ck_assert(kit_has(&k, "a") && !kit_has(&k, "b") && !kit_has(&k, "c") && kit_has(&k, "d"));
	before = picture();
	ck_assert_int_eq(batch_begin(k.f), 0);
	k.f->at = k.f->applied + 1;
	fsm_group_begin(k.f, &outer);
	ck_assert(batch_op(k.f, kv(KV_SET, "a", "2", ""), &k.a));
	ck_assert(batch_group(k.f, ops + 1, 2, NO_FAULT, &k.a));
	fsm_group_fail(k.f, &outer);
	ck_assert_int_eq(batch_end(k.f), TV_OK);
	assert_same(&before);
}
END_TEST

/* A copy that is being made has the state of its index: what a group changed and what came back do not show in it. */
START_TEST(open_snapshot)
{
	struct span ops[3] = { kv(KV_SET, "a", "lost", ""), kv(KV_SET, "new", "lost", ""), kv(KV_DELETE, "tree/1", "", "") };
	uint64_t index, term, bytes, sum;
	struct fsm_snapshot *s;
	struct picture before;
	char path[80], err[256];

	fill();
	before = picture();
	snprintf(path, sizeof(path), "%s/snapshot", k.dir);
	ck_assert_int_eq(fsm_snapshot_begin(k.f, &s, &index, &term), TV_OK);
	failing(ops, 3, 2);
	ck_assert_int_eq(batch_begin(k.f), 0);
	batch_entry(k.f, 1);
	ck_assert(batch_group(k.f, ops, 3, NO_FAULT, &k.a));
	ck_assert_int_eq(batch_end(k.f), TV_OK);
	kit_put(&k, "new", "2");
	ck_assert_int_eq(fsm_snapshot_write(s, path, &bytes, &sum), TV_OK);
	fsm_snapshot_end(s);
	ck_assert(!kit_has(&k, "tree/1"));
	ck_assert_msg(fsm_restore(k.f, path, &index, &term, err, sizeof(err)) == TV_OK, "%s", err);
	assert_same(&before);
}
END_TEST

/* -- large ones -- */

static void
open_small(enum fsm_sync sync, bool fresh)
{
	char dir[80], err[256];
	struct fsm_options opt = { .dir = dir, .cache_bytes = 1u << 20, .datacenter = "dc1", .sync = sync,
	    .log_file_bytes = 256u << 10, .log_buffer_bytes = 32u << 10 };

	snprintf(dir, sizeof(dir), "%s/state", k.dir);
	fsm_close(k.f);
	if (fresh)
		kit_remove_dir(dir);		/* the file of the write-ahead log in use keeps its size */
	ck_assert_msg(fsm_open(&opt, &k.f, err, sizeof(err)) == TV_OK, "%s", err);
}

static void
put_some(unsigned from, unsigned n, const char *value)
{
	char key[32];

	for (unsigned i = from; i < from + n; i++) {
		snprintf(key, sizeof(key), "key/%06u", i * 7919 % 20000);
		ck_assert(batch_op(k.f, kv(KV_SET, key, value, ""), &k.a));
		arena_reset(&k.a);
		arena_reset(&k.f->work);
	}
}

/*
 * More than the cache holds, and than the files of the write-ahead log that the disk has: nobody makes it durable (_i 0)
 * but at the end, so the undoing reads what still waits in memory.
 */
START_TEST(larger_than_the_cache)
{
	static const enum fsm_sync how[] = { FSM_SYNC_BEHIND, FSM_SYNC_DIRECT, FSM_SYNC_THREAD };
	char value[200];
	struct fsm_group g;
	struct picture before;
	uint64_t index, term;

	memset(value, 'v', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	open_small(how[_i], true);
	ck_assert_int_eq(batch_begin(k.f), 0);
	batch_entry(k.f, 1);
	put_some(0, 3000, value);
	ck_assert_int_eq(batch_end(k.f), TV_OK);
	ck_assert_int_eq(fsm_flush(k.f), TV_OK);
	for (unsigned round = 0; round < 3; round++) {
		before = picture();
		value[0] = (char)('a' + round);
		ck_assert_int_eq(batch_begin(k.f), 0);
		k.f->at = k.f->applied + 1;
		fsm_group_begin(k.f, &g);
		put_some(1000, 4000, value);
		fsm_group_fail(k.f, &g);
		ck_assert_int_eq(batch_end(k.f), TV_OK);
		assert_same(&before);
	}
	ck_assert_int_eq(batch_begin(k.f), 0);
	batch_entry(k.f, 1);
	put_some(2000, 50, "last");
	ck_assert_int_eq(batch_end(k.f), TV_OK);
	ck_assert_int_eq(fsm_checkpoint(k.f, &index, &term), TV_OK);
	before = picture();
	open_small(FSM_SYNC_DIRECT, false);
	ck_assert_uint_eq(fsm_applied(k.f), 2);
	assert_same(&before);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("fsm_group");
	TCase *t = tcase_create("group");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, third_of_four_fails);
	tcase_add_test(t, what_stays_is_as_if_alone);
	tcase_add_test(t, nested);
	tcase_add_test(t, open_snapshot);
	tcase_add_loop_test(t, larger_than_the_cache, 0, 3);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
