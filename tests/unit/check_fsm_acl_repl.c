/* Copies of another datacenter's policies, roles and global tokens: what is listed, what differs, what is written, and by whom. */
#include <stdio.h>
#include <stdlib.h>

#include "common/record/mpack.h"
#include "raftd/fsm/acl/acl_int.h"
#include "raftd/fsm/table/meta.h"
#include "tests/unit/fsm_kit.h"

#define FIRST "5f8d1a52-0c3b-4f0e-9b8e-6a3c41d7e011"
#define OTHER "5f8d1a52-0c3b-4f0e-9b8e-6a3c41d7e012"
#define ELSEWHERE ACL_PRIMARY_TEXT "\"dc1\""

static struct kit p, s;			/* the primary datacenter, and another one */

static void
setup(void)
{
	kit_open(&s);
	s.primary = "dc1";
	s.uuids = 1u << 20;
	kit_reopen(&s);
	kit_open(&p);
	s.now = p.now;
	ck_assert(kit_bool(&p, OP_ACL_ENABLE, &(struct acl_enable){ .Now = 0 }));
	ck_assert(kit_bool(&s, OP_ACL_ENABLE, &(struct acl_enable){ .Now = 0 }));
}

static void
teardown(void)
{
	kit_close(&p);
	kit_close(&s);
}

/* -- short ways -- */

static void
read_rec(struct kit *k, uint16_t op, const void *rec, void *out)
{
	struct rd in;

	kit_read(k, op, rec, NULL);
	ck_assert_msg(k->ans.err == TV_OK, "%.*s", (int)k->ans.text.len, (const char *)k->ans.text.p);
	in = rd_span_over(arena_copy(&k->a, buf_span(&k->out)));
	memset(out, 0, op_find(op)->answer->size);
	ck_assert_int_eq(schema_unpack(op_find(op)->answer, &in, &k->a, out), TV_OK);
}

static struct span
make_token(struct kit *k, const char *description, bool local, struct span policy)
{
	struct acl_link link = { .ID = policy };
	struct acl_token_set q = { .Token = { .Description = span_str(description), .Local = local,
	    .Policies = { .v = &link, .n = policy.len > 0, .set = true } } };
	struct fsm_result res = kit_apply(k, OP_ACL_TOKEN_SET, &q);
	struct acl_token t = { .AccessorID = SPAN_NONE };
	struct rd in = rd_span_over(res.value);

	ck_assert_msg(res.err == TV_OK, "%.*s", (int)res.text.len, (const char *)res.text.p);
	ck_assert_int_eq(schema_unpack(&acl_token_schema, &in, &k->a, &t), TV_OK);
	return t.AccessorID;
}

static struct span
make_policy(const char *id, const char *name, const char *rules)
{
	struct acl_policy_set q = { .Policy = { .ID = span_str(id), .Name = span_str(name), .Rules = span_str(rules) } };
	struct fsm_result res = kit_apply(&p, OP_ACL_POLICY_SET, &q);
	struct acl_policy out = { .ID = SPAN_NONE };
	struct rd in = rd_span_over(res.value);

	ck_assert_msg(res.err == TV_OK, "%.*s", (int)res.text.len, (const char *)res.text.p);
	ck_assert_int_eq(schema_unpack(&acl_policy_schema, &in, &p.a, &out), TV_OK);
	return out.ID;
}

static struct span
make_role(const char *name, struct span policy)
{
	struct acl_link link = { .ID = policy };
	struct acl_role_set q = { .Role = { .Name = span_str(name), .Policies = { .v = &link, .n = 1, .set = true } } };
	struct fsm_result res = kit_apply(&p, OP_ACL_ROLE_SET, &q);
	struct acl_role out = { .ID = SPAN_NONE };
	struct rd in = rd_span_over(res.value);

	ck_assert_int_eq(res.err, TV_OK);
	ck_assert_int_eq(schema_unpack(&acl_role_schema, &in, &p.a, &out), TV_OK);
	return out.ID;
}

