/* Channels in clear: echo on every carrier, batching, back pressure, bad frames, life and death. */
#include <sys/stat.h>

#include "common/net/msg.h"
#include "common/net/chan_int.h"
#include "tests/unit/chan_world.h"

static const size_t sizes[] = {
	0, 1, 15, 16, 17, 4079, 4080, 4081, 65519, 65520, 65535, 65536, 65537, 200000, 2 << 20,
};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* The two ends over carrier 0 (socketpair), 1 (unix path) or 2 (TCP). */
static struct listener *
connect_ends(int carrier, struct end *a, struct end *b, struct door *door)
{
	struct chan_conf conf = end_conf(a, "dialler");
	char path[108];
	int fds[2];

	*door = (struct door){ .e = b, .conf = end_conf(b, "door") };
	if (carrier == 0) {
		world_pair(SOCK_STREAM, fds);
		a->c = chan_new(fds[0], &conf);
		b->c = chan_new(fds[1], &door->conf);
		return NULL;
	}
	if (carrier == 1) {
		int fd = listen_unix(world_path(path, sizeof(path)), 0600, (gid_t)-1);

		ck_assert_int_ge(fd, 0);
		door->l = listener_new(a->loop, fd, 1, door_accept, door);
		a->c = chan_dial_unix(path, &conf);
		unlink(path);
	} else {
		int fd = listen_tcp(WORLD_ADDR, 0);

		ck_assert_int_ge(fd, 0);
		door->l = listener_new(a->loop, fd, 1, door_accept, door);
		a->c = chan_dial_tcp(WORLD_ADDR, world_port(fd), &conf);
	}
	ck_assert_ptr_nonnull(a->c);
	return door->l;
}

START_TEST(echo)
{
	struct ev_loop *loop = world_loop();
	struct end a, b;
	struct door door;
	struct listener *l;
	uint8_t *body = malloc(2 << 20);
	size_t total = 0;

	for (size_t i = 0; i < 2 << 20; i++)
		body[i] = (uint8_t)(i * 7 + i / 251);
	end_init(&a, loop);
	end_init(&b, loop);
	b.echo = true;
	l = connect_ends(_i, &a, &b, &door);
	for (size_t i = 0; i < SIZES; i++) {	/* before the channel is up: they wait */
		size_t n = sizes[i] > i ? sizes[i] - i : 0;

		ck_assert_int_eq(chan_send(a.c, MSG_OP, FRAME_MORE, 100 + i, span_of(body + i, n)), TV_OK);
		total += n;
	}
	UNTIL(loop, a.frames == SIZES);
	ck_assert_uint_eq(a.opens, 1);
	ck_assert_uint_eq(b.opens, 1);
	ck_assert_uint_eq(a.last.id, 100 + SIZES - 1);
	ck_assert_uint_eq(a.last.flags, FRAME_MORE | FRAME_REPLY);
	ck_assert_uint_eq(a.last.type, MSG_OP);
	ck_assert_uint_eq(a.got.len, total);
	for (size_t i = 0, at = 0; i < SIZES; i++) {
		size_t n = sizes[i] > i ? sizes[i] - i : 0;

		ck_assert(n == 0 || memcmp(a.got.data + at, body + i, n) == 0);
		at += n;
	}
	/* What the burst took is given back. */
	ck_assert_uint_eq(chan_pending(a.c), 0);
	ck_assert_uint_le(a.c->in.cap + a.c->out.cap, 2 * CHAN_KEEP_BYTES);
	ck_assert_uint_le(b.c->in.cap + b.c->out.cap, 2 * CHAN_KEEP_BYTES);
	end_done(&a);
	UNTIL(loop, b.closes == 1);
	ck_assert_int_eq(b.why, TV_ECLOSED);
	end_done(&b);
	listener_free(l);
	free(body);
	ev_loop_destroy(loop);
}
END_TEST

