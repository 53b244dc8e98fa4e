/*
 * Inside the Raft core: the state, and what its files offer each other.  No file outside raftd/core includes this.
 *
 * raft.c        life, dispatch of inputs, assembly of the output
 * message.c     what is done with a message before its file handles it
 * status.c      what the shell may ask
 * election.c    roles, timeouts, pre-vote, votes, check-quorum, transfer
 * replicate.c   leader's side: what each peer has, appends, acknowledgements, the commit rule
 * follow.c      follower's side of appends
 * snapshot.c    chunked transfer, both sides
 * readindex.c   linearizable reads, both sides
 * members.c     configurations in the log, changes of one server
 * logidx.c      terms and sizes of the log's entries
 * config.c wire.c   bytes
 */
#ifndef TV_RAFTD_CORE_RAFT_INT_H
#define TV_RAFTD_CORE_RAFT_INT_H

#include "common/base/rng.h"
#include "raftd/core/logidx.h"
#include "raftd/core/raft.h"

/* Terms and indexes at or above this are nonsense or an attack (S203). */
#define RAFT_NUMBER_MAX ((uint64_t)1 << 62)
/* Configured servers, and one that is being removed. */
#define PEERS_MAX (RAFT_SERVERS_MAX + 1)
#define NOTICES_MAX 128
#define READS_MAX 65536		/* reads waiting for confirmation */
#define READ_PATIENCE 16		/* that part of a heartbeat interval, until all voters are asked */
#define READ_ROUNDS 2		/* unconfirmed rounds at a time; later reads gather for the next one */
#define SNAPSHOT_WINDOW 4	/* unacknowledged chunks */

/* What a leader knows of the disk of a peer. */
enum peer_disk {
	DISK_KEPT,			/* it has what it acknowledged */
	DISK_LACKING,			/* it went back to an older state, and was not caught up yet */
	DISK_REGAINED,			/* it has everything again; a voter that can be spared is made a learner once all the same */
};

enum progress {
	PROGRESS_PROBE,			/* where the logs agree is not known: one append at a time */
	PROGRESS_PIPELINE,		/* known: appends go out without waiting for answers */
	PROGRESS_NEED_SNAPSHOT,		/* behind our log; the shell prepares a snapshot */
	PROGRESS_SNAPSHOT,		/* chunks are on the way */
};

struct peer {
	raft_id id;
	bool voter;			/* in the newest configuration */
	bool leaving;			/* not in the newest configuration, which is not committed yet */
	/* candidate */
	bool answered, granted;
	/* leader */
	enum progress progress;
	uint64_t match;			/* durable there and equal to our log */
	uint64_t match_seq;		/* newest round when that was heard: an append of a later one was sent after it */
	enum peer_disk disk;
	uint64_t void_seq;		/* newest round when that was found out: answers to it and earlier ones may be of before */
	uint64_t regain;		/* match with which it is no longer DISK_LACKING */
	uint64_t regain_seq;		/* newest round when it had that: what it answered to earlier ones is old */
	uint64_t next;			/* next entry to send */
	bool full;			/* its disk takes no more: probed with each heartbeat */
	bool unready;			/* it could not take over: its state is being opened or replaced */
	bool stateless;			/* it needs a snapshot of snap_min or later, whatever its log has */
	uint64_t snap_min;
	bool probe_sent;		/* in PROBE: wait for the answer or the next heartbeat */
	uint64_t sent_commit;		/* commit index in the newest append to it */
	uint64_t asked_seq, acked_seq;	/* newest round that it was sent; that it answered */
	struct mono contact;		/* when it last answered; at election: the time of that */
	bool heard;			/* it has answered in this leadership */
	uint64_t *inflight;		/* ring of last indexes of unanswered appends; options.inflight_max places */
	uint32_t inflight_head, inflight_count;
	/* leader, snapshot transfer */
	uint64_t snap_index, snap_term, snap_total;
	uint64_t snap_acked, snap_next;	/* bytes stored there; next offset to send */
	bool snap_asked;		/* in NEED_SNAPSHOT: the shell knows */
	struct mono snap_time;		/* last progress, retry, or question to the shell */
	/* leader, learner's catch-up in rounds (thesis 4.2.1) */
	uint64_t round_target;		/* 0: not started */
	uint32_t rounds;
	struct mono round_start;
	bool caught_up;
};

