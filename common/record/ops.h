/*
 * The operations, one row each: code, name, kind, argument and answer records, traits, who may, what a read waits on.
 * rpcd encodes and routes by it, raftd and its state machine dispatch by it, the tests walk it.
 *
 * MSG_OP question body:
 *   [u16 op, str dc, u8 mode, u64 index, u64 wait_ms, u64 max_stale_ms, str token, args]
 * args is the record of the op's argument schema.  dc "" is the own datacenter; a forwarder never rewrites the body,
 * but may leave out fields of a long blocking query that it does not know (op_trim).
 * MSG_OP answer body:
 *   [u8 err, str text, u64 index, bool known_leader, u64 last_contact_ms, value]
 * value is nil on an error; else, by `answers`: ONE a record, LIST an array of records.
 * Both may have further fields, of a newer version, which are skipped.  An operation that is not known is answered with
 * TV_EINVAL and OP_UNKNOWN_TEXT; the channel stays.
 *
 * Outcome rules for writes (S39, S40): TV_ENOTLEADER and TV_ENOLEADER say that nothing was done, the
 * asker may try elsewhere; TV_EUNKNOWN says that it may have been applied, and is never retried.
 */
#ifndef TV_COMMON_RECORD_OPS_H
#define TV_COMMON_RECORD_OPS_H

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

/* What a row says beside its kind.  OP_READ, OP_VIEW, OP_GOSSIP_SERVER and OP_SERVER imply OP_REPEATABLE; OP_READ and
 * OP_SERVER imply OP_STALE_OK. */
enum op_trait {
	OP_REPEATABLE = 1,	/* safe to ask again although the first question may have been carried out */
	OP_STALE_OK = 2,	/* any server may answer when asked with OP_STALE */
	OP_INTERNAL = 4,	/* proposed by the leader itself; no request may be of it */
	OP_SHORT = 8,		/* one record, or address: waits for no reads of many (raftd/engine/statethread.h) */
	OP_MAKES_ID = 16,	/* the proposer adds a new UUID */
	OP_LOGGED = 32,		/* changes the cluster: the log says who asked */
	OP_OWN = 64,		/* asked by the rpcd of the same server alone: it goes over no link */
};

/* What access is about; named after the rules of Consul's ACLs. */
enum op_resource {
	OP_RES_KEY, OP_RES_NODE, OP_RES_SERVICE, OP_RES_EVENT,
	OP_RES_SESSION,		/* by the name of its node */
	OP_RES_SESSION_ID,	/* the same, of the session that has this id */
	OP_RES_OPERATOR, OP_RES_KEYRING,
	OP_RES_STATE,		/* all of it, tokens included */
	OP_RES_QUERY,		/* a prepared query, by its name */
	OP_RES_QUERY_ID,	/* the same, of the one that has this id */
	OP_RES_ACL,		/* tokens, policies and roles */
	OP_RES_AGENT,		/* a node's own work, by its name */
};
enum op_right { OP_MAY_READ, OP_MAY_LIST, OP_MAY_WRITE };
enum op_scope {
	OP_OBJECT,		/* the right to the object that the field names ("": to any) */
	OP_FILTER,		/* any token may ask, and is shown the records that it may read */
	OP_ALL,			/* the right to the resource as a whole */
	OP_VERB,		/* the same; the field is 0 for reading, else for writing */
	OP_NONE,		/* no token is refused, because ... */
};
struct op_access {
	enum op_scope scope;
	enum op_resource resource;
	enum op_right right;
	uint16_t field;		/* OP_OBJECT, OP_VERB: its offset in the argument record */
	const char *because;	/* OP_NONE */
};

/*
 * traits   of enum op_trait, or 0
 * access   (OBJECT, resource, right, field)  (FILTER, resource)  (ALL, resource, right)  (VERB, resource, field)
 *          (NONE, "because")
 * watch    what a blocking query waits on; the state machine alone looks at it (raftd/fsm/ops.c):
 *          (KEY, field)  (PREFIX, field)  (SERVICE, field)  (CONNECT, field)  (TABLES, set)  (NOTHING)
 *          (TABLES_IF, set, field, more): more of them if the field, a map, is not empty
 * Fields are those of the argument record.
 *
 *    code  name              text                      kind    arguments          answer            answers
 *          traits          access                                watch
 */
