/* Status, autopilot and the recovery of a cluster: request to operation, reply to answer. */
#include "tests/unit/api_kit.h"

/* -- status, operator ------------------------------------------------------------------ */

START_TEST(status_and_operator)
{
	struct raft_peer peer = { 0 };
	struct span addr = span_str("127.0.0.1:8300");
	struct request *r = fake_begin("GET", "/v1/status/leader", NULL, NULL);

	ck_assert(fake.q.op == OP_STATUS_LEADER && fake.q.mode == OP_STALE);
	reply_record(&text_reply_schema, &(struct text_reply){ addr });
	fake_answered(r, 200, "\"127.0.0.1:8300\"");
	ck_assert_ptr_null(fake_header(r, "X-Consul-Index"));
	fake_end(r);
	r = fake_begin("GET", "/v1/status/peers?dc=dc9", NULL, NULL);
	reply(TV_EUNREACH, "");
	fake_answered(r, 500, "No path to datacenter");
	fake_end(r);
	r = fake_begin("GET", "/v1/status/peers", NULL, NULL);
	reply_record(&text_list_schema, &(struct text_list){ { &addr, 1, true } });
	fake_answered(r, 200, "[\"127.0.0.1:8300\"]");
	fake_end(r);
	fake_is("DELETE", "/v1/operator/raft/peer?id=a&address=b", NULL, 400,
	    "Bad request: Must specify only one of ?id or ?address");
	r = fake_begin("DELETE", "/v1/operator/raft/peer?address=127.0.0.1:8300", NULL, NULL);
	asked(OP_RAFT_REMOVE, &peer);
	span_is(peer.Address, "127.0.0.1:8300");
	reply_record(&bool_reply_schema, &(struct bool_reply){ true });
	fake_answered(r, 200, "");
	fake_end(r);
	r = fake_begin("PUT", "/v1/operator/raft/transfer?id=x", NULL, NULL);
	asked(OP_RAFT_TRANSFER, &peer);
	span_is(peer.ID, "x");
	reply_record(&bool_reply_schema, &(struct bool_reply){ true });
	fake_answered(r, 200, "{\"Success\":true}");
	fake_end(r);
}
END_TEST

START_TEST(autopilot_configuration)
{
	static const char body[] = "{\"CleanupDeadServers\":true,\"LastContactThreshold\":\"300ms\"}";
	struct autopilot_set set = { 0 };
	struct autopilot_config conf = { .MinQuorum = 3, .LastContactThreshold = 1500000 };
	struct request *r = fake_begin("GET", "/v1/operator/autopilot/configuration", NULL, NULL);

	ck_assert_int_eq(fake.q.op, OP_AUTOPILOT_READ);
	reply_record(&autopilot_config_schema, &conf);
	fake_answered(r, 200, "{\"CleanupDeadServers\":false,\"LastContactThreshold\":\"1.5ms\",\"MaxTrailingLogs\":0,"
	    "\"MinQuorum\":3,\"ServerStabilizationTime\":\"0s\",\"RedundancyZoneTag\":\"\","
	    "\"DisableUpgradeMigration\":false,\"UpgradeVersionTag\":\"\",\"CreateIndex\":0,\"ModifyIndex\":0}");
	fake_end(r);
	/* what is not named is zero: the whole is replaced */
	r = fake_begin("PUT", "/v1/operator/autopilot/configuration?cas=7", body, NULL);
	asked(OP_AUTOPILOT_SET, &set);
	ck_assert(set.Cas && set.Index == 7 && !set.Initial);
	ck_assert(set.Config.CleanupDeadServers && set.Config.LastContactThreshold == 300000000);
	ck_assert_uint_eq(set.Config.MaxTrailingLogs, 0);
	reply_record(&bool_reply_schema, &(struct bool_reply){ false });
	fake_answered(r, 200, "false");
	fake_end(r);
	fake_is("PUT", "/v1/operator/autopilot/configuration?cas=x", body, 400,
	    "Bad request: Error parsing cas value: strconv.ParseUint: parsing \"x\": invalid syntax");
	r = fake_begin("PUT", "/v1/operator/autopilot/configuration", "{nope", NULL);
	ck_assert(r->answered);
	ck_assert_uint_eq(r->answer.status, 400);
	ck_assert(span_starts(buf_span(&r->answer.body), span_str("Bad request: Error parsing autopilot config: ")));
	fake_end(r);
	r = fake_begin("PUT", "/v1/operator/autopilot/configuration", body, NULL);
	reply(TV_EINVAL, "Invalid autopilot configuration: x");
	fake_answered(r, 400, "Bad request: Invalid autopilot configuration: x");
	fake_end(r);
}
END_TEST

