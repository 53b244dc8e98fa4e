/*
 * Inside of gossipd.sock, shared by the families of questions: handlers.c (members, leaves), handlers_join.c,
 * handlers_resolve.c, handlers_event.c, handlers_coord.c, handlers_key.c.  A family is rows in the table of handlers.c
 * and a file of its own.
 */
#ifndef TV_GOSSIPD_HANDLERS_INT_H
#define TV_GOSSIPD_HANDLERS_INT_H

#include <sys/queue.h>

#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/net/server.h"
#include "common/record/mpack.h"
#include "gossipd/engine.h"

struct client {
	struct server_conn conn;	/* first */
	struct handlers *h;
	bool watching;
	bool events;			/* asked for user events and queries */
	bool may_keys;			/* of rpcd's user: may ask about keys */
	bool keys;			/* an rpcd: is told the psks of its links */
	bool waiting;			/* asked to watch, and the pools are not settled yet */
};

/* A question whose answer comes later. */
struct pending {
	struct pending *next;
	struct client *client;
	uint64_t frame_id;
	uint64_t token;			/* of the join; 0: a leave */
};

struct handlers_events;			/* handlers_event.c */

struct handlers {
	struct engine *e;
	struct handlers_events *events;
	struct server server;		/* its connections are struct client */
	struct pending *pending;
	LIST_HEAD(, handlers_lookup) lookups;	/* handlers_join.c */
	LIST_HEAD(, resolve_ask) resolves;	/* handlers_resolve.c */
	uint64_t tokens;
	LIST_HEAD(, keyring_ask) keyasks;	/* handlers_key.c */
};

/*
 * Answers [err, text]; id 0 wants none.  An answer that cannot be sent closes the channel, which is all that can be
 * done.
 */
void handlers_answer(struct client *c, uint16_t type, uint64_t id, enum tv_err err, const char *text);
/* Remembers a question whose answer comes later; false without memory. */
bool handlers_pend(struct client *c, uint64_t frame_id, uint64_t token);
/* Takes the first pending question of this client (NULL: any) and token (UINT64_MAX: any); the caller frees it. */
struct pending *handlers_unpend(struct handlers *h, const struct client *c, uint64_t token);

/* handlers_key.c: tells the ring as it is now; forgets a client that went away; forgets all. */
void handlers_send_keys(struct client *c);
void handlers_keys_gone(struct client *c);
void handlers_keys_done(struct handlers *h);

/* handlers_join.c: forgets the look-ups of one that has gone; forgets all. */
void handlers_join_gone(struct client *c);
void handlers_join_done(struct handlers *h);

/* handlers_resolve.c: the same. */
void handlers_resolve_gone(struct client *c);
void handlers_resolve_done(struct handlers *h);

/* handlers_event.c: false without memory; the queries of one that has gone end unheard; forgets all. */
bool handlers_events_init(struct handlers *h);
void handlers_events_gone(struct client *c);
void handlers_events_done(struct handlers *h);

server_fn handlers_on_join, handlers_on_resolve, handlers_on_keyring, handlers_coords, handlers_on_events,
    handlers_on_fire, handlers_on_query, handlers_on_respond;

#endif
