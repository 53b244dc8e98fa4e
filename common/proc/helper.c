/* The life of a helper process, see helper.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/net/silence.h"
#include "common/proc/helper.h"
#include "common/proc/helper_monitor.h"

#define LOOK_S 1.			/* between looks at the silence of a process */
#define ASK_AFTER MONO_S(3)
#define TELL_AFTER MONO_S(5)		/* in status: it was asked at the latest a second before, and is slow */
#define PATIENCE MONO_S(7)		/* with a look more, an end, a start: within 10 s */
#define GAP MONO_S(3)			/* between looks: then it was the daemon that stood still */
#define END_GRACE MONO_S(5)		/* for a process whose channel was closed, to end by itself */
#define RENEW_MIN MONO_S(1)		/* of life, before a process may ask for another one */
#define FIRST_PING 1			/* answered when the setup is read */
#define PING 2
#define SILENT_STARTS_MAX 3		/* by the monitor, in a row */

struct process {
	struct helper *helper;
	struct chan *chan;		/* NULL: there is none */
	uint32_t number;		/* of the monitor's */
	uint64_t pid;			/* 0: the monitor has not started it yet */
	struct silence silence;
	struct mono began;
};

struct helper {
	struct helper_conf conf;
	struct process processes[2];
	struct process *now, *next;	/* the one that serves, and the one that takes over: two of them, in turn */
	bool wanted;
	bool replace;			/* wanted, as soon as it can be started */
	bool retiring;			/* the one that serves, for another one */
	ev_timer look, restart, idle, retire;
	double pause;
	struct mono restart_at;
	unsigned silent_starts;
	bool ended;			/* at least once, by itself: then since `ended_at`, for this reason */
	struct mono ended_at;
	enum helper_end why;
	struct helper_stats stats;
};

/* -- processes -- */

static void
close_process(struct process *p, struct mono grace)
{
	struct helper *h = p->helper;

	if (p->chan == NULL)
		return;
	chan_free(p->chan);		/* the process ends with its channel, but for one that stands still */
	helper_monitor_end(h->conf.monitor, p->number, grace);
	p->chan = NULL;
	if (h->now->chan == NULL && h->next->chan == NULL)
		ev_timer_stop(h->conf.loop, &h->look);
}

static void
plan_start(struct helper *h, double in_s)
{
	ev_timer_stop(h->conf.loop, &h->restart);
	ev_timer_set(&h->restart, in_s, 0.);
	ev_timer_start(h->conf.loop, &h->restart);
}

static void
plan_restart(struct helper *h)
{
	plan_start(h, h->pause);
	h->restart_at = mono_add(clock_mono(), MONO_MS((int64_t)(h->pause * 1e3)));
	h->pause = h->pause * 2 < h->conf.restart_max_s ? h->pause * 2 : h->conf.restart_max_s;
}

/* The next one serves from now on. */
static void
take_over(struct helper *h)
{
	struct process *old = h->now;

	h->now = h->next;
	h->next = old;
	h->retiring = false;
	ev_timer_stop(h->conf.loop, &h->retire);
	if (h->conf.serve != NULL && h->now->chan != NULL)
		h->conf.serve(h->conf.ctx, h->now->chan);
}

static void
log_end(const struct helper *h, const struct process *p, enum helper_end why, enum tv_err err)
{
	const char *meanwhile = h->conf.meanwhile != NULL ? h->conf.meanwhile : "";
	char what[64];

	if (why == HELPER_STUCK)
		snprintf(what, sizeof(what), "has not answered for %lld s, and is killed",
		    (long long)(PATIENCE.ns / 1000000000));
	else
		snprintf(what, sizeof(what), "exited (%s)", tv_strerror(err));
	if (why == HELPER_NOT_STARTED)
		log_err(h->conf.tag, "the monitor of \"%s\", which starts it, does not answer: trying again in %.2f s"
		    "%s", h->conf.name, h->pause, meanwhile);
	else
		log_warn(h->conf.tag, "\"%s\" (process %llu) %s: restarting in %.2f s%s", h->conf.name,
		    (unsigned long long)p->pid, what, h->pause, meanwhile);
}

