/* What is done with answers of rpcd, and with the paths of questions; see client.h. */
#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"

int
client_complain(struct client *c, const char *what, const struct client_answer *a)
{
	if (a->file_failed) {
		fprintf(stderr, "clusterctl: %s: the file: %s\n", what, a->error);
	} else if (a->broke_off) {
		fprintf(stderr, "clusterctl: %s: the answer of %s was cut short: %s\n", what, client_addr(c), a->error);
	} else if (a->status == 0) {
		fprintf(stderr, "clusterctl: %s: no answer from %s: %s\n", what, client_addr(c), a->error);
		fprintf(stderr, "Is rpcd running there? Name another agent with --addr, TRIUMVIR_ADDR or "
		    "CONSUL_HTTP_ADDR.\n");
	} else if (a->body.len > 0) {
		fprintf(stderr, "clusterctl: %s: ", what);
		out_lines(stderr, buf_span(&a->body));
		fputc('\n', stderr);
		if (span_eqs(buf_span(&a->body), "No cluster leader"))
			fprintf(stderr, "`clusterctl raft list-peers --stale` shows the servers; raftd's log on each "
			    "names the servers it waits for.\n");
	} else {
		fprintf(stderr, "clusterctl: %s: HTTP status %ld\n", what, a->status);
	}
	return 1;
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
		out = json_loadb((const char *)a.body.data, a.body.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
		if (out == NULL)
			fprintf(stderr, "clusterctl: %s: the answer is not JSON: %s\n", what, e.text);
		else if (!client_keeps_bytes(c))
			json_safe(out);
	}
	client_answer_done(&a);
	return out;
}

void
client_encode(struct buf *b, const char *text, bool keep_slash)
{
	static const char plain[] = "-._~";

	for (; *text != '\0'; text++) {
		unsigned char ch = (unsigned char)*text;

		if ((ch >= '0' && ch <= '9') || (ch >= 'A' && ch <= 'Z') || (ch >= 'a' && ch <= 'z') ||
		    strchr(plain, ch) != NULL || (ch == '/' && keep_slash))
			buf_u8(b, ch);
		else
			buf_printf(b, "%%%02X", ch);
	}
}
