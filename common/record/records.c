/*
 * Schemas of the records.  Fields may be appended, never inserted or removed: stored records and
 * messages between versions depend on the order.
 */
#include "common/record/records.h"

#define F(type_, t_, f_)		{ .name = #f_, .type = (t_), .offset = offsetof(struct type_, f_) }
#define FX(type_, t_, f_, flags_)	{ .name = #f_, .type = (t_), .offset = offsetof(struct type_, f_), \
					  .flags = (flags_) }
#define FO(type_, t_, f_, flags_, sub_)	{ .name = #f_, .type = (t_), .offset = offsetof(struct type_, f_), \
					  .flags = (flags_), .sub = &(sub_) }
/* An object that may be absent. */
#define FOPT(type_, f_, flags_, sub_, has_) { .name = #f_, .type = ST_OBJ, .offset = offsetof(struct type_, f_), \
					  .flags = (flags_), .sub = &(sub_), .has = offsetof(struct type_, has_) + 1 }
/* Accepted from clients, not kept; shown as text_ when that is not NULL. */
#define FCONST(name_, text_)		{ .name = (name_), .type = ST_CONST, .text = (text_) }
#define SCHEMA(type_, fields_)		const struct schema type_##_schema = { #type_, fields_, \
					  sizeof(fields_) / sizeof(fields_[0]), sizeof(struct type_) }

/* -- key/value -- */
static const struct schema_field kv_entry_fields[] = {
	F(kv_entry, ST_U64, LockIndex),
	F(kv_entry, ST_STR, Key),
	F(kv_entry, ST_U64, Flags),
	F(kv_entry, ST_BIN, Value),
	FX(kv_entry, ST_STR, Session, SF_OMITEMPTY),
	FX(kv_entry, ST_U64, CreateIndex, SF_READONLY),
	FX(kv_entry, ST_U64, ModifyIndex, SF_READONLY),
};
SCHEMA(kv_entry, kv_entry_fields);

static const struct schema_field kv_apply_fields[] = {
	F(kv_apply, ST_U64, Verb),
	F(kv_apply, ST_STR, Key),
	F(kv_apply, ST_U64, Flags),
	F(kv_apply, ST_BIN, Value),
	F(kv_apply, ST_U64, ModifyIndex),
	F(kv_apply, ST_STR, Session),
	F(kv_apply, ST_I64, Now),
};
SCHEMA(kv_apply, kv_apply_fields);

static const struct schema_field kv_part_fields[] = {
	F(kv_part, ST_BIN, Next),
	F(kv_part, ST_U64, Newest),
};
SCHEMA(kv_part, kv_part_fields);

static const struct schema_field kv_read_fields[] = {
	F(kv_read, ST_STR, Key),
	F(kv_read, ST_STR, Separator),
};
SCHEMA(kv_read, kv_read_fields);

/* -- sessions -- */
static const struct schema_field service_check_ref_fields[] = {
	F(service_check_ref, ST_STR, ID),
	F(service_check_ref, ST_STR, Namespace),
};
static SCHEMA(service_check_ref, service_check_ref_fields);

static const struct schema_field session_fields[] = {
	F(session, ST_STR, ID),
	F(session, ST_STR, Name),
	F(session, ST_STR, Node),
	FX(session, ST_DURATION, LockDelay, SF_LOCKDELAY),
	F(session, ST_STR, Behavior),
	F(session, ST_STR, TTL),
	F(session, ST_STRS, NodeChecks),
	FO(session, ST_OBJS, ServiceChecks, SF_NULLEMPTY, service_check_ref_schema),
	FX(session, ST_STRS, Checks, SF_OMITEMPTY),
	FX(session, ST_U64, CreateIndex, SF_READONLY),
	FX(session, ST_U64, ModifyIndex, SF_READONLY),
};
SCHEMA(session, session_fields);

static const struct schema_field session_destroy_fields[] = {
	F(session_destroy, ST_STR, ID),
	F(session_destroy, ST_I64, Now),
};
SCHEMA(session_destroy, session_destroy_fields);

