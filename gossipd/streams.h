/*
 * TCP exchanges of one pool, in both directions: connect or accept, one message each way,
 * close.  Everything has a deadline and a limit; a peer that is slow costs one descriptor
 * for a while and nothing else.
 */
#ifndef TV_GOSSIPD_STREAMS_H
#define TV_GOSSIPD_STREAMS_H

#include <ev.h>

#include "gossipd/core/swim.h"
#include "gossipd/core/wire/stream.h"

struct streams;

struct streams_conf {
	struct ev_loop *loop;
	int fd;				/* listening; taken over */
	const struct envelope *envelope;
	struct stream_limits limits;
	struct mono timeout;		/* of reading a request, and of writing its answer; the first bytes get 2 s */
	/*
	 * Places of accepted streams, in all and of one source, twice: for those whose request was not read yet, since
	 * anybody can open these, and for those that get their answer.  The oldest makes room for the newest, and
	 * known sources have as many places again of their own: see common/net/strangers.h.
	 */
	unsigned accept_max, per_source_max;
	size_t bytes_max;		/* of all streams together: beyond it the largest one ends */
	void *ctx;
	/* A request came; returns the answer (borrowed until the next call back), empty for none. */
	struct span (*on_request)(void *ctx, const struct addr *from, const struct stream_message *m);
	/* The end of an exchange of ours: m, or NULL and why. Never called from within streams_dial(). */
	void (*on_end)(void *ctx, uint64_t id, const struct stream_message *m, enum tv_err why);
	/* Is this the source (common/net/source.h) of a member, or of a node that is to be joined? */
	bool (*is_known)(void *ctx, uint64_t source);
	/* What came is not for our keys, or the peer says that of what we sent. */
	void (*on_unreadable)(void *ctx, const struct addr *peer, bool dialled);
};

struct streams_stats {
	uint64_t accepted, dialled, refused, failed;	/* failed: accepted ones that broke a rule or a deadline */
	uint64_t bad_key;		/* with another key than ours, on either side */
	uint64_t crowded;		/* ended for the sake of others, because all together were too large */
	uint64_t evicted;		/* accepted ones that made room for newer ones */
	unsigned open, unread;		/* unread: accepted ones of which no whole request came yet */
};

struct streams *streams_new(const struct streams_conf *conf);
/* Starts an exchange; copies the message. */
void streams_dial(struct streams *t, const struct swim_stream *want);
/* Why the last connection that failed did, if it was to this address: errno; else 0. */
int streams_error(const struct streams *t, const struct addr *to);
void streams_stats(const struct streams *t, struct streams_stats *out);
/* Closes everything without call backs. */
void streams_free(struct streams *t);

#endif
