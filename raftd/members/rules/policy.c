/* Membership policy: one change at a time, quorum first. */
#include <stdio.h>
#include <string.h>

#include "raftd/members/rules/policy.h"

static bool
in_list(const raft_id *list, unsigned count, raft_id id)
{
	for (unsigned i = 0; i < count; i++)
		if (list[i] == id)
			return true;
	return false;
}

enum policy_seat
policy_seat(const struct raft_config *newest, const struct raft_config *committed, raft_id id)
{
	if (raft_config_find(newest, id) != NULL)
		return SEAT_TAKEN;
	return newest->index == committed->index ? SEAT_NONE : SEAT_OPEN;
}

/* Voters that are healthy. */
static unsigned
healthy_voters(const struct raft_config *c, const raft_id *healthy, unsigned healthy_count)
{
	unsigned n = 0;

	for (unsigned i = 0; i < c->count; i++)
		n += c->servers[i].voter && in_list(healthy, healthy_count, c->servers[i].id);
	return n;
}

bool
policy_may_remove(const struct raft_config *c, raft_id id, const raft_id *healthy, unsigned healthy_count,
    char *text, size_t cap)
{
	const struct raft_server_conf *s = raft_config_find(c, id);
	unsigned voters = raft_config_voters(c), alive = healthy_voters(c, healthy, healthy_count), left;

	text[0] = '\0';
	if (s == NULL || !s->voter)
		return true;
	if (raft_removal_keeps_quorum(c, id, healthy, healthy_count))
		return true;
	left = alive - (in_list(healthy, healthy_count, id) ? 1 : 0);
	snprintf(text, cap, "the quorum would be lost: %u of %u voters %s healthy; without %s there are %u voters, "
	    "which need %u healthy ones, and %u would be left", alive, voters, alive == 1 ? "is" : "are", s->name,
	    voters - 1, voters - 1 == 0 ? 1 : (voters - 1) / 2 + 1, left);
	return false;
}

/*
 * May the leader remove this dead server by itself?  Beyond the above: the healthy voters are a majority of the
 * configuration as it stands, and min_voters are left.  Else false, and why in one sentence.
 */
static bool
may_clean_up(const struct policy_input *in, raft_id id, char *text, size_t cap)
{
	const struct raft_server_conf *s = raft_config_find(in->config, id);
	unsigned voters = raft_config_voters(in->config);
	unsigned alive = healthy_voters(in->config, in->healthy, in->healthy_count);

	text[0] = '\0';
	if (s == NULL || !s->voter)
		return true;
	if (voters - 1 < in->min_voters) {
		snprintf(text, cap, "%u voters would be left, and %u are kept in any case (MinQuorum of autopilot)",
		    voters - 1, in->min_voters);
		return false;
	}
	if (alive < voters / 2 + 1) {
		snprintf(text, cap, "%u of %u voters %s healthy, which is no majority", alive, voters,
		    alive == 1 ? "is" : "are");
		return false;
	}
	return policy_may_remove(in->config, id, in->healthy, in->healthy_count, text, cap);
}

/* One that lives, if there is one: a server that was renamed is known by its former name for a while, too. */
static const struct policy_server *
known(const struct policy_input *in, const char *uuid)
{
	const struct policy_server *found = NULL;

	for (unsigned i = 0; i < in->count; i++) {
		if (strcmp(in->servers[i].uuid, uuid) != 0)
			continue;
		if (found == NULL || in->servers[i].status == MEMBER_ALIVE)
			found = &in->servers[i];
		if (found->status == MEMBER_ALIVE)
			break;
	}
	return found;
}

static const struct raft_server_conf *
configured(const struct raft_config *c, const char *uuid)
{
	for (unsigned i = 0; i < c->count; i++)
		if (strcmp(c->servers[i].uuid, uuid) == 0)
			return &c->servers[i];
	return NULL;
}

/* True, for callers that return it. */
static bool
decided(struct policy_decision *out, enum policy_action action, const struct raft_server_conf *s)
{
	out->action = action;
	out->server = *s;
	return true;
}

/* Removes the server if quorum stays; else tells why not.  True: decided. */
static bool
try_remove(const struct policy_input *in, const struct raft_server_conf *s, const char *why,
    struct policy_decision *out)
{
	char text[256];

	if (policy_may_remove(in->config, s->id, in->healthy, in->healthy_count, text, sizeof(text))) {
		snprintf(out->why, sizeof(out->why), "%s", why);
		return decided(out, POLICY_REMOVE, s);
	}
	snprintf(out->why, sizeof(out->why), "not removing %.64s, which %.48s: %.200s", s->name, why, text);
	return false;
}

/* Dead for long: removed when nothing at all speaks against it. */
static bool
try_clean_up(const struct policy_input *in, const struct raft_server_conf *s, struct policy_decision *out)
{
	char text[256];

	if (may_clean_up(in, s->id, text, sizeof(text))) {
		snprintf(out->why, sizeof(out->why), "failed");
		return decided(out, POLICY_REMOVE, s);
	}
	snprintf(out->why, sizeof(out->why), "not removing %.64s, which failed: %.200s", s->name, text);
	return false;
}

/*
 * The server that has taken the place of one that is gone: a proven one of the same name, or at the same address, where the old
 * one can be no more (S60).  NULL: none.
 */
