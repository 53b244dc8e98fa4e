/* Datagrams: layers, limits, malformed input (S169-S171, S173, S174). */
#include <check.h>
#include <sodium.h>
#include <stdlib.h>
#include <zlib.h>

#include "common/record/mpack.h"
#include "gossipd/core/wire/packet.h"

static const uint8_t nonce[SEAL_NONCE_BYTES] = { 9, 8, 7, 6, 5, 4, 3, 2, 1 };
static struct packet_scratch scratch;
static struct seal_ring ring, other_ring;

struct seen {
	unsigned count, limit;
	enum wire_type type[300];
	struct span body[300];
};

static void
see(void *arg, enum wire_type type, struct span body)
{
	struct seen *s = arg;

	ck_assert_uint_lt(s->count, 300);
	s->type[s->count] = type;
	s->body[s->count++] = body;
}

static struct packet_result
open_with(const struct envelope *e, struct span bytes, struct seen *s)
{
	s->count = 0;
	return packet_open(e, &scratch, bytes, see, s);
}

static const struct envelope plain = { .version = 1 };

static struct packet_result
open_plain(struct span bytes, struct seen *s)
{
	return open_with(&plain, bytes, s);
}

static void
setup(void)
{
	packet_scratch_init(&scratch);
	seal_ring_wipe(&ring);
	seal_ring_wipe(&other_ring);
	seal_ring_add(&ring, span_str("0123456789abcdef0123456789abcdef"));
	seal_ring_add(&other_ring, span_str("0123456789abcdefX123456789abcdef"));
}

static void
teardown(void)
{
	packet_scratch_done(&scratch);
}

/* -- round trips ------------------------------------------------------------------ */

/* Each combination of layers, one bit each. */
static struct envelope
envelope_of(unsigned bits)
{
	struct envelope e = { .version = bits & 8 ? 0 : 1, .compress = bits & 2 };

	if (bits & 1)
		e.label = span_str("blue pool");
	if (bits & 4)
		e.ring = &ring;
	return e;
}

static void
same_parts(const struct seen *s, const struct span *parts, unsigned count)
{
	ck_assert_uint_eq(s->count, count);
	for (unsigned i = 0; i < count; i++) {
		ck_assert_uint_eq(s->type[i], parts[i].p[0]);
		ck_assert(span_eq(s->body[i], span_of(parts[i].p + 1, parts[i].len - 1)));
	}
}

START_TEST(test_round_trip)
{
	static const unsigned counts[] = { 1, 2, 7, 255 };
	static struct seen s;
	struct envelope e = envelope_of((unsigned)_i);
	struct span parts[255];
	uint8_t bytes[255][8];

	for (unsigned i = 0; i < 255; i++) {
		memset(bytes[i], 'p', sizeof(bytes[i]));
		bytes[i][0] = (uint8_t[]){ WIRE_PING, WIRE_ALIVE, WIRE_USER, WIRE_NACK }[i % 4];
		parts[i] = span_of(bytes[i], 1 + i % 8);
	}
	for (unsigned c = 0; c < 4; c++) {
		struct buf out = BUF_INIT(PACKET_BYTES_MAX);
		struct packet_result res;

		ck_assert_int_eq(packet_build(&e, &scratch, parts, counts[c], _i & 16, nonce, &out), TV_OK);
		res = open_with(&e, buf_span(&out), &s);
		ck_assert_int_eq(res.err, TV_OK);
		ck_assert_uint_eq(res.dropped, 0);
		same_parts(&s, parts, counts[c]);
		buf_done(&out);
	}
}
END_TEST

