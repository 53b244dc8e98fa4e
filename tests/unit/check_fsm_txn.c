/* Transactions: each verb, what it answers and how it fails; all or nothing; and what only reads. */
#include <stdio.h>
#include <stdlib.h>

#include "common/record/mpack.h"
#include "common/record/txn.h"
#include "raftd/fsm/kv/kv.h"
#include "raftd/fsm/txn/txn.h"
#include "tests/unit/fsm_kit.h"

#define UNKNOWN_SESSION "99999999-9999-4999-8999-999999999999"
#define KV(verb, key, more) "{\"KV\":{\"Verb\":\"" verb "\",\"Key\":\"" key "\"" more "}}"

static struct kit k;

static void
setup(void)
{
	kit_open(&k);
}

static void
teardown(void)
{
	kit_close(&k);
}

static struct txn
parse(const char *json)
{
	struct txn t;
	char why[256] = "";

	ck_assert_msg(txn_from_json(span_str(json), &k.a, &t, why, sizeof(why)) == TV_OK, "%s: %s", json, why);
	return t;
}

static const char *
shown(struct span value)
{
	struct rd r = rd_span_over(value);
	struct buf b = BUF_INIT(64u << 20);
	const char *text;

	ck_assert_int_eq(schema_json(&txn_reply_schema, &r, &b), TV_OK);
	ck_assert_int_eq(rd_end(&r), TV_OK);
	text = arena_cstr(&k.a, buf_span(&b));
	buf_done(&b);
	return text;
}

/* Through the log; the answer as JSON. */
static const char *
apply(const char *json)
{
	struct txn t = parse(json);
	struct fsm_result res = kit_apply(&k, OP_TXN_APPLY, &t);

	ck_assert_msg(res.err == TV_OK, "%.*s", (int)res.text.len, (const char *)res.text.p);
	return shown(res.value);
}

static const char *
just_read(const char *json)
{
	struct txn t = parse(json);
	const char *text;

	ck_assert_uint_eq(kit_read(&k, OP_TXN_READ, &t, &text), 1);
	return text;
}

/* A text that lives in the arena of the kit. */
static const char *__attribute__((format(printf, 1, 2)))
fmt(const char *form, ...)
{
	struct buf b = BUF_INIT(1u << 20);
	const char *text;
	va_list ap;

	va_start(ap, form);
	buf_vprintf(&b, form, ap);
	va_end(ap);
	text = arena_cstr(&k.a, buf_span(&b));
	buf_done(&b);
	return text;
}

static const char *
failed(unsigned at, const char *what)
{
	return fmt("{\"Results\":null,\"Errors\":[{\"OpIndex\":%u,\"What\":\"%s\"}]}", at, what);
}

static const char *
done(const char *results)
{
	return fmt("{\"Results\":[%s],\"Errors\":null}", results);
}

static const char *
entry(const char *key, unsigned lock, unsigned flags, const char *value, const char *session, unsigned create, unsigned modify)
{
	return fmt("{\"KV\":{\"LockIndex\":%u,\"Key\":\"%s\",\"Flags\":%u,\"Value\":%s,%s\"CreateIndex\":%u,\"ModifyIndex\":%u}}",
	    lock, key, flags, value, session[0] == '\0' ? "" : fmt("\"Session\":\"%s\",", session), create, modify);
}

START_TEST(keys_are_written)
{
	ck_assert_str_eq(apply("[" KV("set", "a", ",\"Value\":\"MQ==\",\"Flags\":7") "," KV("get", "a", "") "]"),
	    done(fmt("%s,%s", entry("a", 0, 7, "null", "", 1, 1), entry("a", 0, 7, "\"MQ==\"", "", 1, 1))));
	/* What it has already is no change, and the answer says when there was one. */
	ck_assert_str_eq(apply("[" KV("set", "a", ",\"Value\":\"MQ==\",\"Flags\":7") "]"),
	    done(entry("a", 0, 7, "null", "", 1, 1)));
	ck_assert_str_eq(apply("[" KV("cas", "a", ",\"Value\":\"Mg==\",\"Index\":1") "]"),
	    done(entry("a", 0, 0, "null", "", 1, 3)));
	ck_assert_str_eq(apply("[" KV("cas", "a", ",\"Value\":\"Mw==\",\"Index\":1") "]"),
	    failed(0, "failed to set key \\\"a\\\", index is stale"));
	ck_assert_str_eq(apply("[" KV("cas", "b", ",\"Index\":0") "]"), done(entry("b", 0, 0, "null", "", 5, 5)));
	ck_assert_str_eq(apply("[" KV("cas", "b", ",\"Index\":0") "]"),
	    failed(0, "failed to set key \\\"b\\\", index is stale"));
	ck_assert_str_eq(apply("[" KV("delete-cas", "b", ",\"Index\":4") "]"),
	    failed(0, "failed to delete key \\\"b\\\", index is stale"));
	ck_assert_str_eq(apply("[" KV("delete-cas", "b", ",\"Index\":5") "," KV("delete", "nope", "") ","
	    KV("delete-cas", "nope", ",\"Index\":5") "]"), done(""));
	ck_assert(!kit_has(&k, "b") && span_eqs(kit_get(&k, "a").Value, "2"));
	/* Later ones see what those before them did; all have one index. */
	ck_assert_str_eq(apply("[" KV("set", "c", "") "," KV("delete", "c", "") "," KV("check-not-exists", "c", "") ","
	    KV("set", "d", "") "," KV("set", "e", "") "]"),
	    done(fmt("%s,%s,%s", entry("c", 0, 0, "null", "", 9, 9), entry("d", 0, 0, "null", "", 9, 9),
	    entry("e", 0, 0, "null", "", 9, 9))));
}
END_TEST

