/*
 * seccomp: which system calls there are.  The list holds what libev, sockets, Berkeley DB,
 * libsodium, libcurl and the C library need at work, and nothing that starts a program,
 * touches another process, changes identity or reaches into the kernel's rarer corners.
 */
#include "config.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <seccomp.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/proc/sandbox_parts.h"

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44
#endif

#define NITEMS(a_) (sizeof(a_) / sizeof((a_)[0]))

/* By name: some exist on one architecture only. */
static const char *const plain[] = {
	/* bytes in and out of descriptors */
	"read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2",
	"lseek", "_llseek", "close", "dup", "dup2", "dup3", "fcntl", "fcntl64", "pipe", "pipe2", "eventfd", "eventfd2",
	"fsync", "fdatasync", "sync_file_range", "ftruncate", "ftruncate64", "fallocate", "fadvise64", "flock",
	"sendfile", "sendfile64", "copy_file_range",
	/* files; Landlock says which */
	"open", "openat", "stat", "stat64", "fstat", "fstat64", "lstat", "lstat64", "newfstatat", "fstatat64", "statx",
	"access", "faccessat", "faccessat2", "readlink", "readlinkat", "getdents", "getdents64", "getcwd", "rename",
	"renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "chmod", "fchmod",
	"fchmodat", "truncate", "truncate64", "umask", "utimensat", "statfs", "statfs64", "fstatfs", "fstatfs64",
	/* memory; mmap and mprotect are below */
	"munmap", "mremap", "brk", "madvise", "msync", "mincore", "mlock", "mlock2", "munlock", "membarrier",
	/* waiting and time */
	"epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll",
	"ppoll_time64", "select", "_newselect", "pselect6", "pselect6_time64", "nanosleep", "clock_nanosleep",
	"clock_nanosleep_time64", "clock_gettime", "clock_gettime64", "clock_getres", "clock_getres_time64",
	"gettimeofday", "time", "timerfd_create", "timerfd_settime", "timerfd_settime64", "timerfd_gettime",
	"timerfd_gettime64",
	/* sockets; making them, sending and their options are below */
	"connect", "accept", "accept4", "recvfrom", "recvmsg", "recvmmsg", "recvmmsg_time64", "recv", "shutdown",
	"getsockname", "getpeername", "getsockopt",
	/* threads and signals of our own */
	"futex", "futex_time64", "set_robust_list", "get_robust_list", "set_tid_address", "rseq", "sched_yield",
	"sched_getaffinity", "sched_getparam", "sched_getscheduler", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn",
	"sigreturn", "rt_sigpending", "rt_sigsuspend", "rt_sigtimedwait", "rt_sigtimedwait_time64", "sigaltstack",
	"restart_syscall", "exit", "exit_group",
	/* facts about ourselves, and a child that was started before */
	"getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups",
	"getuid32", "geteuid32", "getgid32", "getegid32", "getresuid32", "getresgid32", "getgroups32",
	"getpgrp", "getpgid", "getsid", "getrlimit", "ugetrlimit", "getrusage", "times", "sysinfo", "uname", "getcpu",
	"getrandom", "wait4", "waitid",
};

struct filter {
	scmp_filter_ctx ctx;
	int failed;		/* first error of libseccomp, a negative errno */
};

static void
rule(struct filter *f, uint32_t action, const char *name, unsigned count, const struct scmp_arg_cmp *cmp)
{
	int nr = seccomp_syscall_resolve_name(name);
	int rc;

	if (nr == __NR_SCMP_ERROR || f->failed != 0)
		return;		/* unknown to this libseccomp: stays denied */
	rc = seccomp_rule_add_array(f->ctx, action, nr, count, cmp);
	if (rc != 0 && rc != -EDOM)
		f->failed = rc;
}

static void
allow(struct filter *f, const char *name)
{
	rule(f, SCMP_ACT_ALLOW, name, 0, NULL);
}

