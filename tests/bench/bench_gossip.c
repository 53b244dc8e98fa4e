/*
 * How fast the gossip wire is on one core (in processor time): datagrams and full exchanges, written and read.  Reading
 * is what gossipd does with a datagram: open the seal, check, expand, take apart and decode every message in it.
 *
 *	bench_gossip [-s SECONDS per figure] [-n MEMBERS of the exchange]
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "gossipd/core/wire/stream.h"
#include "tests/bench/faces.h"

#define PARTS_MAX 16
#define BYTES_MAX (64u << 20)

struct bench {
	double seconds;			/* per figure */
	struct faces faces;
	struct seal_ring ring;
	struct packet_scratch *scratch;
	struct arena arena;
	uint8_t nonce[SEAL_NONCE_BYTES];
	unsigned bad;			/* messages that did not decode */
};

/* Messages of one datagram under construction. */
struct mix {
	const char *name;
	struct buf part[PARTS_MAX];
	unsigned count;
	bool crc;
};

static void
die(const char *what)
{
	fprintf(stderr, "bench_gossip: %s\n", what);
	exit(1);
}

/* -- what travels ------------------------------------------------------------------ */

static struct buf *
mix_part(struct mix *m)
{
	struct buf *b = &m->part[m->count++];

	buf_init(b, BYTES_MAX);
	return b;
}

static void
put_ping(struct mix *m, const struct bench *b, unsigned to)
{
	struct face from, face;

	face_make(&b->faces, 1, &from);
	face_make(&b->faces, to, &face);
	wire_put_ping(mix_part(m), &(struct wire_ping){ .seq = 70000, .node = span_str(face.name),
	    .source_addr = span_of(from.addr.ip, 4), .source_port = from.addr.port,
	    .source_node = span_str(from.name) });
}

static void
mix_ping(struct mix *m, const struct bench *b)
{
	put_ping(m, b, 2);
}

static void
mix_ack(struct mix *m, const struct bench *b)
{
	struct buf payload = BUF_INIT(BYTES_MAX);
	struct coordinate c = face_coord(77);

	(void)b;
	serf_put_coord(&payload, &c);
	wire_put_ack(mix_part(m), &(struct wire_ack){ .seq = 70000, .payload = buf_span(&payload) });
	buf_done(&payload);
}

static void
mix_suspect(struct mix *m, const struct bench *b)
{
	struct face node, from;

	put_ping(m, b, 2);
	face_make(&b->faces, 2, &node);
	face_make(&b->faces, 1, &from);
	wire_put_suspect(mix_part(m), &(struct wire_accuse){ .incarnation = 3, .node = span_str(node.name),
	    .from = span_str(from.name) });
}

/* As many alives as a datagram takes: what a pool in which much changes says. */
static void
mix_alives(struct mix *m, const struct bench *b)
{
	size_t used = 0;

	m->crc = true;
	for (unsigned i = 0; i < PARTS_MAX; i++) {
		struct face face;
		struct buf *part = mix_part(m);

		face_make(&b->faces, i, &face);
		struct wire_alive a = face_alive(&face);
		wire_put_alive(part, &a);
		used += part->len + PACKET_COST;
		if (used + part->len > PACKET_MTU - SEAL_OVERHEAD)
			return;
	}
}

static void
mix_event(struct mix *m, const struct bench *b)
{
	struct buf *part = mix_part(m);

	(void)b;
	m->crc = true;
	buf_u8(part, WIRE_USER);
	serf_put_user_event(part, &(struct serf_user_event){ .ltime = 1234, .name = span_str("deploy"),
	    .payload = span_str("version=4f1c2b7 stage=canary"), .cc = true });
}

static const struct {
	const char *name;
	void (*make)(struct mix *m, const struct bench *b);
} mixes[] = {
	{ "ping", mix_ping },
	{ "ack with coordinate", mix_ack },
	{ "ping + suspect", mix_suspect },
	{ "gossip of alives", mix_alives },
	{ "user event", mix_event },
};

static const struct {
	const char *name;
	bool sealed, compress;
} layers[] = {
	{ "plain", false, false },
	{ "compressed", false, true },
	{ "sealed", true, false },
	{ "sealed, compressed", true, true },
};

