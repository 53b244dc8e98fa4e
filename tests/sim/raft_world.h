/*
 * A world of Raft servers in virtual time, for sim_raft (chaos by seed) and trace_raft (scripts).
 *
 * The core under test is the real one.  Modelled are its shell (carries out raft_output by the contract of raft.h), the
 * disk (forgets what was not synced, tears the write in progress), the network (delays, loses, doubles, reorders, cuts),
 * the state machine (a hash chain over what was applied), and time.  Everything random comes from one seed.
 *
 *   raft_world.c   events, life of a server, outputs       raft_disk.c    log, hard state, write queue, crashes
 *   raft_net.c     messages                                raft_snap.c    snapshots and compaction
 *   raft_check.c   invariants                              raft_chaos.c   plans, faults, clients, operators
 */
#ifndef TV_RAFT_WORLD_H
#define TV_RAFT_WORLD_H

#include <stdbool.h>
#include <stdio.h>
#include <stdint.h>

#include "common/rng.h"
#include "raftd/core/raft.h"

#define NODES_MAX 9
#define SIM_ENTRIES_MAX 64	/* in one message */

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
	bool stalled;
};

/* -- servers */

struct held_send {		/* waits for a write */
	struct held_send *next;
	uint64_t seq;
	int to;
	struct blob *bytes;
	struct raft_msg msg;	/* its fixed fields, for the checks */
};

struct pending_write {		/* proposed here, not applied yet */
	uint64_t index, term, id;
};

struct pending_read {
	uint64_t ctx, floor;	/* newest acknowledged write when it began */
};

struct sim_node {
	int i;			/* 0.. */
	raft_id id;
	struct raft *core;	/* NULL: down */
	unsigned gen;		/* life */
	struct sim_disk disk;
	struct sim_log log;	/* memory */
	struct held_send *held, **held_tail;
	struct mono deadline, tick_at;	/* tick_at: earliest scheduled tick; MONO_NEVER: none */
	struct mono paused_until;
	struct mono skew;	/* its clock is ahead by this */
	uint64_t commit, applied, state;
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
};

struct plan {			/* everything that differs between seeds */
	int nodes, voters;
	struct raft_options opt;
	struct net_model net;
	struct disk_model disk;
	struct mono chaos_for;
	/* mean times between events; 0: never */
	struct mono write_every, read_every, crash_every, cut_every, change_every, transfer_every, compact_every, pause_every,
	    stuck_every, unreach_every, hunt_every;
	uint32_t snap_bytes;
	double snap_fail;	/* share of chunks that cannot be stored */
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
	uint64_t steps;
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
	unsigned long writes_acked, reads_done, elections, installs, changes, transfers, crashes;
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
struct sim_node *world_leader(struct world *w);		/* of the highest term; NULL: none */
void node_start(struct world *w, struct sim_node *n);
/* part: 0 loses what is not synced; otherwise part of the write in progress survives. */
void node_crash(struct world *w, struct sim_node *n, bool torn);
/* Feeds one input (now and nothing else is set here) and carries out the answer; its err. */
enum tv_err node_feed(struct world *w, struct sim_node *n, struct raft_input *in);
void node_bootstrap(struct world *w, struct sim_node *n, int voters);
struct raft_server_conf node_conf(const struct sim_node *n, bool voter);
enum tv_err node_propose(struct world *w, struct sim_node *n, unsigned count);
enum tv_err node_read(struct world *w, struct sim_node *n, uint64_t *ctx);

/* raft_disk.c */
void disk_init(struct sim_disk *d);
void disk_done(struct sim_disk *d);
void disk_submit(struct world *w, struct sim_node *n, const struct raft_output *out);
void disk_install(struct world *w, struct sim_node *n, struct sim_snap *snap);
void disk_kick(struct world *w, struct sim_node *n);
void disk_crash(struct world *w, struct sim_node *n, bool torn);
bool disk_idle(const struct sim_disk *d);

/* raft_net.c */
void net_send(struct world *w, struct sim_node *n, const struct raft_send *s);
void net_release(struct world *w, struct sim_node *n);
void net_forget(struct sim_node *n);
void net_deliver(struct world *w, struct event *e);
const char *net_text(const struct raft_msg *m, char *buf, size_t cap);

/* raft_snap.c */
void snap_need(struct world *w, struct sim_node *n);
bool snap_fill(struct sim_node *n, struct raft_msg *m, struct buf *config);
void snap_chunk(struct world *w, struct sim_node *n, const struct raft_msg *m);
void snap_installed(struct world *w, struct sim_node *n, struct sim_snap *snap);
void snap_compact(struct world *w, struct sim_node *n, bool all);
void snap_drop(struct sim_snap *s);

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
void check_done(struct world *w);

/* raft_chaos.c */
struct plan plan_quiet(int nodes, int voters);
struct plan plan_of(uint64_t seed);
void chaos_start(struct world *w);
/* Heals everything and waits until all members have the same state; false: not within `bound`. */
bool chaos_settle(struct world *w, struct mono bound);
/* A whole run of one seed; false: failed, w->why says how. */
bool chaos_run(struct world *w);

#endif
