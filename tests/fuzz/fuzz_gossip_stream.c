/*
 * Streams.  First byte: 1 label, 2 keys, 4 the input is a message that is framed here, 8 plaintext is
 * taken too, 16 we are the dialler.  Fed whole and in small pieces: the outcome must be the same.
 */
#include <stdlib.h>

#include "common/base/assert.h"
#include "gossipd/core/wire/stream.h"
#include "tests/fuzz/gossip_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct stream_limits limits = { .frame = 1u << 20, .flat = 2u << 20, .nodes = 5000, .user_state = 1u << 20,
	.user_message = 1u << 18 };

static void
walk_stream(const struct stream_message *m)
{
	struct wire_node_iter it;
	struct wire_node n;
	enum tv_err err;

	if (m->type != WIRE_PUSH_PULL) {
		walk_message(m->type, m->body);
		return;
	}
	TV_ASSERT(m->header.nodes <= limits.nodes && m->user_state.len == m->header.user_state_len);
	it = wire_nodes(m->nodes, m->header.nodes);
	while ((err = wire_node_next(&it, NULL, &n)) != TV_EOF)
		if (err == TV_OK)
			walk_node(&n);
	walk_serf(m->user_state);
}

static enum tv_err
run(const struct envelope *e, enum stream_side side, struct span bytes, size_t step)
{
	struct stream_reader r;
	enum tv_err err = TV_EAGAIN;

	stream_reader_init(&r, e, &limits, side);
	for (size_t at = 0; at < bytes.len; at += step)
		err = stream_feed(&r, span_of(bytes.p + at, bytes.len - at < step ? bytes.len - at : step));
	if (err == TV_OK)
		walk_stream(stream_message(&r));
	stream_reader_done(&r);
	return err;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t nonce[SEAL_NONCE_BYTES] = { 1 };
	struct seal_ring ring;
	struct envelope e = { .version = 1 };
	struct buf b = BUF_INIT(2u << 20);
	struct packet_scratch *s;
	enum stream_side side;
	struct span in;

	if (size < 2 || size > 1u << 19)
		return 0;
	walk_test_keys(&ring);
	side = data[0] & 16 ? STREAM_DIALLED : STREAM_ACCEPTED;
	if (data[0] & 1)
		e.label = span_str("pool-7");
	if (data[0] & 6)
		e.ring = &ring;
	e.accept_plain = data[0] & 8;
	in = span_of(data + 1, size - 1);
	if (data[0] & 4) {
		s = malloc(sizeof(*s));
		packet_scratch_init(s);
		TV_ASSERT(stream_build(&e, s, side == STREAM_ACCEPTED ? STREAM_DIALLED : STREAM_ACCEPTED, in, nonce, &b) == TV_OK);
		packet_scratch_done(s);
		free(s);
		in = buf_span(&b);
	}
	TV_ASSERT(run(&e, side, in, in.len) == run(&e, side, in, 1 + data[1] % 61));
	buf_done(&b);
	return 0;
}
