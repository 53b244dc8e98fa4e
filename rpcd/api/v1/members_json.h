/* Members of a gossip pool as the API shows them. */
#ifndef TV_RPCD_API_V1_MEMBERS_JSON_H
#define TV_RPCD_API_V1_MEMBERS_JSON_H

#include "common/base/buf.h"
#include "common/record/member.h"

/*
 * One member as a JSON object.  Existing clients tell servers from clients by Consul's tags, so our own members get
 * those (role=consul or node, port, vsn, ...) beside their own tags; members of other programs are shown as they are.
 */
void member_json(const struct member *m, struct buf *out);
/* One that gossip has not told of yet: what the configuration says. */
void member_json_configured(struct span name, struct span address, uint16_t port, struct buf *out);

#endif
