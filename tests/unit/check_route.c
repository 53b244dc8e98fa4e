/*
 * The router against fakes of its three neighbours (view, links, own raftd), linked in their place: where a request goes,
 * what is held, what is retried, and that a write whose outcome is unknown is never sent twice.
 */
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
	uint8_t body[512];			/* of the newest */
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

static void *
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

static void
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

static void
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

static void
add_server(const char *ip)
{
	servers[server_count] = (struct members_server){ .rpc_port = 8400 };
	strcpy(servers[server_count++].ip, ip);
}

/* A server of another datacenter that is also in the WAN pool. */
static void
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

static void
provide(struct provided *p, enum op_kind kind, const char *away)
{
	p->kind = kind;
	route_provide(route, kind, &(struct route_provider){ .start = provided_start, .cancel = provided_cancel, .ctx = p,
	    .away = away, .lost = "perhaps" });
}

static void
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

static void
finish(void)
{
	route_free(route);
	ev_loop_destroy(loop);
}

/* Runs the loop until `count` answers came. */
static void
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

static void
raftd_says(enum tv_err err)
{
	struct buf b = BUF_INIT(1000);

	raftd.done(raftd.ctx, TV_OK, reply_bytes(&b, err));
	buf_done(&b);
}

static void
link_says(unsigned i, enum tv_err err)
{
	struct buf b = BUF_INIT(1000);

	sent[i].busy = false;
	sent[i].done(sent[i].ctx, TV_OK, reply_bytes(&b, err));
	buf_done(&b);
}

static void
link_breaks(unsigned i, enum tv_err why)
{
	sent[i].busy = false;
	sent[i].done(sent[i].ctx, why, SPAN_NONE);
}

/* -- tests ---------------------------------------------------------------- */

START_TEST(read_stays_here)
{
	start(true, 1000);
	ask(OP_KV_GET, "", 0);
	ck_assert_uint_eq(raftd.calls, 1);
	raftd_says(TV_OK);
	ck_assert_uint_eq(got.count, 1);
	ck_assert_int_eq(got.err, TV_OK);
	finish();
}
END_TEST

/* Many at once, ended in another order, again and again, short and long ones: each is asked and answered as its own. */
START_TEST(upstreams_are_used_again)
{
	enum { COUNT = 90 };
	static const char filler[400] = { [0 ... 398] = 'x' };
	struct under_way {
		struct route_call *call;
		calls_done *done;
		void *ctx;
	} at[COUNT];
	struct buf b = BUF_INIT(1000);

	start(true, 60000);
	for (unsigned round = 0; round < 5; round++) {
		for (unsigned i = 0; i < COUNT; i++) {
			size_t len = i % 9 == 0 ? sizeof(filler) - 1 : i;
			uint8_t nil = 0xc0;
			struct op_request sent_on, q = { .op = OP_KV_GET, .mode = i % 2 != 0 ? OP_STALE : OP_DEFAULT,
				.token = span_of((const uint8_t *)filler, len > OP_NAME_BYTES_MAX ? OP_NAME_BYTES_MAX : len),
				.max_stale_ms = round * COUNT + i, .args = span_of(&nil, 1) };

			at[i].call = route_start(route, &q, on_done, NULL);
			ck_assert_ptr_nonnull(at[i].call);
			at[i].done = raftd.done;
			at[i].ctx = raftd.ctx;
			ck_assert_int_eq(op_request_read(span_of(raftd.body, raftd.body_len), &sent_on), TV_OK);
			ck_assert_uint_eq(sent_on.max_stale_ms, q.max_stale_ms);
			ck_assert_uint_eq(sent_on.mode, q.mode);
			ck_assert(span_eq(sent_on.token, q.token));
		}
		for (unsigned n = 0; n < COUNT; n++) {
			struct under_way *one = &at[(n * 7 + round) % COUNT];
			unsigned before = got.count, calls = raftd.calls;

			if (n % 5 == 0) {
				route_cancel(one->call);
				continue;
			}
			one->done(one->ctx, TV_OK, reply_bytes(&b, n % 5 == 1 ? TV_ENOTLEADER : TV_OK));
			if (n % 5 != 1) {
				ck_assert_uint_eq(got.count, before + 1);
				continue;
			}
			ck_assert_uint_eq(raftd.calls, calls);		/* it goes on to the leader */
			ck_assert_uint_eq(sent_count, 1);
			sent[0].done(sent[0].ctx, TV_OK, reply_bytes(&b, TV_OK));
			ck_assert_uint_eq(got.count, before + 1);
			sent_count = 0;
		}
	}
	ck_assert_int_eq(got.err, TV_OK);
	ck_assert_uint_eq(got.count, 5 * (COUNT - COUNT / 5));
	buf_done(&b);
	finish();
}
END_TEST

