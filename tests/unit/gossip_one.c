/* One gossip core under test; see gossip_one.h. */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/gossip_one.h"

const uint8_t one_vsn[6] = { 1, 5, 2, 2, 5, 5 };

struct addr
one_addr(unsigned last)
{
	return (struct addr){ .ip = { 10, 0, 0, (uint8_t)last }, .len = 4, .port = 7946 };
}

void
one_init(struct one *o)
{
	*o = (struct one){ .now = MONO_S(100), .arena = ARENA_INIT(1 << 24), .state = BUF_INIT(1 << 24) };
	o->opt = (struct swim_options){ .name = span_str(SELF), .self = one_addr(1), .timing = *swim_preset("lan"),
		.members_max = 100, .intents_max = 10, .queue_max = 100, .relays_max = 4, .packet_bytes = PACKET_MTU,
		.tcp_pings = true, .coordinates = true, .seed = 1 };
}

void
one_start(struct one *o)
{
	o->s = swim_new(&o->opt, o->now);
	ck_assert_ptr_nonnull(o->s);
	(void)one_feed(o, (struct swim_input){ .type = SWIM_IN_TICK });
}

void
one_done(struct one *o)
{
	swim_free(o->s);
	arena_done(&o->arena);
	buf_done(&o->state);
}

enum tv_err
one_feed(struct one *o, struct swim_input in)
{
	in.now = o->now;
	return swim_feed(o->s, &in, &o->out);
}

enum tv_err
one_message(struct one *o, enum wire_type kind, struct span body)
{
	return one_feed(o, (struct swim_input){ .type = SWIM_IN_MESSAGE, .kind = kind, .bytes = body,
		.from = one_addr(200) });
}

bool
one_wait_for(struct one *o, struct mono span, bool (*found)(const struct one *o, void *arg), void *arg)
{
	struct mono until = mono_add(o->now, span);

	for (;;) {
		struct mono next = o->out->deadline;

		if (mono_before(until, next)) {
			o->now = until;
			return false;
		}
		o->now = next;
		(void)one_feed(o, (struct swim_input){ .type = SWIM_IN_TICK });
		if (found != NULL && found(o, arg))
			return true;
	}
}

void
one_wait(struct one *o, struct mono span)
{
	(void)one_wait_for(o, span, NULL, NULL);
}

/* Feeds what wire_put_X or serf_put_X wrote: the first byte is the type. */
static enum tv_err
feed_whole(struct one *o, struct buf *b)
{
	enum tv_err err = b->failed ? TV_ENOMEM : one_message(o, b->data[0], span_of(b->data + 1, b->len - 1));

	buf_done(b);
	return err;
}

enum tv_err
one_alive_at(struct one *o, const char *name, uint32_t incarnation, const struct addr *addr, struct span meta)
{
	struct buf b = BUF_INIT(4096);

	wire_put_alive(&b, &(struct wire_alive){ .incarnation = incarnation, .node = span_str(name),
	    .addr = span_of(addr->ip, addr->len), .port = addr->port, .meta = meta, .vsn = span_of(one_vsn, 6) });
	return feed_whole(o, &b);
}

enum tv_err
one_alive(struct one *o, const char *name, uint32_t incarnation)
{
	struct addr a = one_addr((uint8_t)name[strlen(name) - 1]);

	return one_alive_at(o, name, incarnation, &a, SPAN_NONE);
}

enum tv_err
one_suspect(struct one *o, const char *name, uint32_t incarnation, const char *from)
{
	struct buf b = BUF_INIT(4096);

	wire_put_suspect(&b, &(struct wire_accuse){ .incarnation = incarnation, .node = span_str(name),
	    .from = span_str(from) });
	return feed_whole(o, &b);
}

enum tv_err
one_dead(struct one *o, const char *name, uint32_t incarnation, const char *from)
{
	struct buf b = BUF_INIT(4096);

	wire_put_dead(&b, &(struct wire_accuse){ .incarnation = incarnation, .node = span_str(name),
	    .from = span_str(from) });
	return feed_whole(o, &b);
}

enum tv_err
one_serf(struct one *o, struct buf *b)
{
	enum tv_err err = one_message(o, WIRE_USER, buf_span(b));

	buf_done(b);
	return err;
}

enum tv_err
one_join_intent(struct one *o, const char *name, uint64_t ltime)
{
	struct buf b = BUF_INIT(4096);

	serf_put_join(&b, &(struct serf_join){ ltime, span_str(name) });
	return one_serf(o, &b);
}

enum tv_err
one_leave_intent(struct one *o, const char *name, uint64_t ltime, bool prune)
{
	struct buf b = BUF_INIT(4096);

	serf_put_leave(&b, &(struct serf_leave){ ltime, span_str(name), prune });
	return one_serf(o, &b);
}

enum tv_err
one_ping(struct one *o, uint32_t seq, const char *node)
{
	struct buf b = BUF_INIT(4096);

	wire_put_ping(&b, &(struct wire_ping){ .seq = seq, .node = span_str(node) });
	return feed_whole(o, &b);
}

enum tv_err
one_ack(struct one *o, uint32_t seq)
{
	struct buf b = BUF_INIT(4096);

	wire_put_ack(&b, &(struct wire_ack){ .seq = seq });
	return feed_whole(o, &b);
}

enum tv_err
one_nack(struct one *o, uint32_t seq)
{
	struct buf b = BUF_INIT(4096);

	wire_put_nack(&b, &(struct wire_nack){ .seq = seq });
	return feed_whole(o, &b);
}

enum tv_err
one_exchange(struct one *o, bool join, const struct wire_node *nodes, uint32_t count)
{
	return one_exchange_state(o, join, nodes, count, SPAN_NONE);
}

