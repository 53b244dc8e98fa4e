/*
 * The records of the state machine and of operations: structs and schemas; common/record/record.h says what a
 * row means.
 * Field names are the API's.  Times and lengths of time are nanoseconds unless said otherwise.
 * Spans are borrowed (from an arena or an input).
 */
#ifndef TV_COMMON_RECORD_RECORDS_H
#define TV_COMMON_RECORD_RECORDS_H

#include "common/record/record.h"

/* -- key/value -- */
RECORD(kv_entry,
	(U64, LockIndex), (STR, Key), (U64, Flags), (BIN, Value),
	(STR, Session, SF_OMITEMPTY),		/* omitted when not locked */
	(U64, CreateIndex, SF_READONLY), (U64, ModifyIndex, SF_READONLY))

enum kv_verb {
	KV_SET, KV_CAS, KV_LOCK, KV_UNLOCK, KV_DELETE, KV_DELETE_CAS,
	KV_DELETE_TREE,			/* all below Key at once; in the log, of older leaders, without a bound */
	KV_DELETE_PART,			/* in the log only: some of it, see raftd/serve/op_tree.c; answer: kv_part */
	KV_DELETE_TREE_PARTS,		/* of clients only: all below Key, one part after the other */
};
RECORD(kv_apply,			/* OP_KV_APPLY; answer: bool_reply */
	(U64, Verb),			/* enum kv_verb */
	(STR, Key), (U64, Flags), (BIN, Value),
	(U64, ModifyIndex),		/* for the cas verbs */
	(STR, Session),			/* for lock and unlock */
	(I64, Now))			/* wall clock of the proposer (the leader's raftd sets it): lock delays */
/*
 * OP_KV_TREE, in the log: all below Key at once.  Refused if there is more of it than that; what is counted is never to
 * be changed.
 */
RECORD(kv_tree,
	(STR, Key),
	(U64, Keys),			/* at most */
	(U64, Bytes),			/* of them and their values, at most */
	(I64, Now))			/* as of kv_apply */
#define KV_TREE_KEYS_MAX 100000u	/* that a leader puts in */
#define KV_TREE_BYTES_MAX (256u << 20)
/*
 * KV_DELETE_PART: Value is the key to go on with ("": the first one), ModifyIndex that of the first part (0: this is
 * it), after which keys stay, Flags how much work it may be.
 */
RECORD(kv_part,
	(BIN, Next),			/* Value of the next part; "" when none is left */
	(U64, Newest))			/* its ModifyIndex */

RECORD(kv_read,				/* OP_KV_GET, OP_KV_LIST: Key; OP_KV_KEYS: also Separator */
	(STR, Key), (STR, Separator))

/* -- sessions -- */
RECORD(service_check_ref, (STR, ID), (STR, Namespace))
RECORD(session,
	(STR, ID), (STR, Name), (STR, Node),
	(DURATION, LockDelay, SF_LOCKDELAY),
	(STR, Behavior),		/* "release" or "delete" */
	(STR, TTL),			/* text as given, "" for none */
	(STRS, NodeChecks),
	(OBJS, ServiceChecks, service_check_ref, SF_NULLEMPTY),	/* null unless given */
	(STRS, Checks, SF_OMITEMPTY),	/* deprecated; shown only when kept */
	(U64, CreateIndex, SF_READONLY), (U64, ModifyIndex, SF_READONLY))

RECORD(session_destroy, (STR, ID), (I64, Now))
RECORD(session_read,
	(STR, ID),			/* for info and renew */
	(STR, Node))			/* for node */

/* -- catalog -- */
RECORD(node,
	(STR, ID), (STR, Node), (STR, Address), (STR, Datacenter),
	(MAP, TaggedAddresses, SF_NULLEMPTY), (MAP, Meta, SF_NULLEMPTY),
	(U64, CreateIndex, SF_READONLY), (U64, ModifyIndex, SF_READONLY))

RECORD(mesh_gateway, (STR, Mode, SF_OMITEMPTY))
RECORD(upstream,			/* that a proxy opens a listener for */
	(STR, DestinationType),		/* "service", which "" means too, or "prepared_query" */
	(STR, DestinationName), (STR, Datacenter),
	(STR, LocalBindAddress, SF_OMITEMPTY), (U64, LocalBindPort, SF_OMITEMPTY),
	(STR, LocalBindSocketPath, SF_OMITEMPTY), (STR, LocalBindSocketMode, SF_OMITEMPTY),
	(JSON, Config, SF_OMITEMPTY), (OBJ, MeshGateway, mesh_gateway), (CONST, DestinationNamespace, NULL))
RECORD(exposed_path,
	(I64, ListenerPort, SF_OMITEMPTY), (STR, Path, SF_OMITEMPTY), (U64, LocalPathPort, SF_OMITEMPTY),
	(STR, Protocol, SF_OMITEMPTY), (BOOL, ParsedFromCheck))
