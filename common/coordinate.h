/*
 * A network coordinate, and the estimate that two of them give.  How coordinates come about is gossipd's business;
 * raftd and rpcd only keep and compare them.  Units are seconds; `error` has none.
 */
#ifndef TV_COORDINATE_H
#define TV_COORDINATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/records.h"

#define COORDINATE_DIMENSIONS 8
#define COORDINATE_MAX 10.0		/* no honest value is larger: probes that take longer are not measured */
#define COORDINATE_FAR INT64_MAX	/* distance to what has no coordinate */

struct coordinate {
	double vec[COORDINATE_DIMENSIONS];
	double error, adjustment, height;
};

/* Finite values that an honest node can have: error and height not negative, nothing beyond COORDINATE_MAX (S138). */
bool coordinate_plausible(const struct coordinate *c);
/* From a record of the API.  False: another number of dimensions, or not plausible; *out is then undefined. */
bool coordinate_of_rec(const struct coordinate_rec *rec, struct coordinate *out);
/* The reverse; the list borrows c->vec. */
void coordinate_to_rec(const struct coordinate *c, struct coordinate_rec *rec);
/*
 * Estimated round trip in nanoseconds, at least 0.  Both must be plausible.  Source: the distance of the vectors, both
 * heights, and both adjustments as long as the sum stays positive, as every Serf node computes it.
 */
int64_t coordinate_rtt_ns(const struct coordinate *a, const struct coordinate *b);

#endif
