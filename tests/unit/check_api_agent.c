/* The agent, events, queries and snapshots at the API: request to operation, reply to answer. */
#include <jansson.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/uuid.h"
#include "tests/unit/api_kit.h"

/* -- agent ------------------------------------------------------------------------------ */

static struct member_tag server_tags[] = {
	{ { (const uint8_t *)"role", 4 }, { (const uint8_t *)"server", 6 } }, { { (const uint8_t *)"dc", 2 },
	{ (const uint8_t *)"dc1", 3 } },
	{ { (const uint8_t *)"id", 2 }, { (const uint8_t *)"x", 1 } }, { { (const uint8_t *)"raft_port", 9 },
	{ (const uint8_t *)"8300", 4 } },
	{ { (const uint8_t *)"vsn", 3 }, { (const uint8_t *)"9", 1 } },
};

#define COORD_JSON "{\"Vec\":[0.25,0,0,0,0,0,0,-1],\"Error\":0.5,\"Adjustment\":-0.125,\"Height\":0.00001}"

/* An entry of MSG_GOSSIP_COORDS. */
static void
put_coord(struct buf *b, const char *name)
{
	mpw_array(b, 5);
	mpw_cstr(b, name);
	mpw_f64(b, 0.5);
	mpw_f64(b, -0.125);
	mpw_f64(b, 1e-5);
	mpw_array(b, 8);
	for (int i = 0; i < 8; i++)
		mpw_f64(b, i == 0 ? 0.25 : i == 7 ? -1 : 0);
}

static void
one_coord(struct buf *b, const char *name)
{
	mpw_array(b, 1);
	put_coord(b, name);
}

START_TEST(members)
{
	struct member list[2] = {
		{ .name = span_str("n1"), .addr = { 127, 0, 0, 1 }, .addr_len = 4, .port = 8301, .status = MEMBER_ALIVE,
		    .vsn = { 1, 5, 2, 2, 5, 4 }, .tags = server_tags, .tag_count = 5 },
		{ .name = span_str("plain"), .addr = { 127, 0, 0, 2 }, .addr_len = 4, .port = 1,
		    .status = MEMBER_FAILED,
		    .tags = server_tags, .tag_count = 1 },
	};

	fake.members = list;
	fake.member_count = 2;
	fake_is("GET", "/v1/agent/members", NULL, 200,
	    "[{\"Name\":\"n1\",\"Addr\":\"127.0.0.1\",\"Port\":8301,\"Tags\":{\"role\":\"consul\",\"port\":\"8300\",\"vsn\":\"2\","
	    "\"vsn_min\":\"2\",\"vsn_max\":\"3\",\"raft_vsn\":\"3\",\"dc\":\"dc1\",\"id\":\"x\",\"raft_port\":\"8300\"},\"Status\":1,"
	    "\"ProtocolMin\":1,\"ProtocolMax\":5,\"ProtocolCur\":2,\"DelegateMin\":2,\"DelegateMax\":5,\"DelegateCur\":4},"
	    "{\"Name\":\"plain\",\"Addr\":\"127.0.0.2\",\"Port\":1,\"Tags\":{\"role\":\"server\"},\"Status\":4,"
	    "\"ProtocolMin\":0,\"ProtocolMax\":0,\"ProtocolCur\":0,\"DelegateMin\":0,\"DelegateMax\":0,\"DelegateCur\":0}]");
	fake_is("GET", "/v1/agent/members?wan=1", NULL, 200, "[]");
	fake_is("GET", "/v1/agent/members?segment=x", NULL, 500,
	    "Network segments are not supported in this version of Consul");
	fake_is("GET", "/v1/agent/members?segment=x&wan", NULL, 400, "Cannot provide a segment with wan=true");

	struct buf info = BUF_INIT(4096), coords = BUF_INIT(4096);
	mpw_map(&info, 1);
	mpw_cstr(&info, "raft");
	mpw_map(&info, 3);
	mpw_cstr(&info, "sync_histogram");		/* nothing that people read */
	mpw_cstr(&info, "0 0 0 0 0");
	mpw_cstr(&info, "state");
	mpw_cstr(&info, "Leader");
	mpw_cstr(&info, "term");
	mpw_cstr(&info, "3");
	struct request *r = fake_begin("GET", "/v1/agent/self", NULL, NULL);
	ck_assert_str_eq(fake.admin_arg, "n1");
	one_coord(&coords, "n1");
	fake.coords_done(fake.admin_ctx, TV_OK, SPAN_NONE, buf_span(&coords));
	fake.info_done(fake.admin_ctx, buf_span(&info));
	fake_answered(r, 200, NULL);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body),
	    "\"Stats\":{\"raft\":{\"state\":\"Leader\",\"term\":\"3\",\"protocol_version\":\"3\"},"
	    "\"agent\":{\"check_monitors\":\"0\",\"check_ttls\":\"0\",\"checks\":\"2\",\"services\":\"1\"},\"build\":{"));
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body),
	    "\"version_metadata\":\"triumvir." TV_VERSION "\"},\"consul\":{\"acl\":\"disabled\","));
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "\"DebugConfig\":{\"Datacenter\":\"dc1\",\"NodeName\":\"n1\","));
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "\"Member\":{\"Name\":\"n1\",\"Addr\":\"127.0.0.1\""));
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "\"NodeID\":\"11111111-2222-3333-4444-555555555555\""));
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "\"Coord\":" COORD_JSON ","));
	fake_end(r);
	r = fake_begin("GET", "/v1/agent/self", NULL, NULL);
	fake.coords_done(fake.admin_ctx, TV_EPERM, span_str("off"), SPAN_NONE);
	fake.info_done(fake.admin_ctx, buf_span(&info));
	fake_answered(r, 200, NULL);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "\"Coord\":null,"));
	fake_end(r);
	fake_is("GET", "/v1/agent/version", NULL, 200, "{\"SHA\":\"" TV_VERSION "\",\"BuildDate\":\"1970-01-01T00:00:01Z\","
	    "\"HumanVersion\":\"1.10.0+triumvir." TV_VERSION "\",\"FIPS\":\"\"}");
	buf_done(&coords);
	buf_done(&info);
}
END_TEST

/* An open file with this in it. */
static int
file_with(const char *text)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	return fd;
}

static json_t *
ask_host(void)
{
	struct request *r = fake_begin("GET", "/v1/agent/host", NULL, NULL);
	json_t *host;

	fake_answered(r, 200, NULL);
	host = json_loads(buf_cstr(&r->answer.body), JSON_REJECT_DUPLICATES, NULL);
	ck_assert_msg(host != NULL, "%s", buf_cstr(&r->answer.body));
	fake_end(r);
	return host;
}

/* Is it just this? */
static void
json_is(json_t *found, const char *want)
{
	char *text = json_dumps(found, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);

	ck_assert_str_eq(text, want);
	free(text);
}

