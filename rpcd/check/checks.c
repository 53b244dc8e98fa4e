/* The checks of this process: when they run, and what comes of it. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/fnv.h"
#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/text/duration.h"
#include "rpcd/check/checker.h"
#include "rpcd/check/resolve.h"

#define EARLY MONO_MS(20)		/* what is due so soon runs now: one awakening for many */
#define TELL_S 5.			/* figures go to rpcd this often, where they changed */
#define INTERVAL_MIN MONO_S(1)
#define SLOW MONO_S(1)			/* a run that took longer counts as slow the next time */
#define LATE_EVERY MONO_S(60)		/* one line */
#define OUTPUT_BYTES 4096
#define DEFINITION_BYTES_MAX (1u << 20)

static const struct probe_kind *const kinds[] = { &probe_tcp, &probe_udp, &probe_http, &probe_grpc,
	&probe_h2ping, &probe_script, &probe_docker };

static struct task *
find_task(const struct checker *k, uint64_t handle)
{
	return MAP_ENTRY(map_find(&k->tasks, handle), struct task, node);
}

/* -- when -- */

/*
 * A quarter of the places is left for checks that are known to be quick, at least, and no service has more than its
 * part: checks that hang keep those of others neither waiting nor blind.
 */
static struct fair_conf
places_of(uint64_t runs_max)
{
	unsigned n = (unsigned)runs_max;

	return (struct fair_conf){ .places = n, .class = {
		[FAIR_QUICK] = { n, n / 2 }, [FAIR_NEW] = { n / 4, n / 8 }, [FAIR_SLOW] = { n / 2, n / 4 } } };
}

static void
plan(struct checker *k)
{
	struct mono at = schedule_next(k->schedule);

	if (at.ns == MONO_NEVER.ns)
		at = MONO_ZERO;		/* the end of a run plans again */
	if (at.ns == k->planned.ns)
		return;
	k->planned = at;
	ev_timer_stop(k->loop, &k->due);
	if (at.ns == 0)
		return;
	double after = mono_seconds(mono_sub(at, clock_mono()));
	ev_timer_set(&k->due, after > 0 ? after : 0., 0.);
	ev_timer_start(k->loop, &k->due);
}

/* -- what -- */

static void
report(struct task *c, enum health status, struct span output)
{
	uint64_t h = fnv1a(FNV1A_START, output);

	if (c->reported && c->status == status && c->output_hash == h)
		return;
	c->reported = true;
	c->status = status;
	c->output_hash = h;
	(void)chan_send_record(c->checker->chan, MSG_CHECK_RESULT, 0, &msg_check_result_schema,
	    &(struct msg_check_result){ c->node.hash, span_str(health_name(status)), output });	/* else it is closed */
}

static void
log_run(const struct task *c, enum health status)
{
	struct span what = c->def.Target.len > 0 || c->def.Args.n == 0 ? c->def.Target : c->def.Args.v[0];

	log_debug("check", "%s %.*s: %s", c->kind->name, (int)what.len, (const char *)what.p, health_name(status));
}

static void
give_place_back(struct task *c)
{
	struct checker *k = c->checker;

	k->stats.under_way--;
	fair_remove(k->places, &c->place);
	if (fair_waiting(k->places) > 0)
		ev_feed_event(k->loop, &k->due, EV_TIMER);
}

static void
finish_run(struct task *c, enum health status, struct span output, bool firm)
{
	struct checker *k = c->checker;
	enum health effect;

	c->run = NULL;
	c->ran = true;
	c->slow = mono_before(SLOW, mono_sub(clock_mono(), c->began));
	give_place_back(c);
	if (log_enabled(LOG_LVL_DEBUG))
		log_run(c, status);
	if (output.len > OUTPUT_BYTES_MAX)
		output.len = OUTPUT_BYTES_MAX;
	if (verdict_take(&c->verdict, status, firm, &effect))
		report(c, effect, output);
	schedule_again(k->schedule, &c->slot, mono_add(clock_mono(), EARLY));
	plan(k);
}

/* -- one run -- */

static void
on_expired(struct ev_loop *loop, ev_timer *w, int events UNUSED)
{
	struct probe_run *r = w->data;
	const struct probe_kind *kind = r->check->kind;
	struct mono queued = kind->queued == NULL ? MONO_ZERO : kind->queued(r);
	struct mono left = mono_sub(mono_add(r->begun, mono_add(r->check->timeout, queued)), clock_mono());

	if (queued.ns == 0 || left.ns <= 0) {
		kind->expired(r);
		return;
	}
	ev_timer_set(w, mono_seconds(left), 0.);
	ev_timer_start(loop, w);
}

/* What is known at once still ends the run from the loop. */
static void
on_begin(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct probe_run *r = w->data;

	r->begun = clock_mono();
	ev_set_cb(w, on_expired);
	r->check->kind->begin(r);
}

struct mono
run_left(const struct probe_run *r)
{
	struct mono left = mono_sub(mono_add(r->begun, r->check->timeout), clock_mono());

	return mono_before(MONO_MS(1), left) ? left : MONO_MS(1);
}