/* It is gone, and was not to go. */
static void
on_death(struct process *p, enum helper_end why, enum tv_err err)
{
	struct helper *h = p->helper;
	bool served = p == h->now, lost;

	h->stats.deaths++;
	h->stats.stuck += why == HELPER_STUCK;
	h->silent_starts = why == HELPER_NOT_STARTED ? h->silent_starts + 1 : 0;
	h->ended = true;
	h->ended_at = clock_mono();
	h->why = why;
	lost = h->silent_starts >= SILENT_STARTS_MAX && h->conf.lost != NULL;
	if (!mono_before(h->ended_at, mono_add(p->began, HELPER_STEADY)))
		h->pause = h->conf.restart_min_s;
	if (!h->conf.once)
		log_end(h, p, why, err);
	if (!served && h->wanted)
		h->replace = true;		/* the old one serves on */
	if (served && h->next->chan != NULL)
		take_over(h);			/* it has its setup, and is about to serve */
	else if (h->wanted && !h->conf.once)
		plan_restart(h);
	if (lost)
		h->conf.lost(h->conf.ctx);
	if (served)
		h->conf.ended(h->conf.ctx, why);
}

/* The one that served ends for the next one, which has read its setup; or has died since, then another one comes. */
static void
replaced(struct helper *h)
{
	take_over(h);
	close_process(h->next, END_GRACE);
	h->stats.replaced++;
	if (h->now->chan != NULL)
		log_info(h->conf.tag, "\"%s\" (process %llu) has taken over", h->conf.name,
		    (unsigned long long)h->now->pid);
	else if (h->wanted)
		plan_start(h, 0.);
	h->conf.ended(h->conf.ctx, HELPER_REPLACED);
}

static void
on_close(void *ctx, struct chan *c UNUSED, enum tv_err why)
{
	struct process *p = ctx;
	struct helper *h = p->helper;

	p->chan = NULL;
	helper_monitor_end(h->conf.monitor, p->number, END_GRACE);
	if (h->now->chan == NULL && h->next->chan == NULL)
		ev_timer_stop(h->conf.loop, &h->look);
	if (p == h->now && h->retiring)
		replaced(h);
	else
		on_death(p, HELPER_DIED, why);
}

/* The next one has read its setup, and sends nothing else before that. */
static void
on_next_ready(struct helper *h)
{
	if (h->conf.retire == NULL || h->now->chan == NULL) {
		replaced(h);
		return;
	}
	h->retiring = true;
	ev_timer_stop(h->conf.loop, &h->retire);
	ev_timer_set(&h->retire, mono_seconds(HELPER_RETIRE), 0.);
	ev_timer_start(h->conf.loop, &h->retire);
	h->conf.retire(h->conf.ctx, h->now->chan);
}

/* What it has begun takes too long. */
static void
on_retire(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	replaced(w->data);
}

static enum tv_err
take_started(struct process *p, const struct frame *f)
{
	struct msg_helper_started m = { 0 };
	enum tv_err err = msg_read(&msg_helper_started_schema, f->body, NULL, &m);

	if (err != TV_OK || p->pid != 0 || m.pid == 0)
		return TV_EFORMAT;
	p->pid = m.pid;
	p->helper->silent_starts = 0;
	return TV_OK;
}

/* It ends on purpose.  One that does so as soon as it is there is one that dies. */
static enum tv_err
renew(struct process *p)
{
	struct helper *h = p->helper;

	if (p != h->now || h->conf.once || mono_before(clock_mono(), mono_add(p->began, RENEW_MIN)))
		return TV_OK;
	close_process(p, END_GRACE);
	h->stats.replaced++;
	if (h->next->chan != NULL)
		take_over(h);
	else
		plan_start(h, 0.);
	h->conf.ended(h->conf.ctx, HELPER_REPLACED);
	return TV_OK;
}

