/*
 * Versions of the state machine (FSM_VERSION) while servers are upgraded one by one: a leader proposes nothing that one of
 * its servers would not apply as the others do, and a server that cannot have what the state already holds is no peer.
 */
#ifndef TV_RAFTD_PEERS_STATE_VERSION_H
#define TV_RAFTD_PEERS_STATE_VERSION_H

#include "raftd/peers/identity.h"

/* Of the newest configuration; see struct engine_hooks. */
bool state_version_all(struct raftd *d, uint8_t version, char *why, size_t cap);
/* hello_check() of a server against this one, and: can it apply what our state holds? */
enum hello_verdict state_version_check(struct raftd *d, const struct hello *h, char *why, size_t cap);

#endif
