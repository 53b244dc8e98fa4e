/* What `info` shows of gossipd. */
#ifndef TV_GOSSIPD_INFO_H
#define TV_GOSSIPD_INFO_H

#include "common/base/buf.h"
#include "gossipd/engine.h"

/* The answer to MSG_INFO: sections gossipd, serf_lan and, on servers, serf_wan. */
void info_write(const struct engine *e, struct buf *b);

#endif
