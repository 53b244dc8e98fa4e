/* What issuers publish, which of their keys are used, and when they are asked again. */
#include <stdio.h>

#include "common/net/msg.h"
#include "raftd/login/issuers.h"
#include "raftd/login/login.h"
#include "tests/unit/jwt_kit.h"

#define UNUSABLE "none of its keys can be used: "
#define NO_OBJECT "what it answers is no JSON object"

static struct arena a;
static struct buf why;

static void
setup(void)
{
	a = ARENA_INIT(64u << 20);
	why = BUF_INIT(64u << 10);
}

static void
teardown(void)
{
	arena_done(&a);
	buf_done(&why);
}

#define TEXT(...) arena_cstr(&a, arena_printf(&a, __VA_ARGS__))

static const char *
base64(const uint8_t *bytes, size_t n)
{
	struct buf b = BUF_INIT(4096);
	const char *out;

	jwt_kit_base64(span_of(bytes, n), &b);
	out = arena_cstr(&a, buf_span(&b));
	buf_done(&b);
	return out;
}

/* A number of the key, of so many bytes; 0: as many as it has. */
static const char *
number(EVP_PKEY *key, const char *name, size_t bytes)
{
	uint8_t fixed[1024];
	BIGNUM *n = NULL;

	ck_assert_int_eq(EVP_PKEY_get_bn_param(key, name, &n), 1);
	bytes = bytes == 0 ? (size_t)BN_num_bytes(n) : bytes;
	ck_assert_int_eq(BN_bn2binpad(n, fixed, (int)bytes), (int)bytes);
	BN_free(n);
	return base64(fixed, bytes);
}

static const char *
jwk_rsa(EVP_PKEY *key, const char *id, const char *more)
{
	return TEXT("{\"kty\":\"RSA\",\"kid\":\"%s\",\"n\":\"%s\",\"e\":\"%s\"%s}", id, number(key, OSSL_PKEY_PARAM_RSA_N, 0),
	    number(key, OSSL_PKEY_PARAM_RSA_E, 0), more);
}

/* A set of one key with this exponent. */
static const char *
jwk_exponent(EVP_PKEY *key, const char *e)
{
	const char *whole = TEXT("{\"keys\":[%s]}", jwk_rsa(key, "x", "")), *at = strstr(whole, "\"e\":\"") + 5;

	return TEXT("%.*s%s%s", (int)(at - whole), whole, e, strchr(at, '"'));
}

static const char *
jwk_point(EVP_PKEY *key, const char *id, const char *curve, size_t bytes)
{
	uint8_t x[32];
	size_t n = sizeof(x);

	if (!EVP_PKEY_is_a(key, "ED25519"))
		return TEXT("{\"kty\":\"EC\",\"kid\":\"%s\",\"crv\":\"%s\",\"x\":\"%s\",\"y\":\"%s\"}", id, curve,
		    number(key, OSSL_PKEY_PARAM_EC_PUB_X, bytes), number(key, OSSL_PKEY_PARAM_EC_PUB_Y, bytes));
	ck_assert_int_eq(EVP_PKEY_get_raw_public_key(key, x, &n), 1);
	return TEXT("{\"kty\":\"OKP\",\"kid\":\"%s\",\"crv\":\"%s\",\"x\":\"%s\"}", id, curve, base64(x, n));
}

static struct jwks
set_of(const char *json)
{
	struct jwks set;

	buf_reset(&why);
	ck_assert_msg(jwks_parse(span_str(json), &set, &why) == TV_OK, "%s: %s", json, buf_cstr(&why));
	return set;
}

static bool
good_by(const struct jwks *set, struct span token, bool *by_nobody)
{
	struct jwt_trust trust = { .keys = set->keys, .count = set->count, .by_id = true, .malformed = "m ", .unsigned_text = "u" };
	json_t *claims;
	enum tv_err err;

	buf_reset(&why);
	err = jwt_verify_by(token, &trust, &claims, by_nobody, &why);
	ck_assert(err == TV_OK || (err == TV_EINVAL && claims == NULL && why.len > 0));
	json_decref(claims);
	return err == TV_OK;
}

/* -- sets -- */

