/*
 * Is there room on the disk?  Watched so that it never runs out inside the data bases, whose write-ahead logs take
 * a failed write for the end (S85).
 *
 * Below `disk_reserve` this server is full: as leader it refuses writes and hands over to a voter with room, as
 * follower it takes no entries for the state machine and says so in its answers.  Reads, votes and membership go on in
 * the reserve.  With an eighth more than the reserve free it goes on by itself.  Each look is one statvfs(3), which
 * asks nothing of the disk.
 */
#ifndef TV_RAFTD_DISK_SPACE_H
#define TV_RAFTD_DISK_SPACE_H

#include "raftd/raftd.h"

struct diskspace;

/* Looks for the first time; NULL without memory.  No timer runs yet. */
struct diskspace *diskspace_new(struct raftd *d);
void diskspace_free(struct diskspace *s);
/*
 * Is there room to open the data bases, which write when they recover?  Gives back ballast when that helps.  False:
 * wait, and ask again; the text says for what.
 */
bool diskspace_may_open(struct diskspace *s);
/* The data bases found too little room all the same: not again before there is more, or 10 s later. */
void diskspace_too_little(struct diskspace *s);
/* From now on looks are regular.  changed: the disk has become full, or has room again; at once when it is full now. */
void diskspace_start(struct diskspace *s, void (*changed)(struct raftd *d, bool full));

bool diskspace_full(const struct diskspace *s);
/* Less than twice the reserve is left: time to write out and cut what can be cut. */
bool diskspace_low(const struct diskspace *s);
/* So little that not even a checkpoint is safe to begin. */
bool diskspace_critical(const struct diskspace *s);
/* Bytes free beside the reserve. */
uint64_t diskspace_room(const struct diskspace *s);
/* Would that many bytes fit beside the reserve? */
bool diskspace_fits(const struct diskspace *s, uint64_t bytes);
/* They did not, and nothing else makes sense before they do (a snapshot to receive): full until then. */
void diskspace_want(struct diskspace *s, uint64_t bytes);
/* So much is about to be written: looks again at once when it may come near the reserve. */
void diskspace_written(struct diskspace *s, uint64_t bytes);
uint64_t diskspace_available(const struct diskspace *s);
/* One sentence: what is full and what to do. */
void diskspace_text(const struct diskspace *s, char *dst, size_t cap);

#endif
