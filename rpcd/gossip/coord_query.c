/* Coordinates as gossipd tells them. */
#include "common/net/msg.h"
#include "common/record/mpack.h"
#include "rpcd/gossip/coord_query.h"

#define ASK_TIMEOUT MONO_S(5)
#define TEXT_BYTES_MAX 1024

uint64_t
coord_query_ask(struct members *v, enum gossip_pool pool, struct span name, calls_done *done, void *ctx,
    enum tv_err *err)
{
	struct buf b = BUF_INIT(1024);
	uint64_t id = 0;

	mpw_array(&b, 2);
	mpw_uint(&b, pool);
	mpw_array(&b, name.len > 0 ? 1 : 0);
	if (name.len > 0)
		mpw_str(&b, name);
	*err = TV_ENOMEM;
	if (!b.failed)
		id = daemon_client_call(members_daemon(v), MSG_GOSSIP_COORDS, buf_span(&b), ASK_TIMEOUT, done, ctx,
		    err);
	buf_done(&b);
	return id;
}

enum tv_err
coord_query_read(struct span body, struct coord_query_answer *a)
{
	*a = (struct coord_query_answer){ .in = rd_span_over(body) };
	if (mpr_array(&a->in) != 3)
		rd_fail(&a->in, TV_EFORMAT);
	a->err = (enum tv_err)-(int)mpr_uint(&a->in, UINT8_MAX);
	a->text = mpr_bytes(&a->in, TEXT_BYTES_MAX);
	a->left = mpr_array(&a->in);
	return a->in.err;
}

bool
coord_query_next(struct coord_query_answer *a, struct span *name, struct coordinate *out)
{
	while (a->left > 0 && coordinate_unpack(&a->in, name, out) == TV_OK) {
		a->left--;
		if (coordinate_plausible(out))
			return true;
	}
	return false;
}
