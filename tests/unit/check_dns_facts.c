/* Facts that the process "rpcd: dns" keeps. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "rpcd/dns/facts.h"
#include "rpcd/dns/message.h"

#define NOW MONO_S(1000)

static struct facts table;
static struct arena arena = { NULL, 0, 1 << 20 };

static uint64_t
hash(const void *bytes, size_t n)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
	return h;
}

static void
begin(size_t bytes_max, unsigned entries_max)
{
	table = (struct facts){ .conf = { .bytes_max = bytes_max, .entries_max = entries_max, .hash = hash } };
	facts_open(&table);
}

static struct dns_lookup
service(const char *name)
{
	return (struct dns_lookup){ .kind = DNS_KIND_SERVICE, .name = span_str(name) };
}

static struct fact *
fact_of(const struct dns_lookup *key, const struct msg_dns_found *found)
{
	struct buf body = BUF_INIT(1 << 20);

	schema_pack(&msg_dns_found_schema, found, &body);
	ck_assert(!body.failed);
	struct fact *f = fact_new(&table, key, buf_span(&body));
	buf_done(&body);			/* it is a copy */
	return f;
}

static struct dns_found
found_of(const struct fact *f)
{
	struct dns_found found;

	arena_reset(&arena);
	ck_assert(dns_found_read(f->body, &arena, &found));
	return found;
}

/* Instances on nodes "a", "b", ..., each with one pair of metadata. */
static struct fact *
fact(const char *name, unsigned count)
{
	static struct span meta[1][2] = { { { (const uint8_t *)"rack", 4 }, { (const uint8_t *)"7", 1 } } };
	struct dns_instance v[26] = { { .port = 0 } };
	struct dns_lookup key = service(name);

	for (unsigned i = 0; i < count; i++) {
		char node[2] = { (char)('a' + i), 0 }, *copy = strdup(node);

		v[i] = (struct dns_instance){ .node = span_of(copy, 1), .address = span_str("10.0.0.1"),
		    .meta = { meta, 1, true }, .port = 80 + i, .weight = 1 };
	}
	struct fact *f = fact_of(&key, &(struct msg_dns_found){ .status = DNS_FOUND, .datacenter = span_str("dc1"),
	    .instances = { v, count, true } });
	for (unsigned i = 0; i < count; i++)
		free((void *)v[i].node.p);	/* it is a copy */
	ck_assert_ptr_nonnull(f);
	return f;
}

static bool
put(const char *name, uint64_t id, struct mono until)
{
	struct fact *f = fact(name, 2);
	bool kept = facts_put(&table, f, id, until);

	fact_release(f);
	return kept;
}

static const struct fact *
find(const char *name, struct mono now)
{
	struct dns_lookup key = service(name);

	return facts_find(&table, now, &key);
}

/* The ids that were dropped, as a sum. */
static uint64_t
dropped(void)
{
	uint64_t sum = 0, id;

	while (facts_next_dropped(&table, &id))
		sum += id;
	return sum;
}

START_TEST(test_kept_and_ended)
{
	begin(1 << 20, 100);
	ck_assert_ptr_null(find("web", NOW));
	ck_assert(put("web", 7, MONO_NEVER));
	const struct fact *f = find("web", NOW);
	ck_assert_ptr_nonnull(f);
	struct dns_found found = found_of(f);
	ck_assert_uint_eq(found.count, 2);
	ck_assert(span_eqs(found.instances[1].node, "b") && found.instances[1].port == 81);
	ck_assert(span_eqs(found.instances[1].meta.kv[0][0], "rack") && span_eqs(found.datacenter, "dc1"));
	ck_assert_ptr_eq(facts_of(&table, 7), f);
	ck_assert_ptr_null(facts_of(&table, 0));
	struct fact *three = fact("web", 3);			/* anew */
	ck_assert(facts_put(&table, three, 7, MONO_NEVER));
	fact_release(three);
	ck_assert_uint_eq(table.by_key.count, 1);
	ck_assert_uint_eq(dropped(), 0);
	ck_assert_uint_eq(found_of(find("web", NOW)).count, 3);
	ck_assert(put("web", 8, MONO_NEVER));			/* another follow: the first one is not wanted */
	ck_assert_uint_eq(dropped(), 7);
	ck_assert_ptr_null(facts_of(&table, 7));
	facts_drop(&table, facts_of(&table, 8), false);
	ck_assert_ptr_null(find("web", NOW));
	ck_assert_uint_eq(dropped(), 0);
	ck_assert_uint_eq(table.bytes, 0);
	facts_close(&table);
}
END_TEST

START_TEST(test_time)
{
	begin(1 << 20, 100);
	ck_assert(put("web", 7, mono_add(NOW, MONO_S(1))));
	ck_assert(put("db", 0, mono_add(NOW, MONO_S(1))));
	ck_assert_ptr_nonnull(find("web", NOW));
	ck_assert_ptr_null(find("web", mono_add(NOW, MONO_S(1))));
	ck_assert_ptr_null(find("db", mono_add(NOW, MONO_S(2))));
	ck_assert_uint_eq(dropped(), 7);			/* nobody follows the other one */
	ck_assert_uint_eq(table.by_key.count, 0);
	facts_close(&table);
}
END_TEST

