/* The leader's write of a member's entry, and what of the entry it leaves to the member's agent. */
#include <stdio.h>
#include <stdlib.h>

#include "raftd/leader/member_entry.h"
#include "tests/unit/fsm_kit.h"

#define OWN_ID "11111111-2222-4333-8444-555555555555"
#define PAIRS(...) ((struct span[][2]){ __VA_ARGS__ })
#define P(k_, v_) { span_str(k_), span_str(v_) }

static struct kit k;
static struct arena keep;
static struct member_tag tags[2];
static struct member m;
static struct reconcile_stored stored;
static struct member_kept kept;

static void
setup(void)
{
	kit_open(&k);
	keep = ARENA_INIT(MEMBER_ENTRY_TEXTS + 64);
	tags[0] = (struct member_tag){ span_str("id"), span_str(OWN_ID) };
	tags[1] = (struct member_tag){ span_str("role"), span_str("node") };
	m = (struct member){ .name = span_str("c1"), .addr = { 10, 0, 0, 1 }, .addr_len = 4, .status = MEMBER_ALIVE, .tags = tags,
	    .tag_count = 2 };
}

static void
teardown(void)
{
	arena_done(&keep);
	kit_close(&k);
}

static void
look(void)
{
	ck_assert_int_eq(member_entry_look(k.f, &m, &keep, &stored, &kept), TV_OK);
}

/* As the leader would. */
static void
write_alive(void)
{
	struct member_entry e;

	member_entry_make(&m, "dc1", true, &kept, &e);
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &e.args));
}

/* As the agent would. */
static void
agent_writes(struct span (*tagged)[2], uint32_t tagged_n, struct span (*meta)[2], uint32_t meta_n)
{
	struct catalog_register q = { .ID = span_str(OWN_ID), .Node = span_str("c1"), .Address = span_str("10.0.0.1"),
	    .TaggedAddresses = { tagged, tagged_n, true }, .NodeMeta = { meta, meta_n, true } };

	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
}

static const char *
node_shown(void)
{
	struct catalog_read q = { .Name = span_str("c1") };
	const char *json;

	ck_assert_uint_eq(kit_read(&k, OP_CATALOG_NODE, &q, &json), 1);
	return json;
}

static void
shows(const char *part)
{
	const char *all = node_shown();

	ck_assert_msg(strstr(all, part) != NULL, "%s lacks %s", all, part);
}

START_TEST(a_new_member)
{
	look();
	ck_assert(!stored.named.known && !kept.whole && !kept.tagged.set && !kept.meta.set);
	write_alive();
	shows("\"TaggedAddresses\":{\"lan\":\"10.0.0.1\",\"lan_ipv4\":\"10.0.0.1\",\"wan\":\"10.0.0.1\",\"wan_ipv4\":\"10.0.0.1\"},"
	    "\"Meta\":{\"consul-network-segment\":\"\"}");
	look();
	ck_assert(stored.same && stored.passing && kept.whole);
}
END_TEST

/* The leader finds nothing to mend in it, and a write of its health leaves it alone. */
START_TEST(what_the_agent_says_stays)
{
	look();
	write_alive();
	agent_writes(PAIRS(P("lan", "10.0.0.1"), P("wan", "203.0.113.7"), P("vpn", "10.9.0.1")), 3,
	    PAIRS(P("consul-network-segment", ""), P("rack", "r1")), 2);
	look();
	ck_assert(stored.same && kept.whole);
	kit_check(&k, "c1", "serfHealth", NULL, "critical");
	look();
	ck_assert(!stored.passing && kept.whole);
	write_alive();
	shows("\"vpn\":\"10.9.0.1\"");
	shows("\"rack\":\"r1\"");
	look();
	ck_assert(stored.same && stored.passing);
}
END_TEST

/* What was its address goes; what is another one stays. */
START_TEST(another_address)
{
	look();
	write_alive();
	agent_writes(PAIRS(P("lan", "10.0.0.1"), P("lan_ipv4", "10.0.0.1"), P("wan", "203.0.113.7")), 3,
	    PAIRS(P("consul-network-segment", ""), P("rack", "r1")), 2);
	m.addr[3] = 2;
	look();
	ck_assert(!stored.same && !kept.whole);
	write_alive();
	shows("\"Address\":\"10.0.0.2\"");
	shows("\"TaggedAddresses\":{\"wan\":\"203.0.113.7\",\"lan\":\"10.0.0.2\",\"lan_ipv4\":\"10.0.0.2\",\"wan_ipv4\":\"10.0.0.2\"},"
	    "\"Meta\":{\"consul-network-segment\":\"\",\"rack\":\"r1\"}");
	look();
	ck_assert(stored.same);
}
END_TEST

/* Somebody's registration without what each node has. */
START_TEST(what_is_missing_is_added)
{
	agent_writes(PAIRS(P("vpn", "10.9.0.1")), 1, PAIRS(P("rack", "r1")), 1);
	look();
	ck_assert(!stored.same && !kept.whole);
	write_alive();
	shows("\"TaggedAddresses\":{\"vpn\":\"10.9.0.1\",\"lan\":\"10.0.0.1\"");
	shows("\"Meta\":{\"rack\":\"r1\",\"consul-network-segment\":\"\"}");
	look();
	ck_assert(stored.same);
}
END_TEST

/* Another node's under this name is nothing to keep; nor is more than an agent could have configured. */
START_TEST(what_is_not_kept)
{
	struct span (*many)[2] = calloc(1000, sizeof(*many));
	static char names[1000][8];

	agent_writes(PAIRS(P("vpn", "10.9.0.1")), 1, PAIRS(P("rack", "r1")), 1);
	tags[0].value = span_str("22222222-2222-4333-8444-555555555555");
	look();
	ck_assert(!stored.same && !kept.whole && !kept.tagged.set && !kept.meta.set);
	tags[0].value = span_str(OWN_ID);
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(names[i], sizeof(names[i]), "k%u", i);
		many[i][0] = span_str(names[i]);
		many[i][1] = span_str("v");
	}
	agent_writes(PAIRS(P("vpn", "10.9.0.1")), 1, many, 1000);
	look();
	ck_assert(!stored.same && kept.tagged.set && !kept.meta.set);
	write_alive();
	look();
	ck_assert(stored.same);
	shows("\"vpn\":\"10.9.0.1\"");
	free(many);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("member_entry");
	TCase *tc = tcase_create("entry");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, a_new_member);
	tcase_add_test(tc, what_the_agent_says_stays);
	tcase_add_test(tc, another_address);
	tcase_add_test(tc, what_is_missing_is_added);
	tcase_add_test(tc, what_is_not_kept);
	suite_add_tcase(s, tc);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
