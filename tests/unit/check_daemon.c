/*
 * The life of a daemon: a small one runs in a child with its own configuration, tells on stderr what it
 * sees, and the test reads on until the line it waits for.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/proc/daemon.h"
#include "common/proc/privdrop.h"
#include "tests/unit/scratch.h"

#define NOBODY 65534
#define TEST_USER "nobody"

/* -- the daemon under test ------------------------------------------------ */

struct test_conf {
	struct mono wait;
	uint64_t fixed;
	bool fail_open, fail_run, quit;
};

static const struct conf_opt opts[] = {
	{ "wait", CONF_DURATION, CONF_FIELD(struct test_conf, wait), "1s", "1ms", "1h", NULL, CONF_LIVE, "Live." },
	{ "fixed", CONF_U64, CONF_FIELD(struct test_conf, fixed), "1", NULL, NULL, NULL, CONF_RESTART, "Not live." },
	{ "fail_open", CONF_BOOL, CONF_FIELD(struct test_conf, fail_open), "false", NULL, NULL, NULL, CONF_RESTART,
	    NULL },
	{ "fail_run", CONF_BOOL, CONF_FIELD(struct test_conf, fail_run), "false", NULL, NULL, NULL, CONF_RESTART,
	    NULL },
	{ "quit", CONF_BOOL, CONF_FIELD(struct test_conf, quit), "false", NULL, NULL, NULL, CONF_RESTART, NULL },
};

static struct test_conf conf;
static struct cluster_conf cluster;
static uid_t open_uid;

static enum tv_err
check(struct daemon_spec *d, char *errbuf, size_t cap)
{
	if (((struct test_conf *)d->conf)->fixed != 13)
		return TV_OK;
	snprintf(errbuf, cap, "fixed: 13 brings bad luck");
	return TV_EINVAL;
}

static enum tv_err
open_things(struct daemon_spec *d, char *errbuf, size_t cap)
{
	(void)d;
	open_uid = geteuid();
	if (!conf.fail_open)
		return TV_OK;
	snprintf(errbuf, cap, "the port is taken");
	return TV_ESYS;
}

static void
listens(const struct daemon_spec *d, struct buf *out)
{
	daemon_put_addr(out, d->cluster->bind, 8300);
	daemon_put_addr(out, "fd00::1", 8301);
}

static enum tv_err
run(struct daemon_spec *d, struct ev_loop *loop)
{
	char path[512];
	gid_t groups[8];
	int fd, group_count = getgroups(8, groups);

	(void)loop;
	snprintf(path, sizeof(path), "%s/%s/file", d->cluster->data_dir, d->name);
	fd = open(path, O_WRONLY | O_CREAT, 0666);
	log_info("test", "open uid %u, run uid %u gid %u, groups %d (%u), umask file %s", (unsigned)open_uid,
	    (unsigned)getuid(), (unsigned)getgid(), group_count, (unsigned)groups[0], fd >= 0 ? "written" : "denied");
	log_info("test", "passwd %s, stray descriptor %s, setuid %s, sandbox %s", open("/etc/passwd", O_RDONLY) < 0 ?
	    "hidden" : "open", fcntl(100, F_GETFD) < 0 ? "closed" : "open", setuid(0) != 0 ? "denied" : "allowed",
	    sandbox_status());
	log_info("test", "peers: root %d, daemon %d, self %d, other %d", daemon_peer_allowed(0), daemon_peer_allowed(1),
	    daemon_peer_allowed(getuid()), daemon_peer_allowed(4242));
	log_info("test", "peer is: root %d, daemon %d, not sys %d", daemon_peer_is(0, "sys"), daemon_peer_is(1, "daemon"),
	    daemon_peer_is(1, "sys"));
	if (conf.fail_run)
		return TV_ELIMIT;
	daemon_ready("working\nwell");
	if (conf.quit)
		daemon_quit(1);
	log_info("test", "up");
	return TV_OK;
}

static void
reload(struct daemon_spec *d)
{
	(void)d;
	log_info("test", "now wait %lld ms, fixed %llu", (long long)mono_ms(conf.wait), (unsigned long long)conf.fixed);
}

