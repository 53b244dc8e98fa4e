/*
 * Files that go.  The blocks of a large one are given back while its last descriptor is closed, which takes the file system
 * some 0.4 s for each GB: a loop that waits for it is heard by nobody meanwhile.
 */
#ifndef TV_RAFTD_DISK_UNLINK_ASYNC_H
#define TV_RAFTD_DISK_UNLINK_ASYNC_H

/* Removes the name at once, and closes fd in a thread.  fd -1: it is opened for that, if there is such a file. */
void unlink_async(int fd, const char *path);

#endif
