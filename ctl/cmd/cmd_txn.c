/* clusterctl txn: several operations, of which all are carried out or none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/base64.h"
#include "ctl/ctl.h"

#define TXN_TIMEOUT_S 60
#define BODY_BYTES_MAX (16u << 20)	/* what limits.txn_max_req_len may be */
#define VALUE_BYTES_MAX (16u << 20)

/* -- what was done -- */

/* The one member of a result, and its name. */
static const char *
kind_of(json_t *row, const json_t **object)
{
	static const char *const kinds[] = { "KV", "Node", "Service", "Check" };
	static const char *const shown[] = { "key", "node", "service", "check" };

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		*object = json_object_get(row, kinds[i]);
		if (*object != NULL)
			return shown[i];
	}
	return "";
}

static const char *
kind(json_t *row)
{
	const json_t *object;

	return kind_of(row, &object);
}

static const char *
name(json_t *row)
{
	static const char *const names[] = { "Key", "CheckID", "ID" };
	const json_t *object;
	const char *text = "";

	if (strcmp(kind_of(row, &object), "node") == 0)
		return json_text(object, "Node");
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]) && text[0] == '\0'; i++)
		text = json_text(object, names[i]);
	return text;
}

static const char *
modified(json_t *row)
{
	const json_t *object;

	(void)kind_of(row, &object);
	return row_keep(row, "index", json_sprintf("%" JSON_INTEGER_FORMAT,
	    json_int(object, "ModifyIndex")));
}

/* Of what was read. */
static const char *
value(json_t *row)
{
	struct buf bytes = BUF_INIT(VALUE_BYTES_MAX);
	const json_t *object;
	const char *text, *kept;
	char *safe;

	(void)kind_of(row, &object);
	text = json_text(object, "Value");
	(void)base64_decode(span_str(text), &bytes);	/* of rpcd: it is base64 */
	safe = out_safe(buf_span(&bytes));
	kept = row_keep(row, "value", json_string(safe));
	free(safe);
	buf_done(&bytes);
	return kept;
}

static void
print_results(json_t *results)
{
	if (json_array_size(results) > 0)
		out_rows(results, COLUMNS(COL_BY("Kind", kind), COL_BY("Name", name), COL_BY("Index", modified),
		    COL_BY("Value", value)));
	else
		puts("Done; no operation has a result.");
}

static void
print_errors(const json_t *errors)
{
	json_t *error;
	size_t i;

	json_array_foreach(errors, i, error)
		fprintf(stderr, "clusterctl: txn: operation %" JSON_INTEGER_FORMAT ": %s\n",
		    json_int(error, "OpIndex"), json_text(error, "What"));
	fprintf(stderr, "None of the operations, which are counted from 0, was carried out.\n");
}

/* An answer with results, or with errors (status 409). */
static int
print_answer(struct ctl *ctl, const struct client_answer *a)
{
	json_t *answer = json_loadb((const char *)a->body.data, a->body.len, JSON_ALLOW_NUL, NULL);
	int rc = a->status == 409;

	if (answer == NULL)
		return client_complain(ctl->client, ctl->verb->words, a);
	if (ctl->json) {
		out_json(answer);
	} else {
		json_safe(answer);
		if (rc == 0)
			print_results(json_object_get(answer, "Results"));
		else
			print_errors(json_object_get(answer, "Errors"));
	}
	json_decref(answer);
	return rc;
}

int
cmd_txn(struct ctl *ctl)
{
	struct buf path = BUF_INIT(1u << 20), body = BUF_INIT(BODY_BYTES_MAX + 65536);
	struct client_answer a;
	bool done;
	int rc = 1;

	if (ctl_file(ctl, ctl->argv[0], &body)) {
		ctl_path(ctl, &path, "/v1/txn", NULL, "");
		done = client_do(ctl_client(ctl), "PUT", buf_cstr(&path), buf_span(&body), TXN_TIMEOUT_S, &a);
		if (done || a.status == 409)
			rc = print_answer(ctl, &a);
		else
			rc = client_complain(ctl->client, ctl->verb->words, &a);
		client_answer_done(&a);
	}
	buf_done(&path);
	buf_done(&body);
	return rc;
}
