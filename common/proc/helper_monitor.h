/*
 * The monitor of helper processes: starts them for a daemon, again and again, when the daemon itself has given its
 * privileges up.  It is a process of a few pages of code, forked before the drop, that becomes the user of the helpers
 * at once.  Over a socketpair it takes two orders: to start one program with a descriptor, and to kill a process that
 * it has started so.  It holds no key and reads nothing else; it ends with the daemon, and its processes with it.
 *
 * helper.h is what a daemon uses of a helper once the monitor is there.
 */
#ifndef TV_COMMON_PROC_HELPER_MONITOR_H
#define TV_COMMON_PROC_HELPER_MONITOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/err.h"
#include "common/base/mono.h"

#define HELPER_FD 3			/* in a process: its channel; its sockets follow */
#define HELPER_KINDS_MAX 4
#define HELPER_FIRST_MAX 2
#define HELPER_CHILDREN_MAX 16		/* at once, whatever the daemon asks for */

struct helper_monitor_conf {			/* borrowed until the start */
	const char *owner;		/* the daemon, as its log has it */
	const char *tag;		/* of lines in that log */
	const char *user;		/* when started as root; else it stays who it is */
	bool grouped;			/* when started as root: processes are in this group too */
	gid_t group;
	const char *program;		/* beside the daemon's own */
	const char *title;		/* in the list of processes */
	/* Decided here, for good: what may be started, its arguments before LEVEL DESTINATION required|best-effort. */
	struct {
		bool may;
		const char *first[HELPER_FIRST_MAX];	/* to the first NULL */
	} kinds[HELPER_KINDS_MAX];
	const char *last;		/* the argument behind them; NULL: none */
	bool best_effort;		/* sandbox, as in cluster.conf */
	int log_level, log_dest;	/* enum log_level, enum log_dest */
	unsigned life_s;		/* so old, or with the daemon, a process is killed; 0: never */
	const int *sockets;		/* that each process gets, behind the channel */
	unsigned socket_count;
};

/* With privileges, and before any key is read.  *fd: ours of the socketpair.  A sentence in errbuf. */
enum tv_err helper_monitor_start(const struct helper_monitor_conf *conf, int *fd, char *errbuf, size_t cap);
/* What it logs from now on; best effort. */
void helper_monitor_log(int monitor, int level);
/*
 * A new process of a kind: *fd is its channel, whose first frame is MSG_HELPER_STARTED.  It may end at once, which
 * closes the channel.  *number names it to the monitor.  TV_ECLOSED: the monitor is gone; TV_ESYS with errno.
 */
enum tv_err helper_monitor_spawn(int monitor, unsigned kind, uint32_t *number, int *fd);
/* The process is killed if it is still there after `grace`: one that stands still does not see its channel closed. */
void helper_monitor_end(int monitor, uint32_t number, struct mono grace);

#endif
