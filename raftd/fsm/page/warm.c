/*
 * Pages that a batch will read, fetched before it begins.
 *
 * The applying thread keeps the pages that it changes locked until its transaction ends; what it reads from the disk in between, readers of
 * what is cached wait for as well.  So as long as batches are found to read, a reader looks beforehand at the records that the entries
 * name, and waits for the disk where nothing is locked.  What it does not foresee the batch reads for itself.
 */
#include "common/record/mpack.h"
#include "raftd/fsm/ops.h"
#include "raftd/fsm/page/page.h"
#include "raftd/fsm/read/read.h"

#define WARM_BATCHES 32			/* that are looked through after one that had to read */

static void
look_through(struct fsm *r, const struct raft_entry *e)
{
	struct rd in = rd_over(e->payload, e->size);
	uint32_t fields = e->type == RAFT_ENTRY_OP ? mpr_array(&in) : 0;
	uint16_t code = fields >= 2 ? (uint16_t)mpr_uint(&in, UINT16_MAX) : 0;
	const struct fsm_op *row = fields >= 2 && in.err == TV_OK ? fsm_op_find(code) : NULL;
	const struct op *op = op_find(code);
	void *rec;

	if (row == NULL || row->warm == NULL || op == NULL)
		return;
	arena_reset(&r->work);
	rec = arena_alloc(&r->work, op->args->size);
	if (rec != NULL && schema_unpack(op->args, &in, &r->work, rec) == TV_OK)
		row->warm(r, rec);
}

void
warm_begin(struct fsm *f)
{
	f->warm.left = WARM_BATCHES;
}

void
warm_batch(struct fsm *f, const struct raft_entry *entries, uint32_t count)
{
	struct fsm *r = f->warm.reader;

	if (f->warm.left == 0)
		return;
	f->warm.left--;
	if (r == NULL)
		r = f->warm.reader = fsm_reader(f);
	if (r == NULL)
		return;				/* the batch reads for itself */
	r->fetched = 0;
	fsm_read_begin(r, false);
	for (uint32_t i = 0; i < count && !warm_enough(r); i++)
		look_through(r, &entries[i]);
	fsm_read_end(r);
	f->warm.fetched += r->fetched;
	if (r->fetched > 0)
		warm_begin(f);
}

void
warm_batch_read(struct fsm *f, uint64_t pages)
{
	f->warm.read += pages;
	if (pages > 0)
		warm_begin(f);
}

void
warm_end(struct fsm *f)
{
	fsm_reader_free(f->warm.reader);
	f->warm.reader = NULL;
}
