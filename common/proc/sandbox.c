/* The sandbox as a whole: what comes first, and what a missing part means. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "common/base/assert.h"
#include "common/base/log.h"
#include "common/proc/sandbox_parts.h"

#define NITEMS(a_) (sizeof(a_) / sizeof((a_)[0]))

static char status[128] = "none";

/* Kinds of rules that came after Landlock itself. */
static const struct {
	int abi;
	const char *what, *linux_version;
	bool for_ports;		/* not missed by who may connect anywhere */
} later_rules[] = {
	{ 3, "no truncate rules", "6.2", false },
	{ 4, "no port rules", "6.7", true },
	{ 6, "no scopes", "6.12", false },
};

void
sandbox_path(struct sandbox_policy *p, const char *path, enum sandbox_access access)
{
	if (path == NULL)
		return;
	TV_ASSERT(p->path_count < SANDBOX_PATHS_MAX);
	p->paths[p->path_count].path = path;
	p->paths[p->path_count++].access = access;
}

void
sandbox_port(struct sandbox_policy *p, uint16_t port)
{
	if (port == 0)
		return;
	TV_ASSERT(p->connect_port_count < SANDBOX_PORTS_MAX);
	p->connect_ports[p->connect_port_count++] = port;
}

void
sandbox_internet(struct sandbox_policy *p)
{
	static const char *const files[SANDBOX_INTERNET_PATHS] = {
		"/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf",
		"/etc/services", "/run/systemd/resolve", "/etc/ssl", "/usr/lib/ssl", "/usr/share/ca-certificates",
		"/usr/local/share/ca-certificates", "/etc/pki", "/sys/devices/system/cpu/online",
	};

	p->inet = p->udp = p->connect_any = p->threads = p->notice_replaced = true;
	for (unsigned i = 0; i < SANDBOX_INTERNET_PATHS; i++)
		sandbox_path(p, files[i], SANDBOX_READ);
}

/* Threads of this process; 1 when /proc is not there to ask. */
static unsigned
thread_count(void)
{
	DIR *d = opendir("/proc/self/task");
	unsigned n = 0;

	if (d == NULL)
		return 1;
	for (struct dirent *e; (e = readdir(d)) != NULL;)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

/* Neither cores nor debuggers, and no program may ever give privileges. */
static enum tv_err
harden(char *errbuf, size_t cap)
{
	struct rlimit none = { 0, 0 };

	if (setrlimit(RLIMIT_CORE, &none) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return tv_fail(errbuf, cap, TV_ESYS, "sandbox: %s", strerror(errno));
	return TV_OK;
}

/* What to do about a part that the kernel lacks: errbuf names it. */
static enum tv_err
lacking(bool best_effort, char *errbuf, size_t cap)
{
	size_t len = strlen(errbuf);

	if (best_effort) {
		log_warn("sandbox", "%s: continuing without it", errbuf);
		return TV_OK;
	}
	snprintf(errbuf + len, cap - len, "; sandbox = \"best-effort\" in cluster.conf continues without it");
	return TV_EPERM;
}

/* "landlock(2), no port rules", and one warning of what that means. */
static void
describe_landlock(const struct sandbox_policy *p, int abi, char *dst, size_t cap)
{
	char missing[160] = "";
	size_t len = (size_t)snprintf(dst, cap, "landlock(%d)", abi), said = 0;

	for (size_t i = 0; i < NITEMS(later_rules); i++) {
		if (abi >= later_rules[i].abi || (later_rules[i].for_ports && p->connect_any))
			continue;
		len += (size_t)snprintf(dst + len, cap - len, ", %s", later_rules[i].what);
		said += (size_t)snprintf(missing + said, sizeof(missing) - said, "%s%s (Linux %s)",
		    said > 0 ? ", " : "", later_rules[i].what, later_rules[i].linux_version);
	}
	if (said > 0)
		log_warn("sandbox", "the kernel's Landlock (version %d) has %s: continuing without; triumvir(7) says "
		    "what that leaves open", abi, missing);
}

enum tv_err
sandbox_enter(const struct sandbox_policy *p, bool best_effort, char *errbuf, size_t cap)
{
	char landlock[96] = "";
	enum tv_err err;
	int abi = 0;

	if (thread_count() != 1)
		return tv_fail(errbuf, cap, TV_EINVAL, "sandbox: threads were started before it");
	if ((err = harden(errbuf, cap)) != TV_OK)
		return err;
	sandbox_mark(p);
	err = sandbox_landlock(p, &abi, errbuf, cap);
	if (err == TV_OK)
		describe_landlock(p, abi, landlock, sizeof(landlock));
	else if (err != TV_EAGAIN || (err = lacking(best_effort, errbuf, cap)) != TV_OK)
		return err;
	snprintf(status, sizeof(status), "%s", abi >= 1 ? landlock : "none");
	err = sandbox_seccomp(p, errbuf, cap);
	if (err == TV_OK)
		snprintf(status, sizeof(status), "seccomp%s%s", abi >= 1 ? "+" : "", landlock);
	else if (err == TV_EAGAIN)
		err = lacking(best_effort, errbuf, cap);
	return err;
}

const char *
sandbox_status(void)
{
	return status;
}

#ifdef TV_SANITIZERS
/* LeakSanitizer asks here at exit; behind the walls its ptrace would only fail. */
int __lsan_is_turned_off(void);
int
__lsan_is_turned_off(void)
{
	return strcmp(status, "none") != 0;
}
#endif
