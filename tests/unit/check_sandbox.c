/*
 * The sandbox from inside: children enter it and try.  What must fail fails with the errno that the
 * header promises; what the daemons need works, Berkeley DB with threads included.
 */
#include "config.h"

#include <arpa/inet.h>
#include <check.h>
#include <db.h>
#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/proc/sandbox.h"
#include "tests/unit/scratch.h"

/* What a child found wrong, or nothing. */
struct finding {
	char text[256];
};

#define MUST(cond_) do { if (!(cond_)) { \
	snprintf(f->text, sizeof(f->text), "line %d: %s (%s)", __LINE__, #cond_, strerror(errno)); return; } } while (0)
#define DENIED(call_, errno_) do { errno = 0; MUST((call_) == -1 && errno == (errno_)); } while (0)

typedef void inside_fn(struct finding *f);

/* Runs fn behind the walls, in a process of its own. */
static void
inside(const struct sandbox_policy *p, inside_fn *fn)
{
	struct finding f = { "" };
	int report[2], status;
	char errbuf[512];
	pid_t pid;

	ck_assert_int_eq(pipe(report), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		if (sandbox_enter(p, false, errbuf, sizeof(errbuf)) != TV_OK)
			snprintf(f.text, sizeof(f.text), "%.250s", errbuf);
		else
			fn(&f);
		_exit(write(report[1], &f, sizeof(f)) != sizeof(f));
	}
	close(report[1]);
	ck_assert_msg(read(report[0], &f, sizeof(f)) == sizeof(f), "the child died");
	close(report[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(f.text[0] == '\0', "%s", f.text);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int
landlock_abi(void)
{
	return (int)syscall(444, NULL, 0, 1);
}

static struct sandbox_policy
closed(void)
{
	return (struct sandbox_policy){ .path_count = 0 };
}

static void
files_inside(struct finding *f)
{
	int fd;

	DENIED(open("/etc/passwd", O_RDONLY), EACCES);
	DENIED(open("/proc/self/mem", O_RDWR), EACCES);
	DENIED(open("/", O_RDONLY | O_DIRECTORY), EACCES);
	DENIED(open(scratch_path("secret"), O_RDONLY), EACCES);
	DENIED(open(scratch_path("state/../secret"), O_RDONLY), EACCES);
	DENIED(open(scratch_path("state/link"), O_RDONLY), EACCES);
	DENIED(open(scratch_path("new"), O_WRONLY | O_CREAT, 0600), EACCES);
	DENIED(rename(scratch_path("secret"), scratch_path("state/stolen")), EACCES);
	/* Landlock's answer across rules */
	DENIED(link(scratch_path("secret"), scratch_path("state/stolen")), EXDEV);
	DENIED(unlink(scratch_path("secret")), EACCES);
	DENIED(mkdir(scratch_path("dir"), 0700), EACCES);
	DENIED(symlink("/etc/passwd", scratch_path("state/l2")), EPERM);
	DENIED(mknod(scratch_path("state/fifo"), S_IFIFO | 0600, 0), EPERM);
	/* the state folder is ours */
	MUST((fd = open(scratch_path("state/a"), O_RDWR | O_CREAT | O_TRUNC, 0600)) >= 0);
	MUST(write(fd, "x", 1) == 1 && fsync(fd) == 0 && ftruncate(fd, 0) == 0 && close(fd) == 0);
	MUST(rename(scratch_path("state/a"), scratch_path("state/b")) == 0);
	MUST(mkdir(scratch_path("state/d"), 0700) == 0);
	MUST(rename(scratch_path("state/b"), scratch_path("state/d/b")) == 0);
	MUST(unlink(scratch_path("state/d/b")) == 0 && rmdir(scratch_path("state/d")) == 0);
	/* the read-only folder, and the single file */
	MUST((fd = open(scratch_path("conf/x.conf"), O_RDONLY)) >= 0 && close(fd) == 0);
	DENIED(open(scratch_path("conf/x.conf"), O_RDWR), EACCES);
	DENIED(open(scratch_path("conf/y.conf"), O_WRONLY | O_CREAT, 0600), EACCES);
	MUST((fd = open(scratch_path("one"), O_RDONLY)) >= 0 && close(fd) == 0);
}

START_TEST(only_named_files)
{
	struct sandbox_policy p = closed();

	ck_assert_int_eq(mkdir(scratch_path("state"), 0700), 0);
	ck_assert_int_eq(mkdir(scratch_path("conf"), 0700), 0);
	ck_assert_int_eq(symlink("../secret", scratch_path("state/link")), 0);
	scratch_write("secret", "s", 0600);
	scratch_write("conf/x.conf", "c", 0600);
	scratch_write("one", "1", 0600);
	sandbox_path(&p, scratch_path("state"), SANDBOX_WRITE);
	sandbox_path(&p, scratch_path("conf"), SANDBOX_READ);
	sandbox_path(&p, scratch_path("one"), SANDBOX_READ);
	sandbox_path(&p, scratch_path("does-not-exist"), SANDBOX_READ);
	sandbox_path(&p, NULL, SANDBOX_READ);
	inside(&p, files_inside);
}
END_TEST

/* -- files that are replaced while a process is inside: another one does it, by order -- */

static int orders[2], reports[2];

static void
outside(void)
{
	for (char what; read(orders[0], &what, 1) == 1;) {
		switch (what) {
		case 'r':
			scratch_write("one.new", "2", 0600);
			(void)rename(scratch_path("one.new"), scratch_path("one"));
			break;
		case 'w':
			scratch_write("one", "in place", 0600);
			break;
		case 'u':
			(void)unlink(scratch_path("one"));
			break;
		case 'f':
			(void)rename(scratch_path("run"), scratch_path("run.old"));
			(void)mkdir(scratch_path("run"), 0700);
			break;
		case 'l':
			(void)mkdir(scratch_path("late"), 0700);
			scratch_write("late/target", "t", 0600);
			break;
		case 'i':
			scratch_write("run/new", "n", 0600);
			(void)rename(scratch_path("run/new"), scratch_path("run/inside"));
			break;
		}
		(void)!write(reports[1], &what, 1);
	}
	_exit(0);
}

static bool
order(char what)
{
	return write(orders[1], &what, 1) == 1 && read(reports[0], &what, 1) == 1;
}

static bool
stale(const char *name)
{
	const char *path = sandbox_stale();

	return name == NULL ? path == NULL : path != NULL && strcmp(path, scratch_path(name)) == 0;
}

static void
replaced_inside(struct finding *f)
{
	MUST(stale(NULL));
	MUST(order('w') && stale(NULL));	/* the same file */
	MUST(order('i') && stale(NULL));	/* the folder's rule holds for what comes into it */
	MUST(order('r') && stale("one"));
	DENIED(open(scratch_path("one"), O_RDONLY), EACCES);
	MUST(order('r') && stale("one"));
	MUST(order('u') && stale(NULL));	/* there is nothing to be read */
	MUST(order('w') && stale("one"));	/* it is back, as another one */
	MUST(order('u') && order('f') && stale("run"));
}

static void
appears_inside(struct finding *f)
{
	MUST(stale(NULL));
	MUST(order('l') && stale("dangling"));
}

static void
with_outside(const struct sandbox_policy *p, inside_fn *fn)
{
	pid_t pid;

	ck_assert(pipe(orders) == 0 && pipe(reports) == 0);
	ck_assert_int_ge(pid = fork(), 0);
	if (pid == 0) {
		close(orders[1]);
		outside();
	}
	inside(p, fn);
	close(orders[1]);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(replaced_files_are_noticed)
{
	struct sandbox_policy p = closed();

	scratch_write("one", "1", 0600);
	ck_assert_int_eq(mkdir(scratch_path("run"), 0700), 0);
	ck_assert_int_eq(symlink("late/target", scratch_path("dangling")), 0);
	sandbox_path(&p, scratch_path("one"), SANDBOX_READ);
	sandbox_path(&p, scratch_path("run"), SANDBOX_READ);
	sandbox_path(&p, scratch_path("dangling"), SANDBOX_READ);
	sandbox_path(&p, scratch_path("run/loop"), SANDBOX_READ);
	ck_assert_int_eq(symlink("loop", scratch_path("run/loop")), 0);
	p.notice_replaced = true;
	with_outside(&p, replaced_inside);
	with_outside(&p, appears_inside);
}
END_TEST

static int opened_before = -1;

static void
old_descriptor_inside(struct finding *f)
{
	char c = 0;

	MUST(pread(opened_before, &c, 1, 0) == 1 && c == 's');
	MUST(pwrite(opened_before, "t", 1, 0) == 1);
}

START_TEST(what_was_open_stays_usable)
{
	struct sandbox_policy p = closed();

	opened_before = open(scratch_write("secret", "s", 0600), O_RDWR | O_CLOEXEC);
	inside(&p, old_descriptor_inside);
	close(opened_before);
}
END_TEST

/* Calls that nothing of ours ever makes. */
static const struct {
	const char *name;
	long nr;
	long args[4];
} forbidden[] = {
	{ "execve", SYS_execve, { (long)"/bin/true", 0, 0, 0 } },
	{ "execveat", SYS_execveat, { AT_FDCWD, (long)"/bin/true", 0, 0 } },
	{ "ptrace", SYS_ptrace, { 0, 0, 0, 0 } },
	{ "process_vm_readv", SYS_process_vm_readv, { 1, 0, 0, 0 } },
	{ "process_vm_writev", SYS_process_vm_writev, { 1, 0, 0, 0 } },
	{ "kill", SYS_kill, { 1, 0, 0, 0 } },
	{ "tkill", SYS_tkill, { 1, 0, 0, 0 } },
	{ "tgkill of another", SYS_tgkill, { 1, 1, 0, 0 } },
	{ "rt_sigqueueinfo", SYS_rt_sigqueueinfo, { 1, 0, 0, 0 } },
	{ "pidfd_open", SYS_pidfd_open, { 1, 0, 0, 0 } },
	{ "setuid", SYS_setuid, { 0, 0, 0, 0 } },
	{ "setgid", SYS_setgid, { 0, 0, 0, 0 } },
	{ "setreuid", SYS_setreuid, { 0, 0, 0, 0 } },
	{ "setresuid", SYS_setresuid, { 0, 0, 0, 0 } },
	{ "setresgid", SYS_setresgid, { 0, 0, 0, 0 } },
	{ "setgroups", SYS_setgroups, { 0, 0, 0, 0 } },
	{ "setfsuid", SYS_setfsuid, { 0, 0, 0, 0 } },
	{ "capset", SYS_capset, { 0, 0, 0, 0 } },
	{ "chroot", SYS_chroot, { (long)"/", 0, 0, 0 } },
	{ "chown", SYS_fchownat, { AT_FDCWD, (long)"/", -1, -1 } },
	{ "mount", SYS_mount, { 0, 0, 0, 0 } },
	{ "umount", SYS_umount2, { 0, 0, 0, 0 } },
	{ "fsopen", SYS_fsopen, { 0, 0, 0, 0 } },
	{ "unshare", SYS_unshare, { CLONE_NEWUSER, 0, 0, 0 } },
	{ "setns", SYS_setns, { 0, 0, 0, 0 } },
	{ "bpf", SYS_bpf, { 0, 0, 0, 0 } },
	{ "init_module", SYS_init_module, { 0, 0, 0, 0 } },
	{ "finit_module", SYS_finit_module, { 0, 0, 0, 0 } },
	{ "kexec_load", SYS_kexec_load, { 0, 0, 0, 0 } },
	{ "keyctl", SYS_keyctl, { 0, 0, 0, 0 } },
	{ "add_key", SYS_add_key, { 0, 0, 0, 0 } },
	{ "perf_event_open", SYS_perf_event_open, { 0, 0, 0, 0 } },
	{ "userfaultfd", SYS_userfaultfd, { 0, 0, 0, 0 } },
	{ "io_uring_setup", SYS_io_uring_setup, { 1, 0, 0, 0 } },
	{ "io_uring_enter", SYS_io_uring_enter, { 0, 0, 0, 0 } },
	{ "memfd_create", SYS_memfd_create, { (long)"x", 0, 0, 0 } },
	{ "open_by_handle_at", SYS_open_by_handle_at, { 0, 0, 0, 0 } },
	{ "personality", SYS_personality, { 0, 0, 0, 0 } },
	{ "reboot", SYS_reboot, { 0, 0, 0, 0 } },
	{ "settimeofday", SYS_settimeofday, { 0, 0, 0, 0 } },
	{ "sethostname", SYS_sethostname, { 0, 0, 0, 0 } },
	{ "quotactl", SYS_quotactl, { 0, 0, 0, 0 } },
	{ "setpriority", SYS_setpriority, { 0, 0, 0, 0 } },
	{ "shmget", SYS_shmget, { 0, 1, 0, 0 } },
	{ "listen", SYS_listen, { 0, 1, 0, 0 } },
	{ "bind", SYS_bind, { 0, 0, 0, 0 } },
	{ "seccomp", SYS_seccomp, { 0, 0, 0, 0 } },
	{ "prctl PR_SET_DUMPABLE", SYS_prctl, { PR_SET_DUMPABLE, 1, 0, 0 } },
	{ "clone process", SYS_clone, { SIGCHLD, 0, 0, 0 } },
	{ "clone into a name space", SYS_clone, { CLONE_NEWUSER | SIGCHLD, 0, 0, 0 } },
#ifdef SYS_fork
	{ "fork", SYS_fork, { 0, 0, 0, 0 } },
	{ "vfork", SYS_vfork, { 0, 0, 0, 0 } },
	{ "x32 getpid", 0x40000000 + SYS_getpid, { 0, 0, 0, 0 } },
#endif
};

static void
calls_inside(struct finding *f)
{
	for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++) {
		const long *a = forbidden[i].args;
		long rc;

		errno = 0;
		rc = syscall(forbidden[i].nr, a[0], a[1], a[2], a[3]);
		if (rc != -1 || errno != EPERM) {
			snprintf(f->text, sizeof(f->text), "%s: %ld %s", forbidden[i].name, rc, strerror(errno));
			return;
		}
	}
	DENIED(syscall(SYS_clone3, NULL, 0), ENOSYS);
	DENIED((long)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), EPERM);
	MUST(fork() == -1);
	MUST(system(NULL) == 0 || system("true") == -1);
}

START_TEST(rare_calls_are_denied)
{
	struct sandbox_policy open = { .inet = true, .threads = true, .connect_any = true }, p = closed();

	inside(&p, calls_inside);
	inside(&open, calls_inside);	/* the widest policy gives no more */
}
END_TEST

static void
hardening_inside(struct finding *f)
{
	struct rlimit r;

	MUST(prctl(PR_GET_DUMPABLE) == 0);
	MUST(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	MUST(getrlimit(RLIMIT_CORE, &r) == 0 && r.rlim_cur == 0 && r.rlim_max == 0);
	MUST(strncmp(sandbox_status(), "seccomp+landlock(", 17) == 0);
	r.rlim_cur = r.rlim_max = RLIM_INFINITY;
	DENIED(setrlimit(RLIMIT_CORE, &r), EPERM);
}

START_TEST(process_is_hardened)
{
	struct sandbox_policy p = closed();

	ck_assert_str_eq(sandbox_status(), "none");
	inside(&p, hardening_inside);
}
END_TEST

/* What older kernels give, as far as this one can play them: which versions, and what info says then. */
static const struct {
	int abi;
	bool connect_any;
	const char *says;
} older[] = {
	{ 1, false, "seccomp+landlock(1), no truncate rules, no port rules, no scopes" },
	{ 2, false, "seccomp+landlock(2), no truncate rules, no port rules, no scopes" },
	{ 2, true, "seccomp+landlock(2), no truncate rules, no scopes" },
	{ 3, false, "seccomp+landlock(3), no port rules, no scopes" },
	{ 4, false, "seccomp+landlock(4), no scopes" },
	{ 6, false, "seccomp+landlock(6)" },
};
static int older_now;
static uint16_t older_port;
static unsigned older_warnings;

static void
count_warnings(void *ctx, enum log_level level, const char *tag, const char *text)
{
	(void)ctx;
	older_warnings += level == LOG_LVL_WARN && strcmp(tag, "sandbox") == 0 &&
	    strstr(text, "the kernel's Landlock (version ") != NULL;
}

static int connect_to(uint16_t port);
static int listener(uint16_t *port);

static void
older_inside(struct finding *f)
{
	const char *says = older[older_now].says;

	MUST(strcmp(sandbox_status(), says) == 0);
	MUST(older_warnings == (strstr(says, "no ") != NULL));
	/* The file rules are there in any version, the ports as far as it is said. */
	DENIED(open("/etc/passwd", O_RDONLY), EACCES);
	if (older[older_now].connect_any || strstr(says, "no port rules") != NULL)
		MUST(connect_to(older_port) == 0);
	else
		DENIED(connect_to(older_port), EACCES);
}

START_TEST(older_kernels)
{
	struct sandbox_policy p = { .inet = true, .connect_any = older[_i].connect_any,
	    .landlock_abi_max = older[_i].abi };
	int fd;

	if (landlock_abi() < older[_i].abi)
		return;
	older_now = _i;
	older_warnings = 0;
	fd = listener(&older_port);
	log_tap(LOG_LVL_WARN, count_warnings, NULL);
	inside(&p, older_inside);
	log_tap(LOG_LVL_WARN, NULL, NULL);
	close(fd);
}
END_TEST

static void *
nothing(void *arg)
{
	return arg;
}

static void
threads_inside(struct finding *f)
{
	pthread_t t;
	void *out = NULL;

	MUST(pthread_create(&t, NULL, nothing, f) == 0);
	MUST(pthread_join(t, &out) == 0 && out == f);
}

static void
no_threads_inside(struct finding *f)
{
	pthread_t t;

	MUST(pthread_create(&t, NULL, nothing, f) != 0);
}

START_TEST(threads_only_by_policy)
{
	struct sandbox_policy with = { .threads = true }, without = closed();

	inside(&with, threads_inside);
	inside(&without, no_threads_inside);
}
END_TEST

static int
connect_to(uint16_t port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(port),
	    .sin_addr.s_addr = htonl(0x7f010001) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc, saved;

	if (fd < 0)
		return -1;
	rc = connect(fd, (struct sockaddr *)&sa, sizeof(sa));
	saved = errno;
	close(fd);
	errno = saved;
	return rc;
}

/* A listener on 127.1.0.1 and its port. */
static int
listener(uint16_t *port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f010001) };
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	ck_assert_int_eq(listen(fd, 8), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	*port = ntohs(sa.sin_port);
	return fd;
}

static uint16_t good_port, other_port;
static int accepting = -1;

static void
one_port_inside(struct finding *f)
{
	MUST(connect_to(good_port) == 0);
	if (landlock_abi() >= 4)
		DENIED(connect_to(other_port), EACCES);
	MUST(accept4(accepting, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC) >= 0);	/* opened before */
	DENIED(socket(AF_NETLINK, SOCK_RAW, 0), EPERM);
	DENIED(socket(AF_PACKET, SOCK_RAW, 0), EPERM);
	DENIED(socket(AF_VSOCK, SOCK_STREAM, 0), EPERM);
}

/* Ways around the port rules, and options that reach into the kernel: none of them, whatever the policy. */
static void
sockets_inside(struct finding *f)
{
	static const int families[] = { AF_INET, AF_INET6 };
	static const struct { int type, protocol; } kinds[] = {
		{ SOCK_STREAM, 262 },				/* IPPROTO_MPTCP */
		{ SOCK_STREAM | SOCK_NONBLOCK, 262 }, { SOCK_STREAM, IPPROTO_SCTP }, { SOCK_SEQPACKET, 0 },
		{ SOCK_DGRAM, 0 }, { SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP }, { SOCK_DGRAM, IPPROTO_ICMP },
		{ SOCK_RAW, IPPROTO_RAW }, { SOCK_DCCP, 0 },
	};
	static const struct { int level, name; } options[] = {
		{ IPPROTO_TCP, TCP_FASTOPEN_CONNECT }, { IPPROTO_TCP, TCP_FASTOPEN }, { IPPROTO_TCP, TCP_ULP },
		{ IPPROTO_TCP, TCP_REPAIR }, { IPPROTO_TCP, TCP_CONGESTION }, { SOL_SOCKET, SO_ATTACH_FILTER },
		{ SOL_SOCKET, SO_ATTACH_BPF }, { SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF },
		{ SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF }, { SOL_SOCKET, SO_REUSEPORT }, { SOL_SOCKET, SO_MARK },
		{ SOL_SOCKET, SO_BINDTODEVICE }, { IPPROTO_IP, IP_TRANSPARENT }, { IPPROTO_IP, IP_OPTIONS },
		{ IPPROTO_IP, IP_RECVERR }, { IPPROTO_IPV6, IPV6_RECVERR },	/* not without UDP */
	};
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(good_port),
	    .sin_addr.s_addr = htonl(0x7f010001) };
	struct iovec iov = { (void *)(uintptr_t)"x", 1 };
	struct mmsghdr m = { .msg_hdr = { .msg_name = &sa, .msg_namelen = sizeof(sa), .msg_iov = &iov, .msg_iovlen = 1 } };
	const int on = 1;
	int fd;

	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
			DENIED(socket(families[i], kinds[k].type, kinds[k].protocol), EPERM);
	/* The kernel does not look at the upper halves; nothing gets by with bits there. */
	DENIED(syscall(SYS_socket, AF_INET, SOCK_DGRAM | 1L << 32, 0), EPERM);
	DENIED(syscall(SYS_socket, AF_INET, SOCK_STREAM, 262 | 1L << 32), EPERM);
	MUST((fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP)) >= 0);
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		DENIED(setsockopt(fd, options[i].level, options[i].name, &on, sizeof(on)), EPERM);
	DENIED(sendto(fd, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&sa, sizeof(sa)), EPERM);
	DENIED(sendto(fd, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL, (struct sockaddr *)&sa, sizeof(sa)), EPERM);
	DENIED(sendmsg(fd, &m.msg_hdr, MSG_FASTOPEN | MSG_DONTWAIT), EPERM);
	DENIED(sendmmsg(fd, &m, 1, MSG_FASTOPEN), EPERM);
	MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0);
	MUST(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) == 0);
	MUST(connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 || errno == EINPROGRESS);
	close(fd);
}

