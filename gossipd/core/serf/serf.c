/*
 * What people see of a pool: alive, leaving, left and failed members, kept for a day after
 * they went; and Serf's half of the full exchange.
 * Source: doc/wire.md, "Serf member state machine" and "Serf push/pull state".
 */
#include "config.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/record/mpack.h"
#include "gossipd/core/state.h"
#include "gossipd/core/swim/scale.h"

#define ROOM_PART 16		/* of a full table, that gives way at once */
#define TO(s) (1u << (s))
#define PRUNED_EXCHANGES 4	/* intervals for which a prune is remembered */
#define RETOLD_MAX 16		/* prunes told again in one exchange, */
#define SAME_IP_MAX 4		/* to so many members when the peer is known by its IP address only */

/* Steps that the rules allow; any other is our own mistake. */
static const unsigned status_next[] = {
	[MEMBER_NONE]    = TO(MEMBER_ALIVE) | TO(MEMBER_LEAVING) | TO(MEMBER_FAILED) | TO(MEMBER_LEFT),
	[MEMBER_ALIVE]   = TO(MEMBER_LEAVING) | TO(MEMBER_FAILED) | TO(MEMBER_NONE) | TO(MEMBER_ALIVE),
	[MEMBER_LEAVING] = TO(MEMBER_ALIVE) | TO(MEMBER_LEFT) | TO(MEMBER_NONE),
	[MEMBER_LEFT]    = TO(MEMBER_ALIVE) | TO(MEMBER_NONE),
	[MEMBER_FAILED]  = TO(MEMBER_ALIVE) | TO(MEMBER_LEFT) | TO(MEMBER_NONE),
};

void
serf_set_status(struct swim *s, struct node *n, enum member_status status)
{
	TV_ASSERT(status_next[n->status] & TO(status));
	s->status_count[n->status] -= n->status != MEMBER_NONE;
	s->status_count[status] += status != MEMBER_NONE;
	n->status = (uint8_t)status;
	n->returning = false;
}

void
serf_node_join(struct swim *s, struct node *n)
{
	uint64_t hash = table_hash(&s->table, node_name(n));
	enum intent_kind kind;
	bool fresh = n->status == MEMBER_NONE;

	serf_set_status(s, n, MEMBER_ALIVE);
	n->pruned = false;
	if (fresh) {
		n->status_ltime = 0;
		n->told = false;
		if (intents_take(&s->intents, hash, node_name(n), &kind, &n->status_ltime) && kind == INTENT_LEAVE)
			serf_set_status(s, n, MEMBER_LEAVING);
	}
	out_event(s, GOSSIP_EV_JOIN, n);
}

void
serf_node_leave(struct swim *s, struct node *n)
{
	if (n->status == MEMBER_LEAVING) {
		serf_set_status(s, n, MEMBER_LEFT);
		out_event(s, GOSSIP_EV_LEAVE, n);
	} else if (n->status == MEMBER_ALIVE) {
		serf_set_status(s, n, MEMBER_FAILED);
		out_event(s, GOSSIP_EV_FAILED, n);
	} else {
		return;
	}
	if (!n->pruned)
		n->gone_at = s->now;
}

void
serf_node_update(struct swim *s, struct node *n)
{
	if (n->status != MEMBER_NONE)
		out_event(s, GOSSIP_EV_UPDATE, n);
}

/* May free n. */
void
serf_erase(struct swim *s, struct node *n)
{
	TV_ASSERT(n != s->self);
	out_event(s, GOSSIP_EV_REAP, n);
	serf_set_status(s, n, MEMBER_NONE);
	n->pruned = false;
	place_forget(n);
	swim_drop_if_unused(s, n);
}

/* Its time as a failed or left member is over. */
static bool
outlived(const struct swim *s, const struct node *n)
{
	const struct swim_timing *t = &s->opt.timing;

	if (n->status == MEMBER_FAILED)
		return !mono_before(s->now, mono_add(n->gone_at, t->reconnect_timeout));
	return n->status == MEMBER_LEFT && !mono_before(s->now, mono_add(n->gone_at, t->tombstone_timeout));
}

