/*
 * Answers to queries: sending ours, by way of others too if that is wanted, and passing on those of others.
 *
 * A query names an address to answer to.  Answers go only to addresses of members, and no more than some
 * hundreds in a second: else one forged query would make the pool shoot at a victim.
 */
#include "config.h"

#include "gossipd/core/state.h"

#define RELAYS_MAX 8			/* members that pass one answer of ours on, whatever the query wants */
/* What is done for others: a cost out of a budget of time, and what may be spent at once. */
#define ANSWER_COST MONO_MS(2)		/* 500 in a second */
#define ANSWER_BURST MONO_S(2)
#define PASS_COST MONO_MS(4)		/* 250 in a second */
#define PASS_BURST MONO_S(2)
#define STRANGER_COST MONO_MS(200)	/* answers to an address of no member */
#define STRANGER_BURST MONO_S(4)

/* -- where answers go --------------------------------------------------------------- */

bool
answer_addr_same(const struct addr *a, const struct addr *b)
{
	return a->port == b->port && wire_addr_same(span_of(a->ip, a->len), span_of(b->ip, b->len));
}

/* A member at this address: the one of that name, or when no name is given, any. */
static bool
is_member_at(const struct swim *s, struct span name, const struct addr *a)
{
	const struct node *n;

	if (name.len > 0) {
		n = table_find(&s->table, name);
		return n != NULL && n->status != MEMBER_NONE && answer_addr_same(node_addr(n), a);
	}
	for (uint32_t i = 0; i < s->table.all_count; i++)
		if (s->table.all[i]->status != MEMBER_NONE && answer_addr_same(node_addr(s->table.all[i]), a))
			return true;
	return false;
}

struct addr
answer_addr(struct span ip, uint16_t port)
{
	struct addr a = { .len = (uint8_t)ip.len, .port = port };

	if (ip.len > 0)
		memcpy(a.ip, ip.p, ip.len);
	return a;
}

/* -- answering ------------------------------------------------------------------------- */

static bool
can_relay(const struct swim *s, const struct node *n)
{
	return n != s->self && n->status == MEMBER_ALIVE && n->state == NODE_ALIVE && node_vsn(n)[VSN_PMAX] >= 5;
}

/* The answer (as it lies in the scratch buffer behind the byte WIRE_USER) once more, by way of others. */
static void
send_relays(struct swim *s, const struct heard_query *q, struct span inner)
{
	unsigned want = q->relay_factor < RELAYS_MAX ? q->relay_factor : RELAYS_MAX;
	struct node *via[RELAYS_MAX + 1];
	struct serf_relay m = { .ip = span_of(q->to.ip, q->to.len), .port = q->to.port, .zone = span_str(""),
		.dest_name = span_of(q->source, q->source_len), .inner = inner };
	struct buf b = BUF_INIT(2 * SWIM_QUERY_BYTES_MAX);
	unsigned count, sent = 0;

	buf_u8(&b, WIRE_USER);
	serf_put_relay(&b, &m);
	if (want > 0 && !b.failed && b.len - 1 <= SWIM_QUERY_BYTES_MAX) {
		count = swim_pick(s, want + 1, can_relay, via);	/* one may be the asking node */
		for (unsigned i = 0; i < count && sent < want; i++) {
			if (answer_addr_same(node_addr(via[i]), &q->to))
				continue;
			out_send(s, node_addr(via[i]), buf_span(&b), false);
			sent++;
		}
	}
	s->stats.relays_sent += sent;
	buf_done(&b);
}

static bool
may_answer(struct swim *s, const struct heard_query *q, bool stranger)
{
	if (is_member_at(s, span_of(q->source, q->source_len), &q->to)) {
		if (swim_may(s, &s->queries.answer_at, ANSWER_COST, ANSWER_BURST))
			return true;
	} else if (stranger && q->to.len > 0 && q->to.port > 0 &&
	    swim_may(s, &s->queries.stranger_at, STRANGER_COST, STRANGER_BURST)) {
		return true;
	}
	s->stats.over_answers++;
	return false;
}

enum tv_err
answer_send(struct swim *s, const struct heard_query *q, uint32_t flags, struct span payload, bool stranger)
{
	struct serf_query_response m = { .ltime = q->ltime, .id = q->id, .from = s->opt.name, .flags = flags,
		.payload = payload };
	struct span message;

	s->out.secret = s->out.secret || (payload.len > 0 && payload.p[0] == SERF_KEY_RESPONSE);
	buf_reset(&s->scratch);
	buf_u8(&s->scratch, WIRE_USER);
	serf_put_query_response(&s->scratch, &m);
	if (s->scratch.failed)
		return TV_ENOMEM;
	message = buf_span(&s->scratch);
	if (message.len - 1 > SWIM_QUERY_BYTES_MAX)
		return TV_ELIMIT;
	if (q->ours) {
		ask_take(s, &m);
	} else if (may_answer(s, q, stranger)) {
		s->stats.queries_answered++;
		out_send(s, &q->to, message, false);
		send_relays(s, q, span_of(message.p + 1, message.len - 1));
	}
	return TV_OK;
}

/* -- answers of others --------------------------------------------------------------------------- */

/* Another asks us to send an answer on: only answers, only to members, and not too many. */
enum tv_err
answer_on_relay(struct swim *s, const struct addr *from, struct span message)
{
	struct serf_relay m;
	struct addr to;
	enum tv_err err;

	if (message.len > SERF_EVENT_BYTES_MAX)
		return TV_ELIMIT;
	err = serf_get_relay(span_of(message.p + 1, message.len - 1), &s->out.arena, &m);
	if (err != TV_OK)
		return err;
	if (m.inner.p[0] != SERF_QUERY_RESPONSE || m.ip.len == 0)
		return TV_EFORMAT;
	to = answer_addr(m.ip, m.port);
	if (answer_addr_same(&to, &s->opt.self) && (m.dest_name.len == 0 || span_eq(m.dest_name, s->opt.name)))
		return ask_on_response(s, from, m.inner);
	if (!is_member_at(s, m.dest_name, &to) || !swim_may(s, &s->queries.pass_at, PASS_COST, PASS_BURST)) {
		s->stats.over_passed++;
		return TV_OK;
	}
	buf_reset(&s->scratch);
	buf_u8(&s->scratch, WIRE_USER);
	buf_putspan(&s->scratch, m.inner);
	if (s->scratch.failed)
		return TV_ENOMEM;
	out_send(s, &to, buf_span(&s->scratch), false);
	s->stats.relays_passed++;
	return TV_OK;
}
