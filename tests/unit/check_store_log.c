/* The log store: order, cutting, reopening, a killed writer, damage, a full disk. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <check.h>

#include "common/base/rng.h"
#include "raftd/store/bdb/store_sum.h"
#include "raftd/store/store.h"
#include "raftd/store/store_int.h"
#include "tests/unit/fsm_kit.h"

/*
 * Leak checkers: an environment of Berkeley DB that has panicked (damage, a failed write) is not given back by its
 * close.  The daemon ends there; these tests go on.
 */
const char *__lsan_default_suppressions(void);
const char *
__lsan_default_suppressions(void)
{
	return "leak:libdb-5.3\n";
}

static char top[64], dir[80];
static struct log_store *s;
static struct log_meta m;
static struct arena a;
static char why[512];
static bool spares, no_thread, goes_on;
static uint32_t file_bytes;		/* of a write-ahead file; 0: the usual */

static enum tv_err
try_open(void)
{
	struct log_options opt = { .dir = dir, .spares = spares, .no_thread = no_thread, .goes_on = goes_on,
	    .log_file_bytes = file_bytes, .log_buffer_bytes = file_bytes / 4 };

	return log_open(&opt, &s, &m, why, sizeof(why));
}

static void
reopen(void)
{
	log_close(s);
	s = NULL;
	ck_assert_msg(try_open() == TV_OK, "%s", why);
}

/* Another log, in files of this size. */
static void
start_small(uint32_t bytes)
{
	file_bytes = bytes;
	log_close(s);
	s = NULL;
	kit_remove_dir(dir);
	ck_assert_msg(try_open() == TV_OK, "%s", why);
}

