/*
 * User events between gossip and the API, and the lists of events and queries, with a fake in the place of the registry.
 */
#include <check.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/net/msg.h"
#include "common/record/mpack.h"
#include "rpcd/event/event_wire.h"
#include "rpcd/event/events.h"
#include "rpcd/event/fire.h"
#include "rpcd/event/queries.h"

/* -- fakes: what is registered on this node; gossipd is asked to fire ---------------------- */

static struct {
	unsigned asked;
	const char *service, *tag;	/* NULL: none */
} registered;

static struct {
	struct buf body;
	calls_done *done;
	void *ctx;
	uint64_t cancelled;
	bool away;
} gossipd;

struct daemon_client *
members_daemon(struct members *v)
{
	(void)v;
	return NULL;
}

uint64_t
daemon_client_call(struct daemon_client *c, uint16_t type, struct span body, struct mono timeout, calls_done *done,
    void *ctx, enum tv_err *err)
{
	(void)c;
	(void)timeout;
	ck_assert_uint_eq(type, MSG_GOSSIP_FIRE);
	*err = TV_EUNREACH;
	if (gossipd.away)
		return 0;
	buf_reset(&gossipd.body);
	buf_putspan(&gossipd.body, body);
	gossipd.done = done;
	gossipd.ctx = ctx;
	return 77;
}

void
daemon_client_cancel(struct daemon_client *c, uint64_t id)
{
	(void)c;
	gossipd.cancelled = id;
}

/* One service with two tags, behind one that nobody asks for. */
static void
own_services(void *ctx, void (*fn)(void *fn_ctx, const struct service *s), void *fn_ctx)
{
	struct span tags[] = { span_str("other"), span_str(registered.tag != NULL ? registered.tag : "") };
	struct service unwanted = { .ID = span_str("x"), .Service = span_str("unwanted") };
	struct service s = { .ID = span_str("id"), .Tags = { tags, 2, true } };

	(void)ctx;
	registered.asked++;
	fn(fn_ctx, &unwanted);
	if (registered.service == NULL)
		return;
	s.Service = span_str(registered.service);
	fn(fn_ctx, &s);
}

/* -- helpers ----------------------------------------------------------------------------- */

static struct ev_loop *loop;
static struct events *events;
static struct {
	unsigned count;
	bool timed_out;
} woken;

static void
setup(void)
{
	ck_assert_int_ge(sodium_init(), 0);
	memset(&registered, 0, sizeof(registered));
	memset(&woken, 0, sizeof(woken));
	gossipd.away = false;
	gossipd.cancelled = 0;
	gossipd.body = BUF_INIT(1 << 20);
	loop = ev_loop_new(EVFLAG_AUTO);
	events = events_new(&(struct events_conf){ .loop = loop, .node_name = "web-1", .services = own_services });
	ck_assert_ptr_nonnull(events);
}

static void
teardown(void)
{
	events_free(events);
	ev_loop_destroy(loop);
	buf_done(&gossipd.body);
}

static void
tell_raw(unsigned pool, uint64_t ltime, struct span name, struct span payload, bool old)
{
	struct buf b = BUF_INIT(1 << 20);

	mpw_array(&b, 6);
	mpw_uint(&b, pool);
	mpw_uint(&b, ltime);
	mpw_str(&b, name);
	mpw_bin(&b, payload);
	mpw_bool(&b, false);
	mpw_bool(&b, old);
	ck_assert_int_eq(events_told(events, buf_span(&b)), TV_OK);
	buf_done(&b);
}

/* As its sender's rpcd would have written it. */
static void
tell(uint64_t ltime, const struct user_event *e)
{
	struct buf name = BUF_INIT(1 << 16), payload = BUF_INIT(1 << 16);

	event_wire_write(e, &name, &payload);
	tell_raw(POOL_LAN, ltime, buf_span(&name), buf_span(&payload), false);
	buf_done(&name);
	buf_done(&payload);
}

static void
on_wake(void *ctx, bool timed_out)
{
	(void)ctx;
	woken.count++;
	woken.timed_out = timed_out;
}

#define ID1 "00000000-0000-0001-0000-000000000002"
#define ID2 "00000000-0000-0001-0000-000000000003"

static struct user_event
event(const char *id, const char *name, const char *node, const char *service, const char *tag)
{
	return (struct user_event){ .ID = span_str(id), .Name = span_str(name), .Payload = span_str("bytes"),
		.NodeFilter = span_str(node), .ServiceFilter = span_str(service), .TagFilter = span_str(tag),
		.Version = 1 };
}

