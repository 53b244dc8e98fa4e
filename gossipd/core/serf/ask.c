/*
 * Queries of our own: asking, and collecting what comes back.  Only members are heard, and of each one ack
 * and one answer; relays bring the same ones again.  A query ends at its time, or as soon as every
 * member that is alive has said all that is wanted.
 */
#include "config.h"

#include <stdlib.h>

#include "gossipd/core/state.h"
#include "gossipd/core/swim/scale.h"

#define TIMEOUT_MAX MONO_S(3600)
#define TIMEOUT_MULT 16			/* Serf's default: gossip interval * 16 * ceil(log10(alive + 1)) */
#define ANSWERERS_MIN 16

/* -- who answered ---------------------------------------------------------------------- */

static struct answerer *
place_of(const struct answerers *a, uint64_t hash)
{
	uint32_t i = (uint32_t)hash & (a->cap - 1);

	while (a->items[i].hash != 0 && a->items[i].hash != hash)
		i = (i + 1) & (a->cap - 1);
	return &a->items[i];
}

/* Keeps a quarter free. */
static bool
answerers_grow(struct answerers *a)
{
	struct answerers bigger = { .cap = a->cap == 0 ? ANSWERERS_MIN : a->cap * 2, .count = a->count,
		.complete = a->complete };

	if (a->count < a->cap / 4 * 3)
		return true;
	bigger.items = calloc(bigger.cap, sizeof(*bigger.items));
	if (bigger.items == NULL)
		return false;
	for (uint32_t i = 0; i < a->cap; i++)
		if (a->items[i].hash != 0)
			*place_of(&bigger, a->items[i].hash) = a->items[i];
	free(a->items);
	*a = bigger;
	return true;
}

static uint64_t
hash_of(const struct swim *s, struct span name)
{
	uint64_t hash = table_hash(&s->table, name);

	return hash != 0 ? hash : 1;
}

/* Notes what a member said; false when it had said so before, or without memory. */
static bool
note_answer(struct swim *s, struct asked *q, struct span from, unsigned what)
{
	struct answerer *at;
	uint64_t hash = hash_of(s, from);

	if (!answerers_grow(&q->from)) {
		s->stats.no_memory++;
		return false;
	}
	at = place_of(&q->from, hash);
	if (at->seen & what)
		return false;
	if (at->hash == 0) {
		if (q->from.count >= s->opt.members_max)	/* names came and went */
			return false;
		q->from.count++;
		at->hash = hash;
	}
	q->from.complete += (at->seen & q->wanted) != q->wanted && ((at->seen | what) & q->wanted) == q->wanted;
	at->seen |= what;
	return true;
}

static bool
all_answered(const struct swim *s, const struct asked *q)
{
	if (q->from.complete < s->status_count[MEMBER_ALIVE])
		return false;
	for (uint32_t i = 0; i < s->table.all_count; i++) {
		const struct node *n = s->table.all[i];

		if (n->status == MEMBER_ALIVE &&
		    (place_of(&q->from, hash_of(s, node_name(n)))->seen & q->wanted) != q->wanted)
			return false;
	}
	return true;
}

/* -- the end of a query --------------------------------------------------------------------- */

/* False without memory to tell it: then it is told later. */
static bool
finish_query(struct swim *s, struct asked **at)
{
	struct asked *q = *at;
	struct swim_response done = { .token = q->token, .kind = SWIM_RESPONSE_DONE };

	if (q->vote == VOTE_NONE && !out_response(s, &done)) {
		q->deadline = mono_add(s->now, s->opt.timing.gossip_interval);
		return false;
	}
	*at = q->next;
	s->queries.asked_count--;
	free(q->from.items);
	if (q->vote != VOTE_NONE)
		conflict_decide(s);
	free(q);
	return true;
}

void
ask_expire(struct swim *s)
{
	struct asked **at = &s->queries.asked;

	timer_set(s, TIMER_ASK, MONO_NEVER);
	while (*at != NULL) {
		struct asked *q = *at;

		if (!mono_before(s->now, q->deadline) && finish_query(s, at))
			continue;
		timer_pull(s, TIMER_ASK, q->deadline);
		at = &q->next;
	}
}

void
ask_done(struct swim *s)
{
	while (s->queries.asked != NULL) {
		struct asked *q = s->queries.asked;

		s->queries.asked = q->next;
		free(q->from.items);
		free(q);
	}
}

/* -- answers ------------------------------------------------------------------------------- */

static struct asked **
find_asked(struct swim *s, uint64_t ltime, uint32_t id)
{
	struct asked **at = &s->queries.asked;

	while (*at != NULL && ((*at)->ltime != ltime || (*at)->id != id))
		at = &(*at)->next;
	return at;
}

static bool
is_member(const struct swim *s, struct span name)
{
	const struct node *n = table_find(&s->table, name);

	return n != NULL && n->status != MEMBER_NONE;
}

void
ask_take(struct swim *s, const struct serf_query_response *m)
{
	struct asked **at = find_asked(s, m->ltime, m->id), *q = *at;
	unsigned what = m->flags & SERF_RESPONSE_FLAG_ACK ? ANSWER_ACK : ANSWER_DATA;

	s->out.secret = s->out.secret || (m->payload.len > 0 && m->payload.p[0] == SERF_KEY_RESPONSE);
	if (q == NULL || !is_member(s, m->from) || !note_answer(s, q, m->from, what)) {
		s->stats.answers_strange++;
		return;
	}
	s->stats.answers_taken++;
	if (q->vote != VOTE_NONE)
		conflict_vote(s, q->vote, m->payload);
	else
		(void)out_response(s, &(struct swim_response){ .token = q->token, .from = m->from,
			.payload = m->payload, .kind = what == ANSWER_ACK ? SWIM_RESPONSE_ACK : SWIM_RESPONSE_DATA });
	if (all_answered(s, q))
		(void)finish_query(s, at);
}

