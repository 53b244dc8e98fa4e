/*
 * What the node of a data folder has been, and must not cease to be unawares: a server, and encrypted.
 *
 * Each daemon keeps that in a file of its own, data_dir/NAME/past, since each starts by itself and none can read the
 * folders of the others.  A configuration that was lost, as with an empty folder of it, has defaults: a client that
 * sends plaintext.  Then the daemon does not start, until the configuration says in so many words that the node is to
 * be that from now on (server = false, encryption = "off"), or the data folder is emptied.
 */
#ifndef TV_COMMON_PROC_PAST_H
#define TV_COMMON_PROC_PAST_H

#include "common/conf/cluster_conf.h"

#define PAST_NAME "past"

/*
 * May the node of the folder `data` (data_dir/NAME) start with this configuration, which stands in conf_dir?  TV_EPERM:
 * it has been more than that; errbuf says what was found, what the configuration says, and the remedy.  A file that is
 * damaged or cannot be read is refused, too (TV_EFORMAT, TV_ESYS).  No folder or no file: nothing is known, TV_OK.
 */
enum tv_err past_check(const char *data, const struct cluster_conf *c, const char *conf_dir, char *errbuf, size_t cap);
/*
 * What it is now, durably; nothing is written when the file says so already.  A client is no server any more; what was
 * encrypted stays so, and must say encryption = "off" for as long as it sends plaintext.  TV_ENOENT: there is no such
 * folder; TV_ESYS with a sentence.
 */
enum tv_err past_write(const char *data, const struct cluster_conf *c, char *errbuf, size_t cap);

#endif
