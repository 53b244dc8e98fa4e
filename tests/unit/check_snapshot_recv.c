/* Chunks of a snapshot as a peer sends them: what the first one said of the whole holds for the others. */
#include <check.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "raftd/disk/space.h"
#include "raftd/engine/engine.h"
#include "common/proc/jobs.h"
#include "raftd/engine/statethread.h"
#include "raftd/fsm/fsm.h"
#include "raftd/snapshot/install_meta.h"
#include "raftd/snapshot/snapshot_recv.h"
#include "tests/unit/scratch.h"

#define WHOLE 100

static struct raftd d;
static struct snapshot_recv *receiver;
static uint8_t bytes[2 * WHOLE];
static uint64_t told;		/* in the answer to the last chunk */
static uint64_t room_asked;
static bool installs;

/* Work with files, done at once unless jobs_wait. */
static struct job {
	void (*work)(void *ctx);
	void (*done)(void *ctx);
	void *ctx;
} jobs_list[64];
static unsigned jobs_waiting, jobs_run;
static bool jobs_wait;

static void
run_jobs(void)
{
	while (jobs_run < jobs_waiting) {
		struct job j = jobs_list[jobs_run++];

		j.work(j.ctx);
		if (j.done != NULL)
			j.done(j.ctx);
	}
	jobs_run = jobs_waiting = 0;
}

/* -- the daemon around it -- */

void
engine_snapshot_stored(struct engine *e, const struct raft_msg *m, uint64_t stored)
{
	(void)e;
	(void)m;
	told = stored;
}

void
engine_snapshot_installed(struct engine *e, const struct raft_msg *m)
{
	(void)e;
	(void)m;
	ck_abort_msg("nothing is installed here");
}

bool
engine_keeps_log(struct engine *e, uint64_t index, uint64_t term)
{
	(void)e;
	(void)index;
	(void)term;
	return false;
}

struct logthread *
engine_log(struct engine *e)
{
	(void)e;
	return NULL;
}

bool
space_fits(const struct space *s, uint64_t n)
{
	(void)s;
	room_asked = n;
	return true;
}

bool
space_full(const struct space *s)
{
	(void)s;
	return false;
}

void
space_want(struct space *s, uint64_t n)
{
	(void)s;
	(void)n;
}

enum tv_err
logthread_reset(struct logthread *t, uint64_t index, uint64_t term, const struct raft_config *config,
    logthread_job_done *done, void *ctx)
{
	(void)t, (void)index, (void)term, (void)config, (void)done, (void)ctx;
	return TV_EINVAL;
}

enum tv_err
jobs_add(struct jobs *j, void (*work)(void *ctx), void (*done)(void *ctx), void *ctx)
{
	(void)j;
	ck_assert_uint_lt(jobs_waiting, sizeof(jobs_list) / sizeof(jobs_list[0]));
	jobs_list[jobs_waiting++] = (struct job){ work, done, ctx };
	if (!jobs_wait)
		run_jobs();
	return TV_OK;
}

/* Of the life cycle of a daemon, which is linked for one function. */
struct jobs *
jobs_new(struct ev_loop *loop, const char *name)
{
	(void)loop, (void)name;
	return NULL;
}

void
jobs_stop(struct jobs *j)
{
	(void)j;
}

void
jobs_free(struct jobs *j)
{
	(void)j;
}

enum tv_err
statethread_between(struct statethread *s, void (*work)(struct fsm *f, void *ctx), void (*done)(void *ctx), void *ctx)
{
	(void)s, (void)work, (void)done, (void)ctx;
	return TV_EINVAL;
}

enum tv_err
jobs_add_only(struct jobs *j, void (*work)(void *ctx), void (*done)(void *ctx), void *ctx)
{
	(void)j, (void)work, (void)done, (void)ctx;
	installs = true;
	return TV_OK;
}

/* -- */

static struct raft_msg
chunk(uint64_t offset, size_t len, uint64_t total)
{
	return (struct raft_msg){ .type = RAFT_MSG_SNAPSHOT, .log_index = 7, .log_term = 3, .offset = offset,
		.total = total, .data = span_of(bytes + offset, len) };
}

static off_t
size_stored(void)
{
	struct stat st;

	return stat(scratch_path("raftd/snapshot-recv.tmp"), &st) == 0 ? st.st_size : -1;
}

static uint64_t
answer_to(const struct raft_msg *m)
{
	told = UINT64_MAX;
	snapshot_recv_chunk(receiver, m);
	return told;
}

