/* The types of configuration values. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/addr.h"
#include "common/base/assert.h"
#include "common/base/log.h"
#include "common/conf/conf_value.h"
#include "common/text/duration.h"
#include "common/text/meta.h"

static bool
is_scalar(const struct ucl_node *n)
{
	return n->type == UCL_STRING || n->type == UCL_WORD;
}

/* The value as a message shows it. */
static const char *
shown(const struct ucl_node *n, char dst[72])
{
	if (n->type == UCL_OBJECT)
		return "a block";
	if (n->type == UCL_ARRAY)
		return "a list";
	if (n->type == UCL_WORD)
		return log_safe(n->text, dst, 72);
	dst[0] = '"';
	log_safe(n->text, dst + 1, 70);
	strcat(dst, "\"");
	return dst;
}

/* "; 100ms to 60s", "; at least 1", or nothing. */
static const char *
bounds(const struct conf_opt *o, const char *sep, char dst[96])
{
	if (o->min != NULL && o->max != NULL)
		snprintf(dst, 96, "%s%s to %s", sep, o->min, o->max);
	else if (o->min != NULL)
		snprintf(dst, 96, "%sat least %s", sep, o->min);
	else if (o->max != NULL)
		snprintf(dst, 96, "%sat most %s", sep, o->max);
	else
		dst[0] = '\0';
	return dst;
}

static enum tv_err
not_a(const struct conf_opt *o, const struct ucl_node *n, const char *what, const char *write, char *why, size_t cap)
{
	char value[72], range[96];

	return tv_fail(why, cap, TV_EINVAL, "%s is not %s (write %s%s)", shown(n, value), what, write,
	    bounds(o, "; ", range));
}

static bool
parse_u64(struct span s, uint64_t *v)
{
	*v = 0;
	for (size_t i = 0; i < s.len; i++)
		if (s.p[i] < '0' || s.p[i] > '9' || __builtin_mul_overflow(*v, 10, v) ||
		    __builtin_add_overflow(*v, (uint64_t)(s.p[i] - '0'), v))
			return false;
	return s.len > 0;
}

/* "64k", "16M", "1G", "2T" with an optional B: powers of 1024. */
static bool
parse_size(struct span s, uint64_t *v)
{
	static const char letters[] = "kmgt";
	const char *at;

	if (s.len > 1 && (s.p[s.len - 1] == 'B' || s.p[s.len - 1] == 'b'))
		s.len--;
	at = s.len > 1 ? memchr(letters, s.p[s.len - 1] | 0x20, 4) : NULL;
	if (at == NULL)
		return parse_u64(s, v);
	s.len--;
	return parse_u64(s, v) && !__builtin_mul_overflow(*v, UINT64_C(1) << (10 * (at - letters + 1)), v);
}

/* Of a value that parse() has read; the bounds are written as it is. */
static enum tv_err
check_bounds(const struct conf_opt *o, const struct ucl_node *n, uint64_t v, bool (*parse)(struct span, uint64_t *),
    char *why, size_t cap)
{
	char value[72], range[96];
	uint64_t min = 0, max = UINT64_MAX;

	TV_ASSERT(o->min == NULL || parse(span_str(o->min), &min));
	TV_ASSERT(o->max == NULL || parse(span_str(o->max), &max));
	if (v >= min && v <= max)
		return TV_OK;
	return tv_fail(why, cap, TV_EINVAL, "%s is out of range (%s)", shown(n, value), bounds(o, "", range));
}

static enum tv_err
read_bool(const struct conf_opt *o, const struct ucl_node *n, void *field, char *why, size_t cap)
{
	return ucl_bool(n, field) ? TV_OK : not_a(o, n, "a truth value", "true or false", why, cap);
}

static void
print_bool(const struct conf_opt *o UNUSED, const void *field, struct buf *out)
{
	buf_puts(out, *(const bool *)field ? "true" : "false");
}

static enum tv_err
read_u64(const struct conf_opt *o, const struct ucl_node *n, void *field, char *why, size_t cap)
{
	if (n->type != UCL_WORD || !parse_u64(n->text, field))
		return not_a(o, n, "a number", "100", why, cap);
	return check_bounds(o, n, *(uint64_t *)field, parse_u64, why, cap);
}

