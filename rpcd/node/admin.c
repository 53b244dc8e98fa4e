/* Administration of this node, see admin.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/record/mpack.h"
#include "rpcd/node/admin.h"

#define NAMES_TIME MONO_S(15)		/* of a join, to look up what is named */
#define ADMIN_TASKS_MAX 256
#define QUESTION_BYTES_MAX 4096
#define INFO_BYTES_MAX (4u << 20)
#define INFO_WAIT MONO_S(5)		/* from memory: a daemon that takes longer is stopped, and that is shown */

struct task {
	struct admin *a;
	LIST_ENTRY(task) link;
	admin_done *done;		/* the caller's: one of these three */
	admin_value_done *value_done;
	admin_info_done *info_done;
	void *ctx;
	const char *asked;		/* the daemon that is to answer */
	bool then_gossip;		/* leave: Raft first, then gossip */
	struct info_part {
		struct task *t;
		struct daemon_client *daemon;
	} parts[2];			/* info: the daemons that are asked */
	unsigned waiting;		/* info: answers to come */
	uint32_t sections;
	struct buf out;			/* info: sections so far */
	ev_timer soon;			/* info: no daemon is there, but done comes from the loop all the same */
};

struct admin {
	struct admin_conf conf;
	struct daemon_client *gossip, *raft;	/* raft: NULL on a client node */
	LIST_HEAD(, task) tasks;
	unsigned count;
	bool closing;			/* admin_free() was called; the last task to end frees us */
};

/* A copy of what, whose rest is zero. */
static struct task *
task_new(struct admin *a, const struct task *what)
{
	struct task *t = a->count >= ADMIN_TASKS_MAX ? NULL : malloc(sizeof(*t));

	if (t == NULL)
		return NULL;
	*t = *what;
	t->a = a;
	LIST_INSERT_HEAD(&a->tasks, t, link);
	a->count++;
	buf_init(&t->out, INFO_BYTES_MAX);
	return t;
}

static void
task_free(struct task *t)
{
	LIST_REMOVE(t, link);
	t->a->count--;
	if (t->a->closing && t->a->count == 0)
		free(t->a);
	buf_done(&t->out);
	free(t);
}

/* -- asking --------------------------------------------------------------- */

static void answered(void *ctx, enum tv_err err, struct span body);

/* rec: NULL: there is nothing to say. */
static enum tv_err
ask_daemon(struct task *t, struct daemon_client *daemon, uint16_t type, const struct schema *s, const void *rec,
    struct mono timeout)
{
	struct buf b = BUF_INIT(QUESTION_BYTES_MAX);
	enum tv_err err = TV_ENOMEM;

	b.secret = true;		/* there may be a token in it */
	if (rec != NULL)
		schema_pack(s, rec, &b);
	else
		buf_putspan(&b, MSG_EMPTY);
	t->asked = daemon->daemon;
	if (!b.failed && daemon_client_call(daemon, type, buf_span(&b), timeout, answered, t, &err) != 0)
		err = TV_OK;
	buf_done(&b);
	return err;
}

/* The same for a new task.  With an error the daemon was not asked, and done will not be called. */
static enum tv_err
start_task(struct admin *a, const struct task *what, struct daemon_client *daemon, uint16_t type,
    const struct schema *s, const void *rec, struct mono timeout)
{
	struct task *t = task_new(a, what);
	enum tv_err err = t == NULL ? TV_ELIMIT : ask_daemon(t, daemon, type, s, rec, timeout);

	if (t != NULL && err != TV_OK)
		task_free(t);
	return err;
}

enum tv_err
admin_join(struct admin *a, enum gossip_pool pool, struct span addr, admin_done *done, void *ctx)
{
	return start_task(a, &(struct task){ .done = done, .ctx = ctx }, a->gossip, MSG_GOSSIP_JOIN, &msg_join_schema,
	    &(struct msg_join){ pool, { &addr, 1, true } }, mono_add(a->conf.call_timeout, NAMES_TIME));
}

enum tv_err
admin_force_leave(struct admin *a, struct span node, bool prune, admin_done *done, void *ctx)
{
	return start_task(a, &(struct task){ .done = done, .ctx = ctx }, a->gossip, MSG_GOSSIP_FORCE_LEAVE,
	    &msg_force_leave_schema, &(struct msg_force_leave){ node, prune }, a->conf.call_timeout);
}

enum tv_err
admin_leave(struct admin *a, bool force, struct span token, admin_done *done, void *ctx)
{
	struct task what = { .done = done, .ctx = ctx, .then_gossip = a->raft != NULL };

	if (a->count < ADMIN_TASKS_MAX)
		log_info("triumvir", "%s starting leave", a->raft != NULL ? "server" : "client");
	if (a->raft == NULL)
		return start_task(a, &what, a->gossip, MSG_GOSSIP_LEAVE, NULL, NULL, a->conf.leave_timeout);
	return start_task(a, &what, a->raft, MSG_RAFT_LEAVE, &msg_raft_leave_schema,
	    &(struct msg_raft_leave){ force, token }, a->conf.leave_timeout);
}

enum tv_err
admin_coords(struct admin *a, enum gossip_pool pool, struct span node, admin_value_done *done, void *ctx)
{
	return start_task(a, &(struct task){ .value_done = done, .ctx = ctx }, a->gossip, MSG_GOSSIP_COORDS,
	    &msg_coords_schema, &(struct msg_coords){ pool, { &node, node.len > 0, true } }, a->conf.call_timeout);
}

enum tv_err
admin_recover(struct admin *a, bool dry_run, struct span token, admin_value_done *done, void *ctx)
{
	if (a->raft == NULL)
		return TV_EINVAL;
	return start_task(a, &(struct task){ .value_done = done, .ctx = ctx }, a->raft, MSG_RAFT_RECOVER,
	    &msg_raft_recover_schema, &(struct msg_raft_recover){ dry_run, token }, a->conf.leave_timeout);
}

