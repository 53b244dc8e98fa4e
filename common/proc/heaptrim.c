/* Memory back to the system when the process is quiet. */
#include "config.h"

#ifdef HAVE_MALLOC_TRIM
#include <malloc.h>
#endif

#include "common/base/clock.h"
#include "common/proc/heaptrim.h"

/* Less than this share of one processor is quiet: 1/50. */
#define QUIET_SHARE 50

bool
heaptrim_due(struct heaptrim *h, struct mono cpu)
{
	struct mono used = mono_sub(cpu, h->cpu);
	bool quiet = used.ns < h->period.ns / QUIET_SHARE, due = quiet && h->worked;

	h->cpu = cpu;
	h->worked = !quiet;
	return due;
}

void
heaptrim_now(void)
{
#ifdef HAVE_MALLOC_TRIM
	(void)malloc_trim(0);
#endif
}

static void
on_look(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct heaptrim *h = w->data;

	(void)loop, (void)revents;
	if (heaptrim_due(h, clock_cpu()))
		heaptrim_now();
}

void
heaptrim_start(struct heaptrim *h, struct ev_loop *loop, struct mono period)
{
	/* Starting up was work. */
	*h = (struct heaptrim){ .loop = loop, .period = period, .cpu = clock_cpu(), .worked = true };
	ev_timer_init(&h->timer, on_look, mono_seconds(period), mono_seconds(period));
	h->timer.data = h;
	ev_timer_start(loop, &h->timer);
	ev_unref(loop);
}

void
heaptrim_stop(struct heaptrim *h)
{
	ev_ref(h->loop);
	ev_timer_stop(h->loop, &h->timer);
}