/* Each kind of key is read, is the same one after its way between processes, and is good by its name alone. */
START_TEST(kinds_of_keys)
{
	static const struct { const char *name, *curve, *key; unsigned bits; const char *sign; size_t half; } kinds[] = {
		{ "RS256", NULL, "RSA", 2048, "SHA256", 0 }, { "ES256", "P-256", "P-256", 0, "SHA256", 32 },
		{ "ES384", "P-384", "P-384", 0, "SHA384", 48 }, { "ES512", "P-521", "P-521", 0, "SHA512", 66 },
		{ "EdDSA", "Ed25519", "ED25519", 0, "", 0 },
	};
	enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
	EVP_PKEY *keys[KINDS];
	struct buf json = BUF_INIT(65536), packed = BUF_INIT(65536);
	struct msg_fetched sent = { .error = SPAN_NONE }, got = { .error = SPAN_NONE };
	struct jwks set, copy;
	bool nobody;

	buf_puts(&json, "{\"keys\":[");
	for (size_t i = 0; i < KINDS; i++) {
		keys[i] = jwt_kit_key(kinds[i].key, kinds[i].bits);
		buf_printf(&json, "%s%s", i > 0 ? "," : "", kinds[i].curve == NULL ? jwk_rsa(keys[i], kinds[i].name, "") :
		    jwk_point(keys[i], kinds[i].name, kinds[i].curve, kinds[i].half));
	}
	buf_puts(&json, "],\"more\":1}");
	set = set_of(buf_cstr(&json));
	set.algorithms = jwt_algorithm_bit(span_str("ES384"));
	ck_assert_uint_eq(set.count, KINDS);
	ck_assert_int_eq(jwks_put(&set, &a, &sent), TV_OK);
	schema_pack(&msg_fetched_schema, &sent, &packed);
	ck_assert_int_eq(msg_read(&msg_fetched_schema, buf_span(&packed), &a, &got), TV_OK);
	ck_assert_int_eq(jwks_take(&got, &copy, &why), TV_OK);
	ck_assert_uint_eq(copy.count, KINDS);
	ck_assert_uint_eq(copy.algorithms, set.algorithms);
	for (size_t i = 0; i < KINDS; i++) {
		const char *head = TEXT("{\"alg\":\"%s\",\"kid\":\"%s\"}", kinds[i].name, kinds[i].name);
		struct span t = jwt_kit_token(keys[i], kinds[i].sign, kinds[i].half, head, "{}", &a);

		ck_assert(good_by(&set, t, &nobody) && good_by(&copy, t, &nobody) && !nobody);
		ck_assert(span_eqs(copy.keys[i].id, kinds[i].name));
		/* Named otherwise it is nobody's; not named, anybody's. */
		head = TEXT("{\"alg\":\"%s\",\"kid\":\"%s\"}", kinds[i].name, kinds[(i + 1) % KINDS].name);
		ck_assert(!good_by(&copy, jwt_kit_token(keys[i], kinds[i].sign, kinds[i].half, head, "{}", &a), &nobody) && nobody);
		head = TEXT("{\"alg\":\"%s\"}", kinds[i].name);
		ck_assert(good_by(&copy, jwt_kit_token(keys[i], kinds[i].sign, kinds[i].half, head, "{}", &a), &nobody));
	}
	/* What no key could make good asks for none. */
	ck_assert(!good_by(&copy, span_str("eyJhbGciOiJub25lIn0.e30."), &nobody) && !nobody);
	ck_assert(!good_by(&copy, span_str("eyJhbGciOiJIUzI1NiJ9.e30.AAAA"), &nobody) && !nobody);
	ck_assert(!good_by(&copy, span_str("a.b"), &nobody) && !nobody);
	jwks_free(&set);
	jwks_free(&copy);
	for (size_t i = 0; i < KINDS; i++)
		EVP_PKEY_free(keys[i]);
	buf_done(&json);
	buf_done(&packed);
}
END_TEST

