/*
 * The Raft core: a pure state machine.  No sockets, clock, files, globals or logging.
 *
 * Contract.  The shell feeds one input at a time with raft_feed(); the core answers with an
 * output that the shell carries out in this order:
 *   1. hard_changed: make term and vote durable.
 *   2. append: cut the log at truncate_from (if not 0), then append the entries; durable later: tell
 *      the core with RAFT_IN_PERSISTED.  The order 1 before 2 must hold on disk (one transaction is fine), and
 *      writes reach the disk in the order of the outputs that asked for them.
 *   3. sends: those with after_hard must wait until every term and vote handed out so far (by this output or an
 *      earlier one) is durable, which costs nothing when none is outstanding; those with after_append until
 *      everything appended so far is durable (a follower's append answers).  The leader's own appends go out at
 *      once, in parallel with its own write.  The shell may lose, delay and reorder sends, never alter them.
 *   4. commit_index: entries up to it may be applied, in order.  It never passes what is durable here (S31).
 *   5. reads, notices, role.
 * The shell owns entry payloads; the core knows only index, term, type and size, in a compact map.
 * An APPEND to send names a range of indexes; the shell fills in the payloads from its cache or store.
 *
 * Sources: Ongaro, "Consensus: Bridging Theory and Practice" (thesis) ch. 3, 4.1-4.2 (single-server changes, with
 * the fix published on raft-dev in 2015), 6.4 (ReadIndex), 9.6 (pre-vote), 3.10 (transfer), 6.2 (check quorum).
 */
#ifndef TV_RAFTD_CORE_RAFT_H
#define TV_RAFTD_CORE_RAFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/base/mono.h"
#include "common/base/rd.h"
#include "common/base/buf.h"

#define RAFT_SERVERS_MAX 15		/* voters and learners */
#define RAFT_ID_BYTES 36		/* UUID text */

/* Servers are named by their UUID in configurations and by this number inside the core: the
 * first 8 bytes of the UUID are not enough, so it is the shell that maps ids; 0 is "none". */
typedef uint64_t raft_id;

enum raft_role { RAFT_FOLLOWER, RAFT_PRE_CANDIDATE, RAFT_CANDIDATE, RAFT_LEADER };
const char *raft_role_name(enum raft_role role);	/* "Follower", "Candidate", "Leader", as info prints */

enum raft_entry_type {
	RAFT_ENTRY_NOOP = 0,		/* first entry of a term */
	RAFT_ENTRY_OP = 1,		/* for the state machine */
	RAFT_ENTRY_CONFIG = 2,		/* payload: raft_config_write */
	RAFT_ENTRY_IGNORABLE = 0x80,	/* flag: a server that does not know the type skips it (S35) */
};

struct raft_server_conf {
	raft_id id;			/* hash of uuid and store_id, see raft_id_of() */
	char uuid[37];			/* node id */
	char store_id[37];		/* identity of the disk: a lost disk is a new server (S61) */
	char name[256];			/* node name, for people */
	char addr[64];			/* "ip:port" of raftd */
	bool voter;
};

struct raft_config {
	uint64_t index;			/* of the entry that holds it; 0: none */
	unsigned count;
	struct raft_server_conf servers[RAFT_SERVERS_MAX];
};
/* BLAKE-free, stable 64-bit FNV-1a of "uuid/store_id", never 0. */
raft_id raft_id_of(const char *uuid, const char *store_id);
/* A learner of these names, and its id. */
void raft_server_conf_fill(struct raft_server_conf *s, const char *uuid, const char *store_id, const char *name,
    const char *addr);
void raft_config_write(struct buf *b, const struct raft_config *c);
enum tv_err raft_config_read(struct span payload, struct raft_config *out);
const struct raft_server_conf *raft_config_find(const struct raft_config *c, raft_id id);
unsigned raft_config_voters(const struct raft_config *c);

struct raft_entry {			/* index, term, type and size are the core's; payload is the shell's */
	uint64_t index, term;
	uint8_t type;
	uint32_t size;			/* payload bytes */
	const uint8_t *payload;		/* needed by the core for RAFT_ENTRY_CONFIG only; borrowed */
};

enum raft_msg_type {
	RAFT_MSG_PRE_VOTE = 1, RAFT_MSG_PRE_VOTE_REPLY,
	RAFT_MSG_VOTE, RAFT_MSG_VOTE_REPLY,
	RAFT_MSG_APPEND, RAFT_MSG_APPEND_REPLY,		/* heartbeats are appends without entries */
	RAFT_MSG_SNAPSHOT, RAFT_MSG_SNAPSHOT_REPLY,	/* one chunk and its answer */
	RAFT_MSG_TIMEOUT_NOW,				/* leadership transfer */
	RAFT_MSG_READ_INDEX, RAFT_MSG_READ_INDEX_REPLY,	/* follower asks leader */
};

