/* Entries on their way to followers: from the cache, or read from the log by a thread. */
#include <errno.h>

#include "raftd/engine/engine_int.h"
#include "raftd/engine/entrycache.h"

#define READ_BYTES (1u << 20)		/* at a time, unless one message may take more */

static void
on_read(void *ctx)
{
	engine_wake(ctx);
}

struct log_reader *
engine_reader_new(struct engine *e)
{
	uint64_t bytes = e->d->conf.append_bytes_max > READ_BYTES ? e->d->conf.append_bytes_max : READ_BYTES;

	return log_reader_new(e->d->loop, e->d->log, (size_t)bytes, on_read, e);
}

struct log_window *
engine_window(struct engine *e)
{
	return log_window_new(e->reader);
}

/* Goes on from the cache behind the *got that there are. */
static void
add_cached(struct engine *e, uint64_t first, uint32_t count, uint32_t *got)
{
	const struct raft_entry *c;

	while (*got < count && (c = entrycache_get(e->cache, first + *got)) != NULL)
		e->outgoing[(*got)++] = *c;
}

enum tv_err
engine_entries_to_send(struct engine *e, struct log_window *w, uint64_t first, uint32_t count,
    const struct raft_entry **out, uint32_t *got)
{
	uint64_t cached = entrycache_first(e->cache), last, bad;
	enum tv_err err;

	if (count > ENTRIES_SCRATCH)
		count = ENTRIES_SCRATCH;
	*out = e->outgoing;
	*got = 0;
	add_cached(e, first, count, got);
	if (*got > 0) {
		log_window_clear(w);
		return TV_OK;
	}
	last = cached != 0 ? cached - 1 : engine_status(e)->last_index;
	err = log_window_get(w, first, count, last, e->outgoing, got, &bad);
	if (err == TV_ECORRUPT || err == TV_ESYS)
		engine_log_unreadable(e, bad, err, errno);
	if (err == TV_OK)
		add_cached(e, first, count, got);
	return err;
}
