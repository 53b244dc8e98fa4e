/* Frame header, see frame.h. */
#include "common/net/frame.h"
#include "common/net/msg.h"

size_t
frame_open(struct buf *b, uint16_t type, uint16_t flags, uint64_t id)
{
	size_t at = b->len;

	buf_u32le(b, 0);
	buf_u16le(b, type);
	buf_u16le(b, flags);
	buf_u64le(b, id);
	return at;
}

void
frame_close(struct buf *b, size_t at)
{
	frame_close_with(b, at, 0);
}

void
frame_close_with(struct buf *b, size_t at, size_t more)
{
	size_t n;

	if (b->failed || b->len < at + FRAME_HEAD_BYTES)
		return;
	n = b->len - at - FRAME_HEAD_BYTES;
	if (n > FRAME_BODY_BYTES_MAX || more > FRAME_BODY_BYTES_MAX - n) {
		b->failed = true;
		return;
	}
	n += more;
	for (int i = 0; i < 4; i++)
		b->data[at + (size_t)i] = (uint8_t)(n >> (8 * i));
}

void
frame_write(struct buf *b, const struct frame *f)
{
	size_t at = frame_open(b, f->type, f->flags, f->id);

	buf_putspan(b, f->body);
	frame_close(b, at);
}

long
frame_read(struct span in, size_t body_max, struct frame *out)
{
	struct rd r;
	uint32_t len;

	if (in.len < FRAME_HEAD_BYTES)
		return 0;
	r = rd_span_over(in);
	len = rd_u32le(&r);
	out->type = rd_u16le(&r);
	out->flags = rd_u16le(&r);
	if (len > body_max || len > msg_body_max(out->type, out->flags))
		return TV_ELIMIT;
	if (in.len - FRAME_HEAD_BYTES < len)
		return 0;
	out->id = rd_u64le(&r);
	out->body = rd_bytes(&r, len);
	return (long)FRAME_HEAD_BYTES + (long)len;
}