RECORD(expose, (BOOL, Checks, SF_OMITEMPTY), (OBJS, Paths, exposed_path, SF_OMITEMPTY))
RECORD(transparent_proxy, (U64, OutboundListenerPort, SF_OMITEMPTY), (BOOL, DialedDirectly, SF_OMITEMPTY))
RECORD(service_proxy,			/* of a service that is a proxy or a gateway, by its Kind */
	(STR, DestinationServiceName, SF_OMITEMPTY), (STR, DestinationServiceID, SF_OMITEMPTY),
	(STR, LocalServiceAddress, SF_OMITEMPTY), (U64, LocalServicePort, SF_OMITEMPTY),
	(STR, LocalServiceSocketPath, SF_OMITEMPTY), (STR, Mode),
	(OBJ, TransparentProxy, transparent_proxy, SF_OMITEMPTY | SF_NILEMPTY),
	(JSON, Config, SF_OMITEMPTY),	/* of any form, which is not looked into here */
	(OBJS, Upstreams, upstream, SF_OMITEMPTY),
	(OBJ, MeshGateway, mesh_gateway), (OBJ, Expose, expose))
RECORD(service_connect,
	(BOOL, Native, SF_OMITEMPTY))	/* it speaks the protocol of proxies itself */

RECORD(service_address, (STR, Name), (STR, Address), (U64, Port))
RECORD(weights, (I64, Passing), (I64, Warning))
#define SERVICE_ROWS(tags_flags) \
	(STR, ID), (STR, Service), (STRS, Tags, tags_flags), (STR, Address), \
	(OBJMAP, TaggedAddresses, service_address, SF_OMITEMPTY), \
	(MAP, Meta, SF_NULLEMPTY), \
	(U64, Port, SF_OMITEMPTY), (STR, SocketPath), \
	(OBJ, Weights, weights), \
	(BOOL, EnableTagOverride), (STR, Kind, SF_OMITEMPTY), \
	(U64, CreateIndex, SF_READONLY), (U64, ModifyIndex, SF_READONLY), \
	/* since version 3 of the state machine; its records have nil for what is empty, as older ones have nothing */ \
	(OBJ, Proxy, service_proxy, SF_NILEMPTY | SF_SNAKE), (OBJ, Connect, service_connect, SF_NILEMPTY)
RECORD(service, SERVICE_ROWS(0))	/* stored by node and ID */

RECORD(check_definition,
	(STR, HTTP, SF_OMITEMPTY), (STR, Method, SF_OMITEMPTY), (STR, Body, SF_OMITEMPTY | SF_FREE),
	(STR, TCP, SF_OMITEMPTY),
	(DURATION, Interval, SF_OMITEMPTY | SF_DURTEXT),
	(DURATION, Timeout, SF_OMITEMPTY | SF_DURTEXT),
	(DURATION, DeregisterCriticalServiceAfter, SF_OMITEMPTY | SF_DURTEXT),
	(BOOL, TLSSkipVerify, SF_OMITEMPTY),
	(JSON, Header, SF_OMITEMPTY),	/* object of lists of text */
	(STR, TLSServerName, SF_OMITEMPTY),
	/* since version 10 of the state machine: the first of them is where catalog_check_needs() begins to look */
	(BOOL, DisableRedirects, SF_OMITEMPTY), (BOOL, TCPUseTLS, SF_OMITEMPTY), (STR, UDP, SF_OMITEMPTY))
#define CHECK_ROWS(tags_flags) \
	(STR, Node), (STR, CheckID), (STR, Name), (STR, Status), (STR, Notes, SF_FREE), (STR, Output, SF_FREE), \
	(STR, ServiceID), (STR, ServiceName), (STRS, ServiceTags, tags_flags), \
	(STR, Type), (U64, ExposedPort), \
	(OBJ, Definition, check_definition), \
	(U64, CreateIndex, SF_READONLY), (U64, ModifyIndex, SF_READONLY)
RECORD(check, CHECK_ROWS(0))

/* How this node runs a check; never in the catalog.  Times in ns, 0: the default of the kind. */
RECORD(check_run,
	(STR, Kind),			/* as check.Type; empty: nothing runs, a TTL is renewed from outside */
	(DURATION, Interval, SF_OMITEMPTY | SF_DURTEXT), (DURATION, Timeout, SF_OMITEMPTY | SF_DURTEXT),
	(U64, SuccessBeforePassing, SF_OMITEMPTY), (U64, FailuresBeforeWarning, SF_OMITEMPTY),
	(U64, FailuresBeforeCritical, SF_OMITEMPTY), (U64, OutputMaxSize, SF_OMITEMPTY),
	(STR, Target, SF_OMITEMPTY),	/* URL, or "host:port" */
	(STR, Method, SF_OMITEMPTY), (STR, Body, SF_OMITEMPTY),
	(STRS, Header, SF_OMITEMPTY),	/* "Name: value" */
	(BOOL, TLSSkipVerify, SF_OMITEMPTY), (STR, TLSServerName, SF_OMITEMPTY),
	(STRS, Args, SF_OMITEMPTY),	/* of a script, the program first */
	(BOOL, UseTLS, SF_OMITEMPTY),	/* of gRPC, H2PING and TCP */
	(STR, Shell, SF_OMITEMPTY),	/* in a container */
	(STR, Node, SF_OMITEMPTY),	/* of an alias: the other node, empty: this one; its service is Target */
	(BOOL, DisableRedirects, SF_OMITEMPTY))	/* of HTTP */

