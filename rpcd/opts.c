/* The table of rpcd.conf. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/base/addr.h"
#include "common/conf/cluster_conf.h"
#include "rpcd/opts.h"

#define REQUEST_OVERHEAD 4096		/* of an operation beside key and value */

#define F(field_) offsetof(struct rpcd_conf, field_)
#define TLS(use_, field_) F(tls[RPCD_TLS_##use_].field_)

/* Of a block of tls: files, all live, since they are read anew whenever they change. */
#define TLS_FILES(block_, use_, whose_) \
	{ "tls." block_ ".cert_file", CONF_PATH, TLS(use_, cert_file), NULL, NULL, NULL, NULL, CONF_LIVE, \
	    "certificate " whose_ ", and behind it those that lead to its issuer: PEM" }, \
	{ "tls." block_ ".key_file", CONF_PATH, TLS(use_, key_file), NULL, NULL, NULL, NULL, CONF_LIVE, \
	    "its private key: PEM, not encrypted" }, \
	{ "tls." block_ ".ca_file", CONF_PATH, TLS(use_, ca_file), NULL, NULL, NULL, NULL, CONF_LIVE, \
	    "certificates of those who vouch for the other side: PEM" }, \
	{ "tls." block_ ".ca_path", CONF_PATH, TLS(use_, ca_path), NULL, NULL, NULL, NULL, CONF_LIVE, \
	    "the same: a folder of such files" }
/* Of those that are for who connects to us. */
#define TLS_INCOMING(block_, use_) \
	{ "tls." block_ ".verify_incoming", CONF_BOOL, TLS(use_, verify_incoming), "false", NULL, NULL, NULL, \
	    CONF_LIVE, "only clients with a certificate of ca_file or ca_path are let in" }, \
	{ "tls." block_ ".verify_incoming", CONF_GIVEN, TLS(use_, verify_incoming_given), NULL, NULL, NULL, NULL, \
	    CONF_LIVE, "whether the file says so" }, \
	{ "tls." block_ ".tls_min_version", CONF_CHOICE, TLS(use_, min_version), "TLSv1_2", NULL, NULL, \
	    "TLSv1_2|TLSv1_3", CONF_LIVE, "older versions of TLS are refused" }, \
	{ "tls." block_ ".tls_min_version", CONF_GIVEN, TLS(use_, min_version_given), NULL, NULL, NULL, NULL, \
	    CONF_LIVE, "whether the file says so" }, \
	{ "tls." block_ ".tls_cipher_suites", CONF_LIST, TLS(use_, suites), NULL, NULL, NULL, NULL, CONF_LIVE, \
	    "suites of TLS 1.2; none: all that are good; those of TLS 1.3 cannot be chosen" }

