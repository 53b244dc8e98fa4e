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
		{ "POST", "/v1/acl/login", "{}", OP_ACL_LOGIN }, { "POST", "/v1/acl/logout", "", OP_ACL_LOGOUT },
		{ "GET", "/v1/acl/auth-methods", NULL, OP_ACL_METHOD_LIST }, { "PUT", "/v1/acl/auth-method", "{}", OP_ACL_METHOD_SET },
		{ "GET", "/v1/acl/auth-method/m", NULL, OP_ACL_METHOD_GET }, { "PUT", "/v1/acl/auth-method/m", "{}", OP_ACL_METHOD_SET },
		{ "DELETE", "/v1/acl/auth-method/m", "", OP_ACL_METHOD_DELETE },
		{ "GET", "/v1/acl/binding-rules", NULL, OP_ACL_BINDING_LIST }, { "PUT", "/v1/acl/binding-rule", "{}", OP_ACL_BINDING_SET },
		{ "GET", "/v1/acl/binding-rule/" ID1, NULL, OP_ACL_BINDING_GET },
		{ "PUT", "/v1/acl/binding-rule/" ID1, "{}", OP_ACL_BINDING_SET },
		{ "DELETE", "/v1/acl/binding-rule/" ID1, "", OP_ACL_BINDING_DELETE },
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
	ck_assert_uint_eq(q.Token.SecretID.len, 0);
	reply_record(&acl_token_schema, &t);
	fake_answered(r, 200, "{\"ID\":\"" ID2 "\",\"AccessorID\":\"" ID1 "\",\"SecretID\":\"" ID2 "\"," SHOWN_END);
	fake_end(r);
	r = fake_begin("PUT", "/v1/acl/bootstrap", "", NULL);
	reply(TV_EPERM, "Permission denied: ACL bootstrap no longer allowed (reset index: 9)");
	fake_answered(r, 403, "Permission denied: ACL bootstrap no longer allowed (reset index: 9)");
	fake_end(r);
	r = fake_begin("PUT", "/v1/acl/bootstrap", "{\"BootstrapSecret\":\"" ID2 "\"}", NULL);
	asked(OP_ACL_BOOTSTRAP, &q);
	span_is(q.Token.SecretID, ID2);
	reply_record(&acl_token_schema, &t);
	fake_end(r);
	r = fake_begin("PUT", "/v1/acl/bootstrap", "{\"BootstrapSecret\":\"secret\"}", NULL);
	fake_answered(r, 400, "Bad request: BootstrapSecret is not a valid UUID");
	fake_end(r);
	r = fake_begin("PUT", "/v1/acl/bootstrap", "{\"BootstrapSecret\":", NULL);
	ck_assert_uint_eq(r->answer.status, 400);
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
	fake_answered(r, 200, "[{\"ID\":\"" ID1 "\",\"Name\":\"p\",\"Description\":\"\",\"Datacenters\":null,\"Hash\":\"AQID\","
	    "\"CreateIndex\":0,\"ModifyIndex\":0}]");
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

/* -- auth methods -- */

