/* clusterctl keygen, validate: commands that need no running daemon. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/conf/cluster_conf.h"
#include "common/conf/keys.h"
#include "ctl/ctl.h"

int
cmd_keygen(struct ctl *ctl)
{
	bool pub = ctl_opt(ctl, "pub") != NULL;
	const char *dir = ctl->argc > 0 ? ctl->argv[0] : TV_SYSCONFDIR;
	char err[512];

	if (pub && keys_derive_pub(dir, err, sizeof(err)) == TV_OK) {
		printf("Wrote %s/server.pub, which belongs to the first key of %s/server.key: every node needs it.\n",
		    dir, dir);
		return 0;
	}
	if (pub || keys_generate(dir, err, sizeof(err)) != TV_OK)
		return ctl_complain(ctl, "%s", err);
	printf("Wrote %s/cluster.key, %s/server.key and %s/server.pub.\n"
	    "Every node needs cluster.key and server.pub; server.key belongs on servers only.\n", dir, dir, dir);
	return 0;
}

bool
ctl_daemon_path(const char *name, char *dst, size_t cap)
{
	char self[PATH_MAX], *slash;
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (len <= 0)
		return false;
	self[len] = '\0';
	slash = strrchr(self, '/');
	if (slash == NULL)
		return false;
	*slash = '\0';
	if ((size_t)snprintf(dst, cap, "%s/../%s/%s", self, name, name) < cap && access(dst, X_OK) == 0)
		return true;
	if ((size_t)snprintf(dst, cap, "%s/%s", self, name) < cap && access(dst, X_OK) == 0)
		return true;
	return (size_t)snprintf(dst, cap, "%s/%s", TV_SBINDIR, name) < cap && access(dst, X_OK) == 0;
}

int
ctl_check_conf(const char *name, const char *dir, bool print, bool files)
{
	char path[PATH_MAX + 64];
	int status;
	pid_t pid;

	if (!ctl_daemon_path(name, path, sizeof(path))) {
		fprintf(stderr, "clusterctl: %s is not installed beside clusterctl nor in %s\n", name,
		    TV_SBINDIR);
		return 1;
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (!print && freopen("/dev/null", "w", stdout) == NULL)
			_exit(1);
		execl(path, name, files ? "-nn" : "-n", "-c", dir, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) {
		fprintf(stderr, "clusterctl: cannot run %s: %s\n", path, strerror(errno));
		return 1;
	}
	return WEXITSTATUS(status);
}

/*
 * Reads the keys as the daemons would, where the caller may; the daemons read them as root.  False: a sentence
 * was printed.
 */
static bool
check_keys(const struct cluster_conf *c)
{
	struct keyring ring = { 0 };
	struct server_keys keys = { 0 };
	char err[1024];

	if (!c->have_keys)
		return true;
	if (access(c->cluster_key, R_OK) != 0 && errno == EACCES) {
		fprintf(stderr, "clusterctl: validate: %s: not readable by you, so the keys are not checked\n",
		    c->cluster_key);
		return true;
	}
	bool ok = keyring_load(c->cluster_key, &ring, err, sizeof(err)) == TV_OK &&
	    server_keys_load(c->server_key, c->server_pub, c->server ? SERVER_RPC : SERVER_CLIENT, &keys, err,
	    sizeof(err)) == TV_OK;
	if (!ok)
		fprintf(stderr, "%s\n", err);
	keyring_wipe(&ring);
	server_keys_wipe(&keys);
	return ok;
}

static void
print_valid(const struct ctl *ctl, const char *dir, bool server, bool valid)
{
	json_t *v;

	if (!ctl->json) {
		if (valid)
			printf("%s: the configuration is valid (%s node).\n", dir, server ? "server" : "client");
		return;
	}
	v = json_pack("{s:s,s:b,s:b}", "Folder", dir, "Server", server, "Valid", valid);
	if (v == NULL)		/* a path that is no UTF-8 */
		v = json_pack("{s:b,s:b}", "Server", server, "Valid", valid);
	out_json_new(v);
}

int
cmd_validate(struct ctl *ctl)
{
	bool print = ctl_opt(ctl, "print") != NULL && !ctl->json, server;
	const char *dir = ctl->argc > 0 ? ctl->argv[0] : TV_SYSCONFDIR;
	struct cluster_conf conf;
	char err[1024];

	if (access(dir, R_OK | X_OK) != 0)
		return ctl_complain(ctl, "%s: %s", dir, strerror(errno));
	if (cluster_conf_load(dir, NULL, &conf, err, sizeof(err)) != TV_OK) {
		fprintf(stderr, "%s\n", err);
		return 1;
	}
	server = conf.server;
	bool keys_ok = check_keys(&conf);
	cluster_conf_free(&conf);
	bool valid = keys_ok && ctl_check_conf("gossipd", dir, print, true) == 0 &&
	    ctl_check_conf("rpcd", dir, print, true) == 0 &&
	    (!server || ctl_check_conf("raftd", dir, print, true) == 0);
	if (!print || !valid)
		print_valid(ctl, dir, server, valid);
	return valid ? 0 : 1;
}
