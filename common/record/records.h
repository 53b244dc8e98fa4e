/*
 * The records of the state machine and of operations, as C structs; their schemas are in records.c.
 * Field names are the API's.  Times and lengths of time are nanoseconds unless said otherwise.
 * Spans are borrowed (from an arena or an input).
 */
#ifndef TV_COMMON_RECORD_RECORDS_H
#define TV_COMMON_RECORD_RECORDS_H

#include "common/record/schema.h"

/* -- key/value -- */
struct kv_entry {
	uint64_t LockIndex;
	struct span Key;
	uint64_t Flags;
	struct span Value;
	struct span Session;		/* omitted when not locked */
	uint64_t CreateIndex, ModifyIndex;
};
extern const struct schema kv_entry_schema;

enum kv_verb {
	KV_SET, KV_CAS, KV_LOCK, KV_UNLOCK, KV_DELETE, KV_DELETE_CAS,
	KV_DELETE_TREE,			/* what clients ask for; in the log all of the tree at once */
	KV_DELETE_PART,			/* in the log only: some of it, see raftd/serve/op_tree.c; answer: kv_part */
};
struct kv_apply {			/* OP_KV_APPLY; answer: bool_reply */
	uint64_t Verb;			/* enum kv_verb */
	struct span Key;
	uint64_t Flags;
	struct span Value;
	uint64_t ModifyIndex;		/* for the cas verbs */
	struct span Session;		/* for lock and unlock */
	int64_t Now;			/* wall clock of the proposer (the leader's raftd sets it): lock delays */
};
extern const struct schema kv_apply_schema;
/*
 * KV_DELETE_PART: Value is the key to go on with ("": the first one), ModifyIndex that of the first part (0: this is
 * it), after which keys stay, Flags how much work it may be.
 */
struct kv_part {
	struct span Next;		/* Value of the next part; "" when none is left */
	uint64_t Newest;		/* its ModifyIndex */
};
extern const struct schema kv_part_schema;

struct kv_read {			/* OP_KV_GET, OP_KV_LIST: Key; OP_KV_KEYS: also Separator */
	struct span Key;
	struct span Separator;
};
extern const struct schema kv_read_schema;

/* -- sessions -- */
struct service_check_ref { struct span ID, Namespace; };
struct session {
	struct span ID, Name, Node;
	int64_t LockDelay;
	struct span Behavior;		/* "release" or "delete" */
	struct span TTL;		/* text as given, "" for none */
	struct span_list NodeChecks;
	struct obj_list ServiceChecks;	/* of service_check_ref; null unless given */
	struct span_list Checks;	/* deprecated; shown only when kept */
	uint64_t CreateIndex, ModifyIndex;
};
extern const struct schema session_schema;

struct session_destroy { struct span ID; int64_t Now; };
extern const struct schema session_destroy_schema;
struct session_read { struct span ID; struct span Node; };	/* ID for info and renew, Node for node */
extern const struct schema session_read_schema;

/* -- catalog -- */
struct node {
	struct span ID, Node, Address, Datacenter;
	struct span_map TaggedAddresses, Meta;
	uint64_t CreateIndex, ModifyIndex;
};
extern const struct schema node_schema;

struct service_address { struct span Name; struct span Address; uint64_t Port; };
struct weights { int64_t Passing, Warning; };
struct service {			/* stored by node and ID */
	struct span ID, Service;
	struct span_list Tags;
	struct span Address;
	struct obj_list TaggedAddresses;	/* of service_address, ST_OBJMAP */
	struct span_map Meta;
	uint64_t Port;
	struct span SocketPath;
	struct weights Weights;
	bool EnableTagOverride;
	struct span Kind;
	uint64_t CreateIndex, ModifyIndex;
	/* JSON also shows the constant objects Proxy {"Mode":"","MeshGateway":{},"Expose":{}} and Connect {} */
};
extern const struct schema service_schema;

struct check_definition {
	struct span HTTP, Method, Body, TCP;
	int64_t Interval, Timeout, DeregisterCriticalServiceAfter;
	bool TLSSkipVerify;
	struct span Header;		/* JSON text: object of lists of text */
	struct span TLSServerName;
};
struct check {
	struct span Node, CheckID, Name, Status, Notes, Output, ServiceID, ServiceName;
	struct span_list ServiceTags;
	struct span Type;
	uint64_t ExposedPort;
	struct check_definition Definition;
	uint64_t CreateIndex, ModifyIndex;
};
extern const struct schema check_schema;

struct service_instance {		/* flattened answer of catalog/service/NAME */
	struct span ID, Node, Address, Datacenter;
	struct span_map TaggedAddresses, NodeMeta;
	struct span ServiceKind, ServiceID, ServiceName;
	struct span_list ServiceTags;
	struct span ServiceAddress;
	struct obj_list ServiceTaggedAddresses;
	struct weights ServiceWeights;
	struct span_map ServiceMeta;
	uint64_t ServicePort;
	struct span ServiceSocketPath;
	bool ServiceEnableTagOverride;
	uint64_t CreateIndex, ModifyIndex;
};
extern const struct schema service_instance_schema;

