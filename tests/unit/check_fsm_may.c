/* Who may what, by tokens: rights in memory, writes, reads that are judged and filtered, transactions. */
#include <stdio.h>
#include <stdlib.h>

#include <sodium.h>

#include "common/acl/set.h"
#include "common/record/mpack.h"
#include "common/record/schema_json.h"
#include "raftd/fsm/acl/acl_int.h"
#include "tests/unit/fsm_kit.h"

#define MINUTE (60 * KIT_SECOND)
#define OWN_ALL "key_prefix \"own\" { policy = \"write\" } node_prefix \"own\" { policy = \"write\" } " \
	"service_prefix \"own\" { policy = \"write\" } session_prefix \"own\" { policy = \"write\" } " \
	"query_prefix \"own\" { policy = \"write\" }"
#define ALL_WRITE "node_prefix \"\" { policy = \"write\" } service_prefix \"\" { policy = \"write\" } " \
	"session_prefix \"\" { policy = \"write\" } query_prefix \"\" { policy = \"write\" }"
#define READ_ALL "key_prefix \"\" { policy = \"read\" } node_prefix \"\" { policy = \"read\" } " \
	"service_prefix \"\" { policy = \"read\" } session_prefix \"\" { policy = \"read\" } query_prefix \"\" { policy = \"read\" }"
#define ENTRIES_MAX 16384		/* of raftd/fsm/acl/acl_rights.c */

static struct kit k;
static unsigned made;			/* policies, whose names have to differ */

static void
setup(void)
{
	kit_open(&k);
	made = 0;
	ck_assert(kit_bool(&k, OP_ACL_ENABLE, &(struct acl_enable){ .Now = 0 }));
}

static void
teardown(void)
{
	kit_close(&k);
}

/* -- short ways -- */

#define TEXT(...) arena_printf(&k.a, __VA_ARGS__)

static void
answered(const struct fsm_result *res, const struct schema *s, void *rec)
{
	struct rd in = rd_span_over(res->value);

	ck_assert_msg(res->err == TV_OK, "%.*s", (int)res->text.len, (const char *)res->text.p);
	ck_assert_int_eq(schema_unpack(s, &in, &k.a, rec), TV_OK);
}

/* id NULL: a new one. */
static struct span
policy(const char *rules, struct span *id)
{
	struct acl_policy_set q = { .Policy = { .Name = TEXT("p%u", ++made), .Rules = span_str(rules) } };
	struct acl_policy p;
	struct fsm_result res;

	if (id != NULL)
		q.Policy.ID = *id;
	res = kit_apply(&k, OP_ACL_POLICY_SET, &q);
	answered(&res, &acl_policy_schema, &p);
	return p.ID;
}

static struct acl_token
token_of(struct span policy_id, int64_t ttl)
{
	struct acl_link link = { .ID = policy_id };
	struct acl_token_set q = { .Token = { .Policies = { .v = &link, .n = 1, .set = true }, .ExpirationTTL = ttl } };
	struct fsm_result res = kit_apply(&k, OP_ACL_TOKEN_SET, &q);
	struct acl_token t;

	answered(&res, &acl_token_schema, &t);
	return t;
}

/* The secret of a token with a policy of its own. */
static struct span
token(const char *rules)
{
	return token_of(policy(rules, NULL), 0).SecretID;
}

static const struct fsm_rights *
rights_of(struct span secret)
{
	const struct fsm_rights *r;

	ck_assert_int_eq(fsm_rights_get(k.f, secret, k.now, &r), TV_OK);
	ck_assert_ptr_nonnull(r);
	return r;
}

static enum tv_err
known(struct span secret)
{
	const struct fsm_rights *r;
	enum tv_err err = fsm_rights_known(k.f, secret, k.now, &r);

	ck_assert((err == TV_OK) == (r != NULL));
	fsm_rights_free(r);
	return err;
}

static void
take_line(void *ctx, const char *name, const char *value)
{
	const char **found = ctx;

	if (strcmp(name, found[0]) == 0)
		found[1] = arena_cstr(&k.a, span_str(value));
}

static unsigned long
info(const char *name)
{
	const char *found[] = { name, NULL };

	fsm_rights_info(k.f, take_line, found);
	ck_assert_msg(found[1] != NULL, "%s is not told", name);
	return strtoul(found[1], NULL, 10);
}

static struct span
packed(uint16_t op, const void *rec)
{
	struct buf b = BUF_INIT(1u << 20);
	struct span out;

	schema_pack(op_find(op)->args, rec, &b);
	out = arena_copy(&k.a, buf_span(&b));
	buf_done(&b);
	return out;
}

/* With a look at the state, and without: where that says something it says the same. */
static enum tv_err
may(struct span secret, uint16_t op, const void *rec)
{
	const struct fsm_rights *r = rights_of(secret);
	struct buf reply = BUF_INIT(1u << 20);
	struct span args = packed(op, rec);
	const char *why = "";
	enum tv_err err = fsm_may(k.f, op_find(op), args, r, &reply, NULL, &why), blind;

	ck_assert(err == TV_OK || err == TV_EPERM);
	ck_assert(err == TV_OK || reply.len > 0 || strncmp(why, "Permission denied", 17) == 0);
	ck_assert(err == TV_EPERM || reply.len == 0);
	buf_reset(&reply);
	blind = fsm_may(NULL, op_find(op), args, r, &reply, NULL, &why);
	ck_assert(blind == err || blind == TV_EAGAIN);
	ck_assert(blind == TV_EPERM || reply.len == 0);
	buf_done(&reply);
	fsm_rights_free(r);
	return err;
}

/* Does it need a look at the state? */
static bool
looks(struct span secret, uint16_t op, const void *rec)
{
	const struct fsm_rights *r = rights_of(secret);
	struct buf reply = BUF_INIT(1u << 20);
	const char *why = "";
	enum tv_err err = fsm_may(NULL, op_find(op), packed(op, rec), r, &reply, NULL, &why);

	buf_done(&reply);
	fsm_rights_free(r);
	return err == TV_EAGAIN;
}

/* A read with a token: how many records, or -1 with the error in k.ans. */
static int
seen(struct span secret, uint16_t op, const void *rec)
{
	const struct fsm_rights *r;
	struct rd in;

	buf_reset(&k.out);
	fsm_read_as(k.f, op_find(op), packed(op, rec), secret, &k.a, &k.out, &k.ans, &r);
	fsm_rights_free(r);
	if (k.ans.err != TV_OK) {
		ck_assert_uint_eq(k.out.len, 0);
		return -1;
	}
	in = rd_span_over(buf_span(&k.out));
	return op_find(op)->answers == OP_LIST ? (int)mpr_array(&in) : 1;
}

static bool
shows(const char *text)
{
	return memmem(k.out.data, k.out.len, text, strlen(text)) != NULL;
}

static void
refused(struct span secret, uint16_t op, const void *rec, const char *text)
{
	ck_assert_int_eq(seen(secret, op, rec), -1);
	ck_assert_int_eq(k.ans.err, TV_EPERM);
	ck_assert_str_eq(arena_cstr(&k.a, k.ans.text), text);
}

