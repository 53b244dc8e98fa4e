/*
 * Inside of the gossip core: the state that its files share.  Not for shells and tests
 * of the contract; those use swim.h.
 *
 *   swim.c       contract: new, feed, timers, what was fed late
 *   base.c       what all others use
 *   out.c        the output under construction
 *   member.c     alive, suspect, dead, refute: the merge rules of SWIM
 *   suspect.c    suspicion timers
 *   accuser_credit.c     how much one accuser is believed
 *   probe.c      probe rounds; answers to pings; relayed probes
 *   place.c      coordinates: in acks, and of members
 *   local_health.c  health score
 *   gossip.c     filling packets, the gossip tick
 *   pushpull.c   full exchange and its merge
 *   serf.c       statuses that people see, events, reaping, reconnecting
 *   intent.c     Lamport clocks, join and leave intents
 *   leave.c      leaving, force-leave
 *   ring.c       which user events and queries were heard
 *   event.c      user events
 *   query.c      queries: hearing them, and what is done about each
 *   answer.c     answers to queries, of ours and relayed for others
 *   ask.c        queries of our own: asking, collecting answers
 *   filter.c     does a query mean us
 *   twins.c      names of ours that differ only by case
 *   conflict.c   the vote on our own name
 *   moved.c      one node id at two addresses: moved, or copied
 */
#ifndef TV_GOSSIPD_CORE_STATE_H
#define TV_GOSSIPD_CORE_STATE_H

#include "common/base/arena.h"
#include "common/base/rng.h"
#include "gossipd/core/coord/coord.h"
#include "gossipd/core/serf/intent.h"
#include "gossipd/core/serf/ring.h"
#include "gossipd/core/swim.h"
#include "gossipd/core/swim/broadcast.h"
#include "gossipd/core/swim/twins.h"
#include "gossipd/core/wire/serfwire.h"

/* Queues in the order in which a packet is filled. */
enum swim_queue { QUEUE_MEMBER, QUEUE_INTENT, QUEUE_QUERY, QUEUE_EVENT, QUEUES };

/* Incarnations that a member may jump to; above it they must grow step by step. */
#define INCARNATION_FREE (1u << 31)

/* bqueue.released bits */
#define WAIT_LEAVE 1u

enum swim_timer {
	TIMER_PROBE,		/* next probe round */
	TIMER_PROBE_STEP,	/* timeout, then deadline of the running probe */
	TIMER_RELAY,		/* earliest nack or end of a probe made for others */
	TIMER_SUSPICION,	/* earliest end of a suspicion */
	TIMER_GOSSIP,		/* off while nothing is queued */
	TIMER_PUSHPULL,
	TIMER_REAP,
	TIMER_PRUNE,		/* earliest delayed prune */
	TIMER_RECONNECT,
	TIMER_LEAVE,		/* next step of our leave */
	TIMER_ASK,		/* earliest end of a query of ours */
	TIMER_MOVED,		/* earliest step of a check whether a member has moved */
	TIMERS
};

enum probe_phase { PROBE_IDLE, PROBE_DIRECT, PROBE_INDIRECT };

struct probe {
	enum probe_phase phase;
	struct node *target;		/* NULL: it was forgotten meanwhile, and the probe ends without a verdict */
	uint32_t seq;
	struct mono sent, deadline;
	unsigned asked, nacks_expected, nacks;
	uint64_t stream;		/* fallback ping under way, or 0 */
	bool stream_ok;
	uint32_t index;			/* where the next round starts in table.order */
};

/* A probe made on behalf of another member. */
struct relay {
	struct relay *next;
	uint32_t seq, asker_seq;	/* ours; the asker's */
	struct addr asker;
	struct mono nack_at;		/* MONO_NEVER: was sent, or none is wanted */
	struct mono end;
};

struct suspicion {
	struct suspicion *next, **back;	/* list of all */
	struct node *node;
	struct mono start, end, min, max;
	unsigned need, seen;
	uint64_t from[];		/* hashes of the accusers: the first, then `seen` more */
};

/* An exchange of our own under way. */
struct exchange {
	struct exchange *next;
	uint64_t id;
	enum swim_stream_kind kind;
	uint64_t join;			/* id of its join, or 0 */
	bool ignore_old;		/* user events from before it are not wanted */
	struct addr to;
	struct mono deadline;
};

