/*
 * How fast the two stores are, without network: commits of the log, applies and reads of the state machine, snapshot,
 * restore and start.
 *
 *	bench_store [-l] [-n KEYS] [-b VALUE_BYTES] [DIRECTORY]
 *
 *	-l  the log alone
 *
 * The directory (default: one below TMPDIR or /tmp) must be on the disk of interest; it is filled and removed.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "common/record/mpack.h"
#include "raftd/fsm/fsm.h"
#include "raftd/store/store.h"

#define BATCH_MAX 512

struct bench {
	char dir[256], log_dir[300], state_dir[300], snap[300];
	unsigned keys, value_bytes;
	struct rng rng;
	uint8_t *value;
};

static void
die(const char *what)
{
	fprintf(stderr, "bench_store: %s\n", what);
	exit(1);
}

static double
seconds_since(struct mono start)
{
	return mono_seconds(mono_sub(clock_mono(), start));
}

/* Processor time of all threads so far. */
static double
cpu_seconds(void)
{
	struct rusage u;

	(void)getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void
remove_tree(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *de;

	while (d != NULL && (de = readdir(d)) != NULL) {
		char sub[600];

		snprintf(sub, sizeof(sub), "%s/%s", path, de->d_name);
		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
			continue;
		if (de->d_type == DT_DIR)
			remove_tree(sub);
		else
			unlink(sub);
	}
	if (d != NULL)
		closedir(d);
	rmdir(path);
}

/* -- the log -- */

static uint64_t
log_round(struct bench *b, struct log_store *s, uint64_t index, unsigned batch, unsigned rounds)
{
	struct raft_entry e[BATCH_MAX];
	struct log_batch w = { .entries = e, .count = batch };
	struct mono start = clock_mono(), one;
	double worst = 0, took, cpu = cpu_seconds();

	for (unsigned r = 0; r < rounds; r++) {
		for (unsigned i = 0; i < batch; i++)
			e[i] = (struct raft_entry){ .index = ++index, .term = 1, .type = RAFT_ENTRY_OP,
			    .size = b->value_bytes + 50, .payload = b->value };
		one = clock_mono();
		if (log_write(s, &w) != TV_OK)
			die("log_write failed");
		took = seconds_since(one);
		worst = took > worst ? took : worst;
	}
	took = seconds_since(start);
	cpu = cpu_seconds() - cpu;
	printf("log: commit of %3u entries   %7.3f ms, worst %6.2f ms, %8.0f entries/s, processor %6.1f us, %.2f us an entry\n",
	    batch, took / rounds * 1e3, worst * 1e3, batch * rounds / took, cpu / rounds * 1e6, cpu / rounds / batch * 1e6);
	return index;
}

static void
bench_log(struct bench *b)
{
	static const unsigned batches[] = { 1, 64, 256, 512 };
	struct log_options opt = { .dir = b->log_dir, .spares = true };
	struct log_store *s;
	struct log_meta m;
	uint64_t index = 0;
	struct mono start;
	char why[512];

	if (log_open(&opt, &s, &m, why, sizeof(why)) != TV_OK)
		die(why);
	for (unsigned i = 0; i < 4; i++)
		index = log_round(b, s, index, batches[i], batches[i] == 1 ? 2000 : 120000 / batches[i]);
	log_close(s);
	start = clock_mono();
	if (log_open(&opt, &s, &m, why, sizeof(why)) != TV_OK)
		die(why);
	printf("log: start with %lu entries   %.3f s\n", (unsigned long)m.last, seconds_since(start));
	log_close(s);
}

/* -- the state machine -- */

static struct fsm *
open_state(struct bench *b)
{
	struct fsm_options opt = { .dir = b->state_dir, .cache_bytes = 64u << 20, .datacenter = "dc1" };
	struct fsm *f;
	char why[512];

	if (fsm_open(&opt, &f, why, sizeof(why)) != TV_OK)
		die(why);
	return f;
}

static void
set_payload(struct bench *b, struct buf *out, unsigned key)
{
	char name[64];
	struct kv_apply q = { .Verb = KV_SET, .Value = span_of(b->value, b->value_bytes), .Now = 1 };
	struct buf args = BUF_INIT(1u << 20);

	snprintf(name, sizeof(name), "bench/key/%08u", key);
	q.Key = span_str(name);
	schema_pack(&kv_apply_schema, &q, &args);
	buf_reset(out);
	fsm_entry_write(out, OP_KV_APPLY, buf_span(&args));
	buf_done(&args);
}

/* Applies `total` sets in batches; keys in order, or at random. */
static double
apply_sets(struct bench *b, struct fsm *f, unsigned total, unsigned batch, bool in_order)
{
	static struct buf payload[BATCH_MAX];
	struct raft_entry e[BATCH_MAX];
	struct fsm_result res[BATCH_MAX];
	struct arena a = ARENA_INIT(64u << 20);
	double took = 0;

	for (unsigned done = 0; done < total; done += batch) {
		struct mono start;

		for (unsigned i = 0; i < batch; i++) {
			payload[i].max = 1u << 20;
			b->value[0] = (uint8_t)rng_u64(&b->rng);
			set_payload(b, &payload[i], in_order ? done + i : (unsigned)rng_below(&b->rng, b->keys));
			e[i] = (struct raft_entry){ .index = fsm_applied(f) + 1 + i, .term = 1, .type = RAFT_ENTRY_OP,
			    .size = (uint32_t)payload[i].len, .payload = payload[i].data };
		}
		arena_reset(&a);
		start = clock_mono();
		if (fsm_apply(f, e, batch, &a, res) != TV_OK)
			die("fsm_apply failed");
		took += seconds_since(start);
	}
	arena_done(&a);
	return took;
}

/* One key at random, by the state itself or a reader of it.  False: it is not in the cache. */
static bool
read_key(struct bench *b, struct fsm *f, struct arena *a, struct buf *args, struct buf *out)
{
	struct fsm_answer ans;
	struct kv_read q;
	char name[64];

	snprintf(name, sizeof(name), "bench/key/%08u", (unsigned)rng_below(&b->rng, b->keys));
	q = (struct kv_read){ .Key = span_str(name) };
	buf_reset(args);
	buf_reset(out);
	arena_reset(a);
	schema_pack(&kv_read_schema, &q, args);
	fsm_read(f, op_find(OP_KV_GET), buf_span(args), a, out, &ans);
	if (ans.err != TV_EAGAIN && (ans.err != TV_OK || out->len < b->value_bytes))
		die("fsm_read failed");
	return ans.err == TV_OK;
}

static void
bench_reads(struct bench *b, struct fsm *f)
{
	enum { N = 200000 };
	static const unsigned sizes[] = { 1, 8, 32 };
	struct arena a = ARENA_INIT(1u << 20);
	struct buf args = BUF_INIT(1000), out = BUF_INIT(1u << 20);
	struct fsm *r = fsm_reader(f);
	double start = cpu_seconds();
	unsigned missed = 0;

	if (r == NULL)
		die("fsm_reader failed");
	for (unsigned i = 0; i < N; i++)
		(void)read_key(b, f, &a, &args, &out);
	printf("state: reads of one key       %7.2f us of processor each\n", (cpu_seconds() - start) / N * 1e6);
	for (unsigned i = 0; i < 3; i++) {
		start = cpu_seconds();
		for (unsigned n = 0; n < N; n++) {
			if (n % sizes[i] == 0)
				fsm_read_begin(r, true);
			missed += !read_key(b, r, &a, &args, &out);
			if ((n + 1) % sizes[i] == 0)
				fsm_read_end(r);
		}
		printf("state: the same by a reader, %2u  %5.2f us, %u not in the cache\n", sizes[i],
		    (cpu_seconds() - start) / N * 1e6, missed);
	}
	fsm_reader_free(r);
	buf_done(&args);
	buf_done(&out);
	arena_done(&a);
}

static void
count_wake(void *ctx)
{
	++*(unsigned *)ctx;
}

/* The same applies with many watches on keys and prefixes that are not touched. */
static void
bench_watches(struct bench *b, struct fsm *f)
{
	enum { N = 20000 };
	struct buf args = BUF_INIT(1000);
	unsigned woken = 0;
	char name[64];
	double took;

	for (unsigned i = 0; i < N; i++) {
		struct kv_read q = { .Key = span_str(name) };

		snprintf(name, sizeof(name), "other/%08u", i);
		q.Key = span_str(name);
		buf_reset(&args);
		schema_pack(&kv_read_schema, &q, &args);
		if (fsm_watch(f, op_find(i % 2 == 0 ? OP_KV_GET : OP_KV_LIST), buf_span(&args), count_wake,
		    &woken) == NULL)
			die("fsm_watch failed");
	}
	took = apply_sets(b, f, 20480, 128, false);
	printf("state: set, %u watches      %7.2f us each, %u woken\n", (unsigned)N, took / 20480 * 1e6, woken);
	buf_done(&args);
}

static void
bench_snapshot(struct bench *b, struct fsm *f)
{
	struct mono start = clock_mono();
	struct fsm_snapshot *s;
	uint64_t index, term, bytes = 0, sum;
	char why[512];

	if (fsm_snapshot_begin(f, &s, &index, &term) != TV_OK || fsm_snapshot_write(s, b->snap, &bytes, &sum) != TV_OK)
		die("the snapshot failed");
	fsm_snapshot_end(s);
	printf("state: snapshot of %.1f MB    %.3f s\n", (double)bytes / 1e6, seconds_since(start));
	start = clock_mono();
	if (fsm_restore(f, b->snap, &index, &term, why, sizeof(why)) != TV_OK)
		die(why);
	printf("state: restore               %.3f s\n", seconds_since(start));
}

static void
bench_state(struct bench *b)
{
	static const unsigned batches[] = { 1, 16, 64, 128, 512 };
	struct fsm *f = open_state(b);
	uint64_t index, term;
	struct mono start;
	double took = apply_sets(b, f, b->keys, 128, true);

	printf("state: fill with %u keys of %u bytes  %.2f us each\n", b->keys, b->value_bytes, took / b->keys * 1e6);
	for (unsigned i = 0; i < 5; i++) {
		unsigned total = batches[i] == 1 ? 5000 : 40960;

		took = apply_sets(b, f, total, batches[i], false);
		printf("state: set, batch of %3u      %7.2f us each\n", batches[i], took / total * 1e6);
	}
	bench_reads(b, f);
	start = clock_mono();
	if (fsm_checkpoint(f, &index, &term) != TV_OK)
		die("the checkpoint failed");
	printf("state: checkpoint            %.3f s\n", seconds_since(start));
	bench_snapshot(b, f);
	bench_watches(b, f);
	fsm_close(f);
	start = clock_mono();
	f = open_state(b);
	printf("state: start                 %.3f s\n", seconds_since(start));
	fsm_close(f);
}

int
main(int argc, char **argv)
{
	struct bench b = { .keys = 100000, .value_bytes = 200 };
	const char *base = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
	bool log_alone = false;
	int c;

	while ((c = getopt(argc, argv, "ln:b:")) != -1) {
		if (c == 'l')
			log_alone = true;
		else if (c == 'n')
			b.keys = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'b')
			b.value_bytes = (unsigned)strtoul(optarg, NULL, 10);
		else
			return 2;
	}
	if (b.keys == 0 || b.value_bytes == 0 || b.value_bytes > 500000)
		die("-n and -b want 1 or more, -b at most 500000");
	if (optind < argc)
		base = argv[optind];
	snprintf(b.dir, sizeof(b.dir), "%s/bench-store-XXXXXX", base);
	if (mkdtemp(b.dir) == NULL)
		die("cannot create the directory");
	snprintf(b.log_dir, sizeof(b.log_dir), "%s/log", b.dir);
	snprintf(b.state_dir, sizeof(b.state_dir), "%s/state", b.dir);
	snprintf(b.snap, sizeof(b.snap), "%s/snapshot", b.dir);
	b.value = calloc(1, b.value_bytes + 64);
	rng_seed(&b.rng, 1);
	bench_log(&b);
	if (!log_alone)
		bench_state(&b);
	free(b.value);
	remove_tree(b.dir);
	return 0;
}
