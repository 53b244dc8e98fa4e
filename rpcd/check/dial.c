/* Connections, see dial.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpcd/check/dial.h"
#include "rpcd/check/reason.h"

static void
give_up(struct dial *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void
give_up(struct dial *d, const char *fmt, ...)
{
	char text[DIAL_TEXT_BYTES];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	d->done(d->ctx, -1, text);
}

static const char *
network(const struct dial *d)
{
	return d->udp ? "udp" : "tcp";
}

static void
succeed(struct dial *d)
{
	int fd = d->fd;

	d->fd = -1;
	d->done(d->ctx, fd, NULL);
}

static void
failed(struct dial *d, int error)
{
	char addr[RESOLVE_TEXT_BYTES], why[64];

	snprintf(d->why, sizeof(d->why), "dial %s %s: connect: %s", network(d),
	    address_text(&d->addresses.v[d->next - 1], addr), reason_of_errno(error, why, sizeof(why)));
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
}

/* On this machine it has succeeded, or was refused, when connect(2) returns: a second one tells.  0 or errno. */
static int
connect_now(int fd, const union addr_sock *a)
{
	for (int i = 0; i < 2; i++)
		if (connect(fd, &a->any, addr_sock_len(a)) == 0 || errno == EISCONN)
			return 0;
		else if (errno != EINPROGRESS)
			break;
	return errno;
}

static void
try_next(struct dial *d)
{
	int type = d->udp ? SOCK_DGRAM : SOCK_STREAM;

	while (d->next < d->addresses.n) {
		union addr_sock *a = &d->addresses.v[d->next++];

		a->v4.sin_port = htons(d->to.port);
		d->fd = socket(a->any.sa_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		int error = d->fd < 0 ? errno : connect_now(d->fd, a);
		if (error == 0) {
			succeed(d);
			return;
		}
		if (error == EALREADY || error == EINPROGRESS) {
			ev_io_set(&d->io, d->fd, EV_WRITE);
			ev_io_start(d->loop, &d->io);
			return;
		}
		failed(d, error);
	}
	give_up(d, "%s", d->why);
}

static void
on_io(struct ev_loop *loop, ev_io *w, int events UNUSED)
{
	struct dial *d = w->data;
	socklen_t len = sizeof(int);
	int error = 0;

	ev_io_stop(loop, w);
	if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error == 0) {
		succeed(d);
		return;
	}
	failed(d, error);
	try_next(d);
}

static void
on_found(void *ctx, const struct addresses *found, const char *why)
{
	struct dial *d = ctx;

	d->queued = resolve_queued(d->lookup);
	d->lookup = NULL;
	if (found == NULL) {
		give_up(d, "dial %s: lookup %s: %s", network(d), d->to.host, why);
		return;
	}
	d->addresses = *found;
	try_next(d);
}

/* The port may be a name.  /etc/services is read for it each time: it is short and local, and few checks have one. */
static bool
find_port(struct dial *d)
{
	struct servent found, *s = NULL;
	char strings[1024];

	if (d->to.port == 0 && getservbyname_r(d->to.service, network(d), &found, strings, sizeof(strings), &s) == 0 &&
	    s != NULL)
		d->to.port = ntohs((uint16_t)s->s_port);
	return d->to.port != 0;
}

void
dial_begin(struct dial *d, struct ev_loop *loop, struct resolver *resolver, struct span owner, struct span target,
    dial_done *done, void *ctx)
{
	*d = (struct dial){ .loop = loop, .resolver = resolver, .owner = owner, .done = done, .ctx = ctx, .fd = -1,
	    .udp = d->udp };
	ev_init(&d->io, on_io);
	d->io.data = d;
	const char *why = hostport_parse(target, &d->to);
	if (why != NULL)
		give_up(d, "dial %s: address %.*s: %s", network(d), (int)(target.len > 256 ? 256 : target.len),
		    (const char *)target.p, why);
	else if (!find_port(d))
		give_up(d, "dial %s: lookup %s/%s: unknown port", network(d), network(d), d->to.service);
	else if (resolve_literal(d->to.host, &d->addresses))
		try_next(d);
	else if ((d->lookup = resolve(d->resolver, d->to.host, d->owner, on_found, d)) == NULL)
		give_up(d, "dial %s: lookup %s: out of memory", network(d), d->to.host);
}

void
dial_stop(struct dial *d)
{
	if (d->lookup != NULL)
		resolve_cancel(d->lookup);
	d->lookup = NULL;
	ev_io_stop(d->loop, &d->io);
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
}

struct mono
dial_queued(const struct dial *d)
{
	return d->lookup != NULL ? resolve_queued(d->lookup) : d->queued;
}

const char *
dial_at(const struct dial *d, char dst[DIAL_TEXT_BYTES])
{
	char addr[RESOLVE_TEXT_BYTES];

	if (d->lookup != NULL || d->next == 0)
		snprintf(dst, DIAL_TEXT_BYTES, "dial %s: lookup %s", network(d), d->to.host);
	else
		snprintf(dst, DIAL_TEXT_BYTES, "dial %s %s", network(d),
		    address_text(&d->addresses.v[d->next - 1], addr));
	return dst;
}