static void
setup(void)
{
	spares = no_thread = goes_on = false;
	file_bytes = 0;
	snprintf(top, sizeof(top), "/tmp/tv-log-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
	snprintf(dir, sizeof(dir), "%s/log", top);
	a = ARENA_INIT(256u << 20);
	ck_assert_msg(try_open() == TV_OK, "%s", why);
}

static void
teardown(void)
{
	log_close(s);
	arena_done(&a);
	kit_remove_dir(top);
}

/* Byte i of the payload of an entry: no two entries look alike anywhere. */
static uint8_t
pattern(uint64_t index, uint64_t term, uint32_t i)
{
	return (uint8_t)((index * 0x9e3779b97f4a7c15u + term * 0xbf58476d1ce4e5b9u + i) * 0x94d049bb133111ebu >> 56);
}

static struct raft_entry
entry(uint64_t index, uint64_t term, uint32_t size)
{
	struct raft_entry e = { .index = index, .term = term, .type = RAFT_ENTRY_OP, .size = size };
	uint8_t *p = arena_alloc(&a, size);

	for (uint32_t i = 0; i < size; i++)
		p[i] = pattern(index, term, i);
	e.payload = p;
	return e;
}

static enum tv_err
append(uint64_t first, uint32_t count, uint64_t term, uint32_t size)
{
	struct raft_entry *e = calloc(count, sizeof(*e));
	struct log_batch b = { .entries = e, .count = count };
	enum tv_err err;

	arena_reset(&a);
	for (uint32_t i = 0; i < count; i++)
		e[i] = entry(first + i, term, size);
	err = log_write(s, &b);
	free(e);
	return err;
}

static enum tv_err
truncate_and_append(uint64_t from, uint32_t count, uint64_t term)
{
	struct raft_entry e[16];
	struct log_batch b = { .truncate_from = from, .entries = e, .count = count, .hard_changed = true, .term = term,
	    .vote = 9 };

	for (uint32_t i = 0; i < count; i++)
		e[i] = entry(from + i, term, 100);
	return log_write(s, &b);
}

struct seen {
	uint64_t next, terms;
	uint32_t size;
};

static enum tv_err
see(void *ctx, const struct raft_entry *e)
{
	struct seen *v = ctx;

	uint32_t wrong = 0;

	for (uint32_t i = 0; i < e->size; i++)
		wrong += e->payload[i] != pattern(e->index, e->term, i);
	ck_assert_uint_eq(e->index, v->next);
	ck_assert_uint_eq(wrong, 0);
	v->next++;
	v->terms += e->term;
	return TV_OK;
}

/* Walks from..last; returns the sum of the terms. */
static uint64_t
walk(uint64_t from, uint64_t last)
{
	struct seen v = { .next = from };

	ck_assert_int_eq(log_each(s, from, see, &v), TV_OK);
	ck_assert_uint_eq(v.next, last + 1);
	return v.terms;
}

static const struct raft_config config = { .index = 4, .count = 1, .servers = { { .id = 5, .uuid = "u", .store_id = "s",
    .name = "n", .addr = "127.0.0.1:8300", .voter = true } } };

/* -- ordinary life -- */

START_TEST(fresh)
{
	char id[37];

	ck_assert_uint_eq(m.first + m.last + m.term + m.vote + m.snapshot_index, 0);
	ck_assert_uint_eq(strlen(m.store_id), 36);
	ck_assert_str_eq(m.cluster_id, "");
	memcpy(id, m.store_id, sizeof(id));
	reopen();
	ck_assert_str_eq(m.store_id, id);
}
END_TEST

START_TEST(append_and_reopen)
{
	struct log_batch hard = { .hard_changed = true, .term = 7, .vote = 0xabcdefu };

	ck_assert_int_eq(append(1, 1, 1, 0), TV_OK);
	ck_assert_int_eq(append(2, 128, 2, 200), TV_OK);
	ck_assert_int_eq(append(130, 3, 3, 600000), TV_OK);
	ck_assert_int_eq(log_write(s, &hard), TV_OK);
	ck_assert_int_eq(log_set_cluster(s, "11111111-2222-4333-8444-555555555555", 3), TV_OK);
	reopen();
	ck_assert_uint_eq(m.first, 1);
	ck_assert_uint_eq(m.last, 132);
	ck_assert_uint_eq(m.term, 7);
	ck_assert_uint_eq(m.vote, 0xabcdefu);
	ck_assert_str_eq(m.cluster_id, "11111111-2222-4333-8444-555555555555");
	ck_assert_uint_eq(m.generation, 3);
	ck_assert_uint_eq(walk(1, 132), 1 + 256 + 9);
}
END_TEST

/* S68: term, entry and generation of a recovery are one transaction. */
START_TEST(generation_comes_with_its_entries)
{
	struct raft_entry e = { .index = 3, .term = 8, .type = RAFT_ENTRY_CONFIG, .size = 4,
		.payload = (const uint8_t *)"conf" };
	struct log_batch b = { .hard_changed = true, .term = 8, .entries = &e, .count = 1, .generation = 2 };

	ck_assert_int_eq(append(1, 2, 7, 10), TV_OK);
	ck_assert_int_eq(log_set_cluster(s, "11111111-2222-4333-8444-555555555555", 1), TV_OK);
	ck_assert_int_eq(log_write(s, &b), TV_OK);
	reopen();
	ck_assert_uint_eq(m.last, 3);
	ck_assert_uint_eq(m.term, 8);
	ck_assert_uint_eq(m.generation, 2);
	ck_assert_str_eq(m.cluster_id, "11111111-2222-4333-8444-555555555555");
	ck_assert_int_eq(append(4, 1, 9, 10), TV_OK);	/* other batches leave it as it is */
	reopen();
	ck_assert_uint_eq(m.generation, 2);
}
END_TEST

START_TEST(truncation)
{
	ck_assert_int_eq(append(1, 100, 1, 100), TV_OK);
	ck_assert_int_eq(truncate_and_append(51, 3, 2), TV_OK);
	ck_assert_uint_eq(walk(1, 53), 50 + 6);
	reopen();
	ck_assert_uint_eq(m.last, 53);
	ck_assert_uint_eq(m.term, 2);
	ck_assert_int_eq(truncate_and_append(1, 0, 3), TV_OK);
	reopen();
	ck_assert_uint_eq(m.first, 0);
	ck_assert_uint_eq(m.last, 0);
	ck_assert_int_eq(append(1, 2, 4, 10), TV_OK);
	ck_assert_uint_eq(walk(1, 2), 8);
}
END_TEST

/* Is there a write-ahead file of this number? */
static bool
file_there(unsigned number)
{
	char path[128];

	store_file_path(dir, number, path, sizeof(path));
	return access(path, F_OK) == 0;
}

/* What was cut away goes by whole files, and nothing else does. */
START_TEST(files_come_and_go)
{
	uint32_t oldest;

	no_thread = true;				/* files are gone when the write that cut them returns */
	start_small(20480);
	for (uint64_t i = 0; i < 20; i++)
		ck_assert_int_eq(append(1 + i * 50, 50, 1, 500), TV_OK);
	ck_assert_uint_gt(s->file_count, 15);
	reopen();
	ck_assert_uint_eq(m.last, 1000);
	ck_assert_int_eq(truncate_and_append(420, 10, 2), TV_OK);
	ck_assert_uint_eq(walk(1, 429), 419 + 20);
	ck_assert_uint_eq(s->files[s->file_count - 1].base, 420);
	ck_assert(file_there(2));
	ck_assert_int_eq(log_compact(s, 300, 310, 1, &config), TV_OK);
	oldest = s->files[0].number;
	ck_assert_uint_gt(oldest, 3);
	ck_assert_uint_le(s->files[0].base, 301);
	ck_assert_uint_gt(s->files[1].base, 301);
	reopen();
	ck_assert(!file_there(oldest - 1) && file_there(oldest));
	ck_assert_uint_eq(m.first, 301);
	ck_assert_uint_eq(m.last, 429);
	ck_assert_uint_eq(walk(301, 429), 119 + 20);
	ck_assert_int_eq(log_compact(s, 429, 429, 2, &config), TV_OK);
	ck_assert_uint_eq(s->file_count, 1);
	ck_assert_int_eq(append(430, 1, 3, 10), TV_OK);
	reopen();
	ck_assert_uint_eq(m.term, 2);			/* the oldest file says what the others said */
	ck_assert_uint_eq(m.snapshot_index, 429);
	ck_assert_uint_eq(walk(430, 430), 3);
}
END_TEST

/* Larger than a file, larger than a transaction, larger than the memory that is kept. */
START_TEST(large_entries)
{
	uint64_t next = 1;

	no_thread = true;
	reopen();
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(append(next, 1, 1, 20u << 20), TV_OK);
		ck_assert_int_eq(append(next + 1, 10, 1, 1u << 20), TV_OK);
		ck_assert_int_eq(append(next + 11, 10, 1, 10), TV_OK);
		next += 21;
	}
	ck_assert_uint_eq(walk(1, next - 1), next - 1);
	reopen();
	ck_assert_uint_eq(m.last, next - 1);
	ck_assert_uint_eq(walk(1, next - 1), next - 1);
	ck_assert_int_eq(log_compact(s, next - 2, next - 2, 1, &config), TV_OK);
	reopen();
	ck_assert_uint_eq(m.first, next - 1);
	ck_assert(!file_there(1));
	ck_assert_uint_eq(walk(next - 1, next - 1), 1);
}
END_TEST

