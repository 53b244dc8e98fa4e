/* Writes: prepared, proposed with everything else of this turn, answered when applied. */
#include "raftd/engine/propose.h"
#include "raftd/fsm/fsm.h"
#include "raftd/serve/op.h"

#define WRITE_MEMORY (24u << 20)	/* that a registration or a transaction may take decoded; more is refused anyhow */
#define UNKNOWN_TEXT "leadership was lost, or no majority answered, before the write was known to be committed; " \
	"it may have been applied"

void
op_write_failed(struct request *q, enum tv_err err, struct span text)
{
	if (err == TV_EUNKNOWN)
		request_failf(q, err, UNKNOWN_TEXT);
	else
		request_fail(q, err, err == TV_ENOLEADER ? span_str("No cluster leader") : text);
}

/* What a transaction has read is shown as far as it may be seen. */
static void
reply_filtered(struct request *q, uint64_t index, struct span value)
{
	struct buf seen = BUF_INIT(FRAME_BODY_BYTES_MAX);

	if (fsm_txn_filter(q->rights, value, &seen) == TV_OK && !seen.failed)
		request_reply(q, index, buf_span(&seen));
	else
		request_failf(q, TV_ELIMIT, "it was carried out, but there is no memory for the answer");
	buf_done(&seen);
}

static void
on_done(struct proposal *p, enum tv_err err, const struct fsm_result *result)
{
	struct request *q = (struct request *)((char *)p - offsetof(struct request, write));

	if (err != TV_OK)
		op_write_failed(q, err, SPAN_NONE);
	else if (result->outdated)
		op_judge_again(q);
	else if (result->err != TV_OK)
		request_fail(q, result->err, result->text);
	else if (q->op->code == OP_TXN_APPLY && q->rights != NULL)
		reply_filtered(q, p->index, result->value);
	else
		request_reply(q, p->index, result->value);
}

/* True: it would take from a member that lives, and is refused. */
static bool
is_claim(struct request *q, struct span args)
{
	struct arena a = ARENA_INIT(WRITE_MEMORY);
	bool refused = (q->op->code == OP_TXN_APPLY && op_claims_txn(q, args, &a)) ||
	    (q->op->code == OP_CATALOG_REGISTER && op_claims_register(q, args, &a));

	arena_done(&a);
	return refused;
}

void
op_propose(struct request *q, struct span args, struct span premises)
{
	struct span text;
	enum tv_err err;

	if (is_claim(q, args))
		return;
	q->write.done = on_done;
	err = propose_judged(q->d, &q->write, q->op->code, args, premises, request_arena(q), &text);
	if (err != TV_OK)
		op_write_failed(q, err, text);
}

void
op_write(struct request *q, struct span args, struct span premises)
{
	q->writing = true;
	if (!op_tree(q, args, on_done) && !op_acl(q, args))
		op_propose(q, args, premises);
}
