/* See helper_main.h. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/proc/helper_main.h"
#include "common/proc/log_drain.h"
#include "common/proc/helper_monitor.h"

#define READ_BYTES 4096
#define LATER_BYTES_MAX (2 * (MSG_SMALL + READ_BYTES))

bool
helper_main_begin(const struct helper_program *program, int argc, char **argv, struct helper_args *args)
{
	int arg = 1 + (int)program->first;

	if (argc != arg + 3 + program->last || fcntl(HELPER_FD, F_SETFD, FD_CLOEXEC) != 0) {
		fprintf(stderr, "%s is started by %s, see %s(8)\n", program->program, program->owner, program->owner);
		return false;
	}
	*args = (struct helper_args){
		.first = argv + 1, .log_level = atoi(argv[arg]), .log_dest = atoi(argv[arg + 1]),
		.best_effort = strcmp(argv[arg + 2], "best-effort") == 0, .last = program->last ? argv[arg + 3] : NULL,
	};
	log_init(program->owner, (enum log_level)args->log_level, (enum log_dest)args->log_dest);
	signal(SIGPIPE, SIG_IGN);
	umask(077);
	(void)prctl(PR_SET_NAME, program->title);
	return true;
}

/* -- on a loop -- */

static struct {
	enum tv_err (*on_frame)(void *ctx, struct chan *c, const struct frame *f);
	void *ctx;
	struct chan *chan;
	struct log_drain drain;
} served;

static enum tv_err
on_frame(void *ctx UNUSED, struct chan *c, const struct frame *f)
{
	if (f->type == MSG_PING && (f->flags & FRAME_REPLY) == 0)
		return chan_send(c, MSG_PING, FRAME_REPLY, f->id, MSG_EMPTY);
	return served.on_frame(served.ctx, c, f);
}

/* The daemon has ended, or wants this process no more.  What is under way ends with it. */
static void
on_close(void *ctx UNUSED, struct chan *c UNUSED, enum tv_err why)
{
	bool wanted = why == TV_OK || why == TV_EOF || why == TV_ECLOSED;

	if (!wanted)
		log_err("helper", "channel of the daemon: %s", tv_strerror(why));
	_exit(wanted ? 0 : 1);
}

struct chan *
helper_main_serve(struct ev_loop *loop, size_t body_max, size_t out_max,
    enum tv_err (*fn)(void *ctx, struct chan *c, const struct frame *f), void *ctx)
{
	static const struct chan_events events = { .on_frame = on_frame, .on_close = on_close };

	served.on_frame = fn;
	served.ctx = ctx;
	log_drain_start(&served.drain, loop);
	(void)fcntl(HELPER_FD, F_SETFL, fcntl(HELPER_FD, F_GETFL) | O_NONBLOCK);
	served.chan = chan_new(HELPER_FD, &(struct chan_conf){
		.loop = loop, .events = &events, .name = "daemon", .body_max = body_max, .out_max = out_max,
	});
	return served.chan;
}

_Noreturn void
helper_main_renew(void)
{
	(void)chan_send(served.chan, MSG_HELPER_RENEW, 0, 0, MSG_EMPTY);
	chan_flush(served.chan);		/* if it does not leave, this is a death as others are */
	_exit(0);
}

/* -- without one -- */

enum tv_err
helper_main_write(struct span out)
{
	while (out.len > 0) {
		ssize_t n = write(HELPER_FD, out.p, out.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return TV_ESYS;
		out = span_of(out.p + n, out.len - (size_t)n);
	}
	return TV_OK;
}

static enum tv_err
answer_ping(const struct frame *f)
{
	struct buf out = BUF_INIT(FRAME_HEAD_BYTES + 16);
	enum tv_err err = TV_ENOMEM;

	frame_write(&out, &(struct frame){ MSG_PING, FRAME_REPLY, f->id, MSG_EMPTY });
	if (!out.failed)
		err = helper_main_write(buf_span(&out));
	buf_done(&out);
	return err;
}

/* Answers the heartbeats at the front; returns the bytes of the frame behind them, 0: more are needed, or an error. */
static long
answer_pings(struct buf *in, size_t body_max, struct frame *f)
{
	for (;;) {
		long used = frame_read(buf_span(in), body_max, f);

		if (used <= 0 || f->type != MSG_PING)
			return used;
		enum tv_err err = answer_ping(f);
		if (err != TV_OK)
			return err;
		buf_drop(in, (size_t)used);
	}
}

enum tv_err
helper_main_read(struct helper_task *t, size_t body_max, struct frame *f)
{
	long used;

	t->in = BUF_INIT(body_max + FRAME_HEAD_BYTES + 2 * READ_BYTES);
	t->later = BUF_INIT(LATER_BYTES_MAX);
	(void)fcntl(HELPER_FD, F_SETFL, fcntl(HELPER_FD, F_GETFL) & ~O_NONBLOCK);
	while ((used = answer_pings(&t->in, body_max, f)) == 0) {
		uint8_t *to = buf_room(&t->in, READ_BYTES);
		ssize_t n = to == NULL ? 0 : read(HELPER_FD, to, READ_BYTES);

		if (to == NULL)
			return TV_ENOMEM;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0 ? TV_EOF : TV_ESYS;
		t->in.len += (size_t)n;
	}
	if (used < 0)
		return (enum tv_err)used;
	buf_put(&t->later, t->in.data + used, t->in.len - (size_t)used);
	return t->later.failed ? TV_EFORMAT : TV_OK;
}

void
helper_main_pulse(struct helper_task *t)
{
	struct frame f;
	uint8_t *to;
	ssize_t n;

	for (;;) {
		if (answer_pings(&t->later, MSG_SMALL, &f) != 0 || (to = buf_room(&t->later, READ_BYTES)) == NULL)
			_exit(1);		/* there is no second task */
		n = recv(HELPER_FD, to, READ_BYTES, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0)
			_exit(n == 0 ? 0 : 1);
		t->later.len += (size_t)n;
	}
}

void
helper_task_done(struct helper_task *t)
{
	buf_done(&t->in);
	buf_done(&t->later);
}
