/* See gossip_describe.h. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/gossip_describe.h"

#define TAGS_MAX MEMBER_TAGS_MAX

/* Byte fields that came as arrays of integers; a test program is short. */
static struct arena arena = ARENA_INIT(1 << 20);

/* -- values ------------------------------------------------------------------- */

static json_t *
text(struct span s)
{
	return json_stringn(s.len > 0 ? (const char *)s.p : "", s.len);
}

static json_t *
bytes(struct span s)
{
	char *hex;
	json_t *j;

	if (s.p == NULL)
		return json_null();
	hex = malloc(4 + 2 * s.len + 1);
	memcpy(hex, "hex:", 5);
	for (size_t i = 0; i < s.len; i++)
		snprintf(hex + 4 + 2 * i, 3, "%02x", s.p[i]);
	j = json_string(hex);
	free(hex);
	return j;
}

static json_t *
number(uint64_t v)
{
	return json_integer((json_int_t)v);
}

static json_t *
names(struct span array)
{
	struct serf_list it = serf_list(array);
	struct span s;
	json_t *j;

	if (array.p == NULL)
		return json_null();
	j = json_array();
	while (serf_list_next(&it, &s) == TV_OK)
		json_array_append_new(j, text(s));
	return j;
}

/* An array written again by our own writers, as a loan that lives until the buffer is done. */
static struct span
rewrite_list(struct span array, struct buf *b)
{
	struct serf_list it = serf_list(array);
	struct span s;

	if (array.p == NULL)
		return SPAN_NONE;
	mpw_array(b, it.left);
	while (serf_list_next(&it, &s) == TV_OK)
		mpw_raw(b, s);
	return buf_span(b);
}

/* -- formats inside messages ----------------------------------------------------- */

json_t *
describe_tags(struct span meta, struct buf *again)
{
	struct serf_tags it = serf_meta_tags(meta);
	struct member_tag tags[TAGS_MAX];
	json_t *j = json_object();
	uint32_t n = 0;

	while (n < TAGS_MAX && serf_tags_next(&it, &tags[n].name, &tags[n].value) == TV_OK) {
		json_object_setn_new(j, (const char *)tags[n].name.p, tags[n].name.len, text(tags[n].value));
		n++;
	}
	if (serf_put_meta(again, tags, n) != TV_OK)
		again->failed = true;
	return j;
}

json_t *
describe_filter(struct span entry, struct buf *again)
{
	struct serf_filter f;

	if (serf_get_filter(entry, &arena, &f) != TV_OK)
		return NULL;
	serf_put_filter(again, &f);
	if (f.type == SERF_FILTER_NODE)
		return json_pack("{s:i,s:o}", "filter_type", 0, "value", names(f.nodes));
	return json_pack("{s:i,s:{s:o,s:o}}", "filter_type", 1, "value", "Expr", text(f.expr), "Tag", text(f.tag));
}

json_t *
describe_coord(struct span payload, struct buf *again)
{
	struct coordinate c;
	json_t *vec;

	if (serf_get_coord(payload, &c) != TV_OK)
		return NULL;
	vec = json_array();
	serf_put_coord(again, &c);
	for (unsigned i = 0; i < COORDINATE_DIMENSIONS; i++)
		json_array_append_new(vec, json_real(c.vec[i]));
	return json_pack("{s:i,s:o,s:f,s:f,s:f}", "version", SERF_COORD_VERSION, "Vec", vec, "Error", c.error,
	    "Adjustment", c.adjustment, "Height", c.height);
}

/* -- Serf -------------------------------------------------------------------------- */

static json_t *
leave(struct span body, struct buf *again)
{
	struct serf_leave m;

	if (serf_get_leave(body, &arena, &m) != TV_OK)
		return NULL;
	serf_put_leave(again, &m);
	return json_pack("{s:o,s:o,s:b}", "LTime", number(m.ltime), "Node", text(m.node), "Prune", m.prune);
}

static json_t *
join(struct span body, struct buf *again)
{
	struct serf_join m;

	if (serf_get_join(body, &arena, &m) != TV_OK)
		return NULL;
	serf_put_join(again, &m);
	return json_pack("{s:o,s:o}", "LTime", number(m.ltime), "Node", text(m.node));
}

