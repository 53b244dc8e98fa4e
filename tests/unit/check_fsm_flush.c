/*
 * Disk work of the state beside applying: who syncs, what waits, what is read meanwhile, what a failure leaves.
 *
 * The C library's fdatasync() is replaced by one that can be held up, or fail, and knows who calls it; fsync() by one that counts;
 * write(), pwrite() and fallocate() by those of a disk that may be full.
 */
#undef _FILE_OFFSET_BITS
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "raftd/store/bdb/store_pageq.h"
#include "tests/sim/fsm_batch.h"
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
	unsigned names;			/* syncs of folders by it */
	pthread_t applier;
	bool watched;			/* applier is set */
	unsigned relieved;
	int full;			/* errno of whatever needs room in files whose path has `where` in it; 0: there is room */
	const char *where;
	unsigned after;			/* so many of them are let through first */
	unsigned refused;		/* so often */
	bool partly;			/* of what is refused a part is written before */
	_Atomic time_t ahead;		/* seconds by which the wall clock is about to be put back */
} disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

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

/* Of names. */
int
fsync(int fd)
{
	pthread_mutex_lock(&disk.lock);
	disk.names += disk.watched && pthread_equal(pthread_self(), disk.applier);
	pthread_mutex_unlock(&disk.lock);
	return (int)syscall(SYS_fsync, fd);
}

/* -- a full disk -- */

/* errno is set then. */
static bool
is_refused(const char *path)
{
	bool refused;

	pthread_mutex_lock(&disk.lock);
	refused = disk.full != 0 && strstr(path, disk.where) != NULL;
	if (refused && disk.after > 0) {
		disk.after--;
		refused = false;
	}
	disk.refused += refused;
	if (refused)
		errno = disk.full;
	pthread_mutex_unlock(&disk.lock);
	return refused;
}

static bool
has_no_room(int fd)
{
	char link[40], path[512];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	return is_refused(path);
}

/* Making a file needs room as well: a block of the folder, an inode. */
#define OPEN(name_) \
int name_(const char *path, int flags, ...); \
int \
name_(const char *path, int flags, ...) \
{ \
	mode_t mode = 0; \
	va_list ap; \
\
	va_start(ap, flags); \
	if ((flags & O_CREAT) != 0) \
		mode = va_arg(ap, mode_t); \
	va_end(ap); \
	if ((flags & O_CREAT) != 0 && access(path, F_OK) != 0 && is_refused(path)) \
		return -1; \
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode); \
}
OPEN(open)
OPEN(open64)

