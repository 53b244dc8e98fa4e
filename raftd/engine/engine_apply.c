/* Applying what is committed, by the thread of the state. */
#include <string.h>

#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "raftd/engine/engine_int.h"
#include "raftd/engine/entrycache.h"
#include "raftd/fsm/fsm.h"

#define LATER_ENTRIES 256		/* committed ones that may wait for more, where no caller waits for them */
#define LATER_TIME MONO_MS(2)		/* and for so long, or until the next event: a ?stale read is that much older */

/* What is in the log and cannot be read: a server that cannot give it to others leaves that to one that can (S89). */
void
engine_log_unreadable(struct engine *e, uint64_t index, enum tv_err err, int sys)
{
	if (e->corrupt)
		return;
	log_err("raft", "log entry %llu in %s/raftd/log cannot be read: %s; stopping, since the other servers have "
	    "it intact", (unsigned long long)index, e->d->cluster.data_dir, err == TV_ESYS ? strerror(sys) : tv_strerror(err));
	engine_stop(e);
}

void
engine_apply_failed(struct engine *e, enum tv_err err)
{
	char why[400];

	if (e->corrupt)
		return;
	fsm_trouble_text(e->d->fsm, why, sizeof(why));
	if (err == TV_EINVAL)
		log_err("raft", "stopping: %s", why);
	else
		log_err("raft", "state machine failed at index %llu: %s%s%s", (unsigned long long)e->applied + 1, tv_strerror(err),
		    why[0] != '\0' ? ": " : "", why);
	engine_stop(e);
}

/* Answers what waits for the entries up to here.  results: NULL when nothing does. */
static void
applied_up_to(struct engine *e, const struct raft_entry *entries, uint32_t count, const struct fsm_result *results)
{
	e->applied += count;
	for (uint32_t i = 0; results != NULL && i < count; i++)
		if (entries[i].index >= proposals_first(e->proposals))
			proposals_applied(e->proposals, entries[i].index, entries[i].term, &results[i]);
	(void)engine_feed(e, (struct raft_input){ .type = RAFT_IN_APPLIED, .index = e->applied });
	entrycache_evict(e->cache, e->applied);
}

/* The thread gives a batch back.  Where it ended early, those behind it come back untouched, and are handed over again. */
static void
on_applied(void *ctx, struct state_batch *b)
{
	struct engine *e = ctx;
	/* The next batch was not the state's next: it would be handed over for ever. */
	bool is_refused = b->first == e->applied + 1 && b->applied == 0 && b->err == TV_OK && !b->restore;

	if (b->unread)
		engine_log_unreadable(e, b->first, b->err, b->sys);
	else if (b->err != TV_OK)
		engine_apply_failed(e, b->err);
	if (b->applied > 0) {
		fsm_fire(e->d->fsm, b->touches);
		e->hooks->applied(e->d, b->entries, b->applied);
		applied_up_to(e, b->entries, b->applied, b->wanted ? b->results : NULL);
	}
	if (b->restore && !e->corrupt) {
		e->restore.index = b->entries[0].index;
		e->restore.term = b->entries[0].term;
		memcpy(e->restore.id, b->restore_id, sizeof(e->restore.id));
	}
	statethread_batch_done(e->d->state, b);
	if (statethread_applying(e->d->state) == 0)
		e->handed = e->applied;
	TV_ASSERT(!is_refused);
}

const struct state_events engine_state_events = { on_applied };

/* The next entry replaces the state.  True: it did. */
static bool
apply_restore(struct engine *e)
{
	struct raft_entry entry = { .index = e->restore.index, .term = e->restore.term };
	struct fsm_result ok = { .err = TV_OK };
	enum restore_verdict verdict;

	if (statethread_applying(e->d->state) > 0)
		return false;
	verdict = e->hooks->restore(e->d, e->restore.id, entry.index, entry.term);
	if (verdict == RESTORE_BROKEN)
		engine_apply_failed(e, TV_ECORRUPT);
	if (verdict == RESTORE_ENTRY)
		e->restore.plain = true;
	if (verdict != RESTORE_TAKEN)
		return false;
	e->restore.index = 0;
	e->handed = entry.index;
	applied_up_to(e, &entry, 1, &ok);
	return true;
}

bool
engine_must_not_apply(struct engine *e)
{
	return e->corrupt || e->opening || e->stateless || fsm_held(e->d->fsm) || e->hooks->holds_state(e->d);
}

/* From the cache, or to be read from the log by the thread. */
static void
fill_batch(struct engine *e, struct state_batch *b)
{
	uint64_t left = e->commit - e->handed, last;

	b->first = e->handed + 1;
	b->count = left > STATE_BATCH_ENTRIES ? STATE_BATCH_ENTRIES : (uint32_t)left;
	b->plain = e->restore.plain;
	for (uint32_t i = 0; i < b->count; i++) {
		const struct raft_entry *c = entrycache_get(e->cache, b->first + i);

		b->from_log = c == NULL && i == 0;
		if (c == NULL && i > 0)
			b->count = i;
		if (c == NULL)
			break;
		b->entries[i] = *c;
	}
	last = b->first + b->count - 1;
	b->wanted = proposals_first(e->proposals) <= last;
	if (b->wanted)
		proposals_time(e->proposals, last, clock_mono(), &e->commits);
	b->quiet = engine_in_no_hurry(e);
	e->restore.index = 0;
	e->restore.plain = false;
	e->handed = last;
}

bool
engine_in_no_hurry(struct engine *e)
{
	const struct raft_status *st = engine_status(e);

	return !e->opening && st->role != RAFT_LEADER && st->last_index > e->commit && e->restore.index == 0 && reads_none(&e->reads) &&
	    fsm_watch_count(e->d->fsm) == 0 && !engine_writing(e) && !e->corrupt;
}

/* What came of waiting for more is applied together: one transaction, and a thread woken once. */
static bool
waits_for_more(struct engine *e)
{
	struct mono now;

	if (e->commit - e->handed >= LATER_ENTRIES || !engine_in_no_hurry(e))
		return false;
	now = clock_mono();
	if (e->later.ns == 0)
		e->later = mono_add(now, LATER_TIME);
	return mono_before(now, e->later);
}

bool
engine_apply(struct engine *e)
{
	struct state_batch *b;

	if (e->handed == e->commit || waits_for_more(e))
		return false;
	e->later = MONO_ZERO;
	while (e->handed < e->commit && !engine_must_not_apply(e)) {
		if (e->restore.index != 0 && !e->restore.plain) {
			bool taken = apply_restore(e);

			if (taken || !e->restore.plain)
				return taken;
		}
		b = statethread_batch(e->d->state);
		if (b == NULL)
			return false;
		fill_batch(e, b);
		statethread_apply(e->d->state, b);
	}
	return false;
}
