/*
 * UDP checks: an empty datagram is sent.  The check is critical when the host answers that no socket is bound to the
 * port (ICMP).  It passes with any answer, and with none until the timeout, since most services do not answer an empty
 * datagram.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpcd/check/checker.h"
#include "rpcd/check/dial.h"
#include "rpcd/check/reason.h"

struct udp {
	struct probe_run run;		/* first */
	struct dial dial;
	int fd;				/* -1: its address is not known yet */
	ev_io io;
};

static void
udp_clear(struct probe_run *r)
{
	struct udp *u = (struct udp *)r;

	dial_stop(&u->dial);
	ev_io_stop(r->check->checker->loop, &u->io);
	if (u->fd >= 0)
		close(u->fd);
}

static void
udp_succeed(struct udp *u)
{
	const struct span *target = &u->run.check->def.Target;

	run_endf(&u->run, HEALTH_PASSING, "UDP connect %.*s: Success", (int)target->len, (const char *)target->p);
}

/* "read udp 10.0.0.1:9: connection refused": without our own port, which is another one each time. */
static void
udp_fail(struct udp *u, const char *what, int error)
{
	char addr[RESOLVE_TEXT_BYTES], reason[64];

	run_endf(&u->run, HEALTH_CRITICAL, "%s udp %s: %s", what,
	    address_text(&u->dial.addresses.v[u->dial.next - 1], addr), reason_of_errno(error, reason, sizeof(reason)));
}

static void
on_io(struct ev_loop *loop UNUSED, ev_io *w, int events UNUSED)
{
	struct udp *u = w->data;
	char byte;

	if (recv(u->fd, &byte, sizeof(byte), 0) >= 0)
		udp_succeed(u);
	else if (errno != EAGAIN && errno != EINTR)
		udp_fail(u, "read", errno);
}

static void
on_dialled(void *ctx, int fd, const char *why)
{
	struct udp *u = ctx;

	u->fd = fd;
	if (fd < 0) {
		run_endf(&u->run, HEALTH_CRITICAL, "%s", why);
	} else if (send(fd, "", 0, 0) < 0 && errno != EAGAIN) {
		udp_fail(u, "write", errno);
	} else {
		ev_io_set(&u->io, fd, EV_READ);
		ev_io_start(u->run.check->checker->loop, &u->io);
	}
}

static struct mono
udp_queued(const struct probe_run *r)
{
	return dial_queued(&((const struct udp *)r)->dial);
}

static void
udp_expired(struct probe_run *r)
{
	struct udp *u = (struct udp *)r;
	char at[DIAL_TEXT_BYTES];

	if (u->fd >= 0) {
		udp_succeed(u);
		return;
	}
	r->check->checker->stats.timed_out++;
	run_endf(r, HEALTH_CRITICAL, "%s: i/o timeout", dial_at(&u->dial, at));
}

static void
udp_begin(struct probe_run *r)
{
	struct udp *u = (struct udp *)r;
	struct task *c = r->check;

	u->fd = -1;
	ev_init(&u->io, on_io);
	u->io.data = u;
	run_arm(r);
	u->dial.udp = true;
	dial_begin(&u->dial, c->checker->loop, c->checker->resolver, c->service, c->def.Target, on_dialled, u);
}

const struct probe_kind probe_udp = { .name = "udp", .timeout = { 10000000000 }, .size = sizeof(struct udp),
	.begin = udp_begin, .expired = udp_expired, .queued = udp_queued, .clear = udp_clear };
