/* Auth methods: what their configuration says, signatures of bearer tokens, claims, and names made of them. */
#include <openssl/hmac.h>
#include <stdio.h>

#include "common/acl/bindname.h"
#include "raftd/login/claims.h"
#include "tests/unit/jwt_kit.h"

#define NOW 1700000000ll		/* seconds */
#define UNSIGNED "no known key successfully validated the token signature"
#define NO_KEY "error parsing public key JWTValidationPubKeys[0]: "
#define NOT_ONE "exactly one of 'JWTValidationPubKeys', 'JWKSURL', or 'OIDCDiscoveryURL' must be set for type \"jwt\""
#define DECODING "error decoding config: 1 error(s) decoding:\n\n* "

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

static const struct kind {
	const char *name;
	const char *key;
	unsigned bits;
	const char *sign;
	size_t half;
} kinds[] = {
	{ "RS256", "RSA", 2048, "SHA256", 0 }, { "RS384", "RSA", 2048, "SHA384", 0 }, { "RS512", "RSA", 2048, "SHA512", 0 },
	{ "PS256", "RSA", 2048, "PSS-SHA256", 0 }, { "PS384", "RSA", 2048, "PSS-SHA384", 0 }, { "PS512", "RSA", 2048, "PSS-SHA512", 0 },
	{ "ES256", "P-256", 0, "SHA256", 32 }, { "ES384", "P-384", 0, "SHA384", 48 }, { "ES512", "P-521", 0, "SHA512", 66 },
	{ "EdDSA", "ED25519", 0, "", 0 },
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))
#define ES256 6
#define IS_RSA(i_) (strcmp(kinds[i_].key, "RSA") == 0)

static struct jwt_key
public_of(EVP_PKEY *key)
{
	struct jwt_key out;

	ck_assert_msg(jwt_key_parse(jwt_kit_pem(key, &a), &out, &why) == TV_OK, "%s", buf_cstr(&why));
	return out;
}

static bool
verified(struct span token, const struct jwt_key *keys, unsigned n)
{
	json_t *claims;
	enum tv_err err;

	buf_reset(&why);
	err = jwt_verify(token, keys, n, &claims, &why);
	ck_assert(err == TV_OK ? json_is_object(claims) && why.len == 0 : err == TV_EINVAL && claims == NULL && why.len > 0);
	json_decref(claims);
	return err == TV_OK;
}

/* -- signatures -- */

/* Each algorithm takes its own key and no other: an RSA key is good for two families, which do not take each other's signatures. */
START_TEST(each_algorithm)
{
	EVP_PKEY *keys[KINDS];
	struct jwt_key pubs[KINDS];

	for (size_t i = 0; i < KINDS; i++) {
		keys[i] = i > 0 && IS_RSA(i) ? keys[0] : jwt_kit_key(kinds[i].key, kinds[i].bits);
		pubs[i] = public_of(keys[i]);
		ck_assert_uint_eq(jwt_algorithm_bit(span_str(kinds[i].name)), 1u << i);
	}
	for (size_t i = 0; i < KINDS; i++) {
		const char *head = TEXT("{\"alg\":\"%s\"}", kinds[i].name);
		struct span t = jwt_kit_token(keys[i], kinds[i].sign, kinds[i].half, head, "{\"a\":1}", &a);

		for (size_t j = 0; j < KINDS; j++) {
			bool own = i == j || (IS_RSA(i) && IS_RSA(j));
			struct span other;

			ck_assert_msg(verified(t, &pubs[j], 1) == own, "%s %s: %s", kinds[i].name, kinds[j].name, buf_cstr(&why));
			if (i == j)
				continue;
			/* The same signature under another name. */
			other = jwt_kit_token(keys[i], kinds[i].sign, kinds[i].half, TEXT("{\"alg\":\"%s\"}", kinds[j].name), "{}", &a);
			ck_assert_msg(!verified(other, pubs, KINDS), "%s as %s", kinds[i].name, kinds[j].name);
			ck_assert_str_eq(buf_cstr(&why), UNSIGNED);
		}
		ck_assert(verified(t, pubs, KINDS));
		ck_assert(!verified(t, pubs, 0));
	}
	for (size_t i = 0; i < KINDS; i++) {
		jwt_key_free(&pubs[i]);
		if (i == 0 || keys[i] != keys[0])
			EVP_PKEY_free(keys[i]);
	}
}
END_TEST