struct health_entry { struct node Node; struct service Service; struct obj_list Checks; };
extern const struct schema health_entry_schema;

struct catalog_register {
	struct span ID, Node, Address, Datacenter;
	struct span_map TaggedAddresses, NodeMeta;
	bool SkipNodeUpdate;
	bool has_service; struct service Service;
	bool has_check; struct check Check;
	struct obj_list Checks;
	int64_t Now;			/* wall clock of the proposer: lock delays of sessions that a check ends */
};
extern const struct schema catalog_register_schema;

struct catalog_deregister { struct span Node, Datacenter, ServiceID, CheckID; int64_t Now; };
extern const struct schema catalog_deregister_schema;

struct catalog_read {			/* all catalog and health reads; unused fields stay empty */
	struct span Name;		/* node, service or state */
	struct span_list Tags;
	struct span_map NodeMeta;
	bool Passing;
	struct span Near;		/* sort by the estimated round trip to this node; empty: as they are */
	struct span NearAddress;	/* the same, to the node of this address */
};
extern const struct schema catalog_read_schema;

struct service_tags { struct span Name; struct span_list Tags; };	/* element of OP_CATALOG_SERVICES' answer */
extern const struct schema service_tags_schema;
struct node_services { bool found; struct node Node; struct obj_list Services; };
extern const struct schema node_services_schema;
extern const struct schema node_service_map_schema;	/* the same; JSON shows Services by ID, as catalog/node does */

/* -- coordinates -- */
struct coordinate_rec {			/* as the API shows it; seconds.  common/record/coordinate.h computes with it */
	struct f64_list Vec;
	double Error, Adjustment, Height;
};
extern const struct schema coordinate_rec_schema;
struct node_coordinate {		/* stored by node and segment */
	struct span Node, Segment;
	struct coordinate_rec Coord;
};
extern const struct schema node_coordinate_schema;
struct coordinate_update {		/* OP_COORDINATE_UPDATE; answer: bool_reply, whether the node is known */
	struct span Node, Segment;
	struct coordinate_rec Coord;
	struct span Datacenter;
};
extern const struct schema coordinate_update_schema;
struct coordinate_batch { struct obj_list Updates; };	/* of node_coordinate */
extern const struct schema coordinate_batch_schema;
struct coordinate_read {
	struct span Node;
	struct span Segment;
	bool BySegment;			/* only coordinates of Segment, which may be "" */
};
extern const struct schema coordinate_read_schema;
struct dc_coordinates {			/* element of OP_COORDINATE_DATACENTERS' answer */
	struct span Datacenter, AreaID;
	struct obj_list Coordinates;	/* of node_coordinate */
};
extern const struct schema dc_coordinates_schema;

/* -- raft -- */
/* State: "failed", "left", "unreachable" or "removed", as the server that answers sees it; "" if all is well. */
struct raft_server {
	struct span ID, Node, Address;
	bool Leader;
	struct span ProtocolVersion;
	bool Voter;
	struct span State;
};
extern const struct schema raft_server_schema;
struct raft_configuration { struct obj_list Servers; uint64_t Index; };
extern const struct schema raft_configuration_schema;
struct raft_peer { struct span ID, Address; bool Force; };	/* remove a peer, transfer leadership to */
extern const struct schema raft_peer_schema;

/* -- autopilot -- */
struct autopilot_config {		/* one record of the state; durations in ns */
	bool CleanupDeadServers;
	int64_t LastContactThreshold;	/* 0: not looked at */
	uint64_t MaxTrailingLogs;	/* 0: not looked at */
	uint64_t MinQuorum;		/* voters that cleanup leaves in any case; 0: 3 */
	int64_t ServerStabilizationTime;
	struct span RedundancyZoneTag;	/* these three are kept and have no effect */
	bool DisableUpgradeMigration;
	struct span UpgradeVersionTag;
	uint64_t CreateIndex, ModifyIndex;
};
extern const struct schema autopilot_config_schema;
struct autopilot_set {			/* OP_AUTOPILOT_SET; answer: bool_reply */
	struct autopilot_config Config;
	bool Cas;			/* only if ModifyIndex is still Index */
	uint64_t Index;
	bool Initial;			/* only if there is none */
};
extern const struct schema autopilot_set_schema;
struct server_health {
	struct span ID, Name, Address, SerfStatus, Version;
	bool Leader;
	int64_t LastContact;		/* ns; -1: never, or unknown (without a leader) */
	uint64_t LastTerm, LastIndex;
	bool Healthy, Voter;
	struct span StableSince;	/* RFC 3339 */
	struct span Reason;		/* why it is not healthy; "" when it is, or the leader is of an older version */
};
extern const struct schema server_health_schema;
/* Reason: why there is no leader, or that it was not the leader who looked; "" in a leader's answer. */
struct autopilot_health { bool Healthy; uint64_t FailureTolerance; struct obj_list Servers; struct span Reason; };
extern const struct schema autopilot_health_schema;