static json_t *
items(struct span array, struct serf_event_item *out, uint32_t *count)
{
	struct serf_list it = serf_list(array);
	json_t *j = json_array();

	*count = 0;
	while (*count < 8 && serf_item_next(&it, &arena, &out[*count]) == TV_OK) {
		json_array_append_new(j, json_pack("{s:o,s:o}", "Name", text(out[*count].name), "Payload",
		    bytes(out[*count].payload)));
		(*count)++;
	}
	return j;
}

static json_t *
slots(const struct serf_state *m, struct buf *again)
{
	struct serf_list it = serf_list(m->events);
	struct serf_event_item item[8];
	struct serf_slot slot;
	json_t *filled = json_array();
	uint32_t length = it.left, done = 0, n;

	serf_state_begin(again, m->event_ltime, length);
	while (serf_slot_next(&it, &arena, &slot) == TV_OK) {
		uint32_t index = length - it.left - 1;

		json_array_append_new(filled, json_pack("{s:o,s:o,s:o}", "index", number(index), "LTime",
		    number(slot.ltime), "Events", items(slot.items, item, &n)));
		for (; done < index; done++)
			serf_state_nil(again);
		serf_state_slot(again, slot.ltime, item, n);
		done++;
	}
	for (; done < length; done++)
		serf_state_nil(again);
	return json_pack("{s:o,s:o}", "length", number(length), "non_nil", filled);
}

static json_t *
statuses(struct serf_status_iter it, uint64_t query_ltime, struct buf *again)
{
	json_t *j = json_object();
	struct span name;
	uint64_t ltime;

	serf_state_statuses(again, query_ltime, it.left);
	while (serf_status_next(&it, &name, &ltime) == TV_OK) {
		json_object_setn_new(j, (const char *)name.p, name.len, number(ltime));
		serf_state_status(again, name, ltime);
	}
	return j;
}

static json_t *
state(struct span body, struct buf *again)
{
	struct serf_state m;
	struct serf_list left;
	struct span name;
	json_t *events;

	if (serf_get_state(body, &arena, &m) != TV_OK)
		return NULL;
	events = slots(&m, again);
	left = serf_list(m.left_members);
	serf_state_left(again, m.ltime, left.left);
	while (serf_list_next(&left, &name) == TV_OK)
		mpw_raw(again, name);
	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "LTime", number(m.ltime), "EventLTime", number(m.event_ltime),
	    "QueryLTime", number(m.query_ltime), "LeftMembers", names(m.left_members), "Events", events,
	    "StatusLTimes", statuses(serf_statuses(m.status_ltimes), m.query_ltime, again));
}

static json_t *
user_event(struct span body, struct buf *again)
{
	struct serf_user_event m;

	if (serf_get_user_event(body, &arena, &m) != TV_OK)
		return NULL;
	serf_put_user_event(again, &m);
	return json_pack("{s:b,s:o,s:o,s:o}", "CC", m.cc, "LTime", number(m.ltime), "Name", text(m.name), "Payload",
	    bytes(m.payload));
}

static json_t *
filters(struct span array)
{
	struct serf_list it = serf_list(array);
	struct span s;
	json_t *j;

	if (array.p == NULL)
		return json_null();
	j = json_array();
	while (serf_list_next(&it, &s) == TV_OK)
		json_array_append_new(j, bytes(s));
	return j;
}

static json_t *
query(struct span body, struct buf *again)
{
	struct buf b = BUF_INIT(4096);
	struct serf_query m;
	json_t *j;

	if (serf_get_query(body, &arena, &m) != TV_OK)
		return NULL;
	j = json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "Addr", bytes(m.addr), "Filters",
	    filters(m.filters), "Flags", number(m.flags), "ID", number(m.id), "LTime", number(m.ltime), "Name",
	    text(m.name), "Payload", bytes(m.payload), "Port", number(m.port), "RelayFactor", number(m.relay_factor),
	    "SourceNode", text(m.source_node), "Timeout", json_integer(m.timeout_ns));
	m.filters = rewrite_list(m.filters, &b);
	serf_put_query(again, &m);
	buf_done(&b);
	return j;
}

