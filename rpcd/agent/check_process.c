/* The process that runs checks, see check_process.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/chan.h"
#include "common/net/msg.h"
#include "rpcd/agent/check_monitor.h"
#include "rpcd/agent/check_process.h"

#define TAG "check"
#define PENDING_BYTES_MAX (256u << 10)	/* sent before the process has taken it */
#define OUT_BYTES_MAX (8u << 20)
#define RESTART_MIN_S 0.25
#define RESTART_MAX_S 30.
#define STEADY MONO_S(60)		/* who lived for so long died of something else */
#define IDLE_S 10.			/* without a check it stays for so long */

struct check_task {
	struct check_process *process;
	struct check_task *next, *prev;
	void *ctx;
	uint32_t place;			/* in the table: the lower half of its handle */
	uint32_t serial;		/* of who has the place: the upper half */
	bool sent;			/* to the process that runs */
};

struct check_process {
	struct check_process_conf conf;
	struct chan *chan;		/* NULL: no process */
	struct check_task *first;
	struct check_task **table;
	uint32_t places, tasks, serial;
	bool syncing;			/* waits until the process has taken what was sent */
	uint64_t sync_id;
	ev_timer restart, idle;
	double pause;
	struct mono began;
	struct check_process_stats stats;
};

static uint64_t
handle_of(const struct check_task *t)
{
	return (uint64_t)t->serial << 32 | t->place;
}

/* -- to the process -- */

static void
send_task(struct check_process *p, struct check_task *t)
{
	struct msg_check_put put = { 0 };

	t->sent = true;
	if (!p->conf.describe(t->ctx, &put))
		return;
	put.handle = handle_of(t);
	(void)chan_send_record(p->chan, MSG_CHECK_PUT, 0, &msg_check_put_schema, &put);	/* else it closes */
}

/* As much as the process takes at a time. */
static void
send_tasks(struct check_process *p)
{
	bool more = false;

	if (p->chan == NULL || p->syncing)
		return;
	for (struct check_task *t = p->first; t != NULL; t = t->next) {
		if (t->sent)
			continue;
		if ((more = chan_pending(p->chan) > PENDING_BYTES_MAX))
			break;
		send_task(p, t);
	}
	if (!more)
		return;
	p->syncing = true;
	(void)chan_send(p->chan, MSG_CHECK_SYNC, 0, ++p->sync_id, MSG_EMPTY);
}

/* -- from the process: nothing that it says is trusted -- */

static enum tv_err
take_result(struct check_process *p, struct span body)
{
	struct msg_check_result r = { 0 };
	enum tv_err err = msg_read(&msg_check_result_schema, body, NULL, &r);
	uint32_t place = (uint32_t)r.handle;

	if (err != TV_OK)
		return err;
	struct check_task *t = place < p->places ? p->table[place] : NULL;
	if (t != NULL && handle_of(t) == r.handle)	/* else it went meanwhile */
		p->conf.result(t->ctx, r.status, r.output);
	return TV_OK;
}

static enum tv_err
on_frame(void *ctx, struct chan *c, const struct frame *f)
{
	struct check_process *p = ctx;

	(void)c;
	if (f->type == MSG_CHECK_RESULT)
		return take_result(p, f->body);
	if (f->type == MSG_CHECK_STATS) {
		p->stats.runs = (struct msg_check_stats){ 0 };
		return msg_read(&msg_check_stats_schema, f->body, NULL, &p->stats.runs);
	}
	if (f->type != MSG_CHECK_SYNC || f->id != p->sync_id || !p->syncing)
		return TV_EFORMAT;
	p->syncing = false;
	send_tasks(p);
	return TV_OK;
}

static void
forget_process(struct check_process *p)
{
	p->chan = NULL;
	p->syncing = false;
	p->stats.runs = (struct msg_check_stats){ 0 };
	for (struct check_task *t = p->first; t != NULL; t = t->next)
		t->sent = false;
}

static void
plan_restart(struct check_process *p)
{
	ev_timer_stop(p->conf.loop, &p->restart);
	ev_timer_set(&p->restart, p->pause, 0.);
	ev_timer_start(p->conf.loop, &p->restart);
	p->pause = p->pause * 2 < RESTART_MAX_S ? p->pause * 2 : RESTART_MAX_S;
}

static void
on_close(void *ctx, struct chan *c, enum tv_err why)
{
	static const char *const what[] = { "checks", "scripts", "Docker checks" };
	struct check_process *p = ctx;

	(void)c;
	p->stats.deaths++;
	if (!mono_before(clock_mono(), mono_add(p->began, STEADY)))
		p->pause = RESTART_MIN_S;
	log_warn(TAG, "the process that runs %s ended (%s): it is started again in %.2f s; states stay as they are",
	    what[p->conf.role], tv_strerror(why), p->pause);
	forget_process(p);
	plan_restart(p);
}

/* -- its life -- */

static void
send_setup(struct check_process *p)
{
	(void)chan_send_record(p->chan, MSG_CHECK_SETUP, 0, &msg_check_setup_schema, &(struct msg_check_setup){
		p->conf.runs_max, p->conf.follow_redirects, (uint64_t)p->conf.log_level });	/* else it closes */
}

