/*
 * gossipd.sock: user events and queries.
 *
 * Events are handed to all clients that asked for them, and the newest are kept, so that an rpcd that starts again can
 * show what there was.  A query of ours collects what comes until the core says that it is over.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "gossipd/handlers.h"
#include "gossipd/handlers_int.h"

#define RING_EVENTS 256
#define EVENT_BYTES_MAX 9216		/* name and payload: no sender may configure more */
#define NAME_BYTES_MAX (64u << 10)
#define QUESTION_BYTES_MAX (1u << 20)
#define ASKED_MAX 64			/* queries of ours at a time */
#define ANSWERS_BYTES_MAX (3u << 20)	/* of one query; fits a frame of rpcd */
#define RELAY_MAX 5
#define TIMEOUT_MS_MAX 3600000

struct kept {
	uint64_t ltime;
	enum gossip_pool pool;
	bool coalesce;
	size_t name_len, payload_len;
	uint8_t bytes[];		/* name, payload */
};

/* A query of ours that is not over. */
struct asked {
	LIST_ENTRY(asked) link;
	struct client *client;		/* NULL: went away */
	uint64_t frame_id, token;
	struct buf answers;
	uint32_t count, left_out;
};

struct handlers_events {
	struct kept *ring[RING_EVENTS];
	unsigned first, count;
	LIST_HEAD(, asked) asked;
	unsigned asked_count;
	uint64_t tokens;
};

/* -- user events -- */

static void
send_event(struct client *c, const struct kept *k, bool old)
{
	(void)chan_send_record(c->conn.chan, MSG_GOSSIP_USER_EVENT, 0, &msg_user_event_schema, &(struct msg_user_event){
	    k->pool, k->ltime, span_of(k->bytes, k->name_len), span_of(k->bytes + k->name_len, k->payload_len),
	    k->coalesce, old });	/* too slow a reader is closed there */
}

static struct kept *
keep_event(struct handlers_events *he, enum gossip_pool pool, const struct swim_user_event *e)
{
	struct kept *k = malloc(sizeof(*k) + e->name.len + e->payload.len);

	if (k == NULL)
		return NULL;
	*k = (struct kept){ .ltime = e->ltime, .pool = pool, .coalesce = e->coalesce, .name_len = e->name.len,
		.payload_len = e->payload.len };
	if (e->name.len > 0)
		memcpy(k->bytes, e->name.p, e->name.len);
	if (e->payload.len > 0)
		memcpy(k->bytes + e->name.len, e->payload.p, e->payload.len);
	if (he->count == RING_EVENTS) {
		free(he->ring[he->first]);
		he->first = (he->first + 1) % RING_EVENTS;
		he->count--;
	}
	he->ring[(he->first + he->count++) % RING_EVENTS] = k;
	return k;
}

void
handlers_user_event(struct handlers *h, enum gossip_pool pool, const struct swim_user_event *e)
{
	const struct kept *k = e->name.len + e->payload.len > EVENT_BYTES_MAX ? NULL : keep_event(h->events, pool, e);
	struct client *c;

	if (k == NULL)
		return;
	SERVER_EACH(c, &h->server) {
		if (c->events)
			send_event(c, k, false);
	}
}

enum tv_err
handlers_on_events(void *conn, const struct frame *f)
{
	struct client *c = conn;
	struct handlers_events *he = c->h->events;

	if (msg_read(&empty_schema, f->body, NULL, NULL) != TV_OK || c->events)
		return TV_EFORMAT;
	c->events = true;
	for (unsigned i = 0; i < he->count; i++)
		send_event(c, he->ring[(he->first + i) % RING_EVENTS], true);
	return TV_OK;
}

/* The pool that is meant, or NULL with a sentence. */
static struct pool *
pool_meant(struct client *c, enum gossip_pool pool, const char **why)
{
	struct engine *e = c->h->e;

	*why = e->leaving ? "this node is leaving" :
	    e->pools[pool] == NULL ? "this node is a client: only servers are in the WAN pool" : NULL;
	return *why == NULL ? e->pools[pool] : NULL;
}