struct raft_msg {
	enum raft_msg_type type;
	raft_id from, to;
	uint64_t term;
	/* VOTE, PRE_VOTE: candidate's last entry.  APPEND: the entry before the first one. */
	uint64_t log_index, log_term;
	/* APPEND */
	uint64_t commit;
	uint64_t leader_last;		/* leader's last index, so that a learner can show progress */
	const struct raft_entry *entries;	/* in a received message: metas with payloads, borrowed */
	uint32_t entry_count;
	uint64_t seq;			/* APPEND and its reply: round number for ReadIndex and check-quorum; READ_INDEX: the context of the server that asked */
	/* replies */
	bool granted;			/* votes; APPEND_REPLY: accepted; READ_INDEX_REPLY: confirmed */
	bool full;			/* APPEND_REPLY: this disk takes no more (S85) */
	bool stateless;			/* APPEND_REPLY: log and votes are whole, the state is lost: a snapshot of the state at
					 * hint_index or later is needed (S89) */
	bool transfer;			/* VOTE caused by TIMEOUT_NOW: ignore the leader's lease */
	bool unready;			/* APPEND_REPLY: it cannot lead yet, since its state is being opened or replaced */
	bool went_back;			/* APPEND: you have acknowledged more than you have.  APPEND_REPLY: so it is, and it is not
					 * made up for yet (S61) */
	uint64_t match;			/* APPEND_REPLY accepted: last index known equal (durable there).  READ_INDEX_REPLY: the index */
	uint64_t hint_index, hint_term;	/* APPEND_REPLY refused: where to look next (conflict term optimisation) */
	/* SNAPSHOT: chunk [offset, offset+data.len) of `total` bytes of the snapshot at log_index/log_term */
	uint64_t offset, total;
	uint64_t checksum;		/* of the whole snapshot, first 8 bytes of BLAKE2b */
	bool done;			/* last chunk */
	struct span data;		/* filled and consumed by the shell */
	struct span config;		/* SNAPSHOT: raft_config bytes at log_index */
};

/* Codec of struct raft_msg, pure (raftd/core/wire.c).  Reading allocates nothing: entries go to the caller's array. */
void raft_msg_write(struct buf *b, const struct raft_msg *m);
enum tv_err raft_msg_read(struct span body, struct raft_msg *out, struct raft_entry *entries, uint32_t entries_max);

struct raft_options {
	raft_id self;
	struct mono election_timeout;	/* base T: timeouts are uniform in [T, 2T) */
	struct mono heartbeat;		/* interval; T >= 3 * heartbeat */
	uint32_t append_entries_max;	/* entries in one APPEND */
	uint32_t append_bytes_max;	/* payload bytes in one APPEND (at least one entry goes) */
	uint32_t inflight_max;		/* unanswered APPENDs to one follower */
	uint32_t snapshot_chunk_bytes;
	uint32_t catchup_rounds;	/* learner promotion: caught up when a round is shorter than T, or this many */
	uint64_t seed;
	bool check_quorum, pre_vote;	/* both on, except in tests */
	struct mono commit_delay;	/* a new commit index waits this long for an append that can carry it; 0: not at all */
	uint32_t uncommitted_entries_max;	/* PROPOSE beyond either window: TV_EAGAIN; 0: 65536 entries, 64 MiB */
	uint64_t uncommitted_bytes_max;
};

/* What was found in the store at start. */
struct raft_restore {
	uint64_t term;
	raft_id vote;
	uint64_t snapshot_index, snapshot_term;	/* state machine is complete up to here */
	struct raft_config snapshot_config;	/* configuration in force at snapshot_index */
	uint64_t applied;			/* >= snapshot_index: what the state machine has applied */
	bool stateless;				/* the state is lost and the log cannot rebuild it.  This server votes and stores as
						 * ever, and asks the leader for a snapshot; it does not stand for election */
	bool opening;				/* the state is still being opened, so what it has applied is not known: `applied` and
						 * `stateless` do not count, RAFT_IN_STATE_OPEN tells them.  Until then this server votes and
						 * stores as ever, and does not stand for election: others can serve, it could not */
	/* The log, first..last, contiguous from snapshot_index + 1 or earlier; fed with raft_restore_entry(). */
};

struct raft;			/* the core */

