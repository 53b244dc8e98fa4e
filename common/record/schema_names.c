/*
 * Names are data of those who register: whatever is legal in JSON.  What no name needs is refused where it comes in,
 * since programs that list names cannot all hold it, nor can a path of HTTP.
 */
#include <stdio.h>

#include "common/record/schema.h"

#define PATH_BYTES_MAX 128

/* C0, DEL and C1; 0 is one of them, -1 is none. */
static int
first_control(struct span text)
{
	for (size_t i = 0; i < text.len; i++) {
		uint8_t c = text.p[i];

		if (c < ' ' || c == 0x7f)
			return c;
		if (c == 0xc2 && i + 1 < text.len && text.p[i + 1] >= 0x80 && text.p[i + 1] < 0xa0)
			return text.p[i + 1];
	}
	return -1;
}

bool
text_has_controls(struct span text)
{
	return first_control(text) >= 0;
}

struct search {
	char path[PATH_BYTES_MAX];	/* "Service.ID" */
	int found;
};

static bool
look_at(struct search *s, struct span text)
{
	s->found = first_control(text);
	return s->found >= 0;
}

static bool look_in(struct search *s, const struct schema *schema, const void *rec, size_t len);

static bool
look_in_list(struct search *s, const struct schema *schema, const struct obj_list *l, size_t len)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (look_in(s, schema, (const char *)l->v + (size_t)i * schema->size, len))
			return true;
	return false;
}

static bool
look_at_texts(struct search *s, const struct span_list *l)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (look_at(s, l->v[i]))
			return true;
	return false;
}

/* Values of maps are free. */
static bool
look_at_keys(struct search *s, const struct span_map *m)
{
	for (uint32_t i = 0; i < m->n; i++)
		if (look_at(s, m->kv[i][0]))
			return true;
	return false;
}

static bool
look_at_field(struct search *s, const struct schema_field *f, const char *rec, size_t len)
{
	const void *at = rec + f->offset;

	switch (f->type) {
	case ST_STR:
		return look_at(s, *(const struct span *)at);
	case ST_STRS:
		return look_at_texts(s, at);
	case ST_MAP:
		return look_at_keys(s, at);
	case ST_OBJ:
		return (f->has == 0 || *(const bool *)(rec + f->has - 1)) && look_in(s, f->sub, at, len);
	case ST_OBJS:
	case ST_OBJMAP:
		return look_in_list(s, f->sub, at, len);
	default:
		return false;
	}
}

/* len: of the path so far. */
static bool
look_in(struct search *s, const struct schema *schema, const void *rec, size_t len)
{
	for (unsigned i = 0; i < schema->count; i++) {
		const struct schema_field *f = &schema->fields[i];
		int n;

		if (f->flags & SF_FREE || f->type == ST_CONST)
			continue;
		n = snprintf(s->path + len, sizeof(s->path) - len, "%s%s", len > 0 ? "." : "", f->name);
		if (n > 0 && len + (size_t)n < sizeof(s->path) && look_at_field(s, f, rec, len + (size_t)n))
			return true;
	}
	return false;
}

bool
schema_names_fit(const struct schema *schema, const void *rec, char *why, size_t cap)
{
	struct search s = { .path = "", .found = -1 };

	if (!look_in(&s, schema, rec, 0))
		return true;
	/* Not the text: it may be a token. */
	snprintf(why, cap, "%s must not have control characters: there is U+%04X in it", s.path, (unsigned)s.found);
	return false;
}
