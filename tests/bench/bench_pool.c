/*
 * Plays all other members of a pool to one real gossipd: up to some ten thousand addresses of 127/8 behind one
 * UDP and one TCP socket.  Answers probes and exchanges, and probes gossipd as often as a pool would.
 * tests/bench/pool starts both and measures.
 *
 *	bench_pool -a IP:PORT -g NAME -m NET -p PORT -n COUNT [-k CLUSTER.KEY] [-z] [-r PINGS_PER_SECOND]
 *
 * -a, -g: the gossipd; -m, -p, -n: members at 127.NET.1.1, 127.NET.1.2, ... and PORT; -z: compress.
 * Commands on standard input, each answered by one line of JSON: "exchange" makes a full exchange from one
 * of the members, "stats" tells what was counted so far.  Ends with the input.
 */
#include "config.h"

#include <errno.h>
#include <ev.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "common/conf/keys.h"
#include "gossipd/core/wire/stream.h"
#include "gossipd/net.h"
#include "tests/bench/faces.h"

#define STATE_BYTES_MAX (64u << 20)

struct pool {
	struct faces faces;
	struct addr gossipd;
	const char *name;		/* of gossipd */
	struct seal_ring ring;
	struct envelope envelope;
	struct packet_scratch *in, *out;
	struct arena arena;
	struct rng rng;
	struct ev_loop *loop;
	int udp, tcp;
	struct buf answer;		/* the state of the pool, wrapped */
	uint32_t seq;
	struct addr at;		/* where the datagram in work came to */
	struct {
		uint64_t in, in_bytes, out, bad;
		uint64_t pings, misdirected, indirect, acks, pinged, suspected, other;
		uint64_t streams_in, streams_bad;
	} seen;
};

static void
die(const char *what)
{
	fprintf(stderr, "bench_pool: %s%s%s\n", what, errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
	exit(1);
}

/* -- datagrams -------------------------------------------------------------------- */

/* Sends as member `from`, whatever address that is. */
static void
send_as(struct pool *p, const struct addr *from, const struct addr *to, struct span message)
{
	struct buf b = BUF_INIT(PACKET_BYTES_MAX);
	uint8_t nonce[SEAL_NONCE_BYTES];
	struct sockaddr_storage sa;
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(struct in_pktinfo))];
	} control = { 0 };
	struct in_pktinfo info = { 0 };
	struct iovec iov;
	struct msghdr m = { .msg_name = &sa, .msg_namelen = net_sockaddr(to, AF_INET, &sa), .msg_iov = &iov,
		.msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	randombytes_buf(nonce, sizeof(nonce));
	if (packet_build(&p->envelope, p->out, &message, 1, false, nonce, &b) != TV_OK)
		die("a datagram cannot be built");
	memcpy(&info.ipi_spec_dst, from->ip, 4);
	c->cmsg_level = IPPROTO_IP;
	c->cmsg_type = IP_PKTINFO;
	c->cmsg_len = CMSG_LEN(sizeof(info));
	memcpy(CMSG_DATA(c), &info, sizeof(info));
	iov = (struct iovec){ b.data, b.len };
	if (sendmsg(p->udp, &m, 0) >= 0)
		p->seen.out++;
	buf_done(&b);
}

static void
send_ack(struct pool *p, uint32_t seq, unsigned from, const struct addr *to, bool direct)
{
	struct buf payload = BUF_INIT(256), b = BUF_INIT(512);
	struct coordinate c = face_coord(from);

	if (direct)
		serf_put_coord(&payload, &c);
	wire_put_ack(&b, &(struct wire_ack){ .seq = seq, .payload = direct ? buf_span(&payload) : SPAN_NONE });
	send_as(p, &p->at, to, buf_span(&b));
	buf_done(&payload);
	buf_done(&b);
}

static void
on_ping(struct pool *p, struct span body)
{
	struct wire_ping m;
	struct face face;
	int at = face_at(&p->faces, &p->at);

	if (at < 0 || wire_get_ping(body, &p->arena, &m) != TV_OK) {
		p->seen.misdirected++;
		return;
	}
	face_make(&p->faces, (unsigned)at, &face);
	if (m.node.len > 0 && !span_eqs(m.node, face.name)) {
		p->seen.misdirected++;
		return;
	}
	p->seen.pings++;
	send_ack(p, m.seq, (unsigned)at, &p->gossipd, true);
}

