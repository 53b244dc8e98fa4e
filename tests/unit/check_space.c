/* Amounts of disk space, and the ballast. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "raftd/disk/reserve.h"
#include "raftd/disk/space.h"
#include "raftd/disk/threshold.h"
#include "raftd/fsm/fsm.h"
#include "raftd/store/bdb/store_env.h"

#define MB (1u << 20)

/* -- the system around it -- */

static _Atomic uint64_t available;	/* as statvfs(3) says */
static _Atomic unsigned looks;
static bool no_room;			/* for a write of the state */
static _Atomic time_t ahead;			/* of the clock, in seconds */
static unsigned changes;

int
statvfs(const char *path, struct statvfs *v)
{
	(void)path;
	*v = (struct statvfs){ .f_frsize = 1, .f_bavail = available };
	looks++;
	return 0;
}

int
clock_gettime(clockid_t clock, struct timespec *t)
{
	int ret = (int)syscall(SYS_clock_gettime, clock, t);

	t->tv_sec += ahead;
	return ret;
}

bool
fsm_no_room(const struct fsm *f)
{
	(void)f;
	return no_room;
}

uint64_t
store_dir_holes(const char *dir)
{
	(void)dir;
	return 0;
}

START_TEST(short_and_not)
{
	ck_assert(!threshold_short(64 * MB, 64 * MB, 0, false));
	ck_assert(threshold_short(64 * MB - 1, 64 * MB, 0, false));
	/* Back only with an eighth more. */
	ck_assert(threshold_short(72 * MB - 1, 64 * MB, 0, true));
	ck_assert(!threshold_short(72 * MB, 64 * MB, 0, true));
	/* What is wanted beside comes on top. */
	ck_assert(threshold_short(80 * MB, 64 * MB, 17 * MB, false));
	ck_assert(!threshold_short(81 * MB, 64 * MB, 17 * MB, false));
}
END_TEST

START_TEST(said)
{
	char text[24];

	ck_assert_str_eq(threshold_bytes(0, text), "0.0 kB");
	ck_assert_str_eq(threshold_bytes(1536, text), "1.5 kB");
	ck_assert_str_eq(threshold_bytes(64 * MB, text), "64.0 MB");
	ck_assert_str_eq(threshold_bytes((uint64_t)3 << 40, text), "3.0 TB");
	ck_assert_str_eq(threshold_bytes(UINT64_MAX, text), "16.0 EB");
}
END_TEST

static uint64_t
blocks_of(const char *dir)
{
	char path[300];
	struct stat st;

	snprintf(path, sizeof(path), "%s/ballast", dir);
	return stat(path, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

START_TEST(ballast)
{
	char dir[] = "/tmp/check_space.XXXXXX", path[300];
	struct reserve b;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	reserve_open(&b, dir);
	ck_assert_int_ge(b.fd, 0);
	ck_assert_uint_eq(reserve_give(&b, MB), 0);
	reserve_take(&b, 4 * MB);
	if (b.bytes != 0) {			/* else it cannot be had here */
		ck_assert_uint_eq(b.bytes, 4 * MB);
		ck_assert_uint_ge(blocks_of(dir), 4 * MB);
		ck_assert_uint_eq(reserve_give(&b, MB), MB);
		ck_assert_uint_lt(blocks_of(dir), 4 * MB);
		reserve_close(&b);
		reserve_open(&b, dir);	/* as a start finds it */
		ck_assert_uint_eq(b.bytes, 3 * MB);
		ck_assert_uint_eq(reserve_give(&b, 10 * MB), 3 * MB);
		ck_assert_uint_eq(blocks_of(dir), 0);
		/* A hole is no ballast. */
		ck_assert_int_eq(ftruncate(b.fd, 8 * MB), 0);
		reserve_close(&b);
		reserve_open(&b, dir);
		ck_assert_uint_eq(b.bytes, 0);
		reserve_take(&b, 2 * MB);
		ck_assert_uint_eq(b.bytes, 2 * MB);
	}
	reserve_close(&b);
	snprintf(path, sizeof(path), "%s/ballast", dir);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

static void
changed(struct raftd *d, bool full)
{
	(void)d;
	(void)full;
	changes++;
}

/* One may be under way, the next one sees what is now, and has told when the third begins. */
static void
look_again(struct ev_loop *loop)
{
	unsigned until = looks + 3;

	while (looks < until)
		ev_run(loop, EVRUN_ONCE);
}

/* Each way to become full, and what ends it. */
START_TEST(full_and_what_ends_it)
{
	char dir[] = "/tmp/check_space.XXXXXX", path[300];
	struct raftd d = { .loop = ev_loop_new(0), .conf.disk_reserve = 8 * MB };
	struct space *s;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	d.cluster.data_dir = dir;
	snprintf(path, sizeof(path), "%s/raftd", dir);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	available = 64 * MB;
	s = space_new(&d);
	space_start(s, changed);
	/* Too little is free. */
	available = 7 * MB;
	look_again(d.loop);
	ck_assert(space_full(s));
	available = 9 * MB - 1;
	look_again(d.loop);
	ck_assert(space_full(s));
	available = 9 * MB;
	look_again(d.loop);
	ck_assert(!space_full(s));
	/* A write of the state finds no room. */
	available = 64 * MB;
	d.fsm = (struct fsm *)dir;
	no_room = true;
	look_again(d.loop);
	ck_assert(space_full(s));
	no_room = false;
	look_again(d.loop);
	ck_assert(!space_full(s));
	/* A snapshot does not fit, and then it would. */
	ck_assert(!space_fits(s, 60 * MB));
	space_want(s, 60 * MB);
	look_again(d.loop);
	ck_assert(space_full(s));
	available = 70 * MB;
	look_again(d.loop);
	ck_assert(!space_full(s));
	/* It never does, but the next one may. */
	space_want(s, 100 * MB);
	ahead += 50;
	look_again(d.loop);
	ck_assert(space_full(s));
	ahead += 10;
	look_again(d.loop);
	ck_assert(!space_full(s) && space_fits(s, 60 * MB));
	/* So much is on its way that nobody knows, until a look has told. */
	available = 24 * MB;
	look_again(d.loop);
	ck_assert(!space_full(s));
	space_written(s, 16 * MB);
	ck_assert(space_full(s));
	look_again(d.loop);
	ck_assert(!space_full(s));
	ck_assert_uint_eq(changes, 10);
	space_free(s);
	ev_loop_destroy(d.loop);
	snprintf(path, sizeof(path), "%s/raftd/ballast", dir);
	ck_assert_int_eq(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/raftd", dir);
	ck_assert(rmdir(path) == 0 && rmdir(dir) == 0);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("space");
	TCase *tc = tcase_create("all");
	SRunner *sr;
	int failed;

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, short_and_not);
	tcase_add_test(tc, said);
	tcase_add_test(tc, ballast);
	tcase_add_test(tc, full_and_what_ends_it);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
