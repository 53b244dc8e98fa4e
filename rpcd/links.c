/*
 * Links to other nodes' rpcds, see links.h.
 *
 * A link is DOWN, DIALING or UP.  Calls that come while it dials wait in a list; if the dial fails they
 * end with TV_EUNREACH, because nothing was sent.  After a failed dial the link fails at once for
 * a short while, so that a burst of requests does not become a burst of connects.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/calls.h"
#include "common/clock.h"
#include "common/greet.h"
#include "common/log.h"
#include "common/msg.h"
#include "common/ops.h"
#include "common/silence.h"
#include "rpcd/links.h"

#define LINK_REDIAL_MS 250
#define LOOK_EVERY_S 1.0
#define ASK_AFTER MONO_S(2)
#define PATIENCE MONO_S(5)
#define LOOKS_APART MONO_S(3)

enum link_state { LINK_DOWN, LINK_DIALING, LINK_UP };

struct link {
	struct links *pool;
	struct link *next;
	char ip[46];
	uint16_t port;
	enum link_state state;
	bool greeted;			/* the peer's HELLO came */
	struct chan *chan;		/* while not DOWN */
	unsigned psk;			/* key of this attempt: the primary one first */
	struct calls *calls;
	struct link_call *waiting;	/* oldest first */
	bool due;			/* an answer that should come at once is awaited, no probe was answered since */
	bool probing;			/* a probe is in `calls` */
	struct silence silence;
	struct mono failed_at;		/* last failed dial; 0: none */
	struct mono used_at;
};

struct link_call {
	struct link *link;
	struct link_call *next;		/* in link->waiting or pool->doomed */
	uint64_t id;			/* 0 while waiting */
	uint16_t type;
	struct mono timeout;
	struct buf body;		/* while waiting */
	enum tv_err why;		/* while doomed */
	link_done *done;
	void *ctx;
};

struct links {
	struct links_conf conf;
	struct link *list;
	unsigned count;
	bool closing;
	struct link_call *doomed;	/* to be ended from the loop, not from inside links_call */
	ev_timer doom_timer, idle_timer;
	ev_timer look_timer;		/* runs while something is due */
	struct links_stats stats;
};

static enum tv_err link_frame(void *ctx, struct chan *c, const struct frame *f);
static void link_open(void *ctx, struct chan *c);
static void link_closed(void *ctx, struct chan *c, enum tv_err why);

static const struct chan_events link_events = { link_frame, link_open, link_closed };

/* Ends the call; the caller has taken it off every list. */
static void
call_end(struct link_call *c, enum tv_err err, struct span body)
{
	link_done *done = c->done;
	void *ctx = c->ctx;

	buf_done(&c->body);
	free(c);
	done(ctx, err, body);
}

static void
call_answered(void *ctx, enum tv_err err, struct span body)
{
	call_end(ctx, err, body);
}

/* Ends the call soon, from the loop. */
static void
call_doom(struct link_call *c, enum tv_err why)
{
	struct links *l = c->link->pool;

	c->why = why;
	c->next = l->doomed;
	l->doomed = c;
	if (!ev_is_active(&l->doom_timer)) {
		ev_timer_set(&l->doom_timer, 0., 0.);
		ev_timer_start(l->conf.loop, &l->doom_timer);
	}
}

static void
doom_cb(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct links *l = w->data;
	struct link_call *c;

	(void)loop;
	(void)revents;
	while ((c = l->doomed) != NULL) {
		l->doomed = c->next;
		call_end(c, c->why, SPAN_NONE);
	}
}

static void
call_send(struct link *k, struct link_call *c, struct span body)
{
	enum tv_err err = TV_OK;

	k->used_at = clock_mono();
	k->pool->stats.calls++;
	c->id = calls_start(k->calls, k->chan, c->type, body, c->timeout, call_answered, c, &err);
	if (c->id == 0)
		call_doom(c, TV_EUNREACH);
}

static void
link_open(void *ctx, struct chan *ch)
{
	struct link *k = ctx;
	struct link_call *c, *next;

	greet_send(ch, "rpcd", k->pool->conf.node_id);
	k->state = LINK_UP;
	k->failed_at = MONO_ZERO;
	k->pool->stats.open++;
	c = k->waiting;
	k->waiting = NULL;
	for (; c != NULL; c = next) {
		next = c->next;
		call_send(k, c, buf_span(&c->body));
		if (c->id != 0)
			buf_done(&c->body);
	}
}

static enum tv_err
link_frame(void *ctx, struct chan *ch, const struct frame *f)
{
	struct link *k = ctx;

	(void)ch;
	if (!k->greeted) {
		k->greeted = greet_check(f) == TV_OK;
		return k->greeted ? TV_OK : TV_EFORMAT;
	}
	if (!(f->flags & FRAME_REPLY))
		return TV_EFORMAT;	/* we only ask on this link */
	return calls_frame(k->calls, f);
}

static bool link_dial(struct link *k, unsigned psk);

