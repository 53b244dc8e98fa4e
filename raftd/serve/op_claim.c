/*
 * Registrations while the state does not say who lives, as after a restore (leader_is_comparing()): gossip's word is asked before they
 * are proposed.  Their entry may stand in the log behind the restored archive whose nodes have not been looked at.
 */
#include <stdio.h>

#include "common/record/member.h"
#include "raftd/engine/engine.h"
#include "raftd/leader/claims.h"
#include "raftd/leader/leader.h"
#include "raftd/serve/op.h"

/* Who does not lead passes it on, whatever its own gossip says. */
static bool
is_asked(const struct request *q)
{
	return engine_is_leader(q->d->engine) && leader_is_comparing(q->d->leader);
}

/* True: refused. */
static bool
refuse(struct request *q, const struct claim *c)
{
	const struct member *m = claims_against(q->d, c);
	char text[1024], ip[46];
	struct span id;

	if (m == NULL)
		return false;
	id = member_tag(m, "id");
	snprintf(text, sizeof(text), "failed inserting node: %.*s (%.*s) is not registered: node %.*s (%.*s, %s) is alive",
	    (int)c->name.len, (const char *)c->name.p, (int)c->id.len, (const char *)c->id.p, (int)m->name.len,
	    (const char *)m->name.p, (int)id.len, (const char *)id.p, member_ip(m, ip));
	request_fail(q, TV_ECONFLICT, span_str(text));
	return true;
}

bool
op_claims_register(struct request *q, struct span args, struct arena *a)
{
	struct catalog_register reg = { .Node = SPAN_NONE };
	struct rd in = rd_span_over(args);

	return is_asked(q) && schema_unpack(&catalog_register_schema, &in, a, &reg) == TV_OK &&
	    refuse(q, &(struct claim){ .name = reg.Node, .id = reg.ID, .address = reg.Address, .node = !reg.SkipNodeUpdate });
}

bool
op_claims_txn(struct request *q, struct span args, struct arena *a)
{
	struct rd in = rd_span_over(args);
	struct txn t;
	const struct txn_op *op;

	if (!is_asked(q) || schema_unpack(&txn_schema, &in, a, &t) != TV_OK)
		return false;			/* the state machine refuses what cannot be read */
	op = t.Ops.v;
	for (uint32_t i = 0; i < t.Ops.n; i++, op++)
		if (op->has_node && (span_eqs(op->Node.Verb, "set") || span_eqs(op->Node.Verb, "cas")) &&
		    refuse(q, &(struct claim){ .name = op->Node.Node.Node, .id = op->Node.Node.ID,
		    .address = op->Node.Node.Address, .node = true }))
			return true;
	return false;
}
