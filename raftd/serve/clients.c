/* Channels of rpcd: greeting, messages, life of requests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/net/greet.h"
#include "common/net/msg.h"
#include "common/net/server.h"
#include "common/proc/daemon.h"
#include "raftd/engine/engine.h"
#include "raftd/leader/leader.h"
#include "raftd/members/membership.h"
#include "raftd/members/recover.h"
#include "raftd/serve/rpcd_watch.h"
#include "raftd/serve/clients.h"
#include "raftd/serve/info.h"
#include "raftd/serve/op.h"
#include "raftd/snapshot/export.h"
#include "raftd/snapshot/import_leader.h"

struct client {
	struct server_conn conn;	/* first */
	struct clients *c;
	struct asker asker;		/* its channel and requests */
	uid_t uid;
	bool paused;
	bool rpcd;			/* says that it is one */
	bool knows_ping;		/* and of our build */
};

struct clients {
	struct raftd *d;
	struct server server;		/* its connections are struct client: the next one to serve first */
	uint64_t refused;		/* beyond requests_max or requests_bytes_max */
	unsigned rpcds;			/* channels of rpcd */
	bool had_rpcd;
	bool status_due;
};

static void
abandon(struct clients *c, struct request *q)
{
	membership_forget(c->d->members, q);
	recover_forget(c->d->recover, q);
	leader_coordinate_forget(c->d->leader, q);
	info_forget(c->d->info, q);
	export_forget(c->d->exports, q);
	import_leader_forget(c->d->import_leader, q);
	if (op_cancel(q))
		request_free(q);
	else
		request_detach(q);
}

/* -- messages -- */

static enum tv_err
on_hello(void *ctx, void *conn, const struct frame *f)
{
	struct clients *c = ctx;
	struct client *cl = conn;

	cl->rpcd = greet_is(f, "rpcd");
	cl->knows_ping = cl->rpcd && greet_same_build(f);
	c->rpcds += cl->rpcd;
	c->had_rpcd |= cl->rpcd;
	info_write_status(c->d, cl->asker.chan);
	return TV_OK;
}

static void
on_pong(void *ctx, void *conn)
{
	struct clients *c = ctx;

	if (((struct client *)conn)->rpcd)
		rpcd_watch_answered(c->d->rpcd_watch);
}

static void
on_cancel(void *ctx, void *conn, uint64_t id)
{
	struct client *cl = conn;
	struct request *q = request_find(&cl->asker, id);

	if (q != NULL)
		abandon(ctx, q);
}

/* A question that is answered later, perhaps; when too many answers wait to be read, the last one for now. */
static struct request *
request_begin(struct client *cl, const struct frame *f)
{
	if (asker_congested(&cl->asker)) {
		cl->paused = true;
		chan_pause(cl->asker.chan, true);
	}
	return request_new(cl->c->d, &cl->asker, f);
}

static enum tv_err
on_op(void *conn, const struct frame *f)
{
	struct client *cl = conn;
	struct op_request ask;
	struct request *q;
	enum tv_err err = op_request_read(f->body, &ask);

	if (err != TV_OK)
		return err;
	q = request_begin(cl, f);
	if (q == NULL)
		return TV_ENOMEM;
	op_start(q, &ask, &cl->c->refused);
	return TV_OK;
}

static enum tv_err
on_info(void *conn, const struct frame *f)
{
	struct client *cl = conn;
	struct request *q;

	if (msg_read(&empty_schema, f->body, NULL, NULL) != TV_OK)
		return TV_EFORMAT;
	q = request_begin(cl, f);
	if (q == NULL)
		return TV_ENOMEM;
	if (requests_full(cl->c->d->requests, 0)) {
		cl->c->refused++;
		info_now(cl->c->d->info, q);
		return TV_OK;
	}
	info_ask(cl->c->d->info, q);
	return TV_OK;
}

static void
left(void *ctx, enum tv_err err, const char *text)
{
	request_plain(ctx, err, text, NULL);
}

static void
leave(struct request *q, bool force)
{
	membership_leave(q->d->members, force, left, q);
}

static enum tv_err
on_leave(void *conn, const struct frame *f)
{
	struct client *cl = conn;
	struct msg_raft_leave ask = { .force = false };
	struct request *q;

	if (msg_read(&msg_raft_leave_schema, f->body, NULL, &ask) != TV_OK)
		return TV_EFORMAT;
	q = request_begin(cl, f);
	if (q == NULL)
		return TV_ENOMEM;
	if (op_may_leave(q, ask.force, ask.token, cl->uid, leave))
		leave(q, ask.force);
	return TV_OK;
}

