/* Links that we accepted: on these we receive, and answer. */
#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/net/msg.h"
#include "raftd/engine/engine.h"
#include "raftd/peers/fence.h"
#include "raftd/peers/links_int.h"
#include "raftd/peers/state_version.h"
#include "raftd/peers/server_addr.h"

/* Accepted links that have not said hello: all but those of known servers, those, and of one address. */
#define UNPROVEN_MAX 128
#define UNPROVEN_KNOWN_MAX 64
#define UNPROVEN_SOURCE_MAX 32

static void
send_notice(struct link *k, unsigned why, const char *text)
{
	(void)chan_send_record(k->conn.chan, MSG_RAFT_NOTICE, 0, &msg_notice_schema,
	    &(struct msg_notice){ why, span_str(text) });
}

/*
 * Does a server with this node id answer at another address (S62)?  A server that has just moved looks the same until
 * its old link is known to be dead: so the old address must have answered since the doubt arose.
 */
static enum hello_verdict
judge_twin(struct link *k, const struct hello *h, char *why, size_t cap)
{
	struct dialled *p = links_dialled(k->l, h->uuid);

	if (p == NULL || !p->pub.proven || strcmp(p->pub.addr, h->addr) == 0) {
		k->doubted = MONO_ZERO;
		return server_addr_is_copy(k->l->d, h->uuid, h->addr) ? HELLO_WAIT : HELLO_OK;
	}
	snprintf(why, cap, "its node id %s is that of %s at %s, which is up (is a data directory copied or shared?); "
	    "stop the daemons of the copy, give it an empty data_dir and start them", h->uuid, p->pub.name, p->pub.addr);
	if (k->doubted.ns == 0) {
		k->doubted = clock_mono();
		peer_ping(p);
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
	enum hello_verdict verdict = state_version_check(d, h, why, cap);

	return verdict == HELLO_OK ? judge_twin(k, h, why, cap) : verdict;
}

static enum tv_err
on_hello(void *conn, const struct frame *f)
{
	struct link *k = conn;
	struct raftd *d = k->l->d;
	struct hello h;
	char why[512], name[128];
	enum hello_verdict verdict;
	enum tv_err err = hello_read(f->body, &h);

	if (err != TV_OK)
		return err;
	if (k->uuid[0] != '\0' && strcmp(h.uuid, k->uuid) != 0)
		return TV_EFORMAT;
	if (server_greeted(&k->conn) != TV_OK)
		return TV_ECLOSED;
	k->l->hooks->heard(d, &h);
	fence_heard(d, &h);
	verdict = judge_caller(k, &h, why, sizeof(why));
	k->ok = verdict == HELLO_OK;
	k->hello = h;
	k->id = raft_id_of(h.uuid, h.store_id);
	memcpy(k->uuid, h.uuid, sizeof(k->uuid));
	/* Answered in any case: the other side shall be able to tell its operator why. */
	links_say_hello(k->l, k->conn.chan, f->id != 0 ? FRAME_REPLY : 0, f->id, k->ok ? k->id : 0);
	if (k->ok)
		links_heed_marks(k->l, &h);
	if (verdict == HELLO_REFUSE) {
		if (log_allow(&k->l->refused, "raft"))
			log_warn("raft", "refused server %s from %s: %s",
			    log_safe(span_str(h.name), name, sizeof(name)), chan_peer(k->conn.chan), why);
		return TV_OK;
	}
	if (links_dialled(k->l, h.uuid) == NULL)
		(void)peer_want(k->l, h.uuid, h.name, h.addr);
	else if (k->ok)
		links_wake(k->l, h.uuid);	/* it is up: no need to wait until our next attempt is due */
	return TV_OK;
}

static enum tv_err
on_raft(void *conn, const struct frame *f)
{
	struct link *k = conn;
	struct raftd *d = k->l->d;
	uint32_t max;
	struct raft_entry *entries = engine_scratch(d->engine, &max);
	struct raft_msg m;
	enum tv_err err;

	if (!k->ok || k->l->silent)
		return TV_OK;				/* refused: dropped */
	err = raft_msg_read(f->body, &m, entries, max);
	if (err != TV_OK)
		return err;
	if (m.from != k->id)
		return TV_EAUTH;
	if (m.to != d->id.self)
		return TV_OK;				/* for the server whose disk this was */
	if (!k->l->hooks->accepts(d, &k->hello, &m))
		return TV_OK;
	engine_message(d->engine, &m);
	return TV_OK;
}

static enum tv_err
on_question(void *conn, const struct frame *f)
{
	struct link *k = conn;
	struct link_question q = { k->number, f->id, f->type };

	for (unsigned i = 0; i < k->l->served_count; i++) {
		const struct question_type *to = &k->l->served[i];

		if (to->type == f->type)
			return k->ok || to->forming ? to->fn(k->l->d, &k->hello, &q, f->body) : TV_EPERM;
	}
	return TV_EFORMAT;
}

void
links_serve(struct links *l, uint16_t type, bool forming, links_server *fn)
{
	TV_ASSERT(l->served_count < SERVED_MAX);
	l->served[l->served_count++] = (struct question_type){ type, forming, fn };
}

static void
on_accept(void *ctx, void *conn, uid_t uid UNUSED)
{
	struct link *k = conn;

	k->l = ctx;
	k->number = ++k->l->numbers;
}

static void
on_open(void *ctx, void *conn)
{
	links_say_hello(ctx, ((struct link *)conn)->conn.chan, 0, 0, 0);
}

static void
on_close(void *ctx, void *conn, enum tv_err why UNUSED)
{
	struct link *k = conn;

	links_sync(ctx);		/* perhaps we knew that server by this link only */
	k->ok = false;
	peer_look(ctx, k->uuid);
}

static bool
is_known(void *ctx, uint64_t source)
{
	const struct links *l = ctx;

	return server_addr_known(l->d, source);
}

enum tv_err
callers_listen(struct links *l)
{
	static const struct server_row rows[] = {
		{ MSG_RAFT, on_raft, false },
		{ MSG_RAFT_HELLO, on_hello, false },
		{ 0, on_question, false }
	};

	l->server = (struct server){
	    .chan = links_chan_conf(l, NULL, NULL, "raft link"), .conn_bytes = sizeof(struct link), .rows = rows,
	    .places = { UNPROVEN_MAX, UNPROVEN_KNOWN_MAX, UNPROVEN_SOURCE_MAX }, .is_known = is_known,
	    .hello_type = MSG_RAFT_HELLO, .hello_timeout = mono_mul(l->d->conf.hello_timeout, 2),
	    .on_accept = on_accept, .on_open = on_open, .on_close = on_close, .ctx = l };
	if (!server_start(&l->server, l->d->link_fd, (unsigned)l->d->conf.links_max))
		return TV_ENOMEM;
	l->d->link_fd = -1;
	return TV_OK;
}

void
callers_judge(struct links *l)
{
	char why[512];
	struct link *k;

	SERVER_EACH(k, &l->server)
		if (k->uuid[0] != '\0')
			k->ok = judge_caller(k, &k->hello, why, sizeof(why)) == HELLO_OK;
}

void
links_reply(struct links *l, const struct link_question *q, struct span body)
{
	struct link *k;

	SERVER_EACH(k, &l->server) {
		struct buf *b;

		if (k->number != q->link)
			continue;
		b = chan_begin(k->conn.chan, q->type, FRAME_REPLY, q->frame);
		if (b == NULL)
			return;
		buf_putspan(b, body);
		(void)chan_end(k->conn.chan);
		return;
	}
}

void
links_answer(struct links *l, const struct link_question *q, enum tv_err err, const char *text)
{
	struct buf b = BUF_INIT(64u << 10);

	msg_answer_write(&b, err, text, NULL, NULL);
	links_reply(l, q, buf_span(&b));
	buf_done(&b);
}

void
links_notice(struct links *l, const char *uuid, unsigned why, const char *text)
{
	struct link *k;

	SERVER_EACH(k, &l->server)
		if (k->ok && strcmp(k->uuid, uuid) == 0)
			send_notice(k, why, text);
}

bool
callers_have(struct links *l, const char *uuid)
{
	struct link *k;

	SERVER_EACH(k, &l->server)
		if (k->ok && strcmp(k->uuid, uuid) == 0)
			return true;
	return false;
}
