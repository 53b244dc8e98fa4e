/*
 * Queries that were asked by another member, or by ourselves: hearing them once, passing them on, and what is done
 * about each.  How answers get to the asking node: answer.c.  Source: doc/wire.md, "Queries".
 */
#include "config.h"

#include <stdlib.h>

#include "gossipd/core/state.h"

#define TIMEOUT_MAX MONO_S(3600)	/* a query may be answered for so long */

/* -- queries that wait for an answer of the shell ---------------------------------------- */

static void
forget(struct swim *s, struct heard_query **at)
{
	struct heard_query *q = *at;

	*at = q->next;
	s->queries.heard_count--;
	free(q);
}

void
query_done(struct swim *s)
{
	while (s->queries.heard != NULL)
		forget(s, &s->queries.heard);
	ring_done(&s->queries.ring);
}

/* Those whose time is over, and if there are still too many, the oldest. */
static void
make_room(struct swim *s)
{
	struct heard_query **at = &s->queries.heard, **oldest = NULL;

	while (*at != NULL) {
		if (!mono_before(s->now, (*at)->deadline)) {
			forget(s, at);
			continue;
		}
		oldest = at;
		at = &(*at)->next;
	}
	if (s->queries.heard_count >= SWIM_HEARD_MAX) {
		s->stats.over_queries++;
		forget(s, oldest);
	}
}

static bool
remember(struct swim *s, const struct heard_query *q)
{
	struct heard_query *copy;

	make_room(s);
	copy = malloc(sizeof(*copy) + q->source_len);
	if (copy == NULL) {
		s->stats.no_memory++;
		return false;
	}
	memcpy(copy, q, sizeof(*q) + q->source_len);
	copy->next = s->queries.heard;
	s->queries.heard = copy;
	s->queries.heard_count++;
	return true;
}

enum tv_err
query_respond(struct swim *s, const struct swim_input *in)
{
	struct heard_query **at = &s->queries.heard;
	enum tv_err err;

	while (*at != NULL && ((*at)->ltime != in->ltime || (*at)->id != in->query_id))
		at = &(*at)->next;
	if (*at == NULL || !mono_before(s->now, (*at)->deadline))
		return TV_ENOENT;
	err = answer_send(s, *at, 0, in->bytes.len > 0 ? in->bytes : SPAN_NONE, false);
	if (err == TV_OK)
		forget(s, at);
	return err;
}

/* -- what a query is for ------------------------------------------------------------------- */

static void
deliver(struct swim *s, const struct heard_query *q, const struct serf_query *m, enum swim_query_kind kind,
    struct span payload)
{
	if (!mono_before(s->now, q->deadline) || !remember(s, q))
		return;
	out_query(s, &(struct swim_query){ .kind = kind, .ltime = m->ltime, .id = m->id, .name = m->name,
		.payload = payload, .from = m->source_node, .deadline = q->deadline });
}

static void
on_ping(struct swim *s, const struct heard_query *q UNUSED, const struct serf_query *m UNUSED)
{
	(void)s;		/* the ack says it all */
}

static void
on_conflict(struct swim *s, const struct heard_query *q, const struct serf_query *m)
{
	struct buf b = BUF_INIT(2 * SWIM_QUERY_BYTES_MAX);

	/* From a node that spells it otherwise: Serf's agents ask for their own names only. */
	if (span_eq(m->payload, s->opt.name) && span_eq_nocase(m->source_node, s->opt.name) && !q->ours)
		conflict_heard(s, m->source_node, &q->to);
	if (conflict_answer(s, m->payload, &b) && !b.failed)
		(void)answer_send(s, q, 0, buf_span(&b), true);	/* one that is too long is not sent */
	buf_done(&b);
}

/* The shell holds the keys; a request that cannot be read is refused for it, so that the asking node need not wait. */
static void
key_query(struct swim *s, const struct heard_query *q, const struct serf_query *m, enum swim_query_kind kind)
{
	struct serf_key_response no = { .message = span_str("malformed key request"), .primary_key = span_str("") };
	struct serf_key_request request;
	struct buf b = BUF_INIT(SWIM_QUERY_BYTES_MAX);

	if (kind == SWIM_QUERY_KEY_LIST) {
		deliver(s, q, m, kind, SPAN_NONE);
	} else if (m->payload.len > 1 && m->payload.p[0] == SERF_KEY_REQUEST && serf_get_key_request(
	    span_of(m->payload.p + 1, m->payload.len - 1), &s->out.arena, &request) == TV_OK) {
		deliver(s, q, m, kind, request.key);
	} else {
		serf_put_key_response(&b, &no);
		if (!b.failed)
			(void)answer_send(s, q, 0, buf_span(&b), false);
	}
	buf_done(&b);
}