START_TEST(write_goes_to_the_leader)
{
	start(true, 1000);
	ask(OP_KV_APPLY, "dc1", 0);
	ck_assert_uint_eq(raftd.calls, 0);
	ck_assert_uint_eq(sent_count, 1);
	ck_assert_int_eq(sent[0].type, MSG_OP_FINAL);
	ck_assert_str_eq(sent[0].ip, "127.0.0.9");
	link_says(0, TV_OK);
	ck_assert_uint_eq(got.count, 1);
	local.role = RAFT_LEADER;
	got.count = 0;
	ask(OP_KV_APPLY, "", 0);
	ck_assert_uint_eq(raftd.calls, 1);
	raftd_says(TV_OK);
	finish();
}
END_TEST

START_TEST(not_leader_is_held_and_tried_again)
{
	start(true, 60000);
	ask(OP_KV_APPLY, "", 0);
	link_says(0, TV_ENOTLEADER);
	ck_assert_uint_eq(got.count, 0);
	local.role = RAFT_LEADER;		/* we were elected meanwhile */
	route_wake(route);
	ck_assert_uint_eq(raftd.calls, 1);
	raftd_says(TV_OK);
	ck_assert_int_eq(got.err, TV_OK);
	finish();
}
END_TEST

START_TEST(no_leader_fails_after_the_hold)
{
	start(true, 120);
	local.leader_id[0] = '\0';
	ask(OP_KV_APPLY, "", 0);
	ask(OP_KV_GET, "", 0);
	run_until(2);
	ck_assert_int_eq(got.err, TV_ENOLEADER);
	ck_assert_str_eq(got.text, "No cluster leader");
	ck_assert_uint_eq(raftd.calls + sent_count, 0);
	finish();
}
END_TEST

START_TEST(lost_answer_of_a_write_is_unknown_and_not_repeated)
{
	static const enum tv_err ways[] = { TV_ECLOSED, TV_ETIMEOUT, TV_ELIMIT };

	for (unsigned i = 0; i < 3; i++) {
		start(true, 1000);
		ask(OP_KV_APPLY, "", 0);
		link_breaks(0, ways[i]);
		ck_assert_uint_eq(got.count, 1);
		ck_assert_int_eq(got.err, TV_EUNKNOWN);
		route_wake(route);
		ck_assert_uint_eq(sent_count, 1);
		finish();
	}
}
END_TEST

static void
leader_is(const char *id)
{
	strcpy(local.leader_id, id);
	strcpy(local.leader_addr, strcmp(id, "leader-id") == 0 ? "" : "127.0.0.8:8300");
	route_wake(route);
}

/* Something must happen meanwhile, or the loop returns at once. */
static void
run_for(ev_tstamp seconds)
{
	ev_now_update(loop);
	for (ev_tstamp end = ev_now(loop) + seconds; ev_now(loop) < end; )
		ev_run(loop, EVRUN_ONCE);
}

static void
tick(struct ev_loop *l, ev_timer *w, int revents)
{
	(void)l, (void)w, (void)revents;
}

/* A frozen rpcd keeps its connections: that another one leads is the only news of it. */
START_TEST(leader_that_was_does_not_answer)
{
	start(true, 1000);
	ask(OP_KV_APPLY, "", 0);
	ask(OP_SESSION_RENEW, "", 0);
	ck_assert_uint_eq(sent_count, 2);
	ck_assert(sent[0].expected && sent[1].expected);
	leader_is("");					/* an election */
	leader_is("other-id");
	ask(OP_KV_APPLY, "", 0);
	ck_assert_str_eq(sent[2].ip, "127.0.0.8");
	ck_assert_uint_eq(sent_cancelled, 0);		/* the answers may be on their way */
	run_until(1);
	/* Of the write nobody knows, and it is not sent again. */
	ck_assert_int_eq(got.err, TV_EUNKNOWN);
	ck_assert_uint_eq(sent_cancelled, 2);
	ck_assert_uint_eq(sent_count, 4);		/* the renewal is safe to repeat */
	ck_assert_str_eq(sent[3].ip, "127.0.0.8");
	link_says(3, TV_OK);
	link_says(2, TV_OK);
	ck_assert_uint_eq(got.count, 3);
	ck_assert_int_eq(got.err, TV_OK);
	finish();
}
END_TEST

START_TEST(what_waits_for_the_link_goes_to_the_new_leader_at_once)
{
	start(true, 1000);
	ask(OP_KV_APPLY, "", 0);
	sent[0].waits = true;
	ask(OP_KV_APPLY, "", 0);
	leader_is("other-id");
	ck_assert_uint_eq(sent_cancelled, 1);
	ck_assert(!sent[0].busy && sent[1].busy);
	ck_assert_uint_eq(sent_count, 3);
	ck_assert_str_eq(sent[2].ip, "127.0.0.8");
	link_says(2, TV_OK);
	ck_assert_uint_eq(got.count, 1);
	ck_assert_int_eq(got.err, TV_OK);
	link_says(1, TV_OK);
	finish();
}
END_TEST

