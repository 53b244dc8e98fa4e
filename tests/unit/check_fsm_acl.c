/* Access control in the state: what begins it, tokens, policies, roles, their links, time, and what a secret stands for. */
#include <stdio.h>
#include <stdlib.h>

#include <sodium.h>

#include "common/record/mpack.h"
#include "common/record/schema_json.h"
#include "common/text/rfc3339.h"
#include "raftd/fsm/acl/acl_int.h"
#include "raftd/fsm/table/record.h"
#include "raftd/fsm/table/table.h"
#include "tests/unit/fsm_kit.h"

#define U1 "11111111-2222-4333-8444-555555555551"
#define U2 "11111111-2222-4333-8444-555555555552"
#define NO_UUID "11111111-2222-4333-8444-55555555555f"
#define OFF "ACL support disabled"
#define MINUTE (60 * KIT_SECOND)

static struct kit k;

static void
setup_off(void)
{
	kit_open(&k);
}

static void
setup(void)
{
	kit_open(&k);
	ck_assert(kit_bool(&k, OP_ACL_ENABLE, &(struct acl_enable){ .Now = 0 }));
}

static void
teardown(void)
{
	kit_close(&k);
}

/* -- short ways -- */

static void
parse(const struct schema *s, const char *json, void *rec)
{
	char why[256] = "";
	json_t *v = json_first_value(span_str(json), why, sizeof(why));

	ck_assert_msg(v != NULL && schema_from_json(s, v, SJ_STRICT, &k.a, rec, why, sizeof(why)) == TV_OK, "%s: %s", json, why);
	json_decref(v);
}

static struct acl_token_set
token_set(const char *json)
{
	struct acl_token_set q = { .Create = false };

	parse(&acl_token_schema, json, &q.Token);
	return q;
}

static void
answered(const struct fsm_result *res, const struct schema *s, void *rec)
{
	struct rd in = rd_span_over(res->value);

	ck_assert_msg(res->err == TV_OK, "%.*s", (int)res->text.len, (const char *)res->text.p);
	ck_assert_int_eq(schema_unpack(s, &in, &k.a, rec), TV_OK);
	ck_assert_int_eq(rd_end(&in), TV_OK);
}

static struct acl_token
token(const char *json)
{
	struct acl_token_set q = token_set(json);
	struct fsm_result res = kit_apply(&k, OP_ACL_TOKEN_SET, &q);
	struct acl_token t = { .AccessorID = SPAN_NONE };

	answered(&res, &acl_token_schema, &t);
	return t;
}

static void
token_refused(const char *json, const char *text)
{
	struct acl_token_set q = token_set(json);

	kit_refused(&k, OP_ACL_TOKEN_SET, &q, text);
}

static struct acl_policy
policy(const char *json)
{
	struct acl_policy_set q = { .Create = false };
	struct acl_policy out = { .ID = SPAN_NONE };
	struct fsm_result res;

	parse(&acl_policy_schema, json, &q.Policy);
	res = kit_apply(&k, OP_ACL_POLICY_SET, &q);
	answered(&res, &acl_policy_schema, &out);
	return out;
}

static void
policy_refused(const char *json, const char *text)
{
	struct acl_policy_set q = { .Create = false };

	parse(&acl_policy_schema, json, &q.Policy);
	kit_refused(&k, OP_ACL_POLICY_SET, &q, text);
}

static struct acl_role
role(const char *json)
{
	struct acl_role_set q = { .Create = false };
	struct acl_role out = { .ID = SPAN_NONE };
	struct fsm_result res;

	parse(&acl_role_schema, json, &q.Role);
	res = kit_apply(&k, OP_ACL_ROLE_SET, &q);
	answered(&res, &acl_role_schema, &out);
	return out;
}

static void
role_refused(const char *json, const char *text)
{
	struct acl_role_set q = { .Create = false };

	parse(&acl_role_schema, json, &q.Role);
	kit_refused(&k, OP_ACL_ROLE_SET, &q, text);
}

static const char *
str(struct span s)
{
	return arena_cstr(&k.a, s);
}

#define TEXT(...) arena_cstr(&k.a, arena_printf(&k.a, __VA_ARGS__))

/* JSON of the one token, or NULL. */
static const char *
stored(struct span accessor)
{
	const char *json;

	return kit_read(&k, OP_ACL_TOKEN_GET, &(struct acl_token_read){ accessor }, &json) == 1 ? json : NULL;
}

static const char *
self(struct span secret)
{
	const char *json;

	return kit_read(&k, OP_ACL_TOKEN_SELF, &(struct acl_secret){ secret }, &json) == 1 ? json : NULL;
}

static unsigned
listed(const char *policy_id, const char *role_id, const char **json)
{
	return kit_read(&k, OP_ACL_TOKEN_LIST, &(struct acl_token_list){ span_str(policy_id), span_str(role_id), SPAN_NONE }, json);
}

static const char *
json_of(const struct schema *s, const void *rec)
{
	struct buf b = BUF_INIT(1u << 20);
	const char *text;

	schema_json_rec(s, rec, &b);
	text = str(buf_span(&b));
	buf_done(&b);
	return text;
}

static bool
delete_token(struct span accessor)
{
	return kit_bool(&k, OP_ACL_TOKEN_DELETE, &(struct acl_token_delete){ .AccessorID = accessor });
}

static struct fsm_acl
resolved(struct span secret, enum tv_err want)
{
	struct fsm_acl out;

	ck_assert_int_eq(fsm_acl_resolve(k.f, secret, k.now, &k.a, &out), want);
	return out;
}

/* -- off and on -- */

/* Nothing reaches the log, so an older version can still read this state. */
START_TEST(off)
{
	struct acl_token_set t = token_set("{}");
	uint64_t before = fsm_applied(k.f);
	struct fsm_result res;

	res = kit_apply(&k, OP_ACL_TOKEN_SET, &t);
	ck_assert_int_eq(res.err, TV_EDISABLED);
	kit_refused(&k, OP_ACL_TOKEN_SET, &t, OFF);
	kit_refused(&k, OP_ACL_TOKEN_CLONE, &t, OFF);
	kit_refused(&k, OP_ACL_TOKEN_DELETE, &(struct acl_token_delete){ .AccessorID = span_str(U1) }, OFF);
	policy_refused("{\"Name\":\"p\"}", OFF);
	role_refused("{\"Name\":\"r\"}", OFF);
	kit_refused(&k, OP_ACL_POLICY_DELETE, &(struct acl_id){ span_str(U1) }, OFF);
	kit_refused(&k, OP_ACL_ROLE_DELETE, &(struct acl_id){ span_str(U1) }, OFF);
	kit_refused(&k, OP_ACL_BOOTSTRAP, &(struct acl_bootstrap){ .Reset = 0 }, OFF);
	ck_assert_uint_eq(fsm_applied(k.f), before);
	ck_assert_uint_eq(fsm_needs(k.f), 1);
	ck_assert_uint_eq(fsm_acl_since(k.f), 0);
	ck_assert_ptr_null(stored(span_str(U1)));
	ck_assert_int_eq(k.ans.err, TV_EDISABLED);
	ck_assert_str_eq(str(k.ans.text), OFF);
	kit_read(&k, OP_ACL_POLICY_LIST, &(struct empty_rec){ 0 }, NULL);
	ck_assert_int_eq(k.ans.err, TV_EDISABLED);
	kit_read(&k, OP_ACL_REPLICATION, &(struct empty_rec){ 0 }, NULL);
	ck_assert_int_eq(k.ans.err, TV_EDISABLED);
	resolved(SPAN_NONE, TV_EDISABLED);
	/* An entry of somebody who believed otherwise changes nothing. */
	ck_assert(!fsm_acl_reap_due(k.f, INT64_MAX));
	kit_refused(&k, OP_ACL_REAP, &(struct acl_reap){ 0 }, OFF);
}
END_TEST