struct raft *raft_new(const struct raft_options *opt, const struct raft_restore *from, struct mono now);
void raft_free(struct raft *r);
/*
 * Before the first feed: each stored entry in order (payload for CONFIG entries).  TV_ECORRUPT on a gap, TV_ENOMEM.
 * A log that ends before snapshot_index or `applied` shows in the first output as RAFT_NOTICE_READ_ONLY_CORRUPT.
 */
enum tv_err raft_restore_entry(struct raft *r, const struct raft_entry *e);

enum raft_in_type {
	RAFT_IN_TICK,			/* time passed; nothing else */
	RAFT_IN_MSG,			/* msg */
	RAFT_IN_PROPOSE,		/* entries/entry_count: type, size (payload for CONFIG is refused: use RAFT_IN_CHANGE) */
	RAFT_IN_PERSISTED,		/* index, term: the log is durable up to here (term of that entry); ctx: write_epoch of the
					 * newest output in that write, so that a completion from before a truncation is known (S29) */
	RAFT_IN_APPLIED,		/* index */
	RAFT_IN_STATE_OPEN,		/* once, after raft_restore.opening, and before anything is applied.  index: what the state machine has
					 * applied; ctx: 1, it is stateless.  A log that ends before index shows as
					 * RAFT_NOTICE_READ_ONLY_CORRUPT */
	RAFT_IN_READ,			/* ctx: confirm a linearizable read */
	RAFT_IN_CHANGE,			/* change: one server */
	RAFT_IN_TRANSFER,		/* to: target (0: the most up-to-date voter) */
	RAFT_IN_COMPACTED,		/* index: log entries <= index were removed (0: none); snapshot_index: the state machine is
					 * durable up to here (>= index; 0: same as index).  Term and config there are remembered by the core */
	RAFT_IN_SNAPSHOT_READY,		/* leader side, answers RAFT_NOTICE_NEED_SNAPSHOT: a snapshot of the state at `index`
					 * (<= applied, >= first_index - 1) of `offset` bytes can be sent.  One at a time is kept: until the next
					 * RAFT_NOTICE_NEED_SNAPSHOT, or until no peer is snapshotting */
	RAFT_IN_SNAPSHOT_INSTALLED,	/* a received snapshot is the state now, durably: msg->log_index, log_term, config.
					 * All log entries are gone, unless raft_keeps_log().  Only after a chunk with `done` was handed out */
	RAFT_IN_SNAPSHOT_CHUNK,		/* follower side: chunk [..offset) of msg is stored; acknowledge with offset.  An offset
					 * below what was handed out (0: bad checksum) makes the leader send again from there */
	RAFT_IN_UNREACHABLE,		/* to: the link to this server is down (probe, free its in-flight window) */
	RAFT_IN_REACHABLE,		/* to: the link is up again: send at once */
	RAFT_IN_GONE,			/* to: the process of this server has ended: our links with it were closed, and no process listens at its
					 * address.  A follower whose leader that is listens to candidates from now on, and asks for pre-votes
					 * within 50 ms, at random, instead of after the election timeout.  Wrong evidence costs nothing while the
					 * others hear the leader: they refuse.  Nothing happens unless check_quorum and pre_vote are on */
	RAFT_IN_DISK_STUCK,		/* own writes hang beyond the bound: a leader steps down (S87) */
	RAFT_IN_DISK_SPACE,		/* ctx: 1, this disk is full: no entries for the state machine are taken any more, the leader is
					 * told; 0, it has room again.  Terms, votes and the core's own entries always go (S85) */
	RAFT_IN_BOOTSTRAP,		/* config: fresh server only; becomes entry 1 of term 1 */
	RAFT_IN_RECOVER,		/* config: this server alone.  The majority is lost for good, says the operator: it becomes the next
					 * entry, in a new term, and everything before it counts.  Breaks every promise of Raft towards the servers
					 * given up, so the shell must never again let a message of theirs in or one to them out.  TV_ECONFLICT: leader,
					 * state lost, or nothing to recover; TV_EAGAIN: a snapshot is being installed, or the state opened */
	RAFT_IN_WENT_BACK,		/* term, index: this server once had this term and the log of its leader up to this index, durably, and was
					 * started with less: its disk was put back to an older state.  It takes no part in elections until a leader's
					 * log has made up for that.  TV_EEXIST: known already; TV_ECONFLICT: it is the only voter, so no other server
					 * can make up for it */
	RAFT_IN_RETIRE,			/* takes no part any more: no leader is known, it gives no vote and hears no message */
};

enum raft_change_type { RAFT_ADD_LEARNER, RAFT_PROMOTE, RAFT_DEMOTE, RAFT_REMOVE, RAFT_UPDATE_ADDR };