#define span_is(span_, text_) \
	ck_assert_msg(span_eqs((span_), (text_)), "%.*s", (int)(span_).len, (const char *)(span_).p)

/* -- on the wire ------------------------------------------------------------------------- */

START_TEST(plain_events_keep_name_and_bytes)
{
	struct user_event e = event("", "deploy", "", "", ""), got;
	struct buf name = BUF_INIT(1000), payload = BUF_INIT(1000);
	char id[EVENT_ID_BYTES + 1], again[EVENT_ID_BYTES + 1];

	event_wire_write(&e, &name, &payload);
	span_is(buf_span(&name), "deploy");
	span_is(buf_span(&payload), "bytes");
	ck_assert_int_eq(event_wire_read(7, buf_span(&name), buf_span(&payload), id, &got), EVENT_USER);
	span_is(got.Name, "deploy");
	span_is(got.Payload, "bytes");
	ck_assert_uint_eq(got.LTime, 7);
	ck_assert_uint_eq(got.Version, 1);
	ck_assert_uint_eq(got.ID.len, EVENT_ID_BYTES);
	event_wire_id(7, span_str("deploy"), span_str("bytes"), again);	/* what the firing node answers */
	span_is(got.ID, again);
	event_wire_id(8, span_str("deploy"), span_str("bytes"), id);
	ck_assert_str_ne(id, again);
	event_wire_id(7, span_str("deployb"), span_str("ytes"), id);
	ck_assert_str_ne(id, again);
	buf_done(&name);
	buf_done(&payload);
}
END_TEST

START_TEST(filters_travel_in_an_envelope)
{
	struct user_event e = event(ID1, "deploy", "^web", "api", "v[0-9]"), got;
	struct buf name = BUF_INIT(1000), payload = BUF_INIT(1000);
	char id[EVENT_ID_BYTES + 1];

	event_wire_write(&e, &name, &payload);
	span_is(buf_span(&name), "consul:event:deploy");
	ck_assert_int_eq(event_wire_read(9, buf_span(&name), buf_span(&payload), id, &got), EVENT_USER);
	span_is(got.ID, ID1);
	span_is(got.Name, "deploy");
	span_is(got.Payload, "bytes");
	span_is(got.NodeFilter, "^web");
	span_is(got.ServiceFilter, "api");
	span_is(got.TagFilter, "v[0-9]");
	/* A user cannot speak for the servers: such a name is wrapped as well. */
	buf_reset(&name);
	buf_reset(&payload);
	e = event(ID2, "consul:new-leader", "", "", "");
	event_wire_write(&e, &name, &payload);
	span_is(buf_span(&name), "consul:event:consul:new-leader");
	ck_assert_int_eq(event_wire_read(9, buf_span(&name), buf_span(&payload), id, &got), EVENT_USER);
	span_is(got.Name, "consul:new-leader");
	ck_assert_int_eq(event_wire_read(9, span_str("consul:new-leader"), span_str("n1"), id, &got), EVENT_INTERNAL);
	buf_done(&name);
	buf_done(&payload);
}
END_TEST

START_TEST(broken_envelopes)
{
	/* {"ID": nil, "n": "x", "v": 1, "later": [1]}; then cut at each byte */
	static const uint8_t good[] = { 0x84, 0xa2, 'I', 'D', 0xc0, 0xa1, 'n', 0xa1, 'x', 0xa1, 'v', 1,
		0xa5, 'l', 'a', 't', 'e', 'r', 0x91, 1 };
	struct user_event got;
	char id[EVENT_ID_BYTES + 1];

	ck_assert_int_eq(event_wire_read(1, span_str("consul:event:y"), span_of(good, sizeof(good)), id, &got),
	    EVENT_USER);
	span_is(got.Name, "x");
	ck_assert_uint_eq(got.ID.len, EVENT_ID_BYTES);		/* derived: it had none */
	ck_assert_uint_eq(got.Payload.len, 0);
	for (size_t n = 0; n < sizeof(good); n++)
		ck_assert_int_eq(event_wire_read(1, span_str("consul:event:y"), span_of(good, n), id, &got), EVENT_BAD);
	ck_assert_int_eq(event_wire_read(1, span_str("consul:event:"), span_of("\x80", 1), id, &got), EVENT_BAD);
}
END_TEST

