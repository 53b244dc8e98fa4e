/* /v1/operator/raft/: who votes. */
#include "common/record/records.h"
#include "rpcd/api/api.h"

static bool
check_remove(struct request *r, void *args)
{
	const struct raft_peer *peer = args;

	if (peer->ID.len == 0 && peer->Address.len == 0)
		answer_text(r, 400, "Bad request: Must specify either ?id with the server's ID or "
		    "?address with IP:port of peer to remove");
	else if (peer->ID.len > 0 && peer->Address.len > 0)
		answer_text(r, 400, "Bad request: Must specify only one of ?id or ?address");
	return !r->answered;
}

/* -- recovery of a cluster that lost its majority: this node's raftd alone -- */

enum { FOR_GOOD, DRY_RUN };

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
	look = r->endpoint->arg == DRY_RUN;	/* a refusal is part of what it shows */
	if (value.len > 0 && (err == TV_OK || (err == TV_ECONFLICT && look))) {
		if (schema_json(&raft_recovery_schema, &in, &r->answer.body) == TV_OK)
			answer_json(r);
		else
			answer_text(r, 500, "malformed reply from raftd");
	} else {
		answer_span(r, err == TV_EPERM ? 403 : err == TV_ECONFLICT || err == TV_EAGAIN ? 409 : 500,
		    text.len > 0 ? text : span_str(tv_strerror(err)));
	}
}

/* GET: what it would mean.  PUT: does it.  Both only from this machine: it is decided at the server. */
static void
run_recover(struct request *r)
{
	struct note *n;
	enum tv_err err;

	if (r->head.client_ip != NULL && !r->head.on_loopback) {
		answer_text(r, 403, "A recovery must be requested on the server itself: run clusterctl raft recover "
		    "there, over its socket or a loopback address");
		return;
	}
	n = note_new(r);
	err = n == NULL ? TV_ENOMEM : admin_recover(r->api->admin, r->endpoint->arg == DRY_RUN, api_token(r),
	    on_recover, n);
	if (err == TV_OK)
		return;
	note_free(n);
	if (err == TV_EINVAL)
		answer_text(r, 400, "Bad request: this node is a client, so it holds none of the cluster's data");
	else if (err == TV_EUNREACH || err == TV_ECLOSED)
		answer_text(r, 500, "raftd is not running on this node");
	else
		answer_text(r, 500, "%s", tv_strerror(err));
}

#define PEER FROM_QUERY("id", raft_peer, ID), FROM_QUERY("address", raft_peer, Address)
/* Without either of the two the leader chooses. */
#define TRANSFER ACCESS_OP | ACCESS_ADMIN, NULL, OP_RAFT_TRANSFER, .query = QUERY_DC, BIND(PEER), \
    .render = RENDER_VALUE, .wrap = "Success"

const struct endpoint api_operator[] = {
	{ "/v1/operator/raft/configuration", "GET", ACCESS_OP, NULL, OP_RAFT_CONFIGURATION, .query = QUERY_READ },
	{ "/v1/operator/raft/peer", "DELETE", ACCESS_OP | ACCESS_ADMIN, NULL, OP_RAFT_REMOVE, .query = QUERY_DC,
	    BIND(PEER, FROM_QUERY("force", raft_peer, Force)), .check = check_remove, .render = RENDER_EMPTY },
	{ "/v1/operator/raft/transfer", "PUT", TRANSFER },
	{ "/v1/operator/raft/transfer-leader", "POST", TRANSFER },
	{ "/v1/operator/raft/transfer-leader", "PUT", TRANSFER },
	{ "/v1/operator/raft/recover", "GET", ACCESS_OPERATOR_READ | ACCESS_ADMIN, .arg = DRY_RUN, .run = run_recover },
	{ "/v1/operator/raft/recover", "PUT", ACCESS_OPERATOR_WRITE | ACCESS_ADMIN, .arg = FOR_GOOD,
	    .run = run_recover },
	{ .path = NULL },
};