START_TEST(leader_that_was_answers_in_time)
{
	ev_timer beat;

	start(true, 1000);
	ev_timer_init(&beat, tick, 0.05, 0.05);
	ev_timer_start(loop, &beat);
	ask(OP_KV_APPLY, "", 0);
	leader_is("other-id");
	link_says(0, TV_OK);
	ck_assert_int_eq(got.err, TV_OK);
	memset(&got, 0, sizeof(got));
	ask(OP_KV_APPLY, "", 0);			/* of the new one */
	run_for(5.5);
	ck_assert_uint_eq(got.count, 0);
	ck_assert_uint_eq(sent_cancelled, 0);
	link_says(1, TV_OK);
	ev_timer_stop(loop, &beat);
	finish();
}
END_TEST

START_TEST(lost_answer_of_a_read_is_asked_again)
{
	start(true, 60000);
	ask(OP_KV_GET, "", 0);
	raftd.done(raftd.ctx, TV_ECLOSED, SPAN_NONE);
	ck_assert_uint_eq(got.count, 0);
	route_wake(route);
	ck_assert_uint_eq(raftd.calls, 2);
	raftd_says(TV_OK);
	ck_assert_int_eq(got.err, TV_OK);
	finish();
}
END_TEST

/* It was held at the beginning; the next trouble, much later, does not find its time used up. */
START_TEST(blocking_query_is_held_each_time)
{
	start(true, 0);
	local.leader_id[0] = '\0';
	ask(OP_KV_GET, "", 41);
	ck_assert_uint_eq(raftd.calls, 0);
	for (unsigned i = 1; i <= 3; i++) {
		strcpy(local.leader_id, "leader");
		route_wake(route);
		ck_assert_uint_eq(raftd.calls, i);
		local.leader_id[0] = '\0';
		raftd.done(raftd.ctx, TV_ECLOSED, SPAN_NONE);
		ev_run(loop, EVRUN_NOWAIT);
		ck_assert_uint_eq(got.count, 0);
	}
	run_until(1);				/* nobody leads, and it went nowhere: now its time is over */
	ck_assert_int_eq(got.err, TV_ENOLEADER);
	finish();
}
END_TEST

START_TEST(write_that_was_not_sent_is_tried_elsewhere)
{
	start(false, 60000);
	add_server("127.0.0.1");
	add_server("127.0.0.2");
	ask(OP_KV_APPLY, "", 0);
	ck_assert_int_eq(sent[0].type, MSG_OP);
	link_breaks(0, TV_EUNREACH);
	ck_assert_uint_eq(sent_count, 2);
	ck_assert_str_ne(sent[0].ip, sent[1].ip);
	link_says(1, TV_OK);
	ck_assert_int_eq(got.err, TV_OK);
	finish();
}
END_TEST

START_TEST(client_leaves_a_server_that_refuses)
{
	start(false, 60000);
	add_server("127.0.0.1");
	add_server("127.0.0.2");
	ask(OP_KV_APPLY, "", 0);
	link_says(0, TV_ENOTLEADER);		/* its raftd is away: nothing was done */
	route_wake(route);
	ck_assert_uint_eq(sent_count, 2);
	ck_assert_str_ne(sent[0].ip, sent[1].ip);
	link_says(1, TV_ENOTLEADER);
	route_wake(route);		/* all were tried: starts over */
	route_wake(route);
	ck_assert_uint_eq(sent_count, 3);
	link_says(2, TV_OK);
	ck_assert_int_eq(got.err, TV_OK);
	finish();
}
END_TEST

START_TEST(other_datacenter)
{
	start(true, 1000);
	ask(OP_KV_GET, "dc3", 0);
	run_until(1);
	ck_assert_int_eq(got.err, TV_EUNREACH);
	ck_assert_str_eq(got.text, "No path to datacenter");
	got.count = 0;
	remote_known = true;
	add_server("127.0.0.11");
	ask(OP_KV_GET, "dc2", 0);
	ck_assert_int_eq(sent[0].type, MSG_OP_DC);
	link_says(0, TV_OK);
	ck_assert_int_eq(got.err, TV_OK);
	got.count = 0;
	ask(OP_KV_GET, "dc2", 0);
	link_breaks(1, TV_EUNREACH);		/* the only server there: no circle, no hold */
	run_until(1);
	ck_assert_int_eq(got.err, TV_EUNREACH);
	finish();
	/* A client is not in the WAN pool: its servers know. */
	start(false, 1000);
	add_server("127.0.0.1");
	ask(OP_KV_GET, "dc9", 0);
	ck_assert_int_eq(sent[0].type, MSG_OP);
	link_says(0, TV_EUNREACH);
	ck_assert_int_eq(got.err, TV_EUNREACH);
	finish();
}
END_TEST

