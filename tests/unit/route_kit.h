/*
 * What tests of the router share: fakes of its three neighbours (view, links, own raftd), linked in their place, which keep
 * what they are asked; and questions and answers in short.  Each test begins with start() and ends with finish().
 */
#ifndef TV_TESTS_UNIT_ROUTE_KIT_H
#define TV_TESTS_UNIT_ROUTE_KIT_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/msg.h"
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "raftd/core/raft.h"
#include "rpcd/route/route.h"
#include "rpcd/wan/datacenters.h"

/* -- fakes ---------------------------------------------------------------- */

static struct raftd_client_status local;		/* what our raftd says */
static struct {
	unsigned calls, expected;		/* asked so far; of them those that do not wait */
	calls_done *done;
	void *ctx;
	uint64_t id, cancelled;
	uint8_t body[16384];			/* of the newest */
	size_t body_len;
} raftd;
static struct link_call {
	bool busy, expected;
	bool waits;				/* for its link: nothing was sent */
	char ip[46];
	uint16_t port, type;
	link_done *done;
	void *ctx;
} sent[16];
static unsigned sent_count, sent_cancelled;
static struct members_server servers[512];
static unsigned server_count;
static struct {
	char ip[46];
	enum standing how;
} standings[16];
static unsigned standing_count;
static char probed[46];				/* last one dialled without a question */
static unsigned probes;
static bool remote_known;
static bool places_known;
static struct wan_server {
	struct member m;
	const char *name, *dc;
	int64_t rtt_ms;				/* -1: without a coordinate */
	struct member_tag tags[2];
} wan[8];
static unsigned wan_count;
static struct member leader_member;
static struct member_tag leader_tags[] = { { { (const uint8_t *)"rpc_port", 8 }, { (const uint8_t *)"8400", 4 } } };

const struct raftd_client_status *
raftd_client_status(const struct raftd_client *r)
{
	(void)r;
	return &local;
}

struct daemon_client *
raftd_client_daemon(struct raftd_client *r)
{
	(void)r;
	return NULL;
}

uint64_t
daemon_client_call(struct daemon_client *c, uint16_t type, struct span body, struct mono timeout, calls_done *done,
    void *ctx, enum tv_err *err)
{
	(void)c;
	(void)timeout;
	ck_assert_int_eq(type, MSG_OP);
	ck_assert_uint_le(body.len, sizeof(raftd.body));
	memcpy(raftd.body, body.p, body.len);
	raftd.body_len = body.len;
	if (!local.up) {
		*err = TV_EUNREACH;
		return 0;
	}
	raftd.calls++;
	raftd.done = done;
	raftd.ctx = ctx;
	return raftd.id = raftd.calls;
}

void
raftd_client_expect(struct raftd_client *r)
{
	(void)r;
	raftd.expected++;
}

void
daemon_client_cancel(struct daemon_client *c, uint64_t id)
{
	(void)c;
	raftd.cancelled = id;
}

struct link_call *
link_client_call(struct link_client *l, const char *ip, uint16_t port, uint16_t type, struct span body,
    struct mono timeout, link_done *done, void *ctx)
{
	struct link_call *c = &sent[sent_count++];

	(void)l;
	(void)body;
	(void)timeout;
	ck_assert_uint_le(sent_count, 16);
	*c = (struct link_call){ .busy = true, .port = port, .type = type, .done = done, .ctx = ctx };
	strcpy(c->ip, ip);
	return c;
}

bool
link_client_sent(const struct link_call *c)
{
	return !c->waits;
}

void
link_client_expect(struct link_call *c)
{
	c->expected = true;
}

void
link_client_cancel(struct link_call *c)
{
	c->busy = false;
	sent_cancelled++;
}

static enum standing
standing_now(const char *ip)
{
	for (unsigned i = 0; i < standing_count; i++)
		if (strcmp(standings[i].ip, ip) == 0)
			return standings[i].how;
	return STANDING_UNKNOWN;
}

bool
link_client_is_up(const struct link_client *l, const char *ip, uint16_t port)
{
	(void)l;
	(void)port;
	return standing_now(ip) == STANDING_OPEN;
}

enum standing
link_client_standing(const struct link_client *l, const char *ip, uint16_t port)
{
	(void)l;
	(void)port;
	return standing_now(ip);
}

void
link_client_probe(struct link_client *l, const char *ip, uint16_t port)
{
	(void)l;
	(void)port;
	strcpy(probed, ip);
	probes++;
}

