/*
 * A world of Raft servers in virtual time, for sim_raft (chaos by seed) and trace_raft (scripts).
 *
 * The core under test is the real one.  Modelled are its shell (carries out raft_output by the contract of raft.h), the
 * disk (forgets what was not synced, tears the write in progress), the network (delays, loses, doubles, reorders, cuts),
 * the state machine (a hash chain over what was applied), and time.  Everything random comes from one seed.
 *
 *   raft_world.c   events, life of a server, outputs       raft_disk.c    log, hard state, write queue, crashes
 *   raft_net.c     messages                                raft_snap.c    snapshots and compaction
 *   raft_links.c   what links tell of a dead process
 *   raft_check.c   invariants, with each step              raft_state.c   the state machine: registers
 *   raft_plan.c    what differs between seeds              raft_clients.c users, and what they saw
 *   raft_chaos.c   faults and operators                    raft_peace.c   what is due when the faults end
 *   raft_back.c    a disk that goes back
 */
#ifndef TV_TESTS_SIM_RAFT_WORLD_H
#define TV_TESTS_SIM_RAFT_WORLD_H

#include <stdbool.h>
#include <stdio.h>
#include <stdint.h>

#include "common/base/rng.h"
#include "raftd/core/raft.h"
#include "tests/sim/linear.h"

#define NODES_MAX 9
#define SIM_ENTRIES_MAX 64	/* in one message */
#define SIM_KEYS 5		/* registers; the last SIM_LISTED of them are listed together */
#define SIM_LISTED 3
#define PLAN_VERSION 7		/* a seed means the same run as long as this stays */

struct world;
struct event;

/* -- data */

struct blob {			/* payload, shared by all who hold it */
	unsigned refs;
	uint32_t size;
	uint8_t bytes[];
};

struct blob *blob_new(const void *bytes, uint32_t size);
struct blob *blob_ref(struct blob *b);
void blob_drop(struct blob *b);

struct sim_entry {
	uint64_t index, term;
	uint8_t type;
	struct blob *payload;	/* held */
};

struct sim_log {
	uint64_t first;		/* index of e[0] */
	struct sim_entry *e;
	size_t count, cap;
};

uint64_t simlog_last(const struct sim_log *l);
const struct sim_entry *simlog_at(const struct sim_log *l, uint64_t index);	/* NULL: not held */
void simlog_push(struct sim_log *l, const struct sim_entry *e);		/* takes its own hold */
void simlog_truncate(struct sim_log *l, uint64_t from);
void simlog_compact(struct sim_log *l, uint64_t upto);
void simlog_reset(struct sim_log *l, uint64_t first);
void simlog_done(struct sim_log *l);
uint64_t hash_bytes(uint64_t seed, const void *p, size_t n);

/* -- disk */

struct sim_snap {		/* what a snapshot stands for; `data` is what travels */
	uint64_t index, term, state;	/* state: hash chain up to index */
	struct raft_config config;
	struct blob *data;		/* held; NULL when only the position matters */
};

struct sim_write {		/* one output's worth */
	struct sim_write *next;
	uint64_t seq, epoch;
	bool hard;
	uint64_t term;
	raft_id vote;
	uint64_t truncate_from;
	struct sim_log entries;
	struct sim_snap *install;	/* owned; replaces log and state */
};

struct sim_disk {
	uint64_t term;
	raft_id vote;
	struct sim_snap snap;		/* state machine is durable at least up to here */
	struct sim_log log;
	/* queue: the first `started` writes are one transaction in progress */
	struct sim_write *head, **tail;
	unsigned started;
	uint64_t seq_issued, seq_done, seq_hard;
	bool stalled;			/* nothing gets through */
	bool waiting;			/* the transaction would be done if it did */
	uint64_t stall;			/* number of the stall */
};

/* -- servers */

struct disk_copy {		/* of a disk, for later */
	bool taken;
	uint64_t term, applied;
	raft_id vote;
	struct sim_snap snap;
	struct sim_log log;
};

enum back { BACK_NOT, BACK_TO_BE_TOLD, BACK_TOLD, BACK_UNKNOWN };	/* UNKNOWN: only the leader can find out */

struct held_send {		/* waits for a write */
	struct held_send *next;
	uint64_t seq;
	int to;
	struct blob *bytes;
	struct raft_msg msg;	/* its fixed fields, for the checks */
};

struct pending_write {		/* proposed here, not applied yet */
	uint64_t index, term;
	uint32_t request;	/* 0: nobody asks for the outcome */
};