/* All members are there, so the one asked for would answer at once. */
static void
on_indirect(struct pool *p, struct span body)
{
	struct wire_indirect m;

	if (wire_get_indirect(body, &p->arena, &m) != TV_OK)
		return;
	p->seen.indirect++;
	send_ack(p, m.seq, 0, &p->gossipd, false);
}

/* On a busy machine gossipd may come to suspect one of us, who then says that it lives. */
static void
on_suspect(struct pool *p, struct span body)
{
	struct wire_accuse m;
	struct wire_alive alive;
	struct buf b = BUF_INIT(1024);
	struct face face;
	int at;

	if (wire_get_accuse(body, &p->arena, &m) != TV_OK || (at = face_named(&p->faces, m.node)) < 0)
		return;
	p->seen.suspected++;
	face_make(&p->faces, (unsigned)at, &face);
	alive = face_alive(&face);
	alive.incarnation = m.incarnation + 1;
	wire_put_alive(&b, &alive);
	send_as(p, &face.addr, &p->gossipd, buf_span(&b));
	buf_done(&b);
}

static void
visit(void *arg, enum wire_type type, struct span body)
{
	struct pool *p = arg;

	arena_reset(&p->arena);
	switch (type) {
	case WIRE_PING:
		on_ping(p, body);
		break;
	case WIRE_INDIRECT_PING:
		on_indirect(p, body);
		break;
	case WIRE_ACK:
		p->seen.acks++;
		break;
	case WIRE_SUSPECT:
		on_suspect(p, body);
		break;
	default:
		p->seen.other++;
	}
}

/* The address that the datagram was sent to. */
static struct addr
sent_to(struct msghdr *m, uint16_t port)
{
	struct addr a = { .len = 4, .port = port };

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c))
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo info;

			memcpy(&info, CMSG_DATA(c), sizeof(info));
			memcpy(a.ip, &info.ipi_addr, 4);
		}
	return a;
}

static void
on_datagram(struct ev_loop *loop, ev_io *w, int revents)
{
	static uint8_t bytes[PACKET_BYTES_MAX];
	struct pool *p = w->data;
	char control[256];

	(void)loop;
	(void)revents;
	for (;;) {
		struct iovec iov = { bytes, sizeof(bytes) };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			.msg_controllen = sizeof(control) };
		ssize_t n = recvmsg(p->udp, &m, MSG_DONTWAIT);

		if (n < 0)
			return;
		p->at = sent_to(&m, p->faces.port);
		p->seen.in++;
		p->seen.in_bytes += (uint64_t)n;
		if (packet_open(&p->envelope, p->in, span_of(bytes, (size_t)n), visit, p).err != TV_OK)
			p->seen.bad++;
	}
}

static void
on_ping_time(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct pool *p = w->data;
	struct buf b = BUF_INIT(1024);
	struct face face;

	(void)loop;
	(void)revents;
	face_make(&p->faces, (unsigned)rng_below(&p->rng, p->faces.count), &face);
	wire_put_ping(&b, &(struct wire_ping){ .seq = ++p->seq, .node = span_str(p->name),
	    .source_addr = span_of(face.addr.ip, 4), .source_port = face.addr.port, .source_node = span_str(face.name) });
	send_as(p, &face.addr, &p->gossipd, buf_span(&b));
	p->seen.pinged++;
	buf_done(&b);
}

/* -- exchanges ---------------------------------------------------------------------- */

/* Reads one message; false when it does not come, or is not what was said. */
static bool
read_message(struct pool *p, int fd, enum stream_side side, struct stream_reader *r)
{
	static uint8_t bytes[65536];
	enum tv_err err = TV_EAGAIN;

	stream_reader_init(r, &p->envelope, &STREAM_LIMITS_DEFAULT, side);
	while (err == TV_EAGAIN) {
		ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

		if (n <= 0)
			return false;
		err = stream_feed(r, span_of(bytes, (size_t)n));
	}
	return err == TV_OK;
}

static bool
write_all(int fd, struct span bytes)
{
	while (bytes.len > 0) {
		ssize_t n = send(fd, bytes.p, bytes.len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		bytes = span_of(bytes.p + n, bytes.len - (size_t)n);
	}
	return true;
}

static struct buf
wrapped(struct pool *p, enum stream_side side)
{
	struct buf state = BUF_INIT(STATE_BYTES_MAX), out = BUF_INIT(STATE_BYTES_MAX);
	uint8_t nonce[SEAL_NONCE_BYTES];

	randombytes_buf(nonce, sizeof(nonce));
	faces_state(&p->faces, false, &state);
	if (stream_build(&p->envelope, p->out, side, buf_span(&state), nonce, &out) != TV_OK)
		die("the state cannot be built");
	buf_done(&state);
	return out;
}

static void
with_timeouts(int fd)
{
	struct timeval t = { 30, 0 };

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));	/* without them it hangs, and is seen */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
}

