/*
 * Lamport clocks, and the memory for intents about members that are not known yet.
 * Packets overtake each other: the intent of a member often comes before its alive.
 */
#ifndef TV_GOSSIPD_CORE_SERF_INTENT_H
#define TV_GOSSIPD_CORE_SERF_INTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/base/map.h"
#include "common/base/mono.h"
#include "common/base/rd.h"

struct lamport {
	uint64_t time;			/* what the next message of ours is stamped with */
};

/* Moves the clock above a time that was seen. A time at the maximum is ignored: the clock could not pass it. */
void lamport_witness(struct lamport *c, uint64_t seen);
/* A time that an honest clock could show: far ahead of ours only below 2^62, so that no message uses clocks up. */
bool lamport_plausible(const struct lamport *c, uint64_t seen);
/* The current time; then one tick. */
uint64_t lamport_take(struct lamport *c);

enum intent_kind {
	INTENT_JOIN,
	INTENT_LEAVE,
	INTENT_PRUNE,			/* it was pruned here; an alive of a higher life brings it back as a new one */
};

struct intent {
	struct map_node node;		/* by the keyed hash of the name */
	struct mono heard_at;
	uint64_t ltime;
	enum intent_kind kind;
	uint8_t name_len;
	char name[];
};

struct intents {
	struct map by_name;
	uint32_t count_max;
	uint32_t pruned;		/* of all: kind INTENT_PRUNE */
	uint64_t refused;		/* were new, but there was no room */
};

void intents_done(struct intents *t);
struct intent *intents_find(const struct intents *t, uint64_t hash, struct span name);
/*
 * Remembers the newest intent of a name.  True when this one is newer than what was
 * known: then it is news and may be passed on.  A full buffer refuses (false, counted).
 */
bool intents_note(struct intents *t, uint64_t hash, struct span name, enum intent_kind kind, uint64_t ltime,
    struct mono now);
/* Takes out and frees the intent of a name; false when there is none. */
bool intents_take(struct intents *t, uint64_t hash, struct span name, enum intent_kind *kind, uint64_t *ltime);
/* Forgets intents heard before `before`, and those of kind INTENT_PRUNE before `pruned_before`. */
void intents_expire(struct intents *t, struct mono before, struct mono pruned_before);

#endif
