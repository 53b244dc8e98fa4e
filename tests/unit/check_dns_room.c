/* Memory of answers over TCP: who is served, who waits, and who loses his place. */
#include <check.h>
#include <stdlib.h>

#include "rpcd/dns/room.h"

#define USERS 600
#define ANSWER (128u << 10)

static struct room r;
static struct room_user u[USERS];
static struct mono when;

static struct mono
at(int ms)
{
	return mono_add(MONO_S(100), MONO_MS(ms));
}

static void
setup(void)
{
	r = (struct room){ 0 };
	for (int i = 0; i < USERS; i++)
		u[i] = (struct room_user){ 0 };
}

/* Users from this one on hold an answer each, until nothing is left; the next one. */
static int
fill(int from, int ms)
{
	while (r.bytes < ROOM_BYTES_MAX) {
		ck_assert_int_eq(room_ask(&r, &u[from]), ROOM_YES);
		room_hold(&r, &u[from], ANSWER, at(ms));
		from++;
	}
	return from;
}

START_TEST(plenty_then_tight)
{
	room_hold(&r, &u[0], ANSWER, at(0));
	ck_assert_int_eq(room_ask(&r, &u[0]), ROOM_YES);
	for (int i = 1; r.bytes < ROOM_BYTES_PLENTY; i++)
		room_hold(&r, &u[i], ANSWER, at(0));
	/* From here on one at a time. */
	ck_assert_int_eq(room_ask(&r, &u[0]), ROOM_OWN_FIRST);
	ck_assert_int_eq(room_ask(&r, &u[USERS - 1]), ROOM_YES);
	fill(200, 0);
	ck_assert_int_eq(room_ask(&r, &u[USERS - 1]), ROOM_WAIT);
}
END_TEST

START_TEST(questions_under_way)
{
	/* One asks as much as it may, while nobody else does. */
	room_asks(&r, &u[0], ROOM_ASKS_PLENTY - 1);
	ck_assert_int_eq(room_ask(&r, &u[0]), ROOM_YES);
	room_asks(&r, &u[0], ROOM_ASKS_PLENTY);
	ck_assert_int_eq(room_ask(&r, &u[0]), ROOM_OWN_FIRST);
	ck_assert_int_eq(room_ask(&r, &u[1]), ROOM_YES);
	room_asks(&r, &u[1], ROOM_ASKS_MAX - ROOM_ASKS_PLENTY);
	ck_assert_int_eq(room_ask(&r, &u[2]), ROOM_WAIT);
	room_wait(&r, &u[2]);
	ck_assert_ptr_null(room_admit(&r));
	ck_assert_ptr_null(room_loser(&r, at(60000), &when));
	/* What was begun has its answer, if it fits. */
	ck_assert(room_fits(&r, &u[1]));
	room_leave(&r, &u[1]);
	ck_assert_ptr_eq(room_admit(&r), &u[2]);
	room_asks(&r, &u[2], 1);
	room_done(&r, &u[2]);
	ck_assert_int_eq(room_ask(&r, &u[2]), ROOM_OWN_FIRST);
	fill(3, 0);
	ck_assert(!room_fits(&r, &u[2]));
}
END_TEST

START_TEST(in_the_order_of_coming)
{
	int next = fill(0, 0);

	for (int i = next; i < next + 3; i++)
		room_wait(&r, &u[i]);
	room_wait(&r, &u[next]);	/* again: it keeps its place */
	ck_assert_ptr_null(room_admit(&r));
	room_hold(&r, &u[5], 0, at(1));
	/* Who comes now does not overtake them. */
	ck_assert_int_eq(room_ask(&r, &u[5]), ROOM_WAIT);
	ck_assert_ptr_eq(room_admit(&r), &u[next]);
	ck_assert_int_eq(room_ask(&r, &u[next]), ROOM_YES);
	ck_assert_int_eq(room_ask(&r, &u[next + 1]), ROOM_WAIT);
	ck_assert_ptr_null(room_admit(&r));	/* one at a time: what it will hold is not known yet */
	room_hold(&r, &u[next], ANSWER, at(1));
	room_done(&r, &u[next]);
	ck_assert_ptr_null(room_admit(&r));
	/* One that waits goes: the next one is the third. */
	room_leave(&r, &u[next + 1]);
	room_hold(&r, &u[6], 0, at(1));
	ck_assert_ptr_eq(room_admit(&r), &u[next + 2]);
	/* It goes without having had its turn. */
	room_leave(&r, &u[next + 2]);
	ck_assert_int_eq(room_ask(&r, &u[next + 3]), ROOM_YES);
}
END_TEST

