/* Health of servers: what each fact does to a record, tolerance, who may vote, who counts as dead. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "raftd/members/rules/server_health.h"

static struct server_health_book b;
static struct server_health_facts f[3];
static struct server_health_bounds bounds;
static int64_t second;			/* of the next look */
static struct raft_config config;	/* the servers of f, as of now */

static void
setup(void)
{
	b = (struct server_health_book){ 0 };
	bounds = (struct server_health_bounds){ .contact_ns = 200000000, .trailing = 250, .term = 7, .index_before = 1000 };
	for (unsigned i = 0; i < 3; i++)
		f[i] = (struct server_health_facts){ .id = i + 1, .voter = true, .self = i == 0, .alive = true, .linked = true,
		    .term = 7, .index = 1000 };
	second = 100;
}

static void
look(void)
{
	server_health_update(&b, f, 3, &bounds, MONO_S(second), second * 1000000000);
	second++;
}

static const struct raft_config *
now(void)
{
	config.count = 3;
	for (unsigned i = 0; i < 3; i++)
		config.servers[i] = (struct raft_server_conf){ .id = f[i].id, .voter = f[i].voter };
	return &config;
}

static bool
healthy(raft_id id)
{
	return server_health_find(&b, id)->healthy;
}

START_TEST(all_is_well)
{
	look();
	ck_assert(server_health_all(&b, now()));
	ck_assert_uint_eq(server_health_tolerance(&b, now()), 1);
	look();
	ck_assert_int_eq(server_health_find(&b, 2)->since_wall, 100000000000);
	ck_assert_ptr_null(server_health_find(&b, 9));
}
END_TEST

START_TEST(nothing_is_not_healthy)
{
	ck_assert(!server_health_all(&b, now()));
	ck_assert_uint_eq(server_health_tolerance(&b, now()), 0);
}
END_TEST

START_TEST(gone_at_once)
{
	look();
	f[1].alive = false;
	look();
	ck_assert(!healthy(2));
	ck_assert(!server_health_all(&b, now()));
	ck_assert_uint_eq(server_health_tolerance(&b, now()), 0);
	ck_assert_int_eq(server_health_find(&b, 2)->since_wall, 101000000000);
	f[1].alive = true;
	f[2].linked = false;
	look();
	ck_assert(healthy(2));
	ck_assert(!healthy(3));
}
END_TEST

/* Late, in another term, or behind: only when two looks in a row say so. */
START_TEST(doubt_before_the_verdict)
{
	look();
	f[1].silent_ns = 200000001;
	look();
	ck_assert(healthy(2));
	f[1].silent_ns = 0;
	look();
	f[1].term = 6;
	look();
	ck_assert(healthy(2));
	f[1].term = 7;
	f[1].index = 749;
	look();
	ck_assert(!healthy(2));
	f[1].index = 750;
	look();
	ck_assert(healthy(2));
}
END_TEST

static void
assert_why(raft_id id, const char *text)
{
	struct buf why = BUF_INIT(1024);

	server_health_why(&b, id, &why);
	ck_assert_str_eq(buf_cstr(&why), text);
	buf_done(&why);
}

/* Each reason by itself, then together; who is out of touch is not said to be late as well. */
/* Its vote is not to be counted on from the first look on. */
START_TEST(went_back)
{
	struct buf out = BUF_INIT(1024);

	look();
	look();
	f[1].went_back = true;
	look();
	ck_assert(!healthy(2));
	ck_assert(!server_health_find(&b, 2)->fit);
	ck_assert_uint_eq(server_health_tolerance(&b, now()), 0);
	server_health_why(&b, 2, &out);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&out), "its disk went back to an older state"));
	buf_done(&out);
	f[1].went_back = false;
	f[0].went_back = true;		/* so it says of itself, too */
	look();
	ck_assert(healthy(2) && !healthy(1));
}
END_TEST

