/*
 * Failure detection: one probe per round, first directly, then through others and over a
 * stream, and the answers that we owe to the probes of others.
 * Source: doc/wire.md, "failure detection".
 */
#include "config.h"

#include <stdlib.h>

#include "gossipd/core/state.h"

#define CHECKS_MAX 16		/* others asked in one probe, whatever the configuration says */

static bool
probed(const struct swim *s, const struct node *n)
{
	return n != s->self && (n->state == NODE_ALIVE || n->state == NODE_SUSPECT);
}

static bool
may_help(const struct swim *s, const struct node *n)
{
	return n != s->self && n != s->probe.target && n->state == NODE_ALIVE;
}

/* Dead and left members beyond their time, then a new order: at the end of each pass. */
static void
turn_round(struct swim *s)
{
	struct mono keep = s->opt.timing.gossip_to_the_dead;

	for (uint32_t i = s->table.order_count; i > 0; i--) {
		struct node *n = s->table.all[i - 1];

		if (n != s->self && (n->state == NODE_DEAD || n->state == NODE_LEFT) &&
		    mono_before(mono_add(n->changed, keep), s->now))
			swim_forget(s, n);
	}
	table_shuffle(&s->table, &s->rng);
	s->probe.index = 0;
}

/* The next member to probe, or NULL after one full pass. */
static struct node *
next_target(struct swim *s)
{
	for (uint32_t checked = 0; checked <= s->table.order_count; checked++) {
		if (s->probe.index >= s->table.order_count)
			turn_round(s);
		struct node *n = s->table.all[s->probe.index++];
		if (probed(s, n))
			return n;
	}
	return NULL;
}

void
probe_put_ping(struct swim *s, uint32_t seq, struct span node)
{
	struct wire_ping m = { .seq = seq, .node = node, .source_addr = span_of(s->opt.self.ip, s->opt.self.len),
		.source_port = s->opt.self.port, .source_node = s->opt.name };

	buf_reset(&s->scratch);
	wire_put_ping(&s->scratch, &m);
}

/* A suspect is told what it is accused of in the same packet, so that it can refute at once. */
static void
ping_suspect(struct swim *s, struct node *n, uint32_t seq)
{
	struct wire_accuse m = { .incarnation = n->incarnation, .node = node_name(n), .from = s->opt.name };

	bfill_init(&s->fill, &s->out.arena, 0);
	probe_put_ping(s, seq, m.node);
	if (s->scratch.failed || !bfill_add(&s->fill, buf_span(&s->scratch)))
		return;
	buf_reset(&s->scratch);
	wire_put_suspect(&s->scratch, &m);
	if (s->scratch.failed || !bfill_add(&s->fill, buf_span(&s->scratch)))
		return;
	out_send_parts(s, node_addr(n), s->fill.parts, s->fill.count, node_vsn(n)[VSN_PMAX] >= 5);
}

void
probe_tick(struct swim *s)
{
	struct probe *p = &s->probe;
	struct mono interval = s->opt.timing.probe_interval;
	struct node *n;

	timer_set(s, TIMER_PROBE, mono_add(s->now, interval));
	if (p->phase != PROBE_IDLE || (n = next_target(s)) == NULL)
		return;		/* rounds that come while a probe runs are lost */
	p->phase = PROBE_DIRECT;
	p->target = n;
	p->seq = ++s->seq;
	p->sent = s->now;
	p->deadline = mono_add(s->now, local_health_scale(s, interval));
	p->asked = p->nacks = p->nacks_expected = 0;
	p->stream = 0;
	p->stream_ok = false;
	s->stats.probes++;
	if (n->state == NODE_SUSPECT && !(s->opt.without & SWIM_WITHOUT_BUDDY)) {
		ping_suspect(s, n, p->seq);
	} else {
		probe_put_ping(s, p->seq, node_name(n));
		gossip_send(s, node_addr(n), buf_span(&s->scratch), false);
	}
	timer_set(s, TIMER_PROBE_STEP, mono_min(mono_add(s->now, s->opt.timing.probe_timeout), p->deadline));
}

static void
probe_end(struct swim *s)
{
	s->probe.phase = PROBE_IDLE;
	s->probe.target = NULL;
	timer_set(s, TIMER_PROBE_STEP, MONO_NEVER);
}

void
probe_ask(struct swim *s, const struct node *helper, const struct addr *target, struct span name, uint32_t seq,
    bool nack)
{
	struct wire_indirect m = { .seq = seq, .target = span_of(target->ip, target->len), .port = target->port,
		.node = name, .nack = nack, .source_addr = span_of(s->opt.self.ip, s->opt.self.len),
		.source_port = s->opt.self.port, .source_node = s->opt.name };

	buf_reset(&s->scratch);
	wire_put_indirect(&s->scratch, &m);
	gossip_send(s, node_addr(helper), buf_span(&s->scratch), false);
}