/* Every cut at every place among files and records, against what is expected of each index. */
START_TEST(cuts_at_random)
{
	uint64_t terms[3000] = { 0 }, first = 1, last = 0, term = 1;
	struct rng g;

	start_small(8192);
	rng_seed(&g, 11);
	for (unsigned i = 0; i < 600; i++) {
		uint64_t from = last + 1;
		uint32_t n = 1 + (uint32_t)rng_below(&g, 5);
		struct seen v = { 0 };
		uint64_t sum = 0;

		if (last >= first && rng_below(&g, 4) == 0)
			from = first + rng_below(&g, last - first + 1);
		ck_assert_int_eq(truncate_and_append(from, n, ++term), TV_OK);
		last = from + n - 1;
		for (uint64_t k = from; k <= last; k++)
			terms[k] = term;
		if (last > first && rng_below(&g, 10) == 0) {
			first += rng_below(&g, last - first + 1);
			ck_assert_int_eq(log_compact(s, first - 1, first - 1, 1, &config), TV_OK);
		}
		if (rng_below(&g, 20) == 0) {
			reopen();
			ck_assert_uint_eq(m.first, first);
			ck_assert_uint_eq(m.last, last);
		}
		v.next = first + rng_below(&g, last - first + 1);
		for (uint64_t k = v.next; k <= last; k++)
			sum += terms[k];
		ck_assert_int_eq(log_each(s, v.next, see, &v), TV_OK);
		ck_assert_uint_eq(v.next, last + 1);
		ck_assert_uint_eq(v.terms, sum);
		arena_reset(&a);
	}
	ck_assert_uint_gt(s->files[s->file_count - 1].number, 20);
	ck_assert_uint_lt(last, 3000);
}
END_TEST

START_TEST(compaction)
{
	ck_assert_int_eq(append(1, 100, 1, 100), TV_OK);
	ck_assert_int_eq(log_compact(s, 60, 80, 1, &config), TV_OK);
	ck_assert_uint_eq(walk(61, 100), 40);
	reopen();
	ck_assert_uint_eq(m.first, 61);
	ck_assert_uint_eq(m.snapshot_index, 80);
	ck_assert_uint_eq(m.snapshot_term, 1);
	ck_assert_uint_eq(m.snapshot_config.count, 1);
	ck_assert_str_eq(m.snapshot_config.servers[0].addr, "127.0.0.1:8300");
	ck_assert_int_eq(log_compact(s, 100, 100, 1, &config), TV_OK);
	reopen();
	ck_assert_uint_eq(m.first, 0);
	ck_assert_int_eq(append(101, 5, 2, 10), TV_OK);
	ck_assert_uint_eq(walk(101, 105), 10);
}
END_TEST

START_TEST(reset)
{
	start_small(8192);
	ck_assert_int_eq(log_reset(s, 3, 1, &config), TV_OK);	/* the first thing that a fresh server gets */
	ck_assert_int_eq(log_reset(s, 0, 0, &config), TV_OK);
	ck_assert_int_eq(append(1, 10, 1, 500), TV_OK);
	ck_assert_int_eq(append(11, 10, 1, 500), TV_OK);
	ck_assert_int_eq(log_reset(s, 10, 3, &config), TV_OK);	/* the next entry has an index that went */
	ck_assert_int_eq(append(11, 2, 4, 10), TV_OK);
	reopen();
	ck_assert_uint_eq(m.first, 11);
	ck_assert_uint_eq(m.last, 12);
	ck_assert_uint_eq(m.snapshot_index, 10);
	ck_assert_uint_eq(m.snapshot_term, 3);
	ck_assert_uint_eq(walk(11, 12), 8);
	ck_assert_int_eq(log_reset(s, 5, 1, &config), TV_OK);
	reopen();
	ck_assert_uint_eq(m.first, 0);
	ck_assert_uint_eq(m.snapshot_index, 5);
}
END_TEST

START_TEST(reading)
{
	struct arena to = ARENA_INIT(1u << 20);
	struct raft_entry *out;
	uint32_t n;

	start_small(8192);
	for (uint64_t i = 0; i < 10; i++)
		ck_assert_int_eq(append(1 + i * 10, 10, 1, 100), TV_OK);
	ck_assert_int_eq(log_read(s, 5, 45, 1u << 20, &to, &out, &n), TV_OK);
	ck_assert_uint_eq(n, 41);
	for (uint32_t i = 0; i < n; i++)
		ck_assert_int_eq(see(&(struct seen){ .next = 5 + i }, &out[i]), TV_OK);
	ck_assert_int_eq(log_read(s, 5, 45, 1000, &to, &out, &n), TV_OK);
	ck_assert_uint_eq(n, 10);
	ck_assert_int_eq(log_read(s, 5, 45, 1, &to, &out, &n), TV_OK);
	ck_assert_uint_eq(n, 1);			/* at least one */
	ck_assert_int_eq(log_read(s, 90, 101, 1000, &to, &out, &n), TV_ENOENT);
	ck_assert_int_eq(log_read(s, 0, 1, 1000, &to, &out, &n), TV_ENOENT);
	arena_done(&to);
}
END_TEST

/* -- reading while writing -- */

struct reader {
	pthread_mutex_t lock;
	uint64_t durable;
	bool stop;
	uint64_t reads;
};

static void *
read_main(void *arg)
{
	struct reader *r = arg;
	struct rng g;

	rng_seed(&g, 7);
	for (;;) {
		struct arena to = ARENA_INIT(4u << 20);
		struct raft_entry *out;
		uint64_t durable, first;
		uint32_t n;
		bool stop;

		pthread_mutex_lock(&r->lock);
		durable = r->durable;
		stop = r->stop;
		pthread_mutex_unlock(&r->lock);
		if (stop)
			return NULL;
		if (durable == 0)
			continue;
		first = 1 + rng_below(&g, durable);
		if (log_read(s, first, durable, 10000, &to, &out, &n) != TV_OK || n == 0 || out[0].index != first)
			return r;
		r->reads++;
		arena_done(&to);
	}
}

