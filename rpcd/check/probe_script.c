/*
 * Script checks: a program is run, its status and output are the result.  Exit status 0 is passing, 1 warning,
 * everything else critical.  Whatever it prints, its end is kept; whatever it starts is gone after the run (keeper.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "rpcd/check/checker.h"
#include "rpcd/check/keeper.h"
#include "rpcd/check/reason.h"
#include "rpcd/check/tail.h"

#define READ_BYTES (64u << 10)

struct script {
	struct probe_run run;		/* first */
	struct keeper keeper;
	bool started;
	struct tail output;
	ev_io on_output, on_report;
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
script_clear(struct probe_run *r)
{
	struct script *s = (struct script *)r;
	struct ev_loop *loop = r->check->checker->loop;

	if (s->started) {
		ev_io_stop(loop, &s->on_output);
		ev_io_stop(loop, &s->on_report);
		close(s->keeper.output);
		close(s->keeper.report);
	}
	tail_done(&s->output);
}

static void
finish_script(struct script *s, const struct keeper_report *report)
{
	struct buf out = BUF_INIT(2 * OUTPUT_BYTES_MAX);
	const struct span *program = &s->run.check->def.Args.v[0];
	enum health status = HEALTH_CRITICAL;
	char why[128];

	if (report->end == KEEPER_NOT_STARTED) {
		run_endf(&s->run, HEALTH_CRITICAL, "fork/exec %.*s: %s", (int)program->len, (const char *)program->p,
		    reason_of_errno(report->value, why, sizeof(why)));
	} else if (report->end == KEEPER_TIMED_OUT) {
		run_end_program_late(&s->run, &s->output);
	} else {
		if (report->end == KEEPER_EXITED && report->value <= 1)
			status = report->value == 0 ? HEALTH_PASSING : HEALTH_WARNING;
		tail_print(&s->output, &out);
		run_end(&s->run, status, &out, false);
	}
}

/* False: there is no more for now.  A flood is read piece by piece, so that others get their turn. */
static bool
read_output(struct script *s)
{
	static uint8_t bytes[READ_BYTES];
	ssize_t n = read(s->keeper.output, bytes, sizeof(bytes));

	if (n > 0)
		tail_put(&s->output, span_of(bytes, (size_t)n));
	else if (n == 0)
		ev_io_stop(s->run.check->checker->loop, &s->on_output);
	return n > 0;
}

static void
on_output(struct ev_loop *loop UNUSED, ev_io *w, int events UNUSED)
{
	(void)read_output(w->data);
}

/* All of it is gone: what is in the pipe is all that comes. */
static void
on_report(struct ev_loop *loop UNUSED, ev_io *w, int events UNUSED)
{
	struct script *s = w->data;
	struct keeper_report report;
	ssize_t n = read(s->keeper.report, &report, sizeof(report));

	if (n < 0 && errno == EAGAIN)
		return;
	if (n != sizeof(report))		/* killed */
		report = (struct keeper_report){ KEEPER_KILLED, SIGKILL };
	while (read_output(s))
		;
	finish_script(s, &report);
}

static void
script_begin(struct probe_run *r)
{
	struct script *s = (struct script *)r;
	const struct span_list *args = &r->check->def.Args;
	struct ev_loop *loop = r->check->checker->loop;

	tail_init(&s->output, r->check->output_max);
	if (args->n == 0) {
		run_endf(r, HEALTH_CRITICAL, "no program is given");
		return;
	}
	s->started = life() >= 0 && keeper_start(args, r->check->timeout, life(), &s->keeper);
	if (!s->started) {
		finish_script(s, &(struct keeper_report){ KEEPER_NOT_STARTED, errno });
		return;
	}
	ev_io_init(&s->on_output, on_output, s->keeper.output, EV_READ);
	ev_io_init(&s->on_report, on_report, s->keeper.report, EV_READ);
	s->on_output.data = s->on_report.data = s;
	ev_io_start(loop, &s->on_output);
	ev_io_start(loop, &s->on_report);
}

/* The keeper kills the script with all that it started. */
static void
script_cancelled(struct probe_run *r)
{
	const struct script *s = (struct script *)r;

	if (s->started)
		(void)kill(s->keeper.pid, SIGTERM);
}

const struct probe_kind probe_script = { .name = "script", .role = ROLE_SCRIPTS, .timeout = { 30000000000 },
	.size = sizeof(struct script), .begin = script_begin, .cancelled = script_cancelled, .clear = script_clear };
