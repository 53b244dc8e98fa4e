/* How far wall clocks are from ours. */
#include "raftd/peers/clock_offset.h"

#define RTT_MAX MONO_S(1)

static uint64_t
distance(int64_t ms)
{
	return ms < 0 ? (uint64_t)-ms : (uint64_t)ms;
}

bool
clock_offset(uint64_t there_ms, uint64_t here_ms, struct mono rtt, int64_t *ms)
{
	int64_t half = mono_ms(rtt) / 2, off;

	if (there_ms == 0 || there_ms > INT64_MAX / 2 || here_ms > INT64_MAX / 2 || rtt.ns < 0 || rtt.ns > RTT_MAX.ns)
		return false;
	off = (int64_t)there_ms - ((int64_t)here_ms - half);
	*ms = distance(off) <= (uint64_t)half ? 0 : off;
	return true;
}

/* The lower one of those in the middle. */
uint64_t
clock_offset_of_most(const int64_t *ms, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		unsigned below = 0, same = 0;

		for (unsigned j = 0; j < count; j++) {
			below += distance(ms[j]) < distance(ms[i]);
			same += distance(ms[j]) == distance(ms[i]);
		}
		if (below <= (count - 1) / 2 && below + same > (count - 1) / 2)
			return distance(ms[i]);
	}
	return 0;
}
