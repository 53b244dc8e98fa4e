/* What is done with answers of rpcd, and with the paths of questions; see client.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/json_errors.h"

#define SELF_TIMEOUT_S 5

/* "Permission denied: Missing service:write on web": what `acl explain` can be asked. */
static void
hint_explain(struct span text)
{
	static const char before[] = "Missing ";
	char words[256], resource[32], access[32], name[192] = "";
	const char *at;

	text.len = text.len < sizeof(words) ? text.len : sizeof(words) - 1;
	snprintf(words, sizeof(words), "%.*s", (int)text.len, (const char *)text.p);
	at = strstr(words, before);
	if (at != NULL &&
	    sscanf(at + sizeof(before) - 1, "%31[a-z]:%31[a-z] on %191[^\n]", resource, access, name) >= 2) {
		char *safe = out_safe(span_str(name));

		fprintf(stderr, "`clusterctl acl explain %s%s%s %s` shows what it may, and what is missing.\n",
		    resource, safe[0] != '\0' ? ":" : "", safe, access);
		free(safe);
	} else {
		fprintf(stderr, "`clusterctl acl explain RESOURCE:NAME ACCESS` shows what it may, and what is "
		    "missing.\n");
	}
}

/* Whose token it was that was not enough; never the secret. */
static void
tell_token(struct client *c, struct span text)
{
	const char *from = client_token_from(c);
	struct client_answer self;
	json_t *token = NULL;
	long status;

	if (from == NULL) {
		fprintf(stderr, "No token was shown, so what the anonymous one may is all: give one with "
		    "--token-file or TRIUMVIR_TOKEN.\n");
		return;
	}
	if (client_do(c, "GET", "/v1/acl/token/self", SPAN_NONE, SELF_TIMEOUT_S, &self))
		token = json_loadb((const char *)self.body.data, self.body.len, 0, NULL);
	status = self.status;
	client_answer_done(&self);
	if (token != NULL && span_starts(text, span_str("Permission denied"))) {
		json_safe(token);
		fprintf(stderr, "The token of %s was shown: accessor %s%s%s%s.\n", from, json_text(token, "AccessorID"),
		    json_text(token, "Description")[0] != '\0' ? " (" : "", json_text(token, "Description"),
		    json_text(token, "Description")[0] != '\0' ? ")" : "");
		hint_explain(text);
	} else if (token == NULL && status == 403) {
		fprintf(stderr, "The token of %s is not known here: it was deleted, has expired, or is of another "
		    "cluster.\n", from);
	}
	json_decref(token);
}

/* What access control refused: how to go on. */
static void
complain_access(struct client *c, const struct client_answer *a)
{
	struct span text = buf_span(&a->body);

	if (span_starts(text, span_str("ACL support disabled")))
		fprintf(stderr, "Access control is off; acl { enabled = true } in the servers' cluster.conf turns it "
		    "on.\n");
	else if (a->status == 403 && (span_starts(text, span_str("Permission denied")) ||
	    span_starts(text, span_str("ACL not found"))) && memmem(text.p, text.len, "bootstrap", 9) == NULL)
		tell_token(c, text);
}

int
client_complain(struct client *c, const char *what, const struct client_answer *a)
{
	json_errors_reason(a->file_failed ? REASON_FAILED : a->status == 0 || a->broke_off ? REASON_NO_ANSWER :
	    a->status == 403 ? REASON_DENIED : a->status == 404 ? REASON_NOT_FOUND : REASON_FAILED);
	if (a->file_failed) {
		fprintf(stderr, "clusterctl: %s: the file: %s\n", what, a->error);
	} else if (a->broke_off) {
		fprintf(stderr, "clusterctl: %s: the answer of %s was cut short: %s\n", what, client_addr(c), a->error);
	} else if (a->status == 0) {
		fprintf(stderr, "clusterctl: %s: no answer from %s: %s\n", what, client_addr(c), a->error);
		fprintf(stderr, "%s\n", a->remedy != NULL ? a->remedy :
		    "Is rpcd running there? Name another agent with --addr, TRIUMVIR_ADDR or CONSUL_HTTP_ADDR.");
	} else if (a->body.len > 0) {
		fprintf(stderr, "clusterctl: %s: ", what);
		out_lines(stderr, buf_span(&a->body));
		fputc('\n', stderr);
		if (span_eqs(buf_span(&a->body), "No cluster leader"))
			fprintf(stderr, "`clusterctl raft list-peers --stale` shows the servers; raftd's log on each "
			    "names the servers it waits for.\n");
		complain_access(c, a);
	} else {
		fprintf(stderr, "clusterctl: %s: HTTP status %ld%s", what, a->status, a->reason[0] != '\0' ? ": " : "");
		out_lines(stderr, span_str(a->reason));
		fputc('\n', stderr);
	}
	return 1;
}

