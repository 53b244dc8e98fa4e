/* The gossip core: life of an instance, inputs, timers; see swim.h for the contract. */
#include "config.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "gossipd/core/state.h"

#define SCRATCH_BYTES_MAX 65536		/* one message under construction */
#define PAYLOAD_BYTES_MAX 256		/* an ack's */
#define EVENT_MARKS_MAX 16384		/* user events that are told from news, 8 bytes each */
#define QUERY_MARKS_MAX 16384

/* What every Serf node says of itself: memberlist 1..5, speaks 2; Serf 2..5, speaks 5. */
static const uint8_t own_vsn[WIRE_VSN_BYTES] = { 1, 5, 2, 2, 5, 5 };

/* -- timers --------------------------------------------------------------------- */

static void (*const timer_handlers[TIMERS])(struct swim *) = {
	[TIMER_PROBE] = probe_tick,
	[TIMER_PROBE_STEP] = probe_step,
	[TIMER_RELAY] = relay_step,
	[TIMER_SUSPICION] = suspicion_fire,
	[TIMER_GOSSIP] = gossip_tick,
	[TIMER_PUSHPULL] = pushpull_tick,
	[TIMER_REAP] = serf_reap,
	[TIMER_PRUNE] = serf_prune,
	[TIMER_RECONNECT] = serf_reconnect,
	[TIMER_LEAVE] = leave_step,
	[TIMER_ASK] = ask_expire,
	[TIMER_MOVED] = moved_step,
};

/* A probe that ends at the instant of the next round must end first. */
static const enum swim_timer timer_order[TIMERS] = {
	TIMER_PROBE_STEP, TIMER_RELAY, TIMER_SUSPICION, TIMER_PROBE, TIMER_LEAVE, TIMER_GOSSIP, TIMER_PUSHPULL,
	TIMER_REAP, TIMER_PRUNE, TIMER_RECONNECT, TIMER_ASK, TIMER_MOVED,
};

static struct mono
next_deadline(const struct swim *s)
{
	struct mono at = MONO_NEVER;

	for (int t = 0; t < TIMERS; t++)
		at = mono_min(at, s->timers[t]);
	return at;
}

/* Each handler sets its own timer anew, so a pass handles each one once; some pull others to now. */
static void
run_timers(struct swim *s)
{
	for (int pass = 0; pass < 4 && !mono_before(s->now, next_deadline(s)); pass++)
		for (int i = 0; i < TIMERS; i++)
			if (!mono_before(s->now, s->timers[timer_order[i]]))
				timer_handlers[timer_order[i]](s);
}

/*
 * We were stopped, or the machine was: what we did not hear is not the others' fault.
 * Give them as long as we were away, and trust ourselves less.
 */
static void
note_stall(struct swim *s, struct mono late)
{
	int64_t rounds = late.ns / s->opt.timing.probe_interval.ns;

	out_notice(s, &(struct swim_notice){ .type = SWIM_NOTICE_STALL, .number = (uint64_t)mono_ms(late) });
	local_health_add(s, rounds < SWIM_HEALTH_MAX ? (int)rounds : SWIM_HEALTH_MAX);
	probe_cancel(s);
	suspicion_delay(s, late);
	relay_done(s);
	moved_forget(s, NULL);
	timer_set(s, TIMER_RELAY, MONO_NEVER);
}

static void
advance(struct swim *s, struct mono now, struct mono promised)
{
	struct mono limit = mono_mul(s->opt.timing.probe_interval, 2);

	if (mono_before(s->now, now))
		s->now = now;
	if (promised.ns != MONO_NEVER.ns && !(s->opt.without & SWIM_WITHOUT_STALL) &&
	    mono_before(mono_add(promised, limit), s->now))
		note_stall(s, mono_sub(s->now, promised));
}

/* -- inputs ----------------------------------------------------------------------- */

