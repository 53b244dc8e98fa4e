/*
 * Full exchanges over streams: joining, periodic anti-entropy, reconnecting.  A state
 * that breaks the version rules, or shows members of another datacenter, is refused whole.
 * Source: doc/wire.md, "TCP streams" and "push/pull node merge".
 */
#include "config.h"

#include <stdlib.h>

#include "gossipd/core/state.h"
#include "gossipd/core/swim/scale.h"

#define HURRIED_EXCHANGES 4	/* early ones after a join, at most */
#define HURRIED_INTERVALS 2	/* for how long after it */
#define STATE_BYTES_MAX (20u << 20)	/* of a message; what peers accept */

uint64_t
exchange_start(struct swim *s, enum swim_stream_kind kind, const struct addr *to, struct mono deadline,
    struct span message)
{
	struct exchange *x;

	if (s->exchange_count >= SWIM_STREAMS_MAX || message.len == 0)
		return 0;
	x = calloc(1, sizeof(*x));
	if (x == NULL) {
		s->stats.no_memory++;
		return 0;
	}
	*x = (struct exchange){ .next = s->exchanges, .id = ++s->next_id, .kind = kind, .to = *to,
		.deadline = deadline };
	s->exchanges = x;
	s->exchange_count++;
	out_stream(s, x->id, kind, to, deadline, message);
	return x->id;
}

/* Members whose version is not known are not passed on: their entry would spoil the whole exchange for others. */
static bool
told(const struct node *n)
{
	return node_vsn(n)[VSN_PMAX] != 0;
}

static void
put_node(struct buf *b, const struct node *n)
{
	const struct addr *addr = node_addr(n);
	struct wire_node m = { .name = node_name(n), .addr = span_of(addr->ip, addr->len), .port = addr->port,
		.meta = node_meta(n), .incarnation = n->incarnation, .state = n->state,
		.vsn = span_of(node_vsn(n), WIRE_VSN_BYTES) };

	wire_put_node(b, &m);
}

/* Our whole state as one message; buf_done() it. */
static struct buf
own_state(struct swim *s, bool joining)
{
	struct buf b = BUF_INIT(STATE_BYTES_MAX), serf = BUF_INIT(STATE_BYTES_MAX);
	struct wire_pp_header head = { .join = joining };

	s->serf->state_write(s, &serf);
	for (uint32_t i = 0; i < s->table.order_count; i++)
		head.nodes += told(s->table.all[i]);
	head.user_state_len = (uint32_t)serf.len;
	wire_put_pp_header(&b, &head);
	for (uint32_t i = 0; i < s->table.order_count; i++)
		if (told(s->table.all[i]))
			put_node(&b, s->table.all[i]);
	buf_putspan(&b, buf_span(&serf));
	if (b.failed || serf.failed) {
		s->stats.no_memory++;
		b.len = 0;
	}
	buf_done(&serf);
	return b;
}

enum tv_err
pushpull_start(struct swim *s, const struct addr *to, bool joining, uint64_t join)
{
	struct buf b = own_state(s, joining);
	uint64_t id = exchange_start(s, SWIM_STREAM_PUSHPULL, to, mono_add(s->now, s->opt.timing.stream_timeout),
	    buf_span(&b));

	buf_done(&b);
	if (id == 0)
		return TV_ELIMIT;
	s->exchanges->join = join;
	return TV_OK;
}

static bool
is_partner(const struct swim *s, const struct node *n)
{
	return n != s->self && n->state == NODE_ALIVE;
}

/* A time of the first intervals after a join: not all newcomers at once. */
static struct mono
early(struct swim *s)
{
	int64_t part = s->opt.timing.pushpull_interval.ns / 4;

	return mono_add(s->now, (struct mono){ part + (int64_t)rng_below(&s->rng, (uint64_t)part) });
}

static void
note_joined(struct swim *s)
{
	s->hurry = HURRIED_EXCHANGES;
	s->hurry_end = mono_add(s->now, mono_mul(s->opt.timing.pushpull_interval, HURRIED_INTERVALS));
}

/*
 * While many join at once, a newcomer misses some of those that were being announced as it came: they are not yet in
 * the answer that it got, and their gossip ends before others know the newcomer.  In a big pool the next exchange is
 * minutes away.  So a newcomer that learns of others has its first exchanges early, one more while they teach it
 * anything.
 */
