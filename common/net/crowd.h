/*
 * Accepted connections as a crowd: how many there may be, how many of one source, which one gives its place to a
 * newcomer, and until when each may stay as it is.  Pure: the clock is handed in, and sockets are the owner's.
 * listener.h accepts them, and crowd_timer.h tells when a deadline is over.
 *
 * A member is a part of its owner's connection.  It stands in one of a few queues (ranks), and goes to the end of one
 * whenever it got further; the first of the lowest rank gives way.  A member with work under way (a stream: a
 * request, a question, a stream of HTTP/2) never does.
 *
 * Sources (common/net/source.h) have budgets of members and of streams.  Several crowds may share the budgets.
 *
 * Linger, the time in which the peer can still read its last answer, is a rank and a deadline here, and
 * stream_linger() for the bytes (common/net/stream.h).
 */
#ifndef TV_COMMON_NET_CROWD_H
#define TV_COMMON_NET_CROWD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/base/deadlines.h"
#include "common/base/map.h"

#define CROWD_RANKS 4
#define CROWD_STAYS (CROWD_RANKS - 1)	/* the rank of those that never give way */
#define CROWD_LOOKS_MAX 64		/* at members that do not give way, for one newcomer */

struct crowd_source {
	struct map_node node;
	uint64_t source;
	unsigned members, streams;
	uint64_t held;			/* bytes that the owner keeps for all of them: its own count */
};

struct crowd_member {
	TAILQ_ENTRY(crowd_member) place;
	struct crowd_source *source;	/* NULL: the crowd does not tell sources apart */
	struct deadline look;		/* at `until`, or earlier */
	struct mono until;		/* zero: no deadline */
	unsigned streams;		/* under way */
	uint8_t rank;
	bool here;			/* in the crowd */
};

TAILQ_HEAD(crowd_queue, crowd_member);

struct crowd_conf {
	unsigned max;			/* members */
	/* Of one source; 0: not bounded.  Both 0: sources are not told apart. */
	unsigned source_max;		/* members */
	unsigned source_streams_max;	/* streams */
	uint64_t (*hash)(const void *bytes, size_t n);	/* of sources, such that peers cannot choose it: keyed_hash() */
	/*
	 * Which one gives way.  false: the first by rank and queue, when there are `max`.  true: the first of the
	 * source that has most; and of a newcomer's own source, when that has source_max.  A walk through all, so for
	 * small crowds.
	 */
	bool largest;
	bool (*stays)(const struct crowd_member *m);	/* it would give way: not now?  NULL: it does */
	struct map *sources;		/* budgets that crowds share, of the owner; NULL: this crowd's own */
};

struct crowd {
	struct crowd_conf conf;		/* the bounds may change at any time */
	struct crowd_queue ranks[CROWD_RANKS];	/* each the longest there first */
	struct map own;			/* struct crowd_source, those with members; unless conf.sources are shared */
	struct deadlines looks;
	unsigned count, streams;
};

/* It must not move afterwards. */
void crowd_init(struct crowd *c, const struct crowd_conf *conf);
/* Forgets all members, and frees what was kept for them.  Zeros: nothing. */
void crowd_done(struct crowd *c);

/*
 * One more, whatever the bounds say, at the end of rank 0, without a deadline.  source: source_of().  False: no memory;
 * it is not in.
 */
bool crowd_come(struct crowd *c, struct crowd_member *m, uint64_t source);
/* Its streams end with it.  One that is not in: nothing. */
void crowd_leave(struct crowd *c, struct crowd_member *m);
/* To the end of this rank's queue, of its own one, too; those that stay have no order. */
void crowd_rank(struct crowd *c, struct crowd_member *m, unsigned rank);

static inline bool
crowd_is_full(const struct crowd *c)
{
	return c->count >= c->conf.max;
}
/* Is there none below CROWD_STAYS? */
bool crowd_is_busy(const struct crowd *c);
/* Has the source a place left in its budget of members? */
bool crowd_admits(const struct crowd *c, uint64_t source);
/*
 * Which member is to leave so that a newcomer of this source has a place; the owner closes it, which ends with
 * crowd_leave().  NULL: there is room; or there is none and all stay.
 */
struct crowd_member *crowd_gives_way(const struct crowd *c, uint64_t source);
/* Which one could leave now, although there may be room: for descriptors.  NULL: all stay. */
struct crowd_member *crowd_spare(const struct crowd *c);

/* A piece of work begins.  False: its source has as many under way as it may. */
bool crowd_stream_begin(struct crowd *c, struct crowd_member *m);
void crowd_stream_end(struct crowd *c, struct crowd_member *m);

/* It may stay as it is until then; zero: for good.  Cheap: one that is put off again and again is moved seldom. */
void crowd_set_until(struct crowd *c, struct crowd_member *m, struct mono until);
/* One whose time is over, which has no deadline any more.  NULL: there is none. */
struct crowd_member *crowd_late(struct crowd *c, struct mono now);
/* When crowd_late() has to be called next, at the latest; MONO_NEVER: after the next crowd_set_until(). */
struct mono crowd_next_look(const struct crowd *c);

#endif
