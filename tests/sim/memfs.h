/*
 * A file system in memory that can lose its power.
 *
 * The files of /mem/NAME/ live in a struct memfs that was mounted under that name; memfs_calls.c puts itself before the
 * C library's open, pwrite, fsync, rename and so on, for the code under test and for Berkeley DB alike, so both are the
 * real ones.  All other paths go to the kernel.  One thread only.
 *
 * What is known of each file: its content as programs see it, its content on the disk, and what was done to it since.
 * memfs_crash() makes another file system from that: all that was synced, and of the rest what chance wants.
 *
 * Assumed of the disk and the real file system:
 *   - A sector is written whole or not at all (4096 bytes, or 512: `sector`).  What lies beside the bytes written is as
 *     it was.  Writes since the last sync arrive in any order, each sector of each write by itself.
 *   - A file may have its new length and zeros where data did not arrive.  A truncation comes before the writes after it.
 *   - A sync that failed leaves each of its writes on the disk or not, and later ones do not try again, unless the page
 *     is written to again; programs still read what they wrote, until posix_fadvise(POSIX_FADV_DONTNEED) (as Linux
 *     does it).
 *   - Creating, renaming and removing: see enum memfs_names.
 */
#ifndef TV_TESTS_SIM_MEMFS_H
#define TV_TESTS_SIM_MEMFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/rng.h"

#define MEMFS_ROOT "/mem/"

/* When is a name (made, renamed, removed) durable? */
enum memfs_names {
	MEMFS_JOURNAL,		/* in the order of their making; any sync brings all that were before it (ext4, XFS) */
	MEMFS_OWN,		/* in any order; the sync of a file brings the names of that file (Btrfs, F2FS) */
	MEMFS_POSIX,		/* in any order; only the sync of their directory brings them */
	MEMFS_NAMES_COUNT,
};

struct memfs_rules {
	unsigned sector;		/* 512 or 4096 */
	enum memfs_names names;
};

enum memfs_call { MEMFS_CREATE, MEMFS_WRITE, MEMFS_TRUNCATE, MEMFS_SYNC, MEMFS_SYNC_DIR, MEMFS_RENAME, MEMFS_UNLINK,
    MEMFS_MKDIR, MEMFS_RMDIR, MEMFS_CALLS };

struct memfs;

/* Asked before each call that changes or syncs something.  name: last part of the path.  0, or the errno to fail with. */
typedef int memfs_fn(void *ctx, struct memfs *fs, enum memfs_call call, const char *name);

/* rng_seed decides what failing calls leave behind. */
struct memfs *memfs_new(const struct memfs_rules *rules, uint64_t rng_seed);
void memfs_free(struct memfs *fs);		/* unmounted before, and nothing of it open */
/* fn NULL: no more. */
void memfs_watch(struct memfs *fs, memfs_fn *fn, void *ctx);
/* The file system after a loss of power now; `keep` is the share of the unsynced that got to the disk.  fs goes on. */
struct memfs *memfs_crash(const struct memfs *fs, struct rng *rng, double keep);
/* The file system as a killed program leaves it: nothing is lost, and nothing more is on the disk than was. */
struct memfs *memfs_kill(const struct memfs *fs);
/* Flips one random bit of what is on the disk, in a file whose name begins with `prefix`.  False: there is none. */
bool memfs_rot(struct memfs *fs, struct rng *rng, const char *prefix);
uint64_t memfs_bytes(const struct memfs *fs);	/* of all files, as programs see them */
unsigned memfs_open_files(const struct memfs *fs);

/* At most 16 at a time. */
void memfs_mount(struct memfs *fs, const char *name);
void memfs_unmount(struct memfs *fs);

const char *memfs_call_name(enum memfs_call call);

#endif