START_TEST(readers_beside_writer)
{
	struct reader r[2] = { { .lock = PTHREAD_MUTEX_INITIALIZER }, { .lock = PTHREAD_MUTEX_INITIALIZER } };
	pthread_t t[2];
	void *failed;

	start_small(102400);
	for (unsigned k = 0; k < 2; k++)
		ck_assert_int_eq(pthread_create(&t[k], NULL, read_main, &r[k]), 0);
	for (uint64_t i = 0; i < 300; i++) {
		ck_assert_int_eq(append(1 + i * 20, 20, 1, 300), TV_OK);
		for (unsigned k = 0; k < 2; k++) {
			pthread_mutex_lock(&r[k].lock);
			r[k].durable = (i + 1) * 20;
			pthread_mutex_unlock(&r[k].lock);
		}
	}
	for (unsigned k = 0; k < 2; k++) {
		pthread_mutex_lock(&r[k].lock);
		r[k].stop = true;
		pthread_mutex_unlock(&r[k].lock);
		ck_assert_int_eq(pthread_join(t[k], &failed), 0);
		ck_assert_ptr_null(failed);
	}
	ck_assert_uint_eq(walk(1, 6000), 6000);
}
END_TEST

static struct gate {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	bool shut, reached;
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER };

static ssize_t
gated_read(int fd, void *p, size_t n)
{
	pthread_mutex_lock(&gate.lock);
	if (gate.shut) {
		gate.reached = true;
		pthread_cond_broadcast(&gate.moved);
	}
	while (gate.shut)
		pthread_cond_wait(&gate.moved, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
	return read(fd, p, n);
}

struct one_read {
	uint64_t first, last;
	enum tv_err err;
	uint32_t count;
};

static void *
one_read_main(void *arg)
{
	struct arena to = ARENA_INIT(4u << 20);
	struct one_read *r = arg;
	struct raft_entry *out;

	r->err = log_read(s, r->first, r->last, 1u << 20, &to, &out, &r->count);
	arena_done(&to);
	return NULL;
}

/* Starts a read that the disk holds back. */
static pthread_t
held_read(struct one_read *r)
{
	pthread_t t;

	gate.shut = true;
	gate.reached = false;
	ck_assert_int_eq(db_env_set_func_read(gated_read), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, one_read_main, r), 0);
	pthread_mutex_lock(&gate.lock);
	while (!gate.reached)
		pthread_cond_wait(&gate.moved, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
	return t;
}

static void
let_go(pthread_t t)
{
	pthread_mutex_lock(&gate.lock);
	gate.shut = false;
	pthread_cond_broadcast(&gate.moved);
	pthread_mutex_unlock(&gate.lock);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	ck_assert_int_eq(db_env_set_func_read(NULL), 0);
}

/* A write, a cut and a compaction go on; what was read of entries that are gone by then does not count. */
START_TEST(held_reads_hold_up_nobody)
{
	struct one_read r = { .first = 5, .last = 15 };
	struct log_batch cut = { .truncate_from = 10 };
	pthread_t t;

	start_small(1u << 20);
	ck_assert_int_eq(append(1, 20, 1, 100000), TV_OK);
	t = held_read(&r);
	ck_assert_int_eq(append(21, 1, 1, 10), TV_OK);
	let_go(t);
	ck_assert(r.err == TV_OK && r.count > 0);

	t = held_read(&r);
	ck_assert_int_eq(log_write(s, &cut), TV_OK);
	let_go(t);
	ck_assert_int_eq(r.err, TV_ENOENT);

	r = (struct one_read){ .first = 1, .last = 2 };
	t = held_read(&r);
	ck_assert_int_eq(log_compact(s, 5, 7, 1, &config), TV_OK);
	let_go(t);
	ck_assert_int_eq(r.err, TV_ENOENT);
}
END_TEST

START_TEST(compacting_while_writing)
{
	uint64_t next = 1;

	spares = true;
	start_small(1u << 20);
	for (unsigned i = 0; i < 400; i++) {
		ck_assert_int_eq(append(next, 20, 1, 5000), TV_OK);
		next += 20;
		if (i % 3 == 0)
			ck_assert_int_eq(log_compact(s, next - 10, next - 5, 1, &config), TV_OK);
	}
	walk(s->first, next - 1);
	reopen();
	ck_assert_uint_eq(m.last, next - 1);
	walk(m.first, m.last);
	ck_assert_uint_le(s->file_count, 3);
}
END_TEST

/* -- kill -9 -- */

/* Writes for ever, and tells through the pipe what is durable. */
static void
writer(int fd, uint64_t next)
{
	struct rng g;

	rng_seed(&g, next);
	for (;;) {
		uint32_t n = 1 + (uint32_t)rng_below(&g, 30);

		if (append(next, n, 1, 200) != TV_OK)
			_exit(1);
		next += n;
		if (write(fd, &(uint64_t){ next - 1 }, sizeof(uint64_t)) != sizeof(uint64_t))
			_exit(1);
	}
}

START_TEST(killed_writer_loses_nothing_acknowledged)
{
	uint64_t durable = 0, known;

	log_close(s);
	s = NULL;
	file_bytes = 65536;
	for (unsigned round = 0; round < 8; round++) {
		int fd[2], status;
		uint64_t base = durable;
		pid_t pid;

		ck_assert_int_eq(pipe(fd), 0);
		pid = fork();
		ck_assert_int_ge(pid, 0);
		if (pid == 0) {
			if (try_open() != TV_OK || m.last < durable)
				_exit(1);
			writer(fd[1], m.last + 1);
		}
		close(fd[1]);
		while (durable < base + 300 * (round + 1) && read(fd[0], &known, sizeof(known)) == sizeof(known))
			durable = known;
		ck_assert_int_eq(kill(pid, SIGKILL), 0);
		while (read(fd[0], &known, sizeof(known)) == sizeof(known))
			durable = known;
		close(fd[0]);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert(WIFSIGNALED(status));
		ck_assert_msg(try_open() == TV_OK, "%s", why);
		ck_assert_uint_ge(m.last, durable);
		walk(1, m.last);
		durable = m.last;
		log_close(s);
		s = NULL;
	}
	ck_assert_int_eq(try_open(), TV_OK);
}
END_TEST

/* -- write-ahead files made ready -- */

/* Inode of a write-ahead file, or 0. */
static ino_t
file_inode(unsigned number, off_t *size)
{
	char path[128];
	struct stat st;

	snprintf(path, sizeof(path), "%s/log.%010u", dir, number);
	if (stat(path, &st) != 0)
		return 0;
	*size = st.st_size;
	return st.st_ino;
}

static unsigned
file_written_to(void)
{
	DB_LOG_STAT *st;
	unsigned number;

	ck_assert_int_eq(s->env.dbenv->log_stat(s->env.dbenv, &st, 0), 0);
	number = st->st_cur_file;
	free(st);
	return number;
}

/* Appends until the log is in file `number`; returns the next index.  *spare: the file was ready before that. */
static uint64_t
write_into(unsigned number, uint64_t next, ino_t *spare)
{
	off_t size;

	*spare = 0;
	while (file_written_to() < number) {
		ck_assert_int_eq(append(next, 64, 1, 1000), TV_OK);
		next += 64;
		if (*spare == 0 && file_written_to() < number)
			*spare = file_inode(number, &size);
	}
	return next;
}

/* Fills two files, with the third one ready; then dies. */
static void
fill_and_die(void)
{
	uint64_t next;
	ino_t spare;
	off_t size = 0;

	spares = true;
	ck_assert_int_eq(try_open(), TV_OK);
	next = write_into(2, 1, &spare);
	ck_assert_uint_ne(spare, 0);
	ck_assert_uint_eq(file_inode(2, &size), spare);
	ck_assert_int_ge(size, 16 << 20);
	while (file_inode(3, &size) == 0) {
		ck_assert_uint_eq(file_written_to(), 2);
		ck_assert_int_eq(append(next, 64, 1, 1000), TV_OK);
		next += 64;
	}
	ck_assert_int_eq(append(next, 1, 2, 1000), TV_OK);
	kill(getpid(), SIGKILL);
}

START_TEST(spares_survive_a_kill)
{
	uint64_t next;
	ino_t spare;
	off_t size;
	int status;
	pid_t pid;

	log_close(s);
	s = NULL;
	pid = fork();
	if (pid == 0)
		fill_and_die();
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	ck_assert_uint_ne(file_inode(3, &size), 0);
	spares = true;
	ck_assert_msg(try_open() == TV_OK, "%s", why);
	next = m.last + 1;
	ck_assert_uint_eq(walk(1, m.last), m.last + 1);		/* the one of term 2 is there */
	ck_assert_int_eq(append(next, 1, 2, 10), TV_OK);
	next = write_into(3, next + 1, &spare);
	reopen();
	ck_assert_uint_eq(m.last, next - 1);
	walk(1, m.last);
}
END_TEST

/* -- damage -- */

static void
path_of(const char *name, char *out, size_t cap)
{
	snprintf(out, cap, "%s/%s", dir, name);
}

/* Flips one bit of a file at the first place where `bytes` is found. */
static void
flip(const char *path, const uint8_t *bytes, size_t n)
{
	FILE *f = fopen(path, "r+");
	uint8_t *all;
	uint8_t *at;
	long size;

	ck_assert_ptr_nonnull(f);
	fseek(f, 0, SEEK_END);
	size = ftell(f);
	rewind(f);
	all = malloc((size_t)size);
	ck_assert_uint_eq(fread(all, 1, (size_t)size, f), (size_t)size);
	at = memmem(all, (size_t)size, bytes, n);
	ck_assert_ptr_nonnull(at);
	fseek(f, at - all + (long)n / 2, SEEK_SET);
	ck_assert_int_ne(fputc(at[n / 2] ^ 4, f), EOF);
	fclose(f);
	free(all);
}

/* In a file that was finished: the mark is not needed to see it. */
START_TEST(damaged_entry_is_named)
{
	char path[128], mark[128];
	struct raft_entry e;

	start_small(20480);
	for (uint64_t i = 0; i < 10; i++)
		ck_assert_int_eq(append(1 + i * 10, 10, 1, 300), TV_OK);
	ck_assert_uint_ge(s->file_count, 2);
	e = entry(17, 1, 40);
	log_close(s);
	s = NULL;
	path_of("durable", mark, sizeof(mark));
	ck_assert_int_eq(unlink(mark), 0);
	path_of("log.0000000001", path, sizeof(path));
	flip(path, e.payload, e.size);
	ck_assert_int_eq(try_open(), TV_ECORRUPT);
	ck_assert_msg(strstr(why, "log.0000000001 is damaged") != NULL, "%s", why);
	ck_assert_msg(strstr(why, "entries from 11 on") != NULL, "%s", why);
	ck_assert_msg(strstr(why, "move the raftd data directory away") != NULL, "%s", why);
	s = NULL;
}
END_TEST

/* The checksums are right, the record is not the one that belongs there: as a misdirected write would leave it. */
START_TEST(wrong_record_is_named)
{
	static const int steps[] = { 1, -1 };		/* one is left out; one is there twice */

	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(append(1, 20, 1, 30), TV_OK);
		s->seq += (uint64_t)(int64_t)steps[i];
		ck_assert_int_eq(append(21, 5, 1, 30), TV_OK);
		log_close(s);
		s = NULL;
		ck_assert_int_eq(try_open(), TV_ECORRUPT);
		ck_assert_msg(strstr(why, "log.0000000001 is damaged") != NULL && strstr(why, "entries from 21 on") != NULL,
		    "%s", why);
		s = NULL;
		kit_remove_dir(dir);
		ck_assert_int_eq(try_open(), TV_OK);
	}
}
END_TEST

