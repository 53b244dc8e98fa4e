/*
 * Whose keys we know, and when they are asked for again.  Pure: the clock is an argument, and the fetcher reports what came of it.
 *
 * Logins are of strangers, so nothing that they bring makes raftd ask an issuer more often than ISSUER_PAUSE: neither tokens of
 * keys that there are not, nor an issuer that does not answer.  An operator who writes a method is always served.
 */
#ifndef TV_RAFTD_LOGIN_ISSUERS_H
#define TV_RAFTD_LOGIN_ISSUERS_H

#include "common/base/mono.h"
#include "raftd/login/jwks.h"
#include "raftd/login/method_config.h"

#define ISSUERS_MAX 64u
#define ISSUER_FRESH MONO_S(300)	/* keys are asked for again after this time */
#define ISSUER_STALE_MAX MONO_S(3600)	/* and good for so long when the issuer does not answer */
#define ISSUER_PAUSE MONO_S(5)		/* between two questions for the sake of logins */
#define ISSUER_WHY_BYTES 512

struct key_set {
	struct login_source source;	/* texts are owned */
	uint64_t serial;		/* of this process, from 1 */
	struct jwks jwks;		/* owned */
	unsigned refs;			/* counted on the loop alone; what is in it never changes */
};

enum issuer_want {
	ISSUER_ANY,			/* keys that are not too old */
	ISSUER_NEWER,			/* than the set of a serial */
	ISSUER_NOW,			/* fetched from now on: for a method that is written */
};

enum issuer_say {
	ISSUER_HAVE,			/* issuer_keys() */
	ISSUER_FETCH,			/* the caller begins: issuer_began(); then it waits */
	ISSUER_WAIT,			/* until the fetch has ended */
	ISSUER_REFUSE,			/* there are none; issuer_why() */
};

struct issuers;
struct issuer;

struct issuers *issuers_new(void);	/* NULL: no memory */
void issuers_free(struct issuers *all);	/* key sets that others hold stay */
unsigned issuers_count(const struct issuers *all);
/* Of this source, made if there is none, in the place of the one that was asked for longest ago.  NULL: no memory, or all are in use. */
struct issuer *issuers_find(struct issuers *all, const struct login_source *source, struct mono now);

/* after: with ISSUER_NEWER. */
enum issuer_say issuer_ask(const struct issuer *i, enum issuer_want want, uint64_t after, struct mono now);
void issuer_began(struct issuer *i, struct mono now);
/* The keys are taken over.  TV_ENOMEM: as if it had failed. */
enum tv_err issuer_fetched(struct issuer *i, struct jwks *keys, struct mono now);
void issuer_failed(struct issuer *i, const char *why);
/* A fetch for ISSUER_ANY has failed: may those that there are still serve? */
bool issuer_serves(const struct issuer *i, struct mono now);
/* NULL: none. */
struct key_set *issuer_keys(const struct issuer *i);
/* Why there are none; "" if nothing has failed. */
const char *issuer_why(const struct issuer *i);
const struct login_source *issuer_source(const struct issuer *i);
/* While a login or a method waits for it, it keeps its place. */
void issuer_hold(struct issuer *i);
void issuer_release(struct issuer *i);
unsigned issuer_held(const struct issuer *i);

struct key_set *key_set_ref(struct key_set *s);
void key_set_unref(struct key_set *s);	/* NULL: nothing */

#endif
