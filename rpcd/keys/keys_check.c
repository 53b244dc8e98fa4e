/* The files of HTTPS looked at before a start, see keys_check.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/proc/privdrop.h"
#include "rpcd/keys/keys_check.h"

#define USER "_keys"
#define PROGRAM "rpcd-keys"
#define PATH_BYTES 4096

/* Beside us, and open before it becomes another user, who may not come as far. */
static int
open_program(void)
{
	char path[PATH_BYTES];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof(PROGRAM) - 1);

	if (n <= 0)
		return -1;
	path[n] = '\0';
	char *slash = strrchr(path, '/');
	strcpy(slash == NULL ? path : slash + 1, PROGRAM);
	return open(path, O_PATH | O_CLOEXEC);
}

/* In the child: becomes the user of the keys, and the program. */
static _Noreturn void
become_program(const struct keys_check *c, const struct privdrop *plan)
{
	const char *const args[] = {
		PROGRAM, "-n", c->cert_file, c->key_file, c->ca_file != NULL ? c->ca_file : "",
		c->ca_path != NULL ? c->ca_path : "", NULL,
	};
	char why[512];
	int fd = open_program();

	if (fd >= 0 && privdrop_apply(plan, why, sizeof(why)) != TV_OK)
		fprintf(stderr, "rpcd: %s\n", why);
	else if (fd >= 0)
		fexecve(fd, (char *const *)args, environ);
	if (fd < 0 || errno != 0)
		fprintf(stderr, "rpcd: cannot start " PROGRAM ": %s\n", strerror(errno));
	_exit(1);
}

/* Who is not root, and whose key it is not, cannot say what another user would see. */
static bool
is_for_others(const struct keys_check *c, const struct privdrop *plan)
{
	struct stat st;

	if (plan->switches || (stat(c->key_file, &st) == 0 && st.st_uid == geteuid()))
		return false;
	fprintf(stderr, "rpcd: %s: not yours, so the files of HTTPS are not checked\n", c->key_file);
	return true;
}

bool
keys_check_files(const struct keys_check *c)
{
	struct privdrop plan;
	char why[512];
	int status = 0;

	if (privdrop_plan(USER, NULL, false, &plan, why, sizeof(why)) != TV_OK) {
		fprintf(stderr, "rpcd: %s\n", why);
		return false;
	}
	if (is_for_others(c, &plan))
		return true;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		become_program(c, &plan);
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		fprintf(stderr, "rpcd: cannot start " PROGRAM ": %s\n", strerror(errno));
		return false;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
