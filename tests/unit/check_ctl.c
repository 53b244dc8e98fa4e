/* clusterctl without rpcd: what it asks for which words, what it shows of an answer, and what it says to a wrong call. */
#include <check.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/text/base64.h"
#include "ctl/ctl.h"
#include "ctl/lock_rules.h"
#include "tests/unit/ctl_kit.h"

/* -- questions ----------------------------------------------------------------------- */

START_TEST(questions)
{
	static const struct { const char *words, *asked; } v[] = {
		{ "kv get a/b", "GET /v1/kv/a/b?raw\n" }, { "--json kv get a", "GET /v1/kv/a\n" },
		{ "kv get a_b?c%", "GET /v1/kv/a%20b%3Fc%25?raw\n" }, { "kv get --stale --dc=x k", "GET /v1/kv/k?raw&stale&dc=x\n" },
		{ "kv get /a", "GET /v1/kv/a?raw\n" }, { "kv get ///a/", "GET /v1/kv/a/?raw\n" },
		{ "kv delete --recurse --dc d k/", "DELETE /v1/kv/k/?recurse&dc=d\n" },
		{ "kv delete --cas 7 k", "DELETE /v1/kv/k?cas=7\n" },
		{ "kv list", "GET /v1/kv/?keys\n" }, { "kv keys p", "GET /v1/kv/p?keys\n" },
		{ "kv list --separator / p", "GET /v1/kv/p?keys&separator=%2F\n" },
		{ "kv list --stale --separator=&x p", "GET /v1/kv/p?keys&stale&separator=%26x\n" },
		{ "catalog services --dc d_d", "GET /v1/catalog/services?dc=d%20d\n" },
		{ "catalog nodes --near _agent", "GET /v1/catalog/nodes?near=%20agent\n" },
		{ "catalog service --dc d --near n w/x", "GET /v1/catalog/service/w%2Fx?dc=d&near=n\n" },
		{ "catalog datacenters", "GET /v1/catalog/datacenters\n" },
		{ "dns --tcp --type srv --size 1232 --from 10.0.0.1 w/x.service.consul",
		    "GET /v1/agent/dns/w%2Fx.service.consul?tcp&type=srv&size=1232&from=10.0.0.1\n" },
		{ "leave", "PUT /v1/agent/leave\n" }, { "leave --force", "PUT /v1/agent/leave?force\n" },
		{ "reload", "PUT /v1/agent/reload\n" }, { "members", "GET /v1/agent/members\n" },
		{ "members --wan", "GET /v1/agent/members?wan=1\n" },
		{ "join --wan 10.0.0.1 ::1", "PUT /v1/agent/join/10.0.0.1?wan=1\nPUT /v1/agent/join/%3A%3A1?wan=1\n" },
		{ "raft transfer-leader", "PUT /v1/operator/raft/transfer\n" },
		{ "raft remove-peer --force 10.0.0.1:8300", "DELETE /v1/operator/raft/peer?force&address=10.0.0.1%3A8300\n" },
	};

	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		(void)call(v[i].words);
		ck_assert_msg(strcmp(fake.asked, v[i].asked) == 0, "%s: %s", v[i].words, fake.asked);
	}
}
END_TEST

/* A conditional write that did not happen is a failure; behind "--" everything is an argument. */
START_TEST(writes)
{
	answers(0, "PUT /v1/kv/k?cas=5&flags=7", 200, "true");
	ck_assert_int_eq(call("kv put --cas 5 k --flags=7 v_w"), 0);
	ck_assert_str_eq(fake.asked, "PUT /v1/kv/k?cas=5&flags=7 v w\n");
	ck_assert(out_text[0] == '\0' && err_text[0] == '\0');
	answers(0, "PUT /v1/kv/k", 200, "true");
	ck_assert_int_eq(call("kv put k -- --cas"), 0);
	ck_assert_str_eq(fake.asked, "PUT /v1/kv/k --cas\n");
	ck_assert_int_eq(call("kv put k -5"), 0);
	ck_assert_str_eq(fake.asked, "PUT /v1/kv/k -5\n");
	ck_assert_int_eq(call("kv put /k v"), 0);
	ck_assert_str_eq(err_text, "clusterctl: kv: a key begins with no slash: taken as \"k\"\n");
	answers(0, "PUT /v1/kv/k?cas=5", 200, "false");
	ck_assert_int_eq(call("kv put --cas 5 k v"), 1);
	ck_assert_str_eq(err_text, "clusterctl: kv put: k was not changed: the condition did not hold\n");
}
END_TEST

/* Keys as Consul exports them, from and to the API. */
START_TEST(keys_move)
{
	answers(0, "GET /v1/kv/a/?recurse&stale", 200, "[{\"LockIndex\":0,\"Key\":\"a/<\",\"Flags\":18446744073709551615,"
	    "\"Value\":\"eA==\",\"CreateIndex\":1,\"ModifyIndex\":2},\n{\"Key\":\"a/\",\"Flags\":0,\"Value\":null}]");
	ck_assert_int_eq(call("kv export --stale /a/"), 0);
	ck_assert_str_eq(out_text, "[\n\t{\n\t\t\"key\": \"a/\\u003c\",\n\t\t\"flags\": 18446744073709551615,\n"
	    "\t\t\"value\": \"eA==\"\n\t},\n\t{\n\t\t\"key\": \"a/\",\n\t\t\"flags\": 0,\n\t\t\"value\": \"\"\n\t}\n]\n");
	answers(0, "GET /v1/kv/?recurse", 404, "");
	ck_assert_int_eq(call("kv export"), 0);
	ck_assert_str_eq(out_text, "[]\n");
	answers(0, "GET /v1/kv/?recurse", 200, "[{\"Key\":\"a\",\"Flags\":0,\"Val");
	ck_assert_int_eq(call("kv export"), 1);
	ck_assert_str_eq(err_text, "clusterctl: kv export: the answer: the list ends in the middle, at entry 1\n");
	answers(0, "PUT /v1/txn?dc=d", 200, "{\"Results\":[],\"Errors\":null}");
	ck_assert_int_eq(call("kv import --dc d --prefix /p/ [{\"key\":\"a\\\"b\",\"flags\":18446744073709551615,\"value\":\"eA==\","
	    "\"namespace\":\"default\"},{\"key\":\"c\"}]"), 0);
	ck_assert_str_eq(fake.asked, "PUT /v1/txn?dc=d [{\"KV\":{\"Verb\":\"set\",\"Key\":\"p/a\\\"b\",\"Flags\":"
	    "18446744073709551615,\"Value\":\"eA==\"}},{\"KV\":{\"Verb\":\"set\",\"Key\":\"p/c\",\"Flags\":0,\"Value\":\"\"}}]\n");
	ck_assert_str_eq(out_text, "Imported 2 keys\n");
	ck_assert_int_eq(call("--json kv import []"), 0);
	ck_assert(strcmp(out_text, "{\"Imported\": 0}\n") == 0 && fake.asked[0] == '\0');
	answers(0, "PUT /v1/txn", 409, "{\"Results\":null,\"Errors\":[{\"OpIndex\":1,\"What\":\"no\"}]}");
	ck_assert_int_eq(call("kv import [{\"key\":\"a\"},{\"key\":\"b\"}]"), 1);
	ck_assert_str_eq(err_text, "clusterctl: kv import: entry 2 (\"b\"): no\n"
	    "0 entries before that were written, and those from 1 on were not.\n");
}
END_TEST