int
mkdir(const char *path, mode_t mode)
{
	return access(path, F_OK) != 0 && is_refused(path) ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

ssize_t pwrite64(int fd, const void *p, size_t n, off64_t at);
ssize_t
pwrite64(int fd, const void *p, size_t n, off64_t at)
{
	if (has_no_room(fd)) {
		if (!disk.partly || n < 2)
			return -1;
		n /= 2;
	}
	return (ssize_t)syscall(SYS_pwrite64, fd, p, n, at);
}

ssize_t
pwrite(int fd, const void *p, size_t n, off_t at)
{
	return pwrite64(fd, p, n, at);
}

ssize_t
write(int fd, const void *p, size_t n)
{
	return has_no_room(fd) ? -1 : (ssize_t)syscall(SYS_write, fd, p, n);
}

int fallocate64(int fd, int mode, off64_t at, off64_t n);
int
fallocate64(int fd, int mode, off64_t at, off64_t n)
{
	return has_no_room(fd) ? -1 : (int)syscall(SYS_fallocate, fd, mode, at, n);
}

int
fallocate(int fd, int mode, off_t at, off_t n)
{
	return fallocate64(fd, mode, at, n);
}

int
clock_gettime(clockid_t clock, struct timespec *t)
{
	int ret = (int)syscall(SYS_clock_gettime, clock, t);

	if (ret == 0 && clock == CLOCK_REALTIME)
		t->tv_sec += disk.ahead;
	return ret;
}

static void
fill_disk_after(unsigned calls, int number, const char *where)
{
	pthread_mutex_lock(&disk.lock);
	disk.full = number;
	disk.where = where;
	disk.after = calls;
	disk.refused = 0;
	pthread_mutex_unlock(&disk.lock);
}

/* number 0: there is room again. */
static void
fill_disk(int number, const char *where)
{
	fill_disk_after(0, number, where);
}

static unsigned
refused_so_far(void)
{
	unsigned n;

	pthread_mutex_lock(&disk.lock);
	n = disk.refused;
	pthread_mutex_unlock(&disk.lock);
	return n;
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
	disk.ours = disk.names = 0;
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

static uint32_t log_file_bytes;

static void
open_with(enum fsm_sync sync)
{
	char errbuf[512], dir[80];
	struct fsm_options opt = { .dir = dir, .cache_bytes = 256u << 10, .datacenter = "dc1", .log_file_bytes = log_file_bytes,
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
	fill_disk(0, "");
	watch_applier(false);
	disk.relieved = 0;
	disk.ahead = 0;
	memset(version, 0, sizeof(version));
	log_file_bytes = 256u << 10;
	kit_open(&k);
	fsm_close(k.f);
	open_with(FSM_SYNC_THREAD);
}

static void
teardown(void)
{
	set_disk(false, 0);
	fill_disk(0, "");
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

/* Nobody is told of it at once. */
static void
set_until_trouble(void)
{
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
}

/* Nothing is written after it, and the state is that of an earlier index at the next start (S84). */
START_TEST(a_failed_sync_is_final)
{
	uint64_t index, term, failed_at;

	for (unsigned i = 0; i < KEYS; i++)
		set(i);
	ck_assert_int_eq(fsm_checkpoint(k.f, &index, &term), TV_OK);
	set_disk(false, EIO);
	set_until_trouble();
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

/* -- full -- */

/* Applies as raftd does, which does not begin what would have to wait, until that is the case. */
static unsigned
set_until_held(unsigned seed)
{
	unsigned n = 0;

	while (!fsm_held(k.f)) {
		arena_reset(&k.a);		/* where the flushing thread is slow, these are many */
		set((seed + n) * 7 % KEYS);
		n++;
	}
	return n;
}

static void
wait_for_room(void)
{
	while (fsm_no_room(k.f))
		sched_yield();			/* the thread tries it again by itself */
	while (fsm_held(k.f))
		sched_yield();
}

static void
check_again(enum fsm_sync sync)
{
	uint64_t index, term;

	ck_assert_int_eq(fsm_checkpoint(k.f, &index, &term), TV_OK);
	ck_assert_uint_eq(index, fsm_applied(k.f));
	fsm_close(k.f);
	open_with(sync);
	ck_assert_uint_eq(fsm_applied(k.f), index);
	check_all();
}

/* A checkpoint that finds no room is made another time: nothing has failed, all is read, and it goes on (S85). */
START_TEST(a_checkpoint_on_a_full_disk)
{
	static const int numbers[] = { ENOSPC, EDQUOT };
	uint64_t index, term;

	for (unsigned i = 0; i < KEYS; i++)
		set(i);
	for (unsigned round = 0; round < 2; round++) {
		fill_disk(numbers[round], round == 0 ? "state.db" : "/state/");
		for (unsigned i = 0; i < 200; i++)
			set((round * 200 + i) * 7 % KEYS);
		ck_assert_int_eq(fsm_checkpoint(k.f, &index, &term), TV_ENOSPACE);
		ck_assert_int_eq(fsm_trouble(k.f), TV_OK);
		ck_assert(fsm_no_room(k.f));
		check_all();			/* with a cache that is too small for all of it */
		(void)set_until_held(round);
		check_all();
		ck_assert_int_eq(fsm_checkpoint(k.f, &index, &term), TV_ENOSPACE);
		ck_assert_int_eq(fsm_trouble(k.f), TV_OK);
		ck_assert_uint_gt(refused_so_far(), 0);
		fill_disk(0, "");
		wait_for_room();
		check_all();
		check_again(FSM_SYNC_THREAD);
	}
}
END_TEST

/* So with the write-ahead log, in its file or at the end of it. */
START_TEST(a_full_disk_and_the_next_log_file)
{
	for (unsigned round = 0; round < 2; round++) {
		unsigned n;

		disk.partly = round == 1;
		fill_disk(ENOSPC, "/state/log.");
		n = set_until_held(round * 1000);
		ck_assert_uint_gt(n, 1000);	/* several files of it */
		ck_assert_uint_gt(refused_so_far(), 0);
		ck_assert_int_eq(fsm_trouble(k.f), TV_OK);
		ck_assert(fsm_no_room(k.f));
		check_all();
		ck_assert_int_eq(fsm_flush(k.f), TV_ENOSPACE);
		fill_disk(0, "");
		wait_for_room();
		check_all();
		if (round == 0)
			check_again(FSM_SYNC_THREAD);
	}
	check_again(FSM_SYNC_DIRECT);
}
END_TEST

/* All keys, as operations of a group that fails. */
static void
set_and_undo(void)
{
	struct buf args = BUF_INIT(4096), payload = BUF_INIT(4096);
	char key[32], value[256];
	struct fsm_group g;

	ck_assert_int_eq(batch_begin(k.f), 0);
	fsm_group_begin(k.f, &g);
	for (unsigned i = 0; i < KEYS; i++) {
		struct kv_apply q = { .Verb = KV_SET, .Key = span_str(key), .Value = span_str(value) };

		key_name(key, i);
		snprintf(value, sizeof(value), "undone %0200u", i);
		buf_reset(&args);
		buf_reset(&payload);
		schema_pack(&kv_apply_schema, &q, &args);
		fsm_entry_write(&payload, OP_KV_APPLY, buf_span(&args));
		arena_reset(&k.f->work);
		ck_assert(batch_op(k.f, buf_span(&payload), &k.a));
	}
	fsm_group_fail(k.f, &g);
	ck_assert_int_eq(batch_end(k.f), TV_OK);
	buf_done(&args);
	buf_done(&payload);
}

/* What a group did is in files of the write-ahead log that found no room, or are not even there: it is undone all the same. */
START_TEST(a_group_is_undone_on_a_full_disk)
{
	char dir[80];

	fsm_close(k.f);
	snprintf(dir, sizeof(dir), "%s/state", k.dir);
	kit_remove_dir(dir);			/* the first file keeps the size that it was made with */
	open_with(FSM_SYNC_THREAD);
	for (unsigned i = 0; i < KEYS; i += 3)
		set(i);
	for (unsigned round = 0; round < 4; round++) {
		disk.partly = round % 2 == 1;
		fill_disk(ENOSPC, "/state/log.");
		set_and_undo();
		ck_assert_uint_gt(refused_so_far(), 0);
		ck_assert_int_eq(fsm_trouble(k.f), TV_OK);
		check_all();
		ck_assert_int_eq(fsm_flush(k.f), TV_ENOSPACE);
		if (round < 2)
			set_and_undo();		/* all of it waits */
		fill_disk(0, "");
		wait_for_room();
		check_all();
		if (round % 2 == 0)
			check_again(FSM_SYNC_THREAD);
	}
	check_again(FSM_SYNC_DIRECT);
}
END_TEST

/* A part was written, and the file may not become larger (RLIMIT_FSIZE): that is no full disk, nothing would ever change. */
START_TEST(a_limit_is_no_full_disk)
{
	disk.partly = true;
	fill_disk(EFBIG, "/state/log.");
	set_until_trouble();
	ck_assert_int_eq(fsm_trouble(k.f), TV_ESYS);
	ck_assert(!fsm_no_room(k.f));
	fill_disk(0, "");
}
END_TEST

/* The wall clock is put back by an hour: it is tried again each second all the same. */
START_TEST(a_full_disk_and_another_time)
{
	disk.ahead = 3600;
	fill_disk(ENOSPC, "/state/");
	(void)set_until_held(0);
	ck_assert_uint_gt(refused_so_far(), 0);
	fill_disk(0, "");
	wait_for_room();
	check_again(FSM_SYNC_THREAD);
}
END_TEST

/* It is another thread that finds no room (a checkpoint's), while the one that would try again has nothing to do. */
START_TEST(a_full_disk_found_by_another)
{
	unsigned found = 0;

	for (unsigned i = 0; i < KEYS; i++)
		set(i);
	for (unsigned round = 1; found < 10; round++) {
		ck_assert_uint_lt(round, 200);
		for (unsigned i = 0; i < round; i++)	/* so that a few pages leave the cache, and wait */
			set((round * 31 + i * 7) % KEYS);
		fill_disk(ENOSPC, "state.db");
		found += fsm_flush(k.f) == TV_ENOSPACE;
		fill_disk(0, "");
		wait_for_room();
	}
	check_again(FSM_SYNC_THREAD);
}
END_TEST

/* What was not on the disk when the process ended is nothing that was promised. */
START_TEST(an_end_on_a_full_disk)
{
	uint64_t index, term, applied;

	for (unsigned i = 0; i < KEYS; i++)
		set(i);
	ck_assert_int_eq(fsm_checkpoint(k.f, &index, &term), TV_OK);
	fill_disk(ENOSPC, "/state/");
	(void)set_until_held(0);
	applied = fsm_applied(k.f);
	fsm_close(k.f);
	fill_disk(0, "");
	open_with(FSM_SYNC_THREAD);
	ck_assert_uint_ge(fsm_applied(k.f), index);
	ck_assert_uint_le(fsm_applied(k.f), applied);
}
END_TEST

/* While a snapshot is open old values go to a table beside the state, which is larger than the cache. */
static struct fsm_snapshot *
save_much(void)
{
	struct fsm_snapshot *s;
	uint64_t index, term;

	for (unsigned i = 0; i < KEYS; i++)
		set(i);
	ck_assert_int_eq(fsm_flush(k.f), TV_OK);
	ck_assert_int_eq(fsm_snapshot_begin(k.f, &s, &index, &term), TV_OK);
	return s;
}

static enum tv_err
write_snapshot(struct fsm_snapshot *s)
{
	char path[100];
	uint64_t bytes, sum;
	enum tv_err err;

	snprintf(path, sizeof(path), "%s/snapshot", k.dir);
	err = fsm_snapshot_write(s, path, &bytes, &sum);
	ck_assert_int_eq(access(path, F_OK) == 0, err == TV_OK);
	unlink(path);
	return err;
}

/* The table beside the state gets a file when it no longer fits into the cache: nobody syncs that, nor its name. */
START_TEST(a_snapshot_never_syncs_while_applying)
{
	struct fsm_snapshot *s;

	fsm_close(k.f);
	log_file_bytes = 16u << 20;		/* so that one is enough: the second of two is made durable at once */
	open_with(FSM_SYNC_THREAD);
	s = save_much();
	watch_applier(true);
	for (unsigned i = 0; i < KEYS; i++) {
		while (fsm_held(k.f))
			sched_yield();
		set(i);
	}
	check_all();
	ck_assert_uint_eq(disk.ours + disk.names, 0);
	watch_applier(false);
	ck_assert_int_eq(write_snapshot(s), TV_OK);
	fsm_snapshot_end(s);
	check_again(FSM_SYNC_THREAD);
}
END_TEST

/* A process of the same id was killed between the making of such a file and its removal. */
static void
leave_temporary(void)
{
	char path[100];
	int fd;

	snprintf(path, sizeof(path), "%s/state/BDB%05u", k.dir, (unsigned)getpid() % 100000);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	close(fd);
}

/* If there is no room for that file the snapshot fails, and nothing else does, whatever its name is. */
START_TEST(a_snapshot_on_a_full_disk)
{
	for (unsigned round = 0; round < 2; round++) {
		struct fsm_snapshot *s = save_much();

		if (round == 1)
			leave_temporary();
		fill_disk(ENOSPC, "/BDB");
		for (unsigned i = 0; i < KEYS; i++)
			set(i);
		ck_assert_uint_gt(refused_so_far(), 0);
		check_all();
		ck_assert_int_eq(write_snapshot(s), TV_ENOSPACE);
		fsm_snapshot_end(s);
		fill_disk(0, "");
		check_all();
		s = save_much();
		for (unsigned i = 0; i < KEYS; i++)
			set(i);
		ck_assert_int_eq(write_snapshot(s), TV_OK);
		fsm_snapshot_end(s);
		check_again(FSM_SYNC_THREAD);
	}
}
END_TEST

/* -- full from each call on -- */

/* All that raftd has the state do; what finds no room says so, and whoever applies goes on. */
static void
do_everything(unsigned seed)
{
	struct fsm_snapshot *s;
	uint64_t index, term;
	enum tv_err err;

	arena_reset(&k.a);
	for (unsigned i = 0; i < 300; i++)
		set((seed + i) * 7 % KEYS);
	err = fsm_checkpoint(k.f, &index, &term);
	ck_assert(err == TV_OK || err == TV_ENOSPACE);
	ck_assert_int_eq(fsm_snapshot_begin(k.f, &s, &index, &term), TV_OK);
	for (unsigned i = 0; i < 1200; i++)
		set((seed + i) * 7 % KEYS);
	err = write_snapshot(s);
	ck_assert(err == TV_OK || err == TV_ENOSPACE);
	fsm_snapshot_end(s);
	err = fsm_checkpoint(k.f, &index, &term);
	ck_assert(err == TV_OK || err == TV_ENOSPACE);
	ck_assert_int_eq(fsm_trouble(k.f), TV_OK);
}

/* Wherever it begins, nothing has failed, and all is there afterwards, also for who opens it anew (S85). */
START_TEST(a_full_disk_from_each_call_on)
{
	unsigned refused = 1, round = 0;

	for (unsigned i = 0; i < KEYS; i++)
		set(i);
	for (unsigned after = 0; refused > 0; after += ++round) {
		fill_disk_after(after, round % 2 == 0 ? ENOSPC : EDQUOT, "/state/");
		do_everything(after * 101);
		refused = refused_so_far();
		fill_disk(0, "");
		ck_assert_int_eq(fsm_flush(k.f), TV_OK);
		ck_assert(!fsm_no_room(k.f) && !fsm_held(k.f));
		if (round % 4 == 0)
			check_again(round % 8 == 0 ? FSM_SYNC_BEHIND : FSM_SYNC_THREAD);
	}
	check_again(FSM_SYNC_DIRECT);
}
END_TEST

static void
save(const char *path)
{
	struct fsm_snapshot *s;
	uint64_t bytes, sum, index, term;

	ck_assert_int_eq(fsm_snapshot_begin(k.f, &s, &index, &term), TV_OK);
	ck_assert_int_eq(fsm_snapshot_write(s, path, &bytes, &sum), TV_OK);
	fsm_snapshot_end(s);
}

/* A snapshot that is installed: the present state goes on, and nothing of the new one takes space, or the new one is there. */
START_TEST(an_installation_on_a_full_disk_from_each_call_on)
{
	enum tv_err err = TV_ENOSPACE;
	char path[100], fresh[100], errbuf[512];
	uint64_t index, term, at;

	for (unsigned i = 0; i < 300; i++)
		set(i);
	at = fsm_applied(k.f);
	snprintf(path, sizeof(path), "%s/snapshot", k.dir);
	snprintf(fresh, sizeof(fresh), "%s/state.new", k.dir);
	save(path);
	for (unsigned after = 0; err != TV_OK; after++) {
		set(300);
		fill_disk_after(after, after % 2 == 0 ? ENOSPC : EDQUOT, "/state");
		err = fsm_restore(k.f, path, &index, &term, errbuf, sizeof(errbuf));
		ck_assert_msg(err == TV_OK || err == TV_ENOSPACE, "%u: %d, %s", after, err, errbuf);
		ck_assert_int_eq(fsm_trouble(k.f), TV_OK);
		ck_assert(err == TV_OK || refused_so_far() > 0);
		ck_assert_msg(access(fresh, F_OK) != 0, "%u: %s is left, %s", after, fresh, errbuf);
		fill_disk(0, "");
		arena_reset(&k.a);
		if (err == TV_OK)
			version[300] = 0;
		check_all();
		if (after % 8 == 7)
			check_again(FSM_SYNC_THREAD);
	}
	ck_assert_uint_eq(fsm_applied(k.f), at);
	set(301);
	check_again(FSM_SYNC_DIRECT);
}
END_TEST

/* Opening it, when there is one and when there is none: that waits for room, and nothing is taken for damaged. */
START_TEST(a_start_on_a_full_disk_from_each_call_on)
{
	for (unsigned round = 0; round < 2; round++) {
		enum tv_err err = TV_ENOSPACE;

		for (unsigned after = 0; err != TV_OK; after++) {
			char errbuf[512], dir[80];
			struct fsm_options opt = { .dir = dir, .cache_bytes = 256u << 10, .log_file_bytes = log_file_bytes,
			    .log_buffer_bytes = 32u << 10, .sync = FSM_SYNC_THREAD };

			fsm_close(k.f);
			k.f = NULL;
			snprintf(dir, sizeof(dir), "%s/state%s", k.dir, round == 0 ? "" : "2");
			fill_disk_after(after, after % 2 == 0 ? ENOSPC : EDQUOT, "/state");
			err = fsm_open(&opt, &k.f, errbuf, sizeof(errbuf));
			ck_assert_msg(err == TV_OK || err == TV_ENOSPACE, "%u: %d, %s", after, err, errbuf);
			ck_assert(err == TV_OK || refused_so_far() > 0);
			fill_disk(0, "");
			if (round == 0) {
				if (err != TV_OK)
					open_with(FSM_SYNC_THREAD);
				check_all();
				for (unsigned i = 0; i < 1000; i++)
					set((after * 31 + i) % KEYS);
			}
		}
	}
}
END_TEST

/* A failed sync is what it is, whatever number the system gives it. */
START_TEST(no_room_in_a_sync_is_final)
{
	uint64_t index, term;

	for (unsigned i = 0; i < KEYS; i++)
		set(i);
	set_disk(false, ENOSPC);
	ck_assert_int_eq(fsm_checkpoint(k.f, &index, &term), TV_ESYS);
	ck_assert_int_eq(fsm_trouble(k.f), TV_ESYS);
	set_disk(false, 0);
	ck_assert_int_ne(fsm_checkpoint(k.f, &index, &term), TV_OK);
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
	tcase_add_test(t, a_checkpoint_on_a_full_disk);
	tcase_add_test(t, a_full_disk_and_the_next_log_file);
	tcase_add_test(t, a_group_is_undone_on_a_full_disk);
	tcase_add_test(t, a_limit_is_no_full_disk);
	tcase_add_test(t, a_full_disk_and_another_time);
	tcase_add_test(t, a_full_disk_found_by_another);
	tcase_add_test(t, an_end_on_a_full_disk);
	tcase_add_test(t, a_snapshot_never_syncs_while_applying);
	tcase_add_test(t, a_snapshot_on_a_full_disk);
	tcase_add_test(t, a_full_disk_from_each_call_on);
	tcase_add_test(t, an_installation_on_a_full_disk_from_each_call_on);
	tcase_add_test(t, a_start_on_a_full_disk_from_each_call_on);
	tcase_add_test(t, no_room_in_a_sync_is_final);
	tcase_add_test(t, page_queue);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