START_TEST(who_takes_nothing_loses)
{
	int next = fill(0, 0);

	/* As long as nobody waits all stay. */
	ck_assert_ptr_null(room_loser(&r, at(60000), &when));
	ck_assert_int_eq(when.ns, MONO_NEVER.ns);
	room_wait(&r, &u[next]);
	/* A whole turn in which many were served costs nobody anything. */
	ck_assert_ptr_null(room_loser(&r, at(0), &when));
	ck_assert_int_eq(when.ns, mono_add(at(0), ROOM_TIME).ns);
	/* The first two read, the second one as little as it can. */
	room_taken(&r, &u[0], ROOM_STEP, at(400));
	room_taken(&r, &u[1], 1, at(400));
	ck_assert_ptr_eq(room_loser(&r, at(500), &when), &u[1]);
	room_leave(&r, &u[1]);
	/* That is enough for who waits. */
	ck_assert_ptr_null(room_loser(&r, at(500), &when));
	ck_assert_ptr_eq(room_admit(&r), &u[next]);
	room_hold(&r, &u[next], ANSWER, at(500));
	room_done(&r, &u[next]);
	room_wait(&r, &u[next + 1]);
	ck_assert_ptr_eq(room_loser(&r, at(500), &when), &u[2]);
}
END_TEST

/* A reader beside others that take nothing and come again: it is never the one that loses, and is let in each time. */
START_TEST(a_reader_among_many)
{
	int served = 0;

	for (int ms = 0; served < 20; ms += 10) {
		ck_assert_int_lt(ms, 120000);
		for (int i = 1; i < USERS; i++)
			if (u[i].bytes == 0 && !u[i].waits) {
				if (room_ask(&r, &u[i]) == ROOM_YES)
					room_hold(&r, &u[i], ANSWER, at(ms));
				else
					room_wait(&r, &u[i]);
			}
		if (u[0].bytes > 0) {
			room_taken(&r, &u[0], ROOM_STEP, at(ms));
			room_hold(&r, &u[0], 0, at(ms));
			served++;
		}
		if (!u[0].waits && u[0].bytes == 0) {
			if (room_ask(&r, &u[0]) == ROOM_YES)
				room_hold(&r, &u[0], ANSWER, at(ms));
			else
				room_wait(&r, &u[0]);
		}
		for (struct room_user *k; (k = room_loser(&r, at(ms), &when)) != NULL;) {
			ck_assert_ptr_ne(k, &u[0]);
			room_leave(&r, k);
		}
		for (struct room_user *k; (k = room_admit(&r)) != NULL;) {
			room_hold(&r, k, ANSWER, at(ms));
			room_done(&r, k);
		}
		ck_assert_uint_le(r.bytes, ROOM_BYTES_MAX + ANSWER);
	}
	for (int i = 0; i < USERS; i++)
		room_leave(&r, &u[i]);
	ck_assert_uint_eq(r.bytes, 0);
	ck_assert_ptr_null(r.oldest);
	ck_assert_ptr_null(r.first);
	ck_assert_ptr_null(r.newest);
	ck_assert_ptr_null(r.last);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("dns_room");
	TCase *t = tcase_create("room");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, plenty_then_tight);
	tcase_add_test(t, questions_under_way);
	tcase_add_test(t, in_the_order_of_coming);
	tcase_add_test(t, who_takes_nothing_loses);
	tcase_add_test(t, a_reader_among_many);
	suite_add_tcase(s, t);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
