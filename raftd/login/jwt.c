/* See jwt.h. */
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <limits.h>
#include <string.h>

#include "common/record/records.h"
#include "common/text/base64.h"
#include "common/text/json_text.h"
#include "raftd/login/jwt.h"

#define HEAD_BYTES_MAX 1024		/* of a head, decoded */
#define UNSIGNED "no known key successfully validated the token signature"
#define MALFORMED "error parsing token: "
#define NO_KEY "data does not contain any valid RSA, ECDSA, or ED25519 public keys"
#define COORDINATE_BYTES_MAX 66u	/* of a point of P-521 */
#define EXPONENT_BYTES_MAX 4u		/* of an RSA key: a larger one makes each look at a signature slow */

/* -- algorithms -- */

static const struct algorithm {
	const char *name;
	enum jwt_kind key;
	const char *digest;		/* NULL: the signature has one of its own */
	bool pss;			/* of RSA: RSASSA-PSS, whose salt is as long as the digest */
	size_t half;			/* bytes of either number of an ECDSA signature */
} algorithms[] = {
	{ "RS256", JWT_RSA, "SHA256", false, 0 }, { "RS384", JWT_RSA, "SHA384", false, 0 },
	{ "RS512", JWT_RSA, "SHA512", false, 0 }, { "PS256", JWT_RSA, "SHA256", true, 0 },
	{ "PS384", JWT_RSA, "SHA384", true, 0 }, { "PS512", JWT_RSA, "SHA512", true, 0 },
	{ "ES256", JWT_P256, "SHA256", false, 32 }, { "ES384", JWT_P384, "SHA384", false, 48 },
	{ "ES512", JWT_P521, "SHA512", false, 66 }, { "EdDSA", JWT_ED25519, NULL, false, 0 },
};

static const struct algorithm *
find_algorithm(struct span name)
{
	for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++)
		if (span_eqs(name, algorithms[i].name))
			return &algorithms[i];
	return NULL;
}

static uint32_t
bit_of(const struct algorithm *a)
{
	return 1u << (a - algorithms);
}

uint32_t
jwt_algorithm_bit(struct span name)
{
	const struct algorithm *a = find_algorithm(name);

	return a == NULL ? 0 : bit_of(a);
}

/* -- keys -- */

static const struct { enum jwt_kind kind; const char *name; size_t bytes; } curves[] = {
	{ JWT_P256, "prime256v1", 32 }, { JWT_P384, "secp384r1", 48 }, { JWT_P521, "secp521r1", 66 },
};

bool
jwt_begin(void)
{
	return OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) == 1;
}

/* Of an RSA key. */
static bool
exponent_is_small(const EVP_PKEY *pub)
{
	BIGNUM *e = NULL;
	bool small = EVP_PKEY_get_bn_param(pub, OSSL_PKEY_PARAM_RSA_E, &e) == 1 && !BN_is_zero(e) &&
	    (unsigned)BN_num_bytes(e) <= EXPONENT_BYTES_MAX;

	BN_free(e);
	return small;
}

static enum jwt_kind
kind_of(const EVP_PKEY *pub)
{
	char name[64] = "";

	if (EVP_PKEY_is_a(pub, "RSA"))
		return JWT_RSA;
	if (EVP_PKEY_is_a(pub, "ED25519"))
		return JWT_ED25519;
	if (EVP_PKEY_get_group_name(pub, name, sizeof(name), NULL) == 1)
		for (size_t i = 0; i < sizeof(curves) / sizeof(curves[0]); i++)
			if (strcmp(name, curves[i].name) == 0)
				return curves[i].kind;
	return JWT_UNKNOWN;
}

/* Of a curve: it is on it. */
static bool
is_point(EVP_PKEY *pub)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(pub, NULL);
	bool good = ctx != NULL && EVP_PKEY_public_check_quick(ctx) == 1;

	EVP_PKEY_CTX_free(ctx);
	return good;
}

