/*
 * From a question and what is known to an answer.  Pure: what it needs to know it names, and is called again when that
 * has been found; the same seed then gives the same order.
 */
#ifndef TV_RPCD_DNS_ANSWER_H
#define TV_RPCD_DNS_ANSWER_H

#include "common/base/arena.h"
#include "common/base/rng.h"
#include "common/record/messages.h"
#include "rpcd/dns/records.h"
#include "rpcd/dns/zone.h"

#define DNS_FACTS_MAX 24	/* of one question: a service whose instances have host names needs one for each */
#define DNS_ALIASES_MAX 3	/* inner look-ups one after the other */

enum dns_state { DNS_PASSING, DNS_WARNING, DNS_CRITICAL, DNS_OTHER_STATE };

enum dns_status {
	DNS_FOUND,
	DNS_NOWHERE,		/* no such node, service, query, datacenter */
	DNS_FAILED,		/* no server could be asked */
};
struct dns_found {
	enum dns_status status;
	struct span datacenter;		/* that answered, for the names that are built */
	bool ordered;			/* not to be shuffled, and filtered already: a query */
	bool has_ttl;			/* a query's own */
	uint32_t ttl;
	struct span service;		/* QUERY: of it; ADDRESS: it is one of this service, "": of the node */
	const struct dns_instance *instances;
	unsigned count;
	struct span message;		/* UPSTREAM: the reply as it came */
};

struct dns_fact {
	struct dns_lookup lookup;
	const struct dns_found *found;	/* NULL: not yet */
};
struct dns_facts {
	struct dns_fact v[DNS_FACTS_MAX];
	unsigned n;
};

struct dns_asker {
	bool tcp;
	struct span source;		/* address in text, for near=_ip */
	uint64_t seed;
	uint32_t now;			/* s since 1970: serial of the SOA */
	struct dns_names *names;
	/*
	 * What is known without asking; may be NULL.  Where that is NULL, *need is what is to be asked first: the same,
	 * which it is beforehand, or a list.
	 */
	const struct dns_found *(*known)(void *ctx, const struct dns_lookup *k, struct dns_lookup *need);
	void *ctx;
};

enum dns_outcome {
	DNS_DONE,		/* the answer is in *out */
	DNS_NEED,		/* facts without `found` were added; their texts are in the arena */
	DNS_FORWARD,		/* not ours: a recursor is to be asked */
	DNS_NO_ANSWER,		/* no memory */
};
/* Of a query that is DNS_SERVE.  The arena holds what is built, and what facts borrow: until the answer is done. */
enum dns_outcome dns_answer(const struct dns_zone *z, const struct dns_query *q, const struct dns_asker *asker,
    struct dns_facts *facts, struct arena *a, struct buf *out);
/* SERVFAIL of what is not ours, and of what could not be looked up; REFUSED has no EDNS. */
void dns_answer_error(const struct dns_query *q, uint16_t flags, enum dns_rcode rcode, struct buf *out);

/*
 * Addresses that answer a question of type A or AAAA about a service: one for each instance that counts and has one of
 * this family, as often as instances have it.  False: some have a host name instead, or no memory.
 */
struct dns_addresses {
	const uint8_t *bytes;		/* in the arena */
	unsigned len;			/* of each: 4, 16 */
	uint32_t n;
};
bool dns_plain_addresses(const struct dns_zone *z, const struct dns_found *found, uint16_t type, struct arena *a,
    struct dns_addresses *out);

#endif
