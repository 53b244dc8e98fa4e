/* Messages that wait for the disk. */
#include <stdlib.h>

#include "common/base/assert.h"
#include "raftd/engine/pending_sends.h"

static bool
grow(struct held_ring *r)
{
	size_t cap = r->cap == 0 ? 64 : r->cap * 2;
	struct held *items = malloc(cap * sizeof(*items));

	if (items == NULL)
		return false;
	for (size_t i = 0; i < r->count; i++)
		items[i] = r->items[(r->head + i) & (r->cap - 1)];
	free(r->items);
	*r = (struct held_ring){ items, cap, 0, r->count };
	return true;
}

bool
held_add(struct held_ring *r, uint64_t seq, const struct raft_send *s)
{
	if (r->count == r->cap && !grow(r))
		return false;
	TV_ASSERT(r->count == 0 || r->items[(r->head + r->count - 1) & (r->cap - 1)].seq <= seq);
	r->items[(r->head + r->count++) & (r->cap - 1)] = (struct held){ seq, *s };
	return true;
}

bool
held_take(struct held_ring *r, uint64_t done, struct raft_send *out)
{
	if (r->count == 0 || r->items[r->head].seq > done)
		return false;
	*out = r->items[r->head].send;
	r->head = (r->head + 1) & (r->cap - 1);
	r->count--;
	return true;
}

void
held_done(struct held_ring *r)
{
	free(r->items);
	*r = (struct held_ring){ 0 };
}
