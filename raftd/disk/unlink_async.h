/*
 * Files that go.  The blocks of a large one are given back while its last descriptor is closed, which takes the file system
 * some 0.4 s for each GB: a loop that waits for it answers no peer meanwhile.
 */
#ifndef TV_RAFTD_DISK_UNLINK_ASYNC_H
#define TV_RAFTD_DISK_UNLINK_ASYNC_H

struct jobs;

/*
 * Removes the name, and closes fd in a thread.  fd -1: it is opened for that, if there is such a file.  For threads that may wait
 * for a disk.
 */
void unlink_async(int fd, const char *path);
/* The same from the loop, in the order of those jobs; at once where they are stopped or there is no memory. */
void unlink_job(struct jobs *files, int fd, const char *path);

#endif