START_TEST(on)
{
	const char *json;

	ck_assert_uint_eq(fsm_acl_since(k.f), 1);
	ck_assert_uint_eq(fsm_needs(k.f), 7);
	ck_assert(!kit_bool(&k, OP_ACL_ENABLE, &(struct acl_enable){ .Now = 0 }));
	ck_assert_uint_eq(fsm_acl_since(k.f), 1);
	ck_assert_uint_eq(kit_read(&k, OP_ACL_POLICY_LIST, &(struct empty_rec){ 0 }, &json), 1);
	ck_assert_ptr_nonnull(strstr(json, "{\"ID\":\"" ACL_MANAGEMENT_ID "\",\"Name\":\"global-management\","));
	ck_assert_ptr_null(strstr(json, "Rules"));
	json = self(span_str("anonymous"));
	ck_assert_ptr_nonnull(json);
	ck_assert_ptr_nonnull(strstr(json, "\"AccessorID\":\"" ACL_ANONYMOUS_ID "\",\"SecretID\":\"anonymous\","
	    "\"Description\":\"Anonymous Token\",\"Local\":false,\"CreateTime\":\"1970-01-12T13:46:40Z\",\"Hash\":\""));
	ck_assert_ptr_null(self(SPAN_NONE));
	ck_assert_ptr_null(self(span_str(NO_UUID)));
	ck_assert_int_eq(k.ans.err, TV_OK);
	kit_refused(&k, OP_ACL_TOKEN_DELETE, &(struct acl_token_delete){ .AccessorID = span_str(ACL_ANONYMOUS_ID) },
	    "Delete operation not permitted on the anonymous token");
	kit_read(&k, OP_ACL_REPLICATION, &(struct empty_rec){ 0 }, &json);
	ck_assert_str_eq(json, "{\"Enabled\":false,\"Running\":false,\"SourceDatacenter\":\"\",\"ReplicationType\":\"\","
	    "\"ReplicatedIndex\":0,\"ReplicatedRoleIndex\":0,\"ReplicatedTokenIndex\":0,\"LastSuccess\":\"0001-01-01T00:00:00Z\","
	    "\"LastError\":\"0001-01-01T00:00:00Z\"}");
}
END_TEST

START_TEST(bootstrapping)
{
	struct fsm_result res = kit_apply(&k, OP_ACL_BOOTSTRAP, &(struct acl_bootstrap){ .Reset = 0 });
	struct acl_token t = { .AccessorID = SPAN_NONE }, again = t;
	struct fsm_acl grants;

	answered(&res, &acl_token_schema, &t);
	ck_assert_str_eq(str(t.Description), "Bootstrap Token (Global Management)");
	ck_assert_ptr_nonnull(strstr(json_of(&acl_token_schema, &t),
	    "\"Policies\":[{\"ID\":\"" ACL_MANAGEMENT_ID "\",\"Name\":\"global-management\"}],\"Local\":false"));
	kit_refused(&k, OP_ACL_BOOTSTRAP, &(struct acl_bootstrap){ .Reset = 0 },
	    "Permission denied: ACL bootstrap no longer allowed (reset index: 2)");
	ck_assert_int_eq(kit_apply(&k, OP_ACL_BOOTSTRAP, &(struct acl_bootstrap){ .Reset = 0 }).err, TV_EPERM);
	kit_refused(&k, OP_ACL_BOOTSTRAP, &(struct acl_bootstrap){ .Reset = 1 },
	    "Invalid bootstrap reset index (specified 1, reset index: 2)");
	res = kit_apply(&k, OP_ACL_BOOTSTRAP, &(struct acl_bootstrap){ .Reset = 2 });
	answered(&res, &acl_token_schema, &again);
	ck_assert(!span_eq(t.SecretID, again.SecretID));
	(void)resolved(t.SecretID, TV_ENOENT);		/* the one of before is no more (S148) */
	kit_refused(&k, OP_ACL_BOOTSTRAP, &(struct acl_bootstrap){ .Reset = 2 },
	    TEXT("Invalid bootstrap reset index (specified 2, reset index: %llu)", (unsigned long long)again.CreateIndex));
	grants = resolved(again.SecretID, TV_OK);
	ck_assert_uint_eq(grants.policy_count, 1);
	ck_assert_ptr_nonnull(strstr(str(grants.policies[0].rules), "acl = \"write\""));
}
END_TEST

/* A secret that the operator chose; what is in use by another token is seen before, by fsm_first_token(). */
START_TEST(bootstrapping_with_a_secret)
{
	struct acl_bootstrap q = { .Token = { .SecretID = span_str("no"), .Description = span_str("Initial") } };
	struct acl_token t = { .AccessorID = SPAN_NONE };
	struct fsm_first_token found;
	struct fsm_result res;

	kit_refused(&k, OP_ACL_BOOTSTRAP, &q, "Invalid Token: SecretID is not a valid UUID");
	q.Token.SecretID = span_str("00000000-0000-0000-0000-000000000007");
	kit_refused(&k, OP_ACL_BOOTSTRAP, &q, "Invalid Token: SecretID is not a valid UUID");
	ck_assert_int_eq(fsm_first_token(k.f, span_str(U1), &found), TV_OK);
	ck_assert(found.made == 0 && !found.in_use && !found.is_first);
	q.Token.SecretID = span_str(U1);
	res = kit_apply(&k, OP_ACL_BOOTSTRAP, &q);
	answered(&res, &acl_token_schema, &t);
	ck_assert_str_eq(str(t.SecretID), U1);
	ck_assert_str_eq(str(t.Description), "Initial");
	ck_assert_uint_eq(resolved(span_str(U1), TV_OK).policy_count, 1);
	ck_assert_int_eq(fsm_first_token(k.f, span_str(U1), &found), TV_OK);
	ck_assert(found.made == t.CreateIndex && found.in_use && found.is_first);
	ck_assert_int_eq(fsm_first_token(k.f, t.AccessorID, &found), TV_OK);
	ck_assert(found.in_use && found.is_first);
	ck_assert_int_eq(fsm_first_token(k.f, span_str(U2), &found), TV_OK);
	ck_assert(found.made == t.CreateIndex && !found.in_use);
	/* The one that a reset replaces may keep its secret. */
	q.Reset = found.made;
	res = kit_apply(&k, OP_ACL_BOOTSTRAP, &q);
	answered(&res, &acl_token_schema, &t);
	ck_assert_uint_eq(resolved(span_str(U1), TV_OK).policy_count, 1);
	(void)token("{\"SecretID\":\"" U2 "\"}");
	ck_assert_int_eq(fsm_first_token(k.f, span_str(U2), &found), TV_OK);
	ck_assert(found.in_use && !found.is_first);
}
END_TEST

/* -- tokens -- */

