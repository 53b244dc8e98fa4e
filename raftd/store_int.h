/* What the files of the log store share.  Nobody else includes this. */
#ifndef TV_STORE_INT_H
#define TV_STORE_INT_H

#include <pthread.h>

#include "common/buf.h"
#include "raftd/store.h"
#include "raftd/store_env.h"

/*
 * Entries live in segments: one btree file per run of indexes, named by a number that is never used again.  Which
 * segments there are is a record of meta.db (the manifest), changed in the transaction of the entries; a file that it
 * does not name is rubbish.  Cutting the front of the log removes whole files, so the space goes back at once and
 * nothing is rewritten.
 */
struct log_seg {
	uint64_t id;			/* names the file */
	uint64_t base;			/* smallest index it may hold; the next segment's base ends it */
	uint64_t bytes;			/* payload bytes put since it was opened */
	DB *db;				/* NULL until opened */
};

struct seg_list {
	struct log_seg *v;		/* owned */
	unsigned n, cap;
};

struct log_store {
	struct store_env env;
	DB *meta;
	struct seg_list segs;		/* ascending by base */
	uint64_t next_seg;		/* id of the next one */
	uint64_t first, last;		/* live entries; 0, 0: none */
	uint64_t term;			/* hard state and positions as stored */
	raft_id vote;
	char store_id[37], cluster_id[37];
	uint64_t generation;
	uint64_t cut;			/* entries <= cut are gone, even if a segment still holds them */
	uint64_t snapshot_index, snapshot_term;
	struct raft_config snapshot_config;
	uint64_t seq;			/* number of the newest transaction, stored with it */
	int mark_fd;			/* the file that says which one was made durable; -1: none */
	uint64_t segment_bytes_max, checkpoint_bytes_max;
	struct buf bulk, scratch;	/* writer's batch; reader's entry */

	/* Guards everything above: held for memory work, never across a sync. */
	pthread_mutex_t lock;
	/* Background checkpoints, and removal of segments. */
	pthread_t thread;
	pthread_cond_t wake;
	uint64_t since_checkpoint;	/* bytes written */
	uint64_t since_spare;		/* the same, since a spare file was last thought of */
	uint32_t spare_file;		/* number of the last one that was made or tried */
	uint32_t spare_bytes;		/* size of one; 0: no spares */
	bool naming;			/* a spare gets its name: the writer waits for `named` */
	pthread_cond_t named;
	struct seg_list leaving;	/* out of the manifest, which is not durable yet */
	struct seg_list trash;		/* out of the durable manifest: files to remove */
	bool thread_runs, stop;
	bool no_thread;			/* see struct log_options */
	bool failed;			/* a write or sync failed: final */
	int failure;			/* Berkeley DB's code of the first one */
};

/* What to do when the log is refused; store_log.c. */
extern const char store_advice[];

/* -- store_meta.c: the small records of meta.db -- */
enum store_meta_key { STORE_META_HARD, STORE_META_IDENTITY, STORE_META_SNAPSHOT, STORE_META_SEGMENTS, STORE_META_SEQ,
    STORE_META_COUNT };
/* Reads all of them into s; *fresh when none is there.  TV_ECORRUPT with a sentence. */
enum tv_err store_meta_load(struct log_store *s, bool *fresh, char *errbuf, size_t cap);
/* Writes one from s, inside txn.  Berkeley DB's code. */
int store_meta_put(struct log_store *s, DB_TXN *txn, enum store_meta_key which);

/* -- store_mark.c: what was durable, told apart from what is found -- */
/*
 * Opens (or makes) the mark and compares: transactions that had been made durable and are not there any more are
 * TV_ECORRUPT with a sentence.  A torn mark, or one that the system had not written yet, says nothing.
 */
enum tv_err store_mark_open(struct log_store *s, char *errbuf, size_t cap);
/* After s->seq is durable.  A failure is not one of the log: the mark is then behind. */
void store_mark_set(struct log_store *s);
void store_mark_close(struct log_store *s);

/* -- store_spare.c: the next write-ahead file, made ready -- */
/* Makes it unless it is there.  Without s->lock; slow.  A failure only costs speed. */
void store_spare_make(struct log_store *s);
/* Before an environment is opened: removes what was made ready and never used.  TV_ESYS. */
enum tv_err store_spare_clear(const char *dir);

/* -- store_seg.c: segments and the entries in them -- */
/* Opens every segment of the manifest, and removes files that it does not name.  TV_ECORRUPT with a sentence. */
enum tv_err store_seg_open_all(struct log_store *s, char *errbuf, size_t cap);
void store_seg_close_all(struct log_store *s);
/* Segment that holds (or would hold) the index; NULL when it lies before the first one. */
struct log_seg *store_seg_find(struct log_store *s, uint64_t index);
/* Creates a segment at the end.  The caller stores the manifest with the entries. */
int store_seg_add(struct log_store *s, uint64_t base);
/* Is it time for a new one? */
bool store_seg_full(const struct log_store *s);
/* Takes segments [from, from + count) out; they are `leaving` until the manifest is durable. */
int store_seg_take(struct log_store *s, unsigned from, unsigned count);
/* Takes out those at the front whose entries are all cut away.  The newest segment always stays. */
int store_seg_discard(struct log_store *s);
/* What was leaving is gone for good: its files may be removed. */
int store_seg_to_trash(struct log_store *s);
/* Closes and removes the files, and empties the list.  May run while others write. */
int store_seg_remove(struct store_env *env, struct seg_list *trash);
int store_seg_push(struct seg_list *l, const struct log_seg *g);
/* Removes entries >= index from a segment, inside txn. */
int store_seg_cut(struct log_seg *g, DB_TXN *txn, uint64_t index);
/* Puts entries (ascending, all belonging to g) inside txn, using bulk as the work buffer. */
int store_seg_put(struct log_seg *g, DB_TXN *txn, const struct raft_entry *e, uint32_t count, struct buf *bulk);
/*
 * Walks entries first..last of the log in order; e->payload is borrowed during the call.  Checks checksum and
 * contiguity.  TV_ECORRUPT: *bad is the index.  A non-zero return of fn stops with it.
 */
enum tv_err store_seg_walk(struct log_store *s, uint64_t first, uint64_t last,
    enum tv_err (*fn)(void *ctx, const struct raft_entry *e), void *ctx, uint64_t *bad);
/* Index of a segment's newest record, 0 when it is empty. */
enum tv_err store_seg_last(struct log_store *s, struct log_seg *g, uint64_t *last);
/* File name of a segment, into name[cap]. */
void store_seg_name(uint64_t id, char *name, size_t cap);

#endif
