/*
 * The gossip core: SWIM with Lifeguard, and the Serf layer above it, for one pool.
 * A pure state machine: no sockets, clock, files, globals or logging.  gossipd runs two
 * of them (LAN and WAN), the simulator runs hundreds.
 *
 * Contract.  The shell feeds one input at a time with swim_feed(); every input carries the
 * time.  The core answers with an output that is valid until the next feed:
 *   1. sends      messages, to be sealed into datagrams and sent; losing them is no error
 *   2. streams    exchanges to perform: connect, send `message`, read one message; then feed
 *                 SWIM_IN_ANSWER or SWIM_IN_FAILED with the id, exactly one of them, before `deadline` or
 *                 soon after it
 *   3. answer     for SWIM_IN_REQUEST: what to write back before closing; empty: close at once
 *   4. events     what happened to members, in order
 *   5. user_events, queries    of the pool and our own, each delivered once
 *   6. responses  to our own queries
 *   7. joins      joins that came to an end
 *   8. notices    for the log
 *   9. deadline   feed SWIM_IN_TICK at or after this instant, when nothing else is fed before
 *
 * Messages are what remains below encryption, CRC and compression: the shell peels and wraps those layers with
 * gossipd/core/wire/packet.h and stream.h, because only it has keys and nonces.
 *
 * Sources: Das, Gupta, Motivala, "SWIM", 2002; Dadgar, Phillips, Currey, "Lifeguard", 2018; and the deployed
 * protocol as written down in doc/wire.md.
 */
#ifndef TV_GOSSIPD_CORE_SWIM_H
#define TV_GOSSIPD_CORE_SWIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/base/mono.h"
#include "common/base/rd.h"
#include "common/record/member.h"
#include "gossipd/core/swim/table.h"
#include "gossipd/core/wire/stream.h"

#define SWIM_JOIN_ADDRS_MAX 64		/* addresses in one join */
#define SWIM_STREAMS_MAX 256		/* exchanges of our own under way */
#define SWIM_HEALTH_MAX 8		/* health scores are 0..7 */
#define SWIM_EVENT_BYTES_DEFAULT 512	/* Serf's limit of a user event, unless told otherwise */
#define SWIM_QUERY_BYTES_MAX 1024	/* of a query, and of an answer, as messages */
#define SWIM_FILTERS_MAX 32		/* in one query of ours */
#define SWIM_ASKED_MAX 128		/* queries of ours that are open */
#define SWIM_HEARD_MAX 256		/* queries of others that may still be answered */

/* What a member must not forget across a restart. */
struct swim_clocks {
	uint64_t clock, event_clock, query_clock;	/* Lamport times seen; 0: none */
	uint32_t incarnation;				/* our own; 0: none */
};

/* Timing of a pool; nothing of it is negotiated, so a pool should agree on it. */
struct swim_timing {
	struct mono probe_interval, probe_timeout;
	struct mono gossip_interval, gossip_to_the_dead;
	struct mono pushpull_interval, stream_timeout;
	struct mono dead_reclaim;		/* a dead name may come back elsewhere after this; 0: never */
	struct mono reap_interval, reconnect_interval;
	struct mono reconnect_timeout;		/* a failed member is forgotten after this */
	struct mono tombstone_timeout;		/* a left member is forgotten after this */
	struct mono intent_timeout;		/* intents about unknown members */
	struct mono broadcast_timeout;		/* longest wait for a leave to be gossiped */
	struct mono leave_delay;		/* how long we answer after the leave was gossiped */
	unsigned indirect_checks, suspicion_mult, suspicion_max_mult, retransmit_mult, gossip_nodes;
};

/* Presets "lan", "wan", "local"; NULL for another name. */
const struct swim_timing *swim_preset(const char *name);

/* Parts of Lifeguard that a simulation leaves out, to measure what they are worth.  0 everywhere else. */
#define SWIM_WITHOUT_AWARENESS 1u	/* own health changes nothing */
#define SWIM_WITHOUT_DYNAMIC 2u		/* each suspicion ends after the shortest wait, confirmed or not */
#define SWIM_WITHOUT_BUDDY 4u		/* a suspect is not told so by the members that probe it */
#define SWIM_WITHOUT_STALL 8u		/* ours: a standstill of our own is not noticed */
#define SWIM_WITHOUT_CREDIT 16u		/* ours: each accuser is believed, however many it accuses */
#define SWIM_PLAIN 31u			/* SWIM as it was before */

