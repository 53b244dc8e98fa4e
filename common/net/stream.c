/* The bytes of one connection, see stream.h. */
#include <errno.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/net/stream.h"

#define DISCARD_BYTES 4096
#define MOVED_BYTES 16384

static void
cut_with(struct stream *s, int error)
{
	s->state = STREAM_CUT;
	s->error = error;
}

/* The socket is watched for what the owner waits for, and for room for the queue. */
static void
apply_watch(struct stream *s)
{
	int events = s->wanted | (stream_queued(s) > 0 ? EV_WRITE : 0);

	int pending;

	if (s->fd < 0 || (ev_is_active(&s->io) ? (s->io.events & (EV_READ | EV_WRITE)) == events : events == 0))
		return;
	pending = ev_clear_pending(s->loop, &s->io) & (events | STREAM_WOKEN);
	ev_io_stop(s->loop, &s->io);
	ev_io_modify(&s->io, events);
	if (events != 0)
		ev_io_start(s->loop, &s->io);
	if (pending != 0)
		ev_feed_event(s->loop, &s->io, pending);
}

/* True: there is no more to come, or too much has. */
static bool
discard_some(struct stream *s)
{
	uint8_t bytes[DISCARD_BYTES];
	size_t n = stream_read(s, bytes, sizeof(bytes));

	if (n > s->may_discard)
		return true;
	s->may_discard -= n;
	return s->state != STREAM_OPEN;
}

static void
finish_connect(struct stream *s)
{
	socklen_t len = sizeof(int);
	int error = 0;

	if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error != 0)
		cut_with(s, error);
	else
		s->state = STREAM_OPEN;
}

static void
on_io(struct ev_loop *loop UNUSED, ev_io *w, int events)
{
	struct stream *s = w->data;

	if (s->lingers) {
		if ((events & EV_CUSTOM) == 0 && !discard_some(s))
			return;
		events = STREAM_GONE | (events & EV_CUSTOM);
	}
	if (s->state == STREAM_CONNECTING && (events & EV_WRITE) != 0)
		finish_connect(s);
	s->ready(s, events);
}

static void
on_deadline(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct stream *s = w->data;

	s->ready(s, s->lingers ? STREAM_GONE : STREAM_LATE);
}

void
stream_open(struct stream *s, struct ev_loop *loop, int fd, stream_ready *ready, size_t queue_max)
{
	*s = (struct stream){ .loop = loop, .ready = ready, .fd = fd, .state = STREAM_OPEN,
	    .queue = BUF_INIT(2 * queue_max) };	/* half of it may have been written */
	ev_io_init(&s->io, on_io, fd, EV_READ);
	ev_timer_init(&s->deadline, on_deadline, 0., 0.);
	s->io.data = s->deadline.data = s;
}

void
stream_dial(struct stream *s, struct ev_loop *loop, const union addr_sock *to, stream_ready *ready, size_t queue_max)
{
	int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error = fd < 0 ? errno : 0;

	stream_open(s, loop, fd, ready, queue_max);
	if (fd >= 0 && connect(fd, &to->any, addr_sock_len(to)) != 0)
		error = errno;
	if (error == 0 || error == EINPROGRESS) {
		stream_await(s);
		return;
	}
	cut_with(s, error);
	ev_feed_event(loop, &s->io, STREAM_WRITE);
}

void
stream_await(struct stream *s)
{
	s->state = STREAM_CONNECTING;
	stream_watch(s, STREAM_WRITE);
}

void
stream_set_seal(struct stream *s, const struct stream_seal *seal, void *sealed)
{
	s->seal = seal;
	s->sealed = sealed;
}

void
stream_set_priority(struct stream *s, int priority)
{
	TV_ASSERT(!ev_is_active(&s->io) && !ev_is_active(&s->deadline));
	ev_set_priority(&s->io, priority);
}

