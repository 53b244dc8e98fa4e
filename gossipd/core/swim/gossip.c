/*
 * Dissemination: queues of broadcasts, packets filled from them, and the gossip tick.
 * The tick runs only while there is something to say and someone to say it to, so an idle
 * pool wakes up for probes alone.
 */
#include "config.h"

#include "gossipd/core/state.h"
#include "gossipd/core/swim/scale.h"

#define GOSSIP_NODES_MAX 32	/* targets of one tick, whatever the configuration says */

static const uint8_t user_prefix[1] = { WIRE_USER };

void
gossip_queue(struct swim *s, enum swim_queue q, struct span message, struct bcast **owner, unsigned wait)
{
	struct span prefix = q == QUEUE_MEMBER ? SPAN_NONE : span_of(user_prefix, sizeof(user_prefix));
	enum tv_err err = s->scratch.failed ? TV_ENOMEM : bqueue_put(&s->queues[q], prefix, message, owner, wait);

	if (err != TV_OK) {
		s->stats.no_memory++;
		s->queues[q].released |= wait;	/* no timer may wait for what is not there */
		return;
	}
	timer_pull(s, TIMER_GOSSIP, mono_add(s->now, s->opt.timing.gossip_interval));
}

static uint32_t
serf_members(const struct swim *s)
{
	uint32_t n = 0;

	for (int status = MEMBER_ALIVE; status <= MEMBER_FAILED; status++)
		n += s->status_count[status];
	return n;
}

/* Broadcasts into what is left of the packet: SWIM's own first, then Serf's by kind. */
static void
fill_queued(struct swim *s)
{
	unsigned mult = s->opt.timing.retransmit_mult;

	bqueue_fill(&s->queues[QUEUE_MEMBER], &s->fill, PACKET_COST, scale_retransmits(mult, s->table.order_count));
	for (enum swim_queue q = QUEUE_INTENT; q < QUEUES && s->fill.room > PACKET_COST_USER; q++)
		bqueue_fill(&s->queues[q], &s->fill, PACKET_COST, scale_reach(mult, serf_members(s)));
}

/* Bytes for broadcasts beside a message of `used` bytes. */
static size_t
room_beside(const struct swim *s, size_t used)
{
	size_t fixed = used + PACKET_COST + s->opt.seal_bytes;

	return fixed < s->opt.packet_bytes ? s->opt.packet_bytes - fixed : 0;
}

void
gossip_pass(struct swim *s, enum swim_queue q, struct span message)
{
	if (message.len + PACKET_COST_USER <= room_beside(s, 0))
		gossip_queue(s, q, message, NULL, 0);
	else
		s->stats.over_packet++;
}

void
gossip_send(struct swim *s, const struct addr *to, struct span message, bool crc)
{
	bfill_init(&s->fill, &s->out.arena, room_beside(s, message.len));
	if (s->scratch.failed || !bfill_add(&s->fill, message)) {
		s->stats.no_memory++;
		return;
	}
	fill_queued(s);
	out_send_parts(s, to, s->fill.parts, s->fill.count, crc);
}

static bool
hears_gossip(const struct swim *s, const struct node *n)
{
	if (n == s->self || n->state == NODE_LEFT)
		return false;
	return n->state != NODE_DEAD ||
	    !mono_before(mono_add(n->changed, s->opt.timing.gossip_to_the_dead), s->now);
}

static bool
anything_queued(const struct swim *s)
{
	for (enum swim_queue q = 0; q < QUEUES; q++)
		if (s->queues[q].count > 0)
			return true;
	return false;
}

void
gossip_tick(struct swim *s)
{
	struct node *targets[GOSSIP_NODES_MAX];
	unsigned want = s->opt.timing.gossip_nodes, count;

	count = swim_pick(s, want < GOSSIP_NODES_MAX ? want : GOSSIP_NODES_MAX, hears_gossip, targets);
	for (unsigned i = 0; i < count; i++) {
		bfill_init(&s->fill, &s->out.arena, room_beside(s, 0));
		fill_queued(s);
		if (s->fill.count == 0)
			break;
		out_send_parts(s, node_addr(targets[i]), s->fill.parts, s->fill.count,
		    node_vsn(targets[i])[VSN_PMAX] >= 5);
	}
	timer_set(s, TIMER_GOSSIP, count > 0 && anything_queued(s) ?
	    mono_add(s->now, s->opt.timing.gossip_interval) : MONO_NEVER);
}
