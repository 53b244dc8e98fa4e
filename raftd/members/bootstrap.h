/*
 * A cluster comes into being: `bootstrap`, `bootstrap_expect`, and a fresh server's adoption by a cluster.
 *
 * With bootstrap_expect = N the fresh server with the lowest node id takes its own store id for the cluster id,
 * stores that durably as a promise (generation 0), and asks the N-1 next ones to promise the same.  A server promises
 * one cluster at a time, so of two groups that overlap at most one can form (S70).  When all have promised, the
 * server that asked bootstraps the configuration with the N voters; the others become members (generation 1) with the
 * first entry they get.  Only that server can form that cluster, so it may give its own promise up at any time before;
 * the others let go when they hear from it that it belongs elsewhere.  doc/decisions/raftd.md tells more.
 */
#ifndef TV_RAFTD_MEMBERS_BOOTSTRAP_H
#define TV_RAFTD_MEMBERS_BOOTSTRAP_H

#include "raftd/peers/links.h"

struct bootstrap;

struct bootstrap *bootstrap_new(struct raftd *d);
void bootstrap_free(struct bootstrap *f);
/*
 * Not in a cluster yet: appends what this server waits for and what an operator can do, "forming a cluster: 1 of 3
 * servers are here; ...".  False, and nothing: it is in one.
 */
bool bootstrap_text(struct bootstrap *f, struct buf *out);
/* Look again soon. */
void bootstrap_wake(struct bootstrap *f);
/* A hello was heard, before it is judged: promises that died are let go. */
void bootstrap_heard(struct raftd *d, const struct hello *h);
/* May this message reach the core?  A fresh server joins the cluster of the leader that replicates to it. */
bool bootstrap_accepts(struct raftd *d, const struct hello *from, const struct raft_msg *m);

#endif
