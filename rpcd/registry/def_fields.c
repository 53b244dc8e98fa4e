/* One function for each type of field; unknown names get the one that looks most like them. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/log.h"
#include "common/text/duration.h"
#include "common/text/edits.h"
#include "rpcd/registry/def_fields.h"

#define JSON_BYTES_MAX (1u << 20)

enum tv_err
def_fail(const struct def_source *from, const struct ucl_node *at, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(from->error->text, sizeof(from->error->text), fmt, ap);
	va_end(ap);
	from->error->line = at->line;
	return TV_EFORMAT;
}

static enum tv_err
no_memory(const struct def_source *from, const struct ucl_node *at)
{
	(void)def_fail(from, at, "%s", tv_strerror(TV_ENOMEM));
	return TV_ENOMEM;
}

/* "EnableTagOverride" is enable_tag_override, "TLSSkipVerify" tls_skip_verify. */
static const char *
snake(const char *name, char out[EDITS_NAME_MAX])
{
	size_t n = 0;

	for (size_t i = 0; name[i] != '\0' && n + 2 < EDITS_NAME_MAX; i++) {
		bool upper = name[i] >= 'A' && name[i] <= 'Z', after_lower = i > 0 && name[i - 1] >= 'a';
		bool ends_short = i > 0 && name[i - 1] >= 'A' && name[i - 1] <= 'Z' && name[i + 1] >= 'a';

		if (upper && (after_lower || ends_short))
			out[n++] = '_';
		out[n++] = upper ? (char)(name[i] | 0x20) : name[i];
	}
	out[n] = '\0';
	return out;
}

/* The key as messages show it, cut. */
struct shown {
	char text[64];
};

static struct shown
shown(struct span key)
{
	struct shown s;

	(void)log_safe(key, s.text, sizeof(s.text));
	return s;
}

static enum tv_err
unknown_key(const struct def_source *from, const struct schema *s, const struct ucl_node *n)
{
	struct shown key = shown(n->key);
	unsigned best = edits_limit(key.text) + 1;
	char name[EDITS_NAME_MAX], found[EDITS_NAME_MAX] = "";

	for (unsigned i = 0; i < s->count; i++) {
		unsigned d = edits_between(key.text, snake(s->fields[i].name, name));

		if (d < best) {
			best = d;
			memcpy(found, name, sizeof(found));
		}
	}
	if (found[0] != '\0')
		return def_fail(from, n, "unknown key \"%s\" (did you mean %s?)", key.text, found);
	return def_fail(from, n, "unknown key \"%s\"", key.text);
}

static bool
is_null(const struct ucl_node *n)
{
	return n->type == UCL_WORD && span_eqs(n->text, "null");
}

static enum tv_err
fill_text(const struct def_source *from, const struct ucl_node *n, const char *what, struct span *out)
{
	if (n->type != UCL_STRING && (n->type != UCL_WORD || from->json))
		return def_fail(from, n, "%s: a text is expected%s", what, from->json ? ", in double quotes" : "");
	*out = n->text;
	return TV_OK;
}

static enum tv_err
fill_number(const struct def_source *from, const struct ucl_node *n, const char *what, bool is_unsigned, int64_t *out)
{
	char text[24], *end;

	if (n->type == UCL_STRING)
		return def_fail(from, n, "%s: a number is expected, without quotes", what);
	errno = 0;
	if (n->type != UCL_WORD || n->text.len == 0 || !span_copy(n->text, text, sizeof(text)) ||
	    (*out = strtoll(text, &end, 10), *end != '\0') || errno != 0 || (is_unsigned && *out < 0))
		return def_fail(from, n, "%s: a whole number is expected", what);
	return TV_OK;
}

static enum tv_err
fill_bool(const struct def_source *from, const struct ucl_node *n, const char *what, bool *out)
{
	return ucl_bool(n, out) ? TV_OK : def_fail(from, n, "%s: true or false is expected, without quotes", what);
}

static enum tv_err
fill_duration(const struct def_source *from, const struct ucl_node *n, const char *what, int64_t *out)
{
	bool quoted = n->type == UCL_STRING || (n->type == UCL_WORD && !from->json);

	if (!quoted || duration_parse(n->text, out) != TV_OK)
		return def_fail(from, n, "%s: a time with a unit is expected%s (500ms, 10s, 1m30s)", what,
		    from->json ? ", in double quotes" : "");
	return TV_OK;
}

static enum tv_err
fill_json(const struct def_source *from, const struct ucl_node *n, struct span *out)
{
	struct buf text = BUF_INIT(JSON_BYTES_MAX);

	ucl_json(n, &text);
	if (!text.failed)
		*out = arena_copy(from->arena, buf_span(&text));
	bool ok = !text.failed && out->p != NULL;
	buf_done(&text);
	return ok ? TV_OK : no_memory(from, n);
}

/* From field number skip on: what stands before it came from elsewhere. */
static enum tv_err fill(const struct def_source *from, const struct schema *s, unsigned skip,
    const struct ucl_node *block, void *rec);

bool
def_is_named(const struct def_source *from, const struct ucl_node *n)
{
	const struct ucl_node *k = n->type == UCL_OBJECT && !from->json ? n->child : NULL;

	while (k != NULL && k->type == UCL_OBJECT)
		k = k->next;
	return n->type == UCL_OBJECT && !from->json && n->count > 0 && k == NULL;
}

