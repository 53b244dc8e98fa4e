/*
 * A snapshot file that is being sent: its blocks, read and checked by a thread, one ahead of what is sent.  Several followers
 * may be at different places.
 */
#ifndef TV_RAFTD_SNAPSHOT_SNAPSHOT_FILE_H
#define TV_RAFTD_SNAPSHOT_SNAPSHOT_FILE_H

#include "common/proc/jobs.h"
#include "raftd/snapshot/blocksums.h"

struct snapshot_file;

/*
 * Takes over fd, and what sums owns.  read: on the loop, when a block was read or cannot be.  NULL: no memory, and they are the
 * caller's still.
 */
struct snapshot_file *snapshot_file_new(struct jobs *files, int fd, const char *path, const struct blocksums *sums,
    void (*read)(void *ctx), void *ctx);
/* Removes the file.  What is being read of it ends first.  NULL: nothing. */
void snapshot_file_free(struct snapshot_file *f);
/*
 * The bytes from offset on, to the end of their block: *p, *n, borrowed until the next call.  TV_EAGAIN: they are being read.
 * TV_ECORRUPT: they are not what they were; TV_ESYS with errno; TV_ENOMEM.
 */
enum tv_err snapshot_file_read(struct snapshot_file *f, uint64_t offset, const uint8_t **p, size_t *n);

#endif