static void
print_u64(const struct conf_opt *o UNUSED, const void *field, struct buf *out)
{
	buf_printf(out, "%" PRIu64, *(const uint64_t *)field);
}

static enum tv_err
read_size(const struct conf_opt *o, const struct ucl_node *n, void *field, char *why, size_t cap)
{
	if (!is_scalar(n) || !parse_size(n->text, field))
		return not_a(o, n, "a size", "64k, 16M", why, cap);
	return check_bounds(o, n, *(uint64_t *)field, parse_size, why, cap);
}

static void
print_size(const struct conf_opt *o UNUSED, const void *field, struct buf *out)
{
	static const char *const units[] = { "", "k", "M", "G", "T" };
	uint64_t v = *(const uint64_t *)field;
	size_t at = 0;

	while (v > 0 && v % 1024 == 0 && at + 1 < sizeof(units) / sizeof(units[0])) {
		v /= 1024;
		at++;
	}
	buf_printf(out, "%" PRIu64 "%s", v, units[at]);
}

/* "100", "0.5", with at most three digits behind the point; "-1": none. */
static bool
parse_rate(struct span s, uint64_t *v)
{
	const uint8_t *point = memchr(s.p, '.', s.len);
	size_t whole = point == NULL ? s.len : (size_t)(point - s.p), part = point == NULL ? 0 : s.len - whole - 1;
	uint64_t thousandths = 0;

	if (span_eqs(s, "-1")) {
		*v = CONF_NO_RATE;
		return true;
	}
	if (!parse_u64(span_of(s.p, whole), v) || *v > UINT32_MAX || part > 3 || (point != NULL &&
	    !parse_u64(span_of(point + 1, part), &thousandths)))
		return false;
	for (size_t i = part; i < 3; i++)
		thousandths *= 10;
	*v = *v * 1000 + thousandths;
	return true;
}

static enum tv_err
read_rate(const struct conf_opt *o, const struct ucl_node *n, void *field, char *why, size_t cap)
{
	if (n->type != UCL_WORD || !parse_rate(n->text, field))
		return not_a(o, n, "a rate", "100, 0.5, or -1 for no limit", why, cap);
	return *(uint64_t *)field == CONF_NO_RATE ? TV_OK :
	    check_bounds(o, n, *(uint64_t *)field, parse_rate, why, cap);
}

static void
print_rate(const struct conf_opt *o UNUSED, const void *field, struct buf *out)
{
	uint64_t v = *(const uint64_t *)field;

	if (v == CONF_NO_RATE)
		buf_puts(out, "-1");
	else if (v % 1000 == 0)
		buf_printf(out, "%" PRIu64, v / 1000);
	else
		buf_printf(out, "%" PRIu64 ".%03" PRIu64, v / 1000, v % 1000);
}

static bool
parse_ns(struct span s, uint64_t *v)
{
	int64_t ns = 0;
	bool good = duration_parse(s, &ns) == TV_OK;

	*v = (uint64_t)ns;
	return good;
}

static enum tv_err
read_duration(const struct conf_opt *o, const struct ucl_node *n, void *field, char *why, size_t cap)
{
	struct mono *d = field;

	if (!is_scalar(n) || duration_parse(n->text, &d->ns) != TV_OK)
		return not_a(o, n, "a duration", "500ms, 2s", why, cap);
	if (d->ns < 0)
		return not_a(o, n, "a positive duration", "500ms, 2s", why, cap);
	return check_bounds(o, n, (uint64_t)d->ns, parse_ns, why, cap);
}

static void
print_duration(const struct conf_opt *o UNUSED, const void *field, struct buf *out)
{
	duration_print(((const struct mono *)field)->ns, out);
}

static enum tv_err
read_port(const struct conf_opt *o, const struct ucl_node *n, void *field, char *why, size_t cap)
{
	bool zero = o->min != NULL && strcmp(o->min, "0") == 0;
	char value[72];
	uint64_t v;

	if (n->type != UCL_WORD || !parse_u64(n->text, &v) || v > 65535 || (v == 0 && !zero))
		return tv_fail(why, cap, TV_EINVAL, "%s is not a port number (%s to 65535)", shown(n, value),
		    zero ? "0" : "1");
	*(uint16_t *)field = (uint16_t)v;
	return TV_OK;
}

static void
print_port(const struct conf_opt *o UNUSED, const void *field, struct buf *out)
{
	buf_printf(out, "%u", *(const uint16_t *)field);
}

