/* Streams: incremental reading, layers, limits, malformed input (S167-S170, S172-S174). */
#include <check.h>
#include <sodium.h>
#include <stdlib.h>

#include "common/record/mpack.h"
#include "gossipd/core/wire/stream.h"

static const uint8_t nonce[SEAL_NONCE_BYTES] = { 1 };
static struct packet_scratch scratch;
static struct seal_ring ring, other_ring;
static const struct envelope plain = { .version = 1 };
static const struct stream_limits small = { .frame = 4096, .flat = 8192, .nodes = 20, .user_state = 1000,
	.user_message = 500 };

static void
setup(void)
{
	packet_scratch_init(&scratch);
	seal_ring_wipe(&ring);
	seal_ring_wipe(&other_ring);
	seal_ring_add(&ring, span_str("0123456789abcdef"));
	seal_ring_add(&other_ring, span_str("X123456789abcdef"));
}

static void
teardown(void)
{
	packet_scratch_done(&scratch);
}

/* Result of feeding all bytes, `step` at a time.  The reader is the caller's to finish. */
static enum tv_err
feed(struct stream_reader *r, struct span bytes, size_t step)
{
	enum tv_err err = TV_EAGAIN;

	for (size_t at = 0; at < bytes.len && err == TV_EAGAIN; at += step)
		err = stream_feed(r, span_of(bytes.p + at, bytes.len - at < step ? bytes.len - at : step));
	return err;
}

/* What becomes of the bytes; the same whether they come at once or one by one. */
static enum tv_err
outcome(const struct envelope *e, const struct stream_limits *l, enum stream_side side, struct span bytes)
{
	struct stream_reader r;
	enum tv_err err[2];

	for (unsigned i = 0; i < 2; i++) {
		stream_reader_init(&r, e, l, side);
		err[i] = feed(&r, bytes, i == 0 ? bytes.len : 1);
		if (err[i] != TV_OK && err[i] != TV_EAGAIN)	/* an error is final */
			ck_assert_int_eq(stream_feed(&r, span_str("x")), err[i]);
		stream_reader_done(&r);
	}
	ck_assert_int_eq(err[0], err[1]);
	return err[0];
}

static enum tv_err
plain_outcome(struct span bytes)
{
	return outcome(&plain, &small, STREAM_ACCEPTED, bytes);
}

static void
put_push_pull(struct buf *b, uint32_t nodes, uint32_t state)
{
	struct wire_pp_header h = { true, nodes, state };

	wire_put_pp_header(b, &h);
	for (uint32_t i = 0; i < nodes; i++) {
		char name[16];
		struct wire_node n = { .addr = span_of("\x7f\0\0\1", 4), .port = 7946, .incarnation = i,
			.vsn = span_of("\1\5\2\2\5\5", 6) };

		snprintf(name, sizeof(name), "node-%u", (unsigned)i);
		n.name = span_str(name);
		wire_put_node(b, &n);
	}
	for (uint32_t i = 0; i < state; i++)
		buf_u8(b, (uint8_t)i);
}

/* -- round trips ------------------------------------------------------------------------- */

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
check_push_pull(const struct stream_message *m)
{
	struct wire_node_iter it = wire_nodes(m->nodes, m->header.nodes);
	struct wire_node n;

	ck_assert_int_eq(m->type, WIRE_PUSH_PULL);
	ck_assert(m->header.join);
	ck_assert_uint_eq(m->header.nodes, 3);
	for (uint32_t i = 0; i < 3; i++) {
		ck_assert_int_eq(wire_node_next(&it, NULL, &n), TV_OK);
		ck_assert_uint_eq(n.incarnation, i);
	}
	ck_assert_int_eq(wire_node_next(&it, NULL, &n), TV_EOF);
	ck_assert_uint_eq(m->user_state.len, 100);
	ck_assert_uint_eq(m->user_state.p[99], 99);
}

