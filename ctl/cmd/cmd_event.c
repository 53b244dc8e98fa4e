/* clusterctl event: fire, list, watch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/record/schema.h"
#include "common/text/base64.h"
#include "common/text/regex.h"
#include "ctl/follow.h"
#include "ctl/handler.h"

#define LIST "/v1/event/list"
#define TIMEOUT_S 30
#define PAYLOAD_BYTES_MAX (64u << 10)	/* what gossip takes is far less: it says so itself */
#define PATH_BYTES_MAX (64u << 10)
#define SEEN_MAX 512			/* IDs remembered: more than a list holds */
#define MATCH_STEPS_MAX 1000000

/* -- one event -- */

/* Decoded; empty when there is none. */
static void
payload_of(const json_t *event, struct buf *out)
{
	struct span text = json_span(event, "Payload");

	buf_reset(out);
	if (text.len > 0)
		(void)base64_decode(text, out);		/* of rpcd: it is base64 */
}

static void
print_event(const json_t *event)
{
	struct buf payload = BUF_INIT(PAYLOAD_BYTES_MAX);
	char *name = out_safe(json_span(event, "Name")), *bytes;

	payload_of(event, &payload);
	bytes = out_safe(buf_span(&payload));
	printf("%s (ltime %" JSON_INTEGER_FORMAT ")%s%s\n", name, json_int(event, "LTime"),
	    bytes[0] != '\0' ? ": " : "", bytes);
	fflush(stdout);
	free(name);
	free(bytes);
	buf_done(&payload);
}

/* -- fire -- */

static void
print_fired(json_t *event)
{
	printf("Event ID: %s\n", json_text(event, "ID"));
}

int
event_fire(struct ctl *ctl)
{
	struct buf path = BUF_INIT(PATH_BYTES_MAX), body = BUF_INIT(PAYLOAD_BYTES_MAX + 65536);
	int rc = 1;

	ctl_path(ctl, &path, "/v1/event/fire/", ctl->argv[0], "");
	if (ctl->argc < 2 || ctl_value(ctl, ctl->argv[1], &body))
		rc = ctl_out(ctl, ctl_answer(ctl, "PUT", buf_cstr(&path), buf_span(&body), TIMEOUT_S), print_fired);
	buf_done(&path);
	buf_done(&body);
	return rc;
}

/* -- list -- */

int
event_list(struct ctl *ctl)
{
	struct buf path = BUF_INIT(PATH_BYTES_MAX);
	struct client_answer a;
	json_t *list, *event;
	size_t i;
	int rc = 0;

	ctl_path(ctl, &path, LIST, NULL, "");
	list = follow_ask(ctl, buf_cstr(&path), 0, &a);
	if (list == NULL)
		rc = client_complain(ctl->client, ctl->verb->words, &a);
	else if (ctl->json)
		out_json(list);
	else
		json_array_foreach(list, i, event)
			print_event(event);
	json_decref(list);
	client_answer_done(&a);
	buf_done(&path);
	return rc;
}

/* -- watch -- */

struct watch {
	struct ctl *ctl;
	struct regex *name;		/* NULL: all */
	struct handler *handler;	/* NULL: print */
	char seen[SEEN_MAX][40];	/* IDs, a ring */
	unsigned seen_count;
};

/* Remembers it; false: it was told before. */
static bool
is_news(struct watch *w, const char *id)
{
	unsigned n = w->seen_count < SEEN_MAX ? w->seen_count : SEEN_MAX;

	for (unsigned i = 0; i < n; i++)
		if (strcmp(w->seen[i], id) == 0)
			return false;
	snprintf(w->seen[w->seen_count++ % SEEN_MAX], sizeof(w->seen[0]), "%s", id);
	return true;
}

static bool
is_wanted(struct watch *w, const json_t *event)
{
	uint64_t steps = MATCH_STEPS_MAX;
	bool found = false;

	return w->name == NULL || (regex_search(w->name, json_span(event, "Name"), &steps, &found) == TV_OK && found);
}

static void
handle(struct watch *w, const json_t *event)
{
	struct buf payload = BUF_INIT(PAYLOAD_BYTES_MAX);
	char ltime[32];
	int status;

	payload_of(event, &payload);
	snprintf(ltime, sizeof(ltime), "%" JSON_INTEGER_FORMAT, json_int(event, "LTime"));
	handler_set(w->handler, "SERF_EVENT", span_str("user"));
	handler_set(w->handler, "SERF_USER_EVENT", json_span(event, "Name"));
	handler_set(w->handler, "SERF_USER_LTIME", span_str(ltime));
	status = handler_run(w->handler, buf_span(&payload), NULL);
	if (status > 0)
		(void)ctl_complain(w->ctl, "the command ended with status %d", status);
	buf_done(&payload);
}

/* What there is at first was told to others. */
static void
take_list(void *ctx, const json_t *list, bool first)
{
	struct watch *w = ctx;
	const json_t *event;
	size_t i;

	json_array_foreach(list, i, event) {
		if (!is_news(w, json_text(event, "ID")) || first || !is_wanted(w, event))
			continue;
		if (w->handler != NULL)
			handle(w, event);
		else if (w->ctl->json)
			out_json_line(event);
		else
			print_event(event);
		fflush(stdout);
	}
}

int
event_watch(struct ctl *ctl)
{
	const char *name = ctl_opt(ctl, "name"), *exec = ctl_opt(ctl, "exec");
	struct watch *w = calloc(1, sizeof(*w));
	struct follow f = { .path = LIST, .afresh = true, .take = take_list, .ctx = w };
	struct buf why = BUF_INIT(1024);
	int rc = 1;

	if (w == NULL)
		return 1;
	w->ctl = ctl;
	if (name != NULL && (w->name = regex_new(span_str(name), &why)) == NULL) {
		(void)ctl_complain(ctl, "--name: %s", buf_cstr(&why));
		rc = 2;
	} else if (exec == NULL || (w->handler = handler_new(ctl, exec)) != NULL) {
		rc = follow_list(ctl, &f);
	}
	regex_free(w->name);
	handler_free(w->handler);
	buf_done(&why);
	free(w);
	return rc;
}
