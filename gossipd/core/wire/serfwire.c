/* Serf messages. */
#include "common/base/assert.h"
#include "gossipd/core/wire/fields.h"
#include "gossipd/core/wire/serfwire.h"

#define NAME WIRE_NAME_BYTES_MAX
#define ADDR WIRE_ADDR_BYTES_MAX
#define TEXT 1024			/* message texts, key names */
#define BULK SERF_EVENT_BYTES_MAX	/* payloads: no message with a longer one may be sent */

static const struct field leave_fields[] = {
	F_UINT(struct serf_leave, "LTime", ltime, 0),
	F_STR(struct serf_leave, "Node", node, 1, NAME),
	F_BOOL(struct serf_leave, "Prune", prune, 2),
};
F_TABLE(leave, struct serf_leave);

static const struct field join_fields[] = {
	F_UINT(struct serf_join, "LTime", ltime, 0),
	F_STR(struct serf_join, "Node", node, 1, NAME),
};
F_TABLE(join, struct serf_join);

static const struct field user_event_fields[] = {
	F_BOOL(struct serf_user_event, "CC", cc, 3),
	F_UINT(struct serf_user_event, "LTime", ltime, 0),
	F_STR(struct serf_user_event, "Name", name, 1, BULK),
	F_BIN(struct serf_user_event, "Payload", payload, 2, BULK),
};
F_TABLE(user_event, struct serf_user_event);

static const struct field query_fields[] = {
	F_BIN(struct serf_query, "Addr", addr, 2, ADDR),
	F_LIST(struct serf_query, "Filters", filters, 5),
	F_UINT(struct serf_query, "Flags", flags, 6),
	F_UINT(struct serf_query, "ID", id, 1),
	F_UINT(struct serf_query, "LTime", ltime, 0),
	F_STR(struct serf_query, "Name", name, 9, BULK),
	F_BIN(struct serf_query, "Payload", payload, 10, BULK),
	F_UINT(struct serf_query, "Port", port, 3),
	F_UINT(struct serf_query, "RelayFactor", relay_factor, 7),
	F_STR(struct serf_query, "SourceNode", source_node, 4, NAME),
	F_INT(struct serf_query, "Timeout", timeout_ns, 8),
};
F_TABLE(query, struct serf_query);

static const struct field query_response_fields[] = {
	F_UINT(struct serf_query_response, "Flags", flags, 3),
	F_STR(struct serf_query_response, "From", from, 2, NAME),
	F_UINT(struct serf_query_response, "ID", id, 1),
	F_UINT(struct serf_query_response, "LTime", ltime, 0),
	F_BIN(struct serf_query_response, "Payload", payload, 4, BULK),
};
F_TABLE(query_response, struct serf_query_response);

static const struct field key_request_fields[] = {
	F_BIN(struct serf_key_request, "Key", key, 0, TEXT),
};
F_TABLE(key_request, struct serf_key_request);

static const struct field key_response_fields[] = {
	F_LIST(struct serf_key_response, "Keys", keys, 2),
	F_STR(struct serf_key_response, "Message", message, 1, TEXT),
	F_STR(struct serf_key_response, "PrimaryKey", primary_key, 3, TEXT),
	F_BOOL(struct serf_key_response, "Result", result, 0),
};
F_TABLE(key_response, struct serf_key_response);

static const struct field member_fields[] = {
	F_BIN(struct serf_member, "Addr", addr, 1, ADDR),
	F_UINT(struct serf_member, "DelegateCur", dcur, 10),
	F_UINT(struct serf_member, "DelegateMax", dmax, 9),
	F_UINT(struct serf_member, "DelegateMin", dmin, 8),
	F_STR(struct serf_member, "Name", name, 0, NAME),
	F_UINT(struct serf_member, "Port", port, 2),
	F_UINT(struct serf_member, "ProtocolCur", pcur, 7),
	F_UINT(struct serf_member, "ProtocolMax", pmax, 6),
	F_UINT(struct serf_member, "ProtocolMin", pmin, 5),
	F_UINT(struct serf_member, "Status", status, 4),
	F_DICT(struct serf_member, "Tags", tags, 3),
};
F_TABLE(member, struct serf_member);