enum tv_err
handlers_on_fire(void *conn, const struct frame *f)
{
	struct client *c = conn;
	struct msg_fire q = { .pool = 0 };
	struct msg_fired fired = { .ltime = 0 };
	const char *why;
	char text[128] = "";
	enum tv_err err = TV_EINVAL;

	if (msg_read(&msg_fire_schema, f->body, NULL, &q) != TV_OK || q.pool > POOL_WAN)
		return TV_EFORMAT;
	struct pool *p = pool_meant(c, q.pool, &why);
	if (p != NULL)
		err = pool_fire(p, q.name, q.payload, q.coalesce, &fired.ltime);
	if (p == NULL)
		snprintf(text, sizeof(text), "%s", why);
	else if (err == TV_ELIMIT)
		snprintf(text, sizeof(text), "%suser event exceeds configured limit of %d bytes %s encoding",
		    q.name.len + q.payload.len > SWIM_EVENT_BYTES_DEFAULT ? "" : "encoded ", SWIM_EVENT_BYTES_DEFAULT,
		    q.name.len + q.payload.len > SWIM_EVENT_BYTES_DEFAULT ? "before" : "after");
	else if (err != TV_OK)
		snprintf(text, sizeof(text), "%s", err == TV_EINVAL ? "user event missing name" : tv_strerror(err));
	(void)chan_answer(c->conn.chan, f->type, f->id, err, text, &msg_fired_schema, &fired);
	return TV_OK;
}

/* -- queries of others -- */

static void
send_query(struct client *c, enum gossip_pool pool, const struct swim_query *q, uint64_t left_ms)
{
	(void)chan_send_record(c->conn.chan, MSG_GOSSIP_HEARD, 0, &msg_heard_schema, &(struct msg_heard){ pool,
	    q->ltime, q->id, q->name, q->payload, q->from, left_ms });
}

void
handlers_heard(struct handlers *h, enum gossip_pool pool, const struct swim_query *q)
{
	int64_t left = mono_ms(mono_sub(q->deadline, clock_mono()));
	struct client *c;

	if (left <= 0)
		return;
	SERVER_EACH(c, &h->server) {
		if (c->events)
			send_query(c, pool, q, (uint64_t)(left < 86400000 ? left : 86400000));
	}
}

enum tv_err
handlers_on_respond(void *conn, const struct frame *f)
{
	struct client *c = conn;
	struct msg_respond q = { .pool = 0 };
	const char *text;
	enum tv_err err = TV_EINVAL;

	if (msg_read(&msg_respond_schema, f->body, NULL, &q) != TV_OK || q.pool > POOL_WAN || q.id > UINT32_MAX)
		return TV_EFORMAT;
	struct pool *p = pool_meant(c, q.pool, &text);
	if (p != NULL) {
		err = pool_respond(p, q.ltime, (uint32_t)q.id, q.payload);
		text = err == TV_OK ? "" :
		    err == TV_ENOENT ? "no such query, or it has ended or been answered" :
		    err == TV_ELIMIT ? "response exceeds limit of 1024 bytes" : tv_strerror(err);
	}
	handlers_answer(c, f->type, f->id, err, text);
	return TV_OK;
}

/* -- queries of ours -- */

static void
answer_query(struct client *c, uint64_t id, enum tv_err err, const char *text, const struct asked *a, uint32_t alive)
{
	struct buf *b = id != 0 ? chan_begin(c->conn.chan, MSG_GOSSIP_QUERY, FRAME_REPLY, id) : NULL;

	if (b == NULL)
		return;
	msg_answer_head(b, 2, err, text);
	mpw_array(b, a == NULL ? 0 : a->count);
	if (a != NULL)
		buf_putspan(b, buf_span(&a->answers));
	mpw_uint(b, alive);
	(void)chan_end(c->conn.chan);
}

static void
asked_free(struct handlers_events *he, struct asked *a)
{
	LIST_REMOVE(a, link);
	he->asked_count--;
	buf_done(&a->answers);
	free(a);
}

static struct asked *
asked_new(struct client *c, uint64_t frame_id)
{
	struct handlers_events *he = c->h->events;
	struct asked *a = he->asked_count >= ASKED_MAX ? NULL : calloc(1, sizeof(*a));

	if (a == NULL)
		return NULL;
	*a = (struct asked){ .client = c, .frame_id = frame_id,
		.token = ASK_TOKEN(ASK_CLIENT, ++he->tokens), .answers = BUF_INIT(ANSWERS_BYTES_MAX) };
	LIST_INSERT_HEAD(&he->asked, a, link);
	he->asked_count++;
	return a;
}

