/* /v1/acl: bodies, operations, answers.  What the state makes of them is in check_fsm_acl. */
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "tests/unit/api_kit.h"

#define ID1 "11111111-2222-4333-8444-555555555551"
#define ID2 "11111111-2222-4333-8444-555555555552"
#define OFF "ACL support disabled"

static const uint8_t hash[3] = { 1, 2, 3 };

static struct acl_token
token(void)
{
	static struct acl_link link;

	link = (struct acl_link){ span_str(ID2), span_str("p") };
	return (struct acl_token){ .AccessorID = span_str(ID1), .SecretID = span_str(ID2), .Description = span_str("d"),
	    .Policies = { &link, 1, true }, .CreateTime = span_str("2021-06-22T10:20:30Z"), .Hash = { hash, 3 }, .CreateIndex = 4,
	    .ModifyIndex = 5, .Expires = 7 };
}

#define SHOWN_END "\"Description\":\"d\",\"Policies\":[{\"ID\":\"" ID2 "\",\"Name\":\"p\"}],\"Local\":false," \
	"\"CreateTime\":\"2021-06-22T10:20:30Z\",\"Hash\":\"AQID\",\"CreateIndex\":4,\"ModifyIndex\":5}"
#define SHOWN "{\"AccessorID\":\"" ID1 "\",\"SecretID\":\"" ID2 "\"," SHOWN_END

/* Each endpoint asks the servers, and says what they say: 401, without the headers of a query. */
START_TEST(off)
{
	static const struct { const char *method, *target, *body; enum op_code op; } cases[] = {
		{ "PUT", "/v1/acl/bootstrap", "", OP_ACL_BOOTSTRAP }, { "GET", "/v1/acl/replication", NULL, OP_ACL_REPLICATION },
		{ "POST", "/v1/acl/rules/translate", "x", OP_ACL_TRANSLATE },
		{ "GET", "/v1/acl/rules/translate/" ID1, NULL, OP_ACL_TOKEN_GET },
		{ "POST", "/v1/acl/login", "{}", OP_ACL_REPLICATION }, { "POST", "/v1/acl/logout", "", OP_ACL_REPLICATION },
		{ "GET", "/v1/acl/tokens", NULL, OP_ACL_TOKEN_LIST }, { "PUT", "/v1/acl/token", "{}", OP_ACL_TOKEN_SET },
		{ "GET", "/v1/acl/token/self", NULL, OP_ACL_TOKEN_SELF }, { "GET", "/v1/acl/token/" ID1, NULL, OP_ACL_TOKEN_GET },
		{ "PUT", "/v1/acl/token/" ID1, "{}", OP_ACL_TOKEN_SET },
		{ "PUT", "/v1/acl/token/" ID1 "/clone", "", OP_ACL_TOKEN_CLONE },
		{ "DELETE", "/v1/acl/token/" ID1, "", OP_ACL_TOKEN_DELETE }, { "GET", "/v1/acl/policies", NULL, OP_ACL_POLICY_LIST },
		{ "PUT", "/v1/acl/policy", "{}", OP_ACL_POLICY_SET }, { "GET", "/v1/acl/policy/" ID1, NULL, OP_ACL_POLICY_GET },
		{ "GET", "/v1/acl/policy/name/x", NULL, OP_ACL_POLICY_GET }, { "PUT", "/v1/acl/policy/" ID1, "{}", OP_ACL_POLICY_SET },
		{ "DELETE", "/v1/acl/policy/" ID1, "", OP_ACL_POLICY_DELETE }, { "GET", "/v1/acl/roles", NULL, OP_ACL_ROLE_LIST },
		{ "PUT", "/v1/acl/role", "{}", OP_ACL_ROLE_SET }, { "GET", "/v1/acl/role/" ID1, NULL, OP_ACL_ROLE_GET },
		{ "GET", "/v1/acl/role/name/x", NULL, OP_ACL_ROLE_GET }, { "PUT", "/v1/acl/role/" ID1, "{}", OP_ACL_ROLE_SET },
		{ "DELETE", "/v1/acl/role/" ID1, "", OP_ACL_ROLE_DELETE },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct request *r = fake_begin(cases[i].method, cases[i].target, cases[i].body, NULL);

		asked(cases[i].op, NULL);
		reply(TV_EDISABLED, OFF);
		fake_answered(r, 401, OFF);
		ck_assert_ptr_null(fake_header(r, "X-Consul-Index"));
		fake_end(r);
	}
}
END_TEST

