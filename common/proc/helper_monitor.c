/* See helper_monitor.h. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/net/frame.h"
#include "common/proc/helper_monitor.h"
#include "common/proc/privdrop.h"

#define SOCKETS_MAX 32
#define FILES_BESIDE 32			/* of the daemon, while it starts */
#define END_GRACE MONO_S(3)		/* for processes to end with the daemon */
#define ARGS_MAX (HELPER_FIRST_MAX + 6)

/* From the daemon; ORDER_SPAWN comes with a descriptor. */
enum order_what {
	ORDER_SPAWN,			/* value: the kind */
	ORDER_END,			/* value: grace, ms */
	ORDER_LOG,			/* value: the level */
};
struct order {
	uint32_t what, value;
	uint32_t number;		/* of the process, chosen by the daemon */
};

struct child {
	pid_t pid;			/* 0: the place is free */
	uint32_t number;
	struct mono until;
};

struct monitor {
	const struct helper_monitor_conf *conf;
	int fd, program, level;
	struct child children[HELPER_CHILDREN_MAX];
	int sockets[SOCKETS_MAX];
};

/* Above all that have a place of their own: what is moved there is not overwritten before its turn. */
static int
high_fd(const struct helper_monitor_conf *conf)
{
	return HELPER_FD + 2 + (int)conf->socket_count;
}

/* Why there is no descriptor: EINVAL of fcntl() is no number below the limit, EMFILE none that is free. */
static void
explain(const struct helper_monitor_conf *conf, int error, char *errbuf, size_t cap)
{
	struct rlimit files = { 0, 0 };

	(void)getrlimit(RLIMIT_NOFILE, &files);
	if (error == EINVAL || error == EMFILE)
		snprintf(errbuf, cap, "the limit of %llu open files is too low to start %s: at least %d are needed "
		    "(LimitNOFILE in the unit, or ulimit -Hn)", (unsigned long long)files.rlim_cur, conf->program,
		    2 * high_fd(conf) + FILES_BESIDE);
	else
		snprintf(errbuf, cap, "%s", strerror(error));
}

/* -- in the child of the monitor -- */

/* To the daemon, in the place of the program. */
static void
say_started(int channel)
{
	struct buf b = BUF_INIT(256);
	size_t at = frame_open(&b, MSG_HELPER_STARTED, 0, 0);

	schema_pack(&msg_helper_started_schema, &(struct msg_helper_started){ (uint64_t)getpid() }, &b);
	frame_close(&b, at);
	if (!b.failed)
		(void)send(channel, b.data, b.len, MSG_NOSIGNAL);
	buf_done(&b);
}

/* TITLE FIRST... LEVEL DESTINATION required|best-effort [LAST], and whatever was open is closed by its own flag. */
static _Noreturn void
become(const struct monitor *m, unsigned kind, int fd)
{
	const struct helper_monitor_conf *conf = m->conf;
	const char *args[ARGS_MAX];
	char level[12], dest[12];
	unsigned n = 0;
	sigset_t none;

	snprintf(level, sizeof(level), "%d", m->level);
	snprintf(dest, sizeof(dest), "%d", conf->log_dest);
	args[n++] = conf->title;
	for (unsigned i = 0; i < HELPER_FIRST_MAX && conf->kinds[kind].first[i] != NULL; i++)
		args[n++] = conf->kinds[kind].first[i];
	args[n++] = level;
	args[n++] = dest;
	args[n++] = conf->best_effort ? "best-effort" : "required";
	args[n++] = conf->last;			/* which may be the end */
	args[n] = NULL;
	for (int s = 1; s < NSIG; s++)
		(void)signal(s, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	say_started(fd);
	int program = fcntl(m->program, F_DUPFD_CLOEXEC, high_fd(conf));
	int channel = fcntl(fd, F_DUPFD_CLOEXEC, high_fd(conf));
	bool ok = program >= 0 && dup2(channel, HELPER_FD) == HELPER_FD;
	/* They are above their new places, in order: none is overwritten before its turn. */
	for (int i = 0; i < (int)conf->socket_count && ok; i++)
		ok = dup2(m->sockets[i], HELPER_FD + 1 + i) >= 0;
	if (ok)
		fexecve(program, (char *const *)args, environ);
	log_err(conf->tag, "cannot start %s: %s", conf->program, strerror(errno));
	_exit(1);
}

/* -- the monitor -- */

static void
on_child(int signum UNUSED)
{
}

static struct child *
find_child(struct monitor *m, pid_t pid)
{
	for (unsigned i = 0; i < HELPER_CHILDREN_MAX; i++)
		if (m->children[i].pid == pid)
			return &m->children[i];
	return NULL;
}

static void
reap(struct monitor *m)
{
	int status;

	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
		struct child *c = find_child(m, pid);

		if (c != NULL)
			c->pid = 0;
		if (WIFSIGNALED(status))
			log_warn(m->conf->tag, "%s (process %d) was killed by signal %d", m->conf->program, (int)pid,
			    WTERMSIG(status));
		else if (WEXITSTATUS(status) != 0)
			log_warn(m->conf->tag, "%s (process %d) ended with status %d", m->conf->program, (int)pid,
			    WEXITSTATUS(status));
	}
}