START_TEST(tokens)
{
	struct acl_token t = token("{\"Description\":\"d\"}"), u = { .AccessorID = SPAN_NONE };
	const char *json = stored(t.AccessorID);
	uint64_t index = k.ans.index;
	char *up;

	ck_assert_str_eq(json, TEXT("[%s]", json_of(&acl_token_schema, &t)));
	ck_assert_str_eq(self(t.SecretID), json);
	ck_assert_uint_eq(index, t.ModifyIndex);
	ck_assert_ptr_nonnull(strstr(json, "\"Description\":\"d\",\"Local\":false,\"CreateTime\":\"1970-01-12T13:46:40Z\",\"Hash\":\""));
	ck_assert_ptr_null(strstr(json, "Polic"));
	ck_assert_ptr_null(strstr(json, "Expir"));
	ck_assert_uint_eq(listed("", "", &json), 2);
	ck_assert_ptr_null(strstr(json, "SecretID"));
	ck_assert_ptr_null(strstr(json, str(t.SecretID)));
	ck_assert_uint_eq(k.f->tally[FT_ACL_TOKENS], 2);
	/* An accessor is found in any case, a secret as it is. */
	up = arena_cstr(&k.a, t.AccessorID);
	for (char *c = up; *c != '\0'; c++)
		*c = *c >= 'a' && *c <= 'f' ? *c - 32 : *c;
	ck_assert_ptr_nonnull(stored(span_str(up)));
	/* What is not given goes; what cannot change stays. */
	u = token(TEXT("{\"AccessorID\":\"%s\",\"CreateTime\":\"x\"}", str(t.AccessorID)));
	ck_assert(span_eq(u.SecretID, t.SecretID));
	ck_assert(span_eq(u.CreateTime, t.CreateTime));
	ck_assert_uint_eq(u.Description.len, 0);
	ck_assert_uint_eq(u.CreateIndex, t.CreateIndex);
	ck_assert_uint_gt(u.ModifyIndex, t.ModifyIndex);
	ck_assert(!span_eq(u.Hash, t.Hash));
	ck_assert_uint_eq(k.f->tally[FT_ACL_TOKENS], 2);
	ck_assert(delete_token(t.AccessorID));
	ck_assert_uint_eq(k.f->tally[FT_ACL_TOKENS], 1);
	ck_assert_ptr_null(stored(t.AccessorID));
	ck_assert_uint_gt(k.ans.index, u.ModifyIndex);
	ck_assert_ptr_null(self(t.SecretID));
	ck_assert(delete_token(t.AccessorID));
	ck_assert_uint_eq(k.f->tally[FT_ACL_TOKENS], 1);
	stored(span_str("abc"));
	ck_assert_str_eq(str(k.ans.text), "failed acl token lookup: index error: UUID must be 36 characters");
}
END_TEST

START_TEST(given_ids)
{
	struct acl_token_set q = token_set("{\"AccessorID\":\"" U1 "\",\"SecretID\":\"" U2 "\"}");
	struct fsm_result res;
	struct acl_token t = { .AccessorID = SPAN_NONE };

	q.Create = true;
	res = kit_apply(&k, OP_ACL_TOKEN_SET, &q);
	answered(&res, &acl_token_schema, &t);
	ck_assert(span_eqs(t.AccessorID, U1));
	ck_assert(span_eqs(t.SecretID, U2));
	kit_refused(&k, OP_ACL_TOKEN_SET, &q, "Invalid Token: AccessorID is already in use");
	token_refused("{\"SecretID\":\"" U2 "\"}", "Invalid Token: SecretID is already in use");
	token_refused("{\"SecretID\":\"" U1 "\"}", "Invalid Token: SecretID is already in use");
	q.Token.AccessorID = q.Token.SecretID;
	q.Token.SecretID = SPAN_NONE;
	kit_refused(&k, OP_ACL_TOKEN_SET, &q, "Invalid Token: AccessorID is already in use");
	q.Token.AccessorID = span_str(ACL_RESERVED "000000000009");
	kit_refused(&k, OP_ACL_TOKEN_SET, &q, "Invalid Token: UUIDs with the prefix \"00000000-0000-0000-0000-\" are reserved");
	token_refused("{\"SecretID\":\"" ACL_RESERVED "000000000009\"}",
	    "Invalid Token: UUIDs with the prefix \"00000000-0000-0000-0000-\" are reserved");
	token_refused("{\"SecretID\":\"abc\"}", "Invalid Token: SecretID is not a valid UUID");
	token_refused("{\"AccessorID\":\"abc\"}",
	    "Failed acl token lookup by accessor: failed acl token lookup: index error: UUID must be 36 characters");
	token_refused("{\"AccessorID\":\"" NO_UUID "\"}", "Cannot find token \"" NO_UUID "\"");
	token_refused("{\"AccessorID\":\"" U1 "\",\"SecretID\":\"" U1 "\"}", "Changing a tokens SecretID is not permitted");
	token_refused("{\"AccessorID\":\"" U1 "\",\"Local\":true}", "cannot toggle local mode of " U1);
	token_refused("{\"AccessorID\":\"" U1 "\",\"AuthMethod\":\"x\"}", "Cannot change AuthMethod of " U1);
	token_refused("{\"AuthMethod\":\"x\"}", "AuthMethod field is disallowed outside of Login");
}
END_TEST

START_TEST(own_token)
{
	struct acl_token t = token("{}"), other = token("{}");

	kit_refused(&k, OP_ACL_TOKEN_DELETE, &(struct acl_token_delete){ .AccessorID = t.AccessorID, .Asker = t.SecretID },
	    "Deletion of the request's authorization token is not permitted");
	ck_assert(kit_bool(&k, OP_ACL_TOKEN_DELETE, &(struct acl_token_delete){ .AccessorID = t.AccessorID, .Asker = other.SecretID }));
	kit_refused(&k, OP_ACL_TOKEN_DELETE, &(struct acl_token_delete){ .AccessorID = span_str("x") },
	    "Accessor ID is missing or an invalid UUID");
}
END_TEST

static const struct { const char *json, *text; } lives[] = {
	{ "{\"ExpirationTTL\":\"59s\"}", "ExpirationTime cannot be less than 1m0s in the future (was 59s)" },
	{ "{\"ExpirationTTL\":\"24h1s\"}", "ExpirationTime cannot be more than 24h0m0s in the future (was 24h0m1s)" },
	{ "{\"ExpirationTTL\":\"-1m\"}", "Token Expiration TTL '-1m0s' should be > 0" },
	{ "{\"ExpirationTime\":\"1970-01-01T00:00:00Z\"}", "ExpirationTime cannot be before CreateTime" },
	{ "{\"ExpirationTime\":\"1800-01-01T00:00:00Z\"}", "ExpirationTime cannot be before CreateTime" },
	{ "{\"ExpirationTTL\":\"2m\",\"ExpirationTime\":\"2100-01-01T00:00:00Z\"}",
	  "Token Expiration TTL and Expiration Time cannot both be set" },
	{ "{\"ExpirationTime\":\"tomorrow\"}", "Invalid Token: ExpirationTime is no time as in 2006-01-02T15:04:05Z" },
};

