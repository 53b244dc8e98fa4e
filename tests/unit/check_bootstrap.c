/* Who forms a cluster with whom, who may promise what, and which hellos fit. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/msg.h"
#include "common/record/mpack.h"
#include "raftd/fsm/fsm.h"
#include "raftd/members/rules/bootstrap_pick.h"
#include "raftd/peers/clock_offset.h"
#include "raftd/peers/identity.h"

#define HELLO_THINGS 23
#define A "aaaaaaaa-0000-4000-8000-000000000000"
#define B "bbbbbbbb-0000-4000-8000-000000000000"
#define C "cccccccc-0000-4000-8000-000000000000"
#define D "dddddddd-0000-4000-8000-000000000000"
#define STORE "51515151-0000-4000-8000-000000000000"
#define OTHER "62626262-0000-4000-8000-000000000000"

static struct bootstrap_candidate
fresh(const char *uuid)
{
	struct bootstrap_candidate c = { .alive = true, .linked = true, .expect = 3 };

	strcpy(c.uuid, uuid);
	return c;
}

START_TEST(the_lowest_id_asks)
{
	struct bootstrap_candidate c[] = { fresh(D), fresh(B), fresh(C) };
	unsigned picked[BOOTSTRAP_SERVERS_MAX];

	ck_assert(bootstrap_pick(A, "", STORE, 3, c, 3, picked));
	ck_assert_uint_eq(picked[0], 1);	/* lowest ids first */
	ck_assert_uint_eq(picked[1], 2);
	c[0] = fresh(A);
	ck_assert(!bootstrap_pick(B, "", STORE, 3, c, 3, picked));
}
END_TEST

START_TEST(waits_for_enough_that_fit)
{
	struct bootstrap_candidate c[] = { fresh(B), fresh(C) };
	unsigned picked[BOOTSTRAP_SERVERS_MAX];

	ck_assert(bootstrap_pick(A, "", STORE, 3, c, 2, picked));
	ck_assert(!bootstrap_pick(A, "", STORE, 3, c, 1, picked));
	c[1].alive = false;
	ck_assert(!bootstrap_pick(A, "", STORE, 3, c, 2, picked));
	c[1] = fresh(C);
	c[1].linked = false;
	ck_assert(!bootstrap_pick(A, "", STORE, 3, c, 2, picked));
	c[1] = fresh(C);
	c[1].expect = 5;
	ck_assert(!bootstrap_pick(A, "", STORE, 3, c, 2, picked));
	c[1] = fresh(C);
	strcpy(c[1].cluster_id, OTHER);		/* promised to somebody else, or in a cluster */
	ck_assert(!bootstrap_pick(A, "", STORE, 3, c, 2, picked));
	c[1].generation = 1;
	ck_assert(!bootstrap_pick(A, "", STORE, 3, c, 2, picked));
}
END_TEST

/* Restarted in the middle: those that have promised to us count. */
START_TEST(goes_on_after_a_restart)
{
	struct bootstrap_candidate c[] = { fresh(B), fresh(C) };
	unsigned picked[BOOTSTRAP_SERVERS_MAX];

	strcpy(c[0].cluster_id, STORE);
	ck_assert(bootstrap_pick(A, STORE, STORE, 3, c, 2, picked));
	ck_assert(!bootstrap_pick(A, "", STORE, 3, c, 2, picked));
	ck_assert(!bootstrap_pick(A, OTHER, STORE, 3, c, 2, picked));	/* promised to another */
}
END_TEST

START_TEST(promises_are_exclusive)
{
	struct identity own = { .uuid = C };
	const char *why;

	ck_assert_int_eq(bootstrap_may_promise(&own, 3, true, A, OTHER, 3, &why), TV_OK);
	strcpy(own.cluster_id, OTHER);
	ck_assert_int_eq(bootstrap_may_promise(&own, 3, true, A, OTHER, 3, &why), TV_OK);	/* again */
	ck_assert_int_eq(bootstrap_may_promise(&own, 3, true, B, STORE, 3, &why), TV_ECONFLICT);
	ck_assert_ptr_nonnull(strstr(why, "another cluster"));
	own.cluster_id[0] = '\0';
	ck_assert_int_eq(bootstrap_may_promise(&own, 5, true, A, OTHER, 3, &why), TV_ECONFLICT);
	ck_assert_int_eq(bootstrap_may_promise(&own, 3, false, A, OTHER, 3, &why), TV_ECONFLICT);
	ck_assert_int_eq(bootstrap_may_promise(&own, 3, true, D, OTHER, 3, &why), TV_ECONFLICT);
	own.generation = 1;
	ck_assert_int_eq(bootstrap_may_promise(&own, 3, true, A, OTHER, 3, &why), TV_ECONFLICT);
}
END_TEST

