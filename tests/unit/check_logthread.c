/*
 * The log thread against a log in memory: whatever is merged, the log ends up as if every batch had been written
 * by itself; completions come in order, and never after a failure.
 */
#include <errno.h>
#include <check.h>
#include <ev.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "raftd/engine/logthread.h"

#define LOG_MAX 4096

/* The log, and the reference that sees every call at once. */
struct model {
	uint64_t terms[LOG_MAX];	/* by index, 0: none */
	uint64_t last, term;
	raft_id vote;
};

struct log_store {			/* stands in for the real one */
	struct model m;
	unsigned writes, jobs;
	unsigned fail_at;		/* this write fails; 0: none */
	uint64_t generation, generation_at;	/* written last, and the last entry written with it */
	char cluster[37];
	sem_t *begun, *go_on;		/* a compaction tells that it runs, and waits; NULL: it does not */
};

enum tv_err
log_write(struct log_store *s, const struct log_batch *b)
{
	if (++s->writes == s->fail_at) {
		errno = EIO;
		return TV_ESYS;
	}
	if (b->hard_changed) {
		s->m.term = b->term;
		s->m.vote = b->vote;
	}
	if (b->truncate_from != 0 && b->truncate_from <= s->m.last)
		s->m.last = b->truncate_from - 1;
	for (uint32_t i = 0; i < b->count; i++) {
		ck_assert_uint_eq(b->entries[i].index, s->m.last + 1);
		s->m.terms[++s->m.last] = b->entries[i].term;
	}
	if (b->generation != 0) {
		s->generation = b->generation;
		s->generation_at = s->m.last;
	}
	return TV_OK;
}

enum tv_err
log_compact(struct log_store *s, uint64_t index, uint64_t snapshot_index, uint64_t snapshot_term,
    const struct raft_config *config)
{
	(void)index, (void)snapshot_index, (void)snapshot_term, (void)config;
	s->jobs++;
	if (s->begun != NULL) {
		sem_post(s->begun);
		sem_wait(s->go_on);
	}
	return TV_OK;
}

enum tv_err
log_reset(struct log_store *s, uint64_t snapshot_index, uint64_t snapshot_term, const struct raft_config *config)
{
	(void)snapshot_term, (void)config;
	s->m.last = snapshot_index;
	s->jobs++;
	return TV_OK;
}

enum tv_err
log_set_cluster(struct log_store *s, const char *cluster_id, uint64_t generation)
{
	(void)generation;
	strcpy(s->cluster, cluster_id);
	s->jobs++;
	return TV_OK;
}

struct world {
	struct ev_loop *loop;
	struct logthread *t;
	struct log_store store;
	struct model want;
	uint64_t seq, epoch;		/* told last */
	unsigned failures, jobs_done;
};

static void
on_written(void *ctx, uint64_t seq, uint64_t index, uint64_t term, uint64_t epoch)
{
	struct world *w = ctx;

	ck_assert_uint_eq(w->failures, 0);
	ck_assert_uint_ge(seq, w->seq);
	w->seq = seq;
	if (index == 0)
		return;
	ck_assert_uint_ne(term, 0);
	ck_assert_uint_ge(epoch, w->epoch);
	w->epoch = epoch;
}

static void
on_failed(void *ctx, enum tv_err err, int sys)
{
	struct world *w = ctx;

	ck_assert_int_eq(err, TV_ESYS);
	ck_assert_int_eq(sys, EIO);
	w->failures++;
}

static const struct logthread_events events = { on_written, on_failed };

static struct world *
world_new(void)
{
	struct world *w = calloc(1, sizeof(*w));

	w->loop = ev_loop_new(EVFLAG_AUTO);
	w->t = logthread_new(w->loop, &w->store, &events, w);
	ck_assert_ptr_nonnull(w->t);
	return w;
}

static void
world_free(struct world *w)
{
	logthread_free(w->t);
	ev_loop_destroy(w->loop);
	free(w);
}

/* Runs the loop until everything handed over is done. */
static void
settle(struct world *w)
{
	logthread_flush(w->t);
	while (logthread_done(w->t) < logthread_barrier(w->t))
		ev_run(w->loop, EVRUN_ONCE);
}

static void
append(struct world *w, uint64_t term, uint64_t epoch)
{
	struct raft_entry e = { .index = ++w->want.last, .term = term, .type = RAFT_ENTRY_OP };

	w->want.terms[e.index] = term;
	ck_assert_int_eq(logthread_append(w->t, &e, epoch), TV_OK);
}

static void
job_done(void *ctx, enum tv_err err)
{
	struct world *w = ctx;

	ck_assert_int_eq(err, TV_OK);
	w->jobs_done++;
}

static struct histogram
syncs(struct world *w)
{
	struct histogram took;
	uint64_t slow;

	logthread_syncs(w->t, &took, &slow);
	return took;
}

START_TEST(barriers)
{
	struct world *w = world_new();
	uint64_t seq;

	ck_assert_uint_eq(logthread_barrier(w->t), 0);
	append(w, 1, 0);
	seq = logthread_seq(w->t);
	ck_assert_uint_eq(logthread_barrier(w->t), seq);
	ck_assert_uint_eq(logthread_hard_barrier(w->t), 0);	/* entries hold up no vote */
	settle(w);
	ck_assert_uint_eq(logthread_done(w->t), seq);
	logthread_hard(w->t, 5, 77);
	ck_assert_uint_eq(logthread_hard_barrier(w->t), logthread_seq(w->t));
	settle(w);
	ck_assert_uint_eq(w->store.m.term, 5);
	ck_assert_uint_eq(w->store.m.vote, 77);
	ck_assert_int_eq(logthread_cluster(w->t, "c", 1, job_done, w), TV_OK);
	ck_assert_uint_eq(logthread_hard_barrier(w->t), logthread_barrier(w->t));
	settle(w);
	ck_assert_uint_eq(w->jobs_done, 1);
	ck_assert_str_eq(w->store.cluster, "c");
	ck_assert_int_gt(syncs(w).max_ns, 0);
	world_free(w);
}
END_TEST

