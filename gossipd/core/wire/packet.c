/* Datagrams: peeling the layers and putting them on. */
#include <sodium.h>
#include <zlib.h>

#include "common/base/assert.h"
#include "gossipd/core/wire/packet.h"

#define BUILD_BYTES_MAX (64u << 20)	/* streams use the same buffers */

/* -- envelope --------------------------------------------------------------- */

bool
envelope_keyed(const struct envelope *e)
{
	return e->ring != NULL && e->ring->count > 0;
}

bool
envelope_seals(const struct envelope *e)
{
	return envelope_keyed(e) && !e->send_plain;
}

void
envelope_put_label(const struct envelope *e, struct buf *out)
{
	TV_ASSERT(e->label.len <= WIRE_LABEL_BYTES_MAX);
	if (e->label.len == 0)
		return;
	buf_u8(out, WIRE_LABEL);
	buf_u8(out, (uint8_t)e->label.len);
	buf_putspan(out, e->label);
}

struct span
envelope_compress(struct packet_scratch *s, struct span message)
{
	struct wire_compress m = { .algo = 0 };

	TV_ASSERT(message.len > 0);
	buf_reset(&s->build[1]);
	buf_reset(&s->build[2]);
	lzw_encode(&s->lzw, message, &s->build[1]);
	m.data = buf_span(&s->build[1]);
	wire_put_compress(&s->build[2], &m);
	return s->build[1].failed || s->build[2].failed ? SPAN_NONE : buf_span(&s->build[2]);
}

void
packet_scratch_init(struct packet_scratch *s)
{
	s->flat_used = 0;
	for (unsigned i = 0; i < 3; i++)
		buf_init(&s->build[i], BUILD_BYTES_MAX);
}

void
packet_scratch_done(struct packet_scratch *s)
{
	for (unsigned i = 0; i < 3; i++) {
		if (s->build[i].cap > 0)
			sodium_memzero(s->build[i].data, s->build[i].cap);
		buf_done(&s->build[i]);
	}
	sodium_memzero(s->plain, sizeof(s->plain));
	sodium_memzero(s->flat, sizeof(s->flat));
}

/* -- opening ------------------------------------------------------------------ */

struct opening {
	struct packet_scratch *scratch;
	packet_visit visit;
	void *arg;
	struct packet_result result;
};

static void dispatch(struct opening *o, struct span message, unsigned depth);

static void
drop_part(struct opening *o, enum tv_err err)
{
	o->result.dropped++;
	if (o->result.err == TV_OK)
		o->result.err = err;
}

/*
 * u8 count, count lengths, the parts.  With too few lengths nothing is used;
 * with too few bytes the complete parts are.  An empty part is dropped alone.
 */
static void
open_compound(struct opening *o, struct span body, unsigned depth)
{
	struct rd lengths = rd_span_over(body), parts;
	unsigned count = rd_u8(&lengths);
	struct span all = rd_bytes(&lengths, 2 * (size_t)count);

	if (lengths.err != TV_OK || count == 0) {
		drop_part(o, lengths.err != TV_OK ? TV_EOF : TV_EFORMAT);
		return;
	}
	parts = lengths;
	lengths = rd_span_over(all);
	while (count-- > 0) {
		struct span part = rd_bytes(&parts, rd_u16be(&lengths));

		if (parts.err != TV_OK) {
			drop_part(o, TV_EOF);
			return;
		}
		dispatch(o, part, depth + 1);
	}
}

/*
 * The expanded bytes stay in `flat` until the datagram is done, and all of a
 * datagram's count together: many small bombs are no better than a big one.
 */
static void
open_compressed(struct opening *o, struct span body, unsigned depth)
{
	struct packet_scratch *s = o->scratch;
	uint8_t *out = s->flat + s->flat_used;
	struct wire_compress m;
	size_t len = 0;
	enum tv_err err = wire_get_compress(body, NULL, &m);

	if (err == TV_OK)
		err = lzw_decode(m.data, out, sizeof(s->flat) - s->flat_used, &len);
	if (err == TV_ELIMIT)
		s->flat_used = sizeof(s->flat);
	if (err == TV_OK && len == 0)
		err = TV_EFORMAT;
	if (err != TV_OK) {
		drop_part(o, err);
		return;
	}
	s->flat_used += len;
	dispatch(o, span_of(out, len), depth + 1);
}

static void
dispatch(struct opening *o, struct span message, unsigned depth)
{
	struct span body;

	if (message.len == 0) {
		drop_part(o, TV_EFORMAT);
		return;
	}
	body = span_of(message.p + 1, message.len - 1);
	switch (message.p[0]) {
	case WIRE_PING: case WIRE_INDIRECT_PING: case WIRE_ACK: case WIRE_SUSPECT: case WIRE_ALIVE: case WIRE_DEAD:
	case WIRE_USER: case WIRE_NACK:
		o->result.messages++;
		o->visit(o->arg, (enum wire_type)message.p[0], body);
		break;
	case WIRE_COMPOUND:
	case WIRE_COMPRESS:
		if (depth == PACKET_DEPTH_MAX)
			drop_part(o, TV_ELIMIT);
		else if (message.p[0] == WIRE_COMPOUND)
			open_compound(o, body, depth);
		else
			open_compressed(o, body, depth);
		break;
	default:
		drop_part(o, TV_EFORMAT);
	}
}