static void
recovered(void *ctx, enum tv_err err, const char *text, struct span value)
{
	request_plain(ctx, err, text, &value);
}

static void
recover(struct request *q, bool dry_run)
{
	recover_start(q->d->recover, dry_run, recovered, q);
}

static enum tv_err
on_recover(void *conn, const struct frame *f)
{
	struct client *cl = conn;
	struct msg_raft_recover ask = { .dry_run = false };
	struct request *q;

	if (msg_read(&msg_raft_recover_schema, f->body, NULL, &ask) != TV_OK)
		return TV_EFORMAT;
	q = request_begin(cl, f);
	if (q == NULL)
		return TV_ENOMEM;
	if (op_may_recover(q, ask.dry_run, ask.token, recover))
		recover(q, ask.dry_run);
	return TV_OK;
}

static const struct server_row rows[] = {
	{ MSG_OP, on_op, true },
	{ MSG_INFO, on_info, true },
	{ MSG_RAFT_LEAVE, on_leave, true },
	{ MSG_RAFT_RECOVER, on_recover, true },
	{ 0, NULL, false }
};

/* -- channels -- */

static void
on_accept(void *ctx, void *conn, uid_t uid)
{
	struct client *cl = conn;

	cl->c = ctx;
	cl->uid = uid;
	asker_init(&cl->asker);
	cl->asker.chan = cl->conn.chan;
}

static void
on_close(void *ctx, void *conn, enum tv_err why UNUSED)
{
	struct clients *c = ctx;
	struct client *cl = conn;
	struct request *q;

	while ((q = TAILQ_FIRST(&cl->asker.requests)) != NULL)
		abandon(c, q);
	asker_done(&cl->asker);
	c->rpcds -= cl->rpcd;
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
		SERVER_EACH(cl, &c->server) {
			if (!serve_fired(cl))
				continue;
			some = more = true;
			if (mono_before(clock_mono(), until))
				continue;
			TAILQ_REMOVE(&c->server.conns, &cl->conn, link);
			TAILQ_INSERT_TAIL(&c->server.conns, &cl->conn, link);
			return true;
		}
	}
	return some;
}

bool
clients_waiting(const struct clients *c)
{
	struct client *cl;

	SERVER_EACH(cl, &c->server)
		if (request_is_fired(&cl->asker) && !asker_congested(&cl->asker))
			return true;
	return false;
}

bool
clients_turn(struct raftd *d, struct mono until)
{
	struct clients *c = d->clients;
	bool busy = serve_all_fired(c, until);
	struct client *cl;

	SERVER_EACH(cl, &c->server) {
		if (c->status_due && cl->conn.greeted)
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
	struct client *cl;
	uint64_t signs = 0;

	SERVER_EACH(cl, &c->server)
		if (cl->rpcd)
			signs += chan_signs(cl->asker.chan);
	return signs;
}

bool
clients_ping(struct clients *c)
{
	struct client *cl;
	bool some = false;

	SERVER_EACH(cl, &c->server)
		if (cl->knows_ping && cl->conn.monitor == NULL)
			some |= greet_ping(cl->asker.chan) == TV_OK;
	return some;
}

void
clients_info(const struct clients *c, figure_fn *fn, void *ctx)
{
	requests_info(c->d->requests, fn, ctx);
	statethread_info(c->d->state, fn, ctx);
	figure_put(fn, ctx, "requests_refused", c->refused);
}

struct clients *
clients_new(struct raftd *d)
{
	struct clients *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->d = d;
	c->server = (struct server){
	    .chan = { .loop = d->loop, .name = "raftd.sock", .body_max = d->conf.request_bytes_max + 4096,
	        .out_max = FRAME_BODY_BYTES_MAX + 2 * ASKER_PAUSE_BYTES },
	    .conn_bytes = sizeof(struct client), .rows = rows, .may_connect = daemon_peer_allowed, .role = "raftd",
	    .node_id = d->id.uuid, .log_area = "raftd", .on_accept = on_accept, .on_hello = on_hello,
	    .on_cancel = on_cancel, .on_pong = on_pong, .on_close = on_close, .ctx = c };
	engine_on_status(d->engine, on_status);
	if (server_start(&c->server, d->socket_fd, (unsigned)d->conf.clients_max)) {
		d->socket_fd = -1;
		return c;
	}
	clients_free(c);
	return NULL;
}

void
clients_free(struct clients *c)
{
	if (c == NULL)
		return;
	server_stop(&c->server);
	free(c);
}
