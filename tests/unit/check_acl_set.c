/* Sets of rules: which rule decides, what several policies mean together, questions about many names at once. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/acl/set.h"

#define POLICIES_MAX 8

/* The set of up to POLICIES_MAX texts, NULL behind the last one. */
static struct acl_set *
set_of(bool default_allow, const char *const *texts)
{
	struct acl_rules *lists[POLICIES_MAX] = { NULL };
	struct buf why = BUF_INIT(4096);
	struct acl_set *set;
	uint32_t n = 0;

	for (; texts[n] != NULL; n++)
		ck_assert_msg(acl_rules_parse(span_str(texts[n]), &lists[n], &why) == TV_OK, "%s", buf_cstr(&why));
	ck_assert_int_eq(acl_set_new((const struct acl_rules *const *)lists, n, default_allow, &set), TV_OK);
	while (n > 0)
		acl_rules_free(lists[--n]);
	buf_done(&why);
	return set;
}

#define SET(allow, ...) set_of(allow, (const char *const[]){ __VA_ARGS__ __VA_OPT__(,) NULL })

static void
access_is(const struct acl_set *set, enum acl_resource r, const char *name, enum acl_access access)
{
	enum acl_access is = acl_set_access(set, r, span_str(name));
	struct acl_reason why;

	ck_assert_msg(is == access, "%s \"%s\": %s", acl_resource_name(r), name, acl_access_name(is));
	acl_set_explain(set, r, span_str(name), &why);
	ck_assert_int_eq(why.access, access);
	for (enum acl_access need = ACL_READ; need <= ACL_WRITE; need++)
		ck_assert_int_eq(acl_set_allows(set, r, span_str(name), need), access >= need);
}

START_TEST(test_nothing)
{
	struct acl_set *deny = SET(false), *allow = SET(true);
	struct acl_reason why;

	for (enum acl_resource r = 0; r < ACL_RESOURCES; r++) {
		enum acl_access most = r == ACL_ACL ? ACL_DENY : ACL_WRITE;

		access_is(deny, r, "x", ACL_DENY);
		access_is(deny, r, "", ACL_DENY);
		access_is(allow, r, "x", most);
		access_is(acl_set_management(), r, "x", ACL_WRITE);
		ck_assert(!acl_set_writes_below(deny, r, span_str("")));
		ck_assert(!acl_set_allows_any(deny, r, ACL_READ) && !acl_set_allows_all(deny, r, ACL_READ));
		ck_assert_int_eq(acl_set_writes_below(allow, r, span_str("x")), r != ACL_ACL);
		ck_assert_int_eq(acl_set_allows_any(allow, r, ACL_WRITE), r != ACL_ACL);
		ck_assert_int_eq(acl_set_allows_all(allow, r, ACL_WRITE), r != ACL_ACL);
		ck_assert(acl_set_writes_below(acl_set_management(), r, span_str("x")));
		ck_assert(acl_set_allows_all(acl_set_management(), r, ACL_WRITE));
	}
	acl_set_explain(deny, ACL_KEY, span_str("x"), &why);
	ck_assert_int_eq(why.kind, ACL_BY_DEFAULT);
	acl_set_explain(acl_set_management(), ACL_ACL, SPAN_NONE, &why);
	ck_assert_int_eq(why.kind, ACL_BY_MANAGEMENT);
	acl_set_free(deny);
	acl_set_free(allow);
	acl_set_free(NULL);
}
END_TEST

