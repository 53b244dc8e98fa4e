/* What the files of the state machine share.  Nobody else includes this. */
#ifndef TV_RAFTD_FSM_FSM_INT_H
#define TV_RAFTD_FSM_FSM_INT_H

#include <pthread.h>

#include "common/acl/set.h"
#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/rng.h"
#include "common/record/coordinate.h"
#include "raftd/fsm/fsm.h"
#include "raftd/fsm/table/key.h"
#include "raftd/fsm/table/tables.h"
#include "raftd/store/bdb/store_env.h"

#define STATE_FILE "state.db"
#define FSM_NAME_BYTES_MAX 1024		/* node, service and check names and ids */
#define FSM_KV_KEY_BYTES_MAX 8192
#define FSM_ANSWER_BYTES_MAX (64u << 20)
#define FSM_DECODED_MAX (24u << 20)	/* that the arguments of a write may take in memory, beside their bytes */
#define LOCK_DELAY_MAX_NS (60ll * 1000000000)
#define TOMBSTONE_AGE_NS (15ll * 60 * 1000000000)
#define WATCHES_MAX (1u << 20)
#define FSM_INDEX_MAX (1ull << 53)	/* of an archive to be restored: what JSON's numbers hold */
#define REAP_MAX 4096			/* tombstones and lock delays that one TOMBSTONE_REAP removes */

/* What the newest restore left behind. */
enum fsm_restored {
	FR_BASE,	/* what is added to the log's index to make an index of the API: the archive's was ahead of the log */
	FR_FLOOR,	/* the restore's own index, in those terms: no answer's index is below it */
	FR_COUNT
};

struct fsm_snapshot;
struct watches;

/* An environment, and the btree in it. */
struct fsm_tables {
	struct store_env *env;		/* owned; NULL: not open */
	DB *db;
	DB *sparse;			/* the same for deleting much: store_env_db_sparse() */
	unsigned *readers;		/* owned: between begin and end in them; head_lock */
};

/* What happened in a batch, for the watches: touches.c. */
struct fsm_touches {
	struct buf log;			/* [u8 enum watch_kind, u32 bytes, bytes] each */
	uint64_t tables;		/* 1 << enum fsm_index each */
	bool all;			/* more than the log holds, or another state */
};

/* What is known of the state without reading it, as of the last commit: head.c. */
struct fsm_head {
	uint64_t applied, applied_term;
	uint64_t index[FX_COUNT], tally[FT_COUNT], restored[FR_COUNT];
	uint64_t applied_entries, txns, txns_undone;
	uint8_t needs;
	bool has_autopilot, has_stage, has_last;
	struct autopilot_config autopilot;	/* without its texts; defaults: if there is none */
	struct fsm_stage stage;
	char last_id[37];		/* newest restore that took effect */
	uint64_t last_index;
	struct buf servers;		/* removed for good: [u32 bytes, key] each */
	uint64_t acl_since;		/* see fsm_acl_since() */
};

/* Records that the head shows, and that changed in the running batch. */
enum { FACT_AUTOPILOT = 1, FACT_STAGE = 2, FACT_SERVERS = 4, FACT_ACL = 8, FACTS_ALL = 15 };

/* The walk that joins half empty pages: compact.c. */
struct compact {
	bool walking;
	bool due;			/* pages were left empty */
	unsigned refused;		/* of this step: pages that were not in the cache */
	uint32_t file, used;		/* pages of the file after the last walk, and those in use; 0: not looked at yet */
	uint32_t freed;			/* by this walk */
	struct tkey at;			/* where it goes on */
};

/*
 * The state, or a reader of it.  Who writes (the applying thread) owns what has no other word; a reader has all of this for
 * itself but for the tables, and what it needs of the state's it takes from `owner`.
 */
struct fsm {
	struct fsm *owner;		/* of a reader; NULL: this is the state itself */
	struct store_env *env;		/* these four are the tables; lock and head_lock for changing them, either for looking */
	DB *db, *sparse;
	unsigned *readers;
	struct fsm_tables heir, past;	/* about to take their place, and to be closed: see replace.c */
	_Atomic bool displaced;		/* env has its files, but no name below `dir` is its own any more */
	struct fsm_options opt;		/* its strings are owned */
	char *dir, *datacenter, *acl_primary;

	/* Applied position, table indexes, tallies: one record, written with every transaction. */
	uint64_t applied, applied_term;
	uint64_t index[FX_COUNT];
	uint64_t tally[FT_COUNT];
	uint64_t restored[FR_COUNT];
	uint8_t needs;			/* see fsm_needs() */
	struct { uint64_t index; uint16_t op; uint8_t needs; } beyond;	/* index not 0: an entry that is not ours to apply */

