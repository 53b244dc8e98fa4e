/* The only reader of clocks. */
#ifndef TV_COMMON_BASE_CLOCK_H
#define TV_COMMON_BASE_CLOCK_H

#include <stdint.h>

#include "common/base/mono.h"

struct mono clock_mono(void);		/* CLOCK_MONOTONIC */
struct mono clock_cpu(void);		/* processor time that this process has used */
struct mono clock_thread_cpu(void);	/* ... and this thread */
int64_t clock_wall_ns(void);		/* CLOCK_REALTIME since 1970; for what people and entries show */

#endif
