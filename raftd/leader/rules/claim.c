/* See claim.h. */
#include "raftd/leader/rules/claim.h"

enum claim_verdict
claim_judge(const struct claim *q, const struct reconcile_member *m, struct span ip)
{
	bool named = span_eq_nocase(q->name, m->name), held = q->id.len > 0 && span_eq_nocase(q->id, m->id);

	/* Without a name it is about the node that has the id. */
	if (m->gone || (m->status != MEMBER_ALIVE && m->status != MEMBER_LEAVING) || m->id.len == 0 || q->name.len == 0)
		return CLAIM_NONE;
	if (named && held)
		return CLAIM_OWN;
	if (held)
		return CLAIM_AGAINST;
	if (!named)
		return CLAIM_NONE;
	if (q->id.len > 0)
		return CLAIM_AGAINST;
	return q->node && !span_eq(q->address, ip) ? CLAIM_AGAINST : CLAIM_NONE;
}
