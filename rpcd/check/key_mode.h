/* Who may read the private key of checks: the user of "rpcd: check", and root.  For both ends of the channel. */
#ifndef TV_RPCD_CHECK_KEY_MODE_H
#define TV_RPCD_CHECK_KEY_MODE_H

#include <stddef.h>
#include <sys/stat.h>

/* NULL, or what is wrong with it; user and group: of "rpcd: check". */
static inline const char *
check_key_refused(const struct stat *st, uid_t user, gid_t group)
{
	if (!S_ISREG(st->st_mode))
		return "is not a regular file";
	if (st->st_uid != 0 && st->st_uid != user)
		return "belongs to another user: chown root:_check and chmod 640 it";
	if ((st->st_mode & (S_IRWXO | S_IWGRP)) != 0)
		return "others can read or write the key: chown root:_check and chmod 640 it";
	if ((st->st_mode & S_IRGRP) != 0 && st->st_gid != group)
		return "another group can read the key: chgrp _check it";
	return NULL;
}

#endif
