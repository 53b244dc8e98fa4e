/* Sessions: creation and its errors, locks, the ways a session ends, lock delays. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/fsm_kit.h"

#define NONE_UUID "11111111-2222-4333-8444-555555555555"

static struct kit k;

static void
setup(void)
{
	kit_open(&k);
	kit_node(&k, KIT_NODE, "10.0.0.1");
}

static void
teardown(void)
{
	kit_close(&k);
}

static struct span_list
list_of(struct span *one)
{
	return (struct span_list){ .v = one, .n = 1, .set = true };
}

static bool
lock(const char *key, const char *session)
{
	return kit_verb(&k, KV_LOCK, key, "v", session, 0);
}

static void
destroy(const char *id)
{
	struct session_destroy q = { .ID = span_str(id) };

	ck_assert(kit_bool(&k, OP_SESSION_DESTROY, &q));
}

/* -- creation -- */

START_TEST(create_defaults)
{
	struct session s = { .Node = span_str(KIT_NODE), .LockDelay = 15 * KIT_SECOND, .TTL = span_str("30s") };
	struct session_read q = { .ID = span_str("00000000-0000-4000-8000-000000000003") };
	const char *json;

	kit_check(&k, KIT_NODE, "serfHealth", NULL, "passing");
	ck_assert_int_eq(kit_apply(&k, OP_SESSION_CREATE, &s).err, TV_OK);
	ck_assert_uint_eq(kit_read(&k, OP_SESSION_INFO, &q, &json), 1);
	ck_assert_str_eq(json, "[{\"ID\":\"00000000-0000-4000-8000-000000000003\",\"Name\":\"\",\"Node\":\"n1\","
	    "\"LockDelay\":15000000000,\"Behavior\":\"release\",\"TTL\":\"30s\",\"NodeChecks\":[\"serfHealth\"],"
	    "\"ServiceChecks\":null,\"CreateIndex\":3,\"ModifyIndex\":3}]");
	ck_assert_uint_eq(k.ans.index, 3);
}
END_TEST

static const struct {
	const char *what, *node, *behavior, *ttl, *check, *text;
} refusals[] = {
	{ "no node", "", "", "", NULL, "Must provide Node" },
	{ "behavior", KIT_NODE, "explode", "", NULL, "Invalid Behavior setting 'explode'" },
	{ "ttl low", KIT_NODE, "", "9s", NULL, "Invalid Session TTL '9000000000', must be between [10s=24h0m0s]" },
	{ "ttl high", KIT_NODE, "", "86401s", NULL,
	    "Invalid Session TTL '86401000000000', must be between [10s=24h0m0s]" },
	{ "ttl text", KIT_NODE, "", "abc", NULL, "Session TTL 'abc' invalid: time: invalid duration \"abc\"" },
	{ "unknown node", "none", "", "", NULL, "apply failed: Missing node registration" },
	{ "default check", KIT_NODE, "", "", NULL, "apply failed: Missing check 'serfHealth' registration" },
	{ "missing check", KIT_NODE, "", "", "nope", "apply failed: Missing check 'nope' registration" },
	{ "critical check", KIT_NODE, "", "", "bad", "apply failed: Check 'bad' is in critical state" },
};

START_TEST(create_refused)
{
	uint64_t index;

	kit_check(&k, KIT_NODE, "bad", NULL, "critical");
	index = kit_index(&k, OP_SESSION_LIST, &(struct session_read){ 0 });
	for (unsigned i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		struct session s = { .Node = span_str(refusals[i].node), .Behavior = span_str(refusals[i].behavior),
		    .TTL = span_str(refusals[i].ttl) };
		struct span check = SPAN_NONE;

		if (refusals[i].check != NULL) {
			check = span_str(refusals[i].check);
			s.NodeChecks = list_of(&check);
		}
		kit_refused(&k, OP_SESSION_CREATE, &s, refusals[i].text);
	}
	ck_assert_uint_eq(kit_index(&k, OP_SESSION_LIST, &(struct session_read){ 0 }), index);
}
END_TEST