static json_t *
query_response(struct span body, struct buf *again)
{
	struct serf_query_response m;

	if (serf_get_query_response(body, &arena, &m) != TV_OK)
		return NULL;
	serf_put_query_response(again, &m);
	return json_pack("{s:o,s:o,s:o,s:o,s:o}", "Flags", number(m.flags), "From", text(m.from), "ID", number(m.id),
	    "LTime", number(m.ltime), "Payload", bytes(m.payload));
}

/* A member's tags go through our own meta writer, less the magic byte. */
static json_t *
conflict(struct span body, struct buf *again)
{
	struct buf b = BUF_INIT(1024);
	struct serf_tags it;
	struct member_tag tags[TAGS_MAX];
	struct serf_member m;
	json_t *map = json_object(), *j;
	uint32_t n = 0;
	enum tv_err err = serf_get_conflict(body, &arena, &m);

	if (err != TV_OK) {
		json_decref(map);
		serf_put_conflict(again, NULL);
		return err == TV_ENOENT ? json_null() : NULL;
	}
	it = serf_map_tags(m.tags);
	while (n < TAGS_MAX && serf_tags_next(&it, &tags[n].name, &tags[n].value) == TV_OK) {
		json_object_setn_new(map, (const char *)tags[n].name.p, tags[n].name.len, text(tags[n].value));
		n++;
	}
	j = json_pack("{s:o,s:o,s:o,s:o,s:o,s:i,s:i,s:i,s:i,s:i,s:i}", "Addr", bytes(m.addr), "Name", text(m.name),
	    "Port", number(m.port), "Status", number(m.status), "Tags", map, "DelegateCur", m.dcur, "DelegateMax", m.dmax,
	    "DelegateMin", m.dmin, "ProtocolCur", m.pcur, "ProtocolMax", m.pmax, "ProtocolMin", m.pmin);
	if (serf_put_meta(&b, tags, n) == TV_OK)
		m.tags = span_of(b.data + 1, b.len - 1);
	serf_put_conflict(again, &m);
	buf_done(&b);
	return j;
}

static json_t *
key_request(struct span body, struct buf *again)
{
	struct serf_key_request m;

	if (serf_get_key_request(body, &arena, &m) != TV_OK)
		return NULL;
	serf_put_key_request(again, &m);
	return json_pack("{s:o}", "Key", bytes(m.key));
}

static json_t *
key_response(struct span body, struct buf *again)
{
	struct buf b = BUF_INIT(4096);
	struct serf_key_response m;
	json_t *j;

	if (serf_get_key_response(body, &arena, &m) != TV_OK)
		return NULL;
	j = json_pack("{s:o,s:o,s:o,s:b}", "Keys", names(m.keys), "Message", text(m.message), "PrimaryKey",
	    text(m.primary_key), "Result", m.result);
	m.keys = rewrite_list(m.keys, &b);
	serf_put_key_response(again, &m);
	buf_done(&b);
	return j;
}

static json_t *
relay(struct span body, struct buf *again)
{
	struct buf b = BUF_INIT(4096);
	struct serf_relay m;
	json_t *inner;

	if (serf_get_relay(body, &arena, &m) != TV_OK)
		return NULL;
	inner = describe_serf(m.inner, &b);
	if (inner == NULL) {
		buf_done(&b);
		return NULL;
	}
	m.inner = buf_span(&b);
	serf_put_relay(again, &m);
	buf_done(&b);
	return json_pack("{s:i,s:s,s:{s:{s:o,s:o,s:o},s:o},s:o}", "serf_type", SERF_RELAY, "serf_name", "relay", "header",
	    "DestAddr", "IP", bytes(m.ip), "Port", number(m.port), "Zone", text(m.zone), "DestName", text(m.dest_name),
	    "inner", inner);
}