static void
datagrams_only_inside(struct finding *f)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd;

	strncpy(sa.sun_path, scratch_path("log"), sizeof(sa.sun_path) - 1);
	DENIED(socket(AF_UNIX, SOCK_STREAM, 0), EPERM);
	DENIED(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), EPERM);
	DENIED(socket(AF_UNIX, SOCK_SEQPACKET, 0), EPERM);
	MUST((fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) >= 0);	/* as syslog(3) and sd_notify(3) do */
	MUST(connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0);
	MUST(send(fd, "x", 1, MSG_NOSIGNAL) == 1);
	close(fd);
}

static void
any_port_inside(struct finding *f)
{
	MUST(connect_to(good_port) == 0);
	MUST(connect_to(other_port) == 0);
}

static void
no_inet_inside(struct finding *f)
{
	int pair[2];

	DENIED(socket(AF_INET, SOCK_STREAM, 0), EPERM);
	DENIED(socket(AF_INET6, SOCK_DGRAM, 0), EPERM);
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	MUST(write(pair[0], "x", 1) == 1);
}

START_TEST(network_by_policy)
{
	struct sandbox_policy one = { .inet = true }, any = { .inet = true, .connect_any = true }, none = closed();
	int other;

	accepting = listener(&good_port);
	other = listener(&other_port);
	sandbox_port(&one, good_port);
	sandbox_port(&one, 0);
	inside(&one, one_port_inside);
	inside(&any, any_port_inside);
	inside(&none, no_inet_inside);
	inside(&one, sockets_inside);
	any.unix_stream = any.threads = true;
	inside(&any, sockets_inside);
	close(accepting);
	close(other);
}
END_TEST

