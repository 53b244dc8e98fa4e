/* Making folders at start. */
#ifndef TV_DIRS_H
#define TV_DIRS_H

#include <stdbool.h>

/* Makes the folder and those above it, each 0755 whatever the umask.  False with errno. */
bool dirs_make(const char *path);

#endif
