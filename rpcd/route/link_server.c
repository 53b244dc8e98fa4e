/* The answering side of node-to-node links, see link_server.h. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/map.h"
#include "common/net/greet.h"
#include "common/net/msg.h"
#include "common/net/server.h"
#include "common/net/source.h"
#include "common/record/mpack.h"
#include "rpcd/route/link_server.h"

#define REPLY_HEAD_BYTES 128		/* of an answer besides its texts: enough */
#define PASS_BYTES (64u << 10)		/* of a value: it is not copied */
#define FIRST_BYTES MONO_S(2)		/* of who dials us */
/* Connections that have not said HELLO: all but those of members of the pool, those, and of one address. */
#define UNPROVEN_MAX 256
#define UNPROVEN_KNOWN_MAX 128
#define UNPROVEN_SOURCE_MAX 64
/*
 * Who was told that the key of a link is gone closes it.  Until it has heard of that, requests may be on their way: one
 * that we hang up on does not know what became of them.
 */
#define RETIRED_HEARD MONO_S(2)
#define RETIRED_LOOK_S 0.5

struct pending {
	struct conn *conn;
	struct map_node node;
	uint64_t id;			/* the asker's */
	uint16_t type;
	uint32_t bytes;			/* asked */
	struct route_call *call;
};

struct conn {
	struct server_conn conn;	/* first */
	struct link_server *d;
	bool retired;			/* its key has left the ring, */
	struct mono retired_at;		/* then */
	struct map pending;
};

struct link_server {
	struct link_server_conf conf;
	struct server server;		/* its connections are struct conn */
	struct link_server_stats stats;
	struct log_limit asked;
	ev_timer retired_look;		/* runs while some are retired */
	bool quiet;			/* stopping: nothing new is taken */
};

static struct pending *
pending_find(const struct conn *k, uint64_t id)
{
	struct pending *p;

	MAP_FOREACH_HASH(p, &k->pending, keyed_hash(&id, sizeof(id)), node)
		if (p->id == id)
			return p;
	return NULL;
}

static void
pending_drop(struct pending *p)
{
	map_remove(&p->conn->pending, &p->node);
	free(p);
}

static void
send_answer(struct chan *c, uint16_t type, uint64_t id, const struct op_reply *reply)
{
	struct buf *b = id == 0 ? NULL : chan_begin(c, type, FRAME_REPLY, id);

	if (b == NULL)
		return;
	/* A large one grows no buffer step by step: each step of one that holds secrets is a copy. */
	(void)buf_room(b, reply->value.len + reply->text.len + REPLY_HEAD_BYTES);
	op_reply_write(b, reply);
	chan_end(c);
}

/*
 * A large value is sent from the memory that it came in, unless others wait for the same one.  Those that are sent have
 * no limit of their own: the link closes when its out_max bytes wait.
 */
static void
pass_on(struct conn *k, uint16_t type, uint64_t id, const struct op_reply *reply)
{
	struct chan *c = k->conn.chan;
	struct buf memory, *b;
	struct span value;

	if (reply->value.len < PASS_BYTES || route_reply_number(k->d->conf.route) != 0 ||
	    (b = chan_begin(c, type, FRAME_REPLY, id)) == NULL) {
		send_answer(c, type, id, reply);
		return;
	}
	value = chan_keep(reply->value, &memory);
	op_reply_begin(b, reply);
	b->failed |= value.p == NULL;
	chan_end_with(c, &memory, value);
}

static void
refuse(struct conn *k, const struct frame *f, enum tv_err err, const char *text)
{
	send_answer(k->conn.chan, f->type, f->id, &(struct op_reply){ .err = err, .text = span_str(text) });
}

/* One that this version does not know, nor where it belongs. */
static void
refuse_unknown(struct conn *k, const struct frame *f)
{
	struct op_request q;
	char text[80];

	(void)op_request_read(f->body, &q);
	snprintf(text, sizeof(text), OP_UNKNOWN_TEXT, (unsigned)q.op);
	refuse(k, f, TV_EINVAL, text);
}

