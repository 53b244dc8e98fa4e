/* Memory of a pool across restarts; see snapshot.h. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "gossipd/net.h"
#include "gossipd/snapshot.h"

#define FILE_BYTES_MAX (256u << 20)	/* a larger file is not ours */
#define PENDING_BYTES_MAX (16u << 20)
#define COMPACT_BYTES_MIN (128u << 10)
#define COMPACT_BYTES_PER_MEMBER 1024
#define FOUND_BYTES_MAX (256u << 20)
#define SINCE_MAX 253402300799u		/* the end of the year 9999 */

struct snapshot {
	char *path, *fresh_path;
	int fd;
	size_t size;			/* of the file */
	struct buf pending;
	uint64_t clock, event_clock, query_clock;	/* as written */
	bool left;
	struct log_limit limit;
};

/* -- reading ------------------------------------------------------------------- */

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
	unsigned bad;
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

	if (r->count == r->cap) {
		size_t cap = r->cap == 0 ? 64 : r->cap * 2;
		struct known *more = realloc(r->known, cap * sizeof(*more));

		if (more == NULL)
			return NULL;
		r->known = more;
		r->cap = cap;
	}
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

static bool
read_addr(struct span word, struct gaddr *addr)
{
	char text[NET_TEXT_BYTES], *colon, *end, *ip = text;
	unsigned long port;

	if (!span_copy(word, text, sizeof(text)) || (colon = strrchr(text, ':')) == NULL)
		return false;
	*colon = '\0';
	port = strtoul(colon + 1, &end, 10);
	if (ip[0] == '[' && colon > text && colon[-1] == ']') {
		ip++;
		colon[-1] = '\0';
	}
	return *end == '\0' && port > 0 && port <= UINT16_MAX && net_parse(ip, (uint16_t)port, addr);
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
	    !read_addr(take_word(&line), &m.restore.addr) || line.len == 0 || (k = remember(r, line)) == NULL)
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