/* What was used goes last; what goes is told; who holds one still reads it. */
START_TEST(test_bounds)
{
	struct fact *held;
	char name[16];

	begin(1 << 20, 10);
	for (unsigned i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		ck_assert(put(name, i + 1, MONO_NEVER));
	}
	ck_assert_ptr_nonnull(find("s0", NOW));
	held = (struct fact *)facts_of(&table, 2);
	held->holders++;
	ck_assert(put("more", 11, MONO_NEVER));
	ck_assert_uint_eq(table.by_key.count, 10);
	ck_assert_uint_eq(table.evicted, 1);
	ck_assert_ptr_null(find("s1", NOW));
	ck_assert_ptr_nonnull(find("s0", NOW));
	ck_assert_uint_eq(dropped(), 2);
	ck_assert(span_eqs(held->key.name, "s1"));
	fact_release(held);
	/* By bytes too; and one that is large by itself has no place, nor what was there before. */
	facts_limit(&table, table.bytes / 2);
	ck_assert_uint_le(table.bytes, table.conf.bytes_max);
	ck_assert_uint_gt(table.by_key.count, 2);
	ck_assert_ptr_nonnull(find("s0", NOW));
	(void)dropped();
	struct fact *large = fact("s0", 26);
	ck_assert(!facts_put(&table, large, 1, MONO_NEVER));
	fact_release(large);
	ck_assert_ptr_null(find("s0", NOW));
	facts_clear(&table);
	ck_assert_uint_eq(table.by_key.count, 0);
	ck_assert_uint_eq(dropped(), 0);
	facts_close(&table);
}
END_TEST

START_TEST(test_used)
{
	uint64_t ids[4];

	begin(1 << 20, 100);
	ck_assert(put("a", 1, MONO_NEVER) && put("b", 2, MONO_NEVER) && put("c", 0, mono_add(NOW, MONO_S(1))));
	ck_assert_uint_eq(facts_take_used(&table, ids, 4), 2);
	ck_assert_uint_eq(facts_take_used(&table, ids, 4), 0);
	ck_assert(put("a", 1, MONO_NEVER));			/* a change is no use */
	ck_assert_uint_eq(facts_take_used(&table, ids, 4), 0);
	ck_assert_ptr_nonnull(find("b", NOW));
	ck_assert_uint_eq(facts_take_used(&table, ids, 4), 1);
	ck_assert_uint_eq(ids[0], 2);
	ck_assert_ptr_nonnull(find("a", NOW));
	ck_assert_ptr_nonnull(find("b", NOW));
	ck_assert_uint_eq(facts_take_used(&table, ids, 1), 1);
	ck_assert_uint_eq(facts_take_used(&table, ids, 1), 1);
	ck_assert_uint_eq(facts_take_used(&table, ids, 1), 0);
	facts_close(&table);
}
END_TEST

START_TEST(test_lists)
{
	static struct span names[5000];
	static char text[5000][12];
	const struct dns_lookup key = { .kind = DNS_KIND_SERVICES };
	struct fact *f;

	begin(1 << 20, 100);
	for (unsigned n = 0; n <= 5000; n = n * 3 + 1) {
		for (unsigned i = 0; i < n; i++) {
			snprintf(text[i], sizeof(text[i]), "name-%u", i);
			names[i] = span_str(text[i]);
		}
		f = fact_of(&key, &(struct msg_dns_found){ .names = { names, n, true } });
		ck_assert_ptr_nonnull(f);
		for (unsigned i = 0; i < n; i++)
			ck_assert(fact_lists(&table, f, names[i]));
		ck_assert(!fact_lists(&table, f, span_str("name-5000")) && !fact_lists(&table, f, span_str("")));
		fact_release(f);
	}
	names[0] = SPAN_NONE;
	f = fact_of(&key, &(struct msg_dns_found){ .names = { names, 1, true } });
	ck_assert(fact_lists(&table, f, span_str("")) && !fact_lists(&table, f, span_str("a")));
	fact_release(f);
	/* What is cut off is no fact, in front of the names and among them. */
	struct buf body = BUF_INIT(1 << 20);
	schema_pack(&msg_dns_found_schema, &(struct msg_dns_found){ .names = { names, 1, true } }, &body);
	ck_assert_ptr_null(fact_new(&table, &key, span_of(body.data, 1)));
	ck_assert_ptr_null(fact_new(&table, &key, span_of(body.data, body.len - 4)));
	buf_done(&body);
	facts_close(&table);
}
END_TEST

/* A service of ten instances with names and addresses of usual length. */
START_TEST(test_size)
{
	struct dns_instance v[10];
	const struct dns_lookup key = service("web-frontend");
	struct fact *f;

	begin(1 << 20, 100);
	for (unsigned i = 0; i < 10; i++)
		v[i] = (struct dns_instance){ .node = span_str("ip-10-21-133-105"), .address = span_str("10.21.133.105"),
		    .service_address = span_str("10.21.133.105"), .port = 8080, .weight = 1 };
	f = fact_of(&key, &(struct msg_dns_found){ .status = DNS_FOUND, .datacenter = span_str("dc1"),
	    .instances = { v, 10, true } });
	ck_assert_uint_lt(f->bytes, 1000);
	fact_release(f);
	facts_close(&table);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("dns_facts");
	TCase *t = tcase_create("dns_facts");
	SRunner *sr;
	int failed;

	tcase_add_test(t, test_kept_and_ended);
	tcase_add_test(t, test_time);
	tcase_add_test(t, test_bounds);
	tcase_add_test(t, test_used);
	tcase_add_test(t, test_lists);
	tcase_add_test(t, test_size);
	suite_add_tcase(s, t);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
