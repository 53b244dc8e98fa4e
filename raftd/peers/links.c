/* Links between servers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/net/dial.h"
#include "common/base/log.h"
#include "common/record/mpack.h"
#include "common/net/msg.h"
#include "common/net/noise.h"
#include "raftd/engine/engine.h"
#include "raftd/peers/fence.h"
#include "raftd/members/bootstrap.h"
#include "raftd/peers/gossip.h"
#include "raftd/peers/links.h"
#include "raftd/members/membership.h"
#include "raftd/members/recover.h"
#include "raftd/peers/sendq.h"
#include "raftd/snapshot/snapshots.h"
#include "raftd/peers/server_addr.h"
#include "raftd/serve/rpcd_watch.h"

#define OUT_MAX (64u << 20)
#define STRANGERS_MAX (PEERS_MAX - RAFT_SERVERS_MAX)	/* known by gossip or their hello only: whoever has the cluster key
							 * can make up any number, the configuration's must find a place */
#define CALLS_MAX 64
/* Accepted links that have not said hello: all but those of known servers, those, and of one address. */
#define UNPROVEN_MAX 128
#define UNPROVEN_KNOWN_MAX 64
#define UNPROVEN_SOURCE_MAX 32
#define SWEEP 0.5			/* seconds */
#define TROUBLE_LASTS MONO_S(10)	/* a server is asked again every few seconds */
#define FIRST_BYTES MONO_S(2)		/* of who dials us */

struct link {				/* accepted */
	struct stranger stranger;	/* first: see on_evict() */
	struct links *l;
	struct link *next;
	struct chan *chan;
	uint64_t number;		/* names it in questions */
	struct mono since;
	bool greeted, ok;
	struct mono doubted;		/* came while another server with its node id was up; 0: no */
	char uuid[37];
	raft_id id;
	struct hello hello;
};

struct dialled {
	struct peer pub;
	struct links *l;
	struct dialer *dialer;
	struct chan *chan;		/* while up */
	struct calls *calls;
	struct sendq out;		/* messages of the core */
	struct offer {			/* the entries that were given to the channel last */
		uint64_t first, last, term, mark;
	} offer;
	bool wanted;			/* mark of links_sync() */
	bool pinging;
	struct mono pinged, answered;
	char complaint[512];		/* last refusal that was logged; "" since it was proven */
	struct mono complained, refused;	/* when that was logged; when it happened last */
	bool broke_off;			/* the newest connection ended within the handshake */
};

struct links {
	struct raftd *d;
	struct listener *listener;
	struct noise_conf noise;
	struct link *accepted;
	struct dialled *peers[PEERS_MAX];
	unsigned count;
	uint64_t numbers;
	ev_timer sweep, sync;
	struct log_limit refused;
	bool closed, silent;
};

static enum tv_err accepted_frame(void *ctx, struct chan *c, const struct frame *f);
static void accepted_open(void *ctx, struct chan *c);
static void accepted_close(void *ctx, struct chan *c, enum tv_err why);
static enum tv_err dialled_frame(void *ctx, struct chan *c, const struct frame *f);

static const struct chan_events accepted_events = { accepted_frame, accepted_open, accepted_close };
static const struct chan_events dialled_events = { dialled_frame, NULL, NULL };

static struct chan_conf
chan_conf(struct links *l, const struct chan_events *events, void *ctx, const char *name)
{
	return (struct chan_conf){
		.loop = l->d->loop, .events = events, .ctx = ctx, .name = name,
		.body_max = FRAME_BODY_BYTES_MAX, .out_max = OUT_MAX,
		.noise = l->d->keys.raft != NULL ? &l->noise : NULL, .accept_clear = cluster_takes_clear(&l->d->cluster),
		.open_timeout = l->d->conf.hello_timeout, .first_timeout = FIRST_BYTES,
	};
}

/* -- hello -- */

static void
say_hello(struct links *l, struct chan *c, uint16_t flags, uint64_t id)
{
	struct buf *b = chan_begin(c, MSG_RAFT_HELLO, flags, id);

	if (b == NULL)
		return;
	hello_write(b, &l->d->id, l->d->cluster.datacenter, l->d->cluster.raft_port);
	(void)chan_end(c);
}

