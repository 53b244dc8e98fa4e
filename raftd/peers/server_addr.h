/* Which addresses servers have, and which of them count. */
#ifndef TV_RAFTD_PEERS_SERVER_ADDR_H
#define TV_RAFTD_PEERS_SERVER_ADDR_H

#include "raftd/raftd.h"

/* Is a server of the configuration, or one that gossip tells of, at this address (common/net/source.h)? */
bool server_addr_known(const struct raftd *d, uint64_t source);
/*
 * Of two members that live and claim one node id, the one where the configuration has its seat is meant; the other one
 * is a copy (S62), also while the first does not answer.
 */
bool server_addr_is_copy(const struct raftd *d, const char *uuid, const char *addr);

#endif
