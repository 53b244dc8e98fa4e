/* The router: which server is asked, of the own datacenter and of others, and what is carried out on this node. */
#include "tests/unit/route_kit.h"

START_TEST(other_datacenter)
{
	start(true, 1000);
	ask(OP_KV_GET, "dc3", 0);
	run_until(1);
	ck_assert_int_eq(got.err, TV_EUNREACH);
	ck_assert_str_eq(got.text, "No path to datacenter");
	got.count = 0;
	remote_known = true;
	add_server("127.0.0.11");
	ask(OP_KV_GET, "dc2", 0);
	ck_assert_int_eq(sent[0].type, MSG_OP_DC);
	link_says(0, TV_OK);
	ck_assert_int_eq(got.err, TV_OK);
	got.count = 0;
	ask(OP_KV_GET, "dc2", 0);
	link_breaks(1, TV_EUNREACH);		/* the only server there: no circle, no hold */
	run_until(1);
	ck_assert_int_eq(got.err, TV_EUNREACH);
	finish();
	/* A client is not in the WAN pool: its servers know. */
	start(false, 1000);
	add_server("127.0.0.1");
	ask(OP_KV_GET, "dc9", 0);
	ck_assert_int_eq(sent[0].type, MSG_OP);
	link_says(0, TV_EUNREACH);
	ck_assert_int_eq(got.err, TV_EUNREACH);
	finish();
}
END_TEST

/* The nearest first; those within the noise are equal, and then a linked one or any; the others when it fails. */
START_TEST(nearest_server_of_a_datacenter)
{
	places_known = true;
	start(true, 1000);
	remote_known = true;
	add_wan("far.dc2", "dc2", 80, "127.0.0.11");
	add_wan("nowhere.dc2", "dc2", -1, "127.0.0.12");
	add_wan("near.dc2", "dc2", 20, "127.0.0.13");
	add_wan("alike.dc2", "dc2", 21, "127.0.0.14");
	ask(OP_KV_GET, "dc2", 0);
	ck_assert_str_eq(sent[0].ip, "127.0.0.13");
	link_breaks(0, TV_EUNREACH);
	ck_assert_str_eq(sent[1].ip, "127.0.0.14");
	link_breaks(1, TV_EUNREACH);
	ck_assert_str_eq(sent[2].ip, "127.0.0.11");
	link_breaks(2, TV_EUNREACH);
	ck_assert_str_eq(sent[3].ip, "127.0.0.12");
	link_says(3, TV_OK);
	run_until(1);
	ck_assert_int_eq(got.err, TV_OK);
	got.count = 0;
	/* The view gives servers in random order: of equals the first is taken. */
	struct members_server s = servers[2];
	servers[2] = servers[3];
	servers[3] = s;
	ask(OP_KV_GET, "dc2", 0);
	ck_assert_str_eq(sent[4].ip, "127.0.0.14");
	link_says(4, TV_OK);
	finish();
	places_known = false;
}
END_TEST

static void
stands(const char *ip, enum standing how)
{
	strcpy(standings[standing_count].ip, ip);
	standings[standing_count++].how = how;
}

/* Among 300 invented servers the one that is linked, wherever it stands in the list; then who proved itself before. */
START_TEST(client_prefers_servers_that_proved_themselves)
{
	char ip[46];

	start(false, 1000);
	for (unsigned i = 0; i < 300; i++) {
		snprintf(ip, sizeof(ip), "127.1.%u.%u", i / 200, i % 200 + 1);
		add_server(ip);
		if (i == 100)
			add_server("127.0.0.1");
	}
	add_server("127.0.0.2");
	add_server("127.0.0.3");
	stands("127.0.0.1", STANDING_PROVEN);
	stands("127.0.0.2", STANDING_OPEN);
	stands("127.0.0.3", STANDING_TIRED);
	ask(OP_KV_GET, "", 0);
	ck_assert_str_eq(sent[0].ip, "127.0.0.2");
	link_breaks(0, TV_EUNREACH);
	ck_assert_str_eq(sent[1].ip, "127.0.0.1");
	link_breaks(1, TV_EUNREACH);
	ck_assert_str_eq(sent[2].ip, "127.1.0.1");	/* nobody better is left */
	link_says(2, TV_OK);
	run_until(1);
	ck_assert_uint_eq(probes, 0);
	got.count = 0;
	standing_count = 0;
	stands("127.0.0.3", STANDING_TIRED);
	for (unsigned i = 0; i < 3; i++)
		stands(servers[i].ip, STANDING_RESTING);
	memmove(servers + 3, servers + server_count - 2, 2 * sizeof(servers[0]));
	server_count = 5;				/* 3 that rest, one not known, one tired */
	ask(OP_KV_GET, "", 0);
	ck_assert_str_eq(sent[3].ip, "127.0.0.2");
	link_breaks(3, TV_EUNREACH);
	ck_assert_str_eq(sent[4].ip, "127.0.0.3");
	link_breaks(4, TV_EUNREACH);
	ck_assert_str_eq(sent[5].ip, "127.1.0.1");
	link_says(5, TV_OK);
	run_until(1);
	finish();
}
END_TEST