static void
stop(struct daemon_spec *d)
{
	(void)d;
	log_info("test", "stopped");
}

/* -- running it ------------------------------------------------------------ */

struct child {
	pid_t pid;
	int err, out;		/* our ends of its stderr and stdout */
	char text[16384];	/* all it said so far; at the end also what it printed, out_len bytes */
	size_t len, out_len;
};

static bool servers_only;
static const char *user = TEST_USER;
static const char *dir;		/* the scratch folder, which is the configuration folder too */

static void
start(struct child *c, int argc, const char *const *argv)
{
	struct daemon_spec d = {
		.name = "testd", .user = user, .servers_only = servers_only, .opts = opts,
		.opt_count = sizeof(opts) / sizeof(opts[0]), .conf_size = sizeof(conf), .conf = &conf,
		.cluster = &cluster,
		.check = check, .open = open_things, .listens = listens, .run = run, .reload = reload, .stop = stop,
		.socket_users = { "daemon", "sys" },
	};
	int pipes[2], out[2], status;

	*c = (struct child){ .pid = -1 };
	ck_assert_int_eq(pipe(pipes), 0);
	ck_assert_int_eq(pipe(out), 0);
	c->pid = fork();
	ck_assert_int_ge(c->pid, 0);
	if (c->pid == 0) {
		dup2(out[1], STDOUT_FILENO);
		dup2(pipes[1], STDERR_FILENO);
		dup2(pipes[1], 100);	/* a stray descriptor */
		optind = 1;
		status = daemon_main(&d, argc, (char **)(uintptr_t)argv);
		fflush(stdout);
		_exit(status);
	}
	close(pipes[1]);
	close(out[1]);
	c->err = pipes[0];
	c->out = out[0];
}

/* Reads on until the text turns up; fails when the child ends without it. */
static void
await(struct child *c, const char *text)
{
	while (strstr(c->text, text) == NULL) {
		ssize_t n = read(c->err, c->text + c->len, sizeof(c->text) - 1 - c->len);

		ck_assert_msg(n > 0, "waiting for \"%s\" in: %s", text, c->text);
		c->len += (size_t)n;
	}
}

static size_t
read_rest(struct child *c, int fd)
{
	size_t before = c->len;
	ssize_t n;

	while ((n = read(fd, c->text + c->len, sizeof(c->text) - 1 - c->len)) > 0)
		c->len += (size_t)n;
	close(fd);
	return c->len - before;
}

/* Reads to the end; returns the exit status. */
static int
finish(struct child *c)
{
	int status;

	(void)read_rest(c, c->err);
	c->out_len = read_rest(c, c->out);
	ck_assert_int_eq(waitpid(c->pid, &status, 0), c->pid);
	ck_assert_msg(WIFEXITED(status), "ended by signal: %s", c->text);
	return WEXITSTATUS(status);
}

static void
assert_says(const struct child *c, const char *text)
{
	ck_assert_msg(strstr(c->text, text) != NULL, "no \"%s\" in: %s", text, c->text);
}

static void
write_conf(const char *own)
{
	char text[2048];

	snprintf(text, sizeof(text), "node_name = n1\ndata_dir = \"%s\"\nrun_dir = \"%s\"\n", scratch_path("data"),
	    scratch_path("run"));
	scratch_write("cluster.conf", text, 0644);
	scratch_write("testd.conf", own, 0644);
}

static void
start_here(struct child *c, const char *own)
{
	const char *argv[] = { "testd", "-c", dir, NULL };

	write_conf(own);
	start(c, 3, argv);
}

static bool
can_start(void)
{
	if (geteuid() != 0 || getgrnam(DAEMON_GROUP) != NULL)
		return true;
	fprintf(stderr, "skipped: as root the group " DAEMON_GROUP " must exist\n");
	return false;
}

/* -- tests ------------------------------------------------------------------ */

