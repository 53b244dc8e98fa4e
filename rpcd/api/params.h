/*
 * The text of a request: path and query string, percent-decoded, and the numbers in them.
 * The rules are those that clients of the API rely on (Go's net/url and strconv).
 */
#ifndef TV_RPCD_API_PARAMS_H
#define TV_RPCD_API_PARAMS_H

#include "common/base/arena.h"
#include "common/base/buf.h"

#define PARAMS_MAX 128			/* pairs in one query string */

struct param {
	struct span name, value;
};
struct params {
	struct param *v;		/* in order of appearance; from the arena */
	uint32_t n;
};

/*
 * Decodes "a=1&b": '+' is a space, a name without '=' has the value "".
 * TV_EFORMAT: malformed percent escape.  TV_ELIMIT: more than PARAMS_MAX pairs.  TV_ENOMEM.
 */
enum tv_err params_parse(struct span query, struct arena *a, struct params *out);
/* Is there such a parameter, with whatever value? */
bool params_has(const struct params *p, const char *name);
/* First value of that name, or SPAN_NONE. */
struct span params_get(const struct params *p, const char *name);
/* The pairs again as a query string, sorted by name. */
void params_encode(const struct params *p, struct buf *out);

/* Splits "/path?query" and the absolute form "http://host/path?query"; both parts still encoded. */
void target_split(struct span target, struct span *path, struct span *query);
/* Percent-decodes a path; '+' stays.  TV_EFORMAT, TV_ENOMEM. */
enum tv_err path_decode(struct span raw, struct arena *a, struct span *out);
/* No control, format or private characters, and no space but ' '.  Bytes that are no UTF-8 pass. */
bool path_printable(struct span path);
/*
 * Without "//", "." and ".." elements; a final slash is kept.  The result is the input when that was clean.
 * SPAN_NONE: no memory.
 */
struct span path_clean(struct span path, struct arena *a);
/* Percent-encodes for a Location header. */
void path_encode(struct span path, struct buf *out);

/* 1 of "1", "t", "true" and so on, 0 of "0", "f", "false"; -1 of all else. */
int params_bool(struct span text);
/* Decimal, nothing else.  TV_EFORMAT or TV_ELIMIT (out of range). */
enum tv_err u64_parse(struct span text, uint64_t *v);
/* The same of a whole number, which may have a sign. */
enum tv_err i64_parse(struct span text, int64_t *v);
/* The API's sentence: strconv.ParseUint: parsing "zz": invalid syntax. */
void u64_why(struct span text, struct buf *out);

#endif