START_TEST(bootstrapping)
{
	struct acl_token t = token();
	struct acl_bootstrap q;
	struct request *r = fake_begin("PUT", "/v1/acl/bootstrap", "{\"Reset\":5}", NULL);

	asked(OP_ACL_BOOTSTRAP, &q);
	ck_assert_uint_eq(q.Reset, 0);
	reply_record(&acl_token_schema, &t);
	fake_answered(r, 200, "{\"ID\":\"" ID2 "\",\"AccessorID\":\"" ID1 "\",\"SecretID\":\"" ID2 "\"," SHOWN_END);
	fake_end(r);
	r = fake_begin("PUT", "/v1/acl/bootstrap", "", NULL);
	reply(TV_EPERM, "Permission denied: ACL bootstrap no longer allowed (reset index: 9)");
	fake_answered(r, 403, "Permission denied: ACL bootstrap no longer allowed (reset index: 9)");
	fake_end(r);
}
END_TEST

START_TEST(tokens_written)
{
	struct acl_token t = token();
	struct acl_token_set q = { .Create = false };
	struct acl_token_delete d;
	struct request *r = fake_begin("PUT", "/v1/acl/token?dc=dc2",
	    "{\"description\":\"d\",\"Policies\":[{\"name\":\"p\"}],\"ExpirationTTL\":\"90s\",\"Hash\":\"AQID\",\"CreateTime\":\"x\","
	    "\"CreateIndex\":3}", NULL);

	asked(OP_ACL_TOKEN_SET, &q);
	span_is(fake.q.dc, "dc2");
	ck_assert(q.Create);
	span_is(q.Token.Description, "d");
	ck_assert_int_eq(q.Token.ExpirationTTL, 90000000000);
	ck_assert_uint_eq(q.Token.Policies.n, 1);
	ck_assert_uint_eq(q.Token.Hash.len + q.Token.CreateTime.len + q.Token.CreateIndex, 0);
	reply_record(&acl_token_schema, &t);
	fake_answered(r, 200, SHOWN);
	ck_assert_ptr_null(fake_header(r, "X-Consul-Index"));
	fake_end(r);
	r = fake_begin("PUT", "/v1/acl/token/" ID1, "{\"AccessorID\":\"" ID1 "\",\"ExpirationTTL\":60000000000}", NULL);
	memset(&q, 0, sizeof(q));
	asked(OP_ACL_TOKEN_SET, &q);
	ck_assert(!q.Create);
	span_is(q.Token.AccessorID, ID1);
	ck_assert_int_eq(q.Token.ExpirationTTL, 60000000000);
	reply(TV_EINVAL, "cannot toggle local mode of " ID1);
	fake_answered(r, 500, "cannot toggle local mode of " ID1);
	fake_end(r);
	r = fake_begin("PUT", "/v1/acl/token/" ID1 "/clone", "{\"Description\":\"copy\"}", NULL);
	memset(&q, 0, sizeof(q));
	asked(OP_ACL_TOKEN_CLONE, &q);
	span_is(q.Source, ID1);
	span_is(q.Token.Description, "copy");
	reply(TV_EPERM, "ACL not found");
	fake_answered(r, 403, "ACL not found");
	fake_end(r);
	r = fake_begin("DELETE", "/v1/acl/token/" ID1 "?token=" ID2, "", NULL);
	asked(OP_ACL_TOKEN_DELETE, &d);
	span_is(d.AccessorID, ID1);
	span_is(d.Asker, ID2);
	reply_record(&bool_reply_schema, &(struct bool_reply){ true });
	fake_answered(r, 200, "true");
	fake_end(r);
}
END_TEST

