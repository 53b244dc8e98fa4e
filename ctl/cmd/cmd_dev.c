/*
 * clusterctl dev: one server in the foreground with a temporary directory, for application developers.
 * Starts the three daemons as an ordinary user, waits until the server leads, and removes everything at the end.
 */
#include <errno.h>
#include <ftw.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <poll.h>

#include "common/base/addr.h"
#include "common/base/file.h"
#include "common/base/clock.h"
#include "ctl/certs.h"
#include "ctl/ctl.h"

#define DEV_START_TIMEOUT_MS 20000
#define DEV_STOP_TIMEOUT_MS 5000
#define DEV_POLL_MS 50
/* Of the temporary folder: the reserve, the log and the state at the start, and some data. */
#define ROOM_MIB 48
/* With --tls, in the temporary folder. */
#define CA_FILE "ca.pem"
#define CERT_FILE "server.pem"
#define KEY_FILE "server-key.pem"
#define CERT_DAYS 365

static const char *const daemons[] = { "gossipd", "raftd", "rpcd" };
#define DAEMON_COUNT 3

struct dev {
	const struct ctl *ctl;
	char dir[64];
	char at[ADDR_IP_BYTES + 16];		/* host and port, as in a URL */
	char tls_at[ADDR_IP_BYTES + 16];	/* the same of HTTPS; "" without --tls */
	const char *bind, *http_port, *https_port, *datacenter, *node;
	pid_t pids[DAEMON_COUNT];
	int signals;		/* signalfd: SIGINT, SIGTERM, SIGCHLD */
	bool stop;
	bool acl;
	struct buf secret;	/* of the first token, with --acl */
};

static bool
write_file(const struct dev *d, const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", d->dir, name);
	if (file_replace(AT_FDCWD, path, span_str(text), 0644) == TV_OK)
		return true;
	return ctl_false(d->ctl, "%s: %s", path, strerror(errno));
}

static bool
write_config(struct dev *d)
{
	struct buf b = BUF_INIT(8192);
	bool ok;

	buf_printf(&b, "node_name = \"%s\"\ndatacenter = \"%s\"\nserver = true\nbind = \"%s\"\n"
	    "data_dir = \"%s/data\"\nrun_dir = \"%s/run\"\nsandbox = \"best-effort\"\nlog_level = \"warn\"\n",
	    d->node, d->datacenter, d->bind, d->dir, d->dir);
	if (d->acl)
		buf_puts(&b, "acl {\n  enabled = true\n  default_policy = \"deny\"\n}\n");
	/* No keys: the daemons keep to loopback, nothing outside this machine can reach them. */
	ok = write_file(d, "cluster.conf", buf_cstr(&b));
	buf_reset(&b);
	buf_printf(&b, "http_port = %s\nhttp_addresses = [ \"%s\" ]\nhttp_admin = true\n", d->http_port, d->bind);
	if (d->tls_at[0] != '\0')
		buf_printf(&b, "https_port = %s\ntls {\n  https {\n    cert_file = \"%s/" CERT_FILE "\"\n"
		    "    key_file = \"%s/" KEY_FILE "\"\n  }\n}\n", d->https_port, d->dir, d->dir);
	ok = ok && write_file(d, "rpcd.conf", buf_cstr(&b)) &&
	    write_file(d, "raftd.conf", "bootstrap = true\ndisk_reserve = 4M\n");
	buf_done(&b);
	return ok;
}

static bool
write_secret(const struct dev *d, const char *name, struct span text, const struct passwd *pw)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", d->dir, name);
	if (file_create(AT_FDCWD, path, text, 0600) == TV_OK &&
	    (pw == NULL || chown(path, pw->pw_uid, pw->pw_gid) == 0))
		return true;
	return ctl_false(d->ctl, "%s: %s", path, strerror(errno));
}