START_TEST(host)
{
	static char nowhere[] = "/nowhere";
	struct host known = fake_host;
	json_t *h, *memory;

	/* What the shipped unit leaves: no /proc but our own. */
	h = ask_host();
	memory = json_object_get(h, "Memory");
	ck_assert_int_gt(json_integer_value(json_object_get(memory, "total")), 0);
	ck_assert_ptr_null(json_object_get(memory, "available"));	/* nobody knows */
	ck_assert_ptr_null(json_object_get(memory, "used"));
	ck_assert_uint_gt(json_array_size(json_object_get(h, "CPU")), 0);
	ck_assert_ptr_nonnull(json_object_get(json_object_get(h, "Host"), "kernelVersion"));
	ck_assert_ptr_null(json_object_get(json_object_get(h, "Host"), "platform"));
	ck_assert_int_gt(json_integer_value(json_object_get(json_object_get(h, "Disk"), "total")), 0);
	json_is(json_object_get(h, "Errors"), "[\"/proc/meminfo: No such file or directory\",\"/proc/cpuinfo: No such file or "
	    "directory\"]");
	json_decref(h);

	fake_host = (struct host){ .platform = "debian", .version = "12", .family = "debian",
		.meminfo = file_with("MemTotal:  1000 kB\nMemFree:  300 kB\nMemAvailable:  600 kB\nCached:  0 kB\nDirty:\n"),
		.cpuinfo = file_with("processor\t: 0\nvendor_id\t: X\"Y\nmodel\t\t: 7\nstepping\t: 3\nflags\t\t: fpu vme\n\n"
		    "processor\t: 2\ncpu MHz\t\t: 2400.123\nflags\t\t:\n") };
	h = ask_host();
	memory = json_object_get(h, "Memory");
	json_is(json_object_get(memory, "available"), "614400");
	json_is(json_object_get(memory, "dirty"), "0");
	json_is(json_object_get(h, "CPU"), "[{\"cores\":1,\"cpu\":0,\"flags\":[\"fpu\",\"vme\"],\"model\":\"7\",\"stepping\":3,"
	    "\"vendorId\":\"X\\\"Y\"},{\"cores\":1,\"cpu\":2,\"flags\":[],\"mhz\":2400}]");
	json_is(json_object_get(json_object_get(h, "Host"), "platformVersion"), "\"12\"");
	json_is(json_object_get(h, "Errors"), "null");
	json_decref(h);
	close(fake_host.meminfo);
	close(fake_host.cpuinfo);
	fake_host = known;
	fake_cluster.data_dir = nowhere;
	h = ask_host();
	json_is(json_object_get(h, "Disk"), "{\"path\":\"/nowhere\"}");
	json_is(json_array_get(json_object_get(h, "Errors"), 2), "\"data_dir: No such file or directory\"");
	json_decref(h);
}
END_TEST

/* What this machine says of itself stays the same, and its id does not show. */
START_TEST(host_is_opened)
{
	struct host a, b;

	host_open(&a);
	host_open(&b);
	ck_assert_int_ge(a.meminfo, 0);
	ck_assert_str_eq(a.id, b.id);
	ck_assert_str_eq(a.platform, b.platform);
	ck_assert(strpbrk(a.platform, "\" =\n") == NULL);
	ck_assert(a.id[0] == '\0' || uuid_parse(span_str(a.id), NULL));
	close(a.meminfo);
	close(a.cpuinfo);
	close(b.meminfo);
	close(b.cpuinfo);
}
END_TEST

/* Numbers and nothing else: an id may look like one, and would be no JSON with a zero before it. */
START_TEST(metrics)
{
	static const char *const values[][3] = {
		{ "raft", "term", "3" }, { "raft", "state", "Leader" }, { "raft", "disk_full", "0" }, { "raftd", "store_id", "007" },
		{ "rpcd", "calls", "18446744073709551615" }, { "keyring", "keys", "4126732901255890" }, { "state", "kv", "" },
	};
	const unsigned count = sizeof(values) / sizeof(values[0]);
	struct request *r = fake_begin("GET", "/v1/agent/metrics", NULL, NULL);
	struct buf info = BUF_INIT(4096);

	mpw_map(&info, count);
	for (unsigned i = 0; i < count; i++) {
		mpw_cstr(&info, values[i][0]);
		mpw_map(&info, 1);
		mpw_cstr(&info, values[i][1]);
		mpw_cstr(&info, values[i][2]);
	}
	fake.info_done(fake.admin_ctx, buf_span(&info));
	fake_answered(r, 200, NULL);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "\"Value\":0,\"Labels\":{}},"
	    "{\"Name\":\"triumvir.raft.term\",\"Value\":3,\"Labels\":{}},"
	    "{\"Name\":\"triumvir.raft.disk_full\",\"Value\":0,\"Labels\":{}},"
	    "{\"Name\":\"triumvir.rpcd.calls\",\"Value\":18446744073709551615,\"Labels\":{}}],\"Points\":["));
	fake_end(r);
	buf_done(&info);
}
END_TEST

/* With these names and values in sections of one value each. */
static struct request *
metrics_of(const char *target, const char *const (*values)[3], unsigned count)
{
	struct request *r = fake_begin("GET", target, NULL, NULL);
	struct buf info = BUF_INIT(4096);

	mpw_map(&info, count);
	for (unsigned i = 0; i < count; i++) {
		mpw_cstr(&info, values[i][0]);
		mpw_map(&info, 1);
		mpw_cstr(&info, values[i][1]);
		mpw_cstr(&info, values[i][2]);
	}
	fake.info_done(fake.admin_ctx, buf_span(&info));
	buf_done(&info);
	return r;
}

/* Two requests, of 1 and 3 ms.  Sections come in any order and leave in ours; what is none is left out. */
START_TEST(metrics_of_durations)
{
	static const char *const values[][3] = {
		{ "rpcd", "http_histogram", "2 4000000 1000000 3000000 10000000000000 35:1 41:1" },
		{ "raft", "sync_histogram", "nonsense" }, { "raft-x", "y\"z", "8" }, { "raft", "syncs", "7" },
	};
	const char *at;
	struct request *r;

	r = metrics_of("/v1/agent/metrics", values, 4);
	fake_answered(r, 200, NULL);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "\"Samples\":[{\"Name\":\"consul.api.http\",\"Count\":2,\"Sum\":4,"
	    "\"Min\":1,\"Max\":3,\"Mean\":2,\"Stddev\":1.414213562373095,\"Labels\":{}}]}"));
	fake_end(r);
	fake_is("GET", "/v1/agent/metrics?format=prometheus", NULL, 415,
	    "Prometheus is not enabled since its retention time is not positive");
	fake_conf.prometheus_retention_time = MONO_S(1);
	r = metrics_of("/v1/agent/metrics?format=prometheus", values, 4);
	fake_answered(r, 200, NULL);
	ck_assert_str_eq(fake_header(r, "Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
	at = strstr(buf_cstr(&r->answer.body), "# HELP triumvir_raft_x_y_z ");
	ck_assert_ptr_nonnull(at);
	at = strstr(at, "# TYPE triumvir_raft_syncs counter\ntriumvir_raft_syncs 7\n");
	ck_assert_ptr_nonnull(at);
	at = strstr(at, "# TYPE consul_api_http summary\nconsul_api_http{quantile=\"0.5\"} 1.024\n"
	    "consul_api_http{quantile=\"0.9\"} 3\nconsul_api_http{quantile=\"0.99\"} 3\nconsul_api_http_sum 4\n"
	    "consul_api_http_count 2\n");
	ck_assert_ptr_nonnull(at);
	at = strstr(at, "_bucket{le=\"0.000512\"} 0\ntriumvir_rpcd_http_seconds_bucket{le=\"0.001024\"} 1\n"
	    "triumvir_rpcd_http_seconds_bucket{le=\"0.002048\"} 1\ntriumvir_rpcd_http_seconds_bucket{le=\"0.004096\"} 2\n");
	ck_assert_ptr_nonnull(at);
	ck_assert_ptr_nonnull(strstr(at, "{le=\"67.108864\"} 2\ntriumvir_rpcd_http_seconds_bucket{le=\"+Inf\"} 2\n"
	    "triumvir_rpcd_http_seconds_sum 0.004\ntriumvir_rpcd_http_seconds_count 2\n"));
	ck_assert_ptr_null(strstr(buf_cstr(&r->answer.body), "raft_sync_seconds"));
	fake_end(r);
}
END_TEST

/* One family, and a line for each server. */
START_TEST(metrics_of_peers)
{
	struct request *r = fake_begin("GET", "/v1/agent/metrics", NULL, NULL);
	struct buf info = BUF_INIT(4096);

	mpw_map(&info, 1);
	mpw_cstr(&info, "raft");
	mpw_map(&info, 4);
	for (unsigned i = 0; i < 4; i++) {
		static const char *const names[] = { "is_leader", "peer_lag.n.2", "peer_lag.n3", "term" };

		mpw_cstr(&info, names[i]);
		mpw_cstr(&info, i == 0 ? "1" : i == 1 ? "17" : "0");
	}
	fake.info_done(fake.admin_ctx, buf_span(&info));
	fake_answered(r, 200, NULL);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "{\"Name\":\"triumvir.raft.is_leader\",\"Value\":1,\"Labels\":{}},"
	    "{\"Name\":\"consul.server.isLeader\",\"Value\":1,\"Labels\":{}},"
	    "{\"Name\":\"triumvir.raft.peer_lag\",\"Value\":17,\"Labels\":{\"peer\":\"n.2\"}},"
	    "{\"Name\":\"triumvir.raft.peer_lag\",\"Value\":0,\"Labels\":{\"peer\":\"n3\"}},"
	    "{\"Name\":\"triumvir.raft.term\",\"Value\":0,\"Labels\":{}}"));
	fake_end(r);
	fake_conf.prometheus_retention_time = MONO_S(1);
	r = fake_begin("GET", "/v1/agent/metrics?format=prometheus", NULL, NULL);
	fake.info_done(fake.admin_ctx, buf_span(&info));
	fake_answered(r, 200, NULL);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "# TYPE triumvir_raft_peer_lag gauge\n"
	    "triumvir_raft_peer_lag{peer=\"n.2\"} 17\ntriumvir_raft_peer_lag{peer=\"n3\"} 0\n# HELP triumvir_raft_term "));
	fake_end(r);
	buf_done(&info);
}
END_TEST

