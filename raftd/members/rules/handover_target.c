/* Which voter takes over from a leader without an rpcd, see handover_target.h. */
#include "raftd/members/rules/handover_target.h"

/* Why it would do no better, NULL: it could take over. */
static const char *
hindered(const struct raft_status *st, raft_id id)
{
	const struct raft_peer_status *p = raft_status_peer(st, id);

	return p == NULL ? NULL : p->full ? "its disk is full" : p->unready ? "it is opening its state" :
	    p->lacking ? "its disk went back, and it has not caught up" : NULL;
}

static uint64_t
match_of(const struct raft_status *st, raft_id id)
{
	const struct raft_peer_status *p = raft_status_peer(st, id);

	return p == NULL ? 0 : p->match;
}

static const struct handover_target *
newest(const struct raft_status *st, const struct handover_target *s, unsigned count, enum handover_target_state state)
{
	const struct handover_target *best = NULL;

	for (unsigned i = 0; i < count; i++)
		if (s[i].state == state && hindered(st, s[i].id) == NULL &&
		    (best == NULL || match_of(st, s[i].id) > match_of(st, best->id)))
			best = &s[i];
	return best;
}

const struct handover_target *
handover_target_pick(const struct raft_status *st, const struct handover_target *s, unsigned count)
{
	const struct handover_target *best = newest(st, s, count, HANDOVER_TARGET_SERVED);

	return best != NULL ? best : newest(st, s, count, HANDOVER_TARGET_UNKNOWN);
}

static const char *
reason(const struct raft_status *st, const struct handover_target *s)
{
	const char *why;

	switch (s->state) {
	case HANDOVER_TARGET_SILENT:
		return "its rpcd does not answer";
	case HANDOVER_TARGET_DESERTED:
		return "its rpcd does not run";
	case HANDOVER_TARGET_GONE:
		return "its raftd cannot be reached";
	default:
		why = hindered(st, s->id);
		return why != NULL ? why : "it did not take over";
	}
}

void
handover_target_reasons(const struct raft_status *st, const struct raft_config *c, const struct handover_target *s,
    unsigned count, struct buf *out)
{
	for (unsigned i = 0; i < count; i++) {
		const struct raft_server_conf *conf = raft_config_find(c, s[i].id);

		buf_printf(out, "%s%s (%s)", i > 0 ? ", " : "", conf != NULL ? conf->name : "?", reason(st, &s[i]));
	}
}