static const struct {
	const char *what;
	const char *checks[3];		/* NULL-terminated */
	bool checks_set;
	const char *node_checks[3];
	bool node_checks_set;
	const char *want;		/* the part of the answer that shows them */
} check_lists[] = {
	{ "empty Checks", { NULL }, true, { NULL }, false, "\"NodeChecks\":[],\"ServiceChecks\":null,\"CreateIndex\"" },
	{ "only serfHealth", { "serfHealth", NULL }, true, { NULL }, false,
	    "\"NodeChecks\":[\"serfHealth\"],\"ServiceChecks\":null,\"CreateIndex\"" },
	{ "NodeChecks empty", { "c1", NULL }, true, { NULL }, true,
	    "\"NodeChecks\":[],\"ServiceChecks\":null,\"CreateIndex\"" },
	{ "both", { "serfHealth", "c1", NULL }, true, { NULL }, false,
	    "\"NodeChecks\":[\"serfHealth\"],\"ServiceChecks\":null,"
	    "\"Checks\":[\"serfHealth\",\"c1\"],\"CreateIndex\"" },
	{ "NodeChecks alone", { NULL }, false, { "c1", NULL }, true,
	    "\"NodeChecks\":[\"c1\"],\"ServiceChecks\":null,\"CreateIndex\"" },
};

static struct span_list
to_list(const char *const *names, bool set, struct span *room)
{
	struct span_list l = { .v = room, .set = set };

	for (; names[l.n] != NULL; l.n++)
		room[l.n] = span_str(names[l.n]);
	return l;
}

/* A session may name one large check again and again: what it takes to look at them is that of one. */
START_TEST(many_large_checks)
{
	enum { TIMES = 1024, OUTPUT = 1 << 20 };
	struct span names[TIMES + 1];
	struct session s = { .Node = span_str(KIT_NODE), .NodeChecks = { .v = names, .n = TIMES, .set = true } };
	struct catalog_register q = { .Node = span_str(KIT_NODE), .Address = span_str("10.0.0.1"), .has_check = true,
	    .Check = { .CheckID = span_str("c"), .Status = span_str("passing") } };
	char *output = malloc(OUTPUT);

	ck_assert_ptr_nonnull(output);
	memset(output, 'x', OUTPUT);
	q.Check.Output = span_of(output, OUTPUT);
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
	for (int i = 0; i <= TIMES; i++)
		names[i] = span_str("c");
	ck_assert_int_eq(kit_apply(&k, OP_SESSION_CREATE, &s).err, TV_OK);
	s.NodeChecks.n = TIMES + 1;
	kit_refused(&k, OP_SESSION_CREATE, &s, "A session is bound to at most 1024 checks");
	free(output);
}
END_TEST

START_TEST(deprecated_checks)
{
	kit_check(&k, KIT_NODE, "serfHealth", NULL, "passing");
	kit_check(&k, KIT_NODE, "c1", NULL, "warning");
	for (unsigned i = 0; i < sizeof(check_lists) / sizeof(check_lists[0]); i++) {
		struct session s = { .Node = span_str(KIT_NODE) };
		struct span room[2][3];
		char id[37];
		struct session_read q = { .ID = span_of(id, 36) };
		const char *json;

		s.Checks = to_list(check_lists[i].checks, check_lists[i].checks_set, room[0]);
		s.NodeChecks = to_list(check_lists[i].node_checks, check_lists[i].node_checks_set, room[1]);
		ck_assert_int_eq(kit_apply(&k, OP_SESSION_CREATE, &s).err, TV_OK);
		snprintf(id, sizeof(id), "00000000-0000-4000-8000-%012x", k.uuids);
		ck_assert_uint_eq(kit_read(&k, OP_SESSION_INFO, &q, &json), 1);
		ck_assert_msg(strstr(json, check_lists[i].want) != NULL, "%s: %s", check_lists[i].what, json);
	}
}
END_TEST

/* -- locks -- */