START_TEST(keys_are_locked)
{
	const char *session, *other;

	kit_node(&k, KIT_NODE, "10.0.0.1");
	session = kit_session(&k, KIT_NODE, "release", 15 * KIT_SECOND);
	other = kit_session(&k, KIT_NODE, "release", 0);
	ck_assert_str_eq(apply(fmt("[" KV("lock", "l", ",\"Value\":\"MQ==\",\"Session\":\"%s\"") "]", session)),
	    done(entry("l", 1, 0, "null", session, 4, 4)));
	ck_assert_str_eq(apply(fmt("[" KV("lock", "l", ",\"Session\":\"%s\"") "]", other)),
	    failed(0, "failed to lock key \\\"l\\\", lock is already held"));
	ck_assert_str_eq(apply(fmt("[" KV("unlock", "l", ",\"Session\":\"%s\"") "]", other)),
	    failed(0, "failed to unlock key \\\"l\\\", lock isn't held, or is held by another session"));
	ck_assert_str_eq(just_read(fmt("[" KV("check-session", "l", ",\"Session\":\"%s\"") "]", session)),
	    done(entry("l", 1, 0, "null", session, 4, 4)));
	ck_assert_str_eq(just_read(fmt("[" KV("check-session", "l", ",\"Session\":\"%s\"") "]", other)),
	    failed(0, fmt("failed session check for key \\\"l\\\", current session \\\"%s\\\" != \\\"%s\\\"", session, other)));
	ck_assert_str_eq(just_read("[" KV("check-session", "m", "") "]"),
	    failed(0, "failed to check session, key \\\"m\\\" doesn't exist"));
	ck_assert_str_eq(apply("[" KV("lock", "m", ",\"Session\":\"" UNKNOWN_SESSION "\"") "]"),
	    failed(0, "invalid session \\\"" UNKNOWN_SESSION "\\\""));
	ck_assert_str_eq(apply("[" KV("lock", "m", "") "]"), failed(0, "missing session"));
	ck_assert_str_eq(apply("[" KV("lock", "m", ",\"Session\":\"x\"") "]"),
	    failed(0, "failed session lookup: index error: UUID must be 36 characters"));
	ck_assert_str_eq(apply(fmt("[" KV("unlock", "l", ",\"Value\":\"Mg==\",\"Session\":\"%s\"") ","
	    KV("lock", "l", ",\"Session\":\"%s\"") "]", session, other)),
	    done(fmt("%s,%s", entry("l", 1, 0, "null", "", 4, 10), entry("l", 2, 0, "null", other, 4, 10))));
	/* Once its session ends a key is not to be had for a while. */
	ck_assert(kit_verb(&k, KV_LOCK, "n", "1", session, 0));
	ck_assert(kit_bool(&k, OP_SESSION_DESTROY, &(struct session_destroy){ .ID = span_str(session) }));
	ck_assert_str_eq(apply(fmt("[" KV("lock", "n", ",\"Session\":\"%s\"") "]", other)),
	    failed(0, "failed to lock key \\\"n\\\" due to lock delay"));
	k.now += 16 * KIT_SECOND;
	ck_assert_ptr_nonnull(strstr(apply(fmt("[" KV("lock", "n", ",\"Session\":\"%s\"") "]", other)), "\"Errors\":null"));
}
END_TEST

