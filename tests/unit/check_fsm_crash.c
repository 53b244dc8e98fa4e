/*
 * Killed while applying: what is found is the state of the applied index that is found with it, and replaying the rest
 * gives the state of a machine that was never killed.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/rng.h"
#include "raftd/store/bdb/store_env.h"
#include "tests/unit/fsm_kit.h"

#define ENTRIES 6000

/* An environment of Berkeley DB that met damage in its recovery is not given back by its close. */
const char *__lsan_default_suppressions(void);
const char *
__lsan_default_suppressions(void)
{
	return "leak:libdb-5.3\n";
}

static struct kit k;

/* The log: entry i is the same whoever makes it. */
static void
make_payload(uint64_t index, struct buf *out)
{
	struct rng g;
	char key[32], value[400];
	struct kv_apply kv = { .Now = (int64_t)index * KIT_SECOND };
	struct catalog_register reg = { .Now = kv.Now, .Address = span_str("10.0.0.1"), .has_check = true };
	struct buf args = BUF_INIT(65536);
	uint16_t op = OP_KV_APPLY;

	rng_seed(&g, index);
	snprintf(key, sizeof(key), "k%u", (unsigned)rng_below(&g, 500));
	snprintf(value, sizeof(value), "%llu%*s", (unsigned long long)index, (int)rng_below(&g, 300), "");
	kv.Key = span_str(key);
	kv.Value = span_str(value);
	switch (rng_below(&g, 8)) {
	case 0:
		kv.Verb = KV_DELETE;
		break;
	case 1:
		key[2] = '\0';
		kv.Key = span_str(key);
		kv.Verb = index % 2 == 0 ? KV_DELETE_TREE : KV_DELETE_PART;
		kv.Value = SPAN_NONE;
		kv.Flags = 5000;
		break;
	case 2:
		op = OP_CATALOG_REGISTER;
		reg.Node = span_str(key);
		reg.Check.Node = reg.Node;
		reg.Check.CheckID = span_str("c");
		reg.Check.Status = span_str(index % 2 == 0 ? "passing" : "critical");
		break;
	default:
		kv.Verb = KV_SET;
	}
	if (op == OP_KV_APPLY)
		schema_pack(&kv_apply_schema, &kv, &args);
	else
		schema_pack(&catalog_register_schema, &reg, &args);
	fsm_entry_write(out, op, buf_span(&args));
	buf_done(&args);
}

/* Applies up to `last` in batches of varying size. */
static void
replay(struct fsm *f, uint64_t last)
{
	struct buf payload[40];
	struct raft_entry e[40];

	while (fsm_applied(f) < last) {
		uint64_t first = fsm_applied(f) + 1;
		uint32_t n = 1 + (uint32_t)(first * 7 % 40);

		if (first + n - 1 > last)
			n = (uint32_t)(last - first + 1);
		for (uint32_t i = 0; i < n; i++) {
			buf_init(&payload[i], 65536);
			make_payload(first + i, &payload[i]);
			e[i] = (struct raft_entry){ .index = first + i, .term = 1, .type = RAFT_ENTRY_OP,
			    .size = (uint32_t)payload[i].len, .payload = payload[i].data };
		}
		if (fsm_apply(f, e, n, NULL, NULL) != TV_OK)
			_exit(3);
		for (uint32_t i = 0; i < n; i++)
			buf_done(&payload[i]);
	}
}

/* Digest of a machine that applied `last` entries undisturbed. */
static void
reference(uint64_t last, uint8_t out[32])
{
	struct kit clean;

	kit_open(&clean);
	replay(clean.f, last);
	ck_assert_int_eq(fsm_digest(clean.f, out), TV_OK);
	kit_close(&clean);
}

static void
setup(void)
{
	kit_open(&k);
	fsm_close(k.f);
	k.f = NULL;
}

static void
teardown(void)
{
	kit_close(&k);
}

