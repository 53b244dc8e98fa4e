/*
 * Duties of the leader, from the moment its first own entry is applied (S16), and with it everything that earlier leaders
 * committed: session timers, the catalog entries of gossip members, coordinates, tombstone reaping.  They end with the
 * leadership.
 */
#ifndef TV_RAFTD_LEADER_LEADER_H
#define TV_RAFTD_LEADER_LEADER_H

#include "common/record/coordinate.h"
#include "raftd/raftd.h"

struct leader;

struct leader *leader_new(struct raftd *d);
void leader_free(struct leader *l);
/* Gossip told something. */
void leader_members_changed(struct raftd *d);
/* Once per turn of the loop: starts or ends the duties, works off what is due. */
void leader_turn(struct leader *l);
/* These entries were applied. */
void leader_applied(struct raftd *d, const struct raft_entry *entries, uint32_t count);
/* A restore is about to be committed, or is not any more: what the state says of members may be another word soon. */
void leader_restoring(struct leader *l, bool soon);
/*
 * The state was replaced by a restored one, on each server: on the leader sessions get their full time, and the catalog is compared
 * with gossip (S50).
 */
void leader_restored(struct leader *l);
/* A session was renewed: its time starts again.  Sessions without TTL: nothing happens. */
void leader_session_renewed(struct leader *l, struct span id);
/*
 * Are the duties under way?  Only then does the state hold everything that earlier leaders committed, and is what is
 * given to them kept.
 */
bool leader_active(const struct leader *l);
/*
 * Does the state not know yet which nodes live: have its members not been compared with gossip since this server leads, or since a
 * restore that is under way?  Then leader_claims() is to be asked of registrations; else the state machine guards the living.
 */
bool leader_is_comparing(const struct leader *l);
/* Figures by name, for info. */
void leader_info(const struct leader *l, figure_fn *fn, void *ctx);
/* Is access control about to begin: has this leader written so, and is it not applied yet? */
bool leader_enables_acl(const struct leader *l);
/* err TV_OK: does the catalog have that node?  Else it was not found out; TV_ENOLEADER: the duties ended. */
typedef void leader_coordinate_done(void *ctx, enum tv_err err, bool known);
/*
 * A node reported a plausible coordinate, which goes to the log a little later if the catalog knows the node; more than a
 * period takes is discarded, with a log line.  done is called on the loop, later.  TV_ENOLEADER (not active), TV_EAGAIN
 * (too many wait), TV_ENOMEM: it is not.
 */
enum tv_err leader_coordinate(struct leader *l, struct span node, struct span segment, const struct coordinate *at,
    leader_coordinate_done *done, void *ctx);
/* Its callback is not called any more; one that was not given in: nothing. */
void leader_coordinate_forget(struct leader *l, const void *ctx);

#endif