static struct identity
identity(const char *uuid, const char *cluster, uint64_t generation)
{
	struct identity id = { .generation = generation, .name = "n", .addr = "10.0.0.1:8300" };

	strcpy(id.uuid, uuid);
	strcpy(id.store_id, STORE);
	strcpy(id.cluster_id, cluster);
	return id;
}

static struct hello
hello_of(const struct identity *id, const char *dc)
{
	struct buf b = BUF_INIT(4096);
	struct hello h;

	hello_write(&b, id, dc, 8300, &(struct disk_mark){ 0 }, &(struct disk_mark){ 0 }, 0);
	ck_assert_int_eq(hello_read(buf_span(&b), &h), TV_OK);
	/* Every cut of it is refused. */
	for (size_t n = 0; n < b.len; n++) {
		struct hello cut;

		ck_assert_int_ne(hello_read(span_of(b.data, n), &cut), TV_OK);
	}
	buf_done(&b);
	return h;
}

START_TEST(hellos)
{
	static const struct {
		const char *what, *own, *theirs, *dc, *uuid;
		uint64_t own_gen, their_gen;
		enum hello_verdict verdict;
		const char *why;
	} t[] = {
		{ "both fresh", "", "", "dc1", B, 0, 0, HELLO_OK, NULL },
		{ "same cluster", OTHER, OTHER, "dc1", B, 1, 1, HELLO_OK, NULL },
		{ "fresh meets member", "", OTHER, "dc1", B, 0, 1, HELLO_OK, NULL },
		{ "member meets fresh", OTHER, "", "dc1", B, 1, 0, HELLO_OK, NULL },
		{ "other cluster", OTHER, STORE, "dc1", B, 1, 1, HELLO_REFUSE, "belongs to cluster" },
		{ "other datacenter", OTHER, OTHER, "dc2", B, 1, 1, HELLO_REFUSE, "datacenter dc2" },
		{ "our own id", OTHER, OTHER, "dc1", A, 1, 1, HELLO_REFUSE, "it is this server itself" },
		{ "promised to the cluster", OTHER, OTHER, "dc1", B, 0, 1, HELLO_OK, NULL },
		{ "promised to another", STORE, OTHER, "dc1", B, 0, 1, HELLO_WAIT, NULL },
		{ "two promises", STORE, OTHER, "dc1", B, 0, 0, HELLO_WAIT, NULL },
		{ "it was left behind by a recovery", OTHER, OTHER, "dc1", B, 2, 1, HELLO_REFUSE, "generation 1" },
		{ "we were", OTHER, OTHER, "dc1", B, 1, 2, HELLO_REFUSE, "this server belongs to generation 1" },
		{ "of the same recovery", OTHER, OTHER, "dc1", B, 7 << 16 | 2, 7 << 16 | 2, HELLO_OK, NULL },
		{ "recovered here and there", OTHER, OTHER, "dc1", B, 7 << 16 | 2, 8 << 16 | 2, HELLO_REFUSE,
		    "recovered twice as generation 2" },
		{ "and once more", OTHER, OTHER, "dc1", B, 9 << 16 | 2, 8 << 16 | 3, HELLO_REFUSE,
		    "this server belongs to generation 2 of the cluster, which was recovered as generation 3" },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct identity own = identity(A, t[i].own, t[i].own_gen);
		struct identity peer = identity(t[i].uuid, t[i].theirs, t[i].their_gen);
		struct hello h = hello_of(&peer, t[i].dc);
		char why[320] = "";

		ck_assert_msg(hello_check(&own, "dc1", &h, why, sizeof(why)) == t[i].verdict, "%s: %s", t[i].what, why);
		if (t[i].why != NULL)
			ck_assert_msg(strstr(why, t[i].why) != NULL, "%s: %s", t[i].what, why);
	}
}
END_TEST

