/*
 * Readers beside the thread that applies.  Each record that is read is one that was there between begin and end of the reading; each
 * list is the one that another state machine gives at the index that the reader says, after the same entries.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <sodium.h>

#include "common/base/rng.h"
#include "common/record/mpack.h"
#include "raftd/fsm/state.h"
#include "tests/sim/fsm_batch.h"
#include "tests/unit/fsm_kit.h"

#define KEYS 3000
#define NODES 40
#define SESSIONS 20
#define BATCH 64
#define GROUP 3
#define PAYLOADS (BATCH * GROUP)
#define LISTS_MAX 4000
#define READERS 3

/* -- a disk that reads slowly, or not at all until it is let go -- */

static struct {
	_Atomic bool slow;		/* each read takes a millisecond */
	_Atomic bool hang;		/* the next read waits */
	pthread_mutex_t lock;
	pthread_cond_t moved;
	bool hangs, released;		/* with lock */
} disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER };

/* In place of the C library's. */
ssize_t
pread(int fd, void *p, size_t n, off_t at)
{
	static const struct timespec ms = { .tv_nsec = 1000000 };

	if (disk.slow)
		(void)nanosleep(&ms, NULL);
	if (atomic_exchange(&disk.hang, false)) {
		pthread_mutex_lock(&disk.lock);
		disk.hangs = true;
		pthread_cond_broadcast(&disk.moved);
		while (!disk.released)
			pthread_cond_wait(&disk.moved, &disk.lock);
		pthread_mutex_unlock(&disk.lock);
	}
	return syscall(SYS_pread64, fd, p, n, at);
}

/* -- the log: entry i is the same whoever makes it -- */

struct entry {
	unsigned ops, fail_at;		/* more than one operation: a group, which fails before that number */
	struct buf op[GROUP];
};

static void
add_op(struct entry *e, uint16_t code, const struct schema *schema, const void *rec)
{
	struct buf args = BUF_INIT(65536), *b = &e->op[e->ops];

	schema_pack(schema, rec, &args);
	buf_init(b, 65536);
	fsm_entry_write(b, code, buf_span(&args));
	buf_done(&args);
	e->ops++;
}

static struct span
session_name(unsigned n, char *text)
{
	snprintf(text, 40, "00000000-0000-4000-8000-%012u", n);
	return span_str(text);
}

static void
add_kv(struct entry *e, struct rng *g, int64_t now)
{
	static const enum kv_verb verbs[] = { KV_SET, KV_SET, KV_SET, KV_SET, KV_SET, KV_DELETE, KV_LOCK, KV_CAS };
	static uint8_t bytes[3000];
	struct kv_apply q = { .Verb = verbs[rng_below(g, 8)], .Now = now };
	uint64_t key = rng_below(g, KEYS);
	char name[40], id[40];

	snprintf(name, sizeof(name), "%c/%03u", (char)('a' + key % 4), (unsigned)key);
	if (rng_below(g, 150) == 0) {
		q.Verb = KV_DELETE_TREE;
		name[rng_below(g, 10) == 0 ? 2 : 4] = '\0';
	}
	q.Key = span_str(name);
	if (q.Verb == KV_LOCK)
		q.Session = session_name((unsigned)rng_below(g, SESSIONS), id);
	q.Value = span_of(bytes, rng_below(g, rng_below(g, 20) == 0 ? sizeof(bytes) : 300));
	memcpy(bytes, &now, sizeof(now));	/* read_record() expects it */
	add_op(e, OP_KV_APPLY, &kv_apply_schema, &q);
}

static void
add_register(struct entry *e, struct rng *g, int64_t now)
{
	static const char *const states[] = { "passing", "warning", "critical" };
	char node[20], service[20], check[20];
	struct catalog_register q = { .Address = span_str("192.0.2.1"), .Now = now, .has_service = true,
	    .has_check = rng_below(g, 2) == 0 };

	snprintf(node, sizeof(node), "n%u", (unsigned)rng_below(g, NODES));
	snprintf(service, sizeof(service), "s%u", (unsigned)rng_below(g, 5));
	snprintf(check, sizeof(check), "c%u", (unsigned)rng_below(g, 5));
	q.Node = span_str(node);
	q.Service = (struct service){ .ID = span_str(service), .Service = span_str(service), .Port = (int64_t)rng_below(g, 99),
	    .Weights = { 1, 1 } };
	q.Check = (struct check){ .Node = q.Node, .CheckID = span_str(check), .Name = span_str(check),
	    .Status = span_str(states[rng_below(g, 3)]), .ServiceID = q.Service.ID };
	add_op(e, OP_CATALOG_REGISTER, &catalog_register_schema, &q);
}

