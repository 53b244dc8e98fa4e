/*
 * clusterctl reload: all daemons of the node.  rpcd is asked by HTTP; root on its socket sends SIGHUP to the others,
 * which are those that listen beside it.  Before that their files are checked, so that one reloads if all can.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "ctl/local_socket.h"

#define TIMEOUT_S 30

/* The process that listens at this socket; 0: none, errno tells. */
static pid_t
listener(const char *path)
{
	struct ucred who = { .pid = 0 };
	socklen_t len = sizeof(who);
	int fd = local_socket_open(path);

	if (fd == -1)
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == -1)
		who.pid = 0;
	else if (who.pid <= 0)
		errno = ESRCH;		/* not of our PID namespace */
	(void)close(fd);
	return who.pid;
}

/* False after a sentence. */
static bool
signal_daemon(const char *rpcd, const char *name)
{
	struct buf path = BUF_INIT(4096);
	pid_t pid;
	bool sent;

	local_socket_path(rpcd, name, &path);
	pid = listener(buf_cstr(&path));
	sent = pid > 0 && kill(pid, SIGHUP) == 0;
	if (!sent)
		fprintf(stderr, "clusterctl: reload: %s was not reloaded: %s: %s\n", name, buf_cstr(&path),
		    strerror(errno));
	buf_done(&path);
	return sent;
}

/* The folder is the one that rpcd here has read; without its word nothing is checked but by rpcd itself. */
static bool
files_fit(const json_t *self, bool server)
{
	const char *dir = json_text_at(self, "Stats.rpcd.configuration");

	if (dir[0] == '\0')
		return true;
	if (ctl_check_conf("gossipd", dir, false, false) == 0 && ctl_check_conf("rpcd", dir, false, false) == 0 &&
	    (!server || ctl_check_conf("raftd", dir, false, false) == 0))
		return true;
	fprintf(stderr, "clusterctl: reload: nothing was reloaded\n");
	return false;
}

static int
reload_all(struct ctl *ctl, const char *rpcd)
{
	json_t *self = ctl_get(ctl, "/v1/agent/self");
	bool server = json_is_true(json_at(self, "Config.Server"));
	int rc = self == NULL || !files_fit(self, server) ? 1 : 0;

	json_decref(self);
	if (rc == 0)
		rc = ctl_put(ctl, "/v1/agent/reload", TIMEOUT_S, NULL);
	if (rc != 0)
		return rc;
	/* Each, also when another is away. */
	rc = signal_daemon(rpcd, "gossipd") ? 0 : 1;
	if (server && !signal_daemon(rpcd, "raftd"))
		rc = 1;
	printf("rpcd has reloaded its configuration%s. Logs name what needs a restart.\n", rc != 0 ? "" : server ?
	    "; gossipd and raftd have been told to" : "; gossipd has been told to");
	return rc;
}

int
cmd_reload(struct ctl *ctl)
{
	const char *rpcd = client_socket(ctl_client(ctl));

	if (rpcd != NULL && geteuid() == 0)
		return reload_all(ctl, rpcd);
	return ctl_put(ctl, "/v1/agent/reload", TIMEOUT_S,
	    "rpcd has reloaded its configuration; its log names what needs a restart. gossipd and raftd are reloaded "
	    "by root on that machine: clusterctl reload, or systemctl reload.");
}
