/* The greeting of channels, see greet.h. */
#include "common/net/chan_int.h"
#include "common/net/greet.h"
#include "common/net/msg.h"
#include "common/record/mpack.h"

#define HELLO_FIELDS_MIN 4	/* without the highest version */
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
	struct msg_hello h = { .highest = UINT64_MAX };		/* as the lowest, where it is missing */
	struct version_range theirs;
	char why[256], text[2][16];

	if (f->type != MSG_HELLO || f->flags != 0 || msg_read(&msg_hello_schema, f->body, NULL, &h) != TV_OK ||
	    h.version == 0 || h.version > UINT8_MAX)
		return TV_EFORMAT;
	if (h.highest == UINT64_MAX)
		h.highest = h.version;
	if (h.highest < h.version || h.highest > UINT8_MAX)
		return TV_EFORMAT;
	theirs = (struct version_range){ (uint8_t)h.version, (uint8_t)h.highest };
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
	struct msg_hello h = { .version = 0 };

	return msg_read(&msg_hello_schema, f->body, NULL, &h) == TV_OK && span_eqs(h.role, role);
}

bool
greet_same_build(const struct frame *f)
{
	struct msg_hello h = { .version = 0 };

	return msg_read(&msg_hello_schema, f->body, NULL, &h) == TV_OK && span_eqs(h.build, TV_VERSION);
}

enum tv_err
greet_ping(struct chan *c)
{
	return chan_send(c, MSG_PING, 0, PING_ID, MSG_EMPTY);
}

enum tv_err
greet_pinged(struct chan *c, const struct frame *f)
{
	if (msg_read(&empty_schema, f->body, NULL, NULL) != TV_OK || f->id == 0 || (f->flags & ~FRAME_REPLY) != 0)
		return TV_EFORMAT;
	if (!(f->flags & FRAME_REPLY))
		(void)chan_send(c, MSG_PING, FRAME_REPLY, f->id, MSG_EMPTY);	/* a closed channel tells by itself */
	return TV_OK;
}
