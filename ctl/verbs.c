/*
 * The verbs of clusterctl, one row each.  Usage, help, completion, the options and the number of arguments that a call
 * may have, and the hints for what was mistyped come from here; tests/lint/verbs.py compares clusterctl(8) with it.
 */
#include "ctl/resource.h"

#define OPT(form, help) { form, help, 0 }
#define PARAM(form, help) { form, help, OPTION_PARAM }
#define NUMBER(form, help) { form, help, OPTION_PARAM | OPTION_NUMBER }
#define NUMBER_OF(form, help) { form, help, OPTION_NUMBER }
#define ONE_OF(form, help) { form, help, OPTION_ONE_OF }
#define NEEDED(form, help) { form, help, OPTION_NEEDED }
#define OPTIONS(...) (const struct option[]){ __VA_ARGS__, { NULL, NULL, 0 } }

#define DC PARAM("--dc DC", "ask this datacenter")
#define STALE PARAM("--stale", "any server may answer, without a leader too; may be stale")
#define CAS NUMBER("--cas INDEX", "only when the key was changed last at this index; 0: only when there is none")
#define SEPARATOR PARAM("--separator S", "names up to the first S behind PREFIX")
#define VALUE OPT("-|@FILE", "read it from standard input, or from the file")
#define NEAR PARAM("--near NODE", "sorted by the round trip from there; _agent: from the node that is asked")
#define SERVER OPT("SERVER", "name, ID or address, as list-peers shows them")
#define RELAY PARAM("--relay N", "answers also come by way of N others")
#define ALTHOUGH OPT("--force", "although not all members answer")
#define ID OPT("ID", "of a key, as `list` shows it")
#define QUERY OPT("QUERY", "ID or name, as `query list` shows them")
#define TOKEN OPT("ACCESSOR", "accessor ID of the token, as `acl token list` shows it")
#define POLICY OPT("POLICY", "ID or name")
#define ROLE OPT("ROLE", "ID or name")
#define METHOD OPT("METHOD", "name")
#define RULE OPT("ID", "of the rule")
#define OUT OPT("--out FILE", "the secret goes into this new file, which only you can read")
#define SECRET OPT("--show-secret", "with its secret")
#define DESCRIPTION OPT("--description TEXT", "for people")
#define MERGE OPT("--merge", "add to what it has, instead of replacing that")
#define POLICIES \
	OPT("--policy-name NAME...", "a policy that it has; may be repeated"), \
	OPT("--policy-id ID...", "the same by its ID")
#define ROLES OPT("--role-name NAME...", "a role that it has; may be repeated"), \
	OPT("--role-id ID...", "the same by its ID")
#define IDENTITIES \
	OPT("--service-identity NAME[:DC,DC]...", "what this service needs, in these datacenters; may be repeated"), \
	OPT("--node-identity NAME:DC...", "what the agent of this node needs; may be repeated")
#define RULES OPT("--rules RULES|-|@FILE", "what it allows, from standard input, or from the file")
#define VALID_DC OPT("--valid-dc DC...", "it counts in this datacenter only, or in all; may be repeated")
#define METHOD_OPTIONS \
	OPT("--display-name TEXT", "a name to show"), DESCRIPTION, \
	OPT("--max-token-ttl D", "how long tokens of its logins live, from 1m to 24h"), \
	OPT("--token-locality local|global", "where those tokens count; local without it"), \
	OPT("--config JSON|-|@FILE", "how logins are proved, from standard input, or from the file")
#define RULE_OPTIONS \
	DESCRIPTION, OPT("--selector EXPR", "logins that it is for, as value.team == web"), \
	OPT("--bind-type service|role|node", "what a login gets"), \
	OPT("--bind-name NAME", "its name, which ${value.X} may be part of")
#define STDIN OPT("-", "the key is read from standard input")

