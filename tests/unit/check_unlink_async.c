/* A file goes: its name at once, and whoever asked for that does not wait for its blocks. */
#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "raftd/disk/unlink_async.h"

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool slow;			/* closing takes until that ends */
	unsigned closed;
} disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

int
close(int fd)
{
	int ret;

	pthread_mutex_lock(&disk.lock);
	while (disk.slow)
		pthread_cond_wait(&disk.changed, &disk.lock);
	ret = (int)syscall(SYS_close, fd);
	disk.closed++;
	pthread_cond_broadcast(&disk.changed);
	pthread_mutex_unlock(&disk.lock);
	return ret;
}

static void
set_slow(bool slow)
{
	pthread_mutex_lock(&disk.lock);
	disk.slow = slow;
	disk.closed = 0;
	pthread_cond_broadcast(&disk.changed);
	pthread_mutex_unlock(&disk.lock);
}

static void
wait_closed(void)
{
	pthread_mutex_lock(&disk.lock);
	disk.slow = false;
	pthread_cond_broadcast(&disk.changed);
	while (disk.closed == 0)
		pthread_cond_wait(&disk.changed, &disk.lock);
	ck_assert_uint_eq(disk.closed, 1);
	pthread_mutex_unlock(&disk.lock);
}

START_TEST(nobody_waits)
{
	for (int given = 0; given < 2; given++) {
		char path[] = "/tmp/tv-discard-XXXXXX";
		int fd = mkstemp(path);

		ck_assert_int_ge(fd, 0);
		if (!given)
			(void)close(fd);
		set_slow(true);
		unlink_async(given ? fd : -1, path);
		ck_assert_int_ne(access(path, F_OK), 0);
		wait_closed();
		if (given)
			ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
	}
}
END_TEST

/* There is none of that name: only the descriptor goes. */
START_TEST(what_is_not_there)
{
	char path[] = "/tmp/tv-discard-XXXXXX";
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(unlink(path), 0);
	set_slow(true);
	unlink_async(fd, path);
	wait_closed();
	set_slow(false);
	unlink_async(-1, path);
	ck_assert_uint_eq(disk.closed, 0);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("discard");
	TCase *t = tcase_create("discard");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_test(t, nobody_waits);
	tcase_add_test(t, what_is_not_there);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