static enum tv_err
take_text(const struct ucl_node *n, char **field, char *why, size_t cap)
{
	if (n->text.len > CONF_STRING_BYTES_MAX)
		return tv_fail(why, cap, TV_EINVAL, "longer than %d bytes", CONF_STRING_BYTES_MAX);
	*field = span_dup(n->text);
	if (*field == NULL)
		snprintf(why, cap, "out of memory");
	return *field != NULL ? TV_OK : TV_ENOMEM;
}

static enum tv_err
read_string(const struct conf_opt *o, const struct ucl_node *n, void *field, char *why, size_t cap)
{
	if (!is_scalar(n))
		return not_a(o, n, "a string", "\"text\"", why, cap);
	return take_text(n, field, why, cap);
}

/* Nothing of it goes into a message. */
static enum tv_err
read_secret(const struct conf_opt *o UNUSED, const struct ucl_node *n, void *field, char *why, size_t cap)
{
	bool good = is_scalar(n) && n->text.len <= CONF_SECRET_BYTES_MAX;

	for (size_t i = 0; good && i < n->text.len; i++)
		good = n->text.p[i] > ' ' && n->text.p[i] < 0x7f;
	if (good)
		return take_text(n, field, why, cap);
	return tv_fail(why, cap, TV_EINVAL, "at most %d printable characters without spaces are expected",
	    CONF_SECRET_BYTES_MAX);
}

static void
print_secret(const struct conf_opt *o UNUSED, const void *field UNUSED, struct buf *out)
{
	buf_puts(out, "(set, not shown)");
}

static void
free_secret(void *field)
{
	char *text = *(char **)field;

	if (text != NULL)
		explicit_bzero(text, strlen(text));
	free(text);
}

static enum tv_err
read_path(const struct conf_opt *o, const struct ucl_node *n, void *field, char *why, size_t cap)
{
	if (!is_scalar(n) || n->text.len == 0 || n->text.p[0] != '/')
		return not_a(o, n, "an absolute path", "/directory/file", why, cap);
	return take_text(n, field, why, cap);
}

static enum tv_err
read_name(const struct conf_opt *o, const struct ucl_node *n, void *field, char *why, size_t cap)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	bool good = is_scalar(n) && n->text.len >= 1 && n->text.len <= 128;

	for (size_t i = 0; good && i < n->text.len; i++)
		good = memchr(allowed, n->text.p[i], sizeof(allowed) - 1) != NULL;
	if (!good)
		return not_a(o, n, "a name", "1 to 128 letters, digits, '-', '_', '.'", why, cap);
	return take_text(n, field, why, cap);
}

static enum tv_err
read_addr(const struct conf_opt *o, const struct ucl_node *n, void *field, char *why, size_t cap)
{
	if (!is_scalar(n) || !addr_parse_span(n->text, 0, NULL))
		return not_a(o, n, "an IP address",
		    "10.0.0.1 or \"fd00::1\"; host names and interfaces are not looked up here", why, cap);
	return take_text(n, field, why, cap);
}

/* A string as it would be written. */
static void
print_quoted(const char *text, struct buf *out)
{
	struct ucl_node n = { .type = UCL_STRING, .text = span_str(text) };

	ucl_json(&n, out);
}

static void
print_string(const struct conf_opt *o UNUSED, const void *field, struct buf *out)
{
	print_quoted(*(char *const *)field, out);
}

static bool
equal_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool
equal_string(const void *a, const void *b)
{
	return equal_text(*(char *const *)a, *(char *const *)b);
}

static void
free_string(void *field)
{
	free(*(char **)field);
}

static void
free_list(void *field)
{
	struct conf_list *list = field;

	for (size_t i = 0; i < list->count; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct conf_list){ NULL, 0 };
}

static enum tv_err
add_item(const struct conf_opt *o, const struct ucl_node *n, struct conf_list *list, char *why, size_t cap)
{
	enum tv_err err;

	if (!is_scalar(n) || n->text.len == 0)
		return not_a(o, n, "a list of strings", "[ \"a\", \"b\" ]", why, cap);
	err = take_text(n, &list->items[list->count], why, cap);
	if (err == TV_OK)
		list->count++;
	return err;
}