/* The relay header: a destination address as Go's net.UDPAddr, and a name. */
struct relay_addr {
	struct span ip;
	uint64_t port;			/* an int there */
	struct span zone;
};

struct relay_header {
	struct relay_addr addr;
	struct span name;
};

static const struct field relay_addr_fields[] = {
	F_BIN(struct relay_addr, "IP", ip, 0, ADDR),
	F_UINT(struct relay_addr, "Port", port, 1),
	F_STR(struct relay_addr, "Zone", zone, 2, NAME),
};
F_TABLE(relay_addr, struct relay_addr);

static const struct field relay_header_fields[] = {
	F_OBJECT(struct relay_header, "DestAddr", addr, 0, relay_addr),
	F_STR(struct relay_header, "DestName", name, 1, NAME),
};
F_TABLE(relay_header, struct relay_header);

static const struct field filter_tag_fields[] = {
	F_STR(struct serf_filter, "Expr", expr, 1, TEXT),
	F_STR(struct serf_filter, "Tag", tag, 0, TEXT),
};
F_TABLE(filter_tag, struct serf_filter);

/* -- writers ---------------------------------------------------------------- */

static void
put(struct buf *b, enum serf_type type, const struct field_table *t, const void *m)
{
	buf_u8(b, (uint8_t)type);
	fields_write(b, t, m);
}

void
serf_put_leave(struct buf *b, const struct serf_leave *m)
{
	put(b, SERF_LEAVE, &leave, m);
}

void
serf_put_join(struct buf *b, const struct serf_join *m)
{
	put(b, SERF_JOIN, &join, m);
}

void
serf_put_user_event(struct buf *b, const struct serf_user_event *m)
{
	put(b, SERF_USER_EVENT, &user_event, m);
}

void
serf_put_query(struct buf *b, const struct serf_query *m)
{
	put(b, SERF_QUERY, &query, m);
}

void
serf_put_query_response(struct buf *b, const struct serf_query_response *m)
{
	put(b, SERF_QUERY_RESPONSE, &query_response, m);
}

void
serf_put_key_request(struct buf *b, const struct serf_key_request *m)
{
	put(b, SERF_KEY_REQUEST, &key_request, m);
}

void
serf_put_key_response(struct buf *b, const struct serf_key_response *m)
{
	put(b, SERF_KEY_RESPONSE, &key_response, m);
}

void
serf_put_relay(struct buf *b, const struct serf_relay *m)
{
	struct relay_header h = { { m->ip, m->port, m->zone }, m->dest_name };

	TV_ASSERT(m->inner.len > 0);
	put(b, SERF_RELAY, &relay_header, &h);
	buf_putspan(b, m->inner);
}

void
serf_put_conflict(struct buf *b, const struct serf_member *m)
{
	buf_u8(b, SERF_CONFLICT_RESPONSE);
	if (m == NULL)
		mpw_nil(b);
	else
		fields_write(b, &member, m);
}

/* -- readers ---------------------------------------------------------------- */

static enum tv_err
get(struct span body, const struct field_table *t, struct arena *a, void *m)
{
	struct rd r = rd_span_over(body);

	return fields_read(&r, t, a, m);
}

enum tv_err
serf_get_leave(struct span body, struct arena *a, struct serf_leave *m)
{
	return get(body, &leave, a, m);
}

enum tv_err
serf_get_join(struct span body, struct arena *a, struct serf_join *m)
{
	return get(body, &join, a, m);
}

enum tv_err
serf_get_user_event(struct span body, struct arena *a, struct serf_user_event *m)
{
	return get(body, &user_event, a, m);
}

static bool
filters_ok(struct span filters)
{
	struct serf_list it = serf_list(filters);
	struct span entry;
	enum tv_err err;

	while ((err = serf_list_next(&it, &entry)) == TV_OK)
		if (entry.len == 0)
			return false;
	return err == TV_EOF;
}

/* Peers crash on these three when they carry nothing. */
bool
serf_query_needs_payload(struct span name)
{
	return span_eqs(name, "_serf_install-key") || span_eqs(name, "_serf_use-key") ||
	    span_eqs(name, "_serf_remove-key");
}

