/*
 * Objects of the gossip wire, described by tables.
 *
 * Every message body is a msgpack map keyed by field name.  A table lists the
 * fields of a C struct in the order in which they are written (byte order of
 * the keys) and says where each stands when a peer writes the object as an
 * array.  One writer and one reader walk the tables.
 *
 * Reader: any order, unknown keys skipped, the last of duplicate keys wins,
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

enum field_kind {
	FIELD_UINT,	/* uint8_t .. uint64_t by `size`; negative or too large: TV_EFORMAT */
	FIELD_INT,	/* int64_t */
	FIELD_BOOL,	/* bool */
	FIELD_F64,	/* double */
	FIELD_STR,	/* struct span, never written as nil */
	FIELD_BIN,	/* struct span, p == NULL is nil on the wire */
	FIELD_LIST,	/* struct span over the msgpack array, header included; SPAN_NONE is nil */
	FIELD_DICT,	/* the same of a map */
	FIELD_OBJECT,	/* a nested struct, described by `sub` */
};

struct field {
	const char *key;
	enum field_kind kind;
	uint8_t key_len;
	bool omit;			/* not written when zero or empty */
	uint8_t pos;			/* place in the array form, from 0 */
	uint8_t size;			/* FIELD_UINT: bytes of the C integer */
	uint16_t off;			/* of the member in the struct */
	uint32_t max;			/* FIELD_STR, FIELD_BIN: longest value, in bytes */
	const struct field_table *sub;	/* FIELD_OBJECT */
};

struct field_table {
	const struct field *fields;	/* sorted by key, bytewise */
	uint8_t count;
	uint16_t size;			/* sizeof the struct */
};

/* Writes the object; failure shows in b->failed. */
void fields_write(struct buf *b, const struct field_table *t, const void *object);
/*
 * Reads one object into *object, which is zeroed first.  Spans borrow the
 * input.  `a` holds byte fields that came as arrays of integers; with NULL
 * those forms are TV_ELIMIT.  Returns r->err.
 */
enum tv_err fields_read(struct rd *r, const struct field_table *t, struct arena *a, void *object);

/* Lines of a table: struct type, key, member, place in the array form, longest value. */
#define F_ROW(kind_, type, key_, member, place, ...) \
	{ .key = (key_), .key_len = sizeof(key_) - 1, .kind = (kind_), .off = offsetof(type, member), .pos = (place), \
	    __VA_ARGS__ }
#define F_UINT(type, key, member, place) \
	F_ROW(FIELD_UINT, type, key, member, place, .size = sizeof(((type *)0)->member))
#define F_UINT_OMIT(type, key, member, place) \
	F_ROW(FIELD_UINT, type, key, member, place, .size = sizeof(((type *)0)->member), .omit = true)
#define F_INT(type, key, member, place) F_ROW(FIELD_INT, type, key, member, place, .size = 8)
#define F_BOOL(type, key, member, place) F_ROW(FIELD_BOOL, type, key, member, place, .size = 1)
#define F_F64(type, key, member, place) F_ROW(FIELD_F64, type, key, member, place, .size = 8)
#define F_STR(type, key, member, place, longest) F_ROW(FIELD_STR, type, key, member, place, .max = (longest))
#define F_STR_OMIT(type, key, member, place, longest) \
	F_ROW(FIELD_STR, type, key, member, place, .max = (longest), .omit = true)
#define F_BIN(type, key, member, place, longest) F_ROW(FIELD_BIN, type, key, member, place, .max = (longest))
#define F_BIN_OMIT(type, key, member, place, longest) \
	F_ROW(FIELD_BIN, type, key, member, place, .max = (longest), .omit = true)
#define F_LIST(type, key, member, place) F_ROW(FIELD_LIST, type, key, member, place, .max = 0)
#define F_DICT(type, key, member, place) F_ROW(FIELD_DICT, type, key, member, place, .max = 0)
#define F_OBJECT(type, key, member, place, table) F_ROW(FIELD_OBJECT, type, key, member, place, .sub = &(table))
/* F_TABLE(ping, struct wire_ping) makes `ping` of `ping_fields`. */
#define F_TABLE(name, type) \
	static const struct field_table name = { name##_fields, sizeof(name##_fields) / sizeof(name##_fields[0]), \
		sizeof(type) }

#endif
