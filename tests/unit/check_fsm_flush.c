/*
 * Disk work of the state beside applying: who syncs, what waits, what is read meanwhile, what a failure leaves.
 *
 * The C library's fdatasync() is replaced by one that can be held up, or fail, and knows who calls it.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "raftd/store_pageq.h"
#include "tests/unit/fsm_kit.h"

#define KEYS 3000

/* Berkeley DB keeps its regions when an environment has panicked. */
const char *__lsan_default_suppressions(void);
const char *
__lsan_default_suppressions(void)
{
	return "leak:libdb-5.3\n";
}

/* -- the disk -- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stuck;			/* syncs wait */
	int fail;			/* errno of the next ones */
	unsigned waiting, syncs, ours;	/* ours: by the thread that applies */
	pthread_t applier;
	bool watched;			/* applier is set */
	unsigned relieved;
} disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

int fdatasync(int fd);

int
fdatasync(int fd)
{
	int fail;

	pthread_mutex_lock(&disk.lock);
	disk.syncs++;
	disk.ours += disk.watched && pthread_equal(pthread_self(), disk.applier);
	disk.waiting++;
	pthread_cond_broadcast(&disk.changed);
	while (disk.stuck)
		pthread_cond_wait(&disk.changed, &disk.lock);
	disk.waiting--;
	fail = disk.fail;
	pthread_mutex_unlock(&disk.lock);
	if (fail == 0)
		return (int)syscall(SYS_fdatasync, fd);
	errno = fail;
	return -1;
}

static void
set_disk(bool stuck, int fail)
{
	pthread_mutex_lock(&disk.lock);
	disk.stuck = stuck;
	disk.fail = fail;
	pthread_cond_broadcast(&disk.changed);
	pthread_mutex_unlock(&disk.lock);
}

/* From here on this thread must not sync. */
static void
watch_applier(bool on)
{
	pthread_mutex_lock(&disk.lock);
	disk.applier = pthread_self();
	disk.watched = on;
	disk.ours = 0;
	pthread_mutex_unlock(&disk.lock);
}

static void
on_relieved(void *ctx)
{
	(void)ctx;
	pthread_mutex_lock(&disk.lock);
	disk.relieved++;
	pthread_cond_broadcast(&disk.changed);
	pthread_mutex_unlock(&disk.lock);
}

/* -- the state -- */

static struct kit k;
static unsigned version[KEYS];		/* what each key was last set to */

static void
open_with(enum fsm_sync sync)
{
	char errbuf[512], dir[80];
	struct fsm_options opt = { .dir = dir, .cache_bytes = 256u << 10, .datacenter = "dc1", .log_file_bytes = 256u << 10,
	    .log_buffer_bytes = 32u << 10, .sync = sync, .relieved = on_relieved };

	snprintf(dir, sizeof(dir), "%s/state", k.dir);
	ck_assert_msg(fsm_open(&opt, &k.f, errbuf, sizeof(errbuf)) == TV_OK, "%s", errbuf);
}

static void
key_name(char out[32], unsigned i)
{
	snprintf(out, 32, "key/%08u", i * 2654435761u);
}

static void
set(unsigned i)
{
	char key[32], value[256];

	key_name(key, i);
	version[i]++;
	snprintf(value, sizeof(value), "%u:%0200u", version[i], i);
	ck_assert(kit_put(&k, key, value));
}

static void
check_all(void)
{
	for (unsigned i = 0; i < KEYS; i++) {
		char key[32], want[32];
		struct kv_entry e;

		key_name(key, i);
		if (version[i] == 0) {
			ck_assert(!kit_has(&k, key));
			continue;
		}
		e = kit_get(&k, key);
		snprintf(want, sizeof(want), "%u:", version[i]);
		ck_assert(span_starts(e.Value, span_str(want)));
	}
}

static void
setup(void)
{
	set_disk(false, 0);
	watch_applier(false);
	disk.relieved = 0;
	memset(version, 0, sizeof(version));
	kit_open(&k);
	fsm_close(k.f);
	open_with(FSM_SYNC_THREAD);
}

static void
teardown(void)
{
	set_disk(false, 0);
	kit_close(&k);
}

/* -- tests -- */

START_TEST(applying_never_syncs)
{
	uint64_t index, term;

	watch_applier(true);
	for (unsigned round = 0; round < 4; round++)
		for (unsigned i = 0; i < KEYS; i++) {
			while (fsm_held(k.f))
				sched_yield();		/* as raftd's loop does, which goes on with other things */
			set(i);
		}
	check_all();
	ck_assert_uint_eq(disk.ours, 0);
	ck_assert_uint_gt(disk.syncs, 0);		/* the thread did it */
	watch_applier(false);
	ck_assert_int_eq(fsm_checkpoint(k.f, &index, &term), TV_OK);
	ck_assert_uint_eq(index, fsm_applied(k.f));
	fsm_close(k.f);
	open_with(FSM_SYNC_THREAD);
	ck_assert_uint_eq(fsm_applied(k.f), index);
	check_all();
}
END_TEST

