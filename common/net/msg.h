/*
 * The internal messages, one row each: type, name, channel, the side that asks or tells, the largest bodies, the shapes
 * of question and answer.  The enum, the names in log lines, the caps of receivers and the list in doc/wire.md come
 * from it, and tests walk it.
 *
 *	M(type, name, channel, who, question max, question, answer max, answer)
 *
 * channel	the unix socket, or the port
 * max		a frame with a larger body closes its channel when its head is there; 0: there is none
 * shape	REC(x)		the record x of common/record/messages.h
 *		ANSWER		[u8 err, str text]: err is -enum tv_err, 0 for success
 *		ANSWER_AND(x)	[u8 err, str text, fields of the record x]; these may be missing when err is not 0
 *		HAND		read by hand, as the row's comment says
 *		NONE
 *
 * Bodies are msgpack arrays.  A reader takes those with more fields than it knows, of a newer version, and skips them;
 * fewer are malformed, but for the fields of a record that have SF_LATER.
 */
#ifndef TV_COMMON_NET_MSG_H
#define TV_COMMON_NET_MSG_H

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/net/version.h"
#include "common/record/messages.h"

/*
 * Of all these messages.  A new version raises the highest; the lowest follows a release later, so that nodes of both
 * releases work together while a new one is rolled out.
 */
#define MSG_VERSIONS ((struct version_range){ 1, 1 })

#define MSG_SMALL	(4u << 10)	/* a few names and numbers */
#define MSG_TEXT	(72u << 10)	/* a sentence, at most 64 KiB */
#define MSG_LARGE	(1u << 20)
#define MSG_LIST	(4u << 20)	/* of members, of keys, of everything that info shows */
#define MSG_ALL		(64u << 20)	/* as the channel says */

