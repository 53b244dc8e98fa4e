/* From tokens to rights: what is asked, kept, shared and forgotten, and what decides without servers. */
#include <check.h>
#include <ev.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "rpcd/acl/grants.h"
#include "rpcd/acl/guard.h"
#include "rpcd/acl/rights.h"

/* -- a router ------------------------------------------------------------------ */

struct route_call {
	route_done *done;
	void *ctx;
	uint8_t mode;
	char secret[256], token[256];
	bool open;
};
static struct route_call calls[512];
static unsigned call_count, cancelled;
static bool full;
static struct route_provider provided;

struct route_call *
route_start(struct route *r, const struct op_request *q, route_done *done, void *ctx)
{
	struct arena a = ARENA_INIT(4096);
	struct rd in = rd_span_over(q->args);
	struct acl_secret args;
	struct route_call *c = &calls[call_count];

	(void)r;
	if (full)
		return NULL;
	ck_assert_uint_lt(call_count, 512);
	call_count++;
	ck_assert_uint_eq(q->op, OP_ACL_RESOLVE);
	ck_assert_uint_eq(q->dc.len, 0);
	ck_assert_int_eq(schema_unpack(&acl_secret_schema, &in, &a, &args), TV_OK);
	*c = (struct route_call){ .done = done, .ctx = ctx, .mode = q->mode, .open = true };
	ck_assert(span_copy(args.SecretID, c->secret, sizeof(c->secret)));
	ck_assert(span_copy(q->token, c->token, sizeof(c->token)));
	arena_done(&a);
	return c;
}

void
route_cancel(struct route_call *c)
{
	ck_assert(c->open);
	c->open = false;
	cancelled++;
}

void
route_provide(struct route *r, enum op_kind kind, const struct route_provider *p)
{
	(void)r;
	(void)kind;
	provided = *p;
}

static void
reply(struct route_call *c, enum tv_err err, struct span value)
{
	ck_assert(c->open);
	c->open = false;
	c->done(c->ctx, &(struct op_reply){ .err = err, .value = value, .index = 1 });
}

static void
reply_rights(struct route_call *c, const char *rules, int64_t expires)
{
	struct acl_resolved_policy p = { .ID = span_str("p"), .Name = span_str("p"), .Rules = span_str(rules) };
	struct acl_resolved what = { .AccessorID = span_str("11111111-2222-3333-4444-555555555555"), .Expires = expires,
		.Policies = { &p, 1, true } };
	struct buf b = BUF_INIT(1 << 16);

	schema_pack(&acl_resolved_schema, &what, &b);
	reply(c, TV_OK, buf_span(&b));
	buf_done(&b);
}

/* -- a resolver and who asks ----------------------------------------------------- */

static struct rpcd_conf conf;
static char master_token[] = "master";
static struct agent_tokens tokens;
static struct acl_resolver *resolver;
static struct ev_loop *loop;

static struct told {
	unsigned count;
	enum acl_standing standing;
	bool reads_a, writes_a;
} told;

static void
note(const struct acl_answer *a)
{
	told.count++;
	told.standing = a->standing;
	told.reads_a = a->standing == ACL_GRANTED && acl_set_allows(a->rights->set, ACL_KEY, span_str("a"), ACL_READ);
	told.writes_a = a->standing == ACL_GRANTED && acl_set_allows(a->rights->set, ACL_KEY, span_str("a"), ACL_WRITE);
}

static struct acl_wait *waits[512];		/* of ask(): those that were told are NULL */
static unsigned wait_count;

static void
on_answer(void *ctx, const struct acl_answer *a)
{
	struct acl_wait **w = ctx;

	if (w != NULL)
		*w = NULL;
	note(a);
}

/* True: at once. */
static bool
ask(const char *token)
{
	struct acl_answer now;
	struct acl_wait **w = &waits[wait_count++];
	enum acl_got got = acl_ask(resolver, span_str(token), &now, on_answer, w, w);

	ck_assert_uint_lt(wait_count, 512);
	ck_assert_int_ne(got, ACL_BUSY);
	if (got == ACL_NOW)
		note(&now);
	return got == ACL_NOW;
}

