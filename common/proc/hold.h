/*
 * The hold on a daemon's own folder, data_dir/NAME: a lock file in it, so that no second process opens what is there,
 * and looks whether it is still what its path names.
 *
 * The lock is flock(2) on an open file: it lasts as long as the process, or a child that has the descriptor, and a
 * crash leaves none behind.  What the file says is for people; nothing is decided by it.
 */
#ifndef TV_COMMON_PROC_HOLD_H
#define TV_COMMON_PROC_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/proc/privdrop.h"

#define HOLD_LOCK_NAME "lock"

struct hold {
	char path[512];		/* the folder */
	char owner[1024];	/* what the lock file says of us */
	uid_t uid;		/* who owns the folder and the lock file */
	int dir, lock;		/* open descriptors; -1: none */
	dev_t dev;		/* of the folder */
	ino_t ino;
};

#define HOLD_NONE ((struct hold){ .dir = -1, .lock = -1 })

/*
 * Locks data_dir/name, which exists (privdrop_data_dir()), before anything in it is opened.  As root it acts as the
 * daemon's user meanwhile, so that no link in that user's folder can turn root against another file, and no capability
 * to override file modes is needed.  owner: one line without "pid", for the process that is refused later: "node n1 at
 * 10.0.0.1 (run_dir /run/triumvir)".
 *
 * TV_EAGAIN: another process has it; errbuf says "FOLDER: in use by pid N of node ..." with the remedy.  TV_EPERM,
 * TV_ESYS, TV_EINVAL (too long) with a sentence.
 */
enum tv_err hold_take(struct hold *h, const struct privdrop *plan, const char *data_dir, const char *name,
    const char *owner, char *errbuf, size_t cap);
enum hold_state {
	HOLD_KEPT,		/* all is well */
	HOLD_UNSURE,		/* it could not be looked at, or its lock file is gone and cannot be made again */
	HOLD_LOST,		/* removed, replaced, or locked by another process */
};

/*
 * Is the folder still at its path, and ours?  A lock file that was removed is made again while no other process has
 * taken it.  Not kept: one sentence in why.  What may pass, as a want of descriptors, memory or room, or a file system
 * that does not answer, is HOLD_UNSURE.  Asks for names that are open already, so it waits for no disk.
 */
enum hold_state hold_check(struct hold *h, char *why, size_t cap);
/* Lets go; the lock file stays. */
void hold_release(struct hold *h);

#endif
