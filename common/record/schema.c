/* Records as msgpack, by their schema. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "common/record/mpack.h"
#include "common/record/schema.h"

/* The field's place in the record, as a pointer of its type. */
#define AT(type_, rec_, f_) ((type_ *)(void *)((char *)(rec_) + (f_)->offset))
#define AT_CONST(type_, rec_, f_) ((const type_ *)(const void *)((const char *)(rec_) + (f_)->offset))

_Static_assert(sizeof(struct span_list) == sizeof(struct obj_list) &&
    sizeof(struct f64_list) == sizeof(struct obj_list) && sizeof(struct span_map) == sizeof(struct obj_list),
    "lists of all types look the same");

/* Lists and maps; nil: not given. */
static void
pack_list(const struct schema_field *f, const struct obj_list *l, struct buf *out)
{
	const struct span *texts = l->v;

	if (!l->set && l->n == 0)
		mpw_nil(out);
	else if (f->type == ST_MAP)
		mpw_map(out, l->n);
	else
		mpw_array(out, l->n);
	for (uint32_t i = 0; i < l->n; i++)
		if (f->sub != NULL) {
			schema_pack(f->sub, (const char *)l->v + (size_t)i * f->sub->size, out);
		} else if (f->type == ST_MAP) {
			mpw_str(out, texts[2 * i]);
			mpw_str(out, texts[2 * i + 1]);
		} else if (f->type == ST_STRS) {
			mpw_str(out, texts[i]);
		} else {
			mpw_f64(out, ((const double *)l->v)[i]);
		}
}

static bool is_empty(const struct schema *s, const void *rec);

static bool
is_empty_field(const struct schema_field *f, const void *rec)
{
	switch (f->type) {
	case ST_STR:
	case ST_JSON:
	case ST_BIN:
		return AT_CONST(struct span, rec, f)->len == 0;
	case ST_U64:
	case ST_I64:
	case ST_DURATION:
		return *AT_CONST(uint64_t, rec, f) == 0;
	case ST_BOOL:
		return !*AT_CONST(bool, rec, f);
	case ST_F64:
		return *AT_CONST(double, rec, f) == 0;
	case ST_OBJ:
		return (f->has != 0 && !*((const bool *)rec + f->has - 1)) ||
		    is_empty(f->sub, (const char *)rec + f->offset);
	case ST_STRS:
	case ST_F64S:
	case ST_MAP:
	case ST_OBJS:
	case ST_OBJMAP:
		return AT_CONST(struct obj_list, rec, f)->n == 0;
	case ST_CONST:
		break;
	}
	return true;
}

static bool
is_empty(const struct schema *s, const void *rec)
{
	for (unsigned i = 0; i < s->count; i++)
		if (!is_empty_field(&s->fields[i], rec))
			return false;
	return true;
}

static void
pack_obj(const struct schema_field *f, const void *rec, struct buf *out)
{
	if ((f->has != 0 && !*((const bool *)rec + f->has - 1)) ||
	    ((f->flags & SF_NILEMPTY) && is_empty(f->sub, (const char *)rec + f->offset)))
		mpw_nil(out);
	else
		schema_pack(f->sub, (const char *)rec + f->offset, out);
}

static void
pack_field(const struct schema_field *f, const void *rec, struct buf *out)
{
	switch (f->type) {
	case ST_STR:
	case ST_JSON:
		mpw_str(out, *AT_CONST(struct span, rec, f));
		break;
	case ST_BIN:
		mpw_bin(out, *AT_CONST(struct span, rec, f));
		break;
	case ST_U64:
		mpw_uint(out, *AT_CONST(uint64_t, rec, f));
		break;
	case ST_I64:
	case ST_DURATION:
		mpw_int(out, *AT_CONST(int64_t, rec, f));
		break;
	case ST_BOOL:
		mpw_bool(out, *AT_CONST(bool, rec, f));
		break;
	case ST_F64:
		mpw_f64(out, *AT_CONST(double, rec, f));
		break;
	case ST_OBJ:
		pack_obj(f, rec, out);
		break;
	case ST_STRS:
	case ST_F64S:
	case ST_MAP:
	case ST_OBJS:
	case ST_OBJMAP:
		pack_list(f, AT_CONST(struct obj_list, rec, f), out);
		break;
	case ST_CONST:
		break;
	}
}

/* Fields that have a place in msgpack. */
static uint32_t
stored_count(const struct schema *s)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < s->count; i++)
		n += s->fields[i].type != ST_CONST;
	return n;
}

void
schema_pack(const struct schema *s, const void *rec, struct buf *out)
{
	mpw_array(out, stored_count(s));
	schema_pack_fields(s, rec, out);
}

void
schema_pack_fields(const struct schema *s, const void *rec, struct buf *out)
{
	for (unsigned i = 0; i < s->count; i++)
		pack_field(&s->fields[i], rec, out);
}

