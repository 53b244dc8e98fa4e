/* Channels of rpcd: greeting, dispatch, life of requests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/net/greet.h"
#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/monitor.h"
#include "common/record/mpack.h"
#include "common/net/msg.h"
#include "raftd/serve/clients.h"
#include "raftd/engine/engine.h"
#include "raftd/serve/info.h"
#include "raftd/members/membership.h"
#include "raftd/members/recover.h"
#include "raftd/request/request.h"
#include "raftd/serve/rpcd_watch.h"

#define BUCKETS 1024			/* requests of one channel by id */
#define SPARES_MAX 1024
#define PAUSE_BYTES (16u << 20)		/* answers that wait: no further questions are read */
#define SCRATCH_KEEP (1u << 20)

TAILQ_HEAD(request_list, request);

struct client {
	struct clients *c;
	TAILQ_ENTRY(client) link;
	struct chan *chan;
	bool greeted, paused;
	bool rpcd;			/* says that it is one */
	bool knows_ping;		/* and of our build */
	struct monitor *monitor;	/* asked for log lines; or NULL */
	struct request_list requests, fired;
	struct request *buckets[BUCKETS];
};

struct clients {
	struct raftd *d;
	struct listener *listener;
	TAILQ_HEAD(client_list, client) all;	/* the next one to serve first */
	struct request *spares;
	unsigned spare_count, pending;
	uint64_t kept;			/* bytes of arguments outside the records */
	uint64_t refused;		/* beyond requests_max or requests_bytes_max */
	unsigned rpcds;			/* channels of rpcd */
	bool had_rpcd;
	bool status_due, freeing;
	struct arena arena;		/* scratch */
	struct buf buf;
	struct aheads aheads;
	struct log_limit refusals;
	struct logtap *tap;
};

static enum tv_err client_frame(void *ctx, struct chan *c, const struct frame *f);
static void client_open(void *ctx, struct chan *c);
static void client_close(void *ctx, struct chan *c, enum tv_err why);

static const struct chan_events client_events = { client_frame, client_open, client_close };

/* -- requests -- */

static struct request **
slot_of(struct client *cl, uint64_t id)
{
	struct request **at = &cl->buckets[(id ^ id >> 32) % BUCKETS];

	while (*at != NULL && (*at)->id != id)
		at = &(*at)->hash_next;
	return at;
}

static struct request *
request_new(struct client *cl, const struct frame *f)
{
	struct clients *c = cl->c;
	struct request *q = c->spares;

	if (q != NULL) {
		c->spares = q->hash_next;
		c->spare_count--;
		memset(q, 0, offsetof(struct request, bytes));
		memset((uint8_t *)q + offsetof(struct request, writing), 0,
		    sizeof(*q) - offsetof(struct request, writing));
	} else {
		q = calloc(1, sizeof(*q));
		if (q == NULL)
			return NULL;
	}
	q->d = c->d;
	q->client = cl;
	q->id = f->id;
	q->type = f->type;
	q->hash_next = cl->buckets[(f->id ^ f->id >> 32) % BUCKETS];
	cl->buckets[(f->id ^ f->id >> 32) % BUCKETS] = q;
	TAILQ_INSERT_TAIL(&cl->requests, q, link);
	c->pending++;
	return q;
}

/* Out of the channel's lists; the record stays. */
static void
detach(struct request *q)
{
	struct client *cl = q->client;
	struct request **at;

	if (cl == NULL)
		return;
	at = slot_of(cl, q->id);
	while (*at != q)		/* an asker may repeat an id */
		at = &(*at)->hash_next;
	*at = q->hash_next;
	TAILQ_REMOVE(&cl->requests, q, link);
	q->client = NULL;
}

static void
drop_args(struct clients *c, struct request *q)
{
	if (q->args.p == q->bytes)
		return;
	c->kept -= q->args.len;
	free((void *)(uintptr_t)q->args.p);
}

static void
request_free(struct clients *c, struct request *q)
{
	if (q->fired)
		TAILQ_REMOVE(&q->client->fired, q, fired_link);
	detach(q);
	aheads_drop(&c->aheads, q->ahead);
	drop_args(c, q);
	c->pending--;
	if (c->spare_count >= SPARES_MAX || c->freeing) {
		free(q);
		return;
	}
	q->hash_next = c->spares;
	c->spares = q;
	c->spare_count++;
}