/* Asks, and gossipd gives this answer. */
static void
coords_are(const char *target, enum tv_err err, const char *text, struct span list, unsigned status, const char *want)
{
	struct request *r = fake_begin("GET", target, NULL, NULL);

	fake.coords_done(fake.admin_ctx, err, span_str(text), list);
	fake_answered(r, status, want);
	fake_end(r);
}

START_TEST(agent_coordinates)
{
	struct buf list = BUF_INIT(4096);

	mpw_array(&list, 2);
	put_coord(&list, "n1");
	put_coord(&list, "plain serf");
	coords_are("/v1/agent/coordinate", TV_OK, "", buf_span(&list), 200, "[{\"Node\":\"n1\",\"Segment\":\"\",\"Coord\":"
	    COORD_JSON "},{\"Node\":\"plain serf\",\"Segment\":\"\",\"Coord\":" COORD_JSON "}]");
	ck_assert_str_eq(fake.admin_arg, "");
	ck_assert(fake.admin_pool == POOL_LAN);
	coords_are("/v1/agent/coordinate/plain%20serf?wan", TV_OK, "", buf_span(&list), 200,
	    "{\"Node\":\"plain serf\",\"Segment\":\"\",\"Coord\":" COORD_JSON "}");
	ck_assert_str_eq(fake.admin_arg, "plain serf");
	ck_assert(fake.admin_pool == POOL_WAN);
	coords_are("/v1/agent/coordinate/n9", TV_OK, "", buf_span(&list), 404, "No coordinate of \"n9\" is known here");
	coords_are("/v1/agent/coordinate", TV_OK, "", span_of(list.data, list.len - 3), 500,
	    "malformed reply from gossipd");
	coords_are("/v1/agent/coordinate", TV_EPERM, "coordinates are off", SPAN_NONE, 401, "coordinates are off");
	coords_are("/v1/agent/coordinate", TV_EINVAL, "not in the WAN pool", SPAN_NONE, 400, "not in the WAN pool");
	coords_are("/v1/agent/coordinate", TV_ECLOSED, "gossipd went away", SPAN_NONE, 500, "gossipd went away");
	fake_is("GET", "/v1/agent/coordinate/", NULL, 400, "Missing node name");
	fake.admin_start = TV_EUNREACH;
	fake_is("GET", "/v1/agent/coordinate", NULL, 500, "gossipd is not running on this node");
	buf_done(&list);
}
END_TEST

START_TEST(administration)
{
	struct request *r = fake_begin("PUT", "/v1/agent/join/127.0.0.2:8301?wan=1", NULL, NULL);

	ck_assert(fake.admin_pool == POOL_WAN);
	ck_assert_str_eq(fake.admin_arg, "127.0.0.2:8301");
	fake.admin_done(fake.admin_ctx, TV_OK, span_str(""), 1);
	fake_answered(r, 200, "");
	fake_end(r);
	r = fake_begin("PUT", "/v1/agent/join/x", NULL, NULL);
	fake.admin_done(fake.admin_ctx, TV_ETIMEOUT, span_str("no answer from x"), 0);
	fake_answered(r, 500, "no answer from x");
	fake_end(r);
	r = fake_begin("PUT", "/v1/agent/join/x", NULL, NULL);
	fake.admin_done(fake.admin_ctx, TV_EUNREACH, span_str("dial tcp 10.0.0.9:8301: i/o timeout"), 0);
	fake_answered(r, 500, "1 error occurred:\n\t* Failed to join x: dial tcp 10.0.0.9:8301: i/o timeout\n\n");
	fake_end(r);
	r = fake_begin("PUT", "/v1/agent/join/x", NULL, NULL);
	fake.admin_done(fake.admin_ctx, TV_EUNREACH, span_str("Failed to resolve x: no such host"), 0);
	fake_answered(r, 500, "1 error occurred:\n\t* Failed to resolve x: no such host\n\n");
	fake_end(r);
	fake.admin_start = TV_EUNREACH;
	fake_is("PUT", "/v1/agent/join/x", NULL, 500, "gossipd is not running on this node");
	fake.admin_start = TV_OK;
	r = fake_begin("PUT", "/v1/agent/force-leave/n7?prune", NULL, NULL);
	ck_assert(fake.admin_flag);
	fake.admin_done(fake.admin_ctx, TV_ENOENT, span_str(""), 0);
	fake_answered(r, 500, "agent: No node found with name 'n7'");
	fake_end(r);
}
END_TEST

START_TEST(leaving)
{
	struct request *r = fake_begin("PUT", "/v1/agent/leave", NULL, NULL);

	ck_assert(!fake.admin_flag);
	fake.admin_done(fake.admin_ctx, TV_ECONFLICT, span_str("would lose quorum: 2 of 3"), 0);
	fake_answered(r, 500, "would lose quorum: 2 of 3");
	fake_end(r);
	ck_assert_uint_eq(fake.quits, 0);
	r = fake_begin("PUT", "/v1/agent/leave?token=shown", NULL, NULL);
	ck_assert_str_eq(fake.admin_arg, "shown");	/* raftd judges it */
	fake.admin_done(fake.admin_ctx, TV_EPERM, span_str("Permission denied: Missing agent:write on n1"), 0);
	fake_answered(r, 403, "Permission denied: Missing agent:write on n1");
	fake_end(r);
	ck_assert_uint_eq(fake.quits, 0);
	r = fake_begin("PUT", "/v1/agent/leave?force", NULL, NULL);
	ck_assert(fake.admin_flag);
	fake.admin_done(fake.admin_ctx, TV_OK, span_str(""), 0);
	fake_answered(r, 200, "");
	ck_assert_uint_eq(fake.quits, 0);		/* not before the answer has left */
	fake_end(r);
	ck_assert_uint_eq(fake.quits, 1);
	r = fake_begin("PUT", "/v1/agent/leave", NULL, NULL);
	fake_end(r);					/* the client goes; the leave goes on */
	fake.admin_done(fake.admin_ctx, TV_OK, span_str(""), 0);
	ck_assert_uint_eq(fake.quits, 2);
}
END_TEST