/* What is taken of a key that could be read. */
static bool
examine(struct jwt_key *k, struct buf *why)
{
	unsigned bits = (unsigned)EVP_PKEY_get_bits(k->pub);

	k->kind = kind_of(k->pub);
	if (k->kind == JWT_RSA && (bits < JWT_RSA_BITS_MIN || bits > JWT_RSA_BITS_MAX)) {
		buf_printf(why, "RSA keys of %u to %u bits are taken, and this one has %u", JWT_RSA_BITS_MIN, JWT_RSA_BITS_MAX, bits);
		return false;
	}
	if (k->kind == JWT_RSA && !exponent_is_small(k->pub)) {
		buf_printf(why, "RSA keys whose exponent is longer than %u bytes are not taken", EXPONENT_BYTES_MAX);
		return false;
	}
	if (k->kind == JWT_UNKNOWN && EVP_PKEY_is_a(k->pub, "EC")) {
		buf_puts(why, "of elliptic curves P-256, P-384 and P-521 are taken, and Ed25519");
		return false;
	}
	if (k->kind == JWT_RSA || k->kind == JWT_ED25519 || (k->kind != JWT_UNKNOWN && is_point(k->pub)))
		return true;
	buf_puts(why, NO_KEY);
	return false;
}

/* What came of reading it: out->pub, or NULL. */
static enum tv_err
settle(struct jwt_key *k, struct buf *why)
{
	bool no_memory = k->pub == NULL && ERR_GET_REASON(ERR_peek_error()) == ERR_R_MALLOC_FAILURE;
	bool good = k->pub != NULL && examine(k, why);

	if (k->pub == NULL && !no_memory)
		buf_puts(why, NO_KEY);
	ERR_clear_error();
	if (good)
		return TV_OK;
	jwt_key_free(k);
	return no_memory ? TV_ENOMEM : TV_EFORMAT;
}

/* A SubjectPublicKeyInfo, and nothing behind it. */
static EVP_PKEY *
key_of_der(const uint8_t *der, size_t len)
{
	const unsigned char *at = der;
	EVP_PKEY *pub = d2i_PUBKEY(NULL, &at, (long)len);

	if (pub == NULL || at == der + len)
		return pub;
	EVP_PKEY_free(pub);
	return NULL;
}

static EVP_PKEY *
key_of_certificate(const uint8_t *der, size_t len)
{
	const unsigned char *at = der;
	X509 *cert = d2i_X509(NULL, &at, (long)len);
	EVP_PKEY *pub = cert == NULL ? NULL : X509_get_pubkey(cert);

	X509_free(cert);
	return pub;
}

/* Of the first block that is a public key, or else of the first that is a certificate.  Encrypted ones are none. */
static EVP_PKEY *
key_of_pem(struct span pem, const char *wanted)
{
	BIO *in = BIO_new_mem_buf(pem.p, (int)pem.len);
	char *name = NULL, *header = NULL;
	uint8_t *der = NULL;
	EVP_PKEY *pub = NULL;
	bool met = false;
	long len;

	while (in != NULL && !met && PEM_read_bio(in, &name, &header, &der, &len) == 1) {
		if ((met = strcmp(name, wanted) == 0 && header[0] == '\0'))
			pub = strcmp(wanted, PEM_STRING_PUBLIC) == 0 ? key_of_der(der, (size_t)len) :
			    key_of_certificate(der, (size_t)len);
		OPENSSL_free(name);
		OPENSSL_free(header);
		OPENSSL_free(der);
	}
	BIO_free(in);
	return pub;
}

enum tv_err
jwt_key_parse(struct span pem, struct jwt_key *out, struct buf *why)
{
	*out = (struct jwt_key){ .pub = NULL };
	if (pem.len > JWT_KEY_BYTES_MAX) {
		buf_printf(why, "it is longer than %u bytes", JWT_KEY_BYTES_MAX);
		return TV_EFORMAT;
	}
	if (pem.len > 0 && (out->pub = key_of_pem(pem, PEM_STRING_PUBLIC)) == NULL)
		out->pub = key_of_pem(pem, PEM_STRING_X509);
	return settle(out, why);
}

