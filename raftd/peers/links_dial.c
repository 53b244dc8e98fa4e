/* Links that we dialled: on these we send, and ask. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/addr.h"
#include "common/base/clock.h"
#include "common/net/msg.h"
#include "raftd/engine/engine.h"
#include "raftd/peers/clock_offset.h"
#include "raftd/peers/fence.h"
#include "raftd/peers/links_int.h"
#include "raftd/peers/state_version.h"

#define STRANGERS_MAX (PEERS_MAX - RAFT_SERVERS_MAX)	/* known by gossip or their hello only: any server that has the cluster key
							 * can make up any number, the configuration's must find a place */
#define CALLS_MAX 64
#define REDIALS 2			/* without backoff; the first may still meet the socket of a process that is just ending */
#define REDIALS_APART MONO_S(1)		/* also with a peer that closes each link */
#define TROUBLE_LASTS MONO_S(10)	/* a server is asked again every few seconds */

static enum tv_err dialled_frame(void *ctx, struct chan *c, const struct frame *f);

static const struct chan_events dialled_events = { dialled_frame, NULL, NULL };

void
peer_set_state(struct dialled *p, bool proven, bool forming)
{
	bool was = p->pub.proven;

	if (!proven)
		links_unsend(p);
	p->pub.proven = proven;
	p->pub.forming = forming;
	if (was == proven || p->pub.id == 0)
		return;
	if (proven)
		log_debug("raft", "link with %s (%s) proven", p->pub.name, p->pub.addr);
	engine_reachable(p->l->d->engine, p->pub.id, proven);
	if (proven)
		p->l->hooks->proven(p->l->d);
}

/* One line per reason and minute, so that a misconfigured server does not fill the log. */
static void
complain(struct dialled *p, const char *why)
{
	struct mono now = clock_mono();

	p->refused = now;
	if (strcmp(p->complaint, why) == 0 && mono_sub(now, p->complained).ns < MONO_S(60).ns)
		return;
	snprintf(p->complaint, sizeof(p->complaint), "%s", why);
	p->complained = now;
	log_warn("raft", "refused server %s at %s: %s", p->pub.name, p->pub.addr, why);
}

/* The server that answers is not the one that was there before. */
static void
tell_other(const struct dialled *p, const struct hello *h, char *why, size_t cap)
{
	char name[128];

	(void)log_safe(span_str(h->name), name, sizeof(name));
	if (strcmp(h->name, p->pub.name) == 0)
		snprintf(why, cap, "%s has node id %s there now, not %s: its data directory was emptied or replaced. It joins as a new "
		    "server; if the old one is still listed, remove it: clusterctl raft remove-peer %s", name, h->uuid,
		    p->pub.uuid, p->pub.uuid);
	else
		snprintf(why, cap, "another server answers there: %s (node id %s)", name, h->uuid);
}

/* The answer to our hello. */
static enum tv_err
judge_answer(struct dialled *p, const struct hello *h)
{
	struct raftd *d = p->l->d;
	char why[512];
	enum hello_verdict verdict;
	raft_id id = raft_id_of(h->uuid, h->store_id);

	if (strcmp(h->uuid, p->pub.uuid) != 0) {
		tell_other(p, h, why, sizeof(why));
		complain(p, why);
		return TV_EAUTH;
	}
	p->answered = clock_mono();
	p->l->hooks->heard(d, h);
	fence_heard(d, h);
	verdict = state_version_check(d, h, why, sizeof(why));
	if (verdict == HELLO_REFUSE) {
		peer_set_state(p, false, false);
		complain(p, why);
		return TV_EPERM;
	}
	if (id != p->pub.id) {
		peer_set_state(p, false, false);
		p->pub.id = id;
	}
	p->pub.hello = *h;
	p->complaint[0] = '\0';
	if (verdict == HELLO_OK)
		links_heed_marks(p->l, h);
	peer_set_state(p, verdict == HELLO_OK, true);
	return TV_OK;
}

/* Once, until it has become right; at the threshold itself nothing is said again and again. */
static void
heed_clock(struct dialled *p, const struct hello *h, struct mono now)
{
	uint64_t off;

	p->pub.clock_known = clock_offset(h->clock_ms, (uint64_t)(clock_wall_ns() / 1000000), mono_sub(now, p->pinged),
	    &p->pub.clock_ms);
	if (!p->pub.clock_known)
		return;
	off = clock_offset_of_most(&p->pub.clock_ms, 1);
	if (off > CLOCK_OFFSET_MAX_MS && !p->clock_told) {
		log_warn("raft", "the clock of %s (%s) is %.1f s %s this server's: one of the two is wrong; servers need NTP. Tokens end, "
		    "and logins are judged, by these clocks", p->pub.name, p->pub.addr, (double)off / 1000,
		    p->pub.clock_ms > 0 ? "ahead of" : "behind");
		p->clock_told = true;
	} else if (off < CLOCK_OFFSET_MAX_MS / 2 && p->clock_told) {
		log_info("raft", "the clocks of %s (%s) and of this server agree again", p->pub.name, p->pub.addr);
		p->clock_told = false;
	}
}

