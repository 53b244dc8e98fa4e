/* clusterctl without rpcd: what it asks for which words, what it shows of an answer, and what it says to a wrong call. */
#include <check.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/ctl.h"

/* -- in rpcd's place ------------------------------------------------------------ */

struct client { bool keep; } the_client;

static struct fake {
	const char *addr, *token;	/* as given */
	struct mono within;
	char asked[4096];		/* "GET /v1/x\n" for each question, a body behind it */
	struct { const char *question, *answer; long status; } answers[4];
} fake;

struct client *
client_new(const char *addr, const char *token)
{
	fake.addr = addr;
	fake.token = token;
	return &the_client;
}

void
client_free(struct client *c)
{
	(void)c;
}

const char *
client_addr(const struct client *c)
{
	(void)c;
	return "here";
}

bool
client_do(struct client *c, const char *method, const char *path, struct span body, long timeout_s, struct client_answer *out)
{
	char question[1024];

	(void)c;
	ck_assert_int_gt(timeout_s, 0);
	snprintf(question, sizeof(question), "%s %s", method, path);
	size_t at = strlen(fake.asked);
	snprintf(fake.asked + at, sizeof(fake.asked) - at, "%s%s%.*s\n", question, body.len > 0 ? " " : "", (int)body.len,
	    (const char *)body.p);
	*out = (struct client_answer){ .status = 200, .body = BUF_INIT(1 << 20) };
	for (unsigned i = 0; i < 4 && fake.answers[i].question != NULL; i++)
		if (strcmp(fake.answers[i].question, question) == 0) {
			out->status = fake.answers[i].status;
			buf_puts(&out->body, fake.answers[i].answer);
		}
	if (out->status == 0)
		snprintf(out->error, sizeof(out->error), "nobody is there");
	return out->status == 200;
}

void
client_within(struct client *c, struct mono limit)
{
	(void)c;
	fake.within = limit;
}

bool
client_late(const struct client *c)
{
	(void)c;
	return false;
}

void
client_quiet(struct client *c, bool on)
{
	(void)c, (void)on;
}

void
client_keep_bytes(struct client *c, bool keep)
{
	c->keep = keep;
}

bool
client_keeps_bytes(const struct client *c)
{
	return c->keep;
}

void
client_answer_done(struct client_answer *a)
{
	buf_done(&a->body);
}

void
client_stream(struct client *c, const char *path, FILE *to, struct client_answer *out)
{
	(void)to;
	client_do(c, "GET", path, SPAN_NONE, 1, out);
}

bool
client_download(struct client *c, const char *path, FILE *to, client_tick *tick, void *ctx, struct client_answer *out)
{
	(void)to, (void)tick, (void)ctx;
	return client_do(c, "GET", path, SPAN_NONE, 1, out);
}

bool
client_upload(struct client *c, const char *path, FILE *from, uint64_t size, client_tick *tick, void *ctx,
    struct client_answer *out)
{
	(void)from, (void)size, (void)tick, (void)ctx;
	return client_do(c, "PUT", path, SPAN_NONE, 1, out);
}

/* -- one call ---------------------------------------------------------------------- */

#define WORDS_MAX 16
static char out_text[65536], err_text[65536];

/* Sends a descriptor to a file without a name; returns what it was. */
static int
divert(FILE *f, FILE **file)
{
	int was = dup(fileno(f));

	*file = tmpfile();
	ck_assert(was >= 0 && *file != NULL && fflush(f) == 0 && dup2(fileno(*file), fileno(f)) >= 0);
	return was;
}

static void
restore(FILE *f, int was, FILE *file, char *text, size_t cap)
{
	ssize_t n;

	ck_assert(fflush(f) == 0 && dup2(was, fileno(f)) >= 0);
	n = pread(fileno(file), text, cap - 1, 0);
	ck_assert_int_ge(n, 0);
	text[n] = '\0';
	close(was);
	fclose(file);
}

/* Words with one space between them; "_" stands for a space in a word.  Returns how many, a NULL behind them. */
static int
split(const char *words, char *argv[WORDS_MAX])
{
	static char text[1024];
	char *save = NULL;
	int argc = 0;

	snprintf(text, sizeof(text), "%s", words);
	for (char *w = strtok_r(text, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save)) {
		ck_assert_int_lt(argc, WORDS_MAX - 1);
		argv[argc++] = w;
		for (; *w != '\0'; w++)
			*w = *w == '_' ? ' ' : *w;
	}
	argv[argc] = NULL;
	return argc;
}

