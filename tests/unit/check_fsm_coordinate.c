/* Coordinates of nodes: batches, reads, what is refused or healed, and answers sorted by distance. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/record/coordinate.h"
#include "raftd/fsm/table/table.h"
#include "tests/unit/fsm_kit.h"

static struct kit k;

static void
setup(void)
{
	kit_open(&k);
	kit_node(&k, "a", "10.0.0.1");
	kit_node(&k, "B", "10.0.0.2");
	kit_node(&k, "c", "10.0.0.3");
}

static void
teardown(void)
{
	kit_close(&k);
}

/* On a line, x seconds from the origin. */
static struct coordinate
at(double x)
{
	return (struct coordinate){ .vec = { x }, .error = 0.1, .height = 0.001 };
}

static void
batch(struct node_coordinate *recs, uint32_t n)
{
	struct coordinate_batch q = { .Updates = { recs, n, true } };

	ck_assert(kit_bool(&k, OP_COORDINATE_BATCH, &q));
}

static void
report_in(const char *node, const char *segment, const struct coordinate *c)
{
	struct node_coordinate rec = { .Node = span_str(node), .Segment = span_str(segment) };

	coordinate_to_rec(c, &rec.Coord);
	batch(&rec, 1);
}

static void
report(const char *node, double x)
{
	struct coordinate c = at(x);

	report_in(node, "", &c);
}

static unsigned
of_node(const char *node, const char **json)
{
	return kit_read(&k, OP_COORDINATE_NODE, &(struct coordinate_read){ .Node = span_str(node) }, json);
}

static unsigned
all(const char **json)
{
	return kit_read(&k, OP_COORDINATE_NODES, &(struct coordinate_read){ 0 }, json);
}

START_TEST(shape_and_index)
{
	const char *json;

	ck_assert_uint_eq(all(&json), 0);
	ck_assert_uint_eq(k.ans.index, 1);
	report("b", 0.25);					/* looked up without regard to case, shown as registered */
	ck_assert_uint_eq(of_node("B", &json), 1);
	ck_assert_str_eq(json, "[{\"Node\":\"B\",\"Segment\":\"\",\"Coord\":{\"Vec\":[0.25,0,0,0,0,0,0,0],"
	    "\"Error\":0.1,\"Adjustment\":0,\"Height\":0.001}}]");
	ck_assert_uint_eq(k.ans.index, 4);
	report("b", 0.25);					/* the same again: nothing changes */
	ck_assert_uint_eq(of_node("b", NULL), 1);
	ck_assert_uint_eq(k.ans.index, 4);
	report("a", 0.5);
	ck_assert_uint_eq(all(NULL), 2);
	ck_assert_uint_eq(k.ans.index, 6);
	ck_assert_uint_eq(of_node("c", NULL), 0);
	ck_assert_uint_eq(of_node("nobody", NULL), 0);
}
END_TEST

START_TEST(what_is_left_out)
{
	struct node_coordinate recs[6];
	struct coordinate c = at(0.5), bad[] = { at(NAN), at(INFINITY), at(7200) };

	for (int i = 0; i < 6; i++) {
		recs[i] = (struct node_coordinate){ .Node = span_str("a") };
		coordinate_to_rec(i < 3 ? &bad[i] : &c, &recs[i].Coord);
	}
	recs[3].Coord.Vec.n = 2;
	recs[4].Node = span_str("nobody");
	recs[5].Node = span_str("c");
	batch(recs, 6);
	ck_assert_uint_eq(of_node("a", NULL), 0);
	ck_assert_uint_eq(all(NULL), 1);			/* the good one of the same batch */
	ck_assert_uint_eq(of_node("c", NULL), 1);
}
END_TEST