/* Compression is used only where it saves bytes. */
START_TEST(test_compression_must_save)
{
	struct envelope e = { .version = 1, .compress = true };
	struct buf out = BUF_INIT(PACKET_BYTES_MAX);
	struct span ack = span_of("\x02\x80", 2);
	uint8_t zeros[500] = { WIRE_USER };
	struct span user = span_of(zeros, sizeof(zeros));

	ck_assert_int_eq(packet_build(&e, &scratch, &ack, 1, false, nonce, &out), TV_OK);
	ck_assert(span_eq(buf_span(&out), ack));
	buf_reset(&out);
	ck_assert_int_eq(packet_build(&e, &scratch, &user, 1, false, nonce, &out), TV_OK);
	ck_assert_uint_eq(out.data[0], WIRE_COMPRESS);
	ck_assert_uint_lt(out.len, sizeof(zeros));
	buf_done(&out);
}
END_TEST

START_TEST(test_never_built)
{
	static uint8_t big[UINT16_MAX + 1];
	struct span part = span_of("\x02\x80", 2), parts[256];
	struct buf out = BUF_INIT(1 << 20);

	for (unsigned i = 0; i < 256; i++)
		parts[i] = part;
	ck_assert_int_eq(packet_build(&plain, &scratch, parts, 0, false, nonce, &out), TV_EINVAL);
	ck_assert_int_eq(packet_build(&plain, &scratch, parts, 256, false, nonce, &out), TV_EINVAL);
	parts[3] = span_of("", 0);
	ck_assert_int_eq(packet_build(&plain, &scratch, parts, 5, false, nonce, &out), TV_EINVAL);
	ck_assert_int_eq(packet_build(&plain, &scratch, &parts[3], 1, false, nonce, &out), TV_EINVAL);
	parts[3] = span_of(big, sizeof(big));
	ck_assert_int_eq(packet_build(&plain, &scratch, parts, 5, false, nonce, &out), TV_EINVAL);
	ck_assert_uint_eq(out.len, 0);
	out.max = 2 + 3 * 2 + 3 * 2;
	ck_assert_int_eq(packet_build(&plain, &scratch, parts, 3, false, nonce, &out), TV_OK);
	buf_done(&out);
	out.max--;
	ck_assert_int_eq(packet_build(&plain, &scratch, parts, 3, false, nonce, &out), TV_ENOMEM);
	buf_done(&out);
}
END_TEST

/* -- malformed -------------------------------------------------------------------------- */

/* S173: nothing, one byte of each value, and each type with nonsense behind it. */
START_TEST(test_types)
{
	static struct seen s;
	uint8_t bytes[3];
	struct packet_result res = open_plain(span_of(bytes, 0), &s);

	ck_assert_uint_eq(res.messages, 0);
	ck_assert_int_ne(res.err, TV_OK);
	for (unsigned t = 0; t < 256; t++) {
		bool known = t <= WIRE_DEAD || t == WIRE_USER || t == WIRE_NACK;

		memset(bytes, 0xff, sizeof(bytes));
		bytes[0] = (uint8_t)t;
		for (size_t n = 1; n <= 3; n++) {
			res = open_plain(span_of(bytes, n), &s);
			ck_assert_uint_eq(res.messages, known ? 1 : 0);
			ck_assert_uint_eq(res.dropped, known ? 0 : 1);
			ck_assert(known == (res.err == TV_OK));
		}
	}
}
END_TEST

