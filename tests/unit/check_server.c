/* Accepted connections: users, greetings, rows, what every daemon answers, places of strangers, and ends. */
#include "tests/unit/chan_world.h"

#include <arpa/inet.h>

#include "common/net/greet.h"
#include "common/net/msg.h"
#include "common/net/server.h"
#include "common/net/source.h"
#include "common/record/mpack.h"

#define TYPE_ASK MSG_GOSSIP_FIRE	/* of the rows below */
#define TYPE_TELL MSG_GOSSIP_TAGS
#define TYPE_BYE MSG_GOSSIP_LEAVE

struct caller {
	struct server_conn conn;
	unsigned asked, told;
};

struct fixture {
	struct ev_loop *loop;
	struct server s;
	struct end ends[16];
	unsigned ends_count;
	char path[256];
	uint16_t port;
	unsigned accepts, opens, hellos, closes, pongs;
	uint64_t cancelled;
	uid_t uid;
	enum tv_err why;
};

static enum tv_err
on_ask(void *conn, const struct frame *f)
{
	struct caller *k = conn;

	if (msg_read(&empty_schema, f->body, NULL, NULL) != TV_OK)
		return TV_EFORMAT;
	k->asked++;
	return chan_send(k->conn.chan, f->type, FRAME_REPLY, f->id, f->body);
}

static enum tv_err
on_tell(void *conn, const struct frame *f)
{
	(void)f;
	((struct caller *)conn)->told++;
	return TV_OK;
}

/* Ends its own connection, which is on the stack. */
static enum tv_err
on_bye(void *conn, const struct frame *f)
{
	struct caller *k = conn;

	(void)f;
	chan_close(k->conn.chan, TV_OK);
	ck_assert(k->conn.greeted);
	return TV_OK;
}

static const struct server_row rows[] = {
	{ TYPE_ASK, on_ask, true },
	{ TYPE_TELL, on_tell, false },
	{ TYPE_BYE, on_bye, false },
	{ 0, NULL, false }
};

static void
on_accept(void *ctx, void *conn, uid_t uid)
{
	struct fixture *x = ctx;

	ck_assert_ptr_eq(((struct caller *)conn)->conn.server, &x->s);
	x->accepts++;
	x->uid = uid;
}

static void
on_open(void *ctx, void *conn)
{
	(void)conn;
	((struct fixture *)ctx)->opens++;
}

static enum tv_err
on_hello(void *ctx, void *conn, const struct frame *f)
{
	ck_assert(greet_is(f, "caller") && ((struct caller *)conn)->conn.greeted);
	((struct fixture *)ctx)->hellos++;
	return TV_OK;
}

static void
on_cancel(void *ctx, void *conn, uint64_t id)
{
	(void)conn;
	((struct fixture *)ctx)->cancelled = id;
}

static void
on_pong(void *ctx, void *conn)
{
	(void)conn;
	((struct fixture *)ctx)->pongs++;
}

static void
on_close(void *ctx, void *conn, enum tv_err why)
{
	struct fixture *x = ctx;

	(void)conn;
	x->closes++;
	x->why = why;
}

static void
info(void *ctx, struct buf *b)
{
	(void)ctx;
	mpw_cstr(b, "all is well");
}

static bool
all_may(uid_t uid)
{
	(void)uid;
	return true;
}

static bool
none_may(uid_t uid)
{
	(void)uid;
	return false;
}

static void
setup(struct fixture *x)
{
	memset(x, 0, sizeof(*x));
	x->loop = world_loop();
	x->s = (struct server){ .chan = { .loop = x->loop, .name = "check.sock", .body_max = 1000, .out_max = 100000 },
		.conn_bytes = sizeof(struct caller), .rows = rows, .on_accept = on_accept, .on_open = on_open,
		.on_hello = on_hello, .on_cancel = on_cancel, .on_pong = on_pong, .on_close = on_close, .ctx = x };
}

static void
setup_unix(struct fixture *x, bool (*may_connect)(uid_t uid), unsigned conns_max)
{
	int fd;

	setup(x);
	x->s.may_connect = may_connect;
	x->s.role = "server";
	x->s.node_id = "node";
	x->s.log_area = "check";
	x->s.info = info;
	fd = listen_unix(world_path(x->path, sizeof(x->path)), 0600, (gid_t)-1);
	ck_assert_int_ge(fd, 0);
	ck_assert(server_start(&x->s, fd, conns_max));
}