/* One round of one kind, as rpcd does it; how many records it wrote and removed. */
static unsigned
round_of(uint64_t kind, uint64_t since, uint64_t limit)
{
	struct span after = SPAN_NONE;
	unsigned changes = 0;

	for (;;) {
		struct acl_repl_ask ask = { .Kind = kind, .Since = since, .After = after, .Limit = limit };
		struct acl_repl_compare cmp = { .Kind = kind, .Whole = since == 0, .After = after };
		struct acl_repl_page page;
		struct acl_repl_diff diff;
		struct acl_repl_records recs;
		struct acl_repl_ids ids = { .Kind = kind };
		struct acl_repl_apply apply = { .Kind = kind };

		read_rec(&p, OP_ACL_REPL_LIST, &ask, &page);
		ck_assert_uint_le(page.Items.n, limit);
		cmp.Items = page.Items;
		if (page.More)
			cmp.Until = ((const struct acl_repl_item *)page.Items.v)[page.Items.n - 1].ID;
		read_rec(&s, OP_ACL_REPL_DIFF, &cmp, &diff);
		ids.IDs = diff.Fetch;
		read_rec(&p, OP_ACL_REPL_FETCH, &ids, &recs);
		ck_assert_uint_eq(recs.Considered, diff.Fetch.n);
		apply.Policies = recs.Policies;
		apply.Roles = recs.Roles;
		apply.Tokens = recs.Tokens;
		apply.Delete = diff.Delete;
		if (diff.Fetch.n + diff.Delete.n > 0)
			ck_assert(kit_bool(&s, OP_ACL_REPL_APPLY, &apply));
		changes += diff.Fetch.n + diff.Delete.n;
		if (!page.More)
			return changes;
		after = cmp.Until;
	}
}

static unsigned
whole_round(void)
{
	return round_of(ACL_REPL_POLICIES, 0, 7) + round_of(ACL_REPL_ROLES, 0, 7) + round_of(ACL_REPL_TOKENS, 0, 7);
}

static bool
has_token(struct kit *k, struct span id, struct acl_token *t)
{
	struct acl_token_read q = { .AccessorID = id };
	struct rd in;

	if (kit_read(k, OP_ACL_TOKEN_GET, &q, NULL) == 0)
		return false;
	in = rd_span_over(arena_copy(&k->a, buf_span(&k->out)));
	(void)mpr_array(&in);
	memset(t, 0, sizeof(*t));
	ck_assert_int_eq(schema_unpack(&acl_token_schema, &in, &k->a, t), TV_OK);
	return true;
}

static void
same_tokens(struct span id)
{
	struct acl_token a, b;

	ck_assert(has_token(&p, id, &a));
	ck_assert(has_token(&s, id, &b));
	ck_assert(span_eq(a.SecretID, b.SecretID) && span_eq(a.Hash, b.Hash) && span_eq(a.Description, b.Description) &&
	    a.Policies.n == b.Policies.n && a.Roles.n == b.Roles.n && a.Expires == b.Expires && span_eq(a.CreateTime, b.CreateTime));
}

/* -- cases -- */

START_TEST(flows)
{
	struct span policy = make_policy("", "one", "key \"a\" { policy = \"read\" }"), ids[40];
	struct acl_token t;
	unsigned n;

	make_role("role", policy);
	for (n = 0; n < 40; n++)
		ids[n] = make_token(&p, "t", n % 8 == 7, policy);
	ck_assert_uint_eq(whole_round(), 1 + 1 + 35);
	ck_assert_uint_eq(whole_round(), 0);
	for (n = 0; n < 40; n++)
		if (n % 8 == 7)
			ck_assert(!has_token(&s, ids[n], &t));
		else
			same_tokens(ids[n]);
	ck_assert_uint_eq(kit_read(&s, OP_ACL_ROLE_GET, &(struct acl_read){ .Name = span_str("role") }, NULL), 1);
}
END_TEST