static enum tv_err (*const message_handlers[])(struct swim *, const struct addr *, struct span) = {
	[WIRE_PING] = probe_on_ping,
	[WIRE_INDIRECT_PING] = probe_on_indirect,
	[WIRE_ACK] = probe_on_ack,
	[WIRE_NACK] = probe_on_nack,
	[WIRE_SUSPECT] = member_on_suspect,
	[WIRE_ALIVE] = member_on_alive,
	[WIRE_DEAD] = member_on_dead,
	[WIRE_USER] = serf_message,
};

static enum tv_err
on_tick(struct swim *s UNUSED, const struct swim_input *in UNUSED)
{
	return TV_OK;
}

static enum tv_err
on_message(struct swim *s, const struct swim_input *in)
{
	enum tv_err err = TV_EFORMAT;

	if ((size_t)in->kind < sizeof(message_handlers) / sizeof(message_handlers[0]) &&
	    message_handlers[in->kind] != NULL)
		err = message_handlers[in->kind](s, &in->from, in->bytes);
	if (err != TV_OK)
		s->stats.bad_message++;
	return err;
}

static enum tv_err
on_request(struct swim *s, const struct swim_input *in)
{
	enum tv_err err = pushpull_on_request(s, in);

	if (err == TV_EFORMAT || err == TV_ELIMIT || err == TV_EOF)
		s->stats.bad_message++;
	return err;
}

static enum tv_err (*const input_handlers[SWIM_INS])(struct swim *, const struct swim_input *) = {
	[SWIM_IN_TICK] = on_tick,
	[SWIM_IN_MESSAGE] = on_message,
	[SWIM_IN_REQUEST] = on_request,
	[SWIM_IN_ANSWER] = pushpull_on_end,
	[SWIM_IN_FAILED] = pushpull_on_end,
	[SWIM_IN_JOIN] = pushpull_join,
	[SWIM_IN_LEAVE] = leave_start,
	[SWIM_IN_FORCE_LEAVE] = leave_force,
	[SWIM_IN_META] = swim_change_meta,
	[SWIM_IN_RESTORE] = serf_restore,
	[SWIM_IN_FIRE] = event_fire,
	[SWIM_IN_QUERY] = ask_query,
	[SWIM_IN_RESPOND] = query_respond,
};

enum tv_err
swim_feed(struct swim *s, const struct swim_input *in, const struct swim_output **out)
{
	struct mono promised = s->out.view.deadline;
	enum tv_err err;

	TV_ASSERT((unsigned)in->type < SWIM_INS);
	out_begin(s);
	advance(s, in->now, promised);
	err = input_handlers[in->type](s, in);
	run_timers(s);
	leave_check(s);
	run_timers(s);
	s->out.view.sends = s->out.sends;
	s->out.view.streams = s->out.streams;
	s->out.view.events = s->out.events;
	s->out.view.user_events = s->out.user_events;
	s->out.view.queries = s->out.queries;
	s->out.view.responses = s->out.responses;
	s->out.view.joins = s->out.joins;
	s->out.view.notices = s->out.notices;
	s->out.view.deadline = next_deadline(s);
	*out = &s->out.view;
	return err;
}

/* -- what SWIM asks of Serf ------------------------------------------------------- */

static const struct swim_delegate serf = {
	.join = serf_node_join, .leave = serf_node_leave, .update = serf_node_update, .message = serf_message,
	.state_write = serf_state_write, .state_merge = serf_state_merge, .make_room = serf_make_room,
	.introduce = intent_send_join, .name_claimed = conflict_claimed,
	.moved = moved_claim, .acked = moved_on_ack, .echoed = moved_on_echo, .dropped = moved_forget,
};

/* -- life --------------------------------------------------------------------------- */

static bool
options_ok(const struct swim_options *o)
{
	const struct swim_timing *t = &o->timing;

	return swim_name_ok(o->name) && (o->self.len == 4 || o->self.len == 16) && o->self.port != 0 &&
	    o->meta.len <= NODE_META_BYTES_MAX && o->members_max > 0 && o->queue_max > 0 &&
	    o->event_bytes <= SERF_EVENT_BYTES_MAX && o->packet_bytes >= 512 &&
	    t->probe_interval.ns > 0 && t->probe_timeout.ns > 0 && t->gossip_interval.ns > 0 &&
	    t->pushpull_interval.ns > 0 && t->reap_interval.ns > 0 && t->reconnect_interval.ns > 0 &&
	    t->suspicion_mult > 0 && t->suspicion_max_mult > 0 &&
	    t->retransmit_mult > 0 && t->suspicion_mult <= 64 && t->retransmit_mult <= 64;
}

