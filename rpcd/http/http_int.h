/*
 * The parts of the HTTP transport:
 *
 *	http_scan.c	heads and chunks by the RFCs; pure
 *	http_conns.c	connections: accepting, limits, deadlines, eviction
 *	http_wire.c	their bytes: what was read of them, and is not taken yet
 *	http_exchange.c	requests and answers, whatever carries them
 *	http_serve.c	requests of HTTP/1.1: each head is scanned as it comes; bodies, whole or as they come
 *	h2_conns.c	connections of HTTP/2, whose streams carry exchanges
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
#include "rpcd/tls/tls_server.h"

struct exchange;
struct h2_conn;				/* h2_conns.h */
struct http_h2;

/* A whole answer, for one client or for thousands. */
struct block {
	unsigned shares;
	struct api *api;
	uint64_t accounted;		/* in api->answers_bytes */
	unsigned status;
	size_t head_bytes;		/* of `head` up to its empty line */
	struct buf head, body;		/* a short body is in head */
};

enum conn_state {
	CONN_SHAKE,		/* its TLS session is being made */
	CONN_REST,		/* nothing is asked, or the head is not all there */
	CONN_BODY,		/* the body of a request comes */
	CONN_WAIT,		/* a request waits for its answer */
	CONN_READY,		/* its answer is in the queue */
	CONN_SEND,		/* its answer did not fit into the socket: we watch for room */
	CONN_STREAM,		/* its answer is sent as it is made: we watch for room, or wait for more of it */
	CONN_LINGER,		/* the last answer has left; what still comes is dropped until the client has read it */
	CONN_H2,		/* it speaks HTTP/2, and carries many exchanges */
};

/* Ranks of the crowd: those that may be closed when a newcomer needs the place; the first ones first. */
enum conn_idle { IDLE_SHAKE, IDLE_LINGER = IDLE_SHAKE, IDLE_REST, IDLE_BODY };
_Static_assert(IDLE_BODY < CROWD_STAYS, "ranks");

/* What was read of a connection and not taken yet. */
struct carried {
	struct buf bytes;
	struct http_head *head;		/* of which these bytes are the beginning; owned; NULL: they were not scanned */
};

struct conn {			/* 136 bytes, of which 10,000 may wait */
	/* First.  Its source is the client, NULL: a unix socket; its deadline is for what the client has to do now. */
	struct crowd_member place;
	struct listener_http *listener;
	struct tls_conn *tls;		/* NULL: it is in clear; owned */
	struct carried *carried;	/* NULL: nothing; owned */
	union {
		struct exchange *x;	/* CONN_BODY, CONN_WAIT, CONN_READY, CONN_STREAM */
		struct h2_conn *h2;	/* CONN_H2 */
	};
	size_t sent;			/* CONN_SEND, CONN_STREAM: bytes of the answer, or of the piece */
	struct block *answer;		/* CONN_SEND, CONN_STREAM: a share, owned */
	int fd;
	uint8_t state;			/* enum conn_state */
	uint8_t verdict;		/* enum conn_verdict */
	uint8_t keep;			/* enum response_head_keep: CONN_SEND, CONN_STREAM */
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
	struct tls_server *tls;		/* NULL: in clear */
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
	struct exchange *spare;		/* with a request each */
	unsigned spare_count;
	struct request *spare_requests;
	unsigned spare_request_count;
	struct http_stats stats;
	struct tide open;		/* connections */
	int epoll;			/* connections */
	ev_io watch;
	struct exchange *ready, **ready_end;	/* the queue of answers */
	ev_timer turn;			/* while the queue is longer than one turn sends */
	struct last_answer last;
	struct look look;
	unsigned heads_left;		/* of this turn of the loop, behind the first one of each connection */
	uint8_t *peek;			/* its bytes */
	size_t peek_cap;
	struct http_head head;		/* scratch */
	TAILQ_HEAD(, exchange) bodies;	/* that count in stats.bodies_bytes; the oldest first */
	struct http_h2 *h2;		/* h2_conns.c */
	bool stopping, quiet;		/* quiet: about to stop */
};