/* One scalar stands for a list of one. */
static enum tv_err
read_list(const struct conf_opt *o, const struct ucl_node *n, void *field, char *why, size_t cap)
{
	struct conf_list *list = field;
	size_t count = n->type == UCL_ARRAY ? n->count : 1;
	enum tv_err err = TV_OK;

	if (count > CONF_LIST_ITEMS_MAX)
		return tv_fail(why, cap, TV_EINVAL, "more than %d entries", CONF_LIST_ITEMS_MAX);
	if (count == 0)
		return TV_OK;
	list->items = calloc(count, sizeof(*list->items));
	if (list->items == NULL)
		return tv_fail(why, cap, TV_ENOMEM, "out of memory");
	if (n->type != UCL_ARRAY)
		err = add_item(o, n, list, why, cap);
	else
		for (const struct ucl_node *c = n->child; c != NULL && err == TV_OK; c = c->next)
			err = add_item(o, c, list, why, cap);
	if (err != TV_OK)
		free_list(list);
	return err;
}

static void
print_list(const struct conf_opt *o UNUSED, const void *field, struct buf *out)
{
	const struct conf_list *list = field;

	buf_puts(out, "[");
	for (size_t i = 0; i < list->count; i++) {
		buf_puts(out, i > 0 ? ", " : "");
		print_quoted(list->items[i], out);
	}
	buf_puts(out, "]");
}

static bool
equal_list(const void *a, const void *b)
{
	const struct conf_list *x = a, *y = b;

	if (x->count != y->count)
		return false;
	for (size_t i = 0; i < x->count; i++)
		if (strcmp(x->items[i], y->items[i]) != 0)
			return false;
	return true;
}

/* May this pair be?  Else why gets what was expected.  Its value is scalar and holds no NUL. */
typedef bool pair_fits_fn(const struct ucl_node *n, char *why, size_t cap);

static bool
is_pair_twice(const struct ucl_node *block, const struct ucl_node *n)
{
	for (const struct ucl_node *c = block->child; c != n; c = c->next)
		if (span_eq(c->key, n->key))
			return true;
	return false;
}

static enum tv_err
add_pair(const struct ucl_node *block, const struct ucl_node *n, pair_fits_fn *fits, struct conf_list *list, char *why,
    size_t cap)
{
	char name[72];

	if (is_pair_twice(block, n))
		return tv_fail(why, cap, TV_EINVAL, "\"%s\" is given twice", log_safe(n->key, name, sizeof(name)));
	if (is_scalar(n) && memchr(n->text.p, '\0', n->text.len) != NULL)
		return tv_fail(why, cap, TV_EINVAL, "\"%s\": a zero byte cannot be in it",
		    log_safe(n->key, name, sizeof(name)));
	if (!fits(n, why, cap))
		return TV_EINVAL;
	if (asprintf(&list->items[list->count], "%.*s=%.*s", (int)n->key.len, (const char *)n->key.p, (int)n->text.len,
	    (const char *)n->text.p) < 0)
		return tv_fail(why, cap, TV_ENOMEM, "out of memory");
	list->count++;
	return TV_OK;
}

/* A block of names that the configuration does not know beforehand; what, example: of their values, for the message. */
static enum tv_err
read_pairs(const struct conf_opt *o, const struct ucl_node *n, const char *what, const char *example, size_t max,
    pair_fits_fn *fits, struct conf_list *list, char *why, size_t cap)
{
	enum tv_err err = TV_OK;

	if (n->type != UCL_OBJECT)
		return tv_fail(why, cap, TV_EINVAL, "a block of names and %s is expected (write %s { %s })", what,
		    o->key, example);
	if (n->count > max)
		return tv_fail(why, cap, TV_EINVAL, "more than %zu entries", max);
	if (n->count == 0)
		return TV_OK;
	if ((list->items = calloc(n->count, sizeof(*list->items))) == NULL)
		return tv_fail(why, cap, TV_ENOMEM, "out of memory");
	for (const struct ucl_node *c = n->child; c != NULL && err == TV_OK; c = c->next)
		err = add_pair(n, c, fits, list, why, cap);
	if (err != TV_OK)
		free_list(list);
	return err;
}

