/* Reported coordinates, in batches into the log. */
#include <stdlib.h>

#include "common/base/log.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/propose.h"
#include "raftd/leader/coord_batch.h"
#include "raftd/leader/leader_coordinates.h"

#define BATCH_BYTES_MAX (1u << 20)	/* 128 of two names of 1024 bytes and 11 numbers */
#define ARENA_MAX (4u << 20)

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
};

static void
written(struct proposal *p, enum tv_err err, const struct fsm_result *result)
{
	struct batch_write *w = (struct batch_write *)((char *)p - offsetof(struct batch_write, proposal));

	(void)result;
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
on_timer(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct leader_coordinates *c = t->data;
	enum tv_err err = TV_OK;

	(void)loop;
	(void)revents;
	for (unsigned i = 0; i < COORD_BATCH_BATCHES && coord_batch_count(c->waiting) > 0 && err == TV_OK; i++)
		if (!c->writes[i].under_way)
			err = write_batch(c, &c->writes[i]);
	if (err != TV_OK)
		log_debug("raftd", "coordinate batch rejected: %s", tv_strerror(err));
}

void
leader_coordinates_report(struct leader_coordinates *c, struct span node, struct span segment,
    const struct coordinate *at)
{
	if (coord_batch_add(c->waiting, node, segment, at) != TV_OK && log_allow(&c->full, "raftd"))
		log_warn("raftd", "more coordinates are reported than are stored (%d in %d s): some are discarded",
		    COORD_BATCH_UPDATES * COORD_BATCH_BATCHES, (int)mono_seconds(COORD_BATCH_PERIOD));
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
}

struct leader_coordinates *
leader_coordinates_new(struct raftd *d)
{
	struct leader_coordinates *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->d = d;
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
	coord_batch_free(c->waiting);
	free(c);
}
