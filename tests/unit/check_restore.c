/* Archives, hostile ones too; staging through the log; a restore that a crash at any point cannot break. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sodium.h>
#include <zlib.h>

#include "common/base/rng.h"
#include "raftd/fsm/copy/archive.h"
#include "raftd/fsm/copy/copy.h"
#include "raftd/fsm/copy/snapfile.h"
#include "raftd/fsm/page/page.h"
#include "raftd/fsm/table/record.h"
#include "raftd/fsm/table/table.h"
#include "tests/unit/fsm_kit.h"

#define ID1 "11111111-1111-4111-8111-111111111111"
#define ID2 "22222222-2222-4222-8222-222222222222"
#define STATE_MAX (64u << 20)
#define CHUNK 3000

static struct kit k;
static char archive[96], state[96], why[512];
static _Atomic uint64_t done;

static void
setup(void)
{
	kit_open(&k);
	snprintf(archive, sizeof(archive), "%s/archive", k.dir);
	snprintf(state, sizeof(state), "%s/state.bin", k.dir);
}

static void
teardown(void)
{
	kit_close(&k);
}

/* -- files -- */

static struct buf
slurp(const char *path)
{
	struct buf b = BUF_INIT(256u << 20);
	FILE *f = fopen(path, "r");
	size_t n;
	uint8_t *p;

	ck_assert_ptr_nonnull(f);
	while ((p = buf_room(&b, 65536)) != NULL && (n = fread(p, 1, 65536, f)) > 0)
		b.len += n;
	fclose(f);
	return b;
}

static void
spill(const char *path, struct span s)
{
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(s.p, 1, s.len, f), s.len);
	ck_assert_int_eq(fclose(f), 0);
}

/* The present state as a snapshot file and as an archive. */
static void
save(void)
{
	struct fsm_snapshot *s;
	uint64_t index, term, bytes, sum;

	ck_assert_int_eq(fsm_snapshot_begin(k.f, &s, &index, &term), TV_OK);
	fsm_snapshot_export(s);
	ck_assert_int_eq(fsm_snapshot_write(s, state, &bytes, &sum), TV_OK);
	fsm_snapshot_end(s);
	ck_assert_int_eq(archive_write(archive, state, span_str("{\"Version\":1}"), &bytes, &done), TV_OK);
}

/* -- entries -- */

static struct fsm_result
step(uint16_t op, const char *id, uint64_t bytes, struct span sum, uint64_t offset, struct span data)
{
	struct restore_step q = { .ID = span_str(id), .Bytes = bytes, .Checksum = sum, .Offset = offset, .Data = data };

	return kit_apply(&k, op, &q);
}

static void
begin(const char *id, struct span all)
{
	uint8_t sum[32];

	crypto_generichash(sum, sizeof(sum), all.p, all.len, NULL, 0);
	ck_assert_int_eq(step(OP_RESTORE_BEGIN, id, all.len, span_of(sum, sizeof(sum)), 0, SPAN_NONE).err, TV_OK);
}

static void
chunks(const char *id, struct span all, size_t from, size_t to)
{
	for (size_t at = from; at < to; at += CHUNK) {
		size_t n = all.len - at < CHUNK ? all.len - at : CHUNK;

		ck_assert_int_eq(step(OP_RESTORE_CHUNK, id, 0, SPAN_NONE, at, span_of(all.p + at, n)).err, TV_OK);
		arena_reset(&k.a);
	}
}

static void
stage(const char *id)
{
	struct buf all = slurp(archive);

	begin(id, buf_span(&all));
	chunks(id, buf_span(&all), 0, all.len);
	buf_done(&all);
}

static enum tv_err
load(const char *id)
{
	done = 0;
	return fsm_stage_load(k.f, id, STATE_MAX, &done, why, sizeof(why));
}

static void
commit(const char *id)
{
	uint64_t index = fsm_applied(k.f) + 1;

	ck_assert_msg(fsm_stage_swap(k.f, id, index, 1, why, sizeof(why)) == TV_OK, "%s", why);
	ck_assert_uint_eq(fsm_applied(k.f), index);
}

static void
restore(const char *id)
{
	stage(id);
	ck_assert_msg(load(id) == TV_OK, "%s", why);
	commit(id);
}

static void
fill(unsigned keys, const char *what)
{
	char name[32], value[300];

	for (unsigned i = 0; i < keys; i++) {
		snprintf(name, sizeof(name), "key/%05u", i);
		snprintf(value, sizeof(value), "%s-%u%200s", what, i, "");
		kit_put(&k, name, value);
		arena_reset(&k.a);
	}
}

/* -- what a restore does -- */

