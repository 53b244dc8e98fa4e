/* Snapshots: one index whatever goes on, whole or refused, and a restore that a crash cannot break. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/rng.h"
#include "raftd/fsm/fsm.h"
#include "tests/unit/fsm_kit.h"

static struct kit k;
static char path[96], why[512];

static void
setup(void)
{
	kit_open(&k);
	snprintf(path, sizeof(path), "%s/snapshot", k.dir);
}

static void
teardown(void)
{
	kit_close(&k);
}

static void
fill(unsigned keys, unsigned round)
{
	char name[32], value[300];

	memset(value, 'x', sizeof(value));
	for (unsigned i = 0; i < keys; i++) {
		snprintf(name, sizeof(name), "key/%05u", i);
		snprintf(value, sizeof(value), "%u-%u%250s", round, i, "");
		kit_put(&k, name, value);
	}
}

static void
digest(uint8_t out[32])
{
	ck_assert_int_eq(fsm_digest(k.f, out), TV_OK);
}

static void
take(uint64_t *bytes)
{
	struct fsm_snapshot *s;
	uint64_t index, term, sum;

	ck_assert_int_eq(fsm_snapshot_begin(k.f, &s, &index, &term), TV_OK);
	ck_assert_uint_eq(index, fsm_applied(k.f));
	ck_assert_int_eq(fsm_snapshot_write(s, path, bytes, &sum), TV_OK);
	fsm_snapshot_end(s);
}

START_TEST(round_trip)
{
	uint8_t before[32], after[32];
	uint64_t bytes, index, term;
	struct stat st;
	unsigned fired = 0;
	struct buf b = BUF_INIT(100);

	kit_node(&k, KIT_NODE, "10.0.0.1");
	kit_session(&k, KIT_NODE, "release", 0);
	fill(500, 1);
	kit_verb(&k, KV_DELETE, "key/00001", NULL, NULL, 0);
	digest(before);
	take(&bytes);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq((uint64_t)st.st_size, bytes);
	ck_assert_int_eq(st.st_mode & 0777, 0600);
	fill(100, 2);
	kit_put(&k, "new", "1");
	schema_pack(&kv_read_schema, &(struct kv_read){ .Key = span_str("never") }, &b);
	ck_assert_ptr_nonnull(fsm_watch(k.f, op_find(OP_KV_GET), buf_span(&b), kit_fired, &fired));
	buf_done(&b);
	ck_assert_msg(fsm_restore(k.f, path, &index, &term, why, sizeof(why)) == TV_OK, "%s", why);
	ck_assert_uint_eq(fired, 1);			/* all waiters are released */
	ck_assert_uint_eq(index, fsm_applied(k.f));
	digest(after);
	ck_assert_mem_eq(before, after, 32);
	ck_assert(!kit_has(&k, "new"));
	kit_put(&k, "goes", "on");
	kit_reopen(&k);
	ck_assert(kit_has(&k, "goes"));
	ck_assert_uint_eq(fsm_applied(k.f), index + 1);
}
END_TEST

/* Writes the copy while the main thread applies. */
struct copier {
	struct fsm_snapshot *s;
	enum tv_err err;
	_Atomic bool done;
};

static void *
copy_main(void *arg)
{
	struct copier *c = arg;
	uint64_t bytes, sum;

	c->err = fsm_snapshot_write(c->s, path, &bytes, &sum);
	c->done = true;
	return NULL;
}

/* Any change: new keys, other values, deletions of one and of many, sessions. */
static void
churn(struct rng *g)
{
	char name[32];

	snprintf(name, sizeof(name), "key/%05u", (unsigned)rng_below(g, 4000));
	switch (rng_below(g, 6)) {
	case 0:
		kit_verb(&k, KV_DELETE, name, NULL, NULL, 0);
		break;
	case 1:
		name[8] = '\0';
		kit_verb(&k, KV_DELETE_TREE, name, NULL, NULL, 0);
		break;
	case 2:
		kit_session(&k, KIT_NODE, "release", 0);
		break;
	default:
		kit_put(&k, name, name);
	}
	arena_reset(&k.a);
}

