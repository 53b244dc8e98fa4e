/* gossipd.sock: names that rpcd is to ask by, see handlers_int.h. */
#include "config.h"

#include <stdlib.h>

#include "gossipd/handlers_int.h"
#include "gossipd/net.h"
#include "gossipd/resolver.h"

#define ASKS_MAX 16			/* under way, of all clients */

struct resolve_ask {
	LIST_ENTRY(resolve_ask) link;
	struct client *client;
	uint64_t frame_id;
	struct resolve *resolve;
};

static void
answer_resolve(struct client *c, uint64_t id, enum tv_err err, const char *text)
{
	(void)chan_answer(c->conn.chan, MSG_GOSSIP_RESOLVE, id, err, text, NULL, NULL);
}

static struct resolve_ask *
ask_new(struct client *c, uint64_t frame_id)
{
	struct resolve_ask *q;
	unsigned n = 0;

	LIST_FOREACH(q, &c->h->resolves, link)
		n++;
	if (n >= ASKS_MAX || (q = calloc(1, sizeof(*q))) == NULL)
		return NULL;
	*q = (struct resolve_ask){ .client = c, .frame_id = frame_id };
	LIST_INSERT_HEAD(&c->h->resolves, q, link);
	return q;
}

static void
ask_free(struct resolve_ask *q)
{
	LIST_REMOVE(q, link);
	free(q);
}

void
handlers_resolve_gone(struct client *c)
{
	for (struct resolve_ask *q = LIST_FIRST(&c->h->resolves), *next; q != NULL; q = next) {
		next = LIST_NEXT(q, link);
		if (q->client != c)
			continue;
		resolver_cancel(q->resolve);
		ask_free(q);
	}
}

void
handlers_resolve_done(struct handlers *h)
{
	while (!LIST_EMPTY(&h->resolves))
		handlers_resolve_gone(LIST_FIRST(&h->resolves)->client);
}

static void
on_resolved(void *ctx, unsigned place, const struct resolver_answer *a)
{
	struct resolve_ask *q = ctx;
	char texts[TARGET_ADDRS_MAX][NET_TEXT_BYTES];
	struct span addrs[TARGET_ADDRS_MAX];

	for (unsigned i = 0; i < a->count; i++)
		addrs[i] = span_str(net_text(&a->addrs[i], texts[i]));
	(void)chan_answer(q->client->conn.chan, MSG_GOSSIP_RESOLVE, q->frame_id, TV_OK, "", &msg_resolved_schema,
	    &(struct msg_resolved){ place, a->outcome, a->why, { addrs, a->count, true } });
	ask_free(q);
}

enum tv_err
handlers_on_resolve(void *conn, const struct frame *f)
{
	struct client *c = conn;
	struct msg_resolve m = { .port = 0 };
	struct arena a = ARENA_INIT(MSG_TEXT);
	char why[TARGET_WHY_BYTES];
	struct dial_target t;
	enum tv_err err = msg_read(&msg_resolve_schema, f->body, &a, &m);

	if (err == TV_OK && (m.targets.n != 1 || m.port > UINT16_MAX))
		err = TV_EFORMAT;
	if (err == TV_OK && target_parse(m.targets.v[0], (uint16_t)m.port, &t, why) != TV_OK) {
		answer_resolve(c, f->id, TV_EINVAL, why);
	} else if (err == TV_OK) {
		struct resolve_ask *q = ask_new(c, f->id);

		if (q == NULL) {
			answer_resolve(c, f->id, TV_EAGAIN, "too many names are being looked up");
		} else if ((q->resolve = resolver_start(c->h->e->resolver, m.targets.v, 1, (uint16_t)m.port,
		    RESOLVER_TIMEOUT, false, on_resolved, q)) == NULL) {
			answer_resolve(c, f->id, TV_ENOMEM, tv_strerror(TV_ENOMEM));
			ask_free(q);
		}
	}
	arena_done(&a);
	return err;
}
