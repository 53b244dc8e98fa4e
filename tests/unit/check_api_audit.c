/* What the audit trail says of requests: which ones, with which names, and never with a secret. */
#include <ev.h>
#include <unistd.h>

#include "rpcd/api/audit.h"
#include "rpcd/audit/trail.h"
#include "tests/unit/api_kit.h"
#include "tests/unit/scratch.h"

#define SECRET "5ec3e7aa-1111-4222-8333-444444444444"
#define ACCESSOR "acce5504-1111-4222-8333-444444444444"

static struct ev_loop *loop;

static void
open_trail(void)
{
	scratch_open();
	loop = ev_loop_new(EVFLAG_AUTO);
	fake_conf.audit_denials = true;
	fake_api.trail = trail_new(loop, "n1");
	ck_assert_int_eq(trail_set(fake_api.trail, TRAIL_FILE, scratch_path("a.log")), TV_OK);
}

/* All that was written; the trail ends. */
static const char *
close_trail(void)
{
	const char *text = "";

	audit_done(&fake_api);
	trail_free(fake_api.trail);
	fake_api.trail = NULL;
	ev_loop_destroy(loop);
	if (access(scratch_path("a.log"), F_OK) == 0)
		text = scratch_read("a.log");
	ck_assert_msg(strstr(text, SECRET) == NULL, "%s", text);
	return text;
}

/* One line, which has this in it. */
static void
says(const char *part)
{
	const char *text = close_trail();

	ck_assert_msg(strstr(text, part) != NULL, "no %s in: %s", part, text);
	ck_assert_ptr_eq(strchr(text, '\n') + 1, text + strlen(text));
	scratch_close();
}

static void
says_nothing(void)
{
	ck_assert_str_eq(close_trail(), "");
	scratch_close();
}

static struct request *
ask(const char *method, const char *target, const char *body)
{
	fake_conf.http_plaintext_tokens = true;		/* another machine, and what it does is told */
	return fake_begin(method, target, body, &(struct request_head){ .client_ip = "10.0.0.9", .uid = -1 });
}

static void
done_with(bool did)
{
	reply_record(&bool_reply_schema, &(struct bool_reply){ did });
	fake_end(&fake_request);
}

START_TEST(a_write)
{
	open_trail();
	ask("PUT", "/v1/kv/a/b?token=" SECRET, "v");
	done_with(true);
	says("\"node\":\"n1\",\"client\":\"10.0.0.9\",\"operation\":\"KVS.Apply\",\"method\":\"PUT\",\"path\":\"/v1/kv/\","
	    "\"resource\":\"key\",\"name\":\"a/b\",\"datacenter\":\"dc1\",\"outcome\":\"ok\",\"status\":200,\"index\":42,"
	    "\"accessor\":\"unknown\"}");
}
END_TEST

START_TEST(a_cas_that_did_nothing)
{
	open_trail();
	ask("PUT", "/v1/kv/a?cas=1", "v");
	done_with(false);
	says("\"outcome\":\"failed\",\"status\":200");
}
END_TEST

START_TEST(a_write_that_failed)
{
	open_trail();
	ask("PUT", "/v1/kv/a?dc=dc9", "v");
	reply(TV_EUNREACH, "");
	fake_end(&fake_request);
	says("\"datacenter\":\"dc9\",\"outcome\":\"failed\",\"status\":500,\"accessor\":\"anonymous\"");
}
END_TEST

START_TEST(the_client_went)
{
	open_trail();
	ask("PUT", "/v1/kv/a", "v");
	fake_end(&fake_request);
	says("\"outcome\":\"unknown\",\"accessor\"");
}
END_TEST

START_TEST(reads_on_demand)
{
	open_trail();
	ask("GET", "/v1/kv/a", NULL);
	reply_list(&kv_entry_schema, &(struct kv_entry){ .Key = span_str("a") }, 1);
	fake_end(&fake_request);
	says_nothing();

	open_trail();
	fake_conf.audit_reads = true;
	ask("GET", "/v1/kv/a", NULL);
	reply_list(&kv_entry_schema, &(struct kv_entry){ .Key = span_str("a") }, 1);
	fake_end(&fake_request);
	says("\"operation\":\"KVS.Get\",\"method\":\"GET\",\"path\":\"/v1/kv/\",\"resource\":\"key\",\"name\":\"a\"");
}
END_TEST