START_TEST(lock_and_unlock)
{
	const char *s = kit_session(&k, KIT_NODE, "release", 0), *t = kit_session(&k, KIT_NODE, "release", 0);
	struct kv_entry e;

	ck_assert(lock("l", s));
	e = kit_get(&k, "l");
	ck_assert_uint_eq(e.LockIndex, 1);
	ck_assert(span_eqs(e.Session, s));
	ck_assert(kit_verb(&k, KV_LOCK, "l", "2", s, 0));	/* again: no new acquisition */
	e = kit_get(&k, "l");
	ck_assert_uint_eq(e.LockIndex, 1);
	ck_assert(span_eqs(e.Value, "2"));
	ck_assert(!lock("l", t));
	ck_assert(!kit_verb(&k, KV_UNLOCK, "l", "3", t, 0));
	ck_assert(!kit_verb(&k, KV_UNLOCK, "none", "3", t, 0));
	ck_assert(kit_verb(&k, KV_UNLOCK, "l", "4", s, 0));
	e = kit_get(&k, "l");
	ck_assert_uint_eq(e.LockIndex, 1);
	ck_assert_uint_eq(e.Session.len, 0);
	ck_assert(span_eqs(e.Value, "4"));
	ck_assert(lock("l", t));
	ck_assert_uint_eq(kit_get(&k, "l").LockIndex, 2);
}
END_TEST

START_TEST(plain_put_keeps_holder)
{
	const char *s = kit_session(&k, KIT_NODE, "release", 0);
	struct kv_entry e;

	ck_assert(lock("l", s));
	ck_assert(kit_put(&k, "l", "forced"));
	e = kit_get(&k, "l");
	ck_assert_uint_eq(e.LockIndex, 0);
	ck_assert(span_eqs(e.Session, s));
	destroy(s);
	ck_assert_uint_eq(kit_get(&k, "l").Session.len, 0);
}
END_TEST

START_TEST(lock_errors)
{
	struct kv_apply q = { .Verb = KV_LOCK, .Key = span_str("l"), .Session = span_str(NONE_UUID) };

	kit_refused(&k, OP_KV_APPLY, &q, "raft apply failed: invalid session \"" NONE_UUID "\"");
	q.Session = span_str("abc");
	kit_refused(&k, OP_KV_APPLY, &q,
	    "raft apply failed: failed session lookup: index error: UUID must be 36 characters");
	q.Session = span_str("");
	kit_refused(&k, OP_KV_APPLY, &q, "raft apply failed: missing session");
	q.Verb = KV_UNLOCK;
	kit_refused(&k, OP_KV_APPLY, &q, "raft apply failed: missing session");
	ck_assert(!kit_has(&k, "l"));
}
END_TEST

/* -- ends -- */

START_TEST(destroy_releases_or_deletes)
{
	const char *s = kit_session(&k, KIT_NODE, "release", 0), *d = kit_session(&k, KIT_NODE, "delete", 0);
	uint64_t modified;

	ck_assert(lock("r", s));
	ck_assert(lock("d1", d) && lock("d2", d));
	modified = kit_get(&k, "r").ModifyIndex;
	destroy(s);
	ck_assert(!kit_session_lives(&k, s));
	ck_assert_uint_gt(kit_get(&k, "r").ModifyIndex, modified);
	ck_assert_uint_eq(kit_get(&k, "r").LockIndex, 1);
	ck_assert(kit_has(&k, "d1"));
	destroy(d);
	ck_assert(!kit_has(&k, "d1") && !kit_has(&k, "d2"));
	ck_assert_uint_eq(kit_prefix_index(&k, "d"), fsm_applied(k.f));
}
END_TEST

START_TEST(destroy_unknown_and_malformed)
{
	struct session_destroy q = { .ID = span_str(NONE_UUID) };
	struct session_read r = { .ID = span_str("abc") };

	ck_assert(kit_bool(&k, OP_SESSION_DESTROY, &q));
	q.ID = span_str("abc");
	kit_refused(&k, OP_SESSION_DESTROY, &q,
	    "apply failed: failed session lookup: index error: UUID must be 36 characters");
	kit_read(&k, OP_SESSION_INFO, &r, NULL);
	ck_assert_int_ne(k.ans.err, TV_OK);
	ck_assert(span_eqs(k.ans.text, "failed session lookup: index error: UUID must be 36 characters"));
}
END_TEST