/* The view gives servers in random order. */
static void
servers_turned_round(void)
{
	for (unsigned i = 0; i < server_count / 2; i++) {
		struct members_server s = servers[i];

		servers[i] = servers[server_count - 1 - i];
		servers[server_count - 1 - i] = s;
	}
}

/* Asks one question more and has it answered.  Who was asked? */
static const char *
asked_next(const char *dc)
{
	unsigned i = sent_count;

	ask(OP_KV_GET, dc, 0);
	link_says(i, TV_OK);
	run_until(1);
	got.count = 0;
	return sent[i].ip;
}

/* What one server told is not taken back by another one that is behind: with several links the same is asked again. */
static void
same_server_again(bool is_server, const char *dc)
{
	char first[46];

	start(is_server, 1000);
	remote_known = true;
	add_server("127.0.0.1");
	add_server("127.0.0.2");
	add_server("127.0.0.3");
	stands("127.0.0.1", STANDING_OPEN);
	stands("127.0.0.2", STANDING_PROVEN);
	stands("127.0.0.3", STANDING_OPEN);
	strcpy(first, asked_next(dc));
	servers_turned_round();
	ck_assert_str_eq(asked_next(dc), first);
	servers_turned_round();
	ck_assert_str_eq(asked_next(dc), first);

	standings[strcmp(first, "127.0.0.1") == 0 ? 0 : 2].how = STANDING_TIRED;	/* its link broke */
	ck_assert_str_ne(asked_next(dc), first);
	standings[0].how = standings[2].how = STANDING_OPEN;		/* back, with nothing that tells it from the others */
	servers_turned_round();
	ck_assert_str_ne(asked_next(dc), first);
	servers_turned_round();
	ck_assert_str_ne(asked_next(dc), first);
	finish();
}

START_TEST(one_server_is_asked_again)
{
	same_server_again(false, "");
	same_server_again(true, "dc2");
}
END_TEST

/* Requests go to the nearest of those that proved themselves; the nearest of the others is dialled beside them, seldom. */
START_TEST(near_servers_are_looked_at)
{
	places_known = true;
	start(true, 1000);
	remote_known = true;
	add_wan("far.dc2", "dc2", 80, "127.0.0.11");
	add_wan("near.dc2", "dc2", 20, "127.0.0.12");
	add_wan("new.dc2", "dc2", 5, "127.0.0.13");
	add_wan("farther.dc2", "dc2", 90, "127.0.0.14");
	stands("127.0.0.11", STANDING_OPEN);
	stands("127.0.0.12", STANDING_PROVEN);
	for (unsigned i = 0; i < 3; i++) {
		ask(OP_KV_GET, "dc2", 0);
		ck_assert_str_eq(sent[i].ip, "127.0.0.12");
		link_says(i, TV_OK);
		run_until(1);
		got.count = 0;
		ck_assert_uint_eq(probes, 1);
		ck_assert_str_eq(probed, "127.0.0.13");
	}
	stands("127.0.0.13", STANDING_PROVEN);		/* it was real */
	ask(OP_KV_GET, "dc2", 0);
	ck_assert_str_eq(sent[3].ip, "127.0.0.13");
	link_says(3, TV_OK);
	run_until(1);
	finish();
	places_known = false;
}
END_TEST

static const char *
datacenters(void)
{
	static char text[64];
	struct arena a = ARENA_INIT(65536);
	struct rd in = rd_over(got.value, got.value_len);
	struct text_list list = { 0 };
	size_t n = 0;

	ck_assert_int_eq(schema_unpack(&text_list_schema, &in, &a, &list), TV_OK);
	for (uint32_t i = 0; i < list.Values.n; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%.*s ", (int)list.Values.v[i].len,
		    (const char *)list.Values.v[i].p);
	arena_done(&a);
	return text;
}

