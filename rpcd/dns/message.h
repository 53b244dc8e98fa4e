/* From the messages of the channel to what answers are made of: the zone, and what was found.  Pure. */
#ifndef TV_RPCD_DNS_MESSAGE_H
#define TV_RPCD_DNS_MESSAGE_H

#include "common/record/messages.h"
#include "rpcd/dns/answer.h"

/*
 * What is to be served, but whether there are recursors: z->recursors is for the caller, which reads them.  Spans
 * borrow the message and the arena.  TV_EFORMAT: not a setup of ours.
 */
enum tv_err dns_zone_of_setup(const struct msg_dns_setup *m, struct arena *a, struct dns_zone *z);
/* What a message tells answers; all that it points to is the message's. */
static inline struct dns_found
dns_found_of(const struct msg_dns_found *m)
{
	return (struct dns_found){ .status = (enum dns_status)m->status, .datacenter = m->datacenter,
	    .ordered = m->ordered, .has_ttl = m->has_ttl, .ttl = (uint32_t)m->ttl, .service = m->service,
	    .instances = m->instances.v, .count = m->instances.n };
}
/* The same of a message packed: spans borrow it, lists are the arena's.  False: no memory; *out is DNS_FAILED then. */
bool dns_found_read(struct span body, struct arena *a, struct dns_found *out);

#endif