START_TEST(changes_and_deletions)
{
	struct span a = make_token(&p, "a", false, SPAN_NONE), b = make_token(&p, "b", false, SPAN_NONE);
	struct span local = make_token(&s, "local", true, SPAN_NONE);
	uint64_t since;
	struct acl_token t;

	whole_round();
	since = fsm_index_of(p.f, FX_ACL_TOKENS);
	ck_assert_int_eq(kit_apply(&p, OP_ACL_TOKEN_SET, &(struct acl_token_set){ .Token = { .AccessorID = a,
	    .Description = span_str("changed") } }).err, TV_OK);
	ck_assert_uint_eq(round_of(ACL_REPL_TOKENS, since, 100), 1);
	same_tokens(a);
	ck_assert(kit_bool(&p, OP_ACL_TOKEN_DELETE, &(struct acl_token_delete){ .AccessorID = b }));
	ck_assert_uint_eq(round_of(ACL_REPL_TOKENS, since, 100), 0);	/* what is gone has no index: the count tells */
	ck_assert_uint_eq(round_of(ACL_REPL_TOKENS, 0, 100), 1);
	ck_assert(!has_token(&s, b, &t));
	ck_assert(has_token(&s, local, &t));
	ck_assert(has_token(&s, span_str(ACL_ANONYMOUS_ID), &t));
}
END_TEST

START_TEST(counted)
{
	struct acl_repl_page page;
	struct acl_repl_diff diff;

	make_token(&p, "a", false, SPAN_NONE);
	make_token(&p, "b", true, SPAN_NONE);
	make_token(&s, "c", true, SPAN_NONE);
	read_rec(&p, OP_ACL_REPL_LIST, &(struct acl_repl_ask){ .Kind = ACL_REPL_TOKENS, .Limit = 1 }, &page);
	ck_assert_uint_eq(page.Count, 2);
	ck_assert_uint_eq(page.Items.n, 1);
	ck_assert(page.More);
	read_rec(&s, OP_ACL_REPL_DIFF, &(struct acl_repl_compare){ .Kind = ACL_REPL_TOKENS }, &diff);
	ck_assert_uint_eq(diff.Count, 1);
}
END_TEST

START_TEST(names_change_hands)
{
	struct span a = make_policy("", "a", ""), b = make_policy("", "b", "");
	const char *json;

	whole_round();
	a = arena_copy(&p.a, a);
	make_policy(arena_cstr(&p.a, a), "c", "");
	make_policy(arena_cstr(&p.a, b), "a", "");
	make_policy(arena_cstr(&p.a, a), "b", "");
	ck_assert_uint_eq(round_of(ACL_REPL_POLICIES, 0, 1), 2);
	ck_assert_uint_eq(kit_read(&s, OP_ACL_POLICY_GET, &(struct acl_read){ .Name = span_str("a") }, &json), 1);
	ck_assert_ptr_nonnull(strstr(json, arena_cstr(&p.a, b)));
	ck_assert_uint_eq(kit_read(&s, OP_ACL_POLICY_GET, &(struct acl_read){ .Name = span_str("b") }, &json), 1);
	ck_assert_ptr_nonnull(strstr(json, arena_cstr(&p.a, a)));
	ck_assert_uint_eq(kit_read(&s, OP_ACL_POLICY_GET, &(struct acl_read){ .Name = span_str("c") }, NULL), 0);
}
END_TEST

START_TEST(expired)
{
	struct acl_token_set q = { .Token = { .Description = span_str("short"), .ExpirationTTL = 60 * KIT_SECOND } };
	struct acl_repl_page page;

	ck_assert_int_eq(kit_apply(&p, OP_ACL_TOKEN_SET, &q).err, TV_OK);
	ck_assert_uint_eq(round_of(ACL_REPL_TOKENS, 0, 100), 1);
	p.now += 61 * KIT_SECOND;
	s.now = p.now;
	ck_assert(fsm_acl_reap_due(s.f, s.now));
	ck_assert(kit_bool(&s, OP_ACL_REAP, &(struct acl_reap){ .Now = 0 }));
	read_rec(&p, OP_ACL_REPL_LIST, &(struct acl_repl_ask){ .Kind = ACL_REPL_TOKENS }, &page);
	ck_assert_uint_eq(page.Count, 1);	/* the anonymous one */
	ck_assert_uint_eq(whole_round(), 0);
}
END_TEST