static struct route_call *
newest(const char *secret, uint8_t mode)
{
	struct route_call *c = &calls[call_count - 1];

	ck_assert_uint_gt(call_count, 0);
	ck_assert(c->open);
	ck_assert_str_eq(c->secret, secret);
	ck_assert_str_eq(c->token, "");
	ck_assert_uint_eq(c->mode, mode);
	return c;
}

static void
begin(bool server, bool expected, const char *path)
{
	resolver = acl_resolver_new(&(struct acl_resolver_conf){ .loop = loop, .conf = &conf, .tokens = &tokens,
	    .node_name = "n1", .server = server, .expected = expected, .path = path });
	ck_assert_ptr_nonnull(resolver);
	(void)newest("", OP_STALE);		/* whether it holds at all */
}

/* Access control holds, and nobody without a token may do anything. */
static void
begin_on(bool server)
{
	begin(server, true, NULL);
	reply_rights(newest("", OP_STALE), "", 0);
}

static void
setup(void)
{
	ck_assert_int_ge(sodium_init(), 0);
	loop = ev_loop_new(EVFLAG_AUTO);
	conf = (struct rpcd_conf){ .acl_token_ttl = MONO_S(30), .acl_down = ACL_DOWN_EXTEND_CACHE,
	    .acl_tokens = { [RPCD_TOKEN_AGENT_MASTER] = master_token } };
	tokens = (struct agent_tokens){ .conf = &conf };
	memset(&told, 0, sizeof(told));
	call_count = cancelled = 0;
	full = false;
}

static void
teardown(void)
{
	acl_resolver_free(resolver);
	while (wait_count > 0)
		if (waits[--wait_count] != NULL)
			acl_cancel(waits[wait_count]);
	ev_loop_destroy(loop);
}

static const char reads_a[] = "key \"a\" { policy = \"read\" }";

START_TEST(kept_and_shared)
{
	begin_on(false);
	ck_assert(!ask("t"));
	ck_assert(!ask("t"));
	ck_assert_uint_eq(call_count, 2);	/* one question for both */
	reply_rights(newest("t", OP_STALE), reads_a, 0);
	ck_assert_uint_eq(told.count, 2);
	ck_assert(told.standing == ACL_GRANTED && told.reads_a && !told.writes_a);
	ck_assert(ask("t") && told.reads_a);
	ck_assert(!ask("other"));
	ck_assert(!told.writes_a);
	reply_rights(newest("other", OP_STALE), "key_prefix \"\" { policy = \"write\" }", 0);
	ck_assert(told.writes_a);
	ck_assert(span_eqs(resolver_accessor(resolver, span_str("t")), "11111111-2222-3333-4444-555555555555"));
	ck_assert_uint_eq(resolver_accessor(resolver, span_str("none")).len, 0);
	/* After its time it is asked for again. */
	conf.acl_token_ttl = MONO_ZERO;
	ck_assert(!ask("t"));
	reply_rights(newest("t", OP_STALE), "", 0);
	ck_assert(!told.reads_a);
}
END_TEST

START_TEST(server_asks_each_time)
{
	begin_on(true);
	for (int i = 0; i < 3; i++) {
		ck_assert(!ask("t"));
		reply_rights(newest("t", OP_STALE), i == 1 ? "" : reads_a, 0);
		ck_assert_int_eq(told.reads_a, i != 1);
	}
}
END_TEST

START_TEST(ends_with_its_token)
{
	begin_on(false);
	ck_assert(!ask("t"));
	reply_rights(newest("t", OP_STALE), reads_a, clock_wall_ns() - 1);
	ck_assert(!ask("t"));		/* though its 30 seconds are not over */
	reply(newest("t", OP_STALE), TV_ECLOSED, SPAN_NONE);
	ck_assert(told.standing == ACL_GRANTED && !told.reads_a);	/* nor does extend-cache extend it */
}
END_TEST