/* Either side sends; whole, in pieces, with more bytes behind, and cut at every length. */
START_TEST(test_round_trip)
{
	struct envelope e = envelope_of((unsigned)_i);
	struct buf message = BUF_INIT(4096), wire = BUF_INIT(8192);

	put_push_pull(&message, 3, 100);
	for (enum stream_side from = STREAM_ACCEPTED; from <= STREAM_DIALLED; from++) {
		enum stream_side to = from == STREAM_ACCEPTED ? STREAM_DIALLED : STREAM_ACCEPTED;
		struct stream_reader r;

		buf_reset(&wire);
		ck_assert_int_eq(stream_build(&e, &scratch, from, buf_span(&message), nonce, &wire), TV_OK);
		for (size_t step = 1; step <= wire.len; step += 13) {
			stream_reader_init(&r, &e, &STREAM_LIMITS_DEFAULT, to);
			ck_assert_int_eq(feed(&r, buf_span(&wire), step), TV_OK);
			check_push_pull(stream_message(&r));
			ck_assert_int_eq(stream_feed(&r, span_str("more")), TV_OK);
			check_push_pull(stream_message(&r));
			stream_reader_done(&r);
		}
		for (size_t n = 0; n < wire.len; n++)
			ck_assert_int_eq(outcome(&e, &STREAM_LIMITS_DEFAULT, to, span_of(wire.data, n)), TV_EAGAIN);
	}
	buf_done(&message);
	buf_done(&wire);
}
END_TEST

START_TEST(test_other_messages)
{
	struct buf b = BUF_INIT(4096);
	struct wire_ping p = { .seq = 7, .node = span_str("n") };
	struct wire_error e = { span_str("no") };
	struct stream_reader r;

	wire_put_ping(&b, &p);
	stream_reader_init(&r, &plain, &small, STREAM_ACCEPTED);
	ck_assert_int_eq(feed(&r, buf_span(&b), 1), TV_OK);
	ck_assert_int_eq(wire_get_ping(stream_message(&r)->body, NULL, &p), TV_OK);
	ck_assert_uint_eq(p.seq, 7);
	stream_reader_done(&r);

	buf_reset(&b);
	wire_put_error(&b, &e);
	stream_reader_init(&r, &plain, &small, STREAM_DIALLED);
	ck_assert_int_eq(feed(&r, buf_span(&b), 1), TV_OK);
	ck_assert_int_eq(stream_message(&r)->type, WIRE_ERROR);
	ck_assert_int_eq(wire_get_error(stream_message(&r)->body, NULL, &e), TV_OK);
	ck_assert(span_eqs(e.text, "no"));
	stream_reader_done(&r);

	buf_reset(&b);
	wire_put_user_stream(&b, span_str("hello"));
	stream_reader_init(&r, &plain, &small, STREAM_ACCEPTED);
	ck_assert_int_eq(feed(&r, buf_span(&b), 1), TV_OK);
	ck_assert(span_eqs(stream_message(&r)->body, "hello"));
	stream_reader_done(&r);
	buf_done(&b);
}
END_TEST

/* A large pool, byte by byte: each byte is looked at once. */
START_TEST(test_large_byte_by_byte)
{
	struct buf b = BUF_INIT(4 << 20);
	struct stream_reader r;

	put_push_pull(&b, 20000, 100000);
	stream_reader_init(&r, &plain, &STREAM_LIMITS_DEFAULT, STREAM_ACCEPTED);
	ck_assert_int_eq(feed(&r, buf_span(&b), 1), TV_OK);
	ck_assert_uint_eq(stream_message(&r)->user_state.len, 100000);
	ck_assert_uint_eq(stream_message(&r)->header.nodes, 20000);
	stream_reader_done(&r);
	buf_done(&b);
}
END_TEST

START_TEST(test_never_built)
{
	struct envelope e = { .ring = &ring, .version = 1 };
	struct buf out = BUF_INIT(64u << 20);
	uint8_t *big = calloc(1, 21u << 20);

	ck_assert_int_eq(stream_build(&plain, &scratch, STREAM_DIALLED, SPAN_NONE, nonce, &out), TV_EINVAL);
	ck_assert_int_eq(stream_build(&e, &scratch, STREAM_DIALLED, span_of(big, 21u << 20), nonce, &out), TV_ELIMIT);
	buf_reset(&out);
	out.max = 3;
	buf_done(&out);
	ck_assert_int_eq(stream_build(&e, &scratch, STREAM_DIALLED, span_of(big, 100), nonce, &out), TV_ENOMEM);
	buf_done(&out);
	free(big);
}
END_TEST

/* -- limits ------------------------------------------------------------------------------------- */

