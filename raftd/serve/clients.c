/* Channels of rpcd: greeting, messages, life of requests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/greet.h"
#include "common/net/monitor.h"
#include "common/net/msg.h"
#include "common/proc/daemon.h"
#include "raftd/engine/engine.h"
#include "raftd/members/membership.h"
#include "raftd/members/recover.h"
#include "raftd/serve/rpcd_watch.h"
#include "raftd/serve/clients.h"
#include "raftd/serve/info.h"
#include "raftd/serve/op.h"

struct client {
	struct clients *c;
	TAILQ_ENTRY(client) link;
	struct asker asker;		/* its channel and requests */
	bool greeted, paused;
	bool rpcd;			/* says that it is one */
	bool knows_ping;		/* and of our build */
	struct monitor *monitor;	/* asked for log lines; or NULL */
};

struct clients {
	struct raftd *d;
	struct listener *listener;
	TAILQ_HEAD(client_list, client) all;	/* the next one to serve first */
	uint64_t refused;		/* beyond requests_max or requests_bytes_max */
	unsigned rpcds;			/* channels of rpcd */
	bool had_rpcd;
	bool status_due;
	struct log_limit refusals;
	struct logtap *tap;
};

static enum tv_err client_frame(void *ctx, struct chan *c, const struct frame *f);
static void client_open(void *ctx, struct chan *c);
static void client_close(void *ctx, struct chan *c, enum tv_err why);

static const struct chan_events client_events = { client_frame, client_open, client_close };

static void
abandon(struct clients *c, struct request *q)
{
	membership_forget(c->d->members, q);
	recover_forget(c->d->recover, q);
	if (op_cancel(q))
		request_free(q);
	else
		request_detach(q);
}

/* -- messages -- */

static enum tv_err
on_hello(struct client *cl, const struct frame *f)
{
	if (cl->greeted || greet_check(cl->asker.chan, f) != TV_OK)
		return TV_EFORMAT;
	cl->greeted = true;
	cl->rpcd = greet_is(f, "rpcd");
	cl->knows_ping = cl->rpcd && greet_same_build(f);
	cl->c->rpcds += cl->rpcd;
	cl->c->had_rpcd |= cl->rpcd;
	info_write_status(cl->c->d, cl->asker.chan);
	return TV_OK;
}

static enum tv_err
on_info(struct client *cl, const struct frame *f)
{
	if (msg_read(&empty_schema, f->body, NULL, NULL) != TV_OK)
		return TV_EFORMAT;
	info_write(cl->c->d, cl->asker.chan, f->id);
	return TV_OK;
}

static enum tv_err
on_op(struct client *cl, const struct frame *f)
{
	struct op_request ask;
	struct request *q;
	enum tv_err err = op_request_read(f->body, &ask);

	if (err != TV_OK)
		return err;
	q = request_new(cl->c->d, &cl->asker, f);
	if (q == NULL)
		return TV_ENOMEM;
	op_start(q, &ask, &cl->c->refused);
	return TV_OK;
}

static void
left(void *ctx, enum tv_err err, const char *text)
{
	request_plain(ctx, err, text, NULL);
}

static enum tv_err
on_leave(struct client *cl, const struct frame *f)
{
	struct msg_raft_leave ask = { .force = false };
	struct request *q;

	if (msg_read(&msg_raft_leave_schema, f->body, NULL, &ask) != TV_OK)
		return TV_EFORMAT;
	q = request_new(cl->c->d, &cl->asker, f);
	if (q == NULL)
		return TV_ENOMEM;
	membership_leave(cl->c->d->members, ask.force, left, q);
	return TV_OK;
}

static void
recovered(void *ctx, enum tv_err err, const char *text, struct span value)
{
	request_plain(ctx, err, text, &value);
}

