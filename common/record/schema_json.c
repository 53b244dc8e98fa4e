/* JSON into records, by the schema. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/record/schema_json.h"
#include "common/text/base64.h"
#include "common/text/duration.h"
#include "common/text/json_text.h"

#define JSON_DEPTH_MAX 64
#define JSON_BYTES_MAX (64u << 20)
#define SECONDS_BELOW 1000		/* session LockDelay: smaller numbers are seconds */

struct from_json {
	unsigned flags;
	struct arena *arena;
	char *errbuf;
	size_t cap;
};

static enum tv_err fill_object(struct from_json *j, const struct schema *s, unsigned from, json_t *obj, void *rec);

/*
 * Whole numbers above 2^63-1, which flags, indexes and the like may be, have no place in jansson.  They go through it
 * as text behind this mark, which json_first_value() sets.
 */
#define LARGE "\x01large:"
#define LARGE_LEN (sizeof(LARGE) - 1)

static bool
is_large(const json_t *v)
{
	const char *digits = json_is_string(v) ? json_string_value(v) + LARGE_LEN : "";

	return json_string_length(v) > LARGE_LEN && memcmp(json_string_value(v), LARGE, LARGE_LEN) == 0 &&
	    strspn(digits, "0123456789") == json_string_length(v) - LARGE_LEN;
}

static const char *
json_kind(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return "object";
	case JSON_ARRAY:
		return "array";
	case JSON_STRING:
		return is_large(v) ? "number" : "string";
	case JSON_INTEGER:
	case JSON_REAL:
		return "number";
	case JSON_TRUE:
	case JSON_FALSE:
		return "bool";
	case JSON_NULL:
		break;
	}
	return "null";
}

static enum tv_err
wrong_type(struct from_json *j, const json_t *v, const char *wanted)
{
	return tv_fail(j->errbuf, j->cap, TV_EFORMAT, "json: cannot unmarshal %s into Go value of type %s",
	    json_kind(v), wanted);
}

static enum tv_err
no_memory(struct from_json *j)
{
	return tv_fail(j->errbuf, j->cap, TV_ENOMEM, "%s", tv_strerror(TV_ENOMEM));
}

/* Copies text; the copy ends with a NUL that is not counted. */
static enum tv_err
copy_text(struct from_json *j, const char *text, size_t len, struct span *out)
{
	char *to = arena_alloc(j->arena, len + 1);

	if (to == NULL)
		return no_memory(j);
	if (len > 0)
		memcpy(to, text, len);
	*out = span_of(to, len);
	return TV_OK;
}

static enum tv_err
fill_str(struct from_json *j, const json_t *v, struct span *out)
{
	if (!json_is_string(v) || is_large(v))
		return wrong_type(j, v, "string");
	return copy_text(j, json_string_value(v), json_string_length(v), out);
}

static enum tv_err
fill_bin(struct from_json *j, const json_t *v, struct span *out)
{
	struct buf bytes = BUF_INIT(JSON_BYTES_MAX);

	if (!json_is_string(v))
		return wrong_type(j, v, "[]uint8");
	enum tv_err err = base64_decode(span_of(json_string_value(v), json_string_length(v)), &bytes);
	if (err == TV_OK)
		err = copy_text(j, (const char *)bytes.data, bytes.len, out);
	else
		snprintf(j->errbuf, j->cap, "illegal base64 data");
	buf_done(&bytes);
	return err;
}

static enum tv_err
fill_i64(struct from_json *j, const json_t *v, bool is_unsigned, int64_t *out)
{
	const char *wanted = is_unsigned ? "uint64" : "int";

	if (is_large(v) && is_unsigned) {
		*out = (int64_t)strtoull(json_string_value(v) + LARGE_LEN, NULL, 10);
		return TV_OK;
	}
	if (!json_is_integer(v))
		return wrong_type(j, v, wanted);
	if (is_unsigned && json_integer_value(v) < 0)
		return tv_fail(j->errbuf, j->cap, TV_EFORMAT, "json: cannot unmarshal number %lld into Go value of "
		    "type %s", (long long)json_integer_value(v), wanted);
	*out = json_integer_value(v);
	return TV_OK;
}