START_TEST(total_of_the_first_chunk_holds)
{
	static const uint64_t others[] = { 0, 1, 39, 40, 41, WHOLE - 1, WHOLE + 1, 1ull << 40, UINT64_MAX };
	struct raft_msg m = chunk(0, 40, WHOLE);

	ck_assert_uint_eq(answer_to(&m), 40);
	ck_assert_uint_eq(room_asked, 3 * WHOLE + FSM_LOG_FILE_BYTES);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		m = chunk(40, WHOLE, others[i]);
		ck_assert_uint_eq(answer_to(&m), 0);		/* from the start, please */
		m.done = true;
		ck_assert_uint_eq(answer_to(&m), 0);
		ck_assert_int_eq(size_stored(), 40);
	}
	ck_assert(!installs);
}
END_TEST

START_TEST(no_byte_beyond_the_end)
{
	struct raft_msg m = chunk(0, WHOLE + 1, WHOLE);

	ck_assert_uint_eq(answer_to(&m), 0);
	m = chunk(0, 40, WHOLE);
	ck_assert_uint_eq(answer_to(&m), 40);
	m = chunk(40, WHOLE - 39, WHOLE);
	ck_assert_uint_eq(answer_to(&m), 0);
	m = chunk(41, 1, WHOLE);				/* a gap */
	ck_assert_uint_eq(answer_to(&m), 0);
	m = chunk(40, WHOLE - 40, WHOLE);
	ck_assert_uint_eq(answer_to(&m), WHOLE);
	ck_assert_int_eq(size_stored(), WHOLE);
}
END_TEST

START_TEST(complete_is_installed)
{
	static const struct raft_config one = { .index = 1, .count = 1, .servers = { { .id = 1,
		.uuid = "11111111-1111-4111-8111-111111111111", .store_id = "22222222-2222-4222-8222-222222222222",
		.name = "n1", .addr = "127.0.0.1:8300", .voter = true } } };
	struct buf config = BUF_INIT(4096);
	struct raft_msg m = chunk(0, 60, WHOLE);
	uint8_t hash[crypto_generichash_BYTES];

	raft_config_write(&config, &one);
	crypto_generichash(hash, sizeof(hash), bytes, WHOLE, NULL, 0);
	ck_assert_uint_eq(answer_to(&m), 60);
	m = chunk(60, WHOLE - 60, WHOLE);
	m.done = true;
	m.checksum = snapshot_sum(hash) + 1;
	m.config = buf_span(&config);
	ck_assert_uint_eq(answer_to(&m), 0);
	ck_assert(!installs);
	m = chunk(0, 60, WHOLE);
	ck_assert_uint_eq(answer_to(&m), 60);
	m = chunk(60, WHOLE - 60, WHOLE);
	m.done = true;
	m.checksum = snapshot_sum(hash);
	m.config = buf_span(&config);
	snapshot_recv_chunk(receiver, &m);
	ck_assert(installs && snapshot_recv_installing(receiver));
	buf_done(&config);
}
END_TEST

/* The disk hangs: what waits for it is bounded, and a transfer that begins again has nothing of the one before. */
START_TEST(disk_hangs)
{
	struct raft_msg m;

	jobs_wait = true;
	for (uint64_t at = 0; at < 80; at += 10) {
		m = chunk(at, 10, WHOLE);
		ck_assert_uint_eq(answer_to(&m), UINT64_MAX);
	}
	m = chunk(80, 10, WHOLE);
	ck_assert_uint_eq(answer_to(&m), 80);
	ck_assert_int_eq(size_stored(), -1);
	run_jobs();
	ck_assert_uint_eq(told, 80);
	ck_assert_int_eq(size_stored(), 80);
	m = chunk(80, 10, WHOLE);
	ck_assert_uint_eq(answer_to(&m), UINT64_MAX);
	m = chunk(0, 20, WHOLE);
	ck_assert_uint_eq(answer_to(&m), UINT64_MAX);
	run_jobs();
	ck_assert_uint_eq(told, 20);
	ck_assert_int_eq(size_stored(), 20);
	jobs_wait = false;
}
END_TEST

static void
setup(void)
{
	scratch_open();
	ck_assert_int_ge(sodium_init(), 0);
	ck_assert_int_eq(mkdir(scratch_path("raftd"), 0700), 0);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	installs = false;
	d.cluster.data_dir = strdup(scratch_path("."));
	receiver = snapshot_recv_new(&d);
	ck_assert_ptr_nonnull(receiver);
}

static void
teardown(void)
{
	snapshot_recv_free(receiver);
	free(d.cluster.data_dir);
	scratch_close();
}

int
main(void)
{
	Suite *s = suite_create("snaprecv");
	TCase *t = tcase_create("chunks");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, total_of_the_first_chunk_holds);
	tcase_add_test(t, no_byte_beyond_the_end);
	tcase_add_test(t, complete_is_installed);
	tcase_add_test(t, disk_hangs);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
