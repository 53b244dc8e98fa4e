/* How long a loop's turns last. */
#include <stdio.h>

#include "common/base/clock.h"
#include "common/proc/loop_turns.h"

static void
on_begin(struct ev_loop *loop UNUSED, ev_check *w, int revents UNUSED)
{
	struct loop_turns *t = w->data;

	t->since = clock_mono();
}

/*
 * The thread's clock is read once a turn, since it takes a system call: what the thread uses between two ends is the
 * turn and the call that waits.
 */
static void
on_end(struct ev_loop *loop UNUSED, ev_prepare *w, int revents UNUSED)
{
	struct loop_turns *t = w->data;
	struct mono cpu = clock_thread_cpu(), wall;

	if (t->since.ns > 0) {
		wall = mono_sub(clock_mono(), t->since);
		histogram_add(&t->wall, wall);
		histogram_add(&t->cpu, mono_sub(cpu, t->cpu_before));
		if (t->on_turn != NULL)
			t->on_turn(t->ctx, wall);
	}
	t->cpu_before = cpu;
}

void
loop_turns_start(struct loop_turns *t, struct ev_loop *loop)
{
	t->loop = loop;
	t->cpu_before = clock_thread_cpu();
	ev_check_init(&t->begin, on_begin);
	ev_prepare_init(&t->end, on_end);
	ev_set_priority(&t->begin, EV_MAXPRI);
	ev_set_priority(&t->end, EV_MINPRI);
	t->begin.data = t->end.data = t;
	ev_check_start(loop, &t->begin);
	ev_prepare_start(loop, &t->end);
	ev_unref(loop);			/* they do not keep the loop alive */
	ev_unref(loop);
}

void
loop_turns_stop(struct loop_turns *t)
{
	if (t->loop == NULL)
		return;
	ev_ref(t->loop);
	ev_ref(t->loop);
	ev_check_stop(t->loop, &t->begin);
	ev_prepare_stop(t->loop, &t->end);
	t->loop = NULL;
}

static unsigned
info(const struct histogram *h, const char *name, figure_fn *fn, void *ctx)
{
	char label[32];
	struct mono longest = histogram_quantile(h, 0.999);

	snprintf(label, sizeof(label), "%s_p999_us", name);
	figure_put(fn, ctx, label, (uint64_t)(longest.ns + 999) / 1000);
	return histogram_info(h, name, fn, ctx) + 1;
}

unsigned
loop_turns_info(const struct loop_turns *t, figure_fn *fn, void *ctx)
{
	return info(&t->wall, "loop_turn", fn, ctx) + info(&t->cpu, "loop_cpu", fn, ctx);
}