START_TEST(brings_everything_back)
{
	const char *session;
	struct fsm_stage st;
	unsigned fired = 0;
	struct buf b = BUF_INIT(100);
	uint64_t before, at;
	char id[37], kept[37];

	kit_node(&k, KIT_NODE, "10.0.0.1");
	kit_service(&k, KIT_NODE, "web1", "web", "v1");
	kit_check(&k, KIT_NODE, "c1", NULL, "passing");
	session = kit_session(&k, KIT_NODE, "release", 0);
	snprintf(kept, sizeof(kept), "%s", session);
	ck_assert(kit_verb(&k, KV_LOCK, "lock", "me", kept, 0));
	fill(300, "old");
	kit_verb(&k, KV_DELETE, "key/00001", NULL, NULL, 0);
	save();
	fill(100, "new");
	kit_put(&k, "later", "1");
	ck_assert(kit_bool(&k, OP_SESSION_DESTROY, &(struct session_destroy){ .ID = span_str(kept) }));
	before = kit_prefix_index(&k, "");
	schema_pack(&kv_read_schema, &(struct kv_read){ .Key = span_str("never") }, &b);
	ck_assert_ptr_nonnull(fsm_watch(k.f, op_find(OP_KV_GET), buf_span(&b), kit_fired, &fired));
	buf_done(&b);
	restore(ID1);
	ck_assert_uint_eq(fired, 1);
	ck_assert(!kit_has(&k, "later") && !kit_has(&k, "key/00001"));
	ck_assert(span_starts(kit_get(&k, "key/00000").Value, span_str("old-0")));
	ck_assert(kit_session_lives(&k, kept));
	ck_assert(span_eqs(kit_get(&k, "lock").Session, kept));
	/* No index goes back: each is at least that of the restore, which is above all that anybody has seen. */
	ck_assert_uint_gt(kit_prefix_index(&k, ""), before);
	ck_assert_uint_eq(kit_key_index(&k, "key/00000"), fsm_applied(k.f));
	ck_assert_uint_eq(kit_key_index(&k, "never"), fsm_applied(k.f));
	ck_assert(!fsm_staged(k.f, &st));
	ck_assert(fsm_last_restore(k.f, id, &at));
	ck_assert_str_eq(id, ID1);
	ck_assert_uint_eq(at, fsm_applied(k.f));
	ck_assert_uint_eq(k.f->tally[FT_KV], 300);
	ck_assert_uint_eq(k.f->tally[FT_SESSIONS], 1);
	ck_assert_uint_eq(k.f->tally[FT_SERVICES], 1);
	kit_put(&k, "goes", "on");
	ck_assert_uint_eq(kit_get(&k, "goes").ModifyIndex, at + 1);
	kit_reopen(&k);
	ck_assert(kit_has(&k, "goes"));
	ck_assert_uint_eq(kit_key_index(&k, "key/00000"), at);
}
END_TEST

/* Of a tree that goes in parts, those that come after a restore find another tree, and leave it alone. */
START_TEST(deletion_in_parts_ends)
{
	struct kv_apply q = { .Verb = KV_DELETE_PART, .Key = span_str("key/"), .Flags = 1 };
	struct kv_part part;
	struct fsm_result res;
	uint8_t next[64];
	struct rd r;

	fill(50, "old");
	save();
	res = kit_apply(&k, OP_KV_APPLY, &q);
	r = rd_span_over(res.value);
	ck_assert_int_eq(schema_unpack(&kv_part_schema, &r, &k.a, &part), TV_OK);
	ck_assert(!kit_has(&k, "key/00000") && kit_has(&k, "key/00001") && part.Next.len > 0);
	ck_assert_uint_le(part.Next.len, sizeof(next));
	memcpy(next, part.Next.p, part.Next.len);
	q.Value = span_of(next, part.Next.len);
	q.ModifyIndex = part.Newest;
	q.Flags = 1u << 20;
	restore(ID1);
	res = kit_apply(&k, OP_KV_APPLY, &q);
	r = rd_span_over(res.value);
	ck_assert_int_eq(schema_unpack(&kv_part_schema, &r, &k.a, &part), TV_OK);
	ck_assert_uint_eq(part.Next.len, 0);
	ck_assert_uint_eq(k.f->tally[FT_KV], 50);
	ck_assert(kit_has(&k, "key/00000") && kit_has(&k, "key/00049"));
}
END_TEST

/* The archive's index is far ahead of the new cluster's log. */
START_TEST(into_a_fresh_cluster)
{
	uint64_t archived, restored;

	kit_node(&k, "other", "10.0.0.9");
	fill(2000, "old");
	archived = kit_get(&k, "key/01999").ModifyIndex;
	save();
	fsm_close(k.f);
	k.f = NULL;
	{
		char dir[96];

		snprintf(dir, sizeof(dir), "%s/state", k.dir);
		kit_remove_dir(dir);
	}
	kit_reopen(&k);
	kit_put(&k, "own", "1");
	restore(ID1);
	ck_assert(!kit_has(&k, "own"));
	ck_assert_uint_lt(fsm_applied(k.f), archived);
	ck_assert_uint_eq(kit_get(&k, "key/01999").ModifyIndex, archived);
	restored = kit_key_index(&k, "key/01999");
	ck_assert_uint_gt(restored, archived);
	/* What is written now is newer than anything restored, also by its indexes. */
	kit_put(&k, "key/01999", "again");
	ck_assert_uint_gt(kit_get(&k, "key/01999").ModifyIndex, restored);
	kit_reopen(&k);
	kit_put(&k, "key/01999", "once more");
	ck_assert_uint_eq(kit_key_index(&k, "key/01999"), restored + 2);
	/* And once more, out of this cluster into itself. */
	save();
	restore(ID2);
	ck_assert_uint_gt(kit_key_index(&k, "key/01999"), restored + 2);
}
END_TEST

START_TEST(removed_servers_stay_removed)
{
	struct raft_peer gone = { .ID = span_str(ID1) }, archived = { .ID = span_str(ID2) };

	ck_assert(kit_bool(&k, OP_SERVER_TOMBSTONE, &archived));
	save();
	ck_assert(kit_bool(&k, OP_SERVER_TOMBSTONE, &gone));
	restore(ID1);
	ck_assert(fsm_server_tombstoned(k.f, gone.ID));
	ck_assert(fsm_server_tombstoned(k.f, archived.ID));	/* it is this cluster's own */
}
END_TEST

/* Two servers that apply the same entries, one of them loading early and one late, are equal afterwards. */
START_TEST(replicas_are_equal)
{
	uint8_t digests[2][32];

	for (unsigned i = 0; i < 2; i++) {
		if (i > 0) {
			kit_close(&k);
			setup();
		}
		kit_node(&k, KIT_NODE, "10.0.0.1");
		fill(200, "old");
		save();
		stage(ID1);
		if (i == 0)
			ck_assert_int_eq(load(ID1), TV_OK);
		fill(50, "between");
		if (i == 1)
			ck_assert_int_eq(load(ID1), TV_OK);
		commit(ID1);
		fill(10, "after");
		ck_assert_int_eq(fsm_digest(k.f, digests[i]), TV_OK);
	}
	ck_assert_mem_eq(digests[0], digests[1], 32);
}
END_TEST

