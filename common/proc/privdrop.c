/* Giving up root for good. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/dirs.h"
#include "common/proc/privdrop.h"

static enum tv_err
missing(bool group, const char *name, char *errbuf, size_t cap)
{
	return tv_fail(errbuf, cap, TV_ENOENT, "the %s %s does not exist: run systemd-sysusers with the sysusers.d "
	    "file of this package, or create it with %s --system %s", group ? "group" : "user", name,
	    group ? "groupadd" : "useradd", name);
}

static enum tv_err
find_group(const char *name, gid_t *gid, char *errbuf, size_t cap)
{
	const struct group *gr = getgrnam(name);

	if (gr == NULL)
		return missing(true, name, errbuf, cap);
	*gid = gr->gr_gid;
	return TV_OK;
}

enum tv_err
privdrop_plan(const char *user, const char *socket_group, bool grouped, struct privdrop *plan, char *errbuf,
    size_t cap)
{
	const struct passwd *pw;
	enum tv_err err = TV_OK;

	*plan = (struct privdrop){ .uid = geteuid(), .gid = getegid(), .socket_gid = (gid_t)-1 };
	if (geteuid() != 0)
		return TV_OK;
	pw = getpwnam(user);
	if (pw == NULL)
		return missing(false, user, errbuf, cap);
	if (pw->pw_uid == 0 || pw->pw_gid == 0)
		return tv_fail(errbuf, cap, TV_EPERM, "the user %s is root: a daemon needs a user without privileges",
		    user);
	*plan = (struct privdrop){ .switches = true, .uid = pw->pw_uid, .gid = pw->pw_gid, .grouped = grouped,
		.socket_gid = pw->pw_gid };
	if (grouped)
		err = find_group(DAEMON_GROUP, &plan->group_gid, errbuf, cap);
	if (err == TV_OK && socket_group != NULL)
		err = find_group(socket_group, &plan->socket_gid, errbuf, cap);
	return err;
}

enum tv_err
privdrop_run_dir(const char *dir, char *errbuf, size_t cap)
{
	struct stat st;

	if (!dirs_make(dir) || stat(dir, &st) != 0)
		return tv_fail(errbuf, cap, TV_ESYS, "%s: %s", dir, strerror(errno));
	if (!S_ISDIR(st.st_mode) || (st.st_mode & S_IWOTH) || (st.st_uid != 0 && st.st_uid != geteuid()))
		return tv_fail(errbuf, cap, TV_EPERM, "%s: must be a folder of root that others cannot write: chown "
		    "root %s; chmod 755 %s", dir, dir, dir);
	return TV_OK;
}

/* The folder is open as fd: owner and mode are made right, or refused. */
static enum tv_err
own_dir(const struct privdrop *plan, int fd, const char *path, char *errbuf, size_t cap)
{
	struct stat st;

	if (fstat(fd, &st) != 0 || (plan->switches && st.st_uid == 0 && fchown(fd, plan->uid, plan->gid) != 0) ||
	    fstat(fd, &st) != 0)
		return tv_fail(errbuf, cap, TV_ESYS, "%s: cannot be given to the user of this daemon: %s: chown -R "
		    "%u:%u it", path, strerror(errno), (unsigned)plan->uid, (unsigned)plan->gid);
	if (st.st_uid != plan->uid)
		return tv_fail(errbuf, cap, TV_EPERM, "%s: belongs to uid %u, not to the user of this daemon (uid %u): "
		    "chown -R it", path, (unsigned)st.st_uid, (unsigned)plan->uid);
	if ((st.st_mode & 077) && fchmod(fd, 0700) != 0)
		return tv_fail(errbuf, cap, TV_ESYS, "%s: %s", path, strerror(errno));
	return TV_OK;
}

enum tv_err
privdrop_data_dir(const struct privdrop *plan, const char *data_dir, const char *name, char *errbuf, size_t cap)
{
	char path[4096];
	struct stat st;
	enum tv_err err;
	int fd = -1;

	if (snprintf(path, sizeof(path), "%s/%s", data_dir, name) >= (int)sizeof(path))
		return tv_fail(errbuf, cap, TV_EINVAL, "data_dir: the path is too long");
	if (dirs_make(data_dir) && (mkdir(path, 0700) == 0 || errno == EEXIST)) {
		/* As the packages make it there is nothing to do, and no capability is needed to see that. */
		if (plan->switches && lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == plan->uid &&
		    (st.st_mode & 077) == 0)
			return TV_OK;
		fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	if (fd < 0)
		return tv_fail(errbuf, cap, TV_ESYS, "%s: %s", path, strerror(errno));
	err = own_dir(plan, fd, path, errbuf, cap);
	close(fd);
	return err;
}

/* Every way back to root must be closed. */
static bool
can_regain(void)
{
	uid_t ruid, euid, suid;
	gid_t rgid, egid, sgid;

	if (setresuid(0, 0, 0) == 0 || setresgid(0, 0, 0) == 0 || seteuid(0) == 0 || setuid(0) == 0 || setgid(0) == 0)
		return true;
	return getresuid(&ruid, &euid, &suid) != 0 || getresgid(&rgid, &egid, &sgid) != 0 ||
	    ruid == 0 || euid == 0 || suid == 0 || rgid == 0 || egid == 0 || sgid == 0;
}

enum tv_err
privdrop_act_as(uid_t uid, gid_t gid, char *errbuf, size_t cap)
{
	bool back = uid == 0;

	if ((back && seteuid(uid) != 0) || setegid(gid) != 0 || (!back && seteuid(uid) != 0))
		return tv_fail(errbuf, cap, TV_ESYS, "cannot change to uid %u: %s", (unsigned)uid, strerror(errno));
	return TV_OK;
}

enum tv_err
privdrop_apply(const struct privdrop *plan, char *errbuf, size_t cap)
{
	if (!plan->switches)
		return TV_OK;
	if (setgroups(plan->grouped ? 1 : 0, &plan->group_gid) != 0 ||
	    setresgid(plan->gid, plan->gid, plan->gid) != 0 ||
	    setresuid(plan->uid, plan->uid, plan->uid) != 0)
		return tv_fail(errbuf, cap, TV_ESYS, "cannot change to uid %u: %s", (unsigned)plan->uid,
		    strerror(errno));
	if (can_regain())
		return tv_fail(errbuf, cap, TV_EPERM, "root could be regained after the change of user: refusing to "
		    "run");
	return TV_OK;
}
