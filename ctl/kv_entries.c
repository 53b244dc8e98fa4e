/* See kv_entries.h. */
#include <inttypes.h>
#include <stdarg.h>

#include "common/record/record.h"
#include "common/record/schema_json.h"
#include "common/text/base64.h"
#include "common/text/json_text.h"
#include "ctl/kv_entries.h"

#define ARENA_BYTES_MAX (2 * KV_ENTRY_BYTES_MAX)

RECORD_LOCAL(kv_move, (STR, Key), (U64, Flags), (BIN, Value))

void
kv_entries_init(struct kv_entries *e, kv_entry_fn *each, void *ctx)
{
	*e = (struct kv_entries){ .each = each, .ctx = ctx, .text = BUF_INIT(KV_ENTRY_BYTES_MAX) };
}

void
kv_entries_done(struct kv_entries *e)
{
	buf_done(&e->text);
}

static bool fail_with(struct kv_entries *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool
fail_with(struct kv_entries *e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(e->why, sizeof(e->why), fmt, ap);
	va_end(ap);
	e->failed = true;
	return false;
}

/* "entry 7 ("a/b")", the key cut. */
static bool
fail_entry(struct kv_entries *e, struct span key, const char *what)
{
	struct buf shown = BUF_INIT(1024);

	text_quote(span_of(key.p, key.len > 100 ? 100 : key.len), &shown);
	(void)fail_with(e, "entry %" PRIu64 " (%s): %s", e->number, buf_cstr(&shown), what);
	buf_done(&shown);
	return false;
}

/* The text of an entry is whole. */
static bool
hand_on(struct kv_entries *e)
{
	struct arena a = ARENA_INIT(ARENA_BYTES_MAX);
	struct kv_move m = { .Flags = 0 };
	char why[256] = "";
	json_t *v = json_first_value(buf_span(&e->text), why, sizeof(why));
	const json_t *name = v == NULL ? NULL : json_object_get(v, "key");
	struct span key = json_is_string(name) ? span_of(json_string_value(name), json_string_length(name)) : SPAN_NONE;
	bool good = false;

	if (v == NULL)
		(void)fail_with(e, "entry %" PRIu64 " is no JSON: %s", e->number, why);
	else if (schema_from_json(&kv_move_schema, v, 0, &a, &m, why, sizeof(why)) != TV_OK)
		(void)(key.len > 0 ? fail_entry(e, key, why) : fail_with(e, "entry %" PRIu64 ": %s", e->number, why));
	else if (m.Key.len == 0)
		(void)fail_with(e, "entry %" PRIu64 " has no key", e->number);
	else
		good = e->each(e->ctx, e->number, &(struct kv_exported){ m.Key, m.Value, m.Flags });
	json_decref(v);
	arena_done(&a);
	buf_reset(&e->text);
	e->failed = !good;
	return good;
}

/* A byte of an entry. */
static bool
take_inner(struct kv_entries *e, uint8_t c)
{
	buf_u8(&e->text, c);
	if (e->text.failed)
		return fail_with(e, "entry %" PRIu64 " is longer than %u MiB", e->number, KV_ENTRY_BYTES_MAX >> 20);
	if (e->quoted) {
		e->quoted = e->escaped || c != '"';
		e->escaped = !e->escaped && c == '\\';
		return true;
	}
	e->quoted = c == '"';
	if (c == '{' || c == '[')
		e->depth++;
	else if (c == '}' || c == ']')
		e->depth--;
	if (e->depth > 0)
		return true;
	e->at = KV_AT_COMMA;
	return hand_on(e);
}

/* A byte between them. */
static bool
take_outer(struct kv_entries *e, uint8_t c)
{
	if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
		return true;
	switch (e->at) {
	case KV_AT_BEGIN:
		e->at = KV_AT_FIRST;
		return c == '[' || fail_with(e, "this is no list of keys in JSON");
	case KV_AT_FIRST:
	case KV_AT_ENTRY:
		if (c == ']' && e->at == KV_AT_FIRST) {
			e->at = KV_AT_END;
			return true;
		}
		e->number++;
		e->at = KV_IN_ENTRY;
		return c == '{' ? take_inner(e, c) : fail_with(e, "entry %" PRIu64 " is no object", e->number);
	case KV_AT_COMMA:
		e->at = c == ',' ? KV_AT_ENTRY : KV_AT_END;
		return c == ',' || c == ']' || fail_with(e, "there is no comma behind entry %" PRIu64, e->number);
	case KV_AT_END:
	case KV_IN_ENTRY:
		break;
	}
	return fail_with(e, "something follows the list");
}

bool
kv_entries_take(struct kv_entries *e, struct span piece)
{
	for (size_t i = 0; i < piece.len && !e->failed; i++)
		(void)(e->at == KV_IN_ENTRY ? take_inner(e, piece.p[i]) : take_outer(e, piece.p[i]));
	return !e->failed;
}

bool
kv_entries_end(struct kv_entries *e)
{
	if (e->failed || e->at == KV_AT_END)
		return !e->failed;
	if (e->at == KV_AT_BEGIN)
		return fail_with(e, "this is no list of keys in JSON: it is empty");
	return fail_with(e, "the list ends in the middle, at entry %" PRIu64, e->number + (e->at == KV_AT_ENTRY));
}

void
kv_entry_write(const struct kv_exported *e, bool first, struct buf *out)
{
	buf_puts(out, first ? "[\n\t{\n\t\t\"key\": " : ",\n\t{\n\t\t\"key\": ");
	json_quote(e->key, out);
	buf_printf(out, ",\n\t\t\"flags\": %" PRIu64 ",\n\t\t\"value\": \"", e->flags);
	base64_encode(e->value, out);
	buf_puts(out, "\"\n\t}");
}
