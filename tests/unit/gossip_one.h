/*
 * One gossip core under test: feeds it messages as peers would send them, and finds in its
 * output what it says.
 */
#ifndef TV_TESTS_UNIT_GOSSIP_ONE_H
#define TV_TESTS_UNIT_GOSSIP_ONE_H

#include "gossipd/core/swim.h"
#include "gossipd/core/wire/serfwire.h"

#define SELF "me"

struct one {
	struct swim *s;
	struct swim_options opt;
	struct mono now;
	const struct swim_output *out;	/* of the last feed */
	struct arena arena;		/* for decoding */
	struct buf state;		/* of the last exchange, see one_exchange() */
};

extern const uint8_t one_vsn[6];	/* what Serf nodes send */

/* Timing "lan", 10.0.0.1:7946, no tags; `o->opt` may be changed before one_start(). */
void one_init(struct one *o);
void one_start(struct one *o);
void one_done(struct one *o);
struct addr one_addr(unsigned last);	/* 10.0.0.last:7946 */

enum tv_err one_feed(struct one *o, struct swim_input in);
enum tv_err one_message(struct one *o, enum wire_type kind, struct span body);
/* Ticks at each deadline until then. */
void one_wait(struct one *o, struct mono span);
/* Same, but stops as soon as `found` is true of an output. */
bool one_wait_for(struct one *o, struct mono span, bool (*found)(const struct one *o, void *arg), void *arg);

enum tv_err one_alive_at(struct one *o, const char *name, uint32_t incarnation, const struct addr *addr,
    struct span meta);
/* At 10.0.0.(last letter of the name), without tags. */
enum tv_err one_alive(struct one *o, const char *name, uint32_t incarnation);
enum tv_err one_suspect(struct one *o, const char *name, uint32_t incarnation, const char *from);
enum tv_err one_dead(struct one *o, const char *name, uint32_t incarnation, const char *from);
enum tv_err one_join_intent(struct one *o, const char *name, uint64_t ltime);
enum tv_err one_leave_intent(struct one *o, const char *name, uint64_t ltime, bool prune);
enum tv_err one_ping(struct one *o, uint32_t seq, const char *node);
enum tv_err one_ack(struct one *o, uint32_t seq);
enum tv_err one_nack(struct one *o, uint32_t seq);

/*
 * A stream as another member would open it: push/pull with these nodes and no Serf state.
 * join: its flag.
 */
enum tv_err one_exchange(struct one *o, bool join, const struct wire_node *nodes, uint32_t count);

/* The same with Serf's state, type byte included. */
enum tv_err one_exchange_state(struct one *o, bool join, const struct wire_node *nodes, uint32_t count,
    struct span serf);
/* A Serf message as serf_put_X wrote it, from 10.0.0.200; frees the buffer. */
enum tv_err one_serf(struct one *o, struct buf *b);

enum member_status one_status(const struct one *o, const char *name);
/* SWIM's state, or NODE_STATES when it does not know the name. */
enum node_state one_state(const struct one *o, const char *name);
uint32_t one_incarnation(const struct one *o, const char *name);
struct swim_stats one_stats(const struct one *o);
/* The last event in the last output, or -1 when there was none. */
int one_event(const struct one *o);
bool one_noticed(const struct one *o, enum swim_notice_type type);
/* First part of this type in the last output; its body, or SPAN_NONE.  to: where it goes, may be NULL. */
struct span one_said(const struct one *o, enum wire_type type, struct addr *to);
/* The same of a Serf message: from its type byte on. */
struct span one_said_serf(const struct one *o, enum serf_type type, struct addr *to);
/* How often a Serf message with these bytes went out while gossiping for a second. */
unsigned one_count_spread(struct one *o, struct span message);
/* Gossips until quiet, and tells whether a message of this type about `name` was among what went out. */
bool one_spreads(struct one *o, enum wire_type type, const char *name);
/* The same of a Serf intent. */
bool one_spreads_intent(struct one *o, enum serf_type type, const char *name);

#endif
