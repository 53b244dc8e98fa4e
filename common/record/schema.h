/*
 * A schema is a table of fields: the name as the API spells it, the type, the place in the C struct.  The rows
 * of RECORD() make it (common/record/record.h).  From it come msgpack in and out (stored records, operation
 * bodies), JSON in and out, and the filter selectors.  No converter is written by hand.
 *
 * msgpack form: an array of the fields in table order.  A reader accepts fewer elements (the rest stay at
 * the default) and skips more, so a newer version may append fields to a table, never insert or remove.
 */
#ifndef TV_COMMON_RECORD_SCHEMA_H
#define TV_COMMON_RECORD_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/rd.h"

#define SCHEMA_TEXT_BYTES_MAX (64u << 20)	/* longest text or value in a record */

enum schema_type {
	ST_STR,		/* struct span; JSON string */
	ST_BIN,		/* struct span; JSON base64, null when p == NULL or len == 0 */
	ST_U64,		/* uint64_t */
	ST_I64,		/* int64_t */
	ST_BOOL,	/* bool */
	ST_F64,		/* double */
	ST_DURATION,	/* int64_t ns; JSON number of ns, or text with SF_DURTEXT; reads both */
	ST_STRS,	/* struct span_list */
	ST_F64S,	/* struct f64_list */
	ST_MAP,		/* struct span_map: str -> str; JSON object with keys in order of insertion */
	ST_OBJ,		/* embedded struct described by sub */
	ST_OBJS,	/* struct obj_list of structs described by sub */
	ST_OBJMAP,	/* struct obj_list whose sub's first field (ST_STR) is the JSON key and not shown inside */
	ST_JSON,	/* struct span: compact JSON text of any value, kept and shown as it is; null when empty */
	ST_CONST,	/* not in the struct, not in msgpack; JSON shows `text` (NULL: nothing), takes nothing */
};

struct span_list { struct span *v; uint32_t n; bool set; };		/* set: given, though perhaps empty */
struct f64_list { double *v; uint32_t n; bool set; };
struct span_map { struct span (*kv)[2]; uint32_t n; bool set; };
struct obj_list { void *v; uint32_t n; bool set; };

enum schema_flags {
	SF_OMITEMPTY = 1,	/* JSON: leave the field out when zero, empty or unset */
	SF_NULLEMPTY = 2,	/* JSON: list or map (or str) that is unset is null (default: [] or {} or "") */
	SF_HIDDEN = 4,		/* never in JSON (in or out) */
	SF_DURTEXT = 8,		/* JSON: durations as "10s" */
	SF_LOCKDELAY = 16,	/* JSON in: a number below 1000 is seconds (session LockDelay) */
	SF_READONLY = 32,	/* ignored in JSON input (CreateIndex, ModifyIndex) */
	SF_KEYSHOWN = 64,	/* ST_OBJMAP: the key field is shown inside too */
	SF_NILEMPTY = 256,	/* ST_OBJ: nil in msgpack when all of it is empty */
	SF_SNAKE = 512,		/* ST_OBJ: JSON in: what is in it may be spelled in snake_case, in each request */
	SF_LISTS = 1024,	/* ST_OBJMAP, in filters: an object is but a list, the second field of sub */
	SF_FREE = 2048,		/* text of any characters, no name: see schema_names_fit() */
	SF_LATER = 128,		/* bodies of messages: appended by a later version, may be missing */
	SF_BARE = 4096,		/* ST_OBJMAP, JSON out: each object is shown as the value of its second field alone */
};

struct schema;
struct schema_field {
	const char *name;
	enum schema_type type;
	uint16_t offset;
	uint16_t flags;
	const struct schema *sub;
	/*
	 * ST_OBJ: offset of a bool that says whether the object is there, plus one; 0: it always is.
	 * An absent object is nil in msgpack and null in JSON (left out with SF_OMITEMPTY).
	 */
	uint16_t has;
	const char *text;	/* ST_CONST */
};

struct schema {
	const char *name;
	const struct schema_field *fields;
	uint16_t count;
	uint16_t size;		/* sizeof the C struct */
};

/* One record as msgpack. */
void schema_pack(const struct schema *s, const void *rec, struct buf *out);
/* The reverse into a zeroed struct.  Spans borrow the input; lists come from the arena. */
enum tv_err schema_unpack(const struct schema *s, struct rd *in, struct arena *a, void *rec);
/* The same of the fields alone, without the head of the array; the reader is told how many there are. */
void schema_pack_fields(const struct schema *s, const void *rec, struct buf *out);
void schema_unpack_fields(const struct schema *s, uint32_t fields, struct rd *in, struct arena *a, void *rec);
/*
 * Compact JSON of a record, straight from its msgpack (the fast path of answers): takes one value from in.
 * Returns the reader's error; out then holds a torn text.
 */
enum tv_err schema_json(const struct schema *s, struct rd *in, struct buf *out);
/*
 * Are all names in it, which is each text, element of a list and key of a map without SF_FREE, free of control
 * characters?  If not, `why` says which one is not.
 */
bool schema_names_fit(const struct schema *s, const void *rec, char *why, size_t cap);
/* C0, DEL or C1 (in UTF-8). */
bool text_has_controls(struct span text);
/* The same of one value, as this field shows it, without its name. */
enum tv_err schema_json_value(const struct schema_field *f, struct rd *in, struct buf *out);
/* Compact JSON of a C struct. */
void schema_json_rec(const struct schema *s, const void *rec, struct buf *out);

/*
 * For readers of other forms.  The field of this name among those from number `from` on, whatever the case of its
 * letters; snake: underscores of the name do not count ("enable_tag_override").  NULL: none, or it is SF_HIDDEN.
 */
const struct schema_field *schema_field_named(const struct schema *s, unsigned from, struct span name, bool snake);
/*
 * Makes the list or map of a field, at `list`, one of n zeroed elements (spans, pairs of spans, doubles or structs) of
 * *size bytes each.  The first, or NULL past the cap of the arena or without memory.
 */
char *schema_list_new(const struct schema_field *f, size_t n, struct arena *a, void *list, size_t *size);

#endif
