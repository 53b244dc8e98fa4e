/* Amounts of disk space: when there is too little, and how to say how much. */
#ifndef TV_RAFTD_DISK_THRESHOLD_H
#define TV_RAFTD_DISK_THRESHOLD_H

#include <stdbool.h>
#include <stdint.h>

/* Too little for writes?  A server that was short needs an eighth of the reserve more to go on, so that it does not flap. */
bool threshold_short(uint64_t available, uint64_t reserve, uint64_t want, bool was_short);
/* Bytes for people: "61.4 MB".  Returns dst. */
const char *threshold_bytes(uint64_t bytes, char dst[24]);

#endif