/* Two recoveries never meet as one cluster, and only a later one makes a server stand aside. */
START_TEST(generations)
{
	struct identity own = identity(A, OTHER, 7 << 16 | 2), peer = identity(B, OTHER, 8 << 16 | 2);
	struct hello h = hello_of(&peer, "dc1");

	ck_assert_uint_eq(generation_number(generation_next(1, 0xabcdef)), 2);
	ck_assert_uint_eq(generation_next(1, 0xabcdef) >> 16, 0xabcdef);
	ck_assert_uint_eq(generation_number(generation_next(generation_next(1, UINT64_MAX), 5)), 3);
	ck_assert_uint_ne(generation_next(1, 1), generation_next(1, 2));
	ck_assert_uint_eq(generation_number(generation_next(65535, 1)), 65535);
	ck_assert(!hello_supersedes(&own, "dc1", &h));
	h.generation = 1 << 16 | 3;
	ck_assert(hello_supersedes(&own, "dc1", &h));
	h.generation = 1;
	ck_assert(!hello_supersedes(&own, "dc1", &h));
}
END_TEST

/* Between the records of a cluster's first moment the process may end. */
START_TEST(torn_by_a_crash)
{
	struct log_meta m = { .term = 0 };

	strcpy(m.store_id, A);
	ck_assert_uint_eq(generation_found(&m), 0);		/* fresh */
	strcpy(m.cluster_id, A);
	ck_assert_uint_eq(generation_found(&m), 0);		/* promised to itself */
	m.generation = 1;
	ck_assert_uint_eq(generation_found(&m), 0);		/* formed, and no entry yet: formed again */
	m.term = 1;
	ck_assert_uint_eq(generation_found(&m), 0);
	m.vote = 7;
	ck_assert_uint_eq(generation_found(&m), 1);		/* it took part in an election */
	m.vote = 0;
	m.term = 2;
	ck_assert_uint_eq(generation_found(&m), 1);
	m.term = 1;
	m.generation = 1 << 16 | 2;
	ck_assert_uint_eq(generation_found(&m), 1 << 16 | 2);	/* recovered */
	m.generation = 1;
	strcpy(m.cluster_id, B);
	ck_assert_uint_eq(generation_found(&m), 1);		/* a cluster that another server formed */
	m = (struct log_meta){ .generation = 1, .snapshot_index = 9 };
	ck_assert_uint_eq(generation_found(&m), 1);
	m = (struct log_meta){ .cluster_id = A, .store_id = A, .first = 1, .last = 1 };
	ck_assert_uint_eq(generation_found(&m), 1);		/* the entry was written, and nothing else */
}
END_TEST

/* Its own address, under an older entry: nothing was copied. */
START_TEST(meets_itself)
{
	struct identity own = identity(A, OTHER, 1), copy = own;
	struct hello h = hello_of(&own, "dc1");
	char why[320] = "";

	ck_assert_int_eq(hello_check(&own, "dc1", &h, why, sizeof(why)), HELLO_REFUSE);
	ck_assert_ptr_nonnull(strstr(why, "it is this server itself"));
	ck_assert_ptr_nonnull(strstr(why, "remove-peer"));
	strcpy(copy.addr, "10.0.0.2:8300");
	h = hello_of(&copy, "dc1");
	ck_assert_int_eq(hello_check(&own, "dc1", &h, why, sizeof(why)), HELLO_REFUSE);
	ck_assert_ptr_nonnull(strstr(why, "was the data directory copied?"));
}
END_TEST

/* The hello of `later` in the words of an older version: so many things, of which none is longer than a byte behind the eleventh. */
static void
cut_hello(const struct buf *later, unsigned things, struct buf *out)
{
	buf_reset(out);
	buf_u8(out, (uint8_t)(0x90 | things));
	buf_put(out, later->data + 3, later->len - 3 - (HELLO_THINGS - things));
}

