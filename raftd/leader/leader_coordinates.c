/* Reported coordinates: a thread looks up whether their nodes are known, then they go in batches into the log. */
#include <stdlib.h>
#include <sys/queue.h>

#include "common/base/log.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/propose.h"
#include "raftd/engine/statethread.h"
#include "raftd/fsm/fsm.h"
#include "raftd/leader/coord_batch.h"
#include "raftd/leader/leader_coordinates.h"

#define BATCH_BYTES_MAX (1u << 20)	/* 128 of two names of 1024 bytes and 11 numbers */
#define ARENA_MAX (4u << 20)
#define REPORTS_MAX 4096		/* whose nodes are to be looked up */
#define REPORT_BYTES_MAX 4096		/* of the two names */

struct report {
	TAILQ_ENTRY(report) link;
	struct arena names;
	struct span node, segment;
	struct coordinate at;
	leader_coordinate_done *done;	/* NULL: its duty has stopped */
	void *ctx;
	bool known;			/* found out in the thread */
	enum tv_err err;
};
TAILQ_HEAD(reports, report);

struct batch_write {
	struct proposal proposal;
	bool under_way;
};

struct leader_coordinates {
	struct raftd *d;
	struct coord_batch *waiting;
	struct batch_write writes[COORD_BATCH_BATCHES];
	struct log_limit full;
	ev_timer timer;
	struct reports reports, looked_up;	/* the latter in the thread */
	unsigned count;			/* of both */
};

static void
written(struct proposal *p, enum tv_err err, const struct fsm_result *result UNUSED)
{
	struct batch_write *w = (struct batch_write *)((char *)p - offsetof(struct batch_write, proposal));

	w->under_way = false;
	if (err != TV_OK)		/* the nodes report again */
		log_debug("raftd", "coordinate batch not written: %s", tv_strerror(err));
}

static enum tv_err
write_batch(struct leader_coordinates *c, struct batch_write *w)
{
	struct buf args = BUF_INIT(BATCH_BYTES_MAX);
	struct arena a = ARENA_INIT(ARENA_MAX);
	struct span text;
	enum tv_err err = TV_ENOMEM;

	(void)coord_batch_take(c->waiting, &args);
	w->proposal.done = written;
	if (!args.failed)
		err = propose_args(c->d, &w->proposal, OP_COORDINATE_BATCH, buf_span(&args), &a, &text);
	w->under_way = err == TV_OK;
	buf_done(&args);
	arena_done(&a);
	return err;
}

static void
on_timer(struct ev_loop *loop UNUSED, ev_timer *t, int revents UNUSED)
{
	struct leader_coordinates *c = t->data;
	enum tv_err err = TV_OK;

	for (unsigned i = 0; i < COORD_BATCH_BATCHES && coord_batch_count(c->waiting) > 0 && err == TV_OK; i++)
		if (!c->writes[i].under_way)
			err = write_batch(c, &c->writes[i]);
	if (err != TV_OK)
		log_debug("raftd", "coordinate batch rejected: %s", tv_strerror(err));
}

/* -- reports -- */

static void
report_end(struct leader_coordinates *c, struct reports *list, struct report *r, enum tv_err err)
{
	TAILQ_REMOVE(list, r, link);
	c->count--;
	if (r->done != NULL)
		r->done(r->ctx, err, r->known);
	arena_done(&r->names);
	free(r);
}

static void
look_up(struct fsm *reader, void *ctx)
{
	struct leader_coordinates *c = ctx;
	struct report *r;

	TAILQ_FOREACH(r, &c->looked_up, link) {
		r->known = fsm_has_node(reader, r->node);
		r->err = fsm_read_err(reader);
	}
}

static void look_up_next(struct leader_coordinates *c);

static void
collect(struct leader_coordinates *c, const struct report *r)
{
	if (coord_batch_add(c->waiting, r->node, r->segment, &r->at) != TV_OK && log_allow(&c->full, "raftd"))
		log_warn("raftd", "more coordinates are reported than are stored (%d in %d s): some are discarded",
		    COORD_BATCH_UPDATES * COORD_BATCH_BATCHES, (int)mono_seconds(COORD_BATCH_PERIOD));
}