enum tv_err
jwt_key_from_der(struct span der, struct jwt_key *out, struct buf *why)
{
	*out = (struct jwt_key){ .pub = NULL };
	if (der.len > 0 && der.len <= JWT_KEY_BYTES_MAX)
		out->pub = key_of_der(der.p, der.len);
	return settle(out, why);
}

/* Takes params. */
static EVP_PKEY *
key_of_params(const char *type, OSSL_PARAM *params)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
	EVP_PKEY *pub = NULL;

	if (ctx == NULL || params == NULL || EVP_PKEY_fromdata_init(ctx) != 1 ||
	    EVP_PKEY_fromdata(ctx, &pub, EVP_PKEY_PUBLIC_KEY, params) != 1)
		pub = NULL;
	EVP_PKEY_CTX_free(ctx);
	OSSL_PARAM_free(params);
	return pub;
}

enum tv_err
jwt_key_from_rsa(struct span n, struct span e, struct jwt_key *out, struct buf *why)
{
	*out = (struct jwt_key){ .pub = NULL };
	if (n.len == 0 || e.len == 0 || n.len > JWT_KEY_BYTES_MAX || e.len > JWT_KEY_BYTES_MAX)
		return settle(out, why);
	OSSL_PARAM_BLD *b = OSSL_PARAM_BLD_new();
	BIGNUM *modulus = BN_bin2bn(n.p, (int)n.len, NULL), *exponent = BN_bin2bn(e.p, (int)e.len, NULL);
	bool set = b != NULL && modulus != NULL && exponent != NULL &&
	    OSSL_PARAM_BLD_push_BN(b, OSSL_PKEY_PARAM_RSA_N, modulus) == 1 &&
	    OSSL_PARAM_BLD_push_BN(b, OSSL_PKEY_PARAM_RSA_E, exponent) == 1;

	if (set)
		out->pub = key_of_params("RSA", OSSL_PARAM_BLD_to_param(b));
	OSSL_PARAM_BLD_free(b);
	BN_free(modulus);
	BN_free(exponent);
	return settle(out, why);
}

static EVP_PKEY *
key_of_point(const char *curve, struct span x, struct span y)
{
	OSSL_PARAM_BLD *b = OSSL_PARAM_BLD_new();
	uint8_t point[1 + 2 * COORDINATE_BYTES_MAX] = { POINT_CONVERSION_UNCOMPRESSED };
	EVP_PKEY *pub = NULL;

	memcpy(point + 1, x.p, x.len);
	memcpy(point + 1 + x.len, y.p, y.len);
	if (b != NULL && OSSL_PARAM_BLD_push_utf8_string(b, OSSL_PKEY_PARAM_GROUP_NAME, curve, 0) == 1 &&
	    OSSL_PARAM_BLD_push_octet_string(b, OSSL_PKEY_PARAM_PUB_KEY, point, 1 + x.len + y.len) == 1)
		pub = key_of_params("EC", OSSL_PARAM_BLD_to_param(b));
	OSSL_PARAM_BLD_free(b);
	return pub;
}

enum tv_err
jwt_key_from_point(enum jwt_kind curve, struct span x, struct span y, struct jwt_key *out, struct buf *why)
{
	*out = (struct jwt_key){ .pub = NULL };
	if (curve == JWT_ED25519 && x.len == 32 && y.len == 0)
		out->pub = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, x.p, x.len);
	for (size_t i = 0; i < sizeof(curves) / sizeof(curves[0]); i++)
		if (curves[i].kind == curve && x.len == curves[i].bytes && y.len == curves[i].bytes)
			out->pub = key_of_point(curves[i].name, x, y);
	return settle(out, why);
}

enum tv_err
jwt_key_to_der(const struct jwt_key *k, struct arena *a, struct span *out)
{
	unsigned char *der = NULL;
	int n = i2d_PUBKEY(k->pub, &der);

	*out = n > 0 ? arena_copy(a, span_of(der, (size_t)n)) : SPAN_NONE;
	OPENSSL_free(der);
	ERR_clear_error();
	return out->p != NULL ? TV_OK : TV_ENOMEM;
}

