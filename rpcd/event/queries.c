/* Queries that may be answered here, see queries.h. */
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/net/msg.h"
#include "common/record/member.h"
#include "rpcd/event/queries.h"

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
copy_span(struct kept *k, size_t *used, struct span s)
{
	struct span copy = span_of(k->bytes + *used, s.len);

	if (s.len > 0)
		memcpy(k->bytes + *used, s.p, s.len);
	*used += s.len;
	return copy;
}

static void
add_query(struct queries *q, const struct heard *h)
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
	k->rec.name = copy_span(k, &used, h->name);
	k->rec.payload = copy_span(k, &used, h->payload);
	k->rec.from = copy_span(k, &used, h->from);
	q->ring[(q->first + q->count++) % QUERIES_MAX] = k;
	waits_wake(&q->waits);
}

enum tv_err
queries_told(struct queries *q, struct span body)
{
	struct msg_heard m = { .pool = 0 };
	struct heard h;

	if (msg_read(&msg_heard_schema, body, NULL, &m) != TV_OK || m.pool > POOL_WAN || m.id > UINT32_MAX ||
	    m.timeout_ms > TIMEOUT_MS_MAX)
		return TV_EFORMAT;
	h = (struct heard){ .ltime = m.ltime, .id = (uint32_t)m.id, .name = m.name, .payload = m.payload,
		.from = m.from, .deadline = mono_add(clock_mono(), MONO_MS(m.timeout_ms)) };
	if (m.pool == POOL_LAN && h.name.len + h.payload.len + h.from.len <= QUERY_BYTES_MAX)
		add_query(q, &h);
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
