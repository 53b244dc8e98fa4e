/* Entries for followers that are behind, against a log in memory: what is asked for comes, in order, read ahead within bounds. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "raftd/engine/log_reader.h"

#define READ_BYTES 1000
#define SIZE 100		/* of a payload */

struct log_store {		/* stands in for the real one */
	pthread_mutex_t lock;
	pthread_cond_t moved;
	bool held;		/* reads wait */
	_Atomic uint64_t first, last, bad;
	_Atomic unsigned reads;
};

static struct log_store store = { .lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER };
static struct ev_loop *loop;
static struct log_reader *reader;
static unsigned told;

static enum tv_err
read_locked(struct log_store *s, uint64_t first, uint64_t last, size_t bytes_max, struct arena *a,
    struct raft_entry **out, uint32_t *count)
{
	if (first < s->first || last > s->last || first > last)
		return TV_ENOENT;
	*out = arena_array(a, (size_t)(last - first + 1), sizeof(**out));
	for (*count = 0; first + *count <= last && (*count == 0 || (*count + 1) * SIZE <= bytes_max); (*count)++) {
		uint64_t index = first + *count;

		if (index == s->bad) {
			errno = EIO;
			return TV_ESYS;
		}
		(*out)[*count] = (struct raft_entry){ .index = index, .term = 1 + index / 7, .size = SIZE,
		    .payload = arena_copy(a, span_of((uint8_t[SIZE]){ (uint8_t)index }, SIZE)).p };
	}
	return TV_OK;
}

enum tv_err
log_read(struct log_store *s, uint64_t first, uint64_t last, size_t bytes_max, struct arena *a,
    struct raft_entry **out, uint32_t *count)
{
	enum tv_err err;

	*count = 0;
	pthread_mutex_lock(&s->lock);
	s->reads++;
	while (s->held)
		pthread_cond_wait(&s->moved, &s->lock);
	err = read_locked(s, first, last, bytes_max, a, out, count);
	pthread_mutex_unlock(&s->lock);
	return err;
}

static void
on_read(void *ctx)
{
	(void)ctx;
	told++;
}

static void
setup(void)
{
	store.held = false;
	store.first = 1;
	store.last = 100000;
	store.bad = 0;
	store.reads = told = 0;
	loop = ev_loop_new(0);
	reader = log_reader_new(loop, &store, READ_BYTES, on_read, NULL);
	ck_assert_ptr_nonnull(reader);
}

static void
teardown(void)
{
	log_reader_free(reader);
	ev_loop_destroy(loop);
}

static void
hold(bool on)
{
	pthread_mutex_lock(&store.lock);
	store.held = on;
	pthread_cond_broadcast(&store.moved);
	pthread_mutex_unlock(&store.lock);
}

static void
until_read(void)
{
	unsigned before = told;

	while (told == before)
		ev_run(loop, EVRUN_ONCE);
}

/* As the links do: asks again whenever something came. */
static enum tv_err
get(struct log_window *w, uint64_t first, uint32_t count, uint64_t last, uint32_t *got, uint64_t *bad)
{
	struct raft_entry out[64];
	enum tv_err err;

	while ((err = log_window_get(w, first, count, last, out, got, bad)) == TV_EAGAIN)
		until_read();
	for (uint32_t i = 0; err == TV_OK && i < *got; i++) {
		ck_assert_uint_eq(out[i].index, first + i);
		ck_assert_uint_eq(out[i].term, 1 + (first + i) / 7);
		ck_assert_uint_eq(out[i].payload[0], (uint8_t)(first + i));
	}
	return err;
}