#define S(text) span_str(text)
#define NOBODYS S("11111111-2222-4333-8444-555555555551")

/* -- rights -- */

START_TEST(off)
{
	const struct fsm_rights *r;
	struct kit on = k;
	const char *why;

	kit_open(&k);
	ck_assert_int_eq(fsm_rights_known(k.f, NOBODYS, k.now, &r), TV_OK);
	ck_assert_ptr_null(r);
	ck_assert_int_eq(fsm_rights_get(k.f, NOBODYS, k.now, &r), TV_OK);
	ck_assert_ptr_null(r);
	ck_assert_int_eq(fsm_may(NULL, op_find(OP_KV_APPLY), SPAN_NONE, NULL, &k.out, NULL, &why), TV_OK);
	ck_assert(kit_put(&k, "a", "1"));
	ck_assert_int_eq(seen(NOBODYS, OP_KV_LIST, &(struct kv_read){ .Key = S("") }), 1);
	kit_close(&k);
	k = on;
}
END_TEST

START_TEST(unknown_tokens)
{
	const struct fsm_rights *r;

	ck_assert_int_eq(known(NOBODYS), TV_EAGAIN);
	ck_assert_int_eq(fsm_rights_get(k.f, NOBODYS, k.now, &r), TV_ENOENT);
	ck_assert_ptr_null(r);
	ck_assert_uint_eq(info("acl_rights_kept"), 0);		/* nobody fills it with what is nothing */
	refused(NOBODYS, OP_KV_LIST, &(struct kv_read){ .Key = S("") }, "ACL not found");
	refused(NOBODYS, OP_TXN_READ, &(struct txn){ .Now = 0 }, "ACL not found");
	ck_assert_int_eq(seen(NOBODYS, OP_ACL_REPLICATION, &(struct empty_rec){ 0 }), 1);
	/* No token is the anonymous one. */
	ck_assert_int_eq(seen(SPAN_NONE, OP_KV_LIST, &(struct kv_read){ .Key = S("") }), 0);
	ck_assert_int_eq(known(SPAN_NONE), TV_OK);
}
END_TEST

START_TEST(shared_sets)
{
	struct span id = policy(OWN_ALL, NULL), same = policy(OWN_ALL, NULL), other = policy(READ_ALL, NULL);
	struct span secrets[] = { token_of(id, 0).SecretID, token_of(id, 0).SecretID, token_of(same, 0).SecretID,
	    token_of(other, 0).SecretID };
	const struct fsm_rights *r[4];

	for (unsigned i = 0; i < 4; i++) {
		r[i] = rights_of(secrets[i]);
		ck_assert_int_eq(known(secrets[i]), TV_OK);
	}
	ck_assert_ptr_ne(r[0], r[1]);
	ck_assert_ptr_eq(fsm_rights_set(r[0]), fsm_rights_set(r[1]));
	ck_assert_ptr_ne(fsm_rights_set(r[0]), fsm_rights_set(r[3]));
	ck_assert_str_ne(fsm_rights_accessor(r[0]), fsm_rights_accessor(r[1]));
	ck_assert_uint_eq(info("acl_rights_kept"), 4);
	ck_assert_uint_le(info("acl_rule_sets"), 3);
	ck_assert_uint_gt(info("acl_rule_set_bytes"), 0);
	for (unsigned i = 0; i < 4; i++)
		fsm_rights_free(r[i]);
}
END_TEST

/* Whatever of access control changes, and nothing else, makes what is in memory old; the old one stays whole for its users. */
START_TEST(invalidated)
{
	struct span id = policy(OWN_ALL, NULL), secret = token_of(id, 0).SecretID, role;
	struct acl_token gone = token_of(id, 0);
	const struct fsm_rights *old = rights_of(secret), *now;
	uint64_t index = fsm_acl_index(k.f);

	ck_assert(kit_put(&k, "a", "1"));
	kit_node(&k, "n", "10.0.0.1");
	ck_assert_uint_eq(fsm_acl_index(k.f), index);
	ck_assert_int_eq(known(secret), TV_OK);
	policy(READ_ALL, &id);
	ck_assert_uint_gt(fsm_acl_index(k.f), index);
	ck_assert_int_eq(known(secret), TV_EAGAIN);
	now = rights_of(secret);
	ck_assert(acl_set_allows(fsm_rights_set(old), ACL_KEY, S("own"), ACL_WRITE));
	ck_assert(!acl_set_allows(fsm_rights_set(now), ACL_KEY, S("own"), ACL_WRITE));
	ck_assert_uint_gt(fsm_rights_index(now), fsm_rights_index(old));
	ck_assert_int_eq(known(secret), TV_OK);
	/* A change of somebody else's: the same set, found again. */
	ck_assert(kit_bool(&k, OP_ACL_TOKEN_DELETE, &(struct acl_token_delete){ .AccessorID = gone.AccessorID }));
	ck_assert_int_eq(known(secret), TV_EAGAIN);
	fsm_rights_free(old);
	old = rights_of(secret);
	ck_assert_ptr_eq(fsm_rights_set(old), fsm_rights_set(now));
	fsm_rights_free(now);
	ck_assert_int_eq(fsm_rights_get(k.f, gone.SecretID, k.now, &now), TV_ENOENT);
	role = S("kept");
	kit_apply(&k, OP_ACL_ROLE_SET, &(struct acl_role_set){ .Role = { .Name = role } });
	ck_assert_int_eq(known(secret), TV_EAGAIN);
	fsm_rights_free(old);
}
END_TEST

START_TEST(expired)
{
	struct span secret = token_of(policy(READ_ALL, NULL), MINUTE).SecretID;
	const struct fsm_rights *r = rights_of(secret);

	ck_assert_int_eq(fsm_rights_expires(r), k.now + MINUTE);
	k.now += MINUTE - 1;
	ck_assert_int_eq(known(secret), TV_OK);
	ck_assert_int_eq(seen(secret, OP_KV_LIST, &(struct kv_read){ .Key = S("") }), 0);
	k.now += 1;
	ck_assert_int_eq(known(secret), TV_EAGAIN);
	refused(secret, OP_KV_LIST, &(struct kv_read){ .Key = S("") }, "ACL not found");
	fsm_rights_free(r);
}
END_TEST

/* The one that was asked for longest ago makes room, and what nobody uses any more is given back. */
START_TEST(bounded)
{
	struct span id = policy(READ_ALL, NULL), *secrets = calloc(ENTRIES_MAX + 10, sizeof(*secrets));
	const struct fsm_rights *r;

	ck_assert_ptr_nonnull(secrets);
	for (unsigned i = 0; i < ENTRIES_MAX + 10; i++)
		secrets[i] = token_of(id, 0).SecretID;
	for (unsigned i = 0; i < ENTRIES_MAX + 10; i++) {
		fsm_rights_free(rights_of(secrets[i]));
		ck_assert_int_eq(known(secrets[0]), TV_OK);	/* used all the while */
	}
	ck_assert_uint_eq(info("acl_rights_kept"), ENTRIES_MAX);
	ck_assert_uint_eq(info("acl_rule_sets"), 1);
	for (unsigned i = 1; i <= 10; i++)
		ck_assert_int_eq(known(secrets[i]), TV_EAGAIN);
	ck_assert_int_eq(known(secrets[11]), TV_OK);
	ck_assert_int_eq(known(secrets[ENTRIES_MAX + 9]), TV_OK);
	r = rights_of(secrets[1]);
	ck_assert_int_eq(known(secrets[1]), TV_OK);
	free(secrets);
	/* Rights may outlive the state. */
	kit_reopen(&k);
	ck_assert(acl_set_allows(fsm_rights_set(r), ACL_KEY, S("x"), ACL_READ));
	fsm_rights_free(r);
}
END_TEST