START_TEST(test_exact_before_longest_prefix)
{
	struct acl_set *set = SET(false, "key_prefix \"a\" { policy = \"read\" }\n"
	    "key_prefix \"a/b/\" { policy = \"write\" }\nkey \"a/b/c\" { policy = \"deny\" }\nkey \"a/b\" { policy = "
	    "\"list\" }\n"
	    "key_prefix \"a/b/c\" { policy = \"list\" }\nkey \"\" { policy = \"write\" }");

	access_is(set, ACL_KEY, "", ACL_WRITE);
	access_is(set, ACL_KEY, "A", ACL_DENY);
	access_is(set, ACL_KEY, "a", ACL_READ);
	access_is(set, ACL_KEY, "ab", ACL_READ);
	access_is(set, ACL_KEY, "a/", ACL_READ);
	access_is(set, ACL_KEY, "a/b", ACL_LIST);
	access_is(set, ACL_KEY, "a/b/", ACL_WRITE);
	access_is(set, ACL_KEY, "a/b/b", ACL_WRITE);
	access_is(set, ACL_KEY, "a/b/c", ACL_DENY);
	access_is(set, ACL_KEY, "a/b/c/", ACL_LIST);
	access_is(set, ACL_KEY, "a/b/d", ACL_WRITE);
	access_is(set, ACL_KEY, "a0", ACL_READ);
	access_is(set, ACL_KEY, "b", ACL_DENY);
	access_is(set, ACL_NODE, "a", ACL_DENY);
	acl_set_free(set);
}
END_TEST

/* As recorded: acl/kv-deny-wins; list counts for less than write. */
START_TEST(test_policies_merge)
{
	struct acl_set *set = SET(true,
	    "key_prefix \"\" { policy = \"write\" }\nkey \"l\" { policy = \"list\" }\noperator = \"read\"",
	    "key_prefix \"\" { policy = \"deny\" }\nkey \"l\" { policy = \"read\" }\noperator = \"write\"\nacl = "
	    "\"read\"",
	    "key_prefix \"\" { policy = \"write\" }\nkey \"w\" { policy = \"list\" }\nkey \"w\" { policy = \"write\" "
	    "}");
	struct acl_reason why;

	access_is(set, ACL_KEY, "x", ACL_DENY);
	access_is(set, ACL_KEY, "l", ACL_LIST);
	access_is(set, ACL_KEY, "w", ACL_WRITE);
	access_is(set, ACL_OPERATOR, "whatever", ACL_WRITE);
	access_is(set, ACL_ACL, "", ACL_READ);
	access_is(set, ACL_KEYRING, "", ACL_WRITE);
	acl_set_explain(set, ACL_KEY, span_str("x"), &why);
	ck_assert(why.kind == ACL_BY_RULE && why.policy == 1 && why.line == 1 && why.prefix && why.resource == ACL_KEY);
	ck_assert_uint_eq(why.name.len, 0);
	acl_set_explain(set, ACL_KEY, span_str("l"), &why);
	ck_assert(why.policy == 0 && why.line == 2 && !why.prefix && span_eqs(why.name, "l"));
	acl_set_explain(set, ACL_OPERATOR, SPAN_NONE, &why);
	ck_assert(why.policy == 1 && why.line == 3);
	acl_set_explain(set, ACL_KEYRING, SPAN_NONE, &why);
	ck_assert_int_eq(why.kind, ACL_BY_DEFAULT);
	acl_set_free(set);
}
END_TEST

START_TEST(test_operator_covers_mesh_and_peering)
{
	struct acl_set *set = SET(false, "operator = \"read\"", "{\"mesh\":\"write\",\"node_prefix\":{\"\":{\"policy\":\"read\"}}}");
	struct acl_set *deny = SET(true, "operator = \"write\"\npeering = \"deny\"\nMesh = \"write\"\nmesh = \"read\"");
	struct acl_reason why;

	access_is(set, ACL_MESH, "", ACL_WRITE);
	access_is(set, ACL_PEERING, "", ACL_READ);
	access_is(set, ACL_OPERATOR, "", ACL_READ);
	acl_set_explain(set, ACL_PEERING, SPAN_NONE, &why);
	ck_assert(why.kind == ACL_BY_RULE && why.resource == ACL_OPERATOR && why.policy == 0);
	acl_set_explain(set, ACL_MESH, SPAN_NONE, &why);
	ck_assert(why.kind == ACL_BY_RULE && why.resource == ACL_MESH && why.policy == 1);
	ck_assert(acl_set_allows_any(set, ACL_PEERING, ACL_READ) && !acl_set_allows_all(set, ACL_PEERING, ACL_WRITE));
	access_is(deny, ACL_PEERING, "", ACL_DENY);
	access_is(deny, ACL_MESH, "", ACL_READ);
	acl_set_free(set);
	acl_set_free(deny);
}
END_TEST

