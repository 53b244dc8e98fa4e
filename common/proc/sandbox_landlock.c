/*
 * Landlock: which files may be opened, which TCP ports dialled.
 * The structures are written down here, since the installed kernel headers may be older than the
 * running kernel.  Source: Documentation/userspace-api/landlock.rst of Linux 6.12.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/proc/sandbox_parts.h"

/* The same on every architecture. */
#define NR_CREATE_RULESET 444
#define NR_ADD_RULE 445
#define NR_RESTRICT_SELF 446

#define CREATE_VERSION 1u
#define RULE_PATH_BENEATH 1
#define RULE_NET_PORT 2

enum {
	FS_EXECUTE = 1 << 0, FS_WRITE_FILE = 1 << 1, FS_READ_FILE = 1 << 2, FS_READ_DIR = 1 << 3,
	FS_REMOVE_DIR = 1 << 4, FS_REMOVE_FILE = 1 << 5, FS_MAKE_CHAR = 1 << 6, FS_MAKE_DIR = 1 << 7,
	FS_MAKE_REG = 1 << 8, FS_MAKE_SOCK = 1 << 9, FS_MAKE_FIFO = 1 << 10, FS_MAKE_BLOCK = 1 << 11,
	FS_MAKE_SYM = 1 << 12,
	FS_ABI1 = (1 << 13) - 1,
	FS_REFER = 1 << 13,		/* ABI 2 */
	FS_TRUNCATE = 1 << 14,		/* ABI 3 */
	FS_IOCTL_DEV = 1 << 15,		/* ABI 5 */
};
enum { NET_BIND_TCP = 1, NET_CONNECT_TCP = 2 };			/* ABI 4 */
enum { SCOPE_ABSTRACT_UNIX = 1, SCOPE_SIGNAL = 2 };		/* ABI 6 */

struct ruleset_attr {
	uint64_t fs, net, scoped;
};

struct path_attr {
	uint64_t access;
	int32_t parent_fd;
} __attribute__((packed));

struct port_attr {
	uint64_t access, port;
};

static int
create_ruleset(const struct ruleset_attr *attr, size_t size, unsigned flags)
{
	return (int)syscall(NR_CREATE_RULESET, attr, size, flags);
}

static int
add_rule(int ruleset, int type, const void *attr)
{
	return (int)syscall(NR_ADD_RULE, ruleset, type, attr, 0);
}

/* Everything this kernel can restrict, restricted. */
static struct ruleset_attr
handled(const struct sandbox_policy *p, int abi, size_t *size)
{
	struct ruleset_attr a = { .fs = FS_ABI1 };

	*size = abi >= 6 ? sizeof(a) : abi >= 4 ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
	if (abi >= 2)
		a.fs |= FS_REFER;
	if (abi >= 3)
		a.fs |= FS_TRUNCATE;
	if (abi >= 4)
		a.net = NET_BIND_TCP | (p->connect_any ? 0 : NET_CONNECT_TCP);
	if (abi >= 5)
		a.fs |= FS_IOCTL_DEV;
	if (abi >= 6)
		a.scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL;
	return a;
}

static uint64_t
rights(enum sandbox_access access, bool dir)
{
	static const uint64_t of_files = FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE;
	uint64_t r = 0;

	if (access == SANDBOX_READ)
		r = FS_READ_FILE | FS_READ_DIR;
	else if (access == SANDBOX_WRITE)
		r = of_files | FS_READ_DIR | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR | FS_MAKE_REG | FS_REFER;
	return dir ? r : r & of_files;
}

static enum tv_err
add_path(int ruleset, const char *path, enum sandbox_access access, uint64_t known, char *errbuf, size_t cap)
{
	struct path_attr attr = { 0, open(path, O_PATH | O_CLOEXEC) };
	enum tv_err err = TV_OK;
	struct stat st;

	if (attr.parent_fd < 0 && access != SANDBOX_WRITE &&
	    (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EACCES))
		return TV_OK;
	if (attr.parent_fd < 0 || fstat(attr.parent_fd, &st) != 0) {
		snprintf(errbuf, cap, "sandbox: %s: %s", path, strerror(errno));
		err = TV_ESYS;
	} else {
		attr.access = rights(access, S_ISDIR(st.st_mode)) & known;
		if (attr.access != 0 && add_rule(ruleset, RULE_PATH_BENEATH, &attr) != 0) {
			snprintf(errbuf, cap, "sandbox: Landlock rule for %s: %s", path, strerror(errno));
			err = TV_ESYS;
		}
	}
	if (attr.parent_fd >= 0)
		close(attr.parent_fd);
	return err;
}

static enum tv_err
add_rules(int ruleset, const struct sandbox_policy *p, const struct ruleset_attr *attr, char *errbuf, size_t cap)
{
	enum tv_err err = TV_OK;

	for (unsigned i = 0; i < p->path_count && err == TV_OK; i++)
		err = add_path(ruleset, p->paths[i].path, p->paths[i].access, attr->fs, errbuf, cap);
	for (unsigned i = 0; i < p->connect_port_count && err == TV_OK && (attr->net & NET_CONNECT_TCP); i++) {
		struct port_attr port = { NET_CONNECT_TCP, p->connect_ports[i] };

		if (add_rule(ruleset, RULE_NET_PORT, &port) != 0) {
			snprintf(errbuf, cap, "sandbox: Landlock rule for port %u: %s", p->connect_ports[i],
			    strerror(errno));
			err = TV_ESYS;
		}
	}
	return err;
}

enum tv_err
sandbox_landlock(const struct sandbox_policy *p, int *abi, char *errbuf, size_t cap)
{
	struct ruleset_attr attr;
	enum tv_err err;
	size_t size;
	int ruleset;

	*abi = create_ruleset(NULL, 0, CREATE_VERSION);
	if (*abi < 1)
		return tv_fail(errbuf, cap, TV_EAGAIN, "the kernel has no Landlock (Linux 5.13 or newer, with landlock "
		    "among the lsm= modules)");
	if (p->landlock_abi_max > 0 && *abi > p->landlock_abi_max)
		*abi = p->landlock_abi_max;
	attr = handled(p, *abi, &size);
	ruleset = create_ruleset(&attr, size, 0);
	if (ruleset < 0)
		return tv_fail(errbuf, cap, TV_ESYS, "sandbox: Landlock: %s", strerror(errno));
	err = add_rules(ruleset, p, &attr, errbuf, cap);
	if (err == TV_OK && syscall(NR_RESTRICT_SELF, ruleset, 0) != 0) {
		snprintf(errbuf, cap, "sandbox: Landlock: %s", strerror(errno));
		err = TV_ESYS;
	}
	close(ruleset);
	return err;
}