START_TEST(lost_files_are_noticed)
{
	static const char *const lost[] = { "log.0000000001", "log.0000000003", "log.0000000005" };
	static const char *const said[] = { "log entry 1 is missing", "log.0000000003 is missing", "it ends with" };
	char path[128], aside[128];

	start_small(20480);
	for (uint64_t next = 1; !file_there(5); next += 20)
		ck_assert_int_eq(append(next, 20, 1, 300), TV_OK);
	log_close(s);
	s = NULL;
	for (unsigned i = 0; i < 3; i++) {
		path_of(lost[i], path, sizeof(path));
		path_of("aside", aside, sizeof(aside));
		ck_assert_int_eq(rename(path, aside), 0);
		ck_assert_int_eq(try_open(), TV_ECORRUPT);
		ck_assert_msg(strstr(why, said[i]) != NULL, "%s", why);
		ck_assert_int_eq(rename(aside, path), 0);
	}
	ck_assert_msg(try_open() == TV_OK, "%s", why);
	ck_assert_uint_gt(m.last, 60);
	walk(1, m.last);
}
END_TEST

/* All that the folder had is gone, and it was not a fresh one. */
START_TEST(emptied_is_not_fresh)
{
	char path[128];

	ck_assert_int_eq(append(1, 20, 1, 30), TV_OK);
	log_close(s);
	s = NULL;
	path_of("log.0000000001", path, sizeof(path));
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(try_open(), TV_ECORRUPT);
	ck_assert_msg(strstr(why, "it ends with transaction 0") != NULL, "%s", why);
	s = NULL;
}
END_TEST

