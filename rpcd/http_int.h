/*
 * The parts of the HTTP transport:
 *
 *	http.c		requests that libmicrohttpd reads and answers
 *	http_conns.c	connections: accepting, limits, deadlines; those that libmicrohttpd does not have now
 *	http_park.c	blocking queries: their connections wait outside libmicrohttpd, and are answered by ourselves
 *
 * A connection is lent to libmicrohttpd from the first byte of a request on.  It is taken away again when that is a
 * blocking query that has to wait, and comes to rest after its answer, until more bytes arrive.  libmicrohttpd holds
 * 5 KB for a connection, and takes it through many steps for an answer; a waiting one needs a socket and the question.
 */
#ifndef TV_HTTP_INT_H
#define TV_HTTP_INT_H

#include <microhttpd.h>

#include "common/log.h"
#include "rpcd/clients.h"
#include "rpcd/head.h"
#include "rpcd/http.h"
#include "rpcd/replies.h"

struct exchange;
struct block;

#define CONN_READ_UNKNOWN UINT64_MAX

enum conn_state {
	CONN_REST,		/* nothing is asked: we watch for bytes */
	CONN_LENT,		/* libmicrohttpd has it */
	CONN_WAIT,		/* a blocking query waits: we watch for the client's leaving */
	CONN_READY,		/* its answer is in the queue */
	CONN_SEND,		/* its answer did not fit into the socket: we watch for room */
};

struct conn {
	struct conn *next, *prev;
	struct listener_http *listener;
	struct client *client;		/* NULL: unix socket */
	ev_tstamp deadline;		/* for what the client has to do now; 0: it is our turn */
	uint64_t read;			/* bytes of all requests so far; or CONN_READ_UNKNOWN */
	union {
		struct exchange *waiting;	/* CONN_WAIT, CONN_READY */
		size_t sent;			/* CONN_SEND: bytes of the answer */
	};
	struct block *answer;		/* CONN_READY, CONN_SEND: a share, owned */
	struct conn *queue_next;	/* CONN_READY */
	int fd;				/* ours unless lent */
	uint8_t state;			/* enum conn_state */
	uint8_t verdict;		/* enum conn_verdict */
	uint8_t keep;			/* enum head_keep: CONN_READY, CONN_SEND */
	bool loopback;
	bool behind;			/* no bytes are watched for: the next request is there, or we wait for room */
};

enum conn_verdict { CONN_FINE, CONN_BUSY, CONN_STRANGER };

/* One listening socket with its connections: one libmicrohttpd daemon, driven by its epoll descriptor. */
struct listener_http {
	struct listener_http *next;
	struct http *http;
	struct MHD_Daemon *daemon;
	ev_io io;
	ev_timer timer;
	int fd;				/* listens; -1: no more */
	ev_io accept;
	ev_timer rest;			/* until the next try, after the process ran out of descriptors */
	struct log_limit refusals;
	unsigned conns;
	bool is_unix;
	bool progress;			/* in this run something besides looking happened */
	unsigned waiting;		/* requests that wait for their answer and are not suspended */
};

/* A number that grows by thousands and falls again. */
struct crowd {
	unsigned now, most;		/* most: since memory was given back last */
};

/* The newest answer of ours: who waited for the same in the same words gets the same bytes. */
struct last_answer {
	uint64_t number;		/* of the router's reply; 0: none is kept */
	struct buf target;
	bool gzip;
	uint8_t keep;
	struct block *block;		/* a share, owned */
};

struct http {
	struct http_conf conf;
	struct listener_http *listeners;
	struct clients *clients;
	struct replies *replies;
	struct request *spare;
	unsigned spare_count;
	struct http_stats stats;
	struct crowd open, lent;	/* connections */
	struct conn *conns;
	struct conn *lending;		/* while MHD_add_connection() runs */
	ev_timer sweep;			/* while there are connections */
	int epoll;			/* connections that are not lent */
	ev_io watch;
	struct conn *ready, **ready_end;	/* the queue of answers */
	ev_timer turn;			/* while the queue is longer than one turn sends */
	struct last_answer last;
	bool parks;			/* no configured header is in the way */
	bool stopping, quiet;		/* quiet: about to stop */
};

/* The transport's part of a request. */
struct exchange {
	struct request req;		/* first: request and exchange are one allocation */
	struct http *http;
	struct listener_http *listener;
	struct MHD_Connection *mhd;	/* NULL: parked */
	struct conn *conn;		/* NULL until the head is there */
	ev_io *gone;			/* while it waits within libmicrohttpd: sees the client leave; owned */
	size_t fed;			/* of a body that is taken as it comes, since its client was given time */
	uint8_t stage;			/* enum exchange_stage */
	uint8_t looks;			/* while waiting */
	uint8_t keep;			/* enum head_keep */
	bool begun;			/* api_begin was called: api_end is due */
	bool waiting, suspended, parked;
	bool gone_away;			/* the client left while it waited */
	bool close_after;		/* the body was not read: the connection cannot go on */
};

enum exchange_stage { EX_HEAD, EX_BODY, EX_RUN, EX_SENT };

/* -- http.c -- */
/* Ends a request that is no longer in libmicrohttpd's hands. */
void exchange_end(struct exchange *x);
/* libmicrohttpd's callback for a connection that comes and goes. */
void http_on_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
    enum MHD_ConnectionNotificationCode code);

/* -- http_conns.c -- */
/* TV_ESYS: no descriptor left. */
enum tv_err conns_init(struct http *h);
/* Closes all that are not lent. */
void conns_done(struct http *h);
/* Begins to accept on l->fd. */
void conns_accept(struct listener_http *l);
void conns_accept_stop(struct listener_http *l);
/* The client's turn: to send a request, or to read an answer of so many bytes. */
void conn_await(const struct http *h, struct conn *c, size_t answer_bytes);
/* Forgets it; its descriptor is closed unless it is lent. */
void conn_end(struct http *h, struct conn *c);
/* Watches a descriptor that is ours again, or changes what it is watched for. */
bool conn_watch(struct http *h, struct conn *c, bool first, uint32_t events);
/* Watches for the next request. */
void conn_rest(struct http *h, struct conn *c);
/* Counts what comes to or leaves libmicrohttpd, or the process. */
void crowd_add(struct crowd *c);
void crowd_drop(struct crowd *c);

/* -- http_park.c -- */
void http_park_init(struct http *h);
void http_park_done(struct http *h);
/*
 * Takes the connection of a request that is going to wait away from libmicrohttpd.  True: the handler must return
 * MHD_NO, which ends libmicrohttpd's part.  False: not possible for this one.
 */
bool http_park(struct exchange *x);
/* The answer of a parked request is there. */
void http_park_ready(struct exchange *x);
/* Something happened to a connection in CONN_WAIT or CONN_SEND. */
void http_park_event(struct http *h, struct conn *c, uint32_t events);
/* Sends all that is ready; what does not go at once is lost.  Before the end. */
void http_park_flush(struct http *h);

#endif
