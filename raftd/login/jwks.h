/*
 * What an issuer publishes: its keys (a JWK set, RFC 7517), and where they are (OpenID Connect Discovery 1.0).  Pure.
 *
 * It is read in a process that has nothing to lose (raftd/fetch/main.c); raftd gets of it no more than names and keys in DER, which
 * it reads once more, so nothing that this process could say does more than the issuer could.
 *
 * As RFC 7517 wants it, keys of a set that nothing is known of are passed over.  So are those that are not for signatures.
 */
#ifndef TV_RAFTD_LOGIN_JWKS_H
#define TV_RAFTD_LOGIN_JWKS_H

#include "common/base/arena.h"
#include "common/record/messages.h"
#include "raftd/login/jwt.h"

#define JWKS_BYTES_MAX (1u << 20)	/* of either document */
#define JWKS_KEYS_MAX 64u		/* that are used of one set */
#define JWKS_ID_BYTES_MAX 256u		/* of the name of a key */
#define JWKS_URL_BYTES_MAX 2048u

struct jwks {
	struct jwt_key *keys;		/* owned; their names are in `ids` */
	unsigned count;
	uint32_t algorithms;		/* jwt_algorithm_bit() of those that the issuer says it signs with; 0: it does not say */
	struct arena ids;
};

/* TV_EFORMAT with a sentence, also when a set has keys and none of them can be used; TV_ENOMEM.  After either there is nothing to free. */
enum tv_err jwks_parse(struct span json, struct jwks *out, struct buf *why);
void jwks_free(struct jwks *set);

/* From process to process. */
enum tv_err jwks_put(const struct jwks *set, struct arena *a, struct msg_fetched *out);
/* TV_EFORMAT: it is none that jwks_put() makes. */
enum tv_err jwks_take(const struct msg_fetched *in, struct jwks *out, struct buf *why);

/* Is it one that keys are fetched from: http or https, and nothing in it that would end a line?  Else a sentence. */
bool jwks_url_check(struct span url, struct buf *why);
/*
 * The document of an issuer, which must be that of this one.  *keys_url is in the arena; algorithms: as in struct jwks.
 * TV_EFORMAT with a sentence; TV_ENOMEM.
 */
enum tv_err jwks_discovery(struct span json, struct span issuer, struct arena *a, struct span *keys_url, uint32_t *algorithms,
    struct buf *why);

#endif