/* What is in its place already does not show, and nothing that is done to the old one harms it. */
START_TEST(old_state_is_read_until_it_is_replaced)
{
	uint64_t index, at, term;

	fill(300, "old");
	save();
	fill(300, "new");
	stage(ID1);
	ck_assert_int_eq(load(ID1), TV_OK);
	at = fsm_applied(k.f);
	ck_assert_msg(fsm_stage_complete(k.f, ID1, at + 1, 1, why, sizeof(why)) == TV_OK, "%s", why);
	ck_assert(fsm_stage_completed(k.f, ID1, at + 1));
	ck_assert(span_starts(kit_get(&k, "key/00007").Value, span_str("new-7")));
	ck_assert_uint_eq(fsm_applied(k.f), at);
	ck_assert_int_eq(fsm_checkpoint(k.f, &index, &term), TV_OK);
	ck_assert_uint_eq(index, at);
	fsm_found_damaged(k.f, "it does not matter any more");
	fsm_trouble_text(k.f, why, sizeof(why));
	commit(ID1);
	ck_assert_int_eq(fsm_trouble(k.f), TV_OK);
	ck_assert(span_starts(kit_get(&k, "key/00007").Value, span_str("old-7")));
	fsm_restore_tidy(k.f);
	fill(20, "after");
	kit_reopen(&k);
	ck_assert(span_starts(kit_get(&k, "key/00007").Value, span_str("after-7")));
	ck_assert(span_starts(kit_get(&k, "key/00200").Value, span_str("old-200")));
}
END_TEST

/* Ready, but the process ends before it is taken; and one that is ready and replaced by another. */
START_TEST(ready_and_never_taken)
{
	uint64_t index, term, at, bytes, sum;
	struct fsm_snapshot *s;
	char id[37];

	fill(100, "old");
	save();
	fill(100, "new");
	ck_assert_int_eq(fsm_snapshot_begin(k.f, &s, &index, &term), TV_OK);
	ck_assert_int_eq(fsm_snapshot_write(s, state, &bytes, &sum), TV_OK);
	fsm_snapshot_end(s);
	stage(ID1);
	at = fsm_applied(k.f) + 1;
	ck_assert_int_eq(load(ID1), TV_OK);
	ck_assert_msg(fsm_stage_complete(k.f, ID1, at, 1, why, sizeof(why)) == TV_OK, "%s", why);
	kit_reopen(&k);
	ck_assert_uint_eq(fsm_applied(k.f), at);
	ck_assert(fsm_last_restore(k.f, id, &index));
	ck_assert(span_starts(kit_get(&k, "key/00007").Value, span_str("old-7")));
	stage(ID2);
	ck_assert_int_eq(load(ID2), TV_OK);
	ck_assert_msg(fsm_stage_complete(k.f, ID2, fsm_applied(k.f) + 1, 1, why, sizeof(why)) == TV_OK, "%s", why);
	ck_assert_msg(fsm_restore(k.f, state, &index, &term, why, sizeof(why)) == TV_OK, "%s", why);
	ck_assert_uint_eq(fsm_applied(k.f), index);
	ck_assert(span_starts(kit_get(&k, "key/00007").Value, span_str("new-7")));
	kit_put(&k, "goes", "on");
	kit_reopen(&k);
	ck_assert(kit_has(&k, "goes"));
}
END_TEST

/* -- staging -- */

START_TEST(staging_rules)
{
	struct buf all;
	struct fsm_stage st;
	uint8_t sum[32] = { 0 };
	uint64_t at;
	char id[37];

	fill(300, "old");
	save();
	all = slurp(archive);
	ck_assert_int_eq(step(OP_RESTORE_COMMIT, ID1, 0, SPAN_NONE, 0, SPAN_NONE).err, TV_ECONFLICT);
	ck_assert_int_eq(step(OP_RESTORE_CHUNK, ID1, 0, SPAN_NONE, 0, span_str("x")).err, TV_ECONFLICT);
	ck_assert_int_eq(step(OP_RESTORE_BEGIN, "short", 9, span_of(sum, 32), 0, SPAN_NONE).err, TV_EINVAL);
	begin(ID1, buf_span(&all));
	ck_assert_int_eq(step(OP_RESTORE_BEGIN, ID2, 9, span_of(sum, 32), 0, SPAN_NONE).err, TV_ECONFLICT);
	ck_assert_int_eq(step(OP_RESTORE_CHUNK, ID2, 0, SPAN_NONE, 0, span_str("x")).err, TV_ECONFLICT);
	ck_assert_int_eq(step(OP_RESTORE_CHUNK, ID1, 0, SPAN_NONE, 1, span_str("x")).err, TV_EINVAL);
	chunks(ID1, buf_span(&all), 0, CHUNK);
	chunks(ID1, buf_span(&all), 0, CHUNK);		/* sent again */
	ck_assert(fsm_staged(k.f, &st));
	ck_assert_uint_eq(st.received, CHUNK);
	ck_assert_int_eq(load(ID1), TV_ENOENT);		/* not whole */
	ck_assert_int_eq(step(OP_RESTORE_CHUNK, ID1, 0, SPAN_NONE, CHUNK, buf_span(&all)).err, TV_EINVAL);
	chunks(ID1, buf_span(&all), CHUNK, all.len);
	ck_assert_int_eq(load(ID2), TV_ENOENT);
	ck_assert(kit_bool(&k, OP_RESTORE_ABORT, &(struct restore_step){ .ID = span_str(ID2) }));
	ck_assert(fsm_staged(k.f, &st));
	ck_assert(kit_bool(&k, OP_RESTORE_ABORT, &(struct restore_step){ .ID = span_str(ID1) }));
	ck_assert(!fsm_staged(k.f, &st) && !fsm_last_restore(k.f, id, &at));
	ck_assert_int_eq(load(ID1), TV_ENOENT);
	buf_done(&all);
}
END_TEST