/* false: not well-formed. */
static bool
read_ask(struct rd *r, uint32_t fields, struct swim_ask *ask, struct span filters[SWIM_FILTERS_MAX], bool *too_many)
{
	ask->name = mpr_bytes(r, QUESTION_BYTES_MAX);
	ask->payload = mpr_bytes(r, QUESTION_BYTES_MAX);
	ask->filters = filters;
	ask->filter_count = mpr_array(r);
	*too_many = ask->filter_count > SWIM_FILTERS_MAX;
	for (unsigned i = 0; i < ask->filter_count && r->err == TV_OK; i++) {
		struct span one = mpr_bytes(r, QUESTION_BYTES_MAX);

		if (i < SWIM_FILTERS_MAX)
			filters[i] = one;
	}
	ask->want_ack = mpr_bool(r);
	ask->relay_factor = (uint8_t)mpr_uint(r, RELAY_MAX);
	ask->timeout = MONO_MS(mpr_uint(r, TIMEOUT_MS_MAX));
	return mpr_end(r, fields, 7) == TV_OK;
}

static const char *
ask_text(enum tv_err err)
{
	return err == TV_ELIMIT ? "query exceeds limit of 1024 bytes, or too many are under way" :
	    err == TV_EINVAL ? "query needs a name, and one that does not begin with _serf_" : tv_strerror(err);
}

enum tv_err
handlers_on_query(void *conn, const struct frame *f)
{
	struct client *c = conn;
	struct span filters[SWIM_FILTERS_MAX];
	struct swim_ask ask = { .token = 0 };
	struct rd r = rd_span_over(f->body);
	uint32_t fields = mpr_array(&r);
	enum gossip_pool pool = mpr_uint(&r, POOL_WAN);
	const char *why;
	bool too_many;

	if (!read_ask(&r, fields, &ask, filters, &too_many))
		return TV_EFORMAT;
	struct pool *p = pool_meant(c, pool, &why);
	if (p == NULL) {
		answer_query(c, f->id, TV_EINVAL, why, NULL, 0);
		return TV_OK;
	}
	struct asked *a = too_many ? NULL : asked_new(c, f->id);
	if (a == NULL) {
		answer_query(c, f->id, TV_ELIMIT, too_many ? "too many filters" : "too many queries are under way",
		    NULL, 0);
		return TV_OK;
	}
	ask.token = a->token;
	enum tv_err err = pool_query(p, &ask);
	if (err != TV_OK) {
		answer_query(c, f->id, err, ask_text(err), NULL, 0);
		asked_free(c->h->events, a);
	}
	return TV_OK;
}

static void
collect(struct asked *a, const struct swim_response *r)
{
	size_t before = a->answers.len;

	mpw_array(&a->answers, 3);
	mpw_str(&a->answers, r->from);
	mpw_bool(&a->answers, r->kind == SWIM_RESPONSE_ACK);
	mpw_bin(&a->answers, r->payload);
	if (!a->answers.failed) {
		a->count++;
		return;
	}
	a->answers.failed = false;
	a->answers.len = before;
	a->left_out++;
}

static void
end_query(struct handlers *h, const struct pool *p, struct asked *a)
{
	struct swim_stats stats;
	char text[80] = "";

	swim_stats(pool_core(p), &stats);
	if (a->left_out > 0)
		snprintf(text, sizeof(text), "%u answers above the memory limit were dropped", a->left_out);
	if (a->client != NULL)
		answer_query(a->client, a->frame_id, TV_OK, text, a, stats.alive);
	asked_free(h->events, a);
}

void
handlers_response(struct handlers *h, const struct pool *p, const struct swim_response *r)
{
	struct asked *a;

	LIST_FOREACH(a, &h->events->asked, link)
		if (a->token == r->token)
			break;
	if (a == NULL)
		return;
	if (r->kind == SWIM_RESPONSE_DONE)
		end_query(h, p, a);
	else
		collect(a, r);
}

/* -- life -- */

bool
handlers_events_init(struct handlers *h)
{
	h->events = calloc(1, sizeof(*h->events));
	return h->events != NULL;
}

void
handlers_events_gone(struct client *c)
{
	struct asked *a;

	LIST_FOREACH(a, &c->h->events->asked, link)
		if (a->client == c)
			a->client = NULL;
}

void
handlers_events_done(struct handlers *h)
{
	struct handlers_events *he = h->events;

	if (he == NULL)
		return;
	while (!LIST_EMPTY(&he->asked))
		asked_free(he, LIST_FIRST(&he->asked));
	for (unsigned i = 0; i < he->count; i++)
		free(he->ring[(he->first + i) % RING_EVENTS]);
	free(he);
	h->events = NULL;
}
