/* Watches: a commit wakes exactly whom it touches, once. */
#include <stdio.h>
#include <stdlib.h>

#include "raftd/fsm/ops.h"
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

static struct fsm_watch *
watch(uint16_t op, const void *rec, unsigned *fired)
{
	struct buf b = BUF_INIT(65536);
	struct fsm_watch *w;

	schema_pack(op_find(op)->args, rec, &b);
	*fired = 0;
	w = fsm_watch(k.f, op_find(op), buf_span(&b), kit_fired, fired);
	ck_assert_ptr_nonnull(w);
	buf_done(&b);
	return w;
}

static struct fsm_watch *
watch_key(uint16_t op, const char *key, unsigned *fired)
{
	return watch(op, &(struct kv_read){ .Key = span_str(key) }, fired);
}

static struct fsm_watch *
watch_name(uint16_t op, const char *name, unsigned *fired)
{
	return watch(op, &(struct catalog_read){ .Name = span_str(name) }, fired);
}

START_TEST(exact_key)
{
	unsigned a, b, absent;

	kit_put(&k, "a", "1");
	watch_key(OP_KV_GET, "a", &a);
	watch_key(OP_KV_GET, "ab", &b);
	watch_key(OP_KV_GET, "absent", &absent);
	kit_put(&k, "c", "1");
	kit_put(&k, "a", "1");					/* identical: no change */
	ck_assert_uint_eq(a + b + absent, 0);
	kit_put(&k, "a", "2");
	ck_assert_uint_eq(a, 1);
	kit_put(&k, "a", "3");
	ck_assert_uint_eq(a, 1);				/* once */
	kit_put(&k, "absent", "1");
	ck_assert_uint_eq(absent, 1);
	ck_assert_uint_eq(b, 0);
	ck_assert_uint_eq(fsm_watch_count(k.f), 1);
}
END_TEST

/* Who waits for the proxies of a service is not woken by the service, and the other way round. */
START_TEST(proxies)
{
	struct catalog_register q = { .Node = span_str("n"), .SkipNodeUpdate = true, .has_service = true,
	    .Service = { .Service = span_str("side"), .Kind = span_str("connect-proxy"), .Port = 1,
	    .Proxy = { .DestinationServiceName = span_str("Web") } } };
	unsigned plain, health, catalog;

	kit_node(&k, "n", "10.0.0.1");
	watch_name(OP_HEALTH_SERVICE, "web", &plain);
	watch_name(OP_HEALTH_CONNECT, "WEB", &health);
	watch_name(OP_CATALOG_CONNECT, "web", &catalog);
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER_PROXY, &q));
	ck_assert(plain == 0 && health == 1 && catalog == 1);
	watch_name(OP_HEALTH_CONNECT, "web", &health);
	kit_service(&k, "n", "w1", "web", NULL);
	ck_assert(plain == 1 && health == 0);
	kit_check(&k, "n", "c", "side", "critical");
	ck_assert_uint_eq(health, 1);
}
END_TEST

START_TEST(prefixes)
{
	unsigned all, p, pa, q, keys;

	watch_key(OP_KV_LIST, "", &all);
	watch_key(OP_KV_LIST, "p/", &p);
	watch_key(OP_KV_LIST, "p/a", &pa);
	watch_key(OP_KV_LIST, "q/", &q);
	kit_put(&k, "p/b", "1");
	ck_assert_uint_eq(all, 1);
	ck_assert_uint_eq(p, 1);
	ck_assert_uint_eq(pa + q, 0);
	watch_key(OP_KV_KEYS, "p/", &keys);
	kit_verb(&k, KV_DELETE, "p/b", NULL, NULL, 0);
	ck_assert_uint_eq(keys, 1);
	kit_put(&k, "p/a", "1");				/* the prefix itself */
	ck_assert_uint_eq(pa, 1);
	kit_verb(&k, KV_DELETE_TREE, "q", NULL, NULL, 0);
	ck_assert_uint_eq(q, 0);				/* nothing was there */
	kit_put(&k, "q/1", "1");
	ck_assert_uint_eq(q, 1);
	watch_key(OP_KV_LIST, "q/", &q);
	kit_verb(&k, KV_DELETE_TREE, "", NULL, NULL, 0);
	ck_assert_uint_eq(q, 1);
	ck_assert_uint_eq(fsm_watch_count(k.f), 0);
}
END_TEST

