/*
 * Script checks: a program is run, its status and output are the result.  Exit status 0 is passing, 1 warning,
 * everything else critical.  Whatever it prints, its end is kept; whatever it starts is gone after the run (keeper.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/text/duration.h"
#include "rpcd/check/checker.h"
#include "rpcd/check/keeper.h"
#include "rpcd/check/reason.h"
#include "rpcd/check/tail.h"

#define READ_BYTES (64u << 10)

struct run {
	struct task *check;
	struct keeper keeper;
	bool started;
	int error;			/* errno, if it is not */
	struct tail output;
	ev_io on_output, on_report;
	ev_timer begin;
};

/* The pipe that tells keepers of our end, whatever that is: nothing is ever written. */
static int
life(void)
{
	static int fds[2] = { -1, -1 };

	if (fds[0] < 0 && pipe2(fds, O_CLOEXEC) != 0)
		fds[0] = -1;
	return fds[0];
}

static void
run_free(struct run *r)
{
	struct ev_loop *loop = r->check->checker->loop;

	ev_timer_stop(loop, &r->begin);
	if (r->started) {
		ev_io_stop(loop, &r->on_output);
		ev_io_stop(loop, &r->on_report);
		close(r->keeper.output);
		close(r->keeper.report);
	}
	tail_done(&r->output);
	free(r);
}

static void
put_output(struct run *r, struct buf *out)
{
	struct span kept = tail_span(&r->output);

	if (r->output.total > kept.len)
		buf_printf(out, "Captured %zu of %llu bytes\n...\n", kept.len, (unsigned long long)r->output.total);
	buf_putspan(out, kept);
}

static void
finish_script(struct run *r, const struct keeper_report *report)
{
	struct task *c = r->check;
	struct buf out = BUF_INIT(2 * OUTPUT_BYTES_MAX);
	enum health status = HEALTH_CRITICAL;
	const struct span *program = &c->def.Args.v[0];
	char why[128];

	if (report->end == KEEPER_NOT_STARTED) {
		buf_printf(&out, "fork/exec %.*s: %s", (int)program->len, (const char *)program->p,
		    reason_of_errno(report->value, why, sizeof(why)));
	} else if (report->end == KEEPER_TIMED_OUT) {
		c->checker->stats.timed_out++;
		buf_puts(&out, "Timed out (");
		duration_print(c->timeout.ns, &out);
		buf_puts(&out, ") running check\n\n");
		put_output(r, &out);
	} else {
		if (report->end == KEEPER_EXITED && report->value <= 1)
			status = report->value == 0 ? HEALTH_PASSING : HEALTH_WARNING;
		put_output(r, &out);
	}
	run_free(r);
	check_done(c, status, buf_span(&out), report->end == KEEPER_TIMED_OUT);
	buf_done(&out);
}

/* False: there is no more for now.  A flood is read piece by piece, so that others get their turn. */
static bool
read_output(struct run *r)
{
	static uint8_t bytes[READ_BYTES];
	ssize_t n = read(r->keeper.output, bytes, sizeof(bytes));

	if (n > 0)
		tail_put(&r->output, span_of(bytes, (size_t)n));
	else if (n == 0)
		ev_io_stop(r->check->checker->loop, &r->on_output);
	return n > 0;
}

static void
on_output(struct ev_loop *loop, ev_io *w, int events)
{
	(void)loop;
	(void)events;
	(void)read_output(w->data);
}

/* All of it is gone: what is in the pipe is all that comes. */
static void
on_report(struct ev_loop *loop, ev_io *w, int events)
{
	struct run *r = w->data;
	struct keeper_report report;
	ssize_t n = read(r->keeper.report, &report, sizeof(report));

	(void)loop;
	(void)events;
	if (n < 0 && errno == EAGAIN)
		return;
	if (n != sizeof(report))		/* killed */
		report = (struct keeper_report){ KEEPER_KILLED, SIGKILL };
	while (read_output(r))
		;
	finish_script(r, &report);
}

static void
on_begin(struct ev_loop *loop, ev_timer *w, int events)
{
	struct run *r = w->data;

	(void)events;
	r->started = life() >= 0 && keeper_start(&r->check->def.Args, r->check->timeout, life(), &r->keeper);
	if (!r->started) {
		finish_script(r, &(struct keeper_report){ KEEPER_NOT_STARTED, errno });
		return;
	}
	ev_io_set(&r->on_output, r->keeper.output, EV_READ);
	ev_io_set(&r->on_report, r->keeper.report, EV_READ);
	ev_io_start(loop, &r->on_output);
	ev_io_start(loop, &r->on_report);
}

static void
start_script(struct task *c)
{
	struct run *r = calloc(1, sizeof(*r));

	if (r == NULL || c->def.Args.n == 0) {
		free(r);
		check_done(c, HEALTH_CRITICAL, span_str(r == NULL ? "out of memory" : "no program is given"), false);
		return;
	}
	r->check = c;
	c->run = r;
	tail_init(&r->output, c->output_max);
	ev_init(&r->on_output, on_output);
	ev_init(&r->on_report, on_report);
	ev_timer_init(&r->begin, on_begin, 0., 0.);
	r->on_output.data = r->on_report.data = r->begin.data = r;
	ev_feed_event(c->checker->loop, &r->begin, EV_TIMER);
}

/* The keeper kills the script with all that it started. */
static void
cancel_script(struct task *c)
{
	struct run *r = c->run;

	ev_clear_pending(c->checker->loop, &r->begin);
	if (r->started)
		(void)kill(r->keeper.pid, SIGTERM);
	run_free(r);
}

const struct probe_kind probe_script = { .name = "script", .role = ROLE_SCRIPTS, .timeout = { 30000000000 },
	.start = start_script, .cancel = cancel_script };
