/*
 * Somebody else goes by our name: the members vote.  Each says at which address it knows the name.
 * Source: doc/wire.md, "Name conflict".
 *
 * Losing ends the daemon, so a forged message must not be able to bring it about.  The deployed protocol counts
 * whatever answers come, and no answer at all as a defeat.  Here we give way only when more members name
 * another address than name ours, and at least half of those we know to be alive took part; members that do
 * not know the name abstain.  Otherwise we stay, and vote again when the name is next claimed, but not often.
 */
#include "config.h"

#include "gossipd/core/state.h"

#define PAUSE MONO_S(30)	/* from the end of a vote to the next */
#define TEXT_MAX 700		/* names and tags of an answer that surely fits */

static const char query_name[] = "_serf_conflict";

void
conflict_claimed(struct swim *s, const struct gaddr *rival, bool copy)
{
	struct swim_ask q = { .name = span_str(query_name), .payload = s->opt.name };
	struct conflict *c = &s->conflict;

	if (c->running || leave_begun(s) || mono_before(s->now, c->again))
		return;
	*c = (struct conflict){ .running = true, .rival = *rival, .copy = copy };
	if (ask_start(s, &q, true) != TV_OK)
		*c = (struct conflict){ .again = mono_add(s->now, PAUSE) };
}

/* Others do not pass on what a second owner of a name says, so this may be all that the first one hears of it. */
void
conflict_heard(struct swim *s, const struct gaddr *rival)
{
	s->stats.conflicts++;
	out_notice(s, &(struct swim_notice){ .type = SWIM_NOTICE_SELF_CONFLICT, .name = s->opt.name,
		.addr = s->opt.self, .other_addr = *rival });
}

void
conflict_vote(struct swim *s, struct span payload)
{
	struct span self = span_of(s->opt.self.ip, s->opt.self.len);
	struct serf_member m;
	enum tv_err err;

	if (payload.len < 2 || payload.p[0] != SERF_CONFLICT_RESPONSE)
		return;
	err = serf_get_conflict(span_of(payload.p + 1, payload.len - 1), &s->out.arena, &m);
	if (err == TV_ENOENT)
		s->conflict.unknown++;
	else if (err == TV_OK && wire_addr_same(m.addr, self) && m.port == s->opt.self.port)
		s->conflict.ours++;
	else if (err == TV_OK)
		s->conflict.theirs++;
}

void
conflict_decide(struct swim *s)
{
	struct conflict *c = &s->conflict;
	uint32_t others = s->status_count[MEMBER_ALIVE] - (s->self->status == MEMBER_ALIVE);
	uint64_t votes = (uint64_t)c->ours + c->theirs + c->unknown;
	struct swim_notice n = { .type = SWIM_NOTICE_NAME_OPEN, .name = s->opt.name, .addr = s->opt.self,
		.other_addr = c->rival, .number = votes };

	if (leave_begun(s))
		return;
	if (c->theirs > c->ours && votes * 2 >= others) {
		n.type = SWIM_NOTICE_NAME_LOST;
		n.number = c->theirs;
		n.number2 = c->copy;
		s->out.view.conflict_lost = true;
		s->out.view.conflict_copy = c->copy;
	} else if (c->ours > c->theirs) {
		n.type = SWIM_NOTICE_NAME_KEPT;
		n.number = c->ours;
	}
	out_notice(s, &n);
	*c = (struct conflict){ .again = mono_add(s->now, PAUSE) };
}

/* The tags as a bare map; a member of the oldest kind has only a role. */
static struct span
tags_of(const struct node *n)
{
	struct span meta = node_meta(n);

	if (meta.len < 2 || meta.p[0] != SERF_META_MAGIC)
		return SPAN_NONE;
	return span_of(meta.p + 1, meta.len - 1);
}

bool
conflict_answer(struct swim *s, struct span name, struct buf *b)
{
	const struct node *n = table_find(&s->table, name);
	const struct gaddr *addr;
	const uint8_t *vsn;
	struct serf_member m;

	if (n == s->self)
		return false;
	if (n == NULL || n->status == MEMBER_NONE) {
		serf_put_conflict(b, NULL);
		return true;
	}
	addr = node_addr(n);
	vsn = node_vsn(n);
	m = (struct serf_member){ .name = node_name(n), .addr = span_of(addr->ip, addr->len), .port = addr->port,
		.tags = tags_of(n), .status = n->status, .pmin = vsn[VSN_PMIN], .pmax = vsn[VSN_PMAX],
		.pcur = vsn[VSN_PCUR], .dmin = vsn[VSN_DMIN], .dmax = vsn[VSN_DMAX], .dcur = vsn[VSN_DCUR] };
	if (s->opt.name.len + name.len + m.tags.len > TEXT_MAX)
		m.tags = SPAN_NONE;	/* the answer would be too long */
	serf_put_conflict(b, &m);
	return true;
}