static const struct policy_server *
heir_of(const struct policy_input *in, const struct raft_server_conf *s, const struct policy_server *g)
{
	if (in_list(in->healthy, in->healthy_count, s->id) || (g != NULL && g->status == MEMBER_ALIVE))
		return NULL;
	for (unsigned i = 0; i < in->count; i++) {
		const struct policy_server *h = &in->servers[i];

		if (h->status == MEMBER_ALIVE && h->store_id[0] != '\0' && !h->tombstoned && strcmp(h->uuid, s->uuid) != 0 &&
		    (strcmp(h->addr, s->addr) == 0 || (g == NULL && strcmp(h->name, s->name) == 0)))
			return h;
	}
	return NULL;
}

/*
 * What it voted and acknowledged before is forgotten there: it is to vote again only when it has caught up.  Not when there is no
 * quorum without it: then it keeps its seat while it catches up.
 */
static bool
try_demote(const struct policy_input *in, const struct raft_server_conf *s, struct policy_decision *out)
{
	char text[256];

	if (policy_may_remove(in->config, s->id, in->healthy, in->healthy_count, text, sizeof(text)))
		return decided(out, POLICY_DEMOTE, s);
	snprintf(out->why, sizeof(out->why), "not demoting %.64s, whose disk went back, while it catches up: %.200s", s->name, text);
	return false;
}

/* A server that was renamed keeps its seat, under its new name. */
static bool
decide_name(const struct raft_server_conf *s, const char *name, struct policy_decision *out)
{
	if (name == NULL || strcmp(name, s->name) == 0)
		return false;
	(void)decided(out, POLICY_RENAME, s);
	snprintf(out->server.name, sizeof(out->server.name), "%s", name);
	return true;
}

/* A configured server that has to go or to change. */
static bool
decide_configured(const struct policy_input *in, const struct raft_server_conf *s, struct policy_decision *out)
{
	const struct policy_server *g = known(in, s->uuid), *heir;

	out->for_good = false;
	if (s->id == in->self)
		return decide_name(s, in->self_name, out);
	heir = heir_of(in, s, g);
	if (heir != NULL) {
		out->for_good = try_remove(in, s, strcmp(heir->name, s->name) == 0 ?
		    "was replaced by a new server of its name" : "was replaced by a new server at its address", out);
		return out->for_good;
	}
	if (s->voter && in_list(in->went_back, in->went_back_count, s->id) && try_demote(in, s, out))
		return true;
	if (g == NULL)
		return false;
	if (g->status == MEMBER_LEFT) {
		/*
		 * A server that leaves on its own gives up its seat first and says good-bye then; one that still has a seat was forced
		 * out, also when that came before any server saw it fail.
		 */
		if ((g->forced || !in_list(in->healthy, in->healthy_count, s->id)) && !g->tombstoned)
			return decided(out, POLICY_TOMBSTONE, s);
		return try_remove(in, s, "left", out);
	}
	if (g->store_id[0] != '\0' && strcmp(g->store_id, s->store_id) != 0)
		return try_remove(in, s, "came back with an empty disk", out);
	if (g->status == MEMBER_FAILED && in_list(in->dead, in->dead_count, s->id) &&
	    !in_list(in->healthy, in->healthy_count, s->id))
		return try_clean_up(in, s, out);
	if (g->status == MEMBER_ALIVE && g->store_id[0] != '\0' && strcmp(g->addr, s->addr) != 0) {
		(void)decided(out, POLICY_UPDATE_ADDR, s);
		snprintf(out->server.addr, sizeof(out->server.addr), "%s", g->addr);
		return true;
	}
	if (g->status == MEMBER_ALIVE && g->store_id[0] != '\0' && decide_name(s, g->name, out))
		return true;
	return !s->voter && g->status == MEMBER_ALIVE && in_list(in->caught_up, in->caught_up_count, s->id) &&
	    decided(out, POLICY_PROMOTE, s);
}

/* A server that gossip knows and the configuration does not. */
static bool
decide_new(const struct policy_input *in, const struct policy_server *g, struct policy_decision *out)
{
	if (g->status != MEMBER_ALIVE || g->store_id[0] == '\0' || g->held || configured(in->config, g->uuid) != NULL)
		return false;
	if (g->tombstoned) {
		snprintf(out->why, sizeof(out->why), "not adding %.128s: its node id %s was removed for good; "
		    "start it with a new data directory to give it a new id", g->name, g->uuid);
		return false;
	}
	if (in->config->count >= RAFT_SERVERS_MAX) {
		snprintf(out->why, sizeof(out->why), "not adding %.128s: a cluster has at most %d servers", g->name,
		    RAFT_SERVERS_MAX);
		return false;
	}
	raft_server_conf_fill(&out->server, g->uuid, g->store_id, g->name, g->addr);
	out->action = POLICY_ADD;
	return true;
}

bool
policy_may_decide(const struct raft_status *st, uint64_t tombstone)
{
	return st->role == RAFT_LEADER && st->informed && st->applied >= tombstone && !st->change_pending && !st->transferring;
}

void
policy_decide(const struct policy_input *in, struct policy_decision *out)
{
	*out = (struct policy_decision){ .action = POLICY_NONE };
	for (unsigned i = 0; i < in->config->count; i++)
		if (decide_configured(in, &in->config->servers[i], out))
			return;
	for (unsigned i = 0; i < in->count; i++)
		if (decide_new(in, &in->servers[i], out))
			return;
}
