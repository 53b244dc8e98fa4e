/*
 * The operations, listed once: name, code, kind, argument and answer schemas.
 * rpcd encodes by it, raftd dispatches by it, the tests walk it.
 *
 * MSG_OP question body:
 *   [u16 op, str dc, u8 mode, u64 index, u64 wait_ms, u64 max_stale_ms, str token, args]
 * args is the record of the op's argument schema.  dc "" is the own datacenter; a forwarder never rewrites the body, but
 * may leave out fields of a long blocking query that it does not know (op_trim).
 * MSG_OP answer body:
 *   [u8 err, str text, u64 index, bool known_leader, u64 last_contact_ms, value]
 * value is nil on an error; else, by `answers`: ONE a record, LIST an array of records.
 *
 * Outcome rules for writes (S39, S40): TV_ENOTLEADER and TV_ENOLEADER say that nothing was done, the
 * asker may try elsewhere; TV_EUNKNOWN says that it may have been applied, and is never retried.
 */
#ifndef TV_OPS_H
#define TV_OPS_H

#include <stdint.h>

#include "common/base/err.h"
#include "common/base/rd.h"
#include "common/base/buf.h"
#include "common/record/schema.h"

enum op_kind {
	OP_READ,	/* any server by ReadIndex, or its own state when stale; may block */
	OP_WRITE,	/* proposed to the log by the leader */
	OP_LEADER,	/* answered by the leader from memory (session renew, raft changes) */
	OP_VIEW,	/* answered by any server's rpcd from its view of the pools; raftd refuses it */
	OP_GOSSIP,	/* done by the gossipd of the node asked: this one, or a server of another datacenter */
	OP_GOSSIP_SERVER,	/* carried out by the gossipd of a server, which is in both pools */
	OP_SERVER,	/* carried out by the raftd of the server that the arguments name first; "": the leader's,
			 * or when stale that of any server */
};
enum op_answers { OP_ONE, OP_LIST };
enum op_mode { OP_DEFAULT = 0, OP_CONSISTENT = 1, OP_STALE = 2 };

