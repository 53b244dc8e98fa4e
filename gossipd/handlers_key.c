/*
 * gossipd.sock: the keys.  rpcd is told the ring for its links; and may list and change the keys of whole
 * pools, by the key queries of Serf.
 */
#include "config.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/conf/keys.h"
#include "gossipd/core/wire/serfwire.h"
#include "gossipd/handlers.h"
#include "gossipd/handlers_int.h"
#include "gossipd/keyquery.h"

#define ASKS_MAX 16
#define RELAY_MAX 5
#define KEYS_COUNTED_MAX 64		/* different keys in the answers of one pool */
#define MESSAGES_MAX 256
#define MESSAGES_BYTES_MAX (256u << 10)
#define MESSAGE_BYTES_MAX 1024		/* of one member, which may be any host */
#define NAMES_BYTES_MAX (64u << 20)
/*
 * Gossip reaches each member with high probability, not for sure; asking twice for the same is harmless here.  Those
 * that are silent are asked again, by name if there are few.
 */
#define TRIES_MAX 3
#define TRIES_TIME_MAX MONO_S(15)
#define FILTER_BYTES_MAX 400

struct count {
	char key[KEY_BASE64_BYTES + 1];
	uint32_t n;
};

/* What one pool has answered so far. */
struct tally {
	bool asked, again;		/* again: some are silent, and asked once more from the loop */
	uint64_t token;			/* of the query under way; 0: over */
	unsigned tries;
	struct mono started, tried;
	uint32_t nodes, responses, errors, message_count;
	unsigned key_count, primary_count;
	struct count keys[KEYS_COUNTED_MAX], primaries[KEYS_COUNTED_MAX];
	struct buf messages;		/* pairs of node and text */
	struct buf names;		/* of those that answered, each with its length */
};

/* A question about keys that is not answered yet.  In locked memory: it holds the keys of the answers. */
struct keyring_ask {
	LIST_ENTRY(keyring_ask) link;
	struct handlers *h;
	ev_timer soon;
	struct client *client;		/* NULL: went away */
	uint64_t frame_id;
	enum kring_op op;
	uint8_t key[KEY_BYTES], key_len, relay;
	unsigned waiting;		/* pools, and one while they are being asked */
	struct tally pools[ENGINE_POOLS];
};

static void on_soon(struct ev_loop *loop, ev_timer *w, int revents);

/* -- the ring for links ------------------------------------------------------------- */

void
handlers_send_keys(struct client *c)
{
	const struct seal_ring *ring = kring_ring(c->h->e->keys);
	struct buf *b = chan_begin(c->conn.chan, MSG_GOSSIP_KEYS, 0, 0);

	if (b == NULL)
		return;
	mpw_array(b, 1);
	mpw_array(b, ring->count);
	for (unsigned i = 0; i < ring->count; i++) {
		uint8_t psk[KEY_BYTES];

		cluster_link_psk(seal_key_at(ring, i), psk);	/* the keys themselves are ours alone */
		mpw_bin(b, span_of(psk, sizeof(psk)));
		sodium_memzero(psk, sizeof(psk));
	}
	(void)chan_end(c->conn.chan);
}

void
handlers_keys(struct handlers *h)
{
	struct client *c;

	SERVER_EACH(c, &h->server) {
		if (c->keys)
			handlers_send_keys(c);
	}
}

/* -- asking the pools -------------------------------------------------------------------- */

static void
put_counts(struct buf *b, const struct count *counts, unsigned n)
{
	mpw_map(b, n);
	for (unsigned i = 0; i < n; i++) {
		mpw_cstr(b, counts[i].key);
		mpw_uint(b, counts[i].n);
	}
}

static void
put_tally(struct buf *b, enum gossip_pool pool, const struct tally *t)
{
	mpw_array(b, 7);
	mpw_uint(b, pool);
	mpw_uint(b, t->nodes);
	mpw_uint(b, t->responses);
	mpw_uint(b, t->errors);
	put_counts(b, t->keys, t->key_count);
	put_counts(b, t->primaries, t->primary_count);
	mpw_map(b, t->message_count);
	buf_putspan(b, buf_span(&t->messages));
}

/* ask NULL: none of the pools. */
static void
answer_keys(struct client *c, uint64_t id, enum tv_err err, const char *text, const struct keyring_ask *ask)
{
	struct buf *b = id != 0 ? chan_begin(c->conn.chan, MSG_GOSSIP_KEYRING, FRAME_REPLY, id) : NULL;
	unsigned pools = 0;

	if (b == NULL)
		return;
	for (unsigned i = 0; i < ENGINE_POOLS && ask != NULL; i++)
		pools += ask->pools[i].asked;
	msg_answer_head(b, 1, err, text);
	mpw_array(b, pools);
	for (enum gossip_pool i = POOL_LAN; i <= POOL_WAN && ask != NULL; i++)
		if (ask->pools[i].asked)
			put_tally(b, i, &ask->pools[i]);
	(void)chan_end(c->conn.chan);
}