static void
routed(void *ctx, const struct op_reply *reply)
{
	struct pending *p = ctx;
	struct conn *k = p->conn;

	if (k->d->conf.answered != NULL)
		k->d->conf.answered(k->d->conf.ctx, chan_peer(k->conn.chan), p->bytes, reply->value.len);
	pass_on(k, p->type, p->id, reply);
	pending_drop(p);
}

/* NULL: none that this version knows. */
static const struct op *
op_of(struct span body)
{
	struct rd r = rd_span_over(body);

	(void)mpr_array(&r);
	return op_find((uint16_t)mpr_uint(&r, UINT16_MAX));
}

/* Another node passes on what changes the cluster.  Its own log says who asked there. */
static void
log_asker(struct conn *k, const struct op *op)
{
	if (op != NULL && op->traits & OP_LOGGED && log_allow(&k->d->asked, "rpc"))
		log_info("rpc", "%s requested by the rpcd at %s", op->name, chan_peer(k->conn.chan));
}

static void
on_cancel(void *ctx UNUSED, void *conn, uint64_t id)
{
	struct pending *p = pending_find(conn, id);

	if (p == NULL)
		return;
	route_cancel(p->call);
	pending_drop(p);
}

static enum tv_err
on_op(void *conn, const struct frame *f)
{
	static const char busy[] = "too many requests under way on this server";
	enum route_origin origin = f->type == MSG_OP ? ROUTE_PEER : f->type == MSG_OP_FINAL ? ROUTE_FINAL : ROUTE_DC;
	struct conn *k = conn;
	struct pending *p;
	const struct op *op = op_of(f->body);
	enum tv_err err;

	if (pending_find(k, f->id) != NULL)
		return TV_EFORMAT;
	k->d->stats.requests++;
	if (op != NULL && op->traits & OP_OWN) {
		refuse(k, f, TV_EPERM, "Permission denied: this is for the rpcd of the same server");
		return TV_OK;
	}
	log_asker(k, op);
	if (k->d->quiet) {
		refuse(k, f, TV_ENOLEADER, "this server is stopping");
		return TV_OK;
	}
	p = k->pending.count >= k->d->conf.pending_max ? NULL : calloc(1, sizeof(*p));
	if (p == NULL) {
		refuse(k, f, TV_EAGAIN, busy);
		return TV_OK;
	}
	*p = (struct pending){ .conn = k, .id = f->id, .type = f->type, .bytes = (uint32_t)f->body.len };
	p->call = route_relay(k->d->conf.route, origin, f->body, routed, p, &err);
	if (p->call == NULL) {
		free(p);
		if (err == TV_EFORMAT || err == TV_EOF)
			return err;
		if (err == TV_EINVAL)
			refuse_unknown(k, f);
		else
			refuse(k, f, TV_EAGAIN, busy);
		return TV_OK;
	}
	map_add(&k->pending, &p->node, keyed_hash(&p->id, sizeof(p->id)));
	return TV_OK;
}

static enum tv_err
on_hello(void *ctx, void *conn, const struct frame *f UNUSED)
{
	struct link_server *d = ctx;

	greet_send(((struct conn *)conn)->conn.chan, "rpcd", d->conf.node_id);
	return TV_OK;
}

static void
on_accept(void *ctx, void *conn, uid_t uid UNUSED)
{
	((struct conn *)conn)->d = ctx;
}

static void
on_close(void *ctx, void *conn, enum tv_err why UNUSED)
{
	struct link_server *d = ctx;
	struct conn *k = conn;
	struct map_node *tmp;
	struct pending *p;

	MAP_FOREACH(p, &k->pending, node, tmp) {
		route_cancel(p->call);
		pending_drop(p);
	}
	map_done(&k->pending);
	d->stats.retiring -= k->retired;
}

static bool
is_known(void *ctx, uint64_t source)
{
	const struct link_server *d = ctx;

	return d->conf.is_known(d->conf.ctx, source);
}

/* -- keys that leave the ring -- */