struct join_run {
	struct join_run *next;
	uint64_t id, token;
	unsigned pending, contacted, asked;
	enum tv_err error;
	struct addr error_addr;
	struct addr rival;		/* claimed our name meanwhile; len 0: none */
	bool quiet;
};

/* A user event that full exchanges tell. */
struct kept_event {
	struct kept_event *next;	/* heard after this one */
	uint64_t ltime;
	uint16_t name_len, payload_len;
	uint8_t bytes[];		/* name, payload */
};

struct events {
	struct ring ring;
	struct kept_event *first, *last;
	uint32_t count;
	size_t bytes;			/* with what keeping them costs */
};

/* A query of another, or our own, that can still be answered. */
struct heard_query {
	struct heard_query *next;
	uint64_t ltime;
	uint32_t id;
	struct mono deadline;
	struct addr to;		/* of the asking node */
	bool ours;
	uint8_t relay_factor;
	uint8_t source_len;
	char source[];			/* its name; may be empty */
};

/* Who answered a query, by the hash of the name: open addressing, cap is a power of 2. */
struct answerer {
	uint64_t hash;			/* 0: free */
	unsigned seen;			/* ANSWER_ACK, ANSWER_DATA */
};

struct answerers {
	struct answerer *items;		/* owned */
	uint32_t count, cap;
	uint32_t complete;		/* of which nothing more is wanted */
};

#define ANSWER_ACK 1u
#define ANSWER_DATA 2u

/* What a query of conflict.c asks: where our name is known; where the rival's other spelling of it is. */
enum vote { VOTE_NONE, VOTE_NAME, VOTE_TWIN };

/* A query of our own that collects answers. */
struct asked {
	struct asked *next;
	uint64_t ltime, token;
	uint32_t id;
	unsigned wanted;		/* what makes a member's answer complete */
	enum vote vote;			/* asked by conflict.c: no client is told */
	struct mono deadline;
	struct answerers from;
};

/* The vote on our own name. */
struct conflict {
	unsigned open;			/* queries that run: one, or two while the rival spells the name otherwise */
	struct addr rival;		/* of the node that claims it */
	uint8_t rival_name[NODE_NAME_BYTES_MAX];
	size_t rival_name_len;		/* 0: spelled as ours */
	bool copy;			/* with our node id, and both answer */
	uint32_t ours, theirs, unknown;	/* answers: our address, another one, no such name */
	uint32_t twins;			/* answers: the rival by its own spelling, at its address */
	struct mono again;		/* no vote begins before */
};

struct queries {
	struct ring ring;
	struct heard_query *heard;	/* newest first */
	uint32_t heard_count;
	struct asked *asked;
	uint32_t asked_count;
	/* What is done for others is limited over time; see swim_may(). */
	struct mono answer_at, pass_at, filter_at, stranger_at;
};

enum leave_phase { LEAVE_NONE, LEAVE_INTENT, LEAVE_SETTLE, LEAVE_DEAD, LEAVE_LINGER, LEAVE_DONE };

struct out {
	struct arena arena;		/* bytes and names of this output */
	bool secret;			/* a key query or its answers went through this feed */
	struct swim_send *sends;
	struct swim_stream *streams;
	struct swim_event *events;
	struct swim_user_event *user_events;
	struct swim_query *queries;
	struct swim_response *responses;
	struct swim_join *joins;
	struct swim_notice *notices;
	size_t send_cap, stream_cap, event_cap, user_event_cap, query_cap, response_cap, join_cap, notice_cap;
	struct swim_output view;	/* counts, and what the caller sees */
};

/* What SWIM asks of Serf, the layer above it (memberlist calls this a delegate); swim.c fills it in. */
struct swim_delegate {
	void (*join)(struct swim *s, struct node *n);
	void (*leave)(struct swim *s, struct node *n);
	void (*update)(struct swim *s, struct node *n);
	enum tv_err (*message)(struct swim *s, const struct addr *from, struct span message);
	void (*state_write)(struct swim *s, struct buf *b);
	enum tv_err (*state_merge)(struct swim *s, struct span state, bool ignore_old);
	bool (*make_room)(struct swim *s);
	void (*introduce)(struct swim *s);		/* intent_send_join() */
	void (*name_claimed)(struct swim *s, struct span name, const struct addr *rival, bool copy);
	bool (*moved)(struct swim *s, struct node *n, const struct wire_alive *a, const struct addr *addr);
	void (*acked)(struct swim *s, uint32_t seq);
	void (*echoed)(struct swim *s, uint32_t seq);
	void (*dropped)(struct swim *s, const struct node *n);
};

