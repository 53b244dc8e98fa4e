/* cluster.conf: the table, and what its keys demand of each other. */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/addr.h"
#include "common/conf/cluster_conf.h"

#define F(field_) CONF_FIELD(struct cluster_conf, field_)
#define NITEMS(a_) (sizeof(a_) / sizeof((a_)[0]))

const struct conf_opt cluster_opts[] = {
	{ "node_name", CONF_NAME, F(node_name), NULL, NULL, NULL, NULL, CONF_RESTART,
	    "Name of this node. Default: the host name up to the first dot." },
	{ "datacenter", CONF_NAME, F(datacenter), "dc1", NULL, NULL, NULL, CONF_RESTART,
	    "Datacenter this node belongs to." },
	{ "server", CONF_BOOL, F(server), "false", NULL, NULL, NULL, CONF_RESTART,
	    "Servers keep the data and run raftd; the others are clients." },
	{ .key = "server", .type = CONF_GIVEN, .offset = F(server_given), .help = "Whether the file says what it is." },
	{ "bind", CONF_ADDR, F(bind), NULL, NULL, NULL, NULL, CONF_RESTART,
	    "Address of the gossip, raft and rpc ports. Default: 0.0.0.0 with keys, 127.0.0.1 without." },
	{ "advertise", CONF_ADDR, F(advertise), NULL, NULL, NULL, NULL, CONF_RESTART,
	    "Address that other nodes dial. Default: bind, or the first private address." },
	{ "advertise_wan", CONF_ADDR, F(advertise_wan), NULL, NULL, NULL, NULL, CONF_RESTART,
	    "Address that other datacenters dial. Default: advertise." },
	{ "node_meta", CONF_META, F(node_meta), NULL, NULL, NULL, NULL, CONF_LIVE,
	    "Metadata of this node in the catalog." },
	{ "tagged_addresses", CONF_ADDRESSES, F(tagged_addresses), NULL, NULL, NULL, NULL, CONF_LIVE,
	    "Further addresses of this node in the catalog, by name; lan and wan are there in any case." },
	{ "retry_join", CONF_LIST, F(retry_join), NULL, NULL, NULL, NULL, CONF_RESTART,
	    "Members of this datacenter to join at start: addresses, host names, srv: and file:." },
	{ "retry_join_wan", CONF_LIST, F(retry_join_wan), NULL, NULL, NULL, NULL, CONF_RESTART,
	    "Servers of other datacenters to join at start: addresses, host names, srv: and file:." },
	{ "retry_interval", CONF_DURATION, F(retry_interval), "30s", "1s", "1h", NULL, CONF_RESTART,
	    "Longest time between attempts to join; the first ones come sooner." },
	{ "data_dir", CONF_PATH, F(data_dir), TV_DATADIR, NULL, NULL, NULL, CONF_RESTART,
	    "State of the daemons, each in a folder of its own." },
	{ "run_dir", CONF_PATH, F(run_dir), TV_RUNDIR, NULL, NULL, NULL, CONF_RESTART,
	    "Sockets between the daemons." },
	{ "cluster_key", CONF_PATH, F(cluster_key), NULL, NULL, NULL, NULL, CONF_RESTART,
	    "Secret of all nodes. Default: cluster.key beside this file." },
	{ "server_key", CONF_PATH, F(server_key), NULL, NULL, NULL, NULL, CONF_RESTART,
	    "Secret of the servers. Default: server.key beside this file." },
	{ "server_pub", CONF_PATH, F(server_pub), NULL, NULL, NULL, NULL, CONF_RESTART,
	    "Public half of the servers' secret. Default: server.pub beside this file." },
	{ "allow_plaintext", CONF_BOOL, F(allow_plaintext), "false", NULL, NULL, NULL, CONF_RESTART,
	    "Allow plaintext to other machines." },
	{ "encryption", CONF_CHOICE, F(encryption), "auto", NULL, NULL, "auto|off|accept|send|required", CONF_RESTART,
	    "Stage between plaintext and encryption. auto: required with a cluster key, off without." },
	{ "sandbox", CONF_CHOICE, F(sandbox), "required", NULL, NULL, "required|best-effort", CONF_RESTART,
	    "Refuse to start where the kernel lacks a part of the sandbox, or continue without it." },
	{ "log_level", CONF_CHOICE, F(log_level), "info", NULL, NULL, "error|warn|info|debug", CONF_LIVE,
	    "Lowest level of messages that are logged." },
	{ "log_to", CONF_CHOICE, F(log_to), "stderr", NULL, NULL, "stderr|syslog", CONF_RESTART,
	    "Where the log goes." },
	{ "lan_port", CONF_PORT, F(lan_port), "8301", NULL, NULL, NULL, CONF_RESTART,
	    "Gossip within the datacenter, UDP and TCP." },
	{ "wan_port", CONF_PORT, F(wan_port), "8302", NULL, NULL, NULL, CONF_RESTART,
	    "Gossip between datacenters, UDP and TCP, servers only." },
	{ "raft_port", CONF_PORT, F(raft_port), "8300", NULL, NULL, NULL, CONF_RESTART,
	    "Raft between servers, TCP." },
	{ "rpc_port", CONF_PORT, F(rpc_port), "8400", NULL, NULL, NULL, CONF_RESTART,
	    "Requests between nodes, TCP." },
	{ "acl.enabled", CONF_BOOL, F(acl_enabled), "false", NULL, NULL, NULL, CONF_RESTART,
	    "Access control: the first leader with it switches it on in the whole cluster, for good." },
	{ "acl.default_policy", CONF_CHOICE, F(acl_default), "deny", NULL, NULL, "deny|allow", CONF_RESTART,
	    "What no rule of a token covers; the same on all servers." },
	{ "acl.enable_key_list_policy", CONF_BOOL, F(acl_key_list), "false", NULL, NULL, NULL, CONF_RESTART,
	    "Lists of keys need the access list to their prefix; the same on all servers." },
	{ "acl.primary_datacenter", CONF_NAME, F(acl_primary), NULL, NULL, NULL, NULL, CONF_RESTART,
	    "Datacenter whose policies, roles and global tokens hold here too. Default: this one's own." },
};
const size_t cluster_opt_count = NITEMS(cluster_opts);