struct pending_read {
	uint64_t ctx, floor;	/* newest acknowledged write when it began */
	uint32_t request;	/* 0: nobody wants the values */
	uint64_t serve_at;	/* confirmed: waits until so much is applied; 0: not confirmed */
	uint64_t seen_at;	/* looked up when it arrived, in the state of this index: as a server may; 0: it was not */
};

/* -- state machine: registers, written by operations of up to two of them */

struct kv_op {			/* payload of an entry: its first bytes, as far as count says */
	uint64_t id;		/* KV_MARK and a number; other payloads mean nothing to the registers */
	uint64_t count;
	struct kv_step {
		uint32_t kind, key;	/* LIN_CHECK or LIN_WRITE */
		uint64_t value;
	} steps[3];
};
#define KV_MARK ((uint64_t)1 << 63)

struct request {		/* of a client */
	struct lin_op op;
	struct lin_step steps[SIM_KEYS];
	uint32_t count, client;
	int server;		/* asked first */
	unsigned gen;		/* its life then */
	bool closed;		/* the client knows, or has given up */
	bool keep;		/* belongs into the history */
};

struct client {
	uint32_t request;	/* 0: idle */
	uint64_t seen[SIM_KEYS];	/* what it saw or wrote last */
};
#define CLIENTS_MAX 8

struct sim_node {
	int i;			/* 0.. */
	raft_id id;
	struct raft *core;	/* NULL: down */
	unsigned gen;		/* life */
	unsigned stores;	/* disks that it lost */
	struct sim_disk disk;
	struct disk_copy copy;
	enum back back;		/* its disk went back, and that is not made up for */
	unsigned backs;		/* so often it did */
	uint64_t mark_term, mark_kept, mark_vote;	/* what others remember of the disk before */
	struct sim_log lost;	/* what was on it: others may count on that, by right */
	uint64_t lost_snap, forgot_term;	/* and in which term it voted */
	struct real_node *real;	/* raft_real.c; NULL: modelled */
	struct sim_log log;	/* memory */
	struct held_send *held, **held_tail;
	struct mono deadline, tick_at;	/* tick_at: earliest scheduled tick; MONO_NEVER: none */
	struct mono paused_until;
	struct mono skew;	/* its clock is ahead by this, */
	int64_t drift;		/* and gains so many ppm */
	int dying;		/* 0; else it is dead at the end of this step: records of its write that survive, + 1 */
	uint64_t commit, applied, state;
	bool opening;		/* it does not know yet that it has applied `opens_at` */
	uint64_t opens_at;
	bool apply_scheduled;
	struct sim_snap offer;	/* snapshot for sending */
	bool making_snapshot;
	struct sim_snap incoming;	/* being received: data grows */
	uint64_t incoming_total, incoming_checksum;
	/* clients' requests */
	struct pending_write *writes;
	size_t write_count, write_cap;
	struct pending_read *reads;
	size_t read_count, read_cap;
	/* for the invariants */
	enum raft_role role;
	uint64_t term_seen;	/* highest term that it put into a message */
	uint64_t vote_term;	/* newest granted vote that left */
	raft_id vote_for;
	bool stopped;		/* by its own decision: corrupt */
	bool full;		/* its disk takes no more: the core knows */
	struct mono leads_since, config_since;
	uint64_t config_index;		/* of the newest configuration in its log */
};

struct net_model {
	struct mono delay_min, delay_max;
	double loss, dup, slow;		/* slow: share of messages that take 20 times longer */
	bool fifo;			/* links keep the order, as TCP does; loss only by cuts */
};

struct disk_model {
	struct mono write_min, write_max;
	double slow;			/* share of writes that take 50 times longer */
	double torn;			/* share of crashes that keep part of the write in progress */
	double small;			/* share of transactions that take only some of what waits */
	double sync_error;		/* share of transactions whose sync fails: the server stops */
	struct mono stuck_after;	/* a write that takes longer is reported to the core */
};

/*
 * Real stores instead of the modelled ones (raft_real.c).  False: the server died within the call, `dying` is set and
 * nothing that follows may happen.
 */
