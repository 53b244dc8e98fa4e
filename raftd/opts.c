/* Option table of raftd.conf. */

#include "common/base/uuid.h"
#include "raftd/opts.h"

#define F(field_) CONF_FIELD(struct raftd_conf, field_)

const struct conf_opt raftd_opts[] = {
	{ "bootstrap", CONF_BOOL, F(bootstrap), "false", NULL, NULL, NULL, CONF_RESTART,
	    "a fresh server makes a cluster of its own; on the first server only" },
	{ "bootstrap_expect", CONF_U64, F(bootstrap_expect), "0", "0", "15", NULL, CONF_RESTART,
	    "this many fresh servers make a cluster together; the same on all of them" },

	{ "acl.tokens.initial_management", CONF_SECRET, F(acl_initial_management), NULL, NULL, NULL, NULL, CONF_RESTART,
	    "secret of the first token, a UUID: with it the leader makes that token by itself" },

	{ "election_timeout", CONF_DURATION, F(election_timeout), "300ms", "50ms", "60s", NULL, CONF_RESTART,
	    "silence after which a follower stands for election; up to twice as long" },
	{ "heartbeat_interval", CONF_DURATION, F(heartbeat_interval), "75ms", "10ms", "20s", NULL, CONF_RESTART,
	    "time between the leader's heartbeats; at most a third of election_timeout" },
	{ "append_entries_max", CONF_U64, F(append_entries_max), "512", "1", "4096", NULL, CONF_RESTART,
	    "log entries in one message" },
	{ "append_bytes_max", CONF_SIZE, F(append_bytes_max), "1M", "4k", "16M", NULL, CONF_RESTART,
	    "payload bytes in one message; one entry always goes" },
	{ "inflight_max", CONF_U64, F(inflight_max), "64", "1", "1024", NULL, CONF_RESTART,
	    "unanswered messages to one follower" },
	{ "snapshot_chunk", CONF_SIZE, F(snapshot_chunk), "256k", "4k", "8M", NULL, CONF_RESTART,
	    "bytes of a snapshot in one message" },
	{ "catchup_rounds", CONF_U64, F(catchup_rounds), "10", "1", "1000", NULL, CONF_RESTART,
	    "replication rounds after which a learner counts as caught up" },

	{ "snapshot_threshold", CONF_U64, F(snapshot_threshold), "16384", "16", "100000000", NULL, CONF_LIVE,
	    "entries applied since the last checkpoint that call for a new one" },
	{ "snapshot_interval", CONF_DURATION, F(snapshot_interval), "30s", "100ms", "24h", NULL, CONF_LIVE,
	    "time between checks of snapshot_threshold" },
	{ "trailing_logs", CONF_U64, F(trailing_logs), "10240", "0", "100000000", NULL, CONF_LIVE,
	    "entries that stay in the log after a checkpoint, for followers that lag" },
	{ "log_bytes", CONF_SIZE, F(log_bytes), "64M", "1M", "1T", NULL, CONF_RESTART,
	    "log on disk that calls for a checkpoint, and that stays at most after one" },
	{ "log_keep_max", CONF_SIZE, F(log_keep_max), "4G", "1M", "1T", NULL, CONF_RESTART,
	    "log kept on disk for a connected follower that lags further; then it needs a snapshot" },
	{ .key = "log_cache", .type = CONF_REMOVED,
	    .help = "delete it: the log needs no cache, and state_cache is where memory helps" },
	{ "state_cache", CONF_SIZE, F(state_cache), "34M", "1M", "64G", NULL, CONF_RESTART,
	    "memory of the state data base" },
	{ "entry_cache", CONF_SIZE, F(entry_cache), "2M", "64k", "1G", NULL, CONF_RESTART,
	    "recent log entries kept in memory for followers" },
	{ "disk_reserve", CONF_SIZE, F(disk_reserve), "64M", "1M", "1T", NULL, CONF_RESTART,
	    "with less than this left on its file system the server refuses writes" },
	{ "slow_sync", CONF_DURATION, F(slow_sync), "500ms", "1ms", "60s", NULL, CONF_LIVE,
	    "a log write that takes longer is logged" },
	{ "disk_stuck_timeout", CONF_DURATION, F(disk_stuck_timeout), "5s", "100ms", "10m", NULL, CONF_LIVE,
	    "a leader whose log write takes longer steps down" },

	{ "cleanup_dead_servers", CONF_BOOL, F(cleanup_dead_servers), "true", NULL, NULL, NULL, CONF_LIVE,
	    "autopilot of a new cluster: the leader removes failed servers while a quorum stays" },
	{ "last_contact_threshold", CONF_DURATION, F(last_contact_threshold), "200ms", "0s", "10m", NULL, CONF_LIVE,
	    "autopilot of a new cluster: a server that was silent for longer is not healthy; 0: not checked" },
	{ "max_trailing_logs", CONF_U64, F(max_trailing_logs), "250", "0", "100000000", NULL, CONF_LIVE,
	    "autopilot of a new cluster: a server further behind is not healthy; 0: not checked" },
	{ "min_quorum", CONF_U64, F(min_quorum), "0", "0", "15", NULL, CONF_LIVE,
	    "autopilot of a new cluster: voters that cleanup leaves in any case; 0: 3" },
	{ "server_stabilization_time", CONF_DURATION, F(server_stabilization_time), "10s", "0s", "24h", NULL, CONF_LIVE,
	    "autopilot of a new cluster: how long a new server must be healthy before it votes" },
	{ "dead_server_grace", CONF_DURATION, F(dead_server_grace), "60s", "0s", "24h", NULL, CONF_LIVE,
	    "how long a server must have failed before it is cleaned up" },
	{ "member_interval", CONF_DURATION, F(member_interval), "1s", "100ms", "60s", NULL, CONF_LIVE,
	    "time between membership checks when nothing happens" },
	{ "reconcile_interval", CONF_DURATION, F(reconcile_interval), "60s", "1s", "1h", NULL, CONF_RESTART,
	    "how often the whole catalog is compared with gossip" },
	{ "leave_timeout", CONF_DURATION, F(leave_timeout), "10s", "1s", "10m", NULL, CONF_LIVE,
	    "how long a leaving server waits for its removal" },

	{ "session_ttl_min", CONF_DURATION, F(session_ttl_min), "10s", "1ms", "24h", NULL, CONF_LIVE,
	    "shortest TTL of a session" },
	{ "session_ttl_max", CONF_DURATION, F(session_ttl_max), "24h", "1s", "8760h", NULL, CONF_LIVE,
	    "longest TTL of a session" },
	{ "reap_interval", CONF_DURATION, F(reap_interval), "30s", "100ms", "1h", NULL, CONF_RESTART,
	    "how often the leader forgets tombstones of deleted keys older than 15 minutes" },

	{ "socket_path", CONF_PATH, F(socket_path), NULL, NULL, NULL, NULL, CONF_RESTART,
	    "socket for rpcd; default: raftd.sock in run_dir" },
	{ "clients_max", CONF_U64, F(clients_max), "16", "1", "1024", NULL, CONF_RESTART,
	    "connections on that socket" },
	{ "requests_max", CONF_U64, F(requests_max), "65536", "16", "1000000", NULL, CONF_LIVE,
	    "operations that may be pending on all of them" },
	{ "requests_bytes_max", CONF_SIZE, F(requests_bytes_max), "128M", "64k", "64G", NULL, CONF_LIVE,
	    "bytes of these operations together; further ones are refused with the advice to try again" },
	{ "watches_max", CONF_U64, F(watches_max), "32768", "0", "1000000", NULL, CONF_LIVE,
	    "blocking queries that may wait" },
	{ "links_max", CONF_U64, F(links_max), "64", "2", "1024", NULL, CONF_RESTART,
	    "links accepted on the raft port" },
	{ "request_bytes_max", CONF_SIZE, F(request_bytes_max), "2M", "64k", "32M", NULL, CONF_RESTART,
	    "largest operation" },
	{ "answer_bytes_max", CONF_SIZE, F(answer_bytes_max), "48M", "1M", "60M", NULL, CONF_LIVE,
	    "largest answer" },
	{ "restore_bytes_max", CONF_SIZE, F(restore_bytes_max), "16G", "1M", "1024G", NULL, CONF_RESTART,
	    "largest archive that is restored, and largest state in one, unpacked" },
	{ "read_timeout", CONF_DURATION, F(read_timeout), "7s", "100ms", "10m", NULL, CONF_LIVE,
	    "how long a read waits for a leader and for the own state to catch up" },
	{ "write_timeout", CONF_DURATION, F(write_timeout), "10s", "100ms", "10m", NULL, CONF_LIVE,
	    "how long a write waits for its quorum before its outcome is called unknown" },
	{ "hello_timeout", CONF_DURATION, F(hello_timeout), "5s", "100ms", "60s", NULL, CONF_RESTART,
	    "connect, handshake and hello of a link" },
};
const size_t raftd_opt_count = sizeof(raftd_opts) / sizeof(raftd_opts[0]);

