/* A snapshot's text, line by line; see snapshot.h. */
#include "config.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/log.h"
#include "gossipd/snapshot.h"

#define SINCE_MAX 253402300799u		/* the end of the year 9999 */
#define BAD_LINES_NAMED 5		/* the others are counted */

/* The last word on a name counts: places tell the order of the file. */
struct known {
	struct snapshot_member m;
	size_t at;
	bool gone;
};

struct replay {
	struct known *known;
	size_t count, cap;
	struct snapshot_found *found;
	const char *path;		/* for the log */
	unsigned line, bad;
};

/* By name, then as in the file. */
static int
known_order(const void *a, const void *b)
{
	const struct known *x = a, *y = b;
	int order = span_cmp(x->m.restore.name, y->m.restore.name);

	return order != 0 ? order : x->at < y->at ? -1 : x->at > y->at;
}

/* A fresh record, or NULL: then fewer are remembered. */
static struct known *
remember(struct replay *r, struct span name)
{
	struct known *k;

	if (!array_reserve(&r->known, &r->cap, r->count + 1, sizeof(*r->known)))
		return NULL;
	name = arena_copy(&r->found->arena, name);
	if (name.p == NULL)
		return NULL;
	k = &r->known[r->count];
	*k = (struct known){ .m = { .restore = { .name = name } }, .at = r->count };
	r->count++;
	return k;
}

static bool
take_prefix(struct span *line, const char *prefix)
{
	size_t n = strlen(prefix);

	if (line->len < n || memcmp(line->p, prefix, n) != 0)
		return false;
	line->p += n;
	line->len -= n;
	return true;
}

static bool
read_number(struct span text, uint64_t *out)
{
	char copy[24], *end;
	uint64_t n;

	if (!span_copy(text, copy, sizeof(copy)) || copy[0] < '0' || copy[0] > '9')
		return false;
	errno = 0;
	n = strtoull(copy, &end, 10);
	if (errno != 0 || *end != '\0')
		return false;
	*out = n;
	return true;
}

/* The text up to the next blank, which is taken too. */
static struct span
take_word(struct span *line)
{
	size_t n = 0;
	struct span word;

	while (n < line->len && line->p[n] != ' ')
		n++;
	word = span_of(line->p, n);
	n += n < line->len;
	*line = span_of(line->p + n, line->len - n);
	return word;
}

/* "-" is nothing. */
static bool
read_hex(struct span word, uint8_t *dst, size_t cap, size_t *len)
{
	*len = 0;
	if (span_eqs(word, "-"))
		return true;
	return word.len % 2 == 0 && word.len / 2 <= cap &&
	    sodium_hex2bin(dst, cap, (const char *)word.p, word.len, NULL, len, NULL) == 0 && *len == word.len / 2;
}

static bool
read_status(struct span word, struct snapshot_member *m)
{
	m->was_alive = span_eqs(word, "alive");
	m->restore.status = span_eqs(word, "left") ? MEMBER_LEFT : MEMBER_FAILED;
	return m->was_alive || span_eqs(word, "left") || span_eqs(word, "failed") || span_eqs(word, "leaving");
}

static bool
read_member(struct replay *r, struct span line)
{
	struct snapshot_member m = { .was_alive = false };
	uint8_t meta[NODE_META_BYTES_MAX];
	size_t meta_len, vsn_len;
	uint64_t since;
	struct known *k;

	if (!read_status(take_word(&line), &m) || !read_number(take_word(&line), &since) || since > SINCE_MAX ||
	    !read_number(take_word(&line), &m.restore.status_ltime) ||
	    !read_hex(take_word(&line), m.restore.vsn, sizeof(m.restore.vsn), &vsn_len) ||
	    !read_hex(take_word(&line), meta, sizeof(meta), &meta_len) ||
	    !addr_parse_text(take_word(&line), &m.restore.addr) || line.len == 0 || (k = remember(r, line)) == NULL)
		return false;
	m.restore.name = k->m.restore.name;
	m.restore.meta = arena_copy(&r->found->arena, span_of(meta, meta_len));
	m.since = (int64_t)since;
	k->m = m;
	return m.restore.meta.p != NULL;
}