#define OPS(X) \
	X(  1, KV_GET,              "KVS.Get",                READ,    kv_read,            kv_entry,         LIST, \
	    OP_SHORT,       (OBJECT, KEY, READ, Key),            (KEY, Key)) \
	X(  2, KV_LIST,             "KVS.List",               READ,    kv_read,            kv_entry,         LIST, \
	    0,              (OBJECT, KEY, LIST, Key),            (PREFIX, Key)) \
	X(  3, KV_KEYS,             "KVS.ListKeys",           READ,    kv_read,            text_list,        ONE, \
	    0,              (OBJECT, KEY, LIST, Key),            (PREFIX, Key)) \
	X(  4, KV_APPLY,            "KVS.Apply",              WRITE,   kv_apply,           bool_reply,       ONE, \
	    0,              (OBJECT, KEY, WRITE, Key),           (NOTHING)) \
	X( 10, SESSION_CREATE,      "Session.Create",         WRITE,   session,            text_reply,       ONE, \
	    OP_MAKES_ID,    (OBJECT, SESSION, WRITE, Node),      (NOTHING)) \
	X( 11, SESSION_DESTROY,     "Session.Destroy",        WRITE,   session_destroy,    bool_reply,       ONE, \
	    0,              (OBJECT, SESSION_ID, WRITE, ID),     (NOTHING)) \
	X( 12, SESSION_RENEW,       "Session.Renew",          LEADER,  session_read,       session,          LIST, \
	    OP_REPEATABLE,  (OBJECT, SESSION_ID, WRITE, ID),     (NOTHING)) \
	X( 13, SESSION_INFO,        "Session.Get",            READ,    session_read,       session,          LIST, \
	    OP_SHORT,       (FILTER, SESSION),                   (TABLES, SESSIONS)) \
	X( 14, SESSION_NODE,        "Session.NodeSessions",   READ,    session_read,       session,          LIST, \
	    0,              (FILTER, SESSION),                   (TABLES, SESSIONS)) \
	X( 15, SESSION_LIST,        "Session.List",           READ,    session_read,       session,          LIST, \
	    0,              (FILTER, SESSION),                   (TABLES, SESSIONS)) \
	X( 20, CATALOG_REGISTER,    "Catalog.Register",       WRITE,   catalog_register,   bool_reply,       ONE, \
	    0,              (OBJECT, NODE, WRITE, Node),         (NOTHING)) \
	X( 21, CATALOG_DEREGISTER,  "Catalog.Deregister",     WRITE,   catalog_deregister, bool_reply,       ONE, \
	    0,              (OBJECT, NODE, WRITE, Node),         (NOTHING)) \
	X( 22, CATALOG_NODES,       "Catalog.ListNodes",      READ,    catalog_read,       node,             LIST, \
	    0,              (FILTER, NODE),                      (TABLES, NODES)) \
	X( 23, CATALOG_SERVICES,    "Catalog.ListServices",   READ,    catalog_read,       service_tags,     LIST, \
	    0,              (FILTER, SERVICE),                   (TABLES_IF, SERVICES, NodeMeta, NODES)) \
	X( 24, CATALOG_SERVICE,     "Catalog.ServiceNodes",   READ,    catalog_read,       service_instance, LIST, \
	    0,              (FILTER, SERVICE),                   (SERVICE, Name)) \
	X( 25, CATALOG_NODE,        "Catalog.NodeServices",   READ,    catalog_read,       node_services,    ONE, \
	    0,              (FILTER, NODE),                      (TABLES, NODES | SERVICES)) \
	X( 26, CATALOG_CONNECT,     "Catalog.ConnectNodes",   READ,    catalog_read,       service_instance, LIST, \
	    0,              (FILTER, SERVICE),                   (CONNECT, Name)) \
	X( 27, NODE_DUMP,           "Catalog.NodeDump",       READ,    catalog_read,       node_dump,        LIST, \
	    0,              (FILTER, NODE),                      (TABLES, NODES | SERVICES | CHECKS)) \
	X( 35, SERVICE_DUMP,        "Catalog.ServiceDump",    READ,    catalog_read,       health_entry,     LIST, \
	    0,              (FILTER, SERVICE),                   (TABLES, NODES | SERVICES | CHECKS)) \
	X( 29, CATALOG_ADDRESS,     "Catalog.AddressOwner",   READ,    catalog_read,       address_owner,    LIST, \
	    OP_SHORT,       (FILTER, NODE),                      (TABLES, NODES | SERVICES)) \
	X( 30, HEALTH_NODE,         "Health.NodeChecks",      READ,    catalog_read,       check,            LIST, \
	    0,              (FILTER, NODE),                      (TABLES_IF, CHECKS, NodeMeta, NODES)) \
	X( 31, HEALTH_CHECKS,       "Health.ServiceChecks",   READ,    catalog_read,       check,            LIST, \
	    0,              (FILTER, SERVICE),                   (SERVICE, Name)) \
	X( 32, HEALTH_SERVICE,      "Health.ServiceNodes",    READ,    catalog_read,       health_entry,     LIST, \
	    0,              (FILTER, SERVICE),                   (SERVICE, Name)) \
	X( 33, HEALTH_STATE,        "Health.ChecksInState",   READ,    catalog_read,       check,            LIST, \
	    0,              (FILTER, NODE),                      (TABLES_IF, CHECKS, NodeMeta, NODES)) \
	X( 34, HEALTH_CONNECT,      "Health.ConnectNodes",    READ,    catalog_read,       health_entry,     LIST, \
	    0,              (FILTER, SERVICE),                   (CONNECT, Name)) \
	X( 40, RAFT_CONFIGURATION,  "Operator.RaftGetConfiguration", LEADER, empty,        raft_configuration, ONE, \
	    OP_REPEATABLE | OP_STALE_OK, (ALL, OPERATOR, READ),  (NOTHING)) \
	X( 41, RAFT_REMOVE,         "Operator.RaftRemovePeer", LEADER, raft_peer,          bool_reply,       ONE, \
	    OP_LOGGED,      (ALL, OPERATOR, WRITE),              (NOTHING)) \
	X( 42, RAFT_TRANSFER,       "Operator.RaftTransfer",  LEADER,  raft_peer,          bool_reply,       ONE, \
	    OP_LOGGED,      (ALL, OPERATOR, WRITE),              (NOTHING)) \
	X( 43, STATUS_LEADER,       "Status.Leader",          READ,    empty,              text_reply,       ONE, \
	    0,              (NONE, "clients need it to find a server"), (NOTHING)) \
	X( 44, STATUS_PEERS,        "Status.Peers",           READ,    empty,              text_list,        ONE, \
	    0,              (NONE, "clients need it to find a server"), (NOTHING)) \
	X( 45, CATALOG_DATACENTERS, "Catalog.ListDatacenters", VIEW,   empty,              text_list,        ONE, \
	    0,              (NONE, "the names of datacenters are no secret"), (NOTHING)) \
	X( 46, AUTOPILOT_READ,      "Operator.AutopilotGetConfiguration", READ, empty,     autopilot_config, ONE, \
	    0,              (ALL, OPERATOR, READ),               (TABLES, AUTOPILOT)) \
	X( 47, AUTOPILOT_SET,       "Operator.AutopilotSetConfiguration", WRITE, autopilot_set, bool_reply,  ONE, \
	    OP_LOGGED,      (ALL, OPERATOR, WRITE),              (NOTHING)) \
	X( 49, AUTOPILOT_HEALTH,    "Operator.ServerHealth",  LEADER,  empty,              autopilot_health, ONE, \
	    OP_REPEATABLE | OP_STALE_OK, (ALL, OPERATOR, READ),  (NOTHING)) \
	X( 48, EVENT_FIRE,          "Event.Fire",             GOSSIP,  event_fire,         user_event,       ONE, \
	    0,              (OBJECT, EVENT, WRITE, Name),        (NOTHING)) \
	X( 50, COORDINATE_UPDATE,   "Coordinate.Update",      LEADER,  coordinate_update,  bool_reply,       ONE, \
	    OP_REPEATABLE,  (OBJECT, NODE, WRITE, Node),         (NOTHING)) \
	X( 51, COORDINATE_NODES,    "Coordinate.ListNodes",   READ,    coordinate_read,    node_coordinate,  LIST, \
	    0,              (FILTER, NODE),                      (TABLES, COORDINATES)) \
	X( 52, COORDINATE_NODE,     "Coordinate.Node",        READ,    coordinate_read,    node_coordinate,  LIST, \
	    0,              (OBJECT, NODE, READ, Node),          (TABLES, COORDINATES)) \
	X( 53, COORDINATE_DATACENTERS, "Coordinate.ListDatacenters", VIEW, empty,          dc_coordinates,   LIST, \
	    0,              (NONE, "coordinates of servers, which are no secret"), (NOTHING)) \
	X( 55, KEYRING,             "Internal.KeyringOperation", GOSSIP_SERVER, keyring_op, keyring_pool,    LIST, \
	    OP_LOGGED,      (VERB, KEYRING, What),               (NOTHING)) \
	X( 80, TXN_READ,            "Txn.Read",               READ,    txn,                txn_reply,        ONE, \
	    0,              (NONE, "each of its operations is judged by what it names"), \
	    (TABLES, KV | NODES | SERVICES | CHECKS)) \
	X( 81, TXN_APPLY,           "Txn.Apply",              WRITE,   txn,                txn_reply,        ONE, \
	    0,              (NONE, "each of its operations is judged by what it names"), (NOTHING)) \
	X( 90, QUERY_CREATE,        "PreparedQuery.Create",   WRITE,   prepared_query,     text_reply,       ONE, \
	    OP_MAKES_ID,    (OBJECT, QUERY, WRITE, Name),        (NOTHING)) \
	X( 91, QUERY_UPDATE,        "PreparedQuery.Update",   WRITE,   prepared_query,     bool_reply,       ONE, \
	    0,              (OBJECT, QUERY, WRITE, Name),        (NOTHING)) \
	X( 92, QUERY_DELETE,        "PreparedQuery.Delete",   WRITE,   prepared_read,      bool_reply,       ONE, \
	    0,              (OBJECT, QUERY_ID, WRITE, ID),       (NOTHING)) \
	X( 93, QUERY_GET,           "PreparedQuery.Get",      READ,    prepared_read,      prepared_query,   LIST, \
	    OP_SHORT,       (FILTER, QUERY),                     (TABLES, QUERIES)) \
	X( 94, QUERY_LIST,          "PreparedQuery.List",     READ,    prepared_read,      prepared_query,   LIST, \
	    0,              (FILTER, QUERY),                     (TABLES, QUERIES)) \
	X( 95, QUERY_EXPLAIN,       "PreparedQuery.Explain",  READ,    prepared_ask,       prepared_query,   ONE, \
	    0,              (FILTER, QUERY),                     (TABLES, QUERIES)) \
	X( 96, QUERY_EXECUTE,       "PreparedQuery.Execute",  READ,    prepared_ask,       prepared_found,   ONE, \
	    0,              (NONE, "the query's token, or the one given, is judged by what it finds"), \
	    (TABLES, QUERIES | NODES | SERVICES | CHECKS)) \
	X( 97, QUERY_REMOTE,        "PreparedQuery.ExecuteRemote", READ, prepared_remote,  prepared_found,   ONE, \
	    0,              (NONE, "the query's token, or the one given, is judged by what it finds"), \
	    (TABLES, NODES | SERVICES | CHECKS)) \
	X(100, ACL_BOOTSTRAP,       "ACL.BootstrapTokens",    WRITE,   acl_bootstrap,      acl_token,        ONE, \
	    OP_MAKES_ID | OP_LOGGED, (NONE, "there is no token, or a file on the leader allows it"), (NOTHING)) \
	X(101, ACL_TOKEN_SET,       "ACL.TokenSet",           WRITE,   acl_token_set,      acl_token,        ONE, \
	    OP_MAKES_ID,    (ALL, ACL, WRITE),                   (NOTHING)) \
	X(102, ACL_TOKEN_CLONE,     "ACL.TokenClone",         WRITE,   acl_token_set,      acl_token,        ONE, \
	    OP_MAKES_ID,    (ALL, ACL, WRITE),                   (NOTHING)) \
	X(103, ACL_TOKEN_DELETE,    "ACL.TokenDelete",        WRITE,   acl_token_delete,   bool_reply,       ONE, \
	    0,              (ALL, ACL, WRITE),                   (NOTHING)) \
	X(104, ACL_TOKEN_GET,       "ACL.TokenRead",          READ,    acl_token_read,     acl_token,        LIST, \
	    0,              (ALL, ACL, READ),                    (TABLES, ACL_TOKENS | ACL_POLICIES | ACL_ROLES)) \
	X(105, ACL_TOKEN_SELF,      "ACL.TokenReadSelf",      READ,    acl_secret,         acl_token,        LIST, \
	    0,              (NONE, "whoever shows a secret may see what it is"), \
	    (TABLES, ACL_TOKENS | ACL_POLICIES | ACL_ROLES)) \
	X(106, ACL_TOKEN_LIST,      "ACL.TokenList",          READ,    acl_token_list,     acl_token_stub,   LIST, \
	    0,              (ALL, ACL, READ),                    (TABLES, ACL_TOKENS | ACL_POLICIES | ACL_ROLES)) \
	X(107, ACL_POLICY_SET,      "ACL.PolicySet",          WRITE,   acl_policy_set,     acl_policy,       ONE, \
	    OP_MAKES_ID,    (ALL, ACL, WRITE),                   (NOTHING)) \
	X(108, ACL_POLICY_DELETE,   "ACL.PolicyDelete",       WRITE,   acl_id,             bool_reply,       ONE, \
	    0,              (ALL, ACL, WRITE),                   (NOTHING)) \
	X(109, ACL_POLICY_GET,      "ACL.PolicyRead",         READ,    acl_read,           acl_policy,       LIST, \
	    0,              (ALL, ACL, READ),                    (TABLES, ACL_POLICIES)) \
	X(110, ACL_POLICY_LIST,     "ACL.PolicyList",         READ,    empty,              acl_policy_stub,  LIST, \
	    0,              (ALL, ACL, READ),                    (TABLES, ACL_POLICIES)) \
	X(111, ACL_ROLE_SET,        "ACL.RoleSet",            WRITE,   acl_role_set,       acl_role,         ONE, \
	    OP_MAKES_ID,    (ALL, ACL, WRITE),                   (NOTHING)) \
	X(112, ACL_ROLE_DELETE,     "ACL.RoleDelete",         WRITE,   acl_id,             bool_reply,       ONE, \
	    0,              (ALL, ACL, WRITE),                   (NOTHING)) \
	X(113, ACL_ROLE_GET,        "ACL.RoleRead",           READ,    acl_read,           acl_role,         LIST, \
	    0,              (ALL, ACL, READ),                    (TABLES, ACL_ROLES | ACL_POLICIES)) \
	X(114, ACL_ROLE_LIST,       "ACL.RoleList",           READ,    empty,              acl_role,         LIST, \
	    0,              (ALL, ACL, READ),                    (TABLES, ACL_ROLES | ACL_POLICIES)) \
	X(115, ACL_TRANSLATE,       "ACL.RulesTranslate",     READ,    acl_rules_text,     text_reply,       ONE, \
	    0,              (ALL, ACL, READ),                    (NOTHING)) \
	X(116, ACL_REPLICATION,     "ACL.ReplicationStatus",  READ,    empty,              acl_replication,  ONE, \
	    0,              (NONE, "how far behind a datacenter is, and nothing of what was granted"), (NOTHING)) \
	X(119, ACL_RESOLVE,         "ACL.Resolve",            READ,    acl_secret,         acl_resolved,     ONE, \
	    0,              (NONE, "whoever shows a secret may see what it is good for"), \
	    (TABLES, ACL_TOKENS | ACL_POLICIES | ACL_ROLES)) \
	X(120, ACL_METHOD_SET,      "ACL.AuthMethodSet",      WRITE,   acl_method_set,     acl_method,       ONE, \
	    0,              (ALL, ACL, WRITE),                   (NOTHING)) \
	X(121, ACL_METHOD_DELETE,   "ACL.AuthMethodDelete",   WRITE,   acl_name,           bool_reply,       ONE, \
	    0,              (ALL, ACL, WRITE),                   (NOTHING)) \
	X(122, ACL_METHOD_GET,      "ACL.AuthMethodRead",     READ,    acl_name,           acl_method,       LIST, \
	    0,              (ALL, ACL, READ),                    (TABLES, ACL_METHODS)) \
	X(123, ACL_METHOD_LIST,     "ACL.AuthMethodList",     READ,    empty,              acl_method_stub,  LIST, \
	    0,              (ALL, ACL, READ),                    (TABLES, ACL_METHODS)) \
	X(124, ACL_BINDING_SET,     "ACL.BindingRuleSet",     WRITE,   acl_binding_set,    acl_binding,      ONE, \
	    OP_MAKES_ID,    (ALL, ACL, WRITE),                   (NOTHING)) \
	X(125, ACL_BINDING_DELETE,  "ACL.BindingRuleDelete",  WRITE,   acl_id,             bool_reply,       ONE, \
	    0,              (ALL, ACL, WRITE),                   (NOTHING)) \
	X(126, ACL_BINDING_GET,     "ACL.BindingRuleRead",    READ,    acl_id,             acl_binding,      LIST, \
	    0,              (ALL, ACL, READ),                    (TABLES, ACL_BINDINGS)) \
	X(127, ACL_BINDING_LIST,    "ACL.BindingRuleList",    READ,    acl_binding_list,   acl_binding,      LIST, \
	    0,              (ALL, ACL, READ),                    (TABLES, ACL_BINDINGS)) \
	X(128, ACL_LOGIN,           "ACL.Login",              WRITE,   acl_login,          acl_token,        ONE, \
	    OP_MAKES_ID,    (NONE, "whoever shows a bearer token that a method takes"), (NOTHING)) \
	X(129, ACL_LOGOUT,          "ACL.Logout",             WRITE,   acl_logout,         bool_reply,       ONE, \
	    0,              (NONE, "whoever shows a secret may give it up"), (NOTHING)) \
	/* policies, roles and global tokens on their way from the primary datacenter to another one */ \
	X(132, ACL_REPL_LIST,       "ACL.ReplicationList",    READ,    acl_repl_ask,       acl_repl_page,    ONE, \
	    0,              (ALL, ACL, WRITE),                   (TABLES, ACL_TOKENS | ACL_POLICIES | ACL_ROLES)) \
	X(133, ACL_REPL_FETCH,      "ACL.ReplicationFetch",   READ,    acl_repl_ids,       acl_repl_records, ONE, \
	    0,              (ALL, ACL, WRITE),                   (TABLES, ACL_TOKENS | ACL_POLICIES | ACL_ROLES)) \
	X(134, ACL_REPL_DIFF,       "ACL.ReplicationCompare", READ,    acl_repl_compare,   acl_repl_diff,    ONE, \
	    0,              (ALL, ACL, WRITE),                   (NOTHING)) \
	X(135, ACL_REPL_DIFF_FIRST, "ACL.ReplicationCompareFirst", READ, acl_repl_compare, acl_repl_diff,    ONE, \
	    OP_OWN,         (NONE, "it names the token that was known first, or none was yet"), (NOTHING)) \
	X(136, ACL_REPL_APPLY,      "ACL.ReplicationApply",   WRITE,   acl_repl_apply,     bool_reply,       ONE, \
	    0,              (ALL, ACL, WRITE),                   (NOTHING)) \
	X(137, ACL_REPL_APPLY_FIRST, "ACL.ReplicationApplyFirst", WRITE, acl_repl_apply,   bool_reply,       ONE, \
	    OP_OWN,         (NONE, "it names the token that was known first, or none was yet"), (NOTHING)) \
	/* snapshots on their way to and from clients, chunk by chunk */ \
	X( 70, SNAPSHOT_SAVE,       "Snapshot.Save",          SERVER,  snapshot_ask,       snapshot_state,   ONE, \
	    0,              (ALL, STATE, READ),                  (NOTHING)) \
	X( 71, SNAPSHOT_READ,       "Snapshot.Read",          SERVER,  snapshot_ask,       snapshot_state,   ONE, \
	    0,              (ALL, STATE, READ),                  (NOTHING)) \
	X( 72, SNAPSHOT_END,        "Snapshot.End",           SERVER,  snapshot_ask,       snapshot_state,   ONE, \
	    0,              (ALL, STATE, READ),                  (NOTHING)) \
	X( 73, RESTORE_OPEN,        "Snapshot.RestoreOpen",   SERVER,  snapshot_ask,       snapshot_state,   ONE, \
	    OP_LOGGED,      (ALL, STATE, WRITE),                 (NOTHING)) \
	X( 74, RESTORE_WRITE,       "Snapshot.RestoreWrite",  SERVER,  snapshot_ask,       snapshot_state,   ONE, \
	    0,              (ALL, STATE, WRITE),                 (NOTHING)) \
	X( 75, RESTORE_APPLY,       "Snapshot.RestoreApply",  SERVER,  snapshot_ask,       snapshot_state,   ONE, \
	    0,              (ALL, STATE, WRITE),                 (NOTHING)) \
	X( 76, RESTORE_STATUS,      "Snapshot.RestoreStatus", SERVER,  snapshot_ask,       snapshot_state,   ONE, \
	    0,              (ALL, STATE, WRITE),                 (NOTHING)) \
	/* what the leader proposes itself */ \
	X( 60, TOMBSTONE_REAP,      "Internal.TombstoneReap", WRITE,   session_destroy,    bool_reply,       ONE, \
	    OP_INTERNAL,    (NONE, "proposed by the leader itself"), (NOTHING)) \
	X( 61, SERVER_TOMBSTONE,    "Internal.ServerTombstone", WRITE, raft_peer,          bool_reply,       ONE, \
	    OP_INTERNAL,    (NONE, "proposed by the leader itself"), (NOTHING)) \
	X( 62, COORDINATE_BATCH,    "Internal.CoordinateBatch", WRITE, coordinate_batch,   bool_reply,       ONE, \
	    OP_INTERNAL,    (NONE, "proposed by the leader itself"), (NOTHING)) \
	X( 63, RESTORE_BEGIN,       "Internal.RestoreBegin",  WRITE,   restore_step,       bool_reply,       ONE, \
	    OP_INTERNAL,    (NONE, "proposed by the leader itself"), (NOTHING)) \
	X( 64, RESTORE_CHUNK,       "Internal.RestoreChunk",  WRITE,   restore_step,       bool_reply,       ONE, \
	    OP_INTERNAL,    (NONE, "proposed by the leader itself"), (NOTHING)) \
	X( 65, RESTORE_COMMIT,      "Internal.RestoreCommit", WRITE,   restore_step,       bool_reply,       ONE, \
	    OP_INTERNAL,    (NONE, "proposed by the leader itself"), (NOTHING)) \
	X( 66, RESTORE_ABORT,       "Internal.RestoreAbort",  WRITE,   restore_step,       bool_reply,       ONE, \
	    OP_INTERNAL,    (NONE, "proposed by the leader itself"), (NOTHING)) \
	X( 67, KV_TREE,             "Internal.KVSDeleteTree", WRITE,   kv_tree,            bool_reply,       ONE, \
	    OP_INTERNAL,    (NONE, "the leader's for a KVS.Apply"), (NOTHING)) \
	X( 69, CATALOG_REGISTER_PROXY, "Internal.RegisterProxy", WRITE, catalog_register,  bool_reply,       ONE, \
	    OP_INTERNAL,    (NONE, "the leader's for a Catalog.Register"), (NOTHING)) \
	X(117, ACL_ENABLE,          "Internal.ACLEnable",     WRITE,   acl_enable,         bool_reply,       ONE, \
	    OP_INTERNAL,    (NONE, "proposed by the leader itself"), (NOTHING)) \
	X(118, ACL_REAP,            "Internal.ACLTokenReap",  WRITE,   acl_reap,           bool_reply,       ONE, \
	    OP_INTERNAL,    (NONE, "proposed by the leader itself"), (NOTHING)) \
	X(130, NODE_GUARD,          "Internal.NodeGuard",     WRITE,   empty,              bool_reply,       ONE, \
	    OP_INTERNAL,    (NONE, "proposed by the leader itself"), (NOTHING))

