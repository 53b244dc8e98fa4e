/* Answers that are kept as bytes: what is written of them is what would be answered. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "rpcd/dns/rendered.h"

#define NOW 1700000000u

static struct dns_zone zone;
static struct dns_names names;
static struct arena arena, work;
static struct buf out, again;
static struct rendered_table table;
static struct rendered_set set, other;
static struct rng rng;

static uint64_t
hash(const void *bytes, size_t n)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
	return h;
}

static void
setup(void)
{
	zone = (struct dns_zone){ .datacenter = span_str("dc1"), .udp_answer_limit = 3, .compress = true,
	    .node_meta = true, .soa_refresh = 3600, .soa_retry = 600, .soa_expire = 86400 };
	ck_assert_int_eq(dname_of_text(span_str("consul."), &zone.domain), TV_OK);
	arena = ARENA_INIT(64 << 20);
	work = ARENA_INIT(32 << 20);
	out = again = BUF_INIT(2 * DNS_MESSAGE_BYTES_MAX);
	set = other = (struct rendered_set){ NULL };
	rng_seed(&rng, 5);
	ck_assert(rendered_open(&table, 1 << 20, hash));
}

static void
teardown(void)
{
	rendered_done(&table);
	ck_assert(LIST_EMPTY(&set.list));
	arena_done(&arena);
	arena_done(&work);
	buf_done(&out);
	buf_done(&again);
}

/* edns 0: none. */
static struct span
question(const char *name, uint16_t type, uint16_t edns, struct span options)
{
	struct buf b = BUF_INIT(1024);
	struct dname n;

	ck_assert_int_eq(dname_of_text(span_str(name), &n), TV_OK);
	buf_u16be(&b, (uint16_t)rng_u64(&rng));
	buf_u16be(&b, (uint16_t)(rng_u64(&rng) & (DNS_RD | DNS_CD | DNS_AD)));
	buf_u16be(&b, 1);
	buf_u32be(&b, 0);
	buf_u16be(&b, edns > 0);
	buf_putspan(&b, dname_span(&n));
	buf_u16be(&b, type);
	buf_u16be(&b, 1);
	if (edns > 0) {
		buf_u8(&b, 0);
		buf_u16be(&b, DNS_OPT);
		buf_u16be(&b, edns);
		buf_u32be(&b, 0);
		buf_u16be(&b, (uint16_t)options.len);
		buf_putspan(&b, options);
	}
	struct span kept = arena_copy(&arena, buf_span(&b));
	buf_done(&b);
	return kept;
}

static struct dns_instance *
many(unsigned n, unsigned addresses)
{
	struct dns_instance *v = arena_array(&arena, n, sizeof(*v));

	for (unsigned i = 0; i < n; i++) {
		v[i].node = arena_printf(&arena, "node-%u", i);
		v[i].address = arena_printf(&arena, "10.0.%u.%u", i % addresses / 250, i % addresses % 250 + 1);
		v[i].port = (uint16_t)(80 + i);
		v[i].weight = 1;
	}
	return v;
}

static void
answer(struct span msg, bool tcp, const struct dns_found *found, uint64_t seed, struct buf *to)
{
	struct dns_facts facts = { .n = 0 };
	struct dns_asker asker = { .tcp = tcp, .seed = seed, .names = &names, .now = NOW };
	struct dns_query q;
	enum dns_rcode rcode;
	enum dns_outcome o = DNS_NEED;

	ck_assert_int_eq(dns_query_read(msg, &q, &rcode), DNS_SERVE);
	arena_reset(&work);
	while (o == DNS_NEED) {
		buf_reset(to);
		o = dns_answer(&zone, &q, &asker, &facts, &work, to);
		for (unsigned i = 0; i < facts.n; i++)
			facts.v[i].found = found;
	}
	ck_assert_int_eq(o, DNS_DONE);
}

static void
keep(struct span msg, bool tcp, const struct dns_found *found, uint64_t seed)
{
	struct rendered_question q;

	answer(msg, tcp, found, seed, &again);
	if (rendered_read(&table, msg, tcp, &q))
		rendered_keep(&table, &set, &q, &zone, found, buf_span(&again), NOW, &work);
}

static bool
kept_at(struct span msg, bool tcp, uint32_t now)
{
	struct rendered_question q;

	buf_reset(&out);
	if (!rendered_read(&table, msg, tcp, &q))
		return false;
	struct rendered_set *of = rendered_write(&table, &q, &rng, now, &out);
	ck_assert(of == NULL || of == &set || of == &other);
	return of != NULL;
}

static bool
kept(struct span msg, bool tcp)
{
	return kept_at(msg, tcp, NOW);
}

static int
compare(const void *a, const void *b)
{
	return memcmp(a, b, 16);
}

