/*
 * A certificate and its private key, read from their files, and signatures by it.  In rpcd-keys alone; OpenSSL's own
 * configuration is not read.  Memory that held a private key is wiped, and locked as far as the system allows.
 */
#ifndef TV_RPCD_KEYS_PAIR_H
#define TV_RPCD_KEYS_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "rpcd/keys/keys.h"

#define PAIR_SUBJECT_BYTES 256

struct evp_pkey_st;		/* EVP_PKEY */

struct pair_paths {		/* borrowed; NULL: none */
	const char *cert, *key;
	const char *ca_file, *ca_path;
};

struct pair {
	struct evp_pkey_st *key;
	struct buf chain, ca;	/* PEM, nothing but certificates */
	uint64_t number;	/* from the public key; never 0 */
	int64_t not_before, not_after, ca_not_after;	/* s since 1970; ca_not_after: the first of ca; 0: no ca */
	char subject[PAIR_SUBJECT_BYTES];
};

/* Once, before the first: the library, and locked memory for keys, which the system may not have. */
bool pair_begin(void);
/*
 * Reads all of them. They must be what they are said to be, the key readable to its owner, root and this process'
 * group alone, the key that of the first certificate, and none of the chain too weak for rpcd to serve it (112 bits).
 * Else TV_EINVAL, or TV_EPERM, or TV_ESYS, and a sentence that begins with a path; *out holds nothing.
 */
enum tv_err pair_load(const struct pair_paths *paths, struct pair *out, char *why, size_t cap);
void pair_done(struct pair *p);
/* The same certificates, authorities and key. */
bool pair_same(const struct pair *a, const struct pair *b);
/*
 * A number that changes when a file, or a link or folder on the way to it, becomes another one or is written.  Reads no
 * file.
 */
uint64_t pair_marks(const struct pair_paths *paths);

/* May a server of TLS have to sign this?  See keys_sign(). */
bool pair_may_sign(struct span what);
/* sig has room for *len bytes, KEYS_SIGNATURE_BYTES_MAX at most.  TV_EINVAL: it may not be signed, or not so. */
enum tv_err pair_sign(const struct pair *p, uint64_t alg, struct span what, uint8_t *sig, size_t *len);

#endif