static void
teardown(struct fixture *x)
{
	server_stop(&x->s);
	server_stop(&x->s);		/* once is enough */
	ck_assert_uint_eq(x->closes, x->accepts);
	ck_assert_uint_eq(x->s.open, 0);
	ck_assert_uint_eq(x->s.proven, 0);
	ck_assert_uint_eq(x->s.strangers.count, 0);
	for (unsigned i = 0; i < x->ends_count; i++)
		end_done(&x->ends[i]);
	if (x->path[0] != '\0')
		(void)unlink(x->path);
	ev_loop_destroy(x->loop);
}

static struct end *
call_unix(struct fixture *x)
{
	struct end *e = &x->ends[x->ends_count++];
	struct chan_conf conf;

	end_init(e, x->loop);
	conf = end_conf(e, "caller");
	e->c = chan_dial_unix(x->path, &conf);
	ck_assert_ptr_nonnull(e->c);
	return e;
}

/* One that has exchanged greetings. */
static struct end *
greeted(struct fixture *x)
{
	struct end *e = call_unix(x);
	unsigned hellos = x->hellos;

	UNTIL(x->loop, e->frames == 1);
	ck_assert_uint_eq(e->last.type, MSG_HELLO);
	greet_send(e->c, "caller", "node");
	UNTIL(x->loop, x->hellos > hellos);
	return e;
}

static void
say(struct end *e, uint16_t type, uint16_t flags, uint64_t id)
{
	static const uint8_t none[] = { 0x90 };

	ck_assert_int_eq(chan_send(e->c, type, flags, id, span_of(none, sizeof(none))), TV_OK);
}

START_TEST(serves_a_socket)
{
	struct fixture x;
	struct end *e;
	struct caller *k;
	unsigned walked = 0;

	setup_unix(&x, all_may, 8);
	e = greeted(&x);
	(void)greeted(&x);
	ck_assert_uint_eq(x.uid, getuid());
	ck_assert_uint_eq(x.s.proven, 2);
	say(e, TYPE_ASK, 0, 7);
	UNTIL(x.loop, e->frames == 2);
	ck_assert(e->last.type == TYPE_ASK && e->last.id == 7 && e->last.flags == FRAME_REPLY);
	say(e, TYPE_TELL, 0, 0);
	say(e, TYPE_ASK, FRAME_CANCEL, 9);
	UNTIL(x.loop, x.cancelled == 9);
	SERVER_EACH(k, &x.s) {
		ck_assert_uint_eq(k->asked, walked == 0);
		ck_assert_uint_eq(k->told, walked == 0);
		walked++;
	}
	ck_assert_uint_eq(walked, 2);
	buf_reset(&e->got);
	say(e, MSG_INFO, 0, 8);
	UNTIL(x.loop, e->frames == 3);
	ck_assert(e->last.type == MSG_INFO && e->last.id == 8 && e->last.flags == FRAME_REPLY);
	ck_assert(span_eqs(span_of(e->got.data + 1, e->got.len - 1), "all is well"));
	ck_assert_int_eq(greet_ping(e->c), TV_OK);
	UNTIL(x.loop, e->frames == 4);
	ck_assert(e->last.type == MSG_PING && e->last.flags == FRAME_REPLY);
	k = (void *)TAILQ_FIRST(&x.s.conns);
	ck_assert_int_eq(greet_ping(k->conn.chan), TV_OK);
	UNTIL(x.loop, e->frames == 5);
	ck_assert_int_eq(greet_pinged(e->c, &(struct frame){ .type = MSG_PING, .id = 1, .body = span_str("\x90") }), TV_OK);
	UNTIL(x.loop, x.pongs == 1);
	/* Log lines, once asked for. */
	monitor_ask(e->c, LOG_LVL_ERR);
	UNTIL(x.loop, k->conn.monitor != NULL);
	log_err("check", "a line");
	UNTIL(x.loop, e->frames == 6);
	ck_assert_uint_eq(e->last.type, MSG_LOG);
	/* A callback may end its own connection; the others stay. */
	say(e, TYPE_BYE, 0, 0);
	UNTIL(x.loop, e->closes == 1);
	ck_assert_uint_eq(x.closes, 1);
	ck_assert_int_eq(x.why, TV_OK);
	ck_assert_uint_eq(x.s.open, 1);
	ck_assert_uint_eq(x.s.malformed, 0);
	teardown(&x);
}
END_TEST

