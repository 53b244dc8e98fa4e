/* Files below Berkeley DB: what must be true of them before it looks, and data bases made so that no crash shows. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "raftd/store/bdb/store_env.h"

#define PATH_BYTES_MAX 4200

/* -- before recovery -- */

static int
settle_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), ret = 0;

	if (fd == -1)
		return errno;
	if (fsync(fd) == -1)
		ret = errno;
	else
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);	/* not every file system heeds it */
	close(fd);
	return ret;
}

enum tv_err
store_dir_settle(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *de;
	int ret = 0;

	if (d == NULL)
		return TV_ESYS;
	while (ret == 0 && (de = readdir(d)) != NULL) {
		char path[PATH_BYTES_MAX];

		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, de->d_name);
		ret = settle_file(path);
	}
	closedir(d);
	if (ret != 0) {
		errno = ret;
		return TV_ESYS;
	}
	return file_sync_dir(dir);
}

/* -- making -- */

/* The code that the call returns says enough. */
static void
no_message(const DB_ENV *env UNUSED, const char *prefix UNUSED, const char *msg UNUSED)
{
}

/* An empty btree under a name that no caller looks for. */
static int
make_btree(const char *path)
{
	DB *db;
	int ret = db_create(&db, NULL, 0), ret2;

	if (ret != 0)
		return ret;
	db->set_errcall(db, no_message);
	ret = store_db_form(db);
	if (ret == 0)
		ret = db->open(db, NULL, path, NULL, DB_BTREE, DB_CREATE | DB_EXCL, 0600);
	ret2 = db->close(db, ret == 0 ? 0 : DB_NOSYNC);
	return ret != 0 ? ret : ret2;
}

int
store_file_make(const char *dir, const char *file)
{
	char fresh[PATH_BYTES_MAX], path[PATH_BYTES_MAX];
	int ret;

	snprintf(fresh, sizeof(fresh), "%s/" STORE_FRESH_NAME, dir);
	snprintf(path, sizeof(path), "%s/%s", dir, file);
	if (access(path, F_OK) == 0)
		return 0;
	if (unlink(fresh) == -1 && errno != ENOENT)
		return errno;
	ret = make_btree(fresh);
	if (ret == 0)
		ret = settle_file(fresh);
	if (ret == 0 && file_rename(fresh, path) != TV_OK)
		ret = errno;
	return ret;
}
