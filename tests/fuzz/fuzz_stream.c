/*
 * The life of one stream against a peer at a plain socket: the input is a list of steps of two bytes, what and how much.  With the
 * first bit of the input there is a seal of records, whose heads and bodies come cut at every place.  Each byte arrives once and in
 * order, an end is told after all of them, and is no cut.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/net/stream.h"

#define QUEUE_MAX 4096u
#define LATER 1000.			/* seconds */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of a record: its length, from 1 to 255, and so many bytes; 0 is the end. */
struct records {
	int fd;
	uint8_t body[255];
	unsigned want, have, given;	/* of the record under way; 0: its length is next */
	bool ended;
	uint8_t out[256];		/* a record that is not whole on its way */
	unsigned out_len, out_at;
};

struct life {
	struct stream s;
	struct ev_loop *loop;
	struct records r;
	int peer;			/* -1: closed */
	size_t sent, got;		/* by the peer to the stream */
	size_t queued, seen;		/* by the stream to the peer */
	unsigned reads;			/* how many bytes are read in a turn */
	bool sealed, peer_ended, lingers, gone;
};

static uint8_t
byte_at(size_t i)
{
	return (uint8_t)(i * 7 + i / 251);
}

/* -- the seal -- */

static ssize_t
records_read(void *sealed, void *dst, size_t room)
{
	struct records *r = sealed;
	uint8_t len;

	for (;;) {
		ssize_t n;

		if (r->want > 0 && r->have == r->want) {
			size_t left = r->want - r->given;

			room = room < left ? room : left;
			memcpy(dst, r->body + r->given, room);
			if ((r->given += (unsigned)room) == r->want)
				r->want = r->have = r->given = 0;
			return (ssize_t)room;
		}
		if (r->ended)
			return 0;
		n = r->want == 0 ? recv(r->fd, &len, 1, MSG_DONTWAIT) :
		    recv(r->fd, r->body + r->have, r->want - r->have, MSG_DONTWAIT);
		if (n == 0)
			errno = 0;
		if (n <= 0)
			return -1;
		if (r->want > 0)
			r->have += (unsigned)n;
		else if (len == 0)
			r->ended = true;
		else
			r->want = len;
	}
}

