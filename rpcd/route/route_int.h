/*
 * What the files of the router share, and no other file includes.
 *
 * A call is what a client waits for; a forward is what goes to a server.  Most forwards carry one call.  Blocking
 * queries with identical bodies share a forward: ten thousand clients waiting on one key are one watch there.
 * A joined call may be answered earlier than its own wait asks for, which blocking queries allow.
 *
 *	route.c    calls: begun, joined, cancelled; the router itself
 *	dispatch.c     where a forward goes, and what comes back
 *	forward.c    how a forward is held, and how it ends
 */
#ifndef TV_RPCD_ROUTE_ROUTE_INT_H
#define TV_RPCD_ROUTE_ROUTE_INT_H

#include "common/base/join.h"
#include "rpcd/route/route.h"

#define PREFERRED_SLOTS 64

enum forward_state {
	FORWARD_NEW, FORWARD_LOCAL, FORWARD_LINK, FORWARD_PROVIDED, FORWARD_HELD, FORWARD_DOOMED, FORWARD_ENDING
};

struct route_call {
	struct join_waiter waiter;		/* of its forward */
	route_done *done;
	void *ctx;
};

struct tried {
	char ip[46];
	uint16_t port;
};

struct forward {
	struct route *route;
	LIST_ENTRY(forward) list;		/* one of the router's, by its state */
	struct join_flight flight;		/* open: a blocking query, by its body; its calls wait */
	struct route_call first;		/* most forwards have one only; done NULL: not in use */
	enum forward_state state : 8;
	enum route_origin origin : 8;
	enum tv_err doom : 16;			/* FORWARD_DOOMED */
	bool blocks;				/* a blocking query; what else it asks is read from the body */
	bool reusable;				/* has room for FORWARD_SHORT bytes */
	bool refused;				/* a server answered, but could not serve it */
	uint8_t tried_count;
	union {
		uint64_t local_id;		/* FORWARD_LOCAL */
		struct link_call *link;		/* FORWARD_LINK */
		void *started;			/* FORWARD_PROVIDED */
	};
	const struct op *op;
	uint64_t wait_ms;			/* of the question */
	struct mono hold_until;			/* 0: a blocking query that was not held yet */
	struct mono left_at;			/* a blocking query was sent; 0: not since it was held */
	uint32_t reign;				/* FORWARD_LINK: of the leader that was asked; 0: not as the leader */
	uint32_t body_len;
	struct tried *tried;			/* tried_count, FORWARD_TRIED_MAX at most; owned */
	uint8_t *body;				/* in `room`, or memory of its own */
	uint8_t room[];
};

LIST_HEAD(forward_list, forward);

struct route {
	struct route_conf conf;
	struct route_provider providers[OP_SERVER + 1];	/* by kind */
	struct rng rng;
	struct tried preferred[PREFERRED_SLOTS];	/* linked servers that were chosen last, by datacenter */
	/* Those that wait for a leader or a server; that end in a moment; all others; memory that is used again. */
	struct forward_list held, doomed, others, spares;
	unsigned spare_count;
	struct map joinable;			/* forwards that are open */
	ev_timer hold_timer, doom_timer;
	char leader[37];			/* node id of the newest one that our raftd told of */
	uint32_t reign, over;			/* how many; those before `over` have had their time when it fires */
	ev_timer reign_timer;
	struct mono look_around_at;		/* for servers of other datacenters that are not known; not before */
	uint64_t shared, reply_number;		/* replies shared by calls; that of the forward which ends */
	struct route_stats stats;
};

/* -- forward.c  -- */
/* Spans into its body, which could be read when it began.  Thousands of forwards wait: they do not all keep this. */
struct op_request forward_question(const struct forward *u);
/*
 * Of this body, without a call yet, among the router's forwards.  packed: the buffer that has the body; unless the
 * forward waits, it takes a long one over, and the buffer is empty then; NULL: the body is copied.  waits: it is a
 * blocking query.  Ended by forward_end() and its kin, or freed by forward_free().  NULL: no memory.
 */
struct forward *forward_new(struct route *r, enum route_origin origin, struct span body, struct buf *packed,
    bool waits);
/* Out of all lists; its calls are not told. */
void forward_free(struct forward *u);
/* This call of u alone, which waits no more. */
void forward_call_free(struct forward *u, struct route_call *c);
/* Answers every call and frees the forward. */
void forward_end(struct forward *u, const struct op_reply *reply);
/* The same, with the sentence for this error. */
void forward_fail(struct forward *u, enum tv_err err);
/*
 * Ends from the loop: done must not be called before route_start() returned.  err TV_OK: with what the provider of its
 * kind answers.
 */
void forward_doom(struct forward *u, enum tv_err err);
/* Nothing was done yet: wait for a leader or a server, within hold_timeout; then it fails with `why`. */
void forward_hold(struct forward *u, enum tv_err why);
/* All that are held are tried again, now. */
void forward_retry_held(struct route *r);
/* Of doom_timer and hold_timer. */
void forward_doom_cb(struct ev_loop *loop, ev_timer *w, int revents);
void forward_hold_cb(struct ev_loop *loop, ev_timer *w, int revents);

/* -- dispatch.c -- */
/* Sends the request where it belongs now.  Ends, holds or leaves the forward under way. */
void dispatch_try(struct forward *u);
/* The same with what its body says, for one who has read that. */
void dispatch_question(struct forward *u, const struct op_request *q);
/* Cancels the question to raftd, the link or the provider, if one is under way: its callback will not be called. */
void dispatch_recall(struct forward *u);
/* Is there another leader than at the last look? */
bool dispatch_reign_note(struct route *r);
/*
 * What was asked of the leaders of reigns before this one goes to the new leader, or its outcome is unknown.  sent_too
 * false: only what has not left yet.
 */
void dispatch_reign_give_up(struct route *r, uint32_t before, bool sent_too);
/* Of reign_timer. */
void dispatch_reign_cb(struct ev_loop *loop, ev_timer *w, int revents);

#endif