static const struct ucl_node *
list_of_one(const struct ucl_node *n, struct ucl_node list[2])
{
	list[1] = *n;
	list[1].key = SPAN_NONE;
	list[1].next = NULL;
	list[0] = (struct ucl_node){ .type = UCL_ARRAY, .line = n->line, .key = n->key, .child = &list[1], .count = 1 };
	return &list[0];
}

const struct ucl_node *
def_as_list(const struct def_source *from, const struct ucl_node *n, struct ucl_node list[2])
{
	return from->hcl && n->type == UCL_OBJECT ? list_of_one(n, list) : n;
}

/* Of a block NAME { }: unless the block gives another name. */
static void
set_name(const struct schema *s, struct span name, char *rec)
{
	const struct schema_field *f = schema_field_named(s, 0, span_str("Name"), false);
	struct span *at = f == NULL ? NULL : (struct span *)(void *)(rec + f->offset);

	if (at != NULL && at->len == 0)
		*at = name;
}

static enum tv_err
fill_list(const struct def_source *from, const struct ucl_node *n, const char *what, const struct schema_field *f,
    void *out)
{
	bool texts = f->type == ST_STRS, named = !texts && def_is_named(from, n);
	enum tv_err err = TV_OK;
	struct ucl_node one[2];
	size_t size;
	char *at;

	n = !texts ? def_as_list(from, n, one) :
	    !from->json && (n->type == UCL_STRING || n->type == UCL_WORD) ? list_of_one(n, one) : n;
	if (n->type != UCL_ARRAY && !named)
		return def_fail(from, n, texts ? "%s: a list of texts is expected, [ ... ]" :
		    from->json ? "%s: a list is expected, [ ... ]" :
		    "%s: a list [ { ... } ] or named blocks NAME { ... } are expected", what);
	at = schema_list_new(f, n->count, from->arena, out, &size);
	if (at == NULL)
		return no_memory(from, n);
	for (const struct ucl_node *k = n->child; k != NULL && err == TV_OK; k = k->next, at += size) {
		err = texts ? fill_text(from, k, what, (struct span *)(void *)at) : fill(from, f->sub, 0, k, at);
		if (named)
			set_name(f->sub, k->key, at);
	}
	return err;
}

/* Of texts, or of blocks, whose first field is the key. */
static enum tv_err
fill_map(const struct def_source *from, const struct ucl_node *n, const char *what, const struct schema_field *f,
    void *out)
{
	bool texts = f->type == ST_MAP;
	enum tv_err err = TV_OK;
	size_t size;
	char *at;

	if (n->type != UCL_OBJECT)
		return def_fail(from, n, texts ? "%s: a block of names and texts is expected, { ... }" :
		    "%s: a block of blocks is expected, { NAME { ... } }", what);
	at = schema_list_new(f, n->count, from->arena, out, &size);
	if (at == NULL)
		return no_memory(from, n);
	for (const struct ucl_node *k = n->child; k != NULL && err == TV_OK; k = k->next, at += size) {
		struct span *key = (struct span *)(void *)(at + (texts ? 0 : f->sub->fields[0].offset));

		*key = k->key;
		err = texts ? fill_text(from, k, what, key + 1) : fill(from, f->sub, 1, k, at);
	}
	return err;
}

static enum tv_err
fill_field(const struct def_source *from, const struct schema_field *f, const struct ucl_node *n, void *rec)
{
	void *at = (char *)rec + f->offset;
	char what[EDITS_NAME_MAX];

	(void)snake(f->name, what);
	switch (f->type) {
	case ST_STR:
		return fill_text(from, n, what, at);
	case ST_U64:
	case ST_I64:
		return fill_number(from, n, what, f->type == ST_U64, at);
	case ST_BOOL:
		return fill_bool(from, n, what, at);
	case ST_DURATION:
		return fill_duration(from, n, what, at);
	case ST_STRS:
	case ST_OBJS:
		return fill_list(from, n, what, f, at);
	case ST_MAP:
	case ST_OBJMAP:
		return fill_map(from, n, what, f, at);
	case ST_OBJ:
		if (f->has != 0)
			*((bool *)rec + f->has - 1) = true;
		return fill(from, f->sub, 0, n, at);
	case ST_JSON:
		return fill_json(from, n, at);
	case ST_CONST:
		return TV_OK;
	case ST_BIN:
	case ST_F64:
	case ST_F64S:
		break;
	}
	TV_ASSERT(!"a definition has no such fields");
	return TV_EFORMAT;
}

static enum tv_err
fill(const struct def_source *from, const struct schema *s, unsigned skip, const struct ucl_node *block, void *rec)
{
	enum tv_err err = TV_OK;

	if (is_null(block))
		return TV_OK;
	if (block->type != UCL_OBJECT)
		return def_fail(from, block, "a block is expected, { ... }");
	for (const struct ucl_node *n = block->child; n != NULL && err == TV_OK; n = n->next) {
		const struct schema_field *f = schema_field_named(s, skip, n->key, true);

		for (const struct ucl_node *k = block->child; f != NULL && k != n; k = k->next)
			if (schema_field_named(s, skip, k->key, true) == f)
				return def_fail(from, n, "key \"%s\" is given twice (first on line %u, as \"%s\")",
				    shown(n->key).text, k->line, shown(k->key).text);
		if (f == NULL)
			err = unknown_key(from, s, n);
		else if (!is_null(n) && !(f->flags & SF_READONLY))
			err = fill_field(from, f, n, rec);
	}
	return err;
}

enum tv_err
def_fields(const struct def_source *from, const struct schema *s, const struct ucl_node *block, void *rec)
{
	return fill(from, s, 0, block, rec);
}
