/* The greeting of channels, see greet.h. */
#include "common/net/chan_int.h"
#include "common/net/greet.h"
#include "common/net/msg.h"
#include "common/record/mpack.h"

#define HELLO_FIELDS_MIN 4	/* without the highest version */
#define HELLO_FIELD_BYTES_MAX 255
#define PING_ID 1		/* one is enough: a late answer is a sign of life too */

void
greet_send(struct chan *c, const char *role, const char *node_id)
{
	struct buf *b = chan_begin(c, MSG_HELLO, 0, 0);

	if (b == NULL)
		return;
	/* Releases without ranges take four fields and no more: the fifth is said only where it says something. */
	mpw_array(b, HELLO_FIELDS_MIN + (MSG_VERSIONS.highest > MSG_VERSIONS.lowest));
	mpw_uint(b, MSG_VERSIONS.lowest);
	mpw_cstr(b, role);
	mpw_cstr(b, TV_VERSION);
	mpw_cstr(b, node_id);
	if (MSG_VERSIONS.highest > MSG_VERSIONS.lowest)
		mpw_uint(b, MSG_VERSIONS.highest);
	(void)chan_end(c);
}

enum tv_err
greet_check(struct chan *c, const struct frame *f)
{
	struct rd r = rd_span_over(f->body);
	struct version_range theirs;
	uint32_t fields;
	char why[256], text[2][16];

	if (f->type != MSG_HELLO || f->flags != 0)
		return TV_EFORMAT;
	fields = mpr_array(&r);
	theirs.lowest = theirs.highest = (uint8_t)mpr_uint(&r, UINT8_MAX);
	for (int i = 0; i < 3; i++)	/* role, build, node id: for people who read traces */
		(void)mpr_bytes(&r, HELLO_FIELD_BYTES_MAX);
	if (fields > HELLO_FIELDS_MIN)
		theirs.highest = (uint8_t)mpr_uint(&r, UINT8_MAX);
	for (uint32_t i = HELLO_FIELDS_MIN + 1; i < fields && r.err == TV_OK; i++)
		mpr_skip(&r);		/* of a newer version */
	if (fields < HELLO_FIELDS_MIN || rd_end(&r) != TV_OK || theirs.lowest == 0 || theirs.highest < theirs.lowest)
		return TV_EFORMAT;
	if (version_common(MSG_VERSIONS, theirs) != 0)
		return TV_OK;
	snprintf(why, sizeof(why), "speaks version %s of the protocol between daemons, this one version %s: upgrade "
	    "the older one by way of a release that speaks both", version_text(theirs, text[0]),
	    version_text(MSG_VERSIONS, text[1]));
	chan_refuse(c, TV_EFORMAT, why);
	return TV_EFORMAT;
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