START_TEST(unknown_is_confirmed)
{
	begin_on(false);
	ck_assert(!ask("t"));
	reply(newest("t", OP_STALE), TV_EPERM, SPAN_NONE);
	ck_assert_uint_eq(told.count, 0);	/* a server may not have heard of it yet */
	reply_rights(newest("t", OP_DEFAULT), reads_a, 0);
	ck_assert(told.reads_a);
	ck_assert(!ask("u"));
	reply(newest("u", OP_STALE), TV_EPERM, SPAN_NONE);
	reply(newest("u", OP_DEFAULT), TV_EPERM, SPAN_NONE);
	ck_assert_int_eq(told.standing, ACL_NOT_FOUND);
	ck_assert(ask("u"));			/* kept for a moment */
	ck_assert_int_eq(told.standing, ACL_NOT_FOUND);
	/* No leader to confirm it: what was said counts. */
	ck_assert(!ask("v"));
	reply(newest("v", OP_STALE), TV_EPERM, SPAN_NONE);
	reply(newest("v", OP_DEFAULT), TV_ENOLEADER, SPAN_NONE);
	ck_assert_int_eq(told.standing, ACL_NOT_FOUND);
}
END_TEST

START_TEST(down_policies)
{
	static const struct { int policy; bool known, unknown; } v[] = {
		{ ACL_DOWN_EXTEND_CACHE, true, false }, { ACL_DOWN_ASYNC_CACHE, true, false },
		{ ACL_DOWN_DENY, false, false }, { ACL_DOWN_ALLOW, true, true },
	};
	struct acl_stats st;

	begin_on(false);
	ck_assert(!ask("t"));
	reply_rights(newest("t", OP_STALE), reads_a, 0);
	conf.acl_token_ttl = MONO_ZERO;
	ck_assert(!ask("t"));
	reply(newest("t", OP_STALE), TV_ECLOSED, SPAN_NONE);
	ck_assert(told.reads_a);
	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		conf.acl_down = v[i].policy;
		ck_assert(ask("t"));		/* nobody waits for what did not come */
		ck_assert_int_eq(told.reads_a, v[i].known);
		ck_assert(ask("u"));
		ck_assert_int_eq(told.reads_a, v[i].unknown);
		ck_assert(ask("master"));	/* this needs no server */
		ck_assert(told.standing == ACL_GRANTED && !told.reads_a);
	}
	acl_stats(resolver, &st);
	ck_assert(st.down && st.holds);
	ck_assert_uint_eq(st.by_down_policy, 8);	/* async-cache had one */
	ck_assert_uint_eq(st.under_way, 2);	/* but both are asked for meanwhile */
	conf.acl_down = ACL_DOWN_DENY;
	for (unsigned i = 0; i < call_count; i++)
		if (calls[i].open)
			reply_rights(&calls[i], reads_a, 0);
	ck_assert(!ask("t"));			/* servers are back: it is waited for again */
	conf.acl_token_ttl = MONO_S(30);
	ck_assert(ask("u") && told.reads_a);
}
END_TEST

START_TEST(async_does_not_wait)
{
	begin_on(false);
	conf.acl_down = ACL_DOWN_ASYNC_CACHE;
	ck_assert(!ask("t"));
	reply_rights(newest("t", OP_STALE), reads_a, 0);
	conf.acl_token_ttl = MONO_ZERO;
	ck_assert(ask("t") && told.reads_a);
	reply_rights(newest("t", OP_STALE), "", 0);
	ck_assert(ask("t") && !told.reads_a);
}
END_TEST

START_TEST(silence)
{
	begin_on(false);
	ck_assert(!ask("t"));
	while (told.count == 0)
		ev_run(loop, EVRUN_ONCE);
	ck_assert(told.standing == ACL_GRANTED && !told.reads_a);
	reply_rights(newest("t", OP_STALE), reads_a, 0);	/* late, and of use */
	ck_assert(ask("t") && told.reads_a);
}
END_TEST

START_TEST(nothing_says_that_it_holds)
{
	begin(false, false, NULL);
	ck_assert(!acl_is_off(resolver));
	ck_assert(!acl_holds(resolver));
	ck_assert(!ask("t"));
	reply(newest("t", OP_STALE), TV_ECLOSED, SPAN_NONE);
	ck_assert_int_eq(told.standing, ACL_OFF);
	ck_assert(acl_is_off(resolver));
	ck_assert(ask("t"));
	ck_assert_int_eq(told.standing, ACL_OFF);
	reply(&calls[0], TV_EDISABLED, SPAN_NONE);
	ck_assert(acl_is_off(resolver));
	ck_assert_uint_eq(call_count, 2);
}
END_TEST

