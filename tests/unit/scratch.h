/* A folder of its own for each test, and files in it. */
#ifndef TV_TESTS_UNIT_SCRATCH_H
#define TV_TESTS_UNIT_SCRATCH_H

#include <stddef.h>
#include <sys/types.h>

/* Makes a fresh folder (mode 0755) and returns its path; one at a time. */
const char *scratch_open(void);
/* Removes it with everything below. */
void scratch_close(void);
/* Path of a name in the folder; valid until the eighth next call. */
const char *scratch_path(const char *name);
/* Writes a file there with exactly this mode, and returns its path. */
const char *scratch_write(const char *name, const char *text, mode_t mode);
/* Whole content of a file there, NUL-terminated; valid until the next call. */
const char *scratch_read(const char *name);

#endif
