/* /v1/event/: user events of the pool.  Firing is an operation, so that ?dc works; the list is this node's own. */
#include "common/text/regex.h"
#include "rpcd/api/api.h"
#include "rpcd/event/event_wire.h"
#include "rpcd/event/events.h"

#define MATCH_STEPS_MAX 10000000	/* of one list */

enum { BY_NODE, BY_SERVICE, BY_TAG, PATTERNS };
static const char *const pattern_names[PATTERNS] = { "node", "service", "tag" };

/* Compiles what is given; answers `status` for one that is no pattern. */
static bool
compile(struct request *r, const struct span text[PATTERNS], unsigned status, struct regex *re[PATTERNS])
{
	struct buf why = BUF_INIT(1024);
	bool good = true;

	for (int i = 0; i < PATTERNS && good; i++) {
		if (text[i].len == 0)
			continue;
		re[i] = regex_new(text[i], &why);
		good = re[i] != NULL;
		if (!good)
			answer_text(r, status, "Invalid %s filter: %s", pattern_names[i], buf_cstr(&why));
	}
	buf_done(&why);
	return good;
}

static void
release(struct regex *re[PATTERNS])
{
	for (int i = 0; i < PATTERNS; i++)
		regex_free(re[i]);
}

/* -- fire -- */

static bool
check_fire(struct request *r, void *args)
{
	const struct event_fire *e = args;
	const struct span patterns[PATTERNS] = { e->NodeFilter, e->ServiceFilter, e->TagFilter };
	struct regex *re[PATTERNS] = { NULL };

	if (e->TagFilter.len > 0 && e->ServiceFilter.len == 0)
		answer_text(r, 500, "Cannot provide tag filter without service filter");
	else
		(void)compile(r, patterns, 500, re);
	release(re);
	return !r->answered;
}

/* A token that is not known is 500 here, unlike anywhere else. */
static void
finish_fire(struct request *r, const struct op_reply *reply)
{
	if (reply->err == TV_EPERM && span_eqs(reply->text, "ACL not found"))
		answer_span(r, 500, reply->text);
	else
		api_finish(r, reply);
}

/* -- list -- */

/* Does the filter of an event mention what is asked for? */
static bool
mentions(struct regex *re, struct span filter, uint64_t *steps)
{
	bool found = false;

	return re == NULL || (filter.len > 0 && regex_search(re, filter, steps, &found) == TV_OK && found);
}

static bool
is_asked_for(const struct user_event *e, struct span name, struct regex *re[PATTERNS], uint64_t *steps)
{
	return (name.len == 0 || span_eq(name, e->Name)) && mentions(re[BY_NODE], e->NodeFilter, steps) &&
	    mentions(re[BY_SERVICE], e->ServiceFilter, steps) && mentions(re[BY_TAG], e->TagFilter, steps);
}

/* Writes the list into the answer; its index, or 0 when the request was answered already. */
static uint64_t
put_list(struct request *r)
{
	struct span name = params_get(&r->query, "name");
	const struct span patterns[PATTERNS] = { params_get(&r->query, "node"), params_get(&r->query, "service"),
		params_get(&r->query, "tag") };
	struct regex *re[PATTERNS] = { NULL };
	uint64_t index = 1, steps = MATCH_STEPS_MAX;
	struct buf *out = &r->answer.body;

	if (compile(r, patterns, 400, re)) {
		buf_reset(out);
		buf_u8(out, '[');
		for (unsigned i = 0; i < events_count(r->api->events); i++) {
			const struct user_event *e = events_at(r->api->events, i);

			if (!api_may(r, ACL_EVENT, e->Name, ACL_READ) || !is_asked_for(e, name, re, &steps))
				continue;
			buf_puts(out, out->len > 1 ? "," : "");
			schema_json_rec(&user_event_schema, e, out);
			index = event_wire_index(e->ID);
		}
		buf_u8(out, ']');
	} else {
		index = 0;
	}
	release(re);
	return index;
}

/* The index comes from the newest event's ID, so another one is news, a lower one too. */
static void
show_list(struct request *r)
{
	uint64_t index = put_list(r);
	struct local_read *w;

	if (index == 0)
		return;
	if (index == r->op.index && (w = api_may_wait(r)) != NULL) {
		events_wait(r->api->events, &w->wait, w->left, api_news, r);
		return;
	}
	answer_header_u64(r, "X-Consul-Index", index);
	answer_json(r);
}

static void
run_list(struct request *r)
{
	api_read_local(r, show_list);
}

const struct endpoint api_event[] = {
	{ "/v1/event/fire/", "PUT", ACCESS_OP, NULL, OP_EVENT_FIRE, BODY_BYTES, QUERY_DC, .missing = "Missing name",
	    BIND(FROM_PATH(event_fire, Name), FROM_BODY(event_fire, Payload),
	    FROM_QUERY("node", event_fire, NodeFilter), FROM_QUERY("service", event_fire, ServiceFilter),
	    FROM_QUERY("tag", event_fire, TagFilter), FROM_QUERY("coalesce", event_fire, Coalesce)),
	    .check = check_fire, .finish = finish_fire },
	{ "/v1/event/list", "GET", ACCESS_SHOWN, .run = run_list },
	{ .path = NULL },
};
