/*
 * Listening sockets: made with privileges, watched without.  The one place that accepts.
 *
 * A turn of the loop accepts some, and the rest waits in the kernel.  Of ports (not of unix sockets) some descriptors
 * are left for others, see common/base/descriptors.h; when there are none at all, it rests for a moment.
 */
#ifndef TV_COMMON_NET_LISTENER_H
#define TV_COMMON_NET_LISTENER_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct listener;

enum listener_room {
	LISTENER_ACCEPT,
	LISTENER_NEXT_TURN,		/* the loop first looks at what else there is to do */
	LISTENER_PAUSE,			/* not before listener_resume(); they wait in the kernel */
};

struct listener_conf {
	struct ev_loop *loop;
	int fd;				/* taken over */
	const char *log_area;
	/*
	 * How many may be open; further ones are closed at once, counted and told in the log.  The owner tells with
	 * listener_release() when one closed.  0: the owner bounds them itself, by a crowd.
	 */
	unsigned conns_max;
	/* Gets a connected socket, non-blocking and close-on-exec, and owns it. */
	void (*on_accept)(void *ctx, int fd);
	/* May be NULL.  Asked before each one. */
	enum listener_room (*has_room)(void *ctx);
	/* May be NULL.  Descriptors are scarce: closes a connection for the next one.  False: all stay. */
	bool (*make_room)(void *ctx);
	void *ctx;
};

/* NULL: no memory; fd is closed. */
struct listener *listener_open(const struct listener_conf *conf);
/* The same for the usual ones. */
struct listener *listener_new(struct ev_loop *loop, int fd, unsigned conns_max,
    void (*on_accept)(void *ctx, int fd), void *ctx);
/* Within on_accept: where the connection comes from. */
const struct sockaddr *listener_peer(const struct listener *l);
void listener_release(struct listener *l);
/* After LISTENER_PAUSE: there may be room.  Otherwise nothing. */
void listener_resume(struct listener *l);
void listener_stop(struct listener *l);	/* accepts none any more; the socket stays open */
void listener_free(struct listener *l);	/* closes the listening socket */
uint64_t listener_refused(const struct listener *l);

/*
 * Listening sockets, for the time before privileges are dropped.
 * Return the fd, or -1 with errno.  The unix path is replaced if it is a stale
 * socket of ours; mode is the file mode (e.g. 0660).
 */
int listen_unix(const char *path, mode_t mode, gid_t gid);	/* gid (gid_t)-1: leave the group alone */
int listen_tcp(const char *ip, uint16_t port);

#endif
