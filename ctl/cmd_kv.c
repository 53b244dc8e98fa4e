/* clusterctl kv: get, put, delete, list, keys. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/ctl.h"

#define KV_TIMEOUT_S 60
#define VALUE_BYTES_MAX (1u << 20)

struct kv_options {
	bool recurse, stale;
	const char *cas, *flags, *dc, *separator;
};

/* "/v1/kv/KEY?first&..." */
static void
kv_path(struct buf *b, const char *key, const char *first, const struct kv_options *o)
{
	const struct { const char *name, *value; } params[] = {
		{ "cas", o->cas }, { "flags", o->flags }, { "dc", o->dc }, { "separator", o->separator },
	};
	char sep = '?';

	buf_puts(b, "/v1/kv/");
	client_encode(b, key, true);
	if (first != NULL) {
		buf_printf(b, "?%s", first);
		sep = '&';
	}
	if (o->stale) {
		buf_printf(b, "%cstale", sep);
		sep = '&';
	}
	for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++) {
		if (params[i].value == NULL)
			continue;
		buf_printf(b, "%c%s=", sep, params[i].name);
		client_encode(b, params[i].value, false);
		sep = '&';
	}
}

/* Keys are paths in a URL, so they begin with no slash: it is left out, as Consul's command line does. */
static const char *
plain_key(const char *key)
{
	const char *plain = key + strspn(key, "/");

	if (plain != key) {
		char *shown = out_safe(span_str(plain));

		fprintf(stderr, "clusterctl: kv: a key begins with no slash: taken as \"%s\"\n", shown);
		free(shown);
	}
	return plain;
}

/* 301: the key would not be the same again behind a path's rules. */
static int
complain(struct ctl *ctl, const char *what, const char *key, const struct client_answer *a)
{
	if (a->status != 301)
		return client_complain(ctl->client, what, a);
	char *shown = out_safe(span_str(key));

	fprintf(stderr, "clusterctl: %s: \"%s\" cannot be a key: between slashes there must be something, and neither "
	    "\".\" nor \"..\"\n", what, shown);
	free(shown);
	return 1;
}

/* A conditional write answers "true" or "false". */
static int
print_outcome(struct ctl *ctl, const char *what, const char *key, bool ok, const struct client_answer *a)
{
	if (!ok)
		return complain(ctl, what, key, a);
	if (span_eqs(buf_span(&a->body), "true"))
		return 0;
	fprintf(stderr, "clusterctl: %s: %s was not changed: the condition did not hold\n", what, key);
	return 1;
}

static int
kv_get(struct ctl *ctl, const char *key, const struct kv_options *o)
{
	struct buf path = BUF_INIT(1u << 20);
	struct client_answer a;
	int rc = 0;

	kv_path(&path, key, ctl->json ? NULL : "raw", o);
	if (client_do(ctl_client(ctl), "GET", buf_cstr(&path), SPAN_NONE, KV_TIMEOUT_S, &a)) {
		if (a.body.len > 0)
			fwrite(a.body.data, 1, a.body.len, stdout);
		if (isatty(STDOUT_FILENO))
			putchar('\n');
	} else if (a.status == 404) {
		fprintf(stderr, "clusterctl: kv get: no key \"%s\"\n", key);
		rc = 1;
	} else {
		rc = complain(ctl, "kv get", key, &a);
	}
	client_answer_done(&a);
	buf_done(&path);
	return rc;
}

static int
kv_put(struct ctl *ctl, const char *key, const char *value, const struct kv_options *o)
{
	struct buf path = BUF_INIT(1u << 20), body = BUF_INIT(VALUE_BYTES_MAX + 65536);
	struct client_answer a;
	bool ok;
	int rc = 1;

	if (ctl_value("kv put", value, &body)) {
		kv_path(&path, key, NULL, o);
		ok = client_do(ctl_client(ctl), "PUT", buf_cstr(&path), buf_span(&body), KV_TIMEOUT_S, &a);
		rc = print_outcome(ctl, "kv put", key, ok, &a);
		client_answer_done(&a);
	}
	buf_done(&path);
	buf_done(&body);
	return rc;
}