/* The same id, or the same secret, was given here to a token of this datacenter alone: that stays. */
START_TEST(in_the_way)
{
	struct acl_token_set q = { .Create = true, .Token = { .AccessorID = span_str(FIRST), .SecretID = span_str(OTHER), .Local = true } };
	struct acl_token t;

	ck_assert_int_eq(kit_apply(&s, OP_ACL_TOKEN_SET, &q).err, TV_OK);
	q.Token = (struct acl_token){ .AccessorID = span_str(FIRST), .Description = span_str("of the primary") };
	ck_assert_int_eq(kit_apply(&p, OP_ACL_TOKEN_SET, &q).err, TV_OK);
	ck_assert_uint_eq(whole_round(), 0);
	ck_assert(has_token(&s, span_str(FIRST), &t) && t.Local);
}
END_TEST

START_TEST(written_elsewhere)
{
	struct span local = make_token(&s, "local", true, SPAN_NONE), global = make_token(&p, "global", false, SPAN_NONE);

	whole_round();
	kit_refused(&s, OP_ACL_TOKEN_SET, &(struct acl_token_set){ .Token = { .Description = span_str("x") } }, ELSEWHERE);
	kit_refused(&s, OP_ACL_TOKEN_CLONE, &(struct acl_token_set){ .Source = global }, ELSEWHERE);
	kit_refused(&s, OP_ACL_TOKEN_DELETE, &(struct acl_token_delete){ .AccessorID = global }, ELSEWHERE);
	kit_refused(&s, OP_ACL_TOKEN_DELETE, &(struct acl_token_delete){ .AccessorID = span_str(OTHER) }, ELSEWHERE);
	kit_refused(&s, OP_ACL_POLICY_SET, &(struct acl_policy_set){ .Policy = { .Name = span_str("x") } }, ELSEWHERE);
	kit_refused(&s, OP_ACL_POLICY_DELETE, &(struct acl_id){ .ID = span_str(OTHER) }, ELSEWHERE);
	kit_refused(&s, OP_ACL_ROLE_SET, &(struct acl_role_set){ .Role = { .Name = span_str("x") } }, ELSEWHERE);
	kit_refused(&s, OP_ACL_ROLE_DELETE, &(struct acl_id){ .ID = span_str(OTHER) }, ELSEWHERE);
	ck_assert_int_eq(kit_apply(&s, OP_ACL_TOKEN_CLONE, &(struct acl_token_set){ .Source = local }).err, TV_OK);
	ck_assert(kit_bool(&s, OP_ACL_TOKEN_DELETE, &(struct acl_token_delete){ .AccessorID = local }));
	kit_refused(&p, OP_ACL_REPL_APPLY, &(struct acl_repl_apply){ .Reached = true },
	    "this datacenter copies nothing: acl.primary_datacenter names no other one");
}
END_TEST

static enum tv_err
diff_first(const char *secret)
{
	(void)kit_read(&s, OP_ACL_REPL_DIFF_FIRST, &(struct acl_repl_compare){ .Asker = span_str(secret) }, NULL);
	return s.ans.err;
}

static enum tv_err
apply_first(const char *secret)
{
	return kit_apply(&s, OP_ACL_REPL_APPLY_FIRST, &(struct acl_repl_apply){ .Asker = span_str(secret), .Reached = true }).err;
}