static void
add_any(struct entry *e, struct rng *g, int64_t now)
{
	struct catalog_deregister gone = { .Now = now };
	struct session s = { .Behavior = span_str("delete") };
	struct session_destroy end = { .Now = now };
	uint64_t kind = rng_below(g, 20);
	char node[20], id[40];

	snprintf(node, sizeof(node), "n%u", (unsigned)rng_below(g, NODES));
	gone.Node = s.Node = span_str(node);
	s.ID = end.ID = session_name((unsigned)rng_below(g, SESSIONS), id);
	if (kind < 12)
		add_kv(e, g, now);
	else if (kind < 17)
		add_register(e, g, now);
	else if (kind == 17)
		add_op(e, OP_CATALOG_DEREGISTER, &catalog_deregister_schema, &gone);
	else if (kind == 18)
		add_op(e, OP_SESSION_CREATE, &session_schema, &s);
	else
		add_op(e, OP_SESSION_DESTROY, &session_destroy_schema, &end);
}

static int64_t
time_of(uint64_t index)
{
	return (int64_t)(1000000 + index) * KIT_SECOND;
}

static void
make_entry(uint64_t index, struct entry *e)
{
	int64_t now = time_of(index);
	struct rng g;

	rng_seed(&g, index);
	e->ops = 0;
	add_any(e, &g, now);
	if (rng_below(&g, 8) != 0)
		return;
	while (e->ops < GROUP)
		add_any(e, &g, now);
	e->fail_at = (unsigned)rng_below(&g, 2 * GROUP);
}

static void
drop_entry(struct entry *e)
{
	for (unsigned i = 0; i < e->ops; i++)
		buf_done(&e->op[i]);
}

static void
apply_entry(struct fsm *f, const struct entry *e, struct arena *a)
{
	struct span ops[GROUP];

	batch_entry(f, 1);
	for (unsigned i = 0; i < e->ops; i++)
		ops[i] = buf_span(&e->op[i]);
	if (e->ops == 1)
		(void)batch_op(f, ops[0], a);		/* refused or not */
	else
		(void)batch_group(f, ops, e->ops, e->fail_at, a);
}

/* One transaction of n entries. */
static void
apply_batch(struct fsm *f, uint32_t n)
{
	struct arena a = ARENA_INIT(16u << 20);
	uint64_t next = fsm_applied(f) + 1;

	ck_assert_int_eq(batch_begin(f), 0);
	for (uint32_t i = 0; i < n; i++) {
		struct entry e;

		make_entry(next + i, &e);
		apply_entry(f, &e, &a);
		drop_entry(&e);
	}
	ck_assert_int_eq(batch_end(f), TV_OK);
	arena_done(&a);
}

/* -- what is read -- */

struct question {
	uint16_t op;
	const char *what;
};
static const struct question lists[] = {
	{ OP_KV_LIST, "" }, { OP_KV_LIST, "b/" }, { OP_KV_KEYS, "c/" }, { OP_KV_LIST, "d/1" }, { OP_CATALOG_NODES, "" },
	{ OP_CATALOG_SERVICES, "" }, { OP_CATALOG_SERVICE, "s1" }, { OP_HEALTH_SERVICE, "s2" }, { OP_HEALTH_STATE, "any" },
	{ OP_SESSION_LIST, "" }, { OP_CATALOG_NODE, "n7" },
};
#define LISTS (sizeof(lists) / sizeof(lists[0]))

static void
pack_question(const struct question *q, struct buf *out)
{
	const struct op *op = op_find(q->op);
	struct kv_read kv = { .Key = span_str(q->what) };
	struct catalog_read catalog = { .Name = span_str(q->what) };
	struct session_read session = { .ID = SPAN_NONE };

	buf_reset(out);
	schema_pack(op->args, op->args == &kv_read_schema ? (void *)&kv : op->args == &session_read_schema ? (void *)&session :
	    (void *)&catalog, out);
}

struct desk {				/* for asking */
	struct arena a;
	struct buf args, out;
	struct fsm_answer ans;
};

