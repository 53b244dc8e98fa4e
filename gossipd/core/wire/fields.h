/*
 * FIELDS(): one list of rows makes a C struct and the table by which it is written to the gossip wire and read.
 *
 *	FIELDS(wire_ack,
 *		(BIN(WIRE_PAYLOAD_BYTES_MAX), payload, "Payload", 1),
 *		(U32, seq, "SeqNo", 0))
 *
 * declares struct wire_ack { struct span payload; uint32_t seq; } and wire_ack_table.  wire.c alone defines
 * FIELDS_TABLES before it includes the headers with rows; there the tables are defined as well.
 *
 * Every message body is a msgpack map keyed by field name.  A row is (kind, member, key, place): rows stand in the
 * order in which the fields are written, which is the byte order of the keys; the place is that of the field, from 0,
 * when a peer writes the object as an array.  One writer and one reader walk the tables.
 *
 *	U8 U16 U32 U64 I64	integers; negative for an unsigned one, or too large: TV_EFORMAT
 *	BOOL F64		bool, double
 *	STR(max)		struct span, never written as nil; longer than max bytes: TV_ELIMIT
 *	BIN(max)		struct span, p == NULL is nil on the wire; too long: as above
 *	ADDR			BIN of no, 4 or 16 bytes, else TV_EFORMAT
 *	VSN			BIN of no or at least 6 bytes, else TV_EFORMAT
 *	LIST DICT		struct span over a msgpack array or map, header included; SPAN_NONE is nil
 *	OBJECT(name)		struct name, nested
 *	OMIT(kind)		U16, STR(max) or ADDR that is not written when zero or empty
 *
 * Reader: any order, unknown keys skipped, the last of duplicate keys wins (each has to be sound),
 * nil gives zero or empty (also for a whole object), integers of any width if
 * the value fits, str and bin alike, bytes also as an array of small integers.
 * Source: doc/wire.md, "dialect".
 */
#ifndef TV_GOSSIPD_CORE_WIRE_FIELDS_H
#define TV_GOSSIPD_CORE_WIRE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/record/mpack.h"
#include "common/record/record.h"

#define FIELD_ADDR_BYTES_MAX 16
#define FIELD_VSN_BYTES_MIN 6
#define FIELD_VSN_BYTES_MAX 64	/* longer than any known one, so that a later version is still read */

enum field_kind {
	FIELD_UINT,			/* uint8_t .. uint64_t by `size` */
	FIELD_I64,
	FIELD_BOOL,
	FIELD_F64,
	FIELD_STR,
	FIELD_BIN,
	FIELD_ADDR,
	FIELD_VSN,
	FIELD_LIST,
	FIELD_DICT,
	FIELD_OBJECT,
};

struct field {
	const char *key;
	enum field_kind kind;
	uint8_t key_len;
	bool omit;			/* not written when zero or empty */
	uint8_t pos;			/* place in the array form */
	uint8_t size;			/* of the member, in bytes */
	uint16_t off;			/* of the member in the struct */
	uint32_t max;			/* longest value, in bytes */
	const struct field_table *sub;	/* OBJECT */
};

struct field_table {
	const struct field *fields;	/* sorted by key, bytewise */
	uint8_t count;
	uint16_t size;			/* sizeof the struct */
};

/* Writes the object; failure shows in b->failed. */
void fields_write(struct buf *b, const struct field_table *t, const void *object);
/* The same behind the type byte of a message. */
void fields_put(struct buf *b, uint8_t type, const struct field_table *t, const void *object);
/*
 * Reads one object into *object, which is zeroed first.  Spans borrow the
 * input.  `a` holds byte fields that came as arrays of integers; with NULL
 * those forms are TV_ELIMIT.  Returns r->err.
 */
enum tv_err fields_read(struct rd *r, const struct field_table *t, struct arena *a, void *object);
/* The same from a body; bytes after the object are ignored. */
enum tv_err fields_get(struct span body, const struct field_table *t, struct arena *a, void *object);

#define FIELDS(name_, ...) \
	struct name_ { RECORD_EACH(FIELDS_MEMBER, name_, __VA_ARGS__) }; \
	extern const struct field_table name_##_table; \
	FIELDS_DEFINED(FIELDS_TABLE(name_, __VA_ARGS__))
