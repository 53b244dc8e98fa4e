/* Messages from clients, see query.h. */

#include "common/base/addr.h"
#include "rpcd/dns/query.h"

#define CLASS_IN 1

static bool
read_subnet(struct rd *in, struct dns_query *q)
{
	uint16_t family = rd_u16be(in);
	uint8_t bits = rd_u8(in);
	struct span address;
	unsigned size = family == 1 ? 4 : family == 2 ? 16 : 0;

	(void)rd_u8(in);		/* scope: ours to say */
	address = rd_bytes(in, rd_left(in));
	if (in->err != TV_OK || family > 2 || bits > size * 8 || address.len > (family > 0 ? size : 16))
		return false;
	q->subnet = true;
	q->subnet_family = family;
	q->subnet_bits = bits;
	memset(q->subnet_address, 0, sizeof(q->subnet_address));
	if (address.len > 0)
		memcpy(q->subnet_address, address.p, address.len);
	for (unsigned i = 0; i < 16; i++) {
		unsigned kept = bits > i * 8 ? bits - i * 8 : 0;

		if (kept < 8)
			q->subnet_address[i] &= (uint8_t)(0xff00u >> kept);
	}
	return true;
}

static bool
read_options(struct span data, struct dns_query *q)
{
	struct rd in = rd_span_over(data);

	while (rd_left(&in) > 0) {
		uint16_t code = rd_u16be(&in);
		struct span option = rd_bytes(&in, rd_u16be(&in));
		struct rd of = rd_span_over(option);

		if (in.err != TV_OK || (code == DNS_SUBNET_OPTION && !read_subnet(&of, q)))
			return false;
	}
	return in.err == TV_OK;
}

/* False: malformed.  What was announced and is not there is not missed, as long as nothing is cut. */
static bool
read_records(struct span msg, size_t at, unsigned count, struct dns_query *q)
{
	struct dname owner;

	for (; count > 0 && at < msg.len; count--) {
		if (dname_read(msg, &at, &owner) != TV_OK)
			return false;
		struct rd in = rd_over(msg.p + at, msg.len - at);
		uint16_t type = rd_u16be(&in), class = rd_u16be(&in);
		uint32_t ttl = rd_u32be(&in);
		struct span data = rd_bytes(&in, rd_u16be(&in));
		if (in.err != TV_OK)
			return false;
		if (type == DNS_OPT) {
			q->edns = true;
			q->edns_version = (uint8_t)(ttl >> 16);
			q->udp_size = class;
			q->subnet = false;
			if (!read_options(data, q))
				return false;
		}
		at = (size_t)(in.p - msg.p);
	}
	return true;
}

/* *at moves behind the question.  False: malformed. */
static bool
read_question(struct span msg, size_t *at, struct dns_query *q)
{
	uint16_t *fields[] = { &q->type, &q->class };

	if (*at == msg.len)
		return true;		/* announced, and not there */
	if (dname_read(msg, at, &q->name) != TV_OK)
		return false;
	for (unsigned i = 0; i < 2 && *at < msg.len; i++, *at += 2) {
		if (msg.len - *at < 2)
			return false;
		*fields[i] = (uint16_t)(msg.p[*at] << 8 | msg.p[*at + 1]);
	}
	q->has_question = true;
	return true;
}

