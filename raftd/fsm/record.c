/*
 * Is a record one that the state machine could have written?  Asked of every record of an archive before any of it comes
 * near the state: a record that does not decode would stop each server that meets it, for good.
 */
#include "raftd/fsm/fsm_int.h"

enum rest { REST_NONE, REST_BYTES, REST_TIMED, REST_ID };

#define ID_BYTES 36
#define ANY_VALUE UINT32_MAX
#define AUTOPILOT_BYTES_MAX 1024
#define ARENA_SLACK 4096		/* what reading a record takes beside its bytes and its lists */

static const struct shape {
	enum tbl table;
	uint8_t names;			/* escaped parts of the key */
	enum rest rest;			/* of the key, behind them */
	const struct schema *schema;	/* of the value; NULL: so many bytes */
	uint32_t bytes;
	enum fsm_tally tally;
} shapes[] = {
	{ TBL_CHECK,           2, REST_NONE,  &check_schema,           0,         FT_CHECKS },
	{ TBL_LOCK_DELAY,      0, REST_BYTES, NULL,                    16,        FT_COUNT },
	{ TBL_LOCK_DELAY_TIME, 0, REST_TIMED, NULL,                    0,         FT_COUNT },
	{ TBL_COORDINATE,      2, REST_NONE,  &node_coordinate_schema, 0,         FT_COORDINATES },
	{ TBL_AUTOPILOT,       0, REST_NONE,  &autopilot_config_schema, 0,        FT_COUNT },
	{ TBL_NODE_ID,         1, REST_NONE,  NULL,                    ANY_VALUE, FT_COUNT },
	{ TBL_KV,              0, REST_BYTES, &kv_entry_schema,        0,         FT_KV },
	{ TBL_HOLD,            1, REST_BYTES, NULL,                    0,         FT_COUNT },
	{ TBL_NODE,            1, REST_NONE,  &node_schema,            0,         FT_NODES },
	{ TBL_INSTANCE,        3, REST_NONE,  NULL,                    0,         FT_COUNT },
	{ TBL_SERVICE,         2, REST_NONE,  &service_schema,         0,         FT_SERVICES },
	{ TBL_SERVER,          1, REST_NONE,  NULL,                    8,         FT_COUNT },
	{ TBL_TOMBSTONE,       0, REST_BYTES, NULL,                    16,        FT_TOMBSTONES },
	{ TBL_TOMBSTONE_TIME,  0, REST_TIMED, NULL,                    0,         FT_COUNT },
	{ TBL_SERVICE_INDEX,   1, REST_NONE,  NULL,                    16,        FT_COUNT },
	{ TBL_SESSION,         0, REST_ID,    &session_schema,         0,         FT_SESSIONS },
	{ TBL_SESSION_NODE,    1, REST_ID,    NULL,                    0,         FT_COUNT },
	{ TBL_SESSION_CHECK,   2, REST_ID,    NULL,                    0,         FT_COUNT },
};

static bool
key_sound(const struct shape *s, struct span key, struct span *rest)
{
	uint8_t name[FSM_NAME_BYTES_MAX];
	struct span part, left = span_of(key.p + 1, key.len - 1);

	for (unsigned i = 0; i < s->names; i++)
		if (!tkey_take_name(&left, name, sizeof(name), &part))
			return false;
	*rest = left;
	switch (s->rest) {
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

/* What the tables' code takes for granted beside a record that decodes. */
static bool
fields_sound(const struct shape *s, const union fsm_args *rec, struct span rest, struct span val)
{
	uint64_t index;

	switch (s->table) {
	case TBL_SESSION:
		return span_eq(rec->session.ID, rest) && rec->session.Node.len <= FSM_NAME_BYTES_MAX;
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
	const struct shape *s = NULL;
	union fsm_args rec;
	struct span rest;
	struct rd r = rd_span_over(val);
	size_t before = a->used;

	for (unsigned i = 0; i < sizeof(shapes) / sizeof(shapes[0]) && key.len > 0; i++)
		if (shapes[i].table == (enum tbl)key.p[0])
			s = &shapes[i];
	if (s == NULL || !key_sound(s, key, &rest))
		return TV_EFORMAT;
	*tally = s->tally;
	if (s->schema == NULL)
		return (s->bytes == ANY_VALUE ? val.len <= FSM_NAME_BYTES_MAX : val.len == s->bytes) ? TV_OK : TV_EFORMAT;
	memset(&rec, 0, sizeof(rec));
	/* Not the record's fault, and not to be taken for it: the other servers may well have the memory. */
	if (schema_unpack(s->schema, &r, a, &rec) == TV_ENOMEM)
		return TV_ENOMEM;
	if (a->used - before + val.len + ARENA_SLACK > FSM_RECORD_MEMORY)
		return TV_EFORMAT;
	return rd_end(&r) == TV_OK && fields_sound(s, &rec, rest, val) ? TV_OK : TV_EFORMAT;
}
