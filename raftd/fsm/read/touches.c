/*
 * What a batch touched.
 *
 * The applying thread does not know the watches, which belong to the loop: so it writes down keys, names of services and tables, and
 * the loop plays that to the watches once it learns of the batch.
 */
#include <stdlib.h>

#include "raftd/fsm/read/watch.h"

#define LOG_BYTES_MAX (1u << 20)	/* beyond that everybody is woken, who will find out */

struct fsm_touches *
fsm_touches_new(void)
{
	struct fsm_touches *t = calloc(1, sizeof(*t));

	if (t != NULL)
		buf_init(&t->log, LOG_BYTES_MAX);
	return t;
}

void
fsm_touches_free(struct fsm_touches *t)
{
	if (t == NULL)
		return;
	buf_done(&t->log);
	free(t);
}

void
touches_reset(struct fsm_touches *t)
{
	if (t->log.max == 0)
		buf_init(&t->log, LOG_BYTES_MAX);
	buf_reset(&t->log);
	t->tables = 0;
	t->all = false;
}

static void
log_touch(struct fsm_touches *t, enum watch_kind kind, struct span what)
{
	if (t->all)
		return;
	if (buf_room(&t->log, 5 + what.len) == NULL) {
		t->log.failed = false;		/* what is there stays: a group may be cut off */
		t->all = true;
		return;
	}
	buf_u8(&t->log, (uint8_t)kind);
	buf_u32be(&t->log, (uint32_t)what.len);
	buf_putspan(&t->log, what);
}

void
touched_key(struct fsm *f, struct span key)
{
	log_touch(f->touches, WK_KEY, key);
}

void
touched_service(struct fsm *f, struct span lower_name)
{
	log_touch(f->touches, WK_SERVICE, lower_name);
}

void
fsm_touch(struct fsm *f, enum fsm_index which)
{
	_Static_assert(FX_COUNT <= 64, "a set of tables is 64 bits");
	f->index[which] = f->at;
	f->touches->tables |= UINT64_C(1) << which;
}

struct touches_mark
touches_mark(const struct fsm_touches *t)
{
	return (struct touches_mark){ t->log.len, t->tables, t->all };
}

void
touches_cut(struct fsm_touches *t, struct touches_mark mark)
{
	t->log.len = mark.len;
	t->tables = mark.tables;
	t->all = mark.all;
}

/* -- on the loop -- */

void
fsm_fire(struct fsm *f, struct fsm_touches *t)
{
	struct rd r = rd_span_over(buf_span(&t->log));

	if (t->all)
		watches_touch_all(f->watches);
	while (!t->all && rd_left(&r) > 0) {
		enum watch_kind kind = rd_u8(&r);
		uint32_t n = rd_u32be(&r);
		struct span what = rd_bytes(&r, n);

		if (kind == WK_KEY)
			watches_touch_key(f->watches, what);
		else
			watches_touch_service(f->watches, what);
	}
	watches_touch_tables(f->watches, t->tables);
	touches_reset(t);
	watches_fire(f->watches);
}

void
fsm_fire_all(struct fsm *f)
{
	watches_touch_all(f->watches);
	watches_fire(f->watches);
}
