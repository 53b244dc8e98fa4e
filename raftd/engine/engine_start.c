/* The core as it was, from the log and the state that this server finds. */
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "raftd/engine/engine_int.h"
#include "raftd/fsm/fsm.h"

#define COMMIT_DELAY MONO_MS(2)		/* a writer that waits for each answer comes again within that */

static enum tv_err
restore_entry(void *ctx, const struct raft_entry *entry)
{
	return raft_restore_entry(ctx, entry);
}

/*
 * The state is behind the place from which the log was cut, as after its damage (S89): what the log still has is
 * applied again.  If that begins too late, a snapshot must come first.  Log, term and vote are whole, so this server
 * remains what it was to the others.
 */
static void
judge_state(struct engine *e, uint64_t applied)
{
	const struct log_meta *m = &e->d->meta;
	uint64_t cut = m->first > 0 ? m->first - 1 : m->snapshot_index;

	if (applied >= m->snapshot_index)
		return;
	e->stateless = applied < cut;
	log_warn("raft", "the state is at index %llu, of the %llu that were made durable: %s",
	    (unsigned long long)applied, (unsigned long long)m->snapshot_index,
	    e->stateless ? "waiting for a snapshot from the leader" : "applying the log again");
}

void
engine_log_too_short(const struct raftd *d, uint64_t applied, char *errbuf, size_t cap)
{
	const struct log_meta *m = &d->meta;
	const char *dir = d->cluster.data_dir;

	snprintf(errbuf, cap, "%s/raftd/state is at index %llu, but the log in %s/raftd/log ends at %llu: put the lost log "
	    "back, or move %s/raftd away and start again: this server then joins as a new one and gets everything from the others",
	    dir, (unsigned long long)applied, dir,
	    (unsigned long long)(m->last > m->snapshot_index ? m->last : m->snapshot_index), dir);
}

/*
 * Nothing is applied that is not in the log first: where it is not, log/ was lost or replaced (S101).  As it was found at the
 * start: what a leader has sent since does not make it the log of this state.
 */
static bool
log_reaches_state(struct engine *e, char *errbuf, size_t cap)
{
	const struct log_meta *m = &e->d->meta;
	uint64_t last = m->last > m->snapshot_index ? m->last : m->snapshot_index, applied = fsm_applied(e->d->fsm);
	uint64_t term = raft_term_at(e->core, applied);
	const char *dir = e->d->cluster.data_dir;

	if (last < applied)
		engine_log_too_short(e->d, applied, errbuf, cap);
	else if (term != 0 && term != fsm_applied_term(e->d->fsm))
		snprintf(errbuf, cap, "%s/raftd/state is at index %llu of term %llu, but the log in %s/raftd/log has term %llu "
		    "there: they do not belong together; put back the one that was replaced, or move %s/raftd away and start "
		    "again: this server then joins as a new one and gets everything from the others", dir,
		    (unsigned long long)applied, (unsigned long long)fsm_applied_term(e->d->fsm), dir,
		    (unsigned long long)term, dir);
	else
		return true;
	return false;
}

/* A snapshot comes from a leader, which this server cannot become. */
static enum tv_err
tell_stateless(struct engine *e, char *errbuf, size_t cap)
{
	const struct raft_config *c = raft_config(e->core);
	const struct raft_server_conf *self = raft_config_find(c, e->d->id.self);

	if (self == NULL || !self->voter || raft_config_voters(c) > 1)
		return TV_OK;
	return tv_fail(errbuf, cap, TV_ECORRUPT, "the state is lost, the log starts only after index %llu, and no "
	    "other server has it: put %s/raftd back from a backup, or empty it, start again and restore a snapshot "
	    "file", (unsigned long long)(e->d->meta.first > 0 ? e->d->meta.first - 1 : e->d->meta.snapshot_index),
	    e->d->cluster.data_dir);
}

/* With another node id the same disk would be a stranger that holds the votes and entries of a member (S61). */
static enum tv_err
check_node_id(const struct raftd *d, const struct raft *core, char *errbuf, size_t cap)
{
	const struct raft_config *c = raft_config(core);

	for (unsigned i = 0; i < c->count; i++) {
		const struct raft_server_conf *s = &c->servers[i];

		if (strcmp(s->store_id, d->id.store_id) != 0 || strcmp(s->uuid, d->id.uuid) == 0)
			continue;
		return tv_fail(errbuf, cap, TV_ECORRUPT, "the data in %s/raftd is that of node id %s, but %s/node-id "
		    "says %s: put the former back there, or move %s/raftd away, and this server joins as a new one",
		    d->cluster.data_dir, s->uuid, d->cluster.data_dir, d->id.uuid, d->cluster.data_dir);
	}
	return TV_OK;
}

struct raft *
engine_core(struct raftd *d, const struct raftd_conf *c, char *errbuf, size_t cap)
{
	struct raft_options opt = {
		.self = d->id.self,
		.election_timeout = c->election_timeout, .heartbeat = c->heartbeat_interval,
		.append_entries_max = (uint32_t)c->append_entries_max,
		.append_bytes_max = (uint32_t)c->append_bytes_max,
		.inflight_max = (uint32_t)c->inflight_max, .snapshot_chunk_bytes = (uint32_t)c->snapshot_chunk,
		.catchup_rounds = (uint32_t)c->catchup_rounds, .check_quorum = true, .pre_vote = true,
		.commit_delay = COMMIT_DELAY,
	};
	struct raft_restore from = {
		.term = d->meta.term, .vote = d->meta.vote,
		.snapshot_index = d->meta.snapshot_index, .snapshot_term = d->meta.snapshot_term,
		.snapshot_config = d->meta.snapshot_config, .opening = true,
	};
	struct raft *core;
	enum tv_err err;

	opt.seed = (uint64_t)clock_wall_ns() ^ d->id.self;
	core = raft_new(&opt, &from, clock_mono());
	snprintf(errbuf, cap, "out of memory");
	if (core == NULL)
		return NULL;
	err = d->meta.last == 0 ? TV_OK : log_each(d->log, d->meta.first, restore_entry, core);
	if (err != TV_OK)
		snprintf(errbuf, cap, "the log cannot be read: %s", tv_strerror(err));
	else
		err = check_node_id(d, core, errbuf, cap);
	if (err == TV_OK)
		return core;
	raft_free(core);
	return NULL;
}

enum tv_err
engine_state_open(struct engine *e, char *errbuf, size_t cap)
{
	uint64_t applied = fsm_applied(e->d->fsm);

	if (!log_reaches_state(e, errbuf, cap))
		return TV_ECORRUPT;
	judge_state(e, applied);
	if (e->stateless && tell_stateless(e, errbuf, cap) != TV_OK)
		return TV_ECORRUPT;
	e->opening = false;
	e->applied = e->handed = applied;
	(void)engine_feed(e, (struct raft_input){ .type = RAFT_IN_STATE_OPEN, .index = applied, .ctx = e->stateless });
	engine_wake(e);
	return TV_OK;
}
