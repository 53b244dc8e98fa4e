/* The autopilot configuration in the state: defaults, compare-and-set, the first one, what is refused, older states. */
#include <stdlib.h>

#include "raftd/fsm/table/table.h"
#include "tests/unit/fsm_kit.h"

static struct kit k;

static void
setup(void)
{
	kit_open(&k);
}

static void
teardown(void)
{
	kit_close(&k);
}

static struct autopilot_set
some(uint64_t logs)
{
	return (struct autopilot_set){ .Config = { .CleanupDeadServers = true, .MaxTrailingLogs = logs,
	    .ServerStabilizationTime = 3 * KIT_SECOND, .UpgradeVersionTag = span_str("v") } };
}

START_TEST(defaults_until_written)
{
	struct autopilot_config c;
	const char *json;

	ck_assert(!fsm_autopilot(k.f, &c));
	ck_assert(c.CleanupDeadServers);
	ck_assert_int_eq(c.LastContactThreshold, KIT_SECOND / 5);
	kit_read(&k, OP_AUTOPILOT_READ, &(struct empty_rec){ 0 }, &json);
	ck_assert_str_eq(json, "{\"CleanupDeadServers\":true,\"LastContactThreshold\":\"200ms\",\"MaxTrailingLogs\":250,"
	    "\"MinQuorum\":0,\"ServerStabilizationTime\":\"10s\",\"RedundancyZoneTag\":\"\","
	    "\"DisableUpgradeMigration\":false,\"UpgradeVersionTag\":\"\",\"CreateIndex\":0,\"ModifyIndex\":0}");
}
END_TEST

START_TEST(set_replaces_the_whole)
{
	struct autopilot_set q = some(7);
	struct autopilot_config c;

	ck_assert(kit_bool(&k, OP_AUTOPILOT_SET, &q));
	q = some(8);
	q.Config.CleanupDeadServers = false;
	ck_assert(kit_bool(&k, OP_AUTOPILOT_SET, &q));
	kit_reopen(&k);
	ck_assert(fsm_autopilot(k.f, &c));
	ck_assert(!c.CleanupDeadServers);
	ck_assert_uint_eq(c.MaxTrailingLogs, 8);
	ck_assert_int_eq(c.LastContactThreshold, 0);
	ck_assert_uint_eq(c.CreateIndex, 1);
	ck_assert_uint_eq(c.ModifyIndex, 2);
	ck_assert_uint_eq(kit_index(&k, OP_AUTOPILOT_READ, &(struct empty_rec){ 0 }), 2);
}
END_TEST

START_TEST(compare_and_set)
{
	struct autopilot_set q = some(7);
	struct autopilot_config c;

	q.Cas = true;
	q.Index = 5;
	ck_assert(!kit_bool(&k, OP_AUTOPILOT_SET, &q));
	ck_assert(!fsm_autopilot(k.f, &c));
	q.Index = 0;
	ck_assert(kit_bool(&k, OP_AUTOPILOT_SET, &q));
	ck_assert(!kit_bool(&k, OP_AUTOPILOT_SET, &q));
	(void)fsm_autopilot(k.f, &c);
	q.Index = c.ModifyIndex;
	q.Config.MaxTrailingLogs = 9;
	ck_assert(kit_bool(&k, OP_AUTOPILOT_SET, &q));
	(void)fsm_autopilot(k.f, &c);
	ck_assert_uint_eq(c.MaxTrailingLogs, 9);
}
END_TEST

/* What the file says counts once: a leader that brings it later changes nothing. */
START_TEST(initial_only_once)
{
	struct autopilot_set q = some(7);
	struct autopilot_config c;

	q.Initial = true;
	ck_assert(kit_bool(&k, OP_AUTOPILOT_SET, &q));
	q.Config.MaxTrailingLogs = 9;
	ck_assert(!kit_bool(&k, OP_AUTOPILOT_SET, &q));
	(void)fsm_autopilot(k.f, &c);
	ck_assert_uint_eq(c.MaxTrailingLogs, 7);
}
END_TEST