/* The nearest first; those within the noise are equal, and then a linked one or any; the others when it fails. */
START_TEST(nearest_server_of_a_datacenter)
{
	places_known = true;
	start(true, 1000);
	remote_known = true;
	add_wan("far.dc2", "dc2", 80, "127.0.0.11");
	add_wan("nowhere.dc2", "dc2", -1, "127.0.0.12");
	add_wan("near.dc2", "dc2", 20, "127.0.0.13");
	add_wan("alike.dc2", "dc2", 21, "127.0.0.14");
	ask(OP_KV_GET, "dc2", 0);
	ck_assert_str_eq(sent[0].ip, "127.0.0.13");
	link_breaks(0, TV_EUNREACH);
	ck_assert_str_eq(sent[1].ip, "127.0.0.14");
	link_breaks(1, TV_EUNREACH);
	ck_assert_str_eq(sent[2].ip, "127.0.0.11");
	link_breaks(2, TV_EUNREACH);
	ck_assert_str_eq(sent[3].ip, "127.0.0.12");
	link_says(3, TV_OK);
	run_until(1);
	ck_assert_int_eq(got.err, TV_OK);
	got.count = 0;
	/* The view gives servers in random order: of equals the first is taken. */
	struct members_server s = servers[2];
	servers[2] = servers[3];
	servers[3] = s;
	ask(OP_KV_GET, "dc2", 0);
	ck_assert_str_eq(sent[4].ip, "127.0.0.14");
	link_says(4, TV_OK);
	finish();
	places_known = false;
}
END_TEST

static void
stands(const char *ip, enum standing how)
{
	strcpy(standings[standing_count].ip, ip);
	standings[standing_count++].how = how;
}

/* Among 300 invented servers the one that is linked, wherever it stands in the list; then who proved itself before. */
START_TEST(client_prefers_servers_that_proved_themselves)
{
	char ip[46];

	start(false, 1000);
	for (unsigned i = 0; i < 300; i++) {
		snprintf(ip, sizeof(ip), "127.1.%u.%u", i / 200, i % 200 + 1);
		add_server(ip);
		if (i == 100)
			add_server("127.0.0.1");
	}
	add_server("127.0.0.2");
	add_server("127.0.0.3");
	stands("127.0.0.1", STANDING_PROVEN);
	stands("127.0.0.2", STANDING_OPEN);
	stands("127.0.0.3", STANDING_TIRED);
	ask(OP_KV_GET, "", 0);
	ck_assert_str_eq(sent[0].ip, "127.0.0.2");
	link_breaks(0, TV_EUNREACH);
	ck_assert_str_eq(sent[1].ip, "127.0.0.1");
	link_breaks(1, TV_EUNREACH);
	ck_assert_str_eq(sent[2].ip, "127.1.0.1");	/* nobody better is left */
	link_says(2, TV_OK);
	run_until(1);
	ck_assert_uint_eq(probes, 0);
	got.count = 0;
	standing_count = 0;
	stands("127.0.0.3", STANDING_TIRED);
	for (unsigned i = 0; i < 3; i++)
		stands(servers[i].ip, STANDING_RESTING);
	memmove(servers + 3, servers + server_count - 2, 2 * sizeof(servers[0]));
	server_count = 5;				/* 3 that rest, one not known, one tired */
	ask(OP_KV_GET, "", 0);
	ck_assert_str_eq(sent[3].ip, "127.0.0.2");
	link_breaks(3, TV_EUNREACH);
	ck_assert_str_eq(sent[4].ip, "127.0.0.3");
	link_breaks(4, TV_EUNREACH);
	ck_assert_str_eq(sent[5].ip, "127.1.0.1");
	link_says(5, TV_OK);
	run_until(1);
	finish();
}
END_TEST

/* The view gives servers in random order. */
static void
servers_turned_round(void)
{
	for (unsigned i = 0; i < server_count / 2; i++) {
		struct members_server s = servers[i];

		servers[i] = servers[server_count - 1 - i];
		servers[server_count - 1 - i] = s;
	}
}

/* Asks one question more and has it answered.  Who was asked? */
static const char *
asked_next(const char *dc)
{
	unsigned i = sent_count;

	ask(OP_KV_GET, dc, 0);
	link_says(i, TV_OK);
	run_until(1);
	got.count = 0;
	return sent[i].ip;
}

