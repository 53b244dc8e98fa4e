/*
 * Who starts "rpcd: check", again and again, when rpcd itself has given its privileges up: a monitor
 * (common/proc/helper_monitor.h) that becomes the user _check.  "rpcd: dns" has one of its own, as the user _dns.
 */
#ifndef TV_RPCD_AGENT_CHECK_MONITOR_H
#define TV_RPCD_AGENT_CHECK_MONITOR_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"
#include "rpcd/check/role.h"

struct check_monitor_conf {
	const char *user;	/* when started as root; else it stays who it is */
	bool roles[CHECK_ROLES];	/* starts processes of these: decided here, for good */
	const char *docker_socket;	/* or empty; whose group its processes are in, if they are of that role alone */
	bool best_effort;	/* sandbox, as in cluster.conf */
	int log_level, log_dest;	/* enum log_level, enum log_dest */
	const char *program, *title;	/* NULL: rpcd-check, "rpcd: check" */
	/*
	 * Sockets that each process gets, behind the channel: those of UDP, then those of TCP, whose numbers are its
	 * first arguments.  Borrowed until the start.  None: the first argument is what the process runs.
	 */
	const int *sockets;
	unsigned udp_count, tcp_count;
};

/* With privileges, and before any key is read.  *fd: ours of the socketpair.  A sentence in errbuf. */
enum tv_err check_monitor_start(const struct check_monitor_conf *conf, int *fd, char *errbuf, size_t cap);
/* What it logs from now on; best effort. */
void check_monitor_log(int monitor, int level);
/*
 * A new process: *fd is its channel.  It may end at once, which closes the channel.  TV_ECLOSED: the monitor is gone;
 * TV_ESYS with errno.
 */
enum tv_err check_monitor_spawn(int monitor, enum check_role role, int *fd);

#endif