START_TEST(test_intentions)
{
	struct acl_set *set = SET(false, "service \"r\" { policy = \"read\" }\nservice \"w\" { policy = \"write\" }\n"
	    "service \"d\" { policy = \"deny\" }\nservice \"dr\" { policy = \"deny\" intentions = \"read\" }\n"
	    "service_prefix \"p\" { policy = \"read\" intentions = \"write\" }\nservice \"m\" { policy = \"write\" "
	    "intentions = \"write\" }",
	    "service \"m\" { policy = \"deny\" }\nservice \"w\" { policy = \"read\" }\nservice_prefix \"p\" { policy = "
	    "\"write\" }");
	struct acl_reason why;

	access_is(set, ACL_INTENTION, "r", ACL_READ);
	access_is(set, ACL_INTENTION, "w", ACL_READ);
	access_is(set, ACL_INTENTION, "d", ACL_DENY);
	access_is(set, ACL_INTENTION, "dr", ACL_READ);
	access_is(set, ACL_INTENTION, "px", ACL_WRITE);
	access_is(set, ACL_INTENTION, "x", ACL_DENY);
	/* Each field of a rule prevails by itself. */
	access_is(set, ACL_SERVICE, "m", ACL_DENY);
	access_is(set, ACL_INTENTION, "m", ACL_WRITE);
	access_is(set, ACL_SERVICE, "px", ACL_WRITE);
	acl_set_explain(set, ACL_INTENTION, span_str("px"), &why);
	ck_assert(why.resource == ACL_SERVICE && why.intentions && why.policy == 0 && why.line == 5 && why.prefix);
	acl_set_explain(set, ACL_INTENTION, span_str("w"), &why);
	ck_assert(!why.intentions && why.policy == 0 && why.line == 2);
	/* All names at once. */
	access_is(set, ACL_INTENTION, "*", ACL_READ);
	acl_set_explain(set, ACL_INTENTION, span_str("*"), &why);
	ck_assert_int_eq(why.kind, ACL_BY_ALL_RULES);
	acl_set_free(set);
	set = SET(false, "service_prefix \"\" { policy = \"read\" intentions = \"write\" }");
	access_is(set, ACL_INTENTION, "*", ACL_WRITE);
	acl_set_free(set);
	set = SET(true, "service \"a\" { policy = \"deny\" }");
	access_is(set, ACL_INTENTION, "*", ACL_READ);
	acl_set_free(set);
	set = SET(false, "service \"a\" { policy = \"deny\" }");
	access_is(set, ACL_INTENTION, "*", ACL_DENY);
	access_is(set, ACL_SERVICE, "*", ACL_DENY);
	acl_set_free(set);
}
END_TEST

static void
below_is(const struct acl_set *set, const char *prefix, bool writes)
{
	ck_assert_msg(acl_set_writes_below(set, ACL_KEY, span_str(prefix)) == writes, "below \"%s\"", prefix);
}

