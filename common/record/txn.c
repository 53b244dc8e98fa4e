/* See txn.h. */
#include "common/record/txn.h"

/* Of keys only what is known to write does; of the rest all that is not "get". */
static bool
op_writes(const struct txn_op *op)
{
	static const char *const kv[] = { "set", "cas", "lock", "unlock", "delete", "delete-tree", "delete-cas" };
	const struct span *verb = op->has_node ? &op->Node.Verb : op->has_service ? &op->Service.Verb : &op->Check.Verb;

	if (!op->has_kv)
		return (op->has_node || op->has_service || op->has_check) && !span_eqs(*verb, "get");
	for (unsigned i = 0; i < sizeof(kv) / sizeof(kv[0]); i++)
		if (span_eqs(op->KV.Verb, kv[i]))
			return true;
	return false;
}

bool
txn_writes(const struct txn *t)
{
	const struct txn_op *ops = t->Ops.v;

	for (uint32_t i = 0; i < t->Ops.n; i++)
		if (op_writes(&ops[i]))
			return true;
	return false;
}
