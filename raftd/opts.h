/*
 * raftd.conf: every limit and timeout of raftd, with its default.  The table in opts.c feeds the
 * parser, `raftd -n`, and the test that man/raftd.conf.5 holds the same keys.
 */
#ifndef TV_RAFTD_OPTS_H
#define TV_RAFTD_OPTS_H

#include "common/conf/cluster_conf.h"

struct raftd_conf {
	/* forming a cluster */
	bool bootstrap;			/* a fresh server makes a cluster of its own */
	uint64_t bootstrap_expect;	/* 0: wait to be joined; N: N fresh servers make one together */

	/* access control */
	char *acl_initial_management;	/* the secret of the first token, a UUID; NULL: it is made, and the caller of the bootstrap gets it */

	/* consensus */
	struct mono election_timeout;	/* base T; used in [T, 2T) */
	struct mono heartbeat_interval;	/* T >= 3 * this */
	uint64_t append_entries_max, append_bytes_max, inflight_max;
	uint64_t snapshot_chunk;	/* bytes */
	uint64_t catchup_rounds;

	/* storage */
	uint64_t snapshot_threshold;	/* entries applied since the last checkpoint */
	struct mono snapshot_interval;	/* how often that is looked at */
	uint64_t trailing_logs;		/* entries kept in the log after a checkpoint */
	uint64_t log_bytes;		/* on disk: more calls for a checkpoint, and is cut */
	uint64_t log_keep_max;		/* bytes of log kept for a follower beyond them */
	uint64_t state_cache, entry_cache;	/* bytes */
	struct mono slow_sync;		/* a log write longer than this is logged */
	uint64_t disk_reserve;		/* bytes left below which no writes are taken */
	struct mono disk_stuck_timeout;	/* one longer than this costs the leadership */

	/* membership; the first five only for the first autopilot record of a cluster */
	bool cleanup_dead_servers;
	struct mono last_contact_threshold;
	uint64_t max_trailing_logs;
	uint64_t min_quorum;
	struct mono server_stabilization_time;
	struct mono dead_server_grace;	/* failed for this long before it is cleaned up */
	struct mono member_interval;	/* how often membership is looked at without an event */
	struct mono reconcile_interval;	/* catalog against gossip */
	struct mono leave_timeout;

	/* state machine */
	struct mono session_ttl_min, session_ttl_max;
	struct mono reap_interval;	/* how often the leader looks for tombstones that are old enough */

	/* the socket for rpcd, and links */
	char *socket_path;		/* default: run_dir/raftd.sock */
	uint64_t clients_max, requests_max, requests_bytes_max, watches_max, links_max;
	uint64_t request_bytes_max, answer_bytes_max, restore_bytes_max;
	struct mono read_timeout, write_timeout;
	struct mono hello_timeout;
};

extern const struct conf_opt raftd_opts[];
extern const size_t raftd_opt_count;

/* Rules that span several keys; one sentence into errbuf.  TV_OK or TV_EINVAL. */
enum tv_err raftd_conf_check(const struct raftd_conf *c, char *errbuf, size_t cap);

#endif
