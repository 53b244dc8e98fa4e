/*
 * Stored Raft data: two Berkeley DB environments below data_dir/raftd.
 *
 *   log/    entries and the hard state (term, vote, store_id, cluster_id, generation, snapshot index/term/config), as
 *           records of Berkeley DB's write-ahead log and nothing else.  Every commit is one record and synchronous.
 *           Written by one thread (the log thread); log_read() may run in others at the same time and waits for its own
 *           reads, memory work and write(2) only, never for a sync of entries; nor does a write wait for a read.
 *   state/  tables of the state machine (raftd/fsm), written without sync; the applied index is stored in the same
 *           transaction.  After a crash it is consistent at some applied index.  See fsm.h.
 *
 * A failed write or sync of log/ is final: the function returns TV_ESYS and the caller must stop the process (S84).
 */
#ifndef TV_RAFTD_STORE_STORE_H
#define TV_RAFTD_STORE_STORE_H

#include "common/base/arena.h"
#include "raftd/core/raft.h"

struct log_store;

struct log_meta {			/* everything in log/ but the entries */
	uint64_t term;
	raft_id vote;
	char store_id[37];		/* made when the environment is created */
	char cluster_id[37];		/* "" while fresh */
	uint64_t generation;
	uint64_t first, last;		/* 0, 0: empty log */
	uint64_t snapshot_index, snapshot_term;	/* the log starts after it, or earlier */
	struct raft_config snapshot_config;
};

struct log_options {
	const char *dir;		/* data_dir/raftd/log, created 0700 */
	bool spares;			/* makes write-ahead files ready beforehand: a sync is then twice as fast */
	bool goes_on;			/* TV_ENOSPACE, too, when a file that may soon be needed could not be made */
	/* For tests, which want many small files, and everything in one thread.  0: the usual. */
	uint32_t log_file_bytes, log_buffer_bytes;	/* of the write-ahead log */
	bool no_thread;			/* background work is done by the write that makes it due */
};

/* TV_ECORRUPT with a sentence in errbuf when a checksum or the order is wrong. */
enum tv_err log_open(const struct log_options *opt, struct log_store **out, struct log_meta *meta, char *errbuf,
    size_t cap);
void log_close(struct log_store *s);
/* Every entry in order; payload borrowed during the call.  A non-zero return stops with it. */
enum tv_err log_each(struct log_store *s, uint64_t from, enum tv_err (*fn)(void *ctx, const struct raft_entry *e),
    void *ctx);

/*
 * Beside the state in its folder: the log must reach this index, as far as is known, or it was lost or replaced.  Not synced, so
 * it may be lower than what is true.  An error is as good as no mark.  Any thread.
 */
void state_mark_write(const char *dir, uint64_t index);
/* 0: there is none. */
uint64_t state_mark_read(const char *dir);

struct log_batch {			/* one synchronous transaction; more than 8 MiB of entries are several */
	bool hard_changed;
	uint64_t term;
	raft_id vote;
	uint64_t truncate_from;		/* 0: nothing; else entries >= it are removed first */
	const struct raft_entry *entries;
	uint32_t count;
	uint64_t generation;		/* 0: stays; else of the cluster that the entries belong to */
};
enum tv_err log_write(struct log_store *s, const struct log_batch *b);
/*
 * Entries first..last into the arena (payloads copied), stopping after bytes_max payload bytes but giving at least one.
 * *count is set.  TV_ENOENT: they are not all there.  Any number of threads, beside log_write() and log_compact(): none waits for the disk
 * from which another reads.
 */
enum tv_err log_read(struct log_store *s, uint64_t first, uint64_t last, size_t bytes_max, struct arena *a,
    struct raft_entry **out, uint32_t *count);
/*
 * Lowest index from which on the log takes at most bytes_max on disk.  Counted in whole files: the newest one is always
 * within.  Any thread that may wait for a look at the sizes of files.  0 without memory.
 */
uint64_t log_fits_from(struct log_store *s, uint64_t bytes_max);
/*
 * Removes entries <= index and remembers the snapshot position and configuration, in one transaction.  Files go once
 * nothing in them is needed.
 */
enum tv_err log_compact(struct log_store *s, uint64_t index, uint64_t snapshot_index, uint64_t snapshot_term,
    const struct raft_config *config);
/* After a snapshot from the leader: removes all entries, sets the snapshot position. */
enum tv_err log_reset(struct log_store *s, uint64_t snapshot_index, uint64_t snapshot_term,
    const struct raft_config *config);
enum tv_err log_set_cluster(struct log_store *s, const char *cluster_id, uint64_t generation);

#endif