static struct clients *
owner(struct request *q)
{
	return q->d->clients;
}

struct arena *
request_arena(struct request *q)
{
	arena_reset(&owner(q)->arena);
	return &owner(q)->arena;
}

struct buf *
request_buf(struct request *q)
{
	struct clients *c = owner(q);

	if (c->buf.cap > SCRATCH_KEEP)
		buf_done(&c->buf);
	else
		buf_reset(&c->buf);
	return &c->buf;
}

struct aheads *
request_aheads(struct request *q)
{
	return &owner(q)->aheads;
}

bool
request_may_block(struct request *q)
{
	return fsm_watch_count(q->d->fsm) < q->d->conf.watches_max;
}

static void
reply(struct request *q, const struct op_reply *a)
{
	struct clients *c = owner(q);
	struct buf *b = q->client == NULL ? NULL : chan_begin(q->client->chan, q->type, FRAME_REPLY, q->id);

	if (b != NULL) {
		op_reply_write(b, a);
		(void)chan_end(q->client->chan);
	}
	request_free(c, q);
}

void
request_reply(struct request *q, uint64_t index, struct span value)
{
	struct op_reply a = { .err = TV_OK, .index = index, .value = value };
	struct clients *c = owner(q);

	if (value.len > q->d->conf.answer_bytes_max) {
		request_failf(q, TV_ELIMIT, "the answer is larger than answer_bytes_max allows; ask for less");
		return;
	}
	a.known_leader = engine_leader_known(q->d->engine, &a.last_contact_ms);
	reply(q, &a);
	/* q may be gone now; a large answer must not stay until the next one. */
	if (c->buf.cap > SCRATCH_KEEP)
		buf_done(&c->buf);
}

void
request_fail(struct request *q, enum tv_err err, struct span text)
{
	struct op_reply a = { .err = err, .text = text.len > 0 ? text : span_str(tv_strerror(err)) };

	a.known_leader = engine_leader_known(q->d->engine, &a.last_contact_ms);
	reply(q, &a);
}

void
request_failf(struct request *q, enum tv_err err, const char *text)
{
	request_fail(q, err, span_str(text));
}

void
request_plain(struct request *q, enum tv_err err, const char *text)
{
	struct clients *c = owner(q);
	struct buf *b = q->client == NULL ? NULL : chan_begin(q->client->chan, q->type, FRAME_REPLY, q->id);

	if (b != NULL) {
		mpw_array(b, 2);
		mpw_uint(b, (uint64_t)-(int)err);
		mpw_cstr(b, text);
		(void)chan_end(q->client->chan);
	}
	request_free(c, q);
}

void
request_fire(struct request *q)
{
	if (q->fired)
		return;
	q->fired = true;
	TAILQ_INSERT_TAIL(&q->client->fired, q, fired_link);
}

static bool
congested(const struct client *cl)
{
	return chan_pending(cl->chan) > PAUSE_BYTES;
}

bool
request_congested(const struct request *q)
{
	return congested(q->client);
}

static void
abandon(struct clients *c, struct request *q)
{
	membership_forget(c->d->members, q);
	recover_forget(c->d->recover, q);
	if (op_cancel(q))
		request_free(c, q);
	else
		detach(q);
}

/* -- messages -- */

static enum tv_err
on_hello(struct client *cl, const struct frame *f)
{
	if (cl->greeted || greet_check(f) != TV_OK)
		return TV_EFORMAT;
	cl->greeted = true;
	cl->rpcd = greet_is(f, "rpcd");
	cl->knows_ping = cl->rpcd && greet_same_build(f);
	cl->c->rpcds += cl->rpcd;
	cl->c->had_rpcd |= cl->rpcd;
	info_write_status(cl->c->d, cl->chan);
	return TV_OK;
}

static enum tv_err
on_info(struct client *cl, const struct frame *f)
{
	struct rd r = rd_span_over(f->body);

	if (mpr_array(&r) != 0 || rd_end(&r) != TV_OK)
		return TV_EFORMAT;
	info_write(cl->c->d, cl->chan, f->id);
	return TV_OK;
}

