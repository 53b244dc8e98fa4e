/* The body of a transaction. */
#include <stdio.h>

#include "common/record/schema_json.h"
#include "common/record/txn.h"

/* Before the list is decoded: each operation takes more memory than its text. */
static enum tv_err
too_many(size_t n, char *why, size_t cap)
{
	return tv_fail(why, cap, TV_ELIMIT, "Transaction contains too many operations (%zu > %d)", n, TXN_OPS_MAX);
}

static enum tv_err
each_is_one(const struct txn *t, char *why, size_t cap)
{
	const struct txn_op *ops = t->Ops.v;

	for (uint32_t i = 0; i < t->Ops.n; i++)
		if (ops[i].has_kv + ops[i].has_node + ops[i].has_service + ops[i].has_check != 1)
			return tv_fail(why, cap, TV_EFORMAT, "operation %u does not have exactly one of KV, Node, "
			    "Service and Check", i);
	return TV_OK;
}

enum tv_err
txn_from_json(struct span body, struct arena *a, struct txn *out, char *why, size_t cap)
{
	json_t *list = json_first_value(body, why, cap), *all;
	enum tv_err err = TV_ENOMEM;

	*out = (struct txn){ .Ops = { .set = true } };
	if (list == NULL)
		return TV_EFORMAT;
	if (json_array_size(list) > TXN_OPS_MAX) {
		err = too_many(json_array_size(list), why, cap);
		json_decref(list);
		return err;
	}
	snprintf(why, cap, "%s", tv_strerror(TV_ENOMEM));
	all = json_pack("{s:o}", "Ops", list);		/* takes the list in any case */
	if (all != NULL)
		err = schema_from_json(&txn_schema, all, SJ_STRICT | SJ_INDEXES, a, out, why, cap);
	json_decref(all);
	return err == TV_OK ? each_is_one(out, why, cap) : err;
}