/* A sequenced-packet socket keeps the borders of writes: what one turn sends is one write. */
START_TEST(one_write_per_turn)
{
	struct ev_loop *loop = world_loop();
	struct end a;
	struct chan_conf conf;
	uint8_t packet[65536];
	int fds[2];

	end_init(&a, loop);
	conf = end_conf(&a, "one write");
	world_pair(SOCK_SEQPACKET, fds);
	a.c = chan_new(fds[0], &conf);
	UNTIL(loop, a.opens == 1);
	for (int i = 0; i < 1000; i++)
		ck_assert_int_eq(chan_send(a.c, MSG_OP, 0, 1, span_str("0123456789")), TV_OK);
	ck_assert_int_eq(recv(fds[1], packet, sizeof(packet), 0), -1);
	ev_run(loop, EVRUN_NOWAIT);
	ck_assert_int_eq(recv(fds[1], packet, sizeof(packet), 0), 1000 * 26);
	ck_assert_int_eq(recv(fds[1], packet, sizeof(packet), 0), -1);
	end_done(&a);
	close(fds[1]);
	ev_loop_destroy(loop);
}
END_TEST

static void
send_from_prepare(struct ev_loop *loop, ev_prepare *w, int revents)
{
	struct end *a = w->data;

	(void)revents;
	ev_prepare_stop(loop, w);
	ck_assert_int_eq(chan_send(a->c, MSG_OP, 0, 1, SPAN_NONE), TV_OK);
}

/* Sent after our own prepare watcher ran: the loop must not sleep on it. */
START_TEST(send_late_in_a_turn)
{
	struct ev_loop *loop = world_loop();
	struct end a, b;
	struct door door;
	ev_prepare late;

	end_init(&a, loop);
	end_init(&b, loop);
	connect_ends(0, &a, &b, &door);
	UNTIL(loop, a.opens == 1 && b.opens == 1);
	for (int prio = EV_MINPRI; prio <= EV_MAXPRI; prio++) {
		unsigned before = b.frames;

		ev_prepare_init(&late, send_from_prepare);
		ev_set_priority(&late, prio);
		late.data = &a;
		ev_prepare_start(loop, &late);
		UNTIL_QUIET(loop, b.frames == before + 1);
	}
	end_done(&a);
	end_done(&b);
	ev_loop_destroy(loop);
}
END_TEST

START_TEST(peer_does_not_read)
{
	struct ev_loop *loop = world_loop();
	struct end a;
	struct chan_conf conf;
	static uint8_t body[10000];
	enum tv_err err;
	int fds[2];

	end_init(&a, loop);
	conf = end_conf(&a, "deaf peer");
	conf.out_max = 1 << 20;
	world_pair(SOCK_STREAM, fds);
	a.c = chan_new(fds[0], &conf);
	UNTIL(loop, a.opens == 1);
	do {
		err = chan_send(a.c, MSG_OP, 0, 1, span_of(body, sizeof(body)));
		ck_assert_uint_le(chan_pending(a.c), conf.out_max + sizeof(body) + FRAME_HEAD_BYTES);
		ev_run(loop, EVRUN_NOWAIT);
	} while (err == TV_OK);
	ck_assert_int_eq(err, TV_ELIMIT);
	UNTIL(loop, a.closes == 1);
	ck_assert_int_eq(a.why, TV_ELIMIT);
	end_done(&a);
	close(fds[1]);
	ev_loop_destroy(loop);
}
END_TEST