/* The first ones said nine things, the next ones ten, eleven and twelve, later ones may say more than we know. */
START_TEST(hellos_grow)
{
	struct identity id = identity(B, OTHER, 1);
	struct buf b = BUF_INIT(4096), other = BUF_INIT(4096);
	struct hello h;

	hello_write(&b, &id, "dc1", 8300, &(struct disk_mark){ 0 }, &(struct disk_mark){ 0 }, 0);
	ck_assert_uint_eq(b.data[0], 0xdc);
	ck_assert_uint_eq(b.data[2], HELLO_THINGS);
	b.data[b.len - 12] = 7;
	ck_assert_int_eq(hello_read(buf_span(&b), &h), TV_OK);
	ck_assert_uint_eq(h.features, RAFT_FEATURES);
	ck_assert_uint_eq(h.state, 7);
	cut_hello(&b, 12, &other);
	ck_assert_uint_eq(other.data[other.len - 3], RAFT_FEATURES);
	ck_assert_uint_eq(other.data[other.len - 2], RAFT_VERSIONS.highest);
	ck_assert_int_eq(hello_read(buf_span(&other), &h), TV_OK);
	ck_assert_uint_eq(h.state, 7);
	ck_assert_uint_eq(h.mark.life, 0);
	ck_assert_uint_eq(h.seen.life, 0);
	cut_hello(&b, 11, &other);
	ck_assert_int_eq(hello_read(buf_span(&other), &h), TV_OK);
	ck_assert_uint_eq(h.state, 1);
	cut_hello(&b, 10, &other);
	ck_assert_int_eq(hello_read(buf_span(&other), &h), TV_OK);
	ck_assert_uint_eq(h.features, RAFT_FEATURES);
	ck_assert_uint_eq(h.versions.highest, 1);
	cut_hello(&b, 9, &other);
	ck_assert_int_eq(hello_read(buf_span(&other), &h), TV_OK);
	ck_assert_uint_eq(h.features, 0);
	ck_assert_uint_eq(h.versions.lowest, 1);
	ck_assert_uint_eq(h.versions.highest, 1);
	ck_assert_str_eq(h.uuid, B);
	other.data[0] = 0x98;
	ck_assert_int_ne(hello_read(buf_span(&other), &h), TV_OK);	/* more than it says */
	cut_hello(&b, 11, &other);
	other.data[1] = 2;		/* the lowest above the highest */
	ck_assert_int_eq(hello_read(buf_span(&other), &h), TV_EFORMAT);
	other.data[1] = 0;
	ck_assert_int_eq(hello_read(buf_span(&other), &h), TV_EFORMAT);
	b.data[2] = HELLO_THINGS + 3;
	mpw_uint(&b, 3);
	mpw_cstr(&b, "new");
	mpw_map(&b, 0);
	ck_assert_int_eq(hello_read(buf_span(&b), &h), TV_OK);
	ck_assert_uint_eq(h.versions.highest, RAFT_VERSIONS.highest);
	buf_done(&b);
	buf_done(&other);
}
END_TEST

START_TEST(marks_of_disks_travel)
{
	struct identity id = identity(B, OTHER, 1);
	struct disk_mark mark = { 0xfeedfacecafebeef, 7, 1000, 0x1122334455667788, true }, seen = { 9, 8, 7, 6, false };
	struct buf b = BUF_INIT(4096);
	struct hello h;

	hello_write(&b, &id, "dc1", 8300, &mark, &seen, 1795838400000);
	ck_assert_int_eq(hello_read(buf_span(&b), &h), TV_OK);
	ck_assert(h.mark.life == mark.life && h.mark.term == 7 && h.mark.kept == 1000 && h.mark.vote == mark.vote && h.mark.went_back);
	ck_assert(h.seen.life == 9 && h.seen.term == 8 && h.seen.kept == 7 && h.seen.vote == 6 && !h.seen.went_back);
	ck_assert_uint_eq(h.clock_ms, 1795838400000);
	buf_done(&b);
}
END_TEST

/* Their clock, halfway between question and answer; by less than half the way there and back nobody can tell. */
START_TEST(offsets_of_clocks)
{
	static const struct { uint64_t there, here; int64_t rtt_ms, want; } is[] = {
		{ 10000, 10005, 10, 0 }, { 700005, 100010, 10, 600000 }, { 100005, 700010, 10, -600000 }, { 1000, 1000, 0, 0 },
		{ 11600, 10000, 800, 2000 }, { 10000, 10300, 800, 0 },
	};
	int64_t ms;

	for (size_t i = 0; i < sizeof(is) / sizeof(is[0]); i++) {
		ck_assert(clock_offset(is[i].there, is[i].here, MONO_MS(is[i].rtt_ms), &ms));
		ck_assert_int_eq(ms, is[i].want);
	}
	ck_assert(!clock_offset(0, 10000, MONO_MS(1), &ms));		/* does not say */
	ck_assert(!clock_offset(UINT64_MAX, 10000, MONO_MS(1), &ms));	/* nonsense */
	ck_assert(!clock_offset(10000, 10000, MONO_MS(1001), &ms));	/* too long on the way */
	ck_assert_uint_eq(clock_offset_of_most((int64_t[]){ -600000, 3 }, 2), 3);
	ck_assert_uint_eq(clock_offset_of_most((int64_t[]){ -600000, -600001 }, 2), 600000);
	ck_assert_uint_eq(clock_offset_of_most((int64_t[]){ 5, 600000, -2, 9 }, 4), 5);
	ck_assert_uint_eq(clock_offset_of_most((int64_t[]){ -7 }, 1), 7);
	ck_assert_uint_eq(clock_offset_of_most(NULL, 0), 0);
}
END_TEST