START_TEST(keys_are_read)
{
	kit_put(&k, "t/a", "1");
	kit_put(&k, "t/b", "2");
	ck_assert_str_eq(just_read("[" KV("get-tree", "t/", "") "," KV("get-tree", "none/", "") "," KV("get", "t/b", "") "]"),
	    done(fmt("%s,%s,%s", entry("t/a", 0, 0, "\"MQ==\"", "", 1, 1), entry("t/b", 0, 0, "\"Mg==\"", "", 2, 2),
	    entry("t/b", 0, 0, "\"Mg==\"", "", 2, 2))));
	ck_assert_str_eq(just_read("[]"), done(""));
	ck_assert_str_eq(just_read("[" KV("check-index", "t/a", ",\"Index\":1") "]"),
	    done(entry("t/a", 0, 0, "null", "", 1, 1)));
	ck_assert_str_eq(just_read("[" KV("check-index", "t/a", ",\"Index\":5") "]"),
	    failed(0, "failed index check for key \\\"t/a\\\", current modify index 1 != 5"));
	ck_assert_str_eq(just_read("[" KV("check-index", "z", "") "]"),
	    failed(0, "failed to check index, key \\\"z\\\" doesn't exist"));
	ck_assert_str_eq(just_read("[" KV("check-not-exists", "z", "") "]"), done(""));
	ck_assert_str_eq(just_read("[" KV("check-not-exists", "t/a", "") "]"), failed(0, "key \\\"t/a\\\" exists"));
	ck_assert_str_eq(just_read("[" KV("get", "z", "") "]"), failed(0, "key \\\"z\\\" doesn't exist"));
	ck_assert_str_eq(just_read("[" KV("GET", "z", "") "]"), failed(0, "unknown KV verb \\\"GET\\\""));
	ck_assert_str_eq(just_read("[" KV("get", "", "") "]"), failed(0, "Must provide key"));
	ck_assert_uint_eq(fsm_applied(k.f), 2);
}
END_TEST

/* All that fail are told; and nothing of it is left. */
/* A key that is not there is an entry without a value; in the log only where all servers know that. */
START_TEST(keys_that_may_be_missing)
{
	struct buf args = BUF_INIT(1u << 20), old = BUF_INIT(1u << 20);
	const char *json = "[" KV("set", "b", "") "," KV("get-or-empty", "b", "") "," KV("get-or-empty", "z", "") "]";
	struct raft_entry e = { .term = 1, .type = RAFT_ENTRY_OP };
	struct fsm_result res;

	kit_put(&k, "a", "1");
	ck_assert_str_eq(just_read("[" KV("get-or-empty", "a", "") "," KV("get-or-empty", "z", ",\"Flags\":7") "]"),
	    done(fmt("%s,%s", entry("a", 0, 0, "\"MQ==\"", "", 1, 1), entry("z", 0, 7, "null", "", 0, 0))));
	ck_assert_str_eq(just_read("[" KV("get-or-empty", "", "") "]"), failed(0, "Must provide key"));
	struct txn t = parse(json);
	t.AnswerBytes = 1u << 20;
	schema_pack(&txn_schema, &t, &args);
	ck_assert_uint_eq(fsm_entry_version(OP_TXN_APPLY, buf_span(&args), false), FSM_OR_EMPTY_SINCE);
	ck_assert_uint_eq(fsm_entry_version(OP_TXN_APPLY, buf_span(&args), true), FSM_OR_EMPTY_SINCE);
	ck_assert_uint_eq(fsm_entry_version(OP_TXN_APPLY, span_str("\xc1"), false), 4);
	/* As a leader of an older version wrote it, who knew no such verb: nor does anybody who applies it. */
	mpw_array(&old, 3);
	mpw_uint(&old, OP_TXN_APPLY);
	buf_putspan(&old, buf_span(&args));
	mpw_uint(&old, 4);
	e.index = fsm_applied(k.f) + 1;
	e.payload = old.data;
	e.size = (uint32_t)old.len;
	ck_assert_int_eq(fsm_apply(k.f, &e, 1, &k.a, &res), TV_OK);
	ck_assert_ptr_nonnull(strstr(shown(res.value), "{\"OpIndex\":2,\"What\":\"unknown KV verb \\\"get-or-empty\\\"\"}"));
	ck_assert(!kit_has(&k, "b") && fsm_needs(k.f) == 4);
	ck_assert_str_eq(apply(json), done(fmt("%s,%s,%s", entry("b", 0, 0, "null", "", 3, 3), entry("b", 0, 0, "null", "", 3, 3),
	    entry("z", 0, 0, "null", "", 0, 0))));
	ck_assert(!kit_has(&k, "z") && fsm_needs(k.f) == FSM_OR_EMPTY_SINCE);
	buf_done(&args);
	buf_done(&old);
}
END_TEST

