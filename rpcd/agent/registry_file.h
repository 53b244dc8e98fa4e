/* Files as the registry has them: read and replaced as a whole. */
#ifndef TV_RPCD_AGENT_REGISTRY_FILE_H
#define TV_RPCD_AGENT_REGISTRY_FILE_H

#include "common/base/buf.h"

/* The whole file.  TV_ENOENT, TV_ELIMIT, TV_ESYS with errno. */
enum tv_err file_read(const char *path, struct buf *out);
/*
 * Puts this JSON, laid out for people, in the place of the file, atomically; durable: also waits for the disk.
 * TV_ELIMIT, TV_ESYS with errno.
 */
enum tv_err file_replace(const char *path, struct span json, bool durable);
/* The folder of the file, so that a new name survives a crash.  Failures are not told. */
void file_sync_folder(const char *path);

#endif