/* Several rules for one call allow what any of them allows. */
static void
allow_equal(struct filter *f, const char *name, unsigned arg, uint64_t value)
{
	rule(f, SCMP_ACT_ALLOW, name, 1, &(struct scmp_arg_cmp){ arg, SCMP_CMP_EQ, value, 0 });
}

static void
allow_masked(struct filter *f, const char *name, unsigned arg, uint64_t mask, uint64_t value)
{
	rule(f, SCMP_ACT_ALLOW, name, 1, &(struct scmp_arg_cmp){ arg, SCMP_CMP_MASKED_EQ, mask, value });
}

/* The kernel looks at the lower half of such an argument only, and so do we. */
static void
allow_socket(struct filter *f, int family, int type, int protocol)
{
	const uint32_t flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
	const struct scmp_arg_cmp cmp[] = {
		{ 0, SCMP_CMP_EQ, (uint64_t)family, 0 },
		{ 1, SCMP_CMP_MASKED_EQ, ~flags, (uint64_t)type },
		{ 2, SCMP_CMP_EQ, (uint64_t)protocol, 0 },
	};

	rule(f, SCMP_ACT_ALLOW, "socket", NITEMS(cmp), cmp);
}

/* MSG_FASTOPEN connects, and Landlock does not see it. */
static void
send_rules(struct filter *f)
{
	static const struct { const char *name; unsigned flags; } sends[] = {
		{ "sendto", 3 }, { "send", 3 }, { "sendmsg", 2 }, { "sendmmsg", 3 },
	};

	for (size_t i = 0; i < NITEMS(sends); i++)
		allow_masked(f, sends[i].name, sends[i].flags, MSG_FASTOPEN, 0);
}

static void
allow_option(struct filter *f, int level, int name)
{
	rule(f, SCMP_ACT_ALLOW, "setsockopt", 2, (struct scmp_arg_cmp[]){
	    { 1, SCMP_CMP_EQ, (uint64_t)level, 0 }, { 2, SCMP_CMP_EQ, (uint64_t)name, 0 } });
}

/* Those that we and sd_notify(3) set on sockets made or accepted inside. */
static void
option_rules(struct filter *f, const struct sandbox_policy *p)
{
	static const struct { int level, name; } options[] = {
		{ SOL_SOCKET, SO_KEEPALIVE }, { SOL_SOCKET, SO_SNDBUF },
		{ IPPROTO_TCP, TCP_NODELAY }, { IPPROTO_TCP, TCP_KEEPIDLE },
		{ IPPROTO_TCP, TCP_KEEPINTVL }, { IPPROTO_TCP, TCP_KEEPCNT }, { IPPROTO_TCP, TCP_USER_TIMEOUT },
		{ IPPROTO_TCP, TCP_RTO_MAX_MS },
	};

	for (size_t i = 0; i < NITEMS(options); i++)
		allow_option(f, options[i].level, options[i].name);
	if (!p->inet || !p->udp)
		return;
	/* glibc asks no name server over a socket on which it cannot set one of these. */
	allow_option(f, IPPROTO_IP, IP_RECVERR);
	allow_option(f, IPPROTO_IPV6, IPV6_RECVERR);
}

/*
 * Landlock's port rules see connect(2) of TCP sockets and nothing else, so there is nothing else: no MPTCP, SCTP or raw
 * sockets, and no UDP but where it is asked for.
 */
static void
socket_rules(struct filter *f, const struct sandbox_policy *p)
{
	static const int families[] = { AF_INET, AF_INET6 };

	allow_socket(f, AF_UNIX, SOCK_DGRAM, 0);
	if (p->unix_stream)
		allow_socket(f, AF_UNIX, SOCK_STREAM, 0);
	allow_equal(f, "socketpair", 0, AF_UNIX);
	for (size_t i = 0; i < NITEMS(families) && p->inet; i++) {
		allow_socket(f, families[i], SOCK_STREAM, 0);
		allow_socket(f, families[i], SOCK_STREAM, IPPROTO_TCP);
	}
	for (size_t i = 0; i < NITEMS(families) && p->inet && p->udp; i++) {
		allow_socket(f, families[i], SOCK_DGRAM, 0);
		allow_socket(f, families[i], SOCK_DGRAM, IPPROTO_UDP);
	}
	send_rules(f);
	option_rules(f, p);
}