/* The two texts that outlive the caller's options, in one block. */
static enum tv_err
copy_texts(struct swim *s)
{
	struct span name = s->opt.name, dc = s->opt.dc;

	s->own = malloc(name.len + dc.len);
	if (s->own == NULL)
		return TV_ENOMEM;
	memcpy(s->own, name.p, name.len);
	if (dc.len > 0)
		memcpy(s->own + name.len, dc.p, dc.len);
	s->opt.name.p = s->own;
	s->opt.dc.p = s->own + name.len;
	return TV_OK;
}

/*
 * Above that of an earlier life, so that others believe us at once.  One that no member reaches by its own
 * refutations is not believed to be ours: it is taken up again when a member holds it against us.
 */
static uint32_t
first_incarnation(const struct swim *s)
{
	return s->opt.clocks.incarnation < INCARNATION_FREE ? s->opt.clocks.incarnation + 1 : 1;
}

static enum tv_err
start_table(struct swim *s)
{
	const struct swim_options *o = &s->opt;
	uint8_t key[INTERN_KEY_BYTES];
	enum tv_err err;

	for (size_t i = 0; i < sizeof(key); i++)
		key[i] = (uint8_t)rng_u64(&s->rng);
	err = table_init(&s->table, o->store, key, o->members_max);
	if (err != TV_OK)
		return err;
	for (int q = 0; q < QUEUES; q++)
		bqueue_init(&s->queues[q], q == QUEUE_MEMBER ? o->members_max : o->queue_max, s->table.store);
	return TV_OK;
}

static enum tv_err
add_self(struct swim *s)
{
	struct node *n;

	if (table_add(&s->table, s->opt.name, s->opt.meta, &s->opt.self, own_vsn, &n) != TV_OK)
		return TV_ENOMEM;
	table_list(&s->table, n, &s->rng);
	s->self = n;
	n->incarnation = s->incarnation = first_incarnation(s);
	node_move(n, NODE_ALIVE, s->now);
	serf_set_status(s, n, MEMBER_ALIVE);
	swim_announce(s);
	return serf_meta_is_ours(s->opt.meta) ? twins_claim(&s->twins, &s->table, n) : TV_OK;
}

/* Periodic work starts at a random point of its period, so that pools do not beat in step. */
static void
start_timers(struct swim *s)
{
	const struct swim_timing *t = &s->opt.timing;
	struct mono probe = { (int64_t)rng_below(&s->rng, (uint64_t)t->probe_interval.ns) };
	struct mono pushpull = { (int64_t)rng_below(&s->rng, (uint64_t)t->pushpull_interval.ns) };

	for (int i = 0; i < TIMERS; i++)
		s->timers[i] = MONO_NEVER;
	timer_set(s, TIMER_PROBE, mono_add(s->now, probe));
	timer_set(s, TIMER_PUSHPULL, mono_add(s->now, pushpull));
	timer_set(s, TIMER_REAP, mono_add(s->now, t->reap_interval));
	timer_set(s, TIMER_RECONNECT, mono_add(s->now, t->reconnect_interval));
}

/* Clocks start at 0 and tick once; what the snapshot knew lies behind us. */
static void
start_clocks(struct swim *s)
{
	s->clock.time = s->event_clock.time = s->query_clock.time = 1;
	lamport_witness(&s->clock, s->opt.clocks.clock);
	lamport_witness(&s->event_clock, s->opt.clocks.event_clock);
	lamport_witness(&s->query_clock, s->opt.clocks.query_clock);
	s->events.ring = (struct ring){ .count_max = EVENT_MARKS_MAX,
		.floor = s->opt.clocks.event_clock > 0 ? s->event_clock.time : 0 };
	s->queries.ring = (struct ring){ .count_max = QUERY_MARKS_MAX,
		.floor = s->opt.clocks.query_clock > 0 ? s->query_clock.time : 0 };
}