START_TEST(many_keys_go)
{
	const char *s = kit_session(&k, KIT_NODE, "delete", 0);
	char key[32];

	for (int i = 0; i < 500; i++) {
		snprintf(key, sizeof(key), "many/%d", i);
		ck_assert(lock(key, s));
	}
	destroy(s);
	ck_assert_uint_eq(kit_read(&k, OP_KV_LIST, &(struct kv_read){ .Key = span_str("many/") }, NULL), 0);
}
END_TEST

START_TEST(node_removal_ends_sessions)
{
	struct catalog_deregister q = { .Node = span_str("N2") };
	const char *s, *other = kit_session(&k, KIT_NODE, "release", 0);

	kit_node(&k, "n2", "10.0.0.2");
	s = kit_session(&k, "n2", "release", 0);
	ck_assert(lock("l", s) && lock("m", other));
	ck_assert(kit_bool(&k, OP_CATALOG_DEREGISTER, &q));	/* names are compared without regard to case */
	ck_assert(!kit_session_lives(&k, s));
	ck_assert(kit_session_lives(&k, other));
	ck_assert_uint_eq(kit_get(&k, "l").Session.len, 0);
	ck_assert(span_eqs(kit_get(&k, "m").Session, other));
}
END_TEST

static const char *
bound_session(const char *check)
{
	struct span name = span_str(check);
	struct session s = { .Node = span_str(KIT_NODE), .NodeChecks = list_of(&name) };
	static char id[37];

	ck_assert_int_eq(kit_apply(&k, OP_SESSION_CREATE, &s).err, TV_OK);
	snprintf(id, sizeof(id), "00000000-0000-4000-8000-%012x", k.uuids);
	return id;
}

START_TEST(bound_check_ends_session)
{
	struct catalog_deregister q = { .Node = span_str(KIT_NODE), .CheckID = span_str("c1") };
	const char *s, *unbound = kit_session(&k, KIT_NODE, "release", 0);

	kit_check(&k, KIT_NODE, "c1", NULL, "passing");
	s = bound_session("c1");
	kit_check(&k, KIT_NODE, "c1", NULL, "warning");
	ck_assert(kit_session_lives(&k, s));
	kit_check(&k, KIT_NODE, "c1", NULL, "critical");
	ck_assert(!kit_session_lives(&k, s));
	kit_check(&k, KIT_NODE, "c1", NULL, "passing");
	s = bound_session("c1");
	ck_assert(kit_bool(&k, OP_CATALOG_DEREGISTER, &q));
	ck_assert(!kit_session_lives(&k, s));
	ck_assert(kit_session_lives(&k, unbound));
}
END_TEST

START_TEST(service_check_ends_session)
{
	struct service_check_ref ref = { .ID = span_str("sc") };
	struct session s = { .Node = span_str(KIT_NODE), .NodeChecks = { .set = true },
	    .ServiceChecks = { .v = &ref, .n = 1, .set = true } };
	struct catalog_deregister q = { .Node = span_str(KIT_NODE), .ServiceID = span_str("web1") };

	kit_service(&k, KIT_NODE, "web1", "web", NULL);
	kit_check(&k, KIT_NODE, "sc", "web1", "passing");
	ck_assert_int_eq(kit_apply(&k, OP_SESSION_CREATE, &s).err, TV_OK);
	ck_assert_uint_eq(kit_read(&k, OP_SESSION_LIST, &(struct session_read){ 0 }, NULL), 1);
	ck_assert(kit_bool(&k, OP_CATALOG_DEREGISTER, &q));
	ck_assert_uint_eq(kit_read(&k, OP_SESSION_LIST, &(struct session_read){ 0 }, NULL), 0);
}
END_TEST

/* -- lock delay -- */

START_TEST(lock_delay_after_destroy)
{
	const char *s = kit_session(&k, KIT_NODE, "release", 10 * KIT_SECOND);
	const char *t = kit_session(&k, KIT_NODE, "release", 0);

	ck_assert(lock("l", s));
	destroy(s);
	k.now += 9 * KIT_SECOND;
	ck_assert(!lock("l", t));
	ck_assert(lock("other", t));				/* other keys are free */
	ck_assert(kit_put(&k, "l", "plain"));
	kit_reopen(&k);						/* it survives a restart */
	ck_assert(!lock("l", t));
	k.now += 1 * KIT_SECOND;
	ck_assert(lock("l", t));
}
END_TEST

