/*
 * RECORD(): one list of rows makes a C struct and its schema.
 *
 *	RECORD(kv_read,
 *		(STR, Key),
 *		(STR, Separator))
 *
 * declares struct kv_read { struct span Key, Separator; } and kv_read_schema.  One .c file per header of records
 * defines RECORD_SCHEMAS before it includes the header; there the schemas are defined as well.  Stored records and
 * messages depend on the order: rows may be appended, never inserted, moved or removed.  At most 64 rows.
 *
 *	(kind, name)			STR BIN JSON U64 I64 BOOL F64 DURATION STRS F64S MAP: see ST_* in schema.h
 *	(OBJ, name, record)		an embedded struct
 *	(OPT, name, flag, record)	one that may be absent: the bool flag says whether it is there
 *	(OBJS, name, record)		a list of structs
 *	(OBJMAP, name, record)		the same; a JSON object by the record's first field
 *	(CONST, name, text)		not kept: accepted from clients, shown as text when that is not NULL
 *
 * Each but CONST may end with flags (SF_*).  The name is that of the C field and of JSON.
 */
#ifndef TV_COMMON_RECORD_RECORD_H
#define TV_COMMON_RECORD_RECORD_H

#include "common/record/schema.h"

#define RECORD(name_, ...) \
	struct name_ { RECORD_EACH(RECORD_MEMBER, name_, __VA_ARGS__) }; \
	RECORD_AS(name_, name_, __VA_ARGS__)
/* Another schema, name_, of struct struct_. */
#define RECORD_AS(name_, struct_, ...) \
	extern const struct schema name_##_schema; \
	RECORD_SCHEMA(name_, struct_, __VA_ARGS__)
/* A record that one .c file alone knows. */
#define RECORD_LOCAL(name_, ...) RECORD_LOCAL_TITLED(#name_, name_, __VA_ARGS__)
#define RECORD_LOCAL_TITLED(title_, name_, ...) \
	struct name_ { RECORD_EACH(RECORD_MEMBER, name_, __VA_ARGS__) }; \
	static RECORD_TABLE_TITLED(title_, name_, name_, __VA_ARGS__)

/* Errors call it by a title.  The .c file of the header sets RECORD_SCHEMA_TITLED to RECORD_TABLE_TITLED before. */
#define RECORD_TITLED(title_, name_, ...) \
	struct name_ { RECORD_EACH(RECORD_MEMBER, name_, __VA_ARGS__) }; \
	extern const struct schema name_##_schema; \
	RECORD_SCHEMA_TITLED(title_, name_, name_, __VA_ARGS__)
#define RECORD_SCHEMA_TITLED(...)

#define RECORD_TABLE(name_, ...) RECORD_TABLE_TITLED(#name_, name_, __VA_ARGS__)
#define RECORD_TABLE_TITLED(title_, name_, struct_, ...) \
	const struct schema name_##_schema = { title_, \
	    (const struct schema_field[]){ RECORD_EACH(RECORD_FIELD, struct_, __VA_ARGS__) }, \
	    RECORD_EACH(RECORD_COUNT, struct_, __VA_ARGS__) 0, sizeof(struct struct_) };
#ifdef RECORD_SCHEMAS
#define RECORD_SCHEMA(...) RECORD_TABLE(__VA_ARGS__)
#else
#define RECORD_SCHEMA(...)
#endif
#define RECORD_COUNT(struct_, row_) 1 +

/* do_(struct_, row) for each row. */
#define RECORD_EACH(do_, struct_, ...) RECORD_SCAN(RECORD_STEP(do_, struct_, __VA_ARGS__))
#define RECORD_STEP(do_, struct_, row_, ...) \
	do_(struct_, row_) __VA_OPT__(RECORD_AGAIN RECORD_NOTHING () (do_, struct_, __VA_ARGS__))
#define RECORD_AGAIN() RECORD_STEP
#define RECORD_NOTHING
#define RECORD_SCAN(...) RECORD_SCAN_8(RECORD_SCAN_8(RECORD_SCAN_8(RECORD_SCAN_8(__VA_ARGS__))))
#define RECORD_SCAN_8(...) RECORD_SCAN_2(RECORD_SCAN_2(RECORD_SCAN_2(RECORD_SCAN_2(__VA_ARGS__))))
#define RECORD_SCAN_2(...) RECORD_SCAN_1(RECORD_SCAN_1(__VA_ARGS__))
#define RECORD_SCAN_1(...) __VA_ARGS__

