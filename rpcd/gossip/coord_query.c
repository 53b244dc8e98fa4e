/* Coordinates as gossipd tells them. */
#include "common/net/msg.h"
#include "common/record/mpack.h"
#include "rpcd/gossip/coord_query.h"

#define ASK_TIMEOUT MONO_S(5)

uint64_t
coord_query_ask(struct members *v, enum gossip_pool pool, struct span name, calls_done *done, void *ctx,
    enum tv_err *err)
{
	struct buf b = BUF_INIT(1024);
	uint64_t id = 0;

	schema_pack(&msg_coords_schema, &(struct msg_coords){ pool, { &name, name.len > 0, true } }, &b);
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
	struct msg_answer m;
	enum tv_err err = msg_answer_read(body, &m, NULL, NULL, NULL);

	*a = (struct coord_query_answer){ .err = m.err, .text = m.text, .in = rd_span_over(m.value) };
	a->left = mpr_array(&a->in);
	return err != TV_OK ? err : a->in.err;
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