/* What was sent up to a mark has left when the peer has taken that much, and not before. */
START_TEST(marks)
{
	struct ev_loop *loop = world_loop();
	struct end a;
	struct chan_conf conf;
	static uint8_t body[10000], taken[65536];
	uint64_t early, late;
	int fds[2];

	end_init(&a, loop);
	conf = end_conf(&a, "slow peer");
	conf.out_max = 8 << 20;
	world_pair(SOCK_STREAM, fds);
	a.c = chan_new(fds[0], &conf);
	ck_assert(chan_passed(a.c, chan_mark(a.c)));
	UNTIL(loop, a.opens == 1);
	ck_assert_int_eq(chan_send(a.c, MSG_OP, 0, 1, span_of(body, sizeof(body))), TV_OK);
	early = chan_mark(a.c);
	ck_assert(!chan_passed(a.c, early));
	UNTIL(loop, chan_passed(a.c, early));
	while (chan_pending(a.c) == 0) {		/* until the socket is full */
		ck_assert_int_eq(chan_send(a.c, MSG_OP, 0, 1, span_of(body, sizeof(body))), TV_OK);
		chan_flush(a.c);
	}
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(chan_send(a.c, MSG_OP, 0, 1, span_of(body, sizeof(body))), TV_OK);
	late = chan_mark(a.c);
	chan_flush(a.c);
	ck_assert(chan_passed(a.c, early) && !chan_passed(a.c, late));
	ck_assert_int_eq(chan_send(a.c, MSG_OP, 0, 1, span_of(body, sizeof(body))), TV_OK);
	while (chan_pending(a.c) > sizeof(body) + FRAME_HEAD_BYTES) {
		ck_assert(!chan_passed(a.c, late));
		ck_assert_int_gt(read(fds[1], taken, sizeof(taken)), 0);
		ev_run(loop, EVRUN_NOWAIT);
	}
	ck_assert(chan_passed(a.c, late));
	end_done(&a);
	close(fds[1]);
	ev_loop_destroy(loop);
}
END_TEST

/* A burst above out_max within one turn is no fault of a peer that reads. */
START_TEST(burst_is_written_early)
{
	struct ev_loop *loop = world_loop();
	struct end a;
	struct chan_conf conf;
	static uint8_t body[10000], sink[1 << 20];
	size_t got = 0;
	int fds[2];

	end_init(&a, loop);
	conf = end_conf(&a, "burst");
	conf.out_max = 512 << 10;
	world_pair(SOCK_STREAM, fds);
	a.c = chan_new(fds[0], &conf);
	UNTIL(loop, a.opens == 1);
	for (int i = 0; i < 500; i++) {
		ssize_t n;

		ck_assert_int_eq(chan_send(a.c, MSG_OP, 0, 1, span_of(body, sizeof(body))), TV_OK);
		if (chan_pending(a.c) > conf.out_max / 2)
			world_settle(loop);	/* the socket is full: its turn */
		while ((n = recv(fds[1], sink, sizeof(sink), 0)) > 0)
			got += (size_t)n;
	}
	while (got < 500 * (sizeof(body) + FRAME_HEAD_BYTES)) {
		ssize_t n = recv(fds[1], sink, sizeof(sink), 0);

		if (n > 0)
			got += (size_t)n;
		ev_run(loop, EVRUN_NOWAIT);
	}
	ck_assert_uint_eq(got, 500 * (sizeof(body) + FRAME_HEAD_BYTES));
	ck_assert_uint_eq(a.closes, 0);
	end_done(&a);
	close(fds[1]);
	ev_loop_destroy(loop);
}
END_TEST

START_TEST(pause_and_resume)
{
	struct ev_loop *loop = world_loop();
	struct end a, b;
	struct door door;
	static const char text[] = "abcdefghij";

	end_init(&a, loop);
	end_init(&b, loop);
	b.pause_each = true;
	connect_ends(0, &a, &b, &door);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(chan_send(a.c, MSG_OP, 0, 1, span_of(text + i, 1)), TV_OK);
	for (unsigned i = 1; i <= 10; i++) {
		UNTIL(loop, b.frames == i);
		world_settle(loop);
		ck_assert_uint_eq(b.frames, i);	/* not one more while paused */
		chan_pause(b.c, false);
	}
	ck_assert_mem_eq(b.got.data, text, 10);
	b.pause_each = false;
	ck_assert_int_eq(chan_send(a.c, MSG_OP, 0, 1, span_of("k", 1)), TV_OK);
	UNTIL(loop, b.frames == 11);
	end_done(&a);
	end_done(&b);
	ev_loop_destroy(loop);
}
END_TEST