/* As recorded: acl/kv-delete-recurse-deny. */
START_TEST(test_writes_below)
{
	struct acl_set *set = SET(false,
	    "key_prefix \"a/\" { policy = \"write\" }\nkey \"a/keep\" { policy = \"read\" }\n"
	    "key_prefix \"a/w\" { policy = \"write\" }\nkey_prefix \"a/x/y\" { policy = \"deny\" }\nkey \"a/x/z\" { "
	    "policy = \"write\" }\n"
	    "key \"b\" { policy = \"write\" }\nkey_prefix \"c\" { policy = \"write\" }\nkey_prefix \"c/list\" { policy "
	    "= \"list\" }");

	below_is(set, "", false);
	below_is(set, "a", false);
	below_is(set, "a/", false);
	below_is(set, "a/a", true);
	below_is(set, "a/keep", false);
	below_is(set, "a/keep/", true);
	below_is(set, "a/w", true);
	below_is(set, "a/x", false);
	below_is(set, "a/x/y/z", false);
	below_is(set, "a/x/z", true);
	below_is(set, "b", false);
	below_is(set, "c", false);
	below_is(set, "c/m", true);
	below_is(set, "d", false);
	acl_set_free(set);
	set = SET(true, "key \"b/c\" { policy = \"read\" }\nkey_prefix \"e\" { policy = \"write\" }");
	below_is(set, "", false);
	below_is(set, "b", false);
	below_is(set, "b/d", true);
	below_is(set, "e", true);
	below_is(set, "z", true);
	acl_set_free(set);
}
END_TEST

START_TEST(test_any_and_all)
{
	struct acl_set *set = SET(false, "key \"a\" { policy = \"list\" }\nnode_prefix \"\" { policy = \"read\" }\n"
	    "session_prefix \"\" { policy = \"write\" }\nsession \"n\" { policy = \"read\" }\nagent \"x\" { policy = "
	    "\"deny\" }\noperator = \"read\"");

	ck_assert(acl_set_allows_any(set, ACL_KEY, ACL_LIST) && !acl_set_allows_any(set, ACL_KEY, ACL_WRITE));
	ck_assert(!acl_set_allows_all(set, ACL_KEY, ACL_READ));
	ck_assert(acl_set_allows_all(set, ACL_NODE, ACL_READ) && !acl_set_allows_any(set, ACL_NODE, ACL_WRITE));
	ck_assert(acl_set_allows_all(set, ACL_SESSION, ACL_READ) && !acl_set_allows_all(set, ACL_SESSION, ACL_WRITE));
	ck_assert(acl_set_allows_any(set, ACL_SESSION, ACL_WRITE));
	ck_assert(!acl_set_allows_any(set, ACL_AGENT, ACL_READ));
	ck_assert(acl_set_allows_all(set, ACL_OPERATOR, ACL_READ) && !acl_set_allows_any(set, ACL_OPERATOR, ACL_WRITE));
	acl_set_free(set);
	set = SET(true,
	    "agent \"x\" { policy = \"deny\" }\nkey_prefix \"\" { policy = \"deny\" }\nevent \"e\" { policy = \"read\" "
	    "}");
	ck_assert(acl_set_allows_any(set, ACL_AGENT, ACL_WRITE) && !acl_set_allows_all(set, ACL_AGENT, ACL_READ));
	ck_assert(!acl_set_allows_any(set, ACL_KEY, ACL_READ));
	ck_assert(acl_set_allows_all(set, ACL_EVENT, ACL_READ) && !acl_set_allows_all(set, ACL_EVENT, ACL_WRITE));
	acl_set_free(set);
}
END_TEST

