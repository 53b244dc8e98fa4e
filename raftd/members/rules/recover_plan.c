/* May this server go on alone? */
#include <stdio.h>

#include "raftd/members/rules/recover_plan.h"

static bool
longer(const struct msg_log_state *a, const struct msg_log_state *b)
{
	return a->last_term != b->last_term ? a->last_term > b->last_term : a->last_index > b->last_index;
}

static uint64_t
max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void
survey(const struct recover_input *in, struct recover_plan *out, const struct msg_log_state **best)
{
	const struct raft_server_conf *self = raft_config_find(in->config, in->self);

	out->voters = raft_config_voters(in->config);
	out->answering = self != NULL && self->voter;
	out->best = in->self;
	out->leader_last = max_u64(in->log.leader_last, in->log.commit);
	*best = &in->log;
	for (unsigned i = 0; i < in->count; i++) {
		const struct recover_server *s = &in->servers[i];
		const struct raft_server_conf *c = raft_config_find(in->config, s->id);

		if (!s->answered || c == NULL)
			continue;
		out->answering += c->voter;
		out->leader_last = max_u64(out->leader_last, max_u64(s->log.leader_last, s->log.commit));
		if (longer(&s->log, *best)) {
			*best = &s->log;
			out->best = s->id;
		}
	}
	if (out->leader_last > in->log.last_index)
		out->may_be_lost = out->leader_last - in->log.last_index;
}

static void
refuse_for_best(const struct recover_input *in, struct recover_plan *out, const struct msg_log_state *best)
{
	const struct raft_server_conf *s = raft_config_find(in->config, out->best);

	snprintf(out->refused, sizeof(out->refused), "%s has the longer log: up to index %llu of term %llu, this server up to "
	    "index %llu of term %llu; recover there, or stop that server if its data cannot be used", s->name,
	    (unsigned long long)best->last_index, (unsigned long long)best->last_term,
	    (unsigned long long)in->log.last_index, (unsigned long long)in->log.last_term);
}

void
recover_plan(const struct recover_input *in, struct recover_plan *out)
{
	const struct raft_server_conf *leader = raft_config_find(in->config, in->leader);
	const struct msg_log_state *best;
	unsigned quorum;

	*out = (struct recover_plan){ 0 };
	survey(in, out, &best);
	quorum = out->voters / 2 + 1;
	if (!in->member)
		snprintf(out->refused, sizeof(out->refused), "this server belongs to no cluster, so there is nothing to recover");
	else if (raft_config_find(in->config, in->self) == NULL)
		snprintf(out->refused, sizeof(out->refused), "this server was removed from the cluster; its data is not the "
		    "cluster's any more");
	else if (in->leads)
		snprintf(out->refused, sizeof(out->refused), "this server leads the cluster: nothing is lost");
	else if (in->leader != 0)
		snprintf(out->refused, sizeof(out->refused), "the cluster has a leader, %s: nothing is lost",
		    leader != NULL ? leader->name : "which this server does not know by name");
	else if (out->answering >= quorum)
		snprintf(out->refused, sizeof(out->refused), "%u of %u voters answer, which is a majority: they will elect a "
		    "leader by themselves, and nothing is lost; if they do not, look at their logs", out->answering, out->voters);
	else if (in->stateless)
		snprintf(out->refused, sizeof(out->refused), "the state of this server is lost, and only a leader "
		    "could send it again: alone it could never continue; stop raftd here and recover another "
		    "survivor, or put this server's raftd directory back from a backup first");
	else if (out->best != in->self)
		refuse_for_best(in, out, best);
	out->allowed = out->refused[0] == '\0';
}