/* A certificate for the node, by a CA whose key is kept nowhere. */
static bool
write_certificates(const struct dev *d, const struct passwd *pw)
{
	struct certs_wish ca = { .common_name = "clusterctl dev", .days = CERT_DAYS };
	struct certs_wish server = { .days = CERT_DAYS, .dns_count = 2, .ip_count = 1, .for_servers = true };
	struct certs_pair made[2] = { { .cert = BUF_INIT(0) }, { .cert = BUF_INIT(0) } };
	char name[256], err[512] = "";
	bool good;

	snprintf(name, sizeof(name), "server.%s.consul", d->datacenter);
	server.common_name = "server";
	server.dns[0] = name;
	server.dns[1] = "localhost";
	if (!addr_parse(d->bind, 0, &server.ips[0]) || !certs_is_name(name))
		return ctl_false(d->ctl, "--datacenter: \"%s\" is no part of a host's name", d->datacenter);
	good = certs_make_ca(&ca, &made[0], err, sizeof(err)) &&
	    certs_make(&server, buf_span(&made[0].cert), buf_span(&made[0].key), &made[1], err, sizeof(err));
	if (!good)
		(void)ctl_complain(d->ctl, "%s", err);
	good = good && write_file(d, CA_FILE, buf_cstr(&made[0].cert)) &&
	    write_file(d, CERT_FILE, buf_cstr(&made[1].cert)) &&
	    write_secret(d, KEY_FILE, buf_span(&made[1].key), pw);
	certs_pair_done(&made[0]);
	certs_pair_done(&made[1]);
	return good;
}

/* Where an API will be; an IPv6 address is in brackets there. */
static bool
set_place(const struct dev *d, const char *option, const char *port, char *at, size_t cap)
{
	struct addr a;
	int n;

	if (!addr_parse(d->bind, 0, &a))
		return ctl_false(d->ctl, "--bind: \"%s\" is neither an IPv4 nor an IPv6 address", d->bind);
	n = snprintf(at, cap, a.len == 16 ? "[%s]:%s" : "%s:%s", d->bind, port);
	return (size_t)n < cap || ctl_false(d->ctl, "%s: \"%s\" is no port", option, port);
}

static bool
set_places(struct dev *d)
{
	bool tls = ctl_opt(d->ctl, "tls") != NULL || ctl_opt(d->ctl, "https-port") != NULL;

	return set_place(d, "--http-port", d->http_port, d->at, sizeof(d->at)) &&
	    (!tls || set_place(d, "--https-port", d->https_port, d->tls_at, sizeof(d->tls_at)));
}

/* In the child, as root: become an ordinary user for good. */
static bool
become_ordinary(const struct passwd *pw)
{
	return pw == NULL || (setgroups(0, NULL) == 0 && setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) == 0 &&
	    setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) == 0);
}

/* The user that the daemons run as when root starts them: the one of SUDO_UID, else that with the name "nobody". */
static const struct passwd *
ordinary_user(void)
{
	const char *uid = getenv("SUDO_UID");

	if (geteuid() != 0)
		return NULL;
	if (uid != NULL && atoi(uid) > 0)
		return getpwuid((uid_t)atoi(uid));
	return getpwnam("nobody");
}

static bool
start_daemon(struct dev *d, int which, const struct passwd *pw)
{
	char path[PATH_MAX + 64];
	sigset_t none;
	pid_t pid;

	if (!ctl_daemon_path(daemons[which], path, sizeof(path)))
		return ctl_false(d->ctl, "%s is not installed beside clusterctl nor in %s", daemons[which],
		    TV_SBINDIR);
	pid = fork();
	if (pid == 0) {
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		setpgid(0, 0);		/* ^C goes to us; we stop them in order */
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (become_ordinary(pw))
			execl(path, daemons[which], "-c", d->dir, (char *)NULL);
		(void)ctl_complain(d->ctl, "cannot run %s: %s", path, strerror(errno));
		_exit(127);
	}
	d->pids[which] = pid;
	return pid > 0;
}

/* Takes the signals that came within timeout_ms; notices daemons that ended. */
static void
take_signals(struct dev *d, int timeout_ms)
{
	struct pollfd pfd = { d->signals, POLLIN, 0 };
	struct signalfd_siginfo si;
	pid_t pid;
	int status;

	if (poll(&pfd, 1, timeout_ms) > 0 && read(d->signals, &si, sizeof(si)) == (ssize_t)sizeof(si) &&
	    si.ssi_signo != SIGCHLD)
		d->stop = true;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (int i = 0; i < DAEMON_COUNT; i++)
			if (d->pids[i] == pid) {
				d->pids[i] = 0;
				if (!d->stop)
					(void)ctl_complain(d->ctl, "%s ended, stopping", daemons[i]);
				d->stop = true;
			}
}

static unsigned
running(const struct dev *d)
{
	unsigned n = 0;

	for (int i = 0; i < DAEMON_COUNT; i++)
		n += d->pids[i] > 0;
	return n;
}

