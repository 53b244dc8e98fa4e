/*
 * What the core remembers of the log: the term and the payload size of each entry, compactly.
 *
 * Terms are kept as runs (start, term): there are as many runs as there were leaders, not entries.  Sizes are a
 * ring of 32-bit numbers, so 100,000 entries cost 400 KB.  All searches are O(log runs).
 */
#ifndef TV_RAFTD_CORE_LOGIDX_H
#define TV_RAFTD_CORE_LOGIDX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct term_run {
	uint64_t start, term;		/* entries from `start` to the next run's start - 1 */
};

struct logidx {
	uint64_t first, last;		/* entries held; last == first - 1 when there are none */
	uint64_t base_term;		/* term of entry first - 1; 0: not known, or first is 1 */
	struct term_run *runs;		/* owned; terms strictly grow */
	size_t run_count, run_cap;
	uint32_t *sizes;		/* owned ring: payload size of entry i at sizes[i & (size_cap - 1)] */
	size_t size_cap;		/* 0 or a power of two */
};

void logidx_init(struct logidx *x);
void logidx_done(struct logidx *x);
/* Makes room for n more entries, each possibly of a new term; false without memory.  Then n appends cannot fail. */
bool logidx_reserve(struct logidx *x, size_t n);
/* Adds entry last + 1.  Room must have been reserved; terms never go down (both asserted). */
void logidx_append(struct logidx *x, uint64_t term, uint32_t size);
/* Forgets entries >= from (from > first - 1). */
void logidx_truncate(struct logidx *x, uint64_t from);
/* Forgets entries <= upto (upto <= last); the term at upto stays known.  Gives memory back after a burst. */
void logidx_compact(struct logidx *x, uint64_t upto);
/* Forgets everything; the next entry will be index + 1 and `term` is the term at index (0: not known). */
void logidx_reset(struct logidx *x, uint64_t index, uint64_t term);
/*
 * Term at index into *term.  Known for first - 1 (when base_term is, or when it is 0, before the first entry
 * of all) up to last; false elsewhere.
 */
bool logidx_term(const struct logidx *x, uint64_t index, uint64_t *term);
/* Term of the last entry, or of first - 1 in an empty log. */
uint64_t logidx_last_term(const struct logidx *x);
/* Payload bytes of an entry within [first, last]. */
uint32_t logidx_size(const struct logidx *x, uint64_t index);
/* Largest index <= upto whose term is <= term; 0 when there is none that is known. */
uint64_t logidx_find_le(const struct logidx *x, uint64_t upto, uint64_t term);
/* How many entries from `from` on fit into count_max and bytes_max: at least 1 when from <= last. */
uint32_t logidx_batch(const struct logidx *x, uint64_t from, uint32_t count_max, uint64_t bytes_max);

#endif
