/* Names that differ only by case; see twins.h. */
#include "config.h"

#include <stdlib.h>

#include "gossipd/core/swim/twins.h"

#define SLOTS_MIN 64

void
twins_done(struct twins *w)
{
	free(w->slots);
	*w = (struct twins){ .slot_count = 0 };
}

static uint32_t
home_of(const struct twins *w, const struct table *t, struct span name)
{
	uint8_t folded[NODE_NAME_BYTES_MAX];

	for (size_t i = 0; i < name.len; i++)
		folded[i] = name.p[i] >= 'A' && name.p[i] <= 'Z' ? name.p[i] | 0x20 : name.p[i];
	return (uint32_t)table_hash(t, span_of(folded, name.len)) & (w->slot_count - 1);
}

/* Its place, or the free one where it belongs. */
static uint32_t
place_of(const struct twins *w, const struct table *t, struct span name)
{
	uint32_t i = home_of(w, t, name);

	while (w->slots[i] != NULL && !span_eq_nocase(node_name(w->slots[i]), name))
		i = (i + 1) & (w->slot_count - 1);
	return i;
}

struct node *
twins_find(const struct twins *w, const struct table *t, struct span name)
{
	if (w->count == 0 || name.len == 0 || name.len > NODE_NAME_BYTES_MAX)
		return NULL;
	return w->slots[place_of(w, t, name)];
}

/* A quarter of the slots stays free. */
static enum tv_err
grow(struct twins *w, const struct table *t)
{
	struct twins fresh = { .slot_count = w->slot_count == 0 ? SLOTS_MIN : w->slot_count * 2, .count = w->count };

	if (w->slot_count > 0 && w->count < w->slot_count / 4 * 3)
		return TV_OK;
	fresh.slots = calloc(fresh.slot_count, sizeof(struct node *));
	if (fresh.slots == NULL)
		return TV_ENOMEM;
	for (uint32_t i = 0; i < w->slot_count; i++)
		if (w->slots[i] != NULL)
			fresh.slots[place_of(&fresh, t, node_name(w->slots[i]))] = w->slots[i];
	free(w->slots);
	*w = fresh;
	return TV_OK;
}

enum tv_err
twins_claim(struct twins *w, const struct table *t, struct node *n)
{
	enum tv_err err = grow(w, t);
	uint32_t i;

	if (err != TV_OK)
		return err;
	i = place_of(w, t, node_name(n));
	w->count += w->slots[i] == NULL;
	w->slots[i] = n;
	return TV_OK;
}

/* Those behind it move up, unless they stand at or after their own place. */
void
twins_drop(struct twins *w, const struct table *t, const struct node *n)
{
	uint32_t hole, mask = w->slot_count - 1;

	if (twins_find(w, t, node_name(n)) != n)
		return;
	hole = place_of(w, t, node_name(n));
	for (uint32_t i = (hole + 1) & mask; w->slots[i] != NULL; i = (i + 1) & mask) {
		uint32_t home = home_of(w, t, node_name(w->slots[i]));

		if (((i - home) & mask) < ((i - hole) & mask))
			continue;
		w->slots[hole] = w->slots[i];
		hole = i;
	}
	w->slots[hole] = NULL;
	w->count--;
}
