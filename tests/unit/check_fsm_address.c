/* Who has an address: the index by itself, and as the state keeps it, beside what a walk over all records finds. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/rng.h"
#include "common/record/mpack.h"
#include "raftd/fsm/catalog/address.h"
#include "raftd/fsm/catalog/address_index.h"
#include "raftd/fsm/table/table.h"
#include "tests/sim/fsm_batch.h"
#include "tests/unit/fsm_kit.h"

#define PLENTY (64u << 20)

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

/* -- the index by itself -- */

#define KEYS 300
#define ADDRESSES 40

static void
address_of(unsigned n, uint8_t address[ADDRESS_BYTES])
{
	memset(address, 0, ADDRESS_BYTES);
	address[3] = (uint8_t)(n * 37);
	address[ADDRESS_BYTES - 1] = (uint8_t)n;
}

static struct span
key_of(unsigned n, char text[16])
{
	snprintf(text, 16, "%c%u", n % 3 == 0 ? 'N' : 'S', n * 7919 % 1000);
	return span_str(text);
}

/* The first key that has it; -1: none. */
static int
first_of(const int *has, int address)
{
	char one[16], other[16];
	int first = -1;

	for (int i = 0; i < KEYS; i++)
		if (has[i] == address && (first == -1 || span_cmp(key_of((unsigned)i, one), key_of((unsigned)first, other)) < 0))
			first = i;
	return first;
}

START_TEST(index_beside_a_list)
{
	struct address_index *x = address_index_new(PLENTY);
	uint8_t address[ADDRESS_BYTES];
	int has[KEYS];
	struct rng g;

	rng_seed(&g, (uint64_t)_i + 1);
	memset(has, -1, sizeof(has));
	for (unsigned round = 0; round < 4000; round++) {
		unsigned n = (unsigned)rng_below(&g, KEYS), at = (unsigned)rng_below(&g, ADDRESSES), count = 0;
		char text[16];
		struct span key, name;
		int first;

		address_of(at, address);
		has[n] = rng_below(&g, 3) == 0 ? -1 : (int)at;
		key = key_of(n, text);
		ck_assert(address_index_set(x, key, has[n] == -1 ? NULL : address, key));
		at = (unsigned)rng_below(&g, ADDRESSES);
		address_of(at, address);
		first = first_of(has, (int)at);
		ck_assert_int_eq(address_index_find(x, address, &key, &name), first != -1);
		if (first != -1)
			ck_assert(span_eq(key, key_of((unsigned)first, text)) && span_eq(name, key));
		for (unsigned i = 0; i < KEYS; i++)
			count += has[i] != -1;
		ck_assert_uint_eq(address_index_count(x), count);
	}
	address_index_free(x);
}
END_TEST

/* Many records with one address, in the worst order; and all of them go. */
START_TEST(index_of_one_address)
{
	struct address_index *x = address_index_new(PLENTY);
	size_t before = address_index_bytes(x);
	uint8_t address[ADDRESS_BYTES] = { 1 };
	struct span key, name;
	char text[16];

	for (unsigned i = 0; i < 100000; i++) {
		snprintf(text, sizeof(text), "S%06u", 100000 - i);
		ck_assert(address_index_set(x, span_str(text), address, span_str("web")));
	}
	ck_assert(address_index_find(x, address, &key, &name));
	ck_assert(span_eqs(key, "S000001") && span_eqs(name, "web"));
	ck_assert_uint_lt(address_index_bytes(x) / 100000, 140);
	for (unsigned i = 1; i <= 100000; i++) {
		snprintf(text, sizeof(text), "S%06u", i);
		ck_assert(address_index_set(x, span_str(text), NULL, SPAN_NONE));
	}
	ck_assert(!address_index_find(x, address, &key, &name));
	ck_assert_uint_eq(address_index_count(x), 0);
	ck_assert_uint_lt(address_index_bytes(x), before + 100000 * 2 * sizeof(void *) * 2);
	address_index_free(x);
}
END_TEST

START_TEST(index_has_a_bound)
{
	struct address_index *x = address_index_new(32768);
	uint8_t address[ADDRESS_BYTES] = { 1 };
	char text[16];
	unsigned n = 0;

	do
		snprintf(text, sizeof(text), "S%06u", n++);
	while (address_index_set(x, span_str(text), address, span_str("web")));
	ck_assert_uint_gt(n, 100);
	ck_assert_uint_le(address_index_bytes(x), 32768);
	address_index_free(x);
}
END_TEST

/* -- of the state -- */

static struct { uint64_t addresses, builds, searches; } info;

