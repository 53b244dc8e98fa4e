/*
 * Logging.  A line is put together on the stack, escaped, and leaves in one write(2), so that
 * lines of several threads and processes never mix.  A log that cannot be written is lost: there
 * is nobody left to tell.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"

#define LOG_TEXT_BYTES_MAX 2048		/* of one line's text before escaping; longer is cut with "..." */
#define LOG_LINE_BYTES_MAX 4096		/* of one whole line: PIPE_BUF, so that writes do not mix */

/* What log_init set; written by the main thread while no other thread logs or changes it. */
static struct {
	char program[32];
	enum log_level level;
	enum log_dest dest;
	bool journal;		/* stderr is a stream of the journal */
} state = { "triumvir", LOG_LVL_INFO, LOG_TO_STDERR, false };

/*
 * Who listens beside.  The main thread changes it while others may log: what it points to outlives them, and
 * `level` is the door.
 */
static struct {
	atomic_int level;	/* -1: nobody */
	void (*_Atomic fn)(void *ctx, enum log_level level, const char *tag, const char *text);
	void *_Atomic ctx;
} tap = { .level = -1 };

static const struct {
	const char *name;
	int priority;
} levels[] = {
	[LOG_LVL_ERR] = { "ERR", LOG_ERR },
	[LOG_LVL_WARN] = { "WARN", LOG_WARNING },
	[LOG_LVL_INFO] = { "INFO", LOG_INFO },
	[LOG_LVL_DEBUG] = { "DEBUG", LOG_DEBUG },
};

/*
 * systemd sets JOURNAL_STREAM to "device:inode" of the stream it connected.  The variable is
 * inherited by whatever is started from a unit, so stderr must really be that stream.
 */
static bool
stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	char mine[64];
	struct stat st;

	if (stream == NULL || fstat(STDERR_FILENO, &st) != 0)
		return false;
	snprintf(mine, sizeof(mine), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	return strcmp(stream, mine) == 0;
}

void
log_init(const char *program, enum log_level level, enum log_dest dest)
{
	snprintf(state.program, sizeof(state.program), "%s", program);
	if (state.dest == LOG_TO_SYSLOG && dest != LOG_TO_SYSLOG)
		closelog();
	state.level = level;
	state.dest = dest;
	state.journal = stderr_is_journal();
	if (dest == LOG_TO_SYSLOG)	/* at once: the sandbox may not let us connect later */
		openlog(state.program, LOG_PID | LOG_NDELAY, LOG_DAEMON);
}

bool
log_enabled(enum log_level level)
{
	return level <= state.level || (int)level <= atomic_load_explicit(&tap.level, memory_order_relaxed);
}

void
log_tap(enum log_level level, void (*fn)(void *ctx, enum log_level level, const char *tag, const char *text),
    void *ctx)
{
	atomic_store(&tap.level, -1);
	if (fn == NULL)
		return;
	atomic_store(&tap.ctx, ctx);
	atomic_store(&tap.fn, fn);
	atomic_store(&tap.level, (int)level);
}

const char *
log_level_name(enum log_level level)
{
	return levels[level].name;
}

/*
 * Length of the printable UTF-8 character at p, or 0: control characters (C0, DEL, C1), overlong
 * forms, surrogates and characters that reorder or break a line on a terminal.
 */
static size_t
printable(const uint8_t *p, size_t left)
{
	uint32_t c = p[0];
	size_t n = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };

	if (n == 1)
		return c >= 0x20 && c != 0x7f;
	if (c < 0xc2 || c > 0xf4 || n > left)
		return 0;
	c &= 0x7fu >> n;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) || c < 0xa0)
		return 0;
	if (c == 0x2028 || c == 0x2029 || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069))
		return 0;
	return n;
}

/* One character of s at *at into out[4]; returns its length there and moves *at. */
static size_t
escape_one(struct span s, size_t *at, char out[5])
{
	size_t n = printable(s.p + *at, s.len - *at);

	if (n > 0) {
		memcpy(out, s.p + *at, n);
		*at += n;
		return n;
	}
	snprintf(out, 5, "\\x%02x", s.p[(*at)++]);
	return 4;
}

