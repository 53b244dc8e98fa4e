/* How long the loop was away from its events. */
#include <stdio.h>
#include <stdlib.h>

#include "common/proc/loop_turns.h"
#include "raftd/engine/loop_time.h"

struct loop_time {
	struct raftd *d;
	struct loop_turns turns;
	uint64_t late;			/* turns longer than half the election timeout */
	struct log_limit told;
};

static void
on_turn(void *ctx, struct mono took)
{
	struct loop_time *t = ctx;

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
	snprintf(text, sizeof(text), "%lld", (long long)t->turns.wall.max_ns / 1000000);
	fn(ctx, "loop_longest_ms", text);
	(void)loop_turns_info(&t->turns, fn, ctx);
}

struct loop_time *
loop_time_new(struct raftd *d)
{
	struct loop_time *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->d = d;
	t->told = (struct log_limit){ .burst = 1, .period = MONO_S(10) };
	t->turns.on_turn = on_turn;
	t->turns.ctx = t;
	loop_turns_start(&t->turns, d->loop);
	return t;
}

void
loop_time_free(struct loop_time *t)
{
	if (t == NULL)
		return;
	loop_turns_stop(&t->turns);
	free(t);
}