unsigned
members_servers(const struct members *v, struct span dc, struct rng *rng, members_rank *rank, void *ctx,
    struct members_server *out, unsigned max)
{
	unsigned best = MEMBERS_SKIP, n = 0;

	(void)v;
	(void)dc;
	(void)rng;
	for (unsigned i = 0; i < server_count; i++) {
		unsigned how = rank(ctx, &servers[i]);

		if (how == MEMBERS_SKIP || how > best)
			continue;
		if (how < best)
			n = 0;
		best = how;
		if (n < max)
			out[n++] = servers[i];
	}
	return n;
}

unsigned
members_datacenters(const struct members *v, struct span *out, unsigned max)
{
	(void)v;
	ck_assert_uint_ge(max, 2);
	out[0] = span_str("dc1");
	out[1] = span_str("dc2");
	if (wan_count == 0)
		return 2;
	ck_assert_uint_ge(max, 4);
	out[2] = span_str("dc3");
	out[3] = span_str("dc4");
	return 4;
}

unsigned
members_count(const struct members *v, enum gossip_pool pool)
{
	(void)v;
	return pool == POOL_WAN ? wan_count : 0;
}

const struct member *
members_at(const struct members *v, enum gossip_pool pool, unsigned i)
{
	(void)v;
	(void)pool;
	return &wan[i].m;
}

static const struct wan_server *
wan_find(struct span name)
{
	for (unsigned i = 0; i < wan_count; i++)
		if (span_eqs(name, wan[i].name))
			return &wan[i];
	return NULL;
}

bool
coords_of(const struct coords *p, struct span name, struct coordinate *out)
{
	const struct wan_server *s = wan_find(name);

	(void)p;
	if (s == NULL || s->rtt_ms < 0)
		return false;
	*out = (struct coordinate){ .vec = { (double)s->rtt_ms / 1000 }, .error = 1 };
	return true;
}

int64_t
coords_rtt_ns(const struct coords *p, struct span name)
{
	const struct wan_server *s = wan_find(name);

	(void)p;
	return s == NULL || s->rtt_ms < 0 ? COORDINATE_FAR : s->rtt_ms * 1000000;
}

bool
members_dc_known(const struct members *v, struct span dc)
{
	(void)v;
	return remote_known && span_eqs(dc, "dc2");
}

const struct member *
members_server_by_id(const struct members *v, const char *id)
{
	(void)v;
	return strcmp(id, "leader-id") == 0 ? &leader_member : NULL;
}

/* What gossipd does here: events on every node, keys on servers. */
static struct provided {
	enum op_kind kind;
	unsigned count, cancelled;
	bool gossipd_away;
	route_done *done;
	void *ctx;
} firing, keys;

static inline void *
provided_start(void *ctx, const struct op_request *q, struct mono timeout, route_done *done, void *done_ctx,
    enum tv_err *err)
{
	struct provided *p = ctx;

	ck_assert_int_eq(op_find(q->op)->kind, p->kind);
	ck_assert_int_eq(timeout.ns, MONO_S(30).ns);
	*err = TV_EUNREACH;
	if (p->gossipd_away)
		return NULL;
	p->count++;
	p->done = done;
	p->ctx = done_ctx;
	return p;
}

static inline void
provided_cancel(void *started)
{
	struct provided *p = started;

	p->cancelled++;
}

/* -- helpers -------------------------------------------------------------- */

static struct ev_loop *loop;
static struct route *route;
static struct {
	unsigned count;
	enum tv_err err;
	char text[200];
	uint8_t value[4096];
	size_t value_len;
	uint64_t number;		/* of the reply */
	bool other_number;		/* not all had the same */
} got;

static inline void
on_done(void *ctx, const struct op_reply *reply)
{
	(void)ctx;
	got.other_number = got.other_number || (got.count > 0 && got.number != route_reply_number(route));
	got.number = route_reply_number(route);
	got.count++;
	got.err = reply->err;
	span_copy(reply->text, got.text, sizeof(got.text));
	ck_assert_uint_le(reply->value.len, sizeof(got.value));
	got.value_len = reply->value.len;
	if (reply->value.len > 0)
		memcpy(got.value, reply->value.p, reply->value.len);
}

static inline void
add_server(const char *ip)
{
	servers[server_count] = (struct members_server){ .rpc_port = 8400 };
	strcpy(servers[server_count++].ip, ip);
}