const char *
cluster_acl_primary(const struct cluster_conf *c)
{
	return c->acl_primary == NULL || strcasecmp(c->acl_primary, c->datacenter) == 0 ? NULL : c->acl_primary;
}

struct check {
	struct cluster_conf *c;
	const struct cluster_conf *running;	/* at a reload, else NULL */
	const char *file;	/* for messages */
	char *errbuf;
	size_t cap;
};

static enum tv_err __attribute__((format(printf, 3, 4)))
fail_check(const struct check *k, enum tv_err err, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return tv_fail(k->errbuf, k->cap, err, "%s: %s", k->file, text);
}

static enum tv_err
set_text(const struct check *k, char **field, const char *text)
{
	free(*field);
	*field = strdup(text);
	return *field != NULL ? TV_OK : fail_check(k, TV_ENOMEM, "out of memory");
}

static bool
is_wildcard(const char *ip)
{
	struct addr a;

	return addr_parse(ip, 0, &a) && addr_is_any(&a);
}

bool
cluster_addr_is_loopback(const char *ip)
{
	struct addr a;

	return addr_parse(ip, 0, &a) && addr_is_loopback(&a);
}

static enum tv_err
default_name(const struct check *k)
{
	char host[256] = "";

	if (k->c->node_name != NULL)
		return TV_OK;
	if (gethostname(host, sizeof(host) - 1) != 0)
		return fail_check(k, TV_ESYS, "node_name: the host name cannot be read: %s", strerror(errno));
	host[strcspn(host, ".")] = '\0';
	if (host[0] == '\0' || strlen(host) > 128 || host[strspn(host, "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")] != '\0')
		return fail_check(k, TV_EINVAL, "node_name: the host name cannot serve as one: set node_name");
	return set_text(k, &k->c->node_name, host);
}

static enum tv_err
default_key_path(const struct check *k, char **field, const char *dir, const char *name)
{
	char path[4096];

	if (*field != NULL)
		return TV_OK;
	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return fail_check(k, TV_EINVAL, "the path of the configuration is too long");
	return set_text(k, field, path);
}

/*
 * Whether a file stands there.  Behind a folder closed to us (a daemon that reloads after it gave up
 * root) it counts as there: the daemon that must read it fails with a sentence.  Other troubles are not an absence.
 */
static enum tv_err
exists(const struct check *k, const char *path, bool *yes)
{
	struct stat st;

	*yes = lstat(path, &st) == 0 || errno == EACCES;
	if (!*yes && errno != ENOENT)
		return fail_check(k, TV_ESYS, "%s: %s", path, strerror(errno));
	return TV_OK;
}