/* What one server told is not taken back by another one that is behind: with several links the same is asked again. */
static void
same_server_again(bool is_server, const char *dc)
{
	char first[46];

	start(is_server, 1000);
	remote_known = true;
	add_server("127.0.0.1");
	add_server("127.0.0.2");
	add_server("127.0.0.3");
	stands("127.0.0.1", STANDING_OPEN);
	stands("127.0.0.2", STANDING_PROVEN);
	stands("127.0.0.3", STANDING_OPEN);
	strcpy(first, asked_next(dc));
	servers_turned_round();
	ck_assert_str_eq(asked_next(dc), first);
	servers_turned_round();
	ck_assert_str_eq(asked_next(dc), first);

	standings[strcmp(first, "127.0.0.1") == 0 ? 0 : 2].how = STANDING_TIRED;	/* its link broke */
	ck_assert_str_ne(asked_next(dc), first);
	standings[0].how = standings[2].how = STANDING_OPEN;		/* back, with nothing that tells it from the others */
	servers_turned_round();
	ck_assert_str_ne(asked_next(dc), first);
	servers_turned_round();
	ck_assert_str_ne(asked_next(dc), first);
	finish();
}

START_TEST(one_server_is_asked_again)
{
	same_server_again(false, "");
	same_server_again(true, "dc2");
}
END_TEST

/* Requests go to the nearest of those that proved themselves; the nearest of the others is dialled beside them, seldom. */
START_TEST(near_servers_are_looked_at)
{
	places_known = true;
	start(true, 1000);
	remote_known = true;
	add_wan("far.dc2", "dc2", 80, "127.0.0.11");
	add_wan("near.dc2", "dc2", 20, "127.0.0.12");
	add_wan("new.dc2", "dc2", 5, "127.0.0.13");
	add_wan("farther.dc2", "dc2", 90, "127.0.0.14");
	stands("127.0.0.11", STANDING_OPEN);
	stands("127.0.0.12", STANDING_PROVEN);
	for (unsigned i = 0; i < 3; i++) {
		ask(OP_KV_GET, "dc2", 0);
		ck_assert_str_eq(sent[i].ip, "127.0.0.12");
		link_says(i, TV_OK);
		run_until(1);
		got.count = 0;
		ck_assert_uint_eq(probes, 1);
		ck_assert_str_eq(probed, "127.0.0.13");
	}
	stands("127.0.0.13", STANDING_PROVEN);		/* it was real */
	ask(OP_KV_GET, "dc2", 0);
	ck_assert_str_eq(sent[3].ip, "127.0.0.13");
	link_says(3, TV_OK);
	run_until(1);
	finish();
	places_known = false;
}
END_TEST

static const char *
datacenters(void)
{
	static char text[64];
	struct arena a = ARENA_INIT(65536);
	struct rd in = rd_over(got.value, got.value_len);
	struct text_list list = { 0 };
	size_t n = 0;

	ck_assert_int_eq(schema_unpack(&text_list_schema, &in, &a, &list), TV_OK);
	for (uint32_t i = 0; i < list.Values.n; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%.*s ", (int)list.Values.v[i].len,
		    (const char *)list.Values.v[i].p);
	arena_done(&a);
	return text;
}

START_TEST(datacenters_by_distance)
{
	struct buf json = BUF_INIT(4096);

	places_known = true;
	start(true, 1000);
	add_wan("n1.dc1", "dc1", 0, NULL);
	add_wan("a.dc2", "dc2", 10, NULL);	/* the median counts, not the nearest */
	add_wan("b.dc2", "dc2", 90, NULL);
	add_wan("c.dc2", "dc2", 95, NULL);
	add_wan("d.dc4", "dc4", 50, NULL);
	add_wan("e.dc3", "dc3", -1, NULL);
	ask(OP_CATALOG_DATACENTERS, "", 0);
	run_until(1);
	ck_assert_str_eq(datacenters(), "dc1 dc4 dc2 dc3 ");
	got.count = 0;
	wan[4].m.status = MEMBER_LEFT;
	wan[5].rtt_ms = 90;			/* as far as dc2: by name */
	ask(OP_CATALOG_DATACENTERS, "", 0);
	run_until(1);
	ck_assert_str_eq(datacenters(), "dc1 dc2 dc3 dc4 ");
	got.count = 0;
	wan_count = 2;
	wan[1].rtt_ms = 125;
	ask(OP_COORDINATE_DATACENTERS, "", 0);
	run_until(1);
	struct rd in = rd_over(got.value, got.value_len);
	for (uint32_t n = mpr_array(&in); n > 0; n--)
		ck_assert_int_eq(schema_json(&dc_coordinates_schema, &in, &json), TV_OK);
	ck_assert_str_eq(buf_cstr(&json),
	    "{\"Datacenter\":\"dc1\",\"AreaID\":\"wan\",\"Coordinates\":[{\"Node\":\"n1\",\"Segment\":\"\",\"Coord\":"
	    "{\"Vec\":[0,0,0,0,0,0,0,0],\"Error\":1,\"Adjustment\":0,\"Height\":0}}]}"
	    "{\"Datacenter\":\"dc2\",\"AreaID\":\"wan\",\"Coordinates\":[{\"Node\":\"a\",\"Segment\":\"\",\"Coord\":"
	    "{\"Vec\":[0.125,0,0,0,0,0,0,0],\"Error\":1,\"Adjustment\":0,\"Height\":0}}]}");
	buf_done(&json);
	finish();
	places_known = false;
}
END_TEST

