/*
 * Serf messages, carried as memberlist user messages, and the other formats of
 * Serf: tags, member records, filters, coordinates.  Source: doc/wire.md.
 *
 * serf_put_X appends the Serf type byte and the map; a sender on UDP puts the
 * byte WIRE_USER in front.  serf_get_X reads what follows the Serf type byte.
 * Spans, `a` and errors: as in gossipd/core/wire/wire.h.
 */
#ifndef TV_GOSSIPD_CORE_WIRE_SERFWIRE_H
#define TV_GOSSIPD_CORE_WIRE_SERFWIRE_H

#include "common/record/coordinate.h"
#include "common/record/mpack.h"
#include "gossipd/core/wire/wire.h"

enum serf_type {
	SERF_LEAVE = 0,
	SERF_JOIN = 1,
	SERF_PUSH_PULL = 2,
	SERF_USER_EVENT = 3,
	SERF_QUERY = 4,
	SERF_QUERY_RESPONSE = 5,
	SERF_CONFLICT_RESPONSE = 6,
	SERF_KEY_REQUEST = 7,
	SERF_KEY_RESPONSE = 8,
	SERF_RELAY = 9,
};

#define SERF_EVENT_BYTES_MAX 9216		/* whole user event message */
#define SERF_QUERY_FLAG_ACK 1u
#define SERF_QUERY_FLAG_NO_BROADCAST 2u
#define SERF_RESPONSE_FLAG_ACK 1u
#define SERF_META_MAGIC 0xff
#define SERF_COORD_VERSION 1
#define SERF_RING_SLOTS 512			/* what peers send in Events */

/* Are these the tags of a node of ours, which have a node id and a role of ours?  Serf's agents have others. */
bool serf_meta_is_ours(struct span meta);

/* -- messages --------------------------------------------------------------- */

#define SERF_TEXT STR(1024)			/* message texts, key names, tags of filters */
#define SERF_BULK(kind_) kind_(SERF_EVENT_BYTES_MAX)	/* no message with a longer payload may be sent */

FIELDS_MESSAGE(serf, leave, SERF_LEAVE,
	(U64, ltime, "LTime", 0),
	(WIRE_NAME, node, "Node", 1),
	(BOOL, prune, "Prune", 2))
FIELDS_MESSAGE(serf, join, SERF_JOIN,
	(U64, ltime, "LTime", 0),
	(WIRE_NAME, node, "Node", 1))
FIELDS_MESSAGE(serf, user_event, SERF_USER_EVENT,
	(BOOL, cc, "CC", 3),				/* may coalesce */
	(U64, ltime, "LTime", 0),
	(SERF_BULK(STR), name, "Name", 1),
	(SERF_BULK(BIN), payload, "Payload", 2))
FIELDS(serf_query,
	(ADDR, addr, "Addr", 2),
	(LIST, filters, "Filters", 5),			/* of bin; see serf_list */
	(U32, flags, "Flags", 6),
	(U32, id, "ID", 1),
	(U64, ltime, "LTime", 0),
	(SERF_BULK(STR), name, "Name", 9),
	(SERF_BULK(BIN), payload, "Payload", 10),
	(U16, port, "Port", 3),
	(U8, relay_factor, "RelayFactor", 7),
	(WIRE_NAME, source_node, "SourceNode", 4),
	(I64, timeout_ns, "Timeout", 8))
FIELDS_PUT(serf_put_query, SERF_QUERY, serf_query)
/*
 * Also checks what crashes peers when it is passed on: an empty filter entry,
 * and `_serf_install-key`, `_serf_use-key`, `_serf_remove-key` with an empty payload.
 */
enum tv_err serf_get_query(struct span body, struct arena *a, struct serf_query *m);
/* Old peers crash on a query of this name without a payload. */
bool serf_query_needs_payload(struct span name);
FIELDS_MESSAGE(serf, query_response, SERF_QUERY_RESPONSE,
	(U32, flags, "Flags", 3),
	(WIRE_NAME, from, "From", 2),
	(U32, id, "ID", 1),
	(U64, ltime, "LTime", 0),
	(SERF_BULK(BIN), payload, "Payload", 4))
FIELDS_MESSAGE(serf, key_request, SERF_KEY_REQUEST,
	(BIN(1024), key, "Key", 0))
FIELDS_MESSAGE(serf, key_response, SERF_KEY_RESPONSE,
	(LIST, keys, "Keys", 2),			/* of str */
	(SERF_TEXT, message, "Message", 1),
	(SERF_TEXT, primary_key, "PrimaryKey", 3),
	(BOOL, result, "Result", 0))
FIELDS(serf_member,
	(BIN(WIRE_ADDR_BYTES_MAX), addr, "Addr", 1),
	(U8, dcur, "DelegateCur", 10),
	(U8, dmax, "DelegateMax", 9),
	(U8, dmin, "DelegateMin", 8),
	(WIRE_NAME, name, "Name", 0),
	(U16, port, "Port", 2),
	(U8, pcur, "ProtocolCur", 7),
	(U8, pmax, "ProtocolMax", 6),
	(U8, pmin, "ProtocolMin", 5),
	(U32, status, "Status", 4),			/* enum member_status */
	(DICT, tags, "Tags", 3))			/* str -> str; see serf_tags_next */