void
run_arm(struct probe_run *r)
{
	struct ev_loop *loop = r->check->checker->loop;

	ev_timer_stop(loop, &r->timer);
	ev_timer_set(&r->timer, mono_seconds(run_left(r)), 0.);
	ev_timer_start(loop, &r->timer);
}

static void
run_free(struct probe_run *r)
{
	ev_timer_stop(r->check->checker->loop, &r->timer);	/* also what is fed */
	if (r->begun.ns != 0)
		r->check->kind->clear(r);
	free(r);
}

void
run_end(struct probe_run *r, enum health status, struct buf *output, bool firm)
{
	struct task *c = r->check;

	run_free(r);
	finish_run(c, status, buf_span(output), firm);
	buf_done(output);
}

void
run_endf(struct probe_run *r, enum health status, const char *fmt, ...)
{
	struct buf out = BUF_INIT(OUTPUT_BYTES_MAX);
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&out, fmt, ap);
	va_end(ap);
	run_end(r, status, &out, false);
}

void
run_end_program_late(struct probe_run *r, const struct tail *printed)
{
	struct buf out = BUF_INIT(2 * OUTPUT_BYTES_MAX);

	r->check->checker->stats.timed_out++;
	buf_puts(&out, "Timed out (");
	duration_print(r->check->timeout.ns, &out);
	buf_puts(&out, ") running check\n\n");
	tail_print(printed, &out);
	run_end(r, HEALTH_CRITICAL, &out, true);
}

/* -- those that are due -- */

static struct task *
task_of(struct fair_item *it)
{
	return (struct task *)((char *)it - offsetof(struct task, place));
}

static bool
is_late(const struct task *c, struct mono now)
{
	return mono_before(mono_add(c->slot.due.when, mono_mul(c->slot.interval, 2)), now);
}

static void
note_late(struct task *c, struct mono now)
{
	struct checker *k = c->checker;

	snprintf(k->latest.id, sizeof(k->latest.id), "%.*s", (int)c->id.len, (const char *)c->id.p);
	snprintf(k->latest.service, sizeof(k->latest.service), "%.*s", (int)c->service.len, (const char *)c->service.p);
	k->latest.by = mono_sub(now, c->slot.due.when);
}

static void
start_run(struct task *c)
{
	struct checker *k = c->checker;

	c->began = clock_mono();
	if (is_late(c, c->began)) {
		note_late(c, c->began);
		k->stats.late++;
	}
	k->stats.runs++;
	k->stats.under_way++;
	if ((c->run = calloc(1, c->kind->size)) == NULL) {
		finish_run(c, HEALTH_CRITICAL, span_str("out of memory"), false);
		return;
	}
	c->run->check = c;
	ev_timer_init(&c->run->timer, on_begin, 0., 0.);
	c->run->timer.data = c->run;
	ev_feed_event(k->loop, &c->run->timer, EV_TIMER);
}

static enum fair_class
class_of(const struct task *c)
{
	return !c->ran ? FAIR_NEW : c->slow ? FAIR_SLOW : FAIR_QUICK;
}

/* Checks of the node have no service: each is for itself. */
static struct span
owner_of(const struct task *c)
{
	return c->service.len > 0 ? c->service : c->id;
}

static void
on_due(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct checker *k = w->data;
	struct mono now = clock_mono();
	unsigned waiting = fair_waiting(k->places);
	struct fair_item *it;
	struct slot *slot;

	k->planned = MONO_ZERO;
	while ((slot = schedule_due(k->schedule, mono_add(now, EARLY))) != NULL) {
		struct task *c = (struct task *)slot;

		if (fair_add(k->places, &c->place, owner_of(c), class_of(c), now) != TV_OK)
			schedule_again(k->schedule, slot, mono_add(now, EARLY));	/* no memory: the next time */
	}
	while ((it = fair_next(k->places, now)) != NULL)
		start_run(task_of(it));
	if (fair_waiting(k->places) > waiting)
		k->stats.postponed += fair_waiting(k->places) - waiting;
	plan(k);
}

/* What waits now and is late is told before it has begun. */
static void
warn_late(struct checker *k)
{
	struct mono now = clock_mono();
	unsigned waiting = 0;
	struct span owner;

	if (k->late_told.ns != 0 && mono_before(now, mono_add(k->late_told, LATE_EVERY)))
		return;
	for (struct fair_item *it = fair_first(k->places); it != NULL; it = fair_behind(it))
		if (is_late(task_of(it), now) && waiting++ == 0)
			note_late(task_of(it), now);
	if (waiting == 0 && k->stats.late == k->late_before)
		return;
	unsigned most = fair_greatest(k->places, &owner);
	log_warn("check", "checks run late: %s%s%s by %.1f s, %" PRIu64 " since the last line, %u wait now; %" PRIu64
	    " runs are under way (check_runs_max is %" PRIu64 "), %u of them of %.*s", k->latest.id,
	    k->latest.service[0] != '\0' ? " of service " : "", k->latest.service, mono_seconds(k->latest.by),
	    k->stats.late - k->late_before, waiting, k->stats.under_way, k->setup.runs_max, most, (int)owner.len,
	    (const char *)owner.p);
	k->late_told = now;
	k->late_before = k->stats.late;
}

