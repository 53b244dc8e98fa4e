/* Listening sockets: limits, and what listen_unix does with the file that is there. */
#include <sys/stat.h>

#include "tests/unit/chan_world.h"

struct visits {
	int fds[8];
	unsigned count;
};

static void
on_accept(void *ctx, int fd)
{
	struct visits *v = ctx;

	ck_assert_uint_lt(v->count, 8);
	ck_assert_int_ne(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
	ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
	v->fds[v->count++] = fd;
}

static int
call(uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	in.sin_addr.s_addr = htonl(0x7f020001);		/* WORLD_ADDR */
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	return fd;
}

START_TEST(conns_max)
{
	struct ev_loop *loop = world_loop();
	struct visits v = { .count = 0 };
	int fd = listen_tcp(WORLD_ADDR, 0), clients[4];
	uint16_t port = world_port(fd);
	struct listener *l = listener_new(loop, fd, 2, on_accept, &v);
	char c;

	for (int i = 0; i < 3; i++)
		clients[i] = call(port);
	UNTIL(loop, listener_refused(l) == 1);
	ck_assert_uint_eq(v.count, 2);
	ck_assert_int_eq(recv(clients[2], &c, 1, 0), 0);	/* closed at once */
	close(v.fds[0]);
	listener_release(l);
	clients[3] = call(port);
	UNTIL(loop, v.count == 3);
	ck_assert_uint_eq(listener_refused(l), 1);
	listener_free(l);
	for (int i = 0; i < 4; i++)
		close(clients[i]);
	close(v.fds[1]);
	close(v.fds[2]);
	ev_loop_destroy(loop);
}
END_TEST

/* -- an owner that bounds them itself -- */

struct owner {
	struct listener *l;
	enum listener_room room;
	unsigned asked, accepted, made;
	int fd;
	struct sockaddr_in from;
};

static enum listener_room
has_room(void *ctx)
{
	struct owner *o = ctx;

	o->asked++;
	return o->room;
}

static void
on_owned(void *ctx, int fd)
{
	struct owner *o = ctx;

	memcpy(&o->from, listener_peer(o->l), sizeof(o->from));
	o->fd = fd;
	o->accepted++;
	o->room = LISTENER_PAUSE;
}

static bool
make_room(void *ctx)
{
	struct owner *o = ctx;

	o->made++;
	return true;
}

static void
some_turns(struct ev_loop *loop)
{
	for (int i = 0; i < 20; i++)
		ev_run(loop, EVRUN_NOWAIT);
}

START_TEST(owner_says_when)
{
	struct ev_loop *loop = world_loop();
	struct owner o = { .room = LISTENER_NEXT_TURN };
	int fd = listen_tcp(WORLD_ADDR, 0), clients[2];
	uint16_t port = world_port(fd);
	struct sockaddr_in own;
	socklen_t len = sizeof(own);

	o.l = listener_open(&(struct listener_conf){ .loop = loop, .fd = fd, .log_area = "net", .on_accept = on_owned,
	    .has_room = has_room, .make_room = make_room, .ctx = &o });
	for (int i = 0; i < 2; i++)
		clients[i] = call(port);
	UNTIL(loop, o.asked > 2);		/* once in each turn */
	ck_assert_uint_eq(o.accepted, 0);
	o.room = LISTENER_ACCEPT;
	UNTIL(loop, o.accepted == 1);
	ck_assert_int_eq(getsockname(clients[0], (struct sockaddr *)&own, &len), 0);
	ck_assert(o.from.sin_port == own.sin_port && o.from.sin_addr.s_addr == own.sin_addr.s_addr);
	close(o.fd);
	some_turns(loop);
	o.asked = 0;
	some_turns(loop);
	ck_assert_uint_eq(o.asked, 0);		/* paused: the other one waits in the kernel */
	o.room = LISTENER_ACCEPT;
	listener_resume(o.l);
	listener_resume(o.l);
	UNTIL(loop, o.accepted == 2);
	ck_assert(o.made == 0 && listener_refused(o.l) == 0);
	listener_stop(o.l);
	listener_resume(o.l);			/* it accepts none any more */
	close(call(port));
	some_turns(loop);
	ck_assert_uint_eq(o.accepted, 2);
	listener_free(o.l);
	close(o.fd);
	for (int i = 0; i < 2; i++)
		close(clients[i]);
	ev_loop_destroy(loop);
}
END_TEST

START_TEST(unix_file)
{
	char path[108];
	struct stat st;
	FILE *f;
	int fd;

	unlink(world_path(path, sizeof(path)));
	fd = listen_unix(path, 0660, getegid());
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert(S_ISSOCK(st.st_mode) && (st.st_mode & 07777) == 0660);
	ck_assert_int_eq(listen_unix(path, 0600, (gid_t)-1), -1);	/* somebody answers there */
	ck_assert_int_eq(errno, EADDRINUSE);
	close(fd);
	fd = listen_unix(path, 0600, (gid_t)-1);			/* stale now: replaced */
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0600);
	close(fd);
	unlink(path);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fclose(f);
	ck_assert_int_eq(listen_unix(path, 0600, (gid_t)-1), -1);	/* a file of somebody's: left alone */
	ck_assert_int_eq(errno, EEXIST);
	ck_assert_int_eq(access(path, F_OK), 0);
	unlink(path);
	ck_assert_int_eq(symlink("/nonexistent", path), 0);
	ck_assert_int_eq(listen_unix(path, 0600, (gid_t)-1), -1);
	unlink(path);
}
END_TEST

START_TEST(bad_arguments)
{
	char path[300];
	int fd;

	memset(path, 'x', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	ck_assert_int_eq(listen_unix(path, 0600, (gid_t)-1), -1);
	ck_assert_int_eq(errno, ENAMETOOLONG);
	ck_assert_int_eq(listen_unix("/nonexistent/dir/s", 0600, (gid_t)-1), -1);
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_int_eq(listen_tcp("localhost", 0), -1);
	ck_assert_int_eq(errno, EINVAL);
	fd = listen_tcp(WORLD_ADDR, 0);
	ck_assert_int_eq(listen_tcp(WORLD_ADDR, world_port(fd)), -1);
	ck_assert_int_eq(errno, EADDRINUSE);
	close(fd);
	fd = listen_tcp("::1", 0);
	if (fd < 0)		/* a machine without IPv6 says so in its own words */
		ck_assert_int_ne(errno, EINVAL);
	else
		close(fd);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("listener");
	TCase *t = tcase_create("listener");

	tcase_add_test(t, conns_max);
	tcase_add_test(t, owner_says_when);
	tcase_add_test(t, unix_file);
	tcase_add_test(t, bad_arguments);
	suite_add_tcase(s, t);
	return world_main(s);
}
