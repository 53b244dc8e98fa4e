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

/* The entries of a message.  TV_EAGAIN: they are being read; any other error: it is lost. */
static enum tv_err
fill_entries(struct dialled *p, const struct raft_send *s, struct raft_msg *m)
{
	uint32_t got = 0;
	enum tv_err err = engine_entries_to_send(p->l->d->engine, p->window, s->first, m->entry_count, &m->entries, &got);

	/* A part is a valid message too: what lacks is sent again after the answer. */
	m->entry_count = got;
	return err;
}

/* *size: of what left.  TV_EAGAIN: not yet; any other error: it is lost. */
static enum tv_err
send_message(struct dialled *p, const struct raft_send *s, size_t *size)
{
	struct raft_msg m = s->msg;
	struct buf *b;
	size_t before;

	*size = 0;
	/* Of an older term, and late: another leader's entries may be in their place by now. */
	if (m.type == RAFT_MSG_APPEND && m.term != engine_term(p->l->d->engine))
		return TV_ENOTLEADER;
	if (m.entry_count > 0 && is_offered(p, s))
		m.entry_count = 0;		/* the heartbeat goes */
	if (m.entry_count > 0) {
		enum tv_err err = fill_entries(p, s, &m);

		if (err != TV_OK)
			return err;		/* compacted meanwhile: the core will find out */
	}
	b = chan_begin(p->chan, MSG_RAFT, 0, 0);
	if (b == NULL)
		return TV_ENOMEM;
	before = b->len;
	raft_msg_write(b, &m);
	*size = b->len - before;
	if (chan_end(p->chan) != TV_OK)
		return TV_ECLOSED;
	if (m.entry_count > 0)
		p->offer = (struct offer){ s->first, s->first + m.entry_count - 1, m.term, chan_mark(p->chan) };
	return TV_OK;
}

/* Sends it, or keeps it until what it says was read.  False: that. */
static bool
send_now(struct dialled *p, const struct raft_send *s)
{
	struct raftd *d = p->l->d;
	enum tv_err err = TV_OK;
	size_t size = d->conf.snapshot_chunk;

	if (s->msg.type == RAFT_MSG_SNAPSHOT)
		err = p->l->hooks->send_chunk(d, p->chan, s);
	else
		err = send_message(p, s, &size);
	if (err == TV_EAGAIN)
		sendq_hold(&p->out, s);
	else
		sendq_sent(&p->out, size);
	return err != TV_EAGAIN;
}

void
links_send(struct raftd *d, const struct raft_send *s)
{
	struct links *l = d->links;
	struct dialled *p = NULL;
	struct raft_send as;

	for (unsigned i = 0; i < l->count && p == NULL; i++)
		if (l->peers[i]->pub.id == s->msg.to && l->peers[i]->pub.proven)
			p = l->peers[i];
	if (p == NULL || p->chan == NULL || l->silent)
		return;
	if (sendq_overtakes(&p->out, s, chan_pending(p->chan), &as))
		(void)send_now(p, &as);		/* it has no entries to wait for */
	else if (sendq_put(&p->out, s, chan_pending(p->chan)))
		(void)send_now(p, s);
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
		while (sendq_next(&p->out, chan_pending(p->chan), &s) && send_now(p, &s))
			;
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
links_unsend(struct dialled *p)
{
	sendq_clear(&p->out);
	log_window_clear(p->window);
}

void
links_on_status(struct raftd *d)
{
	struct links *l = d->links;

	for (unsigned i = 0; !engine_is_leader(d->engine) && i < l->count; i++) {
		sendq_unhold(&l->peers[i]->out);
		log_window_clear(l->peers[i]->window);
	}
}

void
links_silence(struct links *l, bool silent)
{
	l->silent = silent;
	for (unsigned i = 0; silent && i < l->count; i++)
		links_unsend(l->peers[i]);
}
