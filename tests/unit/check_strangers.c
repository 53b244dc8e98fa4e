/* Places for the unproven: who gives way, whom a flood cannot push out, and which addresses are one source. */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/net/source.h"
#include "common/net/strangers.h"

static struct strangers t;

static void
start(unsigned max, unsigned known_max, unsigned source_max)
{
	strangers_done(&t);
	strangers_init(&t, &(struct strangers_conf){ max, known_max, source_max });
}

START_TEST(the_oldest_of_its_source_gives_way)
{
	struct stranger s[8];

	start(100, 0, 3);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_ptr_null(strangers_come(&t, &s[i], 1, false));
	ck_assert_ptr_null(strangers_come(&t, &s[3], 2, false));
	ck_assert_ptr_eq(strangers_come(&t, &s[4], 1, false), &s[0]);
	ck_assert_ptr_eq(strangers_come(&t, &s[5], 1, false), &s[1]);
	ck_assert_uint_eq(t.count, 4);
	ck_assert_uint_eq(t.evicted, 2);
	strangers_go(&t, &s[0]);		/* the owner closes what was evicted: nothing more happens */
	strangers_go(&t, &s[2]);
	strangers_go(&t, &s[2]);
	ck_assert_uint_eq(t.count, 3);
	ck_assert_ptr_null(strangers_come(&t, &s[6], 1, false));
}
END_TEST

/* One that came before the flood and has one place only keeps it, whatever the others do. */
START_TEST(a_flood_pushes_itself)
{
	struct stranger flood[64], honest, *out;

	start(8, 0, 4);
	ck_assert_ptr_null(strangers_come(&t, &honest, 77, false));
	for (unsigned i = 0; i < 64; i++) {
		out = strangers_come(&t, &flood[i], i % 3, false);
		ck_assert_ptr_ne(out, &honest);
		ck_assert_uint_le(t.count, 8);
	}
	ck_assert(honest.place.here);
	strangers_go(&t, &honest);
	ck_assert(!honest.place.here);
	ck_assert_uint_eq(t.count, 7);
}
END_TEST

/* A flood from as many sources as there are places: the oldest of all goes, and the newest is always in. */
START_TEST(the_newest_is_always_in)
{
	struct stranger s[40];

	start(8, 0, 4);
	for (unsigned i = 0; i < 40; i++) {
		struct stranger *out = strangers_come(&t, &s[i], 1000 + i, false);

		ck_assert_ptr_eq(out, i < 8 ? NULL : &s[i - 8]);
		ck_assert(s[i].place.here);
	}
	ck_assert_uint_eq(t.evicted, 32);
}
END_TEST

START_TEST(known_sources_have_their_places)
{
	struct stranger known[4], flood[64], *out;

	start(8, 2, 2);
	ck_assert_ptr_null(strangers_come(&t, &known[0], 1, true));
	for (unsigned i = 0; i < 64; i++) {
		out = strangers_come(&t, &flood[i], 100 + i, false);
		ck_assert(out == NULL || !out->known);
	}
	ck_assert_ptr_null(strangers_come(&t, &known[1], 2, true));
	ck_assert_ptr_eq(strangers_come(&t, &known[2], 3, true), &known[0]);	/* among themselves they give way too */
	ck_assert(t.count == 10 && t.crowds[true].count == 2);
	start(8, 0, 8);				/* none are kept: known ones are like all others */
	ck_assert_ptr_null(strangers_come(&t, &known[3], 3, true));
	ck_assert_uint_eq(t.crowds[true].count, 0);
}
END_TEST

/* Whatever comes and goes: bounds hold, and the list and its counts agree. */
START_TEST(any_order)
{
	static struct stranger s[256];
	struct rng rng;

	rng_seed(&rng, (uint64_t)_i);
	start(16, 8, 5);
	memset(s, 0, sizeof(s));
	for (unsigned step = 0; step < 2000; step++) {
		struct stranger *x = &s[rng_below(&rng, 256)];
		unsigned n = 0, known = 0, per_source[8] = { 0 }, per_known[8] = { 0 };

		if (!x->place.here)
			(void)strangers_come(&t, x, rng_below(&rng, 8), rng_below(&rng, 3) == 0);
		else
			strangers_go(&t, x);
		for (unsigned i = 0; i < 256; i++)
			if (s[i].place.here)
				(s[i].known ? per_known : per_source)[s[i].source]++;
		for (unsigned i = 0; i < 256; i++) {
			if (!s[i].place.here)
				continue;
			n++;
			known += s[i].known;
			ck_assert_uint_le(s[i].place.source->members, 5);
			ck_assert_uint_eq(s[i].place.source->members, (s[i].known ? per_known : per_source)[s[i].source]);
		}
		ck_assert(n == t.count && known == t.crowds[true].count && known <= 8 && n - known <= 16);
	}
}
END_TEST

static uint64_t
of(const char *ip)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	uint64_t source;

	if (inet_pton(AF_INET, ip, &in.sin_addr) == 1) {
		source = source_of((struct sockaddr *)&in);
	} else {
		ck_assert_int_eq(inet_pton(AF_INET6, ip, &in6.sin6_addr), 1);
		source = source_of((struct sockaddr *)&in6);
	}
	ck_assert_uint_eq(source, source_of_text(ip));
	return source;
}

START_TEST(sources)
{
	static const char *const different[] = { "0.0.0.0", "127.0.0.1", "127.0.0.2", "255.255.255.255", "::1", "0:0:0:1::1",
		"2001:db8::1", "2001:db8:0:1::1", "0:0:7f00:1::1", "fe80::1" };
	const struct sockaddr none = { .sa_family = AF_UNIX };

	ck_assert_uint_eq(of("2001:db8::1"), of("2001:db8::ffff:ffff:ffff:ffff"));
	ck_assert_uint_eq(of("::ffff:127.0.0.1"), of("127.0.0.1"));
	ck_assert_uint_eq(source_of(&none), 0);
	ck_assert_uint_eq(source_of_text("localhost"), 0);
	for (unsigned i = 0; i < sizeof(different) / sizeof(different[0]); i++) {
		ck_assert_uint_ne(of(different[i]), 0);
		for (unsigned k = 0; k < i; k++)
			ck_assert_uint_ne(of(different[i]), of(different[k]));
	}
}
END_TEST

/* The same in one process, and not what an unkeyed hash would give. */
START_TEST(hashes)
{
	uint64_t seen[64];

	for (unsigned i = 0; i < 64; i++) {
		seen[i] = keyed_hash(&i, sizeof(i));
		ck_assert_uint_eq(seen[i], keyed_hash(&i, sizeof(i)));
		for (unsigned k = 0; k < i; k++)
			ck_assert_uint_ne(seen[i], seen[k]);
	}
	(void)keyed_hash(NULL, 0);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("strangers");
	TCase *c = tcase_create("strangers");
	SRunner *r;
	int bad;

	tcase_set_timeout(c, 60);
	tcase_add_test(c, the_oldest_of_its_source_gives_way);
	tcase_add_test(c, a_flood_pushes_itself);
	tcase_add_test(c, the_newest_is_always_in);
	tcase_add_test(c, known_sources_have_their_places);
	tcase_add_loop_test(c, any_order, 0, 8);
	tcase_add_test(c, sources);
	tcase_add_test(c, hashes);
	suite_add_tcase(s, c);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	bad = srunner_ntests_failed(r);
	srunner_free(r);
	return bad > 0;
}
