/*
 * JSON Web Tokens in the compact form (RFC 7515, 7519), signed by one of some public keys.  By OpenSSL's libcrypto; pure otherwise.
 *
 * What strangers send is read here, so: the length is bounded, nothing is decoded before the three parts are there, no JSON is
 * looked at but a short head before the signature is known to be good, and the key decides what algorithms there can be: an
 * RSA key takes no ES256, and nothing takes `none` or a keyed hash.
 */
#ifndef TV_RAFTD_LOGIN_JWT_H
#define TV_RAFTD_LOGIN_JWT_H

#include <jansson.h>

#include "common/base/arena.h"
#include "common/base/buf.h"

#define JWT_DEPTH_MAX 32u		/* of arrays and objects in claims */
#define JWT_KEY_BYTES_MAX (16u << 10)	/* of PEM */
#define JWT_RSA_BITS_MIN 2048u
#define JWT_RSA_BITS_MAX 8192u

enum jwt_kind { JWT_UNKNOWN, JWT_RSA, JWT_P256, JWT_P384, JWT_P521, JWT_ED25519 };

struct evp_pkey_st;

struct jwt_key {
	struct evp_pkey_st *pub;	/* owned: OpenSSL's EVP_PKEY */
	enum jwt_kind kind;
	struct span id;			/* borrowed; empty: it has none */
};

/* What a token is looked at with. */
struct jwt_trust {
	const struct jwt_key *keys;
	unsigned count;
	bool by_id;			/* a token that names a key is good by keys of that name only */
	uint32_t algorithms;		/* jwt_algorithm_bit() of those that are taken; 0: all */
	const char *malformed;		/* what a sentence about a token that is none begins with */
	const char *unsigned_text;	/* the sentence when no key has signed it */
};

/*
 * Starts the library, before the walls of a process stand: it would read its configuration, and does not (why:
 * doc/decisions/common.md).  False: no memory.
 */
bool jwt_begin(void);
/* From PEM: a public key (SubjectPublicKeyInfo) or a certificate.  TV_EFORMAT with a sentence; TV_ENOMEM. */
enum tv_err jwt_key_parse(struct span pem, struct jwt_key *out, struct buf *why);
/* The same from DER, a SubjectPublicKeyInfo. */
enum tv_err jwt_key_from_der(struct span der, struct jwt_key *out, struct buf *why);
/* The same from the numbers of an RSA key, and from a point of a curve (Ed25519: y is empty); big endian. */
enum tv_err jwt_key_from_rsa(struct span n, struct span e, struct jwt_key *out, struct buf *why);
enum tv_err jwt_key_from_point(enum jwt_kind curve, struct span x, struct span y, struct jwt_key *out, struct buf *why);
/* The other way: a SubjectPublicKeyInfo in a.  TV_ENOMEM. */
enum tv_err jwt_key_to_der(const struct jwt_key *k, struct arena *a, struct span *out);
void jwt_key_free(struct jwt_key *k);
/* PEM with certificates, at least one, and each can be read. */
bool jwt_are_certificates(struct span pem);
/* One bit of its own for each algorithm that JWTSupportedAlgs may name; 0: none. */
uint32_t jwt_algorithm_bit(struct span name);
/* A JSON object and nothing behind it, of at most JWT_DEPTH_MAX levels, in which no name stands twice.  NULL: it is none. */
json_t *jwt_object(struct span text);
/*
 * The claims, an object that the caller owns.  TV_EINVAL with a sentence as the API shows it: it is none, or no key has signed
 * it; TV_ENOMEM.
 */
enum tv_err jwt_verify(struct span token, const struct jwt_key *keys, unsigned count, json_t **claims, struct buf *why);
/* The same by other rules.  *by_nobody, with TV_EINVAL: it is well-formed, and one more key could make it good. */
enum tv_err jwt_verify_by(struct span token, const struct jwt_trust *trust, json_t **claims, bool *by_nobody, struct buf *why);

#endif