struct swim_options {
	struct span name;		/* own name, 1..255 bytes; copied */
	struct addr self;		/* what others dial; never a wildcard */
	struct span meta;		/* own tags, encoded, at most NODE_META_BYTES_MAX; copied */
	struct span dc;			/* refuse members whose `dc` tag differs; empty: take all; copied */
	struct swim_timing timing;
	uint32_t members_max;		/* records; further members are refused and counted */
	uint32_t intents_max;		/* buffered intents about unknown members */
	uint32_t queue_max;		/* messages in the queue of each Serf kind */
	uint32_t relays_max;		/* indirect probes for others at a time */
	size_t packet_bytes;		/* soft limit of a datagram, everything included; usually PACKET_MTU */
	size_t seal_bytes;		/* what label and encryption add to it: packet_overhead() */
	bool tcp_pings;			/* try a stream when datagrams fail */
	uint32_t event_bytes;		/* limit of a user event that we fire; 0: the default; at most 9,216 */
	bool coordinates;		/* tell and learn network coordinates */
	uint64_t seed;			/* of everything random; the name hash too, if the store is our own */
	unsigned without;		/* SWIM_WITHOUT_* */
	struct intern *store;		/* of what members say; shared between cores of one thread; NULL: our own */
	struct swim_clocks clocks;	/* of an earlier life: we start above them */
};

enum swim_in_type {
	SWIM_IN_TICK,			/* time passed; nothing else */
	SWIM_IN_MESSAGE,		/* from, kind, bytes: one message of an opened datagram (packet_visit) */
	SWIM_IN_REQUEST,		/* from, message: what came over a stream that was accepted */
	SWIM_IN_ANSWER,			/* stream, message */
	SWIM_IN_FAILED,			/* stream, error */
	SWIM_IN_JOIN,			/* token, addrs, addr_count, quiet, replay */
	SWIM_IN_LEAVE,			/* leave gracefully; the end is told by output.left */
	SWIM_IN_FORCE_LEAVE,		/* name, prune.  TV_ENOENT: unknown, TV_EINVAL: ourselves */
	SWIM_IN_META,			/* bytes: new tags of our own.  TV_ELIMIT */
	SWIM_IN_RESTORE,		/* restore: a member from before a restart.  TV_EINVAL, TV_EEXIST, TV_ELIMIT;
					 * TV_ENOENT: it is to be forgotten by now */
	SWIM_IN_FIRE,			/* name, bytes, coalesce: a user event.  TV_EINVAL: no name, TV_ELIMIT */
	SWIM_IN_QUERY,			/* ask.  TV_EINVAL: name; TV_ELIMIT: too long, or too many are open */
	SWIM_IN_RESPOND,		/* ltime, query_id, bytes.  TV_ENOENT: unknown, over or answered; TV_ELIMIT */
	SWIM_INS
};

/* A query of ours. */
struct swim_ask {
	uint64_t token;			/* comes back in swim_response */
	struct span name, payload;
	const struct span *filters;	/* each as serf_put_filter() writes it */
	unsigned filter_count;		/* 0..SWIM_FILTERS_MAX */
	bool want_ack;
	bool no_broadcast;		/* receivers do not pass it on */
	uint8_t relay_factor;
	struct mono timeout;		/* 0: by the size of the pool, as Serf does */
	bool internal;			/* a `_serf_` name is meant: key queries */
};

/*
 * A member remembered from before a restart.  It is shown as failed or left, and not probed; word of
 * it from others brings it back.
 */
struct swim_restore {
	struct span name, meta;
	struct addr addr;
	enum member_status status;	/* MEMBER_FAILED or MEMBER_LEFT */
	struct mono age;		/* since it failed or left */
	uint64_t status_ltime;
	uint8_t vsn[6];
};

struct swim_input {
	enum swim_in_type type;
	struct mono now;
	struct addr from;
	enum wire_type kind;
	struct span bytes;		/* MESSAGE: body behind the type byte; META: tags; borrowed */
	const struct stream_message *message;	/* borrowed */
	struct span name;		/* borrowed */
	uint64_t stream;		/* id of swim_stream */
	enum tv_err error;		/* FAILED: why */
	uint64_t token;			/* JOIN: comes back in swim_join */
	const struct addr *addrs;	/* JOIN: 1..SWIM_JOIN_ADDRS_MAX, port 0: our own port */
	unsigned addr_count;
	const struct swim_restore *restore;
	bool quiet;			/* JOIN: no join intent follows, unless it is the first join of this life */
	bool replay;			/* JOIN: deliver events from before it */
	bool coalesce;			/* FIRE: receivers may deliver only the newest of this name */
	const struct swim_ask *ask;	/* borrowed */
	uint64_t ltime;			/* RESPOND: of the query, with query_id */
	uint32_t query_id;
	bool prune;			/* FORCE_LEAVE: forget it at once, everywhere */
};

struct swim_send {
	struct addr to;
	const struct span *parts;	/* whole messages for packet_build() */
	unsigned part_count;		/* 1..255 */
	bool crc;			/* the receiver is known to understand a checksum */
};