START_TEST(index_comes_from_the_id)
{
	char id[EVENT_ID_BYTES + 1];

	ck_assert_uint_eq(event_wire_index(span_str(ID1)), 3);
	ck_assert_uint_eq(event_wire_index(span_str("01234567-89ab-cdef-FFFF-ffffffffffff")),
	    ~UINT64_C(0x0123456789abcdef));
	ck_assert_uint_eq(event_wire_index(span_str("00000000-0000-0002-0000-000000000002")), 1);	/* never 0 */
	ck_assert_uint_eq(event_wire_index(span_str("no uuid")), 1);
	event_wire_random_id(id);
	ck_assert_uint_eq(strlen(id), EVENT_ID_BYTES);
	ck_assert_int_eq(id[14], '4');
}
END_TEST

/* -- the list ------------------------------------------------------------------------------ */

START_TEST(listed_once_in_order)
{
	struct wait w = { .list = NULL };
	char name[32];

	events_wait(events, &w, MONO_S(60), on_wake, NULL);
	tell_raw(POOL_LAN, 1, span_str("a"), span_str("1"), false);
	ck_assert_uint_eq(woken.count, 1);
	ck_assert(!woken.timed_out);
	tell_raw(POOL_LAN, 1, span_str("a"), span_str("1"), false);
	tell_raw(POOL_LAN, 1, span_str("a"), span_str("1"), true);	/* gossipd's ring, after our restart or its */
	tell_raw(POOL_WAN, 2, span_str("w"), span_str("1"), false);
	tell_raw(POOL_LAN, 2, span_str("b"), SPAN_NONE, true);
	ck_assert_uint_eq(events_count(events), 2);
	span_is(events_at(events, 0)->Name, "a");
	span_is(events_at(events, 1)->Name, "b");
	ck_assert_uint_eq(events_at(events, 1)->Payload.len, 0);
	for (unsigned i = 0; i < EVENTS_MAX; i++) {
		snprintf(name, sizeof(name), "e%u", i);
		tell_raw(POOL_LAN, 10 + i, span_str(name), SPAN_NONE, false);
	}
	ck_assert_uint_eq(events_count(events), EVENTS_MAX);
	span_is(events_at(events, 0)->Name, "e0");
	span_is(events_at(events, EVENTS_MAX - 1)->Name, name);
}
END_TEST

START_TEST(node_filters)
{
	struct user_event mine = event(ID1, "m", "^web-[0-9]$", "", ""), other = event(ID2, "o", "^db", "", "");
	struct user_event bad = event(ID2, "b", "([", "", "");

	tell(1, &mine);
	tell(2, &mine);			/* the same ID: fired twice by a node that did not hear the answer */
	tell(3, &other);
	tell(4, &bad);			/* matches nobody */
	ck_assert_uint_eq(events_count(events), 1);
	span_is(events_at(events, 0)->ID, ID1);
	ck_assert_uint_eq(events_at(events, 0)->LTime, 1);
	ck_assert_uint_eq(registered.asked, 0);
}
END_TEST

START_TEST(service_filters_ask_the_registry)
{
	struct user_event api = event(ID1, "api", "", "^api$", "v2"), db = event(ID2, "db", "", "^db$", "");
	struct user_event bad = event(ID2, "bad", "", "([", "");
	struct wait w = { .list = NULL };
	struct events_stats stats;

	events_wait(events, &w, MONO_S(60), on_wake, NULL);
	tell(1, &api);				/* nothing is registered yet */
	ck_assert_uint_eq(woken.count, 0);
	registered.service = "api";
	registered.tag = "v2";
	api.ID = span_str("00000000-0000-0001-0000-000000000008");
	tell(2, &api);
	ck_assert_uint_eq(woken.count, 1);
	tell(3, &db);
	tell(4, &bad);
	ck_assert_uint_eq(events_count(events), 1);
	span_is(events_at(events, 0)->Name, "api");
	registered.tag = "v1";
	api.ID = span_str("00000000-0000-0001-0000-000000000009");
	tell(5, &api);				/* another tag by now */
	ck_assert_uint_eq(events_count(events), 1);
	events_stats(events, &stats);
	ck_assert_uint_eq(stats.filtered, 4);
}
END_TEST

START_TEST(announcements_are_not_listed)
{
	struct events_stats stats;

	events_subscribed(events);
	tell_raw(POOL_LAN, 1, span_str("consul:new-leader"), span_str("n1\x1b[2J"), false);
	tell_raw(POOL_LAN, 1, span_str("consul:new-leader"), span_str("n1\x1b[2J"), true);
	tell_raw(POOL_LAN, 2, span_str("consul:other"), SPAN_NONE, true);
	tell_raw(POOL_LAN, 3, span_str("consul:event:x"), span_str("no map"), false);
	ck_assert_uint_eq(events_count(events), 0);
	events_stats(events, &stats);
	ck_assert_uint_eq(stats.announcements, 2);
	ck_assert_uint_eq(stats.duplicates, 1);
	ck_assert_uint_eq(stats.bad, 1);
}
END_TEST