enum tv_err
serf_get_query(struct span body, struct arena *a, struct serf_query *m)
{
	enum tv_err err = get(body, &query, a, m);

	if (err != TV_OK)
		return err;
	if (!wire_addr_ok(m->addr) || !filters_ok(m->filters))
		return TV_EFORMAT;
	return serf_query_needs_payload(m->name) && m->payload.len == 0 ? TV_EFORMAT : TV_OK;
}

enum tv_err
serf_get_query_response(struct span body, struct arena *a, struct serf_query_response *m)
{
	return get(body, &query_response, a, m);
}

enum tv_err
serf_get_key_request(struct span body, struct arena *a, struct serf_key_request *m)
{
	return get(body, &key_request, a, m);
}

enum tv_err
serf_get_key_response(struct span body, struct arena *a, struct serf_key_response *m)
{
	return get(body, &key_response, a, m);
}

enum tv_err
serf_get_relay(struct span body, struct arena *a, struct serf_relay *m)
{
	struct rd r = rd_span_over(body);
	struct relay_header h;
	enum tv_err err = fields_read(&r, &relay_header, a, &h);

	memset(m, 0, sizeof(*m));
	if (err != TV_OK)
		return err;
	m->inner = rd_rest(&r);
	if (!wire_addr_ok(h.addr.ip) || h.addr.port > UINT16_MAX || m->inner.len == 0 || m->inner.p[0] == SERF_RELAY)
		return TV_EFORMAT;
	m->ip = h.addr.ip;
	m->port = (uint16_t)h.addr.port;
	m->zone = h.addr.zone;
	m->dest_name = h.name;
	return TV_OK;
}

enum tv_err
serf_get_conflict(struct span body, struct arena *a, struct serf_member *m)
{
	struct rd r = rd_span_over(body);

	if (mpr_peek(&r) == MP_NIL) {
		memset(m, 0, sizeof(*m));
		return TV_ENOENT;
	}
	return fields_read(&r, &member, a, m);
}

/* -- lists and filters ---------------------------------------------------------- */

struct serf_list
serf_list(struct span array)
{
	struct serf_list it = { rd_span_over(array), 0 };

	if (array.len > 0 && !mpr_nil(&it.rd))
		it.left = mpr_array(&it.rd);
	return it;
}

enum tv_err
serf_list_next(struct serf_list *it, struct span *entry)
{
	if (it->left == 0)
		return it->rd.err == TV_OK ? TV_EOF : TV_EFORMAT;
	it->left--;
	*entry = mpr_bytes_or_nil(&it->rd, BULK);
	if (it->rd.err == TV_OK)
		return TV_OK;
	it->left = 0;
	return TV_EFORMAT;
}

enum tv_err
serf_get_filter(struct span entry, struct arena *a, struct serf_filter *f)
{
	struct rd r = rd_span_over(entry);
	uint8_t type = rd_u8(&r);

	memset(f, 0, sizeof(*f));
	if (r.err != TV_OK)
		return TV_EFORMAT;
	switch (type) {
	case SERF_FILTER_NODE:
		if (!mpr_nil(&r) && mpr_peek(&r) != MP_ARRAY)
			return TV_EFORMAT;
		f->nodes = rd_left(&r) == 0 ? SPAN_NONE : mpr_value(&r);
		break;
	case SERF_FILTER_TAG:
		fields_read(&r, &filter_tag, a, f);
		break;
	default:
		return TV_ENOENT;
	}
	f->type = (enum serf_filter_type)type;
	return r.err;
}

void
serf_put_filter(struct buf *b, const struct serf_filter *f)
{
	buf_u8(b, (uint8_t)f->type);
	if (f->type == SERF_FILTER_TAG)
		fields_write(b, &filter_tag, f);
	else if (f->nodes.p == NULL)
		mpw_array(b, 0);
	else
		buf_putspan(b, f->nodes);
}

bool
serf_meta_is_ours(struct span meta)
{
	struct serf_tags it = serf_meta_tags(meta);
	struct span name, value;
	bool id = false, role = false;

	while (serf_tags_next(&it, &name, &value) == TV_OK) {
		id = id || (span_eqs(name, "id") && value.len > 0);
		role = role || (span_eqs(name, "role") && (span_eqs(value, "server") || span_eqs(value, "client")));
	}
	return id && role;
}