struct swim *
swim_new(const struct swim_options *opt, struct mono now)
{
	struct swim *s;

	if (!options_ok(opt))
		return NULL;
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return NULL;
	s->opt = *opt;
	s->now = now;
	s->serf = &serf;
	s->out.view.deadline = MONO_NEVER;
	rng_seed(&s->rng, opt->seed);
	buf_init(&s->scratch, SCRATCH_BYTES_MAX);
	buf_init(&s->payload, PAYLOAD_BYTES_MAX);
	coord_init(&s->coord);
	s->intents.count_max = opt->intents_max;
	start_timers(s);
	start_clocks(s);
	if (copy_texts(s) != TV_OK || start_table(s) != TV_OK || add_self(s) != TV_OK) {
		swim_free(s);
		return NULL;
	}
	return s;
}

void
swim_free(struct swim *s)
{
	if (s == NULL)
		return;
	for (int q = 0; q < QUEUES; q++)
		bqueue_done(&s->queues[q]);
	twins_done(&s->twins);
	table_done(&s->table);
	intents_done(&s->intents);
	relay_done(s);
	accuser_credit_done(s);
	moved_forget(s, NULL);
	pushpull_done(s);
	event_done(s);
	query_done(s);
	ask_done(s);
	out_done(s);
	buf_done(&s->scratch);
	buf_done(&s->payload);
	free(s->own);
	free(s);
}

/* -- questions --------------------------------------------------------------------- */

struct span
swim_name(const struct swim *s)
{
	return s->opt.name;
}

bool
swim_member_next(const struct swim *s, uint32_t *cursor, struct swim_member *out)
{
	while (*cursor < s->table.all_count) {
		const struct node *n = s->table.all[(*cursor)++];

		if (n->status != MEMBER_NONE) {
			*out = node_view(n);
			return true;
		}
	}
	return false;
}

bool
swim_member_find(const struct swim *s, struct span name, struct swim_member *out)
{
	const struct node *n = table_find(&s->table, name);

	if (n == NULL || n->status == MEMBER_NONE)
		return false;
	*out = node_view(n);
	return true;
}

bool
swim_state_of(const struct swim *s, struct span name, enum node_state *state, uint32_t *incarnation)
{
	const struct node *n = table_find(&s->table, name);

	if (n == NULL || !node_listed(&s->table, n))
		return false;
	*state = n->state;
	*incarnation = n->incarnation;
	return true;
}

void
swim_stats(const struct swim *s, struct swim_stats *out)
{
	*out = s->stats;
	out->known = s->table.order_count;
	out->alive = s->status_count[MEMBER_ALIVE];
	out->leaving = s->status_count[MEMBER_LEAVING];
	out->left = s->status_count[MEMBER_LEFT];
	out->failed = s->status_count[MEMBER_FAILED];
	out->members = out->alive + out->leaving + out->left + out->failed;
	out->health = s->health;
	out->incarnation = s->incarnation;
	out->coord_resets = s->coord.resets;
	out->clock = s->clock.time;
	out->event_clock = s->event_clock.time;
	out->query_clock = s->query_clock.time;
	out->member_queue = s->queues[QUEUE_MEMBER].count;
	out->intent_queue = s->queues[QUEUE_INTENT].count;
	out->query_queue = s->queues[QUEUE_QUERY].count;
	out->event_queue = s->queues[QUEUE_EVENT].count;
	out->events_kept = s->events.count;
	out->events_kept_bytes = (uint32_t)s->events.bytes;
	out->queries_open = s->queries.asked_count;
	out->queries_waiting = s->queries.heard_count;
	for (int q = 0; q < QUEUES; q++)
		out->queue_dropped += s->queues[q].dropped;
}

void
swim_clocks(const struct swim *s, struct swim_clocks *out)
{
	*out = (struct swim_clocks){ .clock = s->clock.time - 1, .event_clock = s->event_clock.time - 1,
		.query_clock = s->query_clock.time - 1, .incarnation = s->incarnation };
}
