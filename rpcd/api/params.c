/* Path and query string of a request. */

#include "common/base/hex.h"
#include "common/text/json_text.h"
#include "rpcd/api/params.h"

/* Input without escapes is returned as it is: no copy. */
static enum tv_err
percent_decode(struct span raw, bool plus_is_space, struct arena *a, struct span *out)
{
	size_t plain = 0, n = 0;

	while (plain < raw.len && raw.p[plain] != '%' && !(plus_is_space && raw.p[plain] == '+'))
		plain++;
	*out = raw;
	if (plain == raw.len)
		return TV_OK;
	uint8_t *to = arena_alloc(a, raw.len);
	if (to == NULL)
		return TV_ENOMEM;
	for (size_t i = 0; i < raw.len; i++) {
		uint8_t c = raw.p[i];

		if (c == '%') {
			int high = raw.len - i > 2 ? hex_value(raw.p[i + 1]) : -1;
			int low = raw.len - i > 2 ? hex_value(raw.p[i + 2]) : -1;

			if (high < 0 || low < 0)
				return TV_EFORMAT;
			c = (uint8_t)(high << 4 | low);
			i += 2;
		} else if (c == '+' && plus_is_space) {
			c = ' ';
		}
		to[n++] = c;
	}
	*out = span_of(to, n);
	return TV_OK;
}

/* Cuts s behind the first `at`; returns what came before it. found: whether it was there. */
static struct span
cut(struct span *s, uint8_t at, bool *found)
{
	const uint8_t *mark = s->len == 0 ? NULL : memchr(s->p, at, s->len);
	struct span head = *s;

	*found = mark != NULL;
	if (mark == NULL) {
		*s = SPAN_NONE;
		return head;
	}
	head.len = (size_t)(mark - s->p);
	*s = span_of(mark + 1, s->len - head.len - 1);
	return head;
}

enum tv_err
params_parse(struct span query, struct arena *a, struct params *out)
{
	struct param pairs[PARAMS_MAX] __attribute__((uninitialized));
	uint32_t n = 0;
	bool more;

	*out = (struct params){ NULL, 0 };
	while (query.len > 0) {
		struct span value = cut(&query, '&', &more);
		struct span name = cut(&value, '=', &more);
		enum tv_err err;

		if (name.len == 0 && value.len == 0 && !more)
			continue;		/* "&&" */
		if (n == PARAMS_MAX)
			return TV_ELIMIT;
		if ((err = percent_decode(name, true, a, &pairs[n].name)) != TV_OK ||
		    (err = percent_decode(value, true, a, &pairs[n].value)) != TV_OK)
			return err;
		n++;
	}
	if (n == 0)
		return TV_OK;
	out->v = arena_array(a, n, sizeof(*out->v));
	if (out->v == NULL)
		return TV_ENOMEM;
	memcpy(out->v, pairs, n * sizeof(*out->v));
	out->n = n;
	return TV_OK;
}

bool
params_has(const struct params *p, const char *name)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (span_eqs(p->v[i].name, name))
			return true;
	return false;
}

struct span
params_get(const struct params *p, const char *name)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (span_eqs(p->v[i].name, name))
			return p->v[i].value;
	return SPAN_NONE;
}

static bool
is_unreserved(uint8_t c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	    c == '-' || c == '_' || c == '.' || c == '~';
}

static void
percent(uint8_t c, struct buf *out)
{
	static const char hex[] = "0123456789ABCDEF";

	buf_put(out, (uint8_t[]){ '%', (uint8_t)hex[c >> 4], (uint8_t)hex[c & 15] }, 3);
}

static void
query_encode(struct span s, struct buf *out)
{
	for (size_t i = 0; i < s.len; i++) {
		if (is_unreserved(s.p[i]))
			buf_u8(out, s.p[i]);
		else if (s.p[i] == ' ')
			buf_u8(out, '+');
		else
			percent(s.p[i], out);
	}
}

void
params_encode(const struct params *p, struct buf *out)
{
	uint8_t order[PARAMS_MAX];

	for (uint32_t i = 0; i < p->n; i++) {		/* insertion sort: stable, and n is small */
		uint32_t at = i;

		for (; at > 0 && span_cmp(p->v[order[at - 1]].name, p->v[i].name) > 0; at--)
			order[at] = order[at - 1];
		order[at] = (uint8_t)i;
	}
	for (uint32_t i = 0; i < p->n; i++) {
		if (i > 0)
			buf_u8(out, '&');
		query_encode(p->v[order[i]].name, out);
		buf_u8(out, '=');
		query_encode(p->v[order[i]].value, out);
	}
}

void
target_split(struct span target, struct span *path, struct span *query)
{
	bool found;

	if (target.len > 0 && target.p[0] != '/') {
		struct span scheme = span_str("http://"), tls = span_str("https://");
		size_t skip = span_starts(target, scheme) ? scheme.len : span_starts(target, tls) ? tls.len : 0;
		size_t i = skip;

		while (skip > 0 && i < target.len && target.p[i] != '/' && target.p[i] != '?')
			i++;
		target = span_of(target.p + i, target.len - i);
	}
	*query = target;
	*path = cut(query, '?', &found);
	if (path->len == 0)
		*path = span_str("/");
}

enum tv_err
path_decode(struct span raw, struct arena *a, struct span *out)
{
	return percent_decode(raw, false, a, out);
}