struct sim_stores {
	void (*begin)(struct world *w);
	void (*end)(struct world *w);
	/* Makes them, or finds them as the last crash left them; the disk of n is brought up to date. */
	void (*start)(struct world *w, struct sim_node *n);
	/* What a crash leaves, recovered; it must be what the disk of n allows, which is brought up to date. */
	void (*crash)(struct world *w, struct sim_node *n);
	void (*wipe)(struct world *w, struct sim_node *n);
	/* The first `started` writes of the queue, durable on return. */
	bool (*write)(struct world *w, struct sim_node *n);
	bool (*apply)(struct world *w, struct sim_node *n, const struct sim_entry *e);
	uint64_t (*applied)(const struct sim_node *n);
	/* The state durable at what is applied, then the log cut. */
	bool (*compact)(struct world *w, struct sim_node *n, uint64_t upto, uint64_t term, const struct raft_config *config);
	/* The state as it travels; NULL: died. */
	struct blob *(*snapshot)(struct world *w, struct sim_node *n);
};

struct plan {			/* everything that differs between seeds */
	const struct sim_stores *stores;	/* NULL: modelled */
	int nodes, voters;
	struct raft_options opt;
	struct net_model net;
	struct disk_model disk;
	struct mono chaos_for;
	/* mean times between events; 0: never */
	struct mono write_every, read_every, crash_every, cut_every, change_every, transfer_every, compact_every, pause_every,
	    stuck_every, unreach_every, hunt_every, hang_every, jump_every, power_every, wipe_every,
	    full_every, mislead_every, reset_every, back_every;
	uint32_t snap_bytes;
	double snap_fail;	/* share of chunks that cannot be stored */
	double resets;		/* share of crashes that the others learn of by their links: the process died, and not the machine */
	int64_t drift;		/* clocks run at most so many ppm fast or slow */
	double opens;		/* share of starts after which the server takes part long before its state is open */
	double eager;		/* share of new leaders that are asked for a change at once */
	double ambush;		/* share of changes whose leader is cut off from most others at once */
	int clients;
	struct mono think, patience;	/* of a client, means */
};

struct event {
	struct mono when;
	uint64_t order;
	void (*fn)(struct world *w, struct event *e);
	int node;
	unsigned gen;		/* of the node; another one now: the event is void */
	struct blob *bytes;	/* held */
	uint64_t a, b;
};

struct world {
	uint64_t seed;
	struct plan plan;
	struct rng rng;
	struct mono now;
	struct event *heap;
	size_t heap_count, heap_cap;
	uint64_t order;
	int count;
	struct sim_node nodes[NODES_MAX];
	bool cut[NODES_MAX][NODES_MAX];
	struct mono fifo_last[NODES_MAX][NODES_MAX];
	bool chaos;		/* faults and clients go on */
	bool peace;		/* no faults any more: links tell the truth */
	uint64_t steps;
	struct real_world *real;
	unsigned long real_calls, real_recoveries, real_errors;	/* of the disks; interrupted by a crash */
	/* truth */
	struct truth *truth;
	size_t truth_cap;
	uint64_t truth_last;
	struct leadership *leaders;	/* by term */
	size_t leader_cap;
	struct ident *idents;	/* (index, term) -> what it is */
	size_t ident_cap, ident_count;
	uint64_t acked;		/* highest index of an acknowledged write */
	uint64_t next_id, next_ctx;
	unsigned long writes_acked, reads_done, reads_ahead, elections, installs, changes, transfers, crashes, sync_errors, hangs, wipes,
	    fills, told_gone, prompt, backs, regained;	/* told_gone, prompt: told that a process has ended; elections that began by that */
	/* registers: what each held after which index */
	struct kv_version {
		uint64_t index, value;
	} *versions[SIM_KEYS];
	size_t version_count[SIM_KEYS], version_cap[SIM_KEYS];
	/* clients */
	struct client clients[CLIENTS_MAX];
	struct request *requests;	/* from 1 on */
	uint32_t request_count;
	size_t request_cap;
	uint64_t next_value;
	bool undecided;		/* whether the history is linearizable */
	struct mono heard[NODES_MAX][NODES_MAX];	/* when the first last got a message of the second */
	/* after peace, in election timeouts */
	double led_after, served_after, equal_after;
	/* crash at persist point `point_at` of server `point_node`; points are counted */
	int point_node;
	uint64_t point_at, point_count;
	/* reporting */
	bool failed;
	char why[512];
	FILE *trace;		/* every step; NULL: none */
	void (*on_notice)(struct world *w, struct sim_node *n, const struct raft_notice *note);
	void (*on_read)(struct world *w, struct sim_node *n, const struct raft_read *read);
	void (*on_send)(struct world *w, struct sim_node *n, const struct raft_send *s);
	void *user;
};

