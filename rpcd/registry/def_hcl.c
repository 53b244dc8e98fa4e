/* See def_hcl.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/conf/hcl.h"
#include "rpcd/registry/def_hcl.h"

struct walk {
	struct arena *a;
	struct ucl_error *error;
	int *column;
};

static enum tv_err fill(struct walk *w, const struct hcl_value *v, struct ucl_node *n);

static enum tv_err __attribute__((format(printf, 5, 6)))
fail_at(struct walk *w, enum tv_err err, unsigned line, unsigned column, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(w->error->text, sizeof(w->error->text), fmt, ap);
	va_end(ap);
	w->error->line = line;
	*w->column = (int)column;
	return err;
}

static struct ucl_node *
new_node(struct walk *w, enum ucl_type type, unsigned line)
{
	struct ucl_node *n = arena_alloc(w->a, sizeof(*n));

	if (n == NULL)
		(void)fail_at(w, TV_ENOMEM, line, 0, "%s", tv_strerror(TV_ENOMEM));
	else
		*n = (struct ucl_node){ .type = type, .line = line };
	return n;
}

static enum tv_err
text_of(struct walk *w, struct span text, bool quoted, struct hcl_pos pos, struct span *out)
{
	if (!hcl_unquote(text, quoted, false, w->a, out))
		return fail_at(w, TV_ENOMEM, pos.line, 0, "%s", tv_strerror(TV_ENOMEM));
	for (size_t i = 0; i < out->len; i++) {
		uint8_t c = out->p[i];

		if ((c < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7f)
			return fail_at(w, TV_EFORMAT, pos.line, pos.column, "control character 0x%02x in a text", c);
	}
	return TV_OK;
}

/* Numbers of other bases, and such with a sign of their own, are written anew. */
static enum tv_err
number_of(struct walk *w, const struct hcl_value *v, struct span *out)
{
	char text[32], *end;
	long long n;

	*out = v->text;
	if (!span_copy(v->text, text, sizeof(text)))
		return fail_at(w, TV_EFORMAT, v->pos.line, v->pos.column, "a number of more than %zu signs",
		    sizeof(text) - 1);
	if (text[0] != '0' || text[1] == '\0' || text[1] == '.')
		return TV_OK;
	n = strtoll(text, &end, 0);
	if (*end != '\0')
		return fail_at(w, TV_EFORMAT, v->pos.line, v->pos.column, "%s is no number", text);
	*out = arena_printf(w->a, "%lld", n);
	return out->p != NULL ? TV_OK : fail_at(w, TV_ENOMEM, v->pos.line, 0, "%s", tv_strerror(TV_ENOMEM));
}

static bool
is_block(const struct ucl_node *n)
{
	return n->type == UCL_OBJECT || n->type == UCL_ARRAY;
}

/* A block that is given again: what has its key becomes a list. */
static enum tv_err
append(struct walk *w, struct ucl_node *first, struct ucl_node *more)
{
	struct ucl_node *element, **at = &first->child;

	if (!is_block(first) || !is_block(more))
		return fail_at(w, TV_EFORMAT, more->line, 0, "key \"%.*s\" is given twice (first on line %u)",
		    (int)(more->key.len < 64 ? more->key.len : 64), (const char *)more->key.p, first->line);
	if (first->type == UCL_OBJECT) {
		if ((element = new_node(w, UCL_OBJECT, first->line)) == NULL)
			return TV_ENOMEM;
		*element = *first;
		element->key = SPAN_NONE;
		element->next = NULL;
		first->type = UCL_ARRAY;
		first->child = element;
		first->count = 1;
		if (span_eqs(first->key, "check"))
			first->key = span_str("checks");
	}
	while (*at != NULL)
		at = &(*at)->next;
	*at = more->type == UCL_ARRAY ? more->child : more;
	first->count += more->type == UCL_ARRAY ? more->count : 1;
	more->key = SPAN_NONE;
	return TV_OK;
}

/* NAME, NAME "label": the innermost block is to be filled in. */
static enum tv_err
named(struct walk *w, const struct hcl_key *key, struct ucl_node **outer, struct ucl_node **inner)
{
	struct ucl_node *n, *parent = NULL;
	enum tv_err err;

	for (; key != NULL; key = key->next) {
		if ((n = new_node(w, UCL_OBJECT, key->line)) == NULL)
			return TV_ENOMEM;
		if ((err = text_of(w, key->text, key->quoted, key->pos, &n->key)) != TV_OK)
			return err;
		if (parent == NULL) {
			*outer = n;
		} else {
			parent->child = n;
			parent->count = 1;
		}
		*inner = parent = n;
	}
	return TV_OK;
}