START_TEST(copy_is_of_one_index)
{
	struct rng g;

	rng_seed(&g, 42);
	kit_node(&k, KIT_NODE, "10.0.0.1");
	for (unsigned round = 0; round < 5; round++) {
		struct copier c = { .done = false };
		uint8_t before[32], after[32];
		uint64_t at, term, restored;
		unsigned changes = 0;
		pthread_t t;

		fill(2000, round);
		digest(before);
		ck_assert_int_eq(fsm_snapshot_begin(k.f, &c.s, &at, &term), TV_OK);
		for (unsigned i = 0; i < 20; i++)
			churn(&g);				/* before the walk starts */
		ck_assert_int_eq(pthread_create(&t, NULL, copy_main, &c), 0);
		while (!c.done || changes < 100) {
			churn(&g);
			changes++;
		}
		pthread_join(t, NULL);
		ck_assert_int_eq(c.err, TV_OK);
		fsm_snapshot_end(c.s);
		ck_assert_uint_gt(fsm_applied(k.f), at);
		ck_assert_msg(fsm_restore(k.f, path, &restored, &term, why, sizeof(why)) == TV_OK, "%s", why);
		ck_assert_uint_eq(restored, at);
		digest(after);
		ck_assert_mem_eq(before, after, 32);
	}
}
END_TEST

/* More changes ahead of the walk than the cache holds. */
START_TEST(side_table_spills)
{
	static char big[20000];
	struct kv_apply q = { .Verb = KV_SET, .Value = span_of(big, sizeof(big)) };
	struct fsm_snapshot *s;
	uint8_t before[32], after[32];
	uint64_t at, term, bytes, sum;
	char name[32];

	q.Key = span_of(name, 9);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 1000; i++) {
			snprintf(name, sizeof(name), "big/%05u", i);
			memset(big, (int)(round * 7 + i), sizeof(big));
			ck_assert(kit_bool(&k, OP_KV_APPLY, &q));
			arena_reset(&k.a);
		}
		if (round == 0) {
			digest(before);
			ck_assert_int_eq(fsm_snapshot_begin(k.f, &s, &at, &term), TV_OK);
		}
	}
	ck_assert_int_eq(fsm_snapshot_write(s, path, &bytes, &sum), TV_OK);
	fsm_snapshot_end(s);
	ck_assert_msg(fsm_restore(k.f, path, &at, &term, why, sizeof(why)) == TV_OK, "%s", why);
	digest(after);
	ck_assert_mem_eq(before, after, 32);
}
END_TEST

START_TEST(one_at_a_time_and_replaced_state)
{
	struct fsm_snapshot *s, *t;
	uint64_t index, term, bytes, sum;

	fill(10, 1);
	take(&bytes);
	ck_assert_int_eq(fsm_snapshot_begin(k.f, &s, &index, &term), TV_OK);
	ck_assert_int_eq(fsm_snapshot_begin(k.f, &t, &index, &term), TV_EAGAIN);
	ck_assert_msg(fsm_restore(k.f, path, &index, &term, why, sizeof(why)) == TV_OK, "%s", why);
	ck_assert_int_eq(fsm_snapshot_write(s, path, &bytes, &sum), TV_ECLOSED);
	ck_assert_int_eq(access(path, F_OK), -1);		/* no torn file stays */
	kit_put(&k, "a", "1");
	fsm_snapshot_end(s);
	take(&bytes);
}
END_TEST

/* Checkpoints without end, in a thread. */
struct checkpointer {
	_Atomic bool stop;
	_Atomic unsigned done;
};

static void *
checkpoint_main(void *arg)
{
	struct checkpointer *c = arg;
	uint64_t index, term;

	for (; !c->stop; c->done++)
		if (fsm_checkpoint(k.f, &index, &term) != TV_OK)
			return c;
	return NULL;
}