/* Raw bytes into a channel; how it ended.  The peer stays open. */
static struct end
feed(const void *bytes, size_t n, enum tv_err answer)
{
	struct ev_loop *loop = world_loop();
	struct end a, result;
	struct chan_conf conf;
	int fds[2];

	end_init(&a, loop);
	a.answer = answer;
	conf = end_conf(&a, "fed");
	conf.body_max = 1000;
	world_pair(SOCK_STREAM, fds);
	a.c = chan_new(fds[0], &conf);
	UNTIL(loop, a.opens == 1);
	ck_assert_int_eq(send(fds[1], bytes, n, 0), (ssize_t)n);
	world_settle(loop);
	result = a;
	end_done(&a);
	close(fds[1]);
	ev_loop_destroy(loop);
	return result;
}

START_TEST(bad_frames)
{
	static const uint8_t largest[16 + 1000] = { 0xe8, 3 }, above[16] = { 0xe9, 3 };
	static const uint8_t four_gb[16] = { 0xff, 0xff, 0xff, 0xff };
	static const uint8_t negative[16] = { 0, 0, 0, 0x80 }, noise[16] = "TVn1\1\1\1abcdefgh";
	struct end e;

	e = feed(largest, sizeof(largest), TV_OK);
	ck_assert(e.frames == 1 && e.closes == 0);
	e = feed(largest, sizeof(largest) - 1, TV_OK);
	ck_assert(e.frames == 0 && e.closes == 0);
	e = feed(above, sizeof(above), TV_OK);
	ck_assert(e.frames == 0 && e.closes == 1 && e.why == TV_ELIMIT);
	e = feed(four_gb, sizeof(four_gb), TV_OK);
	ck_assert(e.frames == 0 && e.closes == 1 && e.why == TV_ELIMIT);
	e = feed(negative, sizeof(negative), TV_OK);
	ck_assert(e.frames == 0 && e.closes == 1 && e.why == TV_ELIMIT);
	e = feed(noise, sizeof(noise), TV_OK);		/* an encrypted link at a port in clear */
	ck_assert(e.frames == 0 && e.closes == 1 && e.why == TV_EFORMAT);
	e = feed(largest, sizeof(largest), TV_EFORMAT);	/* the handler refuses the body */
	ck_assert(e.frames == 1 && e.closes == 1 && e.why == TV_EFORMAT);
}
END_TEST

/* A bad channel dies alone (S206). */
START_TEST(others_live)
{
	struct ev_loop *loop = world_loop();
	struct end a, b, bad;
	struct chan_conf conf;
	struct door door;
	int fds[2];

	end_init(&a, loop);
	end_init(&b, loop);
	end_init(&bad, loop);
	b.echo = true;
	connect_ends(0, &a, &b, &door);
	conf = end_conf(&bad, "bad");
	world_pair(SOCK_STREAM, fds);
	bad.c = chan_new(fds[0], &conf);
	ck_assert_int_eq(send(fds[1], "\xff\xff\xff\xff            ", 16, 0), 16);
	ck_assert_int_eq(chan_send(a.c, MSG_OP, 0, 1, span_str("x")), TV_OK);
	UNTIL(loop, bad.closes == 1 && a.frames == 1);
	ck_assert_uint_eq(a.closes + b.closes, 0);
	end_done(&a);
	end_done(&b);
	close(fds[1]);
	ev_loop_destroy(loop);
}
END_TEST

