/*
 * The process "rpcd: check" as the registry sees it: checks are given to it and taken back, results come.  It is there
 * only while it has something to run.  When it dies or stands still it is started again (common/proc/helper.h); states
 * stay as they are meanwhile, and what was running is given to the new one.
 */
#ifndef TV_RPCD_CHECKS_CHECK_PROCESS_H
#define TV_RPCD_CHECKS_CHECK_PROCESS_H

#include <ev.h>

#include "common/net/tls_client.h"
#include "common/proc/helper.h"
#include "common/record/messages.h"
#include "rpcd/check/role.h"

struct check_process;
struct check_task;		/* one check that runs */

/* Who starts the processes: a monitor (common/proc/helper_monitor.h) that becomes the user _check. */
struct check_monitor_conf {
	bool roles[CHECK_ROLES];	/* starts processes of these: decided here, for good */
	struct tls_client_conf tls;	/* of the role that opens connections */
	const char *docker_socket;	/* or empty; whose group its processes are in, if they are of that role alone */
	bool best_effort;		/* sandbox, as in cluster.conf */
	int log_level, log_dest;	/* enum log_level, enum log_dest */
};
/*
 * With privileges, and before any key is read.  *fd: ours of the socketpair.  A sentence in errbuf, also when the user
 * _check cannot read the files of TLS, or others can read the key; we read nothing of them.
 */
enum tv_err check_monitor_start(const struct check_monitor_conf *conf, int *fd, char *errbuf, size_t cap);

struct check_process_conf {
	struct ev_loop *loop;
	int monitor;			/* of check_monitor_start() */
	enum check_role role;
	uint64_t runs_max;
	bool follow_redirects;
	int log_level;			/* enum log_level */
	struct tls_client_conf tls;	/* of the role that opens connections; borrowed */
	/* Fills in what a task is to do but for its handle; spans are good until the next turn.  False: no memory. */
	bool (*describe)(void *task_ctx, struct msg_check_put *put);
	void (*result)(void *task_ctx, struct span status, struct span output);
	void (*lost)(void *ctx);	/* no process can be started any more: the monitor is gone, or stands still */
	void *ctx;
};

struct check_process_stats {
	uint64_t tasks;
	struct helper_stats life;
	char state[HELPER_STATE_BYTES];	/* helper_state() */
	struct msg_check_stats runs;	/* since the start of the process that runs */
};

/* NULL: no memory. */
struct check_process *check_process_new(const struct check_process_conf *conf);
void check_process_free(struct check_process *p);
/* From now on it runs; describe() is asked now or later.  NULL: no memory. */
struct check_task *check_process_add(struct check_process *p, void *task_ctx);
/* It is to run as describe() says now. */
void check_process_changed(struct check_task *t);
/* No result comes any more. */
void check_process_remove(struct check_task *t);
/*
 * What it and its monitor log from now on (enum log_level), and the files of TLS, borrowed: where there are others it
 * starts anew.  Ends a pause before it is started again.
 */
void check_process_reload(struct check_process *p, int level, const struct tls_client_conf *tls);
void check_process_stats(const struct check_process *p, struct check_process_stats *out);

#endif