enum tv_err
ask_on_response(struct swim *s, const struct addr *from UNUSED, struct span message)
{
	struct serf_query_response m;
	enum tv_err err;

	if (message.len > SERF_EVENT_BYTES_MAX)
		return TV_ELIMIT;
	err = serf_get_query_response(span_of(message.p + 1, message.len - 1), &s->out.arena, &m);
	if (err == TV_OK)
		ask_take(s, &m);
	return err;
}

/* -- asking ---------------------------------------------------------------------------------- */

/* The filters as the message carries them, appended to b; peers crash on an empty one. */
static enum tv_err
put_filters(struct buf *b, const struct swim_ask *q)
{
	if (q->filter_count > SWIM_FILTERS_MAX)
		return TV_ELIMIT;
	mpw_array(b, q->filter_count);
	for (unsigned i = 0; i < q->filter_count; i++) {
		if (q->filters[i].len == 0)
			return TV_EINVAL;
		mpw_raw(b, q->filters[i]);
	}
	return b->failed ? TV_ELIMIT : TV_OK;
}

static struct mono
timeout_of(const struct swim *s, const struct swim_ask *q)
{
	if (q->timeout.ns > 0)
		return mono_min(q->timeout, TIMEOUT_MAX);
	return mono_mul(s->opt.timing.gossip_interval,
	    (int64_t)scale_retransmits(TIMEOUT_MULT, s->status_count[MEMBER_ALIVE]));
}

static unsigned
wanted(const struct swim_ask *q)
{
	if (span_eqs(q->name, "_serf_ping"))
		return ANSWER_ACK;
	return q->want_ack ? ANSWER_ACK | ANSWER_DATA : ANSWER_DATA;
}

static enum tv_err
collect(struct swim *s, const struct swim_ask *q, const struct serf_query *m, struct mono timeout,
    enum vote vote)
{
	struct asked *a;

	if (s->queries.asked_count >= SWIM_ASKED_MAX)
		return TV_ELIMIT;
	a = calloc(1, sizeof(*a));
	if (a == NULL)
		return TV_ENOMEM;
	*a = (struct asked){ .next = s->queries.asked, .ltime = m->ltime, .token = q->token, .id = m->id,
		.wanted = wanted(q), .vote = vote, .deadline = mono_add(s->now, timeout) };
	s->queries.asked = a;
	s->queries.asked_count++;
	timer_pull(s, TIMER_ASK, a->deadline);
	if (vote != VOTE_NONE)
		(void)note_answer(s, a, s->opt.name, ANSWER_DATA);	/* the one in question does not vote */
	return TV_OK;
}

static void
uncollect(struct swim *s)
{
	struct asked *a = s->queries.asked;

	s->queries.asked = a->next;
	s->queries.asked_count--;
	free(a->from.items);
	free(a);
}

/* The message is complete but for its filters. */
static enum tv_err
send_query(struct swim *s, const struct swim_ask *q, const struct serf_query *m, enum vote vote)
{
	enum tv_err err;

	buf_reset(&s->scratch);
	serf_put_query(&s->scratch, m);
	if (s->scratch.failed)
		return TV_ENOMEM;
	if (s->scratch.len > SWIM_QUERY_BYTES_MAX)
		return TV_ELIMIT;
	err = collect(s, q, m, (struct mono){ m->timeout_ns }, vote);
	if (err != TV_OK)
		return err;
	if (query_take(s, m, buf_span(&s->scratch), true)) {
		s->stats.queries_asked++;
		return TV_OK;
	}
	uncollect(s);
	return TV_ENOMEM;
}

enum tv_err
ask_start(struct swim *s, const struct swim_ask *q, enum vote vote)
{
	struct buf filters = BUF_INIT(SWIM_QUERY_BYTES_MAX);
	struct serf_query m = { .ltime = s->query_clock.time, .id = (uint32_t)(rng_u64(&s->rng) >> 33),
		.addr = span_of(s->opt.self.ip, s->opt.self.len), .port = s->opt.self.port,
		.source_node = s->opt.name, .relay_factor = q->relay_factor, .name = q->name,
		.payload = q->payload.len > 0 ? q->payload : SPAN_NONE,
		.timeout_ns = timeout_of(s, q).ns, .flags = q->want_ack ? SERF_QUERY_FLAG_ACK : 0 };
	enum tv_err err = TV_OK;

	if (q->no_broadcast)
		m.flags |= SERF_QUERY_FLAG_NO_BROADCAST;
	if (q->filter_count > 0) {
		err = put_filters(&filters, q);
		m.filters = buf_span(&filters);
	}
	if (err == TV_OK)
		err = send_query(s, q, &m, vote);
	buf_done(&filters);
	return err;
}

/* Peers crash on a key query without a key. */
static bool
name_ok(const struct swim_ask *q)
{
	bool internal = span_starts(q->name, span_str("_serf_"));

	if (q->name.len == 0 || (serf_query_needs_payload(q->name) && q->payload.len == 0))
		return false;
	return !internal || q->internal || (span_eqs(q->name, "_serf_ping") && q->payload.len == 0);
}

enum tv_err
ask_query(struct swim *s, const struct swim_input *in)
{
	return name_ok(in->ask) ? ask_start(s, in->ask, VOTE_NONE) : TV_EINVAL;
}
