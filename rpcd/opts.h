/*
 * rpcd.conf: every limit, port and time of rpcd.
 */
#ifndef TV_RPCD_OPTS_H
#define TV_RPCD_OPTS_H

#include "common/conf/conf.h"

/* In the order of the option's choices. */
enum rpcd_acl_down { ACL_DOWN_EXTEND_CACHE, ACL_DOWN_ASYNC_CACHE, ACL_DOWN_DENY, ACL_DOWN_ALLOW };
/* Tokens of this agent. */
enum rpcd_token {
	RPCD_TOKEN_DEFAULT,		/* of requests without one, and of DNS */
	RPCD_TOKEN_AGENT,		/* of this node's own work; else the default one */
	RPCD_TOKEN_AGENT_MASTER,	/* gives agent write here, without servers */
	RPCD_TOKEN_REPLICATION,
	RPCD_TOKEN_CONFIG_FILE,		/* of what services.d defines without one; else the agent's */
	RPCD_TOKENS
};
/* Blocks of tls: what it is used for. */
enum rpcd_tls_use { RPCD_TLS_DEFAULTS, RPCD_TLS_HTTPS, RPCD_TLS_CHECKS, RPCD_TLS_USES };
/* In the order of the option's choices. */
enum rpcd_tls_version { RPCD_TLS_1_2, RPCD_TLS_1_3 };
/* One of these blocks, as the file has it. */
struct rpcd_tls {
	char *cert_file, *key_file;	/* NULL: none */
	char *ca_file, *ca_path;	/* a file, or a folder of such files; one at most */
	bool verify_incoming, verify_incoming_given;	/* who connects shows a certificate of these */
	bool ask_incoming;		/* is asked for one, and may have none; HTTPS alone */
	int min_version;		/* enum rpcd_tls_version */
	bool min_version_given;
	struct conf_list suites;	/* of TLS 1.2, by Consul's names, each with commas perhaps; none: ours */
};
/* In the order of the option's choices. */
enum request_mode { REQUESTS_DISABLED, REQUESTS_PERMISSIVE, REQUESTS_ENFORCING };
/* Whose requests a limit counts: those of all clients, of each address, of each token. */
enum request_limit { LIMIT_ALL, LIMIT_SOURCE, LIMIT_TOKEN, REQUEST_LIMITS };
/* In the order of the option's choices. */
enum audit_to { AUDIT_TO_AUTO, AUDIT_TO_OFF, AUDIT_TO_LOG, AUDIT_TO_FILE };

struct rpcd_conf {
	/* listeners */
	struct conf_list http_addresses;
	uint16_t http_port;			/* 0: no HTTP over TCP */
	struct conf_list https_addresses;	/* none: those of HTTP; see rpcd_https_addresses() */
	uint16_t https_port;			/* 0: no HTTPS */
	uint16_t dns_port;			/* 0: no DNS */
	struct conf_list dns_addresses;		/* none: those of HTTP */
	struct conf_list response_headers;	/* "Name: value" */
	bool http_allow_remote;			/* http_addresses beyond loopback */
	bool http_admin;			/* TCP serves what administers, too */
	bool http_plaintext_tokens;		/* tokens are taken in clear beyond loopback */
	struct conf_list block_endpoints;	/* "/v1/acl": beginnings of paths that TCP does not serve */
	struct conf_list allow_write_from;	/* "10.0.0.0/8"; none: from everywhere */
	struct conf_list http_hosts;		/* names that we answer to besides the known ones */
	struct conf_list http_origins;		/* "https://ui.example.com": sites whose pages may ask us */
	struct mono http_idle_timeout;

	struct rpcd_tls tls[RPCD_TLS_USES];	/* see rpcd_tls_for() */

	/* limits on clients */
	struct mono https_handshake_timeout;
	uint64_t http_max_conns, http_max_conns_per_client, http2_max_streams_per_client;
	uint64_t header_bytes_max, body_bytes_max, bodies_bytes_max, body_discard_max;
	uint64_t answer_bytes_max, answers_bytes_max, gzip_bytes_max;
	uint64_t txn_max_req_len, kv_max_value_size;
	struct mono filter_time_max;
	uint64_t request_bytes_max, calls_pending_max, calls_bytes_max, snapshot_bytes_max;
	uint64_t cache_bytes_max;
	int request_mode;			/* enum request_mode */
	uint64_t request_rates[REQUEST_LIMITS][2];	/* of reads, of writes; thousandths a second, or CONF_NO_RATE */

