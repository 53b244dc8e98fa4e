/*
 * The socket side of a channel: one large read per readiness, all whole frames of it
 * dispatched in one go, one write per turn of the loop.
 *
 * Frames are taken straight from the bytes just read (on the stack); only an incomplete
 * rest is kept, so an idle channel owns no input memory at all.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/net/chan_int.h"
#include "common/net/msg.h"

/* -- input ------------------------------------------------------------------ */

/* "sent a malformed message (GOSSIP_JOIN)" */
static void
refuse_message(struct chan *c, enum tv_err err, const char *what, const struct frame *f)
{
	const struct msg *m = msg_find(f->type);
	char text[200];

	snprintf(text, sizeof(text), "%s (%s)", what, m != NULL ? m->name : "of unknown type");
	chan_refuse(c, err, text);
}

/* The header announces too much: tell a mistaken configuration from rubbish. */
static void
refuse_frame(struct chan *c, struct span in, const struct frame *f)
{
	if (!c->greeted && span_starts(in, span_str("TVn1")))
		chan_refuse(c, TV_EFORMAT, "opened an encrypted link, but this side sends plaintext (keys and "
		    "allow_plaintext must be the same on both)");
	else
		refuse_message(c, TV_ELIMIT, "announced a frame above the limit", f);
}

/* Whose frame is being handled, and where it ends in `in`; chan_keep() needs them without knowing the channel. */
static struct {
	struct chan *chan;		/* NULL: none, or its bytes are not in `in` */
	const uint8_t *end;
} handled;

/* The bytes behind the frame stay with the channel. */
static bool
give_in(struct chan *c, struct buf *to)
{
	struct buf rest;
	size_t used = (size_t)(handled.end - c->in.data);

	buf_init(&rest, c->in.max);
	rest.secret = c->in.secret;
	buf_put(&rest, handled.end, c->in.len - used);
	if (rest.failed)
		return false;
	*to = c->in;
	c->in = rest;
	c->given = true;
	handled.chan = NULL;
	return true;
}

struct span
chan_keep(struct span bytes, struct buf *to)
{
	struct chan *c = handled.chan;

	if (c != NULL && bytes.p >= c->in.data && bytes.p + bytes.len <= handled.end && give_in(c, to))
		return bytes;
	buf_init(to, bytes.len);
	buf_putspan(to, bytes);
	return to->failed ? SPAN_NONE : buf_span(to);
}

/* Dispatches whole frames; returns the bytes used. */
static size_t
dispatch(struct chan *c, struct span in)
{
	size_t used = 0;

	while (c->state == CHAN_OPEN && !c->paused && !c->given) {
		struct span rest = span_of(in.p + used, in.len - used);
		struct frame f;
		long n = frame_read(rest, c->body_max, &f);
		enum tv_err err;

		if (n < 0)
			refuse_frame(c, rest, &f);
		if (n <= 0)
			return used;
		used += (size_t)n;
		c->greeted = true;
		handled.chan = in.p == c->in.data ? c : NULL;
		handled.end = in.p + used;
		err = c->events->on_frame(c->ctx, c, &f);
		handled.chan = NULL;
		if (err == TV_ECLOSED || err == TV_EOF)
			chan_close(c, err);
		else if (err != TV_OK)
			refuse_message(c, err, err == TV_EFORMAT ? "sent a malformed message" : tv_strerror(err), &f);
	}
	return used;
}

/* `in` after a dispatch: an empty one is given back, a small rest gets small memory. */
static void
trim(struct buf *in)
{
	struct buf small;

	if (in->cap <= CHAN_KEEP_BYTES || in->len > in->cap / 4)
		return;
	buf_init(&small, in->max);
	small.secret = in->secret;
	buf_putspan(&small, buf_span(in));
	if (small.failed) {
		buf_done(&small);
		return;
	}
	buf_done(in);
	*in = small;
}

/* Dispatches from `in` itself. */
static void
dispatch_in(struct chan *c)
{
	size_t used;

	c->busy++;
	do {
		c->given = false;
		used = dispatch(c, buf_span(&c->in));
	} while (c->given);		/* `in` is what was behind the frame */
	c->busy--;
	buf_drop(&c->in, used);
	c->held = c->paused && c->in.len > 0;
	if (c->in.len == 0 && c->in.cap > CHAN_KEEP_BYTES)
		buf_done(&c->in);
	else
		trim(&c->in);
}

