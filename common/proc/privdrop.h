/* Giving up root for good, and the folders a daemon needs before it does. */
#ifndef TV_COMMON_PROC_PRIVDROP_H
#define TV_COMMON_PROC_PRIVDROP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/base/err.h"

#define DAEMON_GROUP "_triumvir"	/* of the daemons: may use gossipd.sock */
#define OPERATOR_GROUP "triumvir"	/* of people: may use rpcd.sock; no daemon is in it */

struct privdrop {
	bool switches;		/* started as root: the user changes */
	uid_t uid;		/* the daemon's user, or the one that started us */
	gid_t gid;
	bool grouped;		/* keeps DAEMON_GROUP, whose id is group_gid */
	gid_t group_gid;
	gid_t socket_gid;	/* of the daemon's own socket; (gid_t)-1 as an ordinary user, whose alone it is */
};

/*
 * Looks the user and the groups up.  As root all must exist; else they are the caller's own.  socket_group: may connect
 * to the daemon's socket, NULL: that of the user.  grouped: the daemon itself connects to gossipd.sock, and stays in
 * DAEMON_GROUP.  On failure one sentence with the remedy in errbuf.
 */
enum tv_err privdrop_plan(const char *user, const char *socket_group, bool grouped, struct privdrop *plan,
    char *errbuf, size_t cap);
/* Makes dir (and those above it) 0755 if it is missing; refuses one that others may write. */
enum tv_err privdrop_run_dir(const char *dir, char *errbuf, size_t cap);
/* Makes data_dir/name 0700 for the user; refuses one that belongs to another user, or a link. */
enum tv_err privdrop_data_dir(const struct privdrop *plan, const char *data_dir, const char *name,
    char *errbuf, size_t cap);
/*
 * For a moment, as root: acts as this user and group, so that no link in that user's folder can turn root against
 * another file; uid 0 goes back.  TV_ESYS with a sentence.
 */
enum tv_err privdrop_act_as(uid_t uid, gid_t gid, char *errbuf, size_t cap);
/* Changes groups and user for good, and proves that neither root can be regained. */
enum tv_err privdrop_apply(const struct privdrop *plan, char *errbuf, size_t cap);

#endif
