/*
 * Lamport clocks and intents; see intent.h.  The rules by which intents change a
 * member's status: doc/wire.md, "Serf member state machine".
 */
#include "config.h"

#include <stdlib.h>

#include "gossipd/core/state.h"

#define LAMPORT_FREE (UINT64_C(1) << 62)
#define LAMPORT_STEP (UINT64_C(1) << 32)

bool
lamport_plausible(const struct lamport *c, uint64_t seen)
{
	if (seen <= LAMPORT_FREE)
		return true;
	return seen < UINT64_MAX && (seen <= c->time || seen - c->time <= LAMPORT_STEP);
}

void
lamport_witness(struct lamport *c, uint64_t seen)
{
	if (seen >= c->time && seen < UINT64_MAX)
		c->time = seen + 1;
}

uint64_t
lamport_take(struct lamport *c)
{
	uint64_t now = c->time;

	if (c->time < UINT64_MAX)
		c->time++;
	return now;
}

static void
drop_intent(struct intents *t, struct intent *i)
{
	map_remove(&t->by_name, &i->node);
	t->pruned -= i->kind == INTENT_PRUNE;
	free(i);
}

void
intents_done(struct intents *t)
{
	struct map_node *tmp;
	struct intent *i;

	MAP_FOREACH(i, &t->by_name, node, tmp)
		drop_intent(t, i);
	map_done(&t->by_name);
}

struct intent *
intents_find(const struct intents *t, uint64_t hash, struct span name)
{
	struct intent *i;

	MAP_FOREACH_HASH(i, &t->by_name, hash, node)
		if (span_eq(span_of(i->name, i->name_len), name))
			return i;
	return NULL;
}

/* NULL: full, or no memory. */
static struct intent *
intent_new(struct intents *t, uint64_t hash, struct span name)
{
	struct intent *i = t->by_name.count >= t->count_max ? NULL : malloc(sizeof(*i) + name.len);

	if (i == NULL) {
		t->refused++;
		return NULL;
	}
	*i = (struct intent){ .name_len = (uint8_t)name.len };
	memcpy(i->name, name.p, name.len);
	map_add(&t->by_name, &i->node, hash);
	return i;
}

bool
intents_note(struct intents *t, uint64_t hash, struct span name, enum intent_kind kind, uint64_t ltime, struct mono now)
{
	struct intent *i = intents_find(t, hash, name);

	if (i != NULL && ltime <= i->ltime)
		return false;
	if (i == NULL && (i = intent_new(t, hash, name)) == NULL)
		return false;
	t->pruned += (kind == INTENT_PRUNE) - (i->kind == INTENT_PRUNE);
	i->heard_at = now;
	i->ltime = ltime;
	i->kind = kind;
	return true;
}

bool
intents_take(struct intents *t, uint64_t hash, struct span name, enum intent_kind *kind, uint64_t *ltime)
{
	struct intent *i = intents_find(t, hash, name);

	if (i == NULL)
		return false;
	*kind = i->kind;
	*ltime = i->ltime;
	drop_intent(t, i);
	return true;
}

void
intents_expire(struct intents *t, struct mono before, struct mono pruned_before)
{
	struct map_node *tmp;
	struct intent *i;

	MAP_FOREACH(i, &t->by_name, node, tmp)
		if (mono_before(i->heard_at, i->kind == INTENT_PRUNE ? pruned_before : before))
			drop_intent(t, i);
}

/* Stored names are 1..255 bytes without control characters; see name_ok() in member.c. */
static bool
note_unknown(struct swim *s, struct span name, enum intent_kind kind, uint64_t ltime)
{
	uint64_t refused = s->intents.refused;
	bool news;

	if (!swim_name_ok(name)) {
		s->stats.bad_message++;
		return false;
	}
	news = intents_note(&s->intents, table_hash(&s->table, name), name, kind, ltime, s->now);
	s->stats.over_intents += s->intents.refused - refused;
	return news;
}

/* Moves the clock; false for a time that is not to be believed, for nothing newer could be said ever after. */
static bool
witness(struct swim *s, uint64_t ltime)
{
	if (!lamport_plausible(&s->clock, ltime)) {
		s->stats.over_ltimes++;
		return false;
	}
	lamport_witness(&s->clock, ltime);
	return true;
}

bool
intent_join(struct swim *s, uint64_t ltime, struct span name)
{
	struct node *n = table_find(&s->table, name);

	if (!witness(s, ltime))
		return false;
	if (n == NULL || n->status == MEMBER_NONE)
		return note_unknown(s, name, INTENT_JOIN, ltime);
	if (ltime <= n->status_ltime)
		return false;
	n->status_ltime = ltime;
	n->told = false;
	n->returning = n->status == MEMBER_LEFT;
	if (n->status == MEMBER_LEAVING) {
		n->pruned = false;
		serf_set_status(s, n, MEMBER_ALIVE);
		out_event(s, GOSSIP_EV_UPDATE, n);
	}
	return true;
}

void
intent_told(struct swim *s, uint64_t ltime, struct span name)
{
	struct node *n;

	if (intent_join(s, ltime, name) && (n = table_find(&s->table, name)) != NULL)
		n->told = true;
}