START_TEST(all_or_nothing)
{
	uint8_t before[32], after[32];
	unsigned fired = 0;
	struct buf args = BUF_INIT(1000);
	uint64_t undone;

	kit_put(&k, "t/a", "1");
	kit_node(&k, KIT_NODE, "10.0.0.1");
	schema_pack(&kv_read_schema, &(struct kv_read){ .Key = span_str("t/a") }, &args);
	ck_assert_ptr_nonnull(fsm_watch(k.f, op_find(OP_KV_GET), buf_span(&args), kit_fired, &fired));
	ck_assert_str_eq(apply("[" KV("get", "x", "") "," KV("set", "a", "") "," KV("delete-tree", "t/", "") ","
	    "{\"Node\":{\"Verb\":\"set\",\"Node\":{\"Node\":\"n2\",\"Address\":\"10.0.0.2\"}}},"
	    "{\"Node\":{\"Verb\":\"delete\",\"Node\":{\"Node\":\"" KIT_NODE "\"}}},"
	    KV("get", "t/a", "") "," KV("check-index", "z", ",\"Index\":3") "]"),
	    "{\"Results\":null,\"Errors\":[{\"OpIndex\":0,\"What\":\"key \\\"x\\\" doesn't exist\"},"
	    "{\"OpIndex\":5,\"What\":\"key \\\"t/a\\\" doesn't exist\"},"
	    "{\"OpIndex\":6,\"What\":\"failed to check index, key \\\"z\\\" doesn't exist\"}]}");
	ck_assert(!kit_has(&k, "a") && kit_has(&k, "t/a") && !fsm_has_node(k.f, span_str("n2")) &&
	    fsm_has_node(k.f, span_str(KIT_NODE)));
	ck_assert_uint_eq(fired, 0);
	undone = k.f->txns_undone;
	/* Twice the same, which leaves no more behind than the first. */
	ck_assert_int_eq(fsm_digest(k.f, before), TV_OK);
	apply("[" KV("set", "a", "") "," KV("get", "x", "") "]");
	ck_assert_uint_eq(k.f->txns_undone, undone + 1);
	apply("[" KV("set", "t/a", "") "]");
	ck_assert_uint_eq(fired, 1);
	ck_assert_uint_eq(k.f->txns, 1);
	ck_assert_int_eq(fsm_digest(k.f, after), TV_OK);
	ck_assert_mem_ne(before, after, sizeof(before));
	buf_done(&args);
}
END_TEST

#define NODE(verb, more) "{\"Node\":{\"Verb\":\"" verb "\",\"Node\":{\"Node\":\"n1\"" more "}}}"
#define NODE_IS(address, modify) "{\"Node\":{\"ID\":\"\",\"Node\":\"n1\",\"Address\":\"" address "\"," \
	"\"Datacenter\":\"dc1\",\"TaggedAddresses\":null,\"Meta\":{\"a\":\"b\"},\"CreateIndex\":1,\"ModifyIndex\":" modify "}}"

START_TEST(nodes)
{
	ck_assert_str_eq(apply("[" NODE("set", ",\"Address\":\"10.1.0.1\",\"Meta\":{\"a\":\"b\"}") "," NODE("get", "") "]"),
	    done(NODE_IS("10.1.0.1", "1") "," NODE_IS("10.1.0.1", "1")));
	ck_assert_str_eq(apply("[" NODE("cas", ",\"Address\":\"10.1.0.2\",\"Meta\":{\"a\":\"b\"},\"ModifyIndex\":1") "]"),
	    done(NODE_IS("10.1.0.2", "2")));
	ck_assert_str_eq(apply("[" NODE("cas", ",\"Address\":\"10.1.0.3\",\"ModifyIndex\":1") "]"),
	    failed(0, "failed to set node \\\"n1\\\", index is stale"));
	ck_assert_str_eq(apply("[" NODE("cas", ",\"Address\":\"10.1.0.3\"") "]"),
	    failed(0, "failed to set node \\\"n1\\\", index is stale"));
	ck_assert_str_eq(apply("[{\"Node\":{\"Verb\":\"cas\",\"Node\":{\"Node\":\"n2\",\"ModifyIndex\":1}}}]"),
	    failed(0, "failed to set node \\\"n2\\\", index is stale"));
	ck_assert_str_eq(apply("[" NODE("delete-cas", ",\"ModifyIndex\":1") "]"),
	    failed(0, "failed to delete node \\\"n1\\\", index is stale"));
	ck_assert_str_eq(apply("[" NODE("SET", "") "]"), failed(0, "unknown Node verb \\\"SET\\\""));
	ck_assert_str_eq(apply("[{\"Node\":{\"Verb\":\"set\",\"Node\":{\"Address\":\"10.1.0.1\"}}}]"),
	    failed(0, "Must provide node"));
	ck_assert_str_eq(apply("[" NODE("set", ",\"ID\":\"x\"") "]"), failed(0, "Bad node ID: uuid string is wrong length"));
	ck_assert_str_eq(apply("[" NODE("delete-cas", ",\"ModifyIndex\":2") "]"), done(""));
	ck_assert_str_eq(apply("[" NODE("delete-cas", ",\"ModifyIndex\":2") "]"),
	    failed(0, "failed to delete node \\\"n1\\\", index is stale"));
	ck_assert_str_eq(apply("[" NODE("delete", "") "]"), done(""));
	ck_assert_str_eq(just_read("[" NODE("get", "") "]"), failed(0, "node \\\"n1\\\" doesn't exist"));
}
END_TEST

