/*
 * The process "rpcd: check" as the registry sees it: checks are given to it and taken back, results come.  It is there
 * only while it has something to run.  When it dies it is started again, after a pause that grows; states stay as they
 * are meanwhile, and what was running is given to the new one.
 */
#ifndef TV_RPCD_AGENT_CHECK_PROCESS_H
#define TV_RPCD_AGENT_CHECK_PROCESS_H

#include <ev.h>

#include "common/record/messages.h"
#include "rpcd/check/role.h"

struct check_process;
struct check_task;		/* one check that runs */

struct check_process_conf {
	struct ev_loop *loop;
	int monitor;			/* of check_monitor_start() */
	enum check_role role;
	uint64_t runs_max;
	bool follow_redirects;
	int log_level;			/* enum log_level */
	/* Fills in what a task is to do but for its handle; spans are good until the next turn.  False: no memory. */
	bool (*describe)(void *task_ctx, struct msg_check_put *put);
	void (*result)(void *task_ctx, struct span status, struct span output);
	void (*lost)(void *ctx);	/* no process can be started any more: the monitor is gone */
	void *ctx;
};

struct check_process_stats {
	uint64_t tasks, starts, deaths;
	bool running;
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
/* From now on. */
void check_process_log(struct check_process *p, int level);
void check_process_stats(const struct check_process *p, struct check_process_stats *out);

#endif