static void
spawn(struct monitor *m, const struct order *o, int fd)
{
	static struct log_limit full = { .burst = 1, .period = { 60000000000 } };
	struct child *c = find_child(m, 0);

	if (c == NULL && log_allow(&full, m->conf->tag))
		log_warn(m->conf->tag, "%s is not started: %d processes of it run already, or are about to end",
		    m->conf->program, HELPER_CHILDREN_MAX);
	if (o->value < HELPER_KINDS_MAX && m->conf->kinds[o->value].may && c != NULL) {
		pid_t pid = fork();

		if (pid == 0)
			become(m, o->value, fd);
		if (pid < 0)
			log_warn(m->conf->tag, "cannot start %s: %s", m->conf->program, strerror(errno));
		c->pid = pid > 0 ? pid : 0;
		c->number = o->number;
		c->until = m->conf->life_s == 0 ? MONO_NEVER : mono_add(clock_mono(), MONO_S(m->conf->life_s));
	}
}

static void
end_child(struct monitor *m, const struct order *o)
{
	for (unsigned i = 0; i < HELPER_CHILDREN_MAX; i++) {
		struct child *c = &m->children[i];

		if (c->pid != 0 && c->number == o->number)
			c->until = mono_min(c->until, mono_add(clock_mono(), MONO_MS(o->value)));
	}
}

static void
obey(struct monitor *m, const struct order *o, int fd)
{
	if (o->what == ORDER_SPAWN && fd >= 0) {
		spawn(m, o, fd);
	} else if (o->what == ORDER_END) {
		end_child(m, o);
	} else if (o->what == ORDER_LOG && o->value <= LOG_LVL_DEBUG) {
		m->level = (int)o->value;
		log_init(m->conf->owner, (enum log_level)m->level, (enum log_dest)m->conf->log_dest);
	}
}

/* False: the daemon has ended. */
static bool
read_order(struct monitor *m)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct order order = { 0 };
	struct iovec iov = { &order, sizeof(order) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
	    .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(m->fd, &msg, MSG_CMSG_CLOEXEC);
	const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
	int fd = -1;

	if (n < 0)
		return errno == EINTR || errno == EAGAIN;
	if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(fd)))
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	if (n == (ssize_t)sizeof(order))
		obey(m, &order, fd);
	if (fd >= 0)
		close(fd);
	return n > 0;
}

/*
 * Ends those whose time is over, and says how long there is nothing to do; NULL: until something comes.  None of them
 * is asked: it may have been taken over.
 */
