/* Deadlines of a crowd on a loop, see crowd_timer.h. */
#include "common/base/clock.h"
#include "common/net/crowd_timer.h"

static void
plan_look(struct crowd_timer *t, struct mono now)
{
	struct mono next = crowd_next_look(t->crowd);

	if (next.ns == t->set.ns)
		return;
	t->set = next;
	ev_timer_stop(t->loop, &t->timer);
	if (next.ns == MONO_NEVER.ns)
		return;
	ev_timer_set(&t->timer, mono_before(now, next) ? mono_seconds(mono_sub(next, now)) : 0., 0.);
	ev_timer_start(t->loop, &t->timer);
}

static void
on_due(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct crowd_timer *t = w->data;
	struct mono now = clock_mono();
	struct crowd_member *m;

	t->set = MONO_NEVER;
	while ((m = crowd_late(t->crowd, now)) != NULL)
		t->late(m);
	plan_look(t, now);
}

void
crowd_timer_init(struct crowd_timer *t, struct ev_loop *loop, struct crowd *crowd, void (*late)(struct crowd_member *m))
{
	*t = (struct crowd_timer){ .loop = loop, .crowd = crowd, .late = late, .set = MONO_NEVER };
	ev_timer_init(&t->timer, on_due, 0., 0.);
	t->timer.data = t;
}

void
crowd_timer_stop(struct crowd_timer *t)
{
	if (t->loop != NULL)
		ev_timer_stop(t->loop, &t->timer);
}

void
crowd_timer_give(struct crowd_timer *t, struct crowd_member *m, double seconds)
{
	struct mono now;

	if (seconds < 0) {
		crowd_set_until(t->crowd, m, MONO_ZERO);
		return;
	}
	now = clock_mono();
	crowd_set_until(t->crowd, m, (struct mono){ now.ns + (int64_t)(seconds * 1e9) });
	if (mono_before(crowd_next_look(t->crowd), t->set))
		plan_look(t, now);
}