START_TEST(removed_with_the_node)
{
	struct catalog_deregister q = { .Node = span_str("b") };
	struct coordinate c = at(1);
	uint64_t before;

	report("b", 0.25);
	report_in("b", "east", &c);
	report("a", 0.25);
	ck_assert_uint_eq(of_node("b", NULL), 2);
	before = k.ans.index;
	ck_assert(kit_bool(&k, OP_CATALOG_DEREGISTER, &q));
	ck_assert_uint_eq(of_node("b", NULL), 0);
	ck_assert_uint_gt(k.ans.index, before);
	ck_assert_uint_eq(all(NULL), 1);
	kit_node(&k, "b", "10.0.0.2");				/* a new one starts without */
	ck_assert_uint_eq(of_node("b", NULL), 0);
}
END_TEST

START_TEST(segments)
{
	struct coordinate_read q = { .Segment = span_str("s3"), .BySegment = true };
	struct coordinate c = at(1);
	char name[8];

	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		report_in("a", name, &c);
	}
	ck_assert_uint_eq(of_node("a", NULL), 16);		/* no node fills the table */
	ck_assert_uint_eq(kit_read(&k, OP_COORDINATE_NODES, &q, NULL), 1);
	q.Segment = span_str("none");
	ck_assert_uint_eq(kit_read(&k, OP_COORDINATE_NODES, &q, NULL), 0);
	q.Segment = SPAN_NONE;
	ck_assert_uint_eq(kit_read(&k, OP_COORDINATE_NODES, &q, NULL), 0);
}
END_TEST

/* A batch may name one large node again and again: what it takes is that of one. */
START_TEST(of_a_large_node)
{
	enum { TIMES = 600, META = 1 << 20 };
	struct node_coordinate recs[TIMES];
	struct coordinate c = at(0.5);
	char *meta = malloc(META);
	struct span kv[1][2] = { { span_str("m"), span_of(meta, META) } };
	struct catalog_register q = { .Node = span_str("a"), .Address = span_str("10.0.0.1"),
	    .NodeMeta = { .kv = kv, .n = 1, .set = true } };

	ck_assert_ptr_nonnull(meta);
	memset(meta, 'x', META);
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
	for (int i = 0; i < TIMES; i++) {
		recs[i] = (struct node_coordinate){ .Node = span_str("a") };
		coordinate_to_rec(&c, &recs[i].Coord);
	}
	batch(recs, TIMES);
	ck_assert_uint_eq(of_node("a", NULL), 1);
	free(meta);
}
END_TEST

/* S138: an older version let a coordinate in that cannot be true. */
START_TEST(stored_bad_one_heals)
{
	struct coordinate c = at(NAN);
	struct node_coordinate rec = { .Node = span_str("a") };
	struct tkey key;

	report("c", 0.5);
	coordinate_to_rec(&c, &rec.Coord);
	TKEY(&key, TBL_COORDINATE, span_str("a"), SPAN_NONE);
	ck_assert_int_eq(k.f->env->dbenv->txn_begin(k.f->env->dbenv, NULL, &k.f->txn, 0), 0);
	tbl_put_rec(k.f, &key, &node_coordinate_schema, &rec);
	ck_assert_int_eq(k.f->txn->commit(k.f->txn, 0), 0);
	k.f->txn = NULL;
	ck_assert_uint_eq(of_node("a", NULL), 0);
	ck_assert_uint_eq(all(NULL), 1);
	ck_assert_uint_eq(kit_read(&k, OP_CATALOG_NODES, &(struct catalog_read){ .Near = span_str("a") }, NULL), 3);
	report("a", 0.25);
	ck_assert_uint_eq(of_node("a", NULL), 1);
}
END_TEST

START_TEST(blocking)
{
	struct buf b = BUF_INIT(1000);
	unsigned fired = 0;

	schema_pack(&coordinate_read_schema, &(struct coordinate_read){ 0 }, &b);
	ck_assert_ptr_nonnull(fsm_watch(k.f, op_find(OP_COORDINATE_NODES), buf_span(&b), kit_fired, &fired));
	kit_put(&k, "x", "1");
	kit_node(&k, "d", "10.0.0.4");
	report("nobody", 1);
	ck_assert_uint_eq(fired, 0);
	report("a", 1);
	ck_assert_uint_eq(fired, 1);
	buf_done(&b);
}
END_TEST