/* A long one is removed in steps, and nothing can be done with it meanwhile. */
START_TEST(aborts_in_steps)
{
	static uint8_t noise[200 * CHUNK];
	struct fsm_stage st;
	unsigned steps = 0;
	struct restore_step q = { .ID = span_str(ID1) };

	begin(ID1, span_of(noise, sizeof(noise)));
	chunks(ID1, span_of(noise, sizeof(noise)), 0, sizeof(noise));
	while (!kit_bool(&k, OP_RESTORE_ABORT, &q)) {
		steps++;
		ck_assert(fsm_staged(k.f, &st) && st.aborting);
		ck_assert_int_eq(step(OP_RESTORE_CHUNK, ID1, 0, SPAN_NONE, st.received, span_str("x")).err, TV_ECONFLICT);
		ck_assert_int_eq(load(ID1), TV_ENOENT);
		kit_reopen(&k);
	}
	ck_assert_uint_ge(steps, 2);
	ck_assert(!fsm_staged(k.f, &st));
}
END_TEST

/* Whoever catches up by a snapshot of the state gets what is staged with it. */
START_TEST(staging_travels_in_snapshots)
{
	struct fsm_snapshot *s;
	struct buf all;
	uint64_t index, term, bytes, sum;

	fill(300, "old");
	save();
	all = slurp(archive);
	fill(10, "new");
	begin(ID1, buf_span(&all));
	chunks(ID1, buf_span(&all), 0, 2 * CHUNK);
	ck_assert_int_eq(fsm_snapshot_begin(k.f, &s, &index, &term), TV_OK);
	ck_assert_int_eq(fsm_snapshot_write(s, state, &bytes, &sum), TV_OK);
	fsm_snapshot_end(s);
	kit_bool(&k, OP_RESTORE_ABORT, &(struct restore_step){ .ID = span_str(ID1) });
	ck_assert_int_eq(fsm_restore(k.f, state, &index, &term, why, sizeof(why)), TV_OK);
	chunks(ID1, buf_span(&all), 2 * CHUNK, all.len);
	ck_assert_msg(load(ID1) == TV_OK, "%s", why);
	/* A snapshot that is installed now takes the place of what was loaded. */
	ck_assert_int_eq(fsm_restore_load(k.f, state, why, sizeof(why)), TV_OK);
	ck_assert(!fsm_stage_loaded(k.f, ID1));
	ck_assert_msg(load(ID1) == TV_OK, "%s", why);
	commit(ID1);
	ck_assert(span_starts(kit_get(&k, "key/00005").Value, span_str("old-5")));
	buf_done(&all);
}
END_TEST

/* The source ends as staged_read() does when the restore is given up meanwhile. */
struct cut_source {
	struct span rest;
};

static enum tv_err
cut_read(void *ctx, void *p, size_t n)
{
	struct cut_source *s = ctx;

	if (s->rest.len < n)
		return TV_ENOENT;
	memcpy(p, s->rest.p, n);
	s->rest = span_of(s->rest.p + n, s->rest.len - n);
	return TV_OK;
}

static enum tv_err
take_all(void *ctx, struct span key, struct span val)
{
	(void)ctx;
	(void)key;
	(void)val;
	return TV_OK;
}

START_TEST(given_up_while_it_is_loaded)
{
	const struct restore_filter filter = { take_all, NULL };
	struct cut_source source;	/* outlives the assertion that opens it */
	struct fsm_snapshot *s;
	struct snap_in in;
	struct buf all;
	uint64_t index, term, bytes, sum;
	char dir[600];

	fill(300, "old");
	ck_assert_int_eq(fsm_snapshot_begin(k.f, &s, &index, &term), TV_OK);
	ck_assert_int_eq(fsm_snapshot_write(s, state, &bytes, &sum), TV_OK);
	fsm_snapshot_end(s);
	all = slurp(state);
	snprintf(dir, sizeof(dir), "%s.cut", state);
	source.rest = span_of(all.data, all.len / 2);
	ck_assert_int_eq(snap_in_open_with(&in, cut_read, &source, all.len), TV_OK);
	ck_assert_int_eq(restore_fill(k.f, dir, &in, &filter, why, sizeof(why)), TV_ENOENT);
	snap_in_close(&in);
	ck_assert_int_eq(state_remove_dir(dir), TV_OK);
	buf_done(&all);
}
END_TEST

START_TEST(commit_is_told_from_other_entries)
{
	struct buf args = BUF_INIT(4096), payload = BUF_INIT(8192);
	struct restore_step q = { .ID = span_str(ID1) };
	struct raft_entry e = { .type = RAFT_ENTRY_OP };
	char id[37];

	schema_pack(&restore_step_schema, &q, &args);
	for (unsigned i = 0; i < ops_count; i++) {
		buf_reset(&payload);
		fsm_entry_write(&payload, ops_all[i].code, buf_span(&args));
		e.payload = payload.data;
		e.size = (uint32_t)payload.len;
		ck_assert(fsm_is_restore(&e, id) == (ops_all[i].code == OP_RESTORE_COMMIT));
	}
	ck_assert_str_eq(id, ID1);
	buf_done(&args);
	buf_done(&payload);
}
END_TEST

/* -- bad archives -- */

static enum tv_err
check(uint64_t state_max)
{
	struct fsm_archive_facts facts;

	done = 0;
	return fsm_archive_check(archive, state_max, &facts, &done, why, sizeof(why));
}

