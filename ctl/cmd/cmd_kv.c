/* clusterctl kv: get, put, delete, list, keys. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "ctl/json_errors.h"

#define KV_TIMEOUT_S 60
#define VALUE_BYTES_MAX (1u << 20)

/* "/v1/kv/KEY?first&..." */
static void
kv_path(const struct ctl *ctl, struct buf *b, const char *key, const char *first)
{
	buf_puts(b, "/v1/kv/");
	client_encode(b, key, true);
	ctl_param(b, first, first != NULL ? "" : NULL);
	ctl_params(ctl, b);
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

/* The answer points to Consul's pages. */
static bool
complain_of_size(struct ctl *ctl, const struct client_answer *a)
{
	struct buf text = BUF_INIT(4096);
	unsigned long long size, most;
	bool told = false;

	buf_putspan(&text, buf_span(&a->body));
	if (a->status == 413 &&
	    sscanf(buf_cstr(&text), "Request body(%llu bytes) too large, max size: %llu", &size, &most) == 2)
		told = fprintf(stderr, "clusterctl: %s: the value has %llu bytes, and limits.kv_max_value_size in "
		    "rpcd.conf(5) allows %llu\n", ctl->verb->words, size, most) > 0;
	buf_done(&text);
	return told;
}

/* 301: the key would not be the same again behind a path's rules. */
static int
complain(struct ctl *ctl, const char *key, const struct client_answer *a)
{
	if (complain_of_size(ctl, a))
		return 1;
	if (a->status != 301)
		return client_complain(ctl->client, ctl->verb->words, a);
	char *shown = out_safe(span_str(key));

	(void)ctl_complain(ctl, "\"%s\" cannot be a key: between slashes there must be something, and neither \".\" "
	    "nor \"..\"", shown);
	free(shown);
	return 1;
}

/* A conditional write answers "true" or "false". */
static int
print_outcome(struct ctl *ctl, const char *key, bool ok, const struct client_answer *a)
{
	if (!ok)
		return complain(ctl, key, a);
	if (span_eqs(buf_span(&a->body), "true"))
		return 0;
	json_errors_reason(REASON_CONDITION);
	return ctl_complain(ctl, "%s was not changed: the condition did not hold", key);
}

int
kv_get(struct ctl *ctl)
{
	const char *key = plain_key(ctl->argv[0]);
	struct buf path = BUF_INIT(1u << 20);
	struct client_answer a;
	int rc = 0;

	kv_path(ctl, &path, key, ctl->json ? NULL : "raw");
	if (client_do(ctl_client(ctl), "GET", buf_cstr(&path), SPAN_NONE, KV_TIMEOUT_S, &a)) {
		if (a.body.len > 0)
			fwrite(a.body.data, 1, a.body.len, stdout);
		if (isatty(STDOUT_FILENO))
			putchar('\n');
	} else if (a.status == 404) {
		json_errors_reason(REASON_NOT_FOUND);
		(void)ctl_complain(ctl, "no key \"%s\"", key);
		rc = 1;
	} else {
		rc = complain(ctl, key, &a);
	}
	client_answer_done(&a);
	buf_done(&path);
	return rc;
}

static int
write_key(struct ctl *ctl, const char *method, const char *key, struct span body)
{
	struct buf path = BUF_INIT(1u << 20);
	struct client_answer a;
	bool ok;
	int rc;

	kv_path(ctl, &path, key, NULL);
	ok = client_do(ctl_client(ctl), method, buf_cstr(&path), body, KV_TIMEOUT_S, &a);
	rc = print_outcome(ctl, key, ok, &a);
	client_answer_done(&a);
	buf_done(&path);
	return rc;
}

int
kv_put(struct ctl *ctl)
{
	const char *key = plain_key(ctl->argv[0]);
	struct buf body = BUF_INIT(VALUE_BYTES_MAX + 65536);
	int rc = ctl_value(ctl, ctl->argv[1], &body) ? write_key(ctl, "PUT", key, buf_span(&body)) : 1;

	buf_done(&body);
	return rc;
}

int
kv_delete(struct ctl *ctl)
{
	return write_key(ctl, "DELETE", plain_key(ctl->argv[0]), SPAN_NONE);
}

/* Names below a prefix; nothing there is an empty list, not an error. */
int
kv_list(struct ctl *ctl)
{
	const char *prefix = ctl->argc > 0 ? plain_key(ctl->argv[0]) : "";
	struct buf path = BUF_INIT(1u << 20);
	struct client_answer a;
	json_t *list = NULL, *key;
	size_t i;
	int rc = 0;

	kv_path(ctl, &path, prefix, "keys");
	if (client_do(ctl_client(ctl), "GET", buf_cstr(&path), SPAN_NONE, KV_TIMEOUT_S, &a))
		list = json_loadb((const char *)a.body.data, a.body.len, JSON_ALLOW_NUL, NULL);
	else if (a.status != 404)
		rc = complain(ctl, prefix, &a);
	if (rc == 0)
		client_tell_hidden(ctl->client, &a, list);
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
