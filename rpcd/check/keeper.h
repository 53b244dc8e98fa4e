/*
 * The keeper of a script: a process of its own for each run, which the script and all that it starts are below, also
 * what leaves its process group or is left behind.  When the script has ended, at the timeout, and when the checker is
 * gone, it kills what is left of them, and ends when there is nothing.
 */
#ifndef TV_RPCD_CHECK_KEEPER_H
#define TV_RPCD_CHECK_KEEPER_H

#include <sys/types.h>

#include "common/base/mono.h"
#include "common/record/schema.h"

enum keeper_end {
	KEEPER_EXITED,		/* value: the status */
	KEEPER_KILLED,		/* value: the signal */
	KEEPER_TIMED_OUT,
	KEEPER_NOT_STARTED,	/* value: errno */
};

struct keeper_report {		/* what it writes, once, when the script is over */
	int end, value;
};

struct keeper {
	pid_t pid;
	int output;		/* of the script, both streams; not blocking */
	int report;		/* struct keeper_report; its end: all of it is gone */
};

/* Starts it.  life: read end of a pipe whose other end is with the caller alone.  False with errno. */
bool keeper_start(const struct span_list *args, struct mono timeout, int life, struct keeper *out);

#endif
