/*
 * Domain names as they are on the wire: labels with their lengths, ended by the empty one.  Pure.
 */
#ifndef TV_RPCD_DNS_DNAME_H
#define TV_RPCD_DNS_DNAME_H

#include "common/base/buf.h"
#include "common/base/rd.h"

#define DNAME_BYTES_MAX 255	/* with lengths and the final zero */
#define DNAME_TEXT_MAX 1024	/* all of it escaped, with a NUL */

struct dname {
	uint8_t len;		/* 0: none; the root has 1 */
	uint8_t wire[DNAME_BYTES_MAX];
};

/*
 * The name at *at of a message; *at is moved behind it.  Pointers lead backwards only, so it ends.  TV_EFORMAT: cut
 * short, a label of another kind, a pointer elsewhere, longer than a name may be.
 */
enum tv_err dname_read(struct span msg, size_t *at, struct dname *out);
/*
 * Labels divided by dots, with or without a final one; "." is the root.  An escape is not looked for: a backslash is a
 * byte as others.  TV_EINVAL: an empty label, one over 63 bytes, or too long.
 */
enum tv_err dname_of_text(struct span text, struct dname *out);
/* The same, of what several texts make when dots are put between them; empty ones are left out. */
enum tv_err dname_of_parts(const struct span *parts, unsigned count, struct dname *out);
/* ASCII letters in lower case. */
void dname_lower(struct dname *n);
static inline struct span
dname_span(const struct dname *n)
{
	return (struct span){ n->wire, n->len };
}
bool dname_eq(const struct dname *a, const struct dname *b);	/* bytes; lower both for names */
/* Is it the zone, or below?  Both lowered.  *labels: the bytes before the zone. */
bool dname_within(const struct dname *n, const struct dname *zone, size_t *labels);
/*
 * One label as Consul compares it: what is special in text, a dot above all, has a backslash before it, what is not
 * printable is \DDD.  Appended with a NUL behind; false: no room.
 */
bool dname_label_text(const uint8_t *label, size_t len, char *dst, size_t cap, size_t *used);

#endif