START_TEST(why)
{
	static const struct {
		struct server_health_facts facts;
		const char *text;
	} cases[] = {
		{ { .alive = true, .linked = true, .term = 7, .index = 1000 }, "" },
		{ { .failed = true, .linked = true, .term = 7, .index = 1000 }, "gossip reports it failed" },
		{ { .linked = true, .term = 7, .index = 1000 }, "gossip does not report it alive" },
		{ { .alive = true, .term = 7, .index = 1000 }, "no raft link to it is up" },
		{ { .failed = true, .silent_ns = INT64_MAX, .term = 3 },
		    "gossip reports it failed; no raft link to it is up" },
		{ { .alive = true, .linked = true, .term = 7, .index = 1000, .silent_ns = 200000000 }, "" },
		{ { .alive = true, .linked = true, .term = 7, .index = 1000, .silent_ns = 61234567890 },
		    "last contact 1m1.234s ago, 200ms allowed" },
		{ { .alive = true, .linked = true, .term = 7, .index = 1000, .silent_ns = 61234567890, .never = true },
		    "no contact for 1m1.234s, 200ms allowed" },
		{ { .alive = true, .linked = true, .term = 6, .index = 1000 },
		    "its log ends in term 6, the leader's in term 7" },
		{ { .alive = true, .linked = true }, "the end of its log is not known yet; its log is 1000 entries "
		    "behind, 250 allowed" },
		{ { .alive = true, .linked = true, .term = 7, .index = 750 }, "" },
		{ { .alive = true, .linked = true, .term = 7, .index = 749 },
		    "its log is 251 entries behind, 250 allowed" },
		{ { .alive = true, .linked = true, .term = 7, .index = 1, .silent_ns = 200000001 },
		    "last contact 200ms ago, 200ms allowed; its log is 999 entries behind, 250 allowed" },
		{ { .alive = true, .linked = true, .term = 7, .index = 1000, .full = true }, "its disk is full" },
		{ { .alive = true, .linked = true, .term = 7, .index = 1000, .rpcd = DAEMON_AWAY }, "its rpcd does not run" },
		{ { .alive = true, .linked = true, .term = 7, .index = 1000, .rpcd = DAEMON_SILENT, .full = true },
		    "its disk is full; its rpcd does not answer" },
		{ { .alive = true, .term = 7, .index = 1000, .rpcd = DAEMON_SILENT, .full = true },
		    "no raft link to it is up" },
	};

	assert_why(2, "not checked yet");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		f[1] = cases[i].facts;
		f[1].id = 2;
		look();
		look();			/* the doubt is over */
		ck_assert_int_eq(healthy(2), cases[i].text[0] == '\0');
		assert_why(2, cases[i].text);
		assert_why(1, "");
	}
}
END_TEST

/* They make it unhealthy, in doubt first, but cost it neither the vote nor the time it has waited for one. */
START_TEST(daemons_beside)
{
	look();
	f[2].voter = false;
	f[2].rpcd = DAEMON_AWAY;
	f[0].gossipd = DAEMON_SILENT;
	look();			/* 101 */
	ck_assert(server_health_all(&b, now()));
	look();
	ck_assert(!healthy(1));
	ck_assert(!healthy(3));
	ck_assert_uint_eq(server_health_tolerance(&b, now()), 0);
	ck_assert(server_health_may_vote(&b, 3, MONO_S(10), MONO_S(60), MONO_S(110)));
	ck_assert(server_health_may_vote(&b, 3, MONO_S(10), MONO_S(9), MONO_S(102)));
	f[0].gossipd = DAEMON_AWAY;
	look();
	assert_why(1, "its gossipd does not run");
	f[2].rpcd = DAEMON_ANSWERS;
	f[2].full = true;	/* what it cannot write it cannot agree to */
	look();
	look();			/* 105 */
	ck_assert(!server_health_may_vote(&b, 3, MONO_S(10), MONO_S(60), MONO_S(200)));
}
END_TEST

/* A doubt is not told as long as the verdict stands; and what is told is what the verdict is about. */
START_TEST(why_follows_the_verdict)
{
	look();
	f[1].silent_ns = 200000001;
	look();
	assert_why(2, "");
	look();
	assert_why(2, "last contact 200ms ago, 200ms allowed");
	f[1].linked = false;
	assert_why(2, "last contact 200ms ago, 200ms allowed");
	look();
	assert_why(2, "no raft link to it is up");
}
END_TEST

/* Who is met so for the first time gets no credit. */
START_TEST(newcomers_prove_it)
{
	f[1].silent_ns = 200000001;
	look();
	ck_assert(!healthy(2));
}
END_TEST

START_TEST(bounds_can_be_off)
{
	bounds.contact_ns = 0;
	bounds.trailing = 0;
	f[1].silent_ns = INT64_MAX;
	f[1].index = 1;
	look();
	ck_assert(server_health_all(&b, now()));
	bounds.trailing = UINT64_MAX;		/* the same, said otherwise */
	look();
	look();
	ck_assert(server_health_all(&b, now()));
}
END_TEST

START_TEST(ourself_is_never_late)
{
	f[0] = (struct server_health_facts){ .id = 1, .voter = true, .self = true };
	look();
	ck_assert(healthy(1));
}
END_TEST