/* The same but for the order of records of 16 bytes. */
static void
same_but_order(struct span a, struct span b, size_t records_at)
{
	unsigned n = (unsigned)a.p[6] << 8 | a.p[7];

	ck_assert_uint_eq(a.len, b.len);
	uint8_t *x = arena_alloc(&arena, a.len), *y = arena_alloc(&arena, b.len);
	memcpy(x, a.p, a.len);
	memcpy(y, b.p, b.len);
	ck_assert_uint_le(records_at + n * 16u, a.len);
	qsort(x + records_at, n, 16, compare);
	qsort(y + records_at, n, 16, compare);
	ck_assert_mem_eq(x, y, a.len);
}

/* -- what is the same -- */

START_TEST(one_answer)
{
	struct dns_found found = { .status = DNS_FOUND, .datacenter = span_str("dc1"), .instances = many(1, 1), .count = 1 };
	static const struct { const char *name; uint16_t type, edns; } cases[] = {
		{ "web.service.consul", DNS_A, 0 }, { "web.service.consul", DNS_A, 1232 },
		{ "web.service.consul", DNS_SRV, 0 }, { "web.service.consul", DNS_AAAA, 0 },
		{ "web.service.consul", DNS_ANY, 4096 }, { "node-0.node.consul", DNS_A, 0 },
		{ "node-0.node.consul", DNS_TXT, 0 },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (unsigned tcp = 0; tcp < 2; tcp++) {
			ck_assert(!kept(question(cases[i].name, cases[i].type, cases[i].edns, SPAN_NONE), tcp));
			keep(question(cases[i].name, cases[i].type, cases[i].edns, SPAN_NONE), tcp, &found, i);
			for (unsigned n = 0; n < 40; n++) {
				struct span q = question(cases[i].name, cases[i].type, cases[i].edns, SPAN_NONE);

				answer(q, tcp, &found, n, &again);
				ck_assert_msg(kept(q, tcp), "%u", i);
				ck_assert_uint_eq(out.len, again.len);
				ck_assert_mem_eq(out.data, again.data, out.len);
			}
		}
}
END_TEST

START_TEST(lists_of_addresses)
{
	static const unsigned sizes[] = { 2, 3, 4, 10, 100, 1000 };

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (unsigned edns = 0; edns <= 4096; edns += 1024) {
			struct dns_found found = { .status = DNS_FOUND, .datacenter = span_str("dc1"),
			    .instances = many(sizes[i], sizes[i]), .count = sizes[i] };
			struct span q = question("web.service.consul", DNS_A, (uint16_t)edns, SPAN_NONE);

			keep(q, false, &found, i);
			for (unsigned n = 0; n < 20; n++) {
				q = question("wEb.service.Consul", DNS_A, (uint16_t)edns, SPAN_NONE);
				answer(q, false, &found, n, &again);
				ck_assert(kept(q, false));
				ck_assert_uint_eq(out.len, again.len);
				if (sizes[i] <= 3)
					same_but_order(buf_span(&out), buf_span(&again), 12 + 20 + 4);
				else
					ck_assert_mem_eq(out.data, again.data, 12 + 20 + 4 + 12);
			}
			rendered_drop(&table, &set);
		}
}
END_TEST

/* Each instance is first as often as others, and each address only once. */
START_TEST(order_is_fair)
{
	struct dns_found found = { .status = DNS_FOUND, .datacenter = span_str("dc1"), .count = 8 };
	struct dns_instance *v = many(8, 4);
	unsigned first[5] = { 0 }, pairs[5][5] = { { 0 } };

	for (unsigned i = 4; i < 8; i++)
		v[i].address = v[0].address;		/* five instances of one address, and three others */
	found.instances = v;
	keep(question("web.service.consul", DNS_A, 0, SPAN_NONE), false, &found, 1);
	for (unsigned n = 0; n < 8000; n++) {
		const uint8_t *p;
		unsigned seen = 0;

		ck_assert(kept(question("web.service.consul", DNS_A, 0, SPAN_NONE), false));
		ck_assert_uint_eq(out.data[7], 3);
		p = out.data + 12 + 20 + 4;
		for (unsigned i = 0; i < 3; i++)
			seen |= 1u << p[i * 16 + 15];
		ck_assert_int_eq(__builtin_popcount(seen), 3);
		first[p[15]]++;
		pairs[p[15]][p[31]]++;
	}
	ck_assert(first[1] > 4700 && first[1] < 5300);
	for (unsigned i = 2; i < 5; i++)
		ck_assert(first[i] > 850 && first[i] < 1150);
	for (unsigned i = 2; i < 5; i++)
		ck_assert(pairs[1][i] > 1400 && pairs[1][i] < 1950);
}
END_TEST

/* Targets have names: whole orders are kept, each for a few questions. */
START_TEST(orders)
{
	struct dns_found found = { .status = DNS_FOUND, .datacenter = span_str("dc1"), .instances = many(10, 10), .count = 10 };
	unsigned first[10] = { 0 }, made = 0;

	for (unsigned n = 0; n < 20000; n++) {
		struct span q = question("web.service.consul", DNS_SRV, 0, SPAN_NONE);

		if (!kept(q, false)) {
			keep(q, false, &found, n);
			made++;
			buf_reset(&out);
			buf_putspan(&out, buf_span(&again));
		}
		ck_assert_mem_eq(out.data, q.p, 2);
		ck_assert_uint_eq(out.data[7], 3);
		first[out.data[12 + 20 + 4 + 17] - 80]++;		/* by its port */
	}
	ck_assert_uint_le(made, 20000 / 3);
	for (unsigned i = 0; i < 10; i++)
		ck_assert_msg(first[i] > 1600 && first[i] < 2400, "%u", first[i]);
	ck_assert(!kept(question("web.SERVICE.consul", DNS_SRV, 0, SPAN_NONE), false));
}
END_TEST

/* -- what is not -- */

START_TEST(other_questions)
{
	struct dns_found found = { .status = DNS_FOUND, .datacenter = span_str("dc1"), .instances = many(3, 3), .count = 3 };
	struct span q = question("web.service.consul", DNS_A, 1232, span_of("\0\12\0\10cookies!", 12));
	static const uint8_t subnet[] = { 0, 8, 0, 7, 0, 1, 24, 0, 192, 0, 2 };

	keep(q, false, &found, 1);
	ck_assert(kept(q, false));
	ck_assert(!kept(q, true));
	ck_assert(kept(question("web.service.consul", DNS_A, 1232, SPAN_NONE), false));
	ck_assert(!kept(question("web.service.consul", DNS_A, 1233, SPAN_NONE), false));
	ck_assert(!kept(question("web.service.consul", DNS_A, 0, SPAN_NONE), false));
	ck_assert(!kept(question("web.service.consul", DNS_AAAA, 1232, SPAN_NONE), false));
	ck_assert(!kept(question("webb.service.consul", DNS_A, 1232, SPAN_NONE), false));
	ck_assert(!kept(question("web.service.consul", DNS_A, 1232, span_of(subnet, sizeof(subnet))), false));
	/* No cut of it, and none with a bit turned, is taken for more than it is. */
	for (size_t n = 0; n < q.len; n++)
		ck_assert(!kept(arena_copy(&arena, span_of(q.p, n)), false));
	for (size_t bit = 0; bit < q.len * 8; bit++) {
		struct dns_query slow;
		enum dns_rcode rcode;
		uint8_t *bytes = arena_alloc(&arena, q.len);

		memcpy(bytes, q.p, q.len);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (!kept(span_of(bytes, q.len), false))
			continue;
		ck_assert_int_eq(dns_query_read(span_of(bytes, q.len), &slow, &rcode), DNS_SERVE);
		answer(span_of(bytes, q.len), false, &found, bit, &again);
		same_but_order(buf_span(&out), buf_span(&again), 12 + 20 + 4);
	}
}
END_TEST

START_TEST(changes)
{
	struct dns_found found = { .status = DNS_FOUND, .datacenter = span_str("dc1"), .instances = many(3, 3), .count = 3 };
	struct span a = question("web.service.consul", DNS_A, 0, SPAN_NONE);
	struct span aaaa = question("web.service.consul", DNS_AAAA, 0, SPAN_NONE);

	keep(a, false, &found, 1);
	keep(aaaa, false, &found, 1);
	ck_assert(kept(a, false) && kept(aaaa, false));
	/* The serial of the SOA is the time. */
	ck_assert(kept_at(a, false, NOW + 1) && !kept_at(aaaa, false, NOW + 1));
	rendered_drop(&table, &other);
	ck_assert(kept(a, false));
	rendered_drop(&table, &set);
	ck_assert(!kept(a, false) && !kept(aaaa, false));
	keep(a, false, &found, 1);
	rendered_drop_all(&table);
	ck_assert(!kept(a, false));
	ck_assert_uint_eq(table.bytes, 0);
	ck_assert_uint_eq(table.count, 0);
}
END_TEST

/* What is used stays, and the bound is kept. */
START_TEST(bounded)
{
	struct dns_found found = { .status = DNS_FOUND, .datacenter = span_str("dc1"), .instances = many(10, 10), .count = 10 };
	struct span used = question("used.service.consul", DNS_A, 0, SPAN_NONE);

	keep(used, false, &found, 1);
	ck_assert_uint_lt(table.bytes, 1024);		/* a service of ten instances is cheap */
	for (unsigned i = 0; i < 10000; i++) {
		char name[64];

		snprintf(name, sizeof(name), "web%u.service.consul", i);
		keep(question(name, i % 2 == 0 ? DNS_A : DNS_SRV, 0, SPAN_NONE), i % 3 == 0, &found, i);
		ck_assert_uint_le(table.bytes, table.bytes_max);
		ck_assert(kept(used, false));
		arena_reset(&arena);
		found.instances = many(10, 10);
		used = question("used.service.consul", DNS_A, 0, SPAN_NONE);
	}
	ck_assert_uint_gt(table.count, 500);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("dns_rendered");
	TCase *t = tcase_create("pure");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, one_answer);
	tcase_add_test(t, lists_of_addresses);
	tcase_add_test(t, order_is_fair);
	tcase_add_test(t, orders);
	tcase_add_test(t, other_questions);
	tcase_add_test(t, changes);
	tcase_add_test(t, bounded);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
