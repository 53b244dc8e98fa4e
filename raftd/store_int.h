/* What the files of the log store share.  Nobody else includes this. */
#ifndef TV_STORE_INT_H
#define TV_STORE_INT_H

#include <pthread.h>

#include "common/buf.h"
#include "raftd/store.h"
#include "raftd/store_env.h"

/*
 * Entries live in segments: one btree file per run of indexes, named by the first of them.  Cutting the front
 * of the log removes whole files, so the space goes back at once and nothing is rewritten.
 */
struct log_seg {
	uint64_t base;			/* smallest index it may hold; the next segment's base ends it */
	uint64_t bytes;			/* payload bytes put since it was opened or counted */
	DB *db;
};

struct log_store {
	struct store_env env;
	DB *meta;
	struct log_seg *segs;		/* owned, ascending */
	unsigned seg_count, seg_cap;
	uint64_t first, last;		/* live entries; 0, 0: none */
	uint64_t term;			/* hard state and positions as stored */
	raft_id vote;
	char store_id[37], cluster_id[37];
	uint64_t generation;
	uint64_t cut;			/* entries <= cut are gone, even if a segment still holds them */
	uint64_t tail_base;		/* base of the newest segment, so that a lost file is noticed; 0: none yet */
	uint64_t snapshot_index, snapshot_term;
	struct raft_config snapshot_config;
	uint64_t seq;			/* number of the newest transaction, stored with it */
	int mark_fd;			/* the file that says which one was made durable; -1: none */
	uint64_t segment_bytes_max;
	struct buf bulk, scratch;	/* writer's batch; reader's entry */

	/* Guards everything above: held for memory work, never across a sync. */
	pthread_mutex_t lock;
	/* Background checkpoints, and removal of segments. */
	pthread_t thread;
	pthread_cond_t wake;
	uint64_t since_checkpoint;	/* bytes written */
	struct log_seg *trash;		/* owned: cut off the front, files not yet removed */
	unsigned trash_count;
	bool thread_runs, stop;
	bool failed;			/* a write or sync failed: final */
};

/* -- store_meta.c: the small records of meta.db -- */
enum store_meta_key { STORE_META_HARD, STORE_META_IDENTITY, STORE_META_SNAPSHOT, STORE_META_SEQ, STORE_META_COUNT };
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

/* -- store_seg.c: segments and the entries in them -- */
/* Opens every segment file of the directory.  TV_ECORRUPT with a sentence. */
enum tv_err store_seg_open_all(struct log_store *s, char *errbuf, size_t cap);
void store_seg_close_all(struct log_store *s);
/* Segment that holds (or would hold) the index; NULL when it lies before the first one. */
struct log_seg *store_seg_find(struct log_store *s, uint64_t index);
/* Creates a segment at the end, inside txn. */
int store_seg_add(struct log_store *s, DB_TXN *txn, uint64_t base);
/*
 * Removes segment files [from, from + count), inside txn.  The files go when it commits, which therefore has to be
 * a synchronous commit.
 */
int store_seg_drop(struct log_store *s, DB_TXN *txn, unsigned from, unsigned count);
/*
 * Moves the segments whose entries are all cut away to the trash; store_seg_empty_trash() removes their files, each in a
 * synchronous transaction of its own, and may run while others write.  The newest segment always stays.
 */
int store_seg_discard(struct log_store *s);
int store_seg_empty_trash(struct store_env *env, struct log_seg *trash, unsigned count);
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
void store_seg_name(uint64_t base, char *name, size_t cap);

#endif
