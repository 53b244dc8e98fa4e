/*
 * The archive that clients save and restore: gzip of a tar with meta.json, state.bin and SHA256SUMS, as Consul's is.
 * state.bin is a snapshot file (snapfile.h).  Streams both ways with bounded memory; needs no data base, so that
 * clusterctl reads archives too.
 *
 * What is read may be hostile: every length is bounded before it is believed, names other than the three, one of them
 * twice, links, and bytes behind the end are refused, and nothing is ever written to a path that an archive names.
 */
#ifndef TV_RAFTD_FSM_COPY_ARCHIVE_H
#define TV_RAFTD_FSM_COPY_ARCHIVE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/rd.h"

#define ARCHIVE_META_BYTES_MAX (256u << 10)
#define ARCHIVE_BLOCK_BYTES (256u << 10)	/* held of each stream at a time, about */

#define ARCHIVE_TAR_BLOCK 512
/* The head of a file in a tar (POSIX ustar): mode 0600, of now.  name: up to 99 bytes. */
void archive_head(uint8_t h[ARCHIVE_TAR_BLOCK], const char *name, uint64_t size);

/* Takes up to n bytes of the packed archive; *got 0: its end.  TV_ESYS: errno tells which way. */
typedef enum tv_err archive_source(void *ctx, void *p, size_t n, size_t *got);
struct archive_in;

/*
 * Reads up to state.bin.  state_max: largest state.bin that is accepted.  NULL with *err and a sentence: TV_EFORMAT for
 * what is no archive of ours, TV_ELIMIT, TV_ENOMEM, or what the source said.
 */
struct archive_in *archive_open(archive_source *source, void *ctx, uint64_t state_max, enum tv_err *err, char *errbuf,
    size_t cap);
/* Bytes of state.bin. */
uint64_t archive_state_bytes(const struct archive_in *a);
/* The next n bytes of state.bin, all of them.  snap_in_open_with() takes it. */
enum tv_err archive_state_read(void *archive, void *p, size_t n);
/* state.bin was read to its end: reads the rest, and compares all checksums. */
enum tv_err archive_finish(struct archive_in *a);
/* meta.json; whole and verified once archive_finish() said TV_OK. */
struct span archive_meta(const struct archive_in *a);
/* Hex SHA-256 of meta.json and state.bin, after archive_finish(). */
const char *archive_sum(const struct archive_in *a, bool state);
/* The sentence of the last error; "" when there is none. */
const char *archive_why(const struct archive_in *a);
void archive_close(struct archive_in *a);

/*
 * Packs a snapshot file and its meta.json into `path` (0600, made anew, synced).  *bytes: of the archive; *done grows
 * with the bytes of state.bin that are packed.  TV_ESYS: errno; the file is gone then.
 */
enum tv_err archive_write(const char *path, const char *state_path, struct span meta, uint64_t *bytes,
    _Atomic uint64_t *done);

#endif
