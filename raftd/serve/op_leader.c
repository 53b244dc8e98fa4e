/* Operations that the leader answers from memory. */
#include "common/record/coordinate.h"
#include "common/record/mpack.h"
#include "raftd/members/autopilot.h"
#include "raftd/engine/engine.h"
#include "raftd/serve/info.h"
#include "raftd/leader/leader.h"
#include "raftd/members/membership.h"
#include "raftd/request/request.h"

#define SEGMENT_BYTES_MAX 255

static void
not_leader(struct request *q)
{
	if (engine_status(q->d->engine)->leader != 0)
		request_fail(q, TV_ENOTLEADER, SPAN_NONE);
	else
		request_failf(q, TV_ENOLEADER, "No cluster leader");
}

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

	if (err != TV_OK || !engine_is_leader(q->d->engine)) {
		not_leader(q);
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
session_renew(struct request *q)
{
	/* Only a confirmed leader may promise more time. */
	q->read.done = renew_confirmed;
	engine_read(q->d->engine, &q->read);
}

/* -- coordinates: collected, and written a few seconds later -- */

static void
coordinate_update_op(struct request *q)
{
	struct rd in = rd_span_over(q->args);
	struct coordinate_update u = { 0 };
	struct bool_reply known;
	struct coordinate at;
	struct buf *out;

	if (schema_unpack(&coordinate_update_schema, &in, request_arena(q), &u) != TV_OK || rd_end(&in) != TV_OK) {
		request_failf(q, TV_EFORMAT, "malformed arguments");
		return;
	}
	if (!coordinate_of_rec(&u.Coord, &at) || u.Segment.len > SEGMENT_BYTES_MAX) {
		request_failf(q, TV_EINVAL, "incompatible coordinate");
		return;
	}
	if (!leader_active(q->d->leader)) {
		request_failf(q, TV_ENOLEADER, "No cluster leader");	/* just elected; the router asks again */
		return;
	}
	known.Value = fsm_has_node(q->d->fsm, u.Node);
	if (known.Value)
		leader_coordinate(q->d->leader, u.Node, u.Segment, &at);
	out = request_buf(q);
	schema_pack(&bool_reply_schema, &known, out);
	request_reply(q, fsm_applied(q->d->fsm), buf_span(out));
}

/* -- the raft configuration -- */

static void
raft_configuration_op(struct request *q)
{
	struct buf *out = request_buf(q);

	info_configuration(q->d, out);
	request_reply(q, raft_config_committed(engine_core(q->d->engine))->index, buf_span(out));
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
	request_reply(q, raft_config_committed(engine_core(q->d->engine))->index, buf_span(out));
}

/* Calls fn with the decoded peer; the spans live in q->args. */
static bool
take_peer(struct request *q, struct raft_peer *peer)
{
	struct rd in = rd_span_over(q->args);

	*peer = (struct raft_peer){ 0 };
	if (schema_unpack(&raft_peer_schema, &in, request_arena(q), peer) == TV_OK && rd_end(&in) == TV_OK)
		return true;
	request_failf(q, TV_EFORMAT, "malformed arguments");
	return false;
}

static void
raft_remove(struct request *q)
{
	struct raft_peer peer;

	if (take_peer(q, &peer))
		membership_remove(q->d->members, peer.ID, peer.Address, peer.Force, change_done, q);
}

static void
raft_transfer(struct request *q)
{
	struct raft_peer peer;

	if (take_peer(q, &peer))
		membership_transfer(q->d->members, peer.ID, peer.Address, change_done, q);
}

/* -- autopilot -- */

static void
autopilot_health_op(struct request *q)
{
	struct buf *out = request_buf(q);

	autopilot_health(q->d->autopilot, out);
	request_reply(q, fsm_applied(q->d->fsm), buf_span(out));
}

static const struct {
	uint16_t code;
	void (*fn)(struct request *q);
} handlers[] = {
	{ OP_SESSION_RENEW, session_renew },
	{ OP_RAFT_CONFIGURATION, raft_configuration_op },
	{ OP_RAFT_REMOVE, raft_remove },
	{ OP_RAFT_TRANSFER, raft_transfer },
	{ OP_COORDINATE_UPDATE, coordinate_update_op },
	{ OP_AUTOPILOT_HEALTH, autopilot_health_op },
};

void
op_leader(struct request *q)
{
	/* A stale look at the servers is anybody's to give. */
	if (!engine_is_leader(q->d->engine) && !(q->mode == OP_STALE &&
	    (q->op->code == OP_RAFT_CONFIGURATION || q->op->code == OP_AUTOPILOT_HEALTH))) {
		not_leader(q);
		return;
	}
	for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++)
		if (handlers[i].code == q->op->code) {
			handlers[i].fn(q);
			return;
		}
	request_failf(q, TV_EINVAL, "unknown operation");
}
