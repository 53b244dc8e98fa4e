/* Members as gossipd reports them, see gossip_client.h. */
#include "common/base/log.h"
#include "common/net/gossip_client.h"
#include "common/net/msg.h"

#define FRAME_BYTES_MAX (4u << 20)	/* an info answer, the largest */
#define CALLS_MAX 64

/* -- members -- */

static void
member_gone(struct gossip_client *g, struct member_table *t, struct member_slot *s)
{
	uint8_t before = s->gone ? MEMBER_NONE : s->m->status;

	if (!g->keep_gone) {
		member_table_remove(t, s);
		s = NULL;
	} else {
		s->gone = s->dirty = true;
	}
	g->on_change(g->ctx, s, before);
}

static enum tv_err
on_member(struct gossip_client *g, struct span body)
{
	enum gossip_event event;
	enum gossip_pool pool;
	struct member_slot *s;
	struct member_table *t;
	struct member m;
	uint8_t before;
	enum tv_err err;

	arena_reset(&g->scratch);
	err = member_event_read(body, &g->scratch, &pool, &event, &m);
	if (err != TV_OK || (pool == POOL_WAN && !g->wan))
		return err;
	t = &g->pools[pool];
	s = member_table_find(t, m.name);
	before = s == NULL || s->gone ? MEMBER_NONE : s->m->status;
	if (event == GOSSIP_EV_REAP) {
		if (s != NULL)
			member_gone(g, t, s);
		return TV_OK;
	}
	s = member_table_put(t, &m, &err);
	if (s == NULL && err == TV_ELIMIT) {
		if (g->pools[POOL_LAN].refused + g->pools[POOL_WAN].refused == 1)
			log_warn(g->daemon.log_area, "more than %u members%s", g->members_max, g->when_full);
		return TV_OK;
	}
	if (s == NULL)
		return err;
	s->gone = false;
	s->dirty = true;
	g->on_change(g->ctx, s, before);
	return TV_OK;
}

/* The list is complete: what it did not have is not known any more. */
static enum tv_err
on_synced(struct gossip_client *g)
{
	g->synced = true;
	for (int pool = 0; pool < 2; pool++)
		member_table_sweep(&g->pools[pool]);
	g->on_change(g->ctx, NULL, MEMBER_NONE);
	return TV_OK;
}

/* -- the connection -- */

static enum tv_err
on_frame(void *ctx, struct chan *c, const struct frame *f)
{
	struct gossip_client *g = ctx;

	if (f->type == MSG_GOSSIP_MEMBER)
		return on_member(g, f->body);
	if (f->type == MSG_GOSSIP_SYNCED)
		return on_synced(g);
	return g->on_frame == NULL ? TV_EFORMAT : g->on_frame(g->ctx, c, f);
}

static void
on_up(void *ctx, struct chan *c, unsigned failures UNUSED)
{
	struct gossip_client *g = ctx;

	g->synced = false;
	g->pools[POOL_LAN].round++;
	g->pools[POOL_WAN].round++;
	if (g->on_up != NULL)
		g->on_up(g->ctx, c);
	(void)chan_send(c, MSG_GOSSIP_WATCH, 0, 0, MSG_EMPTY);	/* else on_down follows */
	if (g->events)
		(void)chan_send(c, MSG_GOSSIP_EVENTS, 0, 0, MSG_EMPTY);
}

static void
on_down(void *ctx, enum tv_err why, unsigned failures)
{
	struct gossip_client *g = ctx;

	if (g->on_down != NULL)
		g->on_down(g->ctx, why, failures);
	g->synced = false;
}

bool
gossip_client_start(struct gossip_client *g)
{
	struct daemon_client *d = &g->daemon;

	g->pools[POOL_LAN].max = g->pools[POOL_WAN].max = g->members_max;
	g->scratch = ARENA_INIT(1u << 20);
	d->daemon = "gossipd";
	d->chan.body_max = d->chan.out_max = FRAME_BYTES_MAX;
	d->chan.secret = true;
	d->pending_max = CALLS_MAX;
	d->on_up = on_up;
	d->on_frame = on_frame;
	d->on_down = on_down;
	d->ctx = g;
	return daemon_client_start(d);
}

void
gossip_client_stop(struct gossip_client *g)
{
	g->synced = false;
	daemon_client_stop(&g->daemon);
	for (int pool = 0; pool < 2; pool++)
		member_table_done(&g->pools[pool]);
	arena_done(&g->scratch);
}