/* Someone says that we leave, and we do not: our own word with a later time stands. */
static void
refute_leave(struct swim *s)
{
	out_notice(s, &(struct swim_notice){ .type = SWIM_NOTICE_LEAVE_REFUTED });
	s->stats.refutations++;
	intent_send_join(s);
}

static bool
was_pruned(struct swim *s, struct span name)
{
	const struct intent *i = intents_find(&s->intents, table_hash(&s->table, name), name);

	return i != NULL && i->kind == INTENT_PRUNE;
}

/* With prune the member goes at once; one that is still leaving first gets the time to say so. */
static void
prune(struct swim *s, struct node *n)
{
	if (n->status != MEMBER_LEAVING) {
		serf_erase_pruned(s, n);
		return;
	}
	n->pruned = true;
	n->gone_at = s->now;
	timer_pull(s, TIMER_PRUNE, serf_prune_at(s, n));
}

/* Is a leave of that time no news?  One of the same time as an exchange gave is, see intent_told(); a prune is not. */
static bool
is_old_leave(const struct node *n, uint64_t ltime, bool with_prune)
{
	return ltime < n->status_ltime || (ltime == n->status_ltime && (!n->told || with_prune));
}

bool
intent_leave(struct swim *s, uint64_t ltime, struct span name, bool with_prune)
{
	struct node *n = table_find(&s->table, name);

	if (!witness(s, ltime))
		return false;
	if (n == NULL || n->status == MEMBER_NONE)
		return note_unknown(s, name, with_prune && was_pruned(s, name) ? INTENT_PRUNE : INTENT_LEAVE, ltime);
	if (is_old_leave(n, ltime, with_prune))
		return false;
	if (n == s->self && !leave_begun(s)) {
		refute_leave(s);
		return false;
	}
	n->status_ltime = ltime;
	n->told = false;
	n->returning = false;
	if (n->status == MEMBER_ALIVE) {
		serf_set_status(s, n, MEMBER_LEAVING);
		out_event(s, GOSSIP_EV_UPDATE, n);
	} else if (n->status == MEMBER_FAILED) {
		n->gone_at = s->now;
		serf_set_status(s, n, MEMBER_LEFT);
		out_event(s, GOSSIP_EV_LEAVE, n);
	}
	if (with_prune && n != s->self)
		prune(s, n);
	return true;
}

/*
 * A peer's full state shows the member as left since `ltime`: a leave intent just after that.
 * If we show it as left or leaving as well, nothing is added: else the time would grow with each exchange,
 * and could catch up with the intent by which the member comes back.
 */
void
intent_left(struct swim *s, uint64_t ltime, struct span name)
{
	struct node *n = table_find(&s->table, name);

	if (ltime == UINT64_MAX)
		return;
	if (n == NULL || (n->status != MEMBER_LEFT && n->status != MEMBER_LEAVING)) {
		(void)intent_leave(s, ltime + 1, name, false);
		return;
	}
	if (witness(s, ltime) && ltime > n->status_ltime)
		n->status_ltime = ltime;
}

bool
intent_prune_again(struct swim *s, uint64_t hash, struct span name, uint64_t ltime)
{
	uint64_t next = ltime + 1;

	if (ltime == UINT64_MAX || !witness(s, next))
		return false;
	return intents_note(&s->intents, hash, name, INTENT_PRUNE, next, s->now);
}

enum tv_err
intent_on_join(struct swim *s, const struct addr *from UNUSED, struct span message)
{
	struct span body = span_of(message.p + 1, message.len - 1);
	struct serf_join m;
	enum tv_err err = serf_get_join(body, &s->out.arena, &m);

	if (err == TV_OK && intent_join(s, m.ltime, m.node))
		gossip_pass(s, QUEUE_INTENT, message);
	return err;
}

enum tv_err
intent_on_leave(struct swim *s, const struct addr *from UNUSED, struct span message)
{
	struct span body = span_of(message.p + 1, message.len - 1);
	struct serf_leave m;
	enum tv_err err = serf_get_leave(body, &s->out.arena, &m);

	if (err == TV_OK && intent_leave(s, m.ltime, m.node, m.prune))
		gossip_pass(s, QUEUE_INTENT, message);
	return err;
}

/*
 * A Serf agent that sees us back, and then has an exchange with one that does not yet, takes us for leaving since the
 * time of our leave and one more.  That may be what our clock shows, and a join of the same time would change nothing
 * there: a later one does.
 */
void
intent_send_join(struct swim *s)
{
	struct serf_join m = { .ltime = s->clock.time + (s->clock.time < UINT64_MAX - 1), .node = s->opt.name };

	buf_reset(&s->scratch);
	serf_put_join(&s->scratch, &m);
	gossip_queue(s, QUEUE_INTENT, buf_span(&s->scratch), NULL, 0);
	(void)intent_join(s, m.ltime, m.node);	/* we spread it whether or not it is news to ourselves */
}

void
intent_send_leave(struct swim *s, struct span name, bool with_prune, unsigned wait)
{
	struct serf_leave m = { .ltime = lamport_take(&s->clock), .node = name, .prune = with_prune };

	buf_reset(&s->scratch);
	serf_put_leave(&s->scratch, &m);
	gossip_queue(s, QUEUE_INTENT, buf_span(&s->scratch), NULL, wait);
	(void)intent_leave(s, m.ltime, m.node, with_prune);
}