	/* The running transaction of fsm_apply(), or of a reader between begin and end; else NULL. */
	DB_TXN *txn;
	bool reading, cached;		/* a reader between begin and end; that waits for nothing */
	unsigned refused;		/* of a reader's look-up: pages that were not in the cache */
	uint64_t fetched;		/* pages that a reader waited for */
	const _Atomic bool *unwanted;	/* of a reader: set when no answer is waited for any more; NULL: never */
	bool peace;			/* it has the state's lock, since it met a page that was being changed */
	struct fsm_view *view;		/* of a reader, which sees the state as of that; or NULL */
	/* Its cursor: a record that was read is written again without another search.  See table.c. */
	DBC *cursor;
	bool cursor_set;
	struct tkey cursor_key;		/* where it stands, if set */
	struct compact compact;
	struct {			/* see warm.c */
		struct fsm *reader;
		unsigned left;		/* batches that are to be looked through; 0: all is cached */
		_Atomic uint64_t fetched, read;	/* pages, before batches and by them */
	} warm;
	_Atomic int failed;		/* first code of Berkeley DB that was not expected; sticky but for a reader's */
	uint64_t at;			/* index of the entry being applied, as the API shows it: with FR_BASE */
	bool emptying;			/* much is being deleted: by `sparse` */
	struct arena work;		/* emptied before each entry; never for as many records as somebody likes to name */
	struct buf scratch, pack;	/* last record read by tbl_peek(); record being written */

	/* Held by fsm_apply() and by a snapshot writer's steps: between those the state is that of one index.  See state_lock(). */
	pthread_mutex_t lock;
	pthread_mutex_t door;		/* before `lock`: held by whoever is next */
	/* Held while a checkpoint uses the environment, and while a restore makes another ready; before `lock`. */
	pthread_mutex_t env_lock;
	/* For moments only, never while a disk works; after `lock`. */
	pthread_mutex_t head_lock;
	pthread_cond_t readers_left;	/* with head_lock */
	struct fsm_head head;		/* head_lock */
	_Atomic uint64_t acl_since, acl_index;	/* of the head, without its lock: each decision looks at them */
	unsigned facts;			/* FACT_... that the next head has to be given */
	struct fsm_touches *touches;	/* of the running batch */
	struct fsm_touches own_touches;	/* of fsm_apply(), and of what is applied for nobody */
	pthread_t flusher;		/* calls fsm_flush() */
	bool flushing;			/* there is that thread */
	struct fsm_snapshot *snap;	/* open snapshot, or NULL */
	pthread_mutex_t views_lock;	/* these; after `lock`, for moments only */
	pthread_cond_t views_left;
	struct fsm_view *views;
	_Atomic unsigned views_open;
	size_t kept_bytes;		/* in all of them */
	bool views_shut;		/* no new ones for now */
	struct watches *watches;
	struct acl_rights_table *rights;	/* has a lock of its own */
	struct addresses *addresses;	/* has one, too: address.c */
	uint64_t applied_entries;	/* since the start */
	uint64_t txns, txns_undone;	/* since the start: transactions that were carried out, and that had errors */
	_Atomic unsigned replaced;	/* since the start: see fsm_replaced() */
	_Atomic bool stage_changed;	/* since fsm_stage_changed() was asked */
	struct {			/* restore that DIR.new holds, whole but for its meta record; head_lock held */
		char id[37];		/* "": none */
		uint64_t index;		/* of its archive, as the API showed it there */
		uint64_t completed;	/* log index of the commit that it has its meta record of; 0: none yet */
		uint64_t tally[FT_COUNT];
		uint8_t needs;		/* see fsm_needs() */
		bool has_acl;		/* it brings access control */
	} loaded;
};

/*
 * After so many refusals in a row of pages that are not in the cache, one after the other, there is no room for all that are wanted at
 * once: then whoever wants them waits for the disk inside of Berkeley DB.  More than the largest record has.
 */
#define COLD_TRIES_MAX 512

/* -- head.c -- */
/* Gives other threads what the last commit made of the state; lock held.  Reads what `facts` says. */
void head_publish(struct fsm *f);
/* Of a reader: the state's as they are now. */
void head_copy(struct fsm *reader);

/* -- reader.c -- */
/* Is this one of the codes after which a reader asks again: a lock that is held, a page that is not cached? */
bool reader_may_retry(int ret);
/* Is no answer waited for any more?  Then the read has failed. */
bool reader_unwanted(struct fsm *f);
/*
 * After one of those: a transaction anew.  True: it may ask again, in peace from who applies; reader_calm() ends that.  False: that
 * was no such code, or this reader waits for nothing.
 */
bool reader_again(struct fsm *f, int ret);
void reader_calm(struct fsm *f);
/* After an answer that failed: as after begin. */
void reader_renew(struct fsm *f);
/* Of a reader that has the state's lock: reads in the tables as they are now, from their present index on. */
void reader_renew_tables(struct fsm *r);
/* f->lock, for who does not apply: it gets it after the batch that is under way, however many are to follow. */
void state_lock(struct fsm *f);
/* The tables of f, to be given away. */
struct fsm_tables tables_of(const struct fsm *f);
/* Waits until nobody reads in them any more. */
void readers_wait(struct fsm *f, const struct fsm_tables *t);