/* Each fault of a list is told with the entry that it is in, and what was whole before it is written. */
START_TEST(lists_that_are_none)
{
	static const struct { const char *text, *why; } v[] = {
		{ "[", "the list ends in the middle, at entry 0" },
		{ "[{\"key\":\"a\"},", "the list ends in the middle, at entry 2" },
		{ "[{\"key\":\"a\"}{\"key\":\"b\"}]", "there is no comma behind entry 1" },
		{ "[{\"key\":\"a\"},]", "entry 2 is no object" }, { "[1]", "entry 1 is no object" },
		{ "[{\"key\":\"a\"}]x", "something follows the list" }, { "[{\"flags\":1}]", "entry 1 has no key" },
		{ "[{\"key\":\"a\",\"value\":\"!\"}]", "entry 1 (\"a\"): illegal base64 data" },
		{ "[{\"key\":7}]", "entry 1: json: cannot unmarshal number into Go value of type string" },
		{ "[{\"key\":\"]}\\\"{\",\"flags\":-1}]", "entry 1 (\"]}\\\"{\"): json: cannot unmarshal number -1 into Go value of "
		    "type uint64" },
		{ "[{key:1}]", NULL },
	};
	char line[256];

	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		snprintf(line, sizeof(line), "kv import %s", v[i].text);
		ck_assert_int_eq(call(line), 1);
		snprintf(line, sizeof(line), "clusterctl: kv import: %s\n", v[i].why == NULL ? "entry 1 is no JSON: " : v[i].why);
		if (v[i].why == NULL)
			line[strlen(line) - 1] = '\0';
		ck_assert_msg(strncmp(err_text, line, strlen(line)) == 0, "%s: %s", v[i].text, err_text);
		ck_assert_msg((strncmp(fake.asked, "PUT /v1/txn [", 13) == 0) == (strncmp(v[i].text, "[{\"key\":\"a\"}", 12) == 0),
		    "%s: %s", v[i].text, fake.asked);
	}
	ck_assert_int_eq(call("kv import /nowhere"), 1);
	ck_assert_str_eq(err_text, "clusterctl: kv import: /nowhere: No such file or directory\n");
}
END_TEST

/* A transaction's errors are told one by one, and are a failure; with --json the answer is shown as it is. */
START_TEST(transactions)
{
	static const char body[] = "[{\"KV\":{\"Verb\":\"get\",\"Key\":\"a\"}}]";
	char path[] = "/tmp/tv-ctl-txn-XXXXXX", words[80];
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, body, sizeof(body) - 1), sizeof(body) - 1);
	close(fd);
	snprintf(words, sizeof(words), "txn --dc d2 %s", path);
	answers(0, "PUT /v1/txn?dc=d2", 200, "{\"Results\":[{\"KV\":{\"Key\":\"a\",\"Value\":\"eAo=\",\"ModifyIndex\":12}},"
	    "{\"Node\":{\"ID\":\"\",\"Node\":\"n1\",\"ModifyIndex\":3}},{\"Service\":{\"ID\":\"web1\",\"ModifyIndex\":4}},"
	    "{\"Check\":{\"Node\":\"n1\",\"CheckID\":\"c\\u001b\",\"ModifyIndex\":5}}],\"Errors\":null}");
	ck_assert_int_eq(call(words), 0);
	ck_assert_str_eq(fake.asked, "PUT /v1/txn?dc=d2 [{\"KV\":{\"Verb\":\"get\",\"Key\":\"a\"}}]\n");
	ck_assert_str_eq(out_text, "Kind     Name   Index  Value\nkey      a      12     x\\x0a\nnode     n1     3      \n"
	    "service  web1   4      \ncheck    c\\x1b  5      \n");
	answers(0, "PUT /v1/txn?dc=d2", 200, "{\"Results\":[],\"Errors\":null}");
	ck_assert_int_eq(call(words), 0);
	ck_assert_str_eq(out_text, "Done; no operation has a result.\n");
	answers(0, "PUT /v1/txn?dc=d2", 409, "{\"Results\":null,\"Errors\":[{\"OpIndex\":0,\"What\":\"key \\\"a\\\" doesn't exist\"}]}");
	ck_assert_int_eq(call(words), 1);
	ck_assert_str_eq(err_text, "clusterctl: txn: operation 0: key \"a\" doesn't exist\n"
	    "None of the operations, which are counted from 0, was carried out.\n");
	snprintf(words, sizeof(words), "txn --json %s", path);
	answers(0, "PUT /v1/txn", 409, "{\"Results\":null,\"Errors\":[]}");
	ck_assert_int_eq(call(words), 1);
	ck_assert_str_eq(out_text, "{\n  \"Results\": null,\n  \"Errors\": []\n}\n");
	answers(0, "PUT /v1/txn", 400, "Failed to parse body: EOF");
	ck_assert_int_eq(call(words), 1);
	ck_assert_str_eq(err_text, "{\"Error\":\"clusterctl: txn: Failed to parse body: EOF\",\"Reason\":\"failed\",\"ExitStatus\":1}\n");
	unlink(path);
	ck_assert_int_eq(call(words), 1);
	ck_assert_ptr_nonnull(strstr(err_text, "No such file or directory"));
	ck_assert_int_eq(call("txn"), 2);
}
END_TEST

START_TEST(options_of_all_commands)
{
	static const char *const v[] = {
		"--addr h:1 --token t reload", "reload --addr h:1 --token t", "reload --token=t --addr=h:1", "--addr h:1 reload --token t",
	};

	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		ck_assert_msg(call(v[i]) == 0, "%s", v[i]);
		ck_assert_str_eq(fake.addr, "h:1");
		ck_assert_str_eq(fake.token, "t");
	}
	ck_assert_int_eq(call("reload"), 0);
	ck_assert(fake.addr == NULL && fake.token == NULL);
	ck_assert_int_eq(fake.within.ns, 0);
	ck_assert_int_eq(call("reload --timeout 90s"), 0);
	ck_assert_int_eq(fake.within.ns, 90000000000);
	ck_assert_int_eq(call("--timeout 5 reload"), 2);
	ck_assert_str_eq(err_text, "clusterctl: --timeout: \"5\" is no length of time, such as 30s\n");
	ck_assert_str_eq(fake.asked, "");
	ck_assert_int_eq(call("reload --addr"), 2);
	ck_assert_str_eq(err_text, "clusterctl: --addr needs a value\n");
}
END_TEST

/* -- answers ------------------------------------------------------------------------- */

#define NODES "GET /v1/catalog/nodes"

