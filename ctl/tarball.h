/*
 * A .tar.gz that grows file by file, for people to read later.
 */
#ifndef TV_CTL_TARBALL_H
#define TV_CTL_TARBALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/rd.h"

struct tarball;

/* Makes the file, 0600, which must not be there yet.  Names in it begin with FOLDER/.  NULL: errno tells why. */
struct tarball *tarball_new(const char *path, const char *folder);
/* Adds a file; false: errno, and the archive is no good any more. */
bool tarball_add(struct tarball *t, const char *name, struct span bytes);
/* Ends it; *bytes: how long the archive is.  False: errno.  A file that is not good is removed. */
bool tarball_end(struct tarball *t, uint64_t *bytes);

#endif
