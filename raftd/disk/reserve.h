/*
 * The reserve file: disk space that raftd holds, to let go of when another program has taken the rest (S85).
 *
 * A file of allocated blocks, made while there is plenty.  When the file system is about to have nothing left, a part
 * of it is given back at a time, so that the little that a full server still writes (terms, votes) finds room.
 */
#ifndef TV_RAFTD_DISK_RESERVE_H
#define TV_RAFTD_DISK_RESERVE_H

#include <stdint.h>

struct reserve {
	int fd;				/* -1: none can be had here */
	uint64_t bytes;			/* held */
};

/* Opens or makes dir/ballast and looks how much is held already. */
void reserve_open(struct reserve *b, const char *dir);
void reserve_close(struct reserve *b);
/* Holds that many; less, or none, where the file system cannot allocate without writing. */
void reserve_take(struct reserve *b, uint64_t bytes);
/* Gives back up to that many; how many it was. */
uint64_t reserve_give(struct reserve *b, uint64_t bytes);

#endif
