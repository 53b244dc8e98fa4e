/* Blocks of a snapshot file on their way to followers: read by a thread, one ahead, checked, several at different places. */
#include <check.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "raftd/snapshot/snapshot_file.h"
#include "tests/unit/scratch.h"

#define BLOCK 1000
#define BYTES 10400

static struct ev_loop *loop;
static struct jobs *jobs;
static struct snapshot_file *file;
static uint8_t whole[BYTES];
static unsigned told;
static int fd;

static void
on_read(void *ctx)
{
	(void)ctx;
	told++;
}

static void
setup(void)
{
	struct blocksums sums;
	uint64_t sum;

	scratch_open();
	ck_assert_int_ge(sodium_init(), 0);
	for (size_t i = 0; i < BYTES - 32; i++)
		whole[i] = (uint8_t)(i * 7 + i / 256);
	crypto_generichash(whole + BYTES - 32, 32, whole, BYTES - 32, NULL, 0);
	fd = open(scratch_path("file"), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pwrite(fd, whole, BYTES, 0), BYTES);
	ck_assert_int_eq(blocksums_make(&sums, fd, BYTES, BLOCK, &sum), TV_OK);
	loop = ev_loop_new(0);
	jobs = jobs_new(loop, "jobs");
	told = 0;
	file = snapshot_file_new(jobs, fd, scratch_path("file"), &sums, on_read, NULL);
	ck_assert_ptr_nonnull(file);
}

static void
teardown(void)
{
	snapshot_file_free(file);
	jobs_stop(jobs);
	jobs_free(jobs);
	ev_loop_destroy(loop);
	ck_assert_int_eq(access(scratch_path("file"), F_OK), -1);
	scratch_close();
}

/* As the links do. */
static enum tv_err
get(uint64_t offset, size_t *n)
{
	const uint8_t *p;
	enum tv_err err;

	while ((err = snapshot_file_read(file, offset, &p, n)) == TV_EAGAIN) {
		unsigned before = told;

		while (told == before)
			ev_run(loop, EVRUN_ONCE);
	}
	if (err == TV_OK)
		ck_assert_int_eq(memcmp(p, whole + offset, *n), 0);
	return err;
}

START_TEST(all_of_it)
{
	uint64_t at = 0;
	size_t n;

	while (at < BYTES) {
		ck_assert_int_eq(get(at, &n), TV_OK);
		ck_assert_uint_eq(n, BYTES - at < BLOCK ? BYTES - at : BLOCK);
		at += n;
	}
	ck_assert_int_eq(get(BYTES, &n), TV_EINVAL);
	ck_assert_int_eq(get(2345, &n), TV_OK);		/* to the end of its block */
	ck_assert_uint_eq(n, 655);
}
END_TEST

/* More places than blocks are kept: none starves. */
START_TEST(several_followers)
{
	uint64_t at[7] = { 0, 5000, 1000, 9000, 3000, 7000, 2000 };
	size_t n;

	for (unsigned round = 0; round < 20; round++)
		for (unsigned i = 0; i < 7; i++) {
			ck_assert_int_eq(get(at[i], &n), TV_OK);
			at[i] = at[i] + n < BYTES ? at[i] + n : 0;
		}
}
END_TEST

START_TEST(damaged)
{
	size_t n;

	ck_assert_int_eq(pwrite(fd, "?", 1, 4321), 1);
	ck_assert_int_eq(get(3000, &n), TV_OK);
	ck_assert_int_eq(get(4000, &n), TV_ECORRUPT);
	ck_assert_int_eq(get(5000, &n), TV_OK);
	ck_assert_int_eq(pwrite(fd, whole + 4321, 1, 4321), 1);
	ck_assert_int_eq(get(4000, &n), TV_OK);
	ck_assert_int_eq(ftruncate(fd, 100), 0);
	ck_assert_int_eq(get(9000, &n), TV_ESYS);
}
END_TEST

/* The end comes while something is being read. */
START_TEST(dropped)
{
	const uint8_t *p;
	size_t n;

	ck_assert_int_eq(snapshot_file_read(file, 0, &p, &n), TV_EAGAIN);
	ck_assert_int_eq(snapshot_file_read(file, 6000, &p, &n), TV_EAGAIN);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("snapshot_file");
	TCase *t = tcase_create("all");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, all_of_it);
	tcase_add_test(t, several_followers);
	tcase_add_test(t, damaged);
	tcase_add_test(t, dropped);
	suite_add_tcase(s, t);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
