/*
 * Datagrams.
 *
 *	[label header] [sealed block] [CRC header] [compression] message or compound
 *
 * packet_open peels the layers and hands every plain message to a visitor;
 * packet_build puts them on.  Source: doc/wire.md, "UDP packet envelope".
 */
#ifndef TV_GOSSIPD_CORE_WIRE_PACKET_H
#define TV_GOSSIPD_CORE_WIRE_PACKET_H

#include "gossipd/core/wire/lzw.h"
#include "gossipd/core/wire/seal.h"
#include "gossipd/core/wire/wire.h"

#define PACKET_BYTES_MAX 65536		/* receive buffer */
#define PACKET_FLAT_MAX (128 * 1024)	/* all decompressed bytes of one datagram together */
#define PACKET_DEPTH_MAX 4		/* compounds and compressions inside each other */
#define PACKET_MTU 1400			/* default of the soft limit for piggyback */

/* How this pool protects its packets and streams.  Borrowed spans and ring. */
struct envelope {
	const struct seal_ring *ring;	/* NULL or empty: plaintext */
	struct span label;		/* empty: none */
	bool accept_plain;		/* take plaintext although there are keys (verify-incoming off) */
	bool send_plain;		/* send plaintext although there are keys (verify-outgoing off) */
	uint8_t version;		/* of sealed blocks that we write: 1, or 0 for memberlist protocol 1 */
	bool compress;			/* what we send */
};

/* Working memory, about 250 KiB: one per process or test. */
struct packet_scratch {
	uint8_t plain[PACKET_BYTES_MAX];	/* opened block */
	uint8_t flat[PACKET_FLAT_MAX];		/* decompressed messages */
	size_t flat_used;
	struct lzw_table lzw;
	struct buf build[3];			/* layers of what is being sent */
};

struct packet_result {
	unsigned messages;		/* handed to the visitor */
	unsigned dropped;		/* parts or messages that were malformed, too deep or of an unknown type */
	enum tv_err err;		/* the first reason for a drop, or TV_OK */
	bool sealed;			/* it was encrypted, with the key at this place of the ring */
	unsigned key;
};

/* type is one of PING INDIRECT_PING ACK SUSPECT ALIVE DEAD USER NACK; body follows the type byte. */
typedef void (*packet_visit)(void *arg, enum wire_type type, struct span body);

/* Zeroes what must be zero.  packet_scratch_done frees; contents are wiped. */
void packet_scratch_init(struct packet_scratch *s);
void packet_scratch_done(struct packet_scratch *s);

/*
 * Opens one datagram.  Spans given to the visitor borrow the datagram or `s`.
 * A bad part does not stop the others.  Errors in the result: TV_EAUTH wrong
 * label, no key fits or plaintext where keys are required; TV_ECORRUPT CRC;
 * TV_EFORMAT, TV_EOF, TV_ELIMIT the bytes inside.
 */
struct packet_result packet_open(const struct envelope *e, struct packet_scratch *s, struct span datagram,
    packet_visit visit, void *arg);

/*
 * Builds a datagram of 1..255 whole messages (type byte included; none empty,
 * none above 65535 bytes: else TV_EINVAL) and appends it to out.
 * crc: the receiver is known to read CRC headers (PMax >= 5).
 * nonce: fresh random bytes, unused without keys.  TV_ENOMEM when a buffer failed.
 */
enum tv_err packet_build(const struct envelope *e, struct packet_scratch *s, const struct span *parts, unsigned count,
    bool crc, const uint8_t nonce[SEAL_NONCE_BYTES], struct buf *out);

/* Bytes that label and encryption add to a datagram. */
size_t packet_overhead(const struct envelope *e);
/*
 * Room for broadcasts beside a control message of control_len bytes (0: a
 * gossip packet of its own) when the soft limit is mtu; 0 when there is none.
 * A memberlist broadcast costs its length + PACKET_COST, a Serf broadcast
 * its length + PACKET_COST_USER; Serf ones only while more than PACKET_COST_USER is left.
 */
size_t packet_room(const struct envelope *e, size_t mtu, size_t control_len);
#define PACKET_COST 2
#define PACKET_COST_USER 3

/* There are keys. */
bool envelope_keyed(const struct envelope *e);
/* The envelope seals what it sends. */
bool envelope_seals(const struct envelope *e);
/* Appends the label header, if there is a label. */
void envelope_put_label(const struct envelope *e, struct buf *out);
/*
 * The compress message of `message` (not empty), in s->build[2] until the next call;
 * SPAN_NONE when memory ran out.  Overwrites s->build[1].
 */
struct span envelope_compress(struct packet_scratch *s, struct span message);

#endif