START_TEST(end_of_input_in_a_frame)
{
	struct ev_loop *loop = world_loop();
	struct end a;
	struct chan_conf conf;
	int fds[2];

	end_init(&a, loop);
	conf = end_conf(&a, "cut");
	world_pair(SOCK_STREAM, fds);
	a.c = chan_new(fds[0], &conf);
	ck_assert_int_eq(send(fds[1], "\x05\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0abcd", 20, 0), 20);
	close(fds[1]);
	UNTIL(loop, a.closes == 1);
	ck_assert_uint_eq(a.frames, 0);
	ck_assert_int_eq(a.why, TV_ECLOSED);
	end_done(&a);
	ev_loop_destroy(loop);
}
END_TEST

/* What was sent before chan_close still arrives. */
START_TEST(close_flushes)
{
	struct ev_loop *loop = world_loop();
	struct end a, b;
	struct door door;

	end_init(&a, loop);
	end_init(&b, loop);
	connect_ends(0, &a, &b, &door);
	UNTIL(loop, a.opens == 1 && b.opens == 1);
	ck_assert_int_eq(chan_send(a.c, MSG_OP, 0, 1, span_str("bye")), TV_OK);
	chan_close(a.c, TV_EPERM);
	chan_close(a.c, TV_EFORMAT);		/* the first reason stays */
	ck_assert_int_eq(chan_send(a.c, MSG_OP, 0, 1, span_str("late")), TV_ECLOSED);
	ck_assert_ptr_null(chan_begin(a.c, MSG_OP, 0, 1));
	ck_assert_uint_eq(a.closes, 0);		/* from the loop, not from here */
	UNTIL(loop, a.closes == 1 && b.closes == 1);
	ck_assert_int_eq(a.why, TV_EPERM);
	ck_assert_uint_eq(b.got.len, 3);
	/* And before chan_free, without on_close. */
	end_done(&a);
	end_done(&b);
	end_init(&a, loop);
	end_init(&b, loop);
	connect_ends(0, &a, &b, &door);
	UNTIL(loop, a.opens == 1 && b.opens == 1);
	ck_assert_int_eq(chan_send(a.c, MSG_OP, 0, 1, span_str("bye")), TV_OK);
	end_done(&a);
	UNTIL(loop, b.closes == 1);
	ck_assert_uint_eq(b.got.len, 3);
	ck_assert_uint_eq(a.closes, 0);
	end_done(&b);
	ev_loop_destroy(loop);
}
END_TEST

static enum tv_err
free_in_frame(void *ctx, struct chan *c, const struct frame *f)
{
	struct end *e = ctx;

	(void)f;
	e->frames++;
	chan_free(c);
	e->c = NULL;
	return TV_OK;
}

static void
free_in_open(void *ctx, struct chan *c)
{
	struct end *e = ctx;

	e->opens++;
	chan_free(c);
	e->c = NULL;
}

/* The owner may end a channel inside any of its callbacks; no second frame, no on_close. */
START_TEST(free_in_callbacks)
{
	static const struct chan_events frees[] = {
		{ free_in_frame, end_on_open, end_on_close }, { end_on_frame, free_in_open, end_on_close },
	};
	struct ev_loop *loop = world_loop();
	struct end a, b;
	struct chan_conf conf;
	int fds[2];

	end_init(&a, loop);
	end_init(&b, loop);
	world_pair(SOCK_STREAM, fds);
	conf = end_conf(&a, "a");
	a.c = chan_new(fds[0], &conf);
	conf = end_conf(&b, "b");
	conf.events = &frees[_i];
	b.c = chan_new(fds[1], &conf);
	ck_assert_int_eq(chan_send(a.c, MSG_OP, 0, 1, span_str("one")), TV_OK);
	ck_assert_int_eq(chan_send(a.c, MSG_OP, 0, 1, span_str("two")), TV_OK);
	UNTIL(loop, a.closes == 1);
	ck_assert_uint_eq(b.opens, 1);
	ck_assert_uint_eq(b.frames, _i == 0 ? 1 : 0);
	ck_assert_uint_eq(b.closes, 0);
	end_done(&a);
	end_done(&b);
	ev_loop_destroy(loop);
}
END_TEST

