/* Reads of what this node has in memory, which may wait for news: see struct local_read in api.h. */
#include "common/base/clock.h"
#include "rpcd/api/api.h"

void
api_read_local(struct request *r, void (*show)(struct request *r))
{
	struct local_read *w = arena_alloc(&r->arena, sizeof(*w));

	if (!api_query_blocking(r))
		return;
	if (w == NULL) {
		answer_text(r, 500, "%s", tv_strerror(TV_ENOMEM));
		return;
	}
	w->deadline = mono_add(clock_mono(), MONO_MS(r->op.wait_ms));
	w->show = show;
	r->state = w;
	show(r);
}

static void
stop_waiting(struct request *r)
{
	wait_stop(&((struct local_read *)r->state)->wait);
}

struct local_read *
api_may_wait(struct request *r)
{
	struct local_read *w = r->state;

	w->left = mono_sub(w->deadline, clock_mono());
	if (w->is_over || w->left.ns <= 0)
		return NULL;
	r->cancel = stop_waiting;
	return w;
}

void
api_news(void *ctx, bool timed_out)
{
	struct request *r = ctx;
	struct local_read *w = r->state;

	r->cancel = NULL;
	w->is_over = timed_out;
	api_judge(r, w->show);		/* the token may have ended meanwhile */
}