static void
stop_daemons(struct dev *d)
{
	struct mono end = mono_add(clock_mono(), MONO_MS(DEV_STOP_TIMEOUT_MS));

	d->stop = true;
	for (int i = 0; i < DAEMON_COUNT; i++)
		if (d->pids[i] > 0)
			kill(d->pids[i], SIGTERM);
	while (running(d) > 0 && mono_before(clock_mono(), end))
		take_signals(d, DEV_POLL_MS);
	for (int i = 0; i < DAEMON_COUNT; i++)
		if (d->pids[i] > 0) {
			kill(d->pids[i], SIGKILL);
			waitpid(d->pids[i], NULL, 0);
		}
}

/* Does the server answer, and lead? */
static bool
is_ready(struct client *c)
{
	struct client_answer a;
	bool ok = client_do(c, "GET", "/v1/status/leader", SPAN_NONE, 2, &a) && a.body.len > 2;

	client_answer_done(&a);
	return ok;
}

static bool
wait_ready(struct dev *d)
{
	struct mono end = mono_add(clock_mono(), MONO_MS(DEV_START_TIMEOUT_MS));
	struct client *c = client_new_own(d->at, NULL);
	bool ok = false;

	while (!d->stop && !ok && mono_before(clock_mono(), end)) {
		take_signals(d, DEV_POLL_MS);
		ok = is_ready(c);
	}
	if (!ok && !d->stop)
		(void)ctl_complain(d->ctl, "the server did not start within %d s", DEV_START_TIMEOUT_MS / 1000);
	client_free(c);
	return ok;
}

/* PUTs; the answer's status, and of a token its secret. */
static long
put_body(struct client *c, const char *path, struct span body, struct buf *secret, char *why, size_t cap)
{
	struct client_answer a;
	json_t *token = NULL;
	long status;

	why[0] = '\0';
	if (client_do(c, "PUT", path, body, 5, &a) && secret != NULL &&
	    (token = json_loadb((const char *)a.body.data, a.body.len, 0, NULL)) != NULL)
		buf_puts(secret, json_text(token, "SecretID"));
	status = a.status;
	if (status != 200)
		snprintf(why, cap, "%.*s", (int)a.body.len, status != 0 ? (const char *)a.body.data : "");
	json_decref(token);
	client_answer_done(&a);
	return status;
}

/* The node itself shows a token with what it does on its own account: it registers itself and its services. */
static void
give_agent_token(struct dev *d)
{
	struct client *c = client_new_own(d->at, buf_cstr(&d->secret));
	struct buf body = BUF_INIT(4096);
	char why[256];

	body.secret = true;
	buf_printf(&body, "{\"Token\":\"%s\"}", buf_cstr(&d->secret));
	if (put_body(c, "/v1/agent/token/agent", buf_span(&body), NULL, why, sizeof(why)) != 200)
		(void)ctl_complain(d->ctl, "the node has no token of its own, so it cannot register itself: %s", why);
	buf_done(&body);
	client_free(c);
}

/* The first token, as soon as the leader has turned access control on. */
static bool
bootstrap(struct dev *d)
{
	struct mono end = mono_add(clock_mono(), MONO_MS(DEV_START_TIMEOUT_MS));
	struct client *c = client_new_own(d->at, NULL);
	char why[256] = "";

	d->secret.secret = true;
	while (!d->stop && d->secret.len == 0 && mono_before(clock_mono(), end)) {
		if (put_body(c, "/v1/acl/bootstrap", SPAN_NONE, &d->secret, why, sizeof(why)) == 403)
			break;
		if (d->secret.len == 0)
			take_signals(d, DEV_POLL_MS);
	}
	if (d->secret.len == 0 && !d->stop)
		(void)ctl_complain(d->ctl, "no token was made: %s", why[0] != '\0' ? why : "no answer");
	client_free(c);
	if (d->secret.len > 0)
		give_agent_token(d);
	return d->secret.len > 0;
}

static int
remove_one(const char *path, const struct stat *st UNUSED, int flag UNUSED, struct FTW *ftw UNUSED)
{
	return remove(path);
}

/* Else it would start, and refuse each write. */
static bool
has_room(const char *dir)
{
	struct statvfs v;
	uint64_t room;

	if (statvfs(dir, &v) != 0 || (room = (uint64_t)v.f_bavail * v.f_frsize) >= (uint64_t)ROOM_MIB << 20)
		return true;
	fprintf(stderr, "clusterctl: dev: %s has %llu MiB left, and a server needs %d MiB to write: set TMPDIR to a "
	    "folder with more room\n", dir, (unsigned long long)(room >> 20), ROOM_MIB);
	return false;
}

