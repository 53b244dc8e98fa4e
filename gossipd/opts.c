/* gossipd.conf; see opts.h. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "gossipd/opts.h"

#define F(field_) CONF_FIELD(struct gossip_conf, field_)
#define NITEMS(a_) (sizeof(a_) / sizeof((a_)[0]))

static const char *const profiles[] = { "lan", "wan", "local" };

/* The same keys for both pools.  0: as in the profile. */
#define TUNING(p_) \
	{ #p_ ".probe_interval", CONF_DURATION, F(p_.probe_interval), "0s", "0s", "1m", NULL, CONF_RESTART, \
	    "Time between probes; each probe asks one member. 0s: as in the profile." }, \
	{ #p_ ".probe_timeout", CONF_DURATION, F(p_.probe_timeout), "0s", "0s", "1m", NULL, CONF_RESTART, \
	    "Wait for a direct ack, after which other members are asked to probe. 0s: as in the profile." }, \
	{ #p_ ".indirect_checks", CONF_U64, F(p_.indirect_checks), "0", "0", "16", NULL, CONF_RESTART, \
	    "Members that are asked to probe one that does not answer. 0: as in the profile." }, \
	{ #p_ ".suspicion_mult", CONF_U64, F(p_.suspicion_mult), "0", "0", "64", NULL, CONF_RESTART, \
	    "Shortest time in suspicion, in probe intervals; grows with the pool. 0: as in the profile." }, \
	{ #p_ ".suspicion_max_mult", CONF_U64, F(p_.suspicion_max_mult), "0", "0", "64", NULL, CONF_RESTART, \
	    "Longest time in suspicion, in units of the shortest. 0: as in the profile." }, \
	{ #p_ ".retransmit_mult", CONF_U64, F(p_.retransmit_mult), "0", "0", "64", NULL, CONF_RESTART, \
	    "How often a message is passed on; grows with the pool. 0: as in the profile." }, \
	{ #p_ ".gossip_interval", CONF_DURATION, F(p_.gossip_interval), "0s", "0s", "1m", NULL, CONF_RESTART, \
	    "Time between rounds of gossip, while messages are queued. 0s: as in the profile." }, \
	{ #p_ ".gossip_nodes", CONF_U64, F(p_.gossip_nodes), "0", "0", "32", NULL, CONF_RESTART, \
	    "Members that gossip is sent to in each round. 0: as in the profile." }, \
	{ #p_ ".gossip_to_the_dead", CONF_DURATION, F(p_.gossip_to_the_dead), "0s", "0s", "1h", NULL, CONF_RESTART, \
	    "How long gossip is still sent to failed members, so that they can refute. 0s: as in the profile." }, \
	{ #p_ ".push_pull_interval", CONF_DURATION, F(p_.pushpull_interval), "0s", "0s", "1h", NULL, CONF_RESTART, \
	    "Time between full exchanges with a random member; longer above 32 members. 0s: as in the profile." }, \
	{ #p_ ".stream_timeout", CONF_DURATION, F(p_.stream_timeout), "0s", "0s", "5m", NULL, CONF_RESTART, \
	    "Longest TCP exchange. 0s: as in the profile." }

