/*
 * Handshakes that may wait for a signature, in a few threads: a bounded queue between the loop and them.  The threads
 * start when they are needed first.  What a thread works on is its own until the loop is told.
 */
#ifndef TV_RPCD_TLS_HANDSHAKES_H
#define TV_RPCD_TLS_HANDSHAKES_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/net/crowd.h"

struct handshakes;

enum handshake_state { HANDSHAKE_HERE, HANDSHAKE_QUEUED, HANDSHAKE_RUNS, HANDSHAKE_DISPLACED };

struct handshake {			/* a part of its owner's structure, zeroed at first */
	struct crowd_member place;
	TAILQ_ENTRY(handshake) link;
	enum handshake_state state;
};

struct handshakes_conf {
	struct ev_loop *loop;
	unsigned threads_max, waiting_max;
	void (*work)(struct handshake *k);	/* in a thread */
	void (*done)(struct handshake *k);	/* on the loop, afterwards */
	void (*refused)(struct handshake *k);	/* on the loop: its place in the queue was another's */
};

/* NULL: no memory. */
struct handshakes *handshakes_new(const struct handshakes_conf *conf);
/*
 * Into the queue.  source: of the client, by source_of().  When it is full, one of the source that has most there gives
 * way, unless each has one.  False: no place, or no thread can be started.
 */
bool handshakes_put(struct handshakes *h, struct handshake *k, uint64_t source);
/* Out of the queue again.  False: a thread has it, and `done` will tell. */
bool handshakes_withdraw(struct handshakes *h, struct handshake *k);
/*
 * Waits for the threads, whose work must end soon, and calls `done` for what they had; the queue must be empty.
 * NULL: nothing.
 */
void handshakes_free(struct handshakes *h);

/* In the queue now and at most; threads that run. */
void handshakes_stats(const struct handshakes *h, unsigned *waiting, unsigned *waiting_most, unsigned *threads);

#endif
