/* Listening sockets, see listener.h. */
#include "config.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/addr.h"
#include "common/base/assert.h"
#include "common/base/descriptors.h"
#include "common/base/log.h"
#include "common/net/listener.h"

#define LISTEN_BACKLOG 512
/* Accepted in one turn of the loop; the rest waits in the kernel, so that all have their turn. */
#define ACCEPT_BATCH_MAX 32
/* Rest after the process ran out of descriptors: accept would fail at once, again and again. */
#define ACCEPT_REST_S 0.2

struct listener {
	struct listener_conf conf;
	unsigned conns;
	bool is_unix, paused;
	uint64_t refused;
	struct sockaddr_storage peer;	/* of the one that is accepted now */
	struct log_limit limit;
	ev_io io;
	ev_timer rest;
};

static void
on_rested(struct ev_loop *loop, ev_timer *w, int revents UNUSED)
{
	struct listener *l = w->data;

	ev_io_start(loop, &l->io);
}

static void
rest_awhile(struct listener *l)
{
	if (log_allow(&l->limit, l->conf.log_area))
		log_warn(l->conf.log_area, "accept: %s; trying again in a moment", strerror(errno));
	if (l->conf.make_room != NULL)
		(void)l->conf.make_room(l->conf.ctx);
	ev_io_stop(l->conf.loop, &l->io);
	ev_timer_set(&l->rest, ACCEPT_REST_S, 0.);
	ev_timer_start(l->conf.loop, &l->rest);
}

/* May it be accepted as this descriptor?  What is left of them is for files, operators and other daemons. */
static bool
fits_descriptors(struct listener *l, int *fd)
{
	if (l->is_unix || !descriptors_scarce(*fd))
		return true;
	if (l->conf.make_room == NULL || !l->conf.make_room(l->conf.ctx))
		return false;
	*fd = descriptors_lower(*fd);
	return *fd >= 0;
}

static void
refuse_one(struct listener *l, int fd)
{
	static const char scarce[] = "nearly all descriptors are used that this process may have (RLIMIT_NOFILE)";
	unsigned max = l->conf.conns_max;

	if (fd >= 0)
		close(fd);
	l->refused++;
	if (!log_allow(&l->limit, l->conf.log_area))
		return;
	if (max == 0)
		log_warn(l->conf.log_area, "connection refused: %s", scarce);
	else
		log_warn(l->conf.log_area, "connection refused: %u are open already%s%s", l->conns,
		    l->conns < max ? ", and " : "", l->conns < max ? scarce : "");
}

/* False: no more in this turn. */
static bool
accept_one(struct listener *l)
{
	const struct listener_conf *conf = &l->conf;
	enum listener_room room = conf->has_room == NULL ? LISTENER_ACCEPT : conf->has_room(conf->ctx);
	socklen_t len = sizeof(l->peer);
	int fd;

	if (room == LISTENER_PAUSE) {
		l->paused = true;
		ev_io_stop(conf->loop, &l->io);
	}
	if (room != LISTENER_ACCEPT)
		return false;
	fd = accept4(conf->fd, (struct sockaddr *)&l->peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			rest_awhile(l);
		return false;		/* EAGAIN, or a connection that ended before we came */
	}
	if ((conf->conns_max > 0 && l->conns >= conf->conns_max) || !fits_descriptors(l, &fd)) {
		refuse_one(l, fd);
		return true;
	}
	l->conns += conf->conns_max > 0;
	conf->on_accept(conf->ctx, fd);
	return true;
}

static void
on_acceptable(struct ev_loop *loop UNUSED, ev_io *w, int revents UNUSED)
{
	for (int i = 0; i < ACCEPT_BATCH_MAX && accept_one(w->data); i++)
		;
}

struct listener *
listener_open(const struct listener_conf *conf)
{
	struct listener *l = calloc(1, sizeof(*l));
	struct sockaddr_storage own;
	socklen_t len = sizeof(own);

	if (l == NULL) {
		close(conf->fd);
		return NULL;
	}
	l->conf = *conf;
	l->is_unix = getsockname(conf->fd, (struct sockaddr *)&own, &len) == 0 && own.ss_family == AF_UNIX;
	l->limit = (struct log_limit){ .burst = 3, .period = MONO_S(10) };
	ev_io_init(&l->io, on_acceptable, conf->fd, EV_READ);
	ev_timer_init(&l->rest, on_rested, ACCEPT_REST_S, 0.);
	l->io.data = l->rest.data = l;
	ev_io_start(conf->loop, &l->io);
	return l;
}