/* Takes the label header off; the packet must carry exactly our label. */
static enum tv_err
peel_label(const struct envelope *e, struct span *d)
{
	size_t n = e->label.len;

	if (n == 0)
		return d->len > 0 && d->p[0] == WIRE_LABEL ? TV_EAUTH : TV_OK;
	if (d->len < 2 + n || d->p[0] != WIRE_LABEL || d->p[1] != n || !span_eq(span_of(d->p + 2, n), e->label))
		return TV_EAUTH;
	*d = span_of(d->p + 2 + n, d->len - 2 - n);
	return TV_OK;
}

static enum tv_err
peel_seal(const struct envelope *e, struct packet_scratch *s, struct span *d, struct packet_result *r)
{
	size_t len;
	enum tv_err err;

	if (!envelope_keyed(e))
		return TV_OK;
	err = seal_open_by(e->ring, e->label, *d, s->plain, sizeof(s->plain), &len, &r->key);
	r->sealed = err == TV_OK;
	if (r->sealed)
		*d = span_of(s->plain, len);
	else if (!e->accept_plain)
		return err == TV_ELIMIT ? TV_ELIMIT : TV_EAUTH;
	return TV_OK;
}

static enum tv_err
peel_crc(struct span *d)
{
	struct rd r = rd_span_over(*d);
	uint32_t crc;

	if (d->len == 0 || d->p[0] != WIRE_CRC)
		return TV_OK;
	rd_u8(&r);
	crc = rd_u32be(&r);
	if (r.err != TV_OK)
		return TV_EOF;
	*d = rd_rest(&r);
	return crc32_z(0, d->p, d->len) == crc ? TV_OK : TV_ECORRUPT;
}

struct packet_result
packet_open(const struct envelope *e, struct packet_scratch *s, struct span datagram, packet_visit visit, void *arg)
{
	struct opening o = { .scratch = s, .visit = visit, .arg = arg };
	enum tv_err err;

	s->flat_used = 0;
	err = peel_label(e, &datagram);
	if (err == TV_OK)
		err = peel_seal(e, s, &datagram, &o.result);
	if (err == TV_OK)
		err = peel_crc(&datagram);
	if (err == TV_OK)
		dispatch(&o, datagram, 0);
	else
		drop_part(&o, err);
	return o.result;
}

/* -- building ------------------------------------------------------------------- */

static enum tv_err
put_parts(struct buf *b, const struct span *parts, unsigned count)
{
	if (count == 0 || count > WIRE_PARTS_MAX)
		return TV_EINVAL;
	for (unsigned i = 0; i < count; i++)
		if (parts[i].len == 0 || parts[i].len > UINT16_MAX)
			return TV_EINVAL;
	buf_reset(b);
	if (count > 1) {
		buf_u8(b, WIRE_COMPOUND);
		buf_u8(b, (uint8_t)count);
		for (unsigned i = 0; i < count; i++)
			buf_u16be(b, (uint16_t)parts[i].len);
	}
	for (unsigned i = 0; i < count; i++)
		buf_putspan(b, parts[i]);
	return b->failed ? TV_ENOMEM : TV_OK;
}

static void
put_crc(struct buf *b, struct span message)
{
	buf_u8(b, WIRE_CRC);
	buf_u32be(b, (uint32_t)crc32_z(0, message.p, message.len));
}

/* CRC header and message, sealed; both are brought together in build[1]. */
static void
put_sealed(const struct envelope *e, struct packet_scratch *s, struct span message, bool crc, const uint8_t *nonce,
    struct buf *out)
{
	struct buf *b = &s->build[1];

	if (crc) {
		buf_reset(b);
		put_crc(b, message);
		buf_putspan(b, message);
		message = buf_span(b);
		if (b->failed) {
			out->failed = true;
			return;
		}
	}
	seal_put(out, e->ring, e->version, nonce, e->label, message);
}

enum tv_err
packet_build(const struct envelope *e, struct packet_scratch *s, const struct span *parts, unsigned count, bool crc,
    const uint8_t nonce[SEAL_NONCE_BYTES], struct buf *out)
{
	enum tv_err err = put_parts(&s->build[0], parts, count);
	struct span message = buf_span(&s->build[0]), small;

	if (err != TV_OK)
		return err;
	if (e->compress) {
		small = envelope_compress(s, message);
		if (small.len > 0 && small.len < message.len)
			message = small;
	}
	envelope_put_label(e, out);
	if (envelope_seals(e)) {
		put_sealed(e, s, message, crc, nonce, out);
	} else {
		if (crc)
			put_crc(out, message);
		buf_putspan(out, message);
	}
	return out->failed ? TV_ENOMEM : TV_OK;
}

/* -- room ----------------------------------------------------------------------- */

size_t
packet_overhead(const struct envelope *e)
{
	size_t n = e->label.len > 0 ? 2 + e->label.len : 0;

	if (envelope_seals(e))
		n += e->version == 0 ? SEAL_OVERHEAD_V0 : SEAL_OVERHEAD;
	return n;
}

size_t
packet_room(const struct envelope *e, size_t mtu, size_t control_len)
{
	size_t used = control_len + 2 + packet_overhead(e);

	return mtu > used ? mtu - used : 0;
}
