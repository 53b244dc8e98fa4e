/*
 * Channels under test: two recording ends on one loop, and waiting for conditions.
 * Header only; each check program that includes it uses a part.
 */
#ifndef TV_TESTS_UNIT_CHAN_WORLD_H
#define TV_TESTS_UNIT_CHAN_WORLD_H

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/net/chan.h"

#define WORLD_ADDR "127.2.0.1"
/* Nothing here takes long; a condition that is not met by then never will be. */
#define WATCHDOG_S 50.

#pragma GCC diagnostic ignored "-Wunused-function"

/* One end. */
struct end {
	struct ev_loop *loop;
	struct chan *c;			/* NULL after on_close */
	unsigned opens, closes, frames;
	enum tv_err why;
	bool echo;			/* answers each frame */
	bool pause_each;		/* pauses after each frame */
	enum tv_err answer;		/* what on_frame returns */
	struct frame last;		/* body is not valid */
	struct buf got;			/* bodies, one after the other */
};

static enum tv_err
end_on_frame(void *ctx, struct chan *c, const struct frame *f)
{
	struct end *e = ctx;

	e->frames++;
	e->last = *f;
	buf_putspan(&e->got, f->body);
	if (e->echo)
		ck_assert_int_eq(chan_send(c, f->type, f->flags | FRAME_REPLY, f->id, f->body), TV_OK);
	if (e->pause_each)
		chan_pause(c, true);
	return e->answer;
}

static void
end_on_open(void *ctx, struct chan *c)
{
	struct end *e = ctx;

	(void)c;
	ck_assert_uint_eq(e->opens, 0);
	ck_assert_uint_eq(e->closes, 0);
	e->opens++;
}

static void
end_on_close(void *ctx, struct chan *c, enum tv_err why)
{
	struct end *e = ctx;

	ck_assert(!chan_is_open(c));
	ck_assert_int_eq(chan_send(c, 1, 0, 0, SPAN_NONE), TV_ECLOSED);
	e->closes++;
	e->why = why;
	e->c = NULL;
}

static const struct chan_events end_events = { end_on_frame, end_on_open, end_on_close };

static struct chan_conf
end_conf(struct end *e, const char *name)
{
	return (struct chan_conf){
		.loop = e->loop, .events = &end_events, .ctx = e, .name = name,
		.body_max = 2 << 20, .out_max = 16 << 20,
	};
}

static void
end_init(struct end *e, struct ev_loop *loop)
{
	*e = (struct end){ .loop = loop, .got = BUF_INIT(64 << 20) };
}

static void
end_done(struct end *e)
{
	chan_free(e->c);
	e->c = NULL;
	buf_done(&e->got);
}

/* A loop for one test; the default loop would be shared between forks. */
static struct ev_loop *
world_loop(void)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);

	ck_assert_ptr_nonnull(loop);
	log_init("check", LOG_LVL_ERR, LOG_TO_STDERR);
	return loop;
}

struct world_dog {
	ev_timer watchdog, tick;
};

static void
world_bark(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop, (void)w, (void)revents;
	ck_abort_msg("the condition is not met");
}

static void
world_tick(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop, (void)w, (void)revents;
}

static void
world_dog_start(struct ev_loop *loop, struct world_dog *d, bool ticks)
{
	ev_now_update(loop);
	ev_timer_init(&d->watchdog, world_bark, WATCHDOG_S, 0.);
	ev_timer_start(loop, &d->watchdog);
	ev_timer_init(&d->tick, world_tick, 0.002, 0.002);
	if (ticks)
		ev_timer_start(loop, &d->tick);
}

static void
world_dog_stop(struct ev_loop *loop, struct world_dog *d)
{
	ev_timer_stop(loop, &d->watchdog);
	ev_timer_stop(loop, &d->tick);
}

/*
 * Runs the loop until cond is true.  A condition may come true before the loop sleeps, outside of any
 * event: UNTIL looks again every now and then, UNTIL_QUIET only when an event ends the sleep.
 */
#define UNTIL_(loop_, cond_, ticks_) do { \
	struct world_dog dog_; \
	world_dog_start(loop_, &dog_, ticks_); \
	while (!(cond_)) \
		ev_run(loop_, EVRUN_ONCE); \
	world_dog_stop(loop_, &dog_); \
} while (0)
#define UNTIL(loop_, cond_) UNTIL_(loop_, cond_, true)
#define UNTIL_QUIET(loop_, cond_) UNTIL_(loop_, cond_, false)

/* Lets everything that can happen happen, without waiting. */
static void
world_settle(struct ev_loop *loop)
{
	for (int i = 0; i < 20; i++)
		ev_run(loop, EVRUN_NOWAIT);
}

static void
world_pair(int type, int fds[2])
{
	ck_assert_int_eq(socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
}

/* Port of a listening TCP socket. */
static uint16_t
world_port(int fd)
{
	struct sockaddr_in in;
	socklen_t len = sizeof(in);

	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	return ntohs(in.sin_port);
}

/* A path that no other test uses at the same time. */
static const char *
world_path(char *dst, size_t cap)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dst, cap, "%s/tv-check-%ld.sock", tmp != NULL ? tmp : "/tmp", (long)getpid());
	return dst;
}

/* A listening end that accepts one channel into *e. */
struct door {
	struct end *e;
	struct chan_conf conf;
	struct listener *l;
};

static void
door_accept(void *ctx, int fd)
{
	struct door *d = ctx;

	ck_assert_ptr_null(d->e->c);
	d->e->c = chan_new(fd, &d->conf);
}

/* Runs the tests of a case. */
static int
world_main(Suite *s)
{
	SRunner *r = srunner_create(s);
	int failed;

	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}

#endif
