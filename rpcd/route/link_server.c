/* The answering side of node-to-node links, see link_server.h. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/greet.h"
#include "common/net/msg.h"
#include "common/net/source.h"
#include "common/record/mpack.h"
#include "rpcd/route/link_server.h"

#define PENDING_BUCKETS 64
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
	struct pending *next;		/* bucket */
	uint64_t id;			/* the asker's */
	uint16_t type;
	struct route_call *call;
};

struct conn {
	struct stranger stranger;	/* first: see on_evict() */
	struct link_server *d;
	struct conn *next;
	struct chan *chan;
	bool greeted;
	ev_timer hello;			/* until greeted: who opens a link has to say who it is */
	bool retired;			/* its key has left the ring, */
	struct mono retired_at;		/* then */
	unsigned pending_count;
	struct pending *pending[PENDING_BUCKETS];
};

struct link_server {
	struct link_server_conf conf;
	struct listener *listener;
	struct conn *conns;
	struct link_server_stats stats;
	struct log_limit asked;
	ev_timer retired_look;		/* runs while some are retired */
	bool quiet;			/* stopping: nothing new is taken */
};

static struct pending **
pending_at(struct conn *k, uint64_t id)
{
	struct pending **at = &k->pending[keyed_hash(&id, sizeof(id)) % PENDING_BUCKETS];

	while (*at != NULL && (*at)->id != id)
		at = &(*at)->next;
	return at;
}

static void
pending_drop(struct conn *k, struct pending **at)
{
	struct pending *p = *at;

	*at = p->next;
	k->pending_count--;
	free(p);
}

static void
answer(struct chan *c, uint16_t type, uint64_t id, const struct op_reply *reply)
{
	struct buf *b = id == 0 ? NULL : chan_begin(c, type, FRAME_REPLY, id);

	if (b == NULL)
		return;
	op_reply_write(b, reply);
	chan_end(c);
}

static void
refuse(struct conn *k, const struct frame *f, enum tv_err err, const char *text)
{
	answer(k->chan, f->type, f->id, &(struct op_reply){ .err = err, .text = span_str(text) });
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

	answer(k->chan, p->type, p->id, reply);
	pending_drop(k, pending_at(k, p->id));
}

/* Another node passes on what changes the cluster.  Its own log says who asked there. */
static void
log_asker(struct conn *k, struct span body)
{
	struct rd r = rd_span_over(body);
	const struct op *op;

	(void)mpr_array(&r);
	op = op_find((uint16_t)mpr_uint(&r, UINT16_MAX));
	if (op != NULL && op->traits & OP_LOGGED && log_allow(&k->d->asked, "rpc"))
		log_info("rpc", "%s requested by the rpcd at %s", op->name, chan_peer(k->chan));
}

static enum tv_err
on_op(struct conn *k, const struct frame *f, enum route_origin origin)
{
	static const char busy[] = "too many requests under way on this server";
	struct pending **at = pending_at(k, f->id), *p;
	enum tv_err err;

	if (f->flags & FRAME_CANCEL) {
		if (*at != NULL) {
			route_cancel((*at)->call);
			pending_drop(k, at);
		}
		return TV_OK;
	}
	if (f->id == 0 || *at != NULL)
		return TV_EFORMAT;
	k->d->stats.requests++;
	log_asker(k, f->body);
	if (k->d->quiet) {
		refuse(k, f, TV_ENOLEADER, "this server is stopping");
		return TV_OK;
	}
	p = k->pending_count >= k->d->conf.pending_max ? NULL : calloc(1, sizeof(*p));
	if (p == NULL) {
		refuse(k, f, TV_EAGAIN, busy);
		return TV_OK;
	}
	*p = (struct pending){ .conn = k, .id = f->id, .type = f->type };
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
	*at = p;
	k->pending_count++;
	return TV_OK;
}

static enum tv_err
on_hello(struct conn *k, const struct frame *f)
{
	enum tv_err err = greet_check(k->chan, f);

	if (err != TV_OK)
		return err;
	if (!listener_proven(k->d->listener, &k->stranger))
		return TV_ECLOSED;
	k->greeted = true;
	ev_timer_stop(k->d->conf.loop, &k->hello);
	greet_send(k->chan, "rpcd", k->d->conf.node_id);
	return TV_OK;
}

static enum tv_err
on_frame(void *ctx, struct chan *c, const struct frame *f)
{
	struct conn *k = ctx;
	enum tv_err err;

	(void)c;
	if (!k->greeted)
		err = on_hello(k, f);
	else if (f->flags & FRAME_REPLY)
		err = TV_EFORMAT;
	else if (f->type == MSG_OP)
		err = on_op(k, f, ROUTE_PEER);
	else if (f->type == MSG_OP_FINAL)
		err = on_op(k, f, ROUTE_FINAL);
	else if (f->type == MSG_OP_DC)
		err = on_op(k, f, ROUTE_DC);
	else
		err = TV_EFORMAT;
	if (err != TV_OK)
		k->d->stats.malformed++;
	return err;
}

