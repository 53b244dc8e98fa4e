/*
 * Accepted connections whose peer has not proven yet that it holds a key, or has not even spoken: a small budget of
 * their own, so that strangers do not take the places of peers.  When it is used up, the oldest connection of the
 * source that has most of them makes room for the newest: who floods a port takes places from itself, and whoever
 * proves itself at once gets in.  Peers that are known by their address have places of their own.
 *
 * Pure; the entries are parts of the owner's connections, of which a few hundred are unproven at most.
 */
#ifndef TV_COMMON_NET_STRANGERS_H
#define TV_COMMON_NET_STRANGERS_H

#include <stdbool.h>
#include <stdint.h>

struct stranger {
	struct stranger *prev, *next;
	uint64_t source;
	bool here;			/* in the table */
	bool known;
	unsigned alike;			/* entries of the same source, this one included */
};

struct strangers_conf {
	unsigned max;			/* places for sources that are not known, at least 1 */
	unsigned known_max;		/* places for known ones beside these; 0: they are like all others */
	unsigned source_max;		/* places of one source, at least 1 */
};

struct strangers {
	struct strangers_conf conf;
	struct stranger *oldest, *newest;
	unsigned count, known;		/* entries, and those of them that have the places of known sources */
	uint64_t came, evicted;
};

void strangers_init(struct strangers *t, const struct strangers_conf *conf);
/*
 * A connection came; *s is taken over until strangers_go().  source: see source_of().  Returns the entry that makes
 * room, off the table already: its owner closes it.  NULL: there was room.
 */
struct stranger *strangers_come(struct strangers *t, struct stranger *s, uint64_t source, bool known);
/* It is proven, or gone.  One that is not in the table (or was evicted) is left alone. */
void strangers_go(struct strangers *t, struct stranger *s);

#endif
