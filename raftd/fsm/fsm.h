/*
 * The state machine: tables in state/ (Berkeley DB), changed only by applying log entries in order.
 *
 * Apply is deterministic: no clock, no randomness; anything of that kind travels in the entry.
 * One fsm_apply() call is one data base transaction (no sync) that also stores the applied index: after a crash
 * the state is that of some applied index and the log replays the rest (S31, S32).
 *
 * Who calls what, where several threads use the state:
 *
 *	applying	one thread: fsm_apply_batch(), fsm_compact(), fsm_restore_take(), fsm_stage_take()
 *	readers		each in one thread at a time, beside it: what is read between fsm_read_begin() and fsm_read_end()
 *	the loop	the watches, and fsm_prepare()
 *	any		what says so; and all that is answered from memory: fsm_applied() and the like, fsm_autopilot(), fsm_staged() ...
 *
 * With one thread for all of it none of that matters, and the reading functions take the state itself too.
 */
#ifndef TV_RAFTD_FSM_FSM_H
#define TV_RAFTD_FSM_FSM_H

#include "common/base/figure.h"
#include "common/record/ops.h"
#include "common/record/records.h"
#include "raftd/core/raft.h"

struct fsm;

/*
 * An arena in which a record is read must allow for this.  More is never needed: requests have at most 32 MB
 * (request_bytes_max), and fsm_prepare() refuses what takes much more room decoded than packed.
 */
#define FSM_RECORD_MEMORY (64u << 20)

/*
 * Version of the state machine.  A new operation or verb that goes to the log raises it, and names it in the
 * operation's row (struct fsm_op).  Entries that need more than the first version carry what they need, the state remembers
 * the highest of these (fsm_needs()), and a leader proposes none that one of its servers cannot apply (propose_args()).
 */
/* Since 2: OP_KV_TREE; 3: OP_CATALOG_REGISTER_PROXY; 4: OP_TXN_APPLY; 5: OP_QUERY_CREATE and its kin; 7: OP_ACL_ENABLE
 * and its kin (6 could not be asked for). */
/* 8: premises behind an entry; 9: OP_NODE_GUARD; 10: get-or-empty in a transaction that
 * writes, rules about mesh and peering, later fields of a check's definition. */
#define FSM_VERSION 10u
#define FSM_PREMISES_SINCE 8u
#define FSM_OR_EMPTY_SINCE 10u
#define FSM_MESH_RULES_SINCE 10u
#define FSM_CHECK_FIELDS_SINCE 10u
/* Of the write-ahead log of the state: it has at least one file, with all its blocks. */
#define FSM_LOG_FILE_BYTES (16u << 20)

struct fsm_options {
	const char *dir;		/* data_dir/raftd/state, 0700; dir.new and dir.old belong to a restore */
	uint64_t cache_bytes;
	const char *datacenter;		/* filled into node records */
	int64_t session_ttl_min_ns, session_ttl_max_ns;
	uint32_t log_file_bytes, log_buffer_bytes;	/* of the write-ahead log; 0: the usual (tests want small ones) */
	/*
	 * Which thread waits for the disk.  FSM_SYNC_DIRECT: the applying one and readers, when the cache needs room.
	 * FSM_SYNC_BEHIND: the caller of fsm_flush(), alone unless too much waits (fsm_held()).  FSM_SYNC_THREAD: a thread of the
	 * state machine's own calls it, and `relieved` (if set) from there when fsm_held() has become false again.
	 */
	enum fsm_sync { FSM_SYNC_DIRECT, FSM_SYNC_BEHIND, FSM_SYNC_THREAD } sync;
	void (*relieved)(void *ctx);
	void *ctx;
	uint8_t version;		/* that it takes itself for; 0: FSM_VERSION (tests want others) */
	uint64_t address_bytes;		/* of the index of addresses; 0: the usual (tests want little) */
	/*
	 * Wall clock for reads, which do not find a token that has expired; any thread.  NULL: they find all, until an entry
	 * removes them.
	 */
	int64_t (*wall_now)(void);
	bool acl_default_allow;		/* what no rule of a token covers */
	bool acl_key_list;		/* lists of keys need a right of their own */
	/*
	 * On the loop, before an auth method goes to the log: its Config, of which Values are filled in from the arena.  TV_EINVAL
	 * with a sentence.  NULL: there can be no auth methods.
	 */
	enum tv_err (*check_method)(struct acl_method *m, struct arena *a, struct buf *why);
	/* The datacenter whose policies, roles and global tokens are copied, and which alone changes them; NULL: this one. */
	const char *acl_primary;
	uint32_t tidy_pages;		/* growth that is worth fsm_compact()'s work; 0: the usual (tests want less) */
};