START_TEST(any_server_tells_the_datacenters)
{
	start(true, 1000);
	local = (struct raftd_client_status){ .up = false };	/* not even raftd is needed */
	ask(OP_CATALOG_DATACENTERS, "", 0);
	run_until(1);
	ck_assert_int_eq(got.err, TV_OK);
	ck_assert_uint_eq(raftd.calls + sent_count, 0);
	finish();
	start(false, 1000);
	add_server("127.0.0.1");
	ask(OP_CATALOG_DATACENTERS, "", 0);
	ck_assert_int_eq(sent[0].type, MSG_OP);
	link_says(0, TV_OK);
	finish();
}
END_TEST

/* Questions about keys: to the gossipd of any server of the datacenter, and safe to ask again. */
START_TEST(keys_are_asked_of_a_server)
{
	memset(&keys, 0, sizeof(keys));
	start(true, 1000);
	local = (struct raftd_client_status){ .up = false };	/* not even raftd is needed */
	ask(OP_KEYRING, "", 0);
	ck_assert_uint_eq(keys.count, 1);
	keys.done(keys.ctx, &(struct op_reply){ .err = TV_OK, .index = 1 });
	ck_assert(got.count == 1 && got.err == TV_OK && sent_count == 0);
	got.count = 0;
	route_cancel(ask(OP_KEYRING, "", 0));
	ck_assert_uint_eq(keys.cancelled, 1);
	keys.gossipd_away = true;
	ask(OP_KEYRING, "", 0);
	run_until(1);
	ck_assert_str_eq(got.text, "no gossipd there");
	got.count = 0;
	remote_known = true;
	add_server("127.0.0.11");
	ask(OP_KEYRING, "dc2", 0);
	ck_assert_int_eq(sent[0].type, MSG_OP_DC);
	link_says(0, TV_OK);
	ck_assert_int_eq(got.err, TV_OK);
	got.count = 0;
	keys.gossipd_away = false;
	ask(OP_KEYRING, "", 0);
	finish();				/* ends it */
	ck_assert_uint_eq(keys.cancelled, 2);
	start(false, 60000);
	add_server("127.0.0.1");
	ask(OP_KEYRING, "", 0);
	ck_assert_int_eq(sent[0].type, MSG_OP);
	link_breaks(0, TV_ECLOSED);
	route_wake(route);		/* the only one was tried */
	route_wake(route);
	ck_assert_uint_eq(sent_count, 2);
	link_says(1, TV_OK);
	finish();
}
END_TEST

static void
gossipd_says(enum tv_err err)
{
	struct op_reply r = { .err = err, .index = 1 };

	firing.done(firing.ctx, &r);
}

START_TEST(events_are_fired_here_or_in_the_other_datacenter)
{
	struct route_call *c;

	memset(&firing, 0, sizeof(firing));
	for (int server = 0; server < 2; server++) {
		start(server, 1000);
		ask(OP_EVENT_FIRE, "", 0);	/* on a client too: no server is asked */
		gossipd_says(TV_OK);
		ck_assert_uint_eq(got.count, 1);
		got.count = 0;
		c = ask(OP_EVENT_FIRE, "dc1", 0);
		route_cancel(c);
		ck_assert_uint_eq(firing.cancelled, 1u + (unsigned)server);
		firing.gossipd_away = true;
		ask(OP_EVENT_FIRE, "", 0);
		run_until(1);
		ck_assert_str_eq(got.text, "no gossipd");
		firing.gossipd_away = false;
		ck_assert_uint_eq(raftd.calls + sent_count, 0);
		finish();
	}
	start(true, 1000);
	remote_known = true;
	add_server("127.0.1.1");
	ask(OP_EVENT_FIRE, "dc2", 0);
	ck_assert_int_eq(sent[0].type, MSG_OP_DC);
	link_breaks(0, TV_ECLOSED);		/* perhaps it was fired: not again */
	ck_assert_uint_eq(sent_count, 1);
	ck_assert_int_eq(got.err, TV_EUNKNOWN);
	ck_assert_str_eq(got.text, "perhaps");
	got.count = 0;
	ask(OP_EVENT_FIRE, "", 0);
	finish();				/* one under way ends with the router */
	ck_assert_uint_eq(got.count, 1);
}
END_TEST

