/* The channel to this node's own raftd, see raftd_client.h. */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/dial.h"
#include "common/net/greet.h"
#include "common/net/msg.h"
#include "common/net/silence.h"
#include "common/record/mpack.h"
#include "rpcd/route/raftd_client.h"

#define STATUS_FIELDS 8		/* of MSG_RAFT_STATUS, at least */
#define DOWN_WARN_AFTER 6	/* attempts, about a second: daemons start and stop together */
/* raftd answers within milliseconds, and a leader that is silent for a second leads no more. */
#define LOOK_EVERY_S 0.5
#define ASK_AFTER MONO_S(1)
#define PATIENCE MONO_S(3)
#define LOOKS_APART MONO_S(2)

struct raftd_client {
	struct raftd_client_conf conf;
	struct dialer *dialer;
	struct calls *calls;
	struct raftd_client_status status;
	bool greeted;
	bool knows_ping;	/* raftd is of our build */
	bool mute;		/* a question was not answered in time, and nothing came since */
	bool due;		/* an answer was awaited that should come at once, and no MSG_PING was answered since */
	unsigned failures;	/* to connect, in a row */
	struct silence silence;
	ev_timer look;		/* runs while something is due */
};

/* MSG_RAFT_STATUS, see common/net/msg.h. */
static enum tv_err
status_read(struct span body, struct raftd_client_status *out)
{
	struct rd r = rd_span_over(body);
	struct raftd_client_status s = { .up = true };
	struct span id, addr, name;
	uint32_t fields = mpr_array(&r);

	if (fields < STATUS_FIELDS)
		return TV_EFORMAT;
	s.role = (uint8_t)mpr_uint(&r, UINT8_MAX);
	s.term = mpr_uint(&r, UINT64_MAX);
	id = mpr_bytes(&r, sizeof(s.leader_id) - 1);
	addr = mpr_bytes(&r, sizeof(s.leader_addr) - 1);
	name = mpr_bytes(&r, sizeof(s.leader_name) - 1);
	s.voters = mpr_uint(&r, UINT64_MAX);
	s.is_voter = mpr_bool(&r);
	mpr_uint(&r, UINT64_MAX);	/* leader_seen_ms: shown by info, of no use for routing */
	for (uint32_t i = STATUS_FIELDS; i < fields && r.err == TV_OK; i++)
		mpr_skip(&r);		/* of a newer version */
	if (rd_end(&r) != TV_OK)
		return r.err;
	if (!span_copy(id, s.leader_id, sizeof(s.leader_id)) ||
	    !span_copy(addr, s.leader_addr, sizeof(s.leader_addr)) ||
	    !span_copy(name, s.leader_name, sizeof(s.leader_name)))
		return TV_EFORMAT;
	*out = s;
	return TV_OK;
}

static enum tv_err
on_frame(void *ctx, struct chan *c, const struct frame *f)
{
	struct raftd_client *r = ctx;
	enum tv_err err;

	r->mute = false;
	if (!r->greeted) {
		r->greeted = greet_check(c, f) == TV_OK;
		r->knows_ping = r->greeted && greet_same_build(f);
		return r->greeted ? TV_OK : TV_EFORMAT;
	}
	if (f->type == MSG_PING) {
		if (f->flags & FRAME_REPLY)
			r->due = false;
		return greet_pinged(c, f);
	}
	if (f->flags & FRAME_REPLY)
		return calls_frame(r->calls, f);
	if (f->type != MSG_RAFT_STATUS)
		return TV_EFORMAT;
	err = status_read(f->body, &r->status);
	if (err == TV_OK)
		r->conf.on_change(r->conf.ctx);
	return err;
}

static void
on_up(void *ctx, struct chan *c)
{
	struct raftd_client *r = ctx;

	greet_send(c, "rpcd", r->conf.node_id);
	r->greeted = false;
	if (r->failures >= DOWN_WARN_AFTER)
		log_info("rpc", "connected to raftd again");
	r->failures = 0;
}

