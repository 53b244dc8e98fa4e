/*
 * Bodies of transactions, as rpcd reads them and the state machine carries them out.  Whatever reads is applied or read: it answers
 * results or errors, and after errors the state is what it was.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sodium.h>

#include "common/base/assert.h"
#include "common/record/mpack.h"
#include "common/record/txn.h"
#include "raftd/fsm/kv/kv.h"
#include "raftd/fsm/table/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW 1000000000ll
#define UUID "00000000-0000-4000-8000-000000000001"
#define ARENA_MAX (16u << 20)

/* A state with something of each kind, made anew after what changed it. */
static struct world {
	char top[64], dir[80];
	struct fsm *f;
} world;

static void
apply(uint16_t op, struct span args, struct arena *a, struct fsm_result *res)
{
	struct buf payload = BUF_INIT(ARENA_MAX);
	struct raft_entry e = { .index = fsm_applied(world.f) + 1, .term = 1, .type = RAFT_ENTRY_OP };

	fsm_entry_write(&payload, op, args);
	e.payload = payload.data;
	e.size = (uint32_t)payload.len;
	TV_ASSERT(fsm_apply(world.f, &e, 1, a, res) == TV_OK);
	(void)kv_is_large_tree(world.f, &e);
	buf_done(&payload);
}

static void
fill(const char *json)
{
	struct buf args = BUF_INIT(ARENA_MAX), ready = BUF_INIT(ARENA_MAX);
	struct arena a = ARENA_INIT(ARENA_MAX);
	struct fsm_result res;
	struct span text;
	struct txn t;
	char why[80];

	TV_ASSERT(txn_from_json(span_str(json), &a, &t, why, sizeof(why)) == TV_OK);
	schema_pack(&txn_schema, &t, &args);
	TV_ASSERT(fsm_prepare(world.f, &(uint16_t){ OP_TXN_APPLY }, buf_span(&args), NOW, "", &ready, &a, &text) == TV_OK);
	apply(OP_TXN_APPLY, buf_span(&ready), &a, &res);
	arena_done(&a);
	buf_done(&args);
	buf_done(&ready);
}

static void
fill_session(void)
{
	struct session s = { .ID = span_str(UUID), .Node = span_str("n"), .NodeChecks = { .set = true },
	    .Behavior = span_str("release") };
	struct buf args = BUF_INIT(ARENA_MAX);
	struct arena a = ARENA_INIT(ARENA_MAX);
	struct fsm_result res;

	schema_pack(&session_schema, &s, &args);
	apply(OP_SESSION_CREATE, buf_span(&args), &a, &res);
	TV_ASSERT(res.err == TV_OK);
	arena_done(&a);
	buf_done(&args);
}

static void
remove_dir(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *de;

	while (d != NULL && (de = readdir(d)) != NULL)
		if (de->d_name[0] != '.')
			(void)unlinkat(dirfd(d), de->d_name, 0);
	if (d != NULL)
		closedir(d);
	(void)rmdir(path);
}

static void
world_close(void)
{
	if (world.f == NULL)
		return;
	fsm_close(world.f);
	world.f = NULL;
	remove_dir(world.dir);
	remove_dir(world.top);
}

