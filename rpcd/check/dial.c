/* Connections, see dial.h. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpcd/check/dial.h"
#include "rpcd/check/reason.h"
#include "rpcd/check/url.h"

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

	snprintf(d->why, sizeof(d->why), "dial tcp %s: connect: %s",
	    address_text(&d->addresses.v[d->next - 1], addr), reason_of_errno(error, why, sizeof(why)));
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
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
try_next(struct dial *d)
{
	while (d->next < d->addresses.n) {
		struct address *a = &d->addresses.v[d->next++];

		address_set_port(a, d->port);
		d->fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
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
on_io(struct ev_loop *loop, ev_io *w, int events)
{
	struct dial *d = w->data;
	socklen_t len = sizeof(int);
	int error = 0;

	(void)events;
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
		give_up(d, "dial tcp: lookup %s: %s", d->host, why);
		return;
	}
	d->addresses = *found;
	try_next(d);
}

/* "host:port", IPv6 addresses in brackets; IPv4 ones may have them. */
static bool
split(struct span target, char *host, size_t cap, uint16_t *port)
{
	const uint8_t *colon = target.len == 0 ? NULL : memrchr(target.p, ':', target.len);
	char digits[8], *end;

	if (colon == NULL || !span_copy(url_unbracketed(span_of(target.p, (size_t)(colon - target.p))), host, cap) ||
	    host[0] == '\0' ||
	    (strchr(host, ':') != NULL && host[0] != '[') ||
	    !span_copy(span_of(colon + 1, (size_t)(target.p + target.len - colon - 1)), digits, sizeof(digits)))
		return false;
	unsigned long n = strtoul(digits, &end, 10);
	*port = (uint16_t)n;
	return isdigit((unsigned char)digits[0]) && *end == '\0' && n > 0 && n <= UINT16_MAX;
}

void
dial_init(struct dial *d, struct ev_loop *loop, struct resolver *resolver, struct span owner, dial_done *done,
    void *ctx)
{
	*d = (struct dial){ .loop = loop, .resolver = resolver, .owner = owner, .done = done, .ctx = ctx, .fd = -1 };
	ev_init(&d->io, on_io);
	d->io.data = d;
}

void
dial_begin(struct dial *d, struct span target)
{
	if (!split(target, d->host, sizeof(d->host), &d->port))
		give_up(d, "dial tcp: address %.*s: missing port in address",
		    (int)(target.len > 256 ? 256 : target.len), (const char *)target.p);
	else if (resolve_literal(d->host, &d->addresses))
		try_next(d);
	else if ((d->lookup = resolve(d->resolver, d->host, d->owner, on_found, d)) == NULL)
		give_up(d, "dial tcp: lookup %s: out of memory", d->host);
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
		snprintf(dst, DIAL_TEXT_BYTES, "dial tcp: lookup %s", d->host);
	else
		snprintf(dst, DIAL_TEXT_BYTES, "dial tcp %s", address_text(&d->addresses.v[d->next - 1], addr));
	return dst;
}
