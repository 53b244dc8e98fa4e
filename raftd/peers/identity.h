/*
 * Hello between servers, pure: the record, its codec, and whether two servers may talk.
 *
 * A cluster id with generation 0 is a promise made while a cluster forms (raftd/members/bootstrap.h); from generation 1 on
 * this server belongs to that cluster.  Each recovery makes the next one: its number, counted in the low 16 bits, and a
 * random part above, by which two recoveries of one cluster that did not know of each other are told apart.
 */
#ifndef TV_IDENTITY_H
#define TV_IDENTITY_H

#include "raftd/raftd.h"

struct hello {
	uint8_t version;
	char uuid[37], name[256], store_id[37], cluster_id[37], dc[129], addr[64];
	uint64_t generation;
	uint16_t raft_port;
	uint64_t features;		/* RAFT_FEATURE_*; 0: a version that does not say */
};

/* What a raftd can apply or answer that the first ones could not. */
#define RAFT_FEATURE_RESTORE 1u		/* OP_RESTORE_BEGIN to _ABORT */
#define RAFT_FEATURE_SERVED 2u		/* answers MSG_RAFT_SERVED */
#define RAFT_FEATURE_TREE_PARTS 4u	/* KV_DELETE_PART */
#define RAFT_FEATURES (RAFT_FEATURE_RESTORE | RAFT_FEATURE_SERVED | RAFT_FEATURE_TREE_PARTS)	/* ours */

/* As people see it. */
uint64_t generation_number(uint64_t generation);
/* Of the recovery of a cluster of this generation; random: any bits. */
uint64_t generation_next(uint64_t generation, uint64_t random);

/* Body of MSG_RAFT_HELLO for this server. */
void hello_write(struct buf *b, const struct identity *id, const char *dc, uint16_t raft_port);
/* TV_EFORMAT, TV_ELIMIT for anything but a well-formed hello. */
enum tv_err hello_read(struct span body, struct hello *out);

enum hello_verdict {
	HELLO_OK,		/* Raft messages may flow */
	HELLO_WAIT,		/* keep the link: clusters are forming and do not agree yet */
	HELLO_REFUSE,		/* close; `why` says it in one sentence */
};
enum hello_verdict hello_check(const struct identity *own, const char *dc, const struct hello *h,
    char *why, size_t cap);

/* Does it say that our cluster was recovered, as a later generation, without us? */
bool hello_supersedes(const struct identity *own, const char *dc, const struct hello *h);

/* Splits "ip:port" or "[ip6]:port"; false if it is neither. */
bool addr_split(const char *addr, char ip[46], uint16_t *port);
/* The reverse; returns dst. */
const char *addr_join(const char *ip, uint16_t port, char *dst, size_t cap);

#endif