/* The ack to a ping that came over a connection; buf_done() it. */
static struct buf
stream_ack(struct pool *p, struct span body)
{
	struct buf message = BUF_INIT(256), out = BUF_INIT(512);
	uint8_t nonce[SEAL_NONCE_BYTES];
	struct wire_ping m;

	randombytes_buf(nonce, sizeof(nonce));
	if (wire_get_ping(body, &p->arena, &m) == TV_OK) {
		wire_put_ack(&message, &(struct wire_ack){ .seq = m.seq });
		if (stream_build(&p->envelope, p->out, STREAM_ACCEPTED, buf_span(&message), nonce, &out) != TV_OK)
			die("an ack cannot be built");
	}
	buf_done(&message);
	return out;
}

static bool
answer_stream(struct pool *p, int fd, const struct stream_message *m)
{
	struct buf ack;
	bool ok;

	if (m->type == WIRE_PUSH_PULL)
		return write_all(fd, buf_span(&p->answer));
	if (m->type != WIRE_PING)
		return false;
	ack = stream_ack(p, m->body);
	ok = write_all(fd, buf_span(&ack));
	buf_done(&ack);
	return ok;
}

static void
on_accept(struct ev_loop *loop, ev_io *w, int revents)
{
	struct pool *p = w->data;
	struct stream_reader r;
	int fd = accept(p->tcp, NULL, NULL);

	(void)loop;
	(void)revents;
	if (fd < 0)
		return;
	with_timeouts(fd);
	if (read_message(p, fd, STREAM_ACCEPTED, &r) && answer_stream(p, fd, stream_message(&r)))
		p->seen.streams_in++;
	else
		p->seen.streams_bad++;
	stream_reader_done(&r);
	close(fd);
}

/* As one of the members; tells how it went, and how many members gossipd told. */
static void
exchange(struct pool *p)
{
	struct buf state = wrapped(p, STREAM_DIALLED);
	struct mono start = clock_mono();
	struct sockaddr_storage to, from;
	struct stream_reader r;
	socklen_t to_len = net_sockaddr(&p->gossipd, AF_INET, &to), from_len;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct face face;
	bool ok;

	with_timeouts(fd);
	face_make(&p->faces, 0, &face);
	face.addr.port = 0;
	from_len = net_sockaddr(&face.addr, AF_INET, &from);
	ok = bind(fd, (struct sockaddr *)&from, from_len) == 0 && connect(fd, (struct sockaddr *)&to, to_len) == 0 &&
	    write_all(fd, buf_span(&state));
	ok = read_message(p, fd, STREAM_DIALLED, &r) && ok && stream_message(&r)->type == WIRE_PUSH_PULL;
	printf("{\"what\": \"exchange\", \"ok\": %s, \"bytes\": %zu, \"members\": %u, \"ms\": %.2f}\n",
	    ok ? "true" : "false", state.len, ok ? stream_message(&r)->header.nodes : 0,
	    mono_seconds(mono_sub(clock_mono(), start)) * 1e3);
	stream_reader_done(&r);
	close(fd);
	buf_done(&state);
}

/* -- commands ------------------------------------------------------------------------- */

static void
tell(const struct pool *p)
{
	printf("{\"what\": \"stats\", \"packets_in\": %llu, \"bytes_in\": %llu, \"packets_out\": %llu, \"bad\": %llu, "
	    "\"pings\": %llu, \"misdirected\": %llu, \"indirect\": %llu, \"pinged\": %llu, \"acks\": %llu, "
	    "\"suspected\": %llu, \"other\": %llu, \"streams_in\": %llu, \"streams_bad\": %llu}\n",
	    (unsigned long long)p->seen.in, (unsigned long long)p->seen.in_bytes, (unsigned long long)p->seen.out,
	    (unsigned long long)p->seen.bad, (unsigned long long)p->seen.pings,
	    (unsigned long long)p->seen.misdirected, (unsigned long long)p->seen.indirect,
	    (unsigned long long)p->seen.pinged, (unsigned long long)p->seen.acks,
	    (unsigned long long)p->seen.suspected, (unsigned long long)p->seen.other,
	    (unsigned long long)p->seen.streams_in, (unsigned long long)p->seen.streams_bad);
}