START_TEST(expiration)
{
	struct acl_token t = { .AccessorID = SPAN_NONE }, u = t;
	struct fsm_acl grants;

	for (size_t i = 0; i < sizeof(lives) / sizeof(lives[0]); i++)
		token_refused(lives[i].json, lives[i].text);
	ck_assert_uint_eq(token("{\"ExpirationTime\":\"0001-01-01T00:00:00Z\"}").Expires, 0);
	t = token("{\"ExpirationTTL\":60000000000}");
	ck_assert_str_eq(str(t.ExpirationTime), "1970-01-12T13:47:40Z");
	ck_assert_int_eq(t.Expires, k.now + MINUTE);
	ck_assert_int_eq(t.ExpirationTTL, 0);
	(void)token("{\"ExpirationTTL\":\"24h\"}");
	token_refused(TEXT("{\"AccessorID\":\"%s\",\"ExpirationTTL\":\"5m\"}", str(t.AccessorID)),
	    TEXT("Cannot change expiration time of %s", str(t.AccessorID)));
	token_refused(TEXT("{\"AccessorID\":\"%s\",\"ExpirationTime\":\"2100-01-01T00:00:00Z\"}", str(t.AccessorID)),
	    TEXT("Cannot change expiration time of %s", str(t.AccessorID)));
	u = token(TEXT("{\"AccessorID\":\"%s\",\"ExpirationTime\":\"%s\"}", str(t.AccessorID), str(t.ExpirationTime)));
	ck_assert_int_eq(u.Expires, t.Expires);
	grants = resolved(t.SecretID, TV_OK);
	ck_assert_int_eq(grants.expires, t.Expires);
	ck_assert(!fsm_acl_reap_due(k.f, k.now));
	ck_assert_uint_eq(listed("", "", NULL), 4);
	/* From its time on nobody knows it, though it is still there. */
	k.now += MINUTE;
	ck_assert_ptr_null(stored(t.AccessorID));
	ck_assert_ptr_null(self(t.SecretID));
	ck_assert_uint_eq(listed("", "", NULL), 3);
	resolved(t.SecretID, TV_ENOENT);
	token_refused(TEXT("{\"AccessorID\":\"%s\"}", str(t.AccessorID)), TEXT("Cannot find token \"%s\"", str(t.AccessorID)));
	ck_assert_uint_eq(k.f->tally[FT_ACL_TOKENS], 4);
	ck_assert(fsm_acl_reap_due(k.f, k.now));
	ck_assert(kit_bool(&k, OP_ACL_REAP, &(struct acl_reap){ 0 }));
	ck_assert_uint_eq(k.f->tally[FT_ACL_TOKENS], 3);
	ck_assert(!fsm_acl_reap_due(k.f, k.now));
}
END_TEST

/* More than one entry removes at once. */
START_TEST(expiry_storm)
{
	unsigned entries = 0;

	for (unsigned i = 0; i < 2500; i++) {
		struct acl_token_set q = { .Token = { .ExpirationTTL = MINUTE + i } };

		ck_assert_int_eq(kit_apply(&k, OP_ACL_TOKEN_SET, &q).err, TV_OK);
		arena_reset(&k.a);
	}
	k.now += 2 * MINUTE;
	for (; fsm_acl_reap_due(k.f, k.now); entries++)
		ck_assert(kit_bool(&k, OP_ACL_REAP, &(struct acl_reap){ 0 }));
	ck_assert_uint_eq(entries, 3);
	ck_assert_uint_eq(k.f->tally[FT_ACL_TOKENS], 1);
}
END_TEST

START_TEST(cloning)
{
	struct acl_policy p = policy("{\"Name\":\"p\",\"Rules\":\"key \\\"a\\\" { policy = \\\"read\\\" }\"}");
	struct acl_token t = token("{\"Description\":\"d\",\"Policies\":[{\"Name\":\"P\"}],\"Local\":true}"), c = { .AccessorID = SPAN_NONE };
	struct acl_token_set q = { .Source = t.AccessorID };
	struct fsm_result res = kit_apply(&k, OP_ACL_TOKEN_CLONE, &q);

	answered(&res, &acl_token_schema, &c);
	ck_assert(!span_eq(c.AccessorID, t.AccessorID));
	ck_assert(!span_eq(c.SecretID, t.SecretID));
	ck_assert_ptr_nonnull(strstr(json_of(&acl_token_schema, &c),
	    TEXT("\"Description\":\"d\",\"Policies\":[{\"ID\":\"%s\",\"Name\":\"p\"}],\"Local\":true", str(p.ID))));
	q.Token.Description = span_str("copy");
	res = kit_apply(&k, OP_ACL_TOKEN_CLONE, &q);
	answered(&res, &acl_token_schema, &c);
	ck_assert_str_eq(str(c.Description), "copy");
	q.Source = span_str(NO_UUID);
	res = kit_apply(&k, OP_ACL_TOKEN_CLONE, &q);
	ck_assert_int_eq(res.err, TV_EPERM);
	ck_assert_str_eq(str(res.text), "ACL not found");
	q.Source = token("{\"ExpirationTTL\":\"60s\"}").AccessorID;
	k.now += KIT_SECOND / 2;
	kit_refused(&k, OP_ACL_TOKEN_CLONE, &q, "ExpirationTime cannot be less than 1m0s in the future (was 59.5s)");
}
END_TEST

/* -- links -- */

START_TEST(linked)
{
	struct acl_policy p = policy("{\"Name\":\"One\"}"), p2 = policy("{\"Name\":\"two\"}");
	struct acl_role r = role("{\"Name\":\"R\",\"Policies\":[{\"Name\":\"two\"},{\"Name\":\"TWO\"}]}");
	struct acl_token t = { .AccessorID = SPAN_NONE };
	const char *json;
	uint64_t index;

	ck_assert_uint_eq(r.Policies.n, 1);
	t = token(TEXT("{\"Policies\":[{\"Name\":\"one\"},{\"ID\":\"%s\"},{\"ID\":\"%s\",\"Name\":\"x\"}],\"Roles\":[{\"Name\":\"r\"}]}",
	    str(p.ID), str(p2.ID)));
	ck_assert_ptr_nonnull(strstr(json_of(&acl_token_schema, &t),
	    TEXT("\"Policies\":[{\"ID\":\"%s\",\"Name\":\"One\"},{\"ID\":\"%s\",\"Name\":\"two\"}],\"Roles\":[{\"ID\":\"%s\","
	    "\"Name\":\"R\"}]", str(p.ID), str(p2.ID), str(r.ID))));
	ck_assert_uint_eq(listed(str(p.ID), "", &json), 1);
	ck_assert_ptr_nonnull(strstr(json, str(t.AccessorID)));
	ck_assert_uint_eq(listed("", str(r.ID), NULL), 1);
	ck_assert_uint_eq(listed(NO_UUID, "", NULL), 0);
	listed(str(p.ID), str(r.ID), NULL);
	ck_assert_str_eq(str(k.ans.text), "can only filter by one of policy, role, or methodName at a time");
	token_refused("{\"Policies\":[{\"Name\":\"none\"}]}", "No such ACL policy with name \"none\"");
	token_refused("{\"Roles\":[{\"Name\":\"none\"}]}", "No such ACL role with name \"none\"");
	token_refused("{\"Policies\":[{\"ID\":\"" NO_UUID "\"}]}",
	    "No such ACL policy with ID \"" NO_UUID "\"");
	token_refused("{\"Roles\":[{\"ID\":\"x\"}]}", "No such ACL role with ID \"x\"");
	role_refused("{\"Name\":\"x\",\"Policies\":[{\"Name\":\"none\"}]}", "No such ACL policy with name \"none\"");
	/* A new name shows at once, wherever it is linked; and so does its going, as a change. */
	(void)policy(TEXT("{\"ID\":\"%s\",\"Name\":\"uno\"}", str(p.ID)));
	json = stored(t.AccessorID);
	index = k.ans.index;
	ck_assert_ptr_nonnull(strstr(json, "\"Name\":\"uno\""));
	ck_assert(kit_bool(&k, OP_ACL_POLICY_DELETE, &(struct acl_id){ p2.ID }));
	ck_assert(kit_bool(&k, OP_ACL_ROLE_DELETE, &(struct acl_id){ r.ID }));
	json = stored(t.AccessorID);
	ck_assert_uint_gt(k.ans.index, index);
	ck_assert_ptr_nonnull(strstr(json, TEXT("\"Policies\":[{\"ID\":\"%s\",\"Name\":\"uno\"}],\"Local\"", str(p.ID))));
	ck_assert(kit_bool(&k, OP_ACL_POLICY_DELETE, &(struct acl_id){ p.ID }));
	ck_assert_ptr_null(strstr(stored(t.AccessorID), "Policies"));
	/* Another policy of the old name is another policy. */
	(void)policy("{\"Name\":\"uno\"}");
	ck_assert_ptr_null(strstr(stored(t.AccessorID), "Policies"));
}
END_TEST

