/* gossipd.sock; see handlers.h and common/net/msg.h. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/net/greet.h"
#include "common/proc/daemon.h"
#include "gossipd/core/wire/serfwire.h"
#include "gossipd/handlers.h"
#include "gossipd/handlers_int.h"
#include "gossipd/info.h"
#include "gossipd/join.h"

#define QUESTION_BYTES_MAX (1u << 20)
#define OUT_BYTES_MAX (64u << 20)	/* a list of all members to one that reads slowly */
#define TAG_BYTES_MAX 512

/* -- answers -------------------------------------------------------------------------- */

void
handlers_answer(struct client *c, uint16_t type, uint64_t id, enum tv_err err, const char *text)
{
	(void)chan_answer(c->conn.chan, type, id, err, text, NULL, NULL);
}

bool
handlers_pend(struct client *c, uint64_t frame_id, uint64_t token)
{
	struct pending *p = malloc(sizeof(*p));

	if (p == NULL)
		return false;
	*p = (struct pending){ .next = c->h->pending, .client = c, .frame_id = frame_id, .token = token };
	c->h->pending = p;
	return true;
}

struct pending *
handlers_unpend(struct handlers *h, const struct client *c, uint64_t token)
{
	for (struct pending **at = &h->pending; *at != NULL; at = &(*at)->next) {
		struct pending *p = *at;

		if ((c == NULL || p->client == c) && (token == UINT64_MAX || p->token == token)) {
			*at = p->next;
			return p;
		}
	}
	return NULL;
}

/* -- members ------------------------------------------------------------------------------ */

static void
send_member(struct client *c, enum gossip_pool pool, enum gossip_event event, const struct swim_member *from)
{
	struct member_tag tags[MEMBER_TAGS_MAX];
	struct member m = { .name = from->name, .addr_len = from->addr.len, .port = from->addr.port,
		.status = (uint8_t)from->status, .tags = tags };
	struct serf_tags it = serf_meta_tags(from->meta);
	struct buf *b;

	while (m.tag_count < MEMBER_TAGS_MAX &&
	    serf_tags_next(&it, &tags[m.tag_count].name, &tags[m.tag_count].value) == TV_OK)
		m.tag_count++;
	memcpy(m.addr, from->addr.ip, sizeof(m.addr));
	memcpy(m.vsn, from->vsn, sizeof(m.vsn));
	b = chan_begin(c->conn.chan, MSG_GOSSIP_MEMBER, 0, 0);
	if (b == NULL)
		return;
	mpw_array(b, 3);
	mpw_uint(b, pool);
	mpw_uint(b, event);
	member_pack(b, &m);
	(void)chan_end(c->conn.chan);	/* too slow a reader is closed there */
}

void
handlers_event(struct handlers *h, enum gossip_pool pool, const struct swim_event *ev)
{
	struct client *c;

	SERVER_EACH(c, &h->server) {
		if (c->watching)
			send_member(c, pool, ev->type, &ev->member);
	}
}

static void
start_watch(struct client *c)
{
	struct engine *e = c->h->e;
	struct swim_member m;

	for (enum gossip_pool pool = POOL_LAN; pool <= POOL_WAN; pool++) {
		uint32_t cursor = 0;

		while (e->pools[pool] != NULL && swim_member_next(pool_core(e->pools[pool]), &cursor, &m))
			send_member(c, pool, GOSSIP_EV_JOIN, &m);
	}
	c->watching = true;
	(void)chan_send(c->conn.chan, MSG_GOSSIP_SYNCED, 0, 0, MSG_EMPTY);
}

/*
 * What is missing from the list counts as gone for clients that watch: so after a restart the list waits until the
 * members from before have been asked.
 */
static enum tv_err
on_watch(void *conn, const struct frame *f)
{
	struct client *c = conn;

	if (msg_read(&empty_schema, f->body, NULL, NULL) != TV_OK)
		return TV_EFORMAT;
	if (joiner_settled(c->h->e->joiner))
		start_watch(c);
	else
		c->waiting = true;
	return TV_OK;
}

void
handlers_settled(struct handlers *h)
{
	struct client *c;

	SERVER_EACH(c, &h->server) {
		if (c->waiting)
			start_watch(c);
		c->waiting = false;
	}
}

/* -- orders ---------------------------------------------------------------------------------- */

static enum tv_err
on_leave(void *conn, const struct frame *f)
{
	struct client *c = conn;

	if (msg_read(&empty_schema, f->body, NULL, NULL) != TV_OK)
		return TV_EFORMAT;
	if (!handlers_pend(c, f->id, 0))
		handlers_answer(c, f->type, f->id, TV_ENOMEM, tv_strerror(TV_ENOMEM));
	else
		(void)engine_leave(c->h->e);	/* begun already: the answer comes with the others */
	return TV_OK;
}

void
handlers_left(struct handlers *h)
{
	struct pending *p;

	while ((p = handlers_unpend(h, NULL, 0)) != NULL) {
		handlers_answer(p->client, MSG_GOSSIP_LEAVE, p->frame_id, TV_OK, "");
		free(p);
	}
}

