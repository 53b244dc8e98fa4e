/* Membership of the Raft configuration: policy on the leader, removal on request. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/msg.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/propose.h"
#include "raftd/fsm/fsm.h"
#include "raftd/members/autopilot.h"
#include "raftd/members/leave.h"
#include "raftd/members/membership.h"
#include "raftd/members/membership_int.h"
#include "raftd/members/rpcd_peers.h"
#include "raftd/members/rules/policy.h"
#include "raftd/peers/fence.h"
#include "raftd/peers/gossip.h"

#define TELL_EVERY MONO_S(5)
#define UNINFORMED 0.1			/* seconds between looks of a leader whose state is behind */
#define WHY_BYTES 384
#define HOLD MONO_S(60)			/* a removed server that never goes may be added again after this */

static void transfer_ended(struct membership *m, bool ok, raft_id to);

/* -- one change at a time -- */

static void
change_finish(struct membership *m, enum tv_err err, const char *text)
{
	struct change_wait w = m->change;

	m->change = (struct change_wait){ 0 };
	if (w.done != NULL)
		w.done(w.ctx, err, text);
	membership_wake(m);
}

enum tv_err
membership_change(struct membership *m, const struct raft_change *change, membership_done *done, void *ctx)
{
	enum tv_err err;

	if (m->change.active)
		return TV_EAGAIN;
	err = engine_change(m->d->engine, change);
	if (err != TV_OK)
		return err;
	m->change = (struct change_wait){ true, engine_config(m->d->engine)->index, done, ctx };
	return TV_OK;
}

/* Links, and the seats to give or take, follow the configuration. */
static void
config_changed(struct membership *m)
{
	links_sync(m->d->links);
	membership_wake(m);
}

static void
config_committed(struct membership *m, uint64_t index)
{
	if (m->change.active && index >= m->change.index)
		change_finish(m, TV_OK, "");
	config_changed(m);
	leave_wake(m->leave);
}

static void
on_status(struct raftd *d)
{
	struct membership *m = d->members;
	bool leader = engine_is_leader(d->engine);

	autopilot_role_changed(d->autopilot);
	if (!leader) {
		m->leader_since = MONO_ZERO;
		m->tombstone_index = 0;
	} else if (m->leader_since.ns == 0) {
		m->leader_since = clock_mono();
		m->complaint[0] = '\0';
	}
	if (m->change.active && !leader && engine_config_committed(d->engine)->index < m->change.index)
		change_finish(m, TV_EUNKNOWN,
		    "leadership was lost before the change was committed; it may still happen");
	if (m->transfer.active && !leader)
		transfer_ended(m, true, 0);
	membership_wake(m);
	leave_wake(m->leave);
}

void
membership_notice(struct membership *m, const struct raft_notice *n)
{
	switch (n->type) {
	case RAFT_NOTICE_PEER_ADDED:
	case RAFT_NOTICE_PEER_PROMOTED:
	case RAFT_NOTICE_PEER_DEMOTED:
	case RAFT_NOTICE_PEER_REMOVED:
		config_changed(m);
		break;
	case RAFT_NOTICE_CONFIG_COMMITTED:
		config_committed(m, n->index);
		break;
	case RAFT_NOTICE_SELF_REMOVED:
		leave_self_removed(m->leave);
		break;
	case RAFT_NOTICE_CAUGHT_UP:
	case RAFT_NOTICE_WENT_BACK:
	case RAFT_NOTICE_REGAINED:
		membership_wake(m);
		break;
	case RAFT_NOTICE_TRANSFER_DONE:
	case RAFT_NOTICE_TRANSFER_FAILED:
		transfer_ended(m, n->type == RAFT_NOTICE_TRANSFER_DONE, n->id);
		break;
	default:
		break;
	}
}

/* -- policy -- */