START_TEST(session_end_wakes_key)
{
	unsigned key, sessions;
	const char *s;
	struct session_destroy q;

	kit_node(&k, KIT_NODE, "10.0.0.1");
	watch(OP_SESSION_NODE, &(struct session_read){ .Node = span_str(KIT_NODE) }, &sessions);
	s = kit_session(&k, KIT_NODE, "release", 0);
	ck_assert_uint_eq(sessions, 1);
	watch(OP_SESSION_INFO, &(struct session_read){ .ID = span_str(s) }, &sessions);
	kit_verb(&k, KV_LOCK, "l", "v", s, 0);
	watch_key(OP_KV_GET, "l", &key);
	ck_assert_uint_eq(sessions, 0);
	q = (struct session_destroy){ .ID = span_str(s) };
	ck_assert(kit_bool(&k, OP_SESSION_DESTROY, &q));
	ck_assert_uint_eq(key, 1);
	ck_assert_uint_eq(sessions, 1);
}
END_TEST

START_TEST(services_and_tables)
{
	unsigned web, health, api, nodes, node, state, services;

	kit_node(&k, "n", "10.0.0.1");
	kit_service(&k, "n", "web1", "web", NULL);
	kit_service(&k, "n", "api1", "api", NULL);
	watch_name(OP_CATALOG_SERVICE, "WEB", &web);
	watch_name(OP_HEALTH_SERVICE, "web", &health);
	watch_name(OP_CATALOG_SERVICE, "api", &api);
	watch_name(OP_CATALOG_NODES, "", &nodes);
	watch_name(OP_CATALOG_SERVICES, "", &services);
	watch_name(OP_HEALTH_NODE, "n", &node);
	watch_name(OP_HEALTH_STATE, "critical", &state);
	kit_check(&k, "n", "c", "web1", "passing");
	ck_assert_uint_eq(web, 1);
	ck_assert_uint_eq(health, 1);
	ck_assert_uint_eq(node, 1);
	ck_assert_uint_eq(state, 1);
	ck_assert_uint_eq(api + nodes + services, 0);
	kit_check(&k, "n", "c", "web1", "passing");		/* identical */
	ck_assert_uint_eq(api, 0);
	kit_node(&k, "n", "10.0.0.2");
	ck_assert_uint_eq(api, 1);				/* its node changed */
	ck_assert_uint_eq(nodes, 1);
	ck_assert_uint_eq(services, 0);
	kit_service(&k, "n", "new", "new", NULL);
	ck_assert_uint_eq(services, 1);
	ck_assert_uint_eq(fsm_watch_count(k.f), 0);
}
END_TEST

START_TEST(node_meta_waits_on_nodes_too)
{
	struct span meta[1][2] = { { span_str("r"), span_str("1") } };
	struct catalog_read q = { .NodeMeta = { .kv = meta, .n = 1, .set = true } };
	unsigned with, without;

	watch(OP_CATALOG_SERVICES, &q, &with);
	watch_name(OP_CATALOG_SERVICES, "", &without);
	kit_node(&k, "n", "10.0.0.1");
	ck_assert_uint_eq(with, 1);
	ck_assert_uint_eq(without, 0);
}
END_TEST

START_TEST(unwatch)
{
	unsigned a, b, t;
	struct fsm_watch *wa = watch_key(OP_KV_GET, "a", &a), *wp = watch_key(OP_KV_LIST, "a", &b);
	struct fsm_watch *wt = watch_name(OP_CATALOG_NODES, "", &t);

	ck_assert_uint_eq(fsm_watch_count(k.f), 3);
	fsm_unwatch(k.f, wa);
	fsm_unwatch(k.f, wp);
	fsm_unwatch(k.f, wt);
	fsm_unwatch(k.f, NULL);
	ck_assert_uint_eq(fsm_watch_count(k.f), 0);
	kit_put(&k, "a", "1");
	kit_node(&k, "n", "10.0.0.1");
	ck_assert_uint_eq(a + b + t, 0);
}
END_TEST

/* A callback that cancels a watch which is about to fire, and waits again for itself. */
struct meddler {
	struct fsm_watch *victim;
	unsigned fired, again;
};

static void
meddle(void *ctx)
{
	struct meddler *m = ctx;

	m->fired++;
	fsm_unwatch(k.f, m->victim);
	m->victim = NULL;
	watch_key(OP_KV_GET, "a", &m->again);
}

