/* Administration of this node, see admin.h. */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mpack.h"
#include "common/msg.h"
#include "rpcd/admin.h"

#define ADMIN_TASKS_MAX 256
#define INFO_BYTES_MAX (4u << 20)

struct task {
	struct admin *a;
	struct task *next;
	admin_done *done;
	admin_info_done *info_done;
	admin_coords_done *coords_done;
	admin_recover_done *recover_done;
	void *ctx;
	bool has_count;			/* the answer ends with the number of nodes contacted */
	bool then_gossip;		/* leave: Raft first, then gossip */
	unsigned waiting;		/* info: answers to come */
	uint32_t sections;
	struct buf out;			/* info: sections so far */
	ev_timer soon;			/* info: nobody to ask, but done comes from the loop all the same */
};

struct admin {
	struct admin_conf conf;
	struct task *tasks;
	unsigned count;
	bool closing;			/* admin_free() was called; the last task to end frees us */
};

static struct task *
task_new(struct admin *a)
{
	struct task *t = a->count >= ADMIN_TASKS_MAX ? NULL : calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->a = a;
	t->next = a->tasks;
	a->tasks = t;
	a->count++;
	buf_init(&t->out, INFO_BYTES_MAX);
	return t;
}

static void
task_free(struct task *t)
{
	struct task **at = &t->a->tasks;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	t->a->count--;
	if (t->a->closing && t->a->count == 0)
		free(t->a);
	buf_done(&t->out);
	free(t);
}

static void
task_end(struct task *t, enum tv_err err, struct span text, uint32_t count)
{
	admin_done *done = t->done;
	void *ctx = t->ctx;

	task_free(t);
	if (done != NULL)
		done(ctx, err, text, count);
}

/* [u8 err, str text] and, for a join, u32 contacted. */
static enum tv_err
read_result(const struct task *t, struct span body, struct span *text, uint32_t *count)
{
	struct rd r = rd_span_over(body);
	uint64_t err;

	*count = 0;
	if (mpr_array(&r) != (t->has_count ? 3u : 2u))
		return TV_EFORMAT;
	err = mpr_uint(&r, UINT8_MAX);
	*text = mpr_bytes(&r, UINT16_MAX);
	if (t->has_count)
		*count = (uint32_t)mpr_uint(&r, UINT32_MAX);
	return rd_end(&r) == TV_OK ? (enum tv_err)-(int)err : TV_EFORMAT;
}

static enum tv_err leave_gossip(struct task *t);

static void
answered(void *ctx, enum tv_err err, struct span body)
{
	struct task *t = ctx;
	struct span text = SPAN_NONE;
	uint32_t count = 0;

	if (err == TV_OK)
		err = read_result(t, body, &text, &count);
	else
		text = span_str(err == TV_ETIMEOUT ? "the daemon did not answer in time" : "the daemon went away");
	if (err == TV_OK && t->then_gossip) {
		t->then_gossip = false;
		err = leave_gossip(t);
		if (err == TV_OK)
			return;
		text = span_str("left the Raft configuration, but gossipd is away: start it and leave again");
	}
	task_end(t, err, text, count);
}

static enum tv_err
ask_gossip(struct task *t, uint16_t type, struct buf *b, struct mono timeout, calls_done *done)
{
	enum tv_err err = b->failed ? TV_ENOMEM : TV_OK;

	if (err == TV_OK && view_call(t->a->conf.view, type, buf_span(b), timeout, done, t, &err) != 0)
		err = TV_OK;
	buf_done(b);
	return err;
}

static enum tv_err
leave_gossip(struct task *t)
{
	struct buf b = BUF_INIT(64);

	mpw_array(&b, 0);
	return ask_gossip(t, MSG_GOSSIP_LEAVE, &b, t->a->conf.leave_timeout, answered);
}

enum tv_err
admin_join(struct admin *a, enum gossip_pool pool, struct span addr, admin_done *done, void *ctx)
{
	struct buf b = BUF_INIT(4096);
	struct task *t = task_new(a);
	enum tv_err err;

	if (t == NULL)
		return TV_ELIMIT;
	t->done = done;
	t->ctx = ctx;
	t->has_count = true;
	mpw_array(&b, 2);
	mpw_uint(&b, pool);
	mpw_array(&b, 1);
	mpw_str(&b, addr);
	err = ask_gossip(t, MSG_GOSSIP_JOIN, &b, a->conf.call_timeout, answered);
	if (err != TV_OK)
		task_free(t);
	return err;
}

enum tv_err
admin_force_leave(struct admin *a, struct span node, bool prune, admin_done *done, void *ctx)
{
	struct buf b = BUF_INIT(4096);
	struct task *t = task_new(a);
	enum tv_err err;

	if (t == NULL)
		return TV_ELIMIT;
	t->done = done;
	t->ctx = ctx;
	mpw_array(&b, 2);
	mpw_str(&b, node);
	mpw_bool(&b, prune);
	err = ask_gossip(t, MSG_GOSSIP_FORCE_LEAVE, &b, a->conf.call_timeout, answered);
	if (err != TV_OK)
		task_free(t);
	return err;
}

enum tv_err
admin_leave(struct admin *a, bool force, admin_done *done, void *ctx)
{
	struct task *t = task_new(a);
	struct buf b = BUF_INIT(64);
	enum tv_err err = TV_OK;

	if (t == NULL)
		return TV_ELIMIT;
	t->done = done;
	t->ctx = ctx;
	log_info("triumvir", "%s starting leave", a->conf.raft != NULL ? "server" : "client");
	if (a->conf.raft == NULL) {
		err = leave_gossip(t);
	} else {
		t->then_gossip = true;
		mpw_array(&b, 1);
		mpw_bool(&b, force);
		if (raft_local_call(a->conf.raft, MSG_RAFT_LEAVE, buf_span(&b), a->conf.leave_timeout, answered, t,
		    &err) != 0)
			err = TV_OK;
		buf_done(&b);
	}
	if (err != TV_OK)
		task_free(t);
	return err;
}