/*
 * TV_ECORRUPT with a sentence: files are damaged; they can be set aside and the state rebuilt.  TV_EINVAL: a newer
 * version wrote it.
 */
enum tv_err fsm_open(const struct fsm_options *opt, struct fsm **out, char *errbuf, size_t cap);
void fsm_close(struct fsm *f);
/* On the loop.  New limits for sessions that are created from now on. */
void fsm_session_limits(struct fsm *f, int64_t ttl_min_ns, int64_t ttl_max_ns);
/* As of the last commit; of a reader: as of its begin, or of the view that it has. */
uint64_t fsm_applied(const struct fsm *f);
uint64_t fsm_applied_term(const struct fsm *f);
/* The applied index as the API shows it: a restore may have put it ahead of the log's. */
uint64_t fsm_index(const struct fsm *f);

struct fsm_result {			/* of one entry */
	enum tv_err err;		/* TV_OK, or an application error with `text` */
	struct span text;		/* from the arena */
	struct span value;		/* msgpack answer record, from the arena */
	bool outdated;			/* with TV_EAGAIN: nothing was done, since a premise of the entry holds no longer */
};
/*
 * Applies entries (contiguous from fsm_applied()+1) in one transaction.  OP entries hold
 * [u16 op, args] in msgpack (fsm_entry_write); other types only move the applied index.
 * results: count elements, or NULL: they are not wanted.  TV_ESYS is fatal to the process.  So is TV_EINVAL: an entry of a
 * newer version; none of these was applied, and fsm_trouble_text() says what to do.
 *
 * What the entries touched is added to t, from a thread of its own perhaps: fsm_fire() on the loop fires the watches of
 * that, and empties it.
 */
struct fsm_touches;
struct fsm_touches *fsm_touches_new(void);	/* NULL: no memory */
void fsm_touches_free(struct fsm_touches *t);
enum tv_err fsm_apply_batch(struct fsm *f, const struct raft_entry *entries, uint32_t count, struct arena *a,
    struct fsm_result *results, struct fsm_touches *t);
void fsm_fire(struct fsm *f, struct fsm_touches *t);
/* The state was replaced (fsm_restore_take(), fsm_stage_take()): all that wait are woken. */
void fsm_fire_all(struct fsm *f);
/* Both, where one thread does all. */
enum tv_err fsm_apply(struct fsm *f, const struct raft_entry *entries, uint32_t count, struct arena *a,
    struct fsm_result *results);
/*
 * A short step of joining pages that are half empty, or a look at whether that is due.  True: there is more to do.  Where
 * applying is, between transactions; errors are told by fsm_trouble().
 */
bool fsm_compact(struct fsm *f);
/* How much work applying it is, in bytes: its size, or far more.  For bounds of what goes into one transaction. */
uint64_t fsm_entry_work(const struct raft_entry *e);
/* Might applying it change what is stored of this key, or read of it?  Pure; when it cannot be told: yes. */
bool fsm_may_touch(const struct raft_entry *e, struct span key);
/* The version of the state machine that entries of this operation need, whatever their arguments are. */
uint8_t fsm_op_version(uint16_t op);
/* The same of one with these arguments, which may need a higher one; premises: with some behind it. */
uint8_t fsm_entry_version(uint16_t op, struct span args, bool premises);
/* The highest version that any entry applied so far needed: no server below it can have or get this state. */
uint8_t fsm_needs(const struct fsm *f);
/* Payload of an OP entry: [u16 op, args], and behind them the version that it needs, unless that is the first. */
void fsm_entry_write(struct buf *b, uint16_t op, struct span args);
/* The same with premises, as fsm_judge() gives them, behind the version; "": none. */
void fsm_entry_write_judged(struct buf *b, uint16_t op, struct span args, struct span premises);
/*
 * What the proposer must do before a write op goes to the log: checks that need no state, and fills in ids and
 * times (session id, Now).  The new arguments are written to b; *op may become another operation, which takes the same
 * ones.  Errors carry the API's sentence.
 */
