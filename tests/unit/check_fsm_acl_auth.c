/* Auth methods, binding rules, logins and logouts in the state: what a bearer token comes to, and what goes when a method goes. */
#include <stdio.h>

#include "common/record/mpack.h"
#include "common/record/schema_json.h"
#include "raftd/fsm/acl/acl_int.h"
#include "raftd/fsm/table/record.h"
#include "raftd/fsm/table/table.h"
#include "raftd/login/login.h"
#include "raftd/login/method_config.h"
#include "tests/unit/fsm_kit.h"
#include "tests/unit/jwt_kit.h"

#define U1 "11111111-2222-4333-8444-555555555551"
#define NO_UUID "11111111-2222-4333-8444-55555555555f"
#define OFF "ACL support disabled"
#define MINUTE (60 * KIT_SECOND)
#define NAMES "Invalid Auth Method: invalid Name. Only alphanumeric characters, '-' and '_' are allowed"
#define TYPES "Invalid Auth Method: Type should be one of: [jwt kubernetes]"
#define LOGIN "token created via login"
#define TIMES "\"iat\":999990,\"exp\":1000600"	/* the kit's clock begins at 1,000,000 */

static struct kit k;
static EVP_PKEY *key;
static const char *keys;		/* JSON of the key's public half */

static const char *
str(struct span s)
{
	return arena_cstr(&k.a, s);
}

#define TEXT(...) arena_cstr(&k.a, arena_printf(&k.a, __VA_ARGS__))

static void
open_state(bool on)
{
	struct buf json = BUF_INIT(4096);

	kit_open(&k);
	k.f->opt.check_method = login_check_method;
	key = jwt_kit_key("P-256", 0);
	for (const char *p = str(jwt_kit_pem(key, &k.a)); *p != '\0'; p++)
		buf_puts(&json, *p == '\n' ? "\\n" : (char[]){ *p, '\0' });
	keys = strdup(buf_cstr(&json));
	buf_done(&json);
	if (on)
		ck_assert(kit_bool(&k, OP_ACL_ENABLE, &(struct acl_enable){ .Now = 0 }));
}

static void
setup(void)
{
	open_state(true);
}

static void
setup_off(void)
{
	open_state(false);
}