void
serf_erase_pruned(struct swim *s, struct node *n)
{
	struct intents *t = &s->intents;
	uint64_t hash = table_hash(&s->table, node_name(n));

	if (t->pruned < t->count_max / 2)	/* half stays free for members that are yet to come */
		(void)intents_note(t, hash, node_name(n), INTENT_PRUNE, n->status_ltime, s->now);
	serf_erase(s, n);
}

enum tv_err
serf_restore(struct swim *s, const struct swim_input *in)
{
	const struct swim_restore *r = in->restore;
	struct node *n;
	enum tv_err err;

	if (!swim_name_ok(r->name) || (r->addr.len != 4 && r->addr.len != 16) || r->meta.len > NODE_META_BYTES_MAX ||
	    (r->status != MEMBER_FAILED && r->status != MEMBER_LEFT) || r->age.ns < 0)
		return TV_EINVAL;
	if (table_find(&s->table, r->name) != NULL)
		return TV_EEXIST;
	err = table_add(&s->table, r->name, r->meta, &r->addr, r->vsn, &n);
	if (err != TV_OK)
		return err;
	n->status_ltime = r->status_ltime;
	n->gone_at = mono_sub(s->now, r->age);
	serf_set_status(s, n, r->status);
	if (outlived(s, n)) {
		serf_set_status(s, n, MEMBER_NONE);
		table_remove(&s->table, n);
		return TV_ENOENT;
	}
	return TV_OK;
}

static int
time_order(const void *a, const void *b)
{
	const struct mono *x = a, *y = b;

	return x->ns < y->ns ? -1 : x->ns > y->ns;
}

/* Failed, and never answered a probe of ours: nothing speaks for it having been there at all. */
static bool
gives_way(const struct node *n)
{
	return n->status == MEMBER_FAILED && n->coord == NULL;
}

/*
 * The instant up to which those went that give way now: the longest gone sixteenth of the table.  False: there are
 * none.
 */
static bool
room_limit(struct swim *s, struct mono *limit)
{
	struct mono *gone = arena_array(&s->out.arena, s->table.all_count, sizeof(*gone));
	uint32_t count = 0, want = s->opt.members_max / ROOM_PART;

	for (uint32_t i = 0; gone != NULL && i < s->table.all_count; i++)
		if (gives_way(s->table.all[i]))
			gone[count++] = s->table.all[i]->gone_at;
	if (count == 0)
		return false;
	qsort(gone, count, sizeof(*gone), time_order);
	*limit = gone[(want == 0 ? 1 : want < count ? want : count) - 1];
	return true;
}

bool
serf_make_room(struct swim *s)
{
	struct mono limit;

	if (mono_before(s->now, s->room_at))
		return false;
	s->room_at = mono_add(s->now, MONO_S(1));
	if (!room_limit(s, &limit))
		return false;
	for (uint32_t i = s->table.all_count; i > 0; i--) {
		struct node *n = s->table.all[i - 1];

		if (!gives_way(n) || mono_before(limit, n->gone_at))
			continue;
		if (node_listed(&s->table, n))
			swim_forget(s, n);
		serf_erase(s, n);
	}
	return true;
}

void
serf_reap(struct swim *s)
{
	struct mono exchange;

	timer_set(s, TIMER_REAP, mono_add(s->now, s->opt.timing.reap_interval));
	for (uint32_t i = s->table.all_count; i > 0; i--) {
		struct node *n = s->table.all[i - 1];

		if (n != s->self && outlived(s, n))
			serf_erase(s, n);
	}
	exchange = scale_pushpull(s->opt.timing.pushpull_interval, s->table.order_count);
	intents_expire(&s->intents, mono_sub(s->now, s->opt.timing.intent_timeout),
	    mono_sub(s->now, mono_mul(exchange, PRUNED_EXCHANGES)));
	pushpull_expire(s);
}

struct mono
serf_prune_at(const struct swim *s, const struct node *n)
{
	return mono_add(n->gone_at, mono_add(s->opt.timing.broadcast_timeout, s->opt.timing.leave_delay));
}