/* A blocking query that waits long forgets what it was asked for, until its reply comes or its client goes. */
START_TEST(a_folded_read)
{
	for (int cancelled = 0; cancelled < 2; cancelled++) {
		open_trail();
		fake_conf.audit_reads = true;
		ask("GET", "/v1/kv/a%20b?index=7&token=" SECRET, NULL);
		ck_assert(api_fold(&fake_request));
		if (!cancelled)
			reply_list(&kv_entry_schema, &(struct kv_entry){ .Key = span_str("a b") }, 1);
		fake_end(&fake_request);
		says(cancelled ? "\"name\":\"a b\",\"datacenter\":\"dc1\",\"outcome\":\"unknown\"" :
		    "\"name\":\"a b\",\"datacenter\":\"dc1\",\"outcome\":\"ok\",\"status\":200,\"index\":42");
	}
}
END_TEST

START_TEST(denials)
{
	for (int told = 0; told < 2; told++) {
		open_trail();
		fake_conf.audit_denials = told;
		ask("GET", "/v1/kv/a", NULL);
		reply(TV_EPERM, "Permission denied");
		fake_end(&fake_request);
		if (told)
			says("\"operation\":\"KVS.Get\",\"method\":\"GET\",\"path\":\"/v1/kv/\",\"resource\":\"key\","
			    "\"name\":\"a\",\"datacenter\":\"dc1\",\"outcome\":\"denied\",\"status\":403");
		else
			says_nothing();
	}
}
END_TEST

START_TEST(what_administers)
{
	open_trail();
	fake_conf.http_admin = false;
	ask("PUT", "/v1/agent/leave", NULL);
	fake_end(&fake_request);
	says("\"operation\":\"agent/leave\",\"method\":\"PUT\",\"path\":\"/v1/agent/leave\",\"resource\":\"leave\","
	    "\"datacenter\":\"dc1\",\"outcome\":\"denied\"");
}
END_TEST

START_TEST(root_on_the_socket)
{
	for (int with = 0; with < 2; with++) {
		open_trail();
		fake_begin("PUT", "/v1/kv/a", "v", &(struct request_head){
			.on_socket = true, .uid = 0, .token = with ? SECRET : NULL,
		});
		done_with(true);
		says(with ? "\"accessor\":\"unknown\"" : "\"accessor\":\"agent-master\"");
	}
	open_trail();
	fake_begin("PUT", "/v1/kv/a", "v", &(struct request_head){ .on_socket = true, .uid = 1000 });
	done_with(true);
	says("\"uid\":1000,");
}
END_TEST

START_TEST(a_transaction)
{
	open_trail();
	ask("PUT", "/v1/txn", "[{\"KV\":{\"Verb\":\"set\",\"Key\":\"a\",\"Value\":\"\"}},"
	    "{\"KV\":{\"Verb\":\"delete\",\"Key\":\"b\"}},{\"Node\":{\"Verb\":\"delete\",\"Node\":{\"Node\":\"n9\"}}}]");
	reply(TV_EPERM, "Permission denied");
	fake_end(&fake_request);
	says("\"operation\":\"Txn.Apply\",\"method\":\"PUT\",\"path\":\"/v1/txn\",\"operations\":3,"
	    "\"names\":[\"key:a\",\"key:b\",\"node:n9\"]");
}
END_TEST

/* One that reads alone is a read, by PUT or not. */
START_TEST(a_transaction_that_reads)
{
	open_trail();
	ask("PUT", "/v1/txn", "[{\"KV\":{\"Verb\":\"get\",\"Key\":\"a\"}}]");
	fake_end(&fake_request);
	says_nothing();
}
END_TEST

START_TEST(a_registration)
{
	open_trail();
	ask("PUT", "/v1/catalog/register", "{\"Node\":\"n5\",\"Address\":\"10.0.0.5\",\"Service\":{\"Service\":\"web\","
	    "\"ID\":\"web-1\"},\"Check\":{\"Node\":\"n5\",\"CheckID\":\"c\",\"Name\":\"c\",\"Status\":\"passing\"}}");
	done_with(true);
	says("\"resource\":\"node\",\"name\":\"n5\",\"names\":[\"service:web-1\",\"check:c\"]");
}
END_TEST

/* A SecretID where an AccessorID belongs: eight digits of it tell nothing. */
START_TEST(a_secret_in_the_path)
{
	open_trail();
	ask("DELETE", "/v1/acl/token/" SECRET, NULL);
	done_with(true);
	says("\"path\":\"/v1/acl/token/\",\"resource\":\"token\",\"name\":\"5ec3e7aa...\"");

	open_trail();
	fake_conf.audit_reads = true;
	ask("GET", "/v1/acl/rules/translate/" SECRET, NULL);
	fake_end(&fake_request);
	says("\"name\":\"5ec3e7aa...\"");

	open_trail();
	ask("PUT", "/v1/kv/" SECRET "?token=" SECRET, "v");
	done_with(true);
	says("\"resource\":\"key\",\"datacenter\"");
}
END_TEST

