/*
 * Another node goes by our name: the members vote.  Each says at which address it knows the name.
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

static struct span
rival_name(const struct conflict *c)
{
	return span_of(c->rival_name, c->rival_name_len);
}

static void
begin_vote(struct swim *s, struct span name, enum vote vote)
{
	struct swim_ask q = { .name = span_str(query_name), .payload = name };

	s->conflict.open++;	/* first: alone in the pool, it is over at once */
	if (ask_start(s, &q, vote) != TV_OK)
		s->conflict.open--;
}

/*
 * A rival with another spelling.  Members that follow our rule know one of the two, and those that follow Serf's rule
 * know both.  So both spellings are asked for: an answer to one is a vote for it, and the votes of those that know both
 * cancel each other.
 */
void
conflict_claimed(struct swim *s, struct span name, const struct addr *rival, bool copy)
{
	struct conflict *c = &s->conflict;

	if (c->open > 0 || leave_begun(s) || mono_before(s->now, c->again))
		return;
	*c = (struct conflict){ .rival = *rival, .copy = copy, .again = mono_add(s->now, PAUSE) };
	if (name.len > 0 && name.len <= sizeof(c->rival_name)) {
		memcpy(c->rival_name, name.p, name.len);
		c->rival_name_len = name.len;
		begin_vote(s, name, VOTE_TWIN);
	}
	begin_vote(s, s->opt.name, VOTE_NAME);
}

/* Others do not pass on what a second owner of a name says, so this may be all that the first one hears of it. */
void
conflict_heard(struct swim *s, struct span name, const struct addr *rival)
{
	s->stats.conflicts++;
	out_notice(s, &(struct swim_notice){ .type = SWIM_NOTICE_SELF_CONFLICT, .name = s->opt.name,
		.other = span_eq(name, s->opt.name) ? SPAN_NONE : name, .addr = s->opt.self, .other_addr = *rival });
}

/* The rival by its own spelling, and not another node of that spelling, as one of Serf's agents may be. */
static bool
is_rival(const struct conflict *c, const struct serf_member *m)
{
	return (m->status == MEMBER_ALIVE || m->status == MEMBER_LEAVING) && m->port == c->rival.port &&
	    wire_addr_same(m->addr, span_of(c->rival.ip, c->rival.len));
}

void
conflict_vote(struct swim *s, enum vote vote, struct span payload)
{
	struct span self = span_of(s->opt.self.ip, s->opt.self.len);
	struct conflict *c = &s->conflict;
	struct serf_member m;
	enum tv_err err;

	if (payload.len < 2 || payload.p[0] != SERF_CONFLICT_RESPONSE)
		return;
	err = serf_get_conflict(span_of(payload.p + 1, payload.len - 1), &s->out.arena, &m);
	if (vote == VOTE_TWIN)
		c->twins += err == TV_OK && is_rival(c, &m);
	else if (err == TV_ENOENT)
		c->unknown++;
	else if (err == TV_OK && wire_addr_same(m.addr, self) && m.port == s->opt.self.port)
		c->ours++;
	else if (err == TV_OK)
		c->theirs++;
}

static void
lose(struct swim *s, struct swim_notice *n, uint32_t against)
{
	n->type = SWIM_NOTICE_NAME_LOST;
	n->number = against;
	n->number2 = s->conflict.copy;
	s->out.view.conflict_lost = true;
	s->out.view.conflict_copy = s->conflict.copy;
	s->out.view.conflict_name = arena_copy(&s->out.arena, n->other);
}

void
conflict_decide(struct swim *s)
{
	struct conflict *c = &s->conflict;
	uint32_t others = s->status_count[MEMBER_ALIVE] - (s->self->status == MEMBER_ALIVE);
	uint64_t votes = (uint64_t)c->ours + c->theirs + c->unknown;
	uint32_t theirs = c->rival_name_len > 0 ? c->twins : c->theirs;		/* one member, one voice */
	struct swim_notice n = { .type = SWIM_NOTICE_NAME_OPEN, .name = s->opt.name, .other = rival_name(c),
		.addr = s->opt.self, .other_addr = c->rival, .number = votes };

	if (--c->open > 0)
		return;
	c->again = mono_add(s->now, PAUSE);
	if (leave_begun(s))
		return;
	if (theirs > c->ours && votes * 2 >= others) {
		lose(s, &n, theirs);
	} else if (c->ours > theirs) {
		n.type = SWIM_NOTICE_NAME_KEPT;
		n.number = c->ours;
	}
	out_notice(s, &n);
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
	const struct addr *addr;
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
