/* Equal questions that share one flight, see join.h. */
#include "common/base/join.h"

void
join_open(struct map *open, struct join_flight *f, uint64_t hash)
{
	f->is_open = true;
	map_add(open, &f->node, hash);
}

void
join_close(struct map *open, struct join_flight *f)
{
	if (f->is_open)
		map_remove(open, &f->node);
	f->is_open = false;
}

void
join_wait(struct join_flight *f, struct join_waiter *w)
{
	w->flight = f;
	LIST_INSERT_HEAD(&f->waiters, w, link);
	f->waiting++;
}

struct join_flight *
join_leave(struct join_waiter *w)
{
	struct join_flight *f = w->flight;

	if (f == NULL)
		return NULL;
	w->flight = NULL;
	LIST_REMOVE(w, link);
	return --f->waiting == 0 && !f->ended ? f : NULL;
}

void
join_end(struct map *open, struct join_flight *f)
{
	join_close(open, f);
	f->ended = true;
}

struct join_waiter *
join_next(struct join_flight *f)
{
	struct join_waiter *w = LIST_FIRST(&f->waiters);

	if (w != NULL)
		(void)join_leave(w);
	return w;
}