START_TEST(bad_bodies)
{
	fake_is("PUT", "/v1/acl/token", "", 400, "Bad request: Token decoding failed: EOF");
	fake_is("PUT", "/v1/acl/token", "{\"Rules\":\"x\"}", 400, "Bad request: Token decoding failed: json: unknown field \"Rules\"");
	fake_is("PUT", "/v1/acl/token", "{\"ExpirationTTL\":\"abc\"}", 400,
	    "Bad request: Token decoding failed: time: invalid duration \"abc\"");
	fake_is("PUT", "/v1/acl/token", "{\"ExpirationTime\":\"abc\"}", 400, "Bad request: Token decoding failed: parsing time "
	    "\"\\\"abc\\\"\" as \"\\\"2006-01-02T15:04:05Z07:00\\\"\": cannot parse it");
	fake_is("PUT", "/v1/acl/token", "{\"Expires\":5}", 400, "Bad request: Token decoding failed: json: unknown field \"Expires\"");
	fake_is("PUT", "/v1/acl/token/" ID1, "{\"AccessorID\":\"" ID2 "\"}", 400,
	    "Bad request: Token Accessor ID in URL and payload do not match");
	fake_is("PUT", "/v1/acl/token/", "{}", 400, "Bad request: Missing token ID");
	fake_is("PUT", "/v1/acl/token//clone", "{}", 301, NULL);
	fake_is("PUT", "/v1/acl/policy", "{\"ID\":\"" ID1 "\"}", 400,
	    "Bad request: Cannot specify the ID when creating a new policy");
	fake_is("PUT", "/v1/acl/policy/" ID1, "{\"ID\":\"" ID2 "\"}", 400, "Bad request: Policy ID in URL and payload do not match");
	fake_is("PUT", "/v1/acl/policy", "{\"X\":1}", 400, "Bad request: Policy decoding failed: json: unknown field \"X\"");
	fake_is("PUT", "/v1/acl/role", "{\"ID\":\"" ID1 "\"}", 400, "Bad request: Role ID in URL and payload do not match");
	fake_is("PUT", "/v1/acl/role", "[", 400, NULL);
	fake_is("GET", "/v1/acl/policy/", NULL, 400, "Bad request: Missing policy ID");
	fake_is("GET", "/v1/acl/role/name/", NULL, 400, "Bad request: Missing role Name");
	fake_is("PUT", "/v1/acl/token/self", "{}", 405, "method PUT not allowed");
	ck_assert_uint_eq(fake.started, 0);
}
END_TEST

START_TEST(tokens_read)
{
	struct acl_token t = token();
	struct acl_token_read q;
	struct acl_token_list l;
	struct acl_secret s;
	struct request *r = fake_begin("GET", "/v1/acl/token/" ID1 "?index=3&wait=1s", NULL, NULL);

	asked(OP_ACL_TOKEN_GET, &q);
	ck_assert_uint_eq(fake.q.index, 3);
	span_is(q.AccessorID, ID1);
	reply_list(&acl_token_schema, &t, 1);
	fake_answered(r, 200, SHOWN);
	ck_assert_str_eq(fake_header(r, "X-Consul-Index"), "42");
	ck_assert_ptr_null(fake_header(r, "X-Consul-Effective-Consistency"));
	fake_end(r);
	r = fake_begin("GET", "/v1/acl/token/" ID1, NULL, NULL);
	reply_list(&acl_token_schema, &t, 0);
	fake_answered(r, 403, "ACL not found");
	ck_assert_str_eq(fake_header(r, "X-Consul-KnownLeader"), "true");
	fake_end(r);
	r = fake_begin("GET", "/v1/acl/token/self?token=" ID2, NULL, NULL);
	asked(OP_ACL_TOKEN_SELF, &s);
	span_is(s.SecretID, ID2);
	ck_assert(r->body.secret && r->scratch.secret && r->answer.body.secret);
	reply_list(&acl_token_schema, &t, 1);
	fake_answered(r, 200, SHOWN);
	fake_end(r);
	r = fake_begin("GET", "/v1/acl/tokens?policy=" ID2 "&role=r&authmethod=m", NULL, NULL);
	asked(OP_ACL_TOKEN_LIST, &l);
	span_is(l.Policy, ID2);
	span_is(l.Role, "r");
	span_is(l.AuthMethod, "m");
	reply_list(&acl_token_stub_schema, &t, 2);
	fake_answered(r, 200, "[{\"AccessorID\":\"" ID1 "\"," SHOWN_END ",{\"AccessorID\":\"" ID1 "\"," SHOWN_END "]");
	ck_assert_str_eq(fake_header(r, "X-Consul-Index"), "42");
	fake_end(r);
	r = fake_begin("GET", "/v1/acl/tokens", NULL, NULL);
	reply_list(&acl_token_stub_schema, &t, 0);
	fake_answered(r, 200, "[]");
	fake_end(r);
}
END_TEST