#define MSGS(M) \
	/* The first frame in both directions, id 0; anything before it closes the channel.  `version` is the \
	 * lowest that the sender speaks; `highest` is left out where it is the same. */ \
	M(1, HELLO, "all", "both", MSG_SMALL, REC(msg_hello), 0, NONE) \
	/* Answer: map section -> map name -> text. */ \
	M(2, INFO, "all", "who dialled", MSG_SMALL, REC(empty), MSG_LIST, HAND) \
	/* MSG_LOG follow until the channel closes. */ \
	M(3, MONITOR, "all", "who dialled", MSG_SMALL, REC(msg_monitor), 0, NONE) \
	M(4, LOG, "all", "who was dialled", MSG_TEXT, REC(msg_log), 0, NONE) \
	/* Are you there?  Only to a peer whose HELLO says our own build: others would take it for an error; and to \
	 * helpers (common/proc/helper.h), which are of one build with their daemon. */ \
	M(5, PING, "raftd.sock, helpers", "both", MSG_SMALL, REC(empty), MSG_SMALL, REC(empty)) \
	/* The first frame of a helper's channel; its monitor writes it before the program begins. */ \
	M(6, HELPER_STARTED, "helpers", "the helper", MSG_SMALL, REC(msg_helper_started), 0, NONE) \
	/* The last one: it ends on purpose, and another process is to be started at once. */ \
	M(7, HELPER_RENEW, "helpers", "the helper", MSG_SMALL, REC(empty), 0, NONE) \
	\
	/* MSG_GOSSIP_MEMBER follow: first the members that there are, then MSG_GOSSIP_SYNCED, then every \
	 * change. */ \
	M(16, GOSSIP_WATCH, "gossipd.sock", "rpcd, raftd", MSG_SMALL, REC(empty), 0, NONE) \
	/* [u8 pool, u8 event (enum gossip_event), member]: member_event_read(), whose tags have a table of \
	 * fixed size */ \
	M(17, GOSSIP_MEMBER, "gossipd.sock", "gossipd", MSG_TEXT, HAND, 0, NONE) \
	M(18, GOSSIP_SYNCED, "gossipd.sock", "gossipd", MSG_SMALL, REC(empty), 0, NONE) \
	M(19, GOSSIP_JOIN, "gossipd.sock", "rpcd", MSG_LARGE, REC(msg_join), MSG_TEXT, ANSWER_AND(msg_joined)) \
	/* Answered when both pools were left; gossipd then exits 0. */ \
	M(20, GOSSIP_LEAVE, "gossipd.sock", "rpcd", MSG_SMALL, REC(empty), MSG_TEXT, ANSWER) \
	/* TV_ENOENT: no such member. */ \
	M(21, GOSSIP_FORCE_LEAVE, "gossipd.sock", "rpcd, raftd", MSG_SMALL, REC(msg_force_leave), MSG_TEXT, ANSWER) \
	/* [map name -> str]: replaces own LAN and WAN tags of those names, "" removes; into a table of fixed \
	 * size */ \
	M(22, GOSSIP_TAGS, "gossipd.sock", "raftd", MSG_TEXT, HAND, MSG_TEXT, ANSWER) \
	/* MSG_GOSSIP_USER_EVENT and MSG_GOSSIP_HEARD follow. */ \
	M(23, GOSSIP_EVENTS, "gossipd.sock", "rpcd", MSG_SMALL, REC(empty), 0, NONE) \
	/* Those with `old` come first: the newest that there were before the question, oldest first, so that an \
	 * rpcd that starts again can show them. */ \
	M(24, GOSSIP_USER_EVENT, "gossipd.sock", "gossipd", MSG_LARGE, REC(msg_user_event), 0, NONE) \
	/* A query that wants an answer. */ \
	M(25, GOSSIP_HEARD, "gossipd.sock", "gossipd", MSG_LARGE, REC(msg_heard), 0, NONE) \
	M(26, GOSSIP_FIRE, "gossipd.sock", "rpcd, raftd", MSG_LARGE, REC(msg_fire), MSG_TEXT, ANSWER_AND(msg_fired)) \
	/* [u8 pool, str name, bin payload, [bin filter], bool want_ack, u8 relay, u64 timeout_ms (0: default)]: \
	 * no record has a list of bytes.  Answered when it is over. */ \
	M(27, GOSSIP_QUERY, "gossipd.sock", "rpcd", MSG_LARGE, HAND, MSG_LIST, ANSWER_AND(msg_query_answers)) \
	M(28, GOSSIP_RESPOND, "gossipd.sock", "rpcd", MSG_LARGE, REC(msg_respond), MSG_TEXT, ANSWER) \
	/* No names: all that gossipd knows.  Answer: [u8 err, str text, [coordinate]], see \
	 * common/record/coordinate.h: our own, always, then those of the names; a node that never answered \
	 * a probe of ours has none.  TV_EPERM: coordinates are off. */ \
	M(29, GOSSIP_COORDS, "gossipd.sock", "rpcd", MSG_LARGE, REC(msg_coords), MSG_LIST, HAND) \
	/* Answered when all have answered or their time is over: [u8 err, str text, [[u8 pool, u32 nodes, u32 \
	 * responses, u32 errors, map key -> u32 count, map primary key -> u32 count, map node -> str message]]], \
	 * keys in base64; no record has a map of numbers.  TV_EPERM: not at this stage of encryption.  The checks \
	 * that make a rotation safe are the asker's. */ \
	M(30, GOSSIP_KEYRING, "gossipd.sock", "rpcd", MSG_SMALL, REC(msg_keyring), MSG_LIST, HAND) \
	/* [[bin psk]]: those of the links between rpcds, derived from the ring (cluster_link_psk), of the \
	 * primary key first; none without encryption.  Behind HELLO and at each change, to rpcd. */ \
	M(31, GOSSIP_KEYS, "gossipd.sock", "gossipd", MSG_SMALL, HAND, 0, NONE) \
	\
	/* An operation: op_request_read(), op_reply_read() in common/record/ops.h. */ \
	M(32, OP, "raftd.sock, 8400", "rpcd", MSG_ALL, HAND, MSG_ALL, HAND) \
	/* After HELLO and at each change. */ \
	M(33, RAFT_STATUS, "raftd.sock", "raftd", MSG_SMALL, REC(msg_raft_status), 0, NONE) \
	/* Remove this server from the Raft configuration.  TV_ECONFLICT: would lose quorum, text has the \
	 * arithmetic. */ \
	M(34, RAFT_LEAVE, "raftd.sock", "rpcd", MSG_SMALL, REC(msg_raft_leave), MSG_TEXT, ANSWER) \
	/* As MSG_OP, which may be routed on by the receiver; these two may not, so that requests cannot go in \
	 * circles: FINAL: the sender takes the receiver for the leader; answer from the local raftd or say \
	 * TV_ENOTLEADER. DC: comes from another datacenter; the request's dc must be the receiver's own, else \
	 * TV_EUNREACH. */ \
	M(35, OP_FINAL, "8400", "rpcd", MSG_ALL, HAND, MSG_ALL, HAND) \
	M(36, OP_DC, "8400", "rpcd", MSG_ALL, HAND, MSG_ALL, HAND) \
	/* The majority is lost for good: go on with this server alone.  Answer: [u8 err, str text, \
	 * raft_recovery], nil without a report; rpcd passes it on as it stands. */ \
	M(37, RAFT_RECOVER, "raftd.sock", "rpcd", MSG_SMALL, REC(msg_raft_recover), MSG_LIST, HAND) \
	/* The key of this link has left the ring.  Ask nothing more on it, and close it when all is answered.  \
	 * It has FRAME_REPLY and id 0, so that a peer that does not know it ignores it. */ \
	M(38, LINK_RETIRED, "8400", "who was dialled", 0, NONE, MSG_SMALL, REC(empty)) \
	\
	/* One target; `place` of the answer is 0.  Only to a gossipd whose HELLO says our own build. */ \
	M(39, GOSSIP_RESOLVE, "gossipd.sock", "rpcd", MSG_TEXT, REC(msg_resolve), MSG_TEXT, ANSWER_AND(msg_resolved)) \
	/* Of two processes in turn: one serves from the first of these on; at the second one it takes no more \
	 * questions, and ends when it has answered those that it has. */ \
	M(45, DNS_SERVE, "rpcd: dns", "rpcd", MSG_SMALL, REC(empty), 0, NONE) \
	M(46, DNS_RETIRE, "rpcd: dns", "rpcd", MSG_SMALL, REC(empty), 0, NONE) \
	/* The list of recursors is another one, and nothing else is: what is kept stays. */ \
	M(47, DNS_RECURSORS, "rpcd: dns", "rpcd", MSG_SMALL, REC(msg_dns_recursors), 0, NONE) \
	\
	/* Between rpcd and the process that runs its checks, both of one build: there is no HELLO.  The first \
	 * frame, and again after a reload. */ \
	M(48, CHECK_SETUP, "rpcd: check", "rpcd", MSG_SMALL, REC(msg_check_setup), 0, NONE) \
	M(49, CHECK_PUT, "rpcd: check", "rpcd", MSG_LARGE, REC(msg_check_put), 0, NONE) \
	M(50, CHECK_DROP, "rpcd: check", "rpcd", MSG_SMALL, REC(msg_check_drop), 0, NONE) \
	/* Answered when what came before is done: rpcd then sends more. */ \
	M(51, CHECK_SYNC, "rpcd: check", "rpcd", MSG_SMALL, REC(empty), MSG_SMALL, REC(empty)) \
	/* Status or output changed. */ \
	M(52, CHECK_RESULT, "rpcd: check", "rpcd: check", MSG_LIST, REC(msg_check_result), 0, NONE) \
	M(53, CHECK_STATS, "rpcd: check", "rpcd: check", MSG_SMALL, REC(msg_check_stats), 0, NONE) \
	\
	/* Between gossipd and a process that resolves what is to be dialled, both of one build: there is no HELLO.  \
	 * One MSG_RESOLVED for each target, in the order in which they are found. */ \
	M(54, RESOLVE, "gossipd: names", "gossipd", MSG_LARGE, REC(msg_resolve), 0, NONE) \
	M(55, RESOLVED, "gossipd: names", "gossipd: names", MSG_TEXT, REC(msg_resolved), 0, NONE) \
	\
	/* Between rpcd and the process that speaks DNS, both of one build: there is no HELLO.  The first frame, and \
	 * again whenever something of it changes. */ \
	M(56, DNS_SETUP, "rpcd: dns", "rpcd", MSG_LARGE, REC(msg_dns_setup), 0, NONE) \
	M(57, DNS_ASK, "rpcd: dns", "rpcd: dns", MSG_SMALL, REC(msg_dns_ask), MSG_LIST, REC(msg_dns_found)) \
	M(58, DNS_STATS, "rpcd: dns", "rpcd: dns", MSG_SMALL, REC(msg_dns_stats), 0, NONE) \
	/* What is followed, anew; the id is that of the MSG_DNS_ASK. */ \
	M(59, DNS_FACT, "rpcd: dns", "rpcd", MSG_LIST, REC(msg_dns_found), 0, NONE) \
	/* It is not followed any more. */ \
	M(60, DNS_END, "rpcd: dns", "rpcd", MSG_SMALL, REC(empty), 0, NONE) \
	M(61, DNS_USE, "rpcd: dns", "rpcd: dns", MSG_TEXT, REC(msg_dns_use), 0, NONE) \
	/* A client that wrote here may ask for it at once: what is kept may not know it yet. */ \
	M(62, DNS_WROTE, "rpcd: dns", "rpcd", MSG_SMALL, REC(empty), 0, NONE) \
	\
	/* Between raftd and a process that fetches one set of keys, both of one build: there is no HELLO. */ \
	M(63, FETCH, "raftd: fetch", "raftd", MSG_TEXT, REC(msg_fetch), MSG_LARGE, REC(msg_fetched)) \
	\
	/* The first frame in both directions.  `version` is the lowest one that the sender speaks. */ \
	M(64, RAFT_HELLO, "8300", "both", MSG_SMALL, REC(msg_raft_hello), MSG_SMALL, REC(msg_raft_hello)) \
	/* A message of the Raft core, raftd/core/wire.h.  id 0. */ \
	M(65, RAFT, "8300", "who dialled", MSG_ALL, HAND, 0, NONE) \
	/* Bootstrap with me? */ \
	M(66, RAFT_BOOTSTRAP, "8300", "who dialled", MSG_TEXT, REC(msg_bootstrap), MSG_TEXT, ANSWER) \
	/* To the leader: remove me. */ \
	M(67, RAFT_REMOVE_ME, "8300", "who dialled", MSG_SMALL, REC(msg_remove_me), MSG_TEXT, ANSWER) \
	/* How far is your log? */ \
	M(68, RAFT_LOG_STATE, "8300", "who dialled", MSG_SMALL, REC(empty), MSG_TEXT, ANSWER_AND(msg_log_state)) \
	/* Why you are not what you may think you are; for the log there. */ \
	M(69, RAFT_NOTICE, "8300", "who was dialled", MSG_TEXT, REC(msg_notice), 0, NONE) \
	/* Does the rpcd beside you answer?  Only to one that says RAFT_FEATURE_SERVED.  TV_OK it has just done so; \
	 * TV_EUNREACH there is none; TV_EAGAIN it is of another build and was not asked.  No answer while it is \
	 * silent. */ \
	M(70, RAFT_SERVED, "8300", "who dialled", MSG_SMALL, REC(empty), MSG_TEXT, ANSWER) \
	\
	/* Between rpcd and the process that holds the keys of TLS, both of one build: there is no HELLO.  The first \
	 * frame, and again after a reload. */ \
	M(71, KEYS_SETUP, "rpcd: keys", "rpcd", MSG_TEXT, REC(msg_keys_setup), 0, NONE) \
	/* Of two processes in turn: one serves from the first of these on, and ends at the second one. */ \
	M(72, KEYS_SERVE, "rpcd: keys", "rpcd", MSG_SMALL, REC(empty), 0, NONE) \
	M(73, KEYS_RETIRE, "rpcd: keys", "rpcd", MSG_SMALL, REC(empty), 0, NONE) \
	/* What is used from now on: behind KEYS_SERVE, and whenever it becomes another one. */ \
	M(74, KEYS_FILES, "rpcd: keys", "rpcd: keys", MSG_LIST, REC(msg_keys_files), 0, NONE) \
	/* What the files hold cannot be used; what was used before goes on. */ \
	M(75, KEYS_BAD, "rpcd: keys", "rpcd: keys", MSG_TEXT, REC(msg_keys_bad), 0, NONE) \
	M(76, KEYS_SIGN, "rpcd: keys", "rpcd", MSG_SMALL, REC(msg_keys_sign), MSG_SMALL, REC(msg_keys_signed))