/* The member that this key continues: the same, or the list that it has become. */
static struct ucl_node *
find_member(struct ucl_node *parent, struct span key)
{
	struct ucl_node *n = parent->child;

	while (n != NULL && !span_eq(n->key, key) && !(span_eqs(key, "check") && span_eqs(n->key, "checks")))
		n = n->next;
	return n;
}

static enum tv_err
fill_items(struct walk *w, const struct hcl_item *item, struct ucl_node *parent, bool top)
{
	struct ucl_node **tail = &parent->child, *outer = NULL, *inner = NULL, *same;
	enum tv_err err = TV_OK;
	unsigned all = 0;

	for (; item != NULL && err == TV_OK; item = item->next) {
		if (++all > UCL_MEMBERS_MAX)
			return fail_at(w, TV_ELIMIT, item->keys->line, 0, "more than %d members of a block",
			    UCL_MEMBERS_MAX);
		if ((err = named(w, item->keys, &outer, &inner)) != TV_OK)
			return err;
		if (top && item->nkeys > 1)
			return fail_at(w, TV_EFORMAT, item->keys->line, item->keys->pos.column,
			    "this block has no name here: write %.*s { name = \"...\" ... }",
			    (int)(outer->key.len < 64 ? outer->key.len : 64), (const char *)outer->key.p);
		err = fill(w, item->value, inner);
		/* At the top each key may be given again as it is. */
		same = err != TV_OK || top ? NULL : find_member(parent, outer->key);
		if (same != NULL) {
			err = append(w, same, outer);
			continue;
		}
		*tail = outer;
		tail = &outer->next;
		parent->count++;
	}
	return err;
}

static enum tv_err
fill_values(struct walk *w, const struct hcl_value *v, struct ucl_node *list)
{
	struct ucl_node **tail = &list->child, *n;
	enum tv_err err = TV_OK;

	for (; v != NULL && err == TV_OK; v = v->next) {
		if (list->count == UCL_MEMBERS_MAX)
			return fail_at(w, TV_ELIMIT, v->line, 0, "more than %d members of a list", UCL_MEMBERS_MAX);
		if ((n = new_node(w, UCL_WORD, v->line)) == NULL)
			return TV_ENOMEM;
		err = fill(w, v, n);
		*tail = n;
		tail = &n->next;
		list->count++;
	}
	return err;
}

/* The value of a node that has its key and line. */
static enum tv_err
fill(struct walk *w, const struct hcl_value *v, struct ucl_node *n)
{
	switch (v->type) {
	case HCL_OBJECT:
		n->type = UCL_OBJECT;
		return fill_items(w, v->items, n, false);
	case HCL_LIST:
		n->type = UCL_ARRAY;
		return fill_values(w, v->values, n);
	case HCL_STRING:
		n->type = UCL_STRING;
		return text_of(w, v->text, true, v->pos, &n->text);
	case HCL_NUMBER:
		n->type = UCL_WORD;
		return number_of(w, v, &n->text);
	case HCL_BOOL:
		n->type = UCL_WORD;
		n->text = v->text;
		return TV_OK;
	case HCL_NULL:
		n->type = UCL_WORD;
		n->text = span_str("null");
		return TV_OK;
	}
	return TV_EFORMAT;
}

enum tv_err
def_hcl_parse(struct span text, struct arena *a, struct ucl_node **root, struct ucl_error *err, int *column)
{
	struct walk w = { a, err, column };
	struct hcl_error why;
	struct hcl_file file;
	enum tv_err e = hcl_parse(text, a, &file, &why);

	if (e != TV_OK)
		return fail_at(&w, e, why.line > 0 ? why.line : 1, why.column, "%s", why.text + why.place);
	if (file.json)
		return fail_at(&w, TV_EFORMAT, 1, 0, "this is JSON: give the file a name that ends in .json");
	if ((*root = new_node(&w, UCL_OBJECT, 1)) == NULL)
		return TV_ENOMEM;
	return fill_items(&w, file.items, *root, true);
}
