/*
 * Channels with Noise underneath: both patterns, wrong keys, rotation, strangers, tampering, replay.
 * The test often sits between the two ends and passes the bytes on itself.
 */
#include <sodium.h>

#include "common/net/msg.h"
#include "common/net/chan_int.h"
#include "common/net/noise.h"
#include "tests/unit/chan_world.h"

#define PREAMBLE_BYTES 15
#define HELLO_BYTES (PREAMBLE_BYTES + 2 + 48)	/* the initiator's first flight */

static struct key old_key = { { 1 } }, new_key = { { 2 } };
static struct key_pair pairs[2] = { { .secret = { 8 } }, { .secret = { 16 } } };

/* Two ends, and a wire between them that the test holds by its ends (-1: they are connected directly). */
struct link {
	struct ev_loop *loop;
	struct end a, b;		/* initiator, responder */
	int wire_a, wire_b;
};

/* Of the links that link_open() makes. */
static struct {
	bool accept_clear;		/* the responder */
	unsigned psk;			/* the initiator */
	bool secret;
} opts;

static struct noise_conf
conf_of(enum noise_pattern pattern, const struct key *psks, unsigned count)
{
	return (struct noise_conf){
		.pattern = pattern, .psks = psks, .psk_count = count, .statics = pairs, .static_count = 1,
		.static_public = pairs[0].pub,
	};
}

static void
link_open(struct link *l, const struct noise_conf *na, const struct noise_conf *nb, bool held)
{
	struct chan_conf ca, cb;
	int one[2], two[2];

	*l = (struct link){ .loop = world_loop(), .wire_a = -1, .wire_b = -1 };
	end_init(&l->a, l->loop);
	end_init(&l->b, l->loop);
	ca = end_conf(&l->a, "initiator");
	cb = end_conf(&l->b, "responder");
	ca.noise = na;
	ca.initiator = true;
	ca.psk = opts.psk;
	cb.noise = nb;
	cb.accept_clear = opts.accept_clear;
	ca.secret = cb.secret = opts.secret;
	world_pair(SOCK_STREAM, one);
	if (held) {
		world_pair(SOCK_STREAM, two);
		l->wire_a = one[1];
		l->wire_b = two[1];
		one[1] = two[0];
	}
	l->a.c = chan_new(one[0], &ca);
	l->b.c = chan_new(one[1], &cb);
	ck_assert(l->a.c != NULL && l->b.c != NULL);
}

static void
link_close(struct link *l)
{
	end_done(&l->a);
	end_done(&l->b);
	if (l->wire_a >= 0)
		close(l->wire_a);
	if (l->wire_b >= 0)
		close(l->wire_b);
	ev_loop_destroy(l->loop);
}

/* Takes what waits on a wire end. */
static size_t
take(struct link *l, int fd, uint8_t *dst, size_t cap)
{
	ssize_t n;

	world_settle(l->loop);
	n = recv(fd, dst, cap, 0);
	return n > 0 ? (size_t)n : 0;
}

/* Passes everything on in both directions until nothing moves. */
static void
pass_on(struct link *l)
{
	uint8_t bytes[65536];
	size_t n, moved;

	do {
		moved = 0;
		if ((n = take(l, l->wire_a, bytes, sizeof(bytes))) > 0)
			moved += (size_t)send(l->wire_b, bytes, n, MSG_NOSIGNAL);
		if ((n = take(l, l->wire_b, bytes, sizeof(bytes))) > 0)
			moved += (size_t)send(l->wire_a, bytes, n, MSG_NOSIGNAL);
	} while (moved > 0);
}

/* Tries a handshake; how the two ends stand afterwards is in *l. */
static void
shake(struct link *l, const struct noise_conf *na, const struct noise_conf *nb)
{
	link_open(l, na, nb, false);
	UNTIL(l->loop, (l->a.opens == 1 && l->b.opens == 1) || (l->a.closes == 1 && l->b.closes == 1));
}

static void
expect_open(const struct noise_conf *na, const struct noise_conf *nb)
{
	struct link l;

	shake(&l, na, nb);
	ck_assert(l.a.closes == 0 && l.b.closes == 0);
	link_close(&l);
}

