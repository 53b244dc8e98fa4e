/* TCP side: finding the end of a message while its bytes come in. */
#include <sodium.h>

#include "common/base/assert.h"
#include "gossipd/core/wire/stream.h"

#define FRAME_HEADER_BYTES 5
#define SLACK (FRAME_HEADER_BYTES + 2 + WIRE_LABEL_BYTES_MAX + 1)
#define KEEP_BYTES (64u << 10)		/* larger build buffers are given back after use */

enum phase { PHASE_TYPE, PHASE_FIRST, PHASE_NODES, PHASE_REST };

/* -- scan: one msgpack value, resumable ------------------------------------------ */

/* A msgpack header. */
struct head {
	uint8_t extra;		/* bytes of the header after the first */
	bool counts;		/* the extra bytes are a length or count */
	uint32_t skip;		/* payload bytes, besides a length from the header */
	uint32_t children;	/* values inside per count, or in all when nothing is counted */
};

/* Bytes 0xc0..0xdf.  0xc1 is no header. */
static const struct head heads[32] = {
	[0x04] = { 1, true, 0, 0 }, [0x05] = { 2, true, 0, 0 }, [0x06] = { 4, true, 0, 0 },	/* bin */
	[0x07] = { 1, true, 1, 0 }, [0x08] = { 2, true, 1, 0 }, [0x09] = { 4, true, 1, 0 },	/* ext */
	[0x0a] = { 0, false, 4, 0 }, [0x0b] = { 0, false, 8, 0 },				/* float */
	[0x0c] = { 0, false, 1, 0 }, [0x0d] = { 0, false, 2, 0 },
	[0x0e] = { 0, false, 4, 0 }, [0x0f] = { 0, false, 8, 0 },
	[0x10] = { 0, false, 1, 0 }, [0x11] = { 0, false, 2, 0 },
	[0x12] = { 0, false, 4, 0 }, [0x13] = { 0, false, 8, 0 },
	[0x14] = { 0, false, 2, 0 }, [0x15] = { 0, false, 3, 0 }, [0x16] = { 0, false, 5, 0 },	/* fixext */
	[0x17] = { 0, false, 9, 0 }, [0x18] = { 0, false, 17, 0 },
	[0x19] = { 1, true, 0, 0 }, [0x1a] = { 2, true, 0, 0 }, [0x1b] = { 4, true, 0, 0 },	/* str */
	[0x1c] = { 2, true, 0, 1 }, [0x1d] = { 4, true, 0, 1 },					/* array */
	[0x1e] = { 2, true, 0, 2 }, [0x1f] = { 4, true, 0, 2 },					/* map */
};

static struct head
head_of(uint8_t c)
{
	if (c >= 0xc0 && c <= 0xdf)
		return heads[c - 0xc0];
	if (c >= 0x80 && c < 0x90)
		return (struct head){ 0, false, 0, 2u * (c & 0x0f) };
	if (c >= 0x90 && c < 0xa0)
		return (struct head){ 0, false, 0, c & 0x0f };
	if (c >= 0xa0 && c < 0xc0)
		return (struct head){ 0, false, c & 0x1f, 0 };
	return (struct head){ 0, false, 0, 0 };
}

/* Takes one header at scan->pos. */
static enum tv_err
scan_head(struct stream_scan *scan, struct span d)
{
	uint64_t n = 0, children;
	struct head h;

	if (scan->pos >= d.len)
		return TV_EAGAIN;
	if (d.p[scan->pos] == 0xc1)
		return TV_EFORMAT;
	h = head_of(d.p[scan->pos]);
	if (d.len - scan->pos < 1 + (size_t)h.extra)
		return TV_EAGAIN;
	for (unsigned i = 0; i < h.extra; i++)
		n = n << 8 | d.p[scan->pos + 1 + i];
	children = h.counts ? n * h.children : h.children;
	if (h.children > 0)
		n = 0;
	scan->pos += 1 + h.extra + (size_t)h.skip + (size_t)n;
	scan->todo[scan->depth - 1]--;
	if (scan->pos > scan->limit || children > scan->limit)
		return TV_ELIMIT;
	if (children == 0)
		return TV_OK;
	if (scan->depth == STREAM_DEPTH_MAX)
		return TV_ELIMIT;
	scan->todo[scan->depth++] = children;
	return TV_OK;
}

