/* The folder services.d: its files, read in the order of their names. */
#ifndef TV_RPCD_REGISTRY_DEF_FILES_H
#define TV_RPCD_REGISTRY_DEF_FILES_H

#include "rpcd/registry/def_set.h"

/*
 * Fills a set with *.conf and *.json of the folder, whose names do not begin with a dot; no folder: nothing.  As root,
 * before privileges are dropped: also checks that `user` will be able to read them at a reload.  registry: as in
 * def_set.h.  On an error errbuf has a sentence with file, line and remedy, and the set is freed.
 */
enum tv_err def_files_read(struct def_set *s, const char *folder, const char *user, enum def_scripts scripts,
    struct registry *registry, char *errbuf, size_t cap);

#endif