static const struct schema_field session_read_fields[] = {
	F(session_read, ST_STR, ID),
	F(session_read, ST_STR, Node),
};
SCHEMA(session_read, session_read_fields);

/* -- catalog -- */
static const struct schema_field node_fields[] = {
	F(node, ST_STR, ID),
	F(node, ST_STR, Node),
	F(node, ST_STR, Address),
	F(node, ST_STR, Datacenter),
	FX(node, ST_MAP, TaggedAddresses, SF_NULLEMPTY),
	FX(node, ST_MAP, Meta, SF_NULLEMPTY),
	FX(node, ST_U64, CreateIndex, SF_READONLY),
	FX(node, ST_U64, ModifyIndex, SF_READONLY),
};
SCHEMA(node, node_fields);

static const struct schema_field service_address_fields[] = {
	F(service_address, ST_STR, Name),
	F(service_address, ST_STR, Address),
	F(service_address, ST_U64, Port),
};
static SCHEMA(service_address, service_address_fields);

static const struct schema_field weights_fields[] = {
	F(weights, ST_I64, Passing),
	F(weights, ST_I64, Warning),
};
static SCHEMA(weights, weights_fields);

#define PROXY_TEXT "{\"Mode\":\"\",\"MeshGateway\":{},\"Expose\":{}}"	/* of a service without a proxy */

static const struct schema_field service_fields[] = {
	F(service, ST_STR, ID),
	F(service, ST_STR, Service),
	F(service, ST_STRS, Tags),
	F(service, ST_STR, Address),
	FO(service, ST_OBJMAP, TaggedAddresses, SF_OMITEMPTY, service_address_schema),
	FX(service, ST_MAP, Meta, SF_NULLEMPTY),
	FX(service, ST_U64, Port, SF_OMITEMPTY),
	F(service, ST_STR, SocketPath),
	FO(service, ST_OBJ, Weights, 0, weights_schema),
	F(service, ST_BOOL, EnableTagOverride),
	FX(service, ST_STR, Kind, SF_OMITEMPTY),
	FCONST("Proxy", PROXY_TEXT),
	FCONST("Connect", "{}"),
	FX(service, ST_U64, CreateIndex, SF_READONLY),
	FX(service, ST_U64, ModifyIndex, SF_READONLY),
};
SCHEMA(service, service_fields);

static const struct schema_field check_definition_fields[] = {
	FX(check_definition, ST_STR, HTTP, SF_OMITEMPTY),
	FX(check_definition, ST_STR, Method, SF_OMITEMPTY),
	FX(check_definition, ST_STR, Body, SF_OMITEMPTY),
	FX(check_definition, ST_STR, TCP, SF_OMITEMPTY),
	FX(check_definition, ST_DURATION, Interval, SF_OMITEMPTY | SF_DURTEXT),
	FX(check_definition, ST_DURATION, Timeout, SF_OMITEMPTY | SF_DURTEXT),
	FX(check_definition, ST_DURATION, DeregisterCriticalServiceAfter, SF_OMITEMPTY | SF_DURTEXT),
	FX(check_definition, ST_BOOL, TLSSkipVerify, SF_OMITEMPTY),
	FX(check_definition, ST_JSON, Header, SF_OMITEMPTY),
	FX(check_definition, ST_STR, TLSServerName, SF_OMITEMPTY),
};
static SCHEMA(check_definition, check_definition_fields);

static const struct schema_field check_fields[] = {
	F(check, ST_STR, Node),
	F(check, ST_STR, CheckID),
	F(check, ST_STR, Name),
	F(check, ST_STR, Status),
	F(check, ST_STR, Notes),
	F(check, ST_STR, Output),
	F(check, ST_STR, ServiceID),
	F(check, ST_STR, ServiceName),
	F(check, ST_STRS, ServiceTags),
	F(check, ST_STR, Type),
	F(check, ST_U64, ExposedPort),
	FO(check, ST_OBJ, Definition, 0, check_definition_schema),
	FX(check, ST_U64, CreateIndex, SF_READONLY),
	FX(check, ST_U64, ModifyIndex, SF_READONLY),
};
SCHEMA(check, check_fields);

