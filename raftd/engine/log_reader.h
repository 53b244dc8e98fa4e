/*
 * Entries for followers that are behind, read from the log by a thread.
 *
 * Each follower has a window: entries in order, from the next one that is to be sent on, read ahead of what is sent by a
 * bounded amount.  A window asked for entries that are not there yet gets a callback when they are.  On the loop.
 */
#ifndef TV_RAFTD_ENGINE_LOG_READER_H
#define TV_RAFTD_ENGINE_LOG_READER_H

#include <ev.h>

#include "raftd/store/store.h"

#define LOG_READER_BYTES (2u << 20)	/* of payload that are read ahead for each follower */
#define LOG_READER_ENTRIES 4096		/* in one read */

struct log_reader;
struct log_window;

/* read: on the loop, when something was read or cannot be.  bytes_max: payload of one read.  NULL: no memory. */
struct log_reader *log_reader_new(struct ev_loop *loop, struct log_store *log, size_t bytes_max,
    void (*read)(void *ctx), void *ctx);
/* Waits for a read under way.  NULL: nothing. */
void log_reader_free(struct log_reader *r);

/* NULL: no memory. */
struct log_window *log_window_new(struct log_reader *r);
void log_window_free(struct log_window *w);
/* Forgets what was read: it is not needed, or may not be in the log any more.  Costs nothing when there is nothing. */
void log_window_clear(struct log_window *w);

/*
 * Up to count entries from first on, but none behind `last`, the end of what is worth reading, into out[count]: *got.  The
 * payloads are the window's, until the next call for it.  TV_EAGAIN: they are on their way.  TV_ENOENT: the log has them no
 * more.  TV_ENOMEM.  TV_ECORRUPT, TV_ESYS with errno: entry *bad cannot be read; what comes before it was given first.
 */
enum tv_err log_window_get(struct log_window *w, uint64_t first, uint32_t count, uint64_t last, struct raft_entry *out,
    uint32_t *got, uint64_t *bad);

#endif