START_TEST(unix_streams_by_policy)
{
	struct sandbox_policy without = { .inet = true };
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	strncpy(sa.sun_path, scratch_path("log"), sizeof(sa.sun_path) - 1);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	inside(&without, datagrams_only_inside);
	close(fd);
}
END_TEST

static void
abstract_inside(struct finding *f)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX, .sun_path = "\0triumvir-check-sandbox" };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	MUST(fd >= 0);
	DENIED(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), EPERM);
}

START_TEST(abstract_sockets_outside_are_hidden)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX, .sun_path = "\0triumvir-check-sandbox" };
	struct sandbox_policy p = closed();
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (landlock_abi() < 6) {
		fprintf(stderr, "skipped: Landlock has scopes from ABI 6 on\n");
		close(fd);
		return;
	}
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	ck_assert_int_eq(listen(fd, 1), 0);
	p.unix_stream = true;
	inside(&p, abstract_inside);
	close(fd);
}
END_TEST

static int
put(DB_ENV *env, DB *db, char key, char value)
{
	DBT k = { .data = &key, .size = 1 }, v = { .data = &value, .size = 1 };
	DB_TXN *txn;
	int rc = env->txn_begin(env, NULL, &txn, 0);

	if (rc != 0)
		return rc;
	rc = db->put(db, txn, &k, &v, 0);
	return rc == 0 ? txn->commit(txn, 0) : rc;
}