enum tv_err fsm_prepare(struct fsm *f, uint16_t *op, struct span args, int64_t wall_now_ns, const char *new_uuid,
    struct buf *b, struct arena *a, struct span *error_text);

/* -- reads -- */
/*
 * A reader beside the applying thread, for one thread at a time.  NULL: no memory.  It is freed before the state
 * is closed.
 */
struct fsm *fsm_reader(struct fsm *f);
void fsm_reader_free(struct fsm *reader);
/*
 * Around some reading; the state that is replaced meanwhile stays until the end.  cached: nothing is waited for; what needs
 * the disk, or a page that is being changed, is TV_EAGAIN, and may be asked of a reader that waits.
 *
 * A record that is read is as new as fsm_applied(reader), or newer; an index of an answer is never above its data.  So who
 * is to be told of changes sets the watch first and reads then.
 */
void fsm_read_begin(struct fsm *reader, bool cached);
/*
 * Within that: what is read from now on ends early, with an error, once *unwanted is set (by any thread), at the latest before
 * the next page is waited for.  NULL: all of it is wanted.  Until fsm_read_end().
 */
void fsm_read_until(struct fsm *reader, const _Atomic bool *unwanted);
void fsm_read_end(struct fsm *reader);
/* A short read: can it be answered without looking at many records first?  Any thread; a moment later it may not. */
bool fsm_is_at_hand(const struct fsm *f, const struct op *op);

struct fsm_answer {
	enum tv_err err;		/* TV_EAGAIN: of a cached read */
	struct span text;
	uint64_t index;			/* X-Consul-Index of the result, at least 1 */
	bool refused;			/* of fsm_judge(): TV_OK, and the reply says why it may not be done */
	bool hidden;			/* something was left out that this token may not read; never for the anonymous one */
};
/*
 * Runs a read op on the current state, or on what a reader sees; appends the answer value (record or array) to `out`.
 */
void fsm_read(struct fsm *f, const struct op *op, struct span args, struct arena *a, struct buf *out,
    struct fsm_answer *ans);

/* -- access control -- */
/* The index since which it holds, as of the last commit; 0: it does not.  Any thread. */
uint64_t fsm_acl_since(const struct fsm *f);
/* What was resolved at this index or later still holds, but for the time.  Any thread. */
uint64_t fsm_acl_index(const struct fsm *f);
struct fsm_acl_policy { struct span id, name, rules; uint64_t modified; };	/* modified: its ModifyIndex */
struct fsm_acl {			/* what a secret stands for here; all of it in the arena */
	uint64_t index;			/* see fsm_acl_index() */
	char accessor[37];
	bool local;
	int64_t expires;		/* wall clock; 0: never.  From then on nothing of this holds */
	struct fsm_acl_policy *policies;	/* of the token and its roles, each once, those of this datacenter */
	struct span *services, *nodes;	/* names of the service and node identities that hold in this datacenter */
	uint32_t policy_count, service_count, node_count;
};
/*
 * From a secret ("": the anonymous token's) to what it stands for, as of one index; of a reader between begin and end, or of the
 * state itself.  TV_EAGAIN: of a cached read; TV_ENOENT: no token has it, or not any more; TV_EDISABLED: access control does
 * not hold; TV_ELIMIT: the arena is too small for its policies (ARENA_INIT(FSM_RECORD_MEMORY) is enough for 200 of the largest).
 */
enum tv_err fsm_acl_resolve(struct fsm *f, struct span secret, int64_t wall_now_ns, struct arena *a, struct fsm_acl *out);

/*
 * What a secret gives, compiled; it never changes, and is given back by fsm_rights_free() in any thread.  No rights (NULL): access
 * control does not hold, and all is allowed.
 */
