/*
 * Links to other nodes' rpcds, see link_client.h.
 *
 * A link is DOWN, DIALING or UP.  Calls that come while it dials wait in a list; if the dial fails they
 * end with TV_EUNREACH, because nothing was sent.  After a failed dial the link fails at once for
 * a short while, so that a burst of requests does not become a burst of connects.
 *
 * The end of a call may begin others, which may make any link give way, the one that the call was on too.  Therefore
 * calls that fail end from the loop alone (doom_cb), and a link that gave way lives on, off the list, as long as calls
 * or functions on the stack use it.
 *
 * A link whose key has left the ring is off the list as well, but in another one, with its channel: what is under way
 * ends there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/calls.h"
#include "common/net/greet.h"
#include "common/net/msg.h"
#include "common/net/silence.h"
#include "common/record/ops.h"
#include "rpcd/route/link_client.h"

#define LINK_REDIAL_MS 250
#define LOOK_EVERY_S 1.0
#define ASK_AFTER MONO_S(2)
#define PATIENCE MONO_S(5)
#define LOOKS_APART MONO_S(3)
#define STANDINGS_MAX 4096		/* addresses that are remembered */
#define UNPROVEN_LEAST 8u

enum link_state { LINK_DOWN, LINK_DIALING, LINK_UP };

struct call_list {
	TAILQ_HEAD(, link_call) calls;	/* oldest first */
	unsigned count;
};

struct link {
	struct link_client *pool;
	struct link *next;
	char ip[46];
	uint16_t port;
	unsigned users;			/* calls of it, and functions on the stack */
	bool gone;			/* off the list: it ends with its last user */
	bool proven;			/* the address proved itself, on this link or before */
	enum link_state state;
	struct chan *chan;		/* while not DOWN */
	unsigned psk;			/* key of this attempt: the primary one first */
	struct calls *calls;
	struct call_list waiting;	/* oldest first */
	bool due;			/* an answer that should come at once is awaited, no probe was answered since */
	bool probing;			/* a probe is in `calls` */
	struct silence silence;
	struct mono used_at;
	bool retired;			/* in pool->retired, and gone; the channel is a user */
	ev_timer hello;			/* runs from the handshake to the HELLO */
	ev_timer grace;			/* runs while retired */
};

struct link_call {
	struct link *link;		/* a user of it */
	struct call_list *list;		/* link->waiting, pool->doomed, or NULL: in link->calls */
	TAILQ_ENTRY(link_call) entry;
	uint64_t id;			/* 0 while waiting */
	uint16_t type;
	struct mono timeout;
	struct mono sent_at;
	bool expected;			/* its time counts */
	struct buf body;		/* while waiting */
	enum tv_err why;		/* while doomed */
	link_done *done;
	void *ctx;
};

struct link_client {
	struct link_client_conf conf;
	struct link *list;
	struct link *retired;		/* by next */
	unsigned count;
	unsigned unproven, unproven_max;
	struct standings *standings;
	bool closing;
	struct call_list doomed;	/* to be ended from the loop */
	ev_timer doom_timer, idle_timer;
	ev_timer look_timer;		/* runs while something is due */
	struct link_client_stats stats;
};

static enum tv_err link_frame(void *ctx, struct chan *c, const struct frame *f);
static void link_open(void *ctx, struct chan *c);
static void link_closed(void *ctx, struct chan *c, enum tv_err why);

static const struct chan_events link_events = { link_frame, link_open, link_closed };

/* -- who uses a link -- */

static void
link_hold(struct link *k)
{
	k->users++;
}

static void
link_release(struct link *k)
{
	TV_ASSERT(k->users > 0);
	if (--k->users > 0 || !k->gone)
		return;
	TV_ASSERT(k->chan == NULL && TAILQ_EMPTY(&k->waiting.calls));
	calls_free(k->calls);
	free(k);
}

/* -- calls -- */

static void
list_add(struct call_list *list, struct link_call *c)
{
	c->list = list;
	TAILQ_INSERT_TAIL(&list->calls, c, entry);
	list->count++;
}

static void
list_remove(struct link_call *c)
{
	TAILQ_REMOVE(&c->list->calls, c, entry);
	c->list->count--;
	c->list = NULL;
}

/* Calls that others wait for. */
static unsigned
pending(const struct link *k)
{
	return calls_pending(k->calls) - k->probing;
}

static void
close_if_done(struct link *k)
{
	if (k->retired && k->chan != NULL && pending(k) == 0)
		chan_close(k->chan, TV_OK);
}