static const struct schema_field service_instance_fields[] = {
	F(service_instance, ST_STR, ID),
	F(service_instance, ST_STR, Node),
	F(service_instance, ST_STR, Address),
	F(service_instance, ST_STR, Datacenter),
	FX(service_instance, ST_MAP, TaggedAddresses, SF_NULLEMPTY),
	FX(service_instance, ST_MAP, NodeMeta, SF_NULLEMPTY),
	F(service_instance, ST_STR, ServiceKind),
	F(service_instance, ST_STR, ServiceID),
	F(service_instance, ST_STR, ServiceName),
	F(service_instance, ST_STRS, ServiceTags),
	F(service_instance, ST_STR, ServiceAddress),
	FO(service_instance, ST_OBJMAP, ServiceTaggedAddresses, SF_OMITEMPTY, service_address_schema),
	FO(service_instance, ST_OBJ, ServiceWeights, 0, weights_schema),
	F(service_instance, ST_MAP, ServiceMeta),
	F(service_instance, ST_U64, ServicePort),
	F(service_instance, ST_STR, ServiceSocketPath),
	F(service_instance, ST_BOOL, ServiceEnableTagOverride),
	FCONST("ServiceProxy", PROXY_TEXT),
	FCONST("ServiceConnect", "{}"),
	FX(service_instance, ST_U64, CreateIndex, SF_READONLY),
	FX(service_instance, ST_U64, ModifyIndex, SF_READONLY),
};
SCHEMA(service_instance, service_instance_fields);

static const struct schema_field health_entry_fields[] = {
	FO(health_entry, ST_OBJ, Node, 0, node_schema),
	FO(health_entry, ST_OBJ, Service, 0, service_schema),
	FO(health_entry, ST_OBJS, Checks, 0, check_schema),
};
SCHEMA(health_entry, health_entry_fields);

static const struct schema_field catalog_register_fields[] = {
	F(catalog_register, ST_STR, ID),
	F(catalog_register, ST_STR, Node),
	F(catalog_register, ST_STR, Address),
	F(catalog_register, ST_STR, Datacenter),
	F(catalog_register, ST_MAP, TaggedAddresses),
	F(catalog_register, ST_MAP, NodeMeta),
	F(catalog_register, ST_BOOL, SkipNodeUpdate),
	FOPT(catalog_register, Service, 0, service_schema, has_service),
	FOPT(catalog_register, Check, 0, check_schema, has_check),
	FO(catalog_register, ST_OBJS, Checks, 0, check_schema),
	FX(catalog_register, ST_I64, Now, SF_HIDDEN),
};
SCHEMA(catalog_register, catalog_register_fields);

static const struct schema_field catalog_deregister_fields[] = {
	F(catalog_deregister, ST_STR, Node),
	F(catalog_deregister, ST_STR, Datacenter),
	F(catalog_deregister, ST_STR, ServiceID),
	F(catalog_deregister, ST_STR, CheckID),
	FX(catalog_deregister, ST_I64, Now, SF_HIDDEN),
};
SCHEMA(catalog_deregister, catalog_deregister_fields);

static const struct schema_field catalog_read_fields[] = {
	F(catalog_read, ST_STR, Name),
	F(catalog_read, ST_STRS, Tags),
	F(catalog_read, ST_MAP, NodeMeta),
	F(catalog_read, ST_BOOL, Passing),
	F(catalog_read, ST_STR, Near),
	F(catalog_read, ST_STR, NearAddress),
};
SCHEMA(catalog_read, catalog_read_fields);

static const struct schema_field service_tags_fields[] = {
	F(service_tags, ST_STR, Name),
	F(service_tags, ST_STRS, Tags),
};
SCHEMA(service_tags, service_tags_fields);

static const struct schema_field node_services_fields[] = {
	FOPT(node_services, Node, 0, node_schema, found),
	FO(node_services, ST_OBJS, Services, SF_NULLEMPTY, service_schema),
};
SCHEMA(node_services, node_services_fields);