static void
conn_free(struct conn *k)
{
	struct conn **at = &k->d->conns;

	for (unsigned i = 0; i < PENDING_BUCKETS; i++)
		while (k->pending[i] != NULL) {
			route_cancel(k->pending[i]->call);
			pending_drop(k, &k->pending[i]);
		}
	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	ev_timer_stop(k->d->conf.loop, &k->hello);
	k->d->stats.open--;
	k->d->stats.retiring -= k->retired;
	free(k);
}

static void
on_silent(struct ev_loop *loop, ev_timer *w, int events)
{
	struct conn *k = w->data;

	(void)loop;
	(void)events;
	chan_close(k->chan, TV_ETIMEOUT);
}

static void
on_open(void *ctx, struct chan *c)
{
	struct conn *k = ctx;

	(void)c;
	ev_timer_start(k->d->conf.loop, &k->hello);
}

static void
on_close(void *ctx, struct chan *c, enum tv_err why)
{
	struct conn *k = ctx;
	struct link_server *d = k->d;

	(void)c;
	d->stats.silent += why == TV_ETIMEOUT && !k->greeted;
	listener_gone(d->listener, &k->stranger);
	conn_free(k);
}

static void
on_evict(void *ctx, struct stranger *s)
{
	struct conn *k = (struct conn *)s;

	(void)ctx;
	chan_close(k->chan, TV_ELIMIT);
}

static bool
is_known(void *ctx, uint64_t source)
{
	const struct link_server *d = ctx;

	return d->conf.is_known(d->conf.ctx, source);
}

static const struct chan_events conn_events = { on_frame, on_open, on_close };

static void
on_accept(void *ctx, int fd)
{
	struct link_server *d = ctx;
	struct conn *k = calloc(1, sizeof(*k));
	struct chan_conf conf = {
		.loop = d->conf.loop, .events = &conn_events, .ctx = k, .name = "link",
		.body_max = d->conf.request_max, .out_max = d->conf.out_max,
		.noise = d->conf.noise, .accept_clear = d->conf.accept_clear, .open_timeout = d->conf.open_timeout,
		.first_timeout = FIRST_BYTES, .secret = true,
	};

	if (k == NULL) {
		close(fd);
		return;
	}
	k->d = d;
	ev_timer_init(&k->hello, on_silent, (double)d->conf.open_timeout.ns / 1e9, 0.);
	k->hello.data = k;
	k->chan = chan_new(fd, &conf);
	if (k->chan == NULL) {
		free(k);
		return;
	}
	k->next = d->conns;
	d->conns = k;
	d->stats.open++;
	d->stats.accepted++;
	listener_stranger(d->listener, &k->stranger, fd);
}

/* -- keys that leave the ring -- */

static void
on_retired_look(struct ev_loop *loop, ev_timer *w, int events)
{
	struct link_server *d = w->data;
	struct mono now = clock_mono(), heard = mono_sub(now, RETIRED_HEARD),
	    late = mono_sub(now, d->conf.retire_time);

	(void)events;
	for (struct conn *k = d->conns; k != NULL; k = k->next) {
		if (!k->retired)
			continue;
		if (mono_before(k->retired_at, late))
			chan_close(k->chan, TV_ETIMEOUT);
		else if (mono_before(k->retired_at, heard) && k->pending_count == 0 && chan_pending(k->chan) == 0)
			chan_close(k->chan, TV_OK);
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
	    chan_peer(k->chan), k->pending_count);
	if (!k->greeted) {
		chan_close(k->chan, TV_EAUTH);
		return;
	}
	(void)chan_send(k->chan, MSG_LINK_RETIRED, FRAME_REPLY, 0, MSG_EMPTY);	/* closed: on_close follows */
	if (!ev_is_active(&d->retired_look))
		ev_timer_again(d->conf.loop, &d->retired_look);
}

void
link_server_rekeyed(struct link_server *d)
{
	for (struct conn *k = d->conns; k != NULL; k = k->next)
		if (!k->retired && !chan_key_stands(k->chan))
			conn_retire(k);
}

struct link_server *
link_server_new(const struct link_server_conf *conf)
{
	struct link_server *d = calloc(1, sizeof(*d));

	if (d == NULL)
		return NULL;
	d->conf = *conf;
	ev_timer_init(&d->retired_look, on_retired_look, RETIRED_LOOK_S, RETIRED_LOOK_S);
	d->retired_look.data = d;
	d->asked = (struct log_limit){ .burst = 100, .period = MONO_S(60) };
	d->listener = listener_new(conf->loop, conf->fd, conf->conns_max, on_accept, d);
	if (d->listener == NULL) {
		free(d);
		return NULL;
	}
	listener_set_guard(d->listener, &(struct listener_guard){
	    .places = { UNPROVEN_MAX, UNPROVEN_KNOWN_MAX, UNPROVEN_SOURCE_MAX },
	    .is_known = conf->is_known != NULL ? is_known : NULL, .evict = on_evict });
	return d;
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
	while (d->conns != NULL) {
		chan_free(d->conns->chan);
		conn_free(d->conns);
	}
	ev_timer_stop(d->conf.loop, &d->retired_look);
	listener_free(d->listener);
	free(d);
}

void
link_server_stats(const struct link_server *d, struct link_server_stats *out)
{
	struct listener_stats st;

	listener_stats(d->listener, &st);
	*out = d->stats;
	out->refused = st.refused;
	out->unproven = st.unproven;
	out->evicted = st.evicted;
}
