/* Numbers that grow with the pool; see scale.h. */
#include "config.h"

#include <math.h>

#include "common/base/assert.h"
#include "gossipd/core/swim/scale.h"

#define PUSHPULL_KNEE 32	/* members up to which exchanges keep their interval */
#define REACH 9.0		/* e^-9 is about 1 in 8,000 */

unsigned
scale_retransmits(unsigned mult, uint32_t known)
{
	return mult * (unsigned)ceil(log10((double)known + 1.0));
}

/* Each member hears a rumour that all send k times about k times: e^-k of them never do, and n * e^-k is 1 in e^9. */
unsigned
scale_reach(unsigned mult, uint32_t known)
{
	unsigned usual = scale_retransmits(mult, known);
	double want = known > 1 ? ceil(log((double)known) + REACH) : 0.0, most = (double)mult * ((double)known - 1.0);

	want = want < most ? want : most;
	return want > usual ? (unsigned)want : usual;
}

struct mono
scale_suspicion_min(unsigned mult, uint32_t known, struct mono probe_interval)
{
	double factor = log10(known > 1 ? (double)known : 1.0);
	int64_t permille = factor > 1.0 ? (int64_t)(factor * 1000.0) : 1000;

	return (struct mono){ (int64_t)mult * permille * (probe_interval.ns / 1000) };
}

unsigned
scale_confirmations(unsigned mult, uint32_t known)
{
	unsigned need = mult > 2 ? mult - 2 : 0;

	/* Neither the suspect nor we ourselves count. */
	return known < (uint64_t)need + 2 ? 0 : need;
}

struct mono
scale_suspicion(unsigned need, unsigned seen, struct mono min, struct mono max)
{
	double part, seconds;
	struct mono wait;

	TV_ASSERT(min.ns <= max.ns && seen <= need);
	if (need == 0)
		return min;
	part = log((double)seen + 1.0) / log((double)need + 1.0);
	seconds = mono_seconds(max) - part * (mono_seconds(max) - mono_seconds(min));
	wait = MONO_MS((int64_t)floor(seconds * 1000.0));
	return mono_before(wait, min) ? min : wait;
}

struct mono
scale_pushpull(struct mono interval, uint32_t known)
{
	if (known <= PUSHPULL_KNEE)
		return interval;
	return mono_mul(interval, (int64_t)ceil(log2((double)known) - log2(PUSHPULL_KNEE)) + 1);
}