struct swim {
	struct swim_options opt;	/* name, meta and dc point to `own` */
	uint8_t *own;
	const struct swim_delegate *serf;
	struct mono now;
	struct rng rng;
	struct table table;
	struct twins twins;
	struct node *self;
	struct bqueue queues[QUEUES];
	struct mono timers[TIMERS];
	uint32_t incarnation, seq;	/* last used */
	unsigned hurry;			/* exchanges after a join that may still come early, */
	struct mono hurry_end;		/* and until when */
	const struct addr *peer;	/* whose state is being merged, or NULL */
	bool peer_dialled;		/* peer is its gossip address; else its port means nothing */
	bool hushed;			/* what is merged now is news only to us: not passed on */
	bool announced;			/* our join intent was sent in this life */
	unsigned health;
	struct probe probe;
	struct relay *relays;
	uint32_t relay_count;
	struct suspicion *suspicions;
	struct accusers *accusers;	/* owned; NULL: no accusation yet */
	uint64_t teller;		/* stands for the partner of the exchange that is merged now; 0: none is */
	struct exchange *exchanges;
	unsigned exchange_count;
	struct join_run *joins;
	uint64_t next_id;		/* of exchanges and joins */
	struct lamport clock, event_clock, query_clock;
	struct intents intents;
	struct mono room_at;		/* the table is not searched for room before */
	struct events events;
	struct queries queries;
	struct conflict conflict;
	struct moved *moved;		/* owned list: checks under way, and verdicts that stand */
	unsigned moved_count;
	uint32_t status_count[MEMBER_FAILED + 1];
	enum leave_phase leave;
	struct out out;
	struct buf scratch;		/* one message under construction */
	struct coord_state coord;
	struct buf payload;		/* of an ack: our coordinate */
	struct bfill fill;
	struct swim_stats stats;	/* the counters of it */
};

/* -- base.c -- */
void timer_set(struct swim *s, enum swim_timer t, struct mono at);
/* Sets it unless it is set to something earlier. */
void timer_pull(struct swim *s, enum swim_timer t, struct mono at);
/* Up to `count` distinct random members for which `fits` holds, into out; returns how many were found. */
unsigned swim_pick(struct swim *s, unsigned count, bool (*fits)(const struct swim *, const struct node *),
    struct node **out);
/*
 * May something that costs `cost` of a budget that refills with time be done now?  *at starts at 0; `burst` is what may
 * be spent at once.
 */
bool swim_may(struct swim *s, struct mono *at, struct mono cost, struct mono burst);
/* -- out.c -- */
/* Starts an empty output; what the last one lent is gone. */
void out_begin(struct swim *s);
void out_done(struct swim *s);
/* parts: in the output's arena, or copied there by the first form. */
void out_send(struct swim *s, const struct addr *to, struct span message, bool crc);
void out_send_parts(struct swim *s, const struct addr *to, const struct span *parts, unsigned count, bool crc);
void out_stream(struct swim *s, uint64_t id, enum swim_stream_kind kind, const struct addr *to, struct mono deadline,
    struct span message);
void out_answer(struct swim *s, struct span message);
void out_event(struct swim *s, enum gossip_event type, const struct node *n);
/* Spans of these three are copied; user events and queries are lent whole or not at all. */
void out_user_event(struct swim *s, const struct swim_user_event *e);
void out_query(struct swim *s, const struct swim_query *q);
/* False without memory. */
bool out_response(struct swim *s, const struct swim_response *r);
void out_join(struct swim *s, const struct join_run *j);
/* name and other are copied; text is static. */
void out_notice(struct swim *s, const struct swim_notice *n);
struct swim_member node_view(const struct node *n);