/* Lists and maps; nil: not given. */
static void
unpack_list(const struct schema_field *f, struct rd *in, struct arena *a, struct obj_list *l)
{
	uint32_t n;
	size_t size;
	char *at;

	*l = (struct obj_list){ .n = 0 };	/* a record that is used again has the list of the one before */
	if (mpr_nil(in))
		return;
	n = f->type == ST_MAP ? mpr_map(in) : mpr_array(in);
	at = schema_list_new(f, n, a, l, &size);
	if (at == NULL)
		rd_fail(in, TV_ENOMEM);
	for (l->n = 0; l->n < n && in->err == TV_OK; l->n++, at += size)
		if (f->sub != NULL) {
			(void)schema_unpack(f->sub, in, a, at);		/* the reader keeps the error */
		} else if (f->type == ST_F64S) {
			*(double *)(void *)at = mpr_f64(in);
		} else {
			*(struct span *)(void *)at = mpr_bytes(in, SCHEMA_TEXT_BYTES_MAX);
			if (f->type == ST_MAP)
				((struct span *)(void *)at)[1] = mpr_bytes(in, SCHEMA_TEXT_BYTES_MAX);
		}
}

static void
unpack_obj(const struct schema_field *f, struct rd *in, struct arena *a, void *rec)
{
	if (mpr_nil(in))
		return;
	if (f->has != 0)
		*((bool *)rec + f->has - 1) = true;
	(void)schema_unpack(f->sub, in, a, (char *)rec + f->offset);	/* the reader keeps the error */
}

static void
unpack_field(const struct schema_field *f, struct rd *in, struct arena *a, void *rec)
{
	switch (f->type) {
	case ST_STR:
	case ST_JSON:
	case ST_BIN:
		*AT(struct span, rec, f) = mpr_bytes_or_nil(in, SCHEMA_TEXT_BYTES_MAX);
		break;
	case ST_U64:
		*AT(uint64_t, rec, f) = mpr_uint(in, UINT64_MAX);
		break;
	case ST_I64:
	case ST_DURATION:
		*AT(int64_t, rec, f) = mpr_int(in);
		break;
	case ST_BOOL:
		*AT(bool, rec, f) = mpr_bool(in);
		break;
	case ST_F64:
		*AT(double, rec, f) = mpr_f64(in);
		break;
	case ST_OBJ:
		unpack_obj(f, in, a, rec);
		break;
	case ST_STRS:
	case ST_F64S:
	case ST_MAP:
	case ST_OBJS:
	case ST_OBJMAP:
		unpack_list(f, in, a, AT(struct obj_list, rec, f));
		break;
	case ST_CONST:
		break;
	}
}

enum tv_err
schema_unpack(const struct schema *s, struct rd *in, struct arena *a, void *rec)
{
	schema_unpack_fields(s, mpr_array(in), in, a, rec);
	return in->err;
}

void
schema_unpack_fields(const struct schema *s, uint32_t left, struct rd *in, struct arena *a, void *rec)
{
	for (unsigned i = 0; i < s->count && left > 0 && in->err == TV_OK; i++) {
		if (s->fields[i].type == ST_CONST)
			continue;
		unpack_field(&s->fields[i], in, a, rec);
		left--;
	}
	for (; left > 0 && in->err == TV_OK; left--)
		mpr_skip(in);		/* appended by a newer version */
}

/* -- for readers of other forms -- */

static bool
is_named(const char *field, struct span name, bool snake)
{
	if (!snake)		/* most differ in the first letter */
		return name.len > 0 && ((uint8_t)field[0] | 0x20) == (name.p[0] | 0x20) &&
		    strncasecmp(field, (const char *)name.p, name.len) == 0 && strlen(field) == name.len;
	for (size_t i = 0; i < name.len; i++)
		if (name.p[i] != '_' && (*field == '\0' || tolower((uint8_t)*field++) != tolower(name.p[i])))
			return false;
	return *field == '\0';
}

const struct schema_field *
schema_field_named(const struct schema *s, unsigned from, struct span name, bool snake)
{
	for (unsigned i = from; i < s->count; i++)
		if (!(s->fields[i].flags & SF_HIDDEN) && is_named(s->fields[i].name, name, snake))
			return &s->fields[i];
	return NULL;
}

char *
schema_list_new(const struct schema_field *f, size_t n, struct arena *a, void *list, size_t *size)
{
	struct obj_list made = { .n = (uint32_t)n, .set = true };

	*size = f->sub != NULL ? f->sub->size : f->type == ST_F64S ? sizeof(double) :
	    (f->type == ST_MAP ? 2 : 1) * sizeof(struct span);
	made.v = arena_array(a, n, *size);
	memcpy(list, &made, sizeof(made));
	return made.v;
}