static void
expect_refused(const struct noise_conf *na, const struct noise_conf *nb, enum tv_err why)
{
	struct link l;

	shake(&l, na, nb);
	ck_assert(l.a.opens == 0 && l.b.opens == 0);
	ck_assert_int_eq(l.b.why, why);
	ck_assert_int_eq(l.a.why, TV_ECLOSED);
	link_close(&l);
}

/* -- secrets -- */

#define SECRET_BYTES 24

/* Where these bytes begin, inverted, in n bytes: how often. */
static unsigned
found_in(const uint8_t *bytes, size_t n, const uint8_t inverted[SECRET_BYTES])
{
	unsigned found = 0;

	for (size_t i = 0; i + SECRET_BYTES <= n; i++) {
		size_t k = 0;

		while (k < SECRET_BYTES && (bytes[i + k] ^ inverted[k]) == 0xff)
			k++;
		found += k == SECRET_BYTES;
	}
	return found;
}

/* How often the bytes are anywhere in the memory of this process. */
static unsigned
found_in_memory(const uint8_t inverted[SECRET_BYTES])
{
	static uint8_t piece[1 << 20];
	FILE *maps = fopen("/proc/self/maps", "r");
	int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	unsigned long start, end;
	char line[512], mode[5];
	unsigned found = 0, read_from = 0;

	ck_assert(maps != NULL && mem != -1);
	while (fgets(line, sizeof(line), maps) != NULL) {
		if (sscanf(line, "%lx-%lx %4s", &start, &end, mode) != 3 || mode[0] != 'r' || end - start > 1ul << 30)
			continue;	/* a sanitizer's own */
		for (unsigned long at = start; at < end; at += sizeof(piece) - SECRET_BYTES) {
			ssize_t n = pread(mem, piece, end - at < sizeof(piece) ? end - at : sizeof(piece), (off_t)at);

			if (n <= 0)
				break;
			read_from++;
			found += found_in(piece, (size_t)n, inverted);
			memset(piece, 0, (size_t)n);
		}
	}
	fclose(maps);
	close(mem);
	ck_assert_uint_gt(read_from, 5);
	return found;
}

static void
send_secret(struct end *from, const uint8_t inverted[SECRET_BYTES], size_t count)
{
	struct buf *b = chan_begin(from->c, MSG_OP, 0, 1);

	for (size_t i = 0; i < count * SECRET_BYTES; i++)
		buf_u8(b, (uint8_t)~inverted[i % SECRET_BYTES]);
	ck_assert_int_eq(chan_end(from->c), TV_OK);
}

/* Sent, answered and read, alone and in large frames, in clear (0, 1) and sealed: a secret channel (1, 3) keeps no byte. */
START_TEST(nothing_of_a_secret_stays)
{
	struct noise_conf noise = conf_of(NOISE_NKPSK0, &old_key, 1), *conf = _i < 2 ? NULL : &noise;
	static const size_t counts[] = { 1, 2, 100, 1000, 9000, 1 };
	uint8_t inverted[SECRET_BYTES];
	struct link l;
	unsigned found;

	opts.secret = _i % 2 == 1;
	link_open(&l, conf, conf, false);
	opts.secret = false;
	l.a.got.secret = l.b.got.secret = true;
	l.b.echo = true;
	randombytes_buf(inverted, sizeof(inverted));
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		send_secret(&l.a, inverted, counts[i]);
		UNTIL(l.loop, l.a.frames == i + 1);
		ck_assert_uint_eq(found_in(l.a.got.data, l.a.got.len, inverted), counts[i]);
		buf_done(&l.a.got);
		buf_done(&l.b.got);
	}
	found = found_in_memory(inverted);
	ck_assert_msg(_i % 2 == 1 ? found == 0 : found > 0, "%u times", found);
	link_close(&l);
}
END_TEST