/* -- member.c: take a message that was checked by its decoder -- */
void swim_alive(struct swim *s, const struct wire_alive *a);
void swim_suspect(struct swim *s, const struct wire_accuse *m);
void swim_dead(struct swim *s, const struct wire_accuse *m);
enum tv_err member_on_alive(struct swim *s, const struct addr *from, struct span body);
enum tv_err member_on_suspect(struct swim *s, const struct addr *from, struct span body);
enum tv_err member_on_dead(struct swim *s, const struct addr *from, struct span body);
/* Queues our own alive as it stands. */
void swim_announce(struct swim *s);
/* Our tags changed: next incarnation, announced. TV_ENOMEM, TV_ELIMIT. */
enum tv_err swim_change_meta(struct swim *s, const struct swim_input *in);
/* Something that was said of us, with this incarnation, is wrong: ours is higher from now on, and announced. */
void swim_outdo(struct swim *s, uint32_t incarnation);
/* The member lives at another address now, as the message says: taken over, whatever its incarnation. */
void swim_take_move(struct swim *s, struct node *n, const struct wire_alive *a, const struct addr *addr);
/* n is claimed at another address, by this name, which may differ by case.  copy: with its node id. */
void member_conflict(struct swim *s, struct node *n, struct span name, const struct addr *claimed, bool copy);
/* Overrules what was said about us with incarnation `accused`. */
void swim_refute(struct swim *s, uint32_t accused);
/* SWIM forgets the member; the record goes too unless Serf still shows it. */
void swim_forget(struct swim *s, struct node *n);
/* Frees a record that neither layer needs. */
void swim_drop_if_unused(struct swim *s, struct node *n);
/* A name that may enter the table: 1..255 bytes, no control characters. */
bool swim_name_ok(struct span name);
/* The member's `dc` tag, borrowed from meta; SPAN_NONE: it has none. */
struct span swim_dc(struct span meta);
/* The member's `dc` tag is absent or ours. */
bool swim_dc_ok(const struct swim *s, struct span meta);

/* -- suspect.c -- */
/* False without memory. */
bool suspicion_start(struct swim *s, struct node *n, struct span from);
/* Counts an accuser; true when it was new and still wanted. */
bool suspicion_confirm(struct swim *s, struct node *n, struct span from);
void suspicion_drop(struct swim *s, struct node *n);
void suspicion_delay(struct swim *s, struct mono by);
void suspicion_fire(struct swim *s);		/* TIMER_SUSPICION */

/* -- accuser_credit.c -- */
struct accusers;
/* Has m->from (or the partner of the exchange that told it) the credit for this accusation of n?  Spends it. */
bool accuser_credit_believed(struct swim *s, const struct node *n, const struct wire_accuse *m);
/* The accused spoke up, and this suspicion is over. */
void accuser_credit_refuted(struct swim *s, const struct suspicion *p);
void accuser_credit_done(struct swim *s);

/* -- probe.c -- */
void probe_tick(struct swim *s);		/* TIMER_PROBE */
void probe_step(struct swim *s);		/* TIMER_PROBE_STEP */
void probe_forget(struct swim *s, const struct node *n);
void probe_cancel(struct swim *s);
void probe_stream_end(struct swim *s, uint64_t stream, bool answered);
/* A ping for `node` into the scratch buffer. */
void probe_put_ping(struct swim *s, uint32_t seq, struct span node);
/* Asks `helper` to ping `name` at `target` for us. */
void probe_ask(struct swim *s, const struct node *helper, const struct addr *target, struct span name, uint32_t seq,
    bool nack);
void relay_step(struct swim *s);		/* TIMER_RELAY */
void relay_done(struct swim *s);
enum tv_err probe_on_ping(struct swim *s, const struct addr *from, struct span body);
enum tv_err probe_on_indirect(struct swim *s, const struct addr *from, struct span body);
enum tv_err probe_on_ack(struct swim *s, const struct addr *from, struct span body);
enum tv_err probe_on_nack(struct swim *s, const struct addr *from, struct span body);
/* A ping over a stream: the answer, or nothing when it is not for us. */
enum tv_err probe_on_stream_ping(struct swim *s, struct span body);

/* -- place.c -- */
/* What our acks to direct pings carry; empty: nothing. */
struct span place_payload(struct swim *s);
/* A member answered our ping directly, after `rtt`. */
void place_heard(struct swim *s, struct node *n, struct span payload, struct mono rtt);
void place_forget(struct node *n);