START_TEST(through_restart_and_snapshot)
{
	char path[96], why[512];
	struct fsm_snapshot *s;
	uint64_t index, term, bytes, sum;
	const char *before, *after;

	report("a", 0.125);
	report("b", 0.25);
	ck_assert_uint_eq(all(&before), 2);
	index = k.ans.index;
	kit_reopen(&k);
	ck_assert_uint_eq(all(&after), 2);
	ck_assert_str_eq(before, after);
	ck_assert_uint_eq(k.ans.index, index);
	snprintf(path, sizeof(path), "%s/snapshot", k.dir);
	ck_assert_int_eq(fsm_snapshot_begin(k.f, &s, &index, &term), TV_OK);
	ck_assert_int_eq(fsm_snapshot_write(s, path, &bytes, &sum), TV_OK);
	fsm_snapshot_end(s);
	report("a", 9);
	report("c", 9);
	ck_assert_msg(fsm_restore(k.f, path, &index, &term, why, sizeof(why)) == TV_OK, "%s", why);
	ck_assert_uint_eq(all(&after), 2);
	ck_assert_str_eq(before, after);
}
END_TEST

/* A state of the version before coordinates: its first record counts less. */
START_TEST(older_state)
{
	struct buf b = BUF_INIT(1000);
	struct tkey key;

	buf_u8(&b, 1);
	buf_u64be(&b, k.f->applied);
	buf_u64be(&b, 1);
	for (uint64_t i = 0; i < 12; i++)
		buf_u64be(&b, 100 + i);
	TKEY(&key, TBL_META, span_str("state"));
	ck_assert_int_eq(k.f->env->dbenv->txn_begin(k.f->env->dbenv, NULL, &k.f->txn, 0), 0);
	tbl_put(k.f, &key, buf_span(&b));
	ck_assert_int_eq(k.f->txn->commit(k.f->txn, 0), 0);
	k.f->txn = NULL;
	kit_reopen(&k);
	ck_assert_uint_eq(fsm_applied(k.f), 3);
	ck_assert_uint_eq(k.f->index[FX_EXTINCTION], 105);
	ck_assert_uint_eq(k.f->index[FX_COORDINATES], 0);
	ck_assert_uint_eq(k.f->tally[FT_KV], 106);
	ck_assert_uint_eq(k.f->tally[FT_SESSIONS], 111);
	ck_assert_uint_eq(k.f->tally[FT_COORDINATES], 0);
	report("a", 1);
	kit_reopen(&k);
	ck_assert_uint_eq(k.f->tally[FT_SESSIONS], 111);
	ck_assert_uint_eq(k.f->tally[FT_COORDINATES], 1);
	buf_done(&b);
}
END_TEST

/* -- near -- */

/* Names in the order of the answer, by the node each record names. */
static const char *
order(uint16_t op, const struct catalog_read *q)
{
	static char names[64];
	const char *json, *p;
	size_t n = 0;

	kit_read(&k, op, q, &json);
	ck_assert_int_eq(k.ans.err, TV_OK);
	for (p = json; (p = strstr(p, "\"Node\":\"")) != NULL && n + 2 < sizeof(names); p += 8)
		names[n++] = p[8];
	names[n] = '\0';
	return names;
}

