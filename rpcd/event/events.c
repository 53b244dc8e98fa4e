/* The list of user events, see events.h. */
#include <stdlib.h>

#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/record/member.h"
#include "rpcd/event/event_wire.h"
#include "rpcd/event/events.h"
#include "common/text/regex.h"

#define EVENT_BYTES_MAX 9216		/* name and payload: no sender may configure more */
#define ANNOUNCEMENTS_MAX 32		/* remembered, to log each once */
#define MATCH_STEPS_MAX 1000000		/* of all patterns of one event together */

struct kept {
	struct user_event rec;		/* spans in `bytes`, or `id` */
	char id[EVENT_ID_BYTES + 1];
	uint8_t bytes[];		/* name, payload */
};

struct events {
	struct events_conf conf;
	struct kept *ring[EVENTS_MAX];
	unsigned first, count;
	struct waits waits;
	char heard[ANNOUNCEMENTS_MAX][EVENT_ID_BYTES + 1];	/* IDs, a ring */
	unsigned heard_count;
	unsigned subscriptions;
	struct log_limit limit;
	struct events_stats stats;
};

/* -- the ring -- */

unsigned
events_count(const struct events *e)
{
	return e->count;
}

static struct kept *
kept_at(const struct events *e, unsigned i)
{
	return e->ring[(e->first + i) % EVENTS_MAX];
}

const struct user_event *
events_at(const struct events *e, unsigned i)
{
	return &kept_at(e, i)->rec;
}

static bool
is_known(const struct events *e, struct span id)
{
	for (unsigned i = 0; i < e->count; i++)
		if (span_eq(kept_at(e, i)->rec.ID, id))
			return true;
	return false;
}

static void
list_event(struct events *e, struct kept *k)
{
	if (e->count == EVENTS_MAX) {
		free(e->ring[e->first]);
		e->first = (e->first + 1) % EVENTS_MAX;
		e->count--;
	}
	e->ring[(e->first + e->count++) % EVENTS_MAX] = k;
	e->stats.listed++;
	log_debug("agent", "Received event: user-event: %.*s (ltime %llu)", (int)k->rec.Name.len,
	    (const char *)k->rec.Name.p, (unsigned long long)k->rec.LTime);
}

/* -- filters -- */

/* A pattern that is none matches nothing. */
static struct regex *
compile(struct span pattern)
{
	struct buf why = BUF_INIT(1024);
	struct regex *re = regex_new(pattern, &why);

	buf_done(&why);
	return re;
}

static bool
found_in(struct regex *re, struct span text, uint64_t *steps)
{
	bool found = false;

	return re != NULL && regex_search(re, text, steps, &found) == TV_OK && found;
}

static bool
matches_tag(struct regex *tag, const struct service *s, uint64_t *steps)
{
	for (uint32_t i = 0; i < s->Tags.n; i++)
		if (found_in(tag, s->Tags.v[i], steps))
			return true;
	return false;
}

struct match {
	const struct user_event *event;
	struct regex *name, *tag;	/* tag: NULL without a filter */
	uint64_t *steps;
	bool found;
};

static void
match_service(void *ctx, const struct service *s)
{
	struct match *m = ctx;

	if (!m->found && found_in(m->name, s->Service, m->steps))
		m->found = m->event->TagFilter.len == 0 || matches_tag(m->tag, s, m->steps);
}

static bool
matches_service(const struct events *e, const struct user_event *ev, uint64_t *steps)
{
	struct match m = { .event = ev, .name = compile(ev->ServiceFilter), .steps = steps };

	if (ev->TagFilter.len > 0)
		m.tag = compile(ev->TagFilter);
	e->conf.services(e->conf.ctx, match_service, &m);
	regex_free(m.name);
	regex_free(m.tag);
	return m.found;
}

static bool
matches_node(const struct events *e, const struct user_event *ev, uint64_t *steps)
{
	struct regex *node = compile(ev->NodeFilter);
	bool found = found_in(node, span_str(e->conf.node_name), steps);

	regex_free(node);
	return found;
}