static void
ask_others(struct swim *s)
{
	struct node *others[CHECKS_MAX], *n = s->probe.target;
	unsigned want = s->opt.timing.indirect_checks, count;

	count = swim_pick(s, want < CHECKS_MAX ? want : CHECKS_MAX, may_help, others);
	for (unsigned i = 0; i < count; i++) {
		bool nack = node_vsn(others[i])[VSN_PMAX] >= 4;

		probe_ask(s, others[i], node_addr(n), node_name(n), s->probe.seq, nack);
		s->probe.nacks_expected += nack;
		s->probe.asked++;
	}
}

static void
ask_stream(struct swim *s)
{
	struct node *n = s->probe.target;

	if (!s->opt.tcp_pings || node_vsn(n)[VSN_PMAX] < 3)
		return;
	probe_put_ping(s, s->probe.seq, node_name(n));
	s->probe.stream = exchange_start(s, SWIM_STREAM_PING, node_addr(n), s->probe.deadline, buf_span(&s->scratch));
}

/* No member answered.  Missing nacks say that it may be our own fault. */
static void
probe_fail(struct swim *s)
{
	struct probe *p = &s->probe;
	struct node *n = p->target;
	struct wire_accuse m = { .incarnation = n->incarnation, .node = node_name(n), .from = s->opt.name };

	s->stats.probes_failed++;
	if (p->nacks_expected > 0)
		local_health_add(s, (int)p->nacks_expected - (int)p->nacks);
	else
		local_health_add(s, 1);
	probe_end(s);
	if (n->state == NODE_ALIVE)
		out_notice(s, &(struct swim_notice){ .type = SWIM_NOTICE_SUSPECT, .name = m.node, .number = p->asked,
			.number2 = p->nacks, .text = p->stream != 0 ? "none over TCP" : "TCP not tried" });
	swim_suspect(s, &m);
}

void
probe_step(struct swim *s)
{
	struct probe *p = &s->probe;

	timer_set(s, TIMER_PROBE_STEP, MONO_NEVER);
	if (p->target == NULL || !probed(s, p->target)) {
		probe_end(s);
	} else if (p->phase == PROBE_DIRECT && mono_before(s->now, p->deadline)) {
		p->phase = PROBE_INDIRECT;
		timer_set(s, TIMER_PROBE_STEP, p->deadline);
		ask_others(s);
		ask_stream(s);
	} else if (p->stream_ok) {
		out_notice(s, &(struct swim_notice){ .type = SWIM_NOTICE_STREAM_ONLY, .name = node_name(p->target) });
		local_health_add(s, -1);
		probe_end(s);
	} else {
		probe_fail(s);
	}
}

void
probe_cancel(struct swim *s)
{
	if (s->probe.phase != PROBE_IDLE)
		probe_end(s);
}

void
probe_forget(struct swim *s, const struct node *n)
{
	if (s->probe.target == n)
		probe_end(s);
}

void
probe_stream_end(struct swim *s, uint64_t stream, bool answered)
{
	if (s->probe.phase == PROBE_INDIRECT && s->probe.stream == stream)
		s->probe.stream_ok = answered;
}

/* Where the answer to a ping goes: what it says, or where it came from. */
static struct addr
asker_of(struct span addr, uint16_t port, const struct addr *from)
{
	struct addr to = { .len = (uint8_t)addr.len, .port = port };

	if ((addr.len != 4 && addr.len != 16) || port == 0)
		return *from;
	memcpy(to.ip, addr.p, addr.len);
	return to;
}

enum tv_err
probe_on_ping(struct swim *s, const struct addr *from, struct span body)
{
	struct wire_ping m;
	enum tv_err err = wire_get_ping(body, &s->out.arena, &m);
	struct wire_ack ack;
	struct addr to;

	if (err != TV_OK || (m.node.len > 0 && !span_eq(m.node, s->opt.name)))
		return err;
	ack = (struct wire_ack){ .seq = m.seq, .payload = place_payload(s) };
	to = asker_of(m.source_addr, m.source_port, from);
	if (addr_eq(&to, &s->opt.self))
		s->serf->echoed(s, m.seq);
	buf_reset(&s->scratch);
	wire_put_ack(&s->scratch, &ack);
	gossip_send(s, &to, buf_span(&s->scratch), false);
	return TV_OK;
}