/* S171 */
START_TEST(test_compounds)
{
	static const struct {
		const char *what;
		uint8_t bytes[16];
		size_t len;
		unsigned messages, dropped;
	} cases[] = {
		{ "no count", { 7 }, 1, 0, 1 },
		{ "no parts", { 7, 0 }, 2, 0, 1 },
		{ "too few lengths", { 7, 3, 0, 1 }, 4, 0, 1 },
		{ "half a length", { 7, 1, 0 }, 3, 0, 1 },
		{ "255 parts in nothing", { 7, 255, 0, 1 }, 4, 0, 1 },
		{ "part beyond the end", { 7, 1, 0xff, 0xff, 2 }, 5, 0, 1 },
		{ "first part whole, second cut", { 7, 2, 0, 1, 0, 2, 2, 3 }, 8, 1, 1 },
		{ "zero-length part alone", { 7, 1, 0, 0 }, 4, 0, 1 },
		{ "zero-length part between", { 7, 3, 0, 1, 0, 0, 0, 1, 2, 3 }, 10, 2, 1 },
		{ "unknown type between", { 7, 3, 0, 1, 0, 1, 0, 1, 2, 99, 3 }, 11, 2, 1 },
		{ "bytes behind the parts", { 7, 1, 0, 1, 2, 9, 9 }, 7, 1, 0 },
		{ "crc inside", { 7, 1, 0, 5, 12, 0, 0, 0, 0 }, 9, 0, 1 },
		{ "frame inside", { 7, 1, 0, 5, 10, 0, 0, 0, 0 }, 9, 0, 1 },
	};
	static struct seen s;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct packet_result res = open_plain(span_of(cases[i].bytes, cases[i].len), &s);

		ck_assert_msg(res.messages == cases[i].messages && res.dropped == cases[i].dropped, "%s: %u, %u", cases[i].what,
		    res.messages, res.dropped);
		ck_assert_msg((res.err != TV_OK) == (cases[i].dropped > 0), "%s", cases[i].what);
	}
}
END_TEST

static void
wrap(bool compress, struct buf *b)
{
	struct buf out = BUF_INIT(1 << 20);

	if (compress) {
		buf_putspan(&out, envelope_compress(&scratch, buf_span(b)));
	} else {
		buf_u8(&out, WIRE_COMPOUND);
		buf_u8(&out, 1);
		buf_u16be(&out, (uint16_t)b->len);
		buf_putspan(&out, buf_span(b));
	}
	buf_done(b);
	*b = out;
}

/* S170: four layers of either kind in any order are opened, five are not. */
START_TEST(test_depth)
{
	static struct seen s;

	for (unsigned depth = 0; depth <= PACKET_DEPTH_MAX + 1; depth++) {
		for (unsigned mix = 0; mix < 1u << depth; mix++) {
			struct buf b = BUF_INIT(1 << 20);
			struct packet_result res;

			buf_puts(&b, "\x08 some user message");
			for (unsigned i = 0; i < depth; i++)
				wrap(mix >> i & 1, &b);
			res = open_plain(buf_span(&b), &s);
			ck_assert_uint_eq(res.messages, depth <= PACKET_DEPTH_MAX);
			ck_assert_int_eq(res.err, depth <= PACKET_DEPTH_MAX ? TV_OK : TV_ELIMIT);
			buf_done(&b);
		}
	}
}
END_TEST

/* S169: one large expansion, and many that only together are too large. */
START_TEST(test_bombs)
{
	static struct seen s;
	uint8_t *zeros = calloc(1, 1 << 20);
	struct buf many = BUF_INIT(PACKET_BYTES_MAX);
	struct span bomb, parts[20];
	struct packet_result res;

	zeros[0] = WIRE_USER;
	bomb = envelope_compress(&scratch, span_of(zeros, 1 << 20));
	ck_assert_uint_lt(bomb.len, 5000);
	res = open_plain(bomb, &s);
	ck_assert_uint_eq(res.messages, 0);
	ck_assert_int_eq(res.err, TV_ELIMIT);
	bomb = envelope_compress(&scratch, span_of(zeros, PACKET_FLAT_MAX));
	ck_assert_int_eq(open_plain(bomb, &s).err, TV_OK);

	bomb = envelope_compress(&scratch, span_of(zeros, PACKET_FLAT_MAX / 8));
	for (unsigned i = 0; i < 20; i++)
		parts[i] = bomb;
	ck_assert_int_eq(packet_build(&plain, &scratch, parts, 20, false, nonce, &many), TV_OK);
	res = open_plain(buf_span(&many), &s);
	ck_assert_uint_eq(res.messages, 8);
	ck_assert_uint_eq(res.dropped, 12);
	ck_assert_int_eq(res.err, TV_ELIMIT);
	buf_done(&many);
	free(zeros);
}
END_TEST

