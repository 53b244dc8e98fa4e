/*
 * User events: fired here or heard by gossip and full exchanges, delivered once, passed on once.
 * Source: doc/wire.md, "User events".
 *
 * What was heard is remembered twice: ring.c keeps marks, so that nothing is delivered again; the bytes are kept
 * beside it for full exchanges, within their own limit, because only they can be large.
 */
#include "config.h"

#include <stdlib.h>

#include "gossipd/core/state.h"

#define KEPT_BYTES_MAX (512u << 10)	/* as much as a full ring of events of the default size */
#define KEPT_COUNT_MAX 4096
#define MALLOC_COST 16
#define MERGE_NEWS_MAX 4096		/* delivered from one full exchange; the next one brings the rest */
#define MERGE_ITEMS_MAX (1u << 16)	/* looked at in one */

/* -- events that full exchanges tell, earliest first ----------------------------------- */

static size_t
kept_cost(const struct kept_event *k)
{
	return sizeof(*k) + MALLOC_COST + k->name_len + k->payload_len;
}

static void
drop_first(struct events *ev)
{
	struct kept_event *k = ev->first;

	ev->first = k->next;
	if (ev->first == NULL)
		ev->last = NULL;
	ev->count--;
	ev->bytes -= kept_cost(k);
	free(k);
}

static void
insert(struct events *ev, struct kept_event *k)
{
	struct kept_event **at = &ev->first;

	if (ev->last != NULL && ev->last->ltime <= k->ltime)
		at = &ev->last->next;
	while (*at != NULL && (*at)->ltime <= k->ltime)
		at = &(*at)->next;
	k->next = *at;
	*at = k;
	if (k->next == NULL)
		ev->last = k;
	ev->count++;
	ev->bytes += kept_cost(k);
}

static void
drop_old(struct swim *s)
{
	struct events *ev = &s->events;

	while (ev->first != NULL && ring_too_old(&ev->ring, s->event_clock.time, ev->first->ltime))
		drop_first(ev);
}

static void
keep_event(struct swim *s, const struct serf_user_event *m)
{
	struct events *ev = &s->events;
	struct kept_event *k = malloc(sizeof(*k) + m->name.len + m->payload.len);

	drop_old(s);
	if (k == NULL) {
		s->stats.no_memory++;
		return;
	}
	*k = (struct kept_event){ .ltime = m->ltime, .name_len = (uint16_t)m->name.len,
		.payload_len = (uint16_t)m->payload.len };
	if (m->name.len > 0)
		memcpy(k->bytes, m->name.p, m->name.len);
	if (m->payload.len > 0)
		memcpy(k->bytes + m->name.len, m->payload.p, m->payload.len);
	insert(ev, k);
	while (ev->bytes > KEPT_BYTES_MAX || ev->count > KEPT_COUNT_MAX) {
		drop_first(ev);
		s->stats.events_cut++;
	}
}

void
event_done(struct swim *s)
{
	while (s->events.first != NULL)
		drop_first(&s->events);
	ring_done(&s->events.ring);
}

/* -- taking an event ------------------------------------------------------------------- */

/* One number for name and payload, by which peers cannot make two events look alike. */
static uint64_t
mark_of(const struct swim *s, const struct serf_user_event *m)
{
	uint64_t both[2] = { table_hash(&s->table, m->name), table_hash(&s->table, m->payload) };

	return table_hash(&s->table, span_of(both, sizeof(both)));
}

/* True when it is news; it was delivered then. */
static bool
take_event(struct swim *s, const struct serf_user_event *m)
{
	if (!lamport_plausible(&s->event_clock, m->ltime)) {
		s->stats.over_ltimes++;
		return false;
	}
	lamport_witness(&s->event_clock, m->ltime);
	switch (ring_note(&s->events.ring, s->event_clock.time, m->ltime, mark_of(s, m))) {
	case RING_DUPLICATE:
		s->stats.events_doubled++;
		return false;
	case RING_OLD:
		s->stats.events_old++;
		return false;
	case RING_NO_MEMORY:
		s->stats.no_memory++;
		return false;
	case RING_NEW:
		break;
	}
	keep_event(s, m);
	out_user_event(s, &(struct swim_user_event){ .ltime = m->ltime, .name = m->name, .payload = m->payload,
		.coalesce = m->cc });
	return true;
}

