/* The connection to gossipd.sock: lists, changes, what vanished while gossipd was away, and calls. */
#include "tests/unit/chan_world.h"

#include "common/net/gossip_client.h"
#include "common/net/greet.h"
#include "common/net/msg.h"
#include "common/record/mpack.h"

struct fixture {
	struct ev_loop *loop;
	struct end e;			/* of gossipd */
	struct door door;
	char path[256];
	struct gossip_client g;
	unsigned ups, changes, wholes, others, downs, synced_downs;
	uint8_t before;			/* with the newest change */
	unsigned done;
	enum tv_err done_err;
	char done_body[16];
};

static void
on_up(void *ctx, struct chan *c)
{
	struct fixture *x = ctx;

	ck_assert(chan_is_open(c));
	x->ups++;
}

static void
on_change(void *ctx, struct member_slot *s, uint8_t before)
{
	struct fixture *x = ctx;

	x->before = before;
	if (s == NULL) {
		x->wholes++;
		return;
	}
	ck_assert(s->dirty);
	x->changes++;
}

static enum tv_err
on_other(void *ctx, struct chan *c, const struct frame *f)
{
	(void)c;
	ck_assert_uint_eq(f->type, MSG_GOSSIP_KEYS);
	((struct fixture *)ctx)->others++;
	return TV_OK;
}

static void
on_down(void *ctx, enum tv_err why, unsigned failures)
{
	struct fixture *x = ctx;

	(void)why, (void)failures;
	x->downs++;
	x->synced_downs += x->g.synced;
	ck_assert_ptr_null(daemon_client_chan(&x->g.daemon));
}

static void
start(struct fixture *x)
{
	int fd;

	memset(x, 0, sizeof(*x));
	x->loop = world_loop();
	end_init(&x->e, x->loop);
	fd = listen_unix(world_path(x->path, sizeof(x->path)), 0600, (gid_t)-1);
	ck_assert_int_ge(fd, 0);
	x->door = (struct door){ .e = &x->e, .conf = end_conf(&x->e, "gossipd.sock") };
	x->door.l = listener_new(x->loop, fd, 4, door_accept, &x->door);
	x->g = (struct gossip_client){
		.daemon = { .chan.loop = x->loop, .path = x->path, .role = "rpcd", .node_id = "node" }, .members_max = 3, .on_up = on_up, .on_change = on_change, .when_full = "", .on_frame = on_other,
		.on_down = on_down, .ctx = x };
}

static void
connected(struct fixture *x)
{
	ck_assert(gossip_client_start(&x->g));
	UNTIL(x->loop, x->e.c != NULL && x->e.frames >= (x->g.events ? 3 : 2));
}

static void
finish(struct fixture *x)
{
	gossip_client_stop(&x->g);
	end_done(&x->e);
	listener_free(x->door.l);
	(void)unlink(x->path);
	ev_loop_destroy(x->loop);
}

/* gossipd hangs up; the client is back, and asks anew. */
static void
reconnected(struct fixture *x)
{
	listener_release(x->door.l);
	x->e.frames = 0;
	chan_close(x->e.c, TV_ECLOSED);
	UNTIL(x->loop, x->e.closes > 0);
	x->e.opens = x->e.closes = 0;
	UNTIL(x->loop, x->e.c != NULL && x->e.frames >= 2);
}

static void
say(struct fixture *x, uint16_t type)
{
	struct buf *b = chan_begin(x->e.c, type, 0, 0);

	mpw_array(b, 0);
	ck_assert_int_eq(chan_end(x->e.c), TV_OK);
}

static void
member(struct fixture *x, enum gossip_pool pool, enum gossip_event event, const char *name, uint8_t status)
{
	struct member m = { .name = span_str(name), .addr = { 127, 0, 0, 1 }, .addr_len = 4, .port = 8301,
		.status = status };
	struct buf *b = chan_begin(x->e.c, MSG_GOSSIP_MEMBER, 0, 0);

	mpw_array(b, 3);
	mpw_uint(b, pool);
	mpw_uint(b, event);
	member_pack(b, &m);
	ck_assert_int_eq(chan_end(x->e.c), TV_OK);
}