START_TEST(too_much)
{
	struct acl_link links[ACL_LINKS_MAX + 1];
	struct acl_service_identity ids[ACL_LINKS_MAX + 1];
	struct acl_token_set q = { .Token = { .Policies = { links, ACL_LINKS_MAX + 1, true } } };
	char big[70000];

	for (unsigned i = 0; i <= ACL_LINKS_MAX; i++) {
		links[i] = (struct acl_link){ .Name = span_str("x") };
		ids[i] = (struct acl_service_identity){ .ServiceName = span_str("x") };
	}
	kit_refused(&k, OP_ACL_TOKEN_SET, &q, "more than 256 links of one kind (policy): put several of them into one");
	q.Token = (struct acl_token){ .ServiceIdentities = { ids, ACL_LINKS_MAX + 1, true } };
	kit_refused(&k, OP_ACL_TOKEN_SET, &q,
	    "more than 256 identities of one kind: make a policy with prefix rules in their place");
	memset(big, 'd', sizeof(big));
	q.Token = (struct acl_token){ .Description = span_of(big, sizeof(big)) };
	kit_refused(&k, OP_ACL_TOKEN_SET, &q, "Invalid Token: it is larger than 65536 bytes");
	kit_refused(&k, OP_ACL_ROLE_SET, &((struct acl_role_set){ .Role = { .Name = span_str("r"),
	    .Description = span_of(big, sizeof(big)) } }), "Invalid Role: it is larger than 65536 bytes");
	big[129] = '\0';
	role_refused(TEXT("{\"Name\":\"%s\"}", big), "Invalid Role: invalid Name. Only alphanumeric characters, '-' and '_' are allowed");
}
END_TEST

START_TEST(identities)
{
	struct acl_token t = token("{\"ServiceIdentities\":[{\"ServiceName\":\"web\",\"Datacenters\":[\"b\",\"a\"]},{\"ServiceName\":\"db\"},"
	    "{\"ServiceName\":\"web\",\"Datacenters\":[\"a\",\"c\"]}],\"NodeIdentities\":[{\"NodeName\":\"n\",\"Datacenter\":\"dc1\"},"
	    "{\"NodeName\":\"n\",\"Datacenter\":\"dc1\"}]}");

	ck_assert_ptr_nonnull(strstr(json_of(&acl_token_schema, &t), "\"ServiceIdentities\":[{\"ServiceName\":\"db\"},"
	    "{\"ServiceName\":\"web\",\"Datacenters\":[\"a\",\"b\",\"c\"]}],\"NodeIdentities\":[{\"NodeName\":\"n\",\"Datacenter\":\"dc1\"}],"
	    "\"Local\""));
	token_refused("{\"NodeIdentities\":[{\"NodeName\":\"n\"}]}", "Node identity is missing the datacenter field on this token");
	token_refused("{\"NodeIdentities\":[{\"Datacenter\":\"dc1\"}]}", "Node identity is missing the node name field on this token");
	token_refused("{\"NodeIdentities\":[{\"NodeName\":\"N\",\"Datacenter\":\"dc1\"}]}",
	    "Node identity has an invalid name. Only alphanumeric characters, '-' and '_' are allowed");
	token_refused("{\"ServiceIdentities\":[{}]}", "Service identity is missing the service name field on this token");
	token_refused("{\"ServiceIdentities\":[{\"ServiceName\":\"-x\"}]}",
	    "Service identity \"-x\" has an invalid name. Only alphanumeric characters, '-' and '_' are allowed");
	token_refused("{\"Local\":true,\"ServiceIdentities\":[{\"ServiceName\":\"x\",\"Datacenters\":[\"dc1\"]}]}",
	    "Service identity \"x\" cannot specify a list of datacenters on a local token");
	role_refused("{\"Name\":\"r\",\"ServiceIdentities\":[{}]}", "Service identity is missing the service name field on this role");
}
END_TEST

/* -- policies and roles -- */

START_TEST(policies)
{
	struct acl_policy p = policy("{\"Name\":\"p\",\"Description\":\"d\",\"Rules\":\"key \\\"a\\\" { policy = \\\"read\\\" }\"}"), q = { .ID = SPAN_NONE };
	const char *json;

	ck_assert_uint_eq(kit_read(&k, OP_ACL_POLICY_GET, &(struct acl_read){ .ID = p.ID }, &json), 1);
	ck_assert_str_eq(json, TEXT("[%s]", json_of(&acl_policy_schema, &p)));
	ck_assert_ptr_nonnull(strstr(json, "\"Rules\":\"key \\\"a\\\" { policy = \\\"read\\\" }\",\"Hash\":\""));
	ck_assert_uint_eq(kit_read(&k, OP_ACL_POLICY_GET, &(struct acl_read){ .Name = span_str("P") }, &json), 1);
	ck_assert_uint_eq(kit_read(&k, OP_ACL_POLICY_GET, &(struct acl_read){ .Name = span_str("x") }, &json), 0);
	ck_assert_int_eq(k.ans.err, TV_OK);
	kit_read(&k, OP_ACL_POLICY_GET, &(struct acl_read){ .ID = span_str("x") }, NULL);
	ck_assert_str_eq(str(k.ans.text), "failed acl policy lookup: index error: UUID must be 36 characters");
	policy_refused("{\"Rules\":\"\"}", "Invalid Policy: no Name is set");
	policy_refused("{\"Name\":\"a b\"}", "Invalid Policy: invalid Name. Only alphanumeric characters, '-' and '_' are allowed");
	policy_refused("{\"Name\":\"P\"}", "Invalid Policy: A Policy with Name \"P\" already exists");
	policy_refused("{\"Name\":\"x\",\"Rules\":\"operator = \\\"maybe\\\"\"}", "Invalid operator policy: \"maybe\"");
	policy_refused("{\"ID\":\"" NO_UUID "\",\"Name\":\"x\"}", "cannot find policy " NO_UUID);
	policy_refused("{\"ID\":\"x\",\"Name\":\"x\"}", "Policy ID invalid UUID");
	policy_refused(TEXT("{\"ID\":\"%s\",\"Name\":\"global-management\"}", str(p.ID)),
	    "Invalid Policy: A policy with name \"global-management\" already exists");
	policy_refused("{\"ID\":\"" ACL_MANAGEMENT_ID "\",\"Name\":\"global-management\",\"Rules\":\"acl = \\\"read\\\"\"}",
	    "Changing the Rules for the builtin global-management policy is not permitted");
	kit_refused(&k, OP_ACL_POLICY_DELETE, &(struct acl_id){ span_str(ACL_MANAGEMENT_ID) },
	    "Delete operation not permitted on the builtin global-management policy");
	q = policy(TEXT("{\"ID\":\"%s\",\"Name\":\"P2\",\"Datacenters\":[\"dc1\"]}", str(p.ID)));
	ck_assert_uint_eq(q.CreateIndex, p.CreateIndex);
	ck_assert_uint_eq(kit_read(&k, OP_ACL_POLICY_GET, &(struct acl_read){ .Name = span_str("p") }, NULL), 0);
	ck_assert_uint_eq(kit_read(&k, OP_ACL_POLICY_GET, &(struct acl_read){ .Name = span_str("p2") }, NULL), 1);
	ck_assert_uint_eq(k.f->tally[FT_ACL_POLICIES], 2);
	ck_assert(kit_bool(&k, OP_ACL_POLICY_DELETE, &(struct acl_id){ p.ID }));
	ck_assert(kit_bool(&k, OP_ACL_POLICY_DELETE, &(struct acl_id){ p.ID }));
	ck_assert_uint_eq(k.f->tally[FT_ACL_POLICIES], 1);
}
END_TEST

