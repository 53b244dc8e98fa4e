/*
 * Transmit-limited queue: what is still to be gossiped, and how often it went out.
 * A packet is filled with the least-sent messages first; among equals with the
 * longest that still fits, newest first (of those sent already: first the one that went out longest ago).
 * The cost of an operation depends on how many different lengths wait, not on how many messages.
 */
#ifndef TV_GOSSIPD_CORE_SWIM_BROADCAST_H
#define TV_GOSSIPD_CORE_SWIM_BROADCAST_H

#include <stdbool.h>

#include "common/base/arena.h"
#include "gossipd/core/swim/intern.h"

#define BCAST_PARTS_MAX 255	/* messages in one compound packet */

struct bcast;

/* Messages of one length that were sent equally often, in a ring. */
struct bshelf {
	struct bcast *first;	/* what a packet takes next */
	uint32_t len;
};

/* Messages that were sent equally often: shelves, the longest messages first. */
struct bround {
	struct bshelf *shelves;
	uint32_t count, cap;
};

struct bqueue {
	struct bround *rounds;	/* by number of transmits */
	uint32_t round_count;	/* those behind it are empty and have no memory */
	struct intern *store;	/* of the bytes */
	uint32_t count, count_max;
	size_t bytes;		/* of the queued messages */
	uint64_t dropped;	/* pushed out by count_max */
	unsigned released;	/* `wait` bits of messages that left the queue; the owner clears them */
};

/* Messages of one packet under construction. */
struct bfill {
	struct span parts[BCAST_PARTS_MAX];	/* copies in `arena` */
	unsigned count;
	size_t room;		/* bytes left in the packet */
	struct arena *arena;
};

/* The store must outlive the queue. */
void bqueue_init(struct bqueue *q, uint32_t count_max, struct intern *store);
void bqueue_done(struct bqueue *q);
/*
 * Queues a copy of `message` after `prefix` (SPAN_NONE for none; one message on the wire).
 * owner    NULL, or a place that names the queued message: what it named is dropped first, and it
 *          is cleared when the message leaves.  The place must stay, or be given to bqueue_disown().
 * wait     bits to raise in `released` when this message leaves, however it leaves
 * When the queue is full the most-sent message gives way.  TV_ENOMEM; TV_ELIMIT above 65,535 bytes.
 */
enum tv_err bqueue_put(struct bqueue *q, struct span prefix, struct span message, struct bcast **owner, unsigned wait);
/* The owner's place goes away; the message stays. */
void bqueue_disown(struct bcast *b);
/*
 * Moves messages into `fill` while they fit, each costing its length + per_message.
 * A message picked `limit` times in all leaves the queue.
 */
void bqueue_fill(struct bqueue *q, struct bfill *fill, size_t per_message, unsigned limit);

void bfill_init(struct bfill *f, struct arena *arena, size_t room);
/* Adds a copy of one message; the caller sees to `room`.  False without memory. */
bool bfill_add(struct bfill *f, struct span message);

#endif