static bool
time_fits(const struct ucl_node *n, char *why, size_t cap)
{
	char value[72];
	int64_t ns;

	if (is_scalar(n) && duration_parse(n->text, &ns) == TV_OK && ns >= 0)
		return true;
	snprintf(why, cap, "\"%.*s\": %s is not a duration (write 500ms, 2s)", n->key.len < 64 ? (int)n->key.len : 64,
	    (const char *)n->key.p, shown(n, value));
	return false;
}

static enum tv_err
read_times(const struct conf_opt *o, const struct ucl_node *n, void *field, char *why, size_t cap)
{
	return read_pairs(o, n, "durations", "\"name\" = 10s", CONF_LIST_ITEMS_MAX, time_fits, field, why, cap);
}

static bool
meta_fits(const struct ucl_node *n, char *why, size_t cap)
{
	const char *refused = is_scalar(n) ? meta_pair_refusal(n->key, n->text) : "a text is expected";
	char name[72];

	if (refused != NULL)
		snprintf(why, cap, "\"%s\": %s", log_safe(n->key, name, sizeof(name)), refused);
	return refused == NULL;
}

static enum tv_err
read_meta(const struct conf_opt *o, const struct ucl_node *n, void *field, char *why, size_t cap)
{
	return read_pairs(o, n, "texts", "rack = \"r1\"", META_PAIRS_MAX, meta_fits, field, why, cap);
}

static bool
has_suffix(struct span s, const char *suffix)
{
	size_t len = strlen(suffix);

	return s.len >= len && memcmp(s.p + s.len - len, suffix, len) == 0;
}

/* One of the family that its name ends in, if it does. */
static bool
is_address(struct span name, struct span text)
{
	struct addr a;

	return addr_parse_span(text, 0, &a) && !has_suffix(name, a.len == 4 ? "_ipv6" : "_ipv4");
}

static bool
address_fits(const struct ucl_node *n, char *why, size_t cap)
{
	const char *refused = meta_pair_refusal(n->key, SPAN_NONE), *family = "IP";
	char name[72], value[72];

	log_safe(n->key, name, sizeof(name));
	if (refused != NULL) {
		snprintf(why, cap, "\"%s\": %s", name, refused);
		return false;
	}
	if (is_scalar(n) && is_address(n->key, n->text))
		return true;
	if (has_suffix(n->key, "_ipv4"))
		family = "IPv4";
	else if (has_suffix(n->key, "_ipv6"))
		family = "IPv6";
	snprintf(why, cap, "\"%s\": %s is not an %s address", name, shown(n, value), family);
	return false;
}

static enum tv_err
read_addresses(const struct conf_opt *o, const struct ucl_node *n, void *field, char *why, size_t cap)
{
	return read_pairs(o, n, "addresses", "lan = 10.0.0.1", META_PAIRS_MAX, address_fits, field, why, cap);
}

static void
print_all(const struct conf_list *list, char *(*find_equals)(const char *item, int c), struct buf *out)
{
	buf_puts(out, "{");
	for (size_t i = 0; i < list->count; i++) {
		const char *item = list->items[i], *equals = find_equals(item, '=');
		struct buf name = BUF_INIT(UCL_TEXT_BYTES_MAX);

		buf_puts(out, i == 0 ? " " : ", ");
		buf_put(&name, item, (size_t)(equals - item));
		print_quoted(buf_cstr(&name), out);
		buf_done(&name);
		buf_puts(out, " = ");
		print_quoted(equals + 1, out);
	}
	buf_puts(out, " }");
}

static void
print_times(const struct conf_opt *o UNUSED, const void *field, struct buf *out)
{
	print_all(field, strrchr, out);
}

/* Their names have no equals sign. */
static void
print_pairs(const struct conf_opt *o UNUSED, const void *field, struct buf *out)
{
	print_all(field, strchr, out);
}

/* The index-th of "a|b|c"; SPAN_NONE behind the last. */
static struct span
choice(const char *choices, int index)
{
	size_t len = strcspn(choices, "|");

	for (; index > 0 && choices[len] == '|'; index--) {
		choices += len + 1;
		len = strcspn(choices, "|");
	}
	return index == 0 ? span_of(choices, len) : SPAN_NONE;
}

