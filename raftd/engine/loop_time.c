/* How long the loop was away from its events. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "raftd/engine/loop_time.h"

struct loop_time {
	struct raftd *d;
	ev_check begin;			/* the first after waiting */
	ev_prepare end;			/* the last before it */
	struct mono since;		/* 0: it waits */
	struct mono longest;
	uint64_t late;			/* turns longer than half the election timeout */
	struct log_limit told;
};

static void
on_begin(struct ev_loop *loop, ev_check *w, int revents)
{
	struct loop_time *t = w->data;

	(void)loop;
	(void)revents;
	t->since = clock_mono();
}

static void
on_end(struct ev_loop *loop, ev_prepare *w, int revents)
{
	struct loop_time *t = w->data;
	struct mono took;

	(void)loop;
	(void)revents;
	if (t->since.ns == 0)
		return;
	took = mono_sub(clock_mono(), t->since);
	if (took.ns > t->longest.ns)
		t->longest = took;
	if (took.ns <= t->d->conf.election_timeout.ns / 2)
		return;
	t->late++;
	if (log_allow(&t->told, "raft"))
		log_warn("raft", "event loop blocked for %lld ms; election_timeout is %lld ms",
		    (long long)mono_ms(took), (long long)mono_ms(t->d->conf.election_timeout));
}

void
loop_time_info(const struct loop_time *t, void (*fn)(void *ctx, const char *name, const char *value), void *ctx)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)t->late);
	fn(ctx, "loop_late", text);
	snprintf(text, sizeof(text), "%lld", (long long)mono_ms(t->longest));
	fn(ctx, "loop_longest_ms", text);
}

struct loop_time *
loop_time_new(struct raftd *d)
{
	struct loop_time *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->d = d;
	t->told = (struct log_limit){ .burst = 1, .period = MONO_S(10) };
	ev_check_init(&t->begin, on_begin);
	ev_prepare_init(&t->end, on_end);
	ev_set_priority(&t->begin, EV_MAXPRI);
	ev_set_priority(&t->end, EV_MINPRI);
	t->begin.data = t->end.data = t;
	ev_check_start(d->loop, &t->begin);
	ev_prepare_start(d->loop, &t->end);
	return t;
}

void
loop_time_free(struct loop_time *t)
{
	if (t == NULL)
		return;
	ev_check_stop(t->d->loop, &t->begin);
	ev_prepare_stop(t->d->loop, &t->end);
	free(t);
}