static int
kv_delete(struct ctl *ctl, const char *key, const struct kv_options *o)
{
	struct buf path = BUF_INIT(1u << 20);
	struct client_answer a;
	bool ok;
	int rc;

	kv_path(&path, key, o->recurse ? "recurse" : NULL, o);
	ok = client_do(ctl_client(ctl), "DELETE", buf_cstr(&path), SPAN_NONE, KV_TIMEOUT_S, &a);
	rc = print_outcome(ctl, "kv delete", key, ok, &a);
	client_answer_done(&a);
	buf_done(&path);
	return rc;
}

/* Names below a prefix; nothing there is an empty list, not an error. */
static int
kv_list(struct ctl *ctl, const char *prefix, const struct kv_options *o)
{
	struct buf path = BUF_INIT(1u << 20);
	struct client_answer a;
	json_t *list = NULL, *key;
	size_t i;
	int rc = 0;

	kv_path(&path, prefix, "keys", o);
	if (client_do(ctl_client(ctl), "GET", buf_cstr(&path), SPAN_NONE, KV_TIMEOUT_S, &a))
		list = json_loadb((const char *)a.body.data, a.body.len, JSON_ALLOW_NUL, NULL);
	else if (a.status != 404)
		rc = complain(ctl, "kv list", prefix, &a);
	if (!ctl->json)
		json_safe(list);
	if (ctl->json && rc == 0) {
		json_t *none = json_array();

		out_json(list != NULL ? list : none);
		json_decref(none);
	} else {
		json_array_foreach(list, i, key)
			printf("%s\n", json_string_value(key));
	}
	json_decref(list);
	client_answer_done(&a);
	buf_done(&path);
	return rc;
}

/* NULL or decimal; else complains. */
static bool
is_number(const char *option, const char *text)
{
	if (text == NULL || (text[0] != '\0' && text[strspn(text, "0123456789")] == '\0'))
		return true;
	fprintf(stderr, "clusterctl: kv: --%s: \"%s\" is not a number\n", option, text);
	return false;
}

static const char *
known_options(const char *verb)
{
	static const struct { const char *verb, *options; } all[] = {
		{ "get", "stale dc" }, { "put", "cas flags dc" }, { "delete", "recurse cas dc" },
		{ "list", "stale separator dc" }, { "keys", "stale separator dc" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(all[i].verb, verb) == 0)
			return all[i].options;
	return "";
}

int
cmd_kv(struct ctl *ctl, int argc, char **argv)
{
	const struct command *cmd = ctl_find("kv");
	struct kv_options o = { 0 };
	const struct option_spec specs[] = {
		{ "recurse", &o.recurse, NULL }, { "stale", &o.stale, NULL }, { "cas", NULL, &o.cas },
		{ "flags", NULL, &o.flags }, { "dc", NULL, &o.dc }, { "separator", NULL, &o.separator },
	};
	const unsigned count = sizeof(specs) / sizeof(specs[0]);
	int n = ctl_options(cmd, argc, argv, specs, count);
	const char *verb = n > 0 ? argv[1] : "";

	if (n < 0 || !is_number("cas", o.cas) || !is_number("flags", o.flags))
		return 2;
	if (n > 0 && ctl_in_vain("kv", verb, specs, count, known_options(verb)))
		return ctl_usage(cmd);
	if (strcmp(verb, "get") == 0 && n == 2)
		return kv_get(ctl, plain_key(argv[2]), &o);
	if (strcmp(verb, "put") == 0 && n == 3)
		return kv_put(ctl, plain_key(argv[2]), argv[3], &o);
	if (strcmp(verb, "delete") == 0 && n == 2)
		return kv_delete(ctl, plain_key(argv[2]), &o);
	if ((strcmp(verb, "list") == 0 || strcmp(verb, "keys") == 0) && n <= 2)
		return kv_list(ctl, n == 2 ? plain_key(argv[2]) : "", &o);
	return ctl_usage(cmd);
}
