/*
 * Who starts "rpcd: check", again and again, when rpcd itself has given its privileges up: a process of a page of code,
 * forked before the drop, that becomes the user _check at once.  It does what it is told over a socketpair, which is
 * one thing: take a descriptor, and start rpcd-check with it.  It holds no key and reads nothing else; it ends with
 * rpcd.
 */
#ifndef TV_RPCD_AGENT_CHECK_MONITOR_H
#define TV_RPCD_AGENT_CHECK_MONITOR_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"

struct check_monitor_conf {
	const char *user;	/* when started as root; else it stays who it is */
	bool scripts;		/* starts those that run scripts, too: decided here, for good */
	bool best_effort;	/* sandbox, as in cluster.conf */
	int log_level, log_dest;	/* enum log_level, enum log_dest */
};

/* With privileges, and before any key is read.  *fd: ours of the socketpair.  A sentence in errbuf. */
enum tv_err check_monitor_start(const struct check_monitor_conf *conf, int *fd, char *errbuf, size_t cap);
/*
 * A new process: *fd is its channel.  It may end at once, which closes the channel.  TV_ECLOSED: the monitor is gone;
 * TV_ESYS with errno.
 */
enum tv_err check_monitor_spawn(int monitor, bool scripts, int *fd);

#endif
