/*
 * The channel to this node's own raftd (servers only): kept up by a dialer, with calls and the newest status.
 */
#ifndef TV_RPCD_ROUTE_RAFTD_CLIENT_H
#define TV_RPCD_ROUTE_RAFTD_CLIENT_H

#include <ev.h>

#include "common/net/daemon_client.h"
#include "common/record/member.h"

struct raftd_client;

struct raftd_client_status {
	bool up;			/* the channel is open and a status has come */
	uint8_t role;			/* enum raft_role */
	uint64_t term;
	char leader_id[37];		/* "" while no leader is known */
	char leader_addr[64];		/* "ip:port" of its raftd, "" if none */
	char leader_name[MEMBER_NAME_BYTES_MAX + 1];
	uint64_t voters;
	bool is_voter;
};

struct raftd_client_conf {
	struct ev_loop *loop;
	const char *path;		/* raftd.sock */
	const char *node_id;		/* for HELLO; borrowed */
	size_t answer_max;		/* largest whole answer, bytes */
	size_t out_max;
	unsigned pending_max;
	/* The status changed, or the channel went up or down. */
	void (*on_change)(void *ctx);
	void *ctx;
};

struct raftd_client *raftd_client_new(const struct raftd_client_conf *conf);
void raftd_client_free(struct raftd_client *r);
const struct raftd_client_status *raftd_client_status(const struct raftd_client *r);
/* The connection itself: for its state, and to ask. */
struct daemon_client *raftd_client_daemon(struct raftd_client *r);
/*
 * A call was made whose answer does not wait for anything but raftd: it is watched that raftd answers at all.  One that
 * stays silent, also when asked, counts as away: the calls end with TV_ECLOSED.  Not where there is no other server.
 */
void raftd_client_expect(struct raftd_client *r);

#endif