/* The secret of the first token: the same rules as for one that a client chooses, see acl_ids_are_free(). */
static enum tv_err
check_first_token(const struct raftd_conf *c, char *errbuf, size_t cap)
{
	struct span secret = span_str(c->acl_initial_management == NULL ? "" : c->acl_initial_management);

	if (secret.len == 0 || (uuid_parse(secret, NULL) && !span_starts(secret, span_str(UUID_RESERVED))))
		return TV_OK;
	return tv_fail(errbuf, cap, TV_EINVAL, "acl.tokens.initial_management: a random UUID is expected, such as "
	    "/proc/sys/kernel/random/uuid gives");
}

enum tv_err
raftd_conf_check(const struct raftd_conf *c, char *errbuf, size_t cap)
{
	if (c->bootstrap && c->bootstrap_expect > 1)
		return tv_fail(errbuf, cap, TV_EINVAL, "bootstrap and bootstrap_expect exclude each other: bootstrap "
		    "makes a cluster of this server alone");
	if (c->election_timeout.ns < 3 * c->heartbeat_interval.ns)
		return tv_fail(errbuf, cap, TV_EINVAL, "election_timeout must be at least three times "
		    "heartbeat_interval");
	if (c->session_ttl_min.ns > c->session_ttl_max.ns)
		return tv_fail(errbuf, cap, TV_EINVAL, "session_ttl_min must not be above session_ttl_max");
	if (c->disk_stuck_timeout.ns < c->slow_sync.ns)
		return tv_fail(errbuf, cap, TV_EINVAL, "disk_stuck_timeout must not be below slow_sync");
	return check_first_token(c, errbuf, cap);
}
