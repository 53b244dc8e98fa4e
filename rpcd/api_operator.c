/* /v1/operator/raft/: who votes. */
#include "common/records.h"
#include "rpcd/api.h"

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

const struct endpoint api_operator[] = {
	{ "/v1/operator/raft/configuration", "GET", BODY_NONE, run_configuration },
	{ "/v1/operator/raft/peer", "DELETE", BODY_NONE, run_peer },
	{ "/v1/operator/raft/transfer", "PUT", BODY_NONE, run_transfer },
	{ "/v1/operator/raft/transfer-leader", "POST,PUT", BODY_NONE, run_transfer },
	{ NULL, NULL, BODY_NONE, NULL },
};
