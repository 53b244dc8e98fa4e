/*
 * Live logs of this node's daemons for clients of the API: rpcd's own lines, and those of gossipd and raftd over a
 * channel of their own each, so that a slow reader hurts nobody else.
 */
#ifndef TV_MONITORS_H
#define TV_MONITORS_H

#include <ev.h>

#include "common/base/err.h"
#include "common/base/log.h"

#define MONITORS_MAX 8			/* at a time: raftd.sock and gossipd.sock have other clients too */

enum monitor_daemons { MONITOR_GOSSIPD = 1, MONITOR_RAFTD = 2, MONITOR_RPCD = 4, MONITOR_ALL = 7 };

struct monitors;
struct monitoring;

struct monitors_conf {
	struct ev_loop *loop;
	const char *gossipd_path, *raftd_path;	/* sockets; raftd_path NULL on a client.  Borrowed, as node_id */
	const char *node_id;
};

/* NULL: no memory. */
struct monitors *monitors_new(const struct monitors_conf *conf);
/* After the last monitoring_stop(). */
void monitors_free(struct monitors *m);
/*
 * Lines up to `level` of these daemons (enum monitor_daemons), from now on.  json: an object in each line.  wake is
 * called when there is something to read, and there was nothing.  NULL: *err is TV_ELIMIT (MONITORS_MAX) or TV_ENOMEM.
 */
struct monitoring *monitoring_start(struct monitors *m, enum log_level level, unsigned daemons, bool json,
    void (*wake)(void *ctx), void *ctx, enum tv_err *err);
/* Takes what is there; 0: nothing now. */
size_t monitoring_read(struct monitoring *w, void *dst, size_t max);
void monitoring_stop(struct monitoring *w);

#endif
