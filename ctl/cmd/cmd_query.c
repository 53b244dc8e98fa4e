/* clusterctl query: asking all members through gossip, and answering. */
#include <stdio.h>
#include <stdlib.h>

#include "common/text/base64.h"
#include "common/text/duration.h"
#include "ctl/follow.h"
#include "ctl/handler.h"

#define TIMEOUT_S 30
#define QUERY_TIMEOUT_S 120		/* without --timeout: longer than the largest pool takes */
#define PAYLOAD_BYTES_MAX (64u << 10)
#define PATH_BYTES_MAX (256u << 10)

/* -- asking -- */

static void
print_response(const json_t *response)
{
	struct buf payload = BUF_INIT(PAYLOAD_BYTES_MAX);
	char *name = out_safe(json_span(response, "From")), *text;

	(void)base64_decode(span_str(json_text(response, "Payload")), &payload);	/* of rpcd: it is base64 */
	text = out_safe(buf_span(&payload));
	printf("Response from '%s': %s\n", name, text);
	free(name);
	free(text);
	buf_done(&payload);
}

static void
print_answers(json_t *answer)
{
	const json_t *acks = json_object_get(answer, "Acks"), *responses = json_object_get(answer, "Responses"), *one;
	size_t i;

	json_array_foreach(acks, i, one) {
		char *name = out_safe(span_of(json_string_value(one), json_string_length(one)));

		printf("Ack from '%s'\n", name);
		free(name);
	}
	json_array_foreach(responses, i, one)
		print_response(one);
	printf("Total Acks: %zu\nTotal Responses: %zu\n", json_array_size(acks), json_array_size(responses));
	if (json_text(answer, "Warning")[0] != '\0')
		fprintf(stderr, "clusterctl: query: %s\n", json_text(answer, "Warning"));
}

int
query_ask(struct ctl *ctl)
{
	struct buf path = BUF_INIT(PATH_BYTES_MAX), body = BUF_INIT(PAYLOAD_BYTES_MAX + 65536);
	const char *timeout = ctl_opt(ctl, "timeout");
	int64_t ns = 0;
	int rc = 1;

	if (timeout != NULL && (duration_parse(span_str(timeout), &ns) != TV_OK || ns <= 0)) {
		(void)ctl_complain(ctl, "--timeout: \"%s\" is no length of time, such as 5s", timeout);
		return 2;
	}
	ctl_path(ctl, &path, "/v1/agent/query/", ctl->argv[0], "");
	if (ctl->argc < 2 || ctl_value(ctl, ctl->argv[1], &body))
		rc = ctl_out(ctl, ctl_answer(ctl, "PUT", buf_cstr(&path), buf_span(&body),
		    ns > 0 ? (long)(ns / 1000000000) + TIMEOUT_S : QUERY_TIMEOUT_S), print_answers);
	buf_done(&path);
	buf_done(&body);
	return rc;
}

/* -- answering -- */

struct answering {
	struct ctl *ctl;
	const char *name, *text;
	struct handler *handler;	/* NULL: text */
};

/* false: no answer. */
static bool
make_answer(struct answering *w, const json_t *query, struct buf *out)
{
	struct buf payload = BUF_INIT(PAYLOAD_BYTES_MAX);
	char ltime[32];
	int status;

	if (w->handler == NULL) {
		buf_puts(out, w->text);
		return true;
	}
	if (json_span(query, "Payload").len > 0)
		(void)base64_decode(json_span(query, "Payload"), &payload);	/* of rpcd: it is base64 */
	snprintf(ltime, sizeof(ltime), "%" JSON_INTEGER_FORMAT, json_int(query, "LTime"));
	handler_set(w->handler, "SERF_EVENT", span_str("query"));
	handler_set(w->handler, "SERF_QUERY_NAME", json_span(query, "Name"));
	handler_set(w->handler, "SERF_QUERY_LTIME", span_str(ltime));
	handler_set(w->handler, "SERF_QUERY_FROM", json_span(query, "From"));
	status = handler_run(w->handler, buf_span(&payload), out);
	if (status > 0)
		(void)ctl_complain(w->ctl, "the command ended with status %d: no answer is given", status);
	buf_done(&payload);
	return status == 0;
}

static void
answer_one(struct answering *w, const json_t *query)
{
	struct buf path = BUF_INIT(PATH_BYTES_MAX), out = BUF_INIT(PAYLOAD_BYTES_MAX);
	char *from = out_safe(json_span(query, "From"));
	struct client_answer a;

	buf_puts(&path, "/v1/agent/query-answer/");
	client_encode(&path, json_text(query, "ID"), false);
	if (make_answer(w, query, &out)) {
		if (client_do(ctl_client(w->ctl), "PUT", buf_cstr(&path), buf_span(&out), TIMEOUT_S, &a))
			printf("Answered '%s' with %zu bytes\n", from, out.len);
		else
			client_complain(w->ctl->client, "query answer", &a);
		client_answer_done(&a);
		fflush(stdout);
	}
	free(from);
	buf_done(&path);
	buf_done(&out);
}

/* What was asked before is left to others; what comes while rpcd is away goes unanswered. */
static void
take_queries(void *ctx, const json_t *list, bool first)
{
	struct answering *w = ctx;
	const json_t *query;
	size_t i;

	if (first) {
		fprintf(stderr, "Answering queries named '%s'; stop with ^C.\n", w->name);
		return;
	}
	json_array_foreach(list, i, query)
		answer_one(w, query);
}

int
query_answer(struct ctl *ctl)
{
	const char *exec = ctl_opt(ctl, "exec");
	struct answering w = { .ctl = ctl, .name = ctl->argv[0], .text = ctl_opt(ctl, "text") };
	struct buf path = BUF_INIT(PATH_BYTES_MAX);
	struct follow f = { .take = take_queries, .ctx = &w };
	int rc;

	if (exec != NULL && (w.handler = handler_new(ctl, exec)) == NULL)
		return 1;
	buf_puts(&path, "/v1/agent/queries");
	ctl_param(&path, "name", w.name);
	f.path = buf_cstr(&path);
	rc = follow_list(ctl, &f);
	buf_done(&path);
	handler_free(w.handler);
	return rc;
}
