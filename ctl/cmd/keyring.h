/* What `clusterctl keyring` and its guides share: the pools' keys as the API tells them. */
#ifndef TV_CTL_CMD_KEYRING_H
#define TV_CTL_CMD_KEYRING_H

#include "common/conf/keys.h"
#include "ctl/ctl.h"

#define KEYRING_POOL_BYTES 160		/* of the name of a pool */
#define KEYRING_TIMEOUT_S 180		/* several pools, each of which may wait for members that are silent */

/* A key as the API spells it, and the id by which people name it. */
struct ctl_key {
	char text[KEY_BASE64_BYTES + 1];
	char id[KEY_ID_TEXT_BYTES];
};

/* The list of all pools; complains itself and returns NULL on failure.  The caller json_decref()s it. */
json_t *keyring_list(struct ctl *ctl);
/* "WAN", "LAN (dc1)" */
const char *keyring_pool_name(const json_t *pool, char *text, size_t cap);
/* A line on stderr for each member that gave no good answer, and each pool that could not be asked; how many. */
unsigned keyring_complaints(const json_t *list);
/* Is this the text of a key?  Fills *key. */
bool keyring_key(const char *text, struct ctl_key *key);
/*
 * A key as the user names it: base64, "-" for a line of standard input, or the id of one that is installed
 * somewhere (`list` may be NULL: then it is asked for).  Complains itself.
 */
bool keyring_key_arg(struct ctl *ctl, const char *arg, const json_t *list, struct ctl_key *key);
/* POST, PUT or DELETE of this key; prints `ok` unless NULL.  Returns the exit status. */
int keyring_change(struct ctl *ctl, const char *method, const struct ctl_key *key, bool force,
    const char *relay, const char *ok);

/* enum cluster_encryption of a member, or -1 for one that is not ours. */
int keyring_stage(const json_t *member);

#endif