/* -- recovery of a cluster that lost its majority -- */
struct raft_survivor {			/* a server of the configuration, as the asked one sees it */
	struct span ID, Node, Address, SerfStatus;
	bool Voter, Self;
	bool Answered;			/* over a proven link, just now: the rest is known */
	uint64_t LastIndex, LastTerm;
};
extern const struct schema raft_survivor_schema;
struct raft_recovery {			/* answer of MSG_RAFT_RECOVER */
	struct span Node, ID, Address, ClusterID;
	uint64_t Generation;		/* at the time of the question */
	uint64_t LastIndex, LastTerm, CommitIndex;	/* here */
	uint64_t LeaderLastIndex;	/* the last leader's log as last heard of, by anybody that answered; 0: never */
	int64_t LeaderContact;		/* ns ago; -1: not since the start */
	uint64_t MayBeLost;		/* entries that the last leader is known to have had and this server has not */
	uint64_t Voters, VotersAnswering;	/* this one included */
	struct span Best;		/* name of the server that should be recovered instead; "" this one */
	struct obj_list Servers;	/* of raft_survivor */
	bool Done;			/* false: dry run, or refused */
	struct span Refused;		/* why it cannot be done; "" it can */
};
extern const struct schema raft_recovery_schema;

/* -- keys of gossip -- */
enum keyring_what { KEYRING_LIST, KEYRING_INSTALL, KEYRING_USE, KEYRING_REMOVE };
struct keyring_op {			/* OP_KEYRING: at the LAN pool of its datacenter */
	uint64_t What;			/* enum keyring_what */
	struct span Key;
	uint64_t RelayFactor;
	bool WAN;			/* and at the WAN pool */
};
extern const struct schema keyring_op_schema;
struct key_count { struct span Key; uint64_t Count; };		/* base64 */
extern const struct schema key_count_schema;
struct key_message { struct span Node, Text; };
extern const struct schema key_message_schema;
struct keyring_pool {			/* element of OP_KEYRING's answer */
	bool WAN;
	struct span Datacenter;
	uint64_t NumNodes, NumResponses, NumErrors;
	struct obj_list Keys, PrimaryKeys;	/* of key_count */
	struct obj_list Messages;		/* of key_message */
	struct span Error;		/* the pool was not asked, or could not be */
};
extern const struct schema keyring_pool_schema;

/* -- events -- */
struct user_event {
	struct span ID, Name, Payload, NodeFilter, ServiceFilter, TagFilter;	/* filters: patterns, "" for none */
	uint64_t Version;		/* 1 */
	uint64_t LTime;			/* 0 in the answer of OP_EVENT_FIRE */
};
extern const struct schema user_event_schema;
struct event_fire {
	struct span Name, Payload, NodeFilter, ServiceFilter, TagFilter;
	bool Coalesce;			/* receivers may tell only the newest of this name */
};
extern const struct schema event_fire_schema;

/* -- snapshots -- */
struct snapshot_ask {			/* all of SNAPSHOT_*, RESTORE_OPEN ... RESTORE_STATUS */
	struct span Server;		/* node id of who does it; "" at the beginning.  First: routing reads it */
	struct span ID;			/* of the save or restore; "" at the beginning, or for the newest restore */
	uint64_t Offset;		/* of the archive's bytes; RESTORE_APPLY: their number */
	struct span Data;		/* RESTORE_WRITE */
};
extern const struct schema snapshot_ask_schema;
enum snapshot_phase {
	SNAPSHOT_PREPARING, SNAPSHOT_READY,
	RESTORE_RECEIVING, RESTORE_CHECKING, RESTORE_STAGING, RESTORE_LOADING, RESTORE_COMMITTING,
	RESTORE_DONE, RESTORE_FAILED, RESTORE_UNKNOWN, RESTORE_NONE,
};
struct snapshot_state {			/* their answer */
	struct span Server, ID;
	uint64_t Phase;			/* enum snapshot_phase */
	uint64_t Done, Total;		/* bytes of this phase; Total 0: not known */
	uint64_t Index;			/* of the state that was saved, or since the restore */
	struct span Data;		/* SNAPSHOT_READ */
	struct span Text;		/* why it failed */
};
extern const struct schema snapshot_state_schema;
struct restore_step {			/* OP_RESTORE_BEGIN ... OP_RESTORE_ABORT, in the log */
	struct span ID;			/* UUID */
	uint64_t Bytes;			/* of the whole archive (BEGIN) */
	struct span Checksum;		/* BLAKE2b, 32 bytes, of the whole archive (BEGIN) */
	uint64_t Offset;		/* of Data (CHUNK) */
	struct span Data;
};
extern const struct schema restore_step_schema;

/* -- small ones -- */
struct empty_rec { uint64_t unused; };	/* no fields */
extern const struct schema empty_schema;
struct bool_reply { bool Value; };
extern const struct schema bool_reply_schema;
struct text_reply { struct span Value; };
extern const struct schema text_reply_schema;
struct text_list { struct span_list Values; };
extern const struct schema text_list_schema;

#endif
