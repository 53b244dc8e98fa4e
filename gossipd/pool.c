/* One pool; see pool.h. */
#include "config.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/source.h"
#include "gossipd/pool.h"

#define QUERY_BYTES_MAX (4u << 20)	/* heard with one message: one of at most 64 KiB, as a rule */

#define SNAPSHOT_PATIENCE 10		/* a failed write is tried again after so many times the usual interval */

struct pool {
	struct pool_conf conf;
	struct swim *core;
	struct envelope envelope;
	struct udp *udp;
	struct streams *streams;
	struct snapshot *snapshot;	/* NULL: none */
	ev_timer tick, flush;
	struct mono armed;		/* when `tick` fires */
	struct log_limits limits;
	struct pool_refusal refused;	/* the last exchange that we began, and either side refused */
};

/* -- output ----------------------------------------------------------------------- */

static void
arm(struct pool *p, struct mono deadline)
{
	struct mono wait;

	if (ev_is_active(&p->tick) && deadline.ns == p->armed.ns)
		return;
	ev_timer_stop(p->conf.loop, &p->tick);
	p->armed = deadline;
	if (deadline.ns == MONO_NEVER.ns)
		return;
	wait = mono_sub(deadline, clock_mono());
	ev_timer_set(&p->tick, wait.ns > 0 ? mono_seconds(wait) : 0., 0.);
	ev_timer_start(p->conf.loop, &p->tick);
}

/* A member forgotten while no other is there stays in the file: asked again, it may lead back to the pool. */
static bool
keeps(const struct pool *p, const struct swim_event *ev)
{
	struct swim_stats stats;

	swim_stats(p->core, &stats);
	return ev->member.status == MEMBER_FAILED && stats.alive <= 1;
}

static void
remember(struct pool *p, const struct swim_event *ev)
{
	if (p->snapshot == NULL || (ev->type == GOSSIP_EV_REAP && keeps(p, ev)))
		return;
	if (ev->type == GOSSIP_EV_REAP)
		snapshot_gone(p->snapshot, ev->member.name);
	else
		snapshot_member(p->snapshot, &ev->member, clock_wall_ns() / 1000000000);
}

/* After each output: clocks move without events of members, too. */
static void
remember_clocks(struct pool *p)
{
	struct swim_clocks clocks;

	if (p->snapshot == NULL)
		return;
	swim_clocks(p->core, &clocks);
	snapshot_clocks(p->snapshot, &clocks);
	if (snapshot_dirty(p->snapshot) && !ev_is_active(&p->flush))
		ev_timer_again(p->conf.loop, &p->flush);
}

static void
take_notice(struct pool *p, const struct swim_notice *n)
{
	log_notice(&p->limits, n);
	if (n->type != SWIM_NOTICE_REFUSED || n->number == 0)
		return;
	p->refused.at = clock_mono();
	p->refused.from = n->addr;
	(void)log_refusal(n, p->refused.why, sizeof(p->refused.why));
}

static void
carry_out(struct pool *p, const struct swim_output *out)
{
	for (size_t i = 0; i < out->send_count; i++)
		udp_send(p->udp, &out->sends[i]);
	for (size_t i = 0; i < out->stream_count; i++)
		streams_dial(p->streams, &out->streams[i]);
	for (size_t i = 0; i < out->notice_count; i++)
		take_notice(p, &out->notices[i]);
	for (size_t i = 0; i < out->event_count; i++) {
		log_event(&out->events[i]);
		remember(p, &out->events[i]);
		p->conf.on_event(p->conf.ctx, p, &out->events[i]);
	}
	for (size_t i = 0; i < out->user_event_count; i++)
		p->conf.on_user_event(p->conf.ctx, p, &out->user_events[i]);
	for (size_t i = 0; i < out->response_count; i++)
		p->conf.on_response(p->conf.ctx, p, &out->responses[i]);
	for (size_t i = 0; i < out->join_count; i++)
		p->conf.on_join(p->conf.ctx, p, &out->joins[i]);
	remember_clocks(p);
	arm(p, out->deadline);
	if (out->left)
		p->conf.on_left(p->conf.ctx, p);
	if (out->conflict_lost)
		p->conf.on_conflict_lost(p->conf.ctx, p, out->conflict_name, out->conflict_copy);
}

