/*
 * Hello between servers, pure: the record, its codec, and whether two servers may talk.
 *
 * A cluster id with generation 0 is a promise made while a cluster forms (raftd/members/bootstrap.h); from generation 1 on
 * this server belongs to that cluster.  Each recovery makes the next one: its number, counted in the low 16 bits, and a
 * random part above, by which two recoveries of one cluster that did not know of each other are told apart.
 */
#ifndef TV_RAFTD_PEERS_IDENTITY_H
#define TV_RAFTD_PEERS_IDENTITY_H

#include "common/net/version.h"
#include "raftd/engine/disk_mark.h"
#include "raftd/raftd.h"

/* Versions of the protocol between raftds that this binary speaks.  A new version raises the highest; the lowest follows a release later, so that servers of both
 * releases form one cluster while a new one is rolled out. */
#define RAFT_VERSIONS ((struct version_range){ 1, 1 })

struct hello {
	struct version_range versions;
	char uuid[37], name[256], store_id[37], cluster_id[37], dc[129], addr[64];
	uint64_t generation;
	uint16_t raft_port;
	uint64_t features;		/* RAFT_FEATURE_*; 0: a version that does not say */
	uint8_t state;			/* version of the state machine: what entries it can apply; 1: a version that does not say */
	struct disk_mark mark, seen;	/* of its disk; what it remembers of ours */
	uint64_t clock_ms;		/* what its wall clock showed, ms since 1970; 0: a version that does not say */
};

/* What a raftd can apply or answer that the first ones could not. */
#define RAFT_FEATURE_RESTORE 1u		/* OP_RESTORE_BEGIN to _ABORT */
#define RAFT_FEATURE_SERVED 2u		/* answers MSG_RAFT_SERVED */
#define RAFT_FEATURE_TREE_PARTS 4u	/* KV_DELETE_PART */
#define RAFT_FEATURES (RAFT_FEATURE_RESTORE | RAFT_FEATURE_SERVED | RAFT_FEATURE_TREE_PARTS)	/* ours */

/* Of the recovery of a cluster of this generation; random: any bits. */
uint64_t generation_next(uint64_t generation, uint64_t random);

/*
 * The one of a server that was started, by its log: a crash may have come between the records of a cluster's first moment.
 * With an entry it is a member, whatever the generation says.  Without one, in the cluster that bears its own store id, it has
 * formed that for no other server: votes and entries leave when the first entry is durable.  So it forms it again.
 */
uint64_t generation_found(const struct log_meta *m);

/*
 * Body of MSG_RAFT_HELLO for this server, with the mark of its disk and what is remembered of the receiver's; no mark: life 0.
 * clock_ms: what the wall clock shows, ms since 1970.
 */
void hello_write(struct buf *b, const struct identity *id, const char *dc, uint16_t raft_port, const struct disk_mark *mark,
    const struct disk_mark *seen, uint64_t clock_ms);
/* TV_EFORMAT, TV_ELIMIT for anything but a well-formed hello. */
enum tv_err hello_read(struct span body, struct hello *out);

/*
 * Do these servers, of which `of` knows the version of the state machine (0: never heard of), have at least this one?  Else
 * why names one that has not.
 */
bool versions_reach(const struct raft_config *c, uint8_t version, uint8_t (*of)(void *ctx, raft_id id), void *ctx, char *why,
    size_t cap);

enum hello_verdict {
	HELLO_OK,		/* Raft messages may flow */
	HELLO_WAIT,		/* keep the link: clusters are forming and do not agree yet */
	HELLO_REFUSE,		/* close; `why` says it in one sentence */
};
enum hello_verdict hello_check(const struct identity *own, const char *dc, const struct hello *h,
    char *why, size_t cap);

/* Does it say that our cluster was recovered, as a later generation, without us? */
bool hello_supersedes(const struct identity *own, const char *dc, const struct hello *h);

/* "ip:port" or "[ip6]:port"; returns dst. */
const char *addr_join(const char *ip, uint16_t port, char *dst, size_t cap);

#endif
