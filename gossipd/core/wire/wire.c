/* Memberlist messages. */
#include "common/base/addr.h"
#include "gossipd/core/wire/fields.h"
#include "gossipd/core/wire/wire.h"

/* The tables are sorted by key; the last number of a line is the place in the array form, then the longest value. */
#define NAME WIRE_NAME_BYTES_MAX
#define ADDR WIRE_ADDR_BYTES_MAX
#define VSN 64			/* longer than any known one, so that a later version is still read */
#define BULK (64u << 20)	/* bounded by the message */

/* The three source fields of pings are left out when empty. */
#define SOURCE(type, place) \
	F_BIN_OMIT(type, "SourceAddr", source_addr, place, ADDR), \
	F_STR_OMIT(type, "SourceNode", source_node, (place) + 2, NAME), \
	F_UINT_OMIT(type, "SourcePort", source_port, (place) + 1)

static const struct field ping_fields[] = {
	F_STR(struct wire_ping, "Node", node, 1, NAME),
	F_UINT(struct wire_ping, "SeqNo", seq, 0),
	SOURCE(struct wire_ping, 2),
};
F_TABLE(ping, struct wire_ping);

static const struct field indirect_fields[] = {
	F_BOOL(struct wire_indirect, "Nack", nack, 4),
	F_STR(struct wire_indirect, "Node", node, 3, NAME),
	F_UINT(struct wire_indirect, "Port", port, 2),
	F_UINT(struct wire_indirect, "SeqNo", seq, 0),
	SOURCE(struct wire_indirect, 5),
	F_BIN(struct wire_indirect, "Target", target, 1, ADDR),
};
F_TABLE(indirect, struct wire_indirect);

static const struct field ack_fields[] = {
	F_BIN(struct wire_ack, "Payload", payload, 1, WIRE_PAYLOAD_BYTES_MAX),
	F_UINT(struct wire_ack, "SeqNo", seq, 0),
};
F_TABLE(ack, struct wire_ack);

static const struct field nack_fields[] = {
	F_UINT(struct wire_nack, "SeqNo", seq, 0),
};
F_TABLE(nack, struct wire_nack);

static const struct field error_fields[] = {
	F_STR(struct wire_error, "Error", text, 0, WIRE_ERROR_BYTES_MAX),
};
F_TABLE(error, struct wire_error);

static const struct field alive_fields[] = {
	F_BIN(struct wire_alive, "Addr", addr, 2, ADDR),
	F_UINT(struct wire_alive, "Incarnation", incarnation, 0),
	F_BIN(struct wire_alive, "Meta", meta, 4, WIRE_META_BYTES_MAX),
	F_STR(struct wire_alive, "Node", node, 1, NAME),
	F_UINT(struct wire_alive, "Port", port, 3),
	F_BIN(struct wire_alive, "Vsn", vsn, 5, VSN),
};
F_TABLE(alive, struct wire_alive);

static const struct field accuse_fields[] = {
	F_STR(struct wire_accuse, "From", from, 2, NAME),
	F_UINT(struct wire_accuse, "Incarnation", incarnation, 0),
	F_STR(struct wire_accuse, "Node", node, 1, NAME),
};
F_TABLE(accuse, struct wire_accuse);

static const struct field compress_fields[] = {
	F_UINT(struct wire_compress, "Algo", algo, 0),
	F_BIN(struct wire_compress, "Buf", data, 1, BULK),
};
F_TABLE(compress, struct wire_compress);

static const struct field pp_header_fields[] = {
	F_BOOL(struct wire_pp_header, "Join", join, 2),
	F_UINT(struct wire_pp_header, "Nodes", nodes, 0),
	F_UINT(struct wire_pp_header, "UserStateLen", user_state_len, 1),
};
F_TABLE(pp_header, struct wire_pp_header);

static const struct field node_fields[] = {
	F_BIN(struct wire_node, "Addr", addr, 1, ADDR),
	F_UINT(struct wire_node, "Incarnation", incarnation, 4),
	F_BIN(struct wire_node, "Meta", meta, 3, WIRE_META_BYTES_MAX),
	F_STR(struct wire_node, "Name", name, 0, NAME),
	F_UINT(struct wire_node, "Port", port, 2),
	F_UINT(struct wire_node, "State", state, 5),
	F_BIN(struct wire_node, "Vsn", vsn, 6, VSN),
};
F_TABLE(node, struct wire_node);

struct user_header {
	uint32_t len;
};

static const struct field user_header_fields[] = {
	F_UINT(struct user_header, "UserMsgLen", len, 0),
};
F_TABLE(user_header, struct user_header);

/* -- writers ---------------------------------------------------------------- */

static void
put(struct buf *b, enum wire_type type, const struct field_table *t, const void *m)
{
	buf_u8(b, (uint8_t)type);
	fields_write(b, t, m);
}

void
wire_put_ping(struct buf *b, const struct wire_ping *m)
{
	put(b, WIRE_PING, &ping, m);
}

void
wire_put_indirect(struct buf *b, const struct wire_indirect *m)
{
	put(b, WIRE_INDIRECT_PING, &indirect, m);
}

void
wire_put_ack(struct buf *b, const struct wire_ack *m)
{
	put(b, WIRE_ACK, &ack, m);
}

void
wire_put_nack(struct buf *b, const struct wire_nack *m)
{
	put(b, WIRE_NACK, &nack, m);
}

void
wire_put_error(struct buf *b, const struct wire_error *m)
{
	put(b, WIRE_ERROR, &error, m);
}

void
wire_put_alive(struct buf *b, const struct wire_alive *m)
{
	put(b, WIRE_ALIVE, &alive, m);
}