bool
membership_healthy(struct membership *m, raft_id *healthy, unsigned *count)
{
	const struct raft_status *st = engine_status(m->d->engine);
	struct mono patience = mono_mul(m->d->conf.election_timeout, 2);
	/* Healthy: the link is up, it answers, and its disk has what it acknowledged; a new leader has not heard from all yet. */
	bool young = m->leader_since.ns == 0 || mono_sub(clock_mono(), m->leader_since).ns < patience.ns;

	*count = 0;
	if (st->voter)
		healthy[(*count)++] = m->d->id.self;
	for (unsigned i = 0; i < st->peer_count; i++) {
		const struct raft_peer_status *s = &st->peers[i];
		const struct peer *p = links_find_id(m->d->links, s->id);

		if (s->voter && !s->went_back && s->id != m->d->id.self && p != NULL && p->proven && (s->active || young))
			healthy[(*count)++] = s->id;
	}
	return st->role == RAFT_LEADER;
}

bool
membership_can_lose(struct membership *m, raft_id id, char *why, size_t cap)
{
	raft_id healthy[RAFT_SERVERS_MAX];
	unsigned count;

	(void)membership_healthy(m, healthy, &count);
	if (policy_may_remove(engine_config(m->d->engine), id, healthy, count, why, cap))
		return true;
	strncat(why, "; bring the failed servers back or add servers first, or use --force", cap - strlen(why) - 1);
	return false;
}

static bool
is_held(struct membership *m, const char *uuid, uint8_t status)
{
	struct mono now = clock_mono();

	for (unsigned i = 0; i < HELD_MAX; i++) {
		struct held_server *h = &m->held[i];

		if (h->until.ns == 0 || strcmp(h->uuid, uuid) != 0)
			continue;
		if (mono_before(now, h->until) && (status == MEMBER_ALIVE || status == MEMBER_LEAVING))
			return true;
		h->until = MONO_ZERO;
	}
	return false;
}

/* Was removed: not to be added again before it has gone. */
static void
hold_removed(struct membership *m, const char *uuid)
{
	struct held_server *h = &m->held[m->held_next++ % HELD_MAX];

	snprintf(h->uuid, sizeof(h->uuid), "%s", uuid);
	h->until = mono_add(clock_mono(), HOLD);
}

struct collecting {
	struct membership *m;
	struct policy_server servers[POLICY_SERVERS_MAX];
	unsigned count;
};

static void
collect(void *ctx, const struct gossip_server *g)
{
	struct collecting *c = ctx;
	struct policy_server *s = &c->servers[c->count];
	const struct peer *p = links_find(c->m->d->links, g->uuid);

	if (c->count == POLICY_SERVERS_MAX || strcmp(g->uuid, c->m->d->id.uuid) == 0)
		return;
	/* It answers elsewhere: this is a twin with a copied node id (S62), or news that is late. */
	if (p != NULL && p->proven && strcmp(p->addr, g->addr) != 0)
		return;
	*s = (struct policy_server){ .status = g->status, .forced = g->forced };
	memcpy(s->uuid, g->uuid, sizeof(s->uuid));
	memcpy(s->name, g->name, sizeof(s->name));
	memcpy(s->addr, g->addr, sizeof(s->addr));
	if (p != NULL && p->proven) {		/* a name that gossip tells proves nothing */
		memcpy(s->store_id, p->hello.store_id, sizeof(s->store_id));
		memcpy(s->name, p->hello.name, sizeof(s->name));
	}
	s->tombstoned = c->m->d->fsm != NULL && fsm_server_tombstoned(c->m->d->fsm, span_str(g->uuid));
	s->held = is_held(c->m, g->uuid, g->status) || gossip_id_is_clients(c->m->d->gossip, g);
	c->count++;
}

static void
tombstone_done(struct proposal *p, enum tv_err err, const struct fsm_result *result UNUSED)
{
	struct membership *m = (struct membership *)((char *)p - offsetof(struct membership, tombstone));

	m->tombstoning = false;
	if (err == TV_EUNKNOWN)
		m->tombstone_index = p->index;
	if (err == TV_OK)
		membership_wake(m);	/* on an error the timer comes back to it */
}

