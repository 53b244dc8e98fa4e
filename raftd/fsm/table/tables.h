/*
 * The tables of the state, one row each.  From a row follow its letter (enum tbl), its index (enum fsm_index), its count
 * (enum fsm_tally), what its records must look like (record.c), its name in `info` and in `clusterctl snapshot inspect`,
 * and its row in doc/storage.md, which check_fsm_tables compares with this list.  Rows may stand in any order: files name
 * tables by their letters.
 *
 *	T(name, letter, title, shown, names, rest, key, value, traits)
 *
 *	name	those of access control begin with ACL: they stay when a restore brings no access control
 *	letter	first byte of its keys.  It is in every state, snapshot and archive: never changed, never used again
 *	title	in the document, and in `info` if counted
 *	shown	by `clusterctl snapshot inspect`: several are added up under one name
 *	names	escaped parts that a key begins with (tkey_name())
 *	rest	of the key, behind them: NONE, BYTES, TIMED (u64 and bytes), ID (a UUID)
 *	key	both in words, for the document
 *	value	STORED(of this schema), RAW(at least so many bytes, in words), or OPAQUE(in words): not for record_check()
 *	traits	INDEX(name): a change raises an index (http-api: index rules), which may be waited for
 *		TALLY(name): its records are counted
 *		OWN(): it belongs to this cluster alone, and goes into no archive
 */
#ifndef TV_RAFTD_FSM_TABLE_TABLES_H
#define TV_RAFTD_FSM_TABLE_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#define FSM_TABLES(T) \
	T(META, 'A', "meta", "Internal", 0, BYTES, "`state`", OPAQUE("below")) \
	T(KV, 'K', "kv", "KVS", 0, BYTES, "key", STORED(kv_entry), INDEX(KV) TALLY(KV)) \
	T(HOLD, 'L', "held keys", "Internal", 1, BYTES, "name(session) KV key", RAW(0, "")) \
	/* Its index: the highest of those that are gone.  A prefix with keys is not below it (S104). */ \
	T(TOMBSTONE, 'T', "tombstones", "Tombstones", 0, BYTES, "KV key", RAW(16, "u64 time, u64 index"), \
	    INDEX(REAPED) TALLY(TOMBSTONES)) \
	T(TOMBSTONE_TIME, 'U', "tombstones by time", "Internal", 0, TIMED, "u64 time, KV key", RAW(0, "")) \
	T(LOCK_DELAY, 'D', "lock delays", "Lock delays", 0, BYTES, "KV key", RAW(16, "u64 until, u64 index")) \
	T(LOCK_DELAY_TIME, 'E', "lock delays by time", "Internal", 0, TIMED, "u64 until, KV key", RAW(0, "")) \
	T(NODE, 'N', "nodes", "Nodes", 1, NONE, "name(node)", STORED(node), INDEX(NODES) TALLY(NODES)) \
	T(NODE_ID, 'I', "node ids", "Internal", 1, NONE, "name(id)", RAW(0, "node name")) \
	T(SERVICE, 'S', "services", "Services", 2, NONE, "name(node) name(service id)", STORED(service), \
	    INDEX(SERVICES) TALLY(SERVICES)) \
	T(INSTANCE, 'P', "instances of a service", "Internal", 3, NONE, \
	    "name(service) name(node) name(service id)", RAW(0, "")) \
	/* Its index: when the last instance of any service went. */ \
	T(SERVICE_INDEX, 'V', "service indexes", "Internal", 1, NONE, "name(service)", \
	    RAW(16, "u64 index, u64 instances"), INDEX(EXTINCTION)) \
	/* Both since version 3 of the state machine. */ \
	T(CONNECT, 'J', "proxies of a service", "Internal", 3, NONE, \
	    "name(destination) name(node) name(service id)", RAW(0, "")) \
	T(CONNECT_INDEX, 'M', "indexes of proxies", "Internal", 1, NONE, "name(destination)", \
	    RAW(16, "u64 index, u64 instances")) \
	T(CHECK, 'C', "checks", "Checks", 2, NONE, "name(node) name(check id)", STORED(check), \
	    INDEX(CHECKS) TALLY(CHECKS)) \
	T(SESSION, 'X', "sessions", "Sessions", 0, ID, "id", STORED(session), INDEX(SESSIONS) TALLY(SESSIONS)) \
	T(SESSION_NODE, 'Y', "sessions of a node", "Internal", 1, ID, "name(node) id", RAW(0, "")) \
	T(SESSION_CHECK, 'Z', "sessions of a check", "Internal", 2, ID, "name(node) name(check id) id", RAW(0, "")) \
	T(COORDINATE, 'G', "coordinates", "Coordinates", 2, NONE, "name(node) name(segment)", \
	    STORED(node_coordinate), INDEX(COORDINATES) TALLY(COORDINATES)) \
	/* These three since version 5. */ \
	T(QUERY, 'Q', "prepared_queries", "Prepared queries", 0, ID, "id", STORED(prepared_query), \
	    INDEX(QUERIES) TALLY(QUERIES)) \
	T(QUERY_NAME, 'B', "names of prepared queries", "Internal", 1, NONE, "name(query)", \
	    RAW(37, "u8 template, id")) \
	T(QUERY_SESSION, 'H', "prepared queries of a session", "Internal", 1, ID, "name(session) id", RAW(0, "")) \
	/* These eight since version 6.  The first holds the key of the third, so it is in archives. */ \
	T(ACL, 'a', "access control", "Internal", 0, NONE, "", STORED(acl_state)) \
	T(ACL_TOKEN, 't', "acl_tokens", "ACL tokens", 0, ID, "accessor id", STORED(acl_token), \
	    INDEX(ACL_TOKENS) TALLY(ACL_TOKENS)) \
	T(ACL_SECRET, 's', "secrets of tokens", "Internal", 0, BYTES, "hash of the secret", RAW(36, "accessor id")) \
	T(ACL_EXPIRY, 'e', "tokens by expiration", "Internal", 0, TIMED, "u64 time, accessor id", RAW(0, "")) \
	T(ACL_POLICY, 'p', "acl_policies", "ACL policies", 0, ID, "id", STORED(acl_policy), \
	    INDEX(ACL_POLICIES) TALLY(ACL_POLICIES)) \
	T(ACL_POLICY_NAME, 'n', "names of policies", "Internal", 1, NONE, "name(policy)", RAW(36, "id")) \
	T(ACL_ROLE, 'r', "acl_roles", "ACL roles", 0, ID, "id", STORED(acl_role), INDEX(ACL_ROLES) TALLY(ACL_ROLES)) \
	T(ACL_ROLE_NAME, 'o', "names of roles", "Internal", 1, NONE, "name(role)", RAW(36, "id")) \
	/* These four since version 7. */ \
	T(ACL_METHOD, 'm', "acl_auth_methods", "ACL auth methods", 1, NONE, "name(method)", STORED(acl_method), \
	    INDEX(ACL_METHODS) TALLY(ACL_METHODS)) \
	T(ACL_BINDING, 'b', "acl_binding_rules", "ACL binding rules", 0, ID, "id", STORED(acl_binding), \
	    INDEX(ACL_BINDINGS) TALLY(ACL_BINDINGS)) \
	T(ACL_METHOD_BINDING, 'c', "binding rules of a method", "Internal", 1, ID, "name(method) id", RAW(0, "")) \
	T(ACL_METHOD_TOKEN, 'u', "tokens of a method", "Internal", 1, ID, "name(method) accessor id", RAW(0, "")) \
	T(AUTOPILOT, 'O', "autopilot's configuration", "Autopilot", 0, NONE, "", STORED(autopilot_config), \
	    INDEX(AUTOPILOT)) \
	T(SERVER, 'R', "servers removed for good", "Internal", 1, NONE, "name(id)", RAW(8, "u64 index"), OWN()) \
	T(STAGE, 'W', "a restore on its way", "Internal", 0, BYTES, "u8 part, u64 offset of a chunk", \
	    OPAQUE("below"), OWN())