/* -- writes -- */

START_TEST(keys)
{
	struct span own = token(OWN_ALL " key \"own/deny\" { policy = \"deny\" }"), read = token(READ_ALL);
	static const struct { enum kv_verb verb; const char *key; bool may; } cases[] = {
		{ KV_SET, "own/a", true }, { KV_SET, "own/deny", false }, { KV_SET, "alien", false }, { KV_CAS, "own/a", true },
		{ KV_LOCK, "own/a", true }, { KV_LOCK, "alien", false }, { KV_UNLOCK, "own/a", true }, { KV_DELETE, "alien", false },
		{ KV_DELETE, "own/a", true }, { KV_DELETE_CAS, "alien", false },
		{ KV_DELETE_TREE, "own/a", true }, { KV_DELETE_TREE, "own", false }, { KV_DELETE_TREE, "", false },
		{ KV_DELETE_TREE_PARTS, "own/a", true }, { KV_DELETE_TREE_PARTS, "own", false }, { KV_DELETE_TREE_PARTS, "ow", false },
		{ KV_DELETE_PART, "own/a", true }, { KV_DELETE_PART, "own/d", false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kv_apply q = { .Verb = cases[i].verb, .Key = S(cases[i].key) };

		ck_assert_msg((may(own, OP_KV_APPLY, &q) == TV_OK) == cases[i].may, "verb %d of %s", cases[i].verb, cases[i].key);
		ck_assert(!looks(own, OP_KV_APPLY, &q));
		ck_assert_int_eq(may(read, OP_KV_APPLY, &q), TV_EPERM);
		ck_assert_int_eq(may(SPAN_NONE, OP_KV_APPLY, &q), TV_EPERM);
	}
}
END_TEST

START_TEST(sessions)
{
	struct span own = token(OWN_ALL);
	const char *mine, *theirs;

	kit_node(&k, "own-n", "10.0.0.1");
	kit_node(&k, "alien", "10.0.0.2");
	mine = kit_session(&k, "own-n", "release", 0);
	theirs = kit_session(&k, "alien", "release", 0);
	ck_assert_int_eq(may(own, OP_SESSION_CREATE, &(struct session){ .Node = S("own-n") }), TV_OK);
	ck_assert_int_eq(may(own, OP_SESSION_CREATE, &(struct session){ .Node = S("alien") }), TV_EPERM);
	ck_assert_int_eq(may(own, OP_SESSION_CREATE, &(struct session){ .Node = S("") }), TV_EPERM);
	ck_assert(looks(own, OP_SESSION_DESTROY, &(struct session_destroy){ .ID = S(mine) }));
	ck_assert_int_eq(may(own, OP_SESSION_DESTROY, &(struct session_destroy){ .ID = S(mine) }), TV_OK);
	ck_assert_int_eq(may(own, OP_SESSION_DESTROY, &(struct session_destroy){ .ID = S(theirs) }), TV_EPERM);
	ck_assert_int_eq(may(own, OP_SESSION_DESTROY, &(struct session_destroy){ .ID = NOBODYS }), TV_OK);
	ck_assert_int_eq(may(own, OP_SESSION_RENEW, &(struct session_read){ .ID = S(mine) }), TV_OK);
	ck_assert_int_eq(may(own, OP_SESSION_RENEW, &(struct session_read){ .ID = S(theirs) }), TV_EPERM);
	ck_assert_int_eq(seen(own, OP_SESSION_LIST, &(struct session_read){ .ID = SPAN_NONE }), 1);
	ck_assert_int_eq(seen(own, OP_SESSION_INFO, &(struct session_read){ .ID = S(theirs) }), 0);
}
END_TEST

static struct catalog_register
of_node(const char *node, const char *address)
{
	return (struct catalog_register){ .Node = S(node), .Address = S(address) };
}

static struct catalog_register
of_service(const char *node, const char *id, const char *name)
{
	return (struct catalog_register){ .Node = S(node), .SkipNodeUpdate = true, .has_service = true,
	    .Service = { .ID = S(id), .Service = S(name) } };
}

static struct catalog_register
of_check(const char *node, const char *check, const char *service)
{
	return (struct catalog_register){ .Node = S(node), .SkipNodeUpdate = true, .has_check = true,
	    .Check = { .CheckID = S(check), .Name = S(check), .ServiceID = S(service) } };
}

/* A node that changes needs a right to it, a service to its name and to what it was, a check to what it is of. */
START_TEST(registrations)
{
	struct span own = token(OWN_ALL);
	struct catalog_register q;

	kit_node(&k, "alien", "10.0.0.2");
	kit_node(&k, "own-n", "10.0.0.1");
	kit_service(&k, "alien", "s1", "own-web", NULL);
	kit_service(&k, "alien", "s2", "theirs", NULL);
	kit_check(&k, "alien", "c1", "s2", "passing");
	kit_check(&k, "alien", "c2", NULL, "passing");
	kit_check(&k, "alien", "c3", "s1", "passing");
#define EXPECT(want, ...) do { q = __VA_ARGS__; ck_assert_int_eq(may(own, OP_CATALOG_REGISTER, &q), want); } while (0)
	EXPECT(TV_OK, of_node("own-n", "10.0.0.7"));
	EXPECT(TV_EPERM, of_node("alien", "10.0.0.7"));
	EXPECT(TV_OK, of_node("alien", "10.0.0.2"));		/* nothing would change */
	EXPECT(TV_EPERM, of_node("unheard", "10.0.0.7"));
	EXPECT(TV_EPERM, of_service("unheard", "s", "own-web"));
	EXPECT(TV_OK, of_service("alien", "s3", "own-web"));
	EXPECT(TV_EPERM, of_service("alien", "s3", "theirs"));
	EXPECT(TV_EPERM, of_service("alien", "s2", "own-web"));	/* it would take the place of another one's */
	EXPECT(TV_OK, of_service("alien", "s1", "own-other"));
	EXPECT(TV_OK, of_check("own-n", "c", ""));
	EXPECT(TV_EPERM, of_check("alien", "c", ""));
	EXPECT(TV_OK, of_check("alien", "c", "s1"));
	EXPECT(TV_EPERM, of_check("alien", "c", "s2"));
	EXPECT(TV_EPERM, of_check("alien", "c1", "s1"));
	EXPECT(TV_EPERM, of_check("alien", "c2", "s1"));
	EXPECT(TV_OK, of_check("alien", "c3", "s1"));
	q = of_service("alien", "p", "own-proxy");
	q.Service.Kind = S("connect-proxy");
	q.Service.Proxy.DestinationServiceName = S("theirs");
	ck_assert_int_eq(may(own, OP_CATALOG_REGISTER, &q), TV_EPERM);
	q.Service.Proxy.DestinationServiceName = S("own-web");
	ck_assert_int_eq(may(own, OP_CATALOG_REGISTER, &q), TV_OK);
	q = of_service("alien", "s1", "own-web");
	q.Checks = (struct obj_list){ .v = &(struct check){ .CheckID = S("c1"), .Name = S("c1") }, .n = 1, .set = true };
	ck_assert_int_eq(may(own, OP_CATALOG_REGISTER, &q), TV_EPERM);
#undef EXPECT
}
END_TEST

/* -- premises -- */

/* Judged with this token, which may: what the judgement rests on. */
static struct span
premises_of(struct span secret, uint16_t op, const void *rec)
{
	const struct fsm_rights *r;
	struct fsm_answer ans;
	struct span out;

	buf_reset(&k.out);
	fsm_judge(k.f, op_find(op), packed(op, rec), secret, &k.a, &k.out, &ans, &r);
	fsm_rights_free(r);
	ck_assert_msg(ans.err == TV_OK && !ans.refused, "%s", op_find(op)->name);
	out = arena_copy(&k.a, buf_span(&k.out));
	return out;
}

static struct fsm_result
apply_with(uint16_t op, const void *rec, struct span premises)
{
	struct buf args = BUF_INIT(1u << 20), payload = BUF_INIT(1u << 20);
	struct raft_entry e = { .index = fsm_applied(k.f) + 1, .term = 1, .type = RAFT_ENTRY_OP };
	struct fsm_result res = { .err = TV_OK };
	struct span text;

	ck_assert_int_eq(fsm_prepare(k.f, &(uint16_t){ op }, packed(op, rec), k.now, "11111111-2222-4333-8444-000000000009", &args, &k.a, &text), TV_OK);
	fsm_entry_write_judged(&payload, op, buf_span(&args), premises);
	e.payload = payload.data;
	e.size = (uint32_t)payload.len;
	ck_assert_int_eq(fsm_apply(k.f, &e, 1, &k.a, &res), TV_OK);
	buf_done(&args);
	buf_done(&payload);
	return res;
}

static const char *
catalog_text(void)
{
	const char *json;

	(void)kit_read(&k, OP_NODE_DUMP, &(struct catalog_read){ .Name = SPAN_NONE }, &json);
	return json;
}

/* Judged, then the other write is applied, then this one: it is outdated if that matters to its right, and changes nothing. */
static void
races(struct span secret, uint16_t op, const void *rec, uint16_t other, const void *change, bool matters)
{
	struct span premises = premises_of(secret, op, rec);
	struct fsm_result res;
	const char *before;

	ck_assert(premises.len > 0);
	ck_assert_int_eq(kit_apply(&k, other, change).err, TV_OK);
	before = catalog_text();
	res = apply_with(op, rec, premises);
	ck_assert_msg(res.outdated == matters, "%s after %s", op_find(op)->name, op_find(other)->name);
	if (matters) {
		ck_assert_int_eq(res.err, TV_EAGAIN);
		ck_assert_uint_eq(res.value.len, 0);
		ck_assert_str_eq(catalog_text(), before);
	} else {
		ck_assert_int_eq(res.err, TV_OK);
	}
}

#define REGISTER(...) &(struct catalog_register){ __VA_ARGS__ }
#define SERVICE_OF(node, id, name, port) REGISTER(.Node = S(node), .SkipNodeUpdate = true, .has_service = true, \
	.Service = { .ID = S(id), .Service = S(name), .Port = (port) })
