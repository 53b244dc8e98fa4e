/* Requests as records of the audit trail, see audit.h. */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/net/source.h"
#include "common/record/op_access.h"
#include "common/record/records.h"
#include "common/record/schema.h"
#include "rpcd/api/audit.h"
#include "rpcd/audit/trail.h"

#define LINE_ROOM (2 * AUDIT_LINE_MAX)
#define ACCESSOR_BYTES 40
#define WAITING_MAX 4096			/* lines that wait for who asked */
#define HINT_BYTES 8			/* of an id that may be a secret by mistake */

/* -- is it told? -- */

static const struct op *
op_of(const struct request *r)
{
	return op_find((uint16_t)(r->op.op != 0 ? r->op.op : r->endpoint->op));
}

/* Does it change anything?  What administers counts as if it did: a snapshot shows all that there is. */
static bool
is_change(const struct request *r)
{
	const struct op *op = op_of(r);

	if (r->endpoint->access & ACCESS_ADMIN)
		return true;
	if (strcmp(r->head.method, "GET") == 0 || strcmp(r->head.method, "HEAD") == 0)
		return false;
	return op == NULL || op->kind != OP_READ;
}

static bool
is_told(const struct request *r)
{
	return trail_is_on(r->api->trail) && r->endpoint != NULL && (r->api->conf->audit_reads || is_change(r));
}

/* NULL: no memory, and the line will say less. */
static struct audit_note *
note_of(struct request *r)
{
	if (r->audit == NULL && (r->audit = arena_alloc(&r->arena, sizeof(*r->audit))) != NULL)
		*r->audit = (struct audit_note){ .name = SPAN_NONE };
	return r->audit;
}

/* -- names -- */

static struct span
copy_text(struct request *r, struct span text)
{
	size_t n = text.len > AUDIT_LINE_MAX ? AUDIT_LINE_MAX : text.len;
	uint8_t *copy = n == 0 ? NULL : arena_alloc(&r->arena, n);

	if (copy == NULL)
		return SPAN_NONE;
	memcpy(copy, text.p, n);
	return span_of(copy, n);
}

static void
add_name(struct request *r, struct audit_note *a, const char *kind, struct span name)
{
	if (a->name_count < AUDIT_NAMES_MAX && name.len > 0)
		a->names[a->name_count++] = arena_printf(&r->arena, "%s:%.*s", kind,
		    (int)(name.len > AUDIT_LINE_MAX ? AUDIT_LINE_MAX : name.len), (const char *)name.p);
}

/* By its id, or else by its name. */
static void
add_either(struct request *r, struct audit_note *a, const char *kind, struct span id, struct span name)
{
	add_name(r, a, kind, id.len > 0 ? id : name);
}

static void
note_txn(struct request *r, struct audit_note *a, const struct txn *t)
{
	const struct txn_op *ops = t->Ops.v;

	a->operations = t->Ops.n;
	for (uint32_t i = 0; i < t->Ops.n && a->name_count < AUDIT_NAMES_MAX; i++) {
		const struct txn_op *o = &ops[i];

		if (o->has_kv)
			add_name(r, a, "key", o->KV.Key);
		else if (o->has_node)
			add_name(r, a, "node", o->Node.Node.Node);
		else if (o->has_service)
			add_either(r, a, "service", o->Service.Service.ID, o->Service.Service.Service);
		else if (o->has_check)
			add_either(r, a, "check", o->Check.Check.CheckID, o->Check.Check.Name);
	}
}

/* Beside its node. */
static void
note_registered(struct request *r, struct audit_note *a, const struct catalog_register *c)
{
	if (c->has_service)
		add_either(r, a, "service", c->Service.ID, c->Service.Service);
	if (c->has_check)
		add_either(r, a, "check", c->Check.CheckID, c->Check.Name);
	for (uint32_t i = 0; i < c->Checks.n && a->name_count < AUDIT_NAMES_MAX; i++) {
		const struct check *check = (const struct check *)c->Checks.v + i;

		add_either(r, a, "check", check->CheckID, check->Name);
	}
}

void
audit_asked(struct request *r, enum op_code code, const void *args)
{
	const struct op *op = op_find((uint16_t)code);
	struct audit_note *a;

	r->op.op = (uint16_t)code;
	if (!is_told(r) || (a = note_of(r)) == NULL)
		return;
	if (op->access.scope == OP_OBJECT)
		a->name = copy_text(r, *(const struct span *)(const void *)((const uint8_t *)args + op->access.field));
	a->name_count = 0;
	if (code == OP_TXN_APPLY || code == OP_TXN_READ) {
		note_txn(r, a, args);
	} else if (code == OP_CATALOG_REGISTER) {
		note_registered(r, a, args);
	} else if (code == OP_CATALOG_DEREGISTER) {
		const struct catalog_deregister *d = args;

		add_name(r, a, "service", d->ServiceID);
		add_name(r, a, "check", d->CheckID);
	}
}