START_TEST(tables)
{
	answers(0, NODES, 200, "[{\"Node\":\"a-long-name\",\"ID\":\"1\",\"Address\":\"10.0.0.1\",\"Datacenter\":\"dc1\"},"
	    "{\"Node\":\"b\",\"ID\":\"22\",\"Address\":\"10.0.0.200\",\"Datacenter\":\"dc1\"},{\"Node\":\"c\"}]");
	ck_assert_int_eq(call("catalog nodes"), 0);
	ck_assert_str_eq(out_text,
	    "Node         ID  Address     DC\n"
	    "a-long-name  1   10.0.0.1    dc1\n"
	    "b            22  10.0.0.200  dc1\n"
	    "c                            \n");
	answers(0, NODES, 200, "[]");
	ck_assert_int_eq(call("catalog nodes"), 0);
	ck_assert_str_eq(out_text, "Node  ID  Address  DC\n");
	answers(0, "GET /v1/agent/members", 200, "[{\"Name\":\"a\",\"Addr\":\"::1\",\"Port\":8301,\"Status\":4,\"Tags\":{\"role\":\"consul\","
	    "\"build\":\"1\",\"dc\":\"d\"}},{\"Name\":\"b\",\"Addr\":\"10.0.0.1\",\"Port\":7,\"Status\":9,\"Tags\":{\"role\":\"x\"}}]");
	ck_assert_int_eq(call("members"), 0);
	ck_assert_str_eq(out_text,
	    "Node  Address     Status   Type    Build  DC\n"
	    "a     [::1]:8301  failed   server  1      d\n"
	    "b     10.0.0.1:7  unknown  x              \n");
	ck_assert_int_eq(call("members --detailed"), 0);
	ck_assert_ptr_nonnull(strstr(out_text, "  1      role=consul,build=1,dc=d\n"));
	answers(0, "GET /v1/operator/raft/configuration", 200, "{\"Servers\":[{\"Node\":\"a\",\"ID\":\"1\",\"Address\":\"x:1\",\"Leader\":true,"
	    "\"Voter\":true},{\"Node\":\"b\",\"ID\":\"2\",\"Address\":\"y:1\",\"Voter\":false},{\"Node\":\"c\",\"State\":\"failed\",\"Voter\":true}]}");
	ck_assert_int_eq(call("raft list-peers"), 0);
	ck_assert_str_eq(out_text,
	    "Node  ID  Address  State    Voter\n"
	    "a     1   x:1      leader   true\n"
	    "b     2   y:1      learner  false\n"
	    "c                  failed   true\n");
	answers(0, "GET /v1/operator/autopilot/health", 200, "{\"Healthy\":true,\"FailureTolerance\":1,\"Servers\":[{\"Name\":\"a\",\"Address\":\"x:1\","
	    "\"SerfStatus\":\"alive\",\"Leader\":true,\"Voter\":true,\"Healthy\":true,\"StableSince\":\"t\",\"LastContact\":\"0s\",\"LastIndex\":48211},"
	    "{\"Name\":\"b\",\"LastContact\":\"-1ns\",\"LastIndex\":0}]}");
	ck_assert_int_eq(call("raft autopilot health"), 0);
	ck_assert_str_eq(out_text,
	    "Node  Address  Gossip  State    Voter  Healthy  Since  Last contact  Last index\n"
	    "a     x:1      alive   leader   true   true     t      0s            48211\n"
	    "b                      learner                         never         unknown\n"
	    "Healthy; 1 more may fail.\n");
	answers(0, "GET /v1/catalog/services", 200, "{\"web\":[\"v1\"],\"db\":[]}");
	ck_assert_int_eq(call("catalog services"), 0);
	ck_assert_str_eq(out_text, "web\ndb\n");
	answers(0, "GET /v1/kv/?keys", 200, "[\"a\",\"b/c\"]");
	ck_assert_int_eq(call("kv list"), 0);
	ck_assert_str_eq(out_text, "a\nb/c\n");
	answers(0, "GET /v1/kv/?keys", 404, "");
	ck_assert_int_eq(call("kv list"), 0);
	ck_assert_str_eq(out_text, "");
	ck_assert_int_eq(call("--json kv list"), 0);
	ck_assert_str_eq(out_text, "[]\n");
}
END_TEST

/* The same JSON that was the answer. */
START_TEST(json)
{
	static const char answer[] = "{\"web\":[\"v1\",\"\\u001b[31m\"],\"\\u0007\":[],\"n\":18446744073709551}";
	json_t *got, *expected = json_loads(answer, 0, NULL);

	answers(0, "GET /v1/catalog/services", 200, answer);
	ck_assert_int_eq(call("catalog services --json"), 0);
	got = json_loads(out_text, 0, NULL);
	ck_assert_msg(got != NULL && json_equal(got, expected), "%s", out_text);
	json_decref(got);
	json_decref(expected);
	answers(0, "GET /v1/catalog/services", 200, "<html>");
	ck_assert_int_eq(call("catalog services --json"), 1);
	ck_assert(out_text[0] == '\0' && strstr(err_text, "the answer is not JSON") != NULL);
}
END_TEST

#define KEY "pcfPp5a2KlTCWD8SFJx7Q9GwFvD5QFOBJW0yB2V8h0c="

START_TEST(keys_are_hidden)
{
	static const char list[] = "[{\"WAN\":true,\"NumNodes\":3,\"Keys\":{\"" KEY "\":3},\"PrimaryKeys\":{\"" KEY "\":2}}]";
	json_t *hidden;
	const char *id;

	answers(0, "GET /v1/operator/keyring", 200, list);
	ck_assert_int_eq(call("keyring list"), 0);
	ck_assert_ptr_null(strstr(out_text, KEY));
	ck_assert_ptr_nonnull(strstr(out_text, "Pool  Key               Members  Primary\nWAN   "));
	ck_assert_ptr_nonnull(strstr(out_text, "  3 of 3   2\n"));
	ck_assert_int_eq(call("--json keyring list"), 0);
	ck_assert_ptr_null(strstr(out_text, KEY));
	hidden = json_loads(out_text, 0, NULL);
	ck_assert_ptr_nonnull(hidden);
	json_t *keys = json_object_get(json_array_get(hidden, 0), "Keys");
	json_t *primary = json_object_get(json_array_get(hidden, 0), "PrimaryKeys");
	id = json_object_iter_key(json_object_iter(keys));
	ck_assert_uint_eq(strlen(id), strspn(id, "0123456789abcdef"));
	ck_assert_int_eq(json_integer_value(json_object_get(keys, id)), 3);
	ck_assert_int_eq(json_integer_value(json_object_get(primary, id)), 2);
	json_decref(hidden);
	ck_assert_int_eq(call("--json keyring list --show-keys"), 0);
	ck_assert_ptr_nonnull(strstr(out_text, KEY));
	ck_assert_int_eq(call("keyring list --show-keys"), 0);
	ck_assert_ptr_nonnull(strstr(out_text, KEY));
}
END_TEST

/* A terminal gets no bytes that it would obey, in names and in complaints. */
START_TEST(safe_output)
{
	answers(0, NODES, 200, "[{\"Node\":\"a\\u001b[2J\\n\\u009b\",\"ID\":\"\\u00e4\"}]");
	ck_assert_int_eq(call("catalog nodes"), 0);
	ck_assert_ptr_null(strchr(out_text, 0x1b));
	ck_assert_ptr_nonnull(strstr(out_text, "a\\x1b[2J\\x0a"));
	ck_assert_ptr_nonnull(strstr(out_text, "\xc3\xa4"));
	answers(0, "PUT /v1/agent/reload", 500, "bad \033]0;x\007\nsecond\r");
	ck_assert_int_eq(call("reload"), 1);
	ck_assert_str_eq(err_text, "clusterctl: reload: bad \\x1b]0;x\\x07\nsecond\\x0d\n");
	answers(0, "GET /v1/kv/?keys", 200, "[\"k\\u001b\"]");
	ck_assert_int_eq(call("kv keys"), 0);
	ck_assert_str_eq(out_text, "k\\x1b\n");
	answers(0, "PUT /v1/kv/a//%1B", 301, "");
	ck_assert_int_eq(call("kv put a//\033 v"), 1);
	ck_assert_msg(strstr(err_text, "\"a//\\x1b\" cannot be a key") != NULL && strstr(err_text, "301") == NULL, "%s", err_text);
}
END_TEST

START_TEST(complaints)
{
	answers(0, "GET /v1/kv/k?raw", 404, "");
	ck_assert_int_eq(call("kv get k"), 1);
	ck_assert_str_eq(err_text, "clusterctl: kv get: no key \"k\"\n");
	answers(0, "GET /v1/kv/k?raw", 500, "No cluster leader");
	ck_assert_int_eq(call("kv get k"), 1);
	ck_assert_ptr_nonnull(strstr(err_text, "clusterctl: kv get: No cluster leader\n"));
	ck_assert_ptr_nonnull(strstr(err_text, "raft list-peers --stale"));
	answers(0, "GET /v1/kv/k?raw", 0, "");
	ck_assert_int_eq(call("kv get k"), 69);
	ck_assert_ptr_nonnull(strstr(err_text, "no answer from here: nobody is there\n"));
	ck_assert_str_eq(out_text, "");
}
END_TEST

/* -- status -------------------------------------------------------------------------- */