static struct dialled *
find(struct links *l, const char *uuid)
{
	for (unsigned i = 0; i < l->count; i++)
		if (strcmp(l->peers[i]->pub.uuid, uuid) == 0)
			return l->peers[i];
	return NULL;
}

static void
set_state(struct dialled *p, bool proven, bool forming)
{
	bool was = p->pub.proven;

	if (!proven)
		sendq_clear(&p->out);
	p->pub.proven = proven;
	p->pub.forming = forming;
	if (was == proven || p->pub.id == 0)
		return;
	if (proven)
		log_debug("raft", "link with %s (%s) proven", p->pub.name, p->pub.addr);
	engine_reachable(p->l->d->engine, p->pub.id, proven);
	if (proven)
		membership_poke(p->l->d->members);
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

/* Who answers is not who was there before. */
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
judge(struct dialled *p, const struct hello *h)
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
	forming_heard(d->forming, h);
	fence_heard(d, h);
	verdict = hello_check(&d->id, d->cluster.datacenter, h, why, sizeof(why));
	if (verdict == HELLO_REFUSE) {
		set_state(p, false, false);
		complain(p, why);
		return TV_EPERM;
	}
	if (id != p->pub.id) {
		set_state(p, false, false);
		p->pub.id = id;
	}
	p->pub.hello = *h;
	p->complaint[0] = '\0';
	set_state(p, verdict == HELLO_OK, true);
	forming_poke(d->forming);
	return TV_OK;
}

/* -- dialled links: we send -- */

static void
on_pong(void *ctx, enum tv_err err, struct span body)
{
	struct dialled *p = ctx;
	struct hello h;

	p->pinging = false;
	if (err == TV_OK)
		err = hello_read(body, &h);
	if (err == TV_OK)
		err = judge(p, &h);
	if (err != TV_OK && err != TV_ECLOSED && p->chan != NULL)
		chan_close(p->chan, err);
}

static void
ping(struct dialled *p)
{
	struct buf b = BUF_INIT(4096);
	enum tv_err err;

	if (p->chan == NULL || p->pinging)
		return;
	hello_write(&b, &p->l->d->id, p->l->d->cluster.datacenter, p->l->d->cluster.raft_port);
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
	ping(p);			/* its answer is the peer's hello */
}

static void
dialled_down(void *ctx, enum tv_err why)
{
	struct dialled *p = ctx;

	if (p->chan != NULL)
		log_debug("raft", "link to %s (%s) down: %s", p->pub.name, p->pub.addr, tv_strerror(why));
	else
		p->broke_off = why == TV_ECLOSED || why == TV_EAUTH || why == TV_EFORMAT;
	p->chan = NULL;
	calls_fail_all(p->calls, TV_ECLOSED);
	set_state(p, false, false);
	links_sync(p->l);		/* perhaps it has another address by now */
}

static enum tv_err
dialled_frame(void *ctx, struct chan *c, const struct frame *f)
{
	struct dialled *p = ctx;

	(void)c;
	/* The other side greets as well; its answer to our question says the same. */
	if (f->type == MSG_RAFT_HELLO && !(f->flags & FRAME_REPLY))
		return TV_OK;
	if (f->type == MSG_RAFT_NOTICE && !(f->flags & FRAME_REPLY))
		return p->pub.hello.uuid[0] != '\0' ? fence_notice(p->l->d, &p->pub.hello, f->body) : TV_OK;
	return f->flags & FRAME_REPLY ? calls_frame(p->calls, f) : TV_EFORMAT;
}

static void
peer_stop(struct dialled *p)
{
	if (p->dialer != NULL)
		dialer_free(p->dialer);
	p->dialer = NULL;
	p->chan = NULL;
	calls_fail_all(p->calls, TV_ECLOSED);
	set_state(p, false, false);
}

static void
peer_dial(struct dialled *p)
{
	struct dialer_conf conf = {
		.on_up = dialled_up, .on_down = dialled_down, .backoff_max = MONO_S(2),
	};
	char ip[46], name[300];

	if (!addr_split(p->pub.addr, ip, &conf.port))
		return;
	snprintf(name, sizeof(name), "raft link to %s", p->pub.name);
	conf.chan = chan_conf(p->l, &dialled_events, p, name);
	conf.chan.initiator = true;
	if (!cluster_seals(&p->l->d->cluster))
		conf.chan.noise = NULL;
	conf.ip = ip;
	p->dialer = dialer_new(&conf);
}

