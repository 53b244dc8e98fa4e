/* See elsewhere.h. */
#include <stddef.h>
#include <string.h>

#include "common/conf/elsewhere.h"

#define TLS "nodes are proven by keys here, not by certificates: see clusterctl keygen"
#define TLS_KEY "for HTTPS it belongs in tls.https or tls.defaults of rpcd.conf; " TLS
#define TLS_OUT "it is not needed: " TLS
#define RPCD "it belongs in rpcd.conf"
#define RAFTD "it belongs in raftd.conf"
#define CLUSTER "it belongs in cluster.conf"
#define AUTOPILOT "it belongs in raftd.conf, without \"autopilot\"; later clusterctl raft autopilot set changes it"
#define OLD_TOKEN "it is one of acl.tokens in rpcd.conf"
#define METRICS "read them from /v1/agent/metrics: triumvir-metrics(7), and prometheus_retention_time in rpcd.conf"
#define SERVICES "it belongs in a file of services.d, see services.d(5)"
#define LOG "the log goes to standard error or syslog, see log_to in cluster.conf"
#define FIXED "there is no such key here, and none is needed"
#define NO_CONNECT "there is no service mesh here"

/* A key, or a block. */
static const struct { const char *key, *where; } all[] = {
	{ "bind_addr", "it is bind in cluster.conf" }, { "bind", CLUSTER },
	{ "advertise_addr", "it is advertise in cluster.conf" },
	{ "advertise_addr_ipv4", "it is advertise in cluster.conf" },
	{ "advertise_addr_ipv6", "it is advertise in cluster.conf" }, { "advertise", CLUSTER },
	{ "advertise_addr_wan", "it is advertise_wan in cluster.conf" }, { "advertise_wan", CLUSTER },
	{ "client_addr", "it is http_addresses, and dns_addresses, in rpcd.conf" },
	{ "addresses", "they are http_addresses, https_addresses and dns_addresses in rpcd.conf" },
	{ "ports", "they are http_port, https_port and dns_port in rpcd.conf, lan_port, wan_port, raft_port and "
	    "rpc_port in cluster.conf" },
	{ "serf_lan", "gossip binds to bind in cluster.conf" }, { "serf_wan", "gossip binds to bind in cluster.conf" },
	{ "bootstrap", RAFTD }, { "bootstrap_expect", RAFTD }, { "session_ttl_min", RAFTD },
	{ "autopilot", AUTOPILOT },
	{ "raft_snapshot_threshold", "it is snapshot_threshold in raftd.conf" },
	{ "raft_snapshot_interval", "it is snapshot_interval in raftd.conf" },
	{ "raft_trailing_logs", "it is trailing_logs in raftd.conf" },
	{ "performance", "it is election_timeout in raftd.conf, and rpc_hold_timeout in rpcd.conf" },
	{ "raft_protocol", FIXED }, { "protocol", FIXED }, { "raft_logstore", FIXED }, { "rpc", FIXED },
	{ "use_streaming_backend", FIXED }, { "disable_update_check", FIXED }, { "disable_keyring_file", FIXED },
	{ "enable_debug", FIXED }, { "disable_host_node_id", FIXED }, { "leave_on_terminate",
	    "stopping is never leaving here: clusterctl leave" },
	{ "skip_leave_on_interrupt", "stopping is never leaving here: clusterctl leave" },
	{ "encrypt", "the key is in cluster.key: clusterctl keygen makes one" },
	{ "encrypt_verify_incoming", "it is a stage of encryption in cluster.conf" },
	{ "encrypt_verify_outgoing", "it is a stage of encryption in cluster.conf" },
	{ "ca_file", TLS_KEY }, { "ca_path", TLS_KEY }, { "cert_file", TLS_KEY }, { "key_file", TLS_KEY },
	{ "tls.internal_rpc", TLS }, { "tls.grpc", "there is no gRPC here" },
	{ "tls.https.verify_outgoing", TLS_OUT },
	{ "tls.defaults.verify_outgoing", TLS_OUT }, { "tls.defaults.verify_server_hostname", TLS_OUT },
	{ "tls", "its blocks are defaults, https and checks, in rpcd.conf, for HTTPS and checks; nodes are proven by "
	    "keys: see clusterctl keygen" },
	{ "verify_incoming", TLS_KEY }, { "verify_incoming_https", "it is tls.https.verify_incoming in rpcd.conf" },
	{ "verify_incoming_rpc", TLS }, { "verify_outgoing", TLS },
	{ "verify_server_hostname", TLS }, { "auto_encrypt", TLS }, { "auto_config", TLS }, { "server_name", TLS },
	{ "tls_min_version", TLS_KEY }, { "tls_cipher_suites", TLS_KEY },
	{ "tls_prefer_server_cipher_suites", FIXED },
	{ "enable_agent_tls_for_checks", "it is tls.checks in rpcd.conf" },
	{ "acl_datacenter", "it is acl.primary_datacenter in cluster.conf" },
	{ "primary_datacenter", "it is acl.primary_datacenter in cluster.conf" },
	{ "acl.enabled", CLUSTER }, { "acl.default_policy", CLUSTER }, { "acl.enable_key_list_policy", CLUSTER },
	{ "acl.primary_datacenter", CLUSTER }, { "acl_default_policy", "it is acl.default_policy in cluster.conf" },
	{ "acl.tokens.master", "it is acl.tokens.initial_management in raftd.conf" },
	{ "acl.tokens.initial_management", RAFTD },
	{ "acl.tokens.agent_recovery", "it is acl.tokens.agent_master in rpcd.conf" },
	{ "acl.tokens", "they belong in rpcd.conf" }, { "acl.down_policy", RPCD }, { "acl.token_ttl", RPCD },
	{ "acl.policy_ttl", "it is acl.token_ttl in rpcd.conf" },
	{ "acl.role_ttl", "it is acl.token_ttl in rpcd.conf" },
	{ "acl.enable_token_persistence", RPCD },
	{ "acl.enable_token_replication", "acl.tokens.replication in rpcd.conf turns it on" },
	{ "enable_acl_replication", "acl.tokens.replication in rpcd.conf turns it on" },
	{ "acl", "it belongs in cluster.conf, and what concerns tokens in rpcd.conf" },
	{ "acl_down_policy", "it is acl.down_policy in rpcd.conf" }, { "acl_ttl", "it is acl.token_ttl in rpcd.conf" },
	{ "acl_token", OLD_TOKEN }, { "acl_agent_token", OLD_TOKEN }, { "acl_agent_master_token", OLD_TOKEN },
	{ "acl_replication_token", OLD_TOKEN },
	{ "acl_master_token", "it is acl.tokens.initial_management in raftd.conf" },
	{ "ui", "the pages are always served, at /ui/" }, { "ui_config", "the pages are always served, at /ui/" },
	{ "ui_dir", "the pages are always served, at /ui/" },
	{ "ui_content_path", "the pages are always served, at /ui/" },
	{ "telemetry", METRICS },
	{ "log_file", LOG },
	{ "log_rotate_bytes", LOG }, { "log_rotate_duration", LOG }, { "log_rotate_max_files", LOG },
	{ "log_json", LOG }, { "enable_syslog", LOG }, { "syslog_facility", LOG }, { "pid_file", FIXED },
	{ "start_join", "it is retry_join in cluster.conf" },
	{ "start_join_wan", "it is retry_join_wan in cluster.conf" },
	{ "retry_max", FIXED }, { "retry_max_wan", FIXED }, { "rejoin_after_leave", FIXED },
	{ "retry_interval_wan", "it is retry_interval in cluster.conf" },
	{ "reconnect_timeout_wan", "it is reconnect_timeout in gossipd.conf" },
	{ "gossip_lan", "see profile in gossipd.conf" }, { "gossip_wan", "see profile_wan in gossipd.conf" },
	{ "service", SERVICES }, { "services", SERVICES }, { "check", SERVICES }, { "checks", SERVICES },
	{ "watch", "clusterctl watch runs programs when something changes" },
	{ "watches", "clusterctl watch runs programs when something changes" },
	{ "connect", NO_CONNECT }, { "config_entries", NO_CONNECT }, { "peering", NO_CONNECT },
	{ "enable_central_service_config", NO_CONNECT }, { "primary_gateways", NO_CONNECT },
	{ "http_config.response_headers", "it is response_headers in rpcd.conf" },
	{ "limits.rpc_rate", "rates are limits.request_limits" },
	{ "limits.rpc_max_burst", "rates are limits.request_limits" },
	{ "http_config", RPCD }, { "limits", RPCD },
	{ "unix_sockets", "rpcd.sock is for root and the group triumvir" },
	{ "node_id", "it is in the file node-id of data_dir" },
	{ "ae_interval", "it is sync_interval in rpcd.conf" },
	{ "disable_remote_exec", "there is no remote execution here" },
	{ "snapshot_agent", "clusterctl snapshot save, from a timer, does that" },
	{ "node_name", CLUSTER }, { "datacenter", CLUSTER }, { "server", CLUSTER }, { "data_dir", CLUSTER },
	{ "retry_join", CLUSTER }, { "retry_join_wan", CLUSTER }, { "retry_interval", CLUSTER },
	{ "node_meta", CLUSTER }, { "tagged_addresses", CLUSTER }, { "log_level", CLUSTER },
	{ "http_addresses", RPCD }, { "http_port", RPCD },
	{ "https_addresses", RPCD }, { "https_port", RPCD }, { "dns_addresses", RPCD }, { "dns_port", RPCD },
	{ "domain", RPCD }, { "alt_domain", RPCD }, { "recursors", RPCD }, { "dns_config", RPCD },
	{ "enable_script_checks", RPCD }, { "enable_local_script_checks", RPCD },
	{ "translate_wan_addrs", RPCD }, { "check_update_interval", RPCD }, { "check_output_max_size", RPCD },
	{ "default_query_time", RPCD }, { "max_query_time", RPCD }, { "discovery_max_stale", RPCD },
	{ "disable_coordinates", RPCD }, { "reconnect_timeout", "it belongs in gossipd.conf" },
};

const char *
conf_elsewhere(const char *key)
{
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(key, all[i].key) == 0)
			return all[i].where;
	return NULL;
}