#define TAGS(build, enc) "\"Tags\":{\"id\":\"x\",\"dc\":\"d1\",\"build\":\"" build "\",\"enc\":\"" enc "\"}"
#define MEMBER(name, status, build, enc) "{\"Name\":\"" name "\",\"Status\":" #status "," TAGS(build, enc) "}"
#define SERVER(name, voter, healthy, leader, reason) "{\"Name\":\"" name "\",\"Address\":\"10.0.0.1:8300\",\"Voter\":" #voter \
	",\"Healthy\":" #healthy ",\"Leader\":" #leader ",\"Reason\":\"" reason "\"}"
#define POOL(keys, primaries) "{\"WAN\":false,\"Datacenter\":\"d1\",\"NumNodes\":3,\"Keys\":{" keys "},\"PrimaryKeys\":{" primaries "}}"
#define OTHER_KEY "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
#define TWO_KEYS POOL("\"" KEY "\":3,\"" OTHER_KEY "\":2", "\"" KEY "\":3")

enum { SELF, MEMBERS, WAN, ASIDE, HEALTH, KEYRING, SUBJECTS };

static const char *const subjects[SUBJECTS] = {
	"GET /v1/agent/self", "GET /v1/agent/members", "GET /v1/agent/members?wan=1",
	"GET /v1/operator/autopilot/health?stale", "GET /v1/operator/autopilot/health", "GET /v1/operator/keyring",
};
static const char *const all_well[SUBJECTS] = {
	"{\"Config\":{\"NodeName\":\"n1\",\"Datacenter\":\"d1\",\"Server\":true},\"Stats\":{\"rpcd\":{\"gossipd\":\"connected\","
	"\"raftd\":\"connected\",\"folders\":\"ok\",\"version\":\"1\"},\"gossipd\":{\"version\":\"1\",\"folders\":\"ok\"},"
	"\"raft\":{\"disk_free\":\"2500000000\",\"disk_full\":\"0\",\"fenced_by_generation\":\"0\"},\"keyring\":{\"state\":\"ok\"}}}",
	"[" MEMBER("n1", 1, "1", "required") "," MEMBER("n2", 1, "1", "required") "," MEMBER("c", 3, "0", "off") "]", "[]",
	"{\"Servers\":[" SERVER("n1", true, true, true, "") "," SERVER("n2", true, true, false, "") "],\"Reason\":\"As n2 sees it\"}",
	"{\"Servers\":[" SERVER("n1", true, true, true, "") "," SERVER("n2", true, true, false, "") "],\"FailureTolerance\":0}",
	"[" POOL("\"" KEY "\":3", "\"" KEY "\":3") "]",
};

/* status with another answer to one question; NULL: to none. */
static int
status_with(unsigned subject, long http_status, const char *answer)
{
	for (unsigned i = 0; i < SUBJECTS; i++)
		answers(i, subjects[i], 200, all_well[i]);
	if (answer != NULL)
		answers(subject, subjects[subject], http_status, answer);
	return call("status");
}

START_TEST(status_well)
{
	json_t *got;

	ck_assert_int_eq(status_with(0, 0, NULL), 0);
	ck_assert_str_eq(out_text,
	    "node      well      n1, server in d1\n"
	    "leader    well      n1 (10.0.0.1:8300)\n"
	    "quorum    well      2 of 2 voters healthy, 0 more may fail\n"
	    "servers   well      2 in touch, with all of the log\n"
	    "disks     well      none is full, 2.5 GB free here\n"
	    "members   well      2 alive, 0 failed, 1 left\n"
	    "identity  well      each member has its own id and name\n"
	    "versions  well      1 everywhere\n"
	    "keyring   well      all have the same key\n"
	    "All is well.\n");
	ck_assert_str_eq(err_text, "");
	ck_assert_int_eq(call("--json status"), 0);
	got = json_loads(out_text, 0, NULL);
	ck_assert(json_is_true(json_object_get(got, "Well")));
	ck_assert_uint_eq(json_array_size(json_object_get(got, "Checks")), 9);
	json_decref(got);
	ck_assert_int_eq(call("status x"), 2);
	ck_assert_int_eq(call("status --stale"), 2);
}
END_TEST