START_TEST(lock_delay_cap_and_release)
{
	const char *s = kit_session(&k, KIT_NODE, "delete", 600 * KIT_SECOND);
	const char *t = kit_session(&k, KIT_NODE, "release", 0);
	struct session_destroy reap = { .ID = span_str("") };

	ck_assert(lock("l", s));
	ck_assert(kit_verb(&k, KV_UNLOCK, "l", "v", s, 0));
	ck_assert(lock("l", t));				/* a release starts none */
	ck_assert(kit_verb(&k, KV_UNLOCK, "l", "v", t, 0));
	ck_assert(lock("l", s));
	destroy(s);
	ck_assert(!kit_has(&k, "l"));
	k.now += 59 * KIT_SECOND;
	ck_assert(!lock("l", t));
	ck_assert(!fsm_reap_due(k.f, k.now));
	k.now += 1 * KIT_SECOND;
	ck_assert(fsm_reap_due(k.f, k.now));
	ck_assert(kit_bool(&k, OP_TOMBSTONE_REAP, &reap));
	ck_assert(lock("l", t));
}
END_TEST

/* The next leader's clock is an hour behind: nobody waits for an hour. */
START_TEST(lock_delay_of_another_clock)
{
	const char *s = kit_session(&k, KIT_NODE, "release", 15 * KIT_SECOND);
	const char *t = kit_session(&k, KIT_NODE, "release", 0);

	ck_assert(lock("l", s));
	destroy(s);
	k.now -= 30 * KIT_SECOND;				/* that much off is not noticed, and bounded */
	ck_assert(!lock("l", t));
	k.now -= 3600 * KIT_SECOND;
	ck_assert(lock("l", t));
}
END_TEST

/* It is some seconds behind: that ends no delay, not even the longest. */
START_TEST(longest_lock_delay_of_another_clock)
{
	const char *s = kit_session(&k, KIT_NODE, "release", 60 * KIT_SECOND);
	const char *t = kit_session(&k, KIT_NODE, "release", 0);

	ck_assert(lock("l", s));
	destroy(s);
	k.now -= 5 * KIT_SECOND;
	ck_assert(!lock("l", t));
	k.now += 65 * KIT_SECOND;
	ck_assert(lock("l", t));
}
END_TEST

START_TEST(lock_delay_from_check)
{
	const char *s, *t;

	kit_check(&k, KIT_NODE, "serfHealth", NULL, "passing");
	{
		struct session q = { .Node = span_str(KIT_NODE), .LockDelay = 5 * KIT_SECOND };

		ck_assert_int_eq(kit_apply(&k, OP_SESSION_CREATE, &q).err, TV_OK);
	}
	s = "00000000-0000-4000-8000-000000000003";
	t = kit_session(&k, KIT_NODE, "release", 0);
	ck_assert(lock("l", s));
	kit_check(&k, KIT_NODE, "serfHealth", NULL, "critical");
	ck_assert(!kit_session_lives(&k, s));
	k.now += 4 * KIT_SECOND;
	ck_assert(!lock("l", t));
	k.now += 1 * KIT_SECOND;
	ck_assert(lock("l", t));
}
END_TEST

/* Who held it and was away: nothing that names the old session, or what it saw, is done any more. */
START_TEST(former_holder_is_refused)
{
	const char *old = kit_session(&k, KIT_NODE, "release", 0), *now = kit_session(&k, KIT_NODE, "release", 0);
	struct kv_apply q = { .Verb = KV_LOCK, .Key = span_str("l"), .Value = span_str("late"), .Session = span_str(old) };
	char refusal[100];
	uint64_t seen;

	snprintf(refusal, sizeof(refusal), "raft apply failed: invalid session \"%s\"", old);
	ck_assert(lock("l", old));
	seen = kit_get(&k, "l").ModifyIndex;
	destroy(old);
	ck_assert(lock("l", now));
	ck_assert_uint_eq(kit_get(&k, "l").LockIndex, 2);
	kit_refused(&k, OP_KV_APPLY, &q, refusal);
	ck_assert(!kit_verb(&k, KV_UNLOCK, "l", "late", old, 0));
	ck_assert(!kit_verb(&k, KV_CAS, "l", "late", NULL, seen));
	ck_assert(!kit_verb(&k, KV_DELETE_CAS, "l", NULL, NULL, seen));
	ck_assert(span_eqs(kit_get(&k, "l").Value, "v") && span_eqs(kit_get(&k, "l").Session, now));
}
END_TEST