START_TEST(roles)
{
	struct acl_role r = role("{\"Name\":\"r\",\"Description\":\"d\",\"ServiceIdentities\":[{\"ServiceName\":\"x\",\"Datacenters\":[\"dc1\"]}]}");
	const char *json;

	ck_assert_uint_eq(kit_read(&k, OP_ACL_ROLE_GET, &(struct acl_read){ .Name = span_str("R") }, &json), 1);
	ck_assert_str_eq(json, TEXT("[%s]", json_of(&acl_role_schema, &r)));
	role_refused("{\"Name\":\"r\"}", "Invalid Role: A Role with Name \"r\" already exists");
	role_refused("{}", "Invalid Role: no Name is set");
	role_refused("{\"ID\":\"" NO_UUID "\",\"Name\":\"x\"}", "cannot find role " NO_UUID);
	r = role(TEXT("{\"ID\":\"%s\",\"Name\":\"r2\"}", str(r.ID)));
	ck_assert_uint_eq(kit_read(&k, OP_ACL_ROLE_LIST, &(struct empty_rec){ 0 }, &json), 1);
	ck_assert_str_eq(json, TEXT("[%s]", json_of(&acl_role_schema, &r)));
	ck_assert(kit_bool(&k, OP_ACL_ROLE_DELETE, &(struct acl_id){ r.ID }));
	ck_assert_uint_eq(kit_read(&k, OP_ACL_ROLE_GET, &(struct acl_read){ .ID = r.ID }, NULL), 0);
	ck_assert_int_eq(k.ans.err, TV_OK);
	ck_assert_uint_eq(k.f->tally[FT_ACL_ROLES], 0);
}
END_TEST

START_TEST(translated)
{
	const char *json;

	kit_read(&k, OP_ACL_TRANSLATE, &(struct acl_rules_text){ span_str("key \"a\" { policy = \"read\" }") }, &json);
	ck_assert_str_eq(json, "{\"Value\":\"key_prefix \\\"a\\\" {\\n  policy = \\\"read\\\"\\n}\"}");
	kit_read(&k, OP_ACL_TRANSLATE, &(struct acl_rules_text){ span_str("key \"a\" {") }, NULL);
	ck_assert_int_eq(k.ans.err, TV_EFORMAT);
	ck_assert_str_eq(str(k.ans.text), "Failed to parse rules: At 1:11: object expected closing RBRACE got: EOF");
}
END_TEST

START_TEST(waiting)
{
	static const struct { uint16_t op; unsigned after_policy, after_token; } cases[] = {
		{ OP_ACL_TOKEN_LIST, 1, 1 }, { OP_ACL_POLICY_LIST, 1, 0 }, { OP_ACL_ROLE_LIST, 1, 0 },
	};

	for (unsigned i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		const struct op *op = op_find(cases[i / 2].op);
		struct buf args = BUF_INIT(64);
		unsigned fired = 0;
		struct fsm_watch *w;

		schema_pack(op->args, op->args == &empty_schema ? (const void *)&(struct empty_rec){ 0 } :
		    &(struct acl_token_list){ .Policy = SPAN_NONE }, &args);
		w = fsm_watch(k.f, op, buf_span(&args), kit_fired, &fired);
		if (i % 2 == 0)
			(void)policy(TEXT("{\"Name\":\"p%u\"}", i));
		else
			(void)token("{}");
		ck_assert_uint_eq(fired, i % 2 == 0 ? cases[i / 2].after_policy : cases[i / 2].after_token);
		if (fired == 0)
			fsm_unwatch(k.f, w);
		buf_done(&args);
	}
}
END_TEST

/* -- what a secret stands for -- */

static bool
grants_policy(const struct fsm_acl *g, struct span id)
{
	for (uint32_t i = 0; i < g->policy_count; i++)
		if (span_eq(g->policies[i].id, id))
			return true;
	return false;
}

START_TEST(resolving)
{
	struct acl_policy here = policy("{\"Name\":\"here\",\"Datacenters\":[\"dc2\",\"DC1\"]}"),
	    there = policy("{\"Name\":\"there\",\"Datacenters\":[\"dc2\"]}"), both = policy("{\"Name\":\"both\"}");
	struct acl_role r = role("{\"Name\":\"r\",\"Policies\":[{\"Name\":\"both\"},{\"Name\":\"there\"}],"
	    "\"ServiceIdentities\":[{\"ServiceName\":\"web\"},{\"ServiceName\":\"far\",\"Datacenters\":[\"dc2\"]}],"
	    "\"NodeIdentities\":[{\"NodeName\":\"n1\",\"Datacenter\":\"dc1\"},{\"NodeName\":\"n2\",\"Datacenter\":\"dc2\"}]}");
	struct acl_token t = token("{\"Policies\":[{\"Name\":\"here\"},{\"Name\":\"both\"},{\"Name\":\"there\"}],\"Roles\":[{\"Name\":\"r\"}],"
	    "\"ServiceIdentities\":[{\"ServiceName\":\"web\"},{\"ServiceName\":\"db\"}],\"Local\":false}");
	struct fsm_acl g = resolved(t.SecretID, TV_OK);

	ck_assert(span_eqs(t.AccessorID, g.accessor));
	ck_assert_uint_eq(g.policy_count, 2);
	ck_assert(grants_policy(&g, here.ID) && grants_policy(&g, both.ID) && !grants_policy(&g, there.ID));
	ck_assert_uint_eq(g.service_count, 2);
	ck_assert_uint_eq(g.node_count, 1);
	ck_assert(span_eqs(g.nodes[0], "n1"));
	ck_assert_int_eq(g.expires, 0);
	ck_assert_uint_eq(g.index, fsm_acl_index(k.f));
	ck_assert_uint_eq(g.index, t.ModifyIndex);
	/* Any change of any of the three tables is one that this may depend on. */
	ck_assert(kit_bool(&k, OP_ACL_ROLE_DELETE, &(struct acl_id){ r.ID }));
	ck_assert_uint_gt(fsm_acl_index(k.f), g.index);
	g = resolved(t.SecretID, TV_OK);
	ck_assert_uint_eq(g.node_count, 0);
	ck_assert_uint_eq(g.policy_count, 2);
	g = resolved(SPAN_NONE, TV_OK);
	ck_assert_str_eq(g.accessor, ACL_ANONYMOUS_ID);
	resolved(t.AccessorID, TV_ENOENT);
	ck_assert(delete_token(t.AccessorID));
	resolved(t.SecretID, TV_ENOENT);
	/* Keys and sessions are no business of it. */
	uint64_t index = fsm_acl_index(k.f);
	kit_put(&k, "a", "1");
	ck_assert_uint_eq(fsm_acl_index(k.f), index);
}
END_TEST