/* Threads, never processes or name spaces; ENOSYS makes the C library fall back from clone3, whose
 * flags a filter cannot see. */
static void
thread_rules(struct filter *f, const struct sandbox_policy *p)
{
	const uint64_t space = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
	    CLONE_NEWPID | CLONE_NEWNET;

	rule(f, SCMP_ACT_ERRNO(ENOSYS), "clone3", 0, NULL);
	if (p->threads)
		allow_masked(f, "clone", 0, CLONE_THREAD | space, CLONE_THREAD);
	allow_equal(f, "tgkill", 0, (uint64_t)getpid());	/* abort(), pthread_kill() */
}

static void
argument_rules(struct filter *f)
{
	static const unsigned long ioctls[] = { TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX };

	for (size_t i = 0; i < NITEMS(ioctls); i++)
		allow_equal(f, "ioctl", 1, ioctls[i]);
	allow_masked(f, "mmap", 2, PROT_EXEC, 0);
	allow_masked(f, "mmap2", 2, PROT_EXEC, 0);
	allow_masked(f, "mprotect", 2, PROT_EXEC, 0);
	allow_equal(f, "prctl", 0, PR_SET_NAME);
	allow_equal(f, "prctl", 0, PR_GET_NAME);
	allow_equal(f, "prctl", 0, PR_GET_NO_NEW_PRIVS);
	allow_equal(f, "prctl", 0, PR_GET_DUMPABLE);
	allow_equal(f, "prctl", 0, PR_GET_SECCOMP);
	allow_equal(f, "prlimit64", 2, 0);	/* new limit NULL: only asks */
}

static enum tv_err
failed(const char *what, int rc, char *errbuf, size_t cap)
{
	return tv_fail(errbuf, cap, TV_ESYS, "sandbox: seccomp: %s: %s", what, strerror(-rc));
}

static enum tv_err
load(struct filter *f, char *errbuf, size_t cap)
{
	int rc;

	if (f->failed != 0)
		return failed("rule", f->failed, errbuf, cap);
	if (seccomp_attr_set(f->ctx, SCMP_FLTATR_CTL_TSYNC, 1) == -EOPNOTSUPP)
		return tv_fail(errbuf, cap, TV_EAGAIN, "the kernel has no seccomp(2) system call");
	/* Calls of another ABI (i386, x32) are denied as well, not fatal. */
	if ((rc = seccomp_attr_set(f->ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(EPERM))) != 0)
		return failed("attribute", rc, errbuf, cap);
	/* A binary tree instead of a chain of comparisons; older libraries do without. */
	(void)seccomp_attr_set(f->ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if ((rc = seccomp_load(f->ctx)) != 0)
		return failed("load", rc, errbuf, cap);
	return TV_OK;
}

enum tv_err
sandbox_seccomp(const struct sandbox_policy *p, char *errbuf, size_t cap)
{
	struct filter f = { NULL, 0 };
	enum tv_err err;

	/* Asking for the mode fails with EINVAL only where the kernel has none. */
	if (prctl(PR_GET_SECCOMP) < 0)
		return tv_fail(errbuf, cap, TV_EAGAIN, "the kernel has no seccomp filters (CONFIG_SECCOMP_FILTER)");
	f.ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	if (f.ctx == NULL)
		return failed("init", -ENOMEM, errbuf, cap);
	for (size_t i = 0; i < NITEMS(plain); i++)
		allow(&f, plain[i]);
	socket_rules(&f, p);
	thread_rules(&f, p);
	argument_rules(&f);
	err = load(&f, errbuf, cap);
	seccomp_release(f.ctx);
	return err;
}
