/* Messages of DNS clients, answered from what the input itself makes of the catalog; and recursors' replies in that. */
#include <stdlib.h>

#include "rpcd/dns/rendered.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct dns_names names;

/* An answer is a message that reads again: header, and every record whole. */
static void
reads_again(struct span msg, const struct dns_query *q)
{
	size_t at = DNS_HEADER_BYTES;
	struct dname name;

	if (msg.len < DNS_HEADER_BYTES || (msg.p[2] & 0x80) == 0 || msg.p[0] != q->id >> 8)
		abort();
	if (dname_read(msg, &at, &name) != TV_OK || !dname_eq(&name, &q->name))
		abort();
	at += 4;
	for (unsigned n = (msg.p[6] << 8 | msg.p[7]) + (msg.p[8] << 8 | msg.p[9]) + (msg.p[10] << 8 | msg.p[11]); n > 0; n--) {
		if (dname_read(msg, &at, &name) != TV_OK || at + 10 > msg.len)
			abort();
		at += 10 + (size_t)(msg.p[at + 8] << 8 | msg.p[at + 9]);
	}
	if (at != msg.len)
		abort();
}

static uint64_t
hash(const void *bytes, size_t n)
{
	uint64_t h = 1;

	for (size_t i = 0; i < n; i++)
		h = (h ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
	return h;
}

/* What is kept of an answer and written again is a message of the same size, and reads again. */
static void
keeps(struct span msg, bool tcp, const struct dns_zone *z, const struct dns_query *q, const struct dns_found *found,
    struct span reply, struct arena *a)
{
	struct rendered_set set = { NULL };
	static struct rendered_table t;
	struct rendered_question k;
	struct rng rng;
	struct buf out = BUF_INIT(2 * DNS_MESSAGE_BYTES_MAX);

	rng_seed(&rng, msg.len);
	if (t.chains == NULL && !rendered_open(&t, 1 << 20, hash))
		return;
	if (rendered_read(&t, msg, tcp, &k)) {
		if (q->subnet || k.type != q->type || k.id != q->id || k.flags != q->flags)
			abort();
		rendered_keep(&t, &set, &k, z, found, reply, 0, a);
		if (rendered_write(&t, &k, &rng, 0, &out) != NULL) {
			if (out.len != reply.len)
				abort();
			reads_again(buf_span(&out), q);
		}
		rendered_drop(&t, &set);
		if (t.count != 0 || t.bytes != 0)
			abort();
	}
	buf_done(&out);
}

/* The first byte says how many bytes are the message; the rest are texts of instances, and a recursor's reply. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dns_zone zone = { .datacenter = span_str("dc1"), .udp_answer_limit = 3, .compress = true,
	    .node_meta = true, .recursors = size % 2 == 0 };
	struct dns_instance instances[3] = { { .port = 1 }, { .port = 2 }, { .port = 3, .state = DNS_WARNING } };
	struct span meta[1][2];
	struct dns_query q;
	enum dns_rcode rcode;

	if (size < 1)
		return 0;
	size_t cut = data[0] < size - 1 ? data[0] : size - 1;
	struct span msg = span_of(data + 1, cut), rest = span_of(data + 1 + cut, size - 1 - cut);
	struct span piece = span_of(rest.p, rest.len / 4);
	for (unsigned i = 0; i < 3; i++) {
		instances[i].node = instances[i].address = piece;
		instances[i].service_address = span_of(piece.p + piece.len * i, piece.len);
		instances[i].meta = (struct span_map){ meta, 1, true };
	}
	meta[0][0] = meta[0][1] = piece;
	struct dns_found found = { .status = DNS_FOUND, .datacenter = span_str("dc1"), .instances = instances, .count = 3,
	    .message = rest };
	(void)dname_of_text(span_str("consul"), &zone.domain);
	enum dns_verdict verdict = dns_query_read(msg, &q, &rcode);
	if (verdict == DNS_IGNORE)
		return 0;
	struct arena a = ARENA_INIT(4 << 20);
	struct buf out = BUF_INIT(2 * DNS_MESSAGE_BYTES_MAX);
	if (verdict == DNS_REJECT)
		dns_reply_bare(&q, 0, rcode, &out);
	struct dns_facts facts = { .n = 0 };
	struct dns_asker asker = { .tcp = size % 3 == 0, .seed = size, .names = &names };
	enum dns_outcome o = DNS_NEED;
	for (unsigned round = 0; round < 32 && verdict == DNS_SERVE && o == DNS_NEED; round++) {
		buf_reset(&out);
		o = dns_answer(&zone, &q, &asker, &facts, &a, &out);
		for (unsigned i = 0; i < facts.n; i++)
			facts.v[i].found = &found;
	}
	if (verdict == DNS_SERVE && o == DNS_NEED)
		abort();
	if (o == DNS_DONE)
		reads_again(buf_span(&out), &q);
	if (o == DNS_DONE && facts.n == 1)
		keeps(msg, asker.tcp, &zone, &q, &found, buf_span(&out), &a);
	arena_done(&a);
	buf_done(&out);
	return 0;
}
