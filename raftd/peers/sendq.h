/*
 * What the core sends to one peer, at the pace at which it can go.  Appends are kept as ranges of indexes: their payloads
 * are looked up, perhaps on the disk, when they leave, a bounded amount at a time.  Keeps the order.  Pure.
 */
#ifndef TV_RAFTD_PEERS_SENDQ_H
#define TV_RAFTD_PEERS_SENDQ_H

#include "raftd/engine/pending_sends.h"

#define SENDQ_BYTES (1u << 20)		/* leaves in one go: the loop has other things to do */
#define SENDQ_PENDING (4u << 20)	/* waits for the socket: no more is needed to keep it busy */
#define SENDQ_MAX 4096			/* messages that wait; further ones are lost, which the core survives */

struct sendq {				/* caller's storage, zeroed at first */
	struct pending_sends ring;
	size_t gone;			/* bytes since sendq_turn() */
	struct raft_send held;		/* the next one, while `holds` */
	bool holds;
};

/* pending, here and below: bytes that wait for the socket.  True: send it now, then sendq_sent().  False: it waits. */
bool sendq_put(struct sendq *q, const struct raft_send *s, size_t pending);
/* Takes the next one, if it may go now; then sendq_sent(). */
bool sendq_next(struct sendq *q, size_t pending, struct raft_send *out);
void sendq_sent(struct sendq *q, size_t bytes);
/* The one that was given last cannot go yet: what it says is still being read.  It is the next one again. */
void sendq_hold(struct sendq *q, const struct raft_send *s);
/* Forgets the one that is held, if it brings entries. */
void sendq_unhold(struct sendq *q);
/*
 * May this message go although one is held that came before it?  What has no entries of the log does not wait for those of
 * others.  A heartbeat then says no more than which server leads: *as is what to send instead.
 */
bool sendq_overtakes(const struct sendq *q, const struct raft_send *s, size_t pending, struct raft_send *as);
/* The loop has looked at its events: as much again may go. */
void sendq_turn(struct sendq *q);
/* Does one wait for nothing but the next turn?  Not while one is held. */
bool sendq_waiting(const struct sendq *q, size_t pending);
/* Forgets all that waits. */
void sendq_clear(struct sendq *q);

#endif