static void
teardown(void)
{
	EVP_PKEY_free(key);
	free((void *)(uintptr_t)keys);
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

static void
answered(const struct fsm_result *res, const struct schema *s, void *rec)
{
	struct rd in = rd_span_over(res->value);

	ck_assert_msg(res->err == TV_OK, "%.*s", (int)res->text.len, (const char *)res->text.p);
	ck_assert_int_eq(schema_unpack(s, &in, &k.a, rec), TV_OK);
	ck_assert_int_eq(rd_end(&in), TV_OK);
}

#define CONFIG(more_) TEXT("\"Config\":{\"JWTValidationPubKeys\":[\"%s\"]%s}", keys, more_)
#define MAPPED ",\"ClaimMappings\":{\"name\":\"name\",\"/team/lead\":\"lead\"},\"ListClaimMappings\":{\"groups\":\"groups\"}"

static struct acl_method_set
method_set(const char *fields)
{
	struct acl_method_set q = { .Method = { .Name = SPAN_NONE } };

	parse(&acl_method_schema, TEXT("{%s}", fields), &q.Method);
	return q;
}

static struct acl_method
method(const char *name, const char *more)
{
	struct acl_method_set q = method_set(TEXT("\"Name\":\"%s\",\"Type\":\"jwt\",%s%s", name, CONFIG(MAPPED), more));
	struct fsm_result res = kit_apply(&k, OP_ACL_METHOD_SET, &q);
	struct acl_method m = { .Name = SPAN_NONE };

	answered(&res, &acl_method_schema, &m);
	return m;
}

static void
method_refused(const char *fields, const char *text)
{
	struct acl_method_set q = method_set(fields);

	kit_refused(&k, OP_ACL_METHOD_SET, &q, text);
}

static struct acl_binding_set
binding_set(const char *json)
{
	struct acl_binding_set q = { .Create = false };

	parse(&acl_binding_schema, json, &q.Binding);
	return q;
}

static struct acl_binding
binding(const char *json)
{
	struct acl_binding_set q = binding_set(json);
	struct fsm_result res = kit_apply(&k, OP_ACL_BINDING_SET, &q);
	struct acl_binding b = { .ID = SPAN_NONE };

	answered(&res, &acl_binding_schema, &b);
	return b;
}

static void
binding_refused(const char *json, const char *text)
{
	struct acl_binding_set q = binding_set(json);

	kit_refused(&k, OP_ACL_BINDING_SET, &q, text);
}

static struct acl_role
role(const char *name)
{
	struct acl_role_set q = { .Role = { .Name = span_str(name) } };
	struct acl_role out = { .ID = SPAN_NONE };
	struct fsm_result res = kit_apply(&k, OP_ACL_ROLE_SET, &q);

	answered(&res, &acl_role_schema, &out);
	return out;
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

static enum tv_err
role_id(void *ctx, struct span name, char id[37])
{
	return fsm_acl_role_id(ctx, name, id);
}

/* What raftd does with a login, up to the entry. */
static enum tv_err
decided(const char *name, const char *claims, const char *meta, struct acl_login *out, const char **text)
{
	struct login_ask ask = { .bearer = JWT_KIT_ES256(key, claims, &k.a), .datacenter = "dc1", .now = k.now, .role = role_id,
	    .ctx = k.f };
	struct acl_login_body body = { .AuthMethod = SPAN_NONE };
	struct buf why = BUF_INIT(16384);
	struct login_need need;
	struct fsm_login_view view;
	enum tv_err err = fsm_acl_login_method(k.f, span_str(name), &k.a, &view);

	if (meta != NULL)
		parse(&acl_login_body_schema, TEXT("{\"Meta\":%s}", meta), &body);
	ask.meta = body.Meta;
	if (err == TV_OK)
		err = login_decide(&ask, &view, &k.a, out, &need, &why);
	if (text != NULL)
		*text = str(buf_span(&why));
	ck_assert((err == TV_OK || err == TV_ENOENT || err == TV_EDISABLED) == (why.len == 0));
	buf_done(&why);
	return err;
}

static struct acl_token
login_with(const char *name, const char *claims, const char *meta)
{
	struct acl_login made;
	struct acl_token t = { .AccessorID = SPAN_NONE };
	struct fsm_result res;
	const char *text;

	ck_assert_msg(decided(name, claims, meta, &made, &text) == TV_OK, "%s", text);
	res = kit_apply(&k, OP_ACL_LOGIN, &made);
	answered(&res, &acl_token_schema, &t);
	return t;
}

#define CLAIMS "{" TIMES ",\"name\":\"Web\",\"team\":{\"lead\":\"ann\"},\"groups\":[\"dev\",\"ops\"]}"

static struct acl_token
login(const char *name)
{
	return login_with(name, CLAIMS, NULL);
}

static void
login_refused(const char *name, const char *claims, enum tv_err want, const char *text)
{
	struct acl_login made;
	const char *why;

	ck_assert_int_eq(decided(name, claims, NULL, &made, &why), want);
	if (text != NULL)
		ck_assert_str_eq(why, text);
}

static bool
lives(const struct acl_token *t)
{
	return kit_read(&k, OP_ACL_TOKEN_SELF, &(struct acl_secret){ t->SecretID }, NULL) == 1;
}

static unsigned
tokens_of(const char *name)
{
	return kit_read(&k, OP_ACL_TOKEN_LIST, &(struct acl_token_list){ .AuthMethod = span_str(name) }, NULL);
}

static unsigned
methods_named(const char *name)
{
	return kit_read(&k, OP_ACL_METHOD_GET, &(struct acl_name){ span_str(name) }, NULL);
}

static unsigned
bindings_of(const char *name)
{
	return kit_read(&k, OP_ACL_BINDING_LIST, &(struct acl_binding_list){ span_str(name) }, NULL);
}

static unsigned
records(enum tbl table)
{
	struct tbl_scan s;
	struct tkey all;
	struct span key_, val;
	unsigned n = 0;

	tkey_begin(&all, table);
	for (tbl_scan_begin(k.f, &s, &all); tbl_next(&s, &key_, &val); n++)
		;
	tbl_scan_end(&s);
	return n;
}

/* -- off -- */

START_TEST(off)
{
	struct acl_method_set m = method_set(TEXT("\"Name\":\"m\",\"Type\":\"jwt\",%s", CONFIG("")));
	struct acl_binding_set b = binding_set("{\"AuthMethod\":\"m\",\"BindType\":\"role\",\"BindName\":\"r\"}");
	uint64_t before = fsm_applied(k.f);
	char accessor[37];

	kit_refused(&k, OP_ACL_METHOD_SET, &m, OFF);
	kit_refused(&k, OP_ACL_METHOD_DELETE, &(struct acl_name){ span_str("m") }, OFF);
	kit_refused(&k, OP_ACL_BINDING_SET, &b, OFF);
	kit_refused(&k, OP_ACL_BINDING_DELETE, &(struct acl_id){ span_str(U1) }, OFF);
	kit_refused(&k, OP_ACL_LOGIN, &(struct acl_login){ .Method = 1 }, OFF);
	kit_refused(&k, OP_ACL_LOGOUT, &(struct acl_logout){ .AccessorID = span_str(U1) }, OFF);
	ck_assert_uint_eq(fsm_applied(k.f), before);
	ck_assert_uint_eq(methods_named("m"), 0);
	ck_assert_int_eq(k.ans.err, TV_EDISABLED);
	login_refused("m", CLAIMS, TV_EDISABLED, NULL);
	ck_assert_int_eq(fsm_acl_logout_look(k.f, span_str("x"), k.now, accessor), TV_EDISABLED);
}
END_TEST

/* -- methods -- */

START_TEST(methods)
{
	struct acl_method m = method("One", ",\"MaxTokenTTL\":\"90m\",\"DisplayName\":\"d\",\"TokenLocality\":\"global\""), n;
	const char *json;

	ck_assert_str_eq(json_of(&acl_method_schema, &m), TEXT("{\"MaxTokenTTL\":\"1h30m0s\",\"Name\":\"One\",\"Type\":\"jwt\","
	    "\"DisplayName\":\"d\",\"TokenLocality\":\"global\",%s,\"CreateIndex\":%llu,\"ModifyIndex\":%llu}", CONFIG(MAPPED),
	    (unsigned long long)fsm_index(k.f), (unsigned long long)fsm_index(k.f)));
	ck_assert_uint_eq(kit_read(&k, OP_ACL_METHOD_GET, &(struct acl_name){ span_str("oNE") }, &json), 1);
	ck_assert_str_eq(json, TEXT("[%s]", json_of(&acl_method_schema, &m)));
	ck_assert_uint_eq(k.ans.index, m.ModifyIndex);
	ck_assert_uint_eq(kit_read(&k, OP_ACL_METHOD_LIST, &(struct empty_rec){ 0 }, &json), 1);
	ck_assert_ptr_null(strstr(json, "Config"));
	/* All is replaced, and the name may be spelled otherwise. */
	n = method("ONE", "");
	ck_assert_uint_eq(n.CreateIndex, m.CreateIndex);
	ck_assert_uint_gt(n.ModifyIndex, m.ModifyIndex);
	ck_assert_ptr_null(strstr(json_of(&acl_method_schema, &n), "TokenLocality"));
	ck_assert_uint_eq(k.f->tally[FT_ACL_METHODS], 1);
	ck_assert_uint_eq(methods_named("on"), 0);
	ck_assert_uint_eq(methods_named(""), 0);
	ck_assert(kit_bool(&k, OP_ACL_METHOD_DELETE, &(struct acl_name){ span_str("one") }));
	ck_assert(kit_bool(&k, OP_ACL_METHOD_DELETE, &(struct acl_name){ span_str("one") }));
	ck_assert_uint_eq(methods_named("ONE"), 0);
	ck_assert_uint_eq(k.f->tally[FT_ACL_METHODS], 0);
	/* Another one of that name is another one. */
	ck_assert_uint_gt(method("one", "").CreateIndex, m.CreateIndex);
}
END_TEST

START_TEST(bad_methods)
{
#define M(more_) TEXT("\"Name\":\"m\",%s%s", CONFIG(""), more_)
	char long_name[130];

	memset(long_name, 'a', 129);
	long_name[129] = '\0';
	method_refused(CONFIG(""), "Invalid Auth Method: no Name is set");
	method_refused("\"Name\":\"a b\"", NAMES);
	method_refused(TEXT("\"Name\":\"%s\"", long_name), NAMES);
	method_refused(M(""), TYPES);
	method_refused(M(",\"Type\":\"x\",\"MaxTokenTTL\":\"1s\""), TYPES);
	method_refused(M(",\"Type\":\"jwt\",\"MaxTokenTTL\":\"59s\",\"TokenLocality\":\"x\""), "MaxTokenTTL 59s cannot be less than 1m0s");
	method_refused(M(",\"Type\":\"jwt\",\"MaxTokenTTL\":\"24h1s\""), "MaxTokenTTL 24h0m1s cannot be more than 24h0m0s");
	method_refused(M(",\"Type\":\"jwt\",\"MaxTokenTTL\":\"-5m\""), "MaxTokenTTL -5m0s cannot be less than 1m0s");
	method_refused("\"Name\":\"m\",\"Type\":\"jwt\",\"TokenLocality\":\"x\",\"Config\":{}",
	    "Invalid Auth Method: TokenLocality should be one of 'local' or 'global'");
	method_refused("\"Name\":\"m\",\"Type\":\"jwt\",\"Config\":{\"Foo\":1}",
	    "Invalid Auth Method: error decoding config: 1 error(s) decoding:\n\n* '' has invalid keys: Foo");
	method_refused(M(",\"Type\":\"kubernetes\""), "Invalid Auth Method: servers of Triumvir ask no Kubernetes API; make a method of "
	    "type jwt with the public keys of its service accounts");
	(void)method("m", "");
	method_refused(M(",\"Type\":\"kubernetes\""), "the Type field of an Auth Method is immutable");
	k.f->opt.check_method = NULL;
	method_refused(M(""), "Invalid Auth Method: no auth methods can be made here");
#undef M
}
END_TEST

/* -- rules -- */

START_TEST(bindings)
{
	struct acl_binding b, c;
	const char *json;

	(void)method("m", "");
	(void)method("n", "");
	b = binding("{\"AuthMethod\":\"M\",\"Description\":\"x\",\"Selector\":\"value.name == \\\"web\\\"\",\"BindType\":\"service\","
	    "\"BindName\":\"${value.name}-${value.lead}\"}");
	ck_assert_str_eq(json_of(&acl_binding_schema, &b), TEXT("{\"ID\":\"%s\",\"Description\":\"x\",\"AuthMethod\":\"M\","
	    "\"Selector\":\"value.name == \\\"web\\\"\",\"BindType\":\"service\",\"BindName\":\"${value.name}-${value.lead}\","
	    "\"CreateIndex\":%llu,\"ModifyIndex\":%llu}", str(b.ID), (unsigned long long)fsm_index(k.f),
	    (unsigned long long)fsm_index(k.f)));
	ck_assert_uint_eq(kit_read(&k, OP_ACL_BINDING_GET, &(struct acl_id){ b.ID }, &json), 1);
	ck_assert_str_eq(json, TEXT("[%s]", json_of(&acl_binding_schema, &b)));
	ck_assert_uint_eq(bindings_of("m"), 1);
	ck_assert_uint_eq(bindings_of("n"), 0);
	ck_assert_uint_eq(bindings_of(""), 1);
	c = binding(TEXT("{\"ID\":\"%s\",\"BindType\":\"role\",\"BindName\":\"R_x\"}", str(b.ID)));
	ck_assert(span_eqs(c.AuthMethod, "M") && c.Selector.len == 0 && c.Description.len == 0 && c.CreateIndex == b.CreateIndex);
	binding_refused(TEXT("{\"ID\":\"%s\",\"AuthMethod\":\"n\",\"BindType\":\"role\",\"BindName\":\"r\"}", str(b.ID)),
	    "the AuthMethod field of an Binding Rule is immutable");
	binding_refused("{\"ID\":\"" NO_UUID "\",\"BindType\":\"role\",\"BindName\":\"r\"}", "cannot find binding rule " NO_UUID);
	binding_refused("{\"ID\":\"abc\",\"BindType\":\"role\",\"BindName\":\"r\"}", "Binding Rule ID invalid UUID");
	ck_assert(kit_bool(&k, OP_ACL_BINDING_DELETE, &(struct acl_id){ b.ID }));
	ck_assert(kit_bool(&k, OP_ACL_BINDING_DELETE, &(struct acl_id){ b.ID }));
	kit_refused(&k, OP_ACL_BINDING_DELETE, &(struct acl_id){ span_str("abc") },
	    "failed acl binding rule lookup: index error: UUID must be 36 characters");
	ck_assert_uint_eq(kit_read(&k, OP_ACL_BINDING_GET, &(struct acl_id){ b.ID }, NULL), 0);
	ck_assert_uint_eq(k.f->tally[FT_ACL_BINDINGS], 0);
	ck_assert_uint_eq(records(TBL_ACL_METHOD_BINDING), 0);
}
END_TEST

START_TEST(bad_bindings)
{
	static const struct { const char *fields, *text; } cases[] = {
		{ "\"AuthMethod\":\"\"", "Invalid Binding Rule: no AuthMethod is set" },
		{ "\"AuthMethod\":\"x\",\"BindType\":\"role\",\"BindName\":\"r\"", "cannot find auth method with name \"x\"" },
		{ "\"AuthMethod\":\"m\",\"Selector\":\"foo == 1\"", "invalid Binding Rule: Selector is invalid: Selector \"foo\" is not valid" },
		{ "\"AuthMethod\":\"m\",\"Selector\":\"list.a.b is empty\"",
		    "invalid Binding Rule: Selector is invalid: Selector \"list.a.b\" is not valid" },
		{ "\"AuthMethod\":\"m\",\"Selector\":\"list.a == x\"",
		    "invalid Binding Rule: Selector is invalid: Invalid match operator \"Equal\" for selector \"list.a\"" },
		{ "\"AuthMethod\":\"m\"", "Invalid Binding Rule: no BindType is set" },
		{ "\"AuthMethod\":\"m\",\"BindType\":\"zz\"", "Invalid Binding Rule: no BindName is set" },
		{ "\"AuthMethod\":\"m\",\"BindType\":\"policy\",\"BindName\":\"r\"", "Invalid Binding Rule: unknown BindType \"policy\"" },
		{ "\"AuthMethod\":\"m\",\"BindType\":\"role\",\"BindName\":\"${value.groups}\"",
		    "Invalid Binding Rule: invalid BindName: 1:3: unknown variable accessed: value.groups" },
		{ "\"AuthMethod\":\"m\",\"BindType\":\"service\",\"BindName\":\"A-${value.name}\"", "Invalid Binding Rule: invalid BindName" },
		{ "\"AuthMethod\":\"m\",\"BindType\":\"node\",\"BindName\":\"a b\"", "Invalid Binding Rule: invalid BindName" },
	};

	(void)method("m", "");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		binding_refused(TEXT("{%s}", cases[i].fields), cases[i].text);
	for (unsigned i = 0; i < ACL_BINDINGS_MAX; i++)
		(void)binding("{\"AuthMethod\":\"m\",\"BindType\":\"service\",\"BindName\":\"web\"}");
	binding_refused("{\"AuthMethod\":\"m\",\"BindType\":\"service\",\"BindName\":\"web\"}",
	    "Invalid Binding Rule: the auth method has 512 of them already");
	(void)login("m");
}
END_TEST

/* -- logins -- */

START_TEST(logins)
{
	struct acl_role r;
	struct acl_token t;
	struct fsm_acl grants;

	(void)method("M1", "");
	r = role("R-ann");
	login_refused("m1", CLAIMS, TV_EPERM, "Permission denied");
	(void)binding("{\"AuthMethod\":\"m1\",\"Selector\":\"\\\"ops\\\" in list.groups and value.lead == ann\",\"BindType\":\"service\","
	    "\"BindName\":\"${value.name}\"}");
	(void)binding("{\"AuthMethod\":\"m1\",\"BindType\":\"service\",\"BindName\":\"web\"}");
	(void)binding("{\"AuthMethod\":\"m1\",\"BindType\":\"node\",\"BindName\":\"n-${value.lead}\"}");
	(void)binding("{\"AuthMethod\":\"m1\",\"BindType\":\"role\",\"BindName\":\"r-${value.lead}\"}");
	(void)binding("{\"AuthMethod\":\"m1\",\"BindType\":\"role\",\"BindName\":\"none\"}");
	(void)binding("{\"AuthMethod\":\"m1\",\"Selector\":\"list.groups is empty\",\"BindType\":\"service\",\"BindName\":\"no\"}");
	t = login_with("m1", CLAIMS, "{\"b\":\"<x>\",\"a\":\"1\"}");
	ck_assert_ptr_nonnull(strstr(json_of(&acl_token_schema, &t), TEXT("\"Description\":\"" LOGIN
	    ": {\\\"a\\\":\\\"1\\\",\\\"b\\\":\\\"\\\\u003cx\\\\u003e\\\"}\",\"Roles\":[{\"ID\":\"%s\",\"Name\":\"R-ann\"}],"
	    "\"ServiceIdentities\":[{\"ServiceName\":\"web\"}],\"NodeIdentities\":[{\"NodeName\":\"n-ann\",\"Datacenter\":\"dc1\"}],"
	    "\"Local\":true,\"AuthMethod\":\"M1\",\"CreateTime\":", str(r.ID))));
	ck_assert(t.Expires == 0 && t.ExpirationTime.len == 0 && t.Policies.n == 0);
	ck_assert(lives(&t));
	ck_assert_int_eq(fsm_acl_resolve(k.f, t.SecretID, k.now, &k.a, &grants), TV_OK);
	ck_assert(grants.service_count == 1 && grants.node_count == 1);
	ck_assert_uint_eq(tokens_of("m1"), 1);
	login_refused("m2", CLAIMS, TV_ENOENT, NULL);
	login_refused("", CLAIMS, TV_ENOENT, NULL);
	login_refused("m1", "{" TIMES ",\"name\":\"a b\",\"team\":{\"lead\":\"ann\"},\"groups\":\"ops\"}", TV_EINVAL,
	    "computed \"service\" bind name for bind target is invalid: \"a b\"");
	login_refused("m1", "{" TIMES "}", TV_EINVAL, "computed \"node\" bind name for bind target is invalid: \"n-\"");
	k.now += 1000 * KIT_SECOND;
	login_refused("m1", CLAIMS, TV_EINVAL, "error validating claims: square/go-jose/jwt: validation failed, token is expired (exp)");
}
END_TEST

/* Nothing but the token goes to the log. */
START_TEST(entries)
{
	static const char bearer[] = "header.payload.signature";
	struct acl_login made;
	struct buf args = BUF_INIT(1u << 20), packed = BUF_INIT(1u << 20);
	struct acl_method m = method("m", "");
	struct span why;
	const char *text;

	(void)binding("{\"AuthMethod\":\"m\",\"BindType\":\"service\",\"BindName\":\"web\"}");
	ck_assert_int_eq(decided("m", CLAIMS, NULL, &made, &text), TV_OK);
	ck_assert_uint_eq(made.Method, m.CreateIndex);
	made.BearerToken = span_str(bearer);
	schema_pack(&acl_login_schema, &made, &packed);
	ck_assert_int_eq(fsm_prepare(k.f, &(uint16_t){ OP_ACL_LOGIN }, buf_span(&packed), k.now, U1, &args, &k.a, &why), TV_OK);
	ck_assert_ptr_null(memmem(args.data, args.len, bearer, sizeof(bearer) - 1));
	ck_assert_ptr_nonnull(memmem(args.data, args.len, U1, sizeof(U1) - 1));
	buf_reset(&packed);
	buf_reset(&args);
	schema_pack(&acl_logout_schema, &(struct acl_logout){ .SecretID = span_str(bearer), .AccessorID = span_str(U1) }, &packed);
	ck_assert_int_eq(fsm_prepare(k.f, &(uint16_t){ OP_ACL_LOGOUT }, buf_span(&packed), k.now, "", &args, &k.a, &why), TV_OK);
	ck_assert_ptr_null(memmem(args.data, args.len, bearer, sizeof(bearer) - 1));
	/* What nobody has judged is no login. */
	kit_refused(&k, OP_ACL_LOGIN, &(struct acl_login){ .AuthMethod = span_str("m"), .BearerToken = span_str(bearer) },
	    "Invalid Login request: Missing auth parameters");
	kit_refused(&k, OP_ACL_LOGOUT, &(struct acl_logout){ .SecretID = span_str(bearer) }, "ACL not found");
	buf_done(&args);
	buf_done(&packed);
}
END_TEST

/* Between the look and the entry the method went, or came again, or a role went. */
START_TEST(overtaken)
{
	struct acl_login made, other;
	struct acl_role r = role("r"), s = role("s");
	struct fsm_result res;
	struct acl_token t = { .AccessorID = SPAN_NONE };
	const char *text;

	(void)method("m", "");
	(void)binding("{\"AuthMethod\":\"m\",\"BindType\":\"role\",\"BindName\":\"r\"}");
	(void)binding("{\"AuthMethod\":\"m\",\"BindType\":\"role\",\"BindName\":\"s\"}");
	ck_assert_int_eq(decided("m", CLAIMS, NULL, &made, &text), TV_OK);
	other = made;
	ck_assert(kit_bool(&k, OP_ACL_ROLE_DELETE, &(struct acl_id){ r.ID }));
	res = kit_apply(&k, OP_ACL_LOGIN, &made);
	answered(&res, &acl_token_schema, &t);
	ck_assert_uint_eq(t.Roles.n, 1);
	ck_assert(kit_bool(&k, OP_ACL_ROLE_DELETE, &(struct acl_id){ s.ID }));
	kit_refused(&k, OP_ACL_LOGIN, &other, "Permission denied");
	ck_assert_int_eq(kit_apply(&k, OP_ACL_LOGIN, &other).err, TV_EPERM);
	ck_assert(lives(&t));			/* though it may do nothing now */
	ck_assert(kit_bool(&k, OP_ACL_METHOD_DELETE, &(struct acl_name){ span_str("m") }));
	kit_refused(&k, OP_ACL_LOGIN, &other, "ACL not found: auth method \"m\" not found");
	(void)method("m", "");
	kit_refused(&k, OP_ACL_LOGIN, &other, "ACL not found: auth method \"m\" not found");
	ck_assert_int_eq(kit_apply(&k, OP_ACL_LOGIN, &other).err, TV_EPERM);
}
END_TEST

START_TEST(lives_and_localities)
{
	struct acl_token global, local;
	struct acl_token_set q = { .Token = { .Description = span_str("u"), .Local = false } };
	struct fsm_result res;

	(void)method("m", ",\"MaxTokenTTL\":\"5m\",\"TokenLocality\":\"global\"");
	(void)binding("{\"AuthMethod\":\"m\",\"BindType\":\"service\",\"BindName\":\"web\"}");
	global = login("m");
	ck_assert(!global.Local && global.Expires == k.now + 5 * MINUTE && global.ExpirationTTL == 0 && global.ExpirationTime.len > 0);
	/* An edit keeps what a login made. */
	q.Token.AccessorID = global.AccessorID;
	res = kit_apply(&k, OP_ACL_TOKEN_SET, &q);
	answered(&res, &acl_token_schema, &local);
	ck_assert(span_eqs(local.AuthMethod, "m") && local.Expires == global.Expires && local.ServiceIdentities.n == 0);
	q.Token.AuthMethod = span_str("x");
	kit_refused(&k, OP_ACL_TOKEN_SET, &q, TEXT("Cannot change AuthMethod of %s", str(global.AccessorID)));
	kit_refused(&k, OP_ACL_TOKEN_CLONE, &(struct acl_token_set){ .Source = global.AccessorID },
	    "Cannot clone a token created from an auth method");
	/* The method's locality of now says which tokens go with it. */
	(void)method("m", "");
	local = login("M");
	ck_assert(local.Local && local.Expires == 0);
	ck_assert_uint_eq(tokens_of("M"), 2);
	ck_assert_uint_eq(records(TBL_ACL_METHOD_TOKEN), 2);
	ck_assert(kit_bool(&k, OP_ACL_METHOD_DELETE, &(struct acl_name){ span_str("M") }));
	ck_assert(lives(&global) && !lives(&local));
	ck_assert_uint_eq(records(TBL_ACL_METHOD_TOKEN), 1);
	ck_assert_uint_eq(bindings_of(""), 0);
	ck_assert_uint_eq(records(TBL_ACL_METHOD_BINDING), 0);
	/* Time ends it as any other. */
	k.now += 6 * MINUTE;
	ck_assert(kit_bool(&k, OP_ACL_REAP, &(struct acl_reap){ 0 }));
	ck_assert_uint_eq(records(TBL_ACL_METHOD_TOKEN), 0);
	ck_assert_uint_eq(records(TBL_ACL_EXPIRY), 0);
}
END_TEST

/* With a method of many tokens and rules goes all that is its own, and nothing else. */
START_TEST(cascade)
{
	struct acl_token other, plain = { .AccessorID = SPAN_NONE };
	struct fsm_result res;
	struct acl_login made;
	const char *text;
	uint64_t index;

	(void)method("m", "");
	(void)method("mm", "");
	(void)binding("{\"AuthMethod\":\"mm\",\"BindType\":\"service\",\"BindName\":\"web\"}");
	for (unsigned i = 0; i < 100; i++)
		(void)binding("{\"AuthMethod\":\"m\",\"BindType\":\"service\",\"BindName\":\"web\"}");
	other = login("mm");
	res = kit_apply(&k, OP_ACL_TOKEN_SET, &(struct acl_token_set){ .Create = true });
	answered(&res, &acl_token_schema, &plain);
	ck_assert_int_eq(decided("m", CLAIMS, NULL, &made, &text), TV_OK);
	for (unsigned i = 0; i < 300; i++)
		ck_assert_int_eq(kit_apply(&k, OP_ACL_LOGIN, &made).err, TV_OK);
	ck_assert_uint_eq(tokens_of("m"), 300);
	index = k.ans.index;
	ck_assert(kit_bool(&k, OP_ACL_METHOD_DELETE, &(struct acl_name){ span_str("M") }));
	ck_assert_uint_eq(tokens_of("m"), 0);
	ck_assert_uint_gt(k.ans.index, index);
	ck_assert_uint_eq(bindings_of("m"), 0);
	ck_assert_uint_eq(bindings_of("mm"), 1);
	ck_assert(lives(&other) && lives(&plain));
	ck_assert_uint_eq(k.f->tally[FT_ACL_TOKENS], 3);	/* and the anonymous one */
	ck_assert_uint_eq(records(TBL_ACL_SECRET), 3);
	ck_assert_uint_eq(records(TBL_ACL_METHOD_TOKEN), 1);
	ck_assert_uint_eq(k.f->tally[FT_ACL_BINDINGS], 1);
}
END_TEST

static void
many_logins(const char *name, unsigned count)
{
	struct acl_login made;
	const char *text;

	ck_assert_int_eq(decided(name, CLAIMS, NULL, &made, &text), TV_OK);
	for (unsigned i = 0; i < count; i++)
		ck_assert_int_eq(kit_apply(&k, OP_ACL_LOGIN, &made).err, TV_OK);
}

static enum tv_err
resolved(const struct acl_token *t)
{
	struct fsm_acl out;

	return fsm_acl_resolve(k.f, t->SecretID, k.now, &k.a, &out);
}

static unsigned
listed_for_copies(void)
{
	struct acl_repl_page page = { .Count = 0 };
	struct rd in;

	(void)kit_read(&k, OP_ACL_REPL_LIST, &(struct acl_repl_ask){ .Kind = ACL_REPL_TOKENS }, NULL);
	ck_assert_int_eq(k.ans.err, TV_OK);
	in = rd_span_over(buf_span(&k.out));
	ck_assert_int_eq(schema_unpack(&acl_repl_page_schema, &in, &k.a, &page), TV_OK);
	return (unsigned)page.Count;
}

#define REMAIN(name_) "Tokens of the deleted auth method \"" name_ "\" are still being removed: try again in some seconds"

/* With a method of very many tokens one entry removes some of them, and makes all of them unknown; others remove the rest. */
START_TEST(bounded)
{
	enum { MANY = 2 * ACL_REAP_TOKENS_MAX + 100, GLOBAL = 40 };
	struct acl_token first, last, global, other, t;
	struct acl_token_set edit = { .Token = { .Description = span_str("u") } };
	uint8_t before[32], after[32];
	char path[128], why[256] = "";
	struct fsm_snapshot *s;
	uint64_t index, term, bytes, sum, mark;
	unsigned n = 0;
	struct fsm_result res;

	(void)method("mm", "");
	(void)binding("{\"AuthMethod\":\"mm\",\"BindType\":\"service\",\"BindName\":\"web\"}");
	other = login("mm");
	(void)method("m", ",\"TokenLocality\":\"global\"");
	(void)binding("{\"AuthMethod\":\"m\",\"BindType\":\"service\",\"BindName\":\"web\"}");
	global = login("m");
	many_logins("m", GLOBAL - 1);
	(void)method("m", ",\"TokenLocality\":\"local\"");
	first = login("m");
	many_logins("m", MANY - 2);
	last = login("m");
	ck_assert_uint_eq(k.f->tally[FT_ACL_TOKENS], MANY + GLOBAL + 2);
	ck_assert(resolved(&first) == TV_OK && resolved(&last) == TV_OK);
	ck_assert(!fsm_acl_reap_due(k.f, k.now));
	mark = fsm_acl_index(k.f);
	ck_assert(kit_bool(&k, OP_ACL_METHOD_DELETE, &(struct acl_name){ span_str("M") }));
	/* So many are gone, and nobody knows any of them; what is remembered of rights is asked for again. */
	ck_assert_uint_ge(k.f->tally[FT_ACL_TOKENS], MANY + GLOBAL + 2 - ACL_REAP_TOKENS_MAX);
	ck_assert_uint_lt(k.f->tally[FT_ACL_TOKENS], MANY + GLOBAL + 2);
	ck_assert_uint_gt(fsm_acl_index(k.f), mark);
	ck_assert_uint_eq(methods_named("m") + bindings_of("m"), 0);
	ck_assert(!lives(&first) && !lives(&last) && lives(&global) && lives(&other));
	ck_assert(resolved(&first) == TV_ENOENT && resolved(&last) == TV_ENOENT && resolved(&global) == TV_OK);
	ck_assert_uint_eq(tokens_of("m"), GLOBAL);
	ck_assert_uint_eq(kit_read(&k, OP_ACL_TOKEN_GET, &(struct acl_token_read){ last.AccessorID }, NULL), 0);
	for (unsigned i = 0; i < 2; i++) {
		edit.Token.AccessorID = i == 0 ? first.AccessorID : last.AccessorID;
		edit.Token.Local = true;
		kit_refused(&k, OP_ACL_TOKEN_SET, &edit, TEXT("Cannot find token \"%s\"", str(edit.Token.AccessorID)));
		kit_refused(&k, OP_ACL_LOGOUT, &(struct acl_logout){ .AccessorID = edit.Token.AccessorID }, "ACL not found");
		kit_refused(&k, OP_ACL_TOKEN_CLONE, &(struct acl_token_set){ .Source = edit.Token.AccessorID }, "ACL not found");
	}
	ck_assert_int_eq(fsm_acl_logout_look(k.f, last.SecretID, k.now, (char[37]){ 0 }), TV_ENOENT);
	/* Whose they would be. */
	method_refused(TEXT("\"Name\":\"M\",\"Type\":\"jwt\",%s", CONFIG(MAPPED)), REMAIN("M"));
	ck_assert(kit_bool(&k, OP_ACL_METHOD_DELETE, &(struct acl_name){ span_str("m") }));	/* is none */
	/* A copy of the state goes on with it. */
	snprintf(path, sizeof(path), "%s/snap", k.dir);
	ck_assert_int_eq(fsm_digest(k.f, before), TV_OK);
	ck_assert_int_eq(fsm_snapshot_begin(k.f, &s, &index, &term), TV_OK);
	ck_assert_int_eq(fsm_snapshot_write(s, path, &bytes, &sum), TV_OK);
	fsm_snapshot_end(s);
	for (unsigned pass = 0; pass < 2; pass++, n = 0) {
		for (; fsm_acl_reap_due(k.f, k.now); n++) {
			uint64_t had = k.f->tally[FT_ACL_TOKENS];

			ck_assert(!lives(&first) && !lives(&last));
			ck_assert(kit_bool(&k, OP_ACL_REAP, &(struct acl_reap){ 0 }));
			ck_assert_uint_ge(k.f->tally[FT_ACL_TOKENS] + ACL_REAP_TOKENS_MAX, had);
		}
		ck_assert_uint_eq(n, 2);
		ck_assert_uint_eq(k.f->tally[FT_ACL_TOKENS], GLOBAL + 2);
		ck_assert_uint_eq(records(TBL_ACL_TOKEN), GLOBAL + 2);
		ck_assert_uint_eq(records(TBL_ACL_SECRET), GLOBAL + 2);
		ck_assert_uint_eq(records(TBL_ACL_METHOD_TOKEN), GLOBAL + 1);
		ck_assert(lives(&global) && lives(&other));
		if (pass == 1)
			break;
		ck_assert_msg(fsm_restore(k.f, path, &index, &term, why, sizeof(why)) == TV_OK, "%s", why);
		ck_assert_int_eq(fsm_digest(k.f, after), TV_OK);
		ck_assert_mem_eq(before, after, sizeof(before));
		ck_assert(!lives(&last) && resolved(&last) == TV_ENOENT);
		kit_reopen(&k);
		k.f->opt.check_method = login_check_method;
		ck_assert(!lives(&last) && resolved(&last) == TV_ENOENT);
	}
	/* Another one of that name has none of them. */
	(void)method("m", "");
	(void)binding("{\"AuthMethod\":\"m\",\"BindType\":\"service\",\"BindName\":\"web\"}");
	ck_assert(!lives(&first) && !lives(&last));
	t = login("m");
	ck_assert(lives(&t));
	res = kit_apply(&k, OP_ACL_TOKEN_SET, &(struct acl_token_set){ .Create = true, .Token = { .SecretID = last.SecretID } });
	ck_assert_int_eq(res.err, TV_OK);	/* nothing of them stands in the way */
}
END_TEST

/* Global tokens of one that has ended are nothing that other datacenters would copy. */
START_TEST(bounded_and_copied)
{
	unsigned plain = listed_for_copies();
	struct acl_token t;

	(void)method("m", ",\"TokenLocality\":\"global\"");
	(void)binding("{\"AuthMethod\":\"m\",\"BindType\":\"service\",\"BindName\":\"web\"}");
	many_logins("m", ACL_REAP_TOKENS_MAX);
	t = login("m");
	ck_assert_uint_eq(listed_for_copies(), plain + ACL_REAP_TOKENS_MAX + 1);
	ck_assert(kit_bool(&k, OP_ACL_METHOD_DELETE, &(struct acl_name){ span_str("m") }));
	ck_assert_uint_eq(k.f->tally[FT_ACL_TOKENS], plain + 1);
	ck_assert_uint_eq(listed_for_copies(), plain);
	ck_assert(!lives(&t));
	ck_assert(kit_bool(&k, OP_ACL_REAP, &(struct acl_reap){ 0 }));
	ck_assert(!fsm_acl_reap_due(k.f, k.now));
	ck_assert_uint_eq(k.f->tally[FT_ACL_TOKENS], plain);
}
END_TEST

/* The names of those that have ended are few, so that their record stays small. */
START_TEST(bounded_at_once)
{
	for (unsigned i = 0; i <= ACL_ENDINGS_MAX; i++) {
		const char *name = TEXT("m%u", i);

		(void)method(name, "");
		(void)binding(TEXT("{\"AuthMethod\":\"%s\",\"BindType\":\"service\",\"BindName\":\"web\"}", name));
		many_logins(name, ACL_REAP_TOKENS_MAX + 1);
		if (i < ACL_ENDINGS_MAX) {
			ck_assert(kit_bool(&k, OP_ACL_METHOD_DELETE, &(struct acl_name){ span_str(name) }));
		} else {
			kit_refused(&k, OP_ACL_METHOD_DELETE, &(struct acl_name){ span_str(name) },
			    "Tokens of 16 deleted auth methods are still being removed: try again in some seconds");
			ck_assert_uint_eq(tokens_of(name), ACL_REAP_TOKENS_MAX + 1);
		}
		arena_reset(&k.a);
	}
	ck_assert_uint_eq(k.f->tally[FT_ACL_TOKENS], ACL_ENDINGS_MAX + ACL_REAP_TOKENS_MAX + 1 + 1);
	/* One entry ends all of them, since these are few. */
	ck_assert(kit_bool(&k, OP_ACL_REAP, &(struct acl_reap){ 0 }));
	ck_assert(!fsm_acl_reap_due(k.f, k.now));
	ck_assert(kit_bool(&k, OP_ACL_METHOD_DELETE, &(struct acl_name){ span_str("m16") }));
	ck_assert_uint_eq(tokens_of("m16"), 0);
}
END_TEST

START_TEST(logouts)
{
	struct acl_token t, plain = { .AccessorID = SPAN_NONE };
	struct fsm_result res = kit_apply(&k, OP_ACL_TOKEN_SET, &(struct acl_token_set){ .Create = true });
	char accessor[37];

	answered(&res, &acl_token_schema, &plain);
	(void)method("m", ",\"MaxTokenTTL\":\"5m\"");
	(void)binding("{\"AuthMethod\":\"m\",\"BindType\":\"service\",\"BindName\":\"web\"}");
	t = login("m");
	ck_assert_int_eq(fsm_acl_logout_look(k.f, t.SecretID, k.now, accessor), TV_OK);
	ck_assert(span_eqs(t.AccessorID, accessor));
	ck_assert_int_eq(fsm_acl_logout_look(k.f, t.SecretID, k.now + 5 * MINUTE, accessor), TV_ENOENT);
	ck_assert_int_eq(fsm_acl_logout_look(k.f, plain.SecretID, k.now, accessor), TV_EPERM);
	ck_assert_int_eq(fsm_acl_logout_look(k.f, span_str(ACL_ANONYMOUS_SECRET), k.now, accessor), TV_EPERM);
	ck_assert_int_eq(fsm_acl_logout_look(k.f, span_str(NO_UUID), k.now, accessor), TV_ENOENT);
	ck_assert_int_eq(fsm_acl_logout_look(k.f, SPAN_NONE, k.now, accessor), TV_ENOENT);
	kit_refused(&k, OP_ACL_LOGOUT, &(struct acl_logout){ .AccessorID = plain.AccessorID }, "Permission denied");
	ck_assert(kit_bool(&k, OP_ACL_LOGOUT, &(struct acl_logout){ .AccessorID = t.AccessorID }));
	ck_assert(!lives(&t) && lives(&plain));
	kit_refused(&k, OP_ACL_LOGOUT, &(struct acl_logout){ .AccessorID = t.AccessorID }, "ACL not found");
	ck_assert_int_eq(kit_apply(&k, OP_ACL_LOGOUT, &(struct acl_logout){ .AccessorID = t.AccessorID }).err, TV_EPERM);
	ck_assert_uint_eq(records(TBL_ACL_METHOD_TOKEN), 0);
	ck_assert_uint_eq(records(TBL_ACL_EXPIRY), 0);
}
END_TEST

/* Patterns that take long end a login, and nothing else. */
START_TEST(costly_selectors)
{
	struct buf claims = BUF_INIT(65536);

	(void)method("m", "");
	for (unsigned i = 0; i < 64; i++)
		(void)binding("{\"AuthMethod\":\"m\",\"Selector\":\"value.name matches \\\"(a*)*(a*)*(a*)*b\\\"\",\"BindType\":\"service\","
		    "\"BindName\":\"web\"}");
	buf_puts(&claims, "{" TIMES ",\"name\":\"");
	for (unsigned i = 0; i < 10000; i++)
		buf_u8(&claims, 'a');
	buf_puts(&claims, "\"}");
	login_refused("m", buf_cstr(&claims), TV_EINVAL, "the selectors of the binding rules take too long");
	login_refused("m", "{" TIMES ",\"name\":\"c\"}", TV_EPERM, "Permission denied");
	buf_done(&claims);
}
END_TEST

/* -- the state -- */

START_TEST(over_a_snapshot)
{
	uint8_t before[32], after[32];
	char path[128], why[256] = "";
	struct fsm_snapshot *s;
	struct acl_token t;
	uint64_t index, term, bytes, sum;

	(void)method("m", "");
	(void)binding("{\"AuthMethod\":\"m\",\"BindType\":\"service\",\"BindName\":\"web\"}");
	t = login("m");
	snprintf(path, sizeof(path), "%s/snap", k.dir);
	ck_assert_int_eq(fsm_digest(k.f, before), TV_OK);
	ck_assert_int_eq(fsm_snapshot_begin(k.f, &s, &index, &term), TV_OK);
	ck_assert_int_eq(fsm_snapshot_write(s, path, &bytes, &sum), TV_OK);
	fsm_snapshot_end(s);
	ck_assert(kit_bool(&k, OP_ACL_METHOD_DELETE, &(struct acl_name){ span_str("m") }));
	ck_assert_msg(fsm_restore(k.f, path, &index, &term, why, sizeof(why)) == TV_OK, "%s", why);
	ck_assert_int_eq(fsm_digest(k.f, after), TV_OK);
	ck_assert_mem_eq(before, after, sizeof(before));
	ck_assert(lives(&t));
	kit_reopen(&k);
	k.f->opt.check_method = login_check_method;
	(void)login("m");
	ck_assert_uint_eq(tokens_of("m"), 2);
	ck_assert_uint_eq(k.f->tally[FT_ACL_METHODS], 1);
	ck_assert_uint_eq(k.f->tally[FT_ACL_BINDINGS], 1);
}
END_TEST

START_TEST(sound_records)
{
	struct acl_method m = { .Name = span_str("m") }, endless = { .Name = span_str("m"), .MaxTokenTTL = -1 };
	struct acl_binding b = { .ID = span_str(U1), .AuthMethod = span_str("m") };
	const struct { enum tbl table; const char *id; const struct schema *s; const void *rec; enum tv_err err; } cases[] = {
		{ TBL_ACL_METHOD, "m", &acl_method_schema, &m, TV_OK },
		{ TBL_ACL_METHOD, "m", &acl_method_schema, &(struct acl_method){ .MaxTokenTTL = 0 }, TV_EFORMAT },
		{ TBL_ACL_METHOD, "m", &acl_method_schema, &endless, TV_EFORMAT },
		{ TBL_ACL_BINDING, U1, &acl_binding_schema, &b, TV_OK }, { TBL_ACL_BINDING, NO_UUID, &acl_binding_schema, &b, TV_EFORMAT },
		{ TBL_ACL_BINDING, U1, &acl_binding_schema, &(struct acl_binding){ .ID = span_str(U1) }, TV_EFORMAT },
	};
	struct buf val = BUF_INIT(65536);
	enum fsm_tally tally;
	struct tbl_scan s;
	struct tkey at;
	struct span key_, bytes;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TKEY(&at, cases[i].table, span_str(cases[i].id));
		buf_reset(&val);
		schema_pack(cases[i].s, cases[i].rec, &val);
		ck_assert_msg(record_check(span_of(at.b, at.len), buf_span(&val), &k.a, &tally) == cases[i].err, "case %zu", i);
	}
	buf_done(&val);
	/* And those that were written. */
	(void)method("m", "");
	(void)binding("{\"AuthMethod\":\"m\",\"BindType\":\"service\",\"BindName\":\"web\"}");
	(void)login("m");
	for (unsigned letter = 'a'; letter <= 'z'; letter++) {
		tkey_begin(&at, (enum tbl)letter);
		tbl_scan_begin(k.f, &s, &at);
		while (tbl_next(&s, &key_, &bytes))
			ck_assert_msg(record_check(key_, bytes, &k.a, &tally) == TV_OK, "%c", (char)letter);
		tbl_scan_end(&s);
	}
}
END_TEST

/* Of the record that access control holds: its largest, and as it was before it named methods that have ended. */
START_TEST(sound_states)
{
	static const char text[ACL_NAME_BYTES_MAX + 1], why[512];
	const struct span name = span_of(text, ACL_NAME_BYTES_MAX);
	uint8_t bytes[ACL_KEY_BYTES] = { 1 };
	struct acl_ending ends[ACL_ENDINGS_MAX + 1];
	struct acl_state st = { .Since = 1, .Key = { bytes, sizeof(bytes) }, .First = span_str(U1), .Source = name,
	    .ReplToken = { bytes, sizeof(bytes) }, .ReplTokens = UINT64_MAX, .ReplSuccess = INT64_MAX,
	    .ReplError = span_of(why, sizeof(why)), .Ending = { ends, ACL_ENDINGS_MAX, true } };
	struct buf val = BUF_INIT(65536);
	enum fsm_tally tally;
	struct tkey at;
	struct rd in;

	for (unsigned i = 0; i <= ACL_ENDINGS_MAX; i++)
		ends[i] = (struct acl_ending){ .Method = name, .Local = true, .After = span_str(U1) };
	tkey_begin(&at, TBL_ACL);
	schema_pack(&acl_state_schema, &st, &val);
	ck_assert_int_eq(record_check(span_of(at.b, at.len), buf_span(&val), &k.a, &tally), TV_OK);
	for (unsigned i = 0; i < 4; i++) {		/* nothing that makes no key, and not more of them */
		struct acl_ending was = ends[1];

		ends[1].Method.len = i == 0 ? 0 : name.len + (i == 1);
		ends[1].After.len -= i == 2;
		st.Ending.n += i == 3;
		buf_reset(&val);
		schema_pack(&acl_state_schema, &st, &val);
		ck_assert_msg(record_check(span_of(at.b, at.len), buf_span(&val), &k.a, &tally) == TV_EFORMAT, "%u", i);
		ends[1] = was;
	}
	buf_reset(&val);
	st.Ending.n = 0;
	schema_pack(&acl_state_schema, &st, &val);
	ck_assert_uint_eq(val.data[0], 0x90 | acl_state_schema.count);		/* an array; the last of it is an empty one */
	ck_assert_uint_eq(val.data[val.len - 1], 0x90);
	val.data[0]--;
	val.len--;
	ck_assert_int_eq(record_check(span_of(at.b, at.len), buf_span(&val), &k.a, &tally), TV_OK);
	in = rd_span_over(buf_span(&val));
	memset(&st, 0, sizeof(st));
	ck_assert(schema_unpack(&acl_state_schema, &in, &k.a, &st) == TV_OK && st.Ending.n == 0 && st.ReplTokens == UINT64_MAX);
	buf_done(&val);
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = { methods, bad_methods, bindings, bad_bindings, logins, entries, overtaken, lives_and_localities, cascade, bounded, bounded_and_copied, bounded_at_once,
	    logouts, costly_selectors, over_a_snapshot, sound_records, sound_states };
	Suite *s = suite_create("fsm_acl_auth");
	TCase *t = tcase_create("on"), *u = tcase_create("off");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_checked_fixture(u, setup_off, teardown);
	tcase_set_timeout(t, 60);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(t, tests[i]);
	tcase_add_test(u, off);
	suite_add_tcase(s, t);
	suite_add_tcase(s, u);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
