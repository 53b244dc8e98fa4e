/* What `info` and /v1/agent/metrics show of rpcd. */
#ifndef TV_RPCD_INFO_H
#define TV_RPCD_INFO_H

#include "common/base/buf.h"

/* admin_conf.own_info, ctx being the struct rpcd: the pairs of the section "rpcd", texts each.  Returns how many. */
unsigned info_put(void *ctx, struct buf *b);

#endif
