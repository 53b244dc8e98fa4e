/* What `clusterctl info` and the metrics tell of Raft. */
#include <stdio.h>

#include "raftd/disk/space.h"
#include "raftd/engine/engine_int.h"
#include "raftd/engine/entrycache.h"

/* How many entries of the leader's log each other server is not known to have. */
static void
info_lag(const struct raft_status *st, const struct raft_config *conf, figure_fn *fn, void *ctx)
{
	for (unsigned i = 0; i < st->peer_count && st->role == RAFT_LEADER; i++) {
		const struct raft_server_conf *s = raft_config_find(conf, st->peers[i].id);
		uint64_t match = st->peers[i].match;
		char name[sizeof(s->name) + sizeof("peer_lag.")];

		if (s == NULL)
			continue;
		snprintf(name, sizeof(name), "peer_lag.%s", s->name);
		figure_put(fn, ctx, name, st->last_index > match ? st->last_index - match : 0);
	}
}

void
engine_info(struct engine *e, figure_fn *fn, void *ctx)
{
	const struct raft_status *st = engine_status(e);
	const struct raft_config *conf = raft_config(e->core);
	const struct raft_server_conf *self = raft_config_find(conf, e->d->id.self);
	const struct raft_server_conf *leader = raft_config_find(conf, st->leader);
	struct histogram syncs;
	uint64_t contact_ms, slow;
	char contact[32];

	(void)engine_leader_known(e, &contact_ms);
	if (st->role == RAFT_LEADER)
		snprintf(contact, sizeof(contact), "0");
	else if (e->heard.ns == 0)
		snprintf(contact, sizeof(contact), "never");
	else
		snprintf(contact, sizeof(contact), "%llums", (unsigned long long)contact_ms);
	figure_put(fn, ctx, "applied_index", e->applied);
	fn(ctx, "cluster_id", e->d->id.cluster_id);
	(void)histogram_info(&e->commits, "commit", fn, ctx);
	figure_put(fn, ctx, "commit_index", e->commit);
	figure_put(fn, ctx, "disk_free", space_available(e->d->space));
	figure_put(fn, ctx, "disk_full", space_full(e->d->space));
	figure_put(fn, ctx, "disk_reserve", e->d->conf.disk_reserve);
	figure_put(fn, ctx, "disk_went_back", st->went_back);
	figure_put(fn, ctx, "disks_went_back", st->disks_went_back);
	figure_put(fn, ctx, "durable_log_index", st->persisted);
	figure_put(fn, ctx, "entry_cache_bytes", entrycache_memory(e->cache));
	figure_put(fn, ctx, "fenced_by_generation", generation_number(e->d->fenced));
	figure_put(fn, ctx, "first_log_index", st->first_index);
	figure_put(fn, ctx, "fsm_pending", e->commit - e->applied);
	figure_put(fn, ctx, "generation", generation_number(e->d->id.generation));
	figure_put(fn, ctx, "has_leader", st->leader != 0);
	figure_put(fn, ctx, "is_leader", st->role == RAFT_LEADER);
	fn(ctx, "last_contact", contact);
	figure_put(fn, ctx, "last_log_index", st->last_index);
	figure_put(fn, ctx, "last_log_term", st->last_term);
	figure_put(fn, ctx, "last_snapshot_index", st->snapshot_index);
	figure_put(fn, ctx, "last_snapshot_term", st->snapshot_term);
	fn(ctx, "leader", leader != NULL ? leader->addr : "");
	figure_put(fn, ctx, "leader_last_index", st->role == RAFT_LEADER ? st->last_index : st->leader_last);
	figure_put(fn, ctx, "num_peers", conf->count > 0 && self != NULL ? conf->count - 1 : conf->count);
	info_lag(st, conf, fn, ctx);
	figure_put(fn, ctx, "prompt_elections", st->prompt_elections);
	fn(ctx, "state", raft_role_name(st->role));
	figure_put(fn, ctx, "state_lost", e->stateless);
	fn(ctx, "suffrage", self == NULL || e->d->removed ? "none" : self->voter ? "voter" : "learner");
	logthread_syncs(e->log, &syncs, &slow);
	figure_put(fn, ctx, "slow_syncs", slow);
	(void)histogram_info(&syncs, "sync", fn, ctx);
	figure_put(fn, ctx, "syncs", syncs.count);
	figure_put(fn, ctx, "term", st->term);
}
