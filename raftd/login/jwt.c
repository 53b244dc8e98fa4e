/* See jwt.h. */
#include <gnutls/crypto.h>
#include <gnutls/x509.h>

#include "common/record/records.h"
#include "raftd/login/jwt.h"

#define HEAD_BYTES_MAX 1024		/* of a head, decoded */
#define UNSIGNED "no known key successfully validated the token signature"
#define NO_TOKEN "error parsing token: square/go-jose: "

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

bool
jwt_algorithm_known(struct span name)
{
	return find_algorithm(name) != NULL;
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

enum tv_err
jwt_key_parse(struct span pem, struct jwt_key *out, struct buf *why)
{
	gnutls_datum_t text = { (unsigned char *)(uintptr_t)pem.p, (unsigned)pem.len };
	int ret;

	*out = (struct jwt_key){ .pub = NULL };
	if (pem.len > JWT_KEY_BYTES_MAX) {
		buf_printf(why, "it is longer than %u bytes", JWT_KEY_BYTES_MAX);
		return TV_EFORMAT;
	}
	if (gnutls_pubkey_init(&out->pub) != 0) {
		out->pub = NULL;
		return TV_ENOMEM;
	}
	ret = pem.len == 0 ? GNUTLS_E_BASE64_UNEXPECTED_HEADER_ERROR : gnutls_pubkey_import(out->pub, &text, GNUTLS_X509_FMT_PEM);
	if (ret != 0 && pem.len > 0)
		ret = import_certificate(out->pub, &text);
	if (ret == GNUTLS_E_MEMORY_ERROR) {
		jwt_key_free(out);
		return TV_ENOMEM;
	}
	if (ret != 0)
		buf_puts(why, "data does not contain any valid RSA, ECDSA, or ED25519 public keys");
	if (ret == 0 && examine(out, why))
		return TV_OK;
	jwt_key_free(out);
	return TV_EFORMAT;
}

void
jwt_key_free(struct jwt_key *k)
{
	if (k->pub != NULL)
		gnutls_pubkey_deinit(k->pub);
	k->pub = NULL;
}

/* -- its parts -- */

static int
digit_of(uint8_t c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '-' ? 62 : c == '_' ? 63 : -1;
}

/* Base64url without padding (RFC 7515, appendix C); what stands for the same bytes in two ways is refused.  False: it is none. */
static bool
decode(struct span in, struct buf *out)
{
	uint32_t bits = 0;
	unsigned have = 0;

	for (size_t i = 0; i < in.len; i++) {
		int d = digit_of(in.p[i]);

		if (d < 0)
			return false;
		bits = bits << 6 | (uint32_t)d;
		have += 6;
		if (have >= 8) {
			have -= 8;
			buf_u8(out, (uint8_t)(bits >> have));
			bits &= (1u << have) - 1;
		}
	}
	return have < 6 && bits == 0 && !out->failed;
}

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

static unsigned
depth_of(struct span json)
{
	unsigned depth = 0, most = 0;
	bool text = false;

	for (size_t i = 0; i < json.len; i++) {
		uint8_t c = json.p[i];

		if (text && c == '\\')
			i++;
		else if (c == '"')
			text = !text;
		else if (!text && (c == '{' || c == '['))
			most = ++depth > most ? depth : most;
		else if (!text && (c == '}' || c == ']') && depth > 0)
			depth--;
	}
	return most;
}

/* An object and nothing behind it; NULL: it is none.  Numbers beyond 64 bits lose digits. */
static json_t *
object_of(struct span text)
{
	const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
	json_error_t why;
	json_t *v;

	if (text.len == 0 || depth_of(text) > JWT_DEPTH_MAX)
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

/* What the head says; NULL with *known: an algorithm that no key takes, or something that has to be understood and is not. */
static const struct algorithm *
read_head(struct span head, bool *known)
{
	json_t *v = object_of(head), *alg = json_object_get(v, "alg");
	const struct algorithm *how = NULL;

	*known = json_is_string(alg);
	if (*known && json_object_get(v, "crit") == NULL)
		how = find_algorithm(span_of((const uint8_t *)json_string_value(alg), json_string_length(alg)));
	json_decref(v);
	return how;
}

enum tv_err
jwt_verify(struct span token, const struct jwt_key *keys, unsigned count, json_t **claims, struct buf *why)
{
	struct buf head = BUF_INIT(HEAD_BYTES_MAX), body = BUF_INIT(ACL_BEARER_BYTES_MAX), sig = BUF_INIT(ACL_BEARER_BYTES_MAX);
	const struct algorithm *how;
	struct span parts[3];
	bool known = false, good = false;

	head.secret = body.secret = sig.secret = true;
	*claims = NULL;
	if (token.len > ACL_BEARER_BYTES_MAX)
		buf_printf(why, "error parsing token: it is longer than %u bytes", ACL_BEARER_BYTES_MAX);
	else if (!split(token, parts))
		buf_puts(why, NO_TOKEN "compact JWS format must have three parts");
	else if (!decode(parts[0], &head) || !decode(parts[1], &body) || !decode(parts[2], &sig))
		buf_puts(why, "error parsing token: its parts are no base64url");
	else if ((how = read_head(buf_span(&head), &known)) == NULL && !known)
		buf_puts(why, "error parsing token: its head is no JSON object that names an algorithm");
	else {
		struct span text = span_of(token.p, parts[0].len + 1 + parts[1].len);

		for (unsigned i = 0; i < count && how != NULL && !good; i++)
			good = signed_by(&keys[i], how, text, buf_span(&sig));
		if (good)
			*claims = object_of(buf_span(&body));
		if (*claims == NULL)
			buf_puts(why, UNSIGNED);
	}
	buf_done(&head);
	buf_done(&body);
	buf_done(&sig);
	return *claims != NULL ? TV_OK : TV_EINVAL;
}
