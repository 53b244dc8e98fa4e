/*
 * The snapshot file: header, records in key order, end mark with their number, checksum of all before it.
 *
 *   "TVSNAP1\n" | u32be version | u64be index | u64be term
 *   u32be key bytes | u32be value bytes | key | value      (repeated; keys ascend)
 *   u32be 0 | u32be 0 | u64be number of records
 *   32 bytes BLAKE2b
 */
#ifndef TV_RAFTD_FSM_COPY_SNAPFILE_H
#define TV_RAFTD_FSM_COPY_SNAPFILE_H

#include <stdio.h>

#include <sodium.h>

#include "common/base/buf.h"

#define SNAP_SUM_BYTES 32
#define SNAP_VERSION 1

struct snap_out {
	FILE *file;
	crypto_generichash_state sum;
	uint64_t records, bytes;
	bool failed;			/* sticky; errno of the first failure in `why` */
	int why;
};
/* Creates `path` (0600, truncated) with the header. */
enum tv_err snap_out_open(struct snap_out *s, const char *path, uint64_t index, uint64_t term);
void snap_out_record(struct snap_out *s, struct span key, struct span val);
/* Ends and syncs the file.  *checksum: first 8 bytes of the sum.  On an error the file is removed. */
enum tv_err snap_out_close(struct snap_out *s, const char *path, uint64_t *bytes, uint64_t *checksum);

/* The next n bytes, all of them: TV_OK, TV_ECORRUPT when there are fewer, or what went wrong. */
typedef enum tv_err snap_source(void *ctx, void *p, size_t n);

struct snap_in {
	FILE *file;			/* NULL: another source */
	snap_source *source;
	void *ctx;
	crypto_generichash_state sum;
	uint32_t version;
	uint64_t index, term, records, seen;
	uint64_t left;			/* bytes of the file not read yet */
	struct buf key, val;		/* the record at hand */
};
/* Opens and reads the header.  TV_ECORRUPT when it is no snapshot, TV_EINVAL: it is a whole one of another version. */
enum tv_err snap_in_open(struct snap_in *s, const char *path);
/* The same from `bytes` bytes of another source; TV_EFORMAT for another program's.  s->version tells which. */
enum tv_err snap_in_open_with(struct snap_in *s, snap_source *source, void *ctx, uint64_t bytes);
/* TV_OK with a record; TV_EOF at a sound end (count and checksum are right); TV_ECORRUPT; TV_ESYS; TV_ENOMEM. */
enum tv_err snap_in_next(struct snap_in *s, struct span *key, struct span *val);
void snap_in_close(struct snap_in *s);

#endif