static int
call(const char *words)
{
	static char name[] = "clusterctl";
	char *argv[WORDS_MAX + 1] = { name };
	int argc = 1 + split(words, argv + 1), was[2], rc;
	FILE *files[2];

	fake.asked[0] = '\0';
	fake.addr = fake.token = NULL;
	fake.within = (struct mono){ 0 };
	was[0] = divert(stdout, &files[0]);
	was[1] = divert(stderr, &files[1]);
	rc = ctl_run(argc, argv);
	restore(stdout, was[0], files[0], out_text, sizeof(out_text));
	restore(stderr, was[1], files[1], err_text, sizeof(err_text));
	return rc;
}

static void
answers(unsigned i, const char *question, long status, const char *answer)
{
	fake.answers[i].question = question;
	fake.answers[i].status = status;
	fake.answers[i].answer = answer;
}

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
	ck_assert_int_eq(call("kv get k"), 1);
	ck_assert_ptr_nonnull(strstr(err_text, "no answer from here: nobody is there\n"));
	ck_assert_str_eq(out_text, "");
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
	ck_assert_str_eq(out_text, "Told the cluster that it has left.\n");
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
		{ "kv zzz", "kv: no \"zzz\"\nusage:" }, { "kv get --recurse x", "kv get has no option --recurse" },
		{ "kv put --cas x k v", "--cas: \"x\" is not a number" }, { "kv put --flags -1 k v", "is not a number" },
		{ "kv delete --recurs k", "Did you mean --recurse?" }, { "kv get --stale=1 k", "wrong use of option" },
		{ "kv get k --dc", "wrong use of option \"--dc\"" }, { "catalog node", "did you mean \"nodes\"?" },
		{ "members extra", "usage: clusterctl members" }, { "members -wan", "\"-wan\" is written --wan" },
		{ "members -detailed", "is written --detailed" }, { "kv get -http-addr=x k", "\"-http-addr\" is written --addr" },
		{ "-http-addr x members", "is written --addr" }, { "-token-file=x members", "nothing like \"-token-file\"" },
		{ "operator raft list-peers", "is here: clusterctl raft list-peers\n" },
		{ "operator raft remove-peer -id=x", "is here: clusterctl raft remove-peer SERVER\n" },
		{ "operator autopilot state", "is here: clusterctl raft autopilot health\n" }, { "operator", "is here: clusterctl raft\n" },
		{ "keyring -install=x", "is here: clusterctl keyring install -\n" }, { "event -name=x", "is here: clusterctl event fire NAME\n" },
		{ "agent -dev", "is here: clusterctl dev\n" }, { "acl policy list", "nothing like it in this version" },
		{ "raft autopilot set", "usage: clusterctl raft" }, { "version x", "usage: clusterctl version" },
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

START_TEST(options)
{
	bool wan = false;
	const char *dc = NULL;
	const struct option_spec specs[] = { { "wan", &wan, NULL }, { "dc", NULL, &dc } };
	const struct command *cmd = ctl_find("members");
	char *words[WORDS_MAX], *again[WORDS_MAX];
	const char *values[2];
	int argc = split("members a --dc x - --wan -- --dc b", words);

	ck_assert_int_eq(ctl_options(cmd, argc, words, specs, 2), 4);
	ck_assert(wan && strcmp(dc, "x") == 0);
	ck_assert_str_eq(words[1], "a");
	ck_assert_str_eq(words[2], "-");
	ck_assert_str_eq(words[3], "--dc");
	ck_assert_str_eq(words[4], "b");
	ck_assert_ptr_null(words[5]);
	argc = split("query --tag a x --tag=b --tagged -- --tag", again);
	ck_assert_int_eq(ctl_repeated(ctl_find("query"), &argc, again, "tag", values, 2), 2);
	ck_assert(strcmp(values[0], "a") == 0 && strcmp(values[1], "b") == 0);
	ck_assert_int_eq(argc, 5);
	ck_assert_str_eq(again[2], "--tagged");
	ck_assert_str_eq(again[4], "--tag");
	ck_assert(!ctl_in_vain("x", "y", specs, 2, "wan dc"));
	ck_assert(ctl_in_vain("x", "y", specs, 2, "wan dcs"));
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
		questions, writes, options_of_all_commands, tables, json, keys_are_hidden, safe_output, complaints, force_leave,
		wrong_calls, nearness, options, help,
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
