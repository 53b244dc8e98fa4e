/* Requests that wait for news, see waits.h. */
#include <stddef.h>

#include "rpcd/event/waits.h"

static void
wait_end(struct wait *w, bool timed_out)
{
	wait_stop(w);
	w->fn(w->ctx, timed_out);
}

static void
on_timer(struct ev_loop *loop, ev_timer *t, int events)
{
	(void)loop, (void)events;
	wait_end(t->data, true);
}

void
wait_start(struct waits *list, struct wait *w, struct mono timeout, void (*fn)(void *ctx, bool timed_out), void *ctx)
{
	w->list = list;
	w->fn = fn;
	w->ctx = ctx;
	LIST_INSERT_HEAD(&list->all, w, link);
	ev_timer_init(&w->timer, on_timer, mono_seconds(timeout), 0.);
	w->timer.data = w;
	ev_timer_start(list->loop, &w->timer);
}

void
wait_stop(struct wait *w)
{
	if (w->list == NULL)
		return;
	ev_timer_stop(w->list->loop, &w->timer);
	LIST_REMOVE(w, link);
	w->list = NULL;
}

void
waits_wake(struct waits *list)
{
	struct wait_list now = list->all;

	/* A request that waits again meanwhile waits for the next news. */
	LIST_INIT(&list->all);
	if (!LIST_EMPTY(&now))
		LIST_FIRST(&now)->link.le_prev = &LIST_FIRST(&now);
	while (!LIST_EMPTY(&now))
		wait_end(LIST_FIRST(&now), false);
}