static void
on_pong(void *ctx, enum tv_err err, struct span body)
{
	struct dialled *p = ctx;
	struct hello h;

	p->pinging = false;
	if (err == TV_OK)
		err = hello_read(body, &h);
	if (err == TV_OK)
		err = judge_answer(p, &h);
	if (err == TV_OK)
		heed_clock(p, &h, clock_mono());
	if (err != TV_OK && err != TV_ECLOSED && p->chan != NULL)
		chan_close(p->chan, err);
}

void
peer_ping(struct dialled *p)
{
	struct buf b = BUF_INIT(4096);
	enum tv_err err;

	if (p->chan == NULL || p->pinging)
		return;
	links_hello(p->l, &b, p->pub.id);
	p->pinged = clock_mono();
	p->pinging = true;
	if (calls_start(p->calls, p->chan, MSG_RAFT_HELLO, buf_span(&b), p->l->d->conf.hello_timeout,
	    on_pong, p, &err) == 0)
		p->pinging = false;
	buf_done(&b);
}

static void
dialled_up(void *ctx, struct chan *c)
{
	struct dialled *p = ctx;

	p->chan = c;
	p->broke_off = false;
	p->offer = (struct offer){ 0 };
	p->pinging = false;
	peer_ping(p);			/* its answer is the peer's hello */
}

void
peer_look(struct links *l, const char *uuid)
{
	const struct dialled *p = links_dialled(l, uuid);

	if (p != NULL && p->dialer != NULL && p->chan == NULL && p->pub.id != 0 && dialer_nobody(p->dialer) &&
	    !callers_have(l, uuid))
		engine_gone(l->d->engine, p->pub.id);
}

/* The peer that closed the link may have ended: then no process listens there any more. */
static void
dial_again(struct dialled *p, bool closed)
{
	struct mono now = clock_mono();

	if (closed && (p->redialled.ns == 0 || !mono_before(now, mono_add(p->redialled, REDIALS_APART)))) {
		p->redials = REDIALS;
		p->redialled = now;
	} else if (dialer_nobody(p->dialer)) {
		p->redials = 0;
	}
	if (p->redials == 0)
		return;
	p->redials--;
	dialer_wake(p->dialer);
}

static void
dialled_down(void *ctx, enum tv_err why)
{
	struct dialled *p = ctx;
	bool closed = p->chan != NULL && p->pub.proven && why == TV_ECLOSED;

	if (p->chan != NULL)
		log_debug("raft", "link to %s (%s) down: %s", p->pub.name, p->pub.addr, tv_strerror(why));
	else
		p->broke_off = why == TV_ECLOSED || why == TV_EAUTH || why == TV_EFORMAT;
	p->chan = NULL;
	calls_fail_all(p->calls, TV_ECLOSED);
	peer_set_state(p, false, false);
	links_sync(p->l);		/* perhaps it has another address by now */
	dial_again(p, closed);
	peer_look(p->l, p->pub.uuid);
}

static enum tv_err
dialled_frame(void *ctx, struct chan *c UNUSED, const struct frame *f)
{
	struct dialled *p = ctx;

	/* The other side greets as well; its answer to our question says the same. */
	if (f->type == MSG_RAFT_HELLO && !(f->flags & FRAME_REPLY))
		return TV_OK;
	if (f->type == MSG_RAFT_NOTICE && !(f->flags & FRAME_REPLY))
		return p->pub.hello.uuid[0] != '\0' ? fence_notice(p->l->d, &p->pub.hello, f->body) : TV_OK;
	return f->flags & FRAME_REPLY ? calls_frame(p->calls, f) : TV_EFORMAT;
}

void
peer_stop(struct dialled *p)
{
	if (p->dialer != NULL)
		dialer_free(p->dialer);
	p->dialer = NULL;
	p->chan = NULL;
	calls_fail_all(p->calls, TV_ECLOSED);
	peer_set_state(p, false, false);
}