struct writer {
	DB_ENV *env;
	DB *db;
	int rc;
};

static void *
write_some(void *arg)
{
	struct writer *w = arg;

	for (char c = 'a'; c <= 'z' && w->rc == 0; c++)
		w->rc = put(w->env, w->db, c, c);
	if (w->rc == 0)
		w->rc = w->env->txn_checkpoint(w->env, 0, 0, DB_FORCE);
	return NULL;
}

static void
bdb_inside(struct finding *f)
{
	const u_int32_t flags = DB_CREATE | DB_INIT_MPOOL | DB_INIT_LOG | DB_INIT_TXN | DB_INIT_LOCK | DB_RECOVER |
	    DB_THREAD;
	struct writer w = { NULL, NULL, 0 };
	char **logs = NULL;
	pthread_t t;

	MUST((errno = db_env_create(&w.env, 0)) == 0);
	MUST((errno = w.env->open(w.env, scratch_path("db"), flags | DB_PRIVATE, 0600)) == 0);
	MUST((errno = db_create(&w.db, w.env, 0)) == 0);
	MUST((errno = w.db->open(w.db, NULL, "x.db", NULL, DB_BTREE, DB_CREATE | DB_AUTO_COMMIT |
	    DB_THREAD, 0600)) == 0);
	MUST(pthread_create(&t, NULL, write_some, &w) == 0);
	MUST((errno = put(w.env, w.db, '0', '0')) == 0);
	MUST(pthread_join(t, NULL) == 0);
	MUST((errno = w.rc) == 0);
	MUST((errno = w.env->log_archive(w.env, &logs, DB_ARCH_REMOVE)) == 0);
	MUST((errno = w.db->close(w.db, 0)) == 0);
	MUST((errno = w.env->close(w.env, 0)) == 0);
	/* again, with regions in files */
	MUST((errno = db_env_create(&w.env, 0)) == 0);
	MUST((errno = w.env->open(w.env, scratch_path("db"), flags, 0600)) == 0);
	MUST((errno = w.env->close(w.env, 0)) == 0);
}

