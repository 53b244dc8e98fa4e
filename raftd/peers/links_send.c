/* Sending what the core sends. */
#include "common/net/msg.h"
#include "raftd/engine/engine.h"
#include "raftd/peers/links_int.h"

/*
 * Do these entries wait in the channel already?  A probe is repeated with each heartbeat until it is answered: to a peer
 * that reads slowly the same entries would be put behind themselves again and again.
 */
static bool
is_offered(const struct dialled *p, const struct raft_send *s)
{
	const struct offer *o = &p->offer;

	return s->first == o->first && s->first + s->msg.entry_count - 1 <= o->last && s->msg.term == o->term &&
	    !chan_passed(p->chan, o->mark);
}

/* Returns its size; 0: it is lost. */
static size_t
send_message(struct dialled *p, const struct raft_send *s)
{
	struct engine *e = p->l->d->engine;
	struct raft_msg m = s->msg;
	uint32_t got = 0;
	struct buf *b;
	size_t size;

	/* Of an older term, and late: another leader's entries may be in their place by now. */
	if (m.type == RAFT_MSG_APPEND && m.term != engine_term(e))
		return 0;
	if (m.entry_count > 0 && is_offered(p, s))
		m.entry_count = 0;		/* the heartbeat goes */
	if (m.entry_count > 0) {
		m.entries = engine_entries(e, s->first, m.entry_count, &got);
		if (m.entries == NULL)
			return 0;		/* compacted meanwhile: the core will find out */
		/* A part is a valid message too: what lacks is sent again after the answer. */
		m.entry_count = got;
	}
	b = chan_begin(p->chan, MSG_RAFT, 0, 0);
	if (b == NULL)
		return 0;
	size = b->len;
	raft_msg_write(b, &m);
	size = b->len - size;
	if (chan_end(p->chan) != TV_OK)
		return 0;
	if (m.entry_count > 0)
		p->offer = (struct offer){ s->first, s->first + m.entry_count - 1, m.term, chan_mark(p->chan) };
	return size;
}

static void
send_now(struct dialled *p, const struct raft_send *s)
{
	struct raftd *d = p->l->d;

	if (s->msg.type != RAFT_MSG_SNAPSHOT) {
		sendq_sent(&p->out, send_message(p, s));
		return;
	}
	p->l->hooks->send_chunk(d, p->chan, s);
	sendq_sent(&p->out, d->conf.snapshot_chunk);
}

void
links_send(struct raftd *d, const struct raft_send *s)
{
	struct links *l = d->links;
	struct dialled *p = NULL;

	for (unsigned i = 0; i < l->count && p == NULL; i++)
		if (l->peers[i]->pub.id == s->msg.to && l->peers[i]->pub.proven)
			p = l->peers[i];
	if (p == NULL || p->chan == NULL || l->silent)
		return;
	if (sendq_put(&p->out, s, chan_pending(p->chan)))
		send_now(p, s);
}

void
links_flush(struct raftd *d)
{
	struct links *l = d->links;
	struct raft_send s;

	for (unsigned i = 0; i < l->count; i++) {
		struct dialled *p = l->peers[i];

		if (p->chan == NULL)
			continue;
		sendq_turn(&p->out);
		while (sendq_next(&p->out, chan_pending(p->chan), &s))
			send_now(p, &s);
		chan_flush(p->chan);
	}
}

bool
links_waiting(struct links *l)
{
	for (unsigned i = 0; i < l->count; i++)
		if (l->peers[i]->chan != NULL && sendq_waiting(&l->peers[i]->out, chan_pending(l->peers[i]->chan)))
			return true;
	return false;
}

void
links_silence(struct links *l, bool silent)
{
	l->silent = silent;
	for (unsigned i = 0; silent && i < l->count; i++)
		sendq_clear(&l->peers[i]->out);
}