/* By a reader, beside who applies. */
START_TEST(reading_beside)
{
	struct acl_token t = token("{\"Policies\":[{\"Name\":\"global-management\"}]}");
	struct fsm *r = fsm_reader(k.f);
	struct fsm_acl g;

	fsm_read_begin(r, false);
	ck_assert_int_eq(fsm_acl_resolve(r, t.SecretID, k.now, &k.a, &g), TV_OK);
	ck_assert(delete_token(t.AccessorID));
	ck_assert_int_eq(fsm_acl_resolve(r, t.SecretID, k.now, &k.a, &g), TV_OK);	/* of one index */
	fsm_read_end(r);
	fsm_read_begin(r, false);
	ck_assert_int_eq(fsm_acl_resolve(r, t.SecretID, k.now, &k.a, &g), TV_ENOENT);
	fsm_read_end(r);
	fsm_read_begin(r, true);
	ck_assert_int_eq(fsm_acl_resolve(r, t.SecretID, k.now, &k.a, &g), TV_EAGAIN);
	fsm_read_end(r);
	fsm_reader_free(r);
}
END_TEST

/* The arena is what bounds it. */
START_TEST(resolving_bounded)
{
	struct arena small = ARENA_INIT(64u << 10);
	struct acl_token_set q = { .Create = false };
	struct acl_link links[8];
	struct acl_token t = { .AccessorID = SPAN_NONE };
	struct fsm_result res;
	struct fsm_acl g;
	char rules[30000];

	memset(rules, ' ', sizeof(rules));
	for (unsigned i = 0; i < 8; i++) {
		struct acl_policy_set s = { .Policy = { .Name = span_str(TEXT("p%u", i)), .Rules = span_of(rules, sizeof(rules)) } };

		res = kit_apply(&k, OP_ACL_POLICY_SET, &s);
		ck_assert_int_eq(res.err, TV_OK);
		links[i] = (struct acl_link){ .Name = s.Policy.Name };
	}
	q.Token.Policies = (struct obj_list){ links, 8, true };
	res = kit_apply(&k, OP_ACL_TOKEN_SET, &q);
	answered(&res, &acl_token_schema, &t);
	ck_assert_int_eq(fsm_acl_resolve(k.f, t.SecretID, k.now, &small, &g), TV_ELIMIT);
	ck_assert_int_eq(fsm_trouble(k.f), TV_OK);
	resolved(t.SecretID, TV_OK);
	arena_done(&small);
}
END_TEST

/* -- the state as a whole -- */

START_TEST(over_a_restart)
{
	struct acl_token t = token("{\"Policies\":[{\"Name\":\"global-management\"}]}");

	kit_reopen(&k);
	ck_assert_uint_eq(fsm_acl_since(k.f), 1);
	ck_assert_ptr_nonnull(self(t.SecretID));
	ck_assert_uint_eq(k.f->tally[FT_ACL_TOKENS], 2);
	ck_assert_uint_eq(fsm_needs(k.f), 7);
}
END_TEST

START_TEST(over_a_snapshot)
{
	struct acl_token t = token("{\"ExpirationTTL\":\"2m\"}");
	uint8_t before[32], after[32];
	char path[128], why[256] = "";
	struct fsm_snapshot *s;
	uint64_t index, term, bytes, sum;

	snprintf(path, sizeof(path), "%s/snap", k.dir);
	ck_assert_int_eq(fsm_digest(k.f, before), TV_OK);
	ck_assert_int_eq(fsm_snapshot_begin(k.f, &s, &index, &term), TV_OK);
	ck_assert_int_eq(fsm_snapshot_write(s, path, &bytes, &sum), TV_OK);
	fsm_snapshot_end(s);
	ck_assert(delete_token(t.AccessorID));
	ck_assert_msg(fsm_restore(k.f, path, &index, &term, why, sizeof(why)) == TV_OK, "%s", why);
	ck_assert_int_eq(fsm_digest(k.f, after), TV_OK);
	ck_assert_mem_eq(before, after, sizeof(before));
	ck_assert_uint_eq(fsm_acl_since(k.f), 1);
	ck_assert_ptr_nonnull(self(t.SecretID));
	k.now += 3 * MINUTE;
	ck_assert(fsm_acl_reap_due(k.f, k.now));
}
END_TEST

/* Two replicas apply the same entries, and are the same. */
START_TEST(deterministic)
{
	static const struct { uint16_t op; const char *json; } steps[] = {
		{ OP_ACL_ENABLE, NULL }, { OP_ACL_BOOTSTRAP, NULL },
		{ OP_ACL_POLICY_SET, "{\"Name\":\"p\",\"Rules\":\"key \\\"a\\\" { policy = \\\"read\\\" }\"}" },
		{ OP_ACL_ROLE_SET, "{\"Name\":\"r\",\"Policies\":[{\"Name\":\"p\"}],\"ServiceIdentities\":[{\"ServiceName\":\"x\"}]}" },
		{ OP_ACL_TOKEN_SET, "{\"Roles\":[{\"Name\":\"r\"}],\"ExpirationTTL\":\"1m\"}" },
		{ OP_ACL_TOKEN_SET, "{\"Roles\":[{\"Name\":\"none\"}]}" }, { OP_ACL_TOKEN_SET, "{\"SecretID\":\"" U1 "\"}" },
		{ OP_ACL_TOKEN_SET, "{\"SecretID\":\"" U1 "\"}" }, { OP_ACL_REAP, NULL },
	};
	struct kit other;
	uint8_t one[32], two[32];

	kit_open(&other);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		const struct op *op = op_find(steps[i].op);
		struct buf args = BUF_INIT(65536), packed = BUF_INIT(65536), payload = BUF_INIT(65536);
		struct raft_entry e = { .index = i + 1, .term = 1, .type = RAFT_ENTRY_OP };
		void *rec = arena_alloc(&k.a, op->args->size);
		struct fsm_result here, there;
		struct span why;

		if (steps[i].json != NULL)	/* the first field is what the API gives */
			parse(op->args->fields[0].sub, steps[i].json, rec);
		schema_pack(op->args, rec, &packed);
		k.now += KIT_SECOND * 20;
		ck_assert_int_eq(fsm_prepare(k.f, &(uint16_t){ op->code }, buf_span(&packed), k.now, TEXT("22222222-2222-4222-8222-%012zu", i), &args,
		    &k.a, &why), TV_OK);
		fsm_entry_write(&payload, op->code, buf_span(&args));
		e.payload = payload.data;
		e.size = (uint32_t)payload.len;
		ck_assert_int_eq(fsm_apply(k.f, &e, 1, &k.a, &here), TV_OK);
		if (i == 4)
			kit_reopen(&other);	/* what is in memory does not matter */
		ck_assert_int_eq(fsm_apply(other.f, &e, 1, &k.a, &there), TV_OK);
		ck_assert_int_eq(here.err, there.err);
		ck_assert(span_eq(here.value, there.value));
		buf_done(&args);
		buf_done(&packed);
		buf_done(&payload);
	}
	ck_assert_int_eq(fsm_digest(k.f, one), TV_OK);
	ck_assert_int_eq(fsm_digest(other.f, two), TV_OK);
	ck_assert_mem_eq(one, two, sizeof(one));
	ck_assert_uint_eq(k.f->tally[FT_ACL_TOKENS], 3);	/* anonymous, bootstrap, the one with U1 */
	kit_close(&other);
}
END_TEST