static void
on_retired_look(struct ev_loop *loop, ev_timer *w, int events UNUSED)
{
	struct link_server *d = w->data;
	struct mono now = clock_mono(), heard = mono_sub(now, RETIRED_HEARD),
	    late = mono_sub(now, d->conf.retire_time);
	struct conn *k;

	SERVER_EACH(k, &d->server) {
		if (!k->retired)
			continue;
		if (mono_before(k->retired_at, late))
			chan_close(k->conn.chan, TV_ETIMEOUT);
		else if (mono_before(k->retired_at, heard) && k->pending.count == 0 && chan_pending(k->conn.chan) == 0)
			chan_close(k->conn.chan, TV_OK);
	}
	if (d->stats.retiring == 0)
		ev_timer_stop(loop, w);
}

static void
conn_retire(struct conn *k)
{
	struct link_server *d = k->d;

	k->retired = true;
	k->retired_at = clock_mono();
	d->stats.retired++;
	d->stats.retiring++;
	log_debug("rpc", "the key of the link from %s has left the ring: it closes when %u requests have ended",
	    chan_peer(k->conn.chan), (unsigned)k->pending.count);
	if (!k->conn.greeted) {
		chan_close(k->conn.chan, TV_EAUTH);
		return;
	}
	(void)chan_send(k->conn.chan, MSG_LINK_RETIRED, FRAME_REPLY, 0, MSG_EMPTY);	/* closed: on_close follows */
	if (!ev_is_active(&d->retired_look))
		ev_timer_again(d->conf.loop, &d->retired_look);
}

void
link_server_rekeyed(struct link_server *d)
{
	struct conn *k;

	SERVER_EACH(k, &d->server)
		if (!k->retired && !chan_key_stands(k->conn.chan))
			conn_retire(k);
}

struct link_server *
link_server_new(const struct link_server_conf *conf)
{
	static const struct server_row rows[] = {
		{ MSG_OP, on_op, true },
		{ MSG_OP_FINAL, on_op, true },
		{ MSG_OP_DC, on_op, true },
		{ 0, NULL, false }
	};
	struct link_server *d = calloc(1, sizeof(*d));

	if (d == NULL)
		return NULL;
	d->conf = *conf;
	ev_timer_init(&d->retired_look, on_retired_look, RETIRED_LOOK_S, RETIRED_LOOK_S);
	d->retired_look.data = d;
	d->asked = (struct log_limit){ .burst = 100, .period = MONO_S(60) };
	d->server = (struct server){
	    .chan = { .loop = conf->loop, .name = "link", .body_max = conf->request_max, .out_max = conf->out_max,
	        .noise = conf->noise, .accept_clear = conf->accept_clear, .open_timeout = conf->open_timeout,
	        .first_timeout = FIRST_BYTES, .secret = true },
	    .conn_bytes = sizeof(struct conn), .rows = rows,
	    .places = { UNPROVEN_MAX, UNPROVEN_KNOWN_MAX, UNPROVEN_SOURCE_MAX },
	    .is_known = conf->is_known != NULL ? is_known : NULL,
	    .hello_timeout = conf->open_timeout, .on_accept = on_accept, .on_hello = on_hello,
	    .on_cancel = on_cancel, .on_close = on_close, .ctx = d };
	if (server_start(&d->server, conf->fd, conf->conns_max))
		return d;
	link_server_free(d);
	return NULL;
}

void
link_server_quiesce(struct link_server *d)
{
	d->quiet = true;
}

void
link_server_free(struct link_server *d)
{
	if (d == NULL)
		return;
	ev_timer_stop(d->conf.loop, &d->retired_look);
	server_stop(&d->server);
	free(d);
}

void
link_server_stats(const struct link_server *d, struct link_server_stats *out)
{
	const struct server *s = &d->server;

	*out = d->stats;
	out->open = s->open;
	out->accepted = s->strangers.came;
	out->malformed = s->malformed;
	out->silent = s->silent;
	out->refused = s->refused;
	out->unproven = s->strangers.count;
	out->evicted = s->strangers.evicted;
}