START_TEST(agent_checks)
{
	static const struct { const char *body; unsigned status; const char *answer; } v[] = {
		{ "{\"TTL\":\"10s\"}", 400, "Missing check name" },
		{ "{\"Name\":\"c\"}", 400, "Invalid check: TTL must be > 0 for TTL checks" },
		{ "{\"Name\":\"c\",\"TTL\":\"10s\",\"Interval\":\"10s\"}", 400,
		    "Invalid check: Interval and TTL cannot both be specified" },
		{ "{\"Name\":\"c\",\"TTL\":\"10s\",\"Status\":\"nice\"}", 400, "Bad check status" },
		{ "{\"Name\":\"c\",\"Args\":[\"/bin/true\"],\"Interval\":\"10s\"}", 500,
		    "Scripts are disabled on this agent from remote "
		    "calls; to enable, configure 'enable_script_checks' to true" },
		{ "{\"Name\":\"c\",\"TTL\":\"10s\",\"ServiceID\":\"s\"}", 500, "ServiceID \"s\" does not exist" },
		{ "{\"Name\":\"c\",\"ttl\":\"10s\",\"bogus\":1}", 400,
		    "Request decode failed: json: unknown field \"bogus\"" },
		{ "{\"Name\":\"c\",\"TTL\":\"30s\",\"check_id\":\"my-id\",\"deregister_critical_service_after\":\"90m\"}", 200, "" },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		fake_is("PUT", "/v1/agent/check/register", v[i].body, v[i].status, v[i].answer);
	ck_assert_str_eq(fake.check_id, "my-id");
	ck_assert(fake.registered.ttl == 30000000000 &&
	    fake.registered.deregister_after == 5400000000000);
	fake_is("PUT", "/v1/agent/check/warn/my-id?note=all+good", NULL, 200, "");
	ck_assert_str_eq(fake.check_status, "warning");
	ck_assert_str_eq(fake.check_output, "all good");
	fake_is("PUT", "/v1/agent/check/update/my-id", "{\"Status\":\"passing\",\"Output\":\"o\"}", 200, "");
	ck_assert_str_eq(fake.check_status, "passing");
	fake_is("PUT", "/v1/agent/check/update/my-id", "{\"Status\":\"happy\"}", 400, "Invalid check status: 'happy'");
	fake.checks_err = TV_ENOENT;
	fake_is("PUT", "/v1/agent/check/pass/x", NULL, 500, "CheckID \"x\" does not have associated TTL");
	fake_is("PUT", "/v1/agent/check/deregister/x", NULL, 200, "");
	struct request *r = fake_begin("GET", "/v1/agent/checks", NULL, NULL);
	fake_answered(r, 200, NULL);
	ck_assert(span_starts(buf_span(&r->answer.body), span_str("{\"c1\":{\"Node\":\"\",\"CheckID\":\"c1\"")));
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "},\"c2\":{"));
	fake_end(r);
}
END_TEST

/* Nothing that this machine would execute can be registered: in no spelling, with or without a TTL beside it (S188). */
START_TEST(no_check_runs_a_program)
{
	static const char *const kinds[] = {
		"\"Args\":[\"/bin/sh\",\"-c\",\"id\"]", "\"args\":[\"/bin/true\"]", "\"ARGS\":[\"/bin/true\"]",
		"\"ScriptArgs\":[\"/bin/true\"]", "\"scriptargs\":[\"/bin/true\"]", "\"script_args\":[\"/bin/true\"]",
		"\"Script\":\"/bin/true\"", "\"script\":\"/bin/true\"", "\"Command\":\"/bin/true\"",
		"\"DockerContainerID\":\"c\",\"Shell\":\"/bin/sh\",\"Args\":[\"id\"]", "\"docker_container_id\":\"c\"",
		"\"HTTP\":\"http://127.0.0.1/\",\"args\":[\"id\"]", "\"GRPC\":\"h:1\",\"Args\":[\"id\"]",
		"\"AliasNode\":\"n2\",\"Args\":[\"id\"]", "\"UDP\":\"h:1\",\"Args\":[\"id\"]", "\"OSService\":\"ssh\"",
	};
	static const char *const more[] = { "", ",\"Interval\":\"10s\"", ",\"TTL\":\"10s\"", ",\"Interval\":\"10s\",\"TTL\":\"1s\"" };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		for (size_t m = 0; m < sizeof(more) / sizeof(more[0]); m++) {
			char body[512];

			snprintf(body, sizeof(body), "{\"Name\":\"c\",%s%s}", kinds[i], more[m]);
			struct request *r = fake_begin("PUT", "/v1/agent/check/register", body, NULL);
			ck_assert_msg(r->answered && r->answer.status >= 400, "%s: %u", body, r->answer.status);
			fake_end(r);
			snprintf(body, sizeof(body), "{\"Name\":\"s\",\"Checks\":[{\"TTL\":\"1s\"},{%s%s}]}", kinds[i], more[m]);
			r = fake_begin("PUT", "/v1/agent/service/register", body, NULL);
			ck_assert_msg(r->answered && r->answer.status >= 400, "%s: %u", body, r->answer.status);
			fake_end(r);
			ck_assert_msg(fake.check_id[0] == '\0' && fake.registered.ttl == 0, "%s", body);
		}
	fake_is("PUT", "/v1/agent/check/register", "{\"Name\":\"c\",\"TTL\":\"10s\"}", 200, "");
	ck_assert(fake.registered.ttl > 0);
}
END_TEST

