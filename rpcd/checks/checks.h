/*
 * The checks of the registry, as its user: those with a TTL turn critical when they are not renewed in time; those that
 * this node runs are given to the process "rpcd: check", and their results come back into the registry; aliases follow
 * what they stand for (alias.h).
 */
#ifndef TV_RPCD_CHECKS_CHECKS_H
#define TV_RPCD_CHECKS_CHECKS_H

#include <ev.h>

#include "common/net/tls_client.h"
#include "common/proc/helper.h"
#include "common/record/messages.h"
#include "rpcd/check/role.h"
#include "rpcd/registry/registry.h"

/* Why a script is refused that a client registers, and not run if it did so while it might. */
#define CHECKS_REMOTE_OFF "Scripts are disabled on this agent from remote calls; to enable, configure " \
	"'enable_script_checks' to true"

struct checks;

struct checks_conf {
	struct ev_loop *loop;
	struct registry *registry;
	struct route *route;		/* to the catalog, for aliases */
	const char *node_name;		/* own; borrowed */
	struct token_source token;	/* for aliases that have none of their own */
	int monitor[CHECK_ROLES];	/* of check_monitor_start(), may be the same; -1: these are not run */
	uint64_t runs_max;		/* at once, of each process */
	uint64_t output_max;		/* bytes of output, unless a check says less */
	bool follow_redirects;
	bool remote_scripts;		/* scripts are run that no file in services.d defines */
	int log_level;			/* of the processes: enum log_level */
	struct tls_client_conf tls;	/* of checks over TLS; paths are borrowed */
	void (*lost)(void *ctx);	/* the monitor is gone: nothing can be run until rpcd starts again */
	void *ctx;
};

struct checks_stats {
	uint64_t tasks;			/* checks that are run */
	uint64_t aliases;
	uint64_t starts, deaths, stuck;	/* of the processes: struct helper_stats */
	/* Since the processes that are there began, but under_way and lookups_waiting: see messages.h. */
	struct msg_check_stats runs;
	unsigned running;		/* processes */
	char states[CHECK_ROLES][HELPER_STATE_BYTES];	/* helper_state() of each; "": not run here */
};

/*
 * From now on this is the registry's user.  What is in it already is as earlier runs left it: thresholds hold from the
 * first run on, so that a restart changes no state.  NULL: no memory.
 */
struct checks *checks_new(const struct checks_conf *conf);
/* After the registry. */
void checks_free(struct checks *c);
/*
 * What the processes and their monitors log from now on, and the files of TLS, borrowed; those that wait to be started
 * again are started now.
 */
void checks_reload(struct checks *c, int level, const struct tls_client_conf *tls);
void checks_stats(const struct checks *c, struct checks_stats *out);
/*
 * Sets status and output, and starts the TTL anew.  TV_ENOENT: no such check, or it has no TTL.  TV_EINVAL: no such
 * status.
 */
enum tv_err checks_update(struct registry *r, struct span id, struct span status, struct span output);

#endif
