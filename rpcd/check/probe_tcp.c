/* TCP checks: can one connect?  Addresses of a name are tried one after the other. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpcd/check/checker.h"
#include "rpcd/check/reason.h"
#include "rpcd/check/resolve.h"

struct tcp {
	struct task *check;
	char host[256];
	uint16_t port;
	struct addresses addresses;
	unsigned next;			/* of them, to be tried */
	struct lookup *lookup;		/* under way */
	int fd;
	char why[256];			/* of the last one that failed */
	ev_io io;
	ev_timer timer;
};

static void
finish(struct tcp *t, enum health status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void
tcp_free(struct tcp *t)
{
	struct ev_loop *loop = t->check->checker->loop;

	if (t->lookup != NULL)
		resolve_cancel(t->lookup);
	ev_timer_stop(loop, &t->timer);
	ev_io_stop(loop, &t->io);
	if (t->fd >= 0)
		close(t->fd);
	free(t);
}

static void
finish(struct tcp *t, enum health status, const char *fmt, ...)
{
	struct task *c = t->check;
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	tcp_free(t);
	check_done(c, status, span_of(text, n < 0 ? 0 : strlen(text)), false);
}

static void
succeed(struct tcp *t)
{
	const struct span *target = &t->check->def.Target;

	finish(t, HEALTH_PASSING, "TCP connect %.*s: Success", (int)target->len, (const char *)target->p);
}

static void
failed(struct tcp *t, int error)
{
	char addr[RESOLVE_TEXT_BYTES], why[64];

	snprintf(t->why, sizeof(t->why), "dial tcp %s: connect: %s",
	    address_text(&t->addresses.v[t->next - 1], addr), reason_of_errno(error, why, sizeof(why)));
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
}

/* On this machine it has succeeded, or was refused, when connect(2) returns: a second one tells.  0 or errno. */
static int
connect_now(int fd, const struct address *a)
{
	for (int i = 0; i < 2; i++)
		if (connect(fd, &a->sa, address_len(a)) == 0 || errno == EISCONN)
			return 0;
		else if (errno != EINPROGRESS)
			break;
	return errno;
}

static void
dial(struct tcp *t)
{
	struct ev_loop *loop = t->check->checker->loop;

	while (t->next < t->addresses.n) {
		struct address *a = &t->addresses.v[t->next++];

		address_set_port(a, t->port);
		t->fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		int error = t->fd < 0 ? errno : connect_now(t->fd, a);
		if (error == 0) {
			succeed(t);
			return;
		}
		if (error == EALREADY || error == EINPROGRESS) {
			ev_io_set(&t->io, t->fd, EV_WRITE);
			ev_io_start(loop, &t->io);
			return;
		}
		failed(t, error);
	}
	finish(t, HEALTH_CRITICAL, "%s", t->why);
}

static void
on_io(struct ev_loop *loop, ev_io *w, int events)
{
	struct tcp *t = w->data;
	socklen_t len = sizeof(int);
	int error = 0;

	(void)events;
	ev_io_stop(loop, w);
	if (getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error == 0) {
		succeed(t);
		return;
	}
	failed(t, error);
	dial(t);
}

static void
on_found(void *ctx, const struct addresses *found, const char *why)
{
	struct tcp *t = ctx;

	t->lookup = NULL;
	if (found == NULL) {
		finish(t, HEALTH_CRITICAL, "dial tcp: lookup %s: %s", t->host, why);
		return;
	}
	t->addresses = *found;
	dial(t);
}

static void
on_timeout(struct ev_loop *loop, ev_timer *w, int events)
{
	struct tcp *t = w->data;
	char addr[RESOLVE_TEXT_BYTES];

	(void)loop;
	(void)events;
	t->check->checker->stats.timed_out++;
	if (t->lookup != NULL)
		finish(t, HEALTH_CRITICAL, "dial tcp: lookup %s: i/o timeout", t->host);
	else
		finish(t, HEALTH_CRITICAL, "dial tcp %s: i/o timeout",
		    address_text(&t->addresses.v[t->next - 1], addr));
}

/* "host:port", IPv6 addresses in brackets. */
static bool
split(struct span target, char *host, size_t cap, uint16_t *port)
{
	const uint8_t *colon = memrchr(target.p, ':', target.len);
	char digits[8], *end;

	if (colon == NULL || !span_copy(span_of(target.p, (size_t)(colon - target.p)), host, cap) || host[0] == '\0' ||
	    (strchr(host, ':') != NULL && host[0] != '[') ||
	    !span_copy(span_of(colon + 1, (size_t)(target.p + target.len - colon - 1)), digits, sizeof(digits)))
		return false;
	unsigned long n = strtoul(digits, &end, 10);
	*port = (uint16_t)n;
	return isdigit((unsigned char)digits[0]) && *end == '\0' && n > 0 && n <= UINT16_MAX;
}

/* What is known at once still ends the run from the loop. */
static void
on_begin(struct ev_loop *loop, ev_timer *w, int events)
{
	struct tcp *t = w->data;
	const struct span *target = &t->check->def.Target;

	(void)events;
	ev_set_cb(w, on_timeout);
	ev_timer_set(w, mono_seconds(t->check->timeout), 0.);
	ev_timer_start(loop, w);
	if (!split(*target, t->host, sizeof(t->host), &t->port)) {
		finish(t, HEALTH_CRITICAL, "dial tcp: address %.*s: missing port in address", (int)target->len,
		    (const char *)target->p);
	} else if (resolve_literal(t->host, &t->addresses)) {
		dial(t);
	} else if ((t->lookup = resolve(t->check->checker->resolver, t->host, on_found, t)) == NULL) {
		finish(t, HEALTH_CRITICAL, "dial tcp: lookup %s: out of memory", t->host);
	}
}

static void
start(struct task *c)
{
	struct tcp *t = calloc(1, sizeof(*t));

	if (t == NULL) {
		check_done(c, HEALTH_CRITICAL, span_str("out of memory"), false);
		return;
	}
	t->check = c;
	t->fd = -1;
	c->run = t;
	ev_init(&t->io, on_io);
	t->io.data = t;
	ev_timer_init(&t->timer, on_begin, 0., 0.);
	t->timer.data = t;
	ev_feed_event(c->checker->loop, &t->timer, EV_TIMER);
}

static void
cancel(struct task *c)
{
	struct tcp *t = c->run;

	ev_clear_pending(c->checker->loop, &t->timer);
	tcp_free(t);
}

const struct probe_kind probe_tcp = { .name = "tcp", .timeout = { 10000000000 }, .start = start, .cancel = cancel };
