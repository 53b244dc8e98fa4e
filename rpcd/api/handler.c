/* What handlers share: query options, operations, replies. */
#include <inttypes.h>

#include "common/base/assert.h"
#include "common/text/duration.h"
#include "common/record/op_note.h"
#include "common/record/schema_json.h"
#include "rpcd/api/api.h"
#include "rpcd/api/audit.h"

#define DOC_LINK "https://www.consul.io/docs/agent/options"	/* where clients' messages point operators */

bool
api_need_rest(struct request *r, const char *text_if_missing)
{
	if (r->rest.len == 0)
		answer_text(r, 400, "%s", text_if_missing);
	return r->rest.len > 0;
}

void
api_query_dc(struct request *r)
{
	r->op.dc = api_body_dc(r, params_get(&r->query, "dc"));
}

bool
api_query_blocking(struct request *r)
{
	const struct rpcd_conf *conf = r->api->conf;
	int64_t wait = 0;

	if (params_has(&r->query, "wait") && params_get(&r->query, "wait").len > 0 &&
	    duration_parse(params_get(&r->query, "wait"), &wait) != TV_OK) {
		answer_text(r, 400, "Invalid wait time");
		return false;
	}
	if (params_get(&r->query, "index").len > 0 &&
	    u64_parse(params_get(&r->query, "index"), &r->op.index) != TV_OK) {
		answer_text(r, 400, "Invalid index");
		return false;
	}
	if (wait <= 0)
		wait = conf->default_query_time.ns;
	if (wait > conf->max_query_time.ns)
		wait = conf->max_query_time.ns;
	/* raftd adds a random extra: equal questions must stay equal, so that they can share one watch. */
	r->op.wait_ms = wait < 1000000 ? 1 : (uint64_t)wait / 1000000;
	return true;
}

bool
api_cached_fits(struct request *r)
{
	if (!params_has(&r->query, "cached") || !params_has(&r->query, "consistent") || !r->api->conf->use_cache)
		return true;
	answer_text(r, 400, "Cannot specify ?cached with ?consistent, conflicting semantics.");
	return false;
}

static bool
take_consistency(struct request *r, bool catalog)
{
	const struct rpcd_conf *conf = r->api->conf;
	bool stale = params_has(&r->query, "stale"), consistent = params_has(&r->query, "consistent");
	struct span max_stale = params_get(&r->query, "max_stale");
	int64_t ns = 0;

	if (max_stale.len > 0 && duration_parse(max_stale, &ns) != TV_OK) {
		answer_text(r, 400, "Invalid max_stale value \"%.*s\"", SPAN_ARGS(max_stale));
		return false;
	}
	if (max_stale.len > 0 && !consistent)
		stale = true;
	if (stale && consistent) {
		answer_text(r, 400, "Cannot specify ?stale with ?consistent, conflicting semantics.");
		return false;
	}
	if (!api_cached_fits(r))
		return false;
	if (catalog && !stale && !consistent && !params_has(&r->query, "leader") && conf->discovery_max_stale.ns > 0) {
		stale = true;
		ns = conf->discovery_max_stale.ns;
	}
	r->op.mode = stale ? OP_STALE : consistent ? OP_CONSISTENT : OP_DEFAULT;
	r->op.max_stale_ms = ns > 0 ? ((uint64_t)ns + 999999) / 1000000 : 0;
	return true;
}

bool
api_query(struct request *r, bool catalog)
{
	if (!api_query_blocking(r) || !take_consistency(r, catalog) || !api_cache_control(r))
		return false;
	api_query_dc(r);
	return true;
}

void
api_replied(void *ctx, const struct op_reply *reply)
{
	struct request *r = ctx;

	r->call = NULL;
	if (r->again != NULL && r->again(r, route_reply_number(r->api->route)))
		return;
	audit_replied(r, reply);
	if (api_unfold(r))
		r->finish(r, reply);
	else
		answer_text(r, 500, "%s", tv_strerror(TV_ENOMEM));
}

bool
api_names_fit(struct request *r)
{
	if (r->op.dc.len > OP_NAME_BYTES_MAX)
		answer_text(r, 500, "No path to datacenter");
	else if (r->op.token.len > OP_NAME_BYTES_MAX)
		answer_text(r, 403, "ACL not found");
	else
		return true;
	return false;
}

/*
 * A body that its reader would refuse must never be sent: it would close a channel that all requests share.
 * JSON in particular can grow: an empty object is 2 bytes there and a whole record here.
 */
