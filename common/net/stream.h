/*
 * The bytes of one connection on a libev loop, in clear or sealed (TLS): what frames, DNS over TCP, gossip's
 * exchanges and the probes of checks stand on.  A stream is a part of its owner's structure and owns the socket.
 * It tells when something can be done, and the owner does it:
 *
 * - Nothing is read ahead of the owner: one that stops reading (stream_watch()) stops the peer by the socket's own
 *   window.
 * - Nothing is bounded in secret: the owner looks at stream_queued() before it queues more, and the queue refuses
 *   to grow beyond the size it was given.
 * - The end of the peer's bytes (STREAM_ENDED) is another thing than a connection that was cut (STREAM_CUT).  After
 *   an end the other direction goes on.
 *
 * From a callback the owner may call anything here, stream_close() too, and free its structure.
 */
#ifndef TV_COMMON_NET_STREAM_H
#define TV_COMMON_NET_STREAM_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "common/base/addr.h"
#include "common/base/buf.h"

enum stream_state {
	STREAM_CLOSED,			/* no socket: before stream_open(), and after stream_close() */
	STREAM_CONNECTING,
	STREAM_OPEN,
	STREAM_ENDED,			/* the peer sends no more, and has said so */
	STREAM_CUT,			/* reset, no answer, or ended without the seal's word for it: `error` */
};

/* What can be done, one or more of them; reading and writing are also what stream_watch() asks for. */
enum stream_event {
	STREAM_READ = EV_READ,		/* bytes came, or their end; also when the connection was cut */
	STREAM_WRITE = EV_WRITE,	/* there is room; after stream_dial(): it is connected, or cut */
	STREAM_LATE = EV_TIMER,		/* the time of stream_deadline() is over */
	STREAM_WOKEN = EV_CUSTOM,	/* by stream_wake() */
	STREAM_GONE = EV_CLEANUP,	/* behind stream_linger(): it can be closed */
};

struct stream;
typedef void stream_ready(struct stream *s, int events);

/*
 * What stands between the stream's bytes and the socket's; of the kind of read(2) and write(2), with EAGAIN as
 * theirs.
 */
struct stream_seal {
	/* 0: the peer's end, said by the seal; -1 with errno. */
	ssize_t (*read)(void *sealed, void *dst, size_t room);
	ssize_t (*write)(void *sealed, const void *src, size_t n);
	/* Are there bytes to be read which the socket will not tell of? */
	bool (*is_pending)(const void *sealed);
};

struct stream {				/* of its owner, which reads fd, state and error, and appends to queue */
	struct ev_loop *loop;
	stream_ready *ready;
	enum stream_state state;
	int fd;				/* -1: none */
	int error;			/* errno, with STREAM_CUT; 0: it ended without the seal's word */
	int wanted;			/* events of stream_watch() */
	bool lingers;
	size_t may_discard;		/* bytes, while it lingers */
	struct buf queue;		/* to be written; the owner appends */
	size_t queue_at;		/* its first bytes are gone */
	const struct stream_seal *seal;	/* NULL: in clear */
	void *sealed;
	ev_io io;
	ev_timer deadline;
};

/*
 * Takes over fd, connected and non-blocking.  ready is called from the loop.  queue_max: bytes that may be
 * queued; what was written of them may take as many again.
 * Nothing is watched until stream_watch().
 */
void stream_open(struct stream *s, struct ev_loop *loop, int fd, stream_ready *ready, size_t queue_max);
/*
 * The same for a connection that is made now; STREAM_WRITE tells how it went, also when it failed at once.
 */
void stream_dial(struct stream *s, struct ev_loop *loop, const union addr_sock *to, stream_ready *ready,
    size_t queue_max);
/* Of stream_open(): the socket may still be connecting.  STREAM_WRITE tells how it went. */
void stream_await(struct stream *s);
/* From now on bytes are sealed; `sealed` stays the owner's, and outlives the stream. */
void stream_set_seal(struct stream *s, const struct stream_seal *seal, void *sealed);
/* The priority of its watchers, before anything is watched (libev: EV_MINPRI to EV_MAXPRI). */
void stream_set_priority(struct stream *s, int priority);
/* Frees what it owns; nothing of it is called any more.  One that is closed: nothing. */
void stream_close(struct stream *s);

/* STREAM_READ, STREAM_WRITE, both or 0: what the owner waits for.  While bytes are queued: STREAM_WRITE besides. */
void stream_watch(struct stream *s, int events);
/*
 * In so many seconds STREAM_LATE, once, instead of what was said before; 0: as soon as the loop runs; negative:
 * never.
 */
void stream_deadline(struct stream *s, double seconds);
/* STREAM_WOKEN from the loop, whatever is watched. */
void stream_wake(struct stream *s);

/*
 * The bytes of a plain socket alone, for an owner of thousands that waits for all of them in one epoll set and has no
 * 200 bytes for the watchers of each (rpcd/http).  As recv(2), where peek leaves the bytes in the socket, and as
 * sendmsg(2); they never wait, and raise no signal.
 */
ssize_t stream_socket_read(int fd, void *dst, size_t room, bool peek);
ssize_t stream_socket_write(int fd, struct iovec *parts, size_t count);

/* Reads at most room bytes once.  0: none now, or what `state` says. */
size_t stream_read(struct stream *s, void *dst, size_t room);
/*
 * Writes what the socket takes at once of bytes that were not queued: how many.  Less than n: it is full, or
 * STREAM_CUT.
 */
size_t stream_write(struct stream *s, const void *src, size_t n);
/* Writes what the socket takes at once of the queue: how many bytes.  What stays is watched for. */
size_t stream_flush(struct stream *s);
/* Drops what is queued. */
void stream_unqueue(struct stream *s);
static inline size_t
stream_queued(const struct stream *s)
{
	return s->queue.len - s->queue_at;
}
/*
 * All that the peer was to get has left.  Closed with its bytes unread, the connection would be reset, and what the
 * peer has not read yet would be lost (RFC 7766, 6.2.4; RFC 9112, 9.6): so our side ends, and what comes is read
 * away until the peer's ends, for at most so many seconds and bytes; then STREAM_GONE.  False: it can be closed at
 * once.
 */
bool stream_linger(struct stream *s, double seconds, size_t bytes);

#endif