enum msg_type {
#define M(type, name, ...) MSG_##name = type,
	MSGS(M)
#undef M
};

struct msg_body {
	size_t max;			/* bytes; 0: there is none */
	bool by_hand;
	bool answer;			/* [u8 err, str text, fields of the record] */
	const struct schema *record;	/* NULL: by_hand, no body, or an answer without further fields */
};
struct msg {
	uint16_t type;
	const char *name;		/* "GOSSIP_JOIN" */
	struct msg_body question, reply;
};
extern const struct msg msgs_all[];	/* in the order of the rows */
extern const unsigned msgs_count;
/* NULL for an unknown type. */
const struct msg *msg_find(uint16_t type);
/* The largest body of a frame with these; of an unknown type what any channel takes. */
size_t msg_body_max(uint16_t type, uint16_t flags);

/* The body without arguments, []. */
#define MSG_EMPTY span_of((const uint8_t[]){ 0x90 }, 1)
/*
 * A whole body into a record, which holds what missing fields (SF_LATER) mean and else zeros.  Spans borrow the body;
 * lists come from the arena, which may be NULL for a record without any.  An error: malformed, or TV_ENOMEM.
 */
enum tv_err msg_read(const struct schema *record, struct span body, struct arena *a, void *rec);

struct msg_answer {
	enum tv_err err;
	struct span text;		/* at most 64 KiB */
	struct span value;		/* the third field as it stands; empty: nil, or there is none */
};
/*
 * The head of an answer, and what is behind it into a zeroed record (NULL: without).  The result says whether it is
 * well-formed, ans->err what it says; spans borrow the body.
 */
enum tv_err msg_answer_read(struct span body, struct msg_answer *ans, const struct schema *record, struct arena *a,
    void *rec);
/* An answer with the fields of a record (NULL: without). */
void msg_answer_write(struct buf *b, enum tv_err err, const char *text, const struct schema *record, const void *rec);
/* The head of an answer after which the caller writes so many fields more. */
void msg_answer_head(struct buf *b, uint32_t more, enum tv_err err, const char *text);

#endif