static void
start(struct check_process *p)
{
	static const struct chan_events events = { .on_frame = on_frame, .on_close = on_close };
	int fd;
	enum tv_err err = check_monitor_spawn(p->conf.monitor, p->conf.role, &fd);

	if (err == TV_ECLOSED) {
		p->conf.lost(p->conf.ctx);
		return;
	}
	if (err == TV_OK)
		p->chan = chan_new(fd, &(struct chan_conf){
			.loop = p->conf.loop, .events = &events, .ctx = p, .name = "rpcd: check",
			.body_max = MSG_LIST, .out_max = OUT_BYTES_MAX,
		});
	if (p->chan == NULL) {
		log_warn(TAG, "cannot start rpcd-check: %s", err == TV_ESYS ? strerror(errno) : tv_strerror(TV_ENOMEM));
		plan_restart(p);
		return;
	}
	p->stats.starts++;
	p->began = clock_mono();
	send_setup(p);
	send_tasks(p);
}

static void
on_restart(struct ev_loop *loop, ev_timer *w, int events)
{
	struct check_process *p = w->data;

	(void)loop;
	(void)events;
	if (p->chan == NULL && p->tasks > 0)
		start(p);
}

static void
on_idle(struct ev_loop *loop, ev_timer *w, int events)
{
	struct check_process *p = w->data;

	(void)loop;
	(void)events;
	if (p->tasks > 0 || p->chan == NULL)
		return;
	chan_free(p->chan);		/* it ends with its channel */
	forget_process(p);
}

/* -- tasks -- */

static bool
find_place(struct check_process *p, struct check_task *t)
{
	uint32_t places = p->places == 0 ? 64 : p->places * 2;

	if (p->tasks == p->places) {
		struct check_task **table = realloc(p->table, places * sizeof(struct check_task *));

		if (table == NULL)
			return false;
		memset(table + p->places, 0, (places - p->places) * sizeof(struct check_task *));
		t->place = p->places;
		p->table = table;
		p->places = places;
	} else {
		uint32_t from = p->serial % p->places;	/* a free one is near: half of them are, mostly */

		for (t->place = from; p->table[t->place] != NULL;)
			t->place = (t->place + 1) % p->places;
	}
	p->table[t->place] = t;
	t->serial = ++p->serial;
	return true;
}

struct check_task *
check_process_add(struct check_process *p, void *task_ctx)
{
	struct check_task *t = calloc(1, sizeof(*t));

	if (t == NULL || !find_place(p, t)) {
		free(t);
		return NULL;
	}
	t->process = p;
	t->ctx = task_ctx;
	t->next = p->first;
	if (p->first != NULL)
		p->first->prev = t;
	p->first = t;
	p->tasks++;
	check_process_changed(t);
	return t;
}

void
check_process_changed(struct check_task *t)
{
	struct check_process *p = t->process;

	t->sent = false;
	if (p->chan == NULL && !ev_is_active(&p->restart)) {
		ev_timer_set(&p->restart, 0., 0.);	/* with all that are put in this turn */
		ev_timer_start(p->conf.loop, &p->restart);
	} else if (p->chan != NULL && !p->syncing) {
		if (chan_pending(p->chan) > PENDING_BYTES_MAX)
			send_tasks(p);
		else
			send_task(p, t);
	}
}

void
check_process_remove(struct check_task *t)
{
	struct check_process *p = t->process;

	if (t->sent && p->chan != NULL)
		(void)chan_send_record(p->chan, MSG_CHECK_DROP, 0, &msg_check_drop_schema,
		    &(struct msg_check_drop){ handle_of(t) });
	*(t->prev == NULL ? &p->first : &t->prev->next) = t->next;
	if (t->next != NULL)
		t->next->prev = t->prev;
	p->table[t->place] = NULL;
	if (--p->tasks == 0) {
		ev_timer_stop(p->conf.loop, &p->idle);
		ev_timer_set(&p->idle, IDLE_S, 0.);
		ev_timer_start(p->conf.loop, &p->idle);
	}
	free(t);
}

void
check_process_log(struct check_process *p, int level)
{
	p->conf.log_level = level;
	if (p->chan != NULL)
		send_setup(p);
}

void
check_process_stats(const struct check_process *p, struct check_process_stats *out)
{
	*out = p->stats;
	out->tasks = p->tasks;
	out->running = p->chan != NULL;
}

struct check_process *
check_process_new(const struct check_process_conf *conf)
{
	struct check_process *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->conf = *conf;
	p->pause = RESTART_MIN_S;
	ev_init(&p->restart, on_restart);
	ev_init(&p->idle, on_idle);
	p->restart.data = p->idle.data = p;
	return p;
}

void
check_process_free(struct check_process *p)
{
	if (p == NULL)
		return;
	ev_timer_stop(p->conf.loop, &p->restart);
	ev_timer_stop(p->conf.loop, &p->idle);
	chan_free(p->chan);
	for (struct check_task *t = p->first, *next; t != NULL; t = next) {
		next = t->next;
		free(t);
	}
	free(p->table);
	free(p);
}
