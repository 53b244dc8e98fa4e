/* See claims.h. */
#include "raftd/leader/claims.h"
#include "raftd/leader/members_view.h"
#include "raftd/peers/gossip.h"

static enum claim_verdict
judge_claim(const struct raftd *d, const struct claim *q, const struct gossip_member *gm)
{
	struct reconcile_member m = members_rule_of(gm->member, gm->gone);
	char ip[46];

	return members_are_ours(d, gm->member) ? claim_judge(q, &m, span_str(member_ip(gm->member, ip))) : CLAIM_NONE;
}

const struct member *
claims_against(struct raftd *d, const struct claim *q)
{
	const struct member *found = NULL;
	struct gossip_member gm;

	/* Nodes register themselves, mostly: no walk for these. */
	if (gossip_look_up(d->gossip, q->name, &gm) && judge_claim(d, q, &gm) == CLAIM_OWN)
		return NULL;
	for (size_t at = 0; gossip_next(d->gossip, &at, &gm);) {
		switch (judge_claim(d, q, &gm)) {
		case CLAIM_OWN:
			return NULL;
		case CLAIM_AGAINST:
			found = gm.member;
			break;
		case CLAIM_NONE:
			break;
		}
	}
	return found;
}