/* A greeting, a list of these names (one letter each), and its end. */
static void
list(struct fixture *x, const char *names)
{
	unsigned wholes = x->wholes;
	char name[2] = "";

	greet_send(x->e.c, "gossipd", "node");
	for (; *names != '\0'; names++) {
		name[0] = *names;
		member(x, POOL_LAN, GOSSIP_EV_JOIN, name, MEMBER_ALIVE);
	}
	say(x, MSG_GOSSIP_SYNCED);
	UNTIL(x->loop, x->wholes > wholes);
	ck_assert(x->g.synced);
}

static struct member_slot *
slot(struct fixture *x, enum gossip_pool pool, const char *name)
{
	return member_table_find(&x->g.pools[pool], span_str(name));
}

START_TEST(follows_members)
{
	struct fixture x;

	start(&x);
	x.g.events = true;
	connected(&x);
	ck_assert_uint_eq(x.ups, 1);
	ck_assert_uint_eq(x.e.last.type, MSG_GOSSIP_EVENTS);
	ck_assert(!x.g.synced);
	ck_assert_str_eq(daemon_client_state(&x.g.daemon), "silent");	/* not a word yet */
	list(&x, "ab");
	ck_assert_uint_eq(x.changes, 2);
	ck_assert_str_eq(daemon_client_state(&x.g.daemon), "connected");
	member(&x, POOL_LAN, GOSSIP_EV_FAILED, "a", MEMBER_FAILED);
	member(&x, POOL_WAN, GOSSIP_EV_JOIN, "a.dc2", MEMBER_ALIVE);	/* not wanted */
	UNTIL(x.loop, x.changes == 3);
	ck_assert_uint_eq(x.before, MEMBER_ALIVE);
	member(&x, POOL_LAN, GOSSIP_EV_REAP, "a", MEMBER_FAILED);
	UNTIL(x.loop, x.wholes == 2);
	ck_assert_uint_eq(x.before, MEMBER_FAILED);
	ck_assert_ptr_null(slot(&x, POOL_LAN, "a"));
	member(&x, POOL_LAN, GOSSIP_EV_JOIN, "c", MEMBER_ALIVE);
	member(&x, POOL_LAN, GOSSIP_EV_JOIN, "d", MEMBER_ALIVE);
	member(&x, POOL_LAN, GOSSIP_EV_JOIN, "e", MEMBER_ALIVE);	/* one more than fit */
	member(&x, POOL_LAN, GOSSIP_EV_JOIN, "f", MEMBER_ALIVE);
	say(&x, MSG_GOSSIP_KEYS);
	UNTIL(x.loop, x.others == 1);
	ck_assert_uint_eq(x.g.pools[POOL_LAN].refused, 2);
	ck_assert_uint_eq(x.g.pools[POOL_LAN].count, 3);
	ck_assert_uint_eq(x.g.pools[POOL_WAN].count, 0);
	ck_assert_uint_eq(x.downs, 0);
	finish(&x);
}
END_TEST

/* What the list after a reconnection lacks is forgotten; what was reaped is marked for the user, who forgets it, if it wants that. */
START_TEST(list_after_a_reconnection)
{
	struct fixture x;

	start(&x);
	x.g.keep_gone = _i == 1;
	connected(&x);
	list(&x, "abc");
	slot(&x, POOL_LAN, "a")->dirty = slot(&x, POOL_LAN, "b")->dirty = false;
	reconnected(&x);
	ck_assert_uint_eq(x.synced_downs, 1);
	ck_assert_uint_eq(x.g.pools[POOL_LAN].count, 3);	/* as they were */
	ck_assert(!slot(&x, POOL_LAN, "b")->gone);
	list(&x, "ac");
	ck_assert_uint_eq(x.ups, 2);
	ck_assert(slot(&x, POOL_LAN, "a")->dirty);
	ck_assert_ptr_null(slot(&x, POOL_LAN, "b"));
	if (x.g.keep_gone) {
		member(&x, POOL_LAN, GOSSIP_EV_JOIN, "b", MEMBER_ALIVE);
		UNTIL(x.loop, x.changes == 6);
		ck_assert_uint_eq(x.before, MEMBER_NONE);		/* it has come back */
		ck_assert(!slot(&x, POOL_LAN, "b")->gone);
		member(&x, POOL_LAN, GOSSIP_EV_REAP, "b", MEMBER_ALIVE);
		UNTIL(x.loop, x.changes == 7);
		ck_assert_uint_eq(x.before, MEMBER_ALIVE);
		ck_assert(slot(&x, POOL_LAN, "b")->gone && slot(&x, POOL_LAN, "b")->dirty);
	}
	finish(&x);
}
END_TEST