/* raft_world.c */
void world_init(struct world *w, uint64_t seed, const struct plan *plan);
void world_done(struct world *w);
void world_fail(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void world_say(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct event *world_at(struct world *w, struct mono when, void (*fn)(struct world *, struct event *), const struct sim_node *n);
/* One event; false when nothing is left or the world failed. */
bool world_step(struct world *w);
void world_run(struct world *w, struct mono until);
bool world_chance(struct world *w, double p);
struct mono world_between(struct world *w, struct mono min, struct mono max);
struct sim_node *world_node(struct world *w, raft_id id);
/* A server's own clock, and when it will show `local`. */
struct mono node_now(const struct world *w, const struct sim_node *n);
struct mono node_when(const struct world *w, const struct sim_node *n, struct mono local);
struct sim_node *world_leader(struct world *w);		/* of the highest term; NULL: none */
void node_start(struct world *w, struct sim_node *n);
/* torn: part of the write in progress survives. */
void node_crash(struct world *w, struct sim_node *n, bool torn);
void node_restart_later(struct world *w, struct sim_node *n, struct mono after);
/* Its disk is lost, and with it its identity: it returns as a new server. */
void node_wipe(struct world *w, struct sim_node *n);
/*
 * A place where a crash makes a difference.  True: the server crashes here, at the end of the step, with `survive`
 * records of the write in progress; nothing that it would do from now on may happen.
 */
bool node_point(struct world *w, struct sim_node *n, unsigned survive);
/* Feeds one input (now and nothing else is set here) and carries out the answer; its err. */
enum tv_err node_feed(struct world *w, struct sim_node *n, struct raft_input *in);
void node_bootstrap(struct world *w, struct sim_node *n, int voters);
struct raft_server_conf node_conf(const struct sim_node *n, bool voter);
enum tv_err node_propose(struct world *w, struct sim_node *n, unsigned count);
enum tv_err node_propose_op(struct world *w, struct sim_node *n, const struct kv_op *op, uint32_t request);
enum tv_err node_read(struct world *w, struct sim_node *n, uint64_t *ctx, uint32_t request);
void node_take_commit(struct world *w, struct sim_node *n, uint64_t commit);

/* raft_disk.c */
void disk_init(struct sim_disk *d);
void disk_done(struct sim_disk *d);
void disk_submit(struct world *w, struct sim_node *n, const struct raft_output *out);
void disk_install(struct world *w, struct sim_node *n, struct sim_snap *snap);
void disk_wake(struct world *w, struct sim_node *n);
/* survive: so many records of the write in progress are kept, the rest is lost. */
void disk_crash(struct world *w, struct sim_node *n, unsigned survive);
/*
 * The same when the truth is elsewhere: as many whole writes of the one in progress are kept as it takes until `is` says
 * that the disk is as it should be.  False: it never did.
 */
bool disk_crash_to(struct sim_disk *d, bool (*is)(void *ctx, const struct sim_disk *d), void *ctx);
/* Records of the write in progress: a term and vote, a cut, an entry, a snapshot are one each. */
unsigned disk_records(const struct sim_disk *d);
void disk_stall(struct world *w, struct sim_node *n);
void disk_unstall(struct world *w, struct sim_node *n);
/* Full or not any more: its core is told. */
void disk_fill(struct world *w, struct sim_node *n, bool full);
bool disk_idle(const struct sim_disk *d);

/* raft_back.c */
/* Takes a copy of the disk, and back_forget() drops it. */
void back_copy(struct sim_node *n);
void back_forget(struct sim_node *n);
/*
 * The server dies and its disk is the copy.  told: it learns of it when it starts, from what others remember; else the leader has to
 * find out.
 */
void back_put(struct world *w, struct sim_node *n, bool told);
void back_started(struct world *w, struct sim_node *n);		/* before its first message */
void back_regained(struct world *w, struct sim_node *n);	/* it says so */
/* Has a disk gone back and not been caught up? */
bool back_pending(const struct world *w);
/* May this one go back?  All others can go on without it, whoever of them leads. */
bool back_may(const struct world *w, const struct sim_node *n);

/* raft_net.c */
void net_send(struct world *w, struct sim_node *n, const struct raft_send *s);
void net_release(struct world *w, struct sim_node *n);
void net_forget(struct sim_node *n);
void net_deliver(struct world *w, struct event *e);
const char *net_text(const struct raft_msg *m, char *buf, size_t cap);

/* raft_links.c */
/* n has died: servers whose links with it are whole are told so, soon. */
void links_died(struct world *w, const struct sim_node *n);
/* n is told, rightly or not, that the process of the server id has ended. */
void links_tell(struct world *w, struct sim_node *n, raft_id id);
/* The connections between a and b are reset and cannot be made again for now; both believe that the other one has died. */
void links_reset(struct world *w, struct sim_node *a, struct sim_node *b);

/* raft_snap.c */
void snap_need(struct world *w, struct sim_node *n);
bool snap_fill(struct sim_node *n, uint32_t chunk, struct raft_msg *m, struct buf *config);
void snap_chunk(struct world *w, struct sim_node *n, const struct raft_msg *m);
void snap_installed(struct world *w, struct sim_node *n, struct sim_snap *snap);
void snap_compact(struct world *w, struct sim_node *n, bool all);
void snap_drop(struct sim_snap *s);

/* raft_state.c */
void state_restore(struct world *w, struct sim_node *n, struct raft_restore *from);
/* The state of a server that is opening it is open. */
void state_opened(struct world *w, struct sim_node *n);
void state_schedule(struct world *w, struct sim_node *n);	/* applies what is committed, soon */
void state_serve(struct world *w, struct sim_node *n);		/* confirmed reads whose index is reached have their answer */
/* First time that this entry is applied anywhere: does what it says; false: a comparison failed. */
bool state_do(struct world *w, const struct sim_entry *e);
uint64_t state_value(const struct world *w, unsigned key, uint64_t index);
void state_done(struct world *w);

/* raft_clients.c */
void clients_start(struct world *w);
/* A read of all registers through n, by a client of its own. */
uint32_t clients_list(struct world *w, struct sim_node *n);
void clients_applied(struct world *w, struct sim_node *n, uint32_t request, bool done);
/* Its place in the log was taken by another entry. */
void clients_replaced(struct world *w, struct sim_node *n, uint32_t request);
/* at: the index of the state that it was looked up in; confirmed if ok. */
void clients_served(struct world *w, struct sim_node *n, uint32_t request, bool ok, uint64_t at);
bool clients_closed(const struct world *w, uint32_t request);	/* is there an answer? */
bool clients_answered(const struct world *w, uint32_t request);	/* a good one */
/* Checks the history; fails the world if no order explains it. */
void clients_judge(struct world *w);
void clients_print(const struct world *w, FILE *f);
void clients_done(struct world *w);

/* raft_check.c */
void check_output(struct world *w, struct sim_node *n, const struct raft_output *out);
void check_append(struct world *w, struct sim_node *n, const struct sim_entry *e, uint64_t prev_term);
void check_commit(struct world *w, struct sim_node *n, uint64_t from, uint64_t to);
void check_apply(struct world *w, struct sim_node *n, const struct sim_entry *e);
void check_send(struct world *w, struct sim_node *n, const struct raft_msg *m);
void check_leaves(struct world *w, struct sim_node *n, const struct raft_msg *m);
void check_crash(struct world *w, struct sim_node *n);
void check_restart(struct world *w, struct sim_node *n);
uint64_t check_state_at(const struct world *w, uint64_t index);
bool check_outcome(const struct world *w, uint64_t index);	/* of an applied operation */
/* Leaders without a majority step down in time. */
void check_quorums(struct world *w);
void check_done(struct world *w);

/* raft_plan.c */
struct plan plan_quiet(int nodes, int voters);
struct plan plan_of(uint64_t seed);

/* raft_chaos.c */
void chaos_start(struct world *w);
/* The founders are told of each other, until their disks know it. */
void chaos_form(struct world *w);
/* n has become leader: perhaps somebody asks for too much at once. */
void chaos_elected(struct world *w, struct sim_node *n);
/* n, the leader, sees that the disk of another one went back: an operator makes that a learner, perhaps. */
void chaos_went_back(struct world *w, struct sim_node *n, raft_id id);
/* A whole run of one seed; false: failed, w->why says how. */
bool chaos_run(struct world *w);

/* raft_peace.c */
void peace_make(struct world *w);
/* Election timeouts until all is well again, besides the time to feed those who are behind: the bounds that doc/testing.md states. */
#define PEACE_LED 60
#define PEACE_SERVED 120
#define PEACE_EQUAL 200
/* Waits until all members serve and have the same state, then that nothing disturbs them; fails the world if not. */
void peace_check(struct world *w);

#endif
