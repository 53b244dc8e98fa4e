/* From rpcd.conf to what the process "rpcd: dns" is told; see dns_process.h for the rest. */
#ifndef TV_RPCD_NAMES_DNS_CONF_H
#define TV_RPCD_NAMES_DNS_CONF_H

#include "common/base/arena.h"
#include "common/record/messages.h"
#include "rpcd/opts.h"

/* Of a configuration that was checked.  Spans borrow it and the arena. */
void dns_conf_setup(const struct rpcd_conf *c, const char *datacenter, struct arena *a, struct msg_dns_setup *out);

#endif
