/*
 * Repeated log lines: a line that was logged is suppressed for a period and counted, so that a peer that fails in the
 * same way again and again costs one line per period.  A fixed table; what the caller keys by is its own affair.
 * Pure: the time is an argument.
 */
#ifndef TV_COMMON_BASE_LOG_REPEATS_H
#define TV_COMMON_BASE_LOG_REPEATS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/mono.h"

#define LOG_REPEATS_MAX 64

struct log_repeat {
	uint64_t key;			/* a hash of whatever makes two lines the same */
	bool used;
	struct mono logged;		/* when it was logged last */
	unsigned suppressed;		/* since then */
};

struct log_repeats {			/* zeroed, but for the period, it is empty */
	struct mono period;
	struct log_repeat lines[LOG_REPEATS_MAX];
};

/* May this line be logged now?  false: it was, less than a period ago, and is counted. */
bool log_repeats_due(struct log_repeats *r, uint64_t key, struct mono now);
/*
 * The line is logged now: its period begins.  Returns how often it was suppressed before.  In a full table a new line
 * replaces the one that was logged longest ago, whose count is lost.
 */
unsigned log_repeats_logged(struct log_repeats *r, uint64_t key, struct mono now);

#endif
