/*
 * One job at a time in a thread of its own: checkpoints and snapshot files, which must not hold up the loop.
 */
#ifndef TV_RAFTD_ENGINE_WORKER_H
#define TV_RAFTD_ENGINE_WORKER_H

#include <ev.h>
#include <pthread.h>
#include <stdbool.h>

#include "common/base/err.h"
#include "common/base/mono.h"

struct worker {				/* caller's storage */
	struct ev_loop *loop;
	ev_async async;
	pthread_t thread;
	bool running, joined;		/* joined: it has ended, and done is due */
	void (*work)(void *ctx);	/* in the thread */
	void (*done)(void *ctx);	/* afterwards, on the loop */
	void *ctx;
};

void worker_init(struct worker *w, struct ev_loop *loop);
/* TV_EAGAIN while a job runs; TV_ESYS without a thread.  ctx must live until done. */
enum tv_err worker_start(struct worker *w, void (*work)(void *ctx), void (*done)(void *ctx), void *ctx);
/* Waits for a running job, without calling done yet.  False: it has not ended in so long. */
bool worker_ends_within(struct worker *w, struct mono time);
/* Waits for a running job and calls done; then nothing more happens. */
void worker_stop(struct worker *w);

#endif
