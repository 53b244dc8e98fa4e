/*
 * Live logs of this node's daemons for clients of the API: rpcd's own lines, and those of gossipd and raftd over a
 * channel of their own each, so that a slow reader delays no other.
 */
#ifndef TV_RPCD_NODE_LOG_STREAMS_H
#define TV_RPCD_NODE_LOG_STREAMS_H

#include <ev.h>

#include "common/base/err.h"
#include "common/base/log.h"

#define LOG_STREAMS_MAX 8			/* at a time: raftd.sock and gossipd.sock have other clients too */

enum log_stream_daemons { LOG_STREAM_GOSSIPD = 1, LOG_STREAM_RAFTD = 2, LOG_STREAM_RPCD = 4, LOG_STREAM_ALL = 7 };

struct log_streams;
struct log_stream;

struct log_streams_conf {
	struct ev_loop *loop;
	const char *gossipd_path, *raftd_path;	/* sockets; raftd_path NULL on a client.  Borrowed, as node_id */
	const char *node_id;
};

/* NULL: no memory. */
struct log_streams *log_streams_new(const struct log_streams_conf *conf);
/* After the last log_stream_stop(). */
void log_streams_free(struct log_streams *m);
/*
 * Lines up to `level` of these daemons (enum log_stream_daemons), from now on.  json: an object in each line.  wake is
 * called when there is something to read, and there was nothing.  NULL: *err is TV_ELIMIT (LOG_STREAMS_MAX) or
 * TV_ENOMEM.
 */
struct log_stream *log_stream_start(struct log_streams *m, enum log_level level, unsigned daemons, bool json,
    void (*wake)(void *ctx), void *ctx, enum tv_err *err);
/* Takes what is there; 0: nothing now. */
size_t log_stream_read(struct log_stream *w, void *dst, size_t max);
void log_stream_stop(struct log_stream *w);

#endif