START_TEST(help_and_version)
{
	static const char *const helps[] = { "--help", "-h" }, *const versions[] = { "--version", "-V" };
	static const char *const told[] = {
		"usage: testd [-c directory] [-dn]\n", "\n  -c directory ", "\n  -d ", "\n  -n ", "\n  -V, --version ",
		"\n  -h, --help ", "testd(8), testd.conf(5), cluster.conf(5)", TV_SYSCONFDIR,
	};
	struct child c;

	for (int i = 0; i < 2; i++) {
		start(&c, 2, (const char *const[]){ "testd", helps[i], NULL });
		ck_assert_int_eq(finish(&c), 0);
		for (size_t k = 0; k < sizeof(told) / sizeof(told[0]); k++)
			assert_says(&c, told[k]);
		ck_assert_uint_eq(c.out_len, c.len);	/* all of it on standard output */
		start(&c, 2, (const char *const[]){ "testd", versions[i], NULL });
		ck_assert_int_eq(finish(&c), 0);
		ck_assert_str_eq(c.text, "testd " TV_VERSION " (triumvir)\n");
		ck_assert_uint_eq(c.out_len, c.len);
	}
}
END_TEST

START_TEST(wrong_usage)
{
	static const struct {
		const char *arg, *says;
	} cases[] = {
		{ "-x", "testd: invalid option -- 'x'\n" },
		{ "--nonsense", "testd: unrecognized option '--nonsense'\n" },
		{ "-c", "testd: option requires an argument -- 'c'\n" },
		{ "--help=me", "testd: option '--help' doesn't allow an argument\n" },
		{ "extra", "testd: \"extra\" is no option, and there are no other arguments\n" },
	};
	struct child c;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		start(&c, 2, (const char *const[]){ "testd", cases[i].arg, NULL });
		ck_assert_int_eq(finish(&c), 2);
		assert_says(&c, cases[i].says);
		assert_says(&c, "usage: testd [-c directory] [-dn]\n       testd --help | --version\n");
		ck_assert_uint_eq(c.out_len, 0);
	}
}
END_TEST

START_TEST(check_only)
{
	const char *argv[] = { "testd", "-n", "-c", dir, NULL };
	struct child c;

	write_conf("wait = 3s\n");
	start(&c, 4, argv);
	ck_assert_int_eq(finish(&c), 0);
	assert_says(&c, "/cluster.conf ---\n");
	assert_says(&c, "node_name = \"n1\"\n");
	assert_says(&c, "/testd.conf ---\n# Live. (1ms to 1h)\nwait = 3s\n");
	ck_assert_int_eq(access(scratch_path("data"), F_OK), -1);	/* nothing was made */
	write_conf("\nwiat = 3s\n");
	start(&c, 4, argv);
	ck_assert_int_eq(finish(&c), 1);
	assert_says(&c, "/testd.conf:2: unknown key \"wiat\" (did you mean wait?)\n");
	write_conf("fixed = 13\n");
	start(&c, 4, argv);
	ck_assert_int_eq(finish(&c), 1);
	assert_says(&c, "[ERR] testd: fixed: 13 brings bad luck\n");
}
END_TEST

/* Not the defaults, which would be another cluster and an empty data folder. */
START_TEST(folder_asked_for_must_exist)
{
	const char *argv[] = { "testd", "-n", "-c", scratch_path("none"), NULL };
	struct child c;

	start(&c, 4, argv);
	ck_assert_int_eq(finish(&c), 1);
	assert_says(&c, "/none: No such file or directory (the folder of the configuration, from -c)\n");
}
END_TEST