static bool
fits(struct request *r)
{
	if (!api_names_fit(r))
		return false;
	if (r->scratch.failed || r->scratch.len > r->api->conf->request_bytes_max)
		answer_text(r, 413,
		    "Request is too large for the servers, max size: %" PRIu64 " bytes (limits.request_bytes_max)",
		    r->api->conf->request_bytes_max);
	else
		return true;
	return false;
}

bool
api_pack(struct request *r, enum op_code code, const void *args)
{
	const struct op *op = op_find((uint16_t)code);

	TV_ASSERT(op != NULL);
	r->op.op = op->code;
	r->op.token = api_token(r);
	/* It may be asked for in another datacenter when the head of the request is gone: api_start_again(). */
	if (op->kind == OP_WRITE && op->access.resource == OP_RES_ACL)
		r->op.token = arena_copy(&r->arena, r->op.token);
	buf_reset(&r->scratch);
	schema_pack(op->args, args, &r->scratch);
	r->op.args = buf_span(&r->scratch);
	return fits(r);
}

void
api_busy(struct request *r)
{
	answer_text(r, 503, API_BUSY);
}

void
api_start(struct request *r, enum op_code code, const void *args,
    void (*finish)(struct request *r, const struct op_reply *reply))
{
	r->finish = finish;
	audit_asked(r, code, args);
	if (api_wants_cached(r) && api_start_cached(r, code, args))
		return;
	if (!api_pack(r, code, args))
		return;
	r->call = route_start(r->api->route, &r->op, api_replied, r);
	if (r->call == NULL)
		api_busy(r);
}

void
api_start_again(struct request *r, struct span dc)
{
	r->op.dc = dc;
	r->call = route_start(r->api->route, &r->op, api_replied, r);
	if (r->call == NULL)
		api_busy(r);
}

void
api_contact_headers(struct request *r, const struct op_reply *reply)
{
	answer_header(r, "X-Consul-KnownLeader", reply->known_leader ? "true" : "false");
	answer_header_u64(r, "X-Consul-LastContact", reply->last_contact_ms);
}

void
api_refused_headers(struct request *r)
{
	answer_header_u64(r, "X-Consul-Index", 1);
	api_contact_headers(r, &(struct op_reply){ .known_leader = false });
}

const char *
api_consistency(const struct request *r)
{
	static const char *const modes[] = {
		[OP_DEFAULT] = "leader", [OP_CONSISTENT] = "consistent", [OP_STALE] = "stale",
	};

	return modes[r->op.mode];
}

void
api_headers(struct request *r, const struct op_reply *reply, bool consistency)
{
	answer_header_u64(r, "X-Consul-Index", reply->index > 0 ? reply->index : 1);
	api_contact_headers(r, reply);
	r->hidden = r->hidden || (reply->err == TV_OK && span_eqs(reply->text, OP_NOTE_FILTERED));
	api_filtered_header(r);
	if (consistency)
		answer_header(r, "X-Consul-Effective-Consistency", api_consistency(r));
}

/* Sentences for errors that come without one. */
static const char *
error_text(enum tv_err err)
{
	switch (err) {
	case TV_ENOLEADER:
	case TV_ENOTLEADER:
		return "No cluster leader";
	case TV_EUNREACH:
		return "No path to datacenter";
	case TV_EPERM:
		return "Permission denied";
	case TV_EUNKNOWN:
	case TV_ECLOSED:
		return "rpc error making call: the connection was lost; "
		    "the request may or may not have been carried out";
	case TV_ETIMEOUT:
		return "rpc error making call: timed out; the request may or may not have been carried out";
	default:
		return tv_strerror(err);
	}
}

unsigned
api_error_status(enum tv_err err)
{
	return err == TV_EPERM || err == TV_EAUTH ? 403 : 500;
}

bool
api_failed(struct request *r, const struct op_reply *reply)
{
	const struct op *op = op_find(r->op.op);

	if (reply->err == TV_OK)
		return false;
	if (op != NULL && op->kind == OP_READ)
		api_refused_headers(r);
	answer_span(r, api_error_status(reply->err),
	    reply->text.len > 0 ? reply->text : span_str(error_text(reply->err)));
	return true;
}

void
api_json(struct request *r, const struct op_reply *reply)
{
	const struct op *op = op_find(r->op.op);
	struct rd in = rd_span_over(reply->value);

	if (op->answers == OP_LIST) {
		api_render_list(r, op->answer, reply->value);
		return;
	}
	api_rendered(r, schema_json(op->answer, &in, &r->answer.body));
}

void
api_malformed(struct request *r)
{
	answer_text(r, 500, "rpc error making call: malformed answer");
}