/* Runs a child that applies and checkpoints until it is killed, `wait_us` after it began. */
static void
run_and_kill(unsigned wait_us)
{
	int fd[2], status;
	char c;
	pid_t pid;

	ck_assert_int_eq(pipe(fd), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		uint64_t index, term, at;

		kit_reopen(&k);
		if (write(fd[1], "x", 1) != 1)
			_exit(2);
		for (at = fsm_applied(k.f); at < ENTRIES; at = fsm_applied(k.f)) {
			replay(k.f, at + 200 < ENTRIES ? at + 200 : ENTRIES);
			if (fsm_checkpoint(k.f, &index, &term) != TV_OK)
				_exit(2);
		}
		pause();
		_exit(2);
	}
	close(fd[1]);
	ck_assert_int_eq(read(fd[0], &c, 1), 1);
	close(fd[0]);
	usleep(wait_us);			/* where it is hit does not matter, only that places vary */
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status));
}

START_TEST(killed_again_and_again)
{
	uint8_t got[32], want[32];
	uint64_t last = 0;

	for (unsigned round = 0; round < 12; round++) {
		run_and_kill(1000 + round * 3100);
		kit_reopen(&k);
		ck_assert_uint_ge(fsm_applied(k.f), last - (last > 400 ? 400 : last));
		last = fsm_applied(k.f);
		ck_assert_int_eq(fsm_digest(k.f, got), TV_OK);
		reference(last, want);
		ck_assert_mem_eq(got, want, 32);
		fsm_close(k.f);
		k.f = NULL;
	}
	kit_reopen(&k);
	replay(k.f, ENTRIES);
	ck_assert_int_eq(fsm_digest(k.f, got), TV_OK);
	reference(ENTRIES, want);
	ck_assert_mem_eq(got, want, 32);
}
END_TEST

START_TEST(checkpointed_index_survives)
{
	uint64_t index, term;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		kit_reopen(&k);
		replay(k.f, 500);
		if (fsm_checkpoint(k.f, &index, &term) != TV_OK || index != 500)
			_exit(1);
		replay(k.f, 600);
		kill(getpid(), SIGKILL);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status));
	kit_reopen(&k);
	ck_assert_uint_ge(fsm_applied(k.f), 500);
}
END_TEST

/* The first byte of the first record, as another version would have written it. */
static void
set_version(const char *dir, uint8_t version)
{
	struct store_env_options eo = { .dir = dir, .log_file_bytes = 1u << 20, .log_buffer_bytes = 1u << 16 };
	struct store_env env;
	char errbuf[256], name[] = "Astate";
	uint8_t value[1024];
	DBT key = { .data = name, .size = 6 }, data = { .data = value, .ulen = sizeof(value), .flags = DB_DBT_USERMEM };
	DB *db;

	ck_assert_int_eq(store_env_open(&env, &eo, errbuf, sizeof(errbuf)), TV_OK);
	ck_assert_int_eq(store_env_db(&env, "state.db", false, &db), 0);
	ck_assert_int_eq(db->get(db, NULL, &key, &data, 0), 0);
	value[0] = version;
	ck_assert_int_eq(db->put(db, NULL, &key, &data, 0), 0);
	ck_assert_int_eq(db->close(db, 0), 0);
	store_env_close(&env);
}

static enum tv_err
open_again(const char *dir, char *errbuf, size_t cap)
{
	struct fsm_options opt = { .dir = dir, .cache_bytes = 1u << 20, .datacenter = "dc1" };

	return fsm_open(&opt, &k.f, errbuf, cap);
}

/* The numbers of a list of the meta record, in the order of these letters and without them; returns where the list ends. */
static const uint8_t *
without_letters(const uint8_t *list, const char *letters, uint8_t *out)
{
	*out++ = (uint8_t)strlen(letters);
	for (; *letters != '\0'; letters++, out += 8)
		for (unsigned i = 0; i < list[0]; i++)
			if (list[1 + 9 * i] == (uint8_t)*letters)
				memcpy(out, list + 2 + 9 * i, 8);
	return list + 1 + 9 * list[0];
}