/* -- bodies that are kept -- */

#define KEPT 6

static struct {
	struct buf b[KEPT];
	struct span body[KEPT];
	unsigned count, given;		/* given: without a copy */
} kept;

static enum tv_err
keep(void *ctx, struct chan *c, const struct frame *f)
{
	struct end *e = ctx;
	struct span tail = span_of(f->body.p + 1, f->body.len - 1);

	(void)c;
	kept.body[kept.count] = chan_keep(tail, &kept.b[kept.count]);
	ck_assert_uint_eq(kept.body[kept.count].len, tail.len);
	kept.given += kept.body[kept.count].p == tail.p;
	/* A second time it is a copy. */
	if (kept.body[kept.count].p == tail.p) {
		struct buf again;

		ck_assert_ptr_ne(chan_keep(tail, &again).p, tail.p);
		buf_done(&again);
	}
	kept.count++;
	e->frames++;
	return TV_OK;
}

/* Large ones are handed over, small ones copied; the frames behind them are not lost. */
START_TEST(bodies_are_kept)
{
	static const struct chan_events keeps = { keep, end_on_open, end_on_close };
	static const size_t lens[KEPT] = { 10, 1 << 20, 300000, 20, 1 << 20, 5 };
	struct ev_loop *loop = world_loop();
	struct end a, b;
	struct chan_conf conf;
	uint8_t *body = malloc(1 << 20);
	int fds[2];

	memset(&kept, 0, sizeof(kept));
	end_init(&a, loop);
	end_init(&b, loop);
	world_pair(SOCK_STREAM, fds);
	conf = end_conf(&a, "a");
	a.c = chan_new(fds[0], &conf);
	conf = end_conf(&b, "b");
	conf.events = &keeps;
	conf.secret = _i == 1;
	b.c = chan_new(fds[1], &conf);
	for (unsigned i = 0; i < KEPT; i++) {
		memset(body, (int)i + 1, lens[i]);
		ck_assert_int_eq(chan_send(a.c, MSG_OP, 0, i, span_of(body, lens[i])), TV_OK);
	}
	UNTIL(loop, b.frames == KEPT);
	ck_assert_uint_ge(kept.given, 2);
	for (unsigned i = 0; i < KEPT; i++) {
		memset(body, (int)i + 1, lens[i]);
		ck_assert_uint_eq(kept.body[i].len, lens[i] - 1);
		ck_assert_int_eq(memcmp(kept.body[i].p, body, lens[i] - 1), 0);
		buf_done(&kept.b[i]);
	}
	ck_assert_uint_le(b.c->in.cap, CHAN_KEEP_BYTES);
	end_done(&a);
	end_done(&b);
	free(body);
	ev_loop_destroy(loop);
}
END_TEST

/* Bytes 10.. of memory of its own with n more, all alike. */
static struct buf
lent(size_t n, int fill)
{
	struct buf b = BUF_INIT(8 << 20);

	memset(buf_add(&b, n + 10), fill, n + 10);
	return b;
}

