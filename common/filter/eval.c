/*
 * Holds records against an expression.  They stay packed: a step is a skip, nothing is decoded that is not asked for.
 */
#include <stdlib.h>

#include "common/record/mpack.h"
#include "common/filter/tree.h"

#define ARENA_MAX (2u << 20)	/* the tree of the longest expression takes less */

static const uint8_t nil_byte[1] = { 0xc0 };

struct filter *
filter_new(const struct schema *s, struct span text, struct buf *why)
{
	struct filter *f = calloc(1, sizeof(*f));

	if (f == NULL) {
		buf_puts(why, "out of memory");
		return NULL;
	}
	f->schema = s;
	f->arena = ARENA_INIT(ARENA_MAX);
	f->steps_left = FILTER_STEPS_MAX;
	if (parse_filter(f, text, why) && bind_filter(f, f->root, why))
		return f;
	filter_free(f);
	return NULL;
}

void
filter_free(struct filter *f)
{
	if (f == NULL)
		return;
	for (unsigned i = 0; i < f->regex_count; i++)
		regex_free(f->regexes[i]);
	arena_done(&f->arena);
	free(f);
}

static struct rd
nothing(void)
{
	return rd_over(nil_byte, sizeof(nil_byte));
}

/* The value that a map does not have is equal to nothing, in nothing, and empty. */
static bool
match_missing(const struct match *m)
{
	return m->op == MATCH_EMPTY ? !m->negated : m->negated;
}

static bool
holds(struct span text, struct span part)
{
	return part.len == 0 || (text.len >= part.len && memmem(text.p, text.len, part.p, part.len) != NULL);
}

static bool
match_text(struct filter *f, const struct match *m, struct span text)
{
	bool found = false;

	if (m->op == MATCH_EQUAL)
		return span_eq(text, m->value);
	if (m->op == MATCH_IN)
		return holds(text, m->value);
	enum tv_err err = regex_search(m->regex, text, &f->steps_left, &found);
	if (err != TV_OK)
		f->err = err;
	return found;
}

/* Lists, and maps by their keys: the value is among them, or there are none. */
static bool
match_several(const struct match *m, struct rd *at)
{
	if (mpr_nil(at))
		return m->op == MATCH_EMPTY;
	uint32_t n = m->type == ST_MAP ? mpr_map(at) : mpr_array(at);
	if (m->op == MATCH_EMPTY)
		return n == 0;
	for (uint32_t i = 0; i < n && at->err == TV_OK; i++) {
		struct rd one = *at;

		if (m->type == ST_OBJMAP)
			(void)mpr_array(&one);		/* its key is the first field */
		if (span_eq(mpr_bytes_or_nil(&one, SCHEMA_TEXT_BYTES_MAX), m->value))
			return true;
		mpr_skip(at);
		if (m->type == ST_MAP)
			mpr_skip(at);
	}
	return false;
}

/* Not yet negated. */
static bool
match_value(struct filter *f, const struct match *m, struct rd *at)
{
	switch (m->type) {
	case ST_STR:
		return match_text(f, m, mpr_bytes_or_nil(at, SCHEMA_TEXT_BYTES_MAX));
	case ST_BOOL:
		return (mpr_nil(at) ? false : mpr_bool(at)) == (m->number != 0);
	case ST_U64:
		return (mpr_nil(at) ? 0 : mpr_uint(at, UINT64_MAX)) == (uint64_t)m->number && m->number >= 0;
	case ST_I64:
	case ST_DURATION:
		return (mpr_nil(at) ? 0 : mpr_int(at)) == m->number;
	case ST_F64:
		return (mpr_nil(at) ? 0 : mpr_f64(at)) == m->real;
	default:
		return match_several(m, at);
	}
}

/* Moves to a field of the record that is next; what an older version did not write is nil. */
static void
to_field(struct rd *at, unsigned index)
{
	uint32_t n = mpr_nil(at) ? 0 : mpr_array(at);

	if (index >= n && at->err == TV_OK)
		*at = nothing();
	else
		for (; index > 0 && at->err == TV_OK; index--)
			mpr_skip(at);
}

/* Moves to the value of a key; false: the map does not have it. */
static bool
to_key(struct rd *at, struct span key)
{
	uint32_t n = mpr_nil(at) ? 0 : mpr_map(at);

	for (; n > 0 && at->err == TV_OK; n--) {
		if (span_eq(mpr_bytes(at, SCHEMA_TEXT_BYTES_MAX), key))
			return true;
		mpr_skip(at);
	}
	return false;
}

/* Moves to the object whose first field is the key. */
static bool
to_object(struct rd *at, struct span key)
{
	uint32_t n = mpr_nil(at) ? 0 : mpr_array(at);

	for (; n > 0 && at->err == TV_OK; n--) {
		struct rd object = *at;

		if (mpr_array(&object) > 0 && span_eq(mpr_bytes_or_nil(&object, SCHEMA_TEXT_BYTES_MAX), key))
			return true;
		mpr_skip(at);
	}
	return false;
}

static bool match_from(struct filter *f, const struct match *m, unsigned step, struct rd at);

static bool
match_any(struct filter *f, const struct match *m, unsigned step, struct rd at)
{
	uint32_t n = mpr_nil(&at) ? 0 : mpr_array(&at);

	for (; n > 0 && at.err == TV_OK && f->err == TV_OK; n--) {
		if (match_from(f, m, step, at))
			return true;
		mpr_skip(&at);
	}
	if (at.err != TV_OK)
		f->err = at.err;
	return false;
}

/* Goes on from this step; at is before the value that it applies to. */
static bool
match_from(struct filter *f, const struct match *m, unsigned step, struct rd at)
{
	bool there = true, result;

	for (; step < m->step_count && there; step++) {
		const struct step *s = &m->steps[step];

		if (s->kind == STEP_ANY)
			return match_any(f, m, step + 1, at);
		if (s->kind == STEP_FIELD)
			to_field(&at, s->index);
		else
			there = s->kind == STEP_KEY ? to_key(&at, s->key) : to_object(&at, s->key);
	}
	result = there ? match_value(f, m, &at) != m->negated : match_missing(m);
	if (at.err != TV_OK)
		f->err = at.err;
	return result;
}

static bool
evaluate(struct filter *f, const struct node_expr *n, struct span record)
{
	if (n->kind == NODE_MATCH)
		return match_from(f, n->match, 0, rd_span_over(record));
	if (n->kind == NODE_NOT)
		return !evaluate(f, n->first, record);
	bool stops = n->kind == NODE_OR;	/* the term that decides */
	for (const struct node_expr *t = n->first; t != NULL && f->err == TV_OK; t = t->next)
		if (evaluate(f, t, record) == stops)
			return stops;
	return !stops;
}

bool
filter_match(struct filter *f, struct span record)
{
	return f->err == TV_OK && evaluate(f, f->root, record) && f->err == TV_OK;
}

void
filter_allow(struct filter *f, uint64_t steps)
{
	f->steps_left = steps;
}

uint64_t
filter_left(const struct filter *f)
{
	return f->steps_left;
}

void
filter_stop(struct filter *f, enum tv_err err)
{
	if (f->err == TV_OK)
		f->err = err;
}

enum tv_err
filter_error(const struct filter *f)
{
	return f->err;
}
