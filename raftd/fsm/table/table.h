/*
 * Records of the one btree: read, written, walked over, in the running transaction or by a reader.
 *
 * Errors of Berkeley DB go to f->failed; calls then do nothing.  Every function is for the thread that has the state or
 * the reader.
 */
#ifndef TV_RAFTD_FSM_TABLE_TABLE_H
#define TV_RAFTD_FSM_TABLE_TABLE_H

#include "raftd/fsm/state.h"

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
/* Inside a transaction only; f->before_change() is called first. */
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

#endif
