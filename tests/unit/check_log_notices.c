/* What the log says of each thing that the core of a pool tells (gossipd/log_notices.c). */
#include <check.h>
#include <stdio.h>

#include "common/base/log.h"
#include "gossipd/log_notices.h"

static char heard[2048];

static void
on_line(void *ctx, enum log_level level, const char *tag, const char *text)
{
	(void)ctx;
	snprintf(heard, sizeof(heard), "[%s] %s: %s", log_level_name(level), tag, text);
}

static const struct swim_notice *
notice_of(enum swim_notice_type type)
{
	static struct swim_notice n = { .number = 3, .number2 = 4, .error = TV_ETIMEOUT, .text = "some text" };

	n.type = type;
	n.name = span_str("n1");
	n.other = span_str("n2\n");
	n.dc = span_str("dc1");
	n.addr = addr_of_bytes((const uint8_t *)"\x0a\0\0\1", 4);
	n.other_addr = addr_of_bytes((const uint8_t *)"\x0a\0\0\2", 4);
	n.addr.port = n.other_addr.port = 8301;
	return &n;
}

static const char *const lines[SWIM_NOTICES] = {
	[SWIM_NOTICE_SUSPECT] = "[INFO] memberlist: Suspect n1 has failed, no acks received (none to us, none "
	    "through 3 others, of which 4 say that they cannot reach it either; some text)",
	[SWIM_NOTICE_ACCUSED] = "[INFO] memberlist: Suspect n1: reported failed by n2\\x0a (incarnation 3)",
	[SWIM_NOTICE_CONFIRMED] = "[DEBUG] memberlist: Suspect n1: confirmed by n2\\x0a (3 of 4 confirmations)",
	[SWIM_NOTICE_NOT_BELIEVED] = "[WARN] memberlist: Ignoring suspicion: n2\\x0a reports that n1 has failed, "
	    "and reports too many: does it receive messages?",
	[SWIM_NOTICE_SPOKE_UP] = "[INFO] memberlist: n1 is no longer suspected: it refuted the suspicion "
	    "(incarnation 3)",
	[SWIM_NOTICE_DECLARED] = "[DEBUG] memberlist: n1 has failed, reported by n2\\x0a (incarnation 3)",
	[SWIM_NOTICE_SUSPECTED] = "[WARN] memberlist: Refuting a suspect message (from: n1)",
	[SWIM_NOTICE_DEAD] = "[INFO] memberlist: Marking n1 as failed, suspect timeout reached (3 peer "
	    "confirmations)",
	[SWIM_NOTICE_STREAM_ONLY] = "[WARN] memberlist: n1 answers over TCP but not over UDP: is UDP blocked "
	    "between the nodes?",
	[SWIM_NOTICE_CONFLICT] = "[ERR] memberlist: Name conflict: n1 is at 10.0.0.1:8301, and claimed by "
	    "10.0.0.2:8301 (as n2\\x0a: names are compared without case): the latter needs another node_name",
	[SWIM_NOTICE_SELF_CONFLICT] = "[ERR] memberlist: Name conflict: our own name n1 (10.0.0.1:8301) is claimed "
	    "by 10.0.0.2:8301 (as n2\\x0a: names are compared without case) too: the members decide",
	[SWIM_NOTICE_REFUSED] = "[WARN] memberlist: Exchange with 10.0.0.1:8301 refused: some text: n1 is in "
	    "datacenter \"n2\\x0a\", this node in \"dc1\" (datacenter in cluster.conf)",
	[SWIM_NOTICE_EXCHANGE_FAILED] = "[DEBUG] memberlist: Exchange with 10.0.0.1:8301 failed: timed out",
	[SWIM_NOTICE_FULL] = "[WARN] memberlist: n1 refused: the pool has limits.members members",
	[SWIM_NOTICE_STALL] = "[WARN] memberlist: This process was suspended for 3 ms; other members are not "
	    "suspected for it",
	[SWIM_NOTICE_LEAVE_REFUTED] = "[WARN] serf: Refuting an older leave intent",
	[SWIM_NOTICE_REKEY] = "[WARN] memberlist: Own incarnation has wrapped around; messages in the pool are "
	    "forged",
	[SWIM_NOTICE_MOVED] = "[INFO] memberlist: n1 has moved from 10.0.0.1:8301, which does not answer, to "
	    "10.0.0.2:8301",
	[SWIM_NOTICE_SELF_MOVED] = "[INFO] memberlist: Members know this node (n1) at 10.0.0.1:8301, which does not "
	    "answer: announcing 10.0.0.2:8301",
	[SWIM_NOTICE_NAME_KEPT] = "[WARN] serf: Majority in name conflict resolution: 3 members know n1 at "
	    "10.0.0.1:8301, not at 10.0.0.2:8301 (as n2\\x0a: names are compared without case): give that node "
	    "another node_name",
	[SWIM_NOTICE_NAME_LOST] = "[ERR] serf: Minority in name conflict resolution: 3 members do not know n1 at "
	    "10.0.0.1:8301; claimed by 10.0.0.2:8301 (as n2\\x0a: names are compared without case): this node needs "
	    "another node_name",
	[SWIM_NOTICE_NAME_OPEN] = "[ERR] serf: Name conflict not resolved: 3 members voted on whether n1 is at "
	    "10.0.0.1:8301 or at 10.0.0.2:8301 (as n2\\x0a: names are compared without case); staying, and voting "
	    "again when it is next claimed",
};

