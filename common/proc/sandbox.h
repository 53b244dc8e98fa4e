/*
 * Walls: seccomp (libseccomp) and Landlock, in the spirit of pledge and unveil.
 * The policy is an allow list; everything else fails with EPERM (Landlock: EACCES for files and ports).
 *
 * How to live inside:
 * - What was opened before entering stays usable: a listening socket accepts, a file reads and writes,
 *   also outside the paths below.  So bind and listen (both denied inside) belong before it.
 * - Files that are opened, created or renamed later need a path that covers them.  A rule is bound to
 *   the inode that stood at the path when the sandbox was entered: give the folder, not the file,
 *   when the file is replaced by rename(2); where that would be too much, see sandbox_stale().
 * - Enter before the first thread starts: the kernel binds Landlock to one thread and its offspring.
 * - Libraries that load plug-ins (NSS, iconv, PKCS#11) must do so before: mapping code is denied inside.
 *
 * What is not covered: connecting to a unix socket by path (no Landlock version here knows it: file
 * modes and the peer's SO_PEERCRED check decide; who has no unix_stream cannot), UDP (the ports that were bound
 * before can send anywhere; new ones cannot be made), and changing mode or time stamps of files the user owns.
 * Sockets that the port rules do not see (MPTCP, SCTP, raw), connections that do not use connect (TCP_FASTOPEN),
 * and socket options that nothing of ours uses (filters, TCP_ULP) are denied by seccomp.
 */
#ifndef TV_COMMON_PROC_SANDBOX_H
#define TV_COMMON_PROC_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define SANDBOX_PATHS_MAX 24
#define SANDBOX_PORTS_MAX 16

enum sandbox_access {
	SANDBOX_READ,		/* a file, or everything below a folder; left out when it cannot be reached */
	SANDBOX_WRITE,		/* read, write, create, rename and remove below it; must exist */
	SANDBOX_CONNECT,	/* unix socket file: for the record, see above */
};

struct sandbox_policy {
	struct {
		const char *path;	/* borrowed until sandbox_enter returns */
		enum sandbox_access access;
	} paths[SANDBOX_PATHS_MAX];
	unsigned path_count;
	uint16_t connect_ports[SANDBOX_PORTS_MAX];	/* TCP connect allowed; where Landlock knows (ABI 4) */
	unsigned connect_port_count;
	bool connect_any;		/* TCP connect to any port (rpcd: retry_join with odd ports, checks) */
	bool inet;			/* may make TCP sockets at all; of UDP only what was made before */
	bool udp;			/* with inet: UDP sockets too, to ask for names (rpcd: check) */
	bool unix_stream;		/* may make AF_UNIX stream sockets; datagrams, for syslog and systemd, always */
	bool threads;			/* may clone threads (never processes) */
	bool notice_replaced;		/* sandbox_stale() watches what may be read; costs a descriptor for each path */
	int landlock_abi_max;		/* for tests: at most this version of Landlock; 0: the kernel's */
};

/* Adds a path (borrowed) or a port; more than fit is our own mistake.  NULL and 0 are ignored. */
void sandbox_path(struct sandbox_policy *p, const char *path, enum sandbox_access access);
void sandbox_port(struct sandbox_policy *p, uint16_t port);
/*
 * For processes that dial strangers anywhere, by name and with TLS: sockets and threads, and to read, the hosts file,
 * what DNS and the order of both need, and the system's certificates.  Adds SANDBOX_INTERNET_PATHS paths.
 */
#define SANDBOX_INTERNET_PATHS 13
void sandbox_internet(struct sandbox_policy *p);
/*
 * Locks the calling process for good.  best_effort: parts that the kernel lacks are logged and left out;
 * else TV_EPERM with a sentence that names the part and the setting that overrides (sandbox = "best-effort").
 * Required are seccomp and Landlock's file rules (Linux 5.13); rules for truncate (6.2), port rules (6.7)
 * and scopes (6.12) are used where the kernel has them, and one warning names those that it lacks.
 * Other failures (a missing path, threads already running): TV_EINVAL, TV_ESYS.
 * Never lets exec, fork, kill, ptrace, setuid, mount, bpf, module, keyctl, perf, userfaultfd or io_uring
 * calls through; no core files, no privileges by exec, no mapping of code.
 *
 * A sanitizer build gets exactly the same walls; LeakSanitizer, which needs ptrace, does not run behind them.
 */
enum tv_err sandbox_enter(const struct sandbox_policy *p, bool best_effort, char *errbuf, size_t cap);
/*
 * With notice_replaced: the path of a file or folder to read that is another one since sandbox_enter(), or appeared
 * (also behind a dangling link), and that the walls now keep from us; NULL: all can be read as they are.  A process
 * that lives for long looks here before it relies on such files (the C library's resolver reads them anew each time),
 * and ends with status 0 to be started anew.  Costs a stat(2) for each path; valid until the process ends.  One thread
 * only.
 */
const char *sandbox_stale(void);
/* What is in force, for `info`: "seccomp+landlock(7)", "seccomp+landlock(3), no port rules, no scopes", "none". */
const char *sandbox_status(void);

#endif
