/* The way of a write into the log. */
#include <sodium.h>
#include <stdio.h>

#include "common/base/clock.h"
#include "common/base/uuid.h"
#include "raftd/engine/propose.h"
#include "raftd/fsm/fsm.h"

#define ARGS_BYTES_MAX (48u << 20)

void
uuid_make(char out[37])
{
	/* One system call for many ids.  Used on the loop thread only. */
	static uint8_t pool[1024];
	static size_t left;

	if (left < UUID_BYTES) {
		randombytes_buf(pool, sizeof(pool));
		left = sizeof(pool);
	}
	left -= UUID_BYTES;
	uuid_v4(pool + left, out);
}

enum tv_err
propose_judged(struct raftd *d, struct proposal *p, uint16_t op, struct span args, struct span premises, struct arena *a,
    struct span *text)
{
	static struct buf prepared = { .max = ARGS_BYTES_MAX };	/* its memory is kept between writes */
	char uuid[37] = "", why[1024];
	enum tv_err err;

	*text = SPAN_NONE;
	/* Not worth preparing what no leader takes. */
	if (!engine_is_leader(d->engine))
		return engine_status(d->engine)->leader != 0 ? TV_ENOTLEADER : TV_ENOLEADER;
	if (op_find(op)->traits & OP_MAKES_ID)
		uuid_make(uuid);
	buf_reset(&prepared);
	err = fsm_prepare(d->fsm, &op, args, clock_wall_ns(), uuid, &prepared, a, text);
	if (err == TV_OK && premises.len > 0 && !engine_all_apply(d->engine, op, args, true, why, sizeof(why)))
		premises = SPAN_NONE;		/* a server of an older version could not apply it */
	if (err == TV_OK && !engine_all_apply(d->engine, op, args, false, why, sizeof(why))) {
		*text = arena_copy(a, span_str(why));
		err = TV_ECONFLICT;
	}
	if (err == TV_OK)
		err = engine_propose(d->engine, p, op, buf_span(&prepared), premises);
	if (err == TV_ENOSPACE) {
		engine_no_space_text(d->engine, why, sizeof(why));
		*text = arena_copy(a, span_str(why));
	}
	if (prepared.cap > (1u << 20))
		buf_done(&prepared);
	return err;
}

enum tv_err
propose_args(struct raftd *d, struct proposal *p, uint16_t op, struct span args, struct arena *a, struct span *text)
{
	return propose_judged(d, p, op, args, SPAN_NONE, a, text);
}

enum tv_err
propose_record(struct raftd *d, struct proposal *p, uint16_t op, const void *rec, proposal_done *done, char *why, size_t cap)
{
	struct buf args = BUF_INIT(ARGS_BYTES_MAX);
	struct arena a = ARENA_INIT(FSM_RECORD_MEMORY);
	struct span text = SPAN_NONE;
	enum tv_err err = TV_ENOMEM;

	schema_pack(op_find(op)->args, rec, &args);
	p->done = done;
	if (!args.failed)
		err = propose_args(d, p, op, buf_span(&args), &a, &text);
	if (why != NULL)
		snprintf(why, cap, "%.*s", (int)text.len, (const char *)text.p);
	buf_done(&args);
	arena_done(&a);
	return err;
}