#define CHECK_OF(node, id, service, status) REGISTER(.Node = S(node), .SkipNodeUpdate = true, .has_check = true, \
	.Check = { .CheckID = S(id), .Name = S(id), .ServiceID = S(service), .Status = S(status) })
#define NODE_OF(node, address) REGISTER(.Node = S(node), .Address = S(address))
#define GONE(...) &(struct catalog_deregister){ __VA_ARGS__ }

/* What others change between judging and applying matters where the right depends on it, and only there. */
START_TEST(premises)
{
	struct span own = token(OWN_ALL);
	const char *session;
	const struct prepared_query *theirs;

	kit_node(&k, "ext", "10.0.0.2");
	kit_node(&k, "own-n", "10.0.0.1");
	/* An id that is free, and that of a service which is registered in other words, or anew. */
	races(own, OP_CATALOG_REGISTER, SERVICE_OF("ext", "v", "own-web", 1), OP_CATALOG_REGISTER, SERVICE_OF("ext", "V", "theirs", 1), true);
	kit_service(&k, "ext", "v", "own-web", NULL);
	races(own, OP_CATALOG_REGISTER, SERVICE_OF("ext", "v", "own-web", 2), OP_CATALOG_REGISTER, SERVICE_OF("ext", "v", "own-web", 3), false);
	races(own, OP_CATALOG_REGISTER, SERVICE_OF("ext", "v", "own-web", 4), OP_CATALOG_REGISTER, SERVICE_OF("ext", "v", "theirs", 3), true);
	kit_service(&k, "ext", "v", "own-web", NULL);
	races(own, OP_CATALOG_DEREGISTER, GONE(.Node = S("ext"), .ServiceID = S("v")), OP_CATALOG_REGISTER, SERVICE_OF("ext", "v", "theirs", 3), true);
	kit_service(&k, "ext", "v", "own-web", NULL);
	/* How a service is spelled. */
	races(own, OP_CATALOG_REGISTER, SERVICE_OF("own-n", "n", "own-new", 4), OP_CATALOG_REGISTER, SERVICE_OF("ext", "o", "OWN-NEW", 3), true);
	/* Checks: of the node, of the service, of none. */
	races(own, OP_CATALOG_REGISTER, CHECK_OF("ext", "c", "v", "passing"), OP_CATALOG_REGISTER, CHECK_OF("ext", "C", "", "passing"), true);
	kit_check(&k, "ext", "c", "v", "passing");
	races(own, OP_CATALOG_REGISTER, CHECK_OF("ext", "c", "v", "passing"), OP_CATALOG_REGISTER, CHECK_OF("ext", "c", "v", "critical"), false);
	races(own, OP_CATALOG_REGISTER, CHECK_OF("ext", "c", "v", "passing"), OP_CATALOG_REGISTER, SERVICE_OF("ext", "v", "theirs", 3), true);
	kit_service(&k, "ext", "v", "own-web", NULL);
	kit_check(&k, "ext", "c", "v", "passing");
	races(own, OP_CATALOG_DEREGISTER, GONE(.Node = S("ext"), .CheckID = S("c")), OP_CATALOG_REGISTER, CHECK_OF("ext", "c", "", "passing"), true);
	/* A node that stays as it is, one that is renamed, one that comes. */
	races(own, OP_CATALOG_REGISTER, NODE_OF("ext", "10.0.0.2"), OP_CATALOG_REGISTER, NODE_OF("ext", "10.0.0.9"), true);
	races(own, OP_CATALOG_REGISTER, SERVICE_OF("ext", "w", "own-web", 2), OP_CATALOG_REGISTER, NODE_OF("ext", "10.0.0.2"), false);
	races(own, OP_CATALOG_REGISTER, SERVICE_OF("ext", "w2", "own-web", 2), OP_CATALOG_DEREGISTER, GONE(.Node = S("ext")), true);
	races(own, OP_CATALOG_REGISTER, NODE_OF("own-new", "10.0.0.2"), OP_CATALOG_REGISTER, NODE_OF("OWN-NEW", "10.0.0.9"), true);
	races(own, OP_CATALOG_REGISTER, REGISTER(.ID = NOBODYS, .Node = S("own-id"), .Address = S("10.0.0.2")), OP_CATALOG_REGISTER,
	    REGISTER(.ID = NOBODYS, .Node = S("theirs"), .Address = S("10.0.0.2")), true);
	/* Sessions and prepared queries. */
	races(own, OP_SESSION_CREATE, &(struct session){ .Node = S("own-s"), .NodeChecks = { .set = true } }, OP_CATALOG_REGISTER,
	    NODE_OF("OWN-s", "10.0.0.9"), true);
	session = kit_session(&k, "own-n", "release", 0);
	races(own, OP_SESSION_DESTROY, &(struct session_destroy){ .ID = S(session) }, OP_CATALOG_DEREGISTER, GONE(.Node = S("own-n")), true);
	theirs = &(struct prepared_query){ .ID = SPAN_NONE, .Name = S("own-q"), .Service = { .Service = S("x") } };
	ck_assert_int_eq(apply_with(OP_QUERY_CREATE, theirs, SPAN_NONE).err, TV_OK);
#define QUERY S("11111111-2222-4333-8444-000000000009")
	theirs = &(struct prepared_query){ .ID = QUERY, .Name = S("theirs"), .Service = { .Service = S("x") } };
	races(own, OP_QUERY_UPDATE, &(struct prepared_query){ .ID = QUERY, .Name = S("own-q"), .Service = { .Service = S("y") } },
	    OP_QUERY_UPDATE, &(struct prepared_query){ .ID = QUERY, .Name = S("own-q"), .Service = { .Service = S("z") } }, false);
	races(own, OP_QUERY_DELETE, &(struct prepared_read){ .ID = QUERY }, OP_QUERY_UPDATE, theirs, true);
}
END_TEST