/* -- view.c -- */
/* Before a key changes: keeps its old value for whoever has a view; f->lock held. */
void views_save(struct fsm *f, const struct tkey *k);
/*
 * Before a batch: until there is room for what views keep; or until there are none, and no new ones come before
 * views_admit().
 */
void views_wait(struct fsm *f, bool all);
void views_admit(struct fsm *f);
/* A reader needs to see one index from here on.  Nothing happens to one that does, nor to the state itself. */
void view_need(struct fsm *r);
void view_close(struct fsm *r);
/* After the tables were looked at: what was kept of this key is what the view has.  val: if it is there. */
enum view_answer { VIEW_NOT_KEPT, VIEW_THERE, VIEW_ABSENT };
enum view_answer view_peek(struct fsm *r, struct span key, struct buf *val);
/* What was kept from one key to another one (NULL: the end): [u32 key bytes, u32 value bytes, u8 absent, key, value] each. */
void view_range(struct fsm *r, struct span from, const struct span *to, struct span prefix, struct buf *out);

/* -- warm.c: pages are fetched before a batch reads them -- */
/* Nothing is in the cache yet. */
void warm_begin(struct fsm *f);
/* Before a batch, without its lock.  Costs nothing while all is cached. */
void warm_batch(struct fsm *f, const struct raft_entry *entries, uint32_t count);
/* Was more fetched than helps?  For rows that look at many records. */
bool warm_enough(const struct fsm *reader);
/* After it: so many pages it had to read for itself. */
void warm_batch_read(struct fsm *f, uint64_t pages);
void warm_end(struct fsm *f);

/* -- touches.c -- */
void touched_key(struct fsm *f, struct span key);
void touched_service(struct fsm *f, struct span lower_name);
struct touches_mark { size_t len; uint64_t tables; bool all; };
struct touches_mark touches_mark(const struct fsm_touches *t);
/* Back to that: what was touched since is not. */
void touches_cut(struct fsm_touches *t, struct touches_mark mark);
void touches_reset(struct fsm_touches *t);

/* -- table.c: the one btree.  Errors of Berkeley DB go to f->failed; calls then do nothing. -- */
/* Around everything that is done in one transaction.  Berkeley DB's code; the transaction is gone after the end. */
int tbl_begin(struct fsm *f);
int tbl_end(struct fsm *f);
/* A transaction inside the one that runs, and its end: keep it, or undo it.  outer: the caller keeps it until then. */
void tbl_nest(struct fsm *f, DB_TXN **outer);
void tbl_unnest(struct fsm *f, DB_TXN *outer, bool keep);
/* The value, valid until the next tbl_peek(); false when absent. */
bool tbl_peek(struct fsm *f, const struct tkey *k, struct span *val);
/* The same, copied into the arena. */
bool tbl_get(struct fsm *f, const struct tkey *k, struct arena *a, struct span *val);
bool tbl_has(struct fsm *f, const struct tkey *k);
/* Inside a transaction only. */
void tbl_put(struct fsm *f, const struct tkey *k, struct span val);
/* False when there was nothing to delete. */
bool tbl_del(struct fsm *f, const struct tkey *k);
/* From here on pages that become empty stay, and none above the leaves is locked; or no longer.  See store_env_db_sparse(). */
void tbl_sparse(struct fsm *f, bool on);
/* Reads a record of the schema; spans point into the arena.  A record that does not decode counts as failure. */
bool tbl_get_rec(struct fsm *f, const struct tkey *k, const struct schema *s, struct arena *a, void *rec);
/* The same from a value at hand: spans point into that. */
bool tbl_decode(struct fsm *f, const struct schema *s, struct span val, struct arena *a, void *rec);
void tbl_put_rec(struct fsm *f, const struct tkey *k, const struct schema *s, const void *rec);

/*
 * Ascending walk over the keys that start with a prefix.  No writes while it is open.  A reader takes many records at once, and
 * keeps no page locked in between.
 */
struct tbl_scan {
	struct fsm *f;
	DBC *c;
	struct tkey prefix;
	struct buf start, key, val;	/* where to begin; the record at the cursor */
	bool started;
	struct bulk {			/* of a reader */
		struct buf bytes;
		DBT data;
		void *at;
		struct span key, val;	/* the next one, if has_one */
		struct buf kept;	/* what the view kept of the same range: view_range() */
		struct rd kept_at;
		struct span kept_key, kept_val;	/* the next one of these, if has_kept */
		bool has_one, has_kept, absent;
		bool end;		/* there are none behind these */
	} bulk;
};
void tbl_scan_begin(struct fsm *f, struct tbl_scan *s, const struct tkey *prefix);
/* Starts at `from` (a full key >= prefix) instead. */
void tbl_scan_from(struct fsm *f, struct tbl_scan *s, const struct tkey *prefix, const struct tkey *from);
/* Key as stored (table byte first) and value; both valid until the next call.  False at the end. */
bool tbl_next(struct tbl_scan *s, struct span *key, struct span *val);
void tbl_scan_end(struct tbl_scan *s);
/* Up to max keys that start with prefix, copied into the arena.  For deleting in steps. */
uint32_t tbl_keys(struct fsm *f, const struct tkey *prefix, struct arena *a, struct span *out, uint32_t max);
/* The same, from a full key on: for walks that change what they walk over. */
uint32_t tbl_keys_from(struct fsm *f, const struct tkey *prefix, const struct tkey *from, struct arena *a,
    struct span *out, uint32_t max);
