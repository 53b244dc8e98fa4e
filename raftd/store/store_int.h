/* What the files of the log store share.  No other file includes this. */
#ifndef TV_RAFTD_STORE_STORE_INT_H
#define TV_RAFTD_STORE_STORE_INT_H

#include <pthread.h>

#include "common/base/buf.h"
#include "raftd/store/bdb/store_env.h"
#include "raftd/store/store.h"

/* What one record of the log says; store_frame.c writes and reads them. */
enum log_frame_kind {
	LOG_FRAME_STATE = 1,		/* everything but the entries, as it is after transaction `seq`: older files may go */
	LOG_FRAME_BATCH,		/* a struct log_batch */
	LOG_FRAME_POSITION,		/* compaction, or with `reset` replacement by a snapshot */
	LOG_FRAME_IDENTITY,		/* cluster id and generation */
};

struct log_frame {
	enum log_frame_kind kind;
	uint64_t seq;			/* number of the transaction */
	bool hard_changed, reset;
	uint64_t term, vote;
	uint64_t generation;		/* BATCH: 0: stays */
	uint64_t truncate_from;		/* 0: nothing */
	uint64_t first;			/* index of the first entry; 0: none */
	uint32_t count;
	const struct raft_entry *entries;	/* to write; NULL when read */
	struct rd body;			/* when read: the entries, see store_frame_next() */
	uint64_t last;			/* STATE: newest entry; 0: none */
	uint64_t cut, snapshot_index, snapshot_term;
	struct span config;		/* as raft_config_write() has it; empty: none */
	char store_id[37], cluster_id[37];
};

/* Where entries are: from `first` on, in the records that follow this place, up to the next place's first. */
struct log_place {
	uint64_t first;
	uint32_t file, offset;
};

struct log_file {			/* one of Berkeley DB's write-ahead files */
	uint32_t number;
	bool state;			/* a STATE record is in it, before all but the first other record */
	uint64_t base;			/* live entries below are in older files, all others in this one or newer ones */
};

struct log_store {
	struct store_env env;
	struct log_place *places;	/* owned; ascending by first */
	size_t place_count, place_cap;
	uint64_t place_next;		/* index that would go on in the newest place */
	struct log_file *files;		/* owned; those with records, ascending */
	size_t file_count, file_cap;
	uint32_t oldest;		/* number of the oldest file that is there and not trash, perhaps without records */
	uint64_t first, last;		/* live entries; 0, 0: none */
	uint64_t term;			/* hard state and positions as stored */
	raft_id vote;
	char store_id[37], cluster_id[37];
	uint64_t generation;
	uint64_t cut;			/* entries <= cut are gone, even if a file still holds them */
	uint64_t replaced;		/* times that entries went which had been the newest, and others may have come in their place */
	uint64_t snapshot_index, snapshot_term;
	struct raft_config snapshot_config;
	uint64_t seq;			/* number of the newest transaction */
	int mark_fd;			/* the file that says which one was made durable; -1: none */
	uint32_t file_bytes;		/* of a usual write-ahead file */
	struct buf frame, state;	/* writer's: the record, and a STATE record */

	/* Guards everything above: held for memory work, never across a sync. */
	pthread_mutex_t lock;
	/* Background: spares, and removal of files. */
	pthread_t thread;
	pthread_cond_t wake;
	uint64_t since_spare;		/* bytes written since a spare file was last thought of */
	uint32_t spare_file;		/* number of the last one that was made or tried */
	uint32_t spare_bytes;		/* size of one; 0: no spares */
	bool naming;			/* a spare gets its name: the writer waits for `named` */
	pthread_cond_t named;
	bool new_file;			/* one was begun that may not have its blocks yet */
	uint32_t trash_from, trash_to;	/* numbers of files to remove; equal: none */
	bool thread_runs, stop;
	bool no_thread;			/* see struct log_options */
	bool failed;			/* a write or sync failed: final */
	int failure;			/* Berkeley DB's code of the first one */
};

/* What to do when the log is refused; store_replay.c. */
extern const char store_advice[];

/* -- store_frame.c: records -- */
/* Writes one, with its checksum; b is emptied first.  b->failed: no memory, or too large. */
void store_frame_write(struct buf *b, const struct log_frame *f);
/* Looks into one: kind, numbers, positions.  Spans point into it.  TV_ECORRUPT. */
enum tv_err store_frame_read(struct span record, struct log_frame *out);
/* The next entry of a BATCH that was read, payload borrowed; at most f->count times.  TV_ECORRUPT. */
enum tv_err store_frame_next(struct log_frame *f, struct raft_entry *out);

/* -- store_index.c: where what is; lock held -- */
/* Index that the next entry must have. */
uint64_t store_next_index(const struct log_store *s);
/* A record of the file: makes it the newest one known, if it is new.  ENOMEM. */
int store_file_seen(struct log_store *s, uint32_t number);
/* Takes over what a record says, which was put at this place.  The file was seen.  ENOMEM, or EINVAL: it cannot be. */
int store_index_apply(struct log_store *s, const struct log_frame *f, const DB_LSN *at);
/* Files that nothing needs any more become trash, once what said so is durable. */
void store_files_discard(struct log_store *s);
/*
 * Walks entries first..last, all live, in order; e->payload is borrowed during the call.  TV_ECORRUPT: *bad is the
 * index.  A non-zero return of fn stops with it.  Lock held, and let go of while the disk is read: what was found counts if
 * the entries are still there afterwards.
 */
enum tv_err store_walk(struct log_store *s, uint64_t first, uint64_t last,
    enum tv_err (*fn)(void *ctx, const struct raft_entry *e), void *ctx, uint64_t *bad);

/* -- store_replay.c: from the files to struct log_store -- */
struct log_replay {
	struct log_store *s;
	bool known;			/* a STATE was seen */
	DB_LSN at;			/* of the newest record that was read; offset 0: none yet */
};
/* Takes the next record, which stands at p->at.  0, ENOMEM, or EINVAL: it cannot be. */
int store_replay_record(struct log_replay *p, struct span record);
/*
 * Reads every record there is.  *fresh: there is none, and none is missing.  TV_ECORRUPT with a sentence.  Nothing is
 * written.
 */
enum tv_err store_replay(struct log_store *s, bool *fresh, char *errbuf, size_t cap);
/* Are all files there, from the oldest to the newest, and none in an older form?  Before the environment is opened. */
enum tv_err store_files_check(const char *dir, char *errbuf, size_t cap);
/*
 * Makes what lies behind the end of the log zeros, durably: the remains of a write that a crash tore.  A record that
 * is put over the front of them must not be followed by what looks like another.  TV_ESYS.
 */
enum tv_err store_tail_clear(struct log_store *s);

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
/*
 * If the newest file may not last: could the next one be made, as far as statvfs(3) does not say so (a quota, no inode)?  Before
 * the background thread runs.  TV_ENOSPACE with a sentence.
 */
enum tv_err store_spare_try(struct log_store *s, char *errbuf, size_t cap);
/* Before an environment is opened: removes what was made ready and never used.  TV_ESYS. */
enum tv_err store_spare_clear(const char *dir);
/* Name of a write-ahead file, into path[cap]. */
void store_file_path(const char *dir, uint32_t number, char *path, size_t cap);

#endif
