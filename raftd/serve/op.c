/*
 * The gate: each operation that rpcd asks for, of whatever kind, passes it once.  Found, small enough, permitted, its
 * arguments read: then it goes to the one who carries it out.
 */
#include <stdio.h>

#include "raftd/engine/engine.h"
#include "raftd/serve/op.h"
#include "raftd/snapshot/export.h"
#include "raftd/snapshot/import_leader.h"

/* Those that neither go to the log nor read the state. */
static const struct request_op *const areas[] = { status_ops, leader_ops, export_ops, import_ops };

static const struct request_op *
find_row(uint16_t code)
{
	for (size_t i = 0; i < sizeof(areas) / sizeof(areas[0]); i++)
		for (const struct request_op *row = areas[i]; row->code != 0; row++)
			if (row->code == code)
				return row;
	return NULL;
}

/* Is it answered from what this server knows without its state? */
static bool
needs_no_state(const struct op *op)
{
	return op->code == OP_STATUS_LEADER || op->code == OP_STATUS_PEERS || op->code == OP_RAFT_CONFIGURATION ||
	    op->code == OP_AUTOPILOT_HEALTH;
}

/* Is it one that rpcd may ask this server for?  If not, the request is answered. */
static bool
is_ours(struct request *q, uint16_t code)
{
	char text[80];

	if (q->op == NULL) {
		snprintf(text, sizeof(text), OP_UNKNOWN_TEXT, (unsigned)code);
		request_failf(q, TV_EINVAL, text);
		return false;
	}
	if (!(q->op->traits & OP_INTERNAL) && q->op->kind != OP_VIEW && q->op->kind != OP_GOSSIP &&
	    q->op->kind != OP_GOSSIP_SERVER)
		return true;
	request_failf(q, TV_EPERM, "internal operation");
	return false;
}

/* Of a query that may wait for long only what we know of its arguments is kept, however much else came with them. */
static bool
keep_args(struct request *q, struct span args, struct span token)
{
	struct buf *known = request_buf(q);

	if (q->op->kind == OP_READ && q->index > 0 && args.len > REQUEST_INLINE &&
	    op_trim(q->op, args, request_arena(q), known))
		args = buf_span(known);
	return request_keep(q, args, token);
}

void
op_not_leader(struct request *q)
{
	if (engine_status(q->d->engine)->leader != 0)
		request_fail(q, TV_ENOTLEADER, SPAN_NONE);
	else
		request_failf(q, TV_ENOLEADER, "No cluster leader");
}

/* The first argument names the server that has begun it; no other one can go on with it. */
static bool
is_another_servers(const struct request *q, const void *rec)
{
	const struct span *server;

	if (q->op->kind != OP_SERVER)
		return false;
	server = (const void *)((const char *)rec + q->op->args->fields[0].offset);
	return server->len > 0 && !span_eqs(*server, q->d->id.uuid);
}

static void
serve(struct request *q, const struct request_op *row)
{
	struct arena *a = request_arena(q);
	struct rd in = rd_span_over(q->args);
	void *rec = arena_alloc(a, q->op->args->size);

	if (rec == NULL || schema_unpack(q->op->args, &in, a, rec) != TV_OK || rd_end(&in) != TV_OK)
		request_failf(q, TV_EFORMAT, "malformed arguments");
	else if (is_another_servers(q, rec))
		request_failf(q, TV_ECONFLICT, "this is another server now");
	else
		row->serve(q, rec);
}

void
op_permitted(struct request *q, struct span args, struct span premises)
{
	const struct request_op *row;

	if (q->op->kind == OP_WRITE)
		op_write(q, args, premises);
	else if (engine_opening(q->d->engine) && !needs_no_state(q->op))
		op_not_leader(q);		/* who has a state answers sooner */
	else if (args.p != q->args.p && !request_keep(q, args, SPAN_NONE))
		request_failf(q, TV_ENOMEM, "out of memory");
	else if ((row = find_row(q->op->code)) != NULL)
		serve(q, row);
	else
		request_failf(q, TV_EINVAL, "nobody carries out this operation");
}

/* Only the leader does it, and that is another one. */
static bool
is_another_leaders(const struct request *q)
{
	bool asks_leader = q->op->kind == OP_WRITE || q->op->kind == OP_LEADER;

	return asks_leader && !engine_is_leader(q->d->engine) && !(q->mode == OP_STALE && q->op->traits & OP_STALE_OK);
}

/* A read of the state, which is judged where it is read. */
static void
start_read(struct request *q, const struct op_request *ask)
{
	if (!keep_args(q, ask->args, ask->token))
		request_failf(q, TV_ENOMEM, "out of memory");
	else if (engine_opening(q->d->engine))
		op_not_leader(q);		/* who has a state answers sooner */
	else
		op_read(q, ask->max_stale_ms);
}

void
op_start(struct request *q, const struct op_request *ask, uint64_t *refused)
{
	q->op = op_find(ask->op);
	q->mode = ask->mode;
	q->index = ask->index;
	q->wait_ns = (int64_t)ask->wait_ms * 1000000;
	if (!is_ours(q, ask->op))
		return;
	if (ask->args.len > q->d->conf.request_bytes_max) {
		request_failf(q, TV_ELIMIT, "the request is larger than request_bytes_max allows");
	} else if (requests_full(q->d->requests, ask->args.len)) {
		++*refused;
		request_failf(q, TV_EAGAIN, "too many requests are pending; try again");
	} else if (is_another_leaders(q)) {
		op_not_leader(q);
	} else if (q->op->kind == OP_READ && find_row(q->op->code) == NULL) {
		start_read(q, ask);
	} else {
		op_judge(q, ask->args, ask->token);
	}
}
