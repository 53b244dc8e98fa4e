/* The life of a helper process: the test plays monitor and processes.  Silence is check_silence's and test_helpers.py's. */
#include <check.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/proc/helper.h"

static struct ev_loop *loop;
static int monitor, player;		/* the daemon's end of the pair, and the monitor's */
static struct helper *helper;
static unsigned setups, frames, ends[HELPER_IDLE + 1], lost, serves, retirements;

/* -- the daemon's side -- */

static void
on_setup(void *ctx, struct chan *c)
{
	(void)ctx;
	setups++;
	ck_assert_int_eq(chan_send(c, MSG_CHECK_SETUP, 0, 0, MSG_EMPTY), TV_OK);
}

static enum tv_err
on_frame(void *ctx, const struct frame *f)
{
	(void)ctx;
	frames++;
	return f->type == MSG_CHECK_STATS ? TV_OK : TV_EFORMAT;
}

static void
on_ended(void *ctx, enum helper_end why)
{
	(void)ctx;
	ends[why]++;
}

static void
on_lost(void *ctx)
{
	(void)ctx;
	lost++;
}

static void
on_serve(void *ctx, struct chan *c)
{
	(void)ctx;
	(void)c;
	serves++;
}

static void
on_retire(void *ctx, struct chan *c)
{
	(void)ctx;
	(void)c;
	retirements++;
}

static bool retires;			/* its processes do */

static void
open_helper(bool once, double pause_s)
{
	int pair[2];

	log_init("check", LOG_LVL_ERR, LOG_TO_STDERR);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	monitor = pair[0];
	player = pair[1];
	loop = ev_loop_new(EVFLAG_AUTO);
	setups = frames = lost = serves = retirements = 0;
	memset(ends, 0, sizeof(ends));
	helper = helper_new(&(struct helper_conf){
		.loop = loop, .monitor = monitor, .kind = 2, .name = "test", .tag = "test", .body_max = MSG_SMALL,
		.out_max = MSG_TEXT, .restart_min_s = pause_s, .restart_max_s = 4 * pause_s, .idle_s = 0.01, .once = once,
		.setup = on_setup, .frame = on_frame, .ended = on_ended, .lost = on_lost,
		.serve = retires ? on_serve : NULL, .retire = retires ? on_retire : NULL,
	});
	retires = false;
	ck_assert_ptr_nonnull(helper);
}

static void
close_helper(void)
{
	helper_free(helper);
	helper = NULL;
	ev_loop_destroy(loop);
	close(monitor);
	close(player);
}

static void
turn(void)
{
	for (int i = 0; i < 4; i++)
		ev_run(loop, EVRUN_NOWAIT);
}

/* -- the monitor's and the processes' -- */

/* The next order to start a process: its channel; -1: there is none.  Orders to end one are counted. */
static unsigned orders_to_end;

static int
next_process(void)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	uint32_t order[3];
	struct iovec iov = { order, sizeof(order) };
	int fd = -1;

	turn();
	while (fd < 0) {
		struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
		    .msg_controllen = sizeof(control) };

		if (recvmsg(player, &msg, MSG_DONTWAIT) != (ssize_t)sizeof(order))
			return -1;
		if (CMSG_FIRSTHDR(&msg) == NULL) {
			orders_to_end++;
			continue;
		}
		ck_assert_uint_eq(order[1], 2);
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	}
	return fd;
}

static int
wait_process(void)
{
	int fd;

	while ((fd = next_process()) < 0)
		ev_run(loop, EVRUN_ONCE);
	return fd;
}

static void
say(int fd, uint16_t type, uint16_t flags, uint64_t id, const struct schema *record, const void *rec)
{
	struct buf b = BUF_INIT(4096);
	size_t at = frame_open(&b, type, flags, id);

	schema_pack(record, rec, &b);
	frame_close(&b, at);
	ck_assert_int_eq(send(fd, b.data, b.len, MSG_NOSIGNAL), (ssize_t)b.len);
	buf_done(&b);
	turn();
}

static void
say_started(int fd)
{
	say(fd, MSG_HELPER_STARTED, 0, 0, &msg_helper_started_schema, &(struct msg_helper_started){ 4711 });
}

static void
say_stats(int fd)
{
	say(fd, MSG_CHECK_STATS, 0, 0, &msg_check_stats_schema, &(struct msg_check_stats){ .runs = 1 });
}