/* Neither no signature, nor one by a key that all know. */
START_TEST(no_secret_no_signature)
{
	EVP_PKEY *key = jwt_kit_key(kinds[ES256].key, kinds[ES256].bits);
	struct jwt_key pub = public_of(key);
	struct span pem = jwt_kit_pem(key, &a), t = jwt_kit_token(NULL, NULL, 0, "{\"alg\":\"none\"}", "{}", &a);
	struct buf keyed = BUF_INIT(4096);
	uint8_t mac[32];

	ck_assert(!verified(t, &pub, 1));
	ck_assert_str_eq(buf_cstr(&why), UNSIGNED);
	ck_assert(!verified(jwt_kit_token(NULL, NULL, 0, "{\"alg\":\"ES256\"}", "{}", &a), &pub, 1));
	jwt_kit_base64(span_str("{\"alg\":\"HS256\"}"), &keyed);
	buf_puts(&keyed, ".e30");
	ck_assert_ptr_nonnull(HMAC(EVP_sha256(), pem.p, (int)pem.len, keyed.data, keyed.len, mac, NULL));
	buf_u8(&keyed, '.');
	jwt_kit_base64(span_of(mac, sizeof(mac)), &keyed);
	ck_assert(!verified(buf_span(&keyed), &pub, 1));
	ck_assert_str_eq(buf_cstr(&why), UNSIGNED);
	buf_done(&keyed);
	jwt_key_free(&pub);
	EVP_PKEY_free(key);
}
END_TEST

/* No byte of it can be another one, no part longer or shorter. */
START_TEST(each_byte_counts)
{
	EVP_PKEY *key = jwt_kit_key(kinds[ES256].key, kinds[ES256].bits);
	struct jwt_key pub = public_of(key);
	struct span t = JWT_KIT_ES256(key, "{\"iat\":1,\"name\":\"web\"}", &a);
	char *copy = arena_cstr(&a, t);

	ck_assert(verified(t, &pub, 1));
	for (size_t i = 0; i < t.len; i++) {
		static const char others[] = "A_.=+ ";
		char was = copy[i];

		for (size_t j = 0; others[j] != '\0'; j++) {
			copy[i] = others[j];
			ck_assert_msg(others[j] == was || !verified(span_of(copy, t.len), &pub, 1), "byte %zu as %c", i, others[j]);
		}
		copy[i] = was;
		ck_assert(!verified(span_of(copy, i), &pub, 1));
	}
	ck_assert(!verified(span_str(TEXT("%sA", copy)), &pub, 1));
	ck_assert(!verified(span_str(TEXT("%s=", copy)), &pub, 1));
	ck_assert(!verified(span_str(TEXT("%s.", copy)), &pub, 1));
	ck_assert_str_eq(buf_cstr(&why), "error parsing token: square/go-jose: compact JWS format must have three parts");
	jwt_key_free(&pub);
	EVP_PKEY_free(key);
}
END_TEST

