/*
 * The one frame of every internal channel: unix sockets between the daemons,
 * Noise links between nodes.  16 bytes of header, little endian, then a msgpack body.
 *
 *	u32 length of the body | u16 type | u16 flags | u64 id | body
 *
 * `id` pairs an answer with its question on one channel; the asker chooses it,
 * the answer repeats it with FRAME_REPLY set.  0 means "no answer wanted".
 * Forwarding is relaying: the body goes on untouched, only the id changes.
 */
#ifndef TV_COMMON_NET_FRAME_H
#define TV_COMMON_NET_FRAME_H

#include "common/base/buf.h"
#include "common/base/rd.h"

#define FRAME_HEAD_BYTES 16
#define FRAME_BODY_BYTES_MAX (64u << 20)	/* no channel accepts more, whatever its own cap */

#define FRAME_REPLY	0x0001	/* answer to the frame with the same id */
#define FRAME_MORE	0x0002	/* the answer goes on in another frame with this id */
#define FRAME_CANCEL	0x0004	/* the asker no longer wants the answer; body is empty */

struct frame {
	uint16_t type;		/* enum msg_type, see common/net/msg.h */
	uint16_t flags;
	uint64_t id;
	struct span body;	/* borrowed */
};

/* Appends a whole frame. */
void frame_write(struct buf *b, const struct frame *f);
/* Starts a frame whose body the caller then appends to b; returns a handle for frame_close(). */
size_t frame_open(struct buf *b, uint16_t type, uint16_t flags, uint64_t id);
/* Fills in the length of the frame opened at `at`. */
void frame_close(struct buf *b, size_t at);
/* The same, of a frame whose body goes on outside of b for `more` bytes. */
void frame_close_with(struct buf *b, size_t at, size_t more);
/*
 * Takes one frame from the front of `in`.
 * Returns the bytes used, 0 when more are needed, or TV_ELIMIT when the header
 * announces a body above body_max, or above what its type may have (common/net/msg.h); nothing is allocated on its
 * word.  out has type and flags then.
 */
long frame_read(struct span in, size_t body_max, struct frame *out);

#endif