/* That it did not hold a while ago opens nothing now: whoever asks waits for the answer. */
START_TEST(off_for_a_while)
{
	conf.acl_token_ttl = MONO_ZERO;
	begin(false, false, NULL);
	reply(newest("", OP_STALE), TV_EDISABLED, SPAN_NONE);
	ck_assert(!acl_is_off(resolver));
	ck_assert(!ask("t"));
	reply_rights(newest("t", OP_STALE), reads_a, 0);
	ck_assert(told.standing == ACL_GRANTED && told.reads_a && !told.writes_a);
	ck_assert(acl_holds(resolver));
}
END_TEST

START_TEST(expected)
{
	begin(false, true, NULL);
	ck_assert(acl_holds(resolver));
	ck_assert(!ask("t"));
	reply(newest("t", OP_STALE), TV_ECLOSED, SPAN_NONE);
	ck_assert(told.standing == ACL_GRANTED && !told.reads_a);
	/* An agent believes servers that know to be up to date. */
	reply(&calls[0], TV_EDISABLED, SPAN_NONE);
	ck_assert(!acl_is_off(resolver));
	reply(newest("", OP_DEFAULT), TV_EDISABLED, SPAN_NONE);
	ck_assert(!acl_holds(resolver));
	/* But only for one request: it is to begin. */
	ck_assert(!ask("t"));
	reply(newest("t", OP_STALE), TV_EDISABLED, SPAN_NONE);
	reply(newest("t", OP_DEFAULT), TV_EDISABLED, SPAN_NONE);
	ck_assert_int_eq(told.standing, ACL_OFF);
	ck_assert(!ask("t"));
	reply_rights(newest("t", OP_STALE), reads_a, 0);
	ck_assert(told.standing == ACL_GRANTED && told.reads_a && acl_holds(resolver));
	acl_resolver_free(resolver);
	/* A server that is to begin it does not open before. */
	begin(true, true, NULL);
	reply(newest("", OP_STALE), TV_EDISABLED, SPAN_NONE);
	reply(newest("", OP_DEFAULT), TV_EDISABLED, SPAN_NONE);
	ck_assert(!acl_is_off(resolver));
	ck_assert(acl_holds(resolver));
}
END_TEST

START_TEST(remembered)
{
	char path[] = "/tmp/tv-acl-XXXXXX";
	struct stat st;

	ck_assert_int_ge(mkstemp(path), 0);
	ck_assert_int_eq(unlink(path), 0);
	begin(false, false, path);
	reply_rights(newest("", OP_STALE), "", 0);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0600);
	acl_resolver_free(resolver);
	begin(false, false, path);		/* no server yet, and closed */
	ck_assert(acl_holds(resolver));
	reply(newest("", OP_STALE), TV_EDISABLED, SPAN_NONE);
	ck_assert(acl_holds(resolver));
	reply(newest("", OP_DEFAULT), TV_ENOLEADER, SPAN_NONE);
	ck_assert(acl_holds(resolver));
	ck_assert(ask("t"));
	ck_assert(told.standing == ACL_GRANTED && !told.reads_a);
	reply(newest("t", OP_STALE), TV_EDISABLED, SPAN_NONE);
	reply(newest("t", OP_DEFAULT), TV_EDISABLED, SPAN_NONE);
	ck_assert(acl_is_off(resolver));
	ck_assert_int_ne(stat(path, &st), 0);
}
END_TEST

START_TEST(master)
{
	struct acl_rights *m;

	begin_on(false);
	m = acl_master_rights(resolver);
	ck_assert(acl_set_allows(m->set, ACL_AGENT, span_str("n1"), ACL_WRITE));
	ck_assert(!acl_set_allows(m->set, ACL_AGENT, span_str("n2"), ACL_READ));
	ck_assert(acl_set_allows(m->set, ACL_NODE, span_str("n2"), ACL_READ));
	ck_assert(!acl_set_allows(m->set, ACL_NODE, span_str("n1"), ACL_WRITE));
	ck_assert(!acl_set_allows(m->set, ACL_OPERATOR, span_str(""), ACL_READ));
	ck_assert(acl_is_master(resolver, span_str("master")));
	ck_assert(!acl_is_master(resolver, span_str("maste")) && !acl_is_master(resolver, span_str("")));
	conf.acl_tokens[RPCD_TOKEN_AGENT_MASTER] = NULL;
	ck_assert(!acl_is_master(resolver, span_str("")));
}
END_TEST

