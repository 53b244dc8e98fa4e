/*
 * Work that may wait for a disk, in a thread of its own: jobs one after the other in the order of the calls, and what
 * came of them on the loop.
 */
#ifndef TV_COMMON_PROC_JOBS_H
#define TV_COMMON_PROC_JOBS_H

#include <ev.h>
#include <stdbool.h>

#include "common/base/err.h"
#include "common/base/mono.h"

struct jobs;

/* The thread starts with the first job, and has this name (thread.h), which is borrowed.  NULL: no memory. */
struct jobs *jobs_new(struct ev_loop *loop, const char *name);
/*
 * work runs in the thread, done on the loop afterwards, never before this returns; done may be NULL.  ctx must live
 * until then.  TV_ENOMEM, TV_ESYS (no thread, or stopped): neither is called.
 */
enum tv_err jobs_add(struct jobs *j, void (*work)(void *ctx), void (*done)(void *ctx), void *ctx);
/* The same while no other job is there, else TV_EAGAIN: for long work that has no order and is begun again later. */
enum tv_err jobs_add_only(struct jobs *j, void (*work)(void *ctx), void (*done)(void *ctx), void *ctx);
/* Does a job wait or run, or has one run whose `done` was not called yet? */
bool jobs_busy(const struct jobs *j);
/* Waits for so long at most until all that was added has run, and calls no `done`.  False: it takes longer. */
bool jobs_end_within(struct jobs *j, struct mono time);
/*
 * Waits until all that was added has run, and calls every `done` that is left.  From then on jobs are refused.  NULL:
 * nothing.
 */
void jobs_stop(struct jobs *j);
/* After jobs_stop(), which it does otherwise. */
void jobs_free(struct jobs *j);

#endif
