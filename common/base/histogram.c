/* Histograms of durations. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/histogram.h"

#define NAME_END "_histogram"
#define TEXT_BYTES 4096			/* 128 buckets of up to 25 bytes, if all held more than any can */

/* Of the microseconds begun before this one: so an end of a bucket belongs to it. */
static unsigned
bucket_of(uint64_t us)
{
	unsigned log2, at;

	if (us < 4)
		return (unsigned)us;
	log2 = 63 - (unsigned)__builtin_clzll(us);
	at = 4 * (log2 - 1) + (unsigned)((us >> (log2 - 2)) & 3);
	return at < HISTOGRAM_BUCKETS ? at : HISTOGRAM_BUCKETS - 1;
}

static int64_t
bucket_end_us(unsigned at)
{
	if (at < 4)
		return at + 1;
	return ((int64_t)(at % 4) + 5) << (at / 4 - 1);
}

void
histogram_add(struct histogram *h, struct mono took)
{
	int64_t ns = took.ns > 0 ? took.ns : 0;

	if (h->count++ == 0 || ns < h->min_ns)
		h->min_ns = ns;
	if (ns > h->max_ns)
		h->max_ns = ns;
	h->sum_ns += ns;
	h->squares += (double)ns * (double)ns;
	h->buckets[bucket_of(ns == 0 ? 0 : (uint64_t)(ns - 1) / 1000)]++;
}

uint64_t
histogram_up_to(const struct histogram *h, unsigned doublings)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < 4 * (doublings - 1) && i < HISTOGRAM_BUCKETS - 1; i++)
		n += h->buckets[i];
	return n;
}

struct mono
histogram_quantile(const struct histogram *h, double q)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
		n += h->buckets[i];
		if (n > 0 && (double)n >= q * (double)h->count)
			return mono_min(MONO_US(bucket_end_us(i)), (struct mono){ h->max_ns });
	}
	return (struct mono){ h->max_ns };
}

/* "COUNT SUM MIN MAX SQUARES" and " BUCKET:COUNT" for each that is not empty. */
static void
histogram_text(const struct histogram *h, char text[TEXT_BYTES])
{
	int n = snprintf(text, TEXT_BYTES, "%" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64 " %.17g", h->count, h->sum_ns,
	    h->min_ns, h->max_ns, h->squares);

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		if (h->buckets[i] > 0)
			n += snprintf(text + n, TEXT_BYTES - (size_t)n, " %u:%" PRIu64, i, h->buckets[i]);
}

unsigned
histogram_info(const struct histogram *h, const char *name, figure_fn *fn, void *ctx)
{
	const struct { const char *end; struct mono v; } values[] = {
		{ "max_us", { h->max_ns } }, { "p50_us", histogram_quantile(h, 0.5) },
		{ "p99_us", histogram_quantile(h, 0.99) },
	};
	char label[64], text[TEXT_BYTES];

	histogram_text(h, text);
	snprintf(label, sizeof(label), "%s" NAME_END, name);
	fn(ctx, label, text);
	for (unsigned i = 0; i < 3; i++) {
		snprintf(label, sizeof(label), "%s_%s", name, values[i].end);
		figure_put(fn, ctx, label, (uint64_t)(values[i].v.ns + 999) / 1000);
	}
	return 4;
}

bool
histogram_named(struct span name, struct span *of)
{
	size_t end = sizeof(NAME_END) - 1;

	if (name.len < end || memcmp(name.p + name.len - end, NAME_END, end) != 0)
		return false;
	*of = span_of(name.p, name.len - end);
	return true;
}

bool
histogram_read(struct span text, struct histogram *h)
{
	struct histogram read = { .count = 0 };
	char copy[TEXT_BYTES], *at = copy;
	uint64_t buckets = 0;
	unsigned bucket;
	int n = 0;

	if (text.len >= sizeof(copy))
		return false;
	memcpy(copy, text.p, text.len);
	copy[text.len] = '\0';
	if (sscanf(at, "%" SCNu64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %lf%n", &read.count, &read.sum_ns, &read.min_ns,
	    &read.max_ns, &read.squares, &n) != 5)
		return false;
	while (*(at += n) != '\0') {
		uint64_t count;

		if (sscanf(at, " %u:%" SCNu64 "%n", &bucket, &count, &n) != 2 || bucket >= HISTOGRAM_BUCKETS)
			return false;
		read.buckets[bucket] = count;
		buckets += count;
	}
	if (buckets != read.count)
		return false;
	*h = read;
	return true;
}
