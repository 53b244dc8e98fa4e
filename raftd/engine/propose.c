/* The way of a write into the log. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "raftd/engine/propose.h"

#define ARGS_BYTES_MAX (48u << 20)

void
uuid_make(char out[37])
{
	/* One system call for many ids.  Used on the loop thread only. */
	static uint8_t pool[1024];
	static size_t left;
	uint8_t *u;

	if (left < 16) {
		randombytes_buf(pool, sizeof(pool));
		left = sizeof(pool);
	}
	left -= 16;
	u = pool + left;
	u[6] = (uint8_t)((u[6] & 0x0f) | 0x40);
	u[8] = (uint8_t)((u[8] & 0x3f) | 0x80);
	snprintf(out, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
	    u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

enum tv_err
write_start(struct raftd *d, struct proposal *p, uint16_t op, struct span args, struct arena *a, struct span *text)
{
	static struct buf prepared = { .max = ARGS_BYTES_MAX };	/* its memory is kept between writes */
	char uuid[37] = "";
	enum tv_err err;

	*text = SPAN_NONE;
	/* Not worth preparing what nobody would take. */
	if (!engine_is_leader(d->engine))
		return engine_status(d->engine)->leader != 0 ? TV_ENOTLEADER : TV_ENOLEADER;
	if (op == OP_SESSION_CREATE)
		uuid_make(uuid);
	buf_reset(&prepared);
	err = fsm_prepare(d->fsm, op, args, clock_wall_ns(), uuid, &prepared, a, text);
	if (err == TV_OK)
		err = engine_propose(d->engine, p, op, buf_span(&prepared));
	if (err == TV_ENOSPACE) {
		char why[1024];

		engine_no_space_text(d->engine, why, sizeof(why));
		*text = arena_copy(a, span_str(why));
	}
	if (prepared.cap > (1u << 20))
		buf_done(&prepared);
	return err;
}
