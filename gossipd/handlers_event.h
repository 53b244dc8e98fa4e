/* gossipd.sock: user events and queries; the part of handlers.h that handlers_event.c serves. */
#ifndef TV_GOSSIPD_HANDLERS_EVENT_H
#define TV_GOSSIPD_HANDLERS_EVENT_H

#include "gossipd/handlers_int.h"

handlers_fn handlers_on_events, handlers_on_fire, handlers_on_query, handlers_on_respond;

/* false: no memory. */
bool handlers_events_init(struct handlers *h);
/* Its queries end unheard. */
void handlers_events_gone(struct client *c);
void handlers_events_done(struct handlers *h);

#endif