/* First byte of a key. */
enum tbl {
#define ROW(name, letter, ...) TBL_##name = letter,
	FSM_TABLES(ROW)
#undef ROW
};

#define ROW(name, letter, title, shown, names, rest, key, value, ...) __VA_ARGS__
#define OWN()

/* Tables that have an index of their own. */
enum fsm_index {
#define INDEX(name) FX_##name,
#define TALLY(name)
	FSM_TABLES(ROW)
#undef INDEX
#undef TALLY
	FX_COUNT
};

/* Tables whose records are counted. */
enum fsm_tally {
#define INDEX(name)
#define TALLY(name) FT_##name,
	FSM_TABLES(ROW)
#undef INDEX
#undef TALLY
	FT_COUNT
};

#undef ROW
#undef OWN

/* A row as data. */
struct fsm_table {
	enum tbl letter;
	const char *name, *title, *shown;
	uint8_t names;
	enum { REST_NONE, REST_BYTES, REST_TIMED, REST_ID } rest;
	const struct schema *schema;	/* of the value; NULL: raw bytes, or opaque */
	uint32_t bytes;			/* that a raw value has at least */
	bool opaque, own, indexed, counted;
	enum fsm_index index;		/* if indexed */
	enum fsm_tally tally;		/* if counted */
	const char *key, *value;	/* in words */
};
extern const struct fsm_table fsm_tables[];
extern const unsigned fsm_table_count;
/* NULL: there is none. */
const struct fsm_table *fsm_table_find(uint8_t letter);
/* Is it one of access control? */
bool fsm_table_is_acl(const struct fsm_table *t);

#endif
