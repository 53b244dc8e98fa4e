/*
 * How long a node that lost its name waits before it ends.  The unit starts it again, and then it asks the pool anew,
 * since the other owner may be gone; each time it loses, it waits longer, so that neither its log nor that of the
 * rightful owner fills.
 */
#ifndef TV_GOSSIPD_CONFLICT_PAUSE_H
#define TV_GOSSIPD_CONFLICT_PAUSE_H

#include <stdint.h>

#include "common/base/mono.h"

#define CONFLICT_PAUSE_NAME "name-lost"		/* how often in succession; in the folder of the state */
#define CONFLICT_PAUSE_MAX MONO_S(300)

/*
 * The name was lost at this time of the wall clock: counts it in the folder `dir`, and returns the pause: none at the
 * first time, then 2 s, 4 s and so on.  A quarter of an hour after the last loss it is the first time again.  *count:
 * how often now.  A file that cannot be written or read counts as none.
 */
struct mono conflict_pause(const char *dir, int64_t wall_ns, unsigned *count);

#endif