bool
request_keep(struct request *q, struct span bytes)
{
	uint8_t *copy = q->bytes;

	if (bytes.len > REQUEST_INLINE)
		copy = malloc(bytes.len);
	if (copy == NULL)
		return false;
	memcpy(copy, bytes.p, bytes.len);
	drop_args(owner(q), q);
	q->args = span_of(copy, bytes.len);
	if (copy != q->bytes)
		owner(q)->kept += bytes.len;
	return true;
}

/* Of a query that may wait for long only what we know of its arguments is kept, however much else came with them. */
static bool
keep_args(struct request *q, struct span args)
{
	struct buf *known = request_buf(q);

	if (q->op->kind == OP_READ && q->index > 0 && args.len > REQUEST_INLINE &&
	    op_trim(q->op, args, request_arena(q), known))
		args = buf_span(known);
	return request_keep(q, args);
}

/* More would be pending than may be. */
static bool
is_full(const struct clients *c, const struct op_request *ask)
{
	return c->pending > c->d->conf.requests_max || ask->args.len > c->d->conf.requests_bytes_max ||
	    c->kept > c->d->conf.requests_bytes_max - ask->args.len;
}

static enum tv_err
on_op(struct client *cl, const struct frame *f)
{
	struct clients *c = cl->c;
	struct op_request ask;
	struct request *q;
	enum tv_err err = op_request_read(f->body, &ask);

	if (err != TV_OK)
		return err;
	q = request_new(cl, f);
	if (q == NULL)
		return TV_ENOMEM;
	q->args.p = q->bytes;
	q->op = op_find(ask.op);
	q->mode = ask.mode;
	q->index = ask.index;
	q->wait_ns = (int64_t)ask.wait_ms * 1000000;
	if (q->op == NULL || op_internal(ask.op) || q->op->kind == OP_VIEW || q->op->kind == OP_GOSSIP ||
	    q->op->kind == OP_GOSSIP_SERVER)
		request_failf(q, TV_EPERM, "unknown or internal operation");
	else if (ask.args.len > c->d->conf.request_bytes_max)
		request_failf(q, TV_ELIMIT, "the request is larger than request_bytes_max allows");
	else if (is_full(c, &ask)) {
		c->refused++;
		request_failf(q, TV_EAGAIN, "too many requests are pending; try again");
	} else if (q->op->kind == OP_WRITE)
		op_write(q, ask.args);
	else if (!keep_args(q, ask.args))
		request_failf(q, TV_ENOMEM, "out of memory");
	else if (q->op->kind == OP_LEADER)
		op_leader(q);
	else if (q->op->kind == OP_SERVER)
		op_snapshot(q);
	else
		op_read(q, ask.max_stale_ms);
	return TV_OK;
}

static void
left(void *ctx, enum tv_err err, const char *text)
{
	request_plain(ctx, err, text);
}

static enum tv_err
on_leave(struct client *cl, const struct frame *f)
{
	struct rd r = rd_span_over(f->body);
	struct request *q;
	bool force;

	if (mpr_array(&r) != 1)
		rd_fail(&r, TV_EFORMAT);
	force = mpr_bool(&r);
	if (rd_end(&r) != TV_OK)
		return TV_EFORMAT;
	q = request_new(cl, f);
	if (q == NULL)
		return TV_ENOMEM;
	q->args.p = q->bytes;
	membership_leave(cl->c->d->members, force, left, q);
	return TV_OK;
}

/* [u8 err, str text, value] */
static void
recovered(void *ctx, enum tv_err err, const char *text, struct span value)
{
	struct request *q = ctx;
	struct clients *c = owner(q);
	struct buf *b = q->client == NULL ? NULL : chan_begin(q->client->chan, q->type, FRAME_REPLY, q->id);

	if (b != NULL) {
		mpw_array(b, 3);
		mpw_uint(b, (uint64_t)-(int)err);
		mpw_cstr(b, text);
		if (value.len > 0)
			buf_putspan(b, value);
		else
			mpw_nil(b);
		(void)chan_end(q->client->chan);
	}
	request_free(c, q);
}

static enum tv_err
on_recover(struct client *cl, const struct frame *f)
{
	struct rd r = rd_span_over(f->body);
	struct request *q;
	bool dry_run;

	if (mpr_array(&r) != 1)
		rd_fail(&r, TV_EFORMAT);
	dry_run = mpr_bool(&r);
	if (rd_end(&r) != TV_OK)
		return TV_EFORMAT;
	q = request_new(cl, f);
	if (q == NULL)
		return TV_ENOMEM;
	q->args.p = q->bytes;
	recover_start(cl->c->d->recover, dry_run, recovered, q);
	return TV_OK;
}