START_TEST(agent_services)
{
	static const struct { const char *body; unsigned status; const char *answer; } v[] = {
		{ "{}", 400, "Missing service name" },
		{ "{\"Name\":\"w\",\"Address\":\"::\"}", 400, "Invalid service address" },
		{ "{\"Name\":\"w\",\"Port\":70000}", 400, "Invalid service port: it must be between 0 and 65535" },
		{ "{\"Name\":\"w\",\"Bogus\":1}", 400, "Request decode failed: json: unknown field \"Bogus\"" },
		{ "{\"Name\":\"w\",\"Check\":{\"TTL\":\"1s\",\"Status\":\"x\"}}", 400,
		    "Status for checks must 'passing', 'warning', 'critical'" },
		{ "{\"Name\":\"w\",\"Check\":{}}", 200, "" },
		{ "{\"id\":\"w1\",\"name\":\"w\",\"enable_tag_override\":true,\"checks\":[{\"ttl\":\"1s\"},{\"ttl\":\"2s\"}]}", 200, "" },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		fake_is("PUT", "/v1/agent/service/register", v[i].body, v[i].status, v[i].answer);
	ck_assert_str_eq(fake.check_id, "w1");
	ck_assert(fake.registered.service.EnableTagOverride && fake.registered_checks == 2 && !fake.replaced);
	fake_is("PUT", "/v1/agent/service/register?replace-existing-checks", "{\"Name\":\"w\"}", 200, "");
	ck_assert(fake.replaced);
	fake_is("PUT", "/v1/agent/service/register?replace-existing-checks=false", "{\"Name\":\"w\"}", 200, "");
	ck_assert(!fake.replaced);
	fake_is("PUT", "/v1/agent/service/register?token=t0ken", "{\"Name\":\"w\"}", 200, "");
	fake.checks_err = TV_ELIMIT;
	fake_is("PUT", "/v1/agent/service/register", "{\"Name\":\"w\"}", 500,
	    "too many services or checks on this node (limit: checks_max in rpcd.conf)");
	fake.checks_err = TV_ENOENT;
	fake_is("PUT", "/v1/agent/service/deregister/x", NULL, 200, "");
	fake_is("GET", "/v1/agent/service/x", NULL, 404, "unknown service ID: x");
	fake_is("GET", "/v1/agent/services?filter=Nope==1", NULL, 500,
	    "Failed to create boolean expression evaluator: Selector \"Nope\" is not valid");
	fake_is("GET", "/v1/agent/services?filter=Service==other", NULL, 200, "{}");
}
END_TEST

START_TEST(agent_maintenance)
{
	static const char *const paths[] = { "/v1/agent/maintenance", "/v1/agent/service/maintenance/s1" };
	static const char *const ids[] = { "_node_maintenance", "_service_maintenance:s1" };

	for (int i = 0; i < 2; i++) {
		char path[128];

		fake_is("PUT", paths[i], NULL, 400, "Missing value for enable");
		snprintf(path, sizeof(path), "%s?enable=yes", paths[i]);
		fake_is("PUT", path, NULL, 400, "Invalid value for enable: \"yes\"");
		snprintf(path, sizeof(path), "%s?enable=true&reason=broken+disk", paths[i]);
		fake.check_id[0] = '\0';
		fake.checks_err = TV_OK;
		if (i == 0) {			/* the fake has no services to register checks of */
			fake_is("PUT", path, NULL, 200, "");
			ck_assert_str_eq(fake.check_id, ids[i]);
		}
		snprintf(path, sizeof(path), "%s?enable=false", paths[i]);
		fake.check_id[0] = '\0';
		fake_is("PUT", path, NULL, 200, "");
		ck_assert_str_eq(fake.check_id, "");	/* there was none */
	}
	fake_is("PUT", "/v1/agent/service/maintenance/s9?enable=1", NULL, 404, "No service registered with ID \"s9\"");
	fake_is("PUT", "/v1/agent/service/maintenance/?enable=1", NULL, 400, "Missing service ID");
}
END_TEST

START_TEST(agent_service_waits)
{
	char path[128];
	struct request *r = fake_begin("GET", "/v1/agent/service/s1", NULL, NULL);

	fake_answered(r, 200, NULL);
	ck_assert_str_eq(r->answer.headers[0].name, "X-Consul-ContentHash");
	snprintf(path, sizeof(path), "/v1/agent/service/s1?wait=9s&hash=%s", r->answer.headers[0].value);
	fake_end(r);
	for (int timed_out = 0; timed_out < 2; timed_out++) {
		r = fake_begin("GET", path, NULL, NULL);
		ck_assert(!r->answered && fake.waiting != NULL && fake.wait_time.ns > MONO_S(8).ns);
		fake.waiting->fn(fake.waiting->ctx, timed_out);
		ck_assert_int_eq(r->answered, timed_out);	/* nothing has changed */
		if (timed_out)
			fake_answered(r, 200, NULL);
		fake_end(r);
	}
	fake_is("GET", "/v1/agent/service/s1?hash=x&wait=abc", NULL, 400, "Invalid wait time");
	r = fake_begin("GET", "/v1/agent/service/s1?hash=other", NULL, NULL);
	fake_answered(r, 200, NULL);
	fake_end(r);
}
END_TEST

START_TEST(agent_health)
{
	struct request *r = fake_begin("GET", "/v1/agent/health/service/name/web", NULL, NULL);

	fake_answered(r, 429, NULL);		/* c1 of the node passes, c2 warns */
	ck_assert(span_starts(buf_span(&r->answer.body), span_str("[{\"AggregatedStatus\":\"warning\",\"Service\":{\"ID\":\"s1\"")));
	ck_assert_str_eq(r->answer.headers[0].value, "warning");
	fake_end(r);
	fake_is("GET", "/v1/agent/health/service/id/s1?format=text", NULL, 429, "warning");
	fake_is("GET", "/v1/agent/health/service/id/none", NULL, 404,
	    "{\"AggregatedStatus\":\"critical\",\"Service\":null,\"Checks\":null}");
	struct request *none = fake_begin("GET", "/v1/agent/health/service/id/none?format=text", NULL, NULL);
	fake_answered(none, 404, "ServiceId none not found");
	ck_assert_str_eq(fake_header(none, "X-Consul-Reason"), "ServiceId none not found");
	ck_assert_str_eq(fake_header(none, "Content-Type"), "application/json");
	fake_end(none);
	fake_is("GET", "/v1/agent/health/service/name/none", NULL, 404, "[]");
	fake_is("GET", "/v1/agent/health/service/name/none?format=text", NULL, 404, "ServiceName none Not Found");
	fake_is("GET", "/v1/agent/health/service/id/", NULL, 400, "Bad request: Missing serviceID");
}
END_TEST

/* -- events and queries ----------------------------------------------------------- */

#define EVENT_ID "00000000-0000-0001-0000-000000000002"
#define EVENT_JSON(name_, node_) "{\"ID\":\"" EVENT_ID "\",\"Name\":\"" name_ "\",\"Payload\":\"cA==\",\"NodeFilter\":\"" \
	node_ "\",\"ServiceFilter\":\"\",\"TagFilter\":\"\",\"Version\":1,\"LTime\":4}"

static struct user_event
an_event(const char *name, const char *node)
{
	return (struct user_event){ .ID = span_str(EVENT_ID), .Name = span_str(name), .Payload = span_str("p"),
		.NodeFilter = span_str(node), .Version = 1, .LTime = 4 };
}

START_TEST(event_fire)
{
	struct user_event e = an_event("deploy", "");
	struct event_fire args = { .Coalesce = false };
	struct request *r = fake_begin("PUT", "/v1/event/fire/deploy?node=n1&service=api&tag=v.&dc=dc2&coalesce", "bytes",
	    NULL);

	asked(OP_EVENT_FIRE, &args);
	span_is(fake.q.dc, "dc2");
	span_is(args.Name, "deploy");
	span_is(args.Payload, "bytes");
	span_is(args.NodeFilter, "n1");
	span_is(args.ServiceFilter, "api");
	span_is(args.TagFilter, "v.");
	ck_assert(args.Coalesce);
	reply_record(&user_event_schema, &e);
	fake_answered(r, 200, EVENT_JSON("deploy", ""));
	fake_end(r);
	fake_is("PUT", "/v1/event/fire/", NULL, 400, "Missing name");
	fake_is("PUT", "/v1/event/fire/a?tag=x", NULL, 500, "Cannot provide tag filter without service filter");
	fake_answered(r = fake_begin("PUT", "/v1/event/fire/a?node=%5B", NULL, NULL), 500, NULL);
	ck_assert_int_eq(strncmp(buf_cstr(&r->answer.body), "Invalid node filter: ", 21), 0);
	fake_end(r);
	r = fake_begin("PUT", "/v1/event/fire/a", NULL, NULL);
	reply(TV_ELIMIT, "user event exceeds configured limit of 512 bytes before encoding");
	fake_answered(r, 500, "user event exceeds configured limit of 512 bytes before encoding");
	fake_end(r);
}
END_TEST

START_TEST(event_list)
{
	struct user_event two[] = { an_event("a", "^web"), an_event("b", "") };
	struct request *r;

	fake.events = two;
	r = fake_begin("GET", "/v1/event/list?name=none", NULL, NULL);
	fake_answered(r, 200, "[]");
	ck_assert_str_eq(fake_header(r, "X-Consul-Index"), "1");
	ck_assert_ptr_null(fake_header(r, "X-Consul-KnownLeader"));
	fake_end(r);
	fake.event_count = 2;
	r = fake_begin("GET", "/v1/event/list", NULL, NULL);
	fake_answered(r, 200, "[" EVENT_JSON("a", "^web") "," EVENT_JSON("b", "") "]");
	ck_assert_str_eq(fake_header(r, "X-Consul-Index"), "3");
	fake_end(r);
	fake_is("GET", "/v1/event/list?node=web", NULL, 200, "[" EVENT_JSON("a", "^web") "]");
	fake_is("GET", "/v1/event/list?service=x", NULL, 200, "[]");
	fake_is("GET", "/v1/event/list?index=x", NULL, 400, "Invalid index");
	fake_is("GET", "/v1/event/list?index=1&wait=zz", NULL, 400, "Invalid wait time");
	fake_answered(r = fake_begin("GET", "/v1/event/list?tag=%28", NULL, NULL), 400, NULL);
	fake_end(r);
}
END_TEST

/* Another index is news, also a lower one; the same one after a wake-up is not. */
START_TEST(event_list_blocks)
{
	struct user_event e = an_event("a", "");
	struct request *r;

	fake.events = &e;
	fake.event_count = 1;
	fake_is("GET", "/v1/event/list?index=9&wait=10s", NULL, 200, "[" EVENT_JSON("a", "") "]");
	r = fake_begin("GET", "/v1/event/list?index=3&wait=10s", NULL, NULL);
	ck_assert(!r->answered);
	ck_assert_int_gt(fake.wait_time.ns, MONO_S(9).ns);
	fake_wake(false);
	ck_assert(!r->answered);
	e.ID = span_str("00000000-0000-0001-0000-000000000001");
	e.LTime = 4;
	fake_wake(false);
	fake_answered(r, 200, NULL);
	ck_assert_uint_eq(fake.woken, 1);
	ck_assert_str_eq(fake_header(r, "X-Consul-Index"), "1");
	fake_end(r);
	r = fake_begin("GET", "/v1/event/list?index=1&wait=10s", NULL, NULL);
	fake_wake(true);
	fake_answered(r, 200, NULL);
	fake_end(r);
	r = fake_begin("GET", "/v1/event/list?index=1&wait=10s", NULL, NULL);
	fake_end(r);			/* the client went away */
	ck_assert_ptr_null(fake.waiting);
}
END_TEST

static void
gossipd_says(struct buf *b)
{
	fake.call_done(fake.call_ctx, TV_OK, buf_span(b));
	buf_done(b);
}

START_TEST(query_asks_the_pool)
{
	static const uint8_t nodes[] = { 0, 0x92, 0xa2, 'n', '1', 0xa2, 'n', '2' };
	static const uint8_t tag[] = { 1, 0x82, 0xa4, 'E', 'x', 'p', 'r', 0xa3, '^', 's', '=', 0xa3, 'T', 'a', 'g',
		0xa4, 'r', 'o', 'l', 'e' };
	struct request *r = fake_begin("PUT", "/v1/agent/query/load?node=n1&tag=role=%5Es=&node=n2&timeout=1500ms&relay=2",
	    "why", NULL);
	struct rd in = rd_span_over(span_of(fake.call, fake.call_len));
	struct buf b = BUF_INIT(1000);

	ck_assert_uint_eq(fake.call_type, MSG_GOSSIP_QUERY);
	ck_assert_uint_eq(mpr_array(&in), 7);
	ck_assert_uint_eq(mpr_uint(&in, 1), POOL_LAN);
	span_is(mpr_bytes(&in, 99), "load");
	span_is(mpr_bytes(&in, 99), "why");
	ck_assert_uint_eq(mpr_array(&in), 2);
	ck_assert(span_eq(mpr_bytes(&in, 99), span_of(nodes, sizeof(nodes))));
	ck_assert(span_eq(mpr_bytes(&in, 99), span_of(tag, sizeof(tag))));
	ck_assert(mpr_bool(&in));
	ck_assert_uint_eq(mpr_uint(&in, 5), 2);
	ck_assert_uint_eq(mpr_uint(&in, UINT32_MAX), 1500);
	ck_assert_int_eq(rd_end(&in), TV_OK);
	mpw_array(&b, 4);
	mpw_uint(&b, 0);
	mpw_cstr(&b, "");
	mpw_array(&b, 3);
	for (int i = 0; i < 3; i++) {
		mpw_array(&b, 3);
		mpw_cstr(&b, i < 2 ? "n1" : "n\"2");
		mpw_bool(&b, i == 0);
		mpw_bin(&b, span_str(i == 0 ? "" : "up"));
	}
	mpw_uint(&b, 3);
	gossipd_says(&b);
	fake_answered(r, 200, "{\"Acks\":[\"n1\"],\"Responses\":[{\"From\":\"n1\",\"Payload\":\"dXA=\"},"
	    "{\"From\":\"n\\\"2\",\"Payload\":\"dXA=\"}],\"Alive\":3}");
	fake_end(r);
}
END_TEST

START_TEST(query_refusals)
{
	struct request *r;
	struct buf b = BUF_INIT(1000);

	fake_is("PUT", "/v1/agent/query/", NULL, 400, "Missing name");
	fake_is("PUT", "/v1/agent/query/a?tag=x", NULL, 400, "Bad request: write a tag filter as KEY=PATTERN");
	fake_is("PUT", "/v1/agent/query/a?relay=6", NULL, 400, "Bad request: invalid relay factor (0 to 5)");
	fake_is("PUT", "/v1/agent/query/a?timeout=2h", NULL, 400, "Bad request: invalid timeout (0s to 3600s)");
	fake_is("PUT", "/v1/agent/query-answer/12", NULL, 400,
	    "Bad request: a query ID is LTIME-NUMBER, as /v1/agent/queries shows it");
	fake.full = true;
	fake_is("PUT", "/v1/agent/query/a", NULL, 500, "gossipd is not running on this node");
	fake.full = false;
	r = fake_begin("PUT", "/v1/agent/query/a?no-ack", NULL, NULL);
	ck_assert(fake.call_done != NULL);
	fake_end(r);			/* the client went away: it is taken back */
	ck_assert(fake.call_done == NULL);
	r = fake_begin("PUT", "/v1/agent/query/a?no-ack", NULL, NULL);
	fake.call_done(fake.call_ctx, TV_ECLOSED, SPAN_NONE);
	fake_answered(r, 500, "gossipd closed the connection before it answered");
	fake_end(r);
	r = fake_begin("PUT", "/v1/agent/query-answer/12-34", "up", NULL);
	ck_assert_uint_eq(fake.call_type, MSG_GOSSIP_RESPOND);
	mpw_array(&b, 2);
	mpw_uint(&b, (uint64_t)-TV_ENOENT);
	mpw_cstr(&b, "it is over");
	gossipd_says(&b);
	fake_answered(r, 404, "it is over");
	fake_end(r);
}
END_TEST

START_TEST(monitor_streams)
{
	struct request *r = fake_begin("GET", "/v1/agent/monitor?loglevel=Debug&daemon=gossipd&logjson", NULL, NULL);
	char bytes[16];

	fake_answered(r, 200, "");
	ck_assert_ptr_nonnull(r->stream);
	ck_assert_uint_eq(r->stream(r, bytes, sizeof(bytes)), 5);
	ck_assert_int_eq(fake.monitor_level, LOG_LVL_DEBUG);
	ck_assert_uint_eq(fake.monitor_daemons, LOG_STREAM_GOSSIPD);
	ck_assert(fake.monitor_json);
	ck_assert_uint_eq(fake.monitors, 1);
	fake_end(r);
	ck_assert_uint_eq(fake.monitors, 0);
	ck_assert_ptr_null(r->stream);
	fake_is("GET", "/v1/agent/monitor?loglevel=loud", NULL, 400, "Bad request: Unknown log level: loud");
	fake_is("GET", "/v1/agent/monitor?daemon=x", NULL, 400, "Bad request: Unknown daemon: x (gossipd, raftd or rpcd)");
	fake_is("GET", "/v1/agent/monitor?daemon=raftd", NULL, 400,
	    "Bad request: this node is a client: raftd runs on servers");
	fake.full = true;
	fake_is("GET", "/v1/agent/monitor", NULL, 503, "too many clients read the log of this node already");
}
END_TEST

START_TEST(queries_are_heard)
{
	struct heard h[] = {
		{ .number = 101, .ltime = 5, .id = 6, .name = span_str("load"), .payload = span_str("p"),
		    .from = span_str("n2"), .deadline = MONO_ZERO },
		{ .number = 102, .ltime = 7, .id = 8, .name = span_str("other"), .from = span_str("n2") },
	};
	struct request *r = fake_begin("GET", "/v1/agent/queries?index=100&wait=1m&name=load", NULL, NULL);

	ck_assert(!r->answered);
	fake.heard = h;
	fake.heard_count = 2;
	fake_wake(false);
	fake_answered(r, 200, "[{\"ID\":\"5-6\",\"Name\":\"load\",\"Payload\":\"cA==\",\"From\":\"n2\",\"LTime\":5,"
	    "\"TimeLeft\":\"0ms\"}]");
	ck_assert_str_eq(fake_header(r, "X-Consul-Index"), "102");
	fake_end(r);
	fake_is("GET", "/v1/agent/queries?name=none", NULL, 200, "[]");
}
END_TEST

/* -- snapshots: pieces pass through, one on its way at a time -- */

static void
snapshot_says(enum snapshot_phase phase, uint64_t done, uint64_t total, const char *data)
{
	struct snapshot_state st = { .Server = span_str("s1"), .ID = span_str("i1"), .Phase = phase, .Done = done,
	    .Total = total, .Data = span_str(data), .Text = span_str(phase == RESTORE_FAILED ? "it failed" : "") };

	reply_record(&snapshot_state_schema, &st);
}

static char logged[256];

static void
take_line(void *ctx, enum log_level level, const char *tag, const char *text)
{
	(void)ctx;
	(void)level;
	(void)tag;
	snprintf(logged, sizeof(logged), "%s", text);
}

START_TEST(snapshot_save)
{
	struct request *r = fake_begin("GET", "/v1/snapshot?stale", NULL, NULL);
	struct snapshot_ask q = { .Offset = 0 };
	uint64_t cancelled;
	char bytes[8];

	asked(OP_SNAPSHOT_SAVE, &q);
	ck_assert_uint_eq(fake.q.mode, OP_STALE);
	ck_assert_uint_eq(q.Server.len, 0);
	snapshot_says(SNAPSHOT_PREPARING, 0, 0, "");
	asked(OP_SNAPSHOT_READ, &q);
	span_is(q.Server, "s1");
	span_is(q.ID, "i1");
	snapshot_says(SNAPSHOT_PREPARING, 0, 0, "");		/* not yet */
	asked(OP_SNAPSHOT_READ, &q);
	ck_assert(!r->answered);
	snapshot_says(SNAPSHOT_READY, 0, 6, "abcd");
	fake_answered(r, 200, "");
	ck_assert_str_eq(fake_header(r, "Content-Type"), "application/x-gzip");
	ck_assert_uint_eq(r->stream_bytes, 6);
	asked(OP_SNAPSHOT_READ, &q);				/* the next one, while this is read */
	ck_assert_uint_eq(q.Offset, 4);
	ck_assert_uint_eq(r->stream(r, bytes, 3), 3);
	ck_assert_uint_eq(r->stream(r, bytes, 3), 1);
	ck_assert_uint_eq(r->stream(r, bytes, 3), 0);
	snapshot_says(SNAPSHOT_READY, 4, 6, "ef");
	ck_assert_uint_eq(r->stream(r, bytes, 8), 2);
	ck_assert_mem_eq(bytes, "ef", 2);
	asked(OP_SNAPSHOT_END, NULL);
	ck_assert_ptr_null(r->stream);
	cancelled = fake_api.stats.cancelled;
	fake_end(r);
	ck_assert_uint_eq(fake_api.stats.cancelled, cancelled);	/* nobody went away */
	/* Every question of it goes to the same place with the same token. */
	r = fake_begin("GET", "/v1/snapshot?dc=elsewhere&token=t0ken&separate", NULL, NULL);
	snapshot_says(SNAPSHOT_PREPARING, 0, 0, "");
	snapshot_says(SNAPSHOT_READY, 0, 6, "ab");
	for (uint64_t at = 2; at < 6; at++) {
		asked(OP_SNAPSHOT_READ, &q);
		ck_assert_uint_eq(q.Offset, at);
		span_is(fake.q.dc, "elsewhere");
		span_is(fake.q.token, "t0ken");
		snapshot_says(SNAPSHOT_READY, at, 6, "x");
		while (r->stream != NULL && r->stream(r, bytes, sizeof(bytes)) > 0)
			;
	}
	ck_assert_str_eq(fake_header(r, "Content-Type"), "application/x-gzip");
	fake_end(r);
	r = fake_begin("GET", "/v1/snapshot", NULL, NULL);
	snapshot_says(SNAPSHOT_PREPARING, 0, 0, "");
	snapshot_says(SNAPSHOT_READY, 0, 6, "abcdef");
	ck_assert_uint_eq(r->stream(r, bytes, 3), 3);
	fake_end(r);						/* the client goes with half of it */
	ck_assert_uint_eq(fake_api.stats.cancelled, cancelled + 1);
	/* It breaks off in the middle: no bytes are made up. */
	r = fake_begin("GET", "/v1/snapshot", NULL, NULL);
	snapshot_says(SNAPSHOT_PREPARING, 0, 0, "");
	snapshot_says(SNAPSHOT_READY, 0, 6, "abcd");
	reply(TV_EUNREACH, "");
	ck_assert_ptr_null(r->stream);
	fake_end(r);
	r = fake_begin("GET", "/v1/snapshot", NULL, NULL);
	reply(TV_ENOLEADER, "No cluster leader");
	fake_answered(r, 500, "No cluster leader");
	fake_end(r);
}
END_TEST

/* Whose mistake it is, told as everywhere else in the API. */
START_TEST(snapshot_refusals)
{
	static const char *const methods[] = { "GET", "PUT" };
	char target[OP_NAME_BYTES_MAX + 64], name[OP_NAME_BYTES_MAX + 2];

	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	for (unsigned i = 0; i < 2; i++) {
		fake.started = 0;
		snprintf(target, sizeof(target), "/v1/snapshot?dc=%s", name);
		fake_is(methods[i], target, NULL, 500, "No path to datacenter");
		snprintf(target, sizeof(target), "/v1/snapshot?token=%s", name);
		fake_is(methods[i], target, NULL, 403, "ACL not found");
		ck_assert_uint_eq(fake.started, 0);
		fake.full = true;
		fake_is(methods[i], "/v1/snapshot", NULL, 503, "rpc error making call: too many requests under way "
		    "(see limits.calls_pending_max and limits.calls_bytes_max)");
		fake.full = false;
		struct request *r = fake_begin(methods[i], "/v1/snapshot?token=t0ken", NULL, NULL);
		reply(TV_EPERM, "Permission denied");
		fake_answered(r, 403, i == 0 ? "Permission denied" : "Permission denied; nothing was changed");
		fake_end(r);
	}
	fake_is("GET", "/v1/snapshot?stale&consistent", NULL, 400,
	    "Cannot specify ?stale with ?consistent, conflicting semantics.");
	fake_is("GET", "/v1/snapshot?max_stale=soon", NULL, 400, "Invalid max_stale value \"soon\"");
}
END_TEST

/* The client finds a short answer; why it is short stands in the log. */
START_TEST(snapshot_breaks_off)
{
	struct request *r = fake_begin("GET", "/v1/snapshot", NULL, NULL);
	char bytes[8];

	logged[0] = '\0';
	log_tap(LOG_LVL_WARN, take_line, NULL);
	snapshot_says(SNAPSHOT_PREPARING, 0, 0, "");
	snapshot_says(SNAPSHOT_READY, 0, 9, "abcd");
	reply(TV_ESYS, "the snapshot's file cannot be read");
	ck_assert_ptr_null(r->stream);
	ck_assert_str_eq(logged, "a snapshot for a client was interrupted after 4 of 9 bytes: the snapshot's file cannot be read");
	fake_end(r);
	r = fake_begin("GET", "/v1/snapshot", NULL, NULL);
	snapshot_says(SNAPSHOT_PREPARING, 0, 0, "");
	snapshot_says(SNAPSHOT_READY, 0, 9, "abc");
	snapshot_says(SNAPSHOT_READY, 3, 9, "def");
	ck_assert_uint_eq(r->stream(r, bytes, sizeof(bytes)), 3);
	fake.full = true;
	ck_assert_uint_eq(r->stream(r, bytes, sizeof(bytes)), 0);
	fake.full = false;
	ck_assert_ptr_null(r->stream);
	ck_assert_ptr_nonnull(strstr(logged, "after 6 of 9 bytes: rpc error making call: too many requests under way"));
	fake_end(r);
	log_tap(LOG_LVL_WARN, NULL, NULL);
}
END_TEST

/* There is room for more of the body, or the answer is there. */
static void
goes_on(struct request *r)
{
	(void)r;
	fake.woken++;
}

static struct request *
begin_restore(void)
{
	struct request *r = &fake_request;

	request_reset(r);
	r->head.method = "PUT";
	r->head.target = span_str("/v1/snapshot");
	r->ready = goes_on;
	api_begin(&fake_api, r);
	ck_assert_ptr_nonnull(r->feed);
	asked(OP_RESTORE_OPEN, NULL);
	return r;
}

START_TEST(snapshot_restore)
{
	static uint8_t body[(1u << 20) + 100];
	struct request *r = begin_restore();
	struct snapshot_ask q = { .Offset = 0 };
	uint64_t cancelled;
	size_t took = r->feed(r, body, sizeof(body)), piece = took;

	ck_assert_uint_lt(took, sizeof(body));			/* one piece; the client waits */
	ck_assert_uint_eq(r->feed(r, body + took, 10), 0);
	fake.woken = 0;
	snapshot_says(RESTORE_RECEIVING, 0, 0, "");
	ck_assert_uint_eq(fake.woken, 1);
	asked(OP_RESTORE_WRITE, &q);
	ck_assert_uint_eq(q.Data.len, piece);
	took += r->feed(r, body + took, sizeof(body) - took);	/* a second while the first is on its way */
	ck_assert_uint_eq(took, 2 * piece);
	snapshot_says(RESTORE_RECEIVING, piece, 0, "");
	asked(OP_RESTORE_WRITE, &q);
	ck_assert_uint_eq(q.Offset, piece);
	took += r->feed(r, body + took, sizeof(body) - took);
	ck_assert_uint_eq(took, sizeof(body));
	r->body_bytes = took;
	api_run(r);						/* the body is complete */
	snapshot_says(RESTORE_RECEIVING, 2 * piece, 0, "");
	asked(OP_RESTORE_WRITE, &q);
	ck_assert_uint_eq(q.Data.len, sizeof(body) - 2 * piece);
	snapshot_says(RESTORE_RECEIVING, sizeof(body), 0, "");
	asked(OP_RESTORE_APPLY, &q);
	ck_assert_uint_eq(q.Offset, sizeof(body));
	snapshot_says(RESTORE_STAGING, 1, 2, "");
	asked(OP_RESTORE_STATUS, &q);
	snapshot_says(RESTORE_DONE, 0, 0, "");
	fake_answered(r, 200, "");
	cancelled = fake_api.stats.cancelled;
	fake_end(r);
	ck_assert_uint_eq(fake_api.stats.cancelled, cancelled);
}
END_TEST

START_TEST(snapshot_restore_fails)
{
	struct request *r = begin_restore();
	struct snapshot_ask q = { .Offset = 0 };

	reply(TV_ECONFLICT, "another restore is under way");
	fake_answered(r, 500, "another restore is under way; nothing was changed");
	fake_end(r);
	r = begin_restore();
	snapshot_says(RESTORE_RECEIVING, 0, 0, "");
	ck_assert_uint_eq(r->feed(r, "x", 1), 1);
	api_run(r);
	asked(OP_RESTORE_WRITE, NULL);
	snapshot_says(RESTORE_FAILED, 0, 0, "");
	fake_answered(r, 500, "it failed");
	fake_end(r);
	/* Its server is lost: the one that leads now says what became of it, by the restore's id. */
	r = begin_restore();
	snapshot_says(RESTORE_RECEIVING, 0, 0, "");
	api_run(r);
	asked(OP_RESTORE_APPLY, NULL);
	reply(TV_EUNREACH, "");
	asked(OP_RESTORE_STATUS, &q);
	ck_assert_uint_eq(q.Server.len, 0);
	span_is(q.ID, "i1");
	reply(TV_ENOLEADER, "No cluster leader");
	asked(OP_RESTORE_STATUS, &q);
	snapshot_says(RESTORE_DONE, 0, 0, "");
	fake_answered(r, 200, "");
	fake_end(r);
	/* Nobody can say. */
	r = begin_restore();
	snapshot_says(RESTORE_RECEIVING, 0, 0, "");
	api_run(r);
	for (unsigned i = 0; i < 20 && !r->answered; i++)
		reply(TV_ENOLEADER, "No cluster leader");
	ck_assert(r->answered && r->answer.status == 500);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "may or may not have taken effect"));
	fake_end(r);
	/* The client goes: the server is told. */
	r = begin_restore();
	snapshot_says(RESTORE_RECEIVING, 0, 0, "");
	fake_end(r);
	asked(OP_SNAPSHOT_END, &q);
	span_is(q.ID, "i1");
}
END_TEST