START_TEST(hostile_frames)
{
	static uint8_t big[20000];
	static const uint8_t cut[] = { 0x96, 0, 1, 0xa1 };

	tell_raw(POOL_LAN, 1, span_str("a"), span_of(big, sizeof(big)), false);	/* larger than Serf may send */
	ck_assert_uint_eq(events_count(events), 0);
	ck_assert_int_ne(events_told(events, span_of(cut, sizeof(cut))), TV_OK);
	ck_assert_int_ne(events_told(events, SPAN_NONE), TV_OK);
}
END_TEST

START_TEST(waits_end)
{
	struct wait w = { .list = NULL }, stopped = { .list = NULL };

	events_wait(events, &w, MONO_MS(1), on_wake, NULL);
	events_wait(events, &stopped, MONO_MS(1), on_wake, NULL);
	wait_stop(&stopped);
	wait_stop(&stopped);
	ev_run(loop, 0);
	ck_assert_uint_eq(woken.count, 1);
	ck_assert(woken.timed_out);
	tell_raw(POOL_LAN, 1, span_str("a"), SPAN_NONE, false);
	ck_assert_uint_eq(woken.count, 1);
}
END_TEST

/* -- queries -------------------------------------------------------------------------------- */

static void
hear(struct queries *q, unsigned pool, uint64_t ltime, const char *name, uint64_t timeout_ms)
{
	struct buf b = BUF_INIT(1 << 16);

	mpw_array(&b, 7);
	mpw_uint(&b, pool);
	mpw_uint(&b, ltime);
	mpw_uint(&b, 5);
	mpw_cstr(&b, name);
	mpw_bin(&b, span_str("p"));
	mpw_cstr(&b, "n2");
	mpw_uint(&b, timeout_ms);
	ck_assert_int_eq(queries_told(q, buf_span(&b)), TV_OK);
	buf_done(&b);
}

START_TEST(queries_until_their_time_is_over)
{
	struct queries *q = queries_new(loop);
	struct wait w = { .list = NULL };
	uint64_t before = queries_newest(q);
	const struct heard *h;
	unsigned n = 0;

	ck_assert_uint_gt(before, 0);
	queries_wait(q, &w, MONO_S(60), on_wake, NULL);
	hear(q, POOL_WAN, 1, "wan", 60000);
	ck_assert_uint_eq(woken.count, 0);
	hear(q, POOL_LAN, 2, "over", 0);
	hear(q, POOL_LAN, 3, "load", 60000);
	ck_assert_uint_eq(woken.count, 1);
	h = queries_next(q, before);
	span_is(h->name, "load");
	span_is(h->payload, "p");
	span_is(h->from, "n2");
	ck_assert_uint_eq(h->id, 5);
	ck_assert_uint_eq(h->ltime, 3);
	ck_assert_ptr_null(queries_next(q, h->number));
	for (unsigned i = 0; i < QUERIES_MAX + 10; i++)
		hear(q, POOL_LAN, 4 + i, "many", 60000);
	for (uint64_t at = before; (h = queries_next(q, at)) != NULL; at = h->number)
		n++;
	ck_assert_uint_eq(n, QUERIES_MAX);
	ck_assert_int_ne(queries_told(q, span_of("\x97", 1)), TV_OK);
	queries_free(q);
}
END_TEST

/* -- firing --------------------------------------------------------------------------------- */

static struct {
	unsigned count;
	enum tv_err err;
	char text[100], id[40], name[40];
} fired;

static void
on_fired(void *ctx, const struct op_reply *reply)
{
	struct user_event e = { .LTime = 99 };
	struct arena a = ARENA_INIT(1 << 16);
	struct rd in = rd_span_over(reply->value);

	(void)ctx;
	fired.count++;
	fired.err = reply->err;
	ck_assert(span_copy(reply->text, fired.text, sizeof(fired.text)));
	if (reply->err == TV_OK) {
		ck_assert_int_eq(schema_unpack(&user_event_schema, &in, &a, &e), TV_OK);
		ck_assert_uint_eq(e.LTime, 0);
		ck_assert(span_copy(e.ID, fired.id, sizeof(fired.id)));
		ck_assert(span_copy(e.Name, fired.name, sizeof(fired.name)));
	}
	arena_done(&a);
}

static struct route_provider provider;

