/* Network coordinates as values; see coordinate.h. */
#include <math.h>

#include "common/record/coordinate.h"
#include "common/record/member.h"
#include "common/record/mpack.h"
#include "common/record/records.h"

#define ENTRY_FIELDS 5

/* False for NaN too. */
static bool
within(double low, double x, double high)
{
	return x >= low && x <= high;
}

bool
coordinate_plausible(const struct coordinate *c)
{
	for (int i = 0; i < COORDINATE_DIMENSIONS; i++)
		if (!within(-COORDINATE_MAX, c->vec[i], COORDINATE_MAX))
			return false;
	return within(0, c->error, COORDINATE_MAX) && within(-COORDINATE_MAX, c->adjustment, COORDINATE_MAX) &&
	    within(0, c->height, COORDINATE_MAX);
}

bool
coordinate_of_rec(const struct coordinate_rec *rec, struct coordinate *out)
{
	if (rec->Vec.n != COORDINATE_DIMENSIONS)
		return false;
	for (int i = 0; i < COORDINATE_DIMENSIONS; i++)
		out->vec[i] = rec->Vec.v[i];
	out->error = rec->Error;
	out->adjustment = rec->Adjustment;
	out->height = rec->Height;
	return coordinate_plausible(out);
}

void
coordinate_to_rec(const struct coordinate *c, struct coordinate_rec *rec)
{
	*rec = (struct coordinate_rec){
		.Vec = { (double *)(uintptr_t)c->vec, COORDINATE_DIMENSIONS, true },
		.Error = c->error, .Adjustment = c->adjustment, .Height = c->height,
	};
}

void
coordinate_pack(struct buf *b, struct span name, const struct coordinate *c)
{
	mpw_array(b, ENTRY_FIELDS);
	mpw_str(b, name);
	mpw_f64(b, c->error);
	mpw_f64(b, c->adjustment);
	mpw_f64(b, c->height);
	mpw_array(b, COORDINATE_DIMENSIONS);
	for (int i = 0; i < COORDINATE_DIMENSIONS; i++)
		mpw_f64(b, c->vec[i]);
}

enum tv_err
coordinate_unpack(struct rd *r, struct span *name, struct coordinate *c)
{
	if (mpr_array(r) != ENTRY_FIELDS)
		rd_fail(r, TV_EFORMAT);
	*name = mpr_bytes(r, MEMBER_NAME_BYTES_MAX);
	c->error = mpr_f64(r);
	c->adjustment = mpr_f64(r);
	c->height = mpr_f64(r);
	if (mpr_array(r) != COORDINATE_DIMENSIONS)
		rd_fail(r, TV_EFORMAT);
	for (int i = 0; i < COORDINATE_DIMENSIONS; i++)
		c->vec[i] = mpr_f64(r);
	return r->err;
}

double
coordinate_distance(const struct coordinate *a, const struct coordinate *b)
{
	double sum = 0;

	for (int i = 0; i < COORDINATE_DIMENSIONS; i++)
		sum += (a->vec[i] - b->vec[i]) * (a->vec[i] - b->vec[i]);
	return sqrt(sum) + a->height + b->height;
}

struct mono
coordinate_rtt(const struct coordinate *a, const struct coordinate *b)
{
	double distance = coordinate_distance(a, b), adjusted = distance + a->adjustment + b->adjustment;

	return (struct mono){ (int64_t)((adjusted > 0 ? adjusted : distance) * 1e9) };
}
