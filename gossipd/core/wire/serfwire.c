/* Serf messages. */
#include "common/base/assert.h"
#include "gossipd/core/wire/serfwire.h"

/* The relay header: a destination address as Go's net.UDPAddr, and a name. */
FIELDS_LOCAL(relay_addr,
	(ADDR, ip, "IP", 0),
	(U64, port, "Port", 1),				/* an int there */
	(WIRE_NAME, zone, "Zone", 2))
FIELDS_LOCAL(relay_header,
	(OBJECT(relay_addr), addr, "DestAddr", 0),
	(WIRE_NAME, name, "DestName", 1))

FIELDS_LOCAL(filter_tag,
	(SERF_TEXT, expr, "Expr", 1),
	(SERF_TEXT, tag, "Tag", 0))

/* -- messages --------------------------------------------------------------- */

void
serf_put_relay(struct buf *b, const struct serf_relay *m)
{
	struct relay_header h = { { m->ip, m->port, m->zone }, m->dest_name };

	TV_ASSERT(m->inner.len > 0);
	fields_put(b, SERF_RELAY, &relay_header_table, &h);
	buf_putspan(b, m->inner);
}

void
serf_put_conflict(struct buf *b, const struct serf_member *m)
{
	buf_u8(b, SERF_CONFLICT_RESPONSE);
	if (m == NULL)
		mpw_nil(b);
	else
		fields_write(b, &serf_member_table, m);
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
	enum tv_err err = fields_get(body, &serf_query_table, a, m);

	if (err != TV_OK)
		return err;
	if (!filters_ok(m->filters))
		return TV_EFORMAT;
	return serf_query_needs_payload(m->name) && m->payload.len == 0 ? TV_EFORMAT : TV_OK;
}

enum tv_err
serf_get_relay(struct span body, struct arena *a, struct serf_relay *m)
{
	struct rd r = rd_span_over(body);
	struct relay_header h;
	enum tv_err err = fields_read(&r, &relay_header_table, a, &h);

	memset(m, 0, sizeof(*m));
	if (err != TV_OK)
		return err;
	m->inner = rd_rest(&r);
	if (h.addr.port > UINT16_MAX || m->inner.len == 0 || m->inner.p[0] == SERF_RELAY)
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
	return fields_read(&r, &serf_member_table, a, m);
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
	*entry = mpr_bytes_or_nil(&it->rd, SERF_EVENT_BYTES_MAX);
	if (it->rd.err == TV_OK)
		return TV_OK;
	it->left = 0;
	return TV_EFORMAT;
}

enum tv_err
serf_get_filter(struct span entry, struct arena *a, struct serf_filter *f)
{
	struct rd r = rd_span_over(entry);
	struct filter_tag t;
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
		fields_read(&r, &filter_tag_table, a, &t);
		f->tag = t.tag;
		f->expr = t.expr;
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
		fields_write(b, &filter_tag_table, &(struct filter_tag){ .tag = f->tag, .expr = f->expr });
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
