/*
 * Framed channel on a libev loop: one interface for unix sockets between the
 * daemons and Noise links between nodes.
 *
 * Sending only appends to an output buffer; everything sent in one turn of the
 * loop leaves in one write (flushed from an ev_prepare watcher).  When more than
 * `out_max` bytes wait, the channel is closed with TV_ELIMIT: a peer that does not
 * read cannot make us grow.  Reading grows the input buffer as bytes arrive,
 * never on the word of a length field.
 *
 * A malformed or oversized frame closes this channel with one log line and
 * nothing else (reference: scenarios S200, S206).
 */
#ifndef TV_COMMON_NET_CHAN_H
#define TV_COMMON_NET_CHAN_H

#include <ev.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/base/mono.h"
#include "common/net/frame.h"
#include "common/net/listener.h"
#include "common/record/schema.h"

struct chan;
struct noise_conf;		/* common/net/noise.h */

struct chan_events {
	/*
	 * One frame arrived; body is borrowed until return.  An error closes the
	 * channel: on_close follows before this turn of the loop ends.
	 * The handler may call chan_close() itself.
	 */
	enum tv_err (*on_frame)(void *ctx, struct chan *c, const struct frame *f);
	/* The channel is up: connected, and the Noise handshake is done. May be NULL. */
	void (*on_open)(void *ctx, struct chan *c);
	/* Called exactly once, last; the channel frees itself after return. */
	void (*on_close)(void *ctx, struct chan *c, enum tv_err why);
};

struct chan_conf {
	struct ev_loop *loop;
	const struct chan_events *events;
	void *ctx;
	const char *name;		/* for logs: "raftd.sock", "link n2"; copied */
	size_t body_max;		/* largest frame body accepted, bytes */
	size_t out_max;			/* most bytes that may wait to be written */
	const struct noise_conf *noise;	/* NULL: frames in clear (unix sockets, allow_plaintext); borrowed */
	bool initiator;			/* Noise role */
	unsigned psk;			/* initiator: the psk of the list that opens the link */
	bool accept_clear;		/* responder: takes frames in clear too; the peer's first bytes decide */
	bool secret;			/* frames may carry keys: nothing of one stays in our memory when it is gone */
	struct mono open_timeout;	/* connect and handshake; 0 means 5 s */
	struct mono first_timeout;	/* accepted: until the peer's first bytes; 0: not watched */
};

/* Takes over the connected (or connecting, non-blocking) socket fd. NULL: no memory; fd is closed. */
struct chan *chan_new(int fd, const struct chan_conf *conf);
/* Non-blocking connect to a unix path / a TCP address ("ip", port). NULL with errno on immediate failure. */
struct chan *chan_dial_unix(const char *path, const struct chan_conf *conf);
struct chan *chan_dial_tcp(const char *ip, uint16_t port, const struct chan_conf *conf);
/* Closes soon (from the loop): what was sent before is still written if the socket takes it at once. */
void chan_close(struct chan *c, enum tv_err why);
/*
 * Closes without on_close, for owners that end first; what was sent before is still written if the socket
 * takes it at once.  Freed on return, or from the loop when one of the channel's own callbacks is running.
 * NULL: nothing.
 */
void chan_free(struct chan *c);

/* Queues one frame (body copied).  TV_ECLOSED, TV_ELIMIT. */
enum tv_err chan_send(struct chan *c, uint16_t type, uint16_t flags, uint64_t id, struct span body);
/* The same with a record as the body. */
enum tv_err chan_send_record(struct chan *c, uint16_t type, uint64_t id, const struct schema *record, const void *rec);
/* An answer as msg_answer_write() makes it; id 0: none is wanted. */
enum tv_err chan_answer(struct chan *c, uint16_t type, uint64_t id, enum tv_err err, const char *text,
    const struct schema *record, const void *rec);
/*
 * In-place form: returns the output buffer with a frame opened in it; append the
 * body with buf_* and mpw_*, then call chan_end().  NULL when closed.
 */
struct buf *chan_begin(struct chan *c, uint16_t type, uint16_t flags, uint64_t id);
enum tv_err chan_end(struct chan *c);
/*
 * The same for a body that ends with `bytes`, which are in `memory`.  The memory is taken over whatever comes of it and
 * left empty: many bytes are sent from where they are, without a copy, and freed when they have left.
 */
enum tv_err chan_end_with(struct chan *c, struct buf *memory, struct span bytes);
/*
 * Writes what waits now instead of at the end of the turn: for a caller that has other work to do before
 * that, or sends from a prepare watcher, after which the loop would look at its events once more first.  Closes
 * nothing.
 */
void chan_flush(struct chan *c);
/*
 * Within on_frame, of bytes of the frame's body: takes over the memory that they are in, without a copy when they came
 * in pieces, as a large frame does.  Returns where they are in *to, which is the caller's to free with buf_done();
 * SPAN_NONE: no memory.
 */
struct span chan_keep(struct span bytes, struct buf *to);
/* Bytes waiting to be written. */
size_t chan_pending(const struct chan *c);
/*
 * A mark after what was sent so far, 0 never, and whether all before a mark has left for the socket (or to be sealed
 * for it).  Marks are of this channel only.
 */
uint64_t chan_mark(const struct chan *c);
bool chan_passed(const struct chan *c, uint64_t mark);
/*
 * A number that changes with each sign that the peer lives: bytes came, or it takes what has piled up for it.  That a
 * few bytes left is none: the kernel takes them for a frozen peer too.  See common/net/silence.h.
 */
uint64_t chan_signs(const struct chan *c);
/*
 * Does the psk by which the link was opened, or is being opened, still stand in the list that the channel was given?
 * True in clear, and as long as the peer has not named one.  The session keys do not depend on it: an owner
 * that wants the link to end with its key closes it.
 */
bool chan_key_stands(const struct chan *c);
/* Stops / resumes reading from the peer (back pressure). */
void chan_pause(struct chan *c, bool paused);
bool chan_is_open(const struct chan *c);
/* Peer's uid and pid by SO_PEERCRED (unix sockets only): TV_OK or TV_ESYS. */
enum tv_err chan_peercred(const struct chan *c, uid_t *uid, pid_t *pid);
/* Peer's address as text for logs ("127.0.0.2:51234", "unix"). */
const char *chan_peer(const struct chan *c);

/*
 * Handshakes that were put off to the next turn of the loop, in the life of the process: a turn answers a few only, so
 * that strangers that knock together do not hold up all others.
 */
uint64_t chan_handshakes_postponed(void);

#endif