static enum tv_err
write_tombstone(struct membership *m, const char *uuid)
{
	struct raft_peer peer = { .ID = span_str(uuid) };
	enum tv_err err;

	if (m->tombstoning)
		return TV_EAGAIN;
	err = propose_record(m->d, &m->tombstone, OP_SERVER_TOMBSTONE, &peer, tombstone_done, NULL, 0);
	m->tombstoning = err == TV_OK;
	return err;
}

static void
carry_out(struct membership *m, const struct policy_decision *dec)
{
	static const enum raft_change_type types[] = {
		[POLICY_ADD] = RAFT_ADD_LEARNER, [POLICY_PROMOTE] = RAFT_PROMOTE, [POLICY_REMOVE] = RAFT_REMOVE,
		[POLICY_UPDATE_ADDR] = RAFT_UPDATE_ADDR, [POLICY_RENAME] = RAFT_UPDATE_ADDR, [POLICY_DEMOTE] = RAFT_DEMOTE,
	};
	struct raft_change change = { .server = dec->server };
	enum tv_err err;

	if (dec->action == POLICY_TOMBSTONE) {
		(void)write_tombstone(m, dec->server.uuid);
		return;
	}
	if (dec->action == POLICY_REMOVE && dec->for_good)
		(void)write_tombstone(m, dec->server.uuid);
	change.type = types[dec->action];
	err = membership_change(m, &change, NULL, NULL);
	if (err != TV_OK) {
		log_debug("raft", "membership change of %s: %s", dec->server.name, tv_strerror(err));
		return;
	}
	if (dec->action == POLICY_REMOVE)
		log_info("raft", "Removing server %s (%s), which %s", dec->server.name, dec->server.addr, dec->why);
	if (dec->action == POLICY_DEMOTE)
		log_warn("raft", "Demoting server %s (%s), whose disk went back: it is a learner until it has caught up",
		    dec->server.name, dec->server.addr);
	if (dec->action == POLICY_UPDATE_ADDR)
		log_info("raft", "Server %s moved to %s", dec->server.name, dec->server.addr);
	if (dec->action == POLICY_RENAME)
		log_info("raft", "Server %s at %s has a new name", dec->server.name, dec->server.addr);
}

/* A server that is here and gets no seat is told why, so that its own log says it. */
static void
tell_unwanted(struct membership *m, const struct collecting *c, const struct raft_config *conf)
{
	struct mono now = clock_mono();

	if (m->told.ns != 0 && mono_sub(now, m->told).ns < TELL_EVERY.ns)
		return;
	for (unsigned i = 0; i < c->count; i++) {
		const struct policy_server *s = &c->servers[i];
		bool seated = false;

		for (unsigned k = 0; k < conf->count; k++)
			seated |= strcmp(conf->servers[k].uuid, s->uuid) == 0;
		if (seated || s->status != MEMBER_ALIVE || s->store_id[0] == '\0')
			continue;
		/* A server that leaves by itself is held, and that is no news to it; one that was removed for good may not know it. */
		if (s->tombstoned)
			links_notice(m->d->links, s->uuid, NOTICE_REMOVED, "removed for good");
		else if (!s->held && conf->count >= RAFT_SERVERS_MAX)
			links_notice(m->d->links, s->uuid, NOTICE_FULL, "no more seats");
		m->told = now;
	}
}

/* Once per term: the reason why no server is added or removed.  Applying may have much to catch up with. */
static void
tell_uninformed(struct membership *m, const struct raft_status *st)
{
	if (!st->ready || st->informed || m->told_term == st->term)
		return;
	m->told_term = st->term;
	log_info("raft", "membership changes wait until the state, now at index %llu, has reached index %llu, where this term "
	    "begins", (unsigned long long)engine_applied(m->d->engine), (unsigned long long)st->own_first);
}