/* A list that is shorter, or empty, for want of rights is not the whole truth. */
void
client_tell_hidden(struct client *c, const struct client_answer *a, const json_t *list)
{
	bool empty = (json_is_array(list) || json_is_object(list)) &&
	    json_array_size(list) + json_object_size(list) == 0;

	if (a->filtered)
		fprintf(stderr, "Some are hidden by access control: the token may not read them; `clusterctl acl "
		    "explain RESOURCE:NAME read` shows why.\n");
	else if (empty && a->denies && client_token_from(c) == NULL)
		fprintf(stderr, "Nothing is shown to the anonymous token, since access control denies what no rule "
		    "allows: give a token with --token-file or TRIUMVIR_TOKEN.\n");
}

/* Each \u0000 becomes the text \x00, as it is shown. */
static void
show_nuls(struct span text, struct buf *out)
{
	static const char nul[] = "\\u0000";
	size_t len = sizeof(nul) - 1;

	for (size_t i = 0; i < text.len; i++) {
		if (text.p[i] != '\\' || i + 1 == text.len) {
			buf_u8(out, text.p[i]);
		} else if (text.len - i >= len && memcmp(text.p + i, nul, len) == 0) {
			buf_puts(out, "\\\\x00");
			i += len - 1;
		} else {
			buf_put(out, text.p + i++, 2);
		}
	}
}

json_t *
client_json(struct span text, json_error_t *why)
{
	struct buf shown = BUF_INIT(SIZE_MAX);
	json_t *v = json_loadb((const char *)text.p, text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, why);

	if (v == NULL && json_error_code(why) == json_error_null_byte_in_key) {
		show_nuls(text, &shown);
		if (!shown.failed)
			v = json_loadb((const char *)shown.data, shown.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, why);
		buf_done(&shown);
	}
	return v;
}

json_t *
client_get_json(struct client *c, const char *what, const char *path)
{
	struct client_answer a;
	json_error_t e;
	json_t *out = NULL;

	if (!client_do(c, "GET", path, SPAN_NONE, 30, &a)) {
		client_complain(c, what, &a);
	} else {
		out = client_json(buf_span(&a.body), &e);
		if (out == NULL)
			fprintf(stderr, "clusterctl: %s: the answer is not JSON: %s\n", what, e.text);
		else if (!client_keeps_bytes(c))
			json_safe(out);
		client_tell_hidden(c, &a, out);
	}
	client_answer_done(&a);
	return out;
}

json_t *
client_try_json(struct client *c, const char *path, long timeout_s)
{
	struct client_answer a;
	json_t *out = NULL;

	if (client_do(c, "GET", path, SPAN_NONE, timeout_s, &a))
		out = json_loadb((const char *)a.body.data, a.body.len, JSON_ALLOW_NUL, NULL);
	client_answer_done(&a);
	return out;
}

void
client_encode(struct buf *b, const char *text, bool keep_slash)
{
	client_encode_bytes(b, span_str(text), keep_slash);
}

void
client_encode_bytes(struct buf *b, struct span text, bool keep_slash)
{
	for (size_t i = 0; i < text.len; i++) {
		uint8_t ch = text.p[i];

		if ((ch >= '0' && ch <= '9') || (ch >= 'A' && ch <= 'Z') || (ch >= 'a' && ch <= 'z') ||
		    memchr("-._~", ch, 4) != NULL || (ch == '/' && keep_slash))
			buf_u8(b, ch);
		else
			buf_printf(b, "%%%02X", ch);
	}
}