/* Each thing that is not well, or not known, is a line, and exit status 1. */
START_TEST(status_not_well)
{
	static const struct { unsigned subject; long http_status; const char *answer, *line; } v[] = {
		{ SELF, 0, "", "node      unknown   no answer from here: nobody is there. Is rpcd running there? systemctl status rpcd\nNot all is well.\n" },
		{ SELF, 200, "{\"Stats\":{\"rpcd\":{\"gossipd\":\"connected\",\"raftd\":\"away\"}}}",
		    "node      not well  raftd does not run here. systemctl restart raftd\n" },
		{ SELF, 200, "{\"Stats\":{\"rpcd\":{\"gossipd\":\"silent\",\"raftd\":\"connected\"}}}",
		    "node      not well  gossipd runs here, but does not answer. systemctl restart gossipd\n" },
		{ SELF, 200, "{\"Stats\":{\"rpcd\":{\"gossipd\":\"away\"}}}", "members   unknown   gossipd does not report changes. systemctl" },
		{ SELF, 200, "{\"Stats\":{\"raftd\":{\"folders\":\"data_dir was removed\"}}}",
		    "node      not well  folders of raftd: data_dir was removed. systemctl restart raftd\n" },
		{ SELF, 200, "{\"Stats\":{\"raft\":{\"fenced_by_generation\":\"2\"}}}", "as generation 2. On that server: systemctl stop raftd, move the folder raftd of its data_dir away, systemctl start raftd\n" },
		{ SELF, 200, "{\"Stats\":{\"rpcd\":{\"tls_certificate_days\":\"14\",\"tls_authorities_days\":\"13\"}}}",
		    "https     not well  a CA that vouches for clients ends in 13 days. Put another one into ca_file" },
		{ SELF, 200, "{\"Stats\":{\"rpcd\":{\"tls_certificate_days\":\"99\",\"keys_trouble\":\"/k: is empty\"}}}",
		    "https     not well  /k: is empty. The files from before serve until these are mended\n" },
		{ SELF, 200, "{\"Stats\":{\"rpcd\":{\"tls_certificate_days\":\"0\",\"tls_authorities_days\":\"none\"}}}",
		    "https     not well  the certificate has ended, or does within a day. Make a new one" },
		{ SELF, 200, "{\"Stats\":{\"raft\":{\"state_lost\":\"1\"}}}", "node      not well  the state here was damaged" },
		{ SELF, 200, "{\"Stats\":{\"raft\":{\"trouble\":\"another server.key\"}}}", "node      not well  another server.key. " },
		{ SELF, 200, "{\"Config\":{\"NodeName\":\"n9\"},\"Stats\":{\"raft\":{\"disk_full\":\"1\"}}}",
		    "disks     not well  n9: its disk is full. Free space there, see disk_reserve in raftd.conf(5)\n" },
		{ SELF, 200, "{\"Stats\":{\"rpcd\":{\"version\":\"1\"},\"gossipd\":{\"version\":\"2\"}}}",
		    "versions  not well  here rpcd is 1 and gossipd is 2. systemctl restart triumvir.target\n" },
		{ SELF, 200, "{\"Stats\":{\"keyring\":{\"state\":\"old key\"}}}", "keyring   not well  here: old key. clusterctl info keyring\n" },
		{ MEMBERS, 500, "no\nmemory", "members   unknown   no memory. systemctl status rpcd\n" },
		{ MEMBERS, 200, "[" MEMBER("n1", 1, "1", "required") "," MEMBER("c\\u001b", 4, "1", "required") "]",
		    "members   not well  c\\x1b: failed. Start it; if it is gone for good: clusterctl force-leave c\\x1b\n" },
		{ MEMBERS, 200, "[" MEMBER("n1", 1, "1", "required") "," MEMBER("n2", 1, "2", "required") "," MEMBER("n3", 1, "2", "required") "]",
		    "versions  not well  1 on n1; 2 on n2, n3. Upgrade the others: Versions in triumvir(7)\n" },
		{ MEMBERS, 200, "[" MEMBER("n1", 1, "1", "accept") "," MEMBER("n2", 1, "1", "send") "]",
		    "keyring   not well  on the way to encryption: 1 at \"accept\", 1 at \"send\". clusterctl keyring encrypt\n" },
		{ MEMBERS, 200, "[" MEMBER("n1", 1, "1", "send") "]", "encryption: 1 at \"send\". clusterctl keyring encrypt\n" },
		{ WAN, 200, "[{\"Name\":\"s.d2\",\"Status\":4,\"Tags\":{\"dc\":\"d2\"}},{\"Name\":\"s.d1\",\"Status\":4,\"Tags\":{\"dc\":\"d1\"}}]",
		    "members   not well  s.d2: failed. Start it; if it is gone for good: clusterctl force-leave s.d2\nidentity" },
		{ ASIDE, 500, "No cluster leader", "leader    unknown   No cluster leader. Ask on a server; clusterctl members shows them\n" },
		{ ASIDE, 500, "No cluster leader", "keyring   unknown   not reported by any server. See leader\n" },
		{ ASIDE, 429, "{\"Servers\":[" SERVER("n1", true, true, false, "") "," SERVER("n2", true, false, false, "gossip reports it failed") "],"
		    "\"Reason\":\"No leader: 1 voter is present, and 2 are needed; waiting for n2\"}",
		    "leader    not well  none: 1 voter is present, and 2 are needed; waiting for n2. Start the others: clusterctl raft list-peers --stale; "
		    "only if they are lost for good: clusterctl raft recover --dry-run\n"
		    "quorum    not well  1 of 2 voters healthy, 2 needed. Start the others: clusterctl raft list-peers --stale\n"
		    "servers   not well  n2: gossip reports it failed. Start it; if it is gone for good, see leader\n"
		    "disks     unknown   without a leader" },
		{ HEALTH, 429, "{\"Servers\":[" SERVER("n1", true, true, true, "") "," SERVER("n2", false, true, false, "") ","
		    SERVER("n3", true, false, false, "its rpcd does not run") "," SERVER("n4", true, true, false, "") "]}",
		    "quorum    well      2 of 3 voters healthy, 0 more may fail; no voter yet: n2 (healthy since " },
		{ ASIDE, 200, "<html>", "leader    unknown   the answer is not JSON. " },
		{ HEALTH, 500, "rpc error", "leader    unknown   rpc error. " },
		{ HEALTH, 429, "{\"Servers\":[" SERVER("n1", true, true, true, "") "," SERVER("n2", true, false, false, "its disk is full") "]}",
		    "disks     not well  n2: its disk is full. Free space there" },
		{ HEALTH, 429, "{\"Servers\":[" SERVER("n1", true, true, true, "") "," SERVER("n2", false, false, false, "its log is 300 entries behind, 250 allowed") "]}",
		    "servers   not well  n2: its log is 300 entries behind, 250 allowed. It may catch up by itself: clusterctl raft autopilot health\n" },
		{ HEALTH, 429, "{\"Servers\":[" SERVER("n1", true, true, true, "") "," SERVER("n2", true, false, false, "its rpcd does not run") "]}",
		    "servers   not well  n2: its rpcd does not run. There: systemctl restart rpcd\n" },
		{ KEYRING, 403, "GET administers", "keyring   unknown   GET administers. clusterctl keyring list\n" },
		{ KEYRING, 200, "[" TWO_KEYS "]", " (on 2, primary of 0). If the rotation is over: clusterctl keyring remove " },
		{ KEYRING, 200, "[" TWO_KEYS "]", "; else finish it, to the key that you name: clusterctl keyring rotate --key ID\n" },
		{ KEYRING, 200, "[" POOL("\"" KEY "\":3,\"" OTHER_KEY "\":3", "\"" KEY "\":1,\"" OTHER_KEY "\":2") "]", "). Finish the rotation, to" },
		{ KEYRING, 200, "[" POOL("\"" KEY "\":2", "\"" KEY "\":2") "]", " (on 2, primary of 2). Finish the rotation" },
		{ KEYRING, 200, "[" POOL("\"" KEY "\":3", "\"" KEY "\":2") "]", " (on 3, primary of 2). Finish the rotation" },
		{ KEYRING, 200, "[{\"WAN\":true,\"NumNodes\":2,\"Messages\":{\"n2.d1\":\"no answer\"},\"Keys\":{\"" KEY "\":1},\"PrimaryKeys\":{\"" KEY "\":1}}]",
		    "keyring   unknown   WAN: no answer of n2.d1. clusterctl members --wan shows who failed\nNot" },
		{ KEYRING, 200, "[{\"NumNodes\":2,\"Messages\":{\"n2\":\"malformed answer\"},\"Keys\":{\"" KEY "\":1},\"PrimaryKeys\":{\"" KEY "\":1}}]",
		    ": n2 (malformed answer). clusterctl keyring list\nNot" },
		{ KEYRING, 200, "[{\"Datacenter\":\"d2\",\"Error\":\"No path to datacenter\"}]",
		    "keyring   unknown   LAN (d2): No path to datacenter. clusterctl keyring list\n" },
	};

	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		ck_assert_msg(status_with(v[i].subject, v[i].http_status, v[i].answer) == 1, "%u: %s", i, out_text);
		ck_assert_msg(strstr(out_text, v[i].line) != NULL, "%u: no %s in %s", i, v[i].line, out_text);
		ck_assert_msg(strstr(out_text, KEY) == NULL && strchr(out_text, 0x1b) == NULL && err_text[0] == '\0', "%u", i);
		ck_assert_msg(strcmp(out_text + strlen(out_text) - strlen("Not all is well.\n"), "Not all is well.\n") == 0, "%u", i);
	}
}
END_TEST

/* What is no trouble: a pool in plaintext, a client, a server that failed and is told once. */
START_TEST(status_nuances)
{
	json_t *got;

	ck_assert_int_eq(status_with(MEMBERS, 200, "[" MEMBER("n1", 1, "1", "off") "," MEMBER("n2", 1, "1", "off") "]"), 0);
	ck_assert_ptr_nonnull(strstr(out_text, "keyring   well      gossip is not encrypted\n"));
	ck_assert_ptr_null(strstr(fake.asked, "keyring"));
	ck_assert_int_eq(status_with(SELF, 200, "{\"Config\":{\"NodeName\":\"c\",\"Datacenter\":\"d1\"},\"Stats\":{\"rpcd\":{\"gossipd\":\"connected\",\"raftd\":\"none\"}}}"), 0);
	ck_assert_ptr_nonnull(strstr(out_text, "node      well      c, client in d1\n"));
	ck_assert_ptr_nonnull(strstr(out_text, "disks     well      none is full\n"));
	ck_assert_int_eq(status_with(HEALTH, 403, "Permission denied: Missing operator:read permissions"), 1);
	ck_assert_ptr_nonnull(strstr(out_text, "leader    unknown   Permission denied: Missing operator:read permissions. "
	    "Show a token that has it, with --token-file; a cluster's first one is made by clusterctl acl bootstrap\n"));
	(void)status_with(HEALTH, 429, "{\"Servers\":[" SERVER("n1", true, true, true, "") ","
 SERVER("n2", true, false, false, "gossip reports it failed") "]}");
	answers(MEMBERS, subjects[MEMBERS], 200, "[" MEMBER("n1", 1, "1", "required") "," MEMBER("n2", 4, "1", "required") "]");
	ck_assert_int_eq(call("status"), 1);
	ck_assert_ptr_nonnull(strstr(out_text, "servers   not well  n2: "));
	ck_assert_ptr_nonnull(strstr(out_text, "members   well      1 alive, 1 failed, 0 left\n"));
	ck_assert_int_eq(call("status --json"), 1);
	got = json_loads(out_text, 0, NULL);
	ck_assert(json_is_false(json_object_get(got, "Well")));
	json_t *line = json_array_get(json_object_get(got, "Checks"), 3);
	ck_assert_str_eq(json_text(line, "Check"), "servers");
	ck_assert_str_eq(json_text(line, "Status"), "not well");
	ck_assert_str_eq(json_text(line, "Text"), "n2: gossip reports it failed");
	ck_assert_str_eq(json_text(line, "Remedy"), "Start it; if it is gone for good: clusterctl force-leave n2");
	json_decref(got);
}
END_TEST