enum dns_verdict
dns_query_read(struct span msg, struct dns_query *q, enum dns_rcode *rcode)
{
	struct rd in = rd_span_over(msg);
	size_t at = DNS_HEADER_BYTES;

	q->type = q->class = q->udp_size = 0;
	q->has_question = q->edns = q->subnet = false;
	q->edns_version = 0;
	q->name.len = 0;
	q->id = rd_u16be(&in);
	q->flags = rd_u16be(&in);
	uint16_t questions = rd_u16be(&in), answers = rd_u16be(&in), authority = rd_u16be(&in), more = rd_u16be(&in);
	unsigned opcode = (q->flags & DNS_OPCODE) >> 11;

	*rcode = DNS_FORMERR;
	if (in.err != TV_OK || (q->flags & DNS_QR) != 0)
		return DNS_IGNORE;
	if (opcode != 0) {
		*rcode = DNS_NOTIMP;
		return DNS_REJECT;
	}
	if (questions != 1 || answers > 1 || authority > 1 || more > 2 || !read_question(msg, &at, q)) {
		q->has_question = false;
		return DNS_REJECT;
	}
	if (!q->has_question) {
		*rcode = DNS_REFUSED;
		return DNS_REJECT;
	}
	if (!read_records(msg, at, (unsigned)answers + authority + more, q))
		return DNS_REJECT;
	if (q->edns_version > 0) {		/* RFC 6891, 6.1.3 */
		*rcode = DNS_BADVERS;
		return DNS_REJECT;
	}
	*rcode = DNS_REFUSED;			/* no class: a message that ended before it */
	return q->class == CLASS_IN || q->class == 0 ? DNS_SERVE : DNS_REJECT;
}

static void
put_opt(const struct dns_query *q, unsigned rcode_high, const uint8_t *options, size_t len, struct buf *out)
{
	buf_u8(out, 0);
	buf_u16be(out, DNS_OPT);
	buf_u16be(out, q->udp_size);
	buf_u32be(out, rcode_high << 24);	/* version 0 */
	buf_u16be(out, (uint16_t)len);
	if (len > 0)
		buf_put(out, options, len);
}

void
dns_reply_bare(const struct dns_query *q, uint16_t flags, enum dns_rcode rcode, struct buf *out)
{
	/* A malformed question is answered as one of opcode 0; one that is not implemented keeps its own. */
	uint16_t kept = rcode == DNS_FORMERR ? DNS_RD | DNS_CD : DNS_OPCODE | DNS_RD | DNS_CD;

	buf_u16be(out, q->id);
	buf_u16be(out, (uint16_t)(DNS_QR | (q->flags & kept) | flags | (rcode & DNS_RCODE)));
	buf_u16be(out, q->has_question);
	buf_u32be(out, 0);
	buf_u16be(out, rcode == DNS_BADVERS);
	if (!q->has_question)
		return;
	buf_putspan(out, dname_span(&q->name));
	buf_u16be(out, q->type);
	buf_u16be(out, q->class);
	if (rcode == DNS_BADVERS)
		put_opt(q, rcode >> 4, NULL, 0, out);
}

void
dns_subnet_text(const struct dns_query *q, char dst[DNS_ADDRESS_TEXT_MAX])
{
	bool known = q->subnet && q->subnet_family > 0;
	struct addr a = addr_of_bytes(q->subnet_address, !known ? 0 : q->subnet_family == 1 ? 4 : 16);

	addr_ip(&a, dst);
}

void
dns_put_opt(const struct dns_query *q, bool scoped, struct buf *out)
{
	unsigned bytes = (q->subnet_bits + 7u) / 8;
	uint8_t option[8 + sizeof(q->subnet_address)];

	if (!q->edns)
		return;
	struct buf b = { option, 0, sizeof(option), sizeof(option), false, false };
	if (q->subnet) {
		buf_u16be(&b, DNS_SUBNET_OPTION);
		buf_u16be(&b, (uint16_t)(4 + bytes));
		buf_u16be(&b, q->subnet_family);
		buf_u8(&b, q->subnet_bits);
		buf_u8(&b, scoped ? q->subnet_bits : 0);
		buf_put(&b, q->subnet_address, bytes);
	}
	put_opt(q, 0, option, b.len, out);
}

void
dns_reply_cut(const struct dns_query *q, struct span reply, struct buf *out)
{
	struct rd in = rd_span_over(reply);

	buf_u16be(out, rd_u16be(&in));
	buf_u16be(out, (uint16_t)(rd_u16be(&in) | DNS_TC));
	buf_u16be(out, 1);
	buf_u32be(out, 0);
	buf_u16be(out, q->edns);
	buf_putspan(out, dname_span(&q->name));
	buf_u16be(out, q->type);
	buf_u16be(out, q->class);
	dns_put_opt(q, false, out);
}