/* The meta record as version 2 wrote it: its indexes were fewer, in an order of their own, and nothing was restored yet. */
static void
make_version_2(const char *dir)
{
	enum { FIELDS = 1 + 8 + 8, LIST = 1 + 7 * 8 };
	struct store_env_options eo = { .dir = dir, .log_file_bytes = 1u << 20, .log_buffer_bytes = 1u << 16 };
	struct store_env env;
	char errbuf[256], name[] = "Astate";
	uint8_t now[1024], old[FIELDS + 2 * LIST] = { 0 };
	DBT key = { .data = name, .size = 6 }, data = { .data = now, .ulen = sizeof(now), .flags = DB_DBT_USERMEM };
	DB *db;

	ck_assert_int_eq(store_env_open(&env, &eo, errbuf, sizeof(errbuf)), TV_OK);
	ck_assert_int_eq(store_env_db(&env, "state.db", false, &db), 0);
	ck_assert_int_eq(db->get(db, NULL, &key, &data, 0), 0);
	ck_assert_uint_eq(now[0], 4);
	memcpy(old, now, FIELDS);
	old[0] = 2;
	(void)without_letters(without_letters(now + FIELDS, "KNSCXVG", old + FIELDS), "KTNSCXG", old + FIELDS + LIST);
	data = (DBT){ .data = old, .size = sizeof(old) };
	ck_assert_int_eq(db->put(db, NULL, &key, &data, 0), 0);
	ck_assert_int_eq(db->close(db, 0), 0);
	store_env_close(&env);
}

/* A state of the version before is opened as it is, and goes on from there. */
START_TEST(version_before)
{
	char errbuf[512], dir[80];
	uint64_t applied, index;

	snprintf(dir, sizeof(dir), "%s/state", k.dir);
	ck_assert_int_eq(open_again(dir, errbuf, sizeof(errbuf)), TV_OK);
	ck_assert(kit_put(&k, "a", "b"));
	kit_node(&k, KIT_NODE, "10.0.0.1");
	applied = fsm_applied(k.f);
	index = kit_key_index(&k, "a");
	fsm_close(k.f);
	k.f = NULL;
	make_version_2(dir);
	ck_assert_msg(open_again(dir, errbuf, sizeof(errbuf)) == TV_OK, "%s", errbuf);
	ck_assert_uint_eq(fsm_applied(k.f), applied);
	ck_assert_uint_eq(fsm_index(k.f), applied);	/* nothing was restored: the log's index */
	ck_assert_uint_eq(kit_key_index(&k, "a"), index);
	ck_assert(!fsm_autopilot(k.f, &(struct autopilot_config){ 0 }));
	ck_assert(!fsm_staged(k.f, &(struct fsm_stage){ 0 }));
	ck_assert(kit_put(&k, "c", "d"));
	ck_assert_uint_eq(kit_key_index(&k, "c"), applied + 1);
	kit_reopen(&k);				/* as the present version wrote it */
	ck_assert_uint_eq(fsm_applied(k.f), applied + 1);
	ck_assert(kit_has(&k, "a") && kit_has(&k, "c"));
}
END_TEST

/* Told apart: a state of a newer version is refused, a damaged one can be set aside and made anew (S89). */
START_TEST(newer_or_damaged)
{
	char errbuf[512], dir[80], aside[96], mark[96], path[128];
	FILE *f;

	snprintf(dir, sizeof(dir), "%s/state", k.dir);
	ck_assert_int_eq(open_again(dir, errbuf, sizeof(errbuf)), TV_OK);
	ck_assert(kit_put(&k, "a", "b"));
	fsm_close(k.f);
	k.f = NULL;
	set_version(dir, 200);
	ck_assert_int_eq(open_again(dir, errbuf, sizeof(errbuf)), TV_EINVAL);
	ck_assert_ptr_nonnull(strstr(errbuf, "newer version of raftd"));
	set_version(dir, 0);
	ck_assert_int_eq(open_again(dir, errbuf, sizeof(errbuf)), TV_ECORRUPT);
	ck_assert_ptr_null(strstr(errbuf, "newer"));
	set_version(dir, 4);
	ck_assert_int_eq(open_again(dir, errbuf, sizeof(errbuf)), TV_OK);
	ck_assert(kit_has(&k, "a"));
	fsm_close(k.f);
	/* Found damaged while in use: the next start does not wait until it reads that page again. */
	snprintf(mark, sizeof(mark), "%s/damaged", dir);
	f = fopen(mark, "w");
	ck_assert_ptr_nonnull(f);
	fclose(f);
	ck_assert_int_eq(open_again(dir, errbuf, sizeof(errbuf)), TV_ECORRUPT);
	ck_assert_ptr_nonnull(strstr(errbuf, "found damaged while it was in use"));
	ck_assert_int_eq(fsm_set_aside(dir), TV_OK);
	ck_assert_int_eq(open_again(dir, errbuf, sizeof(errbuf)), TV_OK);
	ck_assert_uint_eq(fsm_applied(k.f), 0);
	snprintf(aside, sizeof(aside), "%s.damaged", dir);
	snprintf(path, sizeof(path), "%s/state.db", aside);
	ck_assert_int_eq(access(path, F_OK), 0);
	fsm_forget_aside(k.f);
	ck_assert_int_ne(access(aside, F_OK), 0);
	ck_assert_int_eq(fsm_trouble(k.f), TV_OK);
}
END_TEST