START_TEST(who_came_first)
{
	struct acl_token_set q = { .Create = true, .Token = { .SecretID = span_str(FIRST) } };
	struct acl_token_delete gone = { .AccessorID = SPAN_NONE };
	struct fsm_result res = kit_apply(&p, OP_ACL_TOKEN_SET, &q);
	struct acl_token t = { .AccessorID = SPAN_NONE };
	struct rd in = rd_span_over(res.value);

	ck_assert_int_eq(schema_unpack(&acl_token_schema, &in, &p.a, &t), TV_OK);
	ck_assert_int_eq(diff_first(""), TV_EPERM);
	ck_assert_int_eq(apply_first(""), TV_EINVAL);
	ck_assert_int_eq(diff_first(FIRST), TV_OK);
	ck_assert_int_eq(diff_first(OTHER), TV_OK);
	ck_assert_int_eq(apply_first(FIRST), TV_OK);
	ck_assert_int_eq(diff_first(OTHER), TV_EPERM);
	ck_assert_int_eq(apply_first(OTHER), TV_EPERM);
	ck_assert_int_eq(apply_first(FIRST), TV_OK);
	kit_reopen(&s);
	ck_assert_int_eq(apply_first(OTHER), TV_EPERM);
	whole_round();
	ck_assert_int_eq(apply_first(FIRST), TV_OK);
	/* When it goes, nobody is believed any more. */
	gone.AccessorID = t.AccessorID;
	ck_assert(kit_bool(&p, OP_ACL_TOKEN_DELETE, &gone));
	whole_round();
	ck_assert_int_eq(apply_first(FIRST), TV_EPERM);
	ck_assert_int_eq(diff_first(FIRST), TV_EPERM);
	ck_assert_int_eq(diff_first(OTHER), TV_EPERM);
}
END_TEST

/* Somebody had the right to it: then nobody is believed without. */
START_TEST(right_before_first)
{
	ck_assert_int_eq(kit_apply(&s, OP_ACL_REPL_APPLY, &(struct acl_repl_apply){ .Reached = true }).err, TV_OK);
	ck_assert_int_eq(apply_first(FIRST), TV_EPERM);
	ck_assert_int_eq(diff_first(FIRST), TV_EPERM);
}
END_TEST

START_TEST(position)
{
	struct acl_repl_apply q = { .Reached = true, .Position = { 11, 12, 13, 2 } };
	struct acl_repl_diff diff;
	const char *json;

	ck_assert_uint_eq(kit_read(&p, OP_ACL_REPLICATION, &(struct empty_rec){ 0 }, &json), 1);
	ck_assert_ptr_nonnull(strstr(json, "\"Enabled\":false"));
	ck_assert_ptr_null(strstr(json, "LastErrorMessage"));
	ck_assert_int_eq(kit_apply(&s, OP_ACL_REPL_APPLY, &q).err, TV_OK);
	kit_reopen(&s);
	read_rec(&s, OP_ACL_REPL_DIFF, &(struct acl_repl_compare){ .Kind = ACL_REPL_NONE }, &diff);
	ck_assert_uint_eq(diff.Position.Policies, 11);
	ck_assert_uint_eq(diff.Position.Roles, 12);
	ck_assert_uint_eq(diff.Position.Tokens, 13);
	ck_assert_uint_eq(diff.Position.Floor, 2);
	q = (struct acl_repl_apply){ .Error = span_str("no way") };
	ck_assert_int_eq(kit_apply(&s, OP_ACL_REPL_APPLY, &q).err, TV_OK);
	kit_read(&s, OP_ACL_REPLICATION, &(struct empty_rec){ 0 }, &json);
	ck_assert_ptr_nonnull(strstr(json, "\"Enabled\":true,\"Running\":true,\"SourceDatacenter\":\"dc1\",\"ReplicationType\":\"tokens\","
	    "\"ReplicatedIndex\":11,\"ReplicatedRoleIndex\":12,\"ReplicatedTokenIndex\":13"));
	ck_assert_ptr_nonnull(strstr(json, "no way"));
	s.now += 600 * KIT_SECOND;
	p.now = s.now;
	kit_read(&s, OP_ACL_REPLICATION, &(struct empty_rec){ 0 }, &json);
	ck_assert_ptr_nonnull(strstr(json, "\"Running\":false"));
	/* Of another primary nothing of it counts. */
	s.primary = "dc9";
	kit_reopen(&s);
	read_rec(&s, OP_ACL_REPL_DIFF, &(struct acl_repl_compare){ .Kind = ACL_REPL_NONE }, &diff);
	ck_assert_uint_eq(diff.Position.Tokens, 0);
}
END_TEST

static void
refused_copy(struct acl_token t, const char *text)
{
	kit_refused(&s, OP_ACL_REPL_APPLY, &(struct acl_repl_apply){ .Kind = ACL_REPL_TOKENS,
	    .Tokens = { .v = &t, .n = 1, .set = true } }, text);
}

