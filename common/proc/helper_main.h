/*
 * What a helper program does first and what it does on its channel: the other end of helper.h.  A program with a libev
 * loop uses helper_main_serve(); one that does a single task without a loop reads it by helper_main_read(), and calls
 * helper_main_pulse() about each second while it works, so that the daemon sees that it goes on.
 *
 * The channel is HELPER_FD.  It ends the program: with the daemon, and when the daemon wants the program no more.
 */
#ifndef TV_COMMON_PROC_HELPER_MAIN_H
#define TV_COMMON_PROC_HELPER_MAIN_H

#include <ev.h>
#include <stdbool.h>

#include "common/net/chan.h"

struct helper_program {
	const char *owner;		/* the daemon, as the log has it, and its manual page */
	const char *program;		/* "rpcd-check" */
	const char *title;		/* in the list of processes: "rpcd: check" */
	unsigned first;			/* arguments of its own, before those of every helper */
	bool last;			/* one of its own behind them */
};

struct helper_args {			/* as helper_monitor.c passes them; borrows argv */
	char **first;			/* of struct helper_program.first */
	int log_level, log_dest;	/* enum log_level, enum log_dest */
	bool best_effort;		/* sandbox, as in cluster.conf */
	const char *last;		/* NULL: the program has none */
};

/* Opens the log, and sets what every helper needs.  False: it was not started by its daemon, which was said. */
bool helper_main_begin(const struct helper_program *program, int argc, char **argv, struct helper_args *args);

/*
 * The channel on a loop; heartbeats are answered, and its end ends the process.  Frames go to on_frame, as in struct
 * chan_events.  NULL: no memory.
 */
struct chan *helper_main_serve(struct ev_loop *loop, size_t body_max, size_t out_max,
    enum tv_err (*on_frame)(void *ctx, struct chan *c, const struct frame *f), void *ctx);

/*
 * Ends the process on purpose, with a loop: it cannot go on behind its walls, and another one can.  The daemon starts
 * that at once, and counts no death.
 */
_Noreturn void helper_main_renew(void);

struct helper_task {			/* all zero at first */
	struct buf in;			/* with the question, which is borrowed from it */
	struct buf later;		/* what came behind it */
};
/* Waits for the first frame that is no heartbeat; its body may have body_max bytes.  TV_EOF: there is none to come. */
enum tv_err helper_main_read(struct helper_task *t, size_t body_max, struct frame *f);
/* Answers heartbeats that wait; never waits.  Ends the process when the daemon has closed the channel. */
void helper_main_pulse(struct helper_task *t);
/* Writes all of it.  TV_ESYS with errno. */
enum tv_err helper_main_write(struct span out);
void helper_task_done(struct helper_task *t);

#endif