static void
run_policy(struct membership *m)
{
	const struct raft_status *st = engine_status(m->d->engine);
	struct policy_decision dec;
	struct policy_input in;
	struct collecting *c;

	tell_uninformed(m, st);
	if (!policy_may_decide(st, m->tombstone_index) || m->change.active || m->tombstoning || leave_active(m->leave))
		return;
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return;
	c->m = m;
	gossip_each_server(m->d->gossip, collect, c);
	in = (struct policy_input){
		.config = engine_config(m->d->engine), .self = m->d->id.self, .self_name = m->d->id.name,
		.servers = c->servers, .count = c->count,
	};
	(void)membership_healthy(m, in.healthy, &in.healthy_count);
	autopilot_advise(m->d->autopilot, &in);
	tell_unwanted(m, c, in.config);
	policy_decide(&in, &dec);
	if (dec.action != POLICY_NONE)
		carry_out(m, &dec);
	else if (dec.why[0] != '\0' && strcmp(dec.why, m->complaint) != 0)
		log_warn("raft", "%s", dec.why);
	if (dec.action == POLICY_NONE)
		snprintf(m->complaint, sizeof(m->complaint), "%s", dec.why);
	free(c);
}

static void
on_timer(struct ev_loop *loop, ev_timer *w, int revents UNUSED)
{
	struct membership *m = w->data;
	const struct raft_status *st = engine_status(m->d->engine);

	/* Back to the slow beat after a wake; but nothing wakes us when the state has caught up. */
	w->repeat = st->role == RAFT_LEADER && !st->informed ? UNINFORMED : mono_seconds(m->d->conf.member_interval);
	ev_timer_again(loop, w);
	autopilot_look(m->d->autopilot);
	no_leader_log_check(&m->no_leader_log, m->d);
	gossip_look(m->d->gossip);
	rpcd_peers_check(m->d->rpcd_peers);
	run_policy(m);
	leave_wake(m->leave);
}

void
membership_wake(struct membership *m)
{
	if (m == NULL || m->d->stopping)
		return;
	ev_timer_stop(m->d->loop, &m->timer);
	ev_timer_set(&m->timer, 0.0, mono_seconds(m->d->conf.member_interval));
	ev_timer_start(m->d->loop, &m->timer);
}

/* -- removal by an operator -- */

static const struct raft_server_conf *
find_server(struct membership *m, struct span uuid, struct span addr)
{
	const struct raft_config *c = engine_config(m->d->engine);

	for (unsigned i = 0; i < c->count; i++)
		if (uuid.len > 0 ? span_eqs(uuid, c->servers[i].uuid) : span_eqs(addr, c->servers[i].addr))
			return &c->servers[i];
	return NULL;
}

static void
not_found(struct span uuid, struct span addr, membership_done *done, void *ctx)
{
	char text[256], shown[128];

	snprintf(text, sizeof(text), "%s \"%s\" was not found in the Raft configuration",
	    uuid.len > 0 ? "id" : "address", log_safe(uuid.len > 0 ? uuid : addr, shown, sizeof(shown)));
	done(ctx, TV_ENOENT, text);
}

static void
change_failed(enum tv_err err, membership_done *done, void *ctx)
{
	if (err == TV_EAGAIN || err == TV_ECONFLICT)
		done(ctx, TV_EAGAIN, "another membership change is in progress; try again");
	else
		done(ctx, err, tv_strerror(err));
}

/*
 * Before the removal, also of this server itself: else the policy adds it again as soon as it is seen alive.  A full disk
 * takes no tombstone, but a dead server must not keep its seat for that.
 */
static enum tv_err
write_off(struct membership *m, const struct raft_server_conf *s)
{
	enum tv_err err = write_tombstone(m, s->uuid);

	if (err != TV_ENOSPACE)
		return err;
	log_warn("raft", "disk full: %s is removed, but not for good; should it come back, remove it again", s->name);
	return TV_OK;
}

