/* Memberlist messages; the tables of these and of Serf's (see fields.h). */
#define FIELDS_TABLES
#include "common/base/addr.h"
#include "gossipd/core/wire/serfwire.h"

/* -- messages --------------------------------------------------------------- */

FIELDS_LOCAL(user_header,
	(U32, len, "UserMsgLen", 0))

void
wire_put_node(struct buf *b, const struct wire_node *m)
{
	fields_write(b, &wire_node_table, m);
}

void
wire_put_user_stream(struct buf *b, struct span message)
{
	struct user_header h = { .len = (uint32_t)message.len };

	if (message.len > UINT32_MAX) {
		b->failed = true;
		return;
	}
	fields_put(b, WIRE_USER, &user_header_table, &h);
	buf_putspan(b, message);
}

enum tv_err
wire_get_compress(struct span body, struct arena *a, struct wire_compress *m)
{
	enum tv_err err = fields_get(body, &wire_compress_table, a, m);

	return err == TV_OK && (m->algo != 0 || m->data.len == 0) ? TV_EFORMAT : err;
}

enum tv_err
wire_get_user_header(struct span body, struct arena *a, uint32_t *message_len)
{
	struct user_header h;
	enum tv_err err = fields_get(body, &user_header_table, a, &h);

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
	enum tv_err err;

	if (it->left == 0)
		return TV_EOF;
	it->left--;
	one = mpr_value(&it->rd);
	if (it->rd.err != TV_OK) {
		it->left = 0;
		return TV_EFORMAT;
	}
	err = wire_get_node(one, a, m);
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
