/*
 * Reports of the own coordinate, and the reading of gossipd's answer, against fakes of view and router linked in their
 * place.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "common/net/msg.h"
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "rpcd/gossip/coord_query.h"
#include "rpcd/node/coord_report.h"

/* -- fakes ---------------------------------------------------------------- */

static struct {
	unsigned members, asked, sent;
	calls_done *done;
	void *ctx;
	route_done *route_done;
	void *route_ctx;
	struct coordinate at;		/* of the newest report */
	char node[32];
} fake;

unsigned
members_count(const struct members *v, enum gossip_pool pool)
{
	(void)v;
	ck_assert_int_eq(pool, POOL_LAN);
	return fake.members;
}

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
	(void)body;
	(void)timeout;
	ck_assert_int_eq(type, MSG_GOSSIP_COORDS);
	*err = TV_OK;
	fake.done = done;
	fake.ctx = ctx;
	return ++fake.asked;
}

struct route_call *
route_start(struct route *r, const struct op_request *q, route_done *done, void *ctx)
{
	struct arena a = ARENA_INIT(65536);
	struct rd in = rd_span_over(q->args);
	struct coordinate_update u = { 0 };

	(void)r;
	ck_assert_int_eq(q->op, OP_COORDINATE_UPDATE);
	ck_assert_int_eq(schema_unpack(&coordinate_update_schema, &in, &a, &u), TV_OK);
	ck_assert(coordinate_of_rec(&u.Coord, &fake.at));
	ck_assert(span_copy(u.Node, fake.node, sizeof(fake.node)));
	arena_done(&a);
	fake.route_done = done;
	fake.route_ctx = ctx;
	fake.sent++;
	return (struct route_call *)(void *)&fake;
}

/* -- helpers -------------------------------------------------------------- */

static struct ev_loop *loop;
static struct coord_report *report;
static struct rpcd_conf conf;

static void
start(void)
{
	memset(&fake, 0, sizeof(fake));
	memset(&conf, 0, sizeof(conf));
	loop = ev_loop_new(EVFLAG_AUTO);
	report = coord_report_new(&(struct coord_report_conf){ .loop = loop, .conf = &conf, .node_name = "n1", .seed = 1 });
	ck_assert_ptr_nonnull(report);
}

static void
finish(void)
{
	coord_report_free(report);
	ev_loop_destroy(loop);
}

/* Runs the loop until gossipd was asked that often. */
static void
until_asked(unsigned count)
{
	while (fake.asked < count)
		ev_run(loop, EVRUN_ONCE);
}

static void
answer_head(struct buf *b, enum tv_err err, uint32_t entries)
{
	mpw_array(b, 3);
	mpw_uint(b, (uint64_t)-(int)err);
	mpw_cstr(b, "");
	mpw_array(b, entries);
}

static void
gossip_says(enum tv_err err, const char *name, double x)
{
	struct coordinate c = { .vec = { x }, .error = 0.5, .height = 1e-5 };
	struct buf b = BUF_INIT(4096);

	answer_head(&b, err, name != NULL);
	if (name != NULL)
		coordinate_pack(&b, span_str(name), &c);
	fake.done(fake.ctx, TV_OK, buf_span(&b));
	buf_done(&b);
}

static void
servers_say(enum tv_err err, bool known)
{
	static const uint8_t yes[] = { 0x91, 0xc3 }, no[] = { 0x91, 0xc2 };
	struct op_reply reply = { .err = err, .value = known ? span_of(yes, 2) : span_of(no, 2) };

	if (err != TV_OK)
		reply.value = SPAN_NONE;
	fake.route_done(fake.route_ctx, &reply);
}

/* -- tests ---------------------------------------------------------------- */

START_TEST(how_often)
{
	static const struct { unsigned members; int64_t ms; } cases[] = {
		{ 0, 15000 }, { 3, 15000 }, { 960, 15000 }, { 1000, 15625 }, { 10000, 156250 }, { 50000, 781250 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ck_assert_int_eq(mono_ms(coord_report_interval(cases[i].members, MONO_S(15))), cases[i].ms);
	ck_assert_int_eq(mono_ms(coord_report_interval(10000, MONO_S(2))), 156250);	/* nor at a start of them all */
}
END_TEST

START_TEST(until_the_servers_know_us)
{
	struct coord_report_stats st;

	start();
	until_asked(1);
	gossip_says(TV_OK, "n1", 0.25);
	ck_assert_uint_eq(fake.sent, 1);
	ck_assert_str_eq(fake.node, "n1");
	ck_assert(fake.at.vec[0] == 0.25 && fake.at.error == 0.5);
	servers_say(TV_OK, false);
	until_asked(2);				/* soon: not in the catalog yet */
	gossip_says(TV_OK, "n1", 0.5);
	ck_assert_uint_eq(fake.sent, 2);
	ck_assert(fake.at.vec[0] == 0.5);
	servers_say(TV_ENOLEADER, false);
	coord_report_stats(report, &st);
	ck_assert(st.sent == 1 && st.failed == 1);
	until_asked(3);
	fake.done(fake.ctx, TV_ECLOSED, SPAN_NONE);	/* gossipd goes in the middle */
	ck_assert_uint_eq(fake.sent, 2);
	finish();
}
END_TEST

START_TEST(what_is_not_reported)
{
	static const struct { enum tv_err err; const char *name; double x; } cases[] = {
		{ TV_OK, "n1", NAN }, { TV_OK, "n1", 3600 }, { TV_OK, "other", 0.5 },
		{ TV_EPERM, NULL, 0 },		/* off in gossipd.conf */
	};

	start();
	until_asked(1);
	gossip_says(cases[_i].err, cases[_i].name, cases[_i].x);
	ck_assert_uint_eq(fake.sent, 0);
	finish();
}
END_TEST

START_TEST(answers)
{
	struct coordinate good = { .vec = { 1 } }, bad = { .vec = { NAN } }, got;
	struct buf b = BUF_INIT(4096);
	struct coord_query_answer a;
	struct span name;
	unsigned n;

	answer_head(&b, TV_OK, 3);
	coordinate_pack(&b, span_str("a"), &good);
	coordinate_pack(&b, span_str("liar"), &bad);
	coordinate_pack(&b, span_str("c"), &good);
	ck_assert_int_eq(coord_query_read(buf_span(&b), &a), TV_OK);
	ck_assert(coord_query_next(&a, &name, &got) && span_eqs(name, "a"));
	ck_assert(coord_query_next(&a, &name, &got) && span_eqs(name, "c"));
	ck_assert(!coord_query_next(&a, &name, &got));
	for (size_t cut = 0; cut < b.len; cut++) {	/* never more than there is */
		n = 0;
		if (coord_query_read(span_of(b.data, cut), &a) == TV_OK)
			while (coord_query_next(&a, &name, &got))
				n++;
		ck_assert_uint_le(n, 1);
	}
	buf_reset(&b);
	answer_head(&b, TV_EINVAL, 0);
	ck_assert_int_eq(coord_query_read(buf_span(&b), &a), TV_OK);
	ck_assert_int_eq(a.err, TV_EINVAL);
	ck_assert(!coord_query_next(&a, &name, &got));
	buf_done(&b);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("report");
	TCase *t = tcase_create("report");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, how_often);
	tcase_add_test(t, until_the_servers_know_us);
	tcase_add_loop_test(t, what_is_not_reported, 0, 4);
	tcase_add_test(t, answers);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