START_TEST(sound_archive_is_accepted)
{
	struct fsm_archive_facts facts;
	struct buf all;
	uint8_t sum[32];

	fill(300, "old");
	save();
	all = slurp(archive);
	crypto_generichash(sum, sizeof(sum), all.data, all.len, NULL, 0);
	ck_assert_msg(fsm_archive_check(archive, STATE_MAX, &facts, &done, why, sizeof(why)) == TV_OK, "%s", why);
	ck_assert_uint_eq(facts.bytes, all.len);
	ck_assert_mem_eq(facts.checksum, sum, 32);
	ck_assert_uint_eq(facts.index, fsm_applied(k.f));
	ck_assert_uint_ge(facts.records, 300);
	buf_done(&all);
}
END_TEST

/* zlib's own view of it, checksum and all. */
static bool
unpack(struct span packed, struct buf *out)
{
	z_stream z = { .next_in = (Bytef *)(uintptr_t)packed.p, .avail_in = (uInt)packed.len };
	bool whole;

	buf_reset(out);
	ck_assert_int_eq(inflateInit2(&z, 15 + 16), Z_OK);
	z.next_out = buf_room(out, 1u << 20);
	z.avail_out = 1u << 20;
	whole = inflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_in == 0;
	out->len = z.total_out;
	ck_assert_int_eq(inflateEnd(&z), Z_OK);
	return whole;
}

static bool
unpacks_to(struct span packed, struct span plain)
{
	struct buf b = BUF_INIT(2u << 20);
	bool same = unpack(packed, &b) && span_eq(buf_span(&b), plain);

	buf_done(&b);
	return same;
}

START_TEST(damaged_archives_are_refused)
{
	struct buf all, plain = BUF_INIT(2u << 20);
	unsigned refused = 0;

	fill(40, "old");
	save();
	all = slurp(archive);
	ck_assert(unpack(buf_span(&all), &plain));
	for (size_t at = 0; at < all.len; at += 1 + all.len / 301) {
		if (at == 4 || (at >= 8 && at < 10))
			continue;			/* gzip: time, flags of speed, system: they mean nothing */
		all.data[at] ^= 0x11;
		spill(archive, buf_span(&all));
		/* Where the same bytes repeat a match may go further back and mean the same. */
		if (!unpacks_to(buf_span(&all), buf_span(&plain))) {
			ck_assert_msg(check(STATE_MAX) == TV_EFORMAT, "bit of byte %zu", at);
			ck_assert_uint_gt(strlen(why), 20);
			refused++;
		}
		all.data[at] ^= 0x11;
		spill(archive, span_of(all.data, at));
		ck_assert_msg(check(STATE_MAX) == TV_EFORMAT, "cut at %zu", at);
	}
	ck_assert_uint_gt(refused, 200);
	buf_u8(&all, 0);
	spill(archive, buf_span(&all));
	ck_assert_int_eq(check(STATE_MAX), TV_EFORMAT);
	spill(archive, span_str("this is no archive"));
	ck_assert_int_eq(check(STATE_MAX), TV_EFORMAT);
	ck_assert_msg(strncmp(why, "failed to decompress snapshot: ", 31) == 0, "%s", why);
	buf_done(&plain);
	buf_done(&all);
}
END_TEST

/* Hand-made tars. */
static void
member(struct buf *tar, const char *name, char type, uint64_t size, struct span body)
{
	uint8_t h[512] = { 0 };
	unsigned sum = 0;

	memcpy(h, name, strlen(name));
	snprintf((char *)h + 100, 8, "0000600");
	snprintf((char *)h + 124, 12, "%011llo", (unsigned long long)size);
	h[156] = (uint8_t)type;
	memcpy(h + 257, "ustar\0" "00", 8);
	memset(h + 148, ' ', 8);
	for (unsigned i = 0; i < 512; i++)
		sum += h[i];
	snprintf((char *)h + 148, 8, "%06o", sum);
	buf_put(tar, h, sizeof(h));
	buf_putspan(tar, body);
	while (tar->len % 512 != 0)
		buf_u8(tar, 0);
}

static void
sums_of(struct span meta, struct span bin, char *out, size_t cap)
{
	uint8_t h[2][32];
	char hex[2][65];

	crypto_hash_sha256(h[0], meta.p, meta.len);
	crypto_hash_sha256(h[1], bin.p, bin.len);
	sodium_bin2hex(hex[0], 65, h[0], 32);
	sodium_bin2hex(hex[1], 65, h[1], 32);
	snprintf(out, cap, "%s  meta.json\n%s  state.bin\n", hex[0], hex[1]);
}

static void
gzip(const struct buf *tar)
{
	gzFile z = gzopen(archive, "wb9");

	ck_assert_ptr_nonnull(z);
	ck_assert_int_eq(gzwrite(z, tar->data, (unsigned)tar->len), (int)tar->len);
	ck_assert_int_eq(gzclose(z), Z_OK);
}

static void
refused(struct buf *tar, const char *what)
{
	gzip(tar);
	ck_assert_int_ne(check(1u << 20), TV_OK);
	ck_assert_msg(strstr(why, what) != NULL, "%s", why);
	buf_reset(tar);
}