static enum tv_err
fill_duration(struct from_json *j, const struct schema_field *f, const json_t *v, int64_t *out)
{
	if (json_is_string(v)) {
		struct span text = span_of(json_string_value(v), json_string_length(v));
		struct buf why = BUF_INIT(512);

		if (duration_parse(text, out) == TV_OK)
			return TV_OK;
		duration_why(text, &why);
		/* Empty when it is longer than anybody would read: it does not repeat the text then. */
		const char *reason = buf_cstr(&why);
		snprintf(j->errbuf, j->cap, "%s", reason[0] == '\0' ? "time: invalid duration" : reason);
		buf_done(&why);
		return TV_EFORMAT;
	}
	if (!json_is_number(v))
		return wrong_type(j, v, "time.Duration");
	double number = json_number_value(v);
	if (!(fabs(number) < 9.2e18))
		return wrong_type(j, v, "time.Duration");
	*out = json_is_integer(v) ? json_integer_value(v) : (int64_t)number;
	if ((f->flags & SF_LOCKDELAY) && *out < SECONDS_BELOW && *out > -SECONDS_BELOW)
		*out *= 1000000000;
	return TV_OK;
}

static enum tv_err
fill_f64(struct from_json *j, const json_t *v, double *out)
{
	if (!json_is_number(v))
		return wrong_type(j, v, "float64");
	*out = json_number_value(v);
	return TV_OK;
}

/* An element of a list, or the value in a map; the key of a struct is its first field. */
static enum tv_err
fill_element(struct from_json *j, const struct schema_field *f, json_t *v, void *at)
{
	if (f->sub != NULL)
		return fill_object(j, f->sub, f->type == ST_OBJMAP, v, at);
	if (json_is_null(v))
		return TV_OK;
	return f->type == ST_F64S ? fill_f64(j, v, at) : fill_str(j, v, at);
}

static enum tv_err
fill_list(struct from_json *j, const struct schema_field *f, json_t *v, void *out)
{
	enum tv_err err = TV_OK;
	size_t size;
	char *at;

	if (!json_is_array(v))
		return wrong_type(j, v, f->sub != NULL ? "[]object" : f->type == ST_F64S ? "[]float64" : "[]string");
	at = schema_list_new(f, json_array_size(v), j->arena, out, &size);
	if (at == NULL)
		return no_memory(j);
	for (size_t i = 0; i < json_array_size(v) && err == TV_OK; i++, at += size)
		err = fill_element(j, f, json_array_get(v, i), at);
	return err;
}

static enum tv_err
fill_map(struct from_json *j, const struct schema_field *f, json_t *v, void *out)
{
	size_t key_at = f->sub != NULL ? f->sub->fields[0].offset : 0, key_len, size;
	size_t value_at = f->sub != NULL ? 0 : sizeof(struct span);
	enum tv_err err;
	const char *key;
	json_t *element;
	char *at;

	if (!json_is_object(v))
		return wrong_type(j, v, f->sub != NULL ? "map[string]object" : "map[string]string");
	at = schema_list_new(f, json_object_size(v), j->arena, out, &size);
	if (at == NULL)
		return no_memory(j);
	json_object_keylen_foreach(v, key, key_len, element) {
		if ((err = copy_text(j, key, key_len, (struct span *)(void *)(at + key_at))) != TV_OK ||
		    (err = fill_element(j, f, element, at + value_at)) != TV_OK)
			return err;
		at += size;
	}
	return TV_OK;
}

static void put_value(json_t *v, struct buf *out);

static void
put_list(json_t *v, struct buf *out)
{
	size_t i;
	json_t *element;

	buf_u8(out, '[');
	json_array_foreach(v, i, element) {
		if (i > 0)
			buf_u8(out, ',');
		put_value(element, out);
	}
	buf_u8(out, ']');
}

static void
put_object(json_t *v, struct buf *out)
{
	const char *key, *before = "";
	size_t len;
	json_t *element;

	buf_u8(out, '{');
	json_object_keylen_foreach(v, key, len, element) {
		buf_puts(out, before);
		json_quote(span_of(key, len), out);
		buf_u8(out, ':');
		put_value(element, out);
		before = ",";
	}
	buf_u8(out, '}');
}

