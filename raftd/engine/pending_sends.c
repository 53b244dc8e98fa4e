/* Messages that wait for the disk. */
#include <stdlib.h>

#include "common/base/assert.h"
#include "raftd/engine/pending_sends.h"

static bool
grow(struct pending_sends *r)
{
	size_t cap = r->cap == 0 ? 64 : r->cap * 2;
	struct pending_send *items = malloc(cap * sizeof(*items));

	if (items == NULL)
		return false;
	for (size_t i = 0; i < r->count; i++)
		items[i] = r->items[(r->head + i) & (r->cap - 1)];
	free(r->items);
	*r = (struct pending_sends){ items, cap, 0, r->count };
	return true;
}

bool
pending_sends_add(struct pending_sends *r, uint64_t seq, const struct raft_send *s)
{
	if (r->count == r->cap && !grow(r))
		return false;
	TV_ASSERT(r->count == 0 || r->items[(r->head + r->count - 1) & (r->cap - 1)].seq <= seq);
	r->items[(r->head + r->count++) & (r->cap - 1)] = (struct pending_send){ seq, *s };
	return true;
}

bool
pending_sends_take(struct pending_sends *r, uint64_t done, struct raft_send *out)
{
	if (r->count == 0 || r->items[r->head].seq > done)
		return false;
	*out = r->items[r->head].send;
	r->head = (r->head + 1) & (r->cap - 1);
	r->count--;
	return true;
}

void
pending_sends_done(struct pending_sends *r)
{
	free(r->items);
	*r = (struct pending_sends){ 0 };
}
