/* Links between servers: which there are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/net/msg.h"
#include "raftd/engine/engine.h"
#include "raftd/peers/clock_offset.h"
#include "raftd/peers/gossip.h"
#include "raftd/peers/links_int.h"
#include "raftd/peers/server_addr.h"
#include "raftd/peers/state_version.h"

#define OUT_MAX (64u << 20)
#define SWEEP 0.5			/* seconds */
#define FIRST_BYTES MONO_S(2)		/* of servers that dial us */

struct chan_conf
links_chan_conf(struct links *l, const struct chan_events *events, void *ctx, const char *name)
{
	return (struct chan_conf){
		.loop = l->d->loop, .events = events, .ctx = ctx, .name = name,
		.body_max = FRAME_BODY_BYTES_MAX, .out_max = OUT_MAX,
		.noise = l->d->keys.raft != NULL ? &l->noise : NULL, .accept_clear = cluster_takes_clear(&l->d->cluster),
		.open_timeout = l->d->conf.hello_timeout, .first_timeout = FIRST_BYTES,
	};
}

void
links_hello(struct links *l, struct buf *b, raft_id to)
{
	struct disk_mark mark = engine_mark(l->d->engine), seen = disk_marks_of(&l->marks, to);

	hello_write(b, &l->d->id, l->d->cluster.datacenter, l->d->cluster.raft_port, &mark, &seen,
	    (uint64_t)(clock_wall_ns() / 1000000));
}

/* Only servers of the configuration have promised anything, and they alone are believed. */
void
links_heed_marks(struct links *l, const struct hello *h)
{
	const struct raft_config *c = engine_config(l->d->engine);
	raft_id id = raft_id_of(h->uuid, h->store_id);

	disk_marks_heard(&l->marks, c, id, &h->mark);
	if (raft_config_find(c, id) != NULL)
		engine_heed_mark(l->d->engine, &h->seen);
}

void
links_say_hello(struct links *l, struct chan *c, uint16_t flags, uint64_t id, raft_id to)
{
	struct buf *b = chan_begin(c, MSG_RAFT_HELLO, flags, id);

	if (b == NULL)
		return;
	links_hello(l, b, to);
	(void)chan_end(c);
}

struct dialled *
links_dialled(struct links *l, const char *uuid)
{
	for (unsigned i = 0; i < l->count; i++)
		if (strcmp(l->peers[i]->pub.uuid, uuid) == 0)
			return l->peers[i];
	return NULL;
}

/* -- the set of peers -- */

static void
want_gossip(void *ctx, const struct gossip_server *s)
{
	/* A server that left is dialled only while the configuration still has it. */
	if (s->status != MEMBER_LEFT && !server_addr_is_copy(((struct links *)ctx)->d, s->uuid, s->addr))
		(void)peer_want(ctx, s->uuid, s->name, s->addr);
}

/*
 * From the loop only: the caller may be a callback of a peer that goes here.
 */
static void
on_sync(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct links *l = w->data;
	const struct raft_config *conf = engine_config(l->d->engine);

	for (unsigned i = 0; i < l->count; i++)
		l->peers[i]->wanted = false;
	/* Gossip knows the newest address; the configuration knows servers that gossip has not met yet. */
	gossip_each_server(l->d->gossip, want_gossip, l);
	for (unsigned i = 0; i < conf->count; i++) {
		struct dialled *p = links_dialled(l, conf->servers[i].uuid);

		if (p == NULL || !p->wanted)
			(void)peer_want(l, conf->servers[i].uuid, conf->servers[i].name, conf->servers[i].addr);
	}
	for (unsigned i = 0; i < l->count; ) {
		struct dialled *p = l->peers[i];

		if (p->wanted || callers_have(l, p->pub.uuid)) {
			i++;
			continue;
		}
		l->peers[i] = l->peers[--l->count];
		peer_free(p);
	}
}

void
links_sync(struct links *l)
{
	if (l->closed || ev_is_active(&l->sync))
		return;
	ev_timer_set(&l->sync, 0.0, 0.0);
	ev_timer_start(l->d->loop, &l->sync);
}