START_TEST(hostile_tars_are_refused)
{
	struct buf tar = BUF_INIT(64u << 20), bin;
	struct span meta = span_str("{}");
	static uint8_t zeros[8 << 20];
	char sums[256];

	fill(3, "old");
	save();
	bin = slurp(state);
	sums_of(meta, buf_span(&bin), sums, sizeof(sums));
	member(&tar, "meta.json", '0', meta.len, meta);
	member(&tar, "state.bin", '0', bin.len, buf_span(&bin));
	member(&tar, "SHA256SUMS", '0', strlen(sums), span_str(sums));
	gzip(&tar);
	ck_assert_msg(check(STATE_MAX) == TV_OK, "%s", why);	/* also without the empty blocks at the end */
	member(&tar, "state.bin", '0', bin.len, buf_span(&bin));
	refused(&tar, "twice");
	member(&tar, "meta.json", '0', meta.len, meta);
	member(&tar, "meta.json", '0', meta.len, meta);
	refused(&tar, "twice");
	member(&tar, "../meta.json", '0', meta.len, meta);
	refused(&tar, "unexpected member \"../meta.json\" in the archive, which has meta.json, state.bin and SHA256SUMS");
	member(&tar, "/etc/pa\nsswd", '0', meta.len, meta);
	refused(&tar, "unexpected member \"/etc/pa");
	member(&tar, "./", '5', 0, SPAN_NONE);			/* tar czf FILE . */
	refused(&tar, "unexpected member \"./\"");
	member(&tar, "state.bin", '2', 0, SPAN_NONE);		/* a link */
	refused(&tar, "unexpected member");
	member(&tar, "state.bin", '0', 1ull << 32, SPAN_NONE);	/* says more than there may be */
	refused(&tar, "larger than");
	member(&tar, "meta.json", '0', 1ull << 30, SPAN_NONE);
	refused(&tar, "larger than");
	member(&tar, "meta.json", '0', meta.len, meta);
	refused(&tar, "state.bin is missing");
	member(&tar, "state.bin", '0', bin.len, buf_span(&bin));
	refused(&tar, "meta.json is missing");
	member(&tar, "meta.json", '0', meta.len, meta);
	member(&tar, "state.bin", '0', bin.len, buf_span(&bin));
	refused(&tar, "SHA256SUMS is missing");
	member(&tar, "meta.json", '0', 3, span_str("{ }"));	/* not what was summed */
	member(&tar, "state.bin", '0', bin.len, buf_span(&bin));
	member(&tar, "SHA256SUMS", '0', strlen(sums), span_str(sums));
	refused(&tar, "does not match its checksum");
	member(&tar, "meta.json", '0', meta.len, meta);
	member(&tar, "state.bin", '0', bin.len, buf_span(&bin));
	member(&tar, "SHA256SUMS", '0', 76, span_str(sums));	/* one line of two */
	refused(&tar, "SHA256SUMS");
	/* Another program's: a sound archive of something else. */
	sums_of(meta, span_of(zeros, 4096), sums, sizeof(sums));
	member(&tar, "meta.json", '0', meta.len, meta);
	member(&tar, "state.bin", '0', 4096, span_of(zeros, 4096));
	member(&tar, "SHA256SUMS", '0', strlen(sums), span_str(sums));
	refused(&tar, "not of Triumvir's format");
	/* 8 MiB of nothing are 8 KiB packed. */
	buf_put(&tar, zeros, sizeof(zeros));
	refused(&tar, "state.bin is missing");
	member(&tar, "state.bin", '0', sizeof(zeros), span_of(zeros, sizeof(zeros)));
	refused(&tar, "larger than");
	buf_done(&tar);
	buf_done(&bin);
}
END_TEST

/* What a later version saved is neither damaged nor another program's. */
START_TEST(newer_archives_say_what_to_do)
{
	struct buf tar = BUF_INIT(64u << 20), bin;
	struct span meta = span_str("{}");
	char sums[256];

	fill(3, "old");
	for (unsigned form = 0; form < 2; form++) {
		save();
		bin = slurp(state);
		kit_snapshot_newer(bin.data, bin.len, form == 1);
		sums_of(meta, buf_span(&bin), sums, sizeof(sums));
		member(&tar, "meta.json", '0', meta.len, meta);
		member(&tar, "state.bin", '0', bin.len, buf_span(&bin));
		member(&tar, "SHA256SUMS", '0', strlen(sums), span_str(sums));
		refused(&tar, form == 1 ? "its state.bin is of version 77, newer than this server knows" :
		    "the state in it is of version 77, newer than this server knows");
		ck_assert_msg(strstr(why, "upgrade all servers to the version that saved it") != NULL, "%s", why);
		buf_done(&bin);
	}
	buf_done(&tar);
}
END_TEST

START_TEST(cut_in_the_head_of_the_state)
{
	struct buf tar = BUF_INIT(64u << 20), bin, all;

	fill(3, "old");
	save();
	bin = slurp(state);
	member(&tar, "meta.json", '0', 2, span_str("{}"));
	member(&tar, "state.bin", '0', bin.len, buf_span(&bin));
	tar.len = 3 * 512 + 10;			/* two members' heads, the first one's block, ten bytes of the second */
	refused(&tar, "the archive ends within state.bin");
	member(&tar, "meta.json", '0', 2, span_str("{}"));
	member(&tar, "state.bin", '0', bin.len, buf_span(&bin));
	gzip(&tar);
	all = slurp(archive);
	spill(archive, span_of(all.data, all.len / 4));
	ck_assert_int_ne(check(STATE_MAX), TV_OK);
	ck_assert_msg(strncmp(why, "failed to decompress snapshot: unexpected end of file", 48) == 0, "%s", why);
	buf_done(&all);
	buf_done(&tar);
	buf_done(&bin);
}
END_TEST

/* Records that no entry could have made would stop every server that meets them. */
START_TEST(unsound_records_are_refused)
{
	static const struct { const char *key; size_t klen; const char *val; size_t vlen; } cases[] = {
		{ "Kkey", 4, "\xc1", 1 }, { "Kkey", 4, "", 0 }, { "X" ID1, 37, "\x90", 1 }, { "Nnode", 5, "\x90", 1 },
		{ "Tkey", 4, "12345", 5 }, { "Vweb\0\1", 6, "", 0 }, { "Znode\0\1", 7, "", 0 }, { "\x01", 1, "", 0 },
		{ "U1234567", 8, "", 0 }, { "Ishort", 6, "name", 4 }, { "Cn\0\1c\0\1", 7, "\x91\x01", 2 },
		{ "Kkey", 4, "\x91\xa3key", 5 },	/* read without looking, it would be no record */
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct arena a = ARENA_INIT(1u << 20);
		enum fsm_tally tally;

		ck_assert_msg(record_check(span_of(cases[i].key, cases[i].klen), span_of(cases[i].val, cases[i].vlen), &a,
		    &tally) == TV_EFORMAT, "case %u", i);
		arena_done(&a);
	}
}
END_TEST