enum swim_stream_kind { SWIM_STREAM_PUSHPULL, SWIM_STREAM_PING };

struct swim_stream {
	uint64_t id;
	enum swim_stream_kind kind;
	struct addr to;
	struct mono deadline;		/* of the whole exchange */
	struct span message;		/* for stream_build() */
};

/* A member as Serf shows it. */
struct swim_member {
	struct span name, meta;
	struct addr addr;
	enum member_status status;
	const uint8_t *vsn;		/* 6 bytes */
	uint64_t status_ltime;		/* Lamport time of its last intent */
	struct mono gone_at;		/* failed and left ones: since when */
};

struct swim_event {
	enum gossip_event type;
	struct swim_member member;
};

/* A user event; the spans live until the next feed. */
struct swim_user_event {
	uint64_t ltime;
	struct span name, payload;
	bool coalesce;
};

enum swim_query_kind {
	SWIM_QUERY_USER,
	SWIM_QUERY_KEY_INSTALL,		/* payload: the bare key */
	SWIM_QUERY_KEY_USE,
	SWIM_QUERY_KEY_REMOVE,
	SWIM_QUERY_KEY_LIST
};

/* A query that passed its filters; answered by SWIM_IN_RESPOND before `deadline`, or not at all. */
struct swim_query {
	enum swim_query_kind kind;
	uint64_t ltime;
	uint32_t id;
	struct span name, payload;
	struct span from;		/* source node; empty when an old sender does not say */
	struct mono deadline;
};

enum swim_response_kind {
	SWIM_RESPONSE_ACK,
	SWIM_RESPONSE_DATA,
	SWIM_RESPONSE_DONE		/* exactly once per query: its time is over, or all have answered */
};

struct swim_response {
	uint64_t token;
	enum swim_response_kind kind;
	struct span from, payload;
};

struct swim_join {
	uint64_t token;
	unsigned contacted, asked;
	enum tv_err error;		/* of the last address that failed */
	struct addr error_addr;
	struct addr rival;		/* a node there goes by our name, at this address; len 0: none */
};

enum swim_notice_type {
	SWIM_NOTICE_SUSPECT,		/* name: suspected by us, no answer; number: others asked, of which number2
					 * could not reach it either; text: what a stream told */
	SWIM_NOTICE_ACCUSED,		/* name: suspected by other, which we believe; number: incarnation */
	SWIM_NOTICE_CONFIRMED,		/* name: suspected by other as well; number: confirmations, number2: wanted */
	SWIM_NOTICE_NOT_BELIEVED,	/* name: accused by other, which accuses too many */
	SWIM_NOTICE_SPOKE_UP,		/* name: was suspected and is alive; number: its new incarnation */
	SWIM_NOTICE_DECLARED,		/* name: declared dead by other; number: incarnation */
	SWIM_NOTICE_SUSPECTED,		/* name: the accuser of this node, which refutes */
	SWIM_NOTICE_DEAD,		/* name: declared dead by us; number: confirmations */
	SWIM_NOTICE_STREAM_ONLY,	/* name: answers streams but no datagrams */
	/* In these two and the three NAME_ ones below, other: how other_addr spells the name; empty: the same. */
	SWIM_NOTICE_CONFLICT,		/* name: claimed by addr and other_addr */
	SWIM_NOTICE_SELF_CONFLICT,	/* our own name is claimed by other_addr */
	SWIM_NOTICE_REFUSED,		/* addr: exchange refused; text: why; number: 1 when we dialled; other, dc: the
					 * datacenter of the member of this name, and ours, where that is why */
	SWIM_NOTICE_EXCHANGE_FAILED,	/* addr, error: periodic exchange or reconnect failed */
	SWIM_NOTICE_FULL,		/* name: refused, members_max records are held */
	SWIM_NOTICE_STALL,		/* number: ms for which nothing was fed */
	SWIM_NOTICE_LEAVE_REFUTED,	/* someone says that we leave; we do not */
	SWIM_NOTICE_REKEY,		/* own incarnation started over */
	SWIM_NOTICE_MOVED,		/* name: from addr to other_addr */
	SWIM_NOTICE_SELF_MOVED,		/* others told this node at addr, which does not answer: it is at other_addr */
	SWIM_NOTICE_NAME_KEPT,		/* the vote says our name is ours; other_addr: the rival; number: votes */
	SWIM_NOTICE_NAME_LOST,		/* it says other_addr's; conflict_lost follows; number: votes against us;
					 * number2: 1 when its node id is ours too */
	SWIM_NOTICE_NAME_OPEN,		/* too few voted; number: how many.  We stay, and ask again at the next claim */
	SWIM_NOTICES
};