/* An object that one .c file alone knows. */
#define FIELDS_LOCAL(name_, ...) \
	struct name_ { RECORD_EACH(FIELDS_MEMBER, name_, __VA_ARGS__) }; \
	static FIELDS_TABLE(name_, __VA_ARGS__)
/* A message with its writer and its reader: prefix_put_name and prefix_get_name of struct prefix_name. */
#define FIELDS_MESSAGE(prefix_, name_, type_, ...) \
	FIELDS(prefix_##_##name_, __VA_ARGS__) \
	FIELDS_PUT(prefix_##_put_##name_, type_, prefix_##_##name_) \
	FIELDS_GET(prefix_##_get_##name_, prefix_##_##name_)
#define FIELDS_PUT(function_, type_, name_) \
	static inline void function_(struct buf *b, const struct name_ *m) \
	{ fields_put(b, (type_), &name_##_table, m); }
#define FIELDS_GET(function_, name_) \
	static inline enum tv_err function_(struct span body, struct arena *a, struct name_ *m) \
	{ return fields_get(body, &name_##_table, a, m); }

#ifdef FIELDS_TABLES
#define FIELDS_DEFINED(...) __VA_ARGS__
#else
#define FIELDS_DEFINED(...)
#endif
#define FIELDS_TABLE(name_, ...) \
	const struct field_table name_##_table = { \
	    (const struct field[]){ RECORD_EACH(FIELDS_ROW, name_, __VA_ARGS__) }, \
	    RECORD_EACH(RECORD_COUNT, name_, __VA_ARGS__) 0, sizeof(struct name_) };
#define FIELDS_MEMBER(name_, row_) FIELDS_APPLY(FIELDS_MEMBER_OF, name_, RECORD_PARTS row_)
#define FIELDS_ROW(name_, row_) FIELDS_APPLY(FIELDS_ROW_OF, name_, RECORD_PARTS row_)
#define FIELDS_APPLY(do_, ...) do_(__VA_ARGS__)
#define FIELDS_MEMBER_OF(name_, kind_, member_, ...) FIELDS_PICK(FIELDS_FIRST, FIELDS_##kind_) member_;
#define FIELDS_ROW_OF(name_, kind_, member_, key_, place_) { .key = (key_), .key_len = sizeof(key_) - 1, \
	.off = offsetof(struct name_, member_), .size = sizeof(((struct name_ *)0)->member_), .pos = (place_), \
	FIELDS_PICK(FIELDS_OTHERS, FIELDS_##kind_) },
#define FIELDS_PICK(do_, ...) do_(__VA_ARGS__)	/* apart: a macro does not work inside itself */
#define FIELDS_FIRST(first_, ...) first_
#define FIELDS_OTHERS(first_, ...) __VA_ARGS__

/* What a kind is: its C type, and the rest of its row. */
#define FIELDS_U8		uint8_t, .kind = FIELD_UINT
#define FIELDS_U16		uint16_t, .kind = FIELD_UINT
#define FIELDS_U32		uint32_t, .kind = FIELD_UINT
#define FIELDS_U64		uint64_t, .kind = FIELD_UINT
#define FIELDS_I64		int64_t, .kind = FIELD_I64
#define FIELDS_BOOL		bool, .kind = FIELD_BOOL
#define FIELDS_F64		double, .kind = FIELD_F64
#define FIELDS_STR(max_)	struct span, .kind = FIELD_STR, .max = (max_)
#define FIELDS_BIN(max_)	struct span, .kind = FIELD_BIN, .max = (max_)
#define FIELDS_ADDR		struct span, .kind = FIELD_ADDR, .max = FIELD_ADDR_BYTES_MAX
#define FIELDS_VSN		struct span, .kind = FIELD_VSN, .max = FIELD_VSN_BYTES_MAX
#define FIELDS_LIST		struct span, .kind = FIELD_LIST
#define FIELDS_DICT		struct span, .kind = FIELD_DICT
#define FIELDS_OBJECT(name_)	struct name_, .kind = FIELD_OBJECT, .sub = &name_##_table
#define FIELDS_OMIT(kind_)	FIELDS_##kind_, .omit = true

#endif
