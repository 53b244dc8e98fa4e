/* What a transaction is, without looking at the state. */
#ifndef TV_COMMON_RECORD_TXN_H
#define TV_COMMON_RECORD_TXN_H

#include "common/record/records.h"

/* Would one of its operations change anything?  Verbs that are not known count as Consul counts them. */
bool txn_writes(const struct txn *t);
/*
 * A list of operations as JSON; what it holds is in the arena.  On an error `why` says what is wrong.  TV_ELIMIT:
 * they are more than TXN_OPS_MAX.  In libtvjson.a.
 */
enum tv_err txn_from_json(struct span body, struct arena *a, struct txn *out, char *why, size_t cap);

#endif
