/*
 * The parts of the HTTP transport:
 *
 *	http_scan.c	heads and chunks by the RFCs; pure
 *	http_conns.c	connections: accepting, limits, deadlines, eviction
 *	http_wire.c	their bytes: what was read of them, and is not taken yet
 *	http_serve.c	requests: each head is scanned as it comes; bodies, whole or as they come
 *	http_send.c	answers, those of blocking queries for thousands at once, and streams
 *	http.c		the life of all
 */
#ifndef TV_RPCD_HTTP_HTTP_INT_H
#define TV_RPCD_HTTP_HTTP_INT_H

#include <sys/queue.h>

#include "common/base/addr.h"
#include "common/base/log.h"
#include "common/net/crowd_timer.h"
#include "common/net/listener.h"
#include "common/net/stream.h"
#include "rpcd/http/http.h"
#include "rpcd/http/http_scan.h"
#include "rpcd/http/response_head.h"

struct exchange;
struct block;

enum conn_state {
	CONN_REST,		/* nothing is asked, or the head is not all there */
	CONN_BODY,		/* the body of a request comes */
	CONN_WAIT,		/* a request waits for its answer */
	CONN_READY,		/* its answer is in the queue */
	CONN_SEND,		/* its answer did not fit into the socket: we watch for room */
	CONN_STREAM,		/* its answer is sent as it is made: we watch for room, or wait for more of it */
	CONN_LINGER,		/* the last answer has left; what still comes is dropped until the client has read it */
};

/* Ranks of the crowd: those that may be closed when a newcomer needs the place; the first ones first. */
enum conn_idle { IDLE_LINGER, IDLE_REST, IDLE_BODY };
_Static_assert(IDLE_BODY < CROWD_STAYS, "ranks");

/* What was read of a connection and not taken yet. */
struct carried {
	struct buf bytes;
	struct http_head *head;		/* of which these bytes are the beginning; owned; NULL: they were not scanned */
};

struct conn {			/* 120 bytes, of which 10,000 may wait */
	/* First.  Its source is the client, NULL: a unix socket; its deadline is for what the client has to do now. */
	struct crowd_member place;
	struct listener_http *listener;
	struct carried *carried;	/* NULL: nothing; owned */
	struct exchange *x;		/* CONN_BODY, CONN_WAIT, CONN_READY, CONN_STREAM */
	union {
		size_t sent;		/* CONN_SEND, CONN_STREAM: bytes of the answer, or of the piece */
		struct conn *queue_next;	/* CONN_READY */
	};
	struct block *answer;		/* CONN_READY, CONN_SEND, CONN_STREAM: a share, owned */
	int fd;
	uint8_t state;			/* enum conn_state */
	uint8_t verdict;		/* enum conn_verdict */
	uint8_t keep;			/* enum response_head_keep: CONN_READY, CONN_SEND */
	bool loopback : 1;
	bool ended : 1;		/* the client has closed its side at least; bytes may be there before that */
	bool more : 1;		/* bytes or an end may be there that no event will tell of */
	bool room : 1;		/* we watch for room as well */
	bool unread : 1;		/* it will not be read to the end of its request */
	struct addr from;		/* the client, a mapped one as IPv4; none: a unix socket */
};

/* The user at the other end of a unix socket; -1: not known. */
int64_t http_peer_uid(int fd);

enum conn_verdict { CONN_FINE, CONN_BUSY, CONN_STRANGER };

/* One listening socket with its connections. */
struct listener_http {
	struct listener_http *next;
	struct http *http;
	struct listener *door;		/* NULL: no more */
	struct crowd conns;
	struct crowd_timer deadlines;
	bool is_unix;
};

/* A number that grows by thousands and falls again. */
struct tide {
	unsigned now, most;		/* most: since memory was given back last */
};

/* The newest answer of ours: requests that waited for the same in the same words get the same bytes. */
struct last_answer {
	uint64_t number;		/* of the router's reply; 0: none is kept */
	struct buf target;
	bool gzip;
	uint8_t keep;
	struct block *block;		/* a share, owned */
};

/* At one connection: what has come of it, and is not taken. */
struct look {
	struct conn *conn;		/* NULL: none, or it has ended */
	uint8_t *bytes;			/* in h->peek */
	size_t len;
	size_t kept;			/* the first of them, which are in conn->carried as well */
	size_t used;			/* of h->peek */
};

struct http {
	struct http_conf conf;
	struct listener_http *listeners;
	struct map clients;		/* struct crowd_source: what each has open, `held` of which are bodies */
	struct request *spare;
	unsigned spare_count;
	struct http_stats stats;
	struct tide open;		/* connections */
	int epoll;			/* connections */
	ev_io watch;
	struct conn *ready, **ready_end;	/* the queue of answers */
	ev_timer turn;			/* while the queue is longer than one turn sends */
	struct last_answer last;
	struct look look;
	uint8_t *peek;			/* its bytes */
	size_t peek_cap;
	struct http_head head;		/* scratch */
	TAILQ_HEAD(, exchange) bodies;	/* that count in stats.bodies_bytes; the oldest first */
	bool stopping, quiet;		/* quiet: about to stop */
};