START_TEST(berkeley_db_works)
{
	struct sandbox_policy p = { .threads = true };

	ck_assert_int_eq(mkdir(scratch_path("db"), 0700), 0);
	sandbox_path(&p, scratch_path("db"), SANDBOX_WRITE);
	inside(&p, bdb_inside);
}
END_TEST

static void
on_timer(struct ev_loop *loop, ev_timer *w, int events)
{
	(void)events;
	ev_timer_stop(loop, w);
	++*(int *)w->data;
}

static void
on_async(struct ev_loop *loop, ev_async *w, int events)
{
	(void)events;
	ev_async_stop(loop, w);
	++*(int *)w->data;
}

static void
on_readable(struct ev_loop *loop, ev_io *w, int events)
{
	(void)events;
	ev_io_stop(loop, w);
	++*(int *)w->data;
}

static void
libraries_inside(struct finding *f)
{
	struct ev_loop *loop = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
	int fired = 0, pair[2];
	uint8_t key[32], *locked;
	ev_timer timer;
	ev_async async;
	ev_io io;

	MUST(loop != NULL && ev_backend(loop) == EVBACKEND_EPOLL);
	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
	MUST(write(pair[0], "x", 1) == 1);
	ev_timer_init(&timer, on_timer, 0.001, 0);
	ev_async_init(&async, on_async);
	ev_io_init(&io, on_readable, pair[1], EV_READ);
	timer.data = async.data = io.data = &fired;
	ev_timer_start(loop, &timer);
	ev_async_start(loop, &async);
	ev_io_start(loop, &io);
	ev_async_send(loop, &async);
	ev_run(loop, 0);
	MUST(fired == 3);
	ev_loop_destroy(loop);
	MUST(sodium_init() >= 0);
	randombytes_buf(key, sizeof(key));
	MUST((locked = sodium_malloc(32)) != NULL);
	sodium_free(locked);
	log_info("sandbox", "a line from inside");
}