/* TV_OK: a value ended at scan->pos.  TV_EAGAIN: more bytes are needed. */
static enum tv_err
scan_value(struct stream_scan *scan, struct span d, size_t longest)
{
	enum tv_err err;

	if (!scan->open) {
		scan->open = true;
		scan->limit = scan->pos + longest;
		scan->todo[0] = 1;
		scan->depth = 1;
	}
	for (;;) {
		while (scan->depth > 0 && scan->todo[scan->depth - 1] == 0)
			scan->depth--;
		if (scan->depth == 0)
			break;
		err = scan_head(scan, d);
		if (err != TV_OK)
			return err;
	}
	if (scan->pos > d.len)
		return TV_EAGAIN;
	scan->open = false;
	return TV_OK;
}

/* -- messages ----------------------------------------------------------------------- */

static enum tv_err parse_whole(struct stream_reader *s, struct span d, bool compressed);

static struct span
part(struct span d, size_t from, size_t to)
{
	return span_of(d.p + from, to - from);
}

static enum tv_err
start_push_pull(struct stream_reader *s, struct span d)
{
	struct wire_pp_header *h = &s->message.header;

	if (wire_get_pp_header(part(d, 1, s->scan.pos), NULL, h) != TV_OK)
		return TV_EFORMAT;
	if (h->nodes > s->limits.nodes || h->user_state_len > s->limits.user_state)
		return TV_ELIMIT;
	s->nodes_left = h->nodes;
	s->nodes_from = s->scan.pos;
	s->phase = PHASE_NODES;
	return TV_OK;
}

static enum tv_err
start_user(struct stream_reader *s, struct span d)
{
	uint32_t len;

	if (wire_get_user_header(part(d, 1, s->scan.pos), NULL, &len) != TV_OK)
		return TV_EFORMAT;
	if (len > s->limits.user_message)
		return TV_ELIMIT;
	s->need = s->scan.pos + len;
	s->phase = PHASE_REST;
	return TV_OK;
}

/* Measured first, so that memory is taken for bytes that are really there. */
static enum tv_err
expand(struct stream_reader *s, struct span body)
{
	struct wire_compress m;
	size_t n;
	uint8_t *out;
	enum tv_err err = wire_get_compress(body, NULL, &m);

	if (err == TV_OK)
		err = lzw_size(m.data, s->limits.flat, &n);
	if (err != TV_OK)
		return err == TV_EOF ? TV_EFORMAT : err;
	if (n == 0)
		return TV_EFORMAT;
	out = buf_add(&s->flat, n);
	if (out == NULL)
		return TV_ENOMEM;
	err = lzw_decode(m.data, out, n, &n);
	TV_ASSERT(err == TV_OK);
	return parse_whole(s, buf_span(&s->flat), true);
}

/* The first value is there. */
static enum tv_err
after_first(struct stream_reader *s, struct span d)
{
	switch (s->message.type) {
	case WIRE_PUSH_PULL:
		return start_push_pull(s, d);
	case WIRE_USER:
		return start_user(s, d);
	case WIRE_COMPRESS:
		return expand(s, part(d, 1, s->scan.pos));
	default:
		s->need = s->scan.pos;
		s->phase = PHASE_REST;
		return TV_OK;
	}
}

static enum tv_err
scan_nodes(struct stream_reader *s, struct span d)
{
	enum tv_err err;

	while (s->nodes_left > 0) {
		err = scan_value(&s->scan, d, STREAM_VALUE_MAX);
		if (err != TV_OK)
			return err;
		s->nodes_left--;
	}
	s->nodes_to = s->scan.pos;
	s->need = s->scan.pos + s->message.header.user_state_len;
	s->phase = PHASE_REST;
	return TV_OK;
}

/* All bytes are there: says where the parts are. */
static enum tv_err
finish_message(struct stream_reader *s, struct span d)
{
	struct stream_message *m = &s->message;

	if (d.len < s->need)
		return TV_EAGAIN;
	if (m->type == WIRE_PUSH_PULL) {
		m->nodes = part(d, s->nodes_from, s->nodes_to);
		m->user_state = part(d, s->nodes_to, s->need);
	} else if (m->type == WIRE_USER) {
		m->body = part(d, s->scan.pos, s->need);
	} else {
		m->body = part(d, 1, s->need);
	}
	return TV_OK;
}

