/* rpcd's channel to its own raftd: greeting and status, also of a raftd that says more than we know. */
#include "tests/unit/chan_world.h"

#include "common/net/greet.h"
#include "common/net/msg.h"
#include "common/record/mpack.h"
#include "rpcd/route/raftd_client.h"

static unsigned changes;

static void
on_change(void *ctx)
{
	(void)ctx;
	changes++;
}

/* A greeting and a status with this many fields more. */
static void
say(struct chan *c, unsigned more)
{
	struct buf *b;

	b = chan_begin(c, MSG_HELLO, 0, 0);
	mpw_array(b, 4 + more);
	mpw_uint(b, MSG_VERSIONS.lowest);
	mpw_cstr(b, "raftd");
	mpw_cstr(b, "9.9.9");
	mpw_cstr(b, "node");
	for (unsigned i = 0; i < more; i++) {
		if (i == 0)
			mpw_uint(b, MSG_VERSIONS.highest + 1u);	/* the highest that it speaks */
		else
			mpw_array(b, 0);
	}
	ck_assert_int_eq(chan_end(c), TV_OK);
	b = chan_begin(c, MSG_RAFT_STATUS, 0, 0);
	mpw_array(b, 8 + more);
	mpw_uint(b, 2);
	mpw_uint(b, 77);
	mpw_cstr(b, "id");
	mpw_cstr(b, "127.0.0.1:8300");
	mpw_cstr(b, "n1");
	mpw_uint(b, 3);
	mpw_bool(b, true);
	mpw_uint(b, 12);
	for (unsigned i = 0; i < more; i++)
		mpw_cstr(b, "of a newer version");
	ck_assert_int_eq(chan_end(c), TV_OK);
}

START_TEST(status_grows)
{
	struct ev_loop *loop = world_loop();
	struct end e;
	char path[256];
	struct raftd_client_conf conf = { .loop = loop, .path = world_path(path, sizeof(path)), .node_id = "node",
		.answer_max = 1 << 20, .out_max = 1 << 20, .pending_max = 8, .on_change = on_change };
	struct raftd_client *r;
	struct door door;
	int fd;

	changes = 0;
	end_init(&e, loop);
	fd = listen_unix(path, 0600, (gid_t)-1);
	ck_assert_int_ge(fd, 0);
	door = (struct door){ .e = &e, .conf = end_conf(&e, "raftd.sock") };
	door.l = listener_new(loop, fd, 4, door_accept, &door);
	r = raftd_client_new(&conf);
	ck_assert_ptr_nonnull(r);
	UNTIL(loop, e.c != NULL);
	say(e.c, (unsigned)_i);
	UNTIL(loop, changes > 0);
	ck_assert(raftd_client_status(r)->up);
	ck_assert_uint_eq(raftd_client_status(r)->term, 77);
	ck_assert_str_eq(raftd_client_status(r)->leader_name, "n1");
	ck_assert_uint_eq(raftd_client_status(r)->voters, 3);
	ck_assert_uint_eq(e.closes, 0);
	raftd_client_free(r);
	end_done(&e);
	listener_free(door.l);
	(void)unlink(path);
	ev_loop_destroy(loop);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("raftd_client");
	TCase *t = tcase_create("raftd_client");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, status_grows, 0, 3);
	suite_add_tcase(s, t);
	return world_main(s);
}
