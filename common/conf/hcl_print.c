/*
 * A tree back to text, in the layout that this language's own formatter gives: two spaces a level, a blank line between
 * blocks, fields on adjacent lines with their signs below each other.
 */
#include "common/conf/hcl.h"

struct printer {
	struct buf *out;
	unsigned level;
	struct hcl_comments *group;	/* those before it were printed, or belong to an item */
	uint32_t prev;		/* offset of the item printed last */
	bool begun;		/* there was one */
};

static void print_value(struct printer *pr, const struct hcl_value *v);

static void
indent(struct printer *pr)
{
	for (unsigned i = 0; i < pr->level; i++)
		buf_puts(pr->out, "  ");
}

static void
newline(struct printer *pr)
{
	buf_u8(pr->out, '\n');
}

static void
spaces(struct printer *pr, size_t n)
{
	while (n-- > 0)
		buf_u8(pr->out, ' ');
}

/* -- comments */

/* A comment that goes with an item: further lines of it move with the item. */
static void
put_moved(struct printer *pr, struct span text)
{
	for (size_t i = 0; i < text.len; i++) {
		buf_u8(pr->out, text.p[i]);
		if (text.p[i] == '\n' && i + 1 < text.len && text.p[i + 1] != '\n')
			indent(pr);
	}
}

static void
put_lines(struct printer *pr, const struct hcl_comments *group)
{
	for (const struct hcl_comment *c = group == NULL ? NULL : group->first; c != NULL; c = c->next) {
		put_moved(pr, c->text);
		newline(pr);
		indent(pr);
	}
}

static void
put_behind(struct printer *pr, const struct hcl_comments *group)
{
	for (const struct hcl_comment *c = group->first; c != NULL; c = c->next)
		put_moved(pr, c->text);
}

/* The next group that stands alone before this offset and was not passed by; NULL for none. */
static const struct hcl_comments *
next_group(struct printer *pr, uint32_t offset)
{
	struct hcl_comments *group;

	while ((group = pr->group) != NULL && (group->attached || group->first->pos.offset < offset)) {
		pr->group = group->next;
		if (!group->attached && (!pr->begun || group->first->pos.offset > pr->prev))
			return group;
	}
	return NULL;
}

static void
printed(struct printer *pr, uint32_t offset)
{
	pr->prev = offset;
	pr->begun = true;
}

/* -- items */

/* Whether comments behind an item are printed above it, because its value began on another line. */
static bool
trail_above(const struct hcl_item *item)
{
	return item->trail != NULL && item->value->pos.line != item->keys->pos.line;
}

static void
print_item(struct printer *pr, const struct hcl_item *item)
{
	put_lines(pr, item->lead);
	if (trail_above(item))
		put_lines(pr, item->trail);
	for (const struct hcl_key *key = item->keys; key != NULL; key = key->next) {
		buf_putspan(pr->out, key->text);
		buf_u8(pr->out, ' ');
	}
	if (item->assign && item->nkeys == 1)
		buf_puts(pr->out, "= ");
	print_value(pr, item->value);
	if (item->trail != NULL && !trail_above(item)) {
		buf_u8(pr->out, ' ');
		put_behind(pr, item->trail);
	}
}

static bool
single_line(const struct hcl_value *list)
{
	for (const struct hcl_value *v = list->values; v != NULL; v = v->next) {
		if (v->type == HCL_LIST || v->type == HCL_OBJECT || hcl_is_heredoc(v) || v->trail != NULL ||
		    v->pos.line != list->pos.line)
			return false;
	}
	return true;
}

/* Bytes of a value that takes one line. */
static size_t
width(const struct hcl_value *v)
{
	size_t n = 2;

	if (v->type != HCL_LIST)
		return v->type == HCL_OBJECT ? n : v->text.len;
	for (const struct hcl_value *one = v->values; one != NULL; one = one->next)
		n += one->text.len + (one->next != NULL ? 2 : 0);
	return n;
}

static unsigned
count_lines(const struct hcl_comments *group)
{
	unsigned n = 0;

	for (const struct hcl_comment *c = group == NULL ? NULL : group->first; c != NULL; c = c->next) {
		n++;
		for (size_t i = 0; i < c->text.len; i++)
			n += c->text.p[i] == '\n';
	}
	return n;
}

/* At most two lines, with its comments. */
static bool
is_short(const struct hcl_item *item)
{
	const struct hcl_value *v = item->value;
	unsigned n = 1 + count_lines(item->lead);

	if (v->type == HCL_OBJECT && (v->items != NULL || v->comments))
		return false;
	if (v->type == HCL_LIST && !single_line(v))
		return false;
	if (item->trail != NULL)
		n += count_lines(item->trail) - (trail_above(item) ? 0 : 1);
	for (size_t i = 0; i < v->text.len; i++)
		n += v->text.p[i] == '\n';
	return n <= 2;
}

/*
 * How many items from this one on stand on adjacent lines and are printed below each other.  An item that has a
 * neighbour on only one side is one of them; so is one on the first line of the text.
 */
static unsigned
adjacent(const struct hcl_item *item, const struct hcl_item *before, bool alone)
{
	unsigned n = 0;

	for (; item != NULL && !alone && is_short(item); before = item, item = item->next, n++) {
		uint32_t line = item->keys->pos.line, next = item->next == NULL ? 0 : item->next->keys->pos.line;

		if (line + 1 == next)
			continue;
		return line == (before == NULL ? 0 : before->keys->pos.line) + 1 ? n + 1 : n;
	}
	return n;
}