void tbl_key_of(struct tkey *k, struct span stored);
/* The smallest key above a stored one. */
void tkey_after(struct tkey *k, struct span stored);
/*
 * Calls fn for each key that starts with prefix, in steps: fn may change what is walked over.  one: for reading the
 * record, empty each time, so memory is that of one record however many there are.
 */
typedef void tbl_each_fn(struct fsm *f, const struct tkey *k, struct arena *one, void *ctx);
void tbl_each(struct fsm *f, const struct tkey *prefix, tbl_each_fn *fn, void *ctx);

/* -- fsm.c -- */
/* Raises a table's index to that of the running entry. */
void fsm_touch(struct fsm *f, enum fsm_index which);
void fsm_count(struct fsm *f, enum fsm_tally which, int by);
uint64_t fsm_index_of(const struct fsm *f, enum fsm_index which);

/* -- meta.c: the record of the applied position, the tables' indexes and counts -- */
void meta_key(struct tkey *k);
/* Loads the meta record into f (zeros when there is none). */
enum tv_err fsm_load_meta(struct fsm *f);
void fsm_store_meta(struct fsm *f);
/* Is this a sound meta record of that applied position?  TV_ECORRUPT, or TV_EINVAL: of a version to come. */
enum tv_err fsm_meta_is(struct span val, uint64_t index, uint64_t term);

/*
 * The archive's index as the API showed it there, and the version of the state machine that it needs; TV_ECORRUPT also
 * beyond FSM_INDEX_MAX; TV_EINVAL as above: then needs is the version that we do not know.
 */
enum tv_err fsm_meta_position(struct span val, uint64_t *index, uint8_t *needs);
/* Meta record of a state that was restored by the log's entry `applied`; at: the API's index of that. */
void fsm_meta_of_restore(struct buf *b, uint64_t applied, uint64_t term, uint64_t at, uint8_t needs,
    const uint64_t tally[FT_COUNT]);

/* -- flusher.c -- */
/* Begins to write behind as the options ask.  Berkeley DB's code. */
int flusher_start(struct fsm *f);
/* Before the environment is closed. */
void flusher_stop(struct fsm *f);
/* Nothing waits, and nothing will, until flusher_start(): the directory is about to be another's.  Berkeley DB's code. */
int flusher_retire(struct fsm *f);
/* The write-ahead log is durable up to its end as of the call.  Berkeley DB's code. */
int flush_log(struct fsm *f);

/* Opens what is in f->dir; any thread. */
enum tv_err fsm_tables_open(const struct fsm *f, struct fsm_tables *t, char *errbuf, size_t cap);
/* Without a checkpoint.  What was never opened is left alone. */
void fsm_tables_close(struct fsm_tables *t);
/* Makes them those of f (which has none, or gave them away), and loads the meta record. */
enum tv_err fsm_tables_use(struct fsm *f, struct fsm_tables *t, char *errbuf, size_t cap);