static void
add_number(void *ctx, const char *name, const char *value)
{
	(void)ctx;
	if (strcmp(name, "addresses") == 0)
		info.addresses = strtoull(value, NULL, 10);
	else if (strcmp(name, "address_builds") == 0)
		info.builds = strtoull(value, NULL, 10);
	else if (strcmp(name, "address_searches") == 0)
		info.searches = strtoull(value, NULL, 10);
}

static void
look_at_info(void)
{
	fsm_info(k.f, add_number, NULL);
}

/* What somebody who asks for an address is told. */
struct desk {
	struct arena a;
	struct buf args, out;
	struct fsm_answer ans;
	char node[64], service[64];
};

static void
desk_open(struct desk *d)
{
	d->a = ARENA_INIT(FSM_RECORD_MEMORY);
	buf_init(&d->args, 4096);
	buf_init(&d->out, 4096);
}

static void
desk_close(struct desk *d)
{
	arena_done(&d->a);
	buf_done(&d->args);
	buf_done(&d->out);
}

static void
ask(struct desk *d, struct fsm *f, const char *address)
{
	struct address_owner owner;
	struct rd r;

	arena_reset(&d->a);
	buf_reset(&d->args);
	buf_reset(&d->out);
	d->node[0] = d->service[0] = '\0';
	schema_pack(&catalog_read_schema, &(struct catalog_read){ .Name = span_str(address) }, &d->args);
	fsm_read(f, op_find(OP_CATALOG_ADDRESS), buf_span(&d->args), &d->a, &d->out, &d->ans);
	if (d->ans.err != TV_OK)
		return;
	r = rd_span_over(buf_span(&d->out));
	if (mpr_array(&r) == 0)
		return;
	memset(&owner, 0, sizeof(owner));
	ck_assert_int_eq(schema_unpack(&address_owner_schema, &r, &d->a, &owner), TV_OK);
	ck_assert(span_copy(owner.Node, d->node, sizeof(d->node)) || owner.Node.len == 0);
	ck_assert(span_copy(owner.Service, d->service, sizeof(d->service)) || owner.Service.len == 0);
}

static void
ask_as(struct desk *d, struct fsm *reader, bool cached, const char *address)
{
	fsm_read_begin(reader, cached);
	ask(d, reader, address);
	fsm_read_end(reader);
}

/* The same from the records themselves, all of them. */
static void
walk(struct fsm *f, const char *address, char node[64], char service[64])
{
	const struct { enum tbl table; char *name; } tables[] = { { TBL_NODE, node }, { TBL_SERVICE, service } };
	struct arena a = ARENA_INIT(FSM_RECORD_MEMORY);
	struct span key, val;
	struct tkey prefix;
	struct tbl_scan s;

	node[0] = service[0] = '\0';
	for (unsigned i = 0; i < 2 && node[0] == '\0'; i++) {
		tkey_begin(&prefix, tables[i].table);
		tbl_scan_begin(f, &s, &prefix);
		while (tables[i].name[0] == '\0' && tbl_next(&s, &key, &val)) {
			struct node n;
			struct service v;

			arena_reset(&a);
			if (i == 0 && tbl_decode(f, &node_schema, val, &a, &n) && span_eqs(n.Address, address))
				ck_assert(span_copy(n.Node, node, 64));
			if (i == 1 && tbl_decode(f, &service_schema, val, &a, &v) && span_eqs(v.Address, address))
				ck_assert(span_copy(v.Service, service, 64));
		}
		tbl_scan_end(&s);
	}
	arena_done(&a);
}

#define HOSTS 30			/* addresses of both kinds */

static const char *
host(unsigned n, char text[40])
{
	snprintf(text, 40, n % 3 == 0 ? "2001:db8::%x:1" : "10.1.2.%u", 1 + n);
	return text;
}

static void
all_as_walked(struct desk *d, struct fsm *reader)
{
	char address[40], node[64], service[64];

	for (unsigned n = 0; n < HOSTS; n++) {
		walk(k.f, host(n, address), node, service);
		if (reader != NULL)
			ask_as(d, reader, false, address);
		else
			ask(d, k.f, address);
		ck_assert_int_eq(d->ans.err, TV_OK);
		ck_assert_str_eq(d->node, node);
		ck_assert_str_eq(d->service, service);
	}
}