static enum tv_err
on_recover(struct client *cl, const struct frame *f)
{
	struct msg_raft_recover ask = { .dry_run = false };
	struct request *q;

	if (msg_read(&msg_raft_recover_schema, f->body, NULL, &ask) != TV_OK)
		return TV_EFORMAT;
	q = request_new(cl->c->d, &cl->asker, f);
	if (q == NULL)
		return TV_ENOMEM;
	recover_start(cl->c->d->recover, ask.dry_run, recovered, q);
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
	enum tv_err err = greet_pinged(cl->asker.chan, f);

	if (err == TV_OK && cl->rpcd && f->flags & FRAME_REPLY)
		rpcd_watch_answered(cl->c->d->rpcd_watch);
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
		return monitor_serve(&cl->monitor, cl->c->tap, cl->asker.chan, f->body);
	if (!cl->greeted || f->flags & (FRAME_REPLY | FRAME_MORE) || f->id == 0)
		return TV_EFORMAT;
	if (f->flags & FRAME_CANCEL) {
		struct request *q = request_find(&cl->asker, f->id);

		if (q != NULL)
			abandon(cl->c, q);
		return TV_OK;
	}
	if (asker_congested(&cl->asker)) {
		cl->paused = true;
		chan_pause(cl->asker.chan, true);
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

	while ((q = TAILQ_FIRST(&cl->asker.requests)) != NULL)
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
		.body_max = c->d->conf.request_bytes_max + 4096, .out_max = FRAME_BODY_BYTES_MAX + 2 * ASKER_PAUSE_BYTES,
	};
	uid_t uid = (uid_t)-1;

	if (cl == NULL) {
		(void)close(fd);
		listener_release(c->listener);
		return;
	}
	cl->c = c;
	asker_init(&cl->asker);
	cl->asker.chan = chan_new(fd, &conf);
	if (cl->asker.chan == NULL) {
		free(cl);
		listener_release(c->listener);
		return;
	}
	TAILQ_INSERT_TAIL(&c->all, cl, link);
	if (chan_peercred(cl->asker.chan, &uid, NULL) != TV_OK || !daemon_peer_allowed(uid)) {
		if (log_allow(&c->refusals, "raftd"))
			log_warn("raftd", "raftd.sock: connection from uid %u rejected: permission denied",
			    (unsigned)uid);
		chan_close(cl->asker.chan, TV_EPERM);
	}
}

/* -- the turn -- */

static void
on_status(struct raftd *d)
{
	if (d->clients != NULL)
		d->clients->status_due = true;
}

/* The next fired one of the channel; false: there is none, or it must wait. */
static bool
serve_fired(struct client *cl)
{
	struct request *q = asker_congested(&cl->asker) ? NULL : request_fired(&cl->asker);

	if (q != NULL)
		op_read_again(q);
	return q != NULL;
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
		if (!TAILQ_EMPTY(&cl->asker.fired) && !asker_congested(&cl->asker))
			return true;
	return false;
}

bool
clients_turn(struct raftd *d, struct mono until)
{
	struct clients *c = d->clients;
	bool busy = serve_all_fired(c, until);
	struct client *cl;

	TAILQ_FOREACH(cl, &c->all, link) {
		if (c->status_due && cl->greeted)
			info_write_status(c->d, cl->asker.chan);
		if (cl->paused && chan_pending(cl->asker.chan) < ASKER_PAUSE_BYTES / 2) {
			cl->paused = false;
			chan_pause(cl->asker.chan, false);
		}
		chan_flush(cl->asker.chan);
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
			signs += chan_signs(cl->asker.chan);
	return signs;
}

bool
clients_ping(struct clients *c)
{
	struct client *cl;
	bool some = false;

	TAILQ_FOREACH(cl, &c->all, link)
		if (cl->knows_ping && cl->monitor == NULL)
			some |= greet_ping(cl->asker.chan) == TV_OK;
	return some;
}

void
clients_info(const struct clients *c, void (*fn)(void *ctx, const char *name, const char *value), void *ctx)
{
	char text[24];

	requests_info(c->d->requests, fn, ctx);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)c->refused);
	fn(ctx, "requests_refused", text);
}

struct clients *
clients_new(struct raftd *d)
{
	struct clients *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->d = d;
	engine_on_status(d->engine, on_status);
	c->refusals = (struct log_limit){ .burst = 5, .period = MONO_S(60) };
	TAILQ_INIT(&c->all);
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
	while ((cl = TAILQ_FIRST(&c->all)) != NULL) {
		TAILQ_REMOVE(&c->all, cl, link);
		abandon_all(cl);
		monitor_stop(cl->monitor);
		chan_free(cl->asker.chan);
		free(cl);
	}
	listener_free(c->listener);
	logtap_free(c->tap);
	free(c);
}