/* The psk of a link leaves the list, here and there: both ends know, and the link lives on. */
START_TEST(key_that_stands)
{
	struct key ring[2] = { new_key, old_key };
	struct noise_conf na = conf_of(NOISE_NKPSK0, ring, 2), nb = conf_of(NOISE_NKPSK0, ring, 2);
	struct link l;

	opts.psk = 1;
	link_open(&l, &na, &nb, true);
	ck_assert(chan_key_stands(l.a.c) && chan_key_stands(l.b.c));
	nb.psk_count = 1;
	ck_assert(chan_key_stands(l.b.c));	/* nothing was named yet */
	nb.psk_count = 2;
	pass_on(&l);
	ck_assert(l.a.opens == 1 && l.b.opens == 1);
	ck_assert(chan_key_stands(l.a.c) && chan_key_stands(l.b.c));
	na.psks = &ring[1];			/* at another place */
	na.psk_count = nb.psk_count = 1;
	ck_assert(chan_key_stands(l.a.c) && !chan_key_stands(l.b.c));
	na.psks = &ring[0];
	nb.psk_count = 0;
	ck_assert(!chan_key_stands(l.a.c) && !chan_key_stands(l.b.c));
	l.b.echo = true;
	ck_assert_int_eq(chan_send(l.a.c, MSG_OP, 0, 1, span_str("still there")), TV_OK);
	pass_on(&l);
	ck_assert_uint_eq(l.a.frames, 1);
	link_close(&l);
	link_open(&l, &na, &nb, true);		/* it was to dial with a key that the shorter list does not have */
	ck_assert(!chan_key_stands(l.a.c));
	link_close(&l);
	opts.psk = 0;
}
END_TEST

static const size_t sizes[] = { 0, 1, 100, 65503, 65504, 65519, 65520, 65535, 131038, 700000, 2 << 20 };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

START_TEST(echo)
{
	struct noise_conf n = conf_of(_i == 0 ? NOISE_NNPSK0 : NOISE_NKPSK0, &old_key, 1);
	uint8_t *body = malloc(2 << 20);
	size_t total = 0;
	struct link l;

	randombytes_buf_deterministic(body, 2 << 20, old_key.bytes);
	link_open(&l, &n, &n, false);
	l.b.echo = true;
	for (size_t i = 0; i < SIZES; i++) {
		size_t size = sizes[i] - (i == SIZES - 1 ? i : 0);

		ck_assert_int_eq(chan_send(l.a.c, MSG_OP, 0, i + 1, span_of(body + i, size)), TV_OK);
		total += size;
	}
	UNTIL(l.loop, l.a.frames == SIZES);
	ck_assert_uint_eq(l.a.got.len, total);
	for (size_t i = 0, at = 0; i < SIZES; i++) {
		size_t size = sizes[i] - (i == SIZES - 1 ? i : 0);

		ck_assert(size == 0 || memcmp(l.a.got.data + at, body + i, size) == 0);
		at += size;
	}
	ck_assert_uint_eq(chan_pending(l.a.c), 0);
	link_close(&l);
	free(body);
}
END_TEST

/* The memory of a frame is sealed where it is, a share of it in each turn. */
START_TEST(memory_in_turns)
{
	enum { BYTES = 6 << 20 };
	struct noise_conf n = conf_of(NOISE_NNPSK0, &old_key, 1);
	struct buf memory = BUF_INIT(BYTES);
	uint8_t *body = malloc(BYTES);
	size_t before, most = 0;
	struct link l;

	randombytes_buf_deterministic(body, BYTES, old_key.bytes);
	link_open(&l, &n, &n, false);
	l.b.c->body_max = BYTES;
	l.b.c->in.max = 2 * BYTES;
	buf_put(&memory, body, BYTES);
	ck_assert_ptr_nonnull(chan_begin(l.a.c, MSG_OP, 0, 1));
	ck_assert_int_eq(chan_end_with(l.a.c, &memory, span_of(memory.data, BYTES)), TV_OK);
	ck_assert_int_eq(chan_send(l.a.c, MSG_OP, 0, 2, span_str("behind")), TV_OK);
	while (l.b.frames < 2 && l.b.closes == 0) {
		before = chan_pending(l.a.c);
		ev_run(l.loop, EVRUN_NOWAIT);
		if (chan_pending(l.a.c) + most < before)
			most = before - chan_pending(l.a.c);
	}
	ck_assert_uint_gt(most, 0);
	ck_assert_uint_le(most, CHAN_FLUSH_BYTES_MAX + (256 << 10));
	ck_assert_uint_eq(l.b.got.len, BYTES + 6);
	ck_assert(memcmp(l.b.got.data, body, BYTES) == 0 && memcmp(l.b.got.data + BYTES, "behind", 6) == 0);
	link_close(&l);
	free(body);
}
END_TEST