/* The client goes before the first answer: the server is told with it, and does not keep the place for nobody. */
START_TEST(snapshot_client_goes_at_once)
{
	static const char *const methods[] = { "GET", "PUT" };
	struct snapshot_ask q = { .Offset = 0 };

	for (unsigned i = 0; i < 2; i++) {
		struct request *r = &fake_request;

		request_reset(r);
		r->head.method = methods[i];
		r->head.target = span_str("/v1/snapshot?dc=elsewhere&token=t0ken");
		r->ready = goes_on;
		api_begin(&fake_api, r);
		asked(i == 0 ? OP_SNAPSHOT_SAVE : OP_RESTORE_OPEN, NULL);
		fake_end(r);
		request_done(r);
		memset(r, 0x5a, sizeof(*r));			/* somebody else's by now */
		snapshot_says(i == 0 ? SNAPSHOT_PREPARING : RESTORE_RECEIVING, 0, 0, "");
		asked(OP_SNAPSHOT_END, &q);
		span_is(q.Server, "s1");
		span_is(q.ID, "i1");
		span_is(fake.q.dc, "elsewhere");
		span_is(fake.q.token, "t0ken");
		memset(r, 0, sizeof(*r));
	}
	/* Nothing was begun: nothing is ended. */
	fake_end(begin_restore());
	fake.started = 0;
	reply(TV_ECONFLICT, "another restore is under way");
	ck_assert_uint_eq(fake.started, 0);
}
END_TEST

START_TEST(snapshot_too_large)
{
	struct request *r = &fake_request;

	request_reset(r);
	r->head = (struct request_head){ .method = "PUT", .target = span_str("/v1/snapshot"),
	    .body_announced = fake_conf.snapshot_bytes_max + 1 };
	fake.started = 0;
	api_begin(&fake_api, r);
	ck_assert_uint_eq(fake.started, 0);			/* no place is taken for what will be refused */
	ck_assert(r->answered && r->answer.status == 413);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "limits.snapshot_bytes_max in rpcd.conf"));
	fake_end(r);
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		members, host, host_is_opened, metrics, metrics_of_durations, metrics_of_peers, agent_coordinates, administration, leaving, agent_checks, no_check_runs_a_program, agent_services, agent_maintenance,
		agent_service_waits, agent_health, event_fire, event_list,
		event_list_blocks, query_asks_the_pool, query_refusals, monitor_streams, queries_are_heard,
		snapshot_save, snapshot_refusals, snapshot_breaks_off, snapshot_restore, snapshot_restore_fails, snapshot_client_goes_at_once, snapshot_too_large,
	};

	return api_kit_main("api_agent", tests, sizeof(tests) / sizeof(tests[0]));
}