static const struct schema_field node_service_map_fields[] = {
	FOPT(node_services, Node, 0, node_schema, found),
	FO(node_services, ST_OBJMAP, Services, SF_KEYSHOWN, service_schema),
};
const struct schema node_service_map_schema = {
	"node_service_map", node_service_map_fields, 2, sizeof(struct node_services)
};

/* -- coordinates -- */
static const struct schema_field coordinate_rec_fields[] = {
	F(coordinate_rec, ST_F64S, Vec),
	F(coordinate_rec, ST_F64, Error),
	F(coordinate_rec, ST_F64, Adjustment),
	F(coordinate_rec, ST_F64, Height),
};
SCHEMA(coordinate_rec, coordinate_rec_fields);

static const struct schema_field node_coordinate_fields[] = {
	F(node_coordinate, ST_STR, Node),
	F(node_coordinate, ST_STR, Segment),
	FO(node_coordinate, ST_OBJ, Coord, 0, coordinate_rec_schema),
};
SCHEMA(node_coordinate, node_coordinate_fields);

static const struct schema_field coordinate_update_fields[] = {
	F(coordinate_update, ST_STR, Node),
	F(coordinate_update, ST_STR, Segment),
	FO(coordinate_update, ST_OBJ, Coord, 0, coordinate_rec_schema),
	F(coordinate_update, ST_STR, Datacenter),
	FCONST("Token", NULL),
};
SCHEMA(coordinate_update, coordinate_update_fields);

static const struct schema_field coordinate_batch_fields[] = {
	FO(coordinate_batch, ST_OBJS, Updates, 0, node_coordinate_schema),
};
SCHEMA(coordinate_batch, coordinate_batch_fields);

static const struct schema_field coordinate_read_fields[] = {
	F(coordinate_read, ST_STR, Node),
	F(coordinate_read, ST_STR, Segment),
	F(coordinate_read, ST_BOOL, BySegment),
};
SCHEMA(coordinate_read, coordinate_read_fields);

static const struct schema_field dc_coordinates_fields[] = {
	F(dc_coordinates, ST_STR, Datacenter),
	F(dc_coordinates, ST_STR, AreaID),
	FO(dc_coordinates, ST_OBJS, Coordinates, 0, node_coordinate_schema),
};
SCHEMA(dc_coordinates, dc_coordinates_fields);

/* -- raft -- */
static const struct schema_field raft_server_fields[] = {
	F(raft_server, ST_STR, ID),
	F(raft_server, ST_STR, Node),
	F(raft_server, ST_STR, Address),
	F(raft_server, ST_BOOL, Leader),
	F(raft_server, ST_STR, ProtocolVersion),
	F(raft_server, ST_BOOL, Voter),
	FX(raft_server, ST_STR, State, SF_OMITEMPTY),
};
SCHEMA(raft_server, raft_server_fields);

static const struct schema_field raft_configuration_fields[] = {
	FO(raft_configuration, ST_OBJS, Servers, 0, raft_server_schema),
	F(raft_configuration, ST_U64, Index),
};
SCHEMA(raft_configuration, raft_configuration_fields);

static const struct schema_field raft_peer_fields[] = {
	F(raft_peer, ST_STR, ID),
	F(raft_peer, ST_STR, Address),
	F(raft_peer, ST_BOOL, Force),
};
SCHEMA(raft_peer, raft_peer_fields);

/* -- autopilot -- */
static const struct schema_field autopilot_config_fields[] = {
	F(autopilot_config, ST_BOOL, CleanupDeadServers),
	FX(autopilot_config, ST_DURATION, LastContactThreshold, SF_DURTEXT),
	F(autopilot_config, ST_U64, MaxTrailingLogs),
	F(autopilot_config, ST_U64, MinQuorum),
	FX(autopilot_config, ST_DURATION, ServerStabilizationTime, SF_DURTEXT),
	F(autopilot_config, ST_STR, RedundancyZoneTag),
	F(autopilot_config, ST_BOOL, DisableUpgradeMigration),
	F(autopilot_config, ST_STR, UpgradeVersionTag),
	FX(autopilot_config, ST_U64, CreateIndex, SF_READONLY),
	FX(autopilot_config, ST_U64, ModifyIndex, SF_READONLY),
};
SCHEMA(autopilot_config, autopilot_config_fields);

