/* gossipd.sock: what raftd, rpcd and the tests ask; one function per message. */
#ifndef TV_GOSSIPD_HANDLERS_H
#define TV_GOSSIPD_HANDLERS_H

#include "gossipd/engine.h"

/* Takes over the listening socket. */
struct handlers *handlers_new(struct engine *e, int fd);
/* Tells the clients that watch. */
void handlers_event(struct handlers *h, enum gossip_pool pool, const struct swim_event *ev);
/* A join with origin JOIN_CLIENT came to its end. */
void handlers_joined(struct handlers *h, enum gossip_pool pool, const struct swim_join *j);
/* Clients that asked to watch before joiner_settled() are answered now. */
void handlers_settled(struct handlers *h);
/* Tells the clients that asked for events; the newest are kept for those that ask later. */
void handlers_user_event(struct handlers *h, enum gossip_pool pool, const struct swim_user_event *e);
/* A query that a client may answer. */
void handlers_heard(struct handlers *h, enum gossip_pool pool, const struct swim_query *q);
/* To a query with origin ASK_CLIENT. */
void handlers_response(struct handlers *h, const struct pool *p, const struct swim_response *r);
/* To a query with origin ASK_KEYRING. */
void handlers_key_response(struct handlers *h, const struct pool *p, const struct swim_response *r);
/* The ring of keys changed: tells the clients whose links use them. */
void handlers_keys(struct handlers *h);
/* The leave is complete: answers the clients that asked for it. */
void handlers_left(struct handlers *h);
void handlers_free(struct handlers *h);

#endif