/* With all rights nothing is looked at, and nothing goes with the entry. */
START_TEST(premises_of_all_rights)
{
	struct span all = token(ALL_WRITE), own = token(OWN_ALL);
	struct buf few = BUF_INIT(8), reply = BUF_INIT(1024);
	const struct fsm_rights *r;
	const char *why = "";

	kit_node(&k, "ext", "10.0.0.2");
	ck_assert(!looks(all, OP_CATALOG_REGISTER, SERVICE_OF("ext", "v", "web", 1)));
	ck_assert(!looks(all, OP_CATALOG_DEREGISTER, GONE(.Node = S("ext"))));
	ck_assert(!looks(all, OP_SESSION_DESTROY, &(struct session_destroy){ .ID = NOBODYS }));
	ck_assert_uint_eq(premises_of(all, OP_CATALOG_REGISTER, SERVICE_OF("ext", "v", "web", 1)).len, 0);
	/* Too many to be written down. */
	r = rights_of(own);
	ck_assert_int_eq(fsm_may(k.f, op_find(OP_CATALOG_REGISTER), packed(OP_CATALOG_REGISTER, SERVICE_OF("ext", "v", "own-web", 1)), r,
	    &reply, &few, &why), TV_ELIMIT);
	ck_assert_ptr_nonnull(strstr(why, "several requests"));
	fsm_rights_free(r);
	buf_done(&few);
	buf_done(&reply);
}
END_TEST

/* They need a version of the state machine that knows them; what is none is an error of the entry, the same everywhere. */
START_TEST(premises_in_the_log)
{
	struct span own = token(OWN_ALL), good;

	kit_node(&k, "ext", "10.0.0.2");
	good = premises_of(own, OP_CATALOG_REGISTER, SERVICE_OF("ext", "v", "own-web", 1));
	ck_assert_uint_eq(fsm_entry_version(OP_CATALOG_REGISTER, SPAN_NONE, false), 1);
	ck_assert_uint_eq(fsm_entry_version(OP_CATALOG_REGISTER, SPAN_NONE, true), FSM_PREMISES_SINCE);
	ck_assert_uint_lt(fsm_needs(k.f), FSM_PREMISES_SINCE);
	ck_assert_int_eq(apply_with(OP_CATALOG_REGISTER, SERVICE_OF("ext", "v", "own-web", 1), S("\x91\x91\xc1")).err, TV_EFORMAT);
	ck_assert_int_eq(apply_with(OP_CATALOG_REGISTER, SERVICE_OF("ext", "v", "own-web", 1), S("\xa1x")).err, TV_EFORMAT);
	/* Of a kind that is not known: there is no such thing. */
	ck_assert(apply_with(OP_CATALOG_REGISTER, SERVICE_OF("ext", "v", "own-web", 1), S("\x91\x91\x95\x63\xa0\xa1x\xc3\xa0")).outdated);
	ck_assert_int_eq(kit_read(&k, OP_CATALOG_SERVICE, &(struct catalog_read){ .Name = S("own-web") }, NULL), 0);
	ck_assert_int_eq(apply_with(OP_CATALOG_REGISTER, SERVICE_OF("ext", "v", "own-web", 1), good).err, TV_OK);
	ck_assert_uint_eq(fsm_needs(k.f), FSM_PREMISES_SINCE);
}
END_TEST