/* What a new process gets: the setup, and the question that it answers when it has read that. */
static void
expect_beginning(int fd)
{
	uint8_t bytes[256];
	struct frame f;
	ssize_t n;

	turn();
	n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	ck_assert_int_gt(n, 0);
	long used = frame_read(span_of(bytes, (size_t)n), MSG_SMALL, &f);
	ck_assert(used > 0 && f.type == MSG_CHECK_SETUP);
	ck_assert_int_eq(frame_read(span_of(bytes + used, (size_t)(n - used)), MSG_SMALL, &f), n - used);
	ck_assert(f.type == MSG_PING && (f.flags & FRAME_REPLY) == 0);
	say_started(fd);
}

static void
say_ready(int fd)
{
	say(fd, MSG_PING, FRAME_REPLY, 1, &empty_schema, NULL);
}

/* Setups that came to a process that has begun, and nothing else. */
static unsigned
taken(int fd)
{
	uint8_t bytes[256];
	struct frame f;
	unsigned n = 0;
	ssize_t left;

	turn();
	left = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	for (const uint8_t *p = bytes; left > 0; n++) {
		long used = frame_read(span_of(p, (size_t)left), MSG_SMALL, &f);

		ck_assert(used > 0 && f.type == MSG_CHECK_SETUP);
		p += used;
		left -= used;
	}
	return n;
}

static bool
is_closed(int fd)
{
	char byte[4096];
	ssize_t n;

	turn();
	while ((n = recv(fd, byte, sizeof(byte), MSG_DONTWAIT)) > 0)
		continue;
	return n == 0;
}

static struct helper_stats
stats(void)
{
	struct helper_stats s;

	helper_stats(helper, &s);
	return s;
}

static void
expect_state(const char *beginning)
{
	char text[HELPER_STATE_BYTES];

	helper_state(helper, text);
	ck_assert_msg(strncmp(text, beginning, strlen(beginning)) == 0, "\"%s\" instead of \"%s\"", text, beginning);
}

static int
served(void)
{
	helper_want(helper, true);
	int fd = wait_process();

	expect_beginning(fd);
	say_ready(fd);
	return fd;
}

/* -- cases -- */

START_TEST(wanted_and_not)
{
	open_helper(false, 0.001);
	ck_assert_int_eq(next_process(), -1);
	expect_state("idle");
	int fd = served();
	expect_state("running");
	say_stats(fd);
	ck_assert_uint_eq(frames, 1);
	helper_want(helper, false);
	helper_want(helper, true);
	ck_assert(!is_closed(fd));
	helper_want(helper, false);
	while (!is_closed(fd))
		ev_run(loop, EVRUN_ONCE);
	ck_assert(ends[HELPER_IDLE] == 1 && helper_chan(helper) == NULL && stats().deaths == 0);
	expect_state("idle");
	close(fd);
	close(served());
	close_helper();
}
END_TEST

/* The pause doubles to its end; being in a hurry skips it. */
START_TEST(deaths)
{
	open_helper(false, 3600);
	int fd = served();
	close(fd);
	turn();
	ck_assert(ends[HELPER_DIED] == 1 && stats().deaths == 1 && !stats().running);
	expect_state("exited 0 s ago, restarting in 36");
	ck_assert_int_eq(next_process(), -1);
	helper_hurry(helper);
	fd = wait_process();
	expect_beginning(fd);
	expect_state("restarted: exited");
	close(fd);
	turn();
	expect_state("exited 0 s ago, restarting in 72");
	for (int i = 0; i < 3; i++) {
		helper_hurry(helper);
		close(wait_process());
		turn();
	}
	expect_state("exited 0 s ago, restarting in 144");
	ck_assert(stats().starts == 5 && stats().deaths == 5 && lost == 0);
	close_helper();
}
END_TEST

/* Nothing that a process says makes more of it than a death. */
START_TEST(nonsense)
{
	open_helper(false, 0.001);
	int fd = served();
	say_started(fd);			/* a second time */
	ck_assert(is_closed(fd));
	close(fd);
	fd = wait_process();
	expect_beginning(fd);
	say(fd, MSG_CHECK_PUT, 0, 0, &empty_schema, NULL);
	ck_assert(is_closed(fd) && frames == 1);
	close(fd);
	fd = wait_process();
	ck_assert_int_eq(send(fd, "\0\0\0\0\377\377\0\0\0\0\0\0\0\0\0\0", 16, 0), 16);
	ck_assert(is_closed(fd));
	ck_assert_uint_eq(stats().deaths, 3);
	close(fd);
	close_helper();
}
END_TEST