const struct verb ctl_verbs[] = {
	{ "members", "", "show who is in the pool", cmd_members, OPTIONS(
		OPT("--wan", "the pool of the servers of all datacenters"),
		OPT("--detailed", "with IDs, versions and all tags")) },
	{ "status", "", "show whether the cluster is all right", cmd_status, NULL },
	{ "info", "[SECTION]", "show what a node knows about itself", cmd_info, OPTIONS(
		OPT("SECTION", "one of those that `info` shows, as raft or serf_lan")) },
	{ "join", "ADDRESS...", "join the cluster of any of these nodes", cmd_join, OPTIONS(
		OPT("--wan", "join the pool between datacenters (servers)"),
		OPT("--wait", "end when this server is a voter, and show how far it is"),
		OPT("ADDRESS", "IP or IP:PORT of a member's gossip")) },
	{ "leave", "", "leave the cluster gracefully and stop", cmd_leave, OPTIONS(
		PARAM("--force", "leave although the quorum is lost by it")) },
	{ "force-leave", "NODE", "declare a failed node as left", cmd_force_leave, OPTIONS(
		PARAM("--prune", "forget the node at once")) },
	{ "rtt", "NODE [NODE]", "estimate the round trip between two members", cmd_rtt, OPTIONS(
		OPT("--wan", "names of the WAN pool: NODE.DATACENTER")) },
	{ "top", "[clients|tokens|endpoints|keys|nodes]", "show who uses a node's API, and how much", cmd_top, OPTIONS(
		OPT("--for TIME", "what comes from now on in this time, as 5s; without it, since it started")) },
	{ "kv", "", "read and write keys", NULL, NULL },
	{ "kv get", "KEY", "show the value of a key", kv_get, OPTIONS(STALE, DC) },
	{ "kv put", "KEY VALUE|-|@FILE", "write a key", kv_put, OPTIONS(
		CAS, NUMBER("--flags N", "a number that is kept with the value"), DC, VALUE) },
	{ "kv delete", "KEY", "delete a key, or all below it", kv_delete, OPTIONS(
		PARAM("--recurse", "all keys that begin with KEY"),
		PARAM("--parts", "one part after the other, for more than 100,000 keys"), CAS, DC) },
	{ "kv list", "[PREFIX]", "show the names of keys", kv_list, OPTIONS(STALE, SEPARATOR, DC) },
	{ "kv keys", "[PREFIX]", "the same as list", kv_list, OPTIONS(STALE, SEPARATOR, DC) },
	{ "kv export", "[PREFIX]", "show keys with their values, for kv import", kv_export, OPTIONS(STALE, DC) },
	{ "kv import", "FILE|-|DATA", "write the keys of an export", kv_import, OPTIONS(
		OPT("--prefix PREFIX", "below it, as PREFIX/KEY"), DC,
		OPT("FILE", "what kv export has shown, also of Consul; -: from standard input; [...]: as it is")) },
	{ "txn", "FILE|-", "carry out several operations, all or none", cmd_txn, OPTIONS(
		STALE, DC, OPT("FILE", "operations as JSON, as /v1/txn takes them; -: from standard input")) },
	{ "event", "", "fire and follow user events", NULL, NULL },
	{ "event fire", "NAME [PAYLOAD|-|@FILE]", "send an event to all nodes", event_fire, OPTIONS(
		PARAM("--node RE", "only nodes of such a name"),
		PARAM("--service RE", "only nodes with such a service"),
		PARAM("--tag RE", "only with such a tag of that service"), DC,
		PARAM("--coalesce", "Serf's agents may hand on only the newest of several"), VALUE) },
	{ "event list", "", "show the events that this node has heard", event_list, OPTIONS(
		PARAM("--name NAME", "events of this name")) },
	{ "event watch", "", "follow events until stopped", event_watch, OPTIONS(
		OPT("--name RE", "events whose name matches"),
		OPT("--exec COMMAND", "run it for each event")) },
	{ "watch", "[COMMAND...]", "run a command when something changes", cmd_watch, OPTIONS(
		OPT("--type key|keyprefix|services|nodes|service|checks|event", "what to watch"),
		OPT("--key KEY", "of type key"),
		OPT("--prefix PREFIX", "of type keyprefix"),
		OPT("--service NAME", "of type service; those checks, of type checks"),
		PARAM("--tag TAG...", "only instances with it, of type service; may be repeated"),
		PARAM("--passing", "only instances that are well, of type service"),
		OPT("--state any|passing|warning|critical", "only such checks, of type checks"),
		PARAM("--name NAME", "only events of this name"),
		OPT("--exec COMMAND", "run it, with the answer on its standard input"),
		OPT("--http URL", "post the answer there"), STALE, DC,
		OPT("COMMAND", "a program and its arguments, in place of --exec")) },
	{ "lock", "PREFIX COMMAND...", "run a command while holding a lock", cmd_lock, OPTIONS(
		NUMBER_OF("--n N", "of so many that may run at the same time; 1 without it"),
		OPT("--try DURATION", "give up when it is not free within this time, as 10s"),
		OPT("--name NAME", "of the session that holds it"),
		OPT("--pass-stdin", "the command reads our standard input"),
		NUMBER_OF("--monitor-retry N", "errors in a row while it is held, 3 without it"),
		OPT("--child-exit-code", "end with status 2 when the command fails"),
		OPT("COMMAND", "one word is run by /bin/sh; several are a program and its arguments")) },
	{ "monitor", "", "follow the logs of a node's daemons", cmd_monitor, OPTIONS(
		OPT("--level debug|info|warn|error", "lines of this level and above; else of info"),
		OPT("--daemon gossipd|raftd|rpcd", "those of one; else of all")) },
	{ "query", "NAME [PAYLOAD|-|@FILE]", "ask all members, or answer what they ask", query_ask, OPTIONS(
		PARAM("--node NODE...", "ask this one; may be repeated"),
		PARAM("--tag KEY=RE...", "ask members with such a tag; may be repeated"),
		PARAM("--timeout D", "time to wait for answers, as 5s"),
		PARAM("--no-ack", "ask for no acknowledgements"), RELAY, VALUE) },
	{ "query answer", "NAME", "answer queries of this name until stopped", query_answer, OPTIONS(
		ONE_OF("--exec COMMAND", "answer with what it prints"),
		ONE_OF("--text TEXT", "answer with this")) },
	{ "query create", "FILE|-", "make a prepared query, which finds instances of a service",
	    prepared_create, OPTIONS(DC,
		OPT("FILE", "the query as JSON, as /v1/query takes it; -: from standard input")) },
	{ "query update", "QUERY FILE|-", "replace a prepared query", prepared_update, OPTIONS(
		DC, QUERY, OPT("FILE", "the whole query as JSON; -: from standard input")) },
	{ "query list", "", "show the prepared queries", resource_list, OPTIONS(STALE, DC) },
	{ "query show", "QUERY", "show a prepared query as JSON", resource_read, OPTIONS(STALE, DC, QUERY) },
	{ "query delete", "QUERY", "delete a prepared query", resource_delete, OPTIONS(DC, QUERY) },
	{ "query execute", "QUERY", "show the instances that a prepared query finds", prepared_execute, OPTIONS(
		NUMBER("--limit N", "so many at most"), NEAR,
		PARAM("--connect true|false", "true: what proxies for the service"), STALE, DC,
		OPT("QUERY", "ID, name, or a name that a template begins")) },
	{ "query explain", "QUERY", "show what a prepared query is for a name", prepared_explain, OPTIONS(STALE, DC,
		OPT("QUERY", "ID, name, or a name that a template begins")) },
	{ "catalog", "", "show the catalog", NULL, NULL },
	{ "catalog nodes", "", "the nodes", catalog_nodes, OPTIONS(NEAR, DC) },
	{ "catalog services", "", "the names of the services", catalog_names, OPTIONS(DC) },
	{ "catalog datacenters", "", "the datacenters", catalog_names, NULL },
	{ "catalog service", "NAME", "the instances of a service", catalog_service, OPTIONS(NEAR, DC) },
	{ "health", "[SERVICE]", "show what checks say, and why", cmd_health, OPTIONS(
		OPT("--node NODE", "checks of this node and its services"), STALE, DC,
		OPT("SERVICE", "checks of its instances, and of their nodes")) },
	{ "dns", "NAME", "explain what DNS answers, and what it leaves out", cmd_dns, OPTIONS(
		PARAM("--type TYPE", "A, AAAA, SRV, ANY, TXT, NS, SOA, PTR ...; A without it"),
		PARAM("--tcp", "as over TCP"),
		NUMBER("--size BYTES", "as with EDNS, for a client that takes so many bytes over UDP"),
		PARAM("--from ADDRESS", "as for this client, which prepared queries may be about"),
		OPT("NAME", "as in web.service.consul")) },
	{ "services", "", "manage the services of a node", NULL, NULL },
	{ "services list", "", "show the services that are registered at the node", services_list, NULL },
	{ "services register", "NAME|-|@FILE", "register a service, or those of a file", services_register, OPTIONS(
		OPT("--id ID", "of the instance; its name without it"),
		OPT("--address ADDRESS", "where it is; that of the node without it"),
		NUMBER_OF("--port PORT", "where it listens"),
		OPT("--tag TAG...", "may be repeated"),
		OPT("--meta KEY=VALUE...", "may be repeated"),
		OPT("--ttl D", "its owner has to report within this time, as 30s, or it is critical"),
		PARAM("--replace-existing-checks", "checks that are not named go"),
		OPT("-|@FILE", "JSON from standard input, or from the file")) },
	{ "services deregister", "ID", "remove a service from the node, with its checks", services_deregister, NULL },
	{ "maint", "", "take a node or a service out of use for a while", NULL, NULL },
	{ "maint status", "", "show what is under maintenance", maint_status, OPTIONS(
		OPT("--service ID", "only this service of the node")) },
	{ "maint enable", "", "take a node or a service out of use", maint_enable, OPTIONS(
		OPT("--service ID", "this service of the node instead of all of it"),
		PARAM("--reason TEXT", "shown with the check that says so")) },
	{ "maint disable", "", "take it into use again", maint_disable, OPTIONS(
		OPT("--service ID", "this service of the node")) },
	{ "raft", "", "administer the servers' consensus", NULL, NULL },
	{ "raft list-peers", "", "show the servers", raft_list_peers, OPTIONS(
		PARAM("--stale", "as the asked server knows it, without a leader too")) },
	{ "raft remove-peer", "SERVER", "remove a server permanently", raft_remove_peer, OPTIONS(
		PARAM("--force", "remove although the quorum is lost by it"), SERVER) },
	{ "raft transfer-leader", "[SERVER]", "hand leadership to another server", raft_transfer_leader,
		OPTIONS(SERVER) },
	{ "raft autopilot [get]", "", "show how the leader looks after the servers", autopilot_get, NULL },
	{ "raft autopilot set", "NAME=VALUE...", "change how the leader looks after the servers", autopilot_set, NULL },
	{ "raft autopilot health", "", "show the health of the servers", autopilot_health, NULL },
	{ "raft recover", "", "continue with this server alone, when the majority is lost for good",
	    raft_recover, OPTIONS(
		OPT("--dry-run", "show what a recovery would mean"),
		OPT("--yes", "do it without confirmation")) },
	{ "snapshot", "", "back up and restore the whole state", NULL, NULL },
	{ "snapshot save", "FILE", "back up", snapshot_save, OPTIONS(STALE, DC) },
	{ "snapshot restore", "FILE", "replace the whole state by an archive", snapshot_restore, OPTIONS(
		OPT("--yes", "without confirmation"), DC) },
	{ "snapshot inspect", "FILE", "show what is in an archive", snapshot_inspect, NULL },
	{ "snapshot status", "", "show how far the newest restore is", snapshot_status, OPTIONS(DC) },
	{ "acl", "", "manage who may do what", NULL, NULL },
	{ "acl bootstrap", "[FILE|-]", "make the first token, which may do everything", acl_bootstrap, OPTIONS(
		OPT("FILE|-", "its secret, a UUID, instead of one made up"), OUT) },
	{ "acl set-agent-token", "KIND FILE|-", "give the agent a token of its own", acl_set_agent_token, OPTIONS(
		OPT("KIND", "default, agent, recovery, replication or config_file_service_registration"),
		OPT("FILE|-", "the secret of the token")) },
	{ "acl token list", "", "show the tokens", resource_list, OPTIONS(
		OPT("--policy POLICY", "only those with this policy"), OPT("--role ROLE", "only those with this role"),
		OPT("--method METHOD", "only those of its logins"), STALE, DC) },
	{ "acl token read", "ACCESSOR", "show a token", resource_read, OPTIONS(SECRET, STALE, DC, TOKEN) },
	{ "acl token self", "", "show the token that is used", acl_token_self, OPTIONS(SECRET, STALE, DC) },
	{ "acl token create", "", "make a token", acl_token_create, OPTIONS(
		DESCRIPTION, POLICIES, ROLES, IDENTITIES,
		OPT("--ttl D", "it ends by itself after this time, as 8h"),
		OPT("--local", "it counts in this datacenter only"),
		OPT("--accessor ID", "its accessor ID, instead of one made up"),
		OPT("--secret-file FILE|-", "its secret, instead of one made up"), OUT, DC) },
	{ "acl token update", "ACCESSOR", "change a token", resource_update, OPTIONS(
		DESCRIPTION, POLICIES, ROLES, IDENTITIES, MERGE,
		OPT("--clear policies|roles|service-identities|node-identities...", "it has none of them any more"),
		SECRET, DC, TOKEN) },
	{ "acl token clone", "ACCESSOR", "make a token that may do the same", acl_token_clone, OPTIONS(
		DESCRIPTION, OUT, DC, TOKEN) },
	{ "acl token delete", "ACCESSOR", "delete a token", resource_delete, OPTIONS(DC, TOKEN) },
	{ "acl policy list", "", "show the policies", resource_list, OPTIONS(STALE, DC) },
	{ "acl policy read", "POLICY", "show a policy, its rules as a table", acl_policy_read, OPTIONS(
		OPT("--text", "only its rules, as they were written"), STALE, DC, POLICY) },
	{ "acl policy create", "NAME", "make a policy", resource_create, OPTIONS(
		DESCRIPTION, RULES, VALID_DC, DC) },
	{ "acl policy update", "POLICY", "change a policy", resource_update, OPTIONS(
		OPT("--name NAME", "its new name"), DESCRIPTION, RULES, VALID_DC, DC, POLICY) },
	{ "acl policy delete", "POLICY", "delete a policy", resource_delete, OPTIONS(DC, POLICY) },
	{ "acl role list", "", "show the roles", resource_list, OPTIONS(STALE, DC) },
	{ "acl role read", "ROLE", "show a role", resource_read, OPTIONS(STALE, DC, ROLE) },
	{ "acl role create", "NAME", "make a role", resource_create, OPTIONS(
		DESCRIPTION, POLICIES, IDENTITIES, DC) },
	{ "acl role update", "ROLE", "change a role", resource_update, OPTIONS(
		OPT("--name NAME", "its new name"), DESCRIPTION, POLICIES, IDENTITIES, MERGE,
		OPT("--clear policies|service-identities|node-identities...", "it has none of them any more"),
		DC, ROLE) },
	{ "acl role delete", "ROLE", "delete a role", resource_delete, OPTIONS(DC, ROLE) },
	{ "acl auth-method list", "", "show the methods by which tokens are given for a login", resource_list,
	    OPTIONS(STALE, DC) },
	{ "acl auth-method read", "METHOD", "show a method", resource_read, OPTIONS(STALE, DC, METHOD) },
	{ "acl auth-method create", "NAME", "make a method", resource_create, OPTIONS(
		NEEDED("--type TYPE", "jwt"), METHOD_OPTIONS, DC) },
	{ "acl auth-method update", "METHOD", "change a method", resource_update, OPTIONS(
		METHOD_OPTIONS, DC, METHOD) },
	{ "acl auth-method delete", "METHOD", "delete a method, its rules and the tokens of its logins",
	    resource_delete, OPTIONS(DC, METHOD) },
	{ "acl binding-rule list", "", "show what logins get", resource_list, OPTIONS(
		OPT("--method METHOD", "only rules of this method"), STALE, DC) },
	{ "acl binding-rule read", "ID", "show a rule for logins", resource_read, OPTIONS(STALE, DC, RULE) },
	{ "acl binding-rule create", "", "make a rule for logins", resource_create, OPTIONS(
		NEEDED("--method METHOD", "for logins by this method"), RULE_OPTIONS, DC) },
	{ "acl binding-rule update", "ID", "change a rule for logins", resource_update, OPTIONS(
		RULE_OPTIONS, DC, RULE) },
	{ "acl binding-rule delete", "ID", "delete a rule for logins", resource_delete, OPTIONS(DC, RULE) },
	{ "acl login", "", "get a token for what another system confirms", acl_login, OPTIONS(
		NEEDED("--method METHOD", "name of the auth method"),
		NEEDED("--bearer-token-file FILE|-", "what that system gave, as a JWT"),
		OPT("--meta KEY=VALUE...", "kept in the description of the token; may be repeated"), OUT, DC) },
	{ "acl logout", "", "delete the token of a login that is used", acl_logout, OPTIONS(DC) },
	{ "acl explain", "RESOURCE[:NAME] read|list|write", "show whether a token may do that, and why", acl_explain,
	    OPTIONS(
		OPT("--accessor ID", "of the token; else of the one that is used"),
		OPT("--default-policy allow|deny", "what holds where no rule does; as the agent says without it"),
		STALE, DC, OPT("RESOURCE[:NAME]", "as key:app/x, node:n1, operator")) },
	{ "acl translate", "FILE|-", "write rules of the old syntax in the current one", acl_translate, OPTIONS(DC) },
	{ "acl replication", "", "show how far tokens and rules of the primary datacenter have come",
	    acl_replication, OPTIONS(DC) },
	{ "keyring", "", "manage the keys of gossip and links", NULL, NULL },
	{ "keyring list", "", "show the keys by their ids, and how many members have them", keyring_show, OPTIONS(
		OPT("--show-keys", "the keys themselves, which are secret")) },
	{ "keyring install", "KEY|-", "give a key to all members", keyring_install, OPTIONS(RELAY, ALTHOUGH, STDIN) },
	{ "keyring use", "ID|-", "make a key the primary one of all members", keyring_use,
		OPTIONS(RELAY, ALTHOUGH, ID, STDIN) },
	{ "keyring remove", "ID|-", "remove a key from all members", keyring_remove,
		OPTIONS(RELAY, ALTHOUGH, ID, STDIN) },
	{ "keyring export", "", "print a cluster.key with the keys in use", keyring_export, NULL },
	{ "keyring rotate", "", "replace the primary key, step by step", keyring_rotate, OPTIONS(
		OPT("--key ID", "go on with this new key"),
		OPT("--keep-old", "do not remove the old key"), ALTHOUGH) },
	{ "keyring encrypt", "", "show the way from plaintext to encryption", keyring_encrypt, OPTIONS(
		OPT("--dir DIR", "where cluster.key is")) },
	{ "tls", "", "make CAs and certificates for HTTPS", NULL, NULL },
	{ "tls ca create", "", "make a CA of your own, in this folder", tls_ca_create, OPTIONS(
		OPT("--domain DOMAIN", "part of the names of files and hosts, consul without it"),
		NUMBER_OF("--days N", "how long it is valid; 1825 of a CA, 365 of a certificate without it"),
		OPT("--common-name NAME", "of the CA, instead of one made up"),
		OPT("--cluster-id ID", "the CA is that of spiffe://ID.DOMAIN, too"),
		OPT("--name-constraint", "what it signs for other names than DOMAIN and localhost is not believed"),
		OPT("--additional-name-constraint NAME...", "one more such name; may be repeated")) },
	{ "tls cert create", "", "make a certificate that the CA signs, in this folder", tls_cert_create, OPTIONS(
		ONE_OF("--server", "for HTTPS of a server"), ONE_OF("--client", "for HTTPS of a client node"),
		ONE_OF("--cli", "for a client of nodes that want certificates"),
		OPT("--ca FILE", "the CA, DOMAIN-agent-ca.pem without it"),
		OPT("--key FILE", "its key, DOMAIN-agent-ca-key.pem without it"),
		OPT("--domain DOMAIN", "part of the names of files and hosts, consul without it"),
		OPT("--dc DC", "the datacenter, dc1 without it"),
		OPT("--node NAME", "also for NAME.server.DC.DOMAIN"),
		NUMBER_OF("--days N", "how long it is valid; 1825 of a CA, 365 of a certificate without it"),
		OPT("--additional-dnsname NAME...", "also for this host; may be repeated"),
		OPT("--additional-ipaddress ADDRESS...", "also for this address; may be repeated")) },
	{ "debug", "", "write what helps to find a fault into an archive", cmd_debug, OPTIONS(
		OPT("--duration D", "how long to watch, 10s without it"),
		OPT("--interval D", "between two captures, 2s without it"),
		OPT("--output FILE", "the archive, a .tar.gz"),
		OPT("--config DIR", "configuration of the node, when it is not asked by its socket")) },
	{ "reload", "", "make the daemons of the node reload their configuration", cmd_reload, NULL },
	{ "keygen", "[DIR]", "make cluster.key, server.key and server.pub, or only that", cmd_keygen, OPTIONS(
		OPT("--pub", "only server.pub, from the server.key that is there")) },
	{ "validate", "[DIR]", "check the configuration files", cmd_validate, OPTIONS(
		OPT("--print", "show all values, defaults included")) },
	{ "dev", "", "run one server in the foreground, for development", cmd_dev, OPTIONS(
		OPT("--http-port PORT", "of the HTTP API, 8500 without it"),
		OPT("--bind ADDRESS", "of loopback; all three daemons use it"),
		OPT("--datacenter DC", "its name, dc1 without it"),
		OPT("--node NAME", "name of the node, dev without it"),
		OPT("--acl", "with access control, default deny, and a token"),
		OPT("--tls", "with HTTPS, and a CA for it"),
		OPT("--https-port PORT", "of HTTPS, 8501 without it")) },
	{ "help", "[COMMAND...]", "show the forms and options of a command", cmd_help, NULL },
	{ "version", "", "show the version", cmd_version, NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

const struct option ctl_globals[] = {
	OPT("--addr HOST:PORT|https://HOST:PORT|unix:PATH", "agent to ask"),
	OPT("--ca-file FILE", "CAs of which the agent's certificate has to be"),
	OPT("--ca-path DIR", "the same, all files of a folder"),
	OPT("--client-cert FILE", "our certificate, where the agent wants one"),
	OPT("--client-key FILE", "its key"),
	OPT("--tls-server-name NAME", "the name that the agent's certificate has to be for"),
	OPT("--token-file FILE|-", "a file with the access token, or standard input"),
	OPT("--token TOKEN", "access token, which others can see there"),
	OPT("--timeout TIME", "time limit of the whole command"),
	OPT("--json", "print JSON"),
	{ NULL, NULL, 0 },
};

const struct resource *const ctl_resources[] = {
	&resource_policies, &resource_roles, &resource_tokens, &resource_methods, &resource_bindings,
	&resource_queries, NULL,
};
