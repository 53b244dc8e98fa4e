/* The catalog in step with gossip. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/propose.h"
#include "raftd/fsm/fsm.h"
#include "raftd/leader/leader_catalog.h"
#include "raftd/leader/member_entry.h"
#include "raftd/peers/gossip.h"

#define ARENA_MAX (4u << 20)
#define WRITES_MAX 64			/* on their way at once */

struct write;

struct leader_catalog {
	struct raftd *d;
	bool active, due;
	unsigned writing;
	struct write *writes;		/* so many */
	size_t cursor;			/* of the walk through the members */
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
	c->due = true;
	write_free(w);
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

static void
propose_deregister(struct leader_catalog *c, struct span node, const char *how)
{
	struct catalog_deregister args = { .Node = node, .Datacenter = span_str(c->d->cluster.datacenter) };
	char name[300];

	if (propose(c, node, OP_CATALOG_DEREGISTER, &args) == TV_OK)
		log_info("triumvir", "member '%s' %s, deregistering", log_safe(node, name, sizeof(name)), how);
}

static void
deregister(struct leader_catalog *c, struct span node, const char *how)
{
	if (!span_eqs(node, c->d->id.name))	/* never ourself */
		propose_deregister(c, node, how);
}

/* The name belongs to another node now: reinstalled, with a new node id.  A catalog entry keeps its id for life. */
static bool
is_replaced(const struct member *m, const struct node *stored)
{
	struct span id = member_tag(m, "id");

	return id.len > 0 && stored->ID.len > 0 && !span_eq(id, stored->ID);
}

static void
write_health(struct leader_catalog *c, const struct member *m, bool alive, bool known)
{
	struct member_entry entry;
	char name[300];

	member_entry_make(m, c->d->cluster.datacenter, alive, &entry);
	if (propose(c, m->name, OP_CATALOG_REGISTER, &entry.args) == TV_OK && !(alive && known))
		log_info("triumvir", "member '%s' %s", log_safe(m->name, name, sizeof(name)),
		    alive ? "joined, marking health alive" : "failed, marking health critical");
}

/* True: what was proposed is a first step; compare again when it is applied. */
static bool
compare(struct leader_catalog *c, const struct member *m, bool gone)
{
	struct arena a = ARENA_INIT(2 * FSM_RECORD_MEMORY);
	struct node node = { 0 };
	struct span health = SPAN_NONE;
	bool known = fsm_node_health(c->d->fsm, m->name, &a, &node, &health), again = false;

	if (gone || m->status == MEMBER_LEFT) {
		if (known)
			deregister(c, m->name, gone ? "reaped" : "left");
	} else if (m->status == MEMBER_FAILED) {
		if (known && !span_eqs(health, "critical"))
			write_health(c, m, false, true);
	} else if (m->status == MEMBER_ALIVE && known && is_replaced(m, &node)) {
		propose_deregister(c, m->name, "has a new node id");
		again = true;
	} else if (m->status == MEMBER_ALIVE) {
		if (!known || !span_eqs(health, "passing") || !member_entry_same_node(m, &node) ||
		    !member_entry_same_service(c->d->fsm, m))
			write_health(c, m, true, known && span_eqs(health, "passing"));
	}
	arena_done(&a);
	return again;
}

void
leader_catalog_turn(struct leader_catalog *c)
{
	struct gossip_member gm;

	if (!c->due)
		return;
	while (c->writing < WRITES_MAX) {
		if (!gossip_next(c->d->gossip, &c->cursor, &gm)) {
			c->cursor = 0;
			c->due = false;
			return;
		}
		if (!*gm.dirty || is_changing(c, gm.member->name))
			continue;		/* the latter is looked at when its write is done */
		*gm.dirty = false;
		if (is_ours(c, gm.member))
			*gm.dirty = compare(c, gm.member, gm.gone);
		if (gm.gone) {
			gossip_forget(c->d->gossip, gm.member);
			c->cursor--;
		}
	}
}

/* -- as a whole -- */

struct stray {
	struct leader_catalog *c;
	struct arena arena;
	struct span names[256];
	unsigned count;
};

static void
on_serf_node(void *ctx, struct span node, struct span id, struct span status)
{
	struct stray *s = ctx;

	(void)id;
	(void)status;
	if (s->count < 256 && gossip_find(s->c->d->gossip, node) == NULL)
		s->names[s->count++] = arena_copy(&s->arena, node);
}

/* Nodes with a serfHealth check that gossip does not know (any more). */
static void
remove_strays(struct leader_catalog *c)
{
	struct stray *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return;
	s->c = c;
	s->arena = ARENA_INIT(ARENA_MAX);
	fsm_each_serf_node(c->d->fsm, on_serf_node, s);
	for (unsigned i = 0; i < s->count && c->writing < WRITES_MAX; i++)
		if (s->names[i].p != NULL)
			deregister(c, s->names[i], "reaped");
	arena_done(&s->arena);
	free(s);
}

static void
look_at_all(struct leader_catalog *c)
{
	gossip_mark_all(c->d->gossip);
	c->due = true;
	/* Only the whole view says who is not there. */
	if (gossip_synced(c->d->gossip))
		remove_strays(c);
}

static void
on_whole(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop;
	(void)revents;
	look_at_all(w->data);
}

static void
on_retry(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct leader_catalog *c = w->data;

	(void)revents;
	ev_timer_stop(loop, w);
	gossip_mark_all(c->d->gossip);
	c->due = true;
}

void
leader_catalog_wake(struct leader_catalog *c)
{
	c->due = c->active;
}

void
leader_catalog_start(struct leader_catalog *c)
{
	c->active = true;
	c->cursor = 0;
	ev_timer_again(c->d->loop, &c->whole);
	look_at_all(c);
}

void
leader_catalog_stop(struct leader_catalog *c)
{
	c->active = c->due = false;
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
	free(c);
}