/* Answering feeds the core, and what it lent is gone: so the queries are copied first. */
static void
hear_queries(struct pool *p, const struct swim_output *out)
{
	size_t count = out->query_count;
	struct arena a = ARENA_INIT(QUERY_BYTES_MAX);
	struct swim_query *copies = arena_array(&a, count, sizeof(*copies));

	for (size_t i = 0; copies != NULL && i < count; i++) {
		copies[i] = out->queries[i];
		copies[i].name = arena_copy(&a, out->queries[i].name);
		copies[i].payload = arena_copy(&a, out->queries[i].payload);
		copies[i].from = arena_copy(&a, out->queries[i].from);
	}
	for (size_t i = 0; copies != NULL && i < count; i++)
		p->conf.on_query(p->conf.ctx, p, &copies[i]);
	arena_wipe(&a);			/* keys may be among them */
	arena_done(&a);
}

/* in->now is set. */
static enum tv_err
feed_at(struct pool *p, const struct swim_input *in, struct span *answer)
{
	const struct swim_output *out;
	enum tv_err err = swim_feed(p->core, in, &out);

	carry_out(p, out);
	if (answer != NULL)
		*answer = out->answer;
	if (out->query_count > 0) {
		TV_ASSERT(out->answer.len == 0);	/* what brings queries has no answer */
		hear_queries(p, out);
	}
	return err;
}

static enum tv_err
feed(struct pool *p, struct swim_input *in, struct span *answer)
{
	in->now = clock_mono();
	return feed_at(p, in, answer);
}

/* From outside of the reading of datagrams: what is to be sent leaves now. */
static enum tv_err
feed_now(struct pool *p, struct swim_input *in)
{
	enum tv_err err = feed(p, in, NULL);

	udp_flush(p->udp);
	return err;
}

/* -- input ------------------------------------------------------------------------ */

static void
on_message(void *ctx, const struct addr *from, struct mono at, enum wire_type type, struct span body)
{
	struct swim_input in = { .type = SWIM_IN_MESSAGE, .now = at, .from = *from, .kind = type, .bytes = body };

	(void)feed_at(ctx, &in, NULL);	/* counted by the core */
}

static void
on_batch(void *ctx)
{
	struct pool *p = ctx;

	udp_flush(p->udp);
}

/* Only others prove a key.  Datagrams cannot be our own: no node probes itself, though it may dial itself. */
static void
on_opened(void *ctx, const struct addr *from, unsigned key)
{
	struct pool *p = ctx;

	if (!addr_eq(from, &p->conf.self))
		p->conf.on_opened(p->conf.ctx, from, key);
}

static void
on_unreadable(void *ctx, const struct addr *from)
{
	struct pool *p = ctx;

	p->conf.on_unreadable(p->conf.ctx, p, from, false);
}

static void
on_unreadable_stream(void *ctx, const struct addr *peer, bool dialled)
{
	struct pool *p = ctx;

	p->conf.on_unreadable(p->conf.ctx, p, peer, dialled);
}

bool
pool_has_member_at(const struct pool *p, const struct addr *addr)
{
	struct swim_member m;
	uint32_t cursor = 0;

	if (addr_eq(addr, &p->conf.self))
		return false;
	while (swim_member_next(p->core, &cursor, &m))
		if (m.status != MEMBER_LEFT && addr_eq(&m.addr, addr))
			return true;
	return false;
}

static const struct udp_events udp_events = {
	.on_message = on_message, .on_batch = on_batch, .on_opened = on_opened, .on_unreadable = on_unreadable,
};

/* While strangers crowd the port, members and those of retry_join keep places of their own. */
static bool
is_known(void *ctx, uint64_t source)
{
	struct pool *p = ctx;
	struct swim_member m;
	uint32_t cursor = 0;

	while (swim_member_next(p->core, &cursor, &m))
		if (source_of_ip(&m.addr) == source)
			return true;
	return p->conf.is_configured(p->conf.ctx, p, source);
}

static struct span
on_request(void *ctx, const struct addr *from, const struct stream_message *m)
{
	struct pool *p = ctx;
	struct swim_input in = { .type = SWIM_IN_REQUEST, .from = *from, .message = m };
	struct span answer;

	(void)feed(p, &in, &answer);	/* counted by the core */
	udp_flush(p->udp);
	return answer;
}

static void
on_end(void *ctx, uint64_t id, const struct stream_message *m, enum tv_err why)
{
	struct swim_input in = { .type = m != NULL ? SWIM_IN_ANSWER : SWIM_IN_FAILED, .stream = id, .message = m,
		.error = why };

	(void)feed_now(ctx, &in);
}

static void
on_tick(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct swim_input in = { .type = SWIM_IN_TICK };

	(void)feed_now(w->data, &in);
}