struct raft_change {
	enum raft_change_type type;
	struct raft_server_conf server;	/* id always; the rest for ADD_LEARNER and UPDATE_ADDR */
};

struct raft_input {
	enum raft_in_type type;
	struct mono now;
	const struct raft_msg *msg;
	const struct raft_entry *entries;
	uint32_t entry_count;
	uint64_t index, term, ctx, offset;
	uint64_t snapshot_index;	/* COMPACTED */
	raft_id to;
	const struct raft_change *change;
	const struct raft_config *config;
};

struct raft_send {
	struct raft_msg msg;		/* for APPEND: entries is NULL; the range is first..first+entry_count-1 */
	uint64_t first;			/* first index of the range */
	bool after_hard, after_append;
	/* SNAPSHOT of log_index: the chunk is [offset, min(offset + snapshot_chunk_bytes, total)), empty when the core
	 * only asks how far the other is; the shell fills data, checksum and config (raft_config_at(log_index)) */
};

struct raft_read {
	uint64_t ctx;
	bool ok;			/* false: no leader or leadership lost; ask again */
	uint64_t index;			/* serve when applied >= index */
};

enum raft_notice_type {
	RAFT_NOTICE_ROLE,		/* role, term and leader in raft_status() changed */
	RAFT_NOTICE_LEADER,		/* leader known or lost */
	RAFT_NOTICE_TERM,		/* `index` is the new term */
	RAFT_NOTICE_PEER_ADDED,		/* config entry appended that adds `id`: "Added peer ..., starting replication" */
	RAFT_NOTICE_PEER_PROMOTED,	/* id */
	RAFT_NOTICE_PEER_DEMOTED,	/* id: a voter that is a learner now (when committed) */
	RAFT_NOTICE_PEER_REMOVED,	/* id: "Removed peer ..., stopping replication" (when committed) */
	RAFT_NOTICE_SELF_REMOVED,	/* "Removed ourself, transitioning to follower" (when committed) */
	RAFT_NOTICE_CONFIG_COMMITTED,	/* index */
	RAFT_NOTICE_NO_PEERS,		/* election timeout without a configuration: "EnableSingleNode disabled, and no known peers. Aborting election." (once) */
	RAFT_NOTICE_NOT_VOTER,		/* election timeout, not a voter (once per change) */
	RAFT_NOTICE_QUORUM_LOST,	/* leader stepped down: no majority within T */
	RAFT_NOTICE_LEADER_GONE,	/* asks for pre-votes before the election timeout: the process of the leader id has ended */
	RAFT_NOTICE_NEED_SNAPSHOT,	/* id is behind the log, or lost its state: prepare a snapshot of the state at `index` - 1 or later and
					 * feed RAFT_IN_SNAPSHOT_READY; sends follow.  Repeated while unanswered */
	RAFT_NOTICE_CAUGHT_UP,		/* learner id is ready for RAFT_PROMOTE */
	RAFT_NOTICE_WENT_BACK,		/* the disk of id was put back to an older state.  id another server: this one leads, and index is what that
					 * one had acknowledged; id this server: index is what it had, 0 when a leader says so without a number */
	RAFT_NOTICE_REGAINED,		/* id, the same: it has everything again that was lost, up to index */
	RAFT_NOTICE_TRANSFER_DONE, RAFT_NOTICE_TRANSFER_FAILED,
	RAFT_NOTICE_VIOLATION,		/* a peer broke the protocol (see enum raft_violation): id, code in index; log it, data is safe */
	RAFT_NOTICE_READ_ONLY_CORRUPT,	/* would cut a committed entry: the shell must stop the process (S26) */
};
/* `index` of RAFT_NOTICE_VIOLATION. */
enum raft_violation {
	RAFT_VIOLATION_NUMBERS = 1,	/* term or index out of range, or fields that contradict each other (S203) */
	RAFT_VIOLATION_ADDRESSEE,	/* not for us, from us or from no sender */
	RAFT_VIOLATION_SECOND_LEADER,	/* two leaders in one term (S30) */
	RAFT_VIOLATION_ENTRIES,		/* entries out of order, or a malformed configuration */
	RAFT_VIOLATION_ANSWER,		/* acknowledges what was never sent */
	RAFT_VIOLATION_SNAPSHOT,	/* chunk outside its snapshot */
};
const char *raft_violation_text(enum raft_violation code);	/* for the log; never NULL */

struct raft_notice {
	enum raft_notice_type type;
	raft_id id;
	uint64_t index;
};

