/*
 * Work that may wait for a disk, in a thread of its own: jobs one after the other in the order of the calls, and what
 * came of them on the loop.
 */
#ifndef TV_COMMON_PROC_JOBS_H
#define TV_COMMON_PROC_JOBS_H

#include <ev.h>

#include "common/base/err.h"

struct jobs;

/* The thread starts with the first job.  NULL: no memory. */
struct jobs *jobs_new(struct ev_loop *loop);
/*
 * work runs in the thread, done on the loop afterwards, never before this returns; done may be NULL.  ctx must live
 * until then.  TV_ENOMEM, TV_ESYS (no thread, or stopped): neither is called.
 */
enum tv_err jobs_add(struct jobs *j, void (*work)(void *ctx), void (*done)(void *ctx), void *ctx);
/*
 * Waits until all that was added has run, and calls every `done` that is left.  From then on jobs are refused.  NULL:
 * nothing.
 */
void jobs_stop(struct jobs *j);
/* After jobs_stop(). */
void jobs_free(struct jobs *j);

#endif
