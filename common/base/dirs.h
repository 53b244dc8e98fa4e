/* Folders: making them at start, and whether one can be trusted to keep its files. */
#ifndef TV_COMMON_BASE_DIRS_H
#define TV_COMMON_BASE_DIRS_H

#include <stdbool.h>
#include <stddef.h>

/* Makes the folder and those above it, each 0755 whatever the umask.  False with errno. */
bool dirs_make(const char *path);
/*
 * May everybody rename files in the folder that holds `path`?  Then the file's own mode is worth nothing.
 * The folder's name goes to parent[cap] (cut if longer).  A sticky folder such as /tmp is safe in this sense.
 */
bool dirs_parent_open(const char *path, char *parent, size_t cap);

#endif