START_TEST(callbacks_may_change_watches)
{
	struct meddler m = { 0 };
	struct buf b = BUF_INIT(1000);
	unsigned victim;

	schema_pack(&kv_read_schema, &(struct kv_read){ .Key = span_str("a") }, &b);
	ck_assert_ptr_nonnull(fsm_watch(k.f, op_find(OP_KV_GET), buf_span(&b), meddle, &m));
	buf_done(&b);
	m.victim = watch_key(OP_KV_GET, "a", &victim);
	kit_put(&k, "a", "1");
	ck_assert_uint_eq(m.fired, 1);
	ck_assert_uint_eq(victim, 0);
	ck_assert_uint_eq(m.again, 0);
	ck_assert_uint_eq(fsm_watch_count(k.f), 1);
	kit_put(&k, "a", "2");
	ck_assert_uint_eq(m.again, 1);
}
END_TEST

START_TEST(many)
{
	enum { N = 20000 };
	unsigned *fired = calloc(N + 1, sizeof(*fired)), total = 0;
	char key[32];

	for (unsigned i = 0; i < N; i++) {
		snprintf(key, sizeof(key), "k/%u", i % (N / 2));
		watch_key(i < N / 2 ? OP_KV_GET : OP_KV_LIST, key, &fired[i]);
	}
	for (unsigned i = 0; i < 100; i++)
		watch_key(OP_KV_GET, "hot", &fired[N]);
	ck_assert_uint_eq(fsm_watch_count(k.f), N + 100);
	kit_put(&k, "k/77", "1");
	ck_assert_uint_eq(fired[77], 1);
	for (unsigned i = 0; i < N; i++)
		total += fired[i];
	ck_assert_uint_eq(total, 3);				/* the key; the prefixes k/7 and k/77 */
	kit_put(&k, "hot", "1");
	ck_assert_uint_eq(fired[N], 100);
	ck_assert_uint_eq(fsm_watch_count(k.f), N - 3);
	free(fired);
}
END_TEST

/* As many tables as come with sixteen more: each alone, each with its neighbour, and all together. */
START_TEST(sixteen_more_tables)
{
	enum { TABLES = FX_COUNT + 16 };
	struct watches *w = watches_new();
	unsigned one[TABLES] = { 0 }, two[TABLES] = { 0 }, all = 0, none = 0;

	ck_assert_ptr_nonnull(w);
	for (unsigned t = 0; t < TABLES; t++) {
		for (unsigned i = 0; i < TABLES; i++) {		/* who was woken waits again; the others still do */
			if (one[i] > 0 || t == 0)
				ck_assert_ptr_nonnull(watches_add(w, WK_TABLE, SPAN_NONE, UINT64_C(1) << i, kit_fired, &one[i]));
			if (two[i] > 0 || t == 0)
				ck_assert_ptr_nonnull(watches_add(w, WK_TABLE, SPAN_NONE,
				    UINT64_C(1) << i | UINT64_C(1) << (i + 1) % TABLES, kit_fired, &two[i]));
			one[i] = two[i] = 0;
		}
		ck_assert_uint_eq(watches_count(w), 2 * TABLES);
		watches_touch_tables(w, UINT64_C(1) << t);
		watches_fire(w);
		for (unsigned i = 0; i < TABLES; i++) {
			ck_assert_uint_eq(one[i], i == t);
			ck_assert_uint_eq(two[i], i == t || (i + 1) % TABLES == t);
		}
	}
	ck_assert_ptr_nonnull(watches_add(w, WK_TABLE, SPAN_NONE, (UINT64_C(1) << TABLES) - 1, kit_fired, &all));
	ck_assert_ptr_nonnull(watches_add(w, WK_TABLE, SPAN_NONE, 0, kit_fired, &none));
	watches_fire(w);
	ck_assert_uint_eq(all + none, 0);
	watches_touch_tables(w, UINT64_C(1) << (TABLES - 1) | 1);
	watches_fire(w);
	ck_assert_uint_eq(all, 1);
	ck_assert_uint_eq(none, 0);
	watches_touch_all(w);
	watches_fire(w);
	ck_assert_uint_eq(all, 1);
	ck_assert_uint_eq(none, 0);
	ck_assert_uint_eq(watches_count(w), 1);			/* for nothing, which nobody touches */
	watches_free(w);
}
END_TEST

