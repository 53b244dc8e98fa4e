/* What this server tells about itself: MSG_INFO, MSG_RAFT_STATUS, status and configuration answers. */
#ifndef TV_RAFTD_SERVE_INFO_H
#define TV_RAFTD_SERVE_INFO_H

#include "common/net/chan.h"
#include "raftd/raftd.h"

/* Answer of MSG_INFO: map section -> map name -> text. */
void info_write(struct raftd *d, struct buf *out);
void info_write_status(struct raftd *d, struct chan *c);
/* Answer values of the operations. */
void info_status_leader(struct raftd *d, struct buf *out);
void info_status_peers(struct raftd *d, struct buf *out);
/* The index of the configuration that is told. */
uint64_t info_configuration(struct raftd *d, struct buf *out);

#endif
