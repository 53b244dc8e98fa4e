/*
 * install-meta: what a received snapshot that is being installed is about.  [index, term, configuration, checksum] in
 * msgpack; doc/storage.md.
 */
#ifndef TV_RAFTD_SNAPSHOT_INSTALL_META_H
#define TV_RAFTD_SNAPSHOT_INSTALL_META_H

#include "common/base/buf.h"
#include "raftd/core/raft.h"

#define INSTALL_META_BYTES_MAX (1u << 20)

/* config: as raft_config_write() has it.  b->failed: no memory, or too large. */
void install_meta_write(struct buf *b, uint64_t index, uint64_t term, struct span config);
/* TV_ECORRUPT when it is not whole, or the checksum is wrong. */
enum tv_err install_meta_read(struct span text, uint64_t *index, uint64_t *term, struct raft_config *config);
/* The first bytes of a hash as a number, as checksums of snapshots are told. */
uint64_t snapshot_sum(const uint8_t *hash);

#endif