void
chan_io_plain(struct chan *c, struct span bytes)
{
	size_t used;

	if (c->in.len == 0) {
		c->busy++;
		used = dispatch(c, bytes);
		c->busy--;
		buf_put(&c->in, bytes.p + used, bytes.len - used);
		c->held = c->paused && c->in.len > 0;
	} else {
		buf_putspan(&c->in, bytes);
		if (!c->in.failed)
			dispatch_in(c);
	}
	if (c->in.failed && c->state == CHAN_OPEN) {
		log_err("net", "%s: %s: no memory for input; closing", c->name, c->peer);
		chan_close(c, TV_ENOMEM);
	}
}

/* It speaks: now it has the time for the rest of the handshake. */
static void
first_bytes(struct chan *c)
{
	if (c->first_timeout.ns == 0)
		return;
	stream_deadline(&c->bytes, c->state == CHAN_HANDSHAKE ? mono_seconds(c->open_timeout) : -1);
}

size_t
chan_io_read(struct chan *c, uint8_t *dst, size_t room)
{
	size_t n = stream_read(&c->bytes, dst, room);
	bool ended = c->bytes.state == STREAM_ENDED;

	if (n > 0) {
		if (c->in_total == 0)
			first_bytes(c);
		c->in_total += n;
		return n;
	}
	if (c->bytes.state == STREAM_OPEN)
		return 0;
	if ((ended || c->bytes.error == ECONNRESET) && c->state == CHAN_HANDSHAKE && c->initiator)
		chan_refuse(c, TV_ECLOSED, "closed the connection in the handshake (it has other keys, or sends "
		    "plaintext)");
	else if (ended)
		chan_close(c, TV_ECLOSED);
	else
		chan_fail_sys(c, "read", c->bytes.error);
	return 0;
}

/* A frame is incomplete: read straight behind what there is of it. */
static void
read_into_in(struct chan *c)
{
	uint8_t *room = buf_room(&c->in, CHAN_READ_BYTES);
	size_t n;

	if (room == NULL) {
		log_err("net", "%s: %s: no memory for input; closing", c->name, c->peer);
		chan_close(c, TV_ENOMEM);
		return;
	}
	n = chan_io_read(c, room, c->in.cap - c->in.len);
	c->in.len += n;
	if (n > 0)
		dispatch_in(c);
}

static void
read_clear(struct chan *c)
{
	uint8_t bytes[CHAN_READ_BYTES] __attribute__((uninitialized));	/* to clear them costs more than the read */
	size_t n;

	if (c->in.len > 0) {
		read_into_in(c);
		return;
	}
	n = chan_io_read(c, bytes, sizeof(bytes));
	if (n > 0)
		chan_io_plain(c, span_of(bytes, n));
	if (c->secret)
		explicit_bzero(bytes, n);
}

static void
on_readable(struct chan *c)
{
	if (c->held && !c->paused)
		dispatch_in(c);
	if (c->state == CHAN_HANDSHAKE || (c->state == CHAN_OPEN && !c->paused)) {
		if (c->noise != NULL)
			chan_noise_readable(c);
		else
			read_clear(c);
	}
}

/* -- output ------------------------------------------------------------------- */

size_t
chan_io_write(struct chan *c, const uint8_t *p, size_t n)
{
	size_t done = stream_write(&c->bytes, p, n);

	if (c->bytes.state == STREAM_CUT && c->state < CHAN_CLOSING)
		chan_fail_sys(c, "write", c->bytes.error);
	return done;
}

/* Some of `out` is gone: forget it without moving bytes at every write. */
static void
settle_out(struct chan *c)
{
	if (c->out_at == c->out.len) {	/* also when a piece is left that stands behind it */
		c->out_before += c->out.len;
		c->out_hint = c->out.len < CHAN_EARLY_FLUSH_BYTES ? c->out.len : CHAN_EARLY_FLUSH_BYTES;
		c->out_at = 0;
		if (c->out.cap > CHAN_KEEP_BYTES)
			buf_done(&c->out);
		else
			buf_reset(&c->out);
	} else if (c->out_at >= c->out.len / 2) {
		c->out_before += c->out_at;
		buf_drop(&c->out, c->out_at);
		c->out_at = 0;
	}
}

/* Bytes that only wait for the socket: before the channel is open, frames wait for that. */
static size_t
blocked(const struct chan *c)
{
	if (c->opened)
		return chan_pending(c);
	return c->noise != NULL ? chan_noise_pending(c->noise) : 0;
}

static void
write_clear(struct chan *c)
{
	size_t room = CHAN_FLUSH_BYTES_MAX, len, done;

	do {
		struct span next = chan_next(c);

		len = next.len < room ? next.len : room;
		done = len == 0 ? 0 : chan_io_write(c, next.p, len);
		chan_taken(c, done);
		room -= done;
	} while (done > 0 && done == len && room > 0);
}