START_TEST(datacenters_by_distance)
{
	struct buf json = BUF_INIT(4096);

	places_known = true;
	start(true, 1000);
	add_wan("n1.dc1", "dc1", 0, NULL);
	add_wan("a.dc2", "dc2", 10, NULL);	/* the median counts, not the nearest */
	add_wan("b.dc2", "dc2", 90, NULL);
	add_wan("c.dc2", "dc2", 95, NULL);
	add_wan("d.dc4", "dc4", 50, NULL);
	add_wan("e.dc3", "dc3", -1, NULL);
	ask(OP_CATALOG_DATACENTERS, "", 0);
	run_until(1);
	ck_assert_str_eq(datacenters(), "dc1 dc4 dc2 dc3 ");
	got.count = 0;
	wan[4].m.status = MEMBER_LEFT;
	wan[5].rtt_ms = 90;			/* as far as dc2: by name */
	ask(OP_CATALOG_DATACENTERS, "", 0);
	run_until(1);
	ck_assert_str_eq(datacenters(), "dc1 dc2 dc3 dc4 ");
	got.count = 0;
	wan_count = 2;
	wan[1].rtt_ms = 125;
	ask(OP_COORDINATE_DATACENTERS, "", 0);
	run_until(1);
	struct rd in = rd_over(got.value, got.value_len);
	for (uint32_t n = mpr_array(&in); n > 0; n--)
		ck_assert_int_eq(schema_json(&dc_coordinates_schema, &in, &json), TV_OK);
	ck_assert_str_eq(buf_cstr(&json),
	    "{\"Datacenter\":\"dc1\",\"AreaID\":\"wan\",\"Coordinates\":[{\"Node\":\"n1\",\"Segment\":\"\",\"Coord\":"
	    "{\"Vec\":[0,0,0,0,0,0,0,0],\"Error\":1,\"Adjustment\":0,\"Height\":0}}]}"
	    "{\"Datacenter\":\"dc2\",\"AreaID\":\"wan\",\"Coordinates\":[{\"Node\":\"a\",\"Segment\":\"\",\"Coord\":"
	    "{\"Vec\":[0.125,0,0,0,0,0,0,0],\"Error\":1,\"Adjustment\":0,\"Height\":0}}]}");
	buf_done(&json);
	finish();
	places_known = false;
}
END_TEST

START_TEST(any_server_tells_the_datacenters)
{
	start(true, 1000);
	local = (struct raftd_client_status){ .up = false };	/* not even raftd is needed */
	ask(OP_CATALOG_DATACENTERS, "", 0);
	run_until(1);
	ck_assert_int_eq(got.err, TV_OK);
	ck_assert_uint_eq(raftd.calls + sent_count, 0);
	finish();
	start(false, 1000);
	add_server("127.0.0.1");
	ask(OP_CATALOG_DATACENTERS, "", 0);
	ck_assert_int_eq(sent[0].type, MSG_OP);
	link_says(0, TV_OK);
	finish();
}
END_TEST

/* Questions about keys: to the gossipd of any server of the datacenter, and safe to ask again. */
START_TEST(keys_are_asked_of_a_server)
{
	memset(&keys, 0, sizeof(keys));
	start(true, 1000);
	local = (struct raftd_client_status){ .up = false };	/* not even raftd is needed */
	ask(OP_KEYRING, "", 0);
	ck_assert_uint_eq(keys.count, 1);
	keys.done(keys.ctx, &(struct op_reply){ .err = TV_OK, .index = 1 });
	ck_assert(got.count == 1 && got.err == TV_OK && sent_count == 0);
	got.count = 0;
	route_cancel(ask(OP_KEYRING, "", 0));
	ck_assert_uint_eq(keys.cancelled, 1);
	keys.gossipd_away = true;
	ask(OP_KEYRING, "", 0);
	run_until(1);
	ck_assert_str_eq(got.text, "no gossipd there");
	got.count = 0;
	remote_known = true;
	add_server("127.0.0.11");
	ask(OP_KEYRING, "dc2", 0);
	ck_assert_int_eq(sent[0].type, MSG_OP_DC);
	link_says(0, TV_OK);
	ck_assert_int_eq(got.err, TV_OK);
	got.count = 0;
	keys.gossipd_away = false;
	ask(OP_KEYRING, "", 0);
	finish();				/* ends it */
	ck_assert_uint_eq(keys.cancelled, 2);
	start(false, 60000);
	add_server("127.0.0.1");
	ask(OP_KEYRING, "", 0);
	ck_assert_int_eq(sent[0].type, MSG_OP);
	link_breaks(0, TV_ECLOSED);
	route_wake(route);		/* the only one was tried */
	route_wake(route);
	ck_assert_uint_eq(sent_count, 2);
	link_says(1, TV_OK);
	finish();
}
END_TEST

