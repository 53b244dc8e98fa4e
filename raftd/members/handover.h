/*
 * Stopping in order: a leader hands its leadership over, and the writes that it took get their answers, before raftd
 * ends.  A follower, and a leader without another voter, have nothing to hand over.
 */
#ifndef TV_RAFTD_MEMBERS_HANDOVER_H
#define TV_RAFTD_MEMBERS_HANDOVER_H

#include <stdbool.h>

struct raftd;
struct handover;

/*
 * True: daemon_quit(0) follows, after three election timeouts at the latest, or when no peer is left.  False: there is
 * nothing to wait for.
 */
bool handover_begin(struct raftd *d);
void handover_free(struct handover *h);

#endif
