/*
 * Whole files: reads one under a cap, and puts one in the place of another so that a crash leaves the old or the new.
 *
 * What is replaced or made here is on disk, file and name, when the call returns TV_OK.  It is written beside the old
 * one, as NAME.new, over what a crash left of that name.  errno says more wherever a result is TV_ESYS.
 */
#ifndef TV_COMMON_BASE_FILE_H
#define TV_COMMON_BASE_FILE_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/base/buf.h"
#include "common/base/err.h"

/* Writes all of it, also in pieces and across signals; false with errno. */
bool write_all(int fd, const void *bytes, size_t len);

/* Appends what is left of the file.  TV_ELIMIT: more than out's cap, which is full then; TV_ENOMEM, TV_ESYS. */
enum tv_err file_read_fd(int fd, struct buf *out);
/* The whole file; a link is none, nor is a pipe or a device: ELOOP, EINVAL.  TV_ENOENT, or as file_read_fd(). */
enum tv_err file_read(const char *path, struct buf *out);

/*
 * Puts a file of these bytes and this mode, whatever the umask, in the place of path, which is seen from the folder
 * dir (AT_FDCWD: as usual); one process at a time.  TV_ESYS: the old one stays, and nothing beside it, unless only the
 * last step failed, which puts the new name on disk.
 */
enum tv_err file_replace(int dir, const char *path, struct span bytes, mode_t mode);
/*
 * The same with mode 0600, and *fd is open to append to the new file: the caller closes it.  -1: the old one stays;
 * with TV_ESYS and another *fd only the last step failed.
 */
enum tv_err file_replace_open(const char *path, struct span bytes, int *fd);
/*
 * The same where there is none of that name; several processes may try, and one succeeds.  TV_EEXIST: there was one,
 * and its name is on disk.  TV_ESYS: none was made.
 */
enum tv_err file_create(int dir, const char *path, struct span bytes, mode_t mode);
/* Gives a file, or a folder, that is on disk another name, over an older one.  TV_ESYS. */
enum tv_err file_rename(const char *from, const char *to);
/* Removes it; one that is not there is gone.  TV_ESYS. */
enum tv_err file_remove(const char *path);

/* Puts the names in this folder on disk.  TV_ESYS. */
enum tv_err file_sync_dir(const char *dir);
/* Those in the folder that holds path. */
enum tv_err file_sync_parent(const char *path);

#endif