static void
gossipd_says(enum tv_err err)
{
	struct op_reply r = { .err = err, .index = 1 };

	firing.done(firing.ctx, &r);
}

START_TEST(events_are_fired_here_or_in_the_other_datacenter)
{
	struct route_call *c;

	memset(&firing, 0, sizeof(firing));
	for (int server = 0; server < 2; server++) {
		start(server, 1000);
		ask(OP_EVENT_FIRE, "", 0);	/* on a client too: no server is asked */
		gossipd_says(TV_OK);
		ck_assert_uint_eq(got.count, 1);
		got.count = 0;
		c = ask(OP_EVENT_FIRE, "dc1", 0);
		route_cancel(c);
		ck_assert_uint_eq(firing.cancelled, 1u + (unsigned)server);
		firing.gossipd_away = true;
		ask(OP_EVENT_FIRE, "", 0);
		run_until(1);
		ck_assert_str_eq(got.text, "no gossipd");
		firing.gossipd_away = false;
		ck_assert_uint_eq(raftd.calls + sent_count, 0);
		finish();
	}
	start(true, 1000);
	remote_known = true;
	add_server("127.0.1.1");
	ask(OP_EVENT_FIRE, "dc2", 0);
	ck_assert_int_eq(sent[0].type, MSG_OP_DC);
	link_breaks(0, TV_ECLOSED);		/* perhaps it was fired: not again */
	ck_assert_uint_eq(sent_count, 1);
	ck_assert_int_eq(got.err, TV_EUNKNOWN);
	ck_assert_str_eq(got.text, "perhaps");
	got.count = 0;
	ask(OP_EVENT_FIRE, "", 0);
	finish();				/* one under way ends with the router */
	ck_assert_uint_eq(got.count, 1);
}
END_TEST

START_TEST(relayed_requests_do_not_go_in_circles)
{
	static const uint8_t args[] = { 0x90 };
	struct op_request q = { .op = OP_KV_APPLY, .args = span_of(args, sizeof(args)) };
	struct buf b = BUF_INIT(1000);
	enum tv_err err;

	start(true, 60000);
	op_request_write(&b, &q);
	ck_assert_ptr_nonnull(route_relay(route, ROUTE_FINAL, buf_span(&b), on_done, NULL, &err));
	ck_assert_uint_eq(raftd.calls, 1);	/* not passed on to the leader we know */
	raftd_says(TV_ENOTLEADER);
	ck_assert_uint_eq(got.count, 1);
	ck_assert_int_eq(got.err, TV_ENOTLEADER);
	got.count = 0;
	buf_reset(&b);
	q.dc = span_str("dc2");
	remote_known = true;
	op_request_write(&b, &q);
	ck_assert_ptr_nonnull(route_relay(route, ROUTE_DC, buf_span(&b), on_done, NULL, &err));
	run_until(1);
	ck_assert_int_eq(got.err, TV_EUNREACH);
	ck_assert_uint_eq(sent_count, 0);
	ck_assert_ptr_null(route_relay(route, ROUTE_PEER, span_str("garbage"), on_done, NULL, &err));
	ck_assert_int_ne(err, TV_OK);
	q.op = 999;				/* of a newer version: told from what is malformed */
	buf_reset(&b);
	op_request_write(&b, &q);
	ck_assert_ptr_null(route_relay(route, ROUTE_PEER, buf_span(&b), on_done, NULL, &err));
	ck_assert_int_eq(err, TV_EINVAL);
	buf_done(&b);
	finish();
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("route_servers");
	TCase *t = tcase_create("route_servers");
	SRunner *r;
	int failed;

	tcase_add_test(t, other_datacenter);
	tcase_add_test(t, nearest_server_of_a_datacenter);
	tcase_add_test(t, client_prefers_servers_that_proved_themselves);
	tcase_add_test(t, one_server_is_asked_again);
	tcase_add_test(t, near_servers_are_looked_at);
	tcase_add_test(t, datacenters_by_distance);
	tcase_add_test(t, any_server_tells_the_datacenters);
	tcase_add_test(t, relayed_requests_do_not_go_in_circles);
	tcase_add_test(t, keys_are_asked_of_a_server);
	tcase_add_test(t, events_are_fired_here_or_in_the_other_datacenter);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