static const struct schema_field autopilot_set_fields[] = {
	FO(autopilot_set, ST_OBJ, Config, 0, autopilot_config_schema),
	F(autopilot_set, ST_BOOL, Cas),
	F(autopilot_set, ST_U64, Index),
	F(autopilot_set, ST_BOOL, Initial),
};
SCHEMA(autopilot_set, autopilot_set_fields);

static const struct schema_field server_health_fields[] = {
	F(server_health, ST_STR, ID),
	F(server_health, ST_STR, Name),
	F(server_health, ST_STR, Address),
	F(server_health, ST_STR, SerfStatus),
	F(server_health, ST_STR, Version),
	F(server_health, ST_BOOL, Leader),
	FX(server_health, ST_DURATION, LastContact, SF_DURTEXT),
	F(server_health, ST_U64, LastTerm),
	F(server_health, ST_U64, LastIndex),
	F(server_health, ST_BOOL, Healthy),
	F(server_health, ST_BOOL, Voter),
	F(server_health, ST_STR, StableSince),
	FX(server_health, ST_STR, Reason, SF_OMITEMPTY),
};
SCHEMA(server_health, server_health_fields);

static const struct schema_field autopilot_health_fields[] = {
	F(autopilot_health, ST_BOOL, Healthy),
	F(autopilot_health, ST_U64, FailureTolerance),
	FO(autopilot_health, ST_OBJS, Servers, 0, server_health_schema),
	FX(autopilot_health, ST_STR, Reason, SF_OMITEMPTY),
};
SCHEMA(autopilot_health, autopilot_health_fields);

/* -- recovery -- */
static const struct schema_field raft_survivor_fields[] = {
	F(raft_survivor, ST_STR, ID),
	F(raft_survivor, ST_STR, Node),
	F(raft_survivor, ST_STR, Address),
	F(raft_survivor, ST_STR, SerfStatus),
	F(raft_survivor, ST_BOOL, Voter),
	F(raft_survivor, ST_BOOL, Self),
	F(raft_survivor, ST_BOOL, Answered),
	F(raft_survivor, ST_U64, LastIndex),
	F(raft_survivor, ST_U64, LastTerm),
};
SCHEMA(raft_survivor, raft_survivor_fields);

static const struct schema_field raft_recovery_fields[] = {
	F(raft_recovery, ST_STR, Node),
	F(raft_recovery, ST_STR, ID),
	F(raft_recovery, ST_STR, Address),
	F(raft_recovery, ST_STR, ClusterID),
	F(raft_recovery, ST_U64, Generation),
	F(raft_recovery, ST_U64, LastIndex),
	F(raft_recovery, ST_U64, LastTerm),
	F(raft_recovery, ST_U64, CommitIndex),
	F(raft_recovery, ST_U64, LeaderLastIndex),
	F(raft_recovery, ST_I64, LeaderContact),
	F(raft_recovery, ST_U64, MayBeLost),
	F(raft_recovery, ST_U64, Voters),
	F(raft_recovery, ST_U64, VotersAnswering),
	F(raft_recovery, ST_STR, Best),
	FO(raft_recovery, ST_OBJS, Servers, 0, raft_survivor_schema),
	F(raft_recovery, ST_BOOL, Done),
	F(raft_recovery, ST_STR, Refused),
};
SCHEMA(raft_recovery, raft_recovery_fields);

/* -- keys of gossip -- */
static const struct schema_field keyring_op_fields[] = {
	F(keyring_op, ST_U64, What),
	F(keyring_op, ST_BIN, Key),
	F(keyring_op, ST_U64, RelayFactor),
	F(keyring_op, ST_BOOL, WAN),
};
SCHEMA(keyring_op, keyring_op_fields);

