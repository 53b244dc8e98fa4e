/*
 * Coordinates that nodes reported and that are not in the log yet: the newest of each node, up to a limit, handed out
 * in batches, so that a cluster of any size costs few log entries.  Pure: no clock, no I/O.
 */
#ifndef TV_RAFTD_LEADER_COORD_BATCH_H
#define TV_RAFTD_LEADER_COORD_BATCH_H

#include "common/base/buf.h"
#include "common/record/coordinate.h"

#define COORD_BATCH_UPDATES 128		/* in one log entry */
#define COORD_BATCH_BATCHES 5		/* in one period */
#define COORD_BATCH_PERIOD MONO_S(5)

struct coord_batch;

/* NULL: no memory. */
struct coord_batch *coord_batch_new(void);
void coord_batch_free(struct coord_batch *b);
/*
 * Keeps a copy, in the place of an older one of the same node and segment.  The caller has checked that the coordinate
 * is plausible.  TV_ELIMIT: as many wait as a period takes; TV_ENOMEM.
 */
enum tv_err coord_batch_add(struct coord_batch *b, struct span node, struct span segment, const struct coordinate *c);
unsigned coord_batch_count(const struct coord_batch *b);
/* Takes out the oldest, at most COORD_BATCH_UPDATES, as a packed coordinate_batch; returns how many. */
unsigned coord_batch_take(struct coord_batch *b, struct buf *out);
void coord_batch_clear(struct coord_batch *b);

#endif
