/*
 * The threads of the state: one applies, others read beside it.  The loop hands in work and is told what came of it; it looks at no
 * page itself.
 *
 * Reads of one record go to a thread that never waits: what is not in the cache, or is being changed, it leaves to the slow ones,
 * which may wait for the disk.  So what is in the cache can be read whatever the disk does.  Lists, and what the leader's duties want to
 * know, have threads of their own: no short read waits for them.
 *
 * All functions are the loop's, and all callbacks run on it.
 */
#ifndef TV_RAFTD_ENGINE_STATETHREAD_H
#define TV_RAFTD_ENGINE_STATETHREAD_H

#include <ev.h>

#include "common/base/arena.h"
#include "common/base/figure.h"
#include "raftd/engine/lane.h"
#include "raftd/fsm/fsm.h"
#include "raftd/store/store.h"

#define STATE_BATCH_ENTRIES 1024	/* at most in one */
#define STATE_BATCHES 3			/* under way at a time */
#define STATE_ARGS_SHORT 112		/* bytes of arguments and token that need no memory of their own */
#define STATE_ANSWER_SHORT 480		/* and of an answer */

struct statethread;

/* Entries to be applied in one transaction. */
struct state_batch {
	/* From the engine. */
	uint64_t first;			/* index of the first one */
	uint32_t count;
	struct raft_entry *entries;	/* room for STATE_BATCH_ENTRIES; their payloads stay until the batch is given back */
	bool from_log;			/* entries is to be filled from the log: up to count of them */
	bool wanted;			/* a callback waits for results */
	bool plain;			/* a RESTORE_COMMIT at its head is an entry as any other */
	bool quiet;			/* it comes back when the loop looks, see statethread_collect(): nothing wakes the loop for it */
	/* What came of it. */
	uint32_t applied;		/* so many from the first on; 0 also when the batch before ended early */
	struct fsm_result *results;	/* of these, if wanted */
	bool restore;			/* the next one, alone in `entries`, is a RESTORE_COMMIT */
	char restore_id[37];
	enum tv_err err;		/* of the state machine, or of reading the log, see `unread` */
	bool unread;
	int sys;			/* errno of that */
	struct fsm_touches *touches;	/* owned */
	/* Private. */
	struct lane_job job;
	uint8_t kind;
	struct state_batch *next;
	struct arena arena, read;
};

struct state_read;
typedef void state_read_done(struct state_read *r, void *ctx);

/* A read of the state, and its answer. */
struct state_read {
	/* From `done` on. */
	struct fsm_answer answer;	/* its text is in the read's memory */
	struct span value;
	uint64_t applied;		/* the state that it was read in is that of this index, or newer */
	struct buf large;		/* the value, when it is not small; may be taken out of here */
	unsigned replaced;		/* fsm_replaced() before */
	const struct fsm_rights *rights;	/* that it was judged by; may be taken out of here.  NULL: none */
	bool ended;			/* done was called */
	/* Private. */
	struct lane_job job;
	uint8_t kind;
	bool list;
	_Atomic bool dropped;		/* the thread that reads looks at it at each page */
	enum { READ_OWN, READ_FOR, READ_JUDGE } way;
	const struct op *op;
	struct span args, token;	/* one behind the other */
	state_read_done *done;
	void *ctx;
	struct state_read *next;
	uint8_t short_args[STATE_ARGS_SHORT], small[STATE_ANSWER_SHORT];
};

struct state_events {
	/* This batch is back, in the order of statethread_apply(). */
	void (*applied)(void *ctx, struct state_batch *b);
};

/* Without a state at first: nothing can be read or applied.  NULL: no memory. */
struct statethread *statethread_new(struct ev_loop *loop);
/* The state is open: starts the threads.  It and the log are borrowed.  Once.  TV_ENOMEM, TV_ESYS: no thread. */
enum tv_err statethread_open(struct statethread *s, struct fsm *f, struct log_store *log);
/* The engine's callbacks for batches. */
void statethread_events(struct statethread *s, const struct state_events *events, void *ctx);
/*
 * Waits for work that runs; what was not begun, and every callback, is dropped: a module that handed in a ctx frees it in its own end.
 * From then on work is refused (TV_ESYS).  NULL: nothing.
 */
void statethread_stop(struct statethread *s);
/* After statethread_stop(), and after all reads were given back. */
void statethread_free(struct statethread *s);

/* -- applying -- */
/* An empty one; NULL: as many as may be are under way. */
struct state_batch *statethread_batch(struct statethread *s);
void statethread_apply(struct statethread *s, struct state_batch *b);
/* After it came back, or instead of applying it. */
void statethread_batch_done(struct statethread *s, struct state_batch *b);
/* Batches under way. */
unsigned statethread_applying(const struct statethread *s);
/* Takes back quiet batches that have ended, and what has ended besides. */
void statethread_collect(struct statethread *s);

/* -- reading -- */
/* May another read begin?  Else wait until one has ended. */
bool statethread_may_read(const struct statethread *s, const struct op *op);
/*
 * With the rights of this token.  args and token are copied.  done is called once, never before this returns, unless the read is dropped.
 * NULL: no memory, or no state.
 */
struct state_read *statethread_read(struct statethread *s, const struct op *op, struct span args, struct span token,
    state_read_done *done, void *ctx);
/* The same for this server itself, which may see everything. */
struct state_read *statethread_look(struct statethread *s, const struct op *op, struct span args, state_read_done *done, void *ctx);
/* The same, of what is no read: may it be carried out?  See fsm_judge(). */
struct state_read *statethread_judge(struct statethread *s, const struct op *op, struct span args, struct span token,
    state_read_done *done, void *ctx);
/* Gives it back, whether it has ended or not.  NULL: nothing. */
void statethread_drop(struct statethread *s, struct state_read *r);
/* Before the loop sleeps: hands over what was asked since the last call.  awaited: quiet batches are to wake the loop after all. */
void statethread_flush(struct statethread *s, bool awaited);

/* -- other work -- */
/*
 * work runs in a thread that may wait, with a reader of the state between fsm_read_begin() and fsm_read_end(); done on the loop
 * afterwards, never before this returns.  ctx lives until done.  TV_ENOMEM, TV_ESYS, TV_EAGAIN (the state is not open yet):
 * neither is called.
 */
enum tv_err statethread_call(struct statethread *s, void (*work)(struct fsm *reader, void *ctx), void (*done)(void *ctx),
    void *ctx);
/* The same; given_up instead of done, on the loop too, when statethread_stop() comes before it.  Else no callback is called then. */
enum tv_err statethread_call_or(struct statethread *s, void (*work)(struct fsm *reader, void *ctx), void (*done)(void *ctx),
    void (*given_up)(void *ctx), void *ctx);
/* The same as statethread_call() in the applying thread, between batches: work may change the state, or replace it. */
enum tv_err statethread_between(struct statethread *s, void (*work)(struct fsm *f, void *ctx), void (*done)(void *ctx),
    void *ctx);
/* Name and value pairs for info. */
void statethread_info(const struct statethread *s, figure_fn *fn, void *ctx);

#endif