static void
peer_free(struct dialled *p)
{
	peer_stop(p);
	calls_free(p->calls);
	free(p);
}

static bool
is_seated(struct links *l, const char *uuid)
{
	const struct raft_config *conf = raft_config(engine_core(l->d->engine));

	for (unsigned i = 0; i < conf->count; i++)
		if (strcmp(conf->servers[i].uuid, uuid) == 0)
			return true;
	return false;
}

/* Is there a place for this server, who has none yet? */
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
static struct dialled *
peer_want(struct links *l, const char *uuid, const char *name, const char *addr)
{
	struct dialled *p = find(l, uuid);

	/* At our own address is only ourself: who had it before is gone. */
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
		if (p->calls == NULL) {
			free(p);
			return NULL;
		}
		snprintf(p->pub.uuid, sizeof(p->pub.uuid), "%s", uuid);
		l->peers[l->count++] = p;
	}
	p->wanted = true;
	if (name[0] != '\0')
		snprintf(p->pub.name, sizeof(p->pub.name), "%s", name);
	/* While it answers where it is, somebody else claims its node id there. */
	if (strcmp(p->pub.addr, addr) != 0 && !p->pub.proven) {
		snprintf(p->pub.addr, sizeof(p->pub.addr), "%s", addr);
		peer_stop(p);
	}
	if (p->dialer == NULL)
		peer_dial(p);
	return p;
}

/* -- accepted links: we receive -- */

static void
send_notice(struct link *k, unsigned why, const char *text)
{
	struct buf *b = chan_begin(k->chan, MSG_RAFT_NOTICE, 0, 0);

	if (b == NULL)
		return;
	mpw_array(b, 2);
	mpw_uint(b, why);
	mpw_cstr(b, text);
	(void)chan_end(k->chan);
}

/*
 * Does a server with this node id answer at another address (S62)?  A server that has just moved looks the same until
 * its old link is known to be dead: so the old address must have answered since the doubt arose.
 */
static enum hello_verdict
judge_twin(struct link *k, const struct hello *h, char *why, size_t cap)
{
	struct dialled *p = find(k->l, h->uuid);

	if (p == NULL || !p->pub.proven || strcmp(p->pub.addr, h->addr) == 0) {
		k->doubted = MONO_ZERO;
		return sources_is_copy(k->l->d, h->uuid, h->addr) ? HELLO_WAIT : HELLO_OK;
	}
	snprintf(why, cap, "its node id %s is that of %s at %s, which is up (is a data directory copied or shared?); "
	    "stop the daemons of the copy, give it an empty data_dir and start them", h->uuid, p->pub.name, p->pub.addr);
	if (k->doubted.ns == 0) {
		k->doubted = clock_mono();
		ping(p);
	}
	if (!mono_before(k->doubted, p->answered))
		return HELLO_WAIT;
	send_notice(k, NOTICE_TWIN, why);
	return HELLO_REFUSE;
}

static enum hello_verdict
judge_caller(struct link *k, const struct hello *h, char *why, size_t cap)
{
	struct raftd *d = k->l->d;
	enum hello_verdict verdict = hello_check(&d->id, d->cluster.datacenter, h, why, cap);

	return verdict == HELLO_OK ? judge_twin(k, h, why, cap) : verdict;
}

static enum tv_err
take_hello(struct link *k, const struct frame *f)
{
	struct raftd *d = k->l->d;
	struct hello h;
	char why[512], name[128];
	enum hello_verdict verdict;
	enum tv_err err = hello_read(f->body, &h);

	if (err != TV_OK)
		return err;
	if (k->greeted && strcmp(h.uuid, k->uuid) != 0)
		return TV_EFORMAT;
	if (!k->greeted && k->l->listener != NULL && !listener_proven(k->l->listener, &k->stranger))
		return TV_ECLOSED;
	forming_heard(d->forming, &h);
	fence_heard(d, &h);
	verdict = judge_caller(k, &h, why, sizeof(why));
	k->greeted = true;
	k->ok = verdict == HELLO_OK;
	k->hello = h;
	k->id = raft_id_of(h.uuid, h.store_id);
	memcpy(k->uuid, h.uuid, sizeof(k->uuid));
	/* Answered in any case: the other side shall be able to tell its operator why. */
	say_hello(k->l, k->chan, f->id != 0 ? FRAME_REPLY : 0, f->id);
	if (verdict == HELLO_REFUSE) {
		if (log_allow(&k->l->refused, "raft"))
			log_warn("raft", "refused server %s from %s: %s",
			    log_safe(span_str(h.name), name, sizeof(name)), chan_peer(k->chan), why);
		return TV_OK;
	}
	if (find(k->l, h.uuid) == NULL)
		(void)peer_want(k->l, h.uuid, h.name, h.addr);
	else if (k->ok)
		links_kick(k->l, h.uuid);	/* it is up: no need to wait until our next attempt is due */
	forming_poke(d->forming);
	return TV_OK;
}

