/* Connections that others make to us, see server.h. */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/net/greet.h"
#include "common/net/msg.h"
#include "common/net/server.h"
#include "common/net/source.h"

/* -- frames -- */

enum tv_err
server_greeted(struct server_conn *c)
{
	struct server *s = c->server;

	if (c->greeted)
		return TV_OK;
	strangers_go(&s->strangers, &c->stranger);
	if (s->may_connect == NULL && s->proven >= s->conns_max) {
		s->refused++;
		if (log_allow(&s->limit, "net"))
			log_warn("net", "connection refused: %u are open already", s->proven);
		return TV_ECLOSED;
	}
	s->proven++;
	c->greeted = true;
	ev_timer_stop(s->chan.loop, &c->hello);
	return TV_OK;
}

static enum tv_err
take_hello(struct server_conn *c, const struct frame *f)
{
	struct server *s = c->server;
	enum tv_err err;

	if (c->greeted || greet_check(c->chan, f) != TV_OK)
		return TV_EFORMAT;
	err = server_greeted(c);
	return err != TV_OK || s->on_hello == NULL ? err : s->on_hello(s->ctx, c, f);
}

static enum tv_err
take_ping(struct server_conn *c, const struct frame *f)
{
	struct server *s = c->server;
	enum tv_err err = greet_pinged(c->chan, f);

	if (err == TV_OK && f->flags & FRAME_REPLY && s->on_pong != NULL)
		s->on_pong(s->ctx, c);
	return err;
}

static enum tv_err
answer_info(struct server_conn *c, const struct frame *f)
{
	struct buf *b;

	if (f->id == 0 || msg_read(&empty_schema, f->body, NULL, NULL) != TV_OK)
		return TV_EFORMAT;
	b = chan_begin(c->chan, MSG_INFO, FRAME_REPLY, f->id);
	if (b == NULL)
		return TV_OK;
	c->server->info(c->server->ctx, b);
	return chan_end(c->chan);
}

static enum tv_err
dispatch(struct server_conn *c, const struct frame *f)
{
	struct server *s = c->server;
	const struct server_row *row = s->rows;
	bool local = s->may_connect != NULL;

	while (row->type != 0 && row->type != f->type)
		row++;
	if (f->type == s->hello_type)
		return f->type == MSG_HELLO ? take_hello(c, f) : row->fn(c, f);
	if (!c->greeted)
		return TV_EFORMAT;
	if (local && f->type == MSG_PING)
		return take_ping(c, f);
	if (f->flags & FRAME_CANCEL) {
		if (s->on_cancel != NULL)
			s->on_cancel(s->ctx, c, f->id);
		return TV_OK;		/* else what was begun comes to its end unheard */
	}
	if (f->flags & (FRAME_REPLY | FRAME_MORE) || (row->answered && f->id == 0))
		return TV_EFORMAT;
	if (local && f->type == MSG_INFO && s->info != NULL)
		return answer_info(c, f);
	if (local && f->type == MSG_MONITOR)
		return monitor_serve(&c->monitor, s->tap, c->chan, f->body);
	return row->fn == NULL ? TV_EFORMAT : row->fn(c, f);
}

static enum tv_err
on_frame(void *ctx, struct chan *chan UNUSED, const struct frame *f)
{
	struct server_conn *c = ctx;
	enum tv_err err = dispatch(c, f);

	c->server->malformed += err != TV_OK;
	return err;
}

/* -- connections -- */

static void
on_open(void *ctx, struct chan *chan)
{
	struct server_conn *c = ctx;
	struct server *s = c->server;

	if (s->may_connect != NULL)
		greet_send(chan, s->role, s->node_id);
	else
		ev_timer_start(s->chan.loop, &c->hello);
	if (s->on_open != NULL)
		s->on_open(s->ctx, c);
}

/* c->chan goes with its caller. */
static void
conn_free(struct server_conn *c, enum tv_err why)
{
	struct server *s = c->server;

	s->on_close(s->ctx, c, why);
	monitor_stop(c->monitor);
	strangers_go(&s->strangers, &c->stranger);
	s->proven -= c->greeted;
	if (s->listener != NULL)
		listener_release(s->listener);
	ev_timer_stop(s->chan.loop, &c->hello);
	TAILQ_REMOVE(&s->conns, c, link);
	s->open--;
	free(c);
}

