/*
 * The audit trail: lines on their way to the log or to a file.  The loop only appends to a queue in memory; a thread of
 * its own writes, and may wait for a disk.  The queue is bounded: lines that find no room are counted, and as soon as
 * there is room again a line of the trail says how many are missing, and the log too.
 *
 * The file is appended to and never made shorter.  It is opened again when another file stands at its path, or none,
 * and with trail_set(): a tool that rotates it renames it.  Its lines are whole: a line that the disk took only half of
 * is written again when there is space.  Until then the queue fills.  Nothing waits for the disk to have what was
 * written.  Lines of ten milliseconds are one write: no more than those are lost when rpcd is killed.
 */
#ifndef TV_RPCD_AUDIT_TRAIL_H
#define TV_RPCD_AUDIT_TRAIL_H

#include <ev.h>

#include "common/base/buf.h"
#include "common/conf/cluster_conf.h"
#include "rpcd/opts.h"

#define TRAIL_QUEUE_MAX (1u << 20)	/* bytes that wait */

struct trail;

enum trail_to { TRAIL_OFF, TRAIL_LOG, TRAIL_FILE };

/* Off.  node, borrowed, is this node's name.  NULL: no memory. */
struct trail *trail_new(struct ev_loop *loop, const char *node);
/*
 * Where lines go from now on.  path: of the file, copied.  The log is the one that log_init() set last.  The thread
 * starts here, once.  TV_ESYS: it cannot be started, and the trail is off.
 */
enum tv_err trail_set(struct trail *t, enum trail_to to, const char *path);
/* The same, as the configuration says.  What fails is logged. */
enum tv_err trail_configure(struct trail *t, const struct rpcd_conf *conf, const struct cluster_conf *cluster);
bool trail_is_on(const struct trail *t);	/* NULL: false */
/* A line of audit_line().  denied: the party, a keyed hash of source and accessor, see denials.h; 0: it was not. */
void trail_add(struct trail *t, struct span line, uint64_t denied);

struct trail_stats {		/* lines since the start */
	uint64_t written, lost, failures;	/* failures: times that writing began to fail */
	uint64_t denials;		/* of the lost ones: denials that were more than is written of one party */
};
void trail_stats(struct trail *t, struct trail_stats *out);	/* NULL: zeros */

/*
 * Waits until all is written, but not for long: what a disk does not take then is lost, and logged so.  NULL: nothing.
 */
void trail_free(struct trail *t);

#endif