enum tv_err
event_on_user(struct swim *s, const struct addr *from UNUSED, struct span message)
{
	struct serf_user_event m;
	enum tv_err err;

	if (message.len > SERF_EVENT_BYTES_MAX)
		return TV_ELIMIT;
	err = serf_get_user_event(span_of(message.p + 1, message.len - 1), &s->out.arena, &m);
	if (err == TV_OK && take_event(s, &m)) {
		s->stats.events_heard++;
		gossip_pass(s, QUEUE_EVENT, message);
	}
	return err;
}

enum tv_err
event_fire(struct swim *s, const struct swim_input *in)
{
	size_t limit = s->opt.event_bytes > 0 ? s->opt.event_bytes : SWIM_EVENT_BYTES_DEFAULT;
	struct serf_user_event m = { .ltime = s->event_clock.time, .name = in->name, .payload = in->bytes,
		.cc = in->coalesce };

	if (in->name.len == 0)
		return TV_EINVAL;
	if (in->name.len > limit || in->bytes.len > limit)
		return TV_ELIMIT;
	if (in->bytes.len == 0)
		m.payload = SPAN_NONE;
	buf_reset(&s->scratch);
	serf_put_user_event(&s->scratch, &m);
	if (s->scratch.failed)
		return TV_ENOMEM;
	if (s->scratch.len > limit)
		return TV_ELIMIT;
	if (!take_event(s, &m))
		return TV_ENOMEM;
	s->stats.events_fired++;
	gossip_pass(s, QUEUE_EVENT, buf_span(&s->scratch));
	return TV_OK;
}

/* -- full exchanges --------------------------------------------------------------------- */

uint32_t
event_state_slots(struct swim *s)
{
	uint32_t slots = 0;

	drop_old(s);
	for (const struct kept_event *k = s->events.first; k != NULL; k = k->next)
		slots += k->next == NULL || k->next->ltime != k->ltime;
	return slots;
}

static struct serf_event_item
item_of(const struct kept_event *k)
{
	struct serf_event_item item = { span_of(k->bytes, k->name_len), SPAN_NONE };

	if (k->payload_len > 0)
		item.payload = span_of(k->bytes + k->name_len, k->payload_len);
	return item;
}

void
event_state_write(struct swim *s, struct buf *b)
{
	struct serf_event_item *items = arena_array(&s->out.arena, s->events.count, sizeof(*items));
	uint32_t count = 0;

	if (items == NULL) {
		b->failed = true;
		return;
	}
	for (const struct kept_event *k = s->events.first; k != NULL; k = k->next) {
		items[count++] = item_of(k);
		if (k->next != NULL && k->next->ltime == k->ltime)
			continue;
		serf_state_slot(b, k->ltime, items, count);
		count = 0;
	}
}

/* The times of a slot are one; which of its events can coalesce is not told. */
static enum tv_err
merge_slot(struct swim *s, const struct serf_slot *slot, uint32_t *news, uint32_t *seen)
{
	struct serf_list it = serf_list(slot->items);
	struct serf_event_item item;
	enum tv_err err;

	while ((err = serf_item_next(&it, &s->out.arena, &item)) == TV_OK) {
		struct serf_user_event m = { .ltime = slot->ltime, .name = item.name, .payload = item.payload };

		if (*news >= MERGE_NEWS_MAX || ++*seen > MERGE_ITEMS_MAX) {
			s->stats.over_events++;
			return TV_ELIMIT;
		}
		if (take_event(s, &m)) {
			s->stats.events_heard++;
			++*news;
		}
	}
	return err == TV_EOF ? TV_OK : err;
}

/* What it brings is not passed on: every member gets it by its own exchanges. */
enum tv_err
event_state_merge(struct swim *s, struct span events)
{
	struct serf_list it = serf_list(events);
	struct serf_slot slot;
	uint32_t news = 0, seen = 0;
	enum tv_err err;

	while ((err = serf_slot_next(&it, &s->out.arena, &slot)) == TV_OK) {
		err = merge_slot(s, &slot, &news, &seen);
		if (err == TV_ELIMIT)
			return TV_OK;		/* enough for this time */
		if (err != TV_OK)
			return err;
	}
	return err == TV_EOF ? TV_OK : err;
}