/* Each of these ends the connection that it came on, and no other. */
static const struct {
	bool greet;
	uint16_t type, flags;
	uint64_t id;
} wrong[] = {
	{ false, TYPE_TELL, 0, 0 },			/* before HELLO */
	{ false, MSG_INFO, 0, 1 },
	{ true, MSG_HELLO, 0, 0 },			/* again */
	{ true, TYPE_ASK, 0, 0 },			/* nobody to answer */
	{ true, MSG_INFO, 0, 0 },
	{ true, TYPE_ASK, FRAME_REPLY, 1 },
	{ true, TYPE_TELL, FRAME_MORE, 1 },
	{ true, MSG_OP, 0, 1 },				/* in no row */
	{ true, MSG_MONITOR, 0, 0 },			/* without a level */
};

START_TEST(malformed)
{
	struct fixture x;
	struct end *e, *other;

	setup_unix(&x, all_may, 8);
	other = greeted(&x);
	e = wrong[_i].greet ? greeted(&x) : call_unix(&x);
	if (!wrong[_i].greet)
		UNTIL(x.loop, e->opens == 1);
	say(e, wrong[_i].type, wrong[_i].flags, wrong[_i].id);
	UNTIL(x.loop, e->closes == 1);
	ck_assert_uint_eq(x.s.malformed, 1);
	ck_assert_int_eq(x.why, TV_EFORMAT);
	say(other, TYPE_ASK, 0, 1);
	UNTIL(x.loop, other->frames == 2);
	teardown(&x);
}
END_TEST

START_TEST(users_and_numbers)
{
	struct fixture x;
	struct end *e;

	setup_unix(&x, none_may, 2);
	e = call_unix(&x);
	UNTIL(x.loop, e->closes == 1);
	ck_assert_int_eq(x.why, TV_EPERM);
	ck_assert_uint_eq(e->frames, 0);
	teardown(&x);
	setup_unix(&x, all_may, 2);
	(void)greeted(&x);
	e = greeted(&x);
	(void)call_unix(&x);				/* one too many */
	UNTIL(x.loop, x.ends[2].closes == 1);
	chan_close(e->c, TV_OK);
	UNTIL(x.loop, x.closes == 1);
	(void)greeted(&x);				/* in its place */
	server_close(&x.s);
	UNTIL(x.loop, x.ends[0].closes == 1 && x.ends[3].closes == 1);
	e = &x.ends[x.ends_count];
	end_init(e, x.loop);
	ck_assert_ptr_null(chan_dial_unix(x.path, &(struct chan_conf){ .loop = x.loop, .events = &end_events, .ctx = e,
	    .name = "late", .body_max = 10, .out_max = 10 }));
	teardown(&x);
}
END_TEST

/* -- ports -- */

static bool
is_known(void *ctx, uint64_t source)
{
	(void)ctx;
	return source == source_of_text("127.2.0.9");
}

static void
setup_port(struct fixture *x)
{
	int fd = listen_tcp(WORLD_ADDR, 0);

	ck_assert_int_ge(fd, 0);
	x->port = world_port(fd);
	x->s.places = (struct strangers_conf){ 3, 1, 2 };
	x->s.is_known = is_known;
	ck_assert(server_start(&x->s, fd, 2));
}

static struct end *
call_from(struct fixture *x, const char *ip)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(x->port) }, own = { .sin_family = AF_INET };
	struct end *e = &x->ends[x->ends_count++];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	unsigned accepts = x->accepts;
	struct chan_conf conf;

	ck_assert_int_eq(inet_pton(AF_INET, WORLD_ADDR, &in.sin_addr), 1);
	ck_assert_int_eq(inet_pton(AF_INET, ip, &own.sin_addr), 1);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	end_init(e, x->loop);
	conf = end_conf(e, "caller");
	e->c = chan_new(fd, &conf);
	UNTIL(x->loop, x->accepts > accepts);
	return e;
}