START_TEST(malformed)
{
	static const uint8_t hash[ACL_HASH_BYTES] = { 1 }, name[TKEY_BYTES_MAX];
	struct span h = span_of(hash, sizeof(hash));
	struct acl_policy bad = { .ID = span_str(FIRST), .Name = span_str("x"), .Rules = span_str("nonsense"), .Hash = h };
	struct acl_repl_item items[] = { { .ID = span_str(OTHER), .Hash = h }, { .ID = span_str(FIRST), .Hash = h } };
	struct span id = span_str(ACL_MANAGEMENT_ID);

	refused_copy((struct acl_token){ .AccessorID = span_str(FIRST), .SecretID = span_str(OTHER), .Local = true, .Hash = h },
	    "malformed token");
	refused_copy((struct acl_token){ .AccessorID = span_str("x"), .SecretID = span_str(OTHER), .Hash = h }, "malformed token");
	refused_copy((struct acl_token){ .AccessorID = span_str(FIRST), .SecretID = span_str(ACL_ANONYMOUS_SECRET), .Hash = h },
	    "malformed token");
	refused_copy((struct acl_token){ .AccessorID = span_str(ACL_ANONYMOUS_ID), .SecretID = span_str(OTHER), .Hash = h },
	    "malformed token");
	refused_copy((struct acl_token){ .AccessorID = span_str(FIRST), .SecretID = span_str(OTHER) }, "malformed token");
	refused_copy((struct acl_token){ .AccessorID = span_str(FIRST), .SecretID = span_str(OTHER), .Hash = h, .Expires = -1 },
	    "malformed token");
	/* A name that makes no key stops whoever applies it. */
	refused_copy((struct acl_token){ .AccessorID = span_str(FIRST), .SecretID = span_str(OTHER), .Hash = h,
	    .AuthMethod = span_of(name, sizeof(name)) }, "malformed token");
	ck_assert_int_eq(kit_apply(&s, OP_ACL_REPL_APPLY, &(struct acl_repl_apply){ .Kind = ACL_REPL_POLICIES,
	    .Policies = { .v = &bad, .n = 1, .set = true } }).err, TV_EINVAL);
	kit_refused(&s, OP_ACL_REPL_APPLY, &(struct acl_repl_apply){ .Kind = ACL_REPL_KINDS }, "malformed copies");
	/* What is always there stays. */
	ck_assert(!kit_bool(&s, OP_ACL_REPL_APPLY, &(struct acl_repl_apply){ .Kind = ACL_REPL_POLICIES,
	    .Delete = { .v = &id, .n = 1, .set = true } }));
	(void)kit_read(&s, OP_ACL_REPL_DIFF, &(struct acl_repl_compare){ .Kind = ACL_REPL_TOKENS,
	    .Items = { .v = items, .n = 2, .set = true } }, NULL);
	ck_assert_int_eq(s.ans.err, TV_EINVAL);
	(void)kit_read(&s, OP_ACL_REPL_DIFF, &(struct acl_repl_compare){ .Kind = 9 }, NULL);
	ck_assert_int_eq(s.ans.err, TV_EINVAL);
	(void)kit_read(&s, OP_ACL_REPL_LIST, &(struct acl_repl_ask){ .Kind = ACL_REPL_TOKENS, .After = span_str("x") }, NULL);
	ck_assert_int_eq(s.ans.err, TV_EINVAL);
	(void)kit_read(&s, OP_ACL_REPL_FETCH, &(struct acl_repl_ids){ .Kind = ACL_REPL_NONE }, NULL);
	ck_assert_int_eq(s.ans.err, TV_EINVAL);
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = { flows, changes_and_deletions, counted, names_change_hands, expired, in_the_way, written_elsewhere,
	    who_came_first, right_before_first, position, malformed };
	Suite *suite = suite_create("fsm_acl_repl");
	TCase *t = tcase_create("copies");
	SRunner *r = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(t, tests[i]);
	suite_add_tcase(suite, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
