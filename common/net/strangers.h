/*
 * Accepted connections whose peer has not proven yet that it holds a key, or has not even spoken: a small budget of
 * their own, so that strangers do not take the places of peers.  When it is used up, the oldest connection of the
 * source that has most of them makes room for the newest: a source that floods a port takes places from itself, and a
 * peer that proves itself at once gets in.  Peers that are known by their address have places of their own.
 *
 * Two crowds (common/net/crowd.h) of a few hundred at most.
 */
#ifndef TV_COMMON_NET_STRANGERS_H
#define TV_COMMON_NET_STRANGERS_H

#include "common/net/crowd.h"

struct stranger {
	struct crowd_member place;	/* place.here: in the table */
	uint64_t source;
	bool known;
};

struct strangers_conf {
	unsigned max;			/* places for sources that are not known, at least 1 */
	unsigned known_max;		/* places for known ones beside these; 0: they are like all others */
	unsigned source_max;		/* places of one source, at least 1 */
};

struct strangers {
	struct crowd crowds[2];		/* of those that are not known, and of known ones */
	unsigned count;			/* entries of both */
	uint64_t came, evicted;
};

void strangers_init(struct strangers *t, const struct strangers_conf *conf);
/* Frees what is kept for those in it.  Zeros: nothing. */
void strangers_done(struct strangers *t);
/*
 * A connection came; *s is taken over until strangers_go().  source: see source_of().  Returns the entry
 * that makes room, off the table already: its owner closes it.  NULL: there was room.  Without memory s is not in
 * the table afterwards (place.here), and its owner closes it.
 */
struct stranger *strangers_come(struct strangers *t, struct stranger *s, uint64_t source, bool known);
/* It is proven, or gone.  One that is not in the table (or was evicted) is left alone. */
void strangers_go(struct strangers *t, struct stranger *s);

#endif