struct acl_set;
struct fsm_rights;
/* From memory, any thread.  TV_EAGAIN: not known, or not for sure any more; ask a reader.  secret "": the anonymous token's. */
enum tv_err fsm_rights_known(const struct fsm *f, struct span secret, int64_t wall_now_ns, const struct fsm_rights **out);
/* The same, or from the state, as fsm_acl_resolve(). */
enum tv_err fsm_rights_get(struct fsm *f, struct span secret, int64_t wall_now_ns, const struct fsm_rights **out);
void fsm_rights_free(const struct fsm_rights *r);	/* NULL: nothing */
const struct acl_set *fsm_rights_set(const struct fsm_rights *r);
int64_t fsm_rights_expires(const struct fsm_rights *r);	/* wall clock; 0: never */
/* Wall clock, when this process noticed that the secret gives another set than before; 0: it has not. */
int64_t fsm_rights_changed(const struct fsm_rights *r);
uint64_t fsm_rights_index(const struct fsm_rights *r);	/* see fsm_acl_index() */
const char *fsm_rights_accessor(const struct fsm_rights *r);
/* Name and value pairs for info; any thread. */
void fsm_rights_info(const struct fsm *f, figure_fn *fn, void *ctx);
/*
 * A read with this token: what it may not see is not in the answer, or it fails with TV_EPERM.  *rights: what it was
 * judged by, the caller's then; NULL without access control, and where the token does not matter.
 */
void fsm_read_as(struct fsm *f, const struct op *op, struct span args, struct span token, struct arena *a, struct buf *out,
    struct fsm_answer *ans, const struct fsm_rights **rights);
/*
 * May this operation, which is no read, be carried out with these rights?  TV_EPERM with *why, a text that stays, or with a reply that
 * tells it (of a transaction); TV_EAGAIN: f is NULL, and the state would have to be looked at; TV_ELIMIT: it names too many objects.
 * premises (NULL: not wanted): what the judgement rests on is appended, if anything; it belongs behind the entry.
 */
enum tv_err fsm_may(struct fsm *f, const struct op *op, struct span args, const struct fsm_rights *rights, struct buf *reply,
    struct buf *premises, const char **why);
/*
 * The same with a token, by a reader between begin and end, as an answer: TV_OK with the premises in out, or TV_EPERM; TV_OK too with
 * ans->refused, and a reply in out that tells why.
 */
void fsm_judge(struct fsm *f, const struct op *op, struct span args, struct span token, struct arena *a, struct buf *out,
    struct fsm_answer *ans, const struct fsm_rights **rights);
/* The reply of a transaction without the results that these rights do not show.  TV_EFORMAT, TV_ENOMEM. */
enum tv_err fsm_txn_filter(const struct fsm_rights *rights, struct span reply, struct buf *out);
/* What a login by this auth method looks at, by a reader between begin and end; all of it in the arena. */
struct fsm_login_view {
	struct acl_method method;
	struct acl_binding *rules;
	uint32_t rule_count;
};
/* TV_ENOENT: there is no such method; TV_EDISABLED; else what went wrong with reading.  ARENA_INIT(FSM_RECORD_MEMORY) is enough. */
enum tv_err fsm_acl_login_method(struct fsm *f, struct span name, struct arena *a, struct fsm_login_view *out);
/* Of the role that has this name, in the same reading.  TV_ENOENT: there is none. */
enum tv_err fsm_acl_role_id(struct fsm *f, struct span name, char id[37]);
/*
 * The accessor of the login's token that has this secret.  TV_ENOENT: no token has it, or not any more; TV_EPERM: it was not made
 * by a login; TV_EDISABLED; else what went wrong with reading.
 */
enum tv_err fsm_acl_logout_look(struct fsm *f, struct span secret, int64_t wall_now_ns, char accessor[37]);