	/* DNS */
	char *domain, *alt_domain;
	struct conf_list recursors, recursion_from, service_ttl;
	bool dns_allow_stale, dns_truncate, dns_only_passing, dns_no_compression, dns_node_meta;
	struct mono dns_max_stale, node_ttl, recursor_timeout;
	bool dns_use_cache, translate_wan_addrs;
	struct mono dns_cache_max_age;		/* 0: of what is followed any, of the rest none */
	struct mono soa_refresh, soa_retry, soa_expire, soa_min_ttl;
	uint64_t udp_answer_limit, a_record_limit, dns_equal_answers, dns_max_conns, dns_max_conns_per_client;
	int recursor_strategy;			/* sequential, random */

	/* requests */
	struct mono default_query_time, max_query_time, rpc_hold_timeout, answer_timeout, failover_timeout;
	struct mono discovery_max_stale, prometheus_retention_time;
	bool disable_coordinates, disable_unprintable_filter;
	bool use_cache;
	struct mono cache_ttl;

	/* access control */
	int acl_down;				/* enum rpcd_acl_down */
	struct mono acl_token_ttl;
	bool acl_persist;
	char *acl_tokens[RPCD_TOKENS];		/* NULL: none */
	/* the audit trail */
	int audit_to;				/* enum audit_to */
	char *audit_file;			/* a name in data_dir/rpcd */
	bool audit_reads, audit_denials;

	/* links to other nodes */
	struct mono link_dial_timeout, link_idle_timeout;
	uint64_t links_max, link_pending_max, link_out_bytes_max, rpc_max_conns, members_max;

	/* administration */
	struct mono leave_timeout, admin_timeout;

	/* checks of this node */
	struct mono check_update_interval, check_sync_wait, sync_interval;
	uint64_t check_output_max_size, checks_max, check_runs_max;
	char *docker_socket;		/* NULL: no Docker checks */
	bool enable_script_checks, enable_local_script_checks, follow_redirects;
};

extern const struct conf_opt rpcd_opts[];
extern const size_t rpcd_opt_count;

/*
 * What one key alone cannot tell: an HTTP address that is none, sizes that do not fit; and, TV_EPERM, an address
 * beyond loopback without http_allow_remote.  TV_EINVAL otherwise; with a sentence that begins with the key.
 */
enum tv_err rpcd_conf_check(const struct rpcd_conf *c, char *errbuf, size_t cap);
/* An address beyond loopback at which HTTP is served in clear, borrowed; NULL: there is none. */
const char *rpcd_conf_clear_address(const struct rpcd_conf *c);

/*
 * An address beyond loopback at which HTTPS is served to clients without a certificate, too, borrowed.  NULL: there is
 * none, or http_allow_remote says that it may be so.
 */
const char *rpcd_conf_open_address(const struct rpcd_conf *c);

/* The addresses of HTTPS; they matter only with https_port. */
const struct conf_list *rpcd_https_addresses(const struct rpcd_conf *c);
/*
 * What holds for one use.  HTTPS takes from tls.defaults what its own block does not say, key by key (ca_file and
 * ca_path are one).  Checks take nothing from there: a private key is in one process alone, and authorities of clients
 * are no authorities of servers.  Borrows c.
 */
struct rpcd_tls rpcd_tls_for(const struct rpcd_conf *c, enum rpcd_tls_use use);
/*
 * The next of a list of suites (struct rpcd_tls), as OpenSSL names it for TLS 1.2: "ECDHE-RSA-AES128-GCM-SHA256".  *at
 * is 0 at first.  NULL: there is none left.  The list has passed rpcd_conf_check(), or unknown ones are left out.
 */
const char *rpcd_tls_suite(const struct conf_list *suites, size_t *at);
/* The part of rpcd_conf_check() that concerns HTTPS and tls. */
enum tv_err rpcd_conf_check_tls(const struct rpcd_conf *c, char *errbuf, size_t cap);

#endif