static enum tv_err
read_choice(const struct conf_opt *o, const struct ucl_node *n, void *field, char *why, size_t cap)
{
	char value[72];
	size_t len;

	for (int i = 0; is_scalar(n) && choice(o->choices, i).p != NULL; i++)
		if (span_eq(choice(o->choices, i), n->text)) {
			*(int *)field = i;
			return TV_OK;
		}
	snprintf(why, cap, "%s is not one of ", shown(n, value));
	for (int i = 0; choice(o->choices, i).p != NULL; i++) {
		struct span c = choice(o->choices, i);

		len = strlen(why);
		snprintf(why + len, cap - len, "%s%.*s", i > 0 ? ", " : "", (int)c.len, (const char *)c.p);
	}
	return TV_EINVAL;
}

static void
print_choice(const struct conf_opt *o, const void *field, struct buf *out)
{
	buf_puts(out, "\"");
	buf_putspan(out, choice(o->choices, *(const int *)field));
	buf_puts(out, "\"");
}

static enum tv_err
read_removed(const struct conf_opt *o, const struct ucl_node *n UNUSED, void *field UNUSED, char *why, size_t cap)
{
	return tv_fail(why, cap, TV_EINVAL, "this key was removed; %s", o->help);
}

static bool
equal_always(const void *a UNUSED, const void *b UNUSED)
{
	return true;
}

static const struct conf_value_ops types[] = {
	[CONF_BOOL] = { sizeof(bool), read_bool, print_bool, NULL, NULL },
	[CONF_U64] = { sizeof(uint64_t), read_u64, print_u64, NULL, NULL },
	[CONF_SIZE] = { sizeof(uint64_t), read_size, print_size, NULL, NULL },
	[CONF_RATE] = { sizeof(uint64_t), read_rate, print_rate, NULL, NULL },
	[CONF_DURATION] = { sizeof(struct mono), read_duration, print_duration, NULL, NULL },
	[CONF_PORT] = { sizeof(uint16_t), read_port, print_port, NULL, NULL },
	[CONF_STRING] = { sizeof(char *), read_string, print_string, equal_string, free_string },
	[CONF_SECRET] = { sizeof(char *), read_secret, print_secret, equal_string, free_secret },
	[CONF_PATH] = { sizeof(char *), read_path, print_string, equal_string, free_string },
	[CONF_NAME] = { sizeof(char *), read_name, print_string, equal_string, free_string },
	[CONF_ADDR] = { sizeof(char *), read_addr, print_string, equal_string, free_string },
	[CONF_LIST] = { sizeof(struct conf_list), read_list, print_list, equal_list, free_list },
	[CONF_TIMES] = { sizeof(struct conf_list), read_times, print_times, equal_list, free_list },
	[CONF_META] = { sizeof(struct conf_list), read_meta, print_pairs, equal_list, free_list },
	[CONF_ADDRESSES] = { sizeof(struct conf_list), read_addresses, print_pairs, equal_list, free_list },
	[CONF_CHOICE] = { sizeof(int), read_choice, print_choice, NULL, NULL },
	[CONF_GIVEN] = { sizeof(bool), NULL, NULL, equal_always, NULL },
	[CONF_REMOVED] = { 0, read_removed, NULL, equal_always, NULL },
};

const struct conf_value_ops *
conf_value_ops(enum conf_type type)
{
	TV_ASSERT((size_t)type < sizeof(types) / sizeof(types[0]));
	return &types[type];
}

enum tv_err
conf_value_default(const struct conf_opt *o, void *field)
{
	struct arena arena = ARENA_INIT(64 * 1024);
	struct ucl_node word = { .type = UCL_WORD }, *root = &word;
	struct ucl_error bad;
	char why[256];
	enum tv_err err = TV_OK;

	if (o->def == NULL)
		return TV_OK;
	word.text = span_str(o->def);
	if (o->type == CONF_LIST && o->def[0] == '[')
		err = ucl_parse(word.text, &arena, &root, &bad);
	if (err == TV_OK)
		err = types[o->type].read(o, root, field, why, sizeof(why));
	arena_done(&arena);
	TV_ASSERT(err == TV_OK || err == TV_ENOMEM);
	return err;
}

bool
conf_value_unset(const struct conf_opt *o, const void *field)
{
	switch (o->type) {
	case CONF_STRING: case CONF_SECRET: case CONF_PATH: case CONF_NAME: case CONF_ADDR:
		return *(char *const *)field == NULL;
	case CONF_LIST: case CONF_TIMES: case CONF_META: case CONF_ADDRESSES:
		return ((const struct conf_list *)field)->count == 0;
	default:
		return false;
	}
}