void
audit_about(struct request *r, struct span name)
{
	struct audit_note *a;

	if (is_told(r) && (a = note_of(r)) != NULL)
		a->name = copy_text(r, name);
}

/* What was made has a name only now. */
static void
note_made(struct request *r, struct audit_note *a, const struct op *op, struct span value)
{
	const struct schema *s = op->answer;
	struct rd in = rd_span_over(value);
	void *rec;

	if (op->kind != OP_WRITE || op->answers != OP_ONE || (s != &acl_token_schema && s != &acl_policy_schema &&
	    s != &acl_role_schema && s != &bool_reply_schema && s != &text_reply_schema))
		return;
	rec = arena_alloc(&r->arena, s->size);
	if (rec == NULL || schema_unpack(s, &in, &r->arena, rec) != TV_OK)
		return;
	a->proven = s == &acl_token_schema;
	if (a->proven)
		a->name = copy_text(r, ((const struct acl_token *)rec)->AccessorID);
	else if (s == &acl_policy_schema)
		a->name = copy_text(r, ((const struct acl_policy *)rec)->Name);
	else if (s == &acl_role_schema)
		a->name = copy_text(r, ((const struct acl_role *)rec)->Name);
	else if (s == &bool_reply_schema)
		a->refused = !((const struct bool_reply *)rec)->Value;
	else if (op->traits & OP_MAKES_ID)
		add_name(r, a, "id", ((const struct text_reply *)rec)->Value);
}

void
audit_replied(struct request *r, const struct op_reply *reply)
{
	const struct op *op = op_find(r->op.op);
	struct audit_note *a;

	if (op == NULL || reply->err != TV_OK || !is_told(r) || (a = note_of(r)) == NULL)
		return;
	a->index = reply->index;
	note_made(r, a, op, reply->value);
}

/* -- the line -- */

/* The first word behind prefix, up to the next slash. */
static const char *
word_after(struct request *r, const char *prefix)
{
	const char *word = r->endpoint->path + strlen(prefix);

	return arena_cstr(&r->arena, span_of(word, strcspn(word, "/")));
}

static const char *
resource_of(struct request *r, const struct op *op)
{
	const char *path = r->endpoint->path;

	if (strncmp(path, "/v1/acl/", 8) == 0)
		return word_after(r, "/v1/acl/");
	if (strncmp(path, "/v1/agent/", 10) == 0)
		return word_after(r, "/v1/agent/");
	if (strcmp(path, "/v1/operator/keyring") == 0)
		return "keyring";
	if (strcmp(path, "/v1/snapshot") == 0)
		return "state";
	if (op == NULL || op->access.scope == OP_NONE)
		return NULL;
	return op->access.resource == OP_RES_STATE ? "state" :
	    acl_resource_name(op_access_resource(op->access.resource));
}

/* "agent/service/register" of what no operation of the servers is. */
static const char *
operation_of(struct request *r, const struct op *op)
{
	size_t n = strlen(r->endpoint->path);
	const char *path = r->endpoint->path;

	if (strcmp(path, "/v1/snapshot") == 0)
		return strcmp(r->endpoint->method, "GET") == 0 ? "Snapshot.Save" : "Snapshot.Restore";
	if (op != NULL)
		return op->name;
	if (strncmp(path, "/v1/", 4) != 0)
		return path;
	if (path[n - 1] == '/')
		n--;
	return arena_cstr(&r->arena, span_of(path + 4, n - 4));
}

/* Its name, unless it may be a secret: where an AccessorID belongs someone may have given a SecretID. */
static void
put_name(struct request *r, struct audit_record *rec)
{
	const struct audit_note *a = r->audit;
	bool is_token = rec->resource != NULL && strcmp(rec->path, "/v1/acl/token/") == 0;

	rec->name = a != NULL && a->name.len > 0 ? a->name : r->rest;
	if (rec->name.len > 0 && span_eq(rec->name, api_shown_token(r)))
		rec->name = SPAN_NONE;
	if ((is_token || strncmp(rec->path, "/v1/acl/rules/", 14) == 0) && !(a != NULL && a->proven) &&
	    rec->name.len > HINT_BYTES) {
		rec->name.len = HINT_BYTES;
		rec->name_cut = true;
	}
	if (a == NULL)
		return;
	rec->operations = a->operations;
	rec->names = a->names;
	rec->name_count = a->name_count;
	rec->index = a->index;
}