/* The old one serves until the new one has read its setup, and not a moment longer. */
START_TEST(replaced)
{
	open_helper(false, 3600);
	int old = served();
	orders_to_end = 0;
	helper_replace(helper);
	int new = wait_process();
	expect_beginning(new);
	ck_assert_uint_eq(setups, 2);
	say_stats(old);
	ck_assert(frames == 1 && !is_closed(old) && ends[HELPER_REPLACED] == 0);
	say_ready(new);
	ck_assert(is_closed(old) && ends[HELPER_REPLACED] == 1);
	say_stats(new);
	ck_assert_uint_eq(frames, 2);
	ck_assert_int_eq(next_process(), -1);
	ck_assert_uint_eq(orders_to_end, 1);	/* it may stand still */
	ck_assert(stats().starts == 2 && stats().deaths == 0 && stats().replaced == 1);
	expect_state("running");
	close(old);
	close(new);
	close_helper();
}
END_TEST

/* A helper whose process is told to retire: that one, and the one that is to serve then. */
static void
begin_to_retire(int *old, int *new)
{
	retires = true;
	open_helper(false, 3600);
	*old = served();
	ck_assert(serves == 1 && retirements == 0);
	helper_replace(helper);
	*new = wait_process();
	expect_beginning(*new);
	say_ready(*new);
}

/* One that retires ends what it has begun; the next one serves when it is gone. */
START_TEST(retired)
{
	int old, new;

	begin_to_retire(&old, &new);
	say_stats(old);
	ck_assert(serves == 1 && retirements == 1 && frames == 1 && ends[HELPER_REPLACED] == 0);
	close(old);
	turn();
	ck_assert(serves == 2 && ends[HELPER_REPLACED] == 1 && ends[HELPER_DIED] == 0);
	say_stats(new);
	ck_assert(frames == 2 && stats().replaced == 1 && stats().deaths == 0);
	expect_state("running");
	close(new);
	close_helper();
}
END_TEST

START_TEST(retires_too_slowly)
{
	int old, new;

	begin_to_retire(&old, &new);
	while (serves < 2)
		ev_run(loop, EVRUN_ONCE);
	ck_assert(is_closed(old) && ends[HELPER_REPLACED] == 1 && stats().replaced == 1 && stats().deaths == 0);
	close(old);
	close(new);
	close_helper();
}
END_TEST

/* Nobody is left then: another one is started at once, and serves. */
START_TEST(dies_before_the_old_one_is_gone)
{
	int old, new;

	begin_to_retire(&old, &new);
	close(new);
	turn();
	ck_assert(stats().deaths == 1 && serves == 1);
	close(old);
	new = wait_process();
	expect_beginning(new);
	ck_assert(serves == 2 && ends[HELPER_REPLACED] == 1 && stats().deaths == 1 && stats().running);
	close(new);
	close_helper();
}
END_TEST

/* A replacement while one retires: the newest one serves. */
START_TEST(replaced_while_retiring)
{
	int old, new[2];

	begin_to_retire(&old, &new[0]);
	helper_replace(helper);
	ck_assert(is_closed(new[0]) && serves == 1);
	close(old);
	new[1] = wait_process();
	expect_beginning(new[1]);
	say_ready(new[1]);
	ck_assert(serves == 2 && stats().running && stats().deaths == 0 && next_process() == -1);
	close(new[0]);
	close(new[1]);
	close_helper();
}
END_TEST

START_TEST(replaced_while_replaced)
{
	open_helper(false, 3600);
	int old = served(), new[2];
	helper_replace(helper);
	new[0] = wait_process();
	expect_beginning(new[0]);
	helper_replace(helper);			/* what it was told is old */
	ck_assert(is_closed(new[0]));
	new[1] = wait_process();
	expect_beginning(new[1]);
	say_ready(new[1]);
	ck_assert(is_closed(old) && stats().replaced == 1 && stats().deaths == 0);
	close(old);
	close(new[0]);
	close(new[1]);
	close_helper();
}
END_TEST

/* What a process takes in place goes to the newest one: the old one, which serves on, may not be able to take it. */
START_TEST(setup_again)
{
	open_helper(false, 3600);
	ck_assert(!helper_setup(helper));	/* none is there: it gets the setup when it starts */
	int old = served();
	ck_assert(helper_setup(helper));
	ck_assert_uint_eq(taken(old), 1);
	helper_replace(helper);
	ck_assert(!helper_setup(helper));	/* the new one is not there yet */
	int new = wait_process();
	expect_beginning(new);
	ck_assert(!helper_setup(helper));
	ck_assert(taken(new) == 1 && taken(old) == 0);
	say_ready(new);
	ck_assert(helper_setup(helper));
	ck_assert_uint_eq(taken(new), 1);
	close(old);
	close(new);
	close_helper();
}
END_TEST