void
wire_put_suspect(struct buf *b, const struct wire_accuse *m)
{
	put(b, WIRE_SUSPECT, &accuse, m);
}

void
wire_put_dead(struct buf *b, const struct wire_accuse *m)
{
	put(b, WIRE_DEAD, &accuse, m);
}

void
wire_put_compress(struct buf *b, const struct wire_compress *m)
{
	put(b, WIRE_COMPRESS, &compress, m);
}

void
wire_put_pp_header(struct buf *b, const struct wire_pp_header *m)
{
	put(b, WIRE_PUSH_PULL, &pp_header, m);
}

void
wire_put_node(struct buf *b, const struct wire_node *m)
{
	fields_write(b, &node, m);
}

void
wire_put_user_stream(struct buf *b, struct span message)
{
	struct user_header h = { .len = (uint32_t)message.len };

	if (message.len > UINT32_MAX) {
		b->failed = true;
		return;
	}
	put(b, WIRE_USER, &user_header, &h);
	buf_putspan(b, message);
}

/* -- readers ---------------------------------------------------------------- */

static enum tv_err
get(struct span body, const struct field_table *t, struct arena *a, void *m)
{
	struct rd r = rd_span_over(body);

	return fields_read(&r, t, a, m);
}

/* What was read also has to make sense. */
static enum tv_err
judged(enum tv_err err, bool ok)
{
	return err == TV_OK && !ok ? TV_EFORMAT : err;
}

static bool
vsn_len_ok(struct span vsn)
{
	return vsn.len == 0 || vsn.len >= WIRE_VSN_BYTES;
}

enum tv_err
wire_get_ping(struct span body, struct arena *a, struct wire_ping *m)
{
	enum tv_err err = get(body, &ping, a, m);

	return judged(err, wire_addr_ok(m->source_addr));
}

enum tv_err
wire_get_indirect(struct span body, struct arena *a, struct wire_indirect *m)
{
	enum tv_err err = get(body, &indirect, a, m);

	return judged(err, wire_addr_ok(m->source_addr) && wire_addr_ok(m->target));
}

enum tv_err
wire_get_ack(struct span body, struct arena *a, struct wire_ack *m)
{
	return get(body, &ack, a, m);
}

enum tv_err
wire_get_nack(struct span body, struct arena *a, struct wire_nack *m)
{
	return get(body, &nack, a, m);
}

enum tv_err
wire_get_error(struct span body, struct arena *a, struct wire_error *m)
{
	return get(body, &error, a, m);
}

enum tv_err
wire_get_alive(struct span body, struct arena *a, struct wire_alive *m)
{
	enum tv_err err = get(body, &alive, a, m);

	return judged(err, wire_addr_ok(m->addr) && vsn_len_ok(m->vsn));
}

enum tv_err
wire_get_accuse(struct span body, struct arena *a, struct wire_accuse *m)
{
	return get(body, &accuse, a, m);
}

enum tv_err
wire_get_compress(struct span body, struct arena *a, struct wire_compress *m)
{
	enum tv_err err = get(body, &compress, a, m);

	return judged(err, m->algo == 0 && m->data.len > 0);
}

enum tv_err
wire_read_pp_header(struct rd *r, struct arena *a, struct wire_pp_header *m)
{
	return fields_read(r, &pp_header, a, m);
}

enum tv_err
wire_read_node(struct rd *r, struct arena *a, struct wire_node *m)
{
	enum tv_err err = fields_read(r, &node, a, m);

	return judged(err, wire_addr_ok(m->addr) && vsn_len_ok(m->vsn));
}

enum tv_err
wire_read_user_header(struct rd *r, struct arena *a, uint32_t *message_len)
{
	struct user_header h;
	enum tv_err err = fields_read(r, &user_header, a, &h);

	*message_len = h.len;
	return err;
}

struct wire_node_iter
wire_nodes(struct span nodes, uint32_t count)
{
	return (struct wire_node_iter){ rd_span_over(nodes), count };
}

enum tv_err
wire_node_next(struct wire_node_iter *it, struct arena *a, struct wire_node *m)
{
	struct span one;
	struct rd r;
	enum tv_err err;

	if (it->left == 0)
		return TV_EOF;
	it->left--;
	one = mpr_value(&it->rd);
	if (it->rd.err != TV_OK) {
		it->left = 0;
		return TV_EFORMAT;
	}
	r = rd_span_over(one);
	err = wire_read_node(&r, a, m);
	return err == TV_EOF ? TV_EFORMAT : err;
}

/* -- small rules -------------------------------------------------------------- */

bool
wire_addr_ok(struct span addr)
{
	return addr.len == 0 || addr.len == 4 || addr.len == 16;
}

bool
wire_addr_same(struct span x, struct span y)
{
	struct addr a = addr_unmapped(addr_of_bytes(x.p, x.len)), b = addr_unmapped(addr_of_bytes(y.p, y.len));

	return wire_addr_ok(x) && wire_addr_ok(y) && addr_eq(&a, &b);
}

void
wire_vsn_copy(struct span vsn, uint8_t out[WIRE_VSN_BYTES])
{
	memset(out, 0, WIRE_VSN_BYTES);
	if (vsn.len >= WIRE_VSN_BYTES)
		memcpy(out, vsn.p, WIRE_VSN_BYTES);
}

bool
wire_vsn_usable(struct span vsn)
{
	if (vsn.len == 0)
		return true;
	return vsn.len >= WIRE_VSN_BYTES && vsn.p[VSN_PMIN] >= 1 && vsn.p[VSN_PMAX] >= 1 &&
	    vsn.p[VSN_PMIN] <= vsn.p[VSN_PMAX];
}
