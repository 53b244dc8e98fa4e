/* See fsm_kit.h. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sodium.h>

#include "common/record/mpack.h"
#include "tests/unit/fsm_kit.h"

static const struct kit *newest;	/* the state that reads go by the clock of */

static int64_t
wall_now(void)
{
	return newest->now;
}

static void
open_fsm(struct kit *k)
{
	char err[256], dir[80];
	struct fsm_options opt = { .dir = dir, .cache_bytes = 4u << 20, .datacenter = "dc1", .version = k->version,
	    .acl_default_allow = k->default_allow, .acl_key_list = k->key_list, .wall_now = wall_now,
	    .acl_primary = k->primary,
	    .session_ttl_min_ns = 10 * KIT_SECOND, .session_ttl_max_ns = 86400 * KIT_SECOND };

	newest = k;
	snprintf(dir, sizeof(dir), "%s/state", k->dir);
	ck_assert_msg(fsm_open(&opt, &k->f, err, sizeof(err)) == TV_OK, "%s", err);
}

void
kit_open(struct kit *k)
{
	memset(k, 0, sizeof(*k));
	snprintf(k->dir, sizeof(k->dir), "%s/tv-fsm-XXXXXX", getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(k->dir));
	k->a = ARENA_INIT(64u << 20);
	buf_init(&k->out, 64u << 20);
	k->now = 1000000 * KIT_SECOND;
	open_fsm(k);
}

void
kit_reopen(struct kit *k)
{
	fsm_close(k->f);
	open_fsm(k);
}

void
kit_remove_dir(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *de;

	while (d != NULL && (de = readdir(d)) != NULL) {
		char sub[512];

		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
			continue;
		snprintf(sub, sizeof(sub), "%s/%s", path, de->d_name);
		if (de->d_type == DT_DIR)
			kit_remove_dir(sub);
		else
			unlink(sub);
	}
	if (d != NULL)
		closedir(d);
	rmdir(path);
}

void
kit_close(struct kit *k)
{
	fsm_close(k->f);
	arena_done(&k->a);
	buf_done(&k->out);
	kit_remove_dir(k->dir);
}

static struct span
packed(struct kit *k, const struct schema *s, const void *rec)
{
	struct buf b = BUF_INIT(64u << 20);
	struct span out;

	schema_pack(s, rec, &b);
	ck_assert(!b.failed);
	out = arena_copy(&k->a, buf_span(&b));
	buf_done(&b);
	return out;
}

struct fsm_result
kit_apply(struct kit *k, uint16_t op, const void *rec)
{
	struct buf args = BUF_INIT(64u << 20), payload = BUF_INIT(64u << 20);
	struct fsm_result res = { 0 };
	struct raft_entry e = { .index = fsm_applied(k->f) + 1, .term = 1, .type = RAFT_ENTRY_OP };
	char uuid[37];

	snprintf(uuid, sizeof(uuid), "00000000-0000-4000-8000-%012x", ++k->uuids);
	res.err = fsm_prepare(k->f, &(uint16_t){ op }, packed(k, op_find(op)->args, rec), k->now, uuid, &args, &k->a, &res.text);
	if (res.err == TV_OK) {
		fsm_entry_write(&payload, op, buf_span(&args));
		e.payload = payload.data;
		e.size = (uint32_t)payload.len;
		ck_assert_int_eq(fsm_apply(k->f, &e, 1, &k->a, &res), TV_OK);
		ck_assert_uint_eq(fsm_applied(k->f), e.index);
	}
	buf_done(&args);
	buf_done(&payload);
	return res;
}

bool
kit_bool(struct kit *k, uint16_t op, const void *rec)
{
	struct fsm_result res = kit_apply(k, op, rec);
	struct bool_reply reply = { 0 };
	struct rd r = rd_span_over(res.value);

	ck_assert_msg(res.err == TV_OK, "%.*s", (int)res.text.len, (const char *)res.text.p);
	ck_assert_int_eq(schema_unpack(&bool_reply_schema, &r, &k->a, &reply), TV_OK);
	return reply.Value;
}

void
kit_refused(struct kit *k, uint16_t op, const void *rec, const char *text)
{
	struct fsm_result res = kit_apply(k, op, rec);

	ck_assert_int_ne(res.err, TV_OK);
	ck_assert_str_eq(arena_cstr(&k->a, res.text), text);
}

static const char *
answer_json(struct kit *k, const struct op *op, struct span value, unsigned *count)
{
	struct buf b = BUF_INIT(64u << 20);
	struct rd r = rd_span_over(value);
	const char *text;

	*count = op->answers == OP_LIST ? mpr_array(&r) : 1;
	buf_puts(&b, op->answers == OP_LIST ? "[" : "");
	for (unsigned i = 0; i < *count; i++) {
		buf_puts(&b, i > 0 ? "," : "");
		ck_assert_int_eq(schema_json(op->answer, &r, &b), TV_OK);
	}
	buf_puts(&b, op->answers == OP_LIST ? "]" : "");
	ck_assert_int_eq(rd_end(&r), TV_OK);
	text = arena_cstr(&k->a, buf_span(&b));
	buf_done(&b);
	return text;
}

