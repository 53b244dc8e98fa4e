/*
 * The catalog in step with gossip.  Members of which there is news are looked at in a thread, some at a time; what was found
 * is judged on the loop, by what is known of them then: a member of which there was news meanwhile is looked at again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/propose.h"
#include "raftd/engine/statethread.h"
#include "raftd/fsm/fsm.h"
#include "raftd/leader/leader_catalog.h"
#include "raftd/leader/member_entry.h"
#include "raftd/leader/strays.h"
#include "raftd/peers/gossip.h"

#define WRITES_MAX 64			/* on their way at once */
#define LOOKS_MAX WRITES_MAX

struct write;

/* Some members, and what the state says of them. */
struct look {
	struct leader_catalog *c;
	uint64_t round;			/* in which it was asked for */
	unsigned count;
	struct looked {
		struct member *m;	/* as it was then; owned */
		bool gone;
		struct member_state state;
		enum tv_err err;
	} at[LOOKS_MAX];
};

struct leader_catalog {
	struct raftd *d;
	bool active, due;
	uint64_t round;			/* of starts and stops */
	unsigned writing;
	struct write *writes;		/* so many */
	size_t cursor;			/* of the walk through the members */
	struct look *look;		/* under way; or NULL */
	struct strays *strays;
	ev_timer whole, retry;
};

struct write {				/* one on its way */
	struct write *next;
	struct proposal proposal;
	struct leader_catalog *c;
	char node[256];
};

/* The state does not show yet what this member's entry will be. */
static bool
is_changing(const struct leader_catalog *c, struct span node)
{
	for (const struct write *w = c->writes; w != NULL; w = w->next)
		if (span_eqs(node, w->node))
			return true;
	return false;
}

static void
write_free(struct write *w)
{
	struct write **at = &w->c->writes;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	w->c->writing--;
	free(w);
}

static void
write_done(struct proposal *p, enum tv_err err, const struct fsm_result *result)
{
	struct write *w = (struct write *)((char *)p - offsetof(struct write, proposal));
	struct leader_catalog *c = w->c;
	char text[256], name[300];

	if (err == TV_OK && result != NULL && result->err != TV_OK)
		log_warn("raftd", "catalog entry of member '%s': %s", log_safe(span_str(w->node), name, sizeof(name)),
		    log_safe(result->text, text, sizeof(text)));
	/* What did not get through shows again at the next comparison. */
	if (err != TV_OK && c->active)
		ev_timer_again(c->d->loop, &c->retry);
	write_free(w);
	leader_catalog_wake(c);
}

static enum tv_err
propose(struct leader_catalog *c, struct span node, uint16_t op, const void *rec)
{
	struct write *w = calloc(1, sizeof(*w));
	char why[256], shown[256], name[300];
	enum tv_err err;

	if (w == NULL)
		return TV_ENOMEM;
	w->c = c;
	snprintf(w->node, sizeof(w->node), "%.*s", (int)node.len, (const char *)node.p);
	w->next = c->writes;
	c->writes = w;
	c->writing++;
	err = propose_record(c->d, &w->proposal, op, rec, write_done, why, sizeof(why));
	if (err != TV_OK) {
		if (why[0] != '\0')
			log_warn("raftd", "catalog entry of member '%s': %s", log_safe(node, name, sizeof(name)),
			    log_safe(span_str(why), shown, sizeof(shown)));
		write_free(w);
	}
	return err;
}

/* -- one member -- */

static bool
is_ours(struct leader_catalog *c, const struct member *m)
{
	struct span role = member_tag(m, "role");

	return span_eqs(member_tag(m, "dc"), c->d->cluster.datacenter) &&
	    (span_eqs(role, "server") || span_eqs(role, "client"));
}

static enum tv_err
propose_deregister(struct leader_catalog *c, struct span node, const char *how)
{
	struct catalog_deregister args = { .Node = node, .Datacenter = span_str(c->d->cluster.datacenter) };
	char name[300];
	enum tv_err err = propose(c, node, OP_CATALOG_DEREGISTER, &args);

	if (err == TV_OK)
		log_info("triumvir", "member '%s' %s, deregistering", log_safe(node, name, sizeof(name)), how);
	return err;
}

