/*
 * The state in memory, and a reader of it.  Every file of the state machine may look at it; each field belongs to the room
 * that its comment names, or to the applying thread.
 */
#ifndef TV_RAFTD_FSM_STATE_H
#define TV_RAFTD_FSM_STATE_H

#include <pthread.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "raftd/fsm/fsm.h"
#include "raftd/fsm/table/key.h"
#include "raftd/store/bdb/store_env.h"

#define STATE_FILE "state.db"
#define FSM_NAME_BYTES_MAX 1024		/* node, service and check names and ids */
#define FSM_KV_KEY_BYTES_MAX 8192
#define FSM_ANSWER_BYTES_MAX (64u << 20)
#define FSM_DECODED_MAX (24u << 20)	/* that the arguments of a write may take in memory, beside their bytes */
#define FSM_INDEX_MAX (1ull << 53)	/* of an archive to be restored: what JSON's numbers hold */

/*
 * After so many refusals in a row of pages that are not in the cache, one after the other, there is no room for all that
 * are wanted at once: then the caller waits for the disk inside of Berkeley DB.  More than the largest record has.
 */
#define COLD_TRIES_MAX 512

/* What the newest restore left behind. */
enum fsm_restored {
	FR_BASE,	/* what is added to the log's index to make an index of the API: the archive's was ahead of the log */
	FR_FLOOR,	/* the restore's own index, in those terms: no answer's index is below it */
	FR_COUNT
};

struct fsm_snapshot;
struct fsm_view;
struct watches;
struct acl_rights_table;
struct addresses;

/* An environment, and the btree in it. */
struct fsm_tables {
	struct store_env *env;		/* owned; NULL: not open */
	DB *db;
	DB *sparse;			/* the same for deleting much: store_env_db_sparse() */
	unsigned *readers;		/* owned: between begin and end in them; head_lock */
};

/* What happened in a batch, for the watches: read/touches.c. */
struct fsm_touches {
	struct buf log;			/* [u8 enum watch_kind, u32 bytes, bytes] each */
	uint64_t tables;		/* 1 << enum fsm_index each */
	bool all;			/* more than the log holds, or another state */
};

/* What is known of the state without reading it, as of the last commit: table/head.c. */
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

/* The walk that joins half empty pages: page/compact.c. */
struct compact {
	bool walking;
	bool due;			/* pages were left empty */
	unsigned refused;		/* of this step: pages that were not in the cache */
	uint32_t file, used;		/* pages of the file after the last walk, and those in use; 0: not looked at yet */
	uint32_t freed;			/* by this walk */
	struct tkey at;			/* where it goes on */
};

/*
 * The state, or a reader of it.  The applying thread owns what has no other word; a reader has all of this for itself but
 * for the tables, and what it needs of the state's it takes from `owner`.
 */
struct fsm {
	struct fsm *owner;		/* of a reader; NULL: this is the state itself */
	struct store_env *env;		/* these four are the tables; lock and head_lock for changing them, either for looking */
	DB *db, *sparse;
	unsigned *readers;
	struct fsm_tables next_tables, old_tables;	/* about to take their place, and to be closed: copy/replace.c */
	_Atomic bool name_taken;	/* env has its files, but their names below `dir` belong to another environment */
	struct fsm_options opt;		/* its strings are owned */
	char *dir, *datacenter, *acl_primary;
	void (*before_change)(struct fsm *f, const struct tkey *k);	/* of each record that is put or deleted; of a reader: NULL */

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
	bool holds_lock;		/* of a reader: it has the state's lock, since it met a page that was being changed */
	struct fsm_view *view;		/* of a reader, which sees the state as of that; or NULL */
	/* Its cursor: a record that was read is written again without another search.  See table/table.c. */
	DBC *cursor;
	bool cursor_set;
	struct tkey cursor_key;		/* where it stands, if set */
	struct compact compact;
	struct {			/* see page/warm.c */
		struct fsm *reader;
		unsigned left;		/* batches that are to be looked through; 0: all is cached */
		_Atomic uint64_t fetched, read;	/* pages, before batches and by them */
	} warm;
	_Atomic int failed;		/* first code of Berkeley DB that was not expected; sticky but for a reader's */
	uint64_t at;			/* index of the entry being applied, as the API shows it: with FR_BASE */
	bool emptying;			/* much is being deleted: by `sparse` */
	struct arena work;		/* emptied before each entry; never for as many records as a request names */
	struct buf scratch, pack;	/* last record read by tbl_peek(); record being written */

	/* Held by fsm_apply() and by a snapshot writer's steps: between those the state is that of one index.  See state_lock(). */
	pthread_mutex_t lock;
	pthread_mutex_t door;		/* before `lock`: held by the thread that is next */
	/* Held while a checkpoint uses the environment, and while a restore makes another ready; before `lock`. */
	pthread_mutex_t env_lock;
	/* For moments only, never while a disk works; after `lock`. */
	pthread_mutex_t head_lock;
	pthread_cond_t readers_left;	/* with head_lock */
	struct fsm_head head;		/* head_lock */
	_Atomic uint64_t acl_since, acl_index;	/* of the head, without its lock: each decision looks at them */
	unsigned facts;			/* FACT_... that the next head has to be given */
	struct fsm_touches *touches;	/* of the running batch */
	struct fsm_touches own_touches;	/* of fsm_apply(), and of what is applied without touches of its own */
	pthread_t flusher;		/* calls fsm_flush() */
	bool flushing;			/* there is that thread */
	struct fsm_snapshot *snap;	/* open snapshot, or NULL */
	pthread_mutex_t views_lock;	/* these; after `lock`, for moments only */
	pthread_cond_t views_left;
	struct fsm_view *views;
	_Atomic unsigned views_open;
	size_t kept_bytes;		/* in all of them */
	bool views_shut;		/* readers with a view wait for views_admit() */
	struct watches *watches;
	struct acl_rights_table *rights;	/* has a lock of its own */
	struct addresses *addresses;	/* has one, too: catalog/address.c */
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

#endif