/* -- watches: on the loop alone -- */
struct fsm_watch;
/* Called once, from the loop, after the commit (or the restore) that touched it; the watch is gone then. */
typedef void fsm_watch_fn(void *ctx);
/* Watches what the read op with these args depends on: a key, a prefix, a service, tables.  NULL: no memory. */
struct fsm_watch *fsm_watch(struct fsm *f, const struct op *op, struct span args, fsm_watch_fn *fn, void *ctx);
void fsm_unwatch(struct fsm *f, struct fsm_watch *w);
unsigned fsm_watch_count(const struct fsm *f);
/*
 * Any thread.  How often the whole state was replaced since the start: a wait that began before that is to end.  Of a reader: as
 * of fsm_read_begin().
 */
unsigned fsm_replaced(const struct fsm *f);

/* -- durability and snapshots -- */
/*
 * Flushes state/ so that the log may be cut at *index, the applied index as of the call.  Any thread.  TV_ENOSPACE: nothing
 * is lost, it can be made again when there is room (S85).  Any other error is final: every later call fails too, fsm_apply()
 * with TV_ESYS, and the process must stop (S84).
 */
enum tv_err fsm_checkpoint(struct fsm *f, uint64_t *index, uint64_t *term);
/* The state failed and the process must stop: TV_ECORRUPT when a file is damaged, TV_ENOSPACE, TV_ESYS; or TV_OK. */
enum tv_err fsm_trouble(const struct fsm *f);
/*
 * What the data base said of it; "" when nothing.  fsm_close() remembers a damaged file in a file "damaged" beside it, so
 * that the next fsm_open() says TV_ECORRUPT at once, not only when it happens to read that page.
 */
void fsm_trouble_text(const struct fsm *f, char *dst, size_t cap);
/* Another server shows that what is stored here is not what was applied: fsm_trouble() says TV_ECORRUPT now. */
void fsm_found_damaged(struct fsm *f, const char *why);
/* After TV_ECORRUPT of fsm_open(): renames dir to dir.damaged (the one before goes), for an operator to look at. */
enum tv_err fsm_set_aside(const char *dir);
/* The state is whole and durable again: what was set aside goes. */
void fsm_forget_aside(struct fsm *f);
/* The disk had no room for something of the state: that waits in memory and is tried again, reads go on (S85). */
bool fsm_no_room(const struct fsm *f);
/* So much waits for the disk that applying would have to wait too: it had better not begin. */
bool fsm_held(const struct fsm *f);
/*
 * Makes the write-ahead log of the state durable, and writes the pages that waited for that.  Any thread; for
 * FSM_SYNC_BEHIND.  An error is final as one of fsm_checkpoint().
 */
enum tv_err fsm_flush(struct fsm *f);
/*
 * Writes a consistent copy of the state at one applied index to `path` (0600) while applies go on.  begin on the loop
 * thread fixes the index; from then on apply saves what it is about to overwrite until the copy has passed that key.
 * write runs in any thread; end on the loop thread, after write has returned.  Format: doc/storage.md.
 * One at a time: begin returns TV_EAGAIN while another is open.  write returns TV_ECLOSED when a restore replaced the
 * state meanwhile.  *checksum: the first 8 bytes of the BLAKE2b sum that ends the file, big endian.
 */
struct fsm_snapshot;
enum tv_err fsm_snapshot_begin(struct fsm *f, struct fsm_snapshot **out, uint64_t *index, uint64_t *term);
enum tv_err fsm_snapshot_write(struct fsm_snapshot *s, const char *path, uint64_t *bytes, uint64_t *checksum);
void fsm_snapshot_end(struct fsm_snapshot *s);
/* Right after begin: leaves out what belongs to this cluster alone: removed servers, restores on their way. */
void fsm_snapshot_export(struct fsm_snapshot *s);
/*
 * Replaces the state by a snapshot, in steps; a crash at any point leaves the one or the other.  load checks the file
 * whole (length, checksum, order), then fills a fresh environment beside the old one; it takes as long as the file is
 * big, may run in any thread while applying goes on, and leaves the present state alone whatever happens (TV_ECORRUPT,
 * TV_EINVAL when it is of a version to come, TV_ESYS, TV_ENOMEM with a sentence).
 *
 * ready, in any thread while nothing is applied, puts it in the place of the old one on the disk and opens it; the loop
 * may go on to read the old one.  TV_ESYS, TV_ENOSPACE: the present state was left alone and the loaded one is gone; TV_ECORRUPT:
 * it cannot, and the process must stop.  take, where applying is, takes it; fsm_fire_all() is due on the loop, and
 * fsm_restore_tidy().  *index, *term: the new applied position.  TV_ESYS from take is fatal to the process.
 */