/*
 * What carries exchanges.  Each of these is about one of them, which has not ended; those that say so may end it, with
 * all of its connection.
 */
struct carrier {
	/* The client's turn: it is given the time of one step. */
	void (*await)(struct exchange *x);
	/* Our turn: it has no deadline. */
	void (*await_us)(struct exchange *x);
	/* Its answer comes later.  False: its client has gone, and it has ended. */
	bool (*waits)(struct exchange *x);
	/* Its answer is in the queue, and `send` is called soon; until then exchange_drop() ends it. */
	void (*queued)(struct exchange *x);
	/* More of its body is taken, or its stream has more: it looks again, from the loop. */
	void (*wake)(struct exchange *x);
	/*
	 * Its answer: a share, which is taken over; NULL: there is no memory for one, it breaks off.  Of one that
	 * streams (EXCHANGE_STREAM) it is the head, and the rest is r->stream's.  May end it.
	 */
	void (*send)(struct exchange *x, struct block *b);
};

enum exchange_phase {
	EXCHANGE_BODY,			/* its head is there; not yet its body */
	EXCHANGE_WAIT,			/* it runs */
	EXCHANGE_READY,			/* its answer is in the queue */
	EXCHANGE_SEND,			/* its answer leaves */
	EXCHANGE_STREAM,		/* its answer is made as it leaves */
};

/* The transport's part of a request, of which 10,000 may wait. */
struct exchange {
	struct request *req;		/* owned; NULL: `parked`, or in EXCHANGE_READY it is over */
	struct parked *parked;		/* it waits for long; owned */
	struct exchange *next;		/* in EXCHANGE_READY; of the spares */
	struct http *http;
	const struct carrier *by;
	struct conn *conn;		/* that it came on, whatever carries it there */
	union {
		struct http_chunks *chunks;	/* conn_carrier: in the arena; NULL: no body in chunks */
		void *carried;			/* of another carrier */
	};
	struct block *answer;		/* EXCHANGE_READY: a share, owned */
	uint64_t passed;		/* bytes of the stream; of the body, since its client was given time */
	uint64_t held;			/* bytes for its body, counted in stats.bodies_bytes */
	TAILQ_ENTRY(exchange) body;	/* held > 0 */
	uint8_t phase;			/* enum exchange_phase */
	bool expects, old;		/* of the head: 100-continue; HTTP/1.0 */
	uint8_t keep;			/* enum response_head_keep */
	bool begun;			/* api_begin was called: api_end is due */
	bool waiting;			/* for long, as a blocking query does; counted in stats.waiting */
	bool close_after;		/* the body was not read: the connection cannot go on */
	bool feeds;			/* its body is taken as it comes (BODY_STREAM), or dropped */
	bool may_stream : 1;		/* its body or its answer: it is no query that waits */
	bool streams : 1;		/* its answer is sent as it is made: EXCHANGE_STREAM */
	bool last : 1;			/* of its answer's stream there are no more pieces */
};

/* -- http_conns.c -- */
/* One more, and one fewer: when most of a crowd has gone its memory is given back. */
void tide_rise(struct tide *t);
void tide_fall(struct tide *t);
/* TV_ESYS: no descriptor left. */
enum tv_err conns_init(struct http *h);
/* Closes all. */
void conns_done(struct http *h);
/* Begins to accept on fd, which it takes over.  TV_ENOMEM. */
enum tv_err conns_accept(struct listener_http *l, int fd);
void conns_accept_stop(struct listener_http *l);
/* Frees the listener, which has no connections any more. */
void conns_free(struct listener_http *l);
/* The time of one step of a client, which reads an answer of so many bytes. */
double http_step_seconds(const struct http *h, size_t answer_bytes);
/* The client's turn: to send a request, or to read an answer of so many bytes. */
void conn_await(const struct http *h, struct conn *c, size_t answer_bytes);
/* Our turn: it has no deadline. */
void conn_await_us(struct conn *c);
/* Is there one in CONN_SEND? */
bool conns_are_sending(const struct http *h);
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
/*
 * As recv(2) and sendmsg(2).  c->more, which an event sets, is cleared when nothing is left of which no event will
 * tell.
 */
