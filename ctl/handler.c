/* Commands that are run for events and queries, see handler.h. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"
#include "ctl/handler.h"

#define VARIABLES_MAX 128
#define NAME_BYTES_MAX 256
#define REST_BYTES 65536	/* of output that is thrown away, read at a time */

struct handler {
	const char *what, *command;
	char *variables[VARIABLES_MAX + 1];	/* "NAME=value", owned */
	unsigned count;
};

/* "dc-name" becomes "DC_NAME": whatever others call their tags, it is a name of a variable. */
static void
variable_name(const char *prefix, const char *name, char dst[NAME_BYTES_MAX])
{
	size_t n = (size_t)snprintf(dst, NAME_BYTES_MAX, "%s", prefix);

	for (; *name != '\0' && n + 1 < NAME_BYTES_MAX; name++) {
		char c = *name;

		if (c >= 'a' && c <= 'z')
			c = (char)(c - 'a' + 'A');
		dst[n++] = (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
	}
	dst[n] = '\0';
}

void
handler_set(struct handler *h, const char *name, struct span value)
{
	char *safe = out_safe(value), *text;
	size_t len = strlen(name);
	unsigned at = 0;

	if (asprintf(&text, "%s=%s", name, safe) < 0)
		(void)ctl_must(NULL);
	free(safe);
	while (at < h->count && (strncmp(h->variables[at], name, len) != 0 || h->variables[at][len] != '='))
		at++;
	if (at == VARIABLES_MAX) {
		free(text);
		return;
	}
	free(h->variables[at]);
	h->variables[at] = text;
	h->count += at == h->count;
}

/* Who we are, for commands that look. */
static bool
describe_self(struct handler *h, struct ctl *ctl)
{
	json_t *self = ctl_get(ctl, "/v1/agent/self"), *value;
	const char *key;
	char name[NAME_BYTES_MAX];

	if (self == NULL)
		return false;
	json_t *tags = json_at(self, "Member.Tags");
	handler_set(h, "SERF_SELF_NAME", span_str(json_text_at(self, "Config.NodeName")));
	handler_set(h, "SERF_SELF_ROLE", span_str(json_text(tags, "role")));
	json_object_foreach(tags, key, value) {
		variable_name("SERF_TAG_", key, name);
		handler_set(h, name, span_of(json_string_value(value), json_string_length(value)));
	}
	json_decref(self);
	return true;
}

struct handler *
handler_new(struct ctl *ctl, const char *command)
{
	struct handler *h = ctl_must(calloc(1, sizeof(*h)));

	h->what = ctl->verb->words;
	h->command = command;
	(void)signal(SIGPIPE, SIG_IGN);		/* a command need not read its input */
	if (describe_self(h, ctl))
		return h;
	handler_free(h);
	return NULL;
}

void
handler_free(struct handler *h)
{
	if (h == NULL)
		return;
	for (unsigned i = 0; i < h->count; i++)
		free(h->variables[i]);
	free(h);
}

static _Noreturn void
become(const struct handler *h, int in, int out)
{
	if (dup2(in, STDIN_FILENO) < 0 || (out >= 0 && dup2(out, STDOUT_FILENO) < 0))
		_exit(126);
	(void)signal(SIGPIPE, SIG_DFL);
	for (unsigned i = 0; i < h->count; i++)
		(void)putenv(h->variables[i]);	/* without memory: the variable is missing */
	execl("/bin/sh", "sh", "-c", h->command, (char *)NULL);
	_exit(127);
}

/* Serf's handlers end their input with a newline, so that `read` works. */
static void
feed(int fd, struct span input)
{
	/* What it does not read is lost. */
	if (write_all(fd, input.p, input.len) && input.len > 0 && input.p[input.len - 1] != '\n')
		(void)write_all(fd, "\n", 1);
}

static void
collect(int fd, struct buf *out)
{
	uint8_t rest[REST_BYTES];
	ssize_t n;

	while ((n = read(fd, rest, sizeof(rest))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			buf_put(out, rest, (size_t)n);	/* what is too much is read all the same */
}

static int
ended(const struct handler *h, pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	fprintf(stderr, "clusterctl: %s: the command was ended by signal %d\n", h->what, WTERMSIG(status));
	return -1;
}

int
handler_run(struct handler *h, struct span input, struct buf *out)
{
	int in[2] = { -1, -1 }, back[2] = { -1, -1 };
	pid_t pid = -1;

	fflush(stdout);
	if (pipe(in) == 0 && (out == NULL || pipe(back) == 0) && (pid = fork()) == 0) {
		close(in[1]);
		if (back[0] >= 0)
			close(back[0]);
		become(h, in[0], back[1]);
	}
	if (pid < 0)
		fprintf(stderr, "clusterctl: %s: cannot run a command: %s\n", h->what, strerror(errno));
	if (in[0] >= 0)
		close(in[0]);
	if (back[1] >= 0)
		close(back[1]);
	if (pid > 0)
		feed(in[1], input);		/* at most some KiB: fits the pipe */
	if (in[1] >= 0)
		close(in[1]);
	if (pid > 0 && out != NULL)
		collect(back[0], out);
	if (back[0] >= 0)
		close(back[0]);
	return pid > 0 ? ended(h, pid) : -1;
}