START_TEST(autopilot_health)
{
	struct server_health servers[] = {
		{ .ID = span_str("id1"), .Name = span_str("n1"), .Address = span_str("a:1"), .SerfStatus = span_str("alive"),
		    .Version = span_str("1"), .Leader = true, .LastTerm = 2, .LastIndex = 9, .Healthy = true, .Voter = true,
		    .StableSince = span_str("t") },
		{ .ID = span_str("id2"), .Name = span_str("n\"2"), .Address = span_str("a:2"), .SerfStatus = span_str("failed"),
		    .LastContact = 1200000000, .StableSince = span_str("t"), .Reason = span_str("no \"link\"") },
	};
	struct autopilot_health h = { true, 1, { servers, 1, true }, { 0 } };
	struct request *r = fake_begin("GET", "/v1/operator/autopilot/health", NULL, NULL);

	ck_assert_int_eq(fake.q.op, OP_AUTOPILOT_HEALTH);
	reply_record(&autopilot_health_schema, &h);
	fake_answered(r, 200, "{\"Healthy\":true,\"FailureTolerance\":1,\"Servers\":[{\"ID\":\"id1\",\"Name\":\"n1\","
	    "\"Address\":\"a:1\",\"SerfStatus\":\"alive\",\"Version\":\"1\",\"Leader\":true,\"LastContact\":\"0s\","
	    "\"LastTerm\":2,\"LastIndex\":9,\"Healthy\":true,\"Voter\":true,\"StableSince\":\"t\"}]}");
	fake_end(r);
	h = (struct autopilot_health){ false, 0, { servers + 1, 1, true }, { 0 } };
	r = fake_begin("GET", "/v1/operator/autopilot/health", NULL, NULL);
	reply_record(&autopilot_health_schema, &h);
	fake_answered(r, 429, "{\"Healthy\":false,\"FailureTolerance\":0,\"Servers\":[{\"ID\":\"id2\","
	    "\"Name\":\"n\\\"2\","
	    "\"Address\":\"a:2\",\"SerfStatus\":\"failed\",\"Version\":\"\",\"Leader\":false,\"LastContact\":\"1.2s\","
	    "\"LastTerm\":0,\"LastIndex\":0,\"Healthy\":false,\"Voter\":false,\"StableSince\":\"t\","
	    "\"Reason\":\"no \\\"link\\\"\"}]}");
	ck_assert_str_eq(fake_header(r, "Content-Type"), "application/json");
	fake_end(r);
	h = (struct autopilot_health){ false, 0, { servers, 2, true }, { 0 } };
	r = fake_begin("GET", "/v1/operator/autopilot/state", NULL, NULL);
	reply_record(&autopilot_health_schema, &h);
	fake_answered(r, 200, "{\"Healthy\":false,\"FailureTolerance\":0,\"Servers\":{\"id1\":{\"ID\":\"id1\","
	    "\"Name\":\"n1\",\"Address\":\"a:1\",\"NodeStatus\":\"alive\",\"Version\":\"1\",\"LastContact\":\"0s\","
	    "\"LastTerm\":2,\"LastIndex\":9,\"Healthy\":true,\"StableSince\":\"t\",\"Status\":\"leader\",\"Meta\":null,"
	    "\"NodeType\":\"voter\"},\"id2\":{\"ID\":\"id2\",\"Name\":\"n\\\"2\",\"Address\":\"a:2\","
	    "\"NodeStatus\":\"failed\",\"Version\":\"\",\"LastContact\":\"1.2s\",\"LastTerm\":0,\"LastIndex\":0,"
	    "\"Healthy\":false,\"StableSince\":\"t\",\"Reason\":\"no \\\"link\\\"\","
	    "\"Status\":\"non-voter\",\"Meta\":null,\"NodeType\":\"voter\"}},"
	    "\"Leader\":\"id1\",\"Voters\":[\"id1\"]}");
	fake_end(r);
	/* In a Go duration, for clients that read one: never, or unknown. */
	servers[1].LastContact = -1;
	h = (struct autopilot_health){ false, 0, { servers + 1, 1, true }, { 0 } };
	r = fake_begin("GET", "/v1/operator/autopilot/health", NULL, NULL);
	reply_record(&autopilot_health_schema, &h);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "\"LastContact\":\"-1ns\""));
	fake_end(r);
	/* Any server's own view, and why there is no leader. */
	r = fake_begin("GET", "/v1/operator/autopilot/health?stale", NULL, NULL);
	ck_assert(fake.q.op == OP_AUTOPILOT_HEALTH && fake.q.mode == OP_STALE);
	h = (struct autopilot_health){ .Servers = { servers, 0, true }, .Reason = span_str("No leader: n2 is away") };
	reply_record(&autopilot_health_schema, &h);
	fake_answered(r, 429, "{\"Healthy\":false,\"FailureTolerance\":0,\"Servers\":[],"
	    "\"Reason\":\"No leader: n2 is away\"}");
	fake_end(r);
}
END_TEST

