/*
 * Walls: seccomp (libseccomp) and Landlock, in the spirit of pledge and unveil.
 * The policy is an allow list; everything else fails with EPERM (seccomp: EPERM for calls
 * that a library may try, kill for exec, ptrace, module and mount calls is not needed: EPERM too).
 */
#ifndef TV_SANDBOX_H
#define TV_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define SANDBOX_PATHS_MAX 16
#define SANDBOX_PORTS_MAX 16

enum sandbox_access { SANDBOX_READ, SANDBOX_WRITE /* read, write, create, remove below it */, SANDBOX_CONNECT /* unix socket file */ };

struct sandbox_policy {
	struct { const char *path; enum sandbox_access access; } paths[SANDBOX_PATHS_MAX];
	unsigned path_count;
	uint16_t connect_ports[SANDBOX_PORTS_MAX];	/* TCP connect allowed; where Landlock knows (ABI 4) */
	unsigned connect_port_count;
	bool connect_any;		/* TCP connect to any port (rpcd: retry_join with odd ports, checks) */
	bool inet;			/* may create AF_INET/AF_INET6 sockets at all */
	bool threads;			/* may clone threads (never processes) */
};

void sandbox_path(struct sandbox_policy *p, const char *path, enum sandbox_access access);
void sandbox_port(struct sandbox_policy *p, uint16_t port);
/*
 * Locks the calling process for good.  best_effort: parts that the kernel lacks are logged and left out;
 * else TV_EPERM with a sentence that names the part and the setting that overrides (sandbox = "best-effort").
 * Never lets exec, ptrace, setuid, mount, bpf, module, keyctl, perf, userfaultfd or io_uring calls through.
 */
enum tv_err sandbox_enter(const struct sandbox_policy *p, bool best_effort, char *errbuf, size_t cap);
/* What is in force, for `info`: "seccomp+landlock(7)", "none". */
const char *sandbox_status(void);

#endif
