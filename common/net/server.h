/*
 * Connections that others make to one listening socket: a daemon's unix socket, or the port of a link.  A peer
 * says hello first; then frames go to the rows of a table by their type.  A malformed, oversized or out-of-order frame
 * closes that connection only (S206).
 *
 * On a unix socket the user at the other end is checked, our HELLO goes out at once, and MSG_INFO, MSG_MONITOR and
 * MSG_PING are answered here.  On a port, connections that have not said hello have a budget of their own
 * (common/net/strangers.h).
 */
#ifndef TV_COMMON_NET_SERVER_H
#define TV_COMMON_NET_SERVER_H

#include <sys/queue.h>

#include "common/base/log.h"
#include "common/net/monitor.h"
#include "common/net/strangers.h"

/* First member of the owner's connections, called conn there. */
struct server_conn {
	struct stranger stranger;
	struct server *server;
	TAILQ_ENTRY(server_conn) link;
	struct chan *chan;		/* chan_close() ends the connection, from the loop: also within its callbacks */
	bool greeted;			/* has said hello */
	struct monitor *monitor;	/* asked for log lines; or NULL */
	ev_timer hello;			/* of a port: runs from the handshake to the hello */
};

/* A frame came: answers at once or later.  An error closes the connection. */
typedef enum tv_err server_fn(void *conn, const struct frame *f);

struct server_row {
	uint16_t type;			/* 0, in the last row: any other; fn may be NULL there */
	server_fn *fn;
	bool answered;			/* a frame without an id is malformed */
};

struct server {
	/* Set before server_start(); texts are borrowed. */
	struct chan_conf chan;		/* of each connection; events and ctx are set here */
	size_t conn_bytes;		/* of the owner's connection, which begins as zeros */
	const struct server_row *rows;
	/* Of a unix socket: */
	bool (*may_connect)(uid_t uid);	/* NULL: it is a port */
	const char *role, *node_id;	/* for our HELLO */
	const char *log_area;
	void (*info)(void *ctx, struct buf *b);	/* writes the answer to MSG_INFO; NULL: it has a row */
	/* Of a port: */
	struct strangers_conf places;	/* of connections that have not said hello */
	bool (*is_known)(void *ctx, uint64_t source);	/* is a peer there (common/net/source.h)?  May be NULL */
	struct mono hello_timeout;	/* from the end of the handshake on */
	uint16_t hello_type;		/* 0: MSG_HELLO; else its row judges it, and calls server_greeted() */
	/* Begin and end of a connection.  uid: of the peer, on a unix socket; (uid_t)-1: not known. */
	void (*on_accept)(void *ctx, void *conn, uid_t uid);
	void (*on_close)(void *ctx, void *conn, enum tv_err why);
	/* In between; any may be NULL. */
	void (*on_open)(void *ctx, void *conn);			/* the handshake is done */
	enum tv_err (*on_hello)(void *ctx, void *conn, const struct frame *f);	/* MSG_HELLO, checked */
	void (*on_cancel)(void *ctx, void *conn, uint64_t id);	/* FRAME_CANCEL; without, what was begun goes on */
	void (*on_pong)(void *ctx, void *conn);			/* answer to MSG_PING */
	void *ctx;
	/* Its own. */
	struct listener *listener;	/* NULL: closed */
	struct logtap *tap;
	TAILQ_HEAD(, server_conn) conns;	/* oldest first */
	struct strangers strangers;	/* of a port */
	unsigned open, proven, conns_max;	/* proven: have said hello */
	uint64_t refused;		/* of a port: hellos beyond conns_max */
	uint64_t malformed;		/* frames that closed a connection */
	uint64_t silent;		/* connections closed because no hello came in time */
	struct log_limit limit;
};

/* Walks the connections; chan_close() is allowed on the way. */
#define SERVER_EACH(conn_, server_) \
	for ((conn_) = (void *)TAILQ_FIRST(&(server_)->conns); (conn_) != NULL; \
	    (conn_) = (void *)TAILQ_NEXT(&(conn_)->conn, link))

/*
 * Takes the listening socket over.  conns_max: further connections are refused; of a port: those that have said hello.
 * False: no memory; fd is closed.
 */
bool server_start(struct server *s, int fd, unsigned conns_max);
/* Refuses connections from now on, and closes those there are, from the loop. */
void server_close(struct server *s);
/* Closes all at once, with on_close.  Not within a callback of a connection.  One that was not started: nothing. */
void server_stop(struct server *s);
/* The peer has said hello; again without effect.  TV_ECLOSED: there are conns_max already, close it. */
enum tv_err server_greeted(struct server_conn *c);

#endif
