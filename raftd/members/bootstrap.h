/*
 * A cluster comes into being: `bootstrap`, `bootstrap_expect`, and a fresh server's adoption by a cluster.
 *
 * With bootstrap_expect = N the fresh server with the lowest node id takes its own store id for the cluster id,
 * stores that durably as a promise (generation 0), and asks the N-1 next ones to promise the same.  A server promises
 * one cluster at a time, so of two groups that overlap at most one can form (S70).  When all have promised, the
 * asker bootstraps the configuration with the N voters; the others become members (generation 1) with the
 * first entry they get.  Only the asker can form that cluster, so it may give its own promise up at any time before;
 * the others let go when they hear from it that it belongs elsewhere.  doc/decisions.md tells more.
 */
#ifndef TV_FORMING_H
#define TV_FORMING_H

#include "raftd/peers/links.h"

#define FORMING_SERVERS_MAX 15

struct forming;

struct forming *forming_new(struct raftd *d);
void forming_free(struct forming *f);
/*
 * Not in a cluster yet: appends what this server waits for and what an operator can do, "forming a cluster: 1 of 3
 * servers are here; ...".  False, and nothing: it is in one.
 */
bool forming_text(struct forming *f, struct buf *out);
/* Look again soon. */
void forming_poke(struct forming *f);
/* A hello was heard, before it is judged: promises that died are let go. */
void forming_heard(struct forming *f, const struct hello *h);
/* May this message reach the core?  A fresh server joins the cluster of whoever replicates to it. */
bool forming_accepts(struct forming *f, const struct hello *from, const struct raft_msg *m);
/* MSG_RAFT_BOOTSTRAP. */
enum tv_err forming_question(struct forming *f, const struct hello *from, const struct link_question *q,
    struct span body);

/* -- the decisions, pure -- */
struct forming_candidate {
	char uuid[37];
	bool alive, linked;		/* gossip says alive; hello exchanged */
	uint64_t expect;
	char cluster_id[37];		/* by its hello */
	uint64_t generation;
};
/*
 * Which servers this one should ask, if it is its turn: fills picked with indexes into `c` (expect - 1 of them, lowest
 * ids first) and returns true.  own_cluster: promised id or "".
 */
bool forming_pick(const char *own_uuid, const char *own_cluster, const char *own_store, uint64_t expect,
    const struct forming_candidate *c, unsigned count, unsigned *picked);
/* May a server with these facts promise `cluster_id` to `asker`?  TV_OK or the error for the answer. */
enum tv_err forming_may_promise(const struct identity *own, uint64_t own_expect, bool log_empty,
    const char *asker_uuid, const char *cluster_id, uint64_t expect, const char **why);

#endif