static enum tv_err
take_raft(struct link *k, const struct frame *f)
{
	struct raftd *d = k->l->d;
	uint32_t max;
	struct raft_entry *entries = engine_scratch(d->engine, &max);
	struct raft_msg m;
	enum tv_err err;

	if (!k->ok || k->l->silent)
		return k->greeted ? TV_OK : TV_EFORMAT;	/* refused: dropped */
	err = raft_msg_read(f->body, &m, entries, max);
	if (err != TV_OK)
		return err;
	if (m.from != k->id)
		return TV_EAUTH;
	if (m.to != d->id.self)
		return TV_OK;				/* for the server whose disk this was */
	if (!forming_accepts(d->forming, &k->hello, &m))
		return TV_OK;
	engine_message(d->engine, &m);
	return TV_OK;
}

static enum tv_err
accepted_frame(void *ctx, struct chan *c, const struct frame *f)
{
	struct link *k = ctx;
	struct link_question q = { k->number, f->id, f->type };

	(void)c;
	if (f->type == MSG_RAFT_HELLO)
		return take_hello(k, f);
	if (!k->greeted)
		return TV_EFORMAT;
	switch (f->type) {
	case MSG_RAFT:
		return take_raft(k, f);
	case MSG_RAFT_BOOTSTRAP:
		return forming_question(k->l->d->forming, &k->hello, &q, f->body);
	case MSG_RAFT_REMOVE_ME:
		return k->ok ? membership_question(k->l->d->members, &k->hello, &q, f->body) : TV_EPERM;
	case MSG_RAFT_LOG_STATE:
		return k->ok ? recover_question(k->l->d->recover, &q, f->body) : TV_EPERM;
	case MSG_RAFT_SERVED:
		return k->ok ? unserved_question(k->l->d->unserved, &q, f->body) : TV_EPERM;
	default:
		return TV_EFORMAT;
	}
}

static void
accepted_open(void *ctx, struct chan *c)
{
	struct link *k = ctx;

	k->since = clock_mono();
	say_hello(k->l, c, 0, 0);
}

static void
accepted_close(void *ctx, struct chan *c, enum tv_err why)
{
	struct link *k = ctx, **at;

	(void)c;
	(void)why;
	for (at = &k->l->accepted; *at != k; at = &(*at)->next)
		;
	*at = k->next;
	if (k->l->listener != NULL)
		listener_gone(k->l->listener, &k->stranger);
	links_sync(k->l);		/* perhaps we knew that server by this link only */
	free(k);
}

static void
on_accept(void *ctx, int fd)
{
	struct links *l = ctx;
	struct link *k = calloc(1, sizeof(*k));
	struct chan_conf conf;

	if (k == NULL) {
		(void)close(fd);
		return;
	}
	k->l = l;
	k->number = ++l->numbers;
	k->since = clock_mono();
	conf = chan_conf(l, &accepted_events, k, "raft link");
	k->chan = chan_new(fd, &conf);
	if (k->chan == NULL) {
		free(k);
		return;
	}
	k->next = l->accepted;
	l->accepted = k;
	listener_stranger(l->listener, &k->stranger, fd);
}

static void
on_evict(void *ctx, struct stranger *s)
{
	struct link *k = (struct link *)s;

	(void)ctx;
	chan_close(k->chan, TV_ELIMIT);
}

static bool
is_known(void *ctx, uint64_t source)
{
	const struct links *l = ctx;

	return sources_has_server(l->d, source);
}