const struct conf_opt gossip_opts[] = {
	{ "profile", CONF_CHOICE, F(profile), "lan", NULL, NULL, "lan|wan|local", CONF_RESTART,
	    "Timing of the LAN pool; all members should agree." },
	{ "profile_wan", CONF_CHOICE, F(profile_wan), "wan", NULL, NULL, "lan|wan|local", CONF_RESTART,
	    "Timing of the WAN pool." },
	TUNING(lan),
	TUNING(wan),
	{ "reap_interval", CONF_DURATION, F(reap_interval), "15s", "100ms", "1h", NULL, CONF_RESTART,
	    "Time between checks for members to forget." },
	{ "reconnect_interval", CONF_DURATION, F(reconnect_interval), "30s", "100ms", "1h", NULL, CONF_RESTART,
	    "Time between attempts to reach a failed member." },
	{ "reconnect_timeout", CONF_DURATION, F(reconnect_timeout), "72h", "1s", "8760h", NULL, CONF_RESTART,
	    "A failed member is forgotten after this." },
	{ "tombstone_timeout", CONF_DURATION, F(tombstone_timeout), "24h", "1s", "8760h", NULL, CONF_RESTART,
	    "A member that left is forgotten after this." },
	{ "intent_timeout", CONF_DURATION, F(intent_timeout), "5m", "1s", "1h", NULL, CONF_RESTART,
	    "How long to remember a join or leave of a member not yet known." },
	{ "broadcast_timeout", CONF_DURATION, F(broadcast_timeout), "5s", "100ms", "5m", NULL, CONF_RESTART,
	    "Longest wait in a leave for its broadcast." },
	{ "leave_delay", CONF_DURATION, F(leave_delay), "1s", "0s", "5m", NULL, CONF_RESTART,
	    "How long to keep answering after a leave was broadcast." },
	{ "dead_reclaim", CONF_DURATION, F(dead_reclaim), "30s", "0s", "24h", NULL, CONF_RESTART,
	    "A failed member's name may come back at another address after this; 0s: never before it is forgotten." },
	{ "flood_interval", CONF_DURATION, F(flood_interval), "30s", "1s", "1h", NULL, CONF_RESTART,
	    "Servers: how often to bring the datacenter's other servers into the WAN pool." },
	{ "snapshot", CONF_BOOL, F(snapshot), "true", NULL, NULL, NULL, CONF_RESTART,
	    "Remember members on disk and join them again after a restart." },
	{ "snapshot_interval", CONF_DURATION, F(snapshot_interval), "500ms", "10ms", "1m", NULL, CONF_RESTART,
	    "Longest time until a change of membership is on disk." },
	{ "compress", CONF_BOOL, F(compress), "true", NULL, NULL, NULL, CONF_RESTART,
	    "Compress messages sent; compressed ones are accepted either way." },
	{ "tcp_pings", CONF_BOOL, F(tcp_pings), "true", NULL, NULL, NULL, CONF_RESTART,
	    "Probe over TCP as well when datagrams get no answer." },
	{ "coordinates", CONF_BOOL, F(coordinates), "true", NULL, NULL, NULL, CONF_RESTART,
	    "Exchange network coordinates, from which round trips between any two members are estimated." },
	{ "peer_ports", CONF_LIST, F(peer_ports), NULL, NULL, NULL, NULL, CONF_RESTART,
	    "Other gossip ports that members listen at, such as 7946 of Serf's agents." },
	{ "packet_bytes", CONF_SIZE, F(packet_bytes), "1400", "512", "65000", NULL, CONF_RESTART,
	    "Largest datagram to fill with gossip." },
	{ "limits.members", CONF_U64, F(members_max), "20000", "16", "1000000", NULL, CONF_RESTART,
	    "Members of a pool, failed and left ones included; further ones are refused." },
	{ "limits.intents", CONF_U64, F(intents_max), "4096", "16", "1000000", NULL, CONF_RESTART,
	    "Joins and leaves remembered of members not yet known." },
	{ "limits.queue", CONF_U64, F(queue_max), "4096", "64", "1000000", NULL, CONF_RESTART,
	    "Messages of one kind in the broadcast queue; the most-sent one is dropped first." },
	{ "limits.relays", CONF_U64, F(relays_max), "1024", "1", "100000", NULL, CONF_RESTART,
	    "Probes made for other members at a time." },
	{ "limits.streams", CONF_U64, F(streams_max), "128", "4", "10000", NULL, CONF_RESTART,
	    "TCP exchanges that others may have open with a pool." },
	{ "limits.streams_per_source", CONF_U64, F(streams_per_source), "32", "1", "10000", NULL, CONF_RESTART,
	    "TCP exchanges that one address may have open with a pool." },
	{ "limits.stream_bytes", CONF_SIZE, F(stream_bytes_max), "20M", "64k", "20M", NULL, CONF_RESTART,
	    "Largest message on a TCP exchange." },
	{ "limits.stream_memory", CONF_SIZE, F(stream_memory), "64M", "1M", "4G", NULL, CONF_RESTART,
	    "Memory of all TCP exchanges of a pool together; beyond it the largest one is closed." },
	{ "limits.clients", CONF_U64, F(clients_max), "64", "4", "10000", NULL, CONF_RESTART,
	    "Connections to gossipd.sock." },
};
const size_t gossip_opt_count = NITEMS(gossip_opts);

static void
pick(struct mono *at, struct mono set)
{
	if (set.ns != 0)
		*at = set;
}

static void
pick_count(unsigned *at, uint64_t set)
{
	if (set != 0)
		*at = (unsigned)set;
}