void
api_rendered(struct request *r, enum tv_err err)
{
	if (err != TV_OK)
		api_malformed(r);
	else
		answer_json(r);
}

void
api_put_query_meta(const struct request *r, const struct op_reply *reply, const char *level, struct buf *out)
{
	/* What was read by agreement is as new as the question: no contact with the leader behind it was long ago. */
	uint64_t contact_ms = r->op.mode == OP_STALE ? reply->last_contact_ms : 0;

	buf_printf(out, ",\"Index\":0,\"LastContact\":%" PRIu64 ",\"KnownLeader\":%s,\"ConsistencyLevel\":\"%s\","
	    "\"NotModified\":false", contact_ms * 1000000, reply->known_leader ? "true" : "false", level);
}

bool
api_record(struct request *r, const struct op_reply *reply, const struct schema *s, void *rec)
{
	struct rd in = rd_span_over(reply->value);

	if (schema_unpack(s, &in, &r->arena, rec) == TV_OK && rd_end(&in) == TV_OK)
		return true;
	api_malformed(r);
	return false;
}

struct span
api_body_dc(const struct request *r, struct span given)
{
	return given.len > 0 && !span_eq_nocase(given, span_str(r->api->cluster->datacenter)) ? given : span_of("", 0);
}

bool
api_number(struct request *r, const char *name, unsigned status, const char *before, uint64_t *v)
{
	struct span text = params_get(&r->query, name);
	struct buf why = BUF_INIT(4096);

	if (!params_has(&r->query, name) || u64_parse(text, v) == TV_OK)
		return true;
	u64_why(text, &why);
	answer_text(r, status, "%s%s", before, buf_cstr(&why));
	buf_done(&why);
	return false;
}

bool
api_too_large(struct request *r, const char *limit_name)
{
	if (r->body_bytes <= r->body_max && !r->body.failed)
		return false;
	answer_text(r, 413, "Request body(%" PRIu64 " bytes) too large, max size: %" PRIu64 " bytes. See %s#%s.",
	    r->body_bytes, r->body_max, DOC_LINK, limit_name);
	return true;
}

bool
api_decode(struct request *r, const struct schema *s, unsigned flags, bool optional, void *rec)
{
	return api_decode_edited(r, s, flags, optional, NULL, rec);
}

/* Consul passes over fields that it does not know in some bodies, and so do we: but it is told. */
static void
warn_of_field(struct request *r, const char *why)
{
	char shown[128], *end = shown;

	for (; *why != '\0' && end < shown + sizeof(shown) - 1; why++)
		if (*why != '"' && *why != '\\')		/* the header is a quoted text, of ASCII */
			*end++ = *why >= 0x20 && *why < 0x7f ? *why : '?';
	*end = '\0';
	answer_headerf(r, "Warning", "299 - \"%s, which was ignored\"", shown);
	if (log_allow(&r->api->fields_ignored, "http"))
		log_warn("http", "%s: %s, which was ignored", r->endpoint->path, shown);
}

/* `before` begins the refusal. */
static bool
decode(struct request *r, const struct schema *s, unsigned flags, bool (*edit)(json_t *body, char *why, size_t cap),
    const char *before, void *rec)
{
	char why[512];
	json_t *v = json_first_value(buf_span(&r->body), why, sizeof(why));
	bool good = v != NULL && api_tenancy_body(v, why, sizeof(why)) && (edit == NULL || edit(v, why, sizeof(why)));
	enum tv_err err = !good ? TV_EFORMAT : schema_from_json(s, v, flags, &r->arena, rec, why, sizeof(why));

	json_decref(v);
	if (err != TV_OK)
		answer_text(r, err == TV_ENOMEM ? 500 : 400, "%sRequest decode failed: %s", before, why);
	else if (why[0] != '\0')
		warn_of_field(r, why);
	return err == TV_OK;
}

bool
api_decode_as(struct request *r, const struct schema *s, const char *before, void *rec)
{
	return !api_too_large(r, "body_bytes_max") && decode(r, s, 0, NULL, before, rec);
}

bool
api_decode_edited(struct request *r, const struct schema *s, unsigned flags, bool optional,
    bool (*edit)(json_t *body, char *why, size_t cap), void *rec)
{
	if (api_too_large(r, "body_bytes_max"))
		return false;
	return (r->body.len == 0 && optional) || decode(r, s, flags, edit, "", rec);
}

bool
api_names_clean(struct request *r, const struct schema *s, const void *rec)
{
	char why[256];

	if (schema_names_fit(s, rec, why, sizeof(why)))
		return true;
	answer_text(r, 400, "%s", why);
	return false;
}