/* The unproven have places of their own; the proven are counted. */
START_TEST(strangers_on_a_port)
{
	struct fixture x;
	struct end **e, *all[7];

	setup(&x);
	x.s.hello_timeout = MONO_S(40);
	setup_port(&x);
	e = all;
	*e++ = call_from(&x, "127.2.0.9");		/* known: nobody takes its place */
	for (int i = 0; i < 4; i++)
		*e++ = call_from(&x, "127.2.0.2");
	*e++ = call_from(&x, "127.2.0.3");
	*e++ = call_from(&x, "127.2.0.4");		/* the third of the two sources: the crowd's oldest goes */
	UNTIL(x.loop, x.closes == 3);
	ck_assert_int_eq(x.why, TV_ELIMIT);
	UNTIL(x.loop, all[1]->closes == 1 && all[2]->closes == 1 && all[3]->closes == 1);
	ck_assert(all[0]->closes == 0 && all[4]->closes == 0);
	ck_assert_uint_eq(all[0]->frames, 0);		/* who calls speaks first */
	ck_assert(x.s.strangers.count == 4 && x.s.strangers.came == 7 && x.s.strangers.evicted == 3);
	greet_send(all[0]->c, "caller", "node");
	greet_send(all[4]->c, "caller", "node");
	UNTIL(x.loop, x.hellos == 2);
	greet_send(all[5]->c, "caller", "node");	/* one too many */
	UNTIL(x.loop, all[5]->closes == 1);
	ck_assert(x.s.proven == 2 && x.s.refused == 1 && x.s.strangers.count == 1);
	say(all[0], MSG_INFO, 0, 1);			/* of sockets only */
	UNTIL(x.loop, all[0]->closes == 1);
	greet_send(all[6]->c, "caller", "node");
	UNTIL(x.loop, x.hellos == 3);
	ck_assert(x.s.proven == 2 && x.s.strangers.count == 0 && x.s.open == 2);
	teardown(&x);
}
END_TEST

START_TEST(silent_on_a_port)
{
	struct fixture x;

	setup(&x);
	x.s.hello_timeout = MONO_MS(20);
	setup_port(&x);
	(void)call_from(&x, "127.2.0.2");
	UNTIL(x.loop, x.closes == 1);
	ck_assert_int_eq(x.why, TV_ETIMEOUT);
	ck_assert_uint_eq(x.s.silent, 1);
	ck_assert_uint_eq(x.opens, 1);
	teardown(&x);
}
END_TEST

/* With a hello of its own. */
static enum tv_err
on_own_hello(void *conn, const struct frame *f)
{
	(void)f;
	((struct caller *)conn)->asked++;
	return server_greeted(conn);
}

static enum tv_err
on_other(void *conn, const struct frame *f)
{
	ck_assert_uint_eq(f->type, TYPE_TELL);
	return on_tell(conn, f);
}

START_TEST(own_hello)
{
	static const struct server_row own[] = { { MSG_RAFT_HELLO, on_own_hello, false }, { 0, on_other, false } };
	struct fixture x;
	struct end *e;
	struct caller *k;

	setup(&x);
	x.s.rows = own;
	x.s.hello_type = MSG_RAFT_HELLO;
	x.s.hello_timeout = MONO_S(40);
	setup_port(&x);
	e = call_from(&x, "127.2.0.2");
	greet_send(e->c, "caller", "node");		/* is none here */
	UNTIL(x.loop, e->closes == 1);
	e = call_from(&x, "127.2.0.2");
	say(e, MSG_RAFT_HELLO, 0, 1);
	say(e, MSG_RAFT_HELLO, 0, 2);			/* may be said again */
	say(e, TYPE_TELL, 0, 0);
	k = (void *)TAILQ_FIRST(&x.s.conns);
	UNTIL(x.loop, k->told == 1);
	ck_assert(k->asked == 2 && k->conn.greeted && x.s.proven == 1);
	ck_assert_uint_eq(x.hellos, 0);
	teardown(&x);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("server");
	TCase *t = tcase_create("server");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, serves_a_socket);
	tcase_add_loop_test(t, malformed, 0, (int)(sizeof(wrong) / sizeof(wrong[0])));
	tcase_add_test(t, users_and_numbers);
	tcase_add_test(t, strangers_on_a_port);
	tcase_add_test(t, silent_on_a_port);
	tcase_add_test(t, own_hello);
	suite_add_tcase(s, t);
	return world_main(s);
}