struct config_node {			/* one configuration in the log */
	struct config_node *next;	/* the following one */
	struct raft_config config;
};

struct read_item {
	uint64_t ctx;			/* of the server that asked */
	raft_id from;			/* 0: asked here */
	uint64_t seq;			/* round (leader) or request (follower) that confirms it; 0: waits for the next */
	uint64_t index;
};

struct incoming {			/* snapshot being received */
	uint64_t index, term, total, checksum;	/* index 0: none */
	uint64_t handed;		/* bytes given to the shell */
	bool installing;		/* all was handed out; the log is frozen */
};

struct raft {
	struct raft_options opt;
	struct rng rng;
	struct mono now;		/* of the input being handled */
	bool started;

	/* hard state */
	uint64_t term;
	raft_id vote;

	enum raft_role role;
	raft_id leader;			/* 0: none known */
	bool leader_seen;		/* leader_contact is valid */
	struct mono leader_contact;
	uint64_t leader_last;
	struct mono election_due;
	bool transfer_campaign;		/* our candidacy was asked for by the leader */
	raft_id gone;			/* leader whose process has ended: it grants nothing until it is heard of again; 0: none */
	unsigned prompt_tries;		/* so often it is still asked for votes without waiting for the election timeout */
	uint64_t prompt_elections;
	bool said_no_peers, said_not_voter;
	bool retired;			/* RAFT_IN_RETIRE */

	/* log */
	struct logidx log;
	uint64_t commit;		/* Raft's commit index: may pass `persisted` by what others made durable */
	uint64_t applied, persisted;
	uint64_t snapshot_index, snapshot_term;
	uint64_t write_epoch;
	bool stateless;			/* waits for a snapshot although the log is whole */
	bool opening;			/* before RAFT_IN_STATE_OPEN: commit and applied may be too low */
	bool disk_full;			/* only what the core itself writes is taken */
	uint64_t verified;		/* follower: equal to the log of this term's leader up to here; 0: nothing heard */
	bool went_back;			/* this disk is an older state of itself: no votes, no candidacy */
	uint64_t regain;		/* `verified` and durable: then that is made up for; 0: no leader was heard since */
	uint64_t regained_term;		/* it was, in this term: what its leader says of that is old */
	uint64_t disks_went_back;

	/* configurations: base is the newest one at or below the snapshot, then those in the log above */
	struct config_node *configs, *newest;	/* never NULL; configs is the oldest */
	struct config_node *spare;	/* so that a change cannot fail half-way */
	bool self_voter;		/* in the newest */
	struct peer peers[PEERS_MAX];
	unsigned peer_count;
	uint64_t *inflight_pool;

	/* leader */
	struct mono heartbeat_due;
	uint64_t seq;			/* newest round */
	uint64_t own_first;		/* our NOOP: own-term commit rule */
	uint64_t uncommitted_bytes;
	struct mono commit_due;		/* followers are told of the commit index then; MONO_NEVER: none has to be */
	struct {
		bool active, sent;
		raft_id to;
		struct mono due;
	} transfer;
	struct {			/* snapshot that the shell holds for sending */
		uint64_t index, term, total;	/* index 0: none */
	} offer;

	/* reads, either side: a ring in order of arrival */
	struct read_item *reads;
	uint32_t read_head, read_count, read_cap;
	uint64_t read_seq;		/* follower: newest request sent */
	uint64_t read_done;		/* follower: newest request answered */
	struct mono read_retry_due;	/* a follower asks again then; a leader asks the voters that were spared */

	struct incoming incoming;

	/* output under construction */
	bool hard_changed;
	enum tv_err err;
	uint64_t truncate_from;
	const struct raft_entry *append;
	uint32_t append_count;
	struct raft_entry *entries;	/* owned; what the leader appends */
	size_t entry_cap, send_cap;
	struct raft_send *sends;	/* owned */
	uint32_t send_count;
	struct raft_read *done_reads;	/* owned; read_cap + 1 places */
	uint32_t done_count;
	struct raft_notice notices[NOTICES_MAX];
	uint32_t notice_count;
	const struct raft_msg *snapshot_chunk;
	struct buf config_bytes;	/* payload of the CONFIG entry made by this input */
};