/* A disk that failed is tried again, less often. */
static void
on_flush(struct ev_loop *loop, ev_timer *w, int revents UNUSED)
{
	struct pool *p = w->data;
	double interval = mono_seconds(p->conf.opts->snapshot_interval);

	ev_timer_stop(loop, w);
	w->repeat = interval;
	if (snapshot_flush(p->snapshot, p->core))
		return;
	w->repeat = interval * SNAPSHOT_PATIENCE;
	ev_timer_again(loop, w);
}

/* -- life -------------------------------------------------------------------------- */

static struct swim *
core_new(const struct pool *p, const struct snapshot_found *found)
{
	const struct gossip_conf *o = p->conf.opts;
	struct buf meta = BUF_INIT(TAGSET_META_ROOM);
	struct swim_options opt = { .name = p->conf.name, .self = p->conf.self, .dc = p->conf.dc,
		.timing = gossip_conf_timing(o, p->conf.kind), .members_max = (uint32_t)o->members_max,
		.intents_max = (uint32_t)o->intents_max, .queue_max = (uint32_t)o->queue_max,
		.relays_max = (uint32_t)o->relays_max, .packet_bytes = o->packet_bytes,
		.seal_bytes = packet_overhead(&p->envelope), .tcp_pings = o->tcp_pings,
		.coordinates = o->coordinates, .clocks = found->clocks };
	struct swim *core = NULL;

	randombytes_buf(&opt.seed, sizeof(opt.seed));
	if (tagset_meta(p->conf.tags, &meta) == TV_OK) {
		opt.meta = buf_span(&meta);
		core = swim_new(&opt, clock_mono());
	}
	buf_done(&meta);
	return core;
}

static bool
open_sockets(struct pool *p)
{
	const struct gossip_conf *o = p->conf.opts;
	struct streams_conf sc = { .loop = p->conf.loop, .fd = p->conf.tcp_fd, .envelope = &p->envelope,
		.limits = STREAM_LIMITS_DEFAULT, .timeout = gossip_conf_timing(o, p->conf.kind).stream_timeout,
		.accept_max = (unsigned)o->streams_max, .per_source_max = (unsigned)o->streams_per_source,
		.bytes_max = o->stream_memory,
		.ctx = p, .on_request = on_request, .on_end = on_end, .on_unreadable = on_unreadable_stream,
		.is_known = is_known };

	sc.limits.frame = sc.limits.user_state = sc.limits.user_message = (uint32_t)o->stream_bytes_max;
	sc.limits.flat = sc.limits.frame * 2;
	sc.limits.nodes = (uint32_t)o->members_max;
	p->udp = udp_new(p->conf.loop, p->conf.udp_fd, &p->envelope, &udp_events, p);
	p->streams = streams_new(&sc);
	return p->udp != NULL && p->streams != NULL;
}

static void
open_snapshot(struct pool *p, struct snapshot_found *found)
{
	const char *path = p->conf.snapshot_path;

	*found = (struct snapshot_found){ 0 };
	if (path == NULL)
		return;
	p->snapshot = snapshot_open(path, p->conf.name, p->conf.opts->members_max, found);
	if (p->snapshot == NULL)
		log_warn("serf", "%s: %s; members will be lost at a restart: repair or remove the file, then restart "
		    "gossipd", path, strerror(errno));
}

/*
 * Members from before the restart: shown as failed or left for the rest of their time, unless a member says
 * otherwise.  Without this a restart would make failed members vanish, and the catalog with them.
 */
static void
restore(struct pool *p, const struct snapshot_found *found)
{
	int64_t wall = clock_wall_ns() / 1000000000;

	for (size_t i = 0; i < found->count; i++) {
		struct swim_restore r = found->members[i].restore;
		struct swim_input in = { .type = SWIM_IN_RESTORE, .restore = &r };
		int64_t age = found->members[i].was_alive ? 0 : wall - found->members[i].since;

		r.age = MONO_S(age > 0 ? age : 0);	/* the clock may have been set back */
		(void)feed(p, &in, NULL);		/* one that does not fit is told by others again */
	}
}

