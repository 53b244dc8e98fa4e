/* Members of a pool, sorted by name: a walk has an order, and a search is short. */
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/record/member_table.h"
#include "common/record/mpack.h"

/* Where the name is, or where it would go. */
static uint32_t
place_of(const struct member_table *t, struct span name)
{
	uint32_t lo = 0, hi = t->count;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (span_cmp(t->slots[mid].m->name, name) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct member_slot *
member_table_find(const struct member_table *t, struct span name)
{
	uint32_t at = place_of(t, name);

	return at < t->count && span_eq(t->slots[at].m->name, name) ? &t->slots[at] : NULL;
}

static struct member_slot *
insert(struct member_table *t, struct span name)
{
	uint32_t at = place_of(t, name);

	if (!array_reserve(&t->slots, &t->cap, t->count + 1, sizeof(*t->slots)))
		return NULL;
	memmove(t->slots + at + 1, t->slots + at, (t->count - at) * sizeof(*t->slots));
	t->slots[at] = (struct member_slot){ 0 };
	t->count++;
	return &t->slots[at];
}

struct member_slot *
member_table_put(struct member_table *t, const struct member *m, enum tv_err *err)
{
	struct member_slot *s = member_table_find(t, m->name);
	struct member *copy;

	*err = TV_ELIMIT;
	if (s == NULL && t->count >= t->max) {
		t->refused++;
		return NULL;
	}
	*err = TV_ENOMEM;
	copy = member_clone(m);
	if (copy == NULL || (s == NULL && (s = insert(t, m->name)) == NULL)) {
		free(copy);
		return NULL;
	}
	free(s->m);
	s->m = copy;
	s->round = t->round;
	*err = TV_OK;
	return s;
}

void
member_table_remove(struct member_table *t, struct member_slot *s)
{
	uint32_t at = (uint32_t)(s - t->slots);

	free(s->m);
	t->count--;
	memmove(s, s + 1, (t->count - at) * sizeof(*s));
}

void
member_table_sweep(struct member_table *t)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < t->count; i++) {
		if (t->slots[i].round == t->round)
			t->slots[kept++] = t->slots[i];
		else
			free(t->slots[i].m);
	}
	t->count = kept;
}

void
member_table_done(struct member_table *t)
{
	t->round++;
	member_table_sweep(t);
	free(t->slots);
	t->slots = NULL;
	t->cap = 0;
}

enum tv_err
member_event_read(struct span body, struct arena *a, enum gossip_pool *pool, enum gossip_event *event, struct member *m)
{
	struct rd r = rd_span_over(body);
	uint32_t fields = mpr_array(&r);
	enum tv_err err;

	*pool = (enum gossip_pool)mpr_uint(&r, POOL_WAN);
	*event = (enum gossip_event)mpr_uint(&r, GOSSIP_EV_REAP);
	err = member_unpack(&r, a, m);
	return err == TV_OK ? mpr_end(&r, fields, 3) : err;
}
