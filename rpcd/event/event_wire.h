/*
 * User events between the API and gossip.  One without filters travels as a plain Serf user event: its name, its
 * bytes; its ID is derived from what travels, so every node shows the same one.  One with filters travels in Consul's
 * envelope: name "consul:event:NAME", payload a msgpack map with ID, name, bytes and filters.  Both are read.
 */
#ifndef TV_RPCD_EVENT_EVENT_WIRE_H
#define TV_RPCD_EVENT_EVENT_WIRE_H

#include "common/record/records.h"

#define EVENT_ID_BYTES 36		/* a UUID as text */
#define EVENT_NEW_LEADER "consul:new-leader"	/* payload: name of the node that leads now */

enum event_kind {
	EVENT_USER,		/* to be listed */
	EVENT_INTERNAL,		/* announced by the servers: for the log */
	EVENT_BAD,		/* an envelope that does not read */
};

/*
 * What came over gossip.  The spans of *out point into name, payload and id; id gets the derived ID when the event
 * has none that is a UUID.
 */
enum event_kind event_wire_read(uint64_t ltime, struct span name, struct span payload, char id[EVENT_ID_BYTES + 1],
    struct user_event *out);
/* Name and payload as they travel.  e->ID is used in an envelope only. */
void event_wire_write(const struct user_event *e, struct buf *name, struct buf *payload);
/* Would it travel in an envelope? */
bool event_wire_enveloped(const struct user_event *e);
/* The ID of an event without envelope. */
void event_wire_id(uint64_t ltime, struct span name, struct span payload, char id[EVENT_ID_BYTES + 1]);
/* A fresh one, version 4. */
void event_wire_random_id(char id[EVENT_ID_BYTES + 1]);
/* X-Consul-Index of a list that ends with this event: both halves of the ID, combined by exclusive or.  Never 0. */
uint64_t event_wire_index(struct span id);

#endif