static void
desk_open(struct desk *d)
{
	d->a = ARENA_INIT(FSM_RECORD_MEMORY);
	buf_init(&d->args, 65536);
	buf_init(&d->out, 64u << 20);
}

static void
desk_close(struct desk *d)
{
	arena_done(&d->a);
	buf_done(&d->args);
	buf_done(&d->out);
}

static void
ask(struct desk *d, struct fsm *f, const struct question *q)
{
	pack_question(q, &d->args);
	arena_reset(&d->a);
	buf_reset(&d->out);
	fsm_read(f, op_find(q->op), buf_span(&d->args), &d->a, &d->out, &d->ans);
}

struct answer {
	uint64_t at, index;		/* applied; as it was said */
	unsigned question;
	uint8_t sum[16];
};

static struct world {
	struct kit k;
	_Atomic bool stop;
	pthread_mutex_t lock;
	struct answer answers[LISTS_MAX];	/* with lock */
	unsigned count;
	_Atomic uint64_t lists, records, values, refused;
} w;

static void
sum_of(const struct desk *d, uint8_t sum[16])
{
	crypto_generichash(sum, 16, d->out.data, d->out.len, NULL, 0);
}

static void *
read_lists(void *arg)
{
	struct fsm *r = fsm_reader(w.k.f);
	struct desk d;
	struct rng g;

	ck_assert_ptr_nonnull(r);
	rng_seed(&g, (uintptr_t)arg);
	desk_open(&d);
	while (!w.stop) {
		unsigned n = (unsigned)rng_below(&g, LISTS);
		struct answer a = { .question = n };

		fsm_read_begin(r, false);
		ask(&d, r, &lists[n]);
		ck_assert_msg(d.ans.err == TV_OK, "%s", tv_strerror(d.ans.err));
		a.at = fsm_applied(r);
		a.index = d.ans.index;
		fsm_read_end(r);
		sum_of(&d, a.sum);
		pthread_mutex_lock(&w.lock);
		if (w.count < LISTS_MAX)
			w.answers[w.count++] = a;
		pthread_mutex_unlock(&w.lock);
		w.lists++;
	}
	desk_close(&d);
	fsm_reader_free(r);
	return NULL;
}

/* What is there is whole: the key that was asked for, with the value that the entry at its index gave it. */
static void
check_record(struct desk *d, const char *name)
{
	struct rd r = rd_span_over(buf_span(&d->out));
	struct kv_entry e = { .Key = SPAN_NONE };
	int64_t now;

	if (mpr_array(&r) == 0)
		return;
	ck_assert_int_eq(schema_unpack(&kv_entry_schema, &r, &d->a, &e), TV_OK);
	ck_assert(span_eqs(e.Key, name));
	ck_assert_uint_le(e.ModifyIndex, d->ans.index);
	if (e.Value.len < sizeof(now))
		return;
	memcpy(&now, e.Value.p, sizeof(now));
	ck_assert_int_eq(now, time_of(e.ModifyIndex));
	w.values++;
}

/* What is there is of an index between the two, and decodes. */
static void
read_record(struct desk *d, struct fsm *r, struct rng *g, bool cached)
{
	char name[40];
	uint64_t key = rng_below(g, KEYS);
	struct question q = { OP_KV_GET, name };

	snprintf(name, sizeof(name), "%c/%03u", (char)('a' + key % 4), (unsigned)key);
	ask(d, r, &q);
	if (cached && d->ans.err == TV_EAGAIN) {
		w.refused++;
		return;
	}
	ck_assert_msg(d->ans.err == TV_OK, "%s", tv_strerror(d->ans.err));
	ck_assert_uint_le(d->ans.index, fsm_applied(w.k.f) + BATCH);
	check_record(d, name);
	w.records++;
}

static void *
read_records(void *arg)
{
	struct fsm *r = fsm_reader(w.k.f);
	bool cached = (uintptr_t)arg % 2 == 0;
	struct desk d;
	struct rng g;

	ck_assert_ptr_nonnull(r);
	rng_seed(&g, (uintptr_t)arg);
	desk_open(&d);
	while (!w.stop) {
		fsm_read_begin(r, cached);
		for (unsigned i = 0; i < 8; i++)
			read_record(&d, r, &g, cached);
		fsm_read_end(r);
	}
	desk_close(&d);
	fsm_reader_free(r);
	return NULL;
}

