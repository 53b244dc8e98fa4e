/*
 * One name and one node id at two addresses: has the node moved, or is there a copy of it?
 *
 * The node id is the tag `id`, made once and kept with a node's data.  So the same one elsewhere is the same node with
 * another address, or a copied data directory, and what tells them apart is whether the former address still answers.
 * Both are asked, in the way of a probe: directly, then by others and over a stream, in a few rounds, so that a node
 * that stands still for a moment is not taken for gone.
 *
 *	former address	claimed one	what it is
 *	silent		answers		it has moved: taken over, and passed on
 *	answers		answers		a copy: a name conflict like any other (conflict.c)
 *	any		silent		old news, or forged: nothing
 *
 * Of our own name the claimed address is the one that others tell, and ours needs no asking: while it is silent we stay
 * and overrule what they say.
 */
#include "config.h"

#include <stdlib.h>

#include "gossipd/core/state.h"

#define CHECKS_MAX 64		/* names at a time; of more is heard again */
#define ROUNDS 3
#define KEPT MONO_S(30)		/* a verdict stands for so long: claims are repeated many times */
#define HELPERS_MAX 8

enum verdict { ASKING, MOVED, COPIED, STAYS };

struct moved {
	struct moved *next;
	struct node *node;
	struct addr former, claimed;	/* of our own name: theirs, ours */
	enum verdict verdict;
	struct mono at;			/* the next step; of a verdict: when it is forgotten */
	unsigned round;
	bool helped;			/* others were asked in this round */
	bool former_answers, claimed_answers;
	bool echo;			/* it is we who answer at the former address */
	uint32_t former_seq, claimed_seq;
	uint32_t incarnation;
	uint8_t vsn[NODE_VSN_BYTES];
	uint16_t meta_len;
	uint8_t meta[NODE_META_BYTES_MAX];
};

static struct span
id_of(struct span meta)
{
	struct serf_tags it = serf_meta_tags(meta);
	struct span name, value;

	while (serf_tags_next(&it, &name, &value) == TV_OK)
		if (span_eqs(name, "id"))
			return value;
	return SPAN_NONE;
}

static bool
is_ours(const struct swim *s, const struct moved *c)
{
	return c->node == s->self;
}

/* -- asking ----------------------------------------------------------------------------- */

static void
ping(struct swim *s, const struct moved *c, const struct addr *to, uint32_t seq)
{
	probe_put_ping(s, seq, node_name(c->node));
	out_send(s, to, buf_span(&s->scratch), false);
}

static void
ping_by_stream(struct swim *s, const struct moved *c, const struct addr *to, uint32_t seq)
{
	if (!s->opt.tcp_pings)
		return;
	probe_put_ping(s, seq, node_name(c->node));
	(void)exchange_start(s, SWIM_STREAM_PING, to, mono_add(s->now, s->opt.timing.probe_interval),
	    buf_span(&s->scratch));
}

static bool
may_help(const struct swim *s, const struct node *n)
{
	return n != s->self && n->state == NODE_ALIVE;
}

static void
ask_others(struct swim *s, const struct moved *c)
{
	struct node *others[HELPERS_MAX];
	unsigned want = s->opt.timing.indirect_checks, count;

	count = swim_pick(s, want < HELPERS_MAX ? want : HELPERS_MAX, may_help, others);
	for (unsigned i = 0; i < count; i++)
		if (others[i] != c->node)
			probe_ask(s, others[i], &c->former, node_name(c->node), c->former_seq, false);
}

static void
begin_round(struct swim *s, struct moved *c)
{
	ping(s, c, &c->former, c->former_seq);
	if (!is_ours(s, c))
		ping(s, c, &c->claimed, c->claimed_seq);
	c->helped = false;
	c->at = mono_add(s->now, s->opt.timing.probe_timeout);
}

static void
help_round(struct swim *s, struct moved *c)
{
	struct mono rest = mono_sub(s->opt.timing.probe_interval, s->opt.timing.probe_timeout);

	if (!c->former_answers) {
		ask_others(s, c);
		ping_by_stream(s, c, &c->former, c->former_seq);
	}
	if (!c->claimed_answers && !is_ours(s, c))
		ping_by_stream(s, c, &c->claimed, c->claimed_seq);
	c->helped = true;
	c->at = mono_add(s->now, rest.ns > 0 ? local_health_scale(s, rest) : s->opt.timing.probe_timeout);
}

/* -- verdicts ---------------------------------------------------------------------------- */

static void
notice_move(struct swim *s, const struct moved *c)
{
	s->stats.moves++;
	out_notice(s, &(struct swim_notice){
		.type = is_ours(s, c) ? SWIM_NOTICE_SELF_MOVED : SWIM_NOTICE_MOVED, .name = node_name(c->node),
		.addr = c->former, .other_addr = c->claimed });
}

static void
take_over(struct swim *s, const struct moved *c)
{
	/* A copy: the record's own name goes with what it said of itself before. */
	struct span name = arena_copy(&s->out.arena, node_name(c->node));
	struct wire_alive a = { .incarnation = c->incarnation, .node = name,
		.addr = span_of(c->claimed.ip, c->claimed.len), .port = c->claimed.port,
		.meta = span_of(c->meta, c->meta_len),
		.vsn = span_of(c->vsn, c->vsn[VSN_PMAX] != 0 ? WIRE_VSN_BYTES : 0) };

	if (name.len == 0) {
		s->stats.no_memory++;
		return;
	}
	notice_move(s, c);
	swim_take_move(s, c->node, &a, &c->claimed);
}