static struct keyring_ask *
keyring_ask_new(struct client *c, uint64_t frame_id)
{
	struct keyring_ask *ask;
	unsigned open = 0;

	LIST_FOREACH(ask, &c->h->keyasks, link)
		open++;
	ask = open >= ASKS_MAX ? NULL : sodium_malloc(sizeof(*ask));
	if (ask == NULL)
		return NULL;
	memset(ask, 0, sizeof(*ask));
	ask->h = c->h;
	ev_init(&ask->soon, on_soon);
	ask->soon.data = ask;
	ask->client = c;
	ask->frame_id = frame_id;
	ask->waiting = 1;
	for (unsigned i = 0; i < ENGINE_POOLS; i++) {
		buf_init(&ask->pools[i].messages, MESSAGES_BYTES_MAX);
		buf_init(&ask->pools[i].names, NAMES_BYTES_MAX);
	}
	LIST_INSERT_HEAD(&c->h->keyasks, ask, link);
	return ask;
}

static void
keyring_ask_free(struct handlers *h, struct keyring_ask *ask)
{
	LIST_REMOVE(ask, link);
	ev_timer_stop(h->e->loop, &ask->soon);
	for (unsigned i = 0; i < ENGINE_POOLS; i++) {
		buf_done(&ask->pools[i].messages);
		buf_done(&ask->pools[i].names);
	}
	sodium_free(ask);	/* wipes */
}

/* One pool less to wait for; the last one answers. */
static void
keyring_ask_step(struct handlers *h, struct keyring_ask *ask)
{
	if (--ask->waiting > 0)
		return;
	if (ask->client != NULL)
		answer_keys(ask->client, ask->frame_id, TV_OK, "", ask);
	keyring_ask_free(h, ask);
}

static void
note_message(struct tally *t, struct span node, struct span text)
{
	size_t before = t->messages.len;

	if (t->message_count == MESSAGES_MAX)
		return;
	mpw_str(&t->messages, node);
	mpw_str(&t->messages, span_of(text.p, text.len < MESSAGE_BYTES_MAX ? text.len : MESSAGE_BYTES_MAX));
	if (t->messages.failed) {
		t->messages.failed = false;
		t->messages.len = before;
	} else {
		t->message_count++;
	}
}

/* A query to one pool; only: an encoded filter, or SPAN_NONE for everybody. */
static enum tv_err
ask_pool(struct handlers *h, struct keyring_ask *ask, enum gossip_pool pool, struct span only)
{
	struct tally *t = &ask->pools[pool];
	struct buf b = BUF_INIT(256);
	struct swim_ask q = { .token = ASK_TOKEN(ASK_KEYRING, ++h->tokens), .name = span_str(keyquery_name(ask->op)),
		.relay_factor = ask->relay, .internal = true, .filters = &only, .filter_count = only.len > 0 };
	enum tv_err err;

	serf_put_key_request(&b, &(struct serf_key_request){ .key = span_of(ask->key, ask->key_len) });
	q.payload = buf_span(&b);
	t->token = q.token;
	t->tried = clock_mono();
	t->tries++;
	err = b.failed ? TV_ENOMEM : pool_query(h->e->pools[pool], &q);
	if (b.cap > 0)
		sodium_memzero(b.data, b.cap);
	buf_done(&b);
	if (err != TV_OK)
		t->token = 0;
	return err;
}

/* The first query; an error is told as the pool's. */
static void
ask_first(struct handlers *h, struct keyring_ask *ask, enum gossip_pool pool)
{
	struct tally *t = &ask->pools[pool];
	enum tv_err err;

	t->asked = true;
	t->started = clock_mono();
	ask->waiting++;
	err = ask_pool(h, ask, pool, SPAN_NONE);
	if (err == TV_OK)
		return;
	t->errors++;
	note_message(t, span_str(h->e->cluster->node_name),
	    span_str(err == TV_ELIMIT ? "too many queries are under way" : tv_strerror(err)));
	keyring_ask_step(h, ask);
}

