/*
 * Memory of a pool across restarts: who was alive, and the clocks.  A text file to which lines are
 * appended, and which is written afresh when it has grown:
 *
 *	alive: NAME IP:PORT
 *	not-alive: NAME
 *	clock: N | event-clock: N | query-clock: N
 *	leave
 *
 * Losing its last lines, or all of it, loses no correctness: gossip tells them again.
 */
#ifndef TV_GOSSIPD_SNAPSHOT_H
#define TV_GOSSIPD_SNAPSHOT_H

#include "gossipd/core/swim.h"

struct snapshot;

struct snapshot_found {
	uint64_t clock, event_clock, query_clock;
	struct gaddr *addrs;		/* owned; of members that were alive, without ourselves */
	size_t count;
};

/*
 * Opens the file at `path` (made if missing) and reads it.  self: own name, not to be joined.
 * Lines that do not read are skipped and counted in the log.  NULL: the file cannot be used (errno).
 */
struct snapshot *snapshot_open(const char *path, struct span self, size_t members_max, struct snapshot_found *found);
void snapshot_found_done(struct snapshot_found *found);
void snapshot_alive(struct snapshot *s, struct span name, const struct gaddr *addr);
void snapshot_gone(struct snapshot *s, struct span name);
/* Written when one of them has grown. */
void snapshot_clocks(struct snapshot *s, uint64_t clock, uint64_t event_clock, uint64_t query_clock);
/* Nothing but clocks is remembered from here on, and nobody is joined after a restart. */
void snapshot_leave(struct snapshot *s);
/* Writes what waits.  When the file has outgrown its content, it is written afresh from `core`. */
void snapshot_flush(struct snapshot *s, const struct swim *core);
bool snapshot_dirty(const struct snapshot *s);
/* Flushes and closes. */
void snapshot_close(struct snapshot *s, const struct swim *core);

#endif
