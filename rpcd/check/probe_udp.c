/*
 * UDP checks: an empty datagram is sent.  The check is critical when the host answers that no socket is bound to the
 * port (ICMP).  It passes with any answer, and with none until the timeout, since most services do not answer an empty
 * datagram.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "rpcd/check/checker.h"
#include "rpcd/check/dial.h"
#include "rpcd/check/reason.h"

struct udp {
	struct task *check;
	struct dial dial;
	int fd;				/* -1: its address is not known yet */
	ev_io io;
	ev_timer timer;			/* begin, then the timeout */
	struct mono begun;
};

static void
udp_free(struct udp *u)
{
	struct ev_loop *loop = u->check->checker->loop;

	dial_stop(&u->dial);
	ev_io_stop(loop, &u->io);
	ev_timer_stop(loop, &u->timer);
	if (u->fd >= 0)
		close(u->fd);
	free(u);
}

static void
finish_udp(struct udp *u, enum health status, const char *text)
{
	struct task *c = u->check;

	udp_free(u);
	check_done(c, status, span_str(text), false);
}

static void
succeed(struct udp *u)
{
	const struct span *target = &u->check->def.Target;
	char text[DIAL_TEXT_BYTES];

	snprintf(text, sizeof(text), "UDP connect %.*s: Success", (int)target->len, (const char *)target->p);
	finish_udp(u, HEALTH_PASSING, text);
}

/* "read udp 10.0.0.1:9: connection refused": without our own port, which is another one each time. */
static void
fail_udp(struct udp *u, const char *what, int error)
{
	char addr[RESOLVE_TEXT_BYTES], reason[64], text[DIAL_TEXT_BYTES];

	snprintf(text, sizeof(text), "%s udp %s: %s", what, address_text(&u->dial.addresses.v[u->dial.next - 1], addr),
	    reason_of_errno(error, reason, sizeof(reason)));
	finish_udp(u, HEALTH_CRITICAL, text);
}

static void
on_io(struct ev_loop *loop, ev_io *w, int events)
{
	struct udp *u = w->data;
	char byte;

	(void)loop;
	(void)events;
	if (recv(u->fd, &byte, sizeof(byte), 0) >= 0)
		succeed(u);
	else if (errno != EAGAIN && errno != EINTR)
		fail_udp(u, "read", errno);
}

static void
on_dialled(void *ctx, int fd, const char *why)
{
	struct udp *u = ctx;

	u->fd = fd;
	if (fd < 0) {
		finish_udp(u, HEALTH_CRITICAL, why);
	} else if (send(fd, "", 0, 0) < 0 && errno != EAGAIN) {
		fail_udp(u, "write", errno);
	} else {
		ev_io_set(&u->io, fd, EV_READ);
		ev_io_start(u->check->checker->loop, &u->io);
	}
}

static void
on_timeout(struct ev_loop *loop, ev_timer *w, int events)
{
	struct udp *u = w->data;
	char at[DIAL_TEXT_BYTES], text[DIAL_TEXT_BYTES + 16];

	(void)events;
	if (check_has_time(u->check, u->begun, dial_queued(&u->dial), loop, w))
		return;
	if (u->fd >= 0) {
		succeed(u);
		return;
	}
	u->check->checker->stats.timed_out++;
	snprintf(text, sizeof(text), "%s: i/o timeout", dial_at(&u->dial, at));
	finish_udp(u, HEALTH_CRITICAL, text);
}

/* What is known at once still ends the run from the loop. */
static void
on_begin(struct ev_loop *loop, ev_timer *w, int events)
{
	struct udp *u = w->data;

	(void)events;
	u->begun = clock_mono();
	ev_set_cb(w, on_timeout);
	ev_timer_set(w, mono_seconds(u->check->timeout), 0.);
	ev_timer_start(loop, w);
	dial_begin_udp(&u->dial, u->check->def.Target);
}

static void
start_udp(struct task *c)
{
	struct checker *k = c->checker;
	struct udp *u = calloc(1, sizeof(*u));

	if (u == NULL) {
		check_done(c, HEALTH_CRITICAL, span_str("out of memory"), false);
		return;
	}
	u->check = c;
	u->fd = -1;
	c->run = u;
	dial_init(&u->dial, k->loop, k->resolver, c->service, on_dialled, u);
	ev_init(&u->io, on_io);
	ev_timer_init(&u->timer, on_begin, 0., 0.);
	u->io.data = u->timer.data = u;
	ev_feed_event(k->loop, &u->timer, EV_TIMER);
}

static void
cancel_udp(struct task *c)
{
	struct udp *u = c->run;

	ev_clear_pending(c->checker->loop, &u->timer);
	udp_free(u);
}

const struct probe_kind probe_udp = { .name = "udp", .timeout = { 10000000000 },
	.start = start_udp, .cancel = cancel_udp };
