/* Registrations against members that live: a table of claims on one member. */
#include <check.h>
#include <stdlib.h>

#include "raftd/leader/rules/claim.h"

static const struct {
	const char *name, *id, *address;
	bool node;
	enum claim_verdict verdict;
} claims[] = {
	/* Its own, in any spelling. */
	{ "web", "aa-01", "10.0.0.1", true, CLAIM_OWN },
	{ "WEB", "AA-01", "10.0.0.9", true, CLAIM_OWN },
	{ "web", "aa-01", "", false, CLAIM_OWN },
	/* Its id under another name, its name with another id. */
	{ "db", "aa-01", "10.0.0.1", true, CLAIM_AGAINST },
	{ "db", "Aa-01", "10.0.0.1", false, CLAIM_AGAINST },
	{ "web", "bb-02", "10.0.0.1", true, CLAIM_AGAINST },
	{ "Web", "bb-02", "10.0.0.1", false, CLAIM_AGAINST },
	/* Without an id it is about the node of that name, which keeps its address. */
	{ "web", "", "10.0.0.1", true, CLAIM_NONE },
	{ "web", "", "10.0.0.9", true, CLAIM_AGAINST },
	{ "wEb", "", "10.0.0.9", false, CLAIM_NONE },
	/* Others. */
	{ "db", "bb-02", "10.0.0.1", true, CLAIM_NONE },
	{ "db", "", "10.0.0.9", true, CLAIM_NONE },
	{ "", "aa-01", "", false, CLAIM_NONE },
};

static enum claim_verdict
verdict_of(int i, const struct reconcile_member *m)
{
	struct claim q = { .name = span_str(claims[i].name), .id = span_str(claims[i].id), .address = span_str(claims[i].address),
	    .node = claims[i].node };

	return claim_judge(&q, m, span_str("10.0.0.1"));
}

START_TEST(each_claim)
{
	struct reconcile_member m = { .name = span_str("web"), .id = span_str("aa-01"), .status = MEMBER_ALIVE };

	ck_assert_int_eq(verdict_of(_i, &m), claims[_i].verdict);
	m.status = MEMBER_LEAVING;
	ck_assert_int_eq(verdict_of(_i, &m), claims[_i].verdict);
}
END_TEST

/* Who does not live, or tells no id, has nothing that could be taken. */
START_TEST(of_the_dead)
{
	struct reconcile_member m = { .name = span_str("web"), .id = span_str("aa-01"), .status = MEMBER_FAILED };

	ck_assert_int_eq(verdict_of(_i, &m), CLAIM_NONE);
	m.status = MEMBER_LEFT;
	ck_assert_int_eq(verdict_of(_i, &m), CLAIM_NONE);
	m.status = MEMBER_ALIVE;
	m.gone = true;
	ck_assert_int_eq(verdict_of(_i, &m), CLAIM_NONE);
	m.gone = false;
	m.id = SPAN_NONE;
	ck_assert_int_eq(verdict_of(_i, &m), CLAIM_NONE);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("claim");
	TCase *t = tcase_create("all");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_loop_test(t, each_claim, 0, (int)(sizeof(claims) / sizeof(claims[0])));
	tcase_add_loop_test(t, of_the_dead, 0, (int)(sizeof(claims) / sizeof(claims[0])));
	suite_add_tcase(s, t);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