static bool
field_is(const struct schema *s, uint16_t offset, enum schema_type type)
{
	for (unsigned i = 0; i < s->count; i++)
		if (s->fields[i].offset == offset && s->fields[i].type == type)
			return true;
	return false;
}

/* Each operation of the state machine has one implementation, and what it waits on is in its own argument record. */
START_TEST(rows)
{
	for (unsigned i = 0; i < ops_count; i++) {
		const struct op *op = &ops_all[i];
		const struct watch_row *w = watch_row_of(op);
		const struct fsm_op *row = fsm_op_find(op->code);
		bool ours = op->kind == OP_WRITE || (op->kind == OP_READ && op->code != OP_STATUS_LEADER &&
		    op->code != OP_STATUS_PEERS);

		ck_assert_msg((row != NULL) == ours, "%s", op->name);
		ck_assert_msg(row == NULL || (row->apply != NULL) == (op->kind == OP_WRITE), "%s", op->name);
		ck_assert_msg(row == NULL || (row->read != NULL) == (op->kind == OP_READ), "%s", op->name);
		/* A translated text, how copying goes on, and comparisons with what is sent: nobody waits for those. */
		bool of_tables = row != NULL && row->read != NULL && op->code != OP_ACL_TRANSLATE &&
		    op->code != OP_ACL_REPLICATION && op->code != OP_ACL_REPL_DIFF && op->code != OP_ACL_REPL_DIFF_FIRST;
		ck_assert_msg((w->kind != WK_NOTHING) == of_tables, "%s", op->name);
		ck_assert_msg((w->kind == WK_TABLE) == (w->tables != 0), "%s", op->name);
		ck_assert_msg(w->tables >> FX_COUNT == 0 && w->more >> FX_COUNT == 0, "%s", op->name);
		if (w->kind == WK_KEY || w->kind == WK_PREFIX || w->kind == WK_SERVICE)
			ck_assert_msg(field_is(op->args, w->field, ST_STR), "%s", op->name);
		if (w->more != 0)
			ck_assert_msg(field_is(op->args, w->field, ST_MAP), "%s", op->name);
	}
}
END_TEST

/* What an operation with another argument record would wait on: the row says where it is, nothing else. */
START_TEST(other_argument_types)
{
	const struct watch_row key = { .kind = WK_KEY, .field = offsetof(struct raft_peer, Address) };
	const struct watch_row name = { .kind = WK_SERVICE, .field = offsetof(struct check, ServiceName) };
	const struct watch_row some = { .kind = WK_TABLE, .field = offsetof(struct node, Meta), .tables = UINT64_C(1) << FX_CHECKS,
	    .more = UINT64_C(1) << FX_NODES };
	struct raft_peer peer = { .ID = span_str("id"), .Address = span_str("Here") };
	struct check check = { .Node = span_str("n"), .ServiceName = span_str("WEB") };
	struct span pair[1][2] = { { span_str("rack"), span_str("1") } };
	struct node node = { .Node = span_str("n") };
	struct span what;
	uint64_t tables;

	ck_assert(watch_subject(&key, &peer, &k.a, &what, &tables));
	ck_assert(span_eqs(what, "Here") && tables == 0);
	ck_assert(watch_subject(&name, &check, &k.a, &what, &tables));
	ck_assert(span_eqs(what, "web") && tables == 0);
	ck_assert(watch_subject(&some, &node, &k.a, &what, &tables));
	ck_assert(what.len == 0 && tables == UINT64_C(1) << FX_CHECKS);
	node.Meta = (struct span_map){ .kv = pair, .n = 1, .set = true };
	ck_assert(watch_subject(&some, &node, &k.a, &what, &tables));
	ck_assert_uint_eq(tables, UINT64_C(1) << FX_CHECKS | UINT64_C(1) << FX_NODES);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("fsm_watch");
	TCase *t = tcase_create("watch");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, exact_key);
	tcase_add_test(t, prefixes);
	tcase_add_test(t, proxies);
	tcase_add_test(t, session_end_wakes_key);
	tcase_add_test(t, services_and_tables);
	tcase_add_test(t, node_meta_waits_on_nodes_too);
	tcase_add_test(t, unwatch);
	tcase_add_test(t, callbacks_may_change_watches);
	tcase_add_test(t, many);
	tcase_add_test(t, sixteen_more_tables);
	tcase_add_test(t, rows);
	tcase_add_test(t, other_argument_types);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