/* Applying goes on until much waits, then asks to be left alone; reads go on; then all gets to where it belongs. */
START_TEST(a_stuck_disk_holds_up_nobody)
{
	unsigned set_meanwhile = 0, relieved;
	uint64_t index, term;

	for (unsigned i = 0; i < KEYS; i++)
		set(i);
	set_disk(true, 0);
	watch_applier(true);
	while (!fsm_held(k.f))
		set(set_meanwhile++ * 7 % KEYS);
	ck_assert_uint_gt(set_meanwhile, 300);
	check_all();
	for (unsigned i = 0; i < 100; i++)
		set(i);				/* what is not asked for works too */
	check_all();
	ck_assert_uint_eq(disk.ours, 0);
	relieved = disk.relieved;
	set_disk(false, 0);
	pthread_mutex_lock(&disk.lock);
	while (disk.relieved == relieved)
		pthread_cond_wait(&disk.changed, &disk.lock);
	pthread_mutex_unlock(&disk.lock);
	check_all();
	watch_applier(false);
	ck_assert_int_eq(fsm_checkpoint(k.f, &index, &term), TV_OK);
	fsm_close(k.f);
	open_with(FSM_SYNC_DIRECT);
	check_all();
}
END_TEST

/* With nobody to flush, memory has a bound: then a sync is waited for. */
START_TEST(what_waits_is_bounded)
{
	fsm_close(k.f);
	open_with(FSM_SYNC_BEHIND);
	watch_applier(true);
	for (unsigned i = 0; disk.ours == 0; i++) {
		ck_assert_uint_lt(i, 200000);
		set(i * 7 % KEYS);
	}
	check_all();
	watch_applier(false);
	ck_assert_int_eq(fsm_flush(k.f), TV_OK);
	ck_assert(!fsm_held(k.f));
	check_all();
}
END_TEST

/* Nothing is written after it, and the state is that of an earlier index at the next start (S84). */
START_TEST(a_failed_sync_is_final)
{
	uint64_t index, term, failed_at;

	for (unsigned i = 0; i < KEYS; i++)
		set(i);
	ck_assert_int_eq(fsm_checkpoint(k.f, &index, &term), TV_OK);
	set_disk(false, EIO);
	for (unsigned i = 0; fsm_trouble(k.f) == TV_OK; i++) {
		struct raft_entry e = { .index = fsm_applied(k.f) + 1, .term = 1, .type = RAFT_ENTRY_OP };
		struct kv_apply q = { .Verb = KV_SET, .Now = 1 };
		struct buf args = BUF_INIT(4096), payload = BUF_INIT(4096);
		char key[32];

		key_name(key, i % KEYS);
		q.Key = q.Value = span_str(key);
		schema_pack(&kv_apply_schema, &q, &args);
		fsm_entry_write(&payload, OP_KV_APPLY, buf_span(&args));
		e.payload = payload.data;
		e.size = (uint32_t)payload.len;
		if (fsm_apply(k.f, &e, 1, NULL, NULL) != TV_OK)
			ck_assert_int_ne(fsm_trouble(k.f), TV_OK);
		buf_done(&args);
		buf_done(&payload);
	}
	ck_assert_int_eq(fsm_trouble(k.f), TV_ESYS);
	failed_at = fsm_applied(k.f);
	ck_assert_int_ne(fsm_checkpoint(k.f, &index, &term), TV_OK);
	set_disk(false, 0);
	ck_assert_int_ne(fsm_checkpoint(k.f, &index, &term), TV_OK);	/* it is not tried again */
	fsm_close(k.f);
	open_with(FSM_SYNC_THREAD);
	ck_assert_uint_ge(fsm_applied(k.f), KEYS);
	ck_assert_uint_le(fsm_applied(k.f), failed_at);
}
END_TEST

static void
page(uint8_t bytes[STORE_PAGE_BYTES], uint32_t file, uint32_t offset, uint8_t fill)
{
	DB_LSN lsn = { file, offset };

	memset(bytes, fill, STORE_PAGE_BYTES);
	memcpy(bytes, &lsn, sizeof(lsn));
}

START_TEST(page_queue)
{
	uint8_t bytes[STORE_PAGE_BYTES];
	struct pageq q = { .count = 0 };
	struct queued_page *p;
	uint64_t first;

	for (unsigned i = 0; i < 1000; i++) {
		page(bytes, 1 + i / 500, i, (uint8_t)i);
		ck_assert(pageq_put(&q, (off_t)i * STORE_PAGE_BYTES, bytes));
	}
	ck_assert_uint_eq(q.count, 1000);
	ck_assert_ptr_null(pageq_find(&q, 1000 * STORE_PAGE_BYTES));
	p = pageq_find(&q, 300 * STORE_PAGE_BYTES);
	ck_assert_uint_eq(p->bytes[100], 300 % 256);
	first = p->version;
	page(bytes, 3, 7, 9);
	ck_assert(pageq_put(&q, 300 * STORE_PAGE_BYTES, bytes));
	ck_assert_uint_eq(q.count, 1000);
	p = pageq_find(&q, 300 * STORE_PAGE_BYTES);
	ck_assert(p->bytes[100] == 9 && p->version > first);
	for (unsigned n = 0; (p = pageq_before(&q, (DB_LSN){ 2, 600 })) != NULL; n++) {
		ck_assert(lsn_before(p->lsn, (DB_LSN){ 2, 600 }));
		ck_assert_uint_lt(n, 599);
		pageq_remove(&q, p);
	}
	ck_assert_uint_eq(q.count, 401);
	ck_assert_ptr_null(pageq_find(&q, 299 * STORE_PAGE_BYTES));
	ck_assert_ptr_nonnull(pageq_find(&q, 600 * STORE_PAGE_BYTES));
	pageq_clear(&q);
	ck_assert(q.count == 0 && q.oldest == NULL && q.newest == NULL);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("fsm_flush");
	TCase *t = tcase_create("flush");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, applying_never_syncs);
	tcase_add_test(t, a_stuck_disk_holds_up_nobody);
	tcase_add_test(t, what_waits_is_bounded);
	tcase_add_test(t, a_failed_sync_is_final);
	tcase_add_test(t, page_queue);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
