/*
 * What "rpcd: dns" asks for, looked up in the catalog and made small: names, addresses, ports, states.  Each is an
 * ordinary routed read.
 */
#ifndef TV_RPCD_AGENT_DNS_LOOKUPS_H
#define TV_RPCD_AGENT_DNS_LOOKUPS_H

#include "common/record/messages.h"
#include "rpcd/opts.h"
#include "rpcd/route/failover.h"

struct dns_lookups;
struct dns_lookup_call;

struct dns_lookups_conf {
	struct route *route;
	struct failovers *failovers;	/* borrowed: prepared queries */
	const struct rpcd_conf *conf;	/* borrowed: allow_stale, max_stale */
	const char *datacenter, *node_name;	/* own; borrowed */
	unsigned calls_max;		/* under way at once */
};

/* found is borrowed until return. */
typedef void dns_lookup_done(void *ctx, uint64_t id, const struct msg_dns_found *found);

/* Where an answer came from. */
struct dns_lookup_origin {
	const struct op_reply *reply;	/* borrowed */
	uint64_t last_contact_ms;	/* with the leader, of who answered, as it did; 0: that was up to date */
	bool stale;			/* any server might answer, not only one that knows it is up to date */
};

/* NULL: no memory. */
struct dns_lookups *dns_lookups_new(const struct dns_lookups_conf *conf, dns_lookup_done *done, void *ctx);
/* done is not called any more. */
void dns_lookups_free(struct dns_lookups *l);
/* done comes once, later, with this id, or never after dns_lookups_cancel().  False: too many are under way. */
bool dns_lookups_start(struct dns_lookups *l, uint64_t id, const struct msg_dns_ask *ask);
/* While done runs: of what it tells.  NULL: nobody was asked. */
const struct dns_lookup_origin *dns_lookups_origin(const struct dns_lookups *l);
/* All that are under way: who asked is gone. */
void dns_lookups_cancel(struct dns_lookups *l);

#endif
