/* Giving up root for good, and the folders a daemon needs before it does. */
#ifndef TV_PRIVDROP_H
#define TV_PRIVDROP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"

#define DAEMON_GROUP "_triumvir"	/* may use the sockets between the daemons */

struct privdrop {
	bool switches;		/* started as root: the user changes */
	uid_t uid;		/* the daemon's user, or whoever started us */
	gid_t gid;
	gid_t run_gid;		/* group of the sockets */
};

/*
 * Looks the user and the group up.  As root both must exist; else they are the caller's own.
 * On failure one sentence with the remedy in errbuf.
 */
enum tv_err privdrop_plan(const char *user, struct privdrop *plan, char *errbuf, size_t cap);
/* Makes dir (and those above it) 0755 if it is missing; refuses one that others may write. */
enum tv_err privdrop_run_dir(const char *dir, char *errbuf, size_t cap);
/* Makes data_dir/name 0700 for the user; refuses one that belongs to somebody else, or a link. */
enum tv_err privdrop_data_dir(const struct privdrop *plan, const char *data_dir, const char *name,
    char *errbuf, size_t cap);
/* Changes group and user for good, and proves that neither root can be regained. */
enum tv_err privdrop_apply(const struct privdrop *plan, char *errbuf, size_t cap);

#endif