/* Memory that is taken over leaves in its turn, between frames of the buffer, and counts as theirs do. */
START_TEST(memory_is_taken_over)
{
	static const size_t lens[] = { 100, 300000, 0, 1 << 20, 70000, 500, 1 << 20 };
	const size_t count = sizeof(lens) / sizeof(lens[0]);
	struct ev_loop *loop = world_loop();
	struct end a, b;
	struct door door;
	struct buf memory, *out;
	size_t sum = 0, at = 0;
	uint64_t mark;

	end_init(&a, loop);
	end_init(&b, loop);
	connect_ends(0, &a, &b, &door);
	UNTIL(loop, a.opens == 1 && b.opens == 1);
	a.c->secret = _i == 1;
	mark = chan_mark(a.c);
	for (size_t i = 0; i < count; i++) {
		memory = lent(lens[i], (int)i + 1);
		out = chan_begin(a.c, MSG_OP, 0, i);
		buf_puts(out, "head");
		ck_assert_int_eq(chan_end_with(a.c, &memory, span_of(memory.data + 10, lens[i])), TV_OK);
		ck_assert(memory.data == NULL && memory.len == 0);
		ck_assert_int_eq(chan_send(a.c, MSG_OP, 0, 100 + i, span_str("between")), TV_OK);
		sum += lens[i] + 4 + 7 + 2 * FRAME_HEAD_BYTES;
		ck_assert_uint_eq(chan_mark(a.c), mark + sum);
	}
	ck_assert_uint_gt(chan_pending(a.c), 1 << 20);	/* the socket takes less */
	ck_assert_uint_le(a.c->out.cap, 64 << 10);	/* and they were not copied */
	ck_assert(!chan_passed(a.c, chan_mark(a.c)));
	UNTIL(loop, b.frames == 2 * count);
	ck_assert_uint_eq(chan_pending(a.c), 0);
	ck_assert(chan_passed(a.c, mark + sum) && !chan_passed(a.c, mark + sum + 1));
	for (size_t i = 0; i < count; i++) {
		ck_assert_int_eq(memcmp(b.got.data + at, "head", 4), 0);
		for (size_t k = 0; k < lens[i]; k++)
			ck_assert_uint_eq(b.got.data[at + 4 + k], i + 1);
		at += 4 + lens[i];
		ck_assert_int_eq(memcmp(b.got.data + at, "between", 7), 0);
		at += 7;
	}
	ck_assert_uint_eq(at, b.got.len);
	end_done(&a);
	end_done(&b);
	ev_loop_destroy(loop);
}
END_TEST

/* A body that is too large in all, and a channel that closes while pieces wait, or was closed before. */
START_TEST(memory_of_bad_frames)
{
	struct ev_loop *loop = world_loop();
	struct end a, b;
	struct door door;
	struct buf memory;
	size_t before;

	end_init(&a, loop);
	end_init(&b, loop);
	connect_ends(0, &a, &b, &door);
	UNTIL(loop, a.opens == 1 && b.opens == 1);
	for (int i = 0; i < 3; i++) {
		memory = lent(1 << 20, 1);
		ck_assert_ptr_nonnull(chan_begin(a.c, MSG_OP, 0, 1));
		ck_assert_int_eq(chan_end_with(a.c, &memory, span_of(memory.data, 1 << 20)), TV_OK);
	}
	before = chan_pending(a.c);
	memory = BUF_INIT(FRAME_BODY_BYTES_MAX);
	ck_assert_ptr_nonnull(buf_room(&memory, FRAME_BODY_BYTES_MAX));
	buf_puts(chan_begin(a.c, MSG_OP, 0, 1), "one byte more");
	ck_assert_int_eq(chan_end_with(a.c, &memory, span_of(memory.data, FRAME_BODY_BYTES_MAX)), TV_ELIMIT);
	ck_assert_ptr_null(memory.data);
	ck_assert_uint_le(chan_pending(a.c), before);
	memory = lent(1 << 20, 1);
	ck_assert_ptr_null(chan_begin(a.c, MSG_OP, 0, 1));
	ck_assert_int_eq(chan_end_with(a.c, &memory, span_of(memory.data, 1 << 20)), TV_ECLOSED);
	ck_assert_ptr_null(memory.data);
	UNTIL(loop, a.closes == 1 && b.closes == 1);
	end_done(&a);
	end_done(&b);
	ev_loop_destroy(loop);
}
END_TEST

