/* Listening sockets: limits, and what listen_unix does with the file that is there. */
#include <arpa/inet.h>
#include <sys/stat.h>

#include "common/net/source.h"

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

/* A port that strangers reach: the unproven have places of their own, the proven are counted. */
struct visitor {
	struct stranger stranger;	/* first */
	int fd;
};

struct port {
	struct listener *l;
	struct visitor v[16];
	unsigned count, evicted;
};

static void
on_visitor(void *ctx, int fd)
{
	struct port *p = ctx;
	struct visitor *v = &p->v[p->count++];

	ck_assert_uint_le(p->count, 16);
	v->fd = fd;
	listener_stranger(p->l, &v->stranger, fd);
}

static void
on_evict(void *ctx, struct stranger *s)
{
	struct port *p = ctx;
	struct visitor *v = (struct visitor *)s;

	p->evicted++;
	close(v->fd);
	v->fd = -1;
	listener_gone(p->l, s);
}

static bool
is_known(void *ctx, uint64_t source)
{
	(void)ctx;
	return source == source_of_text("127.2.0.9");
}

static int
call_from(const char *ip, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) }, own = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	in.sin_addr.s_addr = htonl(0x7f020001);
	ck_assert_int_eq(inet_pton(AF_INET, ip, &own.sin_addr), 1);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	return fd;
}

START_TEST(guarded)
{
	struct ev_loop *loop = world_loop();
	struct port p = { .count = 0 };
	int fd = listen_tcp(WORLD_ADDR, 0), clients[16], n = 0;
	uint16_t port = world_port(fd);
	struct listener_stats st;

	p.l = listener_new(loop, fd, 2, on_visitor, &p);
	listener_set_guard(p.l, &(struct listener_guard){ .places = { 3, 1, 2 }, .is_known = is_known, .evict = on_evict });
	clients[n++] = call_from("127.2.0.9", port);		/* known: nobody takes its place */
	for (int i = 0; i < 4; i++)
		clients[n++] = call_from("127.2.0.2", port);
	clients[n++] = call_from("127.2.0.3", port);
	clients[n++] = call_from("127.2.0.4", port);		/* the third of the two sources: the crowd's oldest goes */
	UNTIL(loop, p.count == 7);
	ck_assert_uint_eq(p.evicted, 3);
	ck_assert(p.v[0].fd >= 0 && p.v[1].fd < 0 && p.v[2].fd < 0 && p.v[3].fd < 0 && p.v[4].fd >= 0);
	ck_assert(listener_proven(p.l, &p.v[0].stranger) && listener_proven(p.l, &p.v[4].stranger));
	ck_assert(!listener_proven(p.l, &p.v[5].stranger));	/* conns_max of them */
	listener_stats(p.l, &st);
	ck_assert(st.proven == 2 && st.unproven == 1 && st.came == 7 && st.evicted == 3 && st.refused == 1);
	listener_gone(p.l, &p.v[0].stranger);
	listener_gone(p.l, &p.v[5].stranger);
	ck_assert(listener_proven(p.l, &p.v[6].stranger));
	listener_gone(p.l, &p.v[6].stranger);
	listener_gone(p.l, &p.v[6].stranger);			/* once is enough */
	listener_gone(p.l, &p.v[4].stranger);
	listener_stats(p.l, &st);
	ck_assert(st.proven == 0 && st.unproven == 0);
	listener_free(p.l);
	for (int i = 0; i < n; i++) {
		close(clients[i]);
		if (p.v[i].fd >= 0)
			close(p.v[i].fd);
	}
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
	tcase_add_test(t, guarded);
	tcase_add_test(t, unix_file);
	tcase_add_test(t, bad_arguments);
	suite_add_tcase(s, t);
	return world_main(s);
}
