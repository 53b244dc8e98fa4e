/*
 * Looks after the folders of a running daemon: once a second, are its data folder and its unix socket still where their
 * paths say?  They are removed or replaced by mistake sooner or later, and nothing else would tell: what is open goes
 * on working, and is gone at the end of the process.
 *
 * Inside the walls neither can be made again: a socket cannot be bound, and the folder above is root's.  So this says
 * what is wrong and what to do, at most once a minute, and takes it back when it is right again.
 */
#ifndef TV_COMMON_PROC_FOLDERS_H
#define TV_COMMON_PROC_FOLDERS_H

#include <ev.h>

#include "common/proc/hold.h"

struct folders;

struct folders_options {
	struct ev_loop *loop;
	struct hold *hold;		/* borrowed */
	const char *name;		/* of the daemon: log tag, and what to restart */
	const char *socket;		/* path of the bound unix socket; NULL: none.  Copied */
	bool beside;			/* the data folder is looked at in a thread: its disk may take long */
	const char *const *keeps;	/* below the data folder: once there they stay, but for moments.  Up to NULL */
	const char *without;		/* what follows from the loss of the data folder, for the sentence */
	/* The data folder is lost; said already.  Once.  May be NULL. */
	void (*lost)(void *ctx);
	void *ctx;
};

/* NULL without memory. */
struct folders *folders_new(const struct folders_options *opt);
void folders_free(struct folders *f);
/* "ok", or a sentence: for info. */
const char *folders_status(const struct folders *f);

#endif