/* Names that all begin each other, as deep as a text allows, and a name that leaves them at each place. */
START_TEST(test_long_ways_up)
{
	static const char *const accesses[] = { "deny", "read", "write" };
	const enum acl_access values[] = { ACL_DENY, ACL_READ, ACL_WRITE };
	struct buf text = BUF_INIT(ACL_RULES_TEXT_MAX), why = BUF_INIT(4096);
	enum { DEPTH = 600 };
	char name[DEPTH + 2];
	struct acl_rules *rules;
	struct acl_set *set;

	memset(name, 'a', sizeof(name));
	for (int i = 0; i < DEPTH; i++)
		buf_printf(&text, "key_prefix \"%.*s\"{policy=\"%s\"}\n", i, name, accesses[i % 3]);
	ck_assert_msg(acl_rules_parse(buf_span(&text), &rules, &why) == TV_OK, "%s", buf_cstr(&why));
	ck_assert_int_eq(acl_set_new((const struct acl_rules *const[]){ rules }, 1, false, &set), TV_OK);
	ck_assert_uint_ge(acl_set_bytes(set), DEPTH * DEPTH / 2);
	for (int i = 0; i < DEPTH; i++) {
		struct acl_reason reason;

		name[i] = 'b';
		ck_assert_int_eq(acl_set_access(set, ACL_KEY, span_of(name, (size_t)i + 1)), values[i % 3]);
		acl_set_explain(set, ACL_KEY, span_of(name, DEPTH + 1), &reason);
		ck_assert_uint_eq(reason.line, (unsigned)i + 1);
		name[i] = 'a';
	}
	acl_rules_free(rules);
	acl_set_free(set);
	buf_done(&text);
	buf_done(&why);
}
END_TEST

START_TEST(test_bounds)
{
	struct buf text = BUF_INIT(ACL_RULES_TEXT_MAX), why = BUF_INIT(4096);
	const struct acl_rules *lists[ACL_SET_RULES_MAX / ACL_RULES_MAX + 1];
	struct acl_rules *rules;
	struct acl_set *set;

	for (unsigned i = 0; i < ACL_RULES_MAX; i++)
		buf_printf(&text, "key k%u{policy=\"read\"}\n", i);
	ck_assert_int_eq(acl_rules_parse(buf_span(&text), &rules, &why), TV_OK);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		lists[i] = rules;
	ck_assert_int_eq(acl_set_new(lists, ACL_SET_RULES_MAX / ACL_RULES_MAX + 1, false, &set), TV_ELIMIT);
	ck_assert_ptr_null(set);
	ck_assert_int_eq(acl_set_new(lists, ACL_SET_RULES_MAX / ACL_RULES_MAX, false, &set), TV_OK);
	access_is(set, ACL_KEY, "k8191", ACL_READ);
	access_is(set, ACL_KEY, "k8192", ACL_DENY);
	acl_set_free(set);
	acl_rules_free(rules);
	buf_done(&text);
	buf_done(&why);
}
END_TEST

START_TEST(test_identities)
{
	struct acl_rules *service = acl_identity_service(span_str("web")), *node = acl_identity_node(span_str("n1"));
	struct acl_set *set;

	ck_assert_int_eq(acl_set_new((const struct acl_rules *const[]){ service, node }, 2, false, &set), TV_OK);
	access_is(set, ACL_SERVICE, "web", ACL_WRITE);
	access_is(set, ACL_SERVICE, "web-sidecar-proxy", ACL_WRITE);
	access_is(set, ACL_SERVICE, "web2", ACL_READ);
	access_is(set, ACL_INTENTION, "web", ACL_READ);
	access_is(set, ACL_NODE, "n1", ACL_WRITE);
	access_is(set, ACL_NODE, "n2", ACL_READ);
	access_is(set, ACL_KEY, "web", ACL_DENY);
	acl_set_free(set);
	acl_rules_free(service);
	acl_rules_free(node);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("acl_set");
	TCase *tc = tcase_create("acl_set");
	SRunner *sr;
	int failed;

	tcase_add_test(tc, test_nothing);
	tcase_add_test(tc, test_exact_before_longest_prefix);
	tcase_add_test(tc, test_policies_merge);
	tcase_add_test(tc, test_operator_covers_mesh_and_peering);
	tcase_add_test(tc, test_intentions);
	tcase_add_test(tc, test_writes_below);
	tcase_add_test(tc, test_any_and_all);
	tcase_add_test(tc, test_long_ways_up);
	tcase_add_test(tc, test_bounds);
	tcase_add_test(tc, test_identities);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