/* -- answers -------------------------------------------------------------- */

static void
task_end(struct task *t, enum tv_err err, struct span text, struct span value)
{
	admin_done *done = t->done;
	admin_value_done *value_done = t->value_done;
	void *ctx = t->ctx;
	struct rd r = rd_span_over(value);
	uint32_t count = done != NULL && value.len > 0 ? (uint32_t)mpr_uint(&r, UINT32_MAX) : 0;

	task_free(t);
	if (value_done != NULL)
		value_done(ctx, err, text, value);
	else if (done != NULL)
		done(ctx, r.err != TV_OK ? TV_EFORMAT : err, text, count);
}

static void
answered(void *ctx, enum tv_err err, struct span body)
{
	struct task *t = ctx;
	struct msg_answer a = { .text = SPAN_NONE };
	char why[64];

	if (err == TV_OK) {
		err = msg_answer_read(body, &a, NULL, NULL, NULL) == TV_OK ? a.err : TV_EFORMAT;
	} else {
		snprintf(why, sizeof(why), "%s %s", t->asked,
		    err == TV_ETIMEOUT ? "did not answer in time" : "went away");
		a.text = span_str(why);
	}
	if (err == TV_OK && t->then_gossip) {
		t->then_gossip = false;
		err = ask_daemon(t, t->a->gossip, MSG_GOSSIP_LEAVE, NULL, NULL, t->a->conf.leave_timeout);
		if (err == TV_OK)
			return;
		a.text = span_str("left the Raft configuration, but gossipd is not running: start it and leave again");
	}
	task_end(t, err, a.text, a.value);
}

/* -- info ----------------------------------------------------------------- */

/* All sections into one map. */
static void
info_merge(struct task *t, struct buf *all)
{
	struct buf own = BUF_INIT(INFO_BYTES_MAX);
	unsigned pairs = t->a->conf.own_info(t->a->conf.ctx, &own);

	mpw_map(all, t->sections + 1);
	buf_putspan(all, buf_span(&t->out));
	mpw_cstr(all, "rpcd");
	mpw_map(all, pairs);
	buf_putspan(all, buf_span(&own));
	all->failed |= own.failed;
	buf_done(&own);
}

static void
info_finish(struct task *t)
{
	admin_info_done *done = t->info_done;
	void *ctx = t->ctx;
	struct buf all = BUF_INIT(INFO_BYTES_MAX);

	if (done != NULL)
		info_merge(t, &all);
	task_free(t);
	if (done != NULL)
		done(ctx, all.failed ? SPAN_NONE : buf_span(&all));
	buf_done(&all);
}

static void
info_take(struct task *t, enum tv_err err, struct span body)
{
	struct rd r = rd_span_over(body);
	uint32_t n = err == TV_OK ? mpr_map(&r) : 0;
	size_t before = t->out.len;

	/* Keys and values are copied as they stand; a malformed answer is left out whole. */
	buf_putspan(&t->out, err == TV_OK && r.err == TV_OK ? span_of(r.p, rd_left(&r)) : SPAN_NONE);
	for (uint32_t i = 0; i < 2 * n; i++)
		mpr_skip(&r);
	if (rd_end(&r) == TV_OK)
		t->sections += n;
	else
		t->out.len = before;
	if (--t->waiting == 0)
		info_finish(t);
}

static void
info_answered(void *ctx, enum tv_err err, struct span body)
{
	struct info_part *part = ctx;

	if (err == TV_ETIMEOUT)
		part->daemon->mute = true;
	info_take(part->t, err, body);
}

static void
info_soon(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	info_finish(w->data);
}

enum tv_err
admin_info(struct admin *a, admin_info_done *done, void *ctx)
{
	struct span body = MSG_EMPTY;
	struct mono wait = mono_min(a->conf.call_timeout, INFO_WAIT);
	struct task *t = task_new(a, &(struct task){ .info_done = done, .ctx = ctx });
	enum tv_err err;

	if (t == NULL)
		return TV_ELIMIT;
	for (int i = 0; i < 2; i++) {
		struct info_part *part = &t->parts[i];

		*part = (struct info_part){ t, i == 0 ? a->gossip : a->raft };
		if (part->daemon != NULL &&
		    daemon_client_call(part->daemon, MSG_INFO, body, wait, info_answered, part, &err) != 0)
			t->waiting++;
	}
	if (t->waiting == 0) {
		ev_timer_init(&t->soon, info_soon, 0., 0.);
		t->soon.data = t;
		ev_timer_start(a->conf.loop, &t->soon);
	}
	return TV_OK;
}

struct admin *
admin_new(const struct admin_conf *conf)
{
	struct admin *a = calloc(1, sizeof(*a));

	if (a == NULL)
		return NULL;
	a->conf = *conf;
	a->gossip = members_daemon(conf->members);
	a->raft = conf->raft == NULL ? NULL : raftd_client_daemon(conf->raft);
	return a;
}

void
admin_free(struct admin *a)
{
	struct task *t, *next;

	if (a == NULL)
		return;
	if (a->count == 0) {
		free(a);
		return;
	}
	/* Questions under way end when their channels close; no caller is told any more. */
	a->closing = true;
	for (t = LIST_FIRST(&a->tasks); t != NULL; t = next) {
		next = LIST_NEXT(t, link);
		t->done = NULL;
		t->value_done = NULL;
		t->info_done = NULL;
		t->then_gossip = false;
		if (ev_is_active(&t->soon)) {
			ev_timer_stop(a->conf.loop, &t->soon);
			task_free(t);
		}
	}
}