/* Nothing of a frame is seen on the wire, and small frames share one sealed message. */
START_TEST(sealed_in_batches)
{
	struct noise_conf n = conf_of(NOISE_NNPSK0, &old_key, 1);
	static uint8_t bytes[200000];
	struct link l;
	size_t got;

	link_open(&l, &n, &n, true);
	pass_on(&l);
	ck_assert(l.a.opens == 1 && l.b.opens == 1);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(chan_send(l.a.c, MSG_OP, 0, 1, span_str("a secret phrase")), TV_OK);
	got = take(&l, l.wire_a, bytes, sizeof(bytes));
	ck_assert_uint_eq(got, 2 + 100 * (16 + 15) + NOISE_TAG_BYTES);
	ck_assert_ptr_null(memmem(bytes, got, "secret", 6));
	link_close(&l);
}
END_TEST

START_TEST(keys)
{
	struct noise_conf good = conf_of(NOISE_NNPSK0, &old_key, 1), bad = conf_of(NOISE_NNPSK0, &new_key, 1);
	struct noise_conf nk = conf_of(NOISE_NKPSK0, &old_key, 1), nk_bad = conf_of(NOISE_NKPSK0, &new_key, 1);
	struct noise_conf pinned = nk;

	expect_open(&good, &good);
	expect_refused(&bad, &good, TV_EAUTH);
	expect_open(&nk, &nk);
	expect_refused(&nk_bad, &nk, TV_EAUTH);
	pinned.static_public = pairs[1].pub;	/* the caller expects another server */
	expect_refused(&pinned, &nk, TV_EAUTH);
	expect_refused(&good, &nk, TV_EFORMAT);	/* another kind of link */
	expect_refused(&nk, &good, TV_EFORMAT);
}
END_TEST

/* server.key while it is replaced: a responder with two static keys is known by both, one with one by that alone. */
START_TEST(two_static_keys)
{
	struct key ring[2] = { old_key, new_key };
	struct noise_conf old = conf_of(NOISE_NKPSK0, &old_key, 1), new = old, both = conf_of(NOISE_NKPSK0, ring, 2);

	new.static_public = pairs[1].pub;
	new.statics = &pairs[1];
	both.static_count = 2;
	expect_open(&old, &both);
	expect_open(&new, &both);
	expect_open(&both, &old);
	expect_refused(&new, &old, TV_EAUTH);
	expect_refused(&old, &new, TV_EAUTH);
}
END_TEST

/* A responder takes any key of its ring; the initiator uses its first. */
START_TEST(rotation)
{
	struct key both[2] = { new_key, old_key }, swapped[2] = { old_key, new_key };
	struct noise_conf only_old = conf_of(NOISE_NKPSK0, &old_key, 1), only_new = conf_of(NOISE_NKPSK0, &new_key, 1);
	struct noise_conf ring = conf_of(NOISE_NKPSK0, both, 2), before = conf_of(NOISE_NKPSK0, swapped, 2);

	expect_open(&only_old, &before);	/* 1. the new key is added behind the old one everywhere */
	expect_open(&before, &only_old);
	expect_open(&ring, &before);		/* 2. then it becomes the first */
	expect_open(&before, &ring);
	expect_open(&only_new, &ring);		/* 3. then the old one is removed */
	expect_open(&ring, &only_new);
	expect_refused(&only_old, &only_new, TV_EAUTH);
}
END_TEST

/* The initiator may open with any key of its ring, and with none beyond it. */
START_TEST(another_key)
{
	struct key both[2] = { new_key, old_key };
	struct noise_conf ring = conf_of(NOISE_NKPSK0, both, 2), only_old = conf_of(NOISE_NKPSK0, &old_key, 1);
	struct link l;

	expect_refused(&ring, &only_old, TV_EAUTH);
	opts.psk = 1;
	expect_open(&ring, &only_old);
	opts.psk = 2;
	link_open(&l, &ring, &only_old, false);
	UNTIL(l.loop, l.a.closes == 1);
	ck_assert_int_eq(l.a.why, TV_EAUTH);
	link_close(&l);
	opts.psk = 0;
}
END_TEST

START_TEST(no_key)
{
	struct noise_conf none = conf_of(NOISE_NNPSK0, NULL, 0), good = conf_of(NOISE_NNPSK0, &old_key, 1);
	struct link l;

	shake(&l, &none, &good);
	ck_assert_int_eq(l.a.why, TV_EAUTH);
	link_close(&l);
	expect_refused(&good, &none, TV_EAUTH);
}
END_TEST