const struct conf_opt rpcd_opts[] = {
	/* key, type, field, default, min, max, choices, on reload, help */
	{ "http_addresses", CONF_LIST, F(http_addresses), "127.0.0.1", NULL, NULL, NULL, CONF_RESTART,
	    "addresses of the HTTP API" },
	{ "http_port", CONF_PORT, F(http_port), "8500", "0", NULL, NULL, CONF_RESTART,
	    "port of the HTTP API; 0: only the unix socket rpcd.sock" },
	{ "http_allow_remote", CONF_BOOL, F(http_allow_remote), "false", NULL, NULL, NULL, CONF_RESTART,
	    "http_addresses may be other than loopback: in plaintext, tokens too; open to all without access control" },
	{ "http_admin", CONF_BOOL, F(http_admin), "false", NULL, NULL, NULL, CONF_LIVE,
	    "serve administrative requests over TCP too; off: only over the unix socket rpcd.sock" },
	{ "http_allow_plaintext_tokens", CONF_BOOL, F(http_plaintext_tokens), "false", NULL, NULL, NULL, CONF_LIVE,
	    "take tokens over plain HTTP from other machines, where others can read them on the way" },
	{ "http_hosts", CONF_LIST, F(http_hosts), NULL, NULL, NULL, NULL, CONF_LIVE,
	    "public host names that are served, at every address; guards against DNS rebinding" },
	{ "http_origins", CONF_LIST, F(http_origins), NULL, NULL, NULL, NULL, CONF_LIVE,
	    "other sites, as \"https://ui.example.com\", whose pages may send requests" },
	{ "response_headers", CONF_LIST, F(response_headers), NULL, NULL, NULL, NULL, CONF_RESTART,
	    "\"Name: value\" headers added to every answer" },
	{ "http_idle_timeout", CONF_DURATION, F(http_idle_timeout), "2m", "1s", "24h", NULL, CONF_RESTART,
	    "time for a request's head, for its body, and for reading the answer; blocking queries do not count" },
	{ "https_addresses", CONF_LIST, F(https_addresses), NULL, NULL, NULL, NULL, CONF_RESTART,
	    "addresses of the HTTP API over TLS; without any those of http_addresses" },
	{ "https_port", CONF_PORT, F(https_port), "0", "0", NULL, NULL, CONF_RESTART,
	    "port of the HTTP API over TLS, 8501 where it is used; 0: off" },
	TLS_FILES("defaults", DEFAULTS, "of this node"),
	TLS_INCOMING("defaults", DEFAULTS),
	TLS_FILES("https", HTTPS, "of HTTPS"),
	TLS_INCOMING("https", HTTPS),
	{ "tls.https.ask_incoming", CONF_BOOL, TLS(HTTPS, ask_incoming), "false", NULL, NULL, NULL, CONF_LIVE,
	    "clients are asked for a certificate, and let in without one; one that is shown must be right" },
	TLS_FILES("checks", CHECKS, "that HTTP, gRPC, H2PING and TCP checks show"),
	{ "dns_addresses", CONF_LIST, F(dns_addresses), NULL, NULL, NULL, NULL, CONF_RESTART,
	    "addresses of the DNS interface; without any those of http_addresses" },
	{ "dns_port", CONF_PORT, F(dns_port), "8600", "0", NULL, NULL, CONF_RESTART,
	    "UDP and TCP port of the DNS interface; 0: off" },
	{ "domain", CONF_NAME, F(domain), "consul", NULL, NULL, NULL, CONF_LIVE,
	    "DNS names that are ours end in this" },
	{ "alt_domain", CONF_NAME, F(alt_domain), NULL, NULL, NULL, NULL, CONF_LIVE,
	    "or in this" },
	{ "recursors", CONF_LIST, F(recursors), NULL, NULL, NULL, NULL, CONF_LIVE,
	    "DNS servers that are asked for all other names: addresses, perhaps with a port; none: refused" },
	{ "translate_wan_addrs", CONF_BOOL, F(translate_wan_addrs), "false", NULL, NULL, NULL, CONF_LIVE,
	    "answers about other datacenters, DNS and HTTP, have WAN addresses, where there are any" },

	{ "dns_config.allow_stale", CONF_BOOL, F(dns_allow_stale), "true", NULL, NULL, NULL, CONF_LIVE,
	    "any server answers, from what it knows" },
	{ "dns_config.max_stale", CONF_DURATION, F(dns_max_stale), "87600h", "0s", "876000h", NULL, CONF_LIVE,
	    "what a server knows may be this old; beyond it the leader is asked" },
	{ "dns_config.use_cache", CONF_BOOL, F(dns_use_cache), "true", NULL, NULL, NULL, CONF_LIVE,
	    "answer from this node's memory, which follows the catalog; with allow_stale only" },
	{ "dns_config.cache_max_age", CONF_DURATION, F(dns_cache_max_age), "0s", "0s", "87600h", NULL, CONF_LIVE,
	    "what is in memory may be this old; 0: up to max_stale, and prepared queries are asked each time" },
	{ "dns_config.node_ttl", CONF_DURATION, F(node_ttl), "0s", "0s", "87600h", NULL, CONF_LIVE,
	    "TTL of addresses of nodes" },
	{ "dns_config.service_ttl", CONF_TIMES, F(service_ttl), NULL, NULL, NULL, NULL, CONF_LIVE,
	    "TTL of services by name, or by the beginning of it: \"web*\" = 10s" },
	{ "dns_config.enable_truncate", CONF_BOOL, F(dns_truncate), "false", NULL, NULL, NULL, CONF_LIVE,
	    "say so (TC) where answers were left out" },
	{ "dns_config.only_passing", CONF_BOOL, F(dns_only_passing), "false", NULL, NULL, NULL, CONF_LIVE,
	    "instances with a warning are left out, too" },
	{ "dns_config.recursor_timeout", CONF_DURATION, F(recursor_timeout), "2s", "10ms", "1m", NULL, CONF_LIVE,
	    "wait for each of the recursors" },
	{ "dns_config.recursor_strategy", CONF_CHOICE, F(recursor_strategy), "sequential", NULL, NULL,
	    "sequential|random", CONF_LIVE, "which of the recursors is asked first" },
	{ "dns_config.allow_recursion_from", CONF_LIST, F(recursion_from), NULL, NULL, NULL, NULL, CONF_LIVE,
	    "networks, as 10.0.0.0/8, whose clients may ask the recursors; this host always may" },
	{ "dns_config.disable_compression", CONF_BOOL, F(dns_no_compression), "false", NULL, NULL, NULL, CONF_LIVE,
	    "names are written in full" },
	{ "dns_config.udp_answer_limit", CONF_U64, F(udp_answer_limit), "3", "0", "1000000", NULL, CONF_LIVE,
	    "records in a UDP answer without EDNS; above 8 it is 8" },
	{ "dns_config.a_record_limit", CONF_U64, F(a_record_limit), "0", "0", "1000000", NULL, CONF_LIVE,
	    "addresses in any answer; 0: no limit" },
	{ "dns_config.enable_additional_node_meta_txt", CONF_BOOL, F(dns_node_meta), "true", NULL, NULL, NULL,
	    CONF_LIVE, "metadata of nodes as additional TXT records" },
	{ "dns_config.equal_answers_per_second", CONF_U64, F(dns_equal_answers), "500", "0", "1000000", NULL,
	    CONF_LIVE, "over UDP to one network, an IPv4 /24 or IPv6 /64; 0: no limit" },
	{ "dns_config.soa.refresh", CONF_DURATION, F(soa_refresh), "1h", "0s", "87600h", NULL, CONF_LIVE,
	    "of the zone" },
	{ "dns_config.soa.retry", CONF_DURATION, F(soa_retry), "10m", "0s", "87600h", NULL, CONF_LIVE, "of the zone" },
	{ "dns_config.soa.expire", CONF_DURATION, F(soa_expire), "24h", "0s", "87600h", NULL, CONF_LIVE,
	    "of the zone" },
	{ "dns_config.soa.min_ttl", CONF_DURATION, F(soa_min_ttl), "0s", "0s", "87600h", NULL, CONF_LIVE,
	    "TTL of the SOA, and so of answers that there is no such name" },

	{ "limits.dns_max_conns", CONF_U64, F(dns_max_conns), "4096", "1", "60000", NULL, CONF_RESTART,
	    "TCP connections of all DNS clients; the one that got no further for longest makes room" },
	{ "limits.dns_max_conns_per_client", CONF_U64, F(dns_max_conns_per_client), "128", "1", "60000", NULL,
	    CONF_LIVE, "TCP connections of one DNS client, an IPv4 address or an IPv6 /64" },

	{ "limits.http_max_conns", CONF_U64, F(http_max_conns), "8192", "1", "1000000", NULL, CONF_RESTART,
	    "HTTP connections to one address of ours; beyond it the one that has been idle longest is closed" },
	{ "limits.http_max_conns_per_client", CONF_U64, F(http_max_conns_per_client), "200", "1", "1000000", NULL,
	    CONF_LIVE,
	    "HTTP connections of one client, an IPv4 address or an IPv6 /64; further ones get 429" },
	{ "limits.https_handshake_timeout", CONF_DURATION, F(https_handshake_timeout), "5s", "100ms", "1m", NULL,
	    CONF_LIVE, "a connection over TLS whose handshake has not ended is closed after this" },
	{ "limits.http2_max_streams_per_client", CONF_U64, F(http2_max_streams_per_client), "4096", "1", "1000000",
	    NULL, CONF_LIVE,
	    "requests over HTTP/2 of one client at the same time, over all its connections; further ones get 429" },
	{ "limits.header_bytes_max", CONF_SIZE, F(header_bytes_max), "16k", "4k", "64k", NULL, CONF_RESTART,
	    "request line and headers" },
	{ "limits.body_bytes_max", CONF_SIZE, F(body_bytes_max), "1M", "1k", "32M", NULL, CONF_LIVE,
	    "JSON body of a request" },
	{ "limits.bodies_bytes_max", CONF_SIZE, F(bodies_bytes_max), "128M", "1k", "64G", NULL, CONF_LIVE,
	    "bodies of requests that are being received, together; beyond it the client that holds most gets 503" },
	{ "limits.kv_max_value_size", CONF_SIZE, F(kv_max_value_size), "524288", "1", "16M", NULL, CONF_LIVE,
	    "value of a key" },
	{ "limits.txn_max_req_len", CONF_SIZE, F(txn_max_req_len), "524288", "1", "16M", NULL, CONF_LIVE,
	    "body of a transaction; limits.kv_max_value_size, if that is larger" },
	{ "limits.body_discard_max", CONF_SIZE, F(body_discard_max), "8M", "0", "1G", NULL, CONF_LIVE,
	    "a longer body is not even read to its end: the connection is closed after the answer" },
	{ "limits.answer_bytes_max", CONF_SIZE, F(answer_bytes_max), "64M", "1M", "64M", NULL, CONF_LIVE,
	    "body of an answer" },
	{ "limits.filter_time_max", CONF_DURATION, F(filter_time_max), "1s", "10ms", "1m", NULL, CONF_LIVE,
	    "work that one answer's ?filter may be" },
	{ "limits.answers_bytes_max", CONF_SIZE, F(answers_bytes_max), "512M", "64M", "64G", NULL, CONF_RESTART,
	    "answers above 64k that wait to be sent, together; further ones are refused with 503" },
	{ "limits.gzip_bytes_max", CONF_SIZE, F(gzip_bytes_max), "1M", "0", "64M", NULL, CONF_LIVE,
	    "a longer answer is sent as it is: packing takes 30 ms per megabyte, and all wait; 0: never packed" },
	{ "limits.request_bytes_max", CONF_SIZE, F(request_bytes_max), "2M", "64k", "32M", NULL, CONF_RESTART,
	    "one operation on its way to a server; as in raftd.conf, and the same on all nodes" },
	{ "limits.snapshot_bytes_max", CONF_SIZE, F(snapshot_bytes_max), "16G", "1M", "1024G", NULL, CONF_LIVE,
	    "archive that a client may restore; restore_bytes_max in raftd.conf bounds it too" },
	{ "limits.calls_pending_max", CONF_U64, F(calls_pending_max), "16384", "16", "1000000", NULL, CONF_RESTART,
	    "requests under way at once, blocking ones included" },
	{ "limits.calls_bytes_max", CONF_SIZE, F(calls_bytes_max), "128M", "64k", "64G", NULL, CONF_RESTART,
	    "requests under way, together; further ones are refused with 503" },
	{ "limits.cache_bytes_max", CONF_SIZE, F(cache_bytes_max), "64M", "256k", "64G", NULL, CONF_LIVE,
	    "answers kept for ?cached and DNS; beyond it the client that has most of them loses the oldest" },
	{ "limits.request_limits.mode", CONF_CHOICE, F(request_mode), "disabled", NULL, NULL,
	    "disabled|permissive|enforcing", CONF_LIVE,
	    "what becomes of requests beyond a rate: enforcing refuses them, permissive logs and counts them" },
#define RATE(key_, limit_, kind_, help_) { "limits.request_limits." key_, CONF_RATE, \
	    F(request_rates[limit_][kind_]), "-1", "0.001", "1000000", NULL, CONF_LIVE, help_ }
	RATE("read_rate", LIMIT_ALL, 0, "reads of all clients of this node, a second; ten times as many at once"),
	RATE("write_rate", LIMIT_ALL, 1, "writes, likewise"),
	RATE("source_read_rate", LIMIT_SOURCE, 0, "reads of one client, an IPv4 address or an IPv6 /64"),
	RATE("source_write_rate", LIMIT_SOURCE, 1, "writes, likewise"),
	RATE("token_read_rate", LIMIT_TOKEN, 0, "reads with one token; requests without one are not counted"),
	RATE("token_write_rate", LIMIT_TOKEN, 1, "writes, likewise"),