enum tv_err fsm_restore_load(struct fsm *f, const char *path, char *errbuf, size_t cap);
enum tv_err fsm_restore_ready(struct fsm *f, char *errbuf, size_t cap);
enum tv_err fsm_restore_take(struct fsm *f, uint64_t *index, uint64_t *term, char *errbuf, size_t cap);
/* The same, and fsm_fire_all(), where one thread does all. */
enum tv_err fsm_restore_swap(struct fsm *f, uint64_t *index, uint64_t *term, char *errbuf, size_t cap);
/*
 * Closes and removes the state that was replaced; any thread, one at a time.  It takes as long as that is big, and as there are
 * readers that began before the take.
 */
void fsm_restore_tidy(struct fsm *f);
/* All of it, where waiting does not matter. */
enum tv_err fsm_restore(struct fsm *f, const char *path, uint64_t *index, uint64_t *term, char *errbuf, size_t cap);

/*
 * -- a restore through the log --
 *
 * RESTORE_BEGIN, RESTORE_CHUNK ... put an archive (archive.h) into a table of the state, piece by piece, so it survives
 * crashes and goes to lagging followers as everything else does.  Once it is there each server loads it beside its
 * state, while applying goes on; the entry RESTORE_COMMIT takes it.  Staging belongs to the index at which it happens;
 * loading does not, and may be repeated at any time.
 */
struct fsm_stage {
	char id[37];
	uint64_t bytes, received;	/* of the archive; staged so far */
	uint8_t checksum[32];		/* BLAKE2b of it all */
	bool aborting;			/* on its way out, some of it is gone */
};
/* Did staging change since this was last asked?  At first: yes. */
bool fsm_stage_changed(struct fsm *f);
/* What is staged now; false: nothing. */
bool fsm_staged(struct fsm *f, struct fsm_stage *out);
/* The newest restore that took effect, and the log index of its commit; false: none ever did. */
bool fsm_last_restore(struct fsm *f, char id[37], uint64_t *index);
/*
 * Looks through an archive in a file, in any thread: is it whole, do all checksums hold, is each record sound?  The
 * state is not touched.  state_max: bytes that its state may have.  *done grows with the archive's bytes that were read.
 */
struct fsm_archive_facts {
	uint64_t bytes;			/* of the archive */
	uint8_t checksum[32];
	uint64_t state_bytes, records, index;
	uint8_t needs;			/* as fsm_needs() of the state in it */
};
enum tv_err fsm_archive_check(const char *path, uint64_t state_max, struct fsm_archive_facts *out,
    _Atomic uint64_t *done, char *errbuf, size_t cap);
/*
 * Loads the staged archive of this id beside the state; any thread, applying goes on.  TV_ENOENT: it is not staged whole
 * (any more); TV_EFORMAT: the archive is bad, for this version of raftd on every server; TV_ELIMIT: it is, or its state is
 * larger than state_max; TV_ECORRUPT: what is stored here is not what was announced: the leader staged something else,
 * or the state is damaged; TV_ESYS and TV_ENOMEM may pass.
 */
enum tv_err fsm_stage_load(struct fsm *f, const char *id, uint64_t state_max, _Atomic uint64_t *done, char *errbuf,
    size_t cap);
bool fsm_stage_loaded(struct fsm *f, const char *id);
/* Removes what was loaded; any thread, not while loading. */
void fsm_stage_unload(struct fsm *f);
/*
 * What was loaded gets its last records, for a RESTORE_COMMIT at index = fsm_applied() + 1, and is made ready as by
 * fsm_restore_ready().  Any thread, while nothing is applied.  TV_ESYS: it is unloaded, the state is as it was;
 * TV_ECORRUPT: the process must stop.
 */
