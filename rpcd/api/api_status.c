/* /v1/status/: who leads.  Answered without asking for a leader. */
#include "common/record/records.h"
#include "rpcd/api/api.h"

static void
finish_text(struct request *r, const struct op_reply *reply)
{
	struct text_reply t = { 0 };

	if (api_failed(r, reply) || !api_record(r, reply, &text_reply_schema, &t))
		return;
	json_quote(t.Value, &r->answer.body);
	answer_json(r);
}

static void
finish_texts(struct request *r, const struct op_reply *reply)
{
	struct text_list t = { 0 };

	if (api_failed(r, reply) || !api_record(r, reply, &text_list_schema, &t))
		return;
	buf_u8(&r->answer.body, '[');
	for (uint32_t i = 0; i < t.Values.n; i++) {
		if (i > 0)
			buf_u8(&r->answer.body, ',');
		json_quote(t.Values.v[i], &r->answer.body);
	}
	buf_u8(&r->answer.body, ']');
	answer_json(r);
}

static void
run_leader(struct request *r)
{
	api_query_dc(r);
	r->op.mode = OP_STALE;
	api_start(r, OP_STATUS_LEADER, &(struct empty_rec){ 0 }, finish_text);
}

static void
run_peers(struct request *r)
{
	api_query_dc(r);
	r->op.mode = OP_STALE;
	api_start(r, OP_STATUS_PEERS, &(struct empty_rec){ 0 }, finish_texts);
}

const struct endpoint api_status[] = {
	{ "/v1/status/leader", "GET", BODY_NONE, run_leader, NOT_ADMIN },
	{ "/v1/status/peers", "GET", BODY_NONE, run_peers, NOT_ADMIN },
	{ NULL, NULL, BODY_NONE, NULL, NULL },
};
