/* Transactions: which operation they become, what they answer, and what is refused before a server is asked. */
#include "common/record/txn.h"
#include "tests/unit/api_kit.h"

#define SET "[{\"KV\":{\"Verb\":\"set\",\"Key\":\"k\",\"Value\":\"MQ==\",\"Flags\":7}}]"
#define GET "[{\"KV\":{\"Verb\":\"get\",\"Key\":\"k\"}}]"

static void
reply_results(uint32_t n)
{
	struct txn_result *results = calloc(n + 1, sizeof(*results));

	for (uint32_t i = 0; i < n; i++) {
		results[i].has_kv = true;
		results[i].KV = (struct kv_entry){ .Key = span_str("k"), .Value = span_str("1"), .CreateIndex = 3, .ModifyIndex = 4 };
	}
	reply_record(&txn_reply_schema, &(struct txn_reply){ .Results = { results, n, true } });
	free(results);
}

#define ENTRY "{\"KV\":{\"LockIndex\":0,\"Key\":\"k\",\"Flags\":0,\"Value\":\"MQ==\",\"CreateIndex\":3,\"ModifyIndex\":4}}"

START_TEST(writing)
{
	struct request *r = fake_begin("PUT", "/v1/txn?dc=dc2&stale&consistent", SET, NULL);
	struct txn t;
	const struct txn_op *ops;

	asked(OP_TXN_APPLY, &t);
	span_is(fake.q.dc, "dc2");
	ck_assert_uint_eq(t.Ops.n, 1);
	ops = t.Ops.v;
	ck_assert(ops[0].has_kv && !ops[0].has_node && !ops[0].has_service && !ops[0].has_check);
	span_is(ops[0].KV.Verb, "set");
	span_is(ops[0].KV.Value, "1");
	ck_assert_uint_eq(ops[0].KV.Flags, 7);
	reply_results(2);
	fake_answered(r, 200, "{\"Results\":[" ENTRY "," ENTRY "],\"Errors\":null}");
	ck_assert_str_eq(fake_header(r, "Content-Type"), "application/json");
	ck_assert_ptr_null(fake_header(r, "X-Consul-Index"));
	ck_assert_ptr_null(fake_header(r, "X-Consul-KnownLeader"));
	fake_end(r);
	r = fake_begin("PUT", "/v1/txn", SET, NULL);
	reply_results(0);
	fake_answered(r, 200, "{\"Results\":[],\"Errors\":null}");
	fake_end(r);
	/* An outcome that nobody knows is no conflict. */
	r = fake_begin("PUT", "/v1/txn", SET, NULL);
	reply(TV_EUNKNOWN, "it may have been applied");
	fake_answered(r, 500, "it may have been applied");
	fake_end(r);
	r = fake_begin("PUT", "/v1/txn", SET, NULL);
	reply(TV_OK, "");
	fake_answered(r, 500, "rpc error making call: malformed answer");
	fake_end(r);
}
END_TEST

#define READ_END ",\"KnownLeader\":true,\"ConsistencyLevel\":\"\",\"NotModified\":false}"

START_TEST(reading)
{
	struct request *r = fake_begin("PUT", "/v1/txn?index=5&wait=10s", GET, NULL);

	asked(OP_TXN_READ, NULL);
	ck_assert_uint_eq(fake.q.mode, OP_DEFAULT);
	ck_assert_uint_eq(fake.q.index, 0);
	reply_results(1);
	fake_answered(r, 200, "{\"Results\":[" ENTRY "],\"Errors\":null,\"Index\":0,\"LastContact\":0" READ_END);
	ck_assert_ptr_null(fake_header(r, "X-Consul-Index"));
	ck_assert_str_eq(fake_header(r, "X-Consul-KnownLeader"), "true");
	ck_assert_str_eq(fake_header(r, "X-Consul-LastContact"), "7");
	fake_end(r);
	r = fake_begin("PUT", "/v1/txn?stale", "[]", NULL);
	asked(OP_TXN_READ, NULL);
	ck_assert_uint_eq(fake.q.mode, OP_STALE);
	reply_results(0);
	fake_answered(r, 200, "{\"Results\":[],\"Errors\":null,\"Index\":0,\"LastContact\":7000000" READ_END);
	fake_end(r);
	fake_is("PUT", "/v1/txn?stale&consistent", GET, 400,
	    "Cannot specify ?stale with ?consistent, conflicting semantics.");
}
END_TEST