RECORD(service_instance,		/* flattened answer of catalog/service/NAME */
	(STR, ID), (STR, Node), (STR, Address), (STR, Datacenter),
	(MAP, TaggedAddresses, SF_NULLEMPTY), (MAP, NodeMeta, SF_NULLEMPTY),
	(STR, ServiceKind), (STR, ServiceID), (STR, ServiceName), (STRS, ServiceTags), (STR, ServiceAddress),
	(OBJMAP, ServiceTaggedAddresses, service_address, SF_OMITEMPTY),
	(OBJ, ServiceWeights, weights),
	(MAP, ServiceMeta), (U64, ServicePort), (STR, ServiceSocketPath), (BOOL, ServiceEnableTagOverride),
	(U64, CreateIndex, SF_READONLY), (U64, ModifyIndex, SF_READONLY),
	(OBJ, ServiceProxy, service_proxy, SF_NILEMPTY), (OBJ, ServiceConnect, service_connect, SF_NILEMPTY))

RECORD(health_entry, (OBJ, Node, node), (OBJ, Service, service), (OBJS, Checks, check))
RECORD(node_dump,			/* a node with all that is registered on it */
	(STR, ID), (STR, Node), (STR, Address),
	(MAP, TaggedAddresses, SF_NULLEMPTY), (MAP, Meta, SF_NULLEMPTY),
	(OBJS, Services, service), (OBJS, Checks, check))

RECORD(catalog_register,
	(STR, ID), (STR, Node), (STR, Address), (STR, Datacenter),
	(MAP, TaggedAddresses), (MAP, NodeMeta),
	(BOOL, SkipNodeUpdate),
	(OPT, Service, has_service, service),
	(OPT, Check, has_check, check),
	(OBJS, Checks, check),
	(I64, Now, SF_HIDDEN))		/* wall clock of the proposer: lock delays of sessions that a check ends */

RECORD(catalog_deregister,
	(STR, Node), (STR, Datacenter), (STR, ServiceID), (STR, CheckID), (I64, Now, SF_HIDDEN),
	(STR, ID, SF_HIDDEN))		/* only of the node that has this id; "": whatever its id is */

RECORD(catalog_read,			/* all catalog and health reads; unused fields stay empty */
	(STR, Name),			/* node, service, state; CATALOG_NODES: only this one, if the server can */
	(STRS, Tags), (MAP, NodeMeta), (BOOL, Passing),
	(STR, Near),			/* sort by the estimated round trip to this node; empty: as they are */
	(STR, NearAddress))		/* the same, to the node of this address */

RECORD(service_tags, (STR, Name), (STRS, Tags))		/* element of OP_CATALOG_SERVICES' answer */
/* The one element of OP_CATALOG_ADDRESS' answer, Name being an address: the first node that has it, or service. */
RECORD(address_owner, (STR, Node), (STR, Service))
RECORD(node_services, (OPT, Node, found, node), (OBJS, Services, service, SF_NULLEMPTY))
/* The same; JSON shows Services by ID, as catalog/node does. */
RECORD_AS(node_service_map, node_services, (OPT, Node, found, node), (OBJMAP, Services, service, SF_KEYSHOWN))

/* -- transactions -- */
#define TXN_OPS_MAX 64			/* as in Consul */
#define TXN_TREE_KEYS_MAX KV_TREE_KEYS_MAX	/* that a leader puts in, as into kv_tree */
#define TXN_TREE_BYTES_MAX KV_TREE_BYTES_MAX
#define TXN_ANSWER_BYTES_MAX (8u << 20)
/*
 * Verbs are words, since one that is not known has its place in the answer.  KV: set, cas, lock, unlock, get,
 * get-or-empty, get-tree, check-index, check-session, check-not-exists, delete, delete-tree, delete-cas.  The others:
 * set, cas, get, delete, delete-cas; the cas ones by the ModifyIndex of the object.
 */
RECORD(txn_kv,
	(STR, Verb), (STR, Key), (BIN, Value), (U64, Flags),
	(U64, Index),			/* for cas, delete-cas and check-index */
	(STR, Session))			/* for lock, unlock and check-session */
RECORD(txn_node, (STR, Verb), (OBJ, Node, node))
RECORD(txn_service, (STR, Verb), (STR, Node), (OBJ, Service, service))
RECORD(txn_check, (STR, Verb), (OBJ, Check, check))
RECORD(txn_op,				/* exactly one of them */
	(OPT, KV, has_kv, txn_kv), (OPT, Node, has_node, txn_node),
	(OPT, Service, has_service, txn_service), (OPT, Check, has_check, txn_check),
	(STR, Refused, SF_HIDDEN))	/* why, by the proposer, who looked at what needs no state */
/* OP_TXN_APPLY, OP_TXN_READ; answer: txn_reply.  What is hidden is the proposer's; never to be counted otherwise. */
RECORD(txn,
	(OBJS, Ops, txn_op),
	(I64, Now, SF_HIDDEN),		/* as of kv_apply */
	/* That all delete-tree may remove, counted as for kv_tree. */
	(U64, TreeKeys, SF_HIDDEN), (U64, TreeBytes, SF_HIDDEN),
	(U64, AnswerBytes, SF_HIDDEN))	/* that the results may take, packed */
