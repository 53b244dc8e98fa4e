/* The monitor of the check processes, see check_monitor.h. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/proc/privdrop.h"
#include "rpcd/agent/check_monitor.h"
#include "rpcd/check/checker.h"

#define PROGRAM "rpcd-check"		/* beside our own, where none is named */
#define TITLE "rpcd: check"
#define SOCKETS_MAX 32
#define HIGH_FD 100			/* above all that has a place of its own */
#define CHILDREN_MAX 8			/* whatever rpcd asks for */
#define TAG "check"
#define LEVEL 0x10			/* a message beyond: no role, but a level of the log */

struct monitor {
	const struct check_monitor_conf *conf;
	int fd, program, level;
	unsigned children;
	int sockets[SOCKETS_MAX];
};

static const char *
program_of(const struct check_monitor_conf *conf)
{
	return conf->program == NULL ? PROGRAM : conf->program;
}

static unsigned
socket_count(const struct monitor *m)
{
	return m->conf->udp_count + m->conf->tcp_count;
}

/* -- in the child of the monitor -- */

static _Noreturn void
become_checker(const struct monitor *m, enum check_role role, int fd)
{
	static const char *const roles[] = CHECK_ROLE_NAMES;
	char level[12], dest[12], udp[12], tcp[12];
	const char *best = m->conf->best_effort ? "best-effort" : "required";
	const char *title = m->conf->title == NULL ? TITLE : m->conf->title;
	const char *check[] = { title, roles[role], level, dest, best, m->conf->docker_socket, NULL };
	const char *server[] = { title, udp, tcp, level, dest, best, NULL };
	sigset_t none;

	snprintf(level, sizeof(level), "%d", m->level);
	snprintf(udp, sizeof(udp), "%u", m->conf->udp_count);
	snprintf(tcp, sizeof(tcp), "%u", m->conf->tcp_count);
	snprintf(dest, sizeof(dest), "%d", m->conf->log_dest);
	for (int s = 1; s < NSIG; s++)
		(void)signal(s, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	int program = fcntl(m->program, F_DUPFD_CLOEXEC, HIGH_FD), channel = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
	bool ok = program >= 0 && dup2(channel, CHECK_FD) == CHECK_FD;
	/* They are above their new places, in order: none is overwritten before its turn. */
	for (int i = 0; i < (int)socket_count(m) && ok; i++)
		ok = dup2(m->sockets[i], CHECK_FD + 1 + i) >= 0;
	if (ok)
		fexecve(program, (char *const *)(socket_count(m) > 0 ? server : check), environ);
	log_err(TAG, "cannot start %s: %s", program_of(m->conf), strerror(errno));
	_exit(1);
}

/* -- the monitor -- */

static void
on_child(int signum)
{
	(void)signum;
}

static void
reap(struct monitor *m)
{
	int status;

	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0; m->children--) {
		if (WIFSIGNALED(status))
			log_warn(TAG, "%s (process %d) was killed by signal %d", program_of(m->conf), (int)pid,
			    WTERMSIG(status));
		else if (WEXITSTATUS(status) != 0)
			log_warn(TAG, "%s (process %d) ended with status %d", program_of(m->conf), (int)pid,
			    WEXITSTATUS(status));
	}
}

static void
spawn(struct monitor *m, uint8_t role, int fd)
{
	if (role < CHECK_ROLES && m->conf->roles[role] && m->children < CHILDREN_MAX) {
		pid_t pid = fork();

		if (pid == 0)
			become_checker(m, role, fd);
		if (pid < 0)
			log_warn(TAG, "cannot start %s: %s", program_of(m->conf), strerror(errno));
		m->children += pid > 0;
	}
	close(fd);
}

/* False: rpcd has ended. */
static bool
take(struct monitor *m)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	uint8_t role = 0;
	struct iovec iov = { &role, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
	    .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(m->fd, &msg, MSG_CMSG_CLOEXEC);
	const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
	int fd;

	if (n < 0)
		return errno == EINTR || errno == EAGAIN;
	if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(fd))) {
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
		spawn(m, role, fd);
	} else if (n > 0 && role >= LEVEL && role <= LEVEL + LOG_LVL_DEBUG) {
		m->level = role - LEVEL;
		log_init("rpcd", (enum log_level)m->level, (enum log_dest)m->conf->log_dest);
	}
	return n > 0;
}

/* Signals for rpcd, as those of a terminal, are no concern of this process: it ends with rpcd. */
static _Noreturn void
watch(struct monitor *m)
{
	const struct sigaction child = { .sa_handler = on_child };
	struct pollfd p = { .fd = m->fd, .events = POLLIN };
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
		(void)ppoll(&p, 1, NULL, &none);
		reap(m);
	} while (p.revents == 0 || take(m));
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