void
stream_close(struct stream *s)
{
	if (s->state == STREAM_CLOSED)
		return;
	ev_io_stop(s->loop, &s->io);
	ev_timer_stop(s->loop, &s->deadline);
	if (s->fd >= 0)
		close(s->fd);
	buf_done(&s->queue);
	s->fd = -1;
	s->state = STREAM_CLOSED;
}

void
stream_watch(struct stream *s, int events)
{
	s->wanted = events;
	apply_watch(s);
	if ((events & STREAM_READ) != 0 && s->seal != NULL && s->seal->is_pending(s->sealed))
		ev_feed_event(s->loop, &s->io, STREAM_READ);
}

void
stream_deadline(struct stream *s, double seconds)
{
	ev_timer_stop(s->loop, &s->deadline);
	if (seconds < 0)
		return;
	ev_timer_set(&s->deadline, seconds, 0.);
	ev_timer_start(s->loop, &s->deadline);
}

void
stream_wake(struct stream *s)
{
	ev_feed_event(s->loop, &s->io, STREAM_WOKEN);
}

ssize_t
stream_socket_read(int fd, void *dst, size_t room, bool peek)
{
	return recv(fd, dst, room, MSG_DONTWAIT | (peek ? MSG_PEEK : 0));
}

ssize_t
stream_socket_write(int fd, struct iovec *parts, size_t count)
{
	struct msghdr m = { .msg_iov = parts, .msg_iovlen = count };

	if (count == 1)
		return send(fd, parts[0].iov_base, parts[0].iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
	return sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

size_t
stream_read(struct stream *s, void *dst, size_t room)
{
	ssize_t n;

	if (s->state != STREAM_OPEN || room == 0)
		return 0;
	n = s->seal != NULL ? s->seal->read(s->sealed, dst, room) : stream_socket_read(s->fd, dst, room, false);
	if (n > 0)
		return (size_t)n;
	if (n == 0)
		s->state = STREAM_ENDED;
	else if (errno != EAGAIN && errno != EINTR)
		cut_with(s, errno);
	return 0;
}

size_t
stream_write(struct stream *s, const void *src, size_t n)
{
	ssize_t done;

	if (n == 0 || (s->state != STREAM_OPEN && s->state != STREAM_ENDED))
		return 0;
	done = s->seal != NULL ? s->seal->write(s->sealed, src, n) :
	    stream_socket_write(s->fd, &(struct iovec){ (void *)(uintptr_t)src, n }, 1);
	if (done >= 0)
		return (size_t)done;
	if (errno != EAGAIN && errno != EINTR)
		cut_with(s, errno);
	return 0;
}

/* Not at every write of many bytes, since what stays is moved. */
static void
drop_written(struct stream *s)
{
	if (s->queue_at < s->queue.len / 2 && stream_queued(s) > MOVED_BYTES)
		return;
	buf_drop(&s->queue, s->queue_at);
	s->queue_at = 0;
	if (s->queue.len == 0)
		buf_done(&s->queue);	/* an idle stream holds no memory */
}

size_t
stream_flush(struct stream *s)
{
	size_t all = 0, n;

	while (stream_queued(s) > 0 && (n = stream_write(s, s->queue.data + s->queue_at, stream_queued(s))) > 0) {
		s->queue_at += n;
		all += n;
	}
	drop_written(s);
	if (s->state == STREAM_OPEN || s->state == STREAM_ENDED)
		apply_watch(s);
	return all;
}

void
stream_unqueue(struct stream *s)
{
	buf_done(&s->queue);
	s->queue_at = 0;
	apply_watch(s);
}

bool
stream_linger(struct stream *s, double seconds, size_t bytes)
{
	if (s->state != STREAM_OPEN || shutdown(s->fd, SHUT_WR) != 0)
		return false;
	s->lingers = true;
	s->may_discard = bytes;
	s->seal = NULL;			/* what comes is not looked at */
	stream_watch(s, STREAM_READ);
	stream_deadline(s, seconds);
	return true;
}
