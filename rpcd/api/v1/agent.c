/* /v1/agent/: the machine, the members that this node knows, joining and leaving. */
#include "rpcd/api/api.h"
#include "rpcd/api/v1/host.h"
#include "rpcd/api/v1/members_json.h"

/* -- host -- */

static void
run_host(struct request *r)
{
	host_json(r->api->host, r->api->cluster->data_dir, &r->answer.body);
	answer_json(r);
}

/* -- members -- */

enum gossip_pool
api_pool(const struct request *r)
{
	struct span wan = params_get(&r->query, "wan");

	return params_has(&r->query, "wan") && !span_eqs(wan, "0") && !span_eqs(wan, "false") ? POOL_WAN : POOL_LAN;
}

/* Members of the WAN pool are called NODE.DATACENTER; the right is about the node. */
static bool
may_see(struct request *r, enum gossip_pool pool, struct span name)
{
	for (size_t i = name.len; pool == POOL_WAN && i > 0; i--)
		if (name.p[i - 1] == '.') {
			name.len = i - 1;
			break;
		}
	return api_shows(r, ACL_NODE, name);
}

static void
run_members(struct request *r)
{
	enum gossip_pool pool = api_pool(r);
	struct span segment = params_get(&r->query, "segment");
	struct buf *out = &r->answer.body;

	if (segment.len > 0 && pool == POOL_WAN) {
		answer_text(r, 400, "Cannot provide a segment with wan=true");
		return;
	}
	if (segment.len > 0 && !span_eqs(segment, "_all")) {
		answer_text(r, 500, "Network segments are not supported in this version of Consul");
		return;
	}
	buf_u8(out, '[');
	for (unsigned i = 0; i < members_count(r->api->members, pool); i++) {
		const struct member *m = members_at(r->api->members, pool, i);

		if (!may_see(r, pool, m->name))
			continue;
		if (out->len > 1)
			buf_u8(out, ',');
		member_json(m, out);
	}
	buf_u8(out, ']');
	api_filtered_header(r);
	answer_json(r);
}

/* -- join, leave, force-leave -- */

static void
answer_done(struct request *r, enum tv_err err, struct span text)
{
	if (err == TV_OK)
		answer_empty(r, 200);
	else
		answer_span(r, err == TV_EPERM ? 403 : 500, text.len > 0 ? text : span_str(tv_strerror(err)));
}

void
api_not_asked(struct request *r, struct note *a, enum tv_err err)
{
	note_free(a);
	if (err == TV_EUNREACH || err == TV_ECLOSED)
		answer_text(r, 500, "gossipd is not running on this node");
	else
		answer_text(r, 500, "%s", tv_strerror(err));
}

/* No node could be joined: as Consul lists it. */
static void
on_joined(void *ctx, enum tv_err err, struct span text, uint32_t count UNUSED)
{
	struct request *r = note_take(ctx);
	bool whole = span_starts(text, span_str("Failed to "));

	if (r == NULL)
		return;
	if (err != TV_EUNREACH || text.len == 0)
		answer_done(r, err, text);
	else if (whole)
		answer_text(r, 500, "1 error occurred:\n\t* %.*s\n\n", SPAN_ARGS(text));
	else
		answer_text(r, 500, "1 error occurred:\n\t* Failed to join %.*s: %.*s\n\n", SPAN_ARGS(r->rest),
		    SPAN_ARGS(text));
}

static void
run_join(struct request *r)
{
	struct note *a = note_new(r);

	enum tv_err err = a == NULL ? TV_ENOMEM : admin_join(r->api->admin, api_pool(r), r->rest, on_joined, a);
	if (err != TV_OK)
		api_not_asked(r, a, err);
}

static void
on_force_leave(void *ctx, enum tv_err err, struct span text, uint32_t count UNUSED)
{
	struct request *r = note_take(ctx);

	if (r == NULL)
		return;
	if (err == TV_ENOENT)
		answer_text(r, 500, "agent: No node found with name '%.*s'", SPAN_ARGS(r->rest));
	else
		answer_done(r, err, text);
}

static void
run_force_leave(struct request *r)
{
	struct note *a = note_new(r);
	enum tv_err err = a == NULL ? TV_ENOMEM :
	    admin_force_leave(r->api->admin, r->rest, params_has(&r->query, "prune"), on_force_leave, a);

	if (err != TV_OK)
		api_not_asked(r, a, err);
}

/* The node leaves even if the client that asked is gone by now. */
static void
on_leave(void *ctx, enum tv_err err, struct span text, uint32_t count UNUSED)
{
	struct note *a = ctx;
	struct api *api = a->api;
	struct request *r = note_take(a);

	if (err == TV_OK && r != NULL) {
		r->sent = api->quit;
		r->sent_ctx = api->quit_ctx;
	} else if (err == TV_OK && api->quit != NULL) {
		api->quit(api->quit_ctx);
	}
	if (r != NULL)
		answer_done(r, err, text);
}

static void
run_leave(struct request *r)
{
	struct note *a;
	enum tv_err err;

	r->op.token = api_token(r);
	if (!api_names_fit(r))
		return;
	a = note_new(r);
	err = a == NULL ? TV_ENOMEM :
	    admin_leave(r->api->admin, params_has(&r->query, "force"), r->op.token, on_leave, a);

	if (err == TV_OK)
		return;
	if (!r->api->cluster->server || (err != TV_EUNREACH && err != TV_ECLOSED)) {
		api_not_asked(r, a, err);
		return;
	}
	note_free(a);
	answer_text(r, 500, "raftd is not running on this node, so it cannot leave the Raft configuration; nothing was "
	    "done");
}

static void
run_reload(struct request *r)
{
	char why[1024] = "this agent cannot reload its configuration";

	if (r->api->reload != NULL && r->api->reload(why, sizeof(why)) == TV_OK)
		answer_empty(r, 200);
	else
		answer_text(r, 500, "%s", why);
}

const struct endpoint api_agent[] = {
	{ "/v1/agent/host", "GET", ACCESS_OPERATOR_READ, .run = run_host },
	{ "/v1/agent/members", "GET", ACCESS_SHOWN, .run = run_members },
	{ "/v1/agent/join/", "PUT", ACCESS_AGENT_WRITE | ACCESS_ADMIN, .missing = "Missing address to join",
	    .run = run_join },
	{ "/v1/agent/leave", "PUT", ACCESS_AGENT_WRITE | ACCESS_ADMIN, .run = run_leave },
	{ "/v1/agent/reload", "PUT", ACCESS_AGENT_WRITE | ACCESS_ADMIN, .run = run_reload },
	{ "/v1/agent/force-leave/", "PUT", ACCESS_OPERATOR_WRITE | ACCESS_ADMIN, .run = run_force_leave },
	{ .path = NULL },
};
