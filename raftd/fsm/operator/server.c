/* Servers that were removed for good: what was removed stays removed. */
#include "raftd/fsm/apply.h"
#include "raftd/fsm/table/table.h"

static void
server_tombstone_apply(struct apply *p, const void *rec)
{
	const struct raft_peer *q = rec;
	uint8_t value[8];
	struct tkey k;

	if (q->ID.len == 0 || q->ID.len > FSM_NAME_BYTES_MAX) {
		apply_fail(p, TV_EINVAL, "a server id is needed");
		return;
	}
	for (int i = 0; i < 8; i++)
		value[i] = (uint8_t)(p->f->at >> (56 - 8 * i));
	TKEY(&k, TBL_SERVER, q->ID);
	tbl_put(p->f, &k, span_of(value, sizeof(value)));
	p->f->facts |= FACT_SERVERS;
	apply_bool(p, true);
}

const struct fsm_op server_ops[] = {
	{ OP_SERVER_TOMBSTONE, .apply = server_tombstone_apply },
	{ 0 },
};