struct swim_notice {
	enum swim_notice_type type;
	struct span name, other, dc;
	struct addr addr, other_addr;
	uint64_t number, number2;
	enum tv_err error;
	const char *text;		/* static, or NULL */
};

struct swim_output {
	const struct swim_send *sends;
	size_t send_count;
	const struct swim_stream *streams;
	size_t stream_count;
	struct span answer;
	const struct swim_event *events;
	size_t event_count;
	const struct swim_user_event *user_events;
	size_t user_event_count;
	const struct swim_query *queries;
	size_t query_count;
	const struct swim_response *responses;
	size_t response_count;
	const struct swim_join *joins;
	size_t join_count;
	const struct swim_notice *notices;
	size_t notice_count;
	bool left;			/* the leave is complete: close */
	bool conflict_lost;		/* most members know another node by our name: stop without leaving */
	bool conflict_copy;		/* and it has our node id */
	struct span conflict_name;	/* how it spells our name; empty: as we do */
	struct mono deadline;
};

struct swim_stats {
	uint32_t known;			/* members in the probe list, ourselves included */
	uint32_t members;		/* shown by Serf, any status */
	uint32_t alive, leaving, left, failed;
	unsigned health;		/* 0 is best */
	uint32_t incarnation;
	uint64_t clock, event_clock, query_clock;
	uint32_t member_queue, intent_queue, query_queue, event_queue;
	uint64_t queue_dropped;
	/* peer errors, by reason */
	uint64_t bad_message;		/* malformed or unknown */
	uint64_t bad_incarnation;	/* beyond what can be refuted */
	uint64_t over_accusations;	/* not believed, for want of credit */
	uint64_t bad_vsn, wrong_dc, conflicts, over_members, over_intents, over_relays, refused_merges;
	uint64_t no_memory;
	uint64_t probes, probes_failed, refutations;
	uint64_t moves;			/* members, and we, found at another address */
	uint64_t bad_coord;		/* coordinates that no honest node has */
	uint64_t coord_resets;		/* how often our own had to start over */
	/* user events */
	uint64_t events_fired, events_heard, events_doubled;	/* own; news of others; heard before */
	uint64_t events_old;		/* from before our time, or behind the window */
	uint64_t events_cut;		/* no longer told in full exchanges: too many bytes */
	uint32_t events_kept;		/* told in full exchanges */
	uint32_t events_kept_bytes;
	/* queries */
	uint64_t queries_asked, queries_heard, queries_doubled, queries_old;
	uint64_t queries_filtered;	/* not meant for us, or with a filter that cannot be read */
	uint64_t queries_answered;	/* acks and answers sent */
	uint64_t answers_taken, answers_strange;	/* to our queries; unknown, late, twice, or from no member */
	uint64_t relays_sent, relays_passed;	/* asked of others; done for others */
	uint32_t queries_open, queries_waiting;	/* ours; of others, not answered yet */
	uint64_t over_packet;		/* Serf messages longer than a packet, not gossiped */
	uint64_t over_ltimes;		/* Lamport times beyond what a clock may jump to */
	uint64_t over_events, over_queries, over_filters, over_answers, over_passed;	/* beyond our limits */
};

struct swim;
struct coordinate;

/* NULL: no memory, or options out of range.  The pool starts with ourselves only; `now` starts the timers. */
struct swim *swim_new(const struct swim_options *opt, struct mono now);
void swim_free(struct swim *s);
/*
 * Feeds one input.  TV_OK, or what the input's type says; TV_EFORMAT and TV_ELIMIT for bytes of a peer, which were
 * dropped and counted (also then *out is complete and must be carried out).
 */
enum tv_err swim_feed(struct swim *s, const struct swim_input *in, const struct swim_output **out);

/* Members that Serf shows, in no order: *cursor starts at 0; false at the end.  The spans live until the next feed. */
bool swim_member_next(const struct swim *s, uint32_t *cursor, struct swim_member *out);
bool swim_member_find(const struct swim *s, struct span name, struct swim_member *out);
void swim_stats(const struct swim *s, struct swim_stats *out);
void swim_clocks(const struct swim *s, struct swim_clocks *out);
/* SWIM's own view of a member, for tests: false when SWIM does not know it. */
bool swim_state_of(const struct swim *s, struct span name, enum node_state *state, uint32_t *incarnation);
/* Our own name; lives as long as s. */
struct span swim_name(const struct swim *s);
/* Our own coordinate: the origin as long as no member answered, and without the option. */
void swim_coord(const struct swim *s, struct coordinate *out);
/* A member's as last heard, or our own: false for one that never answered a probe of ours. */
bool swim_coord_of(const struct swim *s, struct span name, struct coordinate *out);

#endif