START_TEST(heads_and_bodies)
{
	static const struct { const char *head, *body; bool good; } cases[] = {
		{ "{\"alg\":\"ES256\"}", "{}", true }, { "{\"alg\":\"ES256\",\"kid\":\"x\",\"n\":{\"a\":[1]}}", " {\"a\":null} ", true },
		{ "{\"alg\":\"ES256\"}", "{\"big\":123456789012345678901234567890}", true },
		{ "{\"alg\":\"ES256\",\"crit\":[\"b64\"],\"b64\":false}", "{}", false }, { "{\"alg\":\"es256\"}", "{}", false },
		{ "{\"alg\":7}", "{}", false }, { "{}", "{}", false }, { "[]", "{}", false }, { "", "{}", false },
		{ "{\"alg\":\"ES256\"} x", "{}", false }, { "{\"alg\":\"none\",\"alg\":\"ES256\"}", "{}", false },
		{ "{\"alg\":\"ES256\"}", "[]", false }, { "{\"alg\":\"ES256\"}", "", false }, { "{\"alg\":\"ES256\"}", "{} {}", false },
		{ "{\"alg\":\"ES256\"}", "{\"a\":1,\"a\":2}", false }, { "{\"alg\":\"ES256\"}", "{\"a\":\"\xff\"}", false },
		{ "{\"alg\":\"ES256\"}", "{\"a\":1e999}", false },
	};
	EVP_PKEY *key = jwt_kit_key(kinds[ES256].key, kinds[ES256].bits);
	struct jwt_key pub = public_of(key);
	struct buf deep = BUF_INIT(1u << 20);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct span t = jwt_kit_token(key, kinds[ES256].sign, 32, cases[i].head, cases[i].body, &a);

		ck_assert_msg(verified(t, &pub, 1) == cases[i].good, "%s %s: %s", cases[i].head, cases[i].body, buf_cstr(&why));
	}
	for (unsigned depth = JWT_DEPTH_MAX - 1; depth <= 5000; depth += depth < JWT_DEPTH_MAX ? 1 : 4000) {
		buf_reset(&deep);
		buf_puts(&deep, "{\"a\":");
		for (unsigned i = 0; i < depth; i++)
			buf_u8(&deep, '[');
		for (unsigned i = 0; i < depth; i++)
			buf_u8(&deep, ']');
		buf_u8(&deep, '}');
		ck_assert_int_eq(verified(JWT_KIT_ES256(key, buf_cstr(&deep), &a), &pub, 1), depth < JWT_DEPTH_MAX);
	}
	buf_reset(&deep);
	buf_puts(&deep, "{\"a\":\"");
	while (deep.len < ACL_BEARER_BYTES_MAX)
		buf_puts(&deep, "xxxxxxxxxxxxxxxx");
	buf_puts(&deep, "\"}");
	ck_assert(!verified(JWT_KIT_ES256(key, buf_cstr(&deep), &a), &pub, 1));
	ck_assert_str_eq(buf_cstr(&why), "error parsing token: it is longer than 16384 bytes");
	buf_done(&deep);
	jwt_key_free(&pub);
	EVP_PKEY_free(key);
}
END_TEST

/* -- keys -- */

static void
key_refused(struct span pem, const char *text)
{
	struct jwt_key k;

	buf_reset(&why);
	ck_assert_int_eq(jwt_key_parse(pem, &k, &why), TV_EFORMAT);
	ck_assert_str_eq(buf_cstr(&why), text);
	ck_assert_ptr_null(k.pub);
}

START_TEST(keys)
{
	static const char none[] = "data does not contain any valid RSA, ECDSA, or ED25519 public keys";
	static const char curves[] = "of elliptic curves P-256, P-384 and P-521 are taken, and Ed25519";
	EVP_PKEY *small = jwt_kit_key("RSA", 1024), *good = jwt_kit_key("RSA", 2048);
	EVP_PKEY *p224 = jwt_kit_key("P-224", 0);
	EVP_PKEY *ed448 = jwt_kit_key("ED448", 0);
	X509 *crt = X509_new();
	BIO *mem = BIO_new(BIO_s_mem());
	char *pem;
	struct span t, text = jwt_kit_pem(good, &a);
	struct jwt_key k;

	key_refused(span_str(""), none);
	key_refused(span_str("abc"), none);
	key_refused(span_of(text.p, text.len / 2), none);
	key_refused(jwt_kit_pem(ed448, &a), none);
	key_refused(jwt_kit_pem(p224, &a), curves);
	key_refused(jwt_kit_pem(small, &a), "RSA keys of 2048 to 8192 bits are taken, and this one has 1024");
	key_refused(span_of(arena_alloc(&a, JWT_KEY_BYTES_MAX + 1), JWT_KEY_BYTES_MAX + 1), "it is longer than 16384 bytes");
	/* A certificate has a key, too. */
	ck_assert_int_eq(X509_set_version(crt, 2), 1);
	ck_assert_int_eq(ASN1_INTEGER_set(X509_get_serialNumber(crt), 1), 1);
	ck_assert(ASN1_TIME_set(X509_getm_notBefore(crt), 0) != NULL && ASN1_TIME_set(X509_getm_notAfter(crt), 1) != NULL);
	ck_assert_int_eq(X509_set_pubkey(crt, good), 1);
	ck_assert_int_gt(X509_sign(crt, good, EVP_sha256()), 0);
	ck_assert_int_eq(PEM_write_bio_X509(mem, crt), 1);
	long n = BIO_get_mem_data(mem, &pem);
	ck_assert(jwt_are_certificates(span_of((const uint8_t *)pem, (size_t)n)));
	ck_assert(!jwt_are_certificates(span_of((const uint8_t *)pem, (size_t)n - 40)) && !jwt_are_certificates(text));
	buf_reset(&why);
	ck_assert_msg(jwt_key_parse(span_of((const uint8_t *)pem, (size_t)n), &k, &why) == TV_OK, "%s", buf_cstr(&why));
	t = jwt_kit_token(good, "SHA256", 0, "{\"alg\":\"RS256\"}", "{}", &a);
	ck_assert(verified(t, &k, 1));
	jwt_key_free(&k);
	BIO_free(mem);
	X509_free(crt);
	EVP_PKEY_free(small);
	EVP_PKEY_free(good);
	EVP_PKEY_free(p224);
	EVP_PKEY_free(ed448);
}
END_TEST