START_TEST(sets_that_are_refused)
{
	static const struct { const char *json, *text; } bad[] = {
		{ "", NO_OBJECT }, { "[]", NO_OBJECT }, { "{", NO_OBJECT }, { "{} x", NO_OBJECT }, { "{\"keys\":[],\"keys\":[]}", NO_OBJECT },
		{ "{}", "what it answers has no list of keys" }, { "{\"keys\":{}}", "what it answers has no list of keys" },
		{ "{\"keys\":[1]}", UNUSABLE "a key is no object" },
		{ "{\"keys\":[{}]}", UNUSABLE "of keys the types RSA, EC and OKP are taken" },
		{ "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"}]}", UNUSABLE "of keys the types RSA, EC and OKP are taken" },
		{ "{\"keys\":[{\"kty\":\"RSA\",\"use\":\"enc\"}]}", UNUSABLE "a key is not for signatures" },
		{ "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQAB\"}]}", UNUSABLE "n or e of an RSA key is missing, or no number of an RSA key" },
		{ "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"A=\",\"e\":\"AQAB\"}]}",
		    UNUSABLE "n or e of an RSA key is missing, or no number of an RSA key" },
		{ "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}]}",
		    UNUSABLE "RSA keys of 2048 to 8192 bits are taken, and this one has 17" },
		{ "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"secp256k1\",\"x\":\"AAAA\",\"y\":\"AAAA\"}]}",
		    UNUSABLE "of elliptic curves P-256, P-384 and P-521 are taken, and Ed25519" },
		{ "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"P-256\",\"x\":\"AAAA\",\"y\":\"AAAA\"}]}",
		    UNUSABLE "of elliptic curves P-256, P-384 and P-521 are taken, and Ed25519" },
		{ "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AAAA\"}]}",
		    UNUSABLE "x or y of an elliptic key is missing, or no number of such a key" },
		{ "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AAAA\",\"y\":\"AAAA\"}]}",
		    UNUSABLE "data does not contain any valid RSA, ECDSA, or ED25519 public keys" },
	};
	EVP_PKEY *key = jwt_kit_key("RSA", 2048);
	struct msg_fetched m = { .error = SPAN_NONE };
	struct msg_fetched_key many[JWKS_KEYS_MAX + 1] = { { .id = SPAN_NONE } };
	struct jwks set;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		buf_reset(&why);
		ck_assert_msg(jwks_parse(span_str(bad[i].json), &set, &why) == TV_EFORMAT, "%s", bad[i].json);
		ck_assert_str_eq(buf_cstr(&why), bad[i].text);
	}
	/* A long exponent, which would make each look slow. */
	ck_assert_int_eq(jwks_parse(span_str(jwk_exponent(key, "AQAAAAE")), &set, &why), TV_EFORMAT);
	set = set_of(jwk_exponent(key, "AAAAAAAAAAEAAQ"));
	jwks_free(&set);
	/* Long names, and short ones. */
	set = set_of(TEXT("{\"keys\":[%s]}", jwk_rsa(key, "x", ",\"use\":\"sig\",\"alg\":\"RS256\"")));
	ck_assert_uint_eq(set.count, 1);
	jwks_free(&set);
	ck_assert_int_eq(jwks_parse(span_str(TEXT("{\"keys\":[%s]}", jwk_rsa(key, TEXT("%0257d", 1), ""))), &set, &why), TV_EFORMAT);
	/* A set without keys is one: its issuer has none yet. */
	set = set_of("{\"keys\":[]}");
	ck_assert_uint_eq(set.count, 0);
	jwks_free(&set);
	/* Those that nothing is known of stand beside others. */
	set = set_of(TEXT("{\"keys\":[{\"kty\":\"oct\"},7,{\"kty\":\"RSA\",\"use\":\"enc\"},%s]}", jwk_rsa(key, "x", "")));
	ck_assert_uint_eq(set.count, 1);
	jwks_free(&set);
	/* What another process says is looked at again. */
	m.keys = (struct obj_list){ .v = many, .n = 1, .set = true };
	ck_assert_int_eq(jwks_take(&m, &set, &why), TV_EFORMAT);
	many[0].der = span_str("0");
	ck_assert_int_eq(jwks_take(&m, &set, &why), TV_EFORMAT);
	m.keys.n = JWKS_KEYS_MAX + 1;
	ck_assert_int_eq(jwks_take(&m, &set, &why), TV_EFORMAT);
	EVP_PKEY_free(key);
}
END_TEST