#undef RATE
	{ "limits.members_max", CONF_U64, F(members_max), "20000", "1", "1000000", NULL, CONF_RESTART,
	    "members of one gossip pool" },
	{ "limits.links_max", CONF_U64, F(links_max), "256", "1", "65536", NULL, CONF_RESTART,
	    "links to other nodes" },
	{ "limits.link_pending_max", CONF_U64, F(link_pending_max), "16384", "16", "1000000", NULL, CONF_RESTART,
	    "requests under way on one link" },
	{ "limits.link_out_bytes_max", CONF_SIZE, F(link_out_bytes_max), "128M", "1M", "1G", NULL, CONF_RESTART,
	    "bytes that wait to be sent on one link" },
	{ "limits.rpc_max_conns", CONF_U64, F(rpc_max_conns), "16384", "1", "1000000", NULL, CONF_RESTART,
	    "links from other nodes (servers)" },

	{ "default_query_time", CONF_DURATION, F(default_query_time), "5m", "1s", "24h", NULL, CONF_LIVE,
	    "a blocking query without wait ends after this" },
	{ "max_query_time", CONF_DURATION, F(max_query_time), "10m", "1s", "24h", NULL, CONF_LIVE,
	    "longest wait of a blocking query" },
	{ "rpc_hold_timeout", CONF_DURATION, F(rpc_hold_timeout), "7s", "0s", "10m", NULL, CONF_RESTART,
	    "how long requests are held while no leader is known" },
	{ "answer_timeout", CONF_DURATION, F(answer_timeout), "30s", "1s", "10m", NULL, CONF_RESTART,
	    "longest wait for the answer to a request that does not block" },
	{ "failover_timeout", CONF_DURATION, F(failover_timeout), "2s", "10ms", "1m", NULL, CONF_LIVE,
	    "a prepared query waits so long for another datacenter before it asks the next one" },
	{ "discovery_max_stale", CONF_DURATION, F(discovery_max_stale), "0s", "0s", "8760h", NULL, CONF_LIVE,
	    "catalog and health reads may be this old; 0: never stale unless asked" },
	{ "prometheus_retention_time", CONF_DURATION, F(prometheus_retention_time), "360h", "0s", "8760h", NULL,
	    CONF_LIVE, "0: /v1/agent/metrics?format=prometheus is not served" },
	{ "disable_coordinates", CONF_BOOL, F(disable_coordinates), "false", NULL, NULL, NULL, CONF_LIVE,
	    "neither report this node's coordinate nor serve those of other nodes" },
	{ "disable_http_unprintable_char_filter", CONF_BOOL, F(disable_unprintable_filter), "false", NULL, NULL, NULL,
	    CONF_LIVE, "take paths with characters that cannot be printed, as keys of old clusters may have" },

	{ "http_config.use_cache", CONF_BOOL, F(use_cache), "true", NULL, NULL, NULL, CONF_LIVE,
	    "answer requests with ?cached from this node's memory; off: ?cached is ignored" },
	{ "http_config.block_endpoints", CONF_LIST, F(block_endpoints), NULL, NULL, NULL, NULL, CONF_LIVE,
	    "paths that begin so, as \"/v1/acl\", are not served over TCP: 403" },
	{ "http_config.allow_write_http_from", CONF_LIST, F(allow_write_from), NULL, NULL, NULL, NULL, CONF_LIVE,
	    "networks, as 10.0.0.0/8, that may send requests other than GET over TCP; none: all may" },
	{ "cache_ttl", CONF_DURATION, F(cache_ttl), "72h", "1s", "8760h", NULL, CONF_LIVE,
	    "an answer kept for ?cached or DNS that nobody asked for so long is dropped, and no longer kept fresh" },

	{ "acl.down_policy", CONF_CHOICE, F(acl_down), "extend-cache", NULL, NULL,
	    "extend-cache|async-cache|deny|allow", CONF_LIVE, "what requests may do while no server can be asked" },
	{ "acl.token_ttl", CONF_DURATION, F(acl_token_ttl), "30s", "0s", "24h", NULL, CONF_LIVE,
	    "what servers said about a token holds so long on an agent; a server asks its own state each time" },
	{ "acl.enable_token_persistence", CONF_BOOL, F(acl_persist), "false", NULL, NULL, NULL, CONF_LIVE,
	    "tokens that PUT /v1/agent/token/ sets are kept over restarts" },
	{ "acl.tokens.default", CONF_SECRET, F(acl_tokens[RPCD_TOKEN_DEFAULT]), NULL, NULL, NULL, NULL, CONF_LIVE,
	    "token of requests that show none, and of DNS" },
	{ "acl.tokens.agent", CONF_SECRET, F(acl_tokens[RPCD_TOKEN_AGENT]), NULL, NULL, NULL, NULL, CONF_LIVE,
	    "token of this node's own work; without one acl.tokens.default" },
	{ "acl.tokens.agent_master", CONF_SECRET, F(acl_tokens[RPCD_TOKEN_AGENT_MASTER]), NULL, NULL, NULL, NULL,
	    CONF_LIVE, "whoever shows it administers this node, whether servers can be asked or not" },
	{ "acl.tokens.replication", CONF_SECRET, F(acl_tokens[RPCD_TOKEN_REPLICATION]), NULL, NULL, NULL, NULL,
	    CONF_LIVE, "with it servers of another datacenter read policies, roles and tokens of the primary" },
	{ "acl.tokens.config_file_service_registration", CONF_SECRET, F(acl_tokens[RPCD_TOKEN_CONFIG_FILE]), NULL, NULL,
	    NULL, NULL, CONF_LIVE, "token of what services.d defines without one; without it acl.tokens.agent" },
	{ "audit.to", CONF_CHOICE, F(audit_to), "auto", NULL, NULL, "auto|off|log|file", CONF_LIVE,
	    "where it is told who did what; auto: log where cluster.conf has acl.enabled = true, else off" },
	{ "audit.file", CONF_NAME, F(audit_file), "audit.log", NULL, NULL, NULL, CONF_LIVE,
	    "the file of audit.to = file, in data_dir/rpcd; a name that ends in .log" },
	{ "audit.reads", CONF_BOOL, F(audit_reads), "false", NULL, NULL, NULL, CONF_LIVE,
	    "requests that only read are told as well" },
	{ "audit.denials", CONF_BOOL, F(audit_denials), "true", NULL, NULL, NULL, CONF_LIVE,
	    "requests that were denied are told" },

	{ "link_dial_timeout", CONF_DURATION, F(link_dial_timeout), "3s", "100ms", "1m", NULL, CONF_RESTART,
	    "connect and handshake with another node" },
	{ "link_idle_timeout", CONF_DURATION, F(link_idle_timeout), "5m", "1s", "24h", NULL, CONF_RESTART,
	    "an unused link is closed" },
	{ "leave_timeout", CONF_DURATION, F(leave_timeout), "15s", "1s", "10m", NULL, CONF_RESTART,
	    "each step of a graceful leave" },
	{ "admin_timeout", CONF_DURATION, F(admin_timeout), "10s", "1s", "10m", NULL, CONF_RESTART,
	    "join, force-leave, info" },

	{ "checks_max", CONF_U64, F(checks_max), "4096", "1", "1000000", NULL, CONF_RESTART,
	    "checks registered on this node, and as many services" },
	{ "check_runs_max", CONF_U64, F(check_runs_max), "1024", "1", "16384", NULL, CONF_RESTART,
	    "checks that run at once; others wait until one ends" },
	{ "enable_script_checks", CONF_BOOL, F(enable_script_checks), "false", NULL, NULL, NULL, CONF_RESTART,
	    "checks may be scripts, registered over HTTP too: who reaches the API runs programs, as the user _check" },
	{ "enable_local_script_checks", CONF_BOOL, F(enable_local_script_checks), "false", NULL, NULL, NULL,
	    CONF_RESTART, "checks may be scripts, if a file in services.d defines them" },
	{ "docker_socket", CONF_PATH, F(docker_socket), NULL, NULL, NULL, NULL, CONF_RESTART,
	    "checks may be programs in containers: the socket of docker, through which anybody is root" },
	{ "follow_redirects", CONF_BOOL, F(follow_redirects), "false", NULL, NULL, NULL, CONF_RESTART,
	    "HTTP checks follow redirects to other hosts too" },
	{ "check_output_max_size", CONF_SIZE, F(check_output_max_size), "4096", "1", "1M", NULL, CONF_RESTART,
	    "output kept of a check" },
	{ "check_update_interval", CONF_DURATION, F(check_update_interval), "5m", "0s", "24h", NULL, CONF_RESTART,
	    "a change of output alone goes to the servers no sooner" },
	{ "check_sync_wait", CONF_DURATION, F(check_sync_wait), "500ms", "0s", "1m", NULL, CONF_RESTART,
	    "a change of a service or check is answered when the servers have it, or after this" },
	{ "sync_interval", CONF_DURATION, F(sync_interval), "1m", "1s", "24h", NULL, CONF_RESTART,
	    "comparison of this node's services and checks with the catalog; a random part is added" },
};
const size_t rpcd_opt_count = sizeof(rpcd_opts) / sizeof(rpcd_opts[0]);