/* -- local_health.c -- */
void local_health_add(struct swim *s, int delta);
struct mono local_health_scale(const struct swim *s, struct mono interval);

/* -- gossip.c -- */
void gossip_queue(struct swim *s, enum swim_queue q, struct span message, struct bcast **owner, unsigned wait);
/* A control message with broadcasts behind it as far as they fit. */
void gossip_send(struct swim *s, const struct addr *to, struct span message, bool crc);
void gossip_tick(struct swim *s);		/* TIMER_GOSSIP */
/* Queues a Serf message of another; not one that no packet holds, for it would never leave the queue. */
void gossip_pass(struct swim *s, enum swim_queue q, struct span message);

/* -- pushpull.c -- */
void pushpull_tick(struct swim *s);		/* TIMER_PUSHPULL */
/* A member was heard of that we did not know. */
void pushpull_news(struct swim *s);
/* Starts an exchange; join 0: none.  TV_ELIMIT: too many under way. */
enum tv_err pushpull_start(struct swim *s, const struct addr *to, bool joining, uint64_t join);
/* Streams: requests of others, and the ends of our own exchanges. */
enum tv_err pushpull_on_request(struct swim *s, const struct swim_input *in);
enum tv_err pushpull_on_end(struct swim *s, const struct swim_input *in);
enum tv_err pushpull_join(struct swim *s, const struct swim_input *in);
/* Ends exchanges of which the shell never spoke again: it had no memory for them. */
void pushpull_expire(struct swim *s);
void pushpull_done(struct swim *s);
uint64_t exchange_start(struct swim *s, enum swim_stream_kind kind, const struct addr *to, struct mono deadline,
    struct span message);

/* -- serf.c -- */
void serf_node_join(struct swim *s, struct node *n);
void serf_node_leave(struct swim *s, struct node *n);
void serf_node_update(struct swim *s, struct node *n);
void serf_set_status(struct swim *s, struct node *n, enum member_status status);
/* When a member that is marked so is forgotten. */
struct mono serf_prune_at(const struct swim *s, const struct node *n);
void serf_erase(struct swim *s, struct node *n);
/* The same, and remembers that it was pruned, for members that missed it. */
void serf_erase_pruned(struct swim *s, struct node *n);
enum tv_err serf_restore(struct swim *s, const struct swim_input *in);
/* The table is full: some failed members that never answered us give way.  At most once per second; false: none do. */
bool serf_make_room(struct swim *s);
void serf_reap(struct swim *s);			/* TIMER_REAP */
void serf_prune(struct swim *s);		/* TIMER_PRUNE */
void serf_reconnect(struct swim *s);		/* TIMER_RECONNECT */
void serf_state_write(struct swim *s, struct buf *b);
/* ignore_old: events from before now are not wanted. */
enum tv_err serf_state_merge(struct swim *s, struct span state, bool ignore_old);
/* A Serf message: type byte and map. */
enum tv_err serf_message(struct swim *s, const struct addr *from, struct span message);

/* -- intent.c (beside intent.h) -- */
/* Both return whether the message is news and should go on. */
bool intent_join(struct swim *s, uint64_t ltime, struct span name);
bool intent_leave(struct swim *s, uint64_t ltime, struct span name, bool prune);
/*
 * A peer's full state gives a member's status time, and does not show it as left.  As a join of that time, but a leave
 * of the same time is heard afterwards: Serf's agents give the time of a leave that is under way too.
 */
void intent_told(struct swim *s, uint64_t ltime, struct span name);
void intent_left(struct swim *s, uint64_t ltime, struct span name);
/*
 * A member that was pruned here is shown as left since `ltime` elsewhere, no earlier than our prune: remembers the
 * prune as of just after that.  False: a time that is not to be believed.
 */
bool intent_prune_again(struct swim *s, uint64_t hash, struct span name, uint64_t ltime);
enum tv_err intent_on_join(struct swim *s, const struct addr *from, struct span message);
enum tv_err intent_on_leave(struct swim *s, const struct addr *from, struct span message);
void intent_send_join(struct swim *s);
void intent_send_leave(struct swim *s, struct span name, bool prune, unsigned wait);