START_TEST(methods_and_rules)
{
	struct acl_method m = { .MaxTokenTTL = 300000000000, .Name = span_str("m"), .Type = span_str("jwt"),
	    .Config = span_str("{\"B\":[1],\"A\":{}}"), .CreateIndex = 1, .ModifyIndex = 2 };
	struct acl_binding b = { .ID = span_str(ID1), .AuthMethod = span_str("m"), .BindType = span_str("role"), .BindName = span_str("r") };
	struct acl_method_set set = { .Method = { .Name = SPAN_NONE } };
	struct acl_binding_set rule = { .Create = false };
	struct acl_binding_list l;
	struct acl_name name;
	struct acl_id id;
	struct request *r = fake_begin("PUT", "/v1/acl/auth-method/m",
	    "{\"type\":\"jwt\",\"MAXTOKENTTL\":\"5m\",\"Config\":{\"B\":[1],\"A\":{}}}", NULL);

	asked(OP_ACL_METHOD_SET, &set);
	span_is(set.Method.Name, "m");
	span_is(set.Method.Config, "{\"B\":[1],\"A\":{}}");
	ck_assert_int_eq(set.Method.MaxTokenTTL, 300000000000);
	reply_record(&acl_method_schema, &m);
	fake_answered(r, 200, "{\"MaxTokenTTL\":\"5m0s\",\"Name\":\"m\",\"Type\":\"jwt\",\"Config\":{\"B\":[1],\"A\":{}},"
	    "\"CreateIndex\":1,\"ModifyIndex\":2}");
	fake_end(r);
	r = fake_begin("GET", "/v1/acl/auth-method/m", NULL, NULL);
	asked(OP_ACL_METHOD_GET, &name);
	span_is(name.Name, "m");
	reply_list(&acl_method_schema, &m, 1);
	fake_answered(r, 200, NULL);
	ck_assert_str_eq(fake_header(r, "X-Consul-Index"), "42");
	fake_end(r);
	r = fake_begin("GET", "/v1/acl/auth-method/m", NULL, NULL);
	reply_list(&acl_method_schema, &m, 0);
	fake_answered(r, 404, "");
	ck_assert_ptr_null(fake_header(r, "X-Consul-Index"));
	ck_assert_ptr_null(fake_header(r, "Content-Type"));
	fake_end(r);
	r = fake_begin("GET", "/v1/acl/auth-methods", NULL, NULL);
	reply_list(&acl_method_stub_schema, &m, 1);
	fake_answered(r, 200, "[{\"MaxTokenTTL\":\"5m0s\",\"Name\":\"m\",\"Type\":\"jwt\",\"CreateIndex\":1,\"ModifyIndex\":2}]");
	fake_end(r);
	r = fake_begin("PUT", "/v1/acl/binding-rule/" ID1, "{\"BindType\":\"role\",\"BindName\":\"r\"}", NULL);
	asked(OP_ACL_BINDING_SET, &rule);
	span_is(rule.Binding.ID, ID1);
	reply_record(&acl_binding_schema, &b);
	fake_answered(r, 200, "{\"ID\":\"" ID1 "\",\"Description\":\"\",\"AuthMethod\":\"m\",\"Selector\":\"\",\"BindType\":\"role\","
	    "\"BindName\":\"r\",\"CreateIndex\":0,\"ModifyIndex\":0}");
	fake_end(r);
	r = fake_begin("GET", "/v1/acl/binding-rules?authmethod=m", NULL, NULL);
	asked(OP_ACL_BINDING_LIST, &l);
	span_is(l.AuthMethod, "m");
	reply_list(&acl_binding_schema, &b, 0);
	fake_answered(r, 200, "[]");
	fake_end(r);
	r = fake_begin("DELETE", "/v1/acl/binding-rule/" ID1, "", NULL);
	asked(OP_ACL_BINDING_DELETE, &id);
	span_is(id.ID, ID1);
	reply_record(&bool_reply_schema, &(struct bool_reply){ true });
	fake_answered(r, 200, "true");
	fake_end(r);
}
END_TEST