void
jwt_key_free(struct jwt_key *k)
{
	EVP_PKEY_free(k->pub);
	k->pub = NULL;
}

static int
no_password(char *dst UNUSED, int cap UNUSED, int writing UNUSED, void *ctx UNUSED)
{
	return -1;
}

bool
jwt_are_certificates(struct span pem)
{
	BIO *in = pem.len > 0 && pem.len <= INT_MAX ? BIO_new_mem_buf(pem.p, (int)pem.len) : NULL;
	unsigned count = 0;
	X509 *one;

	while (in != NULL && (one = PEM_read_bio_X509(in, NULL, no_password, NULL)) != NULL) {
		X509_free(one);
		count++;
	}
	bool good = count > 0 && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
	BIO_free(in);
	ERR_clear_error();
	return good;
}

/* -- its parts -- */

static bool
split(struct span token, struct span parts[3])
{
	unsigned n = 0;
	size_t start = 0;

	for (size_t i = 0; i <= token.len && token.len > 0; i++) {
		if (i < token.len && token.p[i] != '.')
			continue;
		if (n == 3)
			return false;
		parts[n++] = span_of(token.p + start, i - start);
		start = i + 1;
	}
	return n == 3;
}

/* Numbers beyond 64 bits lose digits. */
json_t *
jwt_object(struct span text)
{
	const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
	json_error_t why;
	json_t *v;

	if (text.len == 0 || json_depth(text) > JWT_DEPTH_MAX)
		return NULL;
	v = json_loadb((const char *)text.p, text.len, flags, &why);
	if (v == NULL && json_error_code(&why) == json_error_numeric_overflow)
		v = json_loadb((const char *)text.p, text.len, flags | JSON_DECODE_INT_AS_REAL, &why);
	if (v == NULL || json_is_object(v))
		return v;
	json_decref(v);
	return NULL;
}

/* -- signatures -- */

/* Both numbers of an ECDSA signature, as X.509 has them; the caller frees.  0: no memory. */
static int
ecdsa_der(struct span signature, size_t half, unsigned char **der)
{
	ECDSA_SIG *both = ECDSA_SIG_new();
	BIGNUM *r = BN_bin2bn(signature.p, (int)half, NULL), *s = BN_bin2bn(signature.p + half, (int)half, NULL);
	int n = 0;

	if (both != NULL && r != NULL && s != NULL && ECDSA_SIG_set0(both, r, s) == 1) {
		r = s = NULL;
		n = i2d_ECDSA_SIG(both, der);
	}
	BN_free(r);
	BN_free(s);
	ECDSA_SIG_free(both);
	return n > 0 ? n : 0;
}

static bool
is_signature(const struct jwt_key *k, const struct algorithm *how, struct span text, struct span signature)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	EVP_PKEY_CTX *ctx;		/* of md */
	bool good = md != NULL && EVP_DigestVerifyInit_ex(md, &ctx, how->digest, NULL, NULL, k->pub, NULL) == 1 &&
	    (!how->pss || (EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING) == 1 &&
	    EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST) == 1)) &&
	    EVP_DigestVerify(md, signature.p, signature.len, text.p, text.len) == 1;

	EVP_MD_CTX_free(md);
	return good;
}

static bool
signed_by(const struct jwt_key *k, const struct algorithm *how, struct span text, struct span signature)
{
	unsigned char *der = NULL;
	bool good;

	if (k->kind != how->key || signature.len == 0 || (how->half > 0 && signature.len != 2 * how->half))
		return false;
	if (how->half > 0) {
		size_t len = (size_t)ecdsa_der(signature, how->half, &der);

		signature = span_of(der, len);
	}
	good = (how->half == 0 || der != NULL) && is_signature(k, how, text, signature);
	OPENSSL_free(der);
	ERR_clear_error();
	return good;
}

struct head {
	json_t *all;			/* owned */
	struct span name, id;		/* of the algorithm and the key; in `all` */
	const struct algorithm *how;	/* NULL: one that no key takes, or something has to be understood and is not */
};

