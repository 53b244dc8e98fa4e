/*
 * Tokens in the state by themselves: what one takes on the disk and in memory, and how long it takes to make, to find by
 * its secret, to list and to remove; and those of an auth method when that goes.
 *
 *	bench_acl_state [TOKENS]	100,000 without it; in a folder of its own below /tmp
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "common/base/clock.h"
#include "common/base/uuid.h"
#include "common/record/mpack.h"
#include "raftd/fsm/fsm.h"

#define BATCH 250
#define LOOKUPS 100000

static struct fsm *f;
static int64_t wall = 1000000000000000000;

static void
die(const char *what)
{
	fprintf(stderr, "bench_acl_state: %s\n", what);
	exit(1);
}

/* No method here has keys. */
static enum tv_err
any_method(struct acl_method *m, struct arena *a, struct buf *why)
{
	(void)m, (void)a, (void)why;
	return TV_OK;
}

static void
open_state(const char *dir, uint64_t cache)
{
	char why[256] = "";
	struct fsm_options opt = { .dir = dir, .cache_bytes = cache, .datacenter = "dc1",
	    .check_method = any_method };

	if (fsm_open(&opt, &f, why, sizeof(why)) != TV_OK)
		die(why);
}

/* Its payload is to be freed. */
static void
entry(uint16_t op, const void *rec, struct raft_entry *e, uint64_t index)
{
	struct buf packed = BUF_INIT(1u << 20), args = BUF_INIT(1u << 20), payload = BUF_INIT(1u << 20);
	struct arena a = ARENA_INIT(FSM_RECORD_MEMORY);
	uint8_t random[UUID_BYTES];
	char uuid[UUID_CHARS + 1];
	struct span why;

	randombytes_buf(random, sizeof(random));
	uuid_v4(random, uuid);
	schema_pack(op_find(op)->args, rec, &packed);
	if (fsm_prepare(f, &(uint16_t){ op }, buf_span(&packed), wall, uuid, &args, &a, &why) != TV_OK)
		die("an operation was refused");
	fsm_entry_write(&payload, op, buf_span(&args));
	*e = (struct raft_entry){ .index = index, .term = 1, .type = RAFT_ENTRY_OP, .size = (uint32_t)payload.len };
	e->payload = malloc(payload.len);
	if (e->payload == NULL)
		die("no memory");
	memcpy((void *)(uintptr_t)e->payload, payload.data, payload.len);
	buf_done(&packed);
	buf_done(&args);
	buf_done(&payload);
	arena_done(&a);
}

static double
apply(struct raft_entry *e, uint32_t n, struct arena *a, struct fsm_result *res)
{
	struct mono begun = clock_mono();

	if (fsm_apply(f, e, n, a, res) != TV_OK)
		die("fsm_apply");
	for (uint32_t i = 0; i < n; i++)
		free((void *)(uintptr_t)e[i].payload);
	return mono_seconds(mono_sub(clock_mono(), begun));
}

/* How long applying it took. */
static double
one(uint16_t op, const void *rec)
{
	struct arena a = ARENA_INIT(1u << 20);
	struct fsm_result res;
	struct raft_entry e;
	double took;

	entry(op, rec, &e, fsm_applied(f) + 1);
	took = apply(&e, 1, &a, &res);
	if (res.err != TV_OK)
		die("an entry failed");
	arena_done(&a);
	return took;
}

static double
make_tokens(unsigned count, char (*secrets)[37])
{
	struct acl_link link = { .Name = span_str("p") };
	struct acl_token_set q = { .Token = { .Description = span_str("a token of an application"),
	    .Policies = { &link, 1, true }, .ExpirationTTL = 3600000000000 } };
	struct raft_entry e[BATCH];
	struct fsm_result res[BATCH];
	double took = 0;

	for (unsigned done = 0; done < count; done += BATCH) {
		struct arena a = ARENA_INIT(16u << 20);
		uint64_t at = fsm_applied(f) + 1;

		for (unsigned i = 0; i < BATCH; i++)
			entry(OP_ACL_TOKEN_SET, &q, &e[i], at + i);
		took += apply(e, BATCH, &a, res);
		for (unsigned i = 0; i < BATCH; i++) {
			struct rd in = rd_span_over(res[i].value);
			struct acl_token t;

			if (res[i].err != TV_OK || schema_unpack(&acl_token_schema, &in, &a, &t) != TV_OK ||
			    !span_copy(t.SecretID, secrets[done + i], 37))
				die("a token was refused");
		}
		arena_done(&a);
	}
	return took;
}

static double
look_up(const char (*secrets)[37], unsigned count, enum tv_err want)
{
	struct fsm *r = fsm_reader(f);
	struct arena a = ARENA_INIT(FSM_RECORD_MEMORY);
	struct mono begun = clock_mono();
	struct fsm_acl out;

	for (unsigned i = 0; i < LOOKUPS; i++) {
		fsm_read_begin(r, false);
		if (fsm_acl_resolve(r, span_str(secrets[randombytes_uniform(count)]), wall, &a, &out) != want)
			die("fsm_acl_resolve");
		fsm_read_end(r);
		arena_reset(&a);
	}
	arena_done(&a);
	fsm_reader_free(r);
	return mono_seconds(mono_sub(clock_mono(), begun)) / LOOKUPS;
}

