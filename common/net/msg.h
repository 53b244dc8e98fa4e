/*
 * Catalogue of internal messages: who says what to whom, and the body.
 * Bodies are msgpack arrays, read strictly: neither missing nor trailing fields, unless said otherwise.
 * `str`, `bin`, `u8`..`u64`, `bool` name msgpack values; [x] is an array.
 *
 * Errors in answers are [u8 err, str text]: err is -enum tv_err (0 for success).
 */
#ifndef TV_COMMON_NET_MSG_H
#define TV_COMMON_NET_MSG_H

#include <stdint.h>

#include "common/net/version.h"

/*
 * Of all these messages.  A new version raises the highest; the lowest follows a release later, so that nodes of both
 * releases work together while a new one is rolled out.
 */
#define MSG_VERSIONS ((struct version_range){ 1, 1 })

enum msg_type {
	/* -- every channel -- */
	/* First frame in both directions: [u8 version, str role, str build, str node_id, u8 highest version].
	 * version is the lowest that the sender speaks; the last field is left out where it is the highest, too, and
	 * further ones are skipped.  role is "rpcd", "raftd", "gossipd".  Anything before it closes the channel. */
	MSG_HELLO = 1,
	/* Question: [].  Answer: map section -> map name -> text (for `info`). */
	MSG_INFO = 2,
	/* Question: [u8 level] (enum log_level).  No answer; MSG_LOG frames (id 0) follow until the channel closes. */
	MSG_MONITOR = 3,
	/* [u64 wall_ms, u8 level, str area, str text] */
	MSG_LOG = 4,
	/* Question: [].  Answer: [].  Are you there?  raftd.sock only, in both directions, and only to a peer whose
	 * HELLO says our own build: others would take it for an error. */
	MSG_PING = 5,

	/* -- gossipd.sock, asked by raftd and rpcd -- */
	/* Question: [].  No answer; MSG_GOSSIP_MEMBER frames (id 0) follow: first the
	 * members there are, then MSG_GOSSIP_SYNCED, then every change. */
	MSG_GOSSIP_WATCH = 16,
	/* [u8 pool, u8 event, member]: pool 0 LAN, 1 WAN; event: enum gossip_event;
	 * member: see common/record/member.h. */
	MSG_GOSSIP_MEMBER = 17,
	MSG_GOSSIP_SYNCED = 18,		/* [] */
	/* Question: [u8 pool, [str address]].  Answer: [u8 err, str text, u32 contacted]. */
	MSG_GOSSIP_JOIN = 19,
	/* Question: [].  Answer after both pools were left: [u8 err, str text]. gossipd then exits 0. */
	MSG_GOSSIP_LEAVE = 20,
	/* Question: [str node, bool prune].  Answer: [u8 err, str text]. TV_ENOENT: no such member. */
	MSG_GOSSIP_FORCE_LEAVE = 21,
	/* Question: [map name -> str].  Replaces own LAN and WAN tags of those names
	 * ("" removes).  Answer: [u8 err, str text]. */
	MSG_GOSSIP_TAGS = 22,
	/* Question: [].  No answer; MSG_GOSSIP_USER_EVENT and MSG_GOSSIP_HEARD frames (id 0) follow. */
	MSG_GOSSIP_EVENTS = 23,
	/* [u8 pool, u64 ltime, str name, bin payload, bool coalesce, bool old].  Old ones come first: the newest that
	 * there were before the question, oldest first, so that an rpcd that starts again can show them. */
	MSG_GOSSIP_USER_EVENT = 24,
	/* A query that wants an answer:
	 * [u8 pool, u64 ltime, u32 id, str name, bin payload, str from, u64 timeout_ms]. */
	MSG_GOSSIP_HEARD = 25,
	/* Question: [u8 pool, str name, bin payload, bool coalesce].  Answer: [u8 err, str text, u64 ltime]. */
	MSG_GOSSIP_FIRE = 26,
	/* Question:
	 * [u8 pool, str name, bin payload, [bin filter], bool want_ack, u8 relay, u64 timeout_ms (0: default)].
	 * Answer when it is over: [u8 err, str text, [[str from, bool ack, bin payload]], u32 alive]. */
	MSG_GOSSIP_QUERY = 27,
	/* Question: [u8 pool, u64 ltime, u32 id, bin payload].  Answer: [u8 err, str text]. */
	MSG_GOSSIP_RESPOND = 28,
	/* Question: [u8 pool, [str name]]; no names: all that we know.
	 * Answer: [u8 err, str text, [[str name, f64 error, f64 adjustment, f64 height, [f64 x 8]]]]: our own, always,
	 * then those of the names; who never answered a probe of ours has none.  TV_EPERM: coordinates are off. */
	MSG_GOSSIP_COORDS = 29,
	/* Question:
	 * [u8 what (0 list, 1 install, 2 use, 3 remove), bin key, u8 relay, u8 pools (bit 0 LAN, 1 WAN: if there)].
	 * Answer when all have answered or their time is over: [u8 err, str text, [[u8 pool, u32 nodes, u32 responses,
	 *  u32 errors, map key -> u32 count, map primary key -> u32 count, map node -> str message]]]; keys in base64.
	 * TV_EPERM: not at this stage of encryption.  The checks that make a rotation safe are the asker's. */
	MSG_GOSSIP_KEYRING = 30,
	/* gossipd to rpcd, id 0, behind HELLO and at each change: [[bin psk]], those of the links between rpcds,
	 * derived from the ring (cluster_link_psk), of the primary key first; none without encryption. */
	MSG_GOSSIP_KEYS = 31,