/* From elsewhere not even the report; from this machine over TCP as over the socket. */
START_TEST(raft_recover_from_elsewhere)
{
	static const char *const methods[] = { "GET", "PUT" };
	struct request *r;

	for (unsigned i = 0; i < 2; i++) {
		struct request_head distant = { .client_ip = "192.0.2.7" }, local = { .client_ip = "127.0.0.1", .on_loopback = true };

		fake.recover_done = NULL;
		r = fake_begin(methods[i], "/v1/operator/raft/recover", NULL, &local);
		ck_assert(fake.recover_done != NULL);
		fake.recover_done(fake.admin_ctx, TV_ECONFLICT, span_str("there is a leader"), SPAN_NONE);
		fake_answered(r, 409, "there is a leader");
		fake_end(r);
		fake.recover_done = NULL;
		r = fake_begin(methods[i], "/v1/operator/raft/recover", NULL, &distant);
		ck_assert(fake.recover_done == NULL);
		fake_answered(r, 403, "A recovery must be requested on the server itself: run clusterctl raft recover there, over its "
		    "socket or a loopback address");
		fake_end(r);
	}
}
END_TEST

/* The report for a GET, refused or not; a PUT that is refused is a conflict, in one sentence. */
START_TEST(raft_recover)
{
	struct raft_recovery rec = { .Node = span_str("n1"), .Refused = span_str("there is a leader") };
	struct buf packed = BUF_INIT(4096);
	struct request *r;

	schema_pack(&raft_recovery_schema, &rec, &packed);
	r = fake_begin("GET", "/v1/operator/raft/recover", NULL, NULL);
	ck_assert(fake.admin_flag);
	fake.recover_done(fake.admin_ctx, TV_ECONFLICT, span_str("there is a leader"), buf_span(&packed));
	ck_assert_uint_eq(r->answer.status, 200);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "\"Refused\":\"there is a leader\""));
	fake_end(r);
	r = fake_begin("PUT", "/v1/operator/raft/recover", NULL, NULL);
	ck_assert(!fake.admin_flag);
	fake.recover_done(fake.admin_ctx, TV_ECONFLICT, span_str("there is a leader"), buf_span(&packed));
	fake_answered(r, 409, "there is a leader");
	fake_end(r);
	/* the asker is gone: nobody is answered */
	r = fake_begin("PUT", "/v1/operator/raft/recover", NULL, NULL);
	fake_end(r);
	fake.recover_done(fake.admin_ctx, TV_OK, SPAN_NONE, buf_span(&packed));
	fake.admin_start = TV_EINVAL;
	fake_is("PUT", "/v1/operator/raft/recover", NULL, 400,
	    "Bad request: this node is a client, so it holds none of the cluster's data");
	fake.admin_start = TV_EUNREACH;
	fake_is("GET", "/v1/operator/raft/recover", NULL, 500, "raftd is not running on this node");
	fake.admin_start = TV_OK;
	buf_done(&packed);
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		status_and_operator, autopilot_configuration, autopilot_health, raft_recover_from_elsewhere,
		raft_recover,
	};

	return api_kit_main("api_operator", tests, sizeof(tests) / sizeof(tests[0]));
}
