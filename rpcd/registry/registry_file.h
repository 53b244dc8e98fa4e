/* The file of the registry, replaced as a whole. */
#ifndef TV_RPCD_REGISTRY_REGISTRY_FILE_H
#define TV_RPCD_REGISTRY_REGISTRY_FILE_H

#include "common/base/file.h"

/* Puts this JSON, laid out for people, in the place of the file; as file_replace(), and TV_ELIMIT. */
enum tv_err registry_file_write(const char *path, struct span json);

#endif