/* A compression of nothing crashes some peers; here it is dropped. */
START_TEST(test_empty_compression)
{
	static struct seen s;
	struct wire_compress m = { .data = span_of("\x00\x03\x02", 3) };
	struct buf b = BUF_INIT(64);

	wire_put_compress(&b, &m);
	ck_assert_int_eq(open_plain(buf_span(&b), &s).err, TV_EFORMAT);
	buf_reset(&b);
	m.data = span_of("", 0);
	wire_put_compress(&b, &m);
	ck_assert_int_eq(open_plain(buf_span(&b), &s).err, TV_EFORMAT);
	buf_done(&b);
}
END_TEST

START_TEST(test_crc)
{
	static struct seen s;
	struct span ack = span_of("\x02\x80", 2);
	struct buf out = BUF_INIT(64), inner = BUF_INIT(64);

	ck_assert_int_eq(packet_build(&plain, &scratch, &ack, 1, true, nonce, &out), TV_OK);
	for (size_t n = 1; n < out.len; n++)
		ck_assert_uint_eq(open_plain(span_of(out.data, n), &s).messages, 0);
	for (size_t i = 1; i < out.len; i++) {
		out.data[i] ^= 0x40;
		ck_assert_int_eq(open_plain(buf_span(&out), &s).err, TV_ECORRUPT);
		out.data[i] ^= 0x40;
	}
	ck_assert_int_eq(open_plain(buf_span(&out), &s).err, TV_OK);
	buf_u8(&inner, WIRE_CRC);				/* a CRC in a CRC is an unknown type */
	buf_u32be(&inner, (uint32_t)crc32_z(0, out.data, out.len));
	buf_putspan(&inner, buf_span(&out));
	ck_assert_int_eq(open_plain(buf_span(&inner), &s).err, TV_EFORMAT);
	buf_done(&out);
	buf_done(&inner);
}
END_TEST

/* -- keys and labels (S174) ------------------------------------------------------------------ */

START_TEST(test_keys)
{
	static struct seen s;
	struct span ack = span_of("\x02\x80", 2);
	struct envelope sealed = { .ring = &ring, .version = 1 }, other = { .ring = &other_ring, .version = 1 };
	struct envelope rolling = { .ring = &ring, .version = 1, .accept_plain = true, .send_plain = true };
	struct buf out = BUF_INIT(256), nested = BUF_INIT(256);

	ck_assert_int_eq(packet_build(&sealed, &scratch, &ack, 1, false, nonce, &out), TV_OK);
	ck_assert_int_eq(open_with(&sealed, buf_span(&out), &s).err, TV_OK);
	ck_assert_int_eq(open_with(&other, buf_span(&out), &s).err, TV_EAUTH);
	ck_assert_uint_eq(s.count, 0);
	for (size_t n = 0; n < out.len; n++)
		ck_assert_int_eq(open_with(&sealed, span_of(out.data, n), &s).err, TV_EAUTH);
	ck_assert_int_eq(open_with(&sealed, ack, &s).err, TV_EAUTH);		/* plaintext where keys are required */
	ck_assert_uint_eq(s.count, 0);

	ck_assert_int_eq(open_with(&rolling, ack, &s).err, TV_OK);		/* while encryption is rolled in */
	ck_assert_int_eq(open_with(&rolling, buf_span(&out), &s).err, TV_OK);
	ck_assert_uint_eq(s.type[0], WIRE_ACK);
	buf_reset(&out);
	ck_assert_int_eq(packet_build(&rolling, &scratch, &ack, 1, false, nonce, &out), TV_OK);
	ck_assert(span_eq(buf_span(&out), ack));

	buf_reset(&out);							/* sealed in sealed is no message */
	ck_assert_int_eq(packet_build(&sealed, &scratch, &ack, 1, false, nonce, &out), TV_OK);
	buf_u8(&nested, WIRE_ENCRYPT);
	buf_putspan(&nested, buf_span(&out));
	buf_reset(&out);
	seal_put(&out, &ring, 1, nonce, SPAN_NONE, buf_span(&nested));
	ck_assert_int_eq(open_with(&sealed, buf_span(&out), &s).err, TV_EFORMAT);
	buf_done(&out);
	buf_done(&nested);
}
END_TEST

