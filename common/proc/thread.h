/*
 * Threads: the only place that starts one, or waits for one for a bounded time.  Each has all signals blocked, since
 * they are the loop's, and a name for debuggers and top(1).
 */
#ifndef TV_COMMON_PROC_THREAD_H
#define TV_COMMON_PROC_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/mono.h"

#define THREAD_NAME_BYTES 16		/* with its NUL: Linux cuts what is longer */

/*
 * Starts start(arg) in a thread that the caller joins, with pthread_join(*out, ...).  name is copied.  0, or a code of
 * errno (ENOMEM, EAGAIN: the system has no more threads), and then nothing runs and *out is not set.
 */
int thread_start(pthread_t *out, const char *name, void *(*start)(void *arg), void *arg);
/* The same for a thread that is not joined, with a stack of so many bytes; 0: as large as the system's limit says. */
int thread_start_detached(const char *name, size_t stack_bytes, void *(*start)(void *arg), void *arg);
/*
 * pthread_cond_wait() until this time of clock_mono() at most, whatever the wall clock does meanwhile.  False: it has
 * passed.  True may come without a signal, as there.
 */
bool thread_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, struct mono end);

#endif