START_TEST(documents_of_issuers)
{
	static const struct { const char *json, *text; } bad[] = {
		{ "[]", NO_OBJECT },
		{ "{}", "oidc: issuer did not match the issuer returned by provider, expected \"https://i/\" got \"\"" },
		{ "{\"issuer\":\"https://i\",\"jwks_uri\":\"https://k/\"}",
		    "oidc: issuer did not match the issuer returned by provider, expected \"https://i/\" got \"https://i\"" },
		{ "{\"issuer\":\"https://i/\"}", "what it answers has no jwks_uri" },
		{ "{\"issuer\":\"https://i/\",\"jwks_uri\":\"file:///k\"}", "it begins with neither https:// nor http:// (jwks_uri)" },
	};
	uint32_t algorithms;
	struct span url;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		buf_reset(&why);
		ck_assert_int_eq(jwks_discovery(span_str(bad[i].json), span_str("https://i/"), &a, &url, &algorithms, &why), TV_EFORMAT);
		ck_assert_str_eq(buf_cstr(&why), bad[i].text);
	}
	ck_assert_int_eq(jwks_discovery(span_str("{\"issuer\":\"https://i/\",\"jwks_uri\":\"HTTPS://k/\","
	    "\"id_token_signing_alg_values_supported\":[\"ES256\",\"none\",1,\"RS256\"]}"), span_str("https://i/"), &a, &url,
	    &algorithms, &why), TV_OK);
	ck_assert(span_eqs(url, "HTTPS://k/"));
	ck_assert_uint_eq(algorithms, jwt_algorithm_bit(span_str("ES256")) | jwt_algorithm_bit(span_str("RS256")));
}
END_TEST

/* -- when they are asked -- */

static struct mono
at(int64_t seconds)
{
	return MONO_S(1000 + seconds);
}

static struct login_source
source(const char *url)
{
	return (struct login_source){ .url = span_str(url), .ca = span_str("") };
}

static void
fetched(struct issuer *i, int64_t seconds)
{
	struct jwks set = set_of("{\"keys\":[]}");

	ck_assert_int_eq(issuer_fetched(i, &set, at(seconds)), TV_OK);
}

START_TEST(when_issuers_are_asked)
{
	struct issuers *all = issuers_new();
	struct login_source s = source("https://i/");
	struct issuer *i = issuers_find(all, &s, at(0));
	struct key_set *first;

	/* Whoever comes first begins, the others wait. */
	ck_assert_int_eq(issuer_ask(i, ISSUER_ANY, 0, at(0)), ISSUER_FETCH);
	issuer_began(i, at(0));
	ck_assert_int_eq(issuer_ask(i, ISSUER_ANY, 0, at(0)), ISSUER_WAIT);
	ck_assert_int_eq(issuer_ask(i, ISSUER_NOW, 0, at(0)), ISSUER_WAIT);
	/* A failure counts for a moment, but not for who writes a method. */
	issuer_failed(i, "no");
	ck_assert_int_eq(issuer_ask(i, ISSUER_ANY, 0, at(4)), ISSUER_REFUSE);
	ck_assert_str_eq(issuer_why(i), "no");
	ck_assert_int_eq(issuer_ask(i, ISSUER_NOW, 0, at(4)), ISSUER_FETCH);
	ck_assert_int_eq(issuer_ask(i, ISSUER_ANY, 0, at(5)), ISSUER_FETCH);
	/* Keys are good for a while; newer ones are asked for once in a moment only. */
	issuer_began(i, at(5));
	fetched(i, 6);
	ck_assert_str_eq(issuer_why(i), "");
	first = key_set_ref(issuer_keys(i));
	ck_assert(login_source_same(&first->source, &s));
	ck_assert_int_eq(issuer_ask(i, ISSUER_ANY, 0, at(6)), ISSUER_HAVE);
	ck_assert_int_eq(issuer_ask(i, ISSUER_NEWER, first->serial, at(9)), ISSUER_REFUSE);
	ck_assert_int_eq(issuer_ask(i, ISSUER_NEWER, first->serial, at(10)), ISSUER_FETCH);
	issuer_began(i, at(10));
	ck_assert_int_eq(issuer_ask(i, ISSUER_NEWER, first->serial, at(10)), ISSUER_WAIT);
	ck_assert_int_eq(issuer_ask(i, ISSUER_ANY, 0, at(10)), ISSUER_HAVE);
	fetched(i, 11);
	ck_assert_int_eq(issuer_ask(i, ISSUER_NEWER, first->serial, at(11)), ISSUER_HAVE);
	ck_assert_int_eq(issuer_ask(i, ISSUER_NEWER, issuer_keys(i)->serial, at(11)), ISSUER_REFUSE);
	/* Old ones are asked for anew, and serve on for a while where nobody answers. */
	ck_assert_int_eq(issuer_ask(i, ISSUER_ANY, 0, at(310)), ISSUER_HAVE);
	ck_assert_int_eq(issuer_ask(i, ISSUER_ANY, 0, at(311)), ISSUER_FETCH);
	issuer_began(i, at(3000));
	issuer_failed(i, "gone");
	ck_assert(issuer_serves(i, at(3001)));
	ck_assert_int_eq(issuer_ask(i, ISSUER_ANY, 0, at(3001)), ISSUER_HAVE);
	issuer_began(i, at(3608));
	issuer_failed(i, "gone");
	ck_assert(issuer_serves(i, at(3610)) && !issuer_serves(i, at(3611)));
	ck_assert_int_eq(issuer_ask(i, ISSUER_ANY, 0, at(3611)), ISSUER_REFUSE);
	issuers_free(all);
	ck_assert_uint_eq(first->refs, 1);
	key_set_unref(first);
}
END_TEST