/* What an earlier version left is not read, and not taken for an empty log either. */
START_TEST(earlier_form_is_refused)
{
	char path[128];
	FILE *f;

	log_close(s);
	s = NULL;
	path_of("meta.db", path, sizeof(path));
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fclose(f);
	ck_assert_int_eq(try_open(), TV_ECORRUPT);
	ck_assert_msg(strstr(why, "earlier version") != NULL && strstr(why, "one server after the other") != NULL, "%s", why);
	s = NULL;
}
END_TEST

/* The remains of a torn write do not come back to life behind what is written over them. */
START_TEST(torn_remains_are_cleared)
{
	char path[128];
	struct raft_entry e;
	int status;
	pid_t pid;

	log_close(s);
	s = NULL;
	pid = fork();
	if (pid == 0) {
		if (try_open() != TV_OK || append(1, 5, 1, 300) != TV_OK || append(6, 1, 1, 100) != TV_OK ||
		    append(7, 1, 1, 100) != TV_OK)
			_exit(1);
		s->seq -= 2;			/* as if neither had been reported */
		store_mark_set(s);
		kill(getpid(), SIGKILL);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status));
	e = entry(6, 1, 40);
	path_of("log.0000000001", path, sizeof(path));
	flip(path, e.payload, e.size);
	ck_assert_msg(try_open() == TV_OK, "%s", why);
	ck_assert_uint_eq(m.last, 5);
	ck_assert_int_eq(append(6, 1, 2, 100), TV_OK);		/* as long as the one that was torn */
	reopen();
	ck_assert_uint_eq(m.last, 6);
	ck_assert_uint_eq(walk(1, 6), 5 + 2);
}
END_TEST

/* In the middle of what was synced: recovery alone would take it for a torn end and drop the rest. */
START_TEST(damaged_write_ahead_log_is_noticed)
{
	char path[128];
	struct raft_entry e;
	int status;
	pid_t pid;

	log_close(s);
	s = NULL;
	pid = fork();
	if (pid == 0) {
		if (try_open() != TV_OK)
			_exit(1);
		for (uint64_t i = 0; i < 20; i++)
			if (append(1 + i * 5, 5, 1, 300) != TV_OK)
				_exit(1);
		kill(getpid(), SIGKILL);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status));
	e = entry(50, 1, 40);
	path_of("log.0000000001", path, sizeof(path));
	flip(path, e.payload, e.size);
	ck_assert_int_eq(try_open(), TV_ECORRUPT);
	ck_assert_msg(strstr(why, "the write-ahead log") != NULL, "%s", why);
	s = NULL;
}
END_TEST

/* Berkeley DB would sum up as many bytes as its first record says that it has. */
START_TEST(damaged_length_at_the_head)
{
	static const uint32_t lengths[] = { 0x7fffff1c, 29, 1 };
	char path[128];

	ck_assert_int_eq(append(1, 5, 1, 300), TV_OK);
	path_of("log.0000000001", path, sizeof(path));
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		int fd;

		log_close(s);
		s = NULL;
		fd = open(path, O_WRONLY | O_CLOEXEC);
		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(pwrite(fd, &lengths[i], sizeof(lengths[i]), 4), (ssize_t)sizeof(lengths[i]));
		close(fd);
		ck_assert_int_eq(try_open(), TV_ECORRUPT);
		ck_assert_msg(strstr(why, "the head of log.0000000001 is damaged") != NULL, "%s", why);
		ck_assert_msg(strstr(why, "move ") != NULL, "%s", why);
	}
	s = NULL;
}
END_TEST