static enum tv_err
deregister(struct leader_catalog *c, struct span node, const char *how)
{
	return span_eqs(node, c->d->id.name) ? TV_OK : propose_deregister(c, node, how);	/* never ourself */
}

static enum tv_err
write_health(struct leader_catalog *c, const struct member *m, bool alive, bool news)
{
	struct member_entry entry;
	char name[300];
	enum tv_err err;

	member_entry_make(m, c->d->cluster.datacenter, alive, &entry);
	err = propose(c, m->name, OP_CATALOG_REGISTER, &entry.args);
	if (err == TV_OK && news)
		log_info("triumvir", "member '%s' %s", log_safe(m->name, name, sizeof(name)),
		    alive ? "joined, marking health alive" : "failed, marking health critical");
	return err;
}

/* Writes what is to be different.  *again: that is a first step, compare again when it is applied. */
static enum tv_err
settle(struct leader_catalog *c, const struct member *m, bool gone, const struct member_state *st, bool *again)
{
	*again = false;
	if (gone || m->status == MEMBER_LEFT)
		return st->known ? deregister(c, m->name, gone ? "reaped" : "left") : TV_OK;
	if (m->status == MEMBER_FAILED)
		return st->known && st->health != HEALTH_CRITICAL ? write_health(c, m, false, true) : TV_OK;
	if (m->status != MEMBER_ALIVE)
		return TV_OK;
	if (st->replaced) {
		*again = true;
		return propose_deregister(c, m->name, "has a new node id");
	}
	if (st->known && st->same && st->health == HEALTH_PASSING)
		return TV_OK;
	return write_health(c, m, true, !st->known || st->health != HEALTH_PASSING);
}

/* -- members of which there is news -- */

static void
look_free(struct look *l)
{
	for (unsigned i = 0; l != NULL && i < l->count; i++)
		free(l->at[i].m);
	free(l);
}

static void
look_work(struct fsm *reader, void *ctx)
{
	struct look *l = ctx;

	for (unsigned i = 0; i < l->count; i++)
		l->at[i].err = member_entry_look(reader, l->at[i].m, &l->at[i].state);
}

static void
take_answer(struct leader_catalog *c, const struct looked *x)
{
	struct gossip_member gm;
	enum tv_err err = x->err;
	bool again = false;

	if (!gossip_look_up(c->d->gossip, x->m->name, &gm) || *gm.dirty)
		return;				/* forgotten, or looked at again because of the news */
	if (err == TV_OK && is_changing(c, x->m->name))
		again = true;			/* when that write is done */
	else if (err == TV_OK)
		err = settle(c, gm.member, gm.gone, &x->state, &again);
	/* What cannot be written for another reason is for the next comparison as a whole. */
	if (x->err != TV_OK || err == TV_EAGAIN || err == TV_ENOMEM) {
		ev_timer_again(c->d->loop, &c->retry);
		again = true;
	}
	*gm.dirty = again;
	if (gm.gone && !*gm.dirty)
		gossip_forget(c->d->gossip, gm.member);
}

static void
look_done(void *ctx)
{
	struct look *l = ctx;
	struct leader_catalog *c = l->c;

	c->look = NULL;
	/* Else all members were marked since, or will be. */
	for (unsigned i = 0; i < l->count && c->active && l->round == c->round; i++)
		take_answer(c, &l->at[i]);
	look_free(l);
	leader_catalog_wake(c);
}

/* False: no memory. */
static bool
look_add(struct look *l, const struct gossip_member *gm)
{
	struct member *m = member_clone(gm->member);

	if (m != NULL)
		l->at[l->count++] = (struct looked){ .m = m, .gone = gm->gone };
	return m != NULL;
}