ssize_t conn_read(struct conn *c, void *dst, size_t room);
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

/* -- http_exchange.c -- */
/* In EXCHANGE_BODY.  NULL: no memory. */
struct exchange *exchange_new(struct http *h, const struct carrier *by, struct conn *c);
/* By its carrier: the answer has left, or its client has gone; what is under way for it is taken back. */
void exchange_end(struct exchange *x);
/* The same at any time: one in the queue of answers (EXCHANGE_READY) ends when its turn comes; `conn` may go before. */
void exchange_drop(struct exchange *x);
/* Ends all those that are kept for reuse. */
void exchange_free_spares(struct http *h);
/* Ends the request of one whose answer is in the queue; the exchange goes on without it. */
void exchange_end_request(struct exchange *x);
/* Takes the request up again that was parked.  False: no memory, nothing was changed. */
bool exchange_unpark(struct exchange *x);
/* More than a moment may go by before its answer. */
bool exchange_waits_long(const struct exchange *x);
/* What its connection tells of the client; exchange_take_head() does that, too. */
void exchange_take_client(struct exchange *x);
/* Copies what of that is the connection's, which may end before the exchange. */
void exchange_keep_client(struct exchange *x);
/* Copies what the request needs of its head.  NULL: all is well; else why not, "" without memory. */
const char *exchange_take_head(struct exchange *x, const struct http_head *head, const uint8_t *bytes);
/*
 * api_begin(), with all that the head tells.  False: the body is not wanted: exchange_run() is next, without it, and
 * what comes of it is dropped (close_after).
 */
bool exchange_begin(struct exchange *x);
/* It has no announced length, and no end in sight. */
bool exchange_is_endless(const struct exchange *x);
/*
 * A part of its body; false: it is longer than anybody would read.  Beyond the budget of all bodies it or another one
 * is answered with 503, in its turn.
 */
bool exchange_body(struct exchange *x, const void *bytes, size_t n);
/*
 * The same of a body that is taken as it comes (`feeds`): how much of it was taken.  The rest is to be given again
 * after carrier.wake.
 */
size_t exchange_feed(struct exchange *x, const uint8_t *bytes, size_t n);
/* Forgets the body: the answer is made. */
void exchange_release_body(struct exchange *x);
/* The request is complete, or needs no more: its answer is sent now, or later.  May end it. */
void exchange_run(struct exchange *x);
/* In place of exchange_begin(): an answer that needs no API.  May end it. */
void exchange_refuse(struct exchange *x, unsigned status, const char *text);

/* -- http_serve.c -- */
#define HTTP_HEADS_IN_TURN 256		/* http.heads_left: some milliseconds */
extern const struct carrier conn_carrier;
extern const char http_busy_text[];
/* What has come of a connection in CONN_REST or CONN_BODY is read and served; it may have ended afterwards. */
void http_serve(struct http *h, struct conn *c);

/* -- http_send.c -- */
/* A host that vanished is noticed within two minutes, even when there is nothing to send to it. */
void conn_keep_alive(struct conn *c);
void http_send_init(struct http *h);
void http_send_done(struct http *h);
struct block *block_share(struct block *b);
/* NULL is fine. */
void block_release(struct block *b);
/* The answer of a request of ours is there: now, or in its turn. */
void http_send_now(struct exchange *x);
void http_send_later(struct exchange *x);
/* There is no memory for one: its client gets none. */
void http_send_lost(struct exchange *x);
/* conn_carrier.send */
void http_send_block(struct exchange *x, struct block *b);
/* Of one whose client has gone while its answer was in the queue. */
extern const struct carrier gone_carrier;
/* For a request whose reply many may share. */
bool http_send_again(struct request *r, uint64_t reply_number);
/* There is room in the socket, or more of the stream. */
void http_send_more(struct http *h, struct conn *c);
/* Ends it with the rest of its answer, which its client does not get. */
void http_send_cut(struct http *h, struct conn *c);
/* Sends all that is ready; what does not go at once is lost.  Before the end. */
void http_send_flush(struct http *h);

#endif