START_TEST(batches_do_not_matter)
{
	uint8_t got[32], want[32];

	kit_reopen(&k);
	for (uint64_t i = 1; i <= 300; i++)
		replay(k.f, i);			/* one by one */
	ck_assert_int_eq(fsm_digest(k.f, got), TV_OK);
	reference(300, want);
	ck_assert_mem_eq(got, want, 32);
}
END_TEST

/* -- damage in the middle of the write-ahead log -- */

#define SMALL_LAST 4000

static char open_why[512];

static struct fsm *
open_files(uint64_t cache, uint32_t file_bytes, enum tv_err *err)
{
	char dir[96];
	struct fsm_options opt = { .dir = dir, .cache_bytes = cache, .datacenter = "dc1", .log_file_bytes = file_bytes,
	    .log_buffer_bytes = file_bytes > 0 ? 16384 : 0 };
	struct fsm *f = NULL;

	snprintf(dir, sizeof(dir), "%s/state", k.dir);
	*err = fsm_open(&opt, &f, open_why, sizeof(open_why));
	return *err == TV_OK ? f : NULL;
}

static struct fsm *
open_small(uint64_t cache, enum tv_err *err)
{
	return open_files(cache, 0, err);
}

static void
wide_payload(uint64_t index, struct buf *out)
{
	char key[32], value[900];
	struct kv_apply kv = { .Verb = KV_SET, .Now = (int64_t)index * KIT_SECOND };
	struct buf args = BUF_INIT(65536);

	snprintf(key, sizeof(key), "w%05u", (unsigned)(index * 7919 % 3001));
	snprintf(value, sizeof(value), "%llu%*s", (unsigned long long)index, 400 + (int)(index % 400), "");
	kv.Key = span_str(key);
	kv.Value = span_str(value);
	schema_pack(&kv_apply_schema, &kv, &args);
	fsm_entry_write(out, OP_KV_APPLY, buf_span(&args));
	buf_done(&args);
}

static bool
replay_wide(struct fsm *f, uint64_t last)
{
	for (uint64_t i = fsm_applied(f) + 1; i <= last; i++) {
		struct buf payload = BUF_INIT(65536);
		struct raft_entry e = { .index = i, .term = 1, .type = RAFT_ENTRY_OP };
		enum tv_err err;

		wide_payload(i, &payload);
		e.size = (uint32_t)payload.len;
		e.payload = payload.data;
		err = fsm_apply(f, &e, 1, NULL, NULL);
		buf_done(&payload);
		if (err != TV_OK)
			return false;
	}
	return true;
}

static void
make_small(uint64_t cache)
{
	uint64_t index, term;
	enum tv_err err;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct fsm *f = open_small(cache, &err);

		if (f == NULL || !replay_wide(f, 1000) || fsm_checkpoint(f, &index, &term) != TV_OK)
			_exit(1);
		if (!replay_wide(f, SMALL_LAST))
			_exit(1);
		kill(getpid(), SIGKILL);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status));
}

static void
copy_dir(const char *from, const char *to)
{
	char command[400];

	snprintf(command, sizeof(command), "rm -rf '%s' && cp -r '%s' '%s'", to, from, to);
	ck_assert_int_eq(system(command), 0);
}

