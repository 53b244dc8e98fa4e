/* /v1/kv/: the key/value store. */
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "rpcd/api/api.h"

/* Entries of an answer. */
static uint32_t
entries(const struct op_reply *reply)
{
	struct rd in = rd_span_over(reply->value);

	return reply->value.len == 0 || mpr_nil(&in) ? 0 : mpr_array(&in);
}

static void
finish_entries(struct request *r, const struct op_reply *reply)
{
	if (api_failed(r, reply))
		return;
	api_headers(r, reply, false);
	if (entries(reply) == 0)
		answer_empty(r, 404);
	else
		api_json(r, reply);
}

static void
finish_raw(struct request *r, const struct op_reply *reply)
{
	struct rd in = rd_span_over(reply->value);
	struct kv_entry e = { 0 };

	if (api_failed(r, reply))
		return;
	api_headers(r, reply, false);
	if (entries(reply) == 0) {
		answer_empty(r, 404);
		return;
	}
	(void)mpr_array(&in);
	if (schema_unpack(&kv_entry_schema, &in, &r->arena, &e) != TV_OK) {
		answer_text(r, 500, "rpc error making call: malformed answer");
		return;
	}
	/* A value is data, whatever a browser may see in it. */
	answer_header(r, "Content-Security-Policy", "sandbox");
	buf_putspan(&r->answer.body, e.Value);
	answer_body(r, "text/plain");
}

static void
finish_keys(struct request *r, const struct op_reply *reply)
{
	struct text_list list = { 0 };

	if (api_failed(r, reply) || !api_record(r, reply, &text_list_schema, &list))
		return;
	api_headers(r, reply, false);
	if (list.Values.n == 0 && r->rest.len > 0) {
		answer_empty(r, 404);
		return;
	}
	api_json_names(r, &list.Values);
}

static void
kv_get(struct request *r)
{
	struct kv_read args = { .Key = r->rest };

	if (!api_query(r, false))
		return;
	if (params_has(&r->query, "keys")) {
		args.Separator = params_get(&r->query, params_has(&r->query, "separator") ? "separator" : "seperator");
		api_start(r, OP_KV_KEYS, &args, finish_keys);
	} else if (params_has(&r->query, "recurse")) {
		api_start(r, OP_KV_LIST, &args, finish_entries);
	} else if (api_need_rest(r, "Missing key name")) {
		api_start(r, OP_KV_GET, &args, params_has(&r->query, "raw") ? finish_raw : finish_entries);
	}
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

/* A number parameter, if it is there; false: answered. */
static bool
number(struct request *r, const char *name, uint64_t *v)
{
	struct span text = params_get(&r->query, name);
	struct buf why = BUF_INIT(4096);

	if (!params_has(&r->query, name) || u64_parse(text, v) == TV_OK)
		return true;
	u64_why(text, &why);
	answer_span(r, 500, buf_span(&why));
	buf_done(&why);
	return false;
}

static void
kv_put(struct request *r)
{
	static const char *const exclusive[] = { "cas", "acquire", "release" };
	struct kv_apply args = { .Verb = KV_SET, .Key = r->rest };

	if (!api_need_rest(r, "Missing key name") || conflicting(r, exclusive, 3) ||
	    !number(r, "flags", &args.Flags) || !number(r, "cas", &args.ModifyIndex) ||
	    api_too_large(r, "kv_max_value_size"))
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
	api_start(r, OP_KV_APPLY, &args, api_finish_bool);
}

static void
kv_delete(struct request *r)
{
	static const char *const exclusive[] = { "cas", "recurse" };
	struct kv_apply args = { .Verb = KV_DELETE, .Key = r->rest };

	if (conflicting(r, exclusive, 2) || !number(r, "cas", &args.ModifyIndex))
		return;
	if (params_has(&r->query, "recurse"))
		args.Verb = KV_DELETE_TREE;
	else if (!api_need_rest(r, "Missing key name"))
		return;
	else if (params_has(&r->query, "cas"))
		args.Verb = KV_DELETE_CAS;
	api_start(r, OP_KV_APPLY, &args, api_finish_bool);
}

static void
run_kv(struct request *r)
{
	api_query_dc(r);
	if (r->head.method[0] == 'G')
		kv_get(r);
	else if (r->head.method[0] == 'P')
		kv_put(r);
	else
		kv_delete(r);
}

const struct endpoint api_kv[] = {
	{ "/v1/kv/", "GET,PUT,DELETE", BODY_VALUE, run_kv, NOT_ADMIN },
	{ NULL, NULL, BODY_NONE, NULL, NULL },
};
