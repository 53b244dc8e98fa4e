/* gossipd.sock: joins, and the names that they wait for; see handlers_int.h. */
#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf/keys.h"
#include "gossipd/handlers.h"
#include "gossipd/handlers_int.h"
#include "gossipd/net.h"
#include "gossipd/resolver.h"

#define LOOKUPS_MAX 16			/* joins that wait for names */
#define JOIN_TEXT 1024
#define JOIN_ARENA_MAX (64u << 10)
#define JOIN_LOOKUP_TIME MONO_S(12)	/* rpcd waits for 15 s longer than for other answers */

/* A join that waits for names. */
struct handlers_lookup {
	LIST_ENTRY(handlers_lookup) link;
	struct client *client;
	uint64_t frame_id;
	struct resolve *resolve;
	unsigned left;
	enum gossip_pool pool;
	unsigned count;
	struct addr addrs[SWIM_JOIN_ADDRS_MAX];
	char why[JOIN_TEXT];		/* the first failure */
	struct arena texts;		/* what the targets are */
	struct span targets[RESOLVER_TARGETS_MAX];
};

static void
answer_join(struct client *c, uint64_t id, enum tv_err err, const char *text, unsigned contacted)
{
	(void)chan_answer(c->conn.chan, MSG_GOSSIP_JOIN, id, err, text, &msg_joined_schema,
	    &(struct msg_joined){ contacted });
}

/* -- the join itself -- */

/* Why no member could be contacted, with a remedy where there is one. */
static void
join_error(const struct engine *e, enum gossip_pool pool, const struct swim_join *j, char *text, size_t cap)
{
	const struct pool_refusal *refused = pool_refused(e->pools[pool]);
	enum tv_err err = j->error;
	char id[KEY_ID_TEXT_BYTES] = "none";

	if (kring_ring(e->keys)->count > 0)
		key_id_text(seal_key_at(kring_ring(e->keys), 0), id);
	if (err == TV_EPERM)
		snprintf(text, cap, "the join was refused: %s",
		    addr_eq(&refused->from, &j->error_addr) ? refused->why : "see the log");
	else if (err == TV_EINVAL)
		snprintf(text, cap, "the sandbox denies that port: add it to peer_ports in gossipd.conf");
	else if (err == TV_EAUTH)
		snprintf(text, cap, "authentication failed: the keys of this node (primary %s) are not those of that "
		    "cluster. Take its key from a member (clusterctl keyring export there), make it the first line of "
		    "%s and restart gossipd here", id, e->cluster->cluster_key);
	else
		snprintf(text, cap, "%s", tv_strerror(err));
}

/* "dial tcp 10.0.0.1:8301: connect: connection refused": Go's words, which programs look for. */
static bool
dial_error(const struct pool *p, const struct swim_join *j, char *text, size_t cap)
{
	int error = pool_dial_error(p, &j->error_addr);
	char addr[NET_TEXT_BYTES];
	const char *why = strerror(error);

	if (j->error == TV_ETIMEOUT)
		snprintf(text, cap, "dial tcp %s: i/o timeout", net_text(&j->error_addr, addr));
	else if (j->error == TV_EUNREACH && error != 0)
		snprintf(text, cap, "dial tcp %s: connect: %c%s", net_text(&j->error_addr, addr),
		    tolower((unsigned char)why[0]), why + 1);
	else
		return false;
	return true;
}

static void
name_taken(const struct engine *e, const struct addr *rival, char *text, size_t cap)
{
	char addr[NET_TEXT_BYTES];

	snprintf(text, cap, "another node there has the name of this one, %s, at %s: the members vote on it, and the "
	    "loser stops. Give one of the two another node_name in cluster.conf, and a data directory of its own",
	    e->cluster->node_name, net_text(rival, addr));
}

void
handlers_joined(struct handlers *h, enum gossip_pool pool, const struct swim_join *j)
{
	struct pending *p = handlers_unpend(h, NULL, j->token);
	char addr[NET_TEXT_BYTES], why[JOIN_TEXT + 32], text[JOIN_TEXT + 64 + NET_TEXT_BYTES];

	if (p == NULL)
		return;			/* the asker went away */
	if (j->contacted > 0 && j->rival.len > 0) {
		name_taken(h->e, &j->rival, text, sizeof(text));
		answer_join(p->client, p->frame_id, TV_ECONFLICT, text, j->contacted);
	} else if (j->contacted > 0) {
		answer_join(p->client, p->frame_id, TV_OK, "", j->contacted);
	} else {
		join_error(h->e, pool, j, why, sizeof(why));
		if (!dial_error(h->e->pools[pool], j, text, sizeof(text)))
			snprintf(text, sizeof(text), "%s: %s", net_text(&j->error_addr, addr), why);
		answer_join(p->client, p->frame_id, TV_EUNREACH, text, 0);
	}
	free(p);
}

static void
start_join(struct client *c, uint64_t frame_id, enum gossip_pool pool, const struct addr *addrs, unsigned count)
{
	struct engine *e = c->h->e;
	uint64_t token = JOIN_TOKEN(JOIN_CLIENT, ++c->h->tokens);
	enum tv_err err;

	if (!handlers_pend(c, frame_id, token)) {
		answer_join(c, frame_id, TV_ENOMEM, tv_strerror(TV_ENOMEM), 0);
	} else if ((err = pool_join(e->pools[pool], token, addrs, count, false)) != TV_OK) {
		free(handlers_unpend(c->h, c, token));
		answer_join(c, frame_id, err, err == TV_ECONFLICT ? "this node is leaving" : tv_strerror(err), 0);
	}
}

/* -- look-ups -- */