/* What could be read only with more memory than readers have would stop them as well. */
START_TEST(too_large_records_are_refused)
{
	enum { TAGS = 4 << 20 };
	struct arena a = ARENA_INIT(256u << 20);
	struct span *tags = calloc(TAGS, sizeof(*tags));
	struct service s = { .ID = span_str("s"), .Service = span_str("web"), .Tags = { tags, TAGS, true } };
	struct buf b = BUF_INIT(64u << 20);
	enum fsm_tally tally;
	struct tkey key;

	ck_assert_ptr_nonnull(tags);
	TKEY(&key, TBL_SERVICE, span_str("n"), span_str("s"));
	schema_pack(&service_schema, &s, &b);
	ck_assert_int_eq(record_check(span_of(key.b, key.len), buf_span(&b), &a, &tally), TV_EFORMAT);
	s.Tags.n = TAGS / 4;
	buf_reset(&b);
	schema_pack(&service_schema, &s, &b);
	arena_reset(&a);
	ck_assert_int_eq(record_check(span_of(key.b, key.len), buf_span(&b), &a, &tally), TV_OK);
	free(tags);
	buf_done(&b);
	arena_done(&a);
}
END_TEST

/* Puts a record into the state that no entry makes. */
static void
forge(const struct tkey *key)
{
	DB_ENV *e = k.f->env->dbenv;

	ck_assert_int_eq(e->txn_begin(e, NULL, &k.f->txn, 0), 0);
	tbl_put(k.f, key, SPAN_NONE);
	ck_assert_int_eq(k.f->txn->commit(k.f->txn, 0), 0);
	k.f->txn = NULL;
	ck_assert_int_eq(fsm_trouble(k.f), TV_OK);
}

/* Records of an archive that refer to nothing stop nobody. */
START_TEST(references_to_nothing)
{
	struct session_destroy q = { .ID = SPAN_NONE };
	struct tkey key;

	kit_node(&k, KIT_NODE, "10.0.0.1");
	q.ID = span_str(kit_session(&k, KIT_NODE, "release", 5 * KIT_SECOND));
	kit_service(&k, KIT_NODE, "web1", "web", "v1");
	kit_verb(&k, KV_LOCK, "a", "1", arena_cstr(&k.a, q.ID), 0);
	TKEY(&key, TBL_HOLD, q.ID, span_str("nothing"));
	forge(&key);
	TKEY(&key, TBL_INSTANCE, span_str("web"), span_str("a"), span_str("nothing"));
	forge(&key);
	ck_assert_uint_eq(kit_read(&k, OP_HEALTH_SERVICE, &(struct catalog_read){ .Name = span_str("web") }, NULL), 1);
	ck_assert(kit_bool(&k, OP_SESSION_DESTROY, &q));
	ck_assert_uint_eq(kit_get(&k, "a").Session.len, 0);
	ck_assert_int_eq(fsm_trouble(k.f), TV_OK);
}
END_TEST

/* All that the state machine itself writes is sound: the whole repertoire of the other tests, roughly. */
START_TEST(own_records_are_sound)
{
	struct tbl_scan s;
	struct tkey all = { 0 };
	struct span key, val;
	struct arena a = ARENA_INIT(1u << 20);
	const char *id;
	unsigned n = 0;

	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &(struct catalog_register){ .ID = span_str(ID1),
	    .Node = span_str(KIT_NODE), .Address = span_str("10.0.0.1") }));
	kit_service(&k, KIT_NODE, "web1", "web", "v1");
	kit_check(&k, KIT_NODE, "c1", "web1", "passing");
	kit_check(&k, KIT_NODE, "serfHealth", NULL, "passing");
	id = kit_session(&k, KIT_NODE, "delete", 5 * KIT_SECOND);
	kit_verb(&k, KV_LOCK, "a", "1", id, 0);
	kit_verb(&k, KV_LOCK, "b", "1", kit_session(&k, KIT_NODE, "release", 5 * KIT_SECOND), 0);
	kit_put(&k, "t", "1");
	kit_verb(&k, KV_DELETE, "t", NULL, NULL, 0);
	ck_assert(kit_bool(&k, OP_SESSION_DESTROY, &(struct session_destroy){ .ID = span_str(id) }));
	ck_assert(kit_bool(&k, OP_SERVER_TOMBSTONE, &(struct raft_peer){ .ID = span_str(ID2) }));
	tbl_scan_begin(k.f, &s, &all);
	while (tbl_next(&s, &key, &val)) {
		enum fsm_tally tally;

		if (key.p[0] != TBL_META)
			ck_assert_msg(record_check(key, val, &a, &tally) == TV_OK, "a record of table %c", key.p[0]);
		n++;
	}
	tbl_scan_end(&s);
	arena_done(&a);
	ck_assert_uint_gt(n, 15);
}
END_TEST

/* A bad archive that was staged all the same leaves the state as it is. */
START_TEST(bad_staged_archive_changes_nothing)
{
	uint8_t before[32], after[32];

	fill(20, "old");
	spill(archive, span_str("this is no archive, and it is staged all the same"));
	stage(ID1);
	ck_assert_int_eq(fsm_digest(k.f, before), TV_OK);
	ck_assert_int_eq(load(ID1), TV_EFORMAT);
	ck_assert(!fsm_stage_loaded(k.f, ID1));
	ck_assert_int_eq(fsm_stage_swap(k.f, ID1, fsm_applied(k.f) + 1, 1, why, sizeof(why)), TV_EINVAL);
	ck_assert_int_eq(fsm_digest(k.f, after), TV_OK);
	ck_assert_mem_eq(before, after, 32);
}
END_TEST