/* By its ID a node is found whatever its name; and the name of another that is well is not taken. */
START_TEST(nodes_by_id)
{
#define BY_ID(verb, name) "{\"Node\":{\"Verb\":\"" verb "\",\"Node\":{\"ID\":\"40e4a748-2192-161a-0510-9bf59fe950b5\"," \
	"\"Node\":\"" name "\",\"Address\":\"10.1.0.1\"}}}"
	kit_node(&k, "taken", "10.0.0.9");
	kit_check(&k, "taken", "serfHealth", NULL, "passing");
	ck_assert_ptr_nonnull(strstr(apply("[" BY_ID("set", "n1") "," BY_ID("set", "n2") "," BY_ID("get", "") "]"),
	    "\"Node\":\"n2\""));
	ck_assert(!fsm_has_node(k.f, span_str("n1")) && fsm_has_node(k.f, span_str("n2")));
	ck_assert_ptr_nonnull(strstr(apply("[" BY_ID("set", "taken") "]"), "\"What\":\"Error while renaming Node ID: "));
}
END_TEST

#define SERVICE(verb, node, more) "{\"Service\":{\"Verb\":\"" verb "\",\"Node\":\"" node "\",\"Service\":{" more "}}}"

START_TEST(services)
{
	const char *text;

	ck_assert_str_eq(apply("[" SERVICE("set", "n1", "\"ID\":\"web1\",\"Service\":\"web\"") "]"),
	    failed(0, "Missing node registration"));
	kit_node(&k, "n1", "10.0.0.1");
	text = apply("[" SERVICE("set", "n1", "\"ID\":\"web1\",\"Service\":\"web\",\"Tags\":[\"a\"],\"Port\":80") ","
	    SERVICE("get", "n1", "\"ID\":\"web1\"") "]");
	ck_assert_ptr_nonnull(strstr(text, "{\"Results\":[{\"Service\":{\"ID\":\"web1\",\"Service\":\"web\",\"Tags\":[\"a\"],"));
	ck_assert_ptr_nonnull(strstr(text, "\"Port\":80,"));
	ck_assert_ptr_nonnull(strstr(text, "\"Weights\":{\"Passing\":1,\"Warning\":1}"));
	ck_assert_ptr_nonnull(strstr(text, "\"CreateIndex\":3,\"ModifyIndex\":3"));
	ck_assert_str_eq(apply("[" SERVICE("cas", "n1", "\"Service\":\"web1\",\"ModifyIndex\":2") "]"),
	    failed(0, "failed to set service \\\"web1\\\" on node \\\"n1\\\", index is stale"));
	ck_assert_ptr_nonnull(strstr(apply("[" SERVICE("cas", "n1", "\"ID\":\"web1\",\"Service\":\"www\",\"ModifyIndex\":3") "]"),
	    "\"CreateIndex\":3,\"ModifyIndex\":5"));
	ck_assert_str_eq(apply("[" SERVICE("delete", "n1", "\"ID\":\"web1\"") "]"),
	    failed(0, "Must provide service name with ID"));
	ck_assert_str_eq(apply("[" SERVICE("set", "n1", "\"Service\":\"x\",\"Address\":\"0.0.0.0\"") "]"),
	    failed(0, "Invalid service address"));
	ck_assert_str_eq(apply("[" SERVICE("delete-cas", "n1", "\"ID\":\"web1\",\"Service\":\"www\",\"ModifyIndex\":4") "]"),
	    failed(0, "failed to delete service \\\"web1\\\" on node \\\"n1\\\", index is stale"));
	ck_assert_str_eq(apply("[" SERVICE("nope", "n1", "\"Service\":\"x\"") "]"), failed(0, "unknown Service verb \\\"nope\\\""));
	ck_assert_str_eq(apply("[" SERVICE("delete-cas", "n1", "\"ID\":\"web1\",\"Service\":\"www\",\"ModifyIndex\":5") "]"),
	    done(""));
	ck_assert_str_eq(apply("[" SERVICE("delete", "n1", "\"ID\":\"web1\",\"Service\":\"www\"") "]"), done(""));
	ck_assert_str_eq(just_read("[" SERVICE("get", "n1", "\"ID\":\"web1\"") "]"),
	    failed(0, "service \\\"web1\\\" on node \\\"n1\\\" doesn't exist"));
	ck_assert(fsm_has_node(k.f, span_str("n1")));
}
END_TEST

#define CHECK(verb, more) "{\"Check\":{\"Verb\":\"" verb "\",\"Check\":{\"Node\":\"n1\"" more "}}}"

