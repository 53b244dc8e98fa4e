/* Making folders at start. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/dirs.h"

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
