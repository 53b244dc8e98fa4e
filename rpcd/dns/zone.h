/*
 * What is served, and what a name in it asks for.  Pure.
 */
#ifndef TV_RPCD_DNS_ZONE_H
#define TV_RPCD_DNS_ZONE_H

#include "common/base/mono.h"
#include "rpcd/dns/query.h"

#define DNS_ANSWERS_MAX_UDP 8		/* ceiling of udp_answer_limit */

struct dns_service_ttl {
	struct span pattern;		/* lower case, without the final "*" */
	bool prefix;			/* it had one */
	uint32_t ttl;			/* s */
};

struct dns_zone {
	struct dname domain, alt_domain;	/* lowered; alt_domain.len 0: none */
	struct span datacenter;			/* own */
	uint32_t node_ttl, soa_refresh, soa_retry, soa_expire, soa_min_ttl;	/* s */
	const struct dns_service_ttl *service_ttls;
	unsigned service_ttl_count;
	unsigned udp_answer_limit;	/* plain UDP; above DNS_ANSWERS_MAX_UDP it is that */
	unsigned a_record_limit;	/* 0: none */
	bool truncate;			/* set TC where answers were left out */
	bool only_passing;		/* warnings leave answers of services */
	bool compress;
	bool node_meta;			/* TXT in additional */
	bool recursors;			/* there are some */
};

/* What rpcd is asked for; numbers of the channel. */
enum dns_kind {
	DNS_KIND_NODE = 1, DNS_KIND_SERVICE, DNS_KIND_CONNECT, DNS_KIND_INGRESS, DNS_KIND_QUERY,
	DNS_KIND_ADDRESS,	/* what has the address `name`: a node, else a service */
	DNS_KIND_UPSTREAM,	/* not rpcd: A of a name elsewhere, from a recursor; `name` is the name on the wire */
	/* Lists, of all names that there are: they show without a question that there is no such name. */
	DNS_KIND_NODES, DNS_KIND_SERVICES,
	DNS_KIND_TAGS,		/* of the service `name` */
};
/* After a write by way of this node nothing kept is believed for so long: it comes by blocking queries meanwhile. */
#define DNS_WRITTEN_TIME MONO_MS(500)
/* Which facts rpcd goes on telling of. */
enum dns_follow {
	DNS_FOLLOW_NO,
	DNS_FOLLOW_FOUND,	/* what is somewhere */
	DNS_FOLLOW_ANY,		/* also what is nowhere yet */
};

/* Text is borrowed, lower case, in Consul's escapes. */
struct dns_lookup {
	enum dns_kind kind;
	struct span name, tag;
	bool tagged;
	struct span datacenter;		/* "": the own one */
	struct span source;		/* queries: the client's address */
};
bool dns_lookup_eq(const struct dns_lookup *a, const struct dns_lookup *b);
/* By this hash of bytes. */
uint64_t dns_lookup_hash(const struct dns_lookup *k, uint64_t (*hash)(const void *bytes, size_t n));

enum dns_place {
	DNS_PLACE_ZONE,		/* of D or the alternate domain */
	DNS_PLACE_REVERSE,	/* below arpa. */
	DNS_PLACE_ELSEWHERE,
};
/* `lowered` is the name in lower case; *labels: the bytes of it before the zone. */
enum dns_place dns_place_of(const struct dns_zone *z, const struct dname *lowered, size_t *labels);

/*
 * The zone that an answer about such a name is in: what answers build and their SOA are of the domain that was asked.
 * An alternate domain below the main one is a part of that zone.
 */
const struct dname *dns_zone_of(const struct dns_zone *z, const struct dname *lowered, size_t labels);

enum dns_form {
	DNS_FORM_NONE,		/* a name that means nothing: NXDOMAIN */
	DNS_FORM_LOOKUP,
	DNS_FORM_ADDR,		/* <hex>.addr: `address` */
	DNS_FORM_EMPTY,		/* success without records */
};
struct dns_asked {
	enum dns_form form;
	struct dns_lookup lookup;
	struct span service;		/* the label whose TTL applies */
	uint8_t address[16];
	unsigned address_len;		/* 4, 16 */
	char text[DNAME_TEXT_MAX];	/* what the spans borrow */
};
/* The labels before the zone.  type: SRV knows names without "service". */
void dns_parse(const struct dns_zone *z, const struct dname *lowered, size_t labels, uint16_t type,
    struct dns_asked *out);
/* The address of a name below arpa., IPv4 as 4 bytes.  0: none. */
unsigned dns_parse_reverse(const struct dname *lowered, uint8_t address[16]);
/* The row that says how long answers for this service live; NULL: none, and so 0 s. */
const struct dns_service_ttl *dns_service_ttl_row(const struct dns_zone *z, struct span service);
/* Seconds. */
uint32_t dns_service_ttl(const struct dns_zone *z, struct span service);
/* 4 or 16 bytes of an address in text, an IPv4-mapped one as 4; 0: it is none, so a host name. */
unsigned dns_address_of(struct span text, uint8_t address[16]);

#endif
