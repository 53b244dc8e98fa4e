/*
 * One pool: a gossip core with its sockets, timer, snapshot and log lines.  Feeds the core what
 * happens and carries out what it answers.
 *
 * The call backs come while an output is carried out: they must not feed the same pool, except on_query, which
 * comes last and may answer with pool_respond().
 */
#ifndef TV_GOSSIPD_POOL_H
#define TV_GOSSIPD_POOL_H

#include <ev.h>

#include "gossipd/log_notices.h"
#include "gossipd/opts.h"
#include "gossipd/snapshot.h"
#include "gossipd/streams.h"
#include "gossipd/tags.h"
#include "gossipd/udp.h"

struct pool;

struct pool_conf {
	struct ev_loop *loop;
	enum gossip_pool kind;
	const struct gossip_conf *opts;
	int udp_fd, tcp_fd;		/* taken over */
	struct span name;		/* of this node in the pool */
	struct addr self;
	struct span dc;			/* LAN: members of other datacenters are refused */
	const struct tagset *tags;
	const struct seal_ring *ring;	/* NULL or empty: plaintext */
	bool accept_plain, send_plain;	/* although there are keys */
	const char *snapshot_path;	/* NULL: none */
	void *ctx;
	void (*on_event)(void *ctx, struct pool *p, const struct swim_event *ev);
	void (*on_join)(void *ctx, struct pool *p, const struct swim_join *j);
	void (*on_left)(void *ctx, struct pool *p);
	void (*on_user_event)(void *ctx, struct pool *p, const struct swim_user_event *e);
	void (*on_query)(void *ctx, struct pool *p, const struct swim_query *q);
	void (*on_response)(void *ctx, struct pool *p, const struct swim_response *r);
	/* A datagram of another member was opened with this key of the ring. */
	void (*on_opened)(void *ctx, const struct addr *from, unsigned key);
	/* Something came that no key opens: in answer to what we dialled, or by itself. */
	void (*on_unreadable)(void *ctx, struct pool *p, const struct addr *from, bool dialled);
	/* Is this the source (common/net/source.h) of an address that we are told to join? */
	bool (*is_configured)(void *ctx, struct pool *p, uint64_t source);
	/* Another node holds our name by majority; name: when it spells it otherwise; copy: it has our node id. */
	void (*on_conflict_lost)(void *ctx, struct pool *p, struct span name, bool copy);
};

struct pool_refusal {
	struct mono at;
	struct addr from;		/* of the member asked */
	char why[LOG_REFUSAL_BYTES];	/* printable */
};

/* NULL with a log line.  *found: the members before the last stop; the caller frees it. */
struct pool *pool_new(const struct pool_conf *conf, struct snapshot_found *found);
/* Closes without leaving. */
void pool_free(struct pool *p);
enum gossip_pool pool_kind(const struct pool *p);
const struct swim *pool_core(const struct pool *p);
/* As SWIM_IN_JOIN; on_join follows unless it fails at once. */
enum tv_err pool_join(struct pool *p, uint64_t token, const struct addr *addrs, unsigned count, bool quiet);
/* on_left follows. */
enum tv_err pool_leave(struct pool *p);
enum tv_err pool_force_leave(struct pool *p, struct span name, bool prune);
enum tv_err pool_set_tags(struct pool *p, const struct tagset *tags);
/* As SWIM_IN_FIRE; on_user_event follows, also here.  *ltime: its Lamport time. */
enum tv_err pool_fire(struct pool *p, struct span name, struct span payload, bool coalesce, uint64_t *ltime);
/* As SWIM_IN_QUERY; on_response follows until its DONE. */
enum tv_err pool_query(struct pool *p, const struct swim_ask *ask);
/* As SWIM_IN_RESPOND. */
enum tv_err pool_respond(struct pool *p, uint64_t ltime, uint32_t id, struct span payload);
/* The last exchange that this node began and either side refused; at.ns == 0: none.  Borrowed. */
const struct pool_refusal *pool_refused(const struct pool *p);
bool pool_encrypted(const struct pool *p);
/* Is this where a member is, one that did not leave?  Walks through all members. */
bool pool_has_member_at(const struct pool *p, const struct addr *addr);
/* Failed writes of the snapshot. */
uint64_t pool_snapshot_errors(const struct pool *p);
void pool_udp_stats(const struct pool *p, struct udp_stats *out);
/* As streams_error(). */
int pool_dial_error(const struct pool *p, const struct addr *to);
void pool_streams_stats(const struct pool *p, struct streams_stats *out);

#endif
