/*
 * The files of HTTPS looked at without a start, by rpcd-keys as the user that it is: what `clusterctl validate` finds
 * wrong there would keep rpcd from starting.
 */
#ifndef TV_RPCD_KEYS_KEYS_CHECK_H
#define TV_RPCD_KEYS_KEYS_CHECK_H

#include <stdbool.h>

struct keys_check {
	const char *cert_file, *key_file;
	const char *ca_file, *ca_path;		/* NULL: none */
};

/*
 * False after a sentence to stderr.  Not as root, of a key that belongs to another user: true, after a sentence that
 * nothing was checked.
 */
bool keys_check_files(const struct keys_check *c);

#endif