/* Replaces the state by a copy of itself, while others read it. */
static void
replace(struct fsm *f)
{
	char path[100], why[256];
	struct fsm_snapshot *s;
	uint64_t index, term, bytes, sum;

	snprintf(path, sizeof(path), "%s/snapshot", w.k.dir);
	ck_assert_int_eq(fsm_snapshot_begin(f, &s, &index, &term), TV_OK);
	ck_assert_int_eq(fsm_snapshot_write(s, path, &bytes, &sum), TV_OK);
	fsm_snapshot_end(s);
	ck_assert_int_eq(fsm_restore_load(f, path, why, sizeof(why)), TV_OK);
	ck_assert_int_eq(fsm_restore_ready(f, why, sizeof(why)), TV_OK);
	ck_assert_int_eq(fsm_restore_take(f, &index, &term, why, sizeof(why)), TV_OK);
	fsm_restore_tidy(f);
	ck_assert_uint_eq(index, fsm_applied(f));
}

static int
by_index(const void *a, const void *b)
{
	const struct answer *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

/* Asks a state machine that does nothing else the same at the same indexes. */
static void
compare(void)
{
	struct desk d;
	struct kit k;

	kit_open(&k);
	desk_open(&d);
	qsort(w.answers, w.count, sizeof(w.answers[0]), by_index);
	for (unsigned i = 0; i < w.count; i++) {
		const struct answer *a = &w.answers[i];
		uint8_t sum[16];

		while (fsm_applied(k.f) < a->at)
			apply_batch(k.f, a->at - fsm_applied(k.f) < BATCH ? (uint32_t)(a->at - fsm_applied(k.f)) : BATCH);
		ask(&d, k.f, &lists[a->question]);
		sum_of(&d, sum);
		ck_assert_msg(memcmp(sum, a->sum, sizeof(sum)) == 0, "list %u at %llu differs", a->question,
		    (unsigned long long)a->at);
		ck_assert_uint_eq(d.ans.index, a->index);
	}
	desk_close(&d);
	kit_close(&k);
}

/* As raftd has it, with the smallest cache that there is. */
static void
open_small(void)
{
	char why[256], dir[80];
	struct fsm_options opt = { .dir = dir, .cache_bytes = 256u << 10, .datacenter = "dc1", .sync = FSM_SYNC_THREAD };

	fsm_close(w.k.f);
	snprintf(dir, sizeof(dir), "%s/state", w.k.dir);
	ck_assert_msg(fsm_open(&opt, &w.k.f, why, sizeof(why)) == TV_OK, "%s", why);
}

static void
run(unsigned batches, unsigned restores, bool small)
{
	pthread_t list[READERS], record[READERS];

	memset(&w, 0, sizeof(w));
	pthread_mutex_init(&w.lock, NULL);
	kit_open(&w.k);
	if (small) {
		open_small();
		while (fsm_applied(w.k.f) < 2 * KEYS)
			apply_batch(w.k.f, BATCH);
	}
	disk.slow = small;
	for (uintptr_t i = 0; i < READERS; i++) {
		pthread_create(&list[i], NULL, read_lists, (void *)(i + 1));
		pthread_create(&record[i], NULL, read_records, (void *)i);
	}
	for (unsigned i = 0; i < batches; i++) {
		apply_batch(w.k.f, 1 + i * 7 % BATCH);
		(void)fsm_compact(w.k.f);
		if (restores > 0 && i % (batches / restores) == batches / restores - 1)
			replace(w.k.f);
	}
	w.stop = true;
	disk.slow = false;
	for (unsigned i = 0; i < READERS; i++) {
		pthread_join(list[i], NULL);
		pthread_join(record[i], NULL);
	}
	compare();
	ck_assert_uint_gt(w.lists, 0);
	ck_assert_uint_gt(w.records, 0);
	ck_assert_uint_gt(w.values, 0);
	kit_close(&w.k);
	pthread_mutex_destroy(&w.lock);
}

START_TEST(readers_beside_batches)
{
	run(400, 0, false);
}
END_TEST

START_TEST(readers_beside_restores)
{
	run(200, 5, false);
}
END_TEST

/* More than the cache holds, and a slow disk. */
START_TEST(readers_of_a_slow_disk)
{
	run(150, 0, true);
	ck_assert_uint_gt(w.refused, 0);
}
END_TEST

/* One key after the other, until one of them had to wait for the disk. */
static void *
read_cold_keys(void *arg)
{
	struct fsm *r = fsm_reader(w.k.f);
	struct question q = { OP_KV_GET, arg };
	struct desk d;

	desk_open(&d);
	for (unsigned i = 0; i < KEYS && disk.hang; i++) {
		snprintf(arg, 40, "a/%03u", i);
		fsm_read_begin(r, false);
		ask(&d, r, &q);
		ck_assert_int_eq(d.ans.err, TV_OK);
		fsm_read_end(r);
	}
	ck_assert(!disk.hang);
	desk_close(&d);
	fsm_reader_free(r);
	return NULL;
}

static void
apply_set(const char *key)
{
	static const uint8_t bytes[400];
	struct kv_apply q = { .Verb = KV_SET, .Key = span_str(key), .Value = span_of(bytes, sizeof(bytes)), .Now = w.k.now };

	arena_reset(&w.k.a);
	ck_assert_int_eq(kit_apply(&w.k, OP_KV_APPLY, &q).err, TV_OK);
}

/* -- what views keep, and what waits for them -- */

#define LARGE 500000
#define LARGE_KEYS 200
#define KEPT_BYTES_MAX (64u << 20)	/* as view.c has it */

static void
apply_large(unsigned number, uint8_t fill)
{
	static uint8_t bytes[LARGE];
	char key[40];
	struct kv_apply q = { .Verb = KV_SET, .Value = span_of(bytes, sizeof(bytes)), .Now = 1 };

	snprintf(key, sizeof(key), "large/%03u", number);
	q.Key = span_str(key);
	memset(bytes, fill, sizeof(bytes));
	arena_reset(&w.k.a);
	ck_assert_int_eq(kit_apply(&w.k, OP_KV_APPLY, &q).err, TV_OK);
}

static void *
overwrite_all(void *arg)
{
	for (unsigned i = 0; i < LARGE_KEYS; i++)
		apply_large(i, 2);
	return arg;
}

static size_t
kept(void)
{
	size_t bytes;

	pthread_mutex_lock(&w.k.f->views_lock);
	bytes = w.k.f->kept_bytes;
	pthread_mutex_unlock(&w.k.f->views_lock);
	return bytes;
}

/* A list is read slowly while more is overwritten than may be kept for it: the writer waits, and no write is lost. */
START_TEST(views_are_bounded)
{
	static const struct timespec ms = { .tv_nsec = 1000000 };
	struct question one = { OP_KV_LIST, "large/199" };
	uint64_t filled, waits_at;
	pthread_t writer;
	struct fsm *r;
	struct desk d;

	memset(&w, 0, sizeof(w));
	kit_open(&w.k);
	for (unsigned i = 0; i < LARGE_KEYS; i++)
		apply_large(i, 1);
	filled = fsm_applied(w.k.f);
	r = fsm_reader(w.k.f);
	desk_open(&d);
	fsm_read_begin(r, false);
	ask(&d, r, &one);
	pthread_create(&writer, NULL, overwrite_all, NULL);
	while (kept() <= KEPT_BYTES_MAX)
		(void)nanosleep(&ms, NULL);
	waits_at = fsm_applied(w.k.f);
	ck_assert_uint_le(kept(), KEPT_BYTES_MAX + LARGE + 4096);
	ck_assert_uint_lt(waits_at, filled + LARGE_KEYS);
	/* Of its index still, whatever was written since, and records at a time. */
	for (unsigned i = 0; i < 3; i++) {
		ask(&d, r, &one);
		ck_assert_int_eq(d.ans.err, TV_OK);
		ck_assert_uint_eq(d.ans.index, filled);
		ck_assert_uint_eq(d.out.data[d.out.len / 2], 1);
	}
	ck_assert_uint_le(fsm_applied(w.k.f), waits_at + 1);
	fsm_read_end(r);
	pthread_join(writer, NULL);
	ck_assert_uint_eq(fsm_applied(w.k.f), filled + LARGE_KEYS);
	ck_assert_uint_eq(kept(), 0);
	desk_close(&d);
	fsm_reader_free(r);
	kit_close(&w.k);
}
END_TEST

static void *
delete_large_tree(void *arg)
{
	struct kv_apply gone = { .Verb = KV_DELETE_TREE, .Key = span_str("a/"), .Now = 1 };

	arena_reset(&w.k.a);
	ck_assert_int_eq(kit_apply(&w.k, OP_KV_APPLY, &gone).err, TV_OK);
	return arg;
}

/* Before a large tree is deleted lists that see it are awaited; those that come meanwhile wait for its end. */
START_TEST(large_trees_wait_for_views)
{
	static const struct timespec ms = { .tv_nsec = 1000000 };
	struct question all = { OP_KV_KEYS, "a/" };
	struct fsm *before, *after;
	bool waits = false;
	pthread_t writer;
	uint64_t index;
	struct desk d;
	size_t len;
	char key[40];

	memset(&w, 0, sizeof(w));
	kit_open(&w.k);
	for (unsigned i = 0; i < KEYS; i++) {
		snprintf(key, sizeof(key), "a/%04u", i);
		apply_set(key);
	}
	index = fsm_applied(w.k.f);
	before = fsm_reader(w.k.f);
	after = fsm_reader(w.k.f);
	desk_open(&d);
	fsm_read_begin(before, false);
	ask(&d, before, &all);
	len = d.out.len;
	ck_assert_uint_gt(len, KEYS * 6);
	pthread_create(&writer, NULL, delete_large_tree, NULL);
	while (!waits) {
		pthread_mutex_lock(&w.k.f->views_lock);
		waits = w.k.f->views_shut;
		pthread_mutex_unlock(&w.k.f->views_lock);
		(void)nanosleep(&ms, NULL);
	}
	ask(&d, before, &all);
	ck_assert_uint_eq(d.out.len, len);
	ck_assert_uint_eq(d.ans.index, index);
	ck_assert_uint_eq(fsm_applied(w.k.f), index);
	fsm_read_end(before);
	fsm_read_begin(after, false);
	ask(&d, after, &all);
	ck_assert_int_eq(d.ans.err, TV_OK);
	ck_assert(fsm_applied(after) == index ? d.out.len == len : d.out.len < 10);
	fsm_read_end(after);
	pthread_join(writer, NULL);
	ck_assert_uint_eq(fsm_applied(w.k.f), index + 1);
	desk_close(&d);
	fsm_reader_free(before);
	fsm_reader_free(after);
	kit_close(&w.k);
}
END_TEST

/* -- one page hangs in the disk -- */

/* What was written is on the disk and nowhere else, but for what is in the cache: the hot key. */
static void
settle(void)
{
	uint64_t index, term;

	ck_assert_int_eq(fsm_checkpoint(w.k.f, &index, &term), TV_OK);
	apply_set("z/hot");
}

static void
open_filled(void)
{
	char key[40];

	memset(&w, 0, sizeof(w));
	disk.hangs = disk.released = false;
	kit_open(&w.k);
	open_small();
	for (unsigned i = 0; i < KEYS; i++) {
		snprintf(key, sizeof(key), "a/%03u", i);
		apply_set(key);
	}
	settle();
}

/* Starts it, and returns when it waits for the disk. */
static pthread_t
start_and_hang(void *(*work)(void *arg), void *arg)
{
	pthread_t t;

	disk.hang = true;
	pthread_create(&t, NULL, work, arg);
	pthread_mutex_lock(&disk.lock);
	while (!disk.hangs)
		pthread_cond_wait(&disk.moved, &disk.lock);
	pthread_mutex_unlock(&disk.lock);
	return t;
}

static void
release(pthread_t t)
{
	pthread_mutex_lock(&disk.lock);
	disk.released = true;
	pthread_cond_broadcast(&disk.moved);
	pthread_mutex_unlock(&disk.lock);
	pthread_join(t, NULL);
}

/* Meanwhile others read what is cached, list it, and write it. */
static void
others_go_on(void)
{
	struct question hot = { OP_KV_GET, "z/hot" }, all = { OP_KV_LIST, "z/" };
	struct fsm *r = fsm_reader(w.k.f);
	struct desk d;

	desk_open(&d);
	fsm_read_begin(r, false);
	ask(&d, r, &hot);
	fsm_read_end(r);
	for (unsigned i = 0; i < 300; i++) {
		fsm_read_begin(r, true);
		ask(&d, r, &hot);
		ck_assert_int_eq(d.ans.err, TV_OK);
		fsm_read_end(r);
		fsm_read_begin(r, false);
		ask(&d, r, &all);
		ck_assert_int_eq(d.ans.err, TV_OK);
		ck_assert_uint_gt(d.out.len, 400);
		fsm_read_end(r);
		apply_set("z/hot");
	}
	desk_close(&d);
	fsm_reader_free(r);
}

/* Who reads it waits, and nobody else, who only wants what is cached, or writes that. */
START_TEST(a_read_hangs)
{
	char cold[40];
	struct question hung = { OP_KV_GET, cold };
	struct fsm *r;
	struct desk d;
	pthread_t waiter;

	open_filled();
	r = fsm_reader(w.k.f);
	desk_open(&d);
	waiter = start_and_hang(read_cold_keys, cold);
	others_go_on();
	fsm_read_begin(r, true);
	ask(&d, r, &hung);
	ck_assert_int_eq(d.ans.err, TV_EAGAIN);
	fsm_read_end(r);
	release(waiter);
	desk_close(&d);
	fsm_reader_free(r);
	kit_close(&w.k);
}
END_TEST

static void *
write_snapshot(void *arg)
{
	char path[100];
	uint64_t bytes, sum;

	snprintf(path, sizeof(path), "%s/snapshot", w.k.dir);
	ck_assert_int_eq(fsm_snapshot_write(arg, path, &bytes, &sum), TV_OK);
	ck_assert_uint_gt(bytes, KEYS * 400);
	return NULL;
}

START_TEST(a_snapshot_hangs)
{
	uint64_t index, term, now;
	struct fsm_snapshot *s;
	char path[100], why[256];
	pthread_t writer;

	open_filled();
	ck_assert_int_eq(fsm_snapshot_begin(w.k.f, &s, &index, &term), TV_OK);
	writer = start_and_hang(write_snapshot, s);
	others_go_on();
	release(writer);
	fsm_snapshot_end(s);
	now = fsm_applied(w.k.f);
	ck_assert_uint_gt(now, index);
	snprintf(path, sizeof(path), "%s/snapshot", w.k.dir);
	ck_assert_int_eq(fsm_restore(w.k.f, path, &now, &term, why, sizeof(why)), TV_OK);
	ck_assert_uint_eq(now, index);
	kit_close(&w.k);
}
END_TEST

static void *
compact_all(void *arg)
{
	(void)arg;
	while (fsm_compact(w.k.f))
		;
	return NULL;
}

START_TEST(tidying_hangs)
{
	struct kv_apply gone = { .Verb = KV_DELETE_TREE, .Key = span_str("a/1"), .Now = 1 };
	pthread_t tidier;
	char why[256];

	open_filled();
	arena_reset(&w.k.a);
	ck_assert_int_eq(kit_apply(&w.k, OP_KV_APPLY, &gone).err, TV_OK);
	settle();
	tidier = start_and_hang(compact_all, NULL);
	others_go_on();
	release(tidier);
	fsm_trouble_text(w.k.f, why, sizeof(why));
	ck_assert_str_eq(why, "");
	kit_close(&w.k);
}
END_TEST

#define COLD_KEYS 24			/* less than half of the cache */

/* Keys all over the tree, in one batch. */
static void *
apply_cold_batch(void *arg)
{
	static const uint8_t bytes[400];
	struct buf args = BUF_INIT(65536), payload[COLD_KEYS];
	struct raft_entry e[COLD_KEYS];
	struct arena a = ARENA_INIT(16u << 20);

	(void)arg;
	for (unsigned i = 0; i < COLD_KEYS; i++) {
		char key[40];
		struct kv_apply q = { .Verb = KV_SET, .Value = span_of(bytes, sizeof(bytes)), .Now = 1 };

		snprintf(key, sizeof(key), "a/%03u", i * (KEYS / COLD_KEYS));
		q.Key = span_str(key);
		buf_reset(&args);
		schema_pack(&kv_apply_schema, &q, &args);
		buf_init(&payload[i], 65536);
		fsm_entry_write(&payload[i], OP_KV_APPLY, buf_span(&args));
		e[i] = (struct raft_entry){ .index = fsm_applied(w.k.f) + 1 + i, .term = 1, .type = RAFT_ENTRY_OP,
		    .payload = payload[i].data, .size = (uint32_t)payload[i].len };
	}
	ck_assert_int_eq(fsm_apply(w.k.f, e, COLD_KEYS, &a, NULL), TV_OK);
	for (unsigned i = 0; i < COLD_KEYS; i++)
		buf_done(&payload[i]);
	buf_done(&args);
	arena_done(&a);
	return NULL;
}

static void
add_number(void *ctx, const char *name, const char *value)
{
	uint64_t *fetched_and_read = ctx;

	if (strcmp(name, "batch_pages_fetched") == 0)
		fetched_and_read[0] = strtoull(value, NULL, 10);
	else if (strcmp(name, "batch_pages_read") == 0)
		fetched_and_read[1] = strtoull(value, NULL, 10);
}

/* A batch waits for its pages before it locks any; and for hardly one of them afterwards. */
START_TEST(a_batch_hangs)
{
	struct question hot = { OP_KV_GET, "z/hot" }, all = { OP_KV_LIST, "z/" };
	uint64_t before[2] = { 0 }, after[2] = { 0 };
	pthread_t writer;
	struct fsm *r;
	struct desk d;

	open_filled();
	fsm_info(w.k.f, add_number, before);
	r = fsm_reader(w.k.f);
	desk_open(&d);
	fsm_read_begin(r, false);
	ask(&d, r, &hot);
	fsm_read_end(r);
	writer = start_and_hang(apply_cold_batch, NULL);
	for (unsigned i = 0; i < 100; i++) {
		fsm_read_begin(r, true);
		ask(&d, r, &hot);
		ck_assert_int_eq(d.ans.err, TV_OK);
		fsm_read_end(r);
		fsm_read_begin(r, false);
		ask(&d, r, &all);
		ck_assert_int_eq(d.ans.err, TV_OK);
		fsm_read_end(r);
	}
	release(writer);
	fsm_info(w.k.f, add_number, after);
	ck_assert_uint_gt(after[0] - before[0], COLD_KEYS / 3);
	ck_assert_uint_le(after[1] - before[1], (after[0] - before[0]) / 4);
	desk_close(&d);
	fsm_reader_free(r);
	kit_close(&w.k);
}
END_TEST

/* Records that do not fit into the cache, which has some 80 pages, are read all the same, and copied. */
START_TEST(records_larger_than_the_cache)
{
	static uint8_t bytes[500000];
	struct kv_apply q = { .Verb = KV_SET, .Value = span_of(bytes, sizeof(bytes)), .Now = 1 };
	struct question one = { OP_KV_GET, "large/1" }, all = { OP_KV_LIST, "large/" };
	struct fsm *r;
	struct desk d;
	char key[40];

	open_filled();
	for (unsigned i = 0; i < 3; i++) {
		memset(bytes, (int)i, sizeof(bytes));
		snprintf(key, sizeof(key), "large/%u", i);
		q.Key = span_str(key);
		arena_reset(&w.k.a);
		ck_assert_int_eq(kit_apply(&w.k, OP_KV_APPLY, &q).err, TV_OK);
	}
	r = fsm_reader(w.k.f);
	desk_open(&d);
	fsm_read_begin(r, false);
	ask(&d, r, &one);
	ck_assert_int_eq(d.ans.err, TV_OK);
	ck_assert_uint_gt(d.out.len, sizeof(bytes));
	fsm_read_end(r);
	fsm_read_begin(r, false);
	ask(&d, r, &all);
	ck_assert_int_eq(d.ans.err, TV_OK);
	ck_assert_uint_gt(d.out.len, 3 * sizeof(bytes));
	fsm_read_end(r);
	desk_close(&d);
	fsm_reader_free(r);
	replace(w.k.f);
	kit_close(&w.k);
}
END_TEST

static Suite *
suite(void)
{
	Suite *s = suite_create("fsm_threads");
	TCase *t = tcase_create("fsm_threads"), *h = tcase_create("fsm_hang");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, readers_beside_batches);
	tcase_add_test(t, readers_beside_restores);
	tcase_add_test(t, readers_of_a_slow_disk);
	tcase_add_test(t, views_are_bounded);
	tcase_add_test(t, large_trees_wait_for_views);
	suite_add_tcase(s, t);
	tcase_set_timeout(h, 60);
	tcase_add_test(h, a_read_hangs);
	tcase_add_test(h, a_snapshot_hangs);
	tcase_add_test(h, tidying_hangs);
	tcase_add_test(h, a_batch_hangs);
	tcase_add_test(h, records_larger_than_the_cache);
	suite_add_tcase(s, h);
	return s;
}

int
main(void)
{
	SRunner *r = srunner_create(suite());
	int failed;

	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