unsigned
kit_read(struct kit *k, uint16_t op, const void *rec, const char **json)
{
	unsigned count = 0;
	const char *text;

	buf_reset(&k->out);
	fsm_read(k->f, op_find(op), packed(k, op_find(op)->args, rec), &k->a, &k->out, &k->ans);
	ck_assert_uint_ge(k->ans.index, 1);
	if (k->ans.err != TV_OK)
		return 0;
	text = answer_json(k, op_find(op), buf_span(&k->out), &count);
	if (json != NULL)
		*json = text;
	return count;
}

uint64_t
kit_index(struct kit *k, uint16_t op, const void *rec)
{
	kit_read(k, op, rec, NULL);
	ck_assert_int_eq(k->ans.err, TV_OK);
	return k->ans.index;
}

/* -- key/value -- */

bool
kit_verb(struct kit *k, enum kv_verb verb, const char *key, const char *value, const char *session, uint64_t cas)
{
	struct kv_apply q = { .Verb = verb, .Key = span_str(key), .Value = span_str(value == NULL ? "" : value),
	    .Session = span_str(session == NULL ? "" : session), .ModifyIndex = cas };

	return kit_bool(k, OP_KV_APPLY, &q);
}

bool
kit_put(struct kit *k, const char *key, const char *value)
{
	return kit_verb(k, KV_SET, key, value, NULL, 0);
}

bool
kit_has(struct kit *k, const char *key)
{
	struct kv_read q = { .Key = span_str(key) };

	return kit_read(k, OP_KV_GET, &q, NULL) == 1;
}

struct kv_entry
kit_get(struct kit *k, const char *key)
{
	struct kv_entry e = { 0 };
	struct rd r;

	ck_assert_msg(kit_has(k, key), "%s is not there", key);
	r = rd_span_over(arena_copy(&k->a, buf_span(&k->out)));
	ck_assert_uint_eq(mpr_array(&r), 1);
	ck_assert_int_eq(schema_unpack(&kv_entry_schema, &r, &k->a, &e), TV_OK);
	return e;
}

uint64_t
kit_key_index(struct kit *k, const char *key)
{
	struct kv_read q = { .Key = span_str(key) };

	return kit_index(k, OP_KV_GET, &q);
}

uint64_t
kit_prefix_index(struct kit *k, const char *prefix)
{
	struct kv_read q = { .Key = span_str(prefix) };
	uint64_t list = kit_index(k, OP_KV_LIST, &q);

	ck_assert_uint_eq(list, kit_index(k, OP_KV_KEYS, &q));
	return list;
}

/* -- catalog and sessions -- */

void
kit_node(struct kit *k, const char *name, const char *address)
{
	struct catalog_register q = { .Node = span_str(name), .Address = span_str(address) };

	ck_assert(kit_bool(k, OP_CATALOG_REGISTER, &q));
}

void
kit_check(struct kit *k, const char *node, const char *id, const char *service, const char *status)
{
	struct catalog_register q = { .Node = span_str(node), .SkipNodeUpdate = true, .has_check = true };

	q.Check.CheckID = q.Check.Name = span_str(id);
	q.Check.Status = span_str(status);
	if (service != NULL)
		q.Check.ServiceID = span_str(service);
	ck_assert(kit_bool(k, OP_CATALOG_REGISTER, &q));
}

void
kit_service(struct kit *k, const char *node, const char *id, const char *name, const char *tag)
{
	struct catalog_register q = { .Node = span_str(node), .SkipNodeUpdate = true, .has_service = true };
	struct span tags[1] = { span_str(tag == NULL ? "" : tag) };

	q.Service.ID = span_str(id);
	q.Service.Service = span_str(name);
	if (tag != NULL)
		q.Service.Tags = (struct span_list){ .v = tags, .n = 1, .set = true };
	ck_assert(kit_bool(k, OP_CATALOG_REGISTER, &q));
}

const char *
kit_session(struct kit *k, const char *node, const char *behavior, int64_t lock_delay_ns)
{
	struct session s = { .Node = span_str(node), .Behavior = span_str(behavior), .LockDelay = lock_delay_ns,
	    .NodeChecks = { .set = true } };
	struct fsm_result res = kit_apply(k, OP_SESSION_CREATE, &s);
	struct text_reply reply = { 0 };
	struct rd r = rd_span_over(res.value);

	ck_assert_msg(res.err == TV_OK, "%.*s", (int)res.text.len, (const char *)res.text.p);
	ck_assert_int_eq(schema_unpack(&text_reply_schema, &r, &k->a, &reply), TV_OK);
	return arena_cstr(&k->a, reply.Value);
}

bool
kit_session_lives(struct kit *k, const char *id)
{
	struct session_read q = { .ID = span_str(id) };

	return kit_read(k, OP_SESSION_INFO, &q, NULL) == 1;
}

void
kit_fired(void *ctx)
{
	++*(unsigned *)ctx;
}

void
kit_snapshot_newer(uint8_t *all, size_t n, bool form)
{
	const size_t head = 28, key_bytes = all[head + 3];

	ck_assert_uint_gt(n, 200);
	ck_assert_int_eq(all[head + 8], 'A');		/* TBL_META */
	all[form ? 11 : head + 8 + key_bytes] = 77;
	crypto_generichash(all + n - 32, 32, all, n - 32, NULL, 0);
}