static void
found(void *ctx)
{
	struct leader_coordinates *c = ctx;
	struct report *r;

	while ((r = TAILQ_FIRST(&c->looked_up)) != NULL) {
		if (r->done != NULL && r->err == TV_OK && r->known)
			collect(c, r);
		report_end(c, &c->looked_up, r, r->err);
	}
	look_up_next(c);
}

/* All that came while the ones before were looked up. */
static void
look_up_next(struct leader_coordinates *c)
{
	enum tv_err err;

	if (TAILQ_EMPTY(&c->reports) || !TAILQ_EMPTY(&c->looked_up))
		return;
	TAILQ_CONCAT(&c->looked_up, &c->reports, link);
	err = statethread_call(c->d->state, look_up, found, c);
	while (err != TV_OK && !TAILQ_EMPTY(&c->looked_up))
		report_end(c, &c->looked_up, TAILQ_FIRST(&c->looked_up), TV_EAGAIN);
}

enum tv_err
leader_coordinates_report(struct leader_coordinates *c, struct span node, struct span segment,
    const struct coordinate *at, leader_coordinate_done *done, void *ctx)
{
	struct report *r = c->count < REPORTS_MAX ? calloc(1, sizeof(*r)) : NULL;

	if (r == NULL)
		return c->count < REPORTS_MAX ? TV_ENOMEM : TV_EAGAIN;
	r->names = ARENA_INIT(REPORT_BYTES_MAX);
	r->node = arena_copy(&r->names, node);
	r->segment = arena_copy(&r->names, segment);
	if (r->node.p == NULL || r->segment.p == NULL) {
		arena_done(&r->names);
		free(r);
		return TV_ENOMEM;
	}
	r->at = *at;
	r->done = done;
	r->ctx = ctx;
	TAILQ_INSERT_TAIL(&c->reports, r, link);
	c->count++;
	look_up_next(c);
	return TV_OK;
}

void
leader_coordinates_forget(struct leader_coordinates *c, const void *ctx)
{
	struct reports *const lists[] = { &c->reports, &c->looked_up };
	struct report *r;

	for (unsigned i = 0; i < 2 && c->count > 0; i++)
		TAILQ_FOREACH(r, lists[i], link)
			if (r->ctx == ctx)
				r->done = NULL;
}

/* Those that are looked up are told now, and freed when that is over. */
static void
end_reports(struct leader_coordinates *c)
{
	struct report *r;

	while ((r = TAILQ_FIRST(&c->reports)) != NULL)
		report_end(c, &c->reports, r, TV_ENOLEADER);
	TAILQ_FOREACH(r, &c->looked_up, link) {
		leader_coordinate_done *done = r->done;

		r->done = NULL;
		if (done != NULL)
			done(r->ctx, TV_ENOLEADER, false);
	}
}

void
leader_coordinates_start(struct leader_coordinates *c)
{
	ev_timer_again(c->d->loop, &c->timer);
}

void
leader_coordinates_stop(struct leader_coordinates *c)
{
	ev_timer_stop(c->d->loop, &c->timer);
	coord_batch_clear(c->waiting);
	end_reports(c);
}

struct leader_coordinates *
leader_coordinates_new(struct raftd *d)
{
	struct leader_coordinates *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->d = d;
	TAILQ_INIT(&c->reports);
	TAILQ_INIT(&c->looked_up);
	c->full = (struct log_limit){ .burst = 1, .period = MONO_S(60) };
	c->waiting = coord_batch_new();
	if (c->waiting == NULL) {
		free(c);
		return NULL;
	}
	ev_timer_init(&c->timer, on_timer, 0.0, mono_seconds(COORD_BATCH_PERIOD));
	c->timer.data = c;
	return c;
}

void
leader_coordinates_free(struct leader_coordinates *c)
{
	if (c == NULL)
		return;
	leader_coordinates_stop(c);
	while (!TAILQ_EMPTY(&c->looked_up))	/* the threads of the state have ended */
		report_end(c, &c->looked_up, TAILQ_FIRST(&c->looked_up), TV_ENOLEADER);
	coord_batch_free(c->waiting);
	free(c);
}