START_TEST(in_place_frames)
{
	struct ev_loop *loop = world_loop();
	struct end a, b;
	struct door door;
	struct buf *out;

	end_init(&a, loop);
	end_init(&b, loop);
	connect_ends(0, &a, &b, &door);
	out = chan_begin(a.c, MSG_OP, FRAME_MORE, 77);
	buf_puts(out, "in ");
	buf_puts(out, "place");
	ck_assert_int_eq(chan_end(a.c), TV_OK);
	UNTIL(loop, b.frames == 1);
	ck_assert(span_eqs(buf_span(&b.got), "in place"));
	ck_assert(b.last.type == MSG_OP && b.last.flags == FRAME_MORE && b.last.id == 77);
	out = chan_begin(a.c, MSG_OP, 0, 78);
	out->failed = true;			/* a body that could not be encoded */
	ck_assert_int_eq(chan_end(a.c), TV_ELIMIT);
	UNTIL(loop, a.closes == 1 && b.closes == 1);
	ck_assert_uint_eq(b.frames, 1);
	end_done(&a);
	end_done(&b);
	ev_loop_destroy(loop);
}
END_TEST

START_TEST(names_and_credentials)
{
	struct ev_loop *loop = world_loop();
	struct end a, b;
	struct door door;
	struct listener *l = NULL;
	uid_t uid = 12345;
	pid_t pid = 0;

	end_init(&a, loop);
	end_init(&b, loop);
	l = connect_ends(_i, &a, &b, &door);
	UNTIL(loop, a.opens == 1 && b.opens == 1);
	if (_i < 2) {
		ck_assert_int_eq(chan_peercred(b.c, &uid, &pid), TV_OK);
		ck_assert_uint_eq(uid, getuid());
		ck_assert_int_eq(pid, getpid());
		ck_assert_str_eq(chan_peer(b.c), "unix");
	} else {
		ck_assert_int_eq(chan_peercred(b.c, &uid, &pid), TV_ESYS);
		ck_assert_ptr_nonnull(strstr(chan_peer(a.c), WORLD_ADDR ":"));
		ck_assert_ptr_nonnull(strstr(chan_peer(b.c), "127."));
	}
	end_done(&a);
	end_done(&b);
	listener_free(l);
	ev_loop_destroy(loop);
}
END_TEST

START_TEST(nobody_there)
{
	struct ev_loop *loop = world_loop();
	struct end a;
	struct chan_conf conf;
	char path[108];
	int fd = listen_tcp(WORLD_ADDR, 0);
	uint16_t port = world_port(fd);

	close(fd);
	end_init(&a, loop);
	conf = end_conf(&a, "nobody");
	ck_assert_ptr_null(chan_dial_unix(world_path(path, sizeof(path)), &conf));
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_ptr_null(chan_dial_tcp("not an address", 1, &conf));
	ck_assert_int_eq(errno, EINVAL);
	a.c = chan_dial_tcp(WORLD_ADDR, port, &conf);
	if (a.c != NULL) {
		UNTIL(loop, a.closes == 1);
		ck_assert_int_eq(a.why, TV_EUNREACH);
	}
	ck_assert_uint_eq(a.opens, 0);
	end_done(&a);
	ev_loop_destroy(loop);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("chan");
	TCase *t = tcase_create("chan");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, echo, 0, 3);
	tcase_add_test(t, one_write_per_turn);
	tcase_add_test(t, send_late_in_a_turn);
	tcase_add_test(t, peer_does_not_read);
	tcase_add_test(t, marks);
	tcase_add_test(t, burst_is_written_early);
	tcase_add_test(t, pause_and_resume);
	tcase_add_test(t, bad_frames);
	tcase_add_test(t, others_live);
	tcase_add_test(t, end_of_input_in_a_frame);
	tcase_add_test(t, close_flushes);
	tcase_add_loop_test(t, free_in_callbacks, 0, 2);
	tcase_add_loop_test(t, bodies_are_kept, 0, 2);
	tcase_add_loop_test(t, memory_is_taken_over, 0, 2);
	tcase_add_test(t, memory_of_bad_frames);
	tcase_add_test(t, in_place_frames);
	tcase_add_loop_test(t, names_and_credentials, 0, 3);
	tcase_add_test(t, nobody_there);
	suite_add_tcase(s, t);
	return world_main(s);
}