void
pushpull_news(struct swim *s)
{
	struct mono base = s->opt.timing.pushpull_interval;

	if (s->hushed || s->hurry == 0 || !mono_before(s->now, s->hurry_end) ||
	    !mono_before(base, scale_pushpull(base, s->table.order_count)) ||
	    mono_before(s->timers[TIMER_PUSHPULL], mono_add(s->now, (struct mono){ base.ns / 2 })))
		return;
	timer_pull(s, TIMER_PUSHPULL, early(s));
	s->hurry--;
}

void
pushpull_tick(struct swim *s)
{
	struct mono interval = scale_pushpull(s->opt.timing.pushpull_interval, s->table.order_count);
	struct node *n;

	timer_set(s, TIMER_PUSHPULL, mono_add(s->now, interval));
	if (!leave_begun(s) && swim_pick(s, 1, is_partner, &n) == 1)
		(void)pushpull_start(s, node_addr(n), false, 0);	/* too busy: next time */
}

/* -- merge ------------------------------------------------------------------ */

/* What all alive members can speak, and what the members speak. */
struct versions {
	uint8_t pmin, pmax, dmin, dmax;
	uint8_t pcur_min, pcur_max, dcur_min, dcur_max;
};

static inline void
lower(uint8_t *a, uint8_t b)
{
	*a = b < *a ? b : *a;
}

static inline void
raise(uint8_t *a, uint8_t b)
{
	*a = b > *a ? b : *a;
}

static void
add_versions(struct versions *v, const uint8_t vsn[WIRE_VSN_BYTES], bool alive)
{
	lower(&v->pcur_min, vsn[VSN_PCUR]);
	raise(&v->pcur_max, vsn[VSN_PCUR]);
	lower(&v->dcur_min, vsn[VSN_DCUR]);
	raise(&v->dcur_max, vsn[VSN_DCUR]);
	if (!alive)
		return;
	raise(&v->pmin, vsn[VSN_PMIN]);
	lower(&v->pmax, vsn[VSN_PMAX]);
	raise(&v->dmin, vsn[VSN_DMIN]);
	lower(&v->dmax, vsn[VSN_DMAX]);
}

/* Does each speak what all alive ones understand? */
static bool
versions_fit(const struct versions *v)
{
	return v->pcur_min >= v->pmin && v->pcur_max <= v->pmax && v->dcur_min >= v->dmin && v->dcur_max <= v->dmax;
}

/* Why the state cannot be merged, or NULL.  *foreign: a member of another datacenter; without a name: none. */
static const char *
refusal(struct swim *s, const struct stream_message *m, struct wire_node *foreign)
{
	struct versions v = { .pmax = UINT8_MAX, .dmax = UINT8_MAX, .pcur_min = UINT8_MAX, .dcur_min = UINT8_MAX };
	struct wire_node_iter it = wire_nodes(m->nodes, m->header.nodes);
	struct wire_node n;
	uint8_t vsn[WIRE_VSN_BYTES];
	enum tv_err err;

	*foreign = (struct wire_node){ .state = WIRE_STATE_ALIVE };
	while ((err = wire_node_next(&it, &s->out.arena, &n)) != TV_EOF) {
		if (err != TV_OK)
			continue;	/* not a node: passed over here and when merging */
		wire_vsn_copy(n.vsn, vsn);
		add_versions(&v, vsn, n.state == WIRE_STATE_ALIVE && n.vsn.len >= WIRE_VSN_BYTES);
		if (foreign->name.len == 0 && n.state == WIRE_STATE_ALIVE && !swim_dc_ok(s, n.meta))
			*foreign = n;
	}
	for (uint32_t i = 0; i < s->table.order_count; i++)
		if (told(s->table.all[i]))
			add_versions(&v, node_vsn(s->table.all[i]), s->table.all[i]->state == NODE_ALIVE);
	if (!versions_fit(&v))
		return "a member speaks no common protocol version";
	return foreign->name.len > 0 ? "it has members of another datacenter" : NULL;
}

static void
merge_node(struct swim *s, const struct wire_node *n)
{
	struct wire_alive alive = { .incarnation = n->incarnation, .node = n->name, .addr = n->addr, .port = n->port,
		.meta = n->meta, .vsn = n->vsn };
	struct wire_accuse accuse = { .incarnation = n->incarnation, .node = n->name, .from = s->opt.name };

	switch (n->state) {
	case WIRE_STATE_ALIVE:
		swim_alive(s, &alive);
		break;
	case WIRE_STATE_LEFT:
		accuse.from = n->name;
		swim_dead(s, &accuse);
		break;
	case WIRE_STATE_SUSPECT:
	case WIRE_STATE_DEAD:		/* a death is never taken over: the member may speak up */
		swim_suspect(s, &accuse);
		break;
	default:
		s->stats.bad_message++;
	}
}

