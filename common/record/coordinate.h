/*
 * A network coordinate, and the estimate that two of them give.  How coordinates come about is gossipd's business
 * (gossipd/core/coord/coord.h); the others only keep and compare them.  Units are seconds; `error` has none.
 */
#ifndef TV_COMMON_RECORD_COORDINATE_H
#define TV_COMMON_RECORD_COORDINATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/mono.h"
#include "common/base/rd.h"

struct coordinate_rec;		/* common/record/records.h */

#define COORDINATE_DIMENSIONS 8
#define COORDINATE_MAX 10.0		/* no honest value is larger: probes that take longer are not measured */
#define COORDINATE_FAR INT64_MAX	/* distance to what has no coordinate */

struct coordinate {
	double vec[COORDINATE_DIMENSIONS];
	double error, adjustment, height;
};

/*
 * Values that an honest node can have: finite, error and height not negative, nothing beyond COORDINATE_MAX (S138).
 * Deployed nodes check only that they are finite; one peer that claims to be hours away then moves them there.
 */
bool coordinate_plausible(const struct coordinate *c);
/* From a record of the API.  False: another number of dimensions, or not plausible; *out is then undefined. */
bool coordinate_of_rec(const struct coordinate_rec *rec, struct coordinate *out);
/* The reverse; the list borrows c->vec. */
void coordinate_to_rec(const struct coordinate *c, struct coordinate_rec *rec);
/* An entry of MSG_GOSSIP_COORDS: [str name, f64 error, f64 adjustment, f64 height, [8 x f64]]. */
void coordinate_pack(struct buf *b, struct span name, const struct coordinate *c);
/* The reverse; name borrows the input.  The reader's error; whether the values are plausible is for the caller. */
enum tv_err coordinate_unpack(struct rd *r, struct span *name, struct coordinate *c);
/* The distance of the vectors and both heights, in seconds. */
double coordinate_distance(const struct coordinate *a, const struct coordinate *b);
/*
 * Estimated round trip between two nodes, in whole nanoseconds; at least 0.  Both must be plausible.  Source: the
 * distance, and both adjustments as long as the sum stays positive, as every Serf node computes it.
 */
struct mono coordinate_rtt(const struct coordinate *a, const struct coordinate *b);

#endif
