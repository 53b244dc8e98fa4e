/* See members_view.h. */
#include "raftd/leader/members_view.h"
#include "raftd/peers/gossip.h"
#include "raftd/peers/identity.h"
#include "raftd/peers/server_addr.h"

bool
members_are_ours(const struct raftd *d, const struct member *m)
{
	struct span role = member_tag(m, "role");

	return span_eq_nocase(member_tag(m, "dc"), span_str(d->cluster.datacenter)) &&
	    (span_eqs(role, "server") || span_eqs(role, "client"));
}

struct reconcile_member
members_rule_of(const struct member *m, bool gone)
{
	return (struct reconcile_member){ .name = m->name, .id = member_tag(m, "id"), .status = m->status, .gone = gone };
}

struct reconcile_view *
members_view(struct raftd *d)
{
	struct reconcile_view *v = reconcile_view_new(gossip_count(d->gossip), span_str(d->id.name), span_str(d->id.uuid));
	struct gossip_member gm;
	struct reconcile_member m;

	for (size_t at = 0; v != NULL && gossip_next(d->gossip, &at, &gm);) {
		m = members_rule_of(gm.member, gm.gone);
		if (!gm.gone && members_are_ours(d, gm.member))
			reconcile_view_add(v, &m);
	}
	return v;
}

bool
members_is_copy(struct raftd *d, const struct member *m)
{
	uint16_t port = member_tag_port(m, "raft_port");
	char uuid[37], addr[64], ip[46];

	if (!span_copy(member_tag(m, "id"), uuid, sizeof(uuid)))
		return false;
	addr_join(member_ip(m, ip), port, addr, sizeof(addr));
	return server_addr_is_copy(d, uuid, addr);
}