static enum tv_err
check_keys(const struct check *k, const char *dir)
{
	struct cluster_conf *c = k->c;
	bool have_secret = false, have_pub = false;
	enum tv_err err;

	if ((err = default_key_path(k, &c->cluster_key, dir, "cluster.key")) != TV_OK ||
	    (err = default_key_path(k, &c->server_key, dir, "server.key")) != TV_OK ||
	    (err = default_key_path(k, &c->server_pub, dir, "server.pub")) != TV_OK ||
	    (err = exists(k, c->cluster_key, &c->have_keys)) != TV_OK ||
	    (err = exists(k, c->server_key, &have_secret)) != TV_OK ||
	    (err = exists(k, c->server_pub, &have_pub)) != TV_OK)
		return err;
	if (c->have_keys && !have_pub)
		return fail_check(k, TV_ENOENT, "%s is missing beside %s: copy it from a server, where "
		    "clusterctl keygen --pub makes it", c->server_pub, c->cluster_key);
	if (c->have_keys && c->server && !have_secret)
		return fail_check(k, TV_ENOENT, "server = true needs %s: copy it from another server, or make the keys "
		    "of a new cluster with clusterctl keygen", c->server_key);
	if (!c->have_keys && (have_secret || have_pub))
		return fail_check(k, TV_ENOENT, "%s is missing beside %s: copy it from another node", c->cluster_key,
		    have_pub ? c->server_pub : c->server_key);
	return TV_OK;
}

const char *
cluster_encryption_name(int encryption)
{
	static const char *const names[] = { "auto", "off", "accept", "send", "required" };

	return names[encryption];
}

/* From here on the stage is never AUTO, and keys that are not to be used are not there. */
static enum tv_err
check_encryption(const struct check *k)
{
	struct cluster_conf *c = k->c;

	if (c->encryption == ENCRYPTION_AUTO)
		c->encryption = c->have_keys ? ENCRYPTION_REQUIRED : ENCRYPTION_OFF;
	else
		c->plaintext_wanted = c->encryption == ENCRYPTION_OFF;
	if (c->encryption != ENCRYPTION_OFF && !c->have_keys)
		return fail_check(k, TV_ENOENT, "encryption: \"%s\" needs %s: copy it from another node, or make the "
		    "keys of the cluster with clusterctl keygen", cluster_encryption_name(c->encryption),
		    c->cluster_key);
	c->have_keys = c->encryption != ENCRYPTION_OFF;
	return TV_OK;
}

/* Who sends in clear talks to this machine only, unless told otherwise. */
static enum tv_err
check_bind(const struct check *k)
{
	struct cluster_conf *c = k->c;
	enum tv_err err = TV_OK;

	if (c->bind == NULL)
		err = set_text(k, &c->bind, c->have_keys ? "0.0.0.0" : "127.0.0.1");
	if (err != TV_OK || cluster_seals(c) || c->allow_plaintext || cluster_addr_is_loopback(c->bind))
		return err;
	if (c->have_keys || c->plaintext_wanted)
		return fail_check(k, TV_EPERM, "bind: %s is open to other machines, and encryption = \"%s\" sends "
		    "plaintext: allow_plaintext = true trusts the network for as long", c->bind,
		    cluster_encryption_name(c->encryption));
	return fail_check(k, TV_EPERM, "bind: %s is open to other machines, and there is no %s: make keys with "
		    "clusterctl keygen, or bind to 127.0.0.1 (allow_plaintext = true trusts the network instead)",
		    c->bind, c->cluster_key);
}

/* 2: private, 1: public, 0: of no use to others. */
static int
usefulness(const struct addr *a)
{
	const uint8_t *ip = a->ip;
	bool shared = ip[0] == 100 && ip[1] >> 6 == 1;		/* RFC 6598 */

	if (a->len == 0 || addr_is_loopback(a))
		return 0;
	if (a->len == 16)
		return ip[0] == 0xfe && ip[1] >> 6 == 2 ? 0 : (ip[0] & 0xfe) == 0xfc ? 2 : 1;
	if (ip[0] == 169 && ip[1] == 254)
		return 0;
	return ip[0] == 10 || (ip[0] == 172 && ip[1] >> 4 == 1) || (ip[0] == 192 && ip[1] == 168) || shared ? 2 : 1;
}

/* The first private address of this machine, else the first public one.  TV_EAGAIN: none; TV_ESYS: errno says why. */
static enum tv_err
own_address(int family, char ip[ADDR_IP_BYTES])
{
	struct ifaddrs *list = NULL;
	int best = 0;

	if (getifaddrs(&list) != 0)
		return TV_ESYS;
	for (struct ifaddrs *i = list; i != NULL; i = i->ifa_next) {
		if (i->ifa_addr == NULL || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP))
			continue;
		struct addr a = addr_of_sock(i->ifa_addr);
		if (usefulness(&a) <= best)
			continue;
		best = usefulness(&a);
		addr_ip(&a, ip);
	}
	freeifaddrs(list);
	return best > 0 ? TV_OK : TV_EAGAIN;
}