/* -- configurations -- */

/* A public key of P-256, as JSON wants it. */
#define PEM "-----BEGIN PUBLIC KEY-----\\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEMdQColbQGJ6Mg1Ktm9bVFDpJh/4v\\n" \
	"ruuU7pbRcqNAOUv5s8vdawR/dbSP2K+7DlXPWzEswqQRpBhFV8TYaZU8tg==\\n-----END PUBLIC KEY-----\\n"
#define KEYS "\"JWTValidationPubKeys\":[\"" PEM "\"]"

static struct login_config
config(const char *json)
{
	struct login_config c;

	buf_reset(&why);
	ck_assert_msg(login_config_parse(span_str(json), &a, &c, &why) == TV_OK, "%s: %s", json, buf_cstr(&why));
	return c;
}

START_TEST(configurations)
{
	static const struct { const char *json, *text; } bad[] = {
		{ "", NOT_ONE }, { "null", NOT_ONE }, { "{}", NOT_ONE }, { "{\"JWTValidationPubKeys\":[]}", NOT_ONE },
		{ "{" KEYS ",\"JWKSURL\":\"x\"}", NOT_ONE }, { "{\"JWKSURL\":\"x\",\"OIDCDiscoveryURL\":\"x\"}", NOT_ONE },
		{ "{\"JWKSURL\":\"https://x/\",\"JWKSCACert\":\"c\"}",
		    "error checking JWKSCACert: could not parse CA PEM value successfully" },
		{ "{\"OIDCDiscoveryURL\":\"https://x/\",\"OIDCDiscoveryCACert\":\"-----BEGIN CERTIFICATE-----\\n\"}",
		    "error checking OIDCDiscoveryCACert: could not parse CA PEM value successfully" },
		{ "{\"OIDCDiscoveryURL\":\"https://x/\",\"JWKSCACert\":\"x\"}", "'JWKSCACert' should not be set unless 'JWKSURL' is set" },
		{ "{\"JWKSURL\":\"file:///etc/passwd\"}", "error checking JWKSURL: it begins with neither https:// nor http://" },
		{ "{\"JWKSURL\":\"https://\"}", "error checking JWKSURL: it begins with neither https:// nor http://" },
		{ "{\"OIDCDiscoveryURL\":\"http://x y/\"}", "error checking OIDCDiscoveryURL: it has spaces or control characters" },
		{ "{\"JWKSURL\":\"http://x/\\u0000\"}", "error checking JWKSURL: it has spaces or control characters" },
		{ "{\"JWKSURL\":\"https://me:pw@x/\"}", "error checking JWKSURL: it has a user in it" },
		{ "{" KEYS ",\"JWKSCACert\":\"x\"}", "'JWKSCACert' should not be set unless 'JWKSURL' is set" },
		{ "[]", "error decoding config: it is no object" },
		{ "{" KEYS ",\"Zoo\":1,\"Foo\":\"x\"}", DECODING "'' has invalid keys: Foo, Zoo" },
		{ "{" KEYS ",\"BoundIssuer\":1}", DECODING "'BoundIssuer' expected type 'string'" },
		{ "{" KEYS ",\"BoundAudiences\":[1]}", DECODING "'BoundAudiences' expected type 'string'" },
		{ "{" KEYS ",\"ClaimMappings\":[]}", DECODING "'ClaimMappings' expected a map" },
		{ "{" KEYS ",\"ClaimMappings\":{\"a\":1}}", DECODING "'ClaimMappings' expected type 'string'" },
		{ "{" KEYS ",\"ClockSkewLeeway\":\"5s\"}", DECODING "cannot parse 'ClockSkewLeeway' as int: it is no whole number" },
		{ "{" KEYS ",\"ExpirationLeeway\":1.5}", DECODING "cannot parse 'ExpirationLeeway' as int: it is no whole number" },
		{ "{" KEYS ",\"ClaimMappings\":{\"a\":\"x\",\"b\":\"x\"}}", "ClaimMappings contains multiple mappings for key \"x\"" },
		{ "{" KEYS ",\"ListClaimMappings\":{\"a\":\"x\",\"b\":\"x\"}}", "ListClaimMappings contains multiple mappings for key \"x\"" },
		{ "{" KEYS ",\"JWTSupportedAlgs\":[\"ES256\",\"HS256\"]}", "Invalid supported algorithm: HS256" },
		{ "{" KEYS ",\"JWTSupportedAlgs\":[\"none\"]}", "Invalid supported algorithm: none" },
		{ "{\"JWTValidationPubKeys\":\"abc\"}", NO_KEY "data does not contain any valid RSA, ECDSA, or ED25519 public keys" },
	};
	struct buf many = BUF_INIT(64u << 10);
	struct login_config c;
	struct acl_method m = { .Config = span_str("{" KEYS ",\"ClaimMappings\":{\"a\":\"x\",\"/b/0\":\"y\"}}") };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		buf_reset(&why);
		ck_assert_int_eq(login_config_parse(span_str(bad[i].json), &a, &c, &why), TV_EINVAL);
		ck_assert_str_eq(buf_cstr(&why), bad[i].text);
		ck_assert_uint_eq(c.key_count, 0);
	}
	c = config("{\"jwtvalidationpubkeys\":\"" PEM "\",\"BoundAudiences\":[\"p\",\"q\"],\"BoundIssuer\":\"i\","
	    "\"ClaimMappings\":{\"a\":\"x\"},\"ListClaimMappings\":{\"g\":\"x\"},\"ExpirationLeeway\":-1,\"NotBeforeLeeway\":7,"
	    "\"ClockSkewLeeway\":null,\"JWTSupportedAlgs\":[\"EdDSA\"]}");
	ck_assert_uint_eq(c.key_count, 1);
	ck_assert_uint_eq(c.audiences.n, 2);
	ck_assert(span_eqs(c.issuer, "i") && span_eqs(c.values.kv[0][0], "a") && span_eqs(c.lists.kv[0][1], "x"));
	ck_assert(c.expiration_leeway == -1 && c.not_before_leeway == 7 && c.clock_skew_leeway == 0);
	login_config_free(&c);
	for (unsigned n = LOGIN_KEYS_MAX; n <= LOGIN_KEYS_MAX + 1; n++) {
		buf_reset(&many);
		buf_puts(&many, "{\"JWTValidationPubKeys\":[");
		for (unsigned i = 0; i < n; i++)
			buf_puts(&many, i > 0 ? ",\"" PEM "\"" : "\"" PEM "\"");
		buf_puts(&many, "]}");
		buf_reset(&why);
		ck_assert_int_eq(login_config_parse(buf_span(&many), &a, &c, &why), n > LOGIN_KEYS_MAX ? TV_EINVAL : TV_OK);
		login_config_free(&c);
	}
	ck_assert_int_eq(login_check_method(&m, &a, &why), TV_OK);
	ck_assert_uint_eq(m.Values.n, 2);
	ck_assert(span_eqs(m.Values.v[1], "y"));
	buf_done(&many);
}
END_TEST