static enum audit_outcome
outcome_of(const struct request *r, bool cut)
{
	/* A stream without an end ends with its client. */
	if (!r->answered || (cut && r->stream_bytes > 0))
		return AUDIT_UNKNOWN;
	if (r->answer.status == 403)
		return AUDIT_DENIED;
	return r->answer.status >= 400 || (r->audit != NULL && r->audit->refused) ? AUDIT_FAILED : AUDIT_OK;
}

/* -- who asked -- */

struct audit_wait {
	struct api *api;
	LIST_ENTRY(audit_wait) link;
	const char *otherwise;		/* the accessor, if it cannot be found out */
	uint64_t denied;		/* the source; 0: it was not */
	struct buf line;		/* but for its end */
};

/* A source that is denied, with its token: for the trail.  Tokens that are none's count as one. */
static uint64_t
denied_party(uint64_t source, struct span accessor)
{
	struct { uint64_t source; uint8_t accessor[ACCESSOR_BYTES]; } party = { .source = source };
	uint64_t h;

	memcpy(party.accessor, accessor.p, accessor.len < ACCESSOR_BYTES ? accessor.len : ACCESSOR_BYTES);
	h = source == 0 ? 0 : keyed_hash(&party, sizeof(party));
	return h + (h == 0 && source != 0);
}

void
audit_know(struct audit_wait *w, struct span accessor)
{
	struct api *api = w->api;
	struct span name = accessor.len > 0 ? accessor : span_str(w->otherwise);

	audit_line_end(name, &w->line);
	trail_add(api->trail, buf_span(&w->line), denied_party(w->denied, name));
	LIST_REMOVE(w, link);
	api->audit_waiting_count--;
	buf_done(&w->line);
	free(w);
}

void
audit_done(struct api *api)
{
	while (!LIST_EMPTY(&api->audit_waiting))
		audit_know(LIST_FIRST(&api->audit_waiting), SPAN_NONE);
}

/* Takes the line over.  Root on this node's socket needs no token. */
static void
end_line(struct request *r, struct buf *line, uint64_t denied)
{
	struct api *api = r->api;
	struct span token = api_shown_token(r);
	bool is_master = token.len == 0 && r->head.on_socket && r->head.uid == 0;
	const char *otherwise = is_master ? "agent-master" : token.len == 0 ? "anonymous" : "unknown";
	struct audit_wait *w = is_master || api->accessor == NULL || api->audit_waiting_count >= WAITING_MAX ? NULL :
	    malloc(sizeof(*w));

	if (w == NULL) {
		audit_line_end(span_str(otherwise), line);
		trail_add(api->trail, buf_span(line), denied_party(denied, span_str(otherwise)));
		buf_done(line);
		return;
	}
	*w = (struct audit_wait){ .api = api, .otherwise = otherwise, .denied = denied, .line = *line };
	LIST_INSERT_HEAD(&api->audit_waiting, w, link);
	api->audit_waiting_count++;
	api->accessor(api->accessor_ctx, token, w);
}

/* Never 0. */
static uint64_t
client_of(const struct request *r)
{
	return r->head.on_socket ? 1 + (uint64_t)r->head.uid : source_of_text(r->head.client_ip) | 1ull << 63;
}

void
audit_end(struct request *r, bool cut)
{
	struct api *api = r->api;
	struct buf line = BUF_INIT(LINE_ROOM);
	bool denied = r->answered && r->answer.status == 403;

	/* What no endpoint took: not found, a method that it does not have. */
	if (!trail_is_on(api->trail) || r->endpoint == NULL || strcmp(r->endpoint->method, r->head.method) != 0)
		return;
	if (denied ? !api->conf->audit_denials : !is_told(r))
		return;
	if (!api_unfold(r))
		return;
	const struct op *op = op_of(r);
	struct audit_record rec = {
		.wall_ms = clock_wall_ns() / 1000000, .node = api->cluster->node_name,
		.client = r->head.client_ip, .uid = r->head.on_socket ? r->head.uid : -1,
		.certificate = r->head.peer_san,
		.operation = operation_of(r, op), .method = r->endpoint->method, .path = r->endpoint->path,
		.resource = resource_of(r, op), .outcome = outcome_of(r, cut),
		.status = r->answered ? r->answer.status : 0,
		.datacenter = r->op.dc.len > 0 ? r->op.dc : span_str(api->cluster->datacenter),
	};
	put_name(r, &rec);
	audit_line(&rec, &line);
	end_line(r, &line, denied ? client_of(r) : 0);
}
