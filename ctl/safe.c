/*
 * What others wrote, for a terminal: a member may put escape sequences, line breaks and bytes that are no text into its
 * name and tags, and any client that may write a key, into that.  Programs get them by --json, as they are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"

/* The text with everything else than printable characters as \xNN, or NULL when that changes nothing.  free() it. */
static char *
made_safe(const char *text, size_t len)
{
	char *safe = out_safe(span_of(text, len));

	if (strlen(safe) == len && memcmp(safe, text, len) == 0) {
		free(safe);
		return NULL;
	}
	return safe;
}

static void
string_safe(json_t *value)
{
	char *safe = made_safe(json_string_value(value), json_string_length(value));

	if (safe != NULL)
		json_string_set(value, safe);
	free(safe);
}

/* Names of tags come as keys. */
static void
object_safe(json_t *obj)
{
	const char *key;
	json_t *value;
	void *next;

	json_object_foreach(obj, key, value)
		json_safe(value);
	json_object_foreach_safe(obj, next, key, value) {
		char *safe = made_safe(key, strlen(key));

		if (safe != NULL) {
			json_object_set(obj, safe, value);
			json_object_del(obj, key);
		}
		free(safe);
	}
}

void
json_safe(json_t *value)
{
	json_t *item;
	size_t i;

	if (json_is_string(value))
		string_safe(value);
	else if (json_is_object(value))
		object_safe(value);
	else
		json_array_foreach(value, i, item)
			json_safe(item);
}

void
out_lines(FILE *to, struct span text)
{
	while (text.len > 0) {
		const uint8_t *end = memchr(text.p, '\n', text.len);
		size_t n = end != NULL ? (size_t)(end - text.p) : text.len;
		char *safe = made_safe((const char *)text.p, n);

		if (safe != NULL)
			fputs(safe, to);
		else
			fwrite(text.p, 1, n, to);
		free(safe);
		if (end == NULL)
			return;
		fputc('\n', to);
		text = span_of(end + 1, text.len - n - 1);
	}
}