START_TEST(bounds)
{
	struct acl_answer now;
	struct acl_wait *w;
	struct acl_stats st;
	char token[32], long_token[300];

	begin_on(false);
	memset(long_token, 'x', sizeof(long_token));
	long_token[sizeof(long_token) - 1] = '\0';
	ck_assert(ask(long_token));
	ck_assert_int_eq(told.standing, ACL_NOT_FOUND);
	for (unsigned i = 0; i < 192; i++) {
		snprintf(token, sizeof(token), "t%u", i);
		ck_assert(!ask(token));
	}
	ck_assert_int_eq(acl_ask(resolver, span_str("one more"), &now, on_answer, NULL, &w), ACL_BUSY);
	acl_stats(resolver, &st);
	ck_assert_uint_eq(st.under_way, 192);
	ck_assert_uint_eq(st.waiting, 192);
	ck_assert_uint_eq(st.busy, 1);
}
END_TEST

/* Invented tokens leave room for those that were known; and where there is none, rights go on for another ttl. */
START_TEST(known_tokens_have_room)
{
	struct acl_answer now;
	struct acl_wait *w;
	struct acl_stats st;
	char token[32];

	begin_on(false);
	for (unsigned i = 0; i < 64; i++) {
		snprintf(token, sizeof(token), "known%u", i);
		ck_assert(!ask(token));
		reply_rights(newest(token, OP_STALE), reads_a, 0);
	}
	ck_assert(!ask("good"));
	reply_rights(newest("good", OP_STALE), reads_a, 0);
	for (unsigned i = 0; i < 192; i++) {
		snprintf(token, sizeof(token), "t%u", i);
		ck_assert(!ask(token));
	}
	ck_assert_int_eq(acl_ask(resolver, span_str("one more"), &now, on_answer, NULL, &w), ACL_BUSY);
	usleep(1100000);
	conf.acl_token_ttl = MONO_S(1);
	for (unsigned i = 0; i < 64; i++) {
		snprintf(token, sizeof(token), "known%u", i);
		ck_assert(!ask(token));
	}
	memset(&told, 0, sizeof(told));
	ck_assert(ask("good"));
	ck_assert(told.standing == ACL_GRANTED && told.reads_a);
	acl_stats(resolver, &st);
	ck_assert_uint_eq(st.under_way, 256);
	ck_assert_uint_eq(st.by_old_rights, 1);
	conf.acl_token_ttl = MONO_MS(500);	/* which was two of them ago */
	ck_assert_int_eq(acl_ask(resolver, span_str("good"), &now, on_answer, NULL, &w), ACL_BUSY);
}
END_TEST

START_TEST(who_leaves_is_not_told)
{
	struct acl_answer now;
	struct acl_wait *a, *b;

	begin_on(false);
	ck_assert_int_eq(acl_ask(resolver, span_str("t"), &now, on_answer, NULL, &a), ACL_LATER);
	ck_assert_int_eq(acl_ask(resolver, span_str("t"), &now, on_answer, NULL, &b), ACL_LATER);
	acl_cancel(a);
	reply_rights(newest("t", OP_STALE), reads_a, 0);
	ck_assert_uint_eq(told.count, 1);
	ck_assert_int_eq(acl_ask(resolver, span_str("u"), &now, on_answer, NULL, &a), ACL_LATER);
	acl_resolver_free(resolver);
	resolver = NULL;
	acl_cancel(a);
	ck_assert_uint_eq(told.count, 1);
}
END_TEST

/* -- the table ------------------------------------------------------------------- */

