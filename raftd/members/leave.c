/* Graceful leave of this server. */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/msg.h"
#include "raftd/engine/engine.h"
#include "raftd/members/membership_int.h"
#include "raftd/members/rules/policy.h"

#define STEP 0.1			/* seconds between tries */

struct leave {
	struct membership *m;
	bool active, force, asking, changing, transferred, said;
	struct mono deadline;
	membership_done *done;
	void *ctx;
	ev_timer timer;
};

bool
leave_active(const struct leave *l)
{
	return l->active || l->m->d->left;
}

static void
leave_finish(struct leave *l, enum tv_err err, const char *text)
{
	membership_done *done = l->done;

	if (!l->active)
		return;
	l->active = false;
	ev_timer_stop(l->m->d->loop, &l->timer);
	if (err == TV_OK) {
		/* No leader shall add us again before the process is gone. */
		l->m->d->left = true;
		links_close(l->m->d->links);
		engine_retire(l->m->d->engine);
	} else
		log_warn("triumvir", "server leave refused: %s", text);
	l->done = NULL;
	if (done != NULL)
		done(l->ctx, err, text);
}

void
leave_self_removed(struct leave *l)
{
	if (!l->said)
		log_info("raft", "Removed ourself, transitioning to follower");
	l->said = true;
	leave_wake(l);
}

/* The leader's answer to MSG_RAFT_REMOVE_ME. */
static void
on_answer(void *ctx, enum tv_err err, struct span body)
{
	struct leave *l = ctx;
	struct msg_answer a;
	char text[512] = "";

	l->asking = false;
	if (err != TV_OK || !l->active || msg_answer_read(body, &a, NULL, NULL, NULL) != TV_OK)
		return;				/* asked again by the timer */
	(void)span_copy(a.text, text, sizeof(text));
	if (a.err == TV_OK) {
		leave_self_removed(l);
		leave_finish(l, TV_OK, "");
	} else if (a.err == TV_ECONFLICT)
		leave_finish(l, a.err, text);
}

static void
ask_leader(struct leave *l, const struct raft_server_conf *leader)
{
	struct raftd *d = l->m->d;
	struct buf b = BUF_INIT(256);

	schema_pack(&msg_remove_me_schema, &(struct msg_remove_me){ span_str(d->id.uuid), l->force }, &b);
	l->asking = links_ask(d->links, leader->uuid, MSG_RAFT_REMOVE_ME, buf_span(&b), d->conf.leave_timeout,
	    on_answer, l) == TV_OK;
	buf_done(&b);
}

static void
on_change(void *ctx, enum tv_err err, const char *text UNUSED)
{
	struct leave *l = ctx;

	l->changing = false;
	if (err == TV_OK) {
		leave_self_removed(l);
		leave_finish(l, TV_OK, "");
	}
}

static void
on_transfer(void *ctx, enum tv_err err, const char *text)
{
	struct leave *l = ctx;

	l->changing = false;
	if (err != TV_OK)
		log_info("raft", "leadership could not be transferred (%s); leaving as leader", text);
}

/* The newest configuration is the one in force, but only the committed one is certain to last. */
static enum policy_seat
own_seat(const struct raftd *d)
{
	return policy_seat(engine_config(d->engine), engine_config_committed(d->engine), d->id.self);
}

/* We lead: hand over, or else remove ourself. */
static void
step_leader(struct leave *l)
{
	struct raft_change change = { .type = RAFT_REMOVE };

	if (!l->transferred) {
		l->transferred = l->changing = true;
		membership_transfer(l->m, SPAN_NONE, SPAN_NONE, on_transfer, l);
		return;
	}
	change.server.id = l->m->d->id.self;
	if (membership_change(l->m, &change, on_change, l) == TV_OK)
		l->changing = true;
}

static void
step(struct leave *l)
{
	struct raftd *d = l->m->d;
	const struct raft_status *st = engine_status(d->engine);
	const struct raft_server_conf *leader = raft_config_find(engine_config(d->engine), st->leader);

	if (leader == NULL)			/* it may be removing itself */
		leader = raft_config_find(engine_config_committed(d->engine), st->leader);
	if (own_seat(d) == SEAT_NONE) {
		leave_finish(l, TV_OK, "");
		return;
	}
	if (mono_before(l->deadline, clock_mono())) {
		if (l->force)
			log_warn("triumvir", "leaving by force: no leader removed this server from the configuration");
		leave_finish(l, l->force ? TV_OK : TV_ETIMEOUT, l->force ? "" : "no leader removed this server in time; "
		    "bring enough servers back for a quorum, or use --force");
		return;
	}
	if (l->changing || l->asking)
		return;
	if (st->role == RAFT_LEADER)
		step_leader(l);
	else if (leader != NULL && leader->id != d->id.self)
		ask_leader(l, leader);
}

static void
on_timer(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	step(w->data);
}

void
leave_wake(struct leave *l)
{
	if (l->active && !l->m->d->stopping)
		ev_feed_event(l->m->d->loop, &l->timer, EV_TIMER);
}

/* Refusals that are known before anything is done. */
static enum tv_err
check(struct leave *l, char *text, size_t cap)
{
	struct raftd *d = l->m->d;
	const struct raft_status *st = engine_status(d->engine);

	if (l->force)
		return TV_OK;
	if (st->leader == 0 && st->role != RAFT_LEADER)
		return tv_fail(text, cap, TV_ENOLEADER, "the cluster has no leader, so this server cannot be removed "
		    "from it; bring enough servers back for a quorum, or use --force");
	/* A follower's leader does the arithmetic. */
	return st->role != RAFT_LEADER || membership_can_lose(l->m, d->id.self, text, cap) ? TV_OK : TV_ECONFLICT;
}

void
leave_start(struct leave *l, bool force, membership_done *done, void *ctx)
{
	struct raftd *d = l->m->d;
	const struct raft_config *c = engine_config(d->engine);
	char text[512] = "";
	enum tv_err err;

	if (d->left) {		/* again, because gossip was not left */
		done(ctx, TV_OK, "");
		return;
	}
	if (l->active) {
		done(ctx, TV_EAGAIN, "this server is leaving already");
		return;
	}
	log_info("triumvir", "server starting leave");
	l->active = true;
	l->force = force;
	l->asking = l->changing = l->transferred = false;
	l->done = done;
	l->ctx = ctx;
	l->deadline = mono_add(clock_mono(), d->conf.leave_timeout);
	/* Alone, or in no cluster: nothing to be removed from; the data stays. */
	if (own_seat(d) == SEAT_NONE || (c->count <= 1 && raft_config_find(c, d->id.self) != NULL)) {
		leave_finish(l, TV_OK, "");
		return;
	}
	err = check(l, text, sizeof(text));
	if (err != TV_OK) {
		leave_finish(l, err, text);
		return;
	}
	ev_timer_set(&l->timer, 0.0, STEP);
	ev_timer_start(d->loop, &l->timer);
}

void
leave_forget(struct leave *l, void *ctx)
{
	if (l->ctx == ctx)
		l->done = NULL;
}

struct leave *
leave_new(struct membership *m)
{
	struct leave *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	l->m = m;
	ev_timer_init(&l->timer, on_timer, 0.0, STEP);
	l->timer.data = l;
	return l;
}

void
leave_free(struct leave *l)
{
	ev_timer_stop(l->m->d->loop, &l->timer);
	free(l);
}