/* S167, S168: refused when the header says so, with hardly a byte allocated. */
START_TEST(test_claims)
{
	static const struct wire_pp_header headers[] = {
		{ true, 21, 0 }, { true, UINT32_MAX, 0 }, { true, 0, 1001 }, { true, 0, UINT32_MAX },
	};
	struct buf b = BUF_INIT(256);
	struct stream_reader r;

	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		buf_reset(&b);
		wire_put_pp_header(&b, &headers[i]);
		stream_reader_init(&r, &plain, &small, STREAM_ACCEPTED);
		ck_assert_int_eq(feed(&r, buf_span(&b), b.len), TV_ELIMIT);
		ck_assert_uint_le(r.raw.cap + r.plain.cap + r.flat.cap, 256);
		stream_reader_done(&r);
	}
	/* within the limits, but nothing follows: waits, and still holds nothing */
	buf_reset(&b);
	wire_put_pp_header(&b, &(struct wire_pp_header){ true, 1u << 20, 20u << 20 });
	stream_reader_init(&r, &plain, &STREAM_LIMITS_DEFAULT, STREAM_ACCEPTED);
	ck_assert_int_eq(feed(&r, buf_span(&b), 1), TV_EAGAIN);
	ck_assert_uint_le(r.raw.cap + r.plain.cap + r.flat.cap, 256);
	stream_reader_done(&r);

	ck_assert_int_eq(plain_outcome(span_of("\x08\x81\xaaUserMsgLen\xcd\x01\xf5", 16)), TV_ELIMIT);
	ck_assert_int_eq(plain_outcome(span_of("\x08\x81\xaaUserMsgLen\xff", 14)), TV_EFORMAT);
	ck_assert_int_eq(plain_outcome(span_of("\x06\x81\xa5Nodes\xff", 9)), TV_EFORMAT);
	buf_done(&b);
}
END_TEST

START_TEST(test_frames)
{
	struct envelope e = { .ring = &ring, .version = 1 }, other = { .ring = &other_ring, .version = 1 };
	struct buf b = BUF_INIT(8192), out = BUF_INIT(8192);
	struct wire_ping p = { .seq = 7 };

	ck_assert_int_eq(outcome(&e, &small, STREAM_ACCEPTED, span_of("\x0a\x00\x00\x10\x01", 5)), TV_ELIMIT);
	ck_assert_int_eq(outcome(&e, &small, STREAM_ACCEPTED, span_of("\x0a\xff\xff\xff\xff", 5)), TV_ELIMIT);
	ck_assert_int_eq(outcome(&e, &small, STREAM_ACCEPTED, span_of("\x0a\x00\x00\x00\x1c", 5)), TV_EFORMAT);
	ck_assert_int_eq(outcome(&e, &small, STREAM_ACCEPTED, span_of("\x0a\x00\x00\x10\x00", 5)), TV_EAGAIN);
	ck_assert_int_eq(outcome(&plain, &small, STREAM_ACCEPTED, span_of("\x0a\x00\x00\x10\x00", 5)), TV_EAUTH);

	wire_put_ping(&b, &p);
	ck_assert_int_eq(outcome(&e, &small, STREAM_ACCEPTED, buf_span(&b)), TV_EAUTH);	/* plaintext refused */
	e.accept_plain = true;
	ck_assert_int_eq(outcome(&e, &small, STREAM_ACCEPTED, buf_span(&b)), TV_OK);
	e.accept_plain = false;
	ck_assert_int_eq(stream_build(&e, &scratch, STREAM_DIALLED, buf_span(&b), nonce, &out), TV_OK);
	ck_assert_int_eq(outcome(&e, &small, STREAM_ACCEPTED, buf_span(&out)), TV_OK);
	ck_assert_int_eq(outcome(&other, &small, STREAM_ACCEPTED, buf_span(&out)), TV_EAUTH);
	for (size_t i = 6; i < out.len; i++) {				/* each byte after length and version */
		out.data[i] ^= 1;
		ck_assert_int_eq(outcome(&e, &small, STREAM_ACCEPTED, buf_span(&out)), TV_EAUTH);
		out.data[i] ^= 1;
	}
	/* what is inside must be whole: half a message, a frame in the frame, nothing at all */
	buf_reset(&out);
	ck_assert_int_eq(stream_build(&e, &scratch, STREAM_DIALLED, span_of(b.data, b.len - 1), nonce, &out), TV_OK);
	ck_assert_int_eq(outcome(&e, &small, STREAM_ACCEPTED, buf_span(&out)), TV_EFORMAT);
	buf_reset(&b);
	ck_assert_int_eq(stream_build(&e, &scratch, STREAM_DIALLED, buf_span(&out), nonce, &b), TV_OK);
	ck_assert_int_eq(outcome(&e, &small, STREAM_ACCEPTED, buf_span(&b)), TV_EFORMAT);
	buf_done(&b);
	buf_done(&out);
}
END_TEST