START_TEST(each_notice_has_its_line)
{
	struct log_limits limits = LOG_LIMITS_INIT;

	log_notice(&limits, notice_of(_i));
	ck_assert_str_eq(heard, lines[_i]);
}
END_TEST

/* A rival that spells the name as we do, and a refusal that names no member. */
START_TEST(parts_that_may_be_missing)
{
	struct log_limits limits = LOG_LIMITS_INIT;
	struct swim_notice n = *notice_of(SWIM_NOTICE_CONFLICT);

	n.other = SPAN_NONE;
	log_notice(&limits, &n);
	ck_assert_str_eq(heard, "[ERR] memberlist: Name conflict: n1 is at 10.0.0.1:8301, and claimed by "
	    "10.0.0.2:8301: the latter needs another node_name");
	n.type = SWIM_NOTICE_REFUSED;
	log_notice(&limits, &n);
	ck_assert_str_eq(heard, "[WARN] memberlist: Exchange with 10.0.0.1:8301 refused: some text: n1");
	n.name = SPAN_NONE;
	log_notice(&limits, &n);
	ck_assert_str_eq(heard, "[WARN] memberlist: Exchange with 10.0.0.1:8301 refused: some text");
}
END_TEST

START_TEST(a_flood_of_one_kind_is_limited)
{
	struct log_limits limits = LOG_LIMITS_INIT;

	for (unsigned i = 0; i < 10; i++)
		log_notice(&limits, notice_of(SWIM_NOTICE_STALL));
	heard[0] = '\0';
	log_notice(&limits, notice_of(SWIM_NOTICE_STALL));
	ck_assert_str_eq(heard, "");
	log_notice(&limits, notice_of(SWIM_NOTICE_FULL));
	ck_assert_str_ne(heard, "");
}
END_TEST

static void
setup(void)
{
	log_tap(LOG_LVL_DEBUG, on_line, NULL);
}

int
main(void)
{
	Suite *s = suite_create("log_notices");
	TCase *tc = tcase_create("log_notices");
	SRunner *sr;
	int failed;

	tcase_add_unchecked_fixture(tc, setup, NULL);
	tcase_add_loop_test(tc, each_notice_has_its_line, 0, SWIM_NOTICES);
	tcase_add_test(tc, parts_that_may_be_missing);
	tcase_add_test(tc, a_flood_of_one_kind_is_limited);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