/* -- datagrams ---------------------------------------------------------------------- */

static enum tv_err
decode_user(struct bench *b, struct span message)
{
	struct serf_user_event e;

	return message.len > 0 && message.p[0] == SERF_USER_EVENT ?
	    serf_get_user_event(span_of(message.p + 1, message.len - 1), &b->arena, &e) : TV_EFORMAT;
}

static enum tv_err
decode_ack(struct bench *b, struct span body)
{
	struct wire_ack m;
	struct coordinate c;
	enum tv_err err = wire_get_ack(body, &b->arena, &m);

	return err != TV_OK ? err : serf_get_coord(m.payload, &c);
}

static void
visit(void *arg, enum wire_type type, struct span body)
{
	struct bench *b = arg;
	union {
		struct wire_ping ping;
		struct wire_alive alive;
		struct wire_accuse accuse;
	} m;
	enum tv_err err = TV_EFORMAT;

	switch (type) {
	case WIRE_PING:
		err = wire_get_ping(body, &b->arena, &m.ping);
		break;
	case WIRE_ACK:
		err = decode_ack(b, body);
		break;
	case WIRE_ALIVE:
		err = wire_get_alive(body, &b->arena, &m.alive);
		break;
	case WIRE_SUSPECT:
		err = wire_get_accuse(body, &b->arena, &m.accuse);
		break;
	case WIRE_USER:
		err = decode_user(b, body);
		break;
	default:
		break;
	}
	b->bad += err != TV_OK;
}

static double
since(struct mono start)
{
	return mono_seconds(mono_sub(clock_cpu(), start));
}

static double
write_rate(struct bench *b, const struct envelope *e, const struct mix *m, struct buf *out)
{
	struct span parts[PARTS_MAX];
	struct mono start = clock_cpu();
	uint64_t done = 0;

	for (unsigned i = 0; i < m->count; i++)
		parts[i] = buf_span(&m->part[i]);
	do {
		for (int i = 0; i < 256; i++) {
			buf_reset(out);
			b->nonce[0]++;
			if (packet_build(e, b->scratch, parts, m->count, m->crc, b->nonce, out) != TV_OK)
				die("a datagram cannot be built");
		}
		done += 256;
	} while (since(start) < b->seconds);
	return (double)done / since(start);
}

static double
read_rate(struct bench *b, const struct envelope *e, const struct mix *m, struct span datagram)
{
	struct mono start = clock_cpu();
	uint64_t done = 0;

	b->bad = 0;
	do {
		for (int i = 0; i < 256; i++) {
			struct packet_result r;

			arena_reset(&b->arena);
			r = packet_open(e, b->scratch, datagram, visit, b);
			if (r.err != TV_OK || r.messages != m->count)
				die("a datagram is not read as it was written");
		}
		done += 256;
	} while (since(start) < b->seconds);
	if (b->bad != 0)
		die("a message cannot be decoded");
	return (double)done / since(start);
}

static void
bench_packets(struct bench *b)
{
	struct buf out = BUF_INIT(BYTES_MAX);

	printf("%-22s %-20s %6s %8s %12s %12s %9s\n", "datagram", "layers", "bytes", "messages", "read/s", "written/s",
	    "read MB/s");
	for (size_t i = 0; i < sizeof(mixes) / sizeof(mixes[0]); i++) {
		struct mix m = { .name = mixes[i].name };

		mixes[i].make(&m, b);
		for (size_t l = 0; l < sizeof(layers) / sizeof(layers[0]); l++) {
			struct envelope e = { .ring = layers[l].sealed ? &b->ring : NULL, .version = 1,
				.compress = layers[l].compress };
			double written = write_rate(b, &e, &m, &out), got = read_rate(b, &e, &m, buf_span(&out));

			printf("%-22s %-20s %6zu %8u %12.0f %12.0f %9.0f\n", m.name, layers[l].name, out.len, m.count, got,
			    written, got * (double)out.len / 1e6);
			fflush(stdout);
		}
		for (unsigned k = 0; k < m.count; k++)
			buf_done(&m.part[k]);
	}
	buf_done(&out);
}

/* -- exchanges ------------------------------------------------------------------------- */

