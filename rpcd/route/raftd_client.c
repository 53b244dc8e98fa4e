/* The channel to this node's own raftd, see raftd_client.h. */
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/greet.h"
#include "common/net/msg.h"
#include "common/net/silence.h"
#include "rpcd/route/raftd_client.h"

/* raftd answers within milliseconds, and a leader that is silent for a second leads no more. */
#define LOOK_EVERY_S 0.5
#define ASK_AFTER MONO_S(1)
#define PATIENCE MONO_S(3)
#define LOOKS_APART MONO_S(2)

struct raftd_client {
	struct raftd_client_conf conf;
	struct daemon_client daemon;
	struct raftd_client_status status;
	bool due;		/* an answer was awaited that should come at once, and no MSG_PING was answered since */
	struct silence silence;
	ev_timer look;		/* runs while something is due */
};

/* MSG_RAFT_STATUS, see common/net/msg.h. */
static enum tv_err
status_read(struct span body, struct raftd_client_status *out)
{
	struct msg_raft_status m = { .role = 0 };
	struct raftd_client_status s;

	if (msg_read(&msg_raft_status_schema, body, NULL, &m) != TV_OK || m.role > UINT8_MAX)
		return TV_EFORMAT;
	s = (struct raftd_client_status){ .up = true, .role = (uint8_t)m.role, .term = m.term, .voters = m.voters,
		.is_voter = m.is_voter };
	if (!span_copy(m.leader_id, s.leader_id, sizeof(s.leader_id)) ||
	    !span_copy(m.leader_addr, s.leader_addr, sizeof(s.leader_addr)) ||
	    !span_copy(m.leader_name, s.leader_name, sizeof(s.leader_name)))
		return TV_EFORMAT;
	*out = s;
	return TV_OK;
}

static enum tv_err
on_frame(void *ctx, struct chan *c UNUSED, const struct frame *f)
{
	struct raftd_client *r = ctx;
	enum tv_err err;

	if (f->type == MSG_PING) {
		r->due = false;
		return TV_OK;
	}
	if (f->type != MSG_RAFT_STATUS)
		return TV_EFORMAT;
	err = status_read(f->body, &r->status);
	if (err == TV_OK)
		r->conf.on_change(r->conf.ctx);
	return err;
}

static void
on_down(void *ctx, enum tv_err why UNUSED, unsigned failures UNUSED)
{
	struct raftd_client *r = ctx;

	r->status = (struct raftd_client_status){ .up = false };
	r->conf.on_change(r->conf.ctx);
}

/*
 * A frozen raftd (stopped, swapping) keeps its sockets open.  Without this, every request of this node would wait for
 * it in vain, although other servers would serve it.
 */
static void
on_look(struct ev_loop *loop, ev_timer *w, int revents UNUSED)
{
	const struct silence_conf conf = { ASK_AFTER, PATIENCE, LOOKS_APART };
	struct raftd_client *r = w->data;
	struct chan *c = daemon_client_chan(&r->daemon);

	if (c == NULL || !r->due || calls_pending(r->daemon.calls) == 0) {
		r->due = false;
		ev_timer_stop(loop, w);
		return;
	}
	switch (silence_look(&r->silence, &conf, clock_mono(), chan_signs(c))) {
	case SILENCE_ASK:
		(void)greet_ping(c);		/* a closed channel tells by itself */
		break;
	case SILENCE_DEAD:
		log_warn("rpc", "raftd has not answered for 3 s (is it stopped, or does the machine swap?): "
		    "requests go to other servers until it does");
		r->daemon.mute = true;
		chan_close(c, TV_ETIMEOUT);
		break;
	default:
		break;
	}
}

struct raftd_client *
raftd_client_new(const struct raftd_client_conf *conf)
{
	struct raftd_client *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->conf = *conf;
	ev_timer_init(&r->look, on_look, 0., LOOK_EVERY_S);
	r->look.data = r;
	r->daemon = (struct daemon_client){
	    .chan = { .loop = conf->loop, .body_max = conf->answer_max, .out_max = conf->out_max }, .daemon = "raftd",
	    .path = conf->path, .role = "rpcd", .node_id = conf->node_id, .log_area = "rpc",
	    .meanwhile = "trying again, requests go to other servers", .pending_max = conf->pending_max,
	    .on_frame = on_frame, .on_down = on_down, .ctx = r };
	if (daemon_client_start(&r->daemon))
		return r;
	raftd_client_free(r);
	return NULL;
}

void
raftd_client_free(struct raftd_client *r)
{
	if (r == NULL)
		return;
	r->status = (struct raftd_client_status){ .up = false };
	ev_timer_stop(r->conf.loop, &r->look);
	daemon_client_stop(&r->daemon);
	free(r);
}

const struct raftd_client_status *
raftd_client_status(const struct raftd_client *r)
{
	return &r->status;
}

struct daemon_client *
raftd_client_daemon(struct raftd_client *r)
{
	return &r->daemon;
}

void
raftd_client_expect(struct raftd_client *r)
{
	if (!r->daemon.same_build || r->status.voters < 2)
		return;
	r->due = true;
	if (ev_is_active(&r->look))
		return;
	r->silence = (struct silence){ 0 };
	ev_timer_again(r->conf.loop, &r->look);
}
