/*
 * The HTTP transport on a libev loop, over TCP and the unix socket.
 *
 * What is read and written here is bytes; what they mean is api.h's.
 */
#ifndef TV_RPCD_HTTP_HTTP_H
#define TV_RPCD_HTTP_HTTP_H

#include <ev.h>
#include <sys/types.h>

#include "rpcd/api/api.h"

struct http;
struct tls_server;		/* rpcd/tls/tls_server.h */

struct http_conf {
	struct ev_loop *loop;
	struct api *api;
	const struct rpcd_conf *conf;
	/* May a peer of the unix socket be served?  gids: its group and further groups. */
	bool (*peer_allowed)(void *ctx, uid_t uid, const gid_t *gids, unsigned count);
	void *ctx;
};

/* NULL: no memory. */
struct http *http_new(const struct http_conf *conf);
/*
 * Serves a listening socket, TCP or unix; takes it over.  tls: borrowed, its connections are sealed; NULL: they are in
 * clear.  TV_ENOMEM: fd is closed.
 */
enum tv_err http_listen(struct http *h, int fd, struct tls_server *tls);
/* Takes no further connections, and closes each after the answer to its next request. */
void http_quiesce(struct http *h);
/*
 * Has all that was asked been answered?  But for what waits for long, as blocking queries do, and streams without an
 * end.
 */
bool http_settled(const struct http *h);
/* Ends all requests, closes all connections and sockets. */
void http_free(struct http *h);

struct http_stats {
	unsigned conns;			/* open, waiting ones included */
	unsigned waiting;		/* with a blocking query */
	uint64_t accepted, refused_busy, refused_peer;
	uint64_t evicted;		/* closed for a newcomer: limits.http_max_conns was reached */
	uint64_t malformed;		/* heads and chunks that were refused */
	uint64_t bodies_bytes;		/* memory of bodies that are being received, or are there */
	uint64_t carried_bytes;		/* memory of what was read, and waits for a request before it or for its rest */
	uint64_t refused_bodies;	/* beyond limits.bodies_bytes_max */
	uint64_t timed_out;		/* the client took too long over its request, or over our answer */
	uint64_t handshakes_late;	/* of TLS: beyond limits.https_handshake_timeout */
	/* HTTP/2 */
	unsigned h2_conns, h2_streams;	/* open; under way */
	uint64_t h2_requests;
	uint64_t h2_refused;		/* streams, for want of room: REFUSED_STREAM */
	uint64_t h2_resets;		/* streams that clients gave up, or that broke a rule */
	/* Connections that were ended: too many resets, too many empty frames, a head that unpacks to too much. */
	uint64_t h2_rapid_resets, h2_floods, h2_bombs, h2_broken;
};
void http_stats(const struct http *h, struct http_stats *out);

#endif
