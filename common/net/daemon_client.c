/* A daemon's connection to another one, see daemon_client.h. */
#include <stdio.h>

#include "common/base/log.h"
#include "common/net/daemon_client.h"
#include "common/net/greet.h"
#include "common/net/msg.h"

#define DOWN_WARN_AFTER 6	/* attempts, about a second: daemons start and stop together */

static enum tv_err
on_frame(void *ctx, struct chan *chan, const struct frame *f)
{
	struct daemon_client *c = ctx;
	enum tv_err err;

	c->mute = false;
	if (!c->greeted) {
		c->greeted = greet_check(chan, f) == TV_OK;
		c->same_build = c->greeted && greet_same_build(f);
		return c->greeted ? TV_OK : TV_EFORMAT;
	}
	if (f->type == MSG_PING) {
		err = greet_pinged(chan, f);
		if (err != TV_OK || !(f->flags & FRAME_REPLY))
			return err;
	} else if (f->flags & FRAME_REPLY) {
		return calls_frame(c->calls, f);
	}
	return c->on_frame(c->ctx, chan, f);
}

static void
on_up(void *ctx, struct chan *chan)
{
	struct daemon_client *c = ctx;
	unsigned failures = c->failures;

	greet_send(chan, c->role, c->node_id);
	c->greeted = false;
	c->failures = 0;
	if (c->meanwhile != NULL && failures >= DOWN_WARN_AFTER)
		log_info(c->log_area, "connected to %s again", c->daemon);
	if (c->on_up != NULL)
		c->on_up(c->ctx, chan, failures);
}

static void
on_down(void *ctx, enum tv_err why)
{
	struct daemon_client *c = ctx;

	if (why != TV_ETIMEOUT)
		c->mute = false;
	c->greeted = false;
	if (++c->failures == DOWN_WARN_AFTER && c->meanwhile != NULL)
		log_warn(c->log_area, "no connection to %s at %s (%s); %s", c->daemon, c->path, tv_strerror(why),
		    c->meanwhile);
	/* First: a caller that asks again in the callback of a call must find that the channel is down. */
	c->on_down(c->ctx, why, c->failures);
	calls_fail_all(c->calls, TV_ECLOSED);
}

bool
daemon_client_start(struct daemon_client *c)
{
	static const struct chan_events events = { .on_frame = on_frame };
	struct dialer_conf conf = { .chan = c->chan, .unix_path = c->path, .backoff_max = c->backoff_max,
		.on_up = on_up, .on_down = on_down };
	char name[32];

	snprintf(name, sizeof(name), "%s.sock", c->daemon);
	conf.chan.name = name;
	conf.chan.events = &events;
	conf.chan.ctx = c;
	c->calls = calls_new(conf.chan.loop, c->pending_max, conf.chan.body_max);
	c->dialer = c->calls == NULL ? NULL : dialer_new(&conf);
	return c->dialer != NULL;
}

void
daemon_client_stop(struct daemon_client *c)
{
	dialer_free(c->dialer);
	c->dialer = NULL;
	calls_free(c->calls);
	c->calls = NULL;
}

struct chan *
daemon_client_chan(const struct daemon_client *c)
{
	return c->dialer == NULL ? NULL : dialer_chan(c->dialer);
}

const char *
daemon_client_state(const struct daemon_client *c)
{
	if (c->mute || (daemon_client_chan(c) != NULL && !c->greeted))
		return "silent";
	return c->greeted ? "connected" : "away";
}

uint64_t
daemon_client_call(struct daemon_client *c, uint16_t type, struct span body, struct mono timeout, calls_done *done,
    void *ctx, enum tv_err *err)
{
	struct chan *chan = daemon_client_chan(c);
	uint64_t id = 0;

	*err = TV_EUNREACH;
	if (chan != NULL && c->greeted)		/* the kernel connects a stopped one too */
		id = calls_start(c->calls, chan, type, body, timeout, done, ctx, err);
	if (id == 0 && *err == TV_ECLOSED)
		*err = TV_EUNREACH;
	return id;
}

void
daemon_client_cancel(struct daemon_client *c, uint64_t id)
{
	calls_cancel(c->calls, daemon_client_chan(c), id);
}