/* -- claims -- */

static json_t *
claims_of(const char *json)
{
	json_t *v = json_loads(json, 0, NULL);

	ck_assert_msg(v != NULL, "%s", json);
	return v;
}

static void
checked(const char *more, const char *claims, int64_t now, const char *text)
{
	struct login_config c = config(TEXT("{" KEYS "%s}", more));
	json_t *v = claims_of(claims);
	enum tv_err err;

	buf_reset(&why);
	err = claims_check(&c, v, now, &why);
	ck_assert_msg((err == TV_OK) == (text == NULL), "%s %s: %s", more, claims, buf_cstr(&why));
	if (text != NULL) {
		ck_assert_int_eq(err, TV_EINVAL);
		ck_assert_msg(strstr(buf_cstr(&why), text) != NULL, "%s %s: %s", more, claims, buf_cstr(&why));
	}
	json_decref(v);
	login_config_free(&c);
}

/* To the nanosecond, with and without leeways. */
START_TEST(times)
{
	const int64_t s = 1000000000, skew = 60 * s, own = 150 * s, t = NOW * s;
	static const char late[] = "token is expired (exp)", early[] = "token not valid yet (nbf)", future[] = "token issued in the future";
	static const char exp[] = "{\"exp\":1700000000}", nbf[] = "{\"nbf\":1700000000}", iat[] = "{\"iat\":1700000000}";
	static const char both[] = "{\"nbf\":1,\"exp\":1700000000}", start[] = "{\"nbf\":1700000000,\"exp\":1800000000}";
	static const char made[] = "{\"iat\":1700000000,\"nbf\":1,\"exp\":1800000000}";

	checked("", both, t + skew, NULL);
	checked("", both, t + skew + 1, late);
	checked("", start, t - skew, NULL);
	checked("", start, t - skew - 1, early);
	checked("", made, t - skew, NULL);
	checked("", made, t - skew - 1, future);
	checked(",\"ClockSkewLeeway\":-1", both, t, NULL);
	checked(",\"ClockSkewLeeway\":-1", both, t + 1, late);
	checked(",\"ClockSkewLeeway\":-1", start, t - 1, early);
	checked(",\"ClockSkewLeeway\":9223372036854775807", both, t + (1ll << 62), NULL);
	checked(",\"ClockSkewLeeway\":9223372036854775807", start, 0, NULL);
	/* Those that are missing. */
	checked("", exp, t - own - skew, NULL);
	checked("", exp, t - own - skew - 1, early);
	checked(",\"NotBeforeLeeway\":-1,\"ClockSkewLeeway\":-1", exp, t - 1, early);
	checked(",\"NotBeforeLeeway\":10000000000,\"ClockSkewLeeway\":-1", exp, t - 10 * s, NULL);
	checked(",\"NotBeforeLeeway\":10000000000,\"ClockSkewLeeway\":-1", exp, t - 10 * s - 1, early);
	checked("", nbf, t + own + skew, NULL);
	checked("", nbf, t + own + skew + 1, late);
	checked("", iat, t + own + skew, NULL);
	checked("", iat, t - skew - 1, early);
	checked(",\"ExpirationLeeway\":3000000000000000000", iat, INT64_MAX / 2, NULL);
	checked("", "{\"iat\":1600000000,\"nbf\":1700000000}", t + own + skew, NULL);
	checked("", "{\"sub\":\"u\"}", t, "no issue time, notbefore, or expiration time encoded in token");
	checked("", "{\"exp\":0,\"iat\":null}", t, "no issue time, notbefore, or expiration time encoded in token");
	checked("", "{\"exp\":\"1800000000\"}", t, "a time is no number of seconds");
	checked("", "{\"exp\":1e300}", t, "a time is no number of seconds");
	checked("", "{\"exp\":-1e17}", t, "a time is no number of seconds");
	checked("", "{\"iat\":1,\"exp\":1700000000.9}", t + skew + 1, late);
	checked("", "{\"iat\":1,\"exp\":9007199254740992}", INT64_MAX, NULL);
}
END_TEST