static enum tv_err
on_frame(void *ctx, struct chan *c UNUSED, const struct frame *f)
{
	struct process *p = ctx;
	struct helper *h = p->helper;

	if (f->type == MSG_HELPER_STARTED)
		return take_started(p, f);
	if (f->type == MSG_PING && (f->flags & FRAME_REPLY) != 0) {
		if (f->id == FIRST_PING && p == h->next)
			on_next_ready(h);
		return TV_OK;
	}
	if (f->type == MSG_HELPER_RENEW)
		return renew(p);
	return p == h->now ? h->conf.frame(h->conf.ctx, f) : TV_EFORMAT;
}

static enum tv_err
start_process(struct process *p)
{
	static const struct chan_events events = { .on_frame = on_frame, .on_close = on_close };
	struct helper *h = p->helper;
	int fd;
	enum tv_err err = helper_monitor_spawn(h->conf.monitor, h->conf.kind, &p->number, &fd);

	if (err != TV_OK)
		return err;
	p->chan = chan_new(fd, &(struct chan_conf){
		.loop = h->conf.loop, .events = &events, .ctx = p, .name = h->conf.name,
		.body_max = h->conf.body_max, .out_max = h->conf.out_max,
	});
	if (p->chan == NULL)
		return TV_ENOMEM;
	p->pid = 0;
	p->silence = (struct silence){ .signs = 0 };
	p->began = clock_mono();
	h->stats.starts++;
	if (!ev_is_active(&h->look))
		ev_timer_again(h->conf.loop, &h->look);
	h->conf.setup(h->conf.ctx, p->chan);
	if (h->conf.serve != NULL && p == h->now)
		h->conf.serve(h->conf.ctx, p->chan);
	(void)chan_send(p->chan, MSG_PING, 0, FIRST_PING, MSG_EMPTY);	/* else it closes */
	return TV_OK;
}

/* -- time -- */

static void
look_at(struct process *p)
{
	static const struct silence_conf conf = { .ask_after = ASK_AFTER, .patience = PATIENCE, .gap = GAP };
	enum silence_verdict verdict;

	if (p->chan == NULL || !chan_is_open(p->chan))
		return;
	verdict = silence_look(&p->silence, &conf, clock_mono(), chan_signs(p->chan));
	if (verdict == SILENCE_ASK)
		(void)chan_send(p->chan, MSG_PING, 0, PING, MSG_EMPTY);
	if (verdict != SILENCE_DEAD)
		return;
	close_process(p, MONO_ZERO);
	on_death(p, p->pid == 0 ? HELPER_NOT_STARTED : HELPER_STUCK, TV_ETIMEOUT);
}

static void
on_look(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct helper *h = w->data;
	bool both = h->next->chan != NULL;

	if (both)
		look_at(h->next);
	look_at(h->now);		/* last: `ended` may free the helper */
}

static void
on_restart(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct helper *h = w->data;
	struct process *p = h->now->chan == NULL ? h->now : h->next;

	if (!h->wanted || p->chan != NULL || (p == h->next && !h->replace))
		return;
	enum tv_err err = start_process(p);
	if (err == TV_OK) {
		h->replace = false;
		return;
	}
	if (err == TV_ECLOSED && h->conf.lost != NULL) {
		h->conf.lost(h->conf.ctx);
		return;
	}
	log_warn(h->conf.tag, "cannot start \"%s\": %s; trying again in %.2f s", h->conf.name,
	    err == TV_ESYS ? strerror(errno) : tv_strerror(err), h->pause);
	plan_restart(h);
}

static void
on_idle(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct helper *h = w->data;
	bool served = h->now->chan != NULL;

	if (h->wanted)
		return;
	h->retiring = false;
	ev_timer_stop(h->conf.loop, &h->retire);
	close_process(h->next, END_GRACE);
	close_process(h->now, END_GRACE);
	if (served)
		h->conf.ended(h->conf.ctx, HELPER_IDLE);
}

/* -- for the daemon -- */

