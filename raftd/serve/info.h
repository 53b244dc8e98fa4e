/* What this server tells about itself: MSG_INFO, MSG_RAFT_STATUS, status and configuration answers. */
#ifndef TV_RAFTD_SERVE_INFO_H
#define TV_RAFTD_SERVE_INFO_H

#include "raftd/request/request.h"

struct info;

/* NULL: no memory. */
struct info *info_new(struct raftd *d);
/* After the requests have gone. */
void info_free(struct info *i);
/*
 * Answers MSG_INFO: map section -> map name -> text.  Figures of the state come from its threads, so the answer is given a
 * little later; and when they do not answer, as when a disk hangs, with the figures that were found last.
 */
void info_ask(struct info *i, struct request *q);
/* The same at once, with the figures of the state that were found last. */
void info_now(struct info *i, struct request *q);
/* It is not to be answered any more; another one: nothing. */
void info_forget(struct info *i, const struct request *q);
void info_write_status(struct raftd *d, struct chan *c);
/* Answer values of the operations. */
void info_status_leader(struct raftd *d, struct buf *out);
void info_status_peers(struct raftd *d, struct buf *out);
/* The index of the configuration that is told. */
uint64_t info_configuration(struct raftd *d, struct buf *out);

#endif
