/* Log lines on their way out, see log_out.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log_out.h"

#define RECONNECT_AFTER MONO_S(1)

enum how {
	HOW_WRITE,		/* a file, or a description of our own with O_NONBLOCK */
	HOW_POLL,		/* a pipe or terminal that cannot be opened anew: another writer may fill it first */
	HOW_SEND,		/* a socket: MSG_DONTWAIT */
	HOW_DATAGRAM,		/* syslog's: a line is a message */
};

static struct {
	int fd;			/* -1: syslog's socket is not connected */
	enum how how;
	struct mono connect_next;
	size_t from, to;	/* of the backlog */
	char backlog[LOG_BACKLOG_BYTES];
} out = { .fd = STDERR_FILENO };

static enum how
own_description(void)
{
	int fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	enum how how = HOW_POLL;

	if (fd < 0)
		return how;
	if (dup2(fd, STDERR_FILENO) >= 0)
		how = HOW_WRITE;
	if (fd != STDERR_FILENO)
		close(fd);
	return how;
}

static enum how
stderr_how(void)
{
	struct stat st;
	int flags = fcntl(STDERR_FILENO, F_GETFL);

	if (flags < 0 || fstat(STDERR_FILENO, &st) != 0)
		return HOW_WRITE;
	if (S_ISSOCK(st.st_mode))
		return HOW_SEND;
	if ((flags & O_NONBLOCK) != 0 || !(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
		return HOW_WRITE;
	return own_description();
}

static int
syslog_connect(void)
{
	const struct sockaddr_un to = { .sun_family = AF_UNIX, .sun_path = _PATH_LOG };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof(to)) != 0) {
		close(fd);
		fd = -1;
	}
	out.connect_next = mono_add(clock_mono(), RECONNECT_AFTER);
	return fd;
}

static void
syslog_close(void)
{
	if (out.how == HOW_DATAGRAM && out.fd >= 0)
		close(out.fd);
	out.fd = -1;
}

static size_t
lines_in_backlog(void)
{
	size_t n = 0;

	for (size_t i = out.from; i < out.to; i++)
		n += out.backlog[i] == '\n';
	return n;
}

size_t
log_out_init(enum log_out_to to)
{
	bool stays = (to == LOG_OUT_SYSLOG) == (out.how == HOW_DATAGRAM);
	size_t lost = log_out_flush();

	if (!stays) {		/* lines of the backlog have the form of the old destination */
		lost += lines_in_backlog();
		out.from = out.to = 0;
		syslog_close();
	}
	if (to == LOG_OUT_STDERR) {
		out.how = stderr_how();
		out.fd = STDERR_FILENO;
	} else if (!stays || out.fd < 0) {
		out.how = HOW_DATAGRAM;
		out.fd = syslog_connect();
	}
	return lost;
}

/* Would another try later help? */
static bool
is_full(int error)
{
	return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS;
}

/* A syslog daemon that was started anew listens at another socket. */
static ssize_t
send_line(const char *line, size_t len)
{
	for (int tries = 0; tries < 2; tries++) {
		if (out.fd < 0 && !mono_before(clock_mono(), out.connect_next))
			out.fd = syslog_connect();
		if (out.fd < 0)
			break;
		/* The '\n' is ours. */
		if (send(out.fd, line, len - 1, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			return (ssize_t)len;
		if (is_full(errno))
			return 0;
		syslog_close();
	}
	return -1;
}

/* How much of these bytes was taken: 0, nothing now; -1, they cannot be written at all. */
static ssize_t
try_write(const char *p, size_t len)
{
	struct pollfd room = { .fd = out.fd, .events = POLLOUT };
	ssize_t n;

	if (out.how == HOW_DATAGRAM)
		return send_line(p, len);
	if (out.how == HOW_POLL && poll(&room, 1, 0) == 0)
		return 0;
	do {
		n = out.how == HOW_SEND ? send(out.fd, p, len, MSG_DONTWAIT | MSG_NOSIGNAL) : write(out.fd, p, len);
	} while (n < 0 && errno == EINTR);
	return n < 0 && is_full(errno) ? 0 : n;
}

static bool
keep_bytes(const char *p, size_t len)
{
	if (LOG_BACKLOG_BYTES - out.to < len && out.from > 0) {
		memmove(out.backlog, out.backlog + out.from, out.to - out.from);
		out.to -= out.from;
		out.from = 0;
	}
	if (LOG_BACKLOG_BYTES - out.to < len)
		return false;
	memcpy(out.backlog + out.to, p, len);
	out.to += len;
	return true;
}

bool
log_out_put(const char *line, size_t len)
{
	ssize_t n = 0;

	if (out.from == out.to)
		n = try_write(line, len);
	if (n < 0)
		return false;
	return (size_t)n == len || keep_bytes(line + n, len - (size_t)n);
}

size_t
log_out_flush(void)
{
	size_t lost = 0;

	while (out.from < out.to) {
		const char *line = out.backlog + out.from;
		size_t len = (size_t)((const char *)memchr(line, '\n', out.to - out.from) + 1 - line);
		ssize_t n = try_write(line, len);

		if (n == 0)
			break;
		lost += n < 0;
		out.from += n < 0 ? len : (size_t)n;
	}
	if (out.from == out.to)
		out.from = out.to = 0;
	return lost;
}

size_t
log_out_waiting(void)
{
	return out.to - out.from;
}

int
log_out_fd(void)
{
	return out.fd;
}