static void
print_aligned(struct printer *pr, const struct hcl_item *item, unsigned n)
{
	size_t keys = 0, values = 0;
	const struct hcl_item *one = item;

	for (unsigned i = 0; i < n; i++, one = one->next) {
		keys = one->keys->text.len > keys ? one->keys->text.len : keys;
		values = width(one->value) > values ? width(one->value) : values;
	}
	for (one = item; n > 0; n--, one = one->next) {
		indent(pr);
		put_lines(pr, one->lead);
		for (const struct hcl_key *key = one->keys; key != NULL; key = key->next) {
			buf_putspan(pr->out, key->text);
			spaces(pr, key->text.len > keys ? 0 : keys - key->text.len + 1);
		}
		if (one->nkeys == 1)
			buf_puts(pr->out, "= ");
		print_value(pr, one->value);
		if (one->trail != NULL && !trail_above(one)) {
			spaces(pr, values - width(one->value) + 1);
			put_behind(pr, one->trail);
		}
		if (n > 1)
			newline(pr);
	}
}

/* Comments before an item of an object, or before its closing brace. */
static bool
comments_inside(struct printer *pr, const struct hcl_pos *next, bool last, bool first, bool *opened)
{
	const struct hcl_comments *group;
	bool any = false;

	while ((group = next_group(pr, next->offset)) != NULL) {
		for (const struct hcl_comment *c = group->first; c != NULL; c = c->next) {
			if (!*opened || !first || c != group->first)
				newline(pr);
			*opened = any = true;
			indent(pr);
			buf_putspan(pr->out, c->text);
		}
		newline(pr);
		if (!last && next->line != group->last->pos.line + 1)
			newline(pr);
	}
	return any && !first;
}

static void
print_object(struct printer *pr, const struct hcl_value *v)
{
	const struct hcl_item *item = v->items, *before = NULL;
	bool opened = false, commented = false;

	buf_u8(pr->out, '{');
	pr->level++;
	for (;;) {
		const struct hcl_item *from = item;
		unsigned n;

		if (comments_inside(pr, item == NULL ? &v->end : &item->keys->pos, item == NULL, before == NULL,
		    &opened))
			commented = true;
		if (item == NULL)
			break;
		if (!opened)
			newline(pr);
		opened = true;
		if (before != NULL && !commented)
			newline(pr);
		n = adjacent(item, before, before == NULL && item->next == NULL);
		for (unsigned i = 0; i < n || i == 0; i++, item = item->next)
			before = item;
		printed(pr, before->keys->pos.offset);
		if (n > 0) {
			print_aligned(pr, from, n);
		} else {
			indent(pr);
			print_item(pr, from);
		}
		newline(pr);
	}
	pr->level--;
	printed(pr, v->end.offset);
	if (opened)
		indent(pr);
	buf_u8(pr->out, '}');
}

static void
print_list(struct printer *pr, const struct hcl_value *list)
{
	const bool one_line = single_line(list);
	bool blank = false;
	size_t widest = 0;

	for (const struct hcl_value *v = list->values; v != NULL; v = v->next)
		widest = v->text.len > widest ? v->text.len : widest;
	buf_puts(pr->out, one_line ? "[" : "[\n");
	pr->level += one_line ? 0 : 1;
	for (const struct hcl_value *v = list->values; v != NULL; v = v->next) {
		if (one_line) {
			buf_puts(pr->out, v != list->values ? ", " : "");
			buf_putspan(pr->out, v->text);
			continue;
		}
		if (v->lead != NULL && !blank && v != list->values)
			newline(pr);
		indent(pr);
		put_lines(pr, v->lead);
		print_value(pr, v);
		if (hcl_is_heredoc(v)) {		/* behind whose mark nothing stands */
			newline(pr);
			indent(pr);
		}
		buf_u8(pr->out, ',');
		if (v->trail != NULL) {
			spaces(pr, 1 + widest - v->text.len);
			put_behind(pr, v->trail);
		}
		newline(pr);
		blank = v->lead != NULL && v->next != NULL;
		if (blank)
			newline(pr);
	}
	if (!one_line) {
		pr->level--;
		indent(pr);
	}
	buf_u8(pr->out, ']');
}

static void
print_value(struct printer *pr, const struct hcl_value *v)
{
	if (v->type == HCL_OBJECT)
		print_object(pr, v);
	else if (v->type == HCL_LIST)
		print_list(pr, v);
	else
		buf_putspan(pr->out, v->text);
}

/* name "a" {}: no blank line is needed between two of them. */
static bool
is_empty_block(const struct hcl_item *item)
{
	return item->lead == NULL && !item->assign && item->value->type == HCL_OBJECT && item->value->items == NULL;
}

void
hcl_print(const struct hcl_file *file, struct buf *out)
{
	struct printer pr = { .out = out, .group = file->comments };
	const struct hcl_item *item = file->items;
	const struct hcl_comments *group;

	for (;; item = item->next) {
		bool apart = false;

		while ((group = next_group(&pr, item == NULL ? UINT32_MAX : item->keys->pos.offset)) != NULL) {
			if (pr.begun && item == NULL)
				buf_puts(out, "\n\n");
			put_lines(&pr, group);
			if (item != NULL)
				newline(&pr);
		}
		if (item == NULL)
			return;
		printed(&pr, item->keys->pos.offset);
		print_item(&pr, item);
		if (item->next == NULL)
			continue;
		newline(&pr);
		apart = item->next->keys->pos.line != item->keys->pos.line + 1;
		if (apart || !is_empty_block(item) || !is_empty_block(item->next))
			newline(&pr);
	}
}