static void
on_close(void *ctx, struct chan *chan UNUSED, enum tv_err why)
{
	struct server_conn *c = ctx;
	struct server *s = c->server;

	s->silent += why == TV_ETIMEOUT && !c->greeted;
	conn_free(c, why);
}

static void
on_silent(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct server_conn *c = w->data;

	chan_close(c->chan, TV_ETIMEOUT);
}

static const struct chan_events conn_events = { on_frame, on_open, on_close };

/* Of a unix socket: only our daemons and root. */
static void
check_user(struct server_conn *c, uid_t uid)
{
	struct server *s = c->server;

	if (uid != (uid_t)-1 && s->may_connect(uid))
		return;
	if (log_allow(&s->limit, s->log_area))
		log_warn(s->log_area, "%s: connection from uid %u rejected: permission denied", s->chan.name,
		    (unsigned)uid);
	chan_close(c->chan, TV_EPERM);
}

/* Of a port: a place until it is proven, if need be that of another one. */
static void
take_place(struct server_conn *c)
{
	struct server *s = c->server;
	uint64_t source = source_of(listener_peer(s->listener));
	bool known = s->is_known != NULL && s->is_known(s->ctx, source);
	struct stranger *out = strangers_come(&s->strangers, &c->stranger, source, known);

	if (!c->stranger.place.here)
		chan_close(c->chan, TV_ENOMEM);
	if (out == NULL)
		return;
	if (log_allow(&s->limit, "net"))
		log_warn("net", "%u connections have not finished the handshake: closing the oldest for the newest",
		    s->strangers.count);
	chan_close(((struct server_conn *)out)->chan, TV_ELIMIT);
}

static void
on_accept(void *ctx, int fd)
{
	struct server *s = ctx;
	struct server_conn *c = calloc(1, s->conn_bytes);
	struct chan_conf conf = s->chan;
	uid_t uid = (uid_t)-1;

	conf.events = &conn_events;
	conf.ctx = c;
	if (c == NULL)
		(void)close(fd);
	else
		c->chan = chan_new(fd, &conf);
	if (c == NULL || c->chan == NULL) {
		free(c);
		listener_release(s->listener);
		return;
	}
	c->server = s;
	ev_timer_init(&c->hello, on_silent, mono_seconds(s->hello_timeout), 0.);
	c->hello.data = c;
	TAILQ_INSERT_TAIL(&s->conns, c, link);
	s->open++;
	if (s->may_connect != NULL && chan_peercred(c->chan, &uid, NULL) != TV_OK)
		uid = (uid_t)-1;
	s->on_accept(s->ctx, c, uid);
	if (s->may_connect != NULL)
		check_user(c, uid);
	else
		take_place(c);
}

/* -- the server -- */

bool
server_start(struct server *s, int fd, unsigned conns_max)
{
	bool port = s->may_connect == NULL;

	s->limit = (struct log_limit){ .burst = 5, .period = MONO_S(60) };
	if (s->hello_type == 0)
		s->hello_type = MSG_HELLO;
	TAILQ_INIT(&s->conns);
	s->conns_max = conns_max;
	if (port)
		strangers_init(&s->strangers, &s->places);
	s->listener = listener_new(s->chan.loop, fd, port ? UINT_MAX : conns_max, on_accept, s);
	return s->listener != NULL && (port || (s->tap = logtap_new(s->chan.loop)) != NULL);
}

void
server_close(struct server *s)
{
	struct server_conn *c;

	/* Refused at once, not hung up on in the handshake, which would look like other keys to the others. */
	listener_free(s->listener);
	s->listener = NULL;
	TAILQ_FOREACH(c, &s->conns, link)
		chan_close(c->chan, TV_ECLOSED);
}

void
server_stop(struct server *s)
{
	while (s->open > 0) {
		struct server_conn *c = TAILQ_FIRST(&s->conns);
		struct chan *chan = c->chan;

		conn_free(c, TV_ECLOSED);
		chan_free(chan);
	}
	strangers_done(&s->strangers);
	listener_free(s->listener);
	logtap_free(s->tap);
	s->listener = NULL;
	s->tap = NULL;
}