const char *
log_safe(struct span s, char *dst, size_t cap)
{
	size_t len = 0, at = 0, cut = 0;	/* cut: where "..." would still fit */
	char one[5];

	if (cap == 0)
		return "";
	while (at < s.len) {
		size_t n = escape_one(s, &at, one);

		if (len + n + 1 > cap) {
			len = cut;
			for (int i = 0; i < 3 && len + 1 < cap; i++)
				dst[len++] = '.';
			break;
		}
		memcpy(dst + len, one, n);
		len += n;
		if (len + 4 <= cap)
			cut = len;
	}
	dst[len] = '\0';
	return dst;
}

const char *
log_time(int64_t wall_ms, char dst[LOG_TIME_BYTES])
{
	time_t sec = (time_t)(wall_ms / 1000);
	struct tm tm;
	size_t n;

	gmtime_r(&sec, &tm);
	n = strftime(dst, LOG_TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(dst + n, LOG_TIME_BYTES - n, ".%03dZ", (int)(wall_ms % 1000));
	return dst;
}

static void
emit(const struct log_sink *s, enum log_level level, const char *tag, const char *text)
{
	char line[LOG_LINE_BYTES_MAX], stamp[LOG_TIME_BYTES];
	size_t len = 0;
	int n;

	if (s->dest == LOG_TO_SYSLOG) {
		syslog(levels[level].priority, "[%s] %s: %s", levels[level].name, tag, text);
		return;
	}
	if (s->journal)
		len = (size_t)snprintf(line, sizeof(line), "<%d>", levels[level].priority);
	else
		len = (size_t)snprintf(line, sizeof(line), "%s ", log_time(clock_wall_ns() / 1000000, stamp));
	n = snprintf(line + len, sizeof(line) - len, "[%s] %s: %s", levels[level].name, tag, text);
	len += (size_t)n;
	if (len > sizeof(line) - 1)
		len = sizeof(line) - 1;
	line[len++] = '\n';
	while (write(STDERR_FILENO, line, len) < 0 && errno == EINTR)
		;
}

struct log_sink
log_sink(void)
{
	return (struct log_sink){ state.dest, state.journal };
}

void
log_sink_write(const struct log_sink *s, const char *tag, const char *text)
{
	emit(s, LOG_LVL_INFO, tag, text);
}

static void __attribute__((format(printf, 3, 0)))
log_v(enum log_level level, const char *tag, const char *fmt, va_list ap)
{
	char text[LOG_TEXT_BYTES_MAX], safe[LOG_LINE_BYTES_MAX - 128];
	int saved = errno, n;
	size_t len;

	if (!log_enabled(level))
		return;
	errno = saved;		/* for %m */
	n = vsnprintf(text, sizeof(text), fmt, ap);
	len = n < 0 ? 0 : (size_t)n;
	if (len >= sizeof(text)) {
		len = sizeof(text) - 1;
		memcpy(text + len - 3, "...", 3);
	}
	log_safe(span_of(text, len), safe, sizeof(safe));
	if (level <= state.level)
		emit(&(struct log_sink){ state.dest, state.journal }, level, tag, safe);
	if ((int)level <= atomic_load(&tap.level))
		tap.fn(tap.ctx, level, tag, safe);
	errno = saved;
}

void
log_err(const char *tag, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_v(LOG_LVL_ERR, tag, fmt, ap);
	va_end(ap);
}

void
log_warn(const char *tag, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_v(LOG_LVL_WARN, tag, fmt, ap);
	va_end(ap);
}

void
log_info(const char *tag, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_v(LOG_LVL_INFO, tag, fmt, ap);
	va_end(ap);
}

void
log_debug(const char *tag, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_v(LOG_LVL_DEBUG, tag, fmt, ap);
	va_end(ap);
}

bool
log_allow(struct log_limit *l, const char *tag)
{
	unsigned burst = l->burst > 0 ? l->burst : 10;
	struct mono period = l->period.ns > 0 ? l->period : MONO_S(10), now = clock_mono();

	if (l->used > 0 && mono_before(mono_sub(now, l->since), period)) {
		if (l->used >= burst) {
			l->dropped++;
			return false;
		}
		l->used++;
		return true;
	}
	if (l->dropped > 0)
		log_warn(tag, "%u similar messages were not shown", l->dropped);
	l->since = now;
	l->used = 1;
	l->dropped = 0;
	return true;
}