/* At a reload the address of the start stays: others know us by it, and the sandbox gives no list of addresses. */
static enum tv_err
default_advertise(const struct check *k)
{
	struct cluster_conf *c = k->c;
	char ip[ADDR_IP_BYTES];
	enum tv_err err;

	if (!is_wildcard(c->bind))
		return set_text(k, &c->advertise, c->bind);
	if (k->running != NULL)
		return set_text(k, &c->advertise, k->running->advertise);
	err = own_address(strchr(c->bind, ':') != NULL ? AF_INET6 : AF_INET, ip);
	if (err == TV_OK)
		return set_text(k, &c->advertise, ip);
	if (err == TV_ESYS)
		return fail_check(k, err, "advertise: the addresses of this machine cannot be listed (%s; that needs "
		    "AF_NETLINK): set advertise", strerror(errno));
	return fail_check(k, TV_EAGAIN, "advertise: this machine has no address that others could dial: set advertise");
}

static enum tv_err
check_advertise(const struct check *k)
{
	struct cluster_conf *c = k->c;
	enum tv_err err = TV_OK;

	if (c->advertise == NULL)
		err = default_advertise(k);
	if (err == TV_OK && c->advertise_wan == NULL)
		err = set_text(k, &c->advertise_wan, c->advertise);
	if (err == TV_OK && (is_wildcard(c->advertise) || is_wildcard(c->advertise_wan)))
		return fail_check(k, TV_EINVAL, "advertise: %s is not an address that others could dial", c->advertise);
	return err;
}

static enum tv_err
check_join(const struct check *k, const char *key, const struct conf_list *list)
{
	char why[TARGET_WHY_BYTES];
	struct dial_target t;

	for (size_t i = 0; i < list->count; i++)
		if (target_parse(span_str(list->items[i]), 1, &t, why) != TV_OK)
			return fail_check(k, TV_EINVAL, "%s: %s", key, why);
	return TV_OK;
}

/* TCP listeners of one node share one address. */
static enum tv_err
check_ports(const struct check *k)
{
	const struct {
		const char *key;
		uint16_t port;
	} ports[] = {
		{ "lan_port", k->c->lan_port }, { "wan_port", k->c->wan_port },
		{ "raft_port", k->c->raft_port }, { "rpc_port", k->c->rpc_port },
	};

	for (size_t i = 0; i < NITEMS(ports); i++)
		for (size_t j = 0; j < i; j++)
			if (ports[i].port == ports[j].port)
				return fail_check(k, TV_EINVAL, "%s and %s are both %u", ports[j].key, ports[i].key,
				    ports[i].port);
	return TV_OK;
}

/* Names of datacenters are labels of DNS, which has no capitals: each spelling is the same one, here as in Consul. */
static void
lower(char *text)
{
	for (; text != NULL && *text != '\0'; text++)
		*text = (char)ascii_lower((uint8_t)*text);
}

enum tv_err
cluster_conf_load(const char *dir, const struct cluster_conf *running, struct cluster_conf *out, char *errbuf,
    size_t cap)
{
	char file[4096];
	struct check k = { out, running, file, errbuf, cap };
	enum tv_err err;

	memset(out, 0, sizeof(*out));
	if (snprintf(file, sizeof(file), "%s/cluster.conf", dir) >= (int)sizeof(file))
		return tv_fail(errbuf, cap, TV_EINVAL, "the path of the configuration is too long");
	err = conf_load(file, cluster_opts, cluster_opt_count, out, errbuf, cap);
	if (err != TV_OK && err != TV_ENOENT)
		return err;
	lower(out->datacenter);
	lower(out->acl_primary);
	if ((err = default_name(&k)) == TV_OK && (err = check_keys(&k, dir)) == TV_OK &&
	    (err = check_encryption(&k)) == TV_OK && (err = check_bind(&k)) == TV_OK &&
	    (err = check_advertise(&k)) == TV_OK &&
	    (err = check_join(&k, "retry_join", &out->retry_join)) == TV_OK &&
	    (err = check_join(&k, "retry_join_wan", &out->retry_join_wan)) == TV_OK)
		err = check_ports(&k);
	if (err != TV_OK)
		cluster_conf_free(out);
	return err;
}

void
cluster_conf_free(struct cluster_conf *c)
{
	conf_free(cluster_opts, cluster_opt_count, c);
	memset(c, 0, sizeof(*c));
}