/* -- raft.c */
/* Adds a notice to the output; past the cap it is dropped, so the grave ones come first in an input. */
void raft_note(struct raft *r, enum raft_notice_type type, raft_id id, uint64_t index);
/* A message to `to`, with from, to, term and after_hard filled in; NULL without memory: as if the network lost it. */
struct raft_send *raft_send_to(struct raft *r, enum raft_msg_type type, raft_id to);
/* Changes the hard state and says so in the output.  vote 0: none. */
void raft_set_hard(struct raft *r, uint64_t term, raft_id vote);
/* Appends entries made here (type, size and payload given; index and term are filled in).  TV_ENOMEM: nothing happened. */
enum tv_err raft_append_own(struct raft *r, const struct raft_entry *entries, uint32_t count);
/* Moves the commit index up and does what that entails for configurations. */
void raft_commit_to(struct raft *r, uint64_t index);
/* What may be applied: committed, and durable here (S31). */
uint64_t raft_publishable(const struct raft *r);
/* The peer of that id, or NULL. */
struct peer *raft_peer(struct raft *r, raft_id id);
/* k-th largest of n values (k from 1); sorts v. */
uint64_t raft_kth_largest(uint64_t *v, unsigned n, unsigned k);

/* -- message.c */
void message_in(struct raft *r, const struct raft_msg *m);

/* -- election.c */
/*
 * The only place where role, term and leader change.  Leaving leadership fails reads and the transfer; a new
 * leader, or none, fails forwarded reads.  Does not touch the election timer.
 */
void election_become(struct raft *r, enum raft_role role, uint64_t term, raft_id leader);
void election_reset_timer(struct raft *r);
/* Contact with the leader of our term: back to follower if need be, timer restarted.  False: protocol violation. */
bool election_heard_leader(struct raft *r, raft_id from);
/* The election timer expired, or BOOTSTRAP/restart found us alone. */
void election_timeout(struct raft *r);
/* The process of this server has ended: if it led, its successor is due. */
void election_gone(struct raft *r, raft_id id);
/* It lives, or another one at its place does. */
void election_back(struct raft *r, raft_id id);
/* Leader: steps down when no majority answered within T (check-quorum). */
void election_check_quorum(struct raft *r);
/* Leader gives up its role without a successor, nudging the best voter first. */
void election_hand_over(struct raft *r);
void election_transfer_tick(struct raft *r);
/* Leader: the transfer's target may be complete now. */
void election_transfer_progress(struct raft *r, struct peer *p);
/* True: do not listen to candidates, a leader lives (thesis 4.2.3, 6.2). */
bool election_lease(const struct raft *r);
void election_on_pre_vote(struct raft *r, const struct raft_msg *m);
void election_on_pre_vote_reply(struct raft *r, const struct raft_msg *m);
void election_on_vote(struct raft *r, const struct raft_msg *m);
void election_on_vote_reply(struct raft *r, const struct raft_msg *m);
void election_on_timeout_now(struct raft *r, const struct raft_msg *m);
enum tv_err election_transfer(struct raft *r, raft_id to);

/* -- replicate.c */
/* New leader: all peers are probed from the end of the log. */
void replicate_start(struct raft *r);
void replicate_peer_init(struct raft *r, struct peer *p);
/* Sends whatever the peer's window allows. */
void replicate_pump(struct raft *r, struct peer *p);
void replicate_pump_all(struct raft *r);
/* An append without entries; seq 0: no answer wanted unless it is refused. */
void replicate_empty(struct raft *r, struct peer *p, uint64_t seq);
void replicate_heartbeat_all(struct raft *r);
/* The commit index has waited long enough for an append that carries it. */
void replicate_commit_tick(struct raft *r);
/* Tells this peer the commit index before it needs that, unless it knows. */
void replicate_tell_commit(struct raft *r, struct peer *p);
/* Index known to be durable on a majority; commits it if it is of our term. */
void replicate_try_commit(struct raft *r);
void replicate_to_probe(struct raft *r, struct peer *p, uint64_t next);
void replicate_unreachable(struct raft *r, raft_id id);
void replicate_reachable(struct raft *r, raft_id id);
/* Has it answered (or were we elected) within the election timeout? */
bool replicate_active(const struct raft *r, const struct peer *p);
/* Would promoting this learner now be safe (S59)? */
bool replicate_caught_up(const struct raft *r, const struct peer *p);
/* What this peer has, durable and equal to our log, by its newest answer; ignored when it is less than before. */
void replicate_matched(struct raft *r, struct peer *p, uint64_t match);
void replicate_on_append_reply(struct raft *r, const struct raft_msg *m);

