/* The modelled network.  Messages travel as bytes, so every run exercises the codec too. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "tests/sim/raft_world.h"

#define MSG_BYTES_MAX (1 << 20)

static const char *const type_names[] = {
	[RAFT_MSG_PRE_VOTE] = "pre-vote", [RAFT_MSG_PRE_VOTE_REPLY] = "pre-vote-reply",
	[RAFT_MSG_VOTE] = "vote", [RAFT_MSG_VOTE_REPLY] = "vote-reply",
	[RAFT_MSG_APPEND] = "append", [RAFT_MSG_APPEND_REPLY] = "append-reply",
	[RAFT_MSG_SNAPSHOT] = "snapshot", [RAFT_MSG_SNAPSHOT_REPLY] = "snapshot-reply",
	[RAFT_MSG_TIMEOUT_NOW] = "timeout-now",
	[RAFT_MSG_READ_INDEX] = "read-index", [RAFT_MSG_READ_INDEX_REPLY] = "read-index-reply",
};

const char *
net_text(const struct raft_msg *m, char *buf, size_t cap)
{
	int n = snprintf(buf, cap, "%s term=%llu", type_names[m->type], (unsigned long long)m->term);
	size_t at = (size_t)n;

	switch (m->type) {
	case RAFT_MSG_PRE_VOTE_REPLY:
	case RAFT_MSG_VOTE_REPLY:
		snprintf(buf + at, cap - at, " %s", m->granted ? "granted" : "refused");
		break;
	case RAFT_MSG_APPEND:
		snprintf(buf + at, cap - at, " after=%llu/%llu count=%u commit=%llu", (unsigned long long)m->log_index,
		    (unsigned long long)m->log_term, m->entry_count, (unsigned long long)m->commit);
		break;
	case RAFT_MSG_APPEND_REPLY:
		if (m->granted)
			snprintf(buf + at, cap - at, " accepted=%llu match=%llu", (unsigned long long)m->log_index,
			    (unsigned long long)m->match);
		else
			snprintf(buf + at, cap - at, " refused=%llu hint=%llu/%llu", (unsigned long long)m->log_index,
			    (unsigned long long)m->hint_index, (unsigned long long)m->hint_term);
		break;
	case RAFT_MSG_SNAPSHOT:
	case RAFT_MSG_SNAPSHOT_REPLY:
		snprintf(buf + at, cap - at, " of=%llu offset=%llu%s%s", (unsigned long long)m->log_index,
		    (unsigned long long)m->offset, m->granted ? " granted" : "", m->done ? " done" : "");
		break;
	case RAFT_MSG_READ_INDEX_REPLY:
		snprintf(buf + at, cap - at, " %s index=%llu", m->granted ? "confirmed" : "refused",
		    (unsigned long long)m->match);
		break;
	default:
		snprintf(buf + at, cap - at, " log=%llu/%llu%s", (unsigned long long)m->log_index,
		    (unsigned long long)m->log_term, m->transfer ? " transfer" : "");
		break;
	}
	return buf;
}

/* Payloads of an append come from the sender's memory; false when its log no longer has them. */
static bool
fill_entries(struct sim_node *n, const struct raft_send *s, struct raft_msg *m, struct raft_entry *entries)
{
	TV_ASSERT(s->msg.entry_count <= SIM_ENTRIES_MAX);
	for (uint32_t i = 0; i < s->msg.entry_count; i++) {
		const struct sim_entry *e = simlog_at(&n->log, s->first + i);

		if (e == NULL)
			return false;
		entries[i] = (struct raft_entry){ .index = e->index, .term = e->term, .type = e->type,
			.size = e->payload->size, .payload = e->payload->bytes };
	}
	m->entries = entries;
	return true;
}

static struct blob *
encode(const struct world *w, struct sim_node *n, const struct raft_send *s)
{
	struct buf b = BUF_INIT(MSG_BYTES_MAX), config = BUF_INIT(MSG_BYTES_MAX);
	struct raft_entry entries[SIM_ENTRIES_MAX];
	struct raft_msg m = s->msg;
	struct blob *out = NULL;
	bool ok = true;

	if (m.type == RAFT_MSG_APPEND)
		ok = fill_entries(n, s, &m, entries);
	else if (m.type == RAFT_MSG_SNAPSHOT)
		ok = snap_fill(n, w->plan.opt.snapshot_chunk_bytes, &m, &config);
	if (ok) {
		raft_msg_write(&b, &m);
		TV_ASSERT(!b.failed);
		out = blob_new(b.data, (uint32_t)b.len);
	}
	buf_done(&config);
	buf_done(&b);
	return out;
}

