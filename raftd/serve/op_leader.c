/* Operations that the leader answers from memory. */
#include "common/record/coordinate.h"
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

static void find_session(struct request *q);

static void
session_found(struct state_read *r, void *ctx)
{
	struct request *q = ctx;

	if (r->answer.err == TV_OK && r->replaced == fsm_replaced(q->d->fsm)) {
		request_reply(q, r->answer.index, r->value);
	} else if (r->answer.err == TV_OK) {
		request_drop_lookup(q);
		find_session(q);
	} else {
		request_fail(q, r->answer.err, r->answer.text);
	}
}

static void
find_session(struct request *q)
{
	q->lookup = statethread_look(q->d->state, op_find(OP_SESSION_INFO), q->args, session_found, q);
	if (q->lookup == NULL)
		request_failf(q, TV_ENOMEM, "raftd is out of memory");
}

static void
renew_confirmed(struct read_wait *w, enum tv_err err)
{
	struct request *q = (struct request *)((char *)w - offsetof(struct request, read));
	struct session_read args = { 0 };
	struct rd in = rd_span_over(q->args);

	/* After leadership was lost and won again meanwhile, the state may still hold a session that has ended. */
	if (err != TV_OK || !engine_status(q->d->engine)->informed) {
		op_not_leader(q);
		return;
	}
	/* Before it is looked for, which may take a slow disk longer than the session has left. */
	if (schema_unpack(&session_read_schema, &in, request_arena(q), &args) == TV_OK)
		leader_session_renewed(q->d->leader, args.ID);
	find_session(q);
}

static void
session_renew(struct request *q, const void *args UNUSED)
{
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
raft_configuration_op(struct request *q, const void *args UNUSED)
{
	struct buf *out = request_buf(q);
	uint64_t index = info_configuration(q->d, out);

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
autopilot_health_op(struct request *q, const void *args UNUSED)
{
	struct buf *out = request_buf(q);

	autopilot_health(q->d->autopilot, out);
	request_reply(q, engine_applied(q->d->engine), buf_span(out));
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
