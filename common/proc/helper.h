/*
 * The life of a helper process, as the daemon sees it: a monitor (helper_monitor.h) starts it, it serves over a channel
 * and answers a heartbeat there, and it is started again when it ends, after a pause that grows.
 *
 * The heartbeat asks whether the helper's loop turns (or, without a loop, whether its work goes on: helper_main.h): a
 * question after 3 s without a byte from it, and 7 s without one end it.  Whatever the helper sends or takes counts, so
 * that a busy one is never asked; work that may hold up its loop for seconds belongs into a thread or another process.
 * Time counts only while the daemon itself looks each second: after a stop of the daemon, or of the machine, it begins
 * anew.  A helper that is silent for that long is killed by the monitor, since it cannot be asked to end.
 */
#ifndef TV_COMMON_PROC_HELPER_H
#define TV_COMMON_PROC_HELPER_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/net/chan.h"

#define HELPER_STATE_BYTES 160		/* of helper_state() */
#define HELPER_STEADY MONO_S(60)	/* a process that has lived for so long resets the pause */

#define HELPER_RETIRE MONO_S(1)	/* no process serves meanwhile */

struct helper;

enum helper_end {
	HELPER_DIED,			/* it closed its channel, or sent what is no frame of it */
	HELPER_STUCK,			/* it did not answer, and was killed */
	HELPER_NOT_STARTED,		/* the monitor did not answer: no process came */
	HELPER_REPLACED,		/* on purpose, by helper_replace() or its own helper_main_renew() */
	HELPER_IDLE,			/* by helper_want() */
};

struct helper_conf {
	struct ev_loop *loop;
	int monitor;			/* of helper_monitor_start(); helpers may share one */
	unsigned kind;			/* of process, as that monitor knows it */
	const char *name;		/* for log and info: "rpcd: dns"; not copied */
	const char *tag;		/* of lines in the log; not copied */
	const char *meanwhile;		/* "; states stay as they are", when the log says that it ended; NULL: "" */
	size_t body_max, out_max;	/* of the channel, bytes: see struct chan_conf */
	double restart_min_s, restart_max_s;	/* pause before a new one: doubles from min to max */
	double idle_s;			/* stays for so long after helper_want(h, false) */
	bool once;			/* is not started again: helper_start() starts another one */
	/* Sends what a new process gets first.  c is helper_chan(), or that of the next one after helper_replace(). */
	void (*setup)(void *ctx, struct chan *c);
	/*
	 * Both or none: with them a question that a process has taken is answered when another one takes over.
	 * serve: c's process serves from now on; before that it has only read its setup.  retire: it is to take no
	 * more work, to end what is under way and then to close its channel, which is done for it after
	 * HELPER_RETIRE; the next one serves then.
	 */
	void (*serve)(void *ctx, struct chan *c);
	void (*retire)(void *ctx, struct chan *c);
	/* A frame of the process that serves; nothing in it is to be trusted.  An error ends the process. */
	enum tv_err (*frame)(void *ctx, const struct frame *f);
	/*
	 * The process that served serves no more: what it knew is lost, and nothing waits for the answers to what it
	 * asked.  Called last: it may free the helper.  Not called by helper_free().
	 */
	void (*ended)(void *ctx, enum helper_end why);
	/* No process can be started any more: the monitor is gone, or stands still.  May be NULL with `once`. */
	void (*lost)(void *ctx);
	void *ctx;
};

/* Starts nothing yet.  NULL: no memory. */
struct helper *helper_new(const struct helper_conf *conf);
/* Ends its processes.  Within a callback of its own too.  NULL: nothing. */
void helper_free(struct helper *h);
/*
 * A process is wanted: it is started in the next turn of the loop, unless one runs or is waited for; or none is wanted
 * any more: it ends after idle_s, unless it is wanted again.
 */
void helper_want(struct helper *h, bool wanted);
/* Starts a process now, for `once`.  TV_ECLOSED: the monitor is gone; TV_ESYS with errno; TV_ENOMEM. */
enum tv_err helper_start(struct helper *h);
/*
 * Another process takes over, with a new setup: it is started beside the one that serves, which ends (or retires, with
 * `retire`) when the new one has read its setup.  No death, no pause.  Without a process that serves: as
 * helper_hurry().
 */
void helper_replace(struct helper *h);
/*
 * The setup became another one that a process takes in place: it is sent to the newest process, which is the one that
 * is to take over, if there is one.  Returns whether the one that serves got it.
 */
bool helper_setup(struct helper *h);
/* Ends a pause: the reason why the process ended may be gone, as after a reload. */
void helper_hurry(struct helper *h);
/* The channel of the process that serves; NULL: there is none. */
struct chan *helper_chan(const struct helper *h);

struct helper_stats {
	uint64_t starts;		/* processes */
	uint64_t deaths;		/* that ended by themselves, or did not answer */
	uint64_t stuck;			/* of deaths: those that did not answer, and were killed */
	uint64_t replaced;		/* on purpose */
	bool running;
};
void helper_stats(const struct helper *h, struct helper_stats *out);
/*
 * How it is, for `info` and `status`: "idle", "running", or what is wrong: it does not answer, waits to be started
 * again, or was started again less than HELPER_STEADY ago.  Returns dst, of HELPER_STATE_BYTES.
 */
const char *helper_state(const struct helper *h, char *dst);

#endif
