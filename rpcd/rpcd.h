/*
 * rpcd from above: what it consists of.  main.c wires it and stops it; opening.h fills in what is opened with
 * privileges; info.h reads it.  No other file sees it: the parts get what they need by their own headers.
 */
#ifndef TV_RPCD_RPCD_H
#define TV_RPCD_RPCD_H

#include <ev.h>

#include "common/base/log.h"
#include "common/conf/keys.h"
#include "common/proc/daemon.h"
#include "common/proc/loop_turns.h"
#include "rpcd/acl/guard.h"
#include "rpcd/api/api.h"
#include "rpcd/api/v1/host.h"
#include "rpcd/keys/keys.h"
#include "rpcd/registry/def_files.h"
#include "rpcd/route/failover.h"
#include "rpcd/wan/datacenters.h"

#define FDS_MAX 64			/* HTTP listeners */
#define PATH_BYTES_MAX 4096

struct rpcd {
	const struct daemon_spec *spec;
	char **argv;			/* of main() */
	struct cluster_conf cluster;
	struct rpcd_conf conf;
	struct ev_loop *loop;
	struct mono started;
	struct loop_turns turns;
	ev_timer look_servers;		/* after members changed */
	unsigned servers;		/* of this datacenter that were alive then */

	/* opened with privileges */
	int http_fds[FDS_MAX], https_fds[FDS_MAX];
	unsigned http_fd_count, https_fd_count;
	int rpc_fd;			/* -1 on a client */
	int check_monitor, docker_monitor;	/* channels to them, -1: none */
	int dns_monitor;		/* the same; -1: no DNS */
	int keys_monitor;		/* the same; -1: no HTTPS */
	struct key *psks;		/* of the links, locked: one for each key of the ring, the primary one first */
	struct server_keys server_keys;
	struct noise_conf noise;
	struct host host;
	char gossipd_path[PATH_BYTES_MAX], raftd_path[PATH_BYTES_MAX], checks_path[PATH_BYTES_MAX];
	char tokens_path[PATH_BYTES_MAX], acl_path[PATH_BYTES_MAX];
	struct trail *trail;

	struct members *members;
	struct raftd_client *raft;	/* NULL on a client */
	struct link_client *links;
	struct coords *coords;		/* NULL on a client */
	struct route *route;
	struct agent_tokens tokens;
	struct acl_resolver *acl;
	struct acl_guard fire_guard, keyring_guard;
	struct acl_replicator *replicator;	/* NULL: no server, or no other datacenter's tokens are copied */
	struct datacenters datacenters;
	struct cache *cache;
	struct coord_report *coord_report;
	struct twin_watch *twin_watch;
	struct link_server *link_server;		/* NULL on a client */
	struct admin *admin;
	struct def_set defined;		/* by services.d, between reading and taking over */
	struct registry *registry;
	struct checks *checks;
	struct dns_process *dns;	/* NULL: no DNS */
	struct dns_explainer *dns_explainer;
	struct keys *keys;		/* NULL: no HTTPS */
	bool has_certificate;		/* for HTTPS; before that it is not ready */
	struct events *events;
	struct queries *queries;
	struct log_streams *log_streams;
	struct gzip *gzip;
	struct tls_server *tls;		/* NULL: no HTTPS */
	struct tls_renewal *tls_renewal;	/* the same */
	struct http *http;
	struct failovers failovers;
	struct api api;

	ev_timer settle;		/* while stopping */
	struct mono stop_at;
	bool settled;
};

/* Of the processes that it starts. */
static inline int
rpcd_log_level(const struct rpcd *p)
{
	return log_enabled(LOG_LVL_DEBUG) ? LOG_LVL_DEBUG : p->cluster.log_level;
}

#endif
