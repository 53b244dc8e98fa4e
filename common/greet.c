/* The greeting of channels, see greet.h. */
#include "common/greet.h"
#include "common/mpack.h"
#include "common/msg.h"

#define HELLO_FIELD_BYTES_MAX 255

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