void
helper_want(struct helper *h, bool wanted)
{
	if (wanted == h->wanted)
		return;
	h->wanted = wanted;
	ev_timer_stop(h->conf.loop, &h->idle);
	if (!wanted) {
		ev_timer_set(&h->idle, h->conf.idle_s, 0.);
		ev_timer_start(h->conf.loop, &h->idle);
	} else if (h->now->chan == NULL && !ev_is_active(&h->restart)) {
		plan_start(h, 0.);
	}
}

enum tv_err
helper_start(struct helper *h)
{
	h->wanted = true;
	return h->now->chan != NULL ? TV_OK : start_process(h->now);
}

void
helper_replace(struct helper *h)
{
	if (!h->wanted)
		return;
	close_process(h->next, END_GRACE);	/* one that was to take over has an older setup */
	h->replace = h->now->chan != NULL;
	plan_start(h, 0.);
}

bool
helper_setup(struct helper *h)
{
	bool serves = h->next->chan == NULL && !h->replace;
	struct chan *c = serves ? h->now->chan : h->next->chan;

	if (c != NULL)			/* else one that is started later gets it */
		h->conf.setup(h->conf.ctx, c);
	return serves && c != NULL;
}

void
helper_hurry(struct helper *h)
{
	if (h->wanted && ev_is_active(&h->restart))
		plan_start(h, 0.);
}

struct chan *
helper_chan(const struct helper *h)
{
	return h->now->chan;
}

void
helper_stats(const struct helper *h, struct helper_stats *out)
{
	*out = h->stats;
	out->running = h->now->chan != NULL;
}

static const char *
reason(enum helper_end why)
{
	return why == HELPER_STUCK ? "did not answer" : why == HELPER_NOT_STARTED ? "could not be started" : "exited";
}

const char *
helper_state(const struct helper *h, char *dst)
{
	struct mono now = clock_mono(), silent = silence_lasts(&h->now->silence, now);
	long long since = (long long)(mono_sub(now, h->ended_at).ns / 1000000000);

	if (h->now->chan == NULL && (!h->wanted || !h->ended))
		snprintf(dst, HELPER_STATE_BYTES, h->wanted ? "running" : "idle");
	else if (h->now->chan == NULL)
		snprintf(dst, HELPER_STATE_BYTES, "%s %lld s ago, restarting in %.1f s", reason(h->why), since,
		    mono_before(now, h->restart_at) ? (double)mono_sub(h->restart_at, now).ns / 1e9 : 0.);
	else if (h->now->pid == 0 && h->ended)
		snprintf(dst, HELPER_STATE_BYTES, "starting: the one before %s %lld s ago", reason(h->why), since);
	else if (silent.ns > TELL_AFTER.ns)
		snprintf(dst, HELPER_STATE_BYTES, "process %llu has not answered for %lld s",
		    (unsigned long long)h->now->pid, (long long)(silent.ns / 1000000000));
	else if (h->ended && mono_before(now, mono_add(h->ended_at, HELPER_STEADY)))
		snprintf(dst, HELPER_STATE_BYTES, "restarted: %s %lld s ago", reason(h->why), since);
	else
		snprintf(dst, HELPER_STATE_BYTES, "running");
	return dst;
}

struct helper *
helper_new(const struct helper_conf *conf)
{
	struct helper *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return NULL;
	h->conf = *conf;
	h->now = &h->processes[0];
	h->next = &h->processes[1];
	h->now->helper = h->next->helper = h;
	h->pause = conf->restart_min_s;
	ev_timer_init(&h->look, on_look, LOOK_S, LOOK_S);
	ev_init(&h->restart, on_restart);
	ev_init(&h->idle, on_idle);
	ev_init(&h->retire, on_retire);
	h->look.data = h->restart.data = h->idle.data = h->retire.data = h;
	return h;
}

void
helper_free(struct helper *h)
{
	if (h == NULL)
		return;
	close_process(h->now, END_GRACE);
	close_process(h->next, END_GRACE);
	ev_timer_stop(h->conf.loop, &h->look);
	ev_timer_stop(h->conf.loop, &h->restart);
	ev_timer_stop(h->conf.loop, &h->idle);
	ev_timer_stop(h->conf.loop, &h->retire);
	free(h);
}