START_TEST(bad_methods_and_rules)
{
#define METHOD "Bad request: AuthMethod decoding failed: "
	fake_is("PUT", "/v1/acl/auth-method/m", "{\"Name\":\"M\"}", 400, "Bad request: AuthMethod Name in URL and payload do not match");
	fake_is("PUT", "/v1/acl/auth-method", "{\"Bogus\":1}", 400, METHOD "json: unknown field \"Bogus\"");
	fake_is("PUT", "/v1/acl/auth-method", "{\"Values\":[]}", 400, METHOD "json: unknown field \"Values\"");
	fake_is("PUT", "/v1/acl/auth-method", "{\"Namespace\":\"x\"}", 400,
	    METHOD "json: unknown field \"Namespace\" - Namespaces are a Consul Enterprise feature");
	fake_is("PUT", "/v1/acl/auth-method", "{", 400, METHOD "unexpected EOF");
	fake_is("PUT", "/v1/acl/auth-method", "{\"MaxTokenTTL\":\"abc\"}", 400, METHOD "time: invalid duration \"abc\"");
	fake_is("PUT", "/v1/acl/auth-method/", "{}", 400, "Bad request: Missing auth method name");
	fake_is("PUT", "/v1/acl/binding-rule", "{\"ID\":\"" ID1 "\"}", 400, "Bad request: BindingRule ID in URL and payload do not match");
	fake_is("PUT", "/v1/acl/binding-rule", "{\"Foo\":1}", 400, "Bad request: BindingRule decoding failed: json: unknown field \"Foo\"");
	fake_is("GET", "/v1/acl/binding-rule/", NULL, 400, "Bad request: Missing binding rule ID");
	ck_assert_uint_eq(fake.started, 0);
#undef METHOD
}
END_TEST

START_TEST(logins)
{
	struct acl_token t = token();
	struct acl_login q = { .Method = 0 };
	struct acl_logout o;
	struct request *r = fake_begin("POST", "/v1/acl/login",
	    "{\"authmethod\":\"m\",\"BearerToken\":\"b.c.d\",\"Meta\":{\"k\":\"v\"}}", NULL);

	asked(OP_ACL_LOGIN, &q);
	span_is(q.AuthMethod, "m");
	span_is(q.BearerToken, "b.c.d");
	ck_assert_uint_eq(q.Meta.n, 1);
	ck_assert(r->body.secret && r->scratch.secret && r->answer.body.secret);
	reply_record(&acl_token_schema, &t);
	fake_answered(r, 200, SHOWN);
	fake_end(r);
	r = fake_begin("POST", "/v1/acl/login", "{}", NULL);
	asked(OP_ACL_LOGIN, NULL);
	reply(TV_EPERM, "ACL not found: auth method \"\" not found");
	fake_answered(r, 403, "ACL not found: auth method \"\" not found");
	fake_end(r);
	r = fake_begin("POST", "/v1/acl/logout?token=" ID2, "", NULL);
	asked(OP_ACL_LOGOUT, &o);
	span_is(o.SecretID, ID2);
	reply_record(&bool_reply_schema, &(struct bool_reply){ true });
	fake_answered(r, 200, "true");
	fake_end(r);
}
END_TEST

START_TEST(bad_logins)
{
#define DECODE "Bad request: Failed to decode request body: "
#define FIELD(kind_, name_) DECODE "json: cannot unmarshal " kind_ " into Go struct field ACLLoginParams." name_ " of type string"
	fake_is("POST", "/v1/acl/login", "", 400, DECODE "EOF");
	fake_is("POST", "/v1/acl/login", "{", 400, DECODE "unexpected EOF");
	fake_is("POST", "/v1/acl/login", "null", 500, "Invalid Login request: Missing auth parameters");
	fake_is("POST", "/v1/acl/login", "{\"Foo\":1}", 400, DECODE "json: unknown field \"Foo\"");
	fake_is("POST", "/v1/acl/login", "{\"AuthMethod\":\"x\",\"Meta\":{\"a\":1}}", 400, FIELD("number", "Meta"));
	fake_is("POST", "/v1/acl/login", "{\"Meta\":null,\"bearertoken\":[]}", 400, FIELD("array", "BearerToken"));
	fake_is("POST", "/v1/acl/login", "[]", 400, NULL);
	fake_is("PUT", "/v1/acl/login", "{}", 405, "method PUT not allowed");
	fake_is("GET", "/v1/acl/logout", NULL, 405, "method GET not allowed");
	ck_assert_uint_eq(fake.started, 0);
#undef DECODE
#undef FIELD
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = { off, bootstrapping, tokens_written, bad_bodies, tokens_read, policies_and_roles, translating,
	    methods_and_rules, bad_methods_and_rules, logins, bad_logins };

	return api_kit_main("api_acl", tests, sizeof(tests) / sizeof(tests[0]));
}