void
links_reply(struct links *l, const struct link_question *q, struct span body)
{
	for (struct link *k = l->accepted; k != NULL; k = k->next) {
		struct buf *b;

		if (k->number != q->link)
			continue;
		b = chan_begin(k->chan, q->type, FRAME_REPLY, q->frame);
		if (b == NULL)
			return;
		buf_putspan(b, body);
		(void)chan_end(k->chan);
		return;
	}
}

void
links_answer(struct links *l, const struct link_question *q, enum tv_err err, const char *text)
{
	struct buf b = BUF_INIT(64u << 10);

	mpw_array(&b, 2);
	mpw_uint(&b, (uint64_t)-(int)err);
	mpw_cstr(&b, text);
	links_reply(l, q, buf_span(&b));
	buf_done(&b);
}

void
links_notice(struct links *l, const char *uuid, unsigned why, const char *text)
{
	for (struct link *k = l->accepted; k != NULL; k = k->next)
		if (k->ok && strcmp(k->uuid, uuid) == 0)
			send_notice(k, why, text);
}

void
links_silence(struct links *l, bool silent)
{
	l->silent = silent;
	for (unsigned i = 0; silent && i < l->count; i++)
		sendq_clear(&l->peers[i]->out);
}

/* -- sending -- */

/*
 * Do these entries wait in the channel already?  A probe is repeated with each heartbeat until it is answered: to a peer
 * that reads slowly the same entries would be put behind themselves again and again.
 */
static bool
is_offered(const struct dialled *p, const struct raft_send *s)
{
	const struct offer *o = &p->offer;

	return s->first == o->first && s->first + s->msg.entry_count - 1 <= o->last && s->msg.term == o->term &&
	    !chan_passed(p->chan, o->mark);
}

/* Returns its size; 0: it is lost. */
static size_t
send_message(struct dialled *p, const struct raft_send *s)
{
	struct engine *e = p->l->d->engine;
	struct raft_msg m = s->msg;
	uint32_t got = 0;
	struct buf *b;
	size_t size;

	/* Of an older term, and late: another leader's entries may be in their place by now. */
	if (m.type == RAFT_MSG_APPEND && m.term != engine_term(e))
		return 0;
	if (m.entry_count > 0 && is_offered(p, s))
		m.entry_count = 0;		/* the heartbeat goes */
	if (m.entry_count > 0) {
		m.entries = engine_entries(e, s->first, m.entry_count, &got);
		if (m.entries == NULL)
			return 0;		/* compacted meanwhile: the core will find out */
		/* A part is a valid message too: what lacks is sent again after the answer. */
		m.entry_count = got;
	}
	b = chan_begin(p->chan, MSG_RAFT, 0, 0);
	if (b == NULL)
		return 0;
	size = b->len;
	raft_msg_write(b, &m);
	size = b->len - size;
	if (chan_end(p->chan) != TV_OK)
		return 0;
	if (m.entry_count > 0)
		p->offer = (struct offer){ s->first, s->first + m.entry_count - 1, m.term, chan_mark(p->chan) };
	return size;
}

static void
send_now(struct dialled *p, const struct raft_send *s)
{
	struct raftd *d = p->l->d;

	if (s->msg.type != RAFT_MSG_SNAPSHOT) {
		sendq_sent(&p->out, send_message(p, s));
		return;
	}
	snapshots_send(d->snapshots, p->chan, s);
	sendq_sent(&p->out, d->conf.snapshot_chunk);
}

void
links_send(struct links *l, const struct raft_send *s)
{
	struct dialled *p = NULL;

	for (unsigned i = 0; i < l->count && p == NULL; i++)
		if (l->peers[i]->pub.id == s->msg.to && l->peers[i]->pub.proven)
			p = l->peers[i];
	if (p == NULL || p->chan == NULL || l->silent)
		return;
	if (sendq_put(&p->out, s, chan_pending(p->chan)))
		send_now(p, s);
}

void
links_flush(struct links *l)
{
	struct raft_send s;

	for (unsigned i = 0; i < l->count; i++) {
		struct dialled *p = l->peers[i];

		if (p->chan == NULL)
			continue;
		sendq_turn(&p->out);
		while (sendq_next(&p->out, chan_pending(p->chan), &s))
			send_now(p, &s);
		chan_flush(p->chan);
	}
}