/* What rpcd has open is not for this process, above all not the lock of its folder. */
static bool
keep_two(struct monitor *m)
{
	int fd = fcntl(m->fd, F_DUPFD_CLOEXEC, HIGH_FD), program = fcntl(m->program, F_DUPFD_CLOEXEC, HIGH_FD);

	for (unsigned i = 0; i < socket_count(m); i++)
		if ((m->sockets[i] = fcntl(m->conf->sockets[i], F_DUPFD_CLOEXEC, HIGH_FD)) < 0)
			return false;

	m->fd = fd < 0 ? -1 : dup3(fd, STDERR_FILENO + 1, O_CLOEXEC);
	m->program = program < 0 ? -1 : dup3(program, STDERR_FILENO + 2, O_CLOEXEC);
	unsigned next = STDERR_FILENO + 3;
	bool ok = m->fd >= 0 && m->program >= 0;
	for (unsigned i = 0; i < socket_count(m) && ok; i++, next++)
		ok = (m->sockets[i] = dup3(m->sockets[i], (int)next, O_CLOEXEC)) >= 0;
	return ok && close_range(next, ~0U, 0) == 0;
}

static _Noreturn void
monitor_main(struct monitor *m, const struct privdrop *plan)
{
	char errbuf[512] = "";

	(void)prctl(PR_SET_NAME, m->conf->title == NULL ? TITLE : m->conf->title);
	(void)setsid();
	if (!keep_two(m))
		snprintf(errbuf, sizeof(errbuf), "%s", strerror(errno));
	else if (lock_down(plan, errbuf, sizeof(errbuf)) && send(m->fd, "", 1, MSG_NOSIGNAL) == 1)
		watch(m);
	log_err(TAG, "the process that is to start %s: %s", program_of(m->conf), errbuf);
	_exit(1);
}

/* -- in rpcd -- */

static int
open_program(const char *program, char *errbuf, size_t cap)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - strlen(program) - 2);

	if (n > 0) {
		path[n] = '\0';
		char *slash = strrchr(path, '/');
		strcpy(slash == NULL ? path : slash + 1, program);
		int fd = open(path, O_PATH | O_CLOEXEC);

		if (fd >= 0)
			return fd;
	}
	snprintf(errbuf, cap, "%s: %s (it is a part of rpcd, and stays beside it: install both)",
	    n > 0 ? path : "/proc/self/exe", strerror(errno));
	return -1;
}

/* A process that does nothing else may use the socket of docker, if that has a group that may. */
static void
join_docker(const char *path, struct privdrop *plan)
{
	struct stat st;

	if (stat(path, &st) != 0) {
		log_warn(TAG, "docker_socket %s: %s; Docker checks work without a restart only if the user _check may "
		    "use it then", path, strerror(errno));
	} else if (plan->switches && st.st_gid != 0 && (st.st_mode & S_IWGRP) != 0) {
		plan->grouped = true;
		plan->group_gid = st.st_gid;
	}
}

enum tv_err
check_monitor_start(const struct check_monitor_conf *conf, int *fd, char *errbuf, size_t cap)
{
	struct monitor m = { .conf = conf, .level = conf->log_level };
	struct privdrop plan;
	enum tv_err err = privdrop_plan(conf->user, NULL, false, &plan, errbuf, cap);
	int pair[2];
	char ready;

	if (err != TV_OK)
		return err;
	if (conf->program == NULL && !conf->roles[ROLE_NETWORK] && !conf->roles[ROLE_SCRIPTS])
		join_docker(conf->docker_socket, &plan);
	if ((m.program = open_program(program_of(conf), errbuf, cap)) < 0)
		return TV_ESYS;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
		snprintf(errbuf, cap, "socketpair: %s", strerror(errno));
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
	snprintf(errbuf, cap, "the process that is to start %s did not come up%s%s", program_of(conf),
	    pid < 0 ? ": " : "", pid < 0 ? strerror(errno) : "");
	close(pair[0]);
	return TV_ESYS;
}

void
check_monitor_log(int monitor, int level)
{
	uint8_t byte = (uint8_t)(LEVEL + level);

	(void)send(monitor, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

enum tv_err
check_monitor_spawn(int monitor, enum check_role which, int *fd)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	uint8_t role = (uint8_t)which;
	struct iovec iov = { &role, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
	    .msg_controllen = sizeof(control) };
	int pair[2], saved;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
		return TV_ESYS;
	memset(&control, 0, sizeof(control));
	control.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
	    .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&control.head), &pair[1], sizeof(int));
	ssize_t n = sendmsg(monitor, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	saved = errno;
	close(pair[1]);
	if (n == 1) {
		*fd = pair[0];
		return TV_OK;
	}
	close(pair[0]);
	errno = saved;
	return saved == EPIPE || saved == ECONNRESET || saved == ENOTCONN ? TV_ECLOSED : TV_ESYS;
}