START_TEST(relayed_requests_do_not_go_in_circles)
{
	static const uint8_t args[] = { 0x90 };
	struct op_request q = { .op = OP_KV_APPLY, .args = span_of(args, sizeof(args)) };
	struct buf b = BUF_INIT(1000);
	enum tv_err err;

	start(true, 60000);
	op_request_write(&b, &q);
	ck_assert_ptr_nonnull(route_relay(route, ROUTE_FINAL, buf_span(&b), on_done, NULL, &err));
	ck_assert_uint_eq(raftd.calls, 1);	/* not passed on to the leader we know */
	raftd_says(TV_ENOTLEADER);
	ck_assert_uint_eq(got.count, 1);
	ck_assert_int_eq(got.err, TV_ENOTLEADER);
	got.count = 0;
	buf_reset(&b);
	q.dc = span_str("dc2");
	remote_known = true;
	op_request_write(&b, &q);
	ck_assert_ptr_nonnull(route_relay(route, ROUTE_DC, buf_span(&b), on_done, NULL, &err));
	run_until(1);
	ck_assert_int_eq(got.err, TV_EUNREACH);
	ck_assert_uint_eq(sent_count, 0);
	ck_assert_ptr_null(route_relay(route, ROUTE_PEER, span_str("garbage"), on_done, NULL, &err));
	ck_assert_int_ne(err, TV_OK);
	q.op = 999;				/* of a newer version: told from what is malformed */
	buf_reset(&b);
	op_request_write(&b, &q);
	ck_assert_ptr_null(route_relay(route, ROUTE_PEER, buf_span(&b), on_done, NULL, &err));
	ck_assert_int_eq(err, TV_EINVAL);
	buf_done(&b);
	finish();
}
END_TEST

START_TEST(identical_blocking_queries_share_an_upstream)
{
	struct route_call *calls[50];
	struct route_stats st;

	start(true, 1000);
	for (int i = 0; i < 50; i++)
		calls[i] = ask(OP_KV_GET, "", 41);
	ask(OP_KV_GET, "", 42);			/* another question */
	ck_assert_uint_eq(raftd.calls, 2);
	route_cancel(calls[7]);
	ck_assert_uint_eq(raftd.cancelled, 0);
	route_stats(route, &st);
	ck_assert_uint_eq(st.joined, 49);
	ck_assert_uint_eq(st.under_way, 50);
	finish();				/* answers the rest with TV_ECLOSED */
	ck_assert_uint_eq(got.count, 50);
	ck_assert_int_eq(got.err, TV_ECLOSED);
}
END_TEST

START_TEST(calls_of_an_upstream_see_one_number)
{
	uint64_t first;

	start(true, 1000);
	for (int i = 0; i < 3; i++)
		ask(OP_KV_GET, "", 41);
	raftd_says(TV_OK);
	ck_assert_uint_eq(got.count, 3);
	ck_assert(!got.other_number);
	first = got.number;
	ck_assert_uint_ne(first, 0);
	ck_assert_uint_eq(route_reply_number(route), 0);
	got.count = 0;
	for (int i = 0; i < 2; i++)
		ask(OP_KV_GET, "", 41);
	raftd_says(TV_OK);
	ck_assert(!got.other_number);
	ck_assert_uint_gt(got.number, first);
	got.count = 0;
	ask(OP_KV_GET, "", 41);
	raftd_says(TV_OK);
	ck_assert_uint_eq(got.count, 1);
	ck_assert_uint_eq(got.number, 0);
	finish();
}
END_TEST

START_TEST(cancel_frees_the_watch_upstream)
{
	struct route_call *c;

	start(true, 1000);
	c = ask(OP_KV_GET, "", 41);
	route_cancel(c);
	ck_assert_uint_eq(raftd.cancelled, raftd.id);
	c = ask(OP_KV_APPLY, "", 0);
	route_cancel(c);
	ck_assert_uint_eq(sent_cancelled, 1);
	finish();
	ck_assert_uint_eq(got.count, 0);
}
END_TEST

START_TEST(own_raftd_away)
{
	start(true, 60000);
	local = (struct raftd_client_status){ .up = false };
	add_server("127.0.0.2");
	ask(OP_KV_GET, "", 0);
	ck_assert_int_eq(sent[0].type, MSG_OP_FINAL);
	link_says(0, TV_OK);
	got.count = 0;
	ask(OP_KV_APPLY, "", 0);
	ck_assert_int_eq(sent[1].type, MSG_OP);
	link_says(1, TV_OK);
	ck_assert_int_eq(got.err, TV_OK);
	finish();
}
END_TEST

START_TEST(too_many_requests_are_refused)
{
	static const uint8_t args[] = { 0x90 };
	struct op_request q = { .op = OP_KV_GET, .args = span_of(args, sizeof(args)) };

	start(true, 1000);
	for (int i = 0; i < 100; i++)
		ck_assert_ptr_nonnull(route_start(route, &q, on_done, NULL));
	ck_assert_ptr_null(route_start(route, &q, on_done, NULL));
	finish();
}
END_TEST

