/* /v1/operator/raft/: who votes. */
#include "common/record/records.h"
#include "rpcd/api/api.h"

static void
finish_json(struct request *r, const struct op_reply *reply)
{
	if (!api_failed(r, reply))
		api_json(r, reply);
}

static void
run_configuration(struct request *r)
{
	if (api_query(r, false))
		api_start(r, OP_RAFT_CONFIGURATION, &(struct empty_rec){ 0 }, finish_json);
}

/* Success is an empty 200. */
static void
finish_done(struct request *r, const struct op_reply *reply)
{
	if (!api_failed(r, reply))
		answer_empty(r, 200);
}

static void
run_peer(struct request *r)
{
	struct raft_peer args = {
		.ID = params_get(&r->query, "id"),
		.Address = params_get(&r->query, "address"),
		.Force = params_has(&r->query, "force"),
	};

	api_query_dc(r);
	if (args.ID.len == 0 && args.Address.len == 0)
		answer_text(r, 400, "Bad request: Must specify either ?id with the server's ID or "
		    "?address with IP:port of peer to remove");
	else if (args.ID.len > 0 && args.Address.len > 0)
		answer_text(r, 400, "Bad request: Must specify only one of ?id or ?address");
	else
		api_start(r, OP_RAFT_REMOVE, &args, finish_done);
}

static void
finish_transfer(struct request *r, const struct op_reply *reply)
{
	struct bool_reply b = { 0 };

	if (api_failed(r, reply) || !api_record(r, reply, &bool_reply_schema, &b))
		return;
	buf_printf(&r->answer.body, "{\"Success\":%s}", b.Value ? "true" : "false");
	answer_json(r);
}

/* ?id or ?address of the new leader; without either the leader chooses. */
static void
run_transfer(struct request *r)
{
	struct raft_peer args = { .ID = params_get(&r->query, "id"), .Address = params_get(&r->query, "address") };

	api_query_dc(r);
	api_start(r, OP_RAFT_TRANSFER, &args, finish_transfer);
}

/* -- recovery of a cluster that lost its majority: this node's raftd, and nobody else's -- */

static void
on_recover(void *ctx, enum tv_err err, struct span text, struct span value)
{
	struct note *n = ctx;
	struct request *r = note_request(n);
	struct rd in = rd_span_over(value);
	bool look;

	note_free(n);
	if (r == NULL)
		return;
	look = r->head.method[0] == 'G';	/* a refusal is part of what it shows */
	if (value.len > 0 && (err == TV_OK || (err == TV_ECONFLICT && look))) {
		if (schema_json(&raft_recovery_schema, &in, &r->answer.body) == TV_OK)
			answer_json(r);
		else
			answer_text(r, 500, "malformed answer of raftd");
	} else {
		answer_span(r, err == TV_ECONFLICT || err == TV_EAGAIN ? 409 : 500,
		    text.len > 0 ? text : span_str(tv_strerror(err)));
	}
}

/* GET: what it would mean.  PUT: does it.  Both only from this machine: whoever decides this stands at the server. */
static void
run_recover(struct request *r)
{
	struct note *n;
	enum tv_err err;

	if (r->head.client_ip != NULL && !r->head.on_loopback) {
		answer_text(r, 403, "A recovery is asked for on the server itself: run clusterctl raft recover there, "
		    "over its socket or a loopback address");
		return;
	}
	n = note_new(r);
	err = n == NULL ? TV_ENOMEM : admin_recover(r->api->admin, r->head.method[0] == 'G', on_recover, n);
	if (err == TV_OK)
		return;
	note_free(n);
	if (err == TV_EINVAL)
		answer_text(r, 400, "Bad request: this node is no server, so it has no part of the cluster's data");
	else if (err == TV_EUNREACH || err == TV_ECLOSED)
		answer_text(r, 500, "raftd is not running on this node");
	else
		answer_text(r, 500, "%s", tv_strerror(err));
}

const struct endpoint api_operator[] = {
	{ "/v1/operator/raft/configuration", "GET", BODY_NONE, run_configuration, NOT_ADMIN },
	{ "/v1/operator/raft/peer", "DELETE", BODY_NONE, run_peer, "DELETE" },
	{ "/v1/operator/raft/transfer", "PUT", BODY_NONE, run_transfer, "PUT" },
	{ "/v1/operator/raft/transfer-leader", "POST,PUT", BODY_NONE, run_transfer, "POST,PUT" },
	{ "/v1/operator/raft/recover", "GET,PUT", BODY_NONE, run_recover, "GET,PUT" },
	{ NULL, NULL, BODY_NONE, NULL, NULL },
};