struct pool *
pool_new(const struct pool_conf *conf, struct snapshot_found *found)
{
	struct pool *p = calloc(1, sizeof(*p));
	struct swim_input first = { .type = SWIM_IN_TICK };
	struct swim_member self;

	if (p == NULL)
		return NULL;
	p->conf = *conf;
	p->envelope = (struct envelope){ .ring = conf->ring, .version = 1, .compress = conf->opts->compress,
		.accept_plain = conf->accept_plain, .send_plain = conf->send_plain };
	p->limits = LOG_LIMITS_INIT;
	ev_init(&p->tick, on_tick);
	ev_timer_init(&p->flush, on_flush, 0., mono_seconds(conf->opts->snapshot_interval));
	p->tick.data = p->flush.data = p;
	open_snapshot(p, found);
	p->core = core_new(p, found);
	if (!open_sockets(p) || p->core == NULL) {
		log_err("serf", "cannot open the %s pool: no memory, or tags above %d bytes",
		    conf->kind == POOL_LAN ? "LAN" : "WAN", NODE_META_BYTES_MAX);
		pool_free(p);
		return NULL;
	}
	if (swim_member_find(p->core, conf->name, &self)) {
		struct swim_event ev = { .type = GOSSIP_EV_JOIN, .member = self };

		log_event(&ev);
		remember(p, &ev);
	}
	restore(p, found);
	(void)feed_now(p, &first);
	return p;
}

void
pool_free(struct pool *p)
{
	if (p == NULL)
		return;
	ev_timer_stop(p->conf.loop, &p->tick);
	ev_timer_stop(p->conf.loop, &p->flush);
	streams_free(p->streams);
	udp_free(p->udp);
	snapshot_close(p->snapshot, p->core);
	swim_free(p->core);
	free(p);
}

/* -- orders -------------------------------------------------------------------------- */

enum gossip_pool
pool_kind(const struct pool *p)
{
	return p->conf.kind;
}

const struct swim *
pool_core(const struct pool *p)
{
	return p->core;
}

enum tv_err
pool_join(struct pool *p, uint64_t token, const struct addr *addrs, unsigned count, bool quiet)
{
	struct swim_input in = { .type = SWIM_IN_JOIN, .token = token, .addrs = addrs, .addr_count = count,
		.quiet = quiet };

	return feed_now(p, &in);
}

/* Remembered at once: a node stopped while leaving has left. */
enum tv_err
pool_leave(struct pool *p)
{
	struct swim_input in = { .type = SWIM_IN_LEAVE };

	if (p->snapshot != NULL) {
		snapshot_leave(p->snapshot);
		(void)snapshot_flush(p->snapshot, NULL);	/* tried again, if it failed, while we leave */
	}
	return feed_now(p, &in);
}

enum tv_err
pool_force_leave(struct pool *p, struct span name, bool prune)
{
	struct swim_input in = { .type = SWIM_IN_FORCE_LEAVE, .name = name, .prune = prune };

	return feed_now(p, &in);
}

enum tv_err
pool_set_tags(struct pool *p, const struct tagset *tags)
{
	struct buf meta = BUF_INIT(TAGSET_META_ROOM);
	struct swim_input in = { .type = SWIM_IN_META };
	enum tv_err err = tagset_meta(tags, &meta);

	if (err == TV_OK) {
		in.bytes = buf_span(&meta);
		err = feed_now(p, &in);
	}
	buf_done(&meta);
	return err;
}

enum tv_err
pool_fire(struct pool *p, struct span name, struct span payload, bool coalesce, uint64_t *ltime)
{
	struct swim_input in = { .type = SWIM_IN_FIRE, .name = name, .bytes = payload, .coalesce = coalesce };
	struct swim_stats stats;

	swim_stats(p->core, &stats);
	*ltime = stats.event_clock;
	return feed_now(p, &in);
}

enum tv_err
pool_query(struct pool *p, const struct swim_ask *ask)
{
	struct swim_input in = { .type = SWIM_IN_QUERY, .ask = ask };

	return feed_now(p, &in);
}

enum tv_err
pool_respond(struct pool *p, uint64_t ltime, uint32_t id, struct span payload)
{
	struct swim_input in = { .type = SWIM_IN_RESPOND, .ltime = ltime, .query_id = id, .bytes = payload };

	return feed_now(p, &in);
}

uint64_t
pool_snapshot_errors(const struct pool *p)
{
	return p->snapshot != NULL ? snapshot_errors(p->snapshot) : 0;
}

const struct pool_refusal *
pool_refused(const struct pool *p)
{
	return &p->refused;
}

bool
pool_encrypted(const struct pool *p)
{
	return envelope_seals(&p->envelope);
}

void
pool_udp_stats(const struct pool *p, struct udp_stats *out)
{
	udp_stats(p->udp, out);
}

int
pool_dial_error(const struct pool *p, const struct addr *to)
{
	return streams_error(p->streams, to);
}

void
pool_streams_stats(const struct pool *p, struct streams_stats *out)
{
	streams_stats(p->streams, out);
}
