/* The process that stays with a script, see keeper.h. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "rpcd/check/keeper.h"

#define KILL_PAUSE_MS 5			/* between looks at what is left */
#define LEFT_MAX 4096			/* children at one look; there is another */

enum { FD_LIFE = 3, FD_REPORT, FD_OUTPUT, FD_REST };

/* -- the script -- */

/*
 * The walls of a script beside its user: it can neither signal nor trace a process that is not its own.  The kernel's
 * rules are common/proc/sandbox_landlock.c's; those for signals came with version 6, and without them there is none.
 */
static void
wall(void)
{
	const uint64_t signals_only[3] = { 0, 0, 2 };
	int ruleset = (int)syscall(444, signals_only, sizeof(signals_only), 0);

	if (ruleset >= 0)
		(void)syscall(446, ruleset, 0);
}

static _Noreturn void
script(char **argv, int failed)
{
	static const char *env[] = {
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "LANG=C.UTF-8",
		"SHELL=/bin/sh", NULL,
	};
	sigset_t none;
	int error;

	sigemptyset(&none);
	for (int s = 1; s < NSIG; s++)
		(void)signal(s, SIG_DFL);
	(void)setpgid(0, 0);
	environ = (char **)env;
	close(STDIN_FILENO);
	(void)open("/dev/null", O_RDONLY);
	(void)dup2(FD_OUTPUT, STDOUT_FILENO);
	(void)dup2(FD_OUTPUT, STDERR_FILENO);
	wall();
	(void)fcntl(failed, F_SETFD, FD_CLOEXEC);
	for (int fd = FD_LIFE; fd < 64; fd++)
		if (fd != failed)
			(void)close(fd);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(022);
	if (chdir("/") == 0)
		execvp(argv[0], argv);
	error = errno;
	(void)!write(failed, &error, sizeof(error));
	_exit(127);
}

/* -- the keeper -- */

static volatile sig_atomic_t cancelled;	/* SIGTERM: the checker does not want the result any more */

static void
on_signal(int signum)
{
	if (signum == SIGTERM)
		cancelled = 1;
}

/* Our children by the kernel's list; false: it has none. */
static bool
kill_children(void)
{
	char path[64], digits[16];
	int n = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	FILE *f = fopen(path, "re");
	if (f == NULL)
		return false;
	for (int left = LEFT_MAX; left > 0 && fscanf(f, "%15s", digits) == 1; left--, n++)
		(void)kill((pid_t)atoi(digits), SIGKILL);
	fclose(f);
	return n > 0;
}

/* A process that loses its parent becomes our child, so the last one has gone when we have none. */
static void
kill_all(pid_t group)
{
	struct timespec pause = { 0, KILL_PAUSE_MS * 1000000 };
	sigset_t none;

	sigemptyset(&none);
	for (;;) {
		(void)kill(-group, SIGKILL);
		(void)kill_children();
		pid_t pid;
		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
			;
		if (pid < 0 && errno == ECHILD)
			return;
		(void)ppoll(NULL, 0, &pause, &none);
	}
}

/* The script's end, its timeout, or that of the checker, whichever comes first. */
static struct keeper_report
watch(pid_t pid, struct mono deadline)
{
	struct pollfd life = { .fd = FD_LIFE, .events = 0 };
	sigset_t none;
	int status;

	sigemptyset(&none);
	for (;;) {
		struct mono left = mono_sub(deadline, clock_mono());
		struct timespec wait = { left.ns / 1000000000, left.ns % 1000000000 };

		for (pid_t p; (p = waitpid(-1, &status, WNOHANG)) > 0;)
			if (p == pid)
				return WIFEXITED(status) ?
				    (struct keeper_report){ KEEPER_EXITED, WEXITSTATUS(status) } :
				    (struct keeper_report){ KEEPER_KILLED, WTERMSIG(status) };
		if (left.ns <= 0 || life.revents != 0 || cancelled)
			return (struct keeper_report){ KEEPER_TIMED_OUT, 0 };
		(void)ppoll(&life, 1, &wait, &none);
	}
}

static struct keeper_report
keep_script(char **argv, struct mono timeout)
{
	int failed[2], error = 0;

	if (pipe2(failed, O_CLOEXEC) != 0)
		return (struct keeper_report){ KEEPER_NOT_STARTED, errno };
	struct mono deadline = mono_add(clock_mono(), timeout);
	pid_t pid = fork();
	if (pid < 0)
		return (struct keeper_report){ KEEPER_NOT_STARTED, errno };
	if (pid == 0)
		script(argv, failed[1]);
	(void)setpgid(pid, pid);
	close(failed[1]);
	close(FD_OUTPUT);
	bool started = read(failed[0], &error, sizeof(error)) != sizeof(error);
	close(failed[0]);
	struct keeper_report r = watch(pid, deadline);
	kill_all(pid);
	return started ? r : (struct keeper_report){ KEEPER_NOT_STARTED, error };
}

/* Nothing of the checker is for this process but three descriptors. */
static bool
keep_three(int life, int report, int output)
{
	int from[] = { life, report, output };

	for (int i = 0; i < 3; i++)
		if ((from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 64)) < 0)
			return false;
	for (int i = 0; i < 3; i++)
		if (dup3(from[i], FD_LIFE + i, O_CLOEXEC) < 0)
			return false;
	return close_range(FD_REST, ~0U, 0) == 0;
}

static _Noreturn void
keeper_main(char **argv, struct mono timeout, int life, int report, int output)
{
	const struct sigaction action = { .sa_handler = on_signal };
	sigset_t blocked;

	sigfillset(&blocked);
	sigprocmask(SIG_SETMASK, &blocked, NULL);
	for (int s = 1; s < NSIG; s++)
		(void)signal(s, SIG_IGN);
	(void)sigaction(SIGCHLD, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	(void)setsid();
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 && keep_three(life, report, output)) {
		struct keeper_report r = keep_script(argv, timeout);

		(void)!write(FD_REPORT, &r, sizeof(r));
	}
	_exit(0);
}

static char **
argv_of(const struct span_list *args)
{
	char **argv = calloc((size_t)args->n + 1, sizeof(*argv));

	for (uint32_t i = 0; i < args->n && argv != NULL; i++)
		if ((argv[i] = span_dup(args->v[i])) == NULL)
			return NULL;	/* the process ends */
	return argv;
}

bool
keeper_start(const struct span_list *args, struct mono timeout, int life, struct keeper *out)
{
	int output[2], report[2], saved;

	if (pipe2(output, O_CLOEXEC) != 0)
		return false;
	if (pipe2(report, O_CLOEXEC) != 0) {
		saved = errno;
		close(output[0]);
		close(output[1]);
		errno = saved;
		return false;
	}
	*out = (struct keeper){ .pid = fork(), .output = output[0], .report = report[0] };
	if (out->pid == 0) {
		char **argv = argv_of(args);

		if (argv == NULL)
			_exit(1);
		keeper_main(argv, timeout, life, report[1], output[1]);
	}
	saved = errno;
	close(output[1]);
	close(report[1]);
	(void)fcntl(output[0], F_SETFL, O_NONBLOCK);
	(void)fcntl(report[0], F_SETFL, O_NONBLOCK);
	if (out->pid > 0)
		return true;
	close(output[0]);
	close(report[0]);
	errno = saved;
	return false;
}
