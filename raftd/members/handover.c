/* Stopping in order, see handover.h. */
#include <ev.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/proc/daemon.h"
#include "raftd/engine/engine.h"
#include "raftd/members/handover.h"
#include "raftd/members/membership.h"
#include "raftd/peers/links.h"

#define LOOK_EVERY 0.005		/* seconds */

struct handover {
	struct raftd *d;
	ev_timer timer;
	struct mono deadline;
	bool asked, impossible, done;
};

static void
on_transfer(void *ctx, enum tv_err err, const char *text)
{
	struct handover *h = ctx;

	h->asked = false;
	h->impossible = err == TV_ECONFLICT;	/* no other voter */
	if (err != TV_OK && err != TV_EAGAIN && err != TV_ENOTLEADER)
		log_info("raft", "leadership was not transferred: %s", text);
}

static void
end_process(struct handover *h)
{
	if (h->done)
		return;
	h->done = true;
	ev_timer_stop(h->d->loop, &h->timer);
	daemon_quit(h->d->data_lost ? 1 : 0);
}

/* When a whole cluster stops, there is soon no server left to take over. */
static bool
peer_connected(const struct raftd *d)
{
	for (unsigned i = 0; i < links_count(d->links); i++)
		if (links_at(d->links, i)->proven)
			return true;
	return false;
}

/*
 * Looks instead of listening: leadership may go by itself, a transfer that an operator asked for may be under way, and
 * the last answer to a write comes from the state machine.
 */
static void
on_look(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct handover *h = w->data;
	struct engine *e = h->d->engine;

	if (h->impossible || !peer_connected(h->d) || !mono_before(clock_mono(), h->deadline)) {
		end_process(h);
	} else if (engine_is_leader(e)) {
		if (!h->asked) {
			h->asked = true;	/* first: the answer may come at once */
			membership_transfer(h->d->members, SPAN_NONE, SPAN_NONE, on_transfer, h);
		}
	} else {
		engine_retire(e);
		if (!engine_writing(e))
			end_process(h);
	}
}

bool
handover_begin(struct raftd *d)
{
	struct handover *h;

	if (d->engine == NULL || !engine_is_leader(d->engine) ||
	    raft_config_voters(engine_config(d->engine)) < 2)
		return false;
	h = calloc(1, sizeof(*h));
	if (h == NULL)
		return false;
	h->d = d;
	h->deadline = mono_add(clock_mono(), mono_mul(d->conf.election_timeout, 3));
	ev_timer_init(&h->timer, on_look, 0.0, LOOK_EVERY);
	h->timer.data = h;
	ev_timer_start(d->loop, &h->timer);
	log_info("raft", "transferring leadership before stopping");
	d->handover = h;
	return true;
}

void
handover_free(struct handover *h)
{
	if (h == NULL)
		return;
	ev_timer_stop(h->d->loop, &h->timer);
	membership_forget(h->d->members, h);
	free(h);
}
