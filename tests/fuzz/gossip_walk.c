/* See gossip_walk.h. */
#include "config.h"

#include "common/base/assert.h"
#include "gossipd/core/wire/seal.h"
#include "tests/fuzz/gossip_walk.h"

#ifdef TV_SANITIZERS
extern const unsigned fuzz_share;
const unsigned fuzz_share = 6;		/* of the same runs that other builds do whole: they take minutes here */
#endif

#define OUT_BYTES_MAX (4u << 20)

/* One function per message: reads a body, writes it, reads what was written and writes that once more. */
#define WALK(name, type, get, put) \
static bool \
name(struct span body, struct arena *a, type *m) \
{ \
	struct buf first = BUF_INIT(OUT_BYTES_MAX), second = BUF_INIT(OUT_BYTES_MAX); \
	type again; \
	bool ok = get(body, a, m) == TV_OK; \
\
	if (ok) { \
		put(&first, m); \
		TV_ASSERT(!first.failed && first.len > 1); \
		TV_ASSERT(get(span_of(first.data + 1, first.len - 1), NULL, &again) == TV_OK); \
		put(&second, &again); \
		TV_ASSERT(span_eq(buf_span(&first), buf_span(&second))); \
	} \
	buf_done(&first); \
	buf_done(&second); \
	return ok; \
}

WALK(walk_ping, struct wire_ping, wire_get_ping, wire_put_ping)
WALK(walk_indirect, struct wire_indirect, wire_get_indirect, wire_put_indirect)
WALK(walk_ack, struct wire_ack, wire_get_ack, wire_put_ack)
WALK(walk_nack, struct wire_nack, wire_get_nack, wire_put_nack)
WALK(walk_error, struct wire_error, wire_get_error, wire_put_error)
WALK(walk_alive, struct wire_alive, wire_get_alive, wire_put_alive)
WALK(walk_suspect, struct wire_accuse, wire_get_accuse, wire_put_suspect)
WALK(walk_dead, struct wire_accuse, wire_get_accuse, wire_put_dead)
WALK(walk_leave, struct serf_leave, serf_get_leave, serf_put_leave)
WALK(walk_join, struct serf_join, serf_get_join, serf_put_join)
WALK(walk_event, struct serf_user_event, serf_get_user_event, serf_put_user_event)
WALK(walk_query, struct serf_query, serf_get_query, serf_put_query)
WALK(walk_response, struct serf_query_response, serf_get_query_response, serf_put_query_response)
WALK(walk_key_request, struct serf_key_request, serf_get_key_request, serf_put_key_request)
WALK(walk_key_response, struct serf_key_response, serf_get_key_response, serf_put_key_response)
WALK(walk_relay, struct serf_relay, serf_get_relay, serf_put_relay)
WALK(walk_conflict, struct serf_member, serf_get_conflict, serf_put_conflict)

/* Sums bytes, so that the sanitizer sees each span touched. */
static unsigned
touch(struct span s)
{
	volatile unsigned sum = 0;

	for (size_t i = 0; i < s.len; i++)
		sum += s.p[i];
	return sum;
}

static void
walk_list(struct span array)
{
	struct serf_list it = serf_list(array);
	struct span s;

	while (serf_list_next(&it, &s) == TV_OK)
		touch(s);
}

static void
walk_tags(struct serf_tags it)
{
	struct span name, value;

	while (serf_tags_next(&it, &name, &value) == TV_OK) {
		touch(name);
		touch(value);
	}
}

static void
walk_filters(struct span array)
{
	struct serf_list it = serf_list(array);
	struct serf_filter f;
	struct span s;

	while (serf_list_next(&it, &s) == TV_OK) {
		if (serf_get_filter(s, NULL, &f) != TV_OK)
			continue;
		walk_list(f.nodes);
		touch(f.tag);
		touch(f.expr);
	}
}

static void
walk_state(struct span body)
{
	struct serf_status_iter status;
	struct serf_list slots, items;
	struct serf_event_item item;
	struct serf_state m;
	struct serf_slot slot;
	struct span name;
	uint64_t ltime;

	if (serf_get_state(body, NULL, &m) != TV_OK)
		return;
	walk_list(m.left_members);
	status = serf_statuses(m.status_ltimes);
	while (serf_status_next(&status, &name, &ltime) == TV_OK)
		touch(name);
	slots = serf_list(m.events);
	while (serf_slot_next(&slots, NULL, &slot) == TV_OK) {
		items = serf_list(slot.items);
		while (serf_item_next(&items, NULL, &item) == TV_OK) {
			touch(item.name);
			touch(item.payload);
		}
	}
}

