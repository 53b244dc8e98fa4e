/* Locks and semaphores, see lock_rules.h. */
#include <string.h>

#include "common/text/base64.h"
#include "ctl/ctl.h"
#include "ctl/lock_rules.h"

#define VALUE_BYTES_MAX (16u << 20)

static uint64_t
number(const json_t *entry, const char *key)
{
	return (uint64_t)json_number_value(json_object_get(entry, key));
}

/* Those of a semaphore do not fit jansson's integers; that a few others are the same real number does no harm. */
static bool
has_flags(const json_t *entry, uint64_t flags)
{
	return json_number_value(json_object_get(entry, "Flags")) == (double)flags;
}

void
lock_look(const json_t *entries, const char *session, struct lock_view *out)
{
	const json_t *entry = json_array_get(entries, 0);

	*out = (struct lock_view){ .verdict = LOCK_FREE, .holder = json_text(entry, "Session"),
		.lock_index = number(entry, "LockIndex"), .modify_index = number(entry, "ModifyIndex") };
	if (entry != NULL && !has_flags(entry, LOCK_FLAGS))
		out->verdict = LOCK_STRANGE;
	else if (out->holder[0] != '\0')
		out->verdict = strcmp(out->holder, session) == 0 ? LOCK_HELD : LOCK_TAKEN;
}

/* Does a session that lives have an entry there?  Those of the dead are released, or gone. */
static bool
is_alive(const json_t *entries, const char *session)
{
	const json_t *entry;
	size_t i;

	json_array_foreach(entries, i, entry)
		if (strcmp(json_text(entry, "Session"), session) == 0)
			return true;
	return false;
}

/* The JSON of PREFIX/.lock; NULL: that is none. */
static json_t *
semaphore_value(const json_t *entry)
{
	const char *text = json_text(entry, "Value");
	struct buf bytes = BUF_INIT(VALUE_BYTES_MAX);
	json_t *value = NULL;

	if (base64_decode(span_str(text), &bytes) == TV_OK && bytes.len > 0)
		value = json_loadb((const char *)bytes.data, bytes.len, 0, NULL);
	buf_done(&bytes);
	if (json_is_object(json_object_get(value, "Holders")) || json_is_null(json_object_get(value, "Holders")))
		return value;
	json_decref(value);
	return NULL;
}

/* The holders that are alive. */
static json_t *
living(const json_t *value, const json_t *entries)
{
	json_t *alive = json_object(), *held;
	const char *holder;

	json_object_foreach(json_object_get(value, "Holders"), holder, held)
		if (json_is_true(held) && is_alive(entries, holder))
			json_object_set(alive, holder, held);
	return alive;
}

static void
view_lock(const json_t *entries, json_t *value, const char *session, struct lock_view *out)
{
	json_t *alive = living(value, entries);
	void *any = json_object_iter(alive);

	out->holders = json_object_size(alive);
	/* In the entries, which outlive this. */
	for (size_t i = 0; any != NULL && i < json_array_size(entries); i++) {
		const char *of = json_text(json_array_get(entries, i), "Session");

		if (strcmp(of, json_object_iter_key(any)) == 0)
			out->holder = of;
	}
	if (json_object_get(alive, session) != NULL) {
		out->verdict = LOCK_HELD;
		json_object_del(alive, session);
	} else if ((json_int_t)out->holders >= out->limit) {
		out->verdict = LOCK_TAKEN;
	} else {
		json_object_set_new(alive, session, json_true());
	}
	out->value = json_pack("{s:I,s:o}", "Limit", out->limit, "Holders", alive);
}

void
semaphore_look(const json_t *entries, const char *key, const char *session, json_int_t limit, struct lock_view *out)
{
	const json_t *entry = NULL, *other;
	json_t *value;
	size_t i;

	json_array_foreach(entries, i, other)
		if (strcmp(json_text(other, "Key"), key) == 0)
			entry = other;
	*out = (struct lock_view){ .verdict = LOCK_FREE, .holder = "", .lock_index = number(entry, "LockIndex"),
		.modify_index = number(entry, "ModifyIndex"), .limit = limit };
	if (entry == NULL || (has_flags(entry, SEMAPHORE_FLAGS) && json_text(entry, "Value")[0] == '\0'))
		value = json_pack("{s:I,s:{}}", "Limit", limit, "Holders");
	else
		value = has_flags(entry, SEMAPHORE_FLAGS) ? semaphore_value(entry) : NULL;
	if (value == NULL) {
		out->verdict = LOCK_STRANGE;
		return;
	}
	out->limit = json_int(value, "Limit");
	if (out->limit != limit)
		out->verdict = LOCK_OTHER_LIMIT;
	else
		view_lock(entries, value, session, out);
	json_decref(value);
}