/* The end of the write-ahead log that no sync covered is dropped without fuss. */
START_TEST(torn_tail_is_dropped)
{
	char path[128], mark[128];
	struct raft_entry e;
	int status;
	pid_t pid;

	log_close(s);
	s = NULL;
	pid = fork();
	if (pid == 0) {
		if (try_open() != TV_OK || append(1, 5, 1, 300) != TV_OK || append(6, 5, 1, 300) != TV_OK)
			_exit(1);
		s->seq--;			/* as if killed after the write, before its sync was reported */
		store_mark_set(s);
		kill(getpid(), SIGKILL);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	e = entry(9, 1, 40);
	path_of("log.0000000001", path, sizeof(path));
	flip(path, e.payload, e.size);
	ck_assert_msg(try_open() == TV_OK, "%s", why);
	ck_assert_uint_eq(m.last, 5);
	walk(1, 5);
	reopen();
	path_of("durable", mark, sizeof(mark));		/* a torn or lost mark says nothing */
	ck_assert_int_eq(truncate(mark, 5), 0);
	reopen();
	ck_assert_uint_eq(m.last, 5);
}
END_TEST

/* Writes into the second file, as if the power went before that was reported; the record is torn. */
static void
tear_second_file(void)
{
	char path[128];
	struct raft_entry e;
	int status;
	pid_t pid;

	log_close(s);
	s = NULL;
	pid = fork();
	if (pid == 0) {
		if (try_open() != TV_OK || append(m.last + 1, 5, 2, 1000) != TV_OK)
			_exit(1);
		s->seq--;
		store_mark_set(s);
		kill(getpid(), SIGKILL);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status));
	ck_assert(file_there(2));
	e = entry(m.last + 2, 2, 40);
	path_of("log.0000000002", path, sizeof(path));
	flip(path, e.payload, e.size);
}

/* A crash can leave a file with nothing but its head, between two others and, after another crash, as the oldest. */
START_TEST(files_without_records)
{
	char path[128], aside[128];

	no_thread = true;
	start_small(8192);
	ck_assert_int_eq(append(1, 5, 1, 1000), TV_OK);
	reopen();
	tear_second_file();
	reopen();
	ck_assert_uint_eq(m.last, 5);
	ck_assert_int_eq(append(6, 1, 3, 30000), TV_OK);	/* larger than the rest of the second file */
	ck_assert(file_there(3));
	reopen();
	ck_assert_uint_eq(m.last, 6);
	ck_assert_uint_eq(walk(1, 6), 5 + 3);
	path_of("log.0000000002", path, sizeof(path));
	path_of("aside", aside, sizeof(aside));
	ck_assert_int_eq(link(path, aside), 0);
	ck_assert_int_eq(log_compact(s, 5, 5, 1, &config), TV_OK);
	ck_assert(!file_there(1) && !file_there(2) && file_there(3));
	log_close(s);
	s = NULL;
	ck_assert_int_eq(rename(aside, path), 0);		/* as if the crash had come before its removal */
	ck_assert_msg(try_open() == TV_OK, "%s", why);
	ck_assert_uint_eq(walk(6, 6), 3);
	for (uint64_t next = 7; !file_there(5); next += 5)
		ck_assert_int_eq(append(next, 5, 4, 1000), TV_OK);
	ck_assert_int_eq(log_compact(s, s->last, s->last, 4, &config), TV_OK);
	ck_assert(!file_there(2) && !file_there(3) && !file_there(4));
	reopen();
	ck_assert_uint_eq(m.snapshot_term, 4);
}
END_TEST

/* -- the disk says no -- */

START_TEST(failed_write_is_final)
{
	struct rlimit small = { .rlim_cur = 4u << 20, .rlim_max = RLIM_INFINITY }, large = small;
	uint64_t next = 1, durable = 0;
	enum tv_err err;

	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &large), 0);
	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	while ((err = append(next, 20, 1, 4000)) == TV_OK) {
		durable = next + 19;
		next += 20;
		ck_assert_uint_lt(next, 100000);
	}
	ck_assert_int_eq(err, TV_ESYS);
	ck_assert_int_eq(append(next, 1, 1, 10), TV_ESYS);	/* and it stays so */
	log_close(s);
	s = NULL;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &large), 0);
	ck_assert_msg(try_open() == TV_OK, "%s", why);
	ck_assert_uint_ge(m.last, durable);
	walk(1, m.last);
}
END_TEST

/* The n-th call of the kind fails once and works again afterwards, as file systems do. */
static struct {
	int sync_left, write_left;	/* calls until the one that fails; 0: none fails */
	bool no_room;			/* for more blocks */
} fault;