/* Reads a push/pull as it comes over a connection, and decodes every member and every status time. */
static void
read_exchange(struct bench *b, const struct envelope *e, struct span stream)
{
	struct stream_reader r;
	const struct stream_message *m;
	struct wire_node_iter it;
	struct serf_status_iter statuses;
	struct serf_state state;
	struct wire_node n;
	struct span name;
	uint64_t ltime, left = 2ull * b->faces.count;

	stream_reader_init(&r, e, &STREAM_LIMITS_DEFAULT, STREAM_ACCEPTED);
	for (size_t at = 0; at < stream.len; at += 65536)
		(void)stream_feed(&r, span_of(stream.p + at, stream.len - at < 65536 ? stream.len - at : 65536));
	if (r.err != TV_OK)
		die("an exchange is not read as it was written");
	m = stream_message(&r);
	arena_reset(&b->arena);
	it = wire_nodes(m->nodes, m->header.nodes);
	while (wire_node_next(&it, &b->arena, &n) == TV_OK)
		left--;
	if (serf_get_state(span_of(m->user_state.p + 1, m->user_state.len - 1), &b->arena, &state) != TV_OK)
		die("the state of an exchange cannot be decoded");
	statuses = serf_statuses(state.status_ltimes);
	while (serf_status_next(&statuses, &name, &ltime) == TV_OK)
		left--;
	if (left != 0)
		die("members are missing in an exchange");
	stream_reader_done(&r);
}

static void
bench_exchange(struct bench *b, const char *name, const struct envelope *e)
{
	struct buf message = BUF_INIT(BYTES_MAX), out = BUF_INIT(BYTES_MAX);
	struct mono start;
	double written, got;
	unsigned done;

	for (start = clock_cpu(), done = 0; since(start) < b->seconds; done++) {
		buf_reset(&message);
		buf_reset(&out);
		faces_state(&b->faces, false, &message);
		b->nonce[0]++;
		if (stream_build(e, b->scratch, STREAM_DIALLED, buf_span(&message), b->nonce, &out) != TV_OK)
			die("an exchange cannot be built");
	}
	written = since(start) / done;
	for (start = clock_cpu(), done = 0; since(start) < b->seconds; done++)
		read_exchange(b, e, buf_span(&out));
	got = since(start) / done;
	printf("%-22s %-20s %8zu %8u %9.2f %9.2f %12.0f\n", "exchange", name, out.len, b->faces.count, got * 1e3,
	    written * 1e3, b->faces.count / got);
	fflush(stdout);
	buf_done(&message);
	buf_done(&out);
}

int
main(int argc, char **argv)
{
	struct bench b = { .seconds = 1, .faces = { 12, 8301, 10000 }, .arena = ARENA_INIT(BYTES_MAX) };
	int c;

	while ((c = getopt(argc, argv, "s:n:")) != -1) {
		if (c == 's')
			b.seconds = strtod(optarg, NULL);
		else if (c == 'n')
			b.faces.count = (unsigned)strtoul(optarg, NULL, 10);
		else
			die("usage: bench_gossip [-s SECONDS] [-n MEMBERS]");
	}
	if (!(b.seconds > 0) || b.faces.count < PARTS_MAX || b.faces.count > FACE_MAX)
		die("bad argument");
	b.scratch = malloc(sizeof(*b.scratch));
	if (b.scratch == NULL)
		die("no memory");
	packet_scratch_init(b.scratch);
	if (seal_ring_add(&b.ring, span_str("0123456789abcdef0123456789abcdef")) != TV_OK)
		die("no key");
	bench_packets(&b);
	printf("\n%-22s %-20s %8s %8s %9s %9s %12s\n", "stream", "layers", "bytes", "members", "read ms", "write ms",
	    "members/s");
	for (size_t l = 0; l < sizeof(layers) / sizeof(layers[0]); l++)
		bench_exchange(&b, layers[l].name, &(struct envelope){ .ring = layers[l].sealed ? &b.ring : NULL,
		    .version = 1, .compress = layers[l].compress });
	packet_scratch_done(b.scratch);
	free(b.scratch);
	arena_done(&b.arena);
	return 0;
}