/* The new one dies, or speaks before it is asked: the old one goes on, and another new one is tried. */
START_TEST(new_one_that_dies)
{
	open_helper(false, 0.001);
	int old = served();
	helper_replace(helper);
	close(wait_process());
	int new = wait_process();
	expect_beginning(new);
	say_stats(new);
	ck_assert(is_closed(new) && frames == 0);
	close(new);
	new = wait_process();
	expect_beginning(new);
	say_stats(old);
	ck_assert(frames == 1 && !is_closed(old));
	say_ready(new);
	ck_assert(is_closed(old) && ends[HELPER_DIED] == 0 && ends[HELPER_REPLACED] == 1);
	close(old);
	close(new);
	close_helper();
}
END_TEST

/* The old one dies while the new one starts: that serves then, without a pause. */
START_TEST(old_one_that_dies)
{
	open_helper(false, 3600);
	int old = served();
	helper_replace(helper);
	int new = wait_process();
	expect_beginning(new);
	close(old);
	turn();
	ck_assert(ends[HELPER_DIED] == 1 && stats().running);
	say_ready(new);
	say_stats(new);
	ck_assert(frames == 1 && ends[HELPER_REPLACED] == 0);
	ck_assert_int_eq(next_process(), -1);
	close(new);
	close_helper();
}
END_TEST

/* A replacement during a pause starts it at once. */
START_TEST(replaced_while_dead)
{
	open_helper(false, 3600);
	close(served());
	turn();
	helper_replace(helper);
	int fd = wait_process();
	expect_beginning(fd);
	ck_assert(stats().running && stats().replaced == 0);
	close(fd);
	close_helper();
}
END_TEST

/* A process that asks for another one is no death; one that does so at once is. */
START_TEST(renewed)
{
	open_helper(false, 3600);
	int fd = served();
	ev_sleep(1.1);
	say(fd, MSG_HELPER_RENEW, 0, 0, &empty_schema, NULL);
	ck_assert(is_closed(fd) && ends[HELPER_REPLACED] == 1);
	close(fd);
	fd = wait_process();
	expect_beginning(fd);
	ck_assert(stats().replaced == 1 && stats().deaths == 0 && stats().starts == 2);
	say(fd, MSG_HELPER_RENEW, 0, 0, &empty_schema, NULL);
	close(fd);
	turn();
	ck_assert(stats().replaced == 1 && stats().deaths == 1 && next_process() == -1);
	close_helper();
}
END_TEST

START_TEST(once)
{
	open_helper(true, 0.001);
	ck_assert_int_eq(helper_start(helper), TV_OK);
	int fd = next_process();
	expect_beginning(fd);
	close(fd);
	turn();
	ck_assert(ends[HELPER_DIED] == 1);
	usleep(5000);
	ck_assert_int_eq(next_process(), -1);
	close_helper();
}
END_TEST

START_TEST(monitor_is_gone)
{
	open_helper(false, 0.001);
	close(player);
	player = -1;
	helper_want(helper, true);
	while (lost == 0)
		ev_run(loop, EVRUN_ONCE);
	close_helper();
	open_helper(true, 0.001);
	close(player);
	player = -1;
	ck_assert_int_eq(helper_start(helper), TV_ECLOSED);
	close_helper();
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("helper");
	TCase *t = tcase_create("helper");

	tcase_add_test(t, wanted_and_not);
	tcase_add_test(t, deaths);
	tcase_add_test(t, nonsense);
	tcase_add_test(t, replaced);
	tcase_add_test(t, retired);
	tcase_add_test(t, retires_too_slowly);
	tcase_add_test(t, dies_before_the_old_one_is_gone);
	tcase_add_test(t, replaced_while_retiring);
	tcase_add_test(t, replaced_while_replaced);
	tcase_add_test(t, setup_again);
	tcase_add_test(t, new_one_that_dies);
	tcase_add_test(t, old_one_that_dies);
	tcase_add_test(t, replaced_while_dead);
	tcase_add_test(t, renewed);
	tcase_add_test(t, once);
	tcase_add_test(t, monitor_is_gone);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