/* -- coordinates ---------------------------------------------------------- */

static enum tv_err
read_coords(struct span body, struct span *text, struct span *list)
{
	struct rd r = rd_span_over(body);
	uint64_t err;

	if (mpr_array(&r) != 3)
		return TV_EFORMAT;
	err = mpr_uint(&r, UINT8_MAX);
	*text = mpr_bytes(&r, UINT16_MAX);
	*list = mpr_value(&r);
	return rd_end(&r) == TV_OK ? (enum tv_err)-(int)err : TV_EFORMAT;
}

static void
coords_answered(void *ctx, enum tv_err err, struct span body)
{
	struct task *t = ctx;
	admin_coords_done *done = t->coords_done;
	void *done_ctx = t->ctx;
	struct span text = SPAN_NONE, list = SPAN_NONE;

	if (err == TV_OK)
		err = read_coords(body, &text, &list);
	else
		text = span_str(err == TV_ETIMEOUT ? "gossipd did not answer in time" : "gossipd went away");
	task_free(t);
	if (done != NULL)
		done(done_ctx, err, text, list);
}

enum tv_err
admin_coords(struct admin *a, enum gossip_pool pool, struct span node, admin_coords_done *done, void *ctx)
{
	struct buf b = BUF_INIT(4096);
	struct task *t = task_new(a);
	enum tv_err err;

	if (t == NULL)
		return TV_ELIMIT;
	t->coords_done = done;
	t->ctx = ctx;
	mpw_array(&b, 2);
	mpw_uint(&b, pool);
	mpw_array(&b, node.len > 0);
	if (node.len > 0)
		mpw_str(&b, node);
	err = ask_gossip(t, MSG_GOSSIP_COORDS, &b, a->conf.call_timeout, coords_answered);
	if (err != TV_OK)
		task_free(t);
	return err;
}

/* -- recovery ------------------------------------------------------------- */

static enum tv_err
read_recovery(struct span body, struct span *text, struct span *value)
{
	struct rd r = rd_span_over(body);
	uint64_t err;

	if (mpr_array(&r) != 3)
		return TV_EFORMAT;
	err = mpr_uint(&r, UINT8_MAX);
	*text = mpr_bytes(&r, UINT16_MAX);
	if (mpr_nil(&r))
		*value = SPAN_NONE;
	else
		*value = mpr_value(&r);
	return rd_end(&r) == TV_OK ? (enum tv_err)-(int)err : TV_EFORMAT;
}

static void
recover_answered(void *ctx, enum tv_err err, struct span body)
{
	struct task *t = ctx;
	admin_recover_done *done = t->recover_done;
	void *done_ctx = t->ctx;
	struct span text = SPAN_NONE, value = SPAN_NONE;

	if (err == TV_OK)
		err = read_recovery(body, &text, &value);
	else
		text = span_str(err == TV_ETIMEOUT ? "raftd did not answer in time" : "raftd went away");
	task_free(t);
	if (done != NULL)
		done(done_ctx, err, text, value);
}

enum tv_err
admin_recover(struct admin *a, bool dry_run, admin_recover_done *done, void *ctx)
{
	struct buf b = BUF_INIT(16);
	struct task *t;
	enum tv_err err = TV_OK;

	if (a->conf.raft == NULL)
		return TV_EINVAL;
	t = task_new(a);
	if (t == NULL)
		return TV_ELIMIT;
	t->recover_done = done;
	t->ctx = ctx;
	mpw_array(&b, 1);
	mpw_bool(&b, dry_run);
	if (raft_local_call(a->conf.raft, MSG_RAFT_RECOVER, buf_span(&b), a->conf.leave_timeout, recover_answered, t,
	    &err) != 0)
		err = TV_OK;
	buf_done(&b);
	if (err != TV_OK)
		task_free(t);
	return err;
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
info_answered(void *ctx, enum tv_err err, struct span body)
{
	struct task *t = ctx;
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
info_soon(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop;
	(void)revents;
	info_finish(w->data);
}

enum tv_err
admin_info(struct admin *a, admin_info_done *done, void *ctx)
{
	static const uint8_t empty[] = { 0x90 };
	struct span body = span_of(empty, sizeof(empty));
	struct task *t = task_new(a);
	enum tv_err err;

	if (t == NULL)
		return TV_ELIMIT;
	t->info_done = done;
	t->ctx = ctx;
	if (view_call(a->conf.view, MSG_INFO, body, a->conf.call_timeout, info_answered, t, &err) != 0)
		t->waiting++;
	if (a->conf.raft != NULL &&
	    raft_local_call(a->conf.raft, MSG_INFO, body, a->conf.call_timeout, info_answered, t, &err) != 0)
		t->waiting++;
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

	if (a != NULL)
		a->conf = *conf;
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
	/* Questions under way end when their channels close; nobody is told any more. */
	a->closing = true;
	for (t = a->tasks; t != NULL; t = next) {
		next = t->next;
		t->done = NULL;
		t->info_done = NULL;
		t->coords_done = NULL;
		t->recover_done = NULL;
		t->then_gossip = false;
		if (ev_is_active(&t->soon)) {
			ev_timer_stop(a->conf.loop, &t->soon);
			task_free(t);
		}
	}
}