struct serf_relay {
	struct span ip;
	uint16_t port;
	struct span zone;
	struct span dest_name;
	struct span inner;		/* a Serf message, type byte included */
};

void serf_put_relay(struct buf *b, const struct serf_relay *m);
/* TV_EFORMAT also when nothing, or another relay, is inside. */
enum tv_err serf_get_relay(struct span body, struct arena *a, struct serf_relay *m);
/* m == NULL: the answer for a name that is not known. */
void serf_put_conflict(struct buf *b, const struct serf_member *m);
/* TV_ENOENT: the peer does not know that name. */
enum tv_err serf_get_conflict(struct span body, struct arena *a, struct serf_member *m);

/* -- lists inside messages ---------------------------------------------------- */

struct serf_list {
	struct rd rd;
	uint32_t left;
};

/* Walks an array of str or bin (filters, keys, left members); SPAN_NONE is an empty one. */
struct serf_list serf_list(struct span array);
/* TV_OK with the next entry, TV_EOF at the end, or the error that ends the walk. */
enum tv_err serf_list_next(struct serf_list *it, struct span *entry);

/* One query filter entry. */
enum serf_filter_type { SERF_FILTER_NODE = 0, SERF_FILTER_TAG = 1 };

struct serf_filter {
	enum serf_filter_type type;
	struct span nodes;		/* FILTER_NODE: array of names, see serf_list */
	struct span tag, expr;		/* FILTER_TAG */
};

/* TV_ENOENT for an unknown filter type. */
enum tv_err serf_get_filter(struct span entry, struct arena *a, struct serf_filter *f);
void serf_put_filter(struct buf *b, const struct serf_filter *f);	/* bare, not wrapped in a bin */

/* -- push/pull state ----------------------------------------------------------- */

FIELDS(serf_state,
	(U64, event_ltime, "EventLTime", 3),
	(LIST, events, "Events", 4),			/* of nil or slots; see serf_slot_next */
	(U64, ltime, "LTime", 0),
	(LIST, left_members, "LeftMembers", 2),		/* of names; see serf_list */
	(U64, query_ltime, "QueryLTime", 5),
	(DICT, status_ltimes, "StatusLTimes", 1))	/* name -> LTime; see serf_status_next */
FIELDS_GET(serf_get_state, serf_state)

struct serf_status_iter {
	struct rd rd;
	uint32_t left;
};

struct serf_status_iter serf_statuses(struct span map);
/* TV_OK, TV_EOF at the end, or the error that ends the walk. */
enum tv_err serf_status_next(struct serf_status_iter *it, struct span *name, uint64_t *ltime);

FIELDS(serf_event_item,
	(SERF_BULK(STR), name, "Name", 0),
	(SERF_BULK(BIN), payload, "Payload", 1))
FIELDS(serf_slot,
	(LIST, items, "Events", 1),			/* see serf_item_next */
	(U64, ltime, "LTime", 0))

/* Walks the filled slots of `events` (nil ones are passed over) with serf_list(). */
enum tv_err serf_slot_next(struct serf_list *it, struct arena *a, struct serf_slot *slot);
/* Walks the events of a slot with serf_list(slot.items). */
enum tv_err serf_item_next(struct serf_list *it, struct arena *a, struct serf_event_item *item);

/*
 * Writing a state, in this order:
 *   serf_state_begin(b, event_ltime, slots); slots times serf_state_nil or serf_state_slot;
 *   serf_state_left(b, ltime, n); n times mpw_raw(name);
 *   serf_state_statuses(b, query_ltime, n); n times serf_state_status.
 */
void serf_state_begin(struct buf *b, uint64_t event_ltime, uint32_t slots);
void serf_state_nil(struct buf *b);
void serf_state_slot(struct buf *b, uint64_t ltime, const struct serf_event_item *items, uint32_t count);
void serf_state_left(struct buf *b, uint64_t ltime, uint32_t count);
void serf_state_statuses(struct buf *b, uint64_t query_ltime, uint32_t count);
void serf_state_status(struct buf *b, struct span name, uint64_t ltime);

/* -- tags ----------------------------------------------------------------------- */

struct serf_tags {
	struct rd rd;
	uint32_t left;
	struct span role;		/* bare role of old members, given once as tag "role" */
};

/* Walks the meta of an alive: ff and a map, or (not empty, no ff) a bare role. */
struct serf_tags serf_meta_tags(struct span meta);
/* Walks a bare msgpack map, as in a member record. */
struct serf_tags serf_map_tags(struct span map);
/* TV_OK, TV_EOF at the end, or the error that ends the walk. */
enum tv_err serf_tags_next(struct serf_tags *it, struct span *name, struct span *value);
/* The meta reads to its end without error and has at most MEMBER_TAGS_MAX tags. */
bool serf_meta_ok(struct span meta);
/* Writes ff and the map; more than 512 bytes in all: TV_ELIMIT and nothing is written. */
enum tv_err serf_put_meta(struct buf *b, const struct member_tag *tags, uint32_t count);

/* -- coordinates ------------------------------------------------------------------ */

/* Ack payload: version byte and map, 130 bytes. */
void serf_put_coord(struct buf *b, const struct coordinate *c);
/*
 * TV_ENOENT: empty payload or unknown version, to be ignored.  TV_EFORMAT also
 * for another number of dimensions and for values that are not finite.
 */
enum tv_err serf_get_coord(struct span payload, struct coordinate *c);

#endif