/* -- follow.c */
void follow_on_append(struct raft *r, const struct raft_msg *m);
/* What a follower may report: equal to the leader's log and durable. */
uint64_t follow_durable(const struct raft *r, uint64_t verified);

/* This server's disk is known to have gone back, by its shell or by the leader; index: see RAFT_NOTICE_WENT_BACK. */
void follow_went_back(struct raft *r, uint64_t index);
/* More of the leader's log is known to be equal, or durable: perhaps all that was lost is here again. */
void follow_regain(struct raft *r);

/* -- snapshot.c */
void snapshot_need(struct raft *r, struct peer *p);
void snapshot_pump(struct raft *r, struct peer *p);
void snapshot_tick(struct raft *r, struct peer *p);
void snapshot_ready(struct raft *r, uint64_t index, uint64_t total);
void snapshot_on_chunk(struct raft *r, const struct raft_msg *m);
void snapshot_on_reply(struct raft *r, const struct raft_msg *m);
void snapshot_chunk_stored(struct raft *r, const struct raft_msg *m, uint64_t offset);
void snapshot_installed(struct raft *r, const struct raft_msg *m, const struct raft_config *config);

/* -- readindex.c */
enum tv_err read_local(struct raft *r, uint64_t ctx);
/* Leader: a round may have been confirmed, or the own-term entry committed. */
void read_progress(struct raft *r);
/* Leader, before a heartbeat: reads that wait for a round join this one. */
void read_join_round(struct raft *r);
bool read_pending(const struct raft *r);
/* Leader: a round that stays unconfirmed goes to those, too, that it spared. */
void read_round_tick(struct raft *r);
/* Follower: repeats a request whose answer is overdue. */
void read_tick(struct raft *r);
/* Leadership or leader lost: everything pending fails. */
void read_fail_all(struct raft *r);
void read_on_index(struct raft *r, const struct raft_msg *m);
void read_on_index_reply(struct raft *r, const struct raft_msg *m);

/* -- members.c */
bool members_init(struct raft *r, const struct raft_config *base);
void members_done(struct raft *r);
/* Makes sure that n more configurations can be added without failing. */
bool members_reserve(struct raft *r, unsigned n);
/* A configuration entry entered the log; the newest one counts at once (thesis 4.1).  Uses the reserve. */
void members_add(struct raft *r, const struct raft_config *c);
/* The log was cut: configurations >= from are void (S27). */
void members_truncate(struct raft *r, uint64_t from);
void members_compact(struct raft *r, uint64_t upto);
void members_reset(struct raft *r, const struct raft_config *base);
/* commit moved from `from` to r->commit: notices, end of a removal. */
void members_committed_range(struct raft *r, uint64_t from);
/* May this server stand for election (S15)? */
bool members_electable(const struct raft *r);
enum tv_err members_change(struct raft *r, const struct raft_change *change);
enum tv_err members_bootstrap(struct raft *r, const struct raft_config *config);
enum tv_err members_recover(struct raft *r, const struct raft_config *config);
/* Voters needed for a decision in the newest configuration. */
unsigned members_quorum(const struct raft *r);
/* Leader: would the others that answer, and whose disks are as they were, be a quorum without the vote of p? */
bool members_can_spare(const struct raft *r, const struct peer *p);

/* -- config.c: checks beyond the codec: ids unique and not 0, texts terminated, at least one voter. */
bool config_valid(const struct raft_config *c);

#endif