START_TEST(nodes_near)
{
	ck_assert_str_eq(order(OP_CATALOG_NODES, &(struct catalog_read){ .Near = span_str("c") }), "aBc");
	report("B", 0.2);
	report("c", 0.5);
	kit_node(&k, "d", "10.0.0.4");
	report("d", 0.4);
	ck_assert_str_eq(order(OP_CATALOG_NODES, &(struct catalog_read){ 0 }), "aBcd");
	ck_assert_str_eq(order(OP_CATALOG_NODES, &(struct catalog_read){ .Near = span_str("C") }), "cdBa");
	ck_assert_str_eq(order(OP_CATALOG_NODES, &(struct catalog_read){ .Near = span_str("b") }), "Bdca");
	/* without a coordinate, or unknown: the order stays */
	ck_assert_str_eq(order(OP_CATALOG_NODES, &(struct catalog_read){ .Near = span_str("a") }), "aBcd");
	ck_assert_str_eq(order(OP_CATALOG_NODES, &(struct catalog_read){ .Near = span_str("nobody") }), "aBcd");
	/* by address */
	ck_assert_str_eq(order(OP_CATALOG_NODES, &(struct catalog_read){ .NearAddress = span_str("10.0.0.3") }), "cdBa");
	ck_assert_str_eq(order(OP_CATALOG_NODES, &(struct catalog_read){ .NearAddress = span_str("10.9.9.9") }), "aBcd");
}
END_TEST

START_TEST(services_near)
{
	struct catalog_read q = { .Name = span_str("web"), .Near = span_str("c") };

	for (const char *n = "aBc"; *n != '\0'; n++) {
		kit_service(&k, (char[]){ *n, '\0' }, "w1", "web", NULL);
		kit_service(&k, (char[]){ *n, '\0' }, "w2", "web", NULL);
		kit_check(&k, (char[]){ *n, '\0' }, "alive", "w1", *n == 'B' ? "critical" : "passing");
	}
	report("B", 0.2);
	report("c", 0.5);
	ck_assert_str_eq(order(OP_CATALOG_SERVICE, &q), "ccBBaa");
	ck_assert_str_eq(order(OP_HEALTH_CHECKS, &q), "cBa");
	/* each entry names its node, and then each check does */
	ck_assert_str_eq(order(OP_HEALTH_SERVICE, &q), "cccBBBaaa");
	q.Passing = true;
	ck_assert_str_eq(order(OP_HEALTH_SERVICE, &q), "cccBaaa");
	q = (struct catalog_read){ .Name = span_str("any"), .Near = span_str("b") };
	ck_assert_str_eq(order(OP_HEALTH_STATE, &q), "Bca");
	q.Name = span_str("passing");
	ck_assert_str_eq(order(OP_HEALTH_STATE, &q), "ca");
}
END_TEST

/* Equal distances keep their order, however many. */
START_TEST(stable)
{
	char name[16];
	struct catalog_read q = { .Near = span_str("n017") };
	const char *json, *p;
	int last = -1;

	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "n%03d", i);
		kit_node(&k, name, "10.1.0.1");
		report(name, i < 100 ? 0.5 : 0.25);
	}
	ck_assert_uint_eq(kit_read(&k, OP_CATALOG_NODES, &q, &json), 203);
	for (p = json; (p = strstr(p, "\"Node\":\"n")) != NULL; p++) {
		ck_assert_int_eq(atoi(p + 9), last + 1);
		last++;
	}
	ck_assert_int_eq(last, 199);
	q.Near = span_str("n150");
	kit_read(&k, OP_CATALOG_NODES, &q, &json);
	ck_assert_ptr_nonnull(p = strstr(json, "\"Node\":\"n"));
	ck_assert_int_eq(atoi(p + 9), 100);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("fsm coordinates");
	TCase *t = tcase_create("coordinates");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, shape_and_index);
	tcase_add_test(t, what_is_left_out);
	tcase_add_test(t, removed_with_the_node);
	tcase_add_test(t, segments);
	tcase_add_test(t, of_a_large_node);
	tcase_add_test(t, stored_bad_one_heals);
	tcase_add_test(t, blocking);
	tcase_add_test(t, through_restart_and_snapshot);
	tcase_add_test(t, older_state);
	tcase_add_test(t, nodes_near);
	tcase_add_test(t, services_near);
	tcase_add_test(t, stable);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
