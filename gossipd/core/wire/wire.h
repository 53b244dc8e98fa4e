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
#define WIRE_ADDR_BYTES_MAX 16
#define WIRE_META_BYTES_MAX 512
#define WIRE_VSN_BYTES 6
#define WIRE_PAYLOAD_BYTES_MAX 1024	/* of an ack */
#define WIRE_ERROR_BYTES_MAX 4096
#define WIRE_LABEL_BYTES_MAX 255
#define WIRE_PARTS_MAX 255		/* of a compound */

/* Places in a version vector. */
enum wire_vsn { VSN_PMIN, VSN_PMAX, VSN_PCUR, VSN_DMIN, VSN_DMAX, VSN_DCUR };

/* States in push/pull nodes; larger values occur and mean nothing. */
enum wire_state { WIRE_STATE_ALIVE = 0, WIRE_STATE_SUSPECT = 1, WIRE_STATE_DEAD = 2, WIRE_STATE_LEFT = 3 };

struct wire_ping {
	uint32_t seq;
	struct span node;		/* target name; may be empty */
	struct span source_addr;	/* 0, 4 or 16 bytes; this and the next two are left out when zero */
	uint16_t source_port;
	struct span source_node;
};

struct wire_indirect {
	uint32_t seq;
	struct span target;		/* address */
	uint16_t port;
	struct span node;		/* target name */
	bool nack;
	struct span source_addr;
	uint16_t source_port;
	struct span source_node;
};

struct wire_ack {
	uint32_t seq;
	struct span payload;
};

struct wire_nack {
	uint32_t seq;
};

struct wire_error {
	struct span text;
};

struct wire_alive {
	uint32_t incarnation;
	struct span node;
	struct span addr;
	uint16_t port;
	struct span meta;
	struct span vsn;		/* empty, or at least 6 bytes */
};

/* suspect and dead have one shape. */
struct wire_accuse {
	uint32_t incarnation;
	struct span node;
	struct span from;
};

struct wire_pp_header {
	bool join;
	uint32_t nodes;
	uint32_t user_state_len;
};

struct wire_node {
	struct span name;
	struct span addr;
	uint16_t port;
	struct span meta;
	uint32_t incarnation;
	uint32_t state;			/* enum wire_state or unknown */
	struct span vsn;
};

struct wire_compress {
	uint8_t algo;			/* 0 */
	struct span data;		/* LZW stream */
};

void wire_put_ping(struct buf *b, const struct wire_ping *m);
void wire_put_indirect(struct buf *b, const struct wire_indirect *m);
void wire_put_ack(struct buf *b, const struct wire_ack *m);
void wire_put_nack(struct buf *b, const struct wire_nack *m);
void wire_put_error(struct buf *b, const struct wire_error *m);
void wire_put_alive(struct buf *b, const struct wire_alive *m);
void wire_put_suspect(struct buf *b, const struct wire_accuse *m);
void wire_put_dead(struct buf *b, const struct wire_accuse *m);
void wire_put_compress(struct buf *b, const struct wire_compress *m);
/* Type byte and header of a push/pull; then wire_put_node for each node, then the raw user state. */
void wire_put_pp_header(struct buf *b, const struct wire_pp_header *m);
void wire_put_node(struct buf *b, const struct wire_node *m);	/* no type byte */
/* User message on a stream: type byte, length header, the bytes. */
void wire_put_user_stream(struct buf *b, struct span message);

enum tv_err wire_get_ping(struct span body, struct arena *a, struct wire_ping *m);
enum tv_err wire_get_indirect(struct span body, struct arena *a, struct wire_indirect *m);
enum tv_err wire_get_ack(struct span body, struct arena *a, struct wire_ack *m);
enum tv_err wire_get_nack(struct span body, struct arena *a, struct wire_nack *m);
enum tv_err wire_get_error(struct span body, struct arena *a, struct wire_error *m);
enum tv_err wire_get_alive(struct span body, struct arena *a, struct wire_alive *m);
enum tv_err wire_get_accuse(struct span body, struct arena *a, struct wire_accuse *m);	/* suspect, dead */
/* Also TV_EFORMAT for an algorithm other than 0 and for empty data. */
enum tv_err wire_get_compress(struct span body, struct arena *a, struct wire_compress *m);
/* These take one object from the reader, as several follow each other on a stream. */
enum tv_err wire_read_pp_header(struct rd *r, struct arena *a, struct wire_pp_header *m);
enum tv_err wire_read_node(struct rd *r, struct arena *a, struct wire_node *m);
enum tv_err wire_read_user_header(struct rd *r, struct arena *a, uint32_t *message_len);

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