/* Puts a message onto the wire, or loses it. */
static void
launch(struct world *w, int from, int to, struct blob *bytes)
{
	const struct net_model *net = &w->plan.net;
	struct mono took = world_between(w, net->delay_min, net->delay_max), at;
	struct event *e;

	if (world_chance(w, net->slow))
		took = mono_mul(took, 20);
	at = mono_add(w->now, took);
	if (w->cut[from][to] || (!net->fifo && world_chance(w, net->loss)))
		return;
	if (net->fifo && mono_before(at, w->fifo_last[from][to]))
		at = w->fifo_last[from][to];
	w->fifo_last[from][to] = at;
	e = world_at(w, at, net_deliver, NULL);
	e->bytes = blob_ref(bytes);
	e->a = (uint64_t)from;
	e->b = (uint64_t)to;
	if (!net->fifo && world_chance(w, net->dup))
		launch(w, from, to, bytes);
}

void
net_send(struct world *w, struct sim_node *n, const struct raft_send *s)
{
	struct sim_node *to = world_node(w, s->msg.to);
	uint64_t need = 0;
	struct held_send *h;
	struct blob *bytes;

	if (n->dying != 0)
		return;
	check_send(w, n, &s->msg);
	if (w->on_send != NULL)
		w->on_send(w, n, s);
	if (to == NULL || (bytes = encode(w, n, s)) == NULL)
		return;
	if (s->after_hard)
		need = n->disk.seq_hard;
	if (s->after_append)
		need = n->disk.seq_issued;
	if (need <= n->disk.seq_done) {
		if (node_point(w, n, 0)) {
			blob_drop(bytes);
			return;
		}
		check_leaves(w, n, &s->msg);
		launch(w, n->i, to->i, bytes);
		blob_drop(bytes);
		return;
	}
	h = calloc(1, sizeof(*h));
	TV_ASSERT(h != NULL);
	*h = (struct held_send){ .seq = need, .to = to->i, .bytes = bytes, .msg = s->msg };
	*n->held_tail = h;
	n->held_tail = &h->next;
}

void
net_release(struct world *w, struct sim_node *n)
{
	struct held_send **at = &n->held;

	while (*at != NULL) {
		struct held_send *h = *at;

		if (h->seq > n->disk.seq_done) {
			at = &h->next;
			continue;
		}
		*at = h->next;
		if (!node_point(w, n, 0)) {
			check_leaves(w, n, &h->msg);
			launch(w, n->i, h->to, h->bytes);
		}
		blob_drop(h->bytes);
		free(h);
	}
	n->held_tail = at;
}

void
net_forget(struct sim_node *n)
{
	while (n->held != NULL) {
		struct held_send *h = n->held;

		n->held = h->next;
		blob_drop(h->bytes);
		free(h);
	}
	n->held_tail = &n->held;
}

void
net_deliver(struct world *w, struct event *e)
{
	struct sim_node *n = &w->nodes[e->b];
	struct raft_entry entries[SIM_ENTRIES_MAX];
	struct raft_msg m;
	struct raft_input in = { .type = RAFT_IN_MSG, .msg = &m };
	enum tv_err err;
	char text[160];

	if (n->core == NULL || w->cut[e->a][e->b])
		return;
	if (mono_before(w->now, n->paused_until)) {
		struct event *later = world_at(w, n->paused_until, net_deliver, NULL);

		later->bytes = blob_ref(e->bytes);
		later->a = e->a;
		later->b = e->b;
		return;
	}
	err = raft_msg_read(span_of(e->bytes->bytes, e->bytes->size), &m, entries, SIM_ENTRIES_MAX);
	if (err != TV_OK) {
		world_fail(w, "codec: message from n%d does not read back: %s", (int)e->a + 1, tv_strerror(err));
		return;
	}
	if (m.to != n->id)
		return;		/* meant for one that it was before it lost its disk: links know who is at the other end */
	w->heard[n->i][e->a] = w->now;
	if (w->trace != NULL)
		world_say(w, "n%d <- n%d %s", n->i + 1, (int)e->a + 1, net_text(&m, text, sizeof(text)));
	(void)node_feed(w, n, &in);
}
