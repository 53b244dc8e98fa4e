/*
 * The catalog in step with gossip.  Members of which there is news are looked at in a thread, some at a time; what was found
 * is judged on the loop, by what is known of all members then (rules/reconcile.h): a member of which there was news meanwhile is
 * looked at again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/propose.h"
#include "raftd/engine/statethread.h"
#include "raftd/fsm/fsm.h"
#include "raftd/leader/leader_catalog.h"
#include "raftd/leader/member_entry.h"
#include "raftd/leader/members_view.h"
#include "raftd/leader/refusals.h"
#include "raftd/leader/strays.h"
#include "raftd/peers/gossip.h"

#define WRITES_MAX 64			/* on their way at once */
#define LOOKS_MAX WRITES_MAX
#define SETTLED_MAX_S 5			/* that gossip has to be so, before nodes are critical that it does not know */

struct write;

/* Some members, and what the state says of them. */
struct look {
	struct leader_catalog *c;
	uint64_t round;			/* in which it was asked for */
	unsigned count;
	struct arena texts;		/* of what is stored */
	struct looked {
		struct member *m;	/* as it was then; owned */
		struct reconcile_stored stored;
		struct member_kept kept;
		enum tv_err err;
	} at[LOOKS_MAX];
};

struct leader_catalog {
	struct raftd *d;
	bool active, due;
	uint64_t round;			/* of starts and stops */
	uint64_t compared;		/* the last one in which all members were */
	uint64_t passes;		/* comparisons of all members since the start of the process */
	unsigned writing;
	LIST_HEAD(, write) writes;	/* so many */
	size_t cursor;			/* of the walk through the members */
	struct look *look;		/* under way; or NULL */
	struct strays *strays;
	bool removing;			/* what strays_look() finds; else it becomes critical */
	bool marking;			/* the last look was for that */
	unsigned to_write;		/* that it found, and that were not critical */
	struct mono restored_at;	/* when the state was last */
	struct refusals *refusals;
	ev_timer whole, retry, restored;
};

struct write {				/* one on its way */
	LIST_ENTRY(write) link;
	struct proposal proposal;
	struct leader_catalog *c;
	char node[MEMBER_NAME_BYTES_MAX + 1], id[64];
};

/* The state does not show yet what the entry of this name, or of this id, will be. */
static bool
is_changing(const struct leader_catalog *c, struct span node, struct span id)
{
	const struct write *w;

	LIST_FOREACH(w, &c->writes, link)
		if (span_eq_nocase(node, span_str(w->node)) || (id.len > 0 && span_eq_nocase(id, span_str(w->id))))
			return true;
	return false;
}

static bool
member_is_changing(const struct leader_catalog *c, const struct member *m)
{
	return is_changing(c, m->name, member_tag(m, "id"));
}

static void
write_free(struct write *w)
{
	LIST_REMOVE(w, link);
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
	/* What did not get through, or was refused for what was written meanwhile, shows again at the next comparison. */
	if ((err != TV_OK || (result != NULL && result->err == TV_ECONFLICT)) && c->active)
		ev_timer_again(c->d->loop, &c->retry);
	write_free(w);
	leader_catalog_wake(c);
}