/* A rule for a name holds for what is there under it in other letters. */
START_TEST(spellings)
{
	struct span all_but = token(ALL_WRITE " node \"db\" { policy = \"deny\" } service \"pay\" { policy = \"deny\" } "
	    "session \"db\" { policy = \"deny\" }");
	struct txn_op ops[] = {
		{ .has_node = true, .Node = { .Verb = S("delete"), .Node = { .Node = S("DB") } } },
		{ .has_service = true, .Service = { .Verb = S("set"), .Node = S("web"), .Service = { .ID = S("n"), .Service = S("PAY") } } },
		{ .has_service = true, .Service = { .Verb = S("delete"), .Node = S("DB"), .Service = { .ID = S("P1") } } },
		{ .has_check = true, .Check = { .Verb = S("delete"), .Check = { .Node = S("DB"), .CheckID = S("ALIVE") } } },
	};

	/* Nothing is there yet, and nothing that a rule says something of. */
	ck_assert_int_eq(may(all_but, OP_CATALOG_REGISTER, NODE_OF("DB", "10.0.0.1")), TV_OK);
	ck_assert_int_eq(may(all_but, OP_CATALOG_REGISTER, NODE_OF("db", "10.0.0.1")), TV_EPERM);
	kit_node(&k, "db", "10.0.0.1");
	kit_node(&k, "web", "10.0.0.2");
	kit_service(&k, "db", "p1", "pay", NULL);
	kit_check(&k, "db", "alive", NULL, "passing");
#define REFUSED(op, rec) ck_assert_int_eq(may(all_but, op, rec), TV_EPERM)
	REFUSED(OP_CATALOG_REGISTER, NODE_OF("DB", "6.6.6.6"));
	REFUSED(OP_CATALOG_REGISTER, SERVICE_OF("web", "n", "PAY", 666));
	REFUSED(OP_CATALOG_REGISTER, SERVICE_OF("DB", "P1", "mine", 666));
	REFUSED(OP_CATALOG_REGISTER, CHECK_OF("DB", "new", "", "critical"));
	REFUSED(OP_CATALOG_REGISTER, CHECK_OF("DB", "ALIVE", "", "critical"));
	REFUSED(OP_CATALOG_REGISTER, CHECK_OF("DB", "new", "P1", "critical"));
	REFUSED(OP_CATALOG_DEREGISTER, GONE(.Node = S("DB")));
	REFUSED(OP_CATALOG_DEREGISTER, GONE(.Node = S("DB"), .ServiceID = S("P1")));
	REFUSED(OP_CATALOG_DEREGISTER, GONE(.Node = S("DB"), .CheckID = S("ALIVE")));
	REFUSED(OP_SESSION_CREATE, &(struct session){ .Node = S("DB") });
	REFUSED(OP_SESSION_DESTROY, &(struct session_destroy){ .ID = S(kit_session(&k, "DB", "release", 0)) });
	REFUSED(OP_COORDINATE_UPDATE, &(struct coordinate_update){ .Node = S("DB") });
#undef REFUSED
	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		ck_assert_int_eq(may(all_but, OP_TXN_APPLY, &(struct txn){ .Ops = { .v = &ops[i], .n = 1, .set = true } }), TV_EPERM);
	ck_assert_int_eq(may(all_but, OP_CATALOG_REGISTER, SERVICE_OF("DB", "m", "mine", 1)), TV_OK);
	ck_assert_int_eq(may(all_but, OP_CATALOG_REGISTER, NODE_OF("WEB", "10.0.0.3")), TV_OK);
	ck_assert_int_eq(seen(all_but, OP_CATALOG_NODES, &(struct catalog_read){ .Name = S("DB") }), 0);
	ck_assert_int_eq(seen(all_but, OP_SESSION_LIST, &(struct session_read){ .ID = SPAN_NONE }), 0);
	ck_assert_int_eq(seen(all_but, OP_SESSION_NODE, &(struct session_read){ .Node = S("DB") }), 0);
	(void)seen(all_but, OP_CATALOG_NODE, &(struct catalog_read){ .Name = S("DB") });
	ck_assert(!shows("10.0.0.1"));
	refused(all_but, OP_COORDINATE_NODE, &(struct coordinate_read){ .Node = S("DB") }, "Permission denied");
}
END_TEST

START_TEST(deregistrations)
{
	struct span own = token(OWN_ALL);

	kit_node(&k, "alien", "10.0.0.2");
	kit_service(&k, "alien", "s1", "own-web", NULL);
	kit_service(&k, "alien", "s2", "theirs", NULL);
	kit_check(&k, "alien", "c1", "s1", "passing");
	kit_check(&k, "alien", "c2", NULL, "passing");
#define EXPECT(want, ...) ck_assert_int_eq(may(own, OP_CATALOG_DEREGISTER, &(struct catalog_deregister){ __VA_ARGS__ }), want)
	EXPECT(TV_OK, .Node = S("own-n"));
	EXPECT(TV_EPERM, .Node = S("alien"));
	EXPECT(TV_OK, .Node = S("alien"), .ServiceID = S("s1"));
	EXPECT(TV_EPERM, .Node = S("alien"), .ServiceID = S("s2"));
	EXPECT(TV_EPERM, .Node = S("alien"), .ServiceID = S("none"));
	EXPECT(TV_OK, .Node = S("alien"), .CheckID = S("c1"));
	EXPECT(TV_EPERM, .Node = S("alien"), .CheckID = S("c2"));
	EXPECT(TV_EPERM, .Node = S("alien"), .CheckID = S("none"));
#undef EXPECT
}
END_TEST

/* -- reads -- */

START_TEST(filtered)
{
	struct span own = token(OWN_ALL), read = token(READ_ALL), nodes = token("node_prefix \"\" { policy = \"read\" } " OWN_ALL);
	const struct catalog_read all = { .Name = SPAN_NONE };

	ck_assert(kit_put(&k, "own/a", "1"));
	ck_assert(kit_put(&k, "theirs/a", "1"));
	kit_node(&k, "own-n", "10.0.0.1");
	kit_node(&k, "alien", "10.0.0.2");
	kit_service(&k, "own-n", "s1", "own-web", NULL);
	kit_service(&k, "alien", "s2", "own-web", NULL);
	kit_service(&k, "alien", "s3", "theirs", NULL);
	kit_check(&k, "alien", "c1", "s3", "passing");
	ck_assert_int_eq(seen(own, OP_KV_LIST, &(struct kv_read){ .Key = S("") }), 1);
	ck_assert(shows("own/a") && !shows("theirs"));
	ck_assert_int_eq(seen(own, OP_KV_GET, &(struct kv_read){ .Key = S("own/a") }), 1);
	refused(own, OP_KV_GET, &(struct kv_read){ .Key = S("theirs/a") }, "Permission denied");
	refused(own, OP_KV_GET, &(struct kv_read){ .Key = S("theirs/none") }, "Permission denied");
	ck_assert_int_eq(seen(own, OP_KV_KEYS, &(struct kv_read){ .Key = S(""), .Separator = S("/") }), 1);
	ck_assert(shows("own/") && !shows("theirs"));
	ck_assert_int_eq(seen(own, OP_CATALOG_NODES, &all), 1);
	ck_assert_int_eq(seen(read, OP_CATALOG_NODES, &all), 2);
	ck_assert_int_eq(seen(own, OP_CATALOG_SERVICE, &(struct catalog_read){ .Name = S("own-web") }), 1);
	ck_assert_int_eq(seen(nodes, OP_CATALOG_SERVICE, &(struct catalog_read){ .Name = S("own-web") }), 2);
	ck_assert_int_eq(seen(nodes, OP_CATALOG_SERVICE, &(struct catalog_read){ .Name = S("theirs") }), 0);
	ck_assert_int_eq(seen(own, OP_CATALOG_SERVICES, &all), 1);
	ck_assert(!shows("theirs"));
	ck_assert_int_eq(seen(own, OP_CATALOG_NODE, &(struct catalog_read){ .Name = S("alien") }), 1);
	ck_assert(!shows("alien") && !shows("10.0.0.2") && !shows("own-web"));
	ck_assert_int_eq(seen(nodes, OP_CATALOG_NODE, &(struct catalog_read){ .Name = S("alien") }), 1);
	ck_assert(shows("own-web") && !shows("theirs"));
	ck_assert_int_eq(seen(nodes, OP_HEALTH_STATE, &(struct catalog_read){ .Name = S("any") }), 0);
	ck_assert_int_eq(seen(read, OP_HEALTH_STATE, &(struct catalog_read){ .Name = S("any") }), 1);
	ck_assert_int_eq(seen(nodes, OP_NODE_DUMP, &all), 2);
	ck_assert(!shows("theirs") && !shows("c1"));
	ck_assert_int_eq(seen(nodes, OP_CATALOG_ADDRESS, &(struct catalog_read){ .Name = S("10.0.0.2") }), 1);
	ck_assert_int_eq(seen(own, OP_CATALOG_ADDRESS, &(struct catalog_read){ .Name = S("10.0.0.2") }), 0);
	refused(own, OP_ACL_TOKEN_LIST, &(struct acl_token_list){ .Policy = SPAN_NONE }, "Permission denied");
	refused(read, OP_AUTOPILOT_READ, &(struct empty_rec){ 0 }, "Permission denied: Missing operator:read permissions");
}
END_TEST

