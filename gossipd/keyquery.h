/* Key queries of the pools, as `serf keys` and `clusterctl keyring` send them: install, use, remove, list. */
#ifndef TV_GOSSIPD_KEYQUERY_H
#define TV_GOSSIPD_KEYQUERY_H

#include "gossipd/engine.h"

/* The name of the query that asks for this; a static text. */
const char *keyquery_name(enum kring_op op);
/*
 * Carries out a key query of a pool and answers it.  What is asked in clear proves nothing, and what is answered in
 * clear would tell the keys to everybody: so while encryption is rolled in, orders are refused, and before anything
 * is sealed the list is too.
 */
void keyquery_heard(struct engine *e, struct pool *p, const struct swim_query *q);
/* NULL, or why such a query cannot be sent or carried out at this node's stage of encryption. */
const char *keyquery_refused(const struct engine *e, enum kring_op op);

#endif
