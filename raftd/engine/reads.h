/*
 * Linearizable reads: everything that arrives in one turn is confirmed by one ReadIndex round (thesis 6.4),
 * then waits until the state is as new as the confirmed index.  Unconfirmed rounds are asked
 * again until the deadline of each read.  Pure: no clock, no I/O.
 */
#ifndef TV_RAFTD_ENGINE_READS_H
#define TV_RAFTD_ENGINE_READS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "common/base/err.h"
#include "common/base/mono.h"
#include "common/base/rd.h"

struct read_wait;
/* TV_OK: read now.  TV_ENOLEADER: no leader confirmed it in time; TV_ETIMEOUT: the own state lags. */
typedef void read_done(struct read_wait *w, enum tv_err err);

struct read_wait {			/* embedded in the reader's record */
	read_done *done;
	struct mono deadline;
	/* The only key that it is about; false: it is about more.  May be NULL, for the same. */
	bool (*key)(struct read_wait *w, struct span *out);
	uint64_t index;			/* confirmed; while done is called with TV_OK */
	bool early;			/* and that is lower, since what is between does not touch the key */
	TAILQ_ENTRY(read_wait) link;	/* private from here */
	TAILQ_HEAD(read_list, read_wait) *list;
	uint64_t ctx;
	bool judged;			/* by reads_serve_early() */
	struct mono asked;
};

struct reads {				/* caller's storage */
	struct read_list fresh;		/* to be asked this turn */
	struct read_list asked;		/* by rising ctx */
	struct read_list parked;	/* refused; asked again after reads_retry() */
	struct read_list confirmed;	/* waiting for the state, by rising index: a later round is never told less */
	uint64_t ctx;			/* last round */
};

void reads_init(struct reads *r);
void reads_add(struct reads *r, struct read_wait *w);
/* Takes it out again, wherever it waits; done is not called. */
void reads_cancel(struct read_wait *w);
/* Starts a round for all fresh ones; returns its number, or 0 if there is nothing to ask. */
uint64_t reads_round(struct reads *r, struct mono now);
/* Answer of a round. */
void reads_answer(struct reads *r, uint64_t ctx, bool ok, uint64_t index);
/* Serves the first one, if it is confirmed at or below `applied`; false: there is none. */
bool reads_serve(struct reads *r, uint64_t applied);
/*
 * Serves those that are confirmed at an index up to `committed` and wait for the state, if no entry behind `applied` up to
 * that index touches their key: touches() tells, and each is judged once.
 */
void reads_serve_early(struct reads *r, uint64_t applied, uint64_t committed,
    bool (*touches)(void *ctx, uint64_t index, struct span key), void *ctx);
/* Is there none, wherever it waits? */
bool reads_none(const struct reads *r);
/* Would reads_serve() find one? */
bool reads_ready(const struct reads *r, uint64_t applied);
/* Parked ones, and rounds asked longer than `patience` ago, will be asked again. */
void reads_retry(struct reads *r, struct mono now, struct mono patience);
/* Those whose index is beyond what this server has and gets are told to ask the leader (TV_ENOTLEADER). */
void reads_refuse(struct reads *r, uint64_t last);
/* Ends those whose deadline has passed. */
void reads_expire(struct reads *r, struct mono now);

#endif