START_TEST(a_token_that_was_made)
{
	struct acl_token t = { .AccessorID = span_str(ACCESSOR), .SecretID = span_str(SECRET) };

	open_trail();
	ask("PUT", "/v1/acl/token", "{\"Description\":\"x\"}");
	reply_record(&acl_token_schema, &t);
	fake_end(&fake_request);
	says("\"operation\":\"ACL.TokenSet\",\"method\":\"PUT\",\"path\":\"/v1/acl/token\",\"resource\":\"token\","
	    "\"name\":\"" ACCESSOR "\"");

	open_trail();
	ask("PUT", "/v1/acl/bootstrap", NULL);
	reply_record(&acl_token_schema, &t);
	fake_end(&fake_request);
	says("\"operation\":\"ACL.BootstrapTokens\",\"method\":\"PUT\",\"path\":\"/v1/acl/bootstrap\","
	    "\"resource\":\"bootstrap\",\"name\":\"" ACCESSOR "\"");
}
END_TEST

START_TEST(no_such_endpoint)
{
	open_trail();
	ask("PUT", "/v1/nothing", NULL);
	fake_end(&fake_request);
	ask("POST", "/v1/catalog/nodes", NULL);
	fake_end(&fake_request);
	says_nothing();
}
END_TEST

/* -- who asked -- */

static struct audit_wait *asked_for;

static void
know_now(void *ctx, struct span token, struct audit_wait *wait)
{
	(void)ctx;
	audit_know(wait, span_str(token.len > 0 ? ACCESSOR : "00000000-0000-0000-0000-000000000002"));
}

static void
know_later(void *ctx, struct span token, struct audit_wait *wait)
{
	(void)ctx;
	ck_assert(span_eqs(token, SECRET));
	asked_for = wait;
}

START_TEST(accessors)
{
	open_trail();
	fake_api.accessor = know_now;
	ask("PUT", "/v1/kv/a?token=" SECRET, "v");
	done_with(true);
	says("\"accessor\":\"" ACCESSOR "\"}");

	for (int comes = 0; comes < 2; comes++) {
		open_trail();
		fake_api.accessor = know_later;
		ask("PUT", "/v1/kv/a?token=" SECRET, "v");
		done_with(true);
		ck_assert_uint_eq(fake_api.audit_waiting_count, 1);
		if (comes)
			audit_know(asked_for, span_str(ACCESSOR));
		says(comes ? "\"accessor\":\"" ACCESSOR "\"}" : "\"accessor\":\"unknown\"}");
		ck_assert_uint_eq(fake_api.audit_waiting_count, 0);
	}
}
END_TEST

/* Off, nothing is kept of a request. */
START_TEST(off)
{
	struct request *r = ask("PUT", "/v1/kv/a", "v");

	done_with(true);
	ck_assert_ptr_null(r->audit);
}
END_TEST

/* Each endpoint that asks the servers has a line, whatever becomes of the request, and shows no secret in it. */
START_TEST(each_endpoint)
{
	const struct endpoint *e;
	char target[256];

	fake_conf.audit_reads = true;
	for (unsigned i = 0; (e = api_endpoint(i)) != NULL; i++) {
		if (e->op == 0 || e->body == BODY_STREAM || e->op == OP_QUERY_EXECUTE || e->op == OP_QUERY_EXPLAIN)
			continue;
		snprintf(target, sizeof(target), "%s%s%s%s", e->path,
		    e->path[strlen(e->path) - 1] == '/' && strlen(e->path) > 1 ? SECRET : "",
		    e->ending != NULL ? e->ending : "", "?token=" SECRET);
		open_trail();
		ask(e->method, target, NULL);
		fake_end(&fake_request);
		says(",\"operation\":\"");
	}
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		a_write, a_cas_that_did_nothing, a_write_that_failed, the_client_went, reads_on_demand, a_folded_read,
		denials, what_administers, root_on_the_socket, a_transaction, a_transaction_that_reads, a_registration,
		a_secret_in_the_path, a_token_that_was_made, no_such_endpoint, accessors, off, each_endpoint,
	};

	return api_kit_main("api_audit", tests, sizeof(tests) / sizeof(tests[0]));
}
