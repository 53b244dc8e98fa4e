/*
 * Which of their addresses nodes and services are reached by: from within their datacenter, or, with
 * translate_wan_addrs, from another one.  DNS and the HTTP API have this in common.  Pure.
 */
#ifndef TV_RPCD_WAN_TRANSLATE_H
#define TV_RPCD_WAN_TRANSLATE_H

#include "common/record/schema.h"

/* Spans borrow what was given; empty: there is none. */
struct translated {
	struct span plain;	/* of either family, or a host name */
	struct span v4, v6;	/* of one family: before the plain one */
	uint64_t port;		/* of a service */
};

/* Are addresses of this datacenter translated by a node of `local`?  local is empty where the setting is off. */
bool translate_applies(struct span local, struct span datacenter);
/* Of a node, with its TaggedAddresses. */
struct translated translate_node(struct span address, const struct span_map *tagged, bool applies);
/* Of a service; the tagged ones are struct service_address. */
struct translated translate_service(struct span address, uint64_t port, const struct obj_list *tagged, bool applies);
/* For callers that take any: IPv6 before IPv4 before the plain one, as in Consul. */
struct span translate_any(const struct translated *t);

#endif