static struct handlers_lookup *
lookup_new(struct client *c, uint64_t frame_id)
{
	struct handlers_lookup *l;
	unsigned n = 0;

	LIST_FOREACH(l, &c->h->lookups, link)
		n++;
	if (n >= LOOKUPS_MAX || (l = calloc(1, sizeof(*l))) == NULL)
		return NULL;
	l->client = c;
	l->frame_id = frame_id;
	l->texts = ARENA_INIT(MSG_LARGE);
	LIST_INSERT_HEAD(&c->h->lookups, l, link);
	return l;
}

static void
lookup_free(struct handlers_lookup *l)
{
	LIST_REMOVE(l, link);
	arena_done(&l->texts);
	free(l);
}

void
handlers_join_gone(struct client *c)
{
	for (struct handlers_lookup *l = LIST_FIRST(&c->h->lookups), *next; l != NULL; l = next) {
		next = LIST_NEXT(l, link);
		if (l->client != c)
			continue;
		resolver_cancel(l->resolve);
		lookup_free(l);
	}
}

void
handlers_join_done(struct handlers *h)
{
	while (!LIST_EMPTY(&h->lookups))
		handlers_join_gone(LIST_FIRST(&h->lookups)->client);
}

/* False, with a sentence: one is no target. */
static bool
copy_targets(struct handlers_lookup *l, const struct span_list *from, char why[TARGET_WHY_BYTES])
{
	struct dial_target t;

	for (uint32_t i = 0; i < from->n; i++) {
		if (target_parse(from->v[i], 0, &t, why) != TV_OK)
			return false;
		l->targets[i] = arena_copy(&l->texts, from->v[i]);
	}
	return true;
}

/* -- MSG_GOSSIP_JOIN -- */

static void
on_join_resolved(void *ctx, unsigned place, const struct resolver_answer *a)
{
	struct handlers_lookup *l = ctx;
	char target[TARGET_SHOWN_BYTES], why[TARGET_WHY_BYTES];

	for (unsigned i = 0; i < a->count && a->outcome == TARGET_FOUND && l->count < SWIM_JOIN_ADDRS_MAX; i++)
		l->addrs[l->count++] = a->addrs[i];
	if (l->why[0] == '\0' && a->count == 0)
		snprintf(l->why, sizeof(l->why), "Failed to resolve %s: %s", log_safe(l->targets[place], target,
		    sizeof(target)), a->why.len > 0 ? log_safe(a->why, why, sizeof(why)) : "no address");
	if (--l->left > 0)
		return;
	if (l->count > 0)
		start_join(l->client, l->frame_id, l->pool, l->addrs, l->count);
	else
		answer_join(l->client, l->frame_id, TV_EUNREACH, l->why, 0);
	lookup_free(l);
}

/* Addresses are dialled at once; names are resolved before, by another process. */
static void
resolve_join(struct client *c, uint64_t frame_id, const struct msg_join *q)
{
	struct engine *e = c->h->e;
	uint16_t port = q->pool == POOL_LAN ? e->cluster->lan_port : e->cluster->wan_port;
	struct handlers_lookup *l = lookup_new(c, frame_id);
	char why[TARGET_WHY_BYTES];

	if (l == NULL) {
		answer_join(c, frame_id, TV_EAGAIN, "too many names are being looked up; try again", 0);
		return;
	}
	l->pool = (enum gossip_pool)q->pool;
	l->left = q->addrs.n;
	if (!copy_targets(l, &q->addrs, why)) {
		answer_join(c, frame_id, TV_EINVAL, why, 0);
		lookup_free(l);
	} else if ((l->resolve = resolver_start(e->resolver, l->targets, q->addrs.n, port, JOIN_LOOKUP_TIME, true,
	    on_join_resolved, l)) == NULL) {
		answer_join(c, frame_id, TV_ENOMEM, tv_strerror(TV_ENOMEM), 0);
		lookup_free(l);
	}
}

/* All of them, if there is no name among them. */
static bool
parse_addrs(const struct span_list *from, uint16_t port, struct addr *addrs)
{
	struct dial_target t;

	for (uint32_t i = 0; i < from->n; i++)
		if (target_parse(from->v[i], port, &t, NULL) != TV_OK || t.kind != TARGET_ADDRESS ||
		    !addr_parse(t.ip, t.port, &addrs[i]))
			return false;
	return true;
}

static void
answer_question(struct client *c, uint64_t frame_id, const struct msg_join *q)
{
	const struct engine *e = c->h->e;
	struct addr addrs[SWIM_JOIN_ADDRS_MAX];

	if (q->addrs.n == 0)
		answer_join(c, frame_id, TV_EINVAL, "no address given", 0);
	else if (e->pools[q->pool] == NULL)
		answer_join(c, frame_id, TV_EINVAL, "this node is a client: only servers are in the WAN pool", 0);
	else if (parse_addrs(&q->addrs, q->pool == POOL_LAN ? e->cluster->lan_port : e->cluster->wan_port, addrs))
		start_join(c, frame_id, (enum gossip_pool)q->pool, addrs, q->addrs.n);
	else
		resolve_join(c, frame_id, q);
}

enum tv_err
handlers_on_join(void *conn, const struct frame *f)
{
	struct arena a = ARENA_INIT(JOIN_ARENA_MAX);
	struct msg_join q = { .pool = 0 };
	enum tv_err err = msg_read(&msg_join_schema, f->body, &a, &q);

	if (err == TV_OK && (q.pool > POOL_WAN || q.addrs.n > SWIM_JOIN_ADDRS_MAX))
		err = TV_EFORMAT;
	if (err == TV_OK)
		answer_question(conn, f->id, &q);
	arena_done(&a);
	return err;
}