/* Up to max members that are to be looked at.  *end: there are no more. */
static enum tv_err
look_collect(struct leader_catalog *c, struct look *l, unsigned max, bool *end)
{
	struct gossip_member gm;

	while (l->count < max) {
		if (!gossip_next(c->d->gossip, &c->cursor, &gm)) {
			*end = true;
			break;
		}
		if (!*gm.dirty || is_changing(c, gm.member->name))
			continue;		/* the latter is looked at when its write is done */
		if (is_ours(c, gm.member)) {
			if (!look_add(l, &gm))
				return TV_ENOMEM;
			*gm.dirty = false;
		} else if (gm.gone) {
			gossip_forget(c->d->gossip, gm.member);
			c->cursor--;
		} else {
			*gm.dirty = false;
		}
	}
	return TV_OK;
}

static void
look(struct leader_catalog *c)
{
	struct look *l = calloc(1, sizeof(*l));
	enum tv_err err = TV_ENOMEM;
	bool end = false;

	if (l != NULL) {
		l->c = c;
		l->round = c->round;
		err = look_collect(c, l, LOOKS_MAX - c->writing, &end);
	}
	if (err == TV_OK && l->count > 0)
		err = statethread_call(c->d->state, look_work, look_done, l);
	if (err == TV_OK && l->count > 0) {
		c->look = l;
	} else {
		if (err != TV_OK)		/* it marks all of them again */
			ev_timer_again(c->d->loop, &c->retry);
		look_free(l);
	}
	c->due = err == TV_OK && !end;
	if (end)
		c->cursor = 0;
}

void
leader_catalog_turn(struct leader_catalog *c)
{
	if (c->writing >= WRITES_MAX)
		return;
	strays_turn(c->strays);
	if (c->due && c->look == NULL)
		look(c);
}

/* -- as a whole -- */

static void
on_stray(void *ctx, struct span node)
{
	struct leader_catalog *c = ctx;

	if (!is_changing(c, node))
		(void)deregister(c, node, "reaped");	/* else at the next look */
}

static void
on_whole(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct leader_catalog *c = w->data;

	(void)loop;
	(void)revents;
	gossip_mark_all(c->d->gossip);
	leader_catalog_wake(c);
	if (gossip_settled(c->d->gossip, c->d->conf.reconcile_interval))
		strays_look(c->strays);
}

static void
on_retry(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct leader_catalog *c = w->data;

	(void)revents;
	ev_timer_stop(loop, w);
	gossip_mark_all(c->d->gossip);
	leader_catalog_wake(c);
}

void
leader_catalog_wake(struct leader_catalog *c)
{
	c->due = c->active;
	c->cursor = 0;			/* the news may be of one that was passed already */
}

void
leader_catalog_start(struct leader_catalog *c)
{
	c->active = true;
	c->round++;
	ev_timer_again(c->d->loop, &c->whole);
	gossip_mark_all(c->d->gossip);
	leader_catalog_wake(c);
	/* Not those who are not there: gossip may not have told this server yet of a node that joined just now. */
}

void
leader_catalog_stop(struct leader_catalog *c)
{
	c->active = c->due = false;
	strays_stop(c->strays);
	ev_timer_stop(c->d->loop, &c->whole);
	ev_timer_stop(c->d->loop, &c->retry);
}

struct leader_catalog *
leader_catalog_new(struct raftd *d)
{
	struct leader_catalog *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->d = d;
	c->strays = strays_new(d, on_stray, c);
	if (c->strays == NULL) {
		free(c);
		return NULL;
	}
	ev_timer_init(&c->whole, on_whole, 0.0, mono_seconds(d->conf.reconcile_interval));
	ev_timer_init(&c->retry, on_retry, 0.0, 1.0);
	c->whole.data = c->retry.data = c;
	return c;
}

void
leader_catalog_free(struct leader_catalog *c)
{
	if (c == NULL)
		return;
	leader_catalog_stop(c);
	strays_free(c->strays);
	look_free(c->look);
	free(c);
}