/*
 * Refused in the handshake: in the midst of a rotation the peer may not have our primary key yet, but another one
 * of the ring.  Nothing was sent, so the calls just wait on.
 */
static bool
link_next_key(struct link *k, enum tv_err why)
{
	const struct noise_conf *noise = k->pool->conf.noise;

	return k->state == LINK_DIALING && why == TV_ECLOSED && !k->pool->closing && noise != NULL &&
	    k->psk + 1 < noise->psk_count && link_dial(k, k->psk + 1);
}

static void
link_closed(void *ctx, struct chan *ch, enum tv_err why)
{
	struct link *k = ctx;
	struct link_call *c;

	(void)ch;
	k->chan = NULL;
	if (link_next_key(k, why))
		return;
	if (k->state == LINK_UP) {
		k->pool->stats.open--;
	} else {
		k->pool->stats.failed++;
		k->failed_at = clock_mono();
		log_debug("rpc", "no link to %s:%u: %s", k->ip, k->port, tv_strerror(why));
	}
	k->state = LINK_DOWN;
	calls_fail_all(k->calls, TV_ECLOSED);
	while ((c = k->waiting) != NULL) {
		k->waiting = c->next;
		call_end(c, TV_EUNREACH, SPAN_NONE);
	}
}

static bool
link_dial(struct link *k, unsigned psk)
{
	struct links *l = k->pool;
	char name[64];
	struct chan_conf conf = {
		.loop = l->conf.loop, .events = &link_events, .ctx = k, .name = name,
		.body_max = l->conf.answer_max, .out_max = l->conf.out_max,
		.noise = l->conf.noise, .initiator = true, .psk = psk, .open_timeout = l->conf.dial_timeout,
	};

	snprintf(name, sizeof(name), "link %s:%u", k->ip, k->port);
	k->greeted = false;
	k->psk = psk;
	l->stats.dialled++;
	k->chan = chan_dial_tcp(k->ip, k->port, &conf);
	if (k->chan == NULL) {
		l->stats.failed++;
		k->failed_at = clock_mono();
		return false;
	}
	k->state = LINK_DIALING;
	return true;
}

static void
link_free(struct link *k)
{
	struct link **at = &k->pool->list;

	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	k->pool->count--;
	calls_free(k->calls);
	free(k);
}

/* A link that nobody needs now, and the longest so; or NULL. */
static struct link *
link_idlest(struct links *l)
{
	struct link *best = NULL;

	for (struct link *k = l->list; k != NULL; k = k->next)
		if (k->state == LINK_DOWN && k->waiting == NULL && calls_pending(k->calls) == 0 &&
		    (best == NULL || mono_before(k->used_at, best->used_at)))
			best = k;
	return best;
}

static struct link *
link_find(const struct links *l, const char *ip, uint16_t port)
{
	struct link *k;

	for (k = l->list; k != NULL; k = k->next)
		if (k->port == port && strcmp(k->ip, ip) == 0)
			return k;
	return NULL;
}

static struct link *
link_get(struct links *l, const char *ip, uint16_t port)
{
	struct link *k = link_find(l, ip, port), *old;

	if (k != NULL)
		return k;
	if (l->count >= l->conf.links_max) {
		old = link_idlest(l);
		if (old == NULL)
			return NULL;
		link_free(old);
	}
	k = calloc(1, sizeof(*k));
	if (k == NULL)
		return NULL;
	k->calls = calls_new(l->conf.loop, l->conf.pending_max, l->conf.answer_max);
	if (k->calls == NULL) {
		free(k);
		return NULL;
	}
	k->pool = l;
	k->port = port;
	snprintf(k->ip, sizeof(k->ip), "%s", ip);
	k->next = l->list;
	l->list = k;
	l->count++;
	return k;
}

static void
call_wait(struct link *k, struct link_call *c, struct span body)
{
	struct link_call **at = &k->waiting;

	buf_init(&c->body, body.len + 1);
	c->body.secret = true;			/* a token, a key */
	buf_putspan(&c->body, body);
	if (c->body.failed) {
		call_doom(c, TV_EUNREACH);
		return;
	}
	while (*at != NULL)
		at = &(*at)->next;
	*at = c;
}

struct link_call *
links_call(struct links *l, const char *ip, uint16_t port, uint16_t type, struct span body,
    struct mono timeout, link_done *done, void *ctx)
{
	struct link *k = link_get(l, ip, port);
	struct link_call *c = k == NULL ? NULL : calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	*c = (struct link_call){ .link = k, .type = type, .timeout = timeout, .done = done, .ctx = ctx };
	if (k->state == LINK_UP) {
		call_send(k, c, body);
		return c;
	}
	if (k->state == LINK_DOWN) {
		bool resting = k->failed_at.ns != 0 &&
		    mono_before(clock_mono(), mono_add(k->failed_at, MONO_MS(LINK_REDIAL_MS)));

		if (resting || !link_dial(k, 0)) {
			call_doom(c, TV_EUNREACH);
			return c;
		}
	}
	call_wait(k, c, body);
	return c;
}

