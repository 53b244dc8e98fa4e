/*
 * `clusterctl raft recover`: the majority is lost for good, and an operator says that this server goes on alone, as the
 * only voter of the next generation of the cluster.  Everything that this server's log has counts; servers of the old
 * generation are refused for ever (raftd/peers/fence.h) and come back as new ones, with empty data directories.
 */
#ifndef TV_RAFTD_MEMBERS_RECOVER_H
#define TV_RAFTD_MEMBERS_RECOVER_H

#include "raftd/peers/links.h"
#include "raftd/raftd.h"

struct recover;

struct recover *recover_new(struct raftd *d);
void recover_free(struct recover *r);
/*
 * Asks the others how far they are, makes the report, and unless dry_run or refused does it.  done is called once; value
 * is a packed raft_recovery, or empty.  err: TV_ECONFLICT refused (the text says why, the report is there), TV_EAGAIN one
 * is under way.
 */
typedef void recover_done(void *ctx, enum tv_err err, const char *text, struct span value);
void recover_start(struct recover *r, bool dry_run, recover_done *done, void *ctx);
/* The request is gone: done is not called. */
void recover_forget(struct recover *r, void *ctx);

#endif