static void
peer_dial(struct dialled *p)
{
	struct dialer_conf conf = {
		.on_up = dialled_up, .on_down = dialled_down, .backoff_max = MONO_S(2),
	};
	char ip[ADDR_IP_BYTES], name[300];
	struct addr to;

	if (!addr_parse_text(span_str(p->pub.addr), &to))
		return;
	snprintf(name, sizeof(name), "raft link to %s", p->pub.name);
	conf.chan = links_chan_conf(p->l, &dialled_events, p, name);
	conf.chan.initiator = true;
	if (!cluster_seals(&p->l->d->cluster))
		conf.chan.noise = NULL;
	conf.ip = addr_ip(&to, ip);
	conf.port = to.port;
	p->dialer = dialer_new(&conf);
}

void
peer_free(struct dialled *p)
{
	peer_stop(p);
	calls_free(p->calls);
	log_window_free(p->window);
	free(p);
}

static bool
is_seated(struct links *l, const char *uuid)
{
	const struct raft_config *conf = engine_config(l->d->engine);

	for (unsigned i = 0; i < conf->count; i++)
		if (strcmp(conf->servers[i].uuid, uuid) == 0)
			return true;
	return false;
}

/* Is there a place for this server, which has none yet? */
static bool
has_place(struct links *l, const char *uuid)
{
	unsigned strangers = 0;

	if (l->count == PEERS_MAX)
		return false;
	if (is_seated(l, uuid))
		return true;
	for (unsigned i = 0; i < l->count; i++)
		strangers += !is_seated(l, l->peers[i]->pub.uuid);
	return strangers < STRANGERS_MAX;
}

/* Finds or makes the peer, and follows a change of its address. */
struct dialled *
peer_want(struct links *l, const char *uuid, const char *name, const char *addr)
{
	struct dialled *p = links_dialled(l, uuid);

	/* At our own address is only ourself: the server that had it before is gone. */
	if (strcmp(uuid, l->d->id.uuid) == 0 || addr[0] == '\0' || strcmp(addr, l->d->id.addr) == 0 || l->closed)
		return NULL;
	if (p == NULL) {
		if (!has_place(l, uuid))
			return NULL;
		p = calloc(1, sizeof(*p));
		if (p == NULL)
			return NULL;
		p->l = l;
		p->calls = calls_new(l->d->loop, CALLS_MAX, 1u << 20);
		p->window = engine_window(l->d->engine);
		if (p->calls == NULL || p->window == NULL) {
			calls_free(p->calls);
			log_window_free(p->window);
			free(p);
			return NULL;
		}
		snprintf(p->pub.uuid, sizeof(p->pub.uuid), "%s", uuid);
		l->peers[l->count++] = p;
	}
	p->wanted = true;
	if (name[0] != '\0')
		snprintf(p->pub.name, sizeof(p->pub.name), "%s", name);
	/* While it answers where it is, another server claims its node id there. */
	if (strcmp(p->pub.addr, addr) != 0 && !p->pub.proven) {
		snprintf(p->pub.addr, sizeof(p->pub.addr), "%s", addr);
		peer_stop(p);
	}
	if (p->dialer == NULL)
		peer_dial(p);
	return p;
}

enum tv_err
links_ask(struct links *l, const char *uuid, uint16_t type, struct span body, struct mono timeout,
    calls_done *done, void *ctx)
{
	struct dialled *p = links_dialled(l, uuid);
	enum tv_err err = TV_EUNREACH;

	if (p == NULL || p->chan == NULL || !(p->pub.proven || p->pub.forming))
		return TV_EUNREACH;
	return calls_start(p->calls, p->chan, type, body, timeout, done, ctx, &err) != 0 ? TV_OK : err;
}

void
links_wake(struct links *l, const char *uuid)
{
	struct dialled *p = links_dialled(l, uuid);

	if (p != NULL && p->dialer != NULL && p->chan == NULL)
		dialer_wake(p->dialer);
}

/* alone: no server has been proven, so it may be this one's key that is wrong. */
static const char *
trouble_of(const struct dialled *p, bool alone)
{
	if (p->pub.proven)
		return NULL;
	if (p->broke_off)
		return alone ? "one of the two has another server.key, for it closes the connection in the handshake" :
		    "it has another server.key, for it closes the connection in the handshake";
	return p->complaint[0] != '\0' && mono_sub(clock_mono(), p->refused).ns < TROUBLE_LASTS.ns ? p->complaint : NULL;
}

void
links_trouble(struct links *l, struct buf *out)
{
	char name[128];
	bool alone = true;

	for (unsigned i = 0; i < l->count; i++)
		alone = alone && !l->peers[i]->pub.proven;
	for (unsigned i = 0; i < l->count; i++) {
		const struct dialled *p = l->peers[i];
		const char *why = trouble_of(p, alone);

		if (why != NULL)
			buf_printf(out, "%scannot be linked with %s (%s): %s", out->len > 0 ? "; " : "",
			    log_safe(span_str(p->pub.name), name, sizeof(name)), p->pub.addr, why);
	}
}
