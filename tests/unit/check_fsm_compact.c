/* Half empty pages are joined: what is stored stays as it is, while others write, and when it is killed. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/rng.h"
#include "raftd/fsm/state.h"
#include "tests/unit/fsm_kit.h"

#define ENTRIES 16000
#define BATCH 40

static struct kit k, other;

static void
setup(void)
{
	kit_open(&k);
	kit_open(&other);
}

static void
teardown(void)
{
	kit_close(&k);
	kit_close(&other);
}

/* -- the log: entry i is the same whoever makes it */

/* Keys in order, but for a little disorder as of many clients: pages split in the middle and stay half empty. */
static void
in_order(uint64_t index, struct kv_apply *kv, char *key, size_t cap)
{
	kv->Verb = KV_SET;
	snprintf(key, cap, "job/%08llu", (unsigned long long)(index ^ 7));
}

/* Values that become longer and shorter, deletions, whole trees of them. */
static void
at_random(uint64_t index, struct kv_apply *kv, char *key, size_t cap)
{
	struct rng g;
	uint64_t verb, n;

	rng_seed(&g, index);
	verb = rng_below(&g, 300);
	n = rng_below(&g, 9000);
	kv->Verb = verb == 0 ? KV_DELETE_TREE : verb < 60 ? KV_DELETE : KV_SET;
	kv->Value.len = rng_below(&g, verb == 200 ? 4000 : 300);
	snprintf(key, cap, "job/%0*llu", verb == 0 ? 3 : 4, (unsigned long long)(verb == 0 ? n / 10 : n));
}

typedef void make_entry(uint64_t index, struct kv_apply *kv, char *key, size_t cap);

static void
make_payload(uint64_t index, make_entry *make, struct buf *out)
{
	static const uint8_t bytes[4000] = { 'v' };
	struct kv_apply kv = { .Value = span_of(bytes, 200), .Now = (int64_t)index * KIT_SECOND };
	struct buf args = BUF_INIT(65536);
	char key[32];

	make(index, &kv, key, sizeof(key));
	kv.Key = span_str(key);
	schema_pack(&kv_apply_schema, &kv, &args);
	fsm_entry_write(out, OP_KV_APPLY, buf_span(&args));
	buf_done(&args);
}

static bool
apply_batch(struct fsm *f, make_entry *make)
{
	struct buf payload[BATCH];
	struct raft_entry e[BATCH];
	enum tv_err err;

	for (uint32_t i = 0; i < BATCH; i++) {
		uint64_t index = fsm_applied(f) + 1 + i;

		buf_init(&payload[i], 65536);
		make_payload(index, make, &payload[i]);
		e[i] = (struct raft_entry){ .index = index, .term = 1, .type = RAFT_ENTRY_OP,
		    .size = (uint32_t)payload[i].len, .payload = payload[i].data };
	}
	err = fsm_apply(f, e, BATCH, NULL, NULL);
	for (uint32_t i = 0; i < BATCH; i++)
		buf_done(&payload[i]);
	return err == TV_OK;
}

static void
apply_to(struct fsm *f, make_entry *make, uint64_t last)
{
	while (fsm_applied(f) < last)
		ck_assert(apply_batch(f, make));
}

static uint32_t
leaves(struct fsm *f)
{
	DB_BTREE_STAT *st;
	uint32_t n;

	ck_assert_int_eq(f->db->stat(f->db, NULL, &st, 0), 0);
	n = st->bt_leaf_pg;
	free(st);
	return n;
}

static void
same(struct fsm *a, struct fsm *b)
{
	uint8_t one[32], two[32];

	ck_assert_uint_eq(fsm_applied(a), fsm_applied(b));
	ck_assert_int_eq(fsm_digest(a, one), TV_OK);
	ck_assert_int_eq(fsm_digest(b, two), TV_OK);
	ck_assert_mem_eq(one, two, 32);
}

/* -- cases */

START_TEST(pages_are_filled)
{
	uint32_t before;

	ck_assert(!fsm_compact(k.f));	/* sees how it is when opened */
	apply_to(k.f, in_order, ENTRIES);
	apply_to(other.f, in_order, ENTRIES);
	before = leaves(k.f);
	ck_assert(fsm_compact(k.f));
	while (fsm_compact(k.f))
		;
	ck_assert_int_eq(fsm_trouble(k.f), TV_OK);
	ck_assert_uint_lt(leaves(k.f), before * 3 / 4);
	same(k.f, other.f);
	ck_assert(!fsm_compact(k.f));	/* until it grows again */
	kit_reopen(&k);
	same(k.f, other.f);
}
END_TEST