static enum tv_err
propose(struct leader_catalog *c, struct span node, struct span id, uint16_t op, const void *rec)
{
	struct write *w = calloc(1, sizeof(*w));
	char why[256], shown[256], name[300];
	enum tv_err err;

	if (w == NULL)
		return TV_ENOMEM;
	w->c = c;
	snprintf(w->node, sizeof(w->node), "%.*s", (int)node.len, (const char *)node.p);
	(void)span_copy(id, w->id, sizeof(w->id));
	LIST_INSERT_HEAD(&c->writes, w, link);
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

static const char *
reason_of(const struct reconcile_decision *dec)
{
	switch (dec->why) {
	case RECONCILE_LEFT:
		return "left";
	case RECONCILE_REAPED:
		return "reaped";
	case RECONCILE_ID_TAKEN:
		return "does not live, and its node id is another member's now";
	default:
		return dec->node.member ? "does not live, and its name is another node's now" :
		    "was registered, not a member, and its name is a member's now";
	}
}

/* The entry goes if it still is that node's when the log comes to it. */
static enum tv_err
deregister(struct leader_catalog *c, const struct reconcile_node *n, const char *how)
{
	struct catalog_deregister args = { .Node = n->name, .Datacenter = span_str(c->d->cluster.datacenter), .ID = n->id };
	char name[300];
	enum tv_err err = propose(c, n->name, n->id, OP_CATALOG_DEREGISTER, &args);

	if (err == TV_OK)
		log_info("triumvir", "member '%s' %s, deregistering", log_safe(n->name, name, sizeof(name)), how);
	return err;
}

static enum tv_err
write_health(struct leader_catalog *c, const struct member *m, const struct member_kept *kept, bool alive, bool news)
{
	struct member_entry entry;
	char name[300];
	enum tv_err err;

	member_entry_make(m, c->d->cluster.datacenter, alive, kept, &entry);
	err = propose(c, m->name, member_tag(m, "id"), OP_CATALOG_REGISTER, &entry.args);
	if (err == TV_OK && news)
		log_info("triumvir", "member '%s' %s", log_safe(m->name, name, sizeof(name)),
		    alive ? "joined, marking health alive" : "failed, marking health critical");
	return err;
}

static void
forget(struct leader_catalog *c, const struct member *m, const struct reconcile_member *heir)
{
	char name[300], now[300];

	log_info("triumvir", "member '%s' has failed, and its node is '%s' now: forgetting the former name",
	    log_safe(m->name, name, sizeof(name)), log_safe(heir->name, now, sizeof(now)));
	gossip_prune(c->d->gossip, m->name);
}

/* Writes what is to be different.  *again: that is a first step, compare again when it is applied. */
static enum tv_err
settle(struct leader_catalog *c, const struct reconcile_view *v, const struct gossip_member *gm,
    const struct looked *x, bool *again)
{
	const struct reconcile_stored *st = &x->stored;
	struct reconcile_member m = members_rule_of(gm->member, gm->gone);
	struct reconcile_decision dec;

	reconcile_member(v, &m, members_is_copy(c->d, gm->member), st, &dec);
	*gm->refused = dec.action == RECONCILE_REFUSE;
	switch (dec.action) {
	case RECONCILE_WRITE_ALIVE:
		return write_health(c, gm->member, &x->kept, true, !st->named.known || !st->passing);
	case RECONCILE_WRITE_FAILED:
		return write_health(c, gm->member, &x->kept, false, true);
	case RECONCILE_REMOVE:
		*again = true;
		return is_changing(c, dec.node.name, dec.node.id) ? TV_OK : deregister(c, &dec.node, reason_of(&dec));
	case RECONCILE_REFUSE:
		refusals_log(c->refusals, gm->member, &dec);
		return TV_OK;
	case RECONCILE_FORGET:
		forget(c, gm->member, &dec.other);
		return TV_OK;
	case RECONCILE_NOTHING:
		break;
	}
	return TV_OK;
}

/* -- members of which there is news -- */

static void
look_free(struct look *l)
{
	for (unsigned i = 0; l != NULL && i < l->count; i++)
		free(l->at[i].m);
	if (l != NULL)
		arena_done(&l->texts);
	free(l);
}

static void
look_work(struct fsm *reader, void *ctx)
{
	struct look *l = ctx;

	for (unsigned i = 0; i < l->count; i++)
		l->at[i].err = member_entry_look(reader, l->at[i].m, &l->texts, &l->at[i].stored, &l->at[i].kept);
}

static void
take_answer(struct leader_catalog *c, const struct reconcile_view *v, const struct looked *x)
{
	struct gossip_member gm;
	enum tv_err err = v == NULL ? TV_ENOMEM : x->err;
	bool again = false;

	if (!gossip_look_up(c->d->gossip, x->m->name, &gm) || *gm.dirty)
		return;				/* forgotten, or looked at again because of the news */
	if (err == TV_OK && member_is_changing(c, x->m))
		again = true;			/* when that write is done */
	else if (err == TV_OK)
		err = settle(c, v, &gm, x, &again);
	/* What cannot be written for another reason is for the next comparison as a whole. */
	if (v == NULL || x->err != TV_OK || err == TV_EAGAIN || err == TV_ENOMEM) {
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
	struct reconcile_view *v;

	c->look = NULL;
	/* Else all members were marked since, or will be. */
	if (c->active && l->round == c->round) {
		v = members_view(c->d);
		for (unsigned i = 0; i < l->count; i++)
			take_answer(c, v, &l->at[i]);
		reconcile_view_free(v);
	}
	look_free(l);
	leader_catalog_wake(c);
}

/* False: no memory. */
static bool
look_add(struct look *l, const struct gossip_member *gm)
{
	struct member *m = member_clone(gm->member);

	if (m != NULL)
		l->at[l->count++] = (struct looked){ .m = m };
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
		if (!*gm.dirty || member_is_changing(c, gm.member))
			continue;		/* the latter is looked at when its write is done */
		if (members_are_ours(c->d, gm.member)) {
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
start_look(struct leader_catalog *c)
{
	struct look *l = calloc(1, sizeof(*l));
	enum tv_err err = TV_ENOMEM;
	bool end = false;

	if (l != NULL) {
		l->c = c;
		l->round = c->round;
		l->texts = ARENA_INIT(LOOKS_MAX * (MEMBER_ENTRY_TEXTS + 64));
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
		start_look(c);
	if (!c->due && c->look == NULL && c->writing == 0 && !ev_is_active(&c->retry))
		c->compared = c->round;
}

bool
leader_catalog_is_behind(const struct leader_catalog *c)
{
	return !c->active || c->compared != c->round;
}

/* -- as a whole -- */

/* If the check is still what it was when the log comes to it: a node that is gone meanwhile is not made anew. */
static void
write_restored(struct leader_catalog *c, const struct stray *s)
{
	struct txn_op op = { .has_check = true, .Check = { .Verb = span_str("cas") } };
	struct txn args = { .Ops = { .v = &op, .n = 1, .set = true } };
	char name[300];

	member_entry_health(s->node.name, false, &op.Check.Check);
	op.Check.Check.Output = span_str("Not a member of the pool: restored from an archive");
	op.Check.Check.ModifyIndex = s->index;
	if (propose(c, s->node.name, s->node.id, OP_TXN_APPLY, &args) == TV_OK)
		log_info("triumvir", "node '%s' of the restored archive is no member, marking health critical",
		    log_safe(s->node.name, name, sizeof(name)));
}

static void
on_stray(void *ctx, const struct stray *s)
{
	struct leader_catalog *c = ctx;

	c->to_write += !s->critical;
	if (is_changing(c, s->node.name, s->node.id))
		return;				/* at the next look */
	if (c->removing)
		(void)deregister(c, &s->node, "reaped");
	else if (!s->critical)
		write_restored(c, s);
}

/* Looks until nothing is left to be written, or a comparison as a whole has had its turn; never beside that. */
static void
on_restored(struct ev_loop *loop, ev_timer *w, int revents UNUSED)
{
	struct leader_catalog *c = w->data;
	struct mono interval = c->d->conf.reconcile_interval, settled = mono_min(interval, MONO_S(SETTLED_MAX_S));
	bool over = mono_before(interval, mono_sub(clock_mono(), c->restored_at));

	if (!over && (!c->active || strays_are_looked_for(c->strays) || !gossip_settled(c->d->gossip, settled)))
		return;
	over = over || (c->marking && strays_were_all_found(c->strays) && c->to_write == 0);
	c->marking = !over;
	if (over) {
		ev_timer_stop(loop, w);
		return;
	}
	c->removing = false;
	c->to_write = 0;
	strays_look(c->strays, settled);
}

void
leader_catalog_restored(struct leader_catalog *c)
{
	c->restored_at = clock_mono();
	c->marking = false;
	ev_timer_stop(c->d->loop, &c->restored);
	ev_timer_set(&c->restored, 0.0, 1.0);
	ev_timer_start(c->d->loop, &c->restored);
}

static void
on_whole(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct leader_catalog *c = w->data;

	c->passes++;
	gossip_mark_all(c->d->gossip);
	leader_catalog_wake(c);
	if (gossip_settled(c->d->gossip, c->d->conf.reconcile_interval)) {
		c->removing = true;
		c->marking = false;
		strays_look(c->strays, c->d->conf.reconcile_interval);
	}
}

static void
on_retry(struct ev_loop *loop, ev_timer *w, int revents UNUSED)
{
	struct leader_catalog *c = w->data;

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
	/* Not those that are not there: gossip may not have told this server yet of a node that joined just now. */
}

void
leader_catalog_stop(struct leader_catalog *c)
{
	c->active = c->due = false;
	strays_stop(c->strays);
	ev_timer_stop(c->d->loop, &c->whole);
	ev_timer_stop(c->d->loop, &c->retry);
}

static unsigned
refused_now(const struct leader_catalog *c)
{
	struct gossip_member gm;
	unsigned n = 0;

	for (size_t at = 0; c->active && gossip_next(c->d->gossip, &at, &gm);)
		n += *gm.refused;
	return n;
}

void
leader_catalog_info(const struct leader_catalog *c, figure_fn *fn, void *ctx)
{
	FIGURES_PUT(fn, ctx, { "catalog_passes", c->passes }, { "catalog_refused", refused_now(c) });
}

struct leader_catalog *
leader_catalog_new(struct raftd *d)
{
	struct leader_catalog *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->d = d;
	c->strays = strays_new(d, on_stray, c);
	c->refusals = refusals_new(d);
	if (c->strays == NULL || c->refusals == NULL) {
		strays_free(c->strays);
		refusals_free(c->refusals);
		free(c);
		return NULL;
	}
	ev_timer_init(&c->whole, on_whole, 0.0, mono_seconds(d->conf.reconcile_interval));
	ev_timer_init(&c->retry, on_retry, 0.0, 1.0);
	ev_timer_init(&c->restored, on_restored, 0.0, 1.0);
	c->whole.data = c->retry.data = c->restored.data = c;
	return c;
}

void
leader_catalog_free(struct leader_catalog *c)
{
	if (c == NULL)
		return;
	leader_catalog_stop(c);
	ev_timer_stop(c->d->loop, &c->restored);
	strays_free(c->strays);
	refusals_free(c->refusals);
	look_free(c->look);
	free(c);
}