static void
call_free(struct link_call *c)
{
	struct link *k = c->link;

	buf_done(&c->body);
	free(c);
	close_if_done(k);
	link_release(k);
}

/* Ends the call; the caller has taken it off every list. */
static void
call_end(struct link_call *c, enum tv_err err, struct span body)
{
	link_done *done = c->done;
	void *ctx = c->ctx;

	call_free(c);
	done(ctx, err, body);
}

/* Ends the call soon, from the loop. */
static void
call_doom(struct link_call *c, enum tv_err why)
{
	struct link_client *l = c->link->pool;

	c->why = why;
	list_add(&l->doomed, c);
	if (!ev_is_active(&l->doom_timer)) {
		ev_timer_set(&l->doom_timer, 0., 0.);
		ev_timer_start(l->conf.loop, &l->doom_timer);
	}
}

static void
call_answered(void *ctx, enum tv_err err, struct span body)
{
	struct link_call *c = ctx;

	if (err != TV_OK) {
		call_doom(c, err);
		return;
	}
	if (c->expected)
		histogram_add(&c->link->pool->stats.took, mono_sub(clock_mono(), c->sent_at));
	call_end(c, err, body);
}

/* Those that are doomed by then: what their ends begin, and fails at once too, has its turn after everybody else's. */
static void
doom_cb(struct ev_loop *loop, ev_timer *w, int revents UNUSED)
{
	struct link_client *l = w->data;
	struct link_call *c;

	for (unsigned n = l->doomed.count; n > 0 && (c = TAILQ_FIRST(&l->doomed.calls)) != NULL; n--) {
		list_remove(c);
		call_end(c, c->why, SPAN_NONE);
	}
	if (!TAILQ_EMPTY(&l->doomed.calls) && !ev_is_active(w)) {
		ev_timer_set(w, 0., 0.);
		ev_timer_start(loop, w);
	}
}

static void
call_send(struct link *k, struct link_call *c, struct span body)
{
	enum tv_err err = TV_OK;

	k->used_at = c->sent_at = clock_mono();
	k->pool->stats.calls++;
	c->id = calls_start(k->calls, k->chan, c->type, body, c->timeout, call_answered, c, &err);
	if (c->id == 0)
		call_doom(c, TV_EUNREACH);
}

static void
call_wait(struct link *k, struct link_call *c, struct span body)
{
	buf_init(&c->body, body.len + 1);
	c->body.secret = true;			/* a token, a key */
	buf_putspan(&c->body, body);
	if (c->body.failed || k->waiting.count >= k->pool->conf.pending_max)
		call_doom(c, TV_EUNREACH);
	else
		list_add(&k->waiting, c);
}

/* -- links going up and down -- */

static void
link_set_proven(struct link *k)
{
	standing_proved(k->pool->standings, k->ip, k->port, clock_mono());
	if (k->proven)
		return;
	k->proven = true;
	k->pool->unproven--;
}

/* The peer said HELLO. */
static void
link_up(struct link *k)
{
	struct link_call *c;

	ev_timer_stop(k->pool->conf.loop, &k->hello);
	k->state = LINK_UP;
	k->pool->stats.open++;
	link_set_proven(k);
	while ((c = TAILQ_FIRST(&k->waiting.calls)) != NULL) {
		list_remove(c);
		call_send(k, c, buf_span(&c->body));
		if (c->id != 0)
			buf_done(&c->body);
	}
}

static void
link_open(void *ctx, struct chan *ch)
{
	struct link *k = ctx;

	greet_send(ch, "rpcd", k->pool->conf.node_id);
	ev_timer_set(&k->hello, mono_seconds(k->pool->conf.dial_timeout), 0.);
	ev_timer_start(k->pool->conf.loop, &k->hello);
}

static void
hello_cb(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct link *k = w->data;

	log_debug("rpc", "%s:%u accepted the connection and did not identify itself", k->ip, k->port);
	chan_close(k->chan, TV_ETIMEOUT);
}

static void link_retire(struct link *k);

static enum tv_err
link_frame(void *ctx, struct chan *ch, const struct frame *f)
{
	struct link *k = ctx;
	enum tv_err err;

	link_hold(k);
	if (k->state == LINK_DIALING) {
		err = greet_check(ch, f);
		if (err == TV_OK)
			link_up(k);
	} else if (!(f->flags & FRAME_REPLY)) {
		err = TV_EFORMAT;	/* we only ask on this link */
	} else if (f->type == MSG_LINK_RETIRED && f->id == 0) {
		link_retire(k);
		err = TV_OK;
	} else {
		err = calls_frame(k->calls, f);
	}
	link_release(k);
	return err;
}