START_TEST(checks)
{
	const char *text, *session;

	ck_assert_str_eq(apply("[" CHECK("set", ",\"CheckID\":\"c1\"") "]"), failed(0, "Missing node registration"));
	kit_node(&k, "n1", "10.0.0.1");
	ck_assert_str_eq(apply("[" CHECK("set", ",\"CheckID\":\"c1\",\"ServiceID\":\"web\"") "]"),
	    failed(0, "Missing service registration"));
	text = apply("[" SERVICE("set", "n1", "\"Service\":\"web\",\"Tags\":[\"a\"]") ","
	    CHECK("set", ",\"Name\":\"c1\",\"ServiceID\":\"web\"") "]");
	ck_assert_ptr_nonnull(strstr(text, "{\"Check\":{\"Node\":\"n1\",\"CheckID\":\"c1\",\"Name\":\"c1\",\"Status\":\"critical\""));
	ck_assert_ptr_nonnull(strstr(text, "\"ServiceID\":\"web\",\"ServiceName\":\"web\",\"ServiceTags\":[\"a\"]"));
	ck_assert_str_eq(apply("[" CHECK("cas", ",\"CheckID\":\"c1\",\"ModifyIndex\":3") "]"),
	    failed(0, "failed to set check \\\"c1\\\" on node \\\"n1\\\", index is stale"));
	ck_assert_ptr_nonnull(strstr(apply("[" CHECK("cas", ",\"CheckID\":\"c1\",\"Status\":\"passing\",\"ModifyIndex\":4") "]"),
	    "\"ModifyIndex\":6}}],\"Errors\":null"));
	/* A session goes with its check. */
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &(struct catalog_register){ .Node = span_str("n1"), .SkipNodeUpdate = true,
	    .has_check = true, .Check = { .CheckID = span_str("c2"), .Status = span_str("passing") } }));
	struct span bound = span_str("c2");
	struct fsm_result res = kit_apply(&k, OP_SESSION_CREATE, &(struct session){ .Node = span_str("n1"),
	    .NodeChecks = { &bound, 1, true } });
	ck_assert_int_eq(res.err, TV_OK);
	session = fmt("00000000-0000-4000-8000-%012x", k.uuids);
	ck_assert(kit_session_lives(&k, session));
	ck_assert_ptr_nonnull(strstr(apply("[" CHECK("set", ",\"CheckID\":\"c2\",\"Status\":\"critical\"") ","
	    KV("get", "x", "") "]"), "\"OpIndex\":1"));
	ck_assert(kit_session_lives(&k, session));
	ck_assert_ptr_nonnull(strstr(apply("[" CHECK("set", ",\"CheckID\":\"c2\",\"Status\":\"critical\"") "]"), "\"Errors\":null"));
	ck_assert(!kit_session_lives(&k, session));
	ck_assert_str_eq(apply("[" CHECK("delete-cas", ",\"CheckID\":\"c1\",\"ModifyIndex\":4") "]"),
	    failed(0, "failed to delete check \\\"c1\\\" on node \\\"n1\\\", index is stale"));
	ck_assert_str_eq(apply("[" CHECK("delete-cas", ",\"CheckID\":\"c1\",\"ModifyIndex\":6") "]"), done(""));
	ck_assert_str_eq(apply("[" CHECK("delete", ",\"CheckID\":\"c1\"") "," CHECK("delete", "") "]"), done(""));
	ck_assert_str_eq(apply("[" CHECK("", "") "]"), failed(0, "unknown Check verb \\\"\\\""));
	ck_assert_str_eq(just_read("[" CHECK("get", ",\"CheckID\":\"c1\"") "]"),
	    failed(0, "check \\\"c1\\\" on node \\\"n1\\\" doesn't exist"));
	ck_assert(fsm_has_node(k.f, span_str("n1")));
}
END_TEST

/* What only the leader may fill in, and what no client may make us do. */
START_TEST(limits)
{
	struct txn_op ops[TXN_OPS_MAX + 1] = { { .has_kv = false } };
	struct txn t = { .Ops = { ops, TXN_OPS_MAX + 1, true } };
	struct fsm_answer ans;
	struct buf packed = BUF_INIT(1u << 20), out = BUF_INIT(1u << 20);
	char why[256], long_key[FSM_KV_KEY_BYTES_MAX + 2];

	kit_refused(&k, OP_TXN_APPLY, &t, "Transaction contains too many operations (65 > 64)");
	t.Ops.n = 1;
	ck_assert_str_eq(shown(kit_apply(&k, OP_TXN_APPLY, &t).value),
	    failed(0, "an operation has exactly one of KV, Node, Service and Check"));
	ops[0].has_kv = ops[0].has_check = true;
	ck_assert_str_eq(shown(kit_apply(&k, OP_TXN_APPLY, &t).value),
	    failed(0, "an operation has exactly one of KV, Node, Service and Check"));
	ops[0] = (struct txn_op){ .has_kv = true, .Refused = span_str("a client's") };
	ops[0].KV = (struct txn_kv){ .Verb = span_str("set"), .Key = span_str("a") };
	ck_assert_str_eq(shown(kit_apply(&k, OP_TXN_APPLY, &t).value), done(entry("a", 0, 0, "null", "", 3, 3)));
	memset(long_key, 'k', sizeof(long_key));
	ops[0].KV.Key = span_of(long_key, FSM_KV_KEY_BYTES_MAX + 1);
	ck_assert_str_eq(shown(kit_apply(&k, OP_TXN_APPLY, &t).value), failed(0, "Key is longer than 8192 bytes"));
	/* What writes is no read. */
	schema_pack(&txn_schema, &t, &packed);
	fsm_read(k.f, op_find(OP_TXN_READ), buf_span(&packed), &k.a, &out, &ans);
	ck_assert_int_eq(ans.err, TV_EINVAL);
	ck_assert_uint_eq(out.len, 0);
	ck_assert_int_eq(txn_from_json(span_str("[{}]"), &k.a, &t, why, sizeof(why)), TV_EFORMAT);
	ck_assert_str_eq(why, "operation 0 does not have exactly one of KV, Node, Service and Check");
	ck_assert_int_eq(txn_from_json(span_str("[{\"KV\":{},\"Node\":{}}]"), &k.a, &t, why, sizeof(why)), TV_EFORMAT);
	ck_assert_int_eq(txn_from_json(span_str("{}"), &k.a, &t, why, sizeof(why)), TV_EFORMAT);
	ck_assert_str_eq(why, "json: cannot unmarshal object into Go value of type []object");
	ck_assert_int_eq(txn_from_json(span_str("null"), &k.a, &t, why, sizeof(why)), TV_OK);
	ck_assert_uint_eq(t.Ops.n, 0);
	buf_done(&packed);
	buf_done(&out);
}
END_TEST