START_TEST(issuers_have_a_bound)
{
	struct issuers *all = issuers_new();
	struct issuer *held[ISSUERS_MAX];
	struct login_source s;
	char url[32];

	for (unsigned i = 0; i < ISSUERS_MAX; i++) {
		snprintf(url, sizeof(url), "https://i/%u", i);
		s = source(url);
		held[i] = issuers_find(all, &s, at(0));
		issuer_hold(held[i]);
		ck_assert_ptr_eq(issuers_find(all, &s, at(0)), held[i]);
	}
	ck_assert_uint_eq(issuers_count(all), ISSUERS_MAX);
	/* The same URL by other means is another one; there is no place for it while all are in use. */
	s = source("https://i/0");
	s.discovery = true;
	ck_assert_ptr_null(issuers_find(all, &s, at(0)));
	s = source("https://i/0");
	s.ca = span_str("ca");
	ck_assert_ptr_null(issuers_find(all, &s, at(0)));
	issuer_release(held[1]);
	issuer_began(held[2], at(0));
	issuer_release(held[2]);
	ck_assert_uint_eq(issuer_held(held[1]), 0);
	ck_assert_ptr_nonnull(issuers_find(all, &s, at(0)));
	ck_assert_uint_eq(issuers_count(all), ISSUERS_MAX);
	s = source("https://i/2");		/* somebody is at work on it */
	ck_assert_ptr_eq(issuers_find(all, &s, at(0)), held[2]);
	issuers_free(all);
}
END_TEST

/* -- logins by them -- */

/* A login that lacks keys says which; what no key could make good asks for none. */
START_TEST(what_a_login_needs)
{
	EVP_PKEY *key = jwt_kit_key("P-256", 0), *other = jwt_kit_key("P-256", 0);
	struct acl_binding rule = { .BindType = span_str("service"), .BindName = span_str("web") };
	struct fsm_login_view view = { .method = { .Name = span_str("m"), .CreateIndex = 1 }, .rules = &rule, .rule_count = 1 };
	struct key_set set = { .source = source("https://i/"), .serial = 7 };
	struct login_ask ask = { .datacenter = "dc1", .now = 1700000000ll * 1000000000 };
	struct login_need need;
	struct acl_login made;

	set.jwks = set_of(TEXT("{\"keys\":[%s]}", jwk_point(key, "k", "P-256", 32)));
	view.method.Config = span_str("{\"JWKSURL\":\"https://i/\"}");
	ask.bearer = span_str("a.b");
	buf_reset(&why);
	ck_assert_int_eq(login_decide(&ask, &view, &a, &made, &need, &why), TV_EINVAL);
	ask.bearer = JWT_KIT_ES256(key, "{\"exp\":1700000100}", &a);
	buf_reset(&why);
	ck_assert_int_eq(login_decide(&ask, &view, &a, &made, &need, &why), TV_EAGAIN);
	ck_assert(span_eqs(need.source.url, "https://i/") && !need.source.discovery && need.after == 0);
	buf_reset(&why);
	ask.keys = &set;
	ck_assert_int_eq(login_decide(&ask, &view, &a, &made, &need, &why), TV_OK);
	/* Keys of somebody else are none. */
	view.method.Config = span_str("{\"JWKSURL\":\"https://i/2\"}");
	ck_assert_int_eq(login_decide(&ask, &view, &a, &made, &need, &why), TV_EAGAIN);
	ck_assert(span_eqs(need.source.url, "https://i/2") && need.after == 0);
	/* Newer ones could be good. */
	view.method.Config = span_str("{\"JWKSURL\":\"https://i/\"}");
	ask.bearer = JWT_KIT_ES256(other, "{\"exp\":1700000100}", &a);
	buf_reset(&why);
	ck_assert_int_eq(login_decide(&ask, &view, &a, &made, &need, &why), TV_EAGAIN);
	ck_assert_uint_eq(need.after, 7);
	ck_assert_str_eq(buf_cstr(&why), "error verifying token: failed to verify id token signature");
	jwks_free(&set.jwks);
	EVP_PKEY_free(key);
	EVP_PKEY_free(other);
}
END_TEST

