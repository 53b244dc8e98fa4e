/* The checks of this process: when they run, and what comes of it. */
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/msg.h"
#include "rpcd/check/checker.h"

#define EARLY MONO_MS(20)		/* what is due so soon runs now: one awakening for many */
#define TELL_S 5.			/* figures go to rpcd this often, where they changed */
#define INTERVAL_MIN MONO_S(1)
#define OUTPUT_BYTES 4096
#define DEFINITION_BYTES_MAX (1u << 20)

static const struct probe_kind *const kinds[] = { &probe_tcp, &probe_http, &probe_grpc, &probe_h2ping,
	&probe_script, &probe_docker };

static struct task **
find(struct checker *k, uint64_t handle)
{
	struct task **at = &k->chains[handle % CHAINS];

	while (*at != NULL && (*at)->handle != handle)
		at = &(*at)->next;
	return at;
}

/* -- when -- */

static void
plan(struct checker *k)
{
	struct mono at = schedule_next(k->schedule);

	if (at.ns == MONO_NEVER.ns || k->stats.under_way >= k->setup.runs_max)
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

static void
start(struct task *c)
{
	struct checker *k = c->checker;

	k->stats.runs++;
	k->stats.under_way++;
	c->kind->start(c);
}

static void
on_due(struct ev_loop *loop, ev_timer *w, int events)
{
	struct checker *k = w->data;
	struct slot *slot;

	(void)loop;
	(void)events;
	k->planned = MONO_ZERO;
	while (k->stats.under_way < k->setup.runs_max &&
	    (slot = schedule_due(k->schedule, mono_add(clock_mono(), EARLY))) != NULL)
		start((struct task *)slot);
	k->stats.postponed += k->stats.under_way >= k->setup.runs_max;
	plan(k);
}

/* -- what -- */

static uint64_t
hash(struct span s)
{
	uint64_t h = 0xcbf29ce484222325;

	for (size_t i = 0; i < s.len; i++)
		h = (h ^ s.p[i]) * 0x100000001b3;
	return h;
}

static void
report(struct task *c, enum health status, struct span output)
{
	uint64_t h = hash(output);

	if (c->reported && c->status == status && c->output_hash == h)
		return;
	c->reported = true;
	c->status = status;
	c->output_hash = h;
	(void)chan_send_record(c->checker->chan, MSG_CHECK_RESULT, 0, &msg_check_result_schema,
	    &(struct msg_check_result){ c->handle, span_str(health_name(status)), output });	/* else it is closed */
}

static void
log_run(const struct task *c, enum health status)
{
	struct span what = c->def.Target.len > 0 || c->def.Args.n == 0 ? c->def.Target : c->def.Args.v[0];

	log_debug("check", "%s %.*s: %s", c->kind->name, (int)what.len, (const char *)what.p, health_name(status));
}

void
check_done(struct task *c, enum health status, struct span output, bool firm)
{
	struct checker *k = c->checker;
	enum health effect;

	c->run = NULL;
	k->stats.under_way--;
	if (log_enabled(LOG_LVL_DEBUG))
		log_run(c, status);
	if (output.len > OUTPUT_BYTES_MAX)
		output.len = OUTPUT_BYTES_MAX;
	if (verdict_take(&c->verdict, status, firm, &effect))
		report(c, effect, output);
	schedule_again(k->schedule, &c->slot, mono_add(clock_mono(), EARLY));
	plan(k);
}

static void
on_tell(struct ev_loop *loop, ev_timer *w, int events)
{
	struct checker *k = w->data;

	(void)loop;
	(void)events;
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
	if (again)
		return TV_OK;
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
		c->kind->cancel(c);
		k->stats.under_way--;
	}
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
	struct task **at = find(k, handle), *c = *at;

	if (c == NULL)
		return;
	*at = c->next;
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
	c->handle = put->handle;
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
	struct task **at = find(k, c->handle);
	c->next = *at;
	*at = c;
	plan(k);
	return TV_OK;
}