/* What it says of a node that lives and of one that failed does not contradict itself. */
START_TEST(force_leave)
{
	answers(0, "GET /v1/agent/members", 200, "[{\"Name\":\"n2\",\"Status\":1},{\"Name\":\"n3\",\"Status\":4}]");
	answers(1, "GET /v1/status/leader", 200, "\"10.0.0.1:8300\"");
	ck_assert_int_eq(call("force-leave n2"), 0);
	ck_assert(out_text[0] == '\0' && strstr(err_text, "n2 is not known to have failed") != NULL);
	ck_assert_int_eq(call("force-leave --prune n3"), 0);
	ck_assert_ptr_nonnull(strstr(fake.asked, "PUT /v1/agent/force-leave/n3?prune\n"));
	ck_assert_str_eq(out_text, "Announced to the cluster that it has left.\n");
	ck_assert_str_eq(err_text, "");
}
END_TEST

/* -- wrong calls --------------------------------------------------------------------- */

/* Nothing is asked for them. */
START_TEST(wrong_calls)
{
	static const struct { const char *words, *says; } v[] = {
		{ "", "usage: clusterctl [" }, { "memebers", "did you mean \"members\"?" }, { "xyzzy", "no command \"xyzzy\"; `" },
		{ "kv", "usage: clusterctl kv get" }, { "kv gte x", "no \"gte\"; did you mean \"get\"?" },
		{ "kv get", "usage: clusterctl kv get" }, { "kv get a b", "usage: clusterctl kv get" },
		{ "kv zzz", "kv: no \"zzz\"; `clusterctl help kv` lists them\nusage:" }, { "kv get --recurse x", "kv get has no option --recurse" },
		{ "kv put --cas x k v", "--cas: \"x\" is not a number" }, { "kv put --flags -1 k v", "is not a number" },
		{ "kv delete --recurs k", "Did you mean --recurse?" }, { "kv get --stale=1 k", "--stale takes no value" },
		{ "kv get k --dc", "--dc needs a value" }, { "catalog node", "did you mean \"nodes\"?" },
		{ "members extra", "usage: clusterctl members" }, { "members -wan", "\"-wan\" is written --wan" },
		{ "members -detailed", "is written --detailed" }, { "kv get -http-addr=x k", "\"-http-addr\" is written --addr" },
		{ "-http-addr x members", "is written --addr" }, { "-token-file=x members", "\"-token-file\" is written --token-file FILE" },
		{ "operator raft list-peers", "is here: clusterctl raft list-peers\n" },
		{ "operator raft remove-peer -id=x", "is here: clusterctl raft remove-peer SERVER\n" },
		{ "operator autopilot state", "is here: clusterctl raft autopilot health\n" }, { "operator", "is here: clusterctl raft\n" },
		{ "keyring -install=x", "is here: clusterctl keyring install -\n" }, { "event -name=x", "is here: clusterctl event fire NAME\n" },
		{ "agent -dev", "is here: clusterctl dev\n" }, { "connect ca", "no equivalent in this version" },
		{ "raft autopilot set", "usage: clusterctl raft autopilot set NAME=VALUE...\n" }, { "raft autopilot x", "autopilot health\n" },
		{ "query answer --exec a --text b x", "usage: clusterctl query answer --exec COMMAND|--text TEXT NAME\n" },
		{ "query answer x", "usage: clusterctl query answer" }, { "help kvs", "did you mean \"kv\"?" }, { "members --help --wan", "unknown option \"--help\"" },
		{ "watch --type key", "--type key needs --key" }, { "watch --key x", "--type is needed" },
		{ "watch --type keys --key x", "there is no such type" }, { "watch --type nodes --service x", "--type nodes has no --service" },
		{ "watch --type key --key x --passing", "--type key has no --passing" }, { "watch --type service", "needs --service" },
		{ "watch --type checks --service x --state any", "not both" }, { "watch --type nodes --http ftp://x", "write http://" },
		{ "watch --type nodes --exec a b", "one of them" }, { "watch --type nodes --exec a --http http://x", "one of them" },
		{ "watch -type=nodes", "is here: clusterctl watch --type TYPE" }, { "maint -enable", "is here: clusterctl maint enable" },
		{ "debug --duration x", "--duration: \"x\" is no length of time" }, { "debug --interval 1ms", "from 100ms to 1h" },
		{ "debug --duration 2h", "from 1s to 1h" }, { "debug x", "usage: clusterctl debug" },
		{ "lock x", "usage: clusterctl lock" }, { "lock --n 0 x true", "--n: \"0\" is no number" }, { "lock // true", "the prefix is empty" },
		{ "lock --try x a true", "is no length of time" }, { "lock --try 0s a true", "is no length" }, { "lock --monitor-retry x a b", "not a number" },
		{ "maint status --reason x", "maint status has no option --reason" }, { "maint --service", "needs a value" },
		{ "members -token=x", "\"-token\" is written --token" }, { "kv get -stale k", "\"-stale\" is written --stale" }, { "version x", "usage: clusterctl version" },
	};

	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		ck_assert_msg(call(v[i].words) == 2, "%s", v[i].words);
		ck_assert_msg(strstr(err_text, v[i].says) != NULL, "%s: %s", v[i].words, err_text);
		ck_assert_msg(out_text[0] == '\0' && fake.asked[0] == '\0', "%s: %s%s", v[i].words, out_text, fake.asked);
	}
}
END_TEST

START_TEST(nearness)
{
	static const struct { const char *a, *b; bool near; unsigned distance; } v[] = {
		{ "members", "members", true, 0 }, { "memebers", "members", true, 1 }, { "emmbers", "members", true, 1 },
		{ "membrs", "members", true, 1 }, { "memburz", "members", true, 2 }, { "mxmbxrx", "members", false, 0 },
		{ "gte", "get", true, 1 }, { "x", "kv", false, 0 }, { "", "kv", false, 0 }, { "kv", "rtt", false, 0 },
		{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "kv", false, 0 },
	};

	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		unsigned best = UINT_MAX;

		ck_assert_msg(ctl_nearer(v[i].a, v[i].b, &best) == v[i].near, "%s %s", v[i].a, v[i].b);
		ck_assert_msg(!v[i].near || best == v[i].distance, "%s %s: %u", v[i].a, v[i].b, best);
		ck_assert_msg(!v[i].near || !ctl_nearer(v[i].a, v[i].b, &best), "%s is nearer than itself", v[i].b);
	}
}
END_TEST

