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
	(void)loop;
	(void)events;
	wait_end(t->data, true);
}

static void
link_to(struct wait **head, struct wait *w)
{
	w->next = *head;
	w->back = head;
	if (w->next != NULL)
		w->next->back = &w->next;
	*head = w;
}

void
wait_start(struct waits *list, struct wait *w, struct mono timeout, void (*fn)(void *ctx, bool timed_out), void *ctx)
{
	w->list = list;
	w->fn = fn;
	w->ctx = ctx;
	link_to(&list->first, w);
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
	*w->back = w->next;
	if (w->next != NULL)
		w->next->back = w->back;
	w->list = NULL;
}

void
waits_wake(struct waits *list)
{
	struct wait *now = list->first;

	/* A request that waits again meanwhile waits for the next news. */
	list->first = NULL;
	if (now != NULL)
		now->back = &now;
	while (now != NULL)
		wait_end(now, false);
}