START_TEST(errors)
{
	struct txn_error list[] = { { 0, span_str("key \"k\" doesn't exist") }, { 3, span_str("no") } };
	struct txn_reply found = { .Errors = { list, 2, true } };
	struct request *r = fake_begin("PUT", "/v1/txn", SET, NULL);

#define ERRORS "{\"Results\":null,\"Errors\":[{\"OpIndex\":0,\"What\":\"key \\\"k\\\" doesn't exist\"},{\"OpIndex\":3,\"What\":\"no\"}]"
	reply_record(&txn_reply_schema, &found);
	fake_answered(r, 409, ERRORS "}");
	ck_assert_str_eq(fake_header(r, "Content-Type"), "application/json");
	fake_end(r);
	r = fake_begin("PUT", "/v1/txn", GET, NULL);
	reply_record(&txn_reply_schema, &found);
	fake_answered(r, 409, ERRORS ",\"Index\":0,\"LastContact\":0" READ_END);
	fake_end(r);
}
END_TEST

START_TEST(tags_of_services)
{
	struct txn_result result = { .has_service = true, .Service = { .ID = span_str("s"), .Service = span_str("s") } };
	struct span tag = span_str("a");
	struct request *r = fake_begin("PUT", "/v1/txn", SET, NULL);

	reply_record(&txn_reply_schema, &(struct txn_reply){ .Results = { &result, 1, true } });
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "\"Service\":\"s\",\"Tags\":null,"));
	fake_end(r);
	r = fake_begin("PUT", "/v1/txn", SET, NULL);
	result.Service.Tags = (struct span_list){ &tag, 1, true };
	reply_record(&txn_reply_schema, &(struct txn_reply){ .Results = { &result, 1, true } });
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "\"Tags\":[\"a\"],"));
	fake_end(r);
}
END_TEST

/* A check without a service has no tags here, and an empty list of them elsewhere. */
START_TEST(tags_of_checks)
{
	struct txn_result result = { .has_check = true, .Check = { .Node = span_str("n"), .CheckID = span_str("c") } };
	struct span tag = span_str("a");
	struct request *r = fake_begin("PUT", "/v1/txn", SET, NULL);

	reply_record(&txn_reply_schema, &(struct txn_reply){ .Results = { &result, 1, true } });
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "\"ServiceTags\":null,"));
	fake_end(r);
	result.Check.ServiceTags = (struct span_list){ &tag, 1, true };
	r = fake_begin("PUT", "/v1/txn", SET, NULL);
	reply_record(&txn_reply_schema, &(struct txn_reply){ .Results = { &result, 1, true } });
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "\"ServiceTags\":[\"a\"],"));
	fake_end(r);
}
END_TEST

/* Which verbs make a transaction one that writes: one is enough. */
START_TEST(what_writes)
{
	static const struct { const char *op; bool writes; } v[] = {
		{ "{\"KV\":{\"Verb\":\"set\"}}", true }, { "{\"KV\":{\"Verb\":\"cas\"}}", true },
		{ "{\"KV\":{\"Verb\":\"lock\"}}", true }, { "{\"KV\":{\"Verb\":\"unlock\"}}", true },
		{ "{\"KV\":{\"Verb\":\"delete\"}}", true }, { "{\"KV\":{\"Verb\":\"delete-cas\"}}", true },
		{ "{\"KV\":{\"Verb\":\"delete-tree\"}}", true }, { "{\"KV\":{\"Verb\":\"get\"}}", false },
		{ "{\"KV\":{\"Verb\":\"get-tree\"}}", false }, { "{\"KV\":{\"Verb\":\"check-index\"}}", false },
		{ "{\"KV\":{\"Verb\":\"check-session\"}}", false }, { "{\"KV\":{\"Verb\":\"check-not-exists\"}}", false },
		{ "{\"KV\":{\"Verb\":\"SET\"}}", false },
		{ "{\"Node\":{\"Verb\":\"get\"}}", false }, { "{\"Node\":{\"Verb\":\"set\"}}", true },
		{ "{\"Service\":{\"Verb\":\"get\"}}", false }, { "{\"Service\":{\"Verb\":\"\"}}", true },
		{ "{\"Check\":{\"Verb\":\"get\"}}", false }, { "{\"Check\":{\"Verb\":\"delete-cas\"}}", true },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		char body[256];

		snprintf(body, sizeof(body), "[{\"KV\":{\"Verb\":\"get\",\"Key\":\"a\"}},%s,null]", v[i].op);
		fake_is("PUT", "/v1/txn", body, 400,
		    "Failed to parse body: operation 2 does not have exactly one of KV, Node, Service and Check");
		snprintf(body, sizeof(body), "[{\"KV\":{\"Verb\":\"get\",\"Key\":\"a\"}},%s]", v[i].op);
		struct request *r = fake_begin("PUT", "/v1/txn", body, NULL);
		ck_assert_msg(fake.q.op == (v[i].writes ? OP_TXN_APPLY : OP_TXN_READ), "%s", v[i].op);
		reply_results(0);
		fake_end(r);
	}
}
END_TEST