/* As Go prints it, but for what would be read again as another number: an integer of more than 64 bits, or -0. */
static void
put_real(double v, struct buf *out)
{
	double size = v < 0 ? -v : v;
	char text[40];

	if (size < 0x1p63 || size >= 1e21) {
		json_number(v == 0 ? 0.0 : v, out);
		return;
	}
	for (int digits = 0; digits <= 16; digits++) {
		snprintf(text, sizeof(text), "%.*e", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	buf_puts(out, text);
}

/* jansson's own writer gives 0.1 as 0.10000000000000001.  As deep as the body: JSON_DEPTH_MAX. */
static void
put_value(json_t *v, struct buf *out)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		put_object(v, out);
		break;
	case JSON_ARRAY:
		put_list(v, out);
		break;
	case JSON_STRING:
		if (is_large(v))
			buf_puts(out, json_string_value(v) + LARGE_LEN);
		else
			json_quote(span_of(json_string_value(v), json_string_length(v)), out);
		break;
	case JSON_INTEGER:
		buf_printf(out, "%lld", (long long)json_integer_value(v));
		break;
	case JSON_REAL:
		put_real(json_real_value(v), out);
		break;
	case JSON_TRUE:
	case JSON_FALSE:
		buf_puts(out, json_is_true(v) ? "true" : "false");
		break;
	case JSON_NULL:
		buf_puts(out, "null");
		break;
	}
}

static enum tv_err
fill_json(struct from_json *j, json_t *v, struct span *out)
{
	struct buf text = BUF_INIT(JSON_BYTES_MAX);
	enum tv_err err;

	put_value(v, &text);
	err = text.failed ? no_memory(j) : copy_text(j, (const char *)text.data, text.len, out);
	buf_done(&text);
	return err;
}

static enum tv_err
fill_obj(struct from_json *j, const struct schema_field *f, json_t *v, void *rec)
{
	struct from_json below = *j;

	if (f->has != 0)
		*((bool *)rec + f->has - 1) = true;
	if (f->flags & SF_SNAKE)
		below.flags |= SJ_SNAKE;
	return fill_object(&below, f->sub, 0, v, (char *)rec + f->offset);
}

static enum tv_err
fill_field(struct from_json *j, const struct schema_field *f, json_t *v, void *rec)
{
	void *at = (char *)rec + f->offset;

	switch (f->type) {
	case ST_STR:
		return fill_str(j, v, at);
	case ST_BIN:
		return fill_bin(j, v, at);
	case ST_U64:
	case ST_I64:
		return fill_i64(j, v, f->type == ST_U64, at);
	case ST_BOOL:
		if (!json_is_boolean(v))
			return wrong_type(j, v, "bool");
		*(bool *)at = json_is_true(v);
		return TV_OK;
	case ST_F64:
		return fill_f64(j, v, at);
	case ST_DURATION:
		return fill_duration(j, f, v, at);
	case ST_STRS:
	case ST_F64S:
	case ST_OBJS:
		return fill_list(j, f, v, at);
	case ST_MAP:
	case ST_OBJMAP:
		return fill_map(j, f, v, at);
	case ST_OBJ:
		return fill_obj(j, f, v, rec);
	case ST_JSON:
		return fill_json(j, v, at);
	case ST_CONST:
		break;
	}
	return TV_OK;
}

static enum tv_err
unknown_field(struct from_json *j, const char *key)
{
	struct buf text = BUF_INIT(4096);

	json_quote(span_str(key), &text);
	snprintf(j->errbuf, j->cap, "json: unknown field %s", buf_cstr(&text));
	buf_done(&text);
	return TV_EINVAL;
}

static bool
says_something(const json_t *v)
{
	if (json_is_string(v))
		return json_string_length(v) > 0;
	if (json_is_number(v))
		return json_number_value(v) != 0;
	return json_is_true(v) || json_array_size(v) > 0 || json_object_size(v) > 0;
}