json_t *
describe_serf(struct span message, struct buf *again)
{
	static const struct {
		const char *name;
		json_t *(*describe)(struct span, struct buf *);
	} kinds[] = {
		[SERF_LEAVE] = { "leave", leave }, [SERF_JOIN] = { "join", join }, [SERF_PUSH_PULL] = { "push_pull", state },
		[SERF_USER_EVENT] = { "user_event", user_event }, [SERF_QUERY] = { "query", query },
		[SERF_QUERY_RESPONSE] = { "query_response", query_response },
		[SERF_CONFLICT_RESPONSE] = { "conflict_response", conflict },
		[SERF_KEY_REQUEST] = { "key_request", key_request }, [SERF_KEY_RESPONSE] = { "key_response", key_response },
		[SERF_RELAY] = { "relay", relay },
	};
	json_t *fields;

	if (message.len == 0 || message.p[0] > SERF_RELAY)
		return NULL;
	fields = kinds[message.p[0]].describe(span_of(message.p + 1, message.len - 1), again);
	if (fields == NULL || message.p[0] == SERF_RELAY)
		return fields;
	return json_pack("{s:i,s:s,s:o}", "serf_type", message.p[0], "serf_name", kinds[message.p[0]].name, "fields", fields);
}

/* -- memberlist -------------------------------------------------------------------------- */

/* The source fields are shown when they are on the wire. */
static void
add_source(json_t *j, struct span addr, uint16_t port, struct span node)
{
	if (addr.len > 0)
		json_object_set_new(j, "SourceAddr", bytes(addr));
	if (port > 0)
		json_object_set_new(j, "SourcePort", number(port));
	if (node.len > 0)
		json_object_set_new(j, "SourceNode", text(node));
}

static json_t *
ping(struct span body, struct buf *again)
{
	struct wire_ping m;
	json_t *j;

	if (wire_get_ping(body, &arena, &m) != TV_OK)
		return NULL;
	wire_put_ping(again, &m);
	j = json_pack("{s:o,s:o}", "Node", text(m.node), "SeqNo", number(m.seq));
	add_source(j, m.source_addr, m.source_port, m.source_node);
	return j;
}

static json_t *
indirect(struct span body, struct buf *again)
{
	struct wire_indirect m;
	json_t *j;

	if (wire_get_indirect(body, &arena, &m) != TV_OK)
		return NULL;
	wire_put_indirect(again, &m);
	j = json_pack("{s:b,s:o,s:o,s:o,s:o}", "Nack", m.nack, "Node", text(m.node), "Port", number(m.port), "SeqNo",
	    number(m.seq), "Target", bytes(m.target));
	add_source(j, m.source_addr, m.source_port, m.source_node);
	return j;
}

static json_t *
ack(struct span body, struct buf *again)
{
	struct wire_ack m;

	if (wire_get_ack(body, &arena, &m) != TV_OK)
		return NULL;
	wire_put_ack(again, &m);
	return json_pack("{s:o,s:o}", "Payload", bytes(m.payload), "SeqNo", number(m.seq));
}

static json_t *
nack(struct span body, struct buf *again)
{
	struct wire_nack m;

	if (wire_get_nack(body, &arena, &m) != TV_OK)
		return NULL;
	wire_put_nack(again, &m);
	return json_pack("{s:o}", "SeqNo", number(m.seq));
}

static json_t *
error(struct span body, struct buf *again)
{
	struct wire_error m;

	if (wire_get_error(body, &arena, &m) != TV_OK)
		return NULL;
	wire_put_error(again, &m);
	return json_pack("{s:o}", "Error", text(m.text));
}

/* The meta once more, tag by tag. */
static void
add_tags(json_t *j, struct span meta)
{
	struct buf b = BUF_INIT(1024);

	if (meta.len > 0 && meta.p[0] == SERF_META_MAGIC) {
		json_object_set_new(j, "Meta_tags", describe_tags(meta, &b));
		if (!span_eq(buf_span(&b), meta))
			json_object_set_new(j, "tags differ when written again", json_true());
	}
	buf_done(&b);
}

static json_t *
alive(struct span body, struct buf *again)
{
	struct wire_alive m;
	json_t *j;

	if (wire_get_alive(body, &arena, &m) != TV_OK)
		return NULL;
	wire_put_alive(again, &m);
	j = json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "Addr", bytes(m.addr), "Incarnation", number(m.incarnation), "Meta",
	    bytes(m.meta), "Node", text(m.node), "Port", number(m.port), "Vsn", bytes(m.vsn));
	add_tags(j, m.meta);
	return j;
}

static json_t *
accuse(struct span body, struct wire_accuse *m)
{
	if (wire_get_accuse(body, &arena, m) != TV_OK)
		return NULL;
	return json_pack("{s:o,s:o,s:o}", "From", text(m->from), "Incarnation", number(m->incarnation), "Node",
	    text(m->node));
}

