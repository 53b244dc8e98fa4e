/*
 * Memberlist messages: structs, writers and readers.  Source: doc/wire.md.
 *
 * wire_put_X appends the whole message, type byte included.  wire_get_X reads
 * a body, that is what follows the type byte; bytes after it are ignored, as
 * peers do.  Spans borrow the input (or `a`, for byte fields that came as
 * arrays of integers; a may be NULL, then such forms are refused).
 * In byte fields p == NULL is nil on the wire, p != NULL with len 0 is empty:
 * they differ, and both are kept.
 *
 * Readers return TV_EFORMAT or TV_EOF for bad bytes and TV_ELIMIT for a field
 * that is longer than its limit here.  They also refuse what is known to crash
 * peers or to make no sense anywhere: a Vsn of 1..5 bytes, an address that is
 * neither empty nor 4 or 16 bytes, a meta above 512.
 */
#ifndef TV_GOSSIPD_CORE_WIRE_WIRE_H
#define TV_GOSSIPD_CORE_WIRE_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/rd.h"
#include "common/record/member.h"
#include "gossipd/core/wire/fields.h"

enum wire_type {
	WIRE_PING = 0,
	WIRE_INDIRECT_PING = 1,
	WIRE_ACK = 2,
	WIRE_SUSPECT = 3,
	WIRE_ALIVE = 4,
	WIRE_DEAD = 5,
	WIRE_PUSH_PULL = 6,
	WIRE_COMPOUND = 7,
	WIRE_USER = 8,
	WIRE_COMPRESS = 9,
	WIRE_ENCRYPT = 10,
	WIRE_NACK = 11,
	WIRE_CRC = 12,
	WIRE_ERROR = 13,
	WIRE_LABEL = 244,
};

#define WIRE_NAME_BYTES_MAX MEMBER_NAME_BYTES_MAX
#define WIRE_ADDR_BYTES_MAX FIELD_ADDR_BYTES_MAX
#define WIRE_META_BYTES_MAX 512
#define WIRE_VSN_BYTES FIELD_VSN_BYTES_MIN
#define WIRE_PAYLOAD_BYTES_MAX 1024	/* of an ack */
#define WIRE_ERROR_BYTES_MAX 4096
#define WIRE_BULK_BYTES_MAX (64u << 20)	/* bounded by the message */
#define WIRE_LABEL_BYTES_MAX 255
#define WIRE_PARTS_MAX 255		/* of a compound */

/* Places in a version vector. */
enum wire_vsn { VSN_PMIN, VSN_PMAX, VSN_PCUR, VSN_DMIN, VSN_DMAX, VSN_DCUR };

/* States in push/pull nodes; larger values occur and mean nothing. */
enum wire_state { WIRE_STATE_ALIVE = 0, WIRE_STATE_SUSPECT = 1, WIRE_STATE_DEAD = 2, WIRE_STATE_LEFT = 3 };

/* Rows: see fields.h.  Pings leave out the three source fields when they are empty. */
#define WIRE_NAME STR(WIRE_NAME_BYTES_MAX)
#define WIRE_META BIN(WIRE_META_BYTES_MAX)
#define WIRE_SOURCE(place_) \
	(OMIT(ADDR), source_addr, "SourceAddr", place_), \
	(OMIT(WIRE_NAME), source_node, "SourceNode", (place_) + 2), \
	(OMIT(U16), source_port, "SourcePort", (place_) + 1)

FIELDS_MESSAGE(wire, ping, WIRE_PING,
	(WIRE_NAME, node, "Node", 1),			/* target; may be empty */
	(U32, seq, "SeqNo", 0),
	WIRE_SOURCE(2))
FIELDS_MESSAGE(wire, indirect, WIRE_INDIRECT_PING,
	(BOOL, nack, "Nack", 4),
	(WIRE_NAME, node, "Node", 3),			/* target */
	(U16, port, "Port", 2),
	(U32, seq, "SeqNo", 0),
	WIRE_SOURCE(5),
	(ADDR, target, "Target", 1))