START_TEST(test_labels)
{
	struct envelope red = { .label = span_str("red"), .version = 1 };
	struct span ping = span_of("\x00\x80", 2);

	ck_assert_int_eq(outcome(&red, &small, STREAM_ACCEPTED, span_of("\xf4\x03red\x00\x80", 7)), TV_OK);
	ck_assert_int_eq(outcome(&red, &small, STREAM_ACCEPTED, span_of("\xf4\x03rod\x00\x80", 7)), TV_EAUTH);
	ck_assert_int_eq(outcome(&red, &small, STREAM_ACCEPTED, span_of("\xf4\x04reds\x00\x80", 8)), TV_EAUTH);
	ck_assert_int_eq(outcome(&red, &small, STREAM_ACCEPTED, span_of("\xf4\x00", 2)), TV_EAUTH);
	ck_assert_int_eq(outcome(&red, &small, STREAM_ACCEPTED, ping), TV_EAUTH);
	ck_assert_int_eq(outcome(&red, &small, STREAM_DIALLED, ping), TV_OK);
	ck_assert_int_eq(outcome(&plain, &small, STREAM_ACCEPTED, span_of("\xf4\x03red\x00\x80", 7)), TV_EAUTH);
}
END_TEST

/* S169, S170 */
START_TEST(test_compression)
{
	static uint8_t zeros[40000];
	struct buf b = BUF_INIT(1 << 20);
	struct wire_compress m = { .data = span_of("\x00\x03\x02", 3) };
	struct span inner;

	buf_putspan(&b, envelope_compress(&scratch, span_of(zeros, sizeof(zeros))));
	ck_assert_uint_lt(b.len, 2000);
	ck_assert_int_eq(plain_outcome(buf_span(&b)), TV_ELIMIT);

	buf_reset(&b);
	wire_put_compress(&b, &m);						/* expands to nothing */
	ck_assert_int_eq(plain_outcome(buf_span(&b)), TV_EFORMAT);
	buf_reset(&b);
	m.data = span_of("\x00\x03", 2);					/* no end code */
	wire_put_compress(&b, &m);
	ck_assert_int_eq(plain_outcome(buf_span(&b)), TV_EFORMAT);

	buf_reset(&b);								/* compressed in compressed */
	buf_putspan(&b, envelope_compress(&scratch, span_of("\x00\x80", 2)));
	inner = envelope_compress(&scratch, buf_span(&b));
	ck_assert_int_eq(plain_outcome(buf_span(&b)), TV_OK);
	ck_assert_int_eq(plain_outcome(inner), TV_EFORMAT);
	buf_reset(&b);								/* half a message inside */
	buf_putspan(&b, envelope_compress(&scratch, span_of("\x00\x81", 2)));
	ck_assert_int_eq(plain_outcome(buf_span(&b)), TV_EFORMAT);
	buf_done(&b);
}
END_TEST

/* S172, S173 */
START_TEST(test_malformed)
{
	struct buf b = BUF_INIT(1 << 20);
	uint8_t byte;

	for (unsigned t = 0; t < 256; t++) {
		enum tv_err err;

		byte = (uint8_t)t;
		err = plain_outcome(span_of(&byte, 1));
		if (t == WIRE_PING || t == WIRE_ACK || t == WIRE_PUSH_PULL || t == WIRE_USER || t == WIRE_COMPRESS ||
		    t == WIRE_ERROR)
			ck_assert_int_eq(err, TV_EAGAIN);
		else
			ck_assert_int_eq(err, t == WIRE_ENCRYPT || t == WIRE_LABEL ? TV_EAUTH : TV_EFORMAT);
	}
	ck_assert_int_eq(plain_outcome(span_of("\x00\xc1", 2)), TV_EFORMAT);
	ck_assert_int_eq(plain_outcome(span_of("\x06\x01", 2)), TV_EFORMAT);		/* a number for a header */
	ck_assert_int_eq(plain_outcome(span_of("\x00\xdb\xff\xff\xff\xff", 6)), TV_ELIMIT);
	ck_assert_int_eq(plain_outcome(span_of("\x00\xdf\xff\xff\xff\xff", 6)), TV_ELIMIT);
	ck_assert_int_eq(plain_outcome(span_of("\x00\xc9\xff\xff\xff\xff", 6)), TV_ELIMIT);
	buf_u8(&b, WIRE_PING);
	for (unsigned i = 0; i < 1000; i++)
		buf_u8(&b, 0x91);
	ck_assert_int_eq(plain_outcome(buf_span(&b)), TV_ELIMIT);
	buf_reset(&b);
	buf_u8(&b, WIRE_PING);								/* a ping of 70,000 bytes */
	mpw_map(&b, 1);
	mpw_raw_cstr(&b, "x");
	buf_u8(&b, 0xdb);
	buf_u32be(&b, 70000);
	ck_assert_int_eq(plain_outcome(buf_span(&b)), TV_ELIMIT);
	buf_done(&b);
}
END_TEST