/* Takes c off a list if it is there. */
static bool
unlist(struct link_call **list, struct link_call *c)
{
	for (; *list != NULL; list = &(*list)->next)
		if (*list == c) {
			*list = c->next;
			return true;
		}
	return false;
}

void
links_cancel(struct link_call *c)
{
	struct link *k = c->link;

	if (!unlist(&k->pool->doomed, c) && !unlist(&k->waiting, c))
		calls_cancel(k->calls, k->chan, c->id);
	buf_done(&c->body);
	free(c);
}

bool
links_is_up(const struct links *l, const char *ip, uint16_t port)
{
	const struct link *k = link_find(l, ip, port);

	return k != NULL && k->state == LINK_UP;
}

void
links_stats(const struct links *l, struct links_stats *out)
{
	*out = l->stats;
}

/* -- does the peer still live? -- */

static void
probed(void *ctx, enum tv_err err, struct span body)
{
	struct link *k = ctx;

	(void)body;
	k->probing = false;
	if (err == TV_OK)
		k->due = false;
}

/* A question that any rpcd answers by itself and at once, whatever its version. */
static void
probe(struct link *k)
{
	static const uint8_t no_args[] = { 0x90 };	/* [] */
	const struct op_request q = { .op = OP_CATALOG_DATACENTERS, .args = span_of(no_args, sizeof(no_args)) };
	struct buf b = BUF_INIT(256);
	enum tv_err err;

	op_request_write(&b, &q);
	if (!k->probing)
		k->probing = calls_start(k->calls, k->chan, MSG_OP_FINAL, buf_span(&b), MONO_NEVER, probed, k,
		    &err) != 0;
	buf_done(&b);
}

/* Calls that others wait for. */
static unsigned
pending(const struct link *k)
{
	return calls_pending(k->calls) - k->probing;
}

static void
look(struct link *k, struct mono now)
{
	const struct silence_conf conf = { ASK_AFTER, PATIENCE, LOOKS_APART };

	switch (silence_look(&k->silence, &conf, now, chan_signs(k->chan))) {
	case SILENCE_ASK:
		probe(k);
		break;
	case SILENCE_DEAD:
		log_warn("rpc", "rpcd at %s:%u has not answered for 5 s (is it stopped, or does its machine swap?): "
		    "the link to it is closed", k->ip, k->port);
		chan_close(k->chan, TV_ETIMEOUT);
		break;
	default:
		break;
	}
}

/*
 * The kernel keeps the connection of a frozen rpcd up.  Without this, requests would go to it as long as it is frozen,
 * and wait in vain.
 */
static void
look_cb(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct links *l = w->data;
	struct mono now = clock_mono();
	bool some = false;

	(void)revents;
	for (struct link *k = l->list; k != NULL; k = k->next) {
		if (k->state != LINK_DIALING && pending(k) == 0)
			k->due = false;
		some |= k->due;
		if (k->due && k->state == LINK_UP)	/* a dial has its own timeout */
			look(k, now);
		else
			k->silence = (struct silence){ 0 };
	}
	if (!some)
		ev_timer_stop(loop, w);
}

bool
links_sent(const struct link_call *c)
{
	return c->id != 0;
}

void
links_expect(struct link_call *c)
{
	struct links *l = c->link->pool;

	c->link->due = true;
	if (!ev_is_active(&l->look_timer))
		ev_timer_again(l->conf.loop, &l->look_timer);
}

static void
idle_cb(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct links *l = w->data;
	struct mono limit = mono_sub(clock_mono(), l->conf.idle_timeout);

	(void)loop;
	(void)revents;
	for (struct link *k = l->list; k != NULL; k = k->next)
		if (k->state == LINK_UP && calls_pending(k->calls) == 0 && mono_before(k->used_at, limit))
			chan_close(k->chan, TV_OK);
}

struct links *
links_new(const struct links_conf *conf)
{
	struct links *l = calloc(1, sizeof(*l));
	double every = mono_seconds(conf->idle_timeout) / 4;

	if (l == NULL)
		return NULL;
	l->conf = *conf;
	ev_init(&l->doom_timer, doom_cb);
	ev_timer_init(&l->look_timer, look_cb, 0., LOOK_EVERY_S);
	l->doom_timer.data = l->look_timer.data = l;
	ev_timer_init(&l->idle_timer, idle_cb, every, every);
	l->idle_timer.data = l;
	ev_timer_start(conf->loop, &l->idle_timer);
	return l;
}

void
links_free(struct links *l)
{
	if (l == NULL)
		return;
	l->closing = true;
	ev_timer_stop(l->conf.loop, &l->look_timer);
	ev_timer_stop(l->conf.loop, &l->idle_timer);
	for (struct link *k = l->list; k != NULL; k = k->next) {
		if (k->chan == NULL)
			continue;
		chan_free(k->chan);
		link_closed(k, k->chan, TV_ECLOSED);
	}
	doom_cb(l->conf.loop, &l->doom_timer, 0);
	ev_timer_stop(l->conf.loop, &l->doom_timer);
	while (l->list != NULL)
		link_free(l->list);
	free(l);
}