/* The generation goes with the entries of its batch, also when batches are merged; it is no part of the next one. */
START_TEST(generation_of_a_batch)
{
	struct world *w = world_new();

	append(w, 1, 0);
	logthread_flush(w->t);
	logthread_generation(w->t, 4);
	logthread_hard(w->t, 9, 0);
	append(w, 9, 0);
	ck_assert_uint_eq(logthread_hard_barrier(w->t), logthread_seq(w->t));
	settle(w);
	ck_assert_uint_eq(w->store.generation, 4);
	ck_assert_uint_eq(w->store.generation_at, 2);
	for (int i = 0; i < 20; i++) {
		append(w, 10, 0);
		settle(w);
	}
	ck_assert_uint_eq(w->store.generation_at, 2);
	world_free(w);
}
END_TEST

/* Any sequence of calls, flushed and merged at any points, leaves the log that the calls describe. */
START_TEST(merging_changes_nothing)
{
	struct world *w = world_new();
	struct raft_config config = { .count = 0 };
	struct rng r;
	uint64_t term = 1, epoch = 0;

	rng_seed(&r, (uint64_t)_i + 1);
	for (int step = 0; step < 3000; step++) {
		uint64_t what = rng_below(&r, 100);

		if (what < 60 && w->want.last < LOG_MAX - 2) {
			append(w, term, epoch);
		} else if (what < 70 && w->want.last > 0) {
			w->want.last -= rng_below(&r, w->want.last < 20 ? w->want.last : 20);
			logthread_truncate(w->t, w->want.last + 1);
			term++;
			epoch++;
		} else if (what < 75) {
			w->want.term = ++term;
			w->want.vote = rng_u64(&r);
			logthread_hard(w->t, w->want.term, w->want.vote);
		} else if (what < 95) {
			logthread_flush(w->t);
		} else if (what == 95) {
			ck_assert_int_eq(logthread_compact(w->t, 1, 2, 1, &config, job_done, w), TV_OK);
		} else if (what == 96) {
			settle(w);
		} else {
			ev_run(w->loop, EVRUN_NOWAIT);
		}
	}
	settle(w);
	ck_assert_uint_eq(w->store.m.last, w->want.last);
	ck_assert_uint_eq(w->store.m.term, w->want.term);
	ck_assert_uint_eq(w->store.m.vote, w->want.vote);
	ck_assert_mem_eq(w->store.m.terms + 1, w->want.terms + 1, w->want.last * sizeof(uint64_t));
	ck_assert_uint_eq(w->jobs_done, w->store.jobs);
	world_free(w);
}
END_TEST

START_TEST(a_failure_is_final)
{
	struct world *w = world_new();
	unsigned writes;

	w->store.fail_at = 2;
	append(w, 1, 0);
	settle(w);
	append(w, 1, 0);
	settle(w);
	ck_assert_uint_eq(w->failures, 1);
	writes = w->store.writes;
	append(w, 1, 0);
	append(w, 1, 0);
	settle(w);
	ck_assert_uint_eq(w->failures, 1);
	ck_assert_uint_eq(w->store.writes, writes);	/* nothing reaches the disk any more */
	ck_assert_uint_eq(w->store.m.last, 1);
	world_free(w);
}
END_TEST

/* A disk that hangs in a compaction holds up writes like one that hangs in a write: it must show (S87). */
START_TEST(every_kind_of_job_counts_as_busy)
{
	struct raft_config config = { .count = 0 };
	struct world *w = world_new();
	uint64_t before;
	sem_t begun, go_on;

	sem_init(&begun, 0, 0);
	sem_init(&go_on, 0, 0);
	w->store.begun = &begun;
	w->store.go_on = &go_on;
	append(w, 1, 0);
	settle(w);
	before = syncs(w).count;
	ck_assert_int_eq(logthread_busy(w->t, clock_mono()).ns, 0);
	ck_assert_int_eq(logthread_compact(w->t, 1, 1, 1, &config, job_done, w), TV_OK);
	sem_wait(&begun);
	ck_assert_int_gt(logthread_busy(w->t, mono_add(clock_mono(), MONO_S(9))).ns, MONO_S(8).ns);
	sem_post(&go_on);
	settle(w);
	ck_assert_int_eq(logthread_busy(w->t, clock_mono()).ns, 0);
	ck_assert_uint_eq(syncs(w).count, before + 1);
	world_free(w);
	sem_destroy(&begun);
	sem_destroy(&go_on);
}
END_TEST

START_TEST(what_is_queued_is_written_at_the_end)
{
	struct world *w = world_new();

	for (int i = 0; i < 100; i++) {
		append(w, 1, 0);
		if (i % 10 == 0)
			logthread_flush(w->t);
	}
	logthread_free(w->t);
	ck_assert_uint_eq(w->store.m.last, 100);
	ev_loop_destroy(w->loop);
	free(w);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("logthread");
	TCase *t = tcase_create("all");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_test(t, barriers);
	tcase_add_test(t, generation_of_a_batch);
	tcase_add_loop_test(t, merging_changes_nothing, 0, 20);
	tcase_add_test(t, a_failure_is_final);
	tcase_add_test(t, every_kind_of_job_counts_as_busy);
	tcase_add_test(t, what_is_queued_is_written_at_the_end);
	suite_add_tcase(s, t);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