/* Results have a bound that stands in the entry: all servers meet it at the same place. */
START_TEST(results_are_bounded)
{
	struct txn_op ops[3] = { { .has_kv = true }, { .has_kv = true }, { .has_kv = true } };
	struct txn t = { .Ops = { ops, 3, true } };
	struct buf value = BUF_INIT(4u << 20);
	const char *text;

	ck_assert_ptr_nonnull(buf_room(&value, 3u << 20));
	memset(value.data, 'v', 3u << 20);
	value.len = 3u << 20;
	ops[0].KV = (struct txn_kv){ .Verb = span_str("set"), .Key = span_str("t/a"), .Value = buf_span(&value) };
	ops[1].KV = (struct txn_kv){ .Verb = span_str("set"), .Key = span_str("t/b"), .Value = buf_span(&value) };
	ops[2].KV = (struct txn_kv){ .Verb = span_str("get-tree"), .Key = span_str("t/") };
	text = shown(kit_apply(&k, OP_TXN_APPLY, &t).value);
	ck_assert_ptr_nonnull(strstr(text, "\"Errors\":null"));
	ops[1].KV.Key = span_str("t/c");
	text = shown(kit_apply(&k, OP_TXN_APPLY, &t).value);
	ck_assert_str_eq(text, failed(2, "the results are larger than this transaction may have, since it writes: read so much in "
	    "one that only reads"));
	ck_assert(!kit_has(&k, "t/c"));
	buf_done(&value);
}
END_TEST

/* -- trees -- */

static void
put_many(const char *prefix, unsigned n)
{
	struct txn_op ops[TXN_OPS_MAX] = { { .has_kv = false } };
	struct txn t = { .Ops = { ops, 0, true } };

	for (unsigned i = 0; i < n; i++) {
		ops[t.Ops.n].has_kv = true;
		ops[t.Ops.n++].KV = (struct txn_kv){ .Verb = span_str("set"), .Value = span_str("0123456789"),
		    .Key = span_str(fmt("%s%06u", prefix, i)) };
		if (t.Ops.n < TXN_OPS_MAX && i + 1 < n)
			continue;
		ck_assert_int_eq(kit_apply(&k, OP_TXN_APPLY, &t).err, TV_OK);
		t.Ops.n = 0;
		arena_reset(&k.a);
	}
}

static struct raft_entry
as_entry(const char *json, struct buf *payload)
{
	struct txn t = parse(json);
	struct buf args = BUF_INIT(1u << 20);

	schema_pack(&txn_schema, &t, &args);
	buf_reset(payload);
	fsm_entry_write(payload, OP_TXN_APPLY, buf_span(&args));
	buf_done(&args);
	return (struct raft_entry){ .index = 1, .term = 1, .type = RAFT_ENTRY_OP, .payload = payload->data,
	    .size = (uint32_t)payload->len };
}