START_TEST(in_order_and_ahead)
{
	struct log_window *w = log_window_new(reader);
	uint64_t next = 5000, bad;
	unsigned waited = 0;
	uint32_t got;

	while (next <= 60000) {
		struct raft_entry out[64];

		if (log_window_get(w, next, 50, 60000, out, &got, &bad) == TV_EAGAIN) {
			waited++;
			until_read();
			continue;
		}
		ck_assert_int_eq(get(w, next, 50, 60000, &got, &bad), TV_OK);
		ck_assert_uint_gt(got, 0);
		next += got;
	}
	ck_assert_uint_eq(next, 60001);
	ck_assert_uint_gt(waited, 0);
	ck_assert_int_eq(get(w, 60001, 50, 60000, &got, &bad), TV_ENOENT);
	log_window_free(w);
}
END_TEST

START_TEST(no_more_than_the_window)
{
	struct log_window *w = log_window_new(reader);
	unsigned most = LOG_READER_BYTES / READ_BYTES + 2;
	uint64_t bad;
	uint32_t got;

	ck_assert_int_eq(get(w, 1, 10, store.last, &got, &bad), TV_OK);
	ck_assert_uint_eq(got, 10);
	for (unsigned i = 0; i < 2 * most; i++)
		ev_run(loop, EVRUN_NOWAIT);
	while (told < most - 3)
		ev_run(loop, EVRUN_ONCE);
	pthread_mutex_lock(&store.lock);
	ck_assert_uint_le(store.reads, most);
	pthread_mutex_unlock(&store.lock);
	log_window_free(w);
}
END_TEST

/* Whoever is further back, or further on, than what was read begins anew; what comes for before that is dropped. */
START_TEST(jumps)
{
	struct log_window *w = log_window_new(reader);
	static const uint64_t places[] = { 100, 5000, 99, 101, 4000, 4001, 1, 100000 };
	uint64_t bad;
	uint32_t got;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct raft_entry out[8];

		(void)log_window_get(w, places[i] / 2 + 1, 8, store.last, out, &got, &bad);
		ck_assert_int_eq(get(w, places[i], 8, store.last, &got, &bad), TV_OK);
		ck_assert_uint_eq(got, places[i] == store.last ? 1 : 8);
	}
	log_window_free(w);
}
END_TEST

START_TEST(a_held_read_is_dropped)
{
	struct log_window *w = log_window_new(reader), *other = log_window_new(reader);
	struct raft_entry out[8];
	uint64_t bad;
	uint32_t got;

	hold(true);
	ck_assert_int_eq(log_window_get(w, 10, 8, store.last, out, &got, &bad), TV_EAGAIN);
	ck_assert_int_eq(log_window_get(other, 20, 8, store.last, out, &got, &bad), TV_EAGAIN);
	log_window_free(w);
	log_window_clear(other);
	ck_assert_int_eq(log_window_get(other, 30, 8, store.last, out, &got, &bad), TV_EAGAIN);
	hold(false);
	ck_assert_int_eq(get(other, 30, 8, store.last, &got, &bad), TV_OK);
	log_window_free(other);
}
END_TEST

START_TEST(gone_and_damaged)
{
	struct log_window *w = log_window_new(reader);
	uint64_t bad = 0;
	uint32_t got;

	store.first = 50;
	ck_assert_int_eq(get(w, 40, 8, store.last, &got, &bad), TV_ENOENT);
	ck_assert_int_eq(get(w, 50, 8, store.last, &got, &bad), TV_OK);
	log_window_clear(w);
	store.bad = 63;
	ck_assert_int_eq(get(w, 60, 8, store.last, &got, &bad), TV_ESYS);
	ck_assert_int_eq(errno, EIO);
	ck_assert_uint_eq(bad, 63);
	store.bad = 0;
	ck_assert_int_eq(get(w, 60, 8, store.last, &got, &bad), TV_OK);
	ck_assert_uint_eq(got, 8);
	log_window_free(w);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("log_reader");
	TCase *t = tcase_create("all");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, in_order_and_ahead);
	tcase_add_test(t, no_more_than_the_window);
	tcase_add_test(t, jumps);
	tcase_add_test(t, a_held_read_is_dropped);
	tcase_add_test(t, gone_and_damaged);
	suite_add_tcase(s, t);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