/* Takes k over. */
static void
decide(struct events *e, struct kept *k)
{
	uint64_t steps = MATCH_STEPS_MAX;
	bool fits = (k->rec.NodeFilter.len == 0 || matches_node(e, &k->rec, &steps)) &&
	    (k->rec.ServiceFilter.len == 0 || matches_service(e, &k->rec, &steps));

	if (fits && is_known(e, k->rec.ID)) {
		e->stats.duplicates++;
		fits = false;
	} else if (!fits) {
		e->stats.filtered++;
	}
	if (fits)
		list_event(e, k);
	else
		free(k);
}

/* -- arrival -- */

static struct kept *
copy_event(uint64_t ltime, struct span name, struct span payload, enum event_kind *kind)
{
	struct kept *k = malloc(sizeof(*k) + name.len + payload.len);

	if (k == NULL)
		return NULL;
	if (name.len > 0)
		memcpy(k->bytes, name.p, name.len);
	if (payload.len > 0)
		memcpy(k->bytes + name.len, payload.p, payload.len);
	*kind = event_wire_read(ltime, span_of(k->bytes, name.len), span_of(k->bytes + name.len, payload.len), k->id,
	    &k->rec);
	return k;
}

/* Remembers an announcement; false: it was heard before. */
static bool
is_new_announcement(struct events *e, const char *id)
{
	unsigned n = e->heard_count < ANNOUNCEMENTS_MAX ? e->heard_count : ANNOUNCEMENTS_MAX;

	for (unsigned i = 0; i < n; i++)
		if (strcmp(e->heard[i], id) == 0)
			return false;
	memcpy(e->heard[e->heard_count++ % ANNOUNCEMENTS_MAX], id, sizeof(e->heard[0]));
	return true;
}

/* It is logged and no more: it is news, not authority. */
static void
note_announcement(struct events *e, const struct kept *k, bool old)
{
	char safe[512], id[EVENT_ID_BYTES + 1];

	event_wire_id(k->rec.LTime, k->rec.Name, k->rec.Payload, id);
	if (!is_new_announcement(e, id)) {
		e->stats.duplicates++;
		return;
	}
	e->stats.announcements++;
	if (!old && span_eqs(k->rec.Name, EVENT_NEW_LEADER) && log_allow(&e->limit, "agent"))
		log_info("agent", "New leader elected: %s", log_safe(k->rec.Payload, safe, sizeof(safe)));
}

static void
arrive(struct events *e, struct kept *k)
{
	uint64_t before = e->stats.listed;

	decide(e, k);
	if (e->stats.listed != before)
		waits_wake(&e->waits);
}

void
events_subscribed(struct events *e)
{
	e->subscriptions++;
}

enum tv_err
events_told(struct events *e, struct span body)
{
	struct msg_user_event m = { .pool = 0 };	/* which may be coalesced: we show each */
	enum event_kind kind;
	struct kept *k;

	if (msg_read(&msg_user_event_schema, body, NULL, &m) != TV_OK || m.pool > POOL_WAN)
		return TV_EFORMAT;
	if (m.name.len + m.payload.len > EVENT_BYTES_MAX) {
		e->stats.bad++;
		return TV_OK;
	}
	if (m.pool != POOL_LAN || (k = copy_event(m.ltime, m.name, m.payload, &kind)) == NULL)
		return TV_OK;
	if (kind == EVENT_USER) {
		arrive(e, k);
		return TV_OK;
	}
	if (kind == EVENT_INTERNAL)
		note_announcement(e, k, m.old && e->subscriptions <= 1);
	else
		e->stats.bad++;
	free(k);
	return TV_OK;
}

void
events_wait(struct events *e, struct wait *w, struct mono timeout, void (*fn)(void *ctx, bool timed_out), void *ctx)
{
	wait_start(&e->waits, w, timeout, fn, ctx);
}

void
events_stats(const struct events *e, struct events_stats *out)
{
	*out = e->stats;
}

/* -- life -- */

struct events *
events_new(const struct events_conf *conf)
{
	struct events *e = calloc(1, sizeof(*e));

	if (e == NULL)
		return NULL;
	e->conf = *conf;
	e->waits.loop = conf->loop;
	e->limit = (struct log_limit){ .burst = 10, .period = MONO_S(10) };
	return e;
}

void
events_free(struct events *e)
{
	if (e == NULL)
		return;
	for (unsigned i = 0; i < e->count; i++)
		free(kept_at(e, i));
	free(e);
}
