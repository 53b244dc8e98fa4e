/* Reported coordinates on their way into the log. */
#include <stdlib.h>
#include <string.h>

#include "common/record/records.h"
#include "raftd/leader/coord_batch.h"

#define WAITING_MAX (COORD_BATCH_UPDATES * COORD_BATCH_BATCHES)

struct waiting {
	struct coordinate at;
	size_t node_len, segment_len;
	uint8_t names[];		/* node, segment */
};

struct coord_batch {
	struct waiting *v[WAITING_MAX];	/* oldest first */
	unsigned count;
};

struct coord_batch *
coord_batch_new(void)
{
	return calloc(1, sizeof(struct coord_batch));
}

void
coord_batch_clear(struct coord_batch *b)
{
	while (b->count > 0)
		free(b->v[--b->count]);
}

void
coord_batch_free(struct coord_batch *b)
{
	if (b != NULL)
		coord_batch_clear(b);
	free(b);
}

unsigned
coord_batch_count(const struct coord_batch *b)
{
	return b->count;
}

static struct span
node_of(const struct waiting *w)
{
	return span_of(w->names, w->node_len);
}

static struct span
segment_of(const struct waiting *w)
{
	return span_of(w->names + w->node_len, w->segment_len);
}

enum tv_err
coord_batch_add(struct coord_batch *b, struct span node, struct span segment, const struct coordinate *c)
{
	struct waiting *w;

	for (unsigned i = 0; i < b->count; i++)
		if (span_eq(node_of(b->v[i]), node) && span_eq(segment_of(b->v[i]), segment)) {
			b->v[i]->at = *c;
			return TV_OK;
		}
	if (b->count == WAITING_MAX)
		return TV_ELIMIT;
	w = malloc(sizeof(*w) + node.len + segment.len);
	if (w == NULL)
		return TV_ENOMEM;
	w->at = *c;
	w->node_len = node.len;
	w->segment_len = segment.len;
	if (node.len > 0)
		memcpy(w->names, node.p, node.len);
	if (segment.len > 0)
		memcpy(w->names + node.len, segment.p, segment.len);
	b->v[b->count++] = w;
	return TV_OK;
}

unsigned
coord_batch_take(struct coord_batch *b, struct buf *out)
{
	struct node_coordinate recs[COORD_BATCH_UPDATES];
	unsigned n = b->count < COORD_BATCH_UPDATES ? b->count : COORD_BATCH_UPDATES;
	struct coordinate_batch batch = { .Updates = { recs, n, true } };

	for (unsigned i = 0; i < n; i++) {
		recs[i] = (struct node_coordinate){ .Node = node_of(b->v[i]), .Segment = segment_of(b->v[i]) };
		coordinate_to_rec(&b->v[i]->at, &recs[i].Coord);
	}
	schema_pack(&coordinate_batch_schema, &batch, out);
	for (unsigned i = 0; i < n; i++)
		free(b->v[i]);
	b->count -= n;
	memmove(b->v, b->v + n, b->count * sizeof(*b->v));
	return n;
}