/*    code  name              text                      kind       arguments                  answer                    answers */
#define OPS(X) \
	X(  1, KV_GET,            "KVS.Get",                OP_READ,   kv_read_schema,            kv_entry_schema,          OP_LIST) \
	X(  2, KV_LIST,           "KVS.List",               OP_READ,   kv_read_schema,            kv_entry_schema,          OP_LIST) \
	X(  3, KV_KEYS,           "KVS.ListKeys",           OP_READ,   kv_read_schema,            text_list_schema,         OP_ONE) \
	X(  4, KV_APPLY,          "KVS.Apply",              OP_WRITE,  kv_apply_schema,           bool_reply_schema,        OP_ONE) \
	X( 10, SESSION_CREATE,    "Session.Create",         OP_WRITE,  session_schema,            text_reply_schema,        OP_ONE) \
	X( 11, SESSION_DESTROY,   "Session.Destroy",        OP_WRITE,  session_destroy_schema,    bool_reply_schema,        OP_ONE) \
	X( 12, SESSION_RENEW,     "Session.Renew",          OP_LEADER, session_read_schema,       session_schema,           OP_LIST) \
	X( 13, SESSION_INFO,      "Session.Get",            OP_READ,   session_read_schema,       session_schema,           OP_LIST) \
	X( 14, SESSION_NODE,      "Session.NodeSessions",   OP_READ,   session_read_schema,       session_schema,           OP_LIST) \
	X( 15, SESSION_LIST,      "Session.List",           OP_READ,   session_read_schema,       session_schema,           OP_LIST) \
	X( 20, CATALOG_REGISTER,  "Catalog.Register",       OP_WRITE,  catalog_register_schema,   bool_reply_schema,        OP_ONE) \
	X( 21, CATALOG_DEREGISTER,"Catalog.Deregister",     OP_WRITE,  catalog_deregister_schema, bool_reply_schema,        OP_ONE) \
	X( 22, CATALOG_NODES,     "Catalog.ListNodes",      OP_READ,   catalog_read_schema,       node_schema,              OP_LIST) \
	X( 23, CATALOG_SERVICES,  "Catalog.ListServices",   OP_READ,   catalog_read_schema,       service_tags_schema,      OP_LIST) \
	X( 24, CATALOG_SERVICE,   "Catalog.ServiceNodes",   OP_READ,   catalog_read_schema,       service_instance_schema,  OP_LIST) \
	X( 25, CATALOG_NODE,      "Catalog.NodeServices",   OP_READ,   catalog_read_schema,       node_services_schema,     OP_ONE) \
	X( 30, HEALTH_NODE,       "Health.NodeChecks",      OP_READ,   catalog_read_schema,       check_schema,             OP_LIST) \
	X( 31, HEALTH_CHECKS,     "Health.ServiceChecks",   OP_READ,   catalog_read_schema,       check_schema,             OP_LIST) \
	X( 32, HEALTH_SERVICE,    "Health.ServiceNodes",    OP_READ,   catalog_read_schema,       health_entry_schema,      OP_LIST) \
	X( 33, HEALTH_STATE,      "Health.ChecksInState",   OP_READ,   catalog_read_schema,       check_schema,             OP_LIST) \
	X( 40, RAFT_CONFIGURATION,"Operator.RaftGetConfiguration", OP_LEADER, empty_schema,       raft_configuration_schema, OP_ONE) \
	X( 41, RAFT_REMOVE,       "Operator.RaftRemovePeer",OP_LEADER, raft_peer_schema,          bool_reply_schema,        OP_ONE) \
	X( 42, RAFT_TRANSFER,     "Operator.RaftTransfer",  OP_LEADER, raft_peer_schema,          bool_reply_schema,        OP_ONE) \
	X( 43, STATUS_LEADER,     "Status.Leader",          OP_READ,   empty_schema,              text_reply_schema,        OP_ONE) \
	X( 44, STATUS_PEERS,      "Status.Peers",           OP_READ,   empty_schema,              text_list_schema,         OP_ONE) \
	X( 45, CATALOG_DATACENTERS,"Catalog.ListDatacenters", OP_VIEW, empty_schema,              text_list_schema,         OP_ONE) \
	X( 46, AUTOPILOT_READ,    "Operator.AutopilotGetConfiguration", OP_READ, empty_schema,    autopilot_config_schema,  OP_ONE) \
	X( 47, AUTOPILOT_SET,     "Operator.AutopilotSetConfiguration", OP_WRITE, autopilot_set_schema, bool_reply_schema, OP_ONE) \
	X( 49, AUTOPILOT_HEALTH,  "Operator.ServerHealth",  OP_LEADER, empty_schema,              autopilot_health_schema,  OP_ONE) \
	X( 48, EVENT_FIRE,        "Event.Fire",             OP_GOSSIP, event_fire_schema,         user_event_schema,        OP_ONE) \
	X( 50, COORDINATE_UPDATE, "Coordinate.Update",      OP_LEADER, coordinate_update_schema,  bool_reply_schema,        OP_ONE) \
	X( 51, COORDINATE_NODES,  "Coordinate.ListNodes",   OP_READ,   coordinate_read_schema,    node_coordinate_schema,   OP_LIST) \
	X( 52, COORDINATE_NODE,   "Coordinate.Node",        OP_READ,   coordinate_read_schema,    node_coordinate_schema,   OP_LIST) \
	X( 53, COORDINATE_DATACENTERS, "Coordinate.ListDatacenters", OP_VIEW, empty_schema,       dc_coordinates_schema,    OP_LIST) \
	X( 55, KEYRING,           "Internal.KeyringOperation", OP_GOSSIP_SERVER, keyring_op_schema, keyring_pool_schema,    OP_LIST) \
	/* snapshots on their way to and from clients, chunk by chunk */ \
	X( 70, SNAPSHOT_SAVE,     "Snapshot.Save",          OP_SERVER, snapshot_ask_schema,       snapshot_state_schema,    OP_ONE) \
	X( 71, SNAPSHOT_READ,     "Snapshot.Read",          OP_SERVER, snapshot_ask_schema,       snapshot_state_schema,    OP_ONE) \
	X( 72, SNAPSHOT_END,      "Snapshot.End",           OP_SERVER, snapshot_ask_schema,       snapshot_state_schema,    OP_ONE) \
	X( 73, RESTORE_OPEN,      "Snapshot.RestoreOpen",   OP_SERVER, snapshot_ask_schema,       snapshot_state_schema,    OP_ONE) \
	X( 74, RESTORE_WRITE,     "Snapshot.RestoreWrite",  OP_SERVER, snapshot_ask_schema,       snapshot_state_schema,    OP_ONE) \
	X( 75, RESTORE_APPLY,     "Snapshot.RestoreApply",  OP_SERVER, snapshot_ask_schema,       snapshot_state_schema,    OP_ONE) \
	X( 76, RESTORE_STATUS,    "Snapshot.RestoreStatus", OP_SERVER, snapshot_ask_schema,       snapshot_state_schema,    OP_ONE) \
	/* proposed by the leader itself; refused from outside */ \
	X( 60, TOMBSTONE_REAP,    "Internal.TombstoneReap", OP_WRITE,  session_destroy_schema,    bool_reply_schema,        OP_ONE) \
	X( 61, SERVER_TOMBSTONE,  "Internal.ServerTombstone", OP_WRITE, raft_peer_schema,         bool_reply_schema,        OP_ONE) \
	X( 62, COORDINATE_BATCH,  "Internal.CoordinateBatch", OP_WRITE, coordinate_batch_schema,  bool_reply_schema,        OP_ONE) \
	X( 63, RESTORE_BEGIN,     "Internal.RestoreBegin",  OP_WRITE,  restore_step_schema,       bool_reply_schema,        OP_ONE) \
	X( 64, RESTORE_CHUNK,     "Internal.RestoreChunk",  OP_WRITE,  restore_step_schema,       bool_reply_schema,        OP_ONE) \
	X( 65, RESTORE_COMMIT,    "Internal.RestoreCommit", OP_WRITE,  restore_step_schema,       bool_reply_schema,        OP_ONE) \
	X( 66, RESTORE_ABORT,     "Internal.RestoreAbort",  OP_WRITE,  restore_step_schema,       bool_reply_schema,        OP_ONE)