/* It has no channel any more. */
static void
link_down(struct link *k, enum tv_err why)
{
	struct link_client *l = k->pool;
	struct link_call *c;

	ev_timer_stop(l->conf.loop, &k->hello);
	if (k->state == LINK_UP) {
		l->stats.open--;
		if (why == TV_ETIMEOUT)
			standing_failed(l->standings, k->ip, k->port, clock_mono());
	} else if (k->state == LINK_DIALING) {
		l->stats.failed++;
		if (!k->gone)
			standing_failed(l->standings, k->ip, k->port, clock_mono());
		log_debug("rpc", "no link to %s:%u: %s", k->ip, k->port, tv_strerror(why));
	}
	k->state = LINK_DOWN;
	k->chan = NULL;
	calls_fail_all(k->calls, TV_ECLOSED);
	while ((c = TAILQ_FIRST(&k->waiting.calls)) != NULL) {
		list_remove(c);
		call_doom(c, TV_EUNREACH);
	}
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

	return k->state == LINK_DIALING && !ev_is_active(&k->hello) && why == TV_ECLOSED && !k->pool->closing &&
	    noise != NULL && k->psk + 1 < noise->psk_count && link_dial(k, k->psk + 1);
}

/* Retired, and down now. */
static void
link_part(struct link *k)
{
	struct link **at = &k->pool->retired;

	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	k->pool->stats.retiring--;
	k->retired = false;
	ev_timer_stop(k->pool->conf.loop, &k->grace);
	link_release(k);
}

static void
link_closed(void *ctx, struct chan *ch UNUSED, enum tv_err why)
{
	struct link *k = ctx;

	k->chan = NULL;
	if (link_next_key(k, why))
		return;
	link_down(k, why);
	if (k->retired)
		link_part(k);
}

static bool
link_dial(struct link *k, unsigned psk)
{
	struct link_client *l = k->pool;
	char name[64];
	struct chan_conf conf = {
		.loop = l->conf.loop, .events = &link_events, .ctx = k, .name = name,
		.body_max = l->conf.answer_max, .out_max = l->conf.out_max,
		.noise = l->conf.noise, .initiator = true, .psk = psk, .open_timeout = l->conf.dial_timeout,
		.secret = true,
	};

	snprintf(name, sizeof(name), "link %s:%u", k->ip, k->port);
	k->psk = psk;
	k->used_at = clock_mono();
	l->stats.dialled++;
	k->chan = chan_dial_tcp(k->ip, k->port, &conf);
	if (k->chan == NULL) {
		l->stats.failed++;
		standing_failed(l->standings, k->ip, k->port, clock_mono());
		return false;
	}
	k->state = LINK_DIALING;
	return true;
}

/* -- the set of links -- */

static void
link_unlist(struct link *k)
{
	struct link **at = &k->pool->list;

	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	k->pool->count--;
	k->pool->unproven -= !k->proven;
	k->gone = true;
}

/* Off the list, and its calls end. */
static void
link_remove(struct link *k)
{
	link_unlist(k);
	link_hold(k);
	if (k->chan != NULL) {
		chan_free(k->chan);
		link_down(k, TV_ECLOSED);
	}
	link_release(k);
}

/* How gladly a link is given up, the most so 1; 0: not at all. */
static unsigned
expendable(const struct link *k, bool unproven_only)
{
	if (unproven_only && k->proven)
		return 0;
	if (k->state == LINK_DOWN)
		return k->proven ? 2 : 1;
	if (k->state == LINK_UP)
		return calls_pending(k->calls) == 0 ? 3 : 0;
	return k->proven ? 0 : 4;
}

/* Of those given up most gladly the one that was not used for longest; NULL: all are needed. */
static struct link *
who_gives_way(const struct link_client *l, bool unproven_only)
{
	struct link *best = NULL;
	unsigned least = 0;

	for (struct link *k = l->list; k != NULL; k = k->next) {
		unsigned how = expendable(k, unproven_only);

		if (how == 0 || (best != NULL && (how > least ||
		    (how == least && !mono_before(k->used_at, best->used_at)))))
			continue;
		best = k;
		least = how;
	}
	return best;
}