struct listener *
listener_new(struct ev_loop *loop, int fd, unsigned conns_max, void (*on_accept)(void *ctx, int fd), void *ctx)
{
	return listener_open(&(struct listener_conf){ .loop = loop, .fd = fd, .log_area = "net", .conns_max = conns_max,
	    .on_accept = on_accept, .ctx = ctx });
}

const struct sockaddr *
listener_peer(const struct listener *l)
{
	return (const struct sockaddr *)&l->peer;
}

void
listener_release(struct listener *l)
{
	TV_ASSERT(l->conns > 0);
	l->conns--;
}

void
listener_resume(struct listener *l)
{
	if (l->paused)
		ev_io_start(l->conf.loop, &l->io);
	l->paused = false;
}

void
listener_stop(struct listener *l)
{
	l->paused = false;
	ev_io_stop(l->conf.loop, &l->io);
	ev_timer_stop(l->conf.loop, &l->rest);
}

void
listener_free(struct listener *l)
{
	if (l == NULL)
		return;
	listener_stop(l);
	close(l->conf.fd);
	free(l);
}

uint64_t
listener_refused(const struct listener *l)
{
	return l->refused;
}

/* -- making them --------------------------------------------------------------- */

/* Closes fd and returns -1 with errno as it was. */
static int
give_up(int fd)
{
	int saved = errno;

	if (fd >= 0)
		close(fd);
	errno = saved;
	return -1;
}

/* Removes the socket file of a daemon that is gone.  0, or -1 with errno (EADDRINUSE: one answers). */
static int
remove_stale(const struct sockaddr_un *sun)
{
	struct stat st;
	int fd, rc;

	if (lstat(sun->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : -1;
	if (!S_ISSOCK(st.st_mode) || (st.st_uid != geteuid() && geteuid() != 0)) {
		errno = EEXIST;
		return -1;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	rc = connect(fd, (const struct sockaddr *)sun, sizeof(*sun));
	if (rc == 0 || errno == EAGAIN) {
		errno = EADDRINUSE;
		return give_up(fd);
	}
	close(fd);
	return unlink(sun->sun_path);
}

/* Without CAP_CHOWN a file is given only to groups that one is in; CAP_SETGID, which the units leave, gets us in. */
static int
give_to_group(const char *path, gid_t gid)
{
	gid_t own = getegid();
	int rc;

	if (gid == (gid_t)-1 || gid == own || lchown(path, (uid_t)-1, gid) == 0)
		return 0;
	if (errno != EPERM || setegid(gid) < 0)
		return -1;
	rc = lchown(path, (uid_t)-1, gid);
	return setegid(own) < 0 ? -1 : rc;
}

int
listen_unix(const char *path, mode_t mode, gid_t gid)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	mode_t old;
	int fd, rc;

	if (strlen(path) >= sizeof(sun.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(sun.sun_path, path, strlen(path) + 1);
	if (remove_stale(&sun) < 0)
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	old = umask(0177);	/* no other user gets in before the mode is set */
	rc = bind(fd, (const struct sockaddr *)&sun, sizeof(sun));
	umask(old);
	if (rc < 0)
		return give_up(fd);
	if (give_to_group(path, gid) < 0 || chmod(path, mode) < 0 || listen(fd, LISTEN_BACKLOG) < 0)
		return give_up(fd);
	return fd;
}

static int
listen_on(int family, const struct sockaddr *sa, socklen_t len)
{
	const int on = 1;
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return give_up(fd);
	if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0)
		return give_up(fd);
	if (bind(fd, sa, len) < 0 || listen(fd, LISTEN_BACKLOG) < 0)
		return give_up(fd);
	return fd;
}

int
listen_tcp(const char *ip, uint16_t port)
{
	union addr_sock at;
	socklen_t len = addr_parse_sock(ip, port, &at);

	return len == 0 ? -1 : listen_on(at.any.sa_family, &at.any, len);
}
