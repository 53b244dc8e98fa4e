/* Small files of rpcd's own folder, read and replaced as a whole; nobody else may read them. */
#ifndef TV_RPCD_ACL_KEEP_H
#define TV_RPCD_ACL_KEEP_H

#include "common/base/buf.h"
#include "common/base/err.h"

/* The whole file.  TV_ENOENT, TV_ELIMIT, TV_ESYS with errno. */
enum tv_err keep_read(const char *path, struct buf *out);
/* Atomically, and on disk when this returns.  TV_ESYS with errno, TV_ELIMIT: the path is too long. */
enum tv_err keep_write(const char *path, struct span text);
/* TV_ESYS with errno; a file that is not there is gone. */
enum tv_err keep_remove(const char *path);

#endif
