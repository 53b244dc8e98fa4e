/* Writes: prepared, proposed with everything else of this turn, answered when applied. */
#include "raftd/engine/propose.h"
#include "raftd/serve/op.h"

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

static void
on_done(struct proposal *p, enum tv_err err, const struct fsm_result *result)
{
	struct request *q = (struct request *)((char *)p - offsetof(struct request, write));

	if (err != TV_OK)
		op_write_failed(q, err, SPAN_NONE);
	else if (result->err != TV_OK)
		request_fail(q, result->err, result->text);
	else
		request_reply(q, p->index, result->value);
}

void
op_write(struct request *q, struct span args)
{
	struct span text;
	enum tv_err err;

	q->writing = true;
	if (op_tree(q, args, on_done))
		return;
	q->write.done = on_done;
	err = propose_args(q->d, &q->write, q->op->code, args, request_arena(q), &text);
	if (err != TV_OK)
		op_write_failed(q, err, text);
}