bool
links_waiting(struct links *l)
{
	for (unsigned i = 0; i < l->count; i++)
		if (l->peers[i]->chan != NULL && sendq_waiting(&l->peers[i]->out, chan_pending(l->peers[i]->chan)))
			return true;
	return false;
}

/* -- the set of peers -- */

static void
want_gossip(void *ctx, const struct gossip_server *s)
{
	/* Who left is dialled only while the configuration still has it. */
	if (s->status != MEMBER_LEFT && !sources_is_copy(((struct links *)ctx)->d, s->uuid, s->addr))
		(void)peer_want(ctx, s->uuid, s->name, s->addr);
}

static bool
dialled_us(struct links *l, const char *uuid)
{
	for (struct link *k = l->accepted; k != NULL; k = k->next)
		if (k->greeted && k->ok && strcmp(k->uuid, uuid) == 0)
			return true;
	return false;
}

/*
 * From the loop only: whoever asks for it may be a callback of a peer that goes here.
 */
static void
on_sync(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct links *l = w->data;
	const struct raft_config *conf = raft_config(engine_core(l->d->engine));

	(void)loop;
	(void)revents;
	for (unsigned i = 0; i < l->count; i++)
		l->peers[i]->wanted = false;
	/* Gossip knows the newest address; the configuration knows servers that gossip has not met yet. */
	gossip_each_server(l->d->gossip, want_gossip, l);
	for (unsigned i = 0; i < conf->count; i++) {
		struct dialled *p = find(l, conf->servers[i].uuid);

		if (p == NULL || !p->wanted)
			(void)peer_want(l, conf->servers[i].uuid, conf->servers[i].name, conf->servers[i].addr);
	}
	for (unsigned i = 0; i < l->count; ) {
		struct dialled *p = l->peers[i];

		if (p->wanted || dialled_us(l, p->pub.uuid)) {
			i++;
			continue;
		}
		l->peers[i] = l->peers[--l->count];
		peer_free(p);
	}
}

void
links_sync(struct links *l)
{
	if (l->closed || ev_is_active(&l->sync))
		return;
	ev_timer_set(&l->sync, 0.0, 0.0);
	ev_timer_start(l->d->loop, &l->sync);
}

void
links_identity_changed(struct links *l)
{
	char why[512];

	for (struct link *k = l->accepted; k != NULL; k = k->next)
		if (k->greeted)
			k->ok = judge_caller(k, &k->hello, why, sizeof(why)) == HELLO_OK;
	for (unsigned i = 0; i < l->count; i++) {
		struct dialled *p = l->peers[i];

		if (p->chan == NULL)
			continue;
		/* In order before whatever we send from now on. */
		say_hello(l, p->chan, 0, 0);
		if (p->pub.hello.uuid[0] != '\0') {
			enum hello_verdict v = hello_check(&l->d->id, l->d->cluster.datacenter, &p->pub.hello,
			    why, sizeof(why));

			set_state(p, v == HELLO_OK, v != HELLO_REFUSE);
		}
		ping(p);
	}
}

void
links_close(struct links *l)
{
	l->closed = true;
	/* Refused at once, not hung up on in the handshake, which would look like other keys to the others. */
	listener_free(l->listener);
	l->listener = NULL;
	for (struct link *k = l->accepted; k != NULL; k = k->next)
		chan_close(k->chan, TV_ECLOSED);
	for (unsigned i = 0; i < l->count; i++)
		peer_stop(l->peers[i]);
}

void
links_info(struct links *l, void (*add)(void *ctx, const char *name, const char *value), void *ctx)
{
	struct listener_stats st = { 0 };

	if (l->listener != NULL)
		listener_stats(l->listener, &st);
	const struct { const char *name; uint64_t value; } lines[] = {
		{ "links_accepted", st.proven }, { "links_unproven", st.unproven }, { "links_evicted", st.evicted },
		{ "links_refused", st.refused }, { "handshakes_postponed", chan_handshakes_postponed() },
	};

	for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char text[32];

		snprintf(text, sizeof(text), "%llu", (unsigned long long)lines[i].value);
		add(ctx, lines[i].name, text);
	}
}

const struct peer *
links_find(struct links *l, const char *uuid)
{
	struct dialled *p = find(l, uuid);

	return p == NULL ? NULL : &p->pub;
}