/* A registration or the opposite, of few nodes and services, whose addresses change all the time. */
static void
random_op(struct rng *g, struct buf *payload)
{
	struct buf args = BUF_INIT(65536);
	char node[16], id[16], name[16], address[2][40];
	struct catalog_register q = { .has_service = rng_below(g, 3) != 0, .SkipNodeUpdate = rng_below(g, 2) == 0 };
	struct catalog_deregister gone = { .Now = k.now };

	snprintf(node, sizeof(node), "%c%u", rng_below(g, 2) == 0 ? 'n' : 'N', (unsigned)rng_below(g, 8));
	snprintf(id, sizeof(id), "id%u", (unsigned)rng_below(g, 4));
	snprintf(name, sizeof(name), "Web%u", (unsigned)rng_below(g, 5));
	buf_init(payload, 65536);
	q.Node = gone.Node = span_str(node);
	q.Now = k.now;
	q.Address = span_str(host((unsigned)rng_below(g, HOSTS), address[0]));
	q.Service = (struct service){ .ID = span_str(id), .Service = span_str(name), .Weights = { 1, 1 },
	    .Address = rng_below(g, 4) == 0 ? SPAN_NONE : rng_below(g, 8) == 0 ? span_str("www.example.net") :
	    span_str(host((unsigned)rng_below(g, HOSTS), address[1])) };
	if (rng_below(g, 4) > 0) {
		schema_pack(&catalog_register_schema, &q, &args);
		fsm_entry_write(payload, OP_CATALOG_REGISTER, buf_span(&args));
	} else {
		gone.ServiceID = rng_below(g, 3) > 0 ? span_str(id) : SPAN_NONE;
		schema_pack(&catalog_deregister_schema, &gone, &args);
		fsm_entry_write(payload, OP_CATALOG_DEREGISTER, buf_span(&args));
	}
	buf_done(&args);
}

/* A batch of some entries, groups among them, of which some are taken back. */
static void
random_batch(struct rng *g)
{
	struct arena a = ARENA_INIT(16u << 20);

	ck_assert_int_eq(batch_begin(k.f), 0);
	for (uint64_t n = rng_below(g, 4); n < 4; n++) {
		struct buf payload[3];
		struct span ops[3];
		bool single = rng_below(g, 2) == 0;

		for (unsigned i = 0; i < 3; i++) {
			random_op(g, &payload[i]);
			ops[i] = buf_span(&payload[i]);
		}
		batch_entry(k.f, 1);
		if (single)
			(void)batch_op(k.f, ops[0], &a);
		else
			(void)batch_group(k.f, ops, 3, (unsigned)rng_below(g, 6), &a);
		for (unsigned i = 0; i < 3; i++)
			buf_done(&payload[i]);
	}
	ck_assert_int_eq(batch_end(k.f), TV_OK);
	arena_done(&a);
}

/* Whatever is written, the index and the records say the same; it is made once for all of that. */
START_TEST(as_the_records_say)
{
	struct fsm *reader = fsm_reader(k.f);
	struct desk d;
	struct rng g;

	rng_seed(&g, (uint64_t)_i + 1);
	desk_open(&d);
	for (unsigned round = 0; round < 60; round++) {
		random_batch(&g);
		all_as_walked(&d, round % 2 == 0 ? reader : NULL);
	}
	look_at_info();
	ck_assert_uint_eq(info.builds, 1);
	ck_assert_uint_eq(info.searches, 0);
	fsm_reader_free(reader);
	kit_reopen(&k);
	all_as_walked(&d, NULL);
	desk_close(&d);
}
END_TEST

/* Where there is no room for it, all records are looked through, and the answers are the same. */
START_TEST(without_room)
{
	struct desk d;
	struct rng g;

	rng_seed(&g, 7);
	desk_open(&d);
	k.f->opt.address_bytes = 8;		/* no record has room */
	for (unsigned round = 0; round < 20; round++) {
		random_batch(&g);
		all_as_walked(&d, NULL);
	}
	look_at_info();
	ck_assert_uint_eq(info.addresses, 0);
	ck_assert_uint_eq(info.builds, 0);
	ck_assert_uint_gt(info.searches, HOSTS);
	desk_close(&d);
}
END_TEST

/* A reader that waits for nothing leaves it to others to make the index, and answers from it then. */
START_TEST(short_once_it_is_made)
{
	struct fsm *reader = fsm_reader(k.f);
	struct desk d;

	desk_open(&d);
	kit_node(&k, "a", "10.1.2.1");
	ck_assert(!fsm_is_at_hand(k.f, op_find(OP_CATALOG_ADDRESS)));
	ask_as(&d, reader, true, "10.1.2.1");
	ck_assert_int_eq(d.ans.err, TV_EAGAIN);
	ask_as(&d, reader, false, "10.1.2.1");
	ck_assert_str_eq(d.node, "a");
	ck_assert(fsm_is_at_hand(k.f, op_find(OP_CATALOG_ADDRESS)));
	kit_node(&k, "b", "10.1.2.2");
	ask_as(&d, reader, true, "10.1.2.2");
	ck_assert_int_eq(d.ans.err, TV_OK);
	ck_assert_str_eq(d.node, "b");
	ck_assert_uint_eq(d.ans.index, fsm_applied(k.f));
	fsm_reader_free(reader);
	desk_close(&d);
}
END_TEST

