/* Commands beside which something is watched, see child.h. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"
#include "ctl/child.h"

static sigset_t outside;		/* the mask that we were started with */

int
child_signals(void)
{
	static const int taken[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGCHLD };
	sigset_t set;
	int fd;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		sigaddset(&set, taken[i]);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGTTOU, SIG_IGN);		/* for taking the terminal back */
	if (sigprocmask(SIG_BLOCK, &set, &outside) == 0 && (fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC)) >= 0)
		return fd;
	fprintf(stderr, "clusterctl: cannot wait for signals: %s\n", strerror(errno));
	exit(1);
}

int
child_asked_to_end(int signals)
{
	struct signalfd_siginfo info;
	int sig = 0;

	while (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		if (info.ssi_signo != SIGCHLD)
			sig = (int)info.ssi_signo;
	return sig;
}

static _Noreturn void
become(const struct child_spec *spec, int in, pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent || setpgid(0, 0) < 0 ||
	    dup2(in, STDIN_FILENO) < 0)
		_exit(126);
	if (spec->terminal && isatty(STDIN_FILENO))
		(void)tcsetpgrp(STDIN_FILENO, getpid());
	(void)signal(SIGPIPE, SIG_DFL);
	(void)signal(SIGTTOU, SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &outside, NULL);
	for (char *const *v = spec->variables; *v != NULL; v++)
		(void)putenv(*v);		/* without memory: the variable is missing */
	if (spec->argv[1] == NULL)
		execl("/bin/sh", "sh", "-c", spec->argv[0], (char *)NULL);
	else
		execvp(spec->argv[0], spec->argv);
	fprintf(stderr, "clusterctl: %s: %s\n", spec->argv[0], strerror(errno));
	_exit(127);
}

pid_t
child_start(const struct child_spec *spec)
{
	int in = spec->in >= 0 ? spec->in : open("/dev/null", O_RDONLY | O_CLOEXEC);
	pid_t pid = -1, self = getpid();

	fflush(stdout);
	if (in >= 0 && (pid = fork()) == 0)
		become(spec, in, self);
	if (pid > 0)
		(void)setpgid(pid, pid);	/* both do it: the order does not matter */
	if (in >= 0 && in != spec->in)
		close(in);
	return pid;
}

bool
child_ended(pid_t pid, int *status)
{
	if (waitpid(pid, status, WNOHANG) != pid)
		return false;
	if (isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == pid)
		(void)tcsetpgrp(STDIN_FILENO, getpgrp());
	return true;
}

bool
child_group_lives(pid_t pid)
{
	return kill(-pid, 0) == 0;
}

void
child_kill(pid_t pid, int sig)
{
	(void)kill(-pid, sig);
	(void)kill(-pid, SIGCONT);		/* one that is stopped would not hear it */
}

void
child_tell(const char *what, int status)
{
	if (WIFSIGNALED(status))
		fprintf(stderr, "clusterctl: %s: the command was ended by signal %d\n", what, WTERMSIG(status));
	else if (WEXITSTATUS(status) != 0)
		fprintf(stderr, "clusterctl: %s: the command ended with status %d\n", what, WEXITSTATUS(status));
}

int
child_input(struct span bytes)
{
	int fd = memfd_create("clusterctl", MFD_CLOEXEC);

	if (fd >= 0 && write_all(fd, bytes.p, bytes.len) && lseek(fd, 0, SEEK_SET) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}