enum tv_err
handlers_on_keyring(void *conn, const struct frame *f)
{
	struct client *c = conn;
	struct engine *e = c->h->e;
	struct msg_keyring q = { .what = 0 };
	const char *no;
	struct keyring_ask *ask;

	if (msg_read(&msg_keyring_schema, f->body, NULL, &q) != TV_OK || q.what > KRING_REMOVE ||
	    q.key.len > KEY_BYTES || q.relay > RELAY_MAX || q.pools > 3)
		return TV_EFORMAT;
	no = !c->may_keys ? "key requests are accepted from rpcd only" :
	    e->leaving ? "this node is leaving" : keyquery_refused(e, (enum kring_op)q.what);
	if (no != NULL) {
		answer_keys(c, f->id, TV_EPERM, no, NULL);
	} else if (q.what != KRING_LIST && !seal_key_len_ok(q.key.len)) {
		answer_keys(c, f->id, TV_EINVAL, "key size must be 16, 24 or 32 bytes", NULL);
	} else if ((ask = keyring_ask_new(c, f->id)) == NULL) {
		answer_keys(c, f->id, TV_ELIMIT, "too many key requests are pending", NULL);
	} else {
		ask->op = (enum kring_op)q.what;
		ask->relay = (uint8_t)q.relay;
		ask->key_len = (uint8_t)q.key.len;
		if (q.key.len > 0)
			memcpy(ask->key, q.key.p, q.key.len);
		for (enum gossip_pool i = POOL_LAN; i <= POOL_WAN; i++)
			if (q.pools >> i & 1 && e->pools[i] != NULL)
				ask_first(c->h, ask, i);
		keyring_ask_step(c->h, ask);
	}
	return TV_OK;
}

/* -- answers ------------------------------------------------------------------------------- */

/* A key that a member named; rubbish, and more than there is room for, is left out. */
static void
count_key(struct count *counts, unsigned *n, struct span key)
{
	uint8_t bytes[KEY_BYTES], len;
	unsigned i = 0;
	bool good = key_decode(key, bytes, &len);

	sodium_memzero(bytes, sizeof(bytes));
	if (!good)
		return;
	while (i < *n && !span_eqs(key, counts[i].key))
		i++;
	if (i == KEYS_COUNTED_MAX)
		return;
	if (i == *n) {
		(void)span_copy(key, counts[i].key, sizeof(counts[i].key));	/* it fits: it was decoded */
		(*n)++;
	}
	counts[i].n++;
}

static int
name_order(const void *a, const void *b)
{
	return span_cmp(*(const struct span *)a, *(const struct span *)b);
}

/* Members that have answered, in order; the caller frees it.  *n 0 also without memory. */
static struct span *
answered(const struct tally *t, uint32_t *n)
{
	struct span *names = malloc((t->responses + 1) * sizeof(*names));

	*n = 0;
	for (size_t at = 0; names != NULL && at < t->names.len; at += 1 + names[*n - 1].len) {
		names[*n] = span_of(t->names.data + at + 1, t->names.data[at]);
		++*n;
	}
	if (*n > 0)
		qsort(names, *n, sizeof(*names), name_order);
	return names;
}

static bool
is_among(const struct span *names, uint32_t n, struct span name)
{
	return n > 0 && bsearch(&name, names, n, sizeof(*names), name_order) != NULL;
}

static bool
has_answered(const struct tally *t, struct span name)
{
	for (size_t at = 0; at < t->names.len; at += 1 + (size_t)t->names.data[at])
		if (span_eq(span_of(t->names.data + at + 1, t->names.data[at]), name))
			return true;
	return false;
}

static void
take_response(struct tally *t, const struct swim_response *r)
{
	struct serf_key_response m = { .result = false };
	struct arena a = ARENA_INIT(64u << 10);
	struct serf_list keys;
	struct span key;
	uint8_t *name;

	if (r->from.len > NODE_NAME_BYTES_MAX || (t->tries > 1 && has_answered(t, r->from)))
		return;
	name = buf_add(&t->names, 1 + r->from.len);
	if (name == NULL)		/* half a name would break the list; this one counts as silent */
		return;
	name[0] = (uint8_t)r->from.len;
	if (r->from.len > 0)
		memcpy(name + 1, r->from.p, r->from.len);
	t->responses++;
	if (r->payload.len < 1 || r->payload.p[0] != SERF_KEY_RESPONSE ||
	    serf_get_key_response(span_of(r->payload.p + 1, r->payload.len - 1), &a, &m) != TV_OK)
		m = (struct serf_key_response){ .message = span_str("malformed answer") };
	keys = serf_list(m.keys);
	while (m.result && serf_list_next(&keys, &key) == TV_OK)
		count_key(t->keys, &t->key_count, key);
	if (m.result)
		count_key(t->primaries, &t->primary_count, m.primary_key);
	t->errors += !m.result;
	if (m.message.len > 0 || !m.result)
		note_message(t, r->from, m.message);
	arena_done(&a);
}

