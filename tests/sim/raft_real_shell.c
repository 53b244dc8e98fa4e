/*
 * What raftd/snapshot/snapshot_recv.c calls of the daemon around it, without threads and loop: work is done at once, and the log
 * thread's jobs go to the log store.  struct engine, logthread and statethread are the server's struct real_node here.
 */
#include <stdio.h>
#include <unistd.h>

#include "raftd/disk/space.h"
#include "raftd/disk/threshold.h"
#include "raftd/disk/unlink_async.h"
#include "common/proc/daemon.h"
#include "common/proc/jobs.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/statethread.h"
#include "tests/sim/raft_real.h"

struct logthread *
engine_log(struct engine *e)
{
	return (struct logthread *)e;
}

bool
engine_keeps_log(struct engine *e, uint64_t index, uint64_t term)
{
	return raft_keeps_log(((struct real_node *)e)->n->core, index, term);
}

void
engine_snapshot_installed(struct engine *e, const struct raft_msg *m)
{
	struct real_node *r = (struct real_node *)e;

	(void)m;
	r->installed = true;
}

/* An offset below the end means: not installed. */
void
engine_snapshot_stored(struct engine *e, const struct raft_msg *m, uint64_t offset)
{
	(void)e;
	(void)m;
	(void)offset;
}

enum tv_err
logthread_reset(struct logthread *t, uint64_t snapshot_index, uint64_t snapshot_term, const struct raft_config *config,
    logthread_job_done *done, void *ctx)
{
	struct real_node *r = (struct real_node *)t;
	enum tv_err err = log_reset(r->d.log, snapshot_index, snapshot_term, config);

	done(ctx, err);
	return TV_OK;
}

enum tv_err
jobs_add_only(struct jobs *j, void (*work)(void *ctx), void (*done)(void *ctx), void *ctx)
{
	struct real_node *r = (struct real_node *)(void *)((char *)j - offsetof(struct real_node, worker));

	/* What comes from within done() has no hurry: others may be quicker, and it waits for long. */
	if (j->running && r->later++ % 2 == 0)
		return TV_EAGAIN;
	work(ctx);
	j->running = true;
	done(ctx);
	j->running = false;
	return TV_OK;
}

enum tv_err
jobs_add(struct jobs *j, void (*work)(void *ctx), void (*done)(void *ctx), void *ctx)
{
	(void)j;
	work(ctx);
	if (done != NULL)
		done(ctx);
	return TV_OK;
}

/* The server's struct real_node here, too. */
enum tv_err
statethread_between(struct statethread *s, void (*work)(struct fsm *f, void *ctx), void (*done)(void *ctx), void *ctx)
{
	work(((struct real_node *)(void *)s)->d.fsm, ctx);
	done(ctx);
	return TV_OK;
}

void
daemon_quit(int status)
{
	(void)status;			/* the snapshot is not installed then, which is noticed */
}

/* In the daemon a thread does it, which has no order here; the model's disk is as it was after the name went. */
void
unlink_async(int fd, const char *path)
{
	if (fd >= 0)
		(void)close(fd);
	(void)unlink(path);
}

bool
space_fits(const struct space *s, uint64_t bytes)
{
	(void)s;
	(void)bytes;
	return true;
}

bool
space_full(const struct space *s)
{
	(void)s;
	return false;
}

void
space_want(struct space *s, uint64_t bytes)
{
	(void)s;
	(void)bytes;
}

const char *
threshold_bytes(uint64_t bytes, char dst[24])
{
	snprintf(dst, 24, "%llu", (unsigned long long)bytes);
	return dst;
}