const struct peer *
links_find_id(struct links *l, raft_id id)
{
	for (unsigned i = 0; i < l->count; i++)
		if (l->peers[i]->pub.id == id)
			return &l->peers[i]->pub;
	return NULL;
}

unsigned
links_count(struct links *l)
{
	return l->count;
}

const struct peer *
links_at(struct links *l, unsigned i)
{
	return &l->peers[i]->pub;
}

static const char *
trouble_of(const struct dialled *p)
{
	if (p->pub.proven)
		return NULL;
	if (p->broke_off)
		return "it breaks the handshake off, as one does that has another server.key: all servers need the same "
		    "(on both sides the log of raftd has the reason)";
	return p->complaint[0] != '\0' && mono_sub(clock_mono(), p->refused).ns < TROUBLE_LASTS.ns ? p->complaint : NULL;
}

void
links_trouble(struct links *l, struct buf *out)
{
	char name[128];

	for (unsigned i = 0; i < l->count; i++) {
		const struct dialled *p = l->peers[i];
		const char *why = trouble_of(p);

		if (why != NULL)
			buf_printf(out, "%scannot be linked with %s (%s): %s", out->len > 0 ? "; " : "",
			    log_safe(span_str(p->pub.name), name, sizeof(name)), p->pub.addr, why);
	}
}

void
links_kick(struct links *l, const char *uuid)
{
	struct dialled *p = find(l, uuid);

	if (p != NULL && p->dialer != NULL && p->chan == NULL)
		dialer_kick(p->dialer);
}

enum tv_err
links_ask(struct links *l, const char *uuid, uint16_t type, struct span body, struct mono timeout,
    calls_done *done, void *ctx)
{
	struct dialled *p = find(l, uuid);
	enum tv_err err = TV_EUNREACH;

	if (p == NULL || p->chan == NULL || !(p->pub.proven || p->pub.forming))
		return TV_EUNREACH;
	return calls_start(p->calls, p->chan, type, body, timeout, done, ctx, &err) != 0 ? TV_OK : err;
}

/* Repeats the hello on links we dialled, closes accepted ones that never greeted. */
static void
on_sweep(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct links *l = w->data;
	struct mono now = clock_mono(), every = { l->d->conf.hello_timeout.ns / 2 };

	(void)loop;
	(void)revents;
	for (struct link *k = l->accepted; k != NULL; k = k->next)
		if (!k->greeted && mono_sub(now, k->since).ns > 2 * l->d->conf.hello_timeout.ns)
			chan_close(k->chan, TV_ETIMEOUT);
	for (unsigned i = 0; i < l->count; i++)
		if (mono_sub(now, l->peers[i]->pinged).ns > every.ns)
			ping(l->peers[i]);
}

struct links *
links_new(struct raftd *d)
{
	struct links *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	l->d = d;
	l->refused = (struct log_limit){ .burst = 5, .period = MONO_S(60) };
	l->noise = (struct noise_conf){ .pattern = NOISE_NNPSK0, .psks = d->keys.raft, .psk_count = d->keys.count };
	l->listener = listener_new(d->loop, d->link_fd, (unsigned)d->conf.links_max, on_accept, l);
	if (l->listener == NULL) {
		free(l);
		return NULL;
	}
	listener_set_guard(l->listener, &(struct listener_guard){
	    .places = { UNPROVEN_MAX, UNPROVEN_KNOWN_MAX, UNPROVEN_SOURCE_MAX }, .is_known = is_known,
	    .evict = on_evict });
	d->link_fd = -1;
	ev_timer_init(&l->sweep, on_sweep, SWEEP, SWEEP);
	ev_timer_init(&l->sync, on_sync, 0.0, 0.0);
	l->sweep.data = l->sync.data = l;
	ev_timer_start(d->loop, &l->sweep);
	return l;
}

void
links_free(struct links *l)
{
	if (l == NULL)
		return;
	ev_timer_stop(l->d->loop, &l->sweep);
	ev_timer_stop(l->d->loop, &l->sync);
	l->closed = true;
	while (l->count > 0)
		peer_free(l->peers[--l->count]);
	for (struct link *k = l->accepted, *next; k != NULL; k = next) {
		next = k->next;
		chan_free(k->chan);
		free(k);
	}
	listener_free(l->listener);
	free(l);
}
