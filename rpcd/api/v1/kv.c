/* /v1/kv/: the key/value store. */
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "rpcd/api/api.h"

/* ?raw: the value alone. */
static void
finish_raw(struct request *r, const struct op_reply *reply)
{
	struct rd in = rd_span_over(reply->value);
	struct kv_entry e = { 0 };

	if (api_failed(r, reply))
		return;
	api_headers(r, reply, false);
	if (reply->value.len == 0 || mpr_nil(&in) || mpr_array(&in) == 0) {
		answer_empty(r, 404);
		return;
	}
	if (schema_unpack(&kv_entry_schema, &in, &r->arena, &e) != TV_OK) {
		api_malformed(r);
		return;
	}
	/* A value is data, whatever a browser may see in it. */
	answer_header(r, "Content-Security-Policy", "sandbox");
	buf_putspan(&r->answer.body, e.Value);
	answer_body(r, "text/plain");
}

/* More than one of these parameters: answers 400 and returns true. */
static bool
conflicting(struct request *r, const char *const *names, unsigned count)
{
	unsigned given = 0;
	struct buf text = BUF_INIT(65536);

	for (unsigned i = 0; i < count; i++)
		given += params_has(&r->query, names[i]);
	if (given > 1) {
		params_encode(&r->query, &text);
		answer_text(r, 400, "Conflicting flags: %s", buf_cstr(&text));
	}
	buf_done(&text);
	return given > 1;
}

static void
run_put(struct request *r)
{
	static const char *const exclusive[] = { "cas", "acquire", "release" };
	struct kv_apply args = { .Verb = KV_SET, .Key = r->rest };

	if (conflicting(r, exclusive, 3) || !api_number(r, "flags", 500, "", &args.Flags) ||
	    !api_number(r, "cas", 500, "", &args.ModifyIndex) || api_too_large(r, "kv_max_value_size"))
		return;
	if (params_has(&r->query, "cas"))
		args.Verb = KV_CAS;
	if (params_has(&r->query, "acquire")) {
		args.Verb = KV_LOCK;
		args.Session = params_get(&r->query, "acquire");
	}
	if (params_has(&r->query, "release")) {
		args.Verb = KV_UNLOCK;
		args.Session = params_get(&r->query, "release");
	}
	args.Value = buf_span(&r->body);
	api_ask(r, &args);
}

static void
run_delete(struct request *r)
{
	static const char *const exclusive[] = { "cas", "recurse" };
	struct kv_apply args = { .Verb = KV_DELETE, .Key = r->rest };

	if (conflicting(r, exclusive, 2) || !api_number(r, "cas", 500, "", &args.ModifyIndex))
		return;
	if (params_has(&r->query, "parts") && !params_has(&r->query, "recurse")) {
		answer_text(r, 400, "parts is for recurse: a key alone goes at once");
		return;
	}
	if (params_has(&r->query, "recurse"))
		args.Verb = params_has(&r->query, "parts") ? KV_DELETE_TREE_PARTS : KV_DELETE_TREE;
	else if (!api_need_rest(r, "Missing key name"))
		return;
	else if (params_has(&r->query, "cas"))
		args.Verb = KV_DELETE_CAS;
	api_ask(r, &args);
}

#define READ_KEY .query = QUERY_READ, .flags = SHOW_INDEX | NOT_FOUND

const struct endpoint api_kv[] = {
	{ "/v1/kv/", "GET", ACCESS_OP, "keys", OP_KV_KEYS, READ_KEY, .render = RENDER_NAMES,
	    BIND(FROM_PATH(kv_read, Key), FROM_QUERY("seperator", kv_read, Separator),
	    FROM_QUERY("separator", kv_read, Separator)) },
	{ "/v1/kv/", "GET", ACCESS_OP, "recurse", OP_KV_LIST, READ_KEY, BIND(FROM_PATH(kv_read, Key)) },
	{ "/v1/kv/", "GET", ACCESS_OP, "raw", OP_KV_GET, READ_KEY, .missing = "Missing key name",
	    BIND(FROM_PATH(kv_read, Key)), .finish = finish_raw },
	{ "/v1/kv/", "GET", ACCESS_OP, NULL, OP_KV_GET, READ_KEY, .missing = "Missing key name",
	    BIND(FROM_PATH(kv_read, Key)) },
	{ "/v1/kv/", "PUT", ACCESS_OP, NULL, OP_KV_APPLY, BODY_VALUE, QUERY_DC, .missing = "Missing key name",
	    .render = RENDER_VALUE, .run = run_put },
	{ "/v1/kv/", "DELETE", ACCESS_OP, NULL, OP_KV_APPLY, .query = QUERY_DC,
	    .render = RENDER_VALUE, .run = run_delete },
	{ .path = NULL },
};