void
membership_remove(struct membership *m, struct span uuid, struct span addr, bool force,
    membership_done *done, void *ctx)
{
	const struct raft_server_conf *s = find_server(m, uuid, addr);
	struct raft_change change = { .type = RAFT_REMOVE };
	const struct raft_status *st = engine_status(m->d->engine);
	const struct raft_config *conf = engine_config(m->d->engine);
	char text[512];
	enum tv_err err;

	if (st->role != RAFT_LEADER) {
		done(ctx, TV_ENOTLEADER, tv_strerror(TV_ENOTLEADER));
		return;
	}
	if (s == NULL) {
		not_found(uuid, addr, done, ctx);
		return;
	}
	if (!force && !membership_can_lose(m, s->id, text, sizeof(text))) {
		done(ctx, TV_ECONFLICT, text);
		return;
	}
	if (s->voter && raft_config_voters(conf) == 1) {
		done(ctx, TV_ECONFLICT, "that server is the only voter, and a cluster cannot be without one");
		return;
	}
	if (!st->ready || st->change_pending || st->transferring || m->change.active) {
		change_failed(TV_EAGAIN, done, ctx);
		return;
	}
	change.server = *s;
	err = write_off(m, s);
	if (err == TV_OK)
		err = membership_change(m, &change, done, ctx);
	if (err != TV_OK)
		change_failed(err, done, ctx);
	else
		hold_removed(m, change.server.uuid);
}

/* -- transfer of leadership -- */

/* Why this voter could not take over, as far as its leader knows; "": nothing is in its way. */
static const char *
why_not_it(struct membership *m, raft_id id, char *dst, size_t cap)
{
	const struct raft_server_conf *s = raft_config_find(engine_config(m->d->engine), id);
	const struct raft_peer_status *p = raft_status_peer(engine_status(m->d->engine), id);
	uint64_t last = engine_status(m->d->engine)->last_index;

	dst[0] = '\0';
	if (s == NULL || p == NULL)
		return dst;
	if (p->full)
		snprintf(dst, cap, "the disk of %s is full: free space there, or name another server", s->name);
	else if (!p->active)
		snprintf(dst, cap, "%s does not answer: name another server", s->name);
	else if (p->lacking)
		snprintf(dst, cap, "the disk of %s went back, and it has not caught up: try again when it has, or name another server",
		    s->name);
	else if (p->unready)
		snprintf(dst, cap, "%s is opening its state: try again when it has, or name another server", s->name);
	else if (p->match < last)
		snprintf(dst, cap, "%s lacks %llu entries of the log: try again when it has caught up", s->name,
		    (unsigned long long)(last - p->match));
	return dst;
}

static const char *
why_no_transfer(struct membership *m, const struct raft_server_conf *to, enum tv_err err)
{
	if (to != NULL && to->id == m->d->id.self)
		return "that server is the leader already";
	if (to != NULL && !to->voter)
		return "that server is a learner and cannot lead; wait until it is a voter";
	if (err == TV_ECONFLICT)
		return "a leadership transfer is in progress";
	return to == NULL ? "no other voter can lead" : tv_strerror(err);
}

void
membership_transfer(struct membership *m, struct span uuid, struct span addr, membership_done *done, void *ctx)
{
	const struct raft_server_conf *s = NULL;
	char why[WHY_BYTES];
	enum tv_err err;

	if (!engine_is_leader(m->d->engine)) {
		done(ctx, TV_ENOTLEADER, tv_strerror(TV_ENOTLEADER));
		return;
	}
	if (uuid.len > 0 || addr.len > 0) {
		s = find_server(m, uuid, addr);
		if (s == NULL) {
			not_found(uuid, addr, done, ctx);
			return;
		}
	}
	if (m->transfer.active) {
		done(ctx, TV_EAGAIN, "a leadership transfer is in progress");
		return;
	}
	/* A request that names no server takes the best there is. */
	const struct raft_peer_status *p = s == NULL ? NULL : raft_status_peer(engine_status(m->d->engine), s->id);
	if (p != NULL && p->full) {
		done(ctx, TV_ECONFLICT, why_not_it(m, s->id, why, sizeof(why)));
		return;
	}
	m->transfer = (struct change_wait){ true, 0, done, ctx };
	err = engine_transfer(m->d->engine, s != NULL ? s->id : 0);
	if (err != TV_OK && m->transfer.active) {
		m->transfer = (struct change_wait){ 0 };
		done(ctx, err, why_no_transfer(m, s, err));
	}
}