void
links_identity_changed(struct links *l)
{
	char why[512];

	callers_judge(l);
	for (unsigned i = 0; i < l->count; i++) {
		struct dialled *p = l->peers[i];

		if (p->chan == NULL)
			continue;
		/* In order before whatever we send from now on. */
		links_say_hello(l, p->chan, 0, 0, p->pub.id);
		if (p->pub.hello.uuid[0] != '\0') {
			enum hello_verdict v = state_version_check(l->d, &p->pub.hello, why, sizeof(why));

			peer_set_state(p, v == HELLO_OK, v != HELLO_REFUSE);
		}
		peer_ping(p);
	}
}

void
links_close(struct links *l)
{
	l->closed = true;
	server_close(&l->server);
	for (unsigned i = 0; i < l->count; i++)
		peer_stop(l->peers[i]);
}

static void
clocks_info(struct links *l, figure_fn *add, void *ctx)
{
	struct buf b = BUF_INIT(PEERS_MAX * 300);
	int64_t ms[PEERS_MAX];
	unsigned n = 0;

	for (unsigned i = 0; i < l->count; i++) {
		const struct peer *p = &l->peers[i]->pub;

		if (!p->proven || !p->clock_known)
			continue;
		ms[n++] = p->clock_ms;
		buf_printf(&b, "%s%s %+.3f s", b.len > 0 ? ", " : "", p->name, (double)p->clock_ms / 1000);
	}
	if (n > 0) {
		figure_put(add, ctx, "clock_offset_ms", (uint64_t)clock_offset_of_most(ms, n));
		add(ctx, "clock_offsets", buf_cstr(&b));
	}
	buf_done(&b);
}

void
links_info(struct links *l, figure_fn *add, void *ctx)
{
	const struct server *s = &l->server;

	FIGURES_PUT(add, ctx,
	    { "links_accepted", s->proven }, { "links_unproven", s->strangers.count },
	    { "links_evicted", s->strangers.evicted }, { "links_refused", s->refused },
	    { "handshakes_postponed", chan_handshakes_postponed() });
	clocks_info(l, add, ctx);
}

const struct peer *
links_find(struct links *l, const char *uuid)
{
	struct dialled *p = links_dialled(l, uuid);

	return p == NULL ? NULL : &p->pub;
}

const struct peer *
links_find_id(struct links *l, raft_id id)
{
	for (unsigned i = 0; i < l->count; i++)
		if (l->peers[i]->pub.id == id)
			return &l->peers[i]->pub;
	return NULL;
}

unsigned
links_count(struct links *l)
{
	return l->count;
}

const struct peer *
links_at(struct links *l, unsigned i)
{
	return &l->peers[i]->pub;
}

/* Repeats the hello on links we dialled. */
static void
on_sweep(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct links *l = w->data;
	struct mono now = clock_mono(), every = { l->d->conf.hello_timeout.ns / 2 };

	for (unsigned i = 0; i < l->count; i++)
		if (mono_sub(now, l->peers[i]->pinged).ns > every.ns)
			peer_ping(l->peers[i]);
}

struct links *
links_new(struct raftd *d, const struct links_hooks *hooks)
{
	struct links *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	l->d = d;
	l->hooks = hooks;
	l->refused = (struct log_limit){ .burst = 5, .period = MONO_S(60) };
	l->noise = (struct noise_conf){ .pattern = NOISE_NNPSK0, .key_file = "server.key",
	    .psks = d->keys.raft, .psk_count = d->keys.count };
	if (callers_listen(l) != TV_OK) {
		free(l);
		return NULL;
	}
	ev_timer_init(&l->sweep, on_sweep, SWEEP, SWEEP);
	ev_timer_init(&l->sync, on_sync, 0.0, 0.0);
	l->sweep.data = l->sync.data = l;
	ev_timer_start(d->loop, &l->sweep);
	engine_on_status(d->engine, links_on_status);
	return l;
}

void
links_free(struct links *l)
{
	if (l == NULL)
		return;
	ev_timer_stop(l->d->loop, &l->sweep);
	ev_timer_stop(l->d->loop, &l->sync);
	l->closed = true;
	while (l->count > 0)
		peer_free(l->peers[--l->count]);
	server_stop(&l->server);
	free(l);
}