static json_t *
suspect(struct span body, struct buf *again)
{
	struct wire_accuse m;
	json_t *j = accuse(body, &m);

	wire_put_suspect(again, &m);
	return j;
}

static json_t *
dead(struct span body, struct buf *again)
{
	struct wire_accuse m;
	json_t *j = accuse(body, &m);

	wire_put_dead(again, &m);
	return j;
}

json_t *
describe_message(enum wire_type type, struct span body, struct buf *again)
{
	static const struct {
		const char *name;
		json_t *(*describe)(struct span, struct buf *);
	} kinds[] = {
		[WIRE_PING] = { "ping", ping }, [WIRE_INDIRECT_PING] = { "indirect_ping", indirect }, [WIRE_ACK] = { "ack", ack },
		[WIRE_SUSPECT] = { "suspect", suspect }, [WIRE_ALIVE] = { "alive", alive }, [WIRE_DEAD] = { "dead", dead },
		[WIRE_NACK] = { "nack", nack }, [WIRE_ERROR] = { "error", error },
	};
	struct buf b = BUF_INIT(1024);
	json_t *fields, *j;

	if (type == WIRE_USER) {
		buf_u8(again, WIRE_USER);
		fields = describe_serf(body, again);
		return fields == NULL ? NULL : json_pack("{s:i,s:s,s:o}", "type", type, "name", "user", "serf", fields);
	}
	if (type > WIRE_ERROR || kinds[type].describe == NULL)
		return NULL;
	fields = kinds[type].describe(body, again);
	if (fields == NULL)
		return NULL;
	j = json_pack("{s:i,s:s,s:o}", "type", type, "name", kinds[type].name, "fields", fields);
	if (type == WIRE_ACK) {
		struct wire_ack m;

		wire_get_ack(body, &arena, &m);
		fields = describe_coord(m.payload, &b);
		if (fields != NULL && span_eq(buf_span(&b), m.payload))
			json_object_set_new(j, "payload_coordinate", fields);
	}
	buf_done(&b);
	return j;
}

/* -- streams ------------------------------------------------------------------------------- */

static json_t *
node(struct wire_node_iter *it, struct buf *again)
{
	struct wire_node m;
	json_t *j;

	if (wire_node_next(it, &arena, &m) != TV_OK)
		return NULL;
	wire_put_node(again, &m);
	j = json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "Addr", bytes(m.addr), "Incarnation", number(m.incarnation),
	    "Meta", bytes(m.meta), "Name", text(m.name), "Port", number(m.port), "State", number(m.state), "Vsn",
	    bytes(m.vsn));
	add_tags(j, m.meta);
	return j;
}

static json_t *
push_pull(const struct stream_message *m, struct buf *again)
{
	struct wire_node_iter it = wire_nodes(m->nodes, m->header.nodes);
	json_t *list = json_array(), *one, *serf = NULL;

	wire_put_pp_header(again, &m->header);
	while ((one = node(&it, again)) != NULL)
		json_array_append_new(list, one);
	if (m->user_state.len > 0)
		serf = describe_serf(m->user_state, again);
	return json_pack("{s:i,s:s,s:{s:b,s:o,s:o},s:o,s:o}", "type", WIRE_PUSH_PULL, "name", "push_pull", "header",
	    "Join", m->header.join, "Nodes", number(m->header.nodes), "UserStateLen", number(m->header.user_state_len),
	    "nodes", list, "user_state", serf != NULL ? serf : json_null());
}

json_t *
describe_stream(const struct stream_message *m, struct buf *again)
{
	struct buf b = BUF_INIT(1 << 20);
	json_t *j;

	if (m->type == WIRE_PUSH_PULL)
		return push_pull(m, again);
	if (m->type != WIRE_USER)
		return describe_message(m->type, m->body, again);
	j = json_pack("{s:i,s:s,s:{s:o},s:o}", "type", WIRE_USER, "name", "user", "header", "UserMsgLen",
	    number(m->body.len), "serf", describe_serf(m->body, &b));
	wire_put_user_stream(again, buf_span(&b));
	buf_done(&b);
	return j;
}