static bool
read_gone(struct replay *r, struct span name)
{
	struct known *k = remember(r, name);

	if (k != NULL)
		k->gone = true;
	return k != NULL;
}

/* A number that only grows: where lines got lost, the highest that is left counts. */
static bool
read_highest(struct span text, uint64_t max, uint64_t *at)
{
	uint64_t n;

	if (!read_number(text, &n) || n > max)
		return false;
	if (n > *at)
		*at = n;
	return true;
}

static bool
read_incarnation(struct span text, struct snapshot_found *f)
{
	uint64_t n = f->clocks.incarnation;

	if (!read_highest(text, UINT32_MAX, &n))
		return false;
	f->clocks.incarnation = (uint32_t)n;
	return true;
}

/* A node that left remembers no members; only the incarnation must not start over. */
static void
forget_all(struct replay *r)
{
	r->count = 0;
	r->found->clocks = (struct swim_clocks){ .incarnation = r->found->clocks.incarnation };
}

/* False for a line that does not read. */
static bool
replay_line(struct replay *r, struct span line)
{
	struct snapshot_found *f = r->found;

	if (line.len == 0 || line.p[0] == '#')
		return true;
	if (take_prefix(&line, "member: "))
		return read_member(r, line);
	if (take_prefix(&line, "gone: "))
		return read_gone(r, line);
	if (take_prefix(&line, "clock: "))
		return read_highest(line, UINT64_MAX - 1, &f->clocks.clock);
	if (take_prefix(&line, "event-clock: "))
		return read_highest(line, UINT64_MAX - 1, &f->clocks.event_clock);
	if (take_prefix(&line, "query-clock: "))
		return read_highest(line, UINT64_MAX - 1, &f->clocks.query_clock);
	if (take_prefix(&line, "incarnation: "))
		return read_incarnation(line, f);
	if (!span_eqs(line, "leave"))
		return false;
	forget_all(r);
	return true;
}

static void
note_bad(struct replay *r, struct span line)
{
	char text[80];

	if (r->bad++ < BAD_LINES_NAMED)
		log_warn("serf", "%s:%u: malformed line skipped: %s", r->path, r->line,
		    log_safe(line, text, sizeof(text)));
}

/* The last word on each name, unless it is that the member is forgotten. */
static void
collect(struct replay *r, struct span self, size_t members_max)
{
	struct snapshot_found *f = r->found;

	if (r->count == 0 || (f->members = arena_array(&f->arena, r->count, sizeof(*f->members))) == NULL)
		return;
	qsort(r->known, r->count, sizeof(*r->known), known_order);
	for (size_t i = 0; i < r->count && f->count < members_max; i++) {
		const struct known *k = &r->known[i];
		bool last = i + 1 == r->count || !span_eq(k->m.restore.name, k[1].m.restore.name);

		if (last && !k->gone && !span_eq(k->m.restore.name, self))
			f->members[f->count++] = k->m;
	}
}

size_t
snapshot_read(struct span text, const char *path, struct span self, size_t members_max, struct snapshot_found *found)
{
	struct replay r = { .found = found, .path = path };
	const uint8_t *start = text.p, *end;

	while (text.len > 0 && (end = memchr(text.p, '\n', text.len)) != NULL) {
		struct span line = span_of(text.p, (size_t)(end - text.p));

		r.line++;
		if (!replay_line(&r, line))
			note_bad(&r, line);
		text = span_of(end + 1, text.len - line.len - 1);
	}
	collect(&r, self, members_max);
	free(r.known);
	if (r.bad > BAD_LINES_NAMED)
		log_warn("serf", "%s: %u lines were skipped", path, r.bad);
	return start != NULL ? (size_t)(text.p - start) : 0;
}
