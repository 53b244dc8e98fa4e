/* Entries of the log, for peers and for the state machine, and applying those that are committed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "raftd/engine/engine_int.h"
#include "raftd/engine/entrycache.h"
#include "raftd/fsm/fsm.h"

/* What is in the log and cannot be read: a server that cannot give it to others leaves that to one that can (S89). */
void
engine_log_unreadable(struct engine *e, uint64_t index, enum tv_err err)
{
	if (e->corrupt)
		return;
	log_err("raft", "log entry %llu in %s/raftd/log cannot be read: %s; stopping, since the other servers have "
	    "it intact",
	    (unsigned long long)index, e->d->cluster.data_dir, err == TV_ESYS ? strerror(errno) : tv_strerror(err));
	engine_stop(e);
}

const struct raft_entry *
engine_entries(struct engine *e, uint64_t first, uint32_t count, uint32_t *got)
{
	struct raft_entry *read;
	enum tv_err err;
	uint64_t bytes_max = e->d->conf.append_bytes_max > APPLY_BYTES_MAX ? e->d->conf.append_bytes_max : APPLY_BYTES_MAX;

	if (count > ENTRIES_SCRATCH)
		count = ENTRIES_SCRATCH;
	for (*got = 0; *got < count; (*got)++) {
		const struct raft_entry *c = entrycache_get(e->cache, first + *got);

		if (c == NULL)
			break;
		e->range[*got] = *c;
	}
	if (*got > 0)
		return e->range;
	arena_reset(&e->range_arena);
	err = log_read(e->d->log, first, first + count - 1, bytes_max, &e->range_arena, &read, got);
	if (err == TV_ECORRUPT || err == TV_ESYS)
		engine_log_unreadable(e, first + *got, err);
	return err == TV_OK && *got > 0 ? read : NULL;
}

/* How many of these may go into one transaction. */
static uint32_t
apply_limit(const struct raft_entry *entries, uint32_t count)
{
	uint64_t work = 0;

	for (uint32_t i = 0; i < count; i++) {
		work += fsm_entry_work(&entries[i]);
		if (work > APPLY_BYTES_MAX && i > 0)
			return i;
	}
	return count;
}

void
engine_apply_failed(struct engine *e, enum tv_err err)
{
	char why[400];

	fsm_trouble_text(e->d->fsm, why, sizeof(why));
	if (err == TV_EINVAL)
		log_err("raft", "stopping: %s", why);
	else
		log_err("raft", "state machine failed at index %llu: %s%s%s", (unsigned long long)e->applied + 1, tv_strerror(err),
		    why[0] != '\0' ? ": " : "", why);
	engine_stop(e);
}

/* Told to whoever waits for the entries up to here. */
static void
applied_up_to(struct engine *e, const struct raft_entry *entries, uint32_t count, bool wanted)
{
	struct raft_input in = { .type = RAFT_IN_APPLIED };

	e->applied += count;
	for (uint32_t i = 0; wanted && i < count; i++)
		if (entries[i].index >= proposals_first(e->proposals))
			proposals_applied(e->proposals, entries[i].index, entries[i].term, &e->results[i]);
	in.index = e->applied;
	engine_feed(e, &in, NULL);
	entrycache_evict(e->cache, e->applied);
}

/* The next entry replaces the state.  False: there is nothing to replace it by, it is an entry as others are. */
static bool
apply_restore(struct engine *e, const struct raft_entry *entry, const char *id, bool *done)
{
	enum restore_verdict verdict = e->hooks->restore(e->d, id, entry->index, entry->term);

	*done = verdict == RESTORE_TAKEN;
	if (verdict == RESTORE_BROKEN)
		engine_apply_failed(e, TV_ECORRUPT);
	if (verdict == RESTORE_TAKEN) {
		e->results[0] = (struct fsm_result){ .err = TV_OK };
		applied_up_to(e, entry, 1, true);
	}
	return verdict != RESTORE_ENTRY;
}

/* Entries before the first that replaces the state. */
static uint32_t
restore_limit(const struct raft_entry *entries, uint32_t count, char id[37])
{
	for (uint32_t i = 0; i < count; i++)
		if (fsm_is_restore(&entries[i], id))
			return i;
	return count;
}

bool
engine_must_not_apply(struct engine *e)
{
	return e->corrupt || e->stateless || fsm_held(e->d->fsm) || e->hooks->holds_state(e->d);
}

bool
engine_apply(struct engine *e)
{
	uint64_t left = e->commit - e->applied;
	const struct raft_entry *entries;
	uint32_t count, plain;
	bool wanted, done;
	enum tv_err err;
	char id[37];

	if (left == 0 || engine_must_not_apply(e))
		return false;
	count = left > APPLY_ENTRIES_MAX ? APPLY_ENTRIES_MAX : (uint32_t)left;
	entries = engine_entries(e, e->applied + 1, count, &count);
	if (entries == NULL) {		/* it is not there, or that was said */
		if (!e->corrupt)
			engine_apply_failed(e, TV_ECORRUPT);
		return false;
	}
	count = apply_limit(entries, count);
	plain = restore_limit(entries, count, id);
	if (plain == 0 && apply_restore(e, &entries[0], id, &done))
		return done;
	count = plain > 0 ? plain : 1;
	wanted = proposals_first(e->proposals) <= e->applied + count;
	if (wanted)
		proposals_time(e->proposals, e->applied + count, clock_mono(), &e->commits);
	arena_reset(&e->apply_arena);
	err = fsm_apply(e->d->fsm, entries, count, &e->apply_arena, wanted ? e->results : NULL);
	if (err != TV_OK) {
		engine_apply_failed(e, err);
		return false;
	}
	e->hooks->applied(e->d, entries, count);
	applied_up_to(e, entries, count, wanted);
	return true;
}