START_TEST(libraries_work)
{
	struct sandbox_policy p = closed();

	inside(&p, libraries_inside);
}
END_TEST

static void
abort_inside(struct finding *f)
{
	(void)f;
	abort();
}

START_TEST(abort_still_aborts)
{
	struct sandbox_policy p = closed();
	struct finding f;
	char errbuf[256];
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		if (sandbox_enter(&p, false, errbuf, sizeof(errbuf)) == TV_OK)
			abort_inside(&f);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
END_TEST

/* A second thread that lives until the process ends. */
static void *
wait_for_end(void *arg)
{
	for (;;)
		pause();
	return arg;
}

START_TEST(mistakes_are_refused)
{
	struct sandbox_policy p = closed();
	char errbuf[512] = "";
	int status;
	pthread_t t;
	pid_t pid;

	sandbox_path(&p, scratch_path("missing"), SANDBOX_WRITE);
	pid = fork();
	if (pid == 0) {
		bool told = sandbox_enter(&p, true, errbuf, sizeof(errbuf)) == TV_ESYS && strstr(errbuf,
		    "missing") != NULL;

		_exit(!told);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	pid = fork();
	if (pid == 0) {
		struct sandbox_policy empty = closed();
		bool told;

		if (pthread_create(&t, NULL, wait_for_end, NULL) != 0)
			_exit(2);
		told = sandbox_enter(&empty, false, errbuf, sizeof(errbuf)) == TV_EINVAL && strstr(errbuf,
		    "threads") != NULL;
		_exit(!told);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

static void
setup(void)
{
	scratch_open();
}

int
main(void)
{
	Suite *s = suite_create("sandbox");
	TCase *t = tcase_create("inside");
	SRunner *r;
	int failed;

	if (landlock_abi() < 1) {
		fprintf(stderr, "skipped: this kernel has no Landlock\n");
		return 77;
	}
	tcase_add_checked_fixture(t, setup, scratch_close);
	tcase_add_test(t, only_named_files);
	tcase_add_test(t, replaced_files_are_noticed);
	tcase_add_test(t, what_was_open_stays_usable);
	tcase_add_test(t, rare_calls_are_denied);
	tcase_add_test(t, process_is_hardened);
	tcase_add_loop_test(t, older_kernels, 0, (int)(sizeof(older) / sizeof(older[0])));
	tcase_add_test(t, threads_only_by_policy);
	tcase_add_test(t, network_by_policy);
	tcase_add_test(t, unix_streams_by_policy);
	tcase_add_test(t, abstract_sockets_outside_are_hidden);
	tcase_add_test(t, berkeley_db_works);
	tcase_add_test(t, libraries_work);
	tcase_add_test(t, abort_still_aborts);
	tcase_add_test(t, mistakes_are_refused);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