/* Where options may stand, which count, and what becomes a parameter. */
START_TEST(options)
{
	static const struct { const char *words, *asked; } v[] = {
		{ "kv --stale get a", "GET /v1/kv/a?raw&stale\n" }, { "kv --dc x get --dc=y a", "GET /v1/kv/a?raw&dc=x&dc=y\n" },
		{ "kv get -- --dc", "GET /v1/kv/--dc?raw\n" }, { "kv get -", "GET /v1/kv/-?raw\n" },
		{ "query --tag a=b x --tag=c=d -- --tag", "PUT /v1/agent/query/x?tag=a%3Db&tag=c%3Dd --tag\n" },
		{ "query --timeout 5s --no-ack x", "PUT /v1/agent/query/x?timeout=5s&no-ack\n" },
		{ "query -- answer", "PUT /v1/agent/query/answer\n" },
		{ "event list --name x", "GET /v1/event/list?name=x\n" },
		{ "event fire --node a --coalesce x p", "PUT /v1/event/fire/x?node=a&coalesce p\n" },
		{ "raft autopilot", "GET /v1/operator/autopilot/configuration\n" },
		{ "raft autopilot get", "GET /v1/operator/autopilot/configuration\n" },
		{ "maint enable", "PUT /v1/agent/maintenance?enable=true\n" }, { "maint status", "GET /v1/agent/checks\n" },
		{ "maint enable --reason a_b --service x/y", "PUT /v1/agent/service/maintenance/x%2Fy?enable=true&reason=a%20b\n" },
		{ "maint disable --service x", "PUT /v1/agent/service/maintenance/x?enable=false\n" },
		{ "watch --type key --key /a/b --stale", "GET /v1/kv/a/b?stale\n" },
		{ "watch --type keyprefix --prefix a/ --dc x", "GET /v1/kv/a/?recurse&dc=x\n" },
		{ "watch --type service --service a/b --tag x --tag y --passing", "GET /v1/health/service/a%2Fb?tag=x&tag=y&passing\n" },
		{ "watch --type checks", "GET /v1/health/state/any\n" }, { "watch --type checks --service x", "GET /v1/health/checks/x\n" },
		{ "watch --type event --name x", "GET /v1/event/list?name=x\n" }, { "watch --type nodes", "GET /v1/catalog/nodes\n" },
		{ "monitor --level warn --daemon raftd", "GET /v1/agent/monitor?loglevel=warn&daemon=raftd\n" },
	};

	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		(void)call(v[i].words);
		ck_assert_msg(strcmp(fake.asked, v[i].asked) == 0, "%s: %s%s", v[i].words, fake.asked, err_text);
	}
}
END_TEST

/* What is under maintenance, and nothing else. */
START_TEST(maintenance)
{
	answers(0, "GET /v1/agent/checks", 200, "{\"_node_maintenance\":{\"Node\":\"n1\",\"CheckID\":\"_node_maintenance\","
	    "\"Notes\":\"why\"},\"_service_maintenance:a\":{\"CheckID\":\"_service_maintenance:a\",\"Notes\":\"x\\u001b\"},"
	    "\"c\":{\"CheckID\":\"c\",\"Notes\":\"no\"}}");
	ck_assert_int_eq(call("maint status"), 0);
	ck_assert_str_eq(out_text, "Kind     Name  Reason\nnode     n1    why\nservice  a     x\\x1b\n");
	ck_assert_int_eq(call("maint status --service b"), 0);
	ck_assert_str_eq(out_text, "The service is not under maintenance.\n");
	ck_assert_int_eq(call("--json maint status --service a"), 0);
	ck_assert(strstr(out_text, "\"ServiceID\": \"a\"") != NULL && strstr(out_text, "n1") == NULL);
	answers(0, "PUT /v1/agent/service/maintenance/x?enable=true", 404, "No service registered with ID \"x\"");
	ck_assert_int_eq(call("maint enable --service x"), 1);
}
END_TEST

/* Several rows may have one name: what was there before is taken from all of them. */
START_TEST(use_in_some_time)
{
	answers(0, "GET /v1/agent/top", 200, "{\"Tokens\":[{\"Name\":\"unknown\",\"Requests\":7,\"Milliseconds\":1.0},"
	    "{\"Name\":\"a\",\"Requests\":5},{\"Name\":\"unknown\",\"Requests\":3,\"Milliseconds\":2.0}]}");
	ck_assert_int_eq(call("--json top --for 1ms tokens"), 0);
	ck_assert_str_eq(out_text, "{\n  \"Tokens\": []\n}\n");
	ck_assert_int_eq(call("--json top tokens"), 0);
	ck_assert_ptr_nonnull(strstr(out_text, "\"Requests\": 3"));
}
END_TEST

/* -- locks and semaphores ------------------------------------------------------------- */

#define ME "11111111-1111-1111-1111-111111111111"
#define OTHER "22222222-2222-2222-2222-222222222222"

/* {"Key":key,...}: as the API has it. */
static void
put_entry(struct buf *out, const char *key, uint64_t flags, const char *session, const char *value)
{
	struct buf text = BUF_INIT(4096);

	base64_encode(span_str(value), &text);
	buf_printf(out, "%s{\"LockIndex\":3,\"Key\":\"%s\",\"Flags\":%llu,\"Value\":\"%s\",\"ModifyIndex\":9%s%s%s}",
	    out->len > 1 ? "," : "", key, (unsigned long long)flags, buf_cstr(&text), session != NULL ? ",\"Session\":\"" : "",
	    session != NULL ? session : "", session != NULL ? "\"" : "");
	buf_done(&text);
}

static json_t *
entries_of(struct buf *text)
{
	json_t *list;

	buf_u8(text, ']');
	list = json_loadb((const char *)text->data, text->len, JSON_DECODE_INT_AS_REAL, NULL);
	ck_assert_ptr_nonnull(list);
	buf_done(text);
	return list;
}

START_TEST(locks)
{
	static const struct { uint64_t flags; const char *session; enum lock_verdict verdict; } v[] = {
		{ LOCK_FLAGS, ME, LOCK_HELD }, { LOCK_FLAGS, OTHER, LOCK_TAKEN }, { LOCK_FLAGS, NULL, LOCK_FREE },
		{ 0, NULL, LOCK_STRANGE }, { SEMAPHORE_FLAGS, OTHER, LOCK_STRANGE }, { SEMAPHORE_FLAGS, ME, LOCK_STRANGE },
	};
	struct lock_view view;

	lock_look(NULL, ME, &view);
	ck_assert(view.verdict == LOCK_FREE && view.modify_index == 0);
	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct buf text = BUF_INIT(4096);

		buf_u8(&text, '[');
		put_entry(&text, "p/.lock", v[i].flags, v[i].session, "");
		json_t *list = entries_of(&text);
		lock_look(list, ME, &view);
		ck_assert_msg(view.verdict == v[i].verdict && view.modify_index == 9 && view.lock_index == 3, "%u", i);
		ck_assert_str_eq(view.holder, v[i].session != NULL ? v[i].session : "");
		json_decref(list);
	}
}
END_TEST