/* Of what proxies for a service: its own name, its node, and the service. */
START_TEST(proxies)
{
	struct catalog_register q = of_service("n", "p", "proxy");
	const struct catalog_read web = { .Name = S("web") };
	static const struct { const char *rules; int seen; } cases[] = {
		{ "service \"web\" { policy = \"read\" } node_prefix \"\" { policy = \"read\" }", 0 },
		{ "service \"proxy\" { policy = \"read\" } node_prefix \"\" { policy = \"read\" }", 0 },
		{ "service \"proxy\" { policy = \"read\" } service \"web\" { policy = \"read\" }", 0 },
		{ "service \"proxy\" { policy = \"read\" } service \"web\" { policy = \"read\" } node \"n\" { policy = \"read\" }", 1 },
	};

	kit_node(&k, "n", "10.0.0.1");
	q.Service.Kind = S("connect-proxy");
	q.Service.Port = 1;
	q.Service.Proxy.DestinationServiceName = S("web");
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER_PROXY, &q));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct span secret = token(cases[i].rules);

		ck_assert_msg(seen(secret, OP_CATALOG_CONNECT, &web) == cases[i].seen, "%s", cases[i].rules);
		ck_assert_msg(seen(secret, OP_HEALTH_CONNECT, &web) == cases[i].seen, "%s", cases[i].rules);
	}
}
END_TEST

START_TEST(lists_of_keys)
{
	struct span read = token("key_prefix \"a/\" { policy = \"read\" }"), list = token("key_prefix \"a/\" { policy = \"list\" }");
	const struct kv_read q = { .Key = S("a/") }, above = { .Key = S("a") };

	ck_assert(kit_put(&k, "a/b", "1"));
	ck_assert_int_eq(seen(read, OP_KV_LIST, &q), 1);
	ck_assert_int_eq(seen(read, OP_KV_LIST, &above), 1);
	k.key_list = true;
	kit_reopen(&k);
	refused(read, OP_KV_LIST, &q, "Permission denied");
	refused(read, OP_KV_KEYS, &q, "Permission denied");
	ck_assert_int_eq(seen(read, OP_KV_GET, &(struct kv_read){ .Key = S("a/b") }), 1);
	ck_assert_int_eq(seen(list, OP_KV_LIST, &q), 1);
	refused(list, OP_KV_LIST, &above, "Permission denied");
}
END_TEST

/* What no rule covers is allowed, but for the resource acl. */
START_TEST(allowed_by_default)
{
	struct span denied = token("key_prefix \"no\" { policy = \"deny\" }");

	ck_assert(kit_put(&k, "no", "1"));
	ck_assert(kit_put(&k, "yes", "1"));
	k.default_allow = true;
	kit_reopen(&k);
	ck_assert_int_eq(seen(SPAN_NONE, OP_KV_LIST, &(struct kv_read){ .Key = S("") }), 2);
	ck_assert_int_eq(seen(denied, OP_KV_LIST, &(struct kv_read){ .Key = S("") }), 1);
	ck_assert_int_eq(may(SPAN_NONE, OP_KV_APPLY, &(struct kv_apply){ .Key = S("no") }), TV_OK);
	ck_assert_int_eq(may(denied, OP_KV_APPLY, &(struct kv_apply){ .Key = S("no") }), TV_EPERM);
	ck_assert_int_eq(may(denied, OP_KV_APPLY, &(struct kv_apply){ .Verb = KV_DELETE_TREE, .Key = S("") }), TV_EPERM);
	ck_assert_int_eq(may(SPAN_NONE, OP_ACL_TOKEN_SET, &(struct acl_token_set){ .Now = 0 }), TV_EPERM);
	ck_assert_int_eq(may(SPAN_NONE, OP_SNAPSHOT_SAVE, &(struct snapshot_ask){ .Server = SPAN_NONE }), TV_EPERM);
	refused(SPAN_NONE, OP_ACL_TOKEN_LIST, &(struct acl_token_list){ .Policy = SPAN_NONE }, "Permission denied");
}
END_TEST

/* All of the state holds the tokens: to read it is to write access control. */
START_TEST(snapshots)
{
	struct span reader = token("acl = \"read\" operator = \"write\" " READ_ALL), manager = token("acl = \"write\"");
	const struct snapshot_ask ask = { .Server = SPAN_NONE };

	ck_assert_int_eq(may(reader, OP_SNAPSHOT_SAVE, &ask), TV_EPERM);
	ck_assert_int_eq(may(reader, OP_RESTORE_OPEN, &ask), TV_EPERM);
	ck_assert_int_eq(may(manager, OP_SNAPSHOT_SAVE, &ask), TV_OK);
	ck_assert_int_eq(may(manager, OP_RESTORE_OPEN, &ask), TV_OK);
}
END_TEST

START_TEST(malformed)
{
	const struct fsm_rights *r = rights_of(token(OWN_ALL));
	struct buf reply = BUF_INIT(1024);
	struct fsm_answer ans;
	const char *why = "";

	ck_assert_int_eq(fsm_may(k.f, op_find(OP_KV_APPLY), S("\xc1"), r, &reply, NULL, &why), TV_EFORMAT);
	ck_assert_str_eq(why, "malformed arguments");
	ck_assert_int_eq(fsm_may(NULL, op_find(OP_TXN_APPLY), S("\x91\x91"), r, &reply, NULL, &why), TV_EFORMAT);
	ck_assert_uint_eq(reply.len, 0);
	fsm_rights_free(r);
	fsm_judge(k.f, op_find(OP_KV_APPLY), S("\xc1"), SPAN_NONE, &k.a, &reply, &ans, &r);
	ck_assert_int_eq(ans.err, TV_EFORMAT);
	fsm_rights_free(r);
	buf_done(&reply);
}
END_TEST

/* -- transactions -- */

static struct txn_op
kv_op(const char *verb, const char *key)
{
	return (struct txn_op){ .has_kv = true, .KV = { .Verb = S(verb), .Key = S(key) } };
}

static struct txn_reply
judged(struct span secret, uint16_t op, struct txn_op *ops, uint32_t n)
{
	struct txn q = { .Ops = { .v = ops, .n = n, .set = true } };
	struct txn_reply reply = { .Errors = { .n = 0 } };
	const struct fsm_rights *r;
	struct fsm_answer ans;
	struct rd in;

	buf_reset(&k.out);
	fsm_judge(k.f, op_find(op), packed(op, &q), secret, &k.a, &k.out, &ans, &r);
	ck_assert_int_eq(ans.err, TV_OK);
	fsm_rights_free(r);
	if (!ans.refused)
		return reply;
	in = rd_span_over(arena_copy(&k.a, buf_span(&k.out)));
	ck_assert_int_eq(schema_unpack(&txn_reply_schema, &in, &k.a, &reply), TV_OK);
	return reply;
}