static void
on_down(void *ctx, enum tv_err why)
{
	struct raftd_client *r = ctx;

	if (why != TV_ETIMEOUT)
		r->mute = false;
	r->greeted = false;
	if (++r->failures == DOWN_WARN_AFTER)
		log_warn("rpc", "no connection to raftd at %s (%s); trying again, requests go to other servers",
		    r->conf.path, tv_strerror(why));
	r->status = (struct raftd_client_status){ .up = false };
	/* Before the callbacks below ask again, they must see that the channel is down. */
	r->conf.on_change(r->conf.ctx);
	calls_fail_all(r->calls, TV_ECLOSED);
}

/*
 * A frozen raftd (stopped, swapping) keeps its sockets open.  Without this, every request of this node would wait for
 * it in vain, although other servers would serve it.
 */
static void
on_look(struct ev_loop *loop, ev_timer *w, int revents)
{
	const struct silence_conf conf = { ASK_AFTER, PATIENCE, LOOKS_APART };
	struct raftd_client *r = w->data;
	struct chan *c = dialer_chan(r->dialer);

	(void)revents;
	if (c == NULL || !r->due || calls_pending(r->calls) == 0) {
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
		r->mute = true;
		chan_close(c, TV_ETIMEOUT);
		break;
	default:
		break;
	}
}

static const struct chan_events raftd_events = { .on_frame = on_frame };

struct raftd_client *
raftd_client_new(const struct raftd_client_conf *conf)
{
	struct raftd_client *r = calloc(1, sizeof(*r));
	struct dialer_conf d = {
		.chan = {
			.loop = conf->loop, .events = &raftd_events, .ctx = r, .name = "raftd.sock",
			.body_max = conf->answer_max, .out_max = conf->out_max, .initiator = true,
		},
		.unix_path = conf->path, .on_up = on_up, .on_down = on_down,
	};

	if (r == NULL)
		return NULL;
	r->conf = *conf;
	ev_timer_init(&r->look, on_look, 0., LOOK_EVERY_S);
	r->look.data = r;
	r->calls = calls_new(conf->loop, conf->pending_max, conf->answer_max);
	r->dialer = r->calls == NULL ? NULL : dialer_new(&d);
	if (r->dialer == NULL) {
		calls_free(r->calls);
		free(r);
		return NULL;
	}
	return r;
}

void
raftd_client_free(struct raftd_client *r)
{
	if (r == NULL)
		return;
	r->status = (struct raftd_client_status){ .up = false };
	ev_timer_stop(r->conf.loop, &r->look);
	dialer_free(r->dialer);
	calls_free(r->calls);
	free(r);
}

const struct raftd_client_status *
raftd_client_status(const struct raftd_client *r)
{
	return &r->status;
}

const char *
raftd_client_state(const struct raftd_client *r)
{
	/* Connected by the kernel, and then not a word: frozen since before. */
	if (r->mute || (dialer_chan(r->dialer) != NULL && !r->greeted))
		return "silent";
	return r->status.up ? "connected" : "away";
}

void
raftd_client_missed(struct raftd_client *r)
{
	r->mute = true;
}

uint64_t
raftd_client_call(struct raftd_client *r, uint16_t type, struct span body, struct mono timeout,
    calls_done *done, void *ctx, enum tv_err *err)
{
	struct chan *c = dialer_chan(r->dialer);
	uint64_t id;

	/* Connected is not enough: the kernel does that for a frozen one too. */
	if (c == NULL || !r->greeted) {
		*err = TV_EUNREACH;
		return 0;
	}
	id = calls_start(r->calls, c, type, body, timeout, done, ctx, err);
	if (id == 0 && *err == TV_ECLOSED)
		*err = TV_EUNREACH;
	return id;
}

void
raftd_client_expect(struct raftd_client *r)
{
	if (!r->knows_ping || r->status.voters < 2)
		return;
	r->due = true;
	if (ev_is_active(&r->look))
		return;
	r->silence = (struct silence){ 0 };
	ev_timer_again(r->conf.loop, &r->look);
}

void
raftd_client_cancel(struct raftd_client *r, uint64_t id)
{
	struct chan *c = dialer_chan(r->dialer);

	if (c != NULL)
		calls_cancel(r->calls, c, id);
}