static void
flip_wal(const char *dir, uint64_t permille)
{
	char path[200];
	struct stat st;
	uint8_t byte;
	off_t at;
	int fd;

	snprintf(path, sizeof(path), "%s/log.0000000001", dir);
	fd = open(path, O_RDWR);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	at = (off_t)((uint64_t)st.st_size * permille / 1000);
	ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
	byte ^= 0x10;
	ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

/*
 * Recovery takes some damage for the end of the log.  The state of an earlier index is as good: the entries are applied
 * again.  One that is a mixture, because pages of later entries went to the disk, must not be taken for it.
 */
START_TEST(damaged_write_ahead_log_is_noticed)
{
	/* Pages of later entries go to the disk between checkpoints, or they do not. */
	static const uint64_t caches[] = { 1, 16u << 20 };
	uint64_t cache = caches[_i];
	char dir[96], whole[96];
	uint8_t got[32], want[32];
	unsigned noticed = 0, replayed = 0;
	uint64_t end;
	enum tv_err err;
	struct fsm *f;

	snprintf(dir, sizeof(dir), "%s/state", k.dir);
	snprintf(whole, sizeof(whole), "%s/whole", k.dir);
	kit_remove_dir(dir);
	f = open_small(cache, &err);
	ck_assert_ptr_nonnull(f);
	ck_assert(replay_wide(f, SMALL_LAST));
	ck_assert_int_eq(fsm_digest(f, want), TV_OK);
	fsm_close(f);
	kit_remove_dir(dir);
	make_small(cache);
	copy_dir(dir, whole);
	f = open_small(cache, &err);			/* a kill alone is none */
	ck_assert_ptr_nonnull(f);
	end = fsm_applied(f);
	ck_assert_uint_gt(end, 1000);
	fsm_close(f);
	for (uint64_t at = 40; at < 520; at += 60) {
		copy_dir(whole, dir);
		flip_wal(dir, at);
		f = open_small(cache, &err);
		if (f == NULL) {
			ck_assert_int_eq(err, TV_ECORRUPT);
			noticed++;
			continue;
		}
		replayed += fsm_applied(f) < end;
		if (!replay_wide(f, SMALL_LAST) || fsm_digest(f, got) != TV_OK)
			noticed++;
		else
			ck_assert_msg(memcmp(got, want, 32) == 0, "damage at %u permille was not noticed", (unsigned)at);
		fsm_close(f);
	}
	ck_assert_uint_ge(noticed + replayed, 5);
	kit_remove_dir(dir);
	kit_remove_dir(whole);
}
END_TEST

/* -- pages that the disk has lost -- */

#define PAGES_TRIED 20
#define PAGE_HEAD_BYTES 26		/* of Berkeley DB's page, up to its type */

/* The first n bytes of this page, or of every page but the first (0), become zeros.  False: there is no such page. */
static bool
lose_page(const char *dir, unsigned number, size_t n)
{
	static const uint8_t zeros[STORE_PAGE_BYTES];
	char path[200];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/state.db", dir);
	fd = open(path, O_RDWR);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	for (off_t at = STORE_PAGE_BYTES; at < st.st_size; at += STORE_PAGE_BYTES)
		if (number == 0 || at == (off_t)number * STORE_PAGE_BYTES)
			ck_assert_int_eq(pwrite(fd, zeros, n, at), n);
	close(fd);
	return (off_t)number * STORE_PAGE_BYTES < st.st_size;
}

/* As raftd does it: its pages are seen on their way. */
static struct fsm *
open_behind(enum tv_err *err)
{
	char dir[96];
	struct fsm_options opt = { .dir = dir, .cache_bytes = 16u << 20, .datacenter = "dc1", .sync = FSM_SYNC_BEHIND };
	struct fsm *f = NULL;

	snprintf(dir, sizeof(dir), "%s/state", k.dir);
	*err = fsm_open(&opt, &f, open_why, sizeof(open_why));
	return *err == TV_OK ? f : NULL;
}

/*
 * Zeros are what Berkeley DB takes for a page that was never written, and reads without a look at the checksum: all of the page
 * (_i == 0), or its head alone, in front of lengths and offsets that lead beyond it.
 */
START_TEST(lost_pages_are_noticed)
{
	size_t n = _i == 0 ? STORE_PAGE_BYTES : PAGE_HEAD_BYTES;
	char dir[96], whole[96];
	uint8_t got[32], want[32];
	uint64_t index, term;
	unsigned noticed = 0, tried;
	enum tv_err err;
	struct fsm *f;

	snprintf(dir, sizeof(dir), "%s/state", k.dir);
	snprintf(whole, sizeof(whole), "%s/whole", k.dir);
	kit_remove_dir(dir);
	f = open_behind(&err);
	ck_assert_ptr_nonnull(f);
	ck_assert(replay_wide(f, 1000));
	ck_assert_int_eq(fsm_checkpoint(f, &index, &term), TV_OK);
	ck_assert_int_eq(fsm_digest(f, want), TV_OK);
	fsm_close(f);
	copy_dir(dir, whole);
	for (tried = 0; tried <= PAGES_TRIED; tried++) {
		copy_dir(whole, dir);
		ck_assert(lose_page(dir, tried == 0 ? 0 : tried * 5 - 3, n));
		f = open_behind(&err);
		if (f == NULL) {
			ck_assert_int_eq(err, TV_ECORRUPT);
			noticed++;
			continue;
		}
		err = fsm_digest(f, got);
		if (err == TV_OK)		/* a page that nobody uses */
			ck_assert_mem_eq(got, want, 32);
		else
			ck_assert_int_eq(err, TV_ECORRUPT);
		noticed += err != TV_OK;
		fsm_close(f);
	}
	ck_assert_uint_ge(noticed, PAGES_TRIED * 3 / 4);
	kit_remove_dir(dir);
	kit_remove_dir(whole);
}
END_TEST

/*
 * A torn end in a write-ahead file that is larger, or smaller, than this version makes them: nothing of it is met again.
 */
START_TEST(smaller_files_after_a_torn_end)
{
	static const uint32_t sizes[][2] = { { 65536, 65536 }, { 65536, 1u << 20 }, { 131072, 65536 }, { 1u << 20, 65536 } };
	char dir[96];
	uint8_t got[32], want[32];
	uint64_t last, index, term;
	enum tv_err err;
	struct fsm *f;
	int status;
	pid_t pid;

	snprintf(dir, sizeof(dir), "%s/state", k.dir);
	kit_remove_dir(dir);
	pid = fork();
	if (pid == 0) {
		f = open_files(16u << 20, 1u << 20, &err);
		if (f == NULL || !replay_wide(f, 100) || fsm_checkpoint(f, &index, &term) != TV_OK || !replay_wide(f, 350))
			_exit(1);
		kill(getpid(), SIGKILL);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status));
	flip_wal(dir, 300);
	for (unsigned i = 0; i < 2; i++) {
		f = open_files(16u << 20, sizes[_i][i], &err);
		ck_assert_msg(f != NULL, "opening %u: %s", i, open_why);
		ck_assert_uint_ge(fsm_applied(f), 100);
		ck_assert_uint_lt(fsm_applied(f), 350);
		last = fsm_applied(f) + 50;
		ck_assert(replay_wide(f, last));
		fsm_close(f);
	}
	f = open_files(16u << 20, 1u << 20, &err);
	ck_assert_msg(f != NULL, "at the end: %s", tv_strerror(err));
	ck_assert_uint_eq(fsm_applied(f), last);
	ck_assert_int_eq(fsm_digest(f, got), TV_OK);
	fsm_close(f);
	kit_remove_dir(dir);
	f = open_files(16u << 20, 1u << 20, &err);
	ck_assert(replay_wide(f, last));
	ck_assert_int_eq(fsm_digest(f, want), TV_OK);
	fsm_close(f);
	ck_assert_mem_eq(got, want, 32);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("fsm_crash");
	TCase *t = tcase_create("crash");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, killed_again_and_again);
	tcase_add_loop_test(t, smaller_files_after_a_torn_end, 0, 4);
	tcase_add_loop_test(t, damaged_write_ahead_log_is_noticed, 0, 2);
	tcase_add_loop_test(t, lost_pages_are_noticed, 0, 2);
	tcase_add_test(t, checkpointed_index_survives);
	tcase_add_test(t, batches_do_not_matter);
	tcase_add_test(t, newer_or_damaged);
	tcase_add_test(t, version_before);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
