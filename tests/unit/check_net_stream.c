/* The bytes of a connection: back pressure, an end and a cut, connecting, seals, lingering, and owners that go within a callback. */
#include <fcntl.h>

#include "common/net/stream.h"
#include "tests/unit/chan_world.h"

#define QUEUE_MAX (256u << 10)

struct side {
	struct stream s;
	uint8_t *got;			/* what came */
	size_t len, max;
	unsigned reads, writes, lates, wakes, gones;
	bool close_in;			/* closes, and frees itself, in the next callback */
	struct side **self;
};

static void
on_ready(struct stream *s, int events)
{
	struct side *e = (struct side *)(void *)((char *)s - offsetof(struct side, s));

	e->writes += (events & STREAM_WRITE) != 0;
	e->reads += (events & STREAM_READ) != 0;
	e->lates += events == STREAM_LATE;
	e->wakes += (events & STREAM_WOKEN) != 0;
	e->gones += (events & STREAM_GONE) != 0;
	if (e->close_in) {
		stream_close(s);
		*e->self = NULL;
		free(e);
		return;
	}
	if ((events & STREAM_READ) != 0) {
		e->len += stream_read(s, e->got + e->len, e->max - e->len);
		if (s->state != STREAM_OPEN)
			stream_watch(s, 0);
	}
	if ((events & STREAM_WRITE) != 0)
		(void)stream_flush(s);
}

static void
side_open(struct side *e, struct ev_loop *loop, int fd, size_t max)
{
	*e = (struct side){ .max = max, .got = malloc(max) };
	ck_assert_ptr_nonnull(e->got);
	stream_open(&e->s, loop, fd, on_ready, QUEUE_MAX);
}

static void
side_done(struct side *e)
{
	stream_close(&e->s);
	stream_close(&e->s);		/* twice is once */
	free(e->got);
}

static void
pair(struct side *a, struct side *b, struct ev_loop *loop, size_t max)
{
	int fds[2];

	world_pair(SOCK_STREAM, fds);
	side_open(a, loop, fds[0], max);
	side_open(b, loop, fds[1], max);
}

