/* The output of one feed under construction; see swim.h for what it means. */
#include "config.h"

#include <sodium.h>
#include <stdlib.h>

#include "gossipd/core/state.h"

#define OUT_BYTES_MAX (64u << 20)	/* all that one output lends: a few full states */
#define OUT_ITEMS_MIN 16
#define OUT_ITEMS_KEPT 256	/* more room than this is not kept */

/* Room for one more item of `size` bytes in *list, or NULL. */
static void *
out_item(struct swim *s, void *list, size_t count, size_t *cap, size_t size)
{
	void **at = list, *fresh;
	size_t more = *cap == 0 ? OUT_ITEMS_MIN : *cap * 2;

	if (count == *cap) {
		fresh = realloc(*at, more * size);
		if (fresh == NULL) {
			s->stats.no_memory++;
			return NULL;
		}
		*at = fresh;
		*cap = more;
	}
	return (uint8_t *)*at + count * size;
}

/* What a burst needed, such as the first exchange with a large pool, is given back. */
static void
shrink(void *list, size_t *cap)
{
	void **at = list;

	if (*cap > OUT_ITEMS_KEPT) {
		free(*at);
		*at = NULL;
		*cap = 0;
	}
}

/* What the last feed knew of keys goes with it: the arena, and the message under construction. */
static void
wipe(struct swim *s)
{
	if (!s->out.secret)
		return;
	arena_wipe(&s->out.arena);
	if (s->scratch.cap > 0)
		sodium_memzero(s->scratch.data, s->scratch.cap);
	s->out.secret = false;
}

void
out_begin(struct swim *s)
{
	wipe(s);
	shrink(&s->out.sends, &s->out.send_cap);
	shrink(&s->out.events, &s->out.event_cap);
	shrink(&s->out.notices, &s->out.notice_cap);
	if (s->out.arena.max == 0)
		s->out.arena = ARENA_INIT(OUT_BYTES_MAX);
	arena_reset(&s->out.arena);
	s->out.view = (struct swim_output){ .deadline = MONO_NEVER };
}

void
out_done(struct swim *s)
{
	wipe(s);
	arena_done(&s->out.arena);
	free(s->out.sends);
	free(s->out.streams);
	free(s->out.events);
	free(s->out.user_events);
	free(s->out.queries);
	free(s->out.responses);
	free(s->out.joins);
	free(s->out.notices);
}

void
out_send_parts(struct swim *s, const struct addr *to, const struct span *parts, unsigned count, bool crc)
{
	struct span *copy = arena_array(&s->out.arena, count, sizeof(*copy));
	struct swim_send *send;

	if (copy == NULL) {
		s->stats.no_memory++;
		return;
	}
	send = out_item(s, &s->out.sends, s->out.view.send_count, &s->out.send_cap, sizeof(*send));
	if (send == NULL)
		return;
	memcpy(copy, parts, count * sizeof(*copy));
	*send = (struct swim_send){ .to = *to, .parts = copy, .part_count = count, .crc = crc };
	s->out.view.send_count++;
}

void
out_send(struct swim *s, const struct addr *to, struct span message, bool crc)
{
	struct span copy = arena_copy(&s->out.arena, message);

	if (copy.len == 0)		/* nor was there any for the message: an empty part would crash old peers */
		s->stats.no_memory++;
	else
		out_send_parts(s, to, &copy, 1, crc);
}

void
out_stream(struct swim *s, uint64_t id, enum swim_stream_kind kind, const struct addr *to, struct mono deadline,
    struct span message)
{
	struct swim_stream *st = out_item(s, &s->out.streams, s->out.view.stream_count, &s->out.stream_cap,
	    sizeof(*st));

	if (st == NULL)
		return;
	*st = (struct swim_stream){ .id = id, .kind = kind, .to = *to, .deadline = deadline,
		.message = arena_copy(&s->out.arena, message) };
	s->out.view.stream_count++;
}

