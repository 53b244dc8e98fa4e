/*
 * A world of gossip cores: one virtual clock, one event queue, one seeded generator, and a
 * network that delays, loses, doubles and reorders datagrams.  Streams work or are
 * refused, as TCP's do.  The same seed gives the same run on every machine.
 */
#ifndef TV_TESTS_SIM_GOSSIP_WORLD_H
#define TV_TESTS_SIM_GOSSIP_WORLD_H

#include "gossipd/core/swim.h"

struct world;

struct world_conf {
	uint64_t seed;
	unsigned members_max;
	struct swim_timing timing;
	struct mono delay_min, delay_max;	/* of one datagram, uniform: reorders by itself */
	double loss, duplicate;			/* of one datagram */
	size_t seal_bytes;			/* what encryption would add to each datagram; counted, not done */
	unsigned without;			/* swim_options.without of all members */
	bool tcp_pings;
	bool own_store;				/* each member keeps what others say for itself, as in gossipd */
	bool real_tags;				/* tags as gossipd has them, instead of the short ones of tests */
	bool verbose;				/* print events and notices */
};

/* What all members together sent, as it would be on the wire: sealed, without the headers of IP. */
struct world_traffic {
	uint64_t packets, packet_bytes;
	uint64_t streams, stream_bytes;		/* full exchanges and pings; both directions */
};

/*
 * Deaths that were seen.  A member is weak once it was starved; nothing is counted between members that
 * cannot hear each other, or of members that are down.
 */
struct world_deaths {
	uint64_t of_healthy;			/* live, never starved members shown as failed, by anybody */
	uint64_t of_healthy_at_healthy;		/* the same, by members that are not weak: what the paper calls FP- */
	uint64_t of_weak_at_healthy;
	uint64_t of_left;			/* of all of these: live members that have told that they leave, and end soon */
	uint64_t declared_healthy;		/* suspicions of healthy ones that ran out, by anybody */
	uint64_t declared_healthy_by_healthy;
	uint64_t suspected_healthy;		/* failed probes of healthy ones, by anybody */
};

struct world *world_new(const struct world_conf *conf);
void world_free(struct world *w);

/* Starts member i (0..members_max-1) with tag gen=`generation`; it was never up, or is down. */
void world_start(struct world *w, unsigned i);
/* kill -9. */
void world_kill(struct world *w, unsigned i);
/* Fed now: join through member `to`, leave, force-leave of `whom`. */
void world_join(struct world *w, unsigned i, unsigned to);
void world_leave(struct world *w, unsigned i);
enum tv_err world_force_leave(struct world *w, unsigned i, unsigned whom, bool prune);
/* Members with different sides do not hear each other. */
void world_side(struct world *w, unsigned i, unsigned side);
/* It sends, and receives nothing: no datagram, and no stream comes about. */
void world_deaf(struct world *w, unsigned i, bool deaf);
/*
 * Without CPU until then: it handles and sends nothing, and what comes for it waits as in a socket's buffer.  It is weak
 * from now on.
 */
void world_starve(struct world *w, unsigned i, struct mono until);
/*
 * Starts members 0..n-1 as they are long after joining: each has learned of all others by an exchange.  For runs that ask
 * what happens then.
 */
void world_form(struct world *w, unsigned n);
/* Member i joins, alone, one that knows 0..n-1. */
void world_learn(struct world *w, unsigned i, unsigned n);
void world_set_loss(struct world *w, double loss);
/* Any other input. */
enum tv_err world_feed(struct world *w, unsigned i, struct swim_input in);
/* `watch` sees every output of every member; it must not feed anything. */
void world_watch(struct world *w, void (*watch)(void *ctx, unsigned i, const struct swim_output *out), void *ctx);
/* Members that start again have their clocks, as from a snapshot. */
void world_keep_clocks(struct world *w);
/* A forged or replayed message, straight into member i. */
void world_inject(struct world *w, unsigned i, enum wire_type kind, struct span body);

struct mono world_now(const struct world *w);
/* Runs until then. */
void world_run(struct world *w, struct mono until);
/* Runs until `done` holds (asked four times a second), at most until then; returns whether it held. */
bool world_settle(struct world *w, struct mono until, bool (*done)(struct world *w, void *arg), void *arg);

bool world_is_up(const struct world *w, unsigned i);
/* Member j as member i shows it; MEMBER_NONE when it does not. */
enum member_status world_status(const struct world *w, unsigned i, unsigned j);
/* The tag `gen` of j as i knows it; 0: none. */
unsigned world_generation(const struct world *w, unsigned i, unsigned j);
const struct swim *world_core(const struct world *w, unsigned i);
/* Members that somebody reported as failed although they were up and on the same side. */
unsigned world_false_deaths(const struct world *w);
/* How many of those that are up show j as failed, and how many as left; counted by their events. */
unsigned world_shown_failed(const struct world *w, unsigned j);
unsigned world_shown_left(const struct world *w, unsigned j);
struct world_deaths world_deaths(const struct world *w);
struct world_traffic world_traffic(const struct world *w);
/* Events that the queue of the world handled. */
uint64_t world_events(const struct world *w);
/* Hash over everything that happened: equal for equal seeds. */
uint64_t world_digest(const struct world *w);
/* Datagrams sent so far. */
uint64_t world_datagrams(const struct world *w);

#endif