START_TEST(semaphores)
{
	static const struct {
		const char *value;		/* of the key; NULL: it is not there */
		uint64_t flags;
		bool me, other;			/* whose entries live */
		enum lock_verdict verdict;
		unsigned holders;
		const char *next;		/* what is to be written */
	} v[] = {
		{ NULL, 0, true, false, LOCK_FREE, 0, "{\"Limit\":2,\"Holders\":{\"" ME "\":true}}" },
		{ "", SEMAPHORE_FLAGS, true, false, LOCK_FREE, 0, "{\"Limit\":2,\"Holders\":{\"" ME "\":true}}" },
		{ "{\"Limit\":2,\"Holders\":{\"" OTHER "\":true}}", SEMAPHORE_FLAGS, true, true, LOCK_FREE, 1,
		    "{\"Limit\":2,\"Holders\":{\"" OTHER "\":true,\"" ME "\":true}}" },
		/* The other one is dead. */
		{ "{\"Limit\":2,\"Holders\":{\"" OTHER "\":true}}", SEMAPHORE_FLAGS, true, false, LOCK_FREE, 0,
		    "{\"Limit\":2,\"Holders\":{\"" ME "\":true}}" },
		{ "{\"Limit\":2,\"Holders\":{\"" OTHER "\":true,\"" ME "\":true}}", SEMAPHORE_FLAGS, true, true, LOCK_HELD, 2,
		    "{\"Limit\":2,\"Holders\":{\"" OTHER "\":true}}" },
		/* So are we. */
		{ "{\"Limit\":2,\"Holders\":{\"" ME "\":true}}", SEMAPHORE_FLAGS, false, true, LOCK_FREE, 0,
		    "{\"Limit\":2,\"Holders\":{\"" ME "\":true}}" },
		{ "{\"Limit\":3,\"Holders\":{}}", SEMAPHORE_FLAGS, true, true, LOCK_OTHER_LIMIT, 0, NULL },
		{ "{\"Limit\":2,\"Holders\":null}", SEMAPHORE_FLAGS, true, true, LOCK_FREE, 0,
		    "{\"Limit\":2,\"Holders\":{\"" ME "\":true}}" },
		{ "{\"Limit\":2,\"Holders\":7}", SEMAPHORE_FLAGS, true, true, LOCK_STRANGE, 0, NULL },
		{ "what", SEMAPHORE_FLAGS, true, true, LOCK_STRANGE, 0, NULL },
		{ "{\"Limit\":2,\"Holders\":{}}", 0, true, true, LOCK_STRANGE, 0, NULL },
		{ "", LOCK_FLAGS, true, true, LOCK_STRANGE, 0, NULL },
	};

	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct buf text = BUF_INIT(8192);
		struct lock_view view;

		buf_u8(&text, '[');
		if (v[i].value != NULL)
			put_entry(&text, "p/.lock", v[i].flags, NULL, v[i].value);
		put_entry(&text, "p/" ME, SEMAPHORE_FLAGS, v[i].me ? ME : NULL, "");
		put_entry(&text, "p/" OTHER, SEMAPHORE_FLAGS, v[i].other ? OTHER : NULL, "");
		json_t *list = entries_of(&text);
		semaphore_look(list, "p/.lock", ME, 2, &view);
		char *next = json_dumps(view.value, JSON_COMPACT);
		ck_assert_msg(view.verdict == v[i].verdict && view.holders == v[i].holders, "%u: %d", i, view.verdict);
		ck_assert_msg((next == NULL) == (v[i].next == NULL), "%u", i);
		ck_assert_str_eq(next != NULL ? next : "", v[i].next != NULL ? v[i].next : "");
		free(next);
		json_decref(view.value);
		json_decref(list);
	}
}
END_TEST

/* What stands behind COMMAND is for another program. */
START_TEST(foreign_options)
{
	answers(0, "GET /v1/catalog/nodes", 200, "[]");
	ck_assert_int_eq(call("watch --addr x --type nodes --json"), 0);
	ck_assert_str_eq(out_text, "[]\n");
	ck_assert_str_eq(fake.addr, "x");
	ck_assert_int_eq(call("help kv get --json"), 0);
}
END_TEST

/* What the readers of the table take for granted: see ctl.h. */
START_TEST(table)
{
	for (const struct verb *v = ctl_verbs; v->words != NULL; v++) {
		char command[64];

		snprintf(command, sizeof(command), "%.*s", (int)strcspn(v->words, " "), v->words);
		ck_assert_msg(v->args != NULL && v->help[0] != '\0', "%s", v->words);
		/* A command begins with a row of its own, and its rows stand together. */
		if (strcmp(command, v->words) != 0)
			ck_assert_msg(ctl_under(&v[-1], command), "%s", v->words);
		for (const struct option *o = v->options; o != NULL && o->form != NULL; o++) {
			bool named = strncmp(o->form, "--", 2) == 0;
			const struct option *first = named ? ctl_option(command, o->form + 2) : o;

			ck_assert_msg(o->help[0] != '\0', "%s: %s", v->words, o->form);
			ck_assert_msg((strchr(o->form, ' ') == NULL) == (strchr(first->form, ' ') == NULL), "%s: %s", command, o->form);
			/* Those of all commands would take it. */
			ck_assert_msg(!named || ctl_option_in(ctl_globals, o->form + 2) == NULL ||
			    strcmp(command, "query") == 0, "%s", o->form);
		}
	}
}
END_TEST

START_TEST(completion)
{
	static const struct { const char *words, *in, *out; } v[] = {
		{ "", "\nmembers\n", "\nget\n" }, { "", "\n--addr\n", "\n--stale\n" }, { "kv", "\nput\n", "\nlist-peers\n" },
		{ "kv", "\n--cas\n", "\nKEY\n" }, { "kv get", "\n--stale\n", "\n--cas\n" }, { "kv get", "\nKEY\n", "\nput\n" },
		{ "kv get --dc", "\nDC\n", "\n--stale\n" }, { "kv --dc get", "\nput\n", "\nDC\n" },
		{ "--json --addr x raft autopilot", "\nhealth\n", "\nrecover\n" }, { "monitor --level", "\nwarn\n", "\nraftd\n" },
		{ "monitor --level=warn", "\n--daemon\n", "\ndebug\n" }, { "rtt", "\nNODE\n", "\nFILE\n" },
		{ "snapshot save", "\nFILE\n", "\nrestore\n" }, { "help", "\nmembers\n", "\nCOMMAND\n" },
		{ "help raft", "\nrecover\n", "\nkv\n" }, { "query --timeout", "\nD\n", "\n--node\n" },
	};
	char words[256], lines[sizeof(out_text) + 1];

	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		snprintf(words, sizeof(words), "--complete %s", v[i].words);
		ck_assert_int_eq(call(words), 0);
		snprintf(lines, sizeof(lines), "\n%s", out_text);
		ck_assert_msg(strstr(lines, v[i].in) != NULL, "%s: not %s in %s", words, v[i].in, out_text);
		ck_assert_msg(strstr(lines, v[i].out) == NULL, "%s: %s in %s", words, v[i].out, out_text);
		ck_assert(err_text[0] == '\0' && fake.asked[0] == '\0');
	}
}
END_TEST

/* Each command of the list has its page, the same by both ways, with all that a wrong call is told. */
START_TEST(help)
{
	static char list[sizeof(out_text)], page[sizeof(out_text)];
	char words[64];
	unsigned count = 0;

	ck_assert_int_eq(call("help"), 0);
	snprintf(list, sizeof(list), "%s", out_text);
	for (char *line = list; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
		line += *line == '\n';
		size_t n = strcspn(line + 2, " ");

		if (strncmp(line, "  ", 2) != 0 || n == 0)
			continue;
		snprintf(words, sizeof(words), "help %.*s", (int)n, line + 2);
		ck_assert_msg(call(words) == 0, "%s", words);
		snprintf(page, sizeof(page), "%s", out_text);
		snprintf(words, sizeof(words), "%.*s --help", (int)n, line + 2);
		ck_assert_int_eq(call(words), 0);
		ck_assert_str_eq(out_text, page);
		snprintf(words, sizeof(words), "%.*s --no-such-option", (int)n, line + 2);
		ck_assert_int_eq(call(words), 2);
		const char *usage = strstr(err_text, "usage: ");
		ck_assert_msg(usage != NULL && strncmp(page, usage, strlen(usage)) == 0, "%s: %s", words, err_text);
		count++;
	}
	ck_assert_uint_ge(count, 19);
	ck_assert_int_eq(call("version"), 0);
	ck_assert_str_eq(out_text, "clusterctl " TV_VERSION "\n");
}
END_TEST

static void
clean(void)
{
	memset(&fake, 0, sizeof(fake));
}

int
main(void)
{
	Suite *s = suite_create("ctl");
	TCase *t = tcase_create("ctl");
	const TTest *const tests[] = {
		questions, writes, keys_move, lists_that_are_none, transactions, options_of_all_commands, tables, json, keys_are_hidden, safe_output, complaints, status_well, status_not_well,
		status_nuances, force_leave,
		maintenance, use_in_some_time, locks, semaphores, foreign_options,
		wrong_calls, nearness, options, table, completion, help,
	};

	tcase_add_checked_fixture(t, clean, NULL);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(t, tests[i]);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