/* "Name: value" with a token for a name and no control characters in the value. */
static bool
is_header(const char *text)
{
	size_t name = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~");

	if (name == 0 || text[name] != ':')
		return false;
	for (const char *p = text + name; *p != '\0'; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return false;
	return true;
}

/* "scheme://host" or "scheme://host:port", as browsers write it: no path, no final slash. */
static bool
is_origin(const char *text)
{
	size_t scheme = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789+-.");
	const char *place = text + scheme + 3;

	return scheme > 0 && strncmp(text + scheme, "://", 3) == 0 && place[0] != '\0' &&
	    strpbrk(place, "/?#@ \\*") == NULL;
}

static enum tv_err
check_origins(const struct rpcd_conf *c, char *errbuf, size_t cap)
{
	for (size_t i = 0; i < c->http_origins.count; i++)
		if (!is_origin(c->http_origins.items[i]))
			return tv_fail(errbuf, cap, TV_EINVAL, "http_origins: \"%s\" is not of the form "
			    "\"https://host:port\", without a path", c->http_origins.items[i]);
	return TV_OK;
}

const char *
rpcd_conf_clear_address(const struct rpcd_conf *c)
{
	for (size_t i = 0; i < c->http_addresses.count && c->http_port != 0; i++)
		if (!cluster_addr_is_loopback(c->http_addresses.items[i]))
			return c->http_addresses.items[i];
	return NULL;
}

static enum tv_err
check_addresses(const struct rpcd_conf *c, char *errbuf, size_t cap)
{
	const char *clear = c->http_allow_remote ? NULL : rpcd_conf_clear_address(c);

	for (size_t i = 0; i < c->http_addresses.count; i++)
		if (!addr_parse(c->http_addresses.items[i], 0, NULL))
			return tv_fail(errbuf, cap, TV_EINVAL, "http_addresses: \"%s\" is not an IP address",
			    c->http_addresses.items[i]);
	return clear == NULL ? TV_OK :
	    tv_fail(errbuf, cap, TV_EPERM, "http_addresses: %s is open to other machines, in plaintext, tokens too, "
	    "and without access control any client that reaches it can read and write all data: http_allow_remote = "
	    "true serves it there all the same", clear);
}

/* Each answer has its own, or is framed by it. */
static bool
is_ours(const char *text)
{
	static const char *const names[] = { "Connection:", "Content-Length:", "Date:", "Transfer-Encoding:" };
	bool found = false;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		found = found || strncasecmp(text, names[i], strlen(names[i])) == 0;
	return found;
}

static enum tv_err
check_headers(const struct conf_list *list, char *errbuf, size_t cap)
{
	for (size_t i = 0; i < list->count; i++) {
		if (!is_header(list->items[i]))
			return tv_fail(errbuf, cap, TV_EINVAL, "response_headers: \"%s\" is not of the form "
			    "\"Name: value\"", list->items[i]);
		if (is_ours(list->items[i]))
			return tv_fail(errbuf, cap, TV_EINVAL, "response_headers: \"%s\": every answer has one of its "
			    "own; leave it out", list->items[i]);
	}
	return TV_OK;
}

static enum tv_err
check_gates(const struct rpcd_conf *c, char *errbuf, size_t cap)
{
	struct addr_net net;

	for (size_t i = 0; i < c->block_endpoints.count; i++)
		if (c->block_endpoints.items[i][0] != '/')
			return tv_fail(errbuf, cap, TV_EINVAL, "http_config.block_endpoints: \"%s\" is no path (write "
			    "\"/v1/acl\")", c->block_endpoints.items[i]);
	for (size_t i = 0; i < c->allow_write_from.count; i++)
		if (!addr_net_parse(span_str(c->allow_write_from.items[i]), &net))
			return tv_fail(errbuf, cap, TV_EINVAL, "http_config.allow_write_http_from: \"%s\" is not a "
			    "network (write 10.0.0.0/8)", c->allow_write_from.items[i]);
	return TV_OK;
}

/* Other files in that folder have other names. */
static enum tv_err
check_audit(const struct rpcd_conf *c, char *errbuf, size_t cap)
{
	size_t n = strlen(c->audit_file);

	if (c->audit_file[0] != '.' && n > 4 && strcmp(c->audit_file + n - 4, ".log") == 0)
		return TV_OK;
	return tv_fail(errbuf, cap, TV_EINVAL, "audit.file: \"%s\" does not end in \".log\", or begins with a dot",
	    c->audit_file);
}

enum tv_err
rpcd_conf_check(const struct rpcd_conf *c, char *errbuf, size_t cap)
{
	enum tv_err err = check_addresses(c, errbuf, cap);

	if (err != TV_OK || (err = check_origins(c, errbuf, cap)) != TV_OK ||
	    (err = check_headers(&c->response_headers, errbuf, cap)) != TV_OK ||
	    (err = check_gates(c, errbuf, cap)) != TV_OK || (err = check_audit(c, errbuf, cap)) != TV_OK ||
	    (err = rpcd_conf_check_tls(c, errbuf, cap)) != TV_OK)
		return err;
	if (c->bodies_bytes_max < c->body_bytes_max || c->bodies_bytes_max < c->kv_max_value_size ||
	    c->bodies_bytes_max < c->txn_max_req_len)
		return tv_fail(errbuf, cap, TV_EINVAL, "limits.bodies_bytes_max must hold one body: "
		    "limits.body_bytes_max, limits.kv_max_value_size and limits.txn_max_req_len");
	for (unsigned i = 0; i < 2; i++)
		if ((i == 0 ? c->kv_max_value_size : c->txn_max_req_len) + c->header_bytes_max + REQUEST_OVERHEAD >
		    c->request_bytes_max)
			return tv_fail(errbuf, cap, TV_EINVAL, "limits.request_bytes_max must hold limits.%s, "
			    "limits.header_bytes_max and %d more", i == 0 ? "kv_max_value_size" : "txn_max_req_len",
			    REQUEST_OVERHEAD);
	if (c->default_query_time.ns > c->max_query_time.ns)
		return tv_fail(errbuf, cap, TV_EINVAL, "default_query_time is longer than max_query_time");
	return TV_OK;
}