/* Fields from number `from` on: the key of an ST_OBJMAP element is not among them. */
static enum tv_err
fill_object(struct from_json *j, const struct schema *s, unsigned from, json_t *obj, void *rec)
{
	const char *key;
	size_t key_len;
	json_t *value;

	if (json_is_null(obj))
		return TV_OK;
	if (!json_is_object(obj))
		return wrong_type(j, obj, s->name);
	json_object_keylen_foreach(obj, key, key_len, value) {
		const struct schema_field *f = schema_field_named(s, from, span_of(key, key_len), false);

		if (f == NULL && (j->flags & SJ_SNAKE))
			f = schema_field_named(s, from, span_of(key, key_len), true);
		if (f == NULL && (j->flags & SJ_STRICT || (j->flags & SJ_KNOWN && says_something(value))))
			return unknown_field(j, key);
		if (f == NULL && j->errbuf[0] == '\0' && says_something(value))
			(void)unknown_field(j, key);
		if (f == NULL || ((f->flags & SF_READONLY) && !(j->flags & SJ_INDEXES)) || json_is_null(value))
			continue;
		enum tv_err err = fill_field(j, f, value, rec);
		if (err != TV_OK)
			return err;
	}
	return TV_OK;
}

enum tv_err
schema_from_json(const struct schema *s, json_t *obj, unsigned flags, struct arena *a, void *rec,
    char *errbuf, size_t cap)
{
	struct from_json j = { flags, a, errbuf, cap };

	errbuf[0] = '\0';
	return fill_object(&j, s, 0, obj, rec);
}

/* The digits at p are a number that needs the 64th bit. */
static bool
needs_mark(const uint8_t *p, size_t len)
{
	char text[24], *end;

	if (len < 19 || len > 20)
		return false;
	memcpy(text, p, len);
	text[len] = '\0';
	errno = 0;
	return strtoull(text, &end, 10) > INT64_MAX && errno == 0;
}

/* Behind each of these a value begins. */
static bool
begins_value(uint8_t before)
{
	return memchr(":[, \t\n\r", before, 7) != NULL;
}

/* The text with each such number marked; false: it has none, and out may be empty. */
static bool
mark_large(struct span body, struct buf *out)
{
	bool in_string = false, marked = false;
	size_t from = 0, n;

	for (size_t i = 0; i < body.len; i += n) {
		uint8_t c = body.p[i], after;

		n = 1;
		if (in_string && c == '\\')
			n = 2;
		else if (c == '"')
			in_string = !in_string;
		if (in_string || c < '1' || c > '9' || i == 0 || !begins_value(body.p[i - 1]))
			continue;
		while (i + n < body.len && body.p[i + n] >= '0' && body.p[i + n] <= '9')
			n++;
		after = i + n < body.len ? body.p[i + n] : 0;
		if (after == '.' || (after | 0x20) == 'e' || !needs_mark(body.p + i, n))
			continue;
		buf_put(out, body.p + from, i - from);
		buf_puts(out, "\"\\u0001large:");
		buf_put(out, body.p + i, n);
		buf_u8(out, '"');
		from = i + n;
		marked = true;
	}
	buf_put(out, body.p + from, marked ? body.len - from : 0);
	return marked && !out->failed;
}

json_t *
json_first_value(struct span body, char *errbuf, size_t cap)
{
	json_error_t why;
	size_t i = 0;

	while (i < body.len && memchr(" \t\r\n", body.p[i], 4) != NULL)
		i++;
	if (i == body.len) {
		snprintf(errbuf, cap, "EOF");
		return NULL;
	}
	if (body.len > JSON_BYTES_MAX || json_depth(body) > JSON_DEPTH_MAX) {
		snprintf(errbuf, cap, "JSON is too large or nested too deeply (limit: %u levels)", JSON_DEPTH_MAX);
		return NULL;
	}
	json_t *value = json_loadb((const char *)body.p, body.len,
	    JSON_DISABLE_EOF_CHECK | JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
	struct buf marked = BUF_INIT(2 * JSON_BYTES_MAX);
	if (value == NULL && json_error_code(&why) == json_error_numeric_overflow && mark_large(body, &marked))
		value = json_loadb((const char *)marked.data, marked.len,
		    JSON_DISABLE_EOF_CHECK | JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
	buf_done(&marked);
	if (value == NULL && json_error_code(&why) == json_error_premature_end_of_input)
		snprintf(errbuf, cap, "unexpected EOF");
	else if (value == NULL)
		snprintf(errbuf, cap, "invalid JSON at byte %d: %s", why.position, why.text);
	return value;
}