static enum tv_err
merge(struct swim *s, const struct addr *from, const struct stream_message *m, bool ignore_old)
{
	struct wire_node_iter it = wire_nodes(m->nodes, m->header.nodes);
	struct wire_node n;
	const char *why = refusal(s, m, &n);
	enum tv_err err;

	if (why != NULL) {
		s->stats.refused_merges++;
		out_notice(s, &(struct swim_notice){ .type = SWIM_NOTICE_REFUSED, .addr = *from, .text = why,
		    .name = n.name, .other = swim_dc(n.meta), .dc = s->opt.dc, .number = s->peer_dialled });
		return TV_EPERM;
	}
	s->teller = table_hash(&s->table, span_of(from->ip, from->len));
	while ((err = wire_node_next(&it, &s->out.arena, &n)) != TV_EOF) {
		if (err == TV_OK)
			merge_node(s, &n);
		else
			s->stats.bad_message++;
	}
	s->teller = 0;
	if (m->user_state.len == 0)
		return TV_OK;
	s->peer = from;
	err = s->serf->state_merge(s, m->user_state, ignore_old);
	s->peer = NULL;
	return err;
}

/* A member that is alive lives there: what it tells us of is our own past too. */
static bool
is_fellow(const struct swim *s, const struct addr *addr)
{
	for (uint32_t i = 0; i < s->table.order_count; i++)
		if (s->table.all[i]->state == NODE_ALIVE && addr_eq(node_addr(s->table.all[i]), addr))
			return true;
	return false;
}

/*
 * What was fired before a join is not wanted.  Of the second address that answers, though, what it knows may have been
 * fired since the first one took us in.
 */
static bool
ignores_old(const struct swim *s, const struct exchange *x)
{
	const struct join_run *j = s->joins;

	while (j != NULL && j->id != x->join)
		j = j->next;
	return x->ignore_old && (j == NULL || j->contacted == 0 || !is_fellow(s, &x->to));
}

/*
 * A node that joins alone knows from the answer all members to pass it on to, and they know more: it learns in
 * silence.  Else a newcomer to 10,000 members would tell each of them twenty times of all the others.
 */
static enum tv_err
merge_answer(struct swim *s, const struct exchange *x, const struct stream_message *m)
{
	enum tv_err err;

	s->hushed = x->join != 0 && s->table.order_count == 1 && s->exchange_count == 0;
	s->peer_dialled = true;
	err = merge(s, &x->to, m, ignores_old(s, x));
	s->peer_dialled = false;
	s->hushed = false;
	return err;
}

/* -- streams of others --------------------------------------------------------- */

enum tv_err
pushpull_on_request(struct swim *s, const struct swim_input *in)
{
	const struct stream_message *m = in->message;
	struct buf state;

	switch (m->type) {
	case WIRE_PING:
		return probe_on_stream_ping(s, m->body);
	case WIRE_USER:
		return s->serf->message(s, &in->from, m->body);
	case WIRE_PUSH_PULL:
		state = own_state(s, m->header.join);
		out_answer(s, buf_span(&state));
		buf_done(&state);
		return merge(s, &in->from, m, false);
	default:
		return TV_EFORMAT;
	}
}

/* -- our own exchanges ------------------------------------------------------------ */

static void
join_finish(struct swim *s, struct join_run *j)
{
	struct join_run **at = &s->joins;

	if (j->pending > 0)
		return;
	while (*at != j)
		at = &(*at)->next;
	*at = j->next;
	out_join(s, j);
	if (j->contacted > 0 && !leave_begun(s))
		note_joined(s);
	/*
	 * A late copy of a prune that hit an earlier life makes others show us as leaving: only our own word ends that.
	 */
	if (j->contacted > 0 && (!j->quiet || !s->announced) && !leave_begun(s)) {
		s->announced = true;
		s->serf->introduce(s);
	}
	free(j);
}

static void
join_note(struct swim *s, uint64_t id, const struct addr *to, enum tv_err err)
{
	struct join_run *j = s->joins;

	while (j != NULL && j->id != id)
		j = j->next;
	if (j == NULL)
		return;
	j->pending--;
	if (err == TV_OK) {
		j->contacted++;
	} else {
		j->error = err;
		j->error_addr = *to;
	}
	join_finish(s, j);
}