enum tv_err fsm_stage_complete(struct fsm *f, const char *id, uint64_t index, uint64_t term, char *errbuf, size_t cap);
bool fsm_stage_completed(struct fsm *f, const char *id, uint64_t index);
/*
 * In the place of applying that entry: what was completed (or is, here) becomes the state, but for what is
 * not restored (removed servers).  TV_ESYS: not possible now, the state is as it was; TV_ECORRUPT:
 * fatal.  Afterwards fsm_fire_all() is due on the loop, and fsm_restore_tidy().
 */
enum tv_err fsm_stage_take(struct fsm *f, const char *id, uint64_t index, uint64_t term, char *errbuf, size_t cap);
/* The same, and fsm_fire_all(), where one thread does all. */
enum tv_err fsm_stage_swap(struct fsm *f, const char *id, uint64_t index, uint64_t term, char *errbuf, size_t cap);
/* The id that a RESTORE_COMMIT's payload names; false: it is another entry. */
bool fsm_is_restore(const struct raft_entry *e, char id[37]);

/* -- for the leader's duties (raftd/leader_*.c), read-only -- */
/*
 * What went wrong with reading so far, of a reader since fsm_read_begin(): what is said not to be there may be there.
 * TV_OK: nothing.
 */
enum tv_err fsm_read_err(const struct fsm *f);
/*
 * Each session that has a TTL, in the order of their ids, those behind the id `after` ("": all) until fn returns false.  An
 * error: not all were told.
 */
enum tv_err fsm_each_ttl_session(struct fsm *f, struct span after,
    bool (*fn)(void *ctx, struct span id, int64_t ttl_ns), void *ctx);
/*
 * Catalog record of a node and its serfHealth status ("" if none), for reconciling with gossip; false when unknown.  Both
 * are read into the arena.
 */
bool fsm_node_health(struct fsm *f, struct span node, struct arena *a, struct node *out, struct span *serf_status);
/* The same of the node that has this id; "" has none. */
bool fsm_node_of_id(struct fsm *f, struct span id, struct arena *a, struct node *out, struct span *serf_status);
/*
 * Does the state guard nodes that live?  It does since OP_NODE_GUARD was applied, for good: registrations and deregistrations
 * that come with another node's id change nothing of a node whose serfHealth is not critical.
 */
bool fsm_guards_nodes(const struct fsm *f);
/* Is there a node of this name? */
bool fsm_has_node(struct fsm *f, struct span node);
/* Each node that has a serfHealth check, those behind the name `after`, as above. */
enum tv_err fsm_each_serf_node(struct fsm *f, struct span after,
    bool (*fn)(void *ctx, struct span node, struct span id, const struct check *serf), void *ctx);
/* Was this server id removed for good (SERVER_TOMBSTONE)? */
bool fsm_server_tombstoned(struct fsm *f, struct span id);
/*
 * The autopilot configuration: the stored record, or the defaults (then false).  Its texts are left out.
 */
bool fsm_autopilot(struct fsm *f, struct autopilot_config *out);
/*
 * Is there anything for a TOMBSTONE_REAP to remove at this wall clock time?  Cheap; the leader asks every 30 s, and
 * again after each one, since one reap removes a bounded number.
 */
bool fsm_reap_due(struct fsm *f, int64_t wall_now_ns);
/* The same of expired tokens, for an OP_ACL_REAP. */
bool fsm_acl_reap_due(struct fsm *f, int64_t wall_now_ns);
struct fsm_first_token {
	uint64_t made;			/* index of the newest bootstrap; 0: there was none */
	bool in_use;			/* a token has this secret, or this id */
	bool is_first;			/* it is the token that the newest bootstrap made */
};
/* May this be the secret of the first token?  Of a reader. */
enum tv_err fsm_first_token(struct fsm *reader, struct span secret, struct fsm_first_token *out);
/* Digest over all tables and the applied index: equal on replicas that applied the same entries.  Slow: reads all. */
enum tv_err fsm_digest(struct fsm *f, uint8_t out[32]);
/* Counters for info: tables and their sizes, applied entries, cache. */
void fsm_info(struct fsm *f, figure_fn *fn, void *ctx);

#endif
