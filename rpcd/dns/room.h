/*
 * How much memory of answers over TCP a connection may hold, how many questions it may have under way, and which one
 * makes room: a client that reads is served, one that takes nothing loses.  While there is plenty each connection may
 * have several.  When it gets tight each has one at a time, and when there is nothing left the others wait in the order
 * in which they came, until one has taken its answer; one that has not taken ROOM_STEP bytes for ROOM_TIME loses its
 * place to one that waits.  No other is closed for others.  Pure.
 */
#ifndef TV_RPCD_DNS_ROOM_H
#define TV_RPCD_DNS_ROOM_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/mono.h"

#define ROOM_BYTES_PLENTY (16u << 20)
#define ROOM_BYTES_MAX (32u << 20)	/* one answer more, of the one that was let in last */
#define ROOM_TIME MONO_MS(500)
#define ROOM_ASKS_PLENTY 1024
#define ROOM_ASKS_MAX 4096
#define ROOM_STEP (64u << 10)		/* bytes: the largest answer */

/* One connection, in the memory of its owner.  All zero: it holds nothing and waits for nothing. */
struct room_user {
	size_t bytes;			/* that it holds */
	unsigned asks;			/* questions under way */
	size_t taken;			/* by its client, since then: */
	struct mono since;
	bool waits;
	struct room_user *older, *newer;	/* of those that hold bytes, by since */
	struct room_user *before, *behind;	/* of those that wait */
};

/* All zero: it is empty. */
struct room {
	size_t bytes;
	unsigned asks;
	struct room_user *oldest, *newest;
	struct room_user *first, *last;
	struct room_user *admitted;	/* the last one that waited, until its answer is counted */
};

enum room_verdict {
	ROOM_YES,
	ROOM_OWN_FIRST,			/* when its client took what waits for it, and what it asked is answered */
	ROOM_WAIT			/* room_wait(), then room_admit() will name it */
};

/* May a question of it be begun now? */
enum room_verdict room_ask(const struct room *r, const struct room_user *u);
/* May an answer be made now to a question that was begun? */
bool room_fits(const struct room *r, const struct room_user *u);
/* So many questions of it are under way now. */
void room_asks(struct room *r, struct room_user *u, unsigned asks);
/* It holds so many bytes now. */
void room_hold(struct room *r, struct room_user *u, size_t bytes, struct mono now);
/* Its client has taken n bytes more. */
void room_taken(struct room *r, struct room_user *u, size_t n, struct mono now);
void room_wait(struct room *r, struct room_user *u);
/* It is gone. */
void room_leave(struct room *r, struct room_user *u);

/* The one that waited longest and may go on: room_ask() says yes until room_done().  NULL: none, or one was. */
struct room_user *room_admit(struct room *r);
/* The one that was admitted had its turn. */
void room_done(struct room *r, struct room_user *u);
/* The one that loses its place and is to be closed.  NULL: none; *when: look again then; MONO_NEVER: at a change. */
struct room_user *room_loser(const struct room *r, struct mono now, struct mono *when);

#endif