static const struct timespec *
end_old(struct monitor *m, struct timespec *left)
{
	struct mono now = clock_mono(), next = MONO_NEVER;

	for (unsigned i = 0; i < HELPER_CHILDREN_MAX; i++) {
		struct child *c = &m->children[i];

		if (c->pid == 0)
			continue;
		if (!mono_before(now, c->until)) {
			(void)kill(c->pid, SIGKILL);
			c->until = MONO_NEVER;		/* it is reaped next */
		}
		next = mono_min(next, c->until);
	}
	if (next.ns == INT64_MAX)
		return NULL;
	*left = (struct timespec){ .tv_sec = (time_t)(mono_sub(next, now).ns / 1000000000), .tv_nsec = 999999999 };
	return left;
}

/* The daemon has ended: processes end with their channels, but for one that stands still. */
static void
end_all(struct monitor *m, const sigset_t *none)
{
	struct mono until = mono_add(clock_mono(), m->conf->life_s > 0 ? MONO_ZERO : END_GRACE);
	const struct timespec second = { .tv_sec = 1 };
	struct timespec left;
	unsigned n;

	for (unsigned i = 0; i < HELPER_CHILDREN_MAX; i++)
		m->children[i].until = mono_min(m->children[i].until, until);
	do {
		(void)end_old(m, &left);
		reap(m);
		n = 0;
		for (unsigned i = 0; i < HELPER_CHILDREN_MAX; i++)
			n += m->children[i].pid != 0;
		if (n > 0)
			(void)ppoll(NULL, 0, &second, none);
	} while (n > 0 && mono_before(clock_mono(), mono_add(until, END_GRACE)));
}

/* Signals for the daemon, as those of a terminal, are no concern of this process: it ends with the daemon. */
static _Noreturn void
watch(struct monitor *m)
{
	const struct sigaction child = { .sa_handler = on_child };
	struct pollfd p = { .fd = m->fd, .events = POLLIN };
	struct timespec left;
	sigset_t none, blocked;

	sigemptyset(&none);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGCHLD);
	sigprocmask(SIG_SETMASK, &blocked, NULL);
	(void)sigaction(SIGCHLD, &child, NULL);
	(void)signal(SIGHUP, SIG_IGN);
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGTERM, SIG_IGN);
	do {
		p.revents = 0;
		(void)ppoll(&p, 1, end_old(m, &left), &none);
		reap(m);
	} while (p.revents == 0 || read_order(m));
	end_all(m, &none);
	_exit(0);
}

static bool
lock_down(const struct privdrop *plan, char *errbuf, size_t cap)
{
	struct rlimit no_core = { 0, 0 };

	if (privdrop_apply(plan, errbuf, cap) != TV_OK)
		return false;
	if (setrlimit(RLIMIT_CORE, &no_core) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
		return true;
	snprintf(errbuf, cap, "%s", strerror(errno));
	return false;
}

/* What the daemon has open is not for this process, above all not the lock of its folder. */
static bool
keep_two(struct monitor *m)
{
	int high = high_fd(m->conf), fd = fcntl(m->fd, F_DUPFD_CLOEXEC, high);
	int program = fcntl(m->program, F_DUPFD_CLOEXEC, high);

	for (unsigned i = 0; i < m->conf->socket_count; i++)
		if ((m->sockets[i] = fcntl(m->conf->sockets[i], F_DUPFD_CLOEXEC, high)) < 0)
			return false;

	m->fd = fd < 0 ? -1 : dup3(fd, STDERR_FILENO + 1, O_CLOEXEC);
	m->program = program < 0 ? -1 : dup3(program, STDERR_FILENO + 2, O_CLOEXEC);
	unsigned next = STDERR_FILENO + 3;
	bool ok = m->fd >= 0 && m->program >= 0;
	for (unsigned i = 0; i < m->conf->socket_count && ok; i++, next++)
		ok = (m->sockets[i] = dup3(m->sockets[i], (int)next, O_CLOEXEC)) >= 0;
	return ok && close_range(next, ~0U, 0) == 0;
}

static _Noreturn void
monitor_main(struct monitor *m, const struct privdrop *plan)
{
	char errbuf[512] = "";

	(void)prctl(PR_SET_NAME, m->conf->title);
	(void)setsid();
	if (!keep_two(m))
		explain(m->conf, errno, errbuf, sizeof(errbuf));
	else if (lock_down(plan, errbuf, sizeof(errbuf)) && send(m->fd, "", 1, MSG_NOSIGNAL) == 1)
		watch(m);
	log_err(m->conf->tag, "the process that is to start %s: %s", m->conf->program, errbuf);
	_exit(1);
}

/* -- in the daemon -- */

static int
open_program(const struct helper_monitor_conf *conf, char *errbuf, size_t cap)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - strlen(conf->program) - 2);

	if (n > 0) {
		path[n] = '\0';
		char *slash = strrchr(path, '/');
		strcpy(slash == NULL ? path : slash + 1, conf->program);
		int fd = open(path, O_PATH | O_CLOEXEC);

		if (fd >= 0)
			return fd;
	}
	if (errno == EMFILE)
		explain(conf, errno, errbuf, cap);
	else
		snprintf(errbuf, cap, "%s: %s (it is a part of %s, and stays beside it: install both)",
		    n > 0 ? path : "/proc/self/exe", strerror(errno), conf->owner);
	return -1;
}