/* Plain bytes without end stop at the limit. */
START_TEST(test_endless)
{
	struct buf b = BUF_INIT(1 << 20);
	static uint8_t filler[60000];
	struct stream_reader r;
	enum tv_err err = TV_EAGAIN;

	wire_put_pp_header(&b, &(struct wire_pp_header){ false, 20, 0 });
	stream_reader_init(&r, &plain, &small, STREAM_ACCEPTED);
	ck_assert_int_eq(stream_feed(&r, buf_span(&b)), TV_EAGAIN);
	buf_reset(&b);
	mpw_raw(&b, span_of(filler, 5000));
	for (unsigned i = 0; i < 20 && err == TV_EAGAIN; i++)
		err = stream_feed(&r, buf_span(&b));
	ck_assert_int_eq(err, TV_ELIMIT);
	ck_assert_uint_le(r.raw.cap, 16384);
	stream_reader_done(&r);
	buf_done(&b);
}
END_TEST

/* All forms of msgpack between the fields. */
START_TEST(test_scan_all_forms)
{
	static const char value[] = "\x90\x91\x01\x80\x81\xa1k\xa1v\xc0\xc2\xc3\xc4\x01x\xc5\x00\x01x\xc6\x00\x00\x00\x01x"
	    "\xc7\x01\x05x\xc8\x00\x01\x05x\xc9\x00\x00\x00\x01\x05x\xca....\xcb........\xcc.\xcd..\xce....\xcf........"
	    "\xd0.\xd1..\xd2....\xd3........\xd4\x05.\xd5\x05..\xd6\x05....\xd7\x05........\xd8\x05................"
	    "\xd9\x01x\xda\x00\x01x\xdb\x00\x00\x00\x01x\xdc\x00\x01\x01\xdd\x00\x00\x00\x01\x01\xde\x00\x01\x01\x02"
	    "\xdf\x00\x00\x00\x01\x01\x02\xe0\xff";
	struct buf b = BUF_INIT(1024);
	struct stream_reader r;
	struct wire_ping p;
	uint32_t count = 0;
	struct rd rd = rd_over(value, sizeof(value) - 1);

	while (rd_left(&rd) > 0) {
		mpr_skip(&rd);
		count++;
	}
	ck_assert_int_eq(rd.err, TV_OK);
	buf_u8(&b, WIRE_PING);
	mpw_map(&b, 2);
	mpw_raw_cstr(&b, "others");
	mpw_array(&b, count);
	buf_put(&b, value, sizeof(value) - 1);
	mpw_raw_cstr(&b, "SeqNo");
	mpw_uint(&b, 77);
	for (size_t n = 1; n < b.len; n++)
		ck_assert_int_eq(plain_outcome(span_of(b.data, n)), TV_EAGAIN);
	stream_reader_init(&r, &plain, &small, STREAM_ACCEPTED);
	ck_assert_int_eq(feed(&r, buf_span(&b), 1), TV_OK);
	ck_assert_int_eq(wire_get_ping(stream_message(&r)->body, NULL, &p), TV_OK);
	ck_assert_uint_eq(p.seq, 77);
	stream_reader_done(&r);
	buf_done(&b);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("stream");
	TCase *tc = tcase_create("stream");
	SRunner *sr = srunner_create(s);
	int failed;

	if (sodium_init() < 0)
		return 1;
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, test_round_trip, 0, 16);
	tcase_add_test(tc, test_other_messages);
	tcase_add_test(tc, test_large_byte_by_byte);
	tcase_add_test(tc, test_never_built);
	tcase_add_test(tc, test_claims);
	tcase_add_test(tc, test_frames);
	tcase_add_test(tc, test_labels);
	tcase_add_test(tc, test_compression);
	tcase_add_test(tc, test_malformed);
	tcase_add_test(tc, test_endless);
	tcase_add_test(tc, test_scan_all_forms);
	tcase_set_timeout(tc, 60);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
