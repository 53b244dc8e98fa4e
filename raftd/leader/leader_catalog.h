/*
 * Keeps the catalog in step with gossip while leading: members come (registered, serfHealth passing), fail
 * (serfHealth critical), leave or are reaped (deregistered; never a node that lives: rules/reconcile.h).  Compared on every
 * gossip event and from time to time as a whole; only differences are written.  What the catalog says is read in a thread.
 */
#ifndef TV_RAFTD_LEADER_LEADER_CATALOG_H
#define TV_RAFTD_LEADER_LEADER_CATALOG_H

#include "common/record/member.h"
#include "raftd/raftd.h"

struct leader_catalog;

struct leader_catalog *leader_catalog_new(struct raftd *d);
void leader_catalog_free(struct leader_catalog *c);
void leader_catalog_start(struct leader_catalog *c);
void leader_catalog_stop(struct leader_catalog *c);
/*
 * The state was replaced by a restored one; on each server.  Where this one leads, or comes to lead soon, nodes that the archive has as
 * members and gossip does not know become critical as soon as gossip is settled; they are removed by a later comparison.
 */
void leader_catalog_restored(struct leader_catalog *c);
/* Gossip told something: look at what it marked. */
void leader_catalog_wake(struct leader_catalog *c);
void leader_catalog_turn(struct leader_catalog *c);
/* Have not all members been compared yet since it was started? */
bool leader_catalog_is_behind(const struct leader_catalog *c);
/* Figures by name: comparisons of all members so far, and members that are refused now. */
void leader_catalog_info(const struct leader_catalog *c, figure_fn *fn, void *ctx);

#endif