static const struct {
	uint16_t type;
	enum tv_err (*fn)(struct client *cl, const struct frame *f);
} handlers[] = {
	{ MSG_OP, on_op },
	{ MSG_INFO, on_info },
	{ MSG_RAFT_LEAVE, on_leave },
	{ MSG_RAFT_RECOVER, on_recover },
};

static enum tv_err
on_ping(struct client *cl, const struct frame *f)
{
	enum tv_err err = greet_pinged(cl->chan, f);

	if (err == TV_OK && cl->rpcd && f->flags & FRAME_REPLY)
		unserved_answered(cl->c->d->unserved);
	return err;
}

static enum tv_err
client_frame(void *ctx, struct chan *chan, const struct frame *f)
{
	struct client *cl = ctx;

	(void)chan;
	if (f->type == MSG_HELLO)
		return on_hello(cl, f);
	if (f->type == MSG_PING && cl->greeted)
		return on_ping(cl, f);
	if (f->type == MSG_MONITOR && cl->greeted && f->flags == 0)
		return monitor_serve(&cl->monitor, cl->c->tap, cl->chan, f->body);
	if (!cl->greeted || f->flags & (FRAME_REPLY | FRAME_MORE) || f->id == 0)
		return TV_EFORMAT;
	if (f->flags & FRAME_CANCEL) {
		struct request *q = *slot_of(cl, f->id);

		if (q != NULL)
			abandon(cl->c, q);
		return TV_OK;
	}
	if (congested(cl)) {
		cl->paused = true;
		chan_pause(cl->chan, true);
	}
	for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++)
		if (handlers[i].type == f->type)
			return handlers[i].fn(cl, f);
	return TV_EFORMAT;
}

/* -- channels -- */

static void
client_open(void *ctx, struct chan *chan)
{
	struct client *cl = ctx;

	greet_send(chan, "raftd", cl->c->d->id.uuid);
}

static void
abandon_all(struct client *cl)
{
	struct request *q;

	while ((q = TAILQ_FIRST(&cl->requests)) != NULL)
		abandon(cl->c, q);
}

static void
client_close(void *ctx, struct chan *chan, enum tv_err why)
{
	struct client *cl = ctx;

	(void)chan;
	(void)why;
	abandon_all(cl);
	monitor_stop(cl->monitor);
	cl->c->rpcds -= cl->rpcd;
	TAILQ_REMOVE(&cl->c->all, cl, link);
	listener_release(cl->c->listener);
	free(cl);
}

static void
on_accept(void *ctx, int fd)
{
	struct clients *c = ctx;
	struct client *cl = calloc(1, sizeof(*cl));
	struct chan_conf conf = {
		.loop = c->d->loop, .events = &client_events, .ctx = cl, .name = "raftd.sock",
		.body_max = c->d->conf.request_bytes_max + 4096, .out_max = FRAME_BODY_BYTES_MAX + 2 * PAUSE_BYTES,
	};
	uid_t uid = (uid_t)-1;

	if (cl == NULL) {
		(void)close(fd);
		listener_release(c->listener);
		return;
	}
	cl->c = c;
	TAILQ_INIT(&cl->requests);
	TAILQ_INIT(&cl->fired);
	cl->chan = chan_new(fd, &conf);
	if (cl->chan == NULL) {
		free(cl);
		listener_release(c->listener);
		return;
	}
	TAILQ_INSERT_TAIL(&c->all, cl, link);
	if (chan_peercred(cl->chan, &uid, NULL) != TV_OK || !daemon_peer_allowed(uid)) {
		if (log_allow(&c->refusals, "raftd"))
			log_warn("raftd", "raftd.sock: uid %u may not use it and was turned away", (unsigned)uid);
		chan_close(cl->chan, TV_EPERM);
	}
}

/* -- the turn -- */

void
clients_status_changed(struct clients *c)
{
	if (c != NULL)
		c->status_due = true;
}

/* The next fired one of the channel; false: there is none, or it must wait. */
static bool
serve_fired(struct client *cl)
{
	struct request *q = TAILQ_FIRST(&cl->fired);

	if (q == NULL || congested(cl))
		return false;
	TAILQ_REMOVE(&cl->fired, q, fired_link);
	q->fired = false;
	op_read_again(q);
	return true;
}