static void *
fire(const char *name, const char *node)
{
	struct event_fire args = { .Name = span_str(name), .Payload = span_str("x"), .NodeFilter = span_str(node) };
	struct buf b = BUF_INIT(1 << 16);
	enum tv_err err;

	provider = fire_provider(NULL);
	memset(&fired, 0, sizeof(fired));
	schema_pack(&event_fire_schema, &args, &b);
	struct op_request q = { .op = OP_EVENT_FIRE, .args = buf_span(&b) };
	void *f = provider.start(provider.ctx, &q, MONO_S(1), on_fired, NULL, &err);
	ck_assert_int_eq(err, f == NULL ? TV_EUNREACH : TV_OK);
	buf_done(&b);
	return f;
}

static void
gossipd_says(enum tv_err err, const char *text, uint64_t ltime)
{
	struct buf b = BUF_INIT(1000);

	mpw_array(&b, 3);
	mpw_uint(&b, (uint64_t)-err);
	mpw_cstr(&b, text);
	mpw_uint(&b, ltime);
	gossipd.done(gossipd.ctx, TV_OK, buf_span(&b));
	buf_done(&b);
}

START_TEST(fired_events_have_the_id_that_all_will_see)
{
	char id[EVENT_ID_BYTES + 1];
	struct rd in;

	ck_assert_ptr_nonnull(fire("deploy", ""));
	in = rd_span_over(buf_span(&gossipd.body));
	ck_assert_uint_eq(mpr_array(&in), 4);
	ck_assert_uint_eq(mpr_uint(&in, 9), POOL_LAN);
	span_is(mpr_bytes(&in, 100), "deploy");
	span_is(mpr_bytes(&in, 100), "x");
	gossipd_says(TV_OK, "", 12);
	event_wire_id(12, span_str("deploy"), span_str("x"), id);
	ck_assert_str_eq(fired.id, id);
	ck_assert_str_eq(fired.name, "deploy");

	ck_assert_ptr_nonnull(fire("deploy", "^n1$"));
	in = rd_span_over(buf_span(&gossipd.body));
	(void)mpr_array(&in);
	mpr_skip(&in);
	struct span name = mpr_bytes(&in, 100), payload = mpr_bytes(&in, 1000);
	struct user_event e;
	span_is(name, "consul:event:deploy");
	ck_assert_int_eq(event_wire_read(13, name, payload, id, &e), EVENT_USER);
	gossipd_says(TV_OK, "", 13);
	span_is(e.ID, fired.id);

	ck_assert_ptr_nonnull(fire("deploy", ""));
	gossipd_says(TV_ELIMIT, "too long", 0);
	ck_assert_int_eq(fired.err, TV_ELIMIT);
	ck_assert_str_eq(fired.text, "too long");
	ck_assert_ptr_nonnull(fire("deploy", ""));
	gossipd.done(gossipd.ctx, TV_ECLOSED, SPAN_NONE);
	ck_assert_int_eq(fired.err, TV_ECLOSED);
	ck_assert_str_eq(fired.text, "gossipd closed the connection before it answered; the event may have been fired");
	ck_assert_ptr_nonnull(fire("deploy", ""));
	gossipd.done(gossipd.ctx, TV_ETIMEOUT, SPAN_NONE);
	ck_assert_int_eq(fired.err, TV_ETIMEOUT);
	ck_assert_str_eq(fired.text, "gossipd did not answer in time; the event may have been fired");
	ck_assert_ptr_nonnull(fire("deploy", ""));
	gossipd.done(gossipd.ctx, TV_OK, span_of("\x90", 1));
	ck_assert_int_eq(fired.err, TV_EFORMAT);
	void *f = fire("deploy", "");
	provider.cancel(f);
	ck_assert_uint_eq(gossipd.cancelled, 77);
	gossipd.away = true;
	ck_assert_ptr_null(fire("deploy", ""));
	ck_assert_uint_eq(fired.count, 0);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("events");
	TCase *t = tcase_create("all");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, plain_events_keep_name_and_bytes);
	tcase_add_test(t, filters_travel_in_an_envelope);
	tcase_add_test(t, broken_envelopes);
	tcase_add_test(t, index_comes_from_the_id);
	tcase_add_test(t, listed_once_in_order);
	tcase_add_test(t, node_filters);
	tcase_add_test(t, service_filters_ask_the_registry);
	tcase_add_test(t, announcements_are_not_listed);
	tcase_add_test(t, hostile_frames);
	tcase_add_test(t, waits_end);
	tcase_add_test(t, queries_until_their_time_is_over);
	tcase_add_test(t, fired_events_have_the_id_that_all_will_see);
	suite_add_tcase(s, t);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