static bool
make_room(struct link_client *l, bool proven)
{
	bool crowd = !proven && l->unproven >= l->unproven_max;
	struct link *k;

	if (!crowd && l->count < l->conf.links_max)
		return true;
	k = who_gives_way(l, crowd);
	if (k == NULL)
		return false;
	l->stats.evicted++;
	link_remove(k);
	return true;
}

/* -- keys that leave the ring -- */

static void
grace_cb(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct link *k = w->data;

	chan_close(k->chan, TV_ECLOSED);
}

/* An open one.  No more of them are kept than links may be: a peer that tells us so again and again gains nothing. */
static void
link_retire(struct link *k)
{
	struct link_client *l = k->pool;

	if (k->retired)
		return;
	l->stats.retired++;
	if (l->stats.retiring >= l->conf.links_max) {
		chan_close(k->chan, TV_ECLOSED);
		return;
	}
	link_unlist(k);
	link_hold(k);
	k->retired = true;
	k->next = l->retired;
	l->retired = k;
	l->stats.retiring++;
	log_debug("rpc", "the key of the link to %s:%u has left the ring: it closes when %u calls have ended", k->ip,
	    k->port, pending(k));
	ev_timer_set(&k->grace, mono_seconds(l->conf.retire_time), 0.);
	ev_timer_start(l->conf.loop, &k->grace);
	close_if_done(k);
}

/* Nothing was sent yet: the calls wait on. */
static void
link_dial_anew(struct link *k)
{
	ev_timer_stop(k->pool->conf.loop, &k->hello);
	chan_free(k->chan);
	if (!link_dial(k, 0))
		link_down(k, TV_EUNREACH);
}

void
link_client_rekeyed(struct link_client *l)
{
	struct link *next;

	for (struct link *k = l->list; k != NULL; k = next) {
		next = k->next;
		if (k->chan == NULL || chan_key_stands(k->chan))
			continue;
		if (k->state == LINK_DIALING)
			link_dial_anew(k);
		else
			link_retire(k);
	}
}

static struct link *
link_find(const struct link_client *l, const char *ip, uint16_t port)
{
	struct link *k;

	for (k = l->list; k != NULL; k = k->next)
		if (k->port == port && strcmp(k->ip, ip) == 0)
			return k;
	return NULL;
}

static struct link *
link_get(struct link_client *l, const char *ip, uint16_t port)
{
	struct link *k = link_find(l, ip, port);
	bool proven;

	if (k != NULL)
		return k;
	proven = standing_is_proven(l->standings, ip, port);
	if (l->closing || !make_room(l, proven))
		return NULL;
	k = calloc(1, sizeof(*k));
	if (k == NULL)
		return NULL;
	k->calls = calls_new(l->conf.loop, l->conf.pending_max, l->conf.answer_max);
	if (k->calls == NULL) {
		free(k);
		return NULL;
	}
	TAILQ_INIT(&k->waiting.calls);
	k->pool = l;
	k->port = port;
	k->proven = proven;
	snprintf(k->ip, sizeof(k->ip), "%s", ip);
	ev_init(&k->hello, hello_cb);
	ev_init(&k->grace, grace_cb);
	k->hello.data = k->grace.data = k;
	k->next = l->list;
	l->list = k;
	l->count++;
	l->unproven += !proven;
	return k;
}

/* Did a dial fail a moment ago? */
static bool
link_rests(const struct link *k)
{
	struct mono failed_at = standing_failed_at(k->pool->standings, k->ip, k->port);

	return failed_at.ns != 0 && mono_before(clock_mono(), mono_add(failed_at, MONO_MS(LINK_REDIAL_MS)));
}

struct link_call *
link_client_call(struct link_client *l, const char *ip, uint16_t port, uint16_t type, struct span body,
    struct mono timeout, link_done *done, void *ctx)
{
	struct link *k = link_get(l, ip, port);
	struct link_call *c = k == NULL ? NULL : calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	*c = (struct link_call){ .link = k, .type = type, .timeout = timeout, .done = done, .ctx = ctx };
	link_hold(k);
	if (k->state == LINK_UP)
		call_send(k, c, body);
	else if (k->state == LINK_DOWN && (link_rests(k) || !link_dial(k, 0)))
		call_doom(c, TV_EUNREACH);
	else
		call_wait(k, c, body);
	return c;
}

void
link_client_cancel(struct link_call *c)
{
	if (c->list != NULL)
		list_remove(c);
	else
		calls_cancel(c->link->calls, c->link->chan, c->id);
	call_free(c);
}