static const struct schema_field key_count_fields[] = {
	F(key_count, ST_STR, Key),
	F(key_count, ST_U64, Count),
};
SCHEMA(key_count, key_count_fields);

static const struct schema_field key_message_fields[] = {
	F(key_message, ST_STR, Node),
	F(key_message, ST_STR, Text),
};
SCHEMA(key_message, key_message_fields);

static const struct schema_field keyring_pool_fields[] = {
	F(keyring_pool, ST_BOOL, WAN),
	F(keyring_pool, ST_STR, Datacenter),
	F(keyring_pool, ST_U64, NumNodes),
	F(keyring_pool, ST_U64, NumResponses),
	F(keyring_pool, ST_U64, NumErrors),
	FO(keyring_pool, ST_OBJS, Keys, 0, key_count_schema),
	FO(keyring_pool, ST_OBJS, PrimaryKeys, 0, key_count_schema),
	FO(keyring_pool, ST_OBJS, Messages, 0, key_message_schema),
	F(keyring_pool, ST_STR, Error),
};
SCHEMA(keyring_pool, keyring_pool_fields);

/* -- events -- */
static const struct schema_field user_event_fields[] = {
	F(user_event, ST_STR, ID),
	F(user_event, ST_STR, Name),
	F(user_event, ST_BIN, Payload),
	F(user_event, ST_STR, NodeFilter),
	F(user_event, ST_STR, ServiceFilter),
	F(user_event, ST_STR, TagFilter),
	F(user_event, ST_U64, Version),
	F(user_event, ST_U64, LTime),
};
SCHEMA(user_event, user_event_fields);

static const struct schema_field event_fire_fields[] = {
	F(event_fire, ST_STR, Name),
	F(event_fire, ST_BIN, Payload),
	F(event_fire, ST_STR, NodeFilter),
	F(event_fire, ST_STR, ServiceFilter),
	F(event_fire, ST_STR, TagFilter),
	F(event_fire, ST_BOOL, Coalesce),
};
SCHEMA(event_fire, event_fire_fields);

/* -- snapshots -- */
static const struct schema_field snapshot_ask_fields[] = {
	F(snapshot_ask, ST_STR, Server),
	F(snapshot_ask, ST_STR, ID),
	F(snapshot_ask, ST_U64, Offset),
	F(snapshot_ask, ST_BIN, Data),
};
SCHEMA(snapshot_ask, snapshot_ask_fields);

static const struct schema_field snapshot_state_fields[] = {
	F(snapshot_state, ST_STR, Server),
	F(snapshot_state, ST_STR, ID),
	F(snapshot_state, ST_U64, Phase),
	F(snapshot_state, ST_U64, Done),
	F(snapshot_state, ST_U64, Total),
	F(snapshot_state, ST_U64, Index),
	F(snapshot_state, ST_BIN, Data),
	F(snapshot_state, ST_STR, Text),
};
SCHEMA(snapshot_state, snapshot_state_fields);

static const struct schema_field restore_step_fields[] = {
	F(restore_step, ST_STR, ID),
	F(restore_step, ST_U64, Bytes),
	F(restore_step, ST_BIN, Checksum),
	F(restore_step, ST_U64, Offset),
	F(restore_step, ST_BIN, Data),
};
SCHEMA(restore_step, restore_step_fields);

/* -- small ones -- */
const struct schema empty_schema = { "empty", NULL, 0, sizeof(struct empty_rec) };

static const struct schema_field bool_reply_fields[] = {
	F(bool_reply, ST_BOOL, Value),
};
SCHEMA(bool_reply, bool_reply_fields);

static const struct schema_field text_reply_fields[] = {
	F(text_reply, ST_STR, Value),
};
SCHEMA(text_reply, text_reply_fields);

static const struct schema_field text_list_fields[] = {
	F(text_list, ST_STRS, Values),
};
SCHEMA(text_list, text_list_fields);