/* Who asks once does not make the server note changes for ever; nor is it made anew while somebody asks. */
START_TEST(forgotten_when_nobody_asks)
{
	struct desk d;
	char address[40];

	desk_open(&d);
	kit_node(&k, "a", "10.1.2.1");
	for (unsigned i = 0; i < 6000; i++) {
		if (i % 3000 == 0)
			ask(&d, k.f, "10.1.2.1");
		snprintf(address, sizeof(address), "10.2.%u.%u", i >> 8, i & 255);
		kit_node(&k, "b", address);
	}
	look_at_info();
	ck_assert_uint_eq(info.addresses, 2);
	ck_assert_uint_eq(info.builds, 1);
	for (unsigned i = 0; i < 2000; i++)
		kit_node(&k, "b", i % 2 == 0 ? "10.1.2.3" : "10.1.2.4");
	look_at_info();
	ck_assert_uint_eq(info.addresses, 0);
	ask(&d, k.f, "10.1.2.4");
	ck_assert_str_eq(d.node, "b");
	look_at_info();
	ck_assert_uint_eq(info.builds, 2);
	desk_close(&d);
}
END_TEST

/* The state that another one takes the place of is not answered from. */
START_TEST(after_a_restore)
{
	struct fsm_snapshot *s;
	uint64_t index, term, bytes, sum;
	char path[128], why[256];
	struct desk d;

	desk_open(&d);
	snprintf(path, sizeof(path), "%s/snap", k.dir);
	kit_node(&k, "a", "10.1.2.1");
	ck_assert_int_eq(fsm_snapshot_begin(k.f, &s, &index, &term), TV_OK);
	ck_assert_int_eq(fsm_snapshot_write(s, path, &bytes, &sum), TV_OK);
	fsm_snapshot_end(s);
	kit_node(&k, "a", "10.1.2.2");
	ask(&d, k.f, "10.1.2.2");
	ck_assert_str_eq(d.node, "a");
	ck_assert_msg(fsm_restore(k.f, path, &index, &term, why, sizeof(why)) == TV_OK, "%s", why);
	ask(&d, k.f, "10.1.2.2");
	ck_assert_str_eq(d.node, "");
	ask(&d, k.f, "10.1.2.1");
	ck_assert_str_eq(d.node, "a");
	desk_close(&d);
}
END_TEST

/* -- made again and again while somebody writes -- */

static _Atomic bool stop;
static _Atomic uint64_t asked;

static void *
keep_asking(void *arg)
{
	struct fsm *reader = fsm_reader(k.f);
	char address[40];
	struct desk d;
	struct rng g;

	rng_seed(&g, (uintptr_t)arg);
	desk_open(&d);
	while (!stop) {
		ask_as(&d, reader, rng_below(&g, 2) == 0, host((unsigned)rng_below(&g, HOSTS), address));
		ck_assert(d.ans.err == TV_OK || d.ans.err == TV_EAGAIN);
		asked++;
	}
	fsm_reader_free(reader);
	desk_close(&d);
	return NULL;
}

START_TEST(made_beside_who_applies)
{
	pthread_t threads[3];
	struct desk d;
	struct rng g;

	rng_seed(&g, 3);
	desk_open(&d);
	stop = false;
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, keep_asking, (void *)(uintptr_t)(i + 1)), 0);
	for (unsigned round = 0; round < 400; round++) {
		if (round % 8 == 0) {
			uint64_t before = asked;

			pthread_mutex_lock(&k.f->lock);
			addresses_forget(k.f);
			pthread_mutex_unlock(&k.f->lock);
			while (asked < before + 4)
				random_batch(&g);	/* while they ask, and one of them makes it */
		}
		random_batch(&g);
		if (round % 10 == 9)
			all_as_walked(&d, NULL);
	}
	stop = true;
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	all_as_walked(&d, NULL);
	look_at_info();
	ck_assert_uint_gt(info.builds, 20);
	desk_close(&d);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("addresses");
	TCase *t = tcase_create("index"), *state = tcase_create("state");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, index_beside_a_list, 0, 4);
	tcase_add_test(t, index_of_one_address);
	tcase_add_test(t, index_has_a_bound);
	suite_add_tcase(s, t);
	tcase_add_checked_fixture(state, setup, teardown);
	tcase_set_timeout(state, 120);
	tcase_add_loop_test(state, as_the_records_say, 0, 4);
	tcase_add_test(state, without_room);
	tcase_add_test(state, short_once_it_is_made);
	tcase_add_test(state, forgotten_when_nobody_asks);
	tcase_add_test(state, after_a_restore);
	tcase_add_test(state, made_beside_who_applies);
	suite_add_tcase(s, state);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
