/*
 * Leaving: first the intent, then the word of our own death, each until it was gossiped
 * (or the wait is over), then a while of answering so that both spread.  A member of
 * which only one of the two arrives would look failed or leaving; and so it would for a
 * while to those that hear of the death first, hence the pause between the two, as long as
 * others take to pass the intent on.
 */
#include "config.h"

#include "gossipd/core/state.h"
#include "gossipd/core/swim/scale.h"

static bool
is_other_alive(const struct swim *s, const struct node *n)
{
	return n != s->self && (n->state == NODE_ALIVE || n->state == NODE_SUSPECT);
}

static bool
alone(struct swim *s)
{
	struct node *n;

	return swim_pick(s, 1, is_other_alive, &n) == 0;
}

static void
settle(struct swim *s)
{
	unsigned rounds = scale_retransmits(s->opt.timing.retransmit_mult, s->table.order_count);
	struct mono pause = mono_mul(s->opt.timing.gossip_interval, rounds);

	s->leave = LEAVE_SETTLE;
	pause = mono_min(pause, s->opt.timing.broadcast_timeout);
	timer_set(s, TIMER_LEAVE, alone(s) ? s->now : mono_add(s->now, pause));
}

static void
say_dead(struct swim *s)
{
	struct wire_accuse m = { .incarnation = s->incarnation, .node = s->opt.name, .from = s->opt.name };

	s->leave = LEAVE_DEAD;
	s->queues[QUEUE_MEMBER].released &= ~WAIT_LEAVE;
	timer_set(s, TIMER_LEAVE, alone(s) ? s->now : mono_add(s->now, s->opt.timing.broadcast_timeout));
	swim_dead(s, &m);
}

static void
linger(struct swim *s)
{
	s->leave = LEAVE_LINGER;
	timer_set(s, TIMER_LEAVE, alone(s) ? s->now : mono_add(s->now, s->opt.timing.leave_delay));
}

enum tv_err
leave_start(struct swim *s, const struct swim_input *in UNUSED)
{
	if (leave_begun(s))
		return TV_EEXIST;
	s->leave = LEAVE_INTENT;
	s->queues[QUEUE_INTENT].released &= ~WAIT_LEAVE;
	timer_set(s, TIMER_LEAVE, alone(s) ? s->now : mono_add(s->now, s->opt.timing.broadcast_timeout));
	intent_send_leave(s, s->opt.name, false, WAIT_LEAVE);
	return TV_OK;
}

void
leave_step(struct swim *s)
{
	timer_set(s, TIMER_LEAVE, MONO_NEVER);
	if (s->leave == LEAVE_INTENT) {
		settle(s);
	} else if (s->leave == LEAVE_SETTLE) {
		say_dead(s);
	} else if (s->leave == LEAVE_DEAD) {
		linger(s);
	} else if (s->leave == LEAVE_LINGER) {
		s->leave = LEAVE_DONE;
		s->out.view.left = true;
	}
}

void
leave_check(struct swim *s)
{
	if ((s->leave == LEAVE_INTENT && (s->queues[QUEUE_INTENT].released & WAIT_LEAVE)) ||
	    (s->leave == LEAVE_DEAD && (s->queues[QUEUE_MEMBER].released & WAIT_LEAVE)))
		leave_step(s);
}

enum tv_err
leave_force(struct swim *s, const struct swim_input *in)
{
	struct node *n = table_find(&s->table, in->name);

	if (n == NULL || n->status == MEMBER_NONE)
		return TV_ENOENT;
	if (n == s->self)
		return TV_EINVAL;
	intent_send_leave(s, in->name, in->prune, 0);
	return TV_OK;
}