static enum tv_err
take_type(struct stream_reader *s, struct span d, bool compressed)
{
	if (d.len == 0)
		return TV_EAGAIN;
	switch (d.p[0]) {
	case WIRE_PING: case WIRE_ACK: case WIRE_PUSH_PULL: case WIRE_USER: case WIRE_ERROR:
		break;
	case WIRE_COMPRESS:
		if (!compressed)
			break;
		/* FALLTHROUGH */
	default:
		return TV_EFORMAT;
	}
	s->message.type = (enum wire_type)d.p[0];
	s->scan = (struct stream_scan){ .pos = 1 };
	s->phase = PHASE_FIRST;
	return TV_OK;
}

/* Goes on with the message in d, of which more may have come since the last call. */
static enum tv_err
parse(struct stream_reader *s, struct span d, bool compressed)
{
	enum tv_err err = TV_OK;

	if (s->phase == PHASE_TYPE)
		err = take_type(s, d, compressed);
	if (err == TV_OK && s->phase == PHASE_FIRST) {
		err = scan_value(&s->scan, d, s->message.type == WIRE_COMPRESS ? s->limits.flat : STREAM_VALUE_MAX);
		if (err == TV_OK && s->message.type == WIRE_COMPRESS)
			return after_first(s, d);
		if (err == TV_OK)
			err = after_first(s, d);
	}
	if (err == TV_OK && s->phase == PHASE_NODES)
		err = scan_nodes(s, d);
	if (err == TV_OK)
		err = finish_message(s, d);
	return err;
}

/* A message that must be complete, inside a frame or a compression. */
static enum tv_err
parse_whole(struct stream_reader *s, struct span d, bool compressed)
{
	enum tv_err err;

	s->phase = PHASE_TYPE;
	err = parse(s, d, compressed);
	return err == TV_EAGAIN ? TV_EFORMAT : err;
}

/* -- layers --------------------------------------------------------------------------- */

/* Additional data of a frame: its header and the label. */
static struct span
frame_aad(uint8_t out[SLACK], const uint8_t *header, struct span label)
{
	memcpy(out, header, FRAME_HEADER_BYTES);
	if (label.len > 0)
		memcpy(out + FRAME_HEADER_BYTES, label.p, label.len);
	return span_of(out, FRAME_HEADER_BYTES + label.len);
}

static enum tv_err
open_frame(struct stream_reader *s, struct span d)
{
	struct rd r = rd_span_over(d);
	uint8_t aad[SLACK], *out;
	struct span block;
	uint32_t n;
	size_t len;
	enum tv_err err;

	if (d.len < FRAME_HEADER_BYTES)
		return TV_EAGAIN;
	rd_u8(&r);
	n = rd_u32be(&r);
	if (n > s->limits.frame)
		return TV_ELIMIT;
	if (n < SEAL_OVERHEAD)
		return TV_EFORMAT;
	if (rd_left(&r) < n)
		return TV_EAGAIN;
	block = rd_bytes(&r, n);
	out = buf_add(&s->plain, n);
	if (out == NULL)
		return TV_ENOMEM;
	err = seal_open_by(s->envelope->ring, frame_aad(aad, d.p, s->envelope->label), block, out, n, &len, &s->key);
	if (err != TV_OK)
		return err;
	s->sealed = true;
	s->plain.len = len;
	buf_done(&s->raw);
	return parse_whole(s, buf_span(&s->plain), false);
}

/* Takes the label header that only a dialler sends. */
static enum tv_err
take_label(struct stream_reader *s)
{
	struct span label = s->envelope->label, d = buf_span(&s->raw);

	if (s->side == STREAM_DIALLED || label.len == 0) {
		if (d.p[0] == WIRE_LABEL)
			return TV_EAUTH;
		s->labelled = true;
		return TV_OK;
	}
	if (d.p[0] != WIRE_LABEL || (d.len >= 2 && d.p[1] != label.len))
		return TV_EAUTH;
	if (d.len < 2 + label.len)
		return TV_EAGAIN;
	if (!span_eq(part(d, 2, 2 + label.len), label))
		return TV_EAUTH;
	s->start = 2 + label.len;
	s->labelled = true;
	return TV_OK;
}