START_TEST(nonsense_is_refused)
{
	struct autopilot_set q = some(7);
	char tag[300];

	q.Config.LastContactThreshold = -1;
	kit_refused(&k, OP_AUTOPILOT_SET, &q,
	    "Invalid autopilot configuration: LastContactThreshold must not be negative");
	q = some(7);
	q.Config.ServerStabilizationTime = 25 * 3600 * KIT_SECOND;
	kit_refused(&k, OP_AUTOPILOT_SET, &q,
	    "Invalid autopilot configuration: ServerStabilizationTime must be between 0s and 24h");
	q = some(7);
	q.Config.MinQuorum = 16;
	kit_refused(&k, OP_AUTOPILOT_SET, &q,
	    "Invalid autopilot configuration: MinQuorum must not be above 15, the most servers that a cluster has");
	q = some(7);
	memset(tag, 'x', sizeof(tag));
	q.Config.UpgradeVersionTag = span_of(tag, sizeof(tag));
	kit_refused(&k, OP_AUTOPILOT_SET, &q,
	    "Invalid autopilot configuration: RedundancyZoneTag and UpgradeVersionTag have at most 255 bytes");
}
END_TEST

/* A watch on it fires at a change, and not at one that was refused. */
START_TEST(watched)
{
	struct autopilot_set q = some(7);
	const struct op *op = op_find(OP_AUTOPILOT_READ);
	struct buf args = BUF_INIT(64);
	unsigned fired = 0;

	schema_pack(op->args, &(struct empty_rec){ 0 }, &args);
	ck_assert_ptr_nonnull(fsm_watch(k.f, op, buf_span(&args), kit_fired, &fired));
	q.Cas = true;
	q.Index = 77;
	ck_assert(!kit_bool(&k, OP_AUTOPILOT_SET, &q));
	ck_assert_uint_eq(fired, 0);
	q.Cas = false;
	ck_assert(kit_bool(&k, OP_AUTOPILOT_SET, &q));
	ck_assert_uint_eq(fired, 1);
	buf_done(&args);
}
END_TEST

/* A state of version 2 counts less; it opens, has no record, and takes one. */
START_TEST(older_state_opens)
{
	static const enum fsm_index indexes[] = { FX_KV, FX_NODES, FX_SERVICES, FX_CHECKS, FX_SESSIONS, FX_EXTINCTION,
	    FX_COORDINATES };		/* in its order */
	struct autopilot_set q = some(7);
	struct autopilot_config c;
	struct buf b = BUF_INIT(512);
	struct tkey key;

	kit_put(&k, "a", "1");
	buf_u8(&b, 2);
	buf_u64be(&b, k.f->applied);
	buf_u64be(&b, 1);
	buf_u8(&b, sizeof(indexes) / sizeof(indexes[0]));
	for (unsigned i = 0; i < sizeof(indexes) / sizeof(indexes[0]); i++)
		buf_u64be(&b, k.f->index[indexes[i]]);
	buf_u8(&b, FT_COUNT);
	for (unsigned i = 0; i < FT_COUNT; i++)
		buf_u64be(&b, k.f->tally[i]);
	TKEY(&key, TBL_META, span_str("state"));
	ck_assert_int_eq(k.f->env->dbenv->txn_begin(k.f->env->dbenv, NULL, &k.f->txn, 0), 0);
	tbl_put(k.f, &key, buf_span(&b));
	ck_assert_int_eq(k.f->txn->commit(k.f->txn, 0), 0);
	k.f->txn = NULL;
	kit_reopen(&k);
	ck_assert_uint_eq(fsm_applied(k.f), 1);
	ck_assert(!fsm_autopilot(k.f, &c));
	ck_assert(kit_bool(&k, OP_AUTOPILOT_SET, &q));
	kit_reopen(&k);
	ck_assert(fsm_autopilot(k.f, &c));
	ck_assert_uint_eq(k.f->index[FX_AUTOPILOT], 2);
	ck_assert(kit_has(&k, "a"));
	buf_done(&b);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("fsm_autopilot");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, defaults_until_written);
	tcase_add_test(t, set_replaces_the_whole);
	tcase_add_test(t, compare_and_set);
	tcase_add_test(t, initial_only_once);
	tcase_add_test(t, nonsense_is_refused);
	tcase_add_test(t, watched);
	tcase_add_test(t, older_state_opens);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
