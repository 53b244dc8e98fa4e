/* Duties of the leader. */
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/record/mpack.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/propose.h"
#include "raftd/engine/statethread.h"
#include "raftd/fsm/fsm.h"
#include "raftd/leader/leader.h"
#include "raftd/leader/first_token.h"
#include "raftd/leader/leader_catalog.h"
#include "raftd/leader/leader_coordinates.h"
#include "raftd/leader/leader_sessions.h"
#include "raftd/peers/gossip.h"

struct leader {
	struct raftd *d;
	bool active, check;		/* check: the role may have changed */
	bool restoring;			/* about to be committed */
	struct leader_sessions *sessions;
	struct leader_catalog *catalog;
	struct leader_coordinates *coordinates;
	struct first_token *first_token;
	ev_timer reap;
	/* What ends by time: tombstones and lock delays, and tokens. */
	bool looking;			/* asked for what is due */
	bool again;			/* once more behind the look that is under way */
	int64_t reap_now;		/* wall clock when that was asked */
	struct reaping {
		struct leader *l;
		struct proposal proposal;
		bool pending, due;	/* proposed; the answer */
	} marks, tokens;
	struct proposal guard;		/* of nodes that live */
	bool guarding;			/* under way */
	struct proposal enable;		/* of access control */
	bool enabling;			/* under way */
	bool told;			/* that not all servers can have it */
};

static void look_for_expired(struct leader *l);

static void
reap_done(struct proposal *p, enum tv_err err, const struct fsm_result *result)
{
	struct reaping *r = (struct reaping *)((char *)p - offsetof(struct reaping, proposal));

	r->pending = false;
	/* One entry removes only so many.  After an error the next look tries again. */
	if (err == TV_OK && result->err == TV_OK && r == &r->l->tokens && r->l->active)
		look_for_expired(r->l);
}

static void
reap_look(struct fsm *reader, void *ctx)
{
	struct leader *l = ctx;

	l->marks.due = fsm_reap_due(reader, l->reap_now);
	l->tokens.due = fsm_acl_reap_due(reader, l->reap_now);
}

static void
reap(struct leader *l, struct reaping *r, uint16_t op, const void *args)
{
	if (r->due && !r->pending && l->active) {
		r->l = l;
		r->pending = propose_record(l->d, &r->proposal, op, args, reap_done, NULL, 0) == TV_OK;
	}
}

static void
reap_looked(void *ctx)
{
	struct leader *l = ctx;

	l->looking = false;
	reap(l, &l->marks, OP_TOMBSTONE_REAP, &(struct session_destroy){ .Now = 0 });
	reap(l, &l->tokens, OP_ACL_REAP, &(struct acl_reap){ .Now = 0 });
	if (l->again && l->active)
		look_for_expired(l);
}

static void
look_for_expired(struct leader *l)
{
	l->again = l->looking;
	if (l->looking)
		return;
	l->reap_now = clock_wall_ns();
	l->looking = statethread_call(l->d->state, reap_look, reap_looked, l) == TV_OK;
}

static void
enabled(struct proposal *p, enum tv_err err, const struct fsm_result *result)
{
	struct leader *l = (struct leader *)((char *)p - offsetof(struct leader, enable));

	l->enabling = false;
	if (err != TV_OK || result->err != TV_OK)
		return;				/* the next look tries again */
	first_token_look(l->first_token);
	if (cluster_acl_primary(&l->d->cluster) != NULL)
		log_info("raftd", "access control holds from index %llu on; tokens come from datacenter %s, by the replication "
		    "token that rpcd.conf names", (unsigned long long)p->index, cluster_acl_primary(&l->d->cluster));
	else if (l->d->conf.acl_initial_management != NULL)
		log_info("raftd", "access control holds from index %llu on", (unsigned long long)p->index);
	else
		log_info("raftd", "access control holds from index %llu on; make the first token with \"clusterctl acl bootstrap\"",
		    (unsigned long long)p->index);
}

static void
guarded(struct proposal *p, enum tv_err err, const struct fsm_result *result UNUSED)
{
	struct leader *l = (struct leader *)((char *)p - offsetof(struct leader, guard));

	(void)err;			/* the next look tries again */
	l->guarding = false;
}

/* Once all servers can have it, the state refuses what would take from a node that lives (OP_NODE_GUARD). */
static void
guard_nodes(struct leader *l)
{
	static const char none[1];	/* an empty record */

	if (l->active && !l->guarding && !fsm_guards_nodes(l->d->fsm))
		l->guarding = propose_record(l->d, &l->guard, OP_NODE_GUARD, none, guarded, NULL, 0) == TV_OK;
}

/* What the configuration asks for becomes a fact of the whole cluster, once and for good. */
static void
enable_acl(struct leader *l)
{
	const struct acl_enable none = { .Now = 0 };
	char why[256];

	if (!l->active || l->enabling || !l->d->cluster.acl_enabled || fsm_acl_since(l->d->fsm) != 0)
		return;
	l->enabling = propose_record(l->d, &l->enable, OP_ACL_ENABLE, &none, enabled, why, sizeof(why)) == TV_OK;
	if (!l->enabling && !l->told)
		log_warn("raftd", "access control cannot begin yet: %s", why);
	l->told = !l->enabling;
}

