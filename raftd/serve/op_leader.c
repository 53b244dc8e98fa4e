/* Operations that the leader answers from memory. */
#include "common/record/coordinate.h"
#include "common/record/mpack.h"
#include "raftd/engine/engine.h"
#include "raftd/fsm/fsm.h"
#include "raftd/leader/leader.h"
#include "raftd/members/autopilot.h"
#include "raftd/members/membership.h"
#include "raftd/serve/info.h"
#include "raftd/serve/op.h"

#define SEGMENT_BYTES_MAX 255
#define NODE_BYTES_MAX 1024		/* no node of the catalog has a longer name */

/* -- session renew: nothing is written; the timer starts again -- */

static void
renew_confirmed(struct read_wait *w, enum tv_err err)
{
	struct request *q = (struct request *)((char *)w - offsetof(struct request, read));
	struct arena *a = request_arena(q);
	struct buf *out = request_buf(q);
	struct fsm_answer ans = { 0 };
	struct session_read args = { 0 };
	struct rd in = rd_span_over(q->args), list;

	/* After leadership was lost and won again meanwhile, the state may still hold a session that has ended. */
	if (err != TV_OK || !engine_status(q->d->engine)->informed) {
		op_not_leader(q);
		return;
	}
	fsm_read(q->d->fsm, op_find(OP_SESSION_INFO), q->args, a, out, &ans);
	if (ans.err != TV_OK) {
		request_fail(q, ans.err, ans.text);
		return;
	}
	list = rd_span_over(buf_span(out));
	if (mpr_array(&list) > 0 && schema_unpack(&session_read_schema, &in, a, &args) == TV_OK)
		leader_session_renewed(q->d->leader, args.ID);
	request_reply(q, ans.index, buf_span(out));
}

static void
session_renew(struct request *q, const void *args)
{
	(void)args;
	/* Only a confirmed leader may promise more time. */
	q->read.done = renew_confirmed;
	engine_read(q->d->engine, &q->read);
}

/* -- coordinates: collected, and written a few seconds later -- */

static void
coordinate_failed(struct request *q, enum tv_err err)
{
	/* TV_ENOLEADER: just elected, or not any more; the router asks again. */
	request_fail(q, err, err == TV_ENOLEADER ? span_str("No cluster leader") : SPAN_NONE);
}

static void
coordinate_taken(void *ctx, enum tv_err err, bool is_known)
{
	struct request *q = ctx;
	struct bool_reply known = { is_known };
	struct buf *out;

	if (err != TV_OK) {
		coordinate_failed(q, err);
		return;
	}
	out = request_buf(q);
	schema_pack(&bool_reply_schema, &known, out);
	request_reply(q, fsm_applied(q->d->fsm), buf_span(out));
}

static void
coordinate_update_op(struct request *q, const void *args)
{
	const struct coordinate_update *u = args;
	struct coordinate at;
	enum tv_err err;

	if (!coordinate_of_rec(&u->Coord, &at) || u->Segment.len > SEGMENT_BYTES_MAX) {
		request_failf(q, TV_EINVAL, "incompatible coordinate");
		return;
	}
	if (u->Node.len > NODE_BYTES_MAX) {
		coordinate_taken(q, TV_OK, false);
		return;
	}
	err = leader_coordinate(q->d->leader, u->Node, u->Segment, &at, coordinate_taken, q);
	if (err != TV_OK)
		coordinate_failed(q, err);
}

/* -- the raft configuration -- */

static void
raft_configuration_op(struct request *q, const void *args)
{
	struct buf *out = request_buf(q);
	uint64_t index = info_configuration(q->d, out);

	(void)args;
	request_reply(q, index, buf_span(out));
}

static void
change_done(void *ctx, enum tv_err err, const char *text)
{
	struct request *q = ctx;
	struct bool_reply yes = { true };
	struct buf *out;

	if (err != TV_OK) {
		request_failf(q, err, text);
		return;
	}
	out = request_buf(q);
	schema_pack(&bool_reply_schema, &yes, out);
	request_reply(q, engine_config_committed(q->d->engine)->index, buf_span(out));
}

static void
raft_remove(struct request *q, const void *args)
{
	const struct raft_peer *peer = args;

	membership_remove(q->d->members, peer->ID, peer->Address, peer->Force, change_done, q);
}

static void
raft_transfer(struct request *q, const void *args)
{
	const struct raft_peer *peer = args;

	membership_transfer(q->d->members, peer->ID, peer->Address, change_done, q);
}

/* -- autopilot -- */

static void
autopilot_health_op(struct request *q, const void *args)
{
	struct buf *out = request_buf(q);

	(void)args;
	autopilot_health(q->d->autopilot, out);
	request_reply(q, fsm_applied(q->d->fsm), buf_span(out));
}

const struct request_op leader_ops[] = {
	{ OP_SESSION_RENEW, session_renew },
	{ OP_RAFT_CONFIGURATION, raft_configuration_op },
	{ OP_RAFT_REMOVE, raft_remove },
	{ OP_RAFT_TRANSFER, raft_transfer },
	{ OP_COORDINATE_UPDATE, coordinate_update_op },
	{ OP_AUTOPILOT_HEALTH, autopilot_health_op },
	{ 0, NULL },
};