static enum tv_err
advance(struct stream_reader *s)
{
	struct span d;
	enum tv_err err;

	if (s->raw.len == 0)
		return TV_EAGAIN;
	if (!s->labelled) {
		err = take_label(s);
		if (err != TV_OK)
			return err;
	}
	d = part(buf_span(&s->raw), s->start, s->raw.len);
	if (d.len == 0)
		return TV_EAGAIN;
	if (d.p[0] == WIRE_ENCRYPT)
		return envelope_keyed(s->envelope) ? open_frame(s, d) : TV_EAUTH;
	if (envelope_keyed(s->envelope) && !s->envelope->accept_plain)
		return TV_EAUTH;
	return parse(s, d, false);
}

/* -- reader ------------------------------------------------------------------------------ */

void
stream_reader_init(struct stream_reader *s, const struct envelope *e, const struct stream_limits *limits,
    enum stream_side side)
{
	uint32_t most = limits->frame > limits->flat ? limits->frame : limits->flat;

	memset(s, 0, sizeof(*s));
	s->envelope = e;
	s->limits = *limits;
	s->side = side;
	s->err = TV_EAGAIN;
	buf_init(&s->raw, (size_t)most + SLACK);
	buf_init(&s->plain, limits->frame);
	buf_init(&s->flat, limits->flat);
}

static void
wipe(struct buf *b)
{
	if (b->cap > 0)
		sodium_memzero(b->data, b->cap);
	buf_done(b);
}

void
stream_reader_done(struct stream_reader *s)
{
	wipe(&s->raw);
	wipe(&s->plain);
	wipe(&s->flat);
}

enum tv_err
stream_feed(struct stream_reader *s, struct span bytes)
{
	if (s->err != TV_EAGAIN || bytes.len == 0)
		return s->err;
	if (bytes.len > s->raw.max - s->raw.len)
		return s->err = TV_ELIMIT;
	buf_putspan(&s->raw, bytes);
	s->err = s->raw.failed ? TV_ENOMEM : advance(s);
	return s->err;
}

size_t
stream_reader_bytes(const struct stream_reader *s)
{
	return s->raw.cap + s->plain.cap + s->flat.cap;
}

const struct stream_message *
stream_message(const struct stream_reader *s)
{
	TV_ASSERT(s->err == TV_OK);
	return &s->message;
}

/* -- writer -------------------------------------------------------------------------------- */

/* A push/pull of a big pool should not keep its memory for ever. */
static void
shrink(struct packet_scratch *s)
{
	for (unsigned i = 0; i < 3; i++)
		if (s->build[i].cap > KEEP_BYTES)
			wipe(&s->build[i]);
}

static enum tv_err
put_frame(const struct envelope *e, struct span message, const uint8_t *nonce, struct buf *out)
{
	size_t n = seal_size(e->version, message.len);
	uint8_t header[FRAME_HEADER_BYTES], aad[SLACK];

	if (n > STREAM_LIMITS_DEFAULT.frame)
		return TV_ELIMIT;
	header[0] = WIRE_ENCRYPT;
	for (unsigned i = 0; i < 4; i++)
		header[1 + i] = (uint8_t)(n >> (24 - 8 * i));
	buf_put(out, header, sizeof(header));
	seal_put(out, e->ring, e->version, nonce, frame_aad(aad, header, e->label), message);
	return out->failed ? TV_ENOMEM : TV_OK;
}

enum tv_err
stream_build(const struct envelope *e, struct packet_scratch *s, enum stream_side side, struct span message,
    const uint8_t nonce[SEAL_NONCE_BYTES], struct buf *out)
{
	enum tv_err err = TV_OK;

	if (message.len == 0)
		return TV_EINVAL;
	if (e->compress)
		message = envelope_compress(s, message);
	if (message.len == 0)
		return TV_ENOMEM;
	if (side == STREAM_DIALLED)
		envelope_put_label(e, out);
	if (envelope_seals(e))
		err = put_frame(e, message, nonce, out);
	else
		buf_putspan(out, message);
	shrink(s);
	return err != TV_OK ? err : out->failed ? TV_ENOMEM : TV_OK;
}