RECORD(txn_result,
	(OPT, KV, has_kv, kv_entry, SF_OMITEMPTY), (OPT, Node, has_node, node, SF_OMITEMPTY),
	(OPT, Service, has_service, service, SF_OMITEMPTY), (OPT, Check, has_check, check, SF_OMITEMPTY))
/* Tags are null here where they are [] elsewhere. */
RECORD_AS(check_null_tags, check, CHECK_ROWS(SF_NULLEMPTY))
RECORD_AS(service_null_tags, service, SERVICE_ROWS(SF_NULLEMPTY))
RECORD_AS(txn_result_shown, txn_result,
	(OPT, KV, has_kv, kv_entry, SF_OMITEMPTY), (OPT, Node, has_node, node, SF_OMITEMPTY),
	(OPT, Service, has_service, service_null_tags, SF_OMITEMPTY),
	(OPT, Check, has_check, check_null_tags, SF_OMITEMPTY))
RECORD(txn_error,
	(U64, OpIndex),			/* from 0 */
	(STR, What))
RECORD(txn_reply,			/* either; with errors nothing was changed */
	(OBJS, Results, txn_result, SF_NULLEMPTY), (OBJS, Errors, txn_error, SF_NULLEMPTY))

/* -- what a right depended on -- */
/*
 * A fact of the state that a judgement of a write rests on.  Behind the version of an entry; the state machine compares
 * them with its state before it applies the entry.  Kinds and what their Text is: raftd/fsm/acl/acl_premise.c.
 */
RECORD(premise,
	(U64, Kind),
	(STR, Node),			/* "": that of the one before it in the list */
	(STR, Key),			/* a name or an id, as the write has it */
	(BOOL, There), (STR, Text))	/* is there such an object, and what mattered of it */
RECORD(premise_list, (OBJS, All, premise))

/* -- prepared queries -- */
RECORD(prepared_failover, (I64, NearestN), (STRS, Datacenters, SF_NULLEMPTY))
RECORD(prepared_template,
	(STR, Type),			/* "name_prefix_match"; "": it is none */
	(STR, Regexp, SF_FREE), (BOOL, RemoveEmptyTags))
RECORD(prepared_service,
	(STR, Service), (OBJ, Failover, prepared_failover), (BOOL, OnlyPassing), (STRS, IgnoreCheckIDs, SF_NULLEMPTY),
	(STR, Near),			/* a node, "_agent" or "_ip" */
	(STRS, Tags, SF_NULLEMPTY),	/* "!tag": without it */
	(MAP, NodeMeta, SF_NULLEMPTY), (MAP, ServiceMeta, SF_NULLEMPTY), (BOOL, Connect, SF_OMITEMPTY))
RECORD(prepared_dns, (STR, TTL))
RECORD(prepared_query,			/* stored by ID */
	(STR, ID), (STR, Name), (STR, Session), (STR, Token), (OBJ, Template, prepared_template),
	(OBJ, Service, prepared_service), (OBJ, DNS, prepared_dns),
	(U64, CreateIndex, SF_READONLY), (U64, ModifyIndex, SF_READONLY))
#define PREPARED_BYTES_MAX (64u << 10)	/* of one, packed */
#define PREPARED_TEMPLATE "name_prefix_match"
RECORD(prepared_read, (STR, ID))
RECORD(prepared_ask,			/* OP_QUERY_EXECUTE, OP_QUERY_EXPLAIN */
	(STR, Name),			/* or ID */
	(I64, Limit),			/* 0 or less: none */
	(BOOL, Connect),		/* what proxies for the service, whatever the query says */
	(STR, Near),			/* as asked for now: before the query's own; "_agent" and "_ip" too */
	(STR, Agent),			/* the node that is meant by "_agent"; "": none of this datacenter */
	(STR, Address))			/* by "_ip" */
RECORD(prepared_remote,			/* OP_QUERY_REMOTE: its Service, as it was rendered where it is kept */
	(OBJ, Query, prepared_query), (I64, Limit), (BOOL, Connect),
	(STR, Accessor), (BIN, Proof))	/* as found */
RECORD(prepared_found,			/* their answer */
	(OBJS, Nodes, health_entry), (STR, Datacenter), (OBJ, Query, prepared_query),
	(STR, Accessor), (BIN, Proof))	/* of the token that the query is stored with, see query_run.c; or "" */
RECORD_AS(prepared_node, health_entry,
	(OBJ, Node, node), (OBJ, Service, service_null_tags), (OBJS, Checks, check_null_tags))

/* -- access control -- */
RECORD(acl_link,			/* of a token or a role; stored without the name, which may change */
	(STR, ID), (STR, Name))
