/* Datacenters by distance. */
#include <stdlib.h>

#include "common/record/mpack.h"
#include "common/record/records.h"
#include "rpcd/wan/datacenters.h"

#define DATACENTERS_MAX 256
#define SERVERS_MAX 64			/* of one datacenter that are looked at */
#define NOISE_NS 1000000		/* estimates this close, or within a tenth, say nothing about which is nearer */

struct dc {
	struct span name;
	int64_t median_ns;
	unsigned place;			/* by name: ties keep that order */
};

/* WAN servers of a datacenter that did not leave, up to SERVERS_MAX. */
static unsigned
servers_of(const struct members *v, struct span dc, const struct member *out[SERVERS_MAX])
{
	unsigned n = 0;

	for (unsigned i = 0; i < members_count(v, POOL_WAN) && n < SERVERS_MAX; i++) {
		const struct member *m = members_at(v, POOL_WAN, i);

		if (m->status != MEMBER_LEFT && span_eqs(member_tag(m, "role"), "server") &&
		    span_eq_nocase(member_tag(m, "dc"), dc))
			out[n++] = m;
	}
	return n;
}

static int
by_number(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static int64_t
median(const struct members *v, const struct coords *p, struct span dc)
{
	const struct member *servers[SERVERS_MAX];
	int64_t rtts[SERVERS_MAX];
	unsigned n = servers_of(v, dc, servers), known = 0;

	for (unsigned i = 0; i < n; i++) {
		int64_t rtt = coords_rtt_ns(p, servers[i]->name);

		if (rtt != COORDINATE_FAR)
			rtts[known++] = rtt;
	}
	qsort(rtts, known, sizeof(*rtts), by_number);
	return known == 0 ? COORDINATE_FAR : rtts[known / 2];
}

static int
by_distance(const void *a, const void *b)
{
	const struct dc *x = a, *y = b;

	if (x->median_ns != y->median_ns)
		return x->median_ns < y->median_ns ? -1 : 1;
	return x->place < y->place ? -1 : 1;
}

/* Returns how many; the own one comes first whatever the estimates say. */
static unsigned
sorted_dcs(const struct members *v, const struct coords *p, struct dc out[DATACENTERS_MAX])
{
	struct span names[DATACENTERS_MAX];
	unsigned n = members_datacenters(v, names, DATACENTERS_MAX);

	for (unsigned i = 0; i < n; i++)
		out[i] = (struct dc){ names[i], i == 0 || p == NULL ? 0 : median(v, p, names[i]), i };
	if (n > 1)
		qsort(out + 1, n - 1, sizeof(*out), by_distance);
	return n;
}

static void
write_names(const struct members *v, const struct coords *p, struct buf *out)
{
	struct dc dcs[DATACENTERS_MAX];
	struct span names[DATACENTERS_MAX];
	unsigned n = sorted_dcs(v, p, dcs);
	struct text_list list = { .Values = { names, n, true } };

	for (unsigned i = 0; i < n; i++)
		names[i] = dcs[i].name;
	schema_pack(&text_list_schema, &list, out);
}

/* "node" of "node.datacenter". */
static struct span
short_name(struct span name, struct span dc)
{
	size_t end = name.len - dc.len;

	if (name.len > dc.len + 1 && name.p[end - 1] == '.' && memcmp(name.p + end, dc.p, dc.len) == 0)
		name.len = end - 1;
	return name;
}

/* False when none of its servers has a coordinate; nothing is written then. */
static bool
write_dc(const struct members *v, const struct coords *p, struct span dc, struct buf *out)
{
	const struct member *servers[SERVERS_MAX];
	struct coordinate at[SERVERS_MAX];
	struct node_coordinate recs[SERVERS_MAX];
	struct dc_coordinates rec = { .Datacenter = dc, .AreaID = span_str("wan"), .Coordinates = { recs, 0, true } };
	unsigned n = servers_of(v, dc, servers);

	for (unsigned i = 0; i < n; i++) {
		uint32_t k = rec.Coordinates.n;

		if (!coords_of(p, servers[i]->name, &at[k]))
			continue;
		recs[k] = (struct node_coordinate){ .Node = short_name(servers[i]->name, dc) };
		coordinate_to_rec(&at[k], &recs[k].Coord);
		rec.Coordinates.n++;
	}
	if (rec.Coordinates.n > 0)
		schema_pack(&dc_coordinates_schema, &rec, out);
	return rec.Coordinates.n > 0;
}

static void
write_coordinates(const struct members *v, const struct coords *p, struct buf *out)
{
	struct dc dcs[DATACENTERS_MAX];
	struct buf list = BUF_INIT(out->max);
	unsigned n = p == NULL ? 0 : sorted_dcs(v, p, dcs);
	uint32_t count = 0;

	for (unsigned i = 0; i < n; i++)
		count += write_dc(v, p, dcs[i].name, &list);
	mpw_array(out, count);
	buf_putspan(out, buf_span(&list));
	out->failed = out->failed || list.failed;
	buf_done(&list);
}

enum tv_err
datacenters_answer(void *ctx, const struct op_request *q, struct buf *out)
{
	const struct datacenters *d = ctx;

	if (q->op == OP_COORDINATE_DATACENTERS)
		write_coordinates(d->members, d->coords, out);
	else
		write_names(d->members, d->coords, out);
	return TV_OK;
}

unsigned
datacenters_nearest(const struct coords *p, struct members_server *servers, unsigned count)
{
	int64_t rtts[SERVERS_MAX], least = COORDINATE_FAR;
	unsigned near = 0;

	if (p == NULL || count > SERVERS_MAX)
		return count;
	for (unsigned i = 0; i < count; i++) {
		rtts[i] = coords_rtt_ns(p, servers[i].member->name);
		least = rtts[i] < least ? rtts[i] : least;
	}
	if (least == COORDINATE_FAR)
		return count;
	for (unsigned i = 0; i < count; i++) {
		struct members_server s = servers[i];

		if (rtts[i] > least + NOISE_NS && rtts[i] > least + least / 10)
			continue;
		servers[i] = servers[near];
		rtts[i] = rtts[near];
		servers[near++] = s;
	}
	return near;
}
