/*
 * Datagrams.  First byte: 1 the pool has a label, 2 it has keys, 4 the input is sealed for it here
 * (so that the fuzzer gets behind the encryption), 8 plaintext is taken too.
 */
#include <stdlib.h>

#include "common/base/assert.h"
#include "gossipd/core/wire/packet.h"
#include "tests/fuzz/gossip_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
on_message(void *arg, enum wire_type type, struct span body)
{
	++*(unsigned *)arg;
	walk_message(type, body);
}

/* The input as a datagram, in memory of its exact size. */
static struct span
datagram(const struct envelope *e, uint8_t flags, struct span in, struct buf *b)
{
	static const uint8_t nonce[SEAL_NONCE_BYTES] = { 1 };

	if (flags & 4) {
		envelope_put_label(e, b);
		seal_put(b, e->ring, e->version, nonce, e->label, in);
		return buf_span(b);
	}
	return in;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct packet_scratch *s;
	struct seal_ring ring;
	struct envelope e = { .version = 1 };
	struct buf b = BUF_INIT(PACKET_BYTES_MAX + 1024);
	struct packet_result res;
	unsigned seen = 0;

	if (size == 0 || size > PACKET_BYTES_MAX)
		return 0;
	s = malloc(sizeof(*s));
	packet_scratch_init(s);
	walk_test_keys(&ring);
	if (data[0] & 1)
		e.label = span_str("pool-7");
	if (data[0] & 6)
		e.ring = &ring;
	e.accept_plain = data[0] & 8;
	res = packet_open(&e, s, datagram(&e, data[0], span_of(data + 1, size - 1), &b), on_message, &seen);
	TV_ASSERT(res.messages == seen && (res.err == TV_OK) == (res.dropped == 0));
	TV_ASSERT(res.messages + res.dropped > 0);
	buf_done(&b);
	packet_scratch_done(s);
	free(s);
	return 0;
}