START_TEST(guesses_drive_out_nothing)
{
	struct grants *g = grants_new(&(struct grants_conf){ .kept_max = 4, .unknown_max = 8, .bytes_max = 1 << 20,
	    .unknown_ttl = MONO_S(1) });
	struct acl_rights *rights = acl_rights_plain(true), *got;
	uint8_t key[GRANT_KEY_BYTES] = { 0 };
	unsigned kept, unknown;
	uint64_t bytes;

	for (unsigned i = 0; i < 100; i++) {
		key[0] = (uint8_t)i;
		key[5] = i < 6;
		grants_put(g, key, MONO_S(10), i < 6 ? rights : NULL);
	}
	grants_count(g, &kept, &unknown, &bytes);
	ck_assert_uint_eq(kept, 4);
	ck_assert_uint_eq(unknown, 8);
	ck_assert_uint_gt(bytes, 0);
	key[0] = 5;
	key[5] = 1;
	ck_assert_int_eq(grants_get(g, key, MONO_S(11), 0, MONO_S(30), &got), GRANT_FRESH);
	ck_assert_ptr_eq(got, rights);
	ck_assert_int_eq(grants_get(g, key, MONO_S(40), 0, MONO_S(30), &got), GRANT_OLD);
	key[0] = 0;
	ck_assert_int_eq(grants_get(g, key, MONO_S(11), 0, MONO_S(30), &got), GRANT_NONE);
	key[0] = 99;
	key[5] = 0;
	ck_assert_int_eq(grants_get(g, key, MONO_MS(10500), 0, MONO_S(30), &got), GRANT_FRESH);
	ck_assert_ptr_null(got);
	ck_assert_int_eq(grants_get(g, key, MONO_MS(11500), 0, MONO_S(30), &got), GRANT_NONE);
	grants_free(g);
	ck_assert_uint_eq(rights->refs, 1);
	acl_rights_free(rights);
}
END_TEST

/* -- what is carried out here ------------------------------------------------------ */

static unsigned inner_started, inner_cancelled;
static struct op_reply guarded;
static unsigned guarded_count;

static void *
inner_start(void *ctx, const struct op_request *q, struct mono timeout, route_done *done, void *done_ctx,
    enum tv_err *err)
{
	(void)ctx;
	(void)timeout;
	(void)done;
	(void)done_ctx;
	ck_assert_uint_eq(q->op, OP_EVENT_FIRE);
	*err = TV_OK;
	inner_started++;
	return &inner_started;
}

static void
inner_cancel(void *started)
{
	ck_assert_ptr_eq(started, &inner_started);
	inner_cancelled++;
}

static void
on_guarded(void *ctx, const struct op_reply *r)
{
	(void)ctx;
	guarded = *r;
	guarded_count++;
}

static void *
fire(const char *name, const char *token)
{
	struct event_fire args = { .Name = span_str(name) };
	struct buf b = BUF_INIT(4096);
	enum tv_err err;
	void *started;

	schema_pack(&event_fire_schema, &args, &b);
	started = provided.start(provided.ctx, &(struct op_request){ .op = OP_EVENT_FIRE, .token = span_str(token),
	    .args = buf_span(&b) }, MONO_S(1), on_guarded, NULL, &err);
	buf_done(&b);
	ck_assert_ptr_nonnull(started);
	return started;
}

START_TEST(what_is_carried_out_here)
{
	struct acl_guard g = { .loop = loop, .inner = { .start = inner_start, .cancel = inner_cancel } };
	void *started;

	inner_started = inner_cancelled = guarded_count = 0;
	begin_on(false);
	g.resolver = resolver;
	acl_guard_provide(&g, NULL, OP_GOSSIP);
	started = fire("deploy", "t");
	ck_assert_uint_eq(inner_started, 0);
	reply_rights(newest("t", OP_STALE), "event \"deploy\" { policy = \"write\" }", 0);
	ck_assert_uint_eq(inner_started, 1);
	provided.cancel(started);
	ck_assert_uint_eq(inner_cancelled, 1);
	(void)fire("other", "t");		/* known, and told from the loop */
	ck_assert_uint_eq(guarded_count, 0);
	ev_run(loop, EVRUN_ONCE);
	ck_assert_uint_eq(guarded_count, 1);
	ck_assert_int_eq(guarded.err, TV_EPERM);
	ck_assert(span_eqs(guarded.text, "Permission denied"));
	(void)fire("deploy", "u");
	reply(newest("u", OP_STALE), TV_EPERM, SPAN_NONE);
	reply(newest("u", OP_DEFAULT), TV_EPERM, SPAN_NONE);
	ck_assert_uint_eq(guarded_count, 2);
	ck_assert(span_eqs(guarded.text, "ACL not found"));
	provided.cancel(fire("deploy", "v"));
	ck_assert_uint_eq(inner_started, 1);
	ck_assert_uint_eq(g.denied, 2);
}
END_TEST

