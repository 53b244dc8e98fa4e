/* Queries that may be answered here, see queries.h. */
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/record/member.h"
#include "common/record/mpack.h"
#include "rpcd/event/queries.h"

#define FIELD_BYTES_MAX (64u << 10)
#define QUERY_BYTES_MAX (64u << 10)	/* name, payload and asker together */
#define TIMEOUT_MS_MAX 86400000

struct kept {
	struct heard rec;		/* spans in `bytes` */
	uint8_t bytes[];
};

struct queries {
	struct kept *ring[QUERIES_MAX];
	unsigned first, count;
	uint64_t newest;
	struct waits waits;
};

static const struct heard *
at(const struct queries *q, unsigned i)
{
	return &q->ring[(q->first + i) % QUERIES_MAX]->rec;
}

static void
drop_oldest(struct queries *q)
{
	free(q->ring[q->first]);
	q->first = (q->first + 1) % QUERIES_MAX;
	q->count--;
}

static void
drop_ended(struct queries *q)
{
	struct mono now = clock_mono();

	while (q->count > 0 && !mono_before(now, at(q, 0)->deadline))
		drop_oldest(q);
}

const struct heard *
queries_next(const struct queries *q, uint64_t number)
{
	struct mono now = clock_mono();

	for (unsigned i = 0; i < q->count; i++)
		if (at(q, i)->number > number && mono_before(now, at(q, i)->deadline))
			return at(q, i);
	return NULL;
}

uint64_t
queries_newest(const struct queries *q)
{
	return q->newest;
}

static struct span
put(struct kept *k, size_t *used, struct span s)
{
	struct span copy = span_of(k->bytes + *used, s.len);

	if (s.len > 0)
		memcpy(k->bytes + *used, s.p, s.len);
	*used += s.len;
	return copy;
}

static void
add(struct queries *q, const struct heard *h)
{
	struct kept *k = malloc(sizeof(*k) + h->name.len + h->payload.len + h->from.len);
	size_t used = 0;

	if (k == NULL)
		return;
	drop_ended(q);
	if (q->count == QUERIES_MAX)
		drop_oldest(q);
	k->rec = *h;
	k->rec.number = ++q->newest;
	k->rec.name = put(k, &used, h->name);
	k->rec.payload = put(k, &used, h->payload);
	k->rec.from = put(k, &used, h->from);
	q->ring[(q->first + q->count++) % QUERIES_MAX] = k;
	waits_wake(&q->waits);
}

enum tv_err
queries_told(struct queries *q, struct span body)
{
	struct rd r = rd_span_over(body);
	struct heard h = { 0 };
	uint64_t pool;

	if (mpr_array(&r) != 7)
		rd_fail(&r, TV_EFORMAT);
	pool = mpr_uint(&r, POOL_WAN);
	h.ltime = mpr_uint(&r, UINT64_MAX);
	h.id = (uint32_t)mpr_uint(&r, UINT32_MAX);
	h.name = mpr_bytes(&r, FIELD_BYTES_MAX);
	h.payload = mpr_bytes(&r, FIELD_BYTES_MAX);
	h.from = mpr_bytes(&r, FIELD_BYTES_MAX);
	h.deadline = mono_add(clock_mono(), MONO_MS(mpr_uint(&r, TIMEOUT_MS_MAX)));
	if (rd_end(&r) != TV_OK)
		return r.err;
	if (pool == POOL_LAN && h.name.len + h.payload.len + h.from.len <= QUERY_BYTES_MAX)
		add(q, &h);
	return TV_OK;
}

void
queries_wait(struct queries *q, struct wait *w, struct mono timeout, void (*fn)(void *ctx, bool timed_out), void *ctx)
{
	wait_start(&q->waits, w, timeout, fn, ctx);
}

struct queries *
queries_new(struct ev_loop *loop)
{
	struct queries *q = calloc(1, sizeof(*q));

	if (q == NULL)
		return NULL;
	q->waits.loop = loop;
	q->newest = (uint64_t)(clock_wall_ns() / 1000000);
	return q;
}

void
queries_free(struct queries *q)
{
	if (q == NULL)
		return;
	while (q->count > 0)
		drop_oldest(q);
	free(q);
}