START_TEST(whose)
{
	static const char nobody[] = "aud claim does not match any bound audience";
#define IS(claims_) "{\"iat\":1,\"exp\":1800000000" claims_ "}"
	const int64_t t = NOW * 1000000000;

	checked(",\"BoundIssuer\":\"i\"", IS(",\"iss\":\"i\""), t, NULL);
	checked(",\"BoundIssuer\":\"i\"", IS(",\"iss\":\"I\""), t, "invalid issuer claim (iss)");
	checked(",\"BoundIssuer\":\"i\"", IS(",\"iss\":[\"i\"]"), t, "invalid issuer claim (iss)");
	checked(",\"BoundIssuer\":\"i\"", IS(""), t, "invalid issuer claim (iss)");
	checked("", IS(",\"iss\":7"), t, NULL);
	checked(",\"BoundAudiences\":[\"p\",\"q\"]", IS(",\"aud\":\"q\""), t, NULL);
	checked(",\"BoundAudiences\":[\"p\",\"q\"]", IS(",\"aud\":[\"x\",\"p\"]"), t, NULL);
	checked(",\"BoundAudiences\":[\"p\"]", IS(",\"aud\":[\"x\",1,null]"), t, nobody);
	checked(",\"BoundAudiences\":[\"p\"]", IS(""), t, nobody);
	checked(",\"BoundAudiences\":[\"\"]", IS(",\"aud\":[1]"), t, nobody);
	checked(",\"BoundAudiences\":[\"p\"]", IS(",\"aud\":{\"p\":1}"), t, "aud claim is neither a text nor a list");
	checked("", IS(",\"aud\":\"p\""), t, "audience claim found in JWT but no audiences are bound");
	checked("", IS(",\"aud\":[]"), t, NULL);
#undef IS
}
END_TEST

