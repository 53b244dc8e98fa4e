/* Folders; see dirs.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/dirs.h"

bool
dirs_make(const char *path)
{
	char part[4096];

	if (strlen(path) >= sizeof(part)) {
		errno = ENAMETOOLONG;
		return false;
	}
	for (size_t i = 1; path[i - 1] != '\0'; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (mkdir(part, 0755) == 0) {
			if (chmod(part, 0755) != 0)	/* whatever the umask */
				return false;
		} else if (errno != EEXIST) {
			return false;
		}
	}
	return true;
}

bool
dirs_parent_open(const char *path, char *parent, size_t cap)
{
	const char *slash = strrchr(path, '/');
	struct stat st;

	if (slash == NULL)
		snprintf(parent, cap, ".");
	else
		snprintf(parent, cap, "%.*s", slash == path ? 1 : (int)(slash - path), path);
	return stat(parent, &st) == 0 && (st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX);
}