/* During a rolling upgrade the newer server speaks our version too; later ones do not any more. */
START_TEST(hello_of_another_version)
{
	struct identity own = identity(A, OTHER, 1), peer = identity(B, OTHER, 1 << 16 | 2);
	struct hello h = hello_of(&peer, "dc1");
	char why[320];

	h.versions = (struct version_range){ 1, 2 };
	ck_assert(hello_supersedes(&own, "dc1", &h));
	h.generation = 1;
	ck_assert_int_eq(hello_check(&own, "dc1", &h, why, sizeof(why)), HELLO_OK);
	h.versions = (struct version_range){ 2, 3 };
	ck_assert_int_eq(hello_check(&own, "dc1", &h, why, sizeof(why)), HELLO_REFUSE);
	ck_assert_msg(strstr(why, "it speaks version 2 to 3 of the protocol between raftds, this server version 1") != NULL,
	    "%s", why);
	h.generation = 1 << 16 | 2;
	ck_assert(!hello_supersedes(&own, "dc1", &h));
}
END_TEST

static uint8_t
version_of(void *ctx, raft_id id)
{
	return ((const uint8_t *)ctx)[id];
}

/* A leader proposes nothing above the lowest of its voters and learners, heard of or not. */
START_TEST(lowest_version_counts)
{
	struct raft_config c = { .count = 3, .servers = {
	    { .id = 1, .name = "n1", .voter = true }, { .id = 2, .name = "n2", .voter = true }, { .id = 3, .name = "n3" } } };
	uint8_t has[] = { 0, 3, 3, 3 };
	char why[320] = "";

	ck_assert(versions_reach(&c, 3, version_of, has, why, sizeof(why)));
	ck_assert_str_eq(why, "");
	ck_assert(!versions_reach(&c, 4, version_of, has, why, sizeof(why)));
	has[3] = 2;
	ck_assert(versions_reach(&c, 2, version_of, has, why, sizeof(why)));
	ck_assert(!versions_reach(&c, 3, version_of, has, why, sizeof(why)));
	ck_assert_str_eq(why, "server n3 runs a version of raftd that cannot apply this (version 2 of the state machine, and "
	    "version 3 is needed): upgrade it first, or remove it");
	has[3] = 3, has[2] = 0;
	ck_assert(!versions_reach(&c, 3, version_of, has, why, sizeof(why)));
	ck_assert_ptr_nonnull(strstr(why, "server n2 has not been heard of since this one started"));
}
END_TEST

START_TEST(versions_in_common)
{
	static const struct { struct version_range a, b; uint8_t common; } t[] = {
		{ { 1, 1 }, { 1, 1 }, 1 }, { { 1, 2 }, { 1, 1 }, 1 }, { { 1, 3 }, { 2, 5 }, 3 }, { { 2, 2 }, { 1, 5 }, 2 },
		{ { 1, 1 }, { 2, 2 }, 0 }, { { 4, 255 }, { 1, 3 }, 0 },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		ck_assert_uint_eq(version_common(t[i].a, t[i].b), t[i].common);
		ck_assert_uint_eq(version_common(t[i].b, t[i].a), t[i].common);
	}
}
END_TEST

START_TEST(addresses)
{
	char text[64];

	ck_assert_str_eq(addr_join("fe80::1", 1, text, sizeof(text)), "[fe80::1]:1");
	ck_assert_str_eq(addr_join("10.0.0.1", 8300, text, sizeof(text)), "10.0.0.1:8300");
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("forming");
	TCase *t = tcase_create("all");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_test(t, the_lowest_id_asks);
	tcase_add_test(t, waits_for_enough_that_fit);
	tcase_add_test(t, goes_on_after_a_restart);
	tcase_add_test(t, promises_are_exclusive);
	tcase_add_test(t, hellos);
	tcase_add_test(t, generations);
	tcase_add_test(t, torn_by_a_crash);
	tcase_add_test(t, meets_itself);
	tcase_add_test(t, hellos_grow);
	tcase_add_test(t, marks_of_disks_travel);
	tcase_add_test(t, offsets_of_clocks);
	tcase_add_test(t, hello_of_another_version);
	tcase_add_test(t, versions_in_common);
	tcase_add_test(t, lowest_version_counts);
	tcase_add_test(t, addresses);
	suite_add_tcase(s, t);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