static void
count_lookups(struct checker *k)
{
	struct resolver_stats r;

	if (k->resolver == NULL)
		return;
	resolver_stats(k->resolver, &r);
	k->stats.lookups = r.questions;
	k->stats.lookups_unanswered = r.unanswered;
	k->stats.lookups_old = r.old_used;
	k->stats.lookups_waiting = r.waiting;
}

static void
on_tell(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct checker *k = w->data;

	warn_late(k);
	count_lookups(k);
	if (memcmp(&k->stats, &k->told, sizeof(k->told)) == 0)
		return;
	k->told = k->stats;
	(void)chan_send_record(k->chan, MSG_CHECK_STATS, 0, &msg_check_stats_schema, &k->told);
}

/* -- the table -- */

enum tv_err
checker_setup(struct checker *k, const struct msg_check_setup *setup)
{
	bool again = k->setup.runs_max > 0;

	if (setup->runs_max == 0 || setup->log_level > LOG_LVL_DEBUG)
		return TV_EFORMAT;
	k->setup = *setup;
	log_init("rpcd", (enum log_level)setup->log_level, (enum log_dest)k->log_dest);
	struct fair_conf places = places_of(setup->runs_max);
	if (again) {
		fair_limits(k->places, &places);
		return TV_OK;
	}
	if ((k->places = fair_new(&places)) == NULL)
		return TV_ENOMEM;
	ev_timer_init(&k->due, on_due, 0., 0.);
	ev_timer_init(&k->tell, on_tell, TELL_S, TELL_S);
	k->due.data = k->tell.data = k;
	ev_timer_start(k->loop, &k->tell);
	return TV_OK;
}

static void
check_free(struct task *c)
{
	struct checker *k = c->checker;

	if (c->run != NULL) {
		if (c->run->begun.ns != 0 && c->kind->cancelled != NULL)
			c->kind->cancelled(c->run);
		run_free(c->run);
		give_place_back(c);
	}
	fair_remove(k->places, &c->place);
	if (c->slot.interval.ns > 0)
		schedule_remove(k->schedule, &c->slot);
	arena_done(&c->arena);
	buf_done(&c->bytes);
	free(c->kept);
	free(c);
}

void
checker_drop(struct checker *k, uint64_t handle)
{
	struct task *c = find_task(k, handle);

	if (c == NULL)
		return;
	map_remove(&k->tasks, &c->node);
	check_free(c);
	plan(k);
}

static const struct probe_kind *
kind_of(const struct checker *k, struct span name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (span_eqs(name, kinds[i]->name) && kinds[i]->role == k->role)
			return kinds[i];
	return NULL;
}

static enum tv_err
unpack(struct task *c, const struct msg_check_put *put)
{
	struct rd in;
	enum tv_err err;

	buf_putspan(&c->bytes, put->run);
	if (c->bytes.failed)
		return TV_ENOMEM;
	in = rd_span_over(buf_span(&c->bytes));
	if ((err = schema_unpack(&check_run_schema, &in, &c->arena, &c->def)) != TV_OK || (err = rd_end(&in)) != TV_OK)
		return err;
	c->id = arena_copy(&c->arena, put->id);
	c->service = arena_copy(&c->arena, put->service);
	const struct check_run *d = &c->def;
	if ((c->kind = kind_of(c->checker, d->Kind)) == NULL)
		return TV_EFORMAT;
	c->timeout = d->Timeout > 0 ? (struct mono){ d->Timeout } : c->kind->timeout;
	c->output_max = d->OutputMaxSize == 0 ? OUTPUT_BYTES : d->OutputMaxSize > OUTPUT_BYTES_MAX ?
	    OUTPUT_BYTES_MAX : (uint32_t)d->OutputMaxSize;
	verdict_init(&c->verdict, d->SuccessBeforePassing, d->FailuresBeforeWarning, d->FailuresBeforeCritical,
	    put->known, health_of(put->status));
	return TV_OK;
}

enum tv_err
checker_put(struct checker *k, const struct msg_check_put *put)
{
	struct task *c;
	enum tv_err err;

	if (k->setup.runs_max == 0)
		return TV_EFORMAT;
	checker_drop(k, put->handle);
	if ((c = calloc(1, sizeof(*c))) == NULL)
		return TV_ENOMEM;
	c->checker = k;
	c->bytes = BUF_INIT(DEFINITION_BYTES_MAX);
	c->arena = ARENA_INIT(DEFINITION_BYTES_MAX);
	if ((err = unpack(c, put)) == TV_OK) {
		struct mono interval = { c->def.Interval };

		err = schedule_add(k->schedule, &c->slot, mono_before(interval, INTERVAL_MIN) ? INTERVAL_MIN : interval,
		    !put->known, clock_mono());
	}
	if (err != TV_OK) {
		c->slot.interval = MONO_ZERO;
		check_free(c);
		return err;
	}
	map_add(&k->tasks, &c->node, put->handle);
	plan(k);
	return TV_OK;
}
