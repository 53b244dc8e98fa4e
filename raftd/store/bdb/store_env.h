/*
 * One Berkeley DB environment as both stores use it: private to the process (so a kill leaves no shared
 * region behind), with transactions and a write-ahead log, recovered at each open.
 *
 * Each store has one writer.  Where readers are to go on beside it (`readers`) Berkeley DB locks pages; elsewhere there is no
 * lock subsystem, which saves its work on every page, and makes deadlocks impossible.
 */
#ifndef TV_RAFTD_STORE_BDB_STORE_ENV_H
#define TV_RAFTD_STORE_BDB_STORE_ENV_H

#include <stdbool.h>
#include <stdint.h>

#include <db.h>

#include "common/base/err.h"

#define STORE_PAGE_BYTES 4096		/* the file system's block: a page cannot be torn */
#define STORE_FRESH_NAME "fresh.tmp"	/* a data base that is being made */

struct store_env_options {
	const char *dir;		/* created 0700 if absent; its parent must exist */
	uint64_t cache_bytes;		/* 0: the default of 4 MiB; at least 256 KiB */
	uint32_t log_file_bytes;	/* size of one write-ahead log file */
	uint32_t log_buffer_bytes;	/* must hold a usual transaction */
	bool log_only;			/* no pages, no transactions: only the write-ahead log itself */
	/*
	 * Transactions that only read may run beside the one that writes, with DB_TXN_NOWAIT: a thread that waits for a lock must hold none.
	 * Berkeley DB's choice of a victim cannot be trusted with that: where two readers wait for the writer, and it for
	 * them, it takes the writer, whatever the priorities are, since no single reader would do.
	 */
	bool readers;
	const char *behind;		/* the btree whose pages may be written behind (store_behind.h); NULL: none */
};

struct store_env {
	DB_ENV *dbenv;
	struct store_behind *behind;	/* does nothing before store_behind_begin(); NULL: not asked for */
	char *dir;			/* owned */
	char message[256];		/* first diagnostic of Berkeley DB, for error sentences */
	_Atomic bool told;		/* message is taken: any thread may be the first */
	_Atomic bool damaged;		/* a page or log checksum failed */
	_Atomic int sys;		/* errno that a diagnostic named: a panic hides it; 0: none */
	int code;			/* Berkeley DB's, of the opening that failed */
	_Atomic uint32_t allocated;	/* number of the write-ahead log file that has its blocks; 0: none */
};

/*
 * Opens (or creates) and recovers.  TV_ECORRUPT, TV_ESYS or TV_ENOMEM leave nothing open and a sentence in
 * errbuf.  env must not move in memory afterwards.
 */
enum tv_err store_env_open(struct store_env *env, const struct store_env_options *opt, char *errbuf, size_t cap);
/* Closes, without a checkpoint; a closed or never opened env is left alone. */
void store_env_close(struct store_env *env);
/*
 * Opens a btree in `file`, creating it with `create`.  It sees bytewise key order, page checksums and small pages.
 * The file is durable with its name before any record of a transaction is about it.  Returns Berkeley DB's code.
 */
int store_env_db(struct store_env *env, const char *file, bool create, DB **out);
/*
 * The same file once more, for deleting much in one transaction: pages that become empty stay where they are, so that it keeps
 * locks of leaves only, and readers of all else pass.  Compacting gives them back.
 */
int store_env_db_sparse(struct store_env *env, const char *file, DB **out);
/* Does this code, of opening an environment or a file, say that files are damaged, and not that the system failed? */
bool store_env_is_damage(const struct store_env *env, int ret);
/* Turns a code of Berkeley DB into ours: damage is TV_ECORRUPT, all else TV_ESYS (errno set). 0 is TV_OK. */
enum tv_err store_env_err(const struct store_env *env, int ret);
/* The disk had no room, and that was no harm: what Berkeley DB said of it explains nothing that comes later. */
void store_env_forget_room(struct store_env *env);
/*
 * Gives the write-ahead log file in use its blocks, unless that was done: writing to it then needs no space, nor does
 * recovery, which fills it up with zeros.  Where that is not possible nothing happens.
 */
void store_env_allocate(struct store_env *env);
/* Bytes that the write-ahead log files in `dir` have no blocks for yet. */
uint64_t store_dir_holes(const char *dir);

/* -- store_hooks.c -- */
/* Berkeley DB's open(): a file that it makes, such as the next one of the write-ahead log, is durable with its name. */
int store_open(const char *path, int flags, ...);
int store_close(int fd);
/*
 * Berkeley DB's fsync(), which gives the errno: its own tries again after EIO, and a sync that succeeds after one that
 * failed says nothing about the pages that the first one lost (S84).  So it never says ENOSPC, which callers may take
 * for a write that can be done again.
 */
int store_sync(int fd);

/* -- store_files.c -- */
/*
 * Before recovery: what is read is on the disk.  A program that was killed leaves pages that were never synced; one whose
 * sync failed leaves pages that the system takes for written.  Recovery would build on both, and a loss of power would
 * take them from under it.  So every file of the directory is synced, and read from the disk again.
 */
enum tv_err store_dir_settle(const char *dir);
/*
 * Makes an empty btree, durable under its name, unless there is one.  Not by a transaction: recovery would make the
 * file again, without a sync, and could not go on from what a second crash leaves of that.  Berkeley DB's code.
 */
int store_file_make(const char *dir, const char *file);
/*
 * False: from here on store_open() fails in this thread.  For closing an environment whose directory is another one's by
 * now: what Berkeley DB does by name then (it syncs each file once more) would hit the other's files.
 */
void store_names(bool usable);
/*
 * Does this thread open an environment?  Then each write-ahead file that Berkeley DB removes is gone for good before it goes on,
 * and pages may be missing that it is about to make again; at all other times a page of the btree that is empty is damage.
 */
void store_recovery(bool on);
/* Sets what all our btrees have in common, before the open. */
int store_db_form(DB *db);

#endif
