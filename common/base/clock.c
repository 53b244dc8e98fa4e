/* The only reader of clocks. */
#include <time.h>

#include "common/base/assert.h"
#include "common/base/clock.h"

static int64_t
read_ns(clockid_t id)
{
	struct timespec ts;

	TV_ASSERT(clock_gettime(id, &ts) == 0);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

struct mono
clock_mono(void)
{
	return (struct mono){ read_ns(CLOCK_MONOTONIC) };
}

struct mono
clock_cpu(void)
{
	return (struct mono){ read_ns(CLOCK_PROCESS_CPUTIME_ID) };
}

struct mono
clock_thread_cpu(void)
{
	return (struct mono){ read_ns(CLOCK_THREAD_CPUTIME_ID) };
}

int64_t
clock_wall_ns(void)
{
	return read_ns(CLOCK_REALTIME);
}
