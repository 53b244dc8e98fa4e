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
/* Spans borrow the message.  False: no memory; then *out is DNS_FAILED. */
bool dns_found_of_message(const struct msg_dns_found *m, struct arena *a, struct dns_found *out);

#endif