static ssize_t
records_write(void *sealed, const void *src, size_t n)
{
	struct records *r = sealed;
	ssize_t done;

	/* What is on its way first; then it has taken all of it. */
	if (r->out_at == r->out_len) {
		n = n < 255 ? n : 255;
		r->out[0] = (uint8_t)n;
		memcpy(r->out + 1, src, n);
		r->out_len = (unsigned)n + 1;
		r->out_at = 0;
	}
	done = send(r->fd, r->out + r->out_at, r->out_len - r->out_at, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (done < 0)
		return -1;
	if ((r->out_at += (unsigned)done) == r->out_len)
		return r->out[0];
	errno = EAGAIN;
	return -1;
}

static bool
records_pending(const void *sealed)
{
	const struct records *r = sealed;

	return r->want > 0 && r->have == r->want;
}

static const struct stream_seal seal = { records_read, records_write, records_pending };

/* -- the stream's side -- */

static void
on_ready(struct stream *s, int events)
{
	struct life *l = (struct life *)(void *)((char *)s - offsetof(struct life, s));
	uint8_t bytes[300];

	if ((events & STREAM_GONE) != 0) {
		TV_ASSERT(l->lingers);
		l->gone = true;
		stream_watch(s, 0);
		return;
	}
	TV_ASSERT(!l->lingers && events != STREAM_LATE);
	if ((events & STREAM_READ) != 0) {
		size_t n = stream_read(s, bytes, l->reads);

		for (size_t i = 0; i < n; i++)
			TV_ASSERT(bytes[i] == byte_at(l->got + i));
		l->got += n;
		TV_ASSERT(l->got <= l->sent);
		TV_ASSERT(s->state != STREAM_ENDED || (l->peer_ended && l->got == l->sent));
		if (s->state != STREAM_OPEN)
			stream_watch(s, 0);
		else if (l->sealed)
			stream_watch(s, STREAM_READ);
	}
	if ((events & STREAM_WRITE) != 0)
		(void)stream_flush(s);
}

static void
put(struct life *l, unsigned n)
{
	for (; n > 0 && stream_queued(&l->s) < QUEUE_MAX; n--) {
		uint8_t b = byte_at(l->queued++);

		buf_put(&l->s.queue, &b, 1);
	}
	TV_ASSERT(!l->s.queue.failed && l->s.queue.cap <= 2 * QUEUE_MAX + 256);
}

/* -- the peer's side -- */

static void
peer_sends(struct life *l, unsigned n)
{
	uint8_t bytes[1 + 255];
	ssize_t done;

	if (l->peer < 0 || l->peer_ended || n == 0)
		return;
	bytes[0] = (uint8_t)n;
	for (unsigned i = 0; i < n; i++)
		bytes[i + 1] = byte_at(l->sent + i);
	/* Within the socket's room, so that a record is whole; its head may come some turns before the rest. */
	done = send(l->peer, bytes + !l->sealed, n + l->sealed, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (done > 0)
		l->sent += (size_t)done - l->sealed;
}

static void
peer_reads(struct life *l, unsigned n)
{
	static uint8_t bytes[256];
	ssize_t got = l->peer < 0 || l->sealed ? 0 : recv(l->peer, bytes, n, MSG_DONTWAIT);

	for (ssize_t i = 0; i < got; i++)
		TV_ASSERT(bytes[i] == byte_at(l->seen + (size_t)i));
	l->seen += got > 0 ? (size_t)got : 0;
	TV_ASSERT(l->seen <= l->queued);
}

static void
peer_ends(struct life *l)
{
	if (l->peer < 0 || l->peer_ended)
		return;
	if (l->sealed && send(l->peer, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
		return;
	(void)shutdown(l->peer, SHUT_WR);
	l->peer_ended = true;
}

static void
step(struct life *l, unsigned what, unsigned n)
{
	switch (what % 10) {
	case 0:
		peer_sends(l, n);
		break;
	case 1:
		peer_reads(l, n);
		break;
	case 2:
		put(l, n);
		break;
	case 3:
		(void)stream_flush(&l->s);
		break;
	case 4:
		l->reads = n == 0 ? 1 : n;
		if (!l->lingers)
			stream_watch(&l->s, STREAM_READ);
		break;
	case 5:
		if (!l->lingers)
			stream_watch(&l->s, 0);
		break;
	case 6:
		if (n > 200)
			peer_ends(l);
		break;
	case 7:
		if (n > 240 && l->peer >= 0) {
			close(l->peer);
			l->peer = -1;
			l->peer_ended |= !l->sealed;	/* with a seal it lacks its word */
		}
		break;
	case 8:
		stream_wake(&l->s);
		break;
	default:
		if (n > 240 && !l->lingers)
			l->lingers = stream_linger(&l->s, LATER, 1000);
		break;
	}
	ev_run(l->loop, EVRUN_NOWAIT);
}

/* What was sent arrives, and the end of it. */
static void
read_all(struct life *l)
{
	l->reads = 300;
	if (l->lingers || l->s.state != STREAM_OPEN)
		return;
	if (l->peer >= 0)
		peer_ends(l);
	stream_watch(&l->s, STREAM_READ);
	for (unsigned i = 0; i < 20000 && l->s.state == STREAM_OPEN; i++)
		ev_run(l->loop, EVRUN_NOWAIT);
	if (l->s.state == STREAM_ENDED)
		TV_ASSERT(l->got == l->sent);
	else if (l->s.state == STREAM_CUT && l->peer >= 0)
		TV_ASSERT(l->peer_ended == false);	/* without room for its word the peer has not ended */
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct life l = { .reads = 16 };
	int fds[2];

	if (size < 3 || size > 4096 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
		return 0;
	l.loop = ev_default_loop(0);
	l.peer = fds[1];
	stream_open(&l.s, l.loop, fds[0], on_ready, QUEUE_MAX);
	l.sealed = (data[0] & 1) != 0;
	if (l.sealed) {
		l.r.fd = fds[0];
		stream_set_seal(&l.s, &seal, &l.r);
	}
	for (size_t i = 1; i + 1 < size; i += 2)
		step(&l, data[i], data[i + 1]);
	read_all(&l);
	stream_close(&l.s);
	ev_run(l.loop, EVRUN_NOWAIT);
	if (l.peer >= 0)
		close(l.peer);
	return 0;
}