enum op_code {
#define X(code, name, ...) OP_##name = code,
	OPS(X)
#undef X
};

struct op {
	uint16_t code;
	const char *name;		/* "KVS.Get": logs, metrics, error texts */
	enum op_kind kind;
	const struct schema *args, *answer;
	enum op_answers answers;
	unsigned traits;		/* of enum op_trait, with those of its kind */
	struct op_access access;
};

extern const struct op ops_all[];	/* in the order of the rows */
extern const unsigned ops_count;
/* NULL for an unknown code. */
const struct op *op_find(uint16_t code);

/* For tables made of rows: the parts of a column in brackets, without them. */
#define OP_PARTS(...) __VA_ARGS__

/*
 * Writes args again with the fields alone that this version's schema has, and false without writing when they are no
 * such record.  For those that are kept for long.
 */
bool op_trim(const struct op *op, struct span args, struct arena *a, struct buf *out);

#define OP_UNKNOWN_TEXT "unknown operation %u (is this server's version older?)"
/* TV_ECONFLICT, nothing was done: with these words before the name of the datacenter where it is to be asked for. */
#define ACL_PRIMARY_TEXT "policies, roles and global tokens are written in the primary datacenter, which is "
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
void op_reply_begin(struct buf *b, const struct op_reply *a);	/* the same up to the value, which follows */
/*
 * The value is whole, unless it is long (above 64 KB, maybe a million records, which to walk over takes tens of
 * milliseconds): then it is the rest of the body, and its reader finds out where it ends.
 */
enum tv_err op_reply_read(struct span body, struct op_reply *a);

#endif
