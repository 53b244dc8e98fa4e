/*
 * Memory of a pool across restarts: the members with their tags, and the clocks.  A text file to which
 * lines are appended, and which is written afresh when it has grown:
 *
 *	member: STATUS TIME LTIME VSN META IP:PORT NAME
 *	gone: NAME
 *	clock: N | event-clock: N | query-clock: N | incarnation: N
 *	leave
 *
 * TIME is in seconds since 1970, VSN and META in hexadecimal ("-" for none); names may hold blanks.
 * Losing its last lines, or all of it, loses no correctness: gossip tells them again.  So nothing is synced but a
 * fresh file before it takes the old one's place, and a disk that fails costs a warning, a count and another try.
 *
 * Its size: at most twice its content without history (128 KiB at least), and what one snapshot_interval adds.
 */
#ifndef TV_GOSSIPD_SNAPSHOT_H
#define TV_GOSSIPD_SNAPSHOT_H

#include "common/base/arena.h"
#include "gossipd/core/swim.h"

struct snapshot;

struct snapshot_member {
	struct swim_restore restore;	/* age is 0; what was alive is MEMBER_FAILED until a member says otherwise */
	bool was_alive;
	int64_t since;			/* seconds since 1970, of the last change */
};

struct snapshot_found {
	struct swim_clocks clocks;
	struct snapshot_member *members;	/* without ourselves; in `arena`, names and tags too */
	size_t count;
	struct arena arena;
};

/*
 * Opens the file at `path` (made if missing) and reads it.  self: own name, which is left out.
 * Lines that do not read are skipped, and named in the log; an unfinished last one is cut off.  NULL: the file cannot
 * be used (errno).
 */
struct snapshot *snapshot_open(const char *path, struct span self, size_t members_max, struct snapshot_found *found);
void snapshot_found_done(struct snapshot_found *found);
/*
 * The text of such a file into *found, whose arena is ready.  path: for the log.  Returns how much of it is whole
 * lines.
 */
size_t snapshot_read(struct span text, const char *path, struct span self, size_t members_max,
    struct snapshot_found *found);
/* The member as it is now.  since: seconds since 1970. */
void snapshot_member(struct snapshot *s, const struct swim_member *m, int64_t since);
void snapshot_gone(struct snapshot *s, struct span name);
/* Taken when a clock has grown, or the incarnation is another one. */
void snapshot_clocks(struct snapshot *s, const struct swim_clocks *c);
/* Nothing but the incarnation is remembered from here on, and no member is joined after a restart. */
void snapshot_leave(struct snapshot *s);
/*
 * Writes what waits.  When the file has outgrown its content, or has lost lines, it is written afresh from `core`
 * (NULL: not now).  False: the disk failed, which was logged and counted; try again in a while.
 */
bool snapshot_flush(struct snapshot *s, const struct swim *core);
/* Is there anything to flush? */
bool snapshot_dirty(const struct snapshot *s);
/* Writes that failed. */
uint64_t snapshot_errors(const struct snapshot *s);
/* Flushes and closes. */
void snapshot_close(struct snapshot *s, const struct swim *core);

#endif