static void
on_install(struct swim *s, const struct heard_query *q, const struct serf_query *m)
{
	key_query(s, q, m, SWIM_QUERY_KEY_INSTALL);
}

static void
on_use(struct swim *s, const struct heard_query *q, const struct serf_query *m)
{
	key_query(s, q, m, SWIM_QUERY_KEY_USE);
}

static void
on_remove(struct swim *s, const struct heard_query *q, const struct serf_query *m)
{
	key_query(s, q, m, SWIM_QUERY_KEY_REMOVE);
}

static void
on_list(struct swim *s, const struct heard_query *q, const struct serf_query *m)
{
	key_query(s, q, m, SWIM_QUERY_KEY_LIST);
}

static const struct {
	const char *name;
	void (*take)(struct swim *s, const struct heard_query *q, const struct serf_query *m);
} internal_queries[] = {
	{ "_serf_ping", on_ping },
	{ "_serf_conflict", on_conflict },
	{ "_serf_install-key", on_install },
	{ "_serf_use-key", on_use },
	{ "_serf_remove-key", on_remove },
	{ "_serf_list-keys", on_list },
};

/* Internal ones that are not known get no answer but the ack. */
static void
dispatch(struct swim *s, const struct heard_query *q, const struct serf_query *m)
{
	for (size_t i = 0; i < sizeof(internal_queries) / sizeof(internal_queries[0]); i++)
		if (span_eqs(m->name, internal_queries[i].name)) {
			internal_queries[i].take(s, q, m);
			return;
		}
	if (!span_starts(m->name, span_str("_serf_")))
		deliver(s, q, m, SWIM_QUERY_USER, m->payload);
}

/* -- hearing ---------------------------------------------------------------------------------- */

/* The clock goes on whatever becomes of the query. */
static bool
is_news(struct swim *s, const struct serf_query *m)
{
	if (!lamport_plausible(&s->query_clock, m->ltime)) {
		s->stats.over_ltimes++;
		return false;
	}
	lamport_witness(&s->query_clock, m->ltime);
	switch (ring_note(&s->queries.ring, s->query_clock.time, m->ltime, m->id)) {
	case RING_NEW:
		return true;
	case RING_DUPLICATE:
		s->stats.queries_doubled++;
		break;
	case RING_OLD:
		s->stats.queries_old++;
		break;
	case RING_NO_MEMORY:
		s->stats.no_memory++;
		break;
	}
	return false;
}

static struct mono
deadline_of(const struct swim *s, const struct serf_query *m)
{
	struct mono timeout = mono_min((struct mono){ m->timeout_ns }, TIMEOUT_MAX);

	return timeout.ns > 0 ? mono_add(s->now, timeout) : s->now;
}

/* What is needed to answer it, with room for the name behind. */
static struct heard_query *
heard(struct swim *s, const struct serf_query *m)
{
	struct heard_query *q = arena_alloc(&s->out.arena, sizeof(*q) + m->source_node.len);

	if (q == NULL) {
		s->stats.no_memory++;
		return NULL;
	}
	*q = (struct heard_query){ .ltime = m->ltime, .id = m->id, .deadline = deadline_of(s, m),
		.to = answer_addr(m->addr, m->port), .relay_factor = m->relay_factor,
		.source_len = (uint8_t)m->source_node.len };
	q->ours = answer_addr_same(&q->to, &s->opt.self) && span_eq(m->source_node, s->opt.name);
	if (m->source_node.len > 0)
		memcpy(q->source, m->source_node.p, m->source_node.len);
	return q;
}

bool
query_take(struct swim *s, const struct serf_query *m, struct span message, bool spread)
{
	struct heard_query *q;

	s->out.secret = s->out.secret || serf_query_needs_payload(m->name);	/* a key */
	if (!is_news(s, m))
		return false;
	if (spread)
		gossip_pass(s, QUEUE_QUERY, message);
	if (!filter_pass(s, m->filters)) {
		s->stats.queries_filtered++;
		return true;
	}
	q = heard(s, m);
	if (q == NULL)
		return true;
	if (m->flags & SERF_QUERY_FLAG_ACK)
		(void)answer_send(s, q, SERF_RESPONSE_FLAG_ACK, SPAN_NONE, false);
	dispatch(s, q, m);
	return true;
}

enum tv_err
query_on_query(struct swim *s, const struct addr *from UNUSED, struct span message)
{
	struct serf_query m;
	enum tv_err err;

	if (message.len > SERF_EVENT_BYTES_MAX)
		return TV_ELIMIT;
	err = serf_get_query(span_of(message.p + 1, message.len - 1), &s->out.arena, &m);
	if (err == TV_OK && query_take(s, &m, message, (m.flags & SERF_QUERY_FLAG_NO_BROADCAST) == 0))
		s->stats.queries_heard++;
	return err;
}