enum tv_err
one_exchange_state(struct one *o, bool join, const struct wire_node *nodes, uint32_t count, struct span serf)
{
	struct stream_message m = { .type = WIRE_PUSH_PULL, .header = { .join = join, .nodes = count },
		.user_state = serf };

	buf_reset(&o->state);
	for (uint32_t i = 0; i < count; i++)
		wire_put_node(&o->state, &nodes[i]);
	m.nodes = buf_span(&o->state);
	return one_feed(o, (struct swim_input){ .type = SWIM_IN_REQUEST, .message = &m, .from = one_addr(200) });
}

enum member_status
one_status(const struct one *o, const char *name)
{
	struct swim_member m;

	return swim_member_find(o->s, span_str(name), &m) ? m.status : MEMBER_NONE;
}

enum node_state
one_state(const struct one *o, const char *name)
{
	enum node_state state;
	uint32_t incarnation;

	return swim_state_of(o->s, span_str(name), &state, &incarnation) ? state : NODE_STATES;
}

uint32_t
one_incarnation(const struct one *o, const char *name)
{
	enum node_state state;
	uint32_t incarnation = 0;

	(void)swim_state_of(o->s, span_str(name), &state, &incarnation);
	return incarnation;
}

struct swim_stats
one_stats(const struct one *o)
{
	struct swim_stats stats;

	swim_stats(o->s, &stats);
	return stats;
}

int
one_event(const struct one *o)
{
	return o->out->event_count == 0 ? -1 : (int)o->out->events[o->out->event_count - 1].type;
}

bool
one_noticed(const struct one *o, enum swim_notice_type type)
{
	for (size_t i = 0; i < o->out->notice_count; i++)
		if (o->out->notices[i].type == type)
			return true;
	return false;
}

struct span
one_said(const struct one *o, enum wire_type type, struct addr *to)
{
	for (size_t i = 0; i < o->out->send_count; i++) {
		const struct swim_send *send = &o->out->sends[i];

		for (unsigned p = 0; p < send->part_count; p++) {
			if (send->parts[p].p[0] != type)
				continue;
			if (to != NULL)
				*to = send->to;
			return span_of(send->parts[p].p + 1, send->parts[p].len - 1);
		}
	}
	return SPAN_NONE;
}

struct span
one_said_serf(const struct one *o, enum serf_type type, struct addr *to)
{
	for (size_t i = 0; i < o->out->send_count; i++) {
		const struct swim_send *send = &o->out->sends[i];

		for (unsigned p = 0; p < send->part_count; p++) {
			if (send->parts[p].p[0] != WIRE_USER || send->parts[p].p[1] != type)
				continue;
			if (to != NULL)
				*to = send->to;
			return span_of(send->parts[p].p + 1, send->parts[p].len - 1);
		}
	}
	return SPAN_NONE;
}

struct counted {
	struct span message;
	unsigned count;
};

static bool
count_parts(const struct one *o, void *arg)
{
	struct counted *c = arg;

	for (size_t i = 0; i < o->out->send_count; i++)
		for (unsigned p = 0; p < o->out->sends[i].part_count; p++) {
			struct span part = o->out->sends[i].parts[p];

			c->count += part.p[0] == WIRE_USER && span_eq(span_of(part.p + 1, part.len - 1), c->message);
		}
	return false;
}

unsigned
one_count_spread(struct one *o, struct span message)
{
	struct counted c = { message, 0 };

	(void)count_parts(o, &c);
	(void)one_wait_for(o, MONO_S(1), count_parts, &c);
	return c.count;
}

struct wanted {
	enum wire_type type;
	enum serf_type serf;
	const char *name;
	struct arena *arena;
};

static bool
is_about(const struct wanted *w, struct span part)
{
	struct span body = span_of(part.p + 1, part.len - 1), name = SPAN_NONE;
	struct wire_alive alive;
	struct wire_accuse accuse;
	struct serf_join join;
	struct serf_leave leave;

	if (part.p[0] != w->type || (w->type == WIRE_USER && body.p[0] != w->serf))
		return false;
	if (w->type == WIRE_ALIVE && wire_get_alive(body, w->arena, &alive) == TV_OK)
		name = alive.node;
	else if ((w->type == WIRE_SUSPECT || w->type == WIRE_DEAD) && wire_get_accuse(body, w->arena, &accuse) == TV_OK)
		name = accuse.node;
	else if (w->type == WIRE_USER && w->serf == SERF_JOIN &&
	    serf_get_join(span_of(body.p + 1, body.len - 1), w->arena, &join) == TV_OK)
		name = join.node;
	else if (w->type == WIRE_USER && w->serf == SERF_LEAVE &&
	    serf_get_leave(span_of(body.p + 1, body.len - 1), w->arena, &leave) == TV_OK)
		name = leave.node;
	return span_eqs(name, w->name);
}

static bool
goes_out(const struct one *o, void *arg)
{
	for (size_t i = 0; i < o->out->send_count; i++)
		for (unsigned p = 0; p < o->out->sends[i].part_count; p++)
			if (is_about(arg, o->out->sends[i].parts[p]))
				return true;
	return false;
}

bool
one_spreads(struct one *o, enum wire_type type, const char *name)
{
	struct wanted w = { .type = type, .name = name, .arena = &o->arena };

	return goes_out(o, &w) || one_wait_for(o, MONO_S(1), goes_out, &w);
}

bool
one_spreads_intent(struct one *o, enum serf_type type, const char *name)
{
	struct wanted w = { .type = WIRE_USER, .serf = type, .name = name, .arena = &o->arena };

	return goes_out(o, &w) || one_wait_for(o, MONO_S(1), goes_out, &w);
}
