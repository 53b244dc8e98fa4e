/*
 * A histogram of durations: fixed buckets, four for each doubling from one microsecond to over an hour, no allocation.
 * Pure; not locked.  From daemon to daemon it goes as a text in `info` (common/net/msg.h: MSG_INFO).
 */
#ifndef TV_COMMON_BASE_HISTOGRAM_H
#define TV_COMMON_BASE_HISTOGRAM_H

#include "common/base/figure.h"
#include "common/base/mono.h"
#include "common/base/rd.h"

#define HISTOGRAM_BUCKETS 128

struct histogram {			/* all zero: empty */
	uint64_t count;
	int64_t sum_ns, min_ns, max_ns;
	double squares;			/* sum of ns * ns */
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* Counts one; a negative duration is counted as 0. */
void histogram_add(struct histogram *h, struct mono took);
/* How many lasted for 2^doublings microseconds at most; doublings is 2 to 32. */
uint64_t histogram_up_to(const struct histogram *h, unsigned doublings);
/* At least as long as the fraction q (0 to 1) of them: the end of a bucket, but never above the longest.  0: none. */
struct mono histogram_quantile(const struct histogram *h, double q);
/*
 * What `info` has of it, as name and value: NAME_histogram (the whole, for histogram_read() in rpcd, which shows it as
 * metrics), NAME_max_us, NAME_p50_us and NAME_p99_us.  Returns their number.
 */
unsigned histogram_info(const struct histogram *h, const char *name, figure_fn *fn, void *ctx);
/* Is it NAME_histogram?  Then *of is NAME. */
bool histogram_named(struct span name, struct span *of);
/* False: the text is none, and h is not set. */
bool histogram_read(struct span text, struct histogram *h);

#endif
