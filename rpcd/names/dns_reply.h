/* What servers answer, made small for "rpcd: dns": names, addresses, ports, states; and lists of names.  Pure. */
#ifndef TV_RPCD_NAMES_DNS_REPLY_H
#define TV_RPCD_NAMES_DNS_REPLY_H

#include "common/base/arena.h"
#include "common/record/messages.h"
#include "common/record/ops.h"
#include "rpcd/dns/answer.h"

/* The operation that finds facts of this kind; 0: nothing is registered of that kind. */
uint16_t dns_reply_op(enum dns_kind kind);
/*
 * Reads a reply to it.  name: that was asked for.  datacenter: that was asked; the answer may be of another one.
 * local: addresses of other datacenters than this are translated (rpcd/wan/translate.h); empty: none are.
 * Spans borrow the reply, the datacenter and the arena.  An error of the reply, or one that is malformed, is a status.
 */
void dns_reply_read(enum dns_kind kind, struct span name, struct span datacenter, struct span local,
    const struct op_reply *reply, struct arena *a, struct msg_dns_found *out);

/* Is this node dead, as far as is known? */
typedef bool dns_is_dead(void *ctx, struct span node);
/* Leaves out the instances on dead nodes.  Returns how many. */
unsigned dns_reply_leave_out(struct msg_dns_found *found, dns_is_dead *is_dead, void *ctx);

#endif
