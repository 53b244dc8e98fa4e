/* See jwt.h. */
#include <gnutls/crypto.h>
#include <gnutls/x509.h>

#include "common/record/records.h"
#include "common/text/base64.h"
#include "common/text/json_text.h"
#include "raftd/login/jwt.h"

#define HEAD_BYTES_MAX 1024		/* of a head, decoded */
#define UNSIGNED "no known key successfully validated the token signature"
#define MALFORMED "error parsing token: "
#define EXPONENT_BYTES_MAX 4u		/* of an RSA key: a larger one makes each look at a signature slow */

/* -- algorithms -- */

static const struct algorithm {
	const char *name;
	gnutls_pk_algorithm_t key;
	gnutls_sign_algorithm_t sign;
	gnutls_ecc_curve_t curve;
	size_t half;			/* bytes of either number of an ECDSA signature */
} algorithms[] = {
	{ "RS256", GNUTLS_PK_RSA, GNUTLS_SIGN_RSA_SHA256, GNUTLS_ECC_CURVE_INVALID, 0 },
	{ "RS384", GNUTLS_PK_RSA, GNUTLS_SIGN_RSA_SHA384, GNUTLS_ECC_CURVE_INVALID, 0 },
	{ "RS512", GNUTLS_PK_RSA, GNUTLS_SIGN_RSA_SHA512, GNUTLS_ECC_CURVE_INVALID, 0 },
	{ "PS256", GNUTLS_PK_RSA, GNUTLS_SIGN_RSA_PSS_RSAE_SHA256, GNUTLS_ECC_CURVE_INVALID, 0 },
	{ "PS384", GNUTLS_PK_RSA, GNUTLS_SIGN_RSA_PSS_RSAE_SHA384, GNUTLS_ECC_CURVE_INVALID, 0 },
	{ "PS512", GNUTLS_PK_RSA, GNUTLS_SIGN_RSA_PSS_RSAE_SHA512, GNUTLS_ECC_CURVE_INVALID, 0 },
	{ "ES256", GNUTLS_PK_ECDSA, GNUTLS_SIGN_ECDSA_SHA256, GNUTLS_ECC_CURVE_SECP256R1, 32 },
	{ "ES384", GNUTLS_PK_ECDSA, GNUTLS_SIGN_ECDSA_SHA384, GNUTLS_ECC_CURVE_SECP384R1, 48 },
	{ "ES512", GNUTLS_PK_ECDSA, GNUTLS_SIGN_ECDSA_SHA512, GNUTLS_ECC_CURVE_SECP521R1, 66 },
	{ "EdDSA", GNUTLS_PK_EDDSA_ED25519, GNUTLS_SIGN_EDDSA_ED25519, GNUTLS_ECC_CURVE_INVALID, 0 },
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

static int
import_certificate(gnutls_pubkey_t pub, const gnutls_datum_t *pem)
{
	gnutls_x509_crt_t crt;
	int ret = gnutls_x509_crt_init(&crt);

	if (ret != 0)
		return ret;
	ret = gnutls_x509_crt_import(crt, pem, GNUTLS_X509_FMT_PEM);
	if (ret == 0)
		ret = gnutls_pubkey_import_x509(pub, crt, 0);
	gnutls_x509_crt_deinit(crt);
	return ret;
}

/* Of an RSA key. */
static bool
exponent_is_small(gnutls_pubkey_t pub)
{
	gnutls_datum_t n = { NULL, 0 }, e = { NULL, 0 };
	bool small = gnutls_pubkey_export_rsa_raw2(pub, &n, &e, 0) == 0;
	unsigned zeros = 0;

	while (small && zeros < e.size && e.data[zeros] == 0)
		zeros++;
	small = small && e.size > zeros && e.size - zeros <= EXPONENT_BYTES_MAX;
	gnutls_free(n.data);
	gnutls_free(e.data);
	return small;
}

/* What is taken of a key that could be read. */
static bool
examine(struct jwt_key *k, struct buf *why)
{
	unsigned bits = 0;
	int algorithm = gnutls_pubkey_get_pk_algorithm(k->pub, &bits);

	k->algorithm = algorithm < 0 ? GNUTLS_PK_UNKNOWN : (gnutls_pk_algorithm_t)algorithm;
	k->curve = GNUTLS_ECC_CURVE_INVALID;
	if (k->algorithm == GNUTLS_PK_RSA && (bits < JWT_RSA_BITS_MIN || bits > JWT_RSA_BITS_MAX)) {
		buf_printf(why, "RSA keys of %u to %u bits are taken, and this one has %u", JWT_RSA_BITS_MIN, JWT_RSA_BITS_MAX, bits);
		return false;
	}
	if (k->algorithm == GNUTLS_PK_RSA && !exponent_is_small(k->pub)) {
		buf_printf(why, "RSA keys whose exponent is longer than %u bytes are not taken", EXPONENT_BYTES_MAX);
		return false;
	}
	if (k->algorithm == GNUTLS_PK_ECDSA) {
		if (gnutls_pubkey_export_ecc_raw2(k->pub, &k->curve, NULL, NULL, 0) < 0)
			k->curve = GNUTLS_ECC_CURVE_INVALID;
		if (k->curve != GNUTLS_ECC_CURVE_SECP256R1 && k->curve != GNUTLS_ECC_CURVE_SECP384R1 &&
		    k->curve != GNUTLS_ECC_CURVE_SECP521R1) {
			buf_puts(why, "of elliptic curves P-256, P-384 and P-521 are taken, and Ed25519");
			return false;
		}
	}
	if (k->algorithm == GNUTLS_PK_RSA || k->algorithm == GNUTLS_PK_ECDSA || k->algorithm == GNUTLS_PK_EDDSA_ED25519)
		return true;
	buf_puts(why, "data does not contain any valid RSA, ECDSA, or ED25519 public keys");
	return false;
}

/* What came of reading it. */
static enum tv_err
settle(struct jwt_key *k, int ret, struct buf *why)
{
	if (ret == 0 && examine(k, why))
		return TV_OK;
	if (ret != 0 && ret != GNUTLS_E_MEMORY_ERROR)
		buf_puts(why, "data does not contain any valid RSA, ECDSA, or ED25519 public keys");
	jwt_key_free(k);
	return ret == GNUTLS_E_MEMORY_ERROR ? TV_ENOMEM : TV_EFORMAT;
}

static enum tv_err
begin_key(struct jwt_key *k)
{
	*k = (struct jwt_key){ .pub = NULL };
	if (gnutls_pubkey_init(&k->pub) == 0)
		return TV_OK;
	k->pub = NULL;
	return TV_ENOMEM;
}

static gnutls_datum_t
datum(struct span s)
{
	return (gnutls_datum_t){ (unsigned char *)(uintptr_t)s.p, (unsigned)s.len };
}

enum tv_err
jwt_key_parse(struct span pem, struct jwt_key *out, struct buf *why)
{
	gnutls_datum_t text = datum(pem);
	enum tv_err err = begin_key(out);
	int ret;

	if (err != TV_OK)
		return err;
	if (pem.len > JWT_KEY_BYTES_MAX) {
		buf_printf(why, "it is longer than %u bytes", JWT_KEY_BYTES_MAX);
		jwt_key_free(out);
		return TV_EFORMAT;
	}
	ret = pem.len == 0 ? GNUTLS_E_BASE64_UNEXPECTED_HEADER_ERROR : gnutls_pubkey_import(out->pub, &text, GNUTLS_X509_FMT_PEM);
	if (ret != 0 && pem.len > 0)
		ret = import_certificate(out->pub, &text);
	return settle(out, ret, why);
}

enum tv_err
jwt_key_from_der(struct span der, struct jwt_key *out, struct buf *why)
{
	gnutls_datum_t bytes = datum(der);
	enum tv_err err = begin_key(out);

	if (err != TV_OK)
		return err;
	return settle(out, der.len == 0 || der.len > JWT_KEY_BYTES_MAX ? GNUTLS_E_ASN1_DER_ERROR :
	    gnutls_pubkey_import(out->pub, &bytes, GNUTLS_X509_FMT_DER), why);
}

enum tv_err
jwt_key_from_rsa(struct span n, struct span e, struct jwt_key *out, struct buf *why)
{
	gnutls_datum_t modulus = datum(n), exponent = datum(e);
	enum tv_err err = begin_key(out);

	if (err != TV_OK)
		return err;
	return settle(out, n.len == 0 || e.len == 0 || n.len > JWT_KEY_BYTES_MAX || e.len > JWT_KEY_BYTES_MAX ?
	    GNUTLS_E_MPI_SCAN_FAILED : gnutls_pubkey_import_rsa_raw(out->pub, &modulus, &exponent), why);
}

enum tv_err
jwt_key_from_point(gnutls_ecc_curve_t curve, struct span x, struct span y, struct jwt_key *out, struct buf *why)
{
	gnutls_datum_t dx = datum(x), dy = datum(y);
	size_t bytes = (size_t)gnutls_ecc_curve_get_size(curve);
	bool flat = curve == GNUTLS_ECC_CURVE_ED25519;
	enum tv_err err = begin_key(out);

	if (err != TV_OK)
		return err;
	return settle(out, bytes == 0 || x.len != bytes || y.len != (flat ? 0 : bytes) ? GNUTLS_E_MPI_SCAN_FAILED :
	    gnutls_pubkey_import_ecc_raw(out->pub, curve, &dx, flat ? NULL : &dy), why);
}

void
jwt_key_free(struct jwt_key *k)
{
	if (k->pub != NULL)
		gnutls_pubkey_deinit(k->pub);
	k->pub = NULL;
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

static bool
signed_by(const struct jwt_key *k, const struct algorithm *how, struct span text, struct span signature)
{
	gnutls_datum_t data = { (unsigned char *)(uintptr_t)text.p, (unsigned)text.len };
	gnutls_datum_t sig = { (unsigned char *)(uintptr_t)signature.p, (unsigned)signature.len }, der = { NULL, 0 };
	bool good;

	if (k->algorithm != how->key || signature.len == 0 || (how->half > 0 && k->curve != how->curve))
		return false;
	if (how->half > 0) {
		const gnutls_datum_t r = { sig.data, (unsigned)how->half }, s = { sig.data + how->half, (unsigned)how->half };

		if (signature.len != 2 * how->half || gnutls_encode_rs_value(&der, &r, &s) != 0)
			return false;
		sig = der;
	}
	good = gnutls_pubkey_verify_data2(k->pub, how->sign, 0, &data, &sig) >= 0;
	gnutls_free(der.data);
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