/* What is stored is not what was announced: said so, and it is the caller's to know whose fault that is. */
START_TEST(not_what_was_announced)
{
	struct buf all;
	uint8_t sum[32] = { 1 };

	fill(20, "old");
	save();
	all = slurp(archive);
	ck_assert_int_eq(step(OP_RESTORE_BEGIN, ID1, all.len, span_of(sum, sizeof(sum)), 0, SPAN_NONE).err, TV_OK);
	chunks(ID1, buf_span(&all), 0, all.len);
	buf_done(&all);
	ck_assert_int_eq(load(ID1), TV_ECORRUPT);
	ck_assert(!fsm_stage_loaded(k.f, ID1));
	ck_assert_int_eq(fsm_trouble(k.f), TV_OK);
	fsm_found_damaged(k.f, why);
	ck_assert_int_eq(fsm_trouble(k.f), TV_ECORRUPT);
	fsm_trouble_text(k.f, why, sizeof(why));	/* the next start rebuilds the state */
	ck_assert_ptr_nonnull(strstr(why, "not the one that was announced"));
	snprintf(why, sizeof(why), "%s/state/damaged", k.dir);
	fsm_close(k.f);
	k.f = NULL;
	ck_assert_int_eq(access(why, F_OK), 0);
	ck_assert_int_eq(unlink(why), 0);
}
END_TEST

/* No room is not the archive's fault, and with room it goes. */
START_TEST(loads_what_fits)
{
	fill(200, "old");
	save();
	stage(ID1);
	done = 0;
	ck_assert_int_eq(fsm_stage_load(k.f, ID1, 10000, &done, why, sizeof(why)), TV_ELIMIT);
	ck_assert_int_eq(load(ID1), TV_OK);
}
END_TEST

/* Without memory a record is not called malformed: the other servers would take it. */
START_TEST(no_memory_is_no_bad_record)
{
	struct arena none = ARENA_INIT(8), a = ARENA_INIT(1u << 20);
	struct tkey prefix;
	struct tbl_scan s;
	struct span key, val;
	enum fsm_tally tally;

	kit_service(&k, KIT_NODE, "web1", "web", "v1");
	tkey_begin(&prefix, TBL_SERVICE);
	tbl_scan_begin(k.f, &s, &prefix);
	ck_assert(tbl_next(&s, &key, &val));
	ck_assert_int_eq(record_check(key, val, &none, &tally), TV_ENOMEM);
	ck_assert_int_eq(record_check(key, val, &a, &tally), TV_OK);
	tbl_scan_end(&s);
	arena_done(&a);
	arena_done(&none);
}
END_TEST

/* -- crashes -- */

START_TEST(killed_at_any_time)
{
	uint8_t old[32], now[32];
	unsigned olds = 0, news = 0;
	uint64_t index;
	char id[37];

	fill(3000, "old");
	save();
	fill(1000, "new");
	stage(ID1);
	ck_assert_int_eq(fsm_digest(k.f, old), TV_OK);
	index = fsm_applied(k.f);
	fsm_close(k.f);
	k.f = NULL;
	for (unsigned delay_us = 0; delay_us < 120000 && news < 3; delay_us += 3000) {
		int status;
		pid_t pid = fork();

		ck_assert_int_ge(pid, 0);
		if (pid == 0) {
			kit_reopen(&k);
			if (delay_us == 0) {
				(void)load(ID1);
				(void)pause();	/* it comes before the swap once, however fast this is */
			}
			_exit(load(ID1) == TV_OK && fsm_stage_swap(k.f, ID1, index + 1, 1, why, sizeof(why)) == TV_OK ? 0 : 1);
		}
		usleep(delay_us);		/* where it is hit does not matter, only that places vary */
		kill(pid, SIGKILL);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
		kit_reopen(&k);
		if (fsm_applied(k.f) == index) {
			ck_assert_int_eq(fsm_digest(k.f, now), TV_OK);
			ck_assert_mem_eq(now, old, 32);
			olds++;
		} else {
			ck_assert_uint_eq(fsm_applied(k.f), index + 1);
			ck_assert(fsm_last_restore(k.f, id, &index));
			ck_assert(span_starts(kit_get(&k, "key/00000").Value, span_str("old-0")));
			news = 3;
		}
		fsm_close(k.f);
		k.f = NULL;
	}
	ck_assert_uint_gt(olds, 0);
	kit_reopen(&k);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("restore");
	TCase *t = tcase_create("restore");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, brings_everything_back);
	tcase_add_test(t, deletion_in_parts_ends);
	tcase_add_test(t, into_a_fresh_cluster);
	tcase_add_test(t, removed_servers_stay_removed);
	tcase_add_test(t, replicas_are_equal);
	tcase_add_test(t, old_state_is_read_until_it_is_replaced);
	tcase_add_test(t, ready_and_never_taken);
	tcase_add_test(t, staging_rules);
	tcase_add_test(t, aborts_in_steps);
	tcase_add_test(t, given_up_while_it_is_loaded);
	tcase_add_test(t, staging_travels_in_snapshots);
	tcase_add_test(t, commit_is_told_from_other_entries);
	tcase_add_test(t, sound_archive_is_accepted);
	tcase_add_test(t, damaged_archives_are_refused);
	tcase_add_test(t, hostile_tars_are_refused);
	tcase_add_test(t, newer_archives_say_what_to_do);
	tcase_add_test(t, cut_in_the_head_of_the_state);
	tcase_add_test(t, unsound_records_are_refused);
	tcase_add_test(t, own_records_are_sound);
	tcase_add_test(t, too_large_records_are_refused);
	tcase_add_test(t, references_to_nothing);
	tcase_add_test(t, bad_staged_archive_changes_nothing);
	tcase_add_test(t, not_what_was_announced);
	tcase_add_test(t, loads_what_fits);
	tcase_add_test(t, no_memory_is_no_bad_record);
	tcase_add_test(t, killed_at_any_time);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