/* Members that came back meanwhile are not marked any more. */
void
serf_prune(struct swim *s)
{
	timer_set(s, TIMER_PRUNE, MONO_NEVER);
	for (uint32_t i = s->table.all_count; i > 0; i--) {
		struct node *n = s->table.all[i - 1];

		if (!n->pruned)
			continue;
		if (mono_before(s->now, serf_prune_at(s, n)))
			timer_pull(s, TIMER_PRUNE, serf_prune_at(s, n));
		else
			serf_erase_pruned(s, n);
	}
}

/* One random failed member, and not always: the more members live, the rarer each one tries. */
void
serf_reconnect(struct swim *s)
{
	uint32_t failed = s->status_count[MEMBER_FAILED], skip;
	uint32_t rest = s->status_count[MEMBER_ALIVE] + s->status_count[MEMBER_LEAVING];

	timer_set(s, TIMER_RECONNECT, mono_add(s->now, s->opt.timing.reconnect_interval));
	if (failed == 0 || leave_begun(s) || rng_unit(&s->rng) > (double)failed / (rest > 0 ? rest : 1))
		return;
	skip = (uint32_t)rng_below(&s->rng, failed);
	for (uint32_t i = 0; i < s->table.all_count; i++) {
		struct node *n = s->table.all[i];

		if (n->status != MEMBER_FAILED)
			continue;
		if (skip-- == 0) {
			(void)pushpull_start(s, node_addr(n), true, 0);	/* too busy: next time */
			return;
		}
	}
}

/* -- exchange --------------------------------------------------------------------- */

/*
 * A member whose join intent came before its alive is not told as left: the receiver would
 * make a leave intent of it that is as new as the join.
 */
static bool
told_left(const struct node *n)
{
	return n->status == MEMBER_LEFT && !n->returning;
}

/*
 * Receivers take the time as that of a join.  The time of a leave that is still under way would make them ignore
 * the leave itself when it comes.
 */
static uint64_t
told_ltime(const struct node *n)
{
	return n->status == MEMBER_LEAVING && n->status_ltime > 0 ? n->status_ltime - 1 : n->status_ltime;
}

void
serf_state_write(struct swim *s, struct buf *b)
{
	uint32_t shown = 0, left = 0;

	for (uint32_t i = 0; i < s->table.all_count; i++) {
		shown += s->table.all[i]->status != MEMBER_NONE;
		left += told_left(s->table.all[i]);
	}
	serf_state_begin(b, s->event_clock.time, event_state_slots(s));
	event_state_write(s, b);
	serf_state_left(b, s->clock.time, left);
	for (uint32_t i = 0; i < s->table.all_count; i++)
		if (told_left(s->table.all[i]))
			mpw_raw(b, node_name(s->table.all[i]));
	serf_state_statuses(b, s->query_clock.time, shown);
	for (uint32_t i = 0; i < s->table.all_count; i++)
		if (s->table.all[i]->status != MEMBER_NONE)
			serf_state_status(b, node_name(s->table.all[i]), told_ltime(s->table.all[i]));
}

static int
hash_order(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x < y ? -1 : x > y;
}

/* Hashes of the names that the peer has as left, sorted; *count of them, in the output's arena. */
static uint64_t *
left_hashes(struct swim *s, struct span names, size_t *count)
{
	struct serf_list it = serf_list(names);
	uint64_t *hashes = arena_array(&s->out.arena, it.left, sizeof(*hashes));
	struct span name;

	*count = 0;
	if (hashes == NULL) {
		s->stats.no_memory++;
		return NULL;
	}
	for (uint32_t room = it.left; *count < room && serf_list_next(&it, &name) == TV_OK;)
		hashes[(*count)++] = table_hash(&s->table, name);
	qsort(hashes, *count, sizeof(*hashes), hash_order);
	return hashes;
}

/* To the members at the peer's IP address: it is one of them, nearly always the only one. */
static void
send_to_ip(struct swim *s, struct span message)
{
	unsigned sent = 0;

	for (uint32_t i = 0; i < s->table.order_count && sent < SAME_IP_MAX; i++) {
		const struct node *n = s->table.all[i];

		if (n == s->self || node_addr(n)->len != s->peer->len ||
		    memcmp(node_addr(n)->ip, s->peer->ip, s->peer->len) != 0)
			continue;
		out_send(s, node_addr(n), message, false);
		sent++;
	}
}

