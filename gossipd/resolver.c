/* See resolver.h. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/proc/helper.h"
#include "common/proc/helper_monitor.h"
#include "gossipd/names/launch.h"
#include "gossipd/resolver.h"

#define TAG "names"
#define RUNNING_MAX (HELPER_CHILDREN_MAX / 2)	/* some may be on their way out */
#define RUNNING_IDLE_MAX (RUNNING_MAX / 2)	/* of those that no client waits for */
#define GRACE_S 2.			/* beyond the time that the process has */
#define SILENT "the process that looks up names does not answer"
#define ANSWER_MEMORY (1u << 20)

_Static_assert(RESOLVER_TARGETS_MAX == NAMES_TARGETS_MAX, "a process takes what may be asked for");
_Static_assert(NAMES_MS == 20000, "RESOLVER_TIMEOUT");

struct resolve {
	TAILQ_ENTRY(resolve) link;
	struct resolver *r;
	resolver_done *done;
	void *ctx;
	struct msg_resolve question;	/* borrows the targets until resolver_start() returns */
	unsigned count, left;		/* targets; without an answer */
	bool answered[RESOLVER_TARGETS_MAX];
	struct helper *helper;		/* NULL: there is no process */
	const char *failed;		/* why there is none */
	ev_timer timer;
};

struct resolver {
	struct ev_loop *loop;
	int monitor;			/* -1: none */
	char missing[512];		/* why */
	TAILQ_HEAD(, resolve) all;
	struct resolver_stats stats;
};

/* -- the end of one -- */

static void
release(struct resolve *l)
{
	TAILQ_REMOVE(&l->r->all, l, link);
	l->r->stats.running -= l->helper != NULL;
	ev_timer_stop(l->r->loop, &l->timer);
	helper_free(l->helper);
	free(l);
}

static void
note_outcome(struct resolver *r, const struct resolver_answer *a)
{
	r->stats.lookups++;
	if (a->outcome == TARGET_FOUND)
		return;
	r->stats.failures++;
	snprintf(r->stats.last, sizeof(r->stats.last), "%.*s", (int)a->why.len, (const char *)a->why.p);
}

/* False: it was the last one, and the look-up is gone. */
static bool
give_answer(struct resolve *l, unsigned place, const struct resolver_answer *a)
{
	l->answered[place] = true;
	l->left--;
	note_outcome(l->r, a);
	resolver_done *done = l->done;
	void *ctx = l->ctx;
	bool more = l->left > 0;

	if (!more)
		release(l);
	done(ctx, place, a);
	return more;
}

static void
fail_rest(struct resolve *l, const char *why)
{
	struct resolver_answer a = { .outcome = TARGET_UNANSWERED, .why = span_str(why) };

	for (unsigned i = 0, n = l->count; i < n; i++)
		if (!l->answered[i] && !give_answer(l, i, &a))
			return;
}

/* -- from the process: nothing that it says is trusted -- */

static bool
read_answer(const struct msg_resolved *m, char why[TARGET_WHY_BYTES], struct resolver_answer *a)
{
	if (m->outcome > TARGET_UNANSWERED || m->addrs.n > TARGET_ADDRS_MAX)
		return false;
	a->outcome = (enum target_outcome)m->outcome;
	a->why = span_str(log_safe(m->why, why, TARGET_WHY_BYTES));
	for (a->count = 0; a->count < m->addrs.n; a->count++)
		if (!addr_parse_text(m->addrs.v[a->count], &a->addrs[a->count]))
			return false;
	return true;
}

static enum tv_err
on_frame(void *ctx, const struct frame *f)
{
	struct resolve *l = ctx;
	struct arena arena = ARENA_INIT(ANSWER_MEMORY);
	struct msg_resolved m = { .place = 0 };
	char why[TARGET_WHY_BYTES];
	struct resolver_answer a;
	enum tv_err err = TV_EFORMAT;

	if (f->type == MSG_RESOLVED && (f->flags & FRAME_REPLY) == 0)
		err = msg_read(&msg_resolved_schema, f->body, &arena, &m);
	if (err == TV_OK && (m.place >= l->count || l->answered[m.place] || !read_answer(&m, why, &a)))
		err = TV_EFORMAT;
	if (err == TV_OK)
		(void)give_answer(l, (unsigned)m.place, &a);
	arena_done(&arena);
	return err;		/* else on_ended() ends it */
}