void
chan_io_flush(struct chan *c)
{
	if (blocked(c) == 0)
		return;
	if (c->noise != NULL)
		chan_noise_flush(c);
	else
		write_clear(c);
	settle_out(c);
	if (c->state != CHAN_OPEN && c->state != CHAN_HANDSHAKE)
		return;
	chan_io_watch(c, STREAM_WRITE, blocked(c) > 0);
}

static bool
waits_for_room(const struct chan *c)
{
	return (c->bytes.wanted & STREAM_WRITE) != 0;
}

/* The end of a turn: everything that was sent in it leaves together. */
static void
end_turn(struct chan *c)
{
	ev_prepare_stop(c->loop, &c->flush);
	ev_idle_stop(c->loop, &c->awake);
	if (c->state == CHAN_OPEN && !waits_for_room(c))
		chan_io_flush(c);
	if (c->state == CHAN_CLOSING)
		chan_finish(c);
}

void
chan_flush(struct chan *c)
{
	if (c->state == CHAN_OPEN && !waits_for_room(c))
		chan_io_flush(c);
	if (c->state != CHAN_OPEN)
		return;			/* the loop ends it */
	ev_prepare_stop(c->loop, &c->flush);
	ev_idle_stop(c->loop, &c->awake);
}

static void
on_prepare(struct ev_loop *loop UNUSED, ev_prepare *w, int revents UNUSED)
{
	end_turn(w->data);
}

static void
on_idle(struct ev_loop *loop UNUSED, ev_idle *w, int revents UNUSED)
{
	end_turn(w->data);
}

void
chan_io_soon(struct chan *c)
{
	/*
	 * The prepare watcher runs last before the loop would sleep.  If this turn's have been
	 * run already (we are called from one), the idle watcher keeps the loop from sleeping.
	 */
	ev_prepare_start(c->loop, &c->flush);
	ev_idle_start(c->loop, &c->awake);
}

/* -- connecting ---------------------------------------------------------------- */

/* Writable for the first time: the outcome of connect is known. */
static void
connected(struct chan *c)
{
	chan_io_watch(c, STREAM_WRITE, false);
	if (c->bytes.state == STREAM_CUT) {
		log_debug("net", "%s: %s: connect: %s", c->name, c->peer, strerror(c->bytes.error));
		c->nobody = c->bytes.error == ECONNREFUSED;
		chan_close(c, TV_EUNREACH);
	} else if (c->noise != NULL) {
		c->state = CHAN_HANDSHAKE;
		chan_io_watch(c, STREAM_READ, true);
		chan_noise_start(c);
	} else {
		chan_up(c);
	}
}

static void
on_open_timeout(struct chan *c)
{
	if (c->state == CHAN_HANDSHAKE)
		chan_refuse(c, TV_ETIMEOUT, "did not finish the handshake in time");
	else
		chan_close(c, TV_ETIMEOUT);
}

static void
on_ready(struct stream *s, int events)
{
	struct chan *c = (struct chan *)(void *)((char *)s - offsetof(struct chan, bytes));

	if (events == STREAM_LATE)
		on_open_timeout(c);
	else if (c->state == CHAN_CONNECTING)
		connected(c);
	else if ((events & STREAM_WRITE) != 0)
		chan_io_flush(c);
	if ((events & (STREAM_READ | STREAM_WOKEN)) != 0 && c->state < CHAN_CLOSING)
		on_readable(c);
	if (c->state == CHAN_CLOSING)
		chan_finish(c);
}

void
chan_io_watch(struct chan *c, enum stream_event event, bool on)
{
	stream_watch(&c->bytes, on ? c->bytes.wanted | (int)event : c->bytes.wanted & ~(int)event);
}

void
chan_io_start(struct chan *c, int fd)
{
	ev_prepare_init(&c->flush, on_prepare);
	ev_idle_init(&c->awake, on_idle);
	/* After everybody else's prepare watchers, so that what those send leaves too. */
	ev_set_priority(&c->flush, EV_MINPRI);
	ev_set_priority(&c->awake, EV_MINPRI);
	c->flush.data = c->awake.data = c;
	/* The loop may have been busy, or not running yet: its idea of now can be old. */
	ev_now_update(c->loop);
	stream_open(&c->bytes, c->loop, fd, on_ready, 0);
	stream_await(&c->bytes);
	stream_deadline(&c->bytes, mono_seconds(c->first_timeout.ns > 0 ? c->first_timeout : c->open_timeout));
}

void
chan_io_stop(struct chan *c)
{
	stream_close(&c->bytes);
	ev_prepare_stop(c->loop, &c->flush);
	ev_idle_stop(c->loop, &c->awake);
}