RECORD(acl_service_identity, (STR, ServiceName), (STRS, Datacenters, SF_OMITEMPTY))
RECORD(acl_node_identity, (STR, NodeName), (STR, Datacenter))
#define ACL_TOKEN_ROWS(secret_flags) \
	(STR, AccessorID), (STR, SecretID, secret_flags), (STR, Description), \
	(OBJS, Policies, acl_link, SF_OMITEMPTY), (OBJS, Roles, acl_link, SF_OMITEMPTY), \
	(OBJS, ServiceIdentities, acl_service_identity, SF_OMITEMPTY), \
	(OBJS, NodeIdentities, acl_node_identity, SF_OMITEMPTY), \
	(BOOL, Local), (STR, AuthMethod, SF_OMITEMPTY), \
	(STR, ExpirationTime, SF_OMITEMPTY), (DURATION, ExpirationTTL, SF_OMITEMPTY | SF_DURTEXT), \
	(STR, CreateTime, SF_READONLY), (BIN, Hash, SF_READONLY), \
	(U64, CreateIndex, SF_READONLY), (U64, ModifyIndex, SF_READONLY), \
	(I64, Expires, SF_HIDDEN)	/* ExpirationTime in ns since 1970; 0: never */
RECORD(acl_token, ACL_TOKEN_ROWS(0))	/* stored by AccessorID, with ExpirationTTL 0 */
RECORD_AS(acl_token_stub, acl_token, ACL_TOKEN_ROWS(SF_HIDDEN))	/* of a list; SecretID is empty */
#define ACL_TOKEN_BYTES_MAX (64u << 10)	/* of one, packed; of a role too */
#define ACL_LINKS_MAX 256u		/* of one token or role: policies, roles, identities of one kind */
#define ACL_NAME_BYTES_MAX 128u		/* of a policy or a role */
#define ACL_POLICY_ROWS(rules_flags, datacenters_flags) \
	(STR, ID), (STR, Name), (STR, Description), (STR, Rules, rules_flags), (STRS, Datacenters, datacenters_flags), \
	(BIN, Hash, SF_READONLY), (U64, CreateIndex, SF_READONLY), (U64, ModifyIndex, SF_READONLY)
RECORD(acl_policy, ACL_POLICY_ROWS(0, SF_OMITEMPTY))	/* stored by ID */
RECORD_AS(acl_policy_stub, acl_policy, ACL_POLICY_ROWS(SF_HIDDEN, SF_NULLEMPTY))	/* of a list; Rules are empty */
#define ACL_POLICY_BYTES_MAX (512u << 10)	/* of one, packed */
RECORD(acl_role,			/* stored by ID */
	(STR, ID), (STR, Name), (STR, Description),
	(OBJS, Policies, acl_link, SF_OMITEMPTY),
	(OBJS, ServiceIdentities, acl_service_identity, SF_OMITEMPTY),
	(OBJS, NodeIdentities, acl_node_identity, SF_OMITEMPTY),
	(BIN, Hash, SF_READONLY), (U64, CreateIndex, SF_READONLY), (U64, ModifyIndex, SF_READONLY))
RECORD(acl_ending,			/* an auth method that is gone, some of whose tokens are still to be removed */
	(STR, Method), (BOOL, Local),	/* whose tokens of this locality are unknown */
	(STR, After))			/* those up to this accessor id were looked at */
#define ACL_ENDINGS_MAX 16u
RECORD(acl_state,			/* one record of the state: access control holds */
	(U64, Since),			/* the index since which it does */
	(U64, Bootstrap),		/* of the newest bootstrap; 0: none was made yet */
	(BIN, Key),			/* secrets are looked up by their hash with it */
	(STR, First),			/* accessor id of the token that the newest bootstrap made */
	/* What was copied from a primary datacenter, up to which of its indexes; times in ns since 1970, 0: never. */
	(STR, Source),			/* its name */
	(BIN, ReplToken),		/* hash of the token that was known first; "-": none counts any more */
	(U64, ReplPolicies), (U64, ReplRoles), (U64, ReplTokens), (U64, ReplFloor),
	(I64, ReplSuccess), (I64, ReplFailure), (STR, ReplError),
	(OBJS, Ending, acl_ending))
#define ACL_KEY_BYTES 32
RECORD(acl_enable, (BIN, Key), (I64, Now))	/* OP_ACL_ENABLE; answer: bool_reply, whether it did not hold before */
RECORD(acl_bootstrap,			/* OP_ACL_BOOTSTRAP: what the leader makes of a SecretID, or of none */
	(U64, Reset),			/* of the file in its folder; 0: there is none */
	(OBJ, Token, acl_token), (I64, Now))
RECORD(acl_token_set,			/* OP_ACL_TOKEN_SET, OP_ACL_TOKEN_CLONE */
	(OBJ, Token, acl_token),
	(BOOL, Create),			/* though an AccessorID is given */
	(STR, Source),			/* OP_ACL_TOKEN_CLONE: the AccessorID of the one to be copied */
	(I64, Now),
	(BOOL, Secondary))		/* the leader's: global ones are written in another datacenter */
RECORD(acl_token_delete,		/* OP_ACL_TOKEN_DELETE */
	(STR, AccessorID),
	(STR, Asker),			/* the secret with which it is asked for; it does not go to the log */
	(BIN, AskerHash),
	(BOOL, Secondary))		/* as above */