/* ID tokens: the issuer is that of the method, and they say until when they are good. */
START_TEST(id_tokens)
{
#define AT "error validating signature: oidc: "
	static const struct { const char *claims, *text; } rows[] = {
		{ "\"iss\":\"https://i/\",\"exp\":1700000000", NULL },
		{ "\"iss\":\"https://i/\",\"exp\":1700000000,\"nbf\":1700000060,\"aud\":\"x\"", NULL },
		{ "\"exp\":1700000000", AT "id token issued by a different provider, expected \"https://i/\" got \"\"" },
		{ "\"iss\":\"https://i\",\"exp\":1700000000",
		    AT "id token issued by a different provider, expected \"https://i/\" got \"https://i\"" },
		{ "\"iss\":\"https://i/\"", AT "token is expired (Token Expiry: 0001-01-01 00:00:00 +0000 UTC)" },
		{ "\"iss\":\"https://i/\",\"exp\":1699999999", AT "token is expired (Token Expiry: 2023-11-14 22:13:19 +0000 UTC)" },
		{ "\"iss\":\"https://i/\",\"exp\":1700000001,\"nbf\":1700000061",
		    AT "current time 2023-11-14 22:13:20 +0000 UTC before the nbf (not before) time: 2023-11-14 22:14:21 +0000 UTC" },
		{ "\"iss\":\"https://i/\",\"exp\":\"x\"", AT "a time is no number of seconds" },
	};
	EVP_PKEY *key = jwt_kit_key("P-256", 0);
	struct acl_binding rule = { .BindType = span_str("service"), .BindName = span_str("web") };
	struct fsm_login_view view = { .method = { .Name = span_str("m"), .CreateIndex = 1 }, .rules = &rule, .rule_count = 1 };
	struct key_set set = { .source = { .discovery = true, .url = span_str("https://i/"), .ca = span_str("") }, .serial = 1 };
	struct login_ask ask = { .datacenter = "dc1", .now = 1700000000ll * 1000000000, .keys = &set };
	struct login_need need;
	struct acl_login made;

	set.jwks = set_of(TEXT("{\"keys\":[%s]}", jwk_point(key, "k", "P-256", 32)));
	set.jwks.algorithms = jwt_algorithm_bit(span_str("ES256"));
	view.method.Config = span_str("{\"OIDCDiscoveryURL\":\"https://i/\"}");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum tv_err err;

		ask.bearer = JWT_KIT_ES256(key, TEXT("{%s}", rows[i].claims), &a);
		buf_reset(&why);
		err = login_decide(&ask, &view, &a, &made, &need, &why);
		ck_assert_str_eq(buf_cstr(&why), rows[i].text == NULL ? "" : rows[i].text);
		ck_assert_int_eq(err, rows[i].text == NULL ? TV_OK : TV_EINVAL);
	}
	/* Of who says nothing RS256 is taken, and nothing else. */
	set.jwks.algorithms = 0;
	ask.bearer = JWT_KIT_ES256(key, "{\"iss\":\"https://i/\",\"exp\":1700000100}", &a);
	buf_reset(&why);
	ck_assert_int_eq(login_decide(&ask, &view, &a, &made, &need, &why), TV_EINVAL);
	ck_assert_str_eq(buf_cstr(&why), AT "id token signed with unsupported algorithm, expected [\"RS256\"] got \"ES256\"");
	/* What the method says counts before what the issuer says. */
	view.method.Config = span_str("{\"OIDCDiscoveryURL\":\"https://i/\",\"JWTSupportedAlgs\":[\"ES256\"]}");
	ck_assert_int_eq(login_decide(&ask, &view, &a, &made, &need, &why), TV_OK);
	jwks_free(&set.jwks);
	EVP_PKEY_free(key);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("jwks");
	TCase *tc = tcase_create("all");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, kinds_of_keys);
	tcase_add_test(tc, sets_that_are_refused);
	tcase_add_test(tc, documents_of_issuers);
	tcase_add_test(tc, when_issuers_are_asked);
	tcase_add_test(tc, issuers_have_a_bound);
	tcase_add_test(tc, what_a_login_needs);
	tcase_add_test(tc, id_tokens);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
