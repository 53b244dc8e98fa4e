/*
 * Is there room on the disk?  Watched so that it never runs out inside the data bases, whose write-ahead logs take
 * a failed write for the end (S85).
 *
 * Below `disk_reserve` this server is full: as leader it refuses writes and hands over to a voter with room, as
 * follower it takes no entries for the state machine and says so in its answers.  Reads, votes and membership go on in
 * the reserve.  With an eighth more than the reserve free it goes on by itself.  Each look is one statvfs(3), in a thread
 * of its own; what decides meanwhile is the last one, and what was written since.
 *
 * full because                      found by                        until
 * less than the reserve is free     a look: each 250 ms, and        a look finds reserve * 9/8
 *                                   before writes that come near it
 * a write of the state found no     fsm_no_room()                   its thread, which tries each second, has written
 * room (a quota)                                                    all that waits
 * a snapshot does not fit           space_want()                    it would, or 60 s: then the leader offers one again
 * the data bases cannot be opened   space_too_little(),             an attempt, with more room or 10 s later, opens them
 *                                   space_state_refused()
 *
 * A write of the log that finds no room ends the process: the next start waits as in the last line.  A leader takes a follower for
 * full until the next answer to a heartbeat says otherwise.
 */
#ifndef TV_RAFTD_DISK_SPACE_H
#define TV_RAFTD_DISK_SPACE_H

#include "raftd/raftd.h"

struct space;

/* Looks for the first time; NULL without memory.  No timer runs yet. */
struct space *space_new(struct raftd *d);
void space_free(struct space *s);
/*
 * Is there room to open the data bases, which write when they recover?  Gives back some of the reserve when that helps.
 * False: wait, and ask again; the text says for what.
 */
bool space_may_open(struct space *s);
/* The data bases found too little room all the same: not again before there is more, or 10 s later. */
void space_too_little(struct space *s);
/* The same of the state alone, when looks are regular: this server counts as full until d->fsm is there. */
void space_state_refused(struct space *s);
/* Is it worth another try, as far as the looks have seen? */
bool space_may_retry(const struct space *s);
/* From now on looks are regular.  changed: the disk has become full, or has room again; at once when it is full now. */
void space_start(struct space *s, void (*changed)(struct raftd *d, bool full));

bool space_full(const struct space *s);
/* Less than twice the reserve is left: time to write out and cut what can be cut. */
bool space_low(const struct space *s);
/* So little that not even a checkpoint is safe to begin. */
bool space_critical(const struct space *s);
/* Bytes free beside the reserve. */
uint64_t space_room(const struct space *s);
/* Would that many bytes fit beside the reserve? */
bool space_fits(const struct space *s, uint64_t bytes);
/*
 * They did not, and nothing else makes sense before they do (a snapshot to receive): full until then, and for a minute at most,
 * because no leader offers a full server anything by which it could learn that less will do.
 */
void space_want(struct space *s, uint64_t bytes);
/*
 * So much is about to be written: looks again at once when it may come near the reserve.  When half of that may be gone before
 * the look has told, this server counts as full until it does.
 */
void space_written(struct space *s, uint64_t bytes);
uint64_t space_available(const struct space *s);
/* One sentence: what is full and what to do. */
void space_text(const struct space *s, char *dst, size_t cap);

#endif