/* What a server has begun only that server can go on with. */
START_TEST(begun_work_goes_to_its_server)
{
	struct buf args = BUF_INIT(1000);
	struct snapshot_ask q = { .Server = span_str("leader-id"), .ID = span_str("x") };
	struct op_request ask = { .op = OP_SNAPSHOT_READ };

	start(true, 60000);
	local.role = RAFT_LEADER;			/* we lead now; it is the other's all the same */
	schema_pack(&snapshot_ask_schema, &q, &args);
	ask.args = buf_span(&args);
	ck_assert_ptr_nonnull(route_start(route, &ask, on_done, NULL));
	ck_assert_uint_eq(sent_count, 1);
	ck_assert_int_eq(sent[0].type, MSG_OP_FINAL);
	ck_assert_str_eq(sent[0].ip, "127.0.0.9");
	link_breaks(0, TV_EUNREACH);
	run_until(1);
	ck_assert_int_eq(got.err, TV_EUNREACH);		/* nobody else is asked */
	ck_assert_str_eq(got.text, "the server responsible cannot be reached");
	ck_assert_uint_eq(raftd.calls, 0);
	q.Server = span_str("own-id");
	buf_reset(&args);
	schema_pack(&snapshot_ask_schema, &q, &args);
	ask.args = buf_span(&args);
	ck_assert_ptr_nonnull(route_start(route, &ask, on_done, NULL));
	ck_assert_uint_eq(raftd.calls, 1);
	raftd_says(TV_OK);
	q.Server = span_str("nobody");
	buf_reset(&args);
	schema_pack(&snapshot_ask_schema, &q, &args);
	ask.args = buf_span(&args);
	ck_assert_ptr_nonnull(route_start(route, &ask, on_done, NULL));
	run_until(3);
	ck_assert_int_eq(got.err, TV_EUNREACH);
	/* At the beginning nobody is named: the leader, or when stale whoever is asked. */
	q.Server = SPAN_NONE;
	buf_reset(&args);
	schema_pack(&snapshot_ask_schema, &q, &args);
	ask = (struct op_request){ .op = OP_SNAPSHOT_SAVE, .args = buf_span(&args) };
	local.role = RAFT_FOLLOWER;
	ck_assert_ptr_nonnull(route_start(route, &ask, on_done, NULL));
	ck_assert_uint_eq(sent_count, 2);
	link_says(1, TV_OK);
	ask.mode = OP_STALE;
	ck_assert_ptr_nonnull(route_start(route, &ask, on_done, NULL));
	ck_assert_uint_eq(raftd.calls, 2);
	raftd_says(TV_OK);
	buf_done(&args);
	finish();
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("route");
	TCase *t = tcase_create("route");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 60);	/* a leader that was has seconds to answer */
	tcase_add_test(t, read_stays_here);
	tcase_add_test(t, upstreams_are_used_again);
	tcase_add_test(t, write_goes_to_the_leader);
	tcase_add_test(t, not_leader_is_held_and_tried_again);
	tcase_add_test(t, no_leader_fails_after_the_hold);
	tcase_add_test(t, lost_answer_of_a_write_is_unknown_and_not_repeated);
	tcase_add_test(t, leader_that_was_does_not_answer);
	tcase_add_test(t, what_waits_for_the_link_goes_to_the_new_leader_at_once);
	tcase_add_test(t, leader_that_was_answers_in_time);
	tcase_add_test(t, lost_answer_of_a_read_is_asked_again);
	tcase_add_test(t, blocking_query_is_held_each_time);
	tcase_add_test(t, write_that_was_not_sent_is_tried_elsewhere);
	tcase_add_test(t, client_leaves_a_server_that_refuses);
	tcase_add_test(t, other_datacenter);
	tcase_add_test(t, nearest_server_of_a_datacenter);
	tcase_add_test(t, client_prefers_servers_that_proved_themselves);
	tcase_add_test(t, one_server_is_asked_again);
	tcase_add_test(t, near_servers_are_looked_at);
	tcase_add_test(t, datacenters_by_distance);
	tcase_add_test(t, any_server_tells_the_datacenters);
	tcase_add_test(t, relayed_requests_do_not_go_in_circles);
	tcase_add_test(t, identical_blocking_queries_share_an_upstream);
	tcase_add_test(t, calls_of_an_upstream_see_one_number);
	tcase_add_test(t, cancel_frees_the_watch_upstream);
	tcase_add_test(t, keys_are_asked_of_a_server);
	tcase_add_test(t, events_are_fired_here_or_in_the_other_datacenter);
	tcase_add_test(t, own_raftd_away);
	tcase_add_test(t, too_many_requests_are_refused);
	tcase_add_test(t, begun_work_goes_to_its_server);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