/* One of each channel in turn, so that none waits for all of another's. */
static bool
serve_all_fired(struct clients *c, struct mono until)
{
	bool some = false, more = true;

	while (more) {
		struct client *cl;

		more = false;
		TAILQ_FOREACH(cl, &c->all, link) {
			if (!serve_fired(cl))
				continue;
			some = more = true;
			if (mono_before(clock_mono(), until))
				continue;
			TAILQ_REMOVE(&c->all, cl, link);
			TAILQ_INSERT_TAIL(&c->all, cl, link);
			return true;
		}
	}
	return some;
}

bool
clients_waiting(const struct clients *c)
{
	const struct client *cl;

	TAILQ_FOREACH(cl, &c->all, link)
		if (!TAILQ_EMPTY(&cl->fired) && !congested(cl))
			return true;
	return false;
}

bool
clients_turn(struct clients *c, struct mono until)
{
	bool busy = serve_all_fired(c, until);
	struct client *cl;

	TAILQ_FOREACH(cl, &c->all, link) {
		if (c->status_due && cl->greeted)
			info_write_status(c->d, cl->chan);
		if (cl->paused && chan_pending(cl->chan) < PAUSE_BYTES / 2) {
			cl->paused = false;
			chan_pause(cl->chan, false);
		}
	}
	c->status_due = false;
	return busy;
}

bool
clients_deserted(const struct clients *c)
{
	return c != NULL && c->had_rpcd && c->rpcds == 0;
}

bool
clients_served(const struct clients *c)
{
	return c != NULL && c->rpcds > 0;
}

uint64_t
clients_signs(const struct clients *c)
{
	const struct client *cl;
	uint64_t signs = 0;

	TAILQ_FOREACH(cl, &c->all, link)
		if (cl->rpcd)
			signs += chan_signs(cl->chan);
	return signs;
}

bool
clients_ping(struct clients *c)
{
	struct client *cl;
	bool some = false;

	TAILQ_FOREACH(cl, &c->all, link)
		if (cl->knows_ping && cl->monitor == NULL)
			some |= greet_ping(cl->chan) == TV_OK;
	return some;
}

void
clients_info(const struct clients *c, void (*fn)(void *ctx, const char *name, const char *value), void *ctx)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)c->aheads.given);
	fn(ctx, "reads_ahead", text);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)c->aheads.wasted);
	fn(ctx, "reads_ahead_in_vain", text);
	snprintf(text, sizeof(text), "%u", c->pending);
	fn(ctx, "requests_pending", text);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)c->kept);
	fn(ctx, "requests_bytes", text);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)c->refused);
	fn(ctx, "requests_refused", text);
}

void
clients_flush(struct clients *c)
{
	struct client *cl;

	TAILQ_FOREACH(cl, &c->all, link)
		chan_flush(cl->chan);
}

struct clients *
clients_new(struct raftd *d)
{
	struct clients *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->d = d;
	c->refusals = (struct log_limit){ .burst = 5, .period = MONO_S(60) };
	TAILQ_INIT(&c->all);
	c->arena = ARENA_INIT(256u << 20);
	buf_init(&c->buf, FRAME_BODY_BYTES_MAX);
	c->tap = logtap_new(d->loop);
	if (c->tap == NULL) {
		free(c);
		return NULL;
	}
	c->listener = listener_new(d->loop, d->socket_fd, (unsigned)d->conf.clients_max, on_accept, c);
	if (c->listener == NULL) {
		logtap_free(c->tap);
		free(c);
		return NULL;
	}
	d->socket_fd = -1;
	return c;
}

void
clients_free(struct clients *c)
{
	struct client *cl;

	if (c == NULL)
		return;
	c->freeing = true;
	while ((cl = TAILQ_FIRST(&c->all)) != NULL) {
		TAILQ_REMOVE(&c->all, cl, link);
		abandon_all(cl);
		monitor_stop(cl->monitor);
		chan_free(cl->chan);
		free(cl);
	}
	listener_free(c->listener);
	logtap_free(c->tap);
	while (c->spares != NULL) {
		struct request *q = c->spares;

		c->spares = q->hash_next;
		free(q);
	}
	aheads_done(&c->aheads);
	arena_done(&c->arena);
	buf_done(&c->buf);
	free(c);
}
