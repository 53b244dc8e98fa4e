/* Locks on data folders; see hold.h. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/proc/hold.h"

static enum tv_err
failed(const struct hold *h, const char *what, char *errbuf, size_t cap)
{
	return tv_fail(errbuf, cap, TV_ESYS, "%s%s: %s", h->path, what, strerror(errno));
}

/* What the one who has the lock wrote; its beginning is missing only in the moment after it took it. */
static enum tv_err
in_use(const struct hold *h, int fd, char *errbuf, size_t cap)
{
	char text[sizeof(h->owner)], safe[sizeof(h->owner)];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	while (n > 0 && text[n - 1] == '\n')
		n--;
	text[n > 0 ? n : 0] = '\0';
	return tv_fail(errbuf, cap, TV_EAGAIN, "%s: in use by %s: two daemons cannot share a folder. Stop the other "
	    "one, or give this one another data_dir", h->path,
	    text[0] != '\0' ? log_safe(span_str(text), safe, sizeof(safe)) : "another process");
}

/* Of no other user, and under no second name: a process that can open a file can lock it. */
static enum tv_err
check_file(const struct hold *h, int fd, char *errbuf, size_t cap)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return failed(h, "/" HOLD_LOCK_NAME, errbuf, cap);
	if (S_ISREG(st.st_mode) && st.st_uid == h->uid && st.st_nlink <= 1 && (st.st_mode & 077) == 0)
		return TV_OK;
	return tv_fail(errbuf, cap, TV_EPERM, "%s/" HOLD_LOCK_NAME ": must be a regular file of uid %u with mode 0600 "
	    "and one name: remove it while no daemon runs here", h->path, (unsigned)h->uid);
}

/* Is it still the file of that name?  TV_OK, TV_ENOENT, or TV_ESYS: it cannot be told now; errno. */
static enum tv_err
still_there(const struct hold *h, int fd)
{
	struct stat a, b;

	if (fstat(fd, &a) != 0)
		return TV_ESYS;
	if (fstatat(h->dir, HOLD_LOCK_NAME, &b, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? TV_ENOENT : TV_ESYS;
	return a.st_nlink > 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino ? TV_OK : TV_ENOENT;
}

static enum tv_err
write_owner(const struct hold *h, int fd, char *errbuf, size_t cap)
{
	char line[sizeof(h->owner) + 32];
	int n = snprintf(line, sizeof(line), "pid %ld of %s\n", (long)getpid(), h->owner);

	/* A full disk is no reason not to start: the lock holds without the text. */
	if (ftruncate(fd, 0) != 0 || (pwrite(fd, line, (size_t)n, 0) != n && errno != ENOSPC && errno != EDQUOT))
		return failed(h, "/" HOLD_LOCK_NAME, errbuf, cap);
	return TV_OK;
}

/* One try; *fd is the locked file, or -1. */
static enum tv_err
lock_once(const struct hold *h, int *fd, char *errbuf, size_t cap)
{
	enum tv_err err;

	*fd = openat(h->dir, HOLD_LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (*fd < 0)
		return failed(h, "/" HOLD_LOCK_NAME, errbuf, cap);
	err = check_file(h, *fd, errbuf, cap);
	if (err == TV_OK && flock(*fd, LOCK_EX | LOCK_NB) != 0)
		err = errno == EWOULDBLOCK ? in_use(h, *fd, errbuf, cap) : failed(h, "/" HOLD_LOCK_NAME, errbuf, cap);
	if (err == TV_OK)
		return TV_OK;
	close(*fd);
	*fd = -1;
	return err;
}

/* The file may be removed between our open and our lock: then a lock on it keeps no process out. */
static enum tv_err
take_lock(struct hold *h, char *errbuf, size_t cap)
{
	enum tv_err err;
	int fd;

	for (int i = 0; i < 3; i++) {
		if ((err = lock_once(h, &fd, errbuf, cap)) != TV_OK)
			return err;
		if (still_there(h, fd) == TV_OK) {
			err = write_owner(h, fd, errbuf, cap);
			if (err != TV_OK) {
				close(fd);
				return err;
			}
			h->lock = fd;
			return TV_OK;
		}
		close(fd);
	}
	return tv_fail(errbuf, cap, TV_ESYS, "%s/" HOLD_LOCK_NAME ": is removed repeatedly", h->path);
}

static enum tv_err
open_dir(struct hold *h, char *errbuf, size_t cap)
{
	struct stat st;

	h->dir = open(h->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (h->dir >= 0 && fstat(h->dir, &st) == 0) {
		h->dev = st.st_dev;
		h->ino = st.st_ino;
		return TV_OK;
	}
	return tv_fail(errbuf, cap, TV_ESYS, "%s: uid %u cannot reach it: %s (see the modes of the folders above it)",
	    h->path, (unsigned)geteuid(), strerror(errno));
}

enum tv_err
hold_take(struct hold *h, const struct privdrop *plan, const char *data_dir, const char *name, const char *owner,
    char *errbuf, size_t cap)
{
	gid_t gid = getegid();
	enum tv_err err = TV_OK, back = TV_OK;

	*h = HOLD_NONE;
	h->uid = plan->uid;
	if (snprintf(h->path, sizeof(h->path), "%s/%s", data_dir, name) >= (int)sizeof(h->path))
		return tv_fail(errbuf, cap, TV_EINVAL, "data_dir: the path is too long");
	snprintf(h->owner, sizeof(h->owner), "%s", owner);
	if (plan->switches)
		err = privdrop_act_as(plan->uid, plan->gid, errbuf, cap);
	if (err == TV_OK)
		err = open_dir(h, errbuf, cap);
	if (err == TV_OK)
		err = take_lock(h, errbuf, cap);
	if (plan->switches && geteuid() != 0)
		back = privdrop_act_as(0, gid, errbuf, cap);
	err = err != TV_OK ? err : back;
	if (err != TV_OK)
		hold_release(h);
	return err;
}

/* Only another process's lock is the end: what else is in the way of ours may pass, or keeps others out as well. */
static enum hold_state
check_lock(struct hold *h, char *why, size_t cap)
{
	char text[1024];
	enum tv_err err = h->lock >= 0 ? still_there(h, h->lock) : TV_ENOENT;

	if (err == TV_OK)
		return HOLD_KEPT;
	if (err != TV_ENOENT) {
		(void)failed(h, "/" HOLD_LOCK_NAME, why, cap);
		return HOLD_UNSURE;
	}
	if (h->lock >= 0)
		close(h->lock);
	h->lock = -1;
	err = take_lock(h, text, sizeof(text));
	if (err == TV_OK)
		return HOLD_KEPT;
	snprintf(why, cap, "the lock file is gone, and cannot be made again: %s", text);
	return err == TV_EAGAIN ? HOLD_LOST : HOLD_UNSURE;
}

enum hold_state
hold_check(struct hold *h, char *why, size_t cap)
{
	struct stat st;

	if (lstat(h->path, &st) != 0) {
		bool gone = errno == ENOENT || errno == ENOTDIR;

		snprintf(why, cap, gone ? "%s is gone (%s)" : "%s cannot be checked (%s)", h->path, strerror(errno));
		return gone ? HOLD_LOST : HOLD_UNSURE;
	}
	if (st.st_dev != h->dev || st.st_ino != h->ino) {
		snprintf(why, cap, "%s is another folder now", h->path);
		return HOLD_LOST;
	}
	return check_lock(h, why, cap);
}

void
hold_release(struct hold *h)
{
	if (h->lock >= 0)
		close(h->lock);
	if (h->dir >= 0)
		close(h->dir);
	*h = HOLD_NONE;
}