/* to: the server that was to take over; 0: not known. */
static void
transfer_ended(struct membership *m, bool ok, raft_id to)
{
	struct change_wait w = m->transfer;
	char why[WHY_BYTES], text[WHY_BYTES + 64];

	m->transfer = (struct change_wait){ 0 };
	if (w.done != NULL && !ok) {
		why_not_it(m, to, why, sizeof(why));
		snprintf(text, sizeof(text), "leadership was not taken over in time%s%s", why[0] == '\0' ? "" : ": ", why);
		w.done(w.ctx, TV_ETIMEOUT, text);
	} else if (w.done != NULL) {
		w.done(w.ctx, TV_OK, "");
	}
	leave_wake(m->leave);
}

/* -- a peer asks to be removed -- */

struct removal {
	struct membership *m;
	struct link_question q;
};

static void
removal_done(void *ctx, enum tv_err err, const char *text)
{
	struct removal *r = ctx;

	links_answer(r->m->d->links, &r->q, err, text);
	free(r);
}

static void
remove_peer(struct membership *m, const struct raft_server_conf *s, bool force, struct removal *r)
{
	struct raft_change change = { .type = RAFT_REMOVE, .server = *s };
	char text[512];
	enum tv_err err;

	if (!force && !membership_can_lose(m, s->id, text, sizeof(text))) {
		removal_done(r, TV_ECONFLICT, text);
		return;
	}
	err = membership_change(m, &change, removal_done, r);
	if (err != TV_OK)
		change_failed(err, removal_done, r);
	else
		hold_removed(m, change.server.uuid);
}

static enum tv_err
on_question(struct raftd *d, const struct hello *from, const struct link_question *q, struct span body)
{
	struct membership *m = d->members;
	struct msg_remove_me asked = { .force = false };
	struct engine *e = d->engine;
	const struct raft_server_conf *s;
	struct removal *ask;
	raft_id id;

	if (msg_read(&msg_remove_me_schema, body, NULL, &asked) != TV_OK)
		return TV_EFORMAT;
	/* A server may ask for itself only. */
	if (!span_eqs(asked.id, from->uuid))
		return TV_EPERM;
	id = raft_id_of(from->uuid, from->store_id);
	s = raft_config_find(engine_config(e), id);
	ask = calloc(1, sizeof(*ask));
	if (ask == NULL)
		return TV_ENOMEM;
	*ask = (struct removal){ m, *q };
	if (!engine_is_leader(e))
		removal_done(ask, TV_ENOTLEADER, tv_strerror(TV_ENOTLEADER));
	else if (s == NULL && policy_seat(engine_config(e), engine_config_committed(e), id) != SEAT_NONE)
		change_failed(TV_EAGAIN, removal_done, ask);	/* the removal may still be lost */
	else if (s == NULL)
		removal_done(ask, TV_OK, "");
	else
		remove_peer(m, s, asked.force, ask);
	return TV_OK;
}

/* -- leaving -- */

void
membership_leave(struct membership *m, bool force, membership_done *done, void *ctx)
{
	leave_start(m->leave, force, done, ctx);
}

bool
membership_leaving(const struct membership *m)
{
	return leave_active(m->leave);
}

void
membership_forget(struct membership *m, void *ctx)
{
	if (m->change.ctx == ctx)
		m->change.done = NULL;
	if (m->transfer.ctx == ctx)
		m->transfer.done = NULL;
	leave_forget(m->leave, ctx);
}

struct membership *
membership_new(struct raftd *d)
{
	struct membership *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return NULL;
	m->d = d;
	engine_on_status(d->engine, on_status);
	links_serve(d->links, MSG_RAFT_REMOVE_ME, false, on_question);
	m->leave = leave_new(m);
	if (m->leave == NULL) {
		free(m);
		return NULL;
	}
	ev_timer_init(&m->timer, on_timer, mono_seconds(d->conf.member_interval),
	    mono_seconds(d->conf.member_interval));
	m->timer.data = m;
	ev_timer_start(d->loop, &m->timer);
	return m;
}

void
membership_free(struct membership *m)
{
	if (m == NULL)
		return;
	ev_timer_stop(m->d->loop, &m->timer);
	if (m->change.done == removal_done)
		free(m->change.ctx);
	leave_free(m->leave);
	free(m);
}
