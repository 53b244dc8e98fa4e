/*
 * cluster.conf: what the three daemons of a node have in common, and the node's identity.
 */
#ifndef TV_COMMON_CONF_CLUSTER_CONF_H
#define TV_COMMON_CONF_CLUSTER_CONF_H

#include "common/conf/conf.h"
#include "common/conf/target.h"

/*
 * How this node moves between plaintext and encryption, on gossip, raft and rpc ports alike.  Neighbours in this
 * order understand each other, so a rolling restart through the stages never splits a cluster.
 */
enum cluster_encryption {
	ENCRYPTION_AUTO,		/* only in the file: REQUIRED with a cluster key, OFF without */
	ENCRYPTION_OFF,			/* sends and takes plaintext only */
	ENCRYPTION_ACCEPT,		/* sends plaintext, takes both */
	ENCRYPTION_SEND,		/* sends encrypted, takes both */
	ENCRYPTION_REQUIRED		/* sends and takes encrypted only */
};

enum cluster_acl_default { ACL_DEFAULT_DENY, ACL_DEFAULT_ALLOW };	/* in the order of the option's choices */

struct cluster_conf {
	char *node_name;		/* default: host name up to the first dot */
	char *datacenter;		/* "dc1"; lower case, as acl_primary */
	bool server;			/* false */
	char *bind;			/* of gossip, raft and rpc; default: "0.0.0.0" with keys, else "127.0.0.1" */
	char *advertise;		/* what others dial; default: bind, or the first private one of a wildcard */
	char *advertise_wan;		/* default: advertise */
	struct conf_list node_meta;	/* "key=value", what the catalog says of this node; live */
	struct conf_list tagged_addresses;	/* "lan=10.0.0.1", beside those of advertise and advertise_wan; live */
	struct conf_list retry_join;	/* LAN members, as target.h has them */
	struct conf_list retry_join_wan;
	struct mono retry_interval;	/* 30s */
	char *data_dir;			/* /var/lib/triumvir; each daemon owns a folder of its own name below it */
	char *run_dir;			/* /run/triumvir */
	char *cluster_key;		/* default: cluster.key in the folder of cluster.conf (/etc/triumvir) */
	char *server_key;		/* server.key there, servers only */
	char *server_pub;		/* server.pub there */
	bool allow_plaintext;		/* false: who sends in clear binds to loopback only */
	int encryption;			/* enum cluster_encryption, never AUTO after cluster_conf_load() */
	int sandbox;			/* 0 required, 1 best-effort */
	int log_level;			/* error|warn|info|debug, default info; live */
	int log_to;			/* stderr|syslog */
	uint16_t lan_port, wan_port;	/* 8301 8302 */
	uint16_t raft_port, rpc_port;	/* 8300 8400: here, since all daemons need them */
	bool acl_enabled;		/* false: this server begins access control, or this agent expects it */
	int acl_default;		/* enum cluster_acl_default: what no rule covers */
	bool acl_key_list;		/* lists of keys need `list` on their prefix */
	char *acl_primary;		/* whose policies, roles and global tokens are copied; NULL: our own */

	/* not in the file */
	bool have_keys;			/* cluster.key exists, and encryption is not off */
	bool plaintext_wanted;		/* the file says encryption = "off" */
	bool server_given;		/* the file says what `server` is: true, or false */
	char node_id[37];		/* data_dir/node-id, made at the first start */
};

extern const struct conf_opt cluster_opts[];
extern const size_t cluster_opt_count;

/* The datacenter that has them instead of this one; NULL: none. */
const char *cluster_acl_primary(const struct cluster_conf *c);
/* "off", "accept", "send", "required" */
const char *cluster_encryption_name(int encryption);
/* Do we seal what we send, and open sealed links? */
static inline bool
cluster_seals(const struct cluster_conf *c)
{
	return c->encryption >= ENCRYPTION_SEND;
}
/* Do we take plaintext from others? */
static inline bool
cluster_takes_clear(const struct cluster_conf *c)
{
	return c->encryption != ENCRYPTION_REQUIRED;
}

/*
 * conf_load of dir/cluster.conf (which may be missing), the defaults that depend on the machine, and the
 * checks across keys (bind without keys, missing server key, ...).  errbuf gets one sentence on failure;
 * TV_EAGAIN: this machine has no address yet that could be advertised.
 * running is NULL at the start; at a reload it is what the process works with, and an address that was found
 * rather than configured is taken from there.
 */
enum tv_err cluster_conf_load(const char *dir, const struct cluster_conf *running, struct cluster_conf *out,
    char *errbuf, size_t cap);
void cluster_conf_free(struct cluster_conf *c);
/* Reads data_dir/node-id, or makes it (atomically: three daemons may start at once). */
enum tv_err cluster_node_id(struct cluster_conf *c, char *errbuf, size_t cap);

/* An IPv4 address of 127/8, or ::1; false for text that is no address. */
bool cluster_addr_is_loopback(const char *ip);

#endif
