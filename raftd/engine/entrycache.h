/*
 * Recent log entries with their payloads, shared by the log writer, the senders and apply.
 *
 * A contiguous range of indexes.  Payloads are copied once into large blocks; a block goes when its last
 * entry was evicted or cut AND the log thread has finished every batch that may point into it (the
 * sequence number given with the append).  Pure: no threads, no clock.  Used on the loop thread; the log thread
 * only reads payload bytes, which stay put until entrycache_written().
 */
#ifndef TV_RAFTD_ENGINE_ENTRYCACHE_H
#define TV_RAFTD_ENGINE_ENTRYCACHE_H

#include "raftd/core/raft.h"

struct entrycache;

/* soft_max: payload bytes kept beyond what must stay.  NULL: no memory. */
struct entrycache *entrycache_new(size_t soft_max);
void entrycache_free(struct entrycache *c);
/*
 * Adds the entry after the last one (any index while empty; asserted) with a copy of its payload.
 * seq: the log batch that will write it.  Returns the stored entry, valid until it is evicted or cut,
 * or NULL without memory.
 */
const struct raft_entry *entrycache_append(struct entrycache *c, const struct raft_entry *e, uint64_t seq);
/* NULL when not held. */
const struct raft_entry *entrycache_get(const struct entrycache *c, uint64_t index);
/* Index of the oldest one that is held; 0: none is. */
uint64_t entrycache_first(const struct entrycache *c);
/* Forgets entries >= from. */
void entrycache_truncate(struct entrycache *c, uint64_t from);
/* Forgets all. */
void entrycache_clear(struct entrycache *c);
/* Forgets the oldest entries with index <= upto while more than soft_max bytes are held. */
void entrycache_evict(struct entrycache *c, uint64_t upto);
/* Batches up to seq are finished: blocks that waited for them go. */
void entrycache_written(struct entrycache *c, uint64_t seq);
/* Payload bytes of the entries held, and bytes of memory in blocks. */
size_t entrycache_bytes(const struct entrycache *c);
size_t entrycache_memory(const struct entrycache *c);

#endif