/* -- tokens of the agent ------------------------------------------------------------ */

START_TEST(own_tokens)
{
	char dir[] = "/tmp/tv-tokens-XXXXXX", path[64], why[256], from_conf[] = "c";
	struct agent_tokens t = { .conf = &conf, .path = path };
	enum rpcd_token kind;
	struct stat st;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/tokens.json", dir);
	conf.acl_persist = true;
	ck_assert_int_eq(agent_tokens_open(&t, why, sizeof(why)), TV_OK);
	ck_assert_uint_eq(agent_token_own(&t).len, 0);
	conf.acl_tokens[RPCD_TOKEN_DEFAULT] = from_conf;
	ck_assert(span_eqs(agent_token_own(&t), "c"));
	ck_assert(agent_token_kind(span_str("acl_agent_token"), &kind) && kind == RPCD_TOKEN_AGENT);
	ck_assert(agent_token_kind(span_str("default"), &kind) && kind == RPCD_TOKEN_DEFAULT);
	ck_assert(!agent_token_kind(span_str("bogus"), &kind));
	ck_assert(agent_token_kind(span_str("agent_recovery"), &kind) && kind == RPCD_TOKEN_AGENT_MASTER);
	ck_assert(agent_token_kind(span_str("config_file_service_registration"), &kind) && kind == RPCD_TOKEN_CONFIG_FILE);
	ck_assert_int_eq(agent_token_set(&t, RPCD_TOKEN_CONFIG_FILE, span_str("f")), TV_OK);
	ck_assert_int_eq(agent_token_set(&t, RPCD_TOKEN_DEFAULT, span_str("d")), TV_OK);
	ck_assert_int_eq(agent_token_set(&t, RPCD_TOKEN_AGENT, span_str("a")), TV_OK);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0600);
	agent_tokens_reload(&t);		/* it is kept, and goes before the file */
	ck_assert(span_eqs(agent_token_default(&t), "d") && span_eqs(agent_token_own(&t), "a"));
	ck_assert(span_eqs(agent_token_config_file(&t), "f") && agent_token_config_file(NULL).len == 0);
	agent_tokens_close(&t);
	ck_assert_int_eq(agent_tokens_open(&t, why, sizeof(why)), TV_OK);
	ck_assert(span_eqs(agent_token_default(&t), "d") && span_eqs(agent_token_own(&t), "a"));
	conf.acl_persist = false;
	ck_assert_int_eq(agent_token_set(&t, RPCD_TOKEN_DEFAULT, span_str("")), TV_OK);
	ck_assert_uint_eq(agent_token_default(&t).len, 0);
	agent_tokens_reload(&t);
	ck_assert(span_eqs(agent_token_default(&t), "c"));
	agent_tokens_close(&t);
	conf.acl_persist = true;
	ck_assert_int_eq(file_replace(AT_FDCWD, path, span_str("{\"Default\":"), 0600), TV_OK);
	ck_assert_int_ne(agent_tokens_open(&t, why, sizeof(why)), TV_OK);
	ck_assert_ptr_nonnull(strstr(why, path));
	ck_assert_int_eq(file_remove(path), TV_OK);
	ck_assert_int_eq(rmdir(dir), 0);
	begin(false, false, NULL);
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		kept_and_shared, server_asks_each_time, ends_with_its_token, unknown_is_confirmed, down_policies,
		async_does_not_wait, silence, nothing_says_that_it_holds, off_for_a_while, expected, remembered, master, bounds,
		known_tokens_have_room, who_leaves_is_not_told, guesses_drive_out_nothing, what_is_carried_out_here, own_tokens,
	};
	Suite *s = suite_create("acl_resolver");
	TCase *t = tcase_create("acl_resolver");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(t, tests[i]);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