START_TEST(restore_beside_checkpoints_and_applies)
{
	struct checkpointer c = { .stop = false };
	uint64_t bytes, index, term;
	pthread_t t;
	void *failed;

	fill(500, 1);
	take(&bytes);
	ck_assert_int_eq(pthread_create(&t, NULL, checkpoint_main, &c), 0);
	while (c.done == 0)
		sched_yield();
	for (unsigned i = 0; i < 5; i++) {
		fill(50, i);
		ck_assert_msg(fsm_restore_load(k.f, path, why, sizeof(why)) == TV_OK, "%s", why);
		kit_put(&k, "between", "1");			/* load leaves the present state in use */
		ck_assert(kit_has(&k, "between"));
		ck_assert_msg(fsm_restore_ready(k.f, why, sizeof(why)) == TV_OK, "%s", why);
		ck_assert_msg(fsm_restore_swap(k.f, &index, &term, why, sizeof(why)) == TV_OK, "%s", why);
		ck_assert(!kit_has(&k, "between"));
		ck_assert_uint_eq(index, 500);
	}
	c.stop = true;
	ck_assert_int_eq(pthread_join(t, &failed), 0);
	ck_assert_ptr_null(failed);
}
END_TEST

/* -- damage -- */

static void
refused(void)
{
	uint8_t before[32], after[32];
	uint64_t index, term;

	digest(before);
	ck_assert_int_eq(fsm_restore(k.f, path, &index, &term, why, sizeof(why)), TV_ECORRUPT);
	ck_assert_msg(strstr(why, "the present state is unchanged") != NULL, "%s", why);
	digest(after);
	ck_assert_mem_eq(before, after, 32);
}

START_TEST(damaged_files_are_refused)
{
	uint64_t bytes;
	uint8_t *all;
	FILE *f;

	fill(20, 1);
	take(&bytes);
	kit_put(&k, "later", "1");
	all = malloc(bytes);
	f = fopen(path, "r");
	ck_assert_uint_eq(fread(all, 1, bytes, f), bytes);
	fclose(f);
	for (uint64_t at = 0; at < bytes; at += 1 + bytes / 97) {
		all[at] ^= 0x10;
		f = fopen(path, "w");
		fwrite(all, 1, bytes, f);
		fclose(f);
		refused();					/* a flipped bit */
		all[at] ^= 0x10;
		f = fopen(path, "w");
		fwrite(all, 1, at, f);
		fclose(f);
		refused();					/* cut */
	}
	f = fopen(path, "w");
	fwrite(all, 1, bytes, f);
	fputc(0, f);
	fclose(f);
	refused();						/* longer */
	free(all);
	ck_assert(kit_has(&k, "later"));
}
END_TEST

/* Nothing is wrong with it: who reads the log must not look for a broken disk. */
START_TEST(newer_versions_are_told_from_damage)
{
	uint8_t before[32], after[32], *all;
	uint64_t bytes, index, term;
	FILE *f;

	fill(20, 1);
	take(&bytes);
	digest(before);
	all = malloc(bytes);
	for (unsigned form = 0; form < 2; form++) {
		take(&bytes);
		f = fopen(path, "r+");
		ck_assert_uint_eq(fread(all, 1, bytes, f), bytes);
		kit_snapshot_newer(all, bytes, form == 1);
		rewind(f);
		fwrite(all, 1, bytes, f);
		fclose(f);
		ck_assert_int_eq(fsm_restore(k.f, path, &index, &term, why, sizeof(why)), TV_EINVAL);
		ck_assert_msg(strstr(why, "it was written by a newer version of raftd: upgrade this server") != NULL, "%s", why);
		digest(after);
		ck_assert_mem_eq(before, after, 32);
		/* A damaged one may look like that. */
		f = fopen(path, "r+");
		ck_assert_int_eq(fseek(f, (long)bytes - 100, SEEK_SET), 0);
		fputc(all[bytes - 100] ^ 1, f);
		fclose(f);
		refused();
	}
	free(all);
}
END_TEST

/* -- a crash during the restore -- */

