/* gossipd.conf: the option table, and the pools' timing made of it. */
#ifndef TV_GOSSIPD_OPTS_H
#define TV_GOSSIPD_OPTS_H

#include "common/conf/conf.h"
#include "gossipd/core/swim.h"

#define GOSSIP_PEER_PORTS_MAX 8

/* Timing of one pool that differs from its profile; 0: as in the profile. */
struct pool_tuning {
	struct mono probe_interval, probe_timeout, gossip_interval, gossip_to_the_dead, pushpull_interval,
	    stream_timeout;
	uint64_t indirect_checks, suspicion_mult, suspicion_max_mult, retransmit_mult, gossip_nodes;
};

struct gossip_conf {
	int profile, profile_wan;	/* indexes into "lan|wan|local" */
	struct pool_tuning lan, wan;
	struct mono reap_interval, reconnect_interval, reconnect_timeout, tombstone_timeout, intent_timeout,
	    broadcast_timeout, leave_delay, dead_reclaim, flood_interval, snapshot_interval;
	uint64_t members_max, intents_max, queue_max, relays_max;
	uint64_t streams_max, streams_per_source, stream_bytes_max, stream_memory, packet_bytes, clients_max;
	struct conf_list peer_ports;	/* numbers as text, GOSSIP_PEER_PORTS_MAX at most */
	bool compress, tcp_pings, coordinates, snapshot;
};

extern const struct conf_opt gossip_opts[];
extern const size_t gossip_opt_count;

/* A port 1..65535 as peer_ports has it, or 0. */
uint16_t gossip_conf_port(const char *text);
/* Rules across keys: TV_EINVAL with one sentence in errbuf. */
enum tv_err gossip_conf_check(const struct gossip_conf *c, char *errbuf, size_t cap);
struct swim_timing gossip_conf_timing(const struct gossip_conf *c, enum gossip_pool pool);

#endif