START_TEST(stabilization)
{
	look();
	f[2].voter = false;
	look();			/* 101: healthy since 100 */
	ck_assert(!server_health_may_vote(&b, 3, MONO_S(10), MONO_S(60), MONO_S(109)));
	ck_assert(server_health_may_vote(&b, 3, MONO_S(10), MONO_S(60), MONO_S(110)));
	/* a young leader of a whole cluster does not wait */
	ck_assert(server_health_may_vote(&b, 3, MONO_S(10), MONO_S(9), MONO_S(101)));
	ck_assert(!server_health_may_vote(&b, 3, MONO_S(10), MONO_S(10), MONO_S(101)));
	f[1].alive = false;
	look();
	ck_assert(!server_health_may_vote(&b, 3, MONO_S(10), MONO_S(9), MONO_S(102)));
	ck_assert(server_health_may_vote(&b, 3, MONO_S(10), MONO_S(60), MONO_S(110)));
	/* an illness starts the time again */
	f[2].linked = false;
	look();
	ck_assert(!server_health_may_vote(&b, 3, MONO_S(10), MONO_S(60), MONO_S(200)));
	f[2].linked = true;
	look();			/* 104 */
	ck_assert(!server_health_may_vote(&b, 3, MONO_S(10), MONO_S(60), MONO_S(113)));
	ck_assert(server_health_may_vote(&b, 3, MONO_S(10), MONO_S(60), MONO_S(114)));
	ck_assert(!server_health_may_vote(&b, 9, MONO_S(0), MONO_S(0), MONO_S(200)));
}
END_TEST

/* Dead: gossip and the link agree, and the time counts from then on. */
START_TEST(dead_since)
{
	look();
	f[1].alive = false;
	f[1].failed = true;
	look();
	ck_assert_int_eq(server_health_find(&b, 2)->dead_since.ns, 0);
	f[1].linked = false;
	look();			/* 102 */
	look();
	ck_assert_int_eq(server_health_find(&b, 2)->dead_since.ns, MONO_S(102).ns);
	f[1].failed = false;
	look();
	ck_assert_int_eq(server_health_find(&b, 2)->dead_since.ns, 0);
	f[0].failed = true;
	f[0].linked = false;
	look();
	ck_assert_int_eq(server_health_find(&b, 1)->dead_since.ns, 0);
}
END_TEST

START_TEST(tolerance)
{
	struct server_health_book five = { .count = 5 };
	struct raft_config *c = &config;

	c->count = 5;
	for (unsigned i = 0; i < 5; i++) {
		five.records[i] = (struct server_health_record){ .id = i + 1, .healthy = i < 4 };
		c->servers[i] = (struct raft_server_conf){ .id = i + 1, .voter = true };
	}
	ck_assert_uint_eq(server_health_tolerance(&five, c), 1);
	five.records[4].healthy = true;
	ck_assert_uint_eq(server_health_tolerance(&five, c), 2);
	c->servers[4].voter = false;		/* four voters need three */
	ck_assert_uint_eq(server_health_tolerance(&five, c), 1);
	five.records[0].healthy = five.records[1].healthy = five.records[2].healthy = false;
	ck_assert_uint_eq(server_health_tolerance(&five, c), 0);
}
END_TEST

/* What is said of all is what is said of each of them, also before the next look. */
START_TEST(the_configuration_changes_between_looks)
{
	look();
	now();
	config.servers[config.count++] = (struct raft_server_conf){ .id = 4 };
	ck_assert(!server_health_all(&b, &config));
	ck_assert_uint_eq(server_health_tolerance(&b, &config), 1);
	config.servers[3].voter = true;		/* four voters need three, and three are healthy */
	ck_assert_uint_eq(server_health_tolerance(&b, &config), 0);
	f[2].alive = false;
	look();
	ck_assert(!server_health_all(&b, now()));
	config.count = 2;			/* it was removed */
	ck_assert(server_health_all(&b, &config));
	ck_assert_uint_eq(server_health_tolerance(&b, &config), 0);
	config.count = 0;
	ck_assert(!server_health_all(&b, &config));
	ck_assert_uint_eq(server_health_tolerance(&b, &config), 0);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("health");
	TCase *t = tcase_create("all");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, all_is_well);
	tcase_add_test(t, nothing_is_not_healthy);
	tcase_add_test(t, gone_at_once);
	tcase_add_test(t, doubt_before_the_verdict);
	tcase_add_test(t, went_back);
	tcase_add_test(t, why);
	tcase_add_test(t, daemons_beside);
	tcase_add_test(t, why_follows_the_verdict);
	tcase_add_test(t, newcomers_prove_it);
	tcase_add_test(t, bounds_can_be_off);
	tcase_add_test(t, ourself_is_never_late);
	tcase_add_test(t, stabilization);
	tcase_add_test(t, dead_since);
	tcase_add_test(t, tolerance);
	tcase_add_test(t, the_configuration_changes_between_looks);
	suite_add_tcase(s, t);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