static void
walk_serf_in(struct span message, struct arena *a)
{
	struct span body;
	union {
		struct serf_leave leave;
		struct serf_join join;
		struct serf_user_event event;
		struct serf_query_response response;
		struct serf_key_request key_request;
	} m;
	struct serf_query query;
	struct serf_key_response keys;
	struct serf_member member;
	struct serf_relay relay;

	if (message.len == 0)
		return;
	body = span_of(message.p + 1, message.len - 1);
	switch (message.p[0]) {
	case SERF_LEAVE:
		walk_leave(body, a, &m.leave);
		break;
	case SERF_JOIN:
		walk_join(body, a, &m.join);
		break;
	case SERF_PUSH_PULL:
		walk_state(body);
		break;
	case SERF_USER_EVENT:
		walk_event(body, a, &m.event);
		break;
	case SERF_QUERY:
		if (walk_query(body, a, &query))
			walk_filters(query.filters);
		break;
	case SERF_QUERY_RESPONSE:
		walk_response(body, a, &m.response);
		break;
	case SERF_CONFLICT_RESPONSE:
		if (walk_conflict(body, a, &member))
			walk_tags(serf_map_tags(member.tags));
		break;
	case SERF_KEY_REQUEST:
		walk_key_request(body, a, &m.key_request);
		break;
	case SERF_KEY_RESPONSE:
		if (walk_key_response(body, a, &keys))
			walk_list(keys.keys);
		break;
	case SERF_RELAY:
		if (walk_relay(body, a, &relay))
			walk_serf_in(relay.inner, a);
		break;
	}
}

void
walk_serf(struct span message)
{
	struct arena a = ARENA_INIT(OUT_BYTES_MAX);

	walk_serf_in(message, &a);
	arena_done(&a);
}

static void
walk_meta(struct span meta)
{
	walk_tags(serf_meta_tags(meta));
	(void)serf_meta_ok(meta);
}

void
walk_node(const struct wire_node *n)
{
	uint8_t vsn[WIRE_VSN_BYTES];

	TV_ASSERT(wire_addr_ok(n->addr) && (n->vsn.len == 0 || n->vsn.len >= WIRE_VSN_BYTES));
	wire_vsn_copy(n->vsn, vsn);
	touch(n->name);
	walk_meta(n->meta);
}

static void
walk_message_in(enum wire_type type, struct span body, struct arena *a)
{
	struct wire_alive alive;
	struct coordinate coord;
	struct wire_ack ack;
	union {
		struct wire_ping ping;
		struct wire_indirect indirect;
		struct wire_nack nack;
		struct wire_error error;
		struct wire_accuse accuse;
	} m;

	switch (type) {
	case WIRE_PING:
		walk_ping(body, a, &m.ping);
		break;
	case WIRE_INDIRECT_PING:
		walk_indirect(body, a, &m.indirect);
		break;
	case WIRE_ACK:
		if (walk_ack(body, a, &ack))
			(void)serf_get_coord(ack.payload, &coord);
		break;
	case WIRE_SUSPECT:
		walk_suspect(body, a, &m.accuse);
		break;
	case WIRE_ALIVE:
		if (walk_alive(body, a, &alive))
			walk_meta(alive.meta);
		break;
	case WIRE_DEAD:
		walk_dead(body, a, &m.accuse);
		break;
	case WIRE_NACK:
		walk_nack(body, a, &m.nack);
		break;
	case WIRE_ERROR:
		walk_error(body, a, &m.error);
		break;
	case WIRE_USER:
		walk_serf_in(body, a);
		break;
	default:
		TV_ASSERT(false);
	}
}

void
walk_message(enum wire_type type, struct span body)
{
	struct arena a = ARENA_INIT(OUT_BYTES_MAX);

	walk_message_in(type, body, &a);
	arena_done(&a);
}

void
walk_test_keys(struct seal_ring *ring)
{
	uint8_t key[32];

	ring->count = 0;
	for (unsigned len = 32; len >= 16; len -= 8) {
		for (unsigned i = 0; i < len; i++)
			key[i] = (uint8_t)((len - 16) * 2 + i);		/* 20..3f, 10..27, 00..0f */
		seal_ring_add(ring, span_of(key, len));
	}
}
