/*
 * Where log lines leave the process: stderr (a pipe, terminal, file or a stream of the journal), or the datagram socket
 * of syslog.  Nothing here waits for a reader: what a pipe, terminal or socket does not take is kept in a bounded
 * backlog, and what does not fit there is refused.  A file is written as files are.  Used by log.c alone, which locks.
 */
#ifndef TV_COMMON_BASE_LOG_OUT_H
#define TV_COMMON_BASE_LOG_OUT_H

#include <stdbool.h>
#include <stddef.h>

#define LOG_BACKLOG_BYTES (128u << 10)
#define LOG_LINE_BYTES_MAX 4096		/* PIPE_BUF: a pipe takes all of a line or nothing, so writers do not mix */

enum log_out_to { LOG_OUT_STDERR, LOG_OUT_SYSLOG };

/*
 * Lines go there from now on; how many of the backlog were given up for it.  Before the sandbox: a pipe or terminal at
 * stderr is opened once more, since O_NONBLOCK of the description that was inherited would hold for its other users,
 * a shell among them.  Processes that are started later inherit the new one.
 */
size_t log_out_init(enum log_out_to to);
/* One line, its '\n' included, of at most LOG_LINE_BYTES_MAX.  false: it is lost. */
bool log_out_put(const char *line, size_t len);
/* Writes what can be written of the backlog; how many lines were lost because the destination is broken. */
size_t log_out_flush(void);
/* Bytes in the backlog. */
size_t log_out_waiting(void);
/* To wait for POLLOUT on while something is in the backlog; -1: only time helps (no syslog daemon listens). */
int log_out_fd(void);

#endif