static bool
make_dir(struct dev *d, const struct passwd *pw)
{
	const char *tmp = getenv("TMPDIR");

	if ((size_t)snprintf(d->dir, sizeof(d->dir), "%s/triumvir-dev.XXXXXX", tmp != NULL ? tmp : "/tmp") >=
	    sizeof(d->dir) || mkdtemp(d->dir) == NULL) {
		(void)ctl_complain(d->ctl, "no temporary directory: %s", strerror(errno));
		d->dir[0] = '\0';
		return false;
	}
	return has_room(d->dir) && (pw == NULL || chown(d->dir, pw->pw_uid, pw->pw_gid) == 0);
}

static void
print_addresses(const struct dev *d)
{
	const char *q = d->at[0] == '[' ? "'" : "";	/* shells look for files of such a name */
	const char *token = d->acl ? "-H \"X-Consul-Token: $TRIUMVIR_TOKEN\" " : "";

	printf("  HTTP API   http://%s\n", d->at);
	if (!d->acl)		/* DNS shows no token of its own */
		printf("  DNS        dig @%s -p 8600 consul.service.consul\n", d->bind);
	printf("  admin      clusterctl --addr %s%s%s members\n"
	    "  try        curl %s-X PUT -d hello %shttp://%s/v1/kv/greeting%s\n"
	    "             curl %s%shttp://%s/v1/kv/greeting?raw%s\n  data       %s\n",
	    q, d->at, q, token, q, d->at, q, token, q, d->at, q, d->dir);
	if (d->tls_at[0] != '\0')
		printf("\n  HTTPS API  https://%s\n  CA file    %s/" CA_FILE "\n"
		    "  admin      clusterctl --addr %shttps://%s%s --ca-file %s/" CA_FILE " members\n"
		    "  try        curl --cacert %s/" CA_FILE " %s%shttps://%s/v1/agent/self%s\n",
		    d->tls_at, d->dir, q, d->tls_at, q, d->dir, d->dir, token, q, d->tls_at, q);
}

static bool
run_daemons(struct dev *d, const struct passwd *pw)
{
	if (!make_dir(d, pw) || !write_config(d) || (d->tls_at[0] != '\0' && !write_certificates(d, pw)))
		return false;
	for (int i = 0; i < DAEMON_COUNT; i++)
		if (!start_daemon(d, i, pw))
			return false;
	if (!wait_ready(d) || (d->acl && !bootstrap(d)))
		return false;
	printf("Development server is ready; it keeps nothing.\n\n");
	if (d->acl)
		printf("Access control is on, and what no token allows is denied; this one may do everything:\n\n"
		    "  export TRIUMVIR_TOKEN=%s\n\n", buf_cstr(&d->secret));
	print_addresses(d);
	printf("\nStop with ^C.\n");
	fflush(stdout);
	while (!d->stop)
		take_signals(d, -1);
	return running(d) == DAEMON_COUNT;
}

static const char *
option(const struct ctl *ctl, const char *name, const char *otherwise)
{
	const char *value = ctl_opt(ctl, name);

	return value != NULL ? value : otherwise;
}

int
cmd_dev(struct ctl *ctl)
{
	struct dev d = { .ctl = ctl, .bind = option(ctl, "bind", "127.0.0.1"),
	    .http_port = option(ctl, "http-port", "8500"), .https_port = option(ctl, "https-port", "8501"),
	    .datacenter = option(ctl, "datacenter", "dc1"), .node = option(ctl, "node", "dev"),
	    .acl = ctl_opt(ctl, "acl") != NULL, .secret = BUF_INIT(4096) };
	const struct passwd *pw = ordinary_user();
	sigset_t set;
	bool ok;

	if (!set_places(&d))
		return 2;
	if (geteuid() == 0 && pw == NULL)
		return ctl_complain(ctl, "no ordinary user to run as; start it as one");
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	d.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	ok = d.signals >= 0 && run_daemons(&d, pw);
	stop_daemons(&d);
	buf_done(&d.secret);
	if (d.dir[0] != '\0')
		nftw(d.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	if (d.signals >= 0)
		close(d.signals);
	return ok ? 0 : 1;
}