void
out_answer(struct swim *s, struct span message)
{
	s->out.view.answer = arena_copy(&s->out.arena, message);
	if (s->out.view.answer.p == NULL)
		s->stats.no_memory++;
}

struct swim_member
node_view(const struct node *n)
{
	return (struct swim_member){ .name = node_name(n), .meta = node_meta(n), .addr = *node_addr(n),
		.status = n->status, .vsn = node_vsn(n), .status_ltime = n->status_ltime, .gone_at = n->gone_at };
}

void
out_event(struct swim *s, enum gossip_event type, const struct node *n)
{
	struct swim_event *e = out_item(s, &s->out.events, s->out.view.event_count, &s->out.event_cap, sizeof(*e));
	struct swim_member m = node_view(n);

	if (e == NULL)
		return;
	m.name = arena_copy(&s->out.arena, m.name);
	m.meta = arena_copy(&s->out.arena, m.meta);
	m.vsn = arena_copy(&s->out.arena, span_of(node_vsn(n), NODE_VSN_BYTES)).p;
	if (m.name.p == NULL || m.meta.p == NULL || m.vsn == NULL) {
		s->stats.no_memory++;
		return;
	}
	*e = (struct swim_event){ .type = type, .member = m };
	s->out.view.event_count++;
}

/* Copies what *span names into the output; false without memory. */
static bool
lend(struct swim *s, struct span *span)
{
	struct span copy = arena_copy(&s->out.arena, *span);

	if (copy.p == NULL && span->len > 0) {
		s->stats.no_memory++;
		return false;
	}
	*span = copy;
	return true;
}

void
out_user_event(struct swim *s, const struct swim_user_event *e)
{
	struct swim_user_event *at, copy = *e;

	if (!lend(s, &copy.name) || !lend(s, &copy.payload))
		return;
	at = out_item(s, &s->out.user_events, s->out.view.user_event_count, &s->out.user_event_cap, sizeof(*at));
	if (at == NULL)
		return;
	*at = copy;
	s->out.view.user_event_count++;
}

void
out_query(struct swim *s, const struct swim_query *q)
{
	struct swim_query *at, copy = *q;

	if (!lend(s, &copy.name) || !lend(s, &copy.payload) || !lend(s, &copy.from))
		return;
	at = out_item(s, &s->out.queries, s->out.view.query_count, &s->out.query_cap, sizeof(*at));
	if (at == NULL)
		return;
	*at = copy;
	s->out.view.query_count++;
}

/* Bytes may be missing without memory; the end of a query must not be. */
bool
out_response(struct swim *s, const struct swim_response *r)
{
	struct swim_response *at, copy = *r;

	if (!lend(s, &copy.from))
		copy.from = SPAN_NONE;
	if (!lend(s, &copy.payload))
		copy.payload = SPAN_NONE;
	at = out_item(s, &s->out.responses, s->out.view.response_count, &s->out.response_cap, sizeof(*at));
	if (at == NULL)
		return false;
	*at = copy;
	s->out.view.response_count++;
	return true;
}

void
out_join(struct swim *s, const struct join_run *run)
{
	struct swim_join *j = out_item(s, &s->out.joins, s->out.view.join_count, &s->out.join_cap, sizeof(*j));

	if (j == NULL)
		return;
	*j = (struct swim_join){ .token = run->token, .contacted = run->contacted, .asked = run->asked,
		.error = run->error, .error_addr = run->error_addr, .rival = run->rival };
	s->out.view.join_count++;
}

void
out_notice(struct swim *s, const struct swim_notice *n)
{
	struct swim_notice *at = out_item(s, &s->out.notices, s->out.view.notice_count, &s->out.notice_cap,
	    sizeof(*at));

	if (at == NULL)
		return;
	*at = *n;
	at->name = arena_copy(&s->out.arena, n->name);
	at->other = arena_copy(&s->out.arena, n->other);
	at->dc = arena_copy(&s->out.arena, n->dc);
	s->out.view.notice_count++;
}
