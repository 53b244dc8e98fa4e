/* Memory of a pool across restarts; see snapshot.h. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "gossipd/net.h"
#include "gossipd/snapshot.h"

#define FILE_BYTES_MAX (256u << 20)	/* a larger file is not ours */
#define PENDING_BYTES_MAX (16u << 20)
#define COMPACT_BYTES_MIN (128u << 10)
#define COMPACT_BYTES_PER_MEMBER 256

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

struct known {
	struct span name;
	struct gaddr addr;
	size_t at;			/* place in the file */
	bool alive;
};

struct replay {
	struct known *known;		/* names borrow the file's bytes */
	size_t count, cap, max;
	struct snapshot_found *found;
	unsigned bad;
};

/* By name, then as in the file. */
static int
known_order(const void *a, const void *b)
{
	const struct known *x = a, *y = b;
	int order = span_cmp(x->name, y->name);

	return order != 0 ? order : x->at < y->at ? -1 : x->at > y->at;
}

/* Appended in the order of the file; the last word on a name counts. */
static void
remember(struct replay *r, struct span name, const struct gaddr *addr)
{
	if (r->count == r->cap) {
		size_t cap = r->cap == 0 ? 64 : r->cap * 2;
		struct known *more = realloc(r->known, cap * sizeof(*more));

		if (more == NULL)
			return;		/* fewer are remembered */
		r->known = more;
		r->cap = cap;
	}
	r->known[r->count++] = (struct known){ .name = name, .at = r->count, .alive = addr != NULL };
	if (addr != NULL)
		r->known[r->count - 1].addr = *addr;
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

	if (!span_copy(text, copy, sizeof(copy)) || copy[0] < '0' || copy[0] > '9')
		return false;
	errno = 0;
	*out = strtoull(copy, &end, 10);
	return errno == 0 && *end == '\0';
}

/* "NAME IP:PORT": names may hold blanks, so the last one counts. */
static bool
read_alive(struct span line, struct span *name, struct gaddr *addr)
{
	char text[NET_TEXT_BYTES], *colon, *end, *ip = text;
	size_t at = line.len;
	unsigned long port;

	while (at > 0 && line.p[at - 1] != ' ')
		at--;
	if (at < 2 || !span_copy(span_of(line.p + at, line.len - at), text, sizeof(text)) ||
	    (colon = strrchr(text, ':')) == NULL)
		return false;
	*colon = '\0';
	port = strtoul(colon + 1, &end, 10);
	if (ip[0] == '[' && colon > text && colon[-1] == ']') {
		ip++;
		colon[-1] = '\0';
	}
	*name = span_of(line.p, at - 1);
	return *end == '\0' && port > 0 && port <= UINT16_MAX && net_parse(ip, (uint16_t)port, addr);
}

static void
replay_line(struct replay *r, struct span line)
{
	struct snapshot_found *f = r->found;
	struct span name;
	struct gaddr addr;

	if (take_prefix(&line, "alive: ")) {
		if (read_alive(line, &name, &addr))
			remember(r, name, &addr);
		else
			r->bad++;
	} else if (take_prefix(&line, "not-alive: ")) {
		remember(r, line, NULL);
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

/* The addresses of those whose last word was "alive". */
static void
collect(struct replay *r, struct span self)
{
	struct snapshot_found *f = r->found;

	if (r->count == 0 || (f->addrs = calloc(r->count, sizeof(*f->addrs))) == NULL)
		return;
	qsort(r->known, r->count, sizeof(*r->known), known_order);
	for (size_t i = 0; i < r->count && f->count < r->max; i++) {
		const struct known *k = &r->known[i];
		bool last = i + 1 == r->count || !span_eq(k->name, k[1].name);

		if (last && k->alive && !span_eq(k->name, self))
			f->addrs[f->count++] = k->addr;
	}
}

static void
replay(struct span text, struct span self, size_t members_max, struct snapshot_found *found, const char *path)
{
	struct replay r = { .found = found, .max = members_max };

	while (text.len > 0) {
		const uint8_t *end = memchr(text.p, '\n', text.len);

		if (end == NULL)
			break;		/* cut in the middle of a line */
		replay_line(&r, span_of(text.p, (size_t)(end - text.p)));
		text = span_of(end + 1, text.len - (size_t)(end + 1 - text.p));
	}
	collect(&r, self);
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

	*found = (struct snapshot_found){ 0 };
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
	free(found->addrs);
	*found = (struct snapshot_found){ 0 };
}

/* -- writing --------------------------------------------------------------------- */

static void
put_alive(struct buf *b, struct span name, const struct gaddr *addr)
{
	char text[NET_TEXT_BYTES];

	buf_puts(b, "alive: ");
	buf_putspan(b, name);
	buf_printf(b, " %s\n", net_text(addr, text));
}

static void
put_clocks(struct buf *b, const struct snapshot *s)
{
	buf_printf(b, "clock: %llu\nevent-clock: %llu\nquery-clock: %llu\n", (unsigned long long)s->clock,
	    (unsigned long long)s->event_clock, (unsigned long long)s->query_clock);
}

void
snapshot_alive(struct snapshot *s, struct span name, const struct gaddr *addr)
{
	if (!s->left)
		put_alive(&s->pending, name, addr);
}

void
snapshot_gone(struct snapshot *s, struct span name)
{
	if (s->left)
		return;
	buf_puts(&s->pending, "not-alive: ");
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
	return stats.alive * (size_t)COMPACT_BYTES_PER_MEMBER > COMPACT_BYTES_MIN ?
	    stats.alive * (size_t)COMPACT_BYTES_PER_MEMBER : COMPACT_BYTES_MIN;
}

/* The file as it would be without history; the old one stays until the new one is durable. */
static void
compact(struct snapshot *s, const struct swim *core)
{
	struct buf b = BUF_INIT(FILE_BYTES_MAX);
	struct swim_member m;
	uint32_t cursor = 0;
	int fd;

	while (swim_member_next(core, &cursor, &m))
		if (m.status == MEMBER_ALIVE)
			put_alive(&b, m.name, &m.addr);
	put_clocks(&b, s);
	fd = open(s->fresh_path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0 && !b.failed && write_all(fd, buf_span(&b)) && fdatasync(fd) == 0 && rename(s->fresh_path, s->path) == 0) {
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
