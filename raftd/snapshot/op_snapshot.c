/* Answers to operations on snapshots; see op_snapshot.h. */
#include "raftd/fsm/fsm.h"
#include "raftd/snapshot/op_snapshot.h"

#define PIECE_BYTES (512u << 10)
#define OVERHEAD 4096			/* of an answer beside the piece */
#define LATER 0.1			/* seconds */

size_t
snapshot_piece(const struct raftd *d)
{
	return d->conf.answer_bytes_max - OVERHEAD < PIECE_BYTES ? (size_t)d->conf.answer_bytes_max - OVERHEAD : PIECE_BYTES;
}

void
snapshot_answer(struct request *q, uint64_t index, const struct snapshot_state *st)
{
	struct buf *out = request_buf(q);

	schema_pack(&snapshot_state_schema, st, out);
	request_reply(q, index, buf_span(out));
}

static void
on_later(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct request *q = w->data;
	struct rd r = rd_span_over(q->args);
	struct snapshot_state st = { .Phase = 0 };

	/* The arguments are not needed any more; the answer took their place. */
	if (schema_unpack(&snapshot_state_schema, &r, request_arena(q), &st) == TV_OK)
		snapshot_answer(q, fsm_index(q->d->fsm), &st);
	else
		request_failf(q, TV_ENOMEM, "out of memory");
}

void
snapshot_answer_later(struct request *q, const struct snapshot_state *st)
{
	struct buf *out = request_buf(q);

	schema_pack(&snapshot_state_schema, st, out);
	if (out->failed || !request_keep(q, buf_span(out), SPAN_NONE)) {
		request_failf(q, TV_ENOMEM, "out of memory");
		return;
	}
	ev_now_update(q->d->loop);
	ev_timer_init(&q->timer, on_later, LATER, 0.);
	q->timer.data = q;
	ev_timer_start(q->d->loop, &q->timer);
}
