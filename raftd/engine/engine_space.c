/* Writes on a full disk: refused with a sentence, and led by a voter that has room (S85). */
#include <stdio.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "raftd/disk/space.h"
#include "raftd/engine/engine_int.h"

#define PAUSE MONO_S(2)			/* between tries */
#define TRY_AGAIN MONO_S(10)		/* a voter that did not take over may have caught up by then */

void
engine_disk_space(struct raftd *d, bool full)
{
	struct engine *e = d->engine;

	e->without_room = (struct tried_voters){ 0 };
	(void)engine_feed(e, (struct raft_input){ .type = RAFT_IN_DISK_SPACE, .ctx = full });
	engine_wake(e);
}

raft_id
engine_voter_with_room(struct engine *e)
{
	return voter_with_space(engine_status(e), &e->without_room, PROPOSE_ENTRIES_MAX);
}

void
engine_hand_over_full(struct engine *e)
{
	const struct raft_status *st = engine_status(e);
	const struct raft_server_conf *to;
	struct mono now = clock_mono();
	raft_id id;

	if (!space_full(e->d->space) || st->role != RAFT_LEADER || st->transferring ||
	    mono_before(mono_sub(now, e->handed_over), PAUSE))
		return;
	if (!mono_before(mono_sub(now, e->handed_over), TRY_AGAIN))
		e->without_room.count = 0;
	id = engine_voter_with_room(e);
	if (id == 0)
		return;
	voter_tried(&e->without_room, id);
	e->handed_over = now;
	to = raft_config_find(raft_config(e->core), id);
	log_warn("raft", "disk full: transferring leadership to %s, which has free space",
	    to != NULL ? to->name : "another");
	(void)engine_transfer(e, id);	/* a server that does not take it is tried again later */
}

/* Full voters among the others; *quorum: enough of all are in touch and have room, so that writes get committed. */
static unsigned
full_voters(struct engine *e, bool *quorum)
{
	const struct raft_status *st = engine_status(e);
	unsigned room = st->voter && !space_full(e->d->space), full = 0, voters = st->voter;

	for (unsigned i = 0; i < st->peer_count; i++) {
		const struct raft_peer_status *p = &st->peers[i];

		voters += p->voter;
		full += p->voter && p->full;
		room += p->voter && p->active && !p->full;
	}
	*quorum = room > voters / 2;
	return full;
}

bool
engine_no_space(struct engine *e)
{
	bool quorum;

	return space_full(e->d->space) || (full_voters(e, &quorum) > 0 && !quorum);
}

void
engine_no_space_text(struct engine *e, char *dst, size_t cap)
{
	const struct raft_status *st = engine_status(e);
	size_t at;

	if (space_full(e->d->space)) {
		space_text(e->d->space, dst, cap);
		return;
	}
	at = (size_t)snprintf(dst, cap, "disk full: too few servers have space for a write; free space on");
	for (unsigned i = 0; i < st->peer_count; i++) {
		const struct raft_server_conf *s = raft_config_find(raft_config(e->core), st->peers[i].id);

		if (s != NULL && st->peers[i].full && at < cap)
			at += (size_t)snprintf(dst + at, cap - at, " %s", s->name);
	}
	if (at < cap)
		snprintf(dst + at, cap - at, ", and writes resume by themselves");
}
