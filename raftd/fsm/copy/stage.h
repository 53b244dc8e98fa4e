/* A restore on its way through the log. */
#ifndef TV_RAFTD_FSM_COPY_STAGE_H
#define TV_RAFTD_FSM_COPY_STAGE_H

#include "raftd/fsm/state.h"

#define STAGE_CHUNK_BYTES_MAX (1u << 20)

/* What is staged, as the running transaction sees it. */
bool stage_now(struct fsm *f, struct fsm_stage *out);
bool stage_last(struct fsm *f, char id[37], uint64_t *index);
/* By a reader: the staged bytes at this offset; "" at the end.  TV_ENOENT: this restore is not staged whole (any more). */
enum tv_err stage_chunk(struct fsm *reader, const char *id, uint64_t offset, struct buf *out);
/* By a reader: what is staged, if it is all of this restore; else TV_ENOENT. */
enum tv_err stage_whole(struct fsm *reader, const char *id, struct fsm_stage *out);
void stage_last_key(struct tkey *k);

#endif