bool
link_client_is_up(const struct link_client *l, const char *ip, uint16_t port)
{
	const struct link *k = link_find(l, ip, port);

	return k != NULL && k->state == LINK_UP;
}

enum standing
link_client_standing(const struct link_client *l, const char *ip, uint16_t port)
{
	return link_client_is_up(l, ip, port) ? STANDING_OPEN : standing_of(l->standings, ip, port, clock_mono());
}

void
link_client_probe(struct link_client *l, const char *ip, uint16_t port)
{
	struct link *k;

	if (link_client_standing(l, ip, port) > STANDING_UNKNOWN)
		return;
	k = link_get(l, ip, port);
	if (k != NULL && k->state == LINK_DOWN)
		(void)link_dial(k, 0);
}

void
link_client_stats(const struct link_client *l, struct link_client_stats *out)
{
	*out = l->stats;
	out->unproven = l->unproven;
	out->known = standings_count(l->standings);
}

/* -- does the peer still live? -- */

static void
probed(void *ctx, enum tv_err err, struct span body UNUSED)
{
	struct link *k = ctx;

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

static void
look_at_link(struct link *k, struct mono now)
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

/* Is something due on any of these? */
static bool
look_at(struct link *list, struct mono now)
{
	bool some = false;

	for (struct link *k = list; k != NULL; k = k->next) {
		if (k->state != LINK_DIALING && pending(k) == 0)
			k->due = false;
		some |= k->due;
		if (k->due && k->state == LINK_UP)	/* a dial has its own timeout */
			look_at_link(k, now);
		else
			k->silence = (struct silence){ 0 };
	}
	return some;
}

/*
 * The kernel keeps the connection of a frozen rpcd up.  Without this, requests would go to it as long as it is frozen,
 * and wait in vain.
 */
static void
look_cb(struct ev_loop *loop, ev_timer *w, int revents UNUSED)
{
	struct link_client *l = w->data;
	struct mono now = clock_mono();
	bool some = look_at(l->list, now);

	some |= look_at(l->retired, now);
	if (!some)
		ev_timer_stop(loop, w);
}

bool
link_client_sent(const struct link_call *c)
{
	return c->id != 0;
}

void
link_client_expect(struct link_call *c)
{
	struct link_client *l = c->link->pool;

	c->expected = true;
	c->link->due = true;
	if (!ev_is_active(&l->look_timer))
		ev_timer_again(l->conf.loop, &l->look_timer);
}

static void
idle_cb(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct link_client *l = w->data;
	struct mono limit = mono_sub(clock_mono(), l->conf.idle_timeout);

	for (struct link *k = l->list; k != NULL; k = k->next)
		if (k->state == LINK_UP && calls_pending(k->calls) == 0 && mono_before(k->used_at, limit))
			chan_close(k->chan, TV_OK);
}

struct link_client *
link_client_new(const struct link_client_conf *conf)
{
	struct link_client *l = calloc(1, sizeof(*l));
	double every = mono_seconds(conf->idle_timeout) / 4;
	unsigned quarter = conf->links_max / 4;

	if (l == NULL)
		return NULL;
	TAILQ_INIT(&l->doomed.calls);
	l->conf = *conf;
	l->standings = standings_new(STANDINGS_MAX);
	if (l->standings == NULL) {
		free(l);
		return NULL;
	}
	l->unproven_max = quarter < UNPROVEN_LEAST ? UNPROVEN_LEAST : quarter;
	ev_init(&l->doom_timer, doom_cb);
	ev_timer_init(&l->look_timer, look_cb, 0., LOOK_EVERY_S);
	l->doom_timer.data = l->look_timer.data = l;
	ev_timer_init(&l->idle_timer, idle_cb, every, every);
	l->idle_timer.data = l;
	ev_timer_start(conf->loop, &l->idle_timer);
	return l;
}

void
link_client_free(struct link_client *l)
{
	if (l == NULL)
		return;
	l->closing = true;
	ev_timer_stop(l->conf.loop, &l->look_timer);
	ev_timer_stop(l->conf.loop, &l->idle_timer);
	while (l->list != NULL)
		link_remove(l->list);
	while (l->retired != NULL) {
		struct link *k = l->retired;

		chan_free(k->chan);
		link_down(k, TV_ECLOSED);
		link_part(k);
	}
	while (!TAILQ_EMPTY(&l->doomed.calls))
		doom_cb(l->conf.loop, &l->doom_timer, 0);
	ev_timer_stop(l->conf.loop, &l->doom_timer);
	standings_free(l->standings);
	free(l);
}