static enum tv_err
on_force_leave(void *conn, const struct frame *f)
{
	struct client *c = conn;
	struct msg_force_leave q = { .prune = false };
	char safe[NODE_NAME_BYTES_MAX * 4 + 1], text[sizeof(safe) + 64] = "";
	enum tv_err err;

	if (msg_read(&msg_force_leave_schema, f->body, NULL, &q) != TV_OK || q.node.len > NODE_NAME_BYTES_MAX * 2)
		return TV_EFORMAT;
	err = engine_force_leave(c->h->e, q.node, q.prune);
	log_safe(q.node, safe, sizeof(safe));
	if (err == TV_ENOENT)
		snprintf(text, sizeof(text), "No node found with name '%s'", safe);
	else if (err == TV_EINVAL)
		snprintf(text, sizeof(text), "'%s' is this node itself: use leave", safe);
	else if (err != TV_OK)
		snprintf(text, sizeof(text), "%s", tv_strerror(err));
	else
		log_info("serf", "force-leave of %s%s", safe, q.prune ? ", with prune" : "");
	handlers_answer(c, f->type, f->id, err, text);
	return TV_OK;
}

static enum tv_err
on_tags(void *conn, const struct frame *f)
{
	struct client *c = conn;
	struct member_tag changes[MEMBER_TAGS_MAX];
	struct rd r = rd_span_over(f->body);
	uint32_t fields = mpr_array(&r), count = mpr_map(&r);
	const char *text;
	enum tv_err err;

	if (count > MEMBER_TAGS_MAX)
		return TV_EFORMAT;
	for (uint32_t i = 0; i < count; i++) {
		changes[i].name = mpr_bytes(&r, TAG_BYTES_MAX);
		changes[i].value = mpr_bytes(&r, TAG_BYTES_MAX);
	}
	if (mpr_end(&r, fields, 1) != TV_OK)
		return TV_EFORMAT;
	err = engine_tags(c->h->e, changes, count);
	text = err == TV_OK ? "" : err == TV_ELIMIT ? "tags do not fit 512 bytes" : tv_strerror(err);
	handlers_answer(c, f->type, f->id, err, text);
	return TV_OK;
}

static void
on_info(void *ctx, struct buf *b)
{
	info_write(((struct handlers *)ctx)->e, b);
}

/* -- channels ---------------------------------------------------------------------------------- */

static const struct server_row rows[] = {
	{ MSG_GOSSIP_WATCH, on_watch, false },
	{ MSG_GOSSIP_JOIN, handlers_on_join, false },
	{ MSG_GOSSIP_RESOLVE, handlers_on_resolve, false },
	{ MSG_GOSSIP_LEAVE, on_leave, false },
	{ MSG_GOSSIP_FORCE_LEAVE, on_force_leave, false },
	{ MSG_GOSSIP_TAGS, on_tags, false },
	{ MSG_GOSSIP_KEYRING, handlers_on_keyring, false },
	{ MSG_GOSSIP_COORDS, handlers_coords, false },
	{ MSG_GOSSIP_EVENTS, handlers_on_events, false },
	{ MSG_GOSSIP_FIRE, handlers_on_fire, false },
	{ MSG_GOSSIP_QUERY, handlers_on_query, false },
	{ MSG_GOSSIP_RESPOND, handlers_on_respond, false },
	{ 0, NULL, false }
};

static void
on_accept(void *ctx, void *conn, uid_t uid)
{
	struct client *c = conn;

	c->h = ctx;
	c->may_keys = daemon_peer_is(uid, "_rpcd");
}

static enum tv_err
on_hello(void *ctx UNUSED, void *conn, const struct frame *f)
{
	struct client *c = conn;

	c->keys = c->may_keys && greet_is(f, "rpcd");
	if (c->keys)
		handlers_send_keys(c);
	return TV_OK;
}

static void
on_close(void *ctx UNUSED, void *conn, enum tv_err why UNUSED)
{
	struct client *c = conn;
	struct pending *p;

	while ((p = handlers_unpend(c->h, c, UINT64_MAX)) != NULL)
		free(p);
	handlers_join_gone(c);
	handlers_resolve_gone(c);
	handlers_events_gone(c);
	handlers_keys_gone(c);
}

struct handlers *
handlers_new(struct engine *e, int fd)
{
	struct handlers *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return NULL;
	h->e = e;
	h->server = (struct server){
	    .chan = { .loop = e->loop, .name = "gossipd.sock", .body_max = QUESTION_BYTES_MAX,
	        .out_max = OUT_BYTES_MAX, .secret = true },
	    .conn_bytes = sizeof(struct client), .rows = rows, .may_connect = daemon_peer_allowed, .role = "gossipd",
	    .node_id = e->cluster->node_id, .log_area = "gossipd", .info = on_info, .on_accept = on_accept,
	    .on_hello = on_hello, .on_close = on_close, .ctx = h };
	if (server_start(&h->server, fd, (unsigned)e->opts->clients_max) && handlers_events_init(h))
		return h;
	handlers_free(h);
	return NULL;
}

void
handlers_free(struct handlers *h)
{
	if (h == NULL)
		return;
	server_stop(&h->server);
	handlers_join_done(h);
	handlers_resolve_done(h);
	handlers_events_done(h);
	handlers_keys_done(h);
	free(h);
}