	/* -- raftd.sock, asked by rpcd; rpcd port 8400, asked by other rpcds -- */
	/* An operation: request body and answer body as in common/record/ops.h. */
	MSG_OP = 32,
	/* raftd to rpcd, id 0, after HELLO and at each change:
	 * [u8 role (enum raft_role), u64 term, str leader_id, str leader_addr ("ip:port" or ""),
	 *  str leader_name, u64 voters, bool is_voter, u64 leader_seen_ms].  Further fields are skipped. */
	MSG_RAFT_STATUS = 33,
	/* Question: [bool force].  Remove this server from the Raft configuration.
	 * Answer: [u8 err, str text].  TV_ECONFLICT: would lose quorum, text has the arithmetic. */
	MSG_RAFT_LEAVE = 34,
	/* Body and answer as MSG_OP, between rpcds.  MSG_OP may be routed on by the receiver; these two may not,
	 * so that requests cannot go in circles:
	 * FINAL: the sender takes the receiver for the leader; answer from the local raftd or say TV_ENOTLEADER.
	 * DC: comes from another datacenter; the request's dc must be the receiver's own, else TV_EUNREACH. */
	MSG_OP_FINAL = 35,
	MSG_OP_DC = 36,
	/* []: a server's rpcd to who dialled it: the key of this link has left the ring.  Ask nothing more on it, and
	 * close it when all is answered.  It has FRAME_REPLY and id 0, so that who does not know it ignores it. */
	MSG_LINK_RETIRED = 38,

	/* raftd.sock.  Question: [bool dry_run]: the majority is lost for good, go on with this server alone.
	 * Answer: [u8 err, str text, value]: value a raft_recovery (common/record/records.h), nil without a report. */
	MSG_RAFT_RECOVER = 37,

	/* -- raftd port 8300, between servers; raftd/peers/ -- */
	/* First frame in both directions: [u8 version, str node_id, str node_name, str store_id,
	 *  str cluster_id ("" while fresh), u64 generation, str dc, str addr, u16 raft_port, u64 features,
	 *  u8 highest version, u8 version of the state machine].  version is the lowest one; the last three may be
	 *  missing, further fields are skipped. */
	MSG_RAFT_HELLO = 64,
	/* A message of the Raft core, raftd/core/wire.h. id 0. */
	MSG_RAFT = 65,
	/* Question: bootstrap with me? [str cluster_id, u64 expect, [[str id, str name, str addr]]]
	 * Answer: [u8 err, str text]. */
	MSG_RAFT_BOOTSTRAP = 66,
	/* Question to the leader: remove me. [str id, bool force].  Answer: [u8 err, str text]. */
	MSG_RAFT_REMOVE_ME = 67,
	/* Question: [].  How far is your log?
	 * Answer: [u8 err, str text, u64 last_index, u64 last_term, u64 commit, u64 leader_last]. */
	MSG_RAFT_LOG_STATE = 68,
	/* No question, on the link that the other one dialled: [u8 why (enum notice_why), str text].  Why you are not
	 * what you may think you are; for the log there. */
	MSG_RAFT_NOTICE = 69,
	/* Question: [].  Does the rpcd beside you answer?  Only to who says RAFT_FEATURE_SERVED.
	 * Answer: [u8 err, str text]: TV_OK it has just done so; TV_EUNREACH there is none; TV_EAGAIN it is of another
	 * build and was not asked.  No answer while it is silent. */
	MSG_RAFT_SERVED = 70,
};

#endif