/* What a kind is: its form (below), schema type and C type. */
#define RECORD_KIND_STR		PLAIN, ST_STR, struct span
#define RECORD_KIND_BIN		PLAIN, ST_BIN, struct span
#define RECORD_KIND_JSON	PLAIN, ST_JSON, struct span
#define RECORD_KIND_U64		PLAIN, ST_U64, uint64_t
#define RECORD_KIND_I64		PLAIN, ST_I64, int64_t
#define RECORD_KIND_BOOL	PLAIN, ST_BOOL, bool
#define RECORD_KIND_F64		PLAIN, ST_F64, double
#define RECORD_KIND_DURATION	PLAIN, ST_DURATION, int64_t
#define RECORD_KIND_STRS	PLAIN, ST_STRS, struct span_list
#define RECORD_KIND_F64S	PLAIN, ST_F64S, struct f64_list
#define RECORD_KIND_MAP		PLAIN, ST_MAP, struct span_map
#define RECORD_KIND_OBJS	LIST, ST_OBJS, struct obj_list
#define RECORD_KIND_OBJMAP	LIST, ST_OBJMAP, struct obj_list
#define RECORD_KIND_OBJ		OBJ, ST_OBJ, struct
#define RECORD_KIND_OPT		OPT, ST_OBJ, struct
#define RECORD_KIND_CONST	CONST, ST_CONST, void

#define RECORD_MEMBER(struct_, row_) RECORD_ROW(MEMBER, struct_, RECORD_PARTS row_)
#define RECORD_FIELD(struct_, row_) RECORD_ROW(FIELD, struct_, RECORD_PARTS row_)
#define RECORD_PARTS(...) __VA_ARGS__
#define RECORD_ROW(...) RECORD_ROW_(__VA_ARGS__)
#define RECORD_ROW_(what_, struct_, kind_, ...) RECORD_FORM(what_, struct_, RECORD_KIND_##kind_, __VA_ARGS__)
#define RECORD_FORM(...) RECORD_FORM_(__VA_ARGS__)
#define RECORD_FORM_(what_, struct_, form_, ...) RECORD_##what_##_##form_(struct_, __VA_ARGS__)

#define RECORD_MEMBER_PLAIN(struct_, st_, type_, name_, ...) type_ name_;
#define RECORD_MEMBER_LIST(struct_, st_, type_, name_, ...) type_ name_;
#define RECORD_MEMBER_OBJ(struct_, st_, type_, name_, record_, ...) type_ record_ name_;
#define RECORD_MEMBER_OPT(struct_, st_, type_, name_, flag_, record_, ...) bool flag_; type_ record_ name_;
#define RECORD_MEMBER_CONST(...)

#define RECORD_FIELD_PLAIN(struct_, st_, type_, name_, ...) { .name = #name_, .type = (st_), \
	.offset = offsetof(struct struct_, name_), .flags = 0 __VA_OPT__(| (__VA_ARGS__)) },
#define RECORD_FIELD_LIST(struct_, st_, type_, name_, record_, ...) { .name = #name_, .type = (st_), \
	.offset = offsetof(struct struct_, name_), .flags = 0 __VA_OPT__(| (__VA_ARGS__)), .sub = &record_##_schema },
#define RECORD_FIELD_OBJ(...) RECORD_FIELD_LIST(__VA_ARGS__)
#define RECORD_FIELD_OPT(struct_, st_, type_, name_, flag_, record_, ...) { .name = #name_, .type = (st_), \
	.offset = offsetof(struct struct_, name_), .flags = 0 __VA_OPT__(| (__VA_ARGS__)), .sub = &record_##_schema, \
	.has = offsetof(struct struct_, flag_) + 1 },
#define RECORD_FIELD_CONST(struct_, st_, type_, name_, text_) { .name = #name_, .type = (st_), .text = (text_) },

struct empty_rec { uint64_t unused; };	/* no fields */
extern const struct schema empty_schema;

#endif