START_TEST(test_labels)
{
	static struct seen s;
	struct span ack = span_of("\x02\x80", 2);
	struct envelope red = { .label = span_str("red"), .version = 1 }, blue = { .label = span_str("blue"), .version = 1 };
	struct buf out = BUF_INIT(256);

	ck_assert_int_eq(packet_build(&red, &scratch, &ack, 1, false, nonce, &out), TV_OK);
	ck_assert_int_eq(open_with(&red, buf_span(&out), &s).err, TV_OK);
	ck_assert_int_eq(open_with(&blue, buf_span(&out), &s).err, TV_EAUTH);
	ck_assert_int_eq(open_with(&plain, buf_span(&out), &s).err, TV_EAUTH);
	ck_assert_int_eq(open_with(&red, ack, &s).err, TV_EAUTH);
	for (size_t n = 0; n < out.len; n++)
		ck_assert_int_ne(open_with(&red, span_of(out.data, n), &s).err, n == out.len - 1 ? TV_EAUTH : TV_OK);
	ck_assert_int_eq(open_with(&red, span_of("\xf4\x00\x02\x80", 4), &s).err, TV_EAUTH);
	red.ring = &ring;							/* the label is authenticated too */
	blue.ring = &ring;
	buf_reset(&out);
	ck_assert_int_eq(packet_build(&red, &scratch, &ack, 1, false, nonce, &out), TV_OK);
	blue.label = span_str("rod");
	memcpy(out.data + 2, "rod", 3);
	ck_assert_int_eq(open_with(&blue, buf_span(&out), &s).err, TV_EAUTH);
	buf_done(&out);
}
END_TEST

/* -- room -------------------------------------------------------------------------------------- */

START_TEST(test_room)
{
	struct envelope e = { .version = 1 };

	ck_assert_uint_eq(packet_room(&e, PACKET_MTU, 0), 1398);
	ck_assert_uint_eq(packet_room(&e, PACKET_MTU, 71), 1400 - 71 - 2);
	ck_assert_uint_eq(packet_room(&e, PACKET_MTU, 1398), 0);
	ck_assert_uint_eq(packet_room(&e, PACKET_MTU, 5000), 0);
	e.ring = &ring;
	ck_assert_uint_eq(packet_room(&e, PACKET_MTU, 0), 1400 - 2 - 29);
	e.version = 0;
	ck_assert_uint_eq(packet_room(&e, PACKET_MTU, 0), 1400 - 2 - 45);
	e.label = span_str("pool-7");
	ck_assert_uint_eq(packet_room(&e, PACKET_MTU, 10), 1400 - 10 - 2 - 45 - 8);
	e.send_plain = true;
	ck_assert_uint_eq(packet_room(&e, PACKET_MTU, 10), 1400 - 10 - 2 - 8);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("packet");
	TCase *tc = tcase_create("packet");
	SRunner *sr = srunner_create(s);
	int failed;

	if (sodium_init() < 0)
		return 1;
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, test_round_trip, 0, 32);
	tcase_add_test(tc, test_compression_must_save);
	tcase_add_test(tc, test_never_built);
	tcase_add_test(tc, test_types);
	tcase_add_test(tc, test_compounds);
	tcase_add_test(tc, test_depth);
	tcase_add_test(tc, test_bombs);
	tcase_add_test(tc, test_empty_compression);
	tcase_add_test(tc, test_crc);
	tcase_add_test(tc, test_keys);
	tcase_add_test(tc, test_labels);
	tcase_add_test(tc, test_room);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