static enum tv_err
exchange_result(struct swim *s, const struct exchange *x, const struct swim_input *in)
{
	struct wire_error e;

	if (in->type == SWIM_IN_FAILED)
		return in->error != TV_OK ? in->error : TV_ECLOSED;
	if (in->message->type == WIRE_PUSH_PULL)
		return merge_answer(s, x, in->message);
	if (in->message->type == WIRE_ERROR && wire_get_error(in->message->body, &s->out.arena, &e) == TV_OK) {
		out_notice(s, &(struct swim_notice){ .type = SWIM_NOTICE_REFUSED, .addr = x->to, .name = e.text,
			.text = "the peer says so", .number = 1 });
		return TV_EPERM;
	}
	return TV_EFORMAT;
}

static void
ping_ended(struct swim *s, const struct exchange *x, const struct swim_input *in)
{
	struct wire_ack ack;
	bool answered = in->type == SWIM_IN_ANSWER && in->message->type == WIRE_ACK &&
	    wire_get_ack(in->message->body, &s->out.arena, &ack) == TV_OK;

	probe_stream_end(s, x->id, answered && ack.seq == s->probe.seq);
	if (answered)
		s->serf->acked(s, ack.seq);
}

enum tv_err
pushpull_on_end(struct swim *s, const struct swim_input *in)
{
	struct exchange **at = &s->exchanges, *x;
	enum tv_err err;

	while (*at != NULL && (*at)->id != in->stream)
		at = &(*at)->next;
	if ((x = *at) == NULL)
		return TV_ENOENT;
	*at = x->next;
	s->exchange_count--;
	if (x->kind == SWIM_STREAM_PING) {
		ping_ended(s, x, in);
		free(x);
		return TV_OK;
	}
	err = exchange_result(s, x, in);
	if (x->join != 0)
		join_note(s, x->join, &x->to, err);
	else if (err != TV_OK)
		out_notice(s, &(struct swim_notice){ .type = SWIM_NOTICE_EXCHANGE_FAILED, .addr = x->to,
			.error = err });
	free(x);
	return TV_OK;
}

void
pushpull_expire(struct swim *s)
{
	struct mono late = mono_sub(s->now, mono_mul(s->opt.timing.stream_timeout, 2));
	struct exchange *x = s->exchanges;

	while (x != NULL) {
		struct exchange *next = x->next;

		if (mono_before(x->deadline, late))
			(void)pushpull_on_end(s, &(struct swim_input){ .type = SWIM_IN_FAILED, .stream = x->id,
				.error = TV_ETIMEOUT });
		x = next;
	}
}

/* Asks all addresses at once; our own counts as contacted without asking. */
enum tv_err
pushpull_join(struct swim *s, const struct swim_input *in)
{
	struct join_run *j;

	if (in->addr_count == 0 || in->addr_count > SWIM_JOIN_ADDRS_MAX)
		return TV_EINVAL;
	if (leave_begun(s))
		return TV_ECONFLICT;
	j = calloc(1, sizeof(*j));
	if (j == NULL)
		return TV_ENOMEM;
	*j = (struct join_run){ .next = s->joins, .id = ++s->next_id, .token = in->token, .asked = in->addr_count,
		.pending = 1, .quiet = in->quiet };
	s->joins = j;
	for (unsigned i = 0; i < in->addr_count; i++) {
		struct addr to = in->addrs[i];

		if (to.port == 0)
			to.port = s->opt.self.port;
		if (addr_eq(&to, &s->opt.self)) {
			j->contacted++;
		} else if (pushpull_start(s, &to, true, j->id) == TV_OK) {
			s->exchanges->ignore_old = !in->replay && !is_fellow(s, &to);
			j->pending++;
		} else {
			j->error = TV_ELIMIT;
			j->error_addr = to;
		}
	}
	j->pending--;		/* the one that kept it from ending while it began */
	join_finish(s, j);
	return TV_OK;
}

void
pushpull_done(struct swim *s)
{
	while (s->exchanges != NULL) {
		struct exchange *x = s->exchanges;

		s->exchanges = x->next;
		free(x);
	}
	while (s->joins != NULL) {
		struct join_run *j = s->joins;

		s->joins = j->next;
		free(j);
	}
}
