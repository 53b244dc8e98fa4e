/* The record of the applied position, the tables' indexes and counts. */
#ifndef TV_RAFTD_FSM_TABLE_META_H
#define TV_RAFTD_FSM_TABLE_META_H

#include "raftd/fsm/state.h"

void fsm_count(struct fsm *f, enum fsm_tally which, int by);
uint64_t fsm_index_of(const struct fsm *f, enum fsm_index which);
/* The highest one of a set of tables: FX_SET(NODES) | FX_SET(CHECKS). */
#define FX_SET(name) (UINT64_C(1) << FX_##name)
uint64_t fsm_index_of_set(const struct fsm *f, uint64_t set);

void meta_key(struct tkey *k);
/* Loads the meta record into f (zeros when there is none). */
enum tv_err fsm_load_meta(struct fsm *f);
void fsm_store_meta(struct fsm *f);
/* Is this a sound meta record of that applied position?  TV_ECORRUPT, or TV_EINVAL: of a version to come. */
enum tv_err fsm_meta_is(struct span val, uint64_t index, uint64_t term);
/*
 * The archive's index as the API showed it there, and the version of the state machine that it needs; TV_ECORRUPT also
 * beyond FSM_INDEX_MAX; TV_EINVAL as above: then needs is the version that we do not know.
 */
enum tv_err fsm_meta_position(struct span val, uint64_t *index, uint8_t *needs);
/* Meta record of a state that was restored by the log's entry `applied`; at: the API's index of that. */
void fsm_meta_of_restore(struct buf *b, uint64_t applied, uint64_t term, uint64_t at, uint8_t needs,
    const uint64_t tally[FT_COUNT]);

#endif