START_TEST(transactions)
{
	struct span own = token(OWN_ALL), read = token(READ_ALL);
	struct txn_op ops[] = { kv_op("set", "own/a"), kv_op("set", "alien"), kv_op("get", "alien"), kv_op("delete-tree", "ow"),
	    kv_op("check-not-exists", "alien"), { .has_node = true, .Node = { .Verb = S("set"), .Node = { .Node = S("alien") } } },
	    { .has_service = true, .Service = { .Verb = S("delete"), .Node = S("alien"), .Service = { .ID = S("s1") } } },
	    { .has_check = true, .Check = { .Verb = S("delete"), .Check = { .Node = S("alien"), .CheckID = S("c2") } } },
	    { .has_service = true, .Service = { .Verb = S("delete"), .Node = S("alien"), .Service = { .ID = S("s2") } } } };
	static const uint64_t want[] = { 1, 3, 4, 5, 7, 8 };
	struct txn_reply reply;
	const struct txn_error *e;

	kit_node(&k, "alien", "10.0.0.2");
	kit_service(&k, "alien", "s1", "own-web", NULL);
	kit_service(&k, "alien", "s2", "theirs", NULL);
	kit_check(&k, "alien", "c2", NULL, "passing");
	reply = judged(own, OP_TXN_APPLY, ops, sizeof(ops) / sizeof(ops[0]));
	e = reply.Errors.v;
	ck_assert_uint_eq(reply.Errors.n, sizeof(want) / sizeof(want[0]));
	for (size_t i = 0; i < reply.Errors.n; i++) {
		ck_assert_uint_eq(e[i].OpIndex, want[i]);
		ck_assert(span_eqs(e[i].What, "Permission denied"));
	}
	ck_assert_uint_eq(judged(own, OP_TXN_APPLY, ops, 1).Errors.n, 0);
	ck_assert_uint_eq(k.out.len, 0);
	ck_assert_uint_eq(judged(read, OP_TXN_APPLY, ops, 1).Errors.n, 1);
	ck_assert_uint_eq(judged(SPAN_NONE, OP_TXN_APPLY, ops, 2).Errors.n, 2);
	ck_assert_uint_eq(judged(read, OP_TXN_READ, ops + 4, 1).Errors.n, 0);
	ck_assert_uint_eq(judged(own, OP_TXN_READ, ops + 4, 1).Errors.n, 1);
}
END_TEST

static struct txn_reply
read_txn(struct span secret, struct txn_op *ops, uint32_t n)
{
	struct txn q = { .Ops = { .v = ops, .n = n, .set = true } };
	struct txn_reply reply;
	struct rd in;

	ck_assert_int_eq(seen(secret, OP_TXN_READ, &q), 1);
	in = rd_span_over(arena_copy(&k.a, buf_span(&k.out)));
	ck_assert_int_eq(schema_unpack(&txn_reply_schema, &in, &k.a, &reply), TV_OK);
	return reply;
}

START_TEST(transactions_that_read)
{
	struct txn_op ops[] = { kv_op("get", "own/a"), kv_op("get", "theirs/a"), kv_op("get-tree", "o"), kv_op("get-tree", "t"),
	    { .has_node = true, .Node = { .Verb = S("get"), .Node = { .Node = S("alien") } } },
	    { .has_service = true, .Service = { .Verb = S("get"), .Node = S("alien"), .Service = { .ID = S("s2") } } },
	    { .has_check = true, .Check = { .Verb = S("get"), .Check = { .Node = S("alien"), .CheckID = S("c2") } } } };
	struct txn_op refused_one[] = { kv_op("get", "own/a"), kv_op("check-not-exists", "theirs/none") };
	struct txn_reply reply;

	ck_assert(kit_put(&k, "own/a", "1"));
	ck_assert(kit_put(&k, "theirs/a", "1"));
	kit_node(&k, "alien", "10.0.0.2");
	kit_service(&k, "alien", "s2", "theirs", NULL);
	kit_check(&k, "alien", "c2", "s2", "passing");
	reply = read_txn(token(READ_ALL), ops, 7);
	ck_assert_uint_eq(reply.Results.n, 7);
	reply = read_txn(token(OWN_ALL), ops, 7);
	ck_assert_uint_eq(reply.Results.n, 2);
	ck_assert(!shows("theirs") && !shows("alien"));
	ck_assert_uint_eq(read_txn(SPAN_NONE, ops, 7).Results.n, 0);
	/* What is compared is told, too: it needs the right to read, and nothing else is read then. */
	reply = read_txn(token(OWN_ALL), refused_one, 2);
	ck_assert_uint_eq(reply.Errors.n, 1);
	ck_assert_uint_eq(reply.Results.n, 0);
}
END_TEST

START_TEST(replies_filtered)
{
	struct txn_result results[] = { { .has_kv = true, .KV = { .Key = S("own/a") } }, { .has_kv = true, .KV = { .Key = S("theirs") } },
	    { .has_node = true, .Node = { .Node = S("alien") } },
	    { .has_check = true, .Check = { .Node = S("alien"), .ServiceID = S("x"), .ServiceName = S("own-web") } },
	    { .has_check = true, .Check = { .Node = S("alien") } } };
	struct txn_reply reply = { .Results = { .v = results, .n = 5, .set = true } }, out;
	const struct fsm_rights *r = rights_of(token(OWN_ALL));
	struct buf in = BUF_INIT(1u << 20), seen_part = BUF_INIT(1u << 20);
	struct rd rd;

	schema_pack(&txn_reply_schema, &reply, &in);
	ck_assert_int_eq(fsm_txn_filter(NULL, buf_span(&in), &seen_part), TV_OK);
	ck_assert(span_eq(buf_span(&in), buf_span(&seen_part)));
	buf_reset(&seen_part);
	ck_assert_int_eq(fsm_txn_filter(r, buf_span(&in), &seen_part), TV_OK);
	rd = rd_span_over(buf_span(&seen_part));
	ck_assert_int_eq(schema_unpack(&txn_reply_schema, &rd, &k.a, &out), TV_OK);
	ck_assert_uint_eq(out.Results.n, 2);
	ck_assert_int_ne(fsm_txn_filter(r, S("\xc1"), &seen_part), TV_OK);
	fsm_rights_free(r);
	buf_done(&in);
	buf_done(&seen_part);
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = { off, unknown_tokens, shared_sets, invalidated, expired, bounded, keys, sessions, registrations, premises, premises_of_all_rights,
	    premises_in_the_log, spellings,
	    deregistrations, filtered, proxies, lists_of_keys, allowed_by_default, snapshots, malformed, transactions,
	    transactions_that_read, replies_filtered };
	Suite *s = suite_create("fsm_may");
	TCase *t = tcase_create("may");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(t, tests[i]);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
