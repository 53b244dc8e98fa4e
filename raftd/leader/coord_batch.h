/*
 * Coordinates that nodes reported and that are not in the log yet: the newest of each node, up to a limit, handed out
 * in batches, so that a cluster of any size costs few log entries.  Pure: no clock, no I/O.
 */
#ifndef TV_RAFTD_LEADER_COORD_BATCH_H
#define TV_RAFTD_LEADER_COORD_BATCH_H

#include "common/base/buf.h"
#include "common/record/coordinate.h"

#define COORDBATCH_UPDATES 128		/* in one log entry */
#define COORDBATCH_BATCHES 5		/* in one period */
#define COORDBATCH_PERIOD MONO_S(5)

struct coordbatch;

/* NULL: no memory. */
struct coordbatch *coordbatch_new(void);
void coordbatch_free(struct coordbatch *b);
/*
 * Keeps a copy, in the place of an older one of the same node and segment.  The caller has checked that the coordinate
 * is plausible.  TV_ELIMIT: as many wait as a period takes; TV_ENOMEM.
 */
enum tv_err coordbatch_add(struct coordbatch *b, struct span node, struct span segment, const struct coordinate *c);
unsigned coordbatch_count(const struct coordbatch *b);
/* Takes out the oldest, at most COORDBATCH_UPDATES, as a packed coordinate_batch; returns how many. */
unsigned coordbatch_take(struct coordbatch *b, struct buf *out);
void coordbatch_clear(struct coordbatch *b);

#endif
