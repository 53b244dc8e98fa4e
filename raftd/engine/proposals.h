/*
 * Writes on their way: first queued for the next turn of the loop (one batch), then waiting at their log
 * index until that entry is applied here.  Each proposal is answered, exactly once (S39, S40):
 *   applied at its index with its term      the result of the state machine
 *   another entry stands at its index       TV_ENOTLEADER: it was surely not applied
 *   outcome unknown at the deadline         TV_EUNKNOWN: it may have been applied
 *   still queued at the deadline            TV_EAGAIN: it was surely not applied
 * Pure: no clock, no I/O.
 */
#ifndef TV_RAFTD_ENGINE_PROPOSALS_H
#define TV_RAFTD_ENGINE_PROPOSALS_H

#include "common/base/histogram.h"
#include "raftd/fsm/fsm.h"

struct proposal;
/* err as above; result is NULL unless err is TV_OK.  The proposal is the caller's again. */
typedef void proposal_done(struct proposal *p, enum tv_err err, const struct fsm_result *result);

struct proposal {			/* embedded in the proposer's own record */
	proposal_done *done;
	uint64_t index, term;		/* filled in once it is in the log */
	struct mono deadline;
	struct mono begun;		/* set by the proposer; for proposals_time() */
	size_t at;			/* private: where the payload starts */
	uint32_t size;
};

struct proposals;

/* bytes_max: payload bytes that may be queued for one turn. */
struct proposals *proposals_new(size_t bytes_max);
/* Its callback is not called any more. */
void proposals_free(struct proposals *q);

/* Queues an entry as fsm_entry_write_judged() writes it.  TV_EAGAIN: too much is queued; TV_ENOMEM. */
enum tv_err proposals_add(struct proposals *q, struct proposal *p, uint16_t op, struct span args, struct span premises,
    struct mono deadline);
uint32_t proposals_queued(const struct proposals *q);
/* The next entries for RAFT_IN_PROPOSE: at most max; valid until the queue changes. */
const struct raft_entry *proposals_next(struct proposals *q, uint32_t max, uint32_t *count);
/* The core took those count entries and gave them these indexes and terms. */
enum tv_err proposals_accepted(struct proposals *q, const struct raft_entry *entries, uint32_t count);
/* Fails everything that is queued, not what waits in the log. */
void proposals_refuse(struct proposals *q, enum tv_err err);

/* Lowest index that a proposal waits for, or UINT64_MAX. */
uint64_t proposals_first(const struct proposals *q);
/* Entries up to this index are committed now: adds how long that took for those that a proposal waits for. */
void proposals_time(const struct proposals *q, uint64_t index, struct mono now, struct histogram *took);
/* The entry at this index was applied. */
void proposals_applied(struct proposals *q, uint64_t index, uint64_t term, const struct fsm_result *result);
/* Entries >= from were cut: they will not be applied. */
void proposals_truncated(struct proposals *q, uint64_t from);
/* The state jumped to this index by a snapshot: outcomes up to it are unknown. */
void proposals_skipped(struct proposals *q, uint64_t index);
/* Brings deadlines forward to `limit` (leadership was lost). */
void proposals_hurry(struct proposals *q, struct mono limit);
/* Ends those whose deadline has passed. */
void proposals_expire(struct proposals *q, struct mono now);

#endif
