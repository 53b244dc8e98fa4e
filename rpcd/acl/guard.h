/*
 * Judges what is carried out here in the place of raftd (route_provide()), by the operation's access and the token of
 * the request, wherever it came from: a client of this node, or the rpcd of another one.
 */
#ifndef TV_RPCD_ACL_GUARD_H
#define TV_RPCD_ACL_GUARD_H

#include "rpcd/acl/resolver.h"

struct acl_guard {
	struct acl_resolver *resolver;	/* borrowed */
	struct ev_loop *loop;
	struct route_provider inner;	/* with `start` */
	uint64_t denied;		/* requests */
};

/* As route_provide() of guard->inner, behind the guard, which is borrowed. */
void acl_guard_provide(struct acl_guard *guard, struct route *route, enum op_kind kind);

#endif