/* Bytes of a stranger at a responder: closed with `why`, and not one byte in answer. */
static void
stranger(const void *bytes, size_t n, enum tv_err why)
{
	struct noise_conf conf = conf_of(NOISE_NNPSK0, &old_key, 1);
	struct ev_loop *loop = world_loop();
	struct chan_conf c;
	struct end e;
	char answer[16];
	int fds[2];

	end_init(&e, loop);
	c = end_conf(&e, "port");
	c.noise = &conf;
	world_pair(SOCK_STREAM, fds);
	e.c = chan_new(fds[0], &c);
	ck_assert_int_eq(chan_send(e.c, MSG_OP, 0, 0, span_str("not for strangers")), TV_OK);
	ck_assert_int_eq(send(fds[1], bytes, n, 0), (ssize_t)n);
	UNTIL(loop, e.closes == 1);
	ck_assert_uint_eq(e.opens, 0);
	ck_assert_int_eq(e.why, why);
	ck_assert_int_le(recv(fds[1], answer, sizeof(answer), 0), 0);
	end_done(&e);
	close(fds[1]);
	ev_loop_destroy(loop);
}

START_TEST(strangers)
{
	uint8_t hello[HELLO_BYTES] = "TVn1\1\1\1";
	static const uint8_t frame[20] = { 4, 0, 0, 0, 1 };

	stranger(frame, sizeof(frame), TV_EFORMAT);		/* a peer in clear (S202) */
	stranger("\x16\x03\x01", 3, TV_EFORMAT);		/* TLS */
	stranger("GET / HTTP/1.1\r\n\r\n", 18, TV_EFORMAT);
	stranger("TVn2", 4, TV_EFORMAT);
	memset(hello + 7, 'k', KEY_ID_BYTES);
	stranger(hello, PREAMBLE_BYTES, TV_EAUTH);		/* unknown key */
	key_id(old_key.bytes, hello + 7);
	hello[PREAMBLE_BYTES] = 48;
	stranger(hello, HELLO_BYTES, TV_EAUTH);			/* forged message */
	hello[PREAMBLE_BYTES + 1] = 0xff;
	stranger(hello, HELLO_BYTES, TV_EFORMAT);		/* too long for a handshake: no memory for it */
	hello[PREAMBLE_BYTES] = hello[PREAMBLE_BYTES + 1] = 0;
	stranger(hello, HELLO_BYTES, TV_EFORMAT);
	hello[5] = 2, hello[6] = 9;
	stranger(hello, PREAMBLE_BYTES, TV_EFORMAT);		/* only versions to come */
	hello[5] = 1, hello[6] = 0;
	stranger(hello, PREAMBLE_BYTES, TV_EFORMAT);
}
END_TEST

/* A newer initiator offers more versions: the common one is taken.  The preamble is bound into the keys. */
START_TEST(versions)
{
	struct noise_conf n = conf_of(NOISE_NNPSK0, &old_key, 1);
	uint8_t hello[HELLO_BYTES], answer[64];
	struct link l;

	link_open(&l, &n, &n, true);
	ck_assert_uint_eq(take(&l, l.wire_a, hello, sizeof(hello)), HELLO_BYTES);
	hello[6] = 9;			/* on the way: somebody changes the offer */
	ck_assert_int_eq(send(l.wire_b, hello, HELLO_BYTES, 0), HELLO_BYTES);
	UNTIL(l.loop, l.b.closes == 1);
	ck_assert_int_eq(l.b.why, TV_EAUTH);
	ck_assert_uint_eq(take(&l, l.wire_b, answer, sizeof(answer)), 0);
	link_close(&l);
}
END_TEST

/* Keys on one side only: each side refuses, with a reason of its own (S202). */
START_TEST(one_side_in_clear)
{
	struct noise_conf n = conf_of(NOISE_NNPSK0, &old_key, 1);
	struct link l;

	link_open(&l, &n, NULL, false);
	UNTIL(l.loop, l.a.closes == 1 && l.b.closes == 1);
	ck_assert(l.a.opens == 0 && l.b.frames == 0);
	ck_assert_int_eq(l.a.why, TV_ECLOSED);
	ck_assert_int_eq(l.b.why, TV_EFORMAT);
	link_close(&l);
	link_open(&l, NULL, &n, false);
	ck_assert_int_eq(chan_send(l.a.c, MSG_OP, 0, 0, span_str("hello")), TV_OK);
	UNTIL(l.loop, l.a.closes == 1 && l.b.closes == 1);
	ck_assert_uint_eq(l.b.opens, 0);
	ck_assert_int_eq(l.b.why, TV_EFORMAT);
	link_close(&l);
}
END_TEST