static void
world_open(void)
{
	static bool at_exit;
	struct fsm_options opt = { .dir = world.dir, .cache_bytes = 256u << 10, .datacenter = "dc1" };
	char why[512];

	if (world.f != NULL)
		return;
	snprintf(world.top, sizeof(world.top), "%s/tv-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (mkdtemp(world.top) == NULL)
		abort();
	snprintf(world.dir, sizeof(world.dir), "%s/state", world.top);
	if (fsm_open(&opt, &world.f, why, sizeof(why)) != TV_OK || (!at_exit && atexit(world_close) != 0))
		abort();
	at_exit = true;
	fill("[{\"Node\":{\"Verb\":\"set\",\"Node\":{\"Node\":\"n\",\"Address\":\"a\"}}},"
	    "{\"Service\":{\"Verb\":\"set\",\"Node\":\"n\",\"Service\":{\"Service\":\"web\",\"Tags\":[\"a\"]}}},"
	    "{\"Check\":{\"Verb\":\"set\",\"Check\":{\"Node\":\"n\",\"CheckID\":\"c\",\"ServiceID\":\"web\"}}},"
	    "{\"KV\":{\"Verb\":\"set\",\"Key\":\"a\",\"Value\":\"MQ==\"}},{\"KV\":{\"Verb\":\"set\",\"Key\":\"t/a\"}}]");
	fill_session();
	fill("[{\"KV\":{\"Verb\":\"lock\",\"Key\":\"l\",\"Session\":\"" UUID "\"}}]");
}

/* All records but that of the position. */
static void
digest(uint8_t out[32])
{
	crypto_generichash_state h;
	struct tkey all = { 0 };
	struct tbl_scan s;
	struct span key, val;

	crypto_generichash_init(&h, NULL, 0, 32);
	tbl_scan_begin(world.f, &s, &all);
	while (tbl_next(&s, &key, &val)) {
		if (key.p[0] == TBL_META)
			continue;
		crypto_generichash_update(&h, key.p, key.len);
		crypto_generichash_update(&h, val.p, val.len);
	}
	tbl_scan_end(&s);
	crypto_generichash_final(&h, out, 32);
}

/* The answer reads, and is of one kind; true: results. */
static bool
answered(struct span value, const struct txn *t, struct arena *a)
{
	struct rd r = rd_span_over(value);
	struct buf json = BUF_INIT(ARENA_MAX);
	struct txn_reply reply = { .Results = { .n = 0 } };
	const struct txn_error *errors;

	TV_ASSERT(schema_unpack(&txn_reply_schema, &r, a, &reply) == TV_OK && rd_end(&r) == TV_OK);
	TV_ASSERT(reply.Results.set != reply.Errors.set && reply.Errors.n <= t->Ops.n);
	errors = reply.Errors.v;
	for (uint32_t i = 0; i < reply.Errors.n; i++)
		TV_ASSERT(errors[i].OpIndex < t->Ops.n && (i == 0 || errors[i].OpIndex > errors[i - 1].OpIndex));
	r = rd_span_over(value);
	TV_ASSERT(schema_json(&txn_reply_schema, &r, &json) == TV_OK);
	buf_done(&json);
	return reply.Results.set;
}

static void
write_it(const struct txn *t, struct span args, struct arena *a)
{
	uint64_t index[FX_COUNT], tally[FT_COUNT];
	struct buf ready = BUF_INIT(ARENA_MAX);
	uint8_t before[32], after[32];
	struct fsm_result res;
	struct span text;

	digest(before);
	memcpy(index, world.f->index, sizeof(index));
	memcpy(tally, world.f->tally, sizeof(tally));
	TV_ASSERT(fsm_prepare(world.f, &(uint16_t){ OP_TXN_APPLY }, args, 2 * NOW, "", &ready, a, &text) == TV_OK);
	apply(OP_TXN_APPLY, buf_span(&ready), a, &res);
	TV_ASSERT(res.err == TV_OK);
	if (answered(res.value, t, a)) {
		world_close();
	} else {
		digest(after);
		TV_ASSERT(memcmp(before, after, sizeof(before)) == 0);
		TV_ASSERT(memcmp(index, world.f->index, sizeof(index)) == 0 && memcmp(tally, world.f->tally, sizeof(tally)) == 0);
	}
	buf_done(&ready);
}

static void
read_it(const struct txn *t, struct span args, struct arena *a)
{
	struct buf out = BUF_INIT(ARENA_MAX);
	struct fsm_answer ans;

	fsm_read(world.f, op_find(OP_TXN_READ), args, a, &out, &ans);
	TV_ASSERT(ans.err == TV_OK);
	(void)answered(buf_span(&out), t, a);
	buf_done(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena a = ARENA_INIT(ARENA_MAX);
	struct buf args = BUF_INIT(ARENA_MAX);
	struct txn t;
	char why[80] = "";

	if (txn_from_json(span_of(data, size), &a, &t, why, sizeof(why)) == TV_OK) {
		world_open();
		schema_pack(&txn_schema, &t, &args);
		if (txn_writes(&t))
			write_it(&t, buf_span(&args), &a);
		else
			read_it(&t, buf_span(&args), &a);
	} else {
		TV_ASSERT(why[0] != '\0');
	}
	arena_done(&a);
	buf_done(&args);
	return 0;
}
