/*
 * JSON Web Tokens in the compact form (RFC 7515, 7519), signed by one of some public keys.  With GnuTLS; pure otherwise.
 *
 * What strangers send is read here, so: the length is bounded, nothing is decoded before the three parts are there, no JSON is
 * looked at but a short head before the signature is known to be good, and the key decides what algorithms there can be: an
 * RSA key takes no ES256, and nothing takes `none` or a keyed hash.
 */
#ifndef TV_RAFTD_LOGIN_JWT_H
#define TV_RAFTD_LOGIN_JWT_H

#include <gnutls/abstract.h>
#include <jansson.h>

#include "common/base/buf.h"

#define JWT_DEPTH_MAX 32u		/* of arrays and objects in claims */
#define JWT_KEY_BYTES_MAX (16u << 10)	/* of PEM */
#define JWT_RSA_BITS_MIN 2048u
#define JWT_RSA_BITS_MAX 8192u

struct jwt_key {
	gnutls_pubkey_t pub;		/* owned */
	gnutls_pk_algorithm_t algorithm;
	gnutls_ecc_curve_t curve;	/* of GNUTLS_PK_ECDSA */
};

/* From PEM: a public key (SubjectPublicKeyInfo) or a certificate.  TV_EFORMAT with a sentence; TV_ENOMEM. */
enum tv_err jwt_key_parse(struct span pem, struct jwt_key *out, struct buf *why);
void jwt_key_free(struct jwt_key *k);
/* May JWTSupportedAlgs name it? */
bool jwt_algorithm_known(struct span name);
/*
 * The claims, an object that the caller owns.  TV_EINVAL with a sentence as the API shows it: it is none, or no key has signed
 * it; TV_ENOMEM.
 */
enum tv_err jwt_verify(struct span token, const struct jwt_key *keys, unsigned count, json_t **claims, struct buf *why);

#endif