START_TEST(others_write_between_steps)
{
	unsigned steps = 0;

	(void)fsm_compact(k.f);
	while (fsm_applied(k.f) < ENTRIES) {
		ck_assert(apply_batch(k.f, at_random));
		steps += fsm_compact(k.f);
	}
	ck_assert_int_eq(fsm_trouble(k.f), TV_OK);
	ck_assert_uint_gt(steps, 10);
	apply_to(other.f, at_random, ENTRIES);
	same(k.f, other.f);
	kit_reopen(&k);
	same(k.f, other.f);
}
END_TEST

/* A large tree is deleted without its pages, which come back at once, not when the file has grown. */
START_TEST(empty_pages_come_back)
{
	struct kv_apply all = { .Verb = KV_DELETE_TREE, .Key = span_str("job/") };
	uint32_t before;

	(void)fsm_compact(k.f);
	apply_to(k.f, in_order, ENTRIES);
	apply_to(other.f, in_order, ENTRIES);
	before = leaves(k.f);
	ck_assert_int_eq(kit_apply(&k, OP_KV_APPLY, &all).err, TV_OK);
	ck_assert_int_eq(kit_apply(&other, OP_KV_APPLY, &all).err, TV_OK);
	ck_assert_uint_gt(leaves(k.f), before / 2);
	ck_assert(fsm_compact(k.f));
	while (fsm_compact(k.f))
		;
	ck_assert_int_eq(fsm_trouble(k.f), TV_OK);
	ck_assert_uint_lt(leaves(k.f), 10);
	same(k.f, other.f);
}
END_TEST

/* An open snapshot is written first. */
START_TEST(waits_for_a_snapshot)
{
	struct fsm_snapshot *s;
	uint64_t index, term;

	(void)fsm_compact(k.f);
	apply_to(k.f, in_order, ENTRIES);
	ck_assert_int_eq(fsm_snapshot_begin(k.f, &s, &index, &term), TV_OK);
	ck_assert(!fsm_compact(k.f));
	fsm_snapshot_end(s);
	ck_assert(fsm_compact(k.f));
}
END_TEST

/* A child that ends at once after so many steps, its write-ahead log written as far as it happens to be, or all of it. */
static void
killed_after(unsigned steps, bool flushed)
{
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		kit_reopen(&k);
		(void)fsm_compact(k.f);
		for (unsigned n = 0; n < steps && fsm_applied(k.f) < ENTRIES;) {
			if (!apply_batch(k.f, n % 2 == 0 ? at_random : in_order))
				_exit(1);
			n += fsm_compact(k.f);
		}
		if (fsm_trouble(k.f) != TV_OK || (flushed && fsm_flush(k.f) != TV_OK))
			_exit(2);
		(void)kill(getpid(), SIGKILL);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFSIGNALED(status), "status %x", (unsigned)status);
}

/* What is found is the state of its index: the same steps, undisturbed, make it. */
START_TEST(killed_between_steps)
{
	unsigned steps = 3 + (unsigned)_i / 2 * 4;

	fsm_close(k.f);
	k.f = NULL;
	killed_after(steps, _i % 2 == 0);
	kit_reopen(&k);
	(void)fsm_compact(other.f);
	for (unsigned n = 0; fsm_applied(other.f) < fsm_applied(k.f);) {
		ck_assert(apply_batch(other.f, n % 2 == 0 ? at_random : in_order));
		n += fsm_compact(other.f);
	}
	same(k.f, other.f);
	(void)fsm_compact(k.f);
	apply_to(k.f, in_order, fsm_applied(k.f) + 8000);
	while (fsm_compact(k.f))
		;
	ck_assert_int_eq(fsm_trouble(k.f), TV_OK);
	apply_to(other.f, in_order, fsm_applied(k.f));
	same(k.f, other.f);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("fsm_tidy");
	TCase *t = tcase_create("tidy");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, pages_are_filled);
	tcase_add_test(t, others_write_between_steps);
	tcase_add_test(t, empty_pages_come_back);
	tcase_add_test(t, waits_for_a_snapshot);
	tcase_add_loop_test(t, killed_between_steps, 0, 8);
	suite_add_tcase(suite, t);
	r = srunner_create(suite);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