enum tv_err
helper_monitor_start(const struct helper_monitor_conf *conf, int *fd, char *errbuf, size_t cap)
{
	struct monitor m = { .conf = conf, .level = conf->log_level };
	struct privdrop plan;
	enum tv_err err = privdrop_plan(conf->user, NULL, false, &plan, errbuf, cap);
	int pair[2];
	char ready;

	if (err != TV_OK)
		return err;
	if (conf->grouped && plan.switches) {
		plan.grouped = true;
		plan.group_gid = conf->group;
	}
	if ((m.program = open_program(conf, errbuf, cap)) < 0)
		return TV_ESYS;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
		explain(conf, errno, errbuf, cap);
		close(m.program);
		return TV_ESYS;
	}
	m.fd = pair[1];
	pid_t pid = fork();
	if (pid == 0)
		monitor_main(&m, &plan);
	close(pair[1]);
	close(m.program);
	if (pid > 0 && recv(pair[0], &ready, 1, 0) == 1) {
		*fd = pair[0];
		return TV_OK;
	}
	snprintf(errbuf, cap, "the process that is to start %s did not come up%s%s", conf->program,
	    pid < 0 ? ": " : "", pid < 0 ? strerror(errno) : "");
	close(pair[0]);
	return TV_ESYS;
}

/* fd -1: none goes with it. */
static ssize_t
send_order(int monitor, const struct order *order, int fd)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { (void *)(uintptr_t)order, sizeof(*order) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		memset(&control, 0, sizeof(control));
		control.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
		    .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
	}
	return sendmsg(monitor, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void
helper_monitor_log(int monitor, int level)
{
	(void)send_order(monitor, &(struct order){ .what = ORDER_LOG, .value = (uint32_t)level }, -1);
}

void
helper_monitor_end(int monitor, uint32_t number, struct mono grace)
{
	(void)send_order(monitor, &(struct order){ ORDER_END, (uint32_t)mono_ms(grace), number }, -1);
}

enum tv_err
helper_monitor_spawn(int monitor, unsigned kind, uint32_t *number, int *fd)
{
	static uint32_t last;		/* of this daemon's monitors together */
	struct order order = { ORDER_SPAWN, kind, ++last };
	int pair[2], saved;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
		return TV_ESYS;
	ssize_t n = send_order(monitor, &order, pair[1]);
	saved = errno;
	close(pair[1]);
	if (n == (ssize_t)sizeof(order)) {
		*number = order.number;
		*fd = pair[0];
		return TV_OK;
	}
	close(pair[0]);
	errno = saved;
	return saved == EPIPE || saved == ECONNRESET || saved == ENOTCONN ? TV_ECLOSED : TV_ESYS;
}
