/* From the results of a check to its status: thresholds.  Pure. */
#ifndef TV_RPCD_CHECK_VERDICT_H
#define TV_RPCD_CHECK_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/rd.h"

enum health { HEALTH_PASSING, HEALTH_WARNING, HEALTH_CRITICAL };

/* "passing", "warning", "critical". */
const char *health_name(enum health h);
/* Everything else is critical. */
enum health health_of(struct span name);

struct verdict {
	uint64_t passing_after;		/* so many successes in a row; 0 as 1, here and below */
	uint64_t warning_after;		/* failures; 0: as critical_after */
	uint64_t critical_after;
	uint64_t successes, failures;	/* in a row */
};

/*
 * known: status is the result of earlier runs, and further ones must reach the thresholds to change it.  Else the first
 * one does.
 */
void verdict_init(struct verdict *v, uint64_t passing_after, uint64_t warning_after, uint64_t critical_after,
    bool known, enum health status);
/*
 * A result.  Does it take effect?  Then *effect is the status.  Passing and warning are successes.  Below a threshold
 * neither status nor output change.  A result that is firm takes effect in any case.
 */
bool verdict_take(struct verdict *v, enum health result, bool firm, enum health *effect);

#endif