static void
on_command(struct ev_loop *loop, ev_io *w, int revents)
{
	struct pool *p = w->data;
	char line[64];
	ssize_t n = read(STDIN_FILENO, line, sizeof(line) - 1);	/* whoever asks waits for the answer */

	(void)revents;
	if (n <= 0) {
		ev_break(loop, EVBREAK_ALL);
		return;
	}
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	if (strcmp(line, "stats") == 0)
		tell(p);
	else if (strcmp(line, "exchange") == 0)
		exchange(p);
	else
		die("unknown command");
	fflush(stdout);
}

/* -- life --------------------------------------------------------------------------------- */

/* All addresses, but of the loopback device only. */
static int
listen_on(int type, uint16_t port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0), on = 1, bytes = 8 << 20;
	static const char device[] = "lo";

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, sizeof(device)) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    bind(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0)
		die("no socket");
	if (type == SOCK_STREAM && listen(fd, 64) != 0)
		die("listen");
	if (type == SOCK_DGRAM && setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)) != 0)
		die("IP_PKTINFO");
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));	/* as much as we may */
	return fd;
}

static void
load_keys(struct pool *p, const char *path)
{
	struct keyring ring = { 0 };
	char err[512];

	if (keyring_load(path, &ring, err, sizeof(err)) != TV_OK)
		die(err);
	if (seal_ring_add(&p->ring, span_of(ring.keys[0].bytes, KEY_BYTES)) != TV_OK)
		die("no key");
	keyring_wipe(&ring);
	p->envelope.ring = &p->ring;
}

static struct packet_scratch *
scratch_new(void)
{
	struct packet_scratch *s = malloc(sizeof(*s));

	if (s == NULL)
		die("no memory");
	packet_scratch_init(s);
	return s;
}

/* Returns the pings per second. */
static double
options(struct pool *p, int argc, char **argv)
{
	double rate = 1;
	char *colon;
	int c;

	while ((c = getopt(argc, argv, "a:g:m:p:n:k:r:z")) != -1) {
		if (c == 'a' && (colon = strchr(optarg, ':')) != NULL) {
			*colon = '\0';
			if (!addr_parse(optarg, (uint16_t)atoi(colon + 1), &p->gossipd))
				die("bad address");
		} else if (c == 'g') {
			p->name = optarg;
		} else if (c == 'm') {
			p->faces.net = (uint8_t)atoi(optarg);
		} else if (c == 'p') {
			p->faces.port = (uint16_t)atoi(optarg);
		} else if (c == 'n') {
			p->faces.count = (unsigned)strtoul(optarg, NULL, 10);
		} else if (c == 'k') {
			load_keys(p, optarg);
		} else if (c == 'r') {
			rate = strtod(optarg, NULL);
		} else if (c == 'z') {
			p->envelope.compress = true;
		} else {
			die("bad option");
		}
	}
	if (p->gossipd.len != 4 || p->name == NULL || p->faces.port == 0 || p->faces.count == 0 ||
	    p->faces.count > FACE_MAX || !(rate > 0))
		die("option missing or out of range");
	return rate;
}

int
main(int argc, char **argv)
{
	static struct pool pool = { .arena = ARENA_INIT(1u << 20), .envelope = { .version = 1 } };
	struct pool *p = &pool;
	ev_io udp, tcp, in;
	ev_timer ping;
	double rate;

	if (sodium_init() < 0)
		die("libsodium");
	errno = 0;
	rate = options(p, argc, argv);
	p->loop = ev_default_loop(0);
	rng_seed(&p->rng, 1);
	p->in = scratch_new();
	p->out = scratch_new();
	p->answer = wrapped(p, STREAM_ACCEPTED);
	p->udp = listen_on(SOCK_DGRAM, p->faces.port);
	p->tcp = listen_on(SOCK_STREAM, p->faces.port);
	ev_io_init(&udp, on_datagram, p->udp, EV_READ);
	ev_io_init(&tcp, on_accept, p->tcp, EV_READ);
	ev_io_init(&in, on_command, STDIN_FILENO, EV_READ);
	ev_timer_init(&ping, on_ping_time, 1 / rate, 1 / rate);
	udp.data = tcp.data = in.data = ping.data = p;
	ev_io_start(p->loop, &udp);
	ev_io_start(p->loop, &tcp);
	ev_io_start(p->loop, &in);
	ev_timer_start(p->loop, &ping);
	ev_run(p->loop, 0);
	seal_ring_wipe(&p->ring);
	return 0;
}