/* What only the proposer may say, whatever it was asked. */
START_TEST(not_ours_to_say)
{
	struct acl_token_set q = { .Token = { .Expires = 5, .Hash = span_str("x"), .CreateTime = span_str("x"), .CreateIndex = 9 },
	    .Source = span_str("x"), .Now = 7 };
	struct fsm_result res = kit_apply(&k, OP_ACL_TOKEN_SET, &q);
	struct acl_bootstrap b = { .Token = { .AccessorID = span_str(U1), .Local = true, .CreateTime = span_str("x") } };
	struct acl_token t = { .AccessorID = SPAN_NONE };

	answered(&res, &acl_token_schema, &t);
	ck_assert_int_eq(t.Expires, 0);
	ck_assert_uint_eq(t.Hash.len, ACL_HASH_BYTES);
	ck_assert_str_eq(str(t.CreateTime), "1970-01-12T13:46:40Z");
	ck_assert_uint_eq(t.CreateIndex, t.ModifyIndex);
	res = kit_apply(&k, OP_ACL_BOOTSTRAP, &b);
	answered(&res, &acl_token_schema, &t);
	ck_assert(!span_eqs(t.AccessorID, U1) && !t.Local);
	ck_assert_str_eq(str(t.CreateTime), "1970-01-12T13:46:40Z");
}
END_TEST

/* What an archive may bring along. */
START_TEST(sound_records)
{
	static const char long_name[ACL_NAME_BYTES_MAX + 1];
	struct acl_token t = { .AccessorID = span_str(U1), .SecretID = span_str(U2) };
	struct acl_policy p = { .ID = span_str(U1), .Name = span_str("p") };
	uint8_t bytes[ACL_KEY_BYTES] = { 1 };
	struct acl_state st = { .Since = 1, .Key = { bytes, sizeof(bytes) } };
	const struct { enum tbl table; const char *id; const struct schema *s; const void *rec; enum tv_err err; } cases[] = {
		{ TBL_ACL_TOKEN, U1, &acl_token_schema, &t, TV_OK }, { TBL_ACL_TOKEN, U2, &acl_token_schema, &t, TV_EFORMAT },
		{ TBL_ACL_TOKEN, U1, &acl_token_schema, &(struct acl_token){ .AccessorID = span_str(U1) }, TV_EFORMAT },
		{ TBL_ACL_TOKEN, U1, &acl_token_schema, &(struct acl_token){ .AccessorID = span_str(U1), .SecretID = span_str(U2),
		    .Expires = -1 }, TV_EFORMAT },
		{ TBL_ACL_TOKEN, U1, &acl_token_schema, &(struct acl_token){ .AccessorID = span_str(U1), .SecretID = span_str(U2),
		    .AuthMethod = span_of(long_name, sizeof(long_name)) }, TV_EFORMAT },
		{ TBL_ACL_POLICY, U1, &acl_policy_schema, &p, TV_OK }, { TBL_ACL_ROLE, U1, &acl_role_schema,
		    &(struct acl_role){ .ID = span_str(U1) }, TV_EFORMAT },
		{ TBL_ACL, "", &acl_state_schema, &st, TV_OK },
		{ TBL_ACL, "", &acl_state_schema, &(struct acl_state){ .Since = 1 }, TV_EFORMAT },
	};
	struct buf val = BUF_INIT(65536);
	enum fsm_tally tally;
	struct tkey key;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TKEY(&key, cases[i].table, span_str(cases[i].id));
		buf_reset(&val);
		schema_pack(cases[i].s, cases[i].rec, &val);
		ck_assert_msg(record_check(span_of(key.b, key.len), buf_span(&val), &k.a, &tally) == cases[i].err, "case %zu", i);
	}
	buf_done(&val);
}
END_TEST

/* Each state that was reached so far is one that an archive may hold. */
START_TEST(own_records_are_sound)
{
	struct tbl_scan s;
	struct tkey all;
	struct span key, val;
	enum fsm_tally tally;
	unsigned n = 0;

	(void)policy("{\"Name\":\"p\"}");
	(void)role("{\"Name\":\"r\",\"Policies\":[{\"Name\":\"p\"}]}");
	(void)token("{\"Roles\":[{\"Name\":\"r\"}],\"ExpirationTTL\":\"1m\"}");
	for (unsigned letter = 'a'; letter <= 'z'; letter++) {
		tkey_begin(&all, (enum tbl)letter);
		for (tbl_scan_begin(k.f, &s, &all); tbl_next(&s, &key, &val); n++)
			ck_assert_msg(record_check(key, val, &k.a, &tally) == TV_OK, "%c", (char)letter);
		tbl_scan_end(&s);
	}
	ck_assert_uint_eq(n, 1 + 2 + 2 + 1 + 2 + 2 + 1 + 1);
}
END_TEST

/* -- times -- */

START_TEST(times)
{
	static const struct { const char *text; int64_t ns; const char *again; enum tv_err err; } cases[] = {
		{ "1970-01-01T00:00:00Z", 0, NULL, TV_OK }, { "2000-02-29T23:59:59.5Z", 951868799500000000, NULL, TV_OK },
		{ "2021-06-22T10:20:30.123456789Z", 1624357230123456789, NULL, TV_OK },
		{ "1969-12-31T23:59:59.999999999Z", -1, NULL, TV_OK },
		{ "2021-06-22T12:20:30+02:00", 1624357230000000000, "2021-06-22T10:20:30Z", TV_OK },
		{ "2021-06-22T10:20:30.1234567891Z", 1624357230123456789, "2021-06-22T10:20:30.123456789Z", TV_OK },
		{ "2261-12-31T00:00:00Z", 9214560000000000000, NULL, TV_OK }, { "2263-01-01T00:00:00Z", 0, NULL, TV_ELIMIT },
		{ "0001-01-01T00:00:00Z", 0, NULL, TV_ELIMIT }, { "2021-02-29T00:00:00Z", 0, NULL, TV_EFORMAT },
		{ "2021-06-22", 0, NULL, TV_EFORMAT }, { "2021-06-22T10:20:30", 0, NULL, TV_EFORMAT },
		{ "2021-06-22T10:20:30.Z", 0, NULL, TV_EFORMAT }, { "2021-06-22T24:20:30Z", 0, NULL, TV_EFORMAT },
		{ "2021-06-22T10:20:30Zx", 0, NULL, TV_EFORMAT }, { "", 0, NULL, TV_EFORMAT },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf b = BUF_INIT(128);
		int64_t ns;

		ck_assert_msg(rfc3339_parse(span_str(cases[i].text), &ns) == cases[i].err, "%s", cases[i].text);
		if (cases[i].err == TV_OK) {
			ck_assert_int_eq(ns, cases[i].ns);
			rfc3339_print(ns, &b);
			ck_assert_str_eq(buf_cstr(&b), cases[i].again != NULL ? cases[i].again : cases[i].text);
		}
		buf_done(&b);
	}
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = { on, bootstrapping, bootstrapping_with_a_secret, tokens, given_ids, own_token, expiration, expiry_storm, cloning, linked, too_much,
	    identities, policies, roles, translated, waiting, resolving, reading_beside, resolving_bounded, over_a_restart, over_a_snapshot,
	    not_ours_to_say, sound_records, own_records_are_sound };
	const TTest *const tests_off[] = { off, deterministic, times };
	Suite *s = suite_create("fsm_acl");
	TCase *t = tcase_create("on"), *u = tcase_create("off");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_checked_fixture(u, setup_off, teardown);
	tcase_set_timeout(t, 60);
	tcase_set_timeout(u, 60);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(t, tests[i]);
	for (size_t i = 0; i < sizeof(tests_off) / sizeof(tests_off[0]); i++)
		tcase_add_test(u, tests_off[i]);
	suite_add_tcase(s, t);
	suite_add_tcase(s, u);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