/* Code points that Go's unicode.IsPrint refuses, as far as they can be typed into a path: ranges, sorted. */
static const struct range { uint32_t from, to; } unprintable[] = {
	{ 0x00, 0x1f }, { 0x7f, 0xa0 }, { 0xad, 0xad }, { 0x600, 0x605 }, { 0x61c, 0x61c }, { 0x6dd, 0x6dd },
	{ 0x70f, 0x70f }, { 0x1680, 0x1680 }, { 0x180e, 0x180e }, { 0x2000, 0x200f }, { 0x2028, 0x202f },
	{ 0x205f, 0x206f }, { 0x3000, 0x3000 }, { 0xe000, 0xf8ff }, { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb },
	{ 0xe0000, 0x10ffff },
};

static bool
is_printable(uint32_t c)
{
	for (size_t i = 0; i < sizeof(unprintable) / sizeof(unprintable[0]) && unprintable[i].from <= c; i++)
		if (c <= unprintable[i].to)
			return false;
	return true;
}

/* Next code point; a byte that starts none gives U+FFFD. */
static uint32_t
next_rune(const uint8_t **p, const uint8_t *end)
{
	uint8_t first = *(*p)++;
	unsigned more = first >= 0xf0 && first < 0xf8 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
	uint32_t c = first & (0x3fu >> more);

	if (first < 0x80)
		return first;
	if (first < 0xc0 || first >= 0xf8 || (size_t)(end - *p) < more)
		return 0xfffd;
	for (unsigned i = 0; i < more; i++) {
		if (((*p)[i] & 0xc0) != 0x80)
			return 0xfffd;
		c = c << 6 | ((*p)[i] & 0x3f);
	}
	*p += more;
	return c;
}

bool
path_printable(struct span path)
{
	struct rd r = rd_span_over(path);
	const uint8_t *p = r.p, *end = r.end;

	while (p < end) {
		if (*p > 0x1f && *p < 0x7f)
			p++;
		else if (!is_printable(next_rune(&p, end)))
			return false;
	}
	return true;
}

/* Is what comes behind a slash a name, or nothing? */
static bool
is_clean_name(struct span rest)
{
	size_t n = 0;

	if (rest.len == 0 || (rest.p[0] != '/' && rest.p[0] != '.'))
		return true;
	while (n < rest.len && rest.p[n] == '.')
		n++;
	return n > 2 || (n < rest.len && rest.p[n] != '/');
}

static bool
is_clean(struct span path)
{
	for (size_t i = 0; i < path.len; i++)
		if (path.p[i] == '/' && !is_clean_name(span_of(path.p + i + 1, path.len - i - 1)))
			return false;
	return path.len > 0 && path.p[0] == '/';
}

struct span
path_clean(struct span path, struct arena *a)
{
	size_t n = 0, i = 0;

	if (is_clean(path))
		return path;
	uint8_t *to = arena_alloc(a, path.len + 2);
	if (to == NULL)
		return SPAN_NONE;
	while (i < path.len) {
		size_t from = i;

		while (i < path.len && path.p[i] != '/')
			i++;
		struct span element = span_of(path.p + from, i - from);
		i++;
		if (element.len == 0 || span_eqs(element, "."))
			continue;
		if (span_eqs(element, "..")) {
			while (n > 0 && to[--n] != '/')
				;
			continue;
		}
		to[n++] = '/';
		memcpy(to + n, element.p, element.len);
		n += element.len;
	}
	if (n == 0 || path.p[path.len - 1] == '/')
		to[n++] = '/';
	return span_of(to, n);
}

void
path_encode(struct span path, struct buf *out)
{
	for (size_t i = 0; i < path.len; i++) {
		uint8_t c = path.p[i];

		if (is_unreserved(c) || memchr("$&+,/:;=@", c, 9) != NULL)
			buf_u8(out, c);
		else
			percent(c, out);
	}
}

enum tv_err
u64_parse(struct span text, uint64_t *v)
{
	bool over = false;

	*v = 0;
	if (text.len == 0)
		return TV_EFORMAT;
	for (size_t i = 0; i < text.len; i++) {
		if (text.p[i] < '0' || text.p[i] > '9')
			return TV_EFORMAT;
		over = over || __builtin_mul_overflow(*v, 10, v) ||
		    __builtin_add_overflow(*v, (uint64_t)(text.p[i] - '0'), v);
	}
	return over ? TV_ELIMIT : TV_OK;
}

enum tv_err
i64_parse(struct span text, int64_t *v)
{
	bool minus = text.len > 0 && text.p[0] == '-', sign = minus || (text.len > 0 && text.p[0] == '+');
	uint64_t n;
	enum tv_err err = u64_parse(sign ? span_of(text.p + 1, text.len - 1) : text, &n);

	*v = (int64_t)(minus ? 0 - n : n);
	return err == TV_OK && n > (uint64_t)INT64_MAX + minus ? TV_ELIMIT : err;
}

void
u64_why(struct span text, struct buf *out)
{
	uint64_t v;

	buf_puts(out, "strconv.ParseUint: parsing ");
	text_quote(text, out);
	buf_puts(out, u64_parse(text, &v) == TV_ELIMIT ? ": value out of range" : ": invalid syntax");
}

int
params_bool(struct span text)
{
	static const char *const yes[] = { "1", "t", "T", "true", "TRUE", "True" };
	static const char *const no[] = { "0", "f", "F", "false", "FALSE", "False" };

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		if (span_eqs(text, yes[i]))
			return 1;
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		if (span_eqs(text, no[i]))
			return 0;
	return -1;
}