FIELDS_MESSAGE(wire, ack, WIRE_ACK,
	(BIN(WIRE_PAYLOAD_BYTES_MAX), payload, "Payload", 1),
	(U32, seq, "SeqNo", 0))
FIELDS_MESSAGE(wire, nack, WIRE_NACK,
	(U32, seq, "SeqNo", 0))
FIELDS_MESSAGE(wire, error, WIRE_ERROR,
	(STR(WIRE_ERROR_BYTES_MAX), text, "Error", 0))
FIELDS_MESSAGE(wire, alive, WIRE_ALIVE,
	(ADDR, addr, "Addr", 2),
	(U32, incarnation, "Incarnation", 0),
	(WIRE_META, meta, "Meta", 4),
	(WIRE_NAME, node, "Node", 1),
	(U16, port, "Port", 3),
	(VSN, vsn, "Vsn", 5))
/* suspect and dead have one shape. */
FIELDS(wire_accuse,
	(WIRE_NAME, from, "From", 2),
	(U32, incarnation, "Incarnation", 0),
	(WIRE_NAME, node, "Node", 1))
FIELDS_PUT(wire_put_suspect, WIRE_SUSPECT, wire_accuse)
FIELDS_PUT(wire_put_dead, WIRE_DEAD, wire_accuse)
FIELDS_GET(wire_get_accuse, wire_accuse)
FIELDS(wire_compress,
	(U8, algo, "Algo", 0),				/* 0 */
	(BIN(WIRE_BULK_BYTES_MAX), data, "Buf", 1))	/* LZW stream */
FIELDS_PUT(wire_put_compress, WIRE_COMPRESS, wire_compress)
/* Also TV_EFORMAT for an algorithm other than 0 and for empty data. */
enum tv_err wire_get_compress(struct span body, struct arena *a, struct wire_compress *m);

/* Type byte and header of a push/pull; then wire_put_node for each node, then the raw user state. */
FIELDS_MESSAGE(wire, pp_header, WIRE_PUSH_PULL,
	(BOOL, join, "Join", 2),
	(U32, nodes, "Nodes", 0),
	(U32, user_state_len, "UserStateLen", 1))
FIELDS(wire_node,
	(ADDR, addr, "Addr", 1),
	(U32, incarnation, "Incarnation", 4),
	(WIRE_META, meta, "Meta", 3),
	(WIRE_NAME, name, "Name", 0),
	(U16, port, "Port", 2),
	(U32, state, "State", 5),			/* enum wire_state or unknown */
	(VSN, vsn, "Vsn", 6))
void wire_put_node(struct buf *b, const struct wire_node *m);	/* no type byte */
FIELDS_GET(wire_get_node, wire_node)
/* User message on a stream: type byte, length header, the bytes. */
void wire_put_user_stream(struct buf *b, struct span message);
enum tv_err wire_get_user_header(struct span body, struct arena *a, uint32_t *message_len);

/* The nodes of a push/pull, one after the other. */
struct wire_node_iter {
	struct rd rd;
	uint32_t left;
};

struct wire_node_iter wire_nodes(struct span nodes, uint32_t count);
/*
 * TV_OK with *m filled; TV_EOF after the last; another code for a node that
 * is well-formed msgpack but not a valid node: call again for the next one.
 * Bytes that are not msgpack end the walk with TV_EOF after one error.
 */
enum tv_err wire_node_next(struct wire_node_iter *it, struct arena *a, struct wire_node *m);

/* Empty, 4 or 16 bytes. */
bool wire_addr_ok(struct span addr);
/* Same IP address, 4-byte and v4-mapped 16-byte forms being equal. */
bool wire_addr_same(struct span x, struct span y);
/* First six bytes, or zeros when it is empty. */
void wire_vsn_copy(struct span vsn, uint8_t out[WIRE_VSN_BYTES]);
/* An alive with this Vsn may be used: empty, or 1 <= PMin <= PMax. */
bool wire_vsn_usable(struct span vsn);

#endif
