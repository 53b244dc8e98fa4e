/*
 * Network coordinates: where a node is, so that the round trip between any two can be estimated
 * without measuring it.  Pure; the probes' acks feed it.
 *
 * Units are seconds, except `error`, which has none.  Constants and steps are those of every Serf
 * node, so that the coordinates of mixed pools fit each other.
 *
 * Sources: Dabek, Cox, Kaashoek, Morris, "Vivaldi", 2004 (spring and height); Lee, Guha, Buyukkokten, Mazumdar,
 * "On suitability of Euclidean embedding", 2006 (adjustment); Ledlie, Gardner, Seltzer, "Network coordinates in
 * the wild", 2007 (latency filter, gravity); and the deployed protocol as written down in doc/wire.md.
 */
#ifndef TV_GOSSIPD_CORE_COORD_COORD_H
#define TV_GOSSIPD_CORE_COORD_COORD_H

#include "common/base/err.h"
#include "common/base/mono.h"
#include "common/base/rng.h"
#include "common/record/coordinate.h"

#define COORD_WINDOW 20			/* samples behind the adjustment */
#define COORD_FILTER 3			/* round trips of a peer, of which the median counts */
#define COORD_RTT_MAX MONO_S(10)	/* a longer round trip is no measurement */

/* Our own coordinate and what moves it. */
struct coord_state {
	struct coordinate own;
	double samples[COORD_WINDOW];
	unsigned sample_at;		/* the oldest, overwritten next */
	uint64_t resets;		/* how often we had to start over */
};

/*
 * What is kept of a peer.  Single precision: 1 part in 10 million is far below the noise, and there
 * may be ten thousand of them.
 */
struct coord_peer {
	float vec[COORDINATE_DIMENSIONS];
	float error, adjustment, height;
	uint32_t rtts[COORD_FILTER];	/* oldest first, in units of 4 ns; COORD_NO_RTT: none */
};

#define COORD_NO_RTT UINT32_MAX

/* At the origin, knowing nothing. */
void coord_init(struct coord_state *st);
/* A peer of which nothing was heard. */
void coord_peer_init(struct coord_peer *peer);
/*
 * A probe was answered: the peer said that it is at `at`, and the round trip took `rtt`.  Moves our
 * own coordinate and remembers the peer's.  TV_EFORMAT: `at` is not plausible; TV_EINVAL: rtt is
 * negative or above COORD_RTT_MAX.  Then nothing has changed.
 */
enum tv_err coord_update(struct coord_state *st, struct coord_peer *peer, const struct coordinate *at,
    struct mono rtt, struct rng *rng);
/* The peer's coordinate as last heard. */
void coord_of_peer(const struct coord_peer *peer, struct coordinate *out);

#endif