/* Trees of a transaction are work as trees of their own are, and go back like all else. */
START_TEST(trees)
{
	struct buf payload = BUF_INIT(1u << 20);
	struct raft_entry e;
	struct span prefixes[TXN_OPS_MAX];
	uint64_t tree_work = fsm_entry_work(&(struct raft_entry){ .type = RAFT_ENTRY_OP, .payload = (uint8_t *)"\x92\x43\x90",
	    .size = 3 });

	e = as_entry("[" KV("set", "a", "") "," NODE("get", "") "]", &payload);
	ck_assert_uint_eq(txn_trees(&e, prefixes), 0);
	ck_assert_uint_eq(fsm_entry_work(&e), e.size);
	e = as_entry("[" KV("delete-tree", "t/", "") "," NODE("get", "") "," KV("delete-tree", "u/", "") "]", &payload);
	ck_assert_uint_eq(txn_trees(&e, prefixes), 2);
	ck_assert(span_eqs(prefixes[0], "t/") && span_eqs(prefixes[1], "u/"));
	ck_assert_uint_eq(fsm_entry_work(&e), tree_work);
	put_many("t/", 600);
	put_many("u/", 300);
	ck_assert(!kv_is_large_tree(k.f, &e));
	put_many("u/", 400);
	ck_assert(kv_is_large_tree(k.f, &e));		/* together they have so many */
	ck_assert_str_eq(apply("[" KV("delete-tree", "t/", "") "," KV("get-tree", "t/", "") "," KV("get", "t/000000", "") "]"),
	    failed(2, "key \\\"t/000000\\\" doesn't exist"));
	ck_assert(kit_has(&k, "t/000000") && kit_has(&k, "t/000599"));
	ck_assert_str_eq(apply("[" KV("delete-tree", "t/", "") "," KV("delete-tree", "u/0003", "") "]"), done(""));
	ck_assert(!kit_has(&k, "t/000000") && kit_has(&k, "u/000000") && !kit_has(&k, "u/000399"));
	ck_assert_str_eq(apply("[" KV("delete-tree", "", "") "]"), done(""));
	ck_assert_uint_eq(k.f->tally[FT_KV], 0);
	buf_done(&payload);
}
END_TEST

/* What all trees of one transaction remove is bounded, by numbers in the entry. */
START_TEST(trees_are_bounded)
{
	struct txn t;
	struct buf args = BUF_INIT(1u << 20), payload = BUF_INIT(1u << 20);
	struct raft_entry e = { .term = 1, .type = RAFT_ENTRY_OP };
	struct fsm_result res;

	put_many("t/", 60);
	put_many("u/", 41);
	t = parse("[" KV("delete-tree", "t/", "") "," KV("delete-tree", "t/", "") "," KV("delete-tree", "u/", "") "]");
	for (t.TreeKeys = 100; t.TreeKeys <= 101; t.TreeKeys++) {
		t.TreeBytes = t.AnswerBytes = 1u << 20;
		buf_reset(&args);
		buf_reset(&payload);
		schema_pack(&txn_schema, &t, &args);
		fsm_entry_write(&payload, OP_TXN_APPLY, buf_span(&args));
		e.index = fsm_applied(k.f) + 1;
		e.payload = payload.data;
		e.size = (uint32_t)payload.len;
		ck_assert_int_eq(fsm_apply(k.f, &e, 1, &k.a, &res), TV_OK);
		if (t.TreeKeys == 100)
			ck_assert_str_eq(shown(res.value), failed(2, "more keys, or bytes, begin with this prefix than a transaction "
			    "may still delete (100000 keys and 256 MB in all)"));
		else
			ck_assert_str_eq(shown(res.value), done(""));
		ck_assert_uint_eq(k.f->tally[FT_KV], t.TreeKeys == 100 ? 101 : 0);
	}
	buf_done(&args);
	buf_done(&payload);
}
END_TEST

/* As large as it may be: it goes, or stays, and the state is whole in either case. */
START_TEST(the_largest_tree)
{
	const char *json = "[" KV("delete-tree", "t/", "") "," KV("check-not-exists", "a", "") "]";
	uint64_t index, term;

	put_many("t/", TXN_TREE_KEYS_MAX);
	kit_put(&k, "a", "1");
	ck_assert_str_eq(apply(json), failed(1, "key \\\"a\\\" exists"));
	ck_assert_uint_eq(k.f->tally[FT_KV], TXN_TREE_KEYS_MAX + 1);
	ck_assert(kit_has(&k, "t/000000") && kit_has(&k, "t/099999"));
	ck_assert_int_eq(fsm_checkpoint(k.f, &index, &term), TV_OK);
	kit_reopen(&k);
	ck_assert(kit_has(&k, "t/050000"));
	kit_verb(&k, KV_DELETE, "a", NULL, NULL, 0);
	ck_assert_str_eq(apply(json), done(""));
	ck_assert_uint_eq(k.f->tally[FT_KV], 0);
	ck_assert_int_eq(fsm_trouble(k.f), TV_OK);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("fsm_txn");
	TCase *t = tcase_create("txn");
	SRunner *r;
	int failures;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 300);
	tcase_add_test(t, keys_are_written);
	tcase_add_test(t, keys_are_locked);
	tcase_add_test(t, keys_are_read);
	tcase_add_test(t, keys_that_may_be_missing);
	tcase_add_test(t, all_or_nothing);
	tcase_add_test(t, nodes);
	tcase_add_test(t, nodes_by_id);
	tcase_add_test(t, services);
	tcase_add_test(t, checks);
	tcase_add_test(t, limits);
	tcase_add_test(t, results_are_bounded);
	tcase_add_test(t, trees);
	tcase_add_test(t, trees_are_bounded);
	tcase_add_test(t, the_largest_tree);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failures = srunner_ntests_failed(r);
	srunner_free(r);
	return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