enum tv_err
probe_on_stream_ping(struct swim *s, struct span body)
{
	struct wire_ping m;
	enum tv_err err = wire_get_ping(body, &s->out.arena, &m);

	if (err != TV_OK || (m.node.len > 0 && !span_eq(m.node, s->opt.name)))
		return err;
	buf_reset(&s->scratch);
	wire_put_ack(&s->scratch, &(struct wire_ack){ .seq = m.seq });
	out_answer(s, buf_span(&s->scratch));
	return TV_OK;
}

/*
 * A nack must reach the asker before its own deadline, which with the usual timing is one
 * timeout after it asked us: hence 0.8 of it.  A later ack is still passed on.
 */
enum tv_err
probe_on_indirect(struct swim *s, const struct addr *from, struct span body)
{
	struct mono timeout = s->opt.timing.probe_timeout;
	struct wire_indirect m;
	enum tv_err err = wire_get_indirect(body, &s->out.arena, &m);
	struct addr to;
	struct relay *r;

	if (err != TV_OK)
		return err;
	if (m.target.len != 4 && m.target.len != 16)
		return TV_EFORMAT;
	if (s->relay_count >= s->opt.relays_max || (r = calloc(1, sizeof(*r))) == NULL) {
		s->stats.over_relays++;
		return TV_OK;
	}
	to = (struct addr){ .len = (uint8_t)m.target.len, .port = m.port != 0 ? m.port : s->opt.self.port };
	memcpy(to.ip, m.target.p, m.target.len);
	*r = (struct relay){ .next = s->relays, .seq = ++s->seq, .asker_seq = m.seq,
		.asker = asker_of(m.source_addr, m.source_port, from), .nack_at = MONO_NEVER,
		.end = mono_add(s->now, mono_mul(timeout, 2)) };
	if (m.nack)
		r->nack_at = mono_add(s->now, (struct mono){ timeout.ns / 10 * 8 });
	s->relays = r;
	s->relay_count++;
	timer_pull(s, TIMER_RELAY, mono_min(r->nack_at, r->end));
	probe_put_ping(s, r->seq, m.node);
	gossip_send(s, &to, buf_span(&s->scratch), false);
	return TV_OK;
}

void
relay_step(struct swim *s)
{
	struct relay **at = &s->relays;

	timer_set(s, TIMER_RELAY, MONO_NEVER);
	while (*at != NULL) {
		struct relay *r = *at;

		if (!mono_before(s->now, r->nack_at)) {
			buf_reset(&s->scratch);
			wire_put_nack(&s->scratch, &(struct wire_nack){ .seq = r->asker_seq });
			gossip_send(s, &r->asker, buf_span(&s->scratch), false);
			r->nack_at = MONO_NEVER;
		}
		if (mono_before(s->now, r->end)) {
			timer_pull(s, TIMER_RELAY, mono_min(r->nack_at, r->end));
			at = &r->next;
		} else {
			*at = r->next;
			s->relay_count--;
			free(r);
		}
	}
}

void
relay_done(struct swim *s)
{
	while (s->relays != NULL) {
		struct relay *r = s->relays;

		s->relays = r->next;
		free(r);
	}
	s->relay_count = 0;
}

/* An ack to a probe that we made for someone else goes on with the asker's number. */
static void
relay_ack(struct swim *s, uint32_t seq)
{
	struct relay **at = &s->relays, *r;

	while (*at != NULL && (*at)->seq != seq)
		at = &(*at)->next;
	if ((r = *at) == NULL)
		return;		/* late, or not ours */
	buf_reset(&s->scratch);
	wire_put_ack(&s->scratch, &(struct wire_ack){ .seq = r->asker_seq });
	gossip_send(s, &r->asker, buf_span(&s->scratch), false);
	*at = r->next;
	s->relay_count--;
	free(r);
}

enum tv_err
probe_on_ack(struct swim *s, const struct addr *from UNUSED, struct span body)
{
	struct wire_ack m;
	enum tv_err err = wire_get_ack(body, &s->out.arena, &m);

	if (err != TV_OK)
		return err;
	if (s->probe.phase == PROBE_IDLE || m.seq != s->probe.seq) {
		s->serf->acked(s, m.seq);
		relay_ack(s, m.seq);
		return TV_OK;
	}
	if (s->probe.phase == PROBE_DIRECT && s->probe.target != NULL)
		place_heard(s, s->probe.target, m.payload, mono_sub(s->now, s->probe.sent));
	local_health_add(s, -1);
	probe_end(s);
	return TV_OK;
}

enum tv_err
probe_on_nack(struct swim *s, const struct addr *from UNUSED, struct span body)
{
	struct wire_nack m;
	enum tv_err err = wire_get_nack(body, &s->out.arena, &m);

	if (err == TV_OK && s->probe.phase == PROBE_INDIRECT && m.seq == s->probe.seq &&
	    s->probe.nacks < s->probe.nacks_expected)
		s->probe.nacks++;
	return err;
}
