/*
 * The table of what tokens may do, by a keyed hash of the secret.  Pure: no I/O, no clock; time is an argument.
 *
 * Bounded in number and bytes; what was not asked for longest makes room.  Secrets of no token have a small room of
 * their own, so that guesses drive out nothing.
 */
#ifndef TV_RPCD_ACL_GRANTS_H
#define TV_RPCD_ACL_GRANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/mono.h"

#define GRANT_KEY_BYTES 32

struct acl_rights;		/* resolver.h */
struct grants;

struct grants_conf {
	unsigned kept_max, unknown_max;
	uint64_t bytes_max;		/* of rights with their entries */
	struct mono unknown_ttl;	/* a secret of no token is none for so long */
};

/* NULL: no memory. */
struct grants *grants_new(const struct grants_conf *conf);
void grants_free(struct grants *g);

enum grant_got {
	GRANT_NONE,			/* nothing is known */
	GRANT_FRESH,			/* *out; NULL: it is no token's */
	GRANT_OLD			/* *out, from a time that is over; never past the token's own end */
};
/* wall: ns since 1970; ttl: rights are fresh for so long.  *out is borrowed. */
enum grant_got grants_get(struct grants *g, const uint8_t key[GRANT_KEY_BYTES], struct mono now, int64_t wall,
    struct mono ttl, struct acl_rights **out);
/* The newest answer of servers.  rights NULL: it is no token's.  What is too large is not kept. */
void grants_put(struct grants *g, const uint8_t key[GRANT_KEY_BYTES], struct mono now, struct acl_rights *rights);
void grants_clear(struct grants *g);
void grants_count(const struct grants *g, unsigned *kept, unsigned *unknown, uint64_t *bytes);

#endif
