/*
 * Logging.  A line is put together on the stack, escaped, and leaves in one write(2), so that
 * lines of several threads and processes never mix.  A line that the log's reader has no room for
 * is lost and counted.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
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
#include "common/base/log_out.h"

#define LOG_TEXT_BYTES_MAX 2048		/* of one line's text before escaping; longer is cut with "..." */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* What log_init set last; but for `level`, under the lock. */
static struct {
	char program[32];
	_Atomic enum log_level level;
	enum log_dest dest;
	bool journal;		/* stderr is a stream of the journal */
	bool farewell;		/* is registered */
	uint64_t lost;		/* lines since the start ... */
	uint64_t untold;	/* ... and those that no line of the log has told of yet */
} state = { "triumvir", LOG_LVL_INFO, LOG_TO_STDERR, .journal = false };

/*
 * Who listens beside.  The main thread changes it while others may log: what it points to outlives them, and
 * `level` is the door.
 */
static struct {
	atomic_int level;	/* -1: no tap */
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

/* At the end of the process. */
static void
say_farewell(void)
{
	struct mono end = mono_add(clock_mono(), MONO_MS(LOG_FAREWELL_MS));

	for (int fd; log_flush(), (fd = log_waiting_fd()) >= 0;) {
		struct mono left = mono_sub(end, clock_mono());

		if (left.ns <= 0 || poll(&(struct pollfd){ fd, POLLOUT, 0 }, 1, (int)(left.ns / 1000000) + 1) <= 0)
			return;
	}
}

void
log_init(const char *program, enum log_level level, enum log_dest dest)
{
	pthread_mutex_lock(&lock);
	snprintf(state.program, sizeof(state.program), "%s", program);
	state.level = level;
	state.dest = dest;
	if (dest == LOG_TO_SYSLOG)
		tzset();	/* the sandbox may hide its file */
	state.untold += log_out_init(dest == LOG_TO_SYSLOG ? LOG_OUT_SYSLOG : LOG_OUT_STDERR);
	state.journal = stderr_is_journal();
	if (!state.farewell)
		state.farewell = atexit(say_farewell) == 0;
	pthread_mutex_unlock(&lock);
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

/*
 * Without strftime(3), which costs more than the rest of many a line.  The date is counted from a 1 March: then the day
 * that some years have more is the last one.  Before 1970 there is nothing to tell.
 */
const char *
log_time(int64_t wall_ms, char dst[LOG_TIME_BYTES])
{
	uint64_t ms = wall_ms < 0 ? 0 : (uint64_t)wall_ms, days = ms / 86400000 + 719468;
	uint64_t of_era = days % 146097;
	uint64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	uint64_t of_year = of_era - (365 * year + year / 4 - year / 100), month = (5 * of_year + 2) / 153;
	bool next = month >= 10;
	struct { uint64_t v; unsigned digits; char end; } parts[] = {
		{ year + days / 146097 * 400 + next, 4, '-' }, { next ? month - 9 : month + 3, 2, '-' },
		{ of_year - (153 * month + 2) / 5 + 1, 2, 'T' }, { ms / 3600000 % 24, 2, ':' },
		{ ms / 60000 % 60, 2, ':' }, { ms / 1000 % 60, 2, '.' }, { ms % 1000, 3, 'Z' },
	};
	char *p = dst;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); p += parts[i].digits, *p++ = parts[i].end, i++)
		for (unsigned at = parts[i].digits; at > 0; at--, parts[i].v /= 10)
			p[at - 1] = (char)('0' + parts[i].v % 10);
	*p = '\0';
	return dst;
}

/* What stands before "[LEVEL]" of a line, by destination. */
static size_t
put_head(enum log_level level, char *line, size_t cap)
{
	char stamp[LOG_TIME_BYTES];
	time_t now = time(NULL);
	struct tm tm;

	if (state.dest == LOG_TO_SYSLOG) {	/* RFC 3164, as syslog(3) of the C library */
		localtime_r(&now, &tm);
		strftime(stamp, sizeof(stamp), "%b %e %H:%M:%S", &tm);
		return (size_t)snprintf(line, cap, "<%d>%s %s[%d]: ", LOG_DAEMON | levels[level].priority, stamp,
		    state.program, (int)getpid());
	}
	if (state.journal)
		return (size_t)snprintf(line, cap, "<%d>", levels[level].priority);
	return (size_t)snprintf(line, cap, "%s ", log_time(clock_wall_ns() / 1000000, stamp));
}

/* Locked.  false: there was no room. */
static bool
put_line(enum log_level level, const char *tag, const char *text)
{
	char line[LOG_LINE_BYTES_MAX];
	size_t len = put_head(level, line, sizeof(line));

	len += (size_t)snprintf(line + len, sizeof(line) - len, "[%s] %s: %s", levels[level].name, tag, text);
	if (len > sizeof(line) - 1)
		len = sizeof(line) - 1;
	line[len++] = '\n';
	return log_out_put(line, len);
}

/* Locked: in the place of the lines that are missing.  false: there is no room for it yet. */
static bool
tell_lost(void)
{
	char text[96];

	if (state.untold == 0)
		return true;
	snprintf(text, sizeof(text), "%" PRIu64 " lines of this log were lost: its reader did not read", state.untold);
	if (!put_line(LOG_LVL_WARN, "log", text))
		return false;
	state.lost += state.untold;
	state.untold = 0;
	return true;
}

static void
emit(enum log_level level, const char *tag, const char *text)
{
	pthread_mutex_lock(&lock);
	state.untold += log_out_flush();
	if (!tell_lost() || !put_line(level, tag, text))
		state.untold++;
	pthread_mutex_unlock(&lock);
}

bool
log_put(const char *tag, const char *text)
{
	bool taken;

	pthread_mutex_lock(&lock);
	state.untold += log_out_flush();
	taken = log_out_waiting() == 0 && tell_lost() && put_line(LOG_LVL_INFO, tag, text);
	pthread_mutex_unlock(&lock);
	return taken;
}

void
log_flush(void)
{
	pthread_mutex_lock(&lock);
	state.untold += log_out_flush();
	if (log_out_waiting() == 0)
		(void)tell_lost();	/* else later */
	pthread_mutex_unlock(&lock);
}

int
log_waiting_fd(void)
{
	int fd;

	pthread_mutex_lock(&lock);
	fd = log_out_waiting() > 0 ? log_out_fd() : -1;
	pthread_mutex_unlock(&lock);
	return fd;
}

uint64_t
log_lost(void)
{
	uint64_t n;

	pthread_mutex_lock(&lock);
	n = state.lost + state.untold;
	pthread_mutex_unlock(&lock);
	return n;
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
		emit(level, tag, safe);
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
