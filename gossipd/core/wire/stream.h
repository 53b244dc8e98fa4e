/*
 * TCP side: one message in each direction.
 *
 *	[label header] [0a frame] [09 compression] message
 *
 * There is no length in front, so the reader finds the end of the message while
 * the bytes come in: it keeps them, scans each byte once, and allocates only
 * for bytes that have arrived (or were found by measuring the compressed ones).
 * Source: doc/wire.md, "TCP streams".
 */
#ifndef TV_GOSSIPD_CORE_WIRE_STREAM_H
#define TV_GOSSIPD_CORE_WIRE_STREAM_H

#include "gossipd/core/wire/packet.h"

#define STREAM_DEPTH_MAX 16		/* nesting of msgpack values */
#define STREAM_VALUE_MAX (64 * 1024)	/* bytes of a ping, an error, a header or one node */

struct stream_limits {
	uint32_t frame;			/* bytes of a sealed block */
	uint32_t flat;			/* bytes of an unsealed or a decompressed message */
	uint32_t nodes;			/* nodes in a push/pull */
	uint32_t user_state;		/* bytes of Serf state in a push/pull */
	uint32_t user_message;		/* bytes of a user message */
};

#define STREAM_LIMITS_DEFAULT ((struct stream_limits){ \
	.frame = 20u << 20, .flat = 40u << 20, .nodes = 1u << 20, .user_state = 20u << 20, .user_message = 20u << 20 })

/* Which end we are.  Only the dialler sends a label header. */
enum stream_side { STREAM_ACCEPTED, STREAM_DIALLED };

/* A whole message.  Spans borrow the reader. */
struct stream_message {
	enum wire_type type;		/* PING, ACK, PUSH_PULL, USER or ERROR */
	struct span body;		/* PING, ACK, ERROR: the map; USER: the user message itself */
	struct wire_pp_header header;	/* PUSH_PULL */
	struct span nodes;		/* PUSH_PULL: walk with wire_nodes(nodes, header.nodes) */
	struct span user_state;		/* PUSH_PULL: Serf state, type byte included; may be empty */
};

/* Resumable search for the end of one msgpack value. */
struct stream_scan {
	size_t pos;			/* of the next header; may lie beyond the bytes at hand */
	size_t limit;			/* pos must not pass it */
	uint64_t todo[STREAM_DEPTH_MAX];	/* values left at each level */
	unsigned depth;			/* levels in use */
	bool open;			/* a value has been started */
};

struct stream_reader {
	const struct envelope *envelope;
	struct stream_limits limits;
	enum stream_side side;
	struct buf raw;			/* as received */
	struct buf plain;		/* opened frame */
	struct buf flat;		/* decompressed */
	size_t start;			/* of the message in raw, after the label header */
	bool labelled;			/* the label header is done */
	unsigned phase;			/* progress in the message */
	struct stream_scan scan;
	uint32_t nodes_left;
	size_t nodes_from, nodes_to;
	size_t need;			/* bytes of the whole message, once known */
	enum tv_err err;		/* sticky; TV_EAGAIN while incomplete */
	struct stream_message message;
	bool sealed;			/* it came encrypted, with the key at this place of the ring */
	unsigned key;
};

/* The envelope must outlive the reader. */
void stream_reader_init(struct stream_reader *s, const struct envelope *e, const struct stream_limits *limits,
    enum stream_side side);
/* Frees and wipes. */
void stream_reader_done(struct stream_reader *s);
/*
 * Takes bytes as they come.  TV_OK: a message is complete (later bytes are
 * ignored); TV_EAGAIN: go on; else the stream is to be closed: TV_EAUTH (wrong
 * label, no key fits, plaintext instead of sealed or the other way round: the
 * peer gets an error message), TV_EFORMAT, TV_ELIMIT, TV_ENOMEM.
 */
enum tv_err stream_feed(struct stream_reader *s, struct span bytes);
/* Memory that it holds. */
size_t stream_reader_bytes(const struct stream_reader *s);
/* The message after TV_OK. */
const struct stream_message *stream_message(const struct stream_reader *s);
/*
 * Wraps a whole message (type byte included) for the wire and appends it to
 * out.  TV_EINVAL: empty; TV_ELIMIT: the sealed frame would pass 20 MiB; TV_ENOMEM.
 */
enum tv_err stream_build(const struct envelope *e, struct packet_scratch *s, enum stream_side side, struct span message,
    const uint8_t nonce[SEAL_NONCE_BYTES], struct buf *out);

#endif
