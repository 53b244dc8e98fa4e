/*
 * What the files of the router share; for nobody else.
 *
 * A call is what a client waits for; a flight is what goes upstream.  Most flights carry one call.  Blocking
 * queries with identical bodies share a flight: ten thousand clients waiting on one key are one watch upstream.
 * A joined call may be answered earlier than its own wait asks for, which blocking queries allow.
 *
 *	route.c    calls: begun, joined, cancelled; the router itself
 *	ways.c     where a flight goes, and what comes back
 *	flight.c   how a flight is held, and how it ends
 */
#ifndef TV_ROUTE_INT_H
#define TV_ROUTE_INT_H

#include "rpcd/route/route.h"

#define FLIGHT_BUCKETS 4096

enum flight_state {
	FLIGHT_NEW, FLIGHT_LOCAL, FLIGHT_LINK, FLIGHT_FIRE, FLIGHT_KEYS, FLIGHT_HELD, FLIGHT_DOOMED, FLIGHT_ENDING
};

struct route_call {
	struct flight *flight;
	struct route_call *next;
	route_done *done;
	void *ctx;
};

struct tried {
	char ip[46];
	uint16_t port;
};

struct flight {
	struct route *route;
	struct flight *prev, *next;		/* all flights */
	struct flight *chain;			/* hash bucket, while joinable */
	struct flight *queue_prev, *queue_next;	/* held or doomed */
	struct route_call *calls;
	struct route_call first;		/* most flights have one only; done NULL: not in use */
	enum flight_state state;
	enum route_origin origin;
	union {
		uint64_t local_id;		/* FLIGHT_LOCAL */
		struct link_call *link;		/* FLIGHT_LINK */
		struct fire *fire;		/* FLIGHT_FIRE */
		struct keyask *keys;		/* FLIGHT_KEYS */
	};
	const struct op *op;
	uint64_t index, wait_ms;		/* of the question; more is read from the body when it is needed */
	struct mono hold_until;			/* 0: a blocking query that was not held yet */
	struct mono left_at;			/* a blocking query went upstream; 0: not since it was held */
	uint32_t reign;				/* FLIGHT_LINK: of the leader that was asked; 0: not as the leader */
	bool joinable;
	bool reusable;				/* has room for FLIGHT_SHORT bytes */
	bool refused;				/* somebody answered, but could not serve it */
	enum tv_err doom;			/* FLIGHT_DOOMED */
	uint8_t tried_count;
	struct tried *tried;			/* tried_count, FLIGHT_TRIED_MAX at most; owned */
	size_t body_len;
	uint8_t body[];
};

struct flight_queue {
	struct flight *head;
};

struct route {
	struct route_conf conf;
	struct rng rng;
	struct flight *flights;
	struct flight *spares;			/* by next */
	unsigned spare_count;
	struct flight_queue held, doomed;
	struct flight **buckets;		/* joinable flights by body */
	ev_timer hold_timer, doom_timer;
	char leader[37];			/* node id of the newest one that our raftd told of */
	uint32_t reign, over;			/* how many; those before `over` have had their time when it fires */
	ev_timer reign_timer;
	struct mono look_around_at;		/* for servers of other datacenters that are not known; not before */
	uint64_t shared, reply_number;		/* replies that several calls got; that of the flight which ends now */
	struct route_stats stats;
};

/* -- flight.c -- */
/* Spans into its body, which could be read when it began.  Thousands of flights wait: they do not all keep this. */
struct op_request flight_question(const struct flight *f);
/* Where a flight with this body stands while others may join it. */
struct flight **flight_bucket(struct route *r, struct span body);
/*
 * Of this body, without a call yet, among the router's flights.  waits: it is a blocking query.  Ended by flight_end()
 * and its kin, or freed by flight_free().  NULL: no memory.
 */
struct flight *flight_new(struct route *r, enum route_origin origin, struct span body, bool waits);
/* Out of all lists; its calls are not told. */
void flight_free(struct flight *f);
/* This call alone; it must be off its flight's list. */
void flight_call_free(struct route_call *c);
/* Answers every call and frees the flight. */
void flight_end(struct flight *f, const struct op_reply *reply);
/* The same, with the sentence for this error. */
void flight_fail(struct flight *f, enum tv_err err);
/*
 * Ends from the loop: done must not be called before route_start() returned.  err TV_OK: with this server's own answer
 * to an OP_VIEW operation.
 */
void flight_doom(struct flight *f, enum tv_err err);
/* Nothing was done yet: wait for a leader or a server, within hold_timeout; then it fails with `why`. */
void flight_hold(struct flight *f, enum tv_err why);
/* All that are held are tried again, now. */
void flight_retry_held(struct route *r);
/* Of doom_timer and hold_timer. */
void flight_doom_cb(struct ev_loop *loop, ev_timer *w, int revents);
void flight_hold_cb(struct ev_loop *loop, ev_timer *w, int revents);

/* -- ways.c -- */
/* Sends the request where it belongs now.  Ends, holds or leaves the flight under way. */
void ways_try(struct flight *f);
/* Takes back what is under way upstream, if anything is: nobody will say anything about it any more. */
void ways_recall(struct flight *f);
/* Is there another leader than at the last look? */
bool ways_reign_note(struct route *r);
/*
 * What was asked of the leaders of reigns before this one goes to the new leader, or its outcome is unknown.  sent_too
 * false: only what has not left yet.
 */
void ways_reign_give_up(struct route *r, uint32_t before, bool sent_too);
/* Of reign_timer. */
void ways_reign_cb(struct ev_loop *loop, ev_timer *w, int revents);

#endif
