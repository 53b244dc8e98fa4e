/* The greeting of channels, see greet.h. */
#include "common/net/greet.h"
#include "common/record/mpack.h"
#include "common/net/msg.h"

#define HELLO_FIELD_BYTES_MAX 255
#define PING_ID 1		/* one is enough: a late answer is a sign of life too */

void
greet_send(struct chan *c, const char *role, const char *node_id)
{
	struct buf *b = chan_begin(c, MSG_HELLO, 0, 0);

	if (b == NULL)
		return;
	mpw_array(b, 4);
	mpw_uint(b, MSG_VERSION);
	mpw_cstr(b, role);
	mpw_cstr(b, TV_VERSION);
	mpw_cstr(b, node_id);
	(void)chan_end(c);
}

enum tv_err
greet_check(const struct frame *f)
{
	struct rd r = rd_span_over(f->body);
	uint32_t fields;
	uint64_t version;

	if (f->type != MSG_HELLO || f->flags != 0)
		return TV_EFORMAT;
	fields = mpr_array(&r);
	version = mpr_uint(&r, UINT8_MAX);
	for (int i = 0; i < 3; i++)	/* role, build, node id: for people who read traces */
		(void)mpr_bytes(&r, HELLO_FIELD_BYTES_MAX);
	return fields == 4 && rd_end(&r) == TV_OK && version == MSG_VERSION ? TV_OK : TV_EFORMAT;
}

bool
greet_is(const struct frame *f, const char *role)
{
	struct rd r = rd_span_over(f->body);

	(void)mpr_array(&r);
	(void)mpr_uint(&r, UINT8_MAX);
	return span_eqs(mpr_bytes(&r, HELLO_FIELD_BYTES_MAX), role);
}

bool
greet_same_build(const struct frame *f)
{
	struct rd r = rd_span_over(f->body);

	(void)mpr_array(&r);
	(void)mpr_uint(&r, UINT8_MAX);
	(void)mpr_bytes(&r, HELLO_FIELD_BYTES_MAX);
	return span_eqs(mpr_bytes(&r, HELLO_FIELD_BYTES_MAX), TV_VERSION);
}

static enum tv_err
send_ping(struct chan *c, uint16_t flags, uint64_t id)
{
	struct buf *b = chan_begin(c, MSG_PING, flags, id);

	if (b == NULL)
		return TV_ECLOSED;
	mpw_array(b, 0);
	return chan_end(c);
}

enum tv_err
greet_ping(struct chan *c)
{
	return send_ping(c, 0, PING_ID);
}

enum tv_err
greet_pinged(struct chan *c, const struct frame *f)
{
	struct rd r = rd_span_over(f->body);

	if (mpr_array(&r) != 0 || rd_end(&r) != TV_OK || f->id == 0 || (f->flags & ~FRAME_REPLY) != 0)
		return TV_EFORMAT;
	if (!(f->flags & FRAME_REPLY))
		(void)send_ping(c, FRAME_REPLY, f->id);	/* a closed channel tells by itself */
	return TV_OK;
}