enum op_code {
#define X(code, name, text, kind, args, answer, answers) OP_##name = code,
	OPS(X)
#undef X
};

struct op {
	uint16_t code;
	const char *name;		/* "KVS.Get": logs, metrics, error texts */
	enum op_kind kind;
	const struct schema *args, *answer;
	enum op_answers answers;
};

extern const struct op ops_all[];
extern const unsigned ops_count;
/* NULL for an unknown code. */
const struct op *op_find(uint16_t code);
/* Proposed by the leader itself; nobody may ask for it. */
static inline bool
op_internal(uint16_t code)
{
	return code >= 60 && code < 70;
}

/*
 * Writes args again with the fields alone that this version's schema has, and false without writing when they are no
 * such record.  For those that are kept for long.
 */
bool op_trim(const struct op *op, struct span args, struct arena *a, struct buf *out);

#define OP_WAIT_MS_MAX (24 * 3600 * 1000u)	/* what max_query_time in rpcd.conf may be */
#define OP_NAME_BYTES_MAX 255	/* of dc and token: longer ones make the body malformed for its reader */

struct op_request {
	uint16_t op;
	struct span dc;			/* <= OP_NAME_BYTES_MAX */
	uint8_t mode;			/* enum op_mode */
	uint64_t index;			/* blocking: answer when the result's index is above; 0: at once */
	uint64_t wait_ms;		/* read: at most OP_WAIT_MS_MAX, whatever the asker says */
	uint64_t max_stale_ms;		/* with OP_STALE: 0 no bound */
	struct span token;		/* <= OP_NAME_BYTES_MAX */
	struct span args;		/* msgpack of the record */
};
void op_request_write(struct buf *b, const struct op_request *q);	/* args must be packed already */
enum tv_err op_request_read(struct span body, struct op_request *q);

struct op_reply {
	enum tv_err err;
	struct span text;		/* error sentence, as the API shows it */
	uint64_t index;
	bool known_leader;
	uint64_t last_contact_ms;
	struct span value;		/* msgpack; empty on errors */
};
void op_reply_write(struct buf *b, const struct op_reply *a);		/* value must be packed already; nil if empty */
enum tv_err op_reply_read(struct span body, struct op_reply *a);

#endif