static double
list(size_t *bytes)
{
	struct buf args = BUF_INIT(1024), out = BUF_INIT(256u << 20);
	struct arena a = ARENA_INIT(FSM_RECORD_MEMORY);
	struct mono begun = clock_mono();
	struct fsm_answer ans;

	schema_pack(&acl_token_list_schema, &(struct acl_token_list){ .Policy = SPAN_NONE }, &args);
	fsm_read(f, op_find(OP_ACL_TOKEN_LIST), buf_span(&args), &a, &out, &ans);
	if (ans.err != TV_OK)
		die("the list failed");
	*bytes = out.len;
	buf_done(&args);
	buf_done(&out);
	arena_done(&a);
	return mono_seconds(mono_sub(clock_mono(), begun));
}

static long
file_kb(const char *dir)
{
	char path[512];
	struct stat st;

	snprintf(path, sizeof(path), "%s/state.db", dir);
	return stat(path, &st) == 0 ? (long)(st.st_size / 1024) : 0;
}

static double
reopen(const char *dir)
{
	struct mono begun;

	fsm_close(f);
	begun = clock_mono();
	open_state(dir, 256u << 20);
	return mono_seconds(mono_sub(clock_mono(), begun));
}

static void
make_logins(unsigned count, uint64_t method)
{
	struct acl_service_identity web = { .ServiceName = span_str("web") };
	struct acl_login q = { .Method = method, .Token = { .Description = span_str("token created via login"),
	    .AuthMethod = span_str("m"), .Local = true, .ServiceIdentities = { &web, 1, true }, .ExpirationTTL = 3600000000000 } };
	struct raft_entry e[BATCH];
	struct fsm_result res[BATCH];

	for (unsigned done = 0; done < count; done += BATCH) {
		struct arena a = ARENA_INIT(16u << 20);
		uint64_t at = fsm_applied(f) + 1;

		for (unsigned i = 0; i < BATCH; i++)
			entry(OP_ACL_LOGIN, &q, &e[i], at + i);
		(void)apply(e, BATCH, &a, res);
		for (unsigned i = 0; i < BATCH; i++)
			if (res[i].err != TV_OK)
				die("a login was refused");
		arena_done(&a);
	}
}

static void
end_method(unsigned count)
{
	struct acl_method_set q = { .Method = { .Name = span_str("m"), .Type = span_str("jwt") } };
	double took, longest, all;
	unsigned entries = 1;

	(void)one(OP_ACL_METHOD_SET, &q);
	make_logins(count, fsm_applied(f));
	all = longest = took = one(OP_ACL_METHOD_DELETE, &(struct acl_name){ span_str("m") });
	for (; fsm_acl_reap_due(f, wall); entries++) {
		double more = one(OP_ACL_REAP, &(struct acl_reap){ .Now = 0 });

		all += more;
		longest = more > longest ? more : longest;
	}
	printf("an auth method with as many goes in %.1f ms; all of it in %u entries, %.1f ms, the longest %.1f ms\n", took * 1000,
	    entries, all * 1000, longest * 1000);
}

int
main(int argc, char **argv)
{
	unsigned count = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 100000, entries = 0;
	char top[] = "/tmp/tv-acl-XXXXXX", dir[64], command[128];
	char (*secrets)[37];
	struct mono begun;
	double took;
	size_t bytes;
	long before;

	count = count < BATCH ? BATCH : count / BATCH * BATCH;
	secrets = calloc(count, sizeof(*secrets));
	if (sodium_init() < 0 || secrets == NULL || mkdtemp(top) == NULL)
		die("cannot begin");
	snprintf(dir, sizeof(dir), "%s/state", top);
	open_state(dir, 256u << 20);
	(void)one(OP_ACL_ENABLE, &(struct acl_enable){ .Now = 0 });
	(void)one(OP_ACL_POLICY_SET, &(struct acl_policy_set){ .Policy = { .Name = span_str("p"),
	    .Rules = span_str("key_prefix \"app/\" { policy = \"write\" }") } });
	(void)reopen(dir);
	before = file_kb(dir);
	took = make_tokens(count, secrets);
	printf("%u tokens: %.1f us to apply one\n", count, took * 1e6 / count);
	took = reopen(dir);
	printf("opened again in %.0f ms; on the disk, and in the cache once all are read: %.0f bytes a token\n", took * 1000,
	    (double)(file_kb(dir) - before) * 1024 / count);
	(void)look_up((const char (*)[37])secrets, count, TV_OK);
	printf("from a secret to its policies: %.2f us\n", look_up((const char (*)[37])secrets, count, TV_OK) * 1e6);
	took = list(&bytes);
	printf("a list of all: %.0f ms, %zu bytes a token\n", took * 1000, bytes / count);
	wall += 2 * 3600000000000;
	printf("an expired one is refused in %.2f us\n", look_up((const char (*)[37])secrets, count, TV_ENOENT) * 1e6);
	begun = clock_mono();
	for (; fsm_acl_reap_due(f, wall); entries++)
		(void)one(OP_ACL_REAP, &(struct acl_reap){ .Now = 0 });
	took = mono_seconds(mono_sub(clock_mono(), begun));
	printf("all removed by %u entries, %.1f ms each\n", entries, entries > 0 ? took * 1000 / entries : 0);
	end_method(count);
	fsm_close(f);
	free(secrets);
	snprintf(command, sizeof(command), "rm -rf %s", top);
	return system(command) == 0 ? 0 : 1;
}