RECORD(acl_token_read, (STR, AccessorID))
RECORD(acl_secret, (STR, SecretID))
RECORD(acl_resolved_policy, (STR, ID), (STR, Name), (STR, Rules), (U64, ModifyIndex))
RECORD(acl_resolved,			/* OP_ACL_RESOLVE: what a secret stands for, for who decides beside raftd */
	(STR, AccessorID), (BOOL, Local),
	(I64, Expires),			/* ns since 1970, from then on none of this holds; 0: never */
	(BOOL, DefaultAllow),		/* what no rule covers is allowed */
	(OBJS, Policies, acl_resolved_policy),	/* of the token and its roles, each once */
	(STRS, Services), (STRS, Nodes))	/* names of its service and node identities */
RECORD(acl_token_list, (STR, Policy), (STR, Role), (STR, AuthMethod))	/* "": any */
RECORD(acl_policy_set, (OBJ, Policy, acl_policy), (BOOL, Create))
RECORD(acl_role_set, (OBJ, Role, acl_role), (BOOL, Create))
RECORD(acl_id, (STR, ID))		/* to delete a policy or a role */
RECORD(acl_read, (STR, ID), (STR, Name))	/* a policy or a role, by one of them */
RECORD(acl_rules_text, (STR, Rules))
RECORD(acl_reap, (I64, Now))		/* OP_ACL_REAP: some of what expired before, or is of a method that is gone */
#define ACL_METHOD_ROWS(config_flags) \
	(DURATION, MaxTokenTTL, SF_OMITEMPTY | SF_DURTEXT), (STR, Name), (STR, Type), \
	(STR, DisplayName, SF_OMITEMPTY), (STR, Description, SF_OMITEMPTY), \
	(STR, TokenLocality, SF_OMITEMPTY),	/* "local", which "" is too, or "global" */ \
	(JSON, Config, config_flags), (U64, CreateIndex, SF_READONLY), (U64, ModifyIndex, SF_READONLY), \
	(STRS, Values, SF_HIDDEN)	/* that BindName may insert: the targets of Config's ClaimMappings */
RECORD(acl_method, ACL_METHOD_ROWS(0))	/* an auth method; stored by Name in lower case */
RECORD_AS(acl_method_stub, acl_method, ACL_METHOD_ROWS(SF_HIDDEN))	/* of a list; Config is empty */
#define ACL_METHOD_BYTES_MAX (64u << 10)	/* of one, packed */
RECORD(acl_binding,			/* a binding rule; stored by ID */
	(STR, ID), (STR, Description), (STR, AuthMethod), (STR, Selector), (STR, BindType), (STR, BindName),
	(U64, CreateIndex, SF_READONLY), (U64, ModifyIndex, SF_READONLY))
#define ACL_BINDING_BYTES_MAX (16u << 10)	/* of one, packed */
#define ACL_BINDINGS_MAX 512u		/* of one method */
RECORD(acl_method_set, (OBJ, Method, acl_method))
RECORD(acl_name, (STR, Name))		/* to read or delete a method */
RECORD(acl_binding_set, (OBJ, Binding, acl_binding), (BOOL, Create))
RECORD(acl_binding_list, (STR, AuthMethod))	/* "": any */
#define ACL_BEARER_BYTES_MAX (16u << 10)
RECORD(acl_login_body, (STR, AuthMethod), (STR, BearerToken), (MAP, Meta))	/* as clients send it */
RECORD(acl_login,			/* OP_ACL_LOGIN: the first three are what is asked, and do not go to the log */
	(STR, AuthMethod), (STR, BearerToken), (MAP, Meta),
	(OBJ, Token, acl_token),	/* what the leader makes of it */
	(U64, Method))			/* CreateIndex of the method that it looked at */
RECORD(acl_logout,			/* OP_ACL_LOGOUT: the first is what is asked, and does not go to the log */
	(STR, SecretID), (STR, AccessorID),
	(BOOL, Secondary))		/* as in acl_token_set */
RECORD(acl_claim_list, (STR, Name), (STRS, Items))
RECORD(acl_claims,			/* of a bearer token, by the names that its method maps them to */
	(MAP, value), (OBJMAP, list, acl_claim_list, SF_LISTS))
RECORD(acl_replication,
	(BOOL, Enabled), (BOOL, Running), (STR, SourceDatacenter), (STR, ReplicationType),
	(U64, ReplicatedIndex), (U64, ReplicatedRoleIndex), (U64, ReplicatedTokenIndex),
	(STR, LastSuccess), (STR, LastError), (STR, LastErrorMessage, SF_OMITEMPTY))
/* Copies of another datacenter's policies, roles and global tokens: acl_repl.c (raftd), replicate.c (rpcd). */
enum acl_repl_kind { ACL_REPL_NONE, ACL_REPL_POLICIES, ACL_REPL_ROLES, ACL_REPL_TOKENS, ACL_REPL_KINDS };
#define ACL_REPL_PAGE 1024u		/* ids in one list */
RECORD(acl_repl_position,		/* indexes of the primary's, and that below which a restore put none */
	(U64, Policies), (U64, Roles), (U64, Tokens), (U64, Floor))
RECORD(acl_repl_item, (STR, ID), (BIN, Hash))
RECORD(acl_repl_ask,			/* OP_ACL_REPL_LIST: what changed above an index, in the order of ids */
	(U64, Kind), (U64, Since),	/* ACL_REPL_NONE: the position alone */
	(STR, After), (U64, Limit))	/* behind this id; at most ACL_REPL_PAGE */