/* As JSON, or why not. */
static const char *
taken(const char *mappings, const char *claims)
{
	struct login_config c = config(TEXT("{" KEYS ",%s}", mappings));
	json_t *v = claims_of(claims);
	struct acl_claims out;
	struct buf b = BUF_INIT(64u << 10);
	const char *text;

	buf_reset(&why);
	if (claims_take(&c, v, &a, &out, &why) == TV_OK) {
		schema_json_rec(&acl_claims_schema, &out, &b);
		text = arena_cstr(&a, buf_span(&b));
	} else {
		text = arena_cstr(&a, buf_span(&why));
	}
	buf_done(&b);
	json_decref(v);
	login_config_free(&c);
	return text;
}

START_TEST(mappings)
{
#define VALUE(claim_) "\"ClaimMappings\":{\"" claim_ "\":\"x\"}"
#define LIST(claim_) "\"ListClaimMappings\":{\"" claim_ "\":\"x\"}"
	static const struct { const char *mappings, *claims, *want; } cases[] = {
		{ VALUE("a"), "{\"a\":\"t\",\"b\":1}", "{\"value\":{\"x\":\"t\"},\"list\":{}}" },
		{ VALUE("a"), "{\"a\":\"\"}", "{\"value\":{\"x\":\"\"},\"list\":{}}" },
		{ VALUE("a"), "{\"a\":null}", "{\"value\":{},\"list\":{}}" }, { VALUE("a"), "{}", "{\"value\":{},\"list\":{}}" },
		{ VALUE("a"), "{\"a\":7.9}", "{\"value\":{\"x\":\"7\"},\"list\":{}}" },
		{ VALUE("a"), "{\"a\":-7.9}", "{\"value\":{\"x\":\"-7\"},\"list\":{}}" },
		{ VALUE("a"), "{\"a\":9007199254740993}", "{\"value\":{\"x\":\"9007199254740993\"},\"list\":{}}" },
		{ VALUE("a"), "{\"a\":false}", "{\"value\":{\"x\":\"false\"},\"list\":{}}" },
		{ VALUE("a"), "{\"a\":{}}", "error converting claim 'a' to string from unknown type map[string]interface {}" },
		{ VALUE("a"), "{\"a\":[]}", "error converting claim 'a' to string from unknown type []interface {}" },
		{ VALUE("a"), "{\"a\":1e300}", "error converting claim 'a' to string from unknown type json.Number" },
		{ VALUE("/a/b"), "{\"a\":{\"b\":\"t\"},\"/a/b\":\"no\"}", "{\"value\":{\"x\":\"t\"},\"list\":{}}" },
		{ VALUE("/a/1/b"), "{\"a\":[0,{\"b\":\"t\"}]}", "{\"value\":{\"x\":\"t\"},\"list\":{}}" },
		{ VALUE("/a~1b/~0"), "{\"a/b\":{\"~\":\"t\"}}", "{\"value\":{\"x\":\"t\"},\"list\":{}}" },
		{ VALUE("/a/2"), "{\"a\":[0,1]}", "{\"value\":{},\"list\":{}}" }, { VALUE("/a/01"), "{\"a\":[0,1]}", "{\"value\":{},\"list\":{}}" },
		{ VALUE("/a/-1"), "{\"a\":[0,1]}", "{\"value\":{},\"list\":{}}" }, { VALUE("/a/b"), "{\"a\":\"t\"}", "{\"value\":{},\"list\":{}}" },
		{ VALUE("/"), "{\"\":\"t\"}", "{\"value\":{\"x\":\"t\"},\"list\":{}}" },
		{ LIST("a"), "{\"a\":[\"p\",1,true,\"\",2.5]}", "{\"value\":{},\"list\":{\"x\":{\"Items\":[\"p\",\"1\",\"true\",\"2\"]}}}" },
		{ LIST("a"), "{\"a\":\"p\"}", "{\"value\":{},\"list\":{\"x\":{\"Items\":[\"p\"]}}}" },
		{ LIST("a"), "{\"a\":3}", "{\"value\":{},\"list\":{\"x\":{\"Items\":[\"3\"]}}}" },
		{ LIST("a"), "{\"a\":[]}", "{\"value\":{},\"list\":{\"x\":{\"Items\":[]}}}" }, { LIST("a"), "{\"a\":null}", "{\"value\":{},\"list\":{}}" },
		{ LIST("a"), "{\"a\":{\"b\":1}}", "\"a\" list claim could not be converted to string list" },
		{ LIST("a"), "{\"a\":[[\"p\",1],2]}", "value [p 1] in \"a\" list claim could not be parsed as string" },
		{ LIST("a"), "{\"a\":[{\"k\":[null,false]}]}", "value map[k:[<nil> false]] in \"a\" list claim could not be parsed as string" },
		{ LIST("a"), "{\"a\":[null]}", "value <nil> in \"a\" list claim could not be parsed as string" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ck_assert_str_eq(taken(cases[i].mappings, cases[i].claims), cases[i].want);
#undef VALUE
#undef LIST
}
END_TEST

/* -- names -- */

static bool
some_value(void *ctx, struct span name, struct span *out)
{
	(void)ctx;
	*out = span_eqs(name, "none") ? SPAN_NONE : span_str("aB.C");
	return span_eqs(name, "x") || span_eqs(name, "none") || span_eqs(name, "a.b-c");
}

START_TEST(bind_names)
{
	static const struct { const char *text, *want; enum tv_err err; } cases[] = {
		{ "", "", TV_OK }, { "A-b", "A-b", TV_OK }, { "A-${value.x}-B", "A-ab.c-B", TV_OK }, { "${ value.a.b-c\t}", "ab.c", TV_OK },
		{ "<${value.none}>", "<>", TV_OK }, { "$${value.x} $ $$ }", "${value.x} $ $$ }", TV_OK },
		{ "${value.y}", "1:3: unknown variable accessed: value.y", TV_EFORMAT },
		{ "\nab${value.}", "2:5: unknown variable accessed: value.", TV_EFORMAT },
		{ "${value}", "1:3: unknown variable accessed: value", TV_EFORMAT },
		{ "${upper(value.x)}", "1:3: unknown function called: upper", TV_EFORMAT },
		{ "${value.x", "parse error at 1:10: expected \"}\" but found end of string", TV_EFORMAT },
		{ "${value.x + 1}", "parse error at 1:11: expected \"}\"", TV_EFORMAT },
		{ "${", "parse error at 1:3: expected expression but found end of string", TV_EFORMAT },
		{ "${}", "parse error at 1:3: expected expression", TV_EFORMAT },
		{ "${\"a\"}", "parse error at 1:3: expected expression", TV_EFORMAT },
		{ "12345678901234567890123456789012345678901${value.x}", "", TV_ELIMIT },
	};
	static const struct { const char *name; bool service, role; } names[] = {
		{ "web", true, true }, { "w-e_b1", true, true }, { "Web", false, true }, { "-web", false, true }, { "web_", false, true },
		{ "w b", false, false }, { "", false, false }, { "w.b", false, false }, { "9", true, true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf out = BUF_INIT(40);
		enum tv_err err;

		buf_reset(&why);
		err = bindname_fill(span_str(cases[i].text), some_value, NULL, &out, &why);
		ck_assert_msg(err == cases[i].err, "%s: %s", cases[i].text, buf_cstr(&why));
		if (err != TV_ELIMIT)
			ck_assert_str_eq(err == TV_OK ? buf_cstr(&out) : buf_cstr(&why), cases[i].want);
		buf_done(&out);
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		ck_assert_int_eq(bindname_valid(BIND_TYPE_SERVICE, span_str(names[i].name)), names[i].service);
		ck_assert_int_eq(bindname_valid(BIND_TYPE_NODE, span_str(names[i].name)), names[i].service);
		ck_assert_int_eq(bindname_valid(BIND_TYPE_ROLE, span_str(names[i].name)), names[i].role);
		ck_assert(!bindname_valid(BIND_TYPE_UNKNOWN, span_str(names[i].name)));
	}
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = { each_algorithm, no_secret_no_signature, each_byte_counts, heads_and_bodies, keys, configurations, times,
	    whose, mappings, bind_names };
	Suite *s = suite_create("jwt");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(t, tests[i]);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
