/*
 * Logging: "[INFO] raft: text" lines on stderr (with <N> journal priorities when
 * JOURNAL_STREAM is set, with a time stamp otherwise) or syslog.  The tag is the first
 * argument.  Control characters in arguments are escaped, so no peer can forge a line.
 * Cores never log: they emit notices, shells print them.
 */
#ifndef TV_COMMON_BASE_LOG_H
#define TV_COMMON_BASE_LOG_H

#include <stdbool.h>

#include "common/base/mono.h"
#include "common/base/rd.h"

enum log_level { LOG_LVL_ERR, LOG_LVL_WARN, LOG_LVL_INFO, LOG_LVL_DEBUG };
enum log_dest { LOG_TO_STDERR, LOG_TO_SYSLOG };

/*
 * program names the process in syslog.  May be called again (reload).  The first time: before the sandbox, and what
 * waits at the end of the process is written then, for at most LOG_FAREWELL_MS.
 */
#define LOG_FAREWELL_MS 200
void log_init(const char *program, enum log_level level, enum log_dest dest);
bool log_enabled(enum log_level level);
void log_err(const char *tag, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void log_warn(const char *tag, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void log_info(const char *tag, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void log_debug(const char *tag, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * Also gives each line up to `level` to fn, in the thread that logs it and whatever the level of the log is.  One at a
 * time; fn must not log.  fn NULL: no function does.
 */
void log_tap(enum log_level level, void (*fn)(void *ctx, enum log_level level, const char *tag, const char *text),
    void *ctx);
/*
 * Puts a line into the log whatever its level is, and past log_tap(): at level INFO.  text is printable.  Any thread.
 * false: the log's reader is behind; the line was not taken, and is not counted as lost.
 */
bool log_put(const char *tag, const char *text);
/*
 * A reader that does not read stops no process: lines wait in a backlog (log_out.h), then they are lost, and a line
 * says how many as soon as there is room.  log_flush() writes what has waited; the loop calls it while log_waiting_fd()
 * can be written to (common/proc/log_drain.h).  log_waiting_fd(): -1 while no line waits, or where only time helps.
 * log_lost(): lines since the start.
 */
void log_flush(void);
int log_waiting_fd(void);
uint64_t log_lost(void);
/* "ERR", "WARN", "INFO", "DEBUG". */
const char *log_level_name(enum log_level level);
/* "2026-11-21T03:09:24.123Z", UTC. */
#define LOG_TIME_BYTES 32
const char *log_time(int64_t wall_ms, char dst[LOG_TIME_BYTES]);

/* At most `burst` lines per `period`; what was dropped is counted and told with the next line. */
struct log_limit {
	unsigned burst;
	struct mono period;
	struct mono since;
	unsigned used, dropped;
};
bool log_allow(struct log_limit *l, const char *tag);

/* Bytes from a peer for a "%.*s"-free log line: printable ASCII and valid UTF-8 kept, the rest as \xNN.
 * Into dst[cap], cut with "..."; returns dst. */
const char *log_safe(struct span s, char *dst, size_t cap);

#endif
