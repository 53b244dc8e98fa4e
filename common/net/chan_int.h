/*
 * What the parts of a channel share: chan.c (life and sending), chan_io.c (socket and
 * frames), chan_noise.c (preamble, handshake, sealing) and dial.c.  No other file includes this.
 */
#ifndef TV_COMMON_NET_CHAN_INT_H
#define TV_COMMON_NET_CHAN_INT_H

#include "common/net/chan.h"
#include "common/net/stream.h"

/* One read takes at most this many bytes, and one Noise message never has more. */
#define CHAN_READ_BYTES 65536
/* An empty buffer larger than this is given back; an idle channel stays below 20 KiB. */
#define CHAN_KEEP_BYTES 4096
/* With this much waiting, a send writes at once instead of at the end of the turn. */
#define CHAN_EARLY_FLUSH_BYTES (256u << 10)
/* Memory with more bytes than that is taken over as it is by chan_end_with(). */
#define CHAN_ADOPT_BYTES (64u << 10)
/* Sealed and written in one go at most: a peer that reads as fast as we write would keep us from everybody else. */
#define CHAN_FLUSH_BYTES_MAX (2u << 20)

enum chan_state {
	CHAN_CONNECTING,	/* until the socket is writable for the first time */
	CHAN_HANDSHAKE,		/* Noise only */
	CHAN_OPEN,
	CHAN_CLOSING,		/* chan_close was called; on_close follows from the loop */
	CHAN_CLOSED,		/* inside on_close */
};

struct chan_noise;		/* chan_noise.c */

/* Bytes of a frame that wait outside of `out`. */
struct chan_piece {
	struct chan_piece *next;
	uint64_t at;			/* they stand before this byte of all that was ever in `out` */
	struct buf memory;		/* owned */
	struct span left;		/* of it, to be written */
};

struct chan {
	struct ev_loop *loop;
	const struct chan_events *events;
	void *ctx;
	void *owner;			/* the dialer, when there is one */
	char *name;			/* owned */
	char peer[64];
	uint64_t source;		/* of the peer, see source_of(); 0: a unix socket, or not known */
	struct stream bytes;
	size_t body_max, out_max;
	struct mono open_timeout, first_timeout;
	enum chan_state state;
	enum tv_err why;		/* valid from CHAN_CLOSING on */
	unsigned busy;			/* callbacks of ours on the stack */
	bool initiator;
	bool accept_clear;
	bool secret;
	unsigned psk;
	bool opened;			/* was CHAN_OPEN: queued frames may be written */
	bool paused;
	bool held;			/* `in` may hold whole frames (pause) */
	bool given;			/* `in` was handed over by chan_keep() */
	bool greeted;			/* the first frame header was looked at */
	bool nobody;			/* no process listens at the address that was dialled */

	struct buf in;			/* an incomplete frame, in clear */
	uint64_t in_total;		/* bytes that came, ever */
	struct buf out;			/* frames waiting, in clear; the first out_at bytes are gone */
	size_t out_at;
	uint64_t out_before;		/* bytes that were in it before its first one */
	struct chan_piece *pieces, *last_piece;	/* owned */
	size_t pieces_left;		/* bytes in them that wait */
	uint64_t pieces_gone;		/* bytes that left from such, ever */
	size_t out_hint;		/* what the last turn sent: room to take at once */
	size_t frame_at;		/* the frame opened by chan_begin */
	struct chan_noise *noise;	/* owned; NULL in clear */

	ev_prepare flush;
	ev_idle awake;			/* keeps a turn from blocking before the flush */
};

/* The socket is connected, or the handshake is done: on_open, and reading begins. */
void chan_up(struct chan *c);
/* Logs one line at a limited rate (text says what the peer did; once a minute for the same peer), then chan_close(). */
void chan_refuse(struct chan *c, enum tv_err why, const char *text);
/* Logs the line that ends a channel for a reason that no peer caused: what failed, with this errno. */
void chan_fail_sys(struct chan *c, const char *what, int error);

/* Watchers of the socket (chan_io.c), which is connected or connecting. */
void chan_io_start(struct chan *c, int fd);
void chan_io_stop(struct chan *c);
/* Waits for this event of the stream, or does not any more. */
void chan_io_watch(struct chan *c, enum stream_event event, bool on);
/* Makes sure the output is flushed (and a close done) before the loop sleeps. */
void chan_io_soon(struct chan *c);
/* Writes what waits as far as the socket takes it. */
void chan_io_flush(struct chan *c);
/* The next bytes that wait, in clear: as many as are in one place. */
struct span chan_next(const struct chan *c);
/* So many of them are gone. */
void chan_taken(struct chan *c, size_t n);
/* Bytes to the socket: how many it took (0: none now); on an error the channel is closing. */
size_t chan_io_write(struct chan *c, const uint8_t *p, size_t n);
/* One recv: how many bytes came (0: none now); at the end of input the channel is closing. */
size_t chan_io_read(struct chan *c, uint8_t *dst, size_t room);
/* Received clear bytes: dispatches whole frames, keeps the rest. */
void chan_io_plain(struct chan *c, struct span bytes);
/* The last step: tells on_close and frees. */
void chan_finish(struct chan *c);

/* Noise side (chan_noise.c). */
enum tv_err chan_noise_new(struct chan *c, const struct noise_conf *conf);
void chan_noise_free(struct chan_noise *n);
/* Connected: the initiator speaks first. */
void chan_noise_start(struct chan *c);
/* The socket is readable. */
void chan_noise_readable(struct chan *c);
/* Seals and writes what waits. */
void chan_noise_flush(struct chan *c);
/* Sealed bytes that the socket did not take yet. */
size_t chan_noise_pending(const struct chan_noise *n);

#endif