/* -- lists and timers -- */

struct ttl_walk {
	int64_t sum;
	unsigned count, max;
	char last[37];
};

static bool
count_ttl(void *ctx, struct span id, int64_t ttl)
{
	struct ttl_walk *w = ctx;

	ck_assert(span_cmp(id, span_str(w->last)) > 0);
	ck_assert(span_copy(id, w->last, sizeof(w->last)));
	w->sum += ttl;
	return ++w->count % w->max != 0;
}

START_TEST(ttl_sessions)
{
	static const char *const ttls[] = { "10s", "0s", "", "1m" };
	struct ttl_walk whole = { .max = UINT_MAX }, parts = { .max = 2 };

	for (unsigned i = 0; i < 12; i++) {
		struct session s = { .Node = span_str(KIT_NODE), .TTL = span_str(ttls[i % 4]),
		    .NodeChecks = { .set = true } };

		ck_assert_int_eq(kit_apply(&k, OP_SESSION_CREATE, &s).err, TV_OK);
	}
	ck_assert_int_eq(fsm_each_ttl_session(k.f, SPAN_NONE, count_ttl, &whole), TV_OK);
	ck_assert_int_eq(whole.sum, 3 * 70 * KIT_SECOND);
	for (unsigned before = UINT_MAX; parts.count != before;) {
		before = parts.count;
		ck_assert_int_eq(fsm_each_ttl_session(k.f, span_str(parts.last), count_ttl, &parts), TV_OK);
		ck_assert_uint_le(parts.count, before == UINT_MAX ? 2 : before + 2);
	}
	ck_assert_int_eq(parts.sum, whole.sum);
}
END_TEST

START_TEST(sessions_of_a_node)
{
	struct session_read q = { .Node = span_str("N1") };

	kit_node(&k, "n2", "10.0.0.2");
	kit_session(&k, KIT_NODE, "release", 0);
	kit_session(&k, KIT_NODE, "release", 0);
	kit_session(&k, "n2", "release", 0);
	ck_assert_uint_eq(kit_read(&k, OP_SESSION_NODE, &q, NULL), 2);
	ck_assert_uint_eq(k.ans.index, fsm_applied(k.f));
	ck_assert_uint_eq(kit_read(&k, OP_SESSION_LIST, &q, NULL), 3);
	q.Node = span_str("none");
	ck_assert_uint_eq(kit_read(&k, OP_SESSION_NODE, &q, NULL), 0);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("fsm_session");
	TCase *t = tcase_create("session");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, create_defaults);
	tcase_add_test(t, create_refused);
	tcase_add_test(t, many_large_checks);
	tcase_add_test(t, deprecated_checks);
	tcase_add_test(t, lock_and_unlock);
	tcase_add_test(t, plain_put_keeps_holder);
	tcase_add_test(t, lock_errors);
	tcase_add_test(t, destroy_releases_or_deletes);
	tcase_add_test(t, destroy_unknown_and_malformed);
	tcase_add_test(t, many_keys_go);
	tcase_add_test(t, node_removal_ends_sessions);
	tcase_add_test(t, bound_check_ends_session);
	tcase_add_test(t, service_check_ends_session);
	tcase_add_test(t, lock_delay_after_destroy);
	tcase_add_test(t, lock_delay_cap_and_release);
	tcase_add_test(t, lock_delay_of_another_clock);
	tcase_add_test(t, longest_lock_delay_of_another_clock);
	tcase_add_test(t, lock_delay_from_check);
	tcase_add_test(t, former_holder_is_refused);
	tcase_add_test(t, ttl_sessions);
	tcase_add_test(t, sessions_of_a_node);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