static struct span
text_of(json_t *v)
{
	return json_is_string(v) ? span_of((const uint8_t *)json_string_value(v), json_string_length(v)) : SPAN_NONE;
}

/* False: it is none that names an algorithm. */
static bool
read_head(struct span text, struct head *h)
{
	h->all = jwt_object(text);
	h->name = text_of(json_object_get(h->all, "alg"));
	h->id = text_of(json_object_get(h->all, "kid"));
	h->how = json_object_get(h->all, "crit") == NULL ? find_algorithm(h->name) : NULL;
	return json_is_string(json_object_get(h->all, "alg"));
}

/* As Go prints a list of texts. */
static void
refuse_algorithm(uint32_t taken, struct span got, struct buf *why)
{
	bool first = true;

	buf_puts(why, "error validating signature: oidc: id token signed with unsupported algorithm, expected [");
	for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++)
		if (taken & bit_of(&algorithms[i])) {
			buf_printf(why, "%s\"%s\"", first ? "" : " ", algorithms[i].name);
			first = false;
		}
	buf_puts(why, "] got ");
	text_quote(span_of(got.p, got.len > 64 ? 64 : got.len), why);
}

/* Who has signed it, of those who may have. */
static bool
signed_by_any(const struct jwt_trust *trust, const struct head *h, struct span text, struct span signature)
{
	for (unsigned i = 0; i < trust->count && h->how != NULL; i++) {
		const struct jwt_key *k = &trust->keys[i];

		if (trust->by_id && h->id.len > 0 && !span_eq(h->id, k->id))
			continue;
		if (signed_by(k, h->how, text, signature))
			return true;
	}
	return false;
}

enum tv_err
jwt_verify_by(struct span token, const struct jwt_trust *trust, json_t **claims, bool *by_nobody, struct buf *why)
{
	struct buf head = BUF_INIT(HEAD_BYTES_MAX), body = BUF_INIT(ACL_BEARER_BYTES_MAX), sig = BUF_INIT(ACL_BEARER_BYTES_MAX);
	struct head h = { .all = NULL };
	struct span parts[3];

	head.secret = body.secret = sig.secret = true;
	*claims = NULL;
	*by_nobody = false;
	if (token.len > ACL_BEARER_BYTES_MAX) {
		buf_printf(why, "%sit is longer than %u bytes", trust->malformed, ACL_BEARER_BYTES_MAX);
	} else if (!split(token, parts)) {
		buf_printf(why, "%ssquare/go-jose: compact JWS format must have three parts", trust->malformed);
	} else if (!base64url_decode(parts[0], &head) || !base64url_decode(parts[1], &body) || !base64url_decode(parts[2], &sig)) {
		buf_printf(why, "%sits parts are no base64url", trust->malformed);
	} else if (!read_head(buf_span(&head), &h)) {
		buf_printf(why, "%sits head is no JSON object that names an algorithm", trust->malformed);
	} else if (trust->algorithms != 0 && (h.how == NULL || (trust->algorithms & bit_of(h.how)) == 0)) {
		refuse_algorithm(trust->algorithms, h.name, why);
	} else {
		if (signed_by_any(trust, &h, span_of(token.p, parts[0].len + 1 + parts[1].len), buf_span(&sig)))
			*claims = jwt_object(buf_span(&body));
		else
			*by_nobody = h.how != NULL;
		if (*claims == NULL)
			buf_puts(why, trust->unsigned_text);
	}
	json_decref(h.all);
	buf_done(&head);
	buf_done(&body);
	buf_done(&sig);
	return *claims != NULL ? TV_OK : TV_EINVAL;
}

enum tv_err
jwt_verify(struct span token, const struct jwt_key *keys, unsigned count, json_t **claims, struct buf *why)
{
	const struct jwt_trust trust = { .keys = keys, .count = count, .malformed = MALFORMED, .unsigned_text = UNSIGNED };
	bool by_nobody;

	return jwt_verify_by(token, &trust, claims, &by_nobody, why);
}