RECORD(acl_repl_page,
	(OBJ, Position, acl_repl_position),
	(U64, Count),			/* of all of the kind; on the first page alone */
	(BOOL, More), (OBJS, Items, acl_repl_item))
RECORD(acl_repl_ids, (U64, Kind), (STRS, IDs))	/* OP_ACL_REPL_FETCH */
RECORD(acl_repl_records,		/* what is still there of these */
	(U64, Considered),		/* so many of the ids; the others are to be asked for again */
	(OBJS, Policies, acl_policy), (OBJS, Roles, acl_role), (OBJS, Tokens, acl_token))
RECORD(acl_repl_compare,		/* OP_ACL_REPL_DIFF, OP_ACL_REPL_DIFF_FIRST: a page with what is here */
	(STR, Asker),			/* OP_ACL_REPL_DIFF_FIRST: the replication token */
	(U64, Kind),			/* ACL_REPL_NONE: how far it has come alone */
	(BOOL, Whole),			/* it names all there are in its range: others are to go */
	(STR, After), (STR, Until),	/* that range, of ids: behind the one, up to the other; "": the end */
	(OBJS, Items, acl_repl_item))
RECORD(acl_repl_diff,
	(OBJ, Position, acl_repl_position),	/* reached so far */
	(U64, Count),			/* of the kind here, if Whole is not set */
	(U64, New),			/* of Fetch, those that are not here at all */
	(STRS, Fetch), (STRS, Delete))
RECORD(acl_repl_apply,			/* OP_ACL_REPL_APPLY and _FIRST; answer: bool_reply, did anything change */
	(STR, Asker),			/* OP_ACL_REPL_APPLY_FIRST: the replication token; it does not go to the log */
	(BIN, AskerHash), (I64, Now),
	(STR, Source),			/* the primary's name */
	(OBJS, Policies, acl_policy), (OBJS, Roles, acl_role), (OBJS, Tokens, acl_token),
	(U64, Kind), (STRS, Delete),	/* of this kind */
	(BOOL, Reached), (OBJ, Position, acl_repl_position),	/* all up to there is here now */
	(STR, Error))			/* or it could not go on */

/* -- coordinates -- */
RECORD(coordinate_rec,			/* as the API shows it; seconds.  common/record/coordinate.h computes with it */
	(F64S, Vec), (F64, Error), (F64, Adjustment), (F64, Height))
RECORD(node_coordinate,			/* stored by node and segment */
	(STR, Node), (STR, Segment), (OBJ, Coord, coordinate_rec))
RECORD(coordinate_update,		/* OP_COORDINATE_UPDATE; answer: bool_reply, whether the node is known */
	(STR, Node), (STR, Segment), (OBJ, Coord, coordinate_rec), (STR, Datacenter), (CONST, Token, NULL))
RECORD(coordinate_batch, (OBJS, Updates, node_coordinate))
RECORD(coordinate_read,
	(STR, Node), (STR, Segment),
	(BOOL, BySegment))		/* only coordinates of Segment, which may be "" */
RECORD(dc_coordinates,			/* element of OP_COORDINATE_DATACENTERS' answer */
	(STR, Datacenter), (STR, AreaID), (OBJS, Coordinates, node_coordinate))

/* -- raft -- */
RECORD(raft_server,
	(STR, ID), (STR, Node), (STR, Address), (BOOL, Leader), (STR, ProtocolVersion), (BOOL, Voter),
	/* "failed", "left", "unreachable" or "removed", as the server that answers sees it; "" if all is well */
	(STR, State, SF_OMITEMPTY))
RECORD(raft_configuration, (OBJS, Servers, raft_server), (U64, Index))
RECORD(raft_peer,			/* remove a peer, transfer leadership to */
	(STR, ID), (STR, Address), (BOOL, Force))

/* -- autopilot -- */
RECORD(autopilot_config,		/* one record of the state */
	(BOOL, CleanupDeadServers),
	(DURATION, LastContactThreshold, SF_DURTEXT),	/* 0: not looked at */
	(U64, MaxTrailingLogs),		/* 0: not looked at */
	(U64, MinQuorum),		/* voters that cleanup leaves in any case; 0: 3 */
	(DURATION, ServerStabilizationTime, SF_DURTEXT),
	/* these three are kept and have no effect */
	(STR, RedundancyZoneTag), (BOOL, DisableUpgradeMigration), (STR, UpgradeVersionTag),
	(U64, CreateIndex, SF_READONLY), (U64, ModifyIndex, SF_READONLY))
RECORD(autopilot_set,			/* OP_AUTOPILOT_SET; answer: bool_reply */
	(OBJ, Config, autopilot_config),
	(BOOL, Cas),			/* only if ModifyIndex is still Index */
	(U64, Index),
	(BOOL, Initial))		/* only if there is none */
RECORD(server_health,
	(STR, ID), (STR, Name), (STR, Address), (STR, SerfStatus), (STR, Version), (BOOL, Leader),
	(DURATION, LastContact, SF_DURTEXT),	/* -1: never, or unknown (without a leader) */
	(U64, LastTerm), (U64, LastIndex), (BOOL, Healthy), (BOOL, Voter),
	(STR, StableSince),		/* RFC 3339 */
	(STR, Reason, SF_OMITEMPTY))	/* why it is not healthy; "" when it is, or the leader is of an older version */
