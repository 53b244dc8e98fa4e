/*
 * The operations of the state machine: one row each.  A table watch of a catalog or health read that selects by node
 * meta waits on the nodes too: fsm_watch() adds them.
 */
#include "raftd/fsm/fsm_int.h"

#define NO_WATCH WK_TABLE, 0
#define NODES    (1u << FX_NODES)
#define SERVICES (1u << FX_SERVICES)
#define CHECKS   (1u << FX_CHECKS)
#define SESSIONS (1u << FX_SESSIONS)

static const struct fsm_op ops[] = {
	/* code                  prepare                  apply                    read                   watch, tables */
	{ OP_KV_GET,             NULL,                    NULL,                    kv_read_one,           WK_KEY, 0 },
	{ OP_KV_LIST,            NULL,                    NULL,                    kv_read_list,          WK_PREFIX, 0 },
	{ OP_KV_KEYS,            NULL,                    NULL,                    kv_read_keys,          WK_PREFIX, 0 },
	{ OP_KV_APPLY,           kv_prepare,              kv_apply_op,             NULL,                  NO_WATCH },
	{ OP_SESSION_CREATE,     session_create_prepare,  session_create_apply,    NULL,                  NO_WATCH },
	{ OP_SESSION_DESTROY,    session_destroy_prepare, session_destroy_apply,   NULL,                  NO_WATCH },
	{ OP_SESSION_INFO,       NULL,                    NULL,                    session_read_info,     WK_TABLE, SESSIONS },
	{ OP_SESSION_NODE,       NULL,                    NULL,                    session_read_node,     WK_TABLE, SESSIONS },
	{ OP_SESSION_LIST,       NULL,                    NULL,                    session_read_list,     WK_TABLE, SESSIONS },
	{ OP_CATALOG_REGISTER,   register_prepare,        register_apply,          NULL,                  NO_WATCH },
	{ OP_CATALOG_DEREGISTER, deregister_prepare,      deregister_apply,        NULL,                  NO_WATCH },
	{ OP_CATALOG_NODES,      NULL,                    NULL,                    catalog_read_nodes,    WK_TABLE, NODES },
	{ OP_CATALOG_SERVICES,   NULL,                    NULL,                    catalog_read_services, WK_TABLE, SERVICES },
	{ OP_CATALOG_SERVICE,    NULL,                    NULL,                    catalog_read_service,  WK_SERVICE, 0 },
	{ OP_CATALOG_NODE,       NULL,                    NULL,                    catalog_read_node,     WK_TABLE, NODES | SERVICES },
	{ OP_HEALTH_NODE,        NULL,                    NULL,                    health_read_node,      WK_TABLE, CHECKS },
	{ OP_HEALTH_CHECKS,      NULL,                    NULL,                    health_read_checks,    WK_SERVICE, 0 },
	{ OP_HEALTH_SERVICE,     NULL,                    NULL,                    health_read_service,   WK_SERVICE, 0 },
	{ OP_HEALTH_STATE,       NULL,                    NULL,                    health_read_state,     WK_TABLE, CHECKS },
	{ OP_TOMBSTONE_REAP,     reap_prepare,            reap_apply,              NULL,                  NO_WATCH },
	{ OP_SERVER_TOMBSTONE,   NULL,                    server_tombstone_apply,  NULL,                  NO_WATCH },
};

const struct fsm_op *
fsm_op_find(uint16_t code)
{
	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (ops[i].code == code)
			return &ops[i];
	return NULL;
}