static enum verdict
judge_move(const struct swim *s, const struct moved *c)
{
	bool claimed_answers = is_ours(s, c) || c->claimed_answers;

	if (!claimed_answers)
		return STAYS;
	return c->former_answers && !c->echo ? COPIED : MOVED;
}

/* False: the check is over, and no longer needed. */
static bool
conclude(struct swim *s, struct moved *c)
{
	/* Meanwhile it may have moved by other ways: it left, or was forgotten and found again. */
	bool valid = is_ours(s, c) ? !leave_begun(s) : addr_eq(node_addr(c->node), &c->former);

	c->verdict = judge_move(s, c);
	c->at = mono_add(s->now, KEPT);
	if (!valid || c->verdict == STAYS)
		return false;
	if (c->verdict == COPIED) {
		member_conflict(s, c->node, node_name(c->node), is_ours(s, c) ? &c->former : &c->claimed, true);
	} else if (is_ours(s, c)) {
		notice_move(s, c);
		swim_outdo(s, c->incarnation);
	} else {
		take_over(s, c);
	}
	return true;
}

/* False: to be freed. */
static bool
step(struct swim *s, struct moved *c)
{
	if (c->verdict != ASKING)
		return false;
	if (!c->helped && !(c->former_answers && judge_move(s, c) == COPIED)) {
		help_round(s, c);
		return true;
	}
	if ((c->former_answers && judge_move(s, c) == COPIED) || ++c->round == ROUNDS)
		return conclude(s, c);
	begin_round(s, c);
	return true;
}

void
moved_step(struct swim *s)
{
	struct moved **at = &s->moved;

	timer_set(s, TIMER_MOVED, MONO_NEVER);
	while (*at != NULL) {
		struct moved *c = *at;

		if (!mono_before(s->now, c->at) && !step(s, c)) {
			*at = c->next;
			free(c);
			s->moved_count--;
			continue;
		}
		timer_pull(s, TIMER_MOVED, c->at);
		at = &c->next;
	}
}

/* -- claims ------------------------------------------------------------------------------ */

static void
note_claim(struct moved *c, const struct wire_alive *a)
{
	c->incarnation = a->incarnation;
	c->meta_len = (uint16_t)a->meta.len;
	if (a->meta.len > 0)
		memcpy(c->meta, a->meta.p, a->meta.len);
	wire_vsn_copy(a->vsn, c->vsn);
}

static void
begin_check(struct swim *s, struct node *n, const struct wire_alive *a, const struct addr *addr)
{
	struct moved *c;

	if (s->moved_count >= CHECKS_MAX || (c = calloc(1, sizeof(*c))) == NULL)
		return;		/* it will be heard again */
	c->node = n;
	c->former = n == s->self ? *addr : *node_addr(n);
	c->claimed = n == s->self ? s->opt.self : *addr;
	c->former_seq = ++s->seq;
	c->claimed_seq = ++s->seq;
	note_claim(c, a);
	c->next = s->moved;
	s->moved = c;
	s->moved_count++;
	begin_round(s, c);
	timer_pull(s, TIMER_MOVED, c->at);
}

bool
moved_claim(struct swim *s, struct node *n, const struct wire_alive *a, const struct addr *addr)
{
	struct span id = id_of(node_meta(n));
	struct moved *c = s->moved;

	if (id.len == 0 || !span_eq(id, id_of(a->meta)) || a->meta.len > NODE_META_BYTES_MAX)
		return false;
	if (n == s->self && leave_begun(s))
		return true;
	while (c != NULL && c->node != n)
		c = c->next;
	if (c != NULL && c->verdict != ASKING && !addr_eq(addr, &c->former) && !addr_eq(addr, &c->claimed)) {
		moved_forget(s, n);	/* it was about other addresses */
		c = NULL;
	}
	if (c == NULL) {
		begin_check(s, n, a, addr);
		return true;
	}
	if (c->verdict == ASKING) {
		if (addr_eq(addr, n == s->self ? &c->former : &c->claimed) && a->incarnation >= c->incarnation)
			note_claim(c, a);
		return true;
	}
	/* After it has moved: members that do not know yet. */
	return c->verdict != COPIED;
}

/* -- answers ----------------------------------------------------------------------------- */

void
moved_on_ack(struct swim *s, uint32_t seq)
{
	for (struct moved *c = s->moved; c != NULL; c = c->next) {
		c->former_answers = c->former_answers || c->former_seq == seq;
		c->claimed_answers = c->claimed_answers || c->claimed_seq == seq;
	}
}

/* Pings for others do not come back: they are known by their name.  Any member can say that one did. */
void
moved_on_echo(struct swim *s, uint32_t seq)
{
	for (struct moved *c = s->moved; c != NULL; c = c->next)
		c->echo = c->echo || (is_ours(s, c) && c->former_seq == seq);
}

void
moved_forget(struct swim *s, const struct node *n)
{
	struct moved **at = &s->moved;

	while (*at != NULL) {
		struct moved *c = *at;

		if (n == NULL || c->node == n) {
			*at = c->next;
			free(c);
			s->moved_count--;
		} else {
			at = &c->next;
		}
	}
}
