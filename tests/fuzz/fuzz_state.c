/*
 * The state machine.  The first byte says what the rest is:
 *
 *   0  entries [u8 operation | u8 how | u16be bytes | arguments]: whatever they hold, applying succeeds, the index
 *      moves, and reads and watches with such arguments answer or refuse
 *   1  records [u8 key bytes | u16be value bytes | key | value] of a snapshot with a right checksum: it is restored or
 *      refused, and what was restored can be read, or is found to be damaged
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/record/mpack.h"
#include "raftd/fsm/copy/snapfile.h"
#include "raftd/fsm/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

extern const unsigned fuzz_share;
const unsigned fuzz_share = 7;		/* each run makes a state of its own: 8 ms */

#define ENTRIES_MAX 64
#define UUID "00000000-0000-4000-8000-000000000001"

/* -- a state machine in memory -- */

struct world {
	char top[64], dir[80], snap[80];
	struct fsm *f;
	struct arena a;
	struct buf out;
	unsigned fired;
};

static void
world_open(struct world *w)
{
	struct fsm_options opt = { .dir = w->dir, .cache_bytes = 256u << 10, .datacenter = "dc1" };
	char why[512];

	memset(w, 0, sizeof(*w));
	snprintf(w->top, sizeof(w->top), "%s/tv-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (mkdtemp(w->top) == NULL)
		abort();
	snprintf(w->dir, sizeof(w->dir), "%s/state", w->top);
	snprintf(w->snap, sizeof(w->snap), "%s/snapshot", w->top);
	w->a = ARENA_INIT(16u << 20);
	buf_init(&w->out, 4u << 20);
	opt.dir = w->dir;
	if (fsm_open(&opt, &w->f, why, sizeof(why)) != TV_OK)
		abort();
}

/* Removes a directory of plain files. */
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
world_close(struct world *w)
{
	char fresh[96];

	fsm_close(w->f);
	arena_done(&w->a);
	buf_done(&w->out);
	unlink(w->snap);
	remove_dir(w->dir);
	snprintf(fresh, sizeof(fresh), "%s.new", w->dir);
	remove_dir(fresh);
	remove_dir(w->top);
}

static void
on_fire(void *ctx)
{
	++*(unsigned *)ctx;
}

/* sound: the state was made by entries, so answers are well formed.  Stored bytes go into answers as they are. */
static void
try_read(struct world *w, const struct op *op, struct span args, bool sound)
{
	struct fsm_answer ans;

	buf_reset(&w->out);
	fsm_read(w->f, op, args, &w->a, &w->out, &ans);
	TV_ASSERT(ans.index >= 1);
	if (sound && ans.err == TV_OK && op->answers == OP_LIST) {
		struct rd r = rd_span_over(buf_span(&w->out));

		mpr_skip(&r);
		TV_ASSERT(rd_end(&r) == TV_OK);
	}
	(void)fsm_watch(w->f, op, args, on_fire, &w->fired);	/* malformed arguments get none */
}

static bool
is_value(struct span args)
{
	struct rd r = rd_span_over(args);

	mpr_skip(&r);
	return rd_end(&r) == TV_OK;
}

static void
try_write(struct world *w, uint16_t code, struct span args, bool prepare)
{
	struct buf ready = BUF_INIT(1u << 20), payload = BUF_INIT(1u << 20);
	struct raft_entry e = { .index = fsm_applied(w->f) + 1, .term = 1, .type = RAFT_ENTRY_OP };
	struct fsm_result res;
	struct span why;

	if (prepare && fsm_prepare(w->f, &(uint16_t){ code }, args, (int64_t)e.index * 1000000000, UUID, &ready, &w->a, &why) == TV_OK)
		args = buf_span(&ready);
	/* Behind anything else the version would be another one: an entry that rightly stops who applies it. */
	if (fsm_entry_version(code, args, false) > 1 && !is_value(args))
		args = span_str("\x90");
	fsm_entry_write(&payload, code, args);
	e.payload = payload.data;
	e.size = (uint32_t)payload.len;
	TV_ASSERT(fsm_apply(w->f, &e, 1, &w->a, &res) == TV_OK);
	TV_ASSERT(fsm_applied(w->f) == e.index);
	buf_done(&ready);
	buf_done(&payload);
}

static void
entries(struct rd *r)
{
	struct world w;

	world_open(&w);
	for (unsigned n = 0; n < ENTRIES_MAX && rd_left(r) >= 4; n++) {
		uint8_t code = rd_u8(r);
		const struct op *op = op_find(code) != NULL ? op_find(code) : &ops_all[code % ops_count];
		uint8_t how = rd_u8(r);
		size_t len = rd_u16be(r);
		struct span args = rd_bytes(r, len < rd_left(r) ? len : rd_left(r));

		arena_reset(&w.a);
		if (op->kind == OP_WRITE)
			try_write(&w, op->code, args, (how & 1) != 0);
		else if (op->kind == OP_READ)
			try_read(&w, op, args, true);
	}
	world_close(&w);
}

/* -- a restored state -- */

static bool
write_snapshot(struct world *w, struct rd *r)
{
	struct snap_out s;
	uint64_t bytes, sum;

	if (snap_out_open(&s, w->snap, 0, 0) != TV_OK)
		abort();
	while (rd_left(r) >= 3) {
		size_t klen = rd_u8(r), vlen = rd_u16be(r);
		struct span key = rd_bytes(r, klen < rd_left(r) ? klen : rd_left(r));
		struct span val = rd_bytes(r, vlen < rd_left(r) ? vlen : rd_left(r));

		snap_out_record(&s, key, val);
	}
	return snap_out_close(&s, w->snap, &bytes, &sum) == TV_OK;
}

/* Every read without arguments that select anything; and a deletion of it all. */
static void
use_everything(struct world *w)
{
	struct buf args = BUF_INIT(1000);
	struct kv_apply all = { .Verb = KV_DELETE_TREE };

	for (unsigned i = 0; i < ops_count && w->f->failed == 0; i++) {
		if (ops_all[i].kind != OP_READ)
			continue;
		void *none = calloc(1, ops_all[i].args->size);

		buf_reset(&args);
		schema_pack(ops_all[i].args, none, &args);
		free(none);
		try_read(w, &ops_all[i], buf_span(&args), false);
	}
	buf_reset(&args);
	schema_pack(&kv_apply_schema, &all, &args);
	if (w->f->failed == 0) {
		struct buf payload = BUF_INIT(1000);
		struct raft_entry e = { .index = fsm_applied(w->f) + 1, .term = 1, .type = RAFT_ENTRY_OP };

		fsm_entry_write(&payload, OP_KV_APPLY, buf_span(&args));
		e.payload = payload.data;
		e.size = (uint32_t)payload.len;
		(void)fsm_apply(w->f, &e, 1, NULL, NULL);	/* damage may show only here */
		buf_done(&payload);
	}
	buf_done(&args);
}

static void
restored(struct rd *r)
{
	struct world w;
	uint64_t index, term;
	char why[512];

	world_open(&w);
	if (write_snapshot(&w, r) && fsm_restore(w.f, w.snap, &index, &term, why, sizeof(why)) == TV_OK)
		use_everything(&w);
	world_close(&w);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rd r = rd_over(data, size);
	uint8_t what = rd_u8(&r);

	if (r.err != TV_OK)
		return 0;
	if (what % 2 == 0)
		entries(&r);
	else
		restored(&r);
	return 0;
}
