/*
 * The operations of the state machine: one row each.  A table watch of a catalog or health read that selects by node
 * meta waits on the nodes too: fsm_watch() adds them.
 */
#include "raftd/fsm/fsm_int.h"

#define READ(code_, read_, ...) { .code = (code_), .read = (read_), __VA_ARGS__ }
#define WRITE(code_, prepare_, apply_) { .code = (code_), .prepare = (prepare_), .apply = (apply_) }

/* What a read waits on. */
#define TABLES(set) .watch = WK_TABLE, .tables = (set)
#define KEY .watch = WK_KEY
#define PREFIX .watch = WK_PREFIX
#define SERVICE .watch = WK_SERVICE
#define NODES (1u << FX_NODES)
#define SERVICES (1u << FX_SERVICES)
#define CHECKS (1u << FX_CHECKS)
#define SESSIONS (1u << FX_SESSIONS)
#define COORDINATES (1u << FX_COORDINATES)
#define AUTOPILOT (1u << FX_AUTOPILOT)

static const struct fsm_op ops[] = {
	WRITE(OP_KV_APPLY,            kv_prepare,              kv_apply_op),
	WRITE(OP_SESSION_CREATE,      session_create_prepare,  session_create_apply),
	WRITE(OP_SESSION_DESTROY,     session_destroy_prepare, session_destroy_apply),
	WRITE(OP_CATALOG_REGISTER,    register_prepare,        register_apply),
	WRITE(OP_CATALOG_DEREGISTER,  deregister_prepare,      deregister_apply),
	WRITE(OP_TOMBSTONE_REAP,      reap_prepare,            reap_apply),
	WRITE(OP_SERVER_TOMBSTONE,    NULL,                    server_tombstone_apply),
	WRITE(OP_COORDINATE_BATCH,    NULL,                    coordinate_batch_apply),
	WRITE(OP_AUTOPILOT_SET,       autopilot_set_prepare,   autopilot_set_apply),
	WRITE(OP_RESTORE_BEGIN,       NULL,                    stage_begin_apply),
	WRITE(OP_RESTORE_CHUNK,       NULL,                    stage_chunk_apply),
	WRITE(OP_RESTORE_COMMIT,      NULL,                    stage_commit_apply),
	WRITE(OP_RESTORE_ABORT,       NULL,                    stage_abort_apply),

	READ(OP_KV_GET,              kv_read_one,           KEY),
	READ(OP_KV_LIST,             kv_read_list,          PREFIX),
	READ(OP_KV_KEYS,             kv_read_keys,          PREFIX),
	READ(OP_SESSION_INFO,        session_read_info,     TABLES(SESSIONS)),
	READ(OP_SESSION_NODE,        session_read_node,     TABLES(SESSIONS)),
	READ(OP_SESSION_LIST,        session_read_list,     TABLES(SESSIONS)),
	READ(OP_CATALOG_NODES,       catalog_read_nodes,    TABLES(NODES)),
	READ(OP_CATALOG_SERVICES,    catalog_read_services, TABLES(SERVICES)),
	READ(OP_CATALOG_SERVICE,     catalog_read_service,  SERVICE),
	READ(OP_CATALOG_NODE,        catalog_read_node,     TABLES(NODES | SERVICES)),
	READ(OP_HEALTH_NODE,         health_read_node,      TABLES(CHECKS)),
	READ(OP_HEALTH_CHECKS,       health_read_checks,    SERVICE),
	READ(OP_HEALTH_SERVICE,      health_read_service,   SERVICE),
	READ(OP_HEALTH_STATE,        health_read_state,     TABLES(CHECKS)),
	READ(OP_COORDINATE_NODES,    coordinate_read_nodes, TABLES(COORDINATES)),
	READ(OP_COORDINATE_NODE,     coordinate_read_node,  TABLES(COORDINATES)),
	READ(OP_AUTOPILOT_READ,      autopilot_read,        TABLES(AUTOPILOT)),
};

const struct fsm_op *
fsm_op_find(uint16_t code)
{
	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (ops[i].code == code)
			return &ops[i];
	return NULL;
}