/* The transport's part of a request. */
struct exchange {
	struct request req;		/* first: request and exchange are one allocation */
	struct http *http;
	struct conn *conn;
	uint64_t passed;		/* bytes of the stream; of the body, since its client was given time */
	uint64_t held;			/* bytes for its body, counted in stats.bodies_bytes */
	TAILQ_ENTRY(exchange) body;	/* held > 0 */
	struct http_chunks *chunks;	/* in its arena; NULL: its body does not come in chunks */
	bool expects, old;		/* of the head: 100-continue; HTTP/1.0 */
	uint8_t keep;			/* enum response_head_keep */
	bool begun;			/* api_begin was called: api_end is due */
	bool waiting;			/* for long, as a blocking query does; counted in stats.waiting */
	bool close_after;		/* the body was not read: the connection cannot go on */
	bool feeds;			/* its body is taken as it comes (BODY_STREAM), or dropped */
	bool may_stream : 1;		/* its body or its answer: the connection ends with it */
	bool streams : 1;		/* its answer is sent as it is made: CONN_STREAM */
	bool last : 1;			/* of its answer's stream there are no more pieces */
	char ip[46];
};

/* -- http_conns.c -- */
/* TV_ESYS: no descriptor left. */
enum tv_err conns_init(struct http *h);
/* Closes all. */
void conns_done(struct http *h);
/* Begins to accept on fd, which it takes over.  TV_ENOMEM. */
enum tv_err conns_accept(struct listener_http *l, int fd);
void conns_accept_stop(struct listener_http *l);
/* Frees the listener, which has no connections any more. */
void conns_free(struct listener_http *l);
/* The client's turn: to send a request, or to read an answer of so many bytes. */
void conn_await(const struct http *h, struct conn *c, size_t answer_bytes);
/* Our turn: it has no deadline. */
void conn_await_us(struct conn *c);
/* Those whose answer is on its way: closes them. */
void conns_cut_answers(struct http *h, void (*cut)(struct http *h, struct conn *c));
/* Changes the state, and with it whether and when the connection may be evicted. */
void conn_set(struct conn *c, enum conn_state state);
/* Closes it, and ends its request. */
void conn_end(struct http *h, struct conn *c);
/* Watches a new descriptor, or changes what it is watched for: what is there already is told of again. */
bool conn_watch(struct http *h, struct conn *c, bool first, uint32_t events);
/* From the loop it is looked at once more, as soon as its socket has room. */
void conn_wake(struct conn *c);
/* Its next request, which may be there already: c may have ended afterwards. */
void conn_rest(struct http *h, struct conn *c);
/* Closes after the last answer, once the client has had time to read it. */
void conn_linger(struct http *h, struct conn *c);

/* -- http_wire.c -- */
/* As sendmsg(2). */
ssize_t conn_write(struct conn *c, struct iovec *parts, size_t count);
/* Something has come that was not looked at. */
bool conn_has_news(const struct conn *c);
/* Forgets what was carried over. */
void conn_drop_carried(struct http *h, struct conn *c);
/* Of the bytes that are looked at, this head has been scanned so far: it is kept with them.  NULL: no memory. */
struct http_head *conn_carry_head(struct http *h, struct conn *c, const struct http_head *head);
/*
 * One at a time.  Between these two h->look has what has come and was not taken; look_done() carries it over.  False:
 * the connection has ended.
 */
void look_begin(struct http *h, struct conn *c);
bool look_done(struct http *h);
/* So many bytes more, at most; false: none now, or (h->look.conn is NULL) the connection has ended. */
bool look_read(struct http *h, size_t room);
/* The first n bytes. */
void look_take(struct http *h, size_t n);

/* -- http_serve.c -- */
struct exchange *exchange_new(struct http *h);
void exchange_end(struct exchange *x);
/* Ends all those that are kept for reuse. */
void exchange_free_spares(struct http *h);
/* More than a moment may go by before its answer. */
bool exchange_waits_long(const struct exchange *x);
/*
 * api_begin(), with all that the head tells.  False: the body is not wanted and will not be read; the request was run
 * without it, and the connection ends with its answer.
 */
bool exchange_begin(struct exchange *x);
/*
 * A part of its body; false: it is longer than anybody would read.  Beyond the budget of all bodies it or another one
 * is answered with 503.
 */
bool exchange_body(struct exchange *x, const void *bytes, size_t n);
/* Forgets the body: the answer is made. */
void exchange_release_body(struct exchange *x);
/* What has come of a connection in CONN_REST or CONN_BODY is read and served; it may have ended afterwards. */
void http_serve(struct http *h, struct conn *c);

/* -- http_send.c -- */
void http_send_init(struct http *h);
void http_send_done(struct http *h);
/* The answer of a request of ours is there: now, or in its turn. */
void http_send_now(struct exchange *x);
void http_send_later(struct exchange *x);
/* For a request whose reply many may share. */
bool http_send_again(struct request *r, uint64_t reply_number);
/* There is room in the socket, or more of the stream. */
void http_send_more(struct http *h, struct conn *c);
/* Ends it with the rest of its answer, which its client does not get. */
void http_send_cut(struct http *h, struct conn *c);
/* Sends all that is ready; what does not go at once is lost.  Before the end. */
void http_send_flush(struct http *h);

#endif
