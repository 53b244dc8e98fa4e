/* What a registry has around it: a loop, the router, a file. */
#include <stdlib.h>

#include "common/base/clock.h"
#include "rpcd/registry/registry_int.h"
#include "rpcd/registry/registry_loop.h"

struct host {
	struct ev_loop *loop;
	struct registry *registry;
	struct registry_journal *journal;
	ev_timer timer;
	struct waits waits;		/* for services that change */
	unsigned (*members)(void *ctx);
	void *ctx;
};

static void
on_timer(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct host *h = w->data;

	registry_run(h->registry);
}

static void
due(void *ctx, struct mono at)
{
	struct host *h = ctx;
	double after = mono_seconds(mono_sub(at, clock_mono()));

	ev_timer_stop(h->loop, &h->timer);
	ev_timer_set(&h->timer, after > 0 ? after : 0., 0.);
	if (at.ns != MONO_NEVER.ns)
		ev_timer_start(h->loop, &h->timer);
}

static void
save(void *ctx, bool durable)
{
	const struct host *h = ctx;

	registry_journal_write(h->journal, durable);
}

static void
news(void *ctx)
{
	struct host *h = ctx;

	waits_wake(&h->waits);
}

static unsigned
members(void *ctx)
{
	const struct host *h = ctx;

	return h->members == NULL ? 1 : h->members(h->ctx);
}

void
registry_wait(struct registry *r, struct wait *w, struct mono timeout, void (*fn)(void *ctx, bool timed_out), void *ctx)
{
	struct host *h = r->conf.ctx;

	wait_start(&h->waits, w, timeout, fn, ctx);
}

struct registry *
registry_open(const struct registry_conf *conf, struct ev_loop *loop, const char *path)
{
	struct registry_conf own = *conf;
	struct host *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return NULL;
	*h = (struct host){ .loop = loop, .waits = { .loop = loop }, .members = conf->members,
	    .ctx = conf->ctx };
	ev_init(&h->timer, on_timer);
	h->timer.data = h;
	own.now = clock_mono;
	own.send = route_start;
	own.cancel = route_cancel;
	own.due = due;
	own.save = save;
	own.saves_later = true;
	own.news = news;
	own.members = members;
	own.ctx = h;
	if ((h->registry = registry_new(&own)) == NULL) {
		free(h);
		return NULL;
	}
	if ((h->journal = registry_journal_open(h->registry, loop, path)) == NULL) {
		registry_free(h->registry);
		ev_timer_stop(loop, &h->timer);
		free(h);
		return NULL;
	}
	return h->registry;
}

void
registry_close(struct registry *r)
{
	struct host *h = r == NULL ? NULL : r->conf.ctx;

	if (h == NULL)
		return;
	registry_journal_close(h->journal);
	registry_free(r);
	registry_journal_free(h->journal);
	ev_timer_stop(h->loop, &h->timer);
	free(h);
}

void
registry_disk(const struct registry *r, struct registry_journal_stats *out)
{
	const struct host *h = r->conf.ctx;

	registry_journal_stats(h->journal, out);
}