/*
 * The peer still shows a member that was pruned: gossip missed it, as it does one in some ten thousand.  Nothing else
 * would tell it, for a day; so we do, directly.  Shown as left at the time of the prune or later, the peer may have
 * missed it for good: the deployed protocol makes of each full state with a left member an intent one later, so that
 * the prune itself comes too late.  Then we say it anew.  Returns whether the peer was told.
 */
static bool
missed_prune(struct swim *s, uint64_t hash, struct span name, uint64_t ltime, bool left)
{
	const struct intent *i = intents_find(&s->intents, hash, name);
	struct serf_leave m;

	if (i == NULL || i->kind != INTENT_PRUNE)
		return false;
	if (ltime >= i->ltime && (!left || !intent_prune_again(s, hash, name, ltime)))
		return false;
	m = (struct serf_leave){ .ltime = i->ltime, .node = name, .prune = true };
	buf_reset(&s->scratch);
	buf_u8(&s->scratch, WIRE_USER);
	serf_put_leave(&s->scratch, &m);
	if (s->peer_dialled)
		out_send(s, s->peer, buf_span(&s->scratch), false);
	else
		send_to_ip(s, buf_span(&s->scratch));
	return true;
}

/*
 * The peer's statuses stand for the intents that led to them.  They are not passed on: every
 * member gets them by its own exchanges.
 */
static enum tv_err
merge_statuses(struct swim *s, const struct serf_state *m)
{
	struct serf_status_iter it = serf_statuses(m->status_ltimes);
	struct span name;
	uint64_t ltime, hash;
	unsigned retold = 0;
	size_t left_count;
	uint64_t *left = left_hashes(s, m->left_members, &left_count);
	enum tv_err err;

	if (left == NULL)
		return TV_ENOMEM;
	while ((err = serf_status_next(&it, &name, &ltime)) == TV_OK) {
		bool gone;

		hash = table_hash(&s->table, name);
		gone = bsearch(&hash, left, left_count, sizeof(*left), hash_order) != NULL;
		if (s->intents.pruned > 0 && retold < RETOLD_MAX && missed_prune(s, hash, name, ltime, gone))
			retold++;
		if (gone)
			intent_left(s, ltime, name);
		else
			intent_told(s, ltime, name);
	}
	return err == TV_EOF ? TV_OK : err;
}

enum tv_err
serf_state_merge(struct swim *s, struct span state, bool ignore_old)
{
	struct serf_state m;
	enum tv_err err;

	if (state.p[0] != SERF_PUSH_PULL)
		return TV_EFORMAT;
	err = serf_get_state(span_of(state.p + 1, state.len - 1), &s->out.arena, &m);
	if (err != TV_OK)
		return err;
	if (m.ltime > 0 && lamport_plausible(&s->clock, m.ltime))
		lamport_witness(&s->clock, m.ltime - 1);
	if (m.event_ltime > 0 && lamport_plausible(&s->event_clock, m.event_ltime))
		lamport_witness(&s->event_clock, m.event_ltime - 1);
	if (m.query_ltime > 0 && lamport_plausible(&s->query_clock, m.query_ltime))
		lamport_witness(&s->query_clock, m.query_ltime - 1);
	err = merge_statuses(s, &m);
	if (ignore_old && lamport_plausible(&s->event_clock, m.event_ltime))
		ring_raise(&s->events.ring, m.event_ltime);
	return err != TV_OK ? err : event_state_merge(s, m.events);
}

/* -- messages ------------------------------------------------------------------------ */

static enum tv_err (*const serf_handlers[])(struct swim *, const struct addr *, struct span) = {
	[SERF_LEAVE] = intent_on_leave,
	[SERF_JOIN] = intent_on_join,
	[SERF_USER_EVENT] = event_on_user,
	[SERF_QUERY] = query_on_query,
	[SERF_QUERY_RESPONSE] = ask_on_response,
	[SERF_RELAY] = answer_on_relay,
};

enum tv_err
serf_message(struct swim *s, const struct addr *from, struct span message)
{
	if (message.len < 2 || message.p[0] >= sizeof(serf_handlers) / sizeof(serf_handlers[0]) ||
	    serf_handlers[message.p[0]] == NULL)
		return TV_EFORMAT;
	return serf_handlers[message.p[0]](s, from, message);
}