RECORD(autopilot_health,
	(BOOL, Healthy), (U64, FailureTolerance), (OBJS, Servers, server_health),
	/* why there is no leader, or that it was not the leader who looked; "" in a leader's answer */
	(STR, Reason, SF_OMITEMPTY))

/* -- recovery of a cluster that lost its majority -- */
RECORD(raft_survivor,			/* a server of the configuration, as the asked one sees it */
	(STR, ID), (STR, Node), (STR, Address), (STR, SerfStatus), (BOOL, Voter), (BOOL, Self),
	(BOOL, Answered),		/* over a proven link, just now: the rest is known */
	(U64, LastIndex), (U64, LastTerm))
RECORD(raft_recovery,			/* answer of MSG_RAFT_RECOVER */
	(STR, Node), (STR, ID), (STR, Address), (STR, ClusterID),
	(U64, Generation),		/* at the time of the question */
	(U64, LastIndex), (U64, LastTerm), (U64, CommitIndex),	/* here */
	(U64, LeaderLastIndex),		/* the last leader's log as last heard of, by anybody that answered; 0: never */
	(I64, LeaderContact),		/* ns ago; -1: not since the start */
	(U64, MayBeLost),		/* entries that the last leader is known to have had and this server has not */
	(U64, Voters), (U64, VotersAnswering),	/* this one included */
	(STR, Best),			/* name of the server that should be recovered instead; "" this one */
	(OBJS, Servers, raft_survivor),
	(BOOL, Done),			/* false: dry run, or refused */
	(STR, Refused))			/* why it cannot be done; "" it can */

/* -- keys of gossip -- */
enum keyring_what { KEYRING_LIST, KEYRING_INSTALL, KEYRING_USE, KEYRING_REMOVE };
RECORD(keyring_op,			/* OP_KEYRING: at the LAN pool of its datacenter */
	(U64, What),			/* enum keyring_what */
	(BIN, Key), (U64, RelayFactor),
	(BOOL, WAN))			/* and at the WAN pool */
RECORD(key_count, (STR, Key), (U64, Count))		/* base64 */
RECORD(key_message, (STR, Node), (STR, Text))
RECORD(keyring_pool,			/* element of OP_KEYRING's answer */
	(BOOL, WAN), (STR, Datacenter), (U64, NumNodes), (U64, NumResponses), (U64, NumErrors),
	(OBJS, Keys, key_count), (OBJS, PrimaryKeys, key_count), (OBJS, Messages, key_message),
	(STR, Error))			/* the pool was not asked, or could not be */

/* -- events -- */
RECORD(user_event,
	(STR, ID), (STR, Name), (BIN, Payload),
	(STR, NodeFilter), (STR, ServiceFilter), (STR, TagFilter),	/* patterns, "" for none */
	(U64, Version),			/* 1 */
	(U64, LTime))			/* 0 in the answer of OP_EVENT_FIRE */
RECORD(event_fire,
	(STR, Name), (BIN, Payload), (STR, NodeFilter), (STR, ServiceFilter), (STR, TagFilter),
	(BOOL, Coalesce))		/* receivers may tell only the newest of this name */

/* -- snapshots -- */
RECORD(snapshot_ask,			/* all of SNAPSHOT_*, RESTORE_OPEN ... RESTORE_STATUS */
	(STR, Server),			/* node id of who does it; "" at the beginning.  First: routing reads it */
	(STR, ID),			/* of the save or restore; "" at the beginning, or for the newest restore */
	(U64, Offset),			/* of the archive's bytes; RESTORE_APPLY: their number */
	(BIN, Data))			/* RESTORE_WRITE */
enum snapshot_phase {
	SNAPSHOT_PREPARING, SNAPSHOT_READY,
	RESTORE_RECEIVING, RESTORE_CHECKING, RESTORE_STAGING, RESTORE_LOADING, RESTORE_COMMITTING,
	RESTORE_DONE, RESTORE_FAILED, RESTORE_UNKNOWN, RESTORE_NONE,
};
RECORD(snapshot_state,			/* their answer */
	(STR, Server), (STR, ID),
	(U64, Phase),			/* enum snapshot_phase */
	(U64, Done), (U64, Total),	/* bytes of this phase; Total 0: not known */
	(U64, Index),			/* of the state that was saved, or since the restore */
	(BIN, Data),			/* SNAPSHOT_READ */
	(STR, Text))			/* why it failed */
RECORD(restore_step,			/* OP_RESTORE_BEGIN ... OP_RESTORE_ABORT, in the log */
	(STR, ID),			/* UUID */
	(U64, Bytes),			/* of the whole archive (BEGIN) */
	(BIN, Checksum),		/* BLAKE2b, 32 bytes, of the whole archive (BEGIN) */
	(U64, Offset),			/* of Data (CHUNK) */
	(BIN, Data))

/* -- small ones -- */
RECORD(bool_reply, (BOOL, Value))
RECORD(text_reply, (STR, Value))
RECORD(text_list, (STRS, Values))

#endif