/* A filter that names the silent members; empty when they are many. */
static void
put_silent(const struct tally *t, const struct swim *core, struct buf *filter)
{
	struct buf list = BUF_INIT(FILTER_BYTES_MAX);
	struct serf_filter f = { .type = SERF_FILTER_NODE };
	struct swim_member m;
	uint32_t cursor = 0, n, silent = 0;
	struct span *names = answered(t, &n);

	while (swim_member_next(core, &cursor, &m))
		if (m.status == MEMBER_ALIVE && !is_among(names, n, m.name)) {
			mpw_raw(&list, m.name);
			silent++;
		}
	free(names);
	if (list.failed || silent == 0) {
		buf_done(&list);
		return;
	}
	struct buf array = BUF_INIT(FILTER_BYTES_MAX + 8);
	mpw_array(&array, silent);
	buf_putspan(&array, buf_span(&list));
	f.nodes = buf_span(&array);
	serf_put_filter(filter, &f);
	buf_done(&array);
	buf_done(&list);
}

/* Members that did not answer, by name: an operator has to go and look at them. */
static void
note_silent(struct tally *t, const struct swim *core)
{
	struct swim_member m;
	uint32_t cursor = 0, n;
	struct span *names = answered(t, &n);

	while (swim_member_next(core, &cursor, &m))
		if (m.status == MEMBER_ALIVE && !is_among(names, n, m.name))
			note_message(t, m.name, span_str("no answer"));
	free(names);
}

/* One more try for the silent members, if there is time and the client waits: true when it is under way. */
static bool
try_again(struct handlers *h, struct keyring_ask *ask, const struct pool *p)
{
	struct tally *t = &ask->pools[pool_kind(p)];
	struct mono now = clock_mono(), next_end = mono_add(now, mono_sub(now, t->tried));
	struct buf filter = BUF_INIT(FILTER_BYTES_MAX * 2);
	bool asked = false;

	if (ask->client != NULL && t->tries < TRIES_MAX && mono_before(mono_sub(next_end, t->started),
	    TRIES_TIME_MAX)) {
		put_silent(t, pool_core(p), &filter);
		asked = ask_pool(h, ask, pool_kind(p), filter.failed ? SPAN_NONE : buf_span(&filter)) == TV_OK;
	}
	buf_done(&filter);
	return asked;
}

static uint32_t
alive(const struct pool *p)
{
	struct swim_stats stats;

	swim_stats(pool_core(p), &stats);
	return stats.alive;
}

static void
pool_over(struct handlers *h, struct keyring_ask *ask, const struct pool *p)
{
	struct tally *t = &ask->pools[pool_kind(p)];

	t->token = 0;
	t->nodes = alive(p) > t->responses ? alive(p) : t->responses;
	if (t->responses < t->nodes)
		note_silent(t, pool_core(p));
	keyring_ask_step(h, ask);
}

static void
on_soon(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct keyring_ask *ask = w->data;
	struct handlers *h = ask->h;
	bool again[ENGINE_POOLS];

	for (int i = 0; i < ENGINE_POOLS; i++) {
		again[i] = ask->pools[i].again;
		ask->pools[i].again = false;
	}
	ask->waiting++;			/* a pool's end may not free it under our feet */
	for (int i = 0; i < ENGINE_POOLS; i++)
		if (again[i] && !try_again(h, ask, h->e->pools[i]))
			pool_over(h, ask, h->e->pools[i]);
	keyring_ask_step(h, ask);
}

void
handlers_key_response(struct handlers *h, const struct pool *p, const struct swim_response *r)
{
	struct keyring_ask *ask;
	struct tally *t;

	LIST_FOREACH(ask, &h->keyasks, link)
		if (ask->pools[pool_kind(p)].token == r->token)
			break;
	if (ask == NULL)
		return;			/* an earlier try, or the client has gone */
	t = &ask->pools[pool_kind(p)];
	if (r->kind == SWIM_RESPONSE_DATA) {
		take_response(t, r);
		/* The core waits for the whole pool; a try for some is over when these have answered. */
		if (t->tries > 1 && t->responses >= alive(p))
			pool_over(h, ask, p);
	} else if (r->kind == SWIM_RESPONSE_DONE && t->responses >= alive(p)) {
		pool_over(h, ask, p);
	} else if (r->kind == SWIM_RESPONSE_DONE) {
		t->token = 0;
		t->again = true;		/* not from within the pool's output */
		ev_timer_set(&ask->soon, 0., 0.);
		ev_timer_start(h->e->loop, &ask->soon);
	}
}

void
handlers_keys_gone(struct client *c)
{
	struct keyring_ask *ask;

	LIST_FOREACH(ask, &c->h->keyasks, link)
		if (ask->client == c)
			ask->client = NULL;
}

void
handlers_keys_done(struct handlers *h)
{
	while (!LIST_EMPTY(&h->keyasks))
		keyring_ask_free(h, LIST_FIRST(&h->keyasks));
}