/* -- leave.c -- */
enum tv_err leave_start(struct swim *s, const struct swim_input *in);
void leave_step(struct swim *s);		/* TIMER_LEAVE */
void leave_check(struct swim *s);		/* after each feed: has what we wait for left the queue? */
enum tv_err leave_force(struct swim *s, const struct swim_input *in);
static inline bool
leave_begun(const struct swim *s)
{
	return s->leave != LEAVE_NONE;
}

/* -- event.c -- */
enum tv_err event_fire(struct swim *s, const struct swim_input *in);
enum tv_err event_on_user(struct swim *s, const struct addr *from, struct span message);
/* `Events` of a full exchange: as many as are kept, written behind serf_state_begin(). */
uint32_t event_state_slots(struct swim *s);
void event_state_write(struct swim *s, struct buf *b);
enum tv_err event_state_merge(struct swim *s, struct span events);
void event_done(struct swim *s);

/* -- query.c -- */
/*
 * Takes a query that was decoded: rings, passing on, filters, ack, delivery.  message: as it came, passed on if
 * `spread`.  False when it is no news.
 */
bool query_take(struct swim *s, const struct serf_query *m, struct span message, bool spread);
enum tv_err query_on_query(struct swim *s, const struct addr *from, struct span message);
enum tv_err query_respond(struct swim *s, const struct swim_input *in);
void query_done(struct swim *s);

/* -- answer.c -- */
struct addr answer_addr(struct span ip, uint16_t port);
/* 4-byte and v4-mapped forms of an address being equal. */
bool answer_addr_same(const struct addr *a, const struct addr *b);
/*
 * Sends an ack or an answer.  stranger: also to a node that we do not know at that address, for the one that asks
 * whose a name is may be about to lose it.  TV_ELIMIT: too long.  What is not sent for other reasons is counted.
 */
enum tv_err answer_send(struct swim *s, const struct heard_query *q, uint32_t flags, struct span payload,
    bool stranger);
/* Another asks us to send an answer on. */
enum tv_err answer_on_relay(struct swim *s, const struct addr *from, struct span message);

/* -- ask.c -- */
enum tv_err ask_query(struct swim *s, const struct swim_input *in);
/* The same without a check of the name; a vote: for conflict.c. */
enum tv_err ask_start(struct swim *s, const struct swim_ask *q, enum vote vote);
enum tv_err ask_on_response(struct swim *s, const struct addr *from, struct span message);
/* An ack or answer to what may be a query of ours. */
void ask_take(struct swim *s, const struct serf_query_response *m);
void ask_expire(struct swim *s);		/* TIMER_ASK */
void ask_done(struct swim *s);

/* -- filter.c -- */
/* All filters of a query pass for this node; what cannot be read does not. */
bool filter_pass(struct swim *s, struct span filters);

/* -- conflict.c -- */
/* A node at `rival` goes by our name, or by this other spelling of it; copy: and by our node id. */
void conflict_claimed(struct swim *s, struct span name, const struct addr *rival, bool copy);
/* A node there, which calls itself so, asks the pool whose our name is. */
void conflict_heard(struct swim *s, struct span name, const struct addr *rival);
/* An answer to one of the queries of the vote; and the end of one. */
void conflict_vote(struct swim *s, enum vote vote, struct span payload);
void conflict_decide(struct swim *s);
/* Answers the `_serf_conflict` of another into b; false: we are the one in question, and say nothing. */
bool conflict_answer(struct swim *s, struct span name, struct buf *b);

/* -- moved.c -- */
/*
 * The name of n is claimed at addr.  True: with its node id, so that it is being found out whether it has moved, or
 * that was found out and needs no word.  False: a conflict.
 */
bool moved_claim(struct swim *s, struct node *n, const struct wire_alive *a, const struct addr *addr);
void moved_step(struct swim *s);		/* TIMER_MOVED */
/* An ack with this number; a ping of ours that came back to us. */
void moved_on_ack(struct swim *s, uint32_t seq);
void moved_on_echo(struct swim *s, uint32_t seq);
/* The record goes; NULL: all checks end without a verdict. */
void moved_forget(struct swim *s, const struct node *n);

#endif