/* In the place of the C library's, so that nobody in between can hide a failure by trying again. */
int
fdatasync(int fd)
{
	if (fault.sync_left > 0 && --fault.sync_left == 0) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

static ssize_t
faulty_write(int fd, const void *p, size_t n)
{
	/* One byte is the end of a file that Berkeley DB makes longer beforehand: a kindness that may fail. */
	if (n > 1 && fault.write_left > 0 && --fault.write_left == 0) {
		errno = EIO;
		return -1;
	}
	return write(fd, p, n);
}

/* Until the fault shows: appends, cuts, compacts.  Returns the last index that was acknowledged; *err why it ended. */
static uint64_t
work_until_fault(enum tv_err *err)
{
	uint64_t durable = 0;

	*err = TV_OK;
	for (unsigned i = 0; i < 30 && *err == TV_OK; i++) {
		*err = append(durable + 1, 5, 1, 300);
		if (*err == TV_OK)
			durable += 5;
		if (*err == TV_OK && i % 4 == 3)
			*err = log_compact(s, durable - 7, durable - 3, 1, &config);
	}
	return durable;
}

static void
fail_nth(int *left, int n)
{
	uint64_t durable;
	enum tv_err err;

	start_small(8192);
	*left = n;
	durable = work_until_fault(&err);
	if (*left == 0)
		ck_assert_int_eq(err, TV_ESYS);
	if (err != TV_OK) {
		ck_assert_int_eq(append(durable + 1, 1, 1, 10), TV_ESYS);	/* no acknowledgement ever after */
		ck_assert_int_eq(log_compact(s, 1, 1, 1, &config), TV_ESYS);
	}
	*left = 0;
	log_close(s);
	s = NULL;
	ck_assert_msg(try_open() == TV_OK, "fault %d: %s", n, why);
	ck_assert_uint_ge(m.last, durable);
	if (m.last != 0)
		walk(m.first, m.last);
	log_close(s);
	s = NULL;
	kit_remove_dir(dir);
	ck_assert_msg(try_open() == TV_OK, "%s", why);
}

START_TEST(each_sync_fails_in_turn)
{
	for (int n = 1; n <= 45; n++)
		fail_nth(&fault.sync_left, n);
}
END_TEST

int
fallocate(int fd, int mode, off_t at, off_t n)
{
	if (fault.no_room) {
		errno = EDQUOT;
		return -1;
	}
	return (int)syscall(SYS_fallocate, fd, mode, at, n);
}

/* The daemon would stop with its first writes, and so with each start: it waits instead.  A file with room is enough. */
START_TEST(next_file_could_not_be_made)
{
	char spare[100];

	goes_on = true;
	start_small(1u << 20);
	ck_assert_int_eq(append(1, 20, 1, 1000), TV_OK);
	log_close(s);
	s = NULL;
	fault.no_room = true;
	ck_assert_int_eq(try_open(), TV_ENOSPACE);
	ck_assert(strstr(why, "no space for the next file of the log in ") != NULL && strstr(why, dir) != NULL);
	snprintf(spare, sizeof(spare), "%s/spare", dir);
	ck_assert_int_eq(access(spare, F_OK), -1);
	goes_on = false;
	reopen();
	goes_on = true;
	fault.no_room = false;
	reopen();
	ck_assert_uint_eq(walk(1, 20), 20);
	start_small(0);
	ck_assert_int_eq(append(1, 20, 1, 1000), TV_OK);
	fault.no_room = true;
	reopen();
	fault.no_room = false;
}
END_TEST

/* It says only what was written whole. */
START_TEST(mark_beside_the_state)
{
	char folder[] = "/tmp/tvmarkXXXXXX", path[64];
	FILE *f;

	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/log-reaches", folder);
	ck_assert_uint_eq(state_mark_read(folder), 0);
	state_mark_write(folder, 48211);
	state_mark_write(folder, 48212);
	ck_assert_uint_eq(state_mark_read(folder), 48212);
	f = fopen(path, "r+");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fputc(1, f), 1);
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_uint_eq(state_mark_read(folder), 0);
	ck_assert_int_eq(truncate(path, 5), 0);
	ck_assert_uint_eq(state_mark_read(folder), 0);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(rmdir(folder), 0);
	state_mark_write(folder, 1);
	ck_assert_uint_eq(state_mark_read(folder), 0);
}
END_TEST

START_TEST(size_of_files)
{
	ck_assert_int_eq(append(1, 3, 1, 100), TV_OK);
	ck_assert_uint_eq(log_fits_from(s, 1u << 30), 1);
	ck_assert_uint_eq(log_fits_from(s, 0), 1);	/* the newest file counts always */
}
END_TEST

START_TEST(each_write_fails_in_turn)
{
	ck_assert_int_eq(db_env_set_func_write(faulty_write), 0);
	for (int n = 1; n <= 45; n++)
		fail_nth(&fault.write_left, n);
}
END_TEST

/* What others wrote is read, and what we write others read: any length, any alignment, any bytes. */
START_TEST(checksums_are_those_of_the_library)
{
	void *lib = dlopen("libdb-5.3.so", RTLD_LAZY | RTLD_NOLOAD);
	void *own = lib == NULL ? NULL : dlsym(lib, "__ham_func4");
	uint32_t (*theirs)(DB *, const void *, uint32_t) = NULL;
	uint8_t bytes[600];
	struct rng rng;

	if (own == NULL)
		return;			/* linked in, or made without the name: then ours is not used */
	memcpy(&theirs, &own, sizeof(theirs));
	ck_assert_msg(theirs != __ham_func4, "the library's function is asked for, not ours");
	rng_seed(&rng, 7);
	for (unsigned round = 0; round < 20; round++) {
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = round == 0 ? 0xff : (uint8_t)rng_u64(&rng);
		for (uint32_t n = 0; n < 520; n++) {
			const uint8_t *p = bytes + (n + round) % 16;

			ck_assert_uint_eq(store_sum(p, n), theirs(NULL, p, n));
			ck_assert_uint_eq(__ham_func4(NULL, p, n), store_sum(p, n));
		}
	}
	dlclose(lib);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("store_log");
	TCase *t = tcase_create("log");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, fresh);
	tcase_add_test(t, append_and_reopen);
	tcase_add_test(t, generation_comes_with_its_entries);
	tcase_add_test(t, truncation);
	tcase_add_test(t, files_come_and_go);
	tcase_add_test(t, large_entries);
	tcase_add_test(t, cuts_at_random);
	tcase_add_test(t, compaction);
	tcase_add_test(t, reset);
	tcase_add_test(t, reading);
	tcase_add_test(t, readers_beside_writer);
	tcase_add_test(t, held_reads_hold_up_nobody);
	tcase_add_test(t, compacting_while_writing);
	tcase_add_test(t, killed_writer_loses_nothing_acknowledged);
	tcase_add_test(t, spares_survive_a_kill);
	tcase_add_test(t, damaged_entry_is_named);
	tcase_add_test(t, wrong_record_is_named);
	tcase_add_test(t, lost_files_are_noticed);
	tcase_add_test(t, emptied_is_not_fresh);
	tcase_add_test(t, earlier_form_is_refused);
	tcase_add_test(t, torn_remains_are_cleared);
	tcase_add_test(t, files_without_records);
	tcase_add_test(t, damaged_write_ahead_log_is_noticed);
	tcase_add_test(t, damaged_length_at_the_head);
	tcase_add_test(t, torn_tail_is_dropped);
	tcase_add_test(t, mark_beside_the_state);
	tcase_add_test(t, size_of_files);
	tcase_add_test(t, failed_write_is_final);
	tcase_add_test(t, each_sync_fails_in_turn);
	tcase_add_test(t, next_file_could_not_be_made);
	tcase_add_test(t, each_write_fails_in_turn);
	tcase_add_test(t, checksums_are_those_of_the_library);
	suite_add_tcase(suite, t);
	r = srunner_create(suite);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
