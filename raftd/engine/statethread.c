/* The threads of the state, see statethread.h. */
#include <stdbool.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "raftd/engine/statethread.h"

struct call {
	STAILQ_ENTRY(call) link;
	void (*work)(struct fsm *f, void *ctx);
	void (*done)(void *ctx);
	void *ctx;
};

struct statethread {
	struct ev_loop *loop;
	struct fsm *f;
	ev_async async;
	STAILQ_HEAD(, call) calls;
	bool stopped;
};

static void
on_async(struct ev_loop *loop, ev_async *w, int revents)
{
	struct statethread *s = w->data;
	struct call *c = STAILQ_FIRST(&s->calls);

	(void)loop;
	(void)revents;
	if (c == NULL)
		return;
	STAILQ_REMOVE_HEAD(&s->calls, link);
	if (!STAILQ_EMPTY(&s->calls))
		ev_async_send(s->loop, &s->async);
	c->work(s->f, c->ctx);
	c->done(c->ctx);
	free(c);
}

static enum tv_err
add(struct statethread *s, void (*work)(struct fsm *f, void *ctx), void (*done)(void *ctx), void *ctx)
{
	struct call *c = s->stopped ? NULL : malloc(sizeof(*c));

	if (c == NULL)
		return s->stopped ? TV_ESYS : TV_ENOMEM;
	*c = (struct call){ .work = work, .done = done, .ctx = ctx };
	STAILQ_INSERT_TAIL(&s->calls, c, link);
	ev_async_send(s->loop, &s->async);
	return TV_OK;
}

enum tv_err
statethread_call(struct statethread *s, void (*work)(struct fsm *reader, void *ctx), void (*done)(void *ctx), void *ctx)
{
	return add(s, work, done, ctx);
}

enum tv_err
statethread_between(struct statethread *s, void (*work)(struct fsm *f, void *ctx), void (*done)(void *ctx), void *ctx)
{
	return add(s, work, done, ctx);
}

struct statethread *
statethread_new(struct ev_loop *loop, struct fsm *f)
{
	struct statethread *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->loop = loop;
	s->f = f;
	STAILQ_INIT(&s->calls);
	ev_async_init(&s->async, on_async);
	s->async.data = s;
	ev_async_start(loop, &s->async);
	return s;
}

void
statethread_stop(struct statethread *s)
{
	struct call *c;

	if (s == NULL)
		return;
	s->stopped = true;
	while ((c = STAILQ_FIRST(&s->calls)) != NULL) {
		STAILQ_REMOVE_HEAD(&s->calls, link);
		free(c);
	}
	ev_async_stop(s->loop, &s->async);
}

void
statethread_free(struct statethread *s)
{
	free(s);
}