static void
on_ended(void *ctx, enum helper_end why)
{
	struct resolve *l = ctx;

	if (why == HELPER_STUCK) {
		l->r->stats.stuck++;
		log_warn(TAG, "\"" NAMES_TITLE "\" does not answer, and is killed");
	}
	fail_rest(l, why == HELPER_DIED ? "the process that looks up names has ended without an answer" :
	    why == HELPER_STUCK ? SILENT : "the process that starts gossipd-names does not answer; restart gossipd");
}

static void
on_timer(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct resolve *l = w->data;

	fail_rest(l, l->failed != NULL ? l->failed : SILENT);
}

/* -- the beginning of one -- */

static void
on_setup(void *ctx, struct chan *c)
{
	struct resolve *l = ctx;

	(void)chan_send_record(c, MSG_RESOLVE, 0, &msg_resolve_schema, &l->question);	/* else it closes */
}

/* Why there is no process; NULL: there is. */
static const char *
start_process(struct resolve *l, bool urgent)
{
	struct resolver *r = l->r;

	if (r->monitor < 0)
		return r->missing;
	if (r->stats.running >= (urgent ? RUNNING_MAX : RUNNING_IDLE_MAX))
		return "too many look-ups are under way";
	l->helper = helper_new(&(struct helper_conf){
		.loop = r->loop, .monitor = r->monitor, .name = NAMES_TITLE, .tag = TAG, .once = true,
		.body_max = MSG_TEXT, .out_max = 2 * MSG_LARGE,
		.setup = on_setup, .frame = on_frame, .ended = on_ended, .ctx = l,
	});
	if (l->helper == NULL)
		return tv_strerror(TV_ENOMEM);
	r->stats.running++;
	enum tv_err err = helper_start(l->helper);
	return err == TV_OK ? NULL : err == TV_ECLOSED ?
	    "the process that starts gossipd-names has ended; restart gossipd" :
	    err == TV_ESYS ? strerror(errno) : tv_strerror(err);
}

struct resolve *
resolver_start(struct resolver *r, const struct span *targets, unsigned count, uint16_t port, struct mono timeout,
    bool urgent, resolver_done *done, void *ctx)
{
	struct resolve *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	l->r = r;
	l->done = done;
	l->ctx = ctx;
	l->count = l->left = count;
	TAILQ_INSERT_TAIL(&r->all, l, link);
	timeout = mono_min(timeout, RESOLVER_TIMEOUT);
	l->question = (struct msg_resolve){ { (struct span *)(uintptr_t)targets, count, true }, port,
	    (uint64_t)mono_ms(timeout) };
	l->failed = start_process(l, urgent);
	ev_timer_init(&l->timer, on_timer, l->failed != NULL ? 0. : mono_seconds(timeout) + GRACE_S, 0.);
	l->timer.data = l;
	ev_timer_start(r->loop, &l->timer);
	return l;
}

void
resolver_cancel(struct resolve *l)
{
	release(l);		/* the process ends within a second */
}

/* -- all of them -- */

struct resolver *
resolver_open(const struct cluster_conf *c)
{
	struct resolver *r = calloc(1, sizeof(*r));
	struct helper_monitor_conf conf = {
		.owner = "gossipd", .tag = TAG, .user = NAMES_USER, .program = NAMES_PROGRAM, .title = NAMES_TITLE,
		.kinds = { { .may = true } }, .life_s = NAMES_LIFE_S, .best_effort = c->sandbox != 0,
		.log_dest = c->log_to, .log_level = c->log_level,
	};

	if (r == NULL)
		return NULL;
	TAILQ_INIT(&r->all);
	if (log_enabled(LOG_LVL_DEBUG))
		conf.log_level = LOG_LVL_DEBUG;
	if (helper_monitor_start(&conf, &r->monitor, r->missing, sizeof(r->missing)) != TV_OK) {
		r->monitor = -1;
		log_warn(TAG, "%s. Without it host names, srv: and file: are not resolved (retry_join, join); "
		    "addresses work", r->missing);
	}
	return r;
}

void
resolver_run(struct resolver *r, struct ev_loop *loop)
{
	r->loop = loop;
}

void
resolver_reload(struct resolver *r, int log_level)
{
	if (r->monitor >= 0)
		helper_monitor_log(r->monitor, log_level);
}

void
resolver_stats(const struct resolver *r, struct resolver_stats *out)
{
	*out = r->stats;
}

void
resolver_free(struct resolver *r)
{
	if (r == NULL)
		return;
	while (!TAILQ_EMPTY(&r->all))
		release(TAILQ_FIRST(&r->all));
	if (r->monitor >= 0)
		close(r->monitor);
	free(r);
}
