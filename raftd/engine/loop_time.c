/* How long the loop was away from its events. */
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/proc/loop_turns.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/loop_time.h"

struct loop_time {
	struct raftd *d;
	struct loop_turns turns;
	uint64_t late;			/* turns longer than half the election timeout */
	ev_check woken;
	struct mono asleep;		/* since then; 0: not */
	struct mono pause, pause_end;	/* the newest time in which the process did not run */
	struct mono longest_pause;
	uint64_t pauses;		/* longer than half the election timeout */
	struct log_limit told, told_pause;
};

/* A loop that sleeps for longer than its timers allow was not let run. */
static void
on_woken(struct ev_loop *loop UNUSED, ev_check *w, int revents UNUSED)
{
	struct loop_time *t = w->data;
	struct mono now = clock_mono(), pause = mono_sub(mono_sub(now, t->asleep), ENGINE_HOUSEKEEPING);

	if (t->asleep.ns == 0 || pause.ns <= t->d->conf.election_timeout.ns / 2)
		return;
	t->pauses++;
	t->pause = pause;
	t->pause_end = now;
	if (pause.ns > t->longest_pause.ns)
		t->longest_pause = pause;
	if (log_allow(&t->told_pause, "raft"))
		log_warn("raft", "this process did not run for %.1f s: it was stopped, or the machine was paused or had no time for it; "
		    "election_timeout is %lld ms", mono_seconds(pause), (long long)mono_ms(t->d->conf.election_timeout));
}

struct mono
loop_time_pause(const struct loop_time *t, struct mono now)
{
	return t->pause.ns > 0 && mono_sub(now, t->pause_end).ns < MONO_S(1).ns ? t->pause : MONO_ZERO;
}

static void
on_turn(void *ctx, struct mono took)
{
	struct loop_time *t = ctx;

	t->asleep = clock_mono();
	if (took.ns <= t->d->conf.election_timeout.ns / 2)
		return;
	t->late++;
	if (log_allow(&t->told, "raft"))
		log_warn("raft", "event loop blocked for %lld ms; election_timeout is %lld ms",
		    (long long)mono_ms(took), (long long)mono_ms(t->d->conf.election_timeout));
}

void
loop_time_info(const struct loop_time *t, figure_fn *fn, void *ctx)
{
	FIGURES_PUT(fn, ctx, { "loop_late", t->late }, { "loop_longest_ms", (uint64_t)t->turns.wall.max_ns / 1000000 },
	    { "pause_longest_ms", (uint64_t)mono_ms(t->longest_pause) }, { "pauses", t->pauses });
	(void)loop_turns_info(&t->turns, fn, ctx);
}

struct loop_time *
loop_time_new(struct raftd *d)
{
	struct loop_time *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->d = d;
	t->told = t->told_pause = (struct log_limit){ .burst = 1, .period = MONO_S(10) };
	t->turns.on_turn = on_turn;
	t->turns.ctx = t;
	loop_turns_start(&t->turns, d->loop);
	ev_check_init(&t->woken, on_woken);
	ev_set_priority(&t->woken, EV_MAXPRI);
	t->woken.data = t;
	ev_check_start(d->loop, &t->woken);
	ev_unref(d->loop);
	return t;
}

void
loop_time_free(struct loop_time *t)
{
	if (t == NULL)
		return;
	loop_turns_stop(&t->turns);
	ev_ref(t->d->loop);
	ev_check_stop(t->d->loop, &t->woken);
	free(t);
}
