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
	tcase_add_test(t, unix_file);
	tcase_add_test(t, bad_arguments);
	suite_add_tcase(s, t);
	return world_main(s);
}