/* ModifyIndex of an object is what the cas verbs compare. */
START_TEST(indexes_are_taken)
{
	struct request *r = fake_begin("PUT", "/v1/txn", "[{\"Node\":{\"Verb\":\"cas\",\"Node\":{\"Node\":\"n\",\"ModifyIndex\":5}}},"
	    "{\"Service\":{\"Verb\":\"cas\",\"Node\":\"n\",\"Service\":{\"ID\":\"s\",\"ModifyIndex\":6}}},"
	    "{\"check\":{\"verb\":\"cas\",\"check\":{\"checkid\":\"c\",\"modifyindex\":7,\"createindex\":1}}}]", NULL);
	struct txn t;
	const struct txn_op *ops;

	asked(OP_TXN_APPLY, &t);
	ops = t.Ops.v;
	ck_assert_uint_eq(ops[0].Node.Node.ModifyIndex, 5);
	ck_assert_uint_eq(ops[1].Service.Service.ModifyIndex, 6);
	ck_assert_uint_eq(ops[2].Check.Check.ModifyIndex, 7);
	span_is(ops[2].Check.Check.CheckID, "c");
	reply_results(0);
	fake_end(r);
}
END_TEST

START_TEST(refusals)
{
	struct buf many = BUF_INIT(1 << 20);

	fake_is("PUT", "/v1/txn", "", 400, "Failed to parse body: EOF");
	fake_is("PUT", "/v1/txn", "{nope", 400, NULL);
	fake_is("PUT", "/v1/txn", "[{\"KV\":{\"Verb\":\"set\",\"Key\":\"a\",\"Value\":\"***\"}}]", 400,
	    "Failed to parse body: illegal base64 data");
	fake_is("PUT", "/v1/txn", "[{\"KV\":{\"Verb\":\"get\",\"Key\":\"a\",\"Bogus\":1}}]", 400,
	    "Failed to parse body: json: unknown field \"Bogus\"");
	fake_is("PUT", "/v1/txn", "[{\"KV\":{\"Verb\":\"get\",\"Key\":\"a\"},\"Refused\":\"x\"}]", 400,
	    "Failed to parse body: json: unknown field \"Refused\"");
	fake_is("PUT", "/v1/txn", "[{\"KV\":{},\"Node\":{}}]", 400,
	    "Failed to parse body: operation 0 does not have exactly one of KV, Node, Service and Check");
	/* Their number is told before their form, and their size before both. */
	buf_puts(&many, "[{}");
	for (unsigned i = 1; i < 65; i++)
		buf_puts(&many, ",{}");
	buf_puts(&many, "]");
	fake_is("PUT", "/v1/txn", buf_cstr(&many), 413, "Transaction contains too many operations (65 > 64)");
	buf_reset(&many);
	for (unsigned i = 0; i < 1001; i++)
		buf_u8(&many, ' ');
	fake_is("PUT", "/v1/txn", buf_cstr(&many), 413, "Request body(1001 bytes) too large, max size: 1000 bytes. "
	    "See https://www.consul.io/docs/agent/options#txn_max_req_len.");
	fake_conf.txn_max_req_len = 1010;
	fake_is("PUT", "/v1/txn", buf_cstr(&many), 400, "Failed to parse body: EOF");
	fake_conf.kv_max_value_size = 2;
	fake_is("PUT", "/v1/txn", "[{\"KV\":{\"Verb\":\"set\",\"Key\":\"a\\\"b\",\"Value\":\"AAAA\"}}]", 413,
	    "Value for key \"a\\\"b\" is too large (3 > 2 bytes)");
	ck_assert_uint_eq(fake.started, 0);
	buf_done(&many);
}
END_TEST

/* Rendered in slices a large answer is the same, with what stands before and behind its list. */
START_TEST(large_answer_in_slices)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct buf whole = BUF_INIT(1 << 20);
	struct request *r = fake_begin("PUT", "/v1/txn", GET, NULL);

	fake_conf.answers_bytes_max = 8 << 20;
	reply_results(8000);
	ck_assert(r->answered);
	buf_putspan(&whole, buf_span(&r->answer.body));
	ck_assert(span_starts(buf_span(&whole), span_str("{\"Results\":[{\"KV\":")));
	fake_end(r);
	api_render_start(&fake_api, loop);
	r = fake_begin("PUT", "/v1/txn", GET, NULL);
	reply_results(8000);
	ck_assert(!r->answered);
	while (!r->answered)
		ev_run(loop, EVRUN_ONCE);
	ck_assert_uint_eq(r->answer.status, 200);
	ck_assert(span_eq(buf_span(&r->answer.body), buf_span(&whole)));
	fake_end(r);
	buf_done(&whole);
	ev_loop_destroy(loop);
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		writing, reading, errors, tags_of_services, tags_of_checks, what_writes, indexes_are_taken, refusals, large_answer_in_slices,
	};

	return api_kit_main("api_txn", tests, sizeof(tests) / sizeof(tests[0]));
}
