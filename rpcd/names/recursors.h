/*
 * Who is asked for names that are not ours: addresses as rpcd.conf has them, and those that its host names, SRV records
 * and files lead to.  gossipd resolves these (MSG_GOSSIP_RESOLVE), by a process that is for it; they are resolved again
 * at intervals, and soon after none of them has answered.
 */
#ifndef TV_RPCD_NAMES_RECURSORS_H
#define TV_RPCD_NAMES_RECURSORS_H

#include <ev.h>

#include "common/base/arena.h"
#include "common/conf/conf.h"
#include "common/net/daemon_client.h"
#include "rpcd/dns/launch.h"

#define RECURSOR_PORT 53
#define RECURSOR_TEXT_BYTES 56		/* "192.0.2.1 53" */

struct recursors;

struct recursors_conf {
	struct ev_loop *loop;
	struct daemon_client *gossip;	/* borrowed */
	const struct conf_list *list;	/* borrowed; who changes it calls recursors_reload() */
	/* All were resolved that can be, and they may be others than before. */
	void (*resolved)(void *ctx);
	void *ctx;
};

/* NULL: no memory. */
struct recursors *recursors_new(const struct recursors_conf *conf);
void recursors_free(struct recursors *r);
/* Takes over the list.  What was resolved stays for those that are in it still. */
void recursors_reload(struct recursors *r);
/* None of them answered a question: names are resolved again soon. */
void recursors_failed(struct recursors *r);
/* A process was told recursors_now(), and does not serve yet: `resolved` is called again soon. */
void recursors_again(struct recursors *r);
/* "192.0.2.1 53", in the order of the configuration, each once. */
struct span_list recursors_now(const struct recursors *r, struct arena *a);
/* Is one of the list other than an address? */
bool recursors_are_named(const struct conf_list *list);

#endif
