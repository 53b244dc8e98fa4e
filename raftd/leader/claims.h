/* Registrations against members that live, while the state does not know yet which members live (leader_is_comparing()). */
#ifndef TV_RAFTD_LEADER_CLAIMS_H
#define TV_RAFTD_LEADER_CLAIMS_H

#include "raftd/leader/rules/claim.h"
#include "raftd/raftd.h"

/*
 * The member of ours that lives, by gossip's word, and that this registration would take from; NULL: there is none.  Borrowed until gossip
 * tells news.
 */
const struct member *claims_against(struct raftd *d, const struct claim *q);

#endif