/* A frame that is none of gossipd's ends the connection, and the next one begins with a list. */
START_TEST(malformed_frame)
{
	struct fixture x;

	start(&x);
	x.g.on_frame = NULL;
	connected(&x);
	list(&x, "a");
	x.e.frames = 0;
	say(&x, _i == 0 ? MSG_GOSSIP_MEMBER : MSG_GOSSIP_KEYS);
	listener_release(x.door.l);
	UNTIL(x.loop, x.e.closes > 0);
	x.e.opens = x.e.closes = 0;
	UNTIL(x.loop, x.e.c != NULL && x.e.frames >= 2);
	ck_assert_uint_eq(x.downs, 1);
	list(&x, "b");
	ck_assert_ptr_null(slot(&x, POOL_LAN, "a"));
	finish(&x);
}
END_TEST

static void
done(void *ctx, enum tv_err err, struct span body)
{
	struct fixture *x = ctx;

	x->done++;
	x->done_err = err;
	(void)span_copy(body, x->done_body, sizeof(x->done_body));
}

START_TEST(calls)
{
	struct fixture x;
	struct daemon_client *d;
	enum tv_err err;
	uint64_t id;

	start(&x);
	d = &x.g.daemon;
	ck_assert(gossip_client_start(&x.g));
	ck_assert_uint_eq(daemon_client_call(d, MSG_INFO, span_str("q"), MONO_NEVER, done, &x, &err), 0);
	ck_assert_int_eq(err, TV_EUNREACH);
	ck_assert_str_eq(daemon_client_state(d), "away");
	UNTIL(x.loop, x.e.c != NULL && x.e.frames >= 2);
	list(&x, "a");
	id = daemon_client_call(d, MSG_INFO, span_str("q"), MONO_NEVER, done, &x, &err);
	ck_assert_uint_ne(id, 0);
	ck_assert_uint_eq(calls_pending(d->calls), 1);
	ck_assert_int_eq(chan_send(x.e.c, MSG_INFO, FRAME_REPLY, id, span_str("answer")), TV_OK);
	UNTIL(x.loop, x.done == 1);
	ck_assert_int_eq(x.done_err, TV_OK);
	ck_assert_str_eq(x.done_body, "answer");
	/* One that is missed, until the other side says something. */
	d->mute = true;
	ck_assert_str_eq(daemon_client_state(d), "silent");
	member(&x, POOL_LAN, GOSSIP_EV_JOIN, "b", MEMBER_ALIVE);
	UNTIL(x.loop, x.changes == 2);
	ck_assert_str_eq(daemon_client_state(d), "connected");
	/* It is asked whether it is there. */
	x.e.frames = 0;
	ck_assert_int_eq(greet_ping(x.e.c), TV_OK);
	UNTIL(x.loop, x.e.frames == 1);
	ck_assert_uint_eq(x.e.last.type, MSG_PING);
	ck_assert_uint_eq(x.e.last.flags, FRAME_REPLY);
	/* One is cancelled, the other one ends with the channel. */
	id = daemon_client_call(d, MSG_INFO, span_str("q"), MONO_NEVER, done, &x, &err);
	daemon_client_cancel(d, id);
	ck_assert_uint_ne(daemon_client_call(d, MSG_INFO, span_str("q"), MONO_NEVER, done, &x, &err), 0);
	UNTIL(x.loop, x.e.frames == 4);
	chan_close(x.e.c, TV_ECLOSED);
	UNTIL(x.loop, x.downs == 1);
	ck_assert_uint_eq(x.done, 2);
	ck_assert_int_eq(x.done_err, TV_ECLOSED);
	finish(&x);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("gossip_client");
	TCase *t = tcase_create("gossip_client");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, follows_members);
	tcase_add_loop_test(t, list_after_a_reconnection, 0, 2);
	tcase_add_loop_test(t, malformed_frame, 0, 2);
	tcase_add_test(t, calls);
	suite_add_tcase(s, t);
	return world_main(s);
}