struct swim_timing
gossip_conf_timing(const struct gossip_conf *c, enum gossip_pool pool)
{
	const struct pool_tuning *p = pool == POOL_LAN ? &c->lan : &c->wan;
	struct swim_timing t = *swim_preset(profiles[pool == POOL_LAN ? c->profile : c->profile_wan]);

	pick(&t.probe_interval, p->probe_interval);
	pick(&t.probe_timeout, p->probe_timeout);
	pick(&t.gossip_interval, p->gossip_interval);
	pick(&t.gossip_to_the_dead, p->gossip_to_the_dead);
	pick(&t.pushpull_interval, p->pushpull_interval);
	pick(&t.stream_timeout, p->stream_timeout);
	pick_count(&t.indirect_checks, p->indirect_checks);
	pick_count(&t.suspicion_mult, p->suspicion_mult);
	pick_count(&t.suspicion_max_mult, p->suspicion_max_mult);
	pick_count(&t.retransmit_mult, p->retransmit_mult);
	pick_count(&t.gossip_nodes, p->gossip_nodes);
	t.reap_interval = c->reap_interval;
	t.reconnect_interval = c->reconnect_interval;
	t.reconnect_timeout = c->reconnect_timeout;
	t.tombstone_timeout = c->tombstone_timeout;
	t.intent_timeout = c->intent_timeout;
	t.broadcast_timeout = c->broadcast_timeout;
	t.leave_delay = c->leave_delay;
	t.dead_reclaim = c->dead_reclaim;
	return t;
}

/* Shorter ones would keep the pool busy with itself. */
static const struct {
	const char *key;
	size_t offset;
	struct mono min;
} floors[] = {
	{ "probe_interval", offsetof(struct swim_timing, probe_interval), MONO_MS(50) },
	{ "probe_timeout", offsetof(struct swim_timing, probe_timeout), MONO_MS(10) },
	{ "gossip_interval", offsetof(struct swim_timing, gossip_interval), MONO_MS(10) },
	{ "gossip_to_the_dead", offsetof(struct swim_timing, gossip_to_the_dead), MONO_MS(100) },
	{ "push_pull_interval", offsetof(struct swim_timing, pushpull_interval), MONO_MS(100) },
	{ "stream_timeout", offsetof(struct swim_timing, stream_timeout), MONO_MS(100) },
};

uint16_t
gossip_conf_port(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	return *text >= '0' && *text <= '9' && *end == '\0' && n <= UINT16_MAX ? (uint16_t)n : 0;
}

static enum tv_err
check_ports(const struct conf_list *ports, char *errbuf, size_t cap)
{
	if (ports->count > GOSSIP_PEER_PORTS_MAX)
		return tv_fail(errbuf, cap, TV_EINVAL, "gossipd.conf: peer_ports: at most %d", GOSSIP_PEER_PORTS_MAX);
	for (size_t i = 0; i < ports->count; i++) {
		if (gossip_conf_port(ports->items[i]) != 0)
			continue;
		return tv_fail(errbuf, cap, TV_EINVAL, "gossipd.conf: peer_ports: \"%s\" is not a port (write "
		    "\"7946\"; 1 to 65535)", ports->items[i]);
	}
	return TV_OK;
}

enum tv_err
gossip_conf_check(const struct gossip_conf *c, char *errbuf, size_t cap)
{
	static const char *const names[] = { "lan", "wan" };

	for (enum gossip_pool pool = POOL_LAN; pool <= POOL_WAN; pool++) {
		struct swim_timing t = gossip_conf_timing(c, pool);

		for (size_t i = 0; i < NITEMS(floors); i++) {
			struct mono value;

			memcpy(&value, (const char *)&t + floors[i].offset, sizeof(value));
			if (mono_before(value, floors[i].min))
				return tv_fail(errbuf, cap, TV_EINVAL, "gossipd.conf: %s.%s: write at least %lldms",
				    names[pool], floors[i].key, (long long)mono_ms(floors[i].min));
		}
		if (!mono_before(t.probe_timeout, t.probe_interval))
			return tv_fail(errbuf, cap, TV_EINVAL, "gossipd.conf: %s.probe_timeout: must be shorter than "
			    "%s.probe_interval", names[pool], names[pool]);
	}
	return check_ports(&c->peer_ports, errbuf, cap);
}