static void
on_reap(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	look_for_expired(w->data);
	guard_nodes(w->data);
	enable_acl(w->data);
	first_token_look(((struct leader *)w->data)->first_token);
}

static void
start_duties(struct leader *l)
{
	l->active = true;
	log_debug("raftd", "leader's duties begin");
	leader_sessions_start(l->sessions);
	leader_catalog_start(l->catalog);
	leader_coordinates_start(l->coordinates);
	ev_timer_again(l->d->loop, &l->reap);
	look_for_expired(l);				/* another leader may have left some */
	guard_nodes(l);
	enable_acl(l);
	first_token_start(l->first_token);
	gossip_announce(l->d->gossip);
}

static void
stop_duties(struct leader *l)
{
	l->active = false;
	log_debug("raftd", "leader's duties end");
	leader_sessions_stop(l->sessions);
	leader_catalog_stop(l->catalog);
	leader_coordinates_stop(l->coordinates);
	first_token_stop(l->first_token);
	ev_timer_stop(l->d->loop, &l->reap);
	gossip_calm(l->d->gossip);
}

static void
on_status(struct raftd *d)
{
	d->leader->check = true;
}

void
leader_members_changed(struct raftd *d)
{
	if (d->leader != NULL)
		leader_catalog_wake(d->leader->catalog);
}

void
leader_turn(struct leader *l)
{
	const struct raft_status *st;

	if (l->check) {
		st = engine_status(l->d->engine);
		if (l->active && st->role != RAFT_LEADER)
			stop_duties(l);
		if (!l->active && st->informed)
			start_duties(l);
		l->check = st->role == RAFT_LEADER && !l->active;
	}
	if (l->active)
		leader_catalog_turn(l->catalog);
}

/* Until its tokens are gone no other method can have its name. */
static bool
ends_method(const struct raft_entry *entries, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct rd r = rd_over(entries[i].payload, entries[i].size);

		if (entries[i].type == RAFT_ENTRY_OP && mpr_array(&r) == 2 && mpr_uint(&r, UINT16_MAX) == OP_ACL_METHOD_DELETE)
			return true;
	}
	return false;
}

void
leader_applied(struct raftd *d, const struct raft_entry *entries, uint32_t count)
{
	if (!d->leader->active)
		return;
	leader_sessions_applied(d->leader->sessions, entries, count);
	if (ends_method(entries, count))
		look_for_expired(d->leader);
}

void
leader_restoring(struct leader *l, bool soon)
{
	l->restoring = soon;
}

bool
leader_is_comparing(const struct leader *l)
{
	return l->restoring || leader_catalog_is_behind(l->catalog);
}

void
leader_restored(struct leader *l)
{
	leader_catalog_restored(l->catalog);
	if (!l->active)
		return;
	leader_sessions_stop(l->sessions);
	leader_sessions_start(l->sessions);
	leader_catalog_start(l->catalog);
}

void
leader_session_renewed(struct leader *l, struct span id)
{
	if (l->active)
		leader_sessions_renew(l->sessions, id);
}

bool
leader_enables_acl(const struct leader *l)
{
	return l->active && l->enabling;
}

bool
leader_active(const struct leader *l)
{
	return l->active;
}

void
leader_info(const struct leader *l, figure_fn *fn, void *ctx)
{
	leader_catalog_info(l->catalog, fn, ctx);
}

enum tv_err
leader_coordinate(struct leader *l, struct span node, struct span segment, const struct coordinate *at,
    leader_coordinate_done *done, void *ctx)
{
	return l->active ? leader_coordinates_report(l->coordinates, node, segment, at, done, ctx) : TV_ENOLEADER;
}

void
leader_coordinate_forget(struct leader *l, const void *ctx)
{
	leader_coordinates_forget(l->coordinates, ctx);
}

struct leader *
leader_new(struct raftd *d)
{
	struct leader *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	l->d = d;
	engine_on_status(d->engine, on_status);
	l->sessions = leader_sessions_new(d);
	l->catalog = leader_catalog_new(d);
	l->coordinates = leader_coordinates_new(d);
	l->first_token = first_token_new(d);
	ev_timer_init(&l->reap, on_reap, 0.0, mono_seconds(d->conf.reap_interval));
	l->reap.data = l;
	if (l->sessions == NULL || l->catalog == NULL || l->coordinates == NULL ||
	    l->first_token == NULL) {
		leader_free(l);
		return NULL;
	}
	return l;
}

void
leader_free(struct leader *l)
{
	if (l == NULL)
		return;
	ev_timer_stop(l->d->loop, &l->reap);
	leader_sessions_free(l->sessions);
	leader_catalog_free(l->catalog);
	leader_coordinates_free(l->coordinates);
	first_token_free(l->first_token);
	free(l);
}
