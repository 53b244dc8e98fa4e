/* Dialer: comes up, comes up again, backs off, can be ended anywhere. */
#include "common/net/dial.h"
#include "tests/unit/chan_world.h"

struct caller {
	struct ev_loop *loop;
	struct dialer *d;
	struct chan *up;		/* from on_up until on_down */
	unsigned ups, downs, frames;
	enum tv_err why;
	bool free_in_down, free_in_up, free_in_frame;
};

static void
free_dialer(struct caller *k)
{
	dialer_free(k->d);
	k->d = NULL;
	k->up = NULL;
}

static enum tv_err
on_frame(void *ctx, struct chan *c, const struct frame *f)
{
	struct caller *k = ctx;

	(void)c;
	(void)f;
	k->frames++;
	if (k->free_in_frame)
		free_dialer(k);
	return TV_OK;
}

static void
on_up(void *ctx, struct chan *c)
{
	struct caller *k = ctx;

	ck_assert_ptr_null(k->up);
	ck_assert_ptr_eq(dialer_chan(k->d), c);
	k->up = c;
	k->ups++;
	if (k->free_in_up)
		free_dialer(k);
}

static void
on_down(void *ctx, enum tv_err why)
{
	struct caller *k = ctx;

	ck_assert_ptr_null(dialer_chan(k->d));
	k->up = NULL;
	k->downs++;
	k->why = why;
	if (k->free_in_down)
		free_dialer(k);
}

static void
caller_start(struct caller *k, struct ev_loop *loop, const char *path, const char *ip, uint16_t port)
{
	static const struct chan_events events = { .on_frame = on_frame };
	struct dialer_conf conf = {
		.chan = { .loop = loop, .events = &events, .ctx = k, .name = "dialer",
		    .body_max = 1000, .out_max = 100000 },
		.unix_path = path, .ip = ip, .port = port, .backoff_max = MONO_MS(20),
		.on_up = on_up, .on_down = on_down,
	};

	*k = (struct caller){ .loop = loop };
	k->d = dialer_new(&conf);
	ck_assert_ptr_nonnull(k->d);
	ck_assert_uint_eq(k->ups + k->downs, 0);	/* nothing is told from inside dialer_new */
	ck_assert_ptr_null(dialer_chan(k->d));
}

/* A server that can go and return. */
static void
serve(struct door *door, struct end *e, const char *path, uint16_t port)
{
	int fd = path != NULL ? listen_unix(path, 0600, (gid_t)-1) : listen_tcp(WORLD_ADDR, port);

	ck_assert_int_ge(fd, 0);
	*door = (struct door){ .e = e, .conf = end_conf(e, "server") };
	door->l = listener_new(e->loop, fd, 100, door_accept, door);
}

static void
vanish(struct door *door)
{
	end_done(door->e);
	end_init(door->e, door->conf.loop);
	listener_free(door->l);
	door->l = NULL;
}

START_TEST(server_goes_and_returns)
{
	struct ev_loop *loop = world_loop();
	char path[108];
	struct caller k;
	struct door door;
	struct end e;

	unlink(world_path(path, sizeof(path)));
	end_init(&e, loop);
	caller_start(&k, loop, path, NULL, 0);
	UNTIL(loop, k.downs >= 3);			/* nobody there: tried again and again */
	ck_assert_int_eq(k.why, TV_EUNREACH);
	ck_assert_uint_eq(k.ups, 0);
	for (unsigned round = 1; round <= 3; round++) {
		unsigned downs;

		serve(&door, &e, path, 0);
		UNTIL(loop, k.up != NULL && e.opens == 1);
		ck_assert_uint_eq(k.ups, round);
		ck_assert_int_eq(chan_send(e.c, 1, 0, 0, SPAN_NONE), TV_OK);
		UNTIL(loop, k.frames == round);
		downs = k.downs;
		vanish(&door);
		UNTIL(loop, k.downs > downs);
	}
	dialer_free(k.d);
	end_done(&e);
	unlink(path);
	ev_loop_destroy(loop);
}
END_TEST

/* A socket that has a port of WORLD_ADDR and does not listen. */
static int
take_port(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	in.sin_addr.s_addr = htonl(0x7f020001);
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)), 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	return fd;
}

START_TEST(tcp)
{
	struct ev_loop *loop = world_loop();
	int fd = take_port();			/* nobody else gets it before we listen there */
	uint16_t port = world_port(fd);
	struct caller k;
	struct door door;
	struct end e;

	end_init(&e, loop);
	caller_start(&k, loop, NULL, WORLD_ADDR, port);
	UNTIL(loop, k.downs >= 2);
	ck_assert_int_eq(k.why, TV_EUNREACH);
	serve(&door, &e, NULL, port);
	UNTIL(loop, k.up != NULL && e.c != NULL);
	vanish(&door);
	UNTIL(loop, k.up == NULL);
	close(fd);
	dialer_free(k.d);
	end_done(&e);
	ev_loop_destroy(loop);
}
END_TEST

/* With an hour of backoff only a wake brings it up. */
START_TEST(wake)
{
	struct ev_loop *loop = world_loop();
	static const struct chan_events events = { .on_frame = on_frame };
	char path[108];
	struct caller k = { .loop = loop };
	struct dialer_conf conf = {
		.chan = { .loop = loop, .events = &events, .ctx = &k, .name = "dialer",
		    .body_max = 1000, .out_max = 100000 },
		.unix_path = world_path(path, sizeof(path)), .backoff_max = MONO_S(3600),
		.on_up = on_up, .on_down = on_down,
	};
	struct door door;
	struct end e;

	unlink(path);
	end_init(&e, loop);
	k.d = dialer_new(&conf);
	UNTIL(loop, k.downs == 1);
	serve(&door, &e, path, 0);
	dialer_wake(k.d);
	UNTIL(loop, k.up != NULL && e.opens == 1);
	ck_assert_uint_eq(k.downs, 1);
	dialer_wake(k.d);		/* up: nothing happens */
	world_settle(loop);
	ck_assert_uint_eq(k.ups, 1);
	dialer_free(k.d);
	UNTIL(loop, e.closes == 1);
	ck_assert_uint_eq(k.downs, 1);	/* no on_down from dialer_free */
	end_done(&e);
	listener_free(door.l);
	unlink(path);
	ev_loop_destroy(loop);
}
END_TEST

START_TEST(free_in_callbacks)
{
	struct ev_loop *loop = world_loop();
	char path[108];
	struct caller k;
	struct door door;
	struct end e;

	unlink(world_path(path, sizeof(path)));
	end_init(&e, loop);
	caller_start(&k, loop, path, NULL, 0);
	if (_i == 0) {
		k.free_in_down = true;
		UNTIL(loop, k.d == NULL);
	} else {
		k.free_in_up = _i == 1;
		k.free_in_frame = _i == 2;
		serve(&door, &e, path, 0);
		UNTIL(loop, e.opens == 1);
		ck_assert_int_eq(chan_send(e.c, 1, 0, 0, SPAN_NONE), TV_OK);
		UNTIL(loop, k.d == NULL && e.closes == 1);
		listener_free(door.l);
	}
	end_done(&e);
	unlink(path);
	ev_loop_destroy(loop);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("dial");
	TCase *t = tcase_create("dial");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, server_goes_and_returns);
	tcase_add_test(t, tcp);
	tcase_add_test(t, wake);
	tcase_add_loop_test(t, free_in_callbacks, 0, 3);
	suite_add_tcase(s, t);
	return world_main(s);
}