struct raft_output {			/* owned by the core, valid until the next raft_feed() */
	enum tv_err err;		/* of the input itself: PROPOSE/CHANGE/TRANSFER: TV_ENOTLEADER, TV_ECONFLICT, TV_EAGAIN (window full) */
	bool hard_changed;
	uint64_t term;			/* to store, with vote */
	raft_id vote;
	uint64_t truncate_from;		/* 0: nothing */
	uint64_t write_epoch;		/* grows with each truncation; goes back as ctx of RAFT_IN_PERSISTED */
	/* Entries to append.  From PROPOSE: same order as the input, indexes and terms filled in (payload pointers as given).
	 * From an APPEND message: the new ones among msg->entries, payloads borrowed from it.  NOOP and CONFIG: made by the core, payload borrowed from the core. */
	const struct raft_entry *append;
	uint32_t append_count;
	const struct raft_send *sends;
	uint32_t send_count;
	uint64_t commit_index;
	const struct raft_read *reads;
	uint32_t read_count;
	const struct raft_notice *notices;
	uint32_t notice_count;
	/* Received SNAPSHOT chunk to store: msg of the input, or NULL.  Offset 0 starts a new snapshot (drop an unfinished one).
	 * With `done`: verify, install durably, then feed SNAPSHOT_INSTALLED; the core leaves its log alone until then. */
	const struct raft_msg *snapshot_chunk;
	struct mono deadline;		/* feed RAFT_IN_TICK at or after this instant */
};

void raft_feed(struct raft *r, const struct raft_input *in, struct raft_output *out);

struct raft_peer_status {
	raft_id id;
	uint64_t match, next;
	bool voter, active, snapshotting;	/* active: answered within T */
	bool caught_up;
	bool full;			/* its disk is full: it gets nothing but heartbeats */
	bool unready;			/* it said that its state is being opened or replaced */
	bool went_back;			/* its disk was put back to an older state: neither its vote nor what it acknowledged before counts
					 * in a decision about the quorum, until it was made a learner or cannot be spared */
	bool lacking;			/* with went_back: it has not made up for that yet */
	struct mono last_contact;	/* instant; 0: never */
};
struct raft_status {
	enum raft_role role;
	uint64_t term, commit, applied, last_index, last_term, first_index, snapshot_index, snapshot_term;
	uint64_t persisted;
	raft_id leader, vote;
	uint64_t leader_last;		/* follower: leader's last index as last heard */
	struct mono leader_contact;	/* follower: when the leader was last heard; 0: never */
	bool voter, ready;		/* ready: leader whose own-term entry is committed */
	/*
	 * Leader that has applied the first entry of its term (RAFT_IN_APPLIED), and with it everything that earlier leaders
	 * committed.  Before that the state does not show all of their decisions.
	 */
	bool informed;
	uint64_t own_first;		/* leader: index of that entry; else 0 */
	uint64_t prompt_elections;	/* RAFT_NOTICE_LEADER_GONE, since the start */
	uint64_t disks_went_back;	/* RAFT_NOTICE_WENT_BACK, since the start */
	bool went_back;			/* this disk was put back to an older state, and that is not made up for yet */
	uint64_t regained_term;		/* it was, with the log of the leader of this term; 0: never since the start */
	uint64_t kept;			/* durable here and in the log of this term's leader: never cut again in this term */
	bool transferring, change_pending;
	unsigned peer_count;
	struct raft_peer_status peers[RAFT_SERVERS_MAX];
};
void raft_status(const struct raft *r, struct raft_status *out);
/* What it says of this server; NULL: it is no peer. */
const struct raft_peer_status *raft_status_peer(const struct raft_status *st, raft_id id);
/* Newest configuration (committed or not); and the newest committed one. */
const struct raft_config *raft_config(const struct raft *r);
const struct raft_config *raft_config_committed(const struct raft *r);
/* Must the log stay when this snapshot is installed?  It holds the entry there, and those after it were promised. */
bool raft_keeps_log(const struct raft *r, uint64_t index, uint64_t term);
/* Configuration in force at an index in [snapshot_index, last_index]. */
const struct raft_config *raft_config_at(const struct raft *r, uint64_t index);
/* Highest index that can be compacted without making a live peer or a running snapshot transfer start over (S44). */
uint64_t raft_compact_limit(const struct raft *r);
/* Term of a log index within [snapshot_index, last_index], or 0. */
uint64_t raft_term_at(const struct raft *r, uint64_t index);
/* Would the remaining healthy voters make a quorum if `id` went away?  healthy: voters the shell believes alive (self included). */
bool raft_removal_keeps_quorum(const struct raft_config *c, raft_id id, const raft_id *healthy, unsigned healthy_count);

#endif
