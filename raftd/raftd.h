/*
 * raftd from above: what each module owns.  Modules get this context and call those in their own folder or in a lower one
 * by their headers (raftd/README.md has the order); no file reaches into another's record.  Higher ones are called through what they
 * have handed in: struct engine_hooks, struct links_hooks, links_serve(), engine_on_status().
 */
#ifndef TV_RAFTD_RAFTD_H
#define TV_RAFTD_RAFTD_H

#include <ev.h>

#include "common/base/figure.h"
#include "common/base/log.h"
#include "common/conf/keys.h"
#include "raftd/opts.h"
#include "raftd/store/store.h"

/* The identity of this server; cluster_id and generation change while a cluster forms (raftd/peers/identity.h). */
struct identity {
	char uuid[37];			/* node id */
	char name[256];
	char addr[64];			/* "ip:port" that others dial */
	char store_id[37];		/* of this disk */
	char cluster_id[37];		/* "" while fresh */
	uint64_t generation;		/* 0: the cluster id is a promise; else member of the cluster: see identity.h */
	raft_id self;
};

/* A generation as people see it: how many recoveries there were, and one more. */
static inline uint64_t
generation_number(uint64_t generation)
{
	return generation & UINT16_MAX;
}

enum start_status {
	START_LOG,			/* the log is being read */
	START_STATE,			/* this server runs, and the state is being opened */
	START_NO_ROOM,			/* either waits for room on the disk */
	START_DONE,
};

struct raftd {
	struct raftd_conf conf;
	struct cluster_conf cluster;
	struct daemon_spec *spec;
	struct ev_loop *loop;
	struct identity id;
	struct log_store *log;
	struct log_meta meta;		/* as found at the start */
	struct fsm *fsm;		/* NULL until the state is open */
	struct {			/* opening.h */
		enum start_status status;
		struct mono since, took;	/* took: until the state was open */
	} start;
	int link_fd, socket_fd;		/* bound before privileges go; -1 once handed on */
	int fetch_fd;			/* channel to the monitor that starts "raftd: fetch"; -1: none */
	struct server_keys keys;	/* keys.raft: psks of raft links; NULL: links in clear */
	ev_async relieved;		/* what waits for the disk has become less */
	bool stopping;
	bool left;			/* the cluster, for good: the process ends with its gossipd */
	bool acl_told;			/* that access control holds though the configuration does not say so */
	bool data_lost;			/* the data folder was removed under us */
	uint64_t fenced;		/* generation that the cluster was recovered as without us; 0: none heard of */
	struct log_limit notices;	/* of other servers about us */
	char refusal[1024];		/* the newest notice; "" when there is none, or a leader is known since */
	bool removed;			/* it said that we were removed for good */

	struct space *space;		/* is there room for more */
	struct loop_time *loop_time;
	struct jobs *worker;		/* what takes long, one at a time: checkpoints, writing and loading snapshots */
	struct jobs *files;		/* short work with files other than the log and the state, in order */
	struct opening *opening;	/* of log and state, at the start */
	struct statethread *state;	/* threads that read or change fsm while the loop goes on */
	struct engine *engine;		/* the core and its order of effects */
	struct links *links;		/* other servers */
	struct snapshots *snapshots;	/* checkpoints, transfer in both directions */
	struct exports *exports;	/* snapshots for clients */
	struct import *import;		/* a client's archive on its way into the state */
	struct import_leader *import_leader;	/* the leader's part of that */
	struct gossip *gossip;		/* what gossipd says */
	struct autopilot *autopilot;	/* health of the servers while we lead */
	struct recover *recover;	/* of a cluster that lost its majority */
	struct membership *members;	/* changes of the configuration */
	struct rpcd_watch *rpcd_watch;	/* what to do about an rpcd that does not answer */
	struct rpcd_peers *rpcd_peers;	/* do the other servers' rpcds answer? */
	struct bootstrap *bootstrap;	/* bootstrap */
	struct token_watch *token_watch;	/* blocking queries whose tokens may change */
	struct key_fetch *key_fetch;	/* keys of the issuers of logins */
	struct requests *requests;	/* of rpcd, until they are answered */
	struct info *info;		/* what this server tells about itself */
	struct clients *clients;	/* rpcd */
	struct leader *leader;		/* duties while we lead */
	struct handover *handover;	/* while stopping as the leader */
};

#endif