/* While encryption is rolled in, a port takes both; the length of the frame may begin as the preamble does. */
START_TEST(both_are_taken)
{
	struct noise_conf n = conf_of(NOISE_NNPSK0, &old_key, 1);
	static const size_t bodies[] = { 0, 5, 'T', 'T' - 16, 70000 };
	static uint8_t bytes[100000];
	struct link l;
	size_t len;

	opts.accept_clear = true;
	expect_open(&n, &n);
	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		link_open(&l, NULL, &n, true);
		ck_assert_int_eq(chan_send(l.a.c, MSG_OP, 0, 1, span_of(bytes, bodies[i])), TV_OK);
		len = take(&l, l.wire_a, bytes, sizeof(bytes));
		ck_assert_uint_eq(l.b.opens, 0);
		for (size_t at = 0; at < len; at += at < 30 ? 1 : 8192) {
			size_t n_bytes = at < 30 ? 1 : len - at < 8192 ? len - at : 8192;

			ck_assert_int_eq(send(l.wire_b, bytes + at, n_bytes, 0), (ssize_t)n_bytes);
			world_settle(l.loop);
		}
		UNTIL(l.loop, l.b.frames == 1);
		ck_assert(l.b.opens == 1 && l.b.closes == 0 && l.b.got.len == bodies[i]);
		ck_assert_int_eq(chan_send(l.b.c, MSG_OP, 0, 2, span_str("answer")), TV_OK);
		pass_on(&l);
		ck_assert(l.a.frames == 1 && l.a.got.len == 6);
		link_close(&l);
	}
	link_open(&l, NULL, &n, true);			/* a stranger: neither nor */
	ck_assert_int_eq(send(l.wire_b, "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
	UNTIL(l.loop, l.b.closes == 1);
	ck_assert_uint_eq(l.b.frames, 0);
	link_close(&l);
	opts.accept_clear = false;
}
END_TEST

START_TEST(silence)
{
	struct noise_conf n = conf_of(NOISE_NNPSK0, &old_key, 1);
	struct ev_loop *loop = world_loop();
	struct chan_conf conf;
	struct end e;
	int fds[2];

	end_init(&e, loop);
	conf = end_conf(&e, "port");
	conf.noise = &n;
	conf.initiator = _i == 1;
	conf.open_timeout = MONO_MS(20);
	world_pair(SOCK_STREAM, fds);
	e.c = chan_new(fds[0], &conf);
	if (_i == 0)
		ck_assert_int_eq(send(fds[1], "TVn", 3, 0), 3);		/* and then nothing */
	UNTIL(loop, e.closes == 1);
	ck_assert_int_eq(e.why, TV_ETIMEOUT);
	ck_assert_uint_eq(e.opens, 0);
	end_done(&e);
	close(fds[1]);
	ev_loop_destroy(loop);
}
END_TEST

/* One bit of a transport message changed on the way. */
START_TEST(tampered)
{
	struct noise_conf n = conf_of(NOISE_NNPSK0, &old_key, 1);
	uint8_t bytes[256];
	struct link l;
	size_t len;

	link_open(&l, &n, &n, true);
	pass_on(&l);
	ck_assert(l.a.opens == 1 && l.b.opens == 1);
	ck_assert_int_eq(chan_send(l.a.c, MSG_OP, 0, 1, span_str("pay 1 to bob")), TV_OK);
	len = take(&l, l.wire_a, bytes, sizeof(bytes));
	ck_assert_uint_eq(len, 2 + 16 + 12 + NOISE_TAG_BYTES);
	bytes[2 + _i % (int)(len - 2)] ^= 4;
	ck_assert_int_eq(send(l.wire_b, bytes, len, 0), (ssize_t)len);
	UNTIL(l.loop, l.b.closes == 1);
	ck_assert_int_eq(l.b.why, TV_EAUTH);
	ck_assert_uint_eq(l.b.frames, 0);
	link_close(&l);
}
END_TEST

/* The same transport message twice; and bytes that are no message at all (S200). */
START_TEST(replayed_message)
{
	struct noise_conf n = conf_of(NOISE_NKPSK0, &old_key, 1);
	uint8_t bytes[256];
	struct link l;
	size_t len;

	link_open(&l, &n, &n, true);
	pass_on(&l);
	ck_assert_int_eq(chan_send(l.a.c, MSG_OP, 0, 1, span_str("once")), TV_OK);
	len = take(&l, l.wire_a, bytes, sizeof(bytes));
	ck_assert_int_eq(send(l.wire_b, bytes, len, 0), (ssize_t)len);
	UNTIL(l.loop, l.b.frames == 1);
	if (_i == 1)
		memset(bytes, 0, len);		/* a length that no message has */
	ck_assert_int_eq(send(l.wire_b, bytes, len, 0), (ssize_t)len);
	UNTIL(l.loop, l.b.closes == 1);
	ck_assert_int_eq(l.b.why, _i == 1 ? TV_EFORMAT : TV_EAUTH);
	ck_assert_uint_eq(l.b.frames, 1);
	link_close(&l);
}
END_TEST

/* A whole recorded session, played to a fresh responder: it never opens, no frame gets in. */
START_TEST(replayed_session)
{
	struct noise_conf n = conf_of(NOISE_NNPSK0, &old_key, 1);
	uint8_t record[1024], answer[256];
	size_t len, n_answer;
	struct link l;

	link_open(&l, &n, &n, true);
	len = take(&l, l.wire_a, record, sizeof(record));
	ck_assert_uint_eq(len, HELLO_BYTES);
	ck_assert_int_eq(send(l.wire_b, record, len, 0), (ssize_t)len);
	n_answer = take(&l, l.wire_b, answer, sizeof(answer));
	ck_assert_uint_gt(n_answer, 0);
	ck_assert_uint_eq(l.b.opens, 0);	/* message 1 alone proves nothing */
	ck_assert_int_eq(send(l.wire_a, answer, n_answer, 0), (ssize_t)n_answer);
	ck_assert_int_eq(chan_send(l.a.c, MSG_OP, 0, 1, span_str("do it")), TV_OK);
	len += take(&l, l.wire_a, record + len, sizeof(record) - len);
	ck_assert_uint_eq(l.a.opens, 1);
	link_close(&l);

	link_open(&l, &n, &n, true);
	ck_assert_int_eq(send(l.wire_b, record, len, 0), (ssize_t)len);
	UNTIL(l.loop, l.b.closes == 1);
	ck_assert_int_eq(l.b.why, TV_EAUTH);
	ck_assert(l.b.opens == 0 && l.b.frames == 0);
	link_close(&l);
}
END_TEST

/* However the bytes are cut on the way, the same frames arrive. */
START_TEST(byte_by_byte)
{
	struct noise_conf n = conf_of(NOISE_NKPSK0, &old_key, 1);
	static uint8_t bytes[100000];
	struct link l;
	size_t len;

	link_open(&l, &n, &n, true);
	for (int round = 0; round < 3; round++) {
		len = take(&l, l.wire_a, bytes, sizeof(bytes));
		for (size_t i = 0; i < len; i++) {
			ck_assert_int_eq(send(l.wire_b, bytes + i, 1, 0), 1);
			ev_run(l.loop, EVRUN_NOWAIT);
		}
		len = take(&l, l.wire_b, bytes, sizeof(bytes));
		for (size_t i = 0; i < len; i++) {
			ck_assert_int_eq(send(l.wire_a, bytes + i, 1, 0), 1);
			ev_run(l.loop, EVRUN_NOWAIT);
		}
		if (round == 0)
			ck_assert_int_eq(chan_send(l.a.c, MSG_OP, 0, 1, span_of(bytes, 1000)), TV_OK);
	}
	ck_assert(l.a.opens == 1 && l.b.opens == 1);
	ck_assert(l.b.frames == 1 && l.b.got.len == 1000);
	link_close(&l);
}
END_TEST

START_TEST(pause_and_resume)
{
	struct noise_conf n = conf_of(NOISE_NNPSK0, &old_key, 1);
	struct link l;

	link_open(&l, &n, &n, false);
	l.b.pause_each = true;
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(chan_send(l.a.c, MSG_OP, 0, 1, span_str("x")), TV_OK);
	for (unsigned i = 1; i <= 10; i++) {
		UNTIL(l.loop, l.b.frames == i);
		world_settle(l.loop);
		ck_assert_uint_eq(l.b.frames, i);
		chan_pause(l.b.c, false);
	}
	link_close(&l);
}
END_TEST

/* Who says nothing is closed early, sealed or in clear; one byte gives it the time of a handshake. */
START_TEST(first_bytes)
{
	struct noise_conf n = conf_of(NOISE_NNPSK0, &old_key, 1);
	struct ev_loop *loop = world_loop();
	struct end mute, slow;
	int fds[2], slow_fds[2];

	for (int clear = 0; clear < 2; clear++) {
		struct chan_conf conf;

		end_init(&mute, loop);
		end_init(&slow, loop);
		conf = end_conf(&mute, "mute");
		conf.noise = clear ? NULL : &n;
		conf.open_timeout = MONO_S(60);
		conf.first_timeout = MONO_MS(200);
		world_pair(SOCK_STREAM, fds);
		mute.c = chan_new(fds[0], &conf);
		conf.ctx = &slow;
		world_pair(SOCK_STREAM, slow_fds);
		ck_assert_int_eq(send(slow_fds[1], clear ? "\1" : "T", 1, 0), 1);
		slow.c = chan_new(slow_fds[0], &conf);
		UNTIL(loop, mute.closes == 1);
		ck_assert_int_eq(mute.why, TV_ETIMEOUT);
		ck_assert_uint_eq(slow.closes, 0);
		end_done(&mute);
		end_done(&slow);
		close(fds[1]);
		close(slow_fds[1]);
	}
	ev_loop_destroy(loop);
}
END_TEST

#define CROWD 40

/* Forty knock together: they are answered in several turns of the loop, and all of them are. */
START_TEST(handshakes_of_a_turn)
{
	struct noise_conf n = conf_of(NOISE_NKPSK0, &old_key, 1);
	struct ev_loop *loop = world_loop();
	static struct end a[CROWD], b[CROWD];
	uint64_t before = chan_handshakes_postponed();
	unsigned open = 0;

	for (int i = 0; i < CROWD; i++) {
		struct chan_conf conf;
		int fds[2];

		end_init(&a[i], loop);
		end_init(&b[i], loop);
		world_pair(SOCK_STREAM, fds);
		conf = end_conf(&a[i], "a");
		conf.noise = &n;
		conf.initiator = true;
		a[i].c = chan_new(fds[0], &conf);
		conf.ctx = &b[i];
		conf.initiator = false;
		b[i].c = chan_new(fds[1], &conf);
	}
	while (open < CROWD) {
		ev_run(loop, EVRUN_ONCE);
		open = 0;
		for (int i = 0; i < CROWD; i++)
			open += b[i].opens;
	}
	ck_assert_uint_ge(chan_handshakes_postponed() - before, CROWD - 16);
	for (int i = 0; i < CROWD; i++) {
		end_done(&a[i]);
		end_done(&b[i]);
	}
	ev_loop_destroy(loop);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("link");
	TCase *t = tcase_create("link");

	if (sodium_init() < 0)
		return 1;
	for (int i = 0; i < 2; i++)
		crypto_scalarmult_base(pairs[i].pub, pairs[i].secret);
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, echo, 0, 2);
	tcase_add_test(t, memory_in_turns);
	tcase_add_test(t, sealed_in_batches);
	tcase_add_test(t, keys);
	tcase_add_test(t, two_static_keys);
	tcase_add_test(t, rotation);
	tcase_add_loop_test(t, nothing_of_a_secret_stays, 0, 4);
	tcase_add_test(t, key_that_stands);
	tcase_add_test(t, another_key);
	tcase_add_test(t, no_key);
	tcase_add_test(t, strangers);
	tcase_add_test(t, first_bytes);
	tcase_add_test(t, handshakes_of_a_turn);
	tcase_add_test(t, versions);
	tcase_add_test(t, one_side_in_clear);
	tcase_add_test(t, both_are_taken);
	tcase_add_loop_test(t, silence, 0, 2);
	tcase_add_loop_test(t, tampered, 0, 44);
	tcase_add_loop_test(t, replayed_message, 0, 2);
	tcase_add_test(t, replayed_session);
	tcase_add_test(t, byte_by_byte);
	tcase_add_test(t, pause_and_resume);
	suite_add_tcase(s, t);
	return world_main(s);
}
