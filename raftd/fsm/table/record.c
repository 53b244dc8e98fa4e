/*
 * Is a record one that the state machine could have written?  Asked of every record of an archive before any of it comes
 * near the state: a record that does not decode would stop each server that meets it, for good.
 */
#include "raftd/fsm/kv/kv.h"
#include "raftd/fsm/table/record.h"

#define ID_BYTES 36
#define AUTOPILOT_BYTES_MAX 1024
#define ACL_STATE_BYTES_MAX 8192	/* ACL_ENDINGS_MAX names, and why the last copy failed */
#define ACL_GROWTH_MAX (32u << 10)	/* names of links become ids */
#define ARENA_SLACK 4096		/* what reading a record takes beside its bytes and its lists */

/* A record of any of them. */
union stored {
#define STORED(record) struct record record;
#define RAW(bytes, words)
#define OPAQUE(words)
#define ROW(name, letter, title, shown, names, rest, key, value, ...) value
	FSM_TABLES(ROW)
};

static bool
key_sound(const struct fsm_table *t, struct span key, struct span *rest)
{
	uint8_t name[FSM_NAME_BYTES_MAX];
	struct span part, left = span_of(key.p + 1, key.len - 1);

	for (unsigned i = 0; i < t->names; i++)
		if (!tkey_take_name(&left, name, sizeof(name), &part))
			return false;
	*rest = left;
	switch (t->rest) {
	case REST_NONE:
		return left.len == 0;
	case REST_BYTES:
		return left.len <= FSM_KV_KEY_BYTES_MAX;
	case REST_TIMED:
		return left.len >= 8 && left.len - 8 <= FSM_KV_KEY_BYTES_MAX;
	case REST_ID:
		return left.len == ID_BYTES;
	}
	return false;
}

/* Names and ids of keys. */
static bool
endings_sound(const struct obj_list *list)
{
	const struct acl_ending *v = list->v;

	for (uint32_t i = 0; i < list->n; i++)
		if (v[i].Method.len == 0 || v[i].Method.len > ACL_NAME_BYTES_MAX || (v[i].After.len > 0 && v[i].After.len != ID_BYTES))
			return false;
	return list->n <= ACL_ENDINGS_MAX;
}

/* What the tables' code takes for granted beside a record that decodes. */
static bool
fields_sound(const struct fsm_table *t, const union stored *rec, struct span rest, struct span val)
{
	uint64_t index;

	switch (t->letter) {
	case TBL_SESSION:
		return span_eq(rec->session.ID, rest) && rec->session.Node.len <= FSM_NAME_BYTES_MAX;
	case TBL_QUERY:				/* with its indexes it is a little longer than it may be at first */
		return span_eq(rec->prepared_query.ID, rest) && rec->prepared_query.Name.len <= FSM_NAME_BYTES_MAX &&
		    rec->prepared_query.Session.len <= ID_BYTES && val.len <= PREPARED_BYTES_MAX + 64;
	case TBL_ACL:
		return rec->acl_state.Since > 0 && rec->acl_state.Key.len == ACL_KEY_BYTES && val.len <= ACL_STATE_BYTES_MAX &&
		    endings_sound(&rec->acl_state.Ending);
	case TBL_ACL_TOKEN:			/* these three with their hashes and indexes */
		return span_eq(rec->acl_token.AccessorID, rest) && rec->acl_token.SecretID.len > 0 && rec->acl_token.Expires >= 0 &&
		    rec->acl_token.Policies.n <= ACL_LINKS_MAX && rec->acl_token.Roles.n <= ACL_LINKS_MAX &&
		    rec->acl_token.AuthMethod.len <= ACL_NAME_BYTES_MAX && val.len <= ACL_TOKEN_BYTES_MAX + ACL_GROWTH_MAX;
	case TBL_ACL_POLICY:
		return span_eq(rec->acl_policy.ID, rest) && rec->acl_policy.Name.len > 0 &&
		    rec->acl_policy.Name.len <= ACL_NAME_BYTES_MAX && val.len <= ACL_POLICY_BYTES_MAX + ACL_GROWTH_MAX;
	case TBL_ACL_ROLE:
		return span_eq(rec->acl_role.ID, rest) && rec->acl_role.Name.len > 0 &&
		    rec->acl_role.Name.len <= ACL_NAME_BYTES_MAX && rec->acl_role.Policies.n <= ACL_LINKS_MAX &&
		    val.len <= ACL_TOKEN_BYTES_MAX + ACL_GROWTH_MAX;
	case TBL_ACL_METHOD:
		return rec->acl_method.Name.len > 0 && rec->acl_method.Name.len <= ACL_NAME_BYTES_MAX &&
		    rec->acl_method.MaxTokenTTL >= 0 && val.len <= ACL_METHOD_BYTES_MAX + ACL_GROWTH_MAX;
	case TBL_ACL_BINDING:
		return span_eq(rec->acl_binding.ID, rest) && rec->acl_binding.AuthMethod.len > 0 &&
		    rec->acl_binding.AuthMethod.len <= ACL_NAME_BYTES_MAX && val.len <= ACL_BINDING_BYTES_MAX + ACL_GROWTH_MAX;
	case TBL_KV:
		return span_eq(rec->kv_entry.Key, rest) && kv_modify_index(val, &index);
	case TBL_AUTOPILOT:
		return val.len <= AUTOPILOT_BYTES_MAX;
	case TBL_NODE:
		return rec->node.Node.len > 0 && rec->node.Node.len <= FSM_NAME_BYTES_MAX &&
		    rec->node.ID.len <= FSM_NAME_BYTES_MAX;
	case TBL_SERVICE:
		return rec->service.ID.len <= FSM_NAME_BYTES_MAX && rec->service.Service.len <= FSM_NAME_BYTES_MAX;
	case TBL_CHECK:
		return rec->check.Node.len <= FSM_NAME_BYTES_MAX && rec->check.CheckID.len <= FSM_NAME_BYTES_MAX &&
		    rec->check.ServiceID.len <= FSM_NAME_BYTES_MAX && rec->check.ServiceName.len <= FSM_NAME_BYTES_MAX;
	default:
		return true;
	}
}

enum tv_err
record_check(struct span key, struct span val, struct arena *a, enum fsm_tally *tally)
{
	const struct fsm_table *t = key.len > 0 ? fsm_table_find(key.p[0]) : NULL;
	union stored rec;
	struct span rest;
	struct rd r = rd_span_over(val);
	size_t before = a->used;

	if (t == NULL || t->opaque || !key_sound(t, key, &rest))
		return TV_EFORMAT;
	*tally = t->counted ? t->tally : FT_COUNT;
	if (t->schema == NULL)			/* a later version may have more to say */
		return val.len >= t->bytes && val.len <= FSM_NAME_BYTES_MAX ? TV_OK : TV_EFORMAT;
	memset(&rec, 0, sizeof(rec));
	/* Not the record's fault, and not to be taken for it: the other servers may well have the memory. */
	if (schema_unpack(t->schema, &r, a, &rec) == TV_ENOMEM)
		return TV_ENOMEM;
	if (a->used - before + val.len + ARENA_SLACK > FSM_RECORD_MEMORY)
		return TV_EFORMAT;
	return rd_end(&r) == TV_OK && fields_sound(t, &rec, rest, val) ? TV_OK : TV_EFORMAT;
}
