/* Rules of the old syntax in the current one, in which an exact rule covers one name and the old ones were prefixes. */
#include "common/conf/hcl.h"
#include "common/acl/rules.h"

/* What a first name of an item becomes. */
static const struct {
	const char *from, *to;
} renamed[] = {
	{ "policy", "policy" },		/* loses its quotes */
	{ "agent", "agent_prefix" },
	{ "event", "event_prefix" },
	{ "key", "key_prefix" },
	{ "node", "node_prefix" },
	{ "query", "query_prefix" },
	{ "service", "service_prefix" },
	{ "session", "session_prefix" },
};

struct tree {
	struct arena arena;
	bool json, failed;
};

/* -- JSON: objects in objects become blocks with several names */

static bool
all_objects(const struct hcl_value *v)
{
	if (v->type == HCL_OBJECT) {
		for (const struct hcl_item *item = v->items; item != NULL; item = item->next) {
			if (item->value->type != HCL_OBJECT)
				return false;
		}
		return v->items != NULL;
	}
	for (const struct hcl_value *one = v->values; one != NULL; one = one->next) {
		if (one->type != HCL_OBJECT)
			return false;
	}
	return v->type == HCL_LIST && v->values != NULL;
}

/* The names of one item followed by those of another. */
static struct hcl_key *
join_keys(struct tree *t, const struct hcl_key *first, struct hcl_key *rest)
{
	struct hcl_key *joined = rest, **tail = &joined;

	for (; first != NULL; first = first->next) {
		struct hcl_key *copy = arena_alloc(&t->arena, sizeof(*copy));

		if (copy == NULL) {
			t->failed = true;
			return rest;
		}
		*copy = *first;
		copy->next = rest;
		*tail = copy;
		tail = &copy->next;
	}
	return joined;
}

/* Appends an item, or those that it stands for; gives the new end. */
static struct hcl_item **
flatten(struct tree *t, const struct hcl_item *item, struct hcl_item **tail)
{
	const struct hcl_value *v = item->value;
	struct hcl_item *copy;

	if (all_objects(v)) {
		for (const struct hcl_item *in = v->items; in != NULL && !t->failed; in = in->next) {
			struct hcl_item joined = *item;

			joined.keys = join_keys(t, item->keys, in->keys);
			joined.nkeys += in->nkeys;
			joined.value = in->value;
			tail = flatten(t, &joined, tail);
		}
		for (struct hcl_value *one = v->values; one != NULL && !t->failed; one = one->next) {
			struct hcl_item alike = *item;

			alike.value = one;
			tail = flatten(t, &alike, tail);
		}
		return tail;
	}
	if ((copy = arena_alloc(&t->arena, sizeof(*copy))) == NULL) {
		t->failed = true;
		return tail;
	}
	*copy = *item;
	copy->next = NULL;
	*tail = copy;
	return &copy->next;
}

/* -- names */

static void
rename_first(struct tree *t, struct hcl_key *key)
{
	struct span name;

	if (!hcl_unquote(key->text, key->quoted, t->json, &t->arena, &name)) {
		t->failed = true;
		return;
	}
	for (size_t i = 0; i < sizeof(renamed) / sizeof(renamed[0]); i++) {
		if (span_eqs(name, renamed[i].from)) {
			key->text = span_str(renamed[i].to);
			key->quoted = false;
			return;
		}
	}
}

static void translate_items(struct tree *t, struct hcl_item **items);

static void
translate_value(struct tree *t, struct hcl_value *v)
{
	if (v->type == HCL_OBJECT)
		translate_items(t, &v->items);
	for (struct hcl_value *one = v->values; one != NULL; one = one->next)
		translate_value(t, one);
}

static void
translate_items(struct tree *t, struct hcl_item **items)
{
	struct hcl_item *flat = NULL, **tail = &flat;

	if (t->json) {
		for (const struct hcl_item *item = *items; item != NULL && !t->failed; item = item->next)
			tail = flatten(t, item, tail);
		*items = flat;
	}
	for (struct hcl_item *item = *items; item != NULL && !t->failed; item = item->next) {
		rename_first(t, item->keys);
		translate_value(t, item->value);
	}
}

enum tv_err
acl_rules_translate(struct span text, struct buf *out, struct buf *why)
{
	struct tree t = { .arena = ARENA_INIT(2 * HCL_ARENA_BYTES(text.len)) };
	struct hcl_error error;
	struct hcl_file file;
	enum tv_err err;

	if (text.len > ACL_RULES_TEXT_MAX) {
		buf_printf(why, "Failed to parse rules: more than %d bytes of text", ACL_RULES_TEXT_MAX);
		return TV_ELIMIT;
	}
	if ((err = hcl_parse(text, &t.arena, &file, &error)) == TV_OK) {
		t.json = file.json;
		translate_items(&t, &file.items);
		if (!t.failed)
			hcl_print(&file, out);
		err = t.failed ? TV_ENOMEM : out->failed ? TV_ELIMIT : TV_OK;
		if (err != TV_OK)
			buf_printf(why, "Failed to output new rules: %s",
			    t.failed ? "out of memory" : "they are too long");
	} else {
		buf_printf(why, "Failed to parse rules: %s", error.text);
	}
	arena_done(&t.arena);
	return err;
}