START_TEST(policies_and_roles)
{
	struct acl_policy p = { .ID = span_str(ID1), .Name = span_str("p"), .Rules = span_str("x"), .Hash = { hash, 3 } };
	struct acl_role o = { .ID = span_str(ID1), .Name = span_str("r"), .Hash = { hash, 3 }, .CreateIndex = 1, .ModifyIndex = 2 };
	struct acl_policy_set set = { .Create = false };
	struct acl_read q;
	struct request *r = fake_begin("PUT", "/v1/acl/policy", "{\"Name\":\"p\",\"Rules\":\"x\",\"Datacenters\":[\"dc1\"]}", NULL);

	asked(OP_ACL_POLICY_SET, &set);
	span_is(set.Policy.Rules, "x");
	ck_assert_uint_eq(set.Policy.ID.len, 0);
	reply_record(&acl_policy_schema, &p);
	fake_answered(r, 200, "{\"ID\":\"" ID1 "\",\"Name\":\"p\",\"Description\":\"\",\"Rules\":\"x\",\"Hash\":\"AQID\",\"CreateIndex\":0,"
	    "\"ModifyIndex\":0}");
	fake_end(r);
	r = fake_begin("GET", "/v1/acl/policy/name/p", NULL, NULL);
	asked(OP_ACL_POLICY_GET, &q);
	span_is(q.Name, "p");
	reply_list(&acl_policy_schema, &p, 0);
	fake_answered(r, 403, "ACL not found");
	fake_end(r);
	r = fake_begin("GET", "/v1/acl/policies", NULL, NULL);
	reply_list(&acl_policy_stub_schema, &p, 1);
	fake_answered(r, 200, "[{\"ID\":\"" ID1 "\",\"Name\":\"p\",\"Description\":\"\",\"Hash\":\"AQID\",\"CreateIndex\":0,"
	    "\"ModifyIndex\":0}]");
	fake_end(r);
	r = fake_begin("GET", "/v1/acl/role/name/r", NULL, NULL);
	asked(OP_ACL_ROLE_GET, &q);
	span_is(q.Name, "r");
	reply_list(&acl_role_schema, &o, 1);
	fake_answered(r, 200, "{\"ID\":\"" ID1 "\",\"Name\":\"r\",\"Description\":\"\",\"Hash\":\"AQID\",\"CreateIndex\":1,\"ModifyIndex\":2}");
	fake_end(r);
	r = fake_begin("GET", "/v1/acl/role/" ID1, NULL, NULL);
	reply_list(&acl_role_schema, &o, 0);
	fake_answered(r, 404, "");
	fake_end(r);
	r = fake_begin("DELETE", "/v1/acl/role/" ID1, "", NULL);
	asked(OP_ACL_ROLE_DELETE, NULL);
	reply_record(&bool_reply_schema, &(struct bool_reply){ true });
	fake_answered(r, 200, "true");
	fake_end(r);
}
END_TEST

START_TEST(translating)
{
	struct acl_rules_text q;
	struct acl_token t = token();
	struct request *r = fake_begin("POST", "/v1/acl/rules/translate", "key \"a\" {}", NULL);

	asked(OP_ACL_TRANSLATE, &q);
	span_is(q.Rules, "key \"a\" {}");
	reply_record(&text_reply_schema, &(struct text_reply){ span_str("key_prefix \"a\" {}") });
	fake_answered(r, 200, "key_prefix \"a\" {}");
	fake_end(r);
	r = fake_begin("POST", "/v1/acl/rules/translate", "", NULL);
	reply_record(&text_reply_schema, &(struct text_reply){ SPAN_NONE });
	fake_answered(r, 200, "");
	ck_assert_ptr_null(fake_header(r, "Content-Type"));
	fake_end(r);
	r = fake_begin("POST", "/v1/acl/rules/translate", "key", NULL);
	reply(TV_EFORMAT, "Failed to parse rules: x");
	fake_answered(r, 400, "Bad request: Failed to parse rules: x");
	fake_end(r);
	fake_is("GET", "/v1/acl/rules/translate/", NULL, 400, "Bad request: Missing token ID");
	r = fake_begin("GET", "/v1/acl/rules/translate/" ID1, NULL, NULL);
	reply_list(&acl_token_schema, &t, 0);
	fake_answered(r, 403, "ACL not found");
	fake_end(r);
	r = fake_begin("GET", "/v1/acl/rules/translate/" ID1, NULL, NULL);
	reply_list(&acl_token_schema, &t, 1);
	fake_answered(r, 500, "The specified token does not have any rules set");
	fake_end(r);
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = { off, bootstrapping, tokens_written, bad_bodies, tokens_read, policies_and_roles, translating };

	return api_kit_main("api_acl", tests, sizeof(tests) / sizeof(tests[0]));
}