START_TEST(killed_restore_leaves_one_good_state)
{
	uint8_t old[32], fresh[32], now[32];
	uint64_t bytes, index, term;
	unsigned olds = 0, news = 0;

	fill(3000, 1);
	digest(fresh);
	take(&bytes);
	kit_verb(&k, KV_DELETE_TREE, "key/0", NULL, NULL, 0);
	fill(1000, 2);
	digest(old);
	fsm_close(k.f);
	k.f = NULL;
	for (unsigned delay_us = 0; delay_us < 60000 && news < 3; delay_us += 1500) {
		int status;
		pid_t pid = fork();

		ck_assert_int_ge(pid, 0);
		if (pid == 0) {
			kit_reopen(&k);
			_exit(fsm_restore(k.f, path, &index, &term, why, sizeof(why)) == TV_OK ? 0 : 1);
		}
		usleep(delay_us);		/* where it is hit does not matter, only that places vary */
		kill(pid, SIGKILL);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
		kit_reopen(&k);
		digest(now);
		if (memcmp(now, old, 32) == 0)
			olds++;
		else
			news++;
		ck_assert(memcmp(now, old, 32) == 0 || memcmp(now, fresh, 32) == 0);
		fsm_close(k.f);
		k.f = NULL;
	}
	kit_reopen(&k);
}
END_TEST

/* Each state of the directories that a crash between two steps can leave. */
START_TEST(interrupted_swaps)
{
	char dir[96], fresh[100], old[100], mark[120];
	uint8_t want[32], got[32];

	fill(10, 1);
	digest(want);
	fsm_close(k.f);
	k.f = NULL;
	snprintf(dir, sizeof(dir), "%s/state", k.dir);
	snprintf(fresh, sizeof(fresh), "%s.new", dir);
	snprintf(old, sizeof(old), "%s.old", dir);
	snprintf(mark, sizeof(mark), "%s/complete", fresh);
	for (unsigned step = 0; step < 4; step++) {
		if (step == 0) {			/* while loading */
			ck_assert_int_eq(mkdir(fresh, 0700), 0);
		} else if (step == 1) {			/* complete, the old one moved away */
			ck_assert_int_eq(rename(dir, fresh), 0);
			ck_assert_int_eq(close(open(mark, O_CREAT | O_WRONLY, 0600)), 0);
			ck_assert_int_eq(mkdir(old, 0700), 0);
		} else if (step == 2) {			/* swapped, the old one still there */
			ck_assert_int_eq(mkdir(old, 0700), 0);
		} else {				/* moved away, and the new one is not complete */
			ck_assert_int_eq(rename(dir, old), 0);
			ck_assert_int_eq(mkdir(fresh, 0700), 0);
		}
		kit_reopen(&k);
		digest(got);
		ck_assert_mem_eq(want, got, 32);
		ck_assert_int_eq(access(fresh, F_OK), -1);
		ck_assert_int_eq(access(old, F_OK), -1);
		fsm_close(k.f);
		k.f = NULL;
	}
	kit_reopen(&k);
}
END_TEST

START_TEST(checkpoint_keeps_files_small)
{
	uint64_t index, term;
	uint8_t before[32], after[32];
	char log1[96];

	for (unsigned i = 0; i < 12; i++)
		fill(5000, i);
	digest(before);
	ck_assert_int_eq(fsm_checkpoint(k.f, &index, &term), TV_OK);
	ck_assert_uint_eq(index, fsm_applied(k.f));
	snprintf(log1, sizeof(log1), "%s/state/log.0000000001", k.dir);
	ck_assert_int_eq(access(log1, F_OK), -1);		/* old write-ahead files went */
	kit_reopen(&k);
	digest(after);
	ck_assert_mem_eq(before, after, 32);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("fsm_snapshot");
	TCase *t = tcase_create("snapshot");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, round_trip);
	tcase_add_test(t, copy_is_of_one_index);
	tcase_add_test(t, side_table_spills);
	tcase_add_test(t, one_at_a_time_and_replaced_state);
	tcase_add_test(t, restore_beside_checkpoints_and_applies);
	tcase_add_test(t, damaged_files_are_refused);
	tcase_add_test(t, newer_versions_are_told_from_damage);
	tcase_add_test(t, killed_restore_leaves_one_good_state);
	tcase_add_test(t, interrupted_swaps);
	tcase_add_test(t, checkpoint_keeps_files_small);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