START_TEST(lives_and_stops)
{
	struct child c;
	char facts[128];
	struct stat st;

	if (!can_start())
		return;
	start_here(&c, "");
	await(&c, "test: up\n");
	ck_assert_int_eq(kill(c.pid, SIGTERM), 0);
	ck_assert_int_eq(finish(&c), 0);
	snprintf(facts, sizeof(facts), "open uid %u, run uid %u", (unsigned)geteuid(),
	    geteuid() == 0 ? NOBODY : (unsigned)geteuid());
	assert_says(&c, facts);
	assert_says(&c, "umask file written\n");
	assert_says(&c, "passwd hidden, stray descriptor closed, setuid denied, sandbox seccomp+landlock(");
	if (geteuid() == 0) {
		assert_says(&c, "peers: root 1, daemon 1, self 0, other 0\n");
		assert_says(&c, "peer is: root 1, daemon 1, not sys 0\n");
	} else {
		assert_says(&c, "peers: root 1, daemon 0, self 1, other 0\n");
	}
	assert_says(&c, "; sandbox seccomp+landlock(");
	assert_says(&c, "encryption off\n");
	assert_says(&c, "[INFO] testd: SIGTERM received, stopping\n");
	assert_says(&c, "[INFO] test: stopped\n");
	ck_assert_int_eq(stat(scratch_path("data/testd"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0700);
	ck_assert_int_eq(stat(scratch_path("data/testd/file"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0640);
	ck_assert_int_eq(stat(scratch_path("run"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0755);
	/* again, over what is there; SIGINT is the same */
	start_here(&c, "");
	await(&c, "test: up\n");
	ck_assert_int_eq(kill(c.pid, SIGINT), 0);
	ck_assert_int_eq(finish(&c), 0);
}
END_TEST

/* For as long as the process lives, and no longer. */
START_TEST(folder_is_locked)
{
	struct child first, second;
	char text[128];

	if (!can_start())
		return;
	start_here(&first, "");
	await(&first, "test: up\n");
	start_here(&second, "");
	ck_assert_int_eq(finish(&second), 1);
	snprintf(text, sizeof(text), "data/testd: in use by pid %ld of node n1 at ", (long)first.pid);
	assert_says(&second, text);
	ck_assert_int_eq(kill(first.pid, SIGKILL), 0);
	(void)read_rest(&first, first.err);
	(void)read_rest(&first, first.out);
	ck_assert_int_eq(waitpid(first.pid, NULL, 0), first.pid);
	start_here(&second, "");
	await(&second, "test: up\n");
	ck_assert_int_eq(kill(second.pid, SIGTERM), 0);
	ck_assert_int_eq(finish(&second), 0);
	ck_assert_int_eq(unlink(scratch_path("data/testd/lock")), 0);
	ck_assert_int_eq(mkdir(scratch_path("data/testd/lock"), 0700), 0);
	start_here(&second, "");
	ck_assert_int_eq(finish(&second), 1);
	assert_says(&second, "data/testd/lock: Is a directory\n");
}
END_TEST

START_TEST(reloads)
{
	struct child c;

	if (!can_start())
		return;
	start_here(&c, "wait = 1s\n");
	await(&c, "test: up\n");
	write_conf("wait = 2s\nfixed = 5\n");
	ck_assert_int_eq(kill(c.pid, SIGHUP), 0);
	await(&c, "[INFO] testd: configuration reloaded\n");
	assert_says(&c, "[WARN] testd: reload: fixed changed: it takes effect after a restart\n");
	assert_says(&c, "now wait 2000 ms, fixed 1\n");
	write_conf("wait = 3s\nfixed = 13\n");
	ck_assert_int_eq(kill(c.pid, SIGHUP), 0);
	await(&c, "[ERR] testd: reload: fixed: 13 brings bad luck; nothing was changed\n");
	write_conf("wait = 4s\n");	/* fixed is back: no word about it */
	c.len = 0;
	memset(c.text, 0, sizeof(c.text));
	ck_assert_int_eq(kill(c.pid, SIGHUP), 0);
	await(&c, "now wait 4000 ms, fixed 1\n");
	await(&c, "[INFO] testd: configuration reloaded\n");
	ck_assert_ptr_null(strstr(c.text, "after a restart"));
	ck_assert_int_eq(kill(c.pid, SIGTERM), 0);
	ck_assert_int_eq(finish(&c), 0);
}
END_TEST

START_TEST(failures_are_fatal)
{
	struct child c;

	if (!can_start())
		return;
	start_here(&c, "fail_open = true\n");
	ck_assert_int_eq(finish(&c), 1);
	assert_says(&c, "[ERR] testd: the port is taken\n");
	start_here(&c, "fail_run = true\n");
	ck_assert_int_eq(finish(&c), 1);
	assert_says(&c, "[ERR] testd: start failed: limit exceeded\n");
	assert_says(&c, "test: stopped\n");
	start_here(&c, "quit = true\n");
	ck_assert_int_eq(finish(&c), 1);
	servers_only = true;
	start_here(&c, "");
	ck_assert_int_eq(finish(&c), 0);
	assert_says(&c, "nothing to do: testd runs on servers only, and server = true is not in /");
}
END_TEST

/* An address of nobody (RFC 5737): at boot the network may be later than we are. */
START_TEST(late_addresses)
{
	const char *argv[] = { "testd", "-c", dir, NULL };
	struct child c;
	int status;

	if (!can_start())
		return;
	write_conf("");
	scratch_write("cluster.conf", "bind = 192.0.2.1\nallow_plaintext = true\n", 0644);
	start(&c, 3, argv);
	await(&c, "[WARN] testd: bind: 192.0.2.1 is not an address of this machine; waiting for it\n");
	await(&c, "waiting for it\n2");		/* and again a second later */
	ck_assert_int_eq(kill(c.pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(c.pid, &status, 0), c.pid);
	ck_assert_msg(WIFSIGNALED(status), "%s", c.text);
	close(c.err);
	close(c.out);
}
END_TEST

START_TEST(first_line)
{
	struct child c;

	if (!can_start())
		return;
	start_here(&c, "");
	await(&c, "test: up\n");
	assert_says(&c, "datacenter dc1, client; configuration in /");
	assert_says(&c, "; listening on 127.0.0.1:8300, [fd00::1]:8301; sandbox ");
	ck_assert_int_eq(kill(c.pid, SIGTERM), 0);
	ck_assert_int_eq(finish(&c), 0);
}
END_TEST

START_TEST(foreign_folders_are_refused)
{
	struct child c;

	if (!can_start())
		return;
	ck_assert_int_eq(mkdir(scratch_path("run"), 0755), 0);
	ck_assert_int_eq(chmod(scratch_path("run"), 0777), 0);
	start_here(&c, "");
	ck_assert_int_eq(finish(&c), 1);
	assert_says(&c, "run: must be a folder of root that others cannot write");
	ck_assert_int_eq(chmod(scratch_path("run"), 0755), 0);
	ck_assert_int_eq(mkdir(scratch_path("data"), 0755), 0);
	ck_assert_int_eq(symlink("/tmp", scratch_path("data/testd")), 0);
	start_here(&c, "");
	ck_assert_int_eq(finish(&c), 1);
	assert_says(&c, "data/testd: Not a directory\n");
	ck_assert_int_eq(unlink(scratch_path("data/testd")), 0);
	if (geteuid() != 0)
		return;
	ck_assert_int_eq(mkdir(scratch_path("data/testd"), 0700), 0);
	ck_assert_int_eq(chown(scratch_path("data/testd"), 4242, 4242), 0);
	start_here(&c, "");
	ck_assert_int_eq(finish(&c), 1);
	assert_says(&c, "data/testd: belongs to uid 4242, not to the user of this daemon (uid 65534)");
	ck_assert_int_eq(rmdir(scratch_path("data/testd")), 0);
	ck_assert_int_eq(chmod(scratch_path("data"), 0700), 0);
	start_here(&c, "");
	ck_assert_int_eq(finish(&c), 1);
	assert_says(&c, "data/testd: uid 65534 cannot reach it: Permission denied");
}
END_TEST

START_TEST(missing_user_is_told_with_its_remedy)
{
	struct child c;

	if (geteuid() != 0) {
		fprintf(stderr, "skipped: only root changes user\n");
		return;
	}
	user = "_no_such_user";
	start_here(&c, "");
	ck_assert_int_eq(finish(&c), 1);
	assert_says(&c, "the user _no_such_user does not exist: run systemd-sysusers");
	if (getgrnam(DAEMON_GROUP) == NULL)
		return;
	user = "root";
	start_here(&c, "");
	ck_assert_int_eq(finish(&c), 1);
	assert_says(&c, "the user root is root: a daemon needs a user without privileges");
}
END_TEST

/* In a child: what the kernel says of us after the drop. */
static int
dropped_for_good(void)
{
	struct privdrop plan = { .switches = true, .uid = NOBODY, .gid = NOBODY, .grouped = true, .group_gid = 4242 };
	char errbuf[256], line[256];
	gid_t group = 0;
	int clean = 0;
	FILE *f;

	if (privdrop_apply(&plan, errbuf, sizeof(errbuf)) != TV_OK)
		return 1;
	if (setuid(0) == 0 || seteuid(0) == 0 || setgid(0) == 0 || setresuid(0, -1, -1) == 0)
		return 2;
	if (getgroups(1, &group) != 1 || group != 4242)
		return 3;
	f = fopen("/proc/self/status", "r");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		clean += strcmp(line, "Uid:\t65534\t65534\t65534\t65534\n") == 0 ||
		    strcmp(line, "Gid:\t65534\t65534\t65534\t65534\n") == 0 ||
		    strcmp(line, "CapPrm:\t0000000000000000\n") == 0 ||
		    strcmp(line, "CapEff:\t0000000000000000\n") == 0;
	if (f != NULL)
		fclose(f);
	return clean == 4 ? 0 : 4;
}

START_TEST(root_is_gone_for_good)
{
	int status;
	pid_t pid;

	if (geteuid() != 0) {
		fprintf(stderr, "skipped: only root changes user\n");
		return;
	}
	pid = fork();
	if (pid == 0)
		_exit(dropped_for_good());
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	ck_assert(WIFEXITED(status));
}
END_TEST

#ifdef HAVE_SYSTEMD
START_TEST(systemd_is_told)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char text[256];
	struct child c;
	ssize_t n;

	if (!can_start())
		return;
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", scratch_path("notify"));
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	ck_assert_int_eq(chmod(sa.sun_path, 0777), 0);
	setenv("NOTIFY_SOCKET", sa.sun_path, 1);
	start_here(&c, "");
	n = recv(fd, text, sizeof(text) - 1, 0);
	ck_assert_int_gt(n, 0);
	text[n] = '\0';
	ck_assert_str_eq(text, "READY=1\nSTATUS=working\\x0awell");
	ck_assert_int_eq(kill(c.pid, SIGHUP), 0);
	n = recv(fd, text, sizeof(text) - 1, 0);
	ck_assert_int_gt(n, 0);
	ck_assert_int_eq(strncmp(text, "RELOADING=1\nMONOTONIC_USEC=", 27), 0);
	n = recv(fd, text, sizeof(text) - 1, 0);
	ck_assert_int_eq(n, 7);
	ck_assert_int_eq(strncmp(text, "READY=1", 7), 0);
	ck_assert_int_eq(kill(c.pid, SIGTERM), 0);
	ck_assert_int_eq(recv(fd, text, sizeof(text), 0), 10);
	ck_assert_int_eq(strncmp(text, "STOPPING=1", 10), 0);
	ck_assert_int_eq(finish(&c), 0);
	close(fd);
}
END_TEST
#endif

static void
setup(void)
{
	dir = scratch_open();
	unsetenv("NOTIFY_SOCKET");
	unsetenv("JOURNAL_STREAM");
}

int
main(void)
{
	Suite *s = suite_create("daemon");
	TCase *t = tcase_create("life");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, scratch_close);
	tcase_add_test(t, help_and_version);
	tcase_add_test(t, wrong_usage);
	tcase_add_test(t, check_only);
	tcase_add_test(t, folder_asked_for_must_exist);
	tcase_add_test(t, lives_and_stops);
	tcase_add_test(t, folder_is_locked);
	tcase_add_test(t, reloads);
	tcase_add_test(t, failures_are_fatal);
	tcase_add_test(t, late_addresses);
	tcase_add_test(t, first_line);
	tcase_add_test(t, foreign_folders_are_refused);
	tcase_add_test(t, missing_user_is_told_with_its_remedy);
	tcase_add_test(t, root_is_gone_for_good);
#ifdef HAVE_SYSTEMD
	tcase_add_test(t, systemd_is_told);
#endif
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
