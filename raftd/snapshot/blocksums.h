/*
 * Checksums of a snapshot file that is going to be sent, block by block: a disk that damages it after it was written is
 * noticed by the sender, not by every server that has received all of it.
 */
#ifndef TV_RAFTD_SNAPSHOT_BLOCKSUMS_H
#define TV_RAFTD_SNAPSHOT_BLOCKSUMS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define BLOCKSUM_BYTES 16

struct blocksums {
	uint32_t block;			/* bytes of each, but for the last one */
	uint64_t bytes;			/* of the file */
	uint8_t (*sums)[BLOCKSUM_BYTES];	/* owned */
};

/*
 * Reads the whole file.  *whole: first 8 bytes, little endian, of the BLAKE2b of all of it.  TV_ECORRUPT: it is not
 * what its own last 32 bytes say (raftd/fsm/copy/snapfile.h).  TV_ESYS, TV_ENOMEM.  On an error nothing is kept.
 */
enum tv_err blocksums_make(struct blocksums *b, int fd, uint64_t bytes, uint32_t block, uint64_t *whole);
void blocksums_done(struct blocksums *b);
/*
 * Up to `block` bytes of the file from offset on, to the end of their block, into dst (of `block` bytes): *p, *n.
 * TV_ECORRUPT: they are not what they were; TV_ESYS.
 */
enum tv_err blocksums_read(const struct blocksums *b, int fd, uint64_t offset, uint8_t *dst, const uint8_t **p,
    size_t *n);

#endif