static void
replay_line(struct replay *r, struct span line)
{
	struct snapshot_found *f = r->found;

	if (take_prefix(&line, "member: ")) {
		r->bad += !read_member(r, line);
	} else if (take_prefix(&line, "gone: ")) {
		r->bad += !read_gone(r, line);
	} else if (take_prefix(&line, "clock: ")) {
		r->bad += !read_number(line, &f->clock);
	} else if (take_prefix(&line, "event-clock: ")) {
		r->bad += !read_number(line, &f->event_clock);
	} else if (take_prefix(&line, "query-clock: ")) {
		r->bad += !read_number(line, &f->query_clock);
	} else if (span_eqs(line, "leave")) {
		r->count = 0;
		f->clock = f->event_clock = f->query_clock = 0;
	} else if (line.len > 0 && line.p[0] != '#') {
		r->bad++;
	}
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

static void
replay(struct span text, struct span self, size_t members_max, struct snapshot_found *found, const char *path)
{
	struct replay r = { .found = found };

	while (text.len > 0) {
		const uint8_t *end = memchr(text.p, '\n', text.len);

		if (end == NULL)
			break;		/* cut in the middle of a line */
		replay_line(&r, span_of(text.p, (size_t)(end - text.p)));
		text = span_of(end + 1, text.len - (size_t)(end + 1 - text.p));
	}
	collect(&r, self, members_max);
	free(r.known);
	if (r.bad > 0)
		log_warn("serf", "%s: %u lines do not read and were skipped", path, r.bad);
}

/* The whole file, or SPAN_NONE; free() its p. */
static struct span
read_file(int fd, size_t size)
{
	uint8_t *bytes = malloc(size + 1);
	size_t at = 0;

	while (bytes != NULL && at < size) {
		ssize_t n = pread(fd, bytes + at, size - at, (off_t)at);

		if (n <= 0)
			break;
		at += (size_t)n;
	}
	return span_of(bytes, bytes != NULL ? at : 0);
}

struct snapshot *
snapshot_open(const char *path, struct span self, size_t members_max, struct snapshot_found *found)
{
	struct snapshot *s = calloc(1, sizeof(*s));
	struct stat st;
	struct span text;

	*found = (struct snapshot_found){ .arena = ARENA_INIT(FOUND_BYTES_MAX) };
	if (s == NULL)
		return NULL;
	s->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	s->path = strdup(path);
	s->pending = BUF_INIT(PENDING_BYTES_MAX);
	s->limit = (struct log_limit){ .burst = 1, .period = MONO_S(60) };
	if (s->path == NULL || asprintf(&s->fresh_path, "%s.compact", path) < 0)
		s->fresh_path = NULL;
	if (s->fd < 0 || s->fresh_path == NULL || fstat(s->fd, &st) != 0 || st.st_size > FILE_BYTES_MAX) {
		snapshot_close(s, NULL);
		return NULL;
	}
	s->size = (size_t)st.st_size;
	text = read_file(s->fd, s->size);
	replay(text, self, members_max, found, path);
	if (text.len > 0 && text.p[text.len - 1] != '\n')
		buf_u8(&s->pending, '\n');	/* what was cut stays a line of its own */
	free((void *)text.p);
	return s;
}

void
snapshot_found_done(struct snapshot_found *found)
{
	arena_done(&found->arena);
	*found = (struct snapshot_found){ 0 };
}

/* -- writing --------------------------------------------------------------------- */

static void
put_hex(struct buf *b, struct span bytes)
{
	if (bytes.len == 0)
		buf_u8(b, '-');
	for (size_t i = 0; i < bytes.len; i++)
		buf_printf(b, "%02x", bytes.p[i]);
}

static void
put_member(struct buf *b, const struct swim_member *m, int64_t since)
{
	char text[NET_TEXT_BYTES];

	buf_printf(b, "member: %s %lld %llu ", member_status_name(m->status), (long long)since,
	    (unsigned long long)m->status_ltime);
	put_hex(b, span_of(m->vsn, WIRE_VSN_BYTES));
	buf_u8(b, ' ');
	put_hex(b, m->meta);
	buf_printf(b, " %s ", net_text(&m->addr, text));
	buf_putspan(b, m->name);
	buf_u8(b, '\n');
}

static void
put_clocks(struct buf *b, const struct snapshot *s)
{
	buf_printf(b, "clock: %llu\nevent-clock: %llu\nquery-clock: %llu\n", (unsigned long long)s->clock,
	    (unsigned long long)s->event_clock, (unsigned long long)s->query_clock);
}

void
snapshot_member(struct snapshot *s, const struct swim_member *m, int64_t since)
{
	if (!s->left)
		put_member(&s->pending, m, since);
}

void
snapshot_gone(struct snapshot *s, struct span name)
{
	if (s->left)
		return;
	buf_puts(&s->pending, "gone: ");
	buf_putspan(&s->pending, name);
	buf_u8(&s->pending, '\n');
}

void
snapshot_clocks(struct snapshot *s, uint64_t clock, uint64_t event_clock, uint64_t query_clock)
{
	if (clock <= s->clock && event_clock <= s->event_clock && query_clock <= s->query_clock)
		return;
	s->clock = clock;
	s->event_clock = event_clock;
	s->query_clock = query_clock;
	put_clocks(&s->pending, s);
}

void
snapshot_leave(struct snapshot *s)
{
	buf_puts(&s->pending, "leave\n");
	s->left = true;
}

bool
snapshot_dirty(const struct snapshot *s)
{
	return s->pending.len > 0;
}

static void
complain(struct snapshot *s, const char *what)
{
	if (log_allow(&s->limit, "serf"))
		log_warn("serf", "%s: %s: %s; members may be forgotten by a restart", s->path, what, strerror(errno));
}

static bool
write_all(int fd, struct span text)
{
	while (text.len > 0) {
		ssize_t n = write(fd, text.p, text.len);

		if (n <= 0)
			return false;
		text = span_of(text.p + n, text.len - (size_t)n);
	}
	return true;
}

static size_t
compact_above(const struct swim *core)
{
	struct swim_stats stats;

	swim_stats(core, &stats);
	return stats.members * (size_t)COMPACT_BYTES_PER_MEMBER > COMPACT_BYTES_MIN ?
	    stats.members * (size_t)COMPACT_BYTES_PER_MEMBER : COMPACT_BYTES_MIN;
}

/* The file as it would be without history; the old one stays until the new one is durable. */
static void
compact(struct snapshot *s, const struct swim *core)
{
	struct buf b = BUF_INIT(FILE_BYTES_MAX);
	struct swim_member m;
	struct mono now = clock_mono();
	int64_t wall = clock_wall_ns() / 1000000000;
	uint32_t cursor = 0;
	int fd;

	while (swim_member_next(core, &cursor, &m)) {
		bool is_gone = m.status == MEMBER_FAILED || m.status == MEMBER_LEFT;

		put_member(&b, &m, wall - (is_gone ? mono_ms(mono_sub(now, m.gone_at)) / 1000 : 0));
	}
	put_clocks(&b, s);
	fd = open(s->fresh_path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0 && !b.failed && write_all(fd, buf_span(&b)) && fdatasync(fd) == 0 &&
	    rename(s->fresh_path, s->path) == 0) {
		close(s->fd);
		s->fd = fd;
		s->size = b.len;
	} else {
		complain(s, "writing it afresh");
		if (fd >= 0)
			close(fd);
	}
	buf_done(&b);
}

void
snapshot_flush(struct snapshot *s, const struct swim *core)
{
	if (s->pending.len > 0 && write_all(s->fd, buf_span(&s->pending)))
		s->size += s->pending.len;
	else if (s->pending.len > 0)
		complain(s, "writing");
	buf_reset(&s->pending);
	if (!s->left && core != NULL && s->size > compact_above(core))
		compact(s, core);
}

void
snapshot_close(struct snapshot *s, const struct swim *core)
{
	if (s == NULL)
		return;
	if (s->fd >= 0) {
		snapshot_flush(s, core);
		close(s->fd);
	}
	free(s->path);
	free(s->fresh_path);
	buf_done(&s->pending);
	free(s);
}
