/* What servers remember of each other's disks, and what a server that starts makes of it. */
#include <check.h>
#include <stdlib.h>

#include "raftd/engine/disk_mark.h"

static struct raft_config
config_of(unsigned count)
{
	struct raft_config c = { .count = count };

	for (unsigned i = 0; i < count; i++)
		c.servers[i] = (struct raft_server_conf){ .id = i + 1, .voter = true };
	return c;
}

static struct disk_marks book;

static void
heard(raft_id id, uint64_t life, uint64_t term, uint64_t kept, bool went_back)
{
	struct raft_config c = config_of(3);

	disk_marks_heard(&book, &c, id, &(struct disk_mark){ life, term, kept, 1, went_back });
}

static void
begin(void)
{
	book = (struct disk_marks){ 0 };
}

START_TEST(the_farthest_is_remembered)
{
	begin();
	heard(2, 7, 5, 100, false);
	heard(2, 7, 5, 90, false);		/* late, by the other link */
	ck_assert_uint_eq(disk_marks_of(&book, 2).kept, 100);
	heard(2, 7, 6, 10, false);
	ck_assert_uint_eq(disk_marks_of(&book, 2).kept, 10);
	heard(2, 8, 6, 5, false);		/* another life, which has not come so far: that is what it is to hear */
	ck_assert_uint_eq(disk_marks_of(&book, 2).life, 7);
	ck_assert_uint_eq(disk_marks_of(&book, 2).kept, 10);
	heard(2, 8, 6, 11, false);
	ck_assert_uint_eq(disk_marks_of(&book, 2).life, 8);
	ck_assert_uint_eq(disk_marks_of(&book, 3).life, 0);
}
END_TEST

/* Whoever has the cluster's keys may say a hello; nothing of it is kept. */
START_TEST(only_servers_of_the_configuration)
{
	struct raft_config c = config_of(RAFT_SERVERS_MAX);

	begin();
	heard(4, 7, 5, 100, false);
	heard(2, 0, 5, 100, false);		/* one that says nothing */
	ck_assert_uint_eq(book.count, 0);
	for (unsigned i = 0; i < RAFT_SERVERS_MAX; i++) {
		c.servers[i].id = 100 + i;
		disk_marks_heard(&book, &c, 100 + i, &(struct disk_mark){ 1, 1, 1, 0, false });
	}
	ck_assert_uint_eq(book.count, RAFT_SERVERS_MAX);
	heard(2, 7, 5, 100, false);		/* in their place */
	ck_assert_uint_eq(disk_marks_of(&book, 2).kept, 100);
	ck_assert_uint_eq(book.count, 1);
}
END_TEST

/* Between its being told and its having caught up, it may be restarted, and have a newer term by then. */
START_TEST(a_loss_is_remembered_over_a_restart)
{
	begin();
	heard(2, 7, 5, 100, false);
	heard(2, 8, 5, 20, false);
	heard(2, 8, 5, 20, true);
	heard(2, 8, 5, 20, false);		/* late: of before it knew */
	ck_assert(disk_marks_of(&book, 2).went_back);
	heard(2, 9, 6, 30, false);		/* the next life does not know yet */
	ck_assert(disk_marks_of(&book, 2).went_back);
	ck_assert_uint_eq(disk_marks_of(&book, 2).life, 8);
	heard(2, 9, 6, 30, true);
	ck_assert_uint_eq(disk_marks_of(&book, 2).life, 9);
	heard(2, 9, 6, 120, false);		/* made up for */
	ck_assert(!disk_marks_of(&book, 2).went_back);
	ck_assert_uint_eq(disk_marks_of(&book, 2).kept, 120);
}
END_TEST

START_TEST(what_is_found_at_the_start)
{
	static const struct {
		const char *what;
		struct disk_found found;
		struct disk_mark seen;
		bool back;
	} t[] = {
		{ "nothing is remembered", { 9, 5, 100, 1 }, { 0, 9, 900, 2, false }, false },
		{ "of this life", { 9, 5, 100, 1 }, { 9, 9, 900, 2, true }, false },
		{ "as it was", { 9, 5, 100, 1 }, { 8, 5, 100, 1, false }, false },
		{ "more than was told", { 9, 5, 101, 1 }, { 8, 5, 100, 1, false }, false },
		{ "a later term, whose leader cut the log", { 9, 6, 90, 1 }, { 8, 5, 100, 1, false }, false },
		{ "an older term", { 9, 4, 200, 1 }, { 8, 5, 100, 1, false }, true },
		{ "a shorter log", { 9, 5, 99, 1 }, { 8, 5, 100, 1, false }, true },
		{ "a forgotten vote", { 9, 5, 100, 0 }, { 8, 5, 100, 1, false }, true },
		{ "it voted after it told", { 9, 5, 100, 1 }, { 8, 5, 100, 0, false }, false },
		{ "it did not make up for that before", { 9, 7, 300, 1 }, { 8, 5, 100, 1, true }, true },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		ck_assert_msg(disk_went_back(&t[i].found, &t[i].seen) == t[i].back, "%s", t[i].what);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("disk_mark");
	TCase *t = tcase_create("disk_mark");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_test(t, the_farthest_is_remembered);
	tcase_add_test(t, only_servers_of_the_configuration);
	tcase_add_test(t, a_loss_is_remembered_over_a_restart);
	tcase_add_test(t, what_is_found_at_the_start);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