/* What applying one entry may use.  now: of the entry. */
struct apply {
	struct fsm *f;
	struct arena *out;		/* for the result */
	struct fsm_result *res;		/* never NULL */
	uint8_t needs;			/* version that the entry needs: it is applied as that version does */
};
/* Sets an application error; the text is formatted. */
void apply_fail(struct apply *p, enum tv_err err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void apply_bool(struct apply *p, bool value);
/* The operation that a payload holds, by its row; malformed arguments are its error, the same on every server. */
void apply_op(struct apply *p, struct span payload);

/* Read in progress. */
struct reading {
	struct fsm *f;
	struct arena *a;
	struct buf *out;
	struct fsm_answer *ans;
	const struct acl_set *who;	/* what the asker may; NULL: all */
};
void read_fail(struct reading *r, enum tv_err err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The whole of a read whose f, a, out, ans and who are set. */
void fsm_read_with(struct reading *r, const struct op *op, struct span args);
/* The end of one: what failed of the state is its error; at: where its answer begins. */
void fsm_read_ended(struct reading *r, size_t at);
/* As the options say; 0 without a clock. */
int64_t fsm_wall_now(const struct fsm *f);
/* An array of records whose number is known at its end. */
size_t list_begin(struct buf *out);
void list_end(struct buf *out, size_t at, uint32_t count);

/* Checking and completing a write before it goes to the log. */
struct prepare {
	struct fsm *f;
	struct arena *a;
	int64_t now;
	const char *uuid;
	struct span *error_text;
};
enum tv_err prepare_fail(struct prepare *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* -- kv.c -- */
/* ModifyIndex of a stored kv_entry, without looking at the other fields; false: it is not one. */
bool kv_modify_index(struct span val, uint64_t *index);
bool kv_find(struct fsm *f, struct span key, struct arena *a, struct kv_entry *out);
/* What a write of one key comes to in the state as it is.  Not to be copied: `next` may point into it. */
struct kv_verdict {
	enum { KV_KEEP, KV_STORE, KV_REMOVE } change;	/* whatever the answer is */
	bool there;			/* there was such a key: old */
	bool answer;			/* false: its condition did not hold */
	struct kv_entry old;
	struct kv_entry next;		/* KV_STORE: as it is stored now */
	char session[37];
	enum tv_err err;		/* refused, with the API's text */
	struct span text;
};
/* Looks at what such a write, or one of a tree, will look at; see warm.c. */
void kv_warm(struct fsm *reader, const struct kv_apply *q);
/* Judges a write of one key (of any Verb up to KV_DELETE_CAS), and carries it out.  Texts are in `out`. */
void kv_write(struct fsm *f, const struct kv_apply *q, struct arena *out, struct kv_verdict *v);
/*
 * Removes all keys with this prefix, if they are no more than *keys, and their records than *bytes, both less by what went
 * afterwards.  False: they are more, and all stay.
 */
bool kv_delete_tree(struct fsm *f, struct span prefix, int64_t now, uint64_t *keys, uint64_t *bytes);
/* Before a batch: does this delete trees of so many keys that views had better not keep them all? */
bool kv_is_large_tree(struct fsm *f, const struct raft_entry *e);
/* Ends a session's hold on a key: releases or deletes it.  delay_until: no acquisition before, 0 none. */
void kv_session_gone(struct fsm *f, struct span key, bool del, int64_t now, int64_t delay_until);

/* -- tombstone.c: tombstones and lock delays, which both end by time -- */
void tombstone_put(struct fsm *f, struct span key, int64_t now);
/* Highest index of a tombstone whose key starts with the prefix; 0 none. */
uint64_t tombstone_max(struct fsm *f, struct span prefix);
void lock_delay_put(struct fsm *f, struct span key, int64_t until);
bool lock_delay_holds(struct fsm *f, struct span key, int64_t now);

/* -- session.c -- */
/* Lower-case id, or false with the API's text for what is no UUID, which begins with `head`. */
bool uuid_id(struct span text, const char *head, char id[37], struct arena *a, struct span *why);
bool session_id(struct span text, char id[37], struct arena *a, struct span *why);
bool session_find(struct fsm *f, const char *id, struct arena *a, struct session *out);
void session_invalidate(struct fsm *f, const char *id, int64_t now);
/* Ends every session of a node, or every one bound to a check of it. */
void session_node_gone(struct fsm *f, struct span node, int64_t now);
void session_check_bad(struct fsm *f, struct span node, struct span check, int64_t now);

/* -- query/query.c -- */
/* The prepared queries that are bound to a session which has ended. */
void query_session_gone(struct fsm *f, const char *session);

/* -- catalog.c, register.c, deregister.c, catalog_read.c, health.c -- */
bool catalog_node(struct fsm *f, struct span name, struct arena *a, struct node *out);
bool catalog_node_by_id(struct fsm *f, struct span id, struct arena *a, struct node *out);
bool catalog_service(struct fsm *f, struct span node, struct span id, struct arena *a, struct service *out);
bool catalog_check(struct fsm *f, struct span node, struct span id, struct arena *a, struct check *out);
/* Raises the index of a service; with by != 0 counts instances, and notes the last one's going. */
void catalog_service_touch(struct fsm *f, struct span name, int by);
/* The service that this one is a proxy of, or speaks for itself: "" for a plain one.  Borrows. */
struct span catalog_connect_name(const struct service *s);
/* As catalog_service_touch(), of what proxies for a service: this is one of these, or nothing happens. */
void catalog_connect_touch(struct fsm *f, const struct service *s, int by);
/* A check of this service is not its own any more: the same for what it proxies for. */
void catalog_check_left(struct fsm *f, struct span node, struct span service_id);
/* Raises the index of every service with an instance on the node. */
void catalog_node_services_touch(struct fsm *f, struct span node);
/* Index that a read of this service reports. *exists: it has instances. */
uint64_t catalog_service_index(struct fsm *f, struct span name, bool checks, bool *exists);
/* The same of a read of what proxies for it. */
uint64_t catalog_connect_index(struct fsm *f, struct span name);
void catalog_remove_node(struct fsm *f, const struct node *n, int64_t now);
void catalog_remove_service(struct fsm *f, struct span node, const struct service *s, int64_t now);
void catalog_remove_check(struct fsm *f, const struct check *c, int64_t now);
/* Before the log: completes what is given of a service or a check (of this node), and refuses what needs no state for that. */
enum tv_err catalog_prepare_node_id(struct prepare *p, struct span id);
enum tv_err catalog_prepare_service(struct prepare *p, struct service *s);
/* The version that a packed check needs, before which r stands: FSM_CHECK_FIELDS_SINCE, or 0 for any.  Takes it. */
uint8_t catalog_check_needs(struct rd *r);
enum tv_err catalog_prepare_check(struct prepare *p, struct span node, struct check *c);
/* Applies a registration, whole or not at all. */
void catalog_register_apply(struct apply *p, const struct catalog_register *q);

/* May the service be seen that this one is a proxy of? */
struct reading;
bool catalog_may_read_destination(const struct reading *r, const struct service *s);

/* Walk over the instances of a service, ordered by node and id; "" walks over all services. */
struct instances {
	struct fsm *f;
	struct tbl_scan scan;
	struct arena arena;
	struct node node;		/* of the instance at hand */
	struct service service;
	uint8_t names[3][FSM_NAME_BYTES_MAX];
};
void instances_begin(struct fsm *f, struct instances *w, struct span service);
/* Of what proxies for a service. */
void instances_begin_connect(struct fsm *f, struct instances *w, struct span service);
bool instances_next(struct instances *w);
void instances_end(struct instances *w);

/* The number of a field of a record; it has one of this name. */
uint32_t catalog_field(const struct schema *s, const char *name);
/* Text fields of a packed record, these and no others; the numbers rise.  False: it cannot be read. */
bool catalog_texts(struct span val, const uint32_t *numbers, struct span *texts, unsigned n);

bool catalog_map_eq(const struct span_map *a, const struct span_map *b);
bool meta_matches(const struct span_map *want, const struct span_map *have);
bool tags_match(const struct span_list *want, const struct span_list *have);

/* What the checks of an instance must be like: none critical, or all passing; those with these ids are not looked at. */
struct check_rule {
	bool passing;
	const struct span_list *ignored;	/* NULL: none */
};
typedef bool instance_wanted(const void *ctx, const struct instances *at);
struct sort_near;
/*
 * Appends instances of a service, or of what proxies for it, with their checks: those that are wanted, and good by the rule (NULL:
 * all are).  Each is noted for sorting.  How many.
 */
uint32_t health_instances(struct reading *r, struct span name, bool connect, instance_wanted *wanted, const void *ctx,
    const struct check_rule *rule, struct sort_near *near);

/* -- address.c: the index of addresses, in memory -- */
/* NULL: no memory. */
struct addresses *addresses_new(void);
void addresses_free(struct addresses *x);
/* A record is about to be changed by the running batch; f->lock held, as in these two. */
void addresses_note(struct fsm *f, const struct tkey *k);
/* After a commit, before it is published. */
void addresses_publish(struct fsm *f);
/* The records are others. */
void addresses_forget(struct fsm *f);
void addresses_info(const struct fsm *f, void (*fn)(void *ctx, const char *name, const char *value), void *ctx);

/* -- coordinate.c -- */
/* Removes a node's coordinates. */
void coordinate_node_gone(struct fsm *f, struct span node);
/* The node's coordinate; false when it has none that can be used. */
bool coordinate_of_node(struct fsm *f, struct span node, struct arena *a, struct coordinate *out);

/* -- sort_near.c: an answer sorted by the distance from a node -- */
struct near_record { size_t at, len; int64_t rtt; uint64_t order; bool own; };
struct sort_near {
	struct fsm *f;
	bool active;			/* sorting is asked for, and its node has a coordinate */
	bool failed;			/* no memory */
	struct coordinate from;
	struct arena arena;
	struct buf last;		/* node of the last record, and how far it is */
	int64_t last_rtt;
	struct near_record *records;
	size_t count, cap;
	bool shuffled;			/* else what is equally far keeps its order */
	struct rng rng;
	struct buf own;			/* shuffled: the node that the answer is sorted from */
};
/* By q's Near or NearAddress; begun ones are ended. */
void sort_near_begin(struct sort_near *n, struct fsm *f, const struct catalog_read *q);
/* A record that belongs to this node was appended at this offset of the answer. */
void sort_near_note(struct sort_near *n, size_t at, struct span node);
/* Sorts what was noted; the last record ends where out ends. */
void sort_near_end(struct sort_near *n, struct buf *out);
/*
 * Of an answer in which what is equally far changes places at random, or all of it if nothing is asked for.  What is at the node
 * that is asked from comes first, if it is among the first ten; and only so many records stay (0: all).  How many these are.
 */
void sort_near_begin_shuffled(struct sort_near *n, struct fsm *f, const struct catalog_read *q);
uint32_t sort_near_end_shuffled(struct sort_near *n, struct buf *out, uint64_t limit);

/* -- watch.c -- */
enum watch_kind { WK_NOTHING, WK_KEY, WK_PREFIX, WK_SERVICE, WK_TABLE };
struct watches *watches_new(void);
void watches_free(struct watches *w);
/* Marks what was touched, to be fired together. */
void watches_touch_key(struct watches *w, struct span key);
/* A set of them, 1 << enum fsm_index each. */
void watches_touch_tables(struct watches *w, uint64_t tables);
void watches_touch_service(struct watches *w, struct span lower_name);
void watches_touch_all(struct watches *w);
void watches_fire(struct watches *w);
unsigned watches_count(const struct watches *w);
/*
 * what: key, prefix or lower-case service name; for WK_TABLE the set of tables instead, 1 << enum fsm_index each: as many
 * sets are kept as were ever named, so only rows of operations name them.  NULL past WATCHES_MAX or without memory.
 */
struct fsm_watch *watches_add(struct watches *w, enum watch_kind kind, struct span what, uint64_t tables,
    fsm_watch_fn *fn, void *ctx);
void watches_remove(struct watches *w, struct fsm_watch *x);

/* -- txn/txn.c -- */
/* The prefixes that an OP_TXN_APPLY entry deletes trees of, if not NULL: TXN_OPS_MAX at most; how many there are. */
uint32_t txn_trees(const struct raft_entry *e, struct span *prefixes);

/* -- group.c: operations of one entry that are all or nothing -- */
/*
 * Between begin and commit or fail, inside the applying of an entry, the group's operations are applied like any others
 * (apply_op()), one after the other; each sees what those before it did.  After fail nothing of them is left: records,
 * indexes, tallies and snapshots are as they were, and who waits is woken by what is outside of the group only.  What an
 * operation answered is its result's, which the caller keeps or drops.  Groups may hold groups.
 *
 * A group costs less than 1 us beside its operations; fail reads the write-ahead log of what is undone, from the disk where
 * it is long.  An error of Berkeley DB goes to f->failed as always; after begin one of the two ends is called in any case.
 * An operation may empty f->work (TOMBSTONE_REAP does): what the caller needs after it lives elsewhere.
 */
struct fsm_group {
	DB_TXN *outer;
	struct touches_mark touches;
	uint64_t index[FX_COUNT], tally[FT_COUNT];
};
void fsm_group_begin(struct fsm *f, struct fsm_group *g);
void fsm_group_commit(struct fsm *f, struct fsm_group *g);
void fsm_group_fail(struct fsm *f, struct fsm_group *g);

/* -- snapshot.c -- */
/* Before a key changes: keeps its old value if an open snapshot has not copied it yet.  f->lock held. */
void snapshot_save(struct fsm *f, const struct tkey *k);
/* The state under an open snapshot is about to be replaced. */
void snapshot_abandon(struct fsm *f);

/* -- replace.c: a loaded state takes the place of another -- */
/* Finishes or undoes a restore that a crash interrupted: afterwards dir is the one good state, or absent. */
enum tv_err restore_finish(const char *dir);
/* DIR.new is whole and on disk: marks it. */
enum tv_err restore_mark(const char *dir);
/* Where applying is: what fsm_restore_ready() made ready becomes the state.  TV_ESYS is fatal. */
enum tv_err replace_take(struct fsm *f, char *errbuf, size_t cap);
/* Closes all that is open. */
void replace_close(struct fsm *f);

/* -- restore.c -- */
struct snap_in;
struct restore_filter {
	/* TV_OK: this record too; TV_ENOENT: not this one; else loading ends with it. */
	enum tv_err (*take)(void *ctx, struct span key, struct span val);
	void *ctx;
};
/* Fills `dir`, made anew, from an open snapshot, and makes it durable.  filter NULL: all of it. */
enum tv_err restore_fill(const struct fsm *f, const char *dir, struct snap_in *in, const struct restore_filter *filter,
    char *errbuf, size_t cap);
/* Opens an environment to be filled, or one that was. */
enum tv_err restore_env(const struct fsm *f, struct store_env *env, const char *dir, char *errbuf, size_t cap);
/* DIR.new holds none any more. */
void forget_loaded(struct fsm *f);
void restore_path(char *out, size_t cap, const char *dir, const char *suffix);	/* cap: at least 4096 */
enum tv_err restore_remove_dir(const char *path);

/* -- damage.c -- */
/* Was the state found damaged while it was in use? */
bool damage_marked(const char *dir);
/* Remembers it beside the files, if they are damaged. */
void damage_mark(const struct fsm *f);

/* -- record.c -- */
/*
 * TV_EFORMAT: the state machine cannot have written this record, or could not read it.  TV_ENOMEM: the arena or the
 * memory is too small to tell.  tally: its table's, or FT_COUNT.  What records say of one another is not looked at: the
 * tables' code passes over a reference to nothing.
 */
enum tv_err record_check(struct span key, struct span val, struct arena *a, enum fsm_tally *tally);

/* -- autopilot_config.c, server.c: what the head shows of them -- */
bool autopilot_load(struct fsm *f, struct arena *a, struct autopilot_config *out);

/* -- acl/acl.c -- */
/* The record, as the running transaction sees it; false: access control does not hold. */
bool acl_load(struct fsm *f, struct arena *a, struct acl_state *out);
/* The highest index of the tables that an answer about tokens is made of. */
uint64_t acl_index_of(const struct fsm *f);

/* -- acl/acl_rights.c -- */
struct acl_rights_table *acl_rights_table_new(void);	/* NULL: no memory */
/* What is left of it goes with the last rights that it gave. */
void acl_rights_table_free(struct acl_rights_table *t);

/* -- acl/acl_premise.c -- */
/*
 * Is the state, as the running transaction sees it, what the judgement of this entry saw?  False: the entry has failed, with TV_EAGAIN and
 * `outdated` if it is not.
 */
bool premises_hold(struct apply *p, struct span packed);

/* -- acl/acl_may.c: may who asks see this? -- */
static inline bool
may_read(const struct reading *r, enum acl_resource resource, struct span name)
{
	bool may = r->who == NULL || acl_set_allows(r->who, resource, name, ACL_READ);

	if (!may && r->ans != NULL)
		r->ans->hidden = true;
	return may;
}
static inline bool
may_read_node(const struct reading *r, struct span node)
{
	return may_read(r, ACL_NODE, node);
}
/* An instance or a check: its node, and its service if it has one. */
static inline bool
may_read_service(const struct reading *r, struct span node, struct span service)
{
	return may_read(r, ACL_NODE, node) && (service.len == 0 || may_read(r, ACL_SERVICE, service));
}
/* Is nothing of this resource left out? */
static inline bool
may_read_all(const struct reading *r, enum acl_resource resource)
{
	return r->who == NULL || acl_set_allows_all(r->who, resource, ACL_READ);
}
/*
 * What belongs to a node (resource: ACL_NODE, ACL_SESSION), by the node's name as it is stored, if it is there: what belongs to it may have
 * been given it in another spelling.
 */
bool may_read_at_node(const struct reading *r, enum acl_resource resource, struct span node, struct arena *a);
/* By the row of the operation, before anything is read; false: the read has failed with TV_EPERM. */
bool may_ask(struct reading *r, const struct op *op, const void *rec);

/* -- stage.c: a restore on its way through the log -- */
/* What is staged, as the running transaction sees it. */
bool stage_now(struct fsm *f, struct fsm_stage *out);
bool stage_last(struct fsm *f, char id[37], uint64_t *index);
#define STAGE_CHUNK_BYTES_MAX (1u << 20)
/* By a reader: the staged bytes at this offset; "" at the end.  TV_ENOENT: this restore is not staged whole (any more). */
enum tv_err stage_chunk(struct fsm *reader, const char *id, uint64_t offset, struct buf *out);
/* By a reader: what is staged, if it is all of this restore; else TV_ENOENT. */
enum tv_err stage_whole(struct fsm *reader, const char *id, struct fsm_stage *out);
void stage_last_key(struct tkey *k);

/* -- ops.c: who does what, and what a read waits on -- */
struct fsm_op {				/* the arguments are those of the operation's row in common/record/ops.h */
	uint16_t code;
	enum tv_err (*prepare)(struct prepare *p, void *rec);	/* NULL: nothing to do */
	void (*apply)(struct apply *p, const void *rec);	/* writes */
	void (*read)(struct reading *r, const void *rec);	/* reads */
	void (*warm)(struct fsm *reader, const void *rec);	/* writes: looks at what apply will; NULL: that is little */
	uint8_t since;						/* writes: version of the state machine; 0: the first */
	bool one;						/* reads: of one record, which needs no view */
	uint8_t (*needs)(struct span args);	/* writes: version that these arguments need; NULL: never more than since */
};
/* The areas: an array each, which ends with a row of zeros. */
#define FSM_AREAS(X) \
	X(kv_ops) X(session_ops) X(register_ops) X(catalog_ops) X(address_ops) X(health_ops) X(deregister_ops) X(coordinate_ops) \
	X(autopilot_ops) X(tombstone_ops) X(server_ops) X(stage_ops) X(txn_ops) X(query_ops) X(acl_ops) X(acl_token_ops) \
	X(acl_policy_ops) X(acl_role_ops) X(acl_resolve_ops) X(acl_method_ops) X(acl_binding_ops) \
	X(acl_login_ops) X(acl_repl_ops)
#define X(name) extern const struct fsm_op name[];
FSM_AREAS(X)
#undef X
/* NULL: not one of the state machine's. */
const struct fsm_op *fsm_op_find(uint16_t code);

struct watch_row {			/* the watch column of an operation */
	enum watch_kind kind;
	uint16_t field;			/* offset of the field it names: a text; WK_TABLE: a map, if `more` is not 0 */
	uint64_t tables;		/* WK_TABLE: bits 1 << enum fsm_index */
	uint64_t more;			/* these too, if the map is not empty */
	bool connect;			/* WK_SERVICE: what proxies for the service */
};
#define CONNECT_SUBJECT "\0connect"	/* behind the name of a service, what is waited for then; with its own NUL */
const struct watch_row *watch_row_of(const struct op *op);
/*
 * What a read with this argument record waits on: the key, prefix or lower-case service name (borrowed from the record or
 * the arena), and the tables.  False: no memory.
 */
bool watch_subject(const struct watch_row *w, const void *rec, struct arena *a, struct span *what, uint64_t *tables);

#endif
