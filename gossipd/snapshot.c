/* Memory of a pool across restarts: the file; see snapshot.h, and snapshot_read.c for its text. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "gossipd/net.h"
#include "gossipd/snapshot.h"

#define FILE_BYTES_MAX (256u << 20)	/* a larger file is not ours */
#define PENDING_BYTES_MAX (16u << 20)
#define COMPACT_BYTES_MIN (128u << 10)
#define FOUND_BYTES_MAX (256u << 20)

struct snapshot {
	char *path;
	int fd;
	size_t size;			/* of the file, up to its last whole line */
	size_t fresh_size;		/* when it was last written afresh; 0: not by us */
	struct buf pending;
	struct swim_clocks clocks;	/* to be written, or written */
	bool clocks_new;
	bool left;
	bool stale;			/* lines got lost: only a fresh file is whole again */
	uint64_t errors;
	struct log_limit limit;
};

/* What a crash cut off in the middle goes, so that the next line does not continue it. */
static void
cut_tail(struct snapshot *s, size_t whole)
{
	if (whole == s->size)
		return;
	s->size = whole;
	s->stale = ftruncate(s->fd, (off_t)whole) != 0;
}

struct snapshot *
snapshot_open(const char *path, struct span self, size_t members_max, struct snapshot_found *found)
{
	struct snapshot *s = calloc(1, sizeof(*s));
	struct stat st;
	struct buf text = BUF_INIT(FILE_BYTES_MAX);
	int opened;

	*found = (struct snapshot_found){ .arena = ARENA_INIT(FOUND_BYTES_MAX) };
	if (s == NULL)
		return NULL;
	s->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	opened = errno;
	s->path = strdup(path);
	s->pending = BUF_INIT(PENDING_BYTES_MAX);
	s->limit = (struct log_limit){ .burst = 1, .period = MONO_S(60) };
	errno = s->fd < 0 ? opened : s->path == NULL ? ENOMEM : EFBIG;	/* or what fstat says */
	if (s->fd < 0 || s->path == NULL || fstat(s->fd, &st) != 0 || st.st_size > FILE_BYTES_MAX) {
		int why = errno;

		snapshot_close(s, NULL);
		errno = why;
		return NULL;
	}
	s->size = (size_t)st.st_size;
	if (file_read_fd(s->fd, &text) == TV_OK)
		cut_tail(s, snapshot_read(buf_span(&text), path, self, members_max, found));
	else
		s->stale = true;	/* no memory, or a bad disk: what it holds is told by others again */
	s->clocks = found->clocks;
	buf_done(&text);
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
put_clocks(struct buf *b, const struct swim_clocks *c)
{
	buf_printf(b, "clock: %llu\nevent-clock: %llu\nquery-clock: %llu\nincarnation: %u\n",
	    (unsigned long long)c->clock, (unsigned long long)c->event_clock, (unsigned long long)c->query_clock,
	    c->incarnation);
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

/* Only the last ones before a flush are written. */
void
snapshot_clocks(struct snapshot *s, const struct swim_clocks *c)
{
	if (s->left || (c->clock <= s->clocks.clock && c->event_clock <= s->clocks.event_clock &&
	    c->query_clock <= s->clocks.query_clock && c->incarnation == s->clocks.incarnation))
		return;
	s->clocks = *c;
	s->clocks_new = true;
}

void
snapshot_leave(struct snapshot *s)
{
	if (s->clocks_new)
		put_clocks(&s->pending, &s->clocks);
	s->clocks_new = false;
	buf_puts(&s->pending, "leave\n");
	s->left = true;
}

bool
snapshot_dirty(const struct snapshot *s)
{
	return s->pending.len > 0 || s->clocks_new || s->stale;
}

uint64_t
snapshot_errors(const struct snapshot *s)
{
	return s->errors;
}

static void
complain(struct snapshot *s, const char *what)
{
	int saved = errno;

	s->errors++;
	if (log_allow(&s->limit, "serf"))
		log_warn("serf", "%s: %s: %s; gossip continues, but members may be lost at a restart", s->path, what,
		    strerror(saved));
}

/* Half of a file beyond this is history. */
static size_t
compact_above(const struct snapshot *s)
{
	return s->fresh_size * 2 > COMPACT_BYTES_MIN ? s->fresh_size * 2 : COMPACT_BYTES_MIN;
}

/* The file as it would be without history. */
static void
put_all(const struct snapshot *s, const struct swim *core, struct buf *b)
{
	struct mono now = clock_mono();
	int64_t wall = clock_wall_ns() / 1000000000;
	struct swim_member m;
	uint32_t cursor = 0;

	put_clocks(b, &s->clocks);
	if (s->left)
		buf_puts(b, "leave\n");
	while (!s->left && swim_member_next(core, &cursor, &m)) {
		bool is_gone = m.status == MEMBER_FAILED || m.status == MEMBER_LEFT;

		put_member(b, &m, wall - (is_gone ? mono_ms(mono_sub(now, m.gone_at)) / 1000 : 0));
	}
}

/* The old file stays until the new one is durable. */
static void
compact(struct snapshot *s, const struct swim *core)
{
	struct buf b = BUF_INIT(FILE_BYTES_MAX);
	enum tv_err err = TV_ENOMEM;
	int fd = -1;

	put_all(s, core, &b);
	errno = ENOMEM;
	if (!b.failed)
		err = file_replace_open(s->path, buf_span(&b), &fd);
	if (err != TV_OK)
		complain(s, "rewriting it");
	else if (s->stale)
		log_info("serf", "%s: rewritten, and complete again", s->path);
	if (fd >= 0) {
		close(s->fd);
		s->fd = fd;
		s->size = s->fresh_size = b.len;
		s->stale = err != TV_OK;
	}
	buf_done(&b);
}

/* A part of the lines may have got out: that part goes, for the next line would continue it. */
static void
append(struct snapshot *s)
{
	if (s->pending.failed) {
		errno = ENOMEM;
	} else if (write_all(s->fd, s->pending.data, s->pending.len)) {
		s->size += s->pending.len;
		return;
	}
	complain(s, "writing");
	(void)!ftruncate(s->fd, (off_t)s->size);
	s->stale = true;
}

bool
snapshot_flush(struct snapshot *s, const struct swim *core)
{
	if (s->clocks_new && !s->left)
		put_clocks(&s->pending, &s->clocks);
	s->clocks_new = false;
	if (!s->stale && (s->pending.len > 0 || s->pending.failed))
		append(s);
	buf_reset(&s->pending);
	if ((core != NULL || s->left) && (s->stale || s->size > compact_above(s)))
		compact(s, core);
	return !s->stale;
}

void
snapshot_close(struct snapshot *s, const struct swim *core)
{
	if (s == NULL)
		return;
	if (s->fd >= 0) {
		(void)snapshot_flush(s, core);
		close(s->fd);
	}
	free(s->path);
	buf_done(&s->pending);
	free(s);
}