/* Two TCP sockets of one connection: *accepted, and the one that dialled. */
static int
tcp_pair(int *accepted)
{
	int l = listen_tcp(WORLD_ADDR, 0), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in to = { .sin_family = AF_INET };
	socklen_t len = sizeof(to);

	ck_assert_int_ge(l, 0);
	ck_assert_int_eq(getsockname(l, (struct sockaddr *)&to, &len), 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, len), 0);
	/* The listening socket does not block: the connection may be a moment behind. */
	while ((*accepted = accept4(l, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) < 0)
		ck_assert_int_eq(errno, EAGAIN);
	close(l);
	ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

START_TEST(bytes_and_back_pressure)
{
	struct ev_loop *loop = world_loop();
	const size_t all = 5u << 20;
	struct side a, b;
	size_t put = 0, most = 0;

	pair(&a, &b, loop, all);
	for (unsigned turn = 0; turn < 100; turn++) {		/* nobody reads: the queue stays as it is */
		while (put < all && stream_queued(&a.s) < QUEUE_MAX) {
			uint8_t byte = (uint8_t)(put * 7 + put / 251);

			buf_put(&a.s.queue, &byte, 1);
			put++;
		}
		ck_assert(!a.s.queue.failed);
		(void)stream_flush(&a.s);
		ev_run(loop, EVRUN_NOWAIT);
	}
	ck_assert_uint_gt(stream_queued(&a.s), 0);
	ck_assert_uint_eq(b.len, 0);
	ck_assert_uint_lt(put, all);
	stream_watch(&b.s, STREAM_READ);
	while (b.len < all) {
		while (put < all && stream_queued(&a.s) < QUEUE_MAX) {
			uint8_t byte = (uint8_t)(put * 7 + put / 251);

			buf_put(&a.s.queue, &byte, 1);
			put++;
		}
		most = a.s.queue.cap > most ? a.s.queue.cap : most;
		(void)stream_flush(&a.s);
		ev_run(loop, EVRUN_NOWAIT);
	}
	for (size_t i = 0; i < all; i++)
		ck_assert_uint_eq(b.got[i], (uint8_t)(i * 7 + i / 251));
	ck_assert_uint_le(most, 2 * QUEUE_MAX);
	ck_assert_uint_eq(stream_queued(&a.s), 0);
	ck_assert_uint_eq(a.s.queue.cap, 0);			/* idle: no memory */
	side_done(&a);
	side_done(&b);
	ev_loop_destroy(loop);
}
END_TEST

START_TEST(an_end_is_no_cut)
{
	struct ev_loop *loop = world_loop();
	struct side a, b;

	pair(&a, &b, loop, 8);
	ck_assert_uint_eq(stream_write(&b.s, "last", 4), 4);
	ck_assert_int_eq(shutdown(b.s.fd, SHUT_WR), 0);
	stream_watch(&a.s, STREAM_READ);
	UNTIL(loop, a.s.state != STREAM_OPEN);
	ck_assert_int_eq(a.s.state, STREAM_ENDED);
	ck_assert_uint_eq(a.len, 4);
	ck_assert_uint_eq(stream_read(&a.s, a.got, 4), 0);
	/* The other direction goes on. */
	ck_assert_uint_eq(stream_write(&a.s, "yes", 3), 3);
	ck_assert_uint_eq(stream_read(&b.s, b.got, 4), 3);
	side_done(&a);
	side_done(&b);
	ev_loop_destroy(loop);
}
END_TEST

START_TEST(a_cut_is_no_end)
{
	struct ev_loop *loop = world_loop();
	const struct linger reset = { 1, 0 };
	struct side a;
	int accepted, fd = tcp_pair(&accepted);

	side_open(&a, loop, accepted, 4);
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
	close(fd);
	stream_watch(&a.s, STREAM_READ);
	UNTIL(loop, a.s.state != STREAM_OPEN);
	ck_assert_int_eq(a.s.state, STREAM_CUT);
	ck_assert_int_eq(a.s.error, ECONNRESET);
	ck_assert_uint_eq(stream_write(&a.s, "x", 1), 0);
	ck_assert_uint_eq(stream_read(&a.s, a.got, 1), 0);
	side_done(&a);
	ev_loop_destroy(loop);
}
END_TEST

START_TEST(dialling)
{
	struct ev_loop *loop = world_loop();
	union addr_sock to = { .any.sa_family = AF_INET }, none = { .any.sa_family = AF_UNSPEC };
	socklen_t len = sizeof(to);
	struct side a = { .max = 1, .got = malloc(1) };
	int l = listen_tcp(WORLD_ADDR, 0);

	ck_assert_int_eq(getsockname(l, &to.any, &len), 0);
	stream_dial(&a.s, loop, &to, on_ready, QUEUE_MAX);
	buf_puts(&a.s.queue, "early");				/* leaves when it is connected */
	UNTIL(loop, a.s.state != STREAM_CONNECTING);
	ck_assert_int_eq(a.s.state, STREAM_OPEN);
	ck_assert_uint_eq(stream_queued(&a.s), 0);
	stream_close(&a.s);
	close(l);
	/* Nobody listens; and no socket at all: told from the loop, both. */
	stream_dial(&a.s, loop, &to, on_ready, QUEUE_MAX);
	a.writes = 0;
	UNTIL(loop, a.s.state != STREAM_CONNECTING);
	ck_assert_int_eq(a.s.state, STREAM_CUT);
	ck_assert_int_eq(a.s.error, ECONNREFUSED);
	stream_close(&a.s);
	a.writes = 0;
	stream_dial(&a.s, loop, &none, on_ready, QUEUE_MAX);
	buf_puts(&a.s.queue, "never");				/* there is no socket that could be watched for room */
	stream_watch(&a.s, 0);
	ck_assert_uint_eq(stream_flush(&a.s), 0);
	ck_assert_uint_eq(a.writes, 0);
	ev_run(loop, EVRUN_NOWAIT);
	ck_assert_uint_eq(a.writes, 1);
	ck_assert_int_eq(a.s.state, STREAM_CUT);
	ck_assert_int_eq(a.s.error, EAFNOSUPPORT);
	side_done(&a);
	ev_loop_destroy(loop);
}
END_TEST

START_TEST(deadlines_and_wakes)
{
	struct ev_loop *loop = world_loop();
	struct side a, b;

	pair(&a, &b, loop, 1);
	stream_deadline(&a.s, 0);
	UNTIL(loop, a.lates > 0);
	for (int i = 0; i < 3; i++)
		ev_run(loop, EVRUN_NOWAIT);
	ck_assert_uint_eq(a.lates, 1);
	stream_deadline(&a.s, 0);
	stream_deadline(&a.s, -1);
	for (int i = 0; i < 3; i++)
		ev_run(loop, EVRUN_NOWAIT);
	ck_assert_uint_eq(a.lates, 1);
	/* It comes though nothing is watched, and though what is watched changes before. */
	stream_wake(&a.s);
	stream_wake(&a.s);
	stream_watch(&a.s, STREAM_READ);
	ck_assert_uint_eq(a.wakes, 0);
	ev_run(loop, EVRUN_NOWAIT);
	ck_assert_uint_eq(a.wakes, 1);
	/* Nor does another event that waits take its place. */
	a.writes = 0;
	ev_feed_event(loop, &a.s.io, EV_WRITE);
	stream_wake(&a.s);
	ev_run(loop, EVRUN_NOWAIT);
	ck_assert_uint_eq(a.wakes, 2);
	ck_assert_uint_eq(a.writes, 1);
	/* What is dropped is not waited for. */
	buf_puts(&a.s.queue, "dropped");
	stream_watch(&a.s, 0);
	stream_unqueue(&a.s);
	ck_assert(!ev_is_active(&a.s.io));
	side_done(&a);
	side_done(&b);
	ev_loop_destroy(loop);
}
END_TEST

START_TEST(lingering)
{
	struct ev_loop *loop = world_loop();
	static uint8_t noise[100000];
	struct side a;
	int accepted, fd = tcp_pair(&accepted);
	char answer[8];

	/* Unread bytes of the peer, and the answer: it gets that. */
	side_open(&a, loop, accepted, 1);
	ck_assert_int_eq(write(fd, noise, 1000), 1000);
	ck_assert_uint_eq(stream_write(&a.s, "answer", 6), 6);
	ck_assert(stream_linger(&a.s, WATCHDOG_S, sizeof(noise)));
	ck_assert_int_eq(write(fd, noise, 1000), 1000);
	for (int i = 0; i < 10; i++)
		ev_run(loop, EVRUN_NOWAIT);
	ck_assert_uint_eq(a.gones, 0);
	ck_assert_int_eq(read(fd, answer, sizeof(answer)), 6);
	close(fd);
	UNTIL(loop, a.gones > 0);
	side_done(&a);
	/* One that goes on sending; one that does nothing. */
	fd = tcp_pair(&accepted);
	side_open(&a, loop, accepted, 1);
	ck_assert(stream_linger(&a.s, WATCHDOG_S, 1000));
	ck_assert_int_eq(write(fd, noise, sizeof(noise)) > 1000, 1);
	UNTIL(loop, a.gones > 0);
	side_done(&a);
	close(fd);
	fd = tcp_pair(&accepted);
	side_open(&a, loop, accepted, 1);
	ck_assert(stream_linger(&a.s, 0, 1000));
	UNTIL(loop, a.gones > 0);
	side_done(&a);
	close(fd);
	/* The peer's end is there already: nothing to wait for. */
	fd = tcp_pair(&accepted);
	side_open(&a, loop, accepted, 1);
	close(fd);
	stream_watch(&a.s, STREAM_READ);
	UNTIL(loop, a.s.state != STREAM_OPEN);
	ck_assert(!stream_linger(&a.s, 1, 1000));
	side_done(&a);
	ev_loop_destroy(loop);
}
END_TEST

/* Turns each byte over, and keeps up to 3 of what it has read: the socket does not tell of these. */
struct mask {
	int fd;
	uint8_t kept[3];
	size_t n;
	bool said_end;
};

static ssize_t
mask_read(void *sealed, void *dst, size_t room)
{
	struct mask *m = sealed;
	ssize_t n = m->n == 0 ? recv(m->fd, m->kept, sizeof(m->kept), MSG_DONTWAIT) : (ssize_t)m->n;

	if (n == 0 && !m->said_end)
		errno = 0;
	if (n <= 0)
		return n == 0 && m->said_end ? 0 : -1;
	m->n = (size_t)n - 1;
	*(uint8_t *)dst = (uint8_t)~m->kept[0];
	memmove(m->kept, m->kept + 1, m->n);
	(void)room;
	return 1;
}

static ssize_t
mask_write(void *sealed, const void *src, size_t n)
{
	uint8_t turned = (uint8_t)~*(const uint8_t *)src;

	(void)n;
	return send(((struct mask *)sealed)->fd, &turned, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static bool
mask_pending(const void *sealed)
{
	return ((const struct mask *)sealed)->n > 0;
}

static const struct stream_seal mask = { mask_read, mask_write, mask_pending };

static void
on_sealed(struct stream *s, int events)
{
	struct side *e = (struct side *)(void *)((char *)s - offsetof(struct side, s));

	if ((events & STREAM_READ) != 0)
		e->len += stream_read(s, e->got + e->len, e->max - e->len);
	if (s->state == STREAM_OPEN)
		stream_watch(s, STREAM_READ);
}

START_TEST(seals)
{
	struct ev_loop *loop = world_loop();
	struct side a, b;
	struct mask of_a, of_b;

	for (int said = 0; said < 2; said++) {
		pair(&a, &b, loop, 11);
		of_a = (struct mask){ .fd = a.s.fd };
		of_b = (struct mask){ .fd = b.s.fd, .said_end = said == 1 };
		stream_set_seal(&a.s, &mask, &of_a);
		stream_set_seal(&b.s, &mask, &of_b);
		b.s.ready = on_sealed;
		buf_puts(&a.s.queue, "hello world");
		ck_assert_uint_eq(stream_flush(&a.s), 11);
		stream_watch(&b.s, STREAM_READ);
		UNTIL(loop, b.len == b.max);
		ck_assert_mem_eq(b.got, "hello world", 11);
		stream_close(&a.s);
		b.len = 0;
		UNTIL(loop, b.s.state != STREAM_OPEN);
		/* What the seal does not confirm is no end. */
		ck_assert_int_eq(b.s.state, said ? STREAM_ENDED : STREAM_CUT);
		ck_assert_int_eq(b.s.error, 0);
		side_done(&a);
		side_done(&b);
	}
	ev_loop_destroy(loop);
}
END_TEST

/* 0: at bytes; 1: late; 2: woken; 3: at the end of lingering. */
START_TEST(freed_within)
{
	struct ev_loop *loop = world_loop();
	struct side *a = calloc(1, sizeof(*a));
	int fds[2];

	world_pair(SOCK_STREAM, fds);
	stream_open(&a->s, loop, fds[0], on_ready, QUEUE_MAX);
	a->close_in = true;
	a->self = &a;
	stream_watch(&a->s, STREAM_READ);
	if (_i == 0)
		ck_assert_int_eq(write(fds[1], "x", 1), 1);
	else if (_i == 1)
		stream_deadline(&a->s, 0);
	else if (_i == 2)
		stream_wake(&a->s);
	else
		ck_assert(stream_linger(&a->s, 0, 1));
	UNTIL(loop, a == NULL);
	ck_assert_int_eq(fcntl(fds[0], F_GETFD), -1);
	close(fds[1]);
	ev_loop_destroy(loop);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("net_stream");
	TCase *tc = tcase_create("stream");
	SRunner *sr;
	int failed;

	tcase_add_test(tc, bytes_and_back_pressure);
	tcase_add_test(tc, an_end_is_no_cut);
	tcase_add_test(tc, a_cut_is_no_end);
	tcase_add_test(tc, dialling);
	tcase_add_test(tc, deadlines_and_wakes);
	tcase_add_test(tc, lingering);
	tcase_add_test(tc, seals);
	tcase_add_loop_test(tc, freed_within, 0, 4);
	tcase_set_timeout(tc, 60);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed > 0;
}