/* A server of another datacenter that is also in the WAN pool. */
static inline void
add_wan(const char *name, const char *dc, int64_t rtt_ms, const char *ip)
{
	struct wan_server *w = &wan[wan_count++];

	*w = (struct wan_server){ .name = name, .dc = dc, .rtt_ms = rtt_ms, .tags = {
		{ span_str("role"), span_str("server") }, { span_str("dc"), span_str(dc) } } };
	w->m = (struct member){ .name = span_str(name), .status = MEMBER_ALIVE, .tags = w->tags, .tag_count = 2 };
	if (ip != NULL) {
		add_server(ip);
		servers[server_count - 1].member = &w->m;
	}
}

static inline void
provide(struct provided *p, enum op_kind kind, const char *away)
{
	p->kind = kind;
	route_provide(route, kind, &(struct route_provider){ .start = provided_start, .cancel = provided_cancel, .ctx = p,
	    .away = away, .lost = "perhaps" });
}

static inline void
start(bool is_server, int64_t hold_ms)
{
	static struct datacenters pools;
	static int dummy;
	struct route_conf conf = {
		.datacenter = "dc1", .node_id = "own-id", .members = (struct members *)&dummy, .links = (struct link_client *)&dummy,
		.raft = is_server ? (struct raftd_client *)&dummy : NULL, .rpc_port = 8400,
		.coords = places_known ? (struct coords *)&dummy : NULL,
		.hold_timeout = MONO_MS(hold_ms), .answer_timeout = MONO_S(30), .calls_max = 100, .bytes_max = 1 << 20, .seed = 1,
	};

	memset(&got, 0, sizeof(got));
	memset(&raftd, 0, sizeof(raftd));
	sent_count = sent_cancelled = server_count = wan_count = standing_count = probes = 0;
	remote_known = false;
	leader_member = (struct member){ .addr = { 127, 0, 0, 9 }, .addr_len = 4, .status = MEMBER_ALIVE,
	    .tags = leader_tags, .tag_count = 1 };
	local = (struct raftd_client_status){ .up = is_server, .role = RAFT_FOLLOWER };
	strcpy(local.leader_id, "leader-id");
	conf.loop = loop = ev_loop_new(EVFLAG_AUTO);
	route = route_new(&conf);
	ck_assert_ptr_nonnull(route);
	provide(&firing, OP_GOSSIP, "no gossipd");
	if (!is_server)
		return;
	pools = (struct datacenters){ conf.members, conf.coords };
	route_provide(route, OP_VIEW, &(struct route_provider){ .answer = datacenters_answer, .ctx = &pools });
	provide(&keys, OP_GOSSIP_SERVER, "no gossipd there");
}

static inline void
finish(void)
{
	route_free(route);
	ev_loop_destroy(loop);
}

/* Runs the loop until `count` answers came. */
static inline void
run_until(unsigned count)
{
	for (int i = 0; i < 1000 && got.count < count; i++)
		ev_run(loop, EVRUN_ONCE);
	ck_assert_uint_eq(got.count, count);
}

static struct route_call *
ask(uint16_t op, const char *dc, uint64_t index)
{
	static const uint8_t args[] = { 0x90 };
	struct op_request q = { .op = op, .dc = span_str(dc), .index = index, .wait_ms = index > 0 ? 60000 : 0,
	    .args = span_of(args, sizeof(args)) };
	struct route_call *c = route_start(route, &q, on_done, NULL);

	ck_assert_ptr_nonnull(c);
	ck_assert_uint_eq(got.count, 0);	/* never before route_start() returned */
	return c;
}

static struct span
reply_bytes(struct buf *b, enum tv_err err)
{
	struct op_reply r = { .err = err, .text = span_str(err == TV_OK ? "" : "said"), .index = 7, .known_leader = true };

	buf_reset(b);
	op_reply_write(b, &r);
	return buf_span(b);
}

static inline void
raftd_says(enum tv_err err)
{
	struct buf b = BUF_INIT(1000);

	raftd.done(raftd.ctx, TV_OK, reply_bytes(&b, err));
	buf_done(&b);
}

static inline void
link_says(unsigned i, enum tv_err err)
{
	struct buf b = BUF_INIT(1000);

	sent[i].busy = false;
	sent[i].done(sent[i].ctx, TV_OK, reply_bytes(&b, err));
	buf_done(&b);
}

static inline void
link_breaks(unsigned i, enum tv_err why)
{
	sent[i].busy = false;
	sent[i].done(sent[i].ctx, why, SPAN_NONE);
}

#endif
